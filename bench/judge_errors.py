"""Judges whose errors are not even, and samples that are not whole: three measurements of
``bench.coverage``.

unequal: two independent groups of 17 tasks each, one code of a third of the traces, ICC .05. The
judge finds 88 % of it in both groups, but in the first group it also gives it to 5 or 10 points
more of the traces without it. The groups do not differ. A row says how often the test of corrected
shares rejects that (at most 7 %).

corpus: shares of these traces only (``--population corpus``), of 34 tasks, labels drawn from all
of them. A row says how often the interval holds the share in these very traces, by code.

undecided: the judge leaves traces undecided, most often those with a code (of the traces with the
three codes and none 60, 30, 50 and 20 %). Labels are drawn from all traces. A row says how often
the interval holds the share of all traces, by code: with the undecided traces as an answer, and of
the decided traces alone. "screen" judges never say none: all of these are undecided.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np

from annotator.calibration.estimates import Judged, correct_share, count_open
from annotator.calibration.model import OPEN, Codes, CountedLabels, LabelledTrace
from annotator.reports.corrected import correct_differences, correct_sides
from annotator.reports.sides import JudgedTrace, Terms
from annotator.rubrics import NONE
from annotator.traces.clusters import ClusterCounts
from bench.simulation import JUDGE, SHARES, draw_codes, draw_shares, draw_sizes

NAMES = ("a", "b", "c", NONE)
LEFT = np.array([0.60, 0.30, 0.50, 0.20])  # undecided, of the traces with each code
MOST_REJECTED, LEAST_COVER = 0.07, 0.92


def is_met(found: np.ndarray | float, bar: float, runs: int, *, at_most: bool = False) -> bool:
    """Return whether a simulated share meets a bar, three standard errors allowed."""
    error = 3 * np.sqrt(bar * (1 - bar) / runs)
    return bool(np.all(found <= bar + error) if at_most else np.all(found >= bar - error))


def trace_of(number: int, right: str, answer: str, weight: float, cluster: str) -> LabelledTrace:
    """Return a trace that a person labelled."""
    counted = CountedLabels((right,), (answer,))
    return LabelledTrace(f"{number}", Codes(right, ()), Codes(None, ()), counted, weight, cluster)


def draw_group(
    rng: np.random.Generator, group: int, n: int, labels: int, more: float
) -> list[JudgedTrace]:
    """Return a group of traces whose judge gives the code to ``more`` of those without it."""
    task = np.repeat(np.arange(17), draw_sizes(rng, 17, n))
    shares = draw_shares(rng, 17, 0.05, np.array([0.33, 0.67]))
    truth = draw_codes(rng, shares[task]) == 0
    flags = rng.random(n) < np.where(truth, 0.88, 0.05 + more)
    labelled = set(rng.choice(n, labels, replace=False).tolist())
    traces = []
    for number in range(n):
        right, answer = (NAMES[0] if yes else NONE for yes in (truth[number], flags[number]))
        cluster = f"{group}/{task[number]}"
        person = trace_of(number, right, answer, n / labels, cluster)
        traces.append(
            JudgedTrace(
                f"{number}", number, (answer,), person if number in labelled else None, cluster
            )
        )
    return traces


def measure_unequal(rng: np.random.Generator, runs: int) -> bool:
    """Print how often a true null is rejected; return whether the bar is met."""
    met = True
    print("no difference, but a judge that errs more in one group: rejected")
    for more, labels, n in product((0.05, 0.10), (100, 180), (150, 300, 1000)):
        rejected = 0
        for _ in range(runs):
            sides = (
                draw_group(rng, 0, n, labels // 2, more),
                draw_group(rng, 1, n, labels // 2, 0.0),
            )
            corrected = correct_sides(sides, NAMES[:1], "independent", Terms())
            [(_, test)] = correct_differences(corrected, NAMES[:1], Terms())
            rejected += test.p is not None and test.p < 0.05
        share = rejected / runs
        ok = is_met(share, MOST_REJECTED, runs, at_most=True)
        met &= ok
        print(
            f"+{100 * more:2.0f} points  {labels:3d} labels  {n:4d} a side  {share:.3f}"
            f"{'' if ok else '  MISSED'}",
            flush=True,
        )
    return met


def count_answers(answers: Sequence[str], clusters: Sequence[str]) -> tuple[ClusterCounts, int]:
    """Return the traces of each task by the judge's answer, and how many it decided."""
    counts, decided = ClusterCounts(), 0
    for answer, cluster in zip(answers, clusters, strict=True):
        is_decided = answer not in OPEN.values()
        counts.add(cluster, [answer], in_total=is_decided)
        decided += is_decided
    return counts, decided


