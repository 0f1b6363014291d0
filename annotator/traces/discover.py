"""The folders, files and records that hold traces."""

import glob
import os
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from annotator.base.errors import AnnotatorError, UnreadableTrace
from annotator.base.remote import is_hub, localize, name_place
from annotator.base.text import format_count, replace_surrogates, sanitize_line
from annotator.traces.files import (
    JsonLines,
    Record,
    Rows,
    copy_records,
    has_trace_suffix,
    open_contents,
)
from annotator.traces.formats.recognise import (
    MAP_PREFIX,
    find_reader,
    load_readers,
    split,
)
from annotator.traces.model import Trace, check_trace
from annotator.traces.records import name_type

_PEEK = 20  # records that are looked at to tell whether those of a file belong together
_LINKED = "a link to a folder; name it to have it read"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A trace that cannot be read; a run records it as ``failed``."""

    id: str
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Ignored:
    """A file that is not a trace."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class TraceRef:
    """The place of a trace: a run folder, a file, or records of a file."""

    id: str
    path: str  # or URL that people see, with the number of the record
    file: str  # the path of the folder or file, on this machine
    reader: Any = None
    is_folder: bool = False  # a run folder
    by_itself: bool = False  # the user named the file: an id in it is preferred to its name
    number: int = 0  # of the record (a line, a row, an item of a list) from 1; 0: the file
    offset: int = 0  # the byte at which the record's line begins
    item: int = 0  # the number of the trace in a document of several, from 1; 0: the document
    records: "array[int] | None" = None  # number and byte of each record of a trace of many
    key: str = ""  # the id that those records share; "" if all of the file belong to the trace
    stamp: tuple[int, int] | None = None  # the time and size of the file
    problem: str = ""  # with records that may belong to this trace
    document: Any = None  # the content, or the names in a run folder, if in memory


Discovered = TraceRef | Unreadable | Ignored


class Names(NamedTuple):
    """The names in a folder: its folders (links to some among them), everything else, all links."""

    folders: frozenset[str]
    files: frozenset[str]
    links: frozenset[str]


Visited = dict[tuple[int, int], str]
"""The first path of each visited file and folder, by device and inode."""


def discover(sources: Sequence[str | Trace], format: str) -> Iterator[Discovered]:
    """Yield the traces of the sources, in order; a second one with an id is :class:`Unreadable`.

    Raises:
        AnnotatorError: a source does not exist, or ``format`` is unknown.
    """
    load_readers(format)  # raises before a source is read
    ids: set[int] = set()  # 64-bit hashes: 100,000 ids in a few megabytes
    for n, ref in enumerate(_discover(sources, format), 1):
        if not isinstance(ref, Ignored):
            if (key := hash(ref.id)) in ids:
                in_memory = isinstance(ref, TraceRef) and not ref.file
                new_id = f"{ref.id} [{n if in_memory else replace_surrogates(ref.path)}]"
                reason = f"a second trace with the id {ref.id!r}; give each its own, or name one"
                reason = (
                    ref.reason if isinstance(ref, Unreadable) else f"{reason} folder above both"
                )
                ref = Unreadable(new_id, ref.path, reason)
            ids.add(key)
        yield ref
        del ref  # it holds a document, and the next one is about to be read


def preview_files(sources: Sequence[str], format: str) -> Iterator[tuple[str, str | None, Any]]:
    """Yield the path and the format of each file, and a document of it.

    The format is None if a document among the first is of no known format, and is no part of a
    trace either; then that document is yielded, else the first. If the file cannot be read, the
    document is an :class:`UnreadableTrace`.
    """
    for ref in _find_all(sources, format):
        if isinstance(ref, TraceRef) and ref.is_folder:
            yield ref.path, ref.reader.name, None
        elif isinstance(ref, TraceRef):
            try:
                records = list(
                    islice(open_records(ref.file, stamp_file(ref.file), format)[0].records(), _PEEK)
                )
                if together := _find_grouping(records, format):
                    yield ref.path, together[0].name, together[1]
                    continue
                documents = [load() for _, _, load in records]
                pairs = [(find_reader(document, format), document) for document in documents]
                for reader, document in sorted(pairs, key=lambda pair: pair[0] is not None)[:1]:
                    yield ref.path, reader and reader.name, document
            except UnreadableTrace as error:
                yield ref.path, None, error


