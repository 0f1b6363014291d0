"""Facts of the conversation: what agents propose and accept.

Read are the messages that agents wrote: the first 2,000, of each the first 20,000 characters up to
a blank, and one million characters of a run; the rest is said in ``not_read``. All patterns are
English. Every fact has the number of its message in ``about["message"]``.
"""

import re
from collections.abc import Iterator, Mapping

from annotator.facts.known import Known
from annotator.facts.model import Fact, name_of
from annotator.facts.prose import Said, points_at, span_of

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


def facts(known: Known) -> Iterator[Fact]:
    """Yield what messages propose and that they accept."""
    for at, said in enumerate(known.messages):
        yield from _proposal(said)
        yield from _acceptance(said, at)


def _proposal(said: Said) -> Iterator[Fact]:
    """Yield the first proposal of a message; ``counter``: it is put against another."""
    for one in said.sentences:
        found = _PROPOSING.search(one.low)
        if found and points_at(one.text):
            counter = said.kind in _REVISING or _COUNTER.search(one.low) is not None
            span = span_of(said, one, found.start())
            says = f"{name_of(said.sender)} makes a proposal in message {said.n}."
            about = {"message": said.n, "counter": counter, "own_type": said.kind or None}
            yield Fact("proposal", says, (said.sender,), (span,), about)
            return


def _acceptance(said: Said, at: int) -> Iterator[Fact]:
    """Yield that a message that is not the first accepts something, by its type or its opening."""
    if at and assents(said):
        usable = [one for one in said.sentences if points_at(one.text)]
        shown = next((span_of(said, one) for one in usable if _ASSENT.match(one.text)), None)
        if shown is None and usable:  # "type: ACCEPT" shows nothing of what is accepted
            shown = span_of(said, usable[0])
        if shown:
            says = f"{name_of(said.sender)} accepts in message {said.n}."
            about = {"message": said.n, "own_type": said.kind or None}
            yield Fact("acceptance", says, (said.sender,), (shown,), about)


def assents(said: Said) -> bool:
    """Whether a message accepts something, by its own type or by how it begins."""
    return said.kind in _ASSENTING or any(_ASSENT.match(x.text) for x in said.sentences[:2])
