"""Agreement of any number of raters, with missing ratings.

Ratings are one sequence per rater with one entry per unit, in the same order; None is missing. Any
other value is a label, the string "nan" too. For set-valued distances every entry is a set of
codes.
"""

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, combinations
from typing import Any, Literal

import numpy as np

from validation.clusters import estimate_clustered_share
from validation.distances import compute_jaccard_distance, compute_masi_distance, freeze_set
from validation.estimate import Estimate, Serializable
from validation.intervals import compute_quantile
from validation.resampling import (
    Floats,
    Resamples,
    bootstrap_mean,
    check_weights,
    index_clusters,
    sum_by_number,
)

Unit = Counter[Hashable]
"""How often a unit got each label."""
Distance = Literal["nominal", "jaccard", "masi"]
_SETS = {"jaccard": compute_jaccard_distance, "masi": compute_masi_distance}
_NO_PAIRS = "no unit has two ratings"


@dataclass(frozen=True, slots=True)
class Flips:
    """The stability of a code over re-runs.

    ``given``: traces with the code in some run; ``flipped``: not in all of their runs; ``rate``:
    flipped / given.
    """

    given: int
    flipped: int
    rate: float


@dataclass(frozen=True, slots=True)
class Retest(Serializable):
    """Agreement of a judge with itself; see ``measure_retest_agreement``."""

    mean_pairwise_agreement: Estimate
    share_unanimous: Estimate
    krippendorff_alpha: Estimate
    flips: Mapping[str, Flips]
    n: int


