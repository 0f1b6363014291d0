"""Results of MARBLE (MultiAgentBench): a line a run, with its ``iterations``.

Tested with the layout of MARBLE's engine of 2025. Of each iteration are read, in this order: what
each agent was to do (the engine's words), the talks between agents (``From a to b: ...``), what
each agent did, with what its tool returned, and the engine's summary.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.traces.conversation import Conversation, Utterance
from annotator.traces.records import get_dict, get_list, get_text

_HEADER = re.compile(r"^From (\S[^\n:]*?) to (\S[^\n:]*?): ", re.MULTILINE)
_SESSION = re.compile(r"^In Session \S+ *$", re.MULTILINE)
_RESULT = "Result from the model:"
_RETURNED = "Result from the function:"
_KEYS = (
    *("iteration", "task_assignments", "task_results", "summary", "continue_simulation"),
    *("communications", "total_milestones", "agent_kpis", "root_agent"),
)


def matches(document: Any) -> bool:
    return "coordination_mode" in document and isinstance(document.get("iterations"), list)


def read(document: Any) -> Conversation:
    chat = Conversation()
    tasks: dict[str, str] = {}
    task = get_text(document.get("task")) or ""
    items = document["iterations"]
    for fields in chat.list_objects(items, "iteration", "iteration", _KEYS):
        for agent, assignment in _list_pairs(fields.get("task_assignments"), "task"):
            tasks.setdefault(agent, task)
            text = _stringify(assignment)
            chat.say("iterations", "engine", "system", text, recipients=(agent,))
        talks = fields.get("communications") or []
        for talk in talks if isinstance(talks, list) else [talks]:
            for utterance in _split_talk(_stringify(talk)):
                chat.add(utterance, "communications")
        for agent, result in _list_pairs(fields.get("task_results"), "result"):
            tasks.setdefault(agent, task)
            text, _, returned = _stringify(result).partition(_RETURNED)
            text = text.removeprefix(_RESULT).strip()
            if result is None:
                chat.problems.append(f"task_results: {agent} has no result")
            elif text:
                chat.say("task_results", agent, "agent", text)
            if returned.strip():
                chat.say("task_results", "function", "tool", returned.strip())
        if summary := get_text(fields.get("summary")):
            chat.say("iterations", "engine", "system", summary)
    if not chat.messages:
        raise UnreadableTrace("no message in its iterations")
    chat.read_attributes(document, ("task", "iterations"))
    chat.task = task
    chat.tasks = tasks if task else {}
    return chat


def _split_talk(text: str) -> Iterator[Utterance]:
    """Yield the messages of a talk; a text in another form has no known author."""
    text = _SESSION.sub("", text)
    headers = list(_HEADER.finditer(text))
    before = text[: headers[0].start()] if headers else text
    if before.strip():
        yield Utterance("communication", "unknown", [before.strip()])
    for header, following in zip_longest(headers, headers[1:]):
        message = text[header.end() : following.start() if following else len(text)]
        yield Utterance(header[1], "agent", [message.strip("\n")], (header[2],), kind="message")


def _list_pairs(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    """Yield agents and what is of each, in any of the forms that the engine writes."""
    for item in [value] if isinstance(value, dict) else get_list(value):
        fields: Mapping[str, Any] = get_dict(item)
        if "agent_id" in fields:
            yield get_text(fields["agent_id"]) or "", fields.get(key)
        else:
            yield from fields.items()


def _stringify(value: Any) -> str:
    text = get_text(value)
    return text if text is not None else json.dumps(value, ensure_ascii=False)
