"""How common something is, from a judge's flags and its error rates.

Both error rates must hold for the traces in question. Where some of these have human labels,
``validation.prevalence.poststratified`` needs no such assumption and is the estimate to use.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from validation.checks import check_count, whole
from validation.estimate import Estimate
from validation.intervals import check_confidence, check_share, quantile


def rogan_gladen(judge_positive: int, n: int, sensitivity: float, specificity: float) -> Estimate:
    """Return the share that a judge's flags imply, given its sensitivity and specificity.

    (apparent + specificity - 1) / (sensitivity + specificity - 1), cut at 0 and 1. Both rates must
    hold for these traces; ``poststratified`` needs no such assumption where some are labelled.

    Args:
        judge_positive: flagged traces, 0 to n.
        n: judged traces.
        sensitivity: share of the traces with the code that the judge flags, 0 to 1.
        specificity: share of the traces without it that the judge leaves alone, 0 to 1.

    Returns:
        Method "none": no interval (``lang_reiczigel`` has one). ``inputs``: ``apparent`` and
        ``clipped`` (was the value cut) beside the arguments. The value is None without traces, and
        where sensitivity + specificity <= 1: the judge's flag then says nothing of the code.

    Raises:
        ValueError: an argument is not in its range.

    Source: W. J. Rogan and B. Gladen, Am. J. Epidemiol. 107 (1978) 71-76. Own code: one line.
    """
    k, n = _of("judge_positive", judge_positive, n)
    check_share("sensitivity", sensitivity)
    check_share("specificity", specificity)
    apparent = k / n if n else None
    value, clipped, reason = None, False, None
    if apparent is None:
        reason = "no judged traces"
    elif _useless(sensitivity, specificity):
        reason = "sensitivity + specificity <= 1: the judge carries no information on this code"
    else:
        plain = (apparent + specificity - 1) / (sensitivity + specificity - 1)
        value = min(1.0, max(0.0, plain))
        clipped = value != plain
    inputs = {
        "judge_positive": k,
        "n": n,
        "sensitivity": sensitivity,
        "specificity": specificity,
        "apparent": apparent,
        "clipped": clipped,
    }
    return Estimate("prevalence", value, None, None, n, 0.95, "none", reason, inputs)


def rogan_gladen_from_labels(
    tp: int, fn: int, fp: int, tn: int, unlabelled_positive: int, unlabelled_n: int
) -> Estimate:
    """Return ``rogan_gladen`` of unlabelled traces with the rates of labelled ones.

    Args:
        tp: labelled traces with the code, flagged.
        fn: labelled traces with the code, not flagged.
        fp: labelled traces without the code, flagged.
        tn: labelled traces without the code, not flagged. The labelled traces must be a simple
            random sample; of one stratified by the judge's answer the rates are wrong.
        unlabelled_positive: flagged traces among the unlabelled, 0 to unlabelled_n.
        unlabelled_n: judged traces without a label.

    Returns:
        As ``rogan_gladen``; ``inputs`` has the four counts too. Undefined, with a reason, also
        where no labelled trace has the code, or every one has: a rate is unknown then.

    Raises:
        ValueError: a count is negative or not whole.

    Source: as ``rogan_gladen``.
    """
    counts = {"tp": tp, "fn": fn, "fp": fp, "tn": tn}
    whole_counts = {name: check_count(name, number) for name, number in counts.items()}
    positive = whole_counts["tp"] + whole_counts["fn"]
    negative = whole_counts["fp"] + whole_counts["tn"]
    k, n = _of("unlabelled_positive", unlabelled_positive, unlabelled_n)
    inputs: dict[str, Any] = {
        "judge_positive": k,
        "n": n,
        "sensitivity": whole_counts["tp"] / positive if positive else None,
        "specificity": whole_counts["tn"] / negative if negative else None,
        "apparent": k / n if n else None,
        "clipped": False,
        **whole_counts,
    }
    reason = _class_missing(positive, negative)
    if reason:
        return Estimate("prevalence", None, None, None, n, 0.95, "none", reason, inputs)
    point = rogan_gladen(k, n, inputs["sensitivity"], inputs["specificity"])
    return Estimate(
        "prevalence",
        point.value,
        None,
        None,
        n,
        0.95,
        "none",
        point.reason,
        inputs | {**point.inputs},
    )


def lang_reiczigel(
    judge_positive: int,
    n: int,
    tp: int,
    n_positive: int,
    tn: int,
    n_negative: int,
    confidence: float = 0.95,
) -> Estimate:
    """Return ``rogan_gladen`` with an interval that knows the errors of both rates.

    The limits come from a normal approximation on counts with pseudo-observations: z^2 / 2 flagged
    and as many unflagged ones of n, one right and one wrong answer of each class; they are cut at 0
    and 1.

    Args:
        judge_positive: flagged traces, 0 to n.
        n: judged traces.
        tp: flagged ones of the labelled traces with the code, 0 to n_positive.
        n_positive: labelled traces with the code.
        tn: unflagged ones of the labelled traces without the code, 0 to n_negative.
        n_negative: labelled traces without the code.
        confidence: between 0 and 1, both excluded.

    Returns:
        Method "lang_reiczigel"; ``inputs`` has the counts, the rates, ``apparent`` and ``clipped``.
        The value is None and the limits are 0 and 1 where a class has no labels, where n is 0, and
        where sensitivity + specificity <= 1 (as they are or with the pseudo-observations).

    Raises:
        ValueError: an argument is not in its range.

    Source: Z. Lang and J. Reiczigel, Prev. Vet. Med. 113 (2014) 13-22. Own code: only R has it.
    """
    check_confidence(confidence)
    k, n = _of("judge_positive", judge_positive, n)
    tp, n_positive = _of("tp", tp, n_positive)
    tn, n_negative = _of("tn", tn, n_negative)
    point = rogan_gladen_from_labels(tp, n_positive - tp, n_negative - tn, tn, k, n)
    if point.value is None:
        reason = point.reason or ""
        return _unknown(reason, confidence, n, point.inputs)
    z = quantile(confidence)
    size, apparent = n + z * z, (k + z * z / 2) / (n + z * z)
    se, sp = (tp + 1) / (n_positive + 2), (tn + 1) / (n_negative + 2)
    se_variance, sp_variance = se * (1 - se) / (n_positive + 2), sp * (1 - sp) / (n_negative + 2)
    if _useless(se, sp):
        reason = "too few labels to tell the judge's flag from chance"
        return _unknown(reason, confidence, n, point.inputs)
    gain = se + sp - 1
    centre = (apparent + sp - 1) / gain
    shift = 2 * z * z * (centre * se_variance - (1 - centre) * sp_variance)
    spread = apparent * (1 - apparent) / size
    spread += centre**2 * se_variance + (1 - centre) ** 2 * sp_variance
    half = z * math.sqrt(spread) / gain
    low, high = (min(1.0, max(0.0, centre + shift + side * half)) for side in (-1, 1))
    return Estimate(
        "prevalence", point.value, low, high, n, confidence, "lang_reiczigel", None, point.inputs
    )


@dataclass(frozen=True, slots=True)
class Stratum:
    """Traces with the same answer of the judge, of which a random part was labelled.

    ``size`` traces, of which ``labelled`` have a human label; to ``positive`` of these the human
    gives the code. ``judge`` says whether the judge gives it.
    """

    judge: bool
    size: int
    labelled: int
    positive: int

    def __post_init__(self) -> None:
        if self.judge not in (0, 1):
            raise ValueError(f"judge must be true or false (1 or 0), not {self.judge!r}")
        counts = ("size", self.size), ("labelled", self.labelled), ("positive", self.positive)
        for name, count in counts:
            whole(name, count)
        if not 0 <= self.positive <= self.labelled <= self.size:
            raise ValueError(
                f"a stratum must have 0 <= positive <= labelled <= size, not {self.positive}, "
                f"{self.labelled}, {self.size}"
            )


@dataclass(frozen=True, slots=True)
class Verification:
    """A judge's error rates on all traces, from labels of a part of each stratum.

    Each is a share in [0, 1] (kappa: at most 1), or None with an entry in ``reasons``. The naive
    ones are those of the labelled traces as if they were a random sample, which shows what ignoring
    the strata would do. ``n`` counts traces, ``n_labelled`` labels.
    """

    prevalence: float | None
    sensitivity: float | None
    specificity: float | None
    precision: float | None
    kappa: float | None
    naive_sensitivity: float | None
    naive_specificity: float | None
    n: int
    n_labelled: int
    reasons: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON-serialisable values."""
        return asdict(self)


