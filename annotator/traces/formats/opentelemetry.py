"""Spans of OpenTelemetry in OTLP's JSON, one document or lines, those of a trace by ``traceId``.

Tested with OTLP/JSON 1.x (ids in hex, attributes as lists of ``key`` and ``value``; also in snake
case), the semantic conventions for GenAI up to 1.37 (``gen_ai.input.messages`` and its kin, as
attributes or in events, and the older events for each message), OpenInference
(``llm.input_messages.0.message.content``, ``openinference.span.kind``) and OpenLLMetry
(``gen_ai.prompt.0.content``).
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from annotator.traces.cells import parse_cell
from annotator.traces.formats.spans import (
    Role,
    SpanRecord,
    converse,
    find_inputs,
    find_texts,
    read_tool_text,
)
from annotator.traces.model import Trace
from annotator.traces.records import get_list, get_text, parse_nested, walk_path

name = "opentelemetry"

_ROLES: Mapping[str, Role] = {
    **dict.fromkeys(("agent", "invoke_agent", "create_agent", "workflow"), "agent"),
    **dict.fromkeys(("llm", "chat", "text_completion", "generate_content"), "model"),
    **dict.fromkeys(("completion", "generation", "chat_model"), "model"),
    **dict.fromkeys(("tool", "execute_tool"), "tool"),
}
_OPERATIONS = (
    *("gen_ai.operation.name", "openinference.span.kind", "traceloop.span.kind"),
    *("llm.request.type", "langfuse.observation.type", "mlflow.spanType"),
)
_MODELS = (
    *("gen_ai.response.model", "gen_ai.request.model", "llm.model_name"),
    "langfuse.observation.model.name",
)
_DOTTED = ("message.", "message_content.", "tool_call.")
_INPUTS = (
    *("input.value", "traceloop.entity.input", "langfuse.observation.input"),
    "mlflow.spanInputs",
)
_ARGUMENTS = ("gen_ai.tool.call.arguments",)
_OUTPUTS = (
    *("gen_ai.tool.call.result", "output.value", "traceloop.entity.output"),
    *("langfuse.observation.output", "mlflow.spanOutputs"),
)


def matches(document: Any) -> bool:
    if not isinstance(document, dict):
        return False
    if any(map(_is_span, _list_objects(document, "data")[:1])):  # of Phoenix
        return True
    return bool({"resourceSpans", "resource_spans"} & document.keys()) or _is_span(document)


def split(document: Any) -> Iterator[Any]:
    if _is_span(document):
        yield document
        return
    yield from _list_objects(document, "data")
    for resource in _list_objects(document, "resourceSpans", "resource_spans"):
        scope_keys = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")
        for scope in _list_objects(resource, *scope_keys):
            yield from _list_objects(scope, "spans")


def group(span: Any) -> str | None:
    return get_text(_get(span, "traceId", "trace_id")) or ""


def read(spans: Any, trace_id: str, path: str) -> Trace:
    items = spans if isinstance(spans, list) else [spans]
    read_spans = [_read(item) for item in items if isinstance(item, dict)]
    return converse(read_spans, name, trace_id, path)


def read_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of a :class:`SpanRecord` from flat or nested attributes of a span."""
    tree = _nest(fields)
    kind = next((str(fields[key]).lower() for key in _OPERATIONS if fields.get(key)), "").strip('"')
    role: Role = _ROLES.get(kind, "other")
    inputs = _find_messages(tree, ("gen_ai.system_instructions", "gen_ai.input.messages"))
    inputs = inputs or _find_messages(tree, ("llm.input_messages", "gen_ai.prompt"))
    outputs = _find_messages(tree, ("gen_ai.output.messages",))
    outputs = outputs or _find_messages(tree, ("llm.output_messages", "gen_ai.completion"))
    role = "model" if role == "other" and outputs else role
    if role == "tool":
        outputs = [read_tool_text(_get_first(tree, *_OUTPUTS))]
        inputs = find_inputs(_get_first(tree, *_ARGUMENTS, *_INPUTS), role)
    elif not (inputs or outputs):
        inputs = find_inputs(_get_first(tree, *_INPUTS), role)
        outputs = find_texts(_get_first(tree, *_OUTPUTS[1:]))
    agent = get_text(_get_first(tree, "gen_ai.agent.name", "agent.name", "graph.node.id"))
    agent = agent or get_text(walk_path(tree, "metadata.langgraph_node"))
    return {
        "role": role,
        "agent": agent,
        "name": get_text(_get_first(tree, "gen_ai.tool.name", "tool.name")),
        "model": get_text(_get_first(tree, *_MODELS)),
        "inputs": inputs,
        "outputs": [item for item in outputs if item not in (None, "")],
    }


def _read(item: Mapping[str, Any]) -> SpanRecord:
    fields = read_span_attributes(item)
    messages: dict[str, list[Any]] = {"inputs": [], "outputs": []}
    for event in _list_objects(item, "events"):
        inner = read_span_attributes(event) if isinstance(event, dict) else {}
        title = get_text(_get(event, "name")) or ""
        if title.startswith("gen_ai.client."):
            fields |= inner
        elif title.startswith(("gen_ai.", "gen_ai.choice")) and title.endswith(
            (".message", ".choice")
        ):
            side = "outputs" if title == "gen_ai.choice" else "inputs"
            messages[side].append(_read_event(title, inner))
    span = read_fields(fields)
    if messages["inputs"] or messages["outputs"]:
        span |= messages
        span["role"] = "model"
    status = _get(item, "status")
    failed = isinstance(status, dict) and status.get("code") in (2, "STATUS_CODE_ERROR")
    title = get_text(item.get("name")) or ""
    if span["role"] == "agent" and not span["agent"]:
        span["agent"] = title.removeprefix("invoke_agent ") or None
    return SpanRecord(
        id=get_text(_get(item, "spanId", "span_id")) or "",
        parent=get_text(_get(item, "parentSpanId", "parent_span_id")),
        begin=_parse_nanoseconds(_get(item, "startTimeUnixNano", "start_time_unix_nano")),
        end=_parse_nanoseconds(_get(item, "endTimeUnixNano", "end_time_unix_nano")),
        error=get_text(status.get("message")) if failed else None,
        **{**span, "name": span["name"] or title},
    )


