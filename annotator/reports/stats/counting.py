"""From a stream of traces to the statistics; what is kept grows with tasks, not with traces."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from annotator.annotations import value_of
from annotator.clusters import DEFAULT_CLUSTER, cluster_of
from annotator.errors import AnnotatorError
from annotator.reports.stats import communication, difficulty, outcomes, overlap, pairs, timing
from annotator.reports.stats.model import Difficulty, Group, Stats
from annotator.reports.stats.tally import Tally
from annotator.traces import Trace, TraceOrProblem, Unreadable
from validation import Estimate


@dataclass(slots=True)
class StatsCounts:
    """Traces counted one by one. ``cluster``: the attributes that together name a task (none of
    them: runs count as independent); ``by``: the attribute whose values get statistics each.
    """

    cluster: Collection[str] = DEFAULT_CLUSTER
    by: str | None = None
    unreadable: int = 0
    ignored: int = 0
    whole: Tally = field(default_factory=Tally)
    groups: dict[str, Tally] = field(default_factory=dict)
    runs: pairs.Runs = field(default_factory=pairs.Runs)
    group_runs: dict[str, pairs.Runs] = field(default_factory=dict)
    attributes: set[str] = field(default_factory=set)

    def add(self, trace: TraceOrProblem) -> None:
        """Count one trace, or what could not be read as one."""
        if not isinstance(trace, Trace):
            self.unreadable += isinstance(trace, Unreadable)
            self.ignored += not isinstance(trace, Unreadable)
            return
        task = cluster_of(trace.attributes, self.cluster)
        counts = outcomes.counts_of(trace)
        if outcomes.setting_of(trace) != outcomes.SOLO:
            counts.update(communication.counts_of(trace))
            counts.update(timing.counts_of(trace))
            counts.update(overlap.counts_of(trace))
        self.whole.add(task, counts)
        self.runs.add(trace, task)
        if self.by:
            self.attributes.update(trace.attributes)
            name = value_of(trace.attributes, self.by)
            self.groups.setdefault(name, Tally()).add(task, counts)
            self.group_runs.setdefault(name, pairs.Runs()).add(trace, task)


def statistics(counted: StatsCounts) -> Stats:
    """Return the statistics of the counted traces.

    Raises:
        AnnotatorError: no trace has the attribute ``by``.
    """
    by = counted.by
    if by and by not in counted.attributes:
        names = ", ".join(sorted(counted.attributes)) or "none at all"
        raise AnnotatorError(f"--by {by}: no trace has this attribute, only {names}")
    curves = difficulty.difficulty(counted.runs)
    whole = _group(None, counted.whole, counted.runs, curves.pooled.retention)
    kept = difficulty.retentions(counted.group_runs.values(), counted.runs)
    by_value = [
        _group((by, name), counted.groups[name], runs, retention)
        for (name, runs), retention in zip(counted.group_runs.items(), kept, strict=True)
        if by
    ]
    groups = (whole, *sorted(by_value, key=lambda group: (-group.traces, group.group or ())))
    return Stats(
        tuple(counted.cluster),
        counted.unreadable,
        counted.ignored,
        groups,
        curves,
        tuple(_notes(whole, curves, counted.cluster)),
    )


def _group(
    group: tuple[str, str] | None, tally: Tally, runs: pairs.Runs, retention: Estimate
) -> Group:
    settings = outcomes.settings(tally)
    return Group(
        group,
        sum(n for _, n in settings),
        settings,
        tally.total(("unknown",)),
        tally.tasks,
        communication.communication(tally),
        tuple(timing.timing(tally)),
        overlap.overlaps(tally),
        tuple(outcomes.merges(tally)),
        tuple(outcomes.merge_success(tally)),
        tuple(outcomes.success(tally)),
        outcomes.sizes(tally),
        tuple(pairs.compare_pairs(runs)),
        retention,
    )


def _notes(whole: Group, curves: Difficulty, cluster: Collection[str]) -> Iterator[str]:
    """Yield what a reader must know of the numbers, the last notes about the curves."""
    talk = whole.communication
    if whole.tasks is None:
        why = "No trace tells its task" if cluster else "Tasks are not told apart (--cluster none)"
        yield (
            "Shares: Wilson 95 %; their differences: Newcombe; means and ratios: resampled runs,"
            f" 95 %. {why}, so runs count as independent."
        )
    else:
        yield (
            "Shares: Wilson 95 % for the effective number of runs (design effect over tasks, at"
            " least 1); their differences: Newcombe with these; means and ratios: resampled tasks,"
            " 95 %."
        )
    if whole.unknown:
        yield f"{whole.unknown} traces do not tell whether they passed: left out of success rates."
    if talk.unmerged:
        yield (
            f"{talk.unmerged} runs with messages tell no merge with or without a conflict: they"
            " are in the column all only."
        )
    if talk.nothing_to_merge:
        yield (
            f"{talk.nothing_to_merge} runs had nothing to merge (an agent crashed or a patch is"
            " empty): they are in no rate of conflicts or merges. Their messages are in the column"
            " all."
        )
    if talk.silent:
        yield f"{talk.silent} runs of several agents have no messages: no means are taken of them."
    if talk.unread_steps:
        yield f"{talk.unread_steps} runs have unreadable steps: they are in no share of steps."
    if other := sum(n for name, n in whole.settings if name not in (outcomes.SOLO, outcomes.COOP)):
        yield f"{other} runs are neither solo nor coop: they are in no success rate and no curve."
    yield "Observed, not caused: runs with and without a conflict differ in their tasks as well."
    yield from _curve_notes(whole, curves)


def _curve_notes(whole: Group, curves: Difficulty) -> Iterator[str]:
    if curves.solo_only or curves.coop_only:
        yield (
            f"Curves leave out {curves.coop_only} pairs (a task with its features) with coop runs"
            f" only and {curves.solo_only} with solo runs only, counted for each model."
        )
    if curves.pooled.buckets:
        units = "pairs" if whole.tasks is None else "tasks"
        yield (
            f"Curves: Wilson 95 % over {units}, areas by trapezoids; retention: resampled {units},"
            " 95 %."
        )
    if curves.unplaced:
        yield f"{curves.unplaced} runs tell no task: they are in no curve."
    if curves.models == 1 and curves.pooled.buckets:
        yield (
            "Difficulty rests on the solo runs of one model: its solo curve falls by construction."
        )
    if curves.partial:
        yield f"The difficulty of {curves.partial} pairs rests on some of the models only."
    if curves.unequal:
        yield (
            "Curves count runs, as the paper does; here pairs have different numbers of runs, and"
            " those with more weigh more."
        )
    empty = [
        f"{place / 10:.1f}-{(place + 1) / 10:.1f}"
        for place in range(difficulty.BUCKETS)
        if all(round(10 * bucket.low) != place for bucket in curves.pooled.buckets)
    ]
    if empty and curves.pooled.buckets:
        yield f"Empty buckets are left out, the line goes straight across: {', '.join(empty)}."
