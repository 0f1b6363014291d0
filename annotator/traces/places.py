"""Where traces lie: the run folders and files below what the user named."""

import glob
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from annotator.errors import AnnotatorError, UnreadableTrace
from annotator.remote import is_hub, localize, name_place
from annotator.text import one_line, storable
from annotator.traces.contents import SAVED, is_looked_into
from annotator.traces.formats import readers

_LINKED = "a link to a folder; name it to have it read"


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


@dataclass(frozen=True, slots=True)
class Place:
    """A run folder or a file found. ``id`` is the trace id that its place gives it, if any;
    ``name`` stands for it where the trace has no id of its own.
    """

    path: str
    id: str | None
    name: str
    reader: Any | None = None  # of a run folder
    names: frozenset[str] = frozenset()  # of all that lies in a run folder
    bad_link: str | None = None  # what is wrong with a link among the files
    inside: Path | None = None  # the folder that links of a run folder must not leave


class _Names(NamedTuple):
    """What lies in a folder, by name: the folders, links to some among them, with their paths; all
    else; the links.
    """

    folders: dict[str, str]
    files: frozenset[str]
    links: frozenset[str]


def common_folder(sources: Sequence[str]) -> Path | None:
    """Return the folder that holds all files given by themselves; they are named below it."""
    paths = [localize(source) for source in sources if not is_hub(source)]
    folders = [Path(os.path.abspath(path)).parent for path in paths if path.is_file()]
    return Path(os.path.commonpath(folders)) if folders else None


def places(
    source: str, format: str = "auto", beside: Path | None = None
) -> Iterator[Place | Unreadable | Ignored]:
    """Yield the run folders and files below one source, sorted, without opening them.

    ``beside``: the folder below which a file given by itself is named.

    Raises:
        AnnotatorError: nothing has that name.
    """
    path = localize(source)
    source = str(path)
    if os.path.lexists(path):
        root = Path(os.path.abspath(path))
        if root.is_dir():
            yield from _walk(root, root, format, _PlacesMet())
        else:
            yield _file(root, beside or root.parent, format, by_itself=True)
        return
    if not glob.has_magic(source):
        raise AnnotatorError(f"no such file or folder: {source}")
    root = _root_of_glob(source)
    closed: list[OSError] = []
    matches = sorted(_matches(source, closed))
    if not matches and not closed:
        raise AnnotatorError(f"no file matches {source}")
    yield from _report_closed(closed, root)
    seen = _PlacesMet()
    for match in matches:
        path = Path(match)
        if not path.is_dir():
            yield from seen.once(replace(_file(path, root, format), bad_link=_link(path, root)))
        elif path.is_symlink() and glob.has_magic(Path(source).name):
            yield Ignored(match, _LINKED)
        else:
            yield from _walk(path, root, format, seen)


class _PlacesMet:
    """The files and folders met, by device and inode: none is read twice, whatever its names."""

    def __init__(self) -> None:
        self._paths: dict[tuple[int, int], str] = {}

    def first(self, path: str) -> str | None:
        """Return the path by which something was met before, None if it was not."""
        try:
            info = os.stat(path)  # noqa: PTH116 - as often as there are files
        except OSError:
            return None
        key = info.st_dev, info.st_ino
        before = self._paths.get(key)
        self._paths.setdefault(key, path)
        return before

    def once(self, place: Place) -> Iterator[Place | Ignored]:
        """Yield a place, or say whose other name it is; nothing if it was met by this name."""
        before = None if place.bad_link else self.first(place.path)
        if before is None:
            yield place
        elif before != place.path:
            yield Ignored(place.path, f"the same file as {before}")


def _matches(pattern: str, closed: list[OSError]) -> Iterator[str]:
    """Yield the paths that a glob matches, each once. No link to a folder is followed but one that
    is named in full; a last ``**`` is its folder. Folders that cannot be listed are ``closed``.
    """
    top, *parts = Path(os.path.abspath(pattern)).parts
    waiting = [(top, tuple(parts))]
    seen = set()
    while waiting:
        path, rest = place = waiting.pop()
        if place in seen:
            continue
        seen.add(place)
        if not rest or rest == ("**",):
            if os.path.isdir(path) or not pattern.endswith(os.sep):  # noqa: PTH112
                yield path
            continue
        head, after = rest[0], rest[1:]
        if not glob.has_magic(head):
            if os.path.lexists(child := str(Path(path, head))):
                waiting.append((child, after))
            continue
        try:
            names = _names(path)
        except NotADirectoryError:
            continue
        except OSError as error:
            closed.append(error)
            continue
        below = {name: at for name, at in names.folders.items() if name not in names.links}
        if head == "**":
            waiting.append((path, after))
            waiting += [(at, rest) for name, at in below.items() if name[0] != "."]
        else:
            for name in below if after else names.files.union(names.folders):
                if fnmatchcase(name, head) and (name[0] != "." or head[0] == "."):
                    waiting.append((str(Path(path, name)), after))


def _root_of_glob(pattern: str) -> Path:
    """Return the folder that every match of a glob lies in: ids are the paths below it."""
    parts = Path(os.path.abspath(pattern)).parts
    first = next(n for n, part in enumerate(parts) if glob.has_magic(part))
    return Path(*parts[:first])


