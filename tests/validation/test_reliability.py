"""Agreement of many raters against published and hand-computed values and pairwise oracles."""

import json
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.growth import FACTOR, LIMIT, growth
from validation.distances import compute_jaccard_distance, compute_masi_distance
from validation.reliability import (
    compute_krippendorff_alpha,
    estimate_gains,
    measure_retest_agreement,
)

# K. Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), section C.
FOUR_OBSERVERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]


@pytest.mark.parametrize(
    ("ratings", "alpha", "units", "values", "digits"),
    [
        # The same report, sections A and C.
        pytest.param(
            [[0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]],
            *(0.095, 10, 20, 5e-4),
            id="binary",
        ),
        pytest.param(FOUR_OBSERVERS, 0.743, 11, 40, 5e-4, id="four-observers"),
        # By hand: Do = 1/4, De = 3/4 of labels a: 3, nan: 3, b: 2; none of them is missing.
        pytest.param(
            [["a", "nan", "b", "nan"], ["a", "b", "b", "nan"]],
            *(1 - (2 / 8) / (42 / 56), 4, 8, 1e-12),
            id="a-label-nan",
        ),
        pytest.param([["a", "b"], ["b", "a"]], -0.5, 2, 4, 1e-12, id="never-the-same"),
        pytest.param([["a", "b"], ["a", "b"]], 1.0, 2, 4, 1e-12, id="always-the-same"),
    ],
)
def test_alpha_known_values(ratings, alpha, units, values, digits):
    found = compute_krippendorff_alpha(ratings, resamples=200)
    assert found.value == pytest.approx(alpha, abs=digits)
    assert (found.n, found.inputs["n_units_used"]) == (units, units)
    assert found.inputs["n_pairable_values"] == values
    seen, by_chance = (found.inputs[f"{name}_disagreement"] for name in ("observed", "expected"))
    assert found.value == pytest.approx(1 - seen / by_chance)
    json.dumps(found.as_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("ratings", "reason"),
    [
        ([], "no unit has two ratings"),
        ([[], []], "no unit has two ratings"),
        ([["a", "b"]], "no unit has two ratings"),
        ([["a", None], [None, "b"]], "no unit has two ratings"),
        ([["a", "a"], ["a", "a"]], "all ratings are the same"),
        ([["a", "a", "b"], ["a", "a", None]], "all ratings are the same"),
    ],
)
def test_alpha_undefined(ratings, reason):
    found = compute_krippendorff_alpha(ratings, resamples=50)
    assert (found.value, found.low, found.high, found.method) == (None, None, None, "none")
    assert found.reason.startswith(reason)


def alpha_by_pairs(ratings, distance):
    """The definition: mean distances within units and over all, pair by pair."""
    units = [[one for one in unit if one is not None] for unit in zip(*ratings, strict=True)]
    units = [unit for unit in units if len(unit) > 1]
    values = [one for unit in units for one in unit]
    n = len(values)
    apart = sum(
        sum(distance(a, b) for a, b in permutations(unit, 2)) / (len(unit) - 1) for unit in units
    )
    total = sum(distance(a, b) for a, b in permutations(values, 2))
    return 1 - (n - 1) * apart / total if total else None


SETS = st.frozensets(st.sampled_from("abc")) | st.none()
DISTANCES = {
    "nominal": lambda a, b: float(a != b),
    "jaccard": compute_jaccard_distance,
    "masi": compute_masi_distance,
}


@given(
    st.lists(st.tuples(SETS, SETS, SETS), max_size=8),
    st.sampled_from(["nominal", "jaccard", "masi"]),
)
def test_alpha_is_the_one_of_all_pairs(units, distance):
    ratings = [list(rater) for rater in zip(*units, strict=True)]
    found = compute_krippendorff_alpha(ratings, distance=distance, resamples=1)
    wanted = alpha_by_pairs(ratings, DISTANCES[distance])
    assert found.value == (wanted if wanted is None else pytest.approx(wanted, abs=1e-9))


