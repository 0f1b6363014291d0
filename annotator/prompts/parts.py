"""The parts of a trace that a prompt shows, in reading order."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import groupby, islice
from math import isfinite

from annotator.base.text import escape_header, sanitize_line
from annotator.prompts.truncate import PromptPart, select_passages
from annotator.rubrics import Rubric
from annotator.rubrics.model import PARTS
from annotator.traces import AgentEnd, Feature, Outcome, Trace
from annotator.traces.model import EVERYBODY

_LEAST_COMMON = 200  # characters in a row that the tasks of all agents share
_MOST_RECIPIENTS = 12  # named in a header
_KINDS = {"message": "messages", "patch": "patches", "outcome": "outcome", "step": "steps"}


def select_parts(trace: Trace, rubric: Rubric) -> Trace:
    """Return the trace with only the parts that the rubric shows, and the names of all agents."""
    hidden = set(PARTS).difference(rubric.show)
    if not hidden:
        return trace
    outcome = Outcome() if "outcome" in hidden else trace.outcome
    listed = {end.agent for end in outcome.agents}
    others = tuple(AgentEnd(agent) for agent in trace.agents if agent not in listed)
    return replace(
        trace,
        messages=() if "messages" in hidden else trace.messages,
        patches={} if "patches" in hidden else trace.patches,
        outcome=replace(outcome, agents=(*outcome.agents, *others)),
        read_steps=lambda: trace.steps,
        read_tasks=dict if "tasks" in hidden else lambda: trace.tasks,
    )


def split_trace(trace: Trace, rubric: Rubric, *, facts: bool = True) -> Iterator[PromptPart]:
    """Yield the parts that the rubric shows: facts, the conversation, the tasks, other sources.

    Without ``facts``, the first part has the names of the agents only.
    """
    trace = select_parts(trace, rubric)
    lines = islice(_list_facts(trace, rubric), None if facts else 1)
    yield PromptPart("facts", "facts", "\n".join(lines), closed=True)
    quotable = set(rubric.quote_from)
    messages = {f"message:{message.n}": message for message in trace.messages}
    timed = [m for m in trace.messages if m.time is not None and isfinite(m.time)]  # nan: pandas
    times = {f"message:{m.n}": m.time for m in timed}
    start = next(iter(times.values()), None)
    tasks = list(_split_tasks(trace))
    for source in trace.sources(steps=bool({"steps", "tools"} & quotable)):
        if source.id.startswith("step:") and source.origin not in quotable:
            continue
        more = ""
        if message := messages.get(source.id):
            more = (
                f" from {escape_header(message.sender)} to {_list_recipients(message.recipients)}"
            )
            more += f", kind {escape_header(message.kind)}" if message.kind else ""
            more += f", author {message.author}" if message.author != "agent" else ""
            if (time := times.get(source.id)) is not None and start is not None:
                more += f", {_describe_time(time - start)}"
        else:
            yield from tasks
            tasks = []
        if source.origin == "patches" and not source.text.strip():
            more += ", empty"
        kind = _KINDS[source.id.partition(":")[0]]
        section = PromptPart(source.id, kind, source.text, more, source.origin not in quotable)
        yield select_passages(section, source.breaks) if kind == "outcome" else section
    yield from tasks


def measure_reading(trace: Trace, rubric: Rubric, missing: Mapping[str, int]) -> float:
    """Return the share, in [0, 1], of a trace's messages, patches, outcome and steps that is left
    without the ``missing`` characters of each part.

    Facts and tasks do not count: they are no evidence.
    """
    if not missing:
        return 1.0
    parts = [
        section for section in split_trace(trace, rubric) if section.kind not in ("facts", "task")
    ]
    sizes = {section.id: len(section.text) - section.left_out for section in parts}
    hidden = sum(min(missing.get(name, 0), size) for name, size in sizes.items())
    return min(round(1 - hidden / sum(sizes.values()), 6), 1 - 1e-6) if hidden else 1.0


def _split_tasks(trace: Trace) -> Iterator[PromptPart]:
    """Yield the agents' tasks, and once the text that they share (a harness's protocol)."""
    paragraphs = {agent: task.split("\n\n") for agent, task in trace.tasks.items()}
    common: list[str] = []
    of_run = paragraphs.pop(EVERYBODY, [])
    if len(paragraphs) > 1:
        first, *others = paragraphs.values()
        shared = set(first).intersection(*others)
        common = [text for long, run in _find_runs(first, shared) if long for text in run]
    if of_run or common:
        yield PromptPart(
            "task", "task", "\n\n".join((*of_run, *common)), " of every agent", closed=True
        )
    for agent, texts in paragraphs.items():
        kept = [text for long, run in _find_runs(texts, set(common)) if not long for text in run]
        yield PromptPart(f"task:{agent}", "task", "\n\n".join(kept), closed=True)


def _find_runs(texts: Sequence[str], shared: Set[str]) -> Iterator[tuple[bool, list[str]]]:
    """Yield the paragraphs by runs, and whether a run is shared and longer than a heading."""
    for is_shared, paragraphs in groupby(texts, key=shared.__contains__):
        run = list(paragraphs)
        yield is_shared and sum(map(len, run)) >= _LEAST_COMMON, run


def _list_recipients(names: Sequence[str]) -> str:
    listed = [escape_header(name) for name in names[:_MOST_RECIPIENTS]]
    listed += [f"{rest} more"] if (rest := len(names) - len(listed)) else []
    return ", ".join(listed) or "everybody"


def _describe_time(seconds: float) -> str:
    """Return a time after the first message as ``+0:25`` or ``+1:02:03``."""
    total = int(abs(seconds))
    hours, minutes = divmod(total // 60, 60)
    clock = f"{hours}:{minutes:02}" if hours else f"{minutes}"
    return f"{'-' if seconds < 0 else '+'}{clock}:{total % 60:02}"


def _list_facts(trace: Trace, rubric: Rubric) -> Iterator[str]:
    outcome = trace.outcome
    yield f"agents: {', '.join(map(escape_header, trace.agents)) or 'unknown'}"
    status_names = {True: "passed", False: "failed", None: "not known"}
    if "outcome" in rubric.show:
        yield f"run: {status_names[outcome.passed]}"
    if outcome.merge:
        yield f"merge of the patches: {sanitize_line(outcome.merge, 60)}"
    for feature in outcome.features:
        if (feature.agent, feature.passed, feature.passed_alone) != (None, None, None):
            yield _describe_feature(feature, status_names)
    for end in outcome.agents:
        if end.crashed:
            status = sanitize_line(end.status or "unknown", 60)
            yield f"{escape_header(end.agent)} did not finish: status {status}"
    if not trace.messages and "messages" in rubric.show:
        yield "messages: none were sent"


def _describe_feature(feature: Feature, status_names: dict[bool | None, str]) -> str:
    owner = f" ({escape_header(feature.agent)})" if feature.agent else ""
    alone = f", its patch alone: {status_names[feature.passed_alone]}"
    reason = f" ({sanitize_line(feature.alone_reason, 60)})" if feature.alone_reason else ""
    merged = f"after the merge {status_names[feature.passed]}"
    return f"feature {sanitize_line(feature.name, 60)}{owner}: {merged}{alone}{reason}"