def _file(path: Path, root: Path, format: str, *, by_itself: bool = False) -> Place:
    """Return the place of one file; a file of a run folder stands for the run.

    Its name is its path below ``root``; that is its id, too, unless it was given ``by_itself``.
    """
    # The folder is looked at for a file of a runner only: thousands of others may lie in it.
    if any(reader.owns(path.name) for reader in readers(format).folders):
        with suppress(OSError):  # a file can be readable in a folder that is not
            names = _names(path.parent)
            if reader := _folder_reader(path.parent.name, names.files | names.links, format):
                return _run(str(path.parent), names, reader, root, path.parent)
    place = _document(path, root)
    return replace(place, id=None) if by_itself else place


def _document(path: Path, root: Path) -> Place:
    below = storable(path.relative_to(root).as_posix())
    return Place(str(path), below, below)


def _run(folder: str, names: _Names, reader: Any, root: Path, inside: Path) -> Place:
    """Return the place of a run folder, whose files must not be links out of ``inside``."""
    trace_id = _run_id(folder, root)
    bad_link = _bad_link(folder, names, inside)
    held = names.files.union(names.folders)
    return Place(folder, trace_id, trace_id, reader, held, bad_link, inside)


def look_again(place: Place) -> Place:
    """Return the place of a run folder with what lies in the folder now.

    Raises:
        UnreadableTrace: it is gone, or no run folder any more.
    """
    folder = place.path
    try:
        names = _names(folder)
    except OSError as error:
        raise UnreadableTrace(f"folder: {error.strerror or error}") from error
    if not place.reader or not place.reader.claims(Path(folder).name, names.files | names.links):
        raise UnreadableTrace("folder: there is no run in it any more")
    bad_link = _bad_link(folder, names, place.inside or Path(folder))
    return replace(place, names=names.files.union(names.folders), bad_link=bad_link)


def _bad_link(folder: str, names: _Names, inside: Path) -> str | None:
    """Return what is wrong with the first of the links in a folder, if anything is."""
    bad_links = (_link(Path(folder, name), inside) for name in sorted(names.links))
    return next(filter(None, bad_links), None)


def _link(path: Path, inside: Path) -> str | None:
    """Return what is wrong with a path that is a link: it leads out of a folder, or nowhere."""
    if not path.is_symlink():
        return None
    try:
        leaves = not path.resolve(strict=True).is_relative_to(inside.resolve())
    except (OSError, RuntimeError):  # RuntimeError: a link to itself
        return f"{path.name}: a link that leads nowhere"
    return f"{path.name}: a link that leaves the given folder" if leaves else None


def _names(folder: str | Path) -> _Names:
    """Return the names in a folder. Raises :class:`OSError` if it may not be listed."""
    folders: dict[str, str] = {}
    files: list[str] = []
    links: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if _is_folder(entry):
                folders[entry.name] = entry.path
            else:
                files.append(entry.name)
            if entry.is_symlink():
                links.append(entry.name)
    return _Names(folders, frozenset(files), frozenset(links))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _folder_reader(folder: str, files: frozenset[str], format: str) -> Any:
    """Return what reads a folder with this name and these files, None if nothing does."""
    return next(
        (reader for reader in readers(format).folders if reader.claims(folder, files)), None
    )


def _walk(
    top: Path, root: Path, format: str, seen: _PlacesMet
) -> Iterator[Place | Unreadable | Ignored]:
    """Yield what lies below ``top`` and was not ``seen``; ids are paths below ``root``."""
    closed: list[OSError] = []
    others: Counter[str] = Counter()
    waiting = [str(top)]
    while waiting:
        folder = waiting.pop()
        if seen.first(folder):
            continue
        try:
            names = _names(folder)
        except OSError as error:
            closed.append(error)
            continue
        yield from _report_closed(closed, root)
        below = []
        for name in sorted(names.folders):
            if name in names.links:
                yield Ignored(names.folders[name], _LINKED)
            else:
                below.append(names.folders[name])
        if {"run.json", "annotations.jsonl"} <= names.files:
            yield Ignored(folder, "a run directory")
            continue
        waiting += reversed(below)
        if reader := _folder_reader(folder.rpartition(os.sep)[2], names.files, format):
            yield _run(folder, names, reader, root, top)
        elif readers(format).documents and names.files >= SAVED:
            yield _document(Path(folder), root)
        elif readers(format).documents:
            for name in sorted(names.files):
                if is_looked_into(name):
                    path = Path(folder, name)
                    place = replace(_document(path, root), bad_link=_link(path, top))
                    yield from seen.once(place)
                else:
                    others[Path(name).suffix.lower() or name] += 1
    yield from _report_closed(closed, root)
    if others:
        counted = ", ".join(f"{n} {one_line(suffix, 40)}" for suffix, n in others.most_common(12))
        more = f" and {len(others) - 12} more kinds" if len(others) > 12 else ""
        yield Ignored(str(top), f"{counted}{more}: not looked into; name a file to have it read")


def _report_closed(errors: list[OSError], root: Path) -> Iterator[Unreadable]:
    """Yield the folders that could not be opened: there may be traces in them."""
    while errors:
        error = errors.pop()
        below = storable(os.path.relpath(error.filename, root))
        yield Unreadable(below, str(error.filename), f"folder: {error.strerror or error}")


def _run_id(folder: str, root: Path) -> str:
    """Return the path below the last folder named ``logs``, else below the given folder."""
    parts = name_place(folder).split(os.sep)  # noqa: PTH206 - a Path takes longer to make
    if "logs" in parts[:-1]:
        last = max(n for n, part in enumerate(parts[:-1]) if part == "logs")
        return storable("/".join(parts[last + 1 :]))
    below = Path(folder).relative_to(root).as_posix()
    return storable(parts[-1] if below == "." else below)
