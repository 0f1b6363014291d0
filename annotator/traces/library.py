"""Traces by their id, wherever they lie."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

from annotator.traces.discover import Ignored, TraceRef, Unreadable, discover
from annotator.traces.model import Trace
from annotator.traces.read import TraceOrProblem, read_trace, read_traces


class Library:
    """All traces below some sources; any number of threads may ask for one by its id.

    The sources are listed once, only as far as a request needs. Kept are the ids and where each
    trace is, some 350 bytes each, and the JSON list that was read last.
    """

    def __init__(self, sources: Sequence[str], format: str = "auto") -> None:
        self._sources = tuple(sources)
        self._format = format
        self._listing = discover(self._sources, format)
        self._refs: dict[str, TraceRef | Unreadable] = {}
        self._ids: list[str] = []
        self._lock = threading.Lock()

    def trace(self, trace_id: str) -> Trace | Unreadable | None:
        """Return the trace with this id as :func:`read_traces` yields it; None if there is none.

        A trace that is gone, or whose file has changed, is :class:`Unreadable`.

        Raises:
            AnnotatorError: as :func:`read_traces`.
        """
        ref = None
        while trace_id not in self._refs and (ref := self._next()):
            if ref.id == trace_id:
                break
        else:
            ref = self._refs.get(trace_id)
        return read_trace(ref, self._format) if isinstance(ref, TraceRef) else ref

    def ids(self) -> Iterator[str]:
        """Yield every id once, in the order of :func:`read_traces`, listing as it goes.

        Raises:
            AnnotatorError: as :func:`read_traces`.
        """
        n = 0
        while n < len(self._ids) or self._next():
            yield self._ids[n]
            n += 1

    def __iter__(self) -> Iterator[TraceOrProblem]:
        """Yield everything as :func:`read_traces` does, and keep none of it."""
        return read_traces(self._sources, self._format)

    def _next(self) -> TraceRef | Unreadable | None:
        """Return the trace that is listed next, None at the end."""
        with self._lock:
            try:
                for ref in self._listing:
                    if not isinstance(ref, Ignored) and ref.id not in self._refs:
                        kept = replace(ref, document=None) if isinstance(ref, TraceRef) else ref
                        self._refs[ref.id] = kept
                        self._ids.append(ref.id)
                        return ref
            except Exception:
                self._listing = discover(self._sources, self._format)  # the same error next time
                raise
        return None
