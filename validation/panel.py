"""Votes that resemble each other: how many independent ones they are worth."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from validation.estimate import Estimate
from validation.resampling import Floats, Resamples, sum_by_number

_MEASURE = "effective_votes"
_CONSTANT = "fewer than two voters vary from item to item"


def estimate_effective_votes(
    marks: ArrayLike,
    *,
    clusters: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
    resamples: int = 2_000,
    seed: int = 0,
) -> Estimate:
    """Return the number of independent votes whose mean varies as much as that of K votes.

    K / (1 + (K - 1) rho), with rho the mean correlation of two voters. The correlation of two
    voters is pooled over codes: the sum of their covariances over the root of the product of their
    summed variances. A voter that never varies is in no pair. The interval is the percentile one of
    resampled clusters.

    Args:
        marks: 0 or 1, shape (items, voters, codes): whether the vote has the code; or whether it is
            wrong about it, for the correlation of errors.
        clusters: one per item; items of a cluster are resampled together. Default: one each.
        confidence: between 0 and 1, both excluded.
        resamples: at least 1.
        seed: the same seed gives the same limits.

    Returns:
        ``inputs`` holds ``votes`` (K) and ``correlation`` (rho). Undefined, with a reason, if fewer
        than two voters vary.

    Source: L. Kish, Survey Sampling (1965): the design effect 1 + (b - 1) rho of a cluster of b.
    """
    values = np.asarray(marks, dtype=np.float64)
    items, voters, codes = values.shape
    together = np.einsum("nic,njc->nijc", values, values).reshape(items, voters * voters * codes)
    tables = sum_by_number(np.column_stack([np.ones(items), together]), clusters)
    draws = Resamples.draw(tables, resamples=resamples, seed=seed)
    total = together.sum(axis=0).reshape(voters, voters, codes)
    inputs = _list_inputs(items, total)

    def count(totals: Floats) -> Floats:
        counts = totals[:, 1:].reshape(-1, voters, voters, codes)
        return _divide_votes(_compute_correlation(totals[:, 0], counts), voters)

    return draws.estimate(_MEASURE, count, items, inputs, _CONSTANT, confidence)


def compute_effective_votes(items: int, together: ArrayLike) -> Estimate:
    """Return :func:`estimate_effective_votes` from counts, without an interval.

    Args:
        items: the number of items.
        together: in how many of them two voters both have a mark, shape (voters, voters, codes).
    """
    counts = np.asarray(together, dtype=np.float64)
    rho = _compute_correlation(np.array([float(items)]), counts[None])
    votes = float(_divide_votes(rho, len(counts))[0])
    value, reason = (votes, None) if np.isfinite(votes) else (None, _CONSTANT)
    return Estimate(
        _MEASURE, value, None, None, items, 0.95, "none", reason, _list_inputs(items, counts)
    )


def _list_inputs(items: int, together: Floats) -> dict[str, Any]:
    rho = float(_compute_correlation(np.array([float(items)]), together[None])[0])
    return {"votes": len(together), "correlation": rho if np.isfinite(rho) else None}


def _compute_correlation(items: Floats, together: Floats) -> Floats:
    """Return the mean correlation of two voters of each row; NaN if no two of them vary."""
    with np.errstate(divide="ignore", invalid="ignore"):
        joint = together / items[:, None, None, None]
        shares = np.einsum("riic->ric", joint)
        products = shares[:, :, None] * shares[:, None]
        covariances = (joint - products).sum(axis=3)
        variances = np.einsum("rii->ri", covariances)
        variances = np.where(variances > 1e-12, variances, np.nan)
        matrix = covariances / np.sqrt(variances[:, :, None] * variances[:, None])
        pairs = matrix[:, *np.triu_indices(together.shape[1], 1)]
        finite = np.isfinite(pairs)
        mean: Floats = np.where(finite, pairs, 0).sum(axis=1) / finite.sum(axis=1)
    return mean


def _divide_votes(rho: Floats, voters: int) -> Floats:
    effect = 1 + (voters - 1) * rho
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(effect > 1e-9, voters / effect, np.nan)
