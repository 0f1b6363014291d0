"""ProblemKinds with traces, grouped: a sentence for each kind, and how often it occurs."""

import re
from collections.abc import Iterator

from annotator.text import storable

_MOST_KINDS = 1_000
# What differs between problems of one kind: numbers, quoted values, names of files.
_PARTICULAR = re.compile(r"'[^']*'|\"[^\"]*\"|[\w./-]*\.[a-zA-Z]{2,8}\b|\d+")


class ProblemKinds:
    """Kinds of problems in the order in which they were met, each with its first example. Memory is
    bounded: what comes after a thousand kinds is counted as one.
    """

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[str, int]] = {}

    def add(self, where: str, reason: str) -> None:
        """Count a problem of what stands at ``where``."""
        kind = _PARTICULAR.sub("", reason)
        if kind not in self._kinds and len(self._kinds) >= _MOST_KINDS:
            kind = ""
        example, n = self._kinds.get(kind, (storable(f"{where}: {reason}"), 0))
        self._kinds[kind] = example, n + 1

    def __len__(self) -> int:
        return len(self._kinds)

    def __iter__(self) -> Iterator[str]:
        """Yield a line for each kind: its first example, and how many more there are."""
        for example, n in self._kinds.values():
            yield example if n == 1 else f"{example} (and {n - 1} more like it)"
