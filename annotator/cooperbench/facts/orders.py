"""Facts of orders: agents agree on who goes first, and their patches still meet."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from annotator.base.text import sanitize_line
from annotator.cooperbench.facts.dialogue import assents
from annotator.cooperbench.facts.model import Fact, format_agent
from annotator.cooperbench.facts.patches import find_meetings
from annotator.cooperbench.facts.prose import ParsedMessage, Sentence, locate_sentence, split_words
from annotator.cooperbench.facts.trace_facts import TraceFacts

KINDS: Mapping[str, str] = {
    "order_agreed": "an agent says who goes first, and a partner accepts or says the same",
    "order_lost": "an order of work was agreed, and the patches still meet at the same lines",
}

_FOLLOWING = 5  # messages of the partners in which an order may be accepted
_AFTER = 100  # messages after it that are looked at
_KEYWORDS = split_words(
    "first after once until wait waiting top rebase rebased before hold turn second next"
)
_ACTOR = r"(i|you|agent\w{0,20}|mine|yours?)"
_WORK = (
    r"(?:go|edit|merge|land|push|commit|apply|start|finish|write|submit|rebase|implement|proceed"
    r"|lands|goes|applies|merges)"
)
_FIRST = re.compile(
    rf"\b{_ACTOR}(?:['’](?:ll|re|m)|\swill|\scan|\sshould|\sto|\sis|\sare)?\s"
    rf"(?:\w{{1,20}}\s){{0,2}}?{_WORK}\s(?:\S{{1,60}}\s){{0,4}}?first\b"
    # "first call", "first two rows", "first in the list" order code, not work
    r"(?=\W*\Z|[^\w\s]|\s(?:[^\w\s]|(?:and|then|so|but|before|because|since|while|to|on|with|i|you)\b))"
)
_LAYER = re.compile(
    r"\b(i|you)(?:['’]ll| will| can| should)?\s(?:then\s)?(?:layer|rebase|build|stack|apply)\b"
    r"[^.;]{0,100}\bon top\b(?! (?:in|as)\b)"
)
_WAITING = re.compile(
    r"\b(i)(?:['’]ll| will)? (?:(?:not|won['’]t) (?:start|begin|touch|edit|write|commit)\b"
    r"[^.;]{0,60}\b(?:before|until)\b|wait\b|hold off\b|(?:go|come) second\b)"
    r"|\b(you) (?:wait|hold off|go second)\b|\b(mine) (?:goes|lands) (?:after|second|next)\b"
    r"|\b(your turn|you(?:['’]re| are) (?:next|up)|go after me)\b"
)
_THEN = re.compile(
    r"\b(?:after|once|until|wait(?:ing)? for) (i|you|yours?|my|mine|agent\w{0,20})"
    r"(?:['’](?:ve|re|s)|\s(?:have|has|are|is))?\s"
    r"(?:push|finish|done|land|merg|commit|complet|submit|changes|edits|patch)\w*"
)
_SELF = split_words("i we my mine me hold holding wait waiting")
_NOTICE = re.compile(r"\b(?:let me know|tell me|ping|notify|message|tell you)\b")
_DOUBT = re.compile(
    r"\b(?:should|might|may|probably|could|would|if|unless|maybe|perhaps|i think|either|or\b)\b"
)
_OFFER = re.compile(r"\bif you (?:like|prefer|want|agree)\b")
_MINE = ("i", "my", "mine")
# An order of code: "in the signature, mine goes after yours".
_OF_CODE = re.compile(
    r"\b(?:in|within) (?:the|our|its|that) (?:\w{1,20} )?"
    r"(?:signature|parameters?|params?|arguments?|args|kwargs|columns?|tuple|list|imports?|header)\b"
    r"|\b(?:parameter|param|argument|arg|kwarg|column|field)s? (?:comes?|goes?)\b"
)
# What one alone does first is no order between two: it is with these words only.
_BARE = re.compile(r"\b(?:go|land|merge|push|commit|submit|apply|proceed)\b\W*first\b")
_PARTNER = split_words("you your yours")


class _Order(NamedTuple):
    message: ParsedMessage
    sentence: Sentence
    first: str


def draw_orders(facts: TraceFacts) -> Iterator[Fact]:
    """Yield the agreed orders, then the latest one that the patches do not keep.

    Both patches are made against the base: where they meet, neither was made on top of the other.
    """
    agreements = list(_find_agreements(facts))
    yield from (fact for _, fact in agreements)
    apart: set[tuple[str, tuple[str, ...]]] = set()
    for (message, sentence, first), fact in reversed(agreements):
        partners = facts.partners(message, sentence.text)
        if (message.sender, partners) in apart:
            continue
        meeting = next(find_meetings(facts, message.sender, partners, same=True), None)
        if meeting is None:
            apart.add((message.sender, partners))
            continue
        says = (
            f"It is agreed in message {message.n} that {format_agent(first)} goes first; both "
            f"patches change the same place of"
            f" {sanitize_line(meeting.about['path'], 200)} in the base."
        )
        about = {**fact.about, "path": meeting.about["path"]}
        yield Fact("order_lost", says, meeting.agents, fact.spans + meeting.spans, about)
        return


def _find_agreements(facts: TraceFacts) -> Iterator[tuple[_Order, Fact]]:
    orders = [
        _Order(message, sentence, first)
        for message, sentence in facts.sentences()
        if (word := read_order(sentence)) and (first := _resolve_agent(facts, message, word))
    ]
    statements_of: dict[str, dict[str, _Order]] = {}  # by who goes first and who says so
    for order in orders:
        statements_of.setdefault(order.first, {}).setdefault(order.message.sender, order)
    places = {message.n: at for at, message in enumerate(facts.messages)}
    accepts: dict[int, int | None] = {}
    for order in orders:
        message, sentence, first = order
        statements = statements_of[first].items()
        echo = next((other for sender, other in statements if sender != message.sender), None)
        if message.n not in accepts:
            accepts[message.n] = _find_acceptance(facts.messages, places[message.n])
        if accepts[message.n] is None and echo is None:
            continue
        span = locate_sentence(message, sentence)
        says = (
            f"{format_agent(message.sender)} says in message {message.n} that"
            f' {format_agent(first)} goes first, and that is agreed: "{facts.show(span)}"'
        )
        spans = (span, locate_sentence(echo.message, echo.sentence)) if echo else (span,)
        about = {"message": message.n, "first": first, "agreed_in": accepts[message.n]}
        yield order, Fact("order_agreed", says, (message.sender,), spans, about)


def read_order(sentence: Sentence) -> str | None:
    """Return who goes first, in the sentence's word ("i", "you", a name), or None."""
    text = sentence.low
    if _KEYWORDS.isdisjoint(sentence.vocabulary) or text.startswith("if ") or text.endswith("?"):
        return None
    if _OF_CODE.search(text):
        return None
    of_two = (
        not _PARTNER.isdisjoint(sentence.vocabulary) or "agent" in text or text.startswith("then ")
    )
    if match := _FIRST.search(text):
        first = match.group(1)
        if first in _MINE and not of_two and not _BARE.search(match.group()):
            return None
    elif (match := _LAYER.search(text)) and of_two:
        first = "you" if match.group(1) == "i" else "i"
    elif match := _WAITING.search(text):
        first = "you" if match.group(1) or match.group(3) or match.group(4) else "i"
        first = "i" if match.group(4) else first
    elif (match := _THEN.search(text)) and not _SELF.isdisjoint(
        sentence.vocabulary | {match.group(1)}
    ):
        first = match.group(1)
        if first in _MINE and sentence.vocabulary.isdisjoint({"you", "your"}):
            return None
    else:
        return None
    if _NOTICE.search(text, 0, match.start()) or _DOUBT.search(text, 0, match.end()):
        return None
    return None if _OFFER.search(text, match.end()) else first


def _find_acceptance(messages: Sequence[ParsedMessage], at: int) -> int | None:
    """Return the number of the partners' message, of the next five, that accepts message ``at``."""
    replies = 0
    for reply in messages[at + 1 : at + 1 + _AFTER]:
        if reply.sender == messages[at].sender:
            continue
        if assents(reply):
            return None if any("but" in x.vocabulary for x in reply.sentences[:2]) else reply.n
        replies += 1
        if replies == _FOLLOWING:
            break
    return None


def _resolve_agent(facts: TraceFacts, message: ParsedMessage, word: str) -> str | None:
    """Return the agent that "I", "you" or a name means in a message, or None if unclear."""
    if word in _MINE:
        return message.sender
    if word.startswith("you"):
        addressees = facts.addressees(message)
        return addressees[0] if len(addressees) == 1 else None
    return next((agent for agent in facts.trace.agents if agent.lower() == word), None)
