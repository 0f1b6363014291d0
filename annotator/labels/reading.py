"""Files of labels in any format, recognised by their content and read into :class:`Labels`."""

import hashlib
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from annotator.base.errors import AnnotatorError
from annotator.base.files import read_bounded
from annotator.base.remote import find_url, name_place
from annotator.base.text import convert_utf16, format_count, list_first, sanitize_line
from annotator.labels import argilla, foreign, label_studio, potato, user_tables
from annotator.labels.blinding import make_unblind
from annotator.labels.checking import (
    Problems,
    check_label,
    check_unlabelled,
    describe_value,
    is_labelled,
)
from annotator.labels.convert import (
    Converted,
    convert,
    describe_doubtful,
    describe_left_out,
    find_code,
    make_foreign,
    name_codes,
)
from annotator.labels.model import ForeignLabel, Label, LabelRow, Labels
from annotator.labels.sheets import LabelTable, parse_table, read_table_rows
from annotator.labels.trace_index import TraceIndex, name_record
from annotator.rubrics import Scheme
from annotator.traces.files import Rows, open_contents
from annotator.traces.records import name_type, parse_json

GOLD = "gold"
"""The annotator of labels whose file names none."""

_SUFFIXES = (".csv", ".json", ".jsonl", ".ndjson", ".parquet", ".tsv")
_OURS = (".looks.jsonl", ".design.json")  # files beside labels
_OWN_KEYS = {"rubric", "primary", "secondary", "skipped"}
_WORKBOOKS = (".xlsx", ".xlsm", ".xls", ".ods", ".numbers")
_HEAD = 1 << 16
_KNOWN = (
    "expected labels of our own, AgentRx's ground truth, MAST's records, TRAIL's errors, Who&When's"
    " mistake_agent, an export of Label Studio, Argilla or Potato, or a table or records with a"
    " trace id and a category (or code, failure_mode, ...)"
)


@dataclass(frozen=True, slots=True)
class Record:
    """A JSON value in a file of labels: its place for messages, and as
    :func:`~annotator.labels.trace_index.name_record`.
    """

    where: str
    path: str
    value: Any


Content = Record | LabelTable | str
"""A part of a file of labels: a record, a table, or a problem there."""


@dataclass(slots=True)
class _FileRows:
    """The rows of some files: our own, those of annotation tools, those in other tools' terms, the
    records without a label, and notices.
    """

    ours: list[LabelRow] = field(default_factory=list)
    exported: list[LabelRow] = field(default_factory=list)
    foreign: list[ForeignLabel] = field(default_factory=list)
    empty: list[Record] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def check(self, problems: Problems) -> None:
        """Record a problem for each record without a label, or a notice if others have one."""
        names = [record.where for record in self.empty]
        if self.foreign and names:
            count = format_count(len(names), "record")
            self.notices.append(f"{count} without a label: {list_first(names, 3)}")
        for name in names if not self.foreign else []:
            problems.add(f"{name}: no label that is known: {_KNOWN}")


