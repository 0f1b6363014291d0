"""Expected widths of planned labels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from validation import (
    Cell,
    expected_half_widths,
    poststratify,
    probability_at_least,
    sample_size,
    sample_size_at_least,
    wilson,
    zero_count_upper,
)
from validation.planning import half_width


def test_expected_half_width_at_whole_counts_is_the_real_one():
    cells = Cell(0.8, 28, 35, 35), Cell(0.2, 13, 65, 65)
    real = poststratify(1000, 350, *cells, confidence=0.9)
    expected = expected_half_widths(0.35, 0.8, 0.2, 35, 65, 1000, 0.9)
    assert expected == pytest.approx((real.high - real.low) / 2)


def test_expected_half_width_knows_undecided_traces():
    cells = Cell(0.8, 28, 35, 35), Cell(0.2, 13, 65, 65)
    real = poststratify(1000, 350, *cells, others=[(400, Cell(0.5, 20, 40, 40))])
    expected = expected_half_widths(0.35, 0.8, 0.2, 35, 65, 1000, others=[(400, 0.5, 40)])
    assert expected == pytest.approx((real.high - real.low) / 2)
    blind = expected_half_widths(0.35, 0.8, 0.2, 35, 65, 1000, others=[(400, 0.5, 0)])
    assert blind > 400 / 1400 / 2


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


@pytest.mark.parametrize(
    ("share", "width", "n", "normal"),
    [(0.5, 0.05, 381, 385), (0.9, 0.05, 141, 139), (0.9, 0.03, 388, 385), (0.5, 0.6, 1, 3)],
)
def test_sample_size(share, width, n, normal):
    found = sample_size(share, width)
    assert found.as_dict() == {"n": n, "n_normal_approximation": normal}


@given(st.floats(0, 1), st.floats(0.005, 0.49), st.floats(0.5, 0.999))
def test_sample_size_is_the_least(share, width, confidence):
    n = sample_size(share, width, confidence).n
    assert half_width(share, n, confidence) <= width * (1 + 1e-9)
    assert n == 1 or half_width(share, n - 1, confidence) > width * (1 - 1e-9)


def test_half_width_is_wilson():
    interval = wilson(45, 50)
    assert half_width(0.9, 50) == pytest.approx((interval.high - interval.low) / 2)
    assert half_width(0.9, 0) == 0.5


@pytest.mark.parametrize(
    ("n", "prevalence", "k", "probability"),
    [
        (50, 0.011, 1, 1 - 0.989**50),
        (0, 0.5, 0, 1.0),
        (0, 0.5, 1, 0.0),
        (5, 1.0, 5, 1.0),
        (5, 0.0, 1, 0.0),
        (5, 0.5, 6, 0.0),
        (200, 0.02, 3, binom.sf(2, 200, 0.02)),
    ],
)
def test_probability_at_least(n, prevalence, k, probability):
    assert probability_at_least(n, prevalence, k) == pytest.approx(probability, abs=1e-12)


@given(st.floats(0.001, 1), st.integers(0, 20), st.floats(0.01, 0.999))
def test_sample_size_at_least_is_the_least(prevalence, k, probability):
    n = sample_size_at_least(prevalence, k, probability)
    assert probability_at_least(n, prevalence, k) >= probability
    assert n == 0 or probability_at_least(n - 1, prevalence, k) < probability


def test_zero_count():
    found = zero_count_upper(200, 0.99)
    assert (1 - found.exact_one_sided) ** 200 == pytest.approx(0.01)
    assert found.wilson_two_sided_high == wilson(0, 200, 0.99).high
    assert found.rule_of_three is None
    assert zero_count_upper(300).rule_of_three == 0.01
    assert zero_count_upper(2).rule_of_three == 1
    assert zero_count_upper(0).exact_one_sided == 1.0
