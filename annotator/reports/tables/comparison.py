"""Comparisons as tables for every format; the same digits in each."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from annotator.reports.compare import Compared, Difference
from annotator.reports.digits import UNDEFINED, percent, points
from annotator.reports.table import Column, Line, Table, columns_of
from annotator.rubrics import NONE
from annotator.text import one_line

# The keys of the records; a share of a side is its count and n, a difference is first minus second.
SCHEMA: dict[str, type] = {
    **dict.fromkeys(("rubric", "rubric_sha256"), str),
    "judges": list,
    **dict.fromkeys(("attribute", "first", "second", "kind", "code"), str),
    **dict.fromkeys(("first_count", "first_n", "second_count", "second_n"), int),
    **dict.fromkeys(("difference", "low", "high"), float),
    **dict.fromkeys(("difference_points", "interval_points", "method", "reason"), str),
    **dict.fromkeys(("corrected_difference", "corrected_low", "corrected_high"), float),
    **dict.fromkeys(("corrected_points", "corrected_interval_points"), str),
    **dict.fromkeys(("corrected_method", "corrected_reason", "test"), str),
    **dict.fromkeys(("p", "p_holm", "confidence"), float),
    **{"runs": list, "notes": str},
}

_COLUMNS = (
    *columns_of(
        "rubric", "rubric_sha256", "judges", "attribute", "first", "second", "kind", "code"
    ),
    *columns_of("first_count", "first_n", "second_count", "second_n"),
    Column("difference", "difference_points", "value"),
    Column("low", "interval_points", "low"),
    Column("high", "interval_points", "high"),
    Column("corrected_difference", "corrected_points", "value"),
    Column("corrected_low", "corrected_interval_points", "low"),
    Column("corrected_high", "corrected_interval_points", "high"),
    *columns_of("method", "test", "p", "p_holm", "confidence", "corrected_method", "runs", "notes"),
)


def tabulate(comparisons: Sequence[Compared]) -> list[Table]:
    """Return comparisons as tables; what is printed of differences is in percentage points."""
    return [_table(compared) for compared in comparisons]


def _table(compared: Compared) -> Table:
    title = _title(compared)
    header, rows = _rows(compared)
    judges = [{"judge": judge, "judge_sha256": sha256} for judge, sha256 in compared.judges]
    about = {"rubric": compared.rubric.id, "rubric_sha256": compared.rubric.sha256}
    return Table(
        title=title,
        header=header,
        rows=rows,
        notes=compared.notes,
        last=any(row.code == NONE for row in compared.rows),
        caption=f"{title}; differences in percentage points.",
        name="-".join((compared.rubric.id, compared.attribute, compared.first, compared.second)),
        records=[about | _record(row, compared) for row in compared.rows],
        schema=SCHEMA,
        columns=_COLUMNS,
        document=asdict(compared) | about | {"judges": judges},
    )


def _record(row: Difference, compared: Compared) -> dict[str, Any]:
    gap, corrected = row.difference, row.corrected
    value, interval = points(gap)
    corrected_value, corrected_interval = points(corrected)
    return {
        "judges": [f"{judge} {sha256}" for judge, sha256 in compared.judges],
        "attribute": compared.attribute,
        "first": compared.first,
        "second": compared.second,
        "kind": compared.kind,
        "code": row.code,
        "first_count": row.first.k,
        "first_n": row.first.n,
        "second_count": row.second.k,
        "second_n": row.second.n,
        "difference": gap.value,
        "low": gap.low,
        "high": gap.high,
        "difference_points": value,
        "interval_points": interval,
        "method": gap.method,
        "reason": gap.reason,
        "corrected_difference": corrected and corrected.value,
        "corrected_low": corrected and corrected.low,
        "corrected_high": corrected and corrected.high,
        "corrected_points": corrected_value,
        "corrected_interval_points": corrected_interval,
        "corrected_method": corrected and corrected.method,
        "corrected_reason": corrected and corrected.reason,
        "test": row.test.name,
        "p": row.test.p,
        "p_holm": row.adjusted,
        "confidence": compared.confidence,
        "runs": compared.runs,
        "notes": "\n".join(compared.notes),
    }


def _rows(compared: Compared) -> tuple[Line, list[Line]]:
    """Return the heading and the rows of a comparison as text; differences in points."""
    corrected = any(row.corrected for row in compared.rows)
    rows: list[Line] = []
    for row in compared.rows:
        cells: Line = (
            one_line(row.code, 64),
            f"{row.first.k}/{row.first.n}",
            percent(row.first),
            f"{row.second.k}/{row.second.n}",
            percent(row.second),
            *points(row.difference),
            _p(row.test.p),
            _p(row.adjusted),
        )
        rows.append((*cells, *points(row.corrected)) if corrected else cells)
    level = f"{100 * compared.confidence:g} % interval"
    header = ("code", "first", "%", "second", "%", "difference", level, "p", "p (Holm)")
    return (*header, "corrected", level) if corrected else header, rows


def _p(value: float | None) -> str:
    if value is None:
        return UNDEFINED
    return "<.0001" if value < 0.0001 else f"{value:.4f}"


def _title(compared: Compared) -> str:
    values = zip(("first", "second"), (compared.first, compared.second), compared.n, strict=True)
    sides = ", ".join(f"{side} {one_line(value, 80)} (n={n})" for side, value, n in values)
    judges = ", ".join(
        f"{one_line(judge, 120)} ({sha256[:12]})" for judge, sha256 in compared.judges
    )
    return (
        f"{one_line(compared.rubric.id)} v{compared.rubric.version} ({compared.rubric.sha256[:12]})"
        f"  judge {judges}  by {one_line(compared.attribute, 60)}: {sides};"
        f" {compared.kind}, Holm over {compared.tests} tests"
    )
