"""The check of every finding: its quotes are in the trace.

A quote is found if one source has its words in order, without a missing, added or changed one. Only
typography may differ: white space, case, quotation marks, dashes, Markdown emphasis, backslash
escapes, a leading tag of the right speaker, and punctuation or an ellipsis at either end. The
evidence is always the source's own text with its offsets.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import permutations

from annotator.base.normalize import NormalizedText, normalize_text
from annotator.base.text import escape_header, list_first, sanitize_line
from annotator.rubrics import Code, Rubric
from annotator.rubrics.annotations import Claim, Evidence, Finding, Match, Quote, Rejected, Verdict
from annotator.traces import ORIGINS, Origin, Source, Trace

_MOST_SPANS = 100  # occurrences of one quote in one source
_LONGEST = 1_000  # longer quotes must be exact
_NEAR_LIMIT = 30_000  # characters that are searched for a passage similar to
_NEAR_QUOTE = 200  # the first characters of a quote, for
_MOST_HINTS = 2  # of the quotes of one claim: it takes milliseconds

# What may come between two words or marks of a quote.
_BLANK = r"(?:\s|\\[nrt])"
# Marks around words, as in Markdown: not the stars of `a ** b` or `a *= b`.
_EMPHASIS = (
    r"(?:`|(?<![\w*~])(?:\*{1,3}|~~)(?=[\w\"'“‘`(\[])"
    r"|(?<=[\w\"'”’`)\].,;:!?])(?:\*{1,3}|~~)(?![\w*~]))"
)
_ESCAPE = r"\\(?=[^\w\s])"
_CLASSES = {
    "'": "['‘’‚‛′]",
    '"': '["“”„‟″]',
    "-": "[-‐‑‒–—―−]",
    "--": "(?:--|[–—―])",
    "—": "(?:--|[-‐‑‒–—―−])",
    "...": r"(?:\.\.\.|…)",
}
_SAME = dict.fromkeys("‘’‚‛′", "'") | dict.fromkeys("“”„‟″", '"') | dict.fromkeys("–—―", "—")
_SAME |= dict.fromkeys("‐‑‒−", "-") | {"…": "..."}
# No dash leads: it may be the sign of a patch line.
_LEADING = frozenset(["'", '"', "(", "[", "...", ".", ",", ";", ":"])
_TRAILING = _LEADING | frozenset([")", "]", "!", "?", "—"])
_WORD = re.compile(r"\w+")
# Where a word may begin and end: "can" does not end in "can't", nor "row" in "row_count".
_BEGIN, _END = r"(?<!\w)(?<!\w['’])", r"(?!\w)(?!['’]\w)"
# Scripts that write without spaces: Thai to Myanmar, Khmer, Han and kana.
_NO_SPACES = (
    "\u0e00-\u0eff\u0f00-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_UNSPACED = re.compile(f"[{_NO_SPACES}]")
_TOKEN = re.compile(
    rf"\d+(?:[.,]\d+)+|(?:(?=[{_NO_SPACES}])\w)+|[^\W{_NO_SPACES}]+|\.\.\.|--|[^\w\s]"
)
_WHOLE_WORDS = 6  # left of a quote whose ends cut words
_NOUNS: dict[Origin, str] = {
    "messages": "a message",
    "patches": "a patch",
    "outcome": "the outcome",
    "steps": "a step",
    "tools": "a tool's text",
}


@dataclass(frozen=True, slots=True)
class Span:
    """A passage of a source: ``source_text[start:end] == quote``. ``agent``: its author."""

    source: str
    start: int
    end: int
    quote: str
    match: Match
    origin: Origin
    agent: str | None = None


def locate(
    quote: str, trace: Trace, origins: tuple[Origin, ...] = ORIGINS, *, steps: bool = True
) -> list[Span]:
    """Return every place of ``quote`` in the trace, in the order of the sources. ``steps`` False:
    trajectories are not read.

    A quote that cuts a word of the source ("I see no" in "I see nothing") loses it, and counts only
    if six whole words are left. A quote that identifies nothing (a few letters that are not a whole
    line) is found nowhere.
    """
    return [
        span for source in trace.sources(origins, steps=steps) for span in find_spans(quote, source)
    ]


def find_spans(quote: str, source: Source) -> list[Span]:
    """Return the places of ``quote`` in one source, at most 100, by position.

    A quote of more than 1,000 characters must be exact.
    """
    quote, view = quote.strip(), normalize_text(source.text)
    plain = normalize_text(quote).text.strip()
    if not _WORD.search(plain):
        return []
    if spans := [span for span in _find_exact(quote, source, view) if _identifies(span, view)]:
        return spans
    breaks = tuple(view.find_visible(offset) for offset in source.breaks)
    read = replace(source, text=view.text, breaks=breaks)
    spans = (
        []
        if plain == quote and not view.changed
        else _find_exact(plain, read, normalize_text(view.text))
    )
    composed, decomposed = (unicodedata.normalize(form, plain) for form in ("NFC", "NFD"))
    for spelling in dict.fromkeys((plain, composed, decomposed)):
        spans = spans or _find_tolerant(spelling, read)
    if not spans and (untagged := _drop_speaker(plain, source.agent)):
        spans = _find_exact(untagged, read, normalize_text(view.text)) or _find_tolerant(
            untagged, read
        )
    return list(filter(None, (_restore_place(span, source, view) for span in spans)))


def _restore_place(span: Span, source: Source, view: NormalizedText) -> Span | None:
    """Return a passage of the visible text as one of the source, if it identifies anything."""
    start, end = view.locate(span.start, span.end)
    if any(start <= offset < end for offset in source.breaks):
        return None
    passage = source.text[start:end]
    placed = replace(span, start=start, end=end, quote=passage, match="typography")
    return placed if _identifies(placed, view) else None


def _find_exact(quote: str, source: Source, view: NormalizedText) -> list[Span]:
    """Return the exact places of a quote; the visible text decides where words end."""
    text = source.text
    spans: list[Span] = []
    at = text.find(quote)
    while at >= 0 and len(spans) < _MOST_SPANS:
        start, end = at, at + len(quote)
        first, last = view.find_visible(start), view.find_visible(end)
        word_span = _keep_whole_words(view.text, first, last)
        cut = word_span != _strip(view.text, first, last)
        left = view.text[slice(*word_span)].split() if cut else []
        enough = (
            not cut or sum(map(bool, map(_WORD.search, left))) >= _WHOLE_WORDS
        )  # marks are no words
        if cut and enough:
            start, end = view.locate(*word_span)
        crossed = max((offset for offset in source.breaks if start <= offset < end), default=None)
        if enough and crossed is None:
            match: Match = "typography" if cut else "exact"
            passage = text[start:end]
            spans.append(Span(source.id, start, end, passage, match, source.origin, source.agent))
        # A repetition may follow right after the break that this place crosses.
        at = text.find(quote, at + len(quote) if crossed is None else crossed + 1)
    return spans


def _keep_whole_words(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a passage without the words it cuts."""
    first, last = start, end
    if _is_inside_word(text, start):
        while first < end and _is_inside_word(text, first):
            first += 1
    if _is_inside_word(text, end):
        while last > first and _is_inside_word(text, last):
            last -= 1
    return _strip(text, first, last)


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a passage without the blanks at its ends."""
    lead = len(text[start:end]) - len(text[start:end].lstrip())
    return start + lead, start + len(text[start:end].rstrip())


def _is_inside_word(text: str, at: int) -> bool:
    """Whether the two characters around offset ``at`` belong to one word or number.

    An apostrophe or a hyphen between letters, a point or comma between digits and the sign of a
    number do. The letter of a written escape (backslash and n) belongs to no word, and scripts
    without spaces have no word ends.
    """
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    far, next_ = text[max(0, at - 2) : at - 1], text[at + 1 : at + 2]
    if before in "nrt" and far == "\\":
        return False
    if text[max(0, at - 3) : at - 1] in ("\\n", "\\r", "\\t"):
        far = ""
    for mark, left, right in ((after, before, next_), (before, far, after)):
        if mark in "'’-" and left.isalpha() and right.isalpha():
            return True
        if mark in ".," and left.isdigit() and right.isdigit():
            return True
        if mark == "-" and left in (" ", "(", "=") and right.isdigit() and mark == before:
            return True
    pair = before + after
    return all(map(_is_word_char, pair)) and not _UNSPACED.search(pair)


def _is_word_char(char: str) -> bool:
    return char.isalnum() or char == "_" or unicodedata.category(char)[0] == "M"


def _crosses(source: Source, start: int, end: int) -> bool:
    return any(start <= at < end for at in source.breaks)


def _identifies(span: Span, view: NormalizedText) -> bool:
    """Whether a passage identifies a place: two words, a long one, or a whole line."""
    text, start, end = view.text, view.find_visible(span.start), view.find_visible(span.end)
    tokens = _WORD.findall(text, start, end)
    if not tokens:  # in the middle of a code for colours, say
        return False
    if len(tokens) >= 2 or len(tokens[0]) >= 12 or len(_UNSPACED.findall(text, start, end)) >= 4:
        return True
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    before = _WORD.search(text, line_start, start)
    after = _WORD.search(text, end, line_end if line_end >= 0 else len(text))
    return not before and not after


def _find_tolerant(quote: str, source: Source) -> list[Span]:
    if len(quote) > _LONGEST:
        return []
    emphasis = source.origin not in ("patches", "outcome")  # a star is an operator in code
    # Added lines quoted without their signs.
    unsigned = source.origin == "patches" and "\n" in quote and "\n+" not in quote
    tokens = _split_tokens(quote, emphasis)
    lowered = source.text.lower()
    if any(token.isascii() and token.lower() not in lowered for token in tokens if _is_word(token)):
        return []  # the common case, and a pattern is costly to build
    for variant in (tokens, _trim(tokens)):
        if not any(map(_is_word, variant)):
            continue
        for underscores in (False, True) if emphasis and "_" in source.text else (False,):
            spans = []
            for match in _build_pattern(variant, emphasis, underscores, unsigned).finditer(
                source.text
            ):
                start, end = match.span()
                complete = not _is_inside_word(source.text, start) and not _is_inside_word(
                    source.text, end
                )
                balanced = not underscores or _pair_up(match.groups())
                if complete and balanced and not _crosses(source, start, end):
                    passage = match.group()
                    where = (source.id, start, end, passage)
                    spans.append(Span(*where, "typography", source.origin, source.agent))
                if len(spans) == _MOST_SPANS:
                    break
            if spans:
                return spans
    return []


def _split_tokens(quote: str, emphasis: bool) -> tuple[str, ...]:
    """Return the words and marks of a quote in one typography."""
    text = re.sub(_ESCAPE, "", re.sub(_BLANK, " ", quote))
    text = re.sub(_EMPHASIS, "", text.strip().strip("*~`")) if emphasis else text
    text = "".join(_SAME.get(char, char) for char in text)
    return tuple(_TOKEN.findall(text))


def _trim(tokens: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tokens without the punctuation at either end."""
    first, last = 0, len(tokens)
    while first < last and tokens[first] in _LEADING:
        first += 1
    while last > first and tokens[last - 1] in _TRAILING:
        last -= 1
    return tokens[first:last]


