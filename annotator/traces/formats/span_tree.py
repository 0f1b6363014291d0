"""Traces of spans under keys of their own: spans in one another, or a list as ``spans``.

Tested with the layouts of TRAIL (arXiv 2505.08638: ``child_spans``, ``span_attributes``; its data
set has ``trace`` and ``labels`` as texts of JSON), smoltrace (rows with ``spans``), Logfire (rows)
and Braintrust (rows with ``input`` and ``output``). The attributes are those of OpenInference or
OpenTelemetry, else the span says its kind and what went in and out.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.base.text import format_count
from annotator.traces.cells import parse_cell
from annotator.traces.formats.agent_names import find_agent_name
from annotator.traces.formats.opentelemetry import read_fields, read_span_attributes
from annotator.traces.formats.spans import (
    Role,
    SpanRecord,
    converse,
    find_inputs,
    find_texts,
    read_tool_text,
)
from annotator.traces.model import Trace
from annotator.traces.records import (
    find_record_id,
    get_dict,
    get_first_text,
    get_list,
    get_text,
    parse_time,
    read_attributes,
    walk_path,
)

name = "span-tree"
takes_records_apart = True

_IDS = ("span_id", "spanId", "id")
_PARENTS = ("parent_span_id", "parentSpanId", "parent_id", "parent_span")
_TRACES = ("trace_id", "traceId", "root_span_id")
_CHILDREN = ("child_spans", "childSpans", "children", "spans")
_ATTRIBUTES = ("span_attributes", "attributes")
_NAMES = ("span_name", "name")
_BEGINS = (
    *("start_time_unix_nano", "startTimeUnixNano", "start_time", "startTime", "timestamp"),
    *("start_timestamp", "started_at", "start", "created"),
)
_ENDS = (
    *("end_time_unix_nano", "endTimeUnixNano", "end_time", "endTime"),
    *("end_timestamp", "ended_at", "end"),
)
_KINDS = ("type", "kind", "span_type", "span_kind")
_ROLES: Mapping[str, Role] = {
    **dict.fromkeys(("llm", "generation", "chat", "model", "chat_model", "completion"), "model"),
    **dict.fromkeys(("tool", "function_call", "tool_call"), "tool"),
    "agent": "agent",
}
_INPUTS, _OUTPUTS = ("input", "inputs"), ("output", "outputs")
_CONTAINERS = ("trace", "spans")
_DURATION = re.compile(r"PT(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?")


def matches(document: Any) -> bool:
    if not isinstance(document, dict):
        return False
    return any(map(_is_span, _list_roots(document)[:3])) or _is_span(document)


def group(document: Any) -> str | None:
    is_trace = not isinstance(document, dict) or bool(_list_roots(document))
    return None if is_trace else get_first_text(document, *_TRACES) or ""


def identify(document: Any) -> str | None:
    inner = parse_cell(get_dict(document).get("trace"))
    return find_record_id(inner) or find_record_id(document)


def read(document: Any, trace_id: str, path: str) -> Trace:
    records = document if isinstance(document, list) else [document]
    items = [span for record in records for span in _walk(record, None)]
    if not items:
        raise UnreadableTrace("no span in it")
    trace = converse((_read(*item) for item in items), name, trace_id, path)
    logs = sum(len(get_list(span, "logs")) for span, _ in items)
    problems = [f"{format_count(logs, 'log')} of spans left out"] if logs else []
    consumed = {*_CONTAINERS, *_TRACES, *_CHILDREN} if not isinstance(document, list) else ()
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
    yield item, get_first_text(item, *_PARENTS) or get_text(next(iter(parents), parent))
    for key in _CHILDREN:
        for child in get_list(item, key):
            yield from _walk(child, get_first_text(item, *_IDS))


def _read(item: Mapping[str, Any], parent: str | None) -> SpanRecord:
    value: Any = next((parse_cell(item[key]) for key in _ATTRIBUTES if key in item), {})
    fields = read_span_attributes({"attributes": value})
    return read_span(item, {key: each for key, each in fields.items() if each is not None}, parent)


def read_span(
    item: Mapping[str, Any], fields: Mapping[str, Any], parent: str | None = None
) -> SpanRecord:
    """Return the record of a span with these attributes."""
    span = read_fields(fields)
    title = get_first_text(item, *_NAMES) or get_first_text(fields, *_NAMES) or ""
    if span["role"] == "other":
        span |= _read_plain(item, fields)
    if span["role"] == "agent" and not span["agent"]:
        span["agent"] = title.removesuffix(".run").removeprefix("invoke_agent ") or None
    times = {**item, **get_dict(item, "metrics")}
    begin, end = _find_time(times, _BEGINS), _find_time(times, _ENDS)
    if end is None and begin is not None:
        end = begin + _parse_duration(item.get("duration"))
    status = item.get("status")
    code = get_text(item.get("status_code", get_dict(status).get("code", status))) or ""
    reason = get_text(item.get("status_message")) or get_text(get_dict(status).get("message"))
    return SpanRecord(
        id=get_first_text(item, *_IDS) or get_text(walk_path(item, "context.span_id")) or "",
        parent=parent or get_first_text(item, *_PARENTS),
        begin=begin,
        end=end,
        error=reason if code.lower().endswith("error") or code == "2" else None,
        **{**span, "name": span["name"] or title},
    )


def _read_plain(item: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the role, the inputs and the outputs of a span that has them beside its attributes."""
    kind = get_first_text(fields, *_KINDS) or get_first_text(item, *_KINDS) or ""
    role = _ROLES.get(kind.lower(), "other")
    inputs = next((item[key] for key in _INPUTS if item.get(key)), None)
    outputs = next((item[key] for key in _OUTPUTS if item.get(key)), None)
    if not (inputs or outputs):
        return {}
    metadata = get_dict(parse_cell(item.get("metadata")))
    texts = [read_tool_text(outputs)] if role == "tool" else find_texts(outputs)
    return {
        "role": role,
        "inputs": find_inputs(inputs, role),
        "outputs": [text for text in texts if text not in (None, "")],
        "model": get_first_text(metadata, "model") or get_text(item.get("model")),
        "agent": find_agent_name(item, "", role),
    }


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
