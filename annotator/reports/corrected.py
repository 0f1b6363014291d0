"""Shares of the sides of a comparison, and their differences, corrected by people's labels."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from annotator.calibration.estimates import (
    Judged,
    TaskInfluences,
    clear_share,
    correct_share,
    count_open,
    explain_few_labels,
    find_influences,
    mark_share,
)
from annotator.calibration.model import OPEN, LabelledTrace
from annotator.reports.sides import (
    JudgedTrace,
    Kind,
    Sides,
    Terms,
    drop_repeated,
    is_clustered,
    pair_traces,
)
from annotator.traces.clusters import ClusterCounts
from validation import LEAST_CLUSTERS, Estimate, Test
from validation.comparison import floor_variance
from validation.intervals import compute_p_value, compute_quantile, compute_widening

_METHOD = "post-stratified"


@dataclass(frozen=True, slots=True)
class CorrectedSide:
    """A side's traces by task, those with people's labels, and the corrected shares by code."""

    total: int  # that the judge decided
    open: Mapping[str, int]  # the others, by its answer
    counts: ClusterCounts
    people: Sequence[LabelledTrace]
    clustered: bool
    shares: Mapping[str, Estimate] = field(default_factory=dict)
    # The amounts that each task adds to the corrected share of a code.
    influences: Mapping[str, TaskInfluences | None] = field(default_factory=dict)
    few: str | None = None  # why the labels are too few for shares

    def count(self, code: str) -> Judged:
        """Return the counts of a code."""
        clusters = self.counts if self.clustered else None
        return Judged(self.total, sum(self.counts.totals(code)[0]), clusters, self.open)

    @property
    def marks(self) -> dict[str, str]:
        """The mark of each corrected share."""
        return {
            code: mark_share(code, self.count(code), self.people, share)
            for code, share in self.shares.items()
        }


def correct_sides(
    sides: Sides, codes: Sequence[str], kind: Kind, terms: Terms
) -> list[CorrectedSide]:
    """Return the sides with the corrected shares of codes; each by the labels of its own traces."""
    clustered = kind == "paired" or is_clustered(sides)
    corrected: list[CorrectedSide] = []
    for n, traces in enumerate(sides):
        side = _count_side(n, traces, kind, clustered)
        side = replace(side, few=explain_few_labels(side.people, terms.population))
        influences = {code: find_influences(code, side.count(code), side.people) for code in codes}
        shares = {
            code: correct_share(
                code,
                side.count(code),
                side.people,
                terms.confidence,
                terms.population,
                influences[code],
            )
            for code in codes
        }
        if side.few:
            shares = {code: clear_share(share, side.few) for code, share in shares.items()}
        corrected.append(replace(side, shares=shares, influences=influences))
    return corrected


def correct_differences(
    sides: Sequence[CorrectedSide], codes: Sequence[str], terms: Terms
) -> list[tuple[Estimate, Test]]:
    """Return the difference of the corrected shares of each code on two sides, with its test.

    If the sides share tasks, so do their errors: their covariance is that of the amounts that each
    task adds to the two shares.
    """
    first, second = sides
    pairs = []
    for code in codes:
        together = None
        if terms.population == "process":  # all tasks of a corpus are there: they do not vary
            together = _covary(first.influences[code], second.influences[code])
        shares = first.shares[code], second.shares[code]
        pairs.append(_subtract(shares, together, terms.confidence))
    return pairs


def keep_counted(sides: Sides, *, pairs: bool) -> tuple[Sides, list[str]]:
    """Return the traces that count in corrected shares, of ``pairs`` both or neither, and the
    statuses of the traces that do not count.

    Traces that the judge decided count. Others count if people labelled some of them on each side
    that has any.
    """
    counted: set[str | None] = {None}
    left = []
    for status, answer in OPEN.items():
        of_sides = [[trace for trace in side if trace.open == answer] for side in sides]
        if all(any(trace.person for trace in traces) for traces in of_sides if traces):
            counted.add(answer)
        elif any(of_sides):
            left.append(status)
    kept: Sides = tuple([trace for trace in side if trace.open in counted] for side in sides)
    if not pairs:
        return kept, left
    kept = pair_traces(tuple(drop_repeated(side, attrgetter("key")) for side in kept))
    # The labels that made an answer count may be of traces without a partner.
    if keep_counted(kept, pairs=False)[1]:
        kept, more = keep_counted(kept, pairs=True)
        left += more
    return kept, left


def _count_side(
    number: int, side: Sequence[JudgedTrace], kind: Kind, clustered: bool
) -> CorrectedSide:
    """Count a side; a trace that tells no task is of its own, or of its pair's."""
    counts, people = ClusterCounts(), []
    answers: Counter[str | None] = Counter()
    for trace in side:
        lone = f"{'' if kind == 'paired' else number}:{trace.key!r}"
        name = (trace.cluster or lone) if clustered else None
        counts.add(name, trace.labels, in_total=not trace.open)
        answers[trace.open] += 1
        if trace.person:
            people.append(replace(trace.person, cluster=name))
    statuses = {status: answers[answer] for status, answer in OPEN.items()}
    return CorrectedSide(answers[None], count_open(statuses, people), counts, people, clustered)


