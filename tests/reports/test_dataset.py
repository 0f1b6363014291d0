"""What `annotate report` writes to files: data sets, and any format with --out."""

import json
import stat
from dataclasses import replace
from pathlib import Path

import datasets
import pytest

from annotator.rubrics.annotations import Evidence, Finding, Rejected, Usage, Vote
from annotator.runs.run import open_run
from tests.calibration.build import make_rubric, make_run, said, said_in_words
from tests.conftest import unwrap


def full():
    """An annotation in which every field says something."""
    evidence = Evidence("quoted 😀 here", "message:3", 5, 18, "typography")
    return replace(
        said("t/1", "alpha", "beta", model="m", passed=False, task="8", project="p", odd=[1, "x"]),
        findings=(Finding("alpha", "why\nso", (evidence, evidence), 2), Finding("beta", "b", ())),
        rejected=(Rejected("gamma", "quote not found", ("made up",)),),
        usage=Usage(10, 2, 4, 3, 1, 2, 1, 1, 0, 0.25, 1.5),
        truncated={"patch:agent1": 17},
        read=0.75,
        votes=(Vote("llm:m", 1, "labelled", "alpha", ("beta",)), Vote("llm:n", 1, "failed")),
        agreement=0.5,
        tie=("gamma", "none"),
        contradictions=("gamma is met",),
    )


def saved(annotate_cli, *arguments: object):
    done = annotate_cli("report", *arguments, "--format", "dataset")
    assert (done.code, done.out) == (0, ""), done.err
    folder = done.err.removeprefix("written to ").removesuffix("\n")
    assert "\n" not in folder  # no progress bar
    return datasets.load_from_disk(folder)


def test_every_field_of_an_annotation(annotate_cli, tmp_path, rubric):
    run = make_run(tmp_path / "run", rubric, [full(), said("t/2", status="failed")])
    one, failed = saved(annotate_cli, run)
    manifest = json.loads((run / "run.json").read_text())
    evidence = {
        **{"quote": "quoted 😀 here", "source": "message:3", "start": 5, "end": 18},
        "match": "typography",
    }
    nothing = {"secondary": [], "error": None, "reason": None}
    nowhere = dict.fromkeys(("agent", "step", "shown_agent", "shown_step", "steps"))
    alpha = {"code": "alpha", "rationale": "why\nso", "votes": 2, "evidence": [evidence] * 2}
    beta = {"code": "beta", "rationale": "b", "votes": None, "evidence": []}
    assert one == {
        **{"run": manifest["id"], "run_status": "finished", "limit": None},
        **{"rubric": "faults", "rubric_version": 1},
        **{"rubric_sha256": rubric.sha256, "judge": "llm:m"},
        **{"judge_sha256": open_run(run).judge_sha256, "trace_id": "t/1", "status": "labelled"},
        **{"primary": "alpha", "secondary": ["beta"]},
        "findings": [alpha | nowhere, beta | nowhere],
        "rejected": [{"code": "gamma", "reason": "quote not found", "quotes": ["made up"]}],
        **{"model": "m", "setting": None, "project": "p", "task": "8", "framework": None},
        **{"run_name": None, "merge": None, "passed": False},
        "attributes": '{"model": "m", "passed": false, "task": "8", "project": "p",'
        ' "odd": [1, "x"]}',
        **{"input_tokens": 10, "cached_tokens": 2, "cache_write_tokens": 4},
        **{"output_tokens": 3, "reasoning_tokens": 1},
        **{"calls": 2, "retries": 1, "unreported_calls": 1, "cache_hits": 0},
        **{"cost_usd": 0.25, "seconds": 1.5, "reason": None, "error": None},
        "failure": None,
        "truncated": [{"source": "patch:agent1", "characters": 17}],
        **{"read": 0.75, "agreement": 0.5, "tie": ["gamma", "none"]},
        "votes": [
            {"judge": "llm:m", "sample": 1, "status": "labelled", "primary": "alpha"}
            | {"secondary": ["beta"], "error": None, "reason": None},
            {"judge": "llm:n", "sample": 1, "status": "failed", "primary": None} | nothing,
        ],
        "contradictions": ["gamma is met"],
    }
    assert (failed["status"], failed["error"], failed["passed"]) == ("failed", "refused", None)


def test_the_columns_are_always_the_same(annotate_cli, tmp_path, rubric):
    runs = {
        "full": [full()],
        "bare": [said("t")],
        "skipped": [said("t", status="skipped")],
        "empty": [],
        "odd": [said("t", model=3, passed="yes", task={"a": None})],
    }
    made = {
        name: saved(annotate_cli, make_run(tmp_path / name, rubric, ones))
        for name, ones in runs.items()
    }
    assert {name: len(one) for name, one in made.items()} == {
        name: len(ones) for name, ones in runs.items()
    }
    assert len({str(one.features) for one in made.values()}) == 1
    [odd] = made["odd"]
    assert (odd["model"], odd["passed"], odd["task"]) == ("3", None, '{"a": null}')


