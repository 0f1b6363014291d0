"""Match labels with annotations of the same traces."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from annotator.base.errors import AnnotatorError
from annotator.base.text import format_count
from annotator.calibration.judged_sample import JudgedSample
from annotator.calibration.model import (
    OPEN,
    Codes,
    CountedLabels,
    LabelledTrace,
    Request,
    count_answer,
    count_labels,
)
from annotator.calibration.sample.design import (
    UNDECIDED,
    Design,
    find_design,
    list_trace_ids,
)
from annotator.labels import Label, Labels
from annotator.rubrics import Scheme
from annotator.rubrics.annotations import Annotation
from annotator.runs.run import Run
from annotator.traces.clusters import find_cluster, name_lone_cluster
from validation import RaterAgreement, measure_agreement

GOLD = "gold"  # the annotator of labels that several people agreed on


@dataclass(frozen=True, slots=True)
class MatchedLabels:
    """The labelled traces of a run, and the ids of those that are not compared.

    ``traces``: decided by the judge. ``not_decided``: undecided or failed. ``not_in_run``,
    ``skipped``, ``failed``, ``undecided``: trace ids. ``design``: ``uniform`` or ``stratified`` if
    inclusion probabilities are known, else ``unknown``. ``missing``: by stratum, the numbers of
    sampled traces without a label and of sampled traces. ``sampled``: the numbers of sampled and
    of labelled traces, None without a design.
    """

    traces: tuple[LabelledTrace, ...]
    not_decided: tuple[LabelledTrace, ...]
    not_in_run: tuple[str, ...]
    skipped: tuple[str, ...]
    failed: tuple[str, ...]
    undecided: tuple[str, ...]
    design: str
    missing: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    sampled: tuple[int, int] | None = None

    @property
    def all(self) -> tuple[LabelledTrace, ...]:
        """Every labelled trace, decided or not."""
        return self.traces + self.not_decided

    @property
    def weights(self) -> list[float] | None:
        """The weights of the traces, None if they are equal."""
        return [trace.weight for trace in self.traces] if self.design == "stratified" else None

    @property
    def clusters(self) -> list[str] | None:
        """The clusters of the traces, None if no trace names one."""
        return [trace.cluster for trace in self.traces if trace.cluster is not None] or None

    def agree(
        self,
        human: Sequence[str],
        judge: Sequence[str],
        categories: Sequence[str] | None,
        confidence: float,
    ) -> RaterAgreement:
        """Return the agreement of two labels a trace; ``categories`` None: those that occur."""
        return measure_agreement(
            human,
            judge,
            weights=self.weights,
            clusters=self.clusters,
            confidence=confidence,
            categories=categories,
        )


def join_labels(labels: Collection[str]) -> str:
    """Return the labels of one trace as a single one, sorted and joined by ``+``."""
    return "+".join(sorted(labels))


def select_labels(
    labels: Labels, annotators: Sequence[str]
) -> tuple[dict[str, Label], tuple[str, ...]]:
    """Return the reference labels by trace, and their annotators.

    The first of ``annotators`` who labelled a trace decides, by default of
    :func:`find_annotators`.

    Raises:
        AnnotatorError: an annotator has no labels, or no default applies.
    """
    for name in annotators:
        if name not in labels.annotators:
            raise AnnotatorError(
                f"--annotator {name}: no labels of that annotator, only of"
                f" {', '.join(labels.annotators)}"
            )
    names = tuple(annotators) or find_annotators(labels)
    if not names:
        left = " on traces that gold has not decided" if GOLD in labels.annotators else ""
        raise AnnotatorError(
            f"labels of several annotators{left}: {', '.join(labels.annotators)}; choose with"
            " --annotator NAME (several: the first who labelled a trace decides), or compare two of"
            " them with --between A B"
        )
    selected: dict[str, Label] = {}
    for name in names:
        for trace_id, label in labels.of(name).items():
            selected.setdefault(trace_id, label)
    return selected, names


def find_annotators(labels: Labels) -> tuple[str, ...]:
    """Return the annotators whose labels decide by default, in their order, () if none do.

    ``gold`` goes first. On the other traces it is the person who labelled all traces, or the only
    person who labelled the trace, if there are gold labels.
    """
    names = labels.annotators
    everything = {label.trace_id for label in labels.labels}
    complete = [name for name in names if labels.of(name).keys() == everything]
    if GOLD in complete:
        return (GOLD,)
    gold = (GOLD,) if GOLD in names else ()
    if len(complete) == 1:
        return (*gold, complete[0])
    by_gold = labels.of(GOLD).keys() if gold else set()
    others = [label.trace_id for label in labels.labels if label.trace_id not in by_gold]
    if gold and len(others) == len(set(others)):
        return (*gold, *(name for name in names if name != GOLD))
    return ()


def select_split(labels: Mapping[str, Label], *, final: bool) -> tuple[dict[str, Label], str]:
    """Return the labels of ``dev``, or with ``final`` of ``test``, and the name of the split.

    If no label has a split, all labels are returned, as ``all``.

    Raises:
        AnnotatorError: only some labels have a split, or the split has no labels.
    """
    splits = {label.split for label in labels.values()}
    if splits <= {None}:
        return dict(labels), "all"
    if None in splits:
        where = next(label.where for label in labels.values() if label.split is None)
        raise AnnotatorError(f"{where}: no split, where other labels have one (dev or test)")
    name = "test" if final else "dev"
    selected = {trace_id: label for trace_id, label in labels.items() if label.split == name}
    if not selected:
        counts = f"{len(labels)} labels, none of the {name} split"
        do = "leave --final out" if final else "open the test split with --final"
        raise AnnotatorError(f"{counts}: {do}")
    return selected, name


@dataclass(frozen=True, slots=True)
class Reference:
    """The labels of one split that decide, by trace, and the design that they were sampled by.

    ``all``: those of every annotator and split. ``notes``: messages about the design.
    """

    all: Labels
    labels: Mapping[str, Label]
    annotators: tuple[str, ...]
    split: str
    design: Design | None
    notes: tuple[str, ...]


def read_reference(
    request: Request, scheme: Scheme, run: Run | None, sources: Sequence[str], *, final: bool
) -> Reference:
    """Return the labels for a rubric: of ``dev``, with ``final`` of ``test``; without a split, all.

    Args:
        request: the label files, and whose labels decide.
        scheme: the rubric.
        run: a run of the same traces, which may have the design of the labels.
        sources: the sources of the traces.
        final: opens the test split.

    Raises:
        AnnotatorError: the labels or their design cannot be read, or the annotator or the split has
            to be chosen.
    """
    files = request.labels.paths
    trace_ids = list_trace_ids(run, scheme.id, request.design, files)
    read = request.labels.read(scheme, trace_ids, sources)
    selected, annotators = select_labels(read, request.annotators)
    labels, split = select_split(selected, final=final)
    design, notes = find_design(run, labels, scheme.id, request.design, files)
    return Reference(read, labels, annotators, split, design, tuple(notes))


def match_labels(
    sample: JudgedSample,
    labels: Mapping[str, Label],
    cluster: Collection[str],
    design: Design | None = None,
) -> MatchedLabels:
    """Return the labels with the annotations of the same traces, weighted.

    ``sample`` has the annotations of the labelled traces. With a ``design``, a trace's weight is
    the size of its stratum over its number of labels; else the inverse inclusion probability.

    Raises:
        AnnotatorError: no labelled trace was judged; inclusion probabilities are missing for some
            labels, or changed by a later round; or a stratum has no label.
    """
    judged: list[tuple[Label, Annotation]] = []
    undecided: list[tuple[Label, Annotation]] = []
    left_out: dict[str, list[str]] = {"missing": [], "skipped": [], "failed": [], "undecided": []}
    # Sorted by id: resamples do not depend on the order of lines in a file.
    for trace_id, label in sorted(labels.items()):
        annotation = sample.selected.get(trace_id)
        status = annotation.status if annotation else "missing"
        if status in left_out:
            left_out[status].append(trace_id)
        if annotation and status != "skipped":
            (undecided if status in OPEN else judged).append((label, annotation))
    pairs = [*judged, *undecided]
    if not pairs:
        first = next(iter(labels.values()))
        counts = ", ".join(f"{len(ids)} {name}" for name, ids in left_out.items() if ids)
        raise AnnotatorError(
            f"no labelled trace was judged by {sample.rubric.id} in this run ({len(labels)}"
            f" labels: {counts}); the first is {first.trace_id!r} ({first.where}). Are the labels"
            " of other traces?"
        )
    missing, sampled = {}, None
    if design is None:
        weights = _weigh(pairs)
    else:
        # Labels of sampled traces that this run lacks count, too.
        elsewhere = {*left_out["missing"], *left_out["skipped"]} & design.traces.keys()
        reached = [*(label.trace_id for label, _ in pairs), *elsewhere]
        labelled = _count_labelled(design, reached)
        strata = [design.traces[label.trace_id] for label, _ in pairs]
        weights = [design.strata[name].size / labelled[name] for name in strata]
        missing = {
            name: (stratum.drawn - labelled[name], stratum.drawn)
            for name, stratum in design.strata.items()
            if stratum.drawn > labelled[name] > 0
        }
        sampled = len(design.traces), len(reached)
    clusters = [find_cluster(annotation.attributes, cluster) for _, annotation in pairs]
    traces = [
        LabelledTrace(
            label.trace_id,
            Codes(label.primary, label.secondary),
            Codes(annotation.primary, annotation.secondary),
            CountedLabels(
                count_labels(label, sample.rubric), count_answer(annotation, sample.rubric)
            ),
            weight,
            (name or name_lone_cluster(label.trace_id)) if any(clusters) else None,
        )
        for (label, annotation), weight, name in zip(
            pairs, weights or [1.0] * len(pairs), clusters, strict=True
        )
    ]
    return MatchedLabels(
        traces=tuple(traces[: len(judged)]),
        not_decided=tuple(traces[len(judged) :]),
        not_in_run=tuple(left_out["missing"]),
        skipped=tuple(left_out["skipped"]),
        failed=tuple(left_out["failed"]),
        undecided=tuple(left_out["undecided"]),
        design="unknown" if not weights else "stratified" if len(set(weights)) > 1 else "uniform",
        missing=missing,
        sampled=sampled,
    )


def _count_labelled(design: Design, trace_ids: Collection[str]) -> Counter[str]:
    strata = [design.traces[name] for name in trace_ids if name in design.traces]
    if unknown := len(trace_ids) - len(strata):
        raise AnnotatorError(
            f"{unknown} of the {len(trace_ids)} labels are of traces that the design did not draw;"
            " give the design of the last round with --design FILE"
        )
    labelled = Counter(strata)
    for name, stratum in design.strata.items():
        # Without labels of undecided traces, shares leave these out, and a note says so.
        if stratum.drawn and not labelled[name] and name != UNDECIDED:
            which = f"stratum {name!r}" if name else "sample"
            raise AnnotatorError(
                f"none of the {stratum.drawn} drawn traces of the {which} has a label, and"
                f" they represent {format_count(stratum.size, 'trace')}: label some of them"
            )
    return labelled


def _weigh(pairs: Sequence[tuple[Label, Annotation]]) -> list[float] | None:
    """Return the inverse inclusion probabilities, None if no label has one."""
    chances = [label.inclusion_probability for label, _ in pairs]
    lacking = [label for label, _ in pairs if label.inclusion_probability is None]
    if len(lacking) == len(pairs):
        return None
    if lacking:
        raise AnnotatorError(
            f"{lacking[0].where}: no inclusion probability for {lacking[0].trace_id!r}, where other"
            f" labels have one ({len(lacking)} of {len(pairs)} lack it)"
        )
    if len({label.design for label, _ in pairs}) > 1:
        raise AnnotatorError(
            "the labels were drawn in several rounds, which changed the inclusion probabilities of"
            " the first: give the design of the last round with --design FILE"
        )
    return [1 / float(chance) for chance in chances if chance is not None]


def describe_unlabelled(matched: MatchedLabels, labels: Labels) -> list[str]:
    """Return notes on sampled traces without a label."""
    notes = []
    labelled = {label.trace_id for label in labels.labels}
    waiting = len(labelled.intersection(labels.unlabelled))
    if left := len(labels.unlabelled) - waiting:
        notes.append(f"{left} traces of the sheet are not labelled yet.")
    if waiting:
        notes.append(f"Traces that wait for one more label: {waiting}.")
    if matched.missing:
        lost = sum(missing for missing, _ in matched.missing.values())
        strata = matched.missing.items()
        parts = (f"{name or 'all'} {missing}/{sampled}" for name, (missing, sampled) in strata)
        notes.append(
            f"{format_count(lost, 'drawn trace')} without a label: the labelled ones of"
            " the same stratum"
            f" count for them too ({', '.join(parts)})."
        )
    return notes
