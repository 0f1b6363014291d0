"""From what the user named to a stream of traces: find, detect, read, one at a time."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from annotator.errors import UnreadableTrace
from annotator.regular import explain_unreadable, open_regular
from annotator.remote import is_hub, localize
from annotator.traces.contents import JsonLines, is_on_lines
from annotator.traces.entries import Entry, entries
from annotator.traces.model import Trace
from annotator.traces.places import Ignored, Place, Unreadable, places

TraceOrProblem = Trace | Unreadable | Ignored
"""What stands at a place: a trace, what cannot be read, or what is no trace."""


def read_traces(
    sources: Sequence[str],
    format: str = "auto",
    *,
    keep: Callable[[str, bool], bool] | None = None,
) -> Iterator[TraceOrProblem]:
    """Yield every trace below ``sources``: folders, files, globs, their URLs (``s3://...``), or
    ``hf://org/name[:split]``.

    One trace is in memory at a time. The order is that of the sources, then of the paths. A second
    trace with an id already seen is yielded as :class:`Unreadable`. Trace ids are: the path below
    the folder named ``logs`` for run folders; else, for a file with one trace, its path below the
    given folder; else the record's own id (``file:line`` if it has none).

    Args:
        sources: what the user named; at least one.
        format: a name of ``FORMATS``, ``auto`` to recognise each folder and file, or a plug-in: its
            name, or ``module:name``.
        keep: told the id of each trace, and the path of what is none, and whether it is a trace,
            before it is read; only those for which it is true are yielded.

    Raises:
        AnnotatorError: a source does not exist, ``format`` is unknown, or its plug-in is broken.
    """
    for entry in entries(sources, format):
        name, is_trace = (entry.path, False) if isinstance(entry, Ignored) else (entry.id, True)
        if keep and not keep(name, is_trace):
            continue
        yield entry.read() if isinstance(entry, Entry) else entry
        del entry  # it holds a document, and the next one is about to be read


def exists(source: str) -> None:
    """Raise :class:`AnnotatorError` if nothing has that name; hub names are not looked up. What is
    at a URL is fetched, where it has changed.
    """
    if not is_hub(source):
        localize(source, again=True)
        next(places(source), None)


def check_source(source: str) -> None:
    """Raise :class:`AnnotatorError` if what has that name is not there, or can hold no traces that
    may be read: a pipe, a device, a folder that may not be listed.
    """
    exists(source)
    path = localize(source)
    if is_hub(source) or not os.path.lexists(path):  # a glob
        return
    with explain_unreadable(source):
        if path.is_dir():
            os.scandir(path).close()
        else:
            open_regular(path).close()


def count_traces(sources: Sequence[str], format: str = "auto") -> int:
    """Return how many traces :func:`read_traces` will find, roughly and cheaply.

    It counts run folders, JSON files and lines of JSONL files, and opens nothing else.
    """
    total = 0
    for source in sources:
        for place in () if is_hub(source) else places(source, format):
            if isinstance(place, Place) and place.reader is None and is_on_lines(place.path):
                with suppress(UnreadableTrace):
                    total += sum(1 for _ in JsonLines(place.path, "", seekable=False).records())
            elif not isinstance(place, Ignored):
                total += 1
    return total