def _read_event(title: str, fields: Mapping[str, Any]) -> Any:
    """Return the message of an event of the older conventions."""
    role = title.split(".")[1]
    body = fields.get("message") or fields.get("gen_ai.event.content") or fields
    body = parse_nested(body)
    message = body if isinstance(body, dict) else {"content": body}
    return {"role": "assistant" if role == "choice" else role, **message}


def _find_messages(tree: Mapping[str, Any], keys: tuple[str, ...]) -> list[Any]:
    messages: list[Any] = []
    for key in keys:
        value = parse_cell(_get_first(tree, key))
        if isinstance(value, dict):
            value = _sort_numbered(value)
        for item in value if isinstance(value, list) else [value] if value else []:
            item = _nest_parts(item)
            item = item["message"] if isinstance(item, dict) and "message" in item else item
            if key == "gen_ai.system_instructions":
                text = item.get("content") if isinstance(item, dict) else item
                item = {"role": "system", "content": text}
            messages.append(_flatten(item))
    return messages


def _flatten(message: Any) -> Any:
    """Return a message with its contents and calls as chat APIs write them."""
    if not isinstance(message, dict):
        return message
    calls = message.get("tool_calls")
    if isinstance(calls, dict):
        calls = _sort_numbered(calls)
    if isinstance(calls, list):
        flat = [call.get("tool_call", call) if isinstance(call, dict) else call for call in calls]
        message = {**message, "tool_calls": flat}
    if contents := message.get("contents"):
        parts = _sort_numbered(contents) if isinstance(contents, dict) else get_list(contents)
        inner = [item.get("message_content", item) for item in parts if isinstance(item, dict)]
        message = {**message, "content": inner, "contents": None}
    return message


def _sort_numbered(items: Mapping[str, Any]) -> list[Any]:
    """Return the values of an object whose keys are numbers, 10 after 9."""
    return [items[n] for n in sorted(items, key=lambda n: (len(n), n))]


def _nest(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return flat attributes with dotted names as objects in objects."""
    tree: dict[str, Any] = {}
    for key, value in fields.items():
        *parents, last = key.split(".")
        at = tree
        for parent in parents:
            inner = at.get(parent)
            if not isinstance(inner, dict):
                inner = at[parent] = {}
            at = inner
        if not isinstance(at.get(last), dict) or isinstance(value, dict):
            at[last] = value
    return tree


def _nest_parts(item: Any) -> Any:
    """Return a message of a row of Phoenix, whose keys have dots: ``message.content``."""
    if isinstance(item, list):
        return [_nest_parts(inner) for inner in item]
    if isinstance(item, dict) and any(key.startswith(_DOTTED) for key in item):
        return _nest({key: _nest_parts(value) for key, value in item.items()})
    return item


def _get_first(tree: Mapping[str, Any], *paths: str) -> Any:
    for path in paths:
        at: Any = tree
        for key in path.split("."):
            at = at.get(key) if isinstance(at, dict) else None
        if at not in (None, "", {}, []):
            return at
    return None


def read_span_attributes(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a span's or an event's attributes as an object."""
    value = item.get("attributes")
    if isinstance(value, dict):
        return dict(value)
    pairs = value if isinstance(value, list) else []
    return {
        key: _unwrap_value(pair.get("value"))
        for pair in pairs
        if isinstance(pair, dict) and (key := get_text(pair.get("key")))
    }


def _unwrap_value(value: Any) -> Any:
    """Return the value in an AnyValue."""
    if not isinstance(value, dict):
        return value
    for kind, inner in value.items():
        match kind.lower().replace("_", ""):
            case "stringvalue" | "boolvalue":
                return inner
            case "intvalue" | "doublevalue":
                return json.loads(get_text(inner) or "null")
            case "arrayvalue":
                return [_unwrap_value(item) for item in _list_objects(inner, "values")]
            case "kvlistvalue":
                pairs = _list_objects(inner, "values")
                return {str(pair.get("key")): _unwrap_value(pair.get("value")) for pair in pairs}
    return None


def _is_span(item: Any) -> bool:
    ids = {"traceId", "trace_id"} & item.keys() and {"spanId", "span_id"} & item.keys()
    times = {"startTimeUnixNano", "start_time_unix_nano"} & item.keys()
    return bool(ids and times)


def _get(item: Any, *keys: str) -> Any:
    return (
        next((item[key] for key in keys if key in item), None) if isinstance(item, dict) else None
    )


def _list_objects(item: Any, *keys: str) -> list[Any]:
    value = _get(item, *keys)
    return [inner for inner in value if isinstance(inner, dict)] if isinstance(value, list) else []


def _parse_nanoseconds(value: Any) -> float | None:
    text = get_text(value)
    return int(text) / 1e9 if text and text.isdecimal() and len(text) < 25 else None
