"""LangChain's messages and LangGraph's states.

Looked at: langchain-core 1.x (`messages_to_dict`, `dumpd`, `model_dump`), langgraph 1.x (states,
checkpoints). A message says who it is by its ``type`` or its class: a tool's never is an agent's.
"""

from typing import Any

from annotator.traces.conversation import read_chat
from annotator.traces.model import Trace
from annotator.traces.records import describe_outcome, read_attributes, walk_path

name = "langchain"

_LISTS = ("messages", "values.messages", "channel_values.messages", "output.messages")


def matches(document: Any) -> bool:
    """Whether a document is a message of LangChain's, a list of them, or a state with one."""
    _, items = _find_list(document)
    return bool(items) and _is_message(items[0]) if items is not None else _is_message(document)


def group(document: Any) -> str | None:
    """Return "" for a message on a line of its own: all of a file are one trace."""
    return "" if isinstance(document, dict) and _find_list(document)[1] is None else None


def read(document: Any, trace_id: str, path: str) -> Trace:
    """Return the trace; raises UnreadableTrace for what is no message."""
    key, items = _find_list(document)
    chat = read_chat([unwrap(item) for item in items or []], key or "messages")
    record = document if isinstance(document, dict) else {}
    attributes, problems = read_attributes(record, {key.partition(".")[0], "id"})
    chat.problems += problems
    outcome, attributes = describe_outcome(record, attributes)
    return chat.trace(name, trace_id, path, outcome=outcome, attributes=attributes)


def unwrap(item: Any) -> Any:
    """Return a message in the form in which its fields stand beside its ``type``."""
    if not isinstance(item, dict):
        return item
    if isinstance(data := item.get("data"), dict):
        return {**data, "type": item.get("type")}
    if isinstance(fields := item.get("kwargs"), dict) and isinstance(item.get("id"), list):
        return {"type": str((item["id"] or [""])[-1]), **fields}
    return item


def _find_list(document: Any) -> tuple[str, list[Any] | None]:
    if isinstance(document, list):
        return "", document
    if isinstance(document, dict):
        for key in _LISTS:
            if isinstance(items := walk_path(document, key), list):
                return key, items
    return "", None


def _is_message(item: Any) -> bool:
    """Whether an object has the marks of a message of LangChain's in one of its three forms."""
    fields = unwrap(item)
    if not isinstance(fields, dict) or "type" not in fields or "content" not in fields:
        return False
    return fields is not item or bool({"additional_kwargs", "response_metadata"} & fields.keys())