class LabelFiles:
    """Files of labels, each opened and parsed once, for any number of rubrics.

    JSON lines, one JSON list, CSV or TSV, exports of Label Studio, Argilla and Potato, published
    data sets (:mod:`annotator.labels.foreign`); a folder gives its files. ``paths``: as given.
    ``digests``: the SHA-256 of each file.
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

    def count_rubrics(self, *, filled: bool = False) -> dict[str, int]:
        """Return the number of rows, or of ``filled`` ones, for each rubric id, unchecked; raises
        AnnotatorError.
        """
        problems = Problems()
        anything = Scheme(id="", version=0, sha256="", choice="many", codes=())
        counts: Counter[str] = Counter()
        rows = self._read(anything, problems, converts=False)
        for row in (*rows.ours, *rows.exported):
            rubric = row.fields.get("rubric")
            is_counted = not filled or is_labelled(row.fields, anything)
            if is_counted and isinstance(rubric, str) and rubric.strip():
                counts[rubric.strip()] += 1
        if not counts:
            problems.raise_if_any()
        return dict(counts)

    def read(
        self, scheme: Scheme, trace_ids: Iterable[str] = (), sources: Iterable[str] = ()
    ) -> Labels:
        """Return the labels of a rubric; AnnotatorError with all problems, or without a label.

        Labels of a blinded sheet get their own id back, if it is one of ``trace_ids``, which are
        read only then. Labels in other tools' terms are converted, and join those traces, which
        come from ``sources``.
        """
        problems, others = Problems(), Counter[str]()
        labels: dict[tuple[str, str], Label] = {}
        waiting: dict[tuple[str, str], None] = {}
        rows = self._read(scheme, problems)
        rows.check(problems)
        notes = rows.notices
        if rows.foreign:
            trace_ids = list(trace_ids)
            index = TraceIndex(trace_ids, sources) if trace_ids else None
            converted = convert(rows.foreign, scheme, GOLD, index)
            rows.ours += converted.rows
            notes += describe_left_out(converted, len(rows.foreign))
            notes += describe_doubtful(converted)
        rows.ours += (name_codes(row, scheme) for row in rows.exported)
        unblind = make_unblind(trace_ids)
        for row in rows.ours:
            rubric, annotator = row.fields.get("rubric"), row.fields.get("annotator")
            if not isinstance(rubric, str) or not rubric.strip():
                problem = "missing" if rubric is None else f"found {describe_value(rubric)}"
                remedy = f"write the rubric's id, {scheme.id} say"
                problems.add(f"{row.where}: rubric: {problem}; {remedy}")
            elif rubric.strip() != scheme.id:
                others[rubric.strip()] += 1
            elif not is_labelled(row.fields, scheme):
                if trace_id := check_unlabelled(row, scheme, problems):
                    name = annotator if isinstance(annotator, str) else ""
                    waiting[unblind(trace_id), name] = None
            elif label := check_label(row, scheme, problems):
                label = replace(label, trace_id=unblind(label.trace_id))
                first = labels.setdefault((label.trace_id, label.annotator), label)
                if first is not label:
                    problems.add(_describe_second(first, label))
        problems.raise_if_any()
        labelled = {trace_id for trace_id, _ in labels}
        unlabelled = dict.fromkeys(
            trace_id
            for trace_id, annotator in waiting
            if (trace_id, annotator) not in labels and (annotator or trace_id not in labelled)
        )
        if not labels:
            reason = self._explain_empty(scheme, len(unlabelled), others, bool(rows.foreign))
            raise AnnotatorError("; ".join([reason, *notes]))
        return Labels(tuple(labels.values()), tuple(unlabelled), tuple(notes))

    def convert(
        self,
        scheme: Scheme,
        annotator: str,
        traces: TraceIndex | None = None,
        spelled: Mapping[str, str] | None = None,
    ) -> tuple[Converted, int, list[str]]:
        """Return the labels in other tools' terms as rows of our own, the number of all, and
        notices.

        ``spelled``: the code for each category that is neither its id nor a usual name.

        Raises:
            AnnotatorError: a file cannot be read, or holds labels of our own, or none.
        """
        problems = Problems()
        for name in dict.fromkeys(filter(None, map(_name_own, self._contents))):
            reason = "these are annotate's own columns: calibrate takes the file as it is"
            problems.add(f"{name}: {reason}")
        problems.raise_if_any()
        rows = self._read(scheme, problems, spelled)
        rows.foreign += map(make_foreign, (*rows.ours, *rows.exported))
        rows.check(problems)
        problems.raise_if_any()
        converted = convert(rows.foreign, scheme, annotator, traces, spelled)
        _check_repeated(converted.rows, problems)
        problems.raise_if_any()
        return converted, len(rows.foreign), rows.notices + describe_doubtful(converted)

    def _explain_empty(
        self, scheme: Scheme, unlabelled: int, others: Counter[str], left_out: bool
    ) -> str:
        where = ", ".join(map(_name_file, self.paths[:3])) + (" ..." if self.paths[3:] else "")
        reason = f"{where}: no label for the rubric {scheme.id}"
        if unlabelled:
            return f"{reason}; {unlabelled} traces are there, and none is labelled yet"
        if others:
            names = [f"{sanitize_line(name, 60)} ({n})" for name, n in others.most_common(5)]
            return f"{reason}; labels for another rubric: {', '.join(names)}"
        return reason if left_out else f"{reason}, nor for another"

    def read_rows(self, scheme: Scheme, problems: Problems) -> list[LabelRow]:
        """Return our own rows in the files, unchecked; problems with a file are recorded."""
        rows = self._read(scheme, problems)
        rows.check(problems)
        return rows.ours + rows.exported

    def _read(
        self,
        scheme: Scheme,
        problems: Problems,
        spelled: Mapping[str, str] | None = None,
        converts: bool = True,
    ) -> _FileRows:
        """Return the rows, unchecked; not ``converts``: without those in other tools' terms."""

        def is_code(text: str) -> bool:
            return find_code(text, scheme, spelled) is not None

        rows = _FileRows()
        for content in self._contents:
            if isinstance(content, str):
                problems.add(content)
            elif isinstance(content, LabelTable):
                rows.notices += [content.notice] if content.notice else []
                if content.is_ours or not user_tables.is_sheet(content.columns, is_code):
                    rows.ours += read_table_rows(content, scheme, problems)
                elif converts:
                    labels, notices = user_tables.read_sheet(content, is_code, problems)
                    rows.foreign += labels
                    rows.notices += notices
            else:
                try:
                    _read_record(content, scheme, is_code if converts else None, problems, rows)
                except AnnotatorError as error:
                    if converts:  # only the rubric tells which question is for codes
                        problems.add(str(error))
        return rows