@lru_cache(maxsize=256)
def _build_pattern(
    tokens: tuple[str, ...], emphasis: bool, underscores: bool, unsigned: bool
) -> re.Pattern[str]:
    """Return the pattern that finds the tokens with nothing but typography between them."""
    marks = f"{_EMPHASIS}|{_ESCAPE}" if emphasis else _ESCAPE
    blank = rf"(?:\n\+|{_BLANK})" if unsigned else _BLANK
    # Bounded and possessive: linear time on hostile text.
    gap = rf"(?:{blank}|{marks}){{0,200}}+"
    word_gap = rf"(?:{marks}){{0,9}}+{blank}{gap}"
    parts = [_BEGIN if _is_spaced(tokens[0]) else ""]
    for n, token in enumerate(tokens):
        if n:
            parts.append(word_gap if _is_spaced(tokens[n - 1]) and _is_spaced(token) else gap)
        word = _CLASSES.get(token, re.escape(token))
        if underscores and _is_word(token) and not (token.startswith("_") or token.endswith("_")):
            word = rf"(?:(?<!\w)(_{{1,3}}))?{word}(?:(_{{1,3}})(?!\w))?"
        parts.append(word)
    parts.append(_END if _is_spaced(tokens[-1]) else "")
    return re.compile("".join(parts), re.IGNORECASE)


