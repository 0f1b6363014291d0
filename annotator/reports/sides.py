"""The two sides of a comparison: their judged traces, with people's labels."""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from operator import attrgetter
from typing import Literal

from annotator.base.errors import AnnotatorError
from annotator.base.text import Note, format_count, list_first
from annotator.calibration.correct import fit_calibration, match_traces
from annotator.calibration.estimates import count_open
from annotator.calibration.model import (
    OPEN,
    OPEN_ANSWERS,
    Calibration,
    CountedLabels,
    LabelledTrace,
    count_answer,
)
from annotator.rubrics import Scheme
from annotator.rubrics.annotations import JUDGED, Annotation, get_attribute
from annotator.runs.conditions import describe_missing
from annotator.runs.run import Run, name_runs
from annotator.traces.clusters import DEFAULT_CLUSTER, find_cluster

Kind = Literal["paired", "same tasks", "independent"]
RUN, JUDGE = "run", "judge"  # can be compared as if they were attributes
MISSING = "-"  # the value of a trace without the attribute
_MOST_SIDES = 20
_PAIRED_SHARE = 0.5  # of both sides must have a partner for a paired comparison


class EmptySide(AnnotatorError):
    """A side of a comparison by one rubric has no judged trace."""


@dataclass(frozen=True, slots=True)
class JudgedTrace:
    """A trace of a side."""

    trace_id: str
    key: Hashable  # its partner on the other side has the same
    labels: tuple[str, ...]  # the judge's that are counted, or its answer of OPEN
    person: LabelledTrace | None
    cluster: str | None

    @property
    def open(self) -> str | None:
        """The judge's answer if it did not decide, else None."""
        return next(iter(OPEN_ANSWERS.intersection(self.labels)), None)


@dataclass(frozen=True, slots=True)
class Terms:
    """The settings that the calibrations of the compared runs share, and all their warnings."""

    confidence: float = 0.95
    population: Literal["process", "corpus"] = "process"
    cluster_by: tuple[str, ...] = DEFAULT_CLUSTER
    warnings: tuple[str, ...] = ()


Sides = tuple[list[JudgedTrace], ...]


@dataclass(frozen=True, slots=True)
class ReadSides:
    """The judged, undecided and failed traces with each of the ``values`` of an attribute."""

    values: tuple[str, ...]
    sides: tuple[list[JudgedTrace], ...]
    terms: Terms
    notes: tuple[str, ...]  # about traces that are on no side, or in no share of the judge


def read_sides(
    runs: Sequence[Run],
    scheme: Scheme,
    attribute: str,
    values: Sequence[str] | None,
    calibrations: Sequence[Calibration],
    cluster: Sequence[str] | None = None,
    without: Sequence[str] = (),
) -> ReadSides:
    """Return the sides of a comparison: the traces with each of the ``values`` of an attribute
    (None: every value of a judged trace).

    Raises:
        EmptySide: a side has no judged trace, or there is only one side.
        AnnotatorError: a side has a trace twice, or there are too many.
    """
    sides: dict[str, list[JudgedTrace]] = {value: [] for value in values or ()}
    statuses: Counter[tuple[str, str]] = Counter()
    missing: dict[str, None] = {}
    ids, attributes = set[str](), set[str]()
    terms: Terms | None = None
    for run, name in zip(runs, name_runs(runs), strict=True):
        people: dict[str, LabelledTrace] = {}
        if calibrations:
            people, terms_of_run = _read_people(run, scheme, calibrations, cluster)
            terms = _join_terms(terms, terms_of_run)
        by = terms.cluster_by if terms else DEFAULT_CLUSTER if cluster is None else tuple(cluster)
        for annotation in run.annotations(scheme.id):
            source = {RUN: name, JUDGE: annotation.judge}.get(attribute)
            value = source or get_attribute(annotation.attributes, attribute)
            if values and value in ("true", "false") and value not in values:
                # A side may be named in any case.
                value = next((side for side in values if side.lower() == value), value)
            statuses[value, annotation.status] += 1
            if annotation.status in JUDGED:
                attributes.update(annotation.attributes)
            if annotation.status == "skipped":
                continue
            ids.add(annotation.trace_id)
            if value == MISSING:
                missing[annotation.trace_id] = None
            if value in sides or (values is None and value != MISSING):
                person = people.get(annotation.trace_id)
                side = sides.setdefault(value, [])
                side.append(_make_trace(annotation, scheme, attribute, person, by))
    unjudged: list[str] = []
    if values is None:
        for value in without:
            if value not in sides:
                raise AnnotatorError(
                    f"--without {value}: no judged trace has {attribute} = {value}"
                )
        kept = {value: side for value, side in sides.items() if value not in without}
        judged = {value for value, status in statuses if status in JUDGED}
        unjudged = sorted({value for value, _ in statuses} - {*judged, *without, MISSING})
        sides = _choose_sides(kept, attribute, scheme, attributes, unjudged)
    for value, side in sides.items():
        _check_side(value, side, attribute, scheme, statuses)
        sides[value] = drop_repeated(side, attrgetter("trace_id"))
    if cluster and attributes.isdisjoint(cluster):
        present = ", ".join(sorted(attributes)) or "none at all"
        raise AnnotatorError(f"--cluster {','.join(cluster)}: no trace has this, only {present}")
    notes = []
    if missing:
        text = describe_missing(
            attribute, list(missing), len(ids), f"traces that {scheme.id} is for"
        )
        notes.append(Note(f"{text} They are not compared.", "no-condition"))
    notes += _describe_open(sides)
    if unjudged:
        text = (
            f"Not compared, because no trace is judged: {attribute} = {list_first(unjudged, 12)}."
        )
        notes.append(Note(text, "no-condition"))
    return ReadSides(
        tuple(sides), tuple(sides.values()), terms or Terms(cluster_by=by), tuple(notes)
    )


