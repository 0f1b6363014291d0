"""Agreement of two raters beyond chance, from a table of label pairs or from the labels.

A table maps pairs of labels to numbers of items. "No code" is a label like any other, for example
"none". Leave out items that a rater did not label. Sums are fractions: near an expected agreement
of 1 the difference of two rounded shares would be mostly rounding.
"""

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist
from typing import Any

from validation.estimate import Estimate, Serializable
from validation.intervals import compute_wilson_interval, compute_wilson_limits

LEAST_POSITIVES = 10  # a side; with fewer, kappa's 95 % limits cover .79 to .84

Pair = tuple[str, str]
Chance = tuple[Fraction | None, str | None]
"""The agreement expected by chance, None without items, and why the measure is undefined."""


@dataclass(frozen=True, slots=True)
class RaterAgreement(Serializable):
    """Agreement of two raters, as observed and corrected for chance; see ``measure_agreement``."""

    observed: Estimate
    kappa: Estimate
    ac1: Estimate


def count_pairs(first: Sequence[str], second: Sequence[str]) -> Counter[Pair]:
    """Count the pairs of labels that two raters gave the same items, in the same order."""
    return Counter(zip(first, second, strict=True))


def compute_cohen_kappa(table: Mapping[Pair, int], confidence: float = 0.95) -> Estimate:
    """Return Cohen's kappa of two raters with its Wilson-mapped interval.

    kappa = (po - pe) / (1 - pe), where po is the share of items with the same label from both, and
    pe the sum over labels of the product of both raters' shares. The raters can be exchanged.

    The limits are Wilson's limits of po put through the same formula, with pe at its estimate. They
    have a width at perfect agreement, too, where the textbook standard error is 0. ``high`` is at
    most 1; with pe near 1 ``low`` can be below -1. They cover the sampling error of independent
    items only.

    Args:
        table: (label of the first rater, label of the second) -> number of items; missing pairs
            count as 0.
        confidence: between 0 and 1, both excluded.

    Returns:
        ``inputs`` holds ``observed`` with its limits and ``expected``. Undefined (limits -1 and 1)
        without items, and if both raters gave all items the same label (pe is 1). If only one rater
        used a single label, kappa is 0.

    Source: J. Cohen, Educ. Psychol. Meas. 20 (1960) 37-46.
    """
    cells = {pair: Fraction(count) for pair, count in table.items() if count}
    agreed = sum(count for (first, second), count in cells.items() if first == second)
    share = compute_wilson_interval(int(agreed), int(sum(cells.values())), confidence)
    limits = (share.value, share.low, share.high, share.n, confidence, "wilson")
    observed = Estimate("observed_agreement", *limits)
    return _map_limits("cohen_kappa", cells, observed, _compute_kappa_chance(cells), {})


def compute_asymptotic_kappa(table: Mapping[Pair, int], confidence: float = 0.95) -> Estimate:
    """Return Cohen's kappa with the interval of its asymptotic standard error.

    The textbook interval, value +- z se, for comparison with published ones. It is too narrow for
    samples of usual size.

    Args:
        table: (label of the first rater, label of the second) -> number of items.
        confidence: between 0 and 1, both excluded.

    Returns:
        ``inputs`` holds ``se``, ``observed`` and ``expected``. The limits are not cut at -1 and 1.
        With a standard error of 0 (perfect agreement, a rater with one label) both limits are the
        value, and ``reason`` warns of it. Undefined as in ``compute_cohen_kappa``.

    Source: J. L. Fleiss, J. Cohen, B. S. Everitt, Psychol. Bull. 72 (1969) 323-327.
    """
    kappa = compute_cohen_kappa(table, confidence)
    cells = {pair: Fraction(count) for pair, count in table.items() if count}
    value, low, high, reason, se = kappa.value, kappa.low, kappa.high, kappa.reason, None
    observed, (chance, _) = _compute_observed(cells), _compute_kappa_chance(cells)
    if value is not None and observed is not None and chance is not None:
        # In fractions: a standard error of 0 is exactly 0.
        se = math.sqrt(_compute_kappa_variance(cells, observed, chance))
        half = NormalDist().inv_cdf((1 + confidence) / 2) * se
        low, high = value - half, value + half
        if se == 0:
            reason = "the standard error is 0, which is not certainty: do not use this interval"
    inputs = {"se": se} | {name: kappa.inputs[name] for name in ("observed", "expected")}
    return Estimate(
        "cohen_kappa", value, low, high, kappa.n, confidence, "asymptotic", reason, inputs
    )


