"""Plan a sample: the number of labels for a width, the width for a number of labels."""

import math
from collections.abc import Sequence

from validation.intervals import compute_quantile
from validation.prevalence import Cell, compute_beta_limits, compute_beta_posterior


def compute_sample_size(share: float, half_width: float, confidence: float = 0.95) -> int:
    """Return the least number of items for which Wilson's half width is at most ``half_width``.

    For independent items; times the design effect otherwise.

    Args:
        share: the expected share, 0 to 1; 1/2 is the worst case.
        half_width: between 0 and 1, both excluded. 1/2 or more takes one item.
        confidence: between 0 and 1, both excluded.

    Source: W. W. Piegorsch, Stat. Med. 23 (2004) 291-305.
    """
    spread, h2 = share * (1 - share), half_width**2
    root = math.sqrt(spread**2 + h2 * (1 - 4 * spread))
    return max(
        1, math.ceil(compute_quantile(confidence) ** 2 * (spread - 2 * h2 + root) / (2 * h2))
    )


def predict_half_width(
    W: float,
    precision: float,
    miss_rate: float,
    n1: float,
    n0: float,
    N: float,
    confidence: float = 0.95,
    others: Sequence[tuple[float, float, float]] = (),
) -> float:
    """Return half the width that ``poststratify`` is expected to have with planned labels.

    The expected counts are put in place of counted ones, so they need not be whole.

    Args:
        W: share of judged traces with the judge's flag, 0 to 1.
        precision: expected share of flagged traces that have the code, 0 to 1.
        miss_rate: expected share of unflagged traces that have it, 0 to 1.
        n1: planned labels of flagged traces, divided by the design effect; at least 0.
        n0: planned labels of unflagged traces, likewise.
        N: traces that the judge decided, above 0.
        confidence: between 0 and 1, both excluded.
        others: further answers of the judge ("undecided"): the number of traces, the expected share
            of them that have the code, and the planned labels, divided by the design effect.

    Returns:
        0 to 1/2.
    """
    planned = [(W * N, precision, n1), ((1 - W) * N, miss_rate, n0), *others]
    strata = [(size, _expect(share, n)) for size, share, n in planned]
    value = sum(size * share for size, share, _ in planned) / sum(size for size, _, _ in planned)
    # An answer without labels may have the code in none of its traces, or in all.
    ends = [
        compute_beta_limits(*compute_beta_posterior(strata, unlabelled=share), confidence, value)
        for share in (0.0, 1.0)
    ]
    return (max(high for _, high in ends) - min(low for low, _ in ends)) / 2


def _expect(share: float, n: float) -> Cell:
    return Cell(share, share * n, n, n) if n else Cell(None, 0, 0, 0)
