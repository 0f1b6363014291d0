"""Runs of Magentic-One as lists of ``{content, role}``, as AgentRx and Who&When hold them.

Looked at: the traces of AgentRx, and Who&When's hand-crafted half. The role tells the sender and
more: ``Orchestrator (thought)`` and ``Orchestrator (termination condition)`` are the orchestrator's
own notes, ``Orchestrator (-> WebSurfer)`` is said to one agent. Every item is a message, so that
the steps which AgentRx's labels name, from 1, are the numbers of messages; a note has its sender
for a recipient, and its kind. A terminal's output is a tool's. In Who&When's records (``history``)
the agent and the step of the mistake are labels of people; the step counts from 0, so that it is
the message with the next number. The prompt that starts its other half's chats stands under the
name of an agent, whose words it is not.
"""

import re
from dataclasses import replace
from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.traces.authors import classify_word
from annotator.traces.conversation import Conversation, Utterance, read_chat, read_parts
from annotator.traces.model import Author, Trace
from annotator.traces.records import (
    describe_outcome,
    expect_object,
    get_text,
    name_type,
    read_attributes,
)

name = "magentic-one"

_ROLE = re.compile(r"(?P<name>[^()]+?)\s*\((?:->\s*(?P<to>[^()]+)|(?P<kind>[^()]+))\)")
_PROMPT = "You are given: (1) a task and advises from your manager"  # of AG2's CaptainAgent


def matches(document: Any) -> bool:
    """Whether a document is such a list, or a record with one as its ``history``."""
    items = _items(document)
    roles = [item.get("role") for item in items[:20] if isinstance(item, dict)]
    return (isinstance(document, dict) and "mistake_agent" in document) or any(
        isinstance(role, str) and _ROLE.fullmatch(role) for role in roles
    )


def identify(document: Any) -> str | None:
    """Return the question's id."""
    if not isinstance(document, dict):
        return None
    return get_text(document.get("question_ID")) or get_text(document.get("id"))


def read(document: Any, trace_id: str, path: str) -> Trace:
    """Return the trace; raises UnreadableTrace for an item that is no object."""
    items = _items(document)
    record = document if isinstance(document, dict) else {}
    if not items:
        raise UnreadableTrace(
            f"history: found {name_type(record.get('history'))}, expected messages"
        )
    if any(isinstance(item, dict) and item.get("name") for item in items):
        chat = read_chat(items, "history")  # agents by name, as in Who&When's other half
        if chat.messages and chat.messages[0].text.startswith(_PROMPT):
            first = chat.messages[0]
            task = replace(first, author="system", sender="task", recipients=(first.sender,))
            chat.messages[0] = task
    else:
        chat = Conversation()
        for n, item in enumerate(items, 1):
            chat.add(_read(expect_object(item, f"message {n}")), "messages")
    attributes, problems = read_attributes(record, ("history", "question_ID", "system_prompt"))
    chat.problems += problems
    outcome, attributes = describe_outcome(record, attributes)
    prompts = record.get("system_prompt")
    tasks = {
        agent: text
        for agent, prompt in (prompts.items() if isinstance(prompts, dict) else ())
        if (text := get_text(prompt))
    }
    return chat.trace(name, trace_id, path, outcome=outcome, attributes=attributes, tasks=tasks)


def _read(fields: dict[str, Any]) -> Utterance:
    role = get_text(fields.get("role")) or ""
    match = _ROLE.fullmatch(role)
    sender = match["name"] if match else role
    note = match["kind"] if match else None
    to = match["to"] if match else None
    author: Author = classify_word(sender) or ("agent" if sender else "unknown")
    parts = read_parts(fields.get("content"))
    recipients = (to,) if to else (sender,) if note else ()
    return Utterance(sender, author, parts.texts, recipients, None, note, omitted=parts.omitted)


def _items(document: Any) -> list[Any]:
    items = document.get("history") if isinstance(document, dict) else document
    return items if isinstance(items, list) else []