def measure_agreement(
    first: Sequence[str],
    second: Sequence[str],
    *,
    weights: Sequence[float] | None = None,
    clusters: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
    categories: Sequence[str] | None = None,
) -> RaterAgreement:
    """Return the agreement, kappa and AC1 of two raters in a sample with weights and clusters.

    The observed agreement po has Wilson's interval for the effective number of items, as in
    ``estimate_clustered_share``; a design effect below 1 counts as 1. Kappa and AC1 are
    (po - pe) / (1 - pe). Their limits are Wilson's limits of po put through the same formula, as in
    ``compute_cohen_kappa``. The number of items is lowered until these limits have the linearised
    variance of kappa or AC1, in which pe varies with the raters' shares; it is never raised.

    Args:
        first: one label per item.
        second: the other rater's, in the same order.
        weights: positive sampling weights (1 / inclusion probability); default: all the same.
        clusters: one per item, its task; default: items are independent.
        confidence: between 0 and 1, both excluded.
        categories: all labels that could have been given, "none" included, for AC1; default: those
            that were.

    Returns:
        ``inputs`` of kappa and AC1: ``observed`` with the mapped limits, ``expected``,
        ``n_effective`` and ``table``, a list of [label of the first, of the second, number of items
        or sum of weights]. Both are undefined (limits -1 and 1) without items, kappa if both raters
        gave one label only, AC1 with one category. Kappa has no limits if a rater gave fewer than
        10 items another label than its commonest.
    """
    # Only here: numpy, which `import validation` must not load.
    from validation.clusters import estimate_clustered_share
    from validation.influence import compute_cluster_variance, sum_by_cluster

    for rater, labels in (("first", first), ("second", second)):
        for item, label in enumerate(labels):
            if not isinstance(label, str):  # pandas writes NaN for a missing one
                raise ValueError(f"item {item} has no label of the {rater} rater, but {label!r}")
    if categories is not None and (unknown := {*first, *second} - {*categories}):
        raise ValueError(f"the label {min(unknown)!r} is none of the categories")
    table = count_pairs(first, second)
    agreed = [label == other for label, other in zip(first, second, strict=True)]
    observed = estimate_clustered_share(
        agreed, clusters, weights, confidence, least_design_effect=1.0
    )
    cells: dict[Pair, Fraction] = {pair: Fraction(count) for pair, count in table.items()}
    if weights is not None:
        cells = dict.fromkeys(table, Fraction(0))
        for pair, weight in zip(zip(first, second, strict=True), weights, strict=True):
            cells[pair] += Fraction(weight)
    labels_used = sorted({label for pair in table for label in pair})
    n_categories = len(labels_used if categories is None else categories)
    of_table = {
        "table": [
            [*pair, table[pair] if weights is None else float(total)]
            for pair, total in sorted(cells.items())
        ]
    }
    of_ac1 = {
        "n_categories": n_categories,
        "categories": "observed" if categories is None else "given",
    }
    pairs = list(zip(first, second, strict=True))

    def move(chance: Chance, moves: Mapping[Pair, float]) -> Estimate:
        """Return the observed agreement with limits for the variance that pe adds."""
        share = _compute_observed(cells)
        if share is None or chance[0] is None or not 0 < share < 1 or chance[0] == 1:
            return observed
        spread = float(share) - 1  # of (p - pe) / (1 - pe), times (1 - pe)
        room = float(1 - chance[0])
        influences = [(a == b) - float(share) + spread / room * moves[a, b] for a, b in pairs]
        variance = compute_cluster_variance(sum_by_cluster(influences, clusters, weights))
        return _reduce_items(observed, float(share * (1 - share)), variance)

    chance = _compute_kappa_chance(cells)
    moved = move(chance, _compute_kappa_moves(cells))
    kappa = _map_limits("cohen_kappa", cells, moved, chance, of_table)
    chance = _compute_ac1_chance(cells, n_categories)
    moved = move(chance, _compute_ac1_moves(cells, n_categories))
    ac1 = _map_limits("gwet_ac1", cells, moved, chance, of_ac1 | of_table)
    observed = replace(observed, measure="observed_agreement")
    return RaterAgreement(observed, _check_positives(kappa, first, second), ac1)


def _reduce_items(observed: Estimate, spread: float, variance: float) -> Estimate:
    """Return the observed agreement with the limits for spread / variance items, at most its n."""
    n_effective = observed.inputs["n_effective"]
    if variance * n_effective <= spread or observed.reason:
        return observed
    n, df = spread / variance, observed.inputs["df"]
    low, high = compute_wilson_limits(observed.value or 0.0, n, observed.confidence, df)
    inputs = {**observed.inputs, "n_effective": n}
    return replace(observed, low=low, high=high, inputs=inputs)


def _compute_kappa_moves(cells: Mapping[Pair, Fraction]) -> dict[Pair, float]:
    """Return the influence of an item with each pair of labels on kappa's pe."""
    first, second = _compute_margins(cells)
    chance = sum((first[label] * second[label] for label in first), Fraction(0))
    return {(a, b): float(second[a] + first[b] - 2 * chance) for a, b in cells}


