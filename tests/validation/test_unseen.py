"""The share of unseen codes: values by hand, and the coverage in a simulation."""

import numpy as np
import pytest

from validation import estimate_unseen


@pytest.mark.parametrize(
    ("counts", "value", "low", "high"),
    [
        # 3 of 12; the variance is (3 + 2 * 2 - 9 / 12) / 144, its root .20833.
        pytest.param([1, 1, 1, 2, 2, 5], 0.25, 0.0, 0.6583, id="cut-at-0"),
        # 10 of 100; (10 + 2 * 5 - 1) / 10,000, root .04359.
        pytest.param([1] * 10 + [2] * 5 + [80], 0.1, 0.0146, 0.1854, id="both-limits"),
        # No code has one or two: 1 - .05 ** (1 / 10).
        pytest.param([3, 3, 4], 0.0, 0.0, 0.2589, id="nothing-rare"),
        # Zeros are no codes: 1 - .05 ** (1 / 3).
        pytest.param([0, 3, 0], 0.0, 0.0, 0.6316, id="zeros"),
    ],
)
def test_values_by_hand(counts, value, low, high):
    estimate = estimate_unseen(counts)
    assert estimate.value == pytest.approx(value)
    assert (estimate.low, estimate.high) == pytest.approx((low, high), abs=5e-5)
    assert estimate.n == sum(counts)


@pytest.mark.parametrize(("counts", "value"), [([], None), ([0], None), ([1, 1], 1.0)])
def test_without_an_interval_there_is_a_reason(counts, value):
    estimate = estimate_unseen(counts)
    assert (estimate.value, estimate.low, estimate.high) == (value, None, None)
    assert estimate.reason


@pytest.mark.parametrize("n", [50, 400])
@pytest.mark.parametrize("exponent", [0, 1, 2])
def test_the_interval_covers_the_true_share(n, exponent):
    random = np.random.default_rng(n)
    shares = 1.0 / np.arange(1, 61) ** exponent
    shares /= shares.sum()
    covered = 0
    for _ in range(400):
        counts = random.multinomial(n, shares)
        estimate = estimate_unseen(counts.tolist())
        covered += estimate.low <= shares[counts == 0].sum() <= estimate.high
    assert 0.90 <= covered / 400 <= 0.99
