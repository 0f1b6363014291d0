"""The gate as tables, for a terminal, a pull request and machines, and as JUnit's test cases."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from statistics import median
from typing import Any
from xml.sax.saxutils import quoteattr

from annotator import __version__
from annotator.base.text import (
    escape_controls,
    format_count,
    list_first,
    sanitize_line,
    wrap_lines,
)
from annotator.reports.digits import (
    UNDEFINED,
    Share,
    format_limits,
    format_number,
    format_p,
    format_percent,
    format_points,
)
from annotator.reports.gate import POWER, GatedRubric, GateRow
from annotator.reports.notes import select_notes
from annotator.reports.table import Table, render
from annotator.reports.tables.brief import fit_rows, round_percent
from annotator.reports.tables.comparison import round_points

_ORDER = ("worse", "moved", "not decided", "better", "held")
_SIDES = ("base", "new")
_NAMED = 3  # codes in a sentence


def render_gate(rubrics: Sequence[GatedRubric], format: str, *, verbose: bool = False) -> str:
    """Return the gate as ``junit``, or in a format of tables; ``md`` and ``table`` are brief if not
    ``verbose``.
    """
    if format == "junit":
        suites = "\n".join(map(_write_suite, rubrics))
        return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n{suites}\n</testsuites>'
    tables = tabulate(rubrics)
    if format == "md":
        quoted = [(table.brief or table, table) for table in tables]
        tables = [
            replace(brief, lines=full.lines, notes=full.notes if verbose else brief.notes)
            for brief, full in quoted
        ]
    elif not verbose:
        tables = [table.brief or table for table in tables] if format == "table" else tables
    return render(tables, format)


def tabulate(rubrics: Sequence[GatedRubric]) -> list[Table]:
    """Return the gate of each rubric as a table, in percent; its ``lines`` are quotes."""
    return [_make_table(gated) for gated in rubrics]


def _make_table(gated: GatedRubric) -> Table:
    rows = [*_sort(gated.rows), *_sort(gated.groups)]
    level = f"{100 * gated.compared.confidence:g} % interval"
    columns: dict[str, list[str]] = {
        "word": [row.word for row in rows],
        **{side: [_round_share(getattr(row, side)) for row in rows] for side in _SIDES},
        "difference": [round_points(row.difference) for row in rows],
        "p (Holm)": [format_p(row.adjusted) for row in rows],
        "more": [UNDEFINED if row.more is None else str(_round_up(row.more)) for row in rows],
    }
    header, lines = fit_rows([sanitize_line(row.code, 64) for row in rows], columns)
    notes = [_explain(gated), *_list_reasons(rows), *gated.notes]
    brief = Table(
        title=wrap_lines(summarize(gated)),
        header=header,
        rows=lines,
        texts=2,
        below=len(gated.groups),
        notes=[notes[0], *select_notes(notes[1:])],
    )
    shares = (*("base %", level, "new %", level, "difference", level), "p", "p (Holm)")
    return replace(
        brief,
        title=summarize(gated),
        header=("code", "word", *shares, f"more {_name_unit(gated)}", "detects"),
        rows=[_write_row(row) for row in rows],
        lines=[
            f'{finding.code}, {trace_id}: "{sanitize_line(finding.evidence[0].quote, 160)}"'
            f" ({finding.evidence[0].source})"
            for trace_id, finding in gated.quotes
        ],
        notes=notes,
        document=_describe(gated),
        brief=brief,
    )


def _sort(rows: Sequence[GateRow]) -> list[GateRow]:
    return sorted(rows, key=lambda row: (_ORDER.index(row.word), -(row.difference.value or 0.0)))


def _round_share(share: Share) -> str:
    return UNDEFINED if share.value is None else round_percent(share.value)


def _round_up(number: int) -> int:
    """Return a number with two digits: 141 is 150."""
    unit: int = 10 ** max(0, len(str(number)) - 2)
    return -(-number // unit) * unit


def _write_row(row: GateRow) -> tuple[str, ...]:
    shares = [
        text
        for share in (row.base, row.new)
        for text in (format_percent(share), format_limits(share))
    ]
    detects = UNDEFINED if row.detects is None else format_number(100 * row.detects, 1)
    more = UNDEFINED if row.more is None else str(row.more)
    p_values = format_p(row.test.p), format_p(row.adjusted)
    return (row.code, row.word, *shares, *format_points(row.difference), *p_values, more, detects)


def summarize(gated: GatedRubric) -> str:
    """Return the result in a few sentences."""
    rows = (*gated.rows, *gated.groups)
    parts = []
    for word in ("worse", "moved", "better"):
        if gaps := [_write_gap(row) for row in rows if row.word == word]:
            parts.append(f"{word.capitalize()}: {list_first(gaps, _NAMED)}.")
    if gated.exit_code == 0:
        which = "No other share" if any(row.word == "moved" for row in rows) else "No share"
        parts.append(f"{which} rose by more than {_write_limit(gated)} points.")
    elif gated.exit_code == 4:
        parts.insert(0, "Not decided.")
    results = [row.word for row in gated.rows]
    counts = [f"{results.count(word)} {word}" for word in reversed(_ORDER) if word in results]
    text = f"{format_count(len(results), 'code')}: {', '.join(counts)}."
    if numbers := [row.more for row in rows if row.more is not None]:
        unit = _name_unit(gated)
        unit += " of new tasks" if unit == "traces" else ""
        text += f" At least {_round_up(min(numbers))} more {unit} a side are needed to decide one."
    return " ".join([*parts, text])


def _write_limit(gated: GatedRubric) -> str:
    return f"{100 * gated.tolerance:g}"


def _name_unit(gated: GatedRubric) -> str:
    return "labels" if gated.rows[0].corrected else "traces"


def _write_gap(row: GateRow) -> str:
    points, limits = format_points(row.difference)
    return f"{sanitize_line(row.code, 64)} {points} points {limits}"


def _explain(gated: GatedRubric) -> str:
    """Return what was compared, and how to read the table."""
    compared = gated.compared
    sizes = zip(_SIDES, compared.values, compared.n, strict=True)
    sides = ", ".join(f"{side} {name} (n={n})" for side, name, n in sizes)
    text = (
        f"{compared.rubric.id} v{compared.rubric.version}, judge {compared.judges[0][0]}: {sides},"
        f" {compared.kind}. Percent; difference: new - base in points, with a"
        f" {100 * compared.confidence:g} % interval. Tolerance {_write_limit(gated)} points."
    )
    if rises := [row.detects for row in gated.rows if row.detects is not None]:
        text += (
            f" This finds a rise of {format_number(100 * median(rises), 0)} points with"
            f" {100 * POWER:g} % power (median of the codes)."
        )
    return text


def _list_reasons(rows: Sequence[GateRow]) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.word == "not decided" and row.reason:
            reasons.setdefault(row.reason, []).append(row.code)
    return [f"Not decided, {why}: {', '.join(codes)}." for why, codes in reasons.items()]


# For machines


def _describe(gated: GatedRubric) -> dict[str, Any]:
    compared = gated.compared
    sizes = zip(compared.runs, compared.values, compared.n, strict=True)
    sides = [{"run": id_, "name": name, "n": n} for id_, name, n in sizes]
    return {
        "tool": f"failure-annotator {__version__}",
        **dict(zip(_SIDES, sides, strict=True)),
        **{"rubric": compared.rubric.id, "rubric_sha256": compared.rubric.sha256},
        **dict(zip(("judge", "judge_sha256"), compared.judges[0], strict=True)),
        **{"exit_code": gated.exit_code, "tolerance": gated.tolerance, "power": POWER},
        **{"confidence": compared.confidence, "kind": compared.kind},
        "rows": [asdict(row) for row in gated.rows],
        "groups": [asdict(row) for row in gated.groups],
        "left_out": gated.left_out,
        "drift": [asdict(each) for each in gated.drift],
        "quotes": [{"trace_id": name, **asdict(finding)} for name, finding in gated.quotes],
        "notes": gated.notes,
    }


def _write_suite(gated: GatedRubric) -> str:
    """Return a test case for each row: worse is a failure, not decided is skipped, and so is moved
    in a group that is not decided.
    """
    rows = (*gated.rows, *gated.groups)
    name = quoteattr(f"annotate gate {gated.compared.rubric.id}")
    lines, tags = [], []
    for row in rows:
        text = f"{row.word}: {_write_gap(row)}, p {format_p(row.adjusted)} (Holm)"
        is_open = row.word == "not decided" or (row.word == "moved" and row.reason)
        tag = "failure" if row.word == "worse" else "skipped" if is_open else ""
        if is_open:
            text += f"; {row.reason or f'{row.more} more {_name_unit(gated)} a side would decide'}"
        message = quoteattr(escape_controls(text))
        case = f"<testcase classname={name} name={quoteattr(escape_controls(row.code))}"
        lines.append(f"{case}><{tag} message={message}/></testcase>" if tag else f"{case}/>")
        tags.append(tag)
    counts = f'failures="{tags.count("failure")}" skipped="{tags.count("skipped")}"'
    cases = "\n".join(lines)
    return f'<testsuite name={name} tests="{len(rows)}" {counts}>\n{cases}\n</testsuite>'
