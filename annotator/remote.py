"""What lies at URLs (``s3://``, ``gs://``, ``hf://datasets/...``, all that fsspec reads): objects
are fetched into a copy on this machine, which is read in their place; whole files are put.

Of a copy, a file's time is no time but a stamp of its object's tag and size: a second reading
fetches only what has another by now, and a file that was changed here is fetched again.
"""

import glob
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from annotator.errors import AnnotatorError
from annotator.extras import say_how
from annotator.locks import ScratchFolder
from annotator.text import one_line, storable, without_url_secrets

# Of a path, too, where two slashes have become one.
_URL = re.compile(r"([a-z][a-z0-9+.-]+):/(?:/+|(?!/))(.+)", re.DOTALL)
_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs"}
_TAGS = ("ETag", "etag", "md5Hash", "generation", "blob_id", "sha256")
_TIMES = ("LastModified", "last_modified", "updated", "mtime", "created")
_AT_ONCE = 2000  # objects in one bulk fetch

on_fetch: Callable[[str], None] = lambda text: None  # noqa: E731 - set by the command line
_refused: dict[str, dict[str, str]] = {}  # of each URL fetched in this process


def find_url(place: str | Path) -> str | None:
    """Return the URL that a string or path is of; None if it is none: a local path, or a data set
    of the hub (``hf://org/name``).

    Raises:
        AnnotatorError: it holds a secret, which every annotation would name.
    """
    text = os.fspath(place)
    match = _URL.fullmatch(text)
    if not match or ("://" not in text and os.path.lexists(f"{match[1]}:")):
        return None
    scheme, rest = match[1], match[2].rstrip("/")
    if scheme == "hf" and not re.match(r"(datasets|spaces|buckets)/[^/]+/[^/]", rest):
        return None
    if re.match(r"[^/]*:[^/]*@", rest) or (scheme in ("http", "https") and re.search("[?#]", rest)):
        raise AnnotatorError(
            f"{scheme}:// with a password or a query: it would stand in what is written; set it in"
            " the environment, or download the file"
        )
    return f"{scheme}://{rest}"


def is_hub(source: str) -> bool:
    """Whether a source is a data set of the hub, and no URL of files in one."""
    return source.startswith("hf://") and not find_url(source)


def refuse_url(place: str | Path, what: str) -> None:
    """Raise :class:`AnnotatorError` if a place is a URL: ``what`` cannot be at one, and why."""
    if url := find_url(place):
        raise AnnotatorError(f"cannot write {one_line(url)}: {what}")


def name_place(place: str | Path) -> str:
    """Return how a path is shown: that of a copy, or of a URL, as the URL."""
    text, root = os.fspath(place), f"{_copies()}{os.sep}"
    if _refused and text.startswith(root):
        scheme, _, rest = text.removeprefix(root).partition(os.sep)
        return f"{scheme}://{rest}"
    return find_url(text) or text