def verification(strata: Iterable[Stratum]) -> Verification:
    """Return a judge's error rates where labels were drawn by the judge's own answer.

    Each stratum's labels stand for all its traces: tp = sum over flagged strata of
    size * positive / labelled, and so on; the rates are those of that table.

    Args:
        strata: one or more of each answer; those without traces do not count.

    Returns:
        All None without traces, and where a stratum has traces, but no labels. A single rate is
        None where its denominator is 0. ``reasons`` has an entry for each None.

    Raises:
        ValueError: a stratum's numbers contradict each other.

    Source: C. B. Begg and R. A. Greenes, Biometrics 39 (1983) 207-215. Own code: four sums.
    """
    used = [stratum for stratum in strata if stratum.size]
    naive = _table((stratum.judge, stratum.positive, stratum.labelled) for stratum in used)
    size, labels = sum(stratum.size for stratum in used), sum(stratum.labelled for stratum in used)
    reason = None
    if not used:
        reason = "no traces"
    elif not all(stratum.labelled for stratum in used):
        reason = "a stratum has traces, but no labels"
    labelled = [] if reason else used
    tp, fn, fp, tn = _table(
        (stratum.judge, stratum.size * stratum.positive / stratum.labelled, stratum.size)
        for stratum in labelled
    )
    rates = {
        "prevalence": (_ratio(tp + fn, tp + fn + fp + tn), "no traces"),
        "sensitivity": (_ratio(tp, tp + fn), "no trace has the code"),
        "specificity": (_ratio(tn, tn + fp), "every trace has the code"),
        "precision": (_ratio(tp, tp + fp), "the judge gives the code to no trace"),
        "kappa": (_kappa(tp, fn, fp, tn), "both give every trace the same answer"),
    }
    reasons = {name: reason or why for name, (value, why) in rates.items() if value is None}
    plain = {
        "naive_sensitivity": _ratio(naive[0], naive[0] + naive[1]),
        "naive_specificity": _ratio(naive[3], naive[3] + naive[2]),
    }
    reasons |= {name: "no such label" for name, value in plain.items() if value is None}
    values = {name: value for name, (value, _) in rates.items()}
    return Verification(**values, **plain, n=size, n_labelled=labels, reasons=reasons)


