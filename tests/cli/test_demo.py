"""``annotate demo``: its recording fits the prompts of today, and it goes the whole way offline."""

import json
from collections import Counter
from pathlib import Path

import pytest

from annotator.base.errors import AnnotatorError
from annotator.cli.demo import judge_recorded, write_traces
from tests.conftest import ROOT

ANSWERS = ROOT / "examples" / "demo" / "answers.jsonl"


@pytest.mark.parametrize(("rubric", "judged"), [("symptoms", 40), ("comm_errors", 48)])
def test_the_recorded_answers_are_counted(annotate_cli, tmp_path, rubric, judged):
    """Each recorded answer is one trace with its own label, and all its quotes are accepted."""
    done = annotate_cli("demo", "--rubric", rubric)
    assert done.code == 0, done.err
    answers = [json.loads(line) for line in ANSWERS.read_text().splitlines()]
    labels = Counter(fields["answer"]["label"] for fields in answers if fields["rubric"] == rubric)
    out = tmp_path / "runs" / "demo"
    lines = [json.loads(line) for line in (out / rubric / "annotations.jsonl").open()]
    lines = [line for line in lines if line["status"] != "skipped"]
    assert Counter(line["primary"] or "none" for line in lines) == labels
    assert sum(labels.values()) == judged
    assert {line["status"] for line in lines} <= {"labelled", "none"}
    assert not any(line["rejected"] for line in lines)
    top, count = next((code, n) for code, n in labels.most_common() if code != "none")
    assert f"{judged} of 48 traces judged" in done.out
    assert f"Most common: {top}" in done.out
    assert f"{count}/{judged}" in done.out
    assert "given by two other language models that did not see" in " ".join(done.out.split())
    assert f"next: annotate view runs/demo/{rubric} " in done.err
    again = annotate_cli("demo", "--rubric", rubric, "--quiet")  # the run is there
    assert (again.out, again.err) == (done.out, "")


def test_outcomes_are_those_of_the_merges(annotate_cli, tmp_path):
    """Of 48 runs 37 conflict; of the 11 others 8 pass both features' tests."""
    traces = write_traces(tmp_path / "traces")
    out = annotate_cli("traces", traces).out
    assert "failed 40, passed 8" in out
    assert "conflicts 37, clean 11" in out


def test_a_recording_that_does_not_fit_is_refused(annotate_cli, tmp_path):
    traces = write_traces(tmp_path / "traces")
    talk = next(iter(sorted(Path(traces).rglob("conversation.json"))))
    talk.write_text(talk.read_text().replace('"message": "', '"message": "Well, ', 1))
    with pytest.raises(AnnotatorError, match=r"no answer to a request of comm_errors.*record_demo"):
        judge_recorded(traces, "comm_errors", tmp_path / "run")


def test_what_is_not_the_demos_is_left_alone(annotate_cli, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "labels.jsonl").write_text("my labels")
    done = annotate_cli("demo", "--out", "mine")
    assert (done.code, "name another --out" in done.err) == (2, True)
    assert (tmp_path / "mine" / "labels.jsonl").read_text() == "my labels"
    run = annotate_cli(
        ROOT / "examples" / "traces", "--rubric", "symptoms", "--out", "own/symptoms"
    )
    done = annotate_cli("demo", "--out", "own")
    assert (run.code, done.code, "another run; name another --out" in done.err) == (0, 2, True)
