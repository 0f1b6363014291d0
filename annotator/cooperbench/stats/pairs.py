"""Runs by pair, and two groups of runs compared on the same pairs.

A pair is a task with the features to be built. Definitions: CooperBench (arXiv 2601.13295), section
5 and appendix "Communication ablation".
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterator
from dataclasses import replace
from typing import NamedTuple

from annotator.cooperbench.stats.channel import explain_contradiction, find_groups, list_comparisons
from annotator.cooperbench.stats.communication import find_openings
from annotator.cooperbench.stats.model import Channel, PairComparison
from annotator.cooperbench.stats.outcomes import (
    COOP,
    SOLO,
    get_model,
    get_setting,
    list_merge_steps,
)
from annotator.cooperbench.stats.tally import LEAST_PAIRS, NO_UNION, explain_few, make_undefined
from annotator.traces import Trace
from annotator.traces.clusters import DEFAULT_CLUSTER, find_cluster
from annotator.traces.model import CLEAN, CONFLICT
from validation import Estimate, bootstrap_mean, estimate_paired_difference

_CLEAN, _UNION = "merged without a conflict", "passed, then union"
_PASSED = "passed, all runs"  # also those with nothing to merge
_MEASURES = (_CLEAN, "passed, naive", _UNION, "passed, in the end", _PASSED)
_MERGED_BY_UNION = ("union", "n")

Counts = Counter[tuple[str, str]]


class RunPair(NamedTuple):
    """A task with the features of the run; ``cluster`` is what is resampled."""

    name: Hashable
    cluster: Hashable


class Runs:
    """Counts of runs by pair and model; memory grows with pairs and models."""

    def __init__(self, channel: Channel | None = None) -> None:
        self.channel = channel
        self.unplaced = 0
        self.of: dict[str, dict[RunPair, Counts]] = {}

    def add(self, trace: Trace, cluster: Collection[str]) -> None:
        """Count a run if it is solo or coop and has a task and an outcome or a merge.

        ``cluster``: the attributes to resample by; they name the pair of a run without ``task``.
        """
        setting = get_setting(trace)
        counts, passed = Counts(), trace.outcome.passed
        if passed is not None and setting in (SOLO, COOP):
            counts = _count_results((setting, passed))
        if setting == COOP:
            counts.update(_count_talk(trace, self.channel))
        has_task = trace.attributes.get("task") is not None
        names = DEFAULT_CLUSTER if has_task else (*DEFAULT_CLUSTER, *cluster)
        task, resampled = (find_cluster(trace.attributes, of) for of in (names, cluster))
        if task is None or not (has_task or {*cluster} - {*DEFAULT_CLUSTER}):
            self.unplaced += counts[setting, "n"]
        elif counts:
            name = (task, tuple(sorted(feature.name for feature in trace.outcome.features)))
            pair = RunPair(name, name if resampled is None else resampled)
            self.of.setdefault(get_model(trace), {}).setdefault(pair, Counter()).update(counts)


def _count_talk(trace: Trace, channel: Channel | None) -> Counts:
    """Return how the merge of a coop run ended, by its opening and by its groups."""
    state, counts = trace.merge_state, Counts()
    results: list[tuple[str, bool]] = []
    if state in (CLEAN, CONFLICT):
        conflict = state == CONFLICT
        counts.update(
            _count_results(*((opening, conflict) for opening in find_openings(trace, channel)))
        )
        results.append((_CLEAN, not conflict))
    if steps := list_merge_steps(trace):
        results += zip(_MEASURES[1:4], steps, strict=True)
        counts[_MERGED_BY_UNION] = int(trace.outcome.strategy == "union")
    if trace.outcome.passed is not None:
        results.append((_PASSED, trace.outcome.passed))
    for group in find_groups(trace, channel):
        counts.update(
            _count_results(*((f"{measure}, {group}", result) for measure, result in results))
        )
    return counts


def _count_results(*results: tuple[str, bool]) -> Counts:
    counts: Counts = Counter()
    for name, result in results:
        counts[name, "n"] += 1
        counts[name, "k"] += result
    return counts


def compare_pairs(runs: Runs, spoke_anyway: int) -> Iterator[PairComparison]:
    """Yield the shares of two groups of runs on the pairs that have runs of both.

    A pair of one model counts once. Single runs of tasks of their own have Newcombe's interval for
    pairs; else tasks are resampled.
    """
    cells = [item for pairs in runs.of.values() for item in pairs.items()]
    unions = any(counts[_MERGED_BY_UNION] for _, counts in cells)
    for groups in list_comparisons(runs.channel):
        for measure in _MEASURES:
            row = _compare(measure, cells, groups)
            if measure == _UNION and not unions:
                shares = row.first, row.second, row.difference
                undefined = (make_undefined(share, NO_UNION) for share in shares)
                row = PairComparison(measure, groups, *undefined)
            elif row.difference.n and (why := explain_contradiction(spoke_anyway)):
                row = replace(row, difference=make_undefined(row.difference, why))
            yield row


def _compare(
    measure: str, cells: list[tuple[RunPair, Counts]], groups: tuple[str, str]
) -> PairComparison:
    names = [f"{measure}, {group}" for group in groups]
    compared = [cell for cell in cells if all(cell[1][name, "n"] for name in names)]
    shares = [[counts[name, "k"] / counts[name, "n"] for _, counts in compared] for name in names]
    clusters = [pair.cluster for pair, _ in compared]
    means = [sum(of) / len(of) if of else None for of in shares]
    first, second = (
        Estimate(group, mean, None, None, len(compared), 0.95, "none")
        for group, mean in zip(groups, means, strict=True)
    )
    single = all(counts[name, "n"] == 1 for _, counts in compared for name in names)
    if compared and single and len(set(clusters)) == len(compared):
        ends = Counter(zip(*shares, strict=True))
        gap = estimate_paired_difference(
            *(ends[outcome] for outcome in ((1, 1), (1, 0), (0, 1), (0, 0)))
        )
    else:
        gaps = [a - b for a, b in zip(*shares, strict=True)]
        gap = bootstrap_mean("difference", gaps, clusters=clusters)
    if not compared:
        why = f"no pair has runs in both groups ({', '.join(groups)})"
        first, second, gap = (replace(estimate, reason=why) for estimate in (first, second, gap))
    else:
        has_tasks = any(pair.cluster != pair.name for pair, _ in compared)
        tasks = len(set(clusters)) if has_tasks else None
        if few := explain_few(len(compared), tasks, "pair", LEAST_PAIRS):
            gap = make_undefined(gap, few)
    return PairComparison(measure, groups, first, second, gap)
