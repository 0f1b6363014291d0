"""Files at URLs (``s3://``, ``gs://``, ``hf://datasets/...``, all that fsspec reads).

Objects are copied to this machine and read there. The time of a copied file is a stamp of its
object's tag and size, so that only objects that changed are fetched again.
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

on_fetch: Callable[[str], None] = lambda text: None  # noqa: E731 - set by the command line
_fetched: set[tuple[str, ...]] = set()  # URLs and names of files, in this process


def find_url(path: str | Path) -> str | None:
    """Return the URL of a string or path; None for a local path or a data set of the hub
    (``hf://org/name``).
    """
    text = os.fspath(path)
    match = _URL.fullmatch(text)
    if not match or ("://" not in text and os.path.lexists(f"{match[1]}:")):
        return None
    scheme, rest = match[1], match[2].rstrip("/")
    if scheme == "hf" and not re.match(r"(datasets|spaces|buckets)/[^/]+/[^/]", rest):
        return None
    if re.match(r"[^/]*:[^/]*@", rest) or (scheme in ("http", "https") and re.search("[?#]", rest)):
        raise AnnotatorError(
            f"{scheme}:// with a password or a query, which would be written to the run: set it in"
            " the environment, or download the file"
        )
    return f"{scheme}://{rest}"


def is_hub(source: str) -> bool:
    """Whether a source is a data set of the hub, and no URL of files in one."""
    return source.startswith("hf://") and not find_url(source)


def refuse_url(path: str | Path, reason: str) -> None:
    """Raise :class:`AnnotatorError` with the reason if a path is a URL."""
    if url := find_url(path):
        raise AnnotatorError(f"cannot write {sanitize_line(url)}: {reason}")


def name_place(path: str | Path) -> str:
    """Return a path for a message; for a copy of a URL, the URL."""
    text = os.fspath(path)
    if _fetched and text.startswith(root := f"{_find_copies()}{os.sep}"):
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


def localize(source: str | Path, names: Collection[str] = (), *, again: bool = False) -> Path:
    """Return the local path of a source: for a URL its copy, for a glob the glob of the copy.

    A URL is fetched once a process; ``again`` looks for changes anew. ``names`` limits the fetch to
    files with these names.
    """
    url = find_url(source)
    if not url:
        return Path(source)
    key = url.partition("://")[2]
    if (odd := _find_odd_part(key)) is not None:
        raise AnnotatorError(f"{sanitize_line(url)}: {odd!r} in {sanitize_line(key)}: not a name")
    copy = Path(_find_copies(), url.replace("://", os.sep, 1))
    if again or (url, *names) not in _fetched:
        system, path = _open(url)
        with _explain(url, "read"):
            system.invalidate_cache()
            _update(system, path, url, copy, names)
        _fetched.add((url, *names))
    return copy


def put_file(file: Path, url: str, *, exclusive: bool = False) -> None:
    """Put a file at a URL, in one step. ``exclusive`` replaces nothing."""
    system, path = _open(url)
    with _explain(url, "written"):
        if exclusive:
            system.invalidate_cache()
            if system.exists(path):
                raise AnnotatorError(f"{sanitize_line(url)} is there already; name another")
        system.put_file(str(file), path)


def _find_copies() -> str:
    return os.path.realpath(os.environ.get("ANNOTATOR_COPIES") or get_cache_folder() / "copies")


def _find_odd_part(key: str) -> str | None:
    """Return the part of a key that would lead out of the copy, or to another file."""
    return min({"", ".", ".."}.intersection(key.split("/")), default=None)


def _open(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it."""
    import fsspec  # slow, and only for those who name a URL

    scheme = url.partition("://")[0]
    if scheme in ("file", "local") or "::" in url:
        raise AnnotatorError(f"{sanitize_line(url)}: name the path of the file or folder itself")
    with _explain(url, "read"):
        system, path = fsspec.core.url_to_fs(url)
    return system, path


@contextmanager
def _explain(url: str, verb: str) -> Iterator[None]:
    """Say in one sentence why a URL cannot be read or written, whichever library says so."""
    try:
        yield
    except AnnotatorError:
        raise
    except Exception as error:
        reason = str(error) or type(error).__name__
        if isinstance(error, ImportError) and (extra := _EXTRAS.get(url.partition("://")[0])):
            from annotator.base.plugins import explain_extra

            reason = f"a package is missing: {explain_extra(extra)}"
        elif isinstance(error, FileNotFoundError):
            cause = error.__cause__  # of HTTP, whatever went wrong
            missing = "no such bucket, object or folder"
            reason = str(cause) if isinstance(cause, OSError) else missing
        elif "Credentials" in type(error).__name__:
            reason += "; set the store's keys in the environment (of s3:// AWS_PROFILE, or"
            reason += " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; FSSPEC_S3_ANON=true: none)"
        reason = sanitize_line(hide_url_secrets(reason))
        raise AnnotatorError(f"{sanitize_line(url)}: cannot be {verb}: {reason}") from error


def _update(system: Any, path: str, url: str, copy: Path, names: Collection[str]) -> None:
    """Fetch the objects that changed into a copy, and remove the files whose objects are gone."""
    base, top = _cut_glob(path), Path(_cut_glob(str(copy)))
    stamps: dict[Path, int | None] = {}
    changed: dict[Path, Mapping[str, Any]] = {}
    objects = _list(system, path)
    if not objects:
        raise FileNotFoundError
    for name, info in objects.items():
        key = name.removeprefix(base).removeprefix("/")
        if names and name.rpartition("/")[2] not in names:
            continue
        if key and (odd := _find_odd_part(key)) is not None:
            on_fetch(f"{sanitize_line(url)}: skipped {sanitize_line(key)}: {odd!r} is not a name")
            continue
        file = top / key
        stamps[file] = stamp = _stamp(info)
        if stamp is None or not file.is_file() or file.stat().st_mtime_ns != stamp:
            changed[file] = info
    for root in [copy] if copy.exists() else map(Path, glob.glob(str(copy), recursive=True)):
        for file in [root, *root.rglob("*")]:
            if file.is_file() and file not in stamps and (not names or file.name in names):
                file.unlink()
    if not changed:
        return
    size = sum(info.get("size") or 0 for info in changed.values()) / 1e6
    where = f"{len(changed)} objects, {size:.1f} MB, go to {_find_copies()}"
    on_fetch(f"{sanitize_line(url)}: {where}")
    Path(_find_copies()).mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="part-", dir=_find_copies()) as aside:
        temp_files = [Path(aside, str(n)) for n in range(len(changed))]
        system.get([info["name"] for info in changed.values()], list(map(str, temp_files)))
        for file, temp_file in zip(changed, temp_files, strict=True):
            if (stamp := stamps[file]) is not None:
                os.utime(temp_file, ns=(stamp, stamp))
            file.parent.mkdir(parents=True, exist_ok=True)
            temp_file.replace(file)


