"""How often 95 % intervals contain the truth, and how often tests reject it, where traces share a
task.

    python -m bench.coverage [RUNS] [NAME ...]

RUNS is 1,000 by default (300 for the last four); NAME is a measurement, by default all of them:

shares: N traces of G uneven tasks; each has one of three codes (33, 10 and 3 %) or none, by shares
that differ between tasks so that two traces of one task have the intraclass correlation ICC. A
judge with known errors labels all, people label some, drawn at random or stratified by the judge's
code with a floor of five. "all" is the share with labels of every trace, the best that can be had
(``estimate_share_of_totals``); "corrected" the default of calibrated tables from 100 and 200
labels. Missed: the cover is below .92 where "all" reaches .92, or more than .02 below it elsewhere.

tests: two sides without a difference, of different tasks ("groups"), or of the same tasks with
effects of their own ("pairs") or with common ones ("same"). Missed: the test of the judge's own
shares rejects in more than 6 % (8 % at ICC .15).

corrected-tests: the same of corrected shares, by 200 and 50 labels a side; a quarter of the runs.

joint: see ``bench.joint``. unequal, corpus, undecided: see ``bench.judge_errors``.

All bars are three standard errors of the simulation lower. The exit code is 1 if one is missed.
"""

import sys
import time
from collections.abc import Callable, Iterator
from itertools import product

import numpy as np

from annotator.calibration.model import Codes, CountedLabels, LabelledTrace
from annotator.reports.corrected import correct_differences, correct_sides
from annotator.reports.sides import JudgedTrace, Kind, Terms
from annotator.rubrics import NONE
from bench.joint import measure_joint
from bench.judge_errors import measure_corpus, measure_undecided, measure_unequal
from bench.simulation import JUDGE, SHARES, draw_codes, draw_labels, draw_shares, draw_sizes
from validation import (
    SideTotals,
    compute_influences,
    estimate_clustered_difference,
    estimate_share_of_totals,
    make_cell,
    permute_clusters,
    poststratify,
)

RUNS, SEED = 1000, 0
TASKS, ICCS, SIZES, LABELS, DESIGNS = (
    (14, 34, 100),
    (0.0, 0.05, 0.15),
    (652, 2702),
    (100, 200),
    ("uniform", "stratified"),
)


