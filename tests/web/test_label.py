"""``annotate label`` as a person uses it: in a browser, by keyboard."""

import json

import pytest

from annotator.base.errors import AnnotatorError
from annotator.labels import read_labels
from annotator.labels.blinding import blind
from annotator.labels.decisions import Decision
from annotator.rubrics import load_rubric
from annotator.traces import Trace, read_traces
from annotator.web.work import WorkRequest, prepare
from tests.web.conftest import label_command, tool, until

RUBRIC = load_rubric("comm_errors")
CODES = RUBRIC.scheme()
SYMPTOMS = load_rubric("symptoms")


def labels_in(file, codes=CODES):
    return list(read_labels([file], codes).labels)


def saved(page):
    page.wait_for_selector("#state.saved")


def go_on(page, item):
    """Press Enter and wait for the trace with this number, from 0."""
    page.keyboard.press("Enter")
    page.wait_for_selector(f'#main[data-item="{item}"]')


def test_five_traces_by_keyboard_are_there_after_the_server_was_killed(
    traces, tmp_path, launch, serve, visit
):
    served = launch(*label_command(traces))
    page = visit(served.address)
    assert page.inner_text("#count") == "0 of 17 labelled"
    picks = ["1", "2", "3", "4", "0"]
    selected = []
    for n, key in enumerate(picks):
        for _ in range(n + 1):
            page.keyboard.press("j")
        selected.append(page.evaluate("getSelection().toString()").rstrip("\n"))
        page.keyboard.press("e")
        page.keyboard.press(key)
        page.keyboard.press("+")
        saved(page)
        go_on(page, n + 1)
    assert page.inner_text("#count") == "5 of 17 labelled"
    served.kill()

    found = labels_in(tmp_path / "labels.jsonl")
    assert [label.primary for label in found] == ["C1a", "C1b", "C2", "C3a", None]
    assert [label.evidence for label in found] == [(text,) for text in selected]
    by_id = {one.id: one for one in read_traces([str(traces)]) if isinstance(one, Trace)}
    for label in found:
        [span] = label.spans
        source = by_id[label.trace_id].source(span.source)
        assert source is not None
        assert source.text[span.start : span.end] == span.quote

    again = visit(serve(*label_command(traces)).address)
    assert again.inner_text("#count") == "5 of 17 labelled"
    assert again.get_attribute("#main", "data-item") == "5"  # where one left off
    again.keyboard.press("ArrowLeft")
    again.wait_for_selector('#main[data-item="4"]')
    assert again.inner_text("ul.evidence q") == selected[4]
    assert again.get_attribute('[data-focus="none"]', "aria-pressed") == "true"


def test_primary_secondary_note_skip_and_undo(traces, tmp_path, serve, visit, lines):
    page = visit(serve(*label_command(traces, rubric="symptoms")).address)
    first, second = (code.id for code in SYMPTOMS.codes[3:7:3])
    for key in ("4", "7"):
        page.keyboard.press(key)
    page.keyboard.press("m")
    page.keyboard.type("three times 5 j k e")  # keys in a note are no commands
    page.keyboard.press("Escape")
    until(lambda: [one.get("note") for one in lines()] == ["three times 5 j k e"])
    [line] = lines()
    assert (line["primary"], line["secondary"]) == (first, [second])
    page.keyboard.press("p")  # the code chosen last becomes the primary one
    until(lambda: lines()[0]["primary"] == second)
    assert lines()[0]["secondary"] == [first]

    go_on(page, 1)
    page.keyboard.press("s")
    page.wait_for_selector('#main[data-item="2"]')
    assert lines()[1]["skipped"] is True
    assert page.inner_text("#count") == "1 of 15 labelled, 1 skipped"
    assert (
        len(labels_in(tmp_path / "labels.jsonl", SYMPTOMS.scheme())) == 1
    )  # skipped is not labelled

    page.keyboard.press("u")  # the skip
    page.wait_for_selector('#main[data-item="1"]')
    assert len(lines()) == 1
    page.keyboard.press("u")  # the change of the primary code
    page.wait_for_selector('#main[data-item="0"]')
    until(lambda: lines()[0]["primary"] == first)


