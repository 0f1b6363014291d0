"""The words below every kind of table, in one place: notes.txt (UPDATE_DOCS=1 renews it)."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.calibration.build import label, make_run, said, write_labels

WORDS = Path(__file__).with_name("notes.txt")


def undecided(name, reason, **more):
    return replace(said(name, status="undecided", side="a"), reason=reason, **more)


def traces():
    """Two sides; 12 traces of side a, 6 of b, in 6 tasks; each reason to be undecided once."""
    codes = ["alpha", "alpha", "beta", None]
    ones = [
        said(f"{side}/{n}", *([codes[n % 4]] if codes[n % 4] else []), **at)
        for side, size in (("a", 12), ("b", 6))
        for n in range(size)
        for at in [{"side": side, "project": "p", "task": str(n % 6)}]
    ]
    return [
        *ones,
        undecided("u1", "read 5 % of it"),
        undecided("u2", "all findings were rejected"),
        undecided("u3", "all findings were rejected"),
        undecided("u4", "the rules do not know"),
        undecided("u5", None, tie=("alpha", "none")),
        said("f1", status="failed", side="b"),
    ]


REPORTS = {
    "frequency": ("report", "run", "--no-calibration"),
    "independent traces": ("report", "run", "--cluster", "none", "--no-calibration"),
    "one task": ("report", "run", "--by", "task", "--no-calibration"),
    "labelled traces": ("report", "run", "--of-labelled"),
    "screen": ("report", "screen"),
    "part of a run": ("report", "part"),
    "corrected": ("report", "run", "--calibration", "run/calibration.json"),
    "people": ("report", "--labels", "labels.jsonl", "--rubric", "faults.yaml"),
    "comparison": ("compare", "run", "--by", "side", "--values", "a", "b"),
    "comparison without tasks": (
        *("compare", "run", "--by", "side", "--values", "a", "b", "--cluster", "none"),
    ),
    "corrected comparison": (
        *("compare", "run", "--by", "side", "--values", "a", "b"),
        *("--calibration", "run/calibration.json"),
    ),
    "co-occurrence": ("report", "run", "--co-occurrence"),
}


def test_words(annotate_cli, calibrate, rubric, tmp_path):
    run = make_run(tmp_path / "run", rubric, traces())
    make_run(tmp_path / "screen", rubric, traces(), known=["alpha", "beta"], screens=["beta"])
    make_run(tmp_path / "part", rubric, traces()[:3], status="interrupted", limit=3)
    rows = [label(one.trace_id, rubric, one.primary or "gamma") for one in traces()[:-6:2]]
    calibrate(run, rows)
    write_labels(tmp_path / "labels.jsonl", rows)
    sections = []
    for name, arguments in REPORTS.items():
        done = annotate_cli(*arguments, "--format", "json")
        assert done.code == 0, done.err
        table = json.loads(done.out)[-1]
        sections.append("\n".join([f"# {name}", *table["notes"]]))
    words = "\n\n".join(sections) + "\n"
    if os.environ.get("UPDATE_DOCS"):
        WORDS.write_text(words)
        pytest.skip("renewed")
    assert words == WORDS.read_text()
