"""The numbers of real runs, computed a second time from the files, with numpy alone.

The rules judge leaves traces undecided, so that its tables have no shares; here what it leaves
undecided counts as none, which is no judge to publish with, but one whose every number can be held
against another program. Quantiles come from densities that are added up.
"""

import json
import math
from collections import defaultdict

import numpy as np
import pytest

from tests.calibration.build import make_rubric, make_run, said
from tests.conftest import annotations

CODES = ("work_overlap", "timing_dependency", "implementation_failure", "none")
EXACT = {"abs": 2e-6}


def quantile_of(log_density, low, high, tail, count=400_001):
    grid = np.linspace(low, high, count)
    density = np.exp(log_density(grid) - log_density(grid).max())
    steps = (density[1:] + density[:-1]) / 2 * (grid[1] - grid[0])
    sums = np.concatenate([[0.0], np.cumsum(steps)])
    return float(np.interp(tail, sums / sums[-1], grid))


def student(df, tail=0.975):
    return quantile_of(
        lambda x: -(df + 1) / 2 * np.log1p(x * x / df), -200, 200, tail, count=4_000_001
    )


def normal(tail=0.975):
    return quantile_of(lambda x: -x * x / 2, -12, 12, tail)


def beta_quantiles(mean, variance):
    total = mean * (1 - mean) / variance - 1
    a, b = mean * total, (1 - mean) * total

    def log_density(x):
        x = np.clip(x, 1e-300, 1 - 1e-16)
        return (a - 1) * np.log(x) + (b - 1) * np.log1p(-x)

    width = 12 * math.sqrt(variance)
    ends = max(1e-9, mean - width), min(1 - 1e-9, mean + width)
    return [quantile_of(log_density, *ends, tail) for tail in (0.025, 0.975)]


def wilson(share, n, z):
    centre, half = share + z * z / 2 / n, z * math.sqrt(share * (1 - share) / n + (z / 2 / n) ** 2)
    return [(centre + side * half) / (1 + z * z / n) for side in (-1, 1)]


def cluster_variance(u):
    return len(u) / (len(u) - 1) * float((np.asarray(u) ** 2).sum())


@pytest.fixture
def run(annotate_cli, logs, tmp_path):
    done = annotate_cli(logs, "--rubric", "symptoms", "--out", "out", "--quiet")
    assert done.code == 0, done.err
    decided = [
        said(line.trace_id, *([line.primary] if line.primary else []), **line.attributes)
        for line in annotations(tmp_path / "out").values()
        if line.status in ("labelled", "none", "undecided")
    ]
    rubric = make_rubric(tmp_path, "one", codes=list(CODES[:-1]), id="decided")
    return make_run(tmp_path / "decided", rubric, [line for line in decided if _counted(line)])


def _counted(line):
    return line.primary is None or line.primary in CODES


@pytest.fixture
def traces(run):
    """Per trace: its task, its merge, its code."""
    lines = [json.loads(line) for line in (run / "annotations.jsonl").read_text().splitlines()]
    return {
        line["trace_id"]: (
            f"{line['attributes']['project']}/{line['attributes']['task']}",
            line["attributes"]["merge"],
            line["primary"] or "none",
        )
        for line in lines
    }


def by_task(traces, code):
    totals = defaultdict(lambda: [0, 0])
    for task, _, primary in traces:
        totals[task][0] += primary == code
        totals[task][1] += 1
    return {task: tuple(counts) for task, counts in totals.items()}


def share_by_hand(traces, code):
    """Value, limits and design effect of a share over tasks."""
    k, n = np.array(list(by_task(traces, code).values()), dtype=float).T
    share = k.sum() / n.sum()
    alone = share * (1 - share) / n.sum()
    effect = max(1.0, cluster_variance((k - share * n) / n.sum()) / alone) if alone else 1.0
    low, high = wilson(share, n.sum() / effect, student(len(n) - 1))
    return share, max(0.0, low) if share else 0.0, high, effect


def test_a_plain_table(annotate_cli, run, traces):
    [table] = json.loads(annotate_cli("report", run, "--format", "json").out)
    rows = {row["code"]: row for row in table["rows"]}
    assert table["judged"] == len(traces) > 100
    for code in CODES:
        share, low, high, effect = share_by_hand(traces.values(), code)
        found = rows[code]
        assert (found["value"], found["design_effect"]) == pytest.approx((share, effect))
        assert (found["low"], found["high"]) == pytest.approx((low, high), **EXACT)
    [alone] = json.loads(annotate_cli("report", run, "--cluster", "none", "--format", "json").out)
    for row in alone["rows"]:
        expected = wilson(row["value"], len(traces), normal())
        assert (row["low"], row["high"]) == pytest.approx(expected, abs=1e-5)


