"""The traces at each place, one after another: each with the way to read it now or again."""

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from annotator.errors import UnreadableTrace
from annotator.plugins import describe
from annotator.remote import is_hub, name_place
from annotator.text import count, storable
from annotator.traces.contents import (
    HUB,
    Contents,
    Document,
    JsonLines,
    Record,
    itself,
    make_seekable,
    open_contents,
)
from annotator.traces.document import kind
from annotator.traces.duplicates import reject_duplicate
from annotator.traces.formats import Readers, identify, readers
from annotator.traces.model import Trace
from annotator.traces.places import Ignored, Place, Unreadable, common_folder, look_again, places

_PEEK = 20  # records that are looked at to tell whether those of a file belong together
_MOST_GROUPED = 50_000_000  # records of one file that are kept track of, 16 bytes each
_CHANGED = "changed since it was listed, or gone; start again"


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a trace lies: a place, and in a file of several records (or a data set of the hub) the
    record's number, from 1, and the byte at which its line begins; 0 for the whole of a place.

    ``item``: its number in a document that holds several, from 1. Of a trace of many records:
    ``reader``, what reads them; ``key``, what they have in common, "" if all of the file are its
    own; ``places``, the number and the byte of each in turn. ``stamp``: the file's time and size
    when it was listed; records are found again by them only.
    """

    place: Place
    number: int = 0
    offset: int = 0
    stamp: tuple[int, int] | None = None
    item: int = 0
    reader: Any | None = None
    key: str = ""
    places: "array[int] | None" = None

    def without_names(self) -> "Spot":
        """Return the spot without what can be looked up again, to be held in memory by many."""
        return Spot(replace(self.place, names=frozenset())) if self.place.names else self


@dataclass(frozen=True, slots=True)
class Entry:
    """A trace that was found: the id and path it will have, and how to read it now."""

    id: str
    path: str
    spot: Spot
    read: Callable[[], Trace | Unreadable]


def entries(sources: Sequence[str], format: str) -> Iterator[Entry | Unreadable | Ignored]:
    """Yield what lies below the sources, in order, ids only once: a second entry with an id already
    seen is yielded as :class:`Unreadable`. Run folders are not opened, files are.

    Raises:
        AnnotatorError: a source does not exist, or ``format`` is unknown.
    """
    readers(format)  # raises, before a source is looked at
    seen: set[int] = set()  # 64-bit hashes: 100,000 ids in a few megabytes
    for place in _places(sources, format):
        for entry in _in_place(place, format) if isinstance(place, Place) else (place,):
            entry = _name_url(entry)
            if isinstance(entry, Ignored):
                yield entry
                continue
            key = hash(entry.id)
            again = f"{entry.id} [{storable(entry.path)}]"
            yield reject_duplicate(entry, again) if key in seen else entry
            seen.add(key)
            del entry  # it holds a document, and the next one is about to be read


def look_into(sources: Sequence[str], format: str) -> Iterator[tuple[str, str | None, Any]]:
    """Yield what the first records of each file are: the file, the format that reads it, None if
    nothing does, and the first document that nothing reads, else the first of all; or why there is
    none, as UnreadableTrace.

    Raises:
        AnnotatorError: as :func:`entries`.
    """
    for place in _places(sources, format):
        if not isinstance(place, Place) or place.bad_link:
            continue
        if place.reader:
            yield name_place(place.path), place.reader.name, None
            continue
        try:
            contents = open_contents(place.path)
            if isinstance(contents, Document):
                document = contents.load()
                listed = isinstance(document, list) and not _find(document, format)
                documents = document[:_PEEK] if listed else [document]
            else:
                documents = [load() for _, _, load in islice(contents.records(), _PEEK)]
            pairs = [(document, _find(document, format)) for document in documents]
            for document, reader in sorted(pairs, key=lambda pair: pair[1] is not None)[:1]:
                yield name_place(place.path), reader and reader.name, document
        except UnreadableTrace as error:
            yield name_place(place.path), None, error


def _name_url(item: Entry | Unreadable | Ignored) -> Entry | Unreadable | Ignored:
    """Return what lies in the copy of a URL with a path that names the URL."""
    path = name_place(item.path)
    if path == item.path:
        return item
    if isinstance(item, Entry):
        return replace(item, path=path, read=partial(_read_named, item.read))
    return replace(item, path=path)


def _read_named(read: Callable[[], Trace | Unreadable]) -> Trace | Unreadable:
    item = read()
    return replace(item, path=name_place(item.path))


def read_again(spot: Spot, trace_id: str, format: str) -> Trace | Unreadable:
    """Read the trace at a spot that was found before.

    A run folder is read as it is now. What is gone, and a file that is another by now, is
    :class:`Unreadable`.

    Raises:
        AnnotatorError: a data set of the hub cannot be loaded.
    """
    return _read_named(partial(_read_again, spot, trace_id, format))


def _read_again(spot: Spot, trace_id: str, format: str) -> Trace | Unreadable:
    path = f"{spot.place.path}:{spot.number}" if spot.number else spot.place.path
    try:
        if spot.stamp and _stamp(spot.place) != spot.stamp:
            raise UnreadableTrace(f"{Path(spot.place.path).name}: {_CHANGED}")
        if spot.place.reader:
            spot = Spot(look_again(spot.place))
        if spot.places is not None:
            path = f"{spot.place.path}:{spot.places[0]}" if spot.key else spot.place.path
            return _read_group(spot, trace_id, path, format)
        entries = _in_place(spot.place, format, spot)
        entry = next(islice(entries, max(spot.item - 1, 0), None), None)
    except UnreadableTrace as error:
        return Unreadable(trace_id, path, str(error))
    if isinstance(entry, Entry) and entry.id == trace_id:
        return entry.read()
    if isinstance(entry, Unreadable):
        return Unreadable(trace_id, path, entry.reason)
    name = spot.place.name if spot.place.path.startswith(HUB) else Path(spot.place.path).name
    return Unreadable(trace_id, path, f"{name}: {_CHANGED}")


def _places(sources: Sequence[str], format: str) -> Iterator[Place | Unreadable | Ignored]:
    """Yield the places below all sources; one named twice, or below a folder named before, once."""
    beside = common_folder(sources)
    visited: set[int] = set()
    for source in sources:
        if is_hub(source):
            yield Place(source, None, source)
            continue
        for place in places(source, format, beside):
            if isinstance(place, Place):
                key = hash(place.path)
                if key in visited:
                    continue
                visited.add(key)
            yield place


def _in_place(
    place: Place, format: str, begin: Spot | None = None
) -> Iterator[Entry | Unreadable | Ignored]:
    """Yield what lies at one place, from the record at ``begin``."""
    if place.reader:
        spot = begin or Spot(place)
        read = partial(_read_folder, place, place.reader, format)
        yield Entry(place.name, place.path, spot, read)
    elif place.bad_link:
        yield Unreadable(place.name, place.path, place.bad_link)
    else:
        spot = begin or Spot(place, stamp=None if place.path.startswith(HUB) else _stamp(place))
        try:
            yield from _in_file(spot, open_contents(place.path), format)
        except UnreadableTrace as error:
            yield Unreadable(place.name, place.path, str(error))


def _in_file(spot: Spot, contents: Contents, format: str) -> Iterator[Entry | Unreadable | Ignored]:
    if isinstance(contents, Document):
        document = _load_list(contents, spot.stamp) if spot.number else contents.load()
        if not isinstance(document, list) or not document or _find(document, format):
            whole = replace(spot, stamp=None)
            yield from _in_document(document, whole, format, place_id=spot.place.id)
            return
        rows = [(n, 0, partial(itself, record)) for n, record in enumerate(document, 1)]
    else:
        rows = None

    def records(number: int = 1, offset: int = 0) -> Iterable[Record]:
        if rows is not None:
            return rows[number - 1 :]
        return contents.records(number, offset)  # type: ignore[union-attr] # no document

    listed = iter(records(spot.number or 1, spot.offset))
    reader, seen = (None, []) if spot.number else _find_grouping(listed, format)
    listed = chain(seen, listed)
    del seen
    if reader is not None:
        yield from _groups(spot, reader, format)
        return
    n = 0
    for n, offset, load in listed:
        at = replace(spot, number=n, offset=offset, item=0)
        try:
            document = load()
        except UnreadableTrace as error:
            yield Unreadable(f"{spot.place.name}:{n}", f"{spot.place.path}:{n}", str(error))
            continue
        yield from _in_document(document, at, format)
    if not n:
        yield Ignored(spot.place.path, "it holds no records")


@lru_cache(maxsize=1)  # its records are asked for one after another
def _load_list(contents: Document, _: tuple[int, int] | None) -> Any:
    """Return the list in a file that has this stamp; the last one is kept."""
    return contents.load()


def _find(document: Any, format: str) -> Any | None:
    """Return what reads a document, None if nothing does; raises UnreadableTrace."""
    return next((reader for reader in readers(format).documents if reader.matches(document)), None)


def _find_grouping(records: Iterator[Record], format: str) -> tuple[Any | None, list[Record]]:
    """Return the reader that groups the records of a file into traces, None if each is by itself,
    and the records that were looked at: the first that a reader knows decides.
    """
    seen = []
    for record in islice(records, _PEEK):
        seen.append(record)
        try:
            document = record[2]()
            reader = _find(document, format)
            if reader is not None:
                items = _split(reader, document)
                return (reader if items and _group(reader, items[0]) is not None else None), seen
        except UnreadableTrace:
            continue
    return None, seen


def _group(reader: Any, item: Any) -> str | None:
    group = getattr(reader, "group", None)
    return None if group is None else group(item)


def _split(reader: Any, document: Any) -> list[Any]:
    split = getattr(reader, "split", None)
    if split is None or not reader.matches(document):
        return [document]
    return list(split(document))


def _in_document(
    document: Any, spot: Spot, format: str, *, place_id: str | None = None
) -> Iterator[Entry | Unreadable | Ignored]:
    """Yield what a document holds: a trace, several, or records that several are made of."""
    place = spot.place
    path = f"{place.path}:{spot.number}" if spot.number else place.path
    fallback = f"{place.name}:{spot.number}" if spot.number else place.name
    try:
        reader = _find(document, format)
        if reader is None:
            yield Ignored(path, _describe(document, format))
            return
        items = _split(reader, document)
        if items and _group(reader, items[0]) is not None:
            if not spot.number:
                yield from _groups(spot, reader, format)
                return
            what = f"a part of a trace ({reader.name}) among records that are whole"
            yield Unreadable(fallback, path, what)
            return
    except UnreadableTrace as error:
        yield Unreadable(place_id or fallback, path, str(error))
        return
    whole = getattr(reader, "split", None) is None
    if not items:
        yield Ignored(path, f"{reader.name}: it holds no trace")
    for n, item in enumerate(items, 1):
        try:
            told = None if whole and place_id else identify(reader, item)
        except UnreadableTrace as error:  # of a plug-in: it costs this trace and no other
            yield Unreadable(fallback if whole else f"{place.name}:{n}", path, str(error))
            continue
        trace_id = place_id or told or fallback if whole else f"{place.name}:{told or n}"
        at = spot if whole else replace(spot, item=n)
        yield Entry(trace_id, path, at, _reading(reader, item, trace_id, path, format))


def _describe(document: Any, format: str) -> str:
    keys = ""
    if isinstance(document, dict) and document:
        keys = f" with the keys {', '.join(sorted(map(str, document))[:6])}"
    lacks = "no format that is known"
    if format != "auto":
        lacks = f"not what {format} reads"
    return f"not a trace: {kind(document)}{keys}, {lacks}; see annotate traces --explain"


@lru_cache(maxsize=2)  # the traces of a file are asked for one after another
def _hold(
    path: str, stamp: tuple[int, int] | None, reader: Any, format: str
) -> list[Any] | JsonLines:
    """Return the records of a file, to be found again by their number or byte: those of one
    document in memory, as the document was; all others on disk. Raises UnreadableTrace.
    """
    contents = open_contents(path)
    if not isinstance(contents, Document):
        return make_seekable(path, stamp)
    value = contents.load()
    listed = isinstance(value, list) and not _find(value, format)
    return [
        item for document in (value if listed else [value]) for item in _split(reader, document)
    ]


def _groups(spot: Spot, reader: Any, format: str) -> Iterator[Entry | Unreadable | Ignored]:
    """Yield the traces that the records of a file make up, in the order in which they begin.

    What is kept is where the records of each lie, 16 bytes a record, however far apart they are.
    """
    place = spot.place
    places: dict[str, array[int]] = {}
    broken: list[tuple[int, str]] = []
    whole = array("Q")
    total = 0
    held = _hold(place.path, spot.stamp or _stamp(place), reader, format)
    for n, offset, load in _records_of(held):
        try:
            items = [load()] if isinstance(held, list) else _split(reader, load())
            keys = dict.fromkeys(_group(reader, item) for item in items)  # in their order
            if None in keys and getattr(reader, "takes_records_apart", False):
                whole.extend((n, offset))
                continue
        except UnreadableTrace as error:
            broken.append((n, str(error)))
            continue
        total += len(keys)
        if total > _MOST_GROUPED:
            raise UnreadableTrace(f"more than {_MOST_GROUPED} records in one file; split the file")
        for key in keys:
            places.setdefault(key or "", array("Q")).extend((n, offset))
    for n, offset in zip(whole[::2], whole[1::2], strict=True):  # a trace by itself, among parts
        document = held[n - 1] if isinstance(held, list) else held.at(n, offset)
        yield from _in_document(document, replace(spot, number=n, offset=offset), format)
    named = [key for key in places if key]
    if "" in places and len(named) > 1:
        lost = count(len(places.pop("")) // 2, "record")
        yield Ignored(place.path, f"{lost} without the id of one of its {len(named)} traces")
    elif "" in places and named:
        both = places.pop("") + places[named[0]]
        pairs = sorted(set(zip(both[::2], both[1::2], strict=True)))
        places[named[0]] = array("Q", (number for pair in pairs for number in pair))
    problem = "".join(f"{reason}; " for _, reason in broken[:3])
    for n, reason in broken if len(places) > 1 else []:
        yield Unreadable(f"{place.name}:{n}", f"{place.path}:{n}", reason)
    for key, lines in places.items():
        alone = len(places) == 1
        trace_id = (alone and place.id) or key or place.name
        path = place.path if alone else f"{place.path}:{lines[0]}"
        if broken and alone:
            yield Unreadable(trace_id, path, problem.rstrip("; "))
            continue
        at = replace(spot, reader=reader, key="" if alone else key, places=lines)
        yield Entry(trace_id, path, at, partial(_read_group, at, trace_id, path, format, problem))


def _records_of(held: list[Any] | JsonLines) -> Iterable[Record]:
    if isinstance(held, JsonLines):
        return held.records()
    return ((n, 0, partial(itself, item)) for n, item in enumerate(held, 1))


def _read_group(
    spot: Spot, trace_id: str, path: str, format: str, problem: str = ""
) -> Trace | Unreadable:
    """Read a trace of many records, which may lie apart; ``problem``: what is wrong beside them."""
    try:
        reader = spot.reader
        held = _hold(spot.place.path, spot.stamp or _stamp(spot.place), reader, format)
        pairs = zip((spot.places or ())[::2], (spot.places or ())[1::2], strict=True)
        chosen: list[Any] = []
        for n, offset in pairs:
            items = [held[n - 1]] if isinstance(held, list) else _split(reader, held.at(n, offset))
            chosen += [item for item in items if not spot.key or _group(reader, item) == spot.key]
    except UnreadableTrace as error:
        return Unreadable(trace_id, path, str(error))
    trace = _reading(reader, chosen, trace_id, path, format)()
    if problem and isinstance(trace, Trace):
        wrong = f"what cannot be read may be of this trace: {problem.rstrip('; ')}"
        return replace(trace, problems=(*trace.problems, wrong))
    return trace


def _reading(
    reader: Any, document: Any, trace_id: str, path: str, format: str
) -> Callable[[], Trace | Unreadable]:
    return partial(_read, partial(reader.read, document, trace_id, path), trace_id, path, format)


def _read_folder(place: Place, reader: Any, format: str) -> Trace | Unreadable:
    if place.bad_link:
        return Unreadable(place.name, place.path, place.bad_link)
    read = partial(reader.read, place.path, place.names, place.name)
    return _read(read, place.name, place.path, format)


def _read(read: Callable[[], Trace], trace_id: str, path: str, format: str) -> Trace | Unreadable:
    try:
        return rename_agents(read(), readers(format))
    except UnreadableTrace as error:
        return Unreadable(trace_id, path, str(error))
    except RecursionError:
        return Unreadable(trace_id, path, "nested too deeply to be read")
    except Exception as error:  # a reader's own mistake costs this trace and no other
        return Unreadable(trace_id, path, f"its reader failed: {describe(error)}; please report it")


def rename_agents(trace: Trace, chosen: Readers) -> Trace:
    """Return a trace whose senders are called by what the user's pattern finds in their names: its
    first group, else all of it; a name in which it finds nothing stays.
    """
    pattern = chosen.agent_name
    if pattern is None:
        return trace

    def rename(name: str) -> str:
        match = re.search(pattern, name)
        return (match[1] if match.re.groups else match[0]) or name if match else name

    messages = tuple(
        replace(
            message,
            sender=rename(message.sender),
            recipients=tuple(map(rename, message.recipients)),
        )
        for message in trace.messages
    )
    ends = tuple(replace(end, agent=rename(end.agent)) for end in trace.outcome.agents)
    return replace(trace, messages=messages, outcome=replace(trace.outcome, agents=ends))


def _stamp(place: Place) -> tuple[int, int] | None:
    """Return a file's time in nanoseconds and its size; None if it is not there, or no file."""
    try:
        info = Path(place.path).stat()
    except OSError:
        return None
    return info.st_mtime_ns, info.st_size
