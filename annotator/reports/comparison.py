"""Two groups of traces, or two runs, side by side: differences with intervals and tests."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from annotator.annotations import lone_cluster
from annotator.calibration.estimates import Judged, estimate_code, list_cautions
from annotator.calibration.model import Calibrations
from annotator.errors import AnnotatorError
from annotator.reports.comparison_sides import (
    JUDGE,
    RUN,
    EmptySide,
    JudgedTrace,
    Sides,
    Terms,
    read_sides,
)
from annotator.rubrics import NONE, Scheme
from annotator.runs.run import Run, name_runs
from validation import (
    Estimate,
    Interval,
    Test,
    adjust,
    cluster_bootstrap,
    difference,
    fisher,
    mcnemar,
    mover,
    paired_difference,
    wilson,
)
from validation.resampling import Floats

Kind = Literal["paired", "same tasks", "independent"]
_ENOUGH = 0.5  # of both sides must have a partner for a paired comparison


@dataclass(frozen=True, slots=True)
class Difference:
    """One code: its share on both sides, their difference (first minus second), and a test.

    ``adjusted`` is the test's p by Holm over the codes. ``corrected`` is the difference of the
    shares corrected for the judge's errors, None without a calibration.
    """

    code: str
    first: Interval
    second: Interval
    difference: Estimate
    test: Test
    adjusted: float | None
    corrected: Estimate | None


@dataclass(frozen=True, slots=True)
class GroupComparison:
    """Two groups by one rubric in ``runs`` (ids), judged by ``judges`` (id and hash of each).

    ``kind`` says how they belong together: ``paired`` by trace, ``same tasks`` without a partner
    for each trace, or ``independent``. ``alone``: the judged traces of each side that have no
    partner and are left out of a paired comparison.
    """

    rubric: Scheme
    judges: tuple[tuple[str, str], ...]
    attribute: str
    first: str
    second: str
    kind: Kind
    n: tuple[int, int]
    alone: tuple[int, int]
    confidence: float
    rows: tuple[Difference, ...]
    tests: int
    notes: tuple[str, ...]
    runs: tuple[str, ...] = ()


_Shares = tuple[Mapping[str, Estimate], Mapping[str, Estimate]]  # corrected, on both sides


def compare(
    runs: Sequence[Run],
    attribute: str,
    first: str,
    second: str,
    calibrations: Calibrations | None = None,
    *,
    notice: Callable[[str], None] | None = None,
) -> list[GroupComparison]:
    """Compare the traces of ``runs`` with one value of an attribute with those with another, by
    every rubric that the runs have in common.

    ``attribute`` may be ``run`` (see :func:`name_runs`) or ``judge``. Traces are paired
    by id between runs and judges, else by task and the last part of the id; where that names a
    trace twice on a side, or leaves most without a partner, the groups are not paired.
    ``notice`` is told why a rubric is not compared: by it no judged trace has one of the values.

    Raises:
        AnnotatorError: the runs have no rubric in common, none of them can be compared, or a
            calibration is not of its run.
    """
    if first == second:
        raise AnnotatorError(f"{attribute} = {first}: both sides of the comparison are the same")
    schemes = [run.schemes for run in runs]
    shared = [
        scheme
        for name, scheme in schemes[0].items()
        if all(name in other and other[name].sha256 == scheme.sha256 for other in schemes)
    ]
    if not shared:
        raise AnnotatorError("the runs have no rubric (of the same version) in common")
    judges = tuple(dict.fromkeys((run.judge, run.judge_sha256) for run in runs))
    names = (attribute, first, second)
    ids = tuple(run.id for run in runs)
    parts = [
        f"{name}: {note}"
        for name, run in zip(name_runs(runs), runs, strict=True)
        for note in run.manifest.partial
    ]
    comparisons, empty = [], []
    for scheme in shared:
        stored = (calibrations or {}).get(scheme.id, ())
        try:
            sides, terms, left = read_sides(runs, scheme, names, stored)
        except EmptySide as error:
            empty.append(str(error))
            continue
        versions = [other[scheme.id] for other in schemes]  # by what each judge can find
        judged = [frozenset() if version.screens else version.judged for version in versions]
        comparison = _compare_by(
            scheme, judges, sides, names, judged, terms, calibrated=bool(stored)
        )
        comparisons.append(replace(comparison, runs=ids, notes=(*comparison.notes, *left, *parts)))
    if not comparisons:
        raise EmptySide("; ".join(empty))
    if notice:
        for reason in empty:
            notice(f"not compared: {reason}")
    return comparisons


def _compare_by(
    scheme: Scheme,
    judges: tuple[tuple[str, str], ...],
    sides: Sides,
    names: tuple[str, str, str],
    judged: Sequence[frozenset[str]],
    terms: Terms,
    *,
    calibrated: bool,
) -> GroupComparison:
    kind, alone = _kind(*sides), (0, 0)
    if kind == "paired":
        pairs = _pairs(*sides)
        alone = (len(sides[0]) - len(pairs), len(sides[1]) - len(pairs))
        sides = ([trace for trace, _ in pairs], [partner for _, partner in pairs])
    confidence = terms.confidence
    # The same traces have the same true shares: their labels distinguish judges, not traces.
    same = kind == "paired" and names[0] in (RUN, JUDGE)
    codes = [code for code in scheme.ids if code in frozenset.intersection(*judged)]
    codes += [NONE] if len(set(judged)) == 1 and judged[0] else []
    corrected = _correct_shares(sides, codes, terms) if calibrated and not same else None
    rows = [_difference(code, sides, kind, confidence, corrected) for code in codes]
    adjusted = adjust([row.test.p for row in rows], "holm")
    left_out = [code for code in scheme.labels if code not in codes]
    return GroupComparison(
        scheme,
        judges,
        *names,
        kind,
        (len(sides[0]), len(sides[1])),
        alone,
        confidence,
        tuple(replace(row, adjusted=p) for row, p in zip(rows, adjusted, strict=True)),
        sum(p is not None for p in adjusted),
        tuple(_notes(kind, alone, left_out, sides, corrected, terms, same=same)),
    )


def _kind(first: list[JudgedTrace], second: list[JudgedTrace]) -> Kind:
    keys = [[trace.key for trace in side] for side in (first, second)]
    shared = set(keys[0]) & set(keys[1])
    unique = all(len(set(side)) == len(side) for side in keys)
    if unique and len(shared) >= _ENOUGH * max(map(len, keys)):
        return "paired"
    tasks = [{trace.task for trace in side} - {None} for side in (first, second)]
    return "same tasks" if tasks[0] & tasks[1] else "independent"


def _pairs(
    first: list[JudgedTrace], second: list[JudgedTrace]
) -> list[tuple[JudgedTrace, JudgedTrace]]:
    partners = {trace.key: trace for trace in second}
    return [(trace, partners[trace.key]) for trace in first if trace.key in partners]


def _difference(
    code: str, sides: Sides, kind: Kind, confidence: float, corrected: _Shares | None
) -> Difference:
    """Return the row of a code, its p not yet adjusted."""
    flags = [[code in trace.labels for trace in side] for side in sides]
    first, second = (wilson(sum(side), len(side), confidence) for side in flags)
    if kind == "paired":
        cells = Counter(zip(*flags, strict=True))
        alone = cells[True, False], cells[False, True]
        counts = cells[True, True], *alone, cells[False, False]
        estimate, test = paired_difference(*counts, confidence), mcnemar(*alone)
    else:
        test = fisher([[first.k, first.n - first.k], [second.k, second.n - second.k]])
        if first.k + second.k in (0, first.n + second.n):  # nothing to test, nor for Holm to count
            which = "every" if first.k else "no"
            test = replace(test, p=None, reason=f"{which} trace of either side has it")
        if kind == "independent":
            estimate = difference(first.k, first.n, second.k, second.n, confidence)
        else:
            estimate = _over_tasks(sides, flags, confidence)
    gap = mover(corrected[0][code], corrected[1][code]) if corrected else None
    return Difference(code, first, second, estimate, test, None, gap)


def _over_tasks(sides: Sides, flags: Sequence[Sequence[bool]], confidence: float) -> Estimate:
    """Return the difference with an interval by resampling tasks, which both sides share."""
    rows: dict[Hashable, int] = {}
    totals: list[list[float]] = []
    for side, (traces, flagged) in enumerate(zip(sides, flags, strict=True)):
        for trace, flag in zip(traces, flagged, strict=True):
            row = rows.setdefault(trace.task or (side, trace.key), len(rows))
            if row == len(totals):
                totals.append([0.0] * 4)
            totals[row][2 * side] += flag
            totals[row][2 * side + 1] += 1

    def gap(sums: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            gaps: Floats = sums[:, 0] / sums[:, 1] - sums[:, 2] / sums[:, 3]
        return gaps

    bootstrap = cluster_bootstrap(np.asarray(totals), gap, confidence=confidence)
    n = sum(map(len, sides))
    return bootstrap.estimate("difference", n, {"tasks": len(totals)}, "a side has no traces")


def _correct_shares(sides: Sides, codes: Sequence[str], terms: Terms) -> _Shares:
    """Return the corrected shares of each side, by the labels of its traces: of ``codes`` and of
    every label that either side has.
    """
    seen = sorted({label for side in sides for trace in side for label in trace.labels})
    labels = dict.fromkeys((*codes, *seen))
    first, second = ({code: _share(code, side, terms) for code in labels} for side in sides)
    return first, second


def _share(code: str, side: Sequence[JudgedTrace], terms: Terms) -> Estimate:
    clusters: dict[str, list[int]] = {}
    for trace in side:
        counts = clusters.setdefault(trace.cluster or lone_cluster(trace.trace_id), [0, 0])
        counts[0] += code in trace.labels
        counts[1] += 1
    flagged, totals = zip(*clusters.values(), strict=True)
    judged = Judged(len(side), sum(flagged), (flagged, totals))
    people = [trace.person for trace in side if trace.person]
    if any(person.cluster is not None for person in people):
        people = [
            replace(person, cluster=person.cluster or lone_cluster(person.trace_id))
            for person in people
        ]
    return estimate_code(code, judged, people, terms.confidence, 0, terms.population).corrected


def _notes(
    kind: Kind,
    alone: tuple[int, int],
    left_out: Sequence[str],
    sides: Sides,
    corrected: _Shares | None,
    terms: Terms,
    *,
    same: bool,
) -> Iterator[str]:
    yield {
        "paired": "Paired by trace: Newcombe's interval for pairs, exact McNemar test"
        " (pairs of one task are treated as independent).",
        "same tasks": "The same tasks on both sides, but no partner for each trace: interval by"
        " resampling tasks; the Fisher test treats traces as independent.",
        "independent": "Independent groups: Newcombe's interval, Fisher's exact test"
        " (traces of one task are treated as independent).",
    }[kind]
    if any(alone):
        yield f"{alone[0]} and {alone[1]} judged traces without a partner are left out."
    if left_out:
        why = "a judge cannot find them, or is a screen, which decides by finding"
        yield f"Not compared, because {why}: {', '.join(left_out)}."
    if corrected is None:
        yield "Differences of the judge's own shares: its errors are not corrected."
        if same:
            yield "The same traces have the same true shares: corrected ones are not compared."
        return
    labels = [sum(trace.person is not None for trace in side) for side in sides]
    yield (
        f"Corrected: each side by the labels of its own traces ({labels[0]} and {labels[1]}),"
        " limits combined by MOVER as if the sides were independent."
    )
    for name, side, shares in zip(("first", "second"), sides, corrected, strict=True):
        people = [trace.person for trace in side if trace.person]
        for caution in list_cautions(people, shares):
            yield f"{name}: {caution}"
    yield from terms.warnings