def cache_folder() -> Path:
    """Return this tool's folder in the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME")
    try:
        folder = Path(home) if home else Path.home() / ".cache"
    except RuntimeError:  # a user without a home
        folder = Path(tempfile.gettempdir()) / f"annotator-{os.getuid()}"
    return folder / "annotator"


def localize(place: str | Path, names: Collection[str] = (), *, again: bool = False) -> Path:
    """Return the path at which a place is read: of a URL, its copy, fetched once a process; of a
    glob, the glob of the copy. ``names``: only files with these names are fetched. ``again``: look
    anew whether something has changed.

    Raises:
        AnnotatorError: nothing is there, or it cannot be fetched.
    """
    url = find_url(place)
    if not url:
        return Path(place)
    copy = _copy_of(url)
    key = "\n".join((url, *names))
    if again or key not in _refused:
        _refused[key] = dict(_fetch(url, copy, names))
    return copy


def list_refused(source: str) -> Mapping[str, str]:
    """Return the objects below a fetched URL that no copy can hold, and why."""
    return _refused.get(find_url(source) or "", {})


def put_file(file: Path, url: str, *, exclusive: bool = False) -> None:
    """Put a file at a URL, in one step. ``exclusive``: not where something is.

    Raises:
        AnnotatorError: it cannot be put, or something is there.
    """
    system, path = _open(url)
    with _explain(url, "written"):
        if exclusive:
            system.invalidate_cache()
            if system.exists(path):
                raise AnnotatorError(f"{one_line(url)} is there already; name another")
        system.put_file(str(file), path)


def _copies() -> str:
    return _resolve(os.environ.get("ANNOTATOR_COPIES") or str(cache_folder() / "copies"))


@lru_cache(maxsize=8)
def _resolve(folder: str) -> str:
    return os.path.realpath(folder)


def _copy_of(url: str) -> Path:
    scheme, _, rest = url.partition("://")
    if reason := _refuse(rest):
        raise AnnotatorError(f"{one_line(url)}: {reason}")
    return Path(_copies(), scheme, rest)


def _refuse(key: str) -> str:
    """Return why no file below a copy can have the name of an object, "" if one can."""
    for part in key.split("/"):
        if part in ("", ".", ".."):
            return f"{part!r} in its name can be no folder or file"
        if not part.isprintable() and re.search(r"[\0-\x1f\x7f]", part):
            return "control characters in its name"
        if part != storable(part) or len(part.encode()) > 240:
            return "a name that no file can have"
    return ""


def _open(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it."""
    import fsspec  # here and in what it loads: only for those who name a URL

    scheme = url.partition("://")[0]
    if scheme in ("file", "local") or "::" in url:
        raise AnnotatorError(f"{one_line(url)}: name the path of the file or folder itself")
    with _explain(url, "read"):
        try:
            system, path = fsspec.core.url_to_fs(url, **_settle_retries(scheme))
        except ImportError as error:
            extra = _EXTRAS.get(scheme)
            how = say_how(extra) if extra else one_line(str(error))
            raise AnnotatorError(f"{one_line(url)}: a package is missing: {how}") from error
        return system, path


def _settle_retries(scheme: str) -> dict[str, Any]:
    """Return settings with which a host that does not answer is given up within seconds: s3fs tries
    again what botocore has tried again.
    """
    if scheme not in ("s3", "s3a") or "AWS_MAX_ATTEMPTS" in os.environ:
        return {}
    return {"config_kwargs": {"retries": {"total_max_attempts": 2}}}


class _explain:
    """Say in one sentence why a URL cannot be read or written, whichever library says so."""

    def __init__(self, url: str, done: str) -> None:
        self._url, self._done = url, done

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, Exception) or isinstance(error, AnnotatorError):
            return
        name = type(error).__name__
        reason = str(error) or name
        if isinstance(error, FileNotFoundError):
            cause = error.__cause__  # of http, whatever went wrong
            reason = "no such bucket, object or folder"
            reason = str(cause) if isinstance(cause, OSError) else reason
        elif "Credentials" in name:
            reason += "; set the store's keys in the environment (of s3:// AWS_PROFILE, or"
            reason += " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; FSSPEC_S3_ANON=true: none)"
        url, reason = one_line(self._url), one_line(without_url_secrets(reason))
        raise AnnotatorError(f"{url}: cannot be {self._done}: {reason}") from error


