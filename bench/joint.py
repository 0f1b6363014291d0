"""How often all intervals of ``estimate_joint_shares`` hold together, for twelve codes of
different shares; a measurement of ``bench.coverage``.

Ten codes have the shares of CooperBench's symptoms times .9, an eleventh has .5 %, and none 9.5 %.
The judge gives 85 % of the traces with a code that code, 95 % of those without one none, and
divides its errors like the shares. "undecided": it leaves 10 % (the commonest code) to 40 % (none)
of the traces undecided, which is one more answer. Labels are drawn at random, or stratified by the
judge's answer with a floor of five.

A row says in how many runs all promised intervals hold together, their mean number and width; all
intervals, promised or not, and their mean width; and how often each code's interval holds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from bench.simulation import draw_codes, draw_labels, draw_shares, draw_sizes
from validation import estimate_joint_shares

SYMPTOMS = np.array([0.332, 0.297, 0.147, 0.087, 0.043, 0.037, 0.017, 0.015, 0.013, 0.011])
SHARES = np.append(0.9 * SYMPTOMS / SYMPTOMS.sum(), [0.005, 0.095])
CODES = [*(f"code {number}" for number in range(1, 12)), "none"]
RIGHT = np.append(np.full(11, 0.85), 0.95)
UNDECIDED = np.linspace(0.1, 0.4, 12)
BAR = 0.92


@dataclass(frozen=True)
class Setting:
    """The tasks, traces and labels of one row."""

    tasks: int
    icc: float
    n: int
    labels: int
    design: str = "uniform"
    undecided: bool = False


def list_settings() -> Iterator[Setting]:
    """Yield the settings, one for each row."""
    for tasks, icc, n, labels in product((14, 34, 60), (0.0, 0.05, 0.15), (652, 2702), (100, 200)):
        yield Setting(tasks, icc, n, labels)
    for design, undecided in (("stratified", False), ("uniform", True)):
        for tasks, icc in product((14, 34, 60), (0.05, 0.15)):
            yield Setting(tasks, icc, 652, 200, design, undecided)


def judge_rates(undecided: bool) -> np.ndarray:
    """Return the chance of each answer by the true code; the last column is undecided."""
    rates = np.tile(SHARES, (len(CODES), 1))
    np.fill_diagonal(rates, 0)
    rates *= ((1 - RIGHT) / rates.sum(axis=1))[:, None]
    np.fill_diagonal(rates, RIGHT)
    open_ = UNDECIDED if undecided else np.zeros(len(CODES))
    return np.column_stack([rates * (1 - open_)[:, None], open_])


def measure_joint(rng: np.random.Generator, runs: int) -> bool:
    """Print the cover of joint intervals; return whether the promised ones meet the bar."""
    met = True
    print("joint: cover of all promised intervals together; how many and how wide; all; each code")
    for setting in list_settings():
        rates = judge_rates(setting.undecided)
        answers = [*CODES, "undecided"] if setting.undecided else CODES
        holds, widths, promised = (np.zeros((runs, len(CODES))) for _ in range(3))
        for run in range(runs):
            task = np.repeat(np.arange(setting.tasks), draw_sizes(rng, setting.tasks, setting.n))
            truth = draw_codes(rng, draw_shares(rng, setting.tasks, setting.icc, SHARES)[task])
            judged = draw_codes(rng, rates[truth])
            chosen, weights = draw_labels(rng, judged, setting.labels, setting.design)
            found = estimate_joint_shares(
                {
                    answer: np.bincount(task[judged == number], minlength=setting.tasks).tolist()
                    for number, answer in enumerate(answers)
                },
                [answers[number] for number in judged[chosen]],
                [CODES[number] for number in truth[chosen]],
                codes=CODES,
                weights=weights.tolist(),
                clusters=task[chosen].tolist(),
            )
            low, high = (
                np.array([getattr(share, limit) for share in found.values()])
                for limit in ("low", "high")
            )
            holds[run] = (low <= SHARES) & (high >= SHARES)
            widths[run] = high - low
            promised[run] = [share.inputs["promised"] for share in found.values()]
        together = (holds >= promised).all(axis=1).mean()
        ok = bool(together >= BAR - 3 * np.sqrt(BAR * (1 - BAR) / runs))
        met &= ok
        print(
            f"{setting.tasks:3d} tasks  ICC {setting.icc:.2f}  N {setting.n:4d}"
            f"  {setting.labels} {setting.design}{' undecided' if setting.undecided else ''}:"
            f"  {together:.3f}  {promised.sum(axis=1).mean():.1f} of {len(CODES)}"
            f"  {(widths * promised).sum() / promised.sum():.3f};"
            f"  all {holds.all(axis=1).mean():.3f}  {widths.mean():.3f};"
            f"  each {' '.join(f'{cover:.2f}' for cover in holds.mean(axis=0))}",
            end="",
        )
        print("" if ok else "  MISSED", flush=True)
    return met
