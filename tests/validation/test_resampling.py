"""The cluster bootstrap against scipy, and where it must give no interval."""

import json
import tracemalloc

import numpy as np
import pytest
from scipy.stats import bootstrap

from validation.resampling import Resamples, bootstrap_mean


def ratio(totals):
    return totals[:, 0] / totals[:, 1]


def resample(tables, statistic=ratio, *, resamples=10_000, seed=0, **more):
    draws = Resamples.draw(np.asarray(tables), resamples=resamples, seed=seed)
    return draws.estimate("m", statistic, len(tables), **more)


def test_same_as_scipy_by_index():
    random = np.random.default_rng(5)
    tables = np.column_stack([random.integers(0, 5, 40), random.integers(5, 10, 40)]).astype(float)
    found = resample(tables, resamples=20_000)

    def by_index(index, axis):
        drawn = tables[index]
        return drawn[..., 0].sum(axis=axis) / drawn[..., 1].sum(axis=axis)

    other = bootstrap(
        (np.arange(40),), by_index, method="percentile", n_resamples=20_000, rng=random
    ).confidence_interval
    assert found.value == pytest.approx(tables[:, 0].sum() / tables[:, 1].sum())
    assert found.low == pytest.approx(other.low, abs=2e-3)
    assert found.high == pytest.approx(other.high, abs=2e-3)


def test_same_seed_same_limits():
    tables = np.arange(20.0).reshape(10, 2) + 1
    found = [resample(tables, resamples=500, seed=seed) for seed in (1, 1, 2)]
    assert found[0] == found[1] != found[2]
    json.dumps(found[0].as_dict(), allow_nan=False)


def test_every_resample_has_as_many_clusters():
    draws = Resamples.draw(np.ones((7, 1)), resamples=300, seed=0).draws
    assert draws.shape == (300, 1)
    assert (draws == 7).all()


def test_undefined_resamples_are_left_out_and_counted():
    tables = np.array([[1.0, 2.0], [0.0, 0.0], [0.0, 1.0]])
    found = resample(tables, resamples=2000)
    # The middle one drawn three times: 1 in 27.
    assert found.inputs["undefined_resamples"] == pytest.approx(2000 / 27, abs=30)
    assert 0 <= found.low <= found.value <= found.high <= 0.5


@pytest.mark.parametrize(
    ("tables", "value", "reason"),
    [
        (np.empty((0, 2)), None, "no items"),
        ([[0.0, 0.0]] * 3, None, "no items"),
        ([[1.0, 2.0]], 0.5, "from 1 cluster"),
        ([[2.0, 2.0], [5.0, 5.0]], 1.0, "do not differ"),
    ],
)
def test_no_interval_with_a_reason(tables, value, reason):
    found = resample(tables, resamples=100)
    assert (found.value, found.low, found.high) == (value, None, None)
    assert reason in found.reason


def test_limits_contain_the_value():
    """A statistic whose resamples are all above the value: the maximum share of a value."""
    tables = np.eye(6)
    found = resample(tables, lambda totals: totals.max(axis=1) / totals.sum(axis=1), confidence=0.5)
    assert found.low == found.value == pytest.approx(1 / 6)


def test_memory_does_not_grow_with_the_resamples():
    tables = np.ones((1000, 2))
    tracemalloc.start()
    Resamples.draw(tables, resamples=20_000, seed=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6


def test_mean_of_clusters():
    found = bootstrap_mean("m", [1, 0, 0.5], weights=[2, 1, 1], clusters="aab", resamples=200)
    assert found.value == pytest.approx(2.5 / 4)
    assert (found.n, found.inputs["clusters"], found.inputs["sum_of_weights"]) == (3, 2, 4.0)
    assert found.method == "cluster_bootstrap_percentile"
    # Both clusters, or one of them twice.
    assert (found.low, found.high) == pytest.approx((0.5, 2 / 3))
