"""Facts of the conversation: what agents ask, name, promise, claim and repeat.

Read are the messages that agents wrote: the first 2,000, of each the first 20,000 characters up to
a blank, and one million characters of a run; the rest is said in ``not_read``. All patterns are
English. Every fact has the number of its message in ``about["message"]``.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from annotator.facts.known import Known
from annotator.facts.mentions import Mention, paths_in, symbols_in
from annotator.facts.messages import type_of_said
from annotator.facts.model import Fact, Span
from annotator.facts.naming import Named
from annotator.facts.prose import (
    Said,
    Sentence,
    opening,
    points_at,
    span_of,
)
from annotator.facts.questions import Question, questions
from annotator.facts.repeats import Repeat, repeats
from annotator.facts.statements import Statement, statements, who
from annotator.text import count, one_line
from annotator.traces import Trace

KINDS: Mapping[str, str] = {
    "message_type": "a message is a plan, a question, an update or other",
    "question": "an agent asks a question",
    "request": "an agent asks for information or a decision without a question mark",
    "reply": "a later message of a partner that touches what was asked",
    "no_reply": "a question or request after which no partner sends anything",
    "not_addressed": "a question or request that every later message of a partner passes over",
    "withdrawn": "a question or request that its sender takes back",
    "near_duplicate": "an agent says again, nearly word for word, what it said before",
    "protocol_echo": "a message of a type that a protocol sends again (DRAFT, AGREE, CONFIRM)",
    "commitment": "an agent says what it will do or takes on",
    "completion_claim": "an agent says that something is done, in place or passes",
    "retraction": "an agent says that it takes back work that it had done or promised",
    "assurance": "an agent says that there is no conflict, or what it leaves untouched",
    "clash_stated": "an agent says that the work does conflict or overlap",
    "proposal": "an agent proposes how to go about the work",
    "acceptance": "an agent accepts what a partner wrote before",
    "placement_agreement": "an agent says where in the code something goes",
    "order_agreement": "an agent says who goes first",
    "not_read": "text that was too long to be looked at",
}

_AGREEMENTS = frozenset(["placement_agreement", "order_agreement"])
_FOLLOWING = 5  # messages of the partners in which a place or an order may be accepted
_ASSENTING = frozenset(["accept", "agree", "ack", "acknowledge", "confirm", "ok"])
_REVISING = frozenset(["revise", "counter", "amend"])
_PROPOSING = re.compile(
    r"\bpropos(?:e|al|ing)\b|\bi(?:['’]d| would)? suggest\b|\bsuggestion\b|\blet['’]s\b"
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
    """Yield the facts of the conversation, message by message; questions and repeats follow."""
    trace, messages = known.trace, known.messages
    for at, said in enumerate(messages):
        yield from _type(said)
        yield from _proposal(said)
        yield from _acceptance(said, at)
        for statement in statements(said):
            accepted = _accepted(messages, at) if statement.kind in _AGREEMENTS else None
            yield _statement(statement, said, known.named(said), accepted, trace.agents)
    for question in questions(trace, messages):
        yield from _question(question)
    for repeat in repeats(messages):
        yield from _repeat(repeat)
    yield from _not_read(trace, messages)


def _type(said: Said) -> Iterator[Fact]:
    span = opening(said)
    if span is None:
        return
    type_ = type_of_said(said)
    first = " first" if said.position == 0 else ""
    article = "an" if type_[0] in "ou" else "a"
    what = "neither plan, question nor update" if type_ == "other" else f"{article} {type_}"
    says = f"Message {said.n}, {_name(said.sender)}'s{first}, is {what}."
    about = {
        "message": said.n,
        "type": type_,
        "own_type": said.kind or None,
        "position": said.position,
    }
    yield Fact("message_type", says, (said.sender,), (span,), about)


def _statement(
    statement: Statement, said: Said, named: Named, accepted: int | None, agents: Sequence[str]
) -> Fact:
    sentence = statement.sentence
    names = named.between(sentence.start + statement.start, sentence.start + statement.end)
    about = {"message": said.n, **statement.details, **names}
    about |= {"hedged": statement.hedge is not None, "hedge": statement.hedge}
    if statement.kind in _AGREEMENTS:
        about["agreed_in"] = accepted
    if statement.kind == "order_agreement":
        about["first"] = who(said, about["first"], agents)
    span = span_of(said, sentence, statement.start)
    shown = one_line(said.text[span.start : span.end], 160)
    says = f'{_name(said.sender)} {_SAYS[statement.kind]} in message {said.n}: "{shown}"'
    return Fact(statement.kind, says, (said.sender,), (span,), about)


_SAYS = {
    "commitment": "commits itself",
    "completion_claim": "reports something as done",
    "retraction": "takes work back",
    "assurance": "gives an assurance",
    "clash_stated": "says that the work clashes",
    "placement_agreement": "says where something goes",
    "order_agreement": "says who goes first",
}


def _names(found: Sequence[Mention]) -> list[str]:
    return list(dict.fromkeys(one.name for one in found))


def _proposal(said: Said) -> Iterator[Fact]:
    """Yield the first proposal of a message; ``counter``: it is put against another."""
    for one in said.sentences:
        found = _PROPOSING.search(one.low)
        if found and points_at(one.text):
            counter = said.kind in _REVISING or _COUNTER.search(one.low) is not None
            span = span_of(said, one, found.start())
            says = f"{_name(said.sender)} makes a proposal in message {said.n}."
            about = {"message": said.n, "counter": counter, "own_type": said.kind or None}
            yield Fact("proposal", says, (said.sender,), (span,), about)
            return


def _acceptance(said: Said, at: int) -> Iterator[Fact]:
    """Yield that a message that is not the first accepts something, by its type or its opening."""
    if at and _assents(said):
        usable = [one for one in said.sentences if points_at(one.text)]
        shown = next((one for one in usable if _ASSENT.match(one.text)), next(iter(usable), None))
        if shown:
            says = f"{_name(said.sender)} accepts in message {said.n}."
            about = {"message": said.n, "own_type": said.kind or None}
            yield Fact("acceptance", says, (said.sender,), (span_of(said, shown),), about)


def _assents(said: Said) -> bool:
    return said.kind in _ASSENTING or any(_ASSENT.match(x.text) for x in said.sentences[:2])


def _accepted(messages: Sequence[Said], at: int) -> int | None:
    """Return the number of the message in which a partner accepts what another says, or None.

    It is one of the partners' next five, an acceptance by its own type or by how it begins.
    """
    replies = 0
    for later in range(at + 1, len(messages)):
        one = messages[later]
        if one.sender == messages[at].sender:
            continue
        if _assents(one):
            return one.n
        replies += 1
        if replies == _FOLLOWING:
            break
    return None


def _question(question: Question) -> Iterator[Fact]:
    said, status = question.asked, question.status
    span = span_of(said, question.sentence)
    shown = one_line(said.text[span.start : span.end], 160)
    asker, partners = _name(said.sender), " and ".join(map(_name, question.partners))
    about = {
        "message": said.n,
        "partners": list(question.partners),
        "status": status,
        "partner_messages_after": question.later,
    }
    says = f'{asker} asks {partners or "nobody"} in message {said.n}: "{shown}"'
    agents = (said.sender, *question.partners)
    yield Fact(question.form, says, agents, (span,), about | _named_in(question.sentence))
    spans = (span, span_of(*question.shown)) if question.shown else (span,)
    by = question.shown[0] if question.shown else None
    about["shown_in"] = by.n if by else None
    what = f"what {asker} asks in message {said.n}"
    if status == "answered" and by:
        about["reply"] = by.n
        yield Fact(
            "reply", f"{_name(by.sender)} answers {what} in message {by.n}.", agents, spans, about
        )
    elif status == "no_reply":
        yield Fact("no_reply", f"No partner sends anything after {what}.", agents, spans, about)
    elif status == "not_addressed":
        sends = count(question.later, "message")
        says = f"{partners} sends {sends} after {what}, and none touches it."
        yield Fact("not_addressed", says, agents, spans, about)
    elif status == "withdrawn" and by:
        yield Fact("withdrawn", f"{asker} takes back {what}.", agents, spans, about)


def _named_in(sentence: Sentence) -> dict[str, list[str]]:
    return {
        "files": _names(paths_in(sentence.text)),
        "symbols": _names(symbols_in(sentence.text)),
    }


def _repeat(repeat: Repeat) -> Iterator[Fact]:
    first, second = repeat.first, repeat.second
    spans: tuple[Span, ...]
    if repeat.passages:
        one, two = repeat.passages
        spans = (span_of(first, one), span_of(second, two))
    else:
        opened = [span for said in (first, second) if (span := opening(said))]
        spans = tuple(opened) if len(opened) == 2 else ()
    about = {
        "message": second.n,
        "first": first.n,
        "variant": repeat.variant,
        "score": round(repeat.score, 1),
        "own_type": second.kind or None,
    }
    agents = tuple(dict.fromkeys((second.sender, first.sender)))
    echo = repeat.variant == "echo"
    if not spans:
        return
    kind = "protocol_echo" if echo else "near_duplicate"
    verb = "echoes" if echo else "repeats"
    who_says = f"{_name(second.sender)} {verb} message {first.n} in message {second.n}"
    yield Fact(kind, f"{who_says}, nearly word for word.", agents, spans, about)


def _not_read(trace: Trace, messages: Sequence[Said]) -> Iterator[Fact]:
    every = trace.spoken
    left = [(one.message, len(one.text) - one.stop) for one in messages]
    left += [(message, len(message.text)) for message in every[len(messages) :]]
    for message, characters in left:
        if characters:
            says = f"{count(characters, 'character')} of message {message.n} were not looked at."
            about = {"message": message.n, "source": f"message:{message.n}"}
            yield Fact("not_read", says, (message.sender,), (), about | {"characters": characters})


def _name(agent: str) -> str:
    return one_line(agent, 64)