def _is_word(token: str) -> bool:
    return token[0].isalnum() or token[0] == "_"


def _is_spaced(token: str) -> bool:
    """Whether a token is a word of a script that puts blanks between words."""
    return _is_word(token) and not _UNSPACED.match(token)


def _pair_up(groups: Iterable[str | None]) -> bool:
    """Whether underscores before and after words pair up as emphasis: ``_never_``, ``_a b_``."""
    open_marks: list[str] = []
    for n, mark in enumerate(groups):
        if mark and n % 2 == 0:
            open_marks.append(mark)
        elif mark and (not open_marks or open_marks.pop() != mark):
            return False
    return not open_marks


def _drop_speaker(quote: str, speaker: str | None) -> str | None:
    """Return the quote without a leading ``[3] agent1 to agent2:``, if it names the speaker."""
    if not speaker:
        return None
    names = {re.escape(normalize_text(speaker).text), re.escape(escape_header(speaker))}
    number, name = r"(?:(?:message\s*)?\d+\W+)?", f"(?:{'|'.join(sorted(names))})"
    tag = rf"[\W_]*{number}{name}(?:\s*(?:->|=>|→|\bto\b)\s*[\w-]+)?[\s*_)\]]*:[\s*_]*"
    match = re.match(tag, quote[:200], re.IGNORECASE)
    return quote[match.end() :] if match else None


