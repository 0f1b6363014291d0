"""One agent's part in a run: its patch by lines, and its sentences."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from annotator.facts.known import Known
from annotator.facts.model import Span
from annotator.facts.patches import passage, read_patches
from annotator.facts.prose import Said, Sentence, points_at
from annotator.patches.diff import Line, Patch

MOST_LINES = 5_000
"""Lines of a patch that are compared."""

_NAME = re.compile(r"[A-Za-z_]\w{2,99}")
TELLING = re.compile(r"\w\W*\w\W*\w")
"""A line that says something: three letters or digits."""


@dataclass(frozen=True)
class Side:
    """One agent's patch, and the lines of it that say something."""

    agent: str
    patch: Patch

    @cached_property
    def added(self) -> dict[str, Line]:
        """The added lines by their text without white space, each at its first place."""
        return self._lines("+")

    @cached_property
    def shown(self) -> frozenset[str]:
        """All lines of the changed files that the patch shows, but the removed ones."""
        return frozenset(self.added) | frozenset(self._shared)

    @cached_property
    def whole(self) -> bool:
        """Whether all of the patch is compared: else nothing can be said to be absent from it."""
        return not self.patch.unread and max(len(self.added), len(self._shared)) <= MOST_LINES

    @cached_property
    def only_removed(self) -> dict[str, Line]:
        """The names that the patch removes and shows nowhere else, each with a removed line."""
        gone: dict[str, Line] = {}
        kept: set[str] = set()
        for line in self._all():
            names = _NAME.findall(line.text)
            if line.sign == "-":
                for name in names:
                    gone.setdefault(name, line)
            else:
                kept.update(names)
        return {name: line for name, line in gone.items() if name not in kept}

    @cached_property
    def _shared(self) -> dict[str, Line]:
        return self._lines(" ")

    @cached_property
    def joined(self) -> str:
        """What ``shown`` holds as one text, line by line."""
        return "\n".join(self.shown)

    def _all(self) -> Iterator[Line]:
        return (line for file in self.patch.files for hunk in file.hunks for line in hunk.lines)

    def _lines(self, sign: str) -> dict[str, Line]:
        found: dict[str, Line] = {}
        for line in self._all():
            if line.sign == sign and TELLING.search(line.text):
                found.setdefault("".join(line.text.split()), line)
                if len(found) > MOST_LINES:
                    break
        return found

    def span(self, lines: Sequence[Line]) -> Span:
        """Return a passage of the patch that shows lines, or else its first hunk."""
        hunk = next(hunk for file in self.patch.files for hunk in file.hunks)
        return passage(f"patch:{self.agent}", self.patch.text, lines, hunk)


@lru_cache(maxsize=1)  # of one trace: its facts and the rules ask for the same
def sides_of(known: Known) -> dict[str, Side]:
    """Return the agents that changed something, by name."""
    return {
        agent: Side(agent, patch)
        for agent, patch in read_patches(known.trace).items()
        if any(file.hunks for file in patch.files)
    }


def sentences(known: Known) -> Iterator[tuple[Said, Sentence]]:
    """Yield the sentences of a talk that can be pointed at, each with its message."""
    for said in known.messages:
        for sentence in said.sentences:
            if points_at(sentence.text):
                yield said, sentence
