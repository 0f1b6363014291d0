"""From a run and label files to calibrations."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from annotator.annotations import Annotation
from annotator.calibration.calibrate import calibrate
from annotator.calibration.design import (
    Design,
    design_file,
    read_design,
    recorded_designs,
)
from annotator.calibration.frame import Frame, read_frame
from annotator.calibration.join import GOLD, Joined, choose_labels, join, select_split
from annotator.calibration.ledger import hash_labels, labels_sha256, ledgers_of, note_look
from annotator.calibration.model import (
    CORPUS_OF_SPLIT,
    Calibration,
    Codes,
    Comparison,
    LabelledTrace,
    LabelsUsed,
    Look,
    count_labels,
)
from annotator.calibration.raters import (
    compare_attribution,
    compare_judges,
    compare_pair,
    compare_people,
    compare_reference,
    compare_reruns,
    suspect_fit,
)
from annotator.clusters import DEFAULT_CLUSTER, cluster_of
from annotator.errors import AnnotatorError
from annotator.labels import Label, LabelFiles, Labels
from annotator.rubrics import Scheme, load_rubric
from annotator.runs.manifest import now
from annotator.runs.run import Run
from annotator.text import count


@dataclass(frozen=True, slots=True)
class Request:
    """What to hold a judge against, and how.

    ``annotators``: whose labels decide, as :func:`annotator.calibration.join.choose_labels` says.
    ``against``: other runs of the same traces. ``final`` opens the test split. ``design``: the file
    that ``annotate sample`` wrote beside its last sheet; None: the one that the labels name, which
    is recorded with the run. ``ledger``: where looks are noted, if not beside the labels.
    """

    labels: LabelFiles
    rubrics: tuple[str, ...] = ()
    annotators: tuple[str, ...] = ()
    against: tuple[Run, ...] = ()
    cluster: tuple[str, ...] = DEFAULT_CLUSTER
    design: Path | None = None
    ledger: Path | None = None
    final: bool = False
    confidence: float = 0.95
    seed: int = 0
    population: Literal["process", "corpus"] = "process"

    def __post_init__(self) -> None:
        """Raise :class:`AnnotatorError` for an option that cannot be, before anything is noted."""
        if not isinstance(self.confidence, float) or not 0.5 <= self.confidence <= 0.9999:
            raise AnnotatorError(
                f"confidence: expected a number from 0.5 to 0.9999, found {self.confidence!r}"
            )
        if not isinstance(self.seed, int) or self.seed < 0:
            raise AnnotatorError(f"seed: expected a number from 0, found {self.seed!r}")
        if self.population not in ("process", "corpus"):
            raise AnnotatorError(
                f"population: expected process or corpus, found {self.population!r}"
            )
        if not all(isinstance(run, Run) for run in self.against):
            raise AnnotatorError("against: expected runs, as open_run returns them")
        if self.design is not None and not isinstance(self.design, Path):
            raise AnnotatorError(f"design: expected a Path, found {self.design!r}")


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A calibration, and by trace the labels and annotations that were held side by side."""

    calibration: Calibration
    labels: Mapping[str, Label]
    annotations: Mapping[str, Annotation]


def calibrate_run(run: Run, request: Request) -> list[Calibrated]:
    """Calibrate a run for every rubric that has labels, and note the looks in the ledger.

    Raises:
        AnnotatorError: the labels are not readable or not of this run, or a choice has to be made
            (which annotator, which split).
    """
    joined = [
        _join_rubric(run, run.schemes[name], request) for name in choose_rubrics(run, request)
    ]
    # No look is noted before the labels of all rubrics are known to fit.
    return [look_and_calibrate() for look_and_calibrate in joined]


def choose_rubrics(run: Run, request: Request) -> tuple[str, ...]:
    """Return the rubrics of a run that are asked for, or else those that the labels name.

    Raises:
        AnnotatorError: there is none, or the labels cannot be read.
    """
    rubrics = run.schemes
    named = request.labels.count_rubrics()
    for name in request.rubrics:
        if name not in rubrics:
            raise AnnotatorError(f"--rubric {name}: the run has only {', '.join(rubrics)}")
    chosen = request.rubrics or tuple(name for name in rubrics if name in named or not named)
    if not chosen:
        raise AnnotatorError(
            f"the labels are for {', '.join(sorted(named))}, the run judged by {', '.join(rubrics)}"
        )
    return chosen


