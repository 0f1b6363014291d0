"""Communication and its timing, in runs with and without merge conflicts.

Definitions: CooperBench (arXiv 2601.13295), section 5 and appendix "Effective communication
patterns".
"""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

from annotator.base.errors import UnreadableTrace
from annotator.cooperbench.facts.mentions import count_lines, find_paths
from annotator.cooperbench.facts.messages import TYPES, choose_main_type, count_types
from annotator.cooperbench.stats.channel import COULD_NOT, QUIET, SILENT, find_groups
from annotator.cooperbench.stats.model import (
    Channel,
    Communication,
    Measure,
    NamedShare,
    Opening,
)
from annotator.cooperbench.stats.tally import (
    Key,
    Tally,
    compare_shares,
    drop_if_few,
    make_uncounted_share,
)
from annotator.traces import Trace
from annotator.traces.model import CLEAN, CONFLICT, NOTHING, UNKNOWN, count_own_steps
from validation import Estimate
from validation.resampling import Floats, Resamples

_STATES = (CLEAN, CONFLICT, UNKNOWN, NOTHING)

# Measure -> what is divided by what.
MEASURES = {
    "messages per run": ("messages", "runs"),
    "plans per run": ("plan", "runs"),
    "questions per run": ("question", "runs"),
    "updates per run": ("update", "runs"),
    "plans per question": ("plan", "question"),
    "file path mentions per run": ("paths", "runs"),
    "line number mentions per run": ("lines", "runs"),
}
_COUNTED = ("runs", *dict.fromkeys(top for top, _ in MEASURES.values()))
_KEYS: list[Key] = [("talk", state, what) for state in _STATES for what in _COUNTED]

TOO_SOON = 5.0  # seconds; nobody reads a message and answers it in less
_MILLION = 1_000_000  # positions in a run are counted in whole millionths of it
_CHANGES, _CROSSED = ("time", "changes"), ("time", "crossed")
_PLACED, _POSITIONS = ("time", "placed"), ("time", "positions")
_TALKED = ("time", "runs")
_WITH_END, _LATE = ("time", "end known"), ("time", "after the end")

PLAN, NO_PLAN, ALL = "first message is a plan", "first message is no plan", "all"


def list_openings(channel: Channel | None) -> tuple[str, ...]:
    """Return the names of the ways to open a run, and "all"."""
    silent = (QUIET, COULD_NOT) if channel else (SILENT,)
    return PLAN, NO_PLAN, *silent, ALL


def count_trace(trace: Trace, channel: Channel | None) -> Counter[Key]:
    """Return what one run of several agents adds to the totals."""
    state = trace.merge_state
    messages = trace.spoken
    counts: Counter[Key] = Counter()
    if messages:
        types = [count_types(message) for message in messages]
        counts.update(("talk", state, kind) for message_types in types for kind in message_types)
        counts["talk", state, "runs"] = 1
        counts["talk", state, "messages"] = len(messages)
        for message in messages:
            counts["talk", state, "paths"] += len(find_paths(message.text))
            counts["talk", state, "lines"] += count_lines(message.text)
    else:
        counts["silent",] = 1
    if state in (CLEAN, CONFLICT):
        for opening in find_openings(trace, channel):
            counts["opening", opening, "n"] = 1
            counts["opening", opening, "k"] = int(state == CONFLICT)
    counts.update(_count_steps(trace))
    return counts


def find_openings(trace: Trace, channel: Channel | None) -> tuple[str, ...]:
    """Return the openings of a run, and "all"."""
    if not trace.spoken:
        return *find_groups(trace, channel)[:1], ALL
    return PLAN if "plan" in count_types(trace.spoken[0]) else NO_PLAN, ALL


def _count_steps(trace: Trace) -> Counter[Key]:
    try:
        trajectories = trace.steps
    except UnreadableTrace:
        return Counter({("steps unread",): 1})
    counts: Counter[Key] = Counter()
    agents = set()
    for agent, steps in trajectories.items():
        if taken := count_own_steps(steps):
            counts["step", "n"] += taken
            agents.add(agent)
    if agents:
        counts["step", "runs"] = 1
    for message in trace.spoken:
        if message.sender in agents:
            counts["step", "all"] += 1
            counts["step", choose_main_type(count_types(message), message.declared_type)] += 1
    return counts


def compute_communication(tally: Tally, channel: Channel | None) -> Communication:
    """Return the statistics of the counted runs."""
    openings = {
        name: tally.share(("opening", name, "k"), ("opening", name, "n"))
        for name in list_openings(channel)
    }
    nothing = sum(map(tally.total, tally.keys(NOTHING)))
    return Communication(
        runs=sum(tally.total(("talk", state, "runs")) for state in _STATES),
        silent=tally.total(("silent",)),
        unmerged=tally.total(("talk", UNKNOWN, "runs")),
        nothing_to_merge=nothing,
        measures=tuple(_compute_measures(tally)),
        openings=(
            *(Opening(name, share) for name, share in openings.items()),
            Opening(NOTHING, make_uncounted_share(nothing, n=nothing)),
        ),
        difference=compare_shares({name: openings[name] for name in (PLAN, NO_PLAN)}),
        steps=tuple(_compute_step_shares(tally)),
        unread_steps=tally.total(("steps unread",)),
    )


