"""The values of annotations in memory, a column a part, to be filtered and counted."""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annotator.errors import AnnotatorError
from annotator.text import storable

PARTS = ("run", "rubric", "status", "agreement", "rejected", "code")
_ATTRIBUTE = "a."  # begins the column of an attribute
_MOST_ATTRIBUTES = 100  # that can be filtered by and are counted
_MOST_VALUES = 200  # of an attribute that are counted
Counts = tuple[tuple[str, int], ...]
Mask = NDArray[np.bool_]
Value = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Filter:
    """The annotations that a page asks for; None and empty: any.

    ``run`` is the number of a run, from 0; ``code`` a code of the annotation or ``none``, which is
    a judged trace without a finding; ``rejected`` whether it has rejected findings; ``attributes``
    names and values, these as :func:`annotator.annotations.value_of` writes them. ``text`` is
    looked for in the trace's id, in quotes, accepted and rejected, and in rationales, in any case.
    """

    run: int | None = None
    rubric: str | None = None
    status: str | None = None
    code: str | None = None
    rejected: bool | None = None
    agreement: str | None = None
    attributes: tuple[tuple[str, str], ...] = ()
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Facets:
    """How many annotations have each value, the most frequent value first, under all parts of a
    filter but the one about it. Values are texts; ``rejected`` has ``true`` and ``false``.

    ``omitted``: the attributes with more than 200 values, and with how many.
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


class IndexColumn:
    """A value in each row: a text, or several, such as the codes. Equal ones are in memory once."""

    def __init__(self, length: int = 0) -> None:
        self._numbers: dict[Value, int] = {(): 0}  # of the different values
        self._rows = array("i", bytes(4 * length))

    def add(self, value: Value) -> None:
        """Add a row; () is no value."""
        self._rows.append(self._numbers.setdefault(value, len(self._numbers)))

    def mask(self, text: str) -> Mask:
        """Return for each row whether a text is its value or among its values."""
        return np.array([text in _texts(value) for value in self._numbers], bool)[self._array()]

    def distinct(self, mask: Mask) -> int:
        """Return how many different values the rows of a mask have."""
        return int(np.count_nonzero(self._sizes(mask)[1:]))

    def count(self, mask: Mask) -> dict[str, int]:
        """Return how many rows of a mask have each text."""
        counts: Counter[str] = Counter()
        for value, rows in zip(self._numbers, self._sizes(mask).tolist(), strict=True):
            if rows:
                for text in _texts(value):
                    counts[text] += rows
        return counts

    def _sizes(self, mask: Mask) -> NDArray[np.intp]:
        return np.bincount(self._array()[mask], minlength=len(self._numbers))

    def _array(self) -> NDArray[np.int32]:
        return np.array(self._rows)  # a view of it would keep a row from being added


def _texts(value: Value) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value


class IndexColumns:
    """The rows of an index: their columns, and the text of each."""

    def __init__(self) -> None:
        self._columns = {part: IndexColumn() for part in PARTS}
        self._texts: list[bytes] = []  # UTF-8 takes the least memory
        self._unlisted: set[int] = set()

    def add(self, parts: Mapping[str, Value], attributes: Mapping[str, str], text: str) -> None:
        """Add a row: its values in :data:`PARTS`, its attributes, and its text."""
        values: dict[str, Value] = {**parts}
        for name, value in attributes.items():
            column = f"{_ATTRIBUTE}{name}"
            if column not in self._columns:
                if len(self._columns) == len(PARTS) + _MOST_ATTRIBUTES:
                    self._unlisted.add(hash(name))
                    continue
                self._columns[column] = IndexColumn(len(self._texts))
            values[column] = value
        for name, rows in self._columns.items():
            rows.add(values.get(name, ()))
        self._texts.append(text.casefold().encode())

    def select(self, filter: Filter) -> NDArray[np.intp]:
        """Return the rows that a filter lets through, from 0.

        Raises:
            AnnotatorError: the filter has an attribute beyond those that are listed.
        """
        return np.flatnonzero(self._all(mask for _, mask in self._masks(filter)))

    def count(self, filter: Filter) -> Facets:
        """Count the values of every column. Raises as :meth:`select`."""
        masks = list(self._masks(filter))
        parts: dict[str, Counts] = {}
        attributes: dict[str, Counts] = {}
        omitted: dict[str, int] = {}
        for name, column in self._columns.items():
            mask = self._all(mask for other, mask in masks if other != name)
            attribute = name.removeprefix(_ATTRIBUTE)
            if name in PARTS:
                parts[name] = _sort(column.count(mask))
            elif (distinct := column.distinct(mask)) > _MOST_VALUES:
                omitted[attribute] = distinct
            else:
                attributes[attribute] = _sort(column.count(mask))
        unlisted = len(self._unlisted)
        return Facets(**parts, attributes=attributes, omitted=_sort(omitted), unlisted=unlisted)

    def _masks(self, filter: Filter) -> Iterator[tuple[str, Mask]]:
        """Yield the parts of a filter: the column, and for each row whether it lets it through."""
        if filter.text:
            text = storable(filter.text.casefold()).encode()
            yield "text", np.array([text in row for row in self._texts], bool)
        wanted = [
            *((part, getattr(filter, part)) for part in PARTS),
            *((f"{_ATTRIBUTE}{name}", value) for name, value in filter.attributes),
        ]
        for name, value in wanted:
            if value is None:
                continue
            if name not in self._columns and self._unlisted:
                raise AnnotatorError(
                    f"there are too many attributes: {_MOST_ATTRIBUTES} of them can be filtered by"
                )
            column = self._columns.get(name, IndexColumn(len(self._texts)))
            yield name, column.mask(str(value).lower() if isinstance(value, bool) else str(value))

    def _all(self, masks: Iterable[Mask]) -> Mask:
        """Return for each row whether all masks let it through."""
        every = np.ones(len(self._texts), bool)
        for mask in masks:
            every &= mask
        return every


def _sort(counts: Mapping[str, int]) -> Counts:
    return tuple(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))
