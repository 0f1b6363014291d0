"""Files of labels in any format, recognised by their content and read into :class:`Labels`."""

import hashlib
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
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
_HEAD = 1 << 16


Content = tuple[str, Any] | LabelTable | str
"""A part of a file of labels: a JSON value with its place, a table, or a problem there."""


class LabelFiles:
    """Files of labels, each opened and parsed once, for any number of rubrics.

    JSON lines, one JSON list, CSV or TSV, Label Studio's JSON, Potato's tables; a folder gives its
    files. ``paths``: as given. ``digests``: the SHA-256 of each file.
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
        """Return the number of rows for each rubric id, unchecked; raises AnnotatorError."""
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
        """Return the labels of a rubric; AnnotatorError with all problems, or without a label.

        Labels of a blinded sheet get their own id back, if it is one of ``trace_ids``, which are
        read only then.
        """
        problems, others, unblind = Problems(), Counter[str](), make_unblind(trace_ids)
        labels: dict[tuple[str, str], Label] = {}
        waiting: dict[tuple[str, str], None] = {}
        for row in self.read_rows(scheme, problems):
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
            raise AnnotatorError(self._explain_empty(scheme, len(unlabelled), others))
        return Labels(tuple(labels.values()), tuple(unlabelled))

    def _explain_empty(self, scheme: Scheme, unlabelled: int, others: Counter[str]) -> str:
        where = ", ".join(map(_name_file, self.paths[:3])) + (" ..." if self.paths[3:] else "")
        reason = f"{where}: no label for the rubric {scheme.id}"
        if unlabelled:
            return f"{reason}; {unlabelled} traces are there, and none is labelled yet"
        if others:
            names = [f"{sanitize_line(name, 60)} ({n})" for name, n in others.most_common(5)]
            return f"{reason}; labels for another rubric: {', '.join(names)}"
        return f"{reason}, nor for another"

    def read_rows(self, scheme: Scheme, problems: Problems) -> Iterator[LabelRow]:
        """Yield the rows of the files, unchecked; problems with a file are recorded."""
        for content in self._contents:
            yield from _read_content(content, scheme, problems)


def read_labels(files: Iterable[Path], scheme: Scheme, trace_ids: Iterable[str] = ()) -> Labels:
    """Return the labels of a rubric from files, as :meth:`LabelFiles.read`."""
    return LabelFiles(files).read(scheme, trace_ids)


def _describe_second(first: Label, label: Label) -> str:
    same = "the same" if first.codes == label.codes else "different codes"
    return (
        f"{label.where}: trace_id: {sanitize_line(label.trace_id, 120)!r} is labelled by "
        f"{sanitize_line(label.annotator, 60)!r} in {first.where} already ({same});"
        " keep one of them"
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
    files = [
        path
        for path in sorted(folder.iterdir())
        if path.suffix.lower() in _SUFFIXES
        and not path.name.startswith(".")
        and not path.name.endswith(_OURS)
        and not path.is_dir()
    ]
    return files or [f"{_name_file(folder)}: no file with labels in this folder"]


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
        yield from _parse_lines(data, name)
    else:
        yield from _parse_whole(data, name)


def _parse_whole(data: bytes, name: str) -> Iterator[Content]:
    """Yield the JSON value of a file, or those of its one list."""
    try:
        value = parse_json(data.decode("utf-8-sig"), name)
    except UnicodeDecodeError as error:
        yield f"{name}: not UTF-8 at byte {error.start}; save the file as UTF-8"
    except AnnotatorError as error:
        yield str(error)
    else:
        if not isinstance(value, list):
            yield name, value
        elif not value:
            yield f"{name}: an empty list; there are no labels in it"
        else:
            for n, record in enumerate(value, 1):
                yield f"{name}, record {n}", record


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


def _parse_lines(data: bytes, name: str) -> Iterator[Content]:
    for n, line in enumerate(io.BytesIO(data), 1):
        if not line.strip():
            continue
        where = f"{name}, line {n}"
        try:
            yield where, parse_json(line.decode("utf-8-sig"), name, line=n)
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
    elif not isinstance(content[1], dict):
        problems.add(
            f"{content[0]}: found {name_type(content[1])}, expected an object with a label"
        )
    else:
        try:
            yield from _read_record(content[1], content[0], scheme)
        except AnnotatorError as error:
            problems.add(str(error))


def _read_record(value: Mapping[str, Any], where: str, scheme: Scheme) -> Iterator[LabelRow]:
    if label_studio.is_min(value):
        raise AnnotatorError(f"{where}: Label Studio's JSON-MIN; export JSON instead")
    if potato.is_json(value):
        raise AnnotatorError(f"{where}: Potato's JSON; let Potato write CSV or TSV")
    if "trace_id" not in value and label_studio.is_task(value):
        return label_studio.read_task(value, where, scheme)
    return iter([LabelRow(where, value)])
