"""The conditions of a study: each trace's value, from its id, an attribute or a table."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from pydantic import BaseModel, ConfigDict

from annotator.base.errors import AnnotatorError
from annotator.base.files import explain_unreadable, read_bounded
from annotator.base.text import (
    find_encoding_problem,
    find_repeated,
    list_first,
    unescape_formula,
)
from annotator.labels.sheets import parse_table
from annotator.rubrics.annotations import get_attribute

RESERVED = ("run", "judge", "trace_id")  # names that have a meaning of their own
_FORMS = "expected NAME=REGEX, NAME=ATTRIBUTE:REGEX or a table FILE.csv"
_ATTRIBUTE = re.compile(r"([A-Za-z_][\w.-]*):(.*)", re.DOTALL)
_LISTED = 3  # traces that a notice names


class Condition(BaseModel):
    """A condition, such as the arm of a study. It adds an attribute to traces.

    Attributes:
        name: the attribute.
        pattern: a regular expression; its group is the value. None: ``values`` has them.
        attribute: the attribute that ``pattern`` searches. None: it searches the trace id.
        values: the values by trace id, from ``file``.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str
    pattern: str | None = None
    attribute: str | None = None
    values: Mapping[str, str] = {}
    file: str | None = None

    def __str__(self) -> str:
        if self.pattern is None:
            return f"{self.file or 'by'}, column {self.name}"
        source = f"{self.attribute}:" if self.attribute else ""
        return f"--group {self.name}={source}{self.pattern}"

    def find(self, trace_id: str, attributes: Mapping[str, Any]) -> str | None:
        """Return the value of a trace, None if it has none."""
        if self.pattern is None:
            return self.values.get(trace_id)
        if self.attribute and attributes.get(self.attribute) is None:
            return None
        text = get_attribute(attributes, self.attribute) if self.attribute else trace_id
        expression, group = _compile(self.name, self.pattern)
        match = expression.search(text)
        return (match[group] or None) if match else None


@cache
def _compile(name: str, pattern: str) -> tuple[re.Pattern[str], str | int]:
    """Return a regular expression and the group that has the value."""
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise AnnotatorError(f"--group {name}={pattern}: not a regular expression: {error}") from (
            error
        )
    if name in expression.groupindex:
        return expression, name
    if expression.groups > 1:
        raise AnnotatorError(
            f"--group {name}={pattern}: {expression.groups} groups, and none is named {name}:"
            f" write (?P<{name}>...) for the value, and (?:...) for the others"
        )
    return expression, expression.groups  # the only group, or the whole match


@dataclass(frozen=True, slots=True)
class ConditionSource:
    """The conditions of one ``--group``. ``places``: file and line of each trace in a table;
    ``notice``: how it is read, if its encoding is guessed.
    """

    conditions: tuple[Condition, ...]
    places: Mapping[str, str]
    notice: str = ""


def read_conditions(groups: str | Path | Sequence[str | Path]) -> tuple[ConditionSource, ...]:
    """Return the conditions in ``NAME=REGEX``, ``NAME=ATTRIBUTE:REGEX`` and tables ``FILE.csv``.

    Raises:
        AnnotatorError: a text has another form, its expression is wrong, or a table cannot be read.
    """
    several = [groups] if isinstance(groups, (str, Path)) else groups
    return tuple(_read_source(str(group)) for group in several)


def _read_source(text: str) -> ConditionSource:
    name, equals, pattern = text.partition("=")
    if text.lower().endswith(".csv") and (not equals or Path(text).exists()):
        return _read_table(text)
    if not (name.strip() and pattern):
        raise AnnotatorError(f"--group {text}: {_FORMS}")
    check_name(name.strip(), f"--group {text}")
    fields = {"name": name.strip(), "pattern": pattern}
    if match := _ATTRIBUTE.fullmatch(pattern):
        fields |= {"attribute": match[1], "pattern": match[2]}
    condition = Condition.model_validate(fields)
    _compile(condition.name, fields["pattern"])
    return ConditionSource((condition,), {})


def check_name(name: str, where: str) -> None:
    """Raise :class:`AnnotatorError` if a condition cannot have this name."""
    if name in RESERVED:
        raise AnnotatorError(f"{where}: {name} has a meaning of its own: choose another name")


