"""Differences between two groups of traces, corrected for the judge's errors by people's labels."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from annotator.calibration.estimates import (
    FEW_LABELS,
    Judged,
    correct_share,
    count_cell,
    find_influences,
)
from annotator.calibration.model import LabelledTrace
from annotator.clusters import ClusterCounts
from annotator.reports.comparison_sides import JudgedTrace, Kind, Sides, Terms
from validation import LEAST_CLUSTERS, Estimate, Test, adjust, cluster_variance, fisher
from validation.intervals import quantile, student_p

_EQUAL = 0.05  # below it the error rates of the two sides differ, and are not pooled


@dataclass(frozen=True, slots=True)
class CorrectedDifferences:
    """The corrected difference of each code with its test, the p of these by Holm, and the
    corrected shares of both sides. ``notes`` say how they were made.
    """

    gaps: tuple[Estimate, ...]
    tests: tuple[Test, ...]
    adjusted: tuple[float | None, ...]
    shares: tuple[Mapping[str, Estimate], Mapping[str, Estimate]]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Side:
    """The judged traces of a side, counted by cluster, and those with people's labels."""

    total: int
    counts: ClusterCounts
    people: Sequence[LabelledTrace]
    clustered: bool

    def judged(self, code: str) -> Judged:
        clusters = self.counts if self.clustered else None
        return Judged(self.total, sum(self.counts.totals(code)[0]), clusters)


def correct_differences(
    sides: Sides, codes: Sequence[str], kind: Kind, terms: Terms
) -> CorrectedDifferences:
    """Return the difference of the corrected shares of each code, first minus second.

    Each side is corrected by the labels of its own traces. Where the sides share tasks (or traces
    are pairs), so do their errors: their correlation is that of what each task adds to the two
    shares. Where groups are independent and a side has few labels, the error rates of both are
    pooled for every code for which a test does not find them to differ.
    """
    clustered = kind == "paired" or any(trace.cluster for side in sides for trace in side)
    first, second = (_count_side(n, side, kind, clustered) for n, side in enumerate(sides))
    seen = sorted({label for side in sides for trace in side for label in trace.labels})
    shares = [
        {
            code: correct_share(
                code, side.judged(code), side.people, terms.confidence, terms.population
            )
            for code in dict.fromkeys((*codes, *seen))
        }
        for side in (first, second)
    ]
    labels = [len(first.people), len(second.people)]
    notes = [f"Corrected: by the labels of both sides ({labels[0]} and {labels[1]})."]
    pooled: frozenset[str] = frozenset()
    corpus = terms.population == "corpus"  # whose tasks are all there
    if kind == "independent" and 0 < min(labels) < FEW_LABELS and not corpus:
        pooled, note = _find_poolable(codes, (first, second))
        notes.append(note)
    gaps, tests = [], []
    for code in codes:
        if code in pooled:
            gap, test = _pool(code, (first, second), terms.confidence)
        else:
            both = shares[0][code], shares[1][code]
            together = None if corpus else _correlate(code, (first, second))
            gap, test = _subtract(both, together, terms.confidence)
        gaps.append(gap)
        tests.append(test)
    adjusted = adjust([test.p for test in tests], "holm")
    return CorrectedDifferences(
        tuple(gaps), tuple(tests), tuple(adjusted), (shares[0], shares[1]), tuple(notes)
    )


def _count_side(number: int, side: Sequence[JudgedTrace], kind: Kind, clustered: bool) -> _Side:
    """Count a side; a trace that tells no task is of its own, or of its pair's."""
    counts, people = ClusterCounts(), []
    for trace in side:
        lone = f"{'' if kind == 'paired' else number}:{trace.key!r}"
        name = (trace.cluster or lone) if clustered else None
        counts.add(name, trace.labels)
        if trace.person:
            people.append(replace(trace.person, cluster=name))
    return _Side(len(side), counts, people, clustered)


def _subtract(
    shares: tuple[Estimate, Estimate], together: float | None, confidence: float
) -> tuple[Estimate, Test]:
    """Return the difference of two corrected shares, whose errors are correlated as far as they go
    ``together``, and the test of none.
    """
    n = sum(share.n for share in shares)
    for name, share in zip(("first", "second"), shares, strict=True):
        if share.value is None:
            return _nothing(n, f"the {name} side: {share.reason or 'not known'}", confidence)
    spreads, frees = [], []
    for share in shares:
        free = share.inputs["df"]
        widened = 1.0 if free is None else quantile(confidence, free) / quantile(confidence)
        spreads.append(share.inputs["posterior_sd"] / widened)
        frees.append(free)
    variance = sum(spread**2 for spread in spreads)
    variance -= 2 * (together or 0.0) * spreads[0] * spreads[1]
    df = None if None in frees else min(frees)
    gap = (shares[0].value or 0.0) - (shares[1].value or 0.0)
    inputs = {"first": shares[0].value, "second": shares[1].value, "correlation": together}
    return _test(gap, variance, df, n, confidence, "post-stratified", inputs)


def _correlate(code: str, sides: tuple[_Side, _Side]) -> float | None:
    """Return how far the errors of the two corrected shares go together, None where they share no
    task.
    """
    names = [list(side.counts.in_cluster) for side in sides]
    if not set(names[0]) & set(names[1]):
        return None
    by_name: list[dict[Hashable, float]] = []
    for side, clusters in zip(sides, names, strict=True):
        influences = find_influences(code, side.judged(code), side.people)
        assert influences is not None  # noqa: S101 - clusters are shared, so there are some
        by_name.append(dict(zip(clusters, influences.on_share.tolist(), strict=True)))
    squares = [sum(value**2 for value in side.values()) for side in by_name]
    product = sum(value * by_name[1].get(name, 0.0) for name, value in by_name[0].items())
    return product / math.sqrt(squares[0] * squares[1]) if min(squares) > 0 else 0.0


