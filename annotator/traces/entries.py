"""The traces at each place, one after another: each with the way to read it now or again."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

from annotator.errors import UnreadableTrace
from annotator.text import decode, storable
from annotator.traces import generic, hub
from annotator.traces.conversation import is_message
from annotator.traces.document import kind, parse, read_bytes, read_json
from annotator.traces.duplicates import reject_duplicate
from annotator.traces.formats import readers
from annotator.traces.model import Trace
from annotator.traces.places import Ignored, Place, Unreadable, common_folder, look_again, places

_HUB = "hf://"
_CHANGED = "changed since it was listed, or gone; start again"


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a trace lies: a place, and in a file of several records (or a data set of the hub) the
    record's number, from 1, and the byte at which its line begins; 0 for the whole of a place.

    ``stamp``: the file's time and size when it was listed; records are found again by them only.
    """

    place: Place
    number: int = 0
    offset: int = 0
    stamp: tuple[int, int] | None = None

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
            if isinstance(entry, Ignored):
                yield entry
                continue
            key = hash(entry.id)
            again = f"{entry.id} [{storable(entry.path)}]"
            yield reject_duplicate(entry, again) if key in seen else entry
            seen.add(key)
            del entry  # it holds a document, and the next one is about to be read


def read_again(spot: Spot, trace_id: str, format: str) -> Trace | Unreadable:
    """Read the trace at a spot that was found before.

    A run folder is read as it is now. What is gone, and a file that is another by now, is
    :class:`Unreadable`.

    Raises:
        AnnotatorError: a data set of the hub cannot be loaded.
    """
    path = f"{spot.place.path}:{spot.number}" if spot.number else spot.place.path
    try:
        if spot.number and _stamp(spot.place) != spot.stamp:
            raise UnreadableTrace(f"{Path(spot.place.path).name}: {_CHANGED}")
        if spot.place.reader:
            spot = Spot(look_again(spot.place))
        entry = next(_in_place(spot.place, format, spot), None)
    except UnreadableTrace as error:
        return Unreadable(trace_id, path, str(error))
    if isinstance(entry, Entry) and entry.id == trace_id:
        return entry.read()
    if isinstance(entry, Unreadable):
        return Unreadable(trace_id, path, entry.reason)
    name = spot.place.name if spot.place.path.startswith(_HUB) else Path(spot.place.path).name
    return Unreadable(trace_id, path, f"{name}: {_CHANGED}")


def _places(sources: Sequence[str], format: str) -> Iterator[Place | Unreadable | Ignored]:
    """Yield the places below all sources; one named twice, or below a folder named before, once."""
    beside = common_folder(sources)
    visited: set[int] = set()
    for source in sources:
        if source.startswith(_HUB):
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
    begin = begin or Spot(place)
    if place.reader:
        yield Entry(place.name, place.path, begin, partial(_read_folder, place, place.reader))
    elif place.bad_link:
        yield Unreadable(place.name, place.path, place.bad_link)
    elif place.path.startswith(_HUB):
        records = ((n, 0, record) for n, record in hub.records(place.path))
        yield from _records(_skip_to(records, begin), place, format, None)
    elif Path(place.path).suffix == ".json":
        yield from _in_json(place, format, begin)
    else:
        yield from _in_jsonl(place, format, begin)


def _skip_to(
    records: Iterable[tuple[int, int, Any]], begin: Spot
) -> Iterator[tuple[int, int, Any]]:
    return islice(records, max(begin.number - 1, 0), None)


def _read_folder(place: Place, reader: Any) -> Trace | Unreadable:
    try:
        if place.bad_link:
            raise UnreadableTrace(place.bad_link)
        trace: Trace = reader.read(place.path, place.names, place.name)
    except UnreadableTrace as error:
        return Unreadable(place.name, place.path, str(error))
    return trace


def _in_json(place: Place, format: str, begin: Spot) -> Iterator[Entry | Unreadable | Ignored]:
    fallback, path = place.name, Path(place.path)
    stamp = _stamp(place)
    try:
        document = (
            _read_list(path, stamp) if begin.number else read_json(str(path.parent), path.name)
        )
    except UnreadableTrace as error:
        yield Unreadable(fallback, place.path, str(error))
        return
    if isinstance(document, list) and document and not is_message(document[0]):
        records = ((n, 0, record) for n, record in enumerate(document, 1))
        yield from _records(_skip_to(records, begin), place, format, stamp)
        return
    trace_id = place.id or generic.record_id(document) or fallback
    yield _document(document, trace_id, place.path, format, Spot(place))