def test_a_selection_by_mouse_across_two_messages_is_no_quote(page):
    page.evaluate(
        """() => {
          const [one, two] = document.querySelectorAll(".message .source");
          const range = document.createRange();
          range.setStart(one.querySelector(".piece").firstChild, 3);
          range.setEnd(two.querySelector(".piece").firstChild, 5);
          getSelection().addRange(range);
        }"""
    )
    page.keyboard.press("e")
    page.wait_for_selector("#said.error")
    assert "one message" in page.inner_text("#said")
    assert page.locator("ul.evidence li").count() == 0


def test_a_selection_that_cuts_words_takes_them_whole(page):
    text = page.evaluate(
        """() => {
          const piece = document.querySelector(".message .source .piece").firstChild;
          const words = [...piece.data.matchAll(/[a-z]{4,}/g)].slice(0, 2);
          const range = document.createRange();
          range.setStart(piece, words[0].index + 2);
          range.setEnd(piece, words[1].index + 2);
          getSelection().addRange(range);
          return piece.data.slice(words[0].index, words[1].index + words[1][0].length);
        }"""
    )
    page.keyboard.press("e")
    page.wait_for_selector("ul.evidence li")
    assert text in page.inner_text("ul.evidence li")


def test_it_is_blind_to_judges_and_to_other_annotators(traces, tmp_path, serve, visit):
    tool(traces, "--rubric", "comm_errors", "--out", "run", cwd=tmp_path)
    other = {"trace_id": "demo/coop/chess_clock_task/11/f2_f3", "rubric": "comm_errors"}
    other |= {"annotator": "other", "primary": "C4b", "note": "what the other one thinks"}
    (tmp_path / "labels.jsonl").write_text(json.dumps(other) + "\n")
    served = serve(*label_command(traces))
    page = visit(served.address)
    answers = [page.content()]
    for n in range(17):
        answers.append(page.evaluate(f"fetch('api/item?n={n}').then((one) => one.text())"))
    answers.append(page.evaluate("fetch('api/state').then((one) => one.text())"))
    for text in answers:
        assert "what the other one thinks" not in text
        assert '"findings"' not in text
    assert page.inner_text("#count") == "0 of 17 labelled"


def test_a_sheet_is_labelled_in_its_order_and_calibrates(traces, tmp_path, serve, visit):
    tool(traces, "--rubric", "symptoms", "--out", "run", cwd=tmp_path)
    sample = ("sample", "run", "--rubric", "symptoms", "-n", "6", "--split", "all", "--double")
    tool(*sample, "0", "--uniform", "--out", "sheet.csv", cwd=tmp_path)
    rows = (tmp_path / "sheet.csv").read_text().splitlines()[1:]
    drawn = [row.split(",")[1] for row in rows]
    served = serve("label", "sheet.csv", "--annotator", "ann")  # the sheet tells the rest
    page = visit(served.address)
    for n in range(len(drawn)):
        assert page.inner_text("h1") == drawn[n]
        page.keyboard.press("0")
        saved(page)
        if n + 1 < len(drawn):
            go_on(page, n + 1)
    found = labels_in(tmp_path / "labels.jsonl", load_rubric("symptoms").scheme())
    assert [blind(label.trace_id) for label in found] == drawn
    assert len(drawn) == 6  # of the 15 failed ones, of which the rules decide 3
    assert {label.inclusion_probability for label in found} == {None}  # it is in the design
    said = tool("calibrate", "-v", "run", "--labels", "labels.jsonl", cwd=tmp_path)
    assert "6 labels by ann. 6 of 6 drawn traces are labelled. A uniform" in said.out


