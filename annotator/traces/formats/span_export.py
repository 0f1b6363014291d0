"""Spans as observability tools export them: LangSmith, Langfuse, Phoenix, Weave, openai-agents.

Tested with langsmith 0.4 (runs), Langfuse's API (traces with ``observations``; observations),
Arize Phoenix (spans as JSON and as rows with dotted columns), Weave (calls), openai-agents
(`Span.export`). They differ in the names of keys only.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from annotator.base.errors import UnreadableTrace
from annotator.traces.conversation import Conversation
from annotator.traces.formats.span_fields import ROLES, find_agent_name, read_fields
from annotator.traces.formats.spans import (
    Role,
    SpanRecord,
    add_record,
    converse,
    find_inputs,
    find_texts,
    read_tool_text,
)
from annotator.traces.records import LABELS_NOTE, get_dict, get_text, parse_time, walk_path


class ExportKeys(NamedTuple):
    """Paths in a tool's records; all ``marks`` are keys of a record of this tool."""

    marks: tuple[str, ...]
    trace: str
    id: str
    parent: str
    kind: str
    begin: str
    end: str
    inputs: str
    outputs: str
    model: str
    error: str


_PHOENIX = "start_time end_time attributes.input.value attributes.output.value"
_TABLE = {  # marks -> the other keys, in their order
    # LangSmith
    "run_type trace_id inputs": "trace_id id parent_run_id run_type start_time end_time"
    " inputs outputs extra.metadata.ls_model_name error",
    # Langfuse
    "traceId type startTime": "traceId id parentObservationId type startTime endTime"
    " input output model statusMessage",
    # Phoenix, spans and rows; between them the console exporter of OpenTelemetry's SDK
    "context span_kind attributes": "context.trace_id context.span_id parent_id span_kind"
    f" {_PHOENIX} attributes.llm.model_name status_message",
    "context attributes start_time": "context.trace_id context.span_id parent_id kind"
    f" {_PHOENIX} attributes.llm.model_name status.description",
    "context.trace_id context.span_id span_kind": "context.trace_id context.span_id parent_id"
    f" span_kind {_PHOENIX} attributes.llm.model_name status_message",
    # Weave
    "op_name trace_id inputs": "trace_id id parent_id op_name started_at ended_at"
    " inputs output inputs.model exception",
    # openai-agents
    "span_data trace_id": "trace_id id parent_id span_data.type started_at ended_at"
    " span_data.input span_data.output span_data.model error.message",
}
_EXPORTS = [ExportKeys(tuple(marks.split()), *keys.split()) for marks, keys in _TABLE.items()]
_LABELS = "scores"  # of Langfuse
_OF_RECORDS = (*("id", "object", "input", "output", "traceId"), _LABELS)


def matches(document: Any) -> bool:
    items = document.get("data")  # of openai-agents and Phoenix
    if isinstance(items, list):
        kinds = (_find_keys(item) or (item or {}).get("object") == "trace" for item in items[:3])
        return all(isinstance(item, dict) for item in items[:3]) and any(kinds)
    if isinstance(items := document.get("observations"), list):
        return any(isinstance(item, dict) and "startTime" in item for item in items)
    return _find_keys(document) is not None or document.get("object") == "trace"


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
    keys = _find_keys(span)
    return get_text(walk_path(span, keys.trace if keys else "id")) or ""


def read(spans: Any) -> Conversation:
    items = spans if isinstance(spans, list) else [spans]
    pairs = [(item, keys) for item in items if (keys := _find_keys(item))]
    if not pairs:
        raise UnreadableTrace("no span in it")
    records = [item for item in items if isinstance(item, dict) and not _find_keys(item)]
    spans = [_read(*pair) for pair in pairs]
    has_speaker = any(span.role in ("agent", "model") for span in spans)
    spans += [_read_record(record, "other" if has_speaker else "agent") for record in records]
    chat = converse(spans)
    chat.set_attributes(tool_trace_id=next(filter(None, map(group, items)), None))
    for record in records:
        add_record(chat, record, _OF_RECORDS)
        chat.problems += [f"{_LABELS}: {LABELS_NOTE}"] if record.get(_LABELS) else []
    return chat


def _find_keys(item: Any) -> ExportKeys | None:
    if not isinstance(item, dict):
        return None
    exports = (keys for keys in _EXPORTS if all(mark in item for mark in keys.marks))
    return next(exports, None)


def _read(item: Mapping[str, Any], keys: ExportKeys) -> SpanRecord:
    kind = (get_text(walk_path(item, keys.kind)) or "").lower()
    title = get_text(item.get("name")) or get_text(walk_path(item, "span_data.name")) or ""
    role: Role = "tool" if kind == "retriever" else ROLES.get(kind, "other")
    if keys.kind == "op_name":
        role = _find_weave_role(kind)
        title = title or kind.rpartition("/")[2].partition(":")[0]
    inputs, outputs = walk_path(item, keys.inputs), walk_path(item, keys.outputs)
    outputs = outputs or get_dict(walk_path(item, "span_data.response")).get("output") or outputs
    values: dict[str, Any] = {
        "role": role,
        "agent": title if role == "agent" else find_agent_name(item, title, role),
        "model": get_text(walk_path(item, keys.model)),
        "inputs": find_inputs(inputs, role),
        "outputs": [read_tool_text(outputs)] if role == "tool" else find_texts(outputs),
        "name": title,
    }
    if keys.inputs.startswith("attributes."):
        values |= _read_phoenix(item, values)
    return SpanRecord(
        id=get_text(walk_path(item, keys.id)) or "",
        parent=get_text(walk_path(item, keys.parent)),
        begin=parse_time(walk_path(item, keys.begin)),
        end=parse_time(walk_path(item, keys.end)),
        error=get_text(walk_path(item, keys.error)) or None,
        **values,
    )


def _read_record(record: Mapping[str, Any], role: Role) -> SpanRecord:
    """Return a span of what a whole trace got and returned, which its spans mostly repeat."""
    inputs, outputs = find_texts(record.get("input")), find_texts(record.get("output"))
    begin = parse_time(record.get("timestamp"))
    return SpanRecord(
        "the trace", None, role, "the trace", begin=begin, inputs=inputs, outputs=outputs
    )


def _read_phoenix(item: Mapping[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a span that the attributes of Phoenix set."""
    nested = item.get("attributes")
    fields = {key.removeprefix("attributes."): value for key, value in item.items()}
    fields = dict(nested) if isinstance(nested, dict) else fields
    if "span_kind" in item:
        fields["openinference.span.kind"] = item["span_kind"]
    read = read_fields(fields)
    if "span_kind" not in item:
        values["role"] = read["role"]
    return {key: value for key, value in read.items() if value and key != "role"} | {
        "name": read["name"] or values["name"]
    }


def _find_weave_role(kind: str) -> Role:
    names = ("chat.completions", "messages.create", "responses.create", "completion", "generate")
    if any(word in kind for word in names):
        return "model"
    return "tool" if "tool" in kind else "agent" if "agent" in kind else "other"