def _table(strata: Iterable[tuple[bool, float, float]]) -> tuple[float, float, float, float]:
    """Return tp, fn, fp, tn of (judge's answer, traces with the code, all traces)."""
    tp = fn = fp = tn = 0.0
    for judge, positive, size in strata:
        if judge:
            tp, fp = tp + positive, fp + size - positive
        else:
            fn, tn = fn + positive, tn + size - positive
    return tp, fn, fp, tn


def _ratio(part: float, all_of_it: float) -> float | None:
    return part / all_of_it if all_of_it > 0 else None


def _kappa(tp: float, fn: float, fp: float, tn: float) -> float | None:
    """Return Cohen's kappa of a weighted table, whose cells ``cohen_kappa`` would not take."""
    n = tp + fn + fp + tn
    disagree, chance = (fn + fp) * n, (tp + fn) * (fn + tn) + (fp + tn) * (tp + fp)
    return 1 - disagree / chance if chance > 0 else None


def _useless(sensitivity: float, specificity: float) -> bool:
    # The margin is for rates such as 0.55 and 0.45, whose sum may round to above 1.
    return sensitivity + specificity - 1 <= 1e-12


def _class_missing(positive: int, negative: int) -> str | None:
    if positive and negative:
        return None
    if not positive and not negative:
        return "no human labels"
    missing = "specificity" if positive else "sensitivity"
    return f"{'every' if positive else 'no'} labelled trace has the code: {missing} is unknown"


def _of(name: str, part: int, n: int) -> tuple[int, int]:
    """Return the checked count and what it is a part of."""
    k, total = whole(name, part), whole("its total", n)
    if not 0 <= k <= total:
        raise ValueError(f"{name} must be between 0 and its total, not {k} of {total}")
    return k, total


def _unknown(reason: str, confidence: float, n: int, inputs: Any) -> Estimate:
    return Estimate("prevalence", None, 0.0, 1.0, n, confidence, "lang_reiczigel", reason, inputs)
