"""Markdown in which a stranger's text is text: no link, no image, no HTML comes of it."""

import re
from collections.abc import Sequence

# What starts or ends something in Markdown within a line, and what makes a bare address a link.
_SPECIAL = re.compile(
    r"[\\`*|~@]|(?<!\w)_|_(?!\w)|<(?=[A-Za-z/!?])|&(?=[#\w])|\[(?=\^)|\](?=[(\[:])"
    r"|:(?=//)|(?i:(?<=mailto)|(?<=xmpp)):|(?i:(?<=www))\."
)


def escape(text: str) -> str:
    """Return one line of text as Markdown that shows it, where it does not start the line."""
    return _SPECIAL.sub(r"\\\g<0>", text)


def piped(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table in Markdown, the first row its heading.

    The heading and the first column are text and escaped, the other cells are numbers.
    """
    header, *body = rows
    rule = ("---", *["---:"] * (len(header) - 1))
    lines = [[*map(escape, header)], rule, *([escape(row[0]), *row[1:]] for row in body)]
    return [f"| {' | '.join(line)} |" for line in lines]
