"""Outputs of a crew (CrewAI): what each agent handed in for its task.

Looked at: crewai 1.x (`CrewOutput.model_dump`, `TaskOutput`). Where an output holds the messages of
its agent, they are read and its result is not repeated.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from annotator.traces.conversation import Conversation, Utterance, read_message
from annotator.traces.model import Trace
from annotator.traces.records import expect_object, get_text

name = "crewai"

_OBSERVED = "\nObservation:"


def matches(document: Any) -> bool:
    """Whether a document is a crew's output, or a list of outputs of tasks."""
    items = _items(document)
    first = items[0] if items else None
    return isinstance(first, dict) and {"agent", "raw", "description"} <= first.keys()


def read(document: Any, trace_id: str, path: str) -> Trace:
    """Return the trace; raises UnreadableTrace for what is no output of a task."""
    chat = Conversation()
    tasks: dict[str, str] = {}
    for n, item in enumerate(_items(document), 1):
        output = expect_object(item, f"task {n}")
        agent = (get_text(output.get("agent")) or "").strip()
        task = get_text(output.get("description")) or ""
        tasks[agent] = f"{tasks[agent]}\n\n{task}" if agent in tasks else task
        chat.add(Utterance("crew", "system", [task], (agent,)), "tasks")
        messages = output.get("messages")
        for message in messages if isinstance(messages, list) else []:
            for utterance in _read(expect_object(message, f"task {n}: message"), agent):
                chat.add(utterance, "messages")
        result = get_text(output.get("raw")) or ""
        last = chat.messages[-1]
        if last.author != "agent" or not result or result not in last.text:
            chat.add(Utterance(agent, "agent", [result]), "tasks")
    return chat.trace(name, trace_id, path, tasks=tasks)


def _read(fields: dict[str, Any], agent: str) -> Iterator[Utterance]:
    """Yield what a message of an agent's own conversation says, in which the crew is the user. What
    a tool returned stands behind the agent's call of it, in the same text.
    """
    message = read_message(fields, kinds=True, named=False)
    if message.author != "agent":
        yield replace(message, author="system") if message.author == "human" else message
        return
    call, mark, result = "\n".join(message.pieces).partition(_OBSERVED)
    yield replace(message, sender=agent, pieces=[call] if mark else message.pieces)
    if mark:
        yield Utterance("tool", "tool", [result.strip()])


def _items(document: Any) -> list[Any]:
    items = document.get("tasks_output") if isinstance(document, dict) else document
    return items if isinstance(items, list) else []
