"""The frequency table that a terminal shows: a sentence, few columns, the largest share first."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from annotator.base.text import (
    cut_names,
    format_count,
    measure,
    sanitize_line,
    wrap_line,
    wrap_lines,
)
from annotator.reports.digits import (
    UNDEFINED,
    find_bar,
    find_limits,
    format_bounds,
    format_limits,
    format_number,
    format_percent,
)
from annotator.reports.frequency import FrequencyTable, Row
from annotator.reports.notes import rank_notes, select_notes
from annotator.reports.table import Line, Table
from validation import Estimate, Interval

# The marks of corrected shares.
MARKS = {
    "thin": "fewer than 5 labels where the judge gave this code; if it gave it to no trace, fewer"
    " than 5 where a person did. Label more traces, or report its interval",
    "blind": "in the labelled traces neither the judge nor a person gave this code",
    "few-tasks": "people found it in fewer than 5 tasks, so its interval is too narrow",
    "one-sided": "no label where the judge gave it, or none where it did not",
    "open": "undecided traces may have it, and none of them has a label",
}
_PRIMARY_ONLY = "traces: with the code as the primary one; -v also counts secondary ones."
_OF_BOUNDS = ("bounds", "screens")  # notes
_OPEN = 0.05  # of the traces; with more undecided and failed ones the bounds are shown
LEAST_NAME = 16  # characters of a code's name
_EXAMPLES, _QUOTES = 3, 2
_NAMED = 3  # codes in the sentence
WIDTH = 80
_SHORT_CODE = 6  # one that is this short says little by itself: C3a
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def make_brief(table: FrequencyTable, full: Table) -> Table:
    """Return the brief form of ``full``; ``table`` has the rows in the order to be shown."""
    rows = select_rows(table)
    groups = [row for row in rows if row.kind == "group"]
    header, lines = write_rows(rows, table)
    is_cut = "in all" not in header and _has_secondary(rows)
    ranked = rank_notes(full.notes, corrected=bool(table.correction))
    notes = [x for x in ranked if getattr(x, "id", "") not in ("marks", *_OF_BOUNDS)]
    bounds = []
    if table.judged and any(name.startswith("bounds") for name in header):
        bounds = [x for x in ranked if getattr(x, "id", "") in _OF_BOUNDS]
    votes = full.lines[:2] if table.votes else []
    critic = [line for line in full.lines if line.startswith("critic: ")]
    blocks = [
        [line for note in bounds for line in wrap_line(note, "   ").splitlines()],
        [
            *explain_marks(row.labels.mark for row in rows if row.labels),
            *([_PRIMARY_ONLY] if "traces" in header and is_cut else []),
        ],
        [*votes, *critic],
        _show_examples(rows, table),
    ]
    return replace(
        full,
        title=f"{write_title(table)}\n\n{wrap_lines(write_summary(table))}",
        header=header,
        rows=lines,
        notes=select_notes(notes, len(full.lines) - len(votes) - len(critic)),
        lines=[line for block in blocks if block for line in ("", *block)][1:],
        below=len(groups),
        texts=1,
        records=(),
        bars=[find_bar(get_share(row)) for row in rows],
        brief=None,
    )


def select_rows(table: FrequencyTable) -> list[Row]:
    """Return the rows that the brief form shows: those with a count or a share."""
    return [row for row in table.all_rows if row.count is not None or _has_share(row)]


def write_summary(table: FrequencyTable) -> str:
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
    if any(_has_share(row) for row in codes) and not _has_unshared(codes):
        return f"{read} {_describe_top(codes, table)}"
    counted = sorted((row for row in codes if row.count), key=lambda row: -(row.count or 0))
    if not counted:
        return f"{read} No code was found."
    counts = ", ".join(f"{write_name(row)} in {row.count}" for row in counted[:_NAMED])
    among = ["judged", *(name for name in ("undecided", "failed") if getattr(table, name))]
    of = f" in the {total} {' or '.join(among)}" if among[1:] else ""
    return f"{read} Found{of}: {counts}."


def _describe_top(codes: Sequence[Row], table: FrequencyTable) -> str:
    """Return the largest share, and the codes that have it."""
    value = max(find_share(row) or 0.0 for row in codes)
    by = ""
    if table.correction:
        by = " of other traces" if table.correction.transferred else ""
        by = f", corrected by the labels{by}"
    if not value:
        if by:
            return f"No code has a share above 0{by}."
        unknown = " that the judge can find" if any(row.share is None for row in codes) else ""
        if table.judged == 1:
            return f"The judged trace has none of the codes{unknown}."
        return f"None of the {table.judged} judged traces has any of the codes{unknown}."
    tops = [row for row in codes if find_share(row) == value]
    names = [write_name(row) for row in tops]
    of = "traces with a code" if table.counts.of_labelled else "judged traces"
    if (table.people or table.correction) and not table.counts.of_labelled:
        of = "traces"
    size = f"{round_percent(value)} % of {of}"
    if len(tops) > 1:
        few = f"{', '.join(names[:-1])} and {names[-1]}"
        top = f"Most common: {few if len(tops) <= _NAMED else f'{len(tops)} codes'}, {size} each"
    else:
        top = f"Most common: {names[0]}, {size}"
        share = get_share(tops[0])
        if share and (ends := find_limits(share)):
            level = f"{100 * share.confidence:g} %"
            top += f" ({level} interval {round_percent(ends[0])} to {round_percent(ends[1])})"
    larger = [row.code for row in codes if table.correction and _may_exceed(row, value)]
    unknown = f"; not known: {', '.join(larger[:_NAMED])}" if larger else ""
    return f"{top}{by}{unknown}."


def _may_exceed(row: Row, value: float) -> bool:
    """Whether the share of a code is not known, and may be larger."""
    ends = find_limits(get_share(row))
    return not _has_share(row) and (ends is None or ends[1] > value)


def _has_unshared(rows: Sequence[Row]) -> bool:
    """Whether a code was found and has no share, because the judge cannot rule it out."""
    return any(row.count and not row.labels and not _has_share(row) for row in rows)


def round_percent(share: float) -> str:
    """Return a share in whole percent; below 1 % with a decimal."""
    return format_number(100 * share, 1 if 0 < share < 0.01 else 0)


def write_title(table: FrequencyTable) -> str:
    """Return the rubric, group, judge and run of a table, in a line."""
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


def write_rows(
    rows: Sequence[Row], table: FrequencyTable, more: Mapping[str, Sequence[str]] | None = None
) -> tuple[Line, list[Line]]:
    """Return the header and the cells of the rows, and of ``more`` columns, in 80 columns."""
    total = table.n + table.undecided + table.failed
    level = f"{100 * table.correction.confidence:g}" if table.correction else "95"
    shares = any(row.share and row.share.value is not None for row in rows)
    columns: dict[str, Sequence[str]] = {}
    if shares:
        columns["traces"] = [
            str(row.count)
            if table.counts.of_labelled and row.kind == "none"
            else _write_count(row, table.n)
            for row in rows
        ]
        columns["judged %" if table.correction else "%"] = [format_percent(r.share) for r in rows]
    else:
        columns["found in"] = [_write_count(row, total) for row in rows]
    if table.correction:
        columns["corrected %"] = [format_percent(get_share(row)) for row in rows]
    if table.correction or shares:
        columns[f"{level} % interval"] = [format_limits(get_share(row)) for row in rows]
    if table.correction:
        columns["mark"] = [row.labels.mark if row.labels else UNDEFINED for row in rows]
    elif not shares or table.undecided + table.failed > _OPEN * total or _has_unshared(rows):
        columns["bounds %"] = [format_bounds(r.bounds) if r.bounds else UNDEFINED for r in rows]
    if shares and _has_secondary(rows):
        columns["in all"] = [UNDEFINED if r.anywhere is None else str(r.anywhere) for r in rows]
    columns |= more or {}
    names = [write_name(row) for row in rows]
    if table.correction and _measure_columns(columns) + max(map(measure, names)) > WIDTH:
        columns.pop("in all", None)
    return fit_rows(names, columns)


def _has_secondary(rows: Sequence[Row]) -> bool:
    return any(row.anywhere not in (None, row.count) for row in rows)


def _measure_columns(columns: Mapping[str, Sequence[str]]) -> int:
    return sum(2 + max(map(measure, (title, *cells))) for title, cells in columns.items())


def fit_rows(
    names: Sequence[str], columns: Mapping[str, Sequence[str]], title: str = "code"
) -> tuple[Line, list[Line]]:
    """Return the header and the rows of a table of 80 columns. The names in its first column lose
    their middle if they are too long, but keep ``LEAST_NAME`` characters.
    """
    names = cut_names(names, max(LEAST_NAME, WIDTH - _measure_columns(columns)))
    return (title, *columns), list(zip(names, *columns.values(), strict=True))


def write_name(row: Row) -> str:
    """Return a code, with its name if that says more than the code."""
    code, name = sanitize_line(row.code, 64), sanitize_line(row.name, 64)
    if row.kind == "group":
        return f"{code} (group)"
    tells = row.kind == "code" and name.lower().replace(" ", "_") != code.lower()
    return f"{code} ({name})" if tells and len(code) <= _SHORT_CODE else code


def _write_count(row: Row, n: int) -> str:
    return UNDEFINED if row.count is None else f"{row.count}/{n}"


def get_share(row: Row) -> Interval | Estimate | None:
    """Return the share of a row, corrected if there is a calibration; None without one."""
    return row.labels.corrected if row.labels else row.share


def find_share(row: Row) -> float | None:
    """Return the share of a row, corrected if it can be; None if it is undefined."""
    share = get_share(row)
    return None if share is None else share.value


def _has_share(row: Row) -> bool:
    return find_share(row) is not None


def explain_marks(marks: Iterable[str]) -> list[str]:
    """Return lines of 80 columns: a sentence for each kind of mark among ``marks``."""
    return [line for text in list_marks(marks) for line in wrap_line(text, "   ").splitlines()]


def explain_labels(marks: Iterable[str]) -> str:
    """Return the meaning of the columns of labels and marks, in one line."""
    counts = "labels: where the judge gave the code + others where a person gave it."
    return " ".join((counts, *list_marks(marks)))


def list_marks(marks: Iterable[str]) -> list[str]:
    """Return a sentence for each kind of mark among ``marks``."""
    kinds = set(marks)
    return [f"{mark}: {text}." for mark, text in MARKS.items() if mark in kinds]


def _show_examples(rows: Sequence[Row], table: FrequencyTable) -> list[str]:
    """Return a finding of each of the first codes, with its quotes cut to a line."""
    codes = [row.code for row in rows if row.code in table.counts.examples][:_EXAMPLES]
    if not codes:
        return []
    lines = ["For example:"]
    for code in codes:
        trace_id, finding = table.counts.examples[code]
        name = sanitize_line(code, 28)
        trace = sanitize_line(trace_id, 1000)  # whole, to be copied
        gap = "  " if len(name) + measure(trace) <= WIDTH - 4 else "\n    "
        lines += f"  {name}{gap}{trace}".split("\n")
        for evidence in finding.evidence[:_QUOTES]:
            label = sanitize_line(evidence.source, 30)
            text = _COLOUR.sub("", evidence.quote).strip()
            lines.append(f'    "{sanitize_line(text, WIDTH - 9 - len(label))}"  {label}')
    return lines
