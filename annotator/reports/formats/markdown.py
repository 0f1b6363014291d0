"""Markdown in which a stranger's text is text: no link, no image, no HTML comes of it."""

import re
from collections.abc import Sequence

from annotator.base.text import sanitize_line
from annotator.reports.table import Line, Table

# What starts or ends something in Markdown within a line, and what makes a bare address a link.
_SPECIAL = re.compile(
    r"[\\`*|~@]|(?<!\w)_|_(?!\w)|<(?=[A-Za-z/!?])|&(?=[#\w])|\[(?=\^)|\](?=[(\[:])"
    r"|:(?=//)|(?i:(?<=mailto)|(?<=xmpp)):|(?i:(?<=www))\."
)


def render(tables: Sequence[Table]) -> str:
    """Return the tables in Markdown."""
    return "\n\n".join("\n\n".join(_list_parts(table.readable)) for table in tables)


def _list_parts(table: Table) -> list[str]:
    title = escape(table.title)
    parts = [f"**{title}**" if table.header else title] if title else []
    if table.header:
        parts.append("\n".join(_write_lines(table.header, table.rows, table.texts)))
    if table.lines:
        parts.append("\n".join(f"- {escape(line.strip())}" for line in filter(None, table.lines)))
    if table.notes:
        parts.append(escape(" ".join(table.sentences)))
    return parts


def escape(text: str) -> str:
    """Return one line of text as Markdown that shows it, where it does not start the line."""
    return _SPECIAL.sub(r"\\\g<0>", text)


def quote_code(text: str) -> str:
    """Return a text as one line of code: in it no heading, link, mention, or HTML works."""
    line = sanitize_line(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    return f"{fence} {line} {fence}"  # Markdown takes off the blanks


def _write_lines(header: Line, rows: Sequence[Line], texts: int) -> list[str]:
    """Return the lines of a table; the header and the first columns are text, the rest digits."""
    rule = [*["---"] * texts, *["---:"] * (len(header) - texts)]
    body = ([*map(escape, row[:texts]), *row[texts:]] for row in rows)
    lines = [[*map(escape, header)], rule, *body]
    return [f"| {' | '.join(line)} |" for line in lines]
