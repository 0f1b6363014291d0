"""Sheets as queues: who labels what in which order, and where the traces are."""

import hashlib
import json
from pathlib import Path

import pytest

from annotator.base.errors import AnnotatorError
from annotator.calibration.sample.design import read_design, read_sources
from annotator.calibration.sample.sheets import FIELDS
from annotator.labels.queue import Item, is_sheet, read_sheet
from tests.calibration.build import make_run, said, write_labels
from tests.conftest import EXAMPLES


@pytest.fixture
def run(tmp_path, rubric):
    traces = [said(f"=r/{n}", *(["alpha"] * (n % 2)), project="p", task=str(n)) for n in range(40)]
    return make_run(tmp_path / "run", rubric, traces)


def row(rubric, n, **fields):
    ids = {"order": n, "trace_id": f"t{n}", "rubric": rubric.id, "rubric_sha256": rubric.sha256}
    drawn = {"task": f"p/{n}", "split": "dev", "inclusion_probability": 0.5, "design": "d1"}
    return ids | drawn | {"rater": 1} | fields


def problem(file, rubric, rater=1):
    with pytest.raises(AnnotatorError) as error:
        read_sheet(file, rubric, rater)
    return str(error.value)


# Sheets


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_drawn_sheet_is_a_queue_for_each_person(annotate_cli, tmp_path, rubric, run, suffix):
    """Ids like =r/3 are guarded against spreadsheets in the file, and are themselves here."""
    file = tmp_path / f"s.{suffix}"
    done = annotate_cli(*("sample", run, "--show-ids", "-n", 10, "--double", 4, "--out", file))
    assert done.code == 0, done.err
    assert is_sheet(file)
    first, second = read_sheet(file, rubric), read_sheet(file, rubric, 2)
    design = read_design(tmp_path / f"s.{suffix}.design.json")
    assert len(first) == 10
    assert len(second) == 4
    assert {one.trace_id for one in second} < {one.trace_id for one in first}
    assert {one.trace_id: one.extra["inclusion_probability"] for one in first} == pytest.approx(
        design.probabilities
    )
    assert [one.extra["order"] for one in first] == list(range(1, 11))
    assert [one.extra["order"] for one in second] == list(range(11, 15))
    assert {one.extra["design"] for one in first} == {design.id}
    assert first[0].extra.keys() == {"order", "task", "inclusion_probability", "design", "rater"}


def test_a_sheet_as_a_spreadsheet_saves_it_and_half_labelled(tmp_path, rubric):
    file = tmp_path / "s.csv"
    lines = [
        ";".join(FIELDS),
        f"2;t2;faults;{rubric.sha256};p;dev;0,25;d1;1;ann;alpha;;;;3",
        f"1;'=t1;faults;{rubric.sha256};p;dev;0,25;d1;1;;;;;;",
    ]
    file.write_text("\ufeff" + "\r\n".join(lines), encoding="utf-8")
    assert is_sheet(file)
    items = read_sheet(file, rubric)
    assert [one.trace_id for one in items] == ["=t1", "t2"]
    assert [one.extra["inclusion_probability"] for one in items] == [0.25, 0.25]


