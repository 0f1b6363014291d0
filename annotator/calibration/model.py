"""What a calibration says: numbers with their inputs, as they are printed, written and read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from annotator import __version__
from annotator.base.errors import AnnotatorError
from annotator.base.files import write_file
from annotator.base.regular import explain_unreadable, read_bounded
from annotator.base.remote import localize
from annotator.base.text import dump_json
from annotator.rubrics import HasCodes, Scheme
from annotator.rubrics.annotations import Annotation
from annotator.runs.manifest import format_now
from validation import Averages, Estimate, Interval, RaterAgreement, Retest, SetAgreement

CORPUS_OF_SPLIT = (
    "the labels are of one split: no trace of the other tasks has a label, so that nothing is known"
    " of the corpus as a whole; draw labels with annotate sample --split all, or leave"
    " --population corpus out"
)
CORPUS_ONLY = (
    "Corrected intervals are for these traces only, not for what would make more of them"
    " (--population corpus)."
)
THIN = 5  # labels of flagged traces below which a code's precision says little
OPEN = {"undecided": "status:undecided", "failed": "status:failed"}
"""The judge's answer on a trace that it did not decide, by its status. No code has a colon."""
OPEN_ANSWERS = frozenset(OPEN.values())

Seed = Annotated[int, Field(ge=0)]
Weight = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
Level = Annotated[float, Field(ge=0.5, le=0.9999)]
Counted = Annotated[tuple[str, ...], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class CodeRow:
    """One code. ``judged`` is the judge's share (None if it cannot find the code), ``corrected``
    the share corrected for its errors.

    ``flagged``: labelled traces that the judge gave the code; ``missed``: labelled traces that only
    the person gave it. ``mark``: ``ok``, ``thin`` (fewer than :data:`THIN` flagged labels),
    ``few-tasks`` (people found it in fewer than five of them),
    ``blind`` (none, and none that was missed), ``one-sided`` (the flagged traces or the others have
    no label at all: limits, and no number) or ``open`` (the judge reports only what it
    recognises, and no trace that it left undecided has a label: neither share nor recall).
    ``over_annotators``: the least and the greatest corrected share with each person as the
    reference who labelled all of the traces; None below two of them.
    """

    code: str
    judged: Interval | None
    corrected: Estimate
    precision: Estimate
    recall: Estimate
    f1: Estimate
    flagged: int
    missed: int
    mark: str
    over_annotators: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """How far two raters agree on ``n`` traces; ``what`` says who they are."""

    what: str
    n: int
    agreement: RaterAgreement
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Codes:
    """What a person or a judge says of a trace: the primary code, if there is one, and others."""

    primary: str | None
    secondary: tuple[str, ...]

    @property
    def codes(self) -> tuple[str, ...]:
        """Every code, the primary one first; empty for "no code"."""
        return (*((self.primary,) if self.primary else ()), *self.secondary)


@dataclass(frozen=True, slots=True)
class CountedLabels:
    """The labels of a trace that are counted, sorted: a code, several, or that there is none."""

    human: Counted
    judge: Counted


@dataclass(frozen=True, slots=True)
class LabelledTrace:
    """One trace with a person's labels and the judge's, all of them and those that are counted.

    ``counted.judge`` of a trace that the judge did not decide is one of :data:`OPEN`. ``weight`` is
    the number of traces that it stands for, 1 where all were equally likely to be drawn;
    ``cluster`` is None where no labelled trace tells its own; where others do, a trace that tells
    none is one of its own.
    """

    trace_id: str
    human: Codes
    judge: Codes
    counted: CountedLabels
    weight: Weight
    cluster: str | None

    @property
    def decided(self) -> bool:
        """Whether the judge decided it."""
        return OPEN_ANSWERS.isdisjoint(self.counted.judge)


def count_labels(decision: HasCodes, rubric: Scheme) -> tuple[str, ...]:
    """Return the labels that are counted of a decision, sorted."""
    return tuple(sorted(set(rubric.labels_of(decision))))


def count_answer(annotation: Annotation, rubric: Scheme) -> tuple[str, ...]:
    """Return what is counted of a judge's answer: its labels, or one of :data:`OPEN`."""
    answer = OPEN.get(annotation.status)
    return (answer,) if answer else count_labels(annotation, rubric)


@dataclass(frozen=True, slots=True)
class LabelsUsed:
    """Which labels a judge was held against: their files and hash, whose they are, of which split,
    and how their traces were drawn (``uniform``, ``stratified`` or ``unknown``).

    ``n`` of them are of traces that the judge decided, in so many ``clusters`` (None: traces are
    independent); the other fields name the labelled traces that it did not. ``drawn``: the traces
    of the sample, and ``labelled``: those of them with a label; None where it is not known how the
    labels were sampled.
    """

    files: tuple[str, ...]
    sha256: str
    annotators: tuple[str, ...]
    n: int
    split: str
    design: str
    clusters: int | None
    not_in_run: tuple[str, ...]
    skipped: tuple[str, ...]
    failed: tuple[str, ...]
    undecided: tuple[str, ...] = ()
    drawn: int | None = None
    labelled: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at labels, as it stands in their ledger: the ``look``-th of this rubric and split,
    by one of so many different ``judges``.
    """

    id: str
    time: str
    run: str
    folder: str
    judge: str
    judge_sha256: str
    rubric: str
    rubric_sha256: str
    split: str
    n: int
    labels_sha256: str
    look: int
    judges: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """One judge held against people's labels, for one rubric.

    ``warnings`` are about the labels and how they were drawn, ``cautions`` about the numbers that
    rest on them here.

    ``joined`` holds every labelled trace that the judge decided, ``not_decided`` those that it left
    undecided or failed on; each number can be computed again from them. ``agreement`` is of
    ``joined``; ``agreement_of_all`` of both, and there no answer is a disagreement.
    ``between``: people with each other (the ceiling); ``references``: the judge, and those whose
    labels decide, with each of several people; ``groups``: the judge and people on groups of codes.
    ``attribution``: how often it names the agent and the step that people name. ``judges``: this
    judge with other runs, its own or another judge's; ``reruns``: all runs of this judge.
    ``judged_codes``: those that the judge can find at all. ``look`` is None if it could not be
    noted.
    """

    run: str
    judge: str
    judge_sha256: str
    rubric: str
    rubric_version: int
    rubric_sha256: str
    choice: str
    codes: tuple[str, ...]
    judged_codes: tuple[str, ...]
    judged: int
    clusters: int | None
    cluster_by: tuple[str, ...]
    ids_sha256: str
    labels: LabelsUsed
    look: Look | None
    agreement: RaterAgreement
    sets: SetAgreement | None
    rows: tuple[CodeRow, ...]
    averages: Mapping[str, Averages]
    between: tuple[Comparison, ...]
    people_alpha: Estimate | None
    references: tuple[Comparison, ...]
    groups: tuple[Comparison, ...]
    attribution: Mapping[str, Interval]
    judges: tuple[Comparison, ...]
    reruns: Retest | None
    joined: tuple[LabelledTrace, ...]
    not_decided: tuple[LabelledTrace, ...]
    agreement_of_all: RaterAgreement | None
    confidence: Level
    seed: Seed
    population: Literal["process", "corpus"]
    cautions: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def labelled(self) -> tuple[LabelledTrace, ...]:
        """Every labelled trace, whether or not the judge decided it."""
        return self.joined + self.not_decided


Calibrations = Mapping[str, Sequence[Calibration]]
"""Calibrations by rubric; of several for one rubric, each run takes its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationFile:
    """The content of ``calibration.json``."""

    schema: Literal["calibration/1"]
    tool: str = ""
    made: str = ""
    calibrations: Annotated[tuple[Calibration, ...], Field(min_length=1)]


def write_calibrations(file: Path, calibrations: Sequence[Calibration]) -> str:
    """Write ``calibration.json`` and return its text.

    Raises:
        AnnotatorError: it cannot be written.
    """
    content = CalibrationFile(
        schema="calibration/1",
        tool=f"failure-annotator {__version__}",
        made=format_now(),
        calibrations=tuple(calibrations),
    )
    text = dump_json(asdict(content), 1)
    write_file(file, f"{text}\n", private=True)
    return text


def read_calibrations(files: Iterable[Path]) -> Calibrations:
    """Return the calibrations in files.

    Raises:
        AnnotatorError: one cannot be read, or is not what ``annotate calibrate`` writes.
    """
    return group_by_rubric(calibration for file in files for calibration in _read_file(file))


def group_by_rubric(calibrations: Iterable[Calibration]) -> Calibrations:
    """Return calibrations by rubric, those of one rubric in the order given."""
    groups: dict[str, list[Calibration]] = {}
    for calibration in calibrations:
        groups.setdefault(calibration.rubric, []).append(calibration)
    return groups


def _read_file(file: Path) -> tuple[Calibration, ...]:
    try:
        with explain_unreadable(file):
            data = read_bounded(localize(file))
        content = TypeAdapter(CalibrationFile).validate_json(data, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "file"
        raise AnnotatorError(
            f"{file}: no calibration: {where}: {first['msg']}; make it with annotate calibrate"
        ) from error
    return content.calibrations
