"""A text looked for in the traces themselves, a while at a time."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from annotator.base.errors import AnnotatorError
from annotator.base.text import sanitize_line
from annotator.traces import Trace, Unreadable
from annotator.web.index import Index

_BEFORE, _AFTER = 80, 120  # characters shown around a hit


class Cursor(NamedTuple):
    """Where a search goes on: at the trace of row ``row``, of which ``hits`` were shown; ``traces``
    were searched before it, ``unread`` of them could not be read.
    """

    row: int = 1
    hits: int = 0
    traces: int = 0
    unread: int = 0


@dataclass(frozen=True, slots=True)
class Hit:
    """A text found: ``start`` and ``end`` are offsets in the source's text, in characters, and
    ``match`` its offsets in ``excerpt``, which is one line of what stands around it.
    """

    trace_id: str
    source: str
    start: int
    end: int
    excerpt: str
    match: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Found:
    """Some hits, and where to go on; no ``cursor``: all was searched.

    ``searched`` traces were searched since the beginning, and ``unread`` could not be: they are not
    there any more, or unreadable.
    """

    hits: tuple[Hit, ...]
    cursor: Cursor | None
    searched: int
    unread: int


def search(
    find: Callable[[str], Trace | Unreadable | None],
    index: Index,
    query: str,
    cursor: Sequence[int] | None = None,
    seconds: float = 0.5,
    limit: int = 50,
) -> Found:
    """Look for a text, in any case, in messages, patches and outcomes, in the order of the index.

    It ends after ``seconds``, or a little later where one trace takes long, or with ``limit`` hits;
    ``cursor`` is then where to go on. While the index is being filled, so it is at the end of what
    was read. One trace is in memory at a time. An empty query is found nowhere.

    Raises:
        AnnotatorError: ``cursor`` is not one of this function's; or as :class:`Index`.
    """
    until = time.monotonic() + seconds
    row, skip, searched, unread = _check_cursor(cursor)
    if not query:
        return Found((), None, searched, unread)
    pattern = re.compile(re.escape(query), re.IGNORECASE)
    hits: list[Hit] = []
    looked = False
    complete = index.progress.done
    for number, trace_id in index.traces(row):
        if len(hits) == limit or (looked and time.monotonic() > until):
            return Found(tuple(hits), Cursor(number, skip, searched, unread), searched, unread)
        trace, looked = find(trace_id), True
        if isinstance(trace, Trace):
            wanted = limit - len(hits)
            new = list(islice(_hits(trace, pattern), skip, skip + wanted + 1))
            hits += new[:wanted]
            if len(new) > wanted:
                rest = Cursor(number, skip + wanted, searched, unread)
                return Found(tuple(hits), rest, searched, unread)
            searched += 1
        else:
            unread += 1
        row, skip = number + 1, 0
    end = None if complete else Cursor(row, 0, searched, unread)
    return Found(tuple(hits), end, searched, unread)


def _check_cursor(cursor: Sequence[int] | None) -> Cursor:
    if cursor is None:
        return Cursor()
    given = list(cursor) if isinstance(cursor, Sequence) else []
    if len(given) != 4 or not all(type(number) is int and 0 <= number < 2**62 for number in given):
        raise AnnotatorError("not a place to go on searching")
    return Cursor(*given)


def _texts(trace: Trace) -> Iterator[tuple[str, str]]:
    """Yield the texts of a trace with the ids of their sources, tools' messages among them."""
    for message in trace.messages:
        yield f"message:{message.n}", message.text
    for source in trace.sources(("patches", "outcome")):
        yield source.id, source.text


def _hits(trace: Trace, pattern: re.Pattern[str]) -> Iterator[Hit]:
    for source, text in _texts(trace):
        for match in pattern.finditer(text):
            start, end = match.span()
            before = _line(text[max(start - _BEFORE, 0) : start])
            inside = _line(match.group())
            excerpt = before + inside + _line(text[end : end + _AFTER])
            at = len(before), len(before) + len(inside)
            yield Hit(trace.id, source, start, end, excerpt, at)


def _line(text: str) -> str:
    """Return a piece of a text as one line, blank at its ends where it was."""
    if not text.strip():
        return " " if text else ""
    line = sanitize_line(text, len(text))
    return f"{' ' * text[0].isspace()}{line}{' ' * text[-1].isspace()}"
