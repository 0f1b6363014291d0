"""Scores by code against scikit-learn and values by hand."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix as sklearn_matrix
from sklearn.metrics import precision_recall_fscore_support

from validation.codes import score_codes, tabulate_confusion
from validation.intervals import compute_wilson_interval

CODES = ["a", "b", "c"]
SETS = st.frozensets(st.sampled_from(CODES))
ITEMS = st.lists(st.tuples(SETS, SETS, st.integers(1, 4)), min_size=1, max_size=12)


def columns(sets):
    return np.array([[code in one for code in CODES] for one in sets])


@settings(max_examples=40)
@given(ITEMS, st.booleans())
def test_same_as_scikit_learn(items, weighted):
    human, judge, weights = (list(column) for column in zip(*items, strict=True))
    found = score_codes(CODES, human, judge, weights=weights if weighted else None, resamples=5)
    truth, flags = columns(human), columns(judge)
    more = {"sample_weight": weights if weighted else None, "zero_division": np.nan}
    wanted = precision_recall_fscore_support(truth, flags, **more)
    for name, by_code in zip(("precision", "recall", "f1"), wanted, strict=False):
        rates = [getattr(found.per_code[code], name).value for code in CODES]
        assert [np.nan if rate is None else rate for rate in rates] == pytest.approx(
            list(by_code), nan_ok=True
        )
        defined = [rate for rate in rates if rate is not None]
        macro = getattr(found.macro, name)
        assert macro.inputs["n_codes"] == len(defined)
        assert macro.value == (pytest.approx(np.mean(defined)) if defined else None)
    micro = precision_recall_fscore_support(truth, flags, average="micro", **more)
    for name, value in zip(("precision", "recall", "f1"), micro, strict=False):
        one = getattr(found.micro, name).value
        assert (np.nan if one is None else one) == pytest.approx(value, nan_ok=True)
    json.dumps(found.as_dict(), allow_nan=False)


@settings(max_examples=40)
@given(ITEMS)
def test_counts_add_up(items):
    human, judge, weights = (list(column) for column in zip(*items, strict=True))
    found = score_codes(CODES, human, judge, weights=weights, resamples=5)
    for code, score in found.per_code.items():
        assert score.tp + score.fp + score.fn + score.tn == found.n == len(items)
        assert score.tp + score.fp == score.precision.n == sum(code in one for one in judge)
        assert score.tp + score.fn == score.recall.n == sum(code in one for one in human)
        assert score.recall.low is None


def test_intervals_are_wilson_on_counts():
    human = [{"a"}] * 8 + [set()] * 10 + [{"a"}] * 2
    judge = [{"a"}] * 11 + [set()] * 9
    score = score_codes(["a"], human, judge, confidence=0.9, resamples=300).per_code["a"]
    assert (score.tp, score.fp, score.fn, score.tn) == (8, 3, 2, 7)
    for found, k, n in ((score.precision, 8, 11), (score.recall, 8, 10)):
        limits = compute_wilson_interval(k, n, 0.9)
        assert (found.value, found.low, found.high, found.n) == (k / n, limits.low, limits.high, n)
    assert score.f1.value == pytest.approx(16 / 21)
    assert score.f1.low < score.f1.value < score.f1.high
    assert score.f1.method == "cluster_bootstrap_percentile"


@pytest.mark.parametrize(
    ("humans", "judges", "reason"),
    [
        (11, 10, None),
        (10, 9, "no interval: 10 and 9 traces, fewer than 10"),
        (9, 10, "no interval: 9 and 10 traces, fewer than 10"),
    ],
)
def test_f1_has_an_interval_where_both_gave_the_code_ten_times(humans, judges, reason):
    human, judge = ([{"a"}] * k + [set()] * (20 - k) for k in (humans, judges))
    f1 = score_codes(["a"], human, judge, resamples=300).per_code["a"].f1
    assert f1.value == pytest.approx(2 * min(humans, judges) / (humans + judges))
    assert (f1.low is None, f1.reason) == (reason is not None, reason)


def test_clusters_widen_the_intervals():
    human = [{"a"}] * 20 + [set()] * 20
    judge = [{"a"}] * 15 + [set()] * 5 + [{"a"}] * 5 + [set()] * 15
    clusters = [item // 5 for item in range(40)]
    alone, together = (
        score_codes(["a"], human, judge, clusters=one).per_code["a"] for one in (None, clusters)
    )
    for name in ("precision", "recall", "f1"):
        one, other = getattr(alone, name), getattr(together, name)
        assert one.value == other.value
        assert other.high - other.low > one.high - one.low
    assert together.f1.inputs["clusters"] == 8


def test_undefined_is_none_with_a_reason():
    found = score_codes(["a", "b", "c"], [{"a"}, {"a"}], [{"a"}, {"a", "b"}])
    never, extra = (found.per_code[code] for code in ("c", "b"))
    for one in (never.precision, never.recall, never.f1, extra.recall):
        assert one.value is None
        assert "gave it" in one.reason
    assert (extra.precision.value, extra.f1.value) == (0.0, 0.0)
    assert found.macro.recall.inputs["n_codes"] == 1
    assert found.macro.precision.value == 0.5


def test_without_items_all_is_undefined():
    found = score_codes(["a"], [], [])
    assert found.n == 0
    assert (found.micro.f1.value, found.micro.f1.reason) == (None, "f1 is defined for no code")
    assert score_codes([], [], []).macro.f1.reason == "f1 is defined for no code"


def test_one_label_each():
    human, judge = ["x", "x", "y", "none"], ["x", "y", "y", "none"]
    found = score_codes(
        ["x", "y", "none"],
        [{label} for label in human],
        [{label} for label in judge],
        resamples=100,
    )
    assert found.micro.precision.value == found.micro.recall.value == found.micro.f1.value == 0.75
    # x: P 1, R 1/2; y: P 1/2, R 1; none: 1.
    assert found.macro.f1.value == pytest.approx((2 / 3 + 2 / 3 + 1) / 3)


def test_confusion_matrix_same_as_scikit_learn():
    labels = ["x", "y", "unused", "nan"]
    human, judge = ["x", "x", "y", "nan", "nan"], ["x", "y", "y", "nan", "x"]
    wanted = sklearn_matrix(human, judge, labels=labels).tolist()
    assert tabulate_confusion(human, judge, labels) == wanted
    assert tabulate_confusion([], [], ["x"]) == [[0]]
