"""Shares of weighted or clustered items, such as several traces of one task.

Items of one cluster resemble each other: n of them tell less than n independent ones. The design
effect is the variance of the share over that of a simple random sample of the same (Kish) size.
"""

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.estimate import Estimate
from validation.influence import compute_cluster_variance
from validation.intervals import (
    Interval,
    compute_quantile,
    compute_wilson_interval,
    compute_wilson_limits,
)
from validation.resampling import Floats, check_weights, index_clusters

# Below this a design effect is rounding of 0: all clusters have exactly the same share.
_NOTHING = 1e-9
_ONE_CLUSTER = "all items are of one cluster: how clusters differ is not known"


def compute_effective_size(weights: Sequence[float] | Floats) -> float:
    """Return the effective number of items, (sum w)^2 / sum w^2; 0 without items.

    Args:
        weights: one per item, above 0 and finite. Their scale does not matter.

    Source: L. Kish, Survey Sampling (1965), section 11.7.
    """
    checked = check_weights(weights, len(weights))
    if not len(checked):
        return 0.0
    scaled = checked / checked.max()
    return float(scaled.sum() ** 2 / (scaled**2).sum())


def estimate_clustered_share(
    values: Sequence[int] | Sequence[bool],
    clusters: Sequence[Hashable] | None = None,
    weights: Sequence[float] | None = None,
    confidence: float = 0.95,
    least_design_effect: float = 0.0,
) -> Estimate:
    """Return the share of ones with Wilson's interval for the effective number of items.

    n_effective = Kish's n / design effect. The design effect is the linearised variance of the
    weighted share over clusters, G / (G - 1) sum_g (sum_i w_i (y_i - p) / sum w)^2, over
    p (1 - p) / Kish's n; without clusters it is 1. With clusters Student's quantile on G - 1
    degrees of freedom replaces the normal one.

    Args:
        values: 0 or 1 (or bool), one per item.
        clusters: one per item, its task; never None.
        weights: above 0 and finite, one over the chance to be in the sample.
        confidence: between 0 and 1, both excluded.
        least_design_effect: a smaller design effect is replaced by this one. 1 is the careful
            choice with few clusters, where the estimate is noisy.

    Returns:
        Method "wilson" without weights and clusters (as ``compute_wilson_interval``), else
        "wilson_effective". ``inputs``: ``k`` (ones), ``k_weighted``, ``n``, ``n_effective``,
        ``design_effect``, ``weighting_design_effect``, ``clusters`` (G), ``df``, ``se_cluster``,
        ``low_t`` and ``high_t`` (the plain t interval, not cut at 0 and 1), ``icc_anova`` (without
        weights) and ``note``. Where all values are the same, or all clusters have the same share,
        the clusters show no design effect: max(1, least_design_effect) is taken, and ``note`` says
        so. Without items the value is None and the limits are 0 and 1. With one cluster the limits
        are 0 and 1, and ``reason`` says why.

    Source: linearised variance: W. G. Cochran, Sampling Techniques (1977), section 11.5; Wilson
    with an effective n: see ``compute_wilson_limits``.
    """
    if not 0 <= least_design_effect < math.inf:
        raise ValueError(f"least_design_effect must be at least 0, not {least_design_effect!r}")
    y = np.asarray(values, dtype=float)
    if not np.isin(y, (0, 1)).all():
        raise ValueError(f"a value must be 0 or 1, not {max(values)!r}")
    n, k = len(y), int(y.sum())
    w = check_weights(weights, n)
    groups = None if clusters is None else np.asarray(index_clusters(clusters, n), dtype=np.intp)
    method = "wilson" if weights is None and clusters is None else "wilson_effective"
    if not n:
        empty = {"k": 0, "n": 0, "clusters": None if clusters is None else 0}
        return Estimate("share", None, 0.0, 1.0, 0, confidence, method, "no items", empty)
    share = _compute_weighted_share(y, w)
    effect = _compute_design_effect(share, y, w, groups)
    design_effect = max(1.0 if effect is None else effect, least_design_effect)
    n_effective = compute_effective_size(w) / design_effect
    df = None if groups is None else int(groups.max())
    reason = None
    if df == 0:
        reason = _ONE_CLUSTER
    if method == "wilson" and design_effect == 1:
        limits = compute_wilson_interval(k, n, confidence)
        low, high = limits.low, limits.high
    else:
        low, high = compute_wilson_limits(share, n_effective, confidence, df)
    inputs: dict[str, Any] = {
        "k": k,
        "k_weighted": float((w * y).sum()),
        "n": n,
        "n_effective": n_effective,
        "design_effect": design_effect,
        "weighting_design_effect": n / compute_effective_size(w),
        "clusters": None if df is None else df + 1,
        "df": df,
        "note": _describe_effect(effect, design_effect),
        **_compute_t_interval(share, y, w, groups, confidence),
        "icc_anova": None if groups is None or weights is not None else _compute_icc(y, groups),
    }
    return Estimate("share", share, low, high, n, confidence, method, reason, inputs)


