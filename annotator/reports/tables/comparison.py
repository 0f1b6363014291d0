"""Comparisons as tables for every format; the same digits in each."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from annotator.base.text import sanitize_line
from annotator.reports.comparison import Difference, GroupComparison
from annotator.reports.digits import UNDEFINED, format_number, format_percent, format_points
from annotator.reports.table import (
    Column,
    Line,
    Table,
    flatten,
    make_columns,
    name_judge,
    name_rubric,
)
from annotator.rubrics import NONE

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


def tabulate(comparisons: Sequence[GroupComparison]) -> list[Table]:
    """Return comparisons as tables. They print differences in percentage points; the records hold
    them as shares.
    """
    return [_make_table(compared) for compared in comparisons]


def _make_table(compared: GroupComparison) -> Table:
    title = _write_title(compared)
    header, rows = _write_rows(compared)
    about: dict[str, Any] = {
        "rubric": compared.rubric.id,
        "rubric_sha256": compared.rubric.sha256,
    }
    judges = [{"judge": judge, "judge_sha256": sha256} for judge, sha256 in compared.judges]
    names = [compared.attribute, compared.first, compared.second]
    return Table(
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
            _format_p(row.test.p),
            _format_p(row.adjusted),
        )
        if corrected:
            p = row.corrected_test.p if row.corrected_test else None
            cells += (
                *format_points(row.corrected),
                _format_p(p),
                _format_p(row.corrected_adjusted),
            )
        rows.append(cells)
    level = f"{100 * compared.confidence:g} % interval"
    header = ("code", "first", "%", "second", "%", "difference", level, "p", "p (Holm)")
    name = "corrected (pooled)" if compared.pooled else "corrected"
    more = (name, level, "p", "p (Holm)") if corrected else ()
    return (*header, *more), rows


def _format_p(value: float | None) -> str:
    if value is None:
        return UNDEFINED
    return "<.0001" if value < 0.0001 else format_number(value, 4)


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
