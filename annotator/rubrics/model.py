"""Rubrics: codes, their rules, and the quotes that a finding needs."""

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import Annotated, Literal, Protocol

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from annotator.base.text import format_count, suggest
from annotator.rubrics.annotations import AUTHORS_UNKNOWN
from annotator.traces import Origin, Trace

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=20_000)]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
NONE = "none"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Example(_Strict):
    """An invented case of a code."""

    quotes: Annotated[tuple[Text, ...], Field(min_length=1, max_length=8)]
    why: Text


_AUTHORS = {"same": "the same agent", "different": "different agents"}
Origins = Annotated[tuple[Origin, ...], Field(min_length=1)]


class Code(_Strict):
    """One code of a rubric.

    ``not_`` (in YAML: ``not``) lists near misses. ``must_quote``: at least one quote has to come
    from one of these origins. ``min_quotes`` overrides the rubric's.

    ``places``: each entry needs a quote of its own from one of its origins. ``authors``: the quotes
    in the places are all by the ``same`` agent, or by ``different`` ones. ``separate_messages``: no
    two of them are from one message. ``shows_absence``: the code says that something is missing
    from the conversation, ``after`` the first quoted message or ``anywhere``, so that a part of the
    conversation does not prove it. ``repeats``: a trace may have several findings of it, each with
    quotes of its own.
    """

    id: Name
    name: Text
    group: Text | None = None
    definition: Text
    evidence: Text
    not_: Text | None = Field(default=None, alias="not")
    must_quote: tuple[Origin, ...] = ()
    min_quotes: Annotated[int, Field(ge=1, le=8)] | None = None
    places: Annotated[tuple[Origins, ...], Field(max_length=4)] = ()
    authors: Literal["same", "different"] | None = None
    separate_messages: bool = False
    shows_absence: Literal["after", "anywhere"] | None = None
    repeats: bool = False
    example: Example | None = None
    near_misses: Annotated[tuple[Example, ...], Field(max_length=4)] = ()


class AppliesTo(_Strict):
    """The traces a rubric is for. An unknown outcome never excludes a trace."""

    passed: bool | None = None
    min_agents: Annotated[int, Field(ge=1, le=100)] = 1


Choice = Literal["one", "primary", "many"]

TracePart = Literal["messages", "patches", "outcome", "tasks"]
PARTS: tuple[TracePart, ...] = ("messages", "patches", "outcome", "tasks")
"""The parts of a trace in a prompt, unless a rubric chooses some."""

# Tools write messages too. Steps are in a prompt whenever they can be quoted.
_PART_OF: Mapping[Origin, TracePart] = {
    "messages": "messages",
    "tools": "messages",
    "patches": "patches",
    "outcome": "outcome",
}


class HasCodes(Protocol):
    """A decision about a trace: a judge's annotation, or a person's label."""

    @property
    def primary(self) -> str | None:
        """The main code, if there is one."""

    @property
    def codes(self) -> tuple[str, ...]:
        """Every code, the primary one first."""


class SchemeCode(BaseModel):
    """A code of a :class:`Scheme`. ``judged``: the judge can find it; ``screen``: it cannot rule it
    out.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    name: str = ""
    group: str | None = None
    judged: bool
    screen: bool = False


class HasGroup(Protocol):
    """A code that may be in a group."""

    @property
    def id(self) -> str:
        """The code's id."""

    @property
    def group(self) -> str | None:
        """The name of its group."""


def group_codes(codes: Iterable[HasGroup]) -> dict[str, tuple[str, ...]]:
    """Return the codes of each group; {} for fewer than two groups, or groups of one code each."""
    groups: dict[str, tuple[str, ...]] = {}
    for code in codes:
        if code.group:
            groups[code.group] = (*groups.get(code.group, ()), code.id)
    if len(groups) < 2 or all(len(ids) == 1 for ids in groups.values()):
        return {}
    return groups


def name_group(name: str) -> str:
    """Return the label of a group; its blank tells it from a code's id."""
    return f"{name} (group)"


