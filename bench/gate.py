"""How often ``annotate gate`` is right about simulated versions of a system.

    python -m bench.gate [RUNS] [SIZE...]

Simulates, RUNS times (default 200) and seeded, pairs of runs of the same scenarios of 34 tasks,
with 150 to 1,200 traces a side. A trace has at most one of 14 codes, of shares from .33 to .01 in
three groups. Tasks differ (ICC .15): both versions share one half of a task's effect, and each has
the other half alone. The tolerance is 5 points. It prints shares of the pairs:

null     nothing changes: any code is worse; any code worse, better or moved; any row, with groups
moved    10 points go from a code of 33 % to one of 6 % in its group: both are moved; the second is
         worse; last: the same where a version has a fifth, or a fiftieth, of a task's effect alone
worse    the code of 6 % rises by 10 points: it is worse
detects  it rises by the mean of what the gate of unchanged versions says that it detects: worse
held     it rises by the tolerance: it is held
"""

import sys
import time
from typing import Any

import numpy as np

from annotator.reports.comparison import ComparedCode
from annotator.reports.gate import GateRow, decide_rows
from bench.simulation import draw_codes, draw_sizes
from validation import (
    SideTotals,
    estimate_clustered_difference,
    estimate_share_of_totals,
    permute_clusters,
)

RUNS, SEED, TASKS, ICC, TOLERANCE = 200, 0, 34, 0.15, 0.05
SIZES = (150, 300, 600, 1200)
COUNTED = (0.33, 0.08, 0.06, 0.05, 0.04, 0.03, 0.03, 0.02, 0.02, 0.015, 0.01, 0.01, 0.01, 0.01)
SHARES = np.array([*COUNTED, 1 - sum(COUNTED)])  # the last one is none
CODES = [f"code{n}" for n in range(len(COUNTED))]
GROUPS = {"first": CODES[:5], "second": CODES[5:10], "third": CODES[10:]}
COMMON, RISING, NONE = 0, 2, len(COUNTED)
Words = tuple[list[GateRow], list[GateRow]]


def draw_pair(
    rng: np.random.Generator, n: int, source: int, points: float, alone: float = 0.5
) -> Words:
    """Return the gate of two versions, of which the second moves points from ``source`` to the
    code that rises. ``alone``: the part of the tasks' effect that each version has alone.
    """
    sizes = draw_sizes(rng, TASKS, n)
    tasks = np.repeat(np.arange(TASKS), sizes)
    common, own = (1 / (ICC * part) - 1 for part in (1 - alone, alone))
    before = rng.dirichlet(SHARES * common, TASKS)
    after = before.copy()
    after[:, RISING] += before[:, source] * points / SHARES[source]
    after[:, source] -= before[:, source] * points / SHARES[source]
    sides = []
    for shares in (before, after):
        of_version = np.stack([rng.dirichlet(row * own + 1e-9) for row in shares])
        drawn = draw_codes(rng, of_version[tasks])
        counts = np.zeros((len(SHARES), TASKS))
        np.add.at(counts, (drawn, tasks), 1)
        sides.append(counts)
    groups = [[sum(side[int(x[4:])] for x in ids) for ids in GROUPS.values()] for side in sides]
    families = (CODES, [side[:NONE] for side in sides]), (list(GROUPS), list(map(np.array, groups)))
    codes, totals = (compare_family(names, *two, sizes) for names, two in families)
    return decide_rows(codes, totals, GROUPS, TOLERANCE)


def compare_family(
    names: list[str], before: np.ndarray, after: np.ndarray, sizes: np.ndarray
) -> list[ComparedCode]:
    """Return what ``annotate compare`` computes of two sides."""
    base, new = (SideTotals(side, sizes.astype(float)) for side in (before, after))
    rows = []
    for n, (name, test) in enumerate(zip(names, permute_clusters(new, base), strict=True)):
        shares = [estimate_share_of_totals(x.k[n].tolist(), x.n.tolist()) for x in (base, new)]
        gap = estimate_clustered_difference(new.of(n), base.of(n))
        rows.append(ComparedCode(name, tuple(shares), test, difference=gap))
    return rows


def _measure_moved(rng: np.random.Generator, n: int, runs: int, alone: float) -> list[float]:
    pairs = [draw_pair(rng, n, COMMON, 0.10, alone)[0] for _ in range(runs)]
    found = [codes[RISING].word == codes[COMMON].word == "moved" for codes in pairs]
    return [float(np.mean(found)), float(np.mean([x[RISING].word == "worse" for x in pairs]))]


def measure(n: int, runs: int) -> list[str]:
    """Return the line of one size."""
    rng = np.random.default_rng(SEED)
    pairs = [draw_pair(rng, n, NONE, 0.0) for _ in range(runs)]
    words = [([x.word for x in codes], [x.word for x in groups]) for codes, groups in pairs]
    changes = {"worse", "better", "moved"}
    cells: list[Any] = [
        np.mean(["worse" in codes for codes, _ in words]),
        np.mean([bool(changes & set(codes)) for codes, _ in words]),
        np.mean([bool(changes & {*codes, *groups}) for codes, groups in words]),
    ]
    cells += _measure_moved(rng, n, runs, 0.5)
    detects = [codes[RISING].detects for codes, _ in pairs]
    rise = float(np.mean([x for x in detects if x is not None]))
    for points in (0.10, rise, TOLERANCE):
        rows = [draw_pair(rng, n, NONE, points)[0][RISING] for _ in range(runs)]
        word = "held" if points == TOLERANCE else "worse"
        cells.append(np.mean([row.word == word for row in rows]))
    cells.insert(-2, rise)
    for alone in (0.2, 0.02):
        cells += _measure_moved(np.random.default_rng(SEED), n, runs, alone)
    return [f"{n:5d}", *(f"{cell:6.3f}" for cell in cells)]


def main() -> None:
    """Measure and print a line for each size."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    begun = time.perf_counter()
    print(
        "    n  worse change +group  moved  worse rise10 detects found  held"
        "  moved  worse  moved  worse"
    )
    for n in map(int, sys.argv[2:]) if sys.argv[2:] else SIZES:
        print("  ".join(measure(n, runs)), flush=True)
    print(f"{runs} pairs each, {time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
