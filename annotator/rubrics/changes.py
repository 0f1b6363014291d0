"""Changes of a rubric, a clause each, and rubrics derived by them."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import eq
from random import Random
from typing import Any, Literal, get_args

import yaml
from pydantic import ValidationError

from annotator.base.errors import RubricError
from annotator.base.text import replace_surrogates
from annotator.rubrics.model import Rubric

Field = Literal["definition", "evidence", "not", "near_miss", "example", "instructions"]
FIELDS: tuple[Field, ...] = get_args(Field)
MOST_QUOTES = 4  # of an example
_RULES = "CLOSE CALLS"  # the heading of added rules in the instructions


@dataclass(frozen=True, slots=True)
class ClauseChange:
    """A change of one clause of a rubric.

    ``definition``, ``evidence`` and ``not`` get a new ``text``. A ``near_miss`` is added and an
    ``example`` replaced: ``text`` says why, ``quotes`` are its quotes. ``instructions`` get
    ``text`` as one more rule; ``code`` is "" then.
    """

    code: str
    field: Field
    text: str
    quotes: tuple[str, ...] = ()

    @property
    def clause(self) -> str:
        """The name of the clause, such as ``C1a.not``."""
        return f"{self.code}.{self.field}" if self.code else self.field

    @property
    def is_added(self) -> bool:
        """Whether it adds a text and replaces none."""
        return self.field in ("near_miss", "instructions")


@dataclass(frozen=True, slots=True)
class Turn:
    """A clause on which the difference of a judge and a person on one trace turns."""

    trace_id: str
    clause: str
    because: str


@dataclass(frozen=True, slots=True)
class ProposedChange:
    """A change with a summary in a few words, and the traces whose differences it should settle."""

    change: ClauseChange
    summary: str
    trace_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A model's answer to differences of judge and people: their clauses, and changes."""

    turns: tuple[Turn, ...] = ()
    candidates: tuple[ProposedChange, ...] = ()


def derive_rubric(rubric: Rubric, changes: Sequence[ClauseChange]) -> Rubric:
    """Return the rubric with changes, of the next version; its hash is that of the file that
    :func:`dump_rubric` gives.

    Raises:
        RubricError: a change names a code that the rubric lacks, or leads to an invalid rubric.
    """
    fields = _get_fields(rubric)
    for change in changes:
        _apply(change, fields)
    return _build(rubric, fields)


def strip_examples(rubric: Rubric) -> Rubric:
    """Return the rubric without its examples and near misses, of the next version."""
    fields = _get_fields(rubric)
    for code in fields["codes"]:
        code.pop("example", None)
        code.pop("near_misses", None)
    return _build(rubric, fields)


def shuffle_codes(rubric: Rubric, seed: int) -> Rubric:
    """Return the rubric with its codes in a random order, each in another position, of the next
    version; their precedence stays. The rubric needs two codes.
    """
    fields, random = _get_fields(rubric), Random(seed)  # noqa: S311 - no secret
    order = [*fields["codes"]]
    while any(map(eq, fields["codes"], order)):
        random.shuffle(fields["codes"])
    return _build(rubric, fields)


def _build(rubric: Rubric, fields: dict[str, Any]) -> Rubric:
    fields["version"] = rubric.version + 1
    try:
        derived = Rubric.model_validate(fields)
    except ValidationError as error:
        problems = (f"{'.'.join(map(str, x['loc']))}: {x['msg']}" for x in error.errors())
        raise RubricError("; ".join(problems)) from error
    sha256 = hashlib.sha256(dump_rubric(derived).encode()).hexdigest()
    return derived.model_copy(update={"sha256": sha256})


def dump_rubric(rubric: Rubric) -> str:
    """Return a rubric as the text of a YAML file."""
    options: Any = {"sort_keys": False, "allow_unicode": True, "width": 100}
    return replace_surrogates(yaml.dump(_get_fields(rubric), Dumper=_Dumper, **options))


def _get_fields(rubric: Rubric) -> dict[str, Any]:
    # Those that the file has: an empty precedence says something else than a missing one.
    fields = rubric.model_dump(mode="json", by_alias=True, exclude_unset=True)
    fields.pop("sha256", None)
    return fields


def _apply(change: ClauseChange, fields: dict[str, Any]) -> None:
    if change.field == "instructions":
        fields["instructions"] = _add_rule(fields["instructions"], change.text)
        return
    code = next((code for code in fields["codes"] if code["id"] == change.code), None)
    if code is None:
        raise RubricError(f"there is no code {change.code!r}")
    example: Mapping[str, Any] = {"quotes": list(change.quotes), "why": change.text}
    if change.field == "near_miss":
        code["near_misses"] = [*code.get("near_misses", []), example]
    else:
        code[change.field] = example if change.field == "example" else change.text


def _add_rule(instructions: str, text: str) -> str:
    """Return instructions with one more rule below their heading for close calls."""
    rule = f"- {text.strip()}"
    head, heading, rest = instructions.partition(f"{_RULES}\n")
    if heading:
        return f"{head}{heading}{rule}\n{rest}"
    return f"{instructions.rstrip()}\n\n{_RULES}\n{rule}\n"


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, which people can read."""


def _write_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _write_text)