def _read_record(
    record: Record,
    scheme: Scheme,
    is_code: Callable[[str], bool] | None,
    problems: Problems,
    rows: _FileRows,
) -> None:
    """Add the rows of a record, without ``is_code`` only those that need no conversion; raises
    AnnotatorError.
    """
    value, where = record.value, record.where
    if not isinstance(value, dict):
        problems.add(f"{where}: found {name_type(value)}, expected an object with a label")
    elif potato.is_json(value):
        raise AnnotatorError(f"{where}: Potato's JSON; let Potato write CSV or TSV")
    elif _OWN_KEYS & value.keys() and "annotation_id" not in value:
        rows.ours.append(LabelRow(where, value))
    elif label_studio.is_min(value):
        rows.exported += label_studio.read_min(value, where, scheme)
    elif "trace_id" not in value and label_studio.is_task(value):
        rows.exported += label_studio.read_task(value, where, scheme)
    elif argilla.is_record(value):
        rows.exported += argilla.read_record(value, where, scheme)
    elif is_code is None:
        return
    elif labels := foreign.read_record(value, where, record.path, is_code, problems):
        rows.foreign += labels
    else:
        rows.empty.append(record)


def _name_own(content: Content) -> str:
    if isinstance(content, LabelTable):
        return content.name if {"rubric", "annotator"} <= {*content.columns} else ""
    if isinstance(content, str) or not isinstance(content.value, dict):
        return ""
    is_own = {"trace_id", "rubric", "annotator"} <= content.value.keys()
    return content.where.partition(", ")[0] if is_own else ""


def read_labels(files: Iterable[Path], scheme: Scheme, trace_ids: Iterable[str] = ()) -> Labels:
    """Return the labels of a rubric from files, as :meth:`LabelFiles.read`."""
    return LabelFiles(files).read(scheme, trace_ids)


def _describe_second(first: Label, label: Label) -> str:
    same = "the same" if first.codes == label.codes else "different codes"
    return (
        f"{label.where}: trace_id: {sanitize_line(label.trace_id, 120)!r} is labelled by "
        f"{sanitize_line(label.annotator, 60)!r} in {first.where} already ({same});"
        " keep one of them, or write all codes in one"
    )


