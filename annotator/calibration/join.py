"""Labels and annotations of the same traces, side by side."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from annotator.annotations import Annotation
from annotator.calibration.frame import Frame
from annotator.calibration.model import Codes, CountedLabels, LabelledTrace, count_labels
from annotator.clusters import cluster_of, lone_cluster
from annotator.errors import AnnotatorError
from annotator.labels import Label, Labels

GOLD = "gold"  # the annotator of labels that several people agreed on


@dataclass(frozen=True, slots=True)
class Joined:
    """The labelled traces that a judge has judged, and all that could not be held side by side.

    ``not_in_run``: labelled, but not in the run. ``skipped``, ``failed``, ``undecided``: labelled,
    and the run has no judgement that can be compared. ``design`` says how the labelled traces were
    drawn: ``uniform`` or ``stratified`` if their inclusion probabilities are known, else
    ``unknown``.
    """

    traces: tuple[LabelledTrace, ...]
    not_in_run: tuple[str, ...]
    skipped: tuple[str, ...]
    failed: tuple[str, ...]
    undecided: tuple[str, ...]
    design: str

    @property
    def weights(self) -> list[float] | None:
        """The weights of the traces, None if they are all the same."""
        return [trace.weight for trace in self.traces] if self.design == "stratified" else None

    @property
    def clusters(self) -> list[str] | None:
        """The clusters of the traces, None if no trace tells its own."""
        return [trace.cluster for trace in self.traces if trace.cluster is not None] or None


def join_labels(labels: Collection[str]) -> str:
    """Return the labels of one trace as a single one: where there are many, their sorted set."""
    return "+".join(sorted(labels))


def choose_labels(
    labels: Labels, annotators: Sequence[str]
) -> tuple[dict[str, Label], tuple[str, ...]]:
    """Return the labels to hold a judge against, by trace, and whose they are.

    ``annotators`` are asked in their order: the first who labelled a trace decides. Without any,
    it is the only annotator, or the one who labelled every trace that the others did; ``gold``, if
    there are several such.

    Raises:
        AnnotatorError: an annotator is not in the labels, or none of the defaults applies.
    """
    for name in annotators:
        if name not in labels.annotators:
            raise AnnotatorError(
                f"--annotator {name}: no labels of that annotator, only of"
                f" {', '.join(labels.annotators)}"
            )
    names = tuple(annotators) or _choose_annotators(labels)
    chosen: dict[str, Label] = {}
    for name in names:
        for trace_id, label in labels.of(name).items():
            chosen.setdefault(trace_id, label)
    return chosen, names


def _choose_annotators(labels: Labels) -> tuple[str, ...]:
    names = labels.annotators
    everything = {label.trace_id for label in labels.labels}
    complete = [name for name in names if labels.of(name).keys() == everything]
    if GOLD in complete:
        return (GOLD,)
    # With a gold that covers a part, its labels and not those it corrects are the better ones.
    if len(complete) == 1 and GOLD not in names:
        return (complete[0],)
    raise AnnotatorError(
        f"labels of several annotators: {', '.join(names)}; say whom to hold the judge against with"
        " --annotator NAME (several: the first who labelled a trace decides), or --between A B"
    )


def select_split(chosen: Mapping[str, Label], *, final: bool) -> tuple[dict[str, Label], str]:
    """Return the labels of the split that may be looked at, and its name.

    ``dev`` is for work on prompts and rubrics, ``test`` only for the final look; labels without a
    split are all used, and the name is ``all``.

    Raises:
        AnnotatorError: some labels have a split and some have none, or there are none to look at.
    """
    splits = {label.split for label in chosen.values()}
    if splits <= {None}:
        return dict(chosen), "all"
    if None in splits:
        where = next(label.where for label in chosen.values() if label.split is None)
        raise AnnotatorError(f"{where}: no split, where other labels have one (dev or test)")
    name = "test" if final else "dev"
    labels = {trace_id: label for trace_id, label in chosen.items() if label.split == name}
    if not labels:
        counts = f"{len(chosen)} labels, none of the {name} split"
        do = "leave --final out" if final else "open the test split with --final"
        raise AnnotatorError(f"{counts}: {do}")
    return labels, name


def join(
    frame: Frame,
    chosen: Mapping[str, Label],
    cluster: Collection[str],
    probabilities: Mapping[str, float] | None = None,
) -> Joined:
    """Hold labels and annotations side by side.

    ``frame`` keeps the annotations of the labelled traces; ``probabilities`` replace those that the
    labels of these traces carry.

    Raises:
        AnnotatorError: no labelled trace was judged; or inclusion probabilities are missing for
            some labels, or were changed by a later round.
    """
    judged: list[tuple[Label, Annotation]] = []
    left_out: dict[str, list[str]] = {"missing": [], "skipped": [], "failed": [], "undecided": []}
    for trace_id, label in chosen.items():
        annotation = frame.wanted.get(trace_id)
        if annotation is None:
            left_out["missing"].append(trace_id)
        elif annotation.status in left_out:
            left_out[annotation.status].append(trace_id)
        else:
            judged.append((label, annotation))
    if not judged:
        raise AnnotatorError(_no_overlap(chosen, left_out, frame))
    weights = _weights(judged, probabilities)
    clusters = [cluster_of(annotation.attributes, cluster) for _, annotation in judged]
    clustered = any(clusters)
    traces = [
        LabelledTrace(
            label.trace_id,
            Codes(label.primary, label.secondary),
            Codes(annotation.primary, annotation.secondary),
            CountedLabels(*(count_labels(side, frame.rubric) for side in (label, annotation))),
            weight,
            (name or lone_cluster(label.trace_id)) if clustered else None,
        )
        for (label, annotation), weight, name in zip(
            judged, weights or [1.0] * len(judged), clusters, strict=True
        )
    ]
    design = "unknown" if weights is None else "stratified" if len(set(weights)) > 1 else "uniform"
    missing, skipped, failed, undecided = map(tuple, left_out.values())
    return Joined(tuple(traces), missing, skipped, failed, undecided, design)


def _no_overlap(
    chosen: Mapping[str, Label], left_out: Mapping[str, list[str]], frame: Frame
) -> str:
    first = next(iter(chosen.values()))
    counts = ", ".join(f"{len(ids)} {name}" for name, ids in left_out.items() if ids)
    return (
        f"no labelled trace was judged by {frame.rubric.id} in this run ({len(chosen)} labels:"
        f" {counts}); the first is {first.trace_id!r} ({first.where}). Are the labels of other"
        " traces?"
    )


def _weights(
    judged: Sequence[tuple[Label, Annotation]],
    probabilities: Mapping[str, float] | None,
) -> list[float] | None:
    """Return the inverse inclusion probabilities, None if no label has one."""
    chances = [
        (probabilities or {}).get(label.trace_id, label.inclusion_probability)
        for label, _ in judged
    ]
    in_design = sum(label.trace_id in (probabilities or {}) for label, _ in judged)
    if 0 < in_design < len(judged):
        raise AnnotatorError(
            f"{len(judged) - in_design} of the {len(judged)} labels are of traces that the design"
            " did not draw; give the design of the last round with --design FILE"
        )
    lacking = [label for (label, _), chance in zip(judged, chances, strict=True) if chance is None]
    if len(lacking) == len(judged):
        return None
    if lacking:
        raise AnnotatorError(
            f"{lacking[0].where}: no inclusion probability for {lacking[0].trace_id!r}, where other"
            f" labels have one ({len(lacking)} of {len(judged)} lack it)"
        )
    designs = {label.design for label, _ in judged}
    if probabilities is None and len(designs) > 1:
        raise AnnotatorError(
            "the labels were drawn in several rounds, which changed the inclusion probabilities of"
            " the first: give the design of the last round with --design FILE"
        )
    return [1 / float(chance) for chance in chances if chance is not None]
