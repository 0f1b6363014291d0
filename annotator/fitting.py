"""What of a trace is shown where a model cannot read all of it."""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

_FRAME = 40  # characters around a header and a text: brackets, tag, line ends
_MARK = 76  # characters of the line that says what was left out
_SHORTEST = 400  # characters to which a part is cut before whole parts are left out
_OVERLAP = 0.2  # of a window that the next one shows again

# Who is served first where there is not room for all.
KINDS = ("facts", "messages", "patches", "outcome", "steps", "task")


@dataclass(frozen=True, slots=True)
class PromptPart:
    """One part of a prompt: its header and its text, of which ``left_out`` characters are missing
    before ``tail``. ``closed`` parts are not to be quoted.
    """

    id: str
    kind: str
    text: str
    more: str = ""
    closed: bool = False
    left_out: int = 0
    tail: str = ""

    @property
    def header(self) -> str:
        """The part's id and what else its header says."""
        return self.id + self.more + (" (context, not to be quoted)" if self.closed else "")

    @property
    def size(self) -> int:
        """The characters that the part takes in a prompt."""
        mark = _MARK if self.left_out else 0
        return self.frame + len(self.text) + mark + len(self.tail)

    @property
    def frame(self) -> int:
        """The characters that the part takes besides its text."""
        listed = len(self.id) + 2 if self.closed else 0  # it is named again at the end
        return len(self.header) + _FRAME + listed

    def cut(self, most: int) -> "PromptPart":
        """Return the part with at most ``most`` characters of its text, the first and the last."""
        if len(self.text) <= most:
            return self
        head = most - most // 2
        tail = self.text[len(self.text) - most // 2 :]
        return replace(self, text=self.text[:head], tail=tail, left_out=len(self.text) - most)

    def cut_to(self, room: int) -> "PromptPart":
        """Return the part, cut where it would take more than ``room`` characters of a prompt."""
        if self.size <= room:
            return self
        return self.cut(max(room - self.frame - _MARK, 0))


def fit(parts: Sequence[PromptPart], room: int) -> tuple[list[PromptPart], dict[str, int]]:
    """Return the parts that fit into ``room`` characters, and what is missing of which.

    The facts come first, then the conversation, the patches, the outcome, the steps and the texts
    of the tasks: each takes what it needs of what is left. Where a kind does not fit, its longest
    parts are cut in the middle; where that would leave nothing worth reading, the parts in the
    middle are left out and the first and the last are kept.
    """
    kept: dict[int, PromptPart] = {}
    for kind in KINDS:
        group = {n: part for n, part in enumerate(parts) if part.kind == kind}
        chosen = _share(group, room)
        room -= sum(part.size for part in chosen.values())
        kept |= chosen
    missing = {
        part.id: kept[n].left_out if n in kept else len(part.text)
        for n, part in enumerate(parts)
        if (n not in kept and part.text) or (n in kept and kept[n].left_out)
    }
    return [kept[n] for n in sorted(kept)], missing


def _share(group: Mapping[int, PromptPart], room: int) -> dict[int, PromptPart]:
    if sum(part.size for part in group.values()) <= room:
        return dict(group)
    most = _level(group.values(), room)
    if most >= _SHORTEST:
        return {n: part.cut(most) for n, part in group.items()}
    chosen = {}
    for n in _from_both_ends(list(group)):
        part = group[n].cut(_SHORTEST)
        if part.size > room:
            break
        chosen[n] = part
        room -= part.size
    return chosen


def _level(parts: Collection[PromptPart], room: int) -> int:
    """Return the greatest length to which the longest can be cut for all to fit; 0 if none is."""

    def needed(most: int) -> int:
        return sum(
            part.frame + (len(part.text) if len(part.text) <= most else most + _MARK)
            for part in parts
        )

    lengths = range(max(len(part.text) for part in parts) + 1)
    return max(bisect_right(lengths, room, key=needed) - 1, 0)


def _from_both_ends(items: Sequence[int]) -> Iterator[int]:
    first, last = 0, len(items) - 1
    while first <= last:
        yield items[first]
        if first < last:
            yield items[last]
        first, last = first + 1, last - 1


def windows(messages: Sequence[PromptPart], room: int) -> list[range]:
    """Return overlapping stretches of a conversation of which each fits into ``room`` characters.

    A message that is longer than that is a window of its own.
    """
    stretches: list[range] = []
    start = 0
    while start < len(messages):
        end, used = start, 0
        while end < len(messages) and (end == start or used + messages[end].size <= room):
            used += messages[end].size
            end += 1
        stretches.append(range(start, end))
        if end == len(messages):
            break
        # What is shown again must leave room for the message that comes next.
        again = min(_OVERLAP * room, room - messages[end].size)
        start = end
        while start - 1 > stretches[-1].start and again >= messages[start - 1].size:
            start -= 1
            again -= messages[start].size
    return stretches
