"""Message histories of pydantic-ai: requests and responses, each of parts.

Looked at: pydantic-ai 2.68 (`ModelMessagesTypeAdapter.dump_python`).
"""

import json
from typing import Any

from annotator.traces.conversation import Conversation, Utterance, list_call_texts, read_parts
from annotator.traces.model import Author, Trace
from annotator.traces.records import expect_object, get_text, parse_time

name = "pydantic-ai"

_AUTHORS: dict[str, Author] = {
    "system-prompt": "system",
    "user-prompt": "human",
    "tool-return": "tool",
    "builtin-tool-return": "tool",
    "retry-prompt": "tool",
    "retry-feedback": "system",
    "instruction": "system",
    "text": "agent",
    "tool-call": "agent",
    "builtin-tool-call": "agent",
    "thinking": "agent",
}


def matches(document: Any) -> bool:
    """Whether a document is a list of requests and responses."""
    first = document[0] if isinstance(document, list) and document else None
    return (
        isinstance(first, dict)
        and first.get("kind") in ("request", "response")
        and isinstance(first.get("parts"), list)
    )


def read(document: Any, trace_id: str, path: str) -> Trace:
    """Return the trace; raises UnreadableTrace for what is no message."""
    chat = Conversation()
    model = instructions = None
    for n, item in enumerate(document, 1):
        fields = expect_object(item, f"message {n}")
        model = get_text(fields.get("model_name")) or model
        parts = fields.get("parts")
        if (text := get_text(fields.get("instructions"))) and text != instructions:
            chat.add(Utterance("system", "system", [text]), "messages")
            instructions = text
        for part in parts if isinstance(parts, list) else []:
            chat.add(
                _read(expect_object(part, f"message {n}: part"), fields.get("timestamp")),
                "messages",
            )
    return chat.trace(name, trace_id, path, attributes={"model": model} if model else {})


def _read(part: dict[str, Any], time: Any) -> Utterance:
    kind = get_text(part.get("part_kind")) or ""
    author = _AUTHORS.get(kind, "unknown")
    at = parse_time(part.get("timestamp", time))
    sender = {"agent": "assistant", "human": "user"}.get(author, author)
    if author == "tool":
        sender = get_text(part.get("tool_name")) or "tool"
    if kind == "thinking":
        return Utterance(sender, author, time=at, reasoning=[get_text(part.get("content")) or ""])
    if kind.endswith("tool-call"):
        call = {"name": part.get("tool_name"), "arguments": part.get("args")}
        return Utterance(sender, author, list_call_texts(call), time=at)
    content = part.get("content")
    if author == "tool" and isinstance(content, dict | list):  # what a function returned
        content = json.dumps(content, ensure_ascii=False)
    parts = read_parts(content)
    return Utterance(sender, author, parts.texts, time=at, omitted=parts.omitted)
