"""How wide an interval is expected to be with planned labels."""

import math

from validation.intervals import check_confidence, check_share
from validation.prevalence import Cell, beta_limits, beta_posterior


def expected_half_widths(
    W: float,
    precision: float,
    miss_rate: float,
    n1: float,
    n0: float,
    N: float,
    confidence: float = 0.95,
) -> float:
    """Return half the width that ``poststratify`` is expected to have with planned labels.

    The expected counts are put in place of counted ones, so they need not be whole.

    Args:
        W: share of judged traces with the judge's flag, 0 to 1.
        precision: expected share of flagged traces that have the code, 0 to 1.
        miss_rate: expected share of unflagged traces that have it, 0 to 1.
        n1: planned labels of flagged traces, divided by the design effect; at least 0.
        n0: planned labels of unflagged traces, likewise.
        N: judged traces, above 0.
        confidence: between 0 and 1, both excluded.

    Returns:
        0 to 1/2.

    Raises:
        ValueError: an argument is not in its range.
    """
    for name, share in (("W", W), ("precision", precision), ("miss_rate", miss_rate)):
        check_share(name, share)
    check_confidence(confidence)
    if not 0 < N < math.inf:
        raise ValueError(f"N must be above 0 and finite, not {N!r}")
    flagged, unflagged = _expect(precision, n1), _expect(miss_rate, n0)
    mean, variance = beta_posterior(N, W * N, flagged, unflagged)
    low, high = beta_limits(mean, variance, confidence, W * precision + (1 - W) * miss_rate)
    return (high - low) / 2


def _expect(share: float, n: float) -> Cell:
    return Cell(share, share * n, n, n) if n else Cell(None, 0, 0, 0)
