"""Shares, intervals and differences as every format prints them."""

from decimal import ROUND_HALF_UP, Decimal

from validation import Estimate, Interval

UNDEFINED = "-"

Share = Interval | Estimate


def format_number(value: float, decimals: int, sign: str = "") -> str:
    """Return a number with so many decimals, halves away from zero: 6.25 is 6.3, and so is what a
    share in binary is short of it.
    """
    value = round(value, 10) + 0.0  # a difference of 1e-17 below 0 is none
    unit = Decimal(1).scaleb(-decimals)
    return f"{Decimal(repr(float(value))).quantize(unit, ROUND_HALF_UP):{sign}f}"


def format_value(number: Estimate | None, sign: str = "") -> str:
    """Return a number with two decimals, or "-" where it is undefined."""
    if number is None or number.value is None:
        return UNDEFINED
    return format_number(number.value, 2, sign)


def format_ends(number: Estimate | None) -> str:
    """Return the interval of a number with two decimals, or "-" where there is none."""
    if number is None or number.low is None or number.high is None:
        return UNDEFINED
    return f"[{format_number(number.low, 2)}, {format_number(number.high, 2)}]"


def format_percent(share: Share | None) -> str:
    """Return a share in percent with one decimal, or "-" where it is undefined."""
    return (
        UNDEFINED if share is None or share.value is None else format_number(100 * share.value, 1)
    )


def format_limits(share: Share | None) -> str:
    """Return the interval in percent, ``[86.5, 98.9]``, or "-" where nothing is known.

    One that begins below 100 never looks as if it began there, nor does one that ends above 0 look
    as if it ended there. An undefined share has one if the limits are known all the same.
    """
    ends = find_limits(share)
    return UNDEFINED if ends is None else format_bounds(ends)


def format_bounds(ends: tuple[float, float]) -> str:
    """Return limits in percent, as :func:`format_limits` does."""
    low, high = (format_number(100 * end, 1) for end in ends)
    low = ">99.9" if low == "100.0" and ends[0] < 1 else low
    high = "<0.1" if high == "0.0" and ends[1] > 0 else high
    return f"[{low}, {high}]"


def format_ratio(share: Estimate) -> str:
    """Return the count of a share and its n, ``8/40``; "-" if there was nothing to count."""
    return f"{share.inputs['k']}/{share.n}" if share.n else UNDEFINED


def describe_limits(share: Share, decimals: int = 0, unit: int = 100) -> str:
    """Return the limits of a share for a sentence, " (95 % interval 20 to 49)"; "" without any."""
    if not (ends := find_limits(share)):
        return ""
    low, high = (format_number(unit * end, decimals) for end in ends)
    return f" ({100 * share.confidence:g} % interval {low} to {high})"


def describe_effective(votes: Estimate, of: str) -> str:
    """Return as how many independent votes those of a panel count; ``of``: what correlates."""
    number = f"{votes.inputs['votes']} votes"
    if votes.value is None:
        reason = f"{votes.reason}, n {votes.n}"
        return f"{number} count as {UNDEFINED} independent ones ({reason})"
    limits = ""
    if votes.low is not None and votes.high is not None:
        limits = f" [{format_number(votes.low, 1)}, {format_number(votes.high, 1)}]"
    rho = format_number(votes.inputs["correlation"], 2)
    value = format_number(votes.value, 1)
    return f"{number} count as about {value}{limits} independent ones ({of} {rho}, n {votes.n})"


def find_limits(share: Share | None) -> tuple[float, float] | None:
    """Return the limits of a share, None where nothing is known of it."""
    if share is None or share.low is None or share.high is None:
        return None
    if (share.low, share.high) == (0, 1) and (share.value is None or share.reason):
        return None
    return share.low, share.high


def find_bar(share: Share | None) -> tuple[float, float] | None:
    """Return a share and its upper limit, which a bar shows; None if one is not known."""
    ends = find_limits(share)
    return (share.value, ends[1]) if share and share.value is not None and ends else None


def format_points(gap: Estimate | None) -> tuple[str, str]:
    """Return a difference of shares and its interval in percentage points, or "-" for each."""
    if gap is None or gap.value is None:
        return UNDEFINED, UNDEFINED
    value = format_number(100 * gap.value, 1, "+")
    if gap.low is None or gap.high is None:
        return value, UNDEFINED
    return (
        value,
        f"[{format_number(100 * gap.low, 1, '+')}, {format_number(100 * gap.high, 1, '+')}]",
    )


def format_p(value: float | None) -> str:
    """Return a p value with four decimals, "<.0001" below them, or "-" where there is none."""
    if value is None:
        return UNDEFINED
    return "<.0001" if value < 0.0001 else format_number(value, 4)
