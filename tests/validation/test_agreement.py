"""Cohen's kappa against hand-computed and published values, a golden file and scikit-learn."""

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics import cohen_kappa_score

from validation import (
    compute_asymptotic_kappa,
    compute_cohen_kappa,
    compute_wilson_limits,
    count_pairs,
    measure_agreement,
)


def square(rows):
    """A table of counts as a mapping: rows are the first rater, columns the second."""
    return {
        (f"code{i}", f"code{j}"): count for i, row in enumerate(rows) for j, count in enumerate(row)
    }


def label_lists(rows):
    """The labels that such a table counts, one list per rater."""
    pairs = [pair for pair, count in square(rows).items() for _ in range(count)]
    return [list(labels) for labels in zip(*pairs, strict=True)]


@pytest.mark.parametrize(
    ("rows", "kappa", "observed", "expected", "digits"),
    [
        # pe = (20 * 25 + 30 * 25) / 50^2
        pytest.param([[15, 5], [10, 20]], 0.4, 0.7, 0.5, 1e-12, id="by-hand"),
        # pe = (2 * 1 + 1 * 1 + 1 * 2) / 4^2: the raters use different labels, one of them never.
        pytest.param(
            [[1, 1, 0], [0, 0, 1], [0, 0, 1]], 3 / 11, 0.5, 5 / 16, 1e-12, id="by-hand-three"
        ),
        # pe = 2 * 1 * 1 / 2^2, the least kappa there is
        pytest.param([[0, 1], [1, 0]], -1.0, 0.0, 0.5, 1e-12, id="never-the-same"),
        pytest.param([[0, 4], [0, 0]], 0.0, 0.0, 0.0, 1e-12, id="no-label-in-common"),
        pytest.param([[3, 1], [0, 0]], 0.0, 0.75, 0.75, 1e-12, id="one-rater-with-one-label"),
        # J. Cohen, Educ. Psychol. Meas. 20 (1960), table 2.
        pytest.param(
            [[88, 14, 18], [10, 40, 10], [2, 6, 12]], 0.492, 0.70, 0.41, 6e-4, id="cohen-1960"
        ),
        # Fleiss, Levin, Paik, Statistical Methods for Rates and Proportions, ch. 18.
        pytest.param(
            [[75, 1, 4], [5, 4, 1], [0, 0, 10]], 0.68, 0.89, 0.66, 5e-3, id="fleiss-levin-paik"
        ),
        # Feinstein, Cicchetti, J. Clin. Epidemiol. 43 (1990): the same agreement, other margins.
        pytest.param([[40, 9], [6, 45]], 0.70, 0.85, 0.50, 5e-3, id="feinstein-balanced"),
        pytest.param([[80, 10], [5, 5]], 0.32, 0.85, 0.78, 5e-3, id="feinstein-unbalanced"),
        # Gwet 2002: below chance with 94.4 % agreement.
        pytest.param([[118, 5], [2, 0]], -0.0234, 0.944, 0.9453, 5e-5, id="gwet"),
    ],
)
def test_known_values(rows, kappa, observed, expected, digits):
    found = compute_cohen_kappa(square(rows))
    assert found.value == pytest.approx(kappa, abs=digits)
    assert found.inputs["observed"] == pytest.approx(observed, abs=1e-12)
    assert found.inputs["expected"] == pytest.approx(expected, abs=digits)
    assert found.n == sum(map(sum, rows))
    assert (found.measure, found.method) == ("cohen_kappa", "wilson_mapped")
    assert (found.confidence, found.reason) == (0.95, None)


