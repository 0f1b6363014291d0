"""A codebook after people's decisions, and its files."""

import json
from dataclasses import replace

import pytest

from annotator.base.errors import AnnotatorError
from annotator.induction.codebook import (
    Codebook,
    CodeDecision,
    InducedCode,
    OpenFinding,
    decide,
    open_codebook,
    read_codebook,
    save_codebook,
)
from annotator.rubrics import load_rubric


def make_code(code_id, *findings):
    texts = (code_id.upper(), f"{code_id} is", f"{code_id} shows", "x")
    return InducedCode(code_id, *texts, findings=findings)


# Findings 1 and 2 are of one trace; 5 has no code.
BOOK = Codebook(
    title="T",
    source="S",
    codes=(make_code("a", "1", "2"), make_code("b", "3"), make_code("c", "4")),
    findings=tuple(
        OpenFinding(name, trace, f"finding {name}", "because", ())
        for name, trace in (("1", "t1"), ("2", "t1"), ("3", "t2"), ("4", "t3"), ("5", "t3"))
    ),
    traces={"t1": {"passed": False}, "t2": {"passed": True}, "t3": {}, "t4": {}},
)
TEXTS = {"id": "d", "name": "D", "definition": "d is", "evidence": "d shows"}
CASES = {
    "merge": (CodeDecision("merge", ("b", "a")), {"b": "312", "c": "4"}, "5"),
    "merge three": (CodeDecision("merge", ("c", "a", "b")), {"c": "4123"}, "5"),
    "drop": (CodeDecision("drop", ("a",)), {"b": "3", "c": "4"}, "125"),
    "drop two": (CodeDecision("drop", ("a", "c")), {"b": "3"}, "1245"),
    "move": (CodeDecision("move", ("c",), ("1", "3")), {"a": "2", "b": "", "c": "413"}, "5"),
    "move twice": (CodeDecision("move", ("c",), ("1", "1")), {"a": "2", "b": "3", "c": "41"}, "5"),
    "move some": (CodeDecision("move", ("a",), ("1", "5")), {"a": "125", "b": "3", "c": "4"}, ""),
    "move out": (CodeDecision("move", (), ("2", "4")), {"a": "1", "b": "3", "c": ""}, "245"),
    "split": (
        CodeDecision("split", ("a",), ("2",), **TEXTS),
        {"a": "1", "b": "3", "c": "4", "d": "2"},
        "5",
    ),
    "split off no code": (
        CodeDecision("split", (), ("5",), **TEXTS),
        {"a": "12", "b": "3", "c": "4", "d": "5"},
        "",
    ),
    "rename": (CodeDecision("rename", ("a",), id="z"), {"z": "12", "b": "3", "c": "4"}, "5"),
}


@pytest.mark.parametrize(("decision", "codes", "uncoded"), CASES.values(), ids=CASES)
def test_a_decision_moves_findings_and_loses_none(decision, codes, uncoded):
    book = BOOK.apply(decision)
    assert {code.id: "".join(code.findings) for code in book.codes} == codes
    assert "".join(book.uncoded) == uncoded
    assert BOOK.apply(decision) == BOOK.replay([decision])


@pytest.mark.parametrize(
    ("given", "group"),
    [("no plan", "No plan"), ("  No   PLAN ", "No plan"), ("none", "none"), (" ", "")],
)
def test_a_group_keeps_the_letters_that_it_has_in_other_codes(given, group):
    book = BOOK.apply(CodeDecision("rename", ("a",), group=" No  plan"))
    assert (
        book.apply(CodeDecision("split", (), ("5",), **TEXTS, group=given)).code("d").group == group
    )
    assert [code.group for code in book.to_rubric().codes] == ["No plan", None, None]