def check_verdict(
    verdict: Verdict, trace: Trace, rubric: Rubric
) -> tuple[list[Finding], list[Rejected]]:
    """Return the verdict's claims as findings with verified evidence, and the rejected ones.

    A claim is accepted if each quote is in the source it names (or, word for word, in exactly one
    other: ``moved``), of an origin that the rubric allows, and if there are as many separate
    passages, from the places and authors, as the rubric requires.
    """
    findings: list[Finding] = []
    rejected: list[Rejected] = []
    for claim in verdict.claims:
        evidence, wrong = verify(claim, trace, rubric)
        earlier = [finding.evidence for finding in findings if finding.code == claim.code]
        if not wrong and is_given_twice(rubric.code(claim.code), evidence, earlier):
            wrong = [f"{claim.code}: given twice"]
        if wrong:
            quotes = tuple(quote.text for quote in claim.quotes)
            rejected.append(Rejected(claim.code, "; ".join(wrong), quotes))
        else:
            finding = Finding(claim.code, claim.rationale, tuple(evidence))
            findings.append(_attribute(finding, trace) if rubric.attribution else finding)
    return findings, rejected


def is_given_twice(
    code: Code, evidence: Sequence[Evidence], earlier: Sequence[Sequence[Evidence]]
) -> bool:
    """Whether a finding repeats an ``earlier`` one of its code: any, or if the code ``repeats`` one
    with the same quotes.
    """
    if not code.repeats:
        return bool(earlier)
    places = {(item.source, item.start, item.end) for item in evidence}
    return any(places == {(x.source, x.start, x.end) for x in other} for other in earlier)


