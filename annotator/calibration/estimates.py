"""Shares corrected for a judge's errors, from labelled traces and the judge's counts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from annotator.calibration.model import THIN, LabelledTrace
from annotator.clusters import ClusterCounts
from annotator.text import count
from validation import (
    Cell,
    Estimate,
    Influences,
    cell,
    clustered_share,
    lang_reiczigel,
    poststratified_influences,
    poststratify,
    ppi_mean,
    recall_estimate,
    rogan_gladen,
    share_of_totals,
)
from validation.agreement import LEAST_POSITIVES
from validation.intervals import quantile

FEW_LABELS = 100
FEW_CLUSTERS = 20  # below which every interval is optimistic
SEEN_IN = 5  # tasks; the interval of a code that is seen in fewer is optimistic


@dataclass(frozen=True, slots=True)
class Judged:
    """How many of all traces a judge gave a code, and of each cluster, if clusters are known."""

    total: int
    flagged: int
    clusters: ClusterCounts | None = None


@dataclass(frozen=True, slots=True)
class CodeEstimates:
    """What labels say of one code. ``flagged``, ``missed``, ``mark``: as in CodeRow."""

    corrected: Estimate
    precision: Estimate
    recall: Estimate
    flagged: int
    missed: int
    mark: str


def correct_share(
    code: str,
    judged: Judged,
    traces: Sequence[LabelledTrace],
    confidence: float = 0.95,
    population: Literal["process", "corpus"] = "process",
) -> Estimate:
    """Return the corrected share of a code; see :func:`estimate_code`.

    Of these traces only (``corpus``) the labels are a random part, drawn trace by trace: their
    tasks are all there, and add nothing.
    """
    if population == "corpus":
        judged = replace(judged, clusters=None)
    over_tasks = find_influences(code, judged, traces)
    share = poststratify(
        judged.total,
        judged.flagged,
        *(count_cell(code, flagged, traces) for flagged in (True, False)),
        confidence=confidence,
        cluster_variance=over_tasks.variance if over_tasks else 0.0,
        df=_degrees_of_freedom(judged, traces),
        population=population,
    )
    return _withhold(share)


def _degrees_of_freedom(judged: Judged, traces: Sequence[LabelledTrace]) -> int | None:
    """Return the tasks with labels less one, None where traces are independent."""
    if not judged.clusters:
        return None
    return len({trace.cluster or trace.trace_id for trace in traces}) - 1


def estimate_code(
    code: str,
    judged: Judged,
    traces: Sequence[LabelledTrace],
    confidence: float = 0.95,
    seed: int = 0,
    population: Literal["process", "corpus"] = "process",
) -> CodeEstimates:
    """Return the corrected share of a code, and the judge's precision and recall on it.

    The corrected share post-stratifies by the judge's own label (Tenenbein's double sampling,
    :func:`validation.poststratify`, which says what ``population`` is). It has no value where its
    interval is 0 to 1, or where the judge gave a label (or did not) to no labelled trace.
    """
    flagged = [trace for trace in traces if code in trace.counted.judge]
    over_tasks = find_influences(code, judged, traces)
    corrected = correct_share(code, judged, traces, confidence, population)
    right = [code in trace.counted.human for trace in flagged]
    recall = recall_estimate(
        judged.total,
        judged.flagged,
        *(count_cell(code, side, traces) for side in (True, False)),
        confidence=confidence,
        design_effect=over_tasks.recall_design_effect if over_tasks else 1.0,
        df=_degrees_of_freedom(judged, traces),
        seed=seed,
    )
    missed = sum(code in trace.counted.human for trace in traces) - sum(right)
    mark = mark_code(len(flagged), missed)
    if mark == "ok" and _count_tasks(code, traces) < SEEN_IN:
        mark = "few-tasks"
    if corrected.inputs.get("note"):
        mark = "one-sided"
    precision = _estimate_rate(right, flagged, traces, confidence)
    return CodeEstimates(corrected, precision, recall, len(flagged), missed, mark)


def find_influences(
    code: str, judged: Judged, traces: Sequence[LabelledTrace]
) -> Influences | None:
    """Return what each cluster adds to the corrected share of a code, None without clusters."""
    if not judged.clusters or not judged.total:
        return None
    flags = [code in trace.counted.judge for trace in traces]
    names = (trace.cluster for trace in traces)
    return poststratified_influences(
        *judged.clusters.totals(code),
        list(judged.clusters.places(code, zip(names, flags, strict=True))),
        flags,
        [code in trace.counted.human for trace in traces],
        [trace.weight for trace in traces],
    )


def _count_tasks(code: str, traces: Sequence[LabelledTrace]) -> float:
    """Return in how many tasks a person found a code; no number is too small without tasks."""
    tasks = {trace.cluster for trace in traces if code in trace.counted.human}
    return math.inf if None in tasks or not tasks else len(tasks)


def withhold_share(estimates: CodeEstimates) -> CodeEstimates:
    """Return what labels say of a code of which a judge finds some at most, where it left traces
    undecided: its precision alone. Those are not compared, and may hold most of what it missed.
    """
    reason = "the judge finds but some of them, and left traces undecided"
    return replace(
        estimates,
        corrected=empty_share(estimates.corrected, reason),
        recall=empty_share(estimates.recall, reason),
        mark="open",
    )


def empty_share(share: Estimate, reason: str) -> Estimate:
    """Return a share of which nothing is known, for a reason."""
    return replace(share, value=None, low=0.0, high=1.0, reason=reason)


def _withhold(share: Estimate) -> Estimate:
    """Return a share without its value where a number would claim what the labels do not tell."""
    if note := share.inputs.get("note"):
        # The interval stands: it makes nothing of what is not known. A number would make half.
        return replace(share, value=None, reason=note)
    if share.value is not None and (share.low, share.high) == (0, 1):
        reason = share.reason or "the labels are of too few tasks: the interval is 0 to 100 %"
        return replace(share, value=None, reason=reason)
    return share


def list_cautions(traces: Sequence[LabelledTrace], corrected: Mapping[str, Estimate]) -> list[str]:
    """Return what makes the estimates from these labels weak."""
    lines = []
    if 0 < len(traces) < FEW_LABELS:
        lines.append(
            f"{count(len(traces), 'label')}, fewer than {FEW_LABELS}: the shares of most codes are"
            " hardly known."
        )
    clusters = {trace.cluster for trace in traces} - {None}
    if 0 < len(clusters) < FEW_CLUSTERS:
        lines.append(
            f"The labels come from {count(len(clusters), 'task')}, fewer than {FEW_CLUSTERS}: the"
            " intervals are optimistic."
        )
    if few := [
        f"{code} ({number})"
        for code in corrected
        if (number := _count_tasks(code, traces)) < SEEN_IN
    ]:
        lines.append(
            f"Seen by people in fewer than {SEEN_IN} tasks, so that the interval is optimistic:"
            f" {', '.join(few)}."
        )
    if codes := [code for code, share in corrected.items() if share.inputs.get("note")]:
        lines.append(
            "one-sided: no label among the traces that the judge gave the code, or none among the"
            f" others; only limits are known ({', '.join(codes)})."
        )
    return lines + list_uncorrected(corrected)


def list_uncorrected(corrected: Mapping[str, Estimate]) -> list[str]:
    """Return which codes have no corrected share, a line for each reason; not the one-sided."""
    reasons: dict[str, list[str]] = {}
    for code, share in corrected.items():
        if share.value is None and not share.inputs.get("note"):
            reasons.setdefault(share.reason or "not known", []).append(code)
    every = len(corrected)
    return [
        f"Not corrected: {', '.join(codes) if len(codes) < every else 'every code'} ({reason})."
        for reason, codes in reasons.items()
    ]


def correct_by_error_rates(
    code: str, judged: Judged, traces: Sequence[LabelledTrace], confidence: float = 0.95
) -> CodeEstimates:
    """Return a code's share corrected by the judge's error rates: Rogan and Gladen's estimate with
    the interval of Lang and Reiczigel.

    It holds for any traces on which the judge errs as often as on the labelled ones. Weights and
    clusters enter as effective counts, which the interval takes rounded, and clusters by Student's
    quantile.
    """
    flagged = [trace for trace in traces if code in trace.counted.judge]
    with_code = [trace for trace in traces if code in trace.counted.human]
    without = [trace for trace in traces if code not in trace.counted.human]
    precision, sensitivity, specificity = (
        _estimate_rate(right, side, traces, confidence)
        for right, side in (
            ([code in trace.counted.human for trace in flagged], flagged),
            ([code in trace.counted.judge for trace in with_code], with_code),
            ([code not in trace.counted.judge for trace in without], without),
        )
    )
    missed = sum(code not in trace.counted.judge for trace in with_code)
    labels = len(flagged), missed, mark_code(len(flagged), missed)
    k, n = judged.flagged, judged.total
    effect, fewer = 1.0, 1.0
    if judged.clusters and n:
        effect = share_of_totals(*judged.clusters.totals(code)).design_effect or 1.0
    groups = [len({trace.cluster for trace in traces} - {None})]
    groups += [len(judged.clusters)] if judged.clusters else []
    if groups[0]:
        df = min(groups) - 1
        if not df:
            nothing = lang_reiczigel(0, 0, 0, 0, 0, 0, confidence)
            reason = "all traces are of one task: how tasks differ is not known"
            unknown = replace(nothing, reason=reason)
            return CodeEstimates(unknown, precision, sensitivity, *labels)
        fewer = (quantile(confidence) / quantile(confidence, df)) ** 2
    (tp, positive), (tn, negative) = (
        _round_counts(rate, fewer) for rate in (sensitivity, specificity)
    )
    size = round(n / effect * fewer)
    flags = round(size * k / n) if n else 0
    corrected = lang_reiczigel(flags, size, tp, positive, tn, negative, confidence)
    if n and sensitivity.value is not None and specificity.value is not None:
        corrected = _around(corrected, rogan_gladen(k, n, sensitivity.value, specificity.value))
    return CodeEstimates(corrected, precision, sensitivity, *labels)


def _estimate_rate(
    right: Sequence[bool],
    side: Sequence[LabelledTrace],
    traces: Sequence[LabelledTrace],
    confidence: float,
) -> Estimate:
    clustered = any(trace.cluster is not None for trace in traces)
    return clustered_share(
        right,
        [trace.cluster for trace in side] if clustered else None,
        [trace.weight for trace in side] if _have_weights(traces) else None,
        confidence,
        least_design_effect=1.0,
    )


def _round_counts(rate: Estimate, fewer: float) -> tuple[int, int]:
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


def correct_by_predictions(
    code: str, judged: Judged, traces: Sequence[LabelledTrace], confidence: float = 0.95
) -> Estimate | None:
    """Return a code's share by PPI++, None where the labels are no uniform sample, and where fewer
    than 10 have the code, or have it not: its limits cover .43 to .69 there.
    """
    positive = sum(code in trace.counted.human for trace in traces)
    if _have_weights(traces) or min(positive, len(traces) - positive) < LEAST_POSITIVES:
        return None
    flags = [code in trace.counted.judge for trace in traces]
    unlabelled = judged.total - len(traces)
    flagged = judged.flagged - sum(flags)
    return ppi_mean(
        [float(code in trace.counted.human) for trace in traces],
        [float(flag) for flag in flags],
        [1.0] * flagged + [0.0] * (unlabelled - flagged),
        confidence=confidence,
    )


def mark_code(flagged: int, missed: int) -> str:
    """Return how far the labels bear on a code; see CodeRow."""
    return "ok" if flagged >= THIN else "thin" if flagged or missed else "blind"


def count_cell(code: str, flagged: bool, traces: Sequence[LabelledTrace]) -> Cell:
    """Return what the labels say of the traces that the judge gave a code, or of the others."""
    side = [trace for trace in traces if (code in trace.counted.judge) is flagged]
    return cell(
        [code in trace.counted.human for trace in side],
        [trace.weight for trace in side] if _have_weights(traces) else None,
    )


def _have_weights(traces: Sequence[LabelledTrace]) -> bool:
    return len({trace.weight for trace in traces}) > 1
