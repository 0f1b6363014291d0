"""Agreement of two raters beyond chance, from a table of label pairs.

The table says how many items got each pair of labels, so memory grows with the labels, not with
the items. "No code" is a label like any other: give those items one, "none" for example. An item
that a rater did not label belongs in no table.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from validation.checks import whole
from validation.intervals import Interval, wilson

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Agreement:
    """A chance-corrected agreement with its interval, and what is needed to compute it again.

    ``value`` is (observed - expected) / (1 - expected), in [-1, 1]: 1 is full agreement, 0 what
    chance would give. ``expected`` is the agreement by chance, None without items. Where the
    measure is undefined, ``value`` is None and ``reason`` says why; the limits are then -1 and 1:
    nothing is known. ``measure`` names the kind of chance, ``method`` the interval.
    """

    measure: str
    value: float | None
    low: float
    high: float
    observed: Interval
    expected: float | None
    n: int
    confidence: float
    method: str
    reason: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON-serialisable values, ``observed`` as a dictionary."""
        return asdict(self)


def confusion(first: Sequence[str], second: Sequence[str]) -> Counter[Pair]:
    """Count the pairs of labels that two raters gave the same items, in the same order.

    Raises:
        ValueError: the raters did not label equally many items.
    """
    if len(first) != len(second):
        raise ValueError(
            f"both raters must label the same items, not {len(first)} and {len(second)} of them"
        )
    return Counter(zip(first, second, strict=True))


def cohen_kappa(table: Mapping[Pair, int], confidence: float = 0.95) -> Agreement:
    """Return Cohen's kappa of two raters with its Wilson-mapped interval.

    kappa = (po - pe) / (1 - pe), with po the share of items that got the same label from both and
    pe = sum over labels of the product of both raters' shares of that label. It is the same with
    the raters exchanged.

    The limits are Wilson's limits of po put through the same formula, with pe held at its
    estimate. They are never of zero width, also at perfect agreement, where the textbook standard
    error is 0. They are not cut off: ``high`` is at most 1, but with pe near 1 ``low`` can lie
    below -1, which says that the table hardly bears on kappa. They cover the sampling error of
    independent items and nothing else.

    Args:
        table: (label of the first rater, label of the second) -> number of items. Pairs that
            are missing count as 0.
        confidence: between 0 and 1, both excluded.

    Returns:
        Undefined, with a reason, if there are no items, and if both raters gave all items the same
        one label: pe is 1 then. One rater with a single label is a defined 0.

    Raises:
        ValueError: a key is no pair of strings, a count is negative or not a whole number, or
            confidence is not in (0, 1).

    Source: J. Cohen, Educ. Psychol. Meas. 20 (1960) 37-46. Own code: scikit-learn's
    ``cohen_kappa_score`` gives the same value, but has no interval, takes over 1 s to import and
    gives NaN for one label.
    """
    counts = _checked(table)
    n = sum(counts.values())
    first, second = _margins(counts)
    # Fractions: near pe = 1 the difference of two rounded shares would be mostly rounding.
    chance = Fraction(sum(first[label] * second[label] for label in first), n * n) if n else None
    return _beyond_chance("cohen_kappa", counts, chance, confidence)


def _checked(table: Mapping[Pair, int]) -> dict[Pair, int]:
    """Return the pairs that occur."""
    counts = {}
    for pair, number in table.items():
        is_pair = isinstance(pair, tuple) and len(pair) == 2
        if not (is_pair and all(isinstance(label, str) for label in pair)):
            raise ValueError(f"a key of the table must be a pair of labels (strings), not {pair!r}")
        count = whole(f"the count of {pair!r}", number)
        if count < 0:
            raise ValueError(f"the count of {pair!r} must not be negative, but is {count}")
        if count:
            counts[pair] = count
    return counts


def _margins(counts: Mapping[Pair, int]) -> tuple[Counter[str], Counter[str]]:
    """Return how often each rater gave each label."""
    first: Counter[str] = Counter()
    second: Counter[str] = Counter()
    for (one, other), count in counts.items():
        first[one] += count
        second[other] += count
    return first, second


def _beyond_chance(
    measure: str, counts: Mapping[Pair, int], chance: Fraction | None, confidence: float
) -> Agreement:
    """Return the observed agreement, corrected for chance, with Wilson-mapped limits."""
    n = sum(counts.values())
    agreed = sum(count for (one, other), count in counts.items() if one == other)
    observed = wilson(agreed, n, confidence)
    expected = None if chance is None else float(chance)
    value, low, high, reason = None, -1.0, 1.0, None
    if chance is None:
        reason = "no items"
    elif chance == 1:
        label = next(iter(counts))[0]
        reason = f"both raters gave every item the label {label!r}: chance agrees as often"
    else:
        room = float(1 - chance)
        value = float((Fraction(agreed, n) - chance) / (1 - chance))
        # (p - pe) / (1 - pe), written so that p = 1 gives exactly 1. At p = 0 the limit is the
        # value, and rounding must not put it above.
        low = min(value, 1 - (1 - observed.low) / room)
        high = 1 - (1 - observed.high) / room
    return Agreement(
        measure, value, low, high, observed, expected, n, confidence, "wilson_mapped", reason
    )
