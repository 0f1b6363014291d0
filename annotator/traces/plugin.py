"""A reader from elsewhere, held to what traces have to be."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from annotator.errors import UnreadableTrace
from annotator.plugins import Plugin, describe
from annotator.text import storable
from annotator.traces.model import Step, Trace, check_numbers

_CHECKED = ConfigDict(revalidate_instances="always")
_TRACE = TypeAdapter(tuple[Trace], config=_CHECKED)
_STEPS = TypeAdapter(dict[str, tuple[Step, ...]], config=_CHECKED)
_TASKS = TypeAdapter(dict[str, str])


def _name(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value if value is None else storable(value)
    raise TypeError(f"expected a text or None, found {type(value).__name__}")


class PluginReader:
    """A reader that is not ours: whatever it raises makes the document unreadable, no more.

    It has ``matches(document)``, whether a JSON document is of its format, and
    ``read(document, trace_id, path)``, which returns the :class:`Trace` with this id or raises
    :class:`UnreadableTrace`. It may have ``split``, ``group`` and ``identify``, as in
    :mod:`annotator.traces.formats`.

    Raises:
        AnnotatorError: it lacks one of the two.
    """

    def __init__(self, plugin: Plugin) -> None:
        self._reader = plugin.make("matches", "read")
        self.name = plugin.name
        self.split = self._optional("split", list)
        self.group = self._optional("group", _name)
        self.identify = self._optional("identify", _name)

    def _optional(self, member: str, check: Callable[[Any], Any]) -> Callable[[Any], Any] | None:
        theirs = getattr(self._reader, member, None)
        if theirs is None:
            return None
        return lambda value: self._call(lambda: check(theirs(value)))

    def matches(self, document: Any) -> bool:
        """Whether the reader says that a document is its own; raises UnreadableTrace."""
        return bool(self._call(lambda: self._reader.matches(document)))

    def read(self, document: Any, trace_id: str, path: str) -> Trace:
        """Return the trace in a document; raises UnreadableTrace."""
        answer = self._call(lambda: self._reader.read(document, trace_id, path))
        if not isinstance(answer, Trace):
            raise self._wrong(f"returned {type(answer).__name__}, expected a Trace")
        trace: Trace = self._validate(_TRACE, (answer,), skip=1)[0]
        if trace.id != trace_id:
            raise self._wrong(f"returned the trace {trace.id!r} for {trace_id!r}")
        if problem := check_numbers(trace):
            raise self._wrong(f"returned a wrong trace: {problem}")
        self._check_attributes(trace.attributes)
        steps, tasks = trace.read_steps, trace.read_tasks
        return replace(
            trace,
            messages=tuple(replace(item, text=storable(item.text)) for item in trace.messages),
            patches={agent: storable(patch) for agent, patch in trace.patches.items()},
            read_steps=lambda: self._validate(_STEPS, self._call(steps)),
            read_tasks=lambda: self._validate(_TASKS, self._call(tasks)),
        )

    def _call(self, function: Callable[[], Any]) -> Any:
        try:
            return function()
        except UnreadableTrace:
            raise
        except (Exception, SystemExit) as error:  # what strangers raise
            raise self._wrong(f"raised {describe(error)}") from error

    def _validate(self, adapter: TypeAdapter[Any], value: Any, skip: int = 0) -> Any:
        try:
            return adapter.validate_python(value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"][skip:]))
            raise self._wrong(f"returned a wrong trace: {where}: {first['msg']}") from error

    def _check_attributes(self, attributes: Mapping[str, Any]) -> None:
        for name, value in attributes.items():
            scalar = value is None or isinstance(value, (bool, int, float, str))
            if not scalar or (isinstance(value, float) and not math.isfinite(value)):
                raise self._wrong(f"returned a wrong trace: attributes: {name} is {value!r}")

    def _wrong(self, what: str) -> UnreadableTrace:
        return UnreadableTrace(f"the reader {self.name!r} {what}")
