"""Confidence intervals for shares."""

import math
from dataclasses import dataclass
from statistics import NormalDist

from validation.estimate import Serializable


@dataclass(frozen=True, slots=True)
class Interval(Serializable):
    """A share, k of n, with its interval.

    ``value``, ``low`` and ``high`` are in [0, 1]. If the share is undefined, ``value`` is None,
    ``reason`` says why, and the limits are 0 and 1. For clustered items n / ``design_effect`` is
    the effective number of items; ``clusters_with`` of the ``clusters`` have a success.
    """

    value: float | None
    low: float
    high: float
    k: int
    n: int
    confidence: float
    method: str
    reason: str | None = None
    design_effect: float | None = None
    clusters: int | None = None
    clusters_with: int | None = None


def compute_wilson_interval(k: int, n: int, confidence: float = 0.95) -> Interval:
    """Return the share k / n with Wilson's score interval.

    It covers the sampling error of independent items only, not a judge's errors.

    Args:
        k: number of successes, 0 to n.
        n: number of trials. 0 gives an undefined share with the limits 0 and 1.
        confidence: between 0 and 1, both excluded.

    Source: E. B. Wilson, J. Am. Stat. Assoc. 22 (1927) 209-212.
    """
    if not 0 <= k <= n:
        raise ValueError(f"k must be between 0 and n, not {k} of {n}")
    if n == 0:
        return Interval(None, 0.0, 1.0, 0, 0, confidence, "wilson", "no trials")
    low, high = _compute_score_limits(k / n, n, compute_quantile(confidence))
    return Interval(k / n, low, high, k, n, confidence, "wilson")


def compute_wilson_limits(
    share: float, n_effective: float, confidence: float = 0.95, df: float | None = None
) -> tuple[float, float]:
    """Return Wilson's limits of a share for an effective number of items.

    Args:
        share: the observed share, weighted if the sample is; 0 to 1.
        n_effective: number of items divided by the design effect, at least 0 and not infinite. It
            need not be whole. 0 gives the limits 0 and 1.
        confidence: between 0 and 1, both excluded.
        df: degrees of freedom of the design effect, clusters - 1: the quantile is then Student's
            instead of the normal one. Below 1 the limits are 0 and 1.

    Source: Wilson 1927 with the effective sample size of E. L. Korn and B. I. Graubard, Surv.
    Methodol. 24 (1998) 193-201, who put it into another interval.
    """
    if n_effective == 0 or (df is not None and df < 1):
        return 0.0, 1.0
    return _compute_score_limits(share, n_effective, compute_quantile(confidence, df))


def compute_quantile(confidence: float, df: float | None = None) -> float:
    """Return the two-sided quantile: Student's t with df, else the normal one."""
    check_confidence(confidence)
    upper = (1 + confidence) / 2
    if df is None:
        return NormalDist().inv_cdf(upper)
    # scipy is slow to import, and a frequency table without clusters needs none.
    from scipy.special import stdtrit

    return float(stdtrit(df, upper))


def compute_widening(confidence: float, df: float | None) -> float:
    """Return Student's quantile over the normal one; 1 without df, or with less than one."""
    if df is None or df < 1:
        return 1.0
    return compute_quantile(confidence, df) / compute_quantile(confidence)


def compute_p_value(statistic: float, df: float | None = None) -> float:
    """Return the two-sided p of a statistic: Student's t with df, else the normal one."""
    if df is None:
        return math.erfc(abs(statistic) / math.sqrt(2))
    from scipy.special import stdtr

    return float(2 * stdtr(df, -abs(statistic)))


def check_confidence(confidence: float) -> None:
    """Raise ValueError unless the confidence is between 0 and 1, both excluded."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, not {confidence!r}")


def _compute_score_limits(share: float, n: float, z: float) -> tuple[float, float]:
    """Return the score limits of a share of n items for the quantile z."""
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # At the ends the limit is the end itself; rounding would leave 1e-17 of it.
    low = 0.0 if share == 0 else max(0.0, centre - half)
    high = 1.0 if share == 1 else min(1.0, centre + half)
    return min(low, share), max(high, share)