def test_several_runs_and_rubrics(annotate_cli, tmp_path, rubric):
    other = make_rubric(tmp_path, "many", id="other")
    one = make_run(tmp_path / "one", rubric, [said("a", "alpha")], more=[(other, [said("a")])])
    two = make_run(tmp_path / "two", rubric, [said("a", "beta")], judge="llm:n")
    said_in_words(annotate_cli("report", one, two, "--format", "dataset"))
    rows = saved(annotate_cli, one, two, "--out", tmp_path / "both")
    found = [(row["rubric"], row["judge"], row["primary"]) for row in rows]
    assert found == [
        ("faults", "llm:m", "alpha"),
        ("other", "llm:m", None),
        ("faults", "llm:n", "beta"),
    ]
    assert len({row["run"] for row in rows}) == 2
    done = annotate_cli("report", one, one, "--format", "dataset", "--out", tmp_path / "twice")
    said_in_words(done)
    assert "given twice" in done.err


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda lines: lines[:-1], "recorded 3 annotations, 2 are left"),
        (lambda lines: [*lines[:2], lines[0]], "has a second annotation"),
        (lambda lines: [*lines[:2], lines[2].replace('"end": 11', f'"end": {10**30}')], "cannot"),
    ],
)
def test_a_damaged_run_makes_no_data_set(annotate_cli, tmp_path, rubric, change, what):
    run = make_run(tmp_path / "run", rubric, [said(f"t{n}", "alpha") for n in range(3)])
    file = run / "annotations.jsonl"
    file.write_text("".join(f"{line}\n" for line in change(file.read_text().splitlines())))
    before = sorted(run.iterdir())
    done = annotate_cli("report", run, "--format", "dataset")
    said_in_words(done)
    assert done.err.count("\n") == 1
    assert what in done.err
    assert sorted(run.iterdir()) == before


def test_only_a_data_set_is_replaced(annotate_cli, tmp_path, rubric):
    run = make_run(tmp_path / "run", rubric, [said("t", "alpha")])
    assert len(saved(annotate_cli, run)) == 1
    make_run(run, rubric, [said("t", "alpha"), said("u")])
    assert len(saved(annotate_cli, run)) == 2
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("x")
    (tmp_path / "file").write_text("x")
    for place in (mine, tmp_path / "file", run):
        said_in_words(annotate_cli("report", run, "--format", "dataset", "--out", place))
    assert (mine / "thesis.tex").read_text() == (tmp_path / "file").read_text() == "x"
    assert (run / "run.json").exists()


def test_a_part_of_a_run_is_said_to_be_one(annotate_cli, tmp_path, rubric):
    whole = make_run(tmp_path / "a" / "run", rubric, [said("t")])
    part = make_run(tmp_path / "b" / "run", rubric, [said("t")], status="interrupted", limit=7)
    place = tmp_path / "made"
    done = annotate_cli("report", whole, part, "--format", "dataset", "--out", place)
    assert done.err.splitlines() == [
        f"{part}: Only the first 7 traces were read (--limit). The run is not finished (status:"
        " interrupted): this is a part of it.",
        f"written to {place}",
    ]
    rows = datasets.load_from_disk(place)
    assert [(row["run_status"], row["limit"]) for row in rows] == [
        ("finished", None),
        ("interrupted", 7),
    ]


# --out


@pytest.mark.parametrize("name", ["table", "csv", "json", "md", "latex"])
@pytest.mark.parametrize(
    "kind", [("report",), ("report", "--co-occurrence"), ("compare", "--by", "m")]
)
def test_text_goes_where_it_is_wanted(annotate_cli, tmp_path, rubric, name, kind):
    ones = [said(f"t{n}", "alpha", "beta", m="xy"[n % 2]) for n in range(6)]
    run = make_run(tmp_path / "run", rubric, ones)
    printed = annotate_cli(*kind, run, "--format", name)
    file = tmp_path / "out"
    file.write_text("before")
    done = annotate_cli(*kind, run, "--format", name, "--out", file)
    assert (done.code, done.out, done.err) == (0, "", f"written to {file}\n")
    assert unwrap(file.read_text(encoding="utf-8")) == printed.out
    assert sorted(one.name for one in tmp_path.iterdir() if one.name.startswith(".")) == []


@pytest.mark.parametrize("format_", ["csv", "parquet", "dataset"])
def test_what_cannot_be_written_is_said_in_a_line(annotate_cli, tmp_path, rubric, format_):
    run = make_run(tmp_path / "run", rubric, [said("t", "alpha")])
    for place in (tmp_path / "no" / "such", Path("/dev/null"), Path("/proc/x")):
        done = annotate_cli("report", run, "--format", format_, "--out", place)
        said_in_words(done)
        assert done.err.count("\n") == 1
        assert str(place) in done.err
    name = tmp_path / "a\udcff\u202e"
    done = annotate_cli("report", run, "--format", format_, "--out", name)
    assert done.code == 0, done.err
    assert (done.err.count("\n"), "\u202e" in done.err) == (1, False)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--format", "parquet", "--co-occurrence"),
        ("--format", "dataset", "--by", "m"),
        ("--format", "dataset", "--calibration", "c.json"),
    ],
)
def test_what_does_not_go_together(annotate_cli, tmp_path, rubric, arguments):
    run = make_run(tmp_path / "run", rubric, [said("t", "alpha", m="x")])
    done = annotate_cli("report", run, *arguments)
    said_in_words(done)
    assert "goes with" in done.err
    assert not list(run.glob("report*"))


def test_several_runs_need_a_place(annotate_cli, tmp_path, rubric):
    runs = [make_run(tmp_path / name, rubric, [said("t")]) for name in "ab"]
    for format_ in ("parquet", "dataset"):
        done = annotate_cli("report", *runs, "--format", format_)
        said_in_words(done)
        assert "--out" in done.err