def _compute_ac1_moves(cells: Mapping[Pair, Fraction], n_categories: int) -> dict[Pair, float]:
    """Return the influence of an item with each pair of labels on AC1's pe."""
    first, second = _compute_margins(cells)
    shares = {label: (first[label] + second[label]) / 2 for label in first}
    mean = sum((share * (1 - 2 * share) for share in shares.values()), Fraction(0))
    return {
        (a, b): float((1 - shares[a] - shares[b] - mean) / max(1, n_categories - 1))
        for a, b in cells
    }


def _check_positives(kappa: Estimate, first: Sequence[str], second: Sequence[str]) -> Estimate:
    """Return kappa, without limits if a rater used hardly more than one label."""
    if kappa.value is None:
        return kappa
    uncommon = [len(labels) - max(Counter(labels).values()) for labels in (first, second)]
    if min(uncommon) >= LEAST_POSITIVES:
        return kappa
    reason = (
        f"no interval: {uncommon[0]} and {uncommon[1]} labels beside the commonest, fewer than"
        f" {LEAST_POSITIVES}"
    )
    return replace(kappa, low=None, high=None, reason=reason)


def _compute_margins(
    cells: Mapping[Pair, Fraction],
) -> tuple[dict[str, Fraction], dict[str, Fraction]]:
    total = sum(cells.values())
    labels = {label: Fraction(0) for pair in cells for label in pair}
    first, second = dict(labels), dict(labels)
    for (row, column), count in cells.items():
        first[row] += count / total
        second[column] += count / total
    return first, second


def _compute_observed(cells: Mapping[Pair, Fraction]) -> Fraction | None:
    if not cells:
        return None
    agreed = sum((count for (row, column), count in cells.items() if row == column), Fraction(0))
    return agreed / sum(cells.values())


def _compute_kappa_chance(cells: Mapping[Pair, Fraction]) -> Chance:
    if not cells:
        return None, "no items"
    first, second = _compute_margins(cells)
    chance = sum((first[label] * second[label] for label in first), Fraction(0))
    if chance < 1:
        return chance, None
    (label,) = first
    return chance, f"both raters gave every item the label {label!r}: chance agrees as often"


def _compute_ac1_chance(cells: Mapping[Pair, Fraction], n_categories: int) -> Chance:
    if not cells:
        return None, "no items"
    if n_categories < 2:
        return None, "one category only: raters cannot but agree"
    first, second = _compute_margins(cells)
    shares = [(first[label] + second[label]) / 2 for label in first]
    return sum((s * (1 - s) for s in shares), Fraction(0)) / (n_categories - 1), None


def _compute_kappa_variance(
    cells: Mapping[Pair, Fraction], observed: Fraction, chance: Fraction
) -> Fraction:
    """Return the squared asymptotic standard error of kappa from its parts, chance below 1."""
    n = sum(cells.values())
    first, second = _compute_margins(cells)
    disagreement = 1 - (observed - chance) / (1 - chance)
    spread = Fraction(0)
    for (row, column), count in cells.items():
        if row == column:
            spread += count / n * (1 - (first[row] + second[row]) * disagreement) ** 2
        else:
            spread += count / n * ((second[row] + first[column]) * disagreement) ** 2
    spread -= (1 - disagreement - chance * disagreement) ** 2
    return spread / (n * (1 - chance) ** 2)


def _correct_limits(
    low: float, high: float, value: Fraction, expected: Fraction
) -> tuple[float, float, float]:
    room = float(1 - expected)
    corrected = float((value - expected) / (1 - expected))
    # (p - pe) / (1 - pe), written so that p = 1 gives exactly 1. At p = 0 the limit is the value,
    # and rounding must not put it above.
    return corrected, min(corrected, 1 - (1 - low) / room), max(corrected, 1 - (1 - high) / room)


def _map_limits(
    measure: str,
    cells: Mapping[Pair, Fraction],
    observed: Estimate,
    chance: Chance,
    inputs: Mapping[str, Any],
) -> Estimate:
    expected, reason = chance
    share = _compute_observed(cells)
    value: float | None = None
    low: float | None = -1.0
    high: float | None = 1.0
    if reason is None and share is not None and expected is not None:
        # Both limits exist: a share always has Wilson's.
        value, low, high = _correct_limits(
            observed.low or 0.0, observed.high or 0.0, share, expected
        )
        if reason := observed.reason:  # one cluster: nothing is known of the observed agreement
            low, high = None, None
    shares = {
        "observed": _get_float(share),
        "observed_low": observed.low,
        "observed_high": observed.high,
        "expected": _get_float(expected),
        "n_effective": observed.inputs.get("n_effective"),
    }
    return Estimate(
        measure,
        *(value, low, high, observed.n, observed.confidence, "wilson_mapped", reason),
        shares | dict(inputs),
    )


def _get_float(exact: Fraction | None) -> float | None:
    return None if exact is None else float(exact)
