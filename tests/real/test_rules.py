"""The rules judge on 200 real two-agent runs, 40 of them labelled; nothing of their text is here.

The bounds are what the judge has to reach. What it does reach is in docs/reference/judges.md.
"""

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest

from annotator.cooperbench.rules import decide, list_codes
from annotator.rubrics import load_rubric
from annotator.rubrics.evidence import check_verdict
from annotator.traces import Trace, read_traces
from tests.conftest import ROOT
from tests.real.test_calibration import kappa_of, primaries

RUBRICS = {name: load_rubric(name) for name in ("comm_errors", "symptoms", "emergent")}


@pytest.fixture(scope="session")
def runs(logs):
    """The two-agent runs by id; whoever reads their steps or task texts fails."""

    def refuse():
        raise AssertionError("steps and task texts must not be read")

    found = [one for one in read_traces([str(logs)]) if isinstance(one, Trace)]
    return {
        one.id: replace(one, read_steps=refuse, read_tasks=refuse)
        for one in found
        if one.attributes["setting"] == "coop"
    }


@pytest.fixture(scope="session")
def verdicts(runs):
    return {
        (name, trace_id): decide(trace, rubric)
        for name, rubric in RUBRICS.items()
        for trace_id, trace in runs.items()
    }


def decided(rows, verdicts, runs, rubric):
    """Gold's labels and the judge's of the labelled runs that it decides."""
    gold = primaries(rows, rubric, "gold")
    assert len(gold) == 40
    found = {trace: verdicts[rubric, trace] for trace in gold}
    if rubric == "symptoms":
        found = {trace: one for trace, one in found.items() if not runs[trace].outcome.passed}
    judged = {
        x: one.primary or "none" for x, one in found.items() if one.claims or not one.undecided
    }
    return {trace: gold[trace] for trace in judged}, judged


def test_what_it_labels_is_right(rows, verdicts, runs):
    gold, judged = decided(rows, verdicts, runs, "comm_errors")
    found = [trace for trace, code in judged.items() if code != "none"]
    right = sum(gold[trace] == judged[trace] for trace in found)
    assert len(found) >= 5
    assert right / len(found) >= 0.80
    # Where nobody spoke nothing is wrong.
    assert {gold[trace] for trace, code in judged.items() if code == "none"} <= {"none"}


def test_it_agrees_with_the_labels_on_what_it_decides(rows, verdicts, runs):
    gold, judged = decided(rows, verdicts, runs, "symptoms")
    assert len(judged) >= 20
    assert kappa_of(gold, judged) >= 0.60


@pytest.mark.parametrize("rubric", RUBRICS)
def test_all_of_its_evidence_stands_there(runs, verdicts, rubric):
    assert len(runs) == 200
    codes = Counter()
    for trace_id, trace in runs.items():
        verdict = verdicts[rubric, trace_id]
        assert verdict.error is None
        findings, rejected = check_verdict(verdict, trace, RUBRICS[rubric])
        assert not rejected, (trace_id, rejected)
        assert [one.code for one in findings] == [one.code for one in verdict.claims]
        assert {e.match for one in findings for e in one.evidence} <= {"exact"}
        codes.update(one.code for one in findings)
    assert codes
    assert codes.keys() <= list_codes(RUBRICS[rubric])


JUDGE_ALL = """
import sys
from hashlib import sha256
from annotator.cooperbench.rules import decide
from annotator.rubrics import load_rubric
from annotator.traces import read_traces
digest = sha256()
for name in ("comm_errors", "symptoms", "emergent"):
    rubric = load_rubric(name)
    for trace in sorted(read_traces(sys.argv[1:]), key=lambda one: one.id):
        digest.update(repr((trace.id, decide(trace, rubric))).encode())
print(digest.hexdigest())
"""


def test_another_process_gives_the_same_verdicts(logs):
    """Sets of words have another order in every process, and no verdict may depend on it."""
    folder = min(path.parent for path in logs.rglob("coop"))
    seen = {
        subprocess.run(
            [sys.executable, "-c", JUDGE_ALL, str(folder)],
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1


def test_each_answer_is_given_where_it_belongs(runs, verdicts):
    for trace_id, trace in runs.items():
        comm, symptoms, emergent = (verdicts[rubric, trace_id] for rubric in RUBRICS)
        assert bool(comm.undecided) == bool(trace.spoken)
        assert bool(symptoms.undecided) == (not trace.outcome.passed)
        assert bool(emergent.undecided) == bool(trace.outcome.passed and trace.spoken)
        if trace.outcome.passed:
            assert symptoms.claims == ()
        else:
            assert emergent.claims == ()
        if not trace.spoken:
            assert comm.claims == ()
