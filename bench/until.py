"""How often 95 % intervals hold the truth where labelling stops as soon as they are narrow.

    python -m bench.until [STUDIES]

Each study (400 by default) has 1,500 traces of uneven tasks with the intraclass correlation .15,
codes of 40, 15, 8, 4, 2 and 1 %, and a judge with a precision of .70 to .95 and a recall of .60 to
.95 on each, drawn anew. "until" labels in batches, as ``annotate sample --until`` draws them. For
comparison, as many labels in one batch: "stratified" as by ``annotate sample -n``, and "uniform".

The exit code is 1 if the mean cover of the codes is not from .93 to .97 in a setting.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from annotator.calibration.sample.design import SampledStratum, allocate
from annotator.calibration.sample.until import build_width_model, compute_half_width
from bench.simulation import FLOOR, draw_codes, draw_shares, draw_sizes
from validation import (
    Estimate,
    compute_influences,
    estimate_share_of_totals,
    make_cell,
    poststratify,
)

N, ICC, STUDIES, SEED = 1500, 0.15, 400, 0
SHARES = np.array([0.40, 0.15, 0.08, 0.04, 0.02, 0.01, 0.30])  # the last one is none
NONE = len(SHARES) - 1
SETTINGS = (  # tasks, the half-width, the batch, the codes that have to be so narrow
    (150, 0.05, 40, range(NONE)),
    (150, 0.08, 40, range(NONE)),
    (150, 0.08, 10, range(NONE)),
    (60, 0.08, 40, range(NONE)),
    (60, 0.10, 40, range(NONE)),
    (150, 0.03, 40, (2, 3, 4, 5)),
    (150, 0.02, 40, (3, 4, 5)),
    (60, 0.01, 40, (5,)),
)


@dataclass(frozen=True)
class Study:
    """Judged traces: the task, the true and the judge's code of each, in random order a stratum."""

    task: np.ndarray
    truth: np.ndarray
    judged: np.ndarray
    order: Mapping[str, np.ndarray]
    counts: list[np.ndarray]
    effects: list[float]

    def estimate(self, rows: np.ndarray, weights: np.ndarray) -> list[Estimate]:
        """Return the corrected share of each code, with labels of these traces."""
        estimates = []
        for code, counts in enumerate(self.counts):
            flags, human = self.judged[rows] == code, self.truth[rows] == code
            tasks = self.task[rows]
            estimates.append(
                poststratify(
                    N,
                    int(counts[:, 0].sum()),
                    make_cell(human[flags], weights[flags]),
                    make_cell(human[~flags], weights[~flags]),
                    cluster_variance=compute_influences(
                        counts, tasks, 1 - flags, human, weights
                    ).variance,
                    df=len(np.unique(tasks)) - 1,
                )
            )
        return estimates

    def estimate_stratified(self, labels: Mapping[str, int]) -> list[Estimate]:
        """Return the same with so many labels of each stratum."""
        rows = [self.order[name][:n] for name, n in labels.items()]
        weights = [np.full(n, len(self.order[name]) / n) for name, n in labels.items()]
        return self.estimate(np.concatenate(rows), np.concatenate(weights))


def draw_judge(rng: np.random.Generator) -> np.ndarray:
    """Return the judge's answers to traces with each code, shape (codes, codes)."""
    shares, recall = SHARES[:NONE], rng.uniform(0.6, 0.95, NONE)
    wrong = recall * shares * (1 / rng.uniform(0.7, 0.95, NONE) - 1)  # shares of false alarms
    judge = np.zeros((NONE + 1, NONE + 1))
    for code in range(NONE):  # 4 of 10 missed traces get another code, the others none
        others = np.where(np.arange(NONE) == code, 0, wrong)
        judge[code, :NONE] = 0.4 * (1 - recall[code]) * others / others.sum()
        judge[code, code] = recall[code]
    by_others = shares @ (judge[:NONE, :NONE] * (1 - np.eye(NONE)))
    judge[NONE, :NONE] = np.maximum(0, wrong - by_others) / SHARES[NONE]
    judge[:, NONE] = 1 - judge[:, :NONE].sum(axis=1)
    return judge


