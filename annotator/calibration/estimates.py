"""Estimate shares of codes and error rates of a judge, from labels and the judge's counts."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Literal

from annotator.base.text import Note, format_count, list_first
from annotator.calibration.judged_sample import JudgedSample
from annotator.calibration.model import OPEN, THIN, LabelledTrace
from annotator.traces.clusters import ClusterCounts
from validation import (
    LEAST_CLUSTERS,
    Cell,
    Estimate,
    Influences,
    compute_influences,
    compute_sample_size,
    estimate_clustered_share,
    estimate_lang_reiczigel,
    estimate_ppi_mean,
    estimate_recall,
    estimate_rogan_gladen,
    estimate_share_of_totals,
    make_cell,
    poststratify,
)
from validation.agreement import LEAST_POSITIVES
from validation.intervals import compute_widening

TaskInfluences = tuple[Sequence[str], Influences]

FEW_LABELS = 100
FEW_CLUSTERS = 20  # with fewer, every interval is too narrow
SEEN_IN = 5  # tasks; a code found in fewer has too narrow an interval
# Up to so many traces (a number, a share) in cells without labels, half of them count as positive;
# with more there are only limits.
FEW_UNLABELLED, MOST_UNLABELLED = 3, 0.05
_WIDTH = 0.1  # half width of an interval, for advice on the number of labels


@dataclass(frozen=True, slots=True)
class Judged:
    """The judge's counts for one code: ``total`` decided traces, ``flagged`` ones of them.

    ``clusters`` has the counts by cluster, None if no trace names one. ``open``: the numbers of
    undecided and failed traces by answer (:data:`OPEN`), each only if some of them have labels.
    """

    total: int
    flagged: int
    clusters: ClusterCounts | None = None
    open: Mapping[str, int] = field(default_factory=dict)


def count_open(statuses: Mapping[str, int], traces: Sequence[LabelledTrace]) -> dict[str, int]:
    """Return the numbers of undecided and of failed traces, if any of them has a label."""
    labelled = {trace.counted.judge[0] for trace in traces if not trace.decided}
    return {answer: statuses[status] for status, answer in OPEN.items() if answer in labelled}


def count_judged(code: str, sample: JudgedSample, traces: Sequence[LabelledTrace]) -> Judged:
    """Return the judge's counts for a code; for ``traces``, see :func:`count_open`."""
    clusters = sample.clusters if sample.clusters.named else None
    opened = count_open(sample.statuses, traces)
    return Judged(sample.total, sample.with_code[code], clusters, opened)


def is_withheld(code: str, sample: JudgedSample, open: Collection[str]) -> bool:
    """Return True if a code has no share.

    The judge cannot rule it out and left traces undecided, and no undecided trace has a label.
    """
    undecided = sample.statuses["undecided"] and OPEN["undecided"] not in open
    return bool(undecided) and code in sample.rubric.screened


@dataclass(frozen=True, slots=True)
class CodeEstimates:
    """The estimates for one code. ``flagged``, ``missed``, ``mark``: as in CodeRow."""

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
    over_tasks: TaskInfluences | None = None,
) -> Estimate:
    """Return the corrected share of a code; see :func:`estimate_code`."""
    over_tasks = over_tasks or find_influences(code, judged, traces)
    if population == "corpus":  # all tasks of the corpus are here: they add no variance
        judged, over_tasks = replace(judged, clusters=None), None
    flagged, unflagged, others = _count_cells(code, judged, traces)
    share = poststratify(
        judged.total,
        judged.flagged,
        flagged,
        unflagged,
        others=others,
        confidence=confidence,
        cluster_variance=over_tasks[1].variance if over_tasks else 0.0,
        df=_count_degrees_of_freedom(judged, traces),
        population=population,
    )
    return withhold_guess(share)


def _count_cells(
    code: str, judged: Judged, traces: Sequence[LabelledTrace]
) -> tuple[Cell, Cell, list[tuple[int, Cell]]]:
    """Return the cells of flagged and of other decided traces, and of each open answer with its
    size.
    """
    weighted = _has_weights(traces)

    def count_labels(side: Sequence[LabelledTrace]) -> Cell:
        weights = [trace.weight for trace in side] if weighted else None
        return make_cell([code in trace.counted.human for trace in side], weights)

    flagged = [t for t in traces if t.decided and code in t.counted.judge]
    others = [t for t in traces if t.decided and code not in t.counted.judge]
    opened = [
        (size, count_labels([t for t in traces if answer in t.counted.judge]))
        for answer, size in judged.open.items()
    ]
    return count_labels(flagged), count_labels(others), opened


