"""What each task adds to a share that human labels correct, and the variance that follows.

An estimate is nearly its value plus a sum over independent tasks: their influences, which add up to
nothing. Traces and labels of one task are in the same summand, so however they go together there,
the spread of the summands is the variance of the whole.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from validation.resampling import Floats, cluster_totals


@dataclass(frozen=True, slots=True, eq=False)
class Influences:
    """The influences of G tasks on W p1 + (1 - W) p0, the share of ``prevalence.poststratify``, and
    on its first term, the traces that have the code and the judge's flag; shape (G,) each.

    ``share`` and ``hits`` are these two numbers; ``recall_variance`` the linearised variance of
    hits / share if traces were independent.
    """

    on_share: Floats
    on_hits: Floats
    share: float
    hits: float
    recall_variance: float

    @property
    def variance(self) -> float:
        """The variance of the share over tasks, 0 with fewer than two."""
        return cluster_variance(self.on_share)

    @property
    def recall_design_effect(self) -> float:
        """How much more recall, hits / share, varies than with independent traces; at least 1, and
        1 where that cannot be told.
        """
        if not self.share or not self.recall_variance:
            return 1.0
        on_recall = (self.on_hits - self.hits / self.share * self.on_share) / self.share
        return max(1.0, cluster_variance(on_recall) / self.recall_variance)


def cluster_variance(influences: Floats) -> float:
    """Return the variance of an estimate from the influences of G clusters, G / (G - 1) times the
    sum of their squares; 0 where G is below 2, as nothing is known.

    Source: W. G. Cochran, Sampling Techniques (1977), section 11.5.
    """
    count = len(influences)
    return float(count / (count - 1) * (influences**2).sum()) if count > 1 else 0.0


def sum_by_cluster(
    influences: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
    weights: Sequence[float] | None = None,
) -> Floats:
    """Return what each cluster adds to an estimate, from what each of n items would add if it were
    alone, n times its part; by default items are clusters of their own and weigh alike.
    """
    u = np.asarray(influences, dtype=float)
    w = np.ones(len(u)) if weights is None else np.asarray(weights, dtype=float)
    parts: Floats = u * w / w.sum()
    return parts if clusters is None else cluster_totals(parts[:, None], clusters)[:, 0]


def poststratified_influences(
    flagged: ArrayLike,
    totals: ArrayLike,
    clusters: Sequence[int],
    judge: Sequence[bool],
    human: Sequence[bool],
    weights: Sequence[float] | None = None,
) -> Influences:
    """Return the influences of clusters on a post-stratified share.

    That of cluster g is [sum over its traces of (p of the trace's cell - share)] / N + sum over its
    labels of W of their cell times w (y - p) / (sum of the cell's w). A cell without labels counts
    with p = 1/2.

    Args:
        flagged: the traces that the judge flags, by cluster, shape (G,).
        totals: all judged traces, by cluster; at least one in all.
        clusters: of each labelled trace, its place in the two.
        judge: whether the judge flags each labelled trace.
        human: whether the human gives it the code.
        weights: of the labels, above 0; their scale within a cell does not matter.

    Source: the linearisation of the share; see ``cluster_variance``.
    """
    k, n = np.asarray(flagged, dtype=float), np.asarray(totals, dtype=float)
    places, flags = np.asarray(clusters, dtype=np.intp), np.asarray(judge, dtype=bool)
    y = np.asarray(human, dtype=float)
    w = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=float)
    size = n.sum()
    share_flagged = k.sum() / size
    p1, n1 = _weighted_mean(y[flags], w[flags])
    p0, n0 = _weighted_mean(y[~flags], w[~flags])
    hits, misses = share_flagged * p1, (1 - share_flagged) * p0
    share = hits + misses
    on_hits = (k * p1 - n * hits) / size
    on_misses = ((n - k) * p0 - n * misses) / size
    for influence, cell, part, mean in (
        (on_hits, flags, share_flagged, p1),
        (on_misses, ~flags, 1 - share_flagged, p0),
    ):
        if cell.any():
            residuals = part * w[cell] * (y[cell] - mean) / w[cell].sum()
            np.add.at(influence, places[cell], residuals)
    return Influences(
        on_hits + on_misses,
        on_hits,
        float(share),
        float(hits),
        _recall_variance(float(size), float(share_flagged), (p1, n1), (p0, n0)),
    )


def _weighted_mean(y: Floats, w: Floats) -> tuple[float, float]:
    """Return the share of ones and Kish's number of labels."""
    if not len(y):
        return 0.5, 0.0
    total = w.sum()
    return float((w * y).sum() / total), float(total**2 / (w**2).sum())


def _recall_variance(
    size: float, flagged: float, hit: tuple[float, float], missed: tuple[float, float]
) -> float:
    """Return the variance of W p1 / (W p1 + (1 - W) p0) for independent traces; (p, n) by cell."""
    (p1, n1), (p0, n0) = hit, missed
    share = flagged * p1 + (1 - flagged) * p0
    if not share:
        return 0.0
    recall = flagged * p1 / share
    up, down = p1 * (1 - recall), p0 * recall
    variance = (flagged * up**2 + (1 - flagged) * down**2) / size
    variance += (flagged * (1 - recall)) ** 2 * p1 * (1 - p1) / n1 if n1 else 0.0
    variance += ((1 - flagged) * recall) ** 2 * p0 * (1 - p0) / n0 if n0 else 0.0
    return variance / share**2
