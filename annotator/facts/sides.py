"""One agent's part in a run: its patch by lines, and its sentences."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from annotator.facts.diff import Line, Patch
from annotator.facts.known import Known
from annotator.facts.model import Span
from annotator.facts.patches import passage, read_patches
from annotator.facts.prose import Said, Sentence, points_at

MOST_LINES = 5_000
"""Lines of a patch that are compared."""

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
        return frozenset(self.added) | frozenset(self._lines(" "))

    def _lines(self, sign: str) -> dict[str, Line]:
        found: dict[str, Line] = {}
        for file in self.patch.files:
            for hunk in file.hunks:
                for line in hunk.lines:
                    if line.sign == sign and TELLING.search(line.text):
                        found.setdefault("".join(line.text.split()), line)
                if len(found) > MOST_LINES:
                    return found
        return found

    def span(self, lines: Sequence[Line]) -> Span:
        """Return a passage of the patch that shows lines."""
        hunk = self.patch.files[0].hunks[0]
        return passage(f"patch:{self.agent}", self.patch.text, lines, hunk)


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
