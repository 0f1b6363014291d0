"""From what the user named to a stream of traces: find, detect, read, one at a time."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from annotator.errors import AnnotatorError, UnreadableTrace
from annotator.text import storable
from annotator.traces import generic, hub
from annotator.traces.conversation import is_message
from annotator.traces.document import kind, parse, read_head, read_json
from annotator.traces.formats import DOCUMENT_FORMATS, FORMATS
from annotator.traces.model import Trace
from annotator.traces.places import Ignored, Place, Unreadable, common_folder, places

Found = Trace | Unreadable | Ignored


def read_traces(sources: Sequence[str], format: str = "auto") -> Iterator[Found]:
    """Yield every trace below ``sources`` (folders, files, globs, ``hf://org/name[:split]``).

    One trace is in memory at a time. The order is that of the sources, then of the paths. A second
    trace with an id already seen is yielded as :class:`Unreadable`. Trace ids are: the path below
    the folder named ``logs`` for run folders; else, for a file with one trace, its path below the
    given folder; else the record's own id (``file:line`` if it has none).

    Args:
        sources: what the user named; at least one.
        format: a name of ``FORMATS``, or ``auto`` to recognise each folder and file.

    Raises:
        AnnotatorError: a source does not exist, or ``format`` is unknown.
    """
    if format not in ("auto", *FORMATS):
        raise AnnotatorError(f"unknown format {format!r}: use auto, {', '.join(FORMATS)}")
    seen: set[int] = set()  # 64-bit hashes: 100,000 ids in a few megabytes
    for found in _read_all(sources, format):
        if not isinstance(found, Ignored):
            key = hash(found.id)
            if key in seen:
                yield _twice(found)
                continue
            seen.add(key)
        yield found


def _twice(found: Trace | Unreadable) -> Unreadable:
    reason = (
        f"a second trace with the id {found.id!r}; give each its own, or name one folder above both"
    )
    return Unreadable(f"{found.id} [{storable(found.path)}]", found.path, reason)


def _read_all(sources: Sequence[str], format: str) -> Iterator[Found]:
    beside = common_folder(sources)
    visited: set[int] = set()
    for source in sources:
        if source.startswith("hf://"):
            yield from _records(hub.records(source), source, format)
            continue
        for place in places(source, format, beside):
            if not isinstance(place, Place):
                yield place
                continue
            key = hash(place.path)
            if key in visited:  # named twice, or below a folder named before
                continue
            visited.add(key)
            if place.reader:
                yield _read_folder(place, place.reader)
            elif Path(place.path).suffix == ".json":
                yield from _read_json(place, format)
            else:
                yield from _read_jsonl(place, format)


def _read_folder(place: Place, reader: ModuleType) -> Found:
    try:
        if place.bad_link:
            raise UnreadableTrace(place.bad_link)
        trace: Trace = reader.read(place.path, place.names, place.name)
    except UnreadableTrace as error:
        return Unreadable(place.name, place.path, str(error))
    return trace


def _document_reader(document: Any, format: str) -> ModuleType | None:
    candidates = (one for one in DOCUMENT_FORMATS if format in ("auto", one.name))
    return next((one for one in candidates if one.matches(document)), None)


def _read_json(place: Place, format: str) -> Iterator[Found]:
    fallback, path = place.name, Path(place.path)
    try:
        if place.bad_link:
            raise UnreadableTrace(place.bad_link)
        document = read_json(str(path.parent), path.name)
    except UnreadableTrace as error:
        yield Unreadable(fallback, place.path, str(error))
        return
    if isinstance(document, list) and document and not is_message(document[0]):
        yield from _records(enumerate(document, 1), place.path, format, fallback)
        return
    trace_id = place.id or generic.own_id(document) or fallback
    yield _read_document(document, trace_id, place.path, format)


def _read_document(document: Any, trace_id: str, path: str, format: str) -> Found:
    reader = _document_reader(document, format)
    if reader is None:
        keys = (
            f" with the keys {', '.join(sorted(document)[:6])}"
            if isinstance(document, dict)
            else ""
        )
        return Ignored(path, f"not a trace: {kind(document)}{keys}, no list of messages")
    try:
        trace: Trace = reader.read(document, trace_id, path)
    except UnreadableTrace as error:
        return Unreadable(trace_id, path, str(error))
    except RecursionError:
        return Unreadable(trace_id, path, "nested too deeply to be read")
    return trace


def _read_jsonl(place: Place, format: str) -> Iterator[Found]:
    fallback, path = place.name, Path(place.path)
    try:
        if place.bad_link:
            raise UnreadableTrace(place.bad_link)
        if b"\x00" in read_head(str(path.parent), path.name):
            raise UnreadableTrace(f"{path.name}: binary data, not JSON")
        first = _first_line(path)
        if is_message(first):
            document = [parse(line, path.name, line=n) for n, line in _lines(path)]
            yield _read_document(document, fallback, place.path, format)
            return
        yield from _records(
            _lines(path),
            place.path,
            format,
            fallback,
            load=lambda n, line: parse(line, fallback, line=n),
        )
    except UnreadableTrace as error:
        yield Unreadable(fallback, place.path, str(error))


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the non-empty lines of a file with their numbers, one in memory at a time."""
    try:
        if not path.is_file():
            raise UnreadableTrace(f"{path.name}: not a regular file")
        with path.open(encoding="utf-8-sig", errors="replace", newline="\n") as file:
            for n, line in enumerate(file, 1):
                if line.strip():
                    yield n, line
    except OSError as error:
        raise UnreadableTrace(f"{path.name}: {error.strerror or error}") from error


def _first_line(path: Path) -> Any:
    for _, line in _lines(path):
        try:
            return parse(line, path.name)
        except UnreadableTrace:
            return None
    raise UnreadableTrace(f"{path.name}: empty file")


def _records(
    records: Iterable[tuple[int, Any]],
    path: str,
    format: str,
    name: str | None = None,
    load: Callable[[int, Any], Any] = lambda _, record: record,
) -> Iterator[Found]:
    """Yield one trace per record, named by its own id or by ``name:number``.

    ``load`` makes a document of a numbered record; it may raise :class:`UnreadableTrace`.
    """
    for n, record in records:
        fallback = f"{name or path}:{n}"
        where = f"{path}:{n}"
        try:
            document = load(n, record)
        except UnreadableTrace as error:
            yield Unreadable(fallback, where, str(error))
            continue
        yield _read_document(document, generic.own_id(document) or fallback, where, format)


def exists(source: str) -> None:
    """Raise :class:`AnnotatorError` if nothing has that name; hub names are not looked up."""
    if not source.startswith("hf://"):
        next(places(source), None)


def count_traces(sources: Sequence[str], format: str = "auto") -> int:
    """Return how many traces :func:`read_traces` will find, roughly and cheaply.

    It counts run folders, JSON files and lines of JSONL files, and opens nothing else.
    """
    total = 0
    for source in sources:
        for place in () if source.startswith("hf://") else places(source, format):
            if (
                isinstance(place, Place)
                and place.reader is None
                and Path(place.path).suffix != ".json"
            ):
                with suppress(UnreadableTrace):
                    total += sum(1 for _ in _lines(Path(place.path)))
            else:
                total += 1
    return total
