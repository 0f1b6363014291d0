"""Files of labels in any format, recognised by their content and read into :class:`Labels`."""

import hashlib
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from annotator.base.errors import AnnotatorError
from annotator.base.files import read_bounded
from annotator.base.remote import find_url, name_place
from annotator.base.text import sanitize_line
from annotator.labels import label_studio, potato
from annotator.labels.blinding import make_unblind
from annotator.labels.checking import (
    Problems,
    check_label,
    check_unlabelled,
    describe_value,
    is_labelled,
)
from annotator.labels.model import Label, LabelRow, Labels
from annotator.labels.tables import LabelTable, parse_table, read_table_rows
from annotator.rubrics import Scheme
from annotator.traces.records import name_type, parse_json

_SUFFIXES = (".csv", ".json", ".jsonl", ".ndjson", ".tsv")
_OURS = (".looks.jsonl", ".design.json")  # files beside labels
# Places of the labels in Potato's output folder, the best first; the others repeat it.
_POTATO = (
    "user_state.json",
    "*/user_state.json",
    "annotation_output/*/user_state.json",
    "annotated_instances.*",
    "annotation_output/annotated_instances.*",
    "*/annotated_instances.*",
)
_HEAD = 1 << 16


@dataclass(frozen=True, slots=True)
class _Record:
    """One JSON value of a file, and its place."""

    path: Path
    where: str
    value: Any


Content = _Record | LabelTable | str
"""A part of a file of labels; a text is a problem there."""


