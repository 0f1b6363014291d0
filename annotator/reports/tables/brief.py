"""The frequency table that a terminal shows: a sentence, few columns, the largest share first."""

from collections.abc import Sequence
from dataclasses import replace

from annotator.base.text import format_count, sanitize_line
from annotator.reports.digits import (
    UNDEFINED,
    find_limits,
    format_bounds,
    format_limits,
    format_number,
    format_percent,
)
from annotator.reports.frequency import FrequencyTable, Row
from annotator.reports.notes import rank_notes
from annotator.reports.table import Line, Table
from validation import Estimate, Interval

# The marks of corrected shares.
MARKS = {
    "thin": "fewer than 5 labels where the judge gave this code",
    "blind": "no label has this code, the judge's or a person's",
    "few-tasks": "people found it in fewer than 5 tasks, so its interval is too narrow",
    "one-sided": "no label where the judge gave it, or none where it did not",
    "open": "undecided traces may have it, too",
}
_NOTES = 2  # that are shown
_OPEN = 0.05  # of the traces; with more undecided and failed ones the bounds are shown
_LONGEST_NAME = 28
_EXAMPLES, _QUOTES = 3, 2
_WIDTH = 80
_SHORT_CODE = 6  # one that is this short says little by itself: C3a


def make_brief(table: FrequencyTable, full: Table) -> Table:
    """Return the brief form of a table.

    Args:
        table: the counts, with its rows in the order in which they are shown.
        full: the same table with all columns and notes.
    """
    rows = [row for row in table.all_rows if row.count is not None or _has_share(row)]
    groups = [row for row in rows if row.kind == "group"]
    header, lines = _write_rows(rows, table)
    notes = rank_notes(full.notes, corrected=bool(table.correction))
    rest = len(notes) - _NOTES
    more = [f"{format_count(rest, 'more note')}: -v"] if rest > 0 else []
    return replace(
        full,
        title=f"{_write_title(table)}\n\n{_write_summary(table)}",
        header=header,
        rows=lines,
        notes=[*notes[:_NOTES], *more],
        lines=[*_explain_marks(rows), *_show_examples(rows, table)],
        below=len(groups),
        texts=1,
        records=(),
        bars=[_find_bar(row) for row in rows],
        brief=None,
    )


def _write_summary(table: FrequencyTable) -> str:
    """Return the result of a table in a sentence or two."""
    total = table.judged + table.undecided + table.failed
    if table.people:
        read = f"{table.labelled} of {format_count(total, 'labelled trace')} have a code."
    else:
        left = {name: getattr(table, name) for name in ("undecided", "failed", "skipped")}
        others = ", ".join(f"{count} {name}" for name, count in left.items() if count)
        read = f"{table.judged} of {format_count(total + table.skipped, 'trace')} judged"
        read += f" ({others})." if others else "."
    if not table.judged:
        return read
    codes = [row for row in table.rows if row.kind == "code"]
    if any(_has_share(row) for row in codes):
        top = max(codes, key=lambda row: find_share(row) or 0.0)
        return f"{read} {_describe_top(top, table)}"
    hits = sorted((row for row in codes if row.count), key=lambda row: -(row.count or 0))
    if not hits:
        return f"{read} No code was found."
    counts = ", ".join(f"{_write_name(row)} in {row.count}" for row in hits[:3])
    return f"{read} Found: {counts}."


def _describe_top(row: Row, table: FrequencyTable) -> str:
    share = _get_share(row)
    value = find_share(row)
    if not share or not value:
        unknown = any(row.share is None for row in table.rows)
        return f"No trace has any of the codes{' that the judge can find' if unknown else ''}."
    of = "traces with a code" if table.of_labelled else "judged traces"
    of = "traces" if row.labels or table.people else of
    text = f"Most common: {_write_name(row)}, {format_number(100 * value, 0)} % of {of}"
    if ends := find_limits(share):
        low, high = (format_number(100 * end, 0) for end in ends)
        text += f" ({100 * share.confidence:g} % interval {low} to {high})"
    return f"{text}, corrected by your labels." if row.labels else f"{text}."


