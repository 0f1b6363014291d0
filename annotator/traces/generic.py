"""Any JSON record that holds a list of messages."""

import math
from typing import Any

from annotator.text import storable
from annotator.traces.conversation import is_message, read_messages
from annotator.traces.document import flag, text_of
from annotator.traces.model import Outcome, Trace

name = "generic"


def matches(document: Any) -> bool:
    """Whether a JSON document is a list of messages, or an object with one."""
    if isinstance(document, dict):
        return isinstance(document.get("messages"), list)
    return isinstance(document, list) and bool(document) and is_message(document[0])


def record_id(document: Any) -> str | None:
    """Return the record's own id, if it has one."""
    return text_of(document.get("id")) if isinstance(document, dict) else None


def read(document: Any, trace_id: str, path: str) -> Trace:
    """Return the trace. ``attributes`` may hold ``passed`` (a boolean) and anything to group by.

    Raises:
        UnreadableTrace: a message is not an object.
    """
    record = document if isinstance(document, dict) else {"messages": document}
    messages, problems = read_messages(record["messages"], "messages")
    fields = record.get("attributes")
    attributes: dict[str, Any] = {}
    for key, value in fields.items() if isinstance(fields, dict) else ():
        if isinstance(value, float) and not math.isfinite(value):
            problems += (f"attributes: {storable(key)} is {value}, left out",)
        elif value is None or isinstance(value, bool | int | float | str):
            attributes[storable(key)] = storable(value) if isinstance(value, str) else value
        else:
            problems += (f"attributes: {storable(key)} is not a scalar, left out",)
    if not isinstance(attributes.get("passed"), bool | None):
        problems += (f"attributes: passed is {attributes.pop('passed')!r}, not true or false",)
    passed, merge = flag(attributes.get("passed")), text_of(attributes.get("merge"))
    outcome = Outcome(passed=passed, merge=merge)
    return Trace(trace_id, name, path, messages, {}, outcome, attributes, problems)
