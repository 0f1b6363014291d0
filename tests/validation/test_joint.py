"""Shares of exclusive codes that were corrected together."""

import pytest
from scipy.stats import beta, norm, t

from validation import estimate_joint_shares

CODES = {"a": [4, 0, 2], "b": [1, 3, 0], "none": [3, 4, 3]}


def limits(estimate):
    return estimate.low, estimate.high


def test_by_hand_without_clusters():
    """W = .3, .2, .5 of 20; labels: a -> a a b, b -> b, none -> none none a none."""
    judged = {code: [sum(counts)] for code, counts in CODES.items()}
    judge = ["a"] * 3 + ["b"] + ["none"] * 4
    human = ["a", "a", "b", "b", "none", "none", "a", "none"]
    found = estimate_joint_shares(judged, judge, human)
    share = {"a": 0.3 * 2 / 3 + 0.5 / 4, "b": 0.3 / 3 + 0.2, "none": 0.5 * 3 / 4}
    assert {code: estimate.value for code, estimate in found.items()} == pytest.approx(share)
    assert sum(estimate.value for estimate in found.values()) == pytest.approx(1)
    # a: labels with it and the prior: half a label for the judge's own code, half by the shares,
    # W / 2 for each of three codes.
    half = share["a"] / 2
    weight, n = [0.3, 0.2, 0.5], [3 + 1 + 0.45, 1 + 1 + 0.3, 4 + 1 + 0.75]
    having = [2 + 0.5 + half + 0.15, half + 0.1, 1 + half + 0.25]
    q = [k / total for k, total in zip(having, n, strict=True)]
    m = sum(w * x for w, x in zip(weight, q, strict=True))
    v = sum(w * w * x * (1 - x) / (k + 1) for w, x, k in zip(weight, q, n, strict=True))
    v += (sum(w * x * x for w, x in zip(weight, q, strict=True)) - m * m) / 20
    total = m * (1 - m) / v - 1
    tail = 0.05 / 3 / 2
    expected = beta(m * total, (1 - m) * total).ppf([tail, 1 - tail])
    assert limits(found["a"]) == pytest.approx(tuple(expected))
    assert found["a"].inputs["confidence_each"] == pytest.approx(1 - 0.05 / 3)


def test_clusters_widen_and_weights_count():
    judge, human = ["a", "a", "b", "none", "none", "none"], ["a", "b", "b", "none", "a", "none"]
    alone = estimate_joint_shares(CODES, judge, human)
    together = estimate_joint_shares(CODES, judge, human, clusters=[0, 2, 1, 0, 1, 2])
    each = 1 - 0.05 / 3 / 2
    least = alone["a"].inputs["posterior_sd"] * t(2).ppf(each) / norm.ppf(each)
    assert together["a"].inputs["posterior_sd"] >= least - 1e-12
    assert together["a"].inputs["df"] == 2
    assert together["a"].value == alone["a"].value
    weighted = estimate_joint_shares(CODES, judge, human, weights=[3, 1, 1, 1, 1, 1])
    # Among the judge's a, 3 of 4 are right; a third of the none ones is a.
    assert weighted["a"].value == pytest.approx(0.3 * 3 / 4 + 0.5 / 3)


def test_the_variance_over_clusters_by_hand():
    """W = 1/2 and 1/2; a is 3/4 of the judge's a and 1/4 of its none, 1/2 in all. The first task
    adds (10 * 3/4 - 10 * 1/2) / 30 by its traces and 1/2 * 3/4 * (1 - 3/4) by its label, the second
    the same with minus, the third nothing: its traces are as many and its labels cancel out.
    """
    judged = {"a": [10, 0, 5], "none": [0, 10, 5]}
    judge, human = ["a", "a", "none", "none"], ["a", "none", "none", "a"]
    found = estimate_joint_shares(judged, judge, human, weights=[3, 1, 3, 1], clusters=[0, 2, 1, 2])
    each = 1 - 0.05 / 2 / 2
    variance = 3 / 2 * 2 * (1 / 12 + 3 / 32) ** 2
    wanted = variance**0.5 * t(2).ppf(each) / norm.ppf(each)
    for code in ("a", "none"):
        assert found[code].value == 0.5
        assert found[code].inputs["posterior_sd"] == pytest.approx(wanted)


