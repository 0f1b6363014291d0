"""Traces as lines of JSON, for another process or machine."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from pydantic import BaseModel, ValidationError

from annotator.base.errors import UnreadableTrace
from annotator.base.text import describe_validation, sanitize_line
from annotator.traces.model import Message, Outcome, Step, Trace


class _TraceLine(BaseModel):
    id: str
    format: str
    path: str
    messages: tuple[Message, ...]
    patches: dict[str, str]
    outcome: Outcome
    attributes: dict[str, Any]
    problems: tuple[str, ...]
    tasks: dict[str, str] | str  # or why they cannot be read
    steps: dict[str, tuple[Step, ...]] | str


def dump_trace(trace: Trace) -> str:
    """Return a trace as a line of JSON without a line break, for :func:`load_trace`."""
    line = {name: _read(trace, name) for name in _TraceLine.model_fields}
    # ASCII, so that half a character in a text comes back as it is.
    return json.dumps(line, default=_dump_fields)


def load_trace(line: str) -> Trace:
    """Return the trace in a line that :func:`dump_trace` wrote.

    Raises:
        UnreadableTrace: the line is no such trace.
    """
    try:
        fields: dict[str, Any] = dict(_TraceLine.model_validate(json.loads(line)))
    except ValidationError as error:
        raise UnreadableTrace(f"not a trace of ours: {describe_validation(error)}") from error
    except (ValueError, RecursionError) as error:
        raise UnreadableTrace(f"not a line of JSON: {sanitize_line(str(error), 200)}") from error
    steps, tasks = (partial(_get_parts, fields.pop(name)) for name in ("steps", "tasks"))
    return Trace(**fields, read_steps=steps, read_tasks=tasks)


def _read(trace: Trace, name: str) -> Any:
    try:
        return getattr(trace, name)
    except UnreadableTrace as error:  # of its steps or tasks
        return str(error)


def _get_parts(value: dict[str, Any] | str) -> dict[str, Any]:
    if isinstance(value, str):
        raise UnreadableTrace(value)
    return value


def _dump_fields(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return {name: getattr(value, name) for name in value.__slots__}
