"""Percentile intervals from resampling whole clusters, for ratios that have no formula.

Traces of one task depend on each other, so clusters (tasks) are resampled. A statistic must be a
function of totals that add up over clusters: a resample is a row of counts of the clusters times
their totals, and thousands of resamples are one matrix product. scipy's ``bootstrap`` calls the
statistic on index arrays and is some fifty times slower.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from validation.estimate import Estimate
from validation.intervals import check_confidence

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], Floats]

_CELLS = 250_000
"""Resamples times clusters in one piece: about 6 MB, which stays in the processor's cache."""


@dataclass(frozen=True, slots=True, eq=False)
class Resamples:
    """Totals over all clusters and over every resample, for any number of statistics.

    ``observed`` has the shape (1, K), ``draws`` (resamples, K), without rows if there is no
    cluster.
    """

    observed: Floats
    draws: Floats
    clusters: int
    seed: int

    @classmethod
    def draw(cls, tables: Floats, *, resamples: int, seed: int) -> Self:
        """Draw as many clusters as there are, with replacement, ``resamples`` times.

        Args:
            tables: totals by cluster, shape (G, K).
            resamples: at least 1.
            seed: the same seed gives the same resamples.
        """
        tables = np.asarray(tables, dtype=np.float64)
        count = len(tables)
        random = np.random.default_rng(seed)
        step = max(1, _CELLS // max(1, count))
        sizes = [min(step, resamples - done) for done in range(0, resamples, step)]
        pieces = [_count_draws(random, size, count) @ tables for size in sizes if count]
        draws = np.concatenate(pieces) if pieces else np.empty((0, tables.shape[1]))
        return cls(tables.sum(axis=0, keepdims=True), draws, count, seed)

    def estimate(
        self,
        measure: str,
        statistic: Statistic,
        n: int,
        inputs: Mapping[str, Any] | None = None,
        undefined_because: str = "no items",
        confidence: float = 0.95,
    ) -> Estimate:
        """Return a statistic of totals with its percentile interval.

        The limits are stretched to contain the value. There are none for fewer than 2 clusters, and
        if the resamples do not differ (perfect agreement). Below 20 clusters they tend to be too
        narrow.

        Args:
            measure: the name of the result.
            statistic: from totals of shape (R, K) to R numbers, NaN where it is undefined.
            n: the number of items.
            inputs: more inputs than ``clusters``, ``resamples``, ``undefined_resamples`` (left out
                because the statistic is undefined there) and ``seed``.
            undefined_because: the reason if the statistic is undefined.
            confidence: between 0 and 1, both excluded.

        Source: A. C. Davison, D. V. Hinkley, Bootstrap Methods and their Application (1997), sec.
        3.8 (resampling of clusters) and 5.3 (percentile limits).
        """
        check_confidence(confidence)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = float(statistic(self.observed)[0])
            values = statistic(self.draws)
        finite = values[np.isfinite(values)]
        low, high, reason = None, None, None
        if not np.isfinite(value):
            reason = undefined_because
        elif self.clusters < 2:
            reason = f"no interval from {self.clusters} cluster: resampling needs at least 2"
        elif not len(finite):
            reason = "no interval: the statistic is undefined in every resample"
        else:
            tail = (1 - confidence) / 2
            ends = np.quantile(finite, [tail, 1 - tail])
            if ends[1] - ends[0] < 1e-12:
                reason = "no interval: the resamples do not differ, which is not certainty"
            else:
                low, high = min(value, float(ends[0])), max(value, float(ends[1]))
        bootstrap = {
            "clusters": self.clusters,
            "resamples": len(self.draws),
            "undefined_resamples": len(self.draws) - len(finite),
            "seed": self.seed,
        }
        return Estimate(
            measure,
            value if np.isfinite(value) else None,
            *(low, high, n, confidence),
            "none" if low is None else "cluster_bootstrap_percentile",
            reason,
            {**(inputs or {}), **bootstrap},
        )


def bootstrap_mean(
    measure: str,
    values: Sequence[float],
    *,
    weights: Sequence[float] | None = None,
    clusters: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Estimate:
    """Return the weighted mean of one number per item with its cluster bootstrap interval.

    Args:
        measure: the name of the result.
        values: finite numbers, one per item. None at all give an undefined mean.
        weights: positive sampling weights; default: all the same.
        clusters: one per item; items of a cluster are resampled together. Default: one each.
        confidence: between 0 and 1, both excluded.
        resamples: at least 1.
        seed: the same seed gives the same limits.
    """
    weight = check_weights(weights, len(values))
    columns = np.column_stack([weight * np.asarray(values, dtype=np.float64), weight])
    tables = sum_by_number(columns, clusters)
    return Resamples.draw(tables, resamples=resamples, seed=seed).estimate(
        measure,
        lambda totals: totals[:, 0] / totals[:, 1],
        len(values),
        {"sum_of_weights": float(weight.sum())},
        confidence=confidence,
    )


def check_weights(weights: Sequence[float] | Floats | None, n: int) -> Floats:
    """Return n positive weights, all 1 by default."""
    if weights is None:
        return np.ones(n)
    if len(weights) != n:
        raise ValueError(f"there must be one weight per item, not {len(weights)} for {n}")
    checked = np.asarray(weights, dtype=np.float64)
    wrong = ~(np.isfinite(checked) & (checked > 0))
    if wrong.any():
        raise ValueError(
            f"a weight must be a positive number, not {weights[int(wrong.argmax())]!r}"
        )
    return checked


def index_clusters(clusters: Sequence[Hashable] | None, n: int) -> list[int]:
    """Return the number of every item's cluster, 0 for the first one; by default its own."""
    if clusters is None:
        return list(range(n))
    if len(clusters) != n:
        raise ValueError(f"there must be one cluster per item, not {len(clusters)} for {n}")
    numbers: dict[Hashable, int] = {}
    for item, cluster in enumerate(clusters):
        if cluster is None or cluster != cluster:
            raise ValueError(f"item {item} has no cluster")
        numbers.setdefault(cluster, len(numbers))
    return [numbers[cluster] for cluster in clusters]


def sum_by_number(columns: Floats, clusters: Sequence[Hashable] | None) -> Floats:
    """Add up rows by item, shape (n, K), to rows by cluster, shape (G, K)."""
    numbers = index_clusters(clusters, len(columns))
    totals = np.zeros((max(numbers, default=-1) + 1, columns.shape[1]))
    np.add.at(totals, numbers, columns)
    return totals


def _count_draws(random: np.random.Generator, size: int, count: int) -> Floats:
    """Return how often each cluster was drawn, shape (size, count), rows adding to count."""
    # The same law as Generator.multinomial with equal chances, eight times as fast.
    draws = random.integers(0, count, size=(size, count))
    draws += np.arange(size)[:, None] * count
    return np.bincount(draws.ravel(), minlength=size * count).reshape(size, count).astype(float)