@pytest.mark.parametrize(
    ("decision", "says"),
    [
        (CodeDecision("merge", ("a", "gone")), "there is no code 'gone'"),
        (CodeDecision("merge", ("a",)), "merge: cannot be done to 1 code"),
        (CodeDecision("merge", ("a", "a")), "merge: cannot be done to 1 code"),
        (CodeDecision("rename", (), id="z"), "rename: cannot be done to 0 codes"),
        (CodeDecision("rename", ("a", "b"), id="z"), "rename: cannot be done to 2 codes"),
        (CodeDecision("rename", ("a",)), "rename: this changes nothing"),
        (CodeDecision("rename", ("a",), id="b"), "b defined twice"),
        (CodeDecision("rename", ("a",), id="none"), "'none' is the answer for no finding"),
        (CodeDecision("rename", ("a",), id="a b"), "code 'a b': an id is a letter or digit"),
        (CodeDecision("rename", ("a",), definition=" "), "the definition of the code 'a' is empty"),
        (CodeDecision("rename", ("a",), name="x" * 20_001), "code 'a': name: "),
        (CodeDecision("drop"), "drop: cannot be done to 0 codes"),
        (CodeDecision("accept"), "accept: cannot be done to 0 codes"),
        (CodeDecision("move", ("a",), ("9",)), "there is no finding '9'"),
        (CodeDecision("move", ("a",), ("1", "2")), "move: this changes nothing"),
        (CodeDecision("move", (), ("5",)), "move: this changes nothing"),
        (CodeDecision("move", ("a", "b"), ("4",)), "move: cannot be done to 2 codes"),
        (
            CodeDecision("split", ("a",), ("3",), **TEXTS),
            "the finding '3' is in another code by now",
        ),
        (CodeDecision("split", ("a",), (), **TEXTS), "split: no finding is chosen"),
        (CodeDecision("split", ("a",), ("1",), **TEXTS | {"id": "b"}), "b defined twice"),
        (CodeDecision("split", ("a",), ("1",), id="d"), "the name of the code 'd' is empty"),
    ],
)
def test_a_decision_that_cannot_be_is_refused(decision, says):
    with pytest.raises(AnnotatorError, match=says):
        BOOK.apply(decision)


def test_only_the_given_texts_change_and_an_empty_one_goes():
    code = BOOK.apply(CodeDecision("rename", ("a",), name=" New ", not_="")).code("a")
    assert code == replace(BOOK.code("a"), name="New", not_="")
    assert BOOK.apply(CodeDecision("accept", ("a",))).code("a").accepted


ACCEPT, DROP, MERGE, UNDO = (
    *(
        CodeDecision("accept", ("a",)),
        CodeDecision("drop", ("c",)),
        CodeDecision("merge", ("a", "b")),
    ),
    CodeDecision("undo"),
)


@pytest.mark.parametrize(
    ("decisions", "stand"),
    [
        ([ACCEPT, UNDO], []),
        ([ACCEPT, DROP, UNDO], [ACCEPT]),
        ([ACCEPT, DROP, UNDO, UNDO], []),  # an undo is not undone: it goes one further back
        ([ACCEPT, UNDO, DROP, MERGE, UNDO], [DROP]),
        ([DROP, UNDO, DROP], [DROP]),
    ],
)
def test_undo_takes_the_last_standing_decision_back(decisions, stand):
    assert BOOK.replay(decisions) == BOOK.replay(stand)


def test_undo_of_nothing_is_refused():
    with pytest.raises(AnnotatorError, match="no decision to take back"):
        BOOK.replay([ACCEPT, UNDO, UNDO])


def test_traces_of_a_code_count_once():
    assert BOOK.list_traces(BOOK.code("a")) == ("t1",)


@pytest.fixture
def folder(tmp_path):
    save_codebook(BOOK, tmp_path)
    return tmp_path


def read_log(folder):
    return [json.loads(line) for line in (folder / "decisions.jsonl").read_text().splitlines()]


def test_a_decision_is_a_line_and_the_rubric_follows(folder):
    assert load_rubric(str(folder / "rubric.yaml")).scheme().ids == ("a", "b", "c")
    book = decide(folder, replace(MERGE, why="the same", by="ann"))
    [line] = read_log(folder)
    assert line.pop("time").endswith("+00:00")
    assert line == {"action": "merge", "codes": ["a", "b"], "why": "the same", "by": "ann"}
    assert load_rubric(str(folder / "rubric.yaml")).scheme().ids == ("a", "c")
    assert open_codebook(folder) == book
    assert read_codebook(folder)[0] == BOOK
    decide(folder, UNDO)
    assert open_codebook(folder) == BOOK
    assert [line["action"] for line in read_log(folder)] == ["merge", "undo"]
    for code in "abc":
        decide(folder, CodeDecision("drop", (code,)))
    assert not (folder / "rubric.yaml").exists()  # a rubric has a code


