"""What a model is asked: the templates in /prompts, filled with a rubric and a trace."""

import hashlib
import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from annotator.base.files import find_resources
from annotator.base.text import escape_header, replace_surrogates, sanitize_line
from annotator.prompts.parts import split_trace
from annotator.prompts.truncate import (
    AROUND_QUOTES,
    IN_ORDER,
    PromptPart,
    mark_priorities,
    split_windows,
    truncate_parts,
)
from annotator.rubrics import Code, Rubric
from annotator.rubrics.annotations import Claim
from annotator.traces import Trace

_FILES = (
    *("system.j2", "rubric.j2", "trace.j2", "end.j2"),
    *("confirm.j2", "json.j2", "json_end.j2", "reask.j2", "probe.j2"),
)
_FACTS = "facts.j2"
_LONGEST_CLAIM = 2_000  # characters of a finding that is to be confirmed
_LONGEST_REASON = 2_000  # characters of one of the reasons for which an answer is not accepted
_NOTE = 200  # characters of a note in the facts, with a margin


@dataclass(frozen=True, slots=True)
class Observations:
    """What is told of a trace beside it, a line each, in the words of a ``template``, and how many
    more lines there are: facts that a program observed, or findings that are to be confirmed.
    """

    lines: tuple[str, ...] = ()
    more: int = 0
    template: str = "facts.j2"

    def first(self, n: int) -> "Observations":
        """Return the first ``n`` of them."""
        return replace(self, lines=self.lines[:n], more=self.more + len(self.lines[n:]))

    @property
    def shown(self) -> list[str]:
        """The lines, and one that says how many are left out."""
        if not self.more:
            return list(self.lines)
        many = "fact of these kinds is" if self.more == 1 else "facts of these kinds are"
        return [*self.lines, f"{self.more} more {many} left out"]


NO_OBSERVATIONS = Observations()


Considered = Literal["codes", "groups", "none"]
"""What an answer goes through before it decides: the codes of a rubric, their groups, nothing."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a prompt is laid out: what the answer has to consider, and whether the rubric stands
    after the trace, where a provider cannot cache it, and not before.
    """

    considered: Considered = "codes"
    rubric_last: bool = False


@dataclass(frozen=True)
class Prompt:
    """``system`` is the same for every trace of a rubric, so that providers can cache it;
    ``user`` holds the trace between its markers, without the characters of ``truncated``, after
    it the ``observations`` between theirs, if there are any, and a reminder.

    ``tag`` stands in the markers: the keyed hash of templates, rubric and all that is shown. Equal
    tags mean equal prompts. An answer repeats ``first_tag`` and ``last_tag``, with which the
    system's message begins and the user's ends, so that a prompt that was cut does not go unseen.
    """

    rubric: Rubric = field(repr=False)
    tag: str
    parts: tuple[PromptPart, ...] = field(repr=False)
    truncated: Mapping[str, int] = field(default_factory=dict)
    observations: Observations = NO_OBSERVATIONS
    layout: Layout = Layout()

    @property
    def system(self) -> str:
        """The system's message."""
        return _system(self.rubric, self.layout)

    @property
    def first_tag(self) -> str:
        """The tag in the first line of ``system``."""
        return _first_tag(self.rubric, self.layout)

    @property
    def last_tag(self) -> str:
        """The tag in the last line of ``user``."""
        return f"last-{_spell_tag(f'last {self.tag}')}"

    @cached_property
    def user(self) -> str:
        """The user's message; it is written when it is needed, not where the answer is known."""
        return self.shown + self.end

    @cached_property
    def shown(self) -> str:
        """What of ``user`` is of the trace: its parts between their markers, and the ``aside``."""
        return _fill_in("trace.j2", nonce=self.tag, parts=self.parts) + self.aside

    @cached_property
    def end(self) -> str:
        """What stands at the end of ``user``: a reminder, and the rubric if it comes last."""
        closed = any(part.closed for part in self.parts)
        last = {"rubric_last": self.layout.rubric_last, "last_tag": self.last_tag}
        return _fill_in("end.j2", rubric=self.rubric, closed=closed, **last)

    @cached_property
    def aside(self) -> str:
        """What of ``shown`` is not the trace itself: the section of the observations, or ""."""
        if not self.observations.lines:
            return ""
        shown = self.observations.shown
        return _fill_in(self.observations.template, nonce=self.tag, lines=shown)


@lru_cache(maxsize=1)
def hash_prompts() -> str:
    """Return the hash of the prompt templates, by which a run says what it asked."""
    digest = hashlib.sha256()
    for name in _FILES:
        text = (find_resources("prompts") / name).read_bytes()
        digest.update(f"{name} {len(text)}\n".encode() + text)
    return digest.hexdigest()


@lru_cache(maxsize=1)
def hash_facts_template() -> str:
    """Return the hash of the template in which observations are shown."""
    return hashlib.sha256((find_resources("prompts") / _FACTS).read_bytes()).hexdigest()


