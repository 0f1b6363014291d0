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
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UnreadableTrace(f"{path.name}: not a regular file")
        return path.read_bytes()
    except OSError as error:
        raise UnreadableTrace(f"{path.name}: {error.strerror or error}") from error


def read_text(path: Path) -> str:
    """Return a file's text, line ends as they are, bytes that are not UTF-8 as U+FFFD."""
    return decoded(read_bytes(path))


def parse(text: str, name: str) -> Any:
    """Return the JSON value in ``text``; ``name`` says in an error where it stands.

    Raises:
        UnreadableTrace: no JSON, or JSON nested too deeply.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if "\x00" in text[:4096] or text[:4096].count("\ufffd") > 8:
            raise UnreadableTrace(f"{name}: binary data, not JSON") from error
        where = f"line {error.lineno}, column {error.colno}"
        raise UnreadableTrace(f"{name}: not valid JSON: {error.msg} at {where}") from error
    except RecursionError as error:
        raise UnreadableTrace(f"{name}: JSON nested too deeply to be read") from error
    except ValueError as error:
        raise UnreadableTrace(f"{name}: not valid JSON: {error}") from error


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
    """Return seconds since 1970 from a number or an ISO 8601 text (UTC if it names no zone)."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value) if math.isfinite(value) else None
    except (ValueError, OverflowError):
        return None
    return None
