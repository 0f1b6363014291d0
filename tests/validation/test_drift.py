"""Drift of answers: expected values by hand, and all outcomes of small cases counted out."""

import itertools

import numpy as np
import pytest

from validation import estimate_drift, measure_drift_p

NAN = float("nan")
FLIP = [[0, 0, 0, 1]] * 12  # three frozen answers and a look


@pytest.mark.parametrize(
    ("answers", "p"),
    [
        # Twelve times one of four is the last: two directions, and 1/11 of the level is look 1's.
        (FLIP, 2 * 4**-12 * 11),
        # A missing answer: one of three.
        ([[0, NAN, 0, 1]] * 12, 2 * 3**-12 * 11),
        # No answer at the look says nothing.
        ([*FLIP, [0, 1, 0, NAN]], 2 * 4**-12 * 11),
        # Two looks later: two of five are the last two, four tails, 10 / (11 * 12) of the level.
        ([[0, 0, 0, 1, 1]] * 12, 4 * 10**-12 * 13.2),
        # The smallest p of all looks counts.
        ([[0, 0, 0, 1, 0]] * 12, 2 * 4**-12 * 11),
        ([[1, 1, 1, 0]] * 12, 2 * 4**-12 * 11),
        ([[0, 0, 0, 1]], 1.0),
        ([[0, 0, 0, 0], [1, 1, 1, 1]], None),
        ([[0, 1, 0]], None),  # no look yet
    ],
)
def test_p_by_hand(answers, p):
    [value] = measure_drift_p(np.array([answers], dtype=float), 3)
    assert value == (None if p is None else pytest.approx(p, rel=1e-9))


def test_codes_that_vary_count():
    """By Holm: the smaller of two; a third one never varies."""
    half = [[0, 0, 0, 1]] * 9 + [[0, 0, 0, 0]] * 3
    same = [[1, 1, 1, 1]] * 12
    first, second, third = measure_drift_p(np.array([half, FLIP, same], dtype=float), 3)
    assert first == pytest.approx(2 * 4**-9 * 11, rel=1e-9)
    assert second == pytest.approx(2 * 2 * 4**-12 * 11, rel=1e-9)
    assert third is None


@pytest.mark.parametrize("ones", [(1, 1, 1, 1), (1, 2, 3, 2), (2, 2, 1, 0)])
def test_no_p_is_found_too_often(ones):
    """All places of the ones in two frozen answers and two looks are equally likely."""
    places = [list(itertools.combinations(range(4), k)) for k in ones]
    p_values = []
    for chosen in itertools.product(*places):
        answers = np.zeros((1, 4, 4))
        for item, columns in enumerate(chosen):
            answers[0, item, list(columns)] = 1
        p_values.append(measure_drift_p(answers, 2)[0])
    for p in p_values:
        assert np.mean([each <= p + 1e-12 for each in p_values]) <= p + 1e-12


def test_a_change_in_two_items_of_many_answers_is_found_among_noise():
    """Two items change for good; a sum of all answers would not see it in the noise of 20."""
    rng = np.random.default_rng(1)
    noise = rng.random((20, 20)) < 0.5
    late = np.repeat([[0] * 10 + [1] * 10], 2, axis=0)
    [p] = measure_drift_p(np.array([np.vstack([noise, late])], dtype=float), 4)
    [without] = measure_drift_p(np.array([noise], dtype=float), 4)
    assert p < 0.05 < without


def test_the_difference_and_its_interval():
    """Ten items, two answers before and one after: .15 before, .4 after; one lacks a side.

    By hand: u = (x - .4) / 10 - (y - .3) / 20 with y the ones of two; the variance is 10/9 of the
    sum of squares, t of 9 degrees is 2.2622.
    """
    before = np.array([[0, 0]] * 8 + [[0, 1], [1, 1]] + [[NAN, NAN]], dtype=float)
    after = np.array([[0]] * 6 + [[1]] * 4 + [[1]], dtype=float)
    drift = estimate_drift(before, after)
    moves = np.array([0] * 6 + [1, 1, 0.5, 0]) - 0.25
    half = 2.262157 * np.sqrt(10 / 9 * (moves**2).sum()) / 10
    assert (drift.value, drift.inputs["items"]) == (pytest.approx(0.25), 10)
    assert (drift.low, drift.high) == (pytest.approx(0.25 - half), pytest.approx(0.25 + half))
    tasks = [*"aabbccddee", "f"]
    wide = estimate_drift(before, after, ["abcdef"[n % 6] for n in range(11)])
    assert wide.inputs["clusters1"] == 6
    assert estimate_drift(before, after, tasks).reason == "5 clusters on a side, fewer than 6"


def test_the_same_answers_again():
    """Half of one more item differs: sqrt(.5 / 13 / 12), t of 11 degrees is 2.2010."""
    answers = np.array([[0], [1], [1]] * 4, dtype=float)
    for clusters in (None, [*"aabbccddeeff"]):
        half = {None: 2.200985, 6: 2.570582}[clusters and 6] * (0.5 / 13 / 12) ** 0.5
        drift = estimate_drift(answers, answers, clusters)
        assert (drift.low, drift.high) == (pytest.approx(-half), pytest.approx(half))
