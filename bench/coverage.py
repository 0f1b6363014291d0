"""How often 95 % intervals contain the true share, with and without correction of the judge.

    python -m bench.coverage [RUNS]

Simulates a judge with known errors on 2,702 traces of which a uniform sample has human labels, RUNS
times (default 4,000) per setting, seeded. "corrected" is the default interval of the frequency
table, "judge only" is Wilson's on the judge's counts, which knows nothing of its errors. The exit
code is 1 if the cover of the corrected one is outside of the limits in any setting.
"""

import sys
import time
from dataclasses import dataclass

import numpy as np

from validation import Cell, poststratify, wilson

TRACES = 2702
RUNS = 4000
SEED = 0
LOWEST, HIGHEST = 0.93, 0.995


@dataclass(frozen=True)
class Setting:
    """How many labels, how common the code is, how often the judge is right on either side."""

    labels: int
    share: float
    sensitivity: float
    specificity: float


@dataclass(frozen=True)
class Cover:
    """The share of intervals that contain the true share, and their mean width."""

    cover: float
    width: float


SETTINGS = (
    Setting(50, 0.332, 0.90, 0.95),
    Setting(50, 0.087, 0.85, 0.97),
    Setting(50, 0.017, 0.80, 0.99),
    Setting(100, 0.017, 0.80, 0.99),
    Setting(200, 0.087, 0.85, 0.97),
    Setting(200, 0.017, 0.80, 0.99),
)


def simulate(setting: Setting, runs: int, rng: np.random.Generator) -> np.ndarray:
    """Return, per run: flagged traces, labels of flagged ones, of these with the code, and the
    same two numbers of unflagged ones.
    """
    positive = rng.binomial(TRACES, setting.share, runs)
    hits = rng.binomial(positive, setting.sensitivity)
    false_alarms = rng.binomial(TRACES - positive, 1 - setting.specificity)
    flagged, misses = hits + false_alarms, positive - hits
    labelled = rng.hypergeometric(flagged, TRACES - flagged, setting.labels)
    confirmed = rng.hypergeometric(hits, false_alarms, labelled)
    others = setting.labels - labelled
    found = rng.hypergeometric(misses, TRACES - flagged - misses, others)
    return np.stack([flagged, labelled, confirmed, others, found], axis=1)


def cell(positive: int, labels: int) -> Cell:
    """Return the summary of so many independent labels."""
    return Cell(positive / labels if labels else None, positive, labels, labels)


def measure(setting: Setting, runs: int, rng: np.random.Generator) -> tuple[Cover, Cover]:
    """Return the cover of the corrected interval and of the one on the judge's counts."""
    corrected, plain = [], []
    for flagged, labelled, confirmed, others, found in simulate(setting, runs, rng).tolist():
        interval = poststratify(TRACES, flagged, cell(confirmed, labelled), cell(found, others))
        corrected.append((interval.low, interval.high))
        judged = wilson(flagged, TRACES)
        plain.append((judged.low, judged.high))
    return cover_of(corrected, setting.share), cover_of(plain, setting.share)


def cover_of(intervals: list[tuple[float, float]], share: float) -> Cover:
    """Return how many of the intervals contain the share, and how wide they are."""
    low, high = np.array(intervals).T
    return Cover(float(((low <= share) & (share <= high)).mean()), float((high - low).mean()))


def main() -> None:
    """Measure and print; the exit code is 1 if a limit is missed."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    rng = np.random.default_rng(SEED)
    begun = time.perf_counter()
    missed = False
    print(f"N = {TRACES} judged traces, {runs} runs each, cover within {LOWEST}..{HIGHEST}")
    print("labels  share  Se/Sp      corrected (width)   judge only (width)")
    for one in SETTINGS:
        corrected, plain = measure(one, runs, rng)
        ok = LOWEST <= corrected.cover <= HIGHEST
        missed |= not ok
        print(
            f"{one.labels:6d}  {one.share:.3f}  {one.sensitivity:.2f}/{one.specificity:.2f}  "
            f"{corrected.cover:.4f} ({corrected.width:.3f}) {'ok' if ok else 'MISSED':6s}  "
            f"{plain.cover:.4f} ({plain.width:.3f})"
        )
    print(f"{time.perf_counter() - begun:.1f} s")
    sys.exit(missed)


if __name__ == "__main__":
    main()
