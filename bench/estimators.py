"""Estimators of a corrected share side by side: how often their 95 % interval contains the truth.

    python -m bench.estimators [RUNS]

Simulates, RUNS times (default 300) in each of five settings and seeded, 652 judged traces of 34
tasks, of which people label 100 or 200 drawn at random; the codes, the judge and the tasks are
those of ``bench.coverage``. An estimator gets one code at a time. It prints:

cover: the share of the runs in which the interval contains the share of the process that makes the
traces; a run without an interval is a miss.
width: the mean over the runs with an interval.
undefined: the share of the runs without an interval.

The estimators:

judge alone      the judge's share, Wilson's interval; no labels
labels alone     the share among the labels, Wilson's for the effective number of labels
this project     ``poststratify`` with the variance over tasks: what ``annotate calibrate`` prints
PPI++            ``estimate_ppi_mean``: the normal interval, for independent traces
Rogan-Gladen     ``estimate_lang_reiczigel``: the judge's error rates, for independent traces
judgy            judgy 0.1.0: Rogan-Gladen's estimate, percentiles over resampled labels
cje-eval         its ``calibrated_mean_ci`` with the tasks as clusters, if it is installed
"""

import sys
import time
from collections.abc import Callable

import numpy as np

from bench.simulation import JUDGE, SHARES, draw_codes, draw_labels, draw_shares, draw_sizes
from validation import (
    compute_influences,
    compute_wilson_interval,
    estimate_clustered_share,
    estimate_lang_reiczigel,
    estimate_ppi_mean,
    make_cell,
    poststratify,
)

try:
    from cje import calibrated_mean_ci  # only for comparison: pip install cje-eval
except ImportError:
    calibrated_mean_ci = None

RUNS, SEED, N, TASKS = 300, 0, 652, 34
SETTINGS = ((100, 0.0), (200, 0.0), (100, 0.05), (200, 0.05), (200, 0.15))  # labels, ICC
RESAMPLES = 20_000

Limits = tuple[float, float] | None
# (flags, task) of all judged traces, and (chosen, human): which are labelled, and how.
Estimator = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], Limits]


def judge_alone(
    flags: np.ndarray, task: np.ndarray, chosen: np.ndarray, human: np.ndarray
) -> Limits:
    """Return the limits of the judge's own share."""
    share = compute_wilson_interval(int(flags.sum()), len(flags))
    return share.low, share.high


def labels_alone(
    flags: np.ndarray, task: np.ndarray, chosen: np.ndarray, human: np.ndarray
) -> Limits:
    """Return the limits of the share among the labels."""
    share = estimate_clustered_share(
        human.tolist(), task[chosen].tolist(), None, 0.95, least_design_effect=1.0
    )
    return share.low, share.high


def this_project(
    flags: np.ndarray, task: np.ndarray, chosen: np.ndarray, human: np.ndarray
) -> Limits:
    """Return the limits of a calibrated table."""
    flagged, totals = np.bincount(task, flags).astype(int), np.bincount(task)
    given = flags[chosen]
    counts = np.column_stack([flagged, totals - flagged])
    over_tasks = compute_influences(counts, task[chosen], 1 - given, human)
    share = poststratify(
        len(flags),
        int(flags.sum()),
        make_cell(human[given]),
        make_cell(human[~given]),
        cluster_variance=over_tasks.variance,
        df=len(set(task[chosen])) - 1,
    )
    return share.low, share.high


def ppi(flags: np.ndarray, task: np.ndarray, chosen: np.ndarray, human: np.ndarray) -> Limits:
    """Return PPI++'s limits, None where nothing varies."""
    rest = np.delete(flags, chosen)
    share = estimate_ppi_mean(human.astype(float), flags[chosen].astype(float), rest.astype(float))
    return None if share.low is None else (share.low, share.high)


def rogan_gladen(
    flags: np.ndarray, task: np.ndarray, chosen: np.ndarray, human: np.ndarray
) -> Limits:
    """Return Lang and Reiczigel's limits, None where an error rate is not known."""
    given, positive = flags[chosen], int(human.sum())
    share = estimate_lang_reiczigel(
        int(flags.sum()),
        len(flags),
        int((given & human).sum()),
        positive,
        int((~given & ~human).sum()),
        len(human) - positive,
    )
    return None if share.value is None else (share.low, share.high)


