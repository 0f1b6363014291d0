"""From a stream of traces to the statistics; what is kept grows with tasks, not with traces."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from annotator.base.errors import AnnotatorError
from annotator.base.text import format_count, list_first
from annotator.cooperbench.stats import channel, communication, difficulty, outcomes, pairs
from annotator.cooperbench.stats.model import Channel, Difficulty, Group, Stats
from annotator.cooperbench.stats.tally import Tally
from annotator.rubrics.annotations import get_attribute
from annotator.traces import Trace, TraceOrProblem, Unreadable
from annotator.traces.clusters import DEFAULT_CLUSTER, find_cluster
from validation import Estimate


@dataclass(slots=True)
class StatsCounts:
    """Traces counted one by one.

    ``cluster`` are the attributes that name a task; without any, runs count as independent. ``by``
    is an attribute to group by, ``channel`` the runs whose agents could write.
    """

    cluster: Collection[str] = DEFAULT_CLUSTER
    by: str | None = None
    channel: Channel | None = None
    unreadable: int = 0
    ignored: int = 0
    whole: Tally = field(default_factory=Tally)
    groups: dict[str, Tally] = field(default_factory=dict)
    runs: pairs.Runs = field(init=False)
    group_runs: dict[str, pairs.Runs] = field(default_factory=dict)
    attributes: set[str] = field(default_factory=set)
    channel_values: set[str] = field(default_factory=set)
    contradicting: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.runs = pairs.Runs(self.channel)

    def add(self, trace: TraceOrProblem) -> None:
        """Count one trace, or what could not be read as one."""
        if not isinstance(trace, Trace):
            self.unreadable += isinstance(trace, Unreadable)
            self.ignored += not isinstance(trace, Unreadable)
            return
        task = find_cluster(trace.attributes, self.cluster)
        counts = outcomes.count_trace(trace)
        if outcomes.get_setting(trace) != outcomes.SOLO:
            counts.update(communication.count_trace(trace, self.channel))
            counts.update(communication.count_times(trace))
            counts.update(channel.count_trace(trace, self.channel))
            self._add_channel_value(trace)
        self.whole.add(task, counts)
        self.runs.add(trace, self.cluster)
        self.attributes.update(trace.attributes)
        if self.by:
            name = get_attribute(trace.attributes, self.by)
            self.groups.setdefault(name, Tally()).add(task, counts)
            self.group_runs.setdefault(name, pairs.Runs(self.channel)).add(trace, self.cluster)

    def _add_channel_value(self, trace: Trace) -> None:
        if self.channel and channel.has_channel(trace.attributes, self.channel) is not None:
            value = get_attribute(trace.attributes, self.channel.attribute)
            self.channel_values.add(value)
            if channel.speaks_anyway(trace, self.channel):
                self.contradicting.add(value)


def compute_statistics(counted: StatsCounts) -> Stats:
    """Return the statistics of the counted traces.

    Raises:
        AnnotatorError: no trace has the attribute ``by`` or that of the channel, or no trace has
            one of the channel's values.
    """
    by = counted.by
    _check_attribute("--by", by, counted.attributes)
    if counted.channel:
        _check_attribute("--channel", counted.channel.attribute, counted.attributes)
        _check_values(counted.channel, counted.channel_values)
    curves = difficulty.compute_difficulty(counted.runs)
    whole = _make_group(None, counted.whole, counted.runs, curves.pooled.retention)
    kept = difficulty.compute_retentions(counted.group_runs.values(), counted.runs)
    by_value = [
        _make_group((by, name), counted.groups[name], runs, retention)
        for (name, runs), retention in zip(counted.group_runs.items(), kept, strict=True)
        if by
    ]
    groups = (whole, *sorted(by_value, key=lambda group: (-group.traces, group.group or ())))
    return Stats(
        tuple(counted.cluster),
        counted.channel,
        counted.unreadable,
        counted.ignored,
        groups,
        curves,
        tuple(_list_notes(whole, curves, counted)),
    )


def _check_attribute(option: str, attribute: str | None, attributes: Collection[str]) -> None:
    if attribute and attribute not in attributes:
        names = ", ".join(sorted(attributes)) or "none at all"
        raise AnnotatorError(f"{option} {attribute}: no trace has this attribute, only {names}")


def _check_values(named: Channel, values: Collection[str]) -> None:
    """Refuse a value that no run has: it may be misspelt."""
    for value in named.values:
        if not any(channel.has_value(text, value) for text in values):
            raise AnnotatorError(
                f"--channel {named.attribute}={value}: no run of several agents has this value,"
                f" only {list_first(sorted(values), 10) or 'none at all'}"
            )


def _make_group(
    group: tuple[str, str] | None, tally: Tally, runs: pairs.Runs, retention: Estimate
) -> Group:
    settings = outcomes.list_settings(tally)
    talk_groups = channel.count_groups(tally, runs.channel)
    spoke_anyway = tally.total(channel.SPOKE_ANYWAY)
    return Group(
        group,
        sum(n for _, n in settings),
        settings,
        tally.total(("unknown",)),
        tally.tasks,
        communication.compute_communication(tally, runs.channel),
        tuple(communication.compute_timing(tally)),
        talk_groups,
        channel.compare_groups(talk_groups, runs.channel, spoke_anyway),
        tally.total(channel.NO_VALUE),
        tally.total(channel.SPOKE_WITHOUT_VALUE),
        spoke_anyway,
        tuple(outcomes.list_merges(tally)),
        tuple(outcomes.compute_merge_success(tally)),
        tuple(outcomes.compute_success(tally)),
        outcomes.compute_sizes(tally),
        tuple(pairs.compare_pairs(runs, spoke_anyway)),
        retention,
    )


def _list_notes(whole: Group, curves: Difficulty, counted: StatsCounts) -> Iterator[str]:
    """Yield the notes below the tables, those about the curves last."""
    talk = whole.communication
    if whole.tasks is None:
        why = "No trace tells its task" if counted.cluster else "--cluster none"
        yield (
            "Shares: Wilson 95 %; their differences: Newcombe; means and ratios: resampled runs,"
            f" 95 %. {why}: runs count as independent."
        )
    else:
        yield (
            "Shares: Wilson 95 % for the effective number of runs (design effect over tasks, at"
            " least 1); their differences: Newcombe with these; means and ratios: resampled tasks,"
            " 95 %."
        )
    if whole.unknown:
        traces = format_count(whole.unknown, "trace")
        yield f"Not known whether they passed, so in no success rate: {traces}."
    if talk.unmerged:
        runs = format_count(talk.unmerged, "run")
        yield f"With messages but no merge result, so only in the column all: {runs}."
    if talk.nothing_to_merge:
        yield (
            "Nothing to merge (an agent crashed or a patch is empty), so in no rate of conflicts or"
            f" merges: {format_count(talk.nothing_to_merge, 'run')}. Their messages are"
            " in the column all."
        )
    if talk.silent:
        runs = format_count(talk.silent, "run")
        yield f"Without messages, so in no mean of the communication: {runs} of several agents."
    yield from _list_channel_notes(whole, counted)
    if talk.unread_steps:
        runs = format_count(talk.unread_steps, "run")
        yield f"With steps that cannot be read, so in no share of steps: {runs}."
    if other := sum(n for name, n in whole.settings if name not in (outcomes.SOLO, outcomes.COOP)):
        yield (
            f"Neither solo nor coop, so in no success rate and no curve:"
            f" {format_count(other, 'run')}."
        )
    yield "Observed, not caused: runs with and without a conflict differ in their tasks as well."
    yield from _list_curve_notes(whole, curves)


def _list_channel_notes(whole: Group, counted: StatsCounts) -> Iterator[str]:
    named = counted.channel
    if named is None:
        if whole.communication.silent:
            yield (
                "Some agents did not speak. To tell whether they could, name the runs with a"
                " channel: --channel ATTRIBUTE=VALUE."
            )
        return
    values = " or ".join(named.values)
    yield f"Agents could speak if {named.attribute} is {values}; with another value they could not."
    if whole.no_channel_value:
        yield (
            f"{format_count(whole.no_channel_value, 'run')} of several agents without"
            f" {named.attribute}:"
            f" whether they could speak is unknown. {whole.spoke_without_value} spoke (group:"
            " spoke); the rest are in no group."
        )
    if whole.spoke_anyway:
        values = list_first(sorted(counted.contradicting), 10)
        yield (
            f"{format_count(whole.spoke_anyway, 'run')} spoke although {named.attribute}"
            " says that they"
            f" could not ({values}): they are in the group spoke alone,"
            " and nothing is compared with could not. Name their values too, or correct them."
        )


def _list_curve_notes(whole: Group, curves: Difficulty) -> Iterator[str]:
    if curves.solo_only or curves.coop_only:
        yield (
            f"Curves leave out {format_count(curves.coop_only, 'pair')} (a task with its"
            " features) with"
            f" coop runs only and {curves.solo_only} with solo runs only, counted for each model."
        )
    if curves.pooled.buckets:
        units = "pairs" if whole.tasks is None else "tasks"
        yield (
            f"Curves: Wilson 95 % over {units}, areas by trapezoids; retention: resampled {units},"
            " 95 %."
        )
    if curves.unplaced:
        yield f"Without a task, so in no curve: {format_count(curves.unplaced, 'run')}."
    if curves.models == 1 and curves.pooled.buckets:
        yield (
            "Difficulty rests on the solo runs of one model: its solo curve falls by construction."
        )
    if curves.partial:
        pairs_of_some = format_count(curves.partial, "pair")
        yield f"The difficulty of {pairs_of_some} rests on some of the models only."
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
