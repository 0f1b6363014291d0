"""A judge's :class:`Verdict`, and the :class:`Annotation` that a run records."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from annotator.base.errors import AnnotatorError
from annotator.base.files import explain_unreadable, open_checked, read_bounded_lines
from annotator.base.remote import name_place
from annotator.base.text import describe_validation, replace_surrogates

Status = Literal["labelled", "none", "undecided", "skipped", "failed"]
STATUSES: tuple[Status, ...] = ("labelled", "none", "undecided", "skipped", "failed")
JUDGED: tuple[Status, ...] = ("labelled", "none")
"""The statuses of a judgement that counts."""
ANSWERED: tuple[Status, ...] = (*JUDGED, "undecided")
"""The statuses of a trace with an answer of the judge."""
AUTHORS_UNKNOWN = "authors unknown: see annotate traces"
ALL_REJECTED = "all findings were rejected"
"""The reason of an undecided trace without an accepted finding."""
SURPLUS = "the rubric allows one code"
"""Begins the reason of a verified finding that is not counted."""
_QUOTE = r'quote ".*": '
_REJECTIONS = {
    "quotes not in the trace": _QUOTE + "not found in ",
    "quotes in the wrong place or by the wrong author": (
        rf"{_QUOTE}found in |{_QUOTE}.* is text that the rubric does not accept|: quotes needed: "
    ),
    "too few separate quotes": rf" separate passages needed|{_QUOTE}the same passage as ",
    "code given twice": ": given twice",
}  # a rejected finding counts for the first kind that its reason has
FailureKind = Literal[
    "server", "tags", "form", "length", "refusal", "quotes", "unreadable", "other"
]
"""Why a trace could not be judged.

``server``: no answer, or an error. ``tags``: the answer does not repeat the tags of the prompt.
``form``: the answer is malformed. ``length``: the prompt or the answer is too long. ``refusal``: by
the model or a filter. ``quotes``: all findings were rejected, and the trace is undecided.
``unreadable``: the trace cannot be read.
"""
Require = Literal["majority", "unanimous", "any"]
"""How many of several votes a code needs: more than half, all, or one."""
Match = Literal["exact", "typography", "moved"]
Decision = Literal["upheld", "not supported", "another code"]
DECISIONS: tuple[Decision, ...] = get_args(Decision)
"""The answers of a critic about a finding."""


@dataclass(frozen=True, slots=True)
class Quote:
    """A quote as a judge gives it: its text, and the id of the source it names."""

    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """A verified quote: ``source_text[start:end] == quote``, offsets in characters.

    ``match``: ``exact`` if the judge gave these very characters; ``typography`` if its text differs
    in white space, case, quotation marks, dashes, emphasis, escapes or punctuation at the ends;
    ``moved`` if it gave these very characters and named a wrong source: ``source`` is the only one
    that has them.
    """

    quote: str
    source: str
    start: int
    end: int
    match: Match


@dataclass(frozen=True, slots=True)
class Claim:
    """A finding of a judge before its quotes are checked.

    ``evidence``: the places of the quotes, one each, if the judge has verified them; they are
    compared with the trace instead of searched again.
    """

    code: str
    rationale: str
    quotes: tuple[Quote, ...]
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class Critique:
    """A critic's decision about a finding, with its reason. ``code``: the other code it names."""

    decision: Decision
    reason: str
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, calls and cost of judging. ``cost_usd`` is None if the price is unknown.

    ``cached_tokens``: input that the provider had in its cache; ``cache_write_tokens``: input that
    it put there. ``reasoning_tokens``: output that is not in the answer. ``retries``: calls that
    repeat one after an error or a wrong answer. ``unreported_calls`` ended without an answer (a
    timeout, say) or without its tokens, so that tokens and cost are "at least". ``cache_hits``:
    answers from this machine's own cache, without a call or a cost.
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
        """Return the usage from its recorded fields (JSON values).

        Raises:
            ValueError, TypeError: a field is unknown or wrong.
        """
        if unknown := fields.keys() - cls.__dataclass_fields__.keys():
            raise ValueError(f"{min(unknown)!r} is not known")
        usage: Usage = _adapter(Usage).validate_json(json.dumps({**fields}), strict=True)
        usage.check()
        return usage

    def check(self) -> None:
        """Raise ValueError for a number that is negative or not finite."""
        for name in self.__slots__:
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(f"{name}: expected a number from 0, found {value!r}")


