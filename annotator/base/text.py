"""Text from strangers, made safe to store, to print and to open in a spreadsheet."""

import difflib
import hashlib
import json
import math
import re
import textwrap
import unicodedata
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import ValidationError

T = TypeVar("T", bound=Hashable)

_SURROGATES = re.compile("[\ud800-\udfff]")
_LONGEST_NAME = 80
_SAFE_NAME = re.compile(rf"[\w.\-/@+:]{{1,{_LONGEST_NAME}}}")
# C0 and C1 controls but tab and newline, and the marks that reorder text on screen.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
# A URL or the attempt at one: a scheme, or a password before a host. Each word is searched once,
# since it may be long.
_URL = re.compile(
    r"(?<![a-z0-9+.-])([a-z0-9+.-]*+:/+)([^\s'\"]*)"
    r"|(?<![^\s'\"])(?=[^\s'\":]*:(?!/)[^\s'\"]*@)()([^\s'\"]*@[^\s'\"]*)",
    re.IGNORECASE,
)
_SECRET_NAME = re.compile(
    r"(api|access|auth|private|secret).?(key|token)|passw|authorization|secret|credential",
    re.IGNORECASE,
)
_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # what errors="surrogateescape" leaves
_BEYOND_ASCII = re.compile("[^\x00-\x7f\udc80-\udcff]")
_UTF16 = (b"\xff\xfe", b"\xfe\xff")  # byte order marks


def replace_surrogates(text: str) -> str:
    """Return ``text`` with every lone surrogate as U+FFFD, so that UTF-8 can hold it.

    The length is unchanged, and so are all character offsets.
    """
    try:
        text.isascii() or text.encode()  # ten times as fast as a search
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text)
    return text


def decode(data: bytes) -> str:
    """Return bytes as text: UTF-8, a leading byte order mark dropped, bad bytes as U+FFFD."""
    return data.decode("utf-8", errors="replace").removeprefix("\ufeff")


def convert_utf16(data: bytes) -> bytes:
    """Return UTF-16 text with a byte order mark as UTF-8, and other bytes as they are."""
    return data.decode("utf-16", "replace").encode() if data[:2] in _UTF16 else data


def decode_table(data: bytes, name: str) -> tuple[str, str]:
    """Return the text of a table, and a notice if its encoding is guessed, else "".

    Excel's "Unicode text" is UTF-16; its "CSV" is Windows-1252 in Western countries. A file with
    characters of UTF-8 is broken UTF-8 instead: its other bytes stay as ``surrogateescape`` leaves
    them.
    """
    text = convert_utf16(data).decode("utf-8-sig", "surrogateescape")
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


def hide_url_secrets(text: str) -> str:
    """Return ``text`` without the user, password and query of its URLs, even malformed ones."""
    return _URL.sub(_hide_secrets, text) if "://" in text or "@" in text else text


def _hide_secrets(url: re.Match[str]) -> str:
    scheme, rest = url[1] or "", url[2] or url[4] or ""
    secret, _, address = rest.rpartition("@")
    if re.search("[?#]", secret):  # a mark of the password, or a query with an @ in it
        return f"{scheme}..."
    return scheme + re.split("[?#]", address, maxsplit=1)[0]


def hide_values(value: Any) -> Any:
    """Return a JSON value in which each text with a secret's name is replaced by its hash."""
    if isinstance(value, Mapping):
        return {
            name: "sha256=" + hashlib.sha256(item.encode(errors="replace")).hexdigest()[:16]
            if isinstance(item, str) and _SECRET_NAME.search(str(name))
            else hide_values(item)
            for name, item in value.items()
        }
    return [hide_values(item) for item in value] if isinstance(value, list) else value


def sanitize_line(text: str, limit: int = 300) -> str:
    """Return ``text`` as one line that is safe on a terminal, at most ``limit`` characters.

    Control characters and direction marks become U+FFFD; an ellipsis marks a cut.
    """
    if len(text) <= limit and text.isprintable() and text.strip() == text and "  " not in text:
        return text  # the common case: a name, an id
    text = " ".join(
        _UNPRINTABLE.sub("\ufffd", replace_surrogates(text.replace("\r", "\n"))).split()
    )
    return text if len(text) <= limit else text[: limit - 1] + "…"


def wrap_line(text: str, indent: str | None = None) -> str:
    """Return a line in lines of 80 characters. A word, such as a path, stays whole.

    ``indent`` begins the later lines; without it, the indent of the first and three more blanks.
    """
    if indent is None:
        indent = " " * (len(text) - len(text.lstrip()) + 3)
    return textwrap.fill(
        text, 80, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def wrap_lines(lines: str) -> str:
    """Return a text in lines of 80 characters; what is indented or listed stays indented."""
    return "\n".join(
        wrap_line(line, _find_indent(line)) if len(line) > 80 else line
        for line in lines.split("\n")
    )


def _find_indent(line: str) -> str:
    blanks = len(line) - len(line.lstrip(" "))
    mark = re.match(r"[-+*>] |\d+\. ", line[blanks:])
    return " " * (blanks + (len(mark[0]) if mark else 2 * bool(blanks)))


@lru_cache(maxsize=1024)
def escape_header(name: str) -> str:
    """Return a name for the header of a prompt: letters, digits and ``_.-/@+:`` as they are, every
    other byte as ``%20``. Beyond 80 characters it ends in ``~`` and its hash: distinct names stay
    distinct.
    """
    if _SAFE_NAME.fullmatch(name):
        return name
    spelled = "".join(char if _is_safe(char) else _escape_bytes(char) for char in name) or "%"
    if len(spelled) <= _LONGEST_NAME:
        return spelled
    digest = hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=8).hexdigest()
    return f"{spelled[: _LONGEST_NAME - 1 - len(digest)]}~{digest}"