def render_json_request(schema: str) -> tuple[str, str]:
    """Return what follows the system's message where the form of an answer is told and not set, the
    JSON schema, and a reminder of it, which comes before the last line of the user's.
    """
    return _fill_in("json.j2", schema=schema), _fill_in("json_end.j2")


def render_retry(reasons: Iterable[str], *, quotes: bool) -> str:
    """Return the message after an answer that was not accepted; ``quotes``: only for its quotes.

    The reasons show passages of the trace and of the answer: they stand between markers whose tag
    is their hash, which none of them can hold.
    """
    lines = [sanitize_line(reason, _LONGEST_REASON) for reason in reasons]
    content = "\n".join(lines).encode(errors="surrogatepass")
    key = hashlib.sha256(f"reasons {hash_prompts()}".encode()).digest()
    tag = hashlib.blake2b(content, key=key, digest_size=16).hexdigest()
    return _fill_in("reask.j2", nonce=tag, reasons=lines, quotes=quotes)


def render_probe() -> str:
    """Return the message that finds out in which form an endpoint answers."""
    return _fill_in("probe.j2")


def _fill_in(name: str, **values: object) -> str:
    # A trace of a program may hold half characters, which no request can.
    return replace_surrogates(_environment().get_template(name).render(values))


def render(
    trace: Trace,
    rubric: Rubric,
    most: int | None = None,
    observations: Observations = NO_OBSERVATIONS,
    layout: Layout = Layout(),
) -> Prompt:
    """Return the prompt that judges ``trace`` by ``rubric``.

    The trace is complete in it, or, where its part of the prompt would be longer than ``most``
    characters, as much of it as fits (``truncate_parts``). ``most`` counts what stands
    between the markers of the trace: not the ``observations``, which are shown in full, nor what
    the layout puts after it.

    The markers around the trace carry a tag, the keyed hash of the templates, the rubric and the
    trace. Judging the same trace again gives the same tag (answers can be cached), and a trace
    cannot contain its own: it would have to contain the hash of a text with that hash in it.

    Raises:
        UnreadableTrace: the rubric needs the agents' steps and they cannot be read.
    """
    shown, missing = _fit_parts(list(split_trace(trace, rubric)), most)
    return _assemble(shown, rubric, missing, layout, observations)