def _join_rubric(run: Run, rubric: Scheme, request: Request) -> Callable[[], Calibrated]:
    """Return what notes the look at the labels of a rubric and calibrates by them."""
    labels = request.labels.read(rubric)
    chosen, annotators = choose_labels(labels, request.annotators)
    wanted = {label.trace_id for label in labels.labels}
    frame = read_frame(run, rubric.id, wanted=wanted, cluster=request.cluster)
    in_use, split = select_split(chosen, final=request.final)
    if request.population == "corpus" and split != "all":
        raise AnnotatorError(f"--population corpus: {CORPUS_OF_SPLIT}")
    design, notes = find_design(run, request, in_use, rubric.id)
    if design and design.judge_sha256 not in (None, frame.judge_sha256):
        notes.append(
            "The sample was stratified by another judge's codes; its weights hold all the same."
        )
    joined = join(frame, in_use, request.cluster, design)
    notes += _note_left_out(joined, labels)
    notes += _note_undecided(joined, in_use, rubric)
    if joined.design != "unknown" and not design and split == "all":
        notes += _check_sums(joined, frame)
    clusters = {
        trace_id: cluster_of(annotation.attributes, request.cluster)
        for trace_id, annotation in frame.wanted.items()
    }
    weights = _weights_of(labels, design)
    pairs, alpha = compare_people(
        labels,
        rubric,
        clusters=clusters,
        weights=weights,
        confidence=request.confidence,
        seed=request.seed,
    )
    weighed = joined.traces if joined.design != "unknown" else ()
    # The labels in use do not stand for traces that others alone labelled, on which judges are
    # compared, too.
    in_split = [label for label in labels.labels if label.split in (None, split)]
    made = _weights_of(labels, design, weighed)
    weights = made if all(label.trace_id in in_use for label in in_split) else weights
    others = _read_others(frame, wanted, request)
    judges = [
        _compare_run(frame, other, run, other_run, clusters, weights, request.confidence)
        for other_run, other in zip(request.against, others, strict=True)
    ]
    again = [other for other in others if other.judge_sha256 == frame.judge_sha256]
    notes += [
        f"No labelled trace was judged both here and in {other_run}: not compared."
        for other_run, comparison in zip(request.against, judges, strict=True)
        if comparison is None
    ]
    used = _summarize_labels(request.labels, annotators, split, joined)
    references = compare_reference(labels, in_use, frame, clusters, made, request.confidence)
    by_person = [
        {
            trace_id: count_labels(Codes(label.primary, label.secondary), rubric)
            for trace_id, label in labels.of(name).items()
        }
        for name in labels.annotators
        if name != GOLD
    ]

    attribution = compare_attribution(frame, joined, in_use, request.confidence)
    if not attribution and any(label.agent or label.step for label in in_use.values()):
        notes.append(
            "The labels name agents or steps, the judge's findings none (the rubric has no"
            " attribution, or the run is older than it): not compared."
        )

    def look_and_calibrate() -> Calibrated:
        look, look_notes = _note_look(run, frame, used, in_use, request)
        calibration = calibrate(
            frame,
            joined,
            labels=used,
            cluster_by=request.cluster,
            look=look,
            between=pairs,
            people_alpha=alpha,
            references=references,
            others=by_person,
            judges=[comparison for comparison in judges if comparison],
            reruns=compare_reruns([frame, *again], clusters, request.confidence, request.seed),
            confidence=request.confidence,
            seed=request.seed,
            population=request.population,
            attribution=attribution,
            notes=[*notes, *look_notes],
        )
        fitted = suspect_fit(
            labels, in_use, frame, clusters, weights, request.confidence, request.seed
        )
        if fitted:
            calibration = replace(calibration, warnings=(*calibration.warnings, fitted))
        return Calibrated(calibration, in_use, frame.wanted)

    return look_and_calibrate


def _summarize_labels(
    labels: LabelFiles, annotators: tuple[str, ...], split: str, joined: Joined
) -> LabelsUsed:
    return LabelsUsed(
        files=tuple(map(str, labels.paths)),
        sha256=labels_sha256(labels.paths, labels.digests),
        annotators=annotators,
        n=len(joined.traces),
        split=split,
        design=joined.design,
        clusters=len(set(joined.clusters)) if joined.clusters else None,
        not_in_run=joined.not_in_run,
        skipped=joined.skipped,
        failed=joined.failed,
        undecided=joined.undecided,
        drawn=joined.drawn[0] if joined.drawn else None,
        labelled=joined.drawn[1] if joined.drawn else None,
    )


def _note_left_out(joined: Joined, labels: Labels) -> list[str]:
    notes = []
    if joined.not_in_run:
        notes.append(f"{len(joined.not_in_run)} labelled traces are not in the run.")
    if skipped := len(joined.skipped):
        notes.append(f"Left out: {count(skipped, 'labelled trace')} that the run skipped.")
    return notes + note_unlabelled(joined, labels)


