"""AutoGen 0.4 and later: results of a task, states of a team or an agent, messages and events in a
list or on lines.

Tested with autogen-agentchat 0.7 (`TaskResult.model_dump`, `run_stream`, `save_state`). AG2's and
AutoGen 0.2's chat histories (name, role, content) are read as `generic`: there the name decides.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

from annotator.traces.authors import classify_word
from annotator.traces.conversation import (
    HARMLESS,
    Conversation,
    Utterance,
    list_call_texts,
    read_parts,
    read_time,
)
from annotator.traces.model import Author
from annotator.traces.records import get_dict, get_text, walk_path

documents = (dict, list)

_TOOL = {"ToolCallExecutionEvent", "ToolCallSummaryMessage", "CodeExecutionEvent"} | {
    *("MemoryQueryEvent", "FunctionExecutionResultMessage")
}
_SYSTEM = {"UserInputRequestedEvent", "SelectSpeakerEvent", "SelectorEvent", "SystemMessage"}
_ASKS = "UserInputRequestedEvent"  # by who relays a person
_CHUNK = "ModelClientStreamingChunkEvent"  # its text comes again in a message
_MODELS = {"MagenticOneOrchestrator", "FileSurfer", "WebSurfer"}  # use one and do not say so
_THINKS = ("AssistantMessage", "ThoughtEvent")
_READ = {
    *HARMLESS,
    *("type", "source", "content", "result", "thought", "target", "models_usage", "created_at"),
    *("tool_calls", "results", "code_blocks"),  # those of a summary or a block: in other words, too
}
_KEYS = ("messages", "agent_states", "llm_context", "type", "version", "id")


def matches(document: Any) -> bool:
    return _are_messages(_find_items(document))


def group(document: Any) -> str | None:
    return "" if _is_message(document) else None


def read(document: Any) -> Conversation:
    record = get_dict(document)
    chat = Conversation()
    chat.read_attributes(record, _KEYS)
    items = chat.list_objects(_find_items(document), "message")
    results = [item for item in items if "messages" in item]  # the last line of a stream
    items = [item for item in items if item not in results]
    for result in results:
        chat.attributes |= {"stop_reason": get_text(result.get("stop_reason"))}
    chunks = [item for item in items if item.get("type") == _CHUNK]
    people = {get_text(item.get("source")) for item in items if item.get("type") == _ASKS}
    doubtful = _find_doubtful(items, record)
    returned: set[str] = set()
    for fields in items:
        kind, source = get_text(fields.get("type")), get_text(fields.get("source"))
        if kind == _CHUNK or (kind in _SYSTEM and not fields.get("content")):
            continue
        chat.note_unread("messages", fields, _READ)
        message = _read(fields)
        if message.author == "agent" and source in people:
            message = replace(message, author="human")
        elif message.author == "agent" and source in doubtful:
            message = replace(message, author="unknown")
        elif kind == "HandoffMessage" and returned.issuperset(message.pieces):
            message = replace(message, author="tool")  # the words of the tool that hands over
        if message.author == "tool":
            returned.update(message.pieces)
        chat.add(message, "messages")
    if chunks:
        chat.problems.append(f"{len(chunks)} streamed pieces left out: their messages are read")
    return chat


def _find_doubtful(items: list[dict[str, Any]], record: dict[str, Any]) -> set[str]:
    """Return the sources that may be no agents: they run code, or their state says nothing."""
    using = (item for item in items if isinstance(item.get("models_usage"), dict))
    thinkers = {get_text(item.get("source")) for item in using}
    states = get_dict(record, "agent_states")
    kinds = {source: walk_path(states, f"{source}.agent_state.type") for source in states}
    doubtful = {source for source, kind in kinds.items() if kind == "BaseState"}
    for before, item in pairwise(items):
        content = before.get("content")
        if isinstance(content, str) and "```" in content:
            doubtful.add(get_text(item.get("source")) or "")
    return doubtful - thinkers - _MODELS if thinkers else set()


def _read(fields: dict[str, Any]) -> Utterance:
    kind, sender = get_text(fields.get("type")) or "", get_text(fields.get("source")) or ""
    content = fields.get("content", fields.get("result"))
    author: Author = "tool" if kind in _TOOL else "system" if kind in _SYSTEM else "agent"
    if author == "agent" and not (kind and sender):
        author = "unknown"
    sender = sender or author
    thinks = isinstance(fields.get("models_usage"), dict) or kind in _THINKS
    if author == "agent" and not thinks and classify_word(sender) not in (None, "agent"):
        author = classify_word(sender) or "unknown"
    elif kind == "UserMessage":  # of a model's context: by any agent or tool
        author = "unknown"
    time = read_time(fields)
    thought = [text] if (text := get_text(fields.get("thought"))) else []
    if kind == "ThoughtEvent":
        return Utterance(sender, author, time=time, reasoning=[get_text(content) or ""])
    calls = content if isinstance(content, list) else [None]
    if author in ("agent", "unknown") and all("arguments" in get_dict(call) for call in calls):
        texts = [text for call in calls for text in list_call_texts(call)]
        return Utterance(sender, author, texts, time=time, kind=kind, reasoning=thought)
    if kind.startswith("StructuredMessage") and isinstance(content, dict):
        content = json.dumps(content, ensure_ascii=False)
    parts = read_parts(content)
    to = get_text(fields.get("target"))
    recipients = (to,) if to else ()
    return parts.utter(sender, author, time, recipients=recipients, kind=kind, reasoning=thought)


def _find_items(document: Any) -> list[Any]:
    if _is_message(document):
        return [document]
    if isinstance(document, dict):
        lists = (items for items in _find_lists(document) if _are_messages(items))
        return next(lists, [])
    return document if isinstance(document, list) else []


def _find_lists(document: dict[str, Any]) -> Iterator[list[Any]]:
    states = get_dict(document, "agent_states")
    paths = ("messages", "llm_context.messages", "agent_state.llm_context.messages")
    for state in (document, *states.values()):
        for path in ("message_thread", *paths[: 2 if state is document else 0]):
            if isinstance(items := walk_path(state, path), list):
                yield items  # the manager's thread holds all messages of the chat


def _are_messages(items: list[Any]) -> bool:
    """Whether the first items are messages; one may be broken."""
    first = items[0] if items else None
    has_source = isinstance(first, dict) and ("source" in first or _is_message(first))
    return has_source and any(map(_is_message, items[:3]))


def _is_message(item: Any) -> bool:
    if not isinstance(item, dict) or not isinstance(kind := item.get("type"), str):
        return False
    event = kind.endswith(("Message", "Event")) and "." not in kind
    event |= kind.startswith("StructuredMessage[")
    return event and ("source" in item or kind in ("SystemMessage",)) and "messages" not in item
