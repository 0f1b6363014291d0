"""Frequency tables of people's labels."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from annotator.base.errors import AnnotatorError
from annotator.base.text import Note, format_count
from annotator.calibration.judged_sample import JudgedSample
from annotator.calibration.ledger import hash_label_files
from annotator.calibration.matching import (
    describe_unlabelled,
    match_labels,
    select_labels,
    select_split,
)
from annotator.calibration.model import LabelsUsed, Request
from annotator.calibration.sample.design import find_design, list_trace_ids
from annotator.labels import Label
from annotator.reports.counts import TraceCounts
from annotator.reports.frequency import FrequencyTable, build_table, check_attributes
from annotator.reports.notes import (
    describe_intervals,
    describe_part,
    describe_shares,
    describe_traces,
)
from annotator.rubrics import Scheme
from annotator.rubrics.annotations import Annotation, get_attribute
from annotator.runs.run import Run, name_runs
from annotator.traces.clusters import find_cluster, name_lone_cluster
from validation import Interval, estimate_clustered_share

Attributes = Mapping[str, Mapping[str, Any]]
"""The attributes of traces, by trace id."""

_ERRORS = " They do not include how far people differ: see annotate calibrate --between A B."
_NO_TASKS = (
    "The labels name no tasks, so the intervals may be too narrow: give RUN or --traces TRACES."
)
_SAMPLING_NOTES = {
    "unknown": "How the labelled traces were sampled is not recorded. The shares hold for other"
    " traces only if these are a random sample.",
    "uniform": "The labelled traces are a uniform random sample.",
    "stratified": "The traces were sampled with unequal chances: % is weighted by one over the"
    " chance; count and n are plain numbers of labels.",
}


@dataclass(slots=True)
class LabelCounts(TraceCounts):
    """The counts of people's labels; ``weights``: the traces that each represents, if unequal."""

    weights: Mapping[str, float] | None = None
    items: list[tuple[frozenset[Hashable], str, float]] = field(default_factory=list)

    def add(self, annotation: Annotation) -> None:
        """Count a label, as the annotation that says the same."""
        TraceCounts.add(self, annotation)
        if self.weights is None or (self.of_labelled and annotation.status == "none"):
            return
        labels = self.rubric.labels_of(annotation)
        groups = [(name,) for name, codes in self.rubric.groups.items() if {*codes} & {*labels}]
        cluster = find_cluster(annotation.attributes, self.cluster_by)
        name = cluster or name_lone_cluster(annotation.trace_id)
        weight = self.weights[annotation.trace_id]
        self.items.append((frozenset((*labels, *groups)), name, weight))

    def share(self, label: Hashable) -> Interval:
        """Return the weighted share of the traces with a label, or with a group of codes."""
        if self.weights is None:
            return TraceCounts.share(self, label)
        share = estimate_clustered_share(
            [label in labels for labels, _, _ in self.items],
            [cluster for _, cluster, _ in self.items] if self.clusters.named else None,
            [weight for _, _, weight in self.items],
            least_design_effect=1.0,
        )
        having = {cluster for labels, cluster, _ in self.items if label in labels}
        clusters = share.inputs["clusters"]
        return Interval(
            value=share.value,
            low=0.0 if share.low is None else share.low,
            high=1.0 if share.high is None else share.high,
            k=share.inputs["k"],
            n=share.n,
            confidence=share.confidence,
            method=share.method,
            reason=share.reason,
            design_effect=share.n / share.inputs["n_effective"] if share.n else None,
            clusters=clusters,
            clusters_with=None if clusters is None else len(having),
        )


def count_people(
    request: Request,
    *,
    run: Run | None = None,
    traces: Attributes | None = None,
    by: str | None = None,
    of_labelled: bool = False,
    cluster: Sequence[str] | None = None,
) -> list[FrequencyTable]:
    """Return the tables of people's labels, one per rubric, of the traces of ``run`` or ``traces``.

    Without both, the only attribute of a trace is the ``task`` that its label names. Other
    arguments and errors are those of :func:`annotator.api.count_labels`.
    """
    return [
        table
        for scheme in request.schemes(run)
        for table in _Counted(
            scheme.for_people(), request, run, traces, of_labelled, cluster
        ).tables(by)
    ]