def _is_safe(char: str) -> bool:
    # A mark belongs to the letter before it, like the vowels of Hindi and Thai.
    return bool(_SAFE_NAME.fullmatch(char)) or unicodedata.category(char)[0] == "M"


def _escape_bytes(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode(errors="surrogatepass"))


def escape_controls(text: str) -> str:
    """Return ``text`` safe on a terminal: control characters and direction marks, but not line ends
    and tabs, become U+FFFD. The length is unchanged.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


def list_names(names: str | Iterable[str]) -> tuple[str, ...]:
    """Return names as a tuple; a bare string is one name."""
    return (names,) if isinstance(names, str) else tuple(names)


def dump_json(value: object, indent: int | None = None) -> str:
    """Return JSON that is safe on a terminal and in UTF-8: control characters, direction marks and
    lone surrogates are escaped.
    """

    def escape(match: re.Match[str]) -> str:
        return f"\\u{ord(match[0]):04x}"

    text = json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)
    return _SURROGATES.sub(escape, _UNPRINTABLE.sub(escape, text))


def find_repeated(values: Iterable[T]) -> Iterator[T]:
    """Yield each value that repeats an earlier one, in linear time."""
    seen: set[T] = set()
    for value in values:
        if value in seen:
            yield value
        seen.add(value)


def format_count(number: int, noun: str) -> str:
    """Return ``1 trace`` or ``2 traces``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def list_first(names: Sequence[str], limit: int, separator: str = ", ") -> str:
    """Return the first names of a list, and the number of the others."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return separator.join(names[:limit]) + more


def cut_middle(name: str, room: int, tail: int | None = None) -> str:
    """Return a name without its middle, if it is too long: ends tell long names apart.

    ``tail``: the columns of its end, by default a third of ``room``.
    """
    if measure(name) <= room:
        return name
    tail = room // 3 if tail is None else tail
    start, end = name, name[-tail:]
    while measure(end) > tail:
        end = end[1:]
    while measure(start) + 1 + measure(end) > room:
        start = start[:-1]
    return f"{start}…{end}"


def cut_names(names: Sequence[str], room: int) -> list[str]:
    """Return names as :func:`cut_middle`, but different ones never look the same, also after
    their first words: ``C3a (Fals…, corrected)``. Names that cannot be told apart stay whole.
    """
    for tail in range(room // 3, room):
        cuts = [cut_middle(name, room, tail) for name in names]
        if _count_different(cuts) >= _count_different(names):
            return cuts
    return list(names)


def _count_different(names: Sequence[str]) -> tuple[int, int]:
    """Return how many names differ, also without their first words."""
    return len(set(names)), len({name.partition(" ")[2] or name for name in names})


def measure(text: str) -> int:
    """Return the columns of a text on a terminal: wide letters take two, marks on letters none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.category(char) in ("Mn", "Me", "Cf") else 1 + _is_wide(char)
        for char in text
    )


def _is_wide(char: str) -> bool:
    return unicodedata.east_asian_width(char) in "WF"


def floor_percent(share: float) -> str:
    """Return a share in percent, rounded down to one decimal."""
    return f"{math.floor(round(share * 1000, 3)) / 10:g} %"


def suggest(word: str, names: Iterable[str]) -> str:
    """Return ``, did you mean 'x' or 'y'?`` for the nearest names in any case; "" if none is near.

    All names that are as near as the nearest are in it.
    """
    lower = {name.lower(): name for name in names}
    word = word[:100].lower()
    near = difflib.get_close_matches(word, lower, n=5)
    ratios = [difflib.SequenceMatcher(None, name, word).ratio() for name in near]
    best = [
        repr(lower[name]) for name, ratio in zip(near, ratios, strict=True) if ratio == ratios[0]
    ]
    return f", did you mean {' or '.join(sorted(best))}?" if best else ""


def escape_formula(cell: object) -> object:
    """Return a cell of a CSV that no spreadsheet takes for a formula; :func:`unescape_formula`
    reverts it.
    """
    risky = isinstance(cell, str) and cell.lstrip("'")[:1] in tuple("=+-@\t\r\n\0")
    return f"'{cell}" if risky else cell


def unescape_formula(cell: str) -> str:
    """Return a cell without the apostrophe of :func:`escape_formula`."""
    return cell[1:] if cell[:1] == "'" and escape_formula(cell[1:]) == cell else cell


class Note(str):
    """A sentence below a table, with the id of its kind."""

    id: str

    def __new__(cls, text: str, id: str = "") -> "Note":
        """Return the text with its id."""
        note = super().__new__(cls, text)
        note.id = id
        return note


def describe_validation(error: "ValidationError", root: str = "") -> str:
    """Return the first problem of a value: the path of its field, and the reason.

    ``root``: the path if the problem is in no field.
    """
    problem = error.errors(include_url=False, include_input=False)[0]
    path = ".".join(map(str, problem["loc"])) or root
    reason = sanitize_line(problem["msg"].removeprefix("Value error, "), 300)
    return f"{path}: {reason}" if path else reason