@pytest.fixture
def people(rows, traces, tmp_path):
    """The gold labels of those traces, every code but the three as none; and their file."""
    gold = {
        row["trace_id"]: row["primary"] if row["primary"] in CODES else "none"
        for row in rows
        if (row["rubric"], row["annotator"]) == ("symptoms", "gold") and row["trace_id"] in traces
    }
    assert len(gold) > 20
    lines = [
        {"trace_id": name, "rubric": "decided", "annotator": "gold", "secondary": []}
        | {"primary": None if code == "none" else code}
        for name, code in gold.items()
    ]
    (tmp_path / "gold.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return gold, tmp_path / "gold.jsonl"


def corrected_by_hand(traces, gold, code):
    """Value and limits of a corrected share: statistics.md, sections 3 and 11."""
    names = list(gold)
    flags = np.array([traces[name][2] == code for name in names])
    y = np.array([gold[name] == code for name in names], dtype=float)
    weight = {True: sum(trace[2] == code for trace in traces.values()) / len(traces)}
    weight[False] = 1 - weight[True]
    p, q, v, n = {}, {}, {}, {}
    for flag in (True, False):
        cell = y[flags == flag]
        n[flag], p[flag] = len(cell), cell.mean()
        q[flag] = (cell.sum() + 0.5) / (len(cell) + 1)
        v[flag] = q[flag] * (1 - q[flag]) / (len(cell) + 2)
    share = sum(weight[flag] * p[flag] for flag in p)
    mean = sum(weight[flag] * q[flag] for flag in q)
    alone = sum(weight[flag] ** 2 * v[flag] for flag in v)
    alone += weight[True] * weight[False] * (q[True] - q[False]) ** 2 / len(traces)
    u = defaultdict(float)
    for task, _, primary in traces.values():
        u[task] += (p[primary == code] - share) / len(traces)
    for name, flag, truth in zip(names, flags.tolist(), y, strict=True):
        u[traces[name][0]] += weight[flag] * (truth - p[flag]) / n[flag]
    widened = student(len({traces[name][0] for name in gold}) - 1) / normal()
    variance = max(alone, cluster_variance(list(u.values()))) * widened**2
    low, high = beta_quantiles(mean, variance)
    return share, min(low, share), max(high, share)


def test_a_calibration_and_the_corrected_table(annotate_cli, run, traces, people):
    gold, file = people
    done = annotate_cli("calibrate", run, "--labels", file)
    assert done.code == 0, done.err
    [calibrated] = json.loads((run / "calibration.json").read_text())["calibrations"]
    options = ("--calibration", run / "calibration.json", "--format", "json")
    [table] = json.loads(annotate_cli("report", run, *options).out)
    shares = {row["code"]: row["corrected"] for row in table["rows"]}
    for row in calibrated["rows"]:
        flagged = [name for name in gold if traces[name][2] == row["code"]]
        if not flagged or len(flagged) == len(gold):
            continue
        expected = corrected_by_hand(traces, gold, row["code"])
        for found in (row["corrected"], shares[row["code"]]):
            numbers = found["value"], found["low"], found["high"]
            assert numbers == pytest.approx(expected, abs=2e-5), row["code"]
    agreed = sum(traces[name][2] == code for name, code in gold.items()) / len(gold)
    assert calibrated["agreement"]["observed"]["value"] == pytest.approx(agreed)
    [joint] = json.loads(annotate_cli("report", run, "--joint", *options).out)
    assert sum(row["corrected"]["value"] for row in joint["rows"]) == pytest.approx(1)


def test_a_comparison(annotate_cli, run, traces):
    """Merges with conflicts against clean ones, over tasks; p by 20,000 swaps drawn here."""
    sides = ("--by", "merge", "--values", "conflicts", "clean")
    [found] = json.loads(annotate_cli("compare", run, *sides, "--format", "json").out)
    rows = {row["code"]: row for row in found["rows"]}
    assert found["kind"] == "same tasks"
    rng = np.random.default_rng(5)
    for code in CODES:
        counted = [
            by_task([trace for trace in traces.values() if trace[1] == merge], code)
            for merge in ("conflicts", "clean")
        ]
        tasks = sorted(set(counted[0]) | set(counted[1]))
        table = np.array([[side.get(task, (0, 0)) for task in tasks] for side in counted], float)
        gap, u = gap_of(table)
        error = math.sqrt(cluster_variance(u))
        half = student(len(tasks) - 1) * error
        row = rows[code]
        expected = [gap, gap - half, gap + half]
        if 0 in table[..., 0].sum(axis=1):  # none on a side: Wilson's limits of both, combined
            ends = [
                share_by_hand([trace for trace in traces.values() if trace[1] == merge], code)
                for merge in ("conflicts", "clean")
            ]
            low = math.hypot(ends[0][0] - ends[0][1], ends[1][2] - ends[1][0])
            high = math.hypot(ends[0][2] - ends[0][0], ends[1][0] - ends[1][1])
            expected = [gap, gap - low, gap + high]
        numbers = [row["difference"][key] for key in ("value", "low", "high")]
        assert numbers == pytest.approx(expected, abs=1e-5), code
        if not table[..., 0].any():
            assert row["test"]["p"] is None
            continue
        at_hand, more = float(abs(gap)) / error if error else math.inf, 0
        for _ in range(20_000):
            swapped = np.where(rng.random(len(tasks))[:, None] < 0.5, table[0], table[1])
            other = table.sum(axis=0) - swapped
            value, spread = gap_of(np.stack([swapped, other]))
            error = math.sqrt(cluster_variance(spread))
            more += bool(value) and (not error or abs(value) / error >= at_hand * (1 - 1e-9))
        assert row["test"]["p"] == pytest.approx(more / 20_000, abs=0.02)


def gap_of(table):
    """The difference of the shares of two sides, (2, tasks, k and n), and each task's influence."""
    k, n = table[..., 0], table[..., 1]
    shares = k.sum(axis=1) / n.sum(axis=1)
    u = (k - shares[:, None] * n) / n.sum(axis=1)[:, None]
    return shares[0] - shares[1], u[0] - u[1]