def test_a_code_of_passed_runs_is_in_the_rubric_once_it_is_accepted(tmp_path):
    book = replace(BOOK, codes=(replace(BOOK.codes[0], in_passed=True), *BOOK.codes[1:]))
    save_codebook(book, tmp_path)
    assert load_rubric(str(tmp_path / "rubric.yaml")).scheme().ids == ("b", "c")
    decide(tmp_path, ACCEPT)
    assert load_rubric(str(tmp_path / "rubric.yaml")).scheme().ids == ("a", "b", "c")


@pytest.mark.parametrize("decision", [UNDO, CodeDecision("drop", ("gone",))])
def test_nothing_refused_is_logged(folder, decision):
    with pytest.raises(AnnotatorError):
        decide(folder, decision)
    assert read_log(folder) == []


def test_a_torn_last_line_does_not_count(folder):
    decide(folder, ACCEPT)
    with (folder / "decisions.jsonl").open("a") as log:
        log.write('{"action": "dr')
    assert open_codebook(folder) == BOOK.apply(ACCEPT)
    decide(folder, DROP)
    assert [line["action"] for line in read_log(folder)] == ["accept", "drop"]


def damage(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("codebook.json", "{", "", "codebook.json: damaged: "),
        ("codebook.json", '"title"', '"name"', "codebook.json: damaged: title: "),
        ("codebook.json", '"4"', '"9"', "damaged: the finding '9' is missing"),
        ("codebook.json", '"4"', '"1"', "damaged: the finding '1' is there twice"),
        ("decisions.jsonl", "accept", "love", "decisions.jsonl, line 1: no decision: "),
        ("decisions.jsonl", '"a"', '"q"', "does not fit codebook.json: there is no code 'q'"),
    ],
)
def test_a_damaged_file_is_named(folder, file, old, new, says):
    decide(folder, ACCEPT)
    damage(folder / file, old, new)
    with pytest.raises(AnnotatorError, match=says):
        open_codebook(folder)
    with pytest.raises(AnnotatorError, match=says):
        decide(folder, DROP)


def test_a_codebook_that_was_decided_about_is_not_replaced(folder, tmp_path):
    decide(folder, DROP)
    save_codebook(BOOK, folder)  # the same one
    assert load_rubric(str(folder / "rubric.yaml")).scheme().ids == ("a", "b")
    with pytest.raises(AnnotatorError, match="1 decision about another codebook"):
        save_codebook(replace(BOOK, title="Another"), folder)
    assert open_codebook(folder) == BOOK.apply(DROP)


def test_a_folder_without_a_codebook_is_named(tmp_path):
    with pytest.raises(AnnotatorError, match="no codebook here"):
        open_codebook(tmp_path)


def test_a_decision_changes_which_codes_passed_runs_have(tmp_path):
    names = [f"{side}{n}" for side in ("failed", "passed") for n in range(10)]
    having = [name for name in names if int(name[-1]) < 8]
    book = Codebook(
        title="T",
        source="S",
        codes=(replace(make_code("a", *having), in_passed=True),),
        findings=tuple(OpenFinding(name, name, name, "because", ()) for name in names),
        traces={name: {"passed": name[:6] == "passed", "task": name[-1]} for name in names},
    )
    save_codebook(book, tmp_path)
    assert not (tmp_path / "rubric.yaml").exists()
    split = CodeDecision("split", ("a",), tuple(x for x in having if x[0] == "p"), **TEXTS)
    assert [(x.id, x.in_passed) for x in decide(tmp_path, split).codes] == [
        ("a", False),
        ("d", True),
    ]
    assert load_rubric(str(tmp_path / "rubric.yaml")).scheme().ids == ("a",)
    [merged] = decide(tmp_path, CodeDecision("merge", ("a", "d"))).codes
    assert merged.in_passed
