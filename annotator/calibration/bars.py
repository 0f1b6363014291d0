"""Bars that an agreement has to reach, and whether the labels decide it."""

import math
from dataclasses import dataclass
from typing import Literal

from validation import Estimate, wilson_effective

Outcome = Literal["met", "missed", "undecided"]
_MOST = 10_000_000  # labels; more is as good as never


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar, and how it went: ``met`` if the whole interval is at or above it, ``missed`` if the
    whole interval is below. ``more``: how many more labels of the same kind would decide it if
    agreement stays as it is; None if no number would.
    """

    name: str
    bar: float
    found: Estimate
    outcome: Outcome
    more: int | None


def hold(name: str, found: Estimate, bar: float, expected: float = 0.0) -> Bar:
    """Hold an agreement, or one beyond the ``expected`` agreement by chance, against a bar.

    What is undefined decides nothing.
    """
    if found.value is None or found.low is None or found.high is None:
        return Bar(name, bar, found, "undecided", None)
    if found.low >= bar:
        return Bar(name, bar, found, "met", None)
    if found.high < bar:
        return Bar(name, bar, found, "missed", None)
    return Bar(name, bar, found, "undecided", _more(found, bar, expected))


def _more(found: Estimate, bar: float, expected: float) -> int | None:
    """Return how many more labels bring the nearer limit to the bar."""
    value = found.value
    if value is None or value == bar or not found.n:
        return None
    effective = found.inputs.get("n_effective") or found.n

    def decides(n: int) -> bool:
        share = min(1.0, max(0.0, expected + value * (1 - expected)))
        low, high = wilson_effective(share, n * effective / found.n, found.confidence)
        limits = [(limit - expected) / (1 - expected) for limit in (low, high)]
        return limits[0] >= bar if value > bar else limits[1] < bar

    if not decides(_MOST):
        return None
    low, high = found.n, _MOST
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if decides(middle) else (middle + 1, high)
    return max(1, math.ceil(low - found.n))
