"""Tables as aligned text."""

from collections.abc import Sequence

from annotator.base.text import measure
from annotator.reports.table import Line, Table

_WIDTH, _LEAST_BAR, _LONGEST_BAR = 80, 8, 30  # columns


def render(tables: Sequence[Table]) -> str:
    """Return the tables as aligned text, without colours."""
    return "\n\n".join(_write_table(table.readable) for table in tables)


def _write_table(table: Table) -> str:
    if not table.header:
        return "\n".join([*filter(None, [table.title]), *table.prose, *table.wrapped])
    lines = [table.title, ""] if table.title else []
    lines += _add_bars(align_lines(table.cells, table.rules, table.texts), table)
    if table.lines:
        lines += [*([""] if table.notes else ()), *table.lines]
    return "\n".join([*lines, *(["", *table.wrapped] if table.notes else ())])


def _add_bars(lines: list[str], table: Table) -> list[str]:
    """Return the lines of a table with a bar beside each share, if there is room for them."""
    width = max(map(measure, lines))
    room = min(_WIDTH - width - 3, _LONGEST_BAR)  # of 100 %; "|" takes a column
    if not table.bars or room < _LEAST_BAR:
        return lines
    rules = {n + n_rules + 2 for n_rules, n in enumerate(table.rules)} | {1}
    bars = iter(table.bars)
    lines_with_bars = []
    for n, line in enumerate(lines):
        bar = None if n == 0 or n in rules else next(bars)
        blanks = " " * (width - measure(line) + 2)
        lines_with_bars.append(f"{line}{blanks}{_draw_bar(*bar, room)}" if bar else line)
    return lines_with_bars


def _draw_bar(share: float, high: float, room: int) -> str:
    """Return ``#####|###``: up to the share, and on to the upper limit of its interval."""
    full, end = round(share * room), round(high * room)
    return f"{'#' * full}|{'#' * (end - full)}"


def align_lines(rows: Sequence[Line], rules: Sequence[int] = (), texts: int = 1) -> list[str]:
    """Return the lines of a table, the first row its header: aligned, and ruled off below the
    header and before those of the other rows whose numbers ``rules`` has. The first ``texts``
    columns are aligned to the left.
    """
    widths = [max(map(measure, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        blanks = [" " * (widths[n] - measure(cell)) for n, cell in enumerate(row)]
        padded = enumerate(zip(row, blanks, strict=True))
        lines.append(
            "  ".join(x + gap if n < texts else gap + x for n, (x, gap) in padded).rstrip()
        )
    rule = "-" * max(map(measure, lines))
    for n in sorted({0, *rules}, reverse=True):
        lines.insert(n + 1, rule)
    return lines
