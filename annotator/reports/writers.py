"""The frequency table in every format; the same digits in each."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from annotator.reports import latex
from annotator.reports.frequency import FrequencyTable, Row
from annotator.reports.markdown import escape, piped
from annotator.reports.votes import Votes
from annotator.text import harmless, one_line, unprintable_escaped
from validation import Agreement, Interval

if TYPE_CHECKING:
    from annotator.calibration.estimates import CodeEstimates
    from validation import Estimate

UNDEFINED = "-"


def percent(share: "Interval | Estimate | None") -> str:
    """Return a share in percent with one decimal, or "-" where it is undefined."""
    return UNDEFINED if share is None or share.value is None else f"{100 * share.value:.1f}"


def limits(share: "Interval | Estimate | None") -> str:
    """Return the interval in percent, ``[86.5, 98.9]``, or "-" where nothing is known.

    One that begins below 100 never looks as if it began there, nor does one that ends above 0 look
    as if it ended there. An undefined share has one if the limits are known all the same.
    """
    ends = known_limits(share)
    return UNDEFINED if ends is None else between(ends)


def between(ends: tuple[float, float]) -> str:
    """Return limits in percent, as :func:`limits` does."""
    low, high = (f"{100 * end:.1f}" for end in ends)
    low = ">99.9" if low == "100.0" and ends[0] < 1 else low
    high = "<0.1" if high == "0.0" and ends[1] > 0 else high
    return f"[{low}, {high}]"


def known_limits(share: "Interval | Estimate | None") -> tuple[float, float] | None:
    """Return the limits of a share, None where nothing is known of it."""
    if share is None or share.low is None or share.high is None:
        return None
    if share.value is None and (share.low, share.high) == (0, 1):
        return None
    return share.low, share.high


def about(table: FrequencyTable) -> list[str]:
    """Return what a table is of, in parts: rubric, group, judge, the run if others are alike, and
    how many traces there were.
    """
    group = []
    if table.group:
        group = [f"{one_line(table.group[0], 60)} = {one_line(table.group[1], 120)}"]
    run = [f"run {one_line(table.run_name, 120)}"] if table.run_name else []
    return [
        f"{one_line(table.rubric)} v{table.version} ({table.rubric_sha256[:12]})",
        *group,
        f"judge {one_line(table.judge, 120)} ({table.judge_sha256[:12]})",
        *(["a screen"] if table.screen else []),
        *run,
        f"judged {table.judged} (labelled {table.labelled}, none {table.none})",
        *([f"undecided {table.undecided}"] if table.undecided else []),
        f"skipped {table.skipped}",
        f"failed {table.failed}",
    ]


def heading(table: FrequencyTable) -> str:
    """Return the line over a table."""
    return "  ".join(about(table))


HEADER = ("code", "count", "n", "%", "95 % interval")
BOUNDS = "bounds %"
ANYWHERE = "primary or secondary"


def header(table: FrequencyTable) -> tuple[str, ...]:
    """Return the names of the columns of a table."""
    names = HEADER + ((BOUNDS,) if table.bounded else ())
    names += (ANYWHERE,) if table.choice == "primary" else ()
    if not table.correction:
        return names
    level = f"{100 * table.correction.confidence:g} % interval"
    return (*names, "corrected %", level, "labels", "mark")


def cells(row: Row, table: FrequencyTable) -> tuple[str, ...]:
    """Return one row's cells as text, in the order of :func:`header`."""
    shown: tuple[str, ...] = (
        one_line(row.code, 64) + (" (group)" if row.kind == "group" else ""),
        UNDEFINED if row.count is None else str(row.count),
        str(table.n),
        percent(row.share),
        limits(row.share),
    )
    if table.bounded:
        shown += (between(row.bounds) if row.bounds else UNDEFINED,)
    if table.choice == "primary":
        shown += (UNDEFINED if row.anywhere is None else str(row.anywhere),)
    if labels := row.labels:
        seen = f"{labels.flagged}+{labels.missed}"
        shown += (percent(labels.corrected), limits(labels.corrected), seen, labels.mark)
    elif table.correction:
        shown += (UNDEFINED,) * 4
    return shown


def as_table(tables: Sequence[FrequencyTable]) -> str:
    """Return the tables as aligned text for a terminal, without colours."""
    return "\n\n".join(_text(table) for table in tables)


def _text(table: FrequencyTable) -> str:
    rows = [header(table), *(cells(row, table) for row in table.all_rows)]
    lines = ruled(rows, below=len(table.code_groups))
    votes = ["", *votes_lines(table.votes)] if table.votes else []
    return "\n".join([heading(table), "", *lines, *votes, "", *notes(table)])


def notes(table: FrequencyTable) -> list[str]:
    """Return what a reader must know of a table, each note one line."""
    return [one_line(note, 2000) for note in table.notes]


