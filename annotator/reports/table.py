"""A table as a value, and the registry of the formats that write it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from importlib import import_module
from typing import Any, Literal

from annotator.base.errors import AnnotatorError
from annotator.base.plugins import is_plugin, load_plugin
from annotator.base.text import replace_surrogates, sanitize_line, wrap_line
from annotator.reports.digits import Share
from validation import Estimate

Line = tuple[str, ...]
Record = Mapping[str, Any]
Sort = Literal["rubric", "share"]  # the order of the rows of codes

# Format -> its module in annotator.reports.formats, whose render(tables) returns a text. A new one
# is a file there and its line here, or a plug-in.
FORMATS = {"table": "text", "csv": "csv", "json": "json", "md": "markdown", "latex": "latex"}


def flatten(value: Record, prefix: str = "") -> dict[str, Any]:
    """Return a mapping without mappings in it: ``{"a": {"b": 1}}`` becomes ``{"a_b": 1}``."""
    record: dict[str, Any] = {}
    for key, cell in value.items():
        name = prefix + key
        record |= flatten(cell, f"{name}_") if isinstance(cell, Mapping) else {name: cell}
    return record


@dataclass(frozen=True, slots=True, repr=False)
class Table:
    """A title, the names of the columns, rows of cells as they are printed, and notes.

    Attributes:
        header: empty in prose, such as the notes on all tables of a report.
        rows: the first ``texts`` cells are text, the others digits, or "-" for unknown.
        notes: sentences below all.
        lines: lines directly below the rows.
        last: the last row is apart, as are the ``below`` rows that follow it.
        instead: the lines that people read in place of rows and notes, if there is nothing to
            count.
        matrix: the columns are named as the rows; a format with little room numbers both.
        caption: replaces the title in a paper, and ``name`` is its label there.
        paper: the notes in a paper, None for all of them.
        bars: a share and its upper limit for each row that has a bar.
        brief: the table for a terminal of 80 columns: a sentence, few columns, two notes.
        records: the rows for machines, in full precision; without a share, with the reason.
        columns: the keys of the records that CSV and a data frame show, in order. One that ends in
            ``percent`` holds digits as a table prints them.
        schema: the types of the keys, for a file with types.
        document: the value in JSON; that of prose which opens a report holds all of it.
    """

    title: str = ""
    header: Line = ()
    rows: Sequence[Line] = ()
    notes: Sequence[str] = ()
    lines: Sequence[str] = ()
    last: bool = False
    below: int = 0
    instead: Sequence[str] = ()
    matrix: bool = False
    texts: int = 1
    caption: str = ""
    name: str = ""
    paper: "Sequence[str] | None" = None
    bars: "Sequence[tuple[float, float] | None]" = ()
    brief: "Table | None" = None
    records: Sequence[Record] = ()
    schema: Mapping[str, type] = field(default_factory=dict)
    columns: Sequence[str] = ()
    document: Record | None = None

    @property
    def readable(self) -> "Table":
        """The table as people read it: if there is nothing to count, prose with the reason."""
        if not self.instead:
            return self
        return replace(self, header=(), rows=(), notes=(), lines=[*self.instead, *self.lines])

    @property
    def sentences(self) -> list[str]:
        """The notes, each one line that is safe to show."""
        return [sanitize_line(note, 2000) for note in self.notes]

    @property
    def wrapped(self) -> list[str]:
        """The notes in lines of 80 characters."""
        return [wrap_line(note) for note in self.sentences]

    @property
    def prose(self) -> list[str]:
        """The lines; where they replace a table, in lines of 80 characters."""
        if self.header:
            return list(self.lines)
        return [wrap_line(line) for line in self.lines]

    @property
    def cells(self) -> list[Line]:
        """The header and the rows, numbered if they are those of a matrix."""
        if not self.matrix:
            return [self.header, *self.rows]
        numbers = [str(n) for n in range(1, len(self.rows) + 1)]
        numbered = zip(numbers, self.rows, strict=True)
        return [(self.header[0], *numbers), *((f"{n} {row[0]}", *row[1:]) for n, row in numbered)]

    @property
    def rules(self) -> list[int]:
        """The numbers of the rows that have a rule above them."""
        apart = len(self.rows) - self.below
        return [*([apart - 1] if self.last else ()), *([apart] if self.below else ())]

    def to(self, format: str) -> str:
        """Return the table in one of the formats: table, csv, json, md, latex, or a plug-in's.

        Raises:
            AnnotatorError: there is no such format.
        """
        return render([self], format)

    def to_pandas(self) -> Any:
        """Return the records as a data frame, or the cells as they are printed if there are none.

        Raises:
            AnnotatorError: pandas is not installed.
        """
        try:
            pandas: Any = import_module("pandas")
        except ImportError as error:
            raise AnnotatorError("to_pandas needs pandas: pip install pandas") from error
        if self.columns:
            return pandas.DataFrame(list(self.records), columns=list(self.columns))
        return pandas.DataFrame(list(self.rows), columns=list(self.header))

    def __str__(self) -> str:
        return (self.brief or self).to("table")

    def __repr__(self) -> str:
        size = f"{len(self.rows)} rows" if self.rows else "no rows"
        return f"<Table {sanitize_line(self.title, 120)}: {size}>"

    def _repr_html_(self) -> str:
        """Return the table as a notebook shows it; texts of traces are escaped."""
        table = self.readable
        parts = [f"<p><b>{escape(table.title)}</b></p>"] if table.title else []
        if table.header:
            rows = [_write_html_row("td", row, table.texts) for row in table.rows]
            parts.append(
                f"<table><thead>{_write_html_row('th', table.header, table.texts)}</thead>"
            )
            parts.append(f"<tbody>{''.join(rows)}</tbody></table>")
        parts += [f"<p>{escape(line)}</p>" for line in (*table.lines, *table.sentences)]
        return f"<div>{''.join(parts)}</div>"


def select_brief(tables: Sequence[Table]) -> list[Table]:
    """Return the brief tables of a report. Prose that opens it may have one for all of it."""
    if tables and tables[0].brief and not tables[0].header:
        return [tables[0].brief]
    return [table.brief or table for table in tables]


def render(tables: Sequence[Table], format: str) -> str:
    """Return the tables of one report in one of :data:`FORMATS`, or in a plug-in's format."""
    modules = {**FORMATS, "html": "html"}  # report --format html has pages of its own
    if format in modules:
        module: Any = import_module(f"annotator.reports.formats.{modules[format]}")
        return replace_surrogates(module.render(tables))
    if not is_plugin("formats", format):
        raise AnnotatorError(f"there is no format {format!r} of tables, only {', '.join(FORMATS)}")
    return replace_surrogates(load_plugin("formats", format).value(tables))