def _describe_open(sides: Mapping[str, Sequence[JudgedTrace]]) -> list[Note]:
    """Return notes about the undecided and failed traces of the sides."""
    counts = {
        value: [sum(trace.open == answer for trace in side) for answer in OPEN.values()]
        for value, side in sides.items()
    }
    texts = [
        f"{side}: {undecided} undecided and {format_count(failed, 'failed trace')} are in none of"
        " the judge's own shares."
        for side, (undecided, failed) in counts.items()
        if undecided or failed
    ]
    if texts and len(sides) > 2:
        numbers = ", ".join(f"{side} {sum(pair)}" for side, pair in counts.items() if sum(pair))
        texts = [f"Undecided or failed, and in none of the judge's own shares: {numbers}."]
    return [Note(text, "undecided") for text in texts]


def _choose_sides(
    sides: Mapping[str, list[JudgedTrace]],
    attribute: str,
    scheme: Scheme,
    attributes: set[str],
    unjudged: Sequence[str],
) -> dict[str, list[JudgedTrace]]:
    """Return the sides with a judged trace, in the order of their names and numbers."""
    judged = [value for value, side in sides.items() if not all(trace.open for trace in side)]
    if not judged:
        names = ", ".join(sorted(attributes)) or "none at all"
        raise EmptySide(
            f"--by {attribute}: no trace judged by {scheme.id} has this attribute, only {names}"
        )
    if len(judged) == 1:
        others = f" (not judged: {list_first(unjudged, 12)})" if unjudged else ""
        raise EmptySide(
            f"every trace judged by {scheme.id} has {attribute} = {judged[0]}{others}: nothing to"
            f" compare{_explain_decided(sides, attribute)}"
        )
    if len(judged) > _MOST_SIDES:
        raise AnnotatorError(
            f"--by {attribute}: {len(judged)} values, more than {_MOST_SIDES}: name two of them"
            " with --values A B, or leave some out with --without"
        )
    return {value: sides[value] for value in sorted(judged, key=_split_numbers)}


def _explain_decided(sides: Mapping[str, Sequence[JudgedTrace]], attribute: str) -> str:
    """Return which traces counted, and where the others do; "" if all did."""
    traces = [trace for side in sides.values() for trace in side]
    open_ = sum(trace.open is not None for trace in traces)
    if not open_:
        return ""
    decided = format_count(len(traces) - open_, "decided trace")
    return (
        f". Here only {decided} counted; {open_} undecided or failed do not. With labels they count"
        f" in annotate report RUN --by {attribute} --calibration FILE"
    )


def _split_numbers(text: str) -> list[tuple[int, int, str]]:
    """Return a sort key: numbers in the text sort by their size."""
    parts = re.split(r"(\d+)", text)
    return [(0, int(x), "") if x.isdecimal() else (1, 0, x.casefold()) for x in parts if x]


def _check_side(
    value: str,
    side: Sequence[JudgedTrace],
    attribute: str,
    scheme: Scheme,
    statuses: Counter[tuple[str, str]],
) -> None:
    if all(trace.open for trace in side):
        judged: Counter[str] = Counter()
        for (other, status), n in statuses.items():
            judged[other] += n if status in JUDGED else 0
        counts = ", ".join(f"{other} ({n})" for other, n in judged.most_common(12) if n)
        raise EmptySide(
            f"no trace judged by {scheme.id} has {attribute} = {value}; there are"
            f" {counts or 'none at all'}{_explain_decided({value: side}, attribute)}"
        )
    [(trace_id, times)] = Counter(x.trace_id for x in side if not x.open).most_common(1)
    if times > 1:
        raise AnnotatorError(
            f"{attribute} = {value}: {trace_id!r} is in {times} of the runs, and would count as"
            " often; compare the runs themselves: --by run, or --by judge"
        )


