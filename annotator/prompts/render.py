"""Prompts: the templates in /prompts, filled with a rubric and a trace."""

import hashlib
import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from annotator.base.files import find_resources
from annotator.base.text import escape_header, replace_surrogates, sanitize_line
from annotator.prompts.parts import split_trace
from annotator.prompts.truncate import (
    AROUND_QUOTES,
    IN_ORDER,
    PromptPart,
    mark_priorities,
    truncate_parts,
)
from annotator.prompts.windows import split_windows
from annotator.rubrics import Code, Rubric
from annotator.rubrics.annotations import Claim
from annotator.traces import Trace

_FILES = (
    *("system.j2", "rubric.j2", "trace.j2", "end.j2"),
    *("confirm.j2", "json.j2", "json_end.j2", "reask.j2", "probe.j2"),
)
_LONGEST_CLAIM = 2_000  # characters of a finding that is to be confirmed
_LONGEST_REASON = 2_000  # characters of one of the reasons for which an answer is not accepted
_NOTE = 200  # characters of a note in the facts, with a margin


Considered = Literal["codes", "groups", "none"]
"""The items an answer considers before it decides: codes, groups of codes, or nothing."""
AnswerKind = (
    Considered | Literal["critique", "proposal", "grouping", "codes of findings", "assignment"]
)
"""A judge's answer, by the items that it considers, a critic's, the changes of a rubric, or an
answer about the findings of open coding.
"""


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a prompt: the items that the answer considers, and whether the rubric follows
    the trace (where a provider cannot cache it). ``facts``: the prompt says what is known about the
    run, such as its outcome and merge, besides the agents' names.
    """

    # Its repr is part of the tags: new names would void every cached answer.

    considered: AnswerKind = "codes"
    rubric_last: bool = False
    facts: bool = field(default=True, repr=False)  # they are in the tags as text


@dataclass(frozen=True)
class Prompt:
    """A prompt of two messages: ``system``, the same for every trace of a rubric (providers cache
    it), and ``user`` with the trace, the ``proposals`` to confirm and a reminder.

    ``truncated``: the characters left out of each part. ``tag`` is in the markers around the trace:
    the keyed hash of templates, rubric and trace; equal tags mean equal prompts. An answer repeats
    ``first_tag`` (the begin of ``system``) and ``last_tag`` (the end of ``user``), which reveals a
    prompt that was cut.
    """

    rubric: Rubric = field(repr=False)
    tag: str
    parts: tuple[PromptPart, ...] = field(repr=False)
    truncated: Mapping[str, int] = field(default_factory=dict)
    proposals: tuple[str, ...] = ()
    layout: Layout = Layout()

    @property
    def system(self) -> str:
        """The system's message."""
        return _render_system(self.rubric, self.layout)

    @property
    def first_tag(self) -> str:
        """The tag in the first line of ``system``."""
        return _make_first_tag(self.rubric, self.layout)

    @cached_property
    def last_tag(self) -> str:
        """The tag in the last line of ``user``."""
        return f"last-{spell_tag(f'last {self.tag}')}"

    @cached_property
    def user(self) -> str:
        """The user's message."""
        return self.trace_section + self.end

    @cached_property
    def trace_section(self) -> str:
        """The part of ``user`` about the trace: its parts between markers, and the ``aside``."""
        return fill_in("trace.j2", nonce=self.tag, parts=self.parts) + self.aside

    @cached_property
    def end(self) -> str:
        """The end of ``user``: a reminder, and the rubric if it comes last."""
        closed = any(section.closed for section in self.parts)
        before, after = _render_end(self.rubric, closed, self.layout.rubric_last)
        return before + self.last_tag + after

    @cached_property
    def aside(self) -> str:
        """The section of the proposals in ``trace_section``, or ""."""
        lines = self.proposals
        return fill_in("confirm.j2", nonce=self.tag, lines=lines) if lines else ""