def _count_degrees_of_freedom(judged: Judged, traces: Sequence[LabelledTrace]) -> int | None:
    """Return the number of tasks with labels minus 1, None for independent traces."""
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
    """Return the corrected share of a code, and the judge's precision and recall.

    The share is post-stratified by the judge's answer: the code, not the code, or undecided
    (Tenenbein's double sampling; see :func:`validation.poststratify`, also for ``population``).
    Undecided traces count as not found in recall.
    """
    flagged = [trace for trace in traces if code in trace.counted.judge]
    over_tasks = find_influences(code, judged, traces)
    corrected = correct_share(code, judged, traces, confidence, population, over_tasks)
    right = [code in trace.counted.human for trace in flagged]
    of_flagged, of_others, opened = _count_cells(code, judged, traces)
    recall = estimate_recall(
        judged.total,
        judged.flagged,
        of_flagged,
        of_others,
        others=opened,
        confidence=confidence,
        design_effect=over_tasks[1].recall_design_effect if over_tasks else 1.0,
        df=_count_degrees_of_freedom(judged, traces),
        seed=seed,
    )
    missed = sum(code in trace.counted.human for trace in traces) - sum(right)
    mark = mark_share(code, judged, traces, corrected)
    precision = _estimate_rate(right, flagged, traces, confidence)
    return CodeEstimates(corrected, precision, recall, len(flagged), missed, mark)


def mark_share(
    code: str, judged: Judged, traces: Sequence[LabelledTrace], corrected: Estimate
) -> str:
    """Return the mark of a corrected share; see CodeRow."""
    flags = [code in trace.counted.judge for trace in traces]
    has_code = [code in trace.counted.human for trace in traces]
    flagged = sum(flags)
    missed = sum(people and not judge for people, judge in zip(has_code, flags, strict=True))
    if corrected.value is None and corrected.inputs.get("note"):
        return "one-sided"
    # If the judge never gives the code, only labels with the code are evidence.
    mark = mark_code(flagged if judged.flagged else missed, missed)
    return "few-tasks" if mark == "ok" and _count_tasks(code, traces) < SEEN_IN else mark


def find_influences(
    code: str, judged: Judged, traces: Sequence[LabelledTrace]
) -> TaskInfluences | None:
    """Return the names of tasks, and each task's influence on a code's corrected share.

    Influences of traces without a task follow those of the named tasks. None without tasks.
    """
    if not judged.clusters or not judged.total + sum(judged.open.values()):
        return None
    names, counts, rows, answers = _place_answers(code, judged, traces)
    influences = compute_influences(
        counts,
        rows,
        answers,
        [code in trace.counted.human for trace in traces],
        [trace.weight for trace in traces],
    )
    return names, influences


def _place_answers(
    code: str, judged: Judged, traces: Sequence[LabelledTrace]
) -> tuple[list[str], list[list[int]], list[int], list[int]]:
    """Return the counts of each cluster by the judge's answer, and the labelled traces' cells.

    Returns:
        Names of the clusters (G,), counts (G, answers) of the code, not the code and
        ``judged.open``, and the row and the column of each labelled trace.
    """
    columns: list[Callable[[Counter[Hashable]], int]] = [
        lambda counts: counts[code],
        lambda counts: counts[None] - counts[code],
        *(itemgetter(answer) for answer in judged.open),
    ]
    numbers = {answer: number for number, answer in enumerate(judged.open, 2)}
    answers = [
        (0 if code in trace.counted.judge else 1)
        if trace.decided
        else numbers[trace.counted.judge[0]]
        for trace in traces
    ]
    clusters = judged.clusters or ClusterCounts()
    placed = zip((trace.cluster for trace in traces), answers, strict=True)
    return *clusters.answer_totals(columns, placed), answers


def _count_tasks(code: str, traces: Sequence[LabelledTrace]) -> float:
    """Return in how many tasks people found a code, infinity without tasks or labels of it."""
    tasks = {trace.cluster for trace in traces if code in trace.counted.human}
    return math.inf if None in tasks or not tasks else len(tasks)


def withhold_share(estimates: CodeEstimates) -> CodeEstimates:
    """Return the estimates of a withheld code (:func:`is_withheld`): precision alone."""
    reason = "the judge left traces undecided, and none of them has a label"
    return replace(
        estimates,
        corrected=clear_share(estimates.corrected, reason),
        recall=clear_share(estimates.recall, reason),
        mark="open",
    )


def clear_share(share: Estimate, reason: str) -> Estimate:
    """Return a share without a value, with the limits 0 and 1 and a reason."""
    return replace(share, value=None, low=0.0, high=1.0, reason=reason)


