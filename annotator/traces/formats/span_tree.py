"""Traces of spans under keys of their own: spans in one another, or a list as ``spans``.

Tested with the layouts of TRAIL (arXiv 2505.08638: ``child_spans``, ``span_attributes``; its data
set has ``trace`` and ``labels`` as texts of JSON), smoltrace (rows with ``spans``), Logfire (rows)
and Braintrust (rows with ``input`` and ``output``). The attributes are those of OpenInference or
OpenTelemetry, else the span says its kind and what went in and out.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.base.text import format_count
from annotator.traces.conversation import Conversation
from annotator.traces.formats.span_fields import (
    BEGINS,
    IDS,
    PARENTS,
    read_span,
    read_span_attributes,
)
from annotator.traces.formats.spans import SpanRecord, add_record, converse
from annotator.traces.records import (
    find_record_id,
    get_dict,
    get_first_text,
    get_list,
    get_text,
    parse_cell,
)

takes_records_apart = True

_TRACES = ("trace_id", "traceId", "root_span_id")
_CHILDREN = ("child_spans", "childSpans", "children", "spans")
_CONTAINERS = ("trace", "spans")


def matches(document: Any) -> bool:
    return any(map(_is_span, _list_roots(document)[:3])) or _is_span(document)


def group(document: Any) -> str | None:
    is_trace = not isinstance(document, dict) or bool(_list_roots(document))
    return None if is_trace else get_first_text(document, *_TRACES) or ""


def identify(document: Any) -> str | None:
    inner = parse_cell(get_dict(document).get("trace"))  # it may lie in the row's text
    return find_record_id(inner) or find_record_id(document)


def read(document: Any) -> Conversation:
    are_rows = isinstance(document, list)
    rows = document if are_rows else [document]
    items = [span for record in rows for span in _walk(record, None)]
    if not items:
        raise UnreadableTrace("no span in it")
    chat = converse(_read(*item) for item in items)
    if logs := sum(len(get_list(span, "logs")) for span, _ in items):
        chat.problems.append(f"{format_count(logs, 'log')} of spans left out")
    if not (are_rows or _is_span(document)):
        add_record(chat, document, (*_CONTAINERS, *_TRACES, *_CHILDREN))
    return chat


def _list_roots(document: Mapping[str, Any]) -> list[Any]:
    """Return the spans of a trace that is in a document or in a row's text."""
    for key in _CONTAINERS:
        value = parse_cell(document.get(key))
        value = parse_cell(value.get("spans")) if isinstance(value, dict) else value
        if isinstance(value, list):
            return value
    return []


def _is_span(item: Any) -> bool:
    if not isinstance(item, dict) or not any(key in item for key in IDS):
        return False
    if "span_attributes" in item or isinstance(item.get("child_spans"), list):
        return True
    has_time = any(key in item for key in (*BEGINS, "duration", "parent_span_id", "parent_id"))
    return has_time and isinstance(parse_cell(item.get("attributes")), dict | list)


def _walk(item: Any, parent: str | None) -> Iterator[tuple[dict[str, Any], str | None]]:
    """Yield the spans below a document or a span, each with its parent."""
    if not isinstance(item, dict):
        return
    if not _is_span(item):
        for span in _list_roots(item):
            yield from _walk(span, parent)
        return
    parents = get_list(item, "span_parents")
    yield item, get_first_text(item, *PARENTS) or get_text(next(iter(parents), parent))
    for key in _CHILDREN:
        for child in get_list(item, key):
            yield from _walk(child, get_first_text(item, *IDS))


def _read(item: Mapping[str, Any], parent: str | None) -> SpanRecord:
    fields = item.get("span_attributes", item.get("attributes"))
    return read_span(item, read_span_attributes({"attributes": parse_cell(fields)}), parent)
