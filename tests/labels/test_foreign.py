"""Labels that people made for other tools, from the command line to a corrected table."""

import json
from pathlib import Path

import pyarrow
import pytest
import yaml
from pyarrow import parquet

from annotator.labels import LabelFiles
from annotator.labels.trace_index import TraceIndex
from annotator.rubrics import load_rubric


def agentrx(trace_id, root, *categories):
    failures = [
        {"failure_id": n, "step_number": 10 + n, "failure_category": name, "failed_agent": "Surfer"}
        for n, name in enumerate(categories, 1)
    ]
    cause = {"failure_id": root, "reason_for_root_cause": "It guessed."}
    return {"trajectory_id": trace_id, "failures": failures, "root_cause": cause}


AGENTRX = [
    agentrx("t1", 2, "Instruction/Plan Adherence Failure", "Invention of new information"),
    agentrx("t2", 1, "intent-plan misalignment", "Guardrails triggered", "Guardrails Triggered"),
    agentrx("t3", 1, "Misinterpretation of Tool Output / Handoff Failure"),
    agentrx("t4", 9, "System Failure"),
    agentrx("t5", 1, "Bad weather"),
]


@pytest.fixture
def write(tmp_path):
    def write(name, value):
        text = value if isinstance(value, str) else json.dumps(value)
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def convert(file, rubric, annotator="gold", ids=None, spelled=None):
    """Return the rows, and what is left out."""
    index = None if ids is None else TraceIndex(ids)
    files = LabelFiles([file])
    result, _, _ = files.convert(load_rubric(rubric).scheme(), annotator, index, spelled)
    return [row.fields for row in result.rows], result


def test_agentrx(write):
    file = write("truth.json", AGENTRX)
    rows, result = convert(file, "agentrx", ids=[f"{n}/t{n}.json" for n in range(1, 5)])
    assert [(row["trace_id"], row["primary"], row["secondary"]) for row in rows] == [
        ("1/t1.json", "invention", ["adherence"]),
        ("2/t2.json", "misalignment", ["guardrails"]),
        ("3/t3.json", "misinterpretation", []),
    ]
    assert (rows[0]["agent"], rows[0]["step"]) == ("Surfer", 12)
    assert (result.undecided, result.without_trace) == (["t4"], ["t5"])
    assert result.unmapped == {"Bad weather": 1}
    rows, _ = convert(write("t.json", AGENTRX[4:]), "agentrx", spelled={"Bad weather": "system"})
    assert [row["primary"] for row in rows] == ["system"]


def test_labels_by_modes(write):
    present = {"a": {"present": ["FM-1.2", "FM-3.2"], "notes": "x"}, "b": {"present": []}}
    file = write("gold.json", {"meta": {"n": 1}, "labels": present})
    rows, _ = convert(file, "mast", "ann", ["AG2/bench/a", "AG2/bench/b"])
    same = {"rubric": "mast", "annotator": "ann"}
    none = {"primary": "none", "secondary": [], "note": ""}
    assert rows == [
        {"trace_id": "AG2/bench/a", **same, "secondary": ["1.2", "3.2"], "note": "x"},
        {"trace_id": "AG2/bench/b", **same, **none},
    ]


MAD = {"mas_name": "AG2", "llm_name": "m", "benchmark_name": "b", "trace_id": 3}
MAD |= {"trace": {"x": "one\u2028line"}}


def vote(mode, *votes):
    return {"failure mode": f"{mode}\nIts definition."} | {
        f"annotator_{n}": value for n, value in enumerate(votes, 1)
    }


