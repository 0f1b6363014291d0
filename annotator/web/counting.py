# ruff: noqa: S608 - what stands in a statement are names of these modules' own; values are bound
"""What there is to choose from in an index, and how often."""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from annotator.text import storable
from annotator.web.filling import MOST_VALUES, PARTS, Filling, Kind

Counts = tuple[tuple[str, int], ...]
Part = tuple[str, str, Any]
"""A part of a filter: what it is about, as one of ``PARTS``, ``text`` or a column; its condition;
the value for it. No text of anybody's stands in the condition."""


@dataclass(frozen=True, slots=True)
class Facets:
    """How many annotations have each value, the most frequent value first, under all parts of a
    filter but the one about it. Values are texts; ``rejected`` has ``true`` and ``false``.

    ``omitted``: the attributes with more than :data:`MOST_VALUES` values, and with how many.
    ``unlisted``: how many attributes there are besides, too many to be counted.
    """

    run: Counts
    rubric: Counts
    status: Counts
    code: Counts
    agreement: Counts
    rejected: Counts
    attributes: Mapping[str, Counts]
    omitted: Counts
    unlisted: int

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self)


def count_facets(base: sqlite3.Connection, asked: Sequence[Part], filling: Filling) -> Facets:
    """Count the values of everything that can be chosen, under the parts of a filter but its own.

    Annotations of one kind are counted at once; what kinds do not tell (texts, attributes of many
    values) the base does.
    """
    with filling.showing:
        base.execute("select 1 from rows limit 1").fetchone()  # of this moment, from now on
        columns, unlisted = filling.columns, filling.progress.unlisted
    places = {part: n for n, part in enumerate((*PARTS, *columns.values()))}
    kinds = _kinds(base, [condition for condition in asked if condition[0] not in places], filling)
    many = filling.many.copy()  # whatever made one so later is no row that was seen above
    if any(condition[0] in many for condition in asked):
        told = places.keys() - many
        kinds = _kinds(
            base, [condition for condition in asked if condition[0] not in told], filling
        )
    wanted = [
        (places[part], _kind_value(value))
        for part, _, value in asked
        if part in places and part not in many
    ]
    counts = _tally(kinds, wanted, len(places))
    omitted: dict[str, int] = {}
    attributes: dict[str, Counts] = {}
    for name, column in columns.items():
        value_counts = counts[places[column]]
        if column in many:
            distinct, value_counts = _distinct(
                base, column, [condition for condition in asked if condition[0] != column]
            )
            if distinct > MOST_VALUES:
                omitted[name] = distinct
                continue
        attributes[name] = _sort(value_counts)
    return Facets(
        **{part: _sort(counts[places[part]]) for part in PARTS},
        attributes=attributes,
        omitted=_sort(omitted),
        unlisted=unlisted,
    )


def _kinds(
    base: sqlite3.Connection, parts: Sequence[Part], filling: Filling
) -> list[tuple[Kind, int]]:
    """Return the kinds of the annotations that some parts of a filter let through, with how many
    there are of each.
    """
    where, values = condition(parts)
    query = f"select kind, count(*) from rows where {where} group by kind"
    return [(filling.kinds[kind], n) for kind, n in base.execute(query, values)]


def condition(parts: Sequence[Part]) -> tuple[str, tuple[Any, ...]]:
    """Return the condition that all parts make, and the values for it."""
    values = (storable(part[2]) if isinstance(part[2], str) else part[2] for part in parts)
    return " and ".join(part[1] for part in parts) or "true", tuple(values)


def _kind_value(value: Any) -> str:
    """Return the value of a part as kinds have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _tally(
    kinds: Iterable[tuple[Kind, int]], wanted: Sequence[tuple[int, str]], size: int
) -> list[Counter[str]]:
    """Count the values at each place of the kinds, under what is wanted at all other places."""
    counts: list[Counter[str]] = [Counter() for _ in range(size)]
    for kind, n in kinds:
        missed = {
            place for place, value in wanted if place >= len(kind) or value not in kind[place]
        }
        if len(missed) > 1:
            continue
        for place in missed or range(size):  # a kind may be shorter, or longer by now
            for value in kind[place] if place < len(kind) else ():
                counts[place][value] += n
    return counts


def _distinct(
    base: sqlite3.Connection, column: str, parts: Sequence[Part]
) -> tuple[int, Counter[str]]:
    """Return how many values a column has in the rows that some parts let through, and how often
    each is there, unless they are too many.
    """
    where, values = condition(parts)
    what = f"from rows where {where} and {column} is not null"
    (distinct,) = base.execute(f"select count(distinct {column}) {what}", values).fetchone()
    if distinct > MOST_VALUES:
        return distinct, Counter()
    rows = base.execute(f"select {column}, count(*) {what} group by {column}", values)
    return distinct, Counter(dict(rows.fetchall()))


def _sort(counts: Mapping[str, int]) -> Counts:
    return tuple(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))
