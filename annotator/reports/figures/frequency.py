"""Shares of codes with their intervals, the judge's own and the corrected ones."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from annotator.base.errors import AnnotatorError
from annotator.base.text import format_count
from annotator.reports.digits import UNDEFINED, find_limits
from annotator.reports.figures import FigureSource, Plot
from annotator.reports.figures.dots import DotRow, Mark, Series, draw_dots
from annotator.reports.figures.style import LOOKS, FigurePanel, escape_text, stack
from annotator.reports.frequency import NO_RULE, FrequencyTable, mark_runs
from annotator.rubrics import NONE

if TYPE_CHECKING:
    from annotator.calibration.correct import Correction

Tables = Sequence[FrequencyTable]


def draw_figure(source: FigureSource) -> Plot:
    """Draw the tables: a panel for each rubric, in it a series for each group or run."""
    tables = mark_runs(source.tables, source.runs)
    by_rubric: dict[tuple[str, ...], list[FrequencyTable]] = {}
    for table in tables:
        codes = (row.code for row in table.rows)
        by_rubric.setdefault((table.rubric_sha256, *codes), []).append(table)
    dots = [_draw_panel(panel, alone=len(by_rubric) == 1) for panel in by_rubric.values()]
    return Plot(stack(dots))


def name_series(table: FrequencyTable, among: Tables) -> str:
    """Return the name of a table among others: its group, its judge, its run; or ""."""
    parts = [f"{table.group[0]} = {table.group[1]}"] if table.group else []
    if len({other.judge for other in among}) > 1:
        parts.append(table.judge or "")
    if table.run_name:
        parts.append(table.run_name)
    return ", ".join(map(escape_text, parts))


def count_labels(correction: "Correction") -> str:
    """Return how many labels a correction rests on, and whether they are of other traces."""
    where = " made elsewhere (transferred)" if correction.transferred else ""
    return f"{format_count(correction.labels, 'label')}{where}"


def _draw_panel(tables: Tables, *, alone: bool) -> FigurePanel:
    if len(tables) > len(LOOKS):
        raise AnnotatorError(
            f"figure: {len(tables)} groups of traces for {tables[0].rubric}, at most"
            f" {len(LOOKS)} can be told apart in a figure: take an attribute with fewer values, or"
            " fewer runs"
        )
    # A group without a judged trace has no lane, but is in the key.
    with_lane = [table for table in tables if table.judged] or list(tables[:1])
    series: list[Series] = []
    for number, table in enumerate(tables):
        series += _list_series(table, number, name_series(table, tables), lane=table in with_lane)
    rows = [
        DotRow(
            escape_text(code),
            [mark for table in with_lane for mark in _list_marks(table, code)],
            apart=code == NONE,
        )
        for code in _order_codes(with_lane)
    ]
    title = "" if alone else f"{escape_text(tables[0].rubric)} v{tables[0].version}"
    return draw_dots(title, series, rows, _list_notes(with_lane, alone=len(tables) == 1))


def _list_series(table: FrequencyTable, number: int, name: str, *, lane: bool) -> list[Series]:
    look = LOOKS[number]
    of = f"{name}: " if name else ""
    if not lane:
        return [Series(f"judged:{number}", f"{of}no judged traces", None)]
    traces = f"n = {table.judged}" + ("" if table.status == "finished" else ", unfinished run")
    traces += "" if table.limit is None else f", first {table.limit} traces only"
    if table.correction is None:
        return [Series(f"judged:{number}", f"{of}{traces}", look)]
    corrected = f"{of}corrected by {count_labels(table.correction)}"
    if table.correction.traces != table.judged:
        corrected += f" (n = {table.correction.traces})"
    return [
        Series(f"judged:{number}", f"{of}the judge's own ({traces})", look, filled=False),
        # Alone it may take a colour of its own; beside others, colour and marker say whose it is.
        Series(f"corrected:{number}", corrected, look if name else LOOKS[1]),
    ]


def _list_marks(table: FrequencyTable, code: str) -> Iterable[Mark]:
    row = next(row for row in table.rows if row.code == code)
    count_text = "none found" if row.count is None else f"{row.count} found"
    instead = "not judged" if row.unknown == NO_RULE else f"{count_text}, no share"
    yield Mark(row.share, UNDEFINED if row.share else instead)
    if row.labels:
        yield Mark(row.labels.corrected)


def _order_codes(tables: Tables) -> list[str]:
    """Return the codes by their share in all tables together, those not judged and none last."""

    def rank(code: str) -> tuple[bool, bool, float]:
        shares = [row.share for table in tables for row in table.rows if row.code == code]
        defined = [share for share in shares if share]
        n = sum(share.n for share in defined)
        return code == NONE, not defined, -sum(share.k for share in defined) / n if n else 0.0

    return sorted((row.code for row in tables[0].rows), key=rank)


def _list_notes(tables: Tables, *, alone: bool) -> list[str]:
    first = tables[0]
    corrections = [table.correction for table in tables if table.correction]
    sizes = [(table.correction.traces, table.judged) for table in tables if table.correction]
    n = f" (n = {first.judged})" if alone else ""
    of = f"judged traces{n}" if all(size == judged for size, judged in sizes) else "traces"
    lines = [f"{first.counted}, % of {of}"]
    rows = [row for table in tables for row in table.rows]
    own_levels = _list_levels(row.share.confidence for row in rows if row.share)
    if not own_levels:
        lines.append("The judge screens for codes: what it finds is counted and has no share.")
    elif not corrections:
        lines.append(f"Bars: {own_levels} intervals (Wilson), sampling error only.")
    else:
        level = _list_levels(correction.confidence for correction in corrections)
        lines.append(
            f"Bars: {level} intervals; the judge's own: {own_levels}, sampling error only."
        )
    shares = [share for row in rows for share in (row.share, row.labels and row.labels.corrected)]
    if any(find_limits(share) for share in shares if share and share.value is None):
        lines.append("Bar without a marker: only limits are known.")
    if alone and first.status != "finished":
        lines.append("The run is not finished.")
    if alone and first.limit is not None:
        lines.append(f"Only the first {format_count(first.limit, 'trace')} were read.")
    return lines


def _list_levels(confidences: Iterable[float]) -> str:
    return ", ".join(f"{100 * confidence:g} %" for confidence in sorted(set(confidences)))
