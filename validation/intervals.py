"""Confidence intervals for shares."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import NormalDist
from typing import Any

from validation.checks import check_count, whole


@dataclass(frozen=True, slots=True)
class Interval:
    """A share with its interval, and what is needed to compute it again.

    ``value``, ``low`` and ``high`` are shares in [0, 1]. Where the share is undefined, ``value`` is
    None and ``reason`` says why; the limits then say that nothing is known.

    Where items come in clusters, ``design_effect`` is what they cost: n / design_effect is the
    effective number of items. They are of so many ``clusters``, and ``clusters_with`` of these have
    a success.
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

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON-serialisable values."""
        return asdict(self)


def wilson(k: int, n: int, confidence: float = 0.95) -> Interval:
    """Return the share k / n with Wilson's score interval.

    It covers the sampling error of a simple random sample and nothing else: neither a judge's
    errors nor traces that depend on each other.

    Args:
        k: number of successes, 0 to n.
        n: number of trials. 0 gives an undefined share with the limits 0 and 1: no data says
            nothing.
        confidence: between 0 and 1, both excluded.

    Raises:
        ValueError: k or n is not a whole number, k is not in 0..n, or confidence not in (0, 1).

    Source: E. B. Wilson, J. Am. Stat. Assoc. 22 (1927) 209-212. Own code: scipy's ``binomtest``
    gives the same limits, but takes over 0.1 s to import and raises for n = 0.
    """
    k, n = whole("k", k), whole("n", n)
    if not 0 <= k <= n:
        raise ValueError(f"k must be between 0 and n, not {k} of {n}")
    check_confidence(confidence)
    if n == 0:
        return Interval(None, 0.0, 1.0, 0, 0, confidence, "wilson", "no trials")
    low, high = _score_limits(k / n, n, quantile(confidence))
    return Interval(k / n, low, high, k, n, confidence, "wilson")


def wilson_effective(
    share: float, n_effective: float, confidence: float = 0.95, df: float | None = None
) -> tuple[float, float]:
    """Return Wilson's limits of a share that rests on as much as ``n_effective`` independent items.

    Args:
        share: the observed share, weighted if the sample is; 0 to 1.
        n_effective: number of items divided by the design effect, at least 0 and not infinite. It
            need not be whole. 0 gives the limits 0 and 1.
        confidence: between 0 and 1, both excluded.
        df: degrees of freedom of the design effect, clusters - 1: the quantile is then Student's
            and not the normal one. Below 1 nothing is known and the limits are 0 and 1.

    Raises:
        ValueError: an argument is not in its range.

    Source: Wilson 1927 with the effective sample size of E. L. Korn and B. I. Graubard, Surv.
    Methodol. 24 (1998) 193-201, who put it into another interval. Own code: no library has it.
    """
    check_share("share", share)
    if not 0 <= n_effective < math.inf:
        raise ValueError(f"n_effective must be at least 0 and finite, not {n_effective!r}")
    check_confidence(confidence)
    if n_effective == 0 or (df is not None and df < 1):
        return 0.0, 1.0
    return _score_limits(share, n_effective, quantile(confidence, df))


def goodman(counts: Sequence[int], confidence: float = 0.95) -> list[Interval]:
    """Return the shares of k exclusive codes with limits that hold for all of them at once.

    They are Wilson's at confidence 1 - (1 - confidence) / k. They hold where every item has exactly
    one code: ``counts`` are then all items.

    Args:
        counts: number of items per code; all 0 gives undefined shares with the limits 0 and 1.
        confidence: that all limits hold together; between 0 and 1, both excluded.

    Raises:
        ValueError: a count is negative or not whole, or confidence is not in (0, 1).

    Source: L. A. Goodman, Technometrics 7 (1965) 247-254. Own code: statsmodels has it, but is not
    worth the dependency.
    """
    check_confidence(confidence)
    numbers = [check_count("a count", count) for count in counts]
    n, each = sum(numbers), 1 - (1 - confidence) / max(1, len(numbers))
    return [replace(wilson(k, n, each), confidence=confidence, method="goodman") for k in numbers]


def sison_glaz(counts: Sequence[int], confidence: float = 0.95) -> list[Interval]:
    """Return the shares of exclusive codes with the simultaneous limits of Sison and Glaz.

    All limits lie equally far below their shares, (c / n), and equally far above, ((c + 2 g) / n),
    before they are cut at 0 and 1. c is the largest whole number for which the counts
    of a new sample are all within c of these with at most the wished probability; g, 0 to 1,
    interpolates to c + 1. They are narrower than Goodman's with many codes. Where one code has
    nearly all items they claim too much: 10 items of 10 get [1, 1].

    Args:
        counts: number of items per code; they are all items. All 0 gives undefined shares with the
            limits 0 and 1.
        confidence: that all limits hold together; between 0 and 1, both excluded.

    Raises:
        ValueError: a count is negative or not whole, or confidence is not in (0, 1).

    Source: C. P. Sison and J. Glaz, J. Am. Stat. Assoc. 90 (1995) 366-369. Own code: only
    statsmodels has it, which is not worth the dependency.
    """
    check_confidence(confidence)
    numbers = [check_count("a count", count) for count in counts]
    n = sum(numbers)
    if n == 0:
        return [replace(wilson(0, 0, confidence), method="sison_glaz") for _ in numbers]
    c, below, above = 0, 0.0, _all_within(numbers, 1)
    # c = n is everything; rounding and the approximation may keep the probability from reaching it.
    while above <= confidence and c < n:
        c += 1
        below, above = above, _all_within(numbers, c + 1)
    between = (confidence - below) / (above - below) if above > below else 1.0
    return [
        Interval(
            k / n,
            max(0.0, (k - c) / n),
            min(1.0, (k + c + 2 * between) / n),
            k,
            n,
            confidence,
            "sison_glaz",
        )
        for k in numbers
    ]


def quantile(confidence: float, df: float | None = None) -> float:
    """Return how many standard errors a two-sided interval goes: Student's t with df, else z."""
    upper = (1 + confidence) / 2
    if df is None:
        return NormalDist().inv_cdf(upper)
    # Here and not on top: a frequency table without clusters must not wait for scipy.
    from scipy.special import stdtrit

    return float(stdtrit(df, upper))


