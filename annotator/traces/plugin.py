"""A reader from elsewhere: an error of its own costs one trace."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.base.plugins import Plugin, describe_error
from annotator.base.text import replace_surrogates
from annotator.traces.model import Trace, check_trace


class PluginReader:
    """A reader that is not ours: if it raises, the document is unreadable.

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

    def __getattr__(self, member: str) -> Callable[..., Any]:
        return partial(self._call, getattr(self._reader, member))

    def read(self, document: Any, trace_id: str, path: str) -> Trace:
        """Return the trace in a document; raises UnreadableTrace."""
        return self._call(self._read, document, trace_id, path)  # type: ignore[no-any-return]

    def _read(self, document: Any, trace_id: str, path: str) -> Trace:
        trace: Trace = self._reader.read(document, trace_id, path)
        if problem := check_trace(trace):
            raise ValueError(problem)
        return replace(
            trace,
            id=trace_id,
            messages=tuple(
                replace(item, text=replace_surrogates(item.text)) for item in trace.messages
            ),
            patches={agent: replace_surrogates(patch) for agent, patch in trace.patches.items()},
            read_steps=partial(self._call, trace.read_steps),
            read_tasks=partial(self._call, trace.read_tasks),
        )

    def _call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return method(*arguments)
        except UnreadableTrace:
            raise
        except Exception as error:
            message = f"the reader {self.name!r} raised {describe_error(error)}"
            raise UnreadableTrace(message) from error
