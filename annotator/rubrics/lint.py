"""Warnings about a valid rubric, before it costs model calls."""

import re
from collections import defaultdict
from collections.abc import Iterator

from annotator.base.text import suggest
from annotator.rubrics.model import Code, Rubric

_UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|TBD|lorem ipsum)\b|<[a-z ]+>|^\.\.\.$", re.IGNORECASE)
_TEMPLATE = (
    *("What has to be the case.", "What the quotes must show."),
    *("Near misses that are not this code.", "When a code applies and when not, exclusions, how"),
)
_WORD = re.compile(r"[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*")
_LONG = 8_000  # tokens of a prompt without its trace
_BYTES_PER_TOKEN = 4.0


def lint(rubric: Rubric, prompt: str) -> Iterator[str]:
    """Yield likely mistakes of a rubric; ``prompt`` is the part of a prompt before the trace."""
    yield from _find_unfinished(rubric)
    yield from _find_equal(rubric)
    for code in rubric.codes:
        yield from _check_code(code, rubric)
    yield from _find_unknown_codes(rubric)
    tokens = count_tokens(prompt)
    if tokens > _LONG:
        yield f"the prompt has about {tokens} tokens without a trace, each time it is sent"


def count_tokens(prompt: str) -> int:
    """Return roughly how many tokens a prompt has."""
    return round(len(prompt.encode()) / _BYTES_PER_TOKEN)


def _find_unfinished(rubric: Rubric) -> Iterator[str]:
    texts = {"title": rubric.title, "source": rubric.source, "instructions": rubric.instructions}
    for code in rubric.codes:
        for field in ("name", "definition", "evidence", "not_"):
            texts[f"codes.{code.id}.{field.rstrip('_')}"] = getattr(code, field) or ""
    for key, text in texts.items():
        if match := _UNFINISHED.search(text):
            yield f"{key}: {match[0]!r} is left in it"
        elif any(text.startswith(sentence) for sentence in _TEMPLATE):
            yield f"{key}: still the template's sentence"


def _find_equal(rubric: Rubric) -> Iterator[str]:
    for field in ("name", "definition"):
        places = defaultdict(list)
        for code in rubric.codes:
            places[" ".join(getattr(code, field).lower().split())].append(code.id)
        for ids in places.values():
            if len(ids) > 1:
                yield f"codes {', '.join(ids)}: equal in {field}"


def _check_code(code: Code, rubric: Rubric) -> Iterator[str]:
    needed = rubric.quotes_needed(code.id)
    if code.example and len(code.example.quotes) < needed:
        has = len(code.example.quotes)
        yield f"codes.{code.id}.example: {has} quotes, and a finding needs {needed}"
    attributable = {"messages", "patches", "steps"}
    silent = [origins for origins in code.places if not attributable & set(origins)]
    if code.authors and silent:
        yield f"codes.{code.id}: authors: nobody is the author of a quote from {silent[0][0]}"
    if code.separate_messages and sum("messages" in origins for origins in code.places) < 2:
        yield f"codes.{code.id}: separate_messages: fewer than two places take a message"
    if code.must_quote and code.places and not set(code.must_quote) & set(sum(code.places, ())):
        origins = " or ".join(code.must_quote)
        yield f"codes.{code.id}: must_quote asks for {origins}, and no place takes one"
    only_outcome = set(code.must_quote or rubric.quote_from) == {"outcome"}
    if only_outcome and needed > 1:
        yield f"codes.{code.id}: {needed} quotes from the outcome: many outcomes are one word"
    if rubric.applies_to.passed is True and only_outcome:
        yield f"codes.{code.id}: must quote an outcome, and passed runs seldom have one to quote"


def _find_unknown_codes(rubric: Rubric) -> Iterator[str]:
    """Yield words of the instructions that look like a code's id and are no code."""
    ids = {code.id for code in rubric.codes}
    shapes = {shape for code_id in ids if (shape := _compute_shape(code_id)) != "a"}
    seen: set[str] = set()
    for word in _WORD.findall(rubric.instructions):
        near = suggest(word, ids)
        similar = _compute_shape(word) in shapes and (near or not word.islower())
        if (
            word not in ids | seen
            and similar
            and not any(code_id.startswith(word) for code_id in ids)
        ):
            seen.add(word)
            yield f"instructions: {word!r} looks like a code, and there is none of that id{near}"


def _compute_shape(word: str) -> str:
    """Return the shape of a word: ``A1a`` for ``AB12cd``."""
    classes = re.sub(r"[a-z]", "a", re.sub(r"[A-Z]", "A", re.sub(r"[0-9]", "1", word)))
    return re.sub(r"(.)\1+", r"\1", classes)