class Scheme(BaseModel):
    """A rubric without its texts, and the codes that a judge can find, as ``run.json`` records it.

    ``sha256`` is empty if the version of the rubric is unknown; ``file`` if it is built in.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    version: int
    sha256: str
    title: str = ""
    choice: Choice
    applies_to: AppliesTo = AppliesTo()
    codes: tuple[SchemeCode, ...]
    file: str = ""

    def __hash__(self) -> int:
        return hash((self.id, self.version, self.sha256))

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The codes' ids, in the rubric's order."""
        return tuple(code.id for code in self.codes)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Every label of a trace: the codes and ``none``."""
        return (*self.ids, NONE)

    @cached_property
    def judged(self) -> frozenset[str]:
        """The codes that the judge can find."""
        return frozenset(code.id for code in self.codes if code.judged)

    @cached_property
    def screens(self) -> frozenset[str]:
        """The codes that the judge cannot rule out."""
        return frozenset(code.id for code in self.codes if code.screen)

    @cached_property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """The codes of each group, as :func:`group_codes`."""
        return group_codes(self.codes)

    def for_people(self) -> "Scheme":
        """Return the same scheme for people, who can find and rule out every code."""
        codes = [code.model_copy(update={"judged": True, "screen": False}) for code in self.codes]
        return Scheme.model_validate(self.model_dump() | {"codes": codes})

    def groups_of(self, labels: Collection[str]) -> tuple[str, ...]:
        """Return the labels of the groups with any of these labels."""
        return tuple(
            name_group(name) for name, codes in self.groups.items() if set(labels) & set(codes)
        )

    @property
    def only_screens(self) -> bool:
        """Whether the judge can rule out no code, so that it never answers ``none``."""
        return bool(self.judged) and self.judged <= self.screens

    @property
    def screened(self) -> frozenset[str]:
        """The labels without a share as long as traces are undecided.

        For a screening judge all of them, since its undecided traces are no random sample; for any
        other the codes that it cannot find.
        """
        return frozenset(self.labels if self.screens else set(self.ids) - self.judged)

    def labels_of(self, decision: HasCodes) -> tuple[str, ...]:
        """Return the counted labels of a trace: all codes if the rubric allows many, else the
        primary one; ``none`` without a code.
        """
        if self.choice == "many":
            return decision.codes or (NONE,)
        return (decision.primary or NONE,)


class Rubric(_Strict):
    """A taxonomy with its rules.

    ``choice``: ``one`` code at most, a ``primary`` code with any number of secondary ones, or
    ``many`` codes. ``quote_from``: the origins that quotes may come from. ``show``: the parts of a
    trace in a prompt; agents' steps are added if they can be quoted. ``precedence``: code ids,
    strongest first; an empty list is no order. ``attribution``: a finding also names the agent and
    the step of its first quoted message. ``file``: its path, "" if it is built in.
    """

    id: Name
    version: Annotated[int, Field(ge=1)]
    title: Text
    source: Text
    applies_to: AppliesTo = AppliesTo()
    choice: Choice
    min_quotes: Annotated[int, Field(ge=1, le=8)] = 2
    quote_from: Annotated[tuple[Origin, ...], Field(min_length=1)] = (
        "messages",
        "patches",
        "outcome",
    )
    show: Annotated[tuple[TracePart, ...], Field(min_length=1)] = PARTS
    attribution: bool = False
    instructions: Text
    codes: Annotated[tuple[Code, ...], Field(min_length=1, max_length=100)]
    precedence: tuple[Name, ...] = ()
    sha256: str = Field(default="", exclude=True)
    file: str = Field(default="", exclude=True)

    @model_validator(mode="after")
    def _consistent(self) -> "Rubric":
        ids = [code.id for code in self.codes]
        twice = sorted({code for code in ids if ids.count(code) > 1})
        if twice:
            raise ValueError(f"codes: {', '.join(twice)} defined twice")
        if NONE in (code.lower() for code in ids):
            raise ValueError(f"codes: {NONE!r} is the answer for no finding, not a code")
        unknown = [code for code in self.precedence if code not in ids]
        if unknown:
            raise ValueError(f"precedence: unknown code {unknown[0]!r}{suggest(unknown[0], ids)}")
        if len(set(self.precedence)) < len(self.precedence):
            raise ValueError("precedence: a code stands in it twice")
        missing = [code for code in ids if code not in self.precedence]
        unordered = "precedence" in self.model_fields_set and not self.precedence
        if self.choice != "many" and missing and not unordered:
            raise ValueError(f"precedence: {missing[0]!r} is missing; list every code")
        for origin in self.quote_from:
            if (trace_part := _PART_OF.get(origin)) and trace_part not in self.show:
                raise ValueError(
                    f"quote_from: {origin!r} is not in show: a judge cannot quote a hidden part"
                )
        for code in self.codes:
            needed = {"must_quote": code.must_quote, "places": sum(code.places, start=())}
            for field, origins in needed.items():
                stray = [origin for origin in origins if origin not in self.quote_from]
                if stray:
                    raise ValueError(f"codes.{code.id}.{field}: {stray[0]!r} is not in quote_from")
            if len(code.places) < 2 and (code.authors or code.separate_messages):
                raise ValueError(f"codes.{code.id}: authors and separate_messages need two places")
        return self

    def __hash__(self) -> int:
        return hash((self.id, self.version, self.sha256))  # pydantic's walks through all texts

    def code(self, code_id: str) -> Code:
        """Return the code named ``code_id``. Raises KeyError if there is none."""
        for code in self.codes:
            if code.id == code_id:
                return code
        raise KeyError(code_id)

    @property
    def repeats(self) -> bool:
        """Whether a trace may have several findings of a code."""
        return any(code.repeats for code in self.codes)

    def quotes_needed(self, code_id: str) -> int:
        """Return how many separate quotes a finding of this code must have."""
        code = self.code(code_id)
        return max(code.min_quotes or self.min_quotes, len(code.places))

    def describe_quotes(self, code_id: str) -> str:
        """Return in words which quotes a finding of this code must have."""
        code = self.code(code_id)
        phrases = [f"at least {self.quotes_needed(code_id)}"]
        if code.must_quote:
            phrases.append(f"one of them from the {' or '.join(code.must_quote)}")
        if code.places:
            places = [f"from the {' or '.join(origins)}" for origins in code.places]
            phrases.append("one " + " and another ".join(places))
        if code.authors:
            phrases.append(f"by {_AUTHORS[code.authors]}")
        if code.separate_messages:
            only_messages = all(set(origins) == {"messages"} for origins in code.places)
            phrases.append(
                "from different messages" if only_messages else "no two from the same message"
            )
        return ", ".join(phrases)

    def rank(self, code_id: str) -> int:
        """Return the code's index in the precedence, or in the file if there is no precedence."""
        order = self.precedence or tuple(code.id for code in self.codes)
        return order.index(code_id) if code_id in order else len(order)

    def scheme(
        self, judged: Collection[str] | None = None, screens: Collection[str] = ()
    ) -> Scheme:
        """Return the scheme of the rubric. ``judged``: the codes that a judge can find, None for
        all; ``screens``: those that it cannot rule out.
        """
        return Scheme(
            id=self.id,
            version=self.version,
            sha256=self.sha256,
            file=self.file,
            title=self.title,
            choice=self.choice,
            applies_to=AppliesTo(**self.applies_to.model_dump()),  # recorded in full
            codes=tuple(
                SchemeCode(
                    id=code.id,
                    name=code.name,
                    group=code.group,
                    judged=judged is None or code.id in judged,
                    screen=code.id in screens,
                )
                for code in self.codes
            ),
        )

    def excludes(self, trace: Trace, *, any_outcome: bool = False) -> str | None:
        """Return why the rubric is not for this trace, or None if it is.

        ``any_outcome`` ignores whether the run passed, as an unknown outcome does. Unknown authors
        may be agents, as many as the rubric needs.
        """
        required, passed = self.applies_to.passed, trace.outcome.passed
        if not any_outcome and None not in (required, passed) and passed != required:
            return "the run passed" if passed else "the run failed"
        if len(trace.agents) < self.applies_to.min_agents and not trace.has_unknown_authors:
            return self._count_agents(trace)
        return None

    def leaves_open(self, trace: Trace) -> str | None:
        """Return why no judge can decide about a trace with unknown authors, else None.

        The rubric needs more agents than are known, but for one; or it accepts no quote of a text
        by an unknown author, and no agent is known.
        """
        if len(trace.agents) >= self.applies_to.min_agents or not trace.has_unknown_authors:
            return None
        if self.applies_to.min_agents > 1:
            return f"{self._count_agents(trace)} ({AUTHORS_UNKNOWN})"
        if "tools" not in self.quote_from:
            return f"no agent is known, the rubric quotes only agents ({AUTHORS_UNKNOWN})"
        return None

    def _count_agents(self, trace: Trace) -> str:
        agents = format_count(len(trace.agents), "agent")
        return f"{agents}, the rubric needs {self.applies_to.min_agents}"
