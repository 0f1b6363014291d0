"""The :class:`Trace`, the same for every format."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count, islice
from typing import Any, Literal

from annotator.base.normalize import normalize_text

Origin = Literal["messages", "patches", "outcome", "steps", "tools"]
"""Where a text comes from: ``messages`` between agents; the agents' ``patches``; ``outcome``, the
reports of the merge and the tests; ``steps`` that an agent wrote in its own trajectory; ``tools``,
texts of people, tools and harnesses, and of unknown authors."""

ORIGINS: tuple[Origin, ...] = ("messages", "patches", "outcome", "steps", "tools")

Author = Literal["agent", "human", "tool", "system", "unknown"]
"""Who wrote a text: an agent; a person or a simulated one; a tool (results, observations, outputs
of an environment); a harness (system and task prompts, notices); or unknown. Only texts of agents
are evidence of what an agent said."""


EVERYBODY = ""
"""In :attr:`Trace.tasks`, the name for all agents: what the run was asked."""

MergeState = Literal["clean", "conflict", "nothing to merge", "unknown"]
"""How the merge of the agents' patches went; see :attr:`Trace.merge_state`."""
CLEAN: MergeState = "clean"
CONFLICT: MergeState = "conflict"
NOTHING: MergeState = "nothing to merge"
UNKNOWN: MergeState = "unknown"
# The harness's words for a naive merge. Identical patches cannot conflict.
_MERGE_STATES = {
    "clean": CLEAN,
    "identical": CLEAN,
    "conflicts": CONFLICT,
    "missing_input": NOTHING,
    NOTHING: NOTHING,
}


INTEGRATED = "integrated"
"""The name of the patch that all agents handed in together, in :attr:`Trace.patches`."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message between agents.

    ``n`` counts from 1 in the order of the file. Empty ``recipients`` means everybody. ``time`` is
    in seconds since 1970, or None. ``kind`` is the sender's own type of message, if it has one.
    ``breaks`` are the offsets in ``text`` where separate pieces were joined: no quote may run
    across one.
    """

    n: int
    sender: str
    recipients: tuple[str, ...]
    text: str
    time: float | None = None
    kind: str | None = None
    author: Author = "agent"
    breaks: tuple[int, ...] = ()

    @property
    def declared_type(self) -> str:
        """Its own type in lower case: its kind, or a first line ``type: X``; or ""."""
        first = normalize_text(self.text[:200]).text[:100].lstrip().partition("\n")[0]
        field, _, value = first.partition(":")
        type_line = value if field.strip().lower() == "type" else ""
        return (self.kind or type_line).strip().lower()


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an agent's own trajectory; ``n`` counts from 1 in the order of the file.

    ``author`` is ``system`` for the prompts that the agent got. ``tool`` is the
    name of the tool called, if the step is a call; ``breaks`` as in :class:`Message`.
    """

    n: int
    author: Author
    text: str
    tool: str | None = None
    breaks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Feature:
    """How one task of the run ended. None means "not known".

    ``passed`` is the test result after the merge, ``passed_alone`` that of the agent's patch
    applied by itself, ``output`` what the tests printed after the merge.
    """

    name: str
    agent: str | None = None
    passed: bool | None = None
    passed_alone: bool | None = None
    alone_reason: str | None = None
    output: str = ""


@dataclass(frozen=True, slots=True)
class AgentEnd:
    """How an agent ended: the harness's status word and its error text, if any, and when (seconds
    since 1970).
    """

    agent: str
    feature: str | None = None
    status: str | None = None
    error: str | None = None
    ended: float | None = None

    @property
    def crashed(self) -> bool:
        """Whether the harness reports an error or a failure of the agent."""
        return bool(self.error) or (self.status or "").lower() in {"error", "failed", "timeout"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the run ended. ``passed``: every feature passes after the merge; None if not known.

    ``merge`` is the harness's word: ``clean``, ``conflicts``, ``identical``, ``missing_input``.
    ``started`` and ``ended`` are in seconds since 1970, or None.
    ``team_size`` is the number of agents, if a record gives no names.
    """

    passed: bool | None = None
    merge: str | None = None
    strategy: str | None = None
    features: tuple[Feature, ...] = ()
    agents: tuple[AgentEnd, ...] = ()
    error: str | None = None
    started: float | None = None
    ended: float | None = None
    team_size: int | None = None

    @property
    def reports(self) -> tuple[str, ...]:
        """The harness's texts that are not empty: merge status, errors, test outputs."""
        errors = (self.error, *(end.error for end in self.agents))
        outputs = (feature.output for feature in self.features)
        return tuple(text for text in (self.merge, *errors, *outputs) if text)


@dataclass(frozen=True, slots=True)
class Source:
    """A text that can be quoted. ``id`` is as in the annotations: ``message:3``, ``patch:agent1``,
    ``outcome``, ``step:agent1:4``. No quote may run across an offset in ``breaks``.
    """

    id: str
    text: str
    origin: Origin
    agent: str | None = None
    breaks: tuple[int, ...] = ()


Steps = Mapping[str, tuple[Step, ...]]


def count_own_steps(steps: Iterable[Step]) -> int:
    """Return the number of an agent's own steps: its tool calls, else its texts."""
    by_agent = [step for step in steps if step.author == "agent"]
    return len([step for step in by_agent if step.tool]) or len(by_agent)


