"""Differences of clustered shares, and tests that deal whole clusters anew."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from validation import (
    SideTotals,
    compute_influences,
    estimate_clustered_difference,
    permute_clusters,
)
from validation.influence import compute_cluster_variance

# Seven tasks that both sides have.
K1, N1 = [3, 1, 2, 4, 0, 2, 3], [4, 3, 5, 4, 2, 3, 6]
K2, N2 = [1, 1, 0, 2, 0, 1, 1], [3, 3, 4, 5, 2, 2, 6]


def side_totals(k, n):
    return SideTotals(np.asarray(k, dtype=float), np.asarray(n, dtype=float))


def influences(k, n):
    share = sum(k) / sum(n)
    return [(a - share * b) / sum(n) for a, b in zip(k, n, strict=True)]


def test_a_difference_over_shared_clusters_by_hand():
    found = estimate_clustered_difference(side_totals(K1, N1), side_totals(K2, N2))
    u = [a - b for a, b in zip(influences(K1, N1), influences(K2, N2), strict=True)]
    error = math.sqrt(7 / 6 * sum(x * x for x in u))
    value, half = 15 / 27 - 6 / 25, stats.t(6).ppf(0.975) * error
    assert found.value == pytest.approx(value)
    assert (found.low, found.high) == pytest.approx((value - half, value + half))
    assert found.inputs["se"] == pytest.approx(error)
    assert (found.inputs["df"], found.inputs["shared_clusters"]) == (6, 7)
    wide = estimate_clustered_difference(
        side_totals(K1, N1), side_totals(K2, N2), 0.95, 4 * error**2
    )
    assert wide.inputs["se"] == pytest.approx(2 * error)


def test_a_difference_of_clusters_apart_by_hand():
    """Welch's degrees of freedom; each variance at least that of independent items."""
    zeros = [0] * 7
    found = estimate_clustered_difference(
        side_totals(K1 + zeros, N1 + zeros), side_totals(zeros + K2, zeros + N2)
    )
    parts = []
    for k, n in ((K1, N1), (K2, N2)):
        share = sum(k) / sum(n)
        over_tasks = 7 / 6 * sum(u * u for u in influences(k, n))
        parts.append(max(over_tasks, share * (1 - share) / sum(n)))
    df = sum(parts) ** 2 / sum(part**2 / 6 for part in parts)
    half = stats.t(df).ppf(0.975) * math.sqrt(sum(parts))
    assert found.inputs["df"] == pytest.approx(df)
    assert found.high - found.value == pytest.approx(half)


@pytest.mark.parametrize("k", [[0] * 7, N2])
def test_a_share_of_all_or_none_has_the_limits_of_its_side(k):
    found = estimate_clustered_difference(side_totals(K1, N1), side_totals(k, N2))
    assert found.method == "clustered_newcombe"
    assert -1 <= found.low < found.value < found.high <= 1
    same = estimate_clustered_difference(side_totals([0] * 7, N1), side_totals([0] * 7, N2))
    assert same.low < 0 == same.value < same.high


def test_too_few_clusters_have_neither_limits_nor_p():
    first, second = side_totals(K1[:5], N1[:5]), side_totals(K2[:5], N2[:5])
    found = estimate_clustered_difference(first, second)
    assert found.value is not None
    assert (found.low, found.high) == (None, None)
    [test] = permute_clusters(side_totals([K1[:5]], N1[:5]), side_totals([K2[:5]], N2[:5]))
    assert test.p is None
    assert found.reason == test.reason == "5 clusters on a side, fewer than 6"


def statistic(k1, n1, k2, n2):
    """The difference over its standard error, as each of the two estimators has it."""
    gap = sum(k1) / sum(n1) - sum(k2) / sum(n2)
    parts = [(np.array(influences(k, n)), np.array(n) > 0) for k, n in ((k1, n1), (k2, n2))]
    if any(a and b for a, b in zip(n1, n2, strict=True)):
        return abs(gap) / math.sqrt(compute_cluster_variance(parts[0][0] - parts[1][0]))
    variance = sum(compute_cluster_variance(u[own]) for u, own in parts)
    return abs(gap) / math.sqrt(variance) if variance else math.inf if gap else 0.0


