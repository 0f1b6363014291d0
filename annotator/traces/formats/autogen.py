"""AutoGen 0.4 and later: results of a task, states of a team, lists of messages and events.

Looked at: autogen-agentchat 0.7 (`TaskResult.model_dump`, `save_state`). AG2's and AutoGen 0.2's
chat histories (name, role, content) are read as `generic`: there the name decides.
"""

from collections.abc import Iterator
from typing import Any

from annotator.traces.authors import read_word
from annotator.traces.conversation import Conversation, Utterance, call_texts, read_parts, read_time
from annotator.traces.document import mapping, text_of
from annotator.traces.model import Author, Trace

name = "autogen"

_TOOL = {"ToolCallExecutionEvent", "ToolCallSummaryMessage", "CodeExecutionEvent"} | {
    "MemoryQueryEvent"
}
_SYSTEM = {"UserInputRequestedEvent", "SelectSpeakerEvent", "SelectorEvent"}
_CHUNK = "ModelClientStreamingChunkEvent"  # a piece of what comes again as a message


def matches(document: Any) -> bool:
    """Whether a document is a result, a team's state, or a list of messages of AutoGen's."""
    items = _items(document)
    return bool(items) and _is_message(items[0])


def read(document: Any, trace_id: str, path: str) -> Trace:
    """Return the trace; raises UnreadableTrace for what is no message."""
    chat = Conversation()
    chunks = 0
    for n, item in enumerate(_items(document), 1):
        fields = mapping(item, f"message {n}")
        kind = text_of(fields.get("type"))
        if kind == _CHUNK:
            chunks += 1
        elif kind not in _SYSTEM or fields.get("content"):
            chat.add(_read(fields), "messages")
    if chunks:
        chat.problems.append(f"{chunks} streamed pieces left out: their messages are read")
    reason = text_of(document.get("stop_reason")) if isinstance(document, dict) else None
    return chat.trace(name, trace_id, path, attributes={"stop_reason": reason} if reason else {})


def _read(fields: dict[str, Any]) -> Utterance:
    kind, sender = text_of(fields.get("type")) or "", text_of(fields.get("source")) or ""
    content = fields.get("content")
    author: Author = "tool" if kind in _TOOL else "system" if kind in _SYSTEM else "agent"
    if author == "agent" and read_word(sender) not in (None, "agent"):
        author = read_word(sender) or "unknown"
    time = read_time(fields)
    if kind == "ThoughtEvent":
        return Utterance(sender, author, time=time, reasoning=[text_of(content) or ""])
    if kind == "ToolCallRequestEvent":
        calls = content if isinstance(content, list) else []
        texts = [text for call in calls for text in call_texts(call)]
        return Utterance(sender, author, texts, time=time, kind=kind)
    parts = read_parts(content)
    to = text_of(fields.get("target"))
    return Utterance(
        sender, author, parts.texts, (to,) if to else (), time, kind, omitted=parts.omitted
    )


def _items(document: Any) -> list[Any]:
    if isinstance(document, dict):
        found_lists = (items for items in _lists(document) if items and _is_message(items[0]))
        return next(found_lists, [])
    return document if isinstance(document, list) else []


def _lists(document: dict[str, Any]) -> Iterator[list[Any]]:
    if isinstance(items := document.get("messages"), list):
        yield items
    states = document.get("agent_states")
    for state in states.values() if isinstance(states, dict) else ():
        if isinstance(state, dict) and isinstance(items := state.get("message_thread"), list):
            yield items  # of the one who manages the chat: all that was said


def _is_message(item: Any) -> bool:
    kind = item.get("type") if isinstance(item, dict) else None
    return isinstance(kind, str) and kind.endswith(("Message", "Event")) and "source" in item
