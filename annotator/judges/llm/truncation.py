"""A prompt that a server cut without a word, found out by the tokens that it says it read."""

import re
from collections import deque
from collections.abc import Mapping
from statistics import median
from typing import Any

SPARSEST = 5.2
"""Characters a token: of 88 real prompts the sparsest had 4.87. What seems sparser was cut."""
_DENSE = 4.0  # characters a token that a complete prompt may have whatever the others had
_SPREAD = 1.3  # of the sparsest of many prompts to their median: 1.22 was seen
_TELLING = 8  # complete prompts that say how a tokenizer counts
_SAME = 1_000  # a thousandth more is another length: by chance its count is as rarely the same
_LEAST_CONTEXT = 2_048  # tokens
_LEAST_READ = 256  # tokens: no context is so small
_NO_TEXT = 8.0  # characters a token: sparser than any text, whatever the tokenizer


_WIDE = re.compile("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+")


def measure(text: str) -> int:
    """Return the length of a text in characters of an alphabet. A Chinese, Japanese or Korean one
    counts as two of them: of those a token has 1 to 2.
    """
    return len(text) + (0 if text.isascii() else sum(map(len, _WIDE.findall(text))))


def least_tokens(body: Mapping[str, Any]) -> int:
    """Return the number of tokens that a request has at least; a server that counts fewer did not
    count, or not honestly. Of a schema it is not known whether it is read.
    """
    items = body.get("messages") or body.get("input") or ()
    return int(sum(len(item.get("content") or "") for item in items) / _NO_TEXT)


class PromptGauge:
    """What one endpoint counts: every prompt that was read in full makes it sharper.

    Three things give a cut away. More characters a token than any text has: Ollama leaves half of
    its context of a longer prompt, so that this finds all of its cuts; the bound is learned, as a
    tokenizer may count more tokens than others do. A count that stands still: the longest so far,
    and the same for prompts of another length. And one that is a context to the token.

    Characters (:func:`measure`) and not bytes, which are the same in English and in code: in other
    alphabets a token has as many characters and twice the bytes.

    ``refuses``: the server says so when a prompt is too long, so that only a count that no text has
    is held against it: one prompt of some thousands has the tokens of a context by chance.
    ``counts_new``: it counts only what it had not cached (Ollama 0.30 does), and only what is new
    to it is held against that; None is to be found out.
    """

    def __init__(self, refuses: bool = False) -> None:
        self._refuses = refuses
        self.counts_new: bool | None = False
        self._ratios: deque[float] = deque(maxlen=64)
        self._longest = 0
        self._size = 0  # of the prompt that had the longest count

    @property
    def sparsest(self) -> float:
        """The characters a token from which a prompt counts as cut."""
        if len(self._ratios) < _TELLING:
            return SPARSEST
        return min(SPARSEST, max(_DENSE, median(self._ratios) * _SPREAD))

    def was_cut(self, size: int, tokens: int, new: int, before: int = 0, added: int = 0) -> bool:
        """Whether a server cut a prompt of ``size`` characters of which it read so many tokens;
        ``new``: those that it cannot have cached, unless it has read all of this prompt before.
        ``added``: those that came since it read the beginning in ``before`` tokens. The answer that
        is among them has the tags, so that a model can repeat those that were cut off.

        The size is that of the messages alone: of a schema it is not known whether it is read.
        """
        if tokens > size:  # it counts something else
            return False
        if self.counts_new:
            return tokens >= _LEAST_READ and new > tokens * SPARSEST
        if before and added > (tokens - before) * SPARSEST and not self._refuses:
            return True
        stands = tokens == self._longest and abs(size - self._size) > size // _SAME
        if tokens > self._longest:
            self._longest, self._size = tokens, size
        is_context = tokens >= _LEAST_CONTEXT and tokens & (tokens - 1) == 0
        if size > tokens * self.sparsest or ((stands or is_context) and not self._refuses):
            return True
        self._ratios.append(size / tokens)
        return False