class LabelFiles:
    """Files of labels, each opened and parsed once, for any number of rubrics.

    Formats: the contract's JSON lines (or one JSON list of such objects), the same as CSV or TSV,
    Label Studio's JSON and JSON-MIN exports (:mod:`annotator.labels.label_studio`) and Potato's
    output (:mod:`annotator.labels.potato`). A folder gives the files in it. A file that cannot be
    read is a problem of :meth:`read`.

    ``paths``: as given. ``digests``: the SHA-256 of each file.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self.paths = tuple(paths)
        self.digests: dict[Path, bytes] = {}
        self._contents: list[Content] = []
        for file in _find_files(self.paths):
            self._contents += [file] if isinstance(file, str) else self._parse(file)

    def _parse(self, path: Path) -> Iterator[Content]:
        try:
            data = read_bounded(path)
        except OSError as error:
            yield f"{_name_file(path)}: {error.strerror or error}"
        else:
            self.digests[path] = hashlib.sha256(data).digest()
            yield from _parse_file(path, data)

    def count_rubrics(self) -> dict[str, int]:
        """Return the number of rows for each rubric id, unchecked. Exports of tools name no rubric.

        Raises:
            AnnotatorError: the files cannot be read.
        """
        problems = Problems()
        anything = Scheme(id="", version=0, sha256="", choice="many", codes=())
        counts: Counter[str] = Counter()
        for row in self.read_rows(anything, problems):
            rubric = row.fields.get("rubric")
            if isinstance(rubric, str) and rubric.strip():
                counts[rubric.strip()] += 1
        if not counts:
            problems.raise_if_any()
        return dict(counts)

    def read(self, scheme: Scheme, trace_ids: Iterable[str] = ()) -> Labels:
        """Return the labels of a rubric. Those of a blinded sheet get their own id back, if
        it is one of ``trace_ids``, which are read only then.

        A row without ``primary`` is not labelled yet; "no code" is null, or the word none.

        Raises:
            AnnotatorError: all problems, the first twenty with their places: an unreadable file, an
                unknown code, a missing or wrong field, a trace labelled twice by one annotator,
                another version of the rubric; or no label at all.
        """
        problems = Problems()
        builder = _LabelBuilder(scheme, problems, make_unblind(trace_ids))
        for row in self.read_rows(scheme, problems):
            builder.add(row)
        problems.raise_if_any()
        return builder.build(self.paths)

    def read_rows(self, scheme: Scheme, problems: Problems) -> Iterator[LabelRow]:
        """Yield the rows of the files, unchecked; problems with a file are recorded."""
        for content in self._contents:
            yield from _read_content(content, scheme, problems)


def read_labels(files: Iterable[Path], scheme: Scheme, trace_ids: Iterable[str] = ()) -> Labels:
    """Return the labels of a rubric from files, as :meth:`LabelFiles.read`."""
    return LabelFiles(files).read(scheme, trace_ids)


class _LabelBuilder:
    """Collects the labels of one rubric, row by row."""

    def __init__(self, scheme: Scheme, problems: Problems, unblind: Callable[[str], str]) -> None:
        self._scheme = scheme
        self._problems = problems
        self._unblind = unblind
        self._labels: dict[tuple[str, str], Label] = {}
        self._unlabelled: dict[tuple[str, str], None] = {}
        self._others: Counter[str] = Counter()

    def add(self, row: LabelRow) -> None:
        rubric = row.fields.get("rubric")
        if not isinstance(rubric, str) or not rubric.strip():
            problem = "missing" if rubric is None else f"found {describe_value(rubric)}"
            message = f"rubric: {problem}; write the rubric's id, {self._scheme.id} say"
            self._problems.add(f"{row.where}: {message}")
        elif rubric.strip() != self._scheme.id:
            self._others[rubric.strip()] += 1
        elif is_labelled(row.fields, self._scheme):
            label = check_label(row, self._scheme, self._problems)
            if label:
                self._add(replace(label, trace_id=self._unblind(label.trace_id)))
        elif trace_id := check_unlabelled(row, self._scheme, self._problems):
            annotator = row.fields.get("annotator")
            trace_id = self._unblind(trace_id)
            self._unlabelled[trace_id, annotator if isinstance(annotator, str) else ""] = None

    def _add(self, label: Label) -> None:
        first = self._labels.setdefault((label.trace_id, label.annotator), label)
        if first is label:
            return
        same = "the same" if first.codes == label.codes else "different codes"
        self._problems.add(
            f"{label.where}: trace_id: {sanitize_line(label.trace_id, 120)!r} is labelled by "
            f"{sanitize_line(label.annotator, 60)!r} in {first.where} already ({same});"
            " keep one of them"
        )

    def build(self, files: Sequence[Path]) -> Labels:
        labels = tuple(self._labels.values())
        labelled = {label.trace_id for label in labels}
        unlabelled = dict.fromkeys(
            trace_id
            for trace_id, annotator in self._unlabelled
            if (trace_id, annotator) not in self._labels and (annotator or trace_id not in labelled)
        )
        if not labels:
            raise AnnotatorError(self._explain_empty(files, len(unlabelled)))
        return Labels(labels, tuple(unlabelled))

    def _explain_empty(self, files: Sequence[Path], unlabelled: int) -> str:
        where = ", ".join(_name_file(path) for path in files[:3]) + (" ..." if files[3:] else "")
        reason = f"{where}: no label for the rubric {self._scheme.id}"
        if unlabelled:
            return f"{reason}; {unlabelled} traces are there, and none is labelled yet"
        if self._others:
            counts = self._others.most_common(5)
            others = ", ".join(f"{sanitize_line(name, 60)} ({count})" for name, count in counts)
            return f"{reason}; labels for another rubric: {others}"
        return f"{reason}, nor for another"


def _name_file(path: Path) -> str:
    return sanitize_line(name_place(path))


def _find_files(paths: Iterable[Path]) -> Iterator[Path | str]:
    """Yield the files (of a folder its label files, sorted, or Potato's) or problems."""
    for path in paths:
        try:
            if path.is_dir():
                yield from _list_folder(path)
            elif path.is_file():
                yield path
            elif path.exists():
                yield f"{_name_file(path)}: not a regular file; save the labels to one"
            elif find_url(path):
                yield f"{_name_file(path)}: labels are read on this machine: copy them here"
            else:
                yield f"{_name_file(path)}: no such file or folder"
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            yield f"{_name_file(path)}: {getattr(error, 'strerror', None) or error}"


def _list_folder(folder: Path) -> Sequence[Path | str]:
    files = [
        path
        for path in sorted(folder.iterdir())
        if path.suffix.lower() in _SUFFIXES
        and not path.name.startswith(".")
        and not path.name.endswith(_OURS)
        and not path.is_dir()
    ]
    matches = (sorted(filter(Path.is_file, folder.glob(pattern))) for pattern in _POTATO)
    potatoes = next(filter(None, matches), [])
    other_files = [path for path in files if path.stem not in ("user_state", "annotated_instances")]
    if potatoes and other_files:  # they may hold labels, too
        first = _name_file(other_files[0])
        message = f"Potato's output, and {first}; name the files that hold labels"
        return [f"{_name_file(folder)}: {message}"]
    return potatoes or files or [f"{_name_file(folder)}: no file with labels in this folder"]


def _parse_file(path: Path, data: bytes) -> Iterator[Content]:
    name = _name_file(path)
    head = data[:_HEAD]
    text = head.decode("utf-8-sig", "replace").lstrip()
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        yield f"{name}: UTF-16 text; save it as UTF-8"
    elif b"\x00" in head or head[:2] in (b"PK", b"\x1f\x8b"):
        yield f"{name}: binary data; save a spreadsheet as CSV, unpack an archive"
    elif not text:
        yield f"{name}: empty; there are no labels in it"
    elif text[0] not in "[{":
        yield parse_table(data, name)
    elif _has_lines(path, text):
        yield from _parse_lines(path, data)
    else:
        yield from _parse_whole(path, data)


def _parse_whole(path: Path, data: bytes) -> Iterator[Content]:
    """Yield the JSON value of a file, or those of its one list."""
    name = _name_file(path)
    try:
        value = parse_json(data.decode("utf-8-sig"), name)
    except UnicodeDecodeError as error:
        yield f"{name}: not UTF-8 at byte {error.start}; save the file as UTF-8"
    except AnnotatorError as error:
        yield str(error)
    else:
        if not isinstance(value, list):
            yield _Record(path, name, value)
        elif not value:
            yield f"{name}: an empty list; there are no labels in it"
        else:
            for n, record in enumerate(value, 1):
                yield _Record(path, f"{name}, record {n}", record)


def _has_lines(path: Path, head: str) -> bool:
    """Whether a JSON file has a value per line; an object alone may be spread over several."""
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return True
    line, end, rest = head.partition("\n")
    if line[0] == "[" or not end:
        return False
    try:
        parse_json(line, "")
    except AnnotatorError:
        return False
    return bool(rest.strip())


def _parse_lines(path: Path, data: bytes) -> Iterator[Content]:
    name = _name_file(path)
    for n, line in enumerate(io.BytesIO(data), 1):
        if not line.strip():
            continue
        where = f"{name}, line {n}"
        try:
            yield _Record(path, where, parse_json(line.decode("utf-8-sig"), name, line=n))
        except UnicodeDecodeError:
            yield f"{where}: not UTF-8; save the file as UTF-8"
        except AnnotatorError as error:
            yield str(error)


def _read_content(content: Content, scheme: Scheme, problems: Problems) -> Iterator[LabelRow]:
    """Yield the rows in a part of a file."""
    if isinstance(content, str):
        problems.add(content)
    elif isinstance(content, LabelTable):
        yield from read_table_rows(content, scheme, problems)
    elif not isinstance(content.value, dict):
        problems.add(
            f"{content.where}: found {name_type(content.value)}, expected an object with a label"
        )
    else:
        try:
            yield from _read_record(content.value, content.where, content.path, scheme)
        except AnnotatorError as error:
            problems.add(str(error))


def _read_record(
    value: Mapping[str, Any], where: str, path: Path, scheme: Scheme
) -> Iterator[LabelRow]:
    if label_studio.is_min(value):
        return label_studio.read_min(value, where, scheme)
    if "trace_id" in value:
        return iter([LabelRow(where, value)])
    if label_studio.is_task(value):
        return label_studio.read_task(value, where, scheme)
    if potato.is_state(value):
        return potato.read_state(value, where, path, scheme)
    if potato.is_record(value):
        return potato.read_record(value, where, path, scheme)
    return iter([LabelRow(where, value)])
