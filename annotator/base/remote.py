"""Files at URLs (``s3://``, ``gs://``, ``hf://datasets/...``, all that fsspec reads).

Objects are fetched into a copy on this machine, which is read in their place. The time of a file in
it is a stamp of its object's tag and size: only objects with another stamp are fetched again.
"""

import glob
import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from annotator.base.errors import AnnotatorError
from annotator.base.text import hide_url_secrets, sanitize_line

# Of a path, too, where two slashes have become one.
_URL = re.compile(r"([a-z][a-z0-9+.-]+):/(?:/+|(?!/))(.+)", re.DOTALL)
_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs"}
_TAGS = ("ETag", "etag", "md5Hash", "generation", "blob_id", "sha256")
_TIMES = ("LastModified", "last_modified", "updated", "mtime", "created")
_AT_ONCE = 2000  # objects in one bulk fetch

on_fetch: Callable[[str], None] = lambda text: None  # noqa: E731 - set by the command line
_fetched: set[tuple[str, ...]] = set()  # URLs, with the names of files, in this process


def find_url(place: str | Path) -> str | None:
    """Return the URL that a string or path is of; None for a local path, or a data set of the hub
    (``hf://org/name``).

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
        raise AnnotatorError(f"cannot write {sanitize_line(url)}: {what}")


def name_place(place: str | Path) -> str:
    """Return how a path is shown: that of a copy, or of a URL, as the URL."""
    text = os.fspath(place)
    if _fetched and text.startswith(root := f"{_copies()}{os.sep}"):
        scheme, _, rest = text.removeprefix(root).partition(os.sep)
        return f"{scheme}://{rest}"
    return find_url(text) or text


def get_cache_folder() -> Path:
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
    _check_key(url, url.partition("://")[2])
    copy = Path(_copies(), url.replace("://", os.sep, 1))
    if again or (url, *names) not in _fetched:
        system, path = _open(url)
        with _explain(url, "read"):
            _fetch(system, path, url, copy, names)
        _fetched.add((url, *names))
    return copy


def put_file(file: Path, url: str, *, exclusive: bool = False) -> None:
    """Put a file at a URL, in one step. ``exclusive``: only where nothing is.

    Raises:
        AnnotatorError: it cannot be put, or something is there.
    """
    system, path = _open(url)
    with _explain(url, "written"):
        if exclusive:
            system.invalidate_cache()
            if system.exists(path):
                raise AnnotatorError(f"{sanitize_line(url)} is there already; name another")
        system.put_file(str(file), path)


def _copies() -> str:
    return os.path.realpath(os.environ.get("ANNOTATOR_COPIES") or get_cache_folder() / "copies")


def _check_key(url: str, key: str) -> None:
    """Raise :class:`AnnotatorError` for a key that leads out of the copy, or to another file."""
    if parts := {"", ".", ".."}.intersection(key.split("/")):
        part = min(parts)
        raise AnnotatorError(
            f"{sanitize_line(url)}: {part!r} in {sanitize_line(key)}: no file has this name"
        )


def _open(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it."""
    import fsspec  # here and in what it loads: only for those who name a URL

    scheme = url.partition("://")[0]
    if scheme in ("file", "local") or "::" in url:
        raise AnnotatorError(f"{sanitize_line(url)}: name the path of the file or folder itself")
    with _explain(url, "read"):
        try:
            system, path = fsspec.core.url_to_fs(url)
        except ImportError as error:
            from annotator.base.plugins import explain_extra

            extra = _EXTRAS.get(scheme)
            how = explain_extra(extra) if extra else sanitize_line(str(error))
            raise AnnotatorError(f"{sanitize_line(url)}: a package is missing: {how}") from error
        return system, path


