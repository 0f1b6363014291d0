"""Whether a judge answers as it did before: the same items, asked again at several looks."""

import math
from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache

import numpy as np

from validation.cluster_comparison import SideTotals, estimate_clustered_difference
from validation.comparison import adjust_p_values, floor_variance
from validation.estimate import Estimate
from validation.resampling import Floats, sum_by_number

_STEP = 0.25  # of the scores, so that their sums are few: the test stays exact
_SLOW = 9  # the larger, the more evenly the level is spent on the looks


def measure_drift_p(answers: Floats, frozen: int) -> list[float | None]:
    """Return the p of no drift for each code, valid however often one looks.

    If the judge is the same, the answers to one item are exchangeable. For the ones of an item in
    the last r looks, of its ones in all, the tail of the hypergeometric distribution is exact. The
    statistic is Fisher's: the sum of its logarithms over the items (rounded to quarters); its
    distribution is that of a sum of independent scores. The p is adjusted for both directions, for
    r = 1, 2, 4, ... looks, for the codes whose answers vary (Holm) and, by 10 / (j + 9)(j + 10) of
    the level at look j, for all looks, also later ones. The smallest of all looks counts.

    Args:
        answers: 1, 0, or nan if missing; shape (codes, items, frozen answers and then looks).
        frozen: the number of frozen answers, at least 1.

    Returns:
        None for a code whose answers never vary, or without a look.

    Source: R. A. Fisher, Statistical Methods for Research Workers (1934), section 21.1, on exact
    tails.
    """
    if frozen < 1:
        raise ValueError(f"frozen must be at least 1, not {frozen}")
    smallest: list[float | None] = [None] * len(answers)
    for look in range(1, answers.shape[2] - frozen + 1):
        level = (_SLOW + 1) / ((look + _SLOW) * (look + _SLOW + 1))
        tests = [_test_look(code[:, : frozen + look], look) for code in answers]
        for code, p in enumerate(adjust_p_values(tests)):
            if p is not None:
                before = smallest[code]
                smallest[code] = min(p / level, 1.0 if before is None else before)
    return smallest


def _test_look(answers: Floats, looks: int) -> float | None:
    """Return the p of no drift of one code at its last look; None if its answers do not vary."""
    n = (~np.isnan(answers)).sum(axis=1)
    ones = np.nansum(answers, axis=1)
    if not ((ones > 0) & (ones < n)).any():
        return None
    windows = [2**k for k in range(looks.bit_length())]
    tails = []
    for window in windows:
        late = answers[:, -window:]
        counts = np.stack([n, ones, (~np.isnan(late)).sum(axis=1), np.nansum(late, axis=1)], axis=1)
        items = [(a, b, c, d) for a, b, c, d in counts.astype(int).tolist() if 0 < b < a]
        tails += [_sum_scores(items), _sum_scores((a, a - b, c, c - d) for a, b, c, d in items)]
    return min(1.0, len(tails) * min(tails))


def _sum_scores(items: Iterable[tuple[int, int, int, int]]) -> float:
    """Return the chance of scores of at least this sum: of many ones in the last answers. Items:
    their answers, the ones among these, the last answers, and the ones among those.
    """
    total, chances = 0, np.ones(1)
    for n, ones, late, late_ones in items:
        scores, spread = _score_tails(n, ones, late)
        total += scores[late_ones]
        chances = np.convolve(chances, spread)
    return float(chances[total:].sum())


@lru_cache(maxsize=100_000)
def _score_tails(n: int, ones: int, late: int) -> tuple[list[int], Floats]:
    """Return the score of each number of ones in the last answers, and the chance of each score."""
    ways = [math.comb(ones, k) * math.comb(n - ones, late - k) for k in range(late + 1)]
    all_ways = math.comb(n, late)
    tails = [sum(ways[k:]) / all_ways for k in range(late + 1)]
    scores = [round(-math.log(tail) / _STEP) if tail else 0 for tail in tails]
    spread = np.zeros(max(scores) + 1)
    np.add.at(spread, scores, [way / all_ways for way in ways])
    return scores, spread


def estimate_drift(
    before: Floats,
    after: Floats,
    clusters: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
) -> Estimate:
    """Return how much more often the later answers are 1, with an interval over clusters of items.

    Args:
        before: answers as of :func:`measure_drift_p`, shape (items, answers).
        after: later answers to the same items.
        clusters: one for each item, such as its task; default: one each.
        confidence: between 0 and 1, both excluded.

    Returns:
        As ``estimate_clustered_difference``, at least as wide as for independent items. Items
        without an answer on a side are left out; ``inputs`` has the number of ``items``.
    """
    sides = [(np.nansum(side, axis=1), (~np.isnan(side)).sum(axis=1)) for side in (after, before)]
    kept = (sides[0][1] > 0) & (sides[1][1] > 0)
    columns = np.stack([column[kept] for side in sides for column in side], axis=1).astype(float)
    names = None if clusters is None else [clusters[n] for n in np.flatnonzero(kept).tolist()]

    def compare(table: Floats, least_variance: float = 0.0) -> Estimate:
        late, early = SideTotals(table[:, 0], table[:, 1]), SideTotals(table[:, 2], table[:, 3])
        return estimate_clustered_difference(late, early, confidence, least_variance)

    error = compare(columns).inputs["se"] or 0.0  # of independent items
    minimum = floor_variance(error**2, len(columns))
    drift = compare(sum_by_number(columns, names), minimum)
    return Estimate(
        *("drift", drift.value, drift.low, drift.high, drift.n, confidence, drift.method),
        drift.reason,
        {**drift.inputs, "items": int(kept.sum())},
    )
