"""Message histories of pydantic-ai: requests and responses, each of parts.

Tested with pydantic-ai 2.68 (`ModelMessagesTypeAdapter.dump_python`).
"""

import json
from typing import Any

from annotator.traces.conversation import (
    HARMLESS,
    Conversation,
    Utterance,
    list_call_texts,
    read_parts,
)
from annotator.traces.model import Author
from annotator.traces.records import get_dict, get_list, get_text, parse_time

documents = list

_AUTHORS: dict[str, Author] = {
    **dict.fromkeys(("system-prompt", "retry-feedback", "instruction"), "system"),
    **dict.fromkeys(("tool-return", "builtin-tool-return", "retry-prompt"), "tool"),
    **dict.fromkeys(("text", "tool-call", "builtin-tool-call", "thinking"), "agent"),
    "user-prompt": "human",
}
_READ = {
    *HARMLESS,
    *("part_kind", "timestamp", "tool_name", "content", "args", "outcome", "scope", "retry"),
}


def matches(document: Any) -> bool:
    first = get_dict(next(iter(document), None))
    return first.get("kind") in ("request", "response") and isinstance(first.get("parts"), list)


def read(document: Any) -> Conversation:
    chat = Conversation()
    instructions = None
    for n, fields in enumerate(chat.list_objects(document, "message"), 1):
        chat.set_attributes(model=fields.get("model_name"))
        if (text := get_text(fields.get("instructions"))) and text != instructions:
            chat.say("messages", "system", "system", text)
            instructions = text
        blocks = get_list(fields, "parts")
        for block in chat.list_objects(blocks, f"message {n}: part", "parts", _READ):
            chat.add(_read(block, fields.get("timestamp")), "messages")
    return chat


def _read(block: dict[str, Any], message_time: Any) -> Utterance:
    kind = get_text(block.get("part_kind")) or ""
    author = _AUTHORS.get(kind, "unknown")
    time = parse_time(block.get("timestamp", message_time))
    sender = {"agent": "assistant", "human": "user"}.get(author, author)
    if author == "tool":
        sender = get_text(block.get("tool_name")) or "tool"
    content = block.get("content")
    if kind == "thinking":
        return Utterance(sender, author, time=time, reasoning=[get_text(content) or ""])
    if kind.endswith("tool-call"):
        call = {"name": block.get("tool_name"), "arguments": block.get("args")}
        return Utterance(sender, author, list_call_texts(call), time=time)
    if author == "tool" and isinstance(content, dict | list):  # a function's result
        content = json.dumps(content, ensure_ascii=False)
    parts = read_parts(content)
    return Utterance(sender, author, parts.texts, time=time, omitted=parts.omitted)
