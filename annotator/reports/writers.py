"""The frequency table in every format; the same digits in each."""

import csv
import io
import json
from collections.abc import Callable, Sequence

from annotator.reports.frequency import FrequencyTable, Row
from annotator.text import one_line
from validation import Interval

UNDEFINED = "-"


def percent(interval: Interval) -> str:
    """Return a share in percent with one decimal, or "-" where it is undefined."""
    return UNDEFINED if interval.value is None else f"{100 * interval.value:.1f}"


def limits(interval: Interval) -> str:
    """Return the interval in percent, ``[86.5, 98.9]``, or "-" where it is undefined."""
    if interval.low is None or interval.high is None:
        return UNDEFINED
    return f"[{100 * interval.low:.1f}, {100 * interval.high:.1f}]"


def heading(table: FrequencyTable) -> str:
    """Return the line over a table: rubric, judge, hash and how many traces there were."""
    return (
        f"{table.rubric} v{table.version} ({table.rubric_sha256[:12]})  judge {table.judge}  "
        f"judged {table.judged} (labelled {table.labelled}, none {table.none})  "
        f"skipped {table.skipped}  failed {table.failed}"
    )


def cells(row: Row) -> tuple[str, ...]:
    """Return one row's cells as text: code, count, n, percent, interval, anywhere."""
    anywhere = UNDEFINED if row.anywhere is None else str(row.anywhere)
    return (
        one_line(row.code, 64),
        UNDEFINED if row.share.reason else str(row.share.k),
        str(row.share.n),
        percent(row.share),
        limits(row.share),
        anywhere,
    )


HEADER = ("code", "count", "n", "%", "95 % interval", "primary or secondary")


def as_table(tables: Sequence[FrequencyTable]) -> str:
    """Return the tables as aligned text for a terminal, without colours."""
    return "\n\n".join(_text(table) for table in tables)


def _columns(table: FrequencyTable) -> int:
    return len(HEADER) if table.choice == "primary" else len(HEADER) - 1


def _text(table: FrequencyTable) -> str:
    columns = _columns(table)
    rows = [HEADER[:columns], *(cells(row)[:columns] for row in table.rows)]
    widths = [max(len(row[n]) for row in rows) for n in range(columns)]
    lines = [
        "  ".join(
            cell.ljust(widths[n]) if n == 0 else cell.rjust(widths[n]) for n, cell in enumerate(row)
        ).rstrip()
        for row in rows
    ]
    lines.insert(1, "-" * max(map(len, lines)))
    lines.insert(len(lines) - 1, "-" * len(lines[1]))
    return "\n".join([heading(table), "", *lines, "", *table.notes])


def as_markdown(tables: Sequence[FrequencyTable]) -> str:
    """Return the tables in Markdown."""
    parts = []
    for table in tables:
        columns = _columns(table)
        rows = [HEADER[:columns], ("---", *["---:"] * (columns - 1))]
        rows += [cells(row)[:columns] for row in table.rows]
        lines = [f"| {' | '.join(row)} |" for row in rows]
        notes = " ".join(table.notes)
        parts.append("\n".join([f"**{heading(table)}**", "", *lines, "", notes]))
    return "\n\n".join(parts)


def as_csv(tables: Sequence[FrequencyTable]) -> str:
    """Return all tables as one CSV; undefined values are empty, shares have full precision."""
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n")
    names = ("rubric", "rubric_sha256", "judge", "run", "code", "name", "count", "n", "percent")
    more = ("low", "high", "method", "confidence", "primary_or_secondary")
    write.writerow((*names, *more, "skipped", "failed"))
    for table in tables:
        for row in table.rows:
            share = row.share
            numbers = (
                "" if v is None else f"{100 * v:.1f}" for v in (share.value, share.low, share.high)
            )
            first = (table.rubric, table.rubric_sha256, table.judge, table.run, row.code, row.name)
            write.writerow(
                (
                    *map(_harmless, first),
                    "" if share.reason else share.k,
                    share.n,
                    *numbers,
                    share.method,
                    share.confidence,
                    "" if row.anywhere is None else row.anywhere,
                    table.skipped,
                    table.failed,
                )
            )
    return out.getvalue().rstrip("\n")


def _harmless(cell: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{cell}" if cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell


def as_json(tables: Sequence[FrequencyTable]) -> str:
    """Return the tables as JSON, with all that is needed to compute each number again."""
    value = [
        {
            "rubric": table.rubric,
            "version": table.version,
            "rubric_sha256": table.rubric_sha256,
            "choice": table.choice,
            "judge": table.judge,
            "run": table.run,
            "run_status": table.status,
            "judged": table.judged,
            "labelled": table.labelled,
            "none": table.none,
            "skipped": table.skipped,
            "failed": table.failed,
            "rejected_findings": table.rejected,
            "traces_with_rejected_findings": table.rejected_traces,
            "none_after_rejection": table.emptied,
            "outcome_unknown": table.outcome_unknown,
            "truncated": table.truncated,
            "counted": table.counted,
            "rows": [
                {
                    "code": row.code,
                    "name": row.name,
                    **row.share.as_dict(),
                    "percent": percent(row.share),
                    "interval_percent": limits(row.share),
                    "primary_or_secondary": row.anywhere,
                }
                for row in table.rows
            ],
            "notes": list(table.notes),
        }
        for table in tables
    ]
    return json.dumps(value, ensure_ascii=False, indent=2)


WRITERS: dict[str, Callable[[Sequence[FrequencyTable]], str]] = {
    "table": as_table,
    "csv": as_csv,
    "json": as_json,
    "md": as_markdown,
}
