"""Requests and answers of model APIs: chat completions, responses, messages, and their batches.

Tested with openai 2.54 and anthropic 2.12 (`model_dump` of their types, outputs of batches). A log
holds a request with its ``messages`` or ``input``, a response, or both; an output of a batch only
the answer.
"""

from dataclasses import replace
from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.traces.conversation import Conversation, is_message, read_chat
from annotator.traces.records import find_record_id, get_dict, get_list, get_text, parse_cell

_OBJECTS = {"chat.completion", "response", "realtime.response"}
_CHOICES = {"choices": "message", "candidates": "content"}  # the first of each is the answer
_PROMPTS = ("instructions", "system")
_PAIRS = (("input", "output"), ("prompt", "completion"))
_LISTS = ("messages", "contents", *_PAIRS[0], *_PAIRS[1])
_CONTENTS = (*_PROMPTS, *_LISTS, "content", *_CHOICES)
_WRAPPERS = ("request", "response", "body", "params", "result", "kwargs")


def matches(document: Any) -> bool:
    if get_text(document.get("object")) in _OBJECTS or _is_message(document):
        return True
    if "custom_id" in document:
        return bool({"response", "result", "body", "params"} & document.keys())
    for pair in _PAIRS:
        if all(any(map(is_message, _list_objects(document.get(key)))) for key in pair):
            return True
    request = get_dict(document.get("request", document))
    return bool(_list_messages(get_dict(document, "response")) and _list_messages(request))


def identify(document: Any) -> str | None:
    return get_text(get_dict(document).get("custom_id")) or find_record_id(document)


def read(document: Any) -> Conversation:
    items, fields = _collect(document)
    error = document.get("error") or fields.get("error")
    if not items:
        reason = error.get("message", error) if isinstance(error, dict) else error
        raise UnreadableTrace(f"no message in it{f': {reason}' if reason else ''}")
    chat = read_chat(items, "messages")
    consumed = {"id", "custom_id", "object", "error", *_WRAPPERS, *_CONTENTS, *fields}
    values = {key: value for key, value in document.items() if value is not None}
    chat.read_attributes(values, consumed)
    chat.set_attributes(model=fields.get("model"))
    if more := fields.get("choices"):
        chat.problems.append(f"{more} other answers to the same request left out")
    reason = error.get("message") if isinstance(error, dict) else error
    chat.read_outcome(document)
    chat.outcome = replace(chat.outcome, error=get_text(reason))
    return chat


def _collect(document: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the messages of a record and of those that it wraps, requests first; and fields."""
    items = _list_messages(document)
    fields = {key: document[key] for key in ("model", "error") if document.get(key)}
    others = sum(len(_list_objects(document.get(key))[1:]) for key in _CHOICES)
    fields |= {"choices": others} if others else {}
    for key in _WRAPPERS:
        inner = document.get(key)
        if key == "result" and isinstance(inner, dict):
            inner = inner.get("message", inner)
        if isinstance(inner, dict):
            more_items, more_fields = _collect(inner)
            items += more_items
            fields |= more_fields
    return items, fields


def _list_messages(fields: dict[str, Any]) -> list[Any]:
    items: list[Any] = []
    for prompt in (fields.get(key) for key in _PROMPTS):
        objects = _list_objects(prompt) if isinstance(prompt, list) else []
        if any("role" in item for item in objects):
            items += objects
        elif objects or (isinstance(prompt, str) and prompt):
            items.append({"role": "system", "content": prompt})
    for key in _LISTS:
        if isinstance(text := fields.get(key), str) and key == "input":
            items.append({"role": "user", "content": text})
        items += _list_objects(fields.get(key))
    for key, inner in _CHOICES.items():
        for choice in _list_objects(fields.get(key))[:1]:
            items += _list_objects([choice.get(inner)])
    if _is_message(fields):
        items.append({"role": fields.get("role"), "content": fields["content"]})
    return items


def _list_objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in get_list(parse_cell(value)) if isinstance(item, dict)]


def _is_message(fields: dict[str, Any]) -> bool:
    """Whether it is an answer of the Messages API."""
    return fields.get("type") == "message" and "stop_reason" in fields and "content" in fields
