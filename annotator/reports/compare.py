"""Two groups of traces, or two runs, side by side: differences with intervals and tests."""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from annotator.annotations import Annotation
from annotator.calibration.correct import Calibrations, Stored, labelled_in, misfit, own
from annotator.calibration.estimates import Judged, Labelled, cautions, estimate_code
from annotator.calibration.frame import (
    DEFAULT_CLUSTER,
    RubricInfo,
    cluster_of,
    empty_frame,
    found,
    judge_sha256,
    read_checked,
    read_frame,
    rubrics_of,
)
from annotator.calibration.frame import alone as own_cluster
from annotator.errors import AnnotatorError
from annotator.reports.frequency import value_of
from annotator.rubrics import NONE
from annotator.runs.manifest import read_manifest
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

RUN, JUDGE = "run", "judge"  # what can be compared besides attributes
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
class Compared:
    """Two groups by one rubric, judged by ``judges`` (id and hash of each).

    ``kind`` says how they belong together: ``paired`` by trace, ``same tasks`` without a partner
    for each trace, or ``independent``. ``alone``: the judged traces of each side that have no
    partner and are left out of a paired comparison.
    """

    rubric: RubricInfo
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


@dataclass(frozen=True, slots=True)
class _Seen:
    """A judged trace: its id, what pairs it, its task, the labels that are counted; a person's, and
    the cluster by which its calibration was made.
    """

    trace_id: str
    key: Hashable
    task: str | None
    labels: tuple[str, ...]
    person: Labelled | None
    cluster: str | None


@dataclass(frozen=True, slots=True)
class _Terms:
    """What the calibrations of the compared runs have in common; their warnings together."""

    confidence: float = 0.95
    population: Literal["process", "corpus"] = "process"
    cluster_by: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


_Sides = tuple[list[_Seen], list[_Seen]]
_Shares = Mapping[str, Estimate]  # the corrected share of each code on one side


def compare(
    runs: Sequence[Path],
    attribute: str,
    first: str,
    second: str,
    calibrations: Calibrations | None = None,
) -> list[Compared]:
    """Compare the traces of ``runs`` with one value of an attribute with those with another, by
    every rubric that the runs have in common.

    ``attribute`` may be ``run`` (the names of the run directories) or ``judge``. Traces are paired
    by id between runs and judges, else by task and the last part of the id; where that names a
    trace twice on a side, or leaves most without a partner, the groups are not paired.

    Raises:
        AnnotatorError: the runs have no rubric in common, no judged trace has one of the values, or
            a calibration is not of its run.
    """
    if first == second:
        raise AnnotatorError(f"--compare {first} {second}: both sides are the same")
    known = [rubrics_of(run) for run in runs]
    manifests = [read_manifest(run) for run in runs]
    ids = [one["id"] for one in manifests]
    for run, one in zip(runs, ids, strict=True):
        if ids.count(one) > 1:
            raise AnnotatorError(f"{run}: this run was given twice")
    shared = [
        info
        for name, info in known[0].items()
        if all(name in other and other[name].sha256 == info.sha256 for other in known)
    ]
    if not shared:
        raise AnnotatorError("the runs have no rubric (of the same version) in common")
    judges = tuple(dict.fromkeys((one["judge"]["id"], judge_sha256(one)) for one in manifests))
    names = (attribute, first, second)
    found_ = []
    for info in shared:
        stored = (calibrations or {}).get(info.id, ())
        sides, terms = _sides(runs, info, names, stored)
        judged = [other[info.id].judged for other in known]
        found_.append(_compared(info, judges, sides, names, judged, terms, calibrated=bool(stored)))
    return found_


def _sides(
    runs: Sequence[Path],
    info: RubricInfo,
    names: tuple[str, str, str],
    calibrations: Sequence[Stored],
) -> tuple[_Sides, _Terms]:
    """Return the judged traces of both sides, and on what terms they were calibrated."""
    attribute, *values = names
    sides: dict[str, list[_Seen]] = {value: [] for value in values}
    there: Counter[str] = Counter()
    terms: _Terms | None = None
    for run in runs:
        people: dict[str, Labelled] = {}
        if calibrations:
            people, own_terms = _people(run, info, calibrations)
            terms = _common(terms, own_terms)
        for annotation in read_checked(run, info):
            if annotation.status not in ("labelled", "none"):
                continue
            value = _value(annotation, attribute, run, runs)
            there[value] += 1
            if value in sides:
                person = people.get(annotation.trace_id)
                cluster = cluster_of(annotation.attributes, terms.cluster_by) if terms else None
                sides[value].append(_seen(annotation, info, attribute, person, cluster))
    for name, traces in sides.items():
        if not traces:
            counts = ", ".join(f"{one} ({n})" for one, n in there.most_common(12))
            raise AnnotatorError(
                f"--compare {name}: no trace judged by {info.id} has {attribute} = {name}; there"
                f" are {counts or 'none at all'}"
            )
        seen = Counter(one.trace_id for one in traces)
        twice, times = seen.most_common(1)[0]
        if times > 1:
            raise AnnotatorError(
                f"--compare {name}: {twice!r} stands in {times} of the runs, and would count as"
                " often; compare the runs themselves: --by run, or --by judge"
            )
    return (sides[values[0]], sides[values[1]]), terms or _Terms()


