"""Spans as observability tools export them: LangSmith, Langfuse, Phoenix, Weave, openai-agents.

Tested with langsmith 0.4 (runs), Langfuse's API (traces with ``observations``; observations),
Arize Phoenix (spans as JSON and as rows with dotted columns), Weave (calls), openai-agents
(`Span.export`). They differ in the names of keys only.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.traces.conversation import Conversation
from annotator.traces.formats.span_fields import read_span
from annotator.traces.formats.spans import Role, SpanRecord, add_record, converse, find_texts
from annotator.traces.records import LABELS_NOTE, get_text, parse_time, walk_path

# The keys that tell a span of each tool.
_MARKS = (
    ("run_type", "trace_id", "inputs"),  # LangSmith
    ("traceId", "type", "startTime"),  # Langfuse
    ("context", "attributes", "start_time"),  # Phoenix, and OpenTelemetry's console exporter
    ("context.trace_id", "context.span_id", "span_kind"),  # rows of Phoenix
    ("op_name", "trace_id", "inputs"),  # Weave
    ("span_data", "trace_id"),  # openai-agents
)
_TRACES = ("context.trace_id", "trace_id", "traceId")
_PREFIX = "attributes."  # of the columns in rows of Phoenix
_LABELS = "scores"  # of Langfuse
_OF_RECORDS = (*("id", "object", "input", "output", "traceId"), _LABELS)


def matches(document: Any) -> bool:
    items = document.get("data")  # of openai-agents and Phoenix
    if isinstance(items, list):
        first = [item for item in items[:3] if isinstance(item, dict)]
        return len(first) == len(items[:3]) and any(map(_is_span_or_trace, first))
    if isinstance(items := document.get("observations"), list):
        return any(isinstance(item, dict) and "startTime" in item for item in items)
    return _is_span_or_trace(document)


def split(document: Any) -> Iterator[Any]:
    items = document.get("observations")
    if isinstance(children := document.get("child_runs"), list):  # LangSmith's, in one another
        yield {key: value for key, value in document.items() if key != "child_runs"}
        for child in children:
            yield from split(child) if isinstance(child, dict) else ()
        return
    if isinstance(data := document.get("data"), list):
        yield from (item for item in data if isinstance(item, dict))
        return
    if not isinstance(items, list):
        yield document
        return
    yield {key: value for key, value in document.items() if key != "observations"}
    for item in items:
        if isinstance(item, dict):
            yield {"traceId": document.get("id"), **item}


def group(span: Any) -> str | None:
    paths = _TRACES if _is_span(span) else ("id",)
    return next((text for path in paths if (text := get_text(walk_path(span, path)))), "")


def read(spans: Any) -> Conversation:
    items = spans if isinstance(spans, list) else [spans]
    spans = [_read(item) for item in items if _is_span(item)]
    if not spans:
        raise UnreadableTrace("no span in it")
    records = [item for item in items if isinstance(item, dict) and not _is_span(item)]
    has_speaker = any(span.role in ("agent", "model") for span in spans)
    spans += [_read_record(record, "other" if has_speaker else "agent") for record in records]
    chat = converse(spans)
    chat.set_attributes(tool_trace_id=next(filter(None, map(group, items)), None))
    for record in records:
        add_record(chat, record, _OF_RECORDS)
        chat.problems += [f"{_LABELS}: {LABELS_NOTE}"] if record.get(_LABELS) else []
    return chat


def _is_span(item: Any) -> bool:
    return isinstance(item, dict) and any(item.keys() >= set(marks) for marks in _MARKS)


def _is_span_or_trace(item: Mapping[str, Any]) -> bool:
    return _is_span(item) or item.get("object") == "trace"


def _read(item: Mapping[str, Any]) -> SpanRecord:
    fields = item.get("attributes")
    if not isinstance(fields, dict):
        names = [key for key in item if key.startswith(_PREFIX)]
        fields = {name.removeprefix(_PREFIX): item[name] for name in names}
    if "span_kind" in item:
        fields = {**fields, "openinference.span.kind": item["span_kind"]}
    return read_span(item, fields, by_title=True)


def _read_record(record: Mapping[str, Any], role: Role) -> SpanRecord:
    """Return a span of what a whole trace got and returned, which its spans mostly repeat."""
    inputs, outputs = find_texts(record.get("input")), find_texts(record.get("output"))
    begin = parse_time(record.get("timestamp"))
    return SpanRecord(
        "the trace", None, role, "the trace", begin=begin, inputs=inputs, outputs=outputs
    )
