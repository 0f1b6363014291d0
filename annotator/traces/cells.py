"""Lists and objects that stand as text in a cell of a table."""

import ast
from functools import lru_cache
from typing import Any

from annotator.traces.records import parse_nested

_LONGEST_LITERAL = 4_000_000  # characters; Python's own parser takes a hundred times their memory


def parse_cell(value: Any) -> Any:
    """Return the list or object in a text, as JSON or as pandas writes it; else the value."""
    return _parse(value) if isinstance(value, str) and value.lstrip()[:1] in ("{", "[") else value


@lru_cache(maxsize=2)  # a reader asks for the same cell some times
def _parse(text: str) -> Any:
    value = parse_nested(text)
    if isinstance(value, str) and "'" in text and len(text) < _LONGEST_LITERAL:
        value = parse_literal(text.strip())
    return value if isinstance(value, list | dict) else text


def parse_literal(text: str) -> Any:
    """Return a value that Python wrote; None for any other text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
