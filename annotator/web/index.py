"""The annotations of some runs in memory, to be listed, filtered and counted."""

import os
import threading
from array import array
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from annotator.base.errors import AnnotatorError
from annotator.base.files import explain_unreadable, open_checked, read_bounded_lines
from annotator.base.text import replace_surrogates
from annotator.labels import Label
from annotator.rubrics import NONE, Scheme
from annotator.rubrics.annotations import Annotation, get_attribute, parse_lines
from annotator.runs.run import AnnotationCheck, Run

PARTS = ("run", "rubric", "status", "agreement", "rejected", "code")
_ATTRIBUTE = "a."  # begins the column of an attribute
_MOST_VALUES = 200  # of an attribute that are counted
Agreement = Literal["agrees", "differs", "unlabelled"]
Counts = tuple[tuple[str, int], ...]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Filter:
    """The annotations to list; None and empty let all pass.

    ``run``: the number of a run, from 0. ``code``: a code of the annotation, or ``none`` for a
    judged trace without a finding. ``rejected``: whether it has rejected findings. ``attributes``:
    names and values, as ``get_attribute`` writes them. ``text``: part of the trace's id, a quote
    (accepted or rejected) or a rationale, in any case.
    """

    run: int | None = None
    rubric: str | None = None
    status: str | None = None
    code: str | None = None
    rejected: bool | None = None
    agreement: str | None = None
    attributes: tuple[tuple[str, str], ...] = ()
    text: str | None = None

    @property
    def columns(self) -> list[tuple[str, str]]:
        """The column names and texts that a row must have."""
        parts = [(name, getattr(self, name)) for name in PARTS]
        values = [(name, value) for name, value in parts if value is not None]
        return [
            *(
                (name, str(value).lower() if name == "rejected" else str(value))
                for name, value in values
            ),
            *((f"{_ATTRIBUTE}{name}", value) for name, value in self.attributes),
        ]


@dataclass(frozen=True, slots=True)
class Facets:
    """How many annotations have each value, the most frequent value first. Each part is counted
    under all other parts of a filter. ``rejected`` has the texts ``true`` and ``false``.

    ``omitted``: the attributes with more than 200 values, and how many they have.
    """

    run: Counts
    rubric: Counts
    status: Counts
    code: Counts
    agreement: Counts
    rejected: Counts
    attributes: Mapping[str, Counts]
    omitted: Counts


@dataclass(frozen=True, slots=True)
class IndexRow:
    """One annotation in a list. ``number`` counts from 1 over all runs, in the order of the files.

    ``findings`` and ``rejected`` are counts. ``agreement`` compares it with the person's label; it
    is None if nothing was judged (skipped, failed). ``human`` are the codes of that label, ``none``
    if the person gave none, and None without a label.
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


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows, and the number of all."""

    total: int
    rows: tuple[IndexRow, ...]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The rows of other traces before and after a row, its position from 1, and the number of all
    rows.
    """

    previous: IndexRow | None
    next: IndexRow | None
    position: int
    total: int


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """The number of annotations so far, and how many of all ``bytes`` were ``read``.

    ``error``: why reading stopped, with file and line; then ``done`` is true too.
    """

    annotations: int
    read: int
    bytes: int
    done: bool
    error: str | None


class IndexColumn:
    """The texts of some rows; a row may have several. Equal texts are in memory once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}  # of the different texts
        self._rows, self._row_numbers = array("i"), array("i")

    def add(self, row: int, text: str) -> None:
        """Add a text of a row."""
        self._rows.append(row)
        self._row_numbers.append(self._numbers.setdefault(text, len(self._numbers)))

    def mask(self, text: str, length: int) -> Mask:
        """Return a boolean array of ``length`` rows: whether a row has the text."""
        mask = np.zeros(length, bool)
        mask[np.array(self._rows)[np.array(self._row_numbers) == self._numbers.get(text, -1)]] = (
            True
        )
        return mask

    def count(self, mask: Mask) -> dict[str, int]:
        """Return how many rows of a mask have each text."""
        numbers = np.array(self._row_numbers)[mask[np.array(self._rows)]]
        counts = np.bincount(numbers, minlength=len(self._numbers)).tolist()
        return {text: n for text, n in zip(self._numbers, counts, strict=True) if n}


