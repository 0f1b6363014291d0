"""Facts of the conversation: proposals, acceptances, questions, and questions without a reply.

Patterns are English. ``about["message"]`` of every fact is the number of its message.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

from annotator.cooperbench.facts.model import Fact, FactSpan, format_agent
from annotator.cooperbench.facts.prose import ParsedMessage, is_quotable, locate_sentence
from annotator.cooperbench.facts.trace_facts import TraceFacts

PROPOSALS: Mapping[str, str] = {
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

QUESTIONS: Mapping[str, str] = {
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


def draw_proposals(facts: TraceFacts) -> Iterator[Fact]:
    """Yield proposals and acceptances, message by message."""
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
    """Yield the acceptance of a message, which is not the first one."""
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


def draw_questions(facts: TraceFacts) -> Iterator[Fact]:
    """Yield the questions, each followed by a ``no_reply`` if no partner sends anything later."""
    messages = facts.messages
    last = {message.sender: message for message in messages}
    withdrawn = _find_remarks(facts, _TAKEN_BACK)
    complaints = _find_remarks(facts, _NO_ANSWER)
    for message, sentence in facts.sentences():
        if sentence.asks is None:
            continue
        span = locate_sentence(message, sentence, sentence.asks)
        text = facts.show(span)
        partners = facts.addressees(message)
        about = {"message": message.n, "partners": list(partners)}
        agents = (message.sender, *partners)
        whom = " and ".join(map(format_agent, partners)) or "nobody"
        says = f'{format_agent(message.sender)} asks {whom} in message {message.n}: "{text}"'
        yield Fact("question", says, agents, (span,), about)
        if not partners:
            continue
        ends = [last[partner] for partner in partners if partner in last]
        after = [n for n, _ in withdrawn.get(message.sender, ())] + [end.n for end in ends]
        if any(n > message.n for n in after):
            continue
        remarks = [span for n, span in complaints.get(message.sender, ()) if n > message.n][:1]
        final = max(ends, key=lambda end: end.n, default=None)
        usable = [x for x in final.sentences if is_quotable(x.text)] if final else []
        if final and usable and not remarks:
            remarks = [locate_sentence(final, usable[-1])]
        says = f"No partner sends anything after what {format_agent(message.sender)} asks in "
        says += f'message {message.n}: "{text}"'
        yield Fact("no_reply", says, agents, (span, *remarks), about)


def _find_remarks(
    facts: TraceFacts, pattern: re.Pattern[str]
) -> dict[str, list[tuple[int, FactSpan]]]:
    """Return the sentences that a pattern is in, with their messages, by sender."""
    remarks: dict[str, list[tuple[int, FactSpan]]] = defaultdict(list)
    for message, sentence in facts.sentences():
        if match := pattern.search(sentence.low):
            span = locate_sentence(message, sentence, match.start())
            remarks[message.sender].append((message.n, span))
    return remarks