def compute_krippendorff_alpha(
    ratings: Sequence[Sequence[Any]],
    *,
    distance: Distance = "nominal",
    clusters: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Estimate:
    """Return Krippendorff's alpha, 1 - observed / expected disagreement, with its interval.

    Units with fewer than two ratings are left out. The interval is the percentile one of resampled
    clusters.

    Args:
        ratings: see the module.
        distance: "nominal" takes labels that are the same or not; "jaccard" and "masi" take sets.
        clusters: one per unit; units of a cluster are resampled together. Default: one each.
        confidence: between 0 and 1, both excluded.
        resamples: at least 1.
        seed: the same seed gives the same limits.

    Returns:
        ``n`` is the number of units used, ``inputs`` holds both disagreements. Undefined, with a
        reason, if no unit has two ratings, or all ratings in such units are the same.

    Source: K. Krippendorff, Computing Krippendorff's Alpha-Reliability (2011).
    """
    return _compute_alpha(
        _count_ratings(ratings, distance),
        distance=distance,
        clusters=clusters,
        confidence=confidence,
        resamples=resamples,
        seed=seed,
    )


def compute_set_alpha(
    first: Sequence[AbstractSet[str]],
    second: Sequence[AbstractSet[str]],
    *,
    weights: Sequence[float] | None,
    clusters: Sequence[Hashable] | None,
    confidence: float,
    resamples: int,
    seed: int,
) -> Estimate:
    """Return MASI alpha of two raters' sets in a weighted sample of items.

    Weights are divided by their mean: the number of ratings stays the same. See
    ``compute_krippendorff_alpha``.
    """
    weight = check_weights(weights, len(first))
    return _compute_alpha(
        _count_ratings([first, second], "masi"),
        distance="masi",
        clusters=clusters,
        confidence=confidence,
        resamples=resamples,
        seed=seed,
        weights=weight / weight.mean() if len(weight) else weight,
    )


def estimate_kappa_difference(
    first: tuple[Sequence[str], Sequence[str]],
    second: tuple[Sequence[str], Sequence[str]],
    *,
    clusters: Sequence[Hashable] | None = None,
    weights: Sequence[float] | None = None,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Estimate:
    """Return the difference of Cohen's kappa of two pairs of raters on the same items.

    The interval is the percentile one of resampled clusters.

    Args:
        first: the labels of two raters, one per item.
        second: those of two others (one may be the same), of the same items in the same order.
        clusters: one per item; items of a cluster are resampled together. Default: one each.
        weights: positive sampling weights; default: all the same.
        confidence: between 0 and 1, both excluded.
        resamples: at least 1.
        seed: the same seed gives the same limits.
    """
    tables = _tabulate_pairs(first, second, clusters, weights)

    def difference(totals: Floats) -> Floats:
        kappas = _compute_agreements(totals)[1]
        gap: Floats = kappas[:, 0] - kappas[:, 1]
        return gap

    draws = Resamples.draw(tables, resamples=resamples, seed=seed)
    return draws.estimate("kappa_difference", difference, len(first[0]), confidence=confidence)


def estimate_gains(
    human: Sequence[str],
    second: Sequence[str],
    first: Sequence[str],
    *,
    clusters: Sequence[Hashable] | None = None,
    weights: Sequence[float] | None = None,
    confidence: float = 0.95,
) -> tuple[Estimate, Estimate]:
    """Return by how much the ``second`` judge's Cohen's kappa with a person exceeds that of the
    ``first``, and its agreement.

    The intervals are Student's t on the clusters less one, with the jackknife's standard error
    (``inputs``), from leaving out one cluster at a time. There is none for fewer than 2 clusters,
    and if both judges give the same answers.

    The second answers may be cross-validated. The lower limit is then above the true gain in 1
    to 4 % of simulated studies (nominal: 2.5). The upper one is below a small gain in up to 13 %.

    Args:
        human: the person's label of every item.
        second: the labels of the second judge, in the same order.
        first: those of the first judge.
        clusters: one per item; default: items are independent.
        weights: positive sampling weights; default: all the same.
        confidence: between 0 and 1, both excluded.

    Source: B. Efron, R. J. Tibshirani, An Introduction to the Bootstrap (1993), sec. 11.2.
    """
    tables = _tabulate_pairs((human, second), (human, first), clusters, weights)
    totals = np.concatenate([tables.sum(axis=0, keepdims=True), tables.sum(axis=0) - tables])
    with np.errstate(divide="ignore", invalid="ignore"):
        shares, kappas = _compute_agreements(totals)
    gaps = {"kappa_gain": kappas, "agreement_gain": shares}
    kappa, agreement = (
        _estimate_by_jackknife(measure, values[:, 0] - values[:, 1], len(human), confidence)
        for measure, values in gaps.items()
    )
    return kappa, agreement


def _estimate_by_jackknife(measure: str, values: Floats, n: int, confidence: float) -> Estimate:
    """Return the first value; the others are those without one of the clusters."""
    value, count, error = float(values[0]), len(values) - 1, None
    low = high = reason = None
    if not np.isfinite(value):
        reason = "both raters gave every item one label, or there is none"
    elif count < 2:
        reason = f"no interval from {count} cluster: leaving one out needs at least 2"
    elif not np.isfinite(values).all():
        reason = "no interval: it is undefined without one of the clusters"
    else:
        error = float(np.sqrt((count - 1) * values[1:].var()))
        half = compute_quantile(confidence, count - 1) * error
        low, high = (value - half, value + half) if error else (None, None)
        reason = None if error else "no interval: it is the same without any of the clusters"
    inputs = {"standard_error": error, "clusters": count}
    method = "none" if low is None else "cluster_jackknife_t"
    limits = (value if np.isfinite(value) else None, low, high, n, confidence)
    return Estimate(measure, *limits, method, reason, inputs)


def _tabulate_pairs(
    first: tuple[Sequence[str], Sequence[str]],
    second: tuple[Sequence[str], Sequence[str]],
    clusters: Sequence[Hashable] | None,
    weights: Sequence[float] | None,
) -> Floats:
    """Return the two tables of label pairs by cluster, shape (G, 2 * labels * labels)."""
    sides = [*first, *second]
    numbers = {label: n for n, label in enumerate(sorted({*chain(*sides)}))}
    size, items = len(numbers), len(sides[0])
    weight = check_weights(weights, items)
    columns = np.zeros((items, 2 * size * size))
    for pair, raters in enumerate((first, second)):
        for item, labels in enumerate(zip(*raters, strict=True)):
            row, column = map(numbers.__getitem__, labels)
            columns[item, (pair * size + row) * size + column] = weight[item]
    return sum_by_number(columns, clusters)


def _compute_agreements(totals: Floats) -> tuple[Floats, Floats]:
    """Return the observed agreement and kappa of both pairs, shape (R, 2) each, from totals."""
    size = math.isqrt(totals.shape[1] // 2)
    tables = totals.reshape(len(totals), 2, size, size)
    shares = tables / tables.sum(axis=(2, 3), keepdims=True)
    observed = np.trace(shares, axis1=2, axis2=3)
    expected = (shares.sum(axis=3) * shares.sum(axis=2)).sum(axis=2)
    return observed, (observed - expected) / (1 - expected)


def measure_retest_agreement(
    runs_per_trace: Sequence[Sequence[str | None]],
    *,
    clusters: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Retest:
    """Return the agreement of a judge with itself over re-runs of the same traces.

    Args:
        runs_per_trace: the labels of every trace's runs, None for a run that failed.
        clusters: one per trace; traces of a cluster are resampled together. Default: one each.
        confidence: between 0 and 1, both excluded.
        resamples: at least 1.
        seed: the same seed gives the same limits.

    Returns:
        ``n`` traces with at least two runs make up all numbers. ``share_unanimous`` has Wilson's
        interval, effective for clusters. ``flips`` is by label, in alphabetical order.
    """
    units: list[Unit] = [
        Counter(_check_label(label) for label in runs if label is not None)
        for runs in runs_per_trace
    ]
    owners = index_clusters(clusters, len(units))
    repeated = [unit for unit in units if unit.total() > 1]
    settings: dict[str, Any] = {"confidence": confidence, "resamples": resamples, "seed": seed}
    unanimous = estimate_clustered_share(
        [len(unit) == 1 for unit in repeated],
        clusters=None
        if clusters is None
        else [owner for owner, unit in zip(owners, units, strict=True) if unit.total() > 1],
        confidence=confidence,
        least_design_effect=1.0,
    )
    return Retest(
        mean_pairwise_agreement=_estimate_mean_agreement(units, owners, settings),
        share_unanimous=replace(unanimous, measure="share_unanimous"),
        krippendorff_alpha=_compute_alpha(units, distance="nominal", clusters=clusters, **settings),
        flips=_count_flips(repeated),
        n=len(repeated),
    )


def _compute_alpha(
    units: Sequence[Unit],
    *,
    distance: Distance,
    clusters: Sequence[Hashable] | None,
    confidence: float,
    resamples: int,
    seed: int,
    weights: Floats | None = None,
) -> Estimate:
    owners = index_clusters(clusters, len(units))
    pairable = [i for i, unit in enumerate(units) if unit.total() > 1]
    values = list({label: None for i in pairable for label in units[i]})
    distances = _compute_distances(values, distance)
    rows = _make_rows([units[i] for i in pairable], values, distance)
    if weights is not None:
        rows *= weights[pairable, None]
    tables = sum_by_number(rows, [owners[i] for i in pairable])
    total = tables.sum(axis=0, keepdims=True)
    observed, expected = (float(sums[0]) for sums in _compute_disagreements(total, distances))
    inputs: dict[str, Any] = {
        "distance": distance,
        "n_units_used": len(pairable),
        "n_pairable_values": sum(units[i].total() for i in pairable),
        "observed_disagreement": observed if pairable else None,
        "expected_disagreement": expected if pairable else None,
    }
    measure = f"krippendorff_alpha_{distance}"
    reason = "all ratings are the same: chance agrees as often" if pairable else _NO_PAIRS
    if not expected > 0:
        n = len(pairable)
        return Estimate(measure, None, None, None, n, confidence, "none", reason, inputs)

    def alpha(totals: Floats) -> Floats:
        seen, by_chance = _compute_disagreements(totals, distances)
        return np.where(by_chance > 0, 1 - seen / by_chance, np.nan)

    draws = Resamples.draw(tables, resamples=resamples, seed=seed)
    return draws.estimate(measure, alpha, len(pairable), inputs, reason, confidence)


def _count_flips(units: Sequence[Unit]) -> dict[str, Flips]:
    label_counts = Counter(label for unit in units for label in unit)
    flipped = Counter(label for unit in units if len(unit) > 1 for label in unit)
    return {
        str(label): Flips(count, flipped[label], flipped[label] / count)
        for label, count in sorted(label_counts.items(), key=lambda pair: str(pair[0]))
    }


def _count_ratings(ratings: Sequence[Sequence[Any]], distance: Distance) -> list[Unit]:
    as_label = _check_label if distance == "nominal" else freeze_set
    return [
        Counter(as_label(entry) for entry in entries if entry is not None)
        for entries in zip(*ratings, strict=True)
    ]


def _check_label(entry: Hashable) -> Hashable:
    if entry != entry:
        raise ValueError("a rating is NaN; a missing one must be None")
    return entry


def _compute_distances(values: Sequence[Any], distance: Distance) -> Floats | None:
    """Return the matrix of distances between set-valued labels, None for nominal ones."""
    if distance == "nominal":
        return None
    measure = _SETS[distance]
    matrix = np.zeros((len(values), len(values)))
    for i, j in combinations(range(len(values)), 2):
        matrix[i, j] = matrix[j, i] = measure(values[i], values[j])
    return matrix


def _make_rows(units: Sequence[Unit], values: Sequence[Hashable], distance: Distance) -> Floats:
    """Return a row per unit: its disagreement, then its count of every value."""
    column = {label: number for number, label in enumerate(values, 1)}
    rows = np.zeros((len(units), len(values) + 1))
    for row, unit in zip(rows, units, strict=True):
        row[0] = _compute_disagreement(unit, distance)
        for label, count in unit.items():
            row[column[label]] = count
    return rows


def _compute_disagreement(unit: Unit, distance: Distance) -> float:
    """Return the sum of distances over the unit's ordered pairs, over the ratings less one."""
    size = unit.total()
    if distance == "nominal":
        return (size * size - sum(count * count for count in unit.values())) / (size - 1)
    measure: Any = _SETS[distance]
    pairs = combinations(unit.items(), 2)
    apart: float = sum(2 * m * k * measure(first, second) for (first, m), (second, k) in pairs)
    return apart / (size - 1)


def _compute_disagreements(totals: Floats, distances: Floats | None) -> tuple[Floats, Floats]:
    """Return the observed and expected disagreement of each row: disagreements, label counts."""
    counts = totals[:, 1:]
    size = counts.sum(axis=1)
    if distances is None:
        apart = size * size - np.square(counts).sum(axis=1)
    else:
        apart = ((counts @ distances) * counts).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return totals[:, 0] / size, apart / (size * (size - 1))


def _compute_agreement(unit: Unit) -> Fraction:
    """Return the share of the unit's pairs of ratings that agree."""
    size = unit.total()
    return Fraction(sum(count * (count - 1) for count in unit.values()), size * (size - 1))


def _estimate_mean_agreement(
    units: Sequence[Unit], owners: Sequence[int], settings: Mapping[str, Any]
) -> Estimate:
    used = [i for i, unit in enumerate(units) if unit.total() > 1]
    mean = bootstrap_mean(
        "pairwise_agreement",
        [float(_compute_agreement(units[i])) for i in used],
        clusters=[owners[i] for i in used],
        **settings,
    )
    return mean if used else replace(mean, reason=_NO_PAIRS)
