"""The rows of frequency tables as Parquet: typed columns, numbers in full precision."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from annotator.errors import AnnotatorError
from annotator.files import NewFile
from annotator.reports.frequency import FrequencyTable, Row
from annotator.reports.writers import between, flips, limits, percent
from annotator.text import storable
from validation import Interval

if TYPE_CHECKING:
    from annotator.calibration.estimates import CodeEstimates
    from validation import Estimate

# Column -> its type in Arrow.
COLUMNS = {
    **{"rubric": "string", "version": "int64", "rubric_sha256": "string", "choice": "string"},
    **dict.fromkeys(("judge", "judge_sha256", "run", "run_status"), "string"),
    "limit": "int64",
    **dict.fromkeys(("attribute", "attribute_value", "kind", "code", "name"), "string"),
    **dict.fromkeys(("count", "n"), "int64"),
    **dict.fromkeys(("value", "low", "high", "confidence"), "float64"),
    **dict.fromkeys(("method", "reason", "percent", "interval_percent"), "string"),
    **{"bounds_low": "float64", "bounds_high": "float64", "bounds_percent": "string"},
    **dict.fromkeys(("primary_or_secondary", "labelled", "none", "undecided"), "int64"),
    **dict.fromkeys(("skipped", "failed"), "int64"),
    **dict.fromkeys(("flips", "flips_n"), "int64"),
    **dict.fromkeys(("corrected_value", "corrected_low", "corrected_high"), "float64"),
    **{"corrected_confidence": "float64", "corrected_method": "string"},
    **dict.fromkeys(("corrected_reason", "corrected_percent"), "string"),
    "corrected_interval_percent": "string",
    **dict.fromkeys(("labels_flagged", "labels_missed"), "int64"),
    **{"mark": "string", "labels": "int64", "transferred": "bool", "notes": "string"},
}


def write_parquet(tables: Sequence[FrequencyTable], path: Path) -> None:
    """Write the tables as one Parquet file, a row for each code and each group of codes (``kind``
    says which); what is undefined is null.

    Raises:
        AnnotatorError: it cannot be written.
    """
    import pyarrow
    import pyarrow.parquet

    schema = pyarrow.schema(
        [(name, pyarrow.type_for_alias(kind)) for name, kind in COLUMNS.items()]
    )
    rows = [_about(table) | _row(row, table) for table in tables for row in table.all_rows]
    try:
        with NewFile(path) as out:
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), out)
    except pyarrow.ArrowException as error:
        raise AnnotatorError(f"cannot write {path}: {error}") from error


def _about(table: FrequencyTable) -> dict[str, Any]:
    attribute, value = map(storable, table.group) if table.group else (None, None)
    return {
        "rubric": storable(table.rubric),
        "version": table.version,
        "rubric_sha256": table.rubric_sha256,
        "choice": table.choice,
        "judge": storable(table.judge),
        "judge_sha256": table.judge_sha256,
        "run": storable(table.run),
        "run_status": storable(table.status),
        "limit": table.limit,
        "labelled": table.labelled,
        "none": table.none,
        "undecided": table.undecided,
        "skipped": table.skipped,
        "failed": table.failed,
        "attribute": attribute,
        "attribute_value": value,
        "labels": table.correction.labels if table.correction else None,
        "transferred": table.correction.transferred if table.correction else None,
        "notes": storable("\n".join(table.notes)),
    }


def _row(row: Row, table: FrequencyTable) -> dict[str, Any]:
    flip = flips(row, table)
    share = _numbers(row.share, "") if row.share else {"reason": row.unknown}
    low, high = row.bounds or (None, None)
    return {
        "kind": row.kind,
        "code": storable(row.code),
        "name": storable(row.name),
        "count": row.count,
        "n": table.n,
        "percent": percent(row.share),
        "interval_percent": limits(row.share),
        "bounds_low": low,
        "bounds_high": high,
        "bounds_percent": between(row.bounds) if row.bounds else None,
        "primary_or_secondary": row.anywhere,
        "flips": flip.k if flip else None,
        "flips_n": flip.n if flip else None,
        **share,
        **(_corrected(row.labels) if row.labels else {}),
    }


def _numbers(one: "Interval | Estimate", prefix: str) -> dict[str, Any]:
    names = ("value", "low", "high", "method", "confidence", "reason")
    return {prefix + name: getattr(one, name) for name in names}


def _corrected(labels: "CodeEstimates") -> dict[str, Any]:
    return {
        **_numbers(labels.corrected, "corrected_"),
        "corrected_percent": percent(labels.corrected),
        "corrected_interval_percent": limits(labels.corrected),
        "labels_flagged": labels.flagged,
        "labels_missed": labels.missed,
        "mark": labels.mark,
    }