@contextmanager
def _explain(url: str, done: str) -> Iterator[None]:
    """Say in one sentence why a URL cannot be read or written, whichever library says so."""
    try:
        yield
    except AnnotatorError:
        raise
    except Exception as error:
        name = type(error).__name__
        reason = str(error) or name
        if isinstance(error, FileNotFoundError):
            cause = error.__cause__  # of http, whatever went wrong
            reason = str(
                cause if isinstance(cause, OSError) else "no such bucket, object or folder"
            )
        elif "Credentials" in name:
            reason += "; set the store's keys in the environment (of s3:// AWS_PROFILE, or"
            reason += " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; FSSPEC_S3_ANON=true: none)"
        reason = sanitize_line(hide_url_secrets(reason))
        raise AnnotatorError(f"{sanitize_line(url)}: cannot be {done}: {reason}") from error


def _fetch(system: Any, path: str, url: str, copy: Path, names: Collection[str]) -> None:
    """Bring the copy of a URL up to date."""
    system.invalidate_cache()
    base, top = _root(path), Path(_root(str(copy)))
    stamps: dict[Path, int | None] = {}
    new: dict[Path, Mapping[str, Any]] = {}
    objects = _list(system, path)
    if not objects:
        raise FileNotFoundError
    for name, info in objects.items():
        below = name.removeprefix(base).removeprefix("/")
        if names and name.rpartition("/")[2] not in names:
            continue
        if below:
            _check_key(url, below)
        file = top / below
        stamps[file] = _stamp(info)
        if stamps[file] is None or not file.is_file() or file.stat().st_mtime_ns != stamps[file]:
            new[file] = info
    for root in [copy] if copy.exists() else map(Path, glob.glob(str(copy), recursive=True)):
        for file in [root, *root.rglob("*")]:
            if file.is_file() and file not in stamps and (not names or file.name in names):
                file.unlink()  # its object is gone
    if new:
        size = sum(info.get("size") or 0 for info in new.values())
        room = f"{len(new)} objects, {size / 1e6:.1f} MB, go to {_copies()}"
        on_fetch(f"{sanitize_line(url)}: {room}")
    _get(system, new, stamps)


def _root(pattern: str) -> str:
    """Return the folder in which a glob begins; a path without one as it is."""
    parts = pattern.split("/")
    magic = (n for n, part in enumerate(parts) if glob.has_magic(part))
    return "/".join(parts[: next(magic, len(parts))])


def _list(system: Any, path: str) -> dict[str, Mapping[str, Any]]:
    """Return the objects at or below a path, or at or below those that match a glob, by name."""
    if "http" in system.protocol:  # which lists no folders, only the links of a page
        return {path: system.info(path)}
    objects = system.find(path, detail=True)
    if not objects and glob.has_magic(path):
        for match in system.glob(path):
            objects |= system.find(match, detail=True)
    return {
        name: info
        for name, info in objects.items()
        if info["type"] == "file" and not name.endswith("/")  # a mark that stands for a folder
    }


def _stamp(info: Mapping[str, Any]) -> int | None:
    """Return a number for an object's content, to be a file's time; None if nothing tells."""
    tags = [str(info[name]) for name in _TAGS if info.get(name)]
    tags = tags or [str(info[name]) for name in _TIMES if info.get(name)]
    digest = hashlib.sha256("\n".join((*tags, str(info.get("size")))).encode()).digest()
    return int.from_bytes(digest[:8], "big") % (2**31 * 10**9) if tags else None


def _get(
    system: Any, new: Mapping[Path, Mapping[str, Any]], stamps: Mapping[Path, int | None]
) -> None:
    """Fetch objects, many at once; each takes its place when it is whole."""
    Path(_copies()).mkdir(mode=0o700, parents=True, exist_ok=True)
    files = list(new)
    for first in range(0, len(files), _AT_ONCE):
        names = [new[file]["name"] for file in files[first : first + _AT_ONCE]]
        with tempfile.TemporaryDirectory(prefix="part-", dir=_copies()) as aside:
            parts = [Path(aside, str(n)) for n in range(len(names))]
            system.get(names, list(map(str, parts)))
            for file, part in zip(files[first:], parts, strict=False):
                if (stamp := stamps[file]) is not None:
                    os.utime(part, ns=(stamp, stamp))
                file.parent.mkdir(parents=True, exist_ok=True)
                part.replace(file)
