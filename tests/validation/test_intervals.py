"""Intervals of shares against published values, closed forms and scipy."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

import validation
from tests.conftest import ROOT
from validation.intervals import (
    compute_widening,
    compute_wilson_interval,
    compute_wilson_limits,
)


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [
        # CooperBench, arXiv 2601.13295, appendix: 48 of 50 is 96 %, 86.5 to 98.9 %.
        pytest.param(48, 50, 0.8654, 0.9890, id="48-of-50"),
        # Newcombe, Stat. Med. 17 (1998) 857, table I, method 3 (score without correction).
        pytest.param(81, 263, 0.2553, 0.3662, id="newcombe-81-of-263"),
        pytest.param(15, 148, 0.0624, 0.1605, id="newcombe-15-of-148"),
        pytest.param(0, 20, 0.0000, 0.1611, id="newcombe-0-of-20"),
        pytest.param(1, 29, 0.0061, 0.1718, id="newcombe-1-of-29"),
    ],
)
def test_published_values(k, n, low, high):
    interval = compute_wilson_interval(k, n)
    assert interval.value == k / n
    assert interval.low == pytest.approx(low, abs=5e-5)
    assert interval.high == pytest.approx(high, abs=5e-5)
    assert (interval.k, interval.n, interval.confidence) == (k, n, 0.95)
    assert (interval.method, interval.reason) == ("wilson", None)


def test_no_trials_are_undefined():
    interval = compute_wilson_interval(0, 0)
    assert (interval.value, interval.low, interval.high) == (None, 0.0, 1.0)
    assert interval.reason == "no trials"
    assert (interval.k, interval.n) == (0, 0)


# Limits for n that is no number of items have Wilson's at whole n; with df the quantile is larger.
@pytest.mark.parametrize(
    ("share", "n", "df", "low", "high"),
    [
        pytest.param(0.96, 50, None, 0.8653990931, 0.9889611157, id="as-48-of-50"),
        pytest.param(0.0, 3.5, None, 0.0, 0.523256, id="none-of-3.5"),  # z^2 / (n + z^2)
        pytest.param(0.5, 0, None, 0.0, 1.0, id="no-items"),
        pytest.param(0.5, 100, 0, 0.0, 1.0, id="one-cluster"),
        # t of 5 degrees of freedom is 2.570582: (6.607891) / (13.5 + 6.607891).
        pytest.param(0.0, 13.5, 5, 0.0, 0.328622, id="student"),
    ],
)
def test_limits_for_an_effective_number(share, n, df, low, high):
    assert compute_wilson_limits(share, n, df=df) == pytest.approx((low, high), abs=1e-6)


# By tables: t of 1 and 2 degrees of freedom is 12.7062 and 4.30265, the normal quantile 1.959964.
# Below 1 nothing is known of how clusters differ: the limits are 0 and 1, and no variance is wider.
@pytest.mark.parametrize(
    ("df", "factor"), [(None, 1.0), (-1, 1.0), (0, 1.0), (0.5, 1.0), (1, 6.48288), (2, 2.19527)]
)
def test_students_quantile_over_the_normal_one(df, factor):
    assert compute_widening(0.95, df) == pytest.approx(factor, abs=1e-5)


def test_importing_the_package_is_light():
    """A frequency table and a help text wait for neither numpy nor scipy."""
    code = (
        "import sys; from validation import compute_cohen_kappa, compute_wilson_interval;"
        "compute_wilson_interval(1, 2); compute_cohen_kappa({('a', 'b'): 1});"
        "assert not {'numpy', 'scipy', 'sklearn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_every_public_name_can_be_had():
    assert sorted(validation.__all__) == dir(validation)
    for name in validation.__all__:
        assert getattr(validation, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing_like_it'"):
        _ = validation.nothing_like_it


COUNTS = st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
CONFIDENCE = st.floats(0.01, 0.9999)


@given(COUNTS, CONFIDENCE)
def test_same_as_scipy(counts, confidence):
    interval = compute_wilson_interval(*counts, confidence)
    other = binomtest(*counts).proportion_ci(confidence, method="wilson")
    assert interval.low == pytest.approx(other.low, abs=1e-9)
    assert interval.high == pytest.approx(other.high, abs=1e-9)


@given(COUNTS, CONFIDENCE)
def test_limits_are_shares_around_the_share(counts, confidence):
    interval = compute_wilson_interval(*counts, confidence)
    assert 0 <= interval.low <= interval.value <= interval.high <= 1
