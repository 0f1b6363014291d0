"""Runs by pair, and runs with messages against runs without on the same pairs.

A pair is a task together with the features that were to be built. Definitions: CooperBench (arXiv
2601.13295), section 5 and appendix "Communication ablation".
"""

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import NamedTuple

from annotator.clusters import DEFAULT_CLUSTER, cluster_of
from annotator.reports.stats.communication import OPENINGS, opening_of
from annotator.reports.stats.model import PairComparison
from annotator.reports.stats.outcomes import COOP, SOLO, merge_steps, model_of, setting_of
from annotator.reports.stats.tally import NO_UNION
from annotator.traces import Trace
from annotator.traces.model import CLEAN, CONFLICT
from validation import Estimate, cluster_mean, paired_difference

_CLEAN, _UNION = "merged without a conflict", "passed, then union"
_MEASURES = (_CLEAN, "passed, naive", _UNION, "passed, in the end")
_SIDES = ("with messages", "without")
_MERGED_BY_UNION = ("union", "n")

Counts = Counter[tuple[str, str]]


class RunPair(NamedTuple):
    """A task with the features of the run; ``cluster`` is what is resampled."""

    name: Hashable
    cluster: Hashable


class Runs:
    """Counts of runs by pair and model; memory grows with pairs and models."""

    def __init__(self) -> None:
        self.unplaced = 0
        self.of: dict[str, dict[RunPair, Counts]] = {}

    def add(self, trace: Trace, cluster: str | None) -> None:
        """Count a run if it is solo or coop, tells its task, and how it or its merge ended."""
        setting = setting_of(trace)
        counts = _outcome(trace, setting)
        if setting == COOP:
            counts.update(_talk(trace))
        task = cluster_of(trace.attributes, DEFAULT_CLUSTER)
        if task is None:
            self.unplaced += counts[setting, "n"]
        elif counts:
            name = (task, tuple(sorted(feature.name for feature in trace.outcome.features)))
            pair = RunPair(name, name if cluster is None else cluster)
            self.of.setdefault(model_of(trace), {}).setdefault(pair, Counter()).update(counts)


def _outcome(trace: Trace, setting: str) -> Counts:
    passed = trace.outcome.passed
    if passed is None or setting not in (SOLO, COOP):
        return Counter()
    return _of_n((setting, passed))


def _talk(trace: Trace) -> Counts:
    """Return how the merge of a coop run ended, by its opening and by whether anybody spoke."""
    state, side = trace.merge_state, _SIDES[0] if trace.spoken else _SIDES[1]
    counts: Counts = Counter()
    if state in (CLEAN, CONFLICT):
        conflict = state == CONFLICT
        counts.update(_of_n(*((OPENINGS[opening], conflict) for opening in opening_of(trace))))
        counts.update(_of_n((f"{_CLEAN} {side}", not conflict)))
    steps = merge_steps(trace)
    if steps:
        passed = zip(_MEASURES[1:], steps, strict=True)
        counts.update(_of_n(*((f"{measure} {side}", done) for measure, done in passed)))
        counts[_MERGED_BY_UNION] = int(trace.outcome.strategy == "union")
    return counts


def _of_n(*results: tuple[str, bool]) -> Counts:
    counts: Counts = Counter()
    for name, result in results:
        counts[name, "n"] += 1
        counts[name, "k"] += result
    return counts


def compare_pairs(runs: Runs) -> Iterator[PairComparison]:
    """Yield the shares with and without messages of the pairs that have runs of both kinds.

    A pair of one model counts once, with the share of its runs. Where every pair has one run of
    each kind and a task of its own, the interval of the difference is Newcombe's for pairs; else
    tasks are resampled.
    """
    cells = [item for pairs in runs.of.values() for item in pairs.items()]
    unions = any(counts[_MERGED_BY_UNION] for _, counts in cells)
    for measure in _MEASURES:
        names = [f"{measure} {side}" for side in _SIDES]
        compared = [cell for cell in cells if all(cell[1][name, "n"] for name in names)]
        row = _compare(measure, compared, names)
        if measure == _UNION and not unions:
            none = [
                replace(share, **NO_UNION) for share in (row.talked, row.silent, row.difference)
            ]
            row = PairComparison(measure, *none)
        yield row


def _compare(
    measure: str, compared: list[tuple[RunPair, Counts]], names: list[str]
) -> PairComparison:
    shares = [[counts[name, "k"] / counts[name, "n"] for _, counts in compared] for name in names]
    clusters = [pair.cluster for pair, _ in compared]
    talked, silent = (_mean(side, of) for side, of in zip(_SIDES, shares, strict=True))
    single = all(counts[name, "n"] == 1 for _, counts in compared for name in names)
    if compared and single and len(set(clusters)) == len(compared):
        cells = Counter(zip(*shares, strict=True))
        gap = paired_difference(*(cells[outcome] for outcome in ((1, 1), (1, 0), (0, 1), (0, 0))))
    else:
        gaps = [with_messages - without for with_messages, without in zip(*shares, strict=True)]
        gap = cluster_mean("difference", gaps, clusters=clusters)
    if not compared:
        why = "no pair has runs with messages and runs without"
        talked, silent, gap = (replace(estimate, reason=why) for estimate in (talked, silent, gap))
    return PairComparison(measure, talked, silent, gap)


def _mean(side: str, shares: list[float]) -> Estimate:
    value = sum(shares) / len(shares) if shares else None
    return Estimate(side, value, None, None, len(shares), 0.95, "none")
