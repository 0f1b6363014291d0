"""Choosing an arm: kappas, tests, the rule and its check, by hand and by simulation."""

from collections import Counter

import numpy as np
import pytest

from validation.agreement import compute_cohen_kappa
from validation.selection import check_choice, compare_arms

HUMAN = "aaaaaaaaaabbbbbbbbbb"  # shares of 1/2 each: kappa is 1 - 2 wrong / n
FAST = 500  # resamples


def answer_wrong(*items, human=HUMAN):
    """The person's labels, but the other one of ``items``."""
    return [("ab".replace(x, "") if n in items else x) for n, x in enumerate(human)]


def kappa_of(human, answers, weights=None):
    """By the function for integer tables; a weight is that many items."""
    table = Counter()
    for *pair, weight in zip(human, answers, weights or [1] * len(human), strict=True):
        table[*pair] += weight
    return compute_cohen_kappa(table).value


# The third arm is right on the last ten items, the others on more, but lighter ones.
@pytest.mark.parametrize("weights", [None, [1] * 10 + [9] * 10])
def test_the_best_has_the_greatest_kappa_of_cohen(weights):
    human = list("aabbcabcab" * 2)
    arms = [list("aabbcabcab" + "abcabcabca"), list("aabbcabcab" + "aabbcabcca")]
    arms += [list("ccccccbbbb" + "aabbcabcab")]
    kappas = [kappa_of(human, arm, weights) for arm in arms]
    compared = compare_arms(human, arms, weights=weights, resamples=FAST)
    assert compared.best == kappas.index(max(kappas))
    assert compared.best == (1 if weights is None else 2)
    assert [gap.value for gap in compared.differences[1:]] == pytest.approx(
        [kappa - kappas[0] for kappa in kappas[1:]]
    )
    checked = check_choice(human, arms, weights=weights, resamples=FAST)
    own = kappa_of(human, checked.answers, weights)
    assert checked.gain.value == pytest.approx(own - kappas[0])


@pytest.mark.parametrize(
    ("first", "second", "p"),
    [
        # d items on which one arm is right: the gap is |2k - d| / 6 with k of them exchanged.
        ((0,), (), 1),
        ((0, 6, 1), (), 2 / 8),
        ((0, 6, 1, 7), (2,), 12 / 32),  # |2k - 5| >= 3 for k of 0, 1, 4, 5
        ((0, 1, 2, 6, 7, 8), (), 2 / 64),
        ((0,), (6,), 1),
    ],
)
def test_p_counts_the_exchanges_that_are_as_extreme(first, second, p):
    """By hand, in twelve items; each is a task of its own, so that all exchanges are tried."""
    human = list("aaaaaabbbbbb")
    arms = [answer_wrong(*wrong, human=human) for wrong in (first, second)]
    assert compare_arms(human, arms, resamples=FAST).p_values == (None, pytest.approx(p))