def _fetch(url: str, copy: Path, names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Bring the copy of a URL up to date, and yield what it cannot hold, and why."""
    system, path = _open(url)
    with _explain(url, "read"):
        system.invalidate_cache()
        objects, base, top = _list(system, path), path.rstrip("/"), copy
        if not objects and glob.has_magic(path):
            objects, base = _match(system, path), _root(path)
            top = Path(_root(str(copy)))
        if not objects:
            raise FileNotFoundError
        wanted: dict[str, Mapping[str, Any]] = {}
        for name, info in objects.items():
            below = name.removeprefix(base).removeprefix("/")
            if not name.startswith(base) or name.endswith("/"):
                continue  # a mark that stands for a folder
            if names and name.rpartition("/")[2] not in names:
                continue
            if reason := below and _refuse(below):
                yield f"{url}/{below}", reason
            else:
                wanted[str(top / below)] = info
        folders = {folder for file in wanted for folder in _folders_above(file, str(top))}
        for file in folders & wanted.keys():
            del wanted[file]
            yield f"{url}{file.removeprefix(str(copy))}", "an object and a folder have this name"
        _drop_gone(copy, wanted, names)
        stamps = {file: _stamp(info) for file, info in wanted.items()}
        new = {file: wanted[file] for file in wanted if not _is_held(file, stamps[file])}
        size = sum(info.get("size") or 0 for info in new.values())
        if new:
            held = f"; {len(wanted) - len(new)} were there" if len(wanted) > len(new) else ""
            room = f"{len(new)} objects, {size / 1e6:.1f} MB, go to {_copies()}{held}"
            on_fetch(f"{one_line(url)}: {room}")
        _get(system, new, stamps)


def _list(system: Any, path: str) -> dict[str, Mapping[str, Any]]:
    """Return the objects at or below a path, by name."""
    if "http" in system.protocol:  # which lists no folders, only the links of a page
        return {path: system.info(path)}
    return {
        name: info
        for name, info in system.find(path, detail=True).items()
        if info["type"] == "file" and (name == path or name.startswith(f"{path.rstrip('/')}/"))
    }


def _match(system: Any, pattern: str) -> dict[str, Mapping[str, Any]]:
    """Return the objects that match a glob, and those below folders that do."""
    objects: dict[str, Mapping[str, Any]] = {}
    for name, info in system.glob(pattern, detail=True).items():
        objects |= _list(system, name) if info["type"] == "directory" else {name: info}
    return objects


def _root(pattern: str) -> str:
    parts = pattern.split("/")
    return "/".join(parts[: next(n for n, part in enumerate(parts) if glob.has_magic(part))])


def _folders_above(file: str, top: str) -> Iterator[str]:
    folder = os.path.dirname(file)  # noqa: PTH120 - as often as there are objects
    while len(folder) >= len(top):
        yield folder
        folder = os.path.dirname(folder)  # noqa: PTH120


def _drop_gone(copy: Path, wanted: Collection[str], names: Collection[str]) -> None:
    """Take files out of a copy whose objects are gone."""
    matches = [] if copy.exists() else glob.glob(str(copy), recursive=True)
    for top in (copy, *map(Path, matches)):
        for file in [top, *top.rglob("*")] if top.is_dir() else [top]:
            if file.is_file() and str(file) not in wanted and (not names or file.name in names):
                file.unlink()


def _stamp(info: Mapping[str, Any]) -> int | None:
    """Return what stands for an object's content, as a time; None if nothing tells."""
    tags = [str(info[name]) for name in _TAGS if info.get(name)]
    tags = tags or [str(info[name]) for name in _TIMES if info.get(name)]
    if not tags:
        return None
    digest = hashlib.sha256("\n".join((*tags, str(info.get("size")))).encode()).digest()
    return int.from_bytes(digest[:8], "big") % (2**31 * 10**9)


def _is_held(file: str, stamp: int | None) -> bool:
    try:
        return stamp is not None and os.stat(file).st_mtime_ns == stamp  # noqa: PTH116
    except OSError:
        return False


def _get(
    system: Any, new: Mapping[str, Mapping[str, Any]], stamps: Mapping[str, int | None]
) -> None:
    """Fetch objects, many at once; each takes its place when it is whole."""
    Path(_copies()).mkdir(mode=0o700, parents=True, exist_ok=True)
    names = list(new)
    for first in range(0, len(names), _AT_ONCE):
        files = names[first : first + _AT_ONCE]
        with ScratchFolder(Path(_copies(), "part")) as aside:
            parts = [Path(aside, str(n)) for n in range(len(files))]
            system.get([new[file]["name"] for file in files], list(map(str, parts)))
            for file, part in zip(files, parts, strict=True):
                size = new[file].get("size")
                if size is not None and part.stat().st_size != size:
                    raise AnnotatorError(f"{new[file]['name']}: changed while it was read; again")
                if (stamp := stamps[file]) is not None:
                    os.utime(part, ns=(stamp, stamp))
                _place(part, Path(file))


def _place(part: Path, file: Path) -> None:
    """Move a file to its place, where something else may have been when it was fetched before."""
    for folder in reversed(file.parents):
        if folder.is_file():
            folder.unlink()
    if file.is_dir():
        shutil.rmtree(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    part.replace(file)
