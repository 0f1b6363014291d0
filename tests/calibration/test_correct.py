"""Correcting a table by a calibration file: the numbers carried over, and what a file keeps."""

import json

import pytest

from annotator.calibration.model import read_calibrations, write_calibrations
from tests.calibration.build import label, make_run, said
from validation import estimate_lang_reiczigel


@pytest.fixture
def made(calibrate, tmp_path, rubric):
    """A run of 60 traces and its calibration from 20 labels."""
    traces = [said(f"t{n}", *(["alpha"] if n % 3 else [])) for n in range(60)]
    run = make_run(tmp_path / "run", rubric, traces)
    rows = [label(f"t{n}", rubric, *(["alpha"] if n % 4 else ["beta"])) for n in range(20)]
    calibrate(run, rows)
    return run, run / "calibration.json"


def carried_over(annotate_cli, run, file):
    done = annotate_cli("report", run, "--calibration", file, "--transfer", "--format", "json")
    assert done.code == 0, done.err
    [table] = json.loads(done.out)
    return table, {row["code"]: row for row in table["rows"]}


@pytest.fixture
def carry_golden(annotate_cli, calibrate, tmp_path, rubric):
    """Calibrate on 120 traces, 40 of them alpha, and carry over to 400 with 80 flagged."""

    def carry(flagged, tasks):
        def make(name, flagged, count):
            traces = [
                said(
                    f"{name}{n}",
                    *(["alpha"] if n in flagged else []),
                    **({"project": "p", "task": str(n)} if tasks else {}),
                )
                for n in range(count)
            ]
            return make_run(tmp_path / name, rubric, traces)

        here = make("t", flagged, 120)
        rows = [label(f"t{n}", rubric, *["alpha"][n // 40 :]) for n in range(120)]
        calibrate(here, rows)
        return carried_over(annotate_cli, make("x", range(80), 400), here / "calibration.json")

    return carry


def test_rogan_gladen_by_hand(carry_golden):
    """Golden case judge-check-120-plus-400: TPR 30/40, TNR 78/80; 80 of 400 flagged elsewhere give
    (.2 + .975 - 1) / (.75 + .975 - 1) = .2414 [.1586, .3271].
    """
    table, rows = carry_golden({*range(30), 40, 41}, tasks=False)
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


def test_rates_over_tasks_by_hand(carry_golden):
    """As above with TPR 28/40, and every trace of its own task: design effects G / (G - 1), so 39,
    79 and 399 count, times (z / t of 119)^2 = .9798: 38, 77 and 391.
    """
    _, rows = carry_golden({*range(28), 40, 41}, tasks=True)
    alpha, expected = rows["alpha"]["corrected"], estimate_lang_reiczigel(78, 391, 27, 38, 75, 77)
    assert alpha["value"] == pytest.approx(0.175 / 0.675)
    assert (alpha["low"], alpha["high"]) == pytest.approx((expected.low, expected.high))


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
    calibrate(here, rows)
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
