"""Tables as aligned text."""

from collections.abc import Sequence

from annotator.reports.table import Line, Table


def render(tables: Sequence[Table]) -> str:
    """Return the tables as aligned text, without colours."""
    return "\n\n".join(_write_table(table.readable) for table in tables)


def _write_table(table: Table) -> str:
    if not table.header:
        return "\n".join([*filter(None, [table.title]), *table.lines, *table.sentences])
    lines = [table.title, ""] if table.title else []
    lines += align_lines(table.cells, table.rules, table.texts)
    if table.lines:
        lines += [*([""] if table.notes else ()), *table.lines]
    return "\n".join([*lines, *(["", *table.sentences] if table.notes else ())])


def align_lines(rows: Sequence[Line], rules: Sequence[int] = (), texts: int = 1) -> list[str]:
    """Return the lines of a table, the first row its header: aligned, and ruled off below the
    header and before those of the other rows whose numbers ``rules`` has. The first ``texts``
    columns are aligned to the left.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(widths[n]) if n < texts else cell.rjust(widths[n])
            for n, cell in enumerate(row)
        ).rstrip()
        for row in rows
    ]
    rule = "-" * max(map(len, lines))
    for n in sorted({0, *rules}, reverse=True):
        lines.insert(n + 1, rule)
    return lines
