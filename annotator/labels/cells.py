"""Cells of the tables that people keep: marks, and several codes in one of them."""

import ast
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from annotator.base.text import sanitize_line
from annotator.traces.records import get_text, parse_nested

# Spreadsheets translate TRUE, and pandas makes 1.0 of 1 in a column with gaps.
_YES = {"1", "1.0", "x", "yes", "y", "true", "ja", "wahr", "oui", "vrai"}
_NO = {"0", "0.0", "no", "n", "false", "-", "nein", "falsch", "non", "faux"}
_PICKED = ("choices", "taxonomy", "labels", "label")  # keys of an answer, and of a span in it


def read_mark(value: Any) -> bool | None:
    """Return whether a mark (1, x, yes) is set, None for an empty one; raises ValueError."""
    text = str(value).strip().lower()
    if value is None or text in ("", "nan"):
        return None
    if text not in _YES | _NO:
        raise ValueError(f"{sanitize_line(text, 60)!r}; expected 1 or 0, yes or no, x or nothing")
    return text in _YES


def list_codes(value: Any) -> list[str]:
    """Return the texts of an answer: one, several, ``{"choices": [...]}``, spans with their labels
    (``{"labels": [...]}`` or ``[0, 9, "1.3"]``), or the ends of a taxonomy's paths.
    """
    if isinstance(value, dict):
        return list_codes(next((value[key] for key in _PICKED if key in value), None))
    if isinstance(value, list):
        ends = (item[-1] if isinstance(item, list) and item else item for item in value)
        return [text for end in ends for text in list_codes(end)]
    text = get_text(value)
    return [text] if text and text.strip() else []


def split_codes(cell: str, is_code: Callable[[str], bool]) -> list[str]:
    """Return the codes in a cell: separated by ``;`` or line ends, and by ``,`` or ``|`` if all
    parts are codes. A cell may be a list of JSON or Python, or an answer as in :func:`list_codes`.
    """
    value = parse_nested(cell)
    if value is cell and cell.startswith("[") and cell.endswith("]"):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            value = ast.literal_eval(cell)
    if value is not cell and (texts := list_codes(value)):
        return texts
    if is_code(cell.strip()):
        return [cell.strip()]
    codes: list[str] = []
    for piece in _split(cell, r"[;\n]"):
        pieces = _split(piece, r"[,|]")
        codes += pieces if not is_code(piece) and all(map(is_code, pieces)) else [piece]
    return codes


def _split(text: str, separator: str) -> list[str]:
    return [piece.strip() for piece in re.split(separator, text) if piece.strip()]