def _attribute(finding: Finding, trace: Trace) -> Finding:
    """Return the finding with its cause, the first quoted message of an agent, and with the place
    where it shows, the next quoted message after the cause, whoever wrote it.
    """
    by_source = {f"message:{message.n}": message for message in trace.messages}
    quoted = [by_source[item.source] for item in finding.evidence if item.source in by_source]
    cause = next((message for message in quoted if message.author == "agent"), None)
    if cause is None:
        return finding
    later = [message for message in quoted[quoted.index(cause) :] if message.n > cause.n]
    return replace(
        finding,
        agent=cause.sender,
        step=cause.n,
        shown_agent=later[0].sender if later else None,
        shown_step=later[0].n if later else None,
        steps=len(trace.messages),
    )


def verify(
    claim: Claim, trace: Trace, rubric: Rubric, *, hints: bool = False
) -> tuple[list[Evidence], list[str]]:
    """Return the evidence of one claim and its problems, as messages for the judge.

    ``hints`` adds the most similar passage for a quote that is not found.
    """
    if claim.code not in {code.id for code in rubric.codes}:
        return [], [f"{sanitize_line(claim.code, 64)}: not a code of the rubric {rubric.id}"]
    spans, claimed, wrong = _locate_quotes(claim, trace, rubric, hints)
    evidence = [
        Evidence(span.quote, span.source, span.start, span.end, span.match)
        for _, span in sorted(spans.items())
    ]
    quote_count, needed = len(claim.quotes), rubric.quotes_needed(claim.code)
    if quote_count < needed:
        wrong.append(f"{claim.code}: {quote_count} quote(s), {needed} separate passages needed")
    # A quote with several other places is in none of them for certain.
    elif len(claimed) == quote_count and not _fills(rubric.code(claim.code), claimed.values()):
        wrong.append(f"{claim.code}: quotes needed: {rubric.describe_quotes(claim.code)}")
    return evidence, wrong


def _locate_quotes(
    claim: Claim, trace: Trace, rubric: Rubric, hints: bool
) -> tuple[dict[int, Span], dict[int, Span], list[str]]:
    """Return the passages of a claim by the number of the quote, the same with the likely places of
    quotes not found, and why quotes are refused.
    """
    spans = _recheck(claim, trace, rubric)
    claimed = dict(spans)
    reasons: dict[int, str] = {}
    # The longest first: a short quote may have another place.
    missing = [] if spans else list(enumerate(claim.quotes))
    for n, quote in sorted(missing, key=lambda pair: -len(pair[1].text)):
        span, reason = _resolve(quote, trace, rubric, spans.values())
        if span:
            spans[n] = claimed[n] = span
            continue
        if reason.startswith("not found"):
            source, passage = _find_named(quote.source, trace, rubric)[0], ""
            if hints and len(reasons) < _MOST_HINTS:
                source, passage = _find_similar(quote, trace, rubric) or (source, "")
            if source:
                claimed[n] = Span(source.id, 0, 0, "", "exact", source.origin, source.agent)
            if source and passage:
                reason += (
                    f'; similar, in {escape_header(source.id)}: "{sanitize_line(passage, 200)}"'
                )
        reasons[n] = f"quote {_format_quote(quote.text)}: {reason}"
    return spans, claimed, [reasons[n] for n in sorted(reasons)]


def describe_gap(claim: Claim, trace: Trace, rubric: Rubric) -> str:
    """Return in words which quotes a claim still needs by the rubric, "" if none.

    Quotes that are refused do not count. If one more quote is enough, the text names the texts and
    agents it can be from.
    """
    spans, _, refused = _locate_quotes(claim, trace, rubric, False)
    code, quotes = rubric.code(claim.code), list(spans.values())
    missing = rubric.quotes_needed(code.id) - len(quotes)
    if missing <= 0 and _fills(code, quotes):
        return ""
    options = _list_options(trace, rubric)
    enough = [option for option in options if missing <= 1 and _fills(code, [*quotes, option])]
    if not enough:
        gap = f"quotes: {rubric.describe_quotes(code.id)}"
    elif len(enough) == len(options):
        gap = "one more quote" if quotes else "one quote"
    else:
        more = "more " if quotes else ""
        another = code.separate_messages and any(span.origin == "messages" for span in quotes)
        gap = f"one {more}quote, from {_name_options(enough, options, another)}"
    return "; ".join((gap, *(f"{reason} (not counted)" for reason in refused)))


