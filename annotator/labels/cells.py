"""Cells of the tables that people keep: their encoding, and several codes in one of them."""

import re
from collections.abc import Callable, Iterable

from annotator.traces.records import get_list, parse_nested

_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # what errors="surrogateescape" leaves
_BEYOND_ASCII = re.compile("[^\x00-\x7f\udc80-\udcff]")


def decode_table(data: bytes, name: str) -> tuple[str, str]:
    """Return the text of a table, and a notice if it is not UTF-8, else "".

    Excel's "CSV" is Windows-1252 in Western countries. A file with characters of UTF-8 is broken
    UTF-8 instead: its other bytes stay as ``surrogateescape`` leaves them.
    """
    text = data.decode("utf-8-sig", "surrogateescape")
    odd = _NOT_UTF8.search(text)
    if odd is None or _BEYOND_ASCII.search(text):
        return text, ""
    line, byte = text.count("\n", 0, odd.start()) + 1, ord(odd[0]) - 0xDC00
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        return text, ""
    return text, (
        f"{name}: not UTF-8 (byte 0x{byte:02x} in line {line}), read as Windows-1252; if letters"
        " are wrong, save it as CSV UTF-8"
    )


def find_encoding_problem(cells: Iterable[str]) -> str:
    """Return what to do about cells with bytes that are no UTF-8; "" if there are none."""
    is_odd = _NOT_UTF8.search("".join(cells))
    return "not UTF-8; save the file as UTF-8 (Excel: CSV UTF-8)" if is_odd else ""


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
