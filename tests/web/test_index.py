"""The rows of the list, the annotations of a trace, and whose label decides."""

import json
import zlib
from dataclasses import replace

import pytest

from annotator.base.errors import AnnotatorError
from annotator.rubrics.annotations import Rejected, read_annotations
from annotator.runs.run import open_run, open_runs
from annotator.web.index import Index
from annotator.web.reading import read_person_labels
from tests.calibration.build import label, make_rubric, make_run, said, write_labels


def read_rows(runs, labels=None):
    return json.loads(zlib.decompress(Index(open_runs(runs), labels or {}).rows))


def rejecting(one, *quotes):
    return replace(one, rejected=(Rejected("beta", "quote not found", quotes),))


ONE = [
    said("t1", "alpha", passed=False, merge="clean", model="m"),
    said("t2", "beta", "alpha", passed=False, merge="conflicts", model="m"),
    rejecting(said("t3", passed=True, model="n"), "a made-up quote"),
    said("t4", status="skipped", passed=True),
    said("t5", status="failed", passed=None),
    rejecting(said("t6", "gamma", passed=False, seconds=1.5), "another"),
]
TWO = [said("t1", "beta"), said("t7", "alpha", passed=False)]


@pytest.fixture
def two_runs(tmp_path):
    rubric = make_rubric(tmp_path)
    runs = [make_run(tmp_path / "one", rubric, ONE), make_run(tmp_path / "two", rubric, TWO)]
    return rubric, runs


def test_rows_in_the_order_of_the_files(two_runs):
    rows = read_rows(two_runs[1])
    given = [(n, one) for n, run in enumerate(two_runs[1]) for one in read_annotations(run)]
    assert [one["number"] for one in rows] == list(range(1, 9))
    for row, (run, one) in zip(rows, given, strict=True):
        assert (row["run"], row["trace_id"], row["status"]) == (run, one.trace_id, one.status)
        assert (row["primary"], row["secondary"]) == (one.primary, list(one.secondary))
        assert (len(row["findings"]), row["rejected"]) == (len(one.findings), len(one.rejected))
    assert rows[0]["values"] == {"passed": "false", "merge": "clean", "model": "m"}
    assert (rows[4]["values"], rows[5]["values"]["seconds"]) == ({}, "1.5")
    [finding] = rows[0]["findings"]
    assert finding == {
        "code": "alpha",
        "rationale": "because of alpha",
        "quotes": [["message:1", "quoted here"]],
    }
    assert (rows[0]["text"], rows[2]["text"]) == ("", "a made-up quote")
    assert [row["why"] for row in rows[2:6]] == [None, "passed", "refused", None]


def test_agreement_counts_what_calibrate_counts(two_runs, tmp_path):
    # The primary code alone counts; no code is a label; skipped and failed are not judged.
    rubric, runs = two_runs
    own = [
        label("t1", rubric, "alpha", "gamma"),
        label("t2", rubric, "alpha", "beta"),
        label("t3", rubric),
        label("t4", rubric, "alpha"),
        label("t5", rubric, "alpha"),
    ]
    labels = read_person_labels([write_labels(tmp_path / "labels.jsonl", own)], open_runs(runs))
    rows = read_rows(runs, labels)
    assert {(one["run"], one["trace_id"]): one["agreement"] for one in rows} == {
        (0, "t1"): "agrees",
        (0, "t2"): "differs",
        (0, "t3"): "agrees",
        (0, "t4"): None,
        (0, "t5"): None,
        (0, "t6"): "unlabelled",
        (1, "t1"): "differs",
        (1, "t7"): "unlabelled",
    }
    human = {one["trace_id"]: one["human"] for one in rows if not one["run"]}
    assert (human["t1"], human["t3"], human["t6"]) == (["alpha", "gamma"], ["none"], None)