def _list_options(trace: Trace, rubric: Rubric) -> list[Span]:
    """Return a quote of each origin and author that the rubric accepts."""
    authors: dict[Origin, Iterable[str | None]] = {
        "messages": dict.fromkeys(message.sender for message in trace.spoken),
        "patches": [agent for agent, patch in trace.patches.items() if patch.strip()],
        "outcome": [None] if trace.outcome.reports else [],
    }
    return [
        Span("message:another" if origin == "messages" else "", 0, 0, "", "exact", origin, agent)
        for origin in rubric.quote_from
        for agent in authors.get(origin, trace.agents)
    ]


def _name_options(enough: Sequence[Span], options: Sequence[Span], another: bool) -> str:
    """Return the names of texts: "a patch or another message of agent2"; agents are named only if
    not all of an origin's are possible.
    """
    origins: dict[str, list[Origin]] = {}
    for origin in dict.fromkeys(option.origin for option in enough):
        agents = [str(option.agent) for option in enough if option.origin == origin]
        every = len(agents) == sum(option.origin == origin for option in options)
        names = " or ".join(sanitize_line(agent, 60) for agent in agents)
        origins.setdefault("" if every else f" of {names}", []).append(origin)
    nouns = _NOUNS | ({"messages": "another message"} if another else {})
    return ", or ".join(
        " or ".join(nouns[origin] for origin in group) + author for author, group in origins.items()
    )


def _fills(code: Code, spans: Collection[Span]) -> bool:
    """Whether the quotes of a finding come from the places of its code."""
    if code.must_quote and not any(span.origin in code.must_quote for span in spans):
        return False
    return any(
        all(span.origin in origins for span, origins in zip(selection, code.places, strict=True))
        and _suits(code, selection)
        for selection in permutations(spans, len(code.places))
    )


def _suits(code: Code, selection: Sequence[Span]) -> bool:
    """Whether the quotes in the places of a code are by the right agents."""
    agents = {span.agent for span in selection}
    if code.authors == "same" and (len(agents) > 1 or None in agents):
        return False
    if code.authors == "different" and len(agents - {None}) < 2:
        return False
    messages = [span.source for span in selection if span.source.startswith("message:")]
    return not code.separate_messages or len(set(messages)) == len(messages)


def _recheck(claim: Claim, trace: Trace, rubric: Rubric) -> dict[int, Span]:
    """Return the passages of a claim that was verified before, by the number of the quote.

    They must pass all that a search requires. If one does not, the result is {} and every quote is
    searched.
    """
    spans: dict[int, Span] = {}
    if len(claim.evidence) != len(claim.quotes):
        return spans
    for n, (evidence, quote) in enumerate(zip(claim.evidence, claim.quotes, strict=True)):
        source, closed = _find_named(quote.source, trace, rubric)
        start, end = evidence.start, evidence.end
        if source is None or closed or source.id != evidence.source or not 0 <= start < end:
            return {}
        if source.text[start:end] != evidence.quote or _crosses(source, start, end):
            return {}
        where = (source.id, start, end, evidence.quote)
        span = Span(*where, evidence.match, source.origin, source.agent)
        view = normalize_text(source.text)
        bounds = view.find_visible(start), view.find_visible(end)
        cut = _keep_whole_words(view.text, *bounds) != _strip(view.text, *bounds)
        taken = any(_overlaps(span, other) for other in spans.values())
        if cut or taken or not _identifies(span, view):
            return {}
        passage = replace(source, text=evidence.quote, breaks=())
        if replace(span, start=0, end=end - start) not in find_spans(quote.text, passage):
            return {}
        spans[n] = span
    return spans


