"""Shares of exclusive codes corrected together, so that they add up to one."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from validation.estimate import Estimate
from validation.influence import cluster_variance
from validation.intervals import check_confidence, quantile
from validation.prevalence import beta_limits
from validation.resampling import Floats


def joint_shares(
    judged: Mapping[str, Sequence[int]],
    judge: Sequence[str],
    human: Sequence[str],
    *,
    weights: Sequence[float] | None = None,
    clusters: Sequence[int] | None = None,
    confidence: float = 0.95,
) -> dict[str, Estimate]:
    """Return the share of every code among traces that have exactly one each, "none" included, the
    judge's codes corrected by human labels, with limits that hold for all codes at once.

    With W_j the judge's share of code j and p_kj the share of code k among the labels of its
    traces, the share of k is the sum over j of W_j p_kj; together they add up to one. p_kj of a j
    without labels is the share of k over all other j. The limits are those of Beta distributions
    at 1 - (1 - confidence) / K, K codes, with mean m_k = sum W_j q_kj and variance sum W_j^2 q_kj
    (1 - q_kj) / (n_j + 2) + (sum W_j q_kj^2 - m_k^2) / N, where q_kj = (n_j p_kj + share of k) /
    (n_j + 1) under a Dirichlet prior that weighs one label, and n_j is Kish's number of labels;
    with clusters the linearised variance over them, if larger, and Student's t.

    Args:
        judged: for each code the traces that the judge gives it, by cluster; in any one order, and
            of equal lengths. Without clusters one number.
        judge: the judge's code of each labelled trace.
        human: the human's.
        weights: of the labels, above 0.
        clusters: of each labelled trace, its place in the numbers of ``judged``.
        confidence: that all limits hold together; between 0 and 1, both excluded.

    Returns:
        By code, method "joint"; ``inputs``: ``confidence_each``, ``posterior_mean``,
        ``posterior_sd`` (widened by t / z), ``clusters`` and ``df``. Undefined without judged
        traces and without labels; limits of 0 and 1 with one cluster of labels.

    Raises:
        ValueError: lengths differ, a label is none of the codes, or confidence not in (0, 1).

    Source: A. Tenenbein, Technometrics 14 (1972) 187-202 (multinomial double sampling); for all
    codes by Bonferroni, as L. A. Goodman, Technometrics 7 (1965) 247-254. Own code: no library has
    it.
    """
    check_confidence(confidence)
    codes = list(judged)
    if unknown := {*judge, *human} - set(codes):
        raise ValueError(f"the label {min(unknown)!r} is none of the codes")
    if not len(judge) == len(human) == len(weights if weights is not None else human):
        raise ValueError("judge, human and weights must be of the same traces")
    totals = np.array([judged[code] for code in codes], dtype=float).reshape(len(codes), -1)
    size = int(totals.sum())
    if not size or not len(human):
        why = "no human labels" if size else "no judged traces"
        empty = Estimate("prevalence", None, 0.0, 1.0, size, confidence, "joint", why)
        return dict.fromkeys(codes, empty)
    place = {code: number for number, code in enumerate(codes)}
    rows = np.array([place[code] for code in judge])
    columns = np.array([place[code] for code in human])
    w = np.ones(len(rows)) if weights is None else np.asarray(weights, dtype=float)
    labelled, squares = np.zeros((len(codes), len(codes))), np.zeros(len(codes))
    np.add.at(labelled, (rows, columns), w)
    np.add.at(squares, rows, w**2)
    of_judge = totals.sum(axis=1) / size
    weight = labelled.sum(axis=1)
    there = weight > 0
    kish = np.divide(weight**2, squares, out=np.zeros_like(weight), where=there)
    p = np.divide(labelled, weight[:, None], out=np.zeros_like(labelled), where=there[:, None])
    rest = of_judge[there]
    # Labels may all be of codes that the judge gives nothing any more.
    mean = rest @ p[there] / rest.sum() if rest.sum() else p[there].mean(axis=0)
    p[~there] = mean
    shares = of_judge @ p
    q = (kish[:, None] * p + shares) / (kish[:, None] + 1)
    centre = of_judge @ q
    variance = (of_judge**2) @ (q * (1 - q) / (kish[:, None] + 2))
    variance += (of_judge @ q**2 - centre**2) / size
    each = 1 - (1 - confidence) / len(codes)
    df: int | None = None
    if clusters is not None:
        df = len(set(clusters)) - 1
        variance = np.maximum(
            variance, _spread(totals, p, shares, rows, columns, w / weight[rows], clusters)
        )
    widened = 1.0 if df is None or df < 1 else quantile(each, df) / quantile(each)
    estimates = {}
    for code, share, m, v in zip(codes, shares, centre, variance * widened**2, strict=True):
        low, high = 0.0, 1.0
        reason = "all labels are of one task: how tasks differ is not known" if df == 0 else None
        value = min(1.0, float(share))
        if not reason:
            low, high = beta_limits(float(m), float(v), each, value)
        inputs = {
            "confidence_each": each,
            "posterior_mean": float(m),
            "posterior_sd": math.sqrt(v),
            "clusters": None if df is None else totals.shape[1],
            "df": df,
        }
        estimates[code] = Estimate(
            "prevalence", value, low, high, size, confidence, "joint", reason, inputs
        )
    return estimates


def _spread(
    totals: Floats,
    p: Floats,
    shares: Floats,
    rows: Floats,
    columns: Floats,
    parts: Floats,
    clusters: Sequence[int],
) -> Floats:
    """Return the variance of each share over clusters; ``parts``: of each label in its cell."""
    size = totals.sum()
    influences = (totals.T @ p - np.outer(totals.sum(axis=0), shares)) / size
    residuals = -p[rows]
    residuals[np.arange(len(rows)), columns] += 1
    of_judge = totals.sum(axis=1) / size
    np.add.at(influences, np.asarray(clusters), residuals * (of_judge[rows] * parts)[:, None])
    return np.array([cluster_variance(influence) for influence in influences.T])