def list_folder(folder: str | Path) -> Names:
    """Return the names in a folder. Raises :class:`OSError` if it may not be listed."""
    folders, files, links = set[str](), set[str](), set[str]()
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                is_folder = entry.is_dir()
            except OSError:  # a link to itself
                is_folder = False
            (folders if is_folder else files).add(entry.name)
            if entry.is_symlink():
                links.add(entry.name)
    return Names(frozenset(folders), frozenset(files), frozenset(links))


def find_files(
    source: str, format: str = "auto", visited: Visited | None = None, base: Path | None = None
) -> Iterator[Discovered]:
    """Yield the run folders and files below one source, sorted, without opening them.

    Args:
        source: a folder, file, glob or URL; AnnotatorError if nothing has that name.
        format: as in :func:`discover`.
        visited: the files of other sources, which are not yielded again.
        base: the folder below which the id of a named file begins.
    """
    visited = {} if visited is None else visited
    path = localize(source)
    if os.path.lexists(path):
        root = Path(os.path.abspath(path))
        if root.is_dir():
            yield from _walk(root, root, format, visited)
        else:
            base = base or root.parent
            by_itself = replace(_make_file_ref(root, base), by_itself=True)
            yield from _visit(_find_run(root, base, format) or by_itself, visited)
        return
    if not glob.has_magic(str(path)):
        raise AnnotatorError(f"no such file or folder: {path}")
    parts = Path(os.path.abspath(path)).parts
    fixed = next(n for n, name in enumerate(parts) if glob.has_magic(name))
    root = Path(*parts[:fixed])
    matches = sorted(set(_expand(root, parts[fixed:])))
    if not matches:
        raise AnnotatorError(f"no file matches {path}")
    for match in matches:
        if not match.is_dir():
            file = _make_file_ref(match, root, root)
            yield from _visit(_find_run(match, root, format) or file, visited)
        elif match.is_symlink() and glob.has_magic(parts[-1]):
            yield Ignored(str(match), _LINKED)
        else:
            yield from _walk(match, root, format, visited)


def _discover(sources: Sequence[str | Trace], format: str) -> Iterator[Discovered]:
    """Yield as :func:`discover`, with ids that may occur twice."""
    for ref in _find_all(sources, format):
        if isinstance(ref, TraceRef) and not ref.is_folder and ref.document is None:
            try:
                yield from _discover_in_file(ref, format)
            except UnreadableTrace as error:
                yield Unreadable(ref.id, ref.path, str(error))
        else:
            yield ref


# --- folders and files


def _find_all(sources: Sequence[str | Trace], format: str) -> Iterator[Discovered]:
    """Yield the folders and files below all sources, each once, and the sources' traces."""
    names = [source for source in sources if isinstance(source, str) and not is_hub(source)]
    paths = [Path(os.path.abspath(localize(source))) for source in names]
    folders = [path.parent for path in paths if path.is_file()]
    base = Path(os.path.commonpath(folders)) if folders else None
    visited: Visited = {}
    for source in sources:
        if isinstance(source, Trace):
            yield _check_trace(source)
        elif is_hub(source):
            yield TraceRef(source, source, source, by_itself=True)
        else:
            for ref in find_files(source, format, visited, base):
                name = name_place(ref.path)
                yield ref if name == ref.path else replace(ref, path=name)


def _check_trace(trace: Trace) -> TraceRef | Unreadable:
    trace_id, problem = replace_surrogates(trace.id), check_trace(trace)
    if trace_id != trace.id:
        problem = "its id holds half a character, which no file can hold"
    if problem:
        return Unreadable(trace_id, trace.path, problem)
    return TraceRef(trace_id, trace.path, "", document=trace)


