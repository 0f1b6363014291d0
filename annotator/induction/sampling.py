"""The traces that an induction reads: a sample by outcome and task, in batches."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from annotator.base.errors import AnnotatorError
from annotator.base.text import sanitize_line
from annotator.rubrics import Rubric
from annotator.traces import Ignored, Trace, Traces
from annotator.traces.clusters import DEFAULT_CLUSTER, find_cluster, name_lone_cluster

_FEWEST = 5
_FAILED_SHARE = 2 / 3


@dataclass(frozen=True)
class TraceSample:
    """Trace ids in the order of reading, and the traces that they are from, by outcome.

    ``unreadable``: traces that cannot be read, or that no judge can judge; ``first``: the first of
    them, with its reason.
    """

    trace_ids: tuple[str, ...]
    population: Mapping[str, int]
    unreadable: int = 0
    first: str = ""

    @property
    def passed_over(self) -> int:
        """The readable traces that are not in the sample."""
        return sum(self.population.values()) - len(self.trace_ids)

    def describe(self) -> str:
        """Return how many traces are read, and how many are not, in one line."""
        total = sum(self.population.values())
        outcomes = ", ".join(f"{n} {name}" for name, n in sorted(self.population.items()))
        text = f"{len(self.trace_ids)} of {total} traces ({outcomes})"
        if self.passed_over:
            text += f"; {self.passed_over} are not read: --sample {len(self.trace_ids)}"
        if self.unreadable:
            text += f"; {self.unreadable} cannot be judged, for example {sanitize_line(self.first)}"
        return text


def sample_traces(
    traces: Traces, rubric: Rubric, size: int, seed: int, *, failed_only: bool
) -> TraceSample:
    """Draw traces: two thirds failed ones if there are others, and one task after the other.

    Raises:
        AnnotatorError: fewer than five traces can be judged.
    """
    tasks: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    unreadable, first = 0, ""
    for item in traces.find():
        if isinstance(item, Ignored):
            continue
        if not isinstance(item, Trace):
            unreadable, first = unreadable + 1, first or f"{item.path or item.id}: {item.reason}"
            continue
        outcome = name_outcome(item.outcome.passed)
        if failed_only and outcome == "passed":
            continue
        if reason := rubric.excludes(item) or rubric.leaves_open(item):
            unreadable, first = unreadable + 1, first or f"{item.id}: {reason}"
            continue
        task = find_cluster(item.attributes, DEFAULT_CLUSTER) or name_lone_cluster(item.id)
        tasks[outcome][task].append(item.id)
    population = {name: sum(map(len, each.values())) for name, each in tasks.items()}
    total = sum(population.values())
    if total < _FEWEST:
        where = ", ".join(traces.places) or "what was given"
        which = "failed " if failed_only else ""
        reason = f"; the first problem: {first}" if first else ""
        raise AnnotatorError(
            f"{where}: {total} {which}traces can be judged, and an induction needs"
            f" {_FEWEST}{reason}"
        )
    random = Random(seed)  # noqa: S311 - no secret
    others = total - population.get("failed", 0)
    places: list[tuple[float, str]] = []  # a larger sample begins with a smaller one
    for name in sorted(tasks):
        failed = name == "failed"
        share = _FAILED_SHARE if failed else (1 - _FAILED_SHARE) * population[name] / others
        order = _arrange(tasks[name], random)
        places += [((n + 0.5) / share, trace_id) for n, trace_id in enumerate(order)]
    trace_ids = tuple(trace_id for _, trace_id in sorted(places)[:size])
    return TraceSample(trace_ids, population, unreadable, first)


def name_outcome(passed: bool | None) -> str:
    """Return the name of an outcome."""
    return "unknown" if passed is None else "passed" if passed else "failed"


def _arrange(tasks: Mapping[str, Sequence[str]], random: Random) -> list[str]:
    """Return trace ids, one of each task in turn; tasks and traces are in a random order."""
    queues = [sorted(tasks[name]) for name in sorted(tasks)]
    random.shuffle(queues)
    for queue in queues:
        random.shuffle(queue)
    longest = max(map(len, queues))
    return [queue[n] for n in range(longest) for queue in queues if n < len(queue)]
