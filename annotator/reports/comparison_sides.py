"""Who stands on which side of a comparison: the judged traces of both, with people's labels."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Literal

from annotator.base.errors import AnnotatorError
from annotator.calibration.correct import fit_calibration, match_traces
from annotator.calibration.estimates import count_open
from annotator.calibration.model import (
    OPEN_ANSWERS,
    Calibration,
    CountedLabels,
    LabelledTrace,
    count_answer,
)
from annotator.reports.counts import JUDGED
from annotator.rubrics import Scheme
from annotator.rubrics.annotations import Annotation, get_attribute
from annotator.runs.run import Run, name_runs
from annotator.traces.clusters import DEFAULT_CLUSTER, find_cluster

Kind = Literal["paired", "same tasks", "independent"]
RUN, JUDGE = "run", "judge"  # what can be compared besides attributes


class EmptySide(AnnotatorError):
    """A side of a comparison by one rubric has no judged trace."""


@dataclass(frozen=True, slots=True)
class JudgedTrace:
    """A trace: its id, what pairs it, the judge's labels that are counted (or one of
    :data:`annotator.calibration.model.OPEN`, where it did not decide); a person's, and the cluster
    that it belongs to, None if it tells none.
    """

    trace_id: str
    key: Hashable
    labels: tuple[str, ...]
    person: LabelledTrace | None
    cluster: str | None

    @property
    def open(self) -> str | None:
        """The judge's answer if it did not decide, else None."""
        return next(iter(OPEN_ANSWERS.intersection(self.labels)), None)


@dataclass(frozen=True, slots=True)
class Terms:
    """What the calibrations of the compared runs have in common; their warnings together.

    ``cluster_by``: the attributes that together name a trace's cluster.
    """

    confidence: float = 0.95
    population: Literal["process", "corpus"] = "process"
    cluster_by: tuple[str, ...] = DEFAULT_CLUSTER
    warnings: tuple[str, ...] = ()


Sides = tuple[list[JudgedTrace], list[JudgedTrace]]


def read_sides(
    runs: Sequence[Run],
    scheme: Scheme,
    names: tuple[str, str, str],
    calibrations: Sequence[Calibration],
    cluster: Sequence[str] | None = None,
) -> tuple[Sides, Terms, list[str]]:
    """Return the traces of both sides, judged, undecided and failed, on what terms they were
    calibrated, and notes of how many traces of each side are in no share of the judge.

    ``names``: the attribute and its two values. ``cluster``: what makes a cluster, if not what did
    for the calibrations.

    Raises:
        EmptySide: a side has no judged trace.
        AnnotatorError: a side has one twice; a calibration is not of its run; no trace has any of
            the attributes of ``cluster``.
    """
    attribute, *values = names
    sides: dict[str, list[JudgedTrace]] = {value: [] for value in values}
    value_counts: Counter[str] = Counter()
    statuses: Counter[tuple[str, str]] = Counter()
    terms: Terms | None = None
    attributes: set[str] = set()
    for run, name in zip(runs, name_runs(runs), strict=True):
        people: dict[str, LabelledTrace] = {}
        if calibrations:
            people, terms_of_run = _people(run, scheme, calibrations, cluster)
            terms = _join_terms(terms, terms_of_run)
        by = DEFAULT_CLUSTER if cluster is None else tuple(cluster)
        by = terms.cluster_by if terms else by
        for annotation in run.annotations(scheme.id):
            value = _value(annotation, attribute, name)
            if value in ("true", "false"):  # in whatever case a side was named
                value = next((side for side in sides if side.lower() == value), value)
            statuses[value, annotation.status] += 1
            if annotation.status in JUDGED:
                value_counts[value] += 1
                attributes.update(annotation.attributes)
            if value in sides and annotation.status != "skipped":
                person = people.get(annotation.trace_id)
                task = find_cluster(annotation.attributes, by)
                sides[value].append(_place_trace(annotation, scheme, attribute, person, task))
    for side, traces in sides.items():
        if all(trace.open for trace in traces):
            counts = ", ".join(f"{value} ({n})" for value, n in value_counts.most_common(12))
            raise EmptySide(
                f"no trace judged by {scheme.id} has {attribute} = {side}; there are"
                f" {counts or 'none at all'}"
            )
        times_judged = Counter(trace.trace_id for trace in traces if not trace.open)
        twice, times = times_judged.most_common(1)[0]
        if times > 1:
            raise AnnotatorError(
                f"{attribute} = {side}: {twice!r} stands in {times} of the runs, and would count as"
                " often; compare the runs themselves: --by run, or --by judge"
            )
        sides[side] = drop_repeated(traces, attrgetter("trace_id"))
    if cluster and attributes.isdisjoint(cluster):
        names_of = ", ".join(sorted(attributes)) or "none at all"
        raise AnnotatorError(f"--cluster {','.join(cluster)}: no trace has this, only {names_of}")
    notes = [
        f"{side}: {statuses[side, 'undecided']} undecided and {statuses[side, 'failed']} failed"
        " traces are in none of the judge's own shares."
        for side in values
        if statuses[side, "undecided"] or statuses[side, "failed"]
    ]
    return (sides[values[0]], sides[values[1]]), terms or Terms(cluster_by=by), notes