def _expand(folder: Path, parts: Sequence[str]) -> Iterator[Path]:
    """Yield the paths that a glob matches, some twice. Links to folders are followed only if the
    glob names them in full.
    """
    if not parts or tuple(parts) == ("**",):
        yield folder
    elif not glob.has_magic(parts[0]):
        if os.path.lexists(folder / parts[0]):
            yield from _expand(folder / parts[0], parts[1:])
    else:
        try:
            names = list_folder(folder)
        except PermissionError:
            yield folder  # reported as unreadable
            return
        except OSError:
            return
        below = names.folders - names.links
        if parts[0] == "**":
            yield from _expand(folder, parts[1:])
            children, parts = {name for name in below if name[0] != "."}, ("", *parts)
        else:
            candidates = below if parts[1:] else names.files | names.folders
            children = {name for name in candidates if fnmatchcase(name, parts[0])}
            children = {name for name in children if name[0] != "." or parts[0][0] == "."}
        for name in children:
            yield from _expand(folder / name, parts[1:])


def _walk(top: Path, root: Path, format: str, visited: Visited) -> Iterator[Discovered]:
    """Yield the traces and files below ``top``. Ids are paths below ``root``."""
    others: Counter[str] = Counter()
    folders = [str(top)]
    while folders:
        folder = folders.pop()
        if _find_earlier(folder, visited):
            continue
        try:
            names = list_folder(folder)
        except OSError as error:
            below = replace_surrogates(os.path.relpath(folder, root))  # there may be traces in it
            yield Unreadable(below, folder, f"folder: {error.strerror or error}")
            continue
        for name in sorted(names.folders & names.links):
            yield Ignored(f"{folder}/{name}", _LINKED)
        if {"run.json", "annotations.jsonl"} <= names.files:
            if folder == str(top):
                yield Ignored(folder, "a run directory")
            continue  # our own results among the traces
        folders += (f"{folder}/{name}" for name in sorted(names.folders - names.links)[::-1])
        if reader := _find_folder_reader(folder, names.files, format):
            yield _make_run_ref(folder, names, reader, root, top)
        elif load_readers(format).documents:
            for name in sorted(names.files):
                if has_trace_suffix(name):
                    yield from _visit(_make_file_ref(Path(folder, name), root, top), visited)
                else:
                    others[Path(name).suffix.lower() or name] += 1
    if others:
        counted = ", ".join(
            f"{n} {sanitize_line(suffix, 40)}" for suffix, n in others.most_common(12)
        )
        more = f" and {len(others) - 12} more kinds" if len(others) > 12 else ""
        yield Ignored(str(top), f"{counted}{more}: not looked into; name a file to have it read")


def _visit(ref: TraceRef | Unreadable, visited: Visited) -> Iterator[Discovered]:
    """Yield a file on the first visit, a note if it was visited under another name."""
    is_bad_link = isinstance(ref, Unreadable) and os.path.islink(ref.path)  # noqa: PTH114
    earlier = None if is_bad_link else _find_earlier(ref.path, visited)
    if earlier is None:
        yield ref
    elif earlier != ref.path:
        yield Ignored(ref.path, f"the same file as {earlier}")


def _find_earlier(path: str, visited: Visited) -> str | None:
    """Return the path under which a file was visited before; None on the first visit."""
    try:
        info = os.stat(path)  # noqa: PTH116 - as often as there are files
    except OSError:
        return None
    key = info.st_dev, info.st_ino
    earlier = visited.get(key)
    visited.setdefault(key, path)
    return earlier


def _make_file_ref(path: Path, root: Path, inside: Path | None = None) -> Any:
    """Return a file with its path below ``root``; Unreadable if a link that leaves ``inside``."""
    name = replace_surrogates(path.relative_to(root).as_posix())
    ref = TraceRef(name, str(path), str(path))
    return _check_links(ref, [path], inside) if inside else ref


def _find_run(path: Path, root: Path, format: str) -> TraceRef | Unreadable | None:
    """Return the run that a file belongs to, if any."""
    # Only for a file of a runner: the folder may hold thousands of others.
    if not any(reader.owns(path.name) for reader in load_readers(format).folders):
        return None
    try:
        names = list_folder(path.parent)
    except OSError:  # a file can be readable in a folder that is not
        return None
    reader = _find_folder_reader(str(path.parent), names.files, format)
    return reader and _make_run_ref(str(path.parent), names, reader, root, path.parent)


