"""What model APIs answer and are asked: chat completions, responses, messages, and their batches.

Looked at: openai 2.x and anthropic 0.7x (`model_dump` of their types, outputs of batches). A log
holds a request with its ``messages`` or ``input``, a response, or both; an output of a batch only
the answer.
"""

from typing import Any

from annotator.errors import UnreadableTrace
from annotator.traces.conversation import read_chat
from annotator.traces.document import text_of
from annotator.traces.model import Outcome, Trace
from annotator.traces.records import read_attributes, record_id

name = "api-log"

_OBJECTS = {"chat.completion", "response", "realtime.response"}
_CONTENTS = ("instructions", "system", "messages", "input", "output", "choices", "content")
_WRAPPERS = ("request", "response", "body", "result", "kwargs")


def matches(document: Any) -> bool:
    """Whether a document is an answer of an API, a request with its answer, or a batch's line."""
    if not isinstance(document, dict):
        return False
    if text_of(document.get("object")) in _OBJECTS or _is_message(document):
        return True
    if "custom_id" in document:
        return bool({"response", "result"} & document.keys())
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
    return text_of(document.get("custom_id")) or record_id(document)


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
    model = text_of(fields.get("model"))
    taken = {"id", "custom_id", "object", "error", *_WRAPPERS, *_CONTENTS, *fields}
    given = {key: value for key, value in document.items() if value is not None}
    attributes, problems = read_attributes(given, taken)
    chat.problems += problems
    told = {"model": model} if model else {}
    failed = text_of(error.get("message")) if isinstance(error, dict) else text_of(error)
    outcome = Outcome(error=failed)
    return chat.trace(name, trace_id, path, outcome=outcome, attributes={**attributes, **told})


def _collect(document: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return what was said in a record and all that it wraps, asked before answered, and fields."""
    items = list(_messages(document))
    fields = {key: document[key] for key in ("model", "error") if document.get(key)}
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
    for key in ("instructions", "system"):
        if isinstance(prompt := fields.get(key), str) and prompt:
            items.append({"role": "system", "content": prompt})
    for key in ("messages", "input", "output"):
        value = fields.get(key)
        if isinstance(value, str) and key == "input":
            items.append({"role": "user", "content": value})
        elif isinstance(value, list):
            items += [item for item in value if isinstance(item, dict)]
    choices = fields.get("choices")
    for choice in choices if isinstance(choices, list) else []:
        if isinstance(choice, dict) and isinstance(message := choice.get("message"), dict):
            items.append(message)
    if _is_message(fields):
        items.append({"role": fields.get("role"), "content": fields["content"]})
    return items


def _is_message(fields: dict[str, Any]) -> bool:
    """Whether it is an answer of the Messages API."""
    return fields.get("type") == "message" and "stop_reason" in fields and "content" in fields
