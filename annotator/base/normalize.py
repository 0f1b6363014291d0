"""What a reader sees of a text, and where it stands in the text."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Optional

# What a reader does not see: controls, codes for colours, soft hyphens, what has no width; letters
# that only look otherwise: full-width forms, mathematical alphabets; and, beside a letter of A to
# Z, Cyrillic ones that look as one of these do. Russian words stay as they are.
_HIDDEN = (
    "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_DISGUISED = "\uff01-\uff5e\U0001d400-\U0001d7ff"
_ALIKE = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u051d"
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0406\u0408\u0405",
    "aeopcyxijshdqwABEKMHOPCTYXIJS",
)
_SAME = "".join(map(chr, _ALIKE))
_ODD = re.compile(f"[{_HIDDEN}{_DISGUISED}{_SAME}]")  # alone it is looked for many times as fast
_UNSEEN = re.compile(
    rf"(\x1b\[[0-?]*[ -/]*[@-~]|[{_HIDDEN}]+)|[{_DISGUISED}]"
    rf"|(?<=[A-Za-z])[{_SAME}]+|(?<![{_SAME}])[{_SAME}]+(?=[A-Za-z])"
)


@dataclass(frozen=True, slots=True)
class NormalizedText:
    """A text as it is read, and where each of its characters stands in what it was made of
    (``inner``: which is a view itself). Characters are left out or replaced, never added.
    """

    text: str
    _at: tuple[int, ...] = (0,)  # where, here and there, what is left out begins and ends to count
    _outer: tuple[int, ...] = (0,)
    inner: Optional["NormalizedText"] = None

    @property
    def changed(self) -> bool:
        """Whether anything is left out."""
        return len(self._at) > 1

    def locate(self, start: int, end: int) -> tuple[int, int]:
        """Return where a passage that is not empty stands in the text that it was made of."""
        start, end = self._original(start), self._original(end - 1) + 1
        return self.inner.locate(start, end) if self.inner else (start, end)

    def find_visible(self, at: int) -> int:
        """Return where the first character from an offset of the original on is read."""
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
    """Return a text with passages replaced by others that are no longer, in order."""
    pieces, before, after, last, length = [], [0], [0], 0, 0
    for start, end, new in edits:
        pieces += [text[last:start], new]
        length += start - last + len(new)
        last = end
        if len(new) != end - start:
            before.append(length)
            after.append(end)
    return NormalizedText("".join((*pieces, text[last:])), tuple(before), tuple(after), inner)


@lru_cache(maxsize=64)
def normalize_text(text: str) -> NormalizedText:
    """Return a text without what a reader does not see in it, and letters in their usual form."""
    if _ODD.search(text) is None:
        return NormalizedText(text)
    return rewrite(
        text,
        ((*mark.span(), "" if mark[1] else _usual(mark[0])) for mark in _UNSEEN.finditer(text)),
    )


def _usual(letters: str) -> str:
    return unicodedata.normalize("NFKC", letters.translate(_ALIKE))