FOLDER = Path(__file__).parent / "data"
TABLES = yaml.safe_load((FOLDER / "records.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", TABLES["records"])
def test_records(write, case):
    rows, _ = convert(write("l.json", case["record"]), "mast", "me")
    codes = [[row["trace_id"], row["annotator"], row["secondary"]] for row in rows]
    assert codes == case["labels"]


def test_lines_of_records(write):
    record = MAD | {"mast_annotation": {"1.1": 1}}
    rows, _ = convert(write("mad.jsonl", json.dumps(record, ensure_ascii=False) + "\n"), "mast")
    assert [row["trace_id"] for row in rows] == ["AG2/m/b/3"]


def test_categories_without_a_code_are_listed_with_the_option(write):
    errors = [{"category": "Goal Deviation", "location": "s1"}, {"category": "Repeats steps"}]
    _, result = convert(write("abc.json", {"trace_id": "t", "errors": errors}), "mast")
    assert list(result.explain()) == [
        "no code for 'Goal Deviation' (1 label)",
        "to give them codes: --code WORD=CODE, or a rubric with codes of these names"
        " (annotate rubric new)",
    ]


def test_who_and_when_names_no_category(write):
    record = {"question_ID": "q", "history": [], "mistake_agent": "Coder", "mistake_step": "4"}
    file = write("w.json", record)
    rows, result = convert(file, "agentrx")
    assert (rows, result.undecided) == ([], ["q"])
    [row], _ = convert(file, "who_and_when")
    assert (row["primary"], row["agent"], row["step"]) == ("mistake", "Coder", 5)


@pytest.mark.parametrize("case", TABLES["sheets"])
def test_spreadsheets(annotate_cli, tmp_path, write, case):
    text, rubric, expected = case["text"], case.get("rubric", "mast"), case["labels"]
    write("sheet.csv", text)
    args = ("labels", "sheet.csv", "--rubric", rubric, "--annotator", "me", "--out", "l.jsonl")
    done = annotate_cli(*args)
    rows = [json.loads(line) for line in (tmp_path / "l.jsonl").read_text().splitlines()]
    assert [
        [row["trace_id"], row["annotator"], row.get("primary"), row["secondary"]] for row in rows
    ] == expected
    assert ("columns not used: cost" in done.err) == ("cost" in text)
    assert ("not labelled yet: t3" in done.out) == ("t3" in text)
    assert ("no decisive category is named: t1" in done.out) == (
        "agentrx" in rubric and not expected
    )
    assert ("no code for" in done.out) == ("99" in text)
    assert done.code == ("t3" in text or not expected)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "no label that is known"),
        ("[1]", "found a number, expected an object with a label"),
        ("id,colour\nt1,red\n", "expected either a column category"),
        ("id,category,1.1\nt1,1.1,1\n", "has more than one of them"),
        ("id,1.1\nt1,maybe\n,1\n", "'maybe'; expected 1 or 0"),
        ("id,category,step\nt1,1.1,late\n", "expected a number"),
        ('id,category\nt1,"1.1\n', "not a table"),
        ("trace_id,rubric,annotator,primary\nt,mast,a,1.1\n", "takes the file as it is"),
    ],
)
def test_files_that_cannot_be_used(annotate_cli, write, text, words):
    file = write("labels.json" if text[0] in "{[" else "sheet.csv", text)
    done = annotate_cli("labels", file, "--rubric", "mast", "--out", "l.jsonl")
    assert done.code == 2
    assert words in done.err


KEPT = yaml.safe_load((FOLDER / "kept.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", KEPT, ids=lambda case: case["name"])
def test_files_as_people_keep_them(annotate_cli, tmp_path, case):
    (tmp_path / case["file"]).write_text(case["text"], encoding=case.get("encoding", "utf-8"))
    rubric, options = case.get("rubric", "mast"), case.get("options", ())
    done = annotate_cli("labels", case["file"], "--rubric", rubric, "-o", "out.jsonl", *options)
    out = tmp_path / "out.jsonl"
    rows = list(map(json.loads, out.read_text().splitlines())) if out.exists() else []
    assert [
        [
            row["trace_id"],
            row["annotator"],
            [c for c in (row.get("primary"), *row["secondary"]) if c and c != "none"],
        ]
        for row in rows
    ] == [[trace, who, list(map(str, codes))] for trace, who, codes in case.get("labels", ())]
    text = " ".join((done.out + done.err).split())
    assert all(words in text for words in case.get("words", ())), text
    assert (done.code == 0) == ("labels" in case and done.out.count("\n") == 1)


def test_parquet_of_argilla(annotate_cli, tmp_path):
    """Drafts are no labels."""
    answers = {"code.responses": [["1.3", "3.2"], ["1.1"]], "code.responses.users": ["u", "v"]}
    row = {"id": "x", "trace_id": "t", **answers, "code.responses.status": ["submitted", "draft"]}
    parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / "l.parquet")
    done = annotate_cli("labels", "l.parquet", "--rubric", "mast", "-o", "l.jsonl")
    assert "not labelled yet: t" in done.out
    rows = list(map(json.loads, (tmp_path / "l.jsonl").read_text().splitlines()))
    assert [(row["trace_id"], row["annotator"], row["secondary"]) for row in rows] == [
        ("t", "u", ["1.3", "3.2"])
    ]


def test_an_id_that_several_traces_end_with_is_no_id(write):
    file = write("truth.json", AGENTRX[:1])
    rows, result = convert(file, "agentrx", ids=["a/t1.json", "b/t1.json"])
    assert (rows, result.without_trace) == ([], ["t1"])


