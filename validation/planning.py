"""How many labels: for a width, for seeing a rare code, for a planned allocation."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from scipy.special import betainc

from validation.checks import check_count
from validation.intervals import check_confidence, check_share, quantile, wilson, wilson_effective
from validation.prevalence import Cell, beta_limits, beta_posterior


@dataclass(frozen=True, slots=True)
class SampleSize:
    """How many independent items give a wished half width; times the design effect otherwise.

    ``n`` goes by Wilson's interval, ``n_normal_approximation`` by the textbook formula
    z^2 p (1 - p) / h^2, for comparison.
    """

    n: int
    n_normal_approximation: int

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON-serialisable values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ZeroCount:
    """What is known of a share after none of n items had it.

    ``exact_one_sided`` is the largest share with which none of n comes with a chance of at least
    1 - confidence; ``wilson_two_sided_high`` is Wilson's upper limit; ``rule_of_three`` is 3 / n,
    at most 1, and None for confidences other than .95, for which it does not hold, and for n = 0.
    """

    n: int
    confidence: float
    exact_one_sided: float
    wilson_two_sided_high: float
    rule_of_three: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON-serialisable values."""
        return asdict(self)


def half_width(share: float, n: float, confidence: float = 0.95) -> float:
    """Return half the width of Wilson's interval for an expected share of n items.

    Args:
        share: the expected share, 0 to 1.
        n: number of items, or an effective number, which need not be whole; 0 gives 1/2.
        confidence: between 0 and 1, both excluded.

    Raises:
        ValueError: an argument is not in its range.
    """
    low, high = wilson_effective(share, n, confidence)
    return (high - low) / 2


def sample_size(share: float, half_width: float, confidence: float = 0.95) -> SampleSize:
    """Return the least number of items for which Wilson's half width is at most ``half_width``.

    Args:
        share: the expected share, 0 to 1; 1/2 is the worst case.
        half_width: between 0 and 1, both excluded. 1/2 or more takes one item.
        confidence: between 0 and 1, both excluded.

    Raises:
        ValueError: an argument is not in its range.

    Source: W. W. Piegorsch, Stat. Med. 23 (2004) 291-305. Own code: statsmodels has the normal
    approximation only.
    """
    check_share("share", share)
    _check_half_width(half_width)
    check_confidence(confidence)
    z2 = quantile(confidence) ** 2
    spread = share * (1 - share)

    def wide(n: int) -> bool:
        return math.sqrt(z2 * (spread * n + z2 / 4)) / (n + z2) > half_width

    normal = math.ceil(z2 * spread / half_width**2)
    # The half width falls with n, so doubling and halving finds the least one.
    return SampleSize(_least(lambda n: not wide(n), start=1), normal)


def probability_at_least(n: int, prevalence: float, at_least: int) -> float:
    """Return the chance that at least so many of n random items have the code.

    Args:
        n: number of items drawn, at least 0.
        prevalence: share of items with the code, 0 to 1.
        at_least: number wished for, at least 0; 0 is certain, more than n impossible.

    Raises:
        ValueError: an argument is not in its range.

    Source: the binomial distribution, by ``scipy.special.betainc``.
    """
    n, k = check_count("n", n), check_count("at_least", at_least)
    check_share("prevalence", prevalence)
    if k == 0 or k > n:
        return float(k == 0)
    return float(betainc(k, n - k + 1, prevalence))


def sample_size_at_least(prevalence: float, at_least: int, probability: float = 0.95) -> int:
    """Return the least number of random items of which ``at_least`` have the code, so likely.

    Args:
        prevalence: share of items with the code, above 0 and at most 1.
        at_least: number wished for, at least 0.
        probability: between 0 and 1, both excluded.

    Raises:
        ValueError: an argument is not in its range; with a prevalence of 0 no number is enough.
    """
    k = check_count("at_least", at_least)
    if not 0 < prevalence <= 1:
        raise ValueError(f"prevalence must be above 0 and at most 1, not {prevalence!r}")
    if not 0 < probability < 1:
        raise ValueError(f"probability must be between 0 and 1, not {probability!r}")
    return _least(lambda n: probability_at_least(n, prevalence, k) >= probability, start=k)


def zero_count_upper(n: int, confidence: float = 0.95) -> ZeroCount:
    """Return upper limits of a share of which none was seen in n items.

    Args:
        n: number of items, at least 0; 0 gives the limits 1.
        confidence: between 0 and 1, both excluded.

    Raises:
        ValueError: an argument is not in its range.

    Source: C. J. Clopper and E. S. Pearson, Biometrika 26 (1934) 404-413, whose one-sided limit
    has a closed form here; J. A. Hanley and A. Lippman-Hand, JAMA 249 (1983) 1743-1745.
    """
    upper = wilson(0, n, confidence)
    exact = 1 - (1 - confidence) ** (1 / upper.n) if upper.n else 1.0
    three = min(1.0, 3 / upper.n) if upper.n and math.isclose(confidence, 0.95) else None
    return ZeroCount(upper.n, confidence, exact, upper.high, three)


def expected_half_widths(
    W: float,
    precision: float,
    miss_rate: float,
    n1: float,
    n0: float,
    N: float,
    confidence: float = 0.95,
    others: Sequence[tuple[float, float, float]] = (),
) -> float:
    """Return half the width that ``poststratify`` is expected to have with planned labels.

    The expected counts are put in place of counted ones, so they need not be whole.

    Args:
        W: share of judged traces with the judge's flag, 0 to 1.
        precision: expected share of flagged traces that have the code, 0 to 1.
        miss_rate: expected share of unflagged traces that have it, 0 to 1.
        n1: planned labels of flagged traces, divided by the design effect; at least 0.
        n0: planned labels of unflagged traces, likewise.
        N: traces that the judge decided, above 0.
        confidence: between 0 and 1, both excluded.
        others: further answers of the judge ("undecided"): the number of traces, the expected share
            of them that have the code, and the planned labels, divided by the design effect.

    Returns:
        0 to 1/2.

    Raises:
        ValueError: an argument is not in its range.
    """
    shares = [("W", W), ("precision", precision), ("miss_rate", miss_rate)]
    for name, share in [*shares, *(("the share of others", share) for _, share, _ in others)]:
        check_share(name, share)
    check_confidence(confidence)
    if not 0 < N < math.inf:
        raise ValueError(f"N must be above 0 and finite, not {N!r}")
    planned = [(W * N, precision, n1), ((1 - W) * N, miss_rate, n0), *others]
    strata = [(size, _expect(share, n)) for size, share, n in planned]
    value = sum(size * share for size, share, _ in planned) / sum(size for size, _, _ in planned)
    # Of an answer without labels nothing is known, from none of its traces to all.
    ends = [
        beta_limits(*beta_posterior(strata, unlabelled=share), confidence, value)
        for share in (0.0, 1.0)
    ]
    return (max(high for _, high in ends) - min(low for low, _ in ends)) / 2


def _expect(share: float, n: float) -> Cell:
    return Cell(share, share * n, n, n) if n else Cell(None, 0, 0, 0)


def _check_half_width(half_width: float) -> None:
    if not 0 < half_width < 1:
        raise ValueError(f"half_width must be between 0 and 1, not {half_width!r}")


def _least(enough: Callable[[int], bool], start: int) -> int:
    """Return the least number from ``start`` on that is enough; more is enough, too."""
    if enough(start):
        return start
    low, high = start, 2 * start + 1
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