def _cut_glob(pattern: str) -> str:
    """Return the folder in which a glob begins; a path without one as it is."""
    parts = pattern.split("/")
    magic = (n for n, name in enumerate(parts) if glob.has_magic(name))
    return "/".join(parts[: next(magic, len(parts))])


def _list(system: Any, path: str) -> dict[str, Mapping[str, Any]]:
    """Return the objects at or below a path, or at or below those that match a glob, by name."""
    if "http" in system.protocol:  # lists no folders, only the links of a page
        return {path: system.info(path)}
    objects = system.find(path, detail=True)
    if not objects and glob.has_magic(path):
        for match in system.glob(path):
            objects |= system.find(match, detail=True)
    return {
        name: info
        for name, info in objects.items()
        if info["type"] == "file" and not name.endswith("/")  # the mark of a folder
    }


def _stamp(info: Mapping[str, Any]) -> int | None:
    """Return a number for an object's content, to be a file's time; None if it has no tag."""
    tags = [str(info[name]) for name in _TAGS if info.get(name)]
    tags = tags or [str(info[name]) for name in _TIMES if info.get(name)]
    digest = hashlib.sha256("\n".join((*tags, str(info.get("size")))).encode()).digest()
    return int.from_bytes(digest[:8], "big") % (2**31 * 10**9) if tags else None