def cover_corpus(rng: np.random.Generator, n: int, labels: int, icc: float) -> np.ndarray:
    """Return whether the interval of each code holds its share in these traces."""
    task = np.repeat(np.arange(34), draw_sizes(rng, 34, n))
    truth = draw_codes(rng, draw_shares(rng, 34, icc)[task])
    judged = draw_codes(rng, JUDGE[truth])
    chosen = rng.choice(n, labels, replace=False)
    people = [
        trace_of(i, NAMES[truth[i]], NAMES[judged[i]], n / labels, f"{task[i]}") for i in chosen
    ]
    held = np.zeros(3)
    for code in range(3):
        whole = Judged(n, int((judged == code).sum()))
        share = correct_share(NAMES[code], whole, people, population="corpus")
        held[code] = share.low <= (truth == code).mean() <= share.high
    return held


def measure_corpus(rng: np.random.Generator, runs: int) -> bool:
    """Print the cover of shares of these traces; return whether the bar is met."""
    met = True
    print("shares of these traces only: cover, codes of 33, 10 and 3 %")
    for icc, (n, labels) in product((0.0, 0.05, 0.15), ((300, 100), (1000, 600))):
        cover = np.mean([cover_corpus(rng, n, labels, icc) for _ in range(runs)], axis=0)
        ok = is_met(cover, LEAST_COVER, runs)
        met &= ok
        numbers = "  ".join(f"{value:.3f}" for value in cover)
        print(f"ICC {icc:.2f}  {labels} of {n} labelled  {numbers}{'' if ok else '  MISSED'}")
    return met


def cover_undecided(
    rng: np.random.Generator, tasks: int, n: int, labels: int, icc: float, *, screen: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return whether the interval of each code holds the share of all traces, with the undecided
    traces as an answer and without them, and the widths; shape (2, 3) each.
    """
    task = np.repeat(np.arange(tasks), draw_sizes(rng, tasks, n))
    truth = draw_codes(rng, draw_shares(rng, tasks, icc)[task])
    judged = draw_codes(rng, JUDGE[truth])
    undecided = judged == 3 if screen else rng.random(n) < LEFT[truth]
    answers = np.array(NAMES, dtype=object)[judged]
    answers[undecided] = OPEN["undecided"]
    clusters = [f"{of}" for of in task]
    chosen = rng.choice(n, labels, replace=False)
    people = [trace_of(i, NAMES[truth[i]], answers[i], n / labels, clusters[i]) for i in chosen]
    counts, decided = count_answers(answers, clusters)
    held, widths = np.zeros((2, 3)), np.zeros((2, 3))
    ways = ((people, {"undecided": int(undecided.sum())}), ([t for t in people if t.decided], {}))
    for code in range(3):
        flags = int((answers == NAMES[code]).sum())
        for way, (known, statuses) in enumerate(ways):
            opened = count_open({"failed": 0, **statuses}, known)
            share = correct_share(NAMES[code], Judged(decided, flags, counts, opened), known)
            held[way, code] = share.low <= SHARES[code] <= share.high
            widths[way, code] = share.high - share.low
    return held, widths


def measure_undecided(rng: np.random.Generator, runs: int) -> bool:
    """Print the cover of shares of all traces; return whether the bar is met."""
    met = True
    print(
        "undecided traces are not random: cover (width) of the share of all, and [of the decided]"
    )
    settings = product((34, 60), (0.0, 0.05, 0.15), (100, 200), (False, True))
    for tasks, icc, labels, screen in settings:
        rows = [cover_undecided(rng, tasks, 652, labels, icc, screen=screen) for _ in range(runs)]
        cover = np.mean([held for held, _ in rows], axis=0)
        width = np.mean([widths for _, widths in rows], axis=0)
        ok = is_met(cover[0], LEAST_COVER, runs)
        met &= ok
        numbers = "  ".join(
            f"{c:.3f} ({w:.3f}) [{before:.3f}]"
            for c, w, before in zip(cover[0], width[0], cover[1], strict=True)
        )
        judge = "screen" if screen else "model "
        print(f"{tasks} tasks  ICC {icc:.2f}  {labels} labels  {judge}  {numbers}", end="")
        print("" if ok else "  MISSED", flush=True)
    return met
