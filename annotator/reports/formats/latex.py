"""LaTeX for a paper: tables ruled by booktabs, whatever strangers put into the names."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from textwrap import wrap

from annotator.base.text import sanitize_line
from annotator.reports.table import Table

PREAMBLE = (
    r"% Needs \usepackage{booktabs}, \usepackage{graphicx} and \usepackage[T1]{fontenc}, and"
    " pdflatex. A character that these fonts lack stands as its number: [U+4E2D]."
)
_WIDTH = 10  # of a column's name, in characters
_ONE_COLUMN = 6  # columns of a table that fit into one column of two
_INTERVAL = re.compile(r"(\S+) (\[.*\])")  # a share with its limits, which go below it
_SENTENCES = r"p{0.35\linewidth}"  # a column of sentences, which are wrapped
_SHRUNK = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}"  # to the text's width
_FLOATS = 12  # LaTeX gives up on some 50 floats that wait for a page

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    "…": r"\dots{}",
    **{char: f"\\{char}" for char in "{}$&#_%"},
}
# What T1 declares beyond ASCII, and every LaTeX knows.
_LETTERS = re.compile("[À-ÖØ-öø-ĥĨ-ķĹ-ľŁ-ňŊ-ťŨ-ž–—‘’“”„‚«»¡¿]")
_LIGATURE = re.compile("(?<=[-,'])(?=[-,'])")  # T1 makes one character of -- and '' and ,,
_MINUS = re.compile(r"-(?=[\d.])")


def render(tables: Sequence[Table]) -> str:
    """Return the tables for a paper, each with a label of its own, and the prose below them."""
    labels: set[str] = set()
    parts = [PREAMBLE]
    tables = [table.readable for table in tables]
    floats = [table for table in tables if table.header]
    for n, table in enumerate(floats, 1):
        parts.append(_write_float(table, _choose_label(table.name, labels)))
        if n % _FLOATS == 0 and n < len(floats):
            parts.append(r"\clearpage")
    texts = [table for table in tables if not table.header]
    if prose := [text for table in texts for text in (*_list_titles(table), *_list_notes(table))]:
        parts.append(r"\noindent{\footnotesize " + _write_prose(prose) + r"\par}")
    return "\n\n".join(parts)


def _list_titles(table: Table) -> list[str]:
    title = table.caption or (table.title and f"{table.title}.")
    return [title] if title else []


def _list_notes(table: Table) -> list[str]:
    notes = table.sentences if table.paper is None else table.paper
    lines = filter(None, table.lines)
    return [*notes, *(line if line.endswith((".", ":")) else f"{line}." for line in lines)]


def escape(text: str) -> str:
    """Return a stranger's text as LaTeX that shows it, on one line, and runs nothing of it."""
    text = unicodedata.normalize("NFC", sanitize_line(text, len(text) + 1))
    return "".join(map(_write_char, _LIGATURE.sub("\0", text)))


def _write_char(char: str) -> str:
    if char == "\0":
        return "{}"
    if char in _SPECIAL or char.isascii() or _LETTERS.match(char):
        return _SPECIAL.get(char, char)
    return f"[U+{ord(char):04X}]"


def _write_prose(sentences: Sequence[str]) -> str:
    return " ".join(escape(sentence.strip().replace("  ", "; ")) for sentence in sentences)


def _write_stacked(cell: str) -> str:
    """Return a number, with its limits below it if it has some."""
    match = _INTERVAL.fullmatch(cell)
    if not match:
        return _write_number(cell)
    value, limits = map(_write_number, match.groups())
    return rf"\begin{{tabular}}[t]{{@{{}}r@{{}}}}{value} \\ {{}}{limits}\end{{tabular}}"


def _write_number(cell: str) -> str:
    return "--" if cell == "-" else _MINUS.sub("$-$", escape(cell))


def _write_heading(name: str) -> str:
    """Return the name of a column, on several lines where that makes it narrower."""
    lines = [_guard(line) for line in wrap(name, _WIDTH, break_long_words=False)]
    if len(lines) < 2:
        return "".join(lines)
    return r"\begin{tabular}[b]{@{}r@{}}" + r" \\ ".join(lines) + r"\end{tabular}"


def _guard(text: str) -> str:
    """Return text for the start of a row, where LaTeX takes ``[`` and ``*`` for its own."""
    latex = escape(text)
    return "{}" + latex if latex[:1] in ("[", "*") else latex


def _write_row(texts: Sequence[str], cells: Iterable[str]) -> str:
    return " & ".join([_guard(texts[0]), *map(escape, texts[1:]), *cells]) + r" \\"


def _write_float(table: Table, label: str) -> str:
    # In a text of two columns a wide table takes both; in one of one column it is as any other.
    header, *rows = table.cells
    stacked = any(_INTERVAL.fullmatch(cell) for row in rows for cell in row)
    environment = "table*" if stacked or len(header) > _ONE_COLUMN else "table"
    texts = table.texts
    head = _write_row(header[:texts], map(_write_heading, header[texts:]))
    lines = [_write_row(cells[:texts], map(_write_stacked, cells[texts:])) for cells in rows]
    columns = "l" + _SENTENCES * (texts - 1) + "r" * (len(header) - texts)
    for n in reversed(table.rules):
        lines.insert(n, r"\midrule")
    notes = _write_prose(_list_notes(table))
    return "\n".join(
        [
            rf"\begin{{{environment}}}[htbp]",
            r"\centering\footnotesize\setlength{\tabcolsep}{3pt}",
            rf"\caption{{{_write_prose(_list_titles(table))}}}",
            rf"\label{{{label}}}",
            r"\smallskip",
            rf"{_SHRUNK}{{\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            head,
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}}",
            *([r"\par\smallskip", rf"\parbox{{\linewidth}}{{{notes}}}"] if notes else ()),
            rf"\end{{{environment}}}",
        ]
    )


def _choose_label(name: str, taken: set[str]) -> str:
    """Return a label that is not taken yet, and take it."""
    plain = "tab:" + (re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-") or "table")
    label, n = plain, 1
    while label in taken:
        n += 1
        label = f"{plain}-{n}"
    taken.add(label)
    return label
