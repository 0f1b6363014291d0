"""Shares of codes with their intervals, the judge's own and the corrected ones."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from annotator.errors import AnnotatorError
from annotator.reports.digits import UNDEFINED
from annotator.reports.figures import FigureSource, Plot
from annotator.reports.figures.dots import DotRow, Dots, Mark, Series
from annotator.reports.figures.style import LOOKS, stack, to_glyphs
from annotator.reports.frequency import NO_RULE, FrequencyTable, mark_runs
from annotator.reports.tables.frequency import about
from annotator.rubrics import NONE
from annotator.text import count, one_line

if TYPE_CHECKING:
    from annotator.calibration.correct import Correction

Tables = Sequence[FrequencyTable]


def figure(source: FigureSource) -> Plot:
    """Draw the tables: a panel for each rubric, in it a series for each group or run.

    Raises:
        AnnotatorError: more groups than can be told apart.
    """
    tables = mark_runs(source.tables, source.runs)
    panels = rubrics(tables)
    dots = [_panel(panel, alone=len(panels) == 1) for panel in panels]
    return Plot(stack(dots), title("frequency", tables), basis(tables))


def rubrics(tables: Tables) -> list[Tables]:
    """Return the tables of each rubric and version together, in their order."""
    by_rubric: dict[tuple[str, ...], list[FrequencyTable]] = {}
    for table in tables:
        codes = (row.code for row in table.rows)
        by_rubric.setdefault((table.rubric_sha256, *codes), []).append(table)
    return list(by_rubric.values())


def title(kind: str, tables: Tables) -> str:
    """Return the title of a file: what it shows, and of which rubrics."""
    names = dict.fromkeys(f"{table.rubric} v{table.version}" for table in tables)
    return f"{kind}: {', '.join(names)}"


def basis(tables: Tables) -> list[str]:
    """Return what the tables rest on: the lines over them, hashes, runs and notes."""
    lines = [
        "  ".join([*about(table), f"rubric sha256 {table.rubric_sha256}", f"run {table.run}"])
        for table in tables
    ]
    notes = [one_line(note, 2000) for table in tables for note in table.notes]
    return list(dict.fromkeys([*lines, *notes]))


def name_of(table: FrequencyTable, among: Tables) -> str:
    """Return what tells a table from the others: its group, its judge, its run; or ""."""
    parts = [f"{table.group[0]} = {table.group[1]}"] if table.group else []
    if len({other.judge for other in among}) > 1:
        parts.append(table.judge or "")
    if table.run_name:
        parts.append(table.run_name)
    return ", ".join(map(to_glyphs, parts))


def count_labels(correction: "Correction") -> str:
    """Return how many labels a correction rests on, and whether they are of other traces."""
    where = " made elsewhere (transferred)" if correction.transferred else ""
    return f"{count(correction.labels, 'label')}{where}"


def _panel(tables: Tables, *, alone: bool) -> Dots:
    if len(tables) > len(LOOKS):
        raise AnnotatorError(
            f"figure: {len(tables)} groups of traces for {tables[0].rubric}, at most"
            f" {len(LOOKS)} can be told apart in a figure: take an attribute with fewer values, or"
            " fewer runs"
        )
    # A group without a judged trace has no lane, but stands in the key.
    with_lane = [table for table in tables if table.judged] or list(tables[:1])
    first = with_lane[0]
    series = [
        lane
        for n, table in enumerate(tables)
        for lane in _series(table, n, name_of(table, tables), lane=table in with_lane)
    ]
    rows = [
        DotRow(
            to_glyphs(code),
            [mark for table in with_lane for mark in _marks(table, code)],
            apart=last,
        )
        for code, last in ((code, code == NONE) for code in _order(with_lane))
    ]
    title = "" if alone else f"{to_glyphs(first.rubric)} v{first.version}"
    return Dots(title, series, rows, list(_axis(with_lane, len(tables))))


def _series(table: FrequencyTable, number: int, name: str, *, lane: bool) -> Iterable[Series]:
    look = LOOKS[number]
    of = f"{name}: " if name else ""
    traces = f"n = {table.judged}" + ("" if table.status == "finished" else ", unfinished run")
    traces += "" if table.limit is None else f", first {table.limit} traces only"
    if not lane:
        yield Series(f"judged:{number}", f"{of}no judged traces", None)
        return
    if table.correction is None:
        yield Series(f"judged:{number}", f"{of}{traces}", look)
        return
    yield Series(f"judged:{number}", f"{of}the judge's own ({traces})", look, filled=False)
    # Alone it may take a colour of its own; beside others, colour and marker say whose it is.
    theme = look if name else LOOKS[1]
    corrected = f"{of}corrected by {count_labels(table.correction)}"
    if table.correction.traces != table.judged:
        corrected += f" (n = {table.correction.traces})"
    yield Series(f"corrected:{number}", corrected, theme)


def _marks(table: FrequencyTable, code: str) -> Iterable[Mark]:
    row = next(row for row in table.rows if row.code == code)
    count_text = "none found" if row.count is None else f"{row.count} found"
    instead = "not judged" if row.unknown == NO_RULE else f"{count_text}, no share"
    yield Mark(row.share, UNDEFINED if row.share else instead)
    if row.labels:
        yield Mark(row.labels.corrected)


def _order(tables: Tables) -> list[str]:
    """Return the codes by their share in all tables together, those not judged and none last."""

    def place(code: str) -> tuple[bool, bool, float]:
        shares = [row.share for table in tables for row in table.rows if row.code == code]
        defined = [share for share in shares if share]
        n = sum(share.n for share in defined)
        return code == NONE, not defined, -sum(share.k for share in defined) / n if n else 0.0

    return sorted((row.code for row in tables[0].rows), key=place)


def _axis(tables: Tables, groups: int) -> Iterable[str]:
    first = tables[0]
    n = f" (n = {first.judged})" if groups == 1 else ""
    sizes = [(table.correction.traces, table.judged) for table in tables if table.correction]
    of = f"judged traces{n}" if all(size == judged for size, judged in sizes) else "traces"
    yield f"{first.counted}, % of {of}"
    shares = [row.share for table in tables for row in table.rows]
    own_levels = _levels(share.confidence for share in shares if share)
    corrections = [table.correction for table in tables if table.correction]
    if not own_levels:
        yield "The judge screens for codes: what it finds is counted and has no share."
    elif not corrections:
        yield f"Bars: {own_levels} intervals (Wilson), sampling error only."
    else:
        level = _levels(correction.confidence for correction in corrections)
        yield f"Bars: {level} intervals; the judge's own: {own_levels}, sampling error only."
    if any(
        share.value is None and mark.ends
        for table in tables
        for row in table.rows
        for mark in _marks(table, row.code)
        if (share := mark.share)
    ):
        yield "Bar without a marker: only limits are known."
    if groups == 1 and first.status != "finished":
        yield "The run is not finished."
    if groups == 1 and first.limit is not None:
        yield f"Only the first {count(first.limit, 'trace')} were read."


def _levels(confidences: Iterable[float]) -> str:
    return ", ".join(f"{100 * confidence:g} %" for confidence in sorted(set(confidences)))
