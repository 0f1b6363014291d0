"""JSON from strangers: read with errors that say what is wrong and where."""

import json
import os
import stat
from datetime import UTC, datetime
from io import BufferedReader
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from annotator.base.errors import UnreadableTrace
from annotator.base.regular import open_checked, read_bounded
from annotator.base.text import decode, replace_surrogates

_LATEST = 1e11  # seconds since 1970: the year 5138


def read_bytes(folder: str, name: str, most: int = 0) -> bytes:
    """Return the bytes of a regular file in a folder, or the first of them, if ``most`` is given.

    Raises:
        UnreadableTrace: the file is missing, not regular (a pipe would block), not allowed, or too
            large to be held.
    """
    path = f"{folder}/{name}"
    try:
        if not most:
            return read_bounded(path)
        with open_checked(path) as file:
            return file.read(most)
    except OSError as error:
        raise UnreadableTrace(f"{name}: {error.strerror or error}") from error


def open_file(path: str) -> BufferedReader:
    """Return a regular file, open for reading its bytes.

    Raises:
        UnreadableTrace: as :func:`read_bytes`.
    """
    try:
        return open_checked(path)
    except OSError as error:
        raise UnreadableTrace(f"{Path(path).name}: {error.strerror or error}") from error


def parse_first_item(text: str, key: str) -> Any:
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


def parse_json(text: str, name: str, *, line: int | None = None) -> Any:
    """Return the JSON value in ``text``; ``name`` and ``line`` say in an error where it stands.

    Raises:
        UnreadableTrace: no JSON, or JSON nested too deeply.
    """
    where = f"{name}, line {line}" if line else name
    try:
        return from_json(text)  # in half the time
    except (TypeError, ValueError):
        pass  # not JSON, or JSON that only the standard library reads: a lone surrogate, say,
        # which in a text, and not escaped, is a TypeError
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
    return parse_json(read_text(folder, name), name)


def expect_object(value: Any, where: str) -> dict[str, Any]:
    """Return ``value`` if it is a JSON object, else raise :class:`UnreadableTrace`."""
    if not isinstance(value, dict):
        raise UnreadableTrace(f"{where}: found {name_type(value)}, expected an object")
    return value


def name_type(value: Any) -> str:
    """Return what a JSON value is, for an error message."""
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string"}
    return names.get(type(value), "a list" if isinstance(value, list) else "an object")


def get_text(value: Any) -> str | None:
    """Return a scalar JSON value as text that can be stored, or None for null and containers."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if value is None or isinstance(value, (bool, list, dict)):
        return None
    return str(value)


def read_flag(value: Any) -> bool | None:
    """Return a JSON boolean, or None for anything else: "not known" is never guessed."""
    return value if isinstance(value, bool) else None


def parse_time(value: Any) -> float | None:
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