def _read_table(file: str) -> ConditionSource:
    """Return the conditions in a table: a column ``trace_id``, and a column for each condition."""

    def refuse(line: int, problem: str) -> NoReturn:
        raise AnnotatorError(f"{file}, line {line}: {problem}")

    with explain_unreadable(file):
        table = parse_table(read_bounded(file), file)
    rows: list[tuple[int, list[str]]] = []
    for row in table.lines:
        if isinstance(row, str):
            raise AnnotatorError(row)
        line, cells = row
        if problem := find_encoding_problem(cells):
            refuse(line, problem)
        rows.append((line, [unescape_formula(cell.strip()) for cell in cells]))
    start, header = table.start, [unescape_formula(name) for name in table.columns]
    names = [name for name in header if name != "trace_id"]
    if "trace_id" not in header or not names or "" in names:
        columns = ", ".join(header) or "nothing"
        expected = "expected a column trace_id and a column for each condition"
        refuse(start, f"{expected}, found {columns}")
    for name in find_repeated(header):
        refuse(start, f"two columns {name}")
    for name in names:
        check_name(name, f"{file}, line {start}")
    lines: dict[str, int] = {}
    values: dict[str, dict[str, str]] = {name: {} for name in names}
    for line, cells in rows:
        if len(cells) != len(header):
            refuse(line, f"{len(cells)} cells, the header has {len(header)}")
        record = dict(zip(header, cells, strict=True))
        trace_id = record.pop("trace_id")
        if not trace_id:
            refuse(line, "no trace_id")
        if trace_id in lines:
            refuse(line, f"{trace_id} is in line {lines[trace_id]}, too")
        lines[trace_id] = line
        for name, value in record.items():
            if value:
                values[name][trace_id] = value
    conditions = [Condition(name=name, values=values[name], file=file) for name in names]
    places = {trace_id: f"{file}, line {line}" for trace_id, line in lines.items()}
    return ConditionSource(tuple(conditions), places, table.notice)


def join_conditions(
    conditions: Iterable[Condition], trace_id: str, attributes: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the attributes of a trace with its conditions."""
    joined = dict(attributes)
    for condition in conditions:
        value = condition.find(trace_id, attributes)
        before = get_attribute(joined, condition.name)
        if value is None or value == before:
            continue
        if joined.get(condition.name) is not None:
            raise AnnotatorError(
                f"{condition}: {trace_id} would have {condition.name} = {value}, and has"
                f" {condition.name} = {before} already: choose another name"
            )
        joined[condition.name] = value
    return joined


def check_conditions(
    sources: Sequence[ConditionSource],
    traces: Iterable[tuple[str, Mapping[str, Any]]],
    *,
    partial: bool = False,
) -> Iterator[str]:
    """Yield notices: how many traces have no condition, and which rows of a table have no trace.

    Args:
        sources: the conditions.
        traces: the id and the attributes of each trace.
        partial: other traces may match: a table or an expression may have no trace here.
    """
    conditions = [condition for source in sources for condition in source.conditions]
    ids: dict[str, None] = {}
    missing: dict[str, dict[str, None]] = {condition.name: {} for condition in conditions}
    unmatched, attributes_seen = set(range(len(conditions))), set[str]()
    for trace_id, attributes in traces:
        ids[trace_id] = None
        attributes_seen.update(attributes)
        joined = join_conditions(conditions, trace_id, attributes)
        unmatched -= {n for n in unmatched if conditions[n].find(trace_id, attributes) is not None}
        for name, without in missing.items():
            if joined.get(name) is None:
                without[trace_id] = None
    for n in sorted(unmatched) if ids and not partial else ():
        raise AnnotatorError(_explain_unmatched(conditions[n], next(iter(ids)), attributes_seen))
    for name, without in missing.items():
        if without:
            yield describe_missing(name, list(without), len(ids), "traces")
    for source in sources:
        if source.notice:
            yield source.notice
        unknown = [line for trace_id, line in source.places.items() if trace_id not in ids]
        if unknown and not partial:
            yield f"{list_first(unknown, _LISTED, '; ')}: no such trace here"


def describe_missing(name: str, ids: Sequence[str], total: int, of: str) -> str:
    """Return how many of the traces have no value of a condition, and which."""
    have = "has" if len(ids) == 1 else "have"
    return f"{len(ids)} of {total} {of} {have} no {name}: {list_first(ids, _LISTED)}."


def _explain_unmatched(condition: Condition, trace_id: str, attributes: set[str]) -> str:
    if condition.attribute and condition.attribute not in attributes:
        name = condition.attribute
        return (
            f"{condition}: no trace has the attribute {name}, only"
            f" {', '.join(sorted(attributes)) or 'none at all'}; if {name}: is part of the trace"
            f" ids, write {condition.name}=^{name}:..."
        )
    if condition.pattern is None:
        example = next(iter(condition.values), None)
        has = f"it has {example}, " if example else "the column is empty; "
        return f"{condition}: no trace has a value: {has}the traces have ids such as {trace_id}"
    return f"{condition}: no trace matches; their ids are like {trace_id}"
