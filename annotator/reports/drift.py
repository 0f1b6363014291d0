"""The drift of a judge at its anchors, as a table."""

from collections.abc import Iterator
from dataclasses import asdict

from annotator.base.text import format_count, sanitize_line, wrap_lines
from annotator.calibration.drift import CodeDrift, JudgeDrift
from annotator.reports.digits import UNDEFINED, format_number, format_p, format_points
from annotator.reports.table import Table
from annotator.reports.tables.brief import fit_rows
from annotator.rubrics import NONE


def tabulate(result: JudgeDrift) -> list[Table]:
    """Return one table with a row for each code. Its document has all numbers."""
    codes = sorted(
        result.codes, key=lambda x: (x.code in (NONE, "undecided"), 1.0 if x.p is None else x.p)
    )
    points = [format_points(each.drift) for each in codes]
    columns = {
        "frozen %": [_format_rate(each, "p2") for each in codes],
        "now %": [_format_rate(each, "p1") for each in codes],
        "points": [value for value, _ in points],
        f"{100 * result.confidence:g} % interval": [ends for _, ends in points],
        "p": [format_p(each.p) for each in codes],
        "drift": ["yes" if each.code in result.drifted else "no" for each in codes],
    }
    header, rows = fit_rows([sanitize_line(each.code, 64) for each in codes], columns)
    title = f"{sanitize_line(result.rubric)}, judge {sanitize_line(result.judge, 60)}"
    return [
        Table(
            title=f"{title}\n\n{wrap_lines(summarize(result))}",
            header=header,
            rows=rows,
            notes=list(_list_notes(result)),
            document=asdict(result) | {"drifted": result.drifted},
        )
    ]


def summarize(result: JudgeDrift) -> str:
    """Return the result in a sentence."""
    where = f"at look {result.look}, {format_count(result.traces - result.failed, 'anchor')}"
    if not result.drifted:
        return f"No drift of the judge is shown {where}."
    by_code = {each.code: each for each in result.codes}
    parts = []
    for code in result.drifted:
        drift = by_code[code]
        rates = f"{_format_rate(drift, 'p2')} % to {_format_rate(drift, 'p1')} %"
        parts.append(f"{sanitize_line(code, 64)} from {rates} (p {format_p(drift.p)})")
    return f"The judge drifted {where}: {', '.join(parts)}."


def _format_rate(drift: CodeDrift, side: str) -> str:
    rate = drift.drift.inputs[side]
    return UNDEFINED if rate is None else format_number(100 * rate, 1)


def _list_notes(result: JudgeDrift) -> Iterator[str]:
    answers = format_count(result.frozen, "answer")
    yield (
        f"{result.traces} random traces of {result.population}. frozen: {answers} to each. p: of"
        " the same judge at all looks so far; it allows for all codes and for looking again."
    )
    if any(each.p is None for each in result.codes):
        yield "p -: all answers are the same, which says nothing against this judge."
    if result.failed:
        yield f"{format_count(result.failed, 'trace')} failed at this look and count as missing."
    if reasons := {each.drift.reason for each in result.codes if each.drift.low is None}:
        yield f"No interval: {'; '.join(sorted(map(str, reasons)))}."
    if result.tasks is None:
        yield "No trace names a task: intervals take traces as independent."
