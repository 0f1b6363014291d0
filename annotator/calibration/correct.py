"""Correcting a run's table by a calibration: of this judge on these traces, or carried over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, ValidationError, model_validator

from annotator.calibration.estimates import (
    CodeEstimates,
    Judged,
    Labelled,
    by_error_rates,
    cautions,
    estimate_code,
    not_corrected,
    screened,
)
from annotator.calibration.frame import Frame, empty_frame, read_frame
from annotator.errors import AnnotatorError
from annotator.rubrics import NONE
from annotator.runs.run import Run


class _CountedLabels(BaseModel):
    human: list[str] = Field(min_length=1)
    judge: list[str] = Field(min_length=1)


class _JoinedTrace(BaseModel):
    trace_id: str
    counted: _CountedLabels
    weight: float = Field(gt=0, allow_inf_nan=False)
    cluster: str | None


class _LabelsUsed(BaseModel):
    annotators: list[str]
    split: str
    design: str


class _LookTaken(BaseModel):
    look: int
    judges: int


class Stored(BaseModel):
    """The parts of one calibration in ``calibration.json`` that a report reads again."""

    run: str
    judge: str
    judge_sha256: str
    rubric: str
    rubric_sha256: str
    codes: list[str]
    judged_codes: list[str]
    cluster_by: list[str]
    ids_sha256: str
    labels: _LabelsUsed
    look: _LookTaken | None
    warnings: list[str]
    joined: list[_JoinedTrace]
    confidence: float = Field(gt=0, lt=1)
    seed: int = Field(ge=0)
    population: Literal["process", "corpus"]

    @model_validator(mode="after")
    def _consistent(self) -> "Stored":
        known = {*self.codes, NONE}
        seen: set[str] = set()
        for one in self.joined:
            if one.trace_id in seen:
                raise ValueError(f"{one.trace_id!r} stands twice in joined")
            seen.add(one.trace_id)
            if unknown := {*one.counted.human, *one.counted.judge} - known:
                raise ValueError(f"{one.trace_id!r}: {min(unknown)!r} is no code of the rubric")
        return self


class _CalibrationFile(BaseModel):
    schema_: Literal["calibration/1"] = Field(alias="schema")
    calibrations: list[Stored] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Correction:
    """Shares of one rubric (of one group of its traces) corrected by labels; ``notes`` say how.

    ``transferred``: the labels are of other traces or another judge.
    """

    codes: Mapping[str, CodeEstimates]
    labels: int
    transferred: bool
    confidence: float
    notes: tuple[str, ...]


Calibrations = Mapping[str, Sequence[Stored]]
"""Calibrations by rubric; of several for one rubric, each run takes its own."""


def read_calibrations(files: Sequence[Path]) -> Calibrations:
    """Return the calibrations in files.

    Raises:
        AnnotatorError: one cannot be read, or is not what ``annotate calibrate`` writes.
    """
    found: dict[str, list[Stored]] = {}
    for file in files:
        for one in _read(file):
            found.setdefault(one.rubric, []).append(one)
    return found


def _read(file: Path) -> list[Stored]:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise AnnotatorError(f"{file}: {error.strerror or error}") from error
    try:
        read = _CalibrationFile.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "file"
        raise AnnotatorError(f"{file}: no calibration: {where}: {first['msg']}") from error
    return read.calibrations


def own(calibrations: Sequence[Stored], frame: Frame) -> Stored:
    """Return the calibration made for a run: by its id, else for its judge, else the first.

    Raises:
        AnnotatorError: several were made for this very run.
    """
    if sum(one.run == frame.run for one in calibrations) > 1:
        raise AnnotatorError(
            f"several calibrations for {frame.rubric.id} were made for this run: name one of them"
        )

    def fits(one: Stored) -> tuple[bool, bool]:
        return one.run == frame.run, one.judge_sha256 == frame.judge_sha256

    return max(calibrations, key=fits)


def misfit(stored: Stored, whole: Frame, run: Run) -> str:
    """Return why a calibration is not of a run's judge and traces, "" if it is.

    Raises:
        AnnotatorError: it is of another version of the rubric.
    """
    name = whole.rubric.id
    if stored.rubric_sha256 != whole.rubric.sha256:
        raise AnnotatorError(
            f"the calibration is for another version of {name} ({stored.rubric_sha256[:12]}; {run}"
            f" has {whole.rubric.sha256[:12]})"
        )
    if stored.judge_sha256 != whole.judge_sha256:
        same = (
            ", the same name but asked in another way (prompts, settings, or the versions of what"
            " shapes a request: see judge in the run.json of both)"
        )
        return (
            f"it was made for another judge, {stored.judge} ({stored.judge_sha256[:12]}), and {run}"
            f" was judged by {whole.judge} ({whole.judge_sha256[:12]})"
            + (same if stored.judge == whole.judge else "")
        )
    if stored.ids_sha256 != whole.ids_sha256:
        return f"it was made on other traces than {run} judged (or the run has grown since)"
    return ""


def fitted(run: Run, rubric: str, calibrations: Sequence[Stored]) -> tuple[Stored, Frame, str]:
    """Return the calibration made for a run, the run's frame with the labelled traces kept, and why
    the two do not fit, "" if they do.

    Raises:
        AnnotatorError: as :func:`own`, :func:`misfit` and
            :func:`annotator.calibration.frame.read_frame`.
    """
    stored = own(calibrations, empty_frame(run, rubric))
    wanted = {one.trace_id for one in stored.joined}
    frame = read_frame(run, rubric, wanted=wanted, cluster=stored.cluster_by)
    return stored, frame, misfit(stored, frame, run)


def correction_of(
    stored: Stored, frame: Frame, whole: Frame, run: Run, *, transfer: bool
) -> Correction:
    """Return the corrected shares of a frame: all that a run judged (``whole``) or a group of it.

    Raises:
        AnnotatorError: the calibration is of another version of the rubric; or of another judge or
            of other traces, and ``transfer`` does not allow for that.
    """
    why = misfit(stored, whole, run)
    if not why:
        return correct(stored, frame)
    if not transfer:
        raise AnnotatorError(
            f"the calibration for {whole.rubric.id} does not fit: {why}. Calibrate this run, or"
            " carry the error rates over with --transfer"
        )
    return carry_over(stored, frame, why)


def correct(stored: Stored, frame: Frame) -> Correction:
    """Return the corrected shares of the frame, by the labels of its own traces.

    The judge's label of each labelled trace is the one in the frame; labels of traces that are not
    kept in it (another group) are left out.
    """
    rows = labelled_in(stored, frame)
    codes = {
        code: estimate_code(
            code,
            Judged(
                frame.total,
                frame.with_code[code],
                frame.cluster_totals(code) if frame.clustered else None,
            ),
            rows,
            stored.confidence,
            stored.seed,
            stored.population,
        )
        for code in frame.rubric.labels
    }
    if frame.statuses["undecided"]:
        codes |= {code: screened(codes[code]) for code in frame.rubric.screened}
    notes = _notes(stored, len(rows)) + cautions(
        rows, {name: one.corrected for name, one in codes.items()}
    )
    return Correction(codes, len(rows), False, stored.confidence, tuple(notes))


def labelled_in(stored: Stored, frame: Frame) -> list[Labelled]:
    """Return the labelled traces that a frame keeps, with its judge's labels."""
    rows = []
    for one in stored.joined:
        annotation = frame.wanted.get(one.trace_id)
        if annotation and annotation.status in ("labelled", "none"):
            judge = frozenset(frame.rubric.labels_of(annotation))
            human = frozenset(one.counted.human)
            rows.append(Labelled(one.trace_id, human, judge, one.weight, one.cluster))
    return rows