def test_agreement_of_many_codes_is_that_of_the_sets(tmp_path):
    """An undecided trace agrees with nobody."""
    rubric = make_rubric(tmp_path, "many")
    lines = [said("a", "alpha", "beta"), said("b", "alpha"), said("c", status="undecided")]
    run = make_run(tmp_path / "run", rubric, lines)
    own = [label(name, rubric, "beta", "alpha") for name in "abc"]
    labels = read_person_labels([write_labels(tmp_path / "labels.jsonl", own)], [open_run(run)])
    assert [one["agreement"] for one in read_rows([run], labels)] == ["agrees", "differs", None]


def test_annotations_of_a_trace_are_those_of_the_files(two_runs):
    index = Index(open_runs(two_runs[1]), {})
    first, second = (next(iter(read_annotations(run))) for run in two_runs[1])
    assert index.annotations("t1") == [(0, first), (1, second)]
    assert index.annotations("no such trace") == []
    assert index.trace_ids == [f"t{n}" for n in range(1, 8)]


def test_a_run_without_annotations_has_no_rows(tmp_path):
    assert read_rows([make_run(tmp_path / "run", make_rubric(tmp_path), [])]) == []


def test_labels_of_rubrics_of_the_runs_only(two_runs, tmp_path):
    rubric, runs = two_runs
    other = make_rubric(tmp_path, id="others")
    rows = [label("t1", rubric, "alpha"), label("t1", other, "beta")]
    labels = read_person_labels([write_labels(tmp_path / "l.jsonl", rows)], open_runs(runs))
    assert {name: list(own) for name, own in labels.items()} == {"faults": ["t1"]}
    with pytest.raises(AnnotatorError, match="labels are for others, the runs judged by faults"):
        read_person_labels([write_labels(tmp_path / "l.jsonl", rows[1:])], open_runs(runs))


def test_gold_decides_and_without_it_all_are_shown(two_runs, tmp_path):
    rubric, runs = two_runs
    people = [label("t1", rubric, "alpha", by="A"), label("t1", rubric, "beta", by="B")]
    file = write_labels(tmp_path / "l.jsonl", people)
    for names, expected in (((), "alpha beta"), ("B", "beta"), ("BA", "beta alpha")):
        labels = read_person_labels([file], open_runs(runs), names)
        assert [one.primary for one in labels["faults"]["t1"]] == expected.split()
        assert read_rows(runs, labels)[0]["human"] == [expected.split()[0]]
    write_labels(file, [*people, label("t1", rubric, "gamma", by="gold")])
    [gold] = read_person_labels([file], open_runs(runs))["faults"]["t1"]
    assert gold.primary == "gamma"


def test_labels_of_the_test_split_are_not_looked_at(two_runs, tmp_path):
    rubric, runs = two_runs
    rows = [label("t1", rubric, "alpha", split="dev"), label("t2", rubric, "beta", split="test")]
    rows.append(label("t1", rubric, "beta", by="B", split="test"))
    rows.append(label("gone", rubric, split="dev"))
    file = write_labels(tmp_path / "l.jsonl", rows)
    notices = []
    labels = read_person_labels([file], open_runs(runs), notice=notices.append)["faults"]
    assert notices == [
        "Not shown: 2 labels of the test split of faults.",
        f"Not shown: 1 label of traces not in {', '.join(map(str, runs))}.",
    ]
    assert labels.pop("gone")
    assert {trace_id: len(own) for trace_id, own in labels.items()} == {"t1": 1}
    write_labels(file, rows[1:2])
    with pytest.raises(AnnotatorError, match="held-out test set"):
        read_person_labels([file], open_runs(runs))


def test_labels_for_another_version_of_a_rubric(two_runs, tmp_path):
    rubric, runs = two_runs
    rows = [label("t1", rubric, "alpha", rubric_sha256="0" * 64)]
    with pytest.raises(AnnotatorError, match="another version"):
        read_person_labels([write_labels(tmp_path / "l.jsonl", rows)], open_runs(runs))
