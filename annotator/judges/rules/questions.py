"""Questions that nobody answered.

A question here is an English sentence that ends with "?" and opens like a question, or a plain
request for information or a decision ("please send ..."). "Can you" counts only before a verb of
telling: "can you rebase?" asks for an action. Bare closings ("OK?", "Sound good?") do not count.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from annotator.annotations import Quote
from annotator.judges.rules.passages import (
    MOST_TEXT,
    kind_of,
    quote_of,
    quotes_in,
    sentences,
    spoken,
)
from annotator.traces import Message, Trace

_MOST_QUESTIONS = 50  # questions of one trace that are followed up, counted from the end

_OPENER = re.compile(
    r"(?:^|[,;:(]\s|\s-\s|\s[–—]\s|\b(?:so|and|but|or|then)\s)"
    r"((?:what|which|where|when|who|whose|why|how|do|does|did|is|are|was|were|should|shall|has|have"
    r"|can|could|would|will|may)\b.{0,60})",
    re.IGNORECASE,
)
_TELL = (
    r"(?:send|share|paste|tell|confirm|clarify|explain|specify|describe|list|show|provide|post"
    r"|decide|choose)\b"
)
_ASKED_OF_PARTNER = re.compile(r"(?:can|could|would|will)\s+you\b\s?(.*)", re.IGNORECASE)
_TELLING = re.compile(rf"(?:(?:please|also|just)\s){{0,2}}{_TELL}", re.IGNORECASE)
_REQUEST = re.compile(
    rf"\bplease\s(?:also\s|just\s)?{_TELL}|\b(?:i|we) need to know\b"
    r"|\blet me know (?:what|which|where|how|why|who|whether)\b",
    re.IGNORECASE,
)
_COURTESY = re.compile(
    r"\b(?:tell|let) me (?:know )?if\b|\bwhat you think\b|^\W*(?:if|once|when|after)\b",
    re.IGNORECASE,
)
_CODE = re.compile(r"^(?:>|#|\"|'|\||\+|\*)|\(\?")  # a "?" of a pattern or a quotation asks nothing
_WITHDRAWN = re.compile(
    r"\b(?:never ?mind|found it|figured it out|no longer need|disregard|ignore my)\b", re.IGNORECASE
)
_NO_ANSWER = re.compile(
    r"\bno (?:response|reply|answer|word)\b|\bnot? (?:heard|received)\b|\bhaven't heard\b"
    r"|\bdid(?:n't| not) (?:hear|reply|answer|respond)\b|\bwithout an? (?:reply|answer|response)\b"
    r"|\bassuming\b",
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


@dataclass(frozen=True, slots=True)
class Gap:
    """A question, and the passage that shows that it stayed open."""

    asked: Message
    question: Quote
    shown_by: Quote
    partner: str


def unanswered(trace: Trace) -> Iterator[Gap]:
    """Yield the questions after which no partner sends anything at all."""
    remark_of = cache(_remark)  # each message is searched once, however many questions stand open
    for one in _open_questions(trace):
        if one.replies:
            continue
        remarks = (remark_of(message) for message in one.own_later)
        shown = next((remark for remark in remarks if remark), None)
        if shown is None and one.before:
            shown = next(reversed(quotes_in(one.before)), None)
        if shown:
            partner = one.before.sender if one.before else "the partner"
            yield Gap(one.asked, one.question, shown, partner)


def ignored(trace: Trace) -> Iterator[Gap]:
    """Yield the questions that every later message of the partners passes over.

    Precision first: one shared long word, or one word of assent or refusal, counts as an answer.
    """
    topic_of = cache(_reply_topic)
    for one in _open_questions(trace):
        topic = _topic(one.question.text)
        if len(topic) < 2 or not one.replies:
            continue
        if any((about := topic_of(reply)) is None or topic & about for reply in one.replies):
            continue
        # Two words are often a form field ("type: DONE"); a sentence tells a reader more.
        reply = one.replies[0]
        shown = max(quotes_in(reply)[:3], key=lambda quote: len(quote.text), default=None)
        if shown:
            yield Gap(one.asked, one.question, shown, reply.sender)


def asks(message: Message) -> Quote | None:
    """Return the first question or request for information in a message."""
    for sentence in sentences(message):
        at = _question_at(sentence)
        if at is not None and (quote := quote_of(message, sentence[at:])):
            return quote
    return None


def _question_at(sentence: str) -> int | None:
    """Return where the question begins in a sentence, or None if it asks nothing."""
    if _CODE.search(sentence):
        return None
    if sentence.endswith("?"):
        opener = _OPENER.search(sentence)
        if opener is None or len(sentence[opener.start(1) :].split()) < 4:
            return None
        action = _ASKED_OF_PARTNER.match(opener.group(1))
        if action and not _TELLING.match(action.group(1)):
            return None
        return opener.start(1)
    request = _REQUEST.search(sentence)
    if request is None or _COURTESY.search(sentence):
        return None
    return request.start()


@dataclass(frozen=True, slots=True)
class _Open:
    """A question with what its partners had written last before it, and all that came after."""

    asked: Message
    question: Quote
    before: Message | None
    replies: list[Message]
    own_later: list[Message]


def _open_questions(trace: Trace) -> Iterator[_Open]:
    """Yield the last questions of a trace, in order, without those that their sender takes back."""
    messages = spoken(trace)
    asked = [(at, quote) for at, message in enumerate(messages) if (quote := asks(message))]
    takes_back = cache(lambda message: _WITHDRAWN.search(message.text[:MOST_TEXT]) is not None)
    for at, question in asked[-_MOST_QUESTIONS:]:
        message = messages[at]
        # Who was asked: the recipients that are agents of the run, else everybody else.
        others = set(trace.agents) - {message.sender}
        partners = others & set(message.recipients) or others
        own = [one for one in messages[at + 1 :] if one.sender == message.sender]
        if not any(takes_back(one) for one in own):
            before = next((one for one in reversed(messages[:at]) if one.sender in partners), None)
            replies = [one for one in messages[at + 1 :] if one.sender in partners]
            yield _Open(message, question, before, replies, own)


def _remark(message: Message) -> Quote | None:
    """Return the sentence in which an agent notes that no answer came, if there is one."""
    found = (quote_of(message, one) for one in sentences(message) if _NO_ANSWER.search(one))
    return next((quote for quote in found if quote), None)


def _topic(text: str) -> frozenset[str]:
    """Return the beginnings of the words that a text is about."""
    words = (word.lower() for word in _LONG_WORD.findall(text[:MOST_TEXT]))
    return frozenset(word[:5] for word in words if not _COMMON.fullmatch(word))


def _reply_topic(reply: Message) -> frozenset[str] | None:
    """Return what a reply is about, or None if it may answer anything: a few words, a "yes"."""
    if _ANSWER_WORD.search(kind_of(reply)) or _ANSWER_WORD.search(reply.text[:MOST_TEXT]):
        return None
    return _topic(reply.text) if len(reply.text.split(maxsplit=5)) > 5 else None