def note_unlabelled(joined: Joined, labels: Labels) -> list[str]:
    """Return how many drawn traces have no label, and which labels stand for them."""
    notes = []
    if labels.unlabelled:
        notes.append(f"{len(labels.unlabelled)} traces of the sheet are not labelled yet.")
    if joined.missing:
        lost = sum(missing for missing, _ in joined.missing.values())
        strata = joined.missing.items()
        parts = (f"{name or 'all'} {missing}/{drawn}" for name, (missing, drawn) in strata)
        notes.append(
            f"{count(lost, 'drawn trace')} without a label: the labelled ones of the same stratum"
            f" count for them too ({', '.join(parts)})."
        )
    return notes


def _note_undecided(joined: Joined, labels: Mapping[str, Label], rubric: Scheme) -> list[str]:
    """Say what people gave the traces that the judge left undecided."""
    if not joined.undecided:
        return []
    given = Counter(
        code for trace_id in joined.undecided for code in rubric.labels_of(labels[trace_id])
    )
    counts = ", ".join(f"{code} {given[code]}" for code in rubric.labels if given[code])
    return [
        f"The judge left {count(len(joined.undecided), 'labelled trace')} undecided, where people"
        f" say {counts}."
    ]


def find_design(
    run: Run | None, request: Request, labels: Mapping[str, Label], rubric: str
) -> tuple[Design | None, list[str]]:
    """Return the design that the labels were drawn by, and what to say where it is not found.

    It is the one that was given; else one that the labels name, recorded with the run or beside the
    only label file. Labels of several rounds name several: the last round's has all of them.
    """
    if request.design:
        given = read_design(request.design)
        if given.rubric != rubric:
            raise AnnotatorError(f"--design: drawn for the rubric {given.rubric}, not for {rubric}")
        return given, []
    named = {label.design for label in labels.values()}
    if None in named:
        return None, []
    designs = recorded_designs(run) if run else []
    files = list(request.labels.paths)
    if len(files) == 1 and design_file(files[0]).is_file():
        designs.append(read_design(design_file(files[0])))
    fitting = [
        design
        for design in designs
        if design.id in named
        and design.rubric == rubric
        and (len(named) == 1 or design.traces.keys() >= labels.keys())
    ]
    if fitting:
        return max(fitting, key=lambda design: len(design.traces)), []
    return None, [
        f"The labels name a sample ({', '.join(sorted(map(str, named)))}) that is not recorded with"
        " the run: how many drawn traces have no label is not known. Give it with --design FILE."
    ]


def _check_sums(joined: Joined, frame: Frame) -> list[str]:
    total, size = sum(trace.weight for trace in joined.traces), frame.total
    if abs(total - size) <= 0.02 * size:
        return []
    return [
        f"The weights of the {len(joined.traces)} labels add up to {total:.0f} traces, the sample"
        f" was drawn from {size}: some are not labelled, or the probabilities are another sample's."
    ]


def _weights_of(
    labels: Labels, design: Design | None, joined: Iterable[LabelledTrace] = ()
) -> dict[str, float] | None:
    """Return the inverse inclusion probability of every labelled trace, None if any lacks one; of
    those that are ``joined``, how many traces they stand for.
    """
    drawn = design.probabilities if design else {}
    chances = {
        label.trace_id: drawn.get(label.trace_id, label.inclusion_probability)
        for label in labels.labels
    }
    weights = {trace_id: 1 / chance for trace_id, chance in chances.items() if chance}
    weights |= {trace.trace_id: trace.weight for trace in joined}
    return weights if len(weights) == len(chances) and len(set(weights.values())) > 1 else None


def _read_others(frame: Frame, wanted: set[str], request: Request) -> list[Frame]:
    """Return the other runs of the same rubric, each once."""
    others: list[Frame] = []
    for run in request.against:
        other = read_frame(run, frame.rubric.id, wanted=wanted, cluster=request.cluster)
        if other.rubric.sha256 != frame.rubric.sha256:
            raise AnnotatorError(
                f"--against {run}: judged by another version of {frame.rubric.id}"
                f" ({other.rubric.sha256[:12]}, not {frame.rubric.sha256[:12]})"
            )
        if other.run == frame.run:
            raise AnnotatorError(f"--against {run}: this is the run itself")
        if other.run in {before.run for before in others}:
            raise AnnotatorError(f"--against {run}: this run was given twice")
        others.append(other)
    return others


def _compare_run(
    frame: Frame,
    other: Frame,
    run: Run,
    other_run: Run,
    clusters: Mapping[str, str | None],
    weights: Mapping[str, float] | None,
    confidence: float,
) -> Comparison | None:
    again = other.judge_sha256 == frame.judge_sha256
    cached = any(side.manifest.totals.get("cache_hits") for side in (run, other_run))
    note = None
    if again and cached:
        note = "answers out of the cache: it agrees with itself by construction"
    elif again and frame.judge == "rules":
        note = "the rules judge always says the same"
    what = f"{frame.judge} again" if again else f"{frame.judge} and {other.judge}"
    return compare_judges(what, frame, other, clusters, weights, confidence, note)


