"""Cells with several codes in the tables that people keep."""

import re
from collections.abc import Callable

from annotator.traces.records import get_list, parse_nested


def split_codes(cell: str, is_code: Callable[[str], bool]) -> list[str]:
    """Return the codes in a cell: separated by ``;`` or line ends, and by ``,`` or ``|`` if all
    parts are codes. A cell may be a JSON list, or Label Studio's ``{"choices": [...]}``.
    """
    value = parse_nested(cell)
    value = value.get("choices") if isinstance(value, dict) else value
    if texts := [text for text in get_list(value) if isinstance(text, str)]:
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
