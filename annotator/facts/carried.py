"""Work that stands in two patches: one holds most of what the other adds."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import permutations

from annotator.facts.known import Known
from annotator.facts.model import Fact, name_of
from annotator.facts.patches import passage, read_patches
from annotator.patches.diff import Hunk, Line, Patch

KINDS: Mapping[str, str] = {"work_carried": "a patch holds most of what another patch adds"}

MOST_LINES = 5_000  # different lines of a patch that are compared
_SHARE = 0.5  # of a patch's added lines, from which another patch carries it
_FEWEST = 2  # lines that say something, for "most of them" to mean anything
_TELLING = re.compile(r"\w\W*\w\W*\w")  # a line that says something: three letters or digits


def facts(known: Known) -> Iterator[Fact]:
    """Yield which patch holds most of what another adds, apart from code shown in messages."""
    added = {
        agent: _added(patch)
        for agent, patch in read_patches(known.trace).items()
        if patch.files and not patch.unread
    }
    if len(added) < 2:
        return
    shown = _shown(known)
    for ours, theirs in permutations(added, 2):
        wrote = added[theirs].keys() - shown
        both = [text for text in added[theirs] if text in wrote and text in added[ours]]
        share = len(both) / len(wrote) if wrote else 0.0
        if len(both) < _FEWEST or share < _SHARE or len(added[theirs]) > MOST_LINES:
            continue
        says = (
            f"{name_of(ours)}'s patch holds {len(both)} of the {len(wrote)} lines that "
            f"{name_of(theirs)}'s adds."
        )
        spans = tuple(
            passage(f"patch:{agent}", known.trace.patches[agent], [line], hunk)
            for agent in (ours, theirs)
            for line, hunk in [added[agent][both[0]]]
        )
        details = {"lines": len(both), "of": len(wrote), "share": round(share, 3)}
        yield Fact("work_carried", says, (ours, theirs), spans, details)


def _added(patch: Patch) -> dict[str, tuple[Line, Hunk]]:
    """Return the added lines that say something by their text without white space."""
    found: dict[str, tuple[Line, Hunk]] = {}
    for hunk in (hunk for file in patch.files for hunk in file.hunks):
        for line in hunk.lines:
            if line.sign == "+" and _TELLING.search(line.text):
                found.setdefault("".join(line.text.split()), (line, hunk))
                if len(found) > MOST_LINES:
                    return found
    return found


def _shown(known: Known) -> set[str]:
    """Return the lines of code in messages, without white space: written by agreement."""
    code: Iterable[str] = (
        said.text[start:stop]
        for said in known.messages
        for part, start, stop in said.parts
        if part == "code"
    )
    return {"".join(line.split()) for text in code for line in text.split("\n")}