def test_swapping_shared_clusters_by_enumeration():
    """All 128 ways to swap the sides of seven tasks, one after the other."""
    at_hand = statistic(K1, N1, K2, N2)
    more = 0
    for swaps in itertools.product((False, True), repeat=7):
        rows = [
            (*b, *a) if swap else (*a, *b)
            for swap, a, b in zip(
                swaps, zip(K1, N1, strict=True), zip(K2, N2, strict=True), strict=True
            )
        ]
        more += statistic(*zip(*rows, strict=True)) >= at_hand - 1e-9
    [test] = permute_clusters(side_totals([K1], N1), side_totals([K2], N2))
    assert test.p == pytest.approx(more / 128)
    assert test.statistic == pytest.approx(at_hand)
    assert test.n == 52


@pytest.mark.parametrize(
    ("k", "size", "p"),
    [
        ([3, 4, 2, 5, 4, 3, 1, 2, 0, 2, 1, 3], 6, None),
        # Sides of six and seven clusters: each varies over its own number of them.
        ([3, 4, 2, 5, 4, 3, 1, 2, 0, 2, 1, 3, 2], 6, None),
        # Every item of one side and none of the other: only the other way round differs as much.
        ([1] * 6 + [0] * 6, 6, 2 / 924),
    ],
)
def test_dealing_clusters_anew_by_enumeration(k, size, p):
    """All 924 or 1,716 ways to deal the clusters, one after the other."""
    n = [max(k)] * len(k)

    def deal(chosen):
        sides = ([at in chosen for at in range(len(k))], [at not in chosen for at in range(len(k))])
        return [
            [x * own for x, own in zip(numbers, side, strict=True)]
            for side in sides
            for numbers in (k, n)
        ]

    k1, n1, k2, n2 = deal(range(size))
    at_hand = statistic(k1, n1, k2, n2)
    ways = itertools.combinations(range(len(k)), size)
    every = [statistic(*deal(chosen)) >= at_hand * (1 - 1e-9) for chosen in ways]
    [test] = permute_clusters(side_totals([k1], n1), side_totals([k2], n2))
    assert test.p == pytest.approx(sum(every) / len(every) if p is None else p)
    assert test.statistic == (None if at_hand == math.inf else pytest.approx(at_hand))


def test_nothing_to_test():
    both, every, none = (side_totals([k], N1) for k in (K1, N1, [0] * 7))
    [alike] = permute_clusters(both, both)
    assert (alike.p, alike.reason) == (1.0, "no cluster differs")
    for side, which in ((every, "every"), (none, "no")):
        [test] = permute_clusters(side, side)
        assert (test.p, test.reason) == (None, f"{which} item of either side has it")


def test_sides_of_other_clusters_are_refused():
    with pytest.raises(ValueError, match="the same clusters"):
        estimate_clustered_difference(side_totals(K1, N1), side_totals(K2[:6], N2[:6]))


# Influences


def test_influences_by_hand():
    """Three tasks of 4, 4 and 2 traces, 2, 1 and 1 flagged; five labels, of which one weighs 2.

    W = .4. Flagged labels: yes (weight 1, task 0), no (weight 1, task 1): p1 = .5. Others: yes
    (weight 2, task 0), no (1, task 1), no (1, task 2): p0 = .5. share = .5, hits = .2.
    """
    found = compute_influences(
        [[2, 2], [1, 3], [1, 1]], [0, 1, 0, 1, 2], [0, 0, 1, 1, 1], [1, 0, 1, 0, 0], [1, 1, 2, 1, 1]
    )
    assert (found.share, found.hits) == (0.5, pytest.approx(0.2))
    # p is the same in both cells, so traces add nothing to the share; labels do.
    flagged, others = [0.4 * 0.5 / 2, -0.4 * 0.5 / 2, 0], [0.6 * 2 * 0.5 / 4] + [-0.6 * 0.5 / 4] * 2
    assert found.on_share == pytest.approx([a + b for a, b in zip(flagged, others, strict=True)])
    traces = [(2 * 0.5 - 4 * 0.2) / 10, (0.5 - 4 * 0.2) / 10, (0.5 - 2 * 0.2) / 10]
    assert found.on_hits == pytest.approx([a + b for a, b in zip(flagged, traces, strict=True)])
    assert found.variance == pytest.approx(3 / 2 * float((found.on_share**2).sum()))
    assert sum(found.on_share) == pytest.approx(0)
    assert compute_cluster_variance(np.array([0.5])) == 0