@lru_cache(maxsize=1)  # its records are asked for one after another
def _read_list(path: Path, _: tuple[int, int] | None) -> Any:
    """Return the list in a file that has this stamp; the last one is kept."""
    return read_json(str(path.parent), path.name)


def _in_jsonl(place: Place, format: str, begin: Spot) -> Iterator[Entry | Unreadable | Ignored]:
    fallback, path = place.name, Path(place.path)
    stamp = _stamp(place)
    try:
        if not begin.number:
            if b"\x00" in read_bytes(str(path.parent), path.name, 4096):
                raise UnreadableTrace(f"{path.name}: binary data, not JSON")
            if is_message(_first_line(path)):
                document = [parse(line, path.name, line=n) for n, _, line in lines_of(path)]
                yield _document(document, fallback, place.path, format, Spot(place))
                return
        yield from _records(
            lines_of(path, begin.number or 1, begin.offset),
            place,
            format,
            stamp,
            load=lambda n, line: parse(line, fallback, line=n),
        )
    except UnreadableTrace as error:
        yield Unreadable(fallback, place.path, str(error))


def lines_of(path: Path, number: int = 1, offset: int = 0) -> Iterator[tuple[int, int, str]]:
    """Yield the non-empty lines of a file, one in memory at a time: the number of each, the byte at
    which it begins and its text. It begins with line ``number``, at byte ``offset``.

    Raises:
        UnreadableTrace: the file is missing, not regular, or not allowed.
    """
    try:
        if not path.is_file():
            raise UnreadableTrace(f"{path.name}: not a regular file")
        with path.open("rb") as file:
            file.seek(offset)
            for n, data in enumerate(file, number):
                line = decode(data) if n == 1 else data.decode("utf-8", errors="replace")
                if line.strip():
                    yield n, offset, line
                offset += len(data)
    except OSError as error:
        raise UnreadableTrace(f"{path.name}: {error.strerror or error}") from error


def _first_line(path: Path) -> Any:
    for _, _, line in lines_of(path):
        try:
            return parse(line, path.name)
        except UnreadableTrace:
            return None
    raise UnreadableTrace(f"{path.name}: empty file")


def _records(
    records: Iterable[tuple[int, int, Any]],
    place: Place,
    format: str,
    stamp: tuple[int, int] | None,
    load: Callable[[int, Any], Any] = lambda _, record: record,
) -> Iterator[Entry | Unreadable | Ignored]:
    """Yield one entry per record, named by its own id or by the place's name and its number.

    ``load`` makes a document of a numbered record; it may raise :class:`UnreadableTrace`.
    """
    for n, offset, record in records:
        fallback = f"{place.name}:{n}"
        where = f"{place.path}:{n}"
        try:
            document = load(n, record)
        except UnreadableTrace as error:
            yield Unreadable(fallback, where, str(error))
            continue
        trace_id = generic.record_id(document) or fallback
        yield _document(document, trace_id, where, format, Spot(place, n, offset, stamp))


def _document(
    document: Any, trace_id: str, path: str, format: str, spot: Spot
) -> Entry | Unreadable | Ignored:
    candidates = readers(format).documents
    try:
        reader = next((reader for reader in candidates if reader.matches(document)), None)
    except UnreadableTrace as error:
        return Unreadable(trace_id, path, str(error))
    if reader is None:
        keys = (
            f" with the keys {', '.join(sorted(document)[:6])}"
            if isinstance(document, dict)
            else ""
        )
        lacks = f"not what {format} reads" if readers(format).origin else "no list of messages"
        return Ignored(path, f"not a trace: {kind(document)}{keys}, {lacks}")
    return Entry(trace_id, path, spot, partial(_read_document, reader, document, trace_id, path))


def _read_document(reader: Any, document: Any, trace_id: str, path: str) -> Trace | Unreadable:
    try:
        trace: Trace = reader.read(document, trace_id, path)
    except UnreadableTrace as error:
        return Unreadable(trace_id, path, str(error))
    except RecursionError:
        return Unreadable(trace_id, path, "nested too deeply to be read")
    return trace


def _stamp(place: Place) -> tuple[int, int] | None:
    """Return a file's time in nanoseconds and its size; None if it is not there, or no file."""
    try:
        info = Path(place.path).stat()
    except OSError:
        return None
    return info.st_mtime_ns, info.st_size