class Index:
    """The annotations of runs, read in the background from the moment this is made.

    Any thread can list the rows so far. ``labels``: people's, by rubric and trace; the first of a
    trace decides. Memory holds the values to filter by and the offset of each line; a row is read
    from its file when it is listed. The files stay open because a resumed run is written anew.
    """

    def __init__(
        self, runs: Sequence[Run], labels: Mapping[str, Mapping[str, Sequence[Label]]] | None = None
    ) -> None:
        if any(run.folder is None for run in runs):
            raise AnnotatorError("a run in memory has no pages: save it first")
        self._runs = runs
        self._labels = labels or {}
        with ExitStack() as opened:  # each file with the number of its run
            self._files = [
                (number, path, opened.enter_context(_open(path)))
                for number, run in enumerate(runs)
                for path in run.files
            ]
            self._opened = opened.pop_all()
        self._size = sum(os.fstat(file.fileno()).st_size for _, _, file in self._files)
        self._lock = threading.Lock()  # held while a row is added or listed
        self._columns = {name: IndexColumn() for name in PARTS}
        self._texts: list[bytes] = []  # UTF-8 takes the least memory
        self._ids: list[str] = []  # of each row: its trace
        self._firsts: dict[str, int] = {}  # of each trace: its first row
        self._lines = array("q")  # of each row: file, offset, size, hash
        self._bytes = 0
        self._done = self._stopped = False
        self._error: str | None = None
        self._thread = threading.Thread(target=self._read, name="index", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop reading and close the files."""
        self._stopped = True
        self._thread.join()
        self._opened.close()

    @property
    def progress(self) -> IndexProgress:
        """The progress of reading."""
        done, error = self._done, self._error
        with self._lock:
            size = max(self._size, self._bytes)  # a run may still be written
            return IndexProgress(len(self._ids), self._bytes, size, done, error)

    def wait(self) -> None:
        """Wait until all is read.

        Raises:
            AnnotatorError: a run is damaged; the rows before that can still be listed.
        """
        self._thread.join()
        if self._error:
            raise AnnotatorError(self._error)

    def rows(self, filter: Filter, offset: int, limit: int) -> Page:
        """Return ``limit`` annotations that pass a filter, from ``offset`` (0 is the first), and
        their number so far.

        Raises:
            AnnotatorError: a run's file cannot be read. Other methods raise it too.
        """
        with self._lock:
            rows = np.flatnonzero(self._select(filter))
            page = rows[offset : offset + max(limit, 0)].tolist()
            return Page(len(rows), tuple(map(self._row, page)))

    def facets(self, filter: Filter) -> Facets:
        """Return the values of each part of a filter with counts."""
        with self._lock:
            filtered, selected = dict(filter.columns), self._select(filter)
            counts = {
                name: column.count(self._select(filter, name) if name in filtered else selected)
                for name, column in self._columns.items()
            }
        parts = {name: _sort(counts.pop(name)) for name in PARTS}
        attributes = {name.removeprefix(_ATTRIBUTE): values for name, values in counts.items()}
        many = {
            name: len(values) for name, values in attributes.items() if len(values) > _MOST_VALUES
        }
        listed = {name: _sort(values) for name, values in attributes.items() if name not in many}
        return Facets(**parts, attributes=listed, omitted=_sort(many))

    def neighbours(self, number: int, filter: Filter) -> Neighbours | None:
        """Return the rows around a row among those that pass a filter; None if it does not pass."""
        with self._lock:
            rows, row = np.flatnonzero(self._select(filter)).tolist(), number - 1
            if row not in rows:
                return None
            position = rows.index(row)
            before, after = (
                next((other for other in others if self._ids[other] != self._ids[row]), None)
                for others in (reversed(rows[:position]), rows[position + 1 :])
            )
            return Neighbours(
                None if before is None else self._row(before),
                None if after is None else self._row(after),
                position + 1,
                len(rows),
            )

    def annotations(self, trace_id: str) -> list[tuple[int, Annotation]]:
        """Return all annotations of a trace, each with the number of its run, from 0."""
        with self._lock:
            rows = [row for row, other in enumerate(self._ids) if other == trace_id]
            return [self._annotation(row) for row in rows]

    def first(self, trace_id: str) -> int | None:
        """Return the number of a trace's first row; None if it has none so far."""
        row = self._firsts.get(trace_id)
        return None if row is None else row + 1

    def text(self, number: int) -> str:
        """Return the text of a row that ``Filter.text`` searches."""
        with self._lock:
            return _join_text(self._annotation(number - 1)[1])

    def traces(self, number: int) -> list[tuple[int, str]]:
        """Return row and id of each trace whose first row is ``number`` or later."""
        with self._lock:
            return [(row + 1, name) for name, row in self._firsts.items() if row + 1 >= number]

    def _select(self, filter: Filter, but: str = "") -> Mask:
        """Return for each row whether it passes a filter, without its column ``but``."""
        mask = np.ones(len(self._ids), bool)
        for name, value in filter.columns:
            if name != but:
                mask &= self._columns.get(name, IndexColumn()).mask(value, len(mask))
        if filter.text:
            text = replace_surrogates(filter.text.casefold()).encode()
            mask &= np.array([text in row for row in self._texts], bool)
        return mask

    def _annotation(self, row: int) -> tuple[int, Annotation]:
        """Return the annotation of a row with the number of its run, read from its file."""
        file_number, offset, size, line_hash = self._lines[4 * row : 4 * row + 4]
        run, path, file = self._files[file_number]
        with explain_unreadable(path):
            line = os.pread(file.fileno(), size, offset)
        if hash(line) != line_hash:
            raise AnnotatorError(f"{path}: changed since it was read; start again")
        return run, self._runs[run].group(Annotation.from_json(line))

    def _row(self, row: int) -> IndexRow:
        run, annotation = self._annotation(row)
        label = self._find_label(annotation)
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

    def _find_label(self, annotation: Annotation) -> Label | None:
        labels = self._labels.get(annotation.rubric, {}).get(annotation.trace_id)
        return labels[0] if labels else None

    def _agreement(self, annotation: Annotation, rubric: Scheme) -> Agreement | None:
        if annotation.status not in ("labelled", "none"):
            return None
        label = self._find_label(annotation)
        if label is None:
            return "unlabelled"
        same = set(rubric.labels_of(annotation)) == set(rubric.labels_of(label))
        return "agrees" if same else "differs"

    def _read(self) -> None:
        """Read all runs; an error ends it, and the rows before it stay."""
        error: str | None = "the annotations were not read to the end"
        try:
            for number, run in enumerate(self._runs):
                check = AnnotationCheck(run)
                for file_number, (owner, path, file) in enumerate(self._files):
                    if owner == number:
                        with explain_unreadable(path):
                            self._read_file(file_number, path, file, check)
                if self._stopped:
                    return
                check.finish()
            error = None
        except AnnotatorError as problem:
            error = str(problem)
        finally:
            self._error, self._done = error, True

    def _read_file(
        self, file_number: int, path: Path, file: BinaryIO, check: AnnotationCheck
    ) -> None:
        offset = 0
        for n, line, annotation in parse_lines(read_bounded_lines(file), path):
            if self._stopped:
                return
            rubric = check.check(annotation, f"{path}, line {n}")
            with self._lock:
                owner = self._files[file_number][0]
                self._add(owner, self._runs[owner].group(annotation), rubric)
                self._lines.extend((file_number, offset, len(line), hash(line)))
                self._bytes += len(line)
            offset += len(line)

    def _add(self, run: int, annotation: Annotation, rubric: Scheme) -> None:
        agreement = self._agreement(annotation, rubric)
        values: dict[str, Iterable[str]] = {
            f"{_ATTRIBUTE}{name}": [get_attribute(annotation.attributes, name)]
            for name, value in annotation.attributes.items()
            if value is not None
        }
        values |= {
            "run": [str(run)],
            "rubric": [rubric.id],
            "status": [annotation.status],
            "agreement": [agreement] if agreement else [],
            "rejected": ["true" if annotation.rejected else "false"],
            "code": [NONE] if annotation.status == "none" else set(annotation.codes),
        }
        for name, texts in values.items():
            column = self._columns.setdefault(name, IndexColumn())
            for text in texts:
                column.add(len(self._ids), text)
        self._firsts.setdefault(annotation.trace_id, len(self._ids))
        self._ids.append(annotation.trace_id)
        self._texts.append(_join_text(annotation).casefold().encode())


def _open(path: Path) -> BinaryIO:
    with explain_unreadable(path):
        return open_checked(path)


def _sort(counts: Mapping[str, int]) -> Counts:
    return tuple(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))


def _join_text(annotation: Annotation) -> str:
    """Return the searched text of an annotation: its trace's id, quotes and rationales."""
    pieces = [annotation.trace_id]
    for finding in annotation.findings:
        pieces += [finding.rationale, *(quote.quote for quote in finding.evidence)]
    for rejected in annotation.rejected:
        pieces += rejected.quotes
    return "\n".join(pieces)
