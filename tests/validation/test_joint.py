"""Shares of exclusive codes that were corrected together."""

import pytest
from scipy.stats import beta, norm, t

from validation import joint_shares

CODES = {"a": [4, 0, 2], "b": [1, 3, 0], "none": [3, 4, 3]}


def limits(estimate):
    return estimate.low, estimate.high


def test_by_hand_without_clusters():
    """W = .3, .2, .5 of 20; labels: a -> a a b, b -> b, none -> none none a none."""
    judged = {code: [sum(counts)] for code, counts in CODES.items()}
    judge = ["a"] * 3 + ["b"] + ["none"] * 4
    human = ["a", "a", "b", "b", "none", "none", "a", "none"]
    found = joint_shares(judged, judge, human)
    share = {"a": 0.3 * 2 / 3 + 0.5 / 4, "b": 0.3 / 3 + 0.2, "none": 0.5 * 3 / 4}
    assert {code: estimate.value for code, estimate in found.items()} == pytest.approx(share)
    assert sum(estimate.value for estimate in found.values()) == pytest.approx(1)
    # a: q in the three cells, a prior that weighs one label on the shares.
    q = [(2 + share["a"]) / 4, share["a"] / 2, (1 + share["a"]) / 5]
    weight, n = [0.3, 0.2, 0.5], [3, 1, 4]
    m = sum(w * x for w, x in zip(weight, q, strict=True))
    v = sum(w * w * x * (1 - x) / (k + 2) for w, x, k in zip(weight, q, n, strict=True))
    v += (sum(w * x * x for w, x in zip(weight, q, strict=True)) - m * m) / 20
    total = m * (1 - m) / v - 1
    tail = 0.05 / 3 / 2
    expected = beta(m * total, (1 - m) * total).ppf([tail, 1 - tail])
    assert limits(found["a"]) == pytest.approx(tuple(expected))
    assert found["a"].inputs["confidence_each"] == pytest.approx(1 - 0.05 / 3)


def test_clusters_widen_and_weights_count():
    judge, human = ["a", "a", "b", "none", "none", "none"], ["a", "b", "b", "none", "a", "none"]
    alone = joint_shares(CODES, judge, human)
    together = joint_shares(CODES, judge, human, clusters=[0, 2, 1, 0, 1, 2])
    each = 1 - 0.05 / 3 / 2
    least = alone["a"].inputs["posterior_sd"] * t(2).ppf(each) / norm.ppf(each)
    assert together["a"].inputs["posterior_sd"] >= least - 1e-12
    assert together["a"].inputs["df"] == 2
    assert together["a"].value == alone["a"].value
    weighted = joint_shares(CODES, judge, human, weights=[3, 1, 1, 1, 1, 1])
    # Among the judge's a, 3 of 4 are right; a third of the none ones is a.
    assert weighted["a"].value == pytest.approx(0.3 * 3 / 4 + 0.5 / 3)


def test_the_variance_over_clusters_by_hand():
    """W = 1/2 and 1/2; a is 3/4 of the judge's a and 1/4 of its none, 1/2 in all. The first task
    adds (10 * 3/4 - 10 * 1/2) / 30 by its traces and 1/2 * 3/4 * (1 - 3/4) by its label, the second
    the same with minus, the third nothing: its traces are as many and its labels cancel out.
    """
    judged = {"a": [10, 0, 5], "none": [0, 10, 5]}
    judge, human = ["a", "a", "none", "none"], ["a", "none", "none", "a"]
    found = joint_shares(judged, judge, human, weights=[3, 1, 3, 1], clusters=[0, 2, 1, 2])
    each = 1 - 0.05 / 2 / 2
    variance = 3 / 2 * 2 * (1 / 12 + 3 / 32) ** 2
    wanted = variance**0.5 * t(2).ppf(each) / norm.ppf(each)
    for code in ("a", "none"):
        assert found[code].value == 0.5
        assert found[code].inputs["posterior_sd"] == pytest.approx(wanted)


def test_a_code_of_the_judge_without_labels_takes_the_others():
    found = joint_shares(CODES, ["a", "none"], ["a", "none"])
    assert found["a"].value == pytest.approx(0.3 + 0.2 * 0.3 / 0.8)
    assert sum(estimate.value for estimate in found.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("judged", "labels", "reason"),
    [
        (CODES, [], "no human labels"),
        ({code: [0] for code in CODES}, ["a"], "no judged traces"),
    ],
)
def test_undefined(judged, labels, reason):
    for estimate in joint_shares(judged, labels, labels).values():
        assert (estimate.value, *limits(estimate), estimate.reason) == (None, 0.0, 1.0, reason)


def test_one_task_says_nothing_of_tasks():
    found = joint_shares(CODES, ["a", "b"], ["a", "b"], clusters=[1, 1])
    assert limits(found["a"]) == (0.0, 1.0)
    assert "one task" in found["a"].reason


def test_bad_input_raises():
    with pytest.raises(ValueError, match="'x' is none of the codes"):
        joint_shares(CODES, ["a"], ["x"])
    with pytest.raises(ValueError, match="of the same traces"):
        joint_shares(CODES, ["a"], ["a", "b"])
