"""Comparisons as tables for every format; the same digits in each."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from textwrap import fill
from typing import Any

from annotator.base.text import cut_middle, sanitize_line
from annotator.reports.comparison import Difference, GroupComparison
from annotator.reports.conditions import ConditionComparison
from annotator.reports.digits import UNDEFINED, format_p, format_percent, format_points
from annotator.reports.notes import rank_notes, select_notes
from annotator.reports.table import (
    Column,
    Line,
    Table,
    flatten,
    make_columns,
    name_judge,
    name_rubric,
)
from annotator.reports.tables.brief import (
    LEAST_NAME,
    WIDTH,
    round_percent,
)
from annotator.reports.tables.conditions import (
    explain_untested,
    format_relation,
    tabulate_conditions,
)
from annotator.rubrics import NONE
from validation import Estimate

_LONGEST_SIDE = 8  # of a name that heads a column

_COLUMNS = (
    *make_columns("rubric rubric_sha256 judges attribute first second kind code first_count"),
    *make_columns("first_n second_count second_n"),
    Column("difference", "difference_value"),
    *(Column(end, f"difference_{end}") for end in ("low", "high")),
    Column("corrected_difference", "corrected_value"),
    *make_columns("corrected_low corrected_high"),
    *(Column("method", "difference_method"), Column("test", "test_name")),
    *(Column("p", "test_p"), Column("p_holm", "adjusted"), *make_columns("confidence")),
    Column("corrected_method", "corrected_method"),
    Column("corrected_p", "corrected_test_p"),
    Column("corrected_p_holm", "corrected_adjusted"),
    *make_columns("pooled runs notes"),
)


def tabulate(comparisons: Sequence[GroupComparison | ConditionComparison]) -> list[Table]:
    """Return comparisons as tables. They print differences in percentage points; the records hold
    them as shares.
    """
    tables: list[Table] = []
    for compared in comparisons:
        if isinstance(compared, GroupComparison):
            tables.append(_make_table(compared))
        else:
            tables += tabulate_conditions(compared)
    return tables


def _make_table(compared: GroupComparison) -> Table:
    title = _write_title(compared)
    header, rows = _write_rows(compared)
    about: dict[str, Any] = {
        "rubric": compared.rubric.id,
        "rubric_sha256": compared.rubric.sha256,
    }
    judges = [{"judge": judge, "judge_sha256": sha256} for judge, sha256 in compared.judges]
    names = [compared.attribute, compared.first, compared.second]
    table = Table(
        title=title,
        header=header,
        rows=rows,
        notes=compared.notes,
        last=any(row.code == NONE for row in compared.rows),
        below=len(compared.code_groups),
        caption=f"{title}; differences in percentage points.",
        name="-".join((compared.rubric.id, *names)),
        records=[
            about | _make_record(row, compared) for row in (*compared.rows, *compared.code_groups)
        ],
        columns=_COLUMNS,
        document=asdict(compared) | about | {"judges": judges},
    )
    return replace(table, brief=_make_brief(compared, table))


def _make_brief(compared: GroupComparison, full: Table) -> Table:
    """Return the table for a terminal of 80 columns, the largest share first."""
    codes = [row for row in compared.rows if row.code != NONE]
    none = [row for row in compared.rows if row.code == NONE]
    rows = [*sorted(codes, key=_find_largest, reverse=True), *none]
    rows += sorted(compared.code_groups, key=_find_largest, reverse=True)
    corrected = any(row.corrected for row in rows)
    sides = [sanitize_line(side, 60) for side in (compared.first, compared.second)]
    if max(map(len, sides)) > _LONGEST_SIDE:
        sides = ["first", "second"]
    level = f"{100 * compared.confidence:g} % interval"
    gap = "pooled" if compared.pooled else "corrected" if corrected else "difference"
    columns: dict[str, list[str]] = {
        f"{sides[0]} %": [format_percent(row.first) for row in rows],
        f"{sides[1]} %": [format_percent(row.second) for row in rows],
        gap: [format_points(_get_gap(row))[0] for row in rows],
        level: [format_points(_get_gap(row))[1] for row in rows],
        "p (Holm)": [
            format_p(row.corrected_adjusted if row.corrected else row.adjusted) for row in rows
        ],
    }
    used = sum(2 + max(map(len, (name, *cells))) for name, cells in columns.items())
    names = [cut_middle(row.code, max(LEAST_NAME, WIDTH - used)) for row in rows]
    judges = ", ".join(dict.fromkeys(sanitize_line(judge, 60) for judge, _ in compared.judges))
    values = zip(("first", "second"), (compared.first, compared.second), compared.n, strict=True)
    sizes = ", ".join(
        f"{f'{side} ' if sides[0] == 'first' else ''}{sanitize_line(value, 60)} (n={n})"
        for side, value, n in values
    )
    rubric = f"{sanitize_line(compared.rubric.id)} v{compared.rubric.version}"
    by = sanitize_line(compared.attribute, 40)
    head = fill(f"{rubric}, judge {judges}, by {by}: {sizes}", WIDTH)
    return replace(
        full,
        title=f"{head}\n\n{fill(_summarize(compared), WIDTH)}",
        header=("code", *columns) if rows else (),
        rows=list(zip(names, *columns.values(), strict=True)),
        notes=select_notes(rank_notes(compared.notes, corrected=corrected)),
        records=(),
        brief=None,
    )


def _get_gap(row: Difference) -> Estimate:
    return row.corrected or row.difference


def _find_largest(row: Difference) -> float:
    return max(row.first.value or 0.0, row.second.value or 0.0)


def _summarize(compared: GroupComparison) -> str:
    """Return the result in a sentence: the code that differs most, by its p."""
    corrected = any(row.corrected for row in compared.rows)
    tests = [
        (row, row.corrected_test, row.corrected_adjusted)
        if corrected
        else (row, row.test, row.adjusted)
        for row in compared.rows
    ]
    family = sum(p is not None for *_, p in tests)
    tested = [
        (test.p, -abs(_get_gap(row).value or 0.0), row.code, row, p)
        for row, test, p in tests
        if test and test.p is not None and p is not None and row.code != NONE
    ]
    between = " and ".join(sanitize_line(x, 40) for x in (compared.first, compared.second))
    if not tested:
        why = explain_untested([test for _, test, _ in tests])
        return f"No code can be tested between {between}: {why}."
    *_, top, p = min(tested, key=lambda each: each[:3])
    gap, limits = format_points(_get_gap(top))
    level = f" ({100 * compared.confidence:g} % interval {limits})" if limits != UNDEFINED else ""
    values = "corrected by the labels"
    if not corrected:
        first, second = (round_percent(side.value or 0.0) for side in (top.first, top.second))
        values = f"{first} % against {second} %"
    result = f"{values}, {gap} points{level}, p {format_relation(p)} (Holm over {family} tests)"
    if p < 1 - compared.confidence:
        return f"Between {between}, {top.code} differs most: {result}."
    return (
        f"Between {between}, no code differs beyond chance; the smallest p is that of {top.code}:"
        f" {result}."
    )


def _make_record(row: Difference, compared: GroupComparison) -> dict[str, Any]:
    return {
        "judges": [f"{judge} {sha256}" for judge, sha256 in compared.judges],
        **{
            key: getattr(compared, key)
            for key in ("attribute", "kind", "confidence", "pooled", "runs")
        },
        **flatten(asdict(row)),
        **{"first": compared.first, "first_count": row.first.k},
        **{"second": compared.second, "second_count": row.second.k},
        "notes": "\n".join(compared.notes),
    }


def _write_rows(compared: GroupComparison) -> tuple[Line, list[Line]]:
    """Return the heading and the rows of a comparison as text; differences in points."""
    corrected = any(row.corrected for row in compared.rows)
    rows: list[Line] = []
    for row in (*compared.rows, *compared.code_groups):
        cells: Line = (
            sanitize_line(row.code, 64),
            f"{row.first.k}/{row.first.n}",
            format_percent(row.first),
            f"{row.second.k}/{row.second.n}",
            format_percent(row.second),
            *format_points(row.difference),
            format_p(row.test.p),
            format_p(row.adjusted),
        )
        if corrected:
            p = row.corrected_test.p if row.corrected_test else None
            cells += (
                *format_points(row.corrected),
                format_p(p),
                format_p(row.corrected_adjusted),
            )
        rows.append(cells)
    level = f"{100 * compared.confidence:g} % interval"
    header = ("code", "first", "%", "second", "%", "difference", level, "p", "p (Holm)")
    name = "corrected (pooled)" if compared.pooled else "corrected"
    more = (name, level, "p", "p (Holm)") if corrected else ()
    return (*header, *more), rows


def _write_title(compared: GroupComparison) -> str:
    values = zip(("first", "second"), (compared.first, compared.second), compared.n, strict=True)
    sides = ", ".join(f"{side} {sanitize_line(value, 80)} (n={n})" for side, value, n in values)
    rubric = compared.rubric
    judges = ", ".join(name_judge(judge, sha256) for judge, sha256 in compared.judges)
    return (
        f"{name_rubric(rubric.id, rubric.version, rubric.sha256)}"
        f"  judge {judges}  by {sanitize_line(compared.attribute, 60)}: {sides};"
        f" {compared.kind}, Holm over {compared.tests} tests"
    )
