"""Effective numbers and shares of clustered, weighted items."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from validation import compute_wilson_interval, estimate_clustered_share, estimate_share_of_totals
from validation.clusters import compute_effective_size

VALUES = [1, 1, 0, 1, 0, 0, 1, 1]
TASKS = ["a", "a", "a", "b", "b", "b", "c", "c"]


@pytest.mark.parametrize(
    ("weights", "n_effective"),
    [
        pytest.param([], 0.0, id="none"),
        pytest.param([7], 1.0, id="one"),
        pytest.param([2, 2, 2], 3.0, id="equal"),
        pytest.param([1, 3], 1.6, id="two"),  # 16 / 10
        pytest.param([4] * 50 + [16] * 50, 1000 / 13.6, id="strata"),
        pytest.param([1e-300, 3e-300], 1.6, id="tiny"),
        pytest.param([1e300, 3e300], 1.6, id="huge"),
    ],
)
def test_kish(weights, n_effective):
    assert compute_effective_size(weights) == pytest.approx(n_effective)


def test_design_effect_by_hand():
    # p = 5/8; task totals (2, 1, 2) of (3, 3, 2); deviations 1/8, -7/8, 6/8 over n = 8.
    found = estimate_clustered_share(VALUES, TASKS)
    variance = 3 / 2 * (1 + 49 + 36) / 64 / 64
    assert found.value == 5 / 8
    assert found.inputs["se_cluster"] == pytest.approx(variance**0.5)
    assert found.inputs["design_effect"] == pytest.approx(variance / (15 / 64 / 8))
    assert found.inputs["n_effective"] == pytest.approx(8 / found.inputs["design_effect"])
    assert (found.inputs["clusters"], found.inputs["df"]) == (3, 2)
    assert (found.n, found.method, found.reason) == (8, "wilson_effective", None)


def test_totals_give_the_same_interval():
    expected = estimate_clustered_share(VALUES, TASKS)
    found = estimate_share_of_totals([2, 1, 2, 0], [3, 3, 2, 0])
    assert (found.value, found.k, found.n) == (expected.value, 5, 8)
    assert found.design_effect == pytest.approx(expected.inputs["design_effect"])
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert (found.clusters, found.clusters_with) == (3, 3)


@pytest.mark.parametrize(("k", "n"), [([0, 0], [5, 5]), ([5, 5], [5, 5]), ([1, 1], [2, 2])])
def test_totals_that_show_no_design_effect(k, n):
    found = estimate_share_of_totals(k, n)
    assert found.design_effect == 1.0
    expected = estimate_clustered_share([1] * sum(k) + [0] * (sum(n) - sum(k)), [0] * sum(n))
    assert found.value == expected.value
    assert found.low < found.high


@pytest.mark.parametrize(
    ("k", "n", "reason"),
    [([], [], "no trials"), ([3], [5], "one cluster"), ([0, 2], [0, 5], "one")],
)
def test_totals_of_too_few_clusters(k, n, reason):
    found = estimate_share_of_totals(k, n)
    assert (found.low, found.high) == (0.0, 1.0)
    assert reason in found.reason


def test_independent_items_are_plain_wilson():
    found = estimate_clustered_share(VALUES, confidence=0.9)
    plain = compute_wilson_interval(5, 8, 0.9)
    assert (found.value, found.low, found.high) == (plain.value, plain.low, plain.high)
    assert found.method == "wilson"
    assert found.inputs["n_effective"] == 8


def test_weights_count():
    found = estimate_clustered_share([1, 0], weights=[3, 1])
    assert found.value == 0.75
    assert found.inputs["n_effective"] == pytest.approx(1.6)
    assert found.inputs["k"] == 1
    assert found.inputs["k_weighted"] == 3
    assert found.inputs["icc_anova"] is None


def test_clusters_that_agree_within_are_the_items():
    values = [1, 1, 1, 1, 0, 0, 0, 0]
    found = estimate_clustered_share(values, [1, 1, 2, 2, 3, 3, 4, 4])
    assert found.inputs["n_effective"] == pytest.approx(3)  # 4 clusters, with G / (G - 1)
    assert found.inputs["icc_anova"] == pytest.approx(1)


def test_intraclass_correlation_by_hand():
    """Clusters 1 1 and 0 0 1 0: mean squares .75 between and .1875 within, mean size 8 / 3, so
    (.75 - .1875) / (.75 + 5 / 3 * .1875).
    """
    found = estimate_clustered_share([1, 1, 0, 0, 1, 0], [1, 1, 2, 2, 2, 2])
    assert found.inputs["icc_anova"] == pytest.approx(9 / 17)


def test_least_design_effect():
    values, tasks = [1, 0, 1, 0, 1, 0, 0], [1, 1, 2, 2, 3, 3, 3]
    assert estimate_clustered_share(values, tasks).inputs["design_effect"] < 1
    assert estimate_clustered_share(values, tasks, least_design_effect=1).inputs["n_effective"] == 7


@pytest.mark.parametrize("values", [[1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 1, 0]])
def test_no_design_effect_to_see_is_assumed(values):
    tasks = ["a", "a", "b", "b"]
    for least, taken in ((0.0, 1.0), (2.5, 2.5)):
        found = estimate_clustered_share(values, tasks, least_design_effect=least)
        assert found.inputs["design_effect"] == taken
        assert f"{taken:g} is assumed" in found.inputs["note"]
        assert found.low < found.high


def test_undefined():
    for tasks, weights in ((None, None), ([], None), ([], [])):
        found = estimate_clustered_share([], tasks, weights)
        assert (found.value, found.low, found.high, found.reason) == (None, 0.0, 1.0, "no items")
    one = estimate_clustered_share([1, 0, 1], ["a", "a", "a"])
    assert (one.value, one.low, one.high) == (2 / 3, 0.0, 1.0)
    assert "one cluster" in one.reason
    for found in (
        one,
        estimate_clustered_share(VALUES, TASKS, [1] * 8),
        estimate_clustered_share([1] * 8, TASKS),
    ):
        json.dumps(found.as_dict(), allow_nan=False)


ITEMS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 4), st.floats(0.1, 50)), min_size=1)


@given(ITEMS)
def test_limits_surround_the_share(items):
    values, tasks, weights = zip(*items, strict=True)
    found = estimate_clustered_share(values, tasks, weights)
    assert 0 <= found.low <= found.value <= found.high <= 1


@given(ITEMS, st.randoms(), st.floats(0.01, 100))
def test_order_and_unit_of_weights_do_not_matter(items, random, unit):
    one = estimate_clustered_share(*zip(*items, strict=True))
    shuffled = random.sample(items, len(items))
    values, tasks, weights = zip(*shuffled, strict=True)
    other = estimate_clustered_share(
        values, [f"task {task}" for task in tasks], np.array(weights) * unit
    )
    assert (one.value, one.low, one.high) == pytest.approx(
        (other.value, other.low, other.high), abs=1e-6
    )
