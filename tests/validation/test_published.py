"""Areas under curves and what is kept of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from validation import (
    auc,
    matches_printed,
    percent_difference,
    possible_counts,
    retention,
    round_half_up,
    row_means,
)


def test_area_covers_the_given_points_only():
    found = auc([0.05, 0.95], [1, 1])
    assert found.value == pytest.approx(0.9)
    assert (found.inputs["from"], found.inputs["to"], found.method) == (0.05, 0.95, "none")
    gap = auc([0, 1, 3], [1, None, 0])
    assert (gap.value, gap.n, gap.inputs["left_out"]) == (1.5, 2, 1)
    for midpoints, rates in (([], []), ([0.5], [1]), ([0, 1], [None, 1])):
        nothing = auc(midpoints, rates)
        assert (nothing.value, nothing.reason) == (None, "fewer than two points")


def test_retention():
    found = retention(0.469, 0.283)
    assert found.value == pytest.approx(0.6034115)
    # Exact in the printed decimals, and never -0.
    assert (found.inputs["delta"], retention(0.3, 0.1).inputs["delta"]) == (0.186, 0.2)
    assert str(retention(1.5, 1.5).inputs["delta"]) == "0.0"
    assert retention(0.0, 0.0).value is None
    assert "nothing was solved solo" in retention(0.0, 0.1).reason


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: auc([0, 1], [1]), "2 midpoints, 1 rates"),
        (lambda: auc([1, 0], [1, 1]), "midpoints must rise"),
        (lambda: auc([0, 1], [1, float("nan")]), "must be a finite number"),
        (lambda: retention(-1, 0), "auc_solo must not be negative"),
    ],
)
def test_bad_input_raises(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("percent", "n", "decimals", "counts"),
    [
        # CooperBench, arXiv 2601.13295, table 6 with 652 pairs.
        (25.92, 652, 2, [169]),
        (27.90, 652, 2, []),
        (13.88, 652, 2, []),
        (96, 50, 0, [48]),
        (0.0, 7, 1, [0]),
        (100, 7, 0, [7]),
        (33, 1000, 0, [*range(325, 336)]),  # 32.5 and 33.5 are rounded either way
        (101, 50, 0, []),
    ],
)
def test_possible_counts(percent, n, decimals, counts):
    assert possible_counts(percent, n, decimals) == counts


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_real_count_is_possible(counts):
    k, n = counts
    assert k in possible_counts(round_half_up(100 * k / n, 2), n, 2)


def test_differences_are_exact_in_decimals():
    assert percent_difference(0.3, 0.1) == 0.2
    assert percent_difference(25.92, 27.3) == -1.38
    assert str(percent_difference(1.5, 1.5)) == "0.0"
    # Table 6 prints -0.1 for this one.
    assert percent_difference(27.90, 27.91) == -0.01
    assert not matches_printed(-0.01, -0.1, 1)


@pytest.mark.parametrize(
    ("value", "decimals", "printed"),
    [(-1.38, 1, -1.4), (-0.01, 1, 0.0), (2.675, 2, 2.68), (-0.25, 1, -0.3), (17.636, 2, 17.64)],
)
def test_rounding_as_in_tables(value, decimals, printed):
    assert round_half_up(value, decimals) == printed
    assert matches_printed(value, printed, decimals)
    assert str(round_half_up(-0.01, 1)) == "0.0"


def test_means_of_columns():
    assert row_means([[0.506, 0.325], [0.469, 0.283], [0.374, 0.171]]) == pytest.approx(
        [1.349 / 3, 0.779 / 3]
    )
