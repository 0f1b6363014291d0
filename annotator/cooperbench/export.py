"""CooperBench's published conversation export: one JSON object with messages and a count."""

from typing import Any

from annotator.traces.conversation import Conversation, read_chat


def matches(document: Any) -> bool:
    """Whether a JSON document is such an export."""
    is_export = "total_messages" in document or "export_timestamp" in document
    return is_export and isinstance(document.get("messages"), list)


def read(document: Any) -> Conversation:
    """Return the trace; raises UnreadableTrace for a message that is no object."""
    chat = read_chat(document["messages"], "messages")
    total = document.get("total_messages")
    if isinstance(total, int) and total != len(chat.messages):
        chat.problems.append(f"total_messages says {total}, {len(chat.messages)} found")
    return chat
