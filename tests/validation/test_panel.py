"""How many independent votes the votes of a panel are worth."""

import numpy as np
import pytest

from validation import compute_effective_votes, estimate_effective_votes


def make_votes(*counts):
    """Items with these votes of several voters on one code: ((1, 0), 3) is three items."""
    return [[[vote] for vote in votes] for votes, n in counts for _ in range(n)]


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        # phi = (3 * 3 - 1 * 1) / 16 = .5, so 2 / 1.5
        (make_votes(((1, 1), 3), ((1, 0), 1), ((0, 1), 1), ((0, 0), 3)), 4 / 3),
        (make_votes(((1, 1), 2), ((0, 0), 2)), 1),  # two that always agree are one
        (make_votes(((1, 1), 1), ((1, 0), 1), ((0, 1), 1), ((0, 0), 1)), 2),  # phi = 0
        # voter 2 repeats voter 1, voter 3 is independent: rho = (1 + 0 + 0) / 3, 3 / (1 + 2 / 3)
        (make_votes(((1, 1, 1), 1), ((1, 1, 0), 1), ((0, 0, 1), 1), ((0, 0, 0), 1)), 1.8),
        # the third voter never varies, and is in no pair: phi = .5 for the only one, 3 / 2
        (make_votes(((1, 1, 0), 3), ((1, 0, 0), 1), ((0, 1, 0), 1), ((0, 0, 0), 3)), 1.5),
    ],
)
def test_votes_by_hand(votes, expected):
    result = estimate_effective_votes(votes)
    assert result.value == pytest.approx(expected)
    marks = np.asarray(votes)
    together = np.einsum("nic,njc->ijc", marks, marks)
    assert compute_effective_votes(len(votes), together).value == pytest.approx(expected)


def test_codes_are_pooled():
    """Code 1 varies in 8 items with phi .5 (covariance 1/8, variances 1/4); code 2 in the same
    items with phi 1 (covariance 1/4): rho = (1/8 + 1/4) / (1/4 + 1/4) = .75, 2 / 1.75.
    """
    first = [(1, 1)] * 3 + [(1, 0), (0, 1)] + [(0, 0)] * 3
    second = [(1, 1)] * 4 + [(0, 0)] * 4
    votes = [list(zip(a, b, strict=True)) for a, b in zip(first, second, strict=True)]
    result = estimate_effective_votes(votes)
    assert result.inputs["correlation"] == pytest.approx(0.75)
    assert result.value == pytest.approx(2 / 1.75)


def test_votes_that_never_vary_are_undefined():
    result = estimate_effective_votes(make_votes(((1, 1), 5)))
    assert (result.value, result.low, result.n) == (None, None, 5)
    assert "vary" in result.reason
    assert compute_effective_votes(5, np.full((2, 2, 1), 5)).value is None


def test_the_interval_covers_and_knows_clusters():
    """A panel of three with correlation .5, simulated: 3 / (1 + 2 * .5) = 1.5."""
    covered, wider = 0, 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        shared, alone = random.integers(0, 2, (300, 1)), random.integers(0, 2, (300, 3))
        votes = np.where(random.random((300, 3)) < np.sqrt(0.5), shared, alone)[:, :, None]
        plain = estimate_effective_votes(votes, resamples=400)
        covered += plain.low <= 1.5 <= plain.high
        tasks = np.repeat(np.arange(30), 10)
        twice = estimate_effective_votes(np.repeat(votes[:30], 10, axis=0), clusters=tasks)
        wider += twice.high - twice.low > plain.high - plain.low
    assert covered >= 54
    assert wider == 60
