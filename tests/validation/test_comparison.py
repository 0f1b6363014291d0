"""Differences, tests and tables of codes."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, chi2, false_discovery_control

from validation import (
    adjust_p_values,
    estimate_clustered_share,
    estimate_difference,
    estimate_paired_difference,
    estimate_rogan_gladen,
    run_fisher_test,
    run_mcnemar_test,
    subtract_estimates,
)


# Newcombe, Stat. Med. 17 (1998) 873, table II, method 10.
@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [
        ((56, 70, 48, 80), 0.0524, 0.3339),
        ((9, 10, 3, 10), 0.1705, 0.8090),
        ((6, 7, 2, 7), 0.0582, 0.8062),
        ((5, 56, 0, 29), -0.0381, 0.1926),
        ((0, 10, 0, 20), -0.1611, 0.2775),
        ((0, 10, 0, 10), -0.2775, 0.2775),
        ((10, 10, 0, 20), 0.6791, 1.0),
        ((10, 10, 0, 10), 0.6075, 1.0),
    ],
)
def test_difference_published(counts, low, high):
    found = estimate_difference(*counts)
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)
    mirrored = estimate_difference(*counts[2:], *counts[:2])
    assert (mirrored.low, mirrored.high) == pytest.approx((-found.high, -found.low))


# z^2 is Pearson's chi-squared, N (ad - bc)^2 over the product of the four margins.
@pytest.mark.parametrize(
    ("counts", "squared"),
    [
        ((9, 10, 3, 10), 20 * 60**2 / (10 * 10 * 12 * 8)),
        ((6, 7, 2, 7), 14 * 28**2 / (7 * 7 * 8 * 6)),
        ((10, 10, 0, 20), 30),
    ],
)
def test_difference_z_by_hand(counts, squared):
    found = estimate_difference(*counts).inputs
    assert found["z"] == pytest.approx(math.sqrt(squared))
    assert found["p"] == pytest.approx(chi2(1).sf(squared))
    assert estimate_difference(*counts[2:], *counts[:2]).inputs["z"] == pytest.approx(-found["z"])


# Newcombe, Stat. Med. 17 (1998) 2635, table IV, method 10.
@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [
        ((36, 12, 2, 0), 0.0569, 0.3404),
        ((18, 12, 2, 18), 0.0562, 0.3290),
        ((0, 12, 2, 36), 0.0569, 0.3404),
        ((30, 0, 0, 24), -0.0358, 0.0358),
        ((54, 0, 0, 0), -0.0664, 0.0664),
    ],
)
def test_paired_difference_published(counts, low, high):
    found = estimate_paired_difference(*counts)
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)
    both, first, second, neither = counts
    mirrored = estimate_paired_difference(both, second, first, neither)
    assert (mirrored.low, mirrored.high) == pytest.approx((-found.high, -found.low))


def test_no_trials_are_undefined():
    for found in (
        estimate_difference(0, 0, 1, 2),
        estimate_difference(1, 2, 0, 0),
        estimate_paired_difference(0, 0, 0, 0),
    ):
        assert (found.value, found.low, found.high) == (None, -1.0, 1.0)
        assert found.reason in ("a group has no trials", "no items")
        json.dumps(found.as_dict(), allow_nan=False)
    same = estimate_difference(2, 2, 3, 3)
    assert (same.value, same.inputs["z"], same.inputs["p"]) == (0.0, None, None)


COUNTS = st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(COUNTS, COUNTS)
def test_limits_surround_the_difference(one, other):
    found = estimate_difference(*one, *other)
    assert -1 <= found.low <= found.value <= found.high <= 1
    share, second = ([1] * k + [0] * (n - k) for k, n in (one, other))
    again = subtract_estimates(estimate_clustered_share(share), estimate_clustered_share(second))
    assert (again.low, again.high) == (found.low, found.high)


@given(*[st.integers(0, 60)] * 4)
def test_limits_surround_the_paired_difference(both, first_only, second_only, neither):
    found = estimate_paired_difference(both, first_only, second_only, neither)
    assert -1 <= found.low <= (found.value or 0) <= found.high <= 1


def test_mover_of_what_is_undefined():
    share, nothing = estimate_clustered_share([1, 0]), estimate_clustered_share([])
    assert subtract_estimates(share, nothing).reason == "the second is undefined: no items"
    assert subtract_estimates(nothing, share).value is None
    assert "no interval" in subtract_estimates(estimate_rogan_gladen(5, 10, 0.9, 0.9), share).reason


@pytest.mark.parametrize(
    ("table", "statistic", "p"),
    [
        # Fisher's tea: 3 of 4 right, two-sided 34/70.
        ([[3, 1], [1, 3]], 9.0, 34 / 70),
        ([[3, 0], [0, 3]], None, 2 / 20),
        ([[0, 3], [3, 0]], 0.0, 2 / 20),
        ([[0, 0], [3, 4]], None, 1.0),
        ([[0, 3], [0, 4]], None, 1.0),
        ([[0, 0], [0, 0]], None, None),
    ],
)
def test_fisher(table, statistic, p):
    found = run_fisher_test(table)
    assert found.statistic == statistic
    assert found.p == (p and pytest.approx(p))
    assert (found.reason is None) == (statistic is not None)
    assert found.n == sum(map(sum, table))


def test_mcnemar():
    # Agresti, Categorical Data Analysis, table 11.1: z^2 = 17.36.
    approval = run_mcnemar_test(86, 150, "chi2")
    assert approval.statistic == pytest.approx(17.36, abs=5e-3)
    exact = run_mcnemar_test(86, 150)
    assert exact.p == pytest.approx(binomtest(86, 236).pvalue)
    for test in (run_mcnemar_test(3, 3), run_mcnemar_test(0, 1), run_mcnemar_test(3, 3, "chi2")):
        assert test.p == 1
    for method in ("exact", "chi2"):
        assert run_mcnemar_test(0, 0, method).p == 1
        assert run_mcnemar_test(0, 0, method).reason == "both gave every item the same answer"


P_VALUES = st.lists(st.none() | st.floats(0, 1))


@given(P_VALUES)
def test_adjusted_p_values(p_values):
    made = [p for p in p_values if p is not None]
    bh, holm = adjust_p_values(p_values, "bh"), adjust_p_values(p_values)
    for adjusted in (bh, holm):
        assert [one is None for one in adjusted] == [one is None for one in p_values]
    kept = [one for one in bh if one is not None]
    if made:
        assert kept == pytest.approx(list(false_discovery_control(made)))
    for p, one, other in zip(p_values, bh, holm, strict=True):
        assert p is None or p <= one * (1 + 1e-12) <= other * (1 + 1e-9) <= 1 + 1e-9


def test_holm_by_hand():
    assert adjust_p_values([0.01, None, 0.04, 0.03]) == pytest.approx([0.03, None, 0.06, 0.06])
