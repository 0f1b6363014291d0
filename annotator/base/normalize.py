"""A text as a reader sees it, with the offsets of the original."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Optional

# Invisible: controls, codes for colours, soft hyphens, characters without width. Letters in another
# shape: full-width forms, mathematical alphabets; and, beside a letter of A to Z, the Cyrillic
# letters that look the same. Russian words stay as they are.
_HIDDEN = (
    "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_DISGUISED = "\uff01-\uff5e\U0001d400-\U0001d7ff"
_LOOKALIKES = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u051d"
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0406\u0408\u0405",
    "aeopcyxijshdqwABEKMHOPCTYXIJS",
)
_SAME = "".join(map(chr, _LOOKALIKES))
_ODD = re.compile(f"[{_HIDDEN}{_DISGUISED}{_SAME}]")  # many times as fast to search
_UNSEEN = re.compile(
    rf"(\x1b\[[0-?]*[ -/]*[@-~]|[{_HIDDEN}]+)|[{_DISGUISED}]"
    rf"|(?<=[A-Za-z])[{_SAME}]+|(?<![{_SAME}])[{_SAME}]+(?=[A-Za-z])"
)


@dataclass(frozen=True, slots=True)
class NormalizedText:
    """A text made of another by leaving out or replacing characters, with their offsets there.

    ``inner``: the text it was made of, if that is a :class:`NormalizedText` itself.
    """

    text: str
    _at: tuple[int, ...] = (0,)  # offsets in ``text`` from which the shift changes
    _outer: tuple[int, ...] = (0,)  # the same places in the original
    inner: Optional["NormalizedText"] = None

    @property
    def changed(self) -> bool:
        """Whether anything is left out."""
        return len(self._at) > 1

    def locate(self, start: int, end: int) -> tuple[int, int]:
        """Return the offsets in the original of a passage, which must not be empty."""
        start, end = self._original(start), self._original(end - 1) + 1
        return self.inner.locate(start, end) if self.inner else (start, end)

    def find_visible(self, at: int) -> int:
        """Return the offset here of the first visible character from an original offset on."""
        at = self.inner.find_visible(at) if self.inner else at
        n = bisect_right(self._outer, at) - 1
        shifted = self._at[n] + at - self._outer[n]
        return min(shifted, self._at[n + 1]) if n + 1 < len(self._at) else shifted

    def _original(self, at: int) -> int:
        n = bisect_right(self._at, at) - 1
        return self._outer[n] + at - self._at[n]


def rewrite(
    text: str, edits: Iterable[tuple[int, int, str]], inner: NormalizedText | None = None
) -> NormalizedText:
    """Return a text with its passages (start, end, replacement) replaced, in order.

    No replacement is longer than its passage.
    """
    pieces, before, after, stop, length = [], [0], [0], 0, 0
    for start, end, new in edits:
        pieces += [text[stop:start], new]
        length += start - stop + len(new)
        stop = end
        if len(new) != end - start:
            before.append(length)
            after.append(end)
    return NormalizedText("".join((*pieces, text[stop:])), tuple(before), tuple(after), inner)


@lru_cache(maxsize=64)
def normalize_text(text: str) -> NormalizedText:
    """Return a text without invisible characters, its letters in their usual form."""
    if _ODD.search(text) is None:
        return NormalizedText(text)
    return rewrite(
        text,
        ((*mark.span(), "" if mark[1] else _restore(mark[0])) for mark in _UNSEEN.finditer(text)),
    )


def _restore(letters: str) -> str:
    return unicodedata.normalize("NFKC", letters.translate(_LOOKALIKES))