@pytest.mark.parametrize(
    ("rows", "low", "high", "digits"),
    [
        # At the ends Wilson's limit has a closed form, with z^2 = 3.841459.
        pytest.param([[5, 0], [0, 5]], 2 / 1.3841459 - 1, 1.0, 1e-6, id="perfect-has-a-width"),
        pytest.param(
            [[0, 5], [5, 0]], -1.0, 2 * 3.841459 / 13.841459 - 1, 1e-6, id="never-the-same"
        ),
        # Newcombe 1998, table I: 81 of 263 is 0.2553 to 0.3662. pe = 81 / 263.
        pytest.param([[81, 182], [0, 0]], -0.0761, 0.0841, 1.5e-4, id="newcombe-81-of-263"),
        # The same table: 1 of 29 is 0.0061 to 0.1718, so 28 are 0.8282 to 0.9939. pe = 28 / 29.
        pytest.param([[28, 1], [0, 0]], -3.982, 0.823, 2e-3, id="low-below-minus-one"),
    ],
)
def test_limits_are_those_of_wilson_put_through_the_formula(rows, low, high, digits):
    found = compute_cohen_kappa(square(rows))
    assert found.low == pytest.approx(low, abs=digits)
    assert found.high == pytest.approx(high, abs=digits)


@pytest.mark.parametrize(
    ("table", "n", "observed", "expected", "reason"),
    [
        ({}, 0, None, None, "no items"),
        ({("a", "a"): 0, ("a", "b"): 0}, 0, None, None, "no items"),
        ({("a", "a"): 1}, 1, 1.0, 1.0, "both raters gave every item the label 'a'"),
        (
            {("b", "a"): 0, ("none", "none"): 50, ("b", "b"): 0},
            *(50, 1.0, 1.0, "both raters gave every item the label 'none'"),
        ),
    ],
)
def test_undefined_with_a_reason(table, n, observed, expected, reason):
    found = compute_cohen_kappa(table)
    assert (found.value, found.low, found.high) == (None, -1.0, 1.0)
    assert (found.n, found.inputs["observed"], found.inputs["expected"]) == (n, observed, expected)
    assert found.reason.startswith(reason)


def test_none_is_a_label_like_any_other():
    words = ["none", "nan", "None", ""]
    found = compute_cohen_kappa({(word, word): 1 for word in words} | {("none", "None"): 1})
    # pe = (2 * 1 + 1 * 1 + 1 * 2 + 1 * 1) / 5^2
    assert found.value == pytest.approx((0.8 - 0.24) / 0.76, abs=1e-12)


def test_many_items_lose_no_digits():
    """One miss each way in 10^9 items: by hand -1 / (10^9 + 1), lost in rounded shares."""
    found = compute_cohen_kappa({("a", "a"): 10**9, ("a", "b"): 1, ("b", "a"): 1})
    assert found.value == pytest.approx(-1 / (10**9 + 1), rel=1e-9)
    assert found.low < found.value < found.high <= 1


def test_confusion_counts_pairs_in_order():
    assert count_pairs(["a", "a", "none", "a"], ["a", "b", "a", "b"]) == {
        ("a", "a"): 1,
        ("a", "b"): 2,
        ("none", "a"): 1,
    }
    assert count_pairs([], []) == {}


LABELS = st.sampled_from(["none", "work_overlap", "repetition", "C3a"])
TABLES = st.dictionaries(st.tuples(LABELS, LABELS), st.integers(0, 1000), max_size=16)
CONFIDENCE = st.floats(0.01, 0.9999)


def defined(table):
    found = compute_cohen_kappa(table)
    assume(found.value is not None)
    return found


@given(TABLES)
def test_same_as_scikit_learn(table):
    found = defined(table)
    first, second = zip(*table, strict=True)
    other = cohen_kappa_score(first, second, sample_weight=list(table.values()))
    assert found.value == pytest.approx(other, abs=1e-9)


@given(TABLES, CONFIDENCE)
def test_limits_same_as_scipy_put_through_the_formula(table, confidence):
    defined(table)
    found = compute_cohen_kappa(table, confidence)
    agreed = sum(count for (one, other), count in table.items() if one == other)
    limits = binomtest(agreed, found.n).proportion_ci(confidence, method="wilson")
    room = 1 - found.inputs["expected"]
    for limit, share in ((found.low, limits.low), (found.high, limits.high)):
        assert limit * room == pytest.approx(share - found.inputs["expected"], abs=1e-9)
    assert found.confidence == confidence


