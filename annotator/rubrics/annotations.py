"""What was decided: a judge's :class:`Verdict`, and the :class:`Annotation` that is recorded."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, ClassVar, Literal

from annotator.base.errors import AnnotatorError
from annotator.base.files import explain_unreadable, open_checked, read_bounded_lines
from annotator.base.remote import name_place
from annotator.base.text import replace_surrogates

Status = Literal["labelled", "none", "undecided", "skipped", "failed"]
STATUSES: tuple[Status, ...] = ("labelled", "none", "undecided", "skipped", "failed")
ALL_REJECTED = "all findings were rejected"
"""The reason of a trace that is undecided because no finding of the judge's stands."""
SURPLUS = "the rubric allows one code"
"""Begins the reason of a finding that stands in the trace and is not counted."""
FailureKind = Literal[
    "server", "tags", "form", "length", "refusal", "quotes", "unreadable", "other"
]
"""Why a trace could not be judged. ``server``: no answer, or an error. ``tags``: the answer does
not repeat the tags of the prompt. ``form``: the answer is malformed. ``length``: the prompt or the
answer is too long. ``refusal``: the model or a filter refuses. ``quotes``: no quote of the answer
is in the trace (the trace is undecided). ``unreadable``: the trace cannot be read.
"""
Require = Literal["majority", "unanimous", "any"]
"""How many of several votes a code needs: more than half, all, or one."""


Match = Literal["exact", "typography", "moved"]


@dataclass(frozen=True, slots=True)
class Quote:
    """A passage as a judge gives it: its text, and the id of the source it says it comes from."""

    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """A verified quote: ``source_text[start:end] == quote``, offsets in characters.

    ``match`` is ``exact`` if the judge gave these very characters, ``typography`` if its text
    differed in nothing but white space, case, quotation marks, dashes, emphasis, escapes or
    punctuation at the ends, and ``moved`` if it gave these very characters and named another
    source, in which they do not stand; ``source`` is the only one in which they do.
    """

    quote: str
    source: str
    start: int
    end: int
    match: Match


@dataclass(frozen=True, slots=True)
class Claim:
    """A finding as a judge makes it, before its quotes are checked.

    ``evidence`` are the places of its quotes, one for each, where the judge has had them found
    (``verify``): they are held against the trace and not looked for again.
    """

    code: str
    rationale: str
    quotes: tuple[Quote, ...]
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """What judging cost. ``cost_usd`` is None where the price is not known, never 0 for that.

    ``cached_tokens`` are those of the input that the provider had in its own cache,
    ``cache_write_tokens`` those that it put there (some charge more for them),
    ``reasoning_tokens`` those of the output that are not in the answer. ``retries`` are the calls
    that repeat one (after an error, or because the answer was wrong). ``unreported_calls`` ended
    without an answer (a timeout, a dropped connection): what the server charges for them, if
    anything, is not known, and the cost is "at least". ``cache_hits`` are answers that were already
    on this machine: no calls, and no cost.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    calls: int = 0
    retries: int = 0
    unreported_calls: int = 0
    cache_hits: int = 0
    cost_usd: float | None = 0.0
    seconds: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        priced = self.cost_usd is not None and other.cost_usd is not None
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.output_tokens + other.output_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.calls + other.calls,
            self.retries + other.retries,
            self.unreported_calls + other.unreported_calls,
            self.cache_hits + other.cache_hits,
            (self.cost_usd or 0.0) + (other.cost_usd or 0.0) if priced else None,
            self.seconds + other.seconds,
        )

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> "Usage":
        """Return the usage whose fields, JSON values, were recorded.

        Raises:
            ValueError, TypeError: they are not what this version of the tool writes.
        """
        given = {**fields}
        if unknown := given.keys() - cls.__dataclass_fields__.keys():
            raise ValueError(f"{min(unknown)!r} is not known")
        usage: Usage = _adapter(Usage).validate_json(json.dumps(given), strict=True)
        usage.check()
        return usage

    def check(self) -> None:
        """Raise ValueError where a number is none that can be counted."""
        for name in self.__slots__:
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(f"{name}: expected a number from 0, found {value!r}")


@dataclass(frozen=True, slots=True)
class UsageRange:
    """What judging is expected to use, with short answers and with long ones."""

    low: Usage = Usage()
    high: Usage = Usage()

    def __add__(self, other: "UsageRange") -> "UsageRange":
        return UsageRange(self.low + other.low, self.high + other.high)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's answer on one trace and rubric.

    No claims, no ``undecided`` and no ``error``: the judge says that nothing applies. With
    ``undecided``: where no claim is accepted, it has established neither a code nor none, and this
    sentence says why. With ``left_open``: what it claims cannot be known from what it was shown,
    as this sentence says, so that nothing is decided whatever is accepted. With ``error``: it could
    not judge, and the reason; ``failure`` is its kind. ``primary`` is the code it holds to be the
    main one, if it names one.
    ``truncated``: the sources that it did not read in full, with the characters left out; ``read``:
    the share that it read of all that it should have, in [0, 1]. ``contradictions``: where it
    contradicts itself about a code, a sentence each. A judge that asks several times or several
    models says nothing itself and gives their ``ballots``, and how many of them a code needs
    (``require``).
    """

    claims: tuple[Claim, ...] = ()
    primary: str | None = None
    usage: Usage = Usage()
    undecided: str | None = None
    left_open: str | None = None
    error: str | None = None
    failure: FailureKind | None = None
    truncated: Mapping[str, int] = field(default_factory=dict)
    read: float = 1.0
    ballots: tuple["Ballot", ...] = ()
    require: Require = "majority"
    contradictions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_share(self.read)

    @classmethod
    def none(cls) -> "Verdict":
        """Return the verdict that nothing applies."""
        return cls()