def test_p_exchanges_whole_tasks():
    """Three of six tasks are wrong in both traces: 2 of 8 exchanges, not 2 of 64."""
    human = ["a", "b"] * 6
    tasks = [n // 2 for n in range(12)]
    arms = [answer_wrong(*range(6), human=human), human]
    compared = compare_arms(human, arms, clusters=tasks, resamples=FAST)
    assert compared.p_values[1] == pytest.approx(2 / 8)
    fewer = compare_arms(human[:10], [arm[:10] for arm in arms], clusters=tasks[:10])
    assert fewer.p_values == (None, None)


def test_p_of_many_tasks_is_that_of_random_exchanges():
    """13 tasks, four of them against one arm only: 2 of 16."""
    human = list("ab" * 13)
    arms = [answer_wrong(*range(8), human=human), human]
    tasks = [n // 2 for n in range(26)]
    p = compare_arms(human, arms, clusters=tasks).p_values[1]
    assert p == pytest.approx(2 / 16, abs=0.01)


@pytest.mark.parametrize(
    ("worse", "costs", "winner"),
    [
        # The best arm is right on u items that the other one has wrong, wrong on v the other way
        # round: a difference of (u - v) / 10, standard error sqrt(u + v - (u - v)^2 / 20) / 10.
        (2, (2, 1), 1),  # u = 2, v = 1: .1 and .17
        (5, (2, 1), 0),  # u = 5, v = 1: .4 and .23
        (2, (1, 2), 0),
        (2, None, 0),
        (1, (1, 1), 0),  # equal kappas and costs: the first one
        (1, (2, 1), 1),
    ],
)
def test_the_cheapest_within_one_standard_error_wins(worse, costs, winner):
    arms = [answer_wrong(0), answer_wrong(*range(10, 10 + worse))]
    compared = compare_arms(HUMAN, arms, costs, resamples=5000)
    assert compared.best == 0
    assert compared.winner == winner
    expected = np.sqrt(worse + 1 - (worse - 1) ** 2 / 20) / 10
    assert compared.standard_errors[0] == 0
    assert compared.standard_errors[1] == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(
    ("wrong", "costs", "chosen"),
    [
        # By task, the arms that are wrong there. Two tasks: each chooses for the other one.
        pytest.param([{1}, {0}], (1, 1), [1, 0], id="two"),
        pytest.param([{0}, {0}], (1, 9), [1, 1], id="two-alike"),
        # Without the last task the second arm is right everywhere, and the first one nowhere.
        pytest.param([{0}, {0}, {1}], (1, 9), [0, 0, 1], id="three-first-is-cheap"),
        pytest.param([{0}, {0}, {1}], (9, 1), [1, 1, 1], id="three-second-is-cheap"),
        pytest.param([{0}, {0}, {0}, {1}], (9, 1), [1, 1, 1, 1], id="four"),
    ],
)
def test_the_other_tasks_choose(wrong, costs, chosen):
    human = ["a", "b"] * len(wrong)
    tasks = [n // 2 for n in range(len(human))]
    arms = [
        answer_wrong(*(n for n, task in enumerate(tasks) if arm in wrong[task]), human=human)
        for arm in (0, 1)
    ]
    checked = check_choice(human, arms, costs, clusters=tasks, resamples=1000)
    assert list(checked.answers) == [arms[chosen[task]][n] for n, task in enumerate(tasks)]
    assert sorted(checked.winners) == sorted(chosen)


def test_without_a_difference_there_is_no_interval_of_the_gain():
    checked = check_choice(HUMAN, [answer_wrong(), answer_wrong(3, 13)], resamples=FAST)
    assert set(checked.winners) == {0}
    assert (checked.gain.value, checked.gain.low, checked.gain.high) == (0, None, None)
    assert checked.gain.reason


def test_one_label_of_the_person_chooses_nothing():
    """An arm that agrees everywhere has no kappa, the others have 0: no reason to prefer one."""
    human, right, wrong = ["a"] * 8, ["a"] * 8, ["a"] * 4 + ["b"] * 4
    compared = compare_arms(human, [wrong, right], (2, 1), resamples=FAST)
    assert (compared.best, compared.winner) == (None, None)
    assert compared.standard_errors == (None, None)
    assert compared.differences[1].value is None
    assert compared.differences[1].reason
    assert compared.p_values == (None, None)
    assert check_choice(human, [wrong, right], resamples=FAST) is None


def test_one_task_has_no_standard_error():
    """The best arm wins, although the other one is cheaper; no other task checks it."""
    arms, task = [answer_wrong(3), answer_wrong()], ["t"] * len(HUMAN)
    compared = compare_arms(HUMAN, arms, (1, 9), clusters=task, resamples=FAST)
    assert (compared.best, compared.winner, compared.standard_errors) == (1, 1, (None, None))
    assert check_choice(HUMAN, arms, clusters=task, resamples=FAST) is None


def test_a_single_arm_wins():
    compared = compare_arms(HUMAN, [answer_wrong(1)], resamples=FAST)
    assert (compared.winner, compared.differences, compared.adjusted) == (0, (None,), (None,))


def test_the_kappa_of_a_winner_is_too_high_and_the_checked_one_is_not():
    """Six equal arms: right in .7 + .3 / 3 of the traces, by chance in 1/3, so kappa is .70."""
    own, checked = [], []
    for seed in range(80):
        random = np.random.default_rng(seed)
        human = random.choice(list("abc"), 48)
        arms = [
            np.where(random.random(48) < 0.7, human, random.choice(list("abc"), 48)).tolist()
            for _ in range(6)
        ]
        options = {"clusters": np.repeat(range(12), 4).tolist(), "resamples": 200, "seed": seed}
        winner = compare_arms(human.tolist(), arms, **options).winner
        own.append(kappa_of(human.tolist(), arms[winner]))
        answers = check_choice(human.tolist(), arms, **options).answers
        checked.append(kappa_of(human.tolist(), answers))
    assert np.mean(own) > 0.73
    assert np.mean(checked) == pytest.approx(0.70, abs=0.03)
