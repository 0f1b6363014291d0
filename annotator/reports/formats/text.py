"""Tables as aligned text, for a terminal with weights."""

from collections.abc import Iterator, Sequence

from annotator.base.text import measure
from annotator.reports.table import Line, Table

_WIDTH, _SHORTEST_BAR, _LONGEST_BAR = 80, 8, 30  # columns
_WEIGHTS = {"bold": "\x1b[1m{}\x1b[0m", "dim": "\x1b[2m{}\x1b[0m"}
Weighted = tuple[str, str]  # a line and its weight, or ""


def render(tables: Sequence[Table], width: int = _WIDTH, *, weighted: bool = False) -> str:
    """Return the tables as aligned text, with bars if ``width`` columns have room for them.
    ``weighted``: with escape sequences. A narrow terminal wraps lines: no digit is left out.
    """
    texts = []
    for table in tables:
        lines = list(_list_lines(table.readable, width))
        weights = _WEIGHTS if weighted else {}
        texts.append("\n".join(weights.get(weight, "{}").format(line) for line, weight in lines))
    return "\n\n".join(texts)


def _list_lines(table: Table, width: int) -> Iterator[Weighted]:
    if table.title:
        yield table.title, "bold"
    if table.header:
        if table.title:
            yield "", ""
        yield from _list_rows(table, width)
    if table.lines:
        if table.header and table.notes:
            yield "", ""
        yield from ((line, "") for line in table.prose)
    if table.notes:
        if table.header:
            yield "", ""
        yield from ((note, "dim") for note in table.wrapped)


def _list_rows(table: Table, width: int) -> Iterator[Weighted]:
    """Yield the lines of a table, with a bar beside each share if there is room for it."""
    header, *lines = align_lines(table.cells, texts=table.texts)
    used = max(map(measure, (header, *lines)))
    room = min(width - used - 3, _LONGEST_BAR)  # of 100 %; "|" takes a column
    rule = "-" * used, "dim"
    yield from ((header, "bold"), rule)
    for n, (line, bar) in enumerate(zip(lines, table.bars or [None] * len(lines), strict=True)):
        if n and n in table.rules:
            yield rule
        if bar and room >= _SHORTEST_BAR:  # "#####|###": the share, and its upper limit
            full, end = (round(share * room) for share in bar)
            line += f"{' ' * (used - measure(line) + 2)}{'#' * full}|{'#' * (end - full)}"
        yield line, "dim" if bar and not bar[0] else ""


def align_lines(rows: Sequence[Line], *, texts: int = 1) -> list[str]:
    """Return rows as aligned lines; the first ``texts`` columns are aligned to the left."""
    widths = [max(map(measure, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        blanks = [" " * (widths[n] - measure(cell)) for n, cell in enumerate(row)]
        padded = enumerate(zip(row, blanks, strict=True))
        lines.append(
            "  ".join(x + gap if n < texts else gap + x for n, (x, gap) in padded).rstrip()
        )
    return lines
