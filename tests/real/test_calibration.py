"""Calibration on 40 labelled real runs. The labels are careful, but not those of humans; nothing of
their text stands here.
"""

import json
from collections import Counter

import pytest

from tests.calibration.build import calibration
from tests.conftest import annotations

RUBRICS = ("comm_errors", "symptoms")


@pytest.fixture
def own(labels, tmp_path):
    """The labels in a folder that can be written: the ledger stands beside them."""
    file = tmp_path / "labels.jsonl"
    file.write_bytes(labels.read_bytes())
    return file


@pytest.fixture
def run(annotate_cli, logs, tmp_path):
    """The rules judge on all real runs, by both rubrics."""
    options = [x for name in RUBRICS for x in ("--rubric", name)]
    done = annotate_cli(logs, *options, "--out", "out", "--quiet")
    assert done.code == 0, done.err
    return tmp_path / "out"


def primaries(rows, rubric, annotator):
    return {
        row["trace_id"]: row["primary"] or "none"
        for row in rows
        if (row["rubric"], row["annotator"]) == (rubric, annotator)
    }


def kappa_of(one, other):
    """Cohen's kappa straight from its definition."""
    n = len(one)
    observed = sum(one[trace] == other[trace] for trace in one) / n
    first, second = Counter(one.values()), Counter(other.values())
    expected = sum(first[label] * second[label] for label in first) / n**2
    return (observed - expected) / (1 - expected)


@pytest.mark.parametrize(("rubric", "kappa"), [("comm_errors", 0.81), ("symptoms", 0.94)])
def test_two_annotators(annotate_cli, own, rows, rubric, kappa):
    """As the data's README says."""
    done = annotate_cli(
        *("calibrate", "-v", "--labels", own, "--rubric", rubric, "--between", "A", "B", "--json")
    )
    assert done.code == 0, done.err
    [found] = json.loads(done.out)
    a, b = primaries(rows, rubric, "A"), primaries(rows, rubric, "B")
    assert found["n"] == 40
    assert round(found["agreement"]["kappa"]["value"], 2) == kappa
    assert found["agreement"]["kappa"]["value"] == pytest.approx(kappa_of(a, b))
    assert found["differing"] == [trace for trace in a if a[trace] != b[trace]]


def test_the_rules_judge_against_gold_lists_every_disagreement(annotate_cli, own, rows, run):
    done = annotate_cli("calibrate", "-v", run, "--labels", own, "--disagreements", "--full")
    assert done.code == 0, done.err
    found = annotations(run)
    for n, rubric in enumerate(RUBRICS):
        gold = primaries(rows, rubric, "gold")
        judged = {
            trace: one.primary or "none"
            for (trace, name), one in found.items()
            if name == rubric and one.status in ("labelled", "none")
        }
        undecided = {
            trace
            for (trace, name), one in found.items()
            if name == rubric and one.status == "undecided"
        }
        both = sorted(trace for trace in gold if trace in judged)
        differing = {trace for trace in both if gold[trace] != judged[trace]}
        made = calibration(run / "calibration.json", n)
        assert made["rubric"] == rubric
        assert [one["trace_id"] for one in made["joined"]] == both
        left_out = {*made["labels"]["skipped"], *made["labels"]["undecided"]}
        assert left_out == gold.keys() - set(both)
        assert made["labels"]["annotators"] == ["gold"]
        observed = made["agreement"]["observed"]
        assert observed["inputs"]["k"] == len(both) - len(differing)
        assert made["judged"] == len(judged)
        head = f"{len(differing)} of {len(both)} labelled traces disagree ({rubric})"
        listed = done.out.partition(head)[2].partition("labelled traces disagree")[0]
        lines = set(listed.splitlines())
        assert differing <= lines
        assert not lines & (set(both) - differing)
        [pair] = made["between"]
        assert (pair["what"], pair["n"]) == ("A and B", 40)
        for row in made["rows"]:
            code = row["code"]
            flagged = [trace for trace in both if judged[trace] == code]
            assert row["flagged"] == len(flagged)
            right = sum(gold[trace] == code for trace in flagged)
            assert row["precision"]["inputs"]["k"] == right
            missed = sum(gold[trace] == code != judged[trace] for trace in both)
            unknown = [trace for trace in gold if trace in undecided]
            assert row["missed"] == missed + sum(gold[trace] == code for trace in unknown)
            flags, others = sum(one == code for one in judged.values()), len(both) - len(flagged)
            value = (len(judged) - flags) * missed / others
            value += len(undecided) * sum(gold[trace] == code for trace in unknown) / len(unknown)
            value += flags * right / len(flagged) if flagged else 0
            assert flagged or not flags
            value /= len(judged) + len(undecided)
            assert row["corrected"]["value"] == pytest.approx(value), code
            assert row["corrected"]["low"] <= row["corrected"]["high"]


def test_the_report_is_corrected_by_it(annotate_cli, own, run):
    assert annotate_cli("calibrate", "-v", run, "--labels", own).code == 0
    done = annotate_cli(
        "report", run, "--calibration", run / "calibration.json", "--format", "json"
    )
    assert done.code == 0, done.err
    for n, table in enumerate(json.loads(done.out)):
        made = {row["code"]: row for row in calibration(run / "calibration.json", n)["rows"]}
        for row in table["rows"]:
            assert row["corrected"] == made[row["code"]]["corrected"]


def test_a_sheet_is_drawn_from_it(annotate_cli, run, tmp_path):
    for split in ("dev", "test"):
        done = annotate_cli(
            *("sample", run, "--rubric", "comm_errors", "--split", split),
            *("-n", 60, "--out", f"{split}.csv"),
        )
        assert done.code == 0, done.err
    tasks = [
        {line.split(",")[4] for line in (tmp_path / f"{split}.csv").read_text().splitlines()[1:]}
        for split in ("dev", "test")
    ]
    assert not tasks[0] & tasks[1]
