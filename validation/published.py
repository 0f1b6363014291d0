"""Checks of printed tables: can these percentages be, do these columns belong together?"""

import math
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from itertools import pairwise

from validation.checks import whole
from validation.estimate import Estimate


def possible_counts(percent: float, n: int, decimals: int) -> list[int]:
    """Return all counts out of n that are this percentage, rounded to so many decimals.

    A count whose percentage lies exactly between two printed ones is possible for both. No count
    at all means that the base is not n, or that the number is no share of items.

    Args:
        percent: as printed, at least 0.
        n: the base, at least 1.
        decimals: decimals of the printed percentage, at least 0.

    Raises:
        ValueError: an argument is not in its range, or ``percent`` has more decimals.

    Source: the GRIM test, N. J. L. Brown and J. A. J. Heathers, Soc. Psychol. Personal. Sci. 8
    (2017) 363-369. Own code: exact arithmetic in three lines.
    """
    base, places = whole("n", n), whole("decimals", decimals)
    if base < 1 or places < 0:
        raise ValueError(f"n must be at least 1 and decimals at least 0, not {base} and {places}")
    printed = Fraction(_decimal("percent", percent))
    unit = Fraction(1, 10**places)
    if printed < 0 or printed % unit:
        raise ValueError(f"percent must be at least 0 and have {places} decimals, not {percent!r}")
    least = math.ceil((printed - unit / 2) * base / 100)
    most = math.floor((printed + unit / 2) * base / 100)
    return list(range(max(0, least), min(base, most) + 1))


def percent_difference(first: float, second: float) -> float:
    """Return first - second of two printed numbers, exact in their decimals: 0.3 - 0.1 is 0.2.

    Raises:
        ValueError: a number is not finite.
    """
    # Adding 0 makes 0 of -0.
    return float(_decimal("first", first) - _decimal("second", second)) + 0.0


def round_half_up(value: float, decimals: int) -> float:
    """Return a number rounded as tables are, halves away from zero, and never -0.

    Raises:
        ValueError: the number is not finite.
    """
    unit = Decimal(1).scaleb(-whole("decimals", decimals))
    return float(_decimal("value", value).quantize(unit, rounding=ROUND_HALF_UP)) + 0.0


def matches_printed(value: float, printed: float, decimals: int) -> bool:
    """Return whether a number can have been printed so with so many decimals.

    It may be half a unit of the last decimal off, whichever way halves were rounded; a rounding
    error of the value itself is allowed for.

    Raises:
        ValueError: a number is not finite.
    """
    unit = Decimal(1).scaleb(-whole("decimals", decimals))
    gap = abs(_decimal("value", value) - _decimal("printed", printed))
    return gap <= unit / 2 + Decimal("1e-12")


def row_means(rows: Sequence[Sequence[float]]) -> list[float]:
    """Return the plain mean of each column over all rows, as the last row of a table has it.

    Args:
        rows: one or more, all of the same length, of finite numbers.

    Raises:
        ValueError: no rows, rows of different lengths, or a number is not finite.
    """
    if not rows:
        raise ValueError("no rows, so no means")
    lengths = {len(row) for row in rows}
    if len(lengths) > 1:
        raise ValueError(f"all rows must be of the same length, not {sorted(lengths)}")
    exact = [[_decimal("a number of the table", number) for number in row] for row in rows]
    return [float(sum(column) / len(rows)) for column in zip(*exact, strict=True)]


def auc(midpoints: Sequence[float], rates: Sequence[float | None]) -> Estimate:
    """Return the area under the lines through the given points, by the trapezoidal rule.

    It covers the range of the given points only: nothing is added before the first or after the
    last one, so with midpoints .05 to .95 a rate of 1 throughout has an area of .9.

    Args:
        midpoints: rising.
        rates: one per midpoint; None is a bucket without items: it is left out, and the line
            goes straight from its neighbour to the other.

    Returns:
        Method "none": no interval. n counts the points used. ``inputs``: ``rule``, ``from``, ``to``
        and ``left_out``. With fewer than two points the value is None.

    Raises:
        ValueError: lengths differ, midpoints do not rise, or a number is not finite.

    Own code: numpy's and scipy's have no missing rates; it is one sum.
    """
    if len(midpoints) != len(rates):
        raise ValueError(
            f"each midpoint needs a rate: {len(midpoints)} midpoints, {len(rates)} rates"
        )
    for number in (*midpoints, *(rate for rate in rates if rate is not None)):
        _decimal("a midpoint or rate", number)
    if any(right <= left for left, right in pairwise(midpoints)):
        raise ValueError(f"midpoints must rise, not {list(midpoints)!r}")
    points = [(x, y) for x, y in zip(midpoints, rates, strict=True) if y is not None]
    inputs = {
        "rule": "trapezoid over the given points only",
        "from": points[0][0] if points else None,
        "to": points[-1][0] if points else None,
        "left_out": len(rates) - len(points),
    }
    value = _trapezoids(points) if len(points) > 1 else None
    reason = "fewer than two points" if value is None else None
    return Estimate("auc", value, None, None, len(points), 0.95, "none", reason, inputs)


def retention(auc_solo: float, auc_coop: float) -> Estimate:
    """Return how much of the area is kept in cooperation, auc_coop / auc_solo.

    Args:
        auc_solo: area under the solo curve, at least 0.
        auc_coop: area under the cooperative curve, at least 0; more than solo gives above 1.

    Returns:
        Method "none": an interval needs the traces (a bootstrap over tasks). ``inputs``: both
        areas and ``delta``, solo - coop. The value is None where auc_solo is 0.

    Raises:
        ValueError: an area is negative or not finite.
    """
    for name, area in (("auc_solo", auc_solo), ("auc_coop", auc_coop)):
        if _decimal(name, area) < 0:
            raise ValueError(f"{name} must not be negative, but is {area}")
    inputs = {
        "auc_solo": auc_solo,
        "auc_coop": auc_coop,
        # Exact in the decimals of printed numbers: 0.3 - 0.1 is 0.2. Adding 0 makes 0 of -0.
        "delta": float(_decimal("auc_solo", auc_solo) - _decimal("auc_coop", auc_coop)) + 0.0,
    }
    value = auc_coop / auc_solo if auc_solo > 0 else None
    reason = "nothing was solved solo, so nothing can be kept" if value is None else None
    return Estimate("retention", value, None, None, 2, 0.95, "none", reason, inputs)


def _trapezoids(points: Sequence[tuple[float, float]]) -> float:
    return math.fsum(
        (right - left) * (before + after) / 2 for (left, before), (right, after) in pairwise(points)
    )


def _decimal(name: str, number: float) -> Decimal:
    """Return the number as it is printed, not as it is stored."""
    if isinstance(number, bool | str) or not math.isfinite(number):
        raise ValueError(f"{name} must be a finite number, not {number!r}")
    return Decimal(repr(float(number)))
