"""From a run directory and label files to calibrations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from annotator.annotations import DEFAULT_CLUSTER, cluster_of
from annotator.calibration.calibrate import calibrate
from annotator.calibration.design import Design, read_design
from annotator.calibration.frame import Frame, read_frame
from annotator.calibration.join import Joined, in_split, join, reference
from annotator.calibration.ledger import labels_sha256, ledgers_of, note_look
from annotator.calibration.model import Calibration, Comparison
from annotator.calibration.raters import between, judges_agree, people, reruns
from annotator.errors import AnnotatorError
from annotator.labels import Label, Labels, read_labels, rubrics_in
from annotator.rubrics import Scheme, load_rubric
from annotator.runs.manifest import now
from annotator.runs.run import Run


@dataclass(frozen=True, slots=True)
class Request:
    """What to hold a judge against, and how.

    ``annotators``: whose labels decide, as :func:`annotator.calibration.join.reference` says.
    ``against``: other runs of the same traces. ``final`` opens the test split. ``design``: the file
    that ``annotate sample`` wrote beside its last sheet.
    """

    files: tuple[Path, ...]
    rubrics: tuple[str, ...] = ()
    annotators: tuple[str, ...] = ()
    against: tuple[Run, ...] = ()
    cluster: tuple[str, ...] = DEFAULT_CLUSTER
    design: Path | None = None
    final: bool = False
    confidence: float = 0.95
    seed: int = 0
    population: Literal["process", "corpus"] = "process"


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A calibration, and what it was made from."""

    calibration: Calibration
    joined: Joined
    rubric: Scheme


def calibrate_run(run: Run, request: Request) -> list[Calibrated]:
    """Calibrate a run for every rubric that has labels, and note the looks in the ledger.

    Raises:
        AnnotatorError: there is no run, the labels are not readable or not of this run, or a choice
            has to be made (which annotator, which split).
    """
    known = run.schemes
    there = rubrics_in(request.files)
    for name in request.rubrics:
        if name not in known:
            raise AnnotatorError(f"--rubric {name}: the run has only {', '.join(known)}")
    wanted = request.rubrics or tuple(name for name in known if name in there or not there)
    if not wanted:
        raise AnnotatorError(
            f"the labels are for {', '.join(sorted(there))}, the run judged by {', '.join(known)}"
        )
    return [_calibrated(run, known[name], request) for name in wanted]


def _calibrated(run: Run, rubric: Scheme, request: Request) -> Calibrated:
    labels = read_labels(request.files, rubric)
    chosen, annotators = reference(labels, request.annotators)
    wanted = {label.trace_id for label in labels.labels}
    frame = read_frame(run, rubric.id, wanted=wanted, cluster=request.cluster)
    design = read_design(request.design) if request.design else None
    notes = _check_design(design, frame) if design else []
    kept, split = in_split(chosen, final=request.final)
    joined = join(frame, kept, request.cluster, design.probabilities if design else None)
    notes += _left_out(joined, labels)
    if joined.design != "unknown" and (design or split == "all"):
        notes += _sums(sum(pair.weight for pair in joined.pairs), joined, frame, design)
    clusters = {
        trace_id: cluster_of(one.attributes, request.cluster)
        for trace_id, one in frame.wanted.items()
    }
    weights = _weights_of(labels, design)
    pairs, alpha = people(
        labels,
        rubric,
        clusters=clusters,
        weights=weights,
        confidence=request.confidence,
        seed=request.seed,
    )
    others = [_other(frame, other_run, wanted, request) for other_run in request.against]
    ids = [other.run for other in others]
    for other_run, other in zip(request.against, others, strict=True):
        if ids.count(other.run) > 1:
            raise AnnotatorError(f"--against {other_run}: this run was given twice")
    judges = [
        _against(frame, other, run, other_run, clusters, weights, request.confidence)
        for other_run, other in zip(request.against, others, strict=True)
    ]
    again = [other for other in others if other.judge_sha256 == frame.judge_sha256]
    notes += [
        f"No labelled trace was judged both here and in {other}: not compared."
        for other, found in zip(request.against, judges, strict=True)
        if found is None
    ]
    described = {
        "files": [str(file) for file in request.files],
        "sha256": labels_sha256(request.files),
        "annotators": list(annotators),
        "n": len(joined.pairs),
        "split": split,
        "design": joined.design,
        "clusters": len(set(joined.clusters)) if joined.clusters else None,
        "not_in_run": list(joined.not_in_run),
        "skipped": list(joined.skipped),
        "failed": list(joined.failed),
        "undecided": list(joined.undecided),
    }
    look, problem = _look(run, frame, described, request.files)
    if request.final and look and look["judges"] > 1:
        notes.append(
            f"{look['judges']} judges were held against these test labels: was one of them chosen"
            " for doing well here?"
        )
    calibration = calibrate(
        frame,
        joined,
        labels=described,
        cluster_by=request.cluster,
        look=look,
        between=pairs,
        people_alpha=alpha,
        judges=[one for one in judges if one],
        reruns=reruns([frame, *again], clusters, request.confidence, request.seed),
        confidence=request.confidence,
        seed=request.seed,
        population=request.population,
        notes=[*notes, *([problem] if problem else [])],
    )
    return Calibrated(calibration, joined, rubric)


def _check_design(design: Design, frame: Frame) -> list[str]:
    if design.rubric != frame.rubric.id:
        raise AnnotatorError(
            f"--design: drawn for the rubric {design.rubric}, not for {frame.rubric.id}"
        )
    if design.judge_sha256 and design.judge_sha256 != frame.judge_sha256:
        return [
            "The sample was stratified by another judge's codes; its weights hold all the same."
        ]
    return []


