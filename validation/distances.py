"""Distances between two sets of codes, in [0, 1]."""

from collections.abc import Collection
from collections.abc import Set as AbstractSet
from typing import Any


def compute_jaccard_distance(first: AbstractSet[Any], second: AbstractSet[Any]) -> float:
    """Return 1 minus the share of codes in either set that are in both.

    Two empty sets are the same answer ("no code") and have the distance 0.

    Source: P. Jaccard, New Phytologist 11 (1912) 37-50.
    """
    either = len(first | second)
    return 1 - len(first & second) / either if either else 0.0


def compute_masi_distance(first: AbstractSet[Any], second: AbstractSet[Any]) -> float:
    """Return the MASI distance: Jaccard's, larger for sets that do not nest.

    It is 1 - J * m, with J the Jaccard similarity and m = 1 for the same set, 2/3 where one holds
    the other, 1/3 where both hold codes of their own, 0 without a code in common.

    Source: R. J. Passonneau, LREC 2006, "Measuring Agreement on Set-valued Items (MASI)".
    """
    if first == second:
        return 0.0
    common = len(first & second)
    nested = common == min(len(first), len(second))
    return 1 - common / len(first | second) * (2 if nested else 1) / 3


def freeze_set(codes: Collection[str]) -> frozenset[str]:
    """Return codes as a set; a text is no set of its letters."""
    if isinstance(codes, str):
        raise ValueError(f"codes must be a set of strings, not {codes!r}")
    return frozenset(codes)
