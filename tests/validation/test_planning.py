"""Expected widths of planned labels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from validation import (
    Cell,
    compute_sample_size,
    compute_wilson_limits,
    poststratify,
    predict_half_width,
)


def test_expected_half_width_at_whole_counts_is_the_real_one():
    cells = Cell(0.8, 28, 35, 35), Cell(0.2, 13, 65, 65)
    real = poststratify(1000, 350, *cells, confidence=0.9)
    expected = predict_half_width(0.35, 0.8, 0.2, 35, 65, 1000, 0.9)
    assert expected == pytest.approx((real.high - real.low) / 2)


def test_expected_half_width_knows_undecided_traces():
    cells = Cell(0.8, 28, 35, 35), Cell(0.2, 13, 65, 65)
    real = poststratify(1000, 350, *cells, others=[(400, Cell(0.5, 20, 40, 40))])
    expected = predict_half_width(0.35, 0.8, 0.2, 35, 65, 1000, others=[(400, 0.5, 40)])
    assert expected == pytest.approx((real.high - real.low) / 2)
    blind = predict_half_width(0.35, 0.8, 0.2, 35, 65, 1000, others=[(400, 0.5, 0)])
    assert blind > 400 / 1400 / 2


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 300), st.floats(0, 300))
def test_expected_half_width_is_one(W, precision, miss_rate, n1, n0):
    assert 0 < predict_half_width(W, precision, miss_rate, n1, n0, 1000) <= 0.5


@pytest.mark.parametrize(
    ("share", "width", "n"),
    [(0.5, 0.05, 381), (0.9, 0.05, 141), (0.9, 0.03, 388), (0.5, 0.6, 1), (0, 0.05, 35)],
)
def test_sample_size(share, width, n):
    assert compute_sample_size(share, width) == n


@given(st.floats(0, 1), st.floats(0.005, 0.49), st.floats(0.5, 0.999))
def test_sample_size_is_the_least(share, width, confidence):
    def half_width(n):
        low, high = compute_wilson_limits(share, n, confidence)
        return (high - low) / 2

    n = compute_sample_size(share, width, confidence)
    assert half_width(n) <= width * (1 + 1e-9)
    assert n == 1 or half_width(n - 1) > width * (1 - 1e-9)
