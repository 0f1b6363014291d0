"""Keys that a reader does not read: named once, never dropped in silence."""

from collections.abc import Collection, Mapping
from typing import Any

from annotator.base.text import sanitize_line
from annotator.traces.conversation import Conversation


def note_unread(
    chat: Conversation, where: str, fields: Mapping[str, Any], expected: Collection[str]
) -> None:
    """Add a problem for each key that holds something and is neither read nor known as harmless."""
    for key, value in fields.items():
        if key in expected or value in (None, "", [], {}, False):
            continue
        problem = f"{where}: {sanitize_line(str(key), 80)} left out, not read"
        if problem not in chat.problems:
            chat.problems.append(problem)
