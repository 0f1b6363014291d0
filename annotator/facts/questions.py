"""Questions and requests for information or a decision, and what became of them.

What counts as one is said in :mod:`annotator.facts.asking`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from annotator.facts.known import Known
from annotator.facts.mentions import Mention, paths_in, symbols_in
from annotator.facts.model import Fact, name_of
from annotator.facts.prose import MOST_TEXT, Said, Sentence, points_at, span_of
from annotator.text import count, one_line
from annotator.traces import Trace

KINDS: Mapping[str, str] = {
    "question": "an agent asks a question",
    "request": "an agent asks for information or a decision without a question mark",
    "reply": "a later message of a partner that touches what was asked",
    "no_reply": "a question or request after which no partner sends anything",
    "not_addressed": "a question or request that every later message of a partner passes over",
    "withdrawn": "a question or request that its sender takes back",
}

MOST_QUESTIONS = 100
"""Questions of one trace that are followed up, counted from the end."""

MOST_REPLIES = 100
"""Messages of the partners after a question that are looked at for a reply."""

_WITHDRAWN = re.compile(
    r"\b(?:never ?mind|found it|figured it out|no longer need|disregard|ignore my)\b", re.IGNORECASE
)
_NO_ANSWER = re.compile(
    r"\bno (?:response|reply|answer|word)\b|\bnot? (?:heard|received)\b|\bhaven't heard\b"
    r"|\bdid(?:n't| not) (?:hear|reply|answer|respond)\b|\bwithout an? (?:reply|answer|response)\b",
    re.IGNORECASE,
)
_ANSWER_WORD = re.compile(
    r"\b(?:yes|yep|yeah|no|nope|ok|okay|agreed?|agree|sure|ack|acknowledged|confirm(?:ed|ing)?"
    r"|accept(?:ed)?|sounds|works|fine|thanks|correct|either|neither|both)\b",
    re.IGNORECASE,
)
_LONG_WORD = re.compile(r"[^\W\d_]{4,}")
_COMMON = re.compile(  # words that tell nothing about what a question is about
    r"what|which|where|when|whose|does|should|shall|have|could|would|will|yours?|mine|ours|this|that"
    r"|these|those|there|here|then|than|them|they|with|from|into|onto|about|also|just|please|send"
    r"|share|paste|tell|confirm|clarify|explain|specify|describe|list|show|provide|post|decide"
    r"|choose|know|needs?|want|like|make|sure|some|more|same|other|before|after|only|both|each|note"
    # A question about the partner's work in general is answered by whatever it says of its work.
    r"|exact(?:ly)?|going|doing|touch(?:ing)?|work(?:ing)?|edit(?:s|ing)?|chang(?:es?|ing)|files?"
    r"|features?|tasks?|plan(?:ned|ning|s)?"
)


Status = Literal["answered", "no_reply", "not_addressed", "withdrawn"]


@dataclass(frozen=True, slots=True)
class Question:
    """A question or request and what became of it.

    ``sentence`` begins where the question does. ``partners``: who was asked. ``shown``: the message
    and sentence that show the status: the reply that answers, the first that passes it over, the
    sender's remark that no answer came (else the partners' last words before), or what takes it
    back; None where there is none to show. ``later``: how many messages the partners sent after it.
    """

    asked: Said
    sentence: Sentence
    form: Literal["question", "request"]
    partners: tuple[str, ...]
    status: Status
    shown: tuple[Said, Sentence] | None
    later: int


def facts(known: Known) -> Iterator[Fact]:
    """Yield the questions and requests, each followed by what became of it."""
    for question in questions(known.trace, known.messages):
        yield from _question(question)


def _question(question: Question) -> Iterator[Fact]:
    said, status = question.asked, question.status
    span = span_of(said, question.sentence)
    shown = one_line(said.text[span.start : span.end], 160)
    asker, partners = name_of(said.sender), " and ".join(map(name_of, question.partners))
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
            "reply", f"{name_of(by.sender)} answers {what} in message {by.n}.", agents, spans, about
        )
    elif status == "no_reply":
        yield Fact("no_reply", f"No partner sends anything after {what}.", agents, spans, about)
    elif status == "not_addressed":
        sends = count(question.later, "message")
        verb = "sends" if len(question.partners) == 1 else "send"
        says = f"{partners} {verb} {sends} after {what}, and none touches it."
        yield Fact("not_addressed", says, agents, spans, about)
    elif status == "withdrawn" and by:
        yield Fact("withdrawn", f"{asker} takes back {what}.", agents, spans, about)


def _named_in(sentence: Sentence) -> dict[str, list[str]]:
    return {
        "files": _names(paths_in(sentence.text)),
        "symbols": _names(symbols_in(sentence.text)),
    }


def _names(found: Sequence[Mention]) -> list[str]:
    return list(dict.fromkeys(one.name for one in found))


def questions(trace: Trace, messages: Sequence[Said]) -> Iterator[Question]:
    """Yield the last ``MOST_QUESTIONS`` questions of a trace in order, with what became of each.

    One that the partners' later messages touch is answered by the first that does: a long word, a
    path or a type in common, a word of assent or refusal, or a reply of five words at most. A
    question whose own words are all general is answered by any reply. Only the first
    ``MOST_REPLIES`` later messages are looked at. Where a partner sent messages that were not read,
    nothing can be said of a question.
    """
    unseen = {message.sender for message in trace.spoken[len(messages) :]}
    asked = [
        (at, _from(sentence, begin))
        for at, said in enumerate(messages)
        for sentence in said.sentences
        if (begin := sentence.asks) is not None
    ]
    topic_of = cache(lambda at: _reply_topic(messages[at]))
    remark_of = cache(lambda at: _first(messages[at], _NO_ANSWER))
    taken_back = cache(lambda at: _first(messages[at], _WITHDRAWN))
    for at, sentence in asked[-MOST_QUESTIONS:]:
        said = messages[at]
        # Who was asked: the recipients that are agents of the run, else everybody else.
        others = [agent for agent in trace.agents if agent != said.sender]
        named = [agent for agent in others if agent in said.message.recipients]
        partners = tuple(named or others)
        if not unseen.isdisjoint(partners):
            continue
        after = range(at + 1, len(messages))
        replies = [n for n in after if messages[n].sender in partners]
        own = [n for n in after if messages[n].sender == said.sender]
        form: Literal["question", "request"] = (
            "question" if sentence.text.endswith("?") else "request"
        )
        status: Status
        shown: tuple[Said, Sentence] | None
        if took := next((one for n in own if (one := taken_back(n))), None):
            status, shown = "withdrawn", took
        elif not replies:
            remark = next((one for n in own if (one := remark_of(n))), None)
            status, shown = "no_reply", remark or _before(messages[:at], partners)
        else:
            topic = _topic(sentence.text)
            looked_at = replies[:MOST_REPLIES]
            hit = next((n for n in looked_at if _touches(topic, topic_of(n))), None)
            status = "not_addressed" if hit is None else "answered"
            shown = _telling(messages[replies[0] if hit is None else hit], topic)
        yield Question(said, sentence, form, partners, status, shown, len(replies))


def _from(sentence: Sentence, begin: int) -> Sentence:
    """Return a sentence from where its question begins, if that is enough to point at."""
    cut = sentence.text[begin:]
    if begin == 0 or not sentence.text[begin - 1].isspace() or not points_at(cut):
        return sentence
    return Sentence(
        cut, sentence.start + begin, sentence.end, sentence.low[begin:], sentence.words, 0
    )


def _first(said: Said, pattern: re.Pattern[str]) -> tuple[Said, Sentence] | None:
    sentence = next(
        (x for x in said.sentences if pattern.search(x.text) and points_at(x.text)), None
    )
    return (said, sentence) if sentence else None


def _before(messages: Sequence[Said], partners: tuple[str, ...]) -> tuple[Said, Sentence] | None:
    """Return the last words of the partners before a question."""
    said = next((one for one in reversed(messages) if one.sender in partners), None)
    if said is None:
        return None
    sentence = next((one for one in reversed(said.sentences) if points_at(one.text)), None)
    return (said, sentence) if sentence else None


def _telling(said: Said, topic: frozenset[str]) -> tuple[Said, Sentence] | None:
    """Return the sentence of a reply that has most in common with the topic, else the first."""
    usable = [one for one in said.sentences[:50] if points_at(one.text)]
    best = max(usable, key=lambda one: len(topic & _topic(one.text)), default=None)
    return (said, best) if best else None


def _touches(topic: frozenset[str], about: frozenset[str] | None) -> bool:
    return about is None or len(topic) < 2 or bool(topic & about)


def _topic(text: str) -> frozenset[str]:
    """Return the paths and the beginnings of the words that a text is about."""
    words = (word.lower() for word in _LONG_WORD.findall(text))
    found = {word[:5] for word in words if not _COMMON.fullmatch(word)}
    return frozenset(found | {path.name.rpartition("/")[2] for path in paths_in(text)})


def _reply_topic(reply: Said) -> frozenset[str] | None:
    """Return what a reply is about, or None if it may answer anything: a few words, a "yes"."""
    prose = " ".join(one.text for one in reply.sentences)
    if _ANSWER_WORD.search(reply.kind) or _ANSWER_WORD.search(prose):
        return None
    return _topic(reply.text[:MOST_TEXT]) if len(prose.split(maxsplit=5)) > 5 else None
