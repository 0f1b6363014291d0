"""The annotations of some runs in one place, to be listed, filtered and counted."""

import os
import threading
from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np

from annotator.annotations import Annotation, read_lines, value_of
from annotator.errors import AnnotatorError
from annotator.labels import Label
from annotator.regular import explain_unreadable, lines_of, open_regular
from annotator.rubrics import NONE, Scheme
from annotator.runs.run import Check, Run
from annotator.web.columns import Facets, Filter, IndexColumns, Value

Agreement = Literal["agrees", "differs", "unlabelled"]


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


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """How many annotations can be asked for, and how many ``bytes`` of all were ``read``.

    ``error`` is what stopped the reading, with its file and line; then ``done`` holds, too.
    """

    annotations: int
    read: int
    bytes: int
    done: bool
    error: str | None


@dataclass(frozen=True, slots=True)
class _AnnotationFile:
    """An open file of annotations; ``run`` is the number of its run."""

    run: int
    path: Path
    file: BinaryIO


class Index:
    """The annotations of runs, read in the background from the moment this is made.

    Any thread can ask for what was read so far. ``labels``: people's, by rubric and trace. In
    memory are the values to filter by and where each line stands; a row is read from its file when
    it is asked for. The files stay open because a resumed run is written anew.

    Raises:
        AnnotatorError: a run is in memory, or its annotations cannot be opened.
    """

    def __init__(
        self, runs: Sequence[Run], labels: Mapping[str, Mapping[str, Label]] | None = None
    ) -> None:
        if any(run.folder is None for run in runs):
            raise AnnotatorError("a run in memory has no pages: save it first")
        self._runs = runs
        self._labels = labels or {}
        with ExitStack() as opened:
            self._files = [
                _AnnotationFile(number, path, opened.enter_context(_open(path)))
                for number, run in enumerate(runs)
                for path in run.files
            ]
            self._opened = opened.pop_all()
        self._size = sum(os.fstat(opened.file.fileno()).st_size for opened in self._files)
        self._lock = threading.Lock()  # held while a row is added, and while a question is answered
        self._columns = IndexColumns()
        self._places = array("q")  # of each row: its file, where it begins there, its size, a hash
        self._traces = array("i")  # of each row: the number of its trace
        self._numbers: dict[str, int] = {}
        self._ids: list[str] = []
        self._firsts = array("q")  # of each trace: its first row
        self._bytes = 0
        self._done = self._stopped = False
        self._error: str | None = None
        self._thread = threading.Thread(target=self._read, name="index", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop reading and close the files; nothing can be asked any more."""
        self._stopped = True
        self._thread.join()
        self._opened.close()

    def __enter__(self) -> "Index":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def progress(self) -> IndexProgress:
        """How much was read."""
        done, error = self._done, self._error
        with self._lock:
            return IndexProgress(len(self._traces), self._bytes, self._size, done, error)

    def wait(self) -> None:
        """Wait until all is read.

        Raises:
            AnnotatorError: a run is damaged; what stands before that can still be asked for.
        """
        self._thread.join()
        if self._error:
            raise AnnotatorError(self._error)

    def rows(self, filter: Filter, offset: int, limit: int) -> Page:
        """Return ``limit`` annotations that a filter lets through, from the ``offset``-th (0 for
        the first), and how many there are so far.

        Raises:
            AnnotatorError: as all that is asked here: a run's file cannot be read.
        """
        with self._lock:
            rows = self._columns.select(filter)
            page = rows[offset : offset + max(limit, 0)].tolist()
            return Page(len(rows), tuple(map(self._row, page)))

    def facets(self, filter: Filter) -> Facets:
        """Return the values to choose from, with counts."""
        with self._lock:
            return self._columns.count(filter)

    def neighbours(self, number: int, filter: Filter) -> Neighbours | None:
        """Return what lies around a row among those that a filter lets through, None if that one is
        not among them.
        """
        row = number - 1
        with self._lock:
            rows = self._columns.select(filter)
            place = int(np.searchsorted(rows, row))
            if row not in rows[place : place + 1]:
                return None
            traces = np.array(self._traces)
            others = rows[traces[rows] != traces[row]]
            before, after = others[others < row].tolist(), others[others > row].tolist()
            return Neighbours(
                self._row(before[-1]) if before else None,
                self._row(after[0]) if after else None,
                place + 1,
                len(rows),
            )

    def annotations(self, trace_id: str) -> list[tuple[int, Annotation]]:
        """Return all annotations of a trace, each with the number of its run, from 0."""
        with self._lock:
            number = self._numbers.get(trace_id, -1)
            rows = np.flatnonzero(np.array(self._traces) == number)
            return [self._annotation(row) for row in rows.tolist()]

    def first(self, trace_id: str) -> int | None:
        """Return the number of a trace's first row, None if there is none so far."""
        with self._lock:
            number = self._numbers.get(trace_id)
            return None if number is None else self._firsts[number] + 1

    def text(self, number: int) -> str:
        """Return the text of a row that a filter's ``text`` is looked for in."""
        with self._lock:
            return _join_text(self._annotation(number - 1)[1])

    def traces(self, number: int) -> list[tuple[int, str]]:
        """Return the traces whose first row is ``number`` or later: that row, and the id."""
        with self._lock:
            begin = bisect_left(self._firsts, number - 1)
            numbers = (row + 1 for row in self._firsts[begin:])
            return list(zip(numbers, self._ids[begin:], strict=True))

    def _annotation(self, row: int) -> tuple[int, Annotation]:
        """Return the annotation of a row with the number of its run, read from its file."""
        number, offset, size, line_hash = self._places[4 * row : 4 * row + 4]
        opened = self._files[number]
        with explain_unreadable(opened.path):
            line = os.pread(opened.file.fileno(), size, offset)
        if hash(line) != line_hash:
            raise AnnotatorError(f"{opened.path}: changed since it was read; start again")
        return opened.run, Annotation.from_json(line)

    def _row(self, row: int) -> IndexRow:
        run, annotation = self._annotation(row)
        label = self._labels.get(annotation.rubric, {}).get(annotation.trace_id)
        return IndexRow(
            row + 1,
            run,
            annotation.trace_id,
            annotation.rubric,
            annotation.status,
            annotation.primary,
            annotation.secondary,
            len(annotation.findings),
            len(annotation.rejected),
            self._agreement(annotation, self._runs[run].scheme(annotation.rubric)),
            (label.codes or (NONE,)) if label else None,
            annotation.attributes,
        )

    def _agreement(self, annotation: Annotation, rubric: Scheme) -> Agreement | None:
        if annotation.status not in ("labelled", "none"):
            return None
        label = self._labels.get(annotation.rubric, {}).get(annotation.trace_id)
        if label is None:
            return "unlabelled"
        same = set(rubric.labels_of(annotation)) == set(rubric.labels_of(label))
        return "agrees" if same else "differs"

    def _read(self) -> None:
        """Read all runs; ``_error`` says what went wrong, after what was read before."""
        error: str | None = "the annotations were not read to the end"
        try:
            for number, run in enumerate(self._runs):
                check = Check(run)
                for place, opened in enumerate(self._files):
                    if opened.run == number:
                        self._read_file(place, opened, check)
                if self._stopped:
                    return
                check.end()
            error = None
        except (AnnotatorError, OSError) as problem:
            error = str(problem)
        finally:
            self._error, self._done = error, True

    def _read_file(self, place: int, opened: _AnnotationFile, check: Check) -> None:
        offset = 0
        with explain_unreadable(opened.path):
            for n, line, annotation in read_lines(lines_of(opened.file), opened.path):
                if self._stopped:
                    return
                rubric = check.hold(annotation, f"{opened.path}, line {n}")
                with self._lock:
                    self._add(opened.run, annotation, rubric)
                    self._places.extend((place, offset, len(line), hash(line)))
                    self._bytes += len(line)
                offset += len(line)

    def _add(self, run: int, annotation: Annotation, rubric: Scheme) -> None:
        agreement = self._agreement(annotation, rubric)
        codes = tuple(dict.fromkeys(annotation.codes))
        parts: dict[str, Value] = {
            "run": str(run),
            "rubric": rubric.id,
            "status": annotation.status,
            "agreement": agreement or (),
            "rejected": "true" if annotation.rejected else "false",
            "code": NONE if annotation.status == "none" else codes,
        }
        attributes = {
            name: value_of(annotation.attributes, name)
            for name, value in annotation.attributes.items()
            if value is not None
        }
        number = self._numbers.setdefault(annotation.trace_id, len(self._ids))
        if number == len(self._ids):
            self._ids.append(annotation.trace_id)
            self._firsts.append(len(self._traces))
        self._traces.append(number)
        self._columns.add(parts, attributes, _join_text(annotation))


def _open(path: Path) -> BinaryIO:
    with explain_unreadable(path):
        return open_regular(path)


def _join_text(annotation: Annotation) -> str:
    """Return what of an annotation is searched: its trace's id, quotes and rationales."""
    pieces = [annotation.trace_id]
    for finding in annotation.findings:
        pieces += [finding.rationale, *(quote.quote for quote in finding.evidence)]
    for rejected in annotation.rejected:
        pieces += rejected.quotes
    return "\n".join(pieces)
