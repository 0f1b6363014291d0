"""Facts of the conversation: what agents propose and accept.

Read are the messages that agents wrote: the first 2,000, of each the first 20,000 characters up to
a blank, and one million characters of a run; the rest is said in ``not_read``. All patterns are
English. Every fact has the number of its message in ``about["message"]``.
"""

import re
from collections.abc import Iterator, Mapping

from annotator.cooperbench.facts.model import Fact, format_agent
from annotator.cooperbench.facts.prose import ParsedMessage, is_quotable, locate_sentence
from annotator.cooperbench.facts.trace_facts import TraceFacts

KINDS: Mapping[str, str] = {
    "proposal": "an agent proposes how to go about the work",
    "acceptance": "an agent accepts what a partner wrote before",
}

_ASSENTING = frozenset(["accept", "agree", "ack", "acknowledge", "confirm", "ok"])
_REVISING = frozenset(["revise", "counter", "amend"])
_PROPOSING = re.compile(
    r"(?<!please )\bpropos(?:e|al|ing)\b|\bi(?:['’]d| would)? suggest\b|\bsuggestion\b|\blet['’]s\b"
    r"|\bhow about\b|\beither\b[^.;]{3,120}\bor\b|\balternatively\b|\bwhat if (?:i|you|we)\b"
)
_COUNTER = re.compile(
    r"\binstead\b|\balternatively\b|\brather than\b|\bcounter-?propos|\beither\b.{3,120}\bor\b"
)
_ASSENT = re.compile(
    r"^\W*(?:\w+:\s)?(?:agreed?|accept(?:ed)?|ok(?:ay)?|yes|yep|sure|confirm(?:ed)?|sounds good"
    r"|works for me|perfect|great|got it|will do|understood|ack)\b",
    re.IGNORECASE,
)


def draw(facts: TraceFacts) -> Iterator[Fact]:
    """Yield what messages propose and that they accept."""
    for at, message in enumerate(facts.messages):
        yield from _find_proposal(message)
        yield from _find_acceptance(message, at)


def _find_proposal(message: ParsedMessage) -> Iterator[Fact]:
    """Yield the first proposal of a message; ``counter``: it is put against another."""
    for sentence in message.sentences:
        match = _PROPOSING.search(sentence.low)
        if match and is_quotable(sentence.text):
            counter = message.kind in _REVISING or _COUNTER.search(sentence.low) is not None
            span = locate_sentence(message, sentence, match.start())
            says = f"{format_agent(message.sender)} makes a proposal in message {message.n}."
            about = {"message": message.n, "counter": counter, "own_type": message.kind or None}
            yield Fact("proposal", says, (message.sender,), (span,), about)
            return


def _find_acceptance(message: ParsedMessage, at: int) -> Iterator[Fact]:
    """Yield that a message that is not the first accepts something, by its type or its opening."""
    if at and assents(message):
        usable = [x for x in message.sentences if is_quotable(x.text)]
        assent = next((x for x in usable if _ASSENT.match(x.text)), None)
        if assent or usable:  # "type: ACCEPT" shows nothing of what is accepted
            span = locate_sentence(message, assent or usable[0])
            says = f"{format_agent(message.sender)} accepts in message {message.n}."
            about = {"message": message.n, "own_type": message.kind or None}
            yield Fact("acceptance", says, (message.sender,), (span,), about)


def assents(message: ParsedMessage) -> bool:
    """Whether a message accepts something, by its own type or by how it begins."""
    opening = message.sentences[:2]
    return message.kind in _ASSENTING or any(_ASSENT.match(x.text) for x in opening)