def test_recall_variance_by_hand():
    """W = .4 of 10, p1 = 1 / 2, p0 = 1 / 4: share .35, recall 4 / 7. The variance of hits - recall
    times share is [.4 (3 / 14)^2 + .6 (1 / 7)^2] / 10 of the traces, (.4 * 3 / 7)^2 .25 / 2 of the
    flagged labels and (.6 * 4 / 7)^2 .1875 / 4 of the others, .6 / 49 in all.
    """
    found = compute_influences([[4, 6]], [0] * 6, [0, 0, 1, 1, 1, 1], [1, 0, 1, 0, 0, 0])
    assert (found.share, found.hits) == (pytest.approx(0.35), pytest.approx(0.2))
    assert found.recall_variance == pytest.approx(0.6 / 49 / 0.35**2)


def test_influences_of_three_answers_by_hand():
    """Two tasks: 1 flagged, 1 unflagged and 2 undecided; 1, 3 and 0. W = .25, .5, .25. Labels: a
    flagged yes (task 0), an unflagged no (1), of the undecided a yes and a no (0): p = 1, 0, .5.
    share = .25 + .125. Its traces add (1 + 2 * .5 - 4 * .375) / 8 in task 0 and (1 - 4 * .375) / 8
    in task 1; the labels of the undecided add .25 * .5 / 2 and as much less, both in task 0.
    """
    found = compute_influences([[1, 1, 2], [1, 3, 0]], [0, 1, 0, 0], [0, 1, 2, 2], [1, 0, 1, 0])
    assert (found.share, found.hits) == (0.375, 0.25)
    assert found.on_share == pytest.approx([0.5 / 8, -0.5 / 8])
    assert found.on_hits == pytest.approx([(1 - 4 * 0.25) / 8] * 2)
    # Recall is 2 / 3: its slopes are 1 / 3 and -2 / 3, and p = 1, 0, .5, so traces vary it by
    # (.25 / 9 + .25 / 9) / 8, and the two undecided labels by (.25 * 2 / 3)^2 / 4 / 2.
    assert found.recall_variance == pytest.approx((0.5 / 72 + 1 / 288) / 0.375**2)


def test_recall_of_independent_traces_has_no_design_effect():
    rng = np.random.default_rng(2)
    judge, human = rng.random(400) < 0.4, rng.random(400) < 0.3
    counts = np.column_stack([judge, ~judge])
    found = compute_influences(counts, list(range(400)), ~judge, human | judge)
    assert found.recall_design_effect == pytest.approx(1, abs=0.3)
    alike = compute_influences([[200, 0], [0, 200]], [0, 0, 1, 1], [0, 0, 1, 1], [1, 1, 0, 1])
    assert alike.recall_design_effect > 1


@pytest.mark.parametrize("sizes", [(4, 2, 2), (6, 1)])
def test_a_rare_code_on_sides_of_unequal_size_is_not_rejected_too_often(sizes):
    """In 400 draws of a share of .04, without a difference, of 17 clusters that the sides share."""
    n = np.repeat(np.array(sizes, float)[:, None], 17, axis=1)
    k = np.random.default_rng(2).binomial(n.astype(int), 0.04, (400, *n.shape)).astype(float)
    tests = permute_clusters(*(SideTotals(k[:, side], n[side]) for side in range(len(sizes))))
    p = [test.p for test in tests if test.p is not None]
    assert sum(x < 0.05 for x in p) / 400 <= 0.05 + 3 * (0.05 * 0.95 / 400) ** 0.5
