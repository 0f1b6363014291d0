"""What a program can establish about a trace, without any judgement."""

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
    """Return an agent's name as a sentence shows it: a trace may call it anything."""
    return sanitize_line(agent, 64)


@dataclass(frozen=True, slots=True)
class Fact:
    """One observation. ``kind`` is a name of the registry, ``says`` the observation in a sentence.

    ``agents``: whom it concerns, in the order of the sentence. ``spans``: the passages that it
    rests on, in the same order where there is one of each; none cuts a word or crosses a break.
    ``about`` holds its details as JSON values (files, names, numbers), to compute with.
    """

    kind: str
    says: str
    agents: tuple[str, ...]
    spans: tuple[FactSpan, ...]
    about: Mapping[str, Any] = field(default_factory=dict)
