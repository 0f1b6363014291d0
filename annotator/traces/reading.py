"""From what the user named to a stream of traces: find, detect, read, one at a time."""

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from annotator.errors import AnnotatorError, UnreadableTrace
from annotator.text import storable
from annotator.traces import cooperbench, export, generic, hub
from annotator.traces.conversation import is_message
from annotator.traces.document import kind, parse, read_head, read_json
from annotator.traces.model import Trace

# Formats that are a folder of files, and formats that are one JSON document (a file, or a line of
# a JSONL file). The first that recognises its own wins. A new format is one file and one name here.
FOLDER_FORMATS: tuple[ModuleType, ...] = (cooperbench,)
DOCUMENT_FORMATS: tuple[ModuleType, ...] = (export, generic)
FORMATS = tuple(module.name for module in (*FOLDER_FORMATS, *DOCUMENT_FORMATS))
_SUFFIXES = (".json", ".jsonl", ".ndjson")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A trace that is there and cannot be read; in a run it is recorded as ``failed``."""

    id: str
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Ignored:
    """A file that is not a trace."""

    path: str
    reason: str


Found = Trace | Unreadable | Ignored


@dataclass(frozen=True, slots=True)
class _Place:
    """A run folder or a file found. ``id`` is the trace id that its place gives it, if any;
    ``name`` stands for it where the trace has no id of its own.
    """

    path: Path
    id: str | None
    name: str
    reader: ModuleType | None = None  # of a run folder
    bad_link: str | None = None  # what is wrong with a link among the files


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
    beside = _common_folder(sources)
    visited: set[int] = set()
    for source in sources:
        if source.startswith("hf://"):
            yield from _records(hub.records(source), source, format)
            continue
        for place in places(source, format, beside):
            if not isinstance(place, _Place):
                yield place
                continue
            key = hash(place.path)
            if key in visited:  # named twice, or below a folder named before
                continue
            visited.add(key)
            if place.reader:
                yield _read_folder(place, place.reader)
            elif place.path.suffix == ".json":
                yield from _read_json(place, format)
            else:
                yield from _read_jsonl(place, format)


def _common_folder(sources: Sequence[str]) -> Path | None:
    """Return the folder that holds all files given by themselves; they are named below it."""
    folders = [Path(os.path.abspath(one)).parent for one in sources if Path(one).is_file()]
    return Path(os.path.commonpath(folders)) if folders else None


def places(
    source: str, format: str = "auto", beside: Path | None = None
) -> Iterator[_Place | Unreadable | Ignored]:
    """Yield the run folders and files below one source, sorted, without opening them.

    ``beside``: the folder below which a file given by itself is named.

    Raises:
        AnnotatorError: nothing has that name.
    """
    path = Path(source)
    if os.path.lexists(path):
        root = Path(os.path.abspath(path))
        if root.is_dir():
            yield from _walk(root, root, format)
        else:
            yield _file(root, beside or root.parent, format, given=True)
        return
    if not glob.has_magic(source):
        raise AnnotatorError(f"no such file or folder: {source}")
    matches = sorted(glob.glob(source, recursive=True))
    if not matches:
        raise AnnotatorError(f"no file matches {source}")
    root = _fixed_part(source)
    for match in matches:
        path = Path(os.path.abspath(match))
        if path.is_dir():
            yield from _walk(path, root, format)
        else:
            yield _file(path, root, format)


def _fixed_part(pattern: str) -> Path:
    """Return the folder that every match of a glob lies in: ids are the paths below it."""
    parts = Path(os.path.abspath(pattern)).parts
    first = next(n for n, part in enumerate(parts) if glob.has_magic(part))
    return Path(*parts[:first])


def _file(path: Path, root: Path, format: str, *, given: bool = False) -> _Place:
    """Return the place of one file; a file of a run folder stands for the run.

    Its name is its path below ``root``; that is its id, too, unless it was ``given`` by itself.
    """
    # The folder is looked at for a file of a runner only: thousands of others may lie in it.
    owned = any(one.owns(path.name) for one in FOLDER_FORMATS)
    reader = _folder_reader(path.parent, _names(path.parent), format) if owned else None
    if reader:
        return _run(path.parent, reader, root, path.parent)
    place = _document(path, root)
    return replace(place, id=None) if given else place


def _document(path: Path, root: Path) -> _Place:
    below = storable(path.relative_to(root).as_posix())
    return _Place(path, below, below)


def _run(folder: Path, reader: ModuleType, root: Path, inside: Path) -> _Place:
    """Return the place of a run folder, whose files must not be links out of ``inside``."""
    bad_links = (_link(folder / name, inside) for name in sorted(_names(folder, links=True)))
    trace_id = _run_id(folder, root)
    return _Place(folder, trace_id, trace_id, reader, next(filter(None, bad_links), None))


def _link(path: Path, inside: Path) -> str | None:
    """Return what is wrong with a path that is a link: it leads out of a folder, or nowhere."""
    if not path.is_symlink():
        return None
    try:
        leaves = not path.resolve(strict=True).is_relative_to(inside.resolve())
    except (OSError, RuntimeError):  # RuntimeError: a link to itself
        return f"{path.name}: a link that leads nowhere"
    return f"{path.name}: a link that leaves the given folder" if leaves else None


def _names(folder: Path, *, links: bool = False) -> frozenset[str]:
    """Return the names in a folder that are no folders themselves, or only the links of them."""
    try:
        with os.scandir(folder) as entries:
            files = [one for one in entries if not one.is_dir(follow_symlinks=False)]
            return frozenset(one.name for one in files if one.is_symlink() or not links)
    except OSError:  # a file can be readable in a folder that is not
        return frozenset()


def _folder_reader(folder: Path, files: frozenset[str], format: str) -> ModuleType | None:
    candidates = (one for one in FOLDER_FORMATS if format in ("auto", one.name))
    return next((one for one in candidates if one.claims(folder.name, files)), None)


def _walk(top: Path, root: Path, format: str) -> Iterator[_Place | Unreadable | Ignored]:
    """Yield what lies below ``top``; ids are paths below ``root``."""
    closed: list[OSError] = []
    for current, folders, files in os.walk(top, onerror=closed.append):
        folder, names = Path(current), frozenset(files)
        folders.sort()
        yield from _closed(closed, root)
        for name in folders:
            if (folder / name).is_symlink():
                yield Ignored(str(folder / name), "a link to a folder; name it to have it read")
        if {"run.json", "annotations.jsonl"} <= names:
            folders.clear()
            yield Ignored(current, "a run directory")
        elif reader := _folder_reader(folder, names, format):
            yield _run(folder, reader, root, top)
        elif format not in {one.name for one in FOLDER_FORMATS}:
            for name in sorted(files):
                if name.endswith(_SUFFIXES):
                    place = _document(folder / name, root)
                    yield replace(place, bad_link=_link(place.path, top))
    yield from _closed(closed, root)


def _closed(errors: list[OSError], root: Path) -> Iterator[Unreadable]:
    """Yield the folders that could not be opened: there may be traces in them."""
    while errors:
        error = errors.pop()
        below = storable(os.path.relpath(error.filename, root))
        yield Unreadable(below, str(error.filename), f"folder: {error.strerror or error}")


def _run_id(folder: Path, root: Path) -> str:
    """Return the path below the last folder named ``logs``, else below the given folder."""
    parts = folder.parts
    if "logs" in parts[:-1]:
        last = max(n for n, part in enumerate(parts[:-1]) if part == "logs")
        return storable("/".join(parts[last + 1 :]))
    below = folder.relative_to(root).as_posix()
    return storable(folder.name if below == "." else below)


def _read_folder(place: _Place, reader: ModuleType) -> Found:
    try:
        if place.bad_link:
            raise UnreadableTrace(place.bad_link)
        trace: Trace = reader.read(place.path, place.name)
    except UnreadableTrace as error:
        return Unreadable(place.name, str(place.path), str(error))
    return trace


def _document_reader(document: Any, format: str) -> ModuleType | None:
    candidates = (one for one in DOCUMENT_FORMATS if format in ("auto", one.name))
    return next((one for one in candidates if one.matches(document)), None)


def _read_json(place: _Place, format: str) -> Iterator[Found]:
    fallback = place.name
    try:
        if place.bad_link:
            raise UnreadableTrace(place.bad_link)
        document = read_json(place.path)
    except UnreadableTrace as error:
        yield Unreadable(fallback, str(place.path), str(error))
        return
    if isinstance(document, list) and document and not is_message(document[0]):
        yield from _records(enumerate(document, 1), str(place.path), format, fallback)
        return
    trace_id = place.id or generic.own_id(document) or fallback
    yield _read_document(document, trace_id, str(place.path), format)


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


def _read_jsonl(place: _Place, format: str) -> Iterator[Found]:
    fallback = place.name
    try:
        if place.bad_link:
            raise UnreadableTrace(place.bad_link)
        if b"\x00" in read_head(place.path):
            raise UnreadableTrace(f"{place.path.name}: binary data, not JSON")
        first = _first_line(place.path)
        if is_message(first):
            name = place.path.name
            document = [parse(line, name, line=n) for n, line in _lines(place.path)]
            yield _read_document(document, fallback, str(place.path), format)
            return
        yield from _records(
            _lines(place.path),
            str(place.path),
            format,
            fallback,
            load=lambda n, line: parse(line, fallback, line=n),
        )
    except UnreadableTrace as error:
        yield Unreadable(fallback, str(place.path), str(error))


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
            if isinstance(place, _Place) and place.reader is None and place.path.suffix != ".json":
                with suppress(UnreadableTrace):
                    total += sum(1 for _ in _lines(place.path))
            else:
                total += 1
    return total
