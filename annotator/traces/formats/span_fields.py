"""A span's fields, under the keys and attributes that the tracers of many vendors write.

The attributes are those of the semantic conventions for GenAI, OpenInference and OpenLLMetry, flat
or nested. Without any, the span says its kind and what went in and out.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from annotator.traces.formats.spans import (
    Role,
    SpanRecord,
    find_inputs,
    find_texts,
    list_objects,
    read_tool_text,
)
from annotator.traces.records import (
    get_dict,
    get_first_text,
    get_list,
    get_text,
    parse_cell,
    parse_time,
    walk_path,
)

IDS = ("span_id", "spanId", "id")
BEGINS = (
    *("start_time_unix_nano", "startTimeUnixNano", "start_time", "startTime", "timestamp"),
    *("start_timestamp", "started_at", "start", "created"),
)
_ENDS = (
    *("end_time_unix_nano", "endTimeUnixNano", "end_time", "endTime"),
    *("end_timestamp", "ended_at", "end"),
)
PARENTS = ("parent_span_id", "parentSpanId", "parent_id", "parent_span")
_NAMES = ("span_name", "name")
_KINDS = ("type", "kind", "span_type", "span_kind")
ROLES: Mapping[str, Role] = {
    **dict.fromkeys(("agent", "invoke_agent", "create_agent", "workflow"), "agent"),
    **dict.fromkeys(("llm", "chat", "text_completion", "generate_content", "model"), "model"),
    **dict.fromkeys(("completion", "generation", "chat_model", "response"), "model"),
    **dict.fromkeys(("tool", "execute_tool", "function", "function_call", "tool_call"), "tool"),
}
_OPERATIONS = (
    *("gen_ai.operation.name", "openinference.span.kind", "traceloop.span.kind"),
    *("llm.request.type", "langfuse.observation.type", "mlflow.spanType"),
)
_MODELS = (
    *("gen_ai.response.model", "gen_ai.request.model", "llm.model_name"),
    "langfuse.observation.model.name",
)
_ARGUMENTS = "gen_ai.tool.call.arguments"
_RESULT = "gen_ai.tool.call.result"
_INPUTS = (
    *("input.value", "traceloop.entity.input", "langfuse.observation.input"),
    "mlflow.spanInputs",
)
_OUTPUTS = (
    *("output.value", "traceloop.entity.output", "langfuse.observation.output"),
    "mlflow.spanOutputs",
)
_DURATION = re.compile(r"PT(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?")
_DOTTED = ("message.", "message_content.", "tool_call.")
_METADATA = ("metadata", "extra.metadata", "extra")
_AGENT_NAMES = (
    *("lc_agent_name", "agent_name", "ls_agent_name", "agent.name", "gen_ai.agent.name"),
    *("agent", "crewai_agent_role", "agent_role"),
)
_INNER_NODES = {"agent", "model", "call_model", "llm", "chatbot", "tools", "model_request"}
_NAMESPACES = ("langgraph_checkpoint_ns", "checkpoint_ns")
_AGENT = re.compile(r"(?i:(?:^|[\s_.:/-])agent(?:[\s_.:/-]|$))|[a-z0-9]Agent(?=[A-Z]|$)")


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
    begin, end = _find_time(times, BEGINS), _find_time(times, _ENDS)
    if end is None and begin is not None:
        end = begin + _parse_duration(item.get("duration"))
    status = item.get("status")
    code = get_text(item.get("status_code", get_dict(status).get("code", status))) or ""
    reason = get_text(item.get("status_message")) or get_text(get_dict(status).get("message"))
    return SpanRecord(
        id=get_first_text(item, *IDS) or get_text(walk_path(item, "context.span_id")) or "",
        parent=parent or get_first_text(item, *PARENTS),
        begin=begin,
        end=end,
        error=reason if code.lower().endswith("error") or code == "2" else None,
        **{**span, "name": span["name"] or title},
    )


def read_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of a :class:`SpanRecord` from flat or nested attributes of a span."""
    tree = _nest(fields)
    kind = next((str(fields[key]).lower() for key in _OPERATIONS if fields.get(key)), "").strip('"')
    role: Role = ROLES.get(kind, "other")
    inputs = _find_messages(tree, "gen_ai.system_instructions", "gen_ai.input.messages")
    inputs = inputs or _find_messages(tree, "llm.input_messages", "gen_ai.prompt")
    outputs = _find_messages(tree, "gen_ai.output.messages")
    outputs = outputs or _find_messages(tree, "llm.output_messages", "gen_ai.completion")
    role = "model" if role == "other" and outputs else role
    if role == "tool":
        outputs = [read_tool_text(_get_first(tree, _RESULT, *_OUTPUTS))]
        inputs = find_inputs(_get_first(tree, _ARGUMENTS, *_INPUTS), role)
    elif not (inputs or outputs):
        inputs = find_inputs(_get_first(tree, *_INPUTS), role)
        outputs = find_texts(_get_first(tree, *_OUTPUTS))
    agent = get_text(_get_first(tree, "gen_ai.agent.name", "agent.name", "graph.node.id"))
    return {
        "role": role,
        "agent": agent or get_text(walk_path(tree, "metadata.langgraph_node")),
        "name": get_text(_get_first(tree, "gen_ai.tool.name", "tool.name")),
        "model": get_text(_get_first(tree, *_MODELS)),
        "inputs": inputs,
        "outputs": [item for item in outputs if item not in (None, "")],
    }


