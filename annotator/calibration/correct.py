"""Correcting a run's table by a calibration: of this judge on these traces, or carried over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from annotator.calibration.estimates import (
    CodeEstimates,
    Judged,
    Labelled,
    by_error_rates,
    estimate_code,
)
from annotator.calibration.frame import Frame, found
from annotator.calibration.model import CORPUS_ONLY
from annotator.errors import AnnotatorError


class _Counted(BaseModel):
    human: list[str]
    judge: list[str]


class _Joined(BaseModel):
    trace_id: str
    counted: _Counted
    weight: float
    cluster: str | None


class Stored(BaseModel):
    """The parts of one calibration in ``calibration.json`` that a report reads again."""

    judge: str
    judge_sha256: str
    rubric: str
    rubric_sha256: str
    cluster_by: list[str]
    ids_sha256: str
    labels: dict[str, Any]
    joined: list[_Joined]
    confidence: float
    seed: int
    population: Literal["process", "corpus"]


class _File(BaseModel):
    schema_: Literal["calibration/1"] = Field(alias="schema")
    calibrations: list[Stored]


@dataclass(frozen=True, slots=True)
class Correction:
    """Shares of one rubric (of one group of its traces) corrected by labels; ``notes`` say how.

    ``transferred``: the labels are of other traces or another judge.
    """

    codes: Mapping[str, CodeEstimates]
    labels: int
    transferred: bool
    notes: tuple[str, ...]


Calibrations = Mapping[str, Sequence[Stored]]
"""Calibrations by rubric; of several for one rubric, each run takes the one that fits it."""


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
        read = _File.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "file"
        raise AnnotatorError(f"{file}: no calibration: {where}: {first['msg']}") from error
    return read.calibrations


def correction_of(
    calibrations: Sequence[Stored], frame: Frame, whole: Frame, run: Path, *, transfer: bool
) -> Correction:
    """Return the corrected shares of a frame: all that a run judged (``whole``) or a group of it.

    The first calibration that fits the run is used, else the first.

    Raises:
        AnnotatorError: the calibration is of another version of the rubric; or of another judge or
            of other traces, and ``transfer`` does not allow for that.
    """
    name = whole.rubric.id
    stored = next((one for one in calibrations if _fits(one, whole)), calibrations[0])
    if stored.rubric_sha256 != whole.rubric.sha256:
        raise AnnotatorError(
            f"the calibration is for another version of {name} ({stored.rubric_sha256[:12]}; {run}"
            f" has {whole.rubric.sha256[:12]})"
        )
    why = ""
    if stored.judge_sha256 != whole.judge_sha256:
        why = (
            f"it was made for another judge, {stored.judge} ({stored.judge_sha256[:12]}), and {run}"
            f" was judged by {whole.judge} ({whole.judge_sha256[:12]})"
        )
    elif stored.ids_sha256 != whole.ids_sha256:
        why = f"it was made on other traces than {run} judged (or the run has grown since)"
    if not why:
        return correct(stored, frame)
    if not transfer:
        raise AnnotatorError(
            f"the calibration for {name} does not fit: {why}. Calibrate this run, or carry the"
            " error rates over with --transfer"
        )
    return carry_over(stored, frame, why)


def _fits(stored: Stored, frame: Frame) -> bool:
    return (stored.rubric_sha256, stored.judge_sha256, stored.ids_sha256) == (
        frame.rubric.sha256,
        frame.judge_sha256,
        frame.ids_sha256,
    )


def correct(stored: Stored, frame: Frame) -> Correction:
    """Return the corrected shares of the frame, by the labels of its own traces.

    The judge's label of each labelled trace is the one in the frame; labels of traces that are not
    kept in it (another group) are left out.
    """
    rows = []
    for one in stored.joined:
        annotation = frame.wanted.get(one.trace_id)
        if annotation and annotation.status in ("labelled", "none"):
            judge = frozenset(found(annotation, frame.rubric))
            human = frozenset(one.counted.human)
            rows.append(Labelled(one.trace_id, human, judge, one.weight, _cluster(one, stored)))
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
    return Correction(codes, len(rows), False, tuple(_notes(stored, len(rows))))


def _cluster(one: _Joined, stored: Stored) -> str | None:
    known = any(other.cluster is not None for other in stored.joined)
    return (one.cluster or f"\0{one.trace_id}") if known else None


def _notes(stored: Stored, n: int) -> list[str]:
    whose = ", ".join(stored.labels.get("annotators", []))
    return [
        f"Corrected shares rest on {n} labels of {whose} (post-stratified by the judge's own label,"
        f" Jeffreys, {100 * stored.confidence:g} %), code by code: they need not add up to 100 %."
        " The interval beside the judge's own share is sampling error only.",
        *([CORPUS_ONLY] if stored.population == "corpus" else []),
    ]


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
            _cluster(one, stored),
        )
        for one in stored.joined
    ]
    codes = {
        code: by_error_rates(
            code, Judged(frame.total, frame.with_code[code]), rows, stored.confidence
        )
        for code in frame.rubric.labels
    }
    note = (
        f"TRANSFERRED: {why}. Corrected by the error rates of {len(rows)} labels made elsewhere"
        " (Rogan-Gladen, Lang-Reiczigel): right only if the judge errs here as it did there."
    )
    return Correction(codes, len(rows), True, (note,))