def render_windows(
    trace: Trace,
    rubric: Rubric,
    most: int,
    layout: Layout = Layout(),
) -> list[Prompt]:
    """Return prompts that together show the whole conversation, each in at most ``most``
    characters, counted as in :func:`render`.

    Each shows the facts, a stretch of the conversation that overlaps with the next, and, in at most
    half of the room, as much of the rest of the trace as fits. One prompt if the trace fits.

    Raises:
        UnreadableTrace: as :func:`render`.
    """
    parts = list(split_trace(trace, rubric))
    room = most - _frame()
    talk = [part for part in parts if part.kind == "messages"]
    others = [part for part in parts if part.kind != "messages"]
    if sum(part.size for part in parts) <= room:
        return [_assemble(parts, rubric, {}, layout)]
    # The longest header of a message, and a mark, have room beside the rest.
    least = max((part.cut(0).size for part in talk), default=0)
    rest_room = min(sum(part.size for part in others), room // 2, room - _NOTE - least)
    rest, missing = truncate_parts(others, rest_room)
    gone = len(others) - len(rest)
    talk_room = room - sum(part.size for part in rest) - _NOTE
    talk = [part.cut_to(talk_room) for part in talk]
    stretches = split_windows(talk, talk_room)
    prompts = []
    for n, stretch in enumerate(stretches, 1):
        shown = [talk[at] for at in stretch]
        note = f"window {n} of {len(stretches)}: {shown[0].id} to {shown[-1].id} of {len(talk)}"
        parts = _add_note([*rest, *shown], note + _describe_missing(gone))
        cut = {part.id: part.left_out for part in shown if part.left_out}
        prompts.append(_assemble(parts, rubric, missing | cut, layout))
    return prompts or [render(trace, rubric, most, layout=layout)]


def render_confirmation(
    trace: Trace, rubric: Rubric, claims: Sequence[Claim], most: int | None, layout: Layout
) -> Prompt:
    """Return the prompt that decides about claims that were made from parts of a trace.

    It shows the whole trace; where there is no room for all of it, first the outcome in at most a
    quarter of the room, the quoted passages with what surrounds them and the messages that are
    related to them (``mark_priorities``), then the patches in at most half of what is
    left, and the rest.

    Raises:
        UnreadableTrace: as :func:`render`.
    """
    evidence = [item for claim in claims for item in claim.evidence]
    passages = [(item.source, item.start, item.end) for item in evidence]
    codes = [rubric.code(claim.code) for claim in claims]
    absences = {code.shows_absence for code in codes if code.shows_absence}
    parts = mark_priorities(list(split_trace(trace, rubric)), passages, absences)
    shown, missing = _fit_parts(parts, most, AROUND_QUOTES)
    proposals = Observations(tuple(map(_describe_claim, claims)), template="confirm.j2")
    return _assemble(shown, rubric, missing, layout, proposals)


def _describe_claim(claim: Claim) -> str:
    passages = ((escape_header(item.source), item.quote) for item in claim.evidence)
    quotes = "; ".join(f'{source} "{quote}"' for source, quote in passages)
    return sanitize_line(f"{claim.code}: {quotes}", _LONGEST_CLAIM)


def limit_claims(claims: Sequence[Claim], most: int) -> Sequence[Claim]:
    """Return the claims that are told in ``most`` characters, and the first in any case."""
    sizes = list(accumulate(len(_describe_claim(claim)) for claim in claims))
    return claims[: max(bisect_right(sizes, most), 1)]


def _fit_parts(
    parts: list[PromptPart], most: int | None, shares: Mapping[str, float] = IN_ORDER
) -> tuple[list[PromptPart], Mapping[str, int]]:
    if most is None or sum(part.size for part in parts) <= most - _frame():
        return parts, {}
    kept, missing = truncate_parts(parts, most - _frame() - _NOTE, shares)
    return _add_note(kept, _describe_missing(len(parts) - len(kept))), missing


def _assemble(
    parts: list[PromptPart],
    rubric: Rubric,
    missing: Mapping[str, int],
    layout: Layout,
    observations: Observations = NO_OBSERVATIONS,
) -> Prompt:
    tag = _tag(parts, rubric, layout, observations)
    return Prompt(rubric, tag, tuple(parts), missing, observations, layout)


def _tag(
    parts: Sequence[PromptPart], rubric: Rubric, layout: Layout, observations: Observations
) -> str:
    templates = f"{hash_prompts()} {layout}"
    pieces = [piece for part in parts for piece in part.pieces]
    texts = [*(part.header for part in parts), *(text for text, _ in pieces)]
    # With the sizes no two lists of texts give the same bytes.
    sizes = [*map(len, texts), *(left_out for _, left_out in pieces)]
    if lines := observations.lines:
        templates += hash_facts_template() + observations.template
        sizes += [len(line) for line in lines] + [len(lines), observations.more]
        texts += lines
    key = hashlib.sha256(f"{templates} {rubric.sha256}".encode()).digest()
    content = "\n".join([str(sizes), *texts]).encode(errors="surrogatepass")
    return hashlib.blake2b(content, key=key, digest_size=16).hexdigest()


def _describe_missing(parts: int) -> str:
    return f"\nnot shown, for want of room: {parts} parts" if parts else ""


def _add_note(parts: list[PromptPart], note: str) -> list[PromptPart]:
    """Return the parts with a note in the facts, which come first."""
    return [
        replace(part, text=f"{part.text}\n{note.strip()}")
        if part.kind == "facts" and note
        else part
        for part in parts
    ]


@lru_cache(maxsize=1)
def _frame() -> int:
    """Return the characters that stand around the parts of a trace."""
    return len(_fill_in("trace.j2", nonce="0" * 32, parts=()))


@lru_cache(maxsize=1)
def _environment() -> Environment:
    # The output is a prompt, not HTML; a trace is a value in it and never a template.
    return Environment(  # noqa: S701
        loader=FileSystemLoader(find_resources("prompts")),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        auto_reload=False,  # a look at the file at every call
    )


@lru_cache(maxsize=16)
def _system(rubric: Rubric, layout: Layout) -> str:
    return _fill_in(
        "system.j2",
        rubric=rubric,
        first_tag=_first_tag(rubric, layout),
        considered=layout.considered,
        rubric_last=layout.rubric_last,
        worked=_work_example(rubric, layout),
    )


def _first_tag(rubric: Rubric, layout: Layout) -> str:
    return f"first-{_spell_tag(f'first {hash_prompts()} {rubric.sha256} {layout}')}"


def _spell_tag(text: str) -> str:
    """Return six digits that follow from a text; small models miscopy letters and words."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return f"{int.from_bytes(digest) % 1_000_000:06}"


def _work_example(rubric: Rubric, layout: Layout) -> str:
    """Return an answer in full, made of the first example that has as many quotes as its code
    needs and tells where they come from; "" if there is none.
    """
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
    """Return the quotes of a code's example, each with a source, if they tell where they are from:
    a line with a sign is of a patch, and any other of the one origin that is left.
    """
    sources = {"messages": "message:{}", "patches": "patch:agent1", "outcome": "outcome"}
    placed = []
    for n, quote in enumerate(code.example.quotes if code.example else ()):
        place = code.places[n] if n < len(code.places) else code.must_quote or rubric.quote_from
        rest = [origin for origin in place if origin != "patches"]
        signed = quote.startswith(("+", "-")) and "patches" in place
        if not signed and len(rest) != 1:
            return []
        source = sources.get("patches" if signed else rest[0], "step:agent1:{}")
        placed.append({"source": source.format(3 * n + 1), "text": quote})
    return placed
