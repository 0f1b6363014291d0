"""Traces as lines of JSON, for another process or machine."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.base.text import describe_validation, sanitize_line
from annotator.traces.model import Message, Outcome, Step, Trace


@dataclass(frozen=True, slots=True)
class _TraceLine:
    id: str
    format: str
    path: str
    messages: tuple[Message, ...]
    patches: Mapping[str, str]
    outcome: Outcome
    attributes: Mapping[str, Any]
    problems: tuple[str, ...]
    tasks: Mapping[str, str] | str
    steps: Mapping[str, tuple[Step, ...]] | str


def dump_trace(trace: Trace) -> str:
    """Return a trace as a line of JSON without a line break, for :func:`load_trace`."""
    line = {
        **{name: getattr(trace, name) for name in ("id", "format", "path", "messages", "outcome")},
        "patches": dict(trace.patches),
        "attributes": dict(trace.attributes),
        "problems": trace.problems,
        "tasks": _read(trace, "tasks"),
        "steps": _read(trace, "steps"),
    }
    # ASCII, so that half a character in a text comes back as it is.
    return json.dumps(line, default=_dump_fields)


def load_trace(line: str) -> Trace:
    """Return the trace in a line that :func:`dump_trace` wrote.

    Raises:
        UnreadableTrace: the line is no such trace.
    """
    from pydantic import TypeAdapter, ValidationError

    global _adapter
    _adapter = _adapter or TypeAdapter(_TraceLine)
    try:
        content: _TraceLine = _adapter.validate_python(json.loads(line))
    except ValidationError as error:
        raise UnreadableTrace(f"not a trace of ours: {describe_validation(error)}") from error
    except (ValueError, RecursionError) as error:
        raise UnreadableTrace(f"not a line of JSON: {sanitize_line(str(error), 200)}") from error
    return Trace(
        content.id,
        content.format,
        content.path,
        content.messages,
        content.patches,
        content.outcome,
        content.attributes,
        content.problems,
        lambda: _get_parts(content.steps),
        lambda: _get_parts(content.tasks),
    )


def _read(trace: Trace, name: str) -> Any:
    """Return the steps or tasks, or the reason why they cannot be read, as text."""
    try:
        return dict(getattr(trace, name))
    except UnreadableTrace as error:
        return str(error)


def _get_parts(value: Mapping[str, Any] | str) -> Mapping[str, Any]:
    if isinstance(value, str):
        raise UnreadableTrace(value)
    return value


def _dump_fields(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return {name: getattr(value, name) for name in value.__slots__}


_adapter: Any = None  # built when the first line is read
