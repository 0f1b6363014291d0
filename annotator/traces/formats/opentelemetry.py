"""Spans of OpenTelemetry in OTLP's JSON, one document or lines, those of a trace by ``traceId``.

Tested with OTLP/JSON 1.x (ids in hex, attributes as lists of ``key`` and ``value``; also in snake
case), the semantic conventions for GenAI up to 1.37 (``gen_ai.input.messages`` and its kin, as
attributes or in events, and the older events for each message), OpenInference
(``llm.input_messages.0.message.content``, ``openinference.span.kind``) and OpenLLMetry
(``gen_ai.prompt.0.content``).
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from annotator.traces.conversation import Conversation
from annotator.traces.formats.span_fields import read_span, read_span_attributes
from annotator.traces.formats.spans import SpanRecord, converse, list_objects
from annotator.traces.records import get_first_text, get_text, parse_nested

_RESOURCES = ("resourceSpans", "resource_spans")
_SCOPES = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")
_TRACES, _SPANS = ("traceId", "trace_id"), ("spanId", "span_id")
_BEGINS = ("startTimeUnixNano", "start_time_unix_nano")


def matches(document: Any) -> bool:
    if _is_span(document) or not document.keys().isdisjoint(_RESOURCES):
        return True
    return any(map(_is_span, list_objects(document, "data")[:1]))  # of Phoenix


def split(document: Any) -> Iterator[Any]:
    if _is_span(document):
        yield document
        return
    yield from list_objects(document, "data")
    for resource in list_objects(document, *_RESOURCES):
        for scope in list_objects(resource, *_SCOPES):
            yield from list_objects(scope, "spans")


def group(span: Any) -> str | None:
    return get_first_text(span, *_TRACES) or ""


def read(spans: Any) -> Conversation:
    chat = converse(map(_read, spans))
    chat.set_attributes(tool_trace_id=next(filter(None, map(group, spans)), None))
    return chat


def _read(item: Mapping[str, Any]) -> SpanRecord:
    fields = read_span_attributes(item)
    inputs: list[Any] = []
    outputs: list[Any] = []
    for event in list_objects(item, "events"):
        inner = read_span_attributes(event)
        title = get_text(event.get("name")) or ""
        if title.startswith("gen_ai.client."):
            fields |= inner
        elif title.startswith("gen_ai.") and title.endswith((".message", ".choice")):
            side = outputs if title == "gen_ai.choice" else inputs
            side.append(_read_event(title, inner))
    span = read_span(item, fields)
    if inputs or outputs:
        span = replace(span, inputs=inputs, outputs=outputs, role="model")
    return span


def _read_event(title: str, fields: Mapping[str, Any]) -> Any:
    """Return the message of an event of the older conventions."""
    role = title.split(".")[1]
    body = parse_nested(fields.get("message") or fields.get("gen_ai.event.content") or fields)
    message = body if isinstance(body, dict) else {"content": body}
    return {"role": "assistant" if role == "choice" else role, **message}


def _is_span(item: Mapping[str, Any]) -> bool:
    misses = item.keys().isdisjoint
    return not (misses(_TRACES) or misses(_SPANS) or misses(_BEGINS))
