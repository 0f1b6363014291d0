"""Shares corrected for a judge's errors, from labelled traces and the judge's counts."""

from collections.abc import Sequence
from dataclasses import dataclass

from annotator.calibration.model import THIN
from validation import (
    Cell,
    Estimate,
    cell,
    clustered_share,
    flag_design_effect,
    poststratified,
    recall_estimate,
)


@dataclass(frozen=True, slots=True)
class Labelled:
    """One labelled trace: the labels of a person and of the judge that are counted, the number of
    traces it stands for, and its cluster (None: no trace tells its own).
    """

    trace_id: str
    human: frozenset[str]
    judge: frozenset[str]
    weight: float = 1.0
    cluster: str | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """How many of all traces a judge gave a code, and of each cluster, if clusters are known."""

    total: int
    flagged: int
    clusters: tuple[Sequence[int], Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class CodeEstimates:
    """What labels say of one code. ``flagged``, ``missed``, ``mark``: as in CodeRow."""

    corrected: Estimate
    precision: Estimate
    recall: Estimate
    flagged: int
    missed: int
    mark: str


def estimate_code(
    code: str,
    judged: Judged,
    rows: Sequence[Labelled],
    confidence: float = 0.95,
    seed: int = 0,
) -> CodeEstimates:
    """Return the corrected share of a code, and the judge's precision and recall on it.

    The corrected share post-stratifies by the judge's own label (Tenenbein's double sampling,
    :func:`validation.poststratified`).
    """
    clusters = {row.cluster for row in rows}
    known = bool(clusters - {None})
    flagged = [row for row in rows if code in row.judge]
    others = [row for row in rows if code not in row.judge]
    cells = [_cell(code, some, known) for some in (flagged, others)]
    effect = 1.0
    if judged.clusters and known and judged.total:
        effect = max(1.0, flag_design_effect(*judged.clusters))
    df = len(clusters) - 1 if known else None
    corrected = poststratified(
        judged.total,
        judged.flagged,
        cells[0],
        cells[1],
        confidence=confidence,
        judge_design_effect=effect,
        df=df,
    )
    precision = clustered_share(
        [code in row.human for row in flagged],
        [row.cluster for row in flagged] if known else None,
        [row.weight for row in flagged] if _weighted(rows) else None,
        confidence,
        least_design_effect=1.0,
    )
    recall = recall_estimate(
        judged.total,
        judged.flagged,
        cells[0],
        cells[1],
        confidence=confidence,
        judge_design_effect=effect,
        df=df,
        seed=seed,
    )
    missed = sum(code in row.human for row in others)
    mark = mark_of(len(flagged), missed)
    return CodeEstimates(corrected, precision, recall, len(flagged), missed, mark)


def mark_of(flagged: int, missed: int) -> str:
    """Return how far the labels bear on a code; see CodeRow."""
    return "ok" if flagged >= THIN else "thin" if flagged or missed else "blind"


def _cell(code: str, rows: Sequence[Labelled], clustered: bool) -> Cell:
    return cell(
        [code in row.human for row in rows],
        [row.weight for row in rows] if _weighted(rows) else None,
        [row.cluster for row in rows] if clustered else None,
    )


def _weighted(rows: Sequence[Labelled]) -> bool:
    return len({row.weight for row in rows}) > 1
