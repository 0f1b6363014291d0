"""Short passages of a trace that can stand as quotes: whole sentences and whole lines."""

import re
from collections.abc import Iterator
from itertools import pairwise

from annotator.annotations import Quote
from annotator.traces import Message, Trace

LONGEST_QUOTE = 240
MOST_TEXT = 20_000  # characters of one message that are looked at

# Zero-width, so that a run of 100,000 full stops costs one look at each.
_SENTENCE_END = re.compile(r"(?<=[.!?])(?=[\s\"')\]*`]|\Z)|\n")
_WORD = re.compile(r"\w+")


def spoken(trace: Trace) -> list[Message]:
    """Return the messages that agents wrote, in order."""
    return [message for message in trace.messages if not message.tool]


def sentences(message: Message) -> Iterator[str]:
    """Yield the sentences and lines of a message, stripped, none empty, none across a break."""
    text = message.text[:MOST_TEXT]
    start = 0
    for stop in (*sorted(one for one in message.breaks if one < len(text)), len(text)):
        ends = [start, *(m.end() for m in _SENTENCE_END.finditer(text, start, stop)), stop]
        for at, end in pairwise(ends):
            # What closes the sentence before ('." ') is not how this one begins.
            if sentence := text[at:end].strip().lstrip(")]\"'`* "):
                yield sentence
        start = max(start, stop + 1)  # the character at a break belongs to neither side


def clipped(text: str) -> str:
    """Return ``text``, or its first words if it is too long for a quote, or "" if it has no words.

    A text is never cut inside a word: what is left would name something else.
    """
    text = text.strip()
    if len(text) > LONGEST_QUOTE:
        text = text[: max(text.rfind(" ", 0, LONGEST_QUOTE + 1), 0)].rstrip()
    return text if len(_WORD.findall(text)) >= 2 else ""


def quote_of(message: Message, text: str) -> Quote | None:
    """Return a passage of a message as a quote, or None if it is too little to point at."""
    text = clipped(text)
    return Quote(text, f"message:{message.n}") if text else None


def quotes_in(message: Message) -> list[Quote]:
    """Return the passages of a message that can be quoted, in order."""
    return [one for sentence in sentences(message) if (one := quote_of(message, sentence))]


def kind_of(message: Message) -> str:
    """Return the type a message gives itself, in lower case: its kind, or a ``type: X`` line."""
    first = message.text[:100].lstrip().partition("\n")[0]
    field, _, value = first.partition(":")
    named = value if field.strip().lower() == "type" else ""
    return (message.kind or named).strip().lower()
