"""The sentences of a message, with their offsets, and whether they ask for something.

A message may be a form (``type: DRAFT``, ``files: ...``, ``code: ...``, ``note: ...``). Its code
and lists are no sentences, nor are fenced blocks and quoted lines (">").
"""

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal, NamedTuple

from annotator.base.normalize import NormalizedText, normalize_text, rewrite
from annotator.cooperbench.facts.model import FactSpan
from annotator.traces import Message

_LONGEST_SPAN = 400  # a longer sentence is shown by the words around what was found
_SHORT_SPAN = 240
_WHOLE_CLAUSE = 1_000  # a longer one is no clause that anybody wrote
_CLAUSE_END = re.compile(r";\s|\.\s|\s[–—-]{1,2}\s")

# Zero-width, so that a run of 100,000 full stops costs one look at each.
_SENTENCE_END = re.compile(r"(?<=[.!?])(?=[\s\"')\]*`]|\Z)|\n")
_ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|vs|etc|cf|approx|incl|resp|fig)\.\Z", re.IGNORECASE)
_FORM = re.compile(r"\s*type:", re.IGNORECASE)
_FIELD = re.compile(
    r"^(type|files?|my_files|your_files|regions?|lines|code|diff|patch|spec|note|notes|summary|status"
    r"|message|comment|question|answer|reason|next|plan|body|text|details?):(?=\s|\Z)",
    re.IGNORECASE | re.MULTILINE,
)
_LISTED = re.compile(r"[^\n]*(?:\n(?:[ \t]+|[-*+][ \t])[^\n]*)*")
_FENCE = re.compile(r"^[ \t]*```+[^`\n]*$", re.MULTILINE)
_BREAKS = r"\x0b\x0c\x85\u2028\u2029"
_TYPOGRAPHY = re.compile(
    # Looked at first, as most characters are none of these.
    rf"(?=[*~\\_\t\r{_BREAKS}\x1c-\x1f\xa0\u1680\u2000-\u200a\u202f\u205f\u3000"
    r"‘’‚‛′“”„‟″‐‑‒−]|(?<=\S) \s)(?:"
    r"(?P<emphasis>(?<![\w*~])(?:\*{1,3}|~~)(?=[\w\"'“‘`(\[])"
    r"|(?<=[\w\"'”’`)\].,;:!?])(?:\*{1,3}|~~)(?![\w*~])|\\(?=[^\w\s]))"
    r"|(?<!\w)(?P<open>_)[A-Za-z][^_\n]{0,80}(?P<close>_)(?!\w)"
    rf"|(?P<blank>(?<=\S)(?:[^\S\n\r{_BREAKS}]{{2,}}|[^\S \n\r{_BREAKS}])(?=\S))"
    rf"|(?P<line>\r(?!\n)|[{_BREAKS}])"
    r"|(?P<single>[‘’‚‛′])|(?P<double>[“”„‟″])|(?P<dash>[‐‑‒−])"
    r"|(?P<escaped>(?<![\w:])\\[nr]|\\[nr](?![a-z])))"
)
_PLAIN = {"emphasis": "", "blank": " ", "line": "\n", "single": "'", "double": '"', "dash": "-"}
_CODE_FIELDS = frozenset(["code", "diff", "patch"])
_LIST_FIELDS = frozenset(
    ["type", "file", "files", "my_files", "your_files", "region", "regions", "lines"]
)
_LEAD = " \t\r\f\v)]\"'`*#"
_BULLET = re.compile(r"[-+•]\s+")
_WORD = re.compile(r"\w+")
_TWO_WORDS = re.compile(r"\w\W+\w|\w{12}")
_LETTERS = re.compile(r"[a-z]+")

Style = Literal["prose", "list", "code"]


class Sentence(NamedTuple):
    """A sentence or line of a message, never blank: ``message.text[start:end] == text``.

    ``low`` is the text in lower case if that has the same length. ``vocabulary`` are its words of
    letters in lower case ("I'll" is "i" and "ll"). ``asks`` is the offset of a question or request
    in it, or None.
    """

    text: str
    start: int
    end: int
    low: str
    vocabulary: frozenset[str]
    asks: int | None


