"""A long conversation, cut into windows that overlap."""

from collections.abc import Sequence

from annotator.prompts.truncate import PromptPart

_OVERLAP = 0.2  # of a window that the next one shows again


def split_windows(messages: Sequence[PromptPart], room: int) -> list[range]:
    """Return overlapping stretches of a conversation that fit into ``room`` characters each.

    A longer message is a window of its own.
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
        # The repeated messages must leave room for the next one.
        again = min(_OVERLAP * room, room - messages[end].size)
        start = end
        while start - 1 > stretches[-1].start and again >= messages[start - 1].size:
            start -= 1
            again -= messages[start].size
    return stretches
