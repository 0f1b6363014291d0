"""Outputs of a crew (CrewAI): what each agent handed in for its task.

Looked at: crewai 1.x (`CrewOutput.model_dump`, `TaskOutput`). Where an output holds the messages of
its agent, they are read and its result is not repeated.
"""

from typing import Any

from annotator.traces.conversation import Conversation, Utterance, read_message
from annotator.traces.document import mapping, text_of
from annotator.traces.model import Trace

name = "crewai"


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
        output = mapping(item, f"task {n}")
        agent = (text_of(output.get("agent")) or "").strip()
        task = text_of(output.get("description")) or ""
        tasks[agent] = f"{tasks[agent]}\n\n{task}" if agent in tasks else task
        chat.add(Utterance("crew", "system", [task], (agent,)), "tasks")
        messages = output.get("messages")
        for message in messages if isinstance(messages, list) else []:
            fields = mapping(message, f"task {n}: message")
            if fields.get("role") == "assistant":
                fields = {**fields, "name": agent}
            chat.add(read_message(fields, kinds=True, named=False), "messages")
        result = text_of(output.get("raw")) or ""
        if not any(result and result in message.text for message in chat.messages[1:]):
            chat.add(Utterance(agent, "agent", [result]), "tasks")
    return chat.trace(name, trace_id, path, tasks=tasks)


def _items(document: Any) -> list[Any]:
    items = document.get("tasks_output") if isinstance(document, dict) else document
    return items if isinstance(items, list) else []