def explain_few_labels(
    traces: Sequence[LabelledTrace], population: Literal["process", "corpus"]
) -> str | None:
    """Return why the labels of a condition are too few for its corrected shares, None if they
    are enough. No labels at all have a reason of their own.
    """
    tasks = {trace.cluster or trace.trace_id for trace in traces}
    if population == "corpus" or not 0 < len(tasks) < LEAST_CLUSTERS:
        return None
    units = "tasks" if any(trace.cluster for trace in traces) else "traces"
    return f"labels of fewer than {LEAST_CLUSTERS} {units}"


def withhold_guess(share: Estimate) -> Estimate:
    """Return a share without its value if many traces are in cells without labels.

    The value would count half of these traces. The limits hold.
    """
    inputs = share.inputs
    unlabelled = inputs["unlabelled"]
    if unlabelled <= MOST_UNLABELLED or unlabelled * share.n < FEW_UNLABELLED + 0.5:
        return share
    return replace(share, value=None, reason=inputs.get("note") or share.reason)


def describe_open(statuses: Mapping[str, int], total: int, open: Mapping[str, int]) -> list[str]:
    """Return notes on the undecided and failed traces in shares, or left out of them.

    Args:
        statuses: numbers of traces by status.
        total: the number of decided traces.
        open: see :func:`count_open`.
    """
    lines = []
    if open:
        open_counts = " and ".join(
            f"{statuses[s]} {s}" for s, answer in OPEN.items() if answer in open
        )
        lines.append(
            f"Corrected shares and recall are of {total + sum(open.values())} traces: the judge"
            f" left {open_counts}, and labels tell what people find in them."
        )
    for status, answer in OPEN.items():
        size = statuses[status]
        if not size or answer in open:
            continue
        line = (
            f"Corrected shares and recall leave out"
            f" {format_count(size, f'{status} trace')}: none has a label."
        )
        if status == "undecided":
            # This half width of their share is _WIDTH of all traces.
            half = min(0.99, _WIDTH * (total + size) / size)
            needed = min(size, max(THIN, compute_sample_size(0.5, half)))
            line += (
                f" About {needed} labels of undecided traces (annotate sample draws them) would"
                f" bring them in, and widen an interval by {100 * _WIDTH:g} points a side at most."
            )
        lines.append(line)
    return lines


def describe_model_labels(annotators: Sequence[str], judge: str) -> list[str]:
    """Return a caution if labels are a language model's: by an annotator named ``model:NAME``."""
    models = [name.removeprefix("model:") for name in annotators if name.startswith("model:")]
    if not models:
        return []
    text = f"The labels by {list_first(models, 3)} are a language model's, not a person's"
    if judge.removeprefix("llm:") in models:
        text += ", and the judge is the same model: it agrees with itself, and nothing is corrected"
    return [Note(f"{text}.", "model-labels")]


def list_cautions(traces: Sequence[LabelledTrace], corrected: Mapping[str, Estimate]) -> list[str]:
    """Return cautions about estimates that rest on few labels or few tasks."""
    lines: list[str] = []
    if 0 < len(traces) < FEW_LABELS:
        lines.append(
            Note(
                f"{format_count(len(traces), 'label')}, fewer than {FEW_LABELS}: the shares of most"
                " codes are hardly known.",
                "few-labels",
            )
        )
    clusters = {trace.cluster for trace in traces} - {None}
    if len(clusters) == 1:
        lines.append(
            Note(
                "All labels come from one task, so there are no intervals. --cluster none treats"
                " traces as independent.",
                "one-task",
            )
        )
    elif 0 < len(clusters) < FEW_CLUSTERS:
        lines.append(
            Note(
                f"The labels come from {format_count(len(clusters), 'task')}, fewer than"
                f" {FEW_CLUSTERS}: the intervals are optimistic.",
                "few-label-tasks",
            )
        )
    if few := [
        f"{code} ({number})"
        for code in corrected
        if (number := _count_tasks(code, traces)) < SEEN_IN
    ]:
        lines.append(
            Note(
                f"Interval too narrow (people found the code in fewer than {SEEN_IN} tasks):"
                f" {', '.join(few)}.",
                "few-found",
            )
        )
    empty = {code: share for code, share in corrected.items() if share.inputs.get("note")}
    if codes := [code for code, share in empty.items() if share.value is None]:
        lines.append(
            "one-sided: no label among the traces that the judge gave the code, or none among the"
            f" others; only limits are known ({', '.join(codes)})."
        )
    if codes := [code for code, share in empty.items() if share.value is not None]:
        lines.append(
            "No label among the few traces that the judge gave the code. The share counts half of"
            f" them, and the interval reaches from none to all: {', '.join(codes)}."
        )
    return lines + list_uncorrected(corrected)


