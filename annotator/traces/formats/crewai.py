"""Outputs of a crew (CrewAI): the result of each agent for its task.

Tested with crewai 1.x (`CrewOutput.model_dump`, `TaskOutput`). If an output holds the messages of
its agent, they are read and its result is not repeated.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from annotator.traces.conversation import Conversation, Utterance, read_message
from annotator.traces.model import Trace
from annotator.traces.records import expect_object, get_list, get_text

name = "crewai"

_OBSERVATION = "\nObservation:"


def matches(document: Any) -> bool:
    """Whether a document is a crew's output, or a list of outputs of tasks."""
    first = next(iter(_list_outputs(document)), None)
    return isinstance(first, dict) and {"agent", "raw", "description"} <= first.keys()


def read(document: Any, trace_id: str, path: str) -> Trace:
    """Return the trace; raises UnreadableTrace for an output that is no object."""
    chat = Conversation()
    tasks: dict[str, str] = {}
    for n, item in enumerate(_list_outputs(document), 1):
        output = expect_object(item, f"task {n}")
        agent = (get_text(output.get("agent")) or "").strip()
        task = get_text(output.get("description")) or ""
        tasks[agent] = f"{tasks[agent]}\n\n{task}" if agent in tasks else task
        chat.add(Utterance("crew", "system", [task], (agent,)), "tasks")
        for message in get_list(output, "messages"):
            for utterance in _read(expect_object(message, f"task {n}: message"), agent):
                chat.add(utterance, "messages")
        result = get_text(output.get("raw")) or ""
        latest = chat.messages[-1]
        if latest.author != "agent" or not result or result not in latest.text:
            chat.add(Utterance(agent, "agent", [result]), "tasks")
    return chat.trace(name, trace_id, path, tasks=tasks)


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


def _list_outputs(document: Any) -> list[Any]:
    return get_list(document, "tasks_output" if isinstance(document, dict) else None)
