"""Comparisons in every format; the same digits in each."""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import asdict

from annotator.reports import latex
from annotator.reports.compare import Compared
from annotator.reports.markdown import escape, piped
from annotator.reports.writers import UNDEFINED, dumped, percent, ruled
from annotator.rubrics import NONE
from annotator.text import harmless, one_line
from validation import Estimate


def _rows(one: Compared) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the heading and the rows of a comparison as text; differences in points."""
    corrected = any(row.corrected for row in one.rows)
    rows: list[tuple[str, ...]] = []
    for row in one.rows:
        cells: tuple[str, ...] = (
            one_line(row.code, 64),
            f"{row.first.k}/{row.first.n}",
            percent(row.first),
            f"{row.second.k}/{row.second.n}",
            percent(row.second),
            *_points(row.difference),
            _p(row.test.p),
            _p(row.adjusted),
        )
        rows.append((*cells, *_points(row.corrected)) if corrected else cells)
    level = f"{100 * one.confidence:g} % interval"
    header = ("code", "first", "%", "second", "%", "difference", level, "p", "p (Holm)")
    return (*header, "corrected", level) if corrected else header, rows


def _points(one: Estimate | None) -> tuple[str, str]:
    """Return a difference and its interval in percentage points, "-" where there is none."""
    if one is None or one.value is None:
        return UNDEFINED, UNDEFINED
    value = f"{100 * one.value:+.1f}"
    if one.low is None or one.high is None:
        return value, UNDEFINED
    return value, f"[{100 * one.low:+.1f}, {100 * one.high:+.1f}]"


def _p(value: float | None) -> str:
    if value is None:
        return UNDEFINED
    return "<.0001" if value < 0.0001 else f"{value:.4f}"


def _title(one: Compared) -> str:
    name = one_line(one.attribute, 60)
    sides = f"first {one_line(one.first, 80)} (n={one.n[0]}), second {one_line(one.second, 80)}"
    judges = ", ".join(f"{one_line(judge, 120)} ({sha256[:12]})" for judge, sha256 in one.judges)
    return (
        f"{one_line(one.rubric.id)} v{one.rubric.version} ({one.rubric.sha256[:12]})"
        f"  judge {judges}  by {name}:"
        f" {sides} (n={one.n[1]}); {one.kind}, Holm over {one.tests} tests"
    )


def as_table(compared: Sequence[Compared]) -> str:
    """Return comparisons as aligned text for a terminal."""
    parts = []
    for one in compared:
        header, rows = _rows(one)
        lines = ruled([header, *rows], last=_ends_in_none(one))
        parts.append("\n".join([_title(one), "", *lines, "", *_notes(one)]))
    return "\n\n".join(parts)


def as_markdown(compared: Sequence[Compared]) -> str:
    """Return comparisons in Markdown."""
    parts = []
    for one in compared:
        header, rows = _rows(one)
        lines = piped([header, *rows])
        title, below = escape(_title(one)), escape(" ".join(_notes(one)))
        parts.append("\n".join([f"**{title}**", "", *lines, "", below]))
    return "\n\n".join(parts)


def as_latex(compared: Sequence[Compared]) -> str:
    """Return comparisons for a paper."""
    sheets = []
    for one in compared:
        name = "-".join((one.rubric.id, one.attribute, one.first, one.second))
        caption = [f"{_title(one)}; differences in percentage points.", *_notes(one)]
        sheets.append(latex.Sheet(name, caption, *_rows(one), last=_ends_in_none(one)))
    return latex.document(sheets)


def _ends_in_none(one: Compared) -> bool:
    """Whether none is compared, too: it stands last, and apart."""
    return any(row.code == NONE for row in one.rows)


def _notes(one: Compared) -> list[str]:
    return [one_line(note, 2000) for note in one.notes]


def as_csv(compared: Sequence[Compared]) -> str:
    """Return comparisons as one CSV; differences in points, what is undefined is empty."""
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n")
    write.writerow(_COLUMNS)
    for one in compared:
        judges = "; ".join(f"{judge} {sha256}" for judge, sha256 in one.judges)
        about = (one.rubric.id, one.rubric.sha256, judges)
        names = (*about, one.attribute, one.first, one.second, one.kind)
        common = [harmless(one_line(name)) for name in names]
        for row in one.rows:
            numbers: list[object] = [row.first.k, row.first.n, row.second.k, row.second.n]
            for gap in (row.difference, row.corrected):
                value, interval = _points(gap)
                low, _, high = interval.strip("[]").partition(", ")
                numbers += ["" if cell == UNDEFINED else cell for cell in (value, low, high)]
            tests = [row.difference.method, row.test.name, row.test.p, row.adjusted]
            method = row.corrected.method if row.corrected else ""
            more = [one.confidence, method, "; ".join(one.runs), " ".join(_notes(one))]
            write.writerow([*common, harmless(one_line(row.code)), *numbers, *tests, *more])
    return out.getvalue().rstrip("\n")


_COLUMNS = (
    *("rubric", "rubric_sha256", "judges", "attribute", "first", "second", "kind", "code"),
    *("first_count", "first_n", "second_count", "second_n", "difference", "low", "high"),
    *("corrected_difference", "corrected_low", "corrected_high", "method", "test", "p", "p_holm"),
    *("confidence", "corrected_method", "runs", "notes"),
)


def as_json(compared: Sequence[Compared]) -> str:
    """Return comparisons as JSON, with all that is needed to compute each number again."""
    values = []
    for one in compared:
        value = asdict(one)
        value["rubric"] = one.rubric.id
        value["rubric_sha256"] = one.rubric.sha256
        value["judges"] = [{"judge": judge, "judge_sha256": own} for judge, own in one.judges]
        values.append(value)
    return dumped(values)


WRITERS: dict[str, Callable[[Sequence[Compared]], str]] = {
    "table": as_table,
    "csv": as_csv,
    "json": as_json,
    "md": as_markdown,
    "latex": as_latex,
}
