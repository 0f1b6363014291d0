"""Correcting a table by a calibration file: the file's damages, and the numbers carried over."""

import json

import pytest

from annotator.calibration.correct import correct
from annotator.calibration.judged_sample import read_judged_sample
from annotator.calibration.model import read_calibrations, write_calibrations
from annotator.runs.run import open_run
from tests.calibration.build import (
    calibration,
    label,
    make_run,
    row_of,
    said,
    said_in_words,
    write_labels,
)
from validation import estimate_lang_reiczigel


@pytest.fixture
def made(calibrate, tmp_path, rubric):
    """A run of 60 traces and its calibration from 20 labels."""
    traces = [said(f"t{n}", *(["alpha"] if n % 3 else [])) for n in range(60)]
    run = make_run(tmp_path / "run", rubric, traces)
    rows = [label(f"t{n}", rubric, *(["alpha"] if n % 4 else ["beta"])) for n in range(20)]
    calibrate(run, rows)
    return run, run / "calibration.json"


def judged_sample_of(run, file):
    [stored] = read_calibrations([file])["faults"]
    return stored, read_judged_sample(
        open_run(run), "faults", select={one.trace_id for one in stored.joined}
    )


def test_correcting_gives_the_numbers_of_calibrate(made):
    run, file = made
    stored, sample = judged_sample_of(run, file)
    codes = correct(stored, sample).codes
    one = calibration(file)
    for code in ("alpha", "beta", "gamma", "none"):
        row = row_of(one, code)
        for name in ("corrected", "precision", "recall"):
            found = getattr(codes[code], name).as_dict()
            assert [found[key] == row[name][key] for key in ("value", "low", "high")] == [True] * 3
        for name in ("flagged", "missed", "mark"):
            assert getattr(codes[code], name) == row[name]


def carried_over(annotate_cli, run, file):
    done = annotate_cli("report", run, "--calibration", file, "--transfer", "--format", "json")
    assert done.code == 0, done.err
    [table] = json.loads(done.out)
    return table, {row["code"]: row for row in table["rows"]}


def test_rogan_gladen_by_hand(annotate_cli, calibrate, tmp_path, rubric):
    """Golden case judge-check-120-plus-400: TPR 30/40, TNR 78/80; 80 of 400 flagged elsewhere give
    (.2 + .975 - 1) / (.75 + .975 - 1) = .2414 [.1586, .3271].
    """
    flagged = {*range(30), 40, 41}
    traces = [said(f"t{n}", *(["alpha"] if n in flagged else [])) for n in range(120)]
    rows = [label(f"t{n}", rubric, *(["alpha"] if n < 40 else [])) for n in range(120)]
    here = make_run(tmp_path / "here", rubric, traces)
    calibrate(here, rows)
    others = [said(f"x{n}", *(["alpha"] if n < 80 else [])) for n in range(400)]
    there = make_run(tmp_path / "there", rubric, others)
    table, rows = carried_over(annotate_cli, there, here / "calibration.json")
    alpha = rows["alpha"]["corrected"]
    assert table["transferred"]
    assert alpha["value"] == pytest.approx(0.24137931034482762)
    assert alpha["low"] == pytest.approx(0.15863139534612236)
    assert alpha["high"] == pytest.approx(0.32712157420587074)
    assert rows["alpha"]["recall"]["value"] == pytest.approx(0.75)
    # No label has beta: its sensitivity is not known, and nothing is made up.
    assert rows["beta"]["corrected"]["value"] is None
    assert rows["beta"]["corrected_percent"] == "-"
    why = "no labelled trace has the code: sensitivity is unknown"
    assert rows["beta"]["corrected"]["reason"] == why
    assert any("TRANSFERRED" in note for note in table["notes"])


@pytest.mark.parametrize(
    ("known", "judged", "reasons"),
    [
        (("alpha", "beta"), ("alpha", "beta"), {"gamma": "the judge has no rule for this code"}),
        (
            ("alpha", "beta"),
            ("alpha", "beta", "gamma"),
            {
                "gamma": "the calibrated judge had no rule for this code",
                "none": "none is what is left of other codes than the calibrated judge can find",
            },
        ),
        (
            ("alpha", "beta", "gamma"),
            ("alpha", "beta"),
            {
                "gamma": "the judge has no rule for this code",
                "none": "none is what is left of other codes than the calibrated judge can find",
            },
        ),
    ],
)
def test_codes_of_judges_that_find_others_are_not_carried_over(
    annotate_cli, calibrate, tmp_path, rubric, known, judged, reasons
):
    said_of = [(), ("alpha",), ("beta",), ("alpha",), ("beta",), ()]
    traces = [said(f"t{n}", *said_of[n % 6]) for n in range(60)]
    rows = [label(f"t{n}", rubric, *said_of[n % 6 if n % 5 else 0]) for n in range(60)]
    here = make_run(tmp_path / "here", rubric, traces, known=known)
    calibrate(here, rows)
    there = make_run(tmp_path / "there", rubric, traces, judge="llm:other", known=judged)
    _, found = carried_over(annotate_cli, there, here / "calibration.json")
    undefined = {
        code: row["corrected"]["reason"]
        for code, row in found.items()
        if row["corrected"]["value"] is None
    }
    assert undefined == reasons