def _write_title(table: FrequencyTable) -> str:
    parts = [f"{sanitize_line(table.rubric)} v{table.version}"]
    if table.group:
        parts.append(f"{sanitize_line(table.group[0], 40)} = {sanitize_line(table.group[1], 60)}")
    if table.people:
        parts.append(f"labels of {sanitize_line(', '.join(table.people.annotators), 60)}")
    else:
        parts.append(f"judge {sanitize_line(table.judge or '', 60)}")
    if table.run_name:
        parts.append(f"run {sanitize_line(table.run_name, 60)}")
    return ", ".join(parts)


def _write_rows(rows: Sequence[Row], table: FrequencyTable) -> tuple[Line, list[Line]]:
    """Return the header and the cells of the rows."""
    total = table.n + table.undecided + table.failed
    level = f"{100 * table.correction.confidence:g}" if table.correction else "95"
    shares = any(row.share and row.share.value is not None for row in rows)
    columns = {"code": [_write_name(row) for row in rows]}
    if shares:
        columns["traces"] = [_write_count(row, table.n) for row in rows]
        columns["judged %" if table.correction else "%"] = [format_percent(r.share) for r in rows]
    else:
        columns["found in"] = [_write_count(row, total) for row in rows]
    if table.correction:
        columns["corrected %"] = [format_percent(_get_share(row)) for row in rows]
    if table.correction or shares:
        columns[f"{level} % interval"] = [format_limits(_get_share(row)) for row in rows]
    if table.correction:
        columns["mark"] = [row.labels.mark if row.labels else UNDEFINED for row in rows]
    elif not shares or table.undecided + table.failed > _OPEN * total:
        columns["bounds %"] = [format_bounds(r.bounds) if r.bounds else UNDEFINED for r in rows]
    if shares and any(row.anywhere not in (None, row.count) for row in rows):
        columns["+secondary"] = [
            UNDEFINED if row.anywhere is None else str(row.anywhere) for row in rows
        ]
    return tuple(columns), list(zip(*columns.values(), strict=True))


def _write_name(row: Row) -> str:
    """Return a code, with its name if that says more than the code."""
    code = sanitize_line(row.code, _LONGEST_NAME)
    if row.kind == "group":
        return f"{code} (group)"
    name = sanitize_line(row.name, _LONGEST_NAME)
    tells = row.kind == "code" and name.lower().replace(" ", "_") != code.lower()
    return f"{code} ({name})" if tells and len(code) <= _SHORT_CODE else code


def _write_count(row: Row, n: int) -> str:
    return UNDEFINED if row.count is None else f"{row.count}/{n}"


def _get_share(row: Row) -> Interval | Estimate | None:
    return row.labels.corrected if row.labels else row.share


def find_share(row: Row) -> float | None:
    """Return the share of a row, corrected if it can be; None if it is undefined."""
    share = _get_share(row)
    return None if share is None else share.value


def _has_share(row: Row) -> bool:
    return find_share(row) is not None


def _find_bar(row: Row) -> tuple[float, float] | None:
    share = _get_share(row)
    ends = find_limits(share)
    return (share.value, ends[1]) if share and share.value is not None and ends else None


def _explain_marks(rows: Sequence[Row]) -> list[str]:
    marks = {row.labels.mark for row in rows if row.labels}
    return [f"{mark}: {text}." for mark, text in MARKS.items() if mark in marks]


def _show_examples(rows: Sequence[Row], table: FrequencyTable) -> list[str]:
    """Return a finding of each of the first codes, with its quotes cut to a line."""
    codes = [row.code for row in rows if row.code in table.examples][:_EXAMPLES]
    if not codes:
        return []
    lines = ["For example:"]
    for code in codes:
        example = table.examples[code]
        name = sanitize_line(code, _LONGEST_NAME)
        trace = sanitize_line(example.trace_id, _WIDTH - 4 - len(name))
        lines.append(f"  {name}  {trace}")
        for quote, source in example.quotes[:_QUOTES]:
            label = sanitize_line(source, 30)
            lines.append(f'    "{sanitize_line(quote.strip(), _WIDTH - 9 - len(label))}"  {label}')
    return lines