def _read_plain(item: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the role, the inputs and the outputs of a span that has them beside its attributes."""
    kind = get_first_text(fields, *_KINDS) or get_first_text(item, *_KINDS) or ""
    role = ROLES.get(kind.lower(), "other")
    inputs, outputs = (item.get(key) or item.get(f"{key}s") for key in ("input", "output"))
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


def find_agent_name(item: Mapping[str, Any], title: str, role: str) -> str | None:
    """Return the name of the agent that a span is or names; None if it names none.

    Spans of LangSmith and Langfuse have no kind for agents. A name is in the metadata, in the node
    of a graph, or is the span's own, if that says so: ``planner_agent``, ``CodeAgent``.
    """
    fields: dict[str, Any] = {}
    for path in _METADATA:
        metadata = get_dict(parse_cell(walk_path(item, path)))
        fields = {**get_dict(metadata, "attributes"), **metadata, **fields}
    if name := get_first_text(fields, *_AGENT_NAMES):
        return name
    node = get_text(fields.get("langgraph_node"))
    if node in _INNER_NODES:  # of a graph that is an agent; its own node is one further out
        namespace = get_first_text(fields, *_NAMESPACES) or ""
        outer = [segment.partition(":")[0] for segment in namespace.split("|")][:-1]
        node = next((segment for segment in reversed(outer) if segment not in _INNER_NODES), node)
    if node and node != "tools":
        return node
    is_agent = role == "other" and title.lower() != "agent" and _AGENT.search(title[:80])
    return title if is_agent else None


def _find_messages(tree: Mapping[str, Any], *keys: str) -> list[Any]:
    messages: list[Any] = []
    for key in keys:
        value = parse_cell(_get_first(tree, key))
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
    calls = _sort_numbered(message.get("tool_calls"))
    if isinstance(calls, list):
        flat = [call.get("tool_call", call) if isinstance(call, dict) else call for call in calls]
        message = {**message, "tool_calls": flat}
    if contents := message.get("contents"):
        parts = map(get_dict, get_list(_sort_numbered(contents)))
        inner = [fields.get("message_content", fields) for fields in parts if fields]
        message = {**message, "content": inner, "contents": None}
    return message


def _sort_numbered(items: Any) -> Any:
    """Return the values of an object whose keys are numbers, 10 after 9; any other value as is."""
    is_object = isinstance(items, dict)
    return [items[n] for n in sorted(items, key=lambda n: (len(n), n))] if is_object else items


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
    """Return a span's or an event's attributes, an object or a list of pairs, as an object."""
    value = item.get("attributes")
    if isinstance(value, dict):
        return dict(value)
    pairs = list_objects(item, "attributes")
    return {key: _unwrap(pair.get("value")) for pair in pairs if (key := get_text(pair.get("key")))}


def _unwrap(value: Any) -> Any:
    """Return the value in an AnyValue of OTLP."""
    if not isinstance(value, dict):
        return value
    for kind, inner in value.items():
        match kind.lower().replace("_", ""):
            case "stringvalue" | "boolvalue":
                return inner
            case "intvalue" | "doublevalue":
                return json.loads(get_text(inner) or "null")
            case "arrayvalue":
                return [_unwrap(item) for item in list_objects(inner, "values")]
            case "kvlistvalue":
                pairs = list_objects(inner, "values")
                return {str(pair.get("key")): _unwrap(pair.get("value")) for pair in pairs}
    return None


def _find_time(item: Mapping[str, Any], keys: tuple[str, ...]) -> float | None:
    for key in keys:
        value = item.get(key)
        if isinstance(value, str) and value.isdecimal() and len(value) < 25:
            value = int(value)
        if key.endswith(("nano", "Nano")) and isinstance(value, int):
            value = value / 1e9
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
