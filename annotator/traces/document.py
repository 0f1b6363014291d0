"""JSON from strangers: read with errors that say what is wrong and where."""

import errno
import json
import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from pydantic_core import from_json

from annotator.errors import UnreadableTrace
from annotator.text import decode, storable

_LATEST = 1e11  # seconds since 1970: the year 5138
# Opening a pipe must not block. Windows knows no such flag, but one for bytes as they are.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def read_bytes(folder: str, name: str, most: int = 0) -> bytes:
    """Return the bytes of a regular file in a folder, or the first of them, if ``most`` is given.

    Raises:
        UnreadableTrace: the file is missing, not regular (a pipe would block), or not allowed.
    """
    try:
        file = os.open(f"{folder}/{name}", _FLAGS)
        try:
            info = os.fstat(file)
            if not stat.S_ISREG(info.st_mode):
                raise UnreadableTrace(f"{name}: not a regular file")
            size = most or info.st_size + 4096
            data = os.read(file, size)
            if most or len(data) == info.st_size:  # all of it: no second look for the end
                return data
            while more := os.read(file, size):
                data += more
            return data
        finally:
            os.close(file)
    except OSError as error:
        socket = error.errno == errno.ENXIO
        reason = "not a regular file" if socket else error.strerror or error
        raise UnreadableTrace(f"{name}: {reason}") from error


def open_file(path: str) -> BinaryIO:
    """Return a regular file, open for reading its bytes.

    Raises:
        UnreadableTrace: as :func:`read_bytes`.
    """
    name = Path(path).name
    try:
        file = os.open(path, _FLAGS)
        if stat.S_ISREG(os.fstat(file).st_mode):
            return os.fdopen(file, "rb")
        os.close(file)
    except OSError as error:
        if error.errno != errno.ENXIO:  # a socket
            raise UnreadableTrace(f"{name}: {error.strerror or error}") from error
    raise UnreadableTrace(f"{name}: not a regular file")


def first_of(text: str, key: str) -> Any:
    """Return the first item of the list under ``key`` in a JSON object of which ``text`` is the
    beginning, or None if that beginning does not hold it in full.
    """
    before, mark, after = text.partition(f'"{key}":')
    try:
        json.loads(f'{before}"{key}": 0}}')  # else the key is not the object's own
        item, _ = json.JSONDecoder().raw_decode(after.lstrip().removeprefix("[").lstrip())
    except (ValueError, RecursionError):
        return None
    return item if mark else None


def is_plain_file(path: str) -> bool:
    """Whether a path is a regular file and no link."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def read_text(folder: str, name: str) -> str:
    """Return a file's text, line ends as they are, bytes that are not UTF-8 as U+FFFD."""
    return decode(read_bytes(folder, name))


def parse(text: str, name: str, *, line: int | None = None) -> Any:
    """Return the JSON value in ``text``; ``name`` and ``line`` say in an error where it stands.

    Raises:
        UnreadableTrace: no JSON, or JSON nested too deeply.
    """
    where = f"{name}, line {line}" if line else name
    try:
        return from_json(text)  # in half the time
    except ValueError:
        pass  # not JSON, or JSON that only the standard library reads: a lone surrogate, say
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if "\x00" in text[:4096] or text[:4096].count("\ufffd") > 8:
            raise UnreadableTrace(f"{where}: binary data, not JSON") from error
        at = f"column {error.colno}" if line else f"line {error.lineno}, column {error.colno}"
        raise UnreadableTrace(f"{where}: not valid JSON: {error.msg} at {at}") from error
    except RecursionError as error:
        raise UnreadableTrace(f"{where}: JSON nested too deeply to be read") from error
    except ValueError as error:
        raise UnreadableTrace(f"{where}: not valid JSON: {error}") from error


def read_json(folder: str, name: str) -> Any:
    """Return the JSON value in a file. Raises :class:`UnreadableTrace` as the parts above do."""
    return parse(read_text(folder, name), name)


def mapping(value: Any, where: str) -> dict[str, Any]:
    """Return ``value`` if it is a JSON object, else raise :class:`UnreadableTrace`."""
    if not isinstance(value, dict):
        raise UnreadableTrace(f"{where}: found {kind(value)}, expected an object")
    return value


def kind(value: Any) -> str:
    """Return what a JSON value is, for an error message."""
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string"}
    return names.get(type(value), "a list" if isinstance(value, list) else "an object")


def text_of(value: Any) -> str | None:
    """Return a scalar JSON value as text that can be stored, or None for null and containers."""
    if isinstance(value, str):
        return storable(value)
    if value is None or isinstance(value, (bool, list, dict)):
        return None
    return str(value)


def flag(value: Any) -> bool | None:
    """Return a JSON boolean, or None for anything else: "not known" is never guessed."""
    return value if isinstance(value, bool) else None


def time_of(value: Any) -> float | None:
    """Return seconds since 1970 from a number, an ISO 8601 text or a datetime; UTC if zoneless.

    A number that would be a time after the year 5000 is in milli-, micro- or nanoseconds.
    """
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            seconds = float(value)
            scales = (seconds / scale for scale in (1, 1e3, 1e6, 1e9))
            return next((scaled for scaled in scales if abs(scaled) < _LATEST), None)
        if isinstance(value, (str, datetime)):
            moment = datetime.fromisoformat(value) if isinstance(value, str) else value
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
    return None
