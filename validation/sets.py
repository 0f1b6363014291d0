"""Agreement of two raters who give every item a set of codes, with or without a primary one."""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from validation.clusters import estimate_clustered_share
from validation.distances import compute_jaccard_distance, compute_masi_distance, freeze_set
from validation.estimate import Estimate, Serializable
from validation.reliability import compute_set_alpha
from validation.resampling import bootstrap_mean


@dataclass(frozen=True, slots=True)
class SetAgreement(Serializable):
    """Agreement of two raters on sets of codes; see ``measure_set_agreement``."""

    mean_jaccard: Estimate
    exact: Estimate
    mean_masi_similarity: Estimate
    alpha_masi: Estimate


def measure_set_agreement(
    first_sets: Sequence[Collection[str]],
    second_sets: Sequence[Collection[str]],
    *,
    weights: Sequence[float] | None = None,
    clusters: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> SetAgreement:
    """Return the similarity of the sets of codes that two raters gave the same items.

    Two empty sets ("no code") are equal. The share of exact matches has Wilson's interval for the
    effective number of items, the other results the percentile interval of resampled clusters.

    Args:
        first_sets: one set of codes per item.
        second_sets: the other rater's, in the same order.
        weights: positive sampling weights; default: all the same.
        clusters: one per item, its task; they are resampled together. Default: one each.
        confidence: between 0 and 1, both excluded.
        resamples: at least 1.
        seed: the same seed gives the same limits.

    Returns:
        Means of the Jaccard and MASI similarity (1 - distance), the share of exact matches, and
        Krippendorff's alpha with the MASI distance, which is undefined if all sets are the same.
        Without items all are undefined.
    """
    first, second = freeze_sets(first_sets), freeze_sets(second_sets)
    settings: dict[str, Any] = {"confidence": confidence, "resamples": resamples, "seed": seed}
    sample: dict[str, Any] = {"weights": weights, "clusters": clusters}
    pairs = list(zip(first, second, strict=True))
    jaccard = [1 - compute_jaccard_distance(first, second) for first, second in pairs]
    masi = [1 - compute_masi_distance(first, second) for first, second in pairs]
    return SetAgreement(
        mean_jaccard=bootstrap_mean("mean_jaccard_similarity", jaccard, **sample, **settings),
        exact=replace(
            estimate_clustered_share(
                [a == b for a, b in pairs], clusters, weights, confidence, least_design_effect=1.0
            ),
            measure="exact_match",
        ),
        mean_masi_similarity=bootstrap_mean("mean_masi_similarity", masi, **sample, **settings),
        alpha_masi=compute_set_alpha(first, second, **sample, **settings),
    )


def freeze_sets(sets: Sequence[Collection[str]]) -> list[frozenset[str]]:
    """Return collections of codes as sets."""
    return [freeze_set(codes) for codes in sets]