def cover_shares(
    rng: np.random.Generator, tasks: int, icc: float, n: int, runs: int
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield, per way, the cover of the three codes and the mean width."""
    ways = ["all", *(f"{labels} {design}" for labels, design in product(LABELS, DESIGNS))]
    hits = {way: np.zeros(3) for way in ways}
    widths = {way: np.zeros(3) for way in ways}
    for _ in range(runs):
        task = np.repeat(np.arange(tasks), draw_sizes(rng, tasks, n))
        truth = draw_codes(rng, draw_shares(rng, tasks, icc)[task])
        judged = draw_codes(rng, JUDGE[truth])
        totals = np.bincount(task, minlength=tasks)
        drawn = {
            f"{labels} {design}": draw_labels(rng, judged, labels, design)
            for labels, design in product(LABELS, DESIGNS)
        }
        for code in range(3):
            counted = np.bincount(task, truth == code, minlength=tasks).astype(int)
            intervals = {"all": estimate_share_of_totals(counted, totals)}
            flagged = np.bincount(task, judged == code, minlength=tasks).astype(int)
            for way, (chosen, weights) in drawn.items():
                flags, human = judged[chosen] == code, truth[chosen] == code
                counts = np.column_stack([flagged, totals - flagged])
                over_tasks = compute_influences(counts, task[chosen], 1 - flags, human, weights)
                intervals[way] = poststratify(
                    n,
                    int(flagged.sum()),
                    make_cell(human[flags], weights[flags]),
                    make_cell(human[~flags], weights[~flags]),
                    cluster_variance=over_tasks.variance,
                    df=tasks - 1,
                )
            for way, interval in intervals.items():
                hits[way][code] += interval.low <= SHARES[code] <= interval.high
                widths[way][code] += interval.high - interval.low
    for way in ways:
        yield way, hits[way] / runs, widths[way] / runs


def reject(
    rng: np.random.Generator, kind: str, tasks: int, icc: float, n: int, runs: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return how often the test rejects, and the interval leaves out, no difference, by code."""
    rejected, missed = np.zeros(3), np.zeros(3)
    for run in range(runs):
        sizes = [draw_sizes(rng, tasks, n)] * 2
        if kind != "pairs":
            sizes[1] = draw_sizes(rng, tasks, n)
        shares = [draw_shares(rng, tasks, icc)] * 2
        if kind != "same":
            shares[1] = draw_shares(rng, tasks, icc)
        counts = [rng.multinomial(size, share) for size, share in zip(sizes, shares, strict=True)]
        padding = np.zeros((tasks, 4), dtype=int)
        if kind == "groups":
            counts = [np.vstack([counts[0], padding]), np.vstack([padding, counts[1]])]
        sides = [SideTotals(count[:, :3].T, count.sum(axis=1)) for count in counts]
        for code, test in enumerate(permute_clusters(*sides, seed=run)):
            rejected[code] += test.p is not None and test.p < 0.05
            gap = estimate_clustered_difference(sides[0].of(code), sides[1].of(code))
            missed[code] += not gap.low <= 0 <= gap.high
    return rejected / runs, missed / runs


def reject_corrected(
    rng: np.random.Generator, kind: Kind, labels: int, tasks: int, icc: float, n: int, runs: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return how often the test of corrected shares rejects, and its interval leaves out, no
    difference, by code.
    """
    names = ("a", "b", "c", NONE)
    rejected, missed = np.zeros(3), np.zeros(3)
    for _ in range(runs):
        sizes = [draw_sizes(rng, tasks, n)] * 2
        shares = [draw_shares(rng, tasks, icc) for _ in range(2)]
        sides = tuple(
            draw_side(rng, kind, side, np.repeat(np.arange(tasks), size), share, labels, names)
            for side, (size, share) in enumerate(zip(sizes, shares, strict=True))
        )
        corrected = correct_sides(sides, names[:3], kind, Terms())
        found = correct_differences(corrected, names[:3], Terms())
        for code, (gap, test) in enumerate(found):
            rejected[code] += test.p is not None and test.p < 0.05
            missed[code] += gap.low is not None and not gap.low <= 0 <= gap.high
    return rejected / runs, missed / runs


def draw_side(
    rng: np.random.Generator,
    kind: Kind,
    side: int,
    task: np.ndarray,
    shares: np.ndarray,
    labels: int,
    names: tuple[str, ...],
) -> list[JudgedTrace]:
    """Return the judged traces of a side, some with a person's label."""
    truth = draw_codes(rng, shares[task])
    judged = draw_codes(rng, JUDGE[truth])
    labelled = set(rng.choice(len(task), labels, replace=False).tolist())
    traces = []
    for n, (of, code, right) in enumerate(zip(task, judged, truth, strict=True)):
        cluster = f"{of}" if kind == "paired" else f"{side}/{of}"
        codes = [Codes(None if names[c] == NONE else names[c], ()) for c in (right, code)]
        counted = CountedLabels((names[right],), (names[code],))
        person = LabelledTrace(f"{n}", *codes, counted, len(task) / labels, cluster)
        traces.append(
            JudgedTrace(f"{n}", n, (names[code],), person if n in labelled else None, cluster)
        )
    return traces


def measure_shares(rng: np.random.Generator, runs: int) -> bool:
    """Print the cover of shares; return whether the bar is met."""
    met = True
    print("cover (width) of 95 % intervals, codes of 33, 10 and 3 %")
    for tasks, icc, n in product(TASKS, ICCS, SIZES):
        reference = np.zeros(3)
        for way, cover, width in cover_shares(rng, tasks, icc, n, runs):
            reference = cover if way == "all" else reference
            bar = np.where(reference >= 0.92, 0.92, reference - 0.02)
            bar = bar - 3 * np.sqrt(bar * (1 - bar) / runs)
            ok = bool((cover >= bar).all())
            met &= ok
            numbers = "  ".join(f"{c:.3f} ({w:.3f})" for c, w in zip(cover, width, strict=True))
            print(f"{tasks:4d} tasks  ICC {icc:.2f}  N {n:4d}  {way:14s} {numbers}", end="")
            print("" if ok else "  MISSED", flush=True)
    return met


def measure_tests(rng: np.random.Generator, runs: int) -> bool:
    """Print how often no difference is found to be one; return whether the bar is met."""
    met = True
    print("no difference: rejected by the test (left out by the interval)")
    for kind, tasks, icc in product(("groups", "pairs", "same"), TASKS, ICCS):
        rejected, missed = reject(rng, kind, tasks, icc, 652, runs)
        bar = 0.08 if icc > 0.05 else 0.06
        ok = bool((rejected <= bar + 3 * np.sqrt(bar * (1 - bar) / runs)).all())
        met &= ok
        numbers = "  ".join(f"{r:.3f} ({m:.3f})" for r, m in zip(rejected, missed, strict=True))
        print(f"{kind:7s} {tasks:4d} tasks  ICC {icc:.2f}  {numbers}", end="")
        print("" if ok else "  MISSED", flush=True)
    return met


def measure_corrected_tests(rng: np.random.Generator, runs: int) -> bool:
    """Print the same of corrected shares; return whether the bar is met."""
    met = True
    print("no difference of corrected shares: rejected by the test (left out by the interval)")
    for kind, labels, tasks, icc in product(("independent", "paired"), (200, 50), TASKS, ICCS):
        few = max(1, runs // 4)
        rejected, missed = reject_corrected(rng, kind, labels, tasks, icc, 652, few)
        bar = 0.08 if icc > 0.05 else 0.06
        ok = bool((rejected <= bar + 3 * np.sqrt(bar * (1 - bar) / few)).all())
        met &= ok
        numbers = "  ".join(f"{r:.3f} ({m:.3f})" for r, m in zip(rejected, missed, strict=True))
        print(f"{kind:11s} {labels:3d} labels {tasks:4d} tasks  ICC {icc:.2f}  {numbers}", end="")
        print("" if ok else "  MISSED", flush=True)
    return met


MEASUREMENTS: dict[str, Callable[[np.random.Generator, int], bool]] = {
    "shares": measure_shares,
    "tests": measure_tests,
    "corrected-tests": measure_corrected_tests,
    "joint": measure_joint,
    "unequal": measure_unequal,
    "corpus": measure_corpus,
    "undecided": measure_undecided,
}
FEWER = dict.fromkeys(("joint", "unequal", "corpus", "undecided"), 300)  # runs by default


def main() -> None:
    """Measure and print; the exit code is 1 if a bar is missed."""
    runs = [int(word) for word in sys.argv[1:] if word.isdigit()]
    names = [word for word in sys.argv[1:] if not word.isdigit()] or list(MEASUREMENTS)
    met = True
    for name in names:
        times = runs[0] if runs else FEWER.get(name, RUNS)
        begun = time.perf_counter()
        met &= MEASUREMENTS[name](np.random.default_rng(SEED), times)
        print(f"{name}: {times} runs each, {time.perf_counter() - begun:.0f} s", flush=True)
    sys.exit(not met)


if __name__ == "__main__":
    main()
