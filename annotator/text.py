"""Text from strangers: made safe to store, and safe to show."""

import difflib
import math
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Optional

_SURROGATES = re.compile("[\ud800-\udfff]")
# C0 and C1 controls but tab and newline, and the marks that reorder text on screen.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
# What a reader does not see: controls, codes for colours, soft hyphens, what has no width; and
# letters that only look otherwise: full-width forms, mathematical alphabets.
_HIDDEN = (
    "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_DISGUISED = "\uff01-\uff5e\U0001d400-\U0001d7ff"
_ODD = re.compile(f"[{_HIDDEN}{_DISGUISED}]")  # alone it is looked for many times as fast
_UNSEEN = re.compile(rf"(\x1b\[[0-?]*[ -/]*[@-~]|[{_HIDDEN}]+)|[{_DISGUISED}]")


@dataclass(frozen=True, slots=True)
class VisibleText:
    """A text as it is read, and where each of its characters stands in what it was made of
    (``inner``: which is a view itself). Characters are left out or replaced, never added.
    """

    text: str
    _at: tuple[int, ...] = (0,)  # where, here and there, what is left out begins and ends to count
    _outer: tuple[int, ...] = (0,)
    inner: Optional["VisibleText"] = None

    @property
    def changed(self) -> bool:
        """Whether anything is left out."""
        return len(self._at) > 1

    def locate(self, start: int, end: int) -> tuple[int, int]:
        """Return where a passage that is not empty stands in the text that it was made of."""
        start, end = self._original(start), self._original(end - 1) + 1
        return self.inner.locate(start, end) if self.inner else (start, end)

    def seen(self, at: int) -> int:
        """Return where the first character from an offset of the original on is read."""
        at = self.inner.seen(at) if self.inner else at
        n = bisect_right(self._outer, at) - 1
        shifted = self._at[n] + at - self._outer[n]
        return min(shifted, self._at[n + 1]) if n + 1 < len(self._at) else shifted

    def _original(self, at: int) -> int:
        n = bisect_right(self._at, at) - 1
        return self._outer[n] + at - self._at[n]


def rewrite(
    text: str, edits: Iterable[tuple[int, int, str]], inner: VisibleText | None = None
) -> VisibleText:
    """Return a text with passages replaced by others that are no longer, in order."""
    pieces, before, after, last, length = [], [0], [0], 0, 0
    for start, end, new in edits:
        pieces += [text[last:start], new]
        length += start - last + len(new)
        last = end
        if len(new) != end - start:
            before.append(length)
            after.append(end)
    return VisibleText("".join((*pieces, text[last:])), tuple(before), tuple(after), inner)


@lru_cache(maxsize=64)
def see(text: str) -> VisibleText:
    """Return a text without what a reader does not see in it, and letters in their usual form."""
    if _ODD.search(text) is None:
        return VisibleText(text)
    return rewrite(
        text,
        (
            (*mark.span(), "" if mark[1] else unicodedata.normalize("NFKC", mark[0]))
            for mark in _UNSEEN.finditer(text)
        ),
    )


def storable(text: str) -> str:
    """Return ``text`` with every lone surrogate as U+FFFD, so that UTF-8 can hold it.

    The length is unchanged, and so are all character offsets.
    """
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def decode(data: bytes) -> str:
    """Return bytes as text: UTF-8, a leading byte order mark dropped, bad bytes as U+FFFD."""
    return data.decode("utf-8", errors="replace").removeprefix("\ufeff")


def without_url_secrets(text: str) -> str:
    """Return ``text`` without the user, password and query of the URLs in it."""
    return re.sub(r"(?i)(https?://)(?:[^/\s]*@)?([^\s?'\"]*)(?:\?[^\s'\"]*)?", r"\1\2", text)


def one_line(text: str, limit: int = 300) -> str:
    """Return ``text`` as one line that is safe on a terminal, at most ``limit`` characters.

    Control characters and direction marks become U+FFFD; what is cut is marked with an ellipsis.
    """
    if len(text) <= limit and text.isprintable() and text.strip() == text and "  " not in text:
        return text  # the common case: a name, an id
    text = " ".join(_UNPRINTABLE.sub("\ufffd", storable(text.replace("\r", "\n"))).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def printable(text: str) -> str:
    """Return ``text`` with its lines and tabs, safe on a terminal: every other control character
    and direction mark becomes U+FFFD. The length is unchanged.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


def list_names(names: str | Iterable[str]) -> tuple[str, ...]:
    """Return names as a tuple; a bare string is one name, and not its letters."""
    return (names,) if isinstance(names, str) else tuple(names)


def unprintable_escaped(json_text: str) -> str:
    """Return JSON with control characters, direction marks and lone surrogates escaped.

    It stays the same value: outside of its strings JSON has none of them.
    """

    def escaped(match: re.Match[str]) -> str:
        return f"\\u{ord(match[0]):04x}"

    return _SURROGATES.sub(escaped, _UNPRINTABLE.sub(escaped, json_text))


def count(number: int, noun: str) -> str:
    """Return a number with its noun, which takes an s but for 1."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def floor_percent(share: float) -> str:
    """Return a share in percent with at most one decimal, never more than it is."""
    return f"{math.floor(round(share * 1000, 3)) / 10:g} %"


def suggest(word: str, names: Iterable[str]) -> str:
    """Return a question whether the nearest of some names was meant, or "" where none is near."""
    near = difflib.get_close_matches(word, list(names), n=1)
    return f", did you mean {near[0]!r}?" if near else ""
