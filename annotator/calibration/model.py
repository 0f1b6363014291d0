"""The types of a calibration: its request, its numbers with their inputs, its file."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from annotator import __version__
from annotator.base.errors import AnnotatorError
from annotator.base.files import explain_unreadable, read_bounded, write_file
from annotator.base.remote import localize
from annotator.base.text import describe_validation, dump_json, sanitize_line
from annotator.labels import Label, LabelFiles
from annotator.rubrics import HasCodes, Scheme, load_rubric
from annotator.rubrics.annotations import Annotation
from annotator.runs.manifest import format_now
from annotator.runs.run import Run
from annotator.traces.clusters import DEFAULT_CLUSTER
from validation import Averages, Estimate, Interval, RaterAgreement, Retest, SetAgreement

CORPUS_OF_SPLIT = (
    "the labels are of one split, and the tasks of the other have none; sample with annotate sample"
    " --split all, or leave --population corpus out"
)
CORPUS_ONLY = (
    "Corrected intervals are for these traces only, not for future ones (--population corpus)."
)
THIN = 5  # labels of flagged traces; with fewer, a code's precision is hardly known
OPEN = {"undecided": "status:undecided", "failed": "status:failed"}
"""The judge's answer on undecided and failed traces, by status. No code has a colon."""
OPEN_ANSWERS = frozenset(OPEN.values())

