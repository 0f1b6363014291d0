"""Traces of MLflow: ``info`` and ``data.spans``, its ``traces.json``, rows of `search_traces`.

Tested with the layouts of MLflow 2.14 to 3.9: spans with a ``context`` (2.x) or with
``span_id`` and ``start_time_unix_nano`` (3.x), attributes as texts of JSON (``mlflow.spanType``,
``mlflow.spanInputs``, ``mlflow.chat.messages``). A trace without calls of models or agents is its
request and its response.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.traces.conversation import Conversation
from annotator.traces.formats.span_fields import read_span
from annotator.traces.formats.spans import SpanRecord, add_record, converse, find_texts
from annotator.traces.records import (
    LABELS_NOTE,
    find_record_id,
    get_dict,
    get_first_text,
    get_list,
    parse_cell,
)

_ROW_MARKS = (
    *("trace_metadata", "request_metadata", "execution_time_ms", "execution_duration"),
    *("trace_location", "client_request_id"),
)
_CHAT = "mlflow.chat.messages"
_PARTS = ("info", "data", "trace", "spans", "request", "response", "trace_id", "request_id")
_LABELS = "assessments"
_PREVIEWS = ("request_preview", "response_preview")  # of the request and the response


def matches(document: Any) -> bool:
    trace = _unwrap(document)
    spans = _list_spans(trace)
    if any("mlflow" in key for span in spans[:3] for key in _get_attributes(span)):
        return True
    info, data = get_dict(trace, "info"), get_dict(trace, "data")
    if not spans and {"request", "response"} & data.keys():
        return bool({"trace_id", "request_id"} & info.keys())
    is_row = bool({"trace_id", "request_id"} & trace.keys()) and "request" in trace
    return is_row and any(key in trace for key in _ROW_MARKS)


def identify(document: Any) -> str | None:
    trace = _unwrap(document)
    fields = {**trace, **get_dict(trace, "info")}
    ids = get_first_text(fields, "trace_id", "request_id") or find_record_id(fields)
    spans = [] if ids else _list_spans(trace)[:1]
    return ids or next((_get_attributes(span).get("mlflow.traceRequestId") for span in spans), None)


def read(document: Any) -> Conversation:
    trace = _unwrap(document)
    data = {**trace, **get_dict(trace, "data")}
    items = [span for span in _list_spans(trace) if isinstance(span, dict)]
    spans = [_read(span) for span in items]
    if not any(span.role in ("model", "agent") and (span.inputs or span.outputs) for span in spans):
        spans.append(_read_request(data, items, spans))
    chat = converse(spans)
    chat.set_attributes(tool_trace_id=identify(document))
    info = {**get_dict(trace, "info")} or {**trace}
    labels = info.pop(_LABELS, None) or trace.get(_LABELS)
    outer = {key: value for key, value in document.items() if trace is not document}
    fields = {key: parse_cell(value) for key, value in {**outer, **info}.items()}
    add_record(chat, fields, (*_PARTS, *_PREVIEWS))
    chat.problems += [f"{_LABELS}: {LABELS_NOTE}"] if labels else []
    return chat


def _unwrap(document: Any) -> dict[str, Any]:
    """Return the trace in a document: its own, or that of a row's cell; nested texts parsed."""
    document = get_dict(document)
    inner = parse_cell(document.get("trace"))
    trace = inner if isinstance(inner, dict) and "data" in inner else document
    return {**trace, **{key: parse_cell(trace[key]) for key in ("info", "data") if key in trace}}


def _list_spans(trace: Mapping[str, Any]) -> list[Any]:
    spans = get_list(trace.get("data"), "spans") or get_list(parse_cell(trace.get("spans")))
    return [parse_cell(span) for span in spans]


def _get_attributes(span: Any) -> dict[str, Any]:
    """Return a span's attributes, out of the JSON that each is a text of."""
    fields = get_dict(parse_cell(get_dict(span).get("attributes")))
    return {key: _decode(value) for key, value in fields.items() if value is not None}


def _decode(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value


def _read(item: Mapping[str, Any]) -> SpanRecord:
    fields = _get_attributes(item)
    span = read_span(item, {key: value for key, value in fields.items() if key != _CHAT})
    messages = [message for message in get_list(fields.get(_CHAT)) if isinstance(message, dict)]
    if messages and span.role == "model":  # the answer is the last of them
        has_answer = messages[-1].get("role") == "assistant"
        span = replace(span, inputs=messages[:-1] if has_answer else messages)
        span = replace(span, outputs=messages[-1:]) if has_answer else span
    model = get_first_text(fields, "mlflow.llm.model", "model")
    return replace(span, model=span.model or model)


def _read_request(
    data: Mapping[str, Any], items: list[dict[str, Any]], spans: list[SpanRecord]
) -> SpanRecord:
    """Return a span of an agent from the request and the response of the whole trace.

    They are the inputs and outputs of its outermost span, where the trace does not repeat them.
    """
    ids = {span.id for span in spans}
    roots = (pair for pair in zip(items, spans, strict=True) if pair[1].parent not in ids)
    item, root = next(roots, ({}, SpanRecord("")))
    fields = _get_attributes(item)
    request = data.get("request", fields.get("mlflow.spanInputs"))
    response = data.get("response", fields.get("mlflow.spanOutputs"))
    if request is None and response is None:
        raise UnreadableTrace("no call of a model or an agent in it, and no request")
    return replace(
        root,
        id="request",
        role="agent",
        agent=None,
        inputs=find_texts(_decode(parse_cell(request))),
        outputs=find_texts(_decode(parse_cell(response))),
    )
