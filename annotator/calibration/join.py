"""Labels and annotations of the same traces, side by side."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from annotator.annotations import Annotation
from annotator.calibration.design import UNDECIDED, Design
from annotator.calibration.frame import Frame
from annotator.calibration.model import (
    OPEN,
    Codes,
    CountedLabels,
    LabelledTrace,
    count_answer,
    count_labels,
)
from annotator.clusters import cluster_of, lone_cluster
from annotator.errors import AnnotatorError
from annotator.labels import Label, Labels

GOLD = "gold"  # the annotator of labels that several people agreed on


@dataclass(frozen=True, slots=True)
class Joined:
    """The labelled traces of a run, and those that could not be held side by side.

    ``traces``: those that the judge decided; ``not_decided``: those that it left undecided or
    failed on. ``not_in_run``: labelled, but not in the run. ``skipped``, ``failed``,
    ``undecided``: the ids of labelled traces with this status. ``design`` says how the labelled
    traces were drawn: ``uniform`` or ``stratified`` if their inclusion probabilities are known,
    else ``unknown``. ``missing``: by stratum, how many of its drawn traces have no label, and how
    many were drawn; the others stand for them. ``drawn``: how many traces were drawn and how many
    of them are labelled, None without a design.
    """

    traces: tuple[LabelledTrace, ...]
    not_decided: tuple[LabelledTrace, ...]
    not_in_run: tuple[str, ...]
    skipped: tuple[str, ...]
    failed: tuple[str, ...]
    undecided: tuple[str, ...]
    design: str
    missing: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    drawn: tuple[int, int] | None = None

    @property
    def all(self) -> tuple[LabelledTrace, ...]:
        """Every labelled trace, whether or not the judge decided it."""
        return self.traces + self.not_decided

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
    drawn: Design | None = None,
) -> Joined:
    """Hold labels and annotations side by side.

    ``frame`` keeps the annotations of the labelled traces; ``drawn`` replaces the inclusion
    probabilities that the labels of these traces carry: a trace stands for as many as there are in
    its stratum for each that was labelled, whether or not all were that had been drawn.

    Raises:
        AnnotatorError: no labelled trace was judged; or inclusion probabilities are missing for
            some labels, or were changed by a later round; or no trace of a stratum was labelled.
    """
    judged: list[tuple[Label, Annotation]] = []
    undecided: list[tuple[Label, Annotation]] = []
    left_out: dict[str, list[str]] = {"missing": [], "skipped": [], "failed": [], "undecided": []}
    # In the order of their ids: what is resampled shall not depend on the lines of a file.
    for trace_id, label in sorted(chosen.items()):
        annotation = frame.wanted.get(trace_id)
        if annotation is None:
            left_out["missing"].append(trace_id)
            continue
        if annotation.status in left_out:
            left_out[annotation.status].append(trace_id)
        if annotation.status in OPEN:
            undecided.append((label, annotation))
        elif annotation.status != "skipped":
            judged.append((label, annotation))
    if not judged and not undecided:
        raise AnnotatorError(_no_overlap(chosen, left_out, frame))
    pairs = [*judged, *undecided]
    # A label of a drawn trace that this run lacks was made all the same.
    elsewhere = [*left_out["missing"], *left_out["skipped"]]
    reached = [label.trace_id for label, _ in pairs]
    reached += [trace_id for trace_id in elsewhere if drawn and trace_id in drawn.traces]
    strata = _Strata(drawn, reached) if drawn else None
    weights = strata.weights(pairs) if strata else _weights(pairs)
    clusters = [cluster_of(annotation.attributes, cluster) for _, annotation in pairs]
    clustered = any(clusters)
    traces = [
        LabelledTrace(
            label.trace_id,
            Codes(label.primary, label.secondary),
            Codes(annotation.primary, annotation.secondary),
            CountedLabels(
                count_labels(label, frame.rubric), count_answer(annotation, frame.rubric)
            ),
            weight,
            (name or lone_cluster(label.trace_id)) if clustered else None,
        )
        for (label, annotation), weight, name in zip(
            pairs, weights or [1.0] * len(pairs), clusters, strict=True
        )
    ]
    design = "unknown" if weights is None else "stratified" if len(set(weights)) > 1 else "uniform"
    return Joined(
        traces=tuple(traces[: len(judged)]),
        not_decided=tuple(traces[len(judged) :]),
        not_in_run=tuple(left_out["missing"]),
        skipped=tuple(left_out["skipped"]),
        failed=tuple(left_out["failed"]),
        undecided=tuple(left_out["undecided"]),
        design=design,
        missing=strata.missing if strata else {},
        drawn=(len(drawn.traces), len(reached)) if drawn else None,
    )


class _Strata:
    """The strata of a design, with how many traces of each were reached by labels."""

    def __init__(self, design: Design, reached: Collection[str]) -> None:
        self._design = design
        strata = [design.traces.get(trace_id) for trace_id in reached]
        if unknown := strata.count(None):
            raise AnnotatorError(
                f"{unknown} of the {len(strata)} labels are of traces that the design did not draw;"
                " give the design of the last round with --design FILE"
            )
        self._reached = Counter(strata)
        for name, stratum in design.strata.items():
            # Without labels of undecided traces, shares are of the others, and say so.
            if stratum.drawn and not self._reached[name] and name != UNDECIDED:
                which = f"stratum {name!r}" if name else "sample"
                raise AnnotatorError(
                    f"none of the {stratum.drawn} drawn traces of the {which} has a label, and"
                    f" they stand for {stratum.size}: label some of them"
                )

    def weights(self, judged: Sequence[tuple[Label, Annotation]]) -> list[float]:
        """Return how many traces each labelled one stands for."""
        strata = [self._design.traces[label.trace_id] for label, _ in judged]
        return [self._design.strata[name].size / self._reached[name] for name in strata]

    @property
    def missing(self) -> dict[str, tuple[int, int]]:
        """By stratum of which some drawn traces were reached: how many were not, of how many."""
        return {
            name: (stratum.drawn - self._reached[name], stratum.drawn)
            for name, stratum in self._design.strata.items()
            if stratum.drawn > self._reached[name] > 0
        }


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


def _weights(judged: Sequence[tuple[Label, Annotation]]) -> list[float] | None:
    """Return the inverse inclusion probabilities, None if no label has one."""
    chances = [label.inclusion_probability for label, _ in judged]
    lacking = [label for (label, _), chance in zip(judged, chances, strict=True) if chance is None]
    if len(lacking) == len(judged):
        return None
    if lacking:
        raise AnnotatorError(
            f"{lacking[0].where}: no inclusion probability for {lacking[0].trace_id!r}, where other"
            f" labels have one ({len(lacking)} of {len(judged)} lack it)"
        )
    if len({label.design for label, _ in judged}) > 1:
        raise AnnotatorError(
            "the labels were drawn in several rounds, which changed the inclusion probabilities of"
            " the first: give the design of the last round with --design FILE"
        )
    return [1 / float(chance) for chance in chances if chance is not None]