def _make_run_ref(
    folder: str, names: Names, reader: Any, root: Path, inside: Path
) -> TraceRef | Unreadable:
    """Return a run folder; Unreadable if a file of it is a link that leaves ``inside``."""
    parts = name_place(folder).split(os.sep)  # noqa: PTH206 - a Path takes longer to make
    if "logs" in parts[:-1]:
        logs = max(n for n, name in enumerate(parts[:-1]) if name == "logs")
        below = "/".join(parts[logs + 1 :])
    else:
        below = Path(folder).relative_to(root).as_posix()
        below = parts[-1] if below == "." else below
    below = replace_surrogates(below)
    ref = TraceRef(below, folder, folder, reader, is_folder=True, document=names)
    return _check_links(ref, [Path(folder, name) for name in sorted(names.links)], inside)


def _check_links(ref: TraceRef, files: Sequence[Path], inside: Path) -> TraceRef | Unreadable:
    """Return the trace; Unreadable if a file of it is a link that leaves a folder."""
    for file in files:
        try:
            if file.is_symlink() and not file.resolve(strict=True).is_relative_to(inside.resolve()):
                problem = "a link that leaves the given folder"
                return Unreadable(ref.id, ref.path, f"{file.name}: {problem}")
        except (OSError, RuntimeError):  # RuntimeError: a link to itself
            return Unreadable(ref.id, ref.path, f"{file.name}: a link that leads nowhere")
    return ref


def _find_folder_reader(folder: str, files: frozenset[str], format: str) -> Any:
    """Return the format that reads a folder with these files, or None."""
    name, readers = folder.rpartition(os.sep)[2], load_readers(format).folders
    return next((reader for reader in readers if reader.claims(name, files)), None)


# --- records of a file


def stamp_file(path: str) -> tuple[int, int] | None:
    """Return a file's time in nanoseconds and its size; None if there is no such file."""
    try:
        info = os.stat(path)  # noqa: PTH116 - as often as there are files
    except OSError:
        return None
    return info.st_mtime_ns, info.st_size


@lru_cache(maxsize=1)  # the traces of a file are read one after another
def open_records(
    file: str, stamp: tuple[int, int] | None, format: str
) -> tuple[JsonLines | Rows, bool]:
    """Return the records of a file with this stamp, and whether it is one document, the only one.

    Raises:
        UnreadableTrace: it cannot be opened, or is a document that cannot be read.
    """
    contents = open_contents(file)
    if isinstance(contents, JsonLines) or not isinstance(contents.rows, list):
        return contents, False
    [document] = contents.rows
    is_list = isinstance(document, list) and document and not find_reader(document, format)
    return Rows("", document if is_list else [document]), not is_list


@lru_cache(maxsize=2)
def index_records(
    file: str, stamp: tuple[int, int] | None, reader: Any, format: str
) -> Rows | JsonLines:
    """Return the records of a file of grouped ones by number; raises UnreadableTrace."""
    contents, _ = open_records(file, stamp, format)
    if isinstance(contents, JsonLines) or not isinstance(contents.rows, list):
        return copy_records(contents)
    return Rows("", [item for document in contents.rows for item in split(reader, document)])


def _discover_in_file(file: TraceRef, format: str) -> Iterator[Discovered]:
    """Yield the traces in a file or data set."""
    file = replace(file, stamp=stamp_file(file.file))
    contents, is_single = open_records(file.file, file.stamp, format)
    if is_single:
        yield from _discover_in_document(file, contents.at(1, 0), format)
        return
    records = contents.records()
    peek = list(islice(records, _PEEK))
    if together := _find_grouping(peek, format):
        del peek, records
        yield from _discover_in_groups(file, together[0], format)
        return
    rest = chain(peek, records)
    del peek
    n = 0
    for n, offset, load in rest:
        try:
            document = load()
        except UnreadableTrace as error:
            yield Unreadable(f"{file.id}:{n}", f"{file.path}:{n}", str(error))
            continue
        yield from _discover_in_document(file, document, format, n, offset)
    if not n:
        yield Ignored(file.path, "it holds no records")


def _find_grouping(records: list[Record], format: str) -> tuple[Any, Any] | None:
    """Return the first known record after its format, if that groups records, else None."""
    for _, _, load in records:
        with suppress(UnreadableTrace):
            document = load()
            if reader := find_reader(document, format):
                items = split(reader, document)
                grouped = items and reader.group(items[0]) is not None
                return (reader, document) if grouped else None
    return None


