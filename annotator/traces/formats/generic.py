"""Any JSON record that holds a list of messages, or messages on lines of their own."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from annotator.traces.conversation import is_message, read_chat
from annotator.traces.model import Trace
from annotator.traces.records import (
    RESULT_KEYS,
    describe_outcome,
    find_record_id,
    get_text,
    read_attributes,
    read_outcome,
    read_pair_and_team,
    read_patches,
)

name = "generic"
takes_records_apart = True  # a record among messages is a trace by itself

_LISTS = (
    *("messages", "conversation", "conversations", "history", "chat_history", "trajectory"),
    *("contents", "turns", "dialogue", "chat"),
)
_PROMPTS = ("system", "system_instruction", "systemInstruction")
_CONVERSATION = ("conversation_id", "session_id", "thread_id", "trace_id", "chat_id", "run_id")


def matches(document: Any) -> bool:
    """Whether a JSON document is a message, a list of messages, or an object with one."""
    if isinstance(document, dict):
        return _list_of(document) is not None or is_message(document)
    return isinstance(document, list) and bool(document) and is_message(document[0])


def group(document: Any) -> str | None:
    """Return the conversation that a message on a line of its own belongs to: "" for that of the
    file; None for a record, which is a trace by itself.
    """
    if isinstance(document, list):
        return None
    if not isinstance(document, dict):
        return ""
    if _list_of(document) is not None:
        return None
    return next((text for key in _CONVERSATION if (text := get_text(document.get(key)))), "")


def read(document: Any, trace_id: str, path: str) -> Trace:
    """Return the trace. Scalars of the record, and those in its ``attributes``, are attributes;
    ``system`` is a first message of the harness.

    Raises:
        UnreadableTrace: a message is not an object.
    """
    record: Mapping[str, Any] = document if isinstance(document, dict) else {"": document}
    key = "" if isinstance(document, list) else _list_of(record) or ""
    items = list(record[key])
    for name_of_prompt in _PROMPTS:
        prompt = record.get(name_of_prompt)
        prompt = prompt.get("parts") if isinstance(prompt, dict) else prompt
        if isinstance(prompt, str | list) and prompt:
            items.insert(0, {"role": "system", "content": prompt})
    chat = read_chat(items, "messages")
    told = {
        name for item in items if isinstance(item, dict) for name in RESULT_KEYS if name in item
    }
    if told:
        chat.problems.append(
            f"an outcome on a message, left out: {', '.join(sorted(told))}; put it into the record"
            " that holds the messages"
        )
    fields = record.get("attributes")
    given = fields if isinstance(fields, dict) else {}
    run, lists = read_pair_and_team({**record, **given})
    inner, problems = read_attributes(given, lists, "attributes: ")
    ids = {name for name in ("id",) if find_record_id(record)}
    patches = read_patches(record.get("patches"))
    taken = {key, *_PROMPTS, "attributes", *ids, *lists, *(["patches"] if patches else [])}
    outer, more = read_attributes(record, taken)
    chat.problems += (*problems, *more)
    if not isinstance(inner.get("passed"), bool | None):
        wrong = inner.pop("passed")
        chat.problems.append(f"attributes: passed is {wrong!r}, not true or false")
    wrong = outer.pop("passed", None)  # what it says stands in the outcome, if it says something
    if wrong is not None and read_outcome({"passed": wrong})[0] is None:
        chat.problems.append(f"passed is {wrong!r}, not true or false")
    attributes = {**outer, **inner}
    outcome, attributes = describe_outcome({**record, **attributes}, attributes)
    outcome = replace(outcome, **run)
    return chat.trace(name, trace_id, path, outcome=outcome, attributes=attributes, patches=patches)


def _list_of(record: Mapping[str, Any]) -> str | None:
    """Return the key under which a record holds its messages."""
    for key in _LISTS:
        value = record.get(key)
        if isinstance(value, list) and (key == "messages" or (value and is_message(value[0]))):
            return key
    return None
