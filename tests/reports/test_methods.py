"""The paragraph for a paper: every number is the table's or the calibration's."""

import json

from tests.calibration.build import make_rubric, make_run, write_labels
from tests.reports.test_formats import traces


def test_a_calibrated_run(annotate_cli, tmp_path):
    """By hand: people agree with the judge on all but the 10 traces with beta alone, n = 60."""
    rubric = make_rubric(tmp_path, "primary", id="first")
    run = make_run(tmp_path / "run", rubric, traces())
    alone = annotate_cli("report", run, "--methods").out
    assert alone.startswith("60 traces went through failure-annotator"), alone
    assert "60 were judged (30 with a code, 30 without)." in alone
    assert (
        "A share is the part of the judged traces that has the code as its primary code." in alone
    )
    assert "They do not include the judge's errors." in alone
    assert "The judge was not compared with labels of people." in alone
    assert "annotate calibrate" not in alone
    rows = [
        {"trace_id": f"t{n}", "rubric": "first", "annotator": "ann", "primary": code}
        for n, code in enumerate(["alpha", "alpha", None, None, None, None] * 10)
    ]
    labels = write_labels(tmp_path / "labels.jsonl", rows)
    made = json.loads(annotate_cli("calibrate", run, "--labels", labels, "--json").out)
    kappa = made["calibrations"][0]["agreement"]["kappa"]
    said = annotate_cli("report", run, "--methods").out  # finds the calibration beside the run
    assert (
        "60 traces were labelled by ann (how they were sampled is not recorded; split all)." in said
    )
    assert (
        f"Cohen's kappa {kappa['value']:.2f} [{kappa['low']:.2f}, {kappa['high']:.2f}], n = 60."
        in said
    )
    assert "post-stratified by the judge's answer, 95 % intervals." in said
    by = annotate_cli("report", run, "--methods", "--by", "model").out.split("\n\n")
    assert [text[:24] for text in by] == [
        "30 traces with model m0 ",
        "15 traces with model m1 ",
        "15 traces with model m2 ",
    ]


def test_what_it_does_not_go_with(annotate_cli, tmp_path):
    run = make_run(tmp_path / "run", make_rubric(tmp_path, "primary", id="first"), traces())
    done = annotate_cli("report", run, "--methods", "--co-occurrence")
    assert (done.code, "--methods goes with no --co-occurrence" in done.err) == (2, True)


def test_a_judge_without_shares(annotate_cli, runs):
    annotate_cli(runs(2), "--rubric", "comm_errors", "--out", "out")
    said = annotate_cli("report", "out", "--methods").out
    assert "The judge was rules" in said
    assert "2 were judged (2 with a code, 0 without). The judge was not compared" in said
    assert "cannot be ruled out: C1a, C3a." in said
    assert "label some of them" not in said
