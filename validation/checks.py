"""Checks of arguments."""

from collections.abc import Sized
from typing import SupportsInt


def check_whole(name: str, number: SupportsInt) -> int:
    """Return a whole number as an int; 3.0 is one, True and "3" are not."""
    exact = hasattr(number, "__index__") or getattr(number, "is_integer", bool)()
    if isinstance(number, bool) or not exact:
        raise ValueError(f"{name} must be a whole number, not {number!r}")
    return int(number)


def check_count(name: str, number: SupportsInt) -> int:
    """Return a number of things, whole and at least 0, as an int."""
    count = check_whole(name, number)
    if count < 0:
        raise ValueError(f"{name} must not be negative, but is {count}")
    return count


def check_lengths(first: Sized, second: Sized) -> None:
    """Raise ValueError unless two raters labelled equally many items."""
    if len(first) != len(second):
        raise ValueError(
            f"both raters must label the same items, not {len(first)} and {len(second)} of them"
        )
