"""Prevalence corrected for the judge's errors."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from validation import (
    Cell,
    estimate_lang_reiczigel,
    estimate_ppi_mean,
    estimate_recall,
    estimate_rogan_gladen,
    make_cell,
    poststratify,
)

EMPTY = make_cell([])


def labels(k, n):
    return make_cell([1] * k + [0] * (n - k))


def limits(found):
    return (found.low, found.high)


def beta_end(mean, variance, tail):
    total = mean * (1 - mean) / variance - 1
    return beta.ppf(tail, mean * total, (1 - mean) * total)


def test_undecided_traces_are_an_answer():
    """30 flagged traces (9 of 10 with the code), 50 unflagged (1 of 10), 20 undecided (4 of 8).

    .3 * .9 + .5 * .1 + .2 * .5 = .42. Posterior means 9.5 / 11, 1.5 / 11, 4.5 / 9, variances by
    q (1 - q) / (n + 2); between the answers (.3 q1^2 + .5 q0^2 + .2 qu^2 - m^2) / 100.
    """
    given_labels = (80, 30, labels(9, 10), labels(1, 10))
    found = poststratify(*given_labels, others=[(20, labels(4, 8))])
    assert found.value == pytest.approx(0.42)
    assert found.n == 100
    assert found.inputs["posterior_mean"] == pytest.approx(0.4272727)
    assert found.inputs["posterior_sd"] == pytest.approx(0.0730872, abs=1e-7)
    assert limits(found) == pytest.approx(
        [beta_end(0.42727273, 0.00534174, tail) for tail in (0.025, 0.975)], abs=1e-5
    )
    assert poststratify(*given_labels, others=[(0, EMPTY)]).low == poststratify(*given_labels).low
    recall = estimate_recall(*given_labels, others=[(20, labels(4, 8))])
    assert recall.value == pytest.approx(0.27 / 0.42)
    assert recall.low < recall.value < recall.high
    with pytest.raises(ValueError, match="8 traces with another answer are labelled, but only 7"):
        poststratify(*given_labels, others=[(7, labels(4, 8))])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(([],), Cell(None, 0, 0, 0.0), id="empty"),
        pytest.param(([1, 0, 1, 1],), Cell(0.75, 3, 4, 4.0), id="plain"),
        pytest.param(([1, 0], [3, 1]), Cell(0.75, 1, 2, 1.6), id="weighted"),
    ],
)
def test_cell(arguments, expected):
    found = make_cell(*arguments)
    assert (found.share, found.k, found.n) == (expected.share, expected.k, expected.n)
    assert found.n_effective == pytest.approx(expected.n_effective)


def test_the_variance_over_tasks_counts_where_it_is_larger():
    cells = labels(16, 20), labels(4, 40)
    alone = poststratify(1000, 200, *cells)
    variance = alone.inputs["posterior_sd"] ** 2
    twice = poststratify(1000, 200, *cells, cluster_variance=2 * variance, df=9)
    assert twice.inputs["design_effect"] == pytest.approx(2)
    assert twice.inputs["posterior_sd"] == pytest.approx(
        (2 * variance) ** 0.5 * 2.262157 / 1.959964
    )
    half = poststratify(1000, 200, *cells, cluster_variance=variance / 2)
    assert (half.low, half.high) == (alone.low, alone.high)
    assert half.inputs["design_effect"] == 1


def test_interval_from_its_formula():
    found = poststratify(1000, 200, labels(16, 20), labels(4, 40))
    q1, q0 = 16.5 / 21, 4.5 / 41
    m = 0.2 * q1 + 0.8 * q0
    variance = 0.04 * q1 * (1 - q1) / 22 + 0.64 * q0 * (1 - q0) / 42
    variance += 0.16 * (q1 - q0) ** 2 / 1000
    total = m * (1 - m) / variance - 1
    assert found.value == pytest.approx(0.2 * 0.8 + 0.8 * 0.1)
    assert limits(found) == pytest.approx(beta(m * total, (1 - m) * total).ppf([0.025, 0.975]))
    assert found.inputs["posterior_mean"] == pytest.approx(m)
    assert found.inputs["posterior_sd"] == pytest.approx(variance**0.5)
    wide = poststratify(1000, 200, labels(16, 20), labels(4, 40), df=5)
    assert wide.inputs["posterior_sd"] == pytest.approx(variance**0.5 * 2.570582 / 1.959964)


def test_posterior_by_simulation():
    found = poststratify(500, 100, labels(9, 10), labels(3, 90))
    rng = np.random.default_rng(1)
    share = rng.beta(100, 400, 400_000)
    drawn = share * rng.beta(9.5, 1.5, 400_000) + (1 - share) * rng.beta(3.5, 87.5, 400_000)
    assert found.inputs["posterior_mean"] == pytest.approx(drawn.mean(), abs=1e-3)
    assert found.inputs["posterior_sd"] == pytest.approx(drawn.std(), abs=1e-3)
    # The Beta distribution has the posterior's moments, not quite its tails.
    assert limits(found) == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=1e-2)


def test_corpus_has_nothing_uncertain_once_all_are_labelled():
    cells = labels(4, 5), labels(1, 5)
    process = poststratify(10, 5, *cells)
    corpus = poststratify(10, 5, *cells, population="corpus")
    assert process.low < corpus.low == corpus.value == corpus.high < process.high
    half = poststratify(20, 10, *cells, population="corpus")
    assert half.high - half.low < process.high - process.low
    assert half.low < half.value < half.high


def test_cells_without_labels():
    never = poststratify(1000, 0, EMPTY, labels(2, 100))
    assert (never.value, never.inputs["note"]) == (0.02, None)
    always = poststratify(1000, 1000, labels(90, 100), EMPTY)
    assert (always.value, always.inputs["note"]) == (0.9, None)
    half = poststratify(1000, 100, EMPTY, labels(0, 100))
    assert half.value == pytest.approx(0.05)  # 1/2 of the flagged
    assert half.inputs["note"] == "none of the 100 traces with the judge's flag has a human label"
    assert half.inputs["unlabelled"] == 0.1
    # Of the 900 others Jeffreys' prior leaves m = .5 / 101, v = m (1 - m) / 102. If none of the 100
    # has the code, the share is .9 m with these limits; if all have it, .1 + .9 m.
    m = 0.5 / 101
    v = 0.81 * m * (1 - m) / 102
    low, high = (
        (mean, v + (square - mean**2) / 1000)
        for mean, square in ((0.9 * m, 0.9 * m**2), (0.1 + 0.9 * m, 0.1 + 0.9 * m**2))
    )
    assert limits(half) == pytest.approx((beta_end(*low, 0.025), beta_end(*high, 0.975)))
    for judged, flagged, reason in ((1000, 100, "no human labels"), (0, 0, "no judged traces")):
        nothing = poststratify(judged, flagged, EMPTY, EMPTY)
        assert (nothing.value, nothing.low, nothing.high) == (None, 0.0, 1.0)
        assert nothing.reason == reason
        json.dumps(nothing.as_dict(), allow_nan=False)


def test_one_task_says_nothing_of_tasks():
    found = poststratify(100, 50, labels(9, 10), labels(1, 10), df=0)
    assert (found.value, found.low, found.high) == (0.5, 0.0, 1.0)
    assert "one task" in found.reason


def test_variance_too_large_for_any_beta():
    found = poststratify(100, 50, labels(1, 1), labels(1, 1), df=1)
    assert limits(found) == (0.0, 1.0)


CELLS = st.integers(0, 60).flatmap(
    lambda n: st.builds(labels, st.integers(0, n), st.just(n)) if n else st.just(EMPTY)
)


@settings(max_examples=25)  # recall draws a posterior for each
@given(st.integers(60, 2000), st.integers(60, 2000), CELLS, CELLS, st.floats(0.5, 0.999))
def test_limits_surround_the_estimate(flags, others, flagged, unflagged, confidence):
    judged = flags + others
    for found in (
        poststratify(judged, flags, flagged, unflagged, confidence=confidence),
        estimate_recall(judged, flags, flagged, unflagged, confidence=confidence),
    ):
        if found.value is None:
            assert found.reason
        else:
            assert 0 <= found.low <= found.value <= found.high <= 1


def test_recall():
    found = estimate_recall(1000, 200, labels(40, 50), labels(5, 50))
    assert found.value == pytest.approx(0.16 / (0.16 + 0.08))
    again = estimate_recall(1000, 200, labels(40, 50), labels(5, 50))
    assert found == again
    other = estimate_recall(1000, 200, labels(40, 50), labels(5, 50), seed=1)
    assert limits(other) != limits(found)
    assert limits(other) == pytest.approx(limits(found), abs=0.003)
    wide = estimate_recall(1000, 200, labels(40, 50), labels(5, 50), df=3)
    assert wide.low < found.low < found.high < wide.high
    json.dumps(found.as_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((0, 0, EMPTY, EMPTY), "no judged traces"),
        ((100, 50, EMPTY, EMPTY), "no human labels"),
        ((100, 50, EMPTY, labels(1, 5)), "none of the 50 traces with the judge's flag has"),
        ((100, 50, labels(1, 5), EMPTY), "none of the 50 traces without the judge's flag has"),
        ((100, 50, labels(0, 5), labels(0, 5)), "humans found the code in no labelled trace"),
    ],
)
def test_recall_is_undefined(arguments, reason):
    found = estimate_recall(*arguments)
    assert (found.value, found.low, found.high) == (None, 0.0, 1.0)
    assert found.reason.startswith(reason)


def test_recall_of_a_judge_that_always_says_the_same():
    never = estimate_recall(10, 0, EMPTY, labels(1, 5))
    always = estimate_recall(10, 10, labels(1, 5), EMPTY)
    assert (never.value, always.value) == (0.0, 1.0)
    # Ten traces do not prove that it never (always) will.
    assert never.low == 0 < never.high < 1
    assert 0 < always.low < always.high == 1


@pytest.mark.parametrize(
    ("arguments", "value", "clipped"),
    [
        # epiR's manual: 23 of 150, Se .96, Sp .89, true prevalence 5.1 per 100.
        ((23, 150, 0.96, 0.89), 0.050980, False),
        ((1, 100, 0.9, 0.9), 0.0, True),
        ((99, 100, 0.9, 0.9), 1.0, True),
        ((40, 100, 1.0, 1.0), 0.4, False),
        ((40, 100, 0.55, 0.45), None, False),
        ((40, 100, 0.6, 0.4), None, False),
        ((40, 100, 0.3, 0.2), None, False),
        ((0, 0, 0.9, 0.9), None, False),
    ],
)
def test_rogan_gladen(arguments, value, clipped):
    found = estimate_rogan_gladen(*arguments)
    assert found.value == (value and pytest.approx(value, abs=1e-6))
    assert found.inputs["clipped"] is clipped
    assert (found.reason is None) == (value is not None)
    assert (found.low, found.high, found.method) == (None, None, "none")


def test_lang_reiczigel():
    found = estimate_lang_reiczigel(80, 400, 30, 40, 78, 80)
    assert found.value == pytest.approx(0.2413793)
    assert limits(found) == pytest.approx((0.158631, 0.327122), abs=1e-6)
    more = estimate_lang_reiczigel(80, 400, 30, 40, 78, 80, confidence=0.99)
    assert more.low < found.low < found.high < more.high
    # A judge without errors, known for sure, leaves the sampling error: near Wilson's.
    sure = estimate_lang_reiczigel(80, 400, 10**9, 10**9, 10**9, 10**9)
    assert limits(sure) == pytest.approx((0.1637, 0.2421), abs=2e-3)
    for arguments, reason in (
        ((90, 250, 0, 0, 27, 30), "no labelled trace has the code: sensitivity is unknown"),
        ((90, 250, 3, 30, 0, 0), "every labelled trace has the code: specificity is unknown"),
        ((90, 250, 0, 0, 0, 0), "no human labels"),
        ((0, 0, 4, 5, 4, 5), "no judged traces"),
        ((5, 9, 1, 2, 1, 2), "sensitivity + specificity <= 1"),
    ):
        nothing = estimate_lang_reiczigel(*arguments)
        assert (nothing.value, nothing.low, nothing.high) == (None, 0.0, 1.0)
        assert nothing.reason.startswith(reason)


HUMAN, JUDGE = [1, 0, 1, 1, 0, 0, 1, 0, 1, 0], [1, 0, 1, 0, 0, 0, 1, 1, 1, 0]
OTHERS = [1] * 28 + [0] * 32


def test_ppi_with_the_best_tuning():
    best = estimate_ppi_mean(HUMAN, JUDGE, OTHERS)
    # cov = .15; variance of all 70 judge answers, over 69: 70 (33/70) (37/70) / 69.
    assert best.inputs["tuning"] == pytest.approx(0.15 / (7 / 6 * 33 * 37 / 70 / 69))
    for tuning in (0.0, 0.3, 0.8, 1.0):
        error = estimate_ppi_mean(HUMAN, JUDGE, OTHERS, tuning).inputs["se"]
        assert best.inputs["se"] <= error + 1e-3
    plain = estimate_ppi_mean(HUMAN, JUDGE, OTHERS, 0.0)
    assert plain.value == 0.5
    assert plain.inputs["se"] == pytest.approx(math.sqrt(0.025))
    half = 1.959964 * math.sqrt(0.025)
    assert limits(plain) == pytest.approx((0.5 - half, 0.5 + half))


def test_ppi_that_is_degenerate():
    for arguments in (([], [], [1]), ([1], [1], [])):
        assert estimate_ppi_mean(*arguments).value is None
    for arguments in (([1, 1], [1, 1], [1, 1]), ([1], [1], [1, 0]), ([1, 0], [1, 0], [1])):
        found = estimate_ppi_mean(*arguments)
        assert found.value is not None
        assert (found.low, found.high) == (None, None)
        assert found.reason
    same = estimate_ppi_mean([1, 0, 1], [1, 1, 1], [1, 1])
    assert (same.inputs["tuning"], same.value) == (0.0, pytest.approx(2 / 3))
    opposite = estimate_ppi_mean([1, 0, 1, 0], [0, 1, 0, 1], [1, 0])
    assert opposite.inputs["tuning"] == 0.0