def drop_repeated(
    traces: list[JudgedTrace], name: Callable[[JudgedTrace], Hashable]
) -> list[JudgedTrace]:
    """Return one trace of each name: that which the judge decided, else the first."""
    names = {name(trace) for trace in traces if not trace.open}
    kept = []
    for trace in traces:
        if not trace.open or name(trace) not in names:
            kept.append(trace)
            names.add(name(trace))
    return kept


def count_groups(sides: Sides, scheme: Scheme) -> Sides:
    """Return the sides with groups of codes, and nothing else, as what counts of each trace."""
    first, second = ([_count_groups_of(trace, scheme) for trace in side] for side in sides)
    return first, second


def _count_groups_of(trace: JudgedTrace, scheme: Scheme) -> JudgedTrace:
    person = trace.person
    labels = trace.labels if trace.open else scheme.groups_of(trace.labels)
    if person:
        counted = CountedLabels(scheme.groups_of(person.counted.human), labels)
        person = replace(person, counted=counted)
    return replace(trace, labels=labels, person=person)


def _join_terms(before: Terms | None, terms: Terms) -> Terms:
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
    run: Run,
    scheme: Scheme,
    calibrations: Sequence[Calibration],
    cluster: Sequence[str] | None,
) -> tuple[dict[str, LabelledTrace], Terms]:
    """Return the labelled traces of a run, weighted so that they stand for all it has judged."""
    calibration, frame, reason = fit_calibration(run, scheme.id, calibrations, cluster)
    if reason:
        raise AnnotatorError(
            f"the calibration for {scheme.id} does not fit: {reason}. Groups are compared by the"
            " labels of their own traces: calibrate this run"
        )
    traces = match_traces(calibration, frame, cluster)
    size = frame.total + sum(count_open(frame.statuses, traces).values())
    scale = size / sum(trace.weight for trace in traces) if traces else 1.0
    people = {trace.trace_id: replace(trace, weight=trace.weight * scale) for trace in traces}
    terms = Terms(
        calibration.confidence,
        calibration.population,
        calibration.cluster_by if cluster is None else tuple(cluster),
        calibration.warnings,
    )
    return people, terms


def _value(annotation: Annotation, attribute: str, run: str) -> str:
    if attribute == RUN:
        return run
    return (
        annotation.judge if attribute == JUDGE else get_attribute(annotation.attributes, attribute)
    )


def _place_trace(
    annotation: Annotation,
    scheme: Scheme,
    attribute: str,
    person: LabelledTrace | None,
    cluster: str | None,
) -> JudgedTrace:
    task = find_cluster(annotation.attributes, DEFAULT_CLUSTER)
    key: Hashable = annotation.trace_id
    if attribute not in (RUN, JUDGE) and task is not None:
        key = (task, annotation.trace_id.rpartition("/")[2])
    labels = count_answer(annotation, scheme)
    return JudgedTrace(annotation.trace_id, key, labels, person, cluster)