@dataclass(frozen=True)
class Trace:
    """One run of one or more agents on a task.

    ``patches`` maps an agent to the diff it handed in (empty text: an empty patch; a missing agent:
    none is known), and ``INTEGRATED`` to that of all. ``attributes`` are facts to group by:
    ``model``, ``setting``, ``project``, ``task``, ``framework``, ``run_name``, ``passed``,
    ``merge``. ``problems`` are parts that could not be read as they should; the trace can be judged
    without them. Steps and task texts are large and seldom needed, so they are read at the first
    access, which may raise :class:`~annotator.base.errors.UnreadableTrace`.
    """

    id: str
    format: str
    path: str
    messages: tuple[Message, ...] = ()
    patches: Mapping[str, str] = field(default_factory=dict)
    outcome: Outcome = field(default_factory=Outcome)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    read_steps: Callable[[], Steps] = field(default=dict, repr=False, compare=False)
    read_tasks: Callable[[], Mapping[str, str]] = field(default=dict, repr=False, compare=False)

    @cached_property
    def steps(self) -> Steps:
        """Each agent's own trajectory."""
        return self.read_steps()

    @cached_property
    def tasks(self) -> Mapping[str, str]:
        """The text of the task that each agent was given, where it is known; under ``EVERYBODY``
        that of the run.
        """
        return self.read_tasks()

    @property
    def merge_state(self) -> MergeState:
        """How the merge went; ``nothing to merge`` if an agent crashed or its patch is empty.

        The harness calls the merge of an empty patch "clean". A patch that is not stored is not
        an empty patch: then the harness's word counts. Without either, nothing is known.
        """
        state = _MERGE_STATES.get(self.outcome.merge or "", UNKNOWN)
        if not self.patches and not self.outcome.merge:
            return UNKNOWN
        crashed = any(end.crashed for end in self.outcome.agents)
        empty = any(not patch.strip() for patch in self.patches.values())
        return NOTHING if crashed or empty else state

    @cached_property
    def spoken(self) -> tuple[Message, ...]:
        """The messages that agents wrote, in order."""
        return tuple(message for message in self.messages if message.author == "agent")

    @cached_property
    def has_unknown_authors(self) -> bool:
        """Whether it is not known who wrote some message."""
        return any(message.author == "unknown" for message in self.messages)

    @cached_property
    def agents(self) -> tuple[str, ...]:
        """The agents' names in a stable order: as the harness lists them, then as they spoke.

        If the outcome's ``team_size`` is larger, the others are ``agent1``, ``agent2`` and so on.
        """
        names = [end.agent for end in self.outcome.agents]
        names += [agent for agent in self.patches if agent != INTEGRATED]
        names = list(dict.fromkeys((*names, *(message.sender for message in self.spoken))))
        free_names = (name for n in count(1) if (name := f"agent{n}") not in names)
        silent = max(0, (self.outcome.team_size or 0) - len(names))
        return (*names, *islice(free_names, silent))

    def sources(
        self, origins: tuple[Origin, ...] = ORIGINS, *, steps: bool = True
    ) -> Iterator[Source]:
        """Yield every text of some origins, messages first. ``steps`` False: trajectories are
        neither read nor yielded.
        """
        for message in self.messages:
            origin: Origin = "messages" if message.author == "agent" else "tools"
            if origin in origins:
                yield Source(
                    f"message:{message.n}", message.text, origin, message.sender, message.breaks
                )
        if "patches" in origins:
            for agent, patch in self.patches.items():
                yield Source(f"patch:{agent}", patch, "patches", agent)
        if "outcome" in origins and self.outcome.reports:
            text, breaks = join_pieces(self.outcome.reports)
            yield Source("outcome", text, "outcome", None, breaks)
        if steps and {"steps", "tools"}.intersection(origins):
            for agent, trajectory in self.steps.items():
                for step in trajectory:
                    origin = "steps" if step.author == "agent" else "tools"
                    if origin in origins:
                        name = f"step:{agent}:{step.n}"
                        yield Source(name, step.text, origin, agent, step.breaks)

    def source(self, source_id: str) -> Source | None:
        """Return the text named by ``source_id``, or None; steps are read only if it names one."""
        sources = self.sources(steps=source_id.startswith("step:"))
        return next((source for source in sources if source.id == source_id), None)


def check_trace(trace: Trace) -> str | None:
    """Return why a trace of a program or a plug-in cannot be judged; None if it can.

    Quotes name messages by their numbers, which count from 1. Attributes are written as JSON.
    """
    numbers = [message.n for message in trace.messages]
    if numbers != list(range(1, len(numbers) + 1)):
        return f"messages must be numbered 1 to {len(numbers)}, found {numbers[:5]}"
    for name, value in trace.attributes.items():
        try:
            json.dumps({name: value}, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:  # nan (pandas has it), or a date
            return f"its attribute {name!r} cannot be written as JSON: {error}"
    return None


def join_pieces(pieces: tuple[str, ...] | list[str]) -> tuple[str, tuple[int, ...]]:
    """Join separate texts by newlines; return the text and the offsets where one ends."""
    if len(pieces) == 1:
        return pieces[0], ()
    breaks = []
    at = 0
    for piece in pieces[:-1]:
        at += len(piece)
        breaks.append(at)
        at += 1
    return "\n".join(pieces), tuple(breaks)