@dataclass(frozen=True, slots=True)
class UsageRange:
    """The expected usage with short answers and with long ones."""

    low: Usage = Usage()
    high: Usage = Usage()

    def __add__(self, other: "UsageRange") -> "UsageRange":
        return UsageRange(self.low + other.low, self.high + other.high)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's answer on one trace and rubric.

    Without claims, ``undecided`` and ``error``, the judge says that nothing applies.

    Attributes:
        primary: the main code, if the judge names one.
        undecided: why the trace has neither a code nor none if no claim is accepted.
        left_open: why nothing is decided even if claims are accepted: the judge has not seen
            enough.
        error: why it could not judge; ``failure`` is the kind.
        truncated: characters left out of each source that it did not read in full.
        read: the share that it read of what it should have, in [0, 1].
        ballots: the verdicts of several models or samples, of which a code needs ``require``. The
            judge then has no claims of its own.
        contradictions: a sentence for each contradiction of the judge about a code.
        critiques: a critic's decision about each code that would count.
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
    critiques: Mapping[str, Critique] = field(default_factory=dict)

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
    """The verdict of one of several voters: ``judge`` asked for the ``sample``-th time, from 1."""

    judge: str
    sample: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Finding:
    """A code with its evidence.

    ``votes``: how many of several voters found it with verified quotes; None with a single judge.
    The rationale and the evidence are the first voter's. If the rubric asks for attribution,
    ``agent`` and ``step`` are those of the first quoted message of an agent, the cause;
    ``shown_agent`` and ``shown_step`` those of the next quoted message after it, where the failure
    shows; ``steps`` is the number of messages of the trace. ``critique``: a critic's decision, if
    there was a critic.
    """

    code: str
    rationale: str
    evidence: tuple[Evidence, ...]
    votes: int | None = None
    agent: str | None = None
    step: int | None = None
    critique: Critique | None = None
    shown_agent: str | None = None
    shown_step: int | None = None
    steps: int | None = None

    @property
    def is_refuted(self) -> bool:
        """Whether a critic did not uphold it."""
        return self.critique is not None and self.critique.decision != "upheld"


@dataclass(frozen=True, slots=True)
class Rejected:
    """A claim that was not accepted, with the reason."""

    code: str
    reason: str
    quotes: tuple[str, ...]

    @property
    def kind(self) -> str | None:
        """The kind of the reason; None for a verified finding that is not counted."""
        if self.reason.startswith(SURPLUS):
            return None
        kinds = (kind for kind, text in _REJECTIONS.items() if re.search(text, self.reason))
        return next(kinds, "other reasons")


