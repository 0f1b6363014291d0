"""Confidence intervals for shares."""

import math
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

from validation.checks import whole


@dataclass(frozen=True, slots=True)
class Interval:
    """A share with its interval, and what is needed to compute it again.

    ``value``, ``low`` and ``high`` are shares in [0, 1]. Where the share is undefined, ``value`` is
    None and ``reason`` says why; the limits then say that nothing is known.
    """

    value: float | None
    low: float
    high: float
    k: int
    n: int
    confidence: float
    method: str
    reason: str | None = None

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
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, not {confidence!r}")
    if n == 0:
        return Interval(None, 0.0, 1.0, 0, 0, confidence, "wilson", "no trials")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = k / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # At the ends the limit is the end itself; rounding would leave 1e-17 of it.
    low = 0.0 if k == 0 else max(0.0, centre - half)
    high = 1.0 if k == n else min(1.0, centre + half)
    return Interval(share, low, high, k, n, confidence, "wilson")
