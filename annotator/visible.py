"""What a reader sees of a text, and where it stands in the text."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Optional

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
