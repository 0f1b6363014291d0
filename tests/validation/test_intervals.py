"""Wilson's interval against published values, a golden file and scipy."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from validation.intervals import wilson


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
    interval = wilson(k, n)
    assert interval.value == k / n
    assert interval.low == pytest.approx(low, abs=5e-5)
    assert interval.high == pytest.approx(high, abs=5e-5)
    assert (interval.k, interval.n, interval.confidence) == (k, n, 0.95)
    assert (interval.method, interval.reason) == ("wilson", None)


# At the ends the interval has a closed form: z^2 / (n + z^2), with z = 1.959964.
@pytest.mark.parametrize(("n", "width"), [(1, 0.793451), (10, 0.277533), (1000, 0.003827)])
def test_none_and_all(n, width):
    none, whole = wilson(0, n), wilson(n, n)
    assert (none.value, none.low) == (0.0, 0.0)
    assert none.high == pytest.approx(width, abs=5e-7)
    assert (whole.value, whole.high) == (1.0, 1.0)
    assert whole.low == pytest.approx(1 - width, abs=5e-7)


def test_no_trials_are_undefined():
    interval = wilson(0, 0)
    assert (interval.value, interval.low, interval.high) == (None, 0.0, 1.0)
    assert interval.reason == "no trials"
    assert (interval.k, interval.n) == (0, 0)


@pytest.mark.parametrize(
    ("k", "n", "confidence", "message"),
    [
        (-1, 5, 0.95, "k must be between 0 and n, not -1 of 5"),
        (6, 5, 0.95, "k must be between 0 and n, not 6 of 5"),
        (1, 0, 0.95, "k must be between 0 and n, not 1 of 0"),
        (0, -1, 0.95, "k must be between 0 and n"),
        (0.5, 5, 0.95, "k must be a whole number"),
        (1, 5.5, 0.95, "n must be a whole number"),
        (True, 5, 0.95, "k must be a whole number"),
        (1, float("inf"), 0.95, "n must be a whole number"),
        (float("nan"), 5, 0.95, "k must be a whole number"),
        ("3", 5, 0.95, "k must be a whole number"),
        (3, None, 0.95, "n must be a whole number"),
        (3, 5, 0.0, "confidence must be between 0 and 1"),
        (3, 5, 1.0, "confidence must be between 0 and 1"),
        (3, 5, 95, "confidence must be between 0 and 1"),
        (3, 5, -0.5, "confidence must be between 0 and 1"),
        (3, 5, float("nan"), "confidence must be between 0 and 1"),
        (0, 0, 95, "confidence must be between 0 and 1"),
    ],
)
def test_bad_input_raises(k, n, confidence, message):
    with pytest.raises(ValueError, match=message):
        wilson(k, n, confidence)


def test_as_dict_can_be_stored():
    stored = json.loads(json.dumps(wilson(48, 50).as_dict(), allow_nan=False))
    assert (stored["k"], stored["n"], stored["value"], stored["method"]) == (48, 50, 0.96, "wilson")
    assert json.loads(json.dumps(wilson(0, 0).as_dict()))["value"] is None


def test_golden_cases(shared_data):
    """Every Wilson case of the shared golden file."""
    path = shared_data / "stats_golden_dev.json"
    if not path.is_file():
        pytest.skip(f"no golden values at {path}")
    cases = [
        case
        for case in json.loads(path.read_text(encoding="utf-8"))["cases"]
        if case["statistic"] == "wilson_ci"
    ]
    assert cases
    for case in cases:
        interval, expected = wilson(**case["input"]), case["expected"]
        given = (interval.value, interval.low, interval.high)
        wanted = (expected["estimate"], expected["low"], expected["high"])
        assert given[0] == (wanted[0] and pytest.approx(wanted[0], abs=1e-9)), case["id"]
        assert given[1:] == pytest.approx(wanted[1:], abs=case["tolerance"], rel=0), case["id"]


COUNTS = st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
CONFIDENCE = st.floats(0.01, 0.9999)


@settings(deadline=None)
@given(COUNTS, CONFIDENCE)
def test_same_as_scipy(counts, confidence):
    interval = wilson(*counts, confidence)
    other = binomtest(*counts).proportion_ci(confidence, method="wilson")
    assert interval.low == pytest.approx(other.low, abs=1e-9)
    assert interval.high == pytest.approx(other.high, abs=1e-9)


@given(COUNTS, CONFIDENCE)
def test_limits_are_shares_around_the_share(counts, confidence):
    interval = wilson(*counts, confidence)
    assert 0 <= interval.low <= interval.value <= interval.high <= 1


@given(COUNTS, CONFIDENCE)
def test_failures_mirror_successes(counts, confidence):
    k, n = counts
    one, other = wilson(k, n, confidence), wilson(n - k, n, confidence)
    assert one.low == pytest.approx(1 - other.high, abs=1e-12)


@given(COUNTS, CONFIDENCE, CONFIDENCE)
def test_more_confidence_is_never_narrower(counts, one, other):
    narrow, wide = wilson(*counts, min(one, other)), wilson(*counts, max(one, other))
    assert wide.low <= narrow.low + 1e-12
    assert wide.high >= narrow.high - 1e-12
