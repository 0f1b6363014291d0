"""Differences between groups of traces: intervals, tests, many tests at once, codes together."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from validation.estimate import Estimate, Serializable
from validation.intervals import compute_wilson_interval

_NO_TRIALS = "a group has no trials"


@dataclass(frozen=True, slots=True)
class Test(Serializable):
    """The result of a test of no difference.

    ``p`` is the two-sided p-value, None where there is nothing to test; ``statistic`` is None where
    it is infinite or undefined. ``reason`` says why either is None. ``n`` counts the items, pairs
    with different answers in McNemar's test.
    """

    # pytest takes classes of this name for tests.
    __test__ = False

    name: str
    statistic: float | None
    p: float | None
    n: int
    reason: str | None = None


def estimate_difference(k1: int, n1: int, k2: int, n2: int, confidence: float = 0.95) -> Estimate:
    """Return the difference of two independent shares, k1 / n1 - k2 / n2.

    The limits are Wilson's of both shares combined (Newcombe's method 10). Shares of the same
    traces, or of the same tasks, are not independent: see ``estimate_paired_difference``.

    Args:
        k1: successes in the first group, 0 to n1.
        n1: trials in the first group.
        k2: successes in the second group, 0 to n2.
        n2: trials in the second group.
        confidence: between 0 and 1, both excluded.

    Returns:
        In [-1, 1], method "newcombe". ``inputs``: the counts, ``p1``, ``p2`` and ``z`` and ``p`` of
        the test with the pooled share, None where all trials have the same result. Without trials
        in a group the value is None and the limits are -1 and 1.

    Source: R. G. Newcombe, Stat. Med. 17 (1998) 873-890.
    """
    first = compute_wilson_interval(k1, n1, confidence)
    second = compute_wilson_interval(k2, n2, confidence)
    n = first.n + second.n
    inputs: dict[str, Any] = {"k1": first.k, "n1": first.n, "k2": second.k, "n2": second.n}
    inputs |= {"p1": first.value, "p2": second.value, "z": None, "p": None}
    if first.value is None or second.value is None:
        return Estimate(
            "difference", None, -1.0, 1.0, n, confidence, "newcombe", _NO_TRIALS, inputs
        )
    pooled = (first.k + second.k) / n
    if 0 < pooled < 1:
        z = (first.value - second.value) / math.sqrt(
            pooled * (1 - pooled) * (1 / first.n + 1 / second.n)
        )
        inputs |= {"z": z, "p": math.erfc(abs(z) / math.sqrt(2))}
    value = first.value - second.value
    low, high = combine_limits(
        (first.value, first.low, first.high), (second.value, second.low, second.high)
    )
    return Estimate("difference", value, low, high, n, confidence, "newcombe", None, inputs)


def estimate_paired_difference(
    both: int, first_only: int, second_only: int, neither: int, confidence: float = 0.95
) -> Estimate:
    """Return the difference of two shares of the same items, (first_only - second_only) / n.

    The limits are Wilson's of both shares combined with their correlation phi, whose numerator is
    lessened by n / 2, but not below 0, where it is positive (Newcombe's method 10 for pairs). phi
    is 0 where one of the shares is 0 or 1.

    Args:
        both: items with success in both.
        first_only: items with success in the first only.
        second_only: items with success in the second only.
        neither: items with success in neither.
        confidence: between 0 and 1, both excluded.

    Returns:
        In [-1, 1], method "newcombe_paired". ``inputs``: the counts, ``p1``, ``p2`` and ``phi``.
        Without items the value is None and the limits are -1 and 1.

    Source: R. G. Newcombe, Stat. Med. 17 (1998) 2635-2650.
    """
    a, b, c, d = both, first_only, second_only, neither
    counts = {"both": a, "first_only": b, "second_only": c, "neither": d}
    n = a + b + c + d
    first = compute_wilson_interval(a + b, n, confidence)
    second = compute_wilson_interval(a + c, n, confidence)
    phi = _compute_phi(a, b, c, d)
    inputs: dict[str, Any] = counts | {"p1": first.value, "p2": second.value, "phi": phi}
    method = "newcombe_paired"
    if first.value is None or second.value is None:
        return Estimate("difference", None, -1.0, 1.0, 0, confidence, method, "no items", inputs)
    low, high = combine_limits(
        (first.value, first.low, first.high),
        (second.value, second.low, second.high),
        correlation=phi,
    )
    return Estimate("difference", (b - c) / n, low, high, n, confidence, method, None, inputs)


def subtract_estimates(a: Estimate, b: Estimate) -> Estimate:
    """Return the difference a - b of two independent estimates of shares from their intervals.

    The distance from the difference to each limit is the root of the sum of the squares of the
    distances to the limits that push it there.

    Returns:
        In [-1, 1], method "mover". ``inputs``: values and limits of both. Where one of them is
        undefined or has no interval, the value is None and the limits are -1 and 1.

    Source: G. Y. Zou and A. Donner, Stat. Med. 27 (2008) 1693-1702.
    """
    numbers = (a.value, a.low, a.high), (b.value, b.low, b.high)
    inputs = {
        f"{name}_{field}": number
        for name, triple in zip("ab", numbers, strict=True)
        for field, number in zip(("value", "low", "high"), triple, strict=True)
    }
    terms = []
    for name, side in (("first", a), ("second", b)):
        if side.value is None or side.low is None or side.high is None:
            reason = f"the {name} is undefined: {side.reason or 'it has no interval'}"
            limits = (None, -1.0, 1.0, a.n + b.n, a.confidence)
            return Estimate("difference", *limits, "mover", reason, inputs)
        terms.append((side.value, side.low, side.high))
    value, n = terms[0][0] - terms[1][0], a.n + b.n
    low, high = combine_limits(terms[0], terms[1])
    return Estimate("difference", value, low, high, n, a.confidence, "mover", None, inputs)


def run_fisher_test(table: Sequence[Sequence[int]]) -> Test:
    """Return Fisher's exact test of a 2 x 2 table: do the rows have the same shares?

    p is the chance, with the margins as they are, of a table that is as unlikely or more so.

    Args:
        table: counts, two rows of two.

    Returns:
        ``statistic`` is the odds ratio of the sample, None where it is infinite or undefined; p is
        1 where a row or a column is empty, as there is only one such table, and None where all
        are.

    Source: R. A. Fisher, Statistical Methods for Research Workers (1934), section 21.02. p by
    ``scipy.stats.fisher_exact``.
    """
    (a, b), (c, d) = table
    n = a + b + c + d
    if not n:
        return Test("fisher", None, None, 0, "no items")
    # scipy.stats takes a second to import; the rest of this module must not wait for it.
    from scipy.stats import fisher_exact

    p = float(fisher_exact([[a, b], [c, d]]).pvalue)
    if b * c == 0:
        return Test("fisher", None, p, n, "the odds ratio is infinite or undefined")
    return Test("fisher", a * d / (b * c), p, n)


def run_mcnemar_test(
    first_only: int, second_only: int, method: Literal["exact", "chi2"] = "exact"
) -> Test:
    """Return McNemar's test of two shares of the same items.

    Only items with different answers count. Under no difference first_only is binomial with 1/2.

    Args:
        first_only: items with success in the first only.
        second_only: items with success in the second only.
        method: "exact" sums binomial chances, ``statistic`` is the smaller count; "chi2" is
            (b - c)^2 / (b + c) on one degree of freedom, without continuity correction, for many
            items.

    Returns:
        p is 1 by convention, with a reason, where all items have the same answer in both: there is
        nothing to test, and nothing for an adjustment to count.

    Source: Q. McNemar, Psychometrika 12 (1947) 153-157. Binomial chances by ``scipy.special``.
    """
    b, c = first_only, second_only
    name, n = f"mcnemar_{method}", b + c
    if not n:
        return Test(name, None, 1.0, 0, "both gave every item the same answer")
    if method == "chi2":
        statistic = (b - c) ** 2 / n
        return Test(name, statistic, math.erfc(math.sqrt(statistic / 2)), n)
    from scipy.special import bdtr

    return Test(name, float(min(b, c)), min(1.0, 2 * float(bdtr(min(b, c), n, 0.5))), n)


def adjust_p_values(
    p_values: Sequence[float | None], method: Literal["holm", "bh"] = "holm"
) -> list[float | None]:
    """Return p-values adjusted for their number, to compare with the level for all together.

    Args:
        p_values: in [0, 1]; None (a test that could not be made) stays None and does not count.
        method: "holm" bounds the chance of any false rejection, for declared questions; "bh"
            (Benjamini-Hochberg) the expected share of false rejections, for exploration.

    Returns:
        In the order given, none smaller than before and none above 1.

    Source: S. Holm, Scand. J. Stat. 6 (1979) 65-70; Y. Benjamini and Y. Hochberg, J. R. Stat. Soc.
    B 57 (1995) 289-300.
    """
    for p in p_values:
        if p is not None and not 0 <= p <= 1:
            raise ValueError(f"a p-value must be between 0 and 1, not {p!r}")
    ordered = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    m = len(ordered)
    if method == "holm":
        so_far = 0.0
        for rank, (p, index) in enumerate(ordered):
            adjusted[index] = so_far = max(so_far, min(1.0, (m - rank) * p))
    else:
        so_far = 1.0
        for rank, (p, index) in reversed(list(enumerate(ordered, start=1))):
            adjusted[index] = so_far = min(so_far, p * m / rank)
    return adjusted


def floor_variance(variance: float, n: int) -> float:
    """Return the variance of a mean of n items, at least that of half of one in n + 1.

    Items that are all the same may differ in others.
    """
    return max(variance, 0.5 / (n + 1) / max(1, n))


def combine_limits(
    first: tuple[float, float, float],
    second: tuple[float, float, float],
    correlation: float = 0.0,
) -> tuple[float, float]:
    """Return the limits of a difference from (value, low, high) of its two terms."""
    (p1, low1, high1), (p2, low2, high2) = first, second
    middle = p1 - p2

    def distance(x: float, y: float) -> float:
        # Rounding may leave a tiny negative number where both distances are the same.
        return math.sqrt(max(0.0, x * x - 2 * correlation * x * y + y * y))

    low = middle - distance(p1 - low1, high2 - p2)
    high = middle + distance(high1 - p1, p2 - low2)
    return max(-1.0, low), min(1.0, high)


def _compute_phi(a: int, b: int, c: int, d: int) -> float:
    margins = (a + b) * (c + d) * (a + c) * (b + d)
    if not margins:
        return 0.0
    covariance = a * d - b * c
    if covariance > 0:
        return max(0.0, covariance - (a + b + c + d) / 2) / math.sqrt(margins)
    return covariance / math.sqrt(margins)