def _split_parts(text: str) -> list[tuple[Style, int, int]]:
    """Return the parts of a text; only a ``type:`` line begins a form."""
    parts: list[tuple[Style, int, int]] = []
    if not _FORM.match(text):
        parts.append(("prose", 0, len(text)))
    else:
        marks = list(_FIELD.finditer(text))
        parts.append(("prose", 0, marks[0].start() if marks else len(text)))
        for mark, after in zip_longest(marks, marks[1:]):
            name = mark.group(1).lower()
            style: Style = (
                "code" if name in _CODE_FIELDS else "list" if name in _LIST_FIELDS else "prose"
            )
            begin, end = mark.end(), after.start() if after else len(text)
            if style == "list":  # what is listed goes on in items and indented lines only
                listed = _LISTED.match(text, begin, end)
                begin = listed.end() if listed else begin
                parts.append((style, mark.end(), begin))
                style = "prose"
            parts.append((style, begin, end))
    if "```" in text:
        parts = [piece for passage in parts for piece in _split_fences(text, *passage)]
    return parts


def _split_fences(
    text: str, style: Style, start: int, stop: int
) -> Iterator[tuple[Style, int, int]]:
    at, opening = start, None
    for mark in _FENCE.finditer(text, start, stop):
        if opening is None:
            opening = mark
        else:
            yield style, at, opening.start()
            yield "code", opening.start(), mark.start()
            at, opening = mark.start(), None
    yield style, at, stop


