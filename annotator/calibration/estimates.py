"""Shares corrected for a judge's errors, from labelled traces and the judge's counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from annotator.calibration.model import THIN
from annotator.text import count
from validation import (
    Cell,
    Estimate,
    cell,
    clustered_share,
    flag_design_effect,
    lang_reiczigel,
    poststratify,
    ppi_mean,
    recall_estimate,
    rogan_gladen,
)
from validation.intervals import quantile

FEW_LABELS = 100
FEW_CLUSTERS = 20  # below which every interval is optimistic


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
    population: Literal["process", "corpus"] = "process",
) -> CodeEstimates:
    """Return the corrected share of a code, and the judge's precision and recall on it.

    The corrected share post-stratifies by the judge's own label (Tenenbein's double sampling,
    :func:`validation.poststratified`, which says what ``population`` is). It has no value where its
    interval is 0 to 1, or where the judge gave a label (or did not) to no labelled trace.
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
    corrected = poststratify(
        judged.total,
        judged.flagged,
        cells[0],
        cells[1],
        confidence=confidence,
        judge_design_effect=effect,
        df=df,
        population=population,
    )
    precision = _rate([code in row.human for row in flagged], flagged, rows, confidence)
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
    if corrected.inputs.get("note"):
        mark = "one-sided"
    return CodeEstimates(_known(corrected), precision, recall, len(flagged), missed, mark)


def screened(one: CodeEstimates) -> CodeEstimates:
    """Return what labels say of a code of which a judge finds some at most, where it left traces
    undecided: its precision alone. Those are not compared, and may hold most of what it missed.
    """
    reason = "the judge finds but some of them, and left traces undecided"
    return replace(
        one,
        corrected=replace(one.corrected, value=None, low=0.0, high=1.0, reason=reason),
        recall=replace(one.recall, value=None, low=0.0, high=1.0, reason=reason),
        mark="open",
    )


def _known(share: Estimate) -> Estimate:
    """Return a share without its value where a number would claim what the labels do not tell."""
    if note := share.inputs.get("note"):
        # The interval stands: it makes nothing of what is not known. A number would make half.
        return replace(share, value=None, reason=note)
    if share.value is not None and (share.low, share.high) == (0, 1):
        reason = share.reason or "the labels are of too few tasks: the interval is 0 to 100 %"
        return replace(share, value=None, reason=reason)
    return share


def cautions(rows: Sequence[Labelled], corrected: Mapping[str, Estimate]) -> list[str]:
    """Return what makes the estimates from these labels weak."""
    found = []
    if 0 < len(rows) < FEW_LABELS:
        found.append(
            f"{count(len(rows), 'label')}, fewer than {FEW_LABELS}: the shares of most codes are"
            " hardly known."
        )
    clusters = {row.cluster for row in rows} - {None}
    if 0 < len(clusters) < FEW_CLUSTERS:
        found.append(
            f"The labels come from {count(len(clusters), 'task')}, fewer than {FEW_CLUSTERS}: the"
            " intervals are optimistic."
        )
    if codes := [code for code, one in corrected.items() if one.inputs.get("note")]:
        found.append(
            "one-sided: no label among the traces that the judge gave the code, or none among the"
            f" others; only limits are known ({', '.join(codes)})."
        )
    return found + not_corrected(corrected)


def not_corrected(corrected: Mapping[str, Estimate]) -> list[str]:
    """Return which codes have no corrected share, a line for each reason; not the one-sided."""
    reasons: dict[str, list[str]] = {}
    for code, one in corrected.items():
        if one.value is None and not one.inputs.get("note"):
            reasons.setdefault(one.reason or "not known", []).append(code)
    every = len(corrected)
    return [
        f"Not corrected: {', '.join(some) if len(some) < every else 'every code'} ({why})."
        for why, some in reasons.items()
    ]


