"""What a statement is, and the clauses of a sentence that it stands in."""

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from annotator.facts.prose import Sentence

Kind = Literal[
    "commitment",
    "completion_claim",
    "retraction",
    "assurance",
    "clash_stated",
    "placement_agreement",
    "order_agreement",
]


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement in a sentence. ``start`` to before ``end`` of it are what it speaks of.

    ``hedge`` is the word that makes it a forecast or a condition, or None.
    """

    kind: Kind
    sentence: Sentence
    start: int
    end: int
    hedge: str | None = None
    details: dict[str, Any] = field(default_factory=dict)


_HEDGE = re.compile(
    r"\b(should|might|may|probably|likely|i think|i don['’]t think|hopefully|expect(?:ed)?"
    r"|presumably|ideally|perhaps|maybe|seems?|afaik|afaict|as far as i|unless|if|assuming|provided"
    r"|let me know|tell me|could|would|in theory|looks? like|appears?|try(?:ing)?|aim|almost"
    r"|as long as)\b",
)
_CLAUSE_START = re.compile(r"[;:(]\s?|,\s|\.\s|\s[–—-]{1,2}\s")
_CLAUSE_END = re.compile(
    r";|\.\s|\s[–—-]{1,2}\s|\b(?:because|since|while|whereas|unless|so that|so|but|before|after"
    r"|once|when|until|if|below|above|without|not|instead of|rather than|you|your|i|on top of"
    r"|next to|near|matching|like|which|via|using|per|for|alongside|around|between)\b",
)


def hedge_in(sentence: Sentence, start: int, end: int) -> str | None:
    """Return the first hedging word of a part of a sentence, in lower case."""
    match = _HEDGE.search(sentence.low, start, end)
    return match.group(1).lower() if match else None


def clause_start(text: str, at: int) -> int:
    """Return where the clause around an offset begins, looking back 200 characters."""
    begin = max(0, at - 200)
    for match in _CLAUSE_START.finditer(text, begin, at):
        begin = match.end()
    return begin


def clause_end(text: str, at: int) -> int:
    """Return where the clause around an offset ends."""
    match = _CLAUSE_END.search(text, at)
    return match.start() if match else len(text)