def judgy(flags: np.ndarray, task: np.ndarray, chosen: np.ndarray, human: np.ndarray) -> Limits:
    """Return the limits of ``judgy.estimate_success_rate``, None where it raises.

    Its 20,000 resamples of the labels are drawn here as counts of the four kinds of label, which
    is the same distribution and much faster.
    """
    given = flags[chosen]
    kinds = np.array(
        [(given & human).sum(), (~given & human).sum(), (given & ~human).sum(), 0], dtype=float
    )
    kinds[3] = len(human) - kinds.sum()
    positive, negative = kinds[:2].sum(), kinds[2:].sum()
    if not positive or not negative or kinds[0] / positive + kinds[3] / negative <= 1:
        return None
    rng = np.random.default_rng(int(kinds @ [1, 1e3, 1e6, 1e9]))
    drawn = rng.multinomial(len(human), kinds / len(human), RESAMPLES)
    positive, negative = drawn[:, :2].sum(axis=1), drawn[:, 2:].sum(axis=1)
    drawn = drawn[(positive > 0) & (negative > 0)]
    sensitivity = drawn[:, 0] / drawn[:, :2].sum(axis=1)
    specificity = drawn[:, 3] / drawn[:, 2:].sum(axis=1)
    gain = sensitivity + specificity - 1
    useful = gain > 0
    shares = (flags.mean() + specificity[useful] - 1) / gain[useful]
    low, high = np.percentile(shares.clip(0, 1), [2.5, 97.5])
    return float(low), float(high)


def cje(flags: np.ndarray, task: np.ndarray, chosen: np.ndarray, human: np.ndarray) -> Limits:
    """Return the limits of ``cje.calibrated_mean_ci``, None where it raises or has none."""
    labels = np.full(len(flags), np.nan)
    labels[chosen] = human
    try:
        low, high = calibrated_mean_ci(flags.astype(float), labels, cluster_ids=task).ci
    except ValueError:
        return None
    return None if np.isnan([low, high]).any() else (low, high)


ESTIMATORS: dict[str, Estimator] = {
    "judge alone": judge_alone,
    "labels alone": labels_alone,
    "this project": this_project,
    "PPI++": ppi,
    "Rogan-Gladen": rogan_gladen,
    "judgy": judgy,
} | ({"cje-eval": cje} if calibrated_mean_ci else {})


def measure(rng: np.random.Generator, labels: int, icc: float, runs: int) -> np.ndarray:
    """Return cover, width and undefined share, shape (estimators, codes, 3)."""
    limits = np.full((runs, len(ESTIMATORS), 3, 2), np.nan)
    for run in range(runs):
        task = np.repeat(np.arange(TASKS), draw_sizes(rng, TASKS, N))
        truth = draw_codes(rng, draw_shares(rng, TASKS, icc)[task])
        judged = draw_codes(rng, JUDGE[truth])
        chosen, _ = draw_labels(rng, judged, labels, "uniform")
        for code in range(3):
            for number, estimate in enumerate(ESTIMATORS.values()):
                found = estimate(judged == code, task, chosen, truth[chosen] == code)
                limits[run, number, code] = (np.nan, np.nan) if found is None else found
    low, high = limits[..., 0], limits[..., 1]
    hit = (low <= SHARES[:3]) & (SHARES[:3] <= high)
    return np.stack(
        [hit.mean(axis=0), np.nanmean(high - low, axis=0), np.isnan(low).mean(axis=0)], axis=-1
    )


def main() -> None:
    """Measure and print a table for each setting."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    begun = time.perf_counter()
    for labels, icc in SETTINGS:
        print(f"{labels} labels, ICC {icc:.2f}: cover (width, undefined) of codes of 33, 10, 3 %")
        found = measure(np.random.default_rng(SEED), labels, icc, runs)
        for name, codes in zip(ESTIMATORS, found, strict=True):
            numbers = "  ".join(f"{c:.3f} ({w:.3f}, {u:.3f})" for c, w, u in codes)
            print(f"{name:13s} {numbers}", flush=True)
    print(f"{runs} runs each, {time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