def test_an_answer_without_labels_is_half_as_the_judge_says_and_half_as_the_others():
    found = estimate_joint_shares(CODES, ["a", "none"], ["a", "none"])
    # b is .2 of the traces; a and none are .3 and .5 of the .8 with labels.
    shares = {"a": 0.3 + 0.1 * 3 / 8, "b": 0.1, "none": 0.5 + 0.1 * 5 / 8}
    assert {code: estimate.value for code, estimate in found.items()} == pytest.approx(shares)


def test_undecided_is_an_answer_and_no_code():
    """Of 100 traces the judge leaves 40 undecided; people find 1 of 4 of these to be a."""
    judged = {"a": [20], "none": [40], "undecided": [40]}
    judge = ["a", "none", "none", *["undecided"] * 4]
    human = ["a", "none", "none", "a", "none", "none", "none"]
    found = estimate_joint_shares(judged, judge, human, codes=["a", "none"])
    assert {code: estimate.value for code, estimate in found.items()} == pytest.approx(
        {"a": 0.2 + 0.4 / 4, "none": 0.4 + 0.4 * 3 / 4}
    )
    assert found["a"].inputs["confidence_each"] == pytest.approx(1 - 0.05 / 2)
    # Without labels of theirs they are divided like the others: 1 : 2.
    found = estimate_joint_shares(judged, judge[:3], human[:3], codes=["a", "none"])
    assert found["a"].value == pytest.approx(1 / 3)
    with pytest.raises(ValueError, match="'undecided' is none of the codes"):
        estimate_joint_shares(judged, ["undecided"], ["undecided"], codes=["a", "none"])


def test_a_code_without_labels_has_the_limits_of_half_a_label_in_all():
    """Neither judge nor people give c to any of 200 labelled traces: as Jeffreys' Beta(1/2, 200 +
    1/2) at 1 - .05 / 3, and not 0 to 100 %.
    """
    judged = {"a": [500], "c": [0], "none": [500]}
    labels = ["a", "none"] * 100
    found = estimate_joint_shares(judged, labels, labels)["c"]
    assert (found.value, found.low) == (0, pytest.approx(0, abs=1e-4))
    assert found.high == pytest.approx(beta(0.5, 200.5).ppf(1 - 0.05 / 3 / 2), rel=0.1)


def test_codes_found_in_fewer_than_five_tasks_are_not_promised():
    """a is in five tasks, b five times in four, c nowhere; without clusters b is in five traces."""
    human = [*"aaaaabbbbb", "none"]
    clusters = [0, 1, 2, 3, 4, 0, 1, 2, 3, 3, 5]
    judged = {code: [10] * 6 for code in ("a", "b", "c", "none")}
    found = estimate_joint_shares(judged, human, human, clusters=clusters)
    said = {code: (e.inputs["found_in"], e.inputs["promised"]) for code, e in found.items()}
    assert said == {"a": (5, True), "b": (4, False), "c": (0, False), "none": (1, False)}
    alone = estimate_joint_shares({code: [60] for code in judged}, human, human)["b"].inputs
    assert (alone["found_in"], alone["promised"]) == (5, True)


@pytest.mark.parametrize(
    ("judged", "labels", "reason"),
    [(CODES, [], "no human labels"), ({code: [0] for code in CODES}, ["a"], "no judged traces")],
)
def test_undefined(judged, labels, reason):
    for estimate in estimate_joint_shares(judged, labels, labels).values():
        assert (estimate.value, *limits(estimate), estimate.reason) == (None, 0.0, 1.0, reason)
        assert not estimate.inputs["promised"]


def test_one_task_says_nothing_of_tasks():
    found = estimate_joint_shares(CODES, ["a", "b"], ["a", "b"], clusters=[1, 1])
    assert limits(found["a"]) == (0.0, 1.0)
    assert "one task" in found["a"].reason


def test_bad_input_raises():
    with pytest.raises(ValueError, match="'x' is none of the codes"):
        estimate_joint_shares(CODES, ["a"], ["x"])
    with pytest.raises(ValueError, match="of the same traces"):
        estimate_joint_shares(CODES, ["a"], ["a", "b"])