def _split_at(start: int, stop: int, breaks: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    for at in sorted(offset for offset in breaks if start <= offset < stop):
        yield start, at
        start = at + 1  # the character at a break belongs to neither side
    yield start, stop


def _split_sentences(text: str, start: int, stop: int) -> Iterator[Sentence]:
    at = start
    for mark in (*_SENTENCE_END.finditer(text, start, stop), None):
        end = mark.end() if mark else stop
        if mark and mark.start() == end and _ABBREVIATION.search(text, max(at, end - 8), end):
            continue
        # What closes the sentence before ('." ') is not how this one begins.
        first = end - len(text[at:end].lstrip().lstrip(_LEAD))
        if bullet := _BULLET.match(text, first, end):
            first = bullet.end()
        last = first + len(text[first:end].rstrip())
        quoted = text.startswith(">", at)
        if first < last and not quoted and _WORD.search(text, first, last):
            passage = text[first:last]
            low = passage.lower()
            vocabulary = frozenset(_LETTERS.findall(low))
            low = low if len(low) == len(passage) else passage
            yield Sentence(passage, first, last, low, vocabulary, find_question(low, vocabulary))
        at = end


@dataclass(frozen=True, slots=True)
class ParsedMessage:
    """A message with its declared type, parts and sentences."""

    original: Message
    view: NormalizedText
    kind: str
    parts: tuple[tuple[Style, int, int], ...]
    sentences: tuple[Sentence, ...]

    @property
    def n(self) -> int:
        """The number of the message."""
        return self.original.n

    @property
    def sender(self) -> str:
        """Who wrote it."""
        return self.original.sender

    @property
    def text(self) -> str:
        """The text in plain typography."""
        return self.view.text

    def passage(self, start: int, end: int) -> str:
        """Return a passage of ``text`` as it was written."""
        return self.original.text[slice(*self.view.locate(start, end))]


def read_prose(text: str) -> NormalizedText:
    """Return a text with plain quotes and dashes, single blanks and no emphasis."""
    view = normalize_text(text)
    escaped = "\n" not in view.text  # then a line end may be written as one

    def edits() -> Iterator[tuple[int, int, str]]:
        for mark in _TYPOGRAPHY.finditer(view.text):
            if mark["open"]:
                yield *mark.span("open"), ""
                yield *mark.span("close"), ""
            elif not mark["escaped"]:
                yield *mark.span(), _PLAIN[mark.lastgroup or ""]
            elif escaped:
                yield *mark.span(), "\n"

    return rewrite(view.text, edits(), view)


def parse_message(message: Message) -> ParsedMessage:
    """Parse a message; no sentence crosses a break."""
    view = read_prose(message.text)
    text, breaks = view.text, tuple(map(view.find_visible, message.breaks))
    pieces = tuple(
        (style, left, right)
        for style, start, end in _split_parts(text)
        for left, right in _split_at(start, end, breaks)
        if left < right
    )
    sentences = tuple(
        sentence
        for style, start, end in pieces
        if style == "prose"
        for sentence in _split_sentences(text, start, end)
    )
    return ParsedMessage(message, view, message.declared_type, pieces, sentences)


def locate_sentence(message: ParsedMessage, sentence: Sentence, at: int = 0) -> FactSpan:
    """Return the passage of a sentence; of a very long one, the clauses around ``at``."""
    start, end = 0, len(sentence.text)
    if end > _LONGEST_SPAN:
        cuts = [0, *(mark.end() for mark in _CLAUSE_END.finditer(sentence.text)), end]
        start = max(cut for cut in cuts if cut <= at)
        end = next((cut for cut in cuts if cut > max(at, start + _SHORT_SPAN)), end)
        if end - start > _WHOLE_CLAUSE:
            start = max(sentence.text.rfind(" ", 0, at + 1), 0)
            end = sentence.text.find(" ", start + _SHORT_SPAN)
            end = len(sentence.text) if end < 0 else end
        passage = sentence.text[start:end]
        start += len(passage) - len(passage.lstrip())
        end = start + len(passage.strip())
        if not is_quotable(sentence.text[start:end]):
            start, end = 0, len(sentence.text)
    start, end = message.view.locate(sentence.start + start, sentence.start + end)
    seen = normalize_text(message.original.text)
    start, end, text = seen.find_visible(start), seen.find_visible(end), seen.text
    while text[start - 1 : start] == "_":  # emphasis, which belongs to the word beside it
        start -= 1
    while text[end : end + 1] == "_":
        end += 1
    return FactSpan(f"message:{message.n}", *seen.locate(start, end))


def split_words(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


def is_quotable(text: str) -> bool:
    """Whether a passage can be found again: it has two words, or a long one."""
    return _TWO_WORDS.search(text) is not None


# --- What asks for something ---
_OPENER = re.compile(
    r"(?:^|[,;:(]\s|\s-\s|\s[–—]\s|\b(?:so|and|but|or|then)\s)"
    r"((?:what|which|where|when|who|whose|why|how|do|does|did|is|are|was|were|should|shall|has|have"
    r"|can|could|would|will|may|any)\b.{0,60})"
)
_INFORMATION = (  # what is information when it is sent, listed or shown
    r"(?:me|us|your|which|what|where|how|exact|current|signatures?|specs?|interfaces?|api|plan|status"
    r"|summary|details|diff|patch|snippet|lines?|ranges?|files?|hunks?|regions?|locations?)\b"
)
_TELL = (
    r"(?:tell|confirm|clarify|explain|specify|describe|decide|reply with|point me"
    rf"|advise|choose (?:one|between|which|whether)"
    rf"|(?:send|share|paste|list|show|provide|post) (?:[^\s.;]+ ){{0,4}}?{_INFORMATION})\b"
)
_ASKED_OF_PARTNER = re.compile(r"(?:can|could|would|will)\s+you\b\s?(.*)")
_TELLING = re.compile(rf"(?:(?:please|also|just)\s){{0,2}}{_TELL}")
_REQUEST = re.compile(
    rf"\bplease\s(?:also\s|just\s|re)?{_TELL}|\b(?:i|we) need to know\b"
    r"|\blet me know (?:what|which|where|how|why|who|whether|exact|your)\b"
    r"|\btell me (?:what|which|where|how|why|who|whether|exact|your)\b"
    r"|^(?:also )?confirm (?:that|whether|this|you)\b|\bplease (?:accept or|accept/|agree or)"
)
_COURTESY = re.compile(
    r"\b(?:tell|let) me (?:know )?if\b|\bwhat you think\b|\bplease confirm (?:receipt|when|once)\b"
    r"|\b(?:when|once|after) you(?:['’]re| are| have| finish)\b|\bbefore (?!editing)\w+ing\b"
)
_SAME_CLAUSE = r"(?:(?!\s[-–—]\s)[^;:])*"
_CONDITION_BEFORE = re.compile(
    r"(?:^\W*|[;:,(]\s|\s[-–—]\s)(?:(?:and|but|so|or|then)\s)?"
    rf"(?:if|in case|unless|whenever|once|when|after|should you)\b{_SAME_CLAUSE}$"
)
_CONDITION_AFTER = re.compile(
    r"^(?:(?!\s[-–—]\s|\b(?:and|or)\b)[^,;:(])*?\w\s(?:in case|unless"
    r"|if (?:you|it|they|we|that|this|there|not|needed|necessary|any|anything|so))\b"
)
_SUGGESTED = re.compile(r"\bwhy (?:don['’]t (?:you|we)|not)\b")
_CODE = re.compile(r"^(?:>|#|\"|'|\||\+|\*)|\(\?")  # a "?" of a pattern or a quotation asks nothing
_REQUESTING = frozenset(["please", "need", "let", "tell", "confirm"])
# What asks for any answer, a bare confirmation too, but no offer ("let me know if you want ...").
_ANSWER_REQUEST = re.compile(
    r"\bplease\b[^.;]{0,80}\b(?:send|share|paste|confirm|clarify|specify|advise|propose|reply"
    r"|respond|tell me|pick (?:one|a)|choose|decide)\b"
    r"|\bplease (?:[a-z]+ ){0,3}with (?:an? |the |your )?(?:exact )?spec\b"
    r"|\bplease (?:accept|agree)\b"
    r"|\b(?:let me know|tell me) if you(?:['’]re| are| also| need to| touch| edit| use| plan"
    r"|r feature)\b"
    r"|\b(?:works?|fine|ok(?:ay)?|agreed?|good)(?: for you| with you)?,? (?:please )?"
    r"(?:accept|agree)\b"
    r"|\b(?:reply|respond|confirm)(?: with)?(?: an?| a final)? (?:accept|agree|ack)\b"
    r"|\bneed (?:your|the exact)\b|\b(?:want|like|need)(?:ed)? to (?:confirm|know|check with)\b"
)


def find_question(sentence: str, vocabulary: Set[str]) -> int | None:
    """Return where the question begins in a sentence in lower case, or None if it asks nothing."""
    if sentence.endswith("?"):
        unasked = _CODE.search(sentence) or _SUGGESTED.search(sentence)
        opener = None if unasked else _OPENER.search(sentence)
        if opener is None or len(sentence[opener.start(1) :].split()) < 4:
            return None
        of_partner = _ASKED_OF_PARTNER.match(opener.group(1))
        if of_partner:
            telling = _TELLING.match(of_partner.group(1))
            if not telling or _is_conditional(sentence, opener.start(1), opener.start(1)):
                return None
        return opener.start(1)
    if _REQUESTING.isdisjoint(vocabulary) or _CODE.search(sentence) or _COURTESY.search(sentence):
        return None
    request = _REQUEST.search(sentence)
    if request is None or _is_conditional(sentence, *request.span()):
        return None
    return request.start()


def _is_conditional(sentence: str, start: int, end: int) -> bool:
    """Whether a request has a condition before or after it."""
    before, after = sentence[:start], sentence[end:]
    return bool(_CONDITION_BEFORE.search(before) or _CONDITION_AFTER.search(after))


def wants_answer(sentence: str) -> bool:
    """Whether a sentence in lower case asks for any answer: "OK?", an action, a confirmation."""
    if _CODE.search(sentence):
        return False
    return sentence.endswith("?") or _ANSWER_REQUEST.search(sentence) is not None