def describe_share(share: Share) -> dict[str, Any]:
    """Return a share and what it rests on, as records hold it."""
    inputs: Any = share.inputs if isinstance(share, Estimate) else {"k": share.k}
    return {
        **{"value": share.value, "low": share.low, "high": share.high},
        **{"count": inputs.get("k"), "n": share.n, "method": share.method},
        **{"confidence": share.confidence, "design_effect": inputs.get("design_effect")},
        **{"tasks": inputs.get("clusters"), "reason": share.reason},
    }


def name_rubric(rubric: str, version: int, sha256: str) -> str:
    """Return a rubric's id, version and the beginning of its hash, on one line."""
    return f"{sanitize_line(rubric)} v{version} ({sha256[:12]})"


def name_judge(judge: str, sha256: str) -> str:
    """Return a judge's id and the beginning of its hash, on one line."""
    return f"{sanitize_line(judge, 120)} ({sha256[:12]})"


def _write_html_row(tag: str, cells: Line, texts: int) -> str:
    sides = ["left"] * texts + ["right"] * (len(cells) - texts)
    aligned = zip(sides, map(escape, cells), strict=True)
    row = "".join(f'<{tag} style="text-align: {side}">{cell}</{tag}>' for side, cell in aligned)
    return f"<tr>{row}</tr>"