def _format_quote(quote: str) -> str:
    return f'"{sanitize_line(quote, 120)}"'


def _resolve(
    quote: Quote, trace: Trace, rubric: Rubric, taken: Iterable[Span]
) -> tuple[Span | None, str]:
    """Return the passage of a quote, or None and the reason."""
    source, closed = _find_named(quote.source, trace, rubric)
    refused = f"{closed} is text that the rubric does not accept as evidence"
    spans = find_spans(quote.text, source) if source else []
    if closed and (spans or source is None):
        return None, refused
    free = [span for span in spans if not any(_overlaps(span, other) for other in taken)]
    if free:
        return free[0], ""
    if spans:
        return None, "the same passage as another quote of this finding"
    named = (
        escape_header(source.id)
        if source
        else sanitize_line(f"{quote.source!r} (no such source)", 80)
    )
    anywhere = locate(quote.text, trace, rubric.quote_from)
    elsewhere = list(dict.fromkeys(escape_header(span.source) for span in anywhere))
    if len(elsewhere) == 1 and anywhere[0].match == "exact":
        free = [span for span in anywhere if not any(_overlaps(span, other) for other in taken)]
        if free:
            return replace(free[0], match="moved"), ""
    if elsewhere:
        return None, f"found in {list_first(elsewhere, 3)}, not in {named}"
    return None, refused if closed else f"not found in {named}, nor anywhere else"


def _find_named(name: str, trace: Trace, rubric: Rubric) -> tuple[Source | None, str | None]:
    """Return the source that a judge names, and its id if the rubric does not accept it.

    Steps are read only if the rubric accepts them.
    """
    if parse_source_id(name).startswith("step:") and not {"steps", "tools"} & set(
        rubric.quote_from
    ):
        return None, sanitize_line(name, 80)
    source = trace.source(name) or trace.source(parse_source_id(name))
    if source and source.origin not in rubric.quote_from:
        return source, escape_header(source.id)
    return source, None


def _overlaps(span: Span, other: Span) -> bool:
    return span.source == other.source and span.start < other.end and other.start < span.end


def parse_source_id(text: str) -> str:
    """Return the id of a source from a judge's spelling: ``message:3`` for ``3``, ``Message 3``,
    ``[message:3]`` or ``message:3 from agent1 to agent2``.
    """
    text = re.sub(r"^\[*(?:[0-9a-f]{32}\s+)?", "", text.strip()).strip("[]()#`'\".: ")
    form = r"(?:message|msg|m)?[\s:#_-]*(\d{1,9})(?:\s+from\s.*)?"
    number = re.fullmatch(form, text, re.IGNORECASE)
    if number:
        return f"message:{int(number.group(1))}"
    text = re.sub(r"\s*[:\s]\s*", ":", text.removesuffix(", empty"))
    kind, colon, name = text.partition(":")
    return kind.lower() + colon + name


def _find_similar(quote: Quote, trace: Trace, rubric: Rubric) -> tuple[Source, str] | None:
    """Return the most similar passage as a hint; it is never evidence."""
    from rapidfuzz import fuzz, utils

    best_score, best = 75.0, None
    room = _NEAR_LIMIT
    named, _ = _find_named(quote.source, trace, rubric)
    for source in (*([named] if named else []), *trace.sources(rubric.quote_from)):
        text = source.text[:room]
        room -= len(text)
        hit = fuzz.partial_ratio_alignment(
            quote.text[:_NEAR_QUOTE], text, processor=utils.default_process, score_cutoff=best_score
        )
        if hit and hit.score > best_score:
            # default_process keeps the length, but strips marks and blanks at the ends
            lead = len(text) - len(re.sub(r"^[\W_]+", "", text))
            passage = text[max(0, hit.dest_start + lead - 5) : hit.dest_end + lead + 5]
            best_score, best = hit.score, (source, passage)
    return best
