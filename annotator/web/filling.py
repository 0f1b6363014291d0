"""Reads annotations into the index, checked as they are for a table."""

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from annotator.annotations import Annotation, read_lines, value_of
from annotator.errors import AnnotatorError
from annotator.labels import Label
from annotator.regular import explain_unreadable, lines_of, open_regular
from annotator.rubrics import NONE, Scheme
from annotator.runs.run import Check, Run
from annotator.web.base import Base, explain_full

_FIRST, _BATCH = 100, 2_000  # annotations written at once: a page soon, then many
_FIXED = 11  # columns that are no attributes
_TURN = 100  # annotations between two looks at who waits
MOST_ATTRIBUTES = 100  # that can be filtered by and are counted
MOST_VALUES = 200  # of an attribute that are counted beforehand


PARTS = ("run", "rubric", "status", "agreement", "rejected", "code")  # that are counted
Kind = tuple[tuple[str, ...], ...]
"""What many annotations have in common, so that they are counted together: the values of each of
:data:`PARTS`, then of the attributes in the order of the columns; none where there is no value, and
of an attribute that has too many. A kind is shorter if attributes were seen after it."""


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file of annotations as it was at the start: ``size`` bytes of an open file."""

    path: Path
    descriptor: int
    size: int


@dataclass(frozen=True, slots=True)
class OpenRun:
    """The annotations of a run: its file, or those of its shards as if they were one."""

    run: Run
    files: tuple[OpenFile, ...]

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(file.size for file in self.files)

    def read(self, offset: int, size: int, hash_: int) -> Annotation:
        """Return the annotation that begins at a byte of the files together.

        Raises:
            AnnotatorError: it cannot be read any more, or is another one by now.
        """
        for file in self.files:
            if offset < file.size:
                break
            offset -= file.size
        with explain_unreadable(file.path):
            line = os.pread(file.descriptor, size, offset)
        if hash(line) != hash_:
            raise AnnotatorError(f"{file.path}: changed since it was read; start again")
        return Annotation.from_json(line)


@dataclass(frozen=True, slots=True)
class FillState:
    """How many annotations can be asked for, and how many ``bytes`` of all were ``read``.

    ``error`` is what stopped the reading, with its file and line; then ``done`` holds, too.
    ``unlisted``: how many attributes there are beyond those that can be filtered by.
    """

    annotations: int
    read: int
    bytes: int
    done: bool = False
    error: str | None = None
    unlisted: int = 0


def open_runs(runs: Sequence[Run], opened: ExitStack) -> list[OpenRun]:
    """Open the annotations of runs, to be closed with ``opened``.

    The files stay open because a resumed run is written anew: the old lines are read to the end.

    Raises:
        AnnotatorError: the annotations of one cannot be opened.
    """
    if any(run.folder is None for run in runs):
        raise AnnotatorError("a run in memory has no pages: save it first")
    return [OpenRun(run, tuple(_open(path, opened) for path in run.files)) for run in runs]


def _open(path: Path, opened: ExitStack) -> OpenFile:
    with explain_unreadable(path), open_regular(path) as file:
        descriptor = os.dup(file.fileno())
        opened.callback(os.close, descriptor)
        return OpenFile(path, descriptor, os.fstat(descriptor).st_size)


def join_searched(annotation: Annotation) -> str:
    """Return what of an annotation is searched: its trace's id, quotes and rationales."""
    pieces = [annotation.trace_id]
    for finding in annotation.findings:
        pieces += [finding.rationale, *(quote.quote for quote in finding.evidence)]
    for rejected in annotation.rejected:
        pieces += rejected.quotes
    return "\n".join(pieces)


