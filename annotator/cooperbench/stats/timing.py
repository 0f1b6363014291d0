"""When agents write: messages that cross, how late the first one is, and those to nobody."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from annotator.cooperbench.stats.model import Timing
from annotator.cooperbench.stats.tally import Key, Tally
from annotator.traces import Trace
from validation.resampling import Floats, Resamples

TOO_SOON = 5.0  # seconds; nobody reads a message and answers it in less
_MILLION = 1_000_000  # positions in a run are counted in whole millionths of it
_CHANGES, _CROSSED = ("time", "changes"), ("time", "crossed")
_PLACED, _POSITIONS = ("time", "placed"), ("time", "positions")
_TALKED = ("time", "runs")
_WITH_END, _LATE = ("time", "end known"), ("time", "after the end")


def count_trace(trace: Trace) -> Counter[Key]:
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


def compute_timing(tally: Tally) -> Iterator[Timing]:
    """Yield the times of messages, with intervals of resampled tasks; none if no run has any."""
    if not tally.total(_TALKED):
        return
    resamples = Resamples.draw(
        tally.table([_CROSSED, _CHANGES, _POSITIONS, _PLACED, _LATE, _WITH_END]),
        resamples=10_000,
        seed=0,
    )

    def crossing(totals: Floats) -> Floats:
        share: Floats = totals[:, 0] / totals[:, 1]
        return share

    def position(totals: Floats) -> Floats:
        mean: Floats = totals[:, 2] / totals[:, 3] / _MILLION
        return mean

    def late(totals: Floats) -> Floats:
        share: Floats = totals[:, 4] / totals[:, 5]
        return share

    name, n = "changes of speaker that cross", tally.total(_CHANGES)
    inputs = {"k": tally.total(_CROSSED)}
    share = resamples.interval(crossing).estimate(name, n, inputs, "the speaker never changes")
    yield Timing(name, share)
    name, n = "part of the run before the first message", tally.total(_PLACED)
    why = "no trace has a start and an end with its first message between them"
    yield Timing(name, resamples.interval(position).estimate(name, n, {"k": None}, why))
    if n := tally.total(_WITH_END):
        name, inputs = "messages after all partners had ended", {"k": tally.total(_LATE)}
        yield Timing(name, resamples.interval(late).estimate(name, n, inputs, ""))