def _left_out(joined: Joined, labels: Labels) -> list[str]:
    notes = []
    if joined.not_in_run:
        notes.append(f"{len(joined.not_in_run)} labelled traces are not in the run.")
    for name, ids_ in (("skipped", joined.skipped), ("failed", joined.failed)):
        if ids_:
            notes.append(
                f"{len(ids_)} labelled traces have no judgement in the run ({name}) and are left"
                " out."
            )
    if joined.undecided:
        notes.append(f"Not compared: {len(joined.undecided)} labelled traces that are undecided.")
    if labels.unlabelled:
        notes.append(f"{len(labels.unlabelled)} traces of the sheet are not labelled yet.")
    return notes


def _sums(total: float, joined: Joined, frame: Frame, design: Design | None) -> list[str]:
    size = design.frame if design else frame.total
    if abs(total - size) <= 0.02 * size:
        return []
    return [
        f"The weights of the {len(joined.pairs)} labels add up to {total:.0f} traces, the sample"
        f" was drawn from {size}: some are not labelled, or the probabilities are another sample's."
    ]


def _weights_of(labels: Labels, design: Design | None) -> dict[str, float] | None:
    """Return the inverse inclusion probability of every labelled trace, None if any lacks one."""
    known = design.probabilities if design else {}
    chances = {
        label.trace_id: known.get(label.trace_id, label.inclusion_probability)
        for label in labels.labels
    }
    found = {trace_id: 1 / one for trace_id, one in chances.items() if one}
    return found if len(found) == len(chances) and len(set(found.values())) > 1 else None


def _other(frame: Frame, run: Run, wanted: set[str], request: Request) -> Frame:
    """Return another run of the same rubric."""
    other = read_frame(run, frame.rubric.id, wanted=wanted, cluster=request.cluster)
    if other.rubric.sha256 != frame.rubric.sha256:
        raise AnnotatorError(
            f"--against {run}: judged by another version of {frame.rubric.id}"
            f" ({other.rubric.sha256[:12]}, not {frame.rubric.sha256[:12]})"
        )
    if other.run == frame.run:
        raise AnnotatorError(f"--against {run}: this is the run itself")
    return other


def _against(
    frame: Frame,
    other: Frame,
    run: Run,
    other_run: Run,
    clusters: Mapping[str, str | None],
    weights: Mapping[str, float] | None,
    confidence: float,
) -> Comparison | None:
    again = other.judge_sha256 == frame.judge_sha256
    cached = any(each.manifest.totals.get("cache_hits") for each in (run, other_run))
    note = None
    if again and cached:
        note = "answers out of the cache: it agrees with itself by construction"
    elif again and frame.judge == "rules":
        note = "the rules judge always says the same"
    what = f"{frame.judge} again" if again else f"{frame.judge} and {other.judge}"
    return judges_agree(what, frame, other, clusters, weights, confidence, note)


def _look(
    run: Run, frame: Frame, labels: Mapping[str, Any], files: Sequence[Path]
) -> tuple[dict[str, Any] | None, str | None]:
    """Note the look; return it, or None and why it could not be noted."""
    entry = {
        "time": now(),
        "run": frame.run,
        "folder": str(run),
        "judge": frame.judge,
        "judge_sha256": frame.judge_sha256,
        "rubric": frame.rubric.id,
        "rubric_sha256": frame.rubric.sha256,
        "split": labels["split"],
        "n": labels["n"],
        "labels_sha256": labels["sha256"],
    }
    try:
        return note_look(ledgers_of(files), entry), None
    except AnnotatorError as error:
        return None, f"This look was not noted: {error}"


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
            "differing": [one.trace_id for one, _ in self.differing],
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
        _annotators(info, request, first, second, run)
        for info in _infos(request, run.schemes if run else None)
    ]


def _annotators(
    info: Scheme, request: Request, first: str, second: str, run: Run | None
) -> Annotators:
    labels = read_labels(request.files, info)
    for name in (first, second):
        if name not in labels.annotators:
            raise AnnotatorError(
                f"--between: no labels of {name!r} for {info.id}, only of"
                f" {', '.join(labels.annotators)}"
            )
    one, other = labels.of(first), labels.of(second)
    clusters = {label.trace_id: label.task for label in labels.labels}
    if run:
        frame = read_frame(run, info.id, wanted=set(clusters), cluster=request.cluster)
        for trace_id, annotation in frame.wanted.items():
            clusters[trace_id] = cluster_of(annotation.attributes, request.cluster)
    design = read_design(request.design) if request.design else None
    weights = _weights_of(labels, design)
    comparison = between(first, one, second, other, info, clusters, weights, request.confidence)
    if comparison is None:
        raise AnnotatorError(f"{first} and {second} labelled no trace in common ({info.id})")
    differing = tuple(
        (label, other[trace_id])
        for trace_id, label in one.items()
        if trace_id in other and set(info.labels_of(label)) != set(info.labels_of(other[trace_id]))
    )
    return Annotators(info, comparison, differing)


def _infos(request: Request, known: Mapping[str, Scheme] | None) -> list[Scheme]:
    there = rubrics_in(request.files)
    names = request.rubrics or tuple(sorted(there))
    if not names:
        raise AnnotatorError("the labels name no rubric; say which with --rubric NAME|FILE")
    if known is not None:
        if missing := [name for name in names if name not in known]:
            raise AnnotatorError(f"the run has no rubric {missing[0]!r}, only {', '.join(known)}")
        return [known[name] for name in names]
    return [load_rubric(name).scheme() for name in names]