def list_uncorrected(corrected: Mapping[str, Estimate]) -> list[str]:
    """Return the codes without a corrected share, one line a reason; not the one-sided ones."""
    reasons: dict[str, list[str]] = {}
    for code, share in corrected.items():
        if share.value is None and share.reason != share.inputs.get("note"):
            reasons.setdefault(share.reason or "not known", []).append(code)
    names = {why: ", ".join(codes) for why, codes in reasons.items()}
    names |= {why: "every code" for why, codes in reasons.items() if len(codes) == len(corrected)}
    return [
        Note(
            f"Not corrected: {name} ({why}).",
            "uncorrected-all" if name == "every code" else "uncorrected",
        )
        for why, name in names.items()
    ]


def correct_by_error_rates(
    code: str, judged: Judged, traces: Sequence[LabelledTrace], confidence: float = 0.95
) -> CodeEstimates:
    """Return a code's share, corrected by the judge's error rates (Rogan-Gladen).

    It holds for traces on which the judge errs as often as on the labelled ones. The interval is
    Lang and Reiczigel's for effective counts, rounded; clusters widen it by Student's quantile.
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
        effect = estimate_share_of_totals(*judged.clusters.totals(code)).design_effect or 1.0
    groups = [len({trace.cluster for trace in traces} - {None})]
    groups += [len(judged.clusters)] if judged.clusters else []
    if groups[0]:
        df = min(groups) - 1
        if not df:
            nothing = estimate_lang_reiczigel(0, 0, 0, 0, 0, 0, confidence)
            reason = "all traces are of one task: how tasks differ is not known"
            unknown = replace(nothing, reason=reason)
            return CodeEstimates(unknown, precision, sensitivity, *labels)
        fewer = compute_widening(confidence, df) ** -2
    (tp, positive), (tn, negative) = (
        _round_counts(rate, fewer) for rate in (sensitivity, specificity)
    )
    size = round(n / effect * fewer)
    flags = round(size * k / n) if n else 0
    corrected = estimate_lang_reiczigel(flags, size, tp, positive, tn, negative, confidence)
    if n and sensitivity.value is not None and specificity.value is not None:
        corrected = _recenter(
            corrected, estimate_rogan_gladen(k, n, sensitivity.value, specificity.value)
        )
    return CodeEstimates(corrected, precision, sensitivity, *labels)


def _estimate_rate(
    right: Sequence[bool],
    side: Sequence[LabelledTrace],
    traces: Sequence[LabelledTrace],
    confidence: float,
) -> Estimate:
    clustered = any(trace.cluster is not None for trace in traces)
    return estimate_clustered_share(
        right,
        [trace.cluster for trace in side] if clustered else None,
        [trace.weight for trace in side] if _has_weights(traces) else None,
        confidence,
        least_design_effect=1.0,
    )


def _round_counts(rate: Estimate, fewer: float) -> tuple[int, int]:
    """Return the effective counts of a rate, rounded: positives and total."""
    n = round((rate.inputs.get("n_effective") or 0) * fewer)
    return round((rate.value or 0.0) * n), n


def _recenter(interval: Estimate, point: Estimate) -> Estimate:
    """Return the interval with the value of exact rates, stretched to contain it."""
    low, value, high = interval.low, point.value, interval.high
    if interval.value is None or low is None or value is None or high is None:
        return interval
    inputs = {**interval.inputs, "exact": dict(point.inputs)}
    return replace(interval, value=value, low=min(low, value), high=max(high, value), inputs=inputs)


def correct_by_predictions(
    code: str, judged: Judged, traces: Sequence[LabelledTrace], confidence: float = 0.95
) -> Estimate | None:
    """Return a code's share by PPI++.

    None for weighted labels, and for fewer than 10 labels with or without the code: the limits
    would cover .43 to .69.
    """
    positive = sum(code in trace.counted.human for trace in traces)
    if _has_weights(traces) or min(positive, len(traces) - positive) < LEAST_POSITIVES:
        return None
    flags = [code in trace.counted.judge for trace in traces]
    unlabelled = judged.total - len(traces)
    flagged = judged.flagged - sum(flags)
    return estimate_ppi_mean(
        [float(code in trace.counted.human) for trace in traces],
        [float(flag) for flag in flags],
        [1.0] * flagged + [0.0] * (unlabelled - flagged),
        confidence=confidence,
    )


def mark_code(flagged: int, missed: int) -> str:
    """Return ``ok``, ``thin`` or ``blind``; see CodeRow."""
    return "ok" if flagged >= THIN else "thin" if flagged or missed else "blind"


def _has_weights(traces: Sequence[LabelledTrace]) -> bool:
    return len({trace.weight for trace in traces}) > 1