@pytest.mark.parametrize("distance", ["nominal", "masi"])
def test_interval_is_the_one_of_resampled_units(distance):
    random = np.random.default_rng(3)
    values = [frozenset("ab"), frozenset("a"), frozenset("c"), frozenset()]
    first = [values[i] for i in random.integers(0, 4, 60)]
    second = [one if random.random() < 0.7 else values[random.integers(0, 4)] for one in first]
    clusters = [item // 3 for item in range(60)]
    found = compute_krippendorff_alpha([first, second], distance=distance, clusters=clusters)
    by_hand = []
    for _ in range(300):
        drawn = [3 * g + i for g in random.integers(0, 20, 20) for i in range(3)]
        ratings = [[side[i] for i in drawn] for side in (first, second)]
        by_hand.append(compute_krippendorff_alpha(ratings, distance=distance, resamples=1).value)
    limits = np.quantile(by_hand, [0.025, 0.975])
    assert (found.low, found.high) == pytest.approx(tuple(limits), abs=0.04)
    assert found.inputs["clusters"] == 20


def test_neither_pairs_of_units_nor_every_draw_take_time():
    def alpha(units, draws=1):
        ratings = [rater[:units] for rater in many]
        return compute_krippendorff_alpha(ratings, resamples=draws)

    many = np.random.default_rng(0).integers(0, 11, (2, 300 * FACTOR)).tolist()
    assert growth(alpha, 300, 300 * FACTOR) < LIMIT
    assert growth(lambda draws: alpha(300, draws), 1, 10_000) < 1_000  # values' worth of time


def test_perfect_agreement_and_one_cluster_have_no_interval():
    assert "do not differ" in compute_krippendorff_alpha([["a", "b", "b"] * 9] * 2).reason
    found = compute_krippendorff_alpha([["a", "b", "b"], ["a", "b", "a"]], clusters=["t"] * 3)
    assert found.value is not None
    assert (found.low, found.method) == (None, "none")
    assert "1 cluster" in found.reason


RUNS = [["a", "a", "a"], ["a", "b", "a"], ["none"] * 3, ["b"] * 3, ["b", "a", "c"], ["c"] * 3]


def test_retest_by_hand():
    found = measure_retest_agreement(RUNS, resamples=500)
    # 4 unanimous traces, one with 1 of 3 pairs, one with none.
    assert found.mean_pairwise_agreement.value == pytest.approx((4 + 1 / 3) / 6)
    assert found.share_unanimous.value == pytest.approx(4 / 6)
    assert found.share_unanimous.method == "wilson"
    assert {code: (flips.given, flips.flipped) for code, flips in found.flips.items()} == {
        **{"a": (3, 2), "b": (3, 2), "c": (2, 1), "none": (1, 0)}
    }
    assert found.flips["a"].rate == pytest.approx(2 / 3)
    assert found.n == 6
    json.dumps(found.as_dict(), allow_nan=False)


def test_retest_with_failed_runs():
    found = measure_retest_agreement(
        [["a", "a", "b"], ["a", None, "b"], [None, "a", None], [None] * 3, []]
    )
    assert found.n == 2
    assert found.mean_pairwise_agreement.value == pytest.approx((1 / 3 + 0) / 2)
    assert found.flips["a"].given == 2


def test_retest_without_runs():
    found = measure_retest_agreement([])
    assert (found.n, found.flips) == (0, {})
    for one in (found.mean_pairwise_agreement, found.share_unanimous, found.krippendorff_alpha):
        assert one.value is None
        assert one.reason


def test_retest_of_a_steady_judge():
    found = measure_retest_agreement([["a", "a"], ["b", "b"], ["a", "a"]], clusters=["t", "t", "u"])
    assert found.mean_pairwise_agreement.value == found.krippendorff_alpha.value == 1
    assert found.mean_pairwise_agreement.low is None
    assert found.share_unanimous.low < 1


def test_gains_over_another_judge():
    """By hand. The first judge is right on the first and third of four items: agreement .5, kappa
    0; the second on all. Without one of the items the gain in kappa is 1.5, .6, 1.5 and .6: mean
    1.05, squares .81, so the error is the root of 3/4 * .81. Gains of agreement are 0, 1, 0, 1.
    """
    sides = "aabb", "aabb", "abba"
    kappa, agreement = estimate_gains(*sides, clusters="wxyz")
    assert kappa.value == pytest.approx(1)
    assert kappa.inputs["standard_error"] == pytest.approx((0.75 * 0.81) ** 0.5)
    half = 3.182446 * (0.75 * 0.81) ** 0.5  # t of 3
    assert (kappa.low, kappa.high) == pytest.approx((1 - half, 1 + half))
    assert agreement.value == 0.5
    assert agreement.inputs["standard_error"] == pytest.approx((1 / 3 / 4) ** 0.5)
    weighted, _ = estimate_gains(*sides, clusters="wxyz", weights=[2, 2, 2, 2])
    assert (weighted.value, weighted.low) == pytest.approx((kappa.value, kappa.low))


@pytest.mark.parametrize(
    ("sides", "clusters", "value", "reason"),
    [
        (("aabb", "abab", "abab"), "wxyz", 0, "the same without any of the clusters"),
        (("aabb", "aabb", "abba"), "wwww", 1, "leaving one out needs at least 2"),
        (("aabb", "aabb", "abba"), "wwyy", 1, "undefined without one of the clusters"),
        (("aaaa", "aaaa", "aaaa"), "wxyz", None, "one label"),
    ],
)
def test_gains_without_an_interval(sides, clusters, value, reason):
    kappa, _ = estimate_gains(*sides, clusters=clusters)
    assert (kappa.value, kappa.low, kappa.high) == (value, None, None)
    assert reason in kappa.reason