def _check_repeated(rows: Iterable[LabelRow], problems: Problems) -> None:
    first: dict[tuple[str, str], LabelRow] = {}
    for row in rows:
        trace_id, annotator = row.fields["trace_id"], row.fields["annotator"]
        earlier = first.setdefault((trace_id, annotator), row)
        if earlier is not row:
            problems.add(
                f"{row.where}: {sanitize_line(trace_id, 120)!r} is labelled by"
                f" {sanitize_line(annotator, 60)!r} in {earlier.where} already; write all codes in"
                " one label, or convert the files of each person alone, with --annotator"
            )


def _name_file(path: Path) -> str:
    return sanitize_line(name_place(path))


def _find_files(paths: Iterable[Path]) -> Iterator[Path | str]:
    """Yield the files (of a folder its label files, sorted) or problems."""
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
    """Return the label files in a folder, or those in its subfolders if it has none itself."""
    for pattern in ("*", "**/*"):
        files = [
            path
            for path in sorted(folder.glob(pattern))
            if path.suffix.lower() in _SUFFIXES
            and not path.name.startswith(".")
            and not path.name.endswith(_OURS)
            and not path.is_dir()
        ]
        if files:
            return files
    return [f"{_name_file(folder)}: no file with labels in this folder"]


def _parse_file(path: Path, data: bytes) -> Iterator[Content]:
    name = _name_file(path)
    data = convert_utf16(data)
    head = data[:_HEAD]
    text = head.decode("utf-8-sig", "replace").lstrip()
    if head.startswith(b"PAR1"):
        yield from _parse_parquet(path, name)
    elif path.suffix.lower() in _WORKBOOKS or head.startswith(b"\xd0\xcf\x11\xe0"):
        yield f"{name}: a workbook, not a CSV: save the sheet as CSV UTF-8"
    elif b"\x00" in head or head[:2] in (b"PK", b"\x1f\x8b"):
        yield f"{name}: binary data; save a spreadsheet as CSV UTF-8, unpack an archive"
    elif not text:
        yield f"{name}: empty; there are no labels in it"
    elif text[0] not in "[{":
        yield parse_table(data, name)
    elif _has_lines(path, text):
        yield from _parse_lines(path, data, name)
    else:
        yield from _parse_whole(path, data, name)


def _parse_whole(path: Path, data: bytes, name: str) -> Iterator[Content]:
    """Yield the JSON value of a file, or those of its one list."""
    try:
        value = parse_json(data.decode("utf-8-sig"), name)
    except UnicodeDecodeError as error:
        yield f"{name}: not UTF-8 at byte {error.start}; save the file as UTF-8"
    except AnnotatorError as error:
        yield str(error)
    else:
        if not isinstance(value, list):
            yield Record(name, name_record(str(path)), value)
        elif not value:
            yield f"{name}: an empty list; there are no labels in it"
        else:
            for n, record in enumerate(value, 1):
                yield Record(f"{name}, record {n}", name_record(str(path), n), record)


def _parse_parquet(path: Path, name: str) -> Iterator[Content]:
    try:
        contents = open_contents(str(path))
        for n, _, load in contents.records() if isinstance(contents, Rows) else ():
            yield Record(f"{name}, record {n}", name_record(str(path), n), load())
    except AnnotatorError as error:
        yield str(error)


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


def _parse_lines(path: Path, data: bytes, name: str) -> Iterator[Content]:
    for n, line in enumerate(io.BytesIO(data), 1):
        if not line.strip():
            continue
        where = f"{name}, line {n}"
        try:
            value = parse_json(line.decode("utf-8-sig"), name, line=n)
            yield Record(where, name_record(str(path), n), value)
        except UnicodeDecodeError:
            yield f"{where}: not UTF-8; save the file as UTF-8"
        except AnnotatorError as error:
            yield str(error)