class Filling:
    """Fills the base with the annotations of runs, in their order.

    ``columns`` are the columns of the attributes seen so far, by the attributes' names; ``many``
    those with more than :data:`MOST_VALUES` values. ``kinds`` are the kinds of annotations by their
    number in the base.
    """

    def __init__(
        self, base: Base, runs: Sequence[OpenRun], labels: Mapping[str, Mapping[str, Label]]
    ) -> None:
        self.progress = FillState(0, 0, sum(run.size for run in runs))
        self.showing = threading.Lock()  # held while rows and what is told of them change together
        self.columns: Mapping[str, str] = {}
        self.many: set[str] = set()
        self.kinds: list[Kind] = []
        self._base = base
        self._runs = runs
        self._labels = labels
        self._names: dict[str, str] = {}
        self._values: dict[str, dict[tuple[str, ...], tuple[str, ...]]] = {}
        self._kinds: dict[Kind, int] = {}
        self._unlisted: set[int] = set()
        self._stopped = threading.Event()
        self._number = self._bytes = 0
        self._rows: list[tuple[tuple[Any, ...], dict[str, str]]] = []
        self._codes: list[tuple[str, int]] = []
        self._texts: list[tuple[int, str]] = []

    def stop(self) -> None:
        """Let :meth:`run` end soon."""
        self._stopped.set()

    def run(self) -> None:
        """Read all runs; what goes wrong is told in ``progress``, after what was read before."""
        error = None
        try:
            try:
                for n, run in enumerate(self._runs):
                    self._read(n, run)
            finally:
                self._write()
        except (AnnotatorError, OSError) as problem:
            error = str(problem)
        except sqlite3.Error as problem:
            error = explain_full(problem)
        except BaseException:
            error = "the annotations were not read to the end"
            raise
        finally:
            self.progress = replace(self.progress, done=True, error=error)

    def _read(self, n: int, run: OpenRun) -> None:
        check = Check(run.run)
        begin = 0
        for opened in run.files:
            offset = begin
            with os.fdopen(os.dup(opened.descriptor), "rb") as file:
                for line, data, annotation in _lines(file, opened):
                    rubric = check.hold(annotation, f"{opened.path}, line {line}")
                    self._add(n, annotation, rubric, offset, data)
                    offset += len(data)
                    if len(self._rows) >= (_BATCH if self.progress.annotations else _FIRST):
                        self._write()
                    if line % _TURN == 0:
                        self._base.give_way()
                        if self._stopped.is_set():
                            return
            begin += opened.size
        check.end()

    def _add(
        self, n: int, annotation: Annotation, rubric: Scheme, offset: int, line: bytes
    ) -> None:
        self._number += 1
        self._bytes += len(line)
        values = {
            self._column(name): value_of(annotation.attributes, name)
            for name, value in annotation.attributes.items()
            if value is not None
        }
        agreement, rejected = self._agreement(annotation, rubric), len(annotation.rejected)
        codes = tuple(dict.fromkeys(annotation.codes)) or (
            (NONE,) if annotation.status == "none" else ()
        )
        kind = (
            (str(n),),
            (rubric.id,),
            (annotation.status,),
            (agreement,) if agreement else (),
            ("true" if rejected else "false",),
            codes,
            *(self._counted(column, values) for column in self._names.values()),
        )
        row = (
            self._number,
            n,
            annotation.trace_id,
            rubric.id,
            annotation.status,
            rejected,
            agreement,
        )
        self._rows.append(((*row, offset, len(line), hash(line), self._kind(kind)), values))
        self._codes += ((code, self._number) for code in codes)
        self._texts.append((self._number, join_searched(annotation).casefold()))

    def _kind(self, kind: Kind) -> int:
        if kind not in self._kinds:
            self._kinds[kind] = len(self.kinds)
            self.kinds.append(kind)
        return self._kinds[kind]

    def _counted(self, column: str, values: Mapping[str, str]) -> tuple[str, ...]:
        """Return the value in a column, one object for all that are equal; () if there is none, or
        too many are known.
        """
        interned = self._values[column]
        if column not in values or column in self.many:
            return ()
        value = (values[column],)
        if len(interned) == MOST_VALUES and value not in interned:
            self.many.add(column)
            interned.clear()
            return ()
        return interned.setdefault(value, value)

    def _agreement(self, annotation: Annotation, rubric: Scheme) -> str | None:
        if annotation.status not in ("labelled", "none"):
            return None
        label = self._labels.get(annotation.rubric, {}).get(annotation.trace_id)
        if label is None:
            return "unlabelled"
        same = set(rubric.labels_of(annotation)) == set(rubric.labels_of(label))
        return "agrees" if same else "differs"

    def _column(self, name: str) -> str:
        """Return the column of an attribute; "" for one too many."""
        if name in self._names:
            return self._names[name]
        if len(self._names) == MOST_ATTRIBUTES:
            self._unlisted.add(hash(name))
            return ""
        column = self._names[name] = f"a{len(self._names)}"
        self._values[column] = {}
        return column

    def _write(self) -> None:
        """Write what was read since the last time, and show it."""
        base, columns = self._base.writer, list(self._names.values())
        rows = [(*row, *map(values.get, columns)) for row, values in self._rows]
        base.execute("begin")
        try:
            for column in columns[len(self.columns) :]:
                base.execute(f"alter table rows add column {column} text")
            marks = ", ".join("?" * (_FIXED + len(columns)))
            base.executemany(f"insert into rows values ({marks})", rows)  # noqa: S608
            base.executemany("insert into codes values (?, ?)", self._codes)
            base.executemany("insert into texts values (?, ?)", self._texts)
            with self.showing:
                base.execute("commit")
                self.columns = dict(self._names)
                self.progress = replace(
                    self.progress,
                    annotations=self._number,
                    read=self._bytes,
                    unlisted=len(self._unlisted),
                )
        except sqlite3.Error:
            base.rollback()
            raise
        self._rows, self._codes, self._texts = [], [], []


def _lines(file: BinaryIO, opened: OpenFile) -> Iterator[tuple[int, bytes, Annotation]]:
    with explain_unreadable(opened.path):
        yield from read_lines(_until(lines_of(file), opened.size), opened.path)


def _until(lines: Iterable[bytes], size: int) -> Iterable[bytes]:
    """Yield the lines that begin within the first ``size`` bytes."""
    read = 0
    for line in lines:
        if read >= size:
            return
        read += len(line)
        yield line
