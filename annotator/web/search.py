"""Search the texts of traces, a while at a time."""

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
    """Where a search goes on: at the trace of row ``row``, after ``hits`` of its hits. Before it,
    ``traces`` were searched and ``unread`` could not be read.
    """

    row: int = 1
    hits: int = 0
    traces: int = 0
    unread: int = 0


@dataclass(frozen=True, slots=True)
class Hit:
    """A match: ``start`` and ``end`` are offsets in the source's text, in characters. ``match`` are
    its offsets in ``excerpt``, one line of the text around it.
    """

    trace_id: str
    source: str
    start: int
    end: int
    excerpt: str
    match: tuple[int, int]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Some hits, and where to go on; without ``cursor`` the search is complete.

    Since the beginning, ``searched`` traces were searched; ``unread`` are missing or unreadable.
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
) -> SearchResult:
    """Look for a text, in any case, in messages, patches and outcomes, in the order of the index.

    It stops after ``seconds`` (at least one trace is searched), after ``limit`` hits, or at the end
    of an index that is still being filled; pass the ``cursor`` of the result to go on. One trace is
    in memory at a time. An empty query has no hits.

    Raises:
        AnnotatorError: ``cursor`` is not one of this function's; or as :class:`Index`.
    """
    until = time.monotonic() + seconds
    row, skip, searched, unread = _check_cursor(cursor)
    if not query:
        return SearchResult((), None, searched, unread)
    pattern = re.compile(re.escape(query), re.IGNORECASE)
    hits: list[Hit] = []
    begun = False
    complete = index.progress.done
    for number, trace_id in index.traces(row):
        if len(hits) == limit or (begun and time.monotonic() > until):
            return SearchResult(
                tuple(hits), Cursor(number, skip, searched, unread), searched, unread
            )
        trace, begun = find(trace_id), True
        if isinstance(trace, Trace):
            room = limit - len(hits)
            new = list(islice(_find_hits(trace, pattern), skip, skip + room + 1))
            hits += new[:room]
            if len(new) > room:
                rest = Cursor(number, skip + room, searched, unread)
                return SearchResult(tuple(hits), rest, searched, unread)
            searched += 1
        else:
            unread += 1
        row, skip = number + 1, 0
    end = None if complete else Cursor(row, 0, searched, unread)
    return SearchResult(tuple(hits), end, searched, unread)


def _check_cursor(cursor: Sequence[int] | None) -> Cursor:
    if cursor is None:
        return Cursor()
    numbers = list(cursor) if isinstance(cursor, Sequence) else []
    if len(numbers) != 4 or not all(
        type(number) is int and 0 <= number < 2**62 for number in numbers
    ):
        raise AnnotatorError("not a place to go on searching")
    return Cursor(*numbers)


def _list_texts(trace: Trace) -> Iterator[tuple[str, str]]:
    """Yield the source id and text of messages, patches and the outcome."""
    for message in trace.messages:
        yield f"message:{message.n}", message.text
    for source in trace.sources(("patches", "outcome")):
        yield source.id, source.text


def _find_hits(trace: Trace, pattern: re.Pattern[str]) -> Iterator[Hit]:
    for source, text in _list_texts(trace):
        for match in pattern.finditer(text):
            start, end = match.span()
            before = _join_lines(text[max(start - _BEFORE, 0) : start])
            inside = _join_lines(match.group())
            excerpt = before + inside + _join_lines(text[end : end + _AFTER])
            at = len(before), len(before) + len(inside)
            yield Hit(trace.id, source, start, end, excerpt, at)


def _join_lines(text: str) -> str:
    """Return a piece of a text as one line; blanks at its ends stay."""
    if not text.strip():
        return " " if text else ""
    line = sanitize_line(text, len(text))
    return f"{' ' * text[0].isspace()}{line}{' ' * text[-1].isspace()}"
