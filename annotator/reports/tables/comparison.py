"""Comparisons as tables for every format; the same digits in each."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from annotator.base.text import sanitize_line
from annotator.reports.comparison import Difference, GroupComparison
from annotator.reports.digits import UNDEFINED, percent, points, to_digits
from annotator.reports.headings import name_judge, name_rubric
from annotator.reports.table import Column, Line, Table, columns_of, flatten
from annotator.rubrics import NONE

_COLUMNS = (
    *columns_of("rubric", "rubric_sha256", "judges", "attribute", "first", "second", "kind"),
    *columns_of("code", "first_count", "first_n", "second_count", "second_n"),
    Column("difference", "difference_value"),
    Column("low", "difference_low"),
    Column("high", "difference_high"),
    Column("corrected_difference", "corrected_value"),
    *columns_of("corrected_low", "corrected_high"),
    *(Column("method", "difference_method"), Column("test", "test_name")),
    *(Column("p", "test_p"), Column("p_holm", "adjusted"), *columns_of("confidence")),
    Column("corrected_method", "corrected_method"),
    Column("corrected_p", "corrected_test_p"),
    Column("corrected_p_holm", "corrected_adjusted"),
    *columns_of("pooled", "runs", "notes"),
)


def tabulate(comparisons: Sequence[GroupComparison]) -> list[Table]:
    """Return comparisons as tables. They print differences in percentage points; the records hold
    them as shares.
    """
    return [_table(compared) for compared in comparisons]


def _table(compared: GroupComparison) -> Table:
    title = _title(compared)
    header, rows = _rows(compared)
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
        records=[about | _record(row, compared) for row in (*compared.rows, *compared.code_groups)],
        columns=_COLUMNS,
        document=asdict(compared) | about | {"judges": judges},
    )


def _record(row: Difference, compared: GroupComparison) -> dict[str, Any]:
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


def _rows(compared: GroupComparison) -> tuple[Line, list[Line]]:
    """Return the heading and the rows of a comparison as text; differences in points."""
    corrected = any(row.corrected for row in compared.rows)
    rows: list[Line] = []
    for row in (*compared.rows, *compared.code_groups):
        cells: Line = (
            sanitize_line(row.code, 64),
            f"{row.first.k}/{row.first.n}",
            percent(row.first),
            f"{row.second.k}/{row.second.n}",
            percent(row.second),
            *points(row.difference),
            _p(row.test.p),
            _p(row.adjusted),
        )
        if corrected:
            p = row.corrected_test.p if row.corrected_test else None
            cells += (*points(row.corrected), _p(p), _p(row.corrected_adjusted))
        rows.append(cells)
    level = f"{100 * compared.confidence:g} % interval"
    header = ("code", "first", "%", "second", "%", "difference", level, "p", "p (Holm)")
    name = "corrected (pooled)" if compared.pooled else "corrected"
    more = (name, level, "p", "p (Holm)") if corrected else ()
    return (*header, *more), rows


def _p(value: float | None) -> str:
    if value is None:
        return UNDEFINED
    return "<.0001" if value < 0.0001 else to_digits(value, 4)


def _title(compared: GroupComparison) -> str:
    values = zip(("first", "second"), (compared.first, compared.second), compared.n, strict=True)
    sides = ", ".join(f"{side} {sanitize_line(value, 80)} (n={n})" for side, value, n in values)
    rubric = compared.rubric
    judges = ", ".join(name_judge(judge, sha256) for judge, sha256 in compared.judges)
    return (
        f"{name_rubric(rubric.id, rubric.version, rubric.sha256)}"
        f"  judge {judges}  by {sanitize_line(compared.attribute, 60)}: {sides};"
        f" {compared.kind}, Holm over {compared.tests} tests"
    )