def _common(before: _Terms | None, terms: _Terms) -> _Terms:
    """Return the terms of several calibrations. Raises :class:`AnnotatorError` if they differ."""
    if before is None:
        return terms
    # Where no trace of a run tells its task, each is a cluster of its own.
    by = before.cluster_by or terms.cluster_by
    same = (
        replace(before, cluster_by=by, warnings=()),
        replace(terms, cluster_by=terms.cluster_by or by, warnings=()),
    )
    if same[0] != same[1]:
        raise AnnotatorError(
            "the calibrations differ in --confidence, --population or --cluster: calibrate again"
        )
    return replace(same[0], warnings=tuple(dict.fromkeys((*before.warnings, *terms.warnings))))


def _people(
    run: Path, info: RubricInfo, calibrations: Sequence[Stored]
) -> tuple[dict[str, Labelled], _Terms]:
    """Return the labelled traces of a run, weighted so that they stand for all it has judged."""
    frame = empty_frame(run, info.id)
    stored = own(calibrations, frame)
    wanted = {one.trace_id for one in stored.joined}
    frame = read_frame(run, info.id, wanted=wanted, cluster=stored.cluster_by)
    if why := misfit(stored, frame, run):
        raise AnnotatorError(
            f"the calibration for {info.id} does not fit: {why}. Groups are compared by the labels"
            " of their own traces: calibrate this run"
        )
    rows = labelled_in(stored, frame)
    scale = frame.total / sum(row.weight for row in rows) if rows else 1.0
    people = {row.trace_id: replace(row, weight=row.weight * scale) for row in rows}
    terms = _Terms(
        stored.confidence, stored.population, tuple(stored.cluster_by), tuple(stored.warnings)
    )
    return people, terms


def _value(annotation: Annotation, attribute: str, run: Path, runs: Sequence[Path]) -> str:
    if attribute == RUN:
        same = sum(other.resolve().name == run.resolve().name for other in runs) > 1
        return str(run) if same else run.resolve().name
    return annotation.judge if attribute == JUDGE else value_of(annotation.attributes, attribute)


def _seen(
    annotation: Annotation,
    info: RubricInfo,
    attribute: str,
    person: Labelled | None,
    cluster: str | None,
) -> _Seen:
    task = cluster_of(annotation.attributes, DEFAULT_CLUSTER)
    key: Hashable = annotation.trace_id
    if attribute not in (RUN, JUDGE) and task is not None:
        key = (task, annotation.trace_id.rpartition("/")[2])
    return _Seen(annotation.trace_id, key, task, found(annotation, info), person, cluster)


def _compared(
    info: RubricInfo,
    judges: tuple[tuple[str, str], ...],
    sides: _Sides,
    names: tuple[str, str, str],
    judged: Sequence[frozenset[str]],
    terms: _Terms,
    *,
    calibrated: bool,
) -> Compared:
    kind, alone = _kind(*sides), (0, 0)
    if kind == "paired":
        pairs = _pairs(*sides)
        alone = (len(sides[0]) - len(pairs), len(sides[1]) - len(pairs))
        sides = ([one for one, _ in pairs], [other for _, other in pairs])
    confidence = terms.confidence
    # The same traces have the same true shares: their labels tell judges apart, not traces.
    same = kind == "paired" and names[0] in (RUN, JUDGE)
    codes = [code for code in info.codes if all(code in one for one in judged)]
    codes += [NONE] if len(set(judged)) == 1 else []
    corrected = _corrected(sides, codes, terms) if calibrated and not same else None
    gaps = [_difference(code, sides, kind, confidence) for code in codes]
    adjusted = adjust([test.p for _, test in gaps], "holm")
    rows = []
    for code, (estimate, test), p in zip(codes, gaps, adjusted, strict=True):
        counts = [sum(code in one.labels for one in side) for side in sides]
        one, other = (
            wilson(k, len(side), confidence) for k, side in zip(counts, sides, strict=True)
        )
        gap = mover(corrected[0][code], corrected[1][code]) if corrected else None
        rows.append(Difference(code, one, other, estimate, test, p, gap))
    left = [code for code in info.labels if code not in codes]
    return Compared(
        info,
        judges,
        *names,
        kind,
        (len(sides[0]), len(sides[1])),
        alone,
        confidence,
        tuple(rows),
        sum(p is not None for p in adjusted),
        tuple(_notes(kind, alone, left, sides, corrected, terms, same=same)),
    )


