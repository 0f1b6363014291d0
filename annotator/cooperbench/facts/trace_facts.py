"""The facts about one trace, drawn when they are first asked for."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Protocol

from annotator.cooperbench.facts.model import Fact, FactSpan
from annotator.cooperbench.facts.prose import (
    ParsedMessage,
    Sentence,
    is_quotable,
    parse_messages,
    show,
)
from annotator.traces import Trace


class Module(Protocol):
    """A module of facts: the kinds it draws, with their meanings, and how."""

    KINDS: Mapping[str, str]

    def draw(self, facts: "TraceFacts") -> Iterator[Fact]:
        """Yield its facts about a trace."""


class TraceFacts:
    """A trace and its facts. Nothing is read or drawn before it is asked for, and then once."""

    def __init__(self, trace: Trace, modules: tuple[Module, ...]) -> None:
        self.trace = trace
        self._modules = modules
        self._drawn: dict[int, list[Fact]] = {}

    @cached_property
    def messages(self) -> list[ParsedMessage]:
        """The messages that agents wrote, as they are looked at."""
        return parse_messages(self.trace)

    @cached_property
    def _texts(self) -> dict[str, str]:
        return {
            source.id: source.text
            for source in self.trace.sources(("messages", "patches", "outcome"))
        }

    def sentences(self) -> Iterator[tuple[ParsedMessage, Sentence]]:
        """Yield the sentences of all messages that can be pointed at, each with its message."""
        for message in self.messages:
            for sentence in message.sentences:
                if is_quotable(sentence.text):
                    yield message, sentence

    def text(self, span: FactSpan) -> str:
        """Return a passage."""
        return self._texts.get(span.source, "")[span.start : span.end]

    def show(self, span: FactSpan) -> str:
        """Return a passage as a fact says it."""
        return show(self.text(span))

    def _others(self, message: ParsedMessage) -> list[str]:
        return [agent for agent in self.trace.agents if agent != message.sender]

    def addressees(self, message: ParsedMessage) -> tuple[str, ...]:
        """Return the recipients that are agents of the run, else everybody but the sender."""
        others = self._others(message)
        recipients = [agent for agent in others if agent in message.original.recipients]
        return tuple(recipients or others)

    def partners(self, message: ParsedMessage, text: str = "") -> tuple[str, ...]:
        """Return to whom a message speaks: the agents that ``text`` names or that it is sent to, or
        the only other one; none if that is not clear.
        """
        others = self._others(message)
        low = text.lower()
        named_agents = [agent for agent in others if agent.lower() in low]
        recipients = [agent for agent in others if agent in message.original.recipients]
        partners = named_agents or recipients or others
        return tuple(partners) if named_agents or recipients or len(others) == 1 else ()

    def of(self, *kinds: str) -> list[Fact]:
        """Return the facts of some kinds, module by module in the order of the text."""
        asked = frozenset(kinds)
        return [
            fact
            for n, module in enumerate(self._modules)
            if not asked.isdisjoint(module.KINDS)
            for fact in self._facts(n, module)
            if fact.kind in asked
        ]

    def __iter__(self) -> Iterator[Fact]:
        """Yield all facts, module by module."""
        for n, module in enumerate(self._modules):
            yield from self._facts(n, module)

    def _facts(self, n: int, module: Module) -> list[Fact]:
        if n not in self._drawn:
            self._drawn[n] = list(module.draw(self))
        return self._drawn[n]