@lru_cache(maxsize=8)
def hash_prompts(*files: str) -> str:
    """Return the hash of the prompt templates, and of more ``files``, which a run records."""
    digest = hashlib.sha256()
    for name in (*_FILES, *files):
        text = (find_resources("prompts") / name).read_bytes()
        digest.update(f"{name} {len(text)}\n".encode() + text)
    return digest.hexdigest()


def hash_rubric_prompts(rubric: Rubric) -> str:
    """Return the hash of the prompt templates that judge by this rubric."""
    return hash_prompts("repeats.j2") if rubric.repeats else hash_prompts()


def render_json_request(schema: str) -> tuple[str, str]:
    """Return the JSON schema as text for the system's message, and a reminder before the last line
    of the user's, for endpoints that take no response format.
    """
    return fill_in("json.j2", schema=schema), fill_in("json_end.j2")


def render_retry(reasons: Iterable[str], *, quotes: bool) -> str:
    """Return the message after a rejected answer; ``quotes``: only its quotes were wrong.

    The reasons contain passages of the trace and of the answer, so they are between markers with
    the tag of their hash, which none of them can contain.
    """
    lines = [sanitize_line(reason, _LONGEST_REASON) for reason in reasons]
    content = "\n".join(lines).encode(errors="surrogatepass")
    key = hashlib.sha256(f"reasons {hash_prompts()}".encode()).digest()
    tag = hashlib.blake2b(content, key=key, digest_size=16).hexdigest()
    return fill_in("reask.j2", nonce=tag, reasons=lines, quotes=quotes)


def render_probe() -> str:
    """Return the message that tests the response formats of an endpoint."""
    return fill_in("probe.j2")


def fill_in(name: str, **values: object) -> str:
    """Return a template with these values."""
    # A trace may hold lone surrogates, which no request can.
    return replace_surrogates(_load_template(name).render(values))


def render(
    trace: Trace,
    rubric: Rubric,
    max_characters: int | None = None,
    layout: Layout = Layout(),
) -> Prompt:
    """Return the prompt that judges ``trace`` by ``rubric``.

    With ``max_characters``, the text between the markers of the trace has at most so many
    characters: as much of the trace as fits (:func:`truncate_parts`). The rubric does not count.

    The tag in the markers is the keyed hash of the templates, the rubric and the trace: the same
    for each judging (answers can be cached), and never in the trace itself.

    Raises:
        UnreadableTrace: the rubric needs the agents' steps and they cannot be read.
    """
    visible, missing = fit_parts(
        list(split_trace(trace, rubric, facts=layout.facts)), max_characters
    )
    return _assemble(visible, rubric, missing, layout)