JUDGE = """
from annotator import Claim, Quote, Verdict

class Judge:
    id, settings = "scripted", {}

    def codes(self, rubric):
        return {code.id for code in rubric.codes}

    def judge(self, trace, rubric):
        n = int(trace.id[1:].split(".")[0])
        quote = Quote("I write it.", "message:1")
        codes = ["1.2"] if n in (0, 1, 2) else ["1.1"] if n == 3 else []
        claims = tuple(Claim(code, "So.", (quote,)) for code in codes)
        return Verdict(claims) if claims else Verdict.none()
"""


def test_from_labels_to_a_corrected_table(annotate_cli, tmp_path, write):
    """The rules judge has no rule for MAST; the way is the same with any judge."""
    talk = [{"role": "a", "content": "I write it."}, {"role": "b", "content": "I test it."}]
    names = [f"t{n}" for n in range(12)]
    (tmp_path / "traces").mkdir()
    for name in names:
        (tmp_path / "traces" / f"{name}.json").write_text(json.dumps(talk))
    present = {name: {"present": ["FM-1.2"] if n < 4 else []} for n, name in enumerate(names)}
    write("gold.json", {"labels": present})
    write("judge.py", JUDGE)
    args = ("labels", "gold.json", "--rubric", "mast", "--traces", "traces", "--out", "l.jsonl")
    assert annotate_cli(*args).code == 0
    done = annotate_cli("run", "traces", "--rubric", "mast", "--judge", "judge:Judge", "--out", "r")
    assert done.code == 0, done.err
    held = annotate_cli("calibrate", "-v", "r", "--labels", "l.jsonl", "--out", "c.json")
    assert held.code == 0, held.err
    # By code 3 of 4 findings are right, by group all 4 of 4.
    assert "11/12  91.7 %" in held.out
    assert "group  specification or not: 100.0 %" in held.out
    table = annotate_cli("report", "r", "--calibration", "c.json", "--format", "json").out
    (rubric,) = json.loads(table)
    groups = {row["code"]: row for row in rubric["code_groups"]}
    assert groups["specification"]["k"] == 4
    corrected = groups["specification"]["corrected"]
    assert corrected["value"] == pytest.approx(1 / 3, abs=0.05)
    assert corrected["low"] < 1 / 3 < corrected["high"]


def test_traces_that_cannot_be_read_are_said_and_have_their_ids(annotate_cli, tmp_path, write):
    write("truth.json", AGENTRX)
    (tmp_path / "traces").mkdir()
    write("traces/t1.json", "{")
    write("traces/notes.json", {})
    args = ("labels", "truth.json", "--rubric", "agentrx", "--traces", "traces", "--out", "l.jsonl")
    done = annotate_cli(*args)
    assert "t1.json: " in done.err
    assert "l.jsonl: 1 of 5 labels written" in done.out


def test_a_broken_utf_8_sheet_is_not_windows_1252(annotate_cli, tmp_path):
    """An umlaut of UTF-8 beside a byte that is none."""
    (tmp_path / "s.csv").write_bytes(b"trace_id,category,note\nt\xc3\xbc,1.1,fr\xfch\n")
    done = annotate_cli("labels", "s.csv", "--rubric", "mast", "-o", "l.jsonl")
    assert done.code == 2
    assert "s.csv, line 2: not UTF-8" in done.err


def test_two_annotators_of_one_record_are_compared(annotate_cli, write):
    """By hand: both give "Step repetition" in 1 of 2 traces, the first alone in the other."""
    records = [
        MAD | {"trace_id": n, "annotations": [vote("2.2 Step repetition", True, n == 1)]}
        for n in (1, 2)
    ]
    odd = MAD | {"trace_id": 3, "annotations": [vote("2.3 Backtracking", True, True)]}
    write("human.json", [*records, odd])
    args = ("--rubric", "mast", "--between", "annotator_1", "annotator_2", "--json")
    done = annotate_cli("calibrate", "--labels", "human.json", *args)
    assert done.code == 0, done.err
    [pair] = json.loads(done.out)
    assert (pair["n"], pair["differing"]) == (2, ["AG2/m/b/2"])
    assert "2 of 6 labels left out: no code for '2.3 Backtracking' (2 labels)" in done.err


def test_questions_of_a_tool_are_told_apart_by_the_rubric(annotate_cli, write):
    values = {"severity": {"value": "high"}, "what": {"value": "Repeats steps"}}
    people = [{"user_id": name, "values": values} for name in ("a", "b")]
    write("export.json", [{"id": "t", "fields": {}, "responses": people}])
    args = ("--rubric", "mast", "--between", "a", "b", "--json")
    done = annotate_cli("calibrate", "--labels", "export.json", *args)
    assert done.code == 0, done.err