def _note_look(
    run: Run,
    frame: Frame,
    labels: LabelsUsed,
    in_use: Mapping[str, Label],
    request: Request,
) -> tuple[Look | None, list[str]]:
    """Note the look; return it, or None, and what to say of it."""
    entry: dict[str, Any] = {
        "time": now(),
        "run": frame.run,
        "folder": str(run),
        "judge": frame.judge,
        "judge_sha256": frame.judge_sha256,
        "rubric": frame.rubric.id,
        "rubric_sha256": frame.rubric.sha256,
        "split": labels.split,
        "n": labels.n,
        "labels_sha256": labels.sha256,
    }
    ledgers = [request.ledger] if request.ledger else ledgers_of(request.labels.paths)
    notes: list[str] = []
    try:
        noted = note_look(ledgers, entry | {"labels": hash_labels(in_use.values())}, notes.append)
        look = Look(**{name: value for name, value in noted.items() if name != "labels"})
    except AnnotatorError as error:
        if request.ledger:  # it was asked for by name
            raise
        return None, [*notes, f"This look was not noted: {error}"]
    if not request.final or look.judges == 1:
        return look, notes
    return look, [
        *notes,
        f"{look.judges} judges were held against these test labels: was one of them chosen for"
        " doing well here?",
    ]


@dataclass(frozen=True, slots=True)
class Annotators:
    """Two people on the traces that both labelled, with the labels in which they differ."""

    rubric: Scheme
    comparison: Comparison
    differing: tuple[tuple[Label, Label], ...]

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "rubric": self.rubric.id,
            "rubric_sha256": self.rubric.sha256,
            "between": self.comparison.what,
            "n": self.comparison.n,
            "agreement": self.comparison.agreement.as_dict(),
            "differing": [label.trace_id for label, _ in self.differing],
        }


def compare_annotators(
    request: Request, first: str, second: str, run: Run | None = None
) -> list[Annotators]:
    """Hold one annotator against another, for every rubric (or those asked for) with labels.

    Clusters come from ``run`` if it is given, else from the labels' tasks.

    Raises:
        AnnotatorError: an annotator has no labels, they have no trace in common, or a rubric is not
            built in and was not given as a file.
    """
    return [
        _compare_annotators(rubric, request, first, second, run)
        for rubric in choose_schemes(request, run)
    ]


def _compare_annotators(
    rubric: Scheme, request: Request, first: str, second: str, run: Run | None
) -> Annotators:
    if first == second:
        raise AnnotatorError(f"--between: {first!r} is one annotator; name two")
    labels = request.labels.read(rubric)
    for name in (first, second):
        if name not in labels.annotators:
            raise AnnotatorError(
                f"--between: no labels of {name!r} for {rubric.id}, only of"
                f" {', '.join(labels.annotators)}"
            )
    sides = labels.of(first), labels.of(second)
    clusters = {label.trace_id: label.task for label in labels.labels}
    if run:
        frame = read_frame(run, rubric.id, wanted=set(clusters), cluster=request.cluster)
        for trace_id, annotation in frame.wanted.items():
            clusters[trace_id] = cluster_of(annotation.attributes, request.cluster)
    design = read_design(request.design) if request.design else None
    weights = _weights_of(labels, design)
    comparison = compare_pair(
        first, sides[0], second, sides[1], rubric, clusters, weights, request.confidence
    )
    if comparison is None:
        raise AnnotatorError(f"{first} and {second} labelled no trace in common ({rubric.id})")
    pairs = [(label, sides[1][name]) for name, label in sides[0].items() if name in sides[1]]
    differing = tuple(
        pair for pair in pairs if len({frozenset(rubric.labels_of(label)) for label in pair}) > 1
    )
    return Annotators(rubric, comparison, differing)


def choose_schemes(request: Request, run: Run | None) -> list[Scheme]:
    """Return the rubrics that are asked for, or else all that the labels name.

    Raises:
        AnnotatorError: there is none, or one is not in the run, or, without a run, not known.
    """
    names = request.rubrics or tuple(sorted(request.labels.count_rubrics()))
    if not names:
        raise AnnotatorError("the labels name no rubric; say which with --rubric NAME|FILE")
    if run is None:
        return [load_rubric(name).scheme() for name in names]
    if missing := [name for name in names if name not in run.schemes]:
        raise AnnotatorError(f"the run has no rubric {missing[0]!r}, only {', '.join(run.schemes)}")
    return [run.schemes[name] for name in names]