@dataclass(frozen=True, slots=True)
class Vote:
    """The result of one of several voters after the check of its quotes; as in Annotation."""

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
    """One line of ``annotations.jsonl``: the result of one judge on one trace by one rubric.

    Attributes:
        status: ``labelled``; ``none`` if judged without an accepted finding; ``undecided`` if
            judged without a countable result, even if it has findings; ``skipped`` if the rubric is
            not for the trace; ``failed`` if it could not be judged.
        reason: why it is undecided or skipped.
        error: why it failed; ``failure`` is the kind.
        truncated: characters left out of each source that the judge did not read in full.
        read: the share that it read of what it should have, in [0, 1].
        votes: the results of several voters.
        agreement: the share of the counted votes that agree with the annotation, in [0, 1]; None
            if a critic changed its codes.
        tie: codes (or ``none``) with the most votes but not elected, or with exactly half of them
            beside the elected one; they are not counted.
        contradictions: a sentence for each contradiction of the judge about a code, for example
            "met" without a finding. The findings count.
        refuted: verified findings that a critic did not uphold; they do not count.
    """

    # A line with NaN is no annotation: it could not be written again.
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
    refuted: tuple[Finding, ...] = ()

    def __post_init__(self) -> None:
        _check_share(self.read)

    @property
    def codes(self) -> tuple[str, ...]:
        """Every code found, the primary one first."""
        first = (self.primary,) if self.primary else ()
        return first + self.secondary

    @property
    def decisive(self) -> Finding | None:
        """The finding of the primary code, else the first finding."""
        of_primary = (finding for finding in self.findings if finding.code == self.primary)
        return next(of_primary, next(iter(self.findings), None))

    @property
    def unasked(self) -> bool:
        """Whether no judge was asked: the trace is skipped, or too few of its authors are known."""
        return self.status == "skipped" or AUTHORS_UNKNOWN in (self.reason or "")

    @property
    def unanimous(self) -> bool:
        """Whether there are votes that count, and they all say the same."""
        counted = [vote for vote in self.votes if vote.status in JUDGED]
        return len({(vote.primary, vote.codes) for vote in counted}) == 1

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: each code with its rationale and its quotes."""
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
        fields = _get_fields(self)
        if self.read == 1:
            del fields["read"]
        for name in ("contradictions", "refuted"):
            if not fields[name]:
                del fields[name]
        line = json.dumps(fields, default=_get_fields, ensure_ascii=False, allow_nan=False)
        return replace_surrogates(line)

    @classmethod
    def from_json(cls, line: str | bytes) -> "Annotation":
        """Return the annotation in one line of JSON. Unknown fields are ignored.

        Raises:
            ValueError: the line is no annotation; the message names the field.
        """
        from pydantic import ValidationError

        try:
            annotation: Annotation = _adapter(Annotation).validate_json(line)
            annotation.usage.check()
            json.dumps(dict(annotation.attributes), allow_nan=False)
        except ValidationError as error:
            reason = describe_validation(error, "line")
            raise ValueError(f"not an annotation: {reason}") from error
        except ValueError as error:  # NaN in its usage or attributes
            raise ValueError(f"not an annotation: {error}") from error
        return annotation


# Fields of a finding that a line has only if they are known.
_OPTIONAL = frozenset(("agent", "step", "critique", "shown_agent", "shown_step", "steps"))


def _get_fields(value: Any) -> Any:
    """Return the fields of a dataclass, uncopied (``asdict`` copies them deeply)."""
    if isinstance(value, Mapping):
        return dict(value)
    fields = {name: getattr(value, name) for name in value.__slots__}
    if isinstance(value, Finding):
        return {name: x for name, x in fields.items() if x is not None or name not in _OPTIONAL}
    return fields


def get_attribute(attributes: Mapping[str, Any], attribute: str) -> str:
    """Return an attribute of a trace as text; "-" if it has none."""
    value = attributes.get(attribute)
    if value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value)


@cache
def _adapter(kind: type) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def read_annotations(path: Path | str) -> Iterator[Annotation]:
    """Yield the annotations of a run directory or a file, as :func:`read_placed`."""
    return (annotation for _, annotation in read_placed(path))


def read_placed(path: Path | str) -> Iterator[tuple[str, Annotation]]:
    """Yield the place (file and line) and the annotation of each line of a run directory or file.

    A last line without an end, the trace of a killed run, is left out.

    Raises:
        AnnotatorError: the file is missing, or a line is no annotation.
    """
    file = find_annotations(path)
    name = name_place(file)
    with explain_unreadable(file), open_checked(file) as lines:
        for n, line in enumerate(read_bounded_lines(lines), 1):
            if not line.endswith(b"\n"):
                return
            try:
                yield f"{name}, line {n}", Annotation.from_json(line)
            except ValueError as error:
                raise AnnotatorError(f"{name}, line {n}: {error}") from error


def find_annotations(path: Path | str) -> Path:
    """Return the file of annotations in a run directory, or a path that is no folder itself."""
    path = Path(path)
    return path / "annotations.jsonl" if path.is_dir() else path
