"""What ``codex exec --json`` streams: events on lines, a file is a session, without its prompt.

Looked at: the documented events of 2025 (``thread.started``, ``turn.*``, ``item.*``). Items count
when they are completed; what they were before then is not read.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from annotator.traces.conversation import Conversation, Utterance, list_call_texts, read_parts
from annotator.traces.model import Trace
from annotator.traces.records import get_text

name = "codex-exec"

_AGENT = "assistant"
_EMPTY = {"thread.started", "turn.started", "turn.completed", "item.started", "item.updated"}
_CALLS = {"command_execution": "command", "mcp_tool_call": "arguments", "web_search": "query"} | {
    "file_change": "changes",
}


def matches(record: Any) -> bool:
    """Whether a record is a line of such a stream."""
    kind = record.get("type") if isinstance(record, dict) else None
    if not isinstance(kind, str):
        return False
    item = record.get("item")
    if kind.startswith("item."):
        return isinstance(item, dict) and "type" in item
    return (kind == "thread.started" and "thread_id" in record) or kind == "turn.started"


def group(record: Any) -> str | None:
    """Return "": all lines of a file are one session."""
    return ""


def read(records: Any, trace_id: str, path: str) -> Trace:
    """Return the trace of a stream's lines."""
    chat = Conversation()
    others: Counter[str | None] = Counter()
    for record in records if isinstance(records, list) else [records]:
        kind = get_text(record.get("type")) if isinstance(record, dict) else None
        item = record.get("item") if kind == "item.completed" else None
        told = list(_read(item)) if isinstance(item, dict) else []
        if not told and kind not in _EMPTY:
            others[get_text(item.get("type")) if isinstance(item, dict) else kind] += 1
        for utterance in told:
            chat.add(utterance, "stream")
    for kind, n in others.items():
        chat.problems.append(f"{n} lines of type {kind or 'unknown'} left out: no messages")
    return chat.trace(name, trace_id, path)


def _read(item: dict[str, Any]) -> Iterator[Utterance]:
    kind = get_text(item.get("type")) or ""
    text = get_text(item.get("text")) or ""
    if kind == "agent_message":
        yield Utterance(_AGENT, "agent", [text])
    elif kind == "reasoning":
        yield Utterance(_AGENT, "agent", reasoning=[text])
    elif kind == "error":
        yield Utterance("system", "system", [get_text(item.get("message")) or ""])
    elif kind in _CALLS:
        tool = get_text(item.get("tool")) or kind
        call = {"name": tool, "arguments": item.get(_CALLS[kind])}
        yield Utterance(_AGENT, "agent", list_call_texts(call))
        error = item.get("error")
        returned = (item.get("aggregated_output"), item.get("result"), error)
        texts = [text for value in returned for text in read_parts(value or None).texts]
        texts += [get_text(error.get("message")) or ""] if isinstance(error, dict) else []
        if any(texts):
            yield Utterance(tool, "tool", texts)