def _subtract(
    shares: tuple[Estimate, Estimate], together: float | None, confidence: float
) -> tuple[Estimate, Test]:
    """Return the difference of two shares, whose errors have a covariance, and its test."""
    n = sum(share.n for share in shares)
    for name, share in zip(("first", "second"), shares, strict=True):
        if share.value is None:
            return _undefine(n, f"the {name} side: {share.reason or 'not known'}", confidence)
    variance, frees, unlabelled = -2 * (together or 0.0), [], 0.0
    for share in shares:
        free = share.inputs["df"]
        variance += (share.inputs["posterior_sd"] / compute_widening(confidence, free)) ** 2
        unlabelled += share.inputs["unlabelled"]
        frees.append(free)
    if together is not None:
        variance = floor_variance(variance, min(count_labels(share) for share in shares))
    df = None if None in frees else min(frees)
    gap = (shares[0].value or 0.0) - (shares[1].value or 0.0)
    inputs = {"first": shares[0].value, "second": shares[1].value, "covariance": together}
    return _test_difference(gap, variance, df, n, confidence, inputs, unlabelled / 2)


def count_labels(share: Estimate) -> int:
    """Return the number of labels that a corrected share rests on."""
    others = sum(other["n_raw"] for other in share.inputs["others"])
    return int(share.inputs["n1_raw"] + share.inputs["n0_raw"] + others)


def _covary(first: TaskInfluences | None, second: TaskInfluences | None) -> float | None:
    """Return the covariance of the errors of two corrected shares, None if they share no task."""
    if first is None or second is None:
        return None
    by_name = [
        dict(zip(names, influences.on_share.tolist(), strict=True))
        for names, influences in (first, second)
    ]
    shared = by_name[0].keys() & by_name[1].keys()
    if not shared:
        return None
    tasks = len(by_name[0].keys() | by_name[1].keys())
    product = sum(by_name[0][name] * by_name[1][name] for name in sorted(shared))
    return product * tasks / (tasks - 1) if tasks > 1 else 0.0


def _test_difference(
    gap: float,
    variance: float,
    df: float | None,
    n: int,
    confidence: float,
    inputs: Mapping[str, float | None],
    slack: float,
) -> tuple[Estimate, Test]:
    """Return a difference with its interval, and Student's test. ``slack``: how far traces in
    cells without labels may move the difference, up or down.
    """
    if df is not None and df < LEAST_CLUSTERS - 1:
        reason = f"labels of fewer than {LEAST_CLUSTERS} tasks"
        estimate = Estimate("difference", gap, None, None, n, confidence, _METHOD, reason, inputs)
        return estimate, Test("t", None, None, n, reason)
    error = math.sqrt(variance)
    half = compute_quantile(confidence, df) * error + slack
    low, high = max(-1.0, gap - half), min(1.0, gap + half)
    inputs = {**inputs, "se": error, "df": df}
    estimate = Estimate("difference", gap, low, high, n, confidence, _METHOD, None, inputs)
    if not error:
        return estimate, Test("t", None, None, n, "nothing varies")
    statistic = math.copysign(max(0.0, abs(gap) - slack), gap) / error
    return estimate, Test("t", statistic, compute_p_value(statistic, df), n)


def _undefine(n: int, reason: str, confidence: float) -> tuple[Estimate, Test]:
    estimate = Estimate("difference", None, None, None, n, confidence, _METHOD, reason)
    return estimate, Test("t", None, None, n, reason)
