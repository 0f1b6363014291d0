"""The frequency table on a terminal: the cells of the plain one, with weights and bars."""

import io
import re
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from annotator.reports.frequency import FrequencyTable, Row
from annotator.reports.writers import cells, header, heading, notes, votes_lines

_BAR, _LEAST = 20, 6  # columns of a bar for 100 %, and below which there is none
_EIGHTHS = " ▏▎▍▌▋▊▉"
_INTERVAL = re.compile(r"\[(.*), (.*)\]")


def as_screen(tables: Sequence[FrequencyTable], width: int) -> str:
    """Return the tables with escape sequences for a terminal of ``width`` columns.

    On a narrow one the terminal wraps the lines of the table: no digit is left out.
    """
    out = io.StringIO()
    console = Console(
        file=out, force_terminal=True, color_system="standard", width=width, highlight=False
    )
    for n, table in enumerate(tables):
        if n:
            console.print()
        _show(table, console)
    return out.getvalue().rstrip("\n")


def _show(table: FrequencyTable, console: Console) -> None:
    console.print(Text(heading(table), "bold"))
    console.print()
    names, *body = _padded([header(table), *(cells(row, table) for row in table.all_rows)])
    room = min(_BAR, console.width - cell_len(names) - 2)
    rule = Text("-" * cell_len(names), "dim")
    lines = [Text(names, "bold"), rule]
    for line, row in zip(body, table.all_rows, strict=True):
        bar = _bar(row, room) if room >= _LEAST else ""
        lines.append(Text(line + bar, "dim" if _is_zero(row) else ""))
    lines.insert(1 + len(table.rows), rule)
    if table.code_groups:
        lines.insert(3 + len(table.rows), rule)
    lines += [Text(line) for line in ("", *votes_lines(table.votes))] if table.votes else []
    for one in lines:
        console.print(one, soft_wrap=True)
    console.print()
    for note in notes(table):
        console.print(Text(note, "dim"))


def _is_zero(row: Row) -> bool:
    corrected = row.labels and row.labels.corrected.value
    return row.share is not None and row.share.k == 0 and not corrected


def _bar(row: Row, room: int) -> str:
    """Return the judge's share as a bar; any share above 0 has a mark."""
    if row.share is None or not row.share.value:
        return ""
    full, rest = divmod(max(1, round(8 * room * row.share.value)), 8)
    return f"  {'█' * full}{_EIGHTHS[rest]}".rstrip()


def _padded(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return aligned lines; the limits of intervals stand below each other."""
    columns = [_aligned(column) for column in zip(*rows, strict=True)]
    widths = [max(map(cell_len, column)) for column in columns]
    lines = []
    for cells_ in zip(*columns, strict=True):
        blanks = [
            " " * (width - cell_len(cell)) for cell, width in zip(cells_, widths, strict=True)
        ]
        numbers = [before + cell for before, cell in zip(blanks[1:], cells_[1:], strict=True)]
        lines.append("  ".join((cells_[0] + blanks[0], *numbers)))
    return lines


def _aligned(column: Sequence[str]) -> list[str]:
    found = [_INTERVAL.fullmatch(cell) for cell in column]
    low, high = (max((len(one[side]) for one in found if one), default=0) for side in (1, 2))
    return [
        f"[{one[1]:>{low}}, {one[2]:>{high}}]" if one else cell
        for one, cell in zip(found, column, strict=True)
    ]
