"""Questions and requests for information, and those after which no partner sends anything.

What counts as one is said in :mod:`annotator.facts.asking`.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

from annotator.facts.known import Known
from annotator.facts.model import Fact, FactSpan, name_of
from annotator.facts.prose import Said, points_at, span_of
from annotator.text import one_line

KINDS: Mapping[str, str] = {
    "question": "an agent asks a question or for information or a decision",
    "no_reply": "a question or request after which no partner sends anything",
}

_NO_ANSWER = re.compile(
    r"\bno (?:response|reply|answer|word)\b|\bnot? (?:heard|received)\b|\bhaven't heard\b"
    r"|\bdid(?:n't| not) (?:hear|reply|answer|respond)\b|\bwithout an? (?:reply|answer|response)\b"
)
_TAKEN_BACK = re.compile(
    r"\b(?:never ?mind|found it|figured it out|no longer need|disregard|ignore my)\b"
)


def facts(known: Known) -> Iterator[Fact]:
    """Yield what is asked, message by message, each with what shows that no reply came.

    Nothing is said of a reply where a partner sent messages that were not read.
    """
    messages = known.messages
    unread = {message.sender for message in known.trace.spoken[len(messages) :]}
    last = {said.sender: said.n for said in messages}
    remarks = _Remarks(messages)
    for said, sentence in known.sentences():
        if sentence.asks is None:
            continue
        span = span_of(said, sentence, sentence.asks)
        shown = one_line(known.text(span), 160)
        partners = _asked(known, said)
        about = {"message": said.n, "partners": list(partners)}
        agents = (said.sender, *partners)
        whom = " and ".join(map(name_of, partners)) or "nobody"
        says = f'{name_of(said.sender)} asks {whom} in message {said.n}: "{shown}"'
        yield Fact("question", says, agents, (span,), about)
        if not partners or not unread.isdisjoint(partners):
            continue
        if any(last.get(one, 0) > said.n for one in partners):
            continue
        if remarks.after(said, _TAKEN_BACK):
            continue
        spans = (span, remarks.after(said, _NO_ANSWER) or remarks.last_of(partners))
        says = f"No partner sends anything after what {name_of(said.sender)} asks in "
        says += f'message {said.n}: "{shown}"'
        yield Fact("no_reply", says, agents, tuple(one for one in spans if one), about)


def _asked(known: Known, said: Said) -> tuple[str, ...]:
    """Return who was asked: the recipients that are agents of the run, else everybody else."""
    others = [agent for agent in known.trace.agents if agent != said.sender]
    return tuple(agent for agent in others if agent in said.message.recipients) or tuple(others)


class _Remarks:
    """What agents say of their own questions, and their last words, each looked for once."""

    def __init__(self, messages: Sequence[Said]) -> None:
        self._messages = messages
        self._found: dict[tuple[str, re.Pattern[str]], list[tuple[int, FactSpan]]] = {}
        self._last: dict[tuple[str, ...], FactSpan | None] = {}

    def after(self, said: Said, pattern: re.Pattern[str]) -> FactSpan | None:
        """Return the first later sentence of the same sender that a pattern is in."""
        key = said.sender, pattern
        if key not in self._found:
            self._found[key] = [
                (one.n, span_of(one, sentence, match.start()))
                for one in self._messages
                if one.sender == said.sender
                for sentence in one.sentences
                if points_at(sentence.text) and (match := pattern.search(sentence.low))
            ]
        found = self._found[key]
        at = bisect_right(found, said.n, key=lambda one: one[0])
        return found[at][1] if at < len(found) else None

    def last_of(self, agents: tuple[str, ...]) -> FactSpan | None:
        """Return the last sentence that some agents wrote."""
        if agents not in self._last:
            said = next((one for one in reversed(self._messages) if one.sender in agents), None)
            usable = [one for one in said.sentences if points_at(one.text)] if said else []
            self._last[agents] = span_of(said, usable[-1]) if said and usable else None
        return self._last[agents]
