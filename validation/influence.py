"""Influences of tasks on a share that human labels correct, and its variance.

An estimate is nearly its value plus the sum of the influences of independent tasks, which add up to
0. All traces and labels of a task are in one influence, so the spread of the influences gives the
variance, whatever the dependence within tasks.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from validation.resampling import Floats, sum_by_number


@dataclass(frozen=True, slots=True, eq=False)
class Influences:
    """The influences of G tasks on the share of ``prevalence.poststratify`` and on its first term.

    The first term, ``hits``, is the share of traces with the code and the judge's flag. The two
    arrays have the shape (G,). ``recall_variance``: the linearised variance of hits / share for
    independent traces.
    """

    on_share: Floats
    on_hits: Floats
    share: float
    hits: float
    recall_variance: float

    @property
    def variance(self) -> float:
        """The variance of the share over tasks, 0 with fewer than two."""
        return compute_cluster_variance(self.on_share)

    @property
    def recall_design_effect(self) -> float:
        """The design effect of recall, hits / share; at least 1, and 1 where it is undefined."""
        if not self.share or not self.recall_variance:
            return 1.0
        on_recall = (self.on_hits - self.hits / self.share * self.on_share) / self.share
        return max(1.0, compute_cluster_variance(on_recall) / self.recall_variance)


def compute_cluster_variance(influences: Floats) -> float:
    """Return the variance of an estimate, G / (G - 1) times the sum of G squared influences.

    It is 0 for fewer than two clusters.

    Source: W. G. Cochran, Sampling Techniques (1977), section 11.5.
    """
    count = len(influences)
    return float(count / (count - 1) * (influences**2).sum()) if count > 1 else 0.0


def sum_by_cluster(
    influences: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
    weights: Sequence[float] | None = None,
) -> Floats:
    """Return the influences of clusters, the weighted sums of their items' influences over n.

    By default each item is a cluster, and weights are equal.
    """
    u = np.asarray(influences, dtype=float)
    w = np.ones(len(u)) if weights is None else np.asarray(weights, dtype=float)
    parts: Floats = u * w / w.sum()
    return parts if clusters is None else sum_by_number(parts[:, None], clusters)[:, 0]


def compute_influences(
    counts: ArrayLike,
    clusters: Sequence[int],
    answers: Sequence[int],
    human: Sequence[bool],
    weights: Sequence[float] | None = None,
) -> Influences:
    """Return the influences of clusters on a post-stratified share.

    The influence of a cluster is the sum over its traces of (p_j - share) / N, plus the sum over
    its labels of W_j w (y - p_j) / (sum of the w of answer j), where j is the judge's answer, W_j
    and p_j as in ``poststratify``. Without labels p_j is 1/2.

    Args:
        counts: the traces of each cluster by the judge's answer, shape (G, K); at least one in all.
            The first column is the flag, then "no flag", then further answers ("undecided").
        clusters: the row of each labelled trace in ``counts``.
        answers: its column.
        human: whether the human gives it the code.
        weights: of the labels, above 0; their scale within an answer does not matter.

    Source: the linearisation of the share; see ``compute_cluster_variance``.
    """
    n = np.asarray(counts, dtype=float)
    rows, columns = np.asarray(clusters, dtype=np.intp), np.asarray(answers, dtype=np.intp)
    y = np.asarray(human, dtype=float)
    w = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=float)
    size, totals = n.sum(), n.sum(axis=1)
    W = n.sum(axis=0) / size
    cells = [columns == answer for answer in range(len(W))]
    means = [_compute_mean(y[cell], w[cell]) for cell in cells]
    p = np.array([mean for mean, _ in means])
    share, hits = float(W @ p), float(W[0] * p[0])
    on_share = (n @ p - totals * share) / size
    on_hits = (n[:, 0] * p[0] - totals * hits) / size
    for answer, cell in enumerate(cells):
        if cell.any():
            residuals = W[answer] * w[cell] * (y[cell] - p[answer]) / w[cell].sum()
            np.add.at(on_share, rows[cell], residuals)
            if answer == 0:
                np.add.at(on_hits, rows[cell], residuals)
    labels = np.array([effective for _, effective in means])
    return Influences(
        on_share, on_hits, share, hits, _compute_recall_variance(float(size), W, p, labels)
    )


def _compute_mean(y: Floats, w: Floats) -> tuple[float, float]:
    """Return the share of ones and Kish's number of labels."""
    if not len(y):
        return 0.5, 0.0
    total = w.sum()
    return float((w * y).sum() / total), float(total**2 / (w**2).sum())


def _compute_recall_variance(size: float, W: Floats, p: Floats, labels: Floats) -> float:
    """Return the variance of recall, W[0] p[0] / (sum of W p), for independent traces."""
    share = float(W @ p)
    if not share:
        return 0.0
    recall = W[0] * p[0] / share
    slopes = np.full(len(W), -recall)
    slopes[0] += 1
    variance = float(W @ (slopes * p) ** 2) / size
    labelled = labels > 0
    spread = (W * slopes) ** 2 * p * (1 - p)
    return (variance + float((spread[labelled] / labels[labelled]).sum())) / share**2
