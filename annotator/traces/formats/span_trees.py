"""Traces of spans under keys of their own: spans in one another, or a list as ``spans``.

Tested with the layouts of TRAIL (arXiv 2505.08638: ``child_spans``, ``span_attributes``; its data
set has ``trace`` and ``labels`` as texts of JSON) and of smoltrace (rows with ``spans``). The
attributes are those of OpenInference or OpenTelemetry.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.base.text import format_count
from annotator.traces.cells import parse_cell
from annotator.traces.formats.opentelemetry import read_fields, read_span_attributes
from annotator.traces.formats.spans import SpanRecord, converse
from annotator.traces.model import Trace
from annotator.traces.records import (
    find_record_id,
    get_dict,
    get_first_text,
    get_list,
    get_text,
    parse_time,
    read_attributes,
)

name = "span-tree"
takes_records_apart = True

_IDS = ("span_id", "spanId", "id")
_PARENTS = ("parent_span_id", "parentSpanId", "parent_id", "parent_span")
_CHILDREN = ("child_spans", "childSpans", "children", "spans")
_ATTRIBUTES = ("span_attributes", "attributes")
_NAMES = ("span_name", "name")
_BEGINS = ("start_time_unix_nano", "startTimeUnixNano", "start_time", "startTime", "timestamp")
_ENDS = ("end_time_unix_nano", "endTimeUnixNano", "end_time", "endTime")
_CONTAINERS = ("trace", "spans")
_DURATION = re.compile(r"PT(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?")


def matches(document: Any) -> bool:
    """Whether a document is such a trace, a row with one, or such a span."""
    if not isinstance(document, dict):
        return False
    return any(map(_is_span, _list_roots(document)[:3])) or _is_span(document)


def group(document: Any) -> str | None:
    """Return the trace of a single span; None for a trace with its spans."""
    is_trace = not isinstance(document, dict) or bool(_list_roots(document))
    return None if is_trace else get_text(document.get("trace_id")) or ""


def identify(document: Any) -> str | None:
    """Return the id of the trace, which may lie in the row's text."""
    inner = parse_cell(get_dict(document).get("trace"))
    return find_record_id(inner) or find_record_id(document)


def read(document: Any, trace_id: str, path: str) -> Trace:
    """Return the trace of its spans; raises UnreadableTrace without a message."""
    records = document if isinstance(document, list) else [document]
    items = [span for record in records for span in _walk(record, None)]
    if not items:
        raise UnreadableTrace("no span in it")
    trace = converse((_read(*item) for item in items), name, trace_id, path)
    logs = sum(len(get_list(span, "logs")) for span, _ in items)
    problems = [f"{format_count(logs, 'log')} of spans left out"] if logs else []
    consumed = {*_CONTAINERS, "trace_id", *_CHILDREN} if not isinstance(document, list) else ()
    record = {} if isinstance(document, list) or _is_span(document) else document
    attributes, more = read_attributes(record, consumed)
    return replace(
        trace,
        attributes={**attributes, **trace.attributes},
        problems=(*trace.problems, *problems, *more),
    )


def _list_roots(document: Mapping[str, Any]) -> list[Any]:
    """Return the spans of a trace that is in a document or in a row's text."""
    for key in _CONTAINERS:
        value = parse_cell(document.get(key))
        if isinstance(value, dict):
            value = parse_cell(value.get("spans"))
        if isinstance(value, list):
            return value
    return []


def _is_span(item: Any) -> bool:
    if not isinstance(item, dict) or not any(key in item for key in _IDS):
        return False
    if "span_attributes" in item or isinstance(item.get("child_spans"), list):
        return True
    has_time = any(key in item for key in (*_BEGINS, "duration", "parent_span_id", "parent_id"))
    return has_time and isinstance(item.get("attributes"), dict | list)


def _walk(item: Any, parent: str | None) -> Iterator[tuple[dict[str, Any], str | None]]:
    """Yield the spans below a document or a span, each with its parent."""
    if not isinstance(item, dict):
        return
    if not _is_span(item):
        for span in _list_roots(item):
            yield from _walk(span, parent)
        return
    yield item, get_first_text(item, *_PARENTS) or parent
    for key in _CHILDREN:
        for child in get_list(item, key):
            yield from _walk(child, get_first_text(item, *_IDS))


def _read(item: Mapping[str, Any], parent: str | None) -> SpanRecord:
    value: Any = next((item[key] for key in _ATTRIBUTES if key in item), {})
    fields = read_span_attributes({"attributes": value})
    fields = {key: value for key, value in fields.items() if value is not None}
    span = read_fields(fields)
    title = get_first_text(item, *_NAMES) or ""
    if span["role"] == "agent" and not span["agent"]:
        span["agent"] = title.removesuffix(".run").removeprefix("invoke_agent ") or None
    begin = _find_time(item, _BEGINS)
    end = _find_time(item, _ENDS)
    if end is None and begin is not None:
        end = begin + _parse_duration(item.get("duration"))
    status = item.get("status")
    code = get_text(item.get("status_code", get_dict(status).get("code", status))) or ""
    reason = get_text(item.get("status_message")) or get_text(get_dict(status).get("message"))
    return SpanRecord(
        id=get_first_text(item, *_IDS) or "",
        parent=parent,
        begin=begin,
        end=end,
        error=reason if code.lower().endswith("error") or code == "2" else None,
        **{**span, "name": span["name"] or title},
    )


def _find_time(item: Mapping[str, Any], keys: tuple[str, ...]) -> float | None:
    for key in keys:
        value = item.get(key)
        value = int(value) if isinstance(value, str) and value.isdecimal() else value
        if (time := parse_time(value)) is not None:
            return time
    return None


def _parse_duration(value: Any) -> float:
    """Return the seconds of an ISO 8601 duration; 0 for anything else, whose unit is not known."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    hours, minutes, seconds = (match.groups() if match else None) or (None, None, None)
    try:
        return int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(seconds or 0)
    except ValueError:
        return 0.0