def test_a_list_of_traces_is_enough(tmp_path, rubric):
    rows = [{"trace_id": f"t{n}", "rubric": "faults"} for n in (2, 1, 2)]
    file = write_labels(tmp_path / "s.jsonl", rows)
    assert read_sheet(file, rubric) == [Item("t2", {"rater": 1}), Item("t1", {"rater": 1})]
    assert problem(file, rubric, 2) == f"{file}: no rows for rater 2, only for rater 1"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rubric": "causes"}, "rubric: the sheet is for 'causes', not for 'faults'"),
        ({"rubric_sha256": "0" * 64}, "another version of the rubric: 000000000000, not {sha}"),
        ({"trace_id": None}, "trace_id: missing"),
        ({"inclusion_probability": 0}, "inclusion_probability: found 0, expected a number above 0"),
        ({"inclusion_probability": float("nan")}, "inclusion_probability: found nan"),
        ({"order": "first"}, "order: found 'first', expected a whole number"),
        ({"rater": 0}, "rater: found 0"),
        ({"task": ["p"]}, "task: found a list, expected a text"),
        ({"trace_id": "t1", "task": "q"}, "'t1' stands in {file}, line 1 too, with other columns"),
    ],
)
def test_a_wrong_row_is_named(tmp_path, rubric, fields, message):
    file = write_labels(tmp_path / "s.jsonl", [row(rubric, 1), row(rubric, 2) | fields])
    text = problem(file, rubric)
    assert text.startswith(f"{file}, line 2: ")
    assert message.format(sha=rubric.sha256[:12], file=file) in text


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("s.csv", b"a,b\n1,2\n", "neither JSON nor a table of labels"),
        ("s.jsonl", b"{\n", "line 1: not valid JSON"),
        ("s.csv", b"trace_id,rubric,annotator,primary\n", "no rows for rater 1, nor for anybody"),
        ("no.csv", None, "no such file"),
    ],
)
def test_what_is_no_sheet_is_said(tmp_path, rubric, name, data, message):
    file = tmp_path / name
    if data is not None:
        file.write_bytes(data)
    assert message in problem(file, rubric)


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("s.csv", b"trace_id,rubric\n", True),
        ("s.CSV", b'\xef\xbb\xbf"order";"Trace_ID";"rubric"\n', True),
        ("s.ndjson", b'\n{"trace_id": "t", "rubric": "r"}\n{', True),
        ("s.csv", b"trace_id,other\n", False),
        ("s.csv", b"\xff\xfet\x00", False),
        ("s.jsonl", b"\xff\n", False),
        ("s.jsonl", b'{"trace_id": "t", "rubric": "r", "messages": []}', False),
        ("s.json", b'{"trace_id": "t", "rubric": "r"}', False),
        ("s.txt", b"trace_id,rubric\n", False),
    ],
)
def test_sheets_are_told_from_traces(tmp_path, name, data, expected):
    file = tmp_path / name
    file.write_bytes(data)
    assert is_sheet(file) is expected
    assert not any(map(is_sheet, (tmp_path, tmp_path / "no.jsonl", Path("hf://org/name.jsonl"))))


# Where the traces are


def test_the_design_says_where_the_traces_are(annotate_cli, tmp_path):
    """For a run what its manifest says; for traces what was named, as seen from any folder."""
    done = annotate_cli(EXAMPLES, "--rubric", "symptoms", "--out", "run", "--judge", "rules")
    assert done.code == 0, done.err
    options = ("-n", 3, "--split", "all", "--double", 0, "--floor", 1, "--out")
    assert annotate_cli("sample", "run", "--uniform", *options, "run.csv").code == 0
    assert read_sources(tmp_path / "run.csv") == ((str(EXAMPLES),), "auto")
    (tmp_path / "here").symlink_to(EXAMPLES)
    done = annotate_cli(
        *("sample", "here", "--rubric", "symptoms", "--format", "cooperbench", *options, "t.jsonl")
    )
    assert done.code == 0, done.err
    assert read_sources(tmp_path / "t.jsonl") == ((str(tmp_path / "here"),), "cooperbench")


def test_sources_are_no_part_of_what_a_design_is(annotate_cli, tmp_path, run):
    """By hand: the id of a design is the hash of all its other fields, sorted. A round on top of
    it has its sources.
    """
    assert annotate_cli("sample", run, "-n", 10, "--split", "all", "--out", "s.csv").code == 0
    file = tmp_path / "s.csv.design.json"
    value = json.loads(file.read_text())
    assert value.pop("sources") == [str(tmp_path / "logs")]
    assert value.pop("format") == "auto"
    digest = hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]
    assert read_design(file).id == digest
    done = annotate_cli("sample", run, "--from", file, "--top-up", "alpha=2", "--out", "more.csv")
    assert done.code == 0, done.err
    assert read_sources(tmp_path / "more.csv") == ((str(tmp_path / "logs"),), "auto")


def test_a_damaged_design_tells_nothing_of_its_strata(tmp_path):
    (tmp_path / "s.csv.design.json").write_text('"alpha')
    with pytest.raises(AnnotatorError, match="not valid JSON") as error:
        read_sources(tmp_path / "s.csv")
    assert "alpha" not in str(error.value)
