"""Tables as one CSV: names that no spreadsheet takes for formulas, what is undefined empty."""

import csv
import io
from collections.abc import Sequence
from typing import Any

from annotator.base.text import escape_formula, sanitize_line
from annotator.reports.digits import UNDEFINED
from annotator.reports.table import Table


def render(tables: Sequence[Table]) -> str:
    """Return the records of all tables under one header; of tables without, the cells."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    recorded = [table for table in tables if table.columns]
    for table in recorded:
        if table is recorded[0]:
            writer.writerow(table.columns)
        for record in table.records:
            cells = [_write_cell(record.get(name), name) for name in table.columns]
            writer.writerow(cells)
    for table in () if recorded else tables:
        for row in (table.header, *table.rows) if table.header else ():
            writer.writerow([_copy_cell(cell) for cell in row])
    return out.getvalue().rstrip("\n")


def _copy_cell(cell: str) -> object:
    if cell == UNDEFINED:
        return ""
    try:
        float(cell)
    except ValueError:
        return _write_cell(cell)
    return cell  # a number may begin as a formula does


def _write_cell(value: Any, column: str = "") -> object:
    if column.endswith("percent"):  # digits as a table prints them
        return "" if value == UNDEFINED else value
    if isinstance(value, (list, tuple)):
        value = "; ".join(sanitize_line(each, 2000) for each in value)
    if isinstance(value, str):
        value = " ".join(sanitize_line(line, 2000) for line in value.split("\n"))
    return escape_formula(value)
