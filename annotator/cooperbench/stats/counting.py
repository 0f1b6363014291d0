"""From a stream of traces to the statistics; what is kept grows with tasks, not with traces."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from annotator.base.errors import AnnotatorError
from annotator.base.text import Note, format_count, list_first
from annotator.cooperbench.stats import channel, communication, difficulty, outcomes, pairs
from annotator.cooperbench.stats.model import Channel, Difficulty, Group, Stats
from annotator.cooperbench.stats.tally import Tally
from annotator.rubrics.annotations import get_attribute
from annotator.traces import Trace, TraceOrProblem, Unreadable
from annotator.traces.clusters import DEFAULT_CLUSTER, find_cluster
from validation import Estimate


@dataclass(slots=True)
class StatsCounts:
    """Traces counted one by one, by task (``cluster``), by an attribute, and by ``channel``."""

    cluster: Collection[str] = DEFAULT_CLUSTER
    by: str | None = None
    channel: Channel | None = None
    unreadable: int = 0
    ignored: int = 0
    total: Tally = field(default_factory=Tally)
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
        self.total.add(task, counts)
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
    """Return the statistics of the counted traces; AnnotatorError if no trace has an attribute."""
    by = counted.by
    _check_attribute("--by", by, counted.attributes)
    if counted.channel:
        _check_attribute("--channel", counted.channel.attribute, counted.attributes)
        _check_values(counted.channel, counted.channel_values)
    curves = difficulty.compute_difficulty(counted.runs)
    total = _make_group(None, counted.total, counted.runs, curves.pooled.retention)
    retentions = difficulty.compute_retentions(counted.group_runs.values(), counted.runs)
    by_value = [
        _make_group((by, name), counted.groups[name], runs, retention)
        for (name, runs), retention in zip(counted.group_runs.items(), retentions, strict=True)
        if by
    ]
    groups = (total, *sorted(by_value, key=lambda group: (-group.traces, group.group or ())))
    return Stats(
        tuple(counted.cluster),
        counted.channel,
        counted.unreadable,
        counted.ignored,
        groups,
        curves,
        tuple(_list_notes(total, curves, counted)),
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


_NOTES = {
    "independent": "Shares: Wilson 95 %; their differences: Newcombe; means and ratios: resampled"
    " runs, 95 %. {}: runs count as independent.",
    "tasks": "Shares: Wilson 95 % for the effective number of runs (design effect over tasks, at"
    " least 1); their differences: Newcombe with these; means and ratios: resampled tasks, 95 %.",
    "outcome-unknown": "Not known whether they passed, so in no success rate: {}.",
    "unmerged": "With messages but no merge result, so only in the column all: {}.",
    "nothing-to-merge": "Nothing to merge (an agent crashed or a patch is empty), so in no rate of"
    " conflicts or merges: {}. Their messages count.",
    "silent": "Without messages, so in no mean of the communication: {} of several agents.",
    "steps-unread": "With steps that cannot be read, so in no share of steps: {}.",
    "other-setting": "Neither solo nor coop, so in no success rate and no curve: {}.",
    "observed": "Observed, not caused: runs with and without a conflict differ in their tasks as"
    " well.",
    "no-channel": "Some agents did not speak. To tell whether they could, name the runs with a"
    " channel: --channel ATTRIBUTE=VALUE.",
    "channel": "Agents could speak if {} is {}; with another value they could not.",
    "no-channel-value": "{} of several agents without {}: whether they could speak is unknown. {}"
    " spoke (group: spoke); the rest are in no group.",
    "spoke-anyway": "{} spoke although {} says that they could not ({}): they are in the group"
    " spoke alone, and nothing is compared with could not. Name their values too, or correct them.",
    "one-setting": "Curves leave out {} (a task with its features) with coop runs only and {} with"
    " solo runs only, counted for each model.",
    "curves": "Curves: Wilson 95 % over {0}, areas by trapezoids; retention: resampled {0}, 95 %.",
    "unplaced": "Without a task, so in no curve: {}.",
    "one-model": "Difficulty rests on the solo runs of one model: its solo curve falls by"
    " construction.",
    "partial": "The difficulty of {} rests on some of the models only.",
    "unequal": "Curves count runs, as the paper does; here pairs have different numbers of runs,"
    " and those with more weigh more.",
    "empty-buckets": "Empty buckets are left out, the line goes straight across: {}.",
}


def _write(id_: str, *values: object) -> Note:
    return Note(_NOTES[id_].format(*values), id_)


def _list_notes(group: Group, curves: Difficulty, counted: StatsCounts) -> Iterator[Note]:
    """Yield the notes below the tables, those about the curves last."""
    talk = group.communication
    taskless = "No trace tells its task" if counted.cluster else "--cluster none"
    yield _write("independent", taskless) if group.tasks is None else _write("tasks")
    others = sum(n for name, n in group.settings if name not in (outcomes.SOLO, outcomes.COOP))
    yield from _count(
        ("outcome-unknown", group.unknown, "trace"),
        ("unmerged", talk.unmerged, "run"),
        ("nothing-to-merge", talk.nothing_to_merge, "run"),
        ("silent", talk.silent, "run"),
    )
    yield from _list_channel_notes(group, counted)
    yield from _count(("steps-unread", talk.unread_steps, "run"), ("other-setting", others, "run"))
    yield _write("observed")
    yield from _list_curve_notes(group, curves)


def _count(*counts: tuple[str, int, str]) -> Iterator[Note]:
    """Yield the notes whose count is not 0, with the count and its unit in them."""
    return (_write(id_, format_count(number, unit)) for id_, number, unit in counts if number)


def _list_channel_notes(group: Group, counted: StatsCounts) -> Iterator[Note]:
    named = counted.channel
    if named is None:
        if group.communication.silent:
            yield _write("no-channel")
        return
    name = named.attribute
    yield _write("channel", name, " or ".join(named.values))
    if group.no_channel_value:
        runs = format_count(group.no_channel_value, "run")
        yield _write("no-channel-value", runs, name, group.spoke_without_value)
    if group.spoke_anyway:
        values = list_first(sorted(counted.contradicting), 10)
        yield _write("spoke-anyway", format_count(group.spoke_anyway, "run"), name, values)


def _list_curve_notes(group: Group, curves: Difficulty) -> Iterator[Note]:
    buckets = curves.pooled.buckets
    if curves.solo_only or curves.coop_only:
        yield _write("one-setting", format_count(curves.coop_only, "pair"), curves.solo_only)
    if buckets:
        yield _write("curves", "pairs" if group.tasks is None else "tasks")
    yield from _count(("unplaced", curves.unplaced, "run"))
    if buckets and curves.models == 1:
        yield _write("one-model")
    yield from _count(("partial", curves.partial, "pair"))
    if curves.unequal:
        yield _write("unequal")
    filled = {round(difficulty.BUCKETS * bucket.low) for bucket in buckets}
    empty = [n for n in range(difficulty.BUCKETS) if n not in filled]
    if empty and buckets:
        yield _write("empty-buckets", ", ".join(f"{n / 10:.1f}-{(n + 1) / 10:.1f}" for n in empty))