def _find_poolable(codes: Sequence[str], sides: tuple[_Side, _Side]) -> tuple[frozenset[str], str]:
    """Return the codes for which no test finds the judge's error rates to differ between the sides,
    and what was found: Fisher's test for each code of the flagged and of the other labels, Holm.
    """
    tests = []
    for code in codes:
        for flagged in (True, False):
            table = []
            for side in sides:
                cell = [
                    code in trace.counted.human
                    for trace in side.people
                    if (code in trace.counted.judge) is flagged
                ]
                table.append([sum(cell), len(cell) - sum(cell)])
            varies = all(map(sum, table)) and all(map(sum, zip(*table, strict=True)))
            tests.append((code, fisher(table).p if varies else None))
    adjusted = adjust([p for _, p in tests], "holm")
    differ = {
        code for (code, _), p in zip(tests, adjusted, strict=True) if p is not None and p < _EQUAL
    }
    made = [p for p in adjusted if p is not None]
    smallest = f", the smallest {min(made):.3f}" if made else ""
    few = min(len(side.people) for side in sides)
    note = (
        f"A side has {few} labels, fewer than {FEW_LABELS}: the judge's error rates are those of"
        f" both sides together. Test that they are equal (Fisher, by code and the judge's answer,"
        f" {len(made)} tests; p by Holm{smallest}): "
    )
    apart = f"they differ, and each side keeps its rates, for {', '.join(sorted(differ))}."
    note += apart if differ else "none differs; with few labels that says little."
    return frozenset(codes) - differ, note


def _pool(code: str, sides: tuple[_Side, _Side], confidence: float) -> tuple[Estimate, Test]:
    """Return (W1 - W2) (p1 - p0), the difference of two corrected shares with the error rates of
    all labels, and the test of none.

    The variance is at least that of independent traces and labels with Jeffreys' prior, and at
    least that over tasks.
    """
    people = [*sides[0].people, *sides[1].people]
    n = sides[0].total + sides[1].total
    cells = [count_cell(code, flagged, people) for flagged in (True, False)]
    if any(cell.share is None for cell in cells):
        which = "without" if cells[0].share is not None else "with"
        return _nothing(n, f"no label of traces {which} the judge's code", confidence)
    flags = [side.judged(code).flagged / side.total for side in sides]
    hit, miss = (cell.share or 0.0 for cell in cells)
    gain, between = hit - miss, flags[0] - flags[1]
    sampled = sum(w * (1 - w) / side.total for w, side in zip(flags, sides, strict=True))
    variance = (cells[0].mean - cells[1].mean) ** 2 * sampled
    variance += between**2 * sum(cell.variance for cell in cells)
    df = None
    if sides[0].clustered:
        over_tasks, df = _spread_over_tasks(code, sides, people, gain, between)
        variance = max(variance, over_tasks)
    inputs = {"W1": flags[0], "W2": flags[1], "p1": hit, "p0": miss}
    return _test(gain * between, variance, df, n, confidence, "pooled", inputs)


def _spread_over_tasks(
    code: str,
    sides: tuple[_Side, _Side],
    people: Sequence[LabelledTrace],
    gain: float,
    between: float,
) -> tuple[float, float]:
    """Return the variance of the pooled difference over tasks, and its degrees of freedom."""
    added: dict[str | None, float] = {}
    for sign, side in zip((1, -1), sides, strict=True):
        share = side.judged(code).flagged / side.total
        for name, counts in side.counts.in_cluster.items():
            deviation = (counts[code] - share * counts[None]) / side.total
            added[name] = added.get(name, 0.0) + sign * gain * deviation
    for sign, flagged in ((1, True), (-1, False)):
        cell = [trace for trace in people if (code in trace.counted.judge) is flagged]
        total = sum(trace.weight for trace in cell)
        mean = sum(trace.weight * (code in trace.counted.human) for trace in cell) / total
        for trace in cell:
            residual = trace.weight * ((code in trace.counted.human) - mean) / total
            added[trace.cluster] += sign * between * residual
    labelled = min(len({trace.cluster for trace in side.people}) for side in sides)
    return cluster_variance(np.array(list(added.values()))), float(labelled - 1)


def _test(
    gap: float,
    variance: float,
    df: float | None,
    n: int,
    confidence: float,
    method: str,
    inputs: Mapping[str, float | None],
) -> tuple[Estimate, Test]:
    """Return a difference with its interval, and Student's test of none."""
    if df is not None and df < LEAST_CLUSTERS - 1:
        reason = f"labels of fewer than {LEAST_CLUSTERS} tasks"
        estimate = Estimate("difference", gap, None, None, n, confidence, method, reason, inputs)
        return estimate, Test("t", None, None, n, reason)
    error = math.sqrt(variance)
    half = quantile(confidence, df) * error
    low, high = max(-1.0, gap - half), min(1.0, gap + half)
    inputs = {**inputs, "se": error, "df": df}
    estimate = Estimate("difference", gap, low, high, n, confidence, method, None, inputs)
    if not error:
        return estimate, Test("t", None, None, n, "nothing varies")
    return estimate, Test("t", gap / error, student_p(gap / error, df), n)


def _nothing(n: int, reason: str, confidence: float) -> tuple[Estimate, Test]:
    estimate = Estimate("difference", None, None, None, n, confidence, "post-stratified", reason)
    return estimate, Test("t", None, None, n, reason)
