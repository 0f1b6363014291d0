"""Comparisons as tables for every format; the same digits in each."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from annotator.base.text import cut_middle, sanitize_line, wrap_line, wrap_lines
from annotator.reports.comparison import Difference, GroupComparison
from annotator.reports.conditions import ConditionComparison
from annotator.reports.digits import UNDEFINED, Share, format_number, format_p, format_points
from annotator.reports.notes import select_notes
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
    WITHOUT_CODE,
    explain_untested,
    format_relation,
    name_columns,
    rank_comparison_notes,
    round_share,
    tabulate_conditions,
    write_head,
    write_share,
)
from annotator.rubrics import NONE
from validation import Estimate, Interval

_LONGEST_SIDE = 13  # of a name that heads a column

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
    *make_columns("pooled runs notes first_low first_high second_low second_high"),
    *(
        Column(f"corrected_{side}{end.replace('_value', '')}", f"corrected_{side}{end}")
        for side in ("first", "second")
        for end in ("_value", "_low", "_high")
    ),
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
    title, level = _write_title(compared), f"{100 * compared.confidence:g} %"
    header, rows, blocks = _write_rows(compared)
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
        blocks=blocks,
        notes=compared.notes,
        last=any(row.code == NONE for row in compared.rows),
        below=len(compared.code_groups),
        caption=f"{title}; percent and percentage points, {level} intervals.",
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
    values = (compared.first, compared.second)
    names = name_columns(values, _LONGEST_SIDE)
    # A pooled difference has no shares of its own.
    heads = [f"{name} judged" for name in names] if compared.pooled else names
    shares = [_choose_shares(row, pooled=compared.pooled) for row in rows]
    columns: dict[str, list[str]] = {
        heads[0]: [round_share(share) for share, _ in shares],
        heads[1]: [round_share(share) for _, share in shares],
        "pooled" if compared.pooled else "difference": [_round_points(_get_gap(x)) for x in rows],
        "p (Holm)": [
            format_p(row.corrected_adjusted if row.corrected else row.adjusted) for row in rows
        ],
    }
    used = sum(2 + max(map(len, (name, *cells))) for name, cells in columns.items())
    codes_ = [cut_middle(row.code, max(LEAST_NAME, WIDTH - used)) for row in rows]
    first = ("alone", "few-labels", "corrected") if corrected else ("alone",)
    return replace(
        full,
        title=f"{write_head(compared, values, names)}\n\n{wrap_lines(_summarize(compared))}",
        header=("code", *columns) if rows else (),
        rows=list(zip(codes_, *columns.values(), strict=True)),
        lines=wrap_line(_explain_cells(compared, corrected=corrected), "").split("\n")
        if rows
        else (),
        notes=select_notes(rank_comparison_notes(compared.notes, first)),
        records=(),
        brief=None,
    )


def _explain_cells(compared: GroupComparison, *, corrected: bool) -> str:
    text = "Percent and percentage points"
    if compared.pooled:
        text += "; the differences and p, not the shares, are corrected by the labels of both sides"
    elif corrected:
        text += "; shares, differences and p are corrected by the labels"
    level = f"{100 * compared.confidence:g} %"
    return f"{text}. Intervals ({level}) are not adjusted for the number of tests; p is."


def _choose_shares(row: Difference, *, pooled: bool) -> tuple[Share | None, Share | None]:
    if row.corrected and not pooled:
        return row.corrected_first, row.corrected_second
    return row.first, row.second


def _round_points(gap: Estimate) -> str:
    """Return a difference with its interval in whole percentage points: ``+24 [+1, +46]``."""
    if gap.value is None:
        return UNDEFINED
    value, *ends = (
        format_number(100 * x, 0, "+") for x in (gap.value, gap.low, gap.high) if x is not None
    )
    return f"{value} [{', '.join(ends)}]" if len(ends) == 2 else value


def _get_gap(row: Difference) -> Estimate:
    return row.corrected or row.difference


def _find_largest(row: Difference) -> float:
    shares = _choose_shares(row, pooled=row.corrected_first is None)
    return max((share.value or 0.0 for share in shares if share), default=0.0)


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
    result = f"{_write_result(top, p, compared)} (Holm over {family} tests)"
    limit = 1 - compared.confidence
    if p < limit:
        return f"Between {between}, {top.code} differs most: {result}."
    text = (
        f"Between {between}, no code differs beyond chance; the smallest p is that of {top.code}:"
        f" {result}."
    )
    for row, _, adjusted in tests:
        if row.code == NONE and adjusted is not None and adjusted < limit:
            text += f" {WITHOUT_CODE} {_write_result(row, adjusted, compared)}."
    return text


def _write_result(row: Difference, p: float, compared: GroupComparison) -> str:
    gap, limits = format_points(_get_gap(row))
    level = f" ({100 * compared.confidence:g} % interval {limits})" if limits != UNDEFINED else ""
    shares = _choose_shares(row, pooled=compared.pooled)
    first, second = (round_percent(side.value or 0.0) if side else "" for side in shares)
    values = f"{first} % against {second} %"
    values += " by the judge alone, pooled" if compared.pooled else ""
    values += ", corrected by the labels" if row.corrected else ""
    return f"{values}, {gap} points{level}, p {format_relation(p)}"


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


def _write_rows(compared: GroupComparison) -> tuple[Line, list[Line], tuple[int, ...]]:
    """Return the heading and the rows of a comparison as text, and the sizes of its blocks of
    columns; differences in points.
    """
    corrected = any(row.corrected for row in compared.rows)
    rows: list[Line] = []
    for row in (*compared.rows, *compared.code_groups):
        cells: Line = (
            sanitize_line(row.code, 64),
            *(_write_side(row.first), _write_side(row.second)),
            *(_write_points(row.difference), format_p(row.test.p), format_p(row.adjusted)),
        )
        if corrected:
            p = row.corrected_test.p if row.corrected_test else None
            if not compared.pooled:
                cells += write_share(row.corrected_first), write_share(row.corrected_second)
            cells += _write_points(row.corrected), format_p(p), format_p(row.corrected_adjusted)
        rows.append(cells)
    values = zip((compared.first, compared.second), compared.n, strict=True)
    sides = [f"{sanitize_line(value, 60)} (n={n})" for value, n in values]
    gaps = ("difference", "p", "p (Holm)")
    if not corrected:
        return ("code", *sides, *gaps), rows, (5,)
    names = (*(f"{side} judged" for side in sides), *(f"judged {name}" for name in gaps))
    whose = "pooled" if compared.pooled else "corrected"
    more = tuple(f"{whose} {name}" for name in gaps)
    if not compared.pooled:
        more = (*(f"{side} corrected" for side in sides), *more)
    return ("code", *names, *more), rows, (5, len(more))


def _write_side(share: Interval) -> str:
    """Return a share with its interval, or the count of what a judge cannot rule out."""
    return f"{share.k}/{share.n}" if share.value is None and share.k else write_share(share)


def _write_points(gap: Estimate | None) -> str:
    """Return a difference in percentage points with its interval: ``+23.5 [+1.0, +46.0]``."""
    value, limits = format_points(gap)
    return value if limits == UNDEFINED else f"{value} {limits}"


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