@pytest.mark.parametrize(
    ("rows", "categories", "ac1", "expected", "digits"),
    [
        # By hand: shares 243/250 and 7/250; Gwet 2002 prints .9408.
        pytest.param([[118, 5], [2, 0]], 2, 0.9408, 2 * 243 * 7 / 250**2, 5e-5, id="gwet-125"),
        # By hand: shares .875 and .125, pe = 2 * .875 * .125.
        pytest.param([[80, 10], [5, 5]], 2, 0.808, 0.21875, 1e-12, id="feinstein-unbalanced"),
        # The same table with an unused third label: pe = 2 * .875 * .125 / 2.
        pytest.param(
            [[80, 10], [5, 5]], 3, 0.740625 / 0.890625, 0.109375, 1e-12, id="a-label-unused"
        ),
        pytest.param([[4]], 2, 1.0, 0.0, 1e-12, id="one-label-of-two"),
    ],
)
def test_ac1_known_values(rows, categories, ac1, expected, digits):
    labels = [f"code{number}" for number in range(categories)]
    found = measure_agreement(*label_lists(rows), categories=labels).ac1
    assert found.value == pytest.approx(ac1, abs=digits)
    assert found.inputs["expected"] == pytest.approx(expected, abs=digits)
    assert found.low < found.value <= found.high <= 1
    assert (found.measure, found.method) == ("gwet_ac1", "wilson_mapped")


def test_asymptotic_interval_is_the_published_one():
    """Landis and Koch 1977, Winnipeg neurologists: kappa .208 with standard error .0505."""
    found = compute_asymptotic_kappa(
        square([[38, 5, 0, 1], [33, 11, 3, 0], [10, 14, 5, 6], [3, 7, 3, 10]])
    )
    assert found.value == pytest.approx(0.2079, abs=1e-4)
    assert found.inputs["se"] == pytest.approx(0.0505, abs=1e-4)
    assert found.high - found.value == pytest.approx(1.959964 * found.inputs["se"], abs=1e-6)
    assert found.method == "asymptotic"
    json.dumps(found.as_dict(), allow_nan=False)


@pytest.mark.parametrize("rows", [[[5, 0], [0, 5]], [[0, 5], [5, 0]], [[3, 1], [0, 0]]])
def test_a_standard_error_of_zero_is_no_certainty(rows):
    found = compute_asymptotic_kappa(square(rows))
    assert found.inputs["se"] == 0
    assert found.low == found.high == found.value
    assert "do not use" in found.reason


def test_asymptotic_interval_undefined():
    found = compute_asymptotic_kappa({("a", "a"): 3})
    assert (found.value, found.low, found.high, found.inputs["se"]) == (None, -1.0, 1.0, None)
    assert found.reason


PAIRS = st.lists(st.tuples(LABELS, LABELS), min_size=1, max_size=40)


@given(PAIRS)
def test_agreement_of_labels_is_the_one_of_their_table(pairs):
    first, second = [list(labels) for labels in zip(*pairs, strict=True)]
    found = measure_agreement(
        first, second, categories=["none", "work_overlap", "repetition", "C3a"]
    )
    table = count_pairs(first, second)
    kappa = compute_cohen_kappa(table)
    assert found.kappa.value == kappa.value
    if found.kappa.low is None:  # too few labels but the commonest
        assert "fewer than 10" in found.kappa.reason
    else:  # pe moves, and makes the interval no narrower
        assert found.kappa.reason == kappa.reason
        assert found.kappa.low <= kappa.low + 1e-12
        assert found.kappa.high >= kappa.high - 1e-12
    assert {(a, b): count for a, b, count in found.kappa.inputs["table"]} == dict(table)
    json.dumps(found.as_dict(), allow_nan=False)


