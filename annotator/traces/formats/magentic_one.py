"""Runs of Magentic-One as lists of ``{content, role}``, as in AgentRx and Who&When.

Tested with the traces of AgentRx, and Who&When's hand-crafted half. ``Orchestrator (thought)`` is a
note of the orchestrator: a message to itself with a kind. ``Orchestrator (-> WebSurfer)`` is a
message to one agent. Every item is a message, so step 1 of AgentRx's labels is message 1. In
Who&When's records (``history``) agent and step of the mistake are people's labels, and step 0 is
message 1. The prompt that starts its other half's chats has an agent's name, and the labels count
it as that agent's step 0: it is the agent's, of the kind ``task``.
"""

import re
from dataclasses import replace
from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.traces.authors import classify_word
from annotator.traces.conversation import HARMLESS, Conversation, Utterance, read_chat, read_parts
from annotator.traces.model import Author
from annotator.traces.records import (
    get_dict,
    get_first_text,
    get_text,
    list_items,
    name_type,
)

documents = (dict, list)

_ROLE = re.compile(r"(?P<name>[^()]+?)\s*\((?:->\s*(?P<to>[^()]+)|(?P<kind>[^()]+))\)")
_PROMPT = "You are given: (1) a task and advises from your manager"  # of AG2's CaptainAgent


def matches(document: Any) -> bool:
    roles = [get_dict(item).get("role") for item in list_items(document, "history")[:20]]
    return "mistake_agent" in get_dict(document) or any(
        isinstance(role, str) and _ROLE.fullmatch(role) for role in roles
    )


def identify(document: Any) -> str | None:
    return get_first_text(get_dict(document), "question_ID", "id")


def read(document: Any) -> Conversation:
    items, record = list_items(document, "history"), get_dict(document)
    if not items:
        history = name_type(record.get("history"))
        raise UnreadableTrace(f"history: found {history}, expected messages")
    if any(get_dict(item).get("name") for item in items):
        chat = read_chat(items, "history")  # agents by name, as in Who&When's other half
        if chat.messages and chat.messages[0].text.startswith(_PROMPT):
            chat.messages[0] = replace(chat.messages[0], kind="task")
    else:
        chat = Conversation()
        keys = {*HARMLESS, "role", "content"}
        for fields in chat.list_objects(items, "message", "messages", keys):
            chat.add(_read(fields), "messages")
    chat.read_attributes(record, ("history", "question_ID", "system_prompt"))
    chat.read_outcome(record)
    prompts = get_dict(record, "system_prompt").items()
    tasks = {agent: text for agent, prompt in prompts if (text := get_text(prompt))}
    chat.tasks = tasks
    return chat


def _read(fields: dict[str, Any]) -> Utterance:
    role = get_text(fields.get("role")) or ""
    sender, to, note = role, None, None
    if match := _ROLE.fullmatch(role):
        sender, to, note = match["name"], match["to"], match["kind"]
    author: Author = classify_word(sender) or ("agent" if sender else "unknown")
    parts = read_parts(fields.get("content"))
    recipients = (to,) if to else (sender,) if note else ()
    return Utterance(sender, author, parts.texts, recipients, None, note, omitted=parts.omitted)