def _compute_step_shares(tally: Tally) -> Iterator[NamedShare]:
    """Yield the messages per step, all and by main type, with intervals of resampled tasks."""
    names = ("all", *TYPES)
    keys: list[Key] = [("step", name) for name in ("n", *names)]
    resamples = Resamples.draw(tally.table(keys), resamples=10_000, seed=0)
    n = tally.total(("step", "n"))
    for column, name in enumerate(names, 1):
        inputs = {"k": tally.total(("step", name)), "runs": tally.total(("step", "runs"))}
        divide, why = partial(_divide_by_steps, column), "no trace tells the steps of its agents"
        yield NamedShare(name, resamples.estimate(name, divide, n, inputs, why))


def _divide_by_steps(column: int, totals: Floats) -> Floats:
    ratio: Floats = totals[:, column] / totals[:, 0]
    return ratio


def _compute_measures(tally: Tally) -> Iterator[Measure]:
    table = tally.table(_KEYS)
    resamples = Resamples.draw(table, resamples=10_000, seed=0)
    sizes = {}
    for name, state in (("conflict-free", CLEAN), ("conflict", CONFLICT)):
        runs = table[:, _KEYS.index(("talk", state, "runs"))]
        tasks = None if tally.tasks is None else int((runs > 0).sum())
        sizes[name] = int(runs.sum()), tasks
    for name, ratio in MEASURES.items():
        yield Measure(
            name,
            _estimate(resamples, name, ratio, _STATES),
            _estimate(resamples, name, ratio, (CLEAN,)),
            _estimate(resamples, name, ratio, (CONFLICT,)),
            drop_if_few(_estimate(resamples, name, ratio, (CLEAN,), (CONFLICT,)), sizes),
        )


def _estimate(
    resamples: Resamples,
    name: str,
    ratio: tuple[str, str],
    states: tuple[str, ...],
    subtracted: tuple[str, ...] = (),
) -> Estimate:
    """Return the ratio in the runs with one of ``states``, less that with one of ``subtracted``."""

    def column(totals: Floats, what: str, among: tuple[str, ...]) -> Floats:
        columns = [_KEYS.index(("talk", state, what)) for state in among]
        summed: Floats = totals[:, columns].sum(axis=1)
        return summed

    def value(totals: Floats) -> Floats:
        top, bottom = ratio
        first: Floats = column(totals, top, states) / column(totals, bottom, states)
        if subtracted:
            return first - column(totals, top, subtracted) / column(totals, bottom, subtracted)
        return first

    runs = int(column(resamples.observed, "runs", states + subtracted)[0])
    counts = {
        f"{what}_{state}": int(column(resamples.observed, what, (state,))[0])
        for state in states + subtracted
        for what in dict.fromkeys((*ratio, "runs"))
    }
    why = "no questions" if ratio[1] == "question" else "no such runs"
    return resamples.estimate(name, value, runs, counts, why if runs else "no such runs")


def count_times(trace: Trace) -> Counter[Key]:
    """Return what one run of several agents adds; nothing if a message has no time."""
    times = [message.time for message in trace.spoken if message.time is not None]
    if not times or len(times) < len(trace.spoken):
        return Counter()
    counts: Counter[Key] = Counter({_TALKED: 1})
    in_order = sorted(zip(times, trace.spoken, strict=True), key=lambda timed: timed[0])
    for (earlier, message), (later, answer) in pairwise(in_order):
        if message.sender != answer.sender:
            counts[_CHANGES] += 1
            counts[_CROSSED] += later - earlier < TOO_SOON
    ends = {end.agent: end.ended for end in trace.outcome.agents if end.ended is not None}
    for time, message in in_order:
        partners = [ends.get(agent) for agent in trace.agents if agent != message.sender]
        times_of_ends = [end for end in partners if end is not None]
        if times_of_ends and len(times_of_ends) == len(partners):
            counts[_WITH_END] += 1
            counts[_LATE] += time > max(times_of_ends)
    first, start, end = in_order[0][0], trace.outcome.started, trace.outcome.ended
    if start is not None and end is not None and start <= first <= end and start < end:
        counts[_PLACED] = 1
        counts[_POSITIONS] = round(_MILLION * (first - start) / (end - start))
    return counts


def compute_timing(tally: Tally) -> Iterator[NamedShare]:
    """Yield the times of messages, with intervals of resampled tasks; nothing without times."""
    if not tally.total(_TALKED):
        return
    resamples = Resamples.draw(
        tally.table([_CROSSED, _CHANGES, _POSITIONS, _PLACED, _LATE, _WITH_END]),
        resamples=10_000,
        seed=0,
    )

    def estimate(
        name: str, column: int, n: Key, k: int | None, why: str, scale: int = 1
    ) -> NamedShare:
        def divide(totals: Floats) -> Floats:
            ratio: Floats = totals[:, column] / totals[:, column + 1] / scale
            return ratio

        return NamedShare(name, resamples.estimate(name, divide, tally.total(n), {"k": k}, why))

    crossed, late = tally.total(_CROSSED), tally.total(_LATE)
    why = "the speaker never changes"
    yield estimate("changes of speaker that cross", 0, _CHANGES, crossed, why)
    why = "no trace has a start and an end with its first message between them"
    yield estimate("part of the run before the first message", 2, _PLACED, None, why, _MILLION)
    if tally.total(_WITH_END):
        yield estimate("messages after all partners had ended", 4, _WITH_END, late, "")