def test_a_blinded_sheet_stays_blinded_and_each_rater_has_a_name(traces, tmp_path):
    tool(traces, "--rubric", "symptoms", "--out", "run", cwd=tmp_path)
    tool("sample", "run", "-n", "4", "--uniform", "--double", "2", cwd=tmp_path)
    sheet, file = str(tmp_path / "run/sheet.csv"), tmp_path / "run/labels.jsonl"

    def work(annotator, **options):
        return prepare(WorkRequest([sheet], annotator, "symptoms", file, **options))

    for rater, annotator in ((1, "ann"), (2, "bob")):
        with work(annotator, rater=rater) as found:
            for item in found.items:
                codes = {"ann": "work_overlap", "bob": "repetition"}
                found.store.decide(Decision(item.trace_id, codes[annotator]), item.extra)
    before = file.read_bytes()
    message = "ann has labelled this sheet as rater 1: give the other"
    with pytest.raises(AnnotatorError, match=message), work("ann", rater=2):
        pass
    with work("ann"):  # goes on
        pass
    assert file.read_bytes() == before
    with work("gold", pair=("ann", "bob")) as found:
        assert len(found.items) == 2
        for item in found.items:
            assert item.alias == blind(item.trace_id)
            found.store.decide(Decision(item.trace_id, "repetition"), item.extra)
    said = tool("calibrate", "-v", "run", cwd=tmp_path)
    assert "4 labels by gold, ann. 4 of 4 drawn traces are labelled." in said.out


def test_another_sample_needs_a_file_of_its_own_and_a_top_up_does_not(traces, tmp_path):
    tool(traces, "--rubric", "symptoms", "--out", "run", cwd=tmp_path)
    drawn = ("sample", "run", "--double", "0", "--out")
    tool(*drawn, "run/one.csv", "-n", "6", "--floor", "1", cwd=tmp_path)
    tool(*drawn, "run/two.csv", "-n", "5", "--uniform", "--seed", "9", cwd=tmp_path)
    more = ("--top-up", "status:undecided=2", "--from", "run/one.csv.design.json")
    tool(*drawn, "run/more.csv", *more, cwd=tmp_path)
    file = tmp_path / "run/labels.jsonl"

    def work(sheet):
        return prepare(WorkRequest([str(tmp_path / sheet)], "ann", "symptoms", file))

    with work("run/one.csv") as found:
        for item in found.items:
            found.store.decide(Decision(item.trace_id, "repetition"), item.extra)
    refused = r"6 labels by ann of another sample.*--labels .*two-labels\.jsonl.*--top-up"
    with pytest.raises(AnnotatorError, match=refused), work("run/two.csv"):
        pass
    with work("run/more.csv") as found:
        found.store.decide(Decision(found.items[0].trace_id, None), found.items[0].extra)
    with work("run/one.csv") as found:
        assert len(found.items) == 6
        assert found.next_command == f"annotate calibrate {tmp_path / 'run'}"


def test_two_annotators_are_adjudicated(traces, tmp_path, serve, visit):
    file = tmp_path / "labels.jsonl"
    for annotator, keys in (("ann", "010"), ("bob", "020")):
        served = serve(*label_command(traces, annotator=annotator))
        page = visit(served.address)
        for n, key in enumerate(keys):
            if key != "0":
                page.keyboard.press("j")
                page.keyboard.press("e")
            page.keyboard.press(key)
            saved(page)
            go_on(page, n + 1)
        served.stop()
    adjudicate = ("label", traces, "--rubric", "comm_errors", "--labels", "gold.jsonl")
    adjudicate += ("--adjudicate", "ann", "bob", "--from", "labels.jsonl")
    page = visit(serve(*adjudicate).address)
    assert page.inner_text("#count") == "0 of 1 labelled"  # the two others they agree on
    assert page.locator("article.card.first .chip").inner_text() == "C1a"
    assert page.locator("article.card.second .chip").inner_text() == "C1b"
    assert page.locator("mark").first.inner_text() == page.locator("article.first q").inner_text()
    page.keyboard.press("b")
    saved(page)
    gold = {one.trace_id: one for one in labels_in(tmp_path / "gold.jsonl")}
    assert sorted(str(one.primary) for one in gold.values()) == ["C1b", "None", "None"]
    assert {one.annotator for one in gold.values()} == {"gold"}
    bob = next(one for one in labels_in(file) if one.annotator == "bob" and one.primary)
    assert gold[bob.trace_id].spans == tuple(
        one.__class__(one.quote, one.source, one.start, one.end, None) for one in bob.spans
    )


