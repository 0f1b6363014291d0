"""Messages that say again what the same agent has said before."""

import re
from dataclasses import dataclass

from rapidfuzz import fuzz

from annotator.annotations import Quote
from annotator.judges.rules.passages import kind_of, quotes_in, spoken
from annotator.judges.rules.questions import asks
from annotator.traces import Message, Trace

_SAME = 92.0  # rapidfuzz ratio of two texts from which they count as near-duplicates
_SAME_SENTENCE = 85.0
_LOOK_BACK = 20  # earlier messages of the same sender that a message is compared with
_MOST_COMPARED = 2_000  # characters of a message that are compared
_MOST_SENTENCES = 30
_BLOCK = 160  # characters that fill two lines on any screen

# Types of message that a protocol sends again by design.
_ECHOES = frozenset(["draft", "agree", "accept", "ack", "acknowledge", "confirm", "final", "echo"])
_FIELD = re.compile(r"[A-Za-z_]{1,20}:\s?\S*")  # "type: DONE": the same in every message of a kind
_RESEND = re.compile(
    r"\bre-?send(?:ing)?\b|\bgarbled\b|\bmangled\b|\btruncated\b|\bcut off\b"
    r"|\bprevious (?:message|msg|send)\b",
    re.IGNORECASE,
)
_HOLE = re.compile(r"\S {2,}\S")  # what a shell leaves where it swallowed a quoted word
_REPORT = re.compile(
    r"\b(?:done|finished|implemented|landed|completed?|merged|applied|status|progress|pass(?:es|ed)?)\b",
    re.IGNORECASE,
)
# Words that name something: with a capital, a digit or an underscore ("Elizabeth", "row_2").
_NAME = re.compile(r"\b(?=\w*[A-Z\d_])\w+")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Repeat:
    """Two messages of one agent that say the same; ``block``: a report of two lines or more."""

    first: Message
    second: Message
    quotes: tuple[Quote, Quote]
    block: bool


def repeated(trace: Trace) -> Repeat | None:
    """Return the first near-duplicate of an earlier message by the same agent, or None."""
    earlier: dict[str, list[tuple[Message, str]]] = {}
    for message in spoken(trace):
        body = _body(message)
        # A question sent twice is a reminder, and a few words are no information.
        if len(body.split()) < 8 or kind_of(message) in _ECHOES or asks(message):
            continue
        said = earlier.setdefault(message.sender, [])
        for before, text in said[-_LOOK_BACK:]:
            if _near_duplicate(text, body) and not _resent(before, message):
                quotes = _same_sentence(before, message)
                if quotes:
                    return Repeat(before, message, quotes, _is_report(text) and _is_report(body))
        said.append((message, body))
    return None


def _body(message: Message) -> str:
    """Return the text that is compared: without form fields, white space squeezed per line."""
    lines = (" ".join(line.split()) for line in message.text[:_MOST_COMPARED].split("\n"))
    return "\n".join(line for line in lines if line and not _FIELD.fullmatch(line))


def _near_duplicate(before: str, after: str) -> bool:
    # A new name or number is a new fact, however alike the rest is.
    known = set(map(str.lower, _WORD.findall(before)))
    if any(name.lower() not in known for name in _NAME.findall(after)):
        return False
    return fuzz.ratio(before, after, score_cutoff=_SAME) >= _SAME


def _resent(before: Message, after: Message) -> bool:
    """Whether the second message repairs the first, which lost something on the way."""
    first, second = before.text[:_MOST_COMPARED], after.text[:_MOST_COMPARED]
    lost = _HOLE.search(first) is not None and _HOLE.search(second) is None
    return lost or _RESEND.search(second) is not None


def _is_report(body: str) -> bool:
    fills_two_lines = "\n" in body or len(body) >= _BLOCK
    return fills_two_lines and _REPORT.search(body) is not None


def _same_sentence(before: Message, after: Message) -> tuple[Quote, Quote] | None:
    """Return the longest passage that stands in both messages, as it stands in each."""
    pairs = [
        (one, two)
        for one in quotes_in(before)[:_MOST_SENTENCES]
        for two in quotes_in(after)[:_MOST_SENTENCES]
        if fuzz.ratio(one.text, two.text) >= _SAME_SENTENCE
    ]
    return max(pairs, key=lambda pair: len(pair[1].text), default=None)
