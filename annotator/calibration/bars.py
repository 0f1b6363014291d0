"""Bars that an agreement has to reach, and whether the labels decide it."""

import math
from dataclasses import dataclass
from typing import Any, Literal

from validation import Estimate, RaterAgreement, wilson_effective

Outcome = Literal["met", "missed", "undecided"]
_MOST = 10_000_000  # labels; more is as good as never


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar, and how it went: ``met`` if the whole interval is at or above it, ``missed`` if the
    whole interval is below. ``more``: how many more labels of the same kind, of other tasks, would
    decide it if agreement stays as it is; None if no number would, or (``one_task``) if it cannot
    be told, because all labels are of one task.
    """

    name: str
    bar: float
    estimate: Estimate
    outcome: Outcome
    more: int | None
    one_task: bool = False


def hold(
    name: str,
    estimate: Estimate,
    bar: float,
    *,
    expected: float = 0.0,
    n_effective: float | None = None,
    clusters: int | None = None,
) -> Bar:
    """Hold an agreement, or one beyond the ``expected`` agreement by chance, against a bar.

    ``n_effective`` and ``clusters`` are those of the observed agreement; None: all labels count,
    and are independent. What is undefined decides nothing.
    """
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return Bar(name, bar, estimate, "undecided", None)
    if estimate.low >= bar:
        return Bar(name, bar, estimate, "met", None)
    if estimate.high < bar:
        return Bar(name, bar, estimate, "missed", None)
    more = _more(estimate, bar, expected, n_effective or estimate.n, clusters)
    one_task = clusters is not None and clusters < 2
    return Bar(name, bar, estimate, "undecided", more, one_task)


def _more(
    estimate: Estimate, bar: float, expected: float, effective: float, clusters: int | None
) -> int | None:
    """Return how many more labels bring the nearer limit to the bar, with as many a task."""
    value = estimate.value
    if value is None or value == bar or not estimate.n or (clusters is not None and clusters < 2):
        return None

    def decides(n: int) -> bool:
        share = min(1.0, max(0.0, expected + value * (1 - expected)))
        df = None if clusters is None else clusters * n / estimate.n - 1
        low, high = wilson_effective(share, n * effective / estimate.n, estimate.confidence, df)
        limits = [(limit - expected) / (1 - expected) for limit in (low, high)]
        return limits[0] >= bar if value > bar else limits[1] < bar

    if not decides(_MOST):
        return None
    low, high = estimate.n, _MOST
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if decides(middle) else (middle + 1, high)
    return max(1, math.ceil(low - estimate.n))


def hold_agreement(agreement: RaterAgreement, bar: float) -> Bar:
    """Hold the observed agreement against a bar."""
    return hold("agreement", agreement.observed, bar, **_effective(agreement))


def hold_kappa(agreement: RaterAgreement, bar: float) -> Bar:
    """Hold kappa against a bar."""
    expected = agreement.kappa.inputs.get("expected") or 0.0
    return hold("kappa", agreement.kappa, bar, expected=expected, **_effective(agreement))


def _effective(agreement: RaterAgreement) -> dict[str, Any]:
    return {key: agreement.observed.inputs.get(key) for key in ("n_effective", "clusters")}
