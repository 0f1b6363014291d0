"""Differences between two groups of clustered items, such as traces of tasks."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from validation.clusters import estimate_share_of_totals
from validation.comparison import Test, combine_limits
from validation.estimate import Estimate
from validation.influence import compute_cluster_variance
from validation.intervals import check_confidence, compute_quantile
from validation.resampling import Floats

LEAST_CLUSTERS = 6  # a side; with fewer, no difference can be significant
_PERMUTATIONS = 10_000
_FEWEST = 999  # permutations of very many clusters, where 10,000 take long
_DEALT = 20_000_000  # permutations times clusters, at most
_CELLS = 2_000_000  # of one array of permutations


@dataclass(frozen=True, slots=True, eq=False)
class SideTotals:
    """The items of one side by cluster, ``n``, shape (G,), and those with each code, ``k``, shape
    (G,) or (codes, G). Both sides of a comparison count the same clusters in the same order, 0
    where a side has none of one.
    """

    k: Floats
    n: Floats

    def of(self, code: int) -> "SideTotals":
        """Return the totals of one of several codes."""
        return SideTotals(self.k[code], self.n)

    @property
    def clusters(self) -> int:
        """How many clusters the side has items of."""
        return int((self.n > 0).sum())


def estimate_clustered_difference(
    first: SideTotals,
    second: SideTotals,
    confidence: float = 0.95,
    least_variance: float = 0.0,
) -> Estimate:
    """Return the difference of two shares, first minus second, with an interval over clusters.

    The variance is the linearised one of the difference: where the sides share clusters, G / (G -
    1) times the sum over clusters of (u1 - u2)^2, u = (k_g - p n_g) / n, with Student's t on G - 1;
    where they share none, the sum of both sides' variances, each at least that of independent
    items, with Welch and Satterthwaite's degrees of freedom. Where a share is 0 or 1, or the
    clusters do not differ, the limits are Wilson's of both sides for their effective numbers,
    combined (Newcombe's method 10).

    Args:
        first: totals of the first side.
        second: totals of the second side, of the same clusters.
        confidence: between 0 and 1, both excluded.
        least_variance: the minimum of the variance if the sides share clusters; for pairs of items
            that of independent pairs.

    Returns:
        In [-1, 1], method "clustered" or "clustered_newcombe". ``inputs``: ``k1``, ``n1``, ``k2``,
        ``n2``, ``p1``, ``p2``, ``clusters1``, ``clusters2``, ``shared_clusters``, ``se`` and
        ``df``. Without items on a side the value is None. With fewer than 6 clusters on a side
        there are no limits, and ``reason`` says why.

    Source: W. G. Cochran, Sampling Techniques (1977), sections 5.12 and 11.5. Own code: the light
    libraries have none.
    """
    check_confidence(confidence)
    share1, share2 = (
        estimate_share_of_totals(side.k.tolist(), side.n.tolist(), confidence)
        for side in (first, second)
    )
    if len(first.n) != len(second.n):
        raise ValueError("both sides must count the same clusters")
    together = int(((first.n > 0) & (second.n > 0)).sum())
    inputs: dict[str, Any] = {
        "k1": share1.k,
        "n1": share1.n,
        "k2": share2.k,
        "n2": share2.n,
        "p1": share1.value,
        "p2": share2.value,
        "clusters1": first.clusters,
        "clusters2": second.clusters,
        "shared_clusters": together,
        "se": None,
        "df": None,
    }
    n = share1.n + share2.n
    if share1.value is None or share2.value is None:
        reason = "a side has no items"
        return Estimate("difference", None, None, None, n, confidence, "clustered", reason, inputs)
    value = share1.value - share2.value
    if too_few := explain_too_few(first, second):
        return Estimate(
            "difference", value, None, None, n, confidence, "clustered", too_few, inputs
        )
    influences = [
        (side.k - share * side.n) / side.n.sum() for side, share in _pair_with_shares(first, second)
    ]
    if together:
        present = (first.n > 0) | (second.n > 0)
        variance = compute_cluster_variance((influences[0] - influences[1])[present])
        variance = max(least_variance, variance)
        df = float(present.sum() - 1)
    else:
        variance, df = _compute_welch_variance(influences, first, second)
    if not variance or {share1.value, share2.value} & {0.0, 1.0}:
        low, high = combine_limits(
            (share1.value, share1.low, share1.high), (share2.value, share2.low, share2.high)
        )
        method = "clustered_newcombe"
        return Estimate("difference", value, low, high, n, confidence, method, None, inputs)
    half = compute_quantile(confidence, df) * math.sqrt(variance)
    inputs |= {"se": math.sqrt(variance), "df": df}
    low, high = max(-1.0, value - half), min(1.0, value + half)
    return Estimate("difference", value, low, high, n, confidence, "clustered", None, inputs)


def explain_too_few(first: SideTotals, second: SideTotals) -> str | None:
    """Return why there is neither interval nor test, None with enough clusters."""
    clusters = min(first.clusters, second.clusters)
    if clusters >= LEAST_CLUSTERS:
        return None
    return f"{clusters} {'cluster' if clusters == 1 else 'clusters'} on a side, fewer than 6"


def _pair_with_shares(first: SideTotals, second: SideTotals) -> list[tuple[SideTotals, float]]:
    return [(side, float(side.k.sum() / side.n.sum())) for side in (first, second)]


def _compute_welch_variance(
    influences: Sequence[Floats], first: SideTotals, second: SideTotals
) -> tuple[float, float]:
    """Return variance and degrees of freedom of a difference of sides without shared clusters."""
    variances, frees = [], []
    for influence, (side, share) in zip(influences, _pair_with_shares(first, second), strict=True):
        alone = share * (1 - share) / float(side.n.sum())
        variances.append(max(alone, compute_cluster_variance(influence[side.n > 0])))
        frees.append(side.clusters - 1)
    parts = sum(v**2 / free for v, free in zip(variances, frees, strict=True))
    return sum(variances), sum(variances) ** 2 / parts if parts else 1.0


def permute_clusters(first: SideTotals, second: SideTotals, seed: int = 0) -> list[Test]:
    """Return a permutation test of no difference for each code.

    The statistic is the difference over its linearised standard error. Sides that share clusters
    swap them, each cluster with a chance of one half; else clusters are dealt to the sides anew, as
    many as each had. p is the share of such arrangements, of all of them or of 10,000 drawn (fewer
    above 2,000 clusters, 999 at least) and the one at hand, that differ as much or more.

    Args:
        first: totals of the first side, ``k`` of shape (codes, G).
        second: totals of the second side, of the same codes and clusters.
        seed: of the draws; the same seed gives the same p.

    Returns:
        ``statistic`` is that of the data, None where it is infinite or undefined; ``n`` counts the
        items. p is None with fewer than 6 clusters on a side, and where no item or every one has
        the code; 1 by convention, with a reason, where no cluster differs.

    Source: J. P. Romano, J. Am. Stat. Assoc. 85 (1990) 686-692, and A. Janssen, Stat. Probab. Lett.
    36 (1997) 9-21 (the studentised statistic); R. A. Fisher, The Design of Experiments (1935),
    section 21 (swaps). Own code: scipy's ``permutation_test`` takes one statistic at a time.
    """
    n = int(first.n.sum() + second.n.sum())
    too_few = explain_too_few(first, second)
    if too_few is not None:
        return [Test("permutation", None, None, n, too_few) for _ in first.k]
    present = (first.n > 0) | (second.n > 0)
    sides = [SideTotals(side.k[:, present], side.n[present]) for side in (first, second)]
    shared = bool(((first.n > 0) & (second.n > 0)).any())
    counts = (int(present.sum()),) * 2 if shared else (first.clusters, second.clusters)
    observed = _studentize(_compute_moments(*sides), np.ones((1, present.sum())), counts)[0]
    if not shared:  # every cluster with its items, to be dealt to the first side or not
        pooled = SideTotals(sides[0].k + sides[1].k, sides[0].n + sides[1].n)
        sides = [pooled, SideTotals(np.zeros_like(pooled.k), np.zeros_like(pooled.n))]
    moments = _compute_moments(*sides)
    dealt = None if shared else (first.n > 0)[present]
    extremes, count = np.zeros(len(first.k)), 0
    for arrangements in _arrange(int(present.sum()), dealt, seed):
        statistics = _studentize(moments, arrangements, counts)
        extremes += (statistics >= observed * (1 - 1e-9)).sum(axis=0)
        count += len(arrangements)
    exact = _count_arrangements(int(present.sum()), dealt) <= _PERMUTATIONS
    tests = []
    equal = (first.k == second.k).all(axis=1) & (first.n == second.n).all()
    for k, statistic, extreme, is_equal in zip(
        first.k + second.k, observed, extremes, equal, strict=True
    ):
        if k.sum() in (0, n):
            reason = f"{'every' if k.sum() else 'no'} item of either side has it"
            tests.append(Test("permutation", None, None, n, reason))
            continue
        if is_equal:
            tests.append(Test("permutation", None, 1.0, n, "no cluster differs"))
            continue
        p = extreme / count if exact else (extreme + 1) / (count + 1)
        finite = bool(np.isfinite(statistic))
        infinite = None if finite else "nothing varies between clusters"
        value = float(np.sqrt(statistic)) if finite else None
        tests.append(Test("permutation", value, min(1.0, float(p)), n, infinite))
    return tests


def _compute_moments(first: SideTotals, second: SideTotals) -> dict[str, tuple[Floats, Floats]]:
    """Return the terms that the statistic sums over clusters, for both sides."""
    k1, n1, k2, n2 = first.k, first.n, second.k, second.n
    pairs = {
        "k": (k1, k2),
        "n": (n1, n2),
        "kk": (k1 * k1, k2 * k2),
        "kn": (k1 * n1, k2 * n2),
        "nn": (n1 * n1, n2 * n2),
        "k with n": (k1 * n2, k2 * n1),
        "k with k": (k1 * k2, k1 * k2),
        "n with n": (n1 * n2, n1 * n2),
    }
    return {name: (np.atleast_2d(a).T, np.atleast_2d(b).T) for name, (a, b) in pairs.items()}


def _studentize(
    moments: dict[str, tuple[Floats, Floats]], stays: Floats, counts: tuple[int, int]
) -> Floats:
    """Return the squared statistic, shape (R, codes), where clusters stay on their side (1) or are
    swapped (0), shape (R, G); ``counts``: the clusters over which each side varies.
    """
    scales = [count / (count - 1) for count in counts]
    first, second = {}, {}
    for name, (stay, move) in moments.items():
        moved = stays @ (stay - move)
        first[name] = moved + move.sum(axis=0)
        second[name] = stay.sum(axis=0) - moved
    with np.errstate(divide="ignore", invalid="ignore"):
        p1, p2 = first["k"] / first["n"], second["k"] / second["n"]
        spread = 0.0
        for side, p, scale in zip((first, second), (p1, p2), scales, strict=True):
            squares = side["kk"] - 2 * p * side["kn"] + p**2 * side["nn"]
            spread = spread + scale * squares / side["n"] ** 2
        cross = first["k with k"] - p1 * second["k with n"] - p2 * first["k with n"]
        cross = (cross + p1 * p2 * first["n with n"]) / (first["n"] * second["n"])
        variance, gap = spread - 2 * scales[0] * cross, (p1 - p2) ** 2
        gap = np.where(gap < 1e-18, 0.0, gap)
        squared: Floats = gap / np.where(variance < 1e-15, 0.0, variance)
    return np.where(gap == 0, 0.0, squared)


def _count_arrangements(count: int, dealt: np.ndarray | None) -> int:
    """Return in how many ways clusters can be swapped, or dealt to the sides."""
    return 2**count if dealt is None else math.comb(count, int(dealt.sum()))


def _arrange(count: int, dealt: np.ndarray | None, seed: int) -> Iterator[Floats]:
    """Yield arrangements of clusters, in blocks of shape (R, G)."""
    if _count_arrangements(count, dealt) <= _PERMUTATIONS:
        if dealt is None:
            arrangements = np.arange(2**count)[:, None] >> np.arange(count) & 1
        else:
            combinations = list(itertools.combinations(range(count), int(dealt.sum())))
            arrangements = (np.array(combinations)[:, :, None] == np.arange(count)).any(axis=1)
        yield arrangements.astype(float)
        return
    random = np.random.default_rng(seed)
    step = max(1, _CELLS // count)
    wished = min(_PERMUTATIONS, max(_FEWEST, _DEALT // count))
    for done in range(0, wished, step):
        size = min(step, wished - done)
        if dealt is None:
            yield random.integers(0, 2, size=(size, count)).astype(float)
        else:
            yield random.permuted(np.tile(dealt.astype(float), (size, 1)), axis=1)
