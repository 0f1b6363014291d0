"""Expected widths of planned labels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from validation import Cell, expected_half_widths, poststratify


def test_expected_half_width_at_whole_counts_is_the_real_one():
    cells = Cell(0.8, 28, 35, 35), Cell(0.2, 13, 65, 65)
    real = poststratify(1000, 350, *cells, confidence=0.9)
    expected = expected_half_widths(0.35, 0.8, 0.2, 35, 65, 1000, 0.9)
    assert expected == pytest.approx((real.high - real.low) / 2)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 300), st.floats(0, 300))
def test_expected_half_width_is_one(W, precision, miss_rate, n1, n0):
    assert 0 < expected_half_widths(W, precision, miss_rate, n1, n0, 1000) <= 0.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: expected_half_widths(0.5, 0.5, 0.5, -1, 5, 10), "k must be between 0 and n"),
        (lambda: expected_half_widths(0.5, 0.5, 0.5, 5, 5, 0), "N must be above 0"),
    ],
)
def test_bad_input_raises(call, message):
    with pytest.raises(ValueError, match=message):
        call()