class _Counted:
    """The labels of one rubric that are counted, with the attributes of their traces."""

    def __init__(
        self,
        scheme: Scheme,
        request: Request,
        run: Run | None,
        traces: Attributes | None,
        of_labelled: bool,
        cluster: Sequence[str] | None,
    ) -> None:
        self._scheme, self._request, self._run = scheme, request, run
        self._of_labelled, self._cluster = of_labelled, cluster
        trace_ids = list_trace_ids(run, scheme.id, request.design, request.labels.paths)
        read = request.labels.read(scheme, chain(traces or (), trace_ids))
        selected, self._annotators = select_labels(read, request.annotators)
        labels, self._split = select_split(selected, final=request.final)
        if run:
            traces = {
                annotation.trace_id: annotation.attributes
                for annotation in run.annotations(scheme.id)
                if annotation.trace_id in labels
            }
        self._traces = traces
        attributes = traces
        if attributes is None:
            attributes = {id_: {"task": x.task} for id_, x in labels.items() if x.task is not None}
        annotations = {
            trace_id: _annotate(label, scheme, attributes.get(trace_id, {}))
            for trace_id, label in labels.items()
        }
        # The weights are those of all labels: what is not in the run is no lost label.
        sample = JudgedSample("", "", "", scheme, selected=annotations)
        design, notes = find_design(run, labels, scheme.id, request.design, request.labels.paths)
        self._matched = match_labels(sample, labels, request.cluster, design)
        self._annotations = [
            annotations[id_] for id_ in sorted(annotations) if traces is None or id_ in traces
        ]
        if not self._annotations:
            first = next(iter(labels.values()))
            raise AnnotatorError(
                f"none of the {len(labels)} labelled traces is in {run or 'TRACES'}; the first is"
                f" {first.trace_id!r} ({first.where})"
            )
        self._notes = [*read.notes, *self._describe_left_out(len(selected), len(labels))]
        self._notes += notes + describe_unlabelled(self._matched, read)

    def _describe_left_out(self, selected: int, used: int) -> Iterator[str]:
        if held_out := selected - used:
            other = "dev" if self._request.final else "test"
            yield f"Not counted: {format_count(held_out, 'label')} of the {other} split (--final)."
        if elsewhere := used - len(self._annotations):
            reason = f"not in {self._run}" if self._run else "not in TRACES, or not readable"
            yield f"Not counted: {format_count(elsewhere, 'label')} of traces that are {reason}."

    def tables(self, by: str | None) -> list[FrequencyTable]:
        """Return the table of all labels, or one for each value of an attribute."""
        names = {name for annotation in self._annotations for name in annotation.attributes}
        check_attributes(names, by, self._cluster, "no labelled trace")
        weights = None
        if self._matched.design == "stratified":
            weights = {trace.trace_id: trace.weight for trace in self._matched.traces}
        groups: dict[str, LabelCounts] = {}
        for annotation in self._annotations:
            group = get_attribute(annotation.attributes, by) if by else ""
            empty = LabelCounts(
                self._scheme, self._of_labelled, self._request.cluster, weights=weights
            )
            groups.setdefault(group, empty).add(annotation)
        ordered = sorted(groups, key=lambda group: (-groups[group].judged, group))
        return [self._table(groups[group], (by, group) if by else None) for group in ordered]

    def _table(self, counts: LabelCounts, group: tuple[str, str] | None) -> FrequencyTable:
        files = self._request.labels
        people = LabelsUsed(
            files=tuple(map(str, files.paths)),
            sha256=hash_label_files(files.paths, files.digests),
            annotators=self._annotators,
            n=counts.judged,
            split=self._split,
            design=self._matched.design,
            clusters=len(counts.clusters) if counts.clusters.named else None,
            not_in_run=(),
            skipped=(),
            failed=(),
        )
        return build_table(
            counts,
            group,
            lambda shares: self._describe(counts, shares),
            judge=None,
            judge_sha256=None,
            run=self._run.id if self._run else None,
            run_name=name_runs([self._run])[0] if self._run else "",
            status=self._run.manifest.status if self._run else None,
            limit=self._run.manifest.limit if self._run else None,
            people=people,
        )

    def _describe(self, counts: LabelCounts, shares: Mapping[str, Interval]) -> Iterator[str]:
        yield Note(_SAMPLING_NOTES[self._matched.design], "sampling")
        yield from describe_shares(counts)
        yield from describe_intervals(counts, shares, "", _ERRORS)
        if self._traces is None and not counts.clusters.named and self._request.cluster:
            yield Note(_NO_TASKS, "no-tasks")
        yield from describe_traces(counts)
        yield from self._notes
        yield from describe_part(self._run) if self._run else ()


def _annotate(label: Label, scheme: Scheme, attributes: Mapping[str, Any]) -> Annotation:
    return Annotation(
        label.trace_id,
        scheme.id,
        scheme.sha256,
        label.annotator,
        "labelled" if label.codes else "none",
        label.primary,
        label.secondary,
        attributes=attributes,
    )