def draw_study(rng: np.random.Generator, tasks: int) -> Study:
    """Return a study of so many tasks."""
    task = np.repeat(np.arange(tasks), draw_sizes(rng, tasks, N))
    truth = draw_codes(rng, draw_shares(rng, tasks, ICC, SHARES)[task])
    judged = draw_codes(rng, draw_judge(rng)[truth])
    totals = np.bincount(task, minlength=tasks)
    flagged = [np.bincount(task, judged == code, minlength=tasks) for code in range(NONE)]
    flagged = [counts.astype(int) for counts in flagged]
    order = {str(code): rng.permutation(np.flatnonzero(judged == code)) for code in range(NONE + 1)}
    return Study(
        task,
        truth,
        judged,
        {name: rows for name, rows in order.items() if len(rows)},
        [np.column_stack([counts, totals - counts]) for counts in flagged],
        [estimate_share_of_totals(counts, totals).design_effect or 1.0 for counts in flagged],
    )


def label_until(
    study: Study, until: float, batch: int, codes: tuple[int, ...]
) -> tuple[list[Estimate], int]:
    """Return the estimates after the last batch, and the number of labels."""
    sizes = {name: len(rows) for name, rows in study.order.items()}
    first = max(batch, sum(min(FLOOR, size) for size in sizes.values()))
    labels = allocate(sizes, first, FLOOR)
    while True:
        estimates = study.estimate_stratified(labels)
        model = build_width_model(
            {name: SampledStratum(size, labels[name]) for name, size in sizes.items()},
            labels,
            [estimates[code] for code in codes],
            [{str(code): sizes.get(str(code), 0)} for code in codes],
            [study.effects[code] for code in codes],
        )
        hopeful, hopeless = model.find_wide(until)
        if labels == sizes or not (hopeful or hopeless):
            return estimates, sum(labels.values())
        more = model.allocate(batch, hopeful or hopeless)
        labels = {name: labels[name] + int(n) for name, n in zip(sizes, more, strict=True)}


def measure(
    rng: np.random.Generator,
    tasks: int,
    until: float,
    batch: int,
    codes: tuple[int, ...],
    runs: int,
) -> bool:
    """Print the covers of one setting; return whether their mean is from .93 to .97."""
    found: dict[str, list[list[Estimate]]] = {"until": [], "stratified": [], "uniform": []}
    numbers = []
    for _ in range(runs):
        study = draw_study(rng, tasks)
        estimates, n = label_until(study, until, batch, codes)
        found["until"].append(estimates)
        numbers.append(n)
        study = Study(
            **{**vars(study), "order": {k: rng.permutation(v) for k, v in study.order.items()}}
        )
        sizes = {name: len(rows) for name, rows in study.order.items()}
        fixed = allocate(sizes, n, 10 if n >= 300 else FLOOR)
        found["stratified"].append(study.estimate_stratified(fixed))
        found["uniform"].append(study.estimate(rng.choice(N, n, replace=False), np.ones(n)))
    low, middle, high = np.quantile(numbers, [0.05, 0.5, 0.95])
    which = " ".join(f"{100 * SHARES[code]:g}" for code in codes)
    print(
        f"{tasks} tasks, ±{100 * until:g} points on codes of {which} %, batches of {batch}: ",
        end="",
    )
    print(f"{np.mean(numbers):.0f} labels (5 % {low:.0f}, 50 % {middle:.0f}, 95 % {high:.0f})")
    for way, studies in found.items():
        cover = np.array(
            [[e.low <= s <= e.high for e, s in zip(es, SHARES, strict=False)] for es in studies]
        ).mean(axis=0)
        widths = np.array([[compute_half_width(e) for e in es] for es in studies])
        bias = np.array([[e.value - s for e, s in zip(es, SHARES, strict=False)] for es in studies])
        narrow = (widths[:, list(codes)] <= until).all(axis=1).mean()
        texts = (
            " ".join(f"{x:.3f}" for x in cover),
            f"mean {cover.mean():.3f}, of these {cover[list(codes)].mean():.3f}",
            "±" + " ".join(f"{100 * x:.1f}" for x in widths.mean(axis=0)),
            "bias " + " ".join(f"{100 * x:+.1f}" for x in bias.mean(axis=0)),
            f"narrow {narrow:.2f}",
        )
        print(f"  {way:10s} {'  '.join(texts)}", flush=True)
        if way == "until":
            met = 0.93 <= cover.mean() <= 0.97
    return bool(met)


def main() -> None:
    """Measure and print; the exit code is 1 if a mean cover is missed."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else STUDIES
    met = [
        measure(np.random.default_rng(SEED), tasks, until, batch, tuple(codes), runs)
        for tasks, until, batch, codes in SETTINGS
    ]
    sys.exit(not all(met))


if __name__ == "__main__":
    main()
