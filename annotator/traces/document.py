"""JSON from strangers: read with errors that say what is wrong and where."""

import json
import math
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from annotator.errors import UnreadableTrace
from annotator.text import decoded, storable


def read_bytes(path: Path) -> bytes:
    """Return a regular file's bytes.

    Raises:
        UnreadableTrace: the file is missing, not regular (a pipe would block), or not allowed.
    """
    return _read(path, -1)


def read_head(path: Path) -> bytes:
    """Return a regular file's first 4096 bytes; raises as :func:`read_bytes` does."""
    return _read(path, 4096)


def _read(path: Path, most: int) -> bytes:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UnreadableTrace(f"{path.name}: not a regular file")
        with path.open("rb") as file:
            return file.read(most)
    except OSError as error:
        raise UnreadableTrace(f"{path.name}: {error.strerror or error}") from error


def read_text(path: Path) -> str:
    """Return a file's text, line ends as they are, bytes that are not UTF-8 as U+FFFD."""
    return decoded(read_bytes(path))


def parse(text: str, name: str, *, line: int | None = None) -> Any:
    """Return the JSON value in ``text``; ``name`` and ``line`` say in an error where it stands.

    Raises:
        UnreadableTrace: no JSON, or JSON nested too deeply.
    """
    where = f"{name}, line {line}" if line else name
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


def read_json(path: Path) -> Any:
    """Return the JSON value in a file. Raises :class:`UnreadableTrace` as the parts above do."""
    return parse(read_text(path), path.name)


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
    if isinstance(value, bool) or value is None or isinstance(value, list | dict):
        return None
    return str(value)


def flag(value: Any) -> bool | None:
    """Return a JSON boolean, or None for anything else: "not known" is never guessed."""
    return value if isinstance(value, bool) else None


def time_of(value: Any) -> float | None:
    """Return seconds since 1970 from a number, an ISO 8601 text or a datetime; UTC if zoneless."""
    try:
        if isinstance(value, str | datetime):
            moment = datetime.fromisoformat(value) if isinstance(value, str) else value
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value) if math.isfinite(value) else None
    except (ValueError, OverflowError):
        return None
    return None