def test_a_gold_that_is_not_finished_says_so_and_follows_its_annotators(
    traces, tmp_path, serve, visit
):
    tool("run", "traces", "--rubric", "comm_errors", "--out", "run", cwd=tmp_path)
    ids = sorted(one.id for one in read_traces([str(traces)]) if isinstance(one, Trace))[:4]

    def write(annotator, codes):
        rows = [
            {"trace_id": one, "rubric": "comm_errors", "annotator": annotator, "primary": code}
            for one, code in zip(ids, codes, strict=True)
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{annotator}.jsonl").write_text(text)

    write("ann", [None, "C1a", None, "C2"])
    write("bob", [None, "C1a", None, "C3a"])
    adjudicate = ("label", traces, "--rubric", "comm_errors", "--labels", "gold.jsonl")
    adjudicate += ("--adjudicate", "ann", "bob", "--from", "ann.jsonl", "--from", "bob.jsonl")
    serve(*adjudicate).stop()
    said = tool("calibrate", "-v", "run", "--labels", "gold.jsonl", cwd=tmp_path)
    assert "3 labels by gold." in said.out
    assert "The judge left 2 labelled traces undecided, where people say" in said.out
    assert "1 traces of the sheet are not labelled yet." in said.out

    write("bob", [None, "C1b", None, "C3a"])  # they agreed on C1a before
    page = visit(serve(*adjudicate).address)
    assert page.inner_text("#count") == "0 of 2 labelled"
    assert "1 trace they agreed on before is open again" in page.inner_text("main")
    assert [one.primary for one in labels_in(tmp_path / "gold.jsonl")] == [None, None]


def test_a_label_of_an_earlier_session_is_undone_only_if_asked_twice(traces, serve, visit, lines):
    served = serve(*label_command(traces))
    page = visit(served.address)
    page.keyboard.press("1")
    saved(page)
    served.stop()
    page = visit(serve(*label_command(traces)).address)
    page.keyboard.press("u")
    until(lambda: "of an earlier session" in page.inner_text("#said"))
    assert len(lines()) == 1
    page.keyboard.press("u")
    until(lambda: not lines())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--labels", "labels.csv"), "label into a .jsonl file"),
        (("--labels", "taken.jsonl"), "another process"),
        (("--annotator", "gold", "--adjudicate", "a", "gold"), "is one of the two"),
        (("--adjudicate", "a", "b", "--from", "none.jsonl"), "no such file"),
        (("--rubric", "symptom"), "did you mean symptoms"),
        (("--traces", "."), "traces: no sheet that can be read; --traces says where"),
    ],
)
def test_what_cannot_be_labelled_is_said(traces, launch, annotate_cli, arguments, says):
    given = {"--rubric": ("comm_errors",), "--labels": ("labels.jsonl",), "--annotator": ("ann",)}
    if "taken.jsonl" in arguments:
        launch("label", traces, "--rubric", "comm_errors", "--labels", "taken.jsonl", "--annotator",
               "first")  # fmt: skip
    more = [one for name, value in given.items() if name not in arguments for one in (name, *value)]
    done = annotate_cli("label", traces, *arguments, *more)
    assert done.code == 2
    assert says in done.err


def test_ctrl_c_ends_it_without_a_traceback(traces, launch):
    code, said = launch(*label_command(traces)).interrupt()
    assert code == 0
    assert said.splitlines() == [
        "comm_errors: labels by ann go to labels.jsonl",
        "served on this machine only; Ctrl-C ends it",
    ]


def test_where_there_is_nothing_to_label_no_file_is_made(traces, tmp_path, annotate_cli):
    tool("run", "traces", "--rubric", "symptoms", "--out", "run", cwd=tmp_path)
    given = ("--rubric", "symptoms", "--labels", "labels.jsonl", "--annotator", "ann")
    done = annotate_cli("label", "run", *given)
    assert done.code == 2
    assert "run is a run: draw a sheet from it with annotate sample" in done.err
    assert not (tmp_path / "labels.jsonl").exists()
    (tmp_path / "logs" / "broken").mkdir(parents=True)
    (tmp_path / "logs" / "broken" / "conversation.json").write_text("{broken")
    done = annotate_cli("label", "logs", *given)
    assert done.code == 2
    assert "1 trace cannot be read" in done.err
