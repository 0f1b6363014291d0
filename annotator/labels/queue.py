"""Label sheets as queues: the traces to label, in their order."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from annotator.base.errors import AnnotatorError
from annotator.base.files import open_checked
from annotator.base.text import sanitize_line
from annotator.labels.checking import Problems, RowCheck
from annotator.labels.reading import LabelFiles
from annotator.labels.sheets import read_columns
from annotator.rubrics import Rubric
from annotator.traces.formats.recognise import list_document_formats
from annotator.traces.records import parse_json

_TABLES = (".csv", ".tsv")
_JSON = (".jsonl", ".ndjson")
_NEEDED = ("trace_id", "rubric")
_HEAD = 1 << 20  # bytes of a file in which its first row ends, if it is a sheet
_WHOLE = "a whole number of at least 1"
_OWN = ("order", "rater")  # of the row; the others are of the trace


@dataclass(frozen=True, slots=True)
class Item:
    """A trace to label, and the columns of its row that are copied to its label. ``alias``: the
    id by which people see it, if its own is blinded.
    """

    trace_id: str
    extra: Mapping[str, Any] = field(default_factory=dict)
    alias: str = ""


def is_sheet(file: Path) -> bool:
    """Whether a file is a label sheet and not a trace: a table or JSON lines with ``trace_id`` and
    ``rubric``.
    """
    suffix = file.suffix.lower()
    try:
        if not file.is_file() or suffix not in (*_TABLES, *_JSON):
            return False
        with open_checked(file) as begun:
            head = begun.read(_HEAD)
        if suffix in _TABLES:
            return set(_NEEDED) <= set(read_columns(head))
        first = next((line for line in head.splitlines() if line.strip()), b"")
        record = parse_json(first.decode("utf-8-sig"), "")
    except (OSError, ValueError, AnnotatorError):  # ValueError: not UTF-8, or a NUL in the name
        return False
    formats = list_document_formats()
    if not isinstance(record, dict) or any(form.matches(record) for form in formats):
        return False
    return all(isinstance(record.get(name), str) for name in _NEEDED)


def read_sheet(file: Path, rubric: Rubric, rater: int = 1) -> list[Item]:
    """Return the traces of a sheet for one person (``rater`` 1 or 2), sorted by ``order``, each
    once. Rows without a rater are the first person's.

    Raises:
        AnnotatorError: it cannot be read, is for another rubric, a row is wrong, or none is theirs.
    """
    problems = Problems()
    ordered: list[tuple[float, Item]] = []
    first: dict[str, tuple[str, dict[str, Any]]] = {}
    raters: set[int] = set()
    for where, order, item in _read_items(file, rubric, problems):
        raters.add(item.extra["rater"])
        if item.extra["rater"] != rater:
            continue
        drawing = {name: value for name, value in item.extra.items() if name not in _OWN}
        position, before = first.setdefault(item.trace_id, (where, drawing))
        if position == where:
            ordered.append((order, item))
        elif before != drawing:
            shown_id = sanitize_line(item.trace_id, 120)
            problems.add(f"{where}: {shown_id!r} stands in {position} too, with other columns")
    problems.raise_if_any()
    if not ordered:
        reason = f"only for rater {min(raters)}" if raters else "nor for anybody"
        raise AnnotatorError(f"{sanitize_line(str(file))}: no rows for rater {rater}, {reason}")
    return [item for _, item in sorted(ordered, key=lambda pair: pair[0])]


def _read_items(
    file: Path, rubric: Rubric, problems: Problems
) -> Iterator[tuple[str, float, Item]]:
    scheme = rubric.scheme()
    for row in LabelFiles([file]).read_rows(scheme, problems):
        check = RowCheck(row, scheme, problems)
        rubric_id = check.name("rubric").strip()
        if rubric_id and rubric_id != scheme.id:
            check.wrong(
                "rubric",
                f"the sheet is for {sanitize_line(rubric_id, 64)!r}, not for {scheme.id!r}; give"
                " that rubric with --rubric",
            )
        check.sha256()
        order = check.integer("order", _WHOLE)
        extra = {
            "order": order,
            "task": check.text("task"),
            "split": check.text("split"),
            "inclusion_probability": check.probability(),
            "design": check.text("design"),
            "rater": check.integer("rater", _WHOLE) or 1,
        }
        trace_id = check.name("trace_id")
        if not check.failed:
            filled = {name: value for name, value in extra.items() if value is not None}
            yield row.where, math.inf if order is None else order, Item(trace_id, filled)
