"""The share of traces with a code, from a judge's flags and its error rates.

Both error rates must hold for the traces in question. Where some of these have human labels,
``validation.prevalence.poststratify`` needs no such assumption and is the estimate to use.
"""

import math
from typing import Any

from validation.estimate import Estimate
from validation.intervals import compute_quantile


def estimate_rogan_gladen(
    judge_positive: int, n: int, sensitivity: float, specificity: float
) -> Estimate:
    """Return the share that a judge's flags imply, given its sensitivity and specificity.

    (apparent + specificity - 1) / (sensitivity + specificity - 1), cut at 0 and 1. Both rates must
    hold for these traces; ``poststratify`` needs no such assumption where some are labelled.

    Args:
        judge_positive: flagged traces, 0 to n.
        n: judged traces.
        sensitivity: share of the traces with the code that the judge flags, 0 to 1.
        specificity: share of the traces without it that the judge leaves alone, 0 to 1.

    Returns:
        Method "none": no interval (``estimate_lang_reiczigel`` has one). ``inputs``: the arguments,
        ``apparent`` and ``clipped`` (True if the value was cut). The value is None without traces,
        and where sensitivity + specificity <= 1: the judge's flag then says nothing of the code.

    Source: W. J. Rogan and B. Gladen, Am. J. Epidemiol. 107 (1978) 71-76.
    """
    apparent = judge_positive / n if n else None
    value, clipped, reason = None, False, None
    if apparent is None:
        reason = "no judged traces"
    elif _is_useless(sensitivity, specificity):
        reason = "sensitivity + specificity <= 1: the judge carries no information on this code"
    else:
        plain = (apparent + specificity - 1) / (sensitivity + specificity - 1)
        value = min(1.0, max(0.0, plain))
        clipped = value != plain
    inputs = {
        "judge_positive": judge_positive,
        "n": n,
        "sensitivity": sensitivity,
        "specificity": specificity,
        "apparent": apparent,
        "clipped": clipped,
    }
    return Estimate("prevalence", value, None, None, n, 0.95, "none", reason, inputs)


def estimate_lang_reiczigel(
    judge_positive: int,
    n: int,
    tp: int,
    n_positive: int,
    tn: int,
    n_negative: int,
    confidence: float = 0.95,
) -> Estimate:
    """Return ``estimate_rogan_gladen`` with an interval for counts of labels.

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

    Source: Z. Lang and J. Reiczigel, Prev. Vet. Med. 113 (2014) 13-22.
    """
    inputs: dict[str, Any] = {
        "judge_positive": judge_positive,
        "n": n,
        "sensitivity": tp / n_positive if n_positive else None,
        "specificity": tn / n_negative if n_negative else None,
        "apparent": judge_positive / n if n else None,
        "clipped": False,
        "tp": tp,
        "fn": n_positive - tp,
        "fp": n_negative - tn,
        "tn": tn,
    }
    reason = _explain_missing_class(n_positive, n_negative)
    if reason:
        return _make_unknown(reason, confidence, n, inputs)
    plain = estimate_rogan_gladen(judge_positive, n, inputs["sensitivity"], inputs["specificity"])
    inputs |= plain.inputs
    if plain.value is None:
        return _make_unknown(plain.reason or "", confidence, n, inputs)
    z = compute_quantile(confidence)
    size, apparent = n + z * z, (judge_positive + z * z / 2) / (n + z * z)
    se, sp = (tp + 1) / (n_positive + 2), (tn + 1) / (n_negative + 2)
    se_variance, sp_variance = se * (1 - se) / (n_positive + 2), sp * (1 - sp) / (n_negative + 2)
    if _is_useless(se, sp):
        reason = "too few labels to tell the judge's flag from chance"
        return _make_unknown(reason, confidence, n, inputs)
    gain = se + sp - 1
    centre = (apparent + sp - 1) / gain
    shift = 2 * z * z * (centre * se_variance - (1 - centre) * sp_variance)
    spread = apparent * (1 - apparent) / size
    spread += centre**2 * se_variance + (1 - centre) ** 2 * sp_variance
    half = z * math.sqrt(spread) / gain
    low, high = (min(1.0, max(0.0, centre + shift + side * half)) for side in (-1, 1))
    return Estimate(
        "prevalence", plain.value, low, high, n, confidence, "lang_reiczigel", None, inputs
    )


def _is_useless(sensitivity: float, specificity: float) -> bool:
    # A margin: the sum of rates such as 0.55 and 0.45 may round to above 1.
    return sensitivity + specificity - 1 <= 1e-12


def _explain_missing_class(positive: int, negative: int) -> str | None:
    if positive and negative:
        return None
    if not positive and not negative:
        return "no human labels"
    missing = "specificity" if positive else "sensitivity"
    return f"{'every' if positive else 'no'} labelled trace has the code: {missing} is unknown"


def _make_unknown(reason: str, confidence: float, n: int, inputs: Any) -> Estimate:
    return Estimate("prevalence", None, 0.0, 1.0, n, confidence, "lang_reiczigel", reason, inputs)
