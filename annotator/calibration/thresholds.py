"""Check an agreement against a threshold."""

import math
from dataclasses import dataclass
from typing import Any, Literal

from validation import Estimate, RaterAgreement, compute_wilson_limits

Outcome = Literal["met", "missed", "undecided"]
_MOST_LABELS = 10_000_000  # more are out of reach


@dataclass(frozen=True, slots=True)
class ThresholdCheck:
    """An agreement and its threshold.

    ``outcome`` is ``met`` if the interval is at or above the threshold, ``missed`` if it is below,
    else ``undecided``. ``more``: the number of further labels, of other tasks, that would decide it
    at this agreement; None if no number would, or if all labels are of ``one_task``.
    """

    name: str
    minimum: float
    estimate: Estimate
    outcome: Outcome
    more: int | None = None
    one_task: bool = False


def check_agreement(agreement: RaterAgreement, minimum: float) -> ThresholdCheck:
    """Return the observed agreement checked against a minimum."""
    return _check("agreement", agreement.observed, minimum, 0.0, agreement.observed.inputs)


def check_kappa(agreement: RaterAgreement, minimum: float) -> ThresholdCheck:
    """Return kappa checked against a minimum."""
    expected = agreement.kappa.inputs.get("expected") or 0.0
    return _check("kappa", agreement.kappa, minimum, expected, agreement.observed.inputs)


def _check(
    name: str, estimate: Estimate, minimum: float, expected: float, observed: Any
) -> ThresholdCheck:
    """Return an estimate checked against a minimum.

    ``expected`` is the agreement by chance, ``observed`` the inputs of the observed agreement. An
    undefined estimate is ``undecided``.
    """
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return ThresholdCheck(name, minimum, estimate, "undecided")
    if estimate.low >= minimum:
        return ThresholdCheck(name, minimum, estimate, "met")
    if estimate.high < minimum:
        return ThresholdCheck(name, minimum, estimate, "missed")
    clusters = observed.get("clusters")
    effective = observed.get("n_effective") or estimate.n
    more = _count_more(estimate, minimum, expected, effective, clusters)
    one_task = clusters is not None and clusters < 2
    return ThresholdCheck(name, minimum, estimate, "undecided", more, one_task)


def _count_more(
    estimate: Estimate, minimum: float, expected: float, effective: float, clusters: int | None
) -> int | None:
    """Return how many more labels move the nearer limit to the threshold."""
    value = estimate.value
    if (
        value is None
        or value == minimum
        or not estimate.n
        or (clusters is not None and clusters < 2)
    ):
        return None

    def decides(n: int) -> bool:
        share = min(1.0, max(0.0, expected + value * (1 - expected)))
        df = None if clusters is None else clusters * n / estimate.n - 1
        low, high = compute_wilson_limits(
            share, n * effective / estimate.n, estimate.confidence, df
        )
        limits = [(limit - expected) / (1 - expected) for limit in (low, high)]
        return limits[0] >= minimum if value > minimum else limits[1] < minimum

    if not decides(_MOST_LABELS):
        return None
    low, high = estimate.n, _MOST_LABELS
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if decides(middle) else (middle + 1, high)
    return max(1, math.ceil(low - estimate.n))