Seed = Annotated[int, Field(ge=0)]
Weight = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
Level = Annotated[float, Field(ge=0.5, le=0.9999)]
Counted = Annotated[tuple[str, ...], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class CodeRow:
    """The numbers of one code.

    ``judged`` is the judge's share, None if it cannot find the code; ``corrected`` the share
    corrected for its errors. ``flagged``: labelled traces with the code by the judge; ``missed``:
    by the person only. ``over_annotators``: the least and the greatest corrected share with each
    person who labelled all traces as the reference, None with fewer than two.

    ``mark`` is one of:

    - ``ok``
    - ``thin``: fewer than :data:`THIN` labels of flagged traces; of missed ones, if the judge gave
      the code to no trace
    - ``few-tasks``: people found the code in fewer than five tasks
    - ``blind``: no label of a flagged trace, and no missed trace
    - ``one-sided``: the flagged or the other traces have no label; there are only limits
    - ``open``: the judge cannot rule the code out, and no undecided trace has a label
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
    """The agreement of two raters on ``n`` traces; ``what`` names the raters."""

    what: str
    n: int
    agreement: RaterAgreement
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Codes:
    """The codes that a person or a judge gives a trace."""

    primary: str | None
    secondary: tuple[str, ...]

    @property
    def codes(self) -> tuple[str, ...]:
        """Every code, the primary one first; empty for no code."""
        return (*((self.primary,) if self.primary else ()), *self.secondary)


@dataclass(frozen=True, slots=True)
class CountedLabels:
    """The labels of a trace that are counted, sorted: codes, or ``none``."""

    human: Counted
    judge: Counted


@dataclass(frozen=True, slots=True)
class LabelledTrace:
    """A trace with the codes and the counted labels of a person and of the judge.

    ``counted.judge`` of an undecided or failed trace is one of :data:`OPEN`. ``weight`` is the
    number of traces that it represents, 1 if all were equally likely to be sampled. ``cluster`` is
    None if no labelled trace names one; else a trace that names none is its own cluster.
    """

    trace_id: str
    human: Codes
    judge: Codes
    counted: CountedLabels
    weight: Weight
    cluster: str | None

    @property
    def decided(self) -> bool:
        """True if the judge decided the trace."""
        return OPEN_ANSWERS.isdisjoint(self.counted.judge)


def count_labels(decision: HasCodes, rubric: Scheme) -> tuple[str, ...]:
    """Return the counted labels of a decision, sorted."""
    return tuple(sorted(set(rubric.labels_of(decision))))


def count_answer(annotation: Annotation, rubric: Scheme) -> tuple[str, ...]:
    """Return the counted labels of a judge's annotation, or one of :data:`OPEN`."""
    answer = OPEN.get(annotation.status)
    return (answer,) if answer else count_labels(annotation, rubric)


@dataclass(frozen=True, slots=True)
class LabelsUsed:
    """The labels of a calibration: their files and hash, annotators, split and design.

    ``design`` is ``uniform``, ``stratified`` or ``unknown``. ``n`` labels are of traces that the
    judge decided, in ``clusters`` clusters (None: independent traces). The tuples hold the ids of
    the other labelled traces. ``drawn`` and ``labelled`` are the numbers of sampled traces and of
    those with a label, None without a design. ``strata_by`` and ``sampled_from``: the kind of its
    strata, as :data:`annotator.calibration.sample.design.Strata`, and its number of traces.
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
    strata_by: Literal["codes", "votes", "none"] | None = None
    sampled_from: int | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """The single ``answer`` that is right in most traces, and the ``share`` of these."""

    answer: str
    share: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A look at labels, as in the ledger.

    It is look number ``look`` of this rubric and split, and ``judges`` different judges looked.
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


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Calibration:
    """A judge measured by people's labels, for one rubric.

    ``joined`` holds the labelled traces that the judge decided, ``not_decided`` the undecided and
    failed ones. Every number can be computed again from them.

    - ``judged_codes``: the codes that the judge can find
    - ``look``: None if the ledger could not be written
    - ``agreement``: judge and people on ``joined``
    - ``agreement_of_all``: on all labelled traces; an undecided one is a disagreement
    - ``between``: pairs of people
    - ``references``: the judge, and the reference, with each of several people
    - ``groups``: judge and people on groups of codes
    - ``attribution``: how often the judge names the agent and the step that people name;
      ``attribution_baselines``: how often the commonest agent or step alone is right
    - ``judges``: this judge with other runs, of its own or of other judges
    - ``reruns``: all runs of this judge
    - ``effective_votes``: the number of independent votes that a panel's count as, by their errors
    - ``warnings``: about the labels and their sampling
    - ``cautions``: about the numbers that rest on them
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
    effective_votes: Estimate | None = None
    attribution_baselines: Mapping[str, Baseline] = field(default_factory=dict)

    def __repr__(self) -> str:
        kappa = self.agreement.kappa
        value = "-" if kappa.value is None else f"{kappa.value:.2f}"
        if kappa.low is not None and kappa.high is not None:
            value += f" [{kappa.low:.2f}, {kappa.high:.2f}]"
        names = ", ".join(self.labels.annotators)
        text = f"{self.rubric}, judge {self.judge}: {len(self.labelled)} labels of {names}"
        return f"<Calibration {sanitize_line(text, 300)}, kappa {value}, n {kappa.n}>"

    @property
    def labelled(self) -> tuple[LabelledTrace, ...]:
        """Every labelled trace, whether or not the judge decided it."""
        return self.joined + self.not_decided


Calibrations = Mapping[str, Sequence[Calibration]]
"""Calibrations by rubric. If a rubric has several, each run uses its own."""


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
        AnnotatorError: the file cannot be written.
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
        AnnotatorError: a file cannot be read, or is not a calibration.
    """
    return group_by_rubric(calibration for file in files for calibration in _read_file(file))


def group_by_rubric(calibrations: Iterable[Calibration]) -> Calibrations:
    """Return calibrations by rubric, in their order."""
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
        reason = describe_validation(error, "file")
        raise AnnotatorError(
            f"{file}: not a calibration: {reason}; make it with annotate calibrate"
        ) from error
    return content.calibrations


@dataclass(frozen=True, slots=True)
class Request:
    """The labels to measure a judge by, and the options.

    ``annotators``: the reference, as in :func:`annotator.calibration.matching.select_labels`.
    ``against``: other runs of the same traces. ``final`` opens the test split. ``design``: the file
    that ``annotate sample`` wrote beside its last sheet; None: the one in the run's folder that the
    labels name. ``ledger``: the file of looks, by default beside the labels.
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
        """Raise :class:`AnnotatorError` unless the confidence is from 0.5 to 0.9999."""
        if not 0.5 <= self.confidence <= 0.9999:
            raise AnnotatorError(
                f"confidence: expected a number from 0.5 to 0.9999, found {self.confidence!r}"
            )

    def schemes(self, run: Run | None = None) -> list[Scheme]:
        """Return the requested rubrics, or by default those that the labels name.

        Raises:
            AnnotatorError: there is no rubric, the labels cannot be read, or a rubric is not in the
                run or, without a run, is neither built in nor a file.
        """
        named = self.labels.count_rubrics()
        if run is None:
            names = self.rubrics or tuple(sorted(named))
            if not names:
                raise AnnotatorError("the labels name no rubric; name it with --rubric NAME|FILE")
            return [load_rubric(name).scheme() for name in names]
        for name in self.rubrics:
            if name not in run.schemes:
                raise AnnotatorError(f"--rubric {name}: the run has only {', '.join(run.schemes)}")
        names = self.rubrics or tuple(name for name in run.schemes if name in named or not named)
        if not names:
            raise AnnotatorError(
                f"the labels are for {', '.join(sorted(named))}, the run judged by"
                f" {', '.join(run.schemes)}"
            )
        return [run.schemes[name] for name in names]


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A calibration, and the compared labels and annotations by trace. ``ledgers``: the files
    that note this look.
    """

    calibration: Calibration
    labels: Mapping[str, Label]
    annotations: Mapping[str, Annotation]
    ledgers: tuple[Path, ...] = ()