def _notes(stored: Stored, n: int) -> list[str]:
    return [
        f"Corrected shares rest on {n} labels of {', '.join(stored.labels.annotators)}"
        f" ({described(stored)}), {100 * stored.confidence:g} %, post-stratified by the judge's own"
        " label, Jeffreys, code by code: they need not add up to 100 %. The interval beside the"
        " judge's own share is sampling error only.",
        *stored.warnings,
    ]


def described(stored: Stored) -> str:
    """Return how the labels were drawn and used, in words."""
    words = f"design {stored.labels.design}, split {stored.labels.split}"
    if stored.look:
        words += f", look {stored.look.look}"
        words += f", {stored.look.judges} judges" if stored.look.judges > 1 else ""
    return words


def carry_over(stored: Stored, frame: Frame, why: str) -> Correction:
    """Return the shares of the frame corrected by the error rates that the judge showed elsewhere.

    Rogan and Gladen's estimate with the interval of Lang and Reiczigel: it assumes that the judge
    errs here as often as it did there.
    """
    rows = [
        Labelled(
            one.trace_id,
            frozenset(one.counted.human),
            frozenset(one.counted.judge),
            one.weight,
            one.cluster,
        )
        for one in stored.joined
    ]
    codes = {}
    for code in frame.rubric.labels:
        clusters = frame.cluster_totals(code) if frame.clustered else None
        judged = Judged(frame.total, frame.with_code[code], clusters)
        codes[code] = by_error_rates(code, judged, rows, stored.confidence)
        if reason := _not_carried(code, stored, frame):
            gone = replace(codes[code].corrected, value=None, low=0.0, high=1.0, reason=reason)
            codes[code] = replace(codes[code], corrected=gone)
    if frame.statuses["undecided"]:
        codes |= {code: screened(codes[code]) for code in frame.rubric.screened}
    notes = (
        f"TRANSFERRED: {why}. Corrected by the error rates of {len(rows)} labels made elsewhere"
        f" ({described(stored)}; Rogan-Gladen, Lang-Reiczigel, {100 * stored.confidence:g} %):"
        " right only if the judge errs here as it did there.",
        *not_corrected({code: one.corrected for code, one in codes.items()}),
        *stored.warnings,
    )
    return Correction(codes, len(rows), True, stored.confidence, notes)


def _not_carried(code: str, stored: Stored, frame: Frame) -> str | None:
    """Return why a code's error rates say nothing of this judge, None if they may."""
    if code != NONE:
        if code not in frame.rubric.judged:
            return "the judge has no rule for this code"
        if code not in stored.judged_codes:
            return "the calibrated judge had no rule for this code"
        return None
    if set(stored.judged_codes) != frame.rubric.judged:
        return "none is what is left of other codes than the calibrated judge can find"
    return None
