"""Messages that say again what was said before, and echoes that a protocol prescribes."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rapidfuzz import fuzz

from annotator.facts.known import Known
from annotator.facts.model import Fact, Span
from annotator.facts.prose import Said, Sentence, opening, points_at, span_of
from annotator.text import one_line

KINDS: Mapping[str, str] = {
    "near_duplicate": "an agent says again, nearly word for word, what it said before",
    "protocol_echo": "a message of a type that a protocol sends again (DRAFT, AGREE, CONFIRM)",
}

_SAME = 92.0  # rapidfuzz ratio of two texts from which they count as near-duplicates
_SAME_SENTENCE = 85.0
_LOOK_BACK = 20  # earlier messages that a message is compared with
_MOST_COMPARED = 2_000  # characters of a message that are compared
_MOST_SENTENCES = 30
_BLOCK = 160  # characters that fill two lines on any screen
_FEWEST_WORDS = 8  # fewer are no information

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

Variant = Literal["status_block", "information", "reminder", "resend", "echo"]


@dataclass(frozen=True, slots=True)
class Repeat:
    """Two messages that say nearly the same, with the passage that stands in both.

    ``variant``: ``echo``: the second is of a type that a protocol sends again (DRAFT, AGREE,
    CONFIRM and the like), whoever sent the first; all others are of one sender. ``resend``: it
    repairs the first; ``reminder``: it asks the same again; ``status_block``: a report of two
    lines or more; ``information``: anything else. ``score``: rapidfuzz ratio, 0 to 100.
    """

    first: Said
    second: Said
    variant: Variant
    score: float
    passages: tuple[Sentence, Sentence] | None


def facts(known: Known) -> Iterator[Fact]:
    """Yield the repeats, by the later message."""
    for repeat in repeats(known.messages):
        yield from _repeat(repeat)


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
    who_says = f"{one_line(second.sender, 64)} {verb} message {first.n} in message {second.n}"
    yield Fact(kind, f"{who_says}, nearly word for word.", agents, spans, about)


def repeats(messages: Sequence[Said]) -> Iterator[Repeat]:
    """Yield for each message the latest earlier one that it repeats, if any.

    Compared are the first 2,000 characters without form fields, with the 20 messages before it (of
    the same sender unless it is an echo). A new name or number in it is a new fact, and a text of
    less than eight words says nothing, so neither is a repeat.
    """
    earlier: list[tuple[Said, str]] = []
    for said in messages:
        body = _body(said)
        if len(body.split()) < _FEWEST_WORDS:
            continue
        echo = said.kind in _ECHOES
        looked_at = [one for one in earlier if echo or one[0].sender == said.sender][-_LOOK_BACK:]
        for before, text in reversed(looked_at):
            score = fuzz.ratio(text, body, score_cutoff=_SAME)
            if score < _SAME or not (echo or _nothing_new(text, body)):
                continue
            variant: Variant = "echo" if echo else _variant(before, said, text, body)
            yield Repeat(before, said, variant, score, _same_sentence(before, said))
            break
        earlier.append((said, body))
        del earlier[: -_LOOK_BACK * 4]


def _nothing_new(before: str, after: str) -> bool:
    known = set(map(str.lower, _WORD.findall(before)))
    return all(name.lower() in known for name in _NAME.findall(after))


def _body(said: Said) -> str:
    """Return the text that is compared: without form fields, white space squeezed per line."""
    lines = (" ".join(line.split()) for line in said.text[:_MOST_COMPARED].split("\n"))
    return "\n".join(
        line for line in lines if line and not (":" in line and _FIELD.fullmatch(line))
    )


def _variant(before: Said, after: Said, text: str, body: str) -> Variant:
    first, second = before.text[:_MOST_COMPARED], after.text[:_MOST_COMPARED]
    if (_HOLE.search(first) and not _HOLE.search(second)) or _RESEND.search(second):
        return "resend"
    if any(one.asks is not None for one in after.sentences):
        return "reminder"
    return "status_block" if _is_report(text) and _is_report(body) else "information"


def _is_report(body: str) -> bool:
    fills_two_lines = "\n" in body or len(body) >= _BLOCK
    return fills_two_lines and _REPORT.search(body) is not None


def _same_sentence(before: Said, after: Said) -> tuple[Sentence, Sentence] | None:
    """Return the longest sentence that stands in both messages, as it stands in each."""
    best: tuple[Sentence, Sentence] | None = None
    for two in sorted(after.sentences[:_MOST_SENTENCES], key=lambda one: -len(one.text)):
        if best or not points_at(two.text):
            continue
        for one in before.sentences[:_MOST_SENTENCES]:
            near = fuzz.ratio(one.text[:_MOST_COMPARED], two.text[:_MOST_COMPARED])
            if near >= _SAME_SENTENCE and points_at(one.text):
                best = (one, two)
                break
    return best