def _check_share(read: float) -> None:
    if not 0 <= read <= 1:
        raise ValueError(f"read: expected a share from 0 to 1, found {read!r}")


@dataclass(frozen=True, slots=True)
class Ballot:
    """What one of several voters says: ``judge`` asked for the ``sample``-th time, from 1."""

    judge: str
    sample: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Finding:
    """A code with the evidence it rests on.

    ``votes``: how many of several voters found it with verified quotes; None if there was one judge
    only. The rationale and the evidence are those of the first of them. ``agent`` and ``step``:
    who is responsible and where, by the first quoted message of an agent, if the rubric asks.
    """

    code: str
    rationale: str
    evidence: tuple[Evidence, ...]
    votes: int | None = None
    agent: str | None = None
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """A claim that was not accepted, and why."""

    code: str
    reason: str
    quotes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Vote:
    """What one of several voters found, after its quotes were checked; as in Annotation."""

    judge: str
    sample: int
    status: Status
    primary: str | None = None
    secondary: tuple[str, ...] = ()
    error: str | None = None
    reason: str | None = None

    @property
    def codes(self) -> frozenset[str]:
        """Every code found."""
        return frozenset((*((self.primary,) if self.primary else ()), *self.secondary))


@dataclass(frozen=True, slots=True)
class Annotation:
    """One line of ``annotations.jsonl``: what one judge found in one trace by one rubric.

    ``none`` is a judged trace without an accepted finding, ``undecided`` one that was judged
    without a result that can be counted, ``skipped`` one the rubric is not for (``reason`` says
    why, of both), ``failed`` one that could not be judged (``error`` says why). ``failure`` is the
    kind of what went wrong; lines of older versions have none. An undecided one
    may have findings, which stand in the trace and are not counted: it has no codes.
    ``truncated``: the sources that the judge did not read in full, with the characters left out;
    ``read``: the share that it read of all that it should have, in [0, 1]. Annotations from before
    there was one have 1 also where something is left out. ``contradictions``: where the judge
    contradicts itself about a code, for example says that it is met and gives no finding of it. The
    findings count.

    Where several voters were asked, ``votes`` holds what each said, ``agreement`` is the share of
    the votes counted that say what the annotation says, in [0, 1], and ``tie`` names what had
    the most of them without being elected, or beside what was elected exactly half of them (codes
    or ``none``), and therefore is not counted.
    """

    # A line with a number that is none (NaN) is no annotation: it could not be written again.
    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"allow_inf_nan": False}

    trace_id: str
    rubric: str
    rubric_sha256: str
    judge: str
    status: Status
    primary: str | None = None
    secondary: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    usage: Usage = Usage()
    reason: str | None = None
    error: str | None = None
    failure: FailureKind | None = None
    truncated: Mapping[str, int] = field(default_factory=dict)
    read: float = 1.0
    votes: tuple[Vote, ...] = ()
    agreement: float | None = None
    tie: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_share(self.read)

    @property
    def codes(self) -> tuple[str, ...]:
        """Every code found, the primary one first."""
        first = (self.primary,) if self.primary else ()
        return first + self.secondary

    @property
    def unanimous(self) -> bool:
        """Whether there are votes that count, and they all say the same."""
        counted = [vote for vote in self.votes if vote.status in ("labelled", "none")]
        return len({(vote.primary, vote.codes) for vote in counted}) == 1

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the codes, each with why and its quotes marked."""
        decision = ", ".join(self.codes) or self.reason or self.error or ""
        about = f"{self.rubric}: {self.status} {decision}"
        parts = [f"<p><b>{escape(self.trace_id)}</b> {escape(about)}</p>"]
        for finding in self.findings:
            quotes = "".join(
                f"<li><code>{escape(item.source)}</code> <mark>{escape(item.quote)}</mark></li>"
                for item in finding.evidence
            )
            parts.append(f"<p><b>{escape(finding.code)}</b>: {escape(finding.rationale)}</p>")
            parts.append(f"<ul>{quotes}</ul>")
        return "".join(parts)

    def to_json(self) -> str:
        """Return the annotation as one line of JSON, without the line end."""
        fields = _fields(self)
        if self.read == 1:  # as in annotations from before there was a share
            del fields["read"]
        if not self.contradictions:
            del fields["contradictions"]
        line = json.dumps(fields, default=_fields, ensure_ascii=False, allow_nan=False)
        return replace_surrogates(line)

    @classmethod
    def from_json(cls, line: str | bytes) -> "Annotation":
        """Return the annotation in one line of JSON. Unknown fields are ignored.

        Raises:
            ValueError: the line is no annotation; the message says what is missing or wrong.
        """
        from pydantic import ValidationError

        try:
            annotation: Annotation = _adapter(Annotation).validate_json(line)
            annotation.usage.check()
            json.dumps(dict(annotation.attributes), allow_nan=False)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise ValueError(f"not an annotation: {where or 'line'}: {first['msg']}") from error
        except ValueError as error:  # a number of its usage or attributes that is none
            raise ValueError(f"not an annotation: {error}") from error
        return annotation


def _fields(value: Any) -> Any:
    """Return the fields of a value of this module; ``asdict`` would copy all that is in them."""
    if isinstance(value, Mapping):
        return dict(value)
    unset = ("agent", "step") if isinstance(value, Finding) and value.agent is None else ()
    return {name: getattr(value, name) for name in value.__slots__ if name not in unset}


def get_attribute(attributes: Mapping[str, Any], attribute: str) -> str:
    """Return the value of one of a trace's attributes as text; "-" where it has none."""
    value = attributes.get(attribute)
    if value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value)