def test_rates_over_tasks_by_hand(annotate_cli, calibrate, tmp_path, rubric):
    """As above with TPR 28/40, and every trace of its own task: design effects G / (G - 1), so 39,
    79 and 399 count, times (z / t of 119)^2 = .9798: 38, 77 and 391.
    """

    def place(n):
        return {"project": "p", "task": str(n)}

    traces = [
        said(f"t{n}", *(["alpha"] if n < 28 or 40 <= n < 42 else []), **place(n))
        for n in range(120)
    ]
    here = make_run(tmp_path / "here", rubric, traces)
    rows = [label(f"t{n}", rubric, *(["alpha"] if n < 40 else [])) for n in range(120)]
    calibrate(here, rows)
    ones = [said(f"x{n}", *(["alpha"] if n < 80 else []), **place(n)) for n in range(400)]
    there = make_run(tmp_path / "there", rubric, ones)
    _, found = carried_over(annotate_cli, there, here / "calibration.json")
    alpha, wanted = found["alpha"]["corrected"], estimate_lang_reiczigel(78, 391, 27, 38, 75, 77)
    assert alpha["value"] == pytest.approx(0.175 / 0.675)
    assert (alpha["low"], alpha["high"]) == pytest.approx((wanted.low, wanted.high))


@pytest.mark.parametrize(("of_labels", "of_traces"), [(1, 6), (6, 1), (1, 1)])
def test_the_rates_of_one_task_say_nothing_of_others(
    annotate_cli, calibrate, tmp_path, rubric, of_labels, of_traces
):
    """What the labels are is said all the same: 10 that the judge gave alpha, 5 that it missed."""

    def make(name, tasks, **more):
        traces = [
            said(f"{name}{n}", *(["alpha"] if n < 10 else []), project="p", task=str(n % tasks))
            for n in range(30)
        ]
        return make_run(tmp_path / name, rubric, traces, **more)

    here = make("t", of_labels)
    rows = [label(f"t{n}", rubric, *(["alpha"] if n < 15 else [])) for n in range(30)]
    file = write_labels(tmp_path / "labels.jsonl", rows)
    calibrate(here, file)
    there = make("x", of_traces, judge="llm:other")
    _, found = carried_over(annotate_cli, there, here / "calibration.json")
    alpha = found["alpha"]
    assert [alpha["corrected"][name] for name in ("value", "low", "high")] == [None, 0, 1]
    assert alpha["corrected"]["reason"].startswith("all traces are of one task")
    shown = [alpha[name] for name in ("labels_flagged", "labels_missed", "mark")]
    assert shown == [10, 5, "ok"]
    assert alpha["recall"]["value"] == pytest.approx(2 / 3)


# The file


def test_what_is_read_is_what_was_written(made, tmp_path):
    """Every digit and every key, in its order; only the time is another."""
    _, file = made
    [calibrations] = read_calibrations([file]).values()
    write_calibrations(tmp_path / "again.json", calibrations)
    old, new = (path.read_text().splitlines() for path in (file, tmp_path / "again.json"))
    assert [line for line in old if '"made"' not in line] == [
        line for line in new if '"made"' not in line
    ]
    assert read_calibrations([tmp_path / "again.json"])["faults"] == calibrations


def change(file, path, value):
    content = json.loads(file.read_text())
    place = content
    for key in path[:-1]:
        place = place[key]
    if value is None and path[-1] in place:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    file.write_text(json.dumps(content))


ONE = ("calibrations", 0)
FIRST = (*ONE, "joined", 0)


@pytest.mark.parametrize("content", ["{", "[]", '{"schema": "calibration/1"}', "\xff", "[" * 9**5])
def test_a_file_that_is_no_calibration(annotate_cli, made, content):
    run, file = made
    file.write_bytes(content.encode("latin-1"))
    done = annotate_cli("report", run, "--calibration", file)
    said_in_words(done)
    assert "calibration.json" in done.err


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), "calibration/2"),
        (("calibrations",), []),
        ((*ONE, "joined"), None),
        ((*ONE, "confidence"), 5),
        ((*FIRST, "weight"), 0),
        ((*FIRST, "weight"), float("nan")),
        ((*FIRST, "counted"), {"human": [], "judge": []}),
        ((*ONE, "labels"), {"annotators": 5}),
        ((*ONE, "agreement", "kappa", "n"), "many"),
    ],
)
def test_a_changed_calibration_is_refused_in_words(annotate_cli, made, path, value):
    run, file = made
    change(file, path, value)
    done = annotate_cli("report", run, "--calibration", file)
    said_in_words(done)
    assert f"{file}: not a calibration: {'.'.join(map(str, path[:2]))}" in done.err
    assert "make it with annotate calibrate" in done.err
