"""What model APIs answer and are asked: chat completions, responses, messages, and their batches.

Looked at: openai 2.54 and anthropic 2.12 (`model_dump` of their types, outputs of batches). A log
holds a request with its ``messages`` or ``input``, a response, or both; an output of a batch only
the answer.
"""

from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.traces.conversation import read_chat
from annotator.traces.model import Outcome, Trace
from annotator.traces.records import find_record_id, get_text, read_attributes

name = "api-log"

_OBJECTS = {"chat.completion", "response", "realtime.response"}
_CHOICES = {"choices": "message", "candidates": "content"}  # the first of each is the answer
_PROMPTS = ("instructions", "system")
_LISTS = ("messages", "contents", "input", "output")
_CONTENTS = (*_PROMPTS, *_LISTS, "content", *_CHOICES)
_WRAPPERS = ("request", "response", "body", "params", "result", "kwargs")


def matches(document: Any) -> bool:
    """Whether a document is an answer of an API, a request with its answer, or a batch's line."""
    if not isinstance(document, dict):
        return False
    if get_text(document.get("object")) in _OBJECTS or _is_message(document):
        return True
    if "custom_id" in document:
        return bool({"response", "result", "body", "params"} & document.keys())
    inner = document.get("response")
    asked = document.get("request", document)
    return (
        isinstance(inner, dict)
        and isinstance(asked, dict)
        and bool(_messages(inner) and _messages(asked))
    )


def identify(document: Any) -> str | None:
    """Return the request's own id in a batch, else the record's."""
    if not isinstance(document, dict):
        return None
    return get_text(document.get("custom_id")) or find_record_id(document)


def read(document: Any, trace_id: str, path: str) -> Trace:
    """Return the trace: what was asked, then what was answered.

    Raises:
        UnreadableTrace: the request failed, or there is no message in it.
    """
    items, fields = _collect(document)
    error = document.get("error") or fields.get("error")
    if not items:
        what = error.get("message", error) if isinstance(error, dict) else error
        raise UnreadableTrace(f"no message in it{f': {what}' if what else ''}")
    chat = read_chat(items, "messages")
    model = get_text(fields.get("model"))
    taken = {"id", "custom_id", "object", "error", *_WRAPPERS, *_CONTENTS, *fields}
    given = {key: value for key, value in document.items() if value is not None}
    attributes, problems = read_attributes(given, taken)
    chat.problems += problems
    if more := fields.get("choices"):
        chat.problems.append(f"{more} other answers to the same request left out")
    told = {"model": model} if model else {}
    failed = get_text(error.get("message")) if isinstance(error, dict) else get_text(error)
    outcome = Outcome(error=failed)
    return chat.trace(name, trace_id, path, outcome=outcome, attributes={**attributes, **told})


def _collect(document: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return what was said in a record and all that it wraps, asked before answered, and fields."""
    items = list(_messages(document))
    fields = {key: document[key] for key in ("model", "error") if document.get(key)}
    others = sum(len(_objects(document.get(key))[1:]) for key in _CHOICES)
    fields |= {"choices": others} if others else {}
    for key in _WRAPPERS:
        inner = document.get(key)
        inner = (
            inner if not isinstance(inner, dict) or key != "result" else inner.get("message", inner)
        )
        if isinstance(inner, dict):
            more, told = _collect(inner)
            items += more
            fields |= told
    return items, fields


def _messages(fields: dict[str, Any]) -> list[Any]:
    items: list[Any] = []
    for prompt in (fields.get(key) for key in _PROMPTS):
        if isinstance(prompt, list) and any(isinstance(item, dict) for item in prompt):
            told = any(isinstance(item, dict) and "role" in item for item in prompt)
            items += _objects(prompt) if told else [{"role": "system", "content": prompt}]
        elif isinstance(prompt, str) and prompt:
            items.append({"role": "system", "content": prompt})
    for key in _LISTS:
        if isinstance(text := fields.get(key), str) and key == "input":
            items.append({"role": "user", "content": text})
        items += _objects(fields.get(key))
    for key, inner in _CHOICES.items():
        for choice in _objects(fields.get(key))[:1]:
            items += _objects([choice.get(inner)])
    if _is_message(fields):
        items.append({"role": fields.get("role"), "content": fields["content"]})
    return items


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _is_message(fields: dict[str, Any]) -> bool:
    """Whether it is an answer of the Messages API."""
    return fields.get("type") == "message" and "stop_reason" in fields and "content" in fields
