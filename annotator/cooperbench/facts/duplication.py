"""Work that stands in two patches: one holds most of what the other adds."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import permutations

from annotator.cooperbench.facts.model import Fact, format_agent
from annotator.cooperbench.facts.patches import quote_lines, read_patches
from annotator.cooperbench.facts.trace_facts import TraceFacts
from annotator.cooperbench.patches.diff import Hunk, Line, Patch

KINDS: Mapping[str, str] = {"work_carried": "a patch holds most of what another patch adds"}

MOST_LINES = 5_000  # different lines of a patch that are compared
_SHARE = 0.5  # of a patch's added lines, from which another patch carries it
_FEWEST = 2  # lines that say something, for "most of them" to mean anything
_TELLING = re.compile(r"\w\W*\w\W*\w")  # a line that says something: three letters or digits


def draw(facts: TraceFacts) -> Iterator[Fact]:
    """Yield which patch holds most of what another adds, apart from code shown in messages."""
    lines = {
        agent: _collect_telling_lines(patch)
        for agent, patch in read_patches(facts.trace).items()
        if patch.files and not patch.unread
    }
    if len(lines) < 2:
        return
    agreed = _collect_code_lines(facts)
    for ours, theirs in permutations(lines, 2):
        written = lines[theirs].keys() - agreed
        common = [text for text in lines[theirs] if text in written and text in lines[ours]]
        share = len(common) / len(written) if written else 0.0
        if len(common) < _FEWEST or share < _SHARE or len(lines[theirs]) > MOST_LINES:
            continue
        says = (
            f"{format_agent(ours)}'s patch holds {len(common)} of the {len(written)} lines that "
            f"{format_agent(theirs)}'s adds."
        )
        spans = tuple(
            quote_lines(f"patch:{agent}", facts.trace.patches[agent], [line], hunk)
            for agent in (ours, theirs)
            for line, hunk in [lines[agent][common[0]]]
        )
        details = {"lines": len(common), "of": len(written), "share": round(share, 3)}
        yield Fact("work_carried", says, (ours, theirs), spans, details)


def _collect_telling_lines(patch: Patch) -> dict[str, tuple[Line, Hunk]]:
    """Return the added lines that say something by their text without white space."""
    lines: dict[str, tuple[Line, Hunk]] = {}
    for hunk in (hunk for file in patch.files for hunk in file.hunks):
        for line in hunk.lines:
            if line.sign == "+" and _TELLING.search(line.text):
                lines.setdefault("".join(line.text.split()), (line, hunk))
                if len(lines) > MOST_LINES:
                    return lines
    return lines


def _collect_code_lines(facts: TraceFacts) -> set[str]:
    """Return the lines of code in messages, without white space: written by agreement."""
    code: Iterable[str] = (
        message.passage(start, stop)
        for message in facts.messages
        for part, start, stop in message.parts
        if part == "code" and start < stop
    )
    return {"".join(line.split()) for text in code for line in text.split("\n")}
