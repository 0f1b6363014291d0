"""Agreement on sets of codes against values by hand, and the laws of the distances."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from validation.distances import compute_jaccard_distance, compute_masi_distance
from validation.reliability import compute_krippendorff_alpha
from validation.sets import measure_set_agreement

CODES = st.frozensets(st.sampled_from("abcd"))


@pytest.mark.parametrize(
    ("first", "second", "jaccard", "masi"),
    [
        ("", "", 0, 0),
        ("a", "a", 0, 0),
        ("", "a", 1, 1),
        ("a", "b", 1, 1),
        # 1 - 1/2 * 2/3
        ("a", "ab", 1 / 2, 2 / 3),
        # 1 - 1/3 * 1/3
        ("ab", "bc", 2 / 3, 8 / 9),
        ("ab", "abcd", 1 / 2, 2 / 3),
        # 1 - 2/4 * 1/3
        ("abc", "bcd", 1 / 2, 5 / 6),
    ],
)
def test_distances_by_hand(first, second, jaccard, masi):
    one, other = set(first), frozenset(second)
    for distance, expected in ((compute_jaccard_distance, jaccard), (compute_masi_distance, masi)):
        assert distance(one, other) == distance(other, one) == pytest.approx(expected)


@given(CODES, CODES)
def test_masi_is_at_least_jaccard(one, other):
    jaccard, masi = compute_jaccard_distance(one, other), compute_masi_distance(one, other)
    assert 0 <= jaccard <= masi + 1e-12 <= 1 + 1e-12
    assert (masi == 0) == (one == other)


def test_set_agreement_by_hand():
    found = measure_set_agreement([{"a"}, {"a", "b"}, []], [{"a"}, {"a"}, ["c"]], resamples=100)
    assert found.mean_jaccard.value == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert found.mean_masi_similarity.value == pytest.approx((1 + 1 / 3 + 0) / 3)
    assert found.exact.value == pytest.approx(1 / 3)
    assert (found.exact.method, found.exact.n) == ("wilson", 3)
    assert found.mean_jaccard.low <= 0.5 <= found.mean_jaccard.high
    json.dumps(found.as_dict(), allow_nan=False)


def test_weights_of_sets():
    found = measure_set_agreement([{"a"}, {"b"}], [{"a"}, {"c"}], weights=[3, 1], resamples=100)
    assert found.exact.value == found.mean_jaccard.value == pytest.approx(0.75)
    assert found.exact.method == "wilson_effective"


@settings(max_examples=30)
@given(st.lists(st.tuples(CODES, CODES), min_size=1, max_size=8), st.floats(0.1, 9))
def test_equal_weights_change_nothing(pairs, weight):
    first, second = [list(side) for side in zip(*pairs, strict=True)]
    found = measure_set_agreement(first, second, weights=[weight] * len(pairs), resamples=10)
    alpha = compute_krippendorff_alpha([first, second], distance="masi", resamples=1).value
    if alpha is None:
        assert found.alpha_masi.value is None
    else:
        assert found.alpha_masi.value == pytest.approx(alpha, abs=1e-9)
    plain = measure_set_agreement(first, second, resamples=10)
    assert found.mean_jaccard.value == pytest.approx(plain.mean_jaccard.value)


def test_heavier_items_bear_more_on_alpha():
    first, second = [{"a"}, {"b"}, {"c"}], [{"a"}, {"b"}, {"a"}]
    good = measure_set_agreement(first, second, weights=[5, 5, 1], resamples=10).alpha_masi
    bad = measure_set_agreement(first, second, weights=[1, 1, 5], resamples=10).alpha_masi
    assert good.value > bad.value


def test_sets_undefined():
    nothing = measure_set_agreement([], [])
    for one in (nothing.mean_jaccard, nothing.exact, nothing.mean_masi_similarity):
        assert (one.value, one.reason) == (None, "no items")
    assert nothing.alpha_masi.value is None
    same = measure_set_agreement([set(), set()], [set(), set()])
    assert same.mean_jaccard.value == same.exact.value == 1
    assert same.alpha_masi.value is None
    assert same.alpha_masi.reason.startswith("all ratings are the same")
    json.dumps([nothing.as_dict(), same.as_dict()], allow_nan=False)
