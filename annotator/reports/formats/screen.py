"""Tables on a terminal: the cells of the plain ones, with weights, and bars for shares."""

import io
import re
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from annotator.reports.table import Line, Table

_BAR, _MIN_BAR = 30, 8  # columns of a bar for 100 %, and below which there is none
_EIGHTHS = " ▏▎▍▌▋▊▉"
_INTERVAL = re.compile(r"\[(.*), (.*)\]")


def render(tables: Sequence[Table], width: int) -> str:
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
        _show(table.readable, console)
    return out.getvalue().rstrip("\n")


def _show(table: Table, console: Console) -> None:
    if table.title:
        console.print(Text(table.title, "bold"))
    if table.header:
        if table.title:
            console.print()
        _show_rows(table, console)
    if table.lines:
        if table.header and table.notes:
            console.print()
        for line in table.prose:
            console.print(Text(line), soft_wrap=True)
    if table.notes:
        if table.header:
            console.print()
        for note in table.wrapped:
            console.print(Text(note, "dim"))


def _show_rows(table: Table, console: Console) -> None:
    names, *body = _pad(table.cells, table.texts)
    room = min(_BAR, console.width - cell_len(names) - 2)
    rule = Text("-" * cell_len(names), "dim")
    lines = []
    for line, bar in zip(body, table.bars or [None] * len(body), strict=True):
        text = Text(line, "dim" if bar and not bar[0] else "")
        if bar and room >= _MIN_BAR:
            text.append_text(_draw_bar(*bar, room))
        lines.append(text)
    for n in sorted({0, *table.rules}, reverse=True):
        lines.insert(n, rule)
    for row in (Text(names, "bold"), *lines):
        console.print(row, soft_wrap=True)


def _draw_bar(share: float, high: float, room: int) -> Text:
    """Return a share as a bar, and the rest of its interval as a pale one."""
    full, rest = divmod(max(share > 0, round(8 * room * share)), 8)
    bar = "█" * full + (_EIGHTHS[rest] if rest else "")
    return Text(f"  {bar}").append("░" * (round(room * high) - len(bar)), "dim")


def _pad(rows: Sequence[Line], texts: int) -> list[str]:
    """Return aligned lines, with the limits of intervals in columns of their own."""
    columns = [_align(column) for column in zip(*rows, strict=True)]
    widths = [max(map(cell_len, column)) for column in columns]
    lines = []
    for cells_ in zip(*columns, strict=True):
        blanks = [
            " " * (width - cell_len(cell)) for cell, width in zip(cells_, widths, strict=True)
        ]
        padded = enumerate(zip(cells_, blanks, strict=True))
        lines.append("  ".join(x + gap if n < texts else gap + x for n, (x, gap) in padded))
    return lines


def _align(column: Sequence[str]) -> list[str]:
    intervals = [_INTERVAL.fullmatch(cell) for cell in column]
    limits = [match.groups() for match in intervals if match]
    low, high = (max((len(ends[side]) for ends in limits), default=0) for side in (0, 1))
    return [
        f"[{match[1]:>{low}}, {match[2]:>{high}}]" if match else cell
        for match, cell in zip(intervals, column, strict=True)
    ]
