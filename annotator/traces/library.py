"""Traces by their id, wherever they lie."""

import threading
from collections.abc import Iterator, Sequence

from annotator.errors import AnnotatorError
from annotator.remote import name_place
from annotator.traces.entries import Entry, Spot, entries, read_again
from annotator.traces.model import Trace
from annotator.traces.places import Ignored, Unreadable
from annotator.traces.reading import TraceOrProblem, read_traces


class Library:
    """All traces below some sources; any number of threads may ask for one by its id.

    What lies there is listed once, as far as it takes to find what is asked for, and the listing
    goes on where it stopped. Run folders are not opened for it; files are. Kept are the ids and
    places: about 600 bytes for a run folder, 250 for a record of a file; and the JSON list that was
    read last. A record of a JSONL file is found again by its byte, one of the hub by reading all
    records before it.
    """

    def __init__(self, sources: Sequence[str], format: str = "auto") -> None:
        self._sources = tuple(sources)
        self._format = format
        self._listing = entries(self._sources, format)
        self._ids: list[str] = []
        self._spots: dict[str, Spot | Unreadable] = {}
        self._lock = threading.Lock()
        self._error: AnnotatorError | None = None

    def trace(self, trace_id: str) -> Trace | Unreadable | None:
        """Return the trace with this id as :func:`read_traces` yields it; None if there is none.

        What was listed and is gone or changed since is :class:`Unreadable`.

        Raises:
            AnnotatorError: as :func:`read_traces` does, each time: the listing ends there.
        """
        while trace_id not in self._spots:
            entry = self._next()
            if entry is None:
                break
            if entry.id == trace_id:
                return entry.read() if isinstance(entry, Entry) else entry
        spot = self._spots.get(trace_id)
        return read_again(spot, trace_id, self._format) if isinstance(spot, Spot) else spot

    def ids(self) -> Iterator[str]:
        """Yield every id once, in the order of :func:`read_traces`, listing as it goes.

        Raises:
            AnnotatorError: as :meth:`trace` does.
        """
        n = 0
        while n < len(self._ids) or self._next():
            yield self._ids[n]
            n += 1

    def __iter__(self) -> Iterator[TraceOrProblem]:
        """Yield everything as :func:`read_traces` does; nothing of it is kept."""
        return read_traces(self._sources, self._format)

    def _next(self) -> Entry | Unreadable | None:
        """Return what is listed next, None at the end."""
        with self._lock:
            if self._error:
                raise self._error
            try:
                for entry in self._listing:
                    if isinstance(entry, Ignored) or entry.id in self._spots:
                        continue
                    spot = entry.spot.without_names() if isinstance(entry, Entry) else entry
                    self._spots[entry.id] = spot
                    self._ids.append(entry.id)
                    return entry
            except (AnnotatorError, OSError) as error:  # a folder that was there, and is closed now
                if isinstance(error, OSError):
                    where = name_place(error.filename or ", ".join(self._sources))
                    error = AnnotatorError(f"{error.strerror}: {where}")
                self._error = error
                raise error from None
        return None