def student_p(statistic: float, df: float | None = None) -> float:
    """Return the two-sided p of a statistic: Student's t with df, else the normal one."""
    if df is None:
        return math.erfc(abs(statistic) / math.sqrt(2))
    from scipy.special import stdtr

    return float(2 * stdtr(df, -abs(statistic)))


def check_confidence(confidence: float) -> None:
    """Raise ValueError unless the confidence is between 0 and 1, both excluded."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, not {confidence!r}")


def check_share(name: str, share: float) -> None:
    """Raise ValueError, calling it ``name``, unless this is a number from 0 to 1."""
    if not 0 <= share <= 1:
        raise ValueError(f"{name} must be between 0 and 1, not {share!r}")


def _score_limits(share: float, n: float, z: float) -> tuple[float, float]:
    """Return the score limits of a share of n items; z is the quantile."""
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # At the ends the limit is the end itself; rounding would leave 1e-17 of it.
    low = 0.0 if share == 0 else max(0.0, centre - half)
    high = 1.0 if share == 1 else min(1.0, centre + half)
    return min(low, share), max(high, share)


def _all_within(counts: Sequence[int], c: int) -> float:
    """Return the probability that a new sample has all counts within c of these.

    A multinomial sample is one of independent Poisson numbers, given their sum. So the probability
    is that of each Poisson number to be in its range, times that of the sum of the truncated ones
    to be n (by Edgeworth's series), over that of the sum of the free ones.
    """
    n = sum(counts)
    ranges = [_truncate(k, max(k - c, 0), min(k + c, n)) for k in counts]
    mean, variance, third, fourth = (sum(moments[i] for moments in ranges) for i in range(1, 5))
    skewness, excess = third / variance**1.5, fourth / variance**2
    x = (n - mean) / math.sqrt(variance)
    series = (
        1
        + skewness * (x**3 - 3 * x) / 6
        + excess * (x**4 - 6 * x**2 + 3) / 24
        + skewness**2 * (x**6 - 15 * x**4 + 45 * x**2 - 15) / 72
    )
    density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi * variance) * series
    log_all = n * math.log(n) - n - math.lgamma(n + 1)
    return float(math.exp(sum(math.log(moments[0]) for moments in ranges) - log_all) * density)


def _truncate(mean: float, low: int, high: int) -> tuple[float, float, float, float, float]:
    """Return a Poisson number's probability to be in low..high and its first four cumulants there.

    The sums below run over ``high - low`` terms, about the root of the number of items.
    """
    if mean == 0:
        return 1.0, 0.0, 0.0, 0.0, 0.0
    terms = {
        k: math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(low, high + 1)
    }
    inside = math.fsum(terms.values())
    centre = math.fsum(k * p for k, p in terms.items()) / inside
    second, third, fourth = (
        math.fsum((k - centre) ** power * p for k, p in terms.items()) / inside
        for power in (2, 3, 4)
    )
    return inside, centre, second, third, fourth - 3 * second**2
