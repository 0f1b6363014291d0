"""Outputs of a crew (CrewAI): the result of each agent for its task; and its ``output_log_file``.

Tested with crewai 1.x (`CrewOutput.model_dump`, `TaskOutput`, the log in JSON). If an output holds
the messages of its agent, they are read and its result is not repeated. Of a log, outputs of tasks
are the messages.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from annotator.traces.conversation import Conversation, Utterance, read_message
from annotator.traces.model import AgentEnd, Outcome
from annotator.traces.records import get_list, get_text, list_items, parse_time

documents = (dict, list)

_BEGIN = re.compile(r'^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d): (?=(?:task_name|task|agent)=")', re.M)
_KEY = re.compile(r'(?:^|", )(task_name|task|agent|status|output)="')
_OBSERVATION = "\nObservation:"
_LOG_KEYS = ("timestamp", "task_name", "task", "agent", "status", "output")


def matches(document: Any) -> bool:
    if _is_entry(document) or (isinstance(document, list) and any(map(_is_entry, document[:1]))):
        return True
    first = next(iter(list_items(document, "tasks_output")), None)
    return isinstance(first, dict) and {"agent", "raw", "description"} <= first.keys()


def group(document: Any) -> str | None:
    return "" if _is_entry(document) else None


def read(document: Any) -> Conversation:
    entries = [document] if _is_entry(document) else get_list(document)
    if any(map(_is_entry, entries[:1])):
        return _read_log(entries)
    chat = Conversation()
    tasks: dict[str, str] = {}
    for n, output in enumerate(chat.list_objects(list_items(document, "tasks_output"), "task"), 1):
        agent = (get_text(output.get("agent")) or "").strip()
        task = get_text(output.get("description")) or ""
        tasks[agent] = f"{tasks[agent]}\n\n{task}" if agent in tasks else task
        chat.say("tasks", "crew", "system", task, recipients=(agent,))
        for message in chat.list_objects(get_list(output, "messages"), f"task {n}: message"):
            for utterance in _read(message, agent):
                chat.add(utterance, "messages")
        result = get_text(output.get("raw")) or ""
        latest = chat.messages[-1]
        if latest.author != "agent" or not result or result not in latest.text:
            chat.say("tasks", agent, "agent", result)
    chat.tasks = tasks
    return chat


def parse_log(text: str) -> list[dict[str, Any]]:
    """Return the entries of a log as text, each with its timestamp; [] for any other text."""
    first, *parts = _BEGIN.split(text)
    if first.strip() or not parts:
        return []
    entries = []
    for timestamp, entry in zip(parts[::2], parts[1::2], strict=True):
        pairs = _KEY.split(entry.rstrip().removesuffix('"'))
        fields = zip(pairs[1::2], pairs[2::2], strict=True)
        entries.append({"timestamp": timestamp, **dict(fields)})
    return entries


def _is_entry(item: Any) -> bool:
    return isinstance(item, dict) and {"task", "agent", "status", "timestamp"} <= item.keys()


def _read_log(entries: list[Any]) -> Conversation:
    """Return what a log says. Old versions write the output of a completed task as its task."""
    chat = Conversation()
    tasks: dict[str, list[str]] = {}
    ends: dict[str, AgentEnd] = {}
    starters: dict[str, str] = {}
    for n, entry in enumerate(chat.list_objects(entries, "entry", "entry", _LOG_KEYS), 1):
        agent = (get_text(entry.get("agent")) or "").strip()
        task, status = get_text(entry.get("task")) or "", get_text(entry.get("status"))
        if agent != "None":
            starters[task] = agent
        else:  # a task of the crew's manager, who is named at its start only
            agent = starters.get(task, "")
        output, time = get_text(entry.get("output")), parse_time(entry.get("timestamp"))
        agent_tasks = tasks.setdefault(agent, [])
        if agent:
            ends[agent] = AgentEnd(agent, None, status)
        if status == "completed" and (output or task not in agent_tasks):
            chat.say("log", agent, "agent", output or task, time=time)
        elif status == "completed":
            chat.problems.append(f"entry {n}: a completed task without an output")
        elif output:
            chat.say("log", agent, "agent", output, time=time, kind=status)
        elif status != "started":
            chat.ignored[f"status {status or 'unknown'}"] += 1
        if task not in agent_tasks and (status != "completed" or output):
            agent_tasks.append(task)
    for agent, end in ends.items():
        if end.status == "started":
            chat.problems.append(f"{agent}: its last task was started, and has no output")
    chat.outcome = Outcome(agents=tuple(ends.values()))
    described = {agent: "\n\n".join(texts) for agent, texts in tasks.items() if texts}
    chat.tasks = described
    return chat


def _read(fields: dict[str, Any], agent: str) -> Iterator[Utterance]:
    """Yield the utterances of a message; a tool's result follows the call in one text."""
    message = read_message(fields)
    if message.author != "agent":
        yield replace(message, author="system") if message.author == "human" else message
        return
    call, mark, result = "\n".join(message.pieces).partition(_OBSERVATION)
    yield replace(message, sender=agent, pieces=[call] if mark else message.pieces)
    if mark:
        yield Utterance("tool", "tool", [result.strip()])