def drop_repeated(
    traces: list[JudgedTrace], name: Callable[[JudgedTrace], Hashable]
) -> list[JudgedTrace]:
    """Return one trace of each name: the one that the judge decided, else the first."""
    names = {name(trace) for trace in traces if not trace.open}
    kept = []
    for trace in traces:
        if not trace.open or name(trace) not in names:
            kept.append(trace)
            names.add(name(trace))
    return kept


def is_clustered(sides: Sides) -> bool:
    """Whether any trace tells its task."""
    return any(trace.cluster for side in sides for trace in side)


def find_kind(sides: Sides) -> Kind:
    """Return how the sides of decided traces belong together: paired if every two of them are."""
    kinds = {_find_kind(*two) for two in combinations(sides, 2)}
    if len(kinds) == 1:
        return kinds.pop()
    return "same tasks" if is_clustered(sides) else "independent"


def _find_kind(first: Sequence[JudgedTrace], second: Sequence[JudgedTrace]) -> Kind:
    keys = [[trace.key for trace in side] for side in (first, second)]
    unique = all(len(set(side)) == len(side) for side in keys)
    shared = set(keys[0]).intersection(keys[1])
    if unique and len(shared) >= _PAIRED_SHARE * max(map(len, keys)):
        return "paired"
    tasks = [{trace.cluster for trace in side} - {None} for side in (first, second)]
    return "same tasks" if tasks[0] & tasks[1] else "independent"


def pair_traces(sides: Sides) -> Sides:
    """Return the traces of both sides that have a partner, in the same order."""
    partners = {trace.key: trace for trace in sides[1]}
    first = [trace for trace in sides[0] if trace.key in partners]
    return first, [partners[trace.key] for trace in first]


def count_groups(sides: Sides, scheme: Scheme) -> Sides:
    """Return the sides with groups of codes in place of the codes."""

    def count(trace: JudgedTrace) -> JudgedTrace:
        person = trace.person
        labels = trace.labels if trace.open else scheme.groups_of(trace.labels)
        if person:
            counted = CountedLabels(scheme.groups_of(person.counted.human), labels)
            person = replace(person, counted=counted)
        return replace(trace, labels=labels, person=person)

    return tuple([count(trace) for trace in side] for side in sides)


def _join_terms(before: Terms | None, terms: Terms) -> Terms:
    """Return the terms of several calibrations. Raises :class:`AnnotatorError` if they differ."""
    if before is None:
        return terms
    # If no trace of a run tells its task, each is a cluster by itself.
    by = before.cluster_by or terms.cluster_by
    joined = replace(before, cluster_by=by, warnings=())
    if joined != replace(terms, cluster_by=terms.cluster_by or by, warnings=()):
        raise AnnotatorError(
            "the calibrations differ in --confidence, --population or --cluster: calibrate again"
        )
    return replace(joined, warnings=tuple(dict.fromkeys((*before.warnings, *terms.warnings))))


def _read_people(
    run: Run, scheme: Scheme, calibrations: Sequence[Calibration], cluster: Sequence[str] | None
) -> tuple[dict[str, LabelledTrace], Terms]:
    """Return the labelled traces of a run; their weights add up to the traces it judged."""
    calibration, sample, reason = fit_calibration(run, scheme.id, calibrations, cluster)
    if reason:
        raise AnnotatorError(
            f"the calibration for {scheme.id} does not fit: {reason}. Groups are compared by the"
            " labels of their own traces: calibrate this run"
        )
    traces = match_traces(calibration, sample, cluster)
    size = sample.total + sum(count_open(sample.statuses, traces).values())
    scale = size / sum(trace.weight for trace in traces) if traces else 1.0
    people = {trace.trace_id: replace(trace, weight=trace.weight * scale) for trace in traces}
    by = calibration.cluster_by if cluster is None else tuple(cluster)
    return people, Terms(calibration.confidence, calibration.population, by, calibration.warnings)


def _make_trace(
    annotation: Annotation,
    scheme: Scheme,
    attribute: str,
    person: LabelledTrace | None,
    by: Sequence[str],
) -> JudgedTrace:
    task = find_cluster(annotation.attributes, DEFAULT_CLUSTER)
    key: Hashable = annotation.trace_id
    if attribute not in (RUN, JUDGE) and task is not None:
        key = (task, annotation.trace_id.rpartition("/")[2])
    cluster = find_cluster(annotation.attributes, by)
    return JudgedTrace(annotation.trace_id, key, count_answer(annotation, scheme), person, cluster)