@cache
def _adapter(kind: type) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def read_annotations(path: Path | str) -> Iterator[Annotation]:
    """Yield the annotations as :func:`read_placed` does, without their places."""
    return (annotation for _, annotation in read_placed(path))


def read_placed(path: Path | str) -> Iterator[tuple[str, Annotation]]:
    """Yield the place (file and line) and the annotation of every line of a run directory or of
    one file, one in memory at a time.

    A last line without an end is what a killed run leaves; it is not an annotation yet and is left
    out.

    Raises:
        AnnotatorError: the file is missing, or a line is no annotation (with its number).
    """
    file = find_annotations(path)
    name = name_place(file)
    with explain_unreadable(file), open_checked(file) as lines:
        for n, _, annotation in parse_lines(read_bounded_lines(lines), file):
            yield f"{name}, line {n}", annotation


def find_annotations(path: Path | str) -> Path:
    """Return the file of annotations of a run directory; a path that is none is that file."""
    path = Path(path)
    return path / "annotations.jsonl" if path.is_dir() else path


def parse_lines(lines: Iterable[bytes], file: Path) -> Iterator[tuple[int, bytes, "Annotation"]]:
    """Yield the number, from 1, the bytes and the annotation of every line that has an end.

    Raises:
        AnnotatorError: a line is no annotation (with its number).
    """
    for n, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):
            return
        try:
            annotation = Annotation.from_json(line)
        except ValueError as error:
            raise AnnotatorError(f"{name_place(file)}, line {n}: {error}") from error
        yield n, line, annotation
