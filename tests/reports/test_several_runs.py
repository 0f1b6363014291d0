"""Several runs in one report: each is told from the others, whatever its folder is called."""

import re
from pathlib import Path

import pytest

from annotator.runs.run import Run, name_runs, open_run
from tests.calibration.build import label, make_rubric, make_run, said


@pytest.fixture
def runs(tmp_path: Path, rubric) -> list[Path]:
    """Two of one judge in folders of one name; alpha is in 1 of 2 traces, then in both."""
    found = {"exp1": ["alpha", "beta"], "exp2": ["alpha", "alpha"]}
    return [
        make_run(tmp_path / name / "run", rubric, [said(f"t{n}", one) for n, one in enumerate(its)])
        for name, its in found.items()
    ]


@pytest.mark.parametrize(
    ("folders", "names"),
    [
        (["a/run"], ["run"]),
        (["a/one", "b/two"], ["one", "two"]),
        (["a/run", "b/run"], ["a/run", "b/run"]),
        (["a/x/run", "b/x/run"], ["a/x/run", "b/x/run"]),
        (["a/run", "b/run", "other"], ["a/run", "b/run", "other"]),
        (["a/../b/run", "a/run"], ["b/run", "a/run"]),
        (["/run", "/x/run", "/"], ["/run", "x/run", "/"]),
    ],
)
def test_names_of_runs(tmp_path, rubric, folders, names):
    manifest = open_run(make_run(tmp_path / "made", rubric, [said("t1")])).manifest
    assert name_runs([Run(manifest, tmp_path / folder) for folder in folders]) == names


@pytest.mark.parametrize("format_", ["table", "md", "latex"])
def test_tables_of_like_runs_say_which(annotate_cli, runs, format_):
    out = annotate_cli("report", "-v", *runs, "--format", format_).out
    assert [out.count(f"run exp{n}/run") for n in (1, 2)] == [1, 1]
    assert out.index("run exp1/run") < out.index("run exp2/run")
    alone = annotate_cli("report", "-v", runs[0], "--format", format_).out
    assert "exp1" not in alone
    if format_ == "latex":
        assert re.findall(r"\\label{(.*?)}", out) == [
            "tab:faults-exp1-run",
            "tab:faults-exp2-run",
        ]


def test_tables_that_differ_anyway_say_nothing_of_runs(annotate_cli, tmp_path, rubric, runs):
    other = make_run(tmp_path / "exp3" / "run", rubric, [said("t0")], judge="llm:other")
    out = annotate_cli("report", "-v", runs[0], other).out
    assert "exp1" not in out
    assert "exp3" not in out


def test_groups_of_like_runs_say_which(annotate_cli, tmp_path, rubric):
    traces = {"a": [said("t0", model="x"), said("t1", model="y")], "b": [said("t0", model="x")]}
    runs = [make_run(tmp_path / name / "run", rubric, its) for name, its in traces.items()]
    headings = [
        re.sub(r" \(\w{12}\)", "", line).split("  ")[1:-3]
        for line in annotate_cli("report", "-v", *runs, "--by", "model").out.splitlines()
        if line.startswith("faults v1")
    ]
    assert headings == [
        ["model = x", "judge llm:m", "run a/run"],
        ["model = y", "judge llm:m"],
        ["model = x", "judge llm:m", "run b/run"],
    ]


def test_matrices_of_like_runs_say_which(annotate_cli, runs):
    out = annotate_cli("report", "-v", *runs, "--co-occurrence").out
    assert "  exp1/run: judged traces" in out
    assert "  exp2/run: judged traces" in out


def test_what_is_not_counted_says_of_which_run(annotate_cli, tmp_path):
    one = make_rubric(tmp_path, "one", id="single")
    runs = [make_run(tmp_path / name / "run", one, [said("t0", "alpha")]) for name in "ab"]
    lines = annotate_cli("report", "-v", *runs, "--co-occurrence").err.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["single (a/run)", "single (b/run)"]


@pytest.mark.parametrize("plot", ["frequency", "reliability", "confusion", "co-occurrence"])
def test_figures_of_like_runs_say_which(annotate_cli, calibrate, tmp_path, rubric, runs, plot):
    figure = tmp_path / "figure.svg"
    rows = [label("t0", rubric, "alpha"), label("t1", rubric, "beta")]
    files = [part for run in runs if plot != "co-occurrence" for part in calibrate(run, rows)]
    done = annotate_cli("figure", *runs, *files, "--plot", plot, "--out", figure)
    assert done.code == 0, done.err
    drawn = re.sub(r"<metadata>.*?</metadata>", "", figure.read_text(), flags=re.S)
    for name in ("exp1/run", "exp2/run"):
        assert any(name in said_ for said_ in re.findall(r"<!--(.*?)-->", drawn)), name


def test_like_runs_are_compared_by_their_names(annotate_cli, tmp_path, rubric, runs):
    """Of 2 traces each: 1 with alpha in exp1, 2 in exp2; a part of a run is named alike."""
    part = make_run(tmp_path / "exp3" / "run", rubric, [said("t0", "beta")], status="interrupted")
    sides = ("--by", "run", "--values", "exp1/run", "exp2/run")
    done = annotate_cli("compare", "-v", *runs, part, *sides)
    assert done.code == 0, done.err
    [alpha] = [line.split() for line in done.out.splitlines() if line.startswith("alpha")]
    assert (alpha[1], alpha[4]) == ("50.0", "100.0")
    assert "\nexp3/run: The run is not finished" in done.out