def by_error_rates(
    code: str, judged: Judged, rows: Sequence[Labelled], confidence: float = 0.95
) -> CodeEstimates:
    """Return a code's share corrected by the judge's error rates: Rogan and Gladen's estimate with
    the interval of Lang and Reiczigel.

    It holds for any traces on which the judge errs as often as on the labelled ones. Weights and
    clusters enter as effective counts, which the interval takes rounded, and clusters by Student's
    quantile.
    """
    flagged = [row for row in rows if code in row.judge]
    with_it = [row for row in rows if code in row.human]
    without = [row for row in rows if code not in row.human]
    precision, sensitivity, specificity = (
        _rate(values, some, rows, confidence)
        for values, some in (
            ([code in row.human for row in flagged], flagged),
            ([code in row.judge for row in with_it], with_it),
            ([code not in row.judge for row in without], without),
        )
    )
    k, n = judged.flagged, judged.total
    effect, fewer = 1.0, 1.0
    if judged.clusters and n:
        effect = max(1.0, flag_design_effect(*judged.clusters))
    groups = [len({row.cluster for row in rows} - {None})]
    groups += [len(judged.clusters[1])] if judged.clusters else []
    if groups[0]:
        df = min(groups) - 1
        if not df:
            gone = lang_reiczigel(0, 0, 0, 0, 0, 0, confidence)
            gone = replace(gone, reason="all traces are of one task: how tasks differ is not known")
            return CodeEstimates(gone, precision, sensitivity, len(flagged), 0, "blind")
        fewer = (quantile(confidence) / quantile(confidence, df)) ** 2
    (tp, positive), (tn, negative) = (_whole(rate, fewer) for rate in (sensitivity, specificity))
    size = round(n / effect * fewer)
    flags = round(size * k / n) if n else 0
    corrected = lang_reiczigel(flags, size, tp, positive, tn, negative, confidence)
    if n and sensitivity.value is not None and specificity.value is not None:
        corrected = _around(corrected, rogan_gladen(k, n, sensitivity.value, specificity.value))
    missed = sum(code not in row.judge for row in with_it)
    return CodeEstimates(
        corrected, precision, sensitivity, len(flagged), missed, mark_of(len(flagged), missed)
    )


def _rate(
    values: Sequence[bool], some: Sequence[Labelled], rows: Sequence[Labelled], confidence: float
) -> Estimate:
    clustered = any(row.cluster is not None for row in rows)
    return clustered_share(
        values,
        [row.cluster for row in some] if clustered else None,
        [row.weight for row in some] if _weighted(rows) else None,
        confidence,
        least_design_effect=1.0,
    )


def _whole(rate: Estimate, fewer: float) -> tuple[int, int]:
    """Return a rate as counts: exact ones, or effective ones, rounded."""
    n = round((rate.inputs.get("n_effective") or 0) * fewer)
    return round((rate.value or 0.0) * n), n


def _around(interval: Estimate, point: Estimate) -> Estimate:
    """Return an interval by rounded counts with the estimate by the exact rates inside it."""
    low, value, high = interval.low, point.value, interval.high
    if interval.value is None or low is None or value is None or high is None:
        return interval
    inputs = {**interval.inputs, "exact": dict(point.inputs)}
    return replace(interval, value=value, low=min(low, value), high=max(high, value), inputs=inputs)


def by_predictions(
    code: str, judged: Judged, rows: Sequence[Labelled], confidence: float = 0.95
) -> Estimate | None:
    """Return a code's share by PPI++, None where the labels are no uniform sample."""
    if _weighted(rows):
        return None
    flags = [code in row.judge for row in rows]
    rest = judged.total - len(rows)
    flagged = judged.flagged - sum(flags)
    unlabelled = [1.0] * flagged + [0.0] * (rest - flagged)
    return ppi_mean(
        [float(code in row.human) for row in rows],
        [float(flag) for flag in flags],
        unlabelled,
        confidence=confidence,
    )


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
