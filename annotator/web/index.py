# ruff: noqa: S608 - what stands in a statement are names of this module's own; values are bound
"""The annotations of some runs in one place, to be listed, filtered and counted."""

import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Literal

from annotator.annotations import Annotation
from annotator.errors import AnnotatorError
from annotator.labels import Label
from annotator.rubrics import NONE
from annotator.runs.run import Run
from annotator.text import storable
from annotator.web.base import Base
from annotator.web.counting import Facets, Part, condition, count_facets
from annotator.web.filling import (
    Filling,
    FillState,
    join_searched,
    open_runs,
)

Agreement = Literal["agrees", "differs", "unlabelled"]
_SPOT = "number, agreement, run, offset, size, hash"


@dataclass(frozen=True, slots=True)
class Filter:
    """Which annotations are wanted; None and empty: any.

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
class IndexRow:
    """One annotation in a list. ``number`` counts from 1 over all runs, in the order of the files.

    ``findings`` and ``rejected`` count them. ``agreement`` holds it against the person's label, and
    is None where nothing was judged (skipped, failed); ``human`` are the codes of that label,
    ``none`` if the person found none, and None if there is no label.
    """

    number: int
    run: int
    trace_id: str
    rubric: str
    status: str
    primary: str | None
    secondary: tuple[str, ...]
    findings: int
    rejected: int
    agreement: Agreement | None
    human: tuple[str, ...] | None
    attributes: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows, and how many there are in all."""

    total: int
    rows: tuple[IndexRow, ...]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The rows of other traces before and after a row, its place among all, from 1, and how many
    there are.
    """

    previous: IndexRow | None
    next: IndexRow | None
    position: int
    total: int

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self)


class Index:
    """The annotations of runs, read in the background from the moment this is made.

    What was read so far can be asked for by any thread. The runs are read as they are at the start:
    what is appended later is not seen. ``labels``: people's, by rubric and trace. The index is a
    temporary file of about a third of the size of the annotations; :meth:`close` removes it.

    Raises:
        AnnotatorError: there is no run, or there is no room for the index.
    """

    def __init__(
        self, runs: Sequence[Run], labels: Mapping[str, Mapping[str, Label]] | None = None
    ) -> None:
        self._labels = labels or {}
        with ExitStack() as opened:
            self._runs = open_runs(runs, opened)
            self._base = opened.enter_context(Base())
            self._filling = Filling(self._base, self._runs, self._labels)
            self._opened = opened.pop_all()
        self._facets = lru_cache(64)(self._counted)
        self._thread = threading.Thread(target=self._filling.run, name="index", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop reading and remove the index; nothing can be asked any more."""
        self._filling.stop()
        self._thread.join()
        self._opened.close()

    def __enter__(self) -> "Index":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def progress(self) -> FillState:
        """How much was read."""
        return self._filling.progress

    def wait(self) -> None:
        """Wait until all is read.

        Raises:
            AnnotatorError: a run is damaged; what stands before that can still be asked for.
        """
        self._thread.join()
        if self.progress.error:
            raise AnnotatorError(self.progress.error)

    def rows(self, filter: Filter, offset: int, limit: int) -> Page:
        """Return ``limit`` annotations that a filter lets through, from the ``offset``-th (0 for
        the first), and how many there are so far.

        Raises:
            AnnotatorError: as all that is asked here: the index or a run's file cannot be read.
        """
        where, values = condition(self._parts(filter))
        with self._base.reading() as base:
            (total,) = base.execute(f"select count(*) from rows where {where}", values).fetchone()
            rows = base.execute(
                f"select {_SPOT} from rows where {where} order by number limit ? offset ?",
                (*values, max(limit, 0), offset),
            ).fetchall()
        return Page(total, tuple(self._row(*row) for row in rows))

    def facets(self, filter: Filter) -> Facets:
        """Return the values to choose from, with counts; kept until more is read."""
        return self._facets(filter, self.progress.annotations)

    def neighbours(self, number: int, filter: Filter) -> Neighbours | None:
        """Return what lies around a row among those that a filter lets through, None if that one is
        not among them.
        """
        where, values = condition(self._parts(filter))
        with self._base.reading() as base:
            current = base.execute(
                f"select trace from rows where number = ? and {where}", (number, *values)
            ).fetchone()
            if current is None:
                return None
            near = [
                base.execute(
                    f"select {_SPOT} from rows where {where} and number {side} ? and trace != ?"
                    f" order by number {order} limit 1",
                    (*values, number, current[0]),
                ).fetchone()
                for side, order in (("<", "desc"), (">", "asc"))
            ]
            total, position = base.execute(
                f"select count(*), sum(number <= ?) from rows where {where}", (number, *values)
            ).fetchone()
        previous, following = (self._row(*row) if row else None for row in near)
        return Neighbours(previous, following, position, total)

    def annotations(self, trace_id: str) -> list[tuple[int, Annotation]]:
        """Return all annotations of a trace, each with the number of its run, from 0."""
        with self._base.reading() as base:
            rows = base.execute(
                f"select {_SPOT} from rows where trace = ? order by number", (storable(trace_id),)
            ).fetchall()
        return [(row[2], self._annotation(*row[2:])) for row in rows]

    def first(self, trace_id: str) -> int | None:
        """Return the number of a trace's first row, None if there is none so far."""
        with self._base.reading() as base:
            number: int | None = base.execute(
                "select min(number) from rows where trace = ?", (storable(trace_id),)
            ).fetchone()[0]
        return number

    def text(self, number: int) -> str:
        """Return the text of a row that a filter's ``text`` is looked for in; "" if there is no
        such row.
        """
        with self._base.reading() as base:
            spot = base.execute(f"select {_SPOT} from rows where number = ?", (number,)).fetchone()
        return join_searched(self._annotation(*spot[2:])) if spot else ""

    def traces(self, number: int, limit: int) -> list[tuple[int, str]]:
        """Return some traces, each once, in the order of the rows: the first row of each, from
        row ``number`` on, and its id.
        """
        with self._base.reading() as base:
            texts: list[tuple[int, str]] = base.execute(
                "select number, trace from rows as one where number >= ? and not exists (select 1"
                " from rows where trace = one.trace and number < one.number)"
                " order by number limit ?",
                (number, limit),
            ).fetchall()
        return texts

    def _annotation(self, run: int, *place: int) -> Annotation:
        return self._runs[run].read(*place)

    def _row(self, number: int, agreement: Agreement | None, run: int, *place: int) -> IndexRow:
        annotation = self._annotation(run, *place)
        label = self._labels.get(annotation.rubric, {}).get(annotation.trace_id)
        return IndexRow(
            number,
            run,
            annotation.trace_id,
            annotation.rubric,
            annotation.status,
            annotation.primary,
            annotation.secondary,
            len(annotation.findings),
            len(annotation.rejected),
            agreement,
            (label.codes or (NONE,)) if label else None,
            annotation.attributes,
        )

    def _parts(self, filter: Filter) -> list[Part]:
        """Return the parts of a filter: what each is about, as one of ``PARTS``, ``text`` or a
        column, its condition, and the value for it. No text of anybody's is in the condition.
        """
        codes = "number in (select number from codes where code = ?)"
        texts = "exists (select 1 from texts where number = rows.number and instr(folded, ?))"
        parts = [
            ("run", "run = ?", filter.run),
            ("rubric", "rubric = ?", filter.rubric),
            ("status", "status = ?", filter.status),
            ("agreement", "agreement = ?", filter.agreement),
            ("rejected", "(rejected > 0) = ?", filter.rejected),
            ("code", codes, filter.code),
            ("text", texts, (filter.text or "").casefold() or None),
        ]
        columns = self._filling.columns
        for name, value in filter.attributes:
            column = columns.get(name, "null")
            if column == "null" and self.progress.unlisted:
                raise AnnotatorError(
                    f"there are too many attributes: {len(columns)} of them can be filtered by"
                )
            parts.append((column, f"{column} = ?", value))
        return [part for part in parts if part[2] is not None]

    def _counted(self, filter: Filter, _: int) -> Facets:
        asked = self._parts(filter)
        with self._base.reading() as base:
            return count_facets(base, asked, self._filling)