def render_windows(
    trace: Trace,
    rubric: Rubric,
    max_characters: int,
    layout: Layout = Layout(),
) -> list[Prompt]:
    """Return prompts that together show the whole conversation, each with at most
    ``max_characters`` characters, counted as in :func:`render`; one prompt if the trace fits.

    Each shows the facts, a stretch of the conversation that overlaps with the next, and, in at most
    half of the room, the rest of the trace.

    Raises:
        UnreadableTrace: as :func:`render`.
    """
    parts = list(split_trace(trace, rubric, facts=layout.facts))
    room = max_characters - _measure_frame()
    talk = [section for section in parts if section.kind == "messages"]
    others = [section for section in parts if section.kind != "messages"]
    if sum(section.size for section in parts) <= room:
        return [_assemble(parts, rubric, {}, layout)]
    # The longest header of a message, and a mark, have room beside the rest.
    smallest = max((section.cut(0).size for section in talk), default=0)
    rest_room = min(sum(section.size for section in others), room // 2, room - _NOTE - smallest)
    rest, missing = truncate_parts(others, rest_room)
    dropped = len(others) - len(rest)
    talk_room = room - sum(section.size for section in rest) - _NOTE
    talk = [section.cut_to(talk_room) for section in talk]
    stretches = split_windows(talk, talk_room)
    prompts = []
    for n, stretch in enumerate(stretches, 1):
        messages = [talk[at] for at in stretch]
        note = (
            f"window {n} of {len(stretches)}: {messages[0].id} to {messages[-1].id} of {len(talk)}"
        )
        parts = add_note([*rest, *messages], note + _describe_missing(dropped))
        cut = {section.id: section.left_out for section in messages if section.left_out}
        prompts.append(_assemble(parts, rubric, missing | cut, layout))
    return prompts or [render(trace, rubric, max_characters, layout=layout)]


def render_confirmation(
    trace: Trace,
    rubric: Rubric,
    claims: Sequence[Claim],
    max_characters: int | None,
    layout: Layout,
) -> Prompt:
    """Return the prompt that confirms or refutes claims from windows of a trace.

    If the trace does not fit, it shows the outcome (in at most a quarter of the room), the quoted
    passages with their surroundings, the related messages (:func:`mark_priorities`), the patches
    (in at most half of the rest), and what else fits.

    Raises:
        UnreadableTrace: as :func:`render`.
    """
    evidence = [item for claim in claims for item in claim.evidence]
    passages = [(item.source, item.start, item.end) for item in evidence]
    codes = [rubric.code(claim.code) for claim in claims]
    absences = {code.shows_absence for code in codes if code.shows_absence}
    parts = mark_priorities(
        list(split_trace(trace, rubric, facts=layout.facts)), passages, absences
    )
    visible, missing = fit_parts(parts, max_characters, AROUND_QUOTES)
    proposals = tuple(map(_describe_claim, claims))
    return _assemble(visible, rubric, missing, layout, proposals)


def _describe_claim(claim: Claim) -> str:
    passages = ((escape_header(item.source), item.quote) for item in claim.evidence)
    quotes = "; ".join(f'{source} "{quote}"' for source, quote in passages)
    return sanitize_line(f"{claim.code}: {quotes}", _LONGEST_CLAIM)


def limit_claims(claims: Sequence[Claim], max_characters: int) -> Sequence[Claim]:
    """Return the first claims that fit in ``max_characters`` characters, at least one."""
    sizes = list(accumulate(len(_describe_claim(claim)) for claim in claims))
    return claims[: max(bisect_right(sizes, max_characters), 1)]


def fit_parts(
    parts: list[PromptPart], max_characters: int | None, shares: Mapping[str, float] = IN_ORDER
) -> tuple[list[PromptPart], Mapping[str, int]]:
    """Return the parts that fit, and the characters missing of each, as :func:`truncate_parts`."""
    if (
        max_characters is None
        or sum(section.size for section in parts) <= max_characters - _measure_frame()
    ):
        return parts, {}
    kept, missing = truncate_parts(parts, max_characters - _measure_frame() - _NOTE, shares)
    return add_note(kept, _describe_missing(len(parts) - len(kept))), missing


def _assemble(
    parts: list[PromptPart],
    rubric: Rubric,
    missing: Mapping[str, int],
    layout: Layout,
    proposals: tuple[str, ...] = (),
) -> Prompt:
    tag = make_tag(parts, rubric, layout, proposals)
    return Prompt(rubric, tag, tuple(parts), missing, proposals, layout)


def make_tag(
    parts: Sequence[PromptPart], rubric: Rubric, layout: Layout, proposals: Sequence[str]
) -> str:
    """Return the tag of a prompt: the keyed hash of all that it shows."""
    templates = _name_templates(rubric, layout)
    pieces = [piece for section in parts for piece in section.pieces]
    texts = [*(section.header for section in parts), *(text for text, _ in pieces)]
    # With the sizes, different lists of texts give different bytes.
    sizes = [*map(len, texts), *(left_out for _, left_out in pieces)]
    if proposals:
        templates += " confirm"
        sizes += [len(line) for line in proposals] + [len(proposals)]
        texts += proposals
    key = hashlib.sha256(f"{templates} {rubric.sha256}".encode()).digest()
    content = "\n".join([str(sizes), *texts]).encode(errors="surrogatepass")
    return hashlib.blake2b(content, key=key, digest_size=16).hexdigest()


def _describe_missing(parts: int) -> str:
    return f"\nnot shown, for want of room: {parts} parts" if parts else ""


def add_note(parts: list[PromptPart], note: str) -> list[PromptPart]:
    """Return the parts with a note at the end of the facts."""
    return [
        replace(section, text=f"{section.text}\n{note.strip()}")
        if section.kind == "facts" and note
        else section
        for section in parts
    ]


@lru_cache(maxsize=1)
def _measure_frame() -> int:
    """Return the number of characters around the parts of a trace."""
    return len(fill_in("trace.j2", nonce="0" * 32, parts=()))


@lru_cache(maxsize=1)
def _load_templates() -> Environment:
    # The output is a prompt, not HTML; a trace is a value in it and never a template.
    return Environment(  # noqa: S701
        loader=FileSystemLoader(find_resources("prompts")),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        auto_reload=False,  # it would check the file at every call
    )


@lru_cache(maxsize=32)
def _load_template(name: str) -> Template:
    return _load_templates().get_template(name)


@lru_cache(maxsize=16)
def _render_system(rubric: Rubric, layout: Layout) -> str:
    system = fill_in(
        "system.j2",
        rubric=rubric,
        first_tag=_make_first_tag(rubric, layout),
        considered=layout.considered,
        rubric_last=layout.rubric_last,
        worked=_work_example(rubric, layout),
    )
    # Not in system.j2, whose hash is that of every other rubric's prompts, too.
    return system + (fill_in("repeats.j2", rubric=rubric) if rubric.repeats else "")


@lru_cache(maxsize=16)
def _render_end(rubric: Rubric, closed: bool, rubric_last: bool) -> tuple[str, str]:
    """Return the end of a prompt before and after its last tag, which is in its last line."""
    last = {"rubric_last": rubric_last, "last_tag": "\0"}
    before, _, after = fill_in("end.j2", rubric=rubric, closed=closed, **last).rpartition("\0")
    return before, after


@lru_cache(maxsize=16)
def _name_templates(rubric: Rubric, layout: Layout) -> str:
    return f"{hash_rubric_prompts(rubric)} {layout}"


@lru_cache(maxsize=16)
def _make_first_tag(rubric: Rubric, layout: Layout) -> str:
    return f"first-{spell_tag(f'first {hash_rubric_prompts(rubric)} {rubric.sha256} {layout}')}"


def spell_tag(text: str) -> str:
    """Return six digits from a text's hash; small models miscopy letters and words."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return f"{int.from_bytes(digest) % 1_000_000:06}"


def _work_example(rubric: Rubric, layout: Layout) -> str:
    """Return a full answer from the first example with enough quotes of known sources, or ""."""
    for code in rubric.codes:
        quotes = _place_quotes(rubric, code)
        if code.example and len(quotes) >= rubric.quotes_needed(code.id):
            break
    else:
        return ""
    why = code.example.why
    item = (layout.considered == "groups" and code.group) or code.id
    considered = [{"code": item, "met": "yes", "because": why}]
    # Without the tags: a small model would copy them from here.
    answer = {
        **({"considered": considered} if layout.considered != "none" else {}),
        "findings": [{"rationale": why, "quotes": quotes, "code": code.id}],
        "label": "some" if rubric.choice == "many" else code.id,
    }
    return json.dumps(answer, ensure_ascii=False)


def _place_quotes(rubric: Rubric, code: Code) -> list[dict[str, str]]:
    """Return the quotes of a code's example with their sources, or [] if one is ambiguous: a line
    with a sign is of a patch, any other of the only other origin.
    """
    sources = {"messages": "message:{}", "patches": "patch:agent1", "outcome": "outcome"}
    placed = []
    for n, quote in enumerate(code.example.quotes if code.example else ()):
        origins = code.places[n] if n < len(code.places) else code.must_quote or rubric.quote_from
        rest = [origin for origin in origins if origin != "patches"]
        signed = quote.startswith(("+", "-")) and "patches" in origins
        if not signed and len(rest) != 1:
            return []
        source = sources.get("patches" if signed else rest[0], "step:agent1:{}")
        placed.append({"source": source.format(3 * n + 1), "text": quote})
    return placed