@given(st.lists(st.tuples(LABELS, LABELS, st.integers(1, 5)), min_size=1, max_size=30))
def test_weighted_agreement_is_the_one_of_repeated_items(items):
    first, second, weights = (list(column) for column in zip(*items, strict=True))
    found = measure_agreement(first, second, weights=weights)
    repeated = [(a, b) for a, b, weight in items for _ in range(weight)]
    other = measure_agreement(*(list(labels) for labels in zip(*repeated, strict=True)))
    for name in ("observed", "kappa", "ac1"):
        one, two = getattr(found, name), getattr(other, name)
        assert (one.value is None) == (two.value is None)
        if one.value is not None:
            assert one.value == pytest.approx(two.value, abs=1e-9)
        if name == "observed":  # of fewer items than their weights say, so it is wider
            assert one.low <= two.low + 1e-9
            assert one.high >= two.high - 1e-9


def test_clusters_widen_the_interval():
    first = ["a", "b"] * 20
    second = first[:30] + ["b", "a"] * 5
    alone = measure_agreement(first, second)
    together = measure_agreement(first, second, clusters=[item // 10 for item in range(40)])
    assert together.kappa.value == alone.kappa.value == 0.5
    assert together.kappa.low < alone.kappa.low < alone.kappa.high < together.kappa.high
    assert together.kappa.inputs["n_effective"] < 40
    helpful = measure_agreement(first, second, clusters=[item % 2 for item in range(40)])
    assert helpful.observed.inputs["design_effect"] >= 1


def test_one_cluster_tells_nothing():
    first, second = ["a", "b", "b"] * 10, ["a", "b", "a"] * 10
    found = measure_agreement(first, second, clusters=["t"] * 30)
    assert found.kappa.value == pytest.approx(0.4)
    for measure in (found.kappa, found.ac1):
        assert (measure.low, measure.high) == (None, None)
        assert "of one cluster" in measure.reason


def test_chance_moves_with_the_margins():
    """By hand: 20 of 100 both yes, 20 the judge alone, 60 both no. po = .8, AC1's pe = 2 (.3) (.7)
    = .42, so AC1 = .38 / .58. An item moves pe by 1 - pi_x - pi_y - .28, which is .12 (no, no),
    -.28 (yes, no) and .88 - .2 (yes, yes); its influence is (agrees - .8) - (.2 / .58) of that.
    """
    first = ["yes"] * 20 + ["no"] * 80
    second = ["yes"] * 40 + ["no"] * 60
    found = measure_agreement(first, second, categories=["yes", "no"])
    pi = {"yes": 0.3, "no": 0.7}
    mean = sum(p * (1 - 2 * p) for p in pi.values())
    influences = [
        (a == b) - 0.8 - 0.2 / 0.58 * (1 - pi[a] - pi[b] - mean)
        for a, b in zip(first, second, strict=True)
    ]
    variance = 100 / 99 * sum(u * u for u in influences) / 100**2
    n = min(100, 0.16 / variance)
    assert found.ac1.inputs["n_effective"] == pytest.approx(n)
    low, high = compute_wilson_limits(0.8, n)
    assert found.ac1.low == pytest.approx((low - 0.42) / 0.58)
    assert found.ac1.high == pytest.approx((high - 0.42) / 0.58)


def test_a_rater_of_nearly_one_label_has_no_interval_of_kappa():
    first, second = ["no"] * 91 + ["yes"] * 9, ["no"] * 85 + ["yes"] * 15
    kappa = measure_agreement(first, second).kappa
    assert (kappa.low, kappa.high) == (None, None)
    assert kappa.value == compute_cohen_kappa(count_pairs(first, second)).value
    assert "9 and 15 labels" in kappa.reason


@pytest.mark.parametrize(
    ("labels", "categories", "kappa", "ac1"),
    [
        ([], None, "no items", "no items"),
        (["x"] * 3, None, "both raters gave", "one category only"),
        (["x"] * 3, ["x", "y"], "both raters gave", None),
    ],
)
def test_agreement_of_undefined(labels, categories, kappa, ac1):
    found = measure_agreement(labels, labels, categories=categories)
    for one, reason in ((found.kappa, kappa), (found.ac1, ac1)):
        if reason:
            assert (one.value, one.low, one.high) == (None, -1.0, 1.0)
            assert one.reason.startswith(reason)
        else:
            assert (one.value, one.reason) == (1.0, None)
