"""The facts about one trace, drawn when they are first asked for."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

from annotator.base.normalize import normalize_text
from annotator.base.text import sanitize_line
from annotator.cooperbench.facts.model import Fact, FactSpan, format_agent
from annotator.cooperbench.facts.prose import (
    ParsedMessage,
    Sentence,
    is_quotable,
    locate_sentence,
    parse_message,
)
from annotator.traces import Trace

Drawer = tuple[Mapping[str, str], Callable[["TraceFacts"], Iterator[Fact]]]
"""The kinds of a group of facts with their meanings, and the function that draws them."""


class TraceFacts:
    """A trace and its facts. Nothing is read or drawn before it is asked for, and then once."""

    def __init__(self, trace: Trace, drawers: tuple[Drawer, ...]) -> None:
        self.trace = trace
        self._drawers = drawers
        self._facts: dict[int, list[Fact]] = {}

    @cached_property
    def messages(self) -> list[ParsedMessage]:
        """The parsed messages of the agents."""
        return list(map(parse_message, self.trace.spoken))

    @cached_property
    def _texts(self) -> dict[str, str]:
        return {
            source.id: source.text
            for source in self.trace.sources(("messages", "patches", "outcome"))
        }

    def sentences(self) -> Iterator[tuple[ParsedMessage, Sentence]]:
        """Yield every quotable sentence with its message."""
        for message in self.messages:
            for sentence in message.sentences:
                if is_quotable(sentence.text):
                    yield message, sentence

    def text(self, span: FactSpan) -> str:
        """Return a passage."""
        return self._texts.get(span.source, "")[span.start : span.end]

    def show(self, span: FactSpan) -> str:
        """Return a passage in one line of at most 160 characters."""
        return sanitize_line(normalize_text(self.text(span)).text, 160)

    def state(
        self, kind: str, message: ParsedMessage, sentence: Sentence, what: str, **about: Any
    ) -> Fact:
        """Return the fact that a sentence says something."""
        span = locate_sentence(message, sentence)
        says = (
            f'{format_agent(message.sender)} says in message {message.n}{what}: "{self.show(span)}"'
        )
        return Fact(kind, says, (message.sender,), (span,), {"message": message.n, **about})

    def _others(self, message: ParsedMessage) -> list[str]:
        return [agent for agent in self.trace.agents if agent != message.sender]

    def addressees(self, message: ParsedMessage) -> tuple[str, ...]:
        """Return the recipients that are agents of the run, else everybody but the sender."""
        others = self._others(message)
        recipients = [agent for agent in others if agent in message.original.recipients]
        return tuple(recipients or others)

    def partners(self, message: ParsedMessage, text: str = "") -> tuple[str, ...]:
        """Return the agents that ``text`` names, else the recipients, else the only other agent."""
        others = self._others(message)
        low = text.lower()
        named_agents = [agent for agent in others if agent.lower() in low]
        recipients = [agent for agent in others if agent in message.original.recipients]
        partners = named_agents or recipients or others
        return tuple(partners) if named_agents or recipients or len(others) == 1 else ()

    def of(self, *kinds: str) -> list[Fact]:
        """Return the facts of some kinds, group by group in the order of the text."""
        return [
            fact
            for n, (meanings, _) in enumerate(self._drawers)
            if not meanings.keys().isdisjoint(kinds)
            for fact in self._draw(n)
            if fact.kind in kinds
        ]

    def __iter__(self) -> Iterator[Fact]:
        """Yield all facts, group by group."""
        for n in range(len(self._drawers)):
            yield from self._draw(n)

    def _draw(self, n: int) -> list[Fact]:
        if n not in self._facts:
            self._facts[n] = list(self._drawers[n][1](self))
        return self._facts[n]
