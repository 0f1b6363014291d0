"""Streams of ``codex exec --json``: events on lines, a file is a session, without its prompt.

Tested with the documented events of 2025 (``thread.started``, ``turn.*``, ``item.*``). Only
completed items are read.
"""

from collections.abc import Iterator
from typing import Any

from annotator.traces.conversation import Conversation, Utterance, list_call_texts, read_parts
from annotator.traces.records import get_dict, get_text

_AGENT = "assistant"
_EMPTY = {"thread.started", "turn.started", "turn.completed", "item.started", "item.updated"}
_ARGUMENTS = {
    **{"command_execution": "command", "mcp_tool_call": "arguments", "web_search": "query"},
    "file_change": "changes",
}
_READ = {
    *("id", "type", "text", "message", "tool", "server", "aggregated_output", "result", "error"),
    *(*_ARGUMENTS.values(), "status", "exit_code"),
}


def matches(record: Any) -> bool:
    kind = record.get("type")
    if isinstance(kind, str) and kind.startswith("item."):
        return "type" in get_dict(record, "item")
    return (kind == "thread.started" and "thread_id" in record) or kind == "turn.started"


def group(record: Any) -> str | None:
    return ""


def read(records: Any) -> Conversation:
    chat = Conversation()
    for record in map(get_dict, records):
        kind = get_text(record.get("type"))
        item = get_dict(record, "item") if kind == "item.completed" else {}
        utterances = list(_read(item))
        for utterance in utterances:
            chat.add(utterance, "stream")
        if utterances:
            chat.note_unread("items", item, _READ)
        elif kind not in _EMPTY:
            chat.ignored[get_text(item.get("type")) or kind or "unknown"] += 1
    return chat


def _read(item: dict[str, Any]) -> Iterator[Utterance]:
    kind = get_text(item.get("type")) or ""
    text = get_text(item.get("text")) or ""
    if kind == "agent_message":
        yield Utterance(_AGENT, "agent", [text])
    elif kind == "reasoning":
        yield Utterance(_AGENT, "agent", reasoning=[text])
    elif kind == "error":
        yield Utterance("system", "system", [get_text(item.get("message")) or ""])
    elif kind in _ARGUMENTS:
        tool = get_text(item.get("tool")) or kind
        call = {"name": tool, "arguments": item.get(_ARGUMENTS[kind])}
        yield Utterance(_AGENT, "agent", list_call_texts(call))
        error = item.get("error")
        results = (item.get("aggregated_output"), item.get("result"), error)
        texts = [text for value in results for text in read_parts(value or None).texts]
        texts += [get_text(error.get("message")) or ""] if isinstance(error, dict) else []
        if any(texts):
            yield Utterance(tool, "tool", texts)
