"""Labels in a table: CSV or TSV, as a spreadsheet saves them."""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TextIO

from annotator.base.errors import AnnotatorError
from annotator.base.text import (
    decode_table,
    find_encoding_problem,
    find_repeated,
    sanitize_line,
    suggest,
    unescape_formula,
)
from annotator.labels import potato
from annotator.labels.checking import Problems, is_none
from annotator.labels.model import FIELDS, LabelRow
from annotator.rubrics import Scheme

_CELL = 1 << 24  # characters; csv's own limit, 128 thousand, is less than one long trace's quotes
_NEEDED = ("trace_id", "rubric", "annotator", "primary")
_COLUMNS = {*FIELDS, "instance_id", "user", "user_id"}


@dataclass(frozen=True, slots=True)
class LabelTable:
    """A table of labels: the file, the line and the cells of its header, and below it the filled
    lines with their numbers, or a problem. ``notice``: how it is read, if not as UTF-8.
    """

    name: str
    start: int
    columns: list[str]
    lines: list[tuple[int, list[str]] | str]
    notice: str = ""

    @property
    def is_ours(self) -> bool:
        """Whether its columns are those of our labels files, or Potato's."""
        return bool({"rubric", "secondary"} & {*self.columns}) or potato.is_table(self.columns)


def parse_table(data: bytes, name: str) -> LabelTable:
    """Return the cells of a table, without empty lines.

    The separator (comma, semicolon or tab) is the one that fits the names of the columns.
    """
    csv.field_size_limit(max(csv.field_size_limit(), _CELL))
    text, notice = decode_table(data, name)
    lines = _read_lines(io.StringIO(text, ""), name)
    first = next(lines, "")
    if isinstance(first, str):  # not even a header
        return LabelTable(name, 1, [], [first] if first else [])
    start, header = first
    columns = [_normalize_column(cell) for cell in header]
    return LabelTable(name, start, columns, list(lines), notice)


def read_table_rows(table: LabelTable, scheme: Scheme, problems: Problems) -> Iterator[LabelRow]:
    """Yield the rows of a table; problems are recorded. An empty cell is an absent field."""
    columns = table.columns
    for problem in table.lines if not columns else ():
        problems.add(str(problem))
    if not _check_columns(columns, f"{table.name}, line {table.start}", scheme, problems):
        return
    for content in table.lines:
        if isinstance(content, str):
            problems.add(content)
            continue
        line, cells = content
        where = f"{table.name}, line {line}"
        if problem := find_encoding_problem(cells):
            problems.add(f"{where}: {problem}")
        elif len(cells) > len(columns):
            count = f"{len(cells)} cells, but {len(columns)} columns"
            problems.add(f"{where}: {count}; put a text that has the separator in quotes")
        else:
            filled = zip(columns, cells, strict=False)
            row = {
                column: unescape_formula(cell if column == "trace_id" else cell.strip())
                for column, cell in filled
                if cell.strip()
            }
            try:
                is_potato = potato.is_table(columns)
                label = (
                    potato.read_line(row, where, scheme) if is_potato else _read_line(row, where)
                )
            except AnnotatorError as error:
                problems.add(str(error))
            else:
                yield from [label] if label else []


def read_columns(data: bytes) -> list[str]:
    """Return the names of the columns from (the beginning of) a table; [] if it is no table."""
    text, _ = decode_table(data, "")
    first = next(_read_lines(io.StringIO(text, ""), ""), "")
    return [] if isinstance(first, str) else [_normalize_column(cell) for cell in first[1]]


def _read_lines(file: TextIO, name: str) -> Iterator[tuple[int, list[str]] | str]:
    """Yield the filled lines with the numbers at which they begin; at last, a problem if any."""
    first = next((line for line in file if line.strip()), "")
    separator = max(
        ",;\t", key=lambda sign: (len(_COLUMNS & _split_header(first, sign)), first.count(sign))
    )
    file.seek(0)
    line = 1
    if excel := re.fullmatch(r"sep=([,;\t])", first.strip("\r\n")):
        separator, line = excel[1], 2
        file.readline()
    reader = csv.reader(file, delimiter=separator, strict=True)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield line, cells
            line = reader.line_num + 1 + bool(excel)
    except csv.Error as error:
        yield f"{name}, line {line}: not a table: {error}; is a quotation mark not closed?"


def _split_header(header: str, separator: str) -> set[str]:
    return {cell.strip().strip('"').strip().lower() for cell in header.split(separator)}


def _normalize_column(cell: str) -> str:
    """Return a column's name; Potato's contain codes, whose case matters."""
    name = cell.strip()
    return name.lower() if name.lower() in _COLUMNS else name


def _check_columns(columns: list[str], where: str, scheme: Scheme, problems: Problems) -> bool:
    for twice in find_repeated(filter(None, columns)):
        problems.add(f"{where}: the column {sanitize_line(twice, 80)!r} stands twice")
        return False
    if potato.is_table(columns):
        return True
    needed = [column for column in _NEEDED if column != "primary" or scheme.choice != "many"]
    needed += ["secondary"] if scheme.choice == "many" and "primary" not in columns else []
    missing = [column for column in needed if column not in columns]
    if len(missing) == len(needed):
        problems.add(
            f"{where}: neither JSON nor a table of labels; expected JSON lines, or a header with "
            f"trace_id and code, or with {', '.join(needed)}; has"
            f" {sanitize_line(', '.join(columns), 200)}"
        )
    for column in missing if len(missing) < len(needed) else []:
        near = suggest(column, (column for column in columns if column not in FIELDS))
        hint = near.replace("did you mean", "is it") or "; add it"
        problems.add(f"{where}: {column}: no such column{hint}")
    return not missing


def _read_line(row: Mapping[str, str], where: str) -> LabelRow:
    fields: dict[str, Any] = dict(row)
    if "secondary" in row:
        fields["secondary"] = _list(row["secondary"], r"[;,\n]")
        codes = fields["secondary"]
        has_primary = "primary" in row and not is_none(row["primary"])
        if has_primary and len(codes) == 1 and is_none(codes[0]):
            del fields["secondary"]  # "none" for "no further one": clear, and often written
    if "evidence" in row:
        fields["evidence"] = _list(row["evidence"], r"\n")
    if row.get("skipped", "").lower() == "true":
        fields["skipped"] = True
    fields.pop("spans", None)  # a cell holds no places
    return LabelRow(where, fields)


def _list(cell: str, separator: str) -> list[Any]:
    """Return a list from a cell: JSON, or separated parts (a quote may begin with a bracket)."""
    if cell.startswith("["):
        try:
            value = json.loads(cell)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, list):
            return value
    return [item.strip() for item in re.split(separator, cell) if item.strip()]