def ruled(rows: Sequence[Sequence[str]], *, last: bool = True, below: int = 0) -> list[str]:
    """Return the lines of a table: aligned, ruled off below the heading and, where the last row is
    none, above it; ``below``: how many rows follow it, ruled off as well.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(widths[n]) if n == 0 else cell.rjust(widths[n]) for n, cell in enumerate(row)
        ).rstrip()
        for row in rows
    ]
    lines.insert(1, "-" * max(map(len, lines)))
    if below:
        lines.insert(len(lines) - below, lines[1])
    if last:
        lines.insert(len(lines) - 1 - (below and below + 1), lines[1])
    return lines


def votes_lines(votes: Votes) -> list[str]:
    """Return how far the votes agree, a line each."""
    lines = [f"votes unanimous  {_share(votes.unanimous)} of the traces with votes"]
    for pair in votes.pairs:
        kappa = pair.kappa
        shown = UNDEFINED if kappa.value is None else f"{kappa.value:.2f} {_kappa_limits(kappa)}"
        reason = f" ({kappa.reason})" if kappa.reason else ""
        lines.append(f"kappa  {one_line(pair.name, 120)}  {shown}{reason}  n {kappa.n}")
    lines.append(
        "flips: traces where some votes have the code and some have not, of those with any"
    )
    lines += [
        f"  {one_line(code, 64)}  {_share(flip)}"
        for code, flip in votes.flips.items()
        if flip.value is not None
    ]
    never = [one_line(code, 64) for code, flip in votes.flips.items() if flip.value is None]
    return lines + ([f"  in no vote: {', '.join(never)}"] if never else [])


def _share(share: Interval) -> str:
    return f"{share.k}/{share.n}  {percent(share)} %  {limits(share)}"


def _kappa_limits(kappa: Agreement) -> str:
    return f"[{max(kappa.low, -1.0):.2f}, {kappa.high:.2f}]"


def as_markdown(tables: Sequence[FrequencyTable]) -> str:
    """Return the tables in Markdown."""
    parts = []
    for table in tables:
        lines = piped([header(table), *(cells(row, table) for row in table.all_rows)])
        votes = votes_lines(table.votes) if table.votes else []
        items = ["", *(f"- {escape(line.strip())}" for line in votes)] if votes else []
        title, below = escape(heading(table)), escape(" ".join(notes(table)))
        parts.append("\n".join([f"**{title}**", "", *lines, *items, "", below]))
    return "\n\n".join(parts)


def as_latex(tables: Sequence[FrequencyTable]) -> str:
    """Return the tables for a paper."""
    sheets = []
    for table in tables:
        votes = [f"{line}." for line in votes_lines(table.votes)] if table.votes else []
        caption = [f"{heading(table)}.", f"Counted: {table.counted}.", *notes(table)]
        rows = [cells(row, table) for row in table.all_rows]
        name = "-".join((table.rubric, *(table.group or ()), table.run_name))
        below = len(table.code_groups)
        names = header(table)
        sheets.append(latex.Sheet(name, [*caption, *votes], names, rows, last=True, below=below))
    return latex.document(sheets)


_CSV = (
    *("rubric", "rubric_sha256", "judge", "judge_sha256", "run", "run_status", "limit", "kind"),
    *("code", "name", "count", "n", "percent", "low", "high", "method", "confidence", "reason"),
    *("bounds_low", "bounds_high", "primary_or_secondary"),
    *("labelled", "none", "undecided", "skipped", "failed", "flips", "flips_n"),
    *("attribute", "value", "corrected_percent", "corrected_low", "corrected_high"),
    *("corrected_method", "corrected_confidence", "labels_flagged", "labels_missed", "mark"),
    "notes",
)


def as_csv(tables: Sequence[FrequencyTable]) -> str:
    """Return all tables as one CSV, percent with one decimal; what is undefined is empty."""
    out = io.StringIO()
    write = csv.DictWriter(out, _CSV, restval="", lineterminator="\n")
    write.writeheader()
    for table in tables:
        common = {
            "rubric": _cell(table.rubric),
            "rubric_sha256": table.rubric_sha256,
            "judge": _cell(table.judge),
            "judge_sha256": table.judge_sha256,
            "run": table.run,
            "run_status": table.status,
            "limit": table.limit,
            "n": table.n,
            "labelled": table.labelled,
            "none": table.none,
            "undecided": table.undecided,
            "skipped": table.skipped,
            "failed": table.failed,
            "notes": " ".join(notes(table)),
        }
        if table.group:
            common |= dict(zip(("attribute", "value"), map(_cell, table.group), strict=True))
        for row in table.all_rows:
            own: dict[str, object] = {
                "kind": row.kind,
                "code": _cell(row.code),
                "name": _cell(row.name),
                "count": row.count,
                "reason": row.unknown,
                "primary_or_secondary": row.anywhere,
            }
            if flip := flips(row, table):
                own |= {"flips": flip.k, "flips_n": flip.n}
            if row.bounds:
                low, _, high = between(row.bounds).strip("[]").partition(", ")
                own |= {"bounds_low": low, "bounds_high": high}
            if row.share:
                low, _, high = limits(row.share).strip("[]").partition(", ")
                own |= {"percent": percent(row.share), "low": low, "high": high}
                own |= {"method": row.share.method, "confidence": row.share.confidence}
            own |= _corrected_cells(row.labels) if row.labels else {}
            filled = {key: "" if value == UNDEFINED else value for key, value in own.items()}
            write.writerow(common | filled)
    return out.getvalue().rstrip("\n")


def flips(row: Row, table: FrequencyTable) -> Interval | None:
    """Return the traces in which some votes have a code and some have not; None of what is no code,
    or without votes.
    """
    return table.votes.flips.get(row.code) if table.votes and row.kind == "code" else None


def _cell(text: str) -> object:
    return harmless(one_line(text))


def _corrected_cells(labels: "CodeEstimates") -> dict[str, object]:
    low, _, high = limits(labels.corrected).strip("[]").partition(", ")
    return {
        "corrected_percent": percent(labels.corrected),
        "corrected_low": low,
        "corrected_high": high,
        "corrected_method": labels.corrected.method,
        "corrected_confidence": labels.corrected.confidence,
        "labels_flagged": labels.flagged,
        "labels_missed": labels.missed,
        "mark": labels.mark,
    }


_NO_SHARE = dict.fromkeys(field.name for field in fields(Interval))


def _row_value(row: Row, table: FrequencyTable) -> dict[str, object]:
    share = row.share.as_dict() if row.share else {**_NO_SHARE, "reason": row.unknown}
    return {
        "code": row.code,
        "name": row.name,
        **share,
        "k": row.count,
        "n": table.n,
        "percent": percent(row.share),
        "interval_percent": limits(row.share),
        "bounds": dict(zip(("low", "high"), row.bounds, strict=True)) if row.bounds else None,
        "bounds_percent": between(row.bounds) if row.bounds else UNDEFINED,
        "primary_or_secondary": row.anywhere,
        **(_corrected_value(row.labels) if row.labels else {}),
    }


def as_json(tables: Sequence[FrequencyTable]) -> str:
    """Return the tables as JSON, with all that is needed to compute each number again."""
    value = [
        {
            "rubric": table.rubric,
            "version": table.version,
            "rubric_sha256": table.rubric_sha256,
            "choice": table.choice,
            "judge": table.judge,
            "judge_sha256": table.judge_sha256,
            "run": table.run,
            "run_status": table.status,
            "limit": table.limit,
            "judged": table.judged,
            "labelled": table.labelled,
            "none": table.none,
            "undecided": table.undecided,
            "skipped": table.skipped,
            "failed": table.failed,
            "screen": table.screen,
            "rejected_findings": table.rejected,
            "traces_with_rejected_findings": table.rejected_traces,
            "none_after_rejection": table.emptied,
            "outcome_unknown": table.outcome_unknown,
            "truncated": table.truncated,
            "votes": _votes_value(table.votes),
            "counted": table.counted,
            "group": dict(zip(("attribute", "value"), table.group, strict=True))
            if table.group
            else None,
            "labels": table.correction and table.correction.labels,
            "transferred": table.correction and table.correction.transferred,
            "rows": [_row_value(row, table) for row in table.rows],
            "code_groups": [_row_value(row, table) for row in table.code_groups],
            "notes": list(table.notes),
        }
        for table in tables
    ]
    return dumped(value)


def dumped(value: object) -> str:
    """Return JSON that is safe on a terminal and in UTF-8: what is not, is escaped in it."""
    text = json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)
    return unprintable_escaped(text)


def _corrected_value(labels: "CodeEstimates") -> dict[str, object]:
    return {
        "corrected": labels.corrected.as_dict(),
        "corrected_percent": percent(labels.corrected),
        "corrected_interval_percent": limits(labels.corrected),
        "precision": labels.precision.as_dict(),
        "recall": labels.recall.as_dict(),
        "labels_flagged": labels.flagged,
        "labels_missed": labels.missed,
        "mark": labels.mark,
    }


def _votes_value(votes: Votes | None) -> dict[str, object] | None:
    if votes is None:
        return None
    pairs = [
        {"first": pair.first, "second": pair.second, **pair.kappa.as_dict()} for pair in votes.pairs
    ]
    return {
        "unanimous": votes.unanimous.as_dict(),
        "ties": votes.ties,
        "failed": votes.failed,
        "pairs": pairs,
        "flips": {code: flip.as_dict() for code, flip in votes.flips.items()},
    }


WRITERS: dict[str, Callable[[Sequence[FrequencyTable]], str]] = {
    "table": as_table,
    "csv": as_csv,
    "json": as_json,
    "md": as_markdown,
    "latex": as_latex,
}
