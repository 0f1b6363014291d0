"""Traces of tasks, judged and labelled, drawn for the benches of the statistics."""

import numpy as np

SHARES = np.array([0.33, 0.10, 0.03, 0.54])  # the last one is none
JUDGE = np.array(  # what the judge says of a trace with each code
    [
        [0.88, 0.03, 0.01, 0.08],
        [0.06, 0.84, 0.01, 0.09],
        [0.06, 0.04, 0.80, 0.10],
        [0.03, 0.01, 0.005, 0.955],
    ]
)
FLOOR = 5


def draw_sizes(rng: np.random.Generator, tasks: int, n: int) -> np.ndarray:
    """Return how many traces each task has, at least one each; uneven, and n in all."""
    weights = rng.lognormal(0, 0.6, tasks)
    return 1 + rng.multinomial(n - tasks, weights / weights.sum())


def draw_shares(
    rng: np.random.Generator, tasks: int, icc: float, shares: np.ndarray = SHARES
) -> np.ndarray:
    """Return each task's shares of the codes, shape (G, codes)."""
    if icc == 0:
        return np.tile(shares, (tasks, 1))
    return rng.dirichlet(shares * (1 - icc) / icc, tasks)


def draw_codes(rng: np.random.Generator, shares: np.ndarray) -> np.ndarray:
    """Return a code for each row of shares."""
    drawn = (rng.random((len(shares), 1)) > shares.cumsum(axis=1)).sum(axis=1)
    return drawn.clip(max=shares.shape[1] - 1)


def draw_labels(
    rng: np.random.Generator, judged: np.ndarray, labels: int, design: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return which traces are labelled, and their weights."""
    if design == "uniform":
        return rng.choice(len(judged), labels, replace=False), np.ones(labels)
    sizes = np.bincount(judged)
    floors = np.minimum(sizes, FLOOR)
    rest = (labels - floors.sum()) * (sizes - floors) / max(1, (sizes - floors).sum())
    drawn = floors + np.floor(rest).astype(int)
    chosen = [
        rng.choice(np.flatnonzero(judged == code), n, replace=False)
        for code, n in enumerate(drawn)
        if n
    ]
    each = np.concatenate(chosen)
    return each, (sizes / np.maximum(drawn, 1))[judged[each]]