def _discover_in_document(
    file: TraceRef, document: Any, format: str, number: int = 0, offset: int = 0
) -> Iterator[Discovered]:
    """Yield the traces in a document: one, several, or groups of its records."""
    path = f"{file.path}:{number}" if number else file.path
    fallback = f"{file.id}:{number}" if number else file.id
    try:
        reader = find_reader(document, format)
        if reader is None:
            yield Ignored(path, _describe(document, format))
            return
        items = split(reader, document)
        if items and reader.group(items[0]) is not None:
            if number:
                raise UnreadableTrace(f"a part of a trace ({reader.name}) among whole traces")
            yield from _discover_in_groups(file, reader, format)
            return
        by_path = not number and not file.by_itself
        is_single = reader.split is None
        ids = [None if is_single and by_path else reader.identify(item) for item in items]
    except UnreadableTrace as error:
        yield Unreadable(fallback, path, str(error))
        return
    if not items:
        yield Ignored(path, f"{reader.name}: it holds no trace")
    for n, (trace_id, item) in enumerate(zip(ids, items, strict=True), 1):
        yield replace(
            file,
            id=trace_id or fallback if is_single else f"{file.id}:{trace_id or n}",
            path=path,
            reader=reader,
            number=number,
            offset=offset,
            item=0 if is_single else n,
            document=item,
        )


def _describe(document: Any, format: str) -> str:
    if format.startswith(MAP_PREFIX):
        [reader] = load_readers(format).documents
        return f"not a trace: {reader.explain(document)}; see annotate traces --explain"
    keys = ""
    if isinstance(document, dict) and document:
        keys = f" with the keys {', '.join(sorted(map(str, document))[:6])}"
    reason = "no known format" if format == "auto" else f"not of the format {format}"
    return f"not a trace: {name_type(document)}{keys}, {reason}; see annotate traces --explain"


def _discover_in_groups(file: TraceRef, reader: Any, format: str) -> Iterator[Discovered]:
    """Yield the traces of grouped records, in the order in which they begin; 16 bytes a record."""
    groups: dict[str, array[int]] = {}
    broken: list[tuple[int, str]] = []
    singles = array("Q")
    index = index_records(file.file, file.stamp, reader, format)
    for n, offset, load in index.records():
        try:
            items = split(reader, load())
            keys = dict.fromkeys(reader.group(item) for item in items)  # in their order
        except UnreadableTrace as error:
            broken.append((n, str(error)))
            continue
        if None in keys and reader.takes_records_apart:
            singles.extend((n, offset))
            continue
        for key in keys:
            groups.setdefault(key or "", array("Q")).extend((n, offset))
    for n, offset in zip(singles[::2], singles[1::2], strict=True):  # traces by themselves
        yield from _discover_in_document(file, index.at(n, offset), format, n, offset)
    trace_ids = [key for key in groups if key]
    strays = groups.pop("") if "" in groups and trace_ids else None
    if strays and len(trace_ids) > 1:
        count = format_count(len(strays) // 2, "record")
        yield Ignored(file.path, f"{count} without the id of one of its {len(trace_ids)} traces")
    elif strays:
        merged = strays + groups[trace_ids[0]]
        pairs = sorted(set(zip(merged[::2], merged[1::2], strict=True)))
        groups[trace_ids[0]] = array("Q", chain.from_iterable(pairs))
    reasons = "; ".join(reason for _, reason in broken[:3])
    for n, reason in broken if len(groups) > 1 else []:
        yield Unreadable(f"{file.id}:{n}", f"{file.path}:{n}", reason)
    if broken and len(groups) == 1:
        (key,) = groups
        yield Unreadable(key if key and file.by_itself else file.id, file.path, reasons)
        return
    problem = reasons and f"records that cannot be read may belong to this trace: {reasons}"
    for key, records in groups.items():
        ref = replace(file, reader=reader, records=records, problem=problem)
        if len(groups) == 1:
            yield replace(ref, id=key if key and file.by_itself else file.id)
        else:
            path = f"{file.path}:{records[0]}"
            yield replace(ref, id=key or file.id, path=path, key=key)