def estimate_share_of_totals(
    k_per_cluster: Sequence[int], n_per_cluster: Sequence[int], confidence: float = 0.95
) -> Interval:
    """Return the share of ones as ``estimate_clustered_share`` does, from each cluster's totals.

    A design effect below 1 counts as 1.

    Args:
        k_per_cluster: ones in each cluster, 0 to that cluster's n.
        n_per_cluster: items in each cluster. Clusters without items do not count.
        confidence: between 0 and 1, both excluded.

    Returns:
        Method "wilson_effective". The limits are 0 and 1 without items and, with a ``reason``, with
        a single cluster.
    """
    k, n = check_totals(k_per_cluster, n_per_cluster)
    clusters, items, ones = len(n), int(n.sum()), int(k.sum())
    share = ones / items if items else None
    effect = 1.0
    if share is not None and clusters > 1 and 0 < share < 1:
        effect = max(1.0, _compute_cluster_variance(share, k, n) / (share * (1 - share) / items))
    low, high = 0.0, 1.0
    reason = "no trials" if share is None else _ONE_CLUSTER if clusters == 1 else None
    if share is not None and not reason:
        low, high = compute_wilson_limits(share, items / effect, confidence, clusters - 1)
    return Interval(
        *(share, low, high, ones, items, confidence, "wilson_effective", reason),
        design_effect=effect,
        clusters=clusters,
        clusters_with=int((k > 0).sum()),
    )


def check_totals(k: Sequence[int], n: Sequence[int]) -> tuple[Floats, Floats]:
    """Return the totals of the clusters that have items."""
    if len(k) != len(n):
        raise ValueError(f"k and n are needed of each cluster, not {len(k)} and {len(n)} of them")
    ones, items = np.asarray(k, dtype=float), np.asarray(n, dtype=float)
    wrong = ~((ones >= 0) & (ones <= items) & (ones % 1 == 0) & (items % 1 == 0))
    wrong |= ~np.isfinite(items)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(
            f"k must be between 0 and n in each cluster, not {ones[at]:g} of {items[at]:g}"
        )
    return ones[items > 0], items[items > 0]


def _compute_weighted_share(y: Floats, w: Floats) -> float:
    # All or none must be exactly 1 or 0, which the quotient of two rounded sums need not be.
    if y.min() == y.max():
        return float(y[0])
    return float((w * y).sum() / w.sum())


def _compute_design_effect(
    share: float, y: Floats, w: Floats, groups: NDArray[np.intp] | None
) -> float | None:
    """Return the design effect beside the weighting: 1 without clusters, None if not estimable."""
    if groups is None:
        return 1.0
    if groups.max() == 0 or share in (0, 1):
        return None
    variance = _compute_cluster_variance(share, *_sum_weights(y, w, groups))
    effect = variance / (share * (1 - share) / compute_effective_size(w))
    return effect if effect > _NOTHING else None


def _sum_weights(y: Floats, w: Floats, groups: NDArray[np.intp]) -> tuple[Floats, Floats]:
    ones, totals = np.bincount(groups, w * y), np.bincount(groups, w)
    return ones.astype(float), totals.astype(float)


def _compute_cluster_variance(share: float, ones: Floats, totals: Floats) -> float:
    """Return the linearised variance of a share from the clusters' (weighted) totals."""
    return compute_cluster_variance((ones - share * totals) / totals.sum())


def _describe_effect(effect: float | None, design_effect: float) -> str | None:
    if effect is not None:
        return None
    return f"the clusters show no design effect; {design_effect:g} is assumed"


def _compute_t_interval(
    share: float, y: Floats, w: Floats, groups: NDArray[np.intp] | None, confidence: float
) -> dict[str, float | None]:
    """Return the standard error over clusters and the t interval, None where there is none."""
    if groups is None or groups.max() == 0:
        return {"se_cluster": None, "low_t": None, "high_t": None}
    variance = _compute_cluster_variance(share, *_sum_weights(y, w, groups))
    half = compute_quantile(confidence, int(groups.max())) * math.sqrt(variance)
    return {"se_cluster": math.sqrt(variance), "low_t": share - half, "high_t": share + half}


def _compute_icc(y: Floats, groups: NDArray[np.intp]) -> float | None:
    """Return the intraclass correlation by analysis of variance, None where nothing varies."""
    sizes = np.bincount(groups).astype(float)
    n, clusters = len(y), len(sizes)
    if clusters < 2 or n == clusters:
        return None
    means = np.bincount(groups, y) / sizes
    between = float((sizes * (means - y.mean()) ** 2).sum()) / (clusters - 1)
    within = float(((y - means[groups]) ** 2).sum()) / (n - clusters)
    size = (n - float((sizes**2).sum()) / n) / (clusters - 1)
    spread = between + (size - 1) * within
    return (between - within) / spread if spread > 0 else None
