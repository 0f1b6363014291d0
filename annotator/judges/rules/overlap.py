"""Patches that change the same place of the same file."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from rapidfuzz import fuzz

from annotator.annotations import Quote
from annotator.judges.rules.passages import LONGEST_QUOTE, clipped
from annotator.traces import Trace

MOST_PATCH = 2_000_000  # characters of a patch that are read
_MOST_LINES = 40  # lines of one edit that are compared
_MOST_MEETINGS = 50  # meetings of two patches that are looked at
_MOST_PATCHES = 10
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@")
_LETTER = re.compile(r"[^\W\d_]")


@dataclass(frozen=True, slots=True)
class Edit:
    """One run of changed lines: the base lines ``start`` to before ``end``, and what replaced them.

    ``lines`` are lines of the patch with their sign: the added ones, or the removed ones of an edit
    that only removes. An insertion has ``start == end``.
    """

    file: str
    start: int
    end: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Meeting:
    """The place where the patches of two agents meet, and a line of each."""

    agents: tuple[str, str]
    file: str
    quotes: tuple[Quote, Quote]


def shared_place(trace: Trace) -> Meeting | None:
    """Return where two patches change the same base lines, with the lines most alike, or None."""
    patches = list(trace.patches.items())[:_MOST_PATCHES]
    edits = {agent: list(read_edits(patch)) for agent, patch in patches}
    for one, two in combinations(edits, 2):
        best: tuple[float, Meeting] | None = None
        for ours, theirs in _touching(edits[one], edits[two]):
            for left in ours.lines:
                for right in theirs.lines:
                    # Weighed by length: a shared "import re" is alike, and tells nothing.
                    score = fuzz.ratio(left, right) * min(len(left), len(right))
                    if best is None or score > best[0]:
                        quotes = (Quote(left, f"patch:{one}"), Quote(right, f"patch:{two}"))
                        best = (score, Meeting((one, two), ours.file, quotes))
        if best:
            return best[1]
    return None


def read_edits(patch: str) -> Iterator[Edit]:
    """Yield the edits of a unified diff. What is no unified diff yields nothing."""
    if len(patch) > MOST_PATCH:
        patch = patch[: max(patch.rfind("\n", 0, MOST_PATCH), 0)]
    file, old_left, new_left, line = "", 0, 0, 0
    start, added, removed = 0, [], []  # type: int, list[str], list[str]
    for text in (*patch.split("\n"), "@@"):
        text = text.removesuffix("\r")
        sign = text[:1] if old_left > 0 or new_left > 0 else ""
        if sign not in ("+", "-") and (added or removed):
            yield Edit(file, start, start + len(removed), _quotable(added or removed))
            added, removed = [], []
        if not (added or removed):
            start = line
        # The lengths in the hunk's header tell its lines from the next file's "---" and "+++".
        if sign == "+":
            added.append(text)
            new_left -= 1
        elif sign == "-":
            removed.append(text)
            line, old_left = line + 1, old_left - 1
        elif sign in (" ", "") and (old_left > 0 or new_left > 0):
            line, old_left, new_left = line + 1, old_left - 1, new_left - 1
        elif hunk := _HUNK.match(text):
            old_left, new_left = int(hunk.group(2) or 1), int(hunk.group(3) or 1)
            line = int(hunk.group(1)) + (old_left == 0)  # "-5,0" inserts after line 5
        elif text.startswith("--- ") or (file == "/dev/null" and text.startswith("+++ ")):
            file = _path(text)


def _path(header: str) -> str:
    path = header[4:].partition("\t")[0].strip()
    return path[2:] if path.startswith(("a/", "b/")) else path


def _quotable(lines: list[str]) -> tuple[str, ...]:
    """Return the first lines of an edit that say something, none too long for a quote."""
    shown = (line if len(line) <= LONGEST_QUOTE else clipped(line) for line in lines[:_MOST_LINES])
    return tuple(line.rstrip() for line in shown if _LETTER.search(line) and len(line.split()) > 1)


def _touching(ours: list[Edit], theirs: list[Edit]) -> Iterator[tuple[Edit, Edit]]:
    """Yield the pairs of edits that overlap or adjoin, which is where a three-way merge conflicts.

    One sweep over both in order: the work grows with the number of edits, not with its square.
    """
    ours, theirs = (
        sorted(edits, key=lambda edit: (edit.file, edit.start)) for edits in (ours, theirs)
    )
    i, j, seen = 0, 0, 0
    while i < len(ours) and j < len(theirs) and seen < _MOST_MEETINGS:
        one, two = ours[i], theirs[j]
        if one.file == two.file and one.start <= two.end and two.start <= one.end:
            seen += 1
            yield one, two
        if (one.file, one.end) < (two.file, two.end):
            i += 1
        else:
            j += 1
