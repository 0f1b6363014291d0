"""A fact: one observation about a trace, with its passages."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from annotator.base.text import sanitize_line


@dataclass(frozen=True, slots=True)
class FactSpan:
    """A passage: the characters ``start`` to before ``end`` of the text of a source.

    ``source`` is an id as in the annotations: ``message:3``, ``patch:agent1``, ``outcome``.
    """

    source: str
    start: int
    end: int


def format_agent(agent: str) -> str:
    """Return an agent's name for a sentence: one clean line of at most 64 characters."""
    return sanitize_line(agent, 64)


@dataclass(frozen=True, slots=True)
class Fact:
    """One observation: its ``kind``, and the observation as a sentence (``says``).

    ``agents`` are those it concerns, in the order of the sentence. ``spans`` are its passages; no
    passage cuts a word or crosses a break. ``about`` holds files, names and numbers as JSON values.
    """

    kind: str
    says: str
    agents: tuple[str, ...]
    spans: tuple[FactSpan, ...]
    about: Mapping[str, Any] = field(default_factory=dict)
