"""The parts of a prompt, cut to a model's context."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from annotator.base.text import escape_header

_FRAME = 40  # characters around a header and a text: brackets, tag, line ends
_MARK = 76  # characters of the line that says what was left out
_SHORTEST = 400  # characters to which a part is cut before whole parts are left out

# Limits for a long report.
_SHORT_REPORT = 6_000  # characters of a report that is shown in full
_AROUND = 2  # lines before and after a telling one
_LONGEST_LINE = 1_000  # characters of a line
_SHORTEST_GAP = 300  # characters that are worth leaving out
_MOST_REPORT = 24_000  # characters of all that is telling
# Lines of interest begin so, in lower case, or contain one of these words, each checked by a
# pattern: the search for a word is ten times as fast as for a pattern.
_TELLING_START = re.compile(r"[e>]\s|={5}")
_AFTER_NUMBER = "|".join(rf"(?<=\b\d{{{digits}}})" for digits in range(1, 8))
_TELLING_WORDS = {
    **{word: word for word in ("conflict", "traceback", "test result", "panic", "✗", "×")},
    **{"fail": r"\bfail|failure\b", "error": r"\berror|error\b", "exception": r"\Bexception\b"},
    "assert": r"\bassert",
    **{f" {word}": rf"(?:{_AFTER_NUMBER}) {word}\b" for word in ("passed", "skipped", "ok")},
}
_TELLING = [(word, re.compile(pattern)) for word, pattern in _TELLING_WORDS.items()]

# The order in which kinds of parts get room, and the share of the rest that a kind may take if
# those after it need the remainder.
IN_ORDER = dict.fromkeys(("facts", "messages", "patches", "outcome", "steps", "task"), 1.0)
AROUND_QUOTES = {"facts": 1.0, "outcome": 1 / 4, "quoted": 1.0, "near": 1.0, "related": 1.0}
AROUND_QUOTES |= {"patches": 1 / 2, "messages": 1.0, "steps": 1.0, "task": 1.0}
"""The outcome, which refutes claims, is served first, then what :func:`mark_priorities` marks."""

_NEAR = 2  # messages before and after one that is quoted
_NEAR_TEXT = 1_500  # characters before and after a passage of any other part
_NAME = re.compile(r"[A-Za-z]\w*(?:[._(]\w*)+|[a-z]+[A-Z]\w*|[A-Z][a-z]+[A-Z]\w*")


Gap = tuple[int, int]
"""The start and the end of a passage that is not shown."""


@dataclass(frozen=True, slots=True)
class PromptPart:
    """One part of a prompt: a header, and a text without its ``gaps`` (sorted, disjoint).

    ``closed``: not to be quoted. ``id``: as in the trace; the header escapes it. A cut keeps the
    ``passages`` and their surroundings, if there are any.
    """

    id: str
    kind: str
    text: str
    more: str = ""
    closed: bool = False
    gaps: tuple[Gap, ...] = ()
    passages: tuple[Gap, ...] = ()

    @property
    def header(self) -> str:
        """The id, and more about the part."""
        return (
            escape_header(self.id)
            + self.more
            + (" (context, not to be quoted)" if self.closed else "")
        )

    @property
    def pieces(self) -> list[tuple[str, int]]:
        """The pieces of the text, each with the number of characters left out after it."""
        if not self.gaps:
            return [(self.text, 0)]
        starts = (0, *(end for _, end in self.gaps))
        ends = (*(start for start, _ in self.gaps), len(self.text))
        lengths = (*(end - start for start, end in self.gaps), 0)
        pieces = [self.text[start:end] for start, end in zip(starts, ends, strict=True)]
        return list(zip(pieces, lengths, strict=True))

    @property
    def left_out(self) -> int:
        """The number of characters in the gaps."""
        return sum(end - start for start, end in self.gaps)

    @property
    def visible_length(self) -> int:
        """The number of characters outside the gaps."""
        return len(self.text) - self.left_out

    @property
    def size(self) -> int:
        """The number of characters of the part in a prompt."""
        return self.frame + self.visible_length + _MARK * len(self.gaps)

    @property
    def frame(self) -> int:
        """The number of characters besides the text."""
        return len(self.header) + _FRAME

    def cut(self, max_characters: int) -> "PromptPart":
        """Return the part with at most ``max_characters`` characters of its text: its
        beginning and end, or the surroundings of its passages.
        """
        if self.visible_length <= max_characters:
            return self
        if self.passages:
            radii = range(len(self.text))
            near = (
                bisect_right(
                    radii, max_characters, key=lambda radius: self.around(radius).visible_length
                )
                - 1
            )
            return replace(self.around(max(near, 0)), passages=()).cut(max_characters)
        start = self._offset(max_characters - max_characters // 2)
        end = self._offset(self.visible_length - max_characters // 2, after=True)
        before = [gap for gap in self.gaps if gap[1] <= start]
        after = [gap for gap in self.gaps if gap[0] >= end]
        return replace(self, gaps=(*before, (start, end), *after))

    def around(self, radius: int) -> "PromptPart":
        """Return the part with only ``radius`` characters before and after its passages."""
        gaps, end = [], 0
        for start, stop in sorted(self.passages):
            if start - radius > end:
                gaps.append((end, start - radius))
            end = max(end, min(stop + radius, len(self.text)))
        if end < len(self.text):
            gaps.append((end, len(self.text)))
        return replace(self, gaps=tuple(gaps))

    def _offset(self, visible: int, after: bool = False) -> int:
        """Return the offset after so many shown characters; ``after`` a gap at that place."""
        offset = visible
        for start, end in self.gaps:
            if start < offset or (after and start == offset):
                offset += end - start
        return offset

    def cut_to(self, room: int) -> "PromptPart":
        """Return the part with at most ``room`` characters in a prompt."""
        if self.size <= room:
            return self
        return self.cut(max(room - self.frame - _MARK * (1 + len(self.gaps)), 0))


def truncate_parts(
    parts: Sequence[PromptPart], room: int, shares: Mapping[str, float] = IN_ORDER
) -> tuple[list[PromptPart], dict[str, int]]:
    """Return the parts that fit into ``room`` characters, and the missing characters of each.

    The kinds of parts get room one after the other, in the order of ``shares``. A kind gets its
    share of the room that is left. If the later kinds do not need all of theirs, it gets that, too.
    If a kind does not fit, its longest parts are cut in the middle. If too little of them would be
    left, the parts in the middle are dropped.
    """
    kept: dict[int, PromptPart] = {}
    later = sum(section.size for section in parts)  # of kinds that have had no room yet
    for kind, share in shares.items():
        group = {n: section for n, section in enumerate(parts) if section.kind == kind}
        later -= sum(section.size for section in group.values())
        selected = _truncate_group(group, max(int(share * room), room - later))
        room -= sum(section.size for section in selected.values())
        kept |= selected
    missing = {
        section.id: (kept[n].left_out if n in kept else len(section.text)) - section.left_out
        for n, section in enumerate(parts)
    }
    return [kept[n] for n in sorted(kept)], {name: size for name, size in missing.items() if size}


def _truncate_group(group: Mapping[int, PromptPart], room: int) -> dict[int, PromptPart]:
    if sum(section.size for section in group.values()) <= room:
        return dict(group)
    length = _find_level(group.values(), room)
    if length >= _SHORTEST:
        return {n: section.cut(length) for n, section in group.items()}
    selected = {}
    for n in _alternate_ends(list(group)):
        section = group[n].cut(_SHORTEST)
        if section.size > room:
            break
        selected[n] = section
        room -= section.size
    return selected


def _find_level(parts: Collection[PromptPart], room: int) -> int:
    """Return the greatest length to which the longest parts can be cut for all to fit, or 0."""

    def measure(length: int) -> int:
        return sum(section.cut(length).size for section in parts)

    lengths = range(max(len(section.text) for section in parts) + 1)
    return max(bisect_right(lengths, room, key=measure) - 1, 0)


def _alternate_ends(items: Sequence[int]) -> Iterator[int]:
    first, last = 0, len(items) - 1
    while first <= last:
        yield items[first]
        if first < last:
            yield items[last]
        first, last = first + 1, last - 1


def select_passages(section: PromptPart, breaks: Collection[int] = ()) -> PromptPart:
    """Return a report of merge and tests, if above 6,000 characters, cut to its conflicts, failures
    and summaries: their lines with two around each, and the first and the last line of each report
    (``breaks`` divide them).
    """
    if len(section.text) <= _SHORT_REPORT:
        return section
    starts = [0, *accumulate(map(len, section.text.splitlines(keepends=True)))]
    edges = {bisect_left(starts, offset) for offset in (0, *breaks, len(section.text))}
    visible = {n for edge in edges for n in (edge - 1, edge)}
    for n in _find_key_lines(section.text, starts):
        visible.update(range(n - _AROUND, n + _AROUND + 1))
    gaps: list[Gap] = []
    end = 0  # of what is shown
    for n in sorted(visible.intersection(range(len(starts) - 1))):
        gaps.append((end, starts[n]))
        end = min(starts[n + 1], starts[n] + _LONGEST_LINE)
    gaps.append((end, len(section.text)))
    gaps = [gap for gap in gaps if gap[1] - gap[0] >= _SHORTEST_GAP]
    return replace(section, gaps=tuple(gaps)).cut(_MOST_REPORT)


def _find_key_lines(text: str, starts: list[int]) -> Iterator[int]:
    """Yield the numbers of the lines about a conflict, a failure or a sum of tests."""
    length, text = len(text), text.lower()
    if len(text) > length:  # a few letters have two in lower case
        starts = [0, *accumulate(map(len, text.splitlines(keepends=True)))]
    for n, at in enumerate(starts[:-1]):
        if text[at] in "e>=" and _TELLING_START.match(text, at):
            yield n
    for word, pattern in _TELLING:
        at = text.find(word)
        while at >= 0:
            after = at + 1
            if word[0] != " " or text[at - 1].isdecimal():
                n = bisect_right(starts, at) - 1
                if pattern.match(text, at, starts[n] + _LONGEST_LINE):
                    yield n
                    after = starts[n + 1]
            at = text.find(word, after)


def mark_priorities(
    parts: Sequence[PromptPart],
    passages: Collection[tuple[str, int, int]],
    absences: Collection[str] = (),
) -> list[PromptPart]:
    """Return the parts with new kinds for those that get room first.

    Args:
        parts: in reading order.
        passages: (id of the part, start, end).
        absences: where claims say that something is missing: ``after`` the passages, ``anywhere``.

    ``quoted``: messages with a passage, and the surroundings of a passage in any other part.
    ``near``: the two messages before and after those. ``related``: later messages with a name of a
    passage, or all in which a missing thing could be.
    """
    quotes: dict[str, list[Gap]] = {}
    for name, start, end in passages:
        quotes.setdefault(name, []).append((start, end))
    talk = [n for n, section in enumerate(parts) if section.kind == "messages"]
    quoted = [at for at, n in enumerate(talk) if parts[n].id in quotes]
    near = [talk[at] for at in range(len(talk)) if any(abs(at - q) <= _NEAR for q in quoted)]
    texts = {section.id: section.text for section in parts}
    names = {
        name
        for part_id, spans in quotes.items()
        for start, end in spans
        for name in _NAME.findall(texts.get(part_id, "")[start:end])
    }
    later = [n for at, n in enumerate(talk) if quoted and at > quoted[0]]
    searched = talk if "anywhere" in absences else later
    related = [n for n in searched if absences or any(name in parts[n].text for name in names)]
    kinds = dict.fromkeys(related, "related") | dict.fromkeys(near, "near")
    return [
        _mark_passages(section, quotes[section.id])
        if section.id in quotes
        else replace(section, kind=kinds.get(n, section.kind))
        for n, section in enumerate(parts)
    ]


def _mark_passages(section: PromptPart, passages: Sequence[Gap]) -> PromptPart:
    quoted = replace(section, kind="quoted", passages=tuple(passages))
    return quoted if section.kind == "messages" else quoted.around(_NEAR_TEXT)