def _kind(first: list[_Seen], second: list[_Seen]) -> Kind:
    keys = [[one.key for one in side] for side in (first, second)]
    both = set(keys[0]) & set(keys[1])
    unique = all(len(set(side)) == len(side) for side in keys)
    if unique and len(both) >= _ENOUGH * max(map(len, keys)):
        return "paired"
    tasks = [{one.task for one in side} - {None} for side in (first, second)]
    return "same tasks" if tasks[0] & tasks[1] else "independent"


def _pairs(first: list[_Seen], second: list[_Seen]) -> list[tuple[_Seen, _Seen]]:
    partners = {one.key: one for one in second}
    return [(one, partners[one.key]) for one in first if one.key in partners]


def _difference(code: str, sides: _Sides, kind: Kind, confidence: float) -> tuple[Estimate, Test]:
    flags = [[code in one.labels for one in side] for side in sides]
    if kind == "paired":
        cells = Counter(zip(*flags, strict=True))
        alone = cells[True, False], cells[False, True]
        both, neither = cells[True, True], cells[False, False]
        return paired_difference(both, *alone, neither, confidence), mcnemar(*alone)
    (k1, n1), (k2, n2) = [(sum(side), len(side)) for side in flags]
    test = fisher([[k1, n1 - k1], [k2, n2 - k2]])
    if k1 + k2 in (0, n1 + n2):  # nothing to test, and nothing for Holm to count
        which = "every" if k1 else "no"
        test = replace(test, p=None, reason=f"{which} trace of either side has it")
    if kind == "independent":
        return difference(k1, n1, k2, n2, confidence), test
    return _over_tasks(sides, flags, confidence), test


def _over_tasks(sides: _Sides, flags: Sequence[Sequence[bool]], confidence: float) -> Estimate:
    """Return the difference with an interval by resampling tasks, which both sides share."""
    rows: dict[Hashable, int] = {}
    totals: list[list[float]] = []
    for side, (traces, flagged) in enumerate(zip(sides, flags, strict=True)):
        for one, flag in zip(traces, flagged, strict=True):
            row = rows.setdefault(one.task or (side, one.key), len(rows))
            if row == len(totals):
                totals.append([0.0] * 4)
            totals[row][2 * side] += flag
            totals[row][2 * side + 1] += 1

    def gap(sums: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            gaps: Floats = sums[:, 0] / sums[:, 1] - sums[:, 2] / sums[:, 3]
        return gaps

    made = cluster_bootstrap(np.asarray(totals), gap, confidence=confidence)
    n = sum(map(len, sides))
    return made.estimate("difference", n, {"tasks": len(totals)}, "a side has no traces")


def _corrected(sides: _Sides, codes: Sequence[str], terms: _Terms) -> tuple[_Shares, _Shares]:
    """Return the corrected shares of each side, by the labels of its traces: of ``codes`` and of
    every label that either side has.
    """
    there = dict.fromkeys((*codes, *_labels(sides)))
    first, second = ({code: _share(code, side, terms) for code in there} for side in sides)
    return first, second


def _share(code: str, side: Sequence[_Seen], terms: _Terms) -> Estimate:
    clusters: dict[str, list[int]] = {}
    for one in side:
        counts = clusters.setdefault(one.cluster or own_cluster(one.trace_id), [0, 0])
        counts[0] += code in one.labels
        counts[1] += 1
    flagged, totals = zip(*clusters.values(), strict=True)
    judged = Judged(len(side), sum(flagged), (flagged, totals))
    people = [one.person for one in side if one.person]
    if any(person.cluster is not None for person in people):
        people = [
            replace(person, cluster=person.cluster or own_cluster(person.trace_id))
            for person in people
        ]
    return estimate_code(code, judged, people, terms.confidence, 0, terms.population).corrected


def _notes(
    kind: Kind,
    alone: tuple[int, int],
    left: Sequence[str],
    sides: _Sides,
    corrected: tuple[_Shares, _Shares] | None,
    terms: _Terms,
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
    if left:
        yield f"Not compared, because a judge cannot find them: {', '.join(left)}."
    if corrected is None:
        yield "Differences of the judge's own shares: its errors are not corrected."
        if same:
            yield "The same traces have the same true shares: corrected ones are not compared."
        return
    labels = [sum(one.person is not None for one in side) for side in sides]
    yield (
        f"Corrected: each side by the labels of its own traces ({labels[0]} and {labels[1]}),"
        " limits combined by MOVER as if the sides were independent."
    )
    for name, side, shares in zip(("first", "second"), sides, corrected, strict=True):
        people = [one.person for one in side if one.person]
        for caution in cautions(people, {code: shares[code] for code in _labels(sides)}):
            yield f"{name}: {caution}"
    yield from terms.warnings


def _labels(sides: _Sides) -> list[str]:
    return sorted({label for side in sides for one in side for label in one.labels})
