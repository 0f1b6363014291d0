"""What a calibration says: numbers with their inputs, as they are printed and written."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from annotator import __version__
from annotator.files import write_file
from annotator.runs.manifest import now
from validation import Averages, Estimate, Interval, RaterAgreement, Retest, SetAgreement

SCHEMA = "calibration/1"
CORPUS_ONLY = (
    "Corrected intervals are for these traces only, not for what would make more of them"
    " (--population corpus)."
)
THIN = 5  # labels of flagged traces below which a code's precision says little


@dataclass(frozen=True, slots=True)
class CodeRow:
    """One code. ``judged`` is the judge's share (None if it cannot find the code), ``corrected``
    the share corrected for its errors.

    ``flagged``: labelled traces that the judge gave the code; ``missed``: labelled traces that only
    the person gave it. ``mark``: ``ok``, ``thin`` (fewer than :data:`THIN` flagged labels),
    ``blind`` (none, and none that was missed), ``one-sided`` (the flagged traces or the others have
    no label at all: limits, and no number) or ``open`` (the judge finds but some of them and left
    traces undecided: neither share nor recall).
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


@dataclass(frozen=True, slots=True)
class Comparison:
    """How far two raters agree on ``n`` traces; ``what`` says who they are."""

    what: str
    n: int
    agreement: RaterAgreement
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Calibration:
    """One judge held against people's labels, for one rubric.

    ``warnings`` are about the labels and how they were drawn, ``cautions`` about the numbers that
    rest on them here.

    ``labels`` says where they come from: files, annotators, split, design, how many. ``joined``
    holds every labelled trace: id, the person's labels, the judge's, weight, cluster; from it each
    number can be computed again. ``between``: people with each other (the ceiling). ``judges``:
    this judge with other runs, its own or another judge's; ``reruns``: all runs of this judge.
    ``judged_codes``: those that the judge can find at all.
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
    labels: Mapping[str, Any]
    look: Mapping[str, Any] | None
    agreement: RaterAgreement
    sets: SetAgreement | None
    rows: tuple[CodeRow, ...]
    averages: Mapping[str, Averages]
    between: tuple[Comparison, ...]
    people_alpha: Estimate | None
    judges: tuple[Comparison, ...]
    reruns: Retest | None
    joined: tuple[Mapping[str, Any], ...]
    confidence: float
    seed: int
    population: Literal["process", "corpus"]
    cautions: tuple[str, ...]
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the calibration as JSON values."""
        return asdict(self)


def written(calibrations: Sequence[Calibration]) -> dict[str, Any]:
    """Return the content of ``calibration.json``."""
    return {
        "schema": SCHEMA,
        "tool": f"failure-annotator {__version__}",
        "made": now(),
        "calibrations": [one.as_dict() for one in calibrations],
    }


def write_calibrations(file: Path, value: Mapping[str, Any]) -> None:
    """Write ``calibration.json``. Raises :class:`AnnotatorError` if it cannot be written."""
    text = json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False)
    write_file(file, f"{text}\n")
