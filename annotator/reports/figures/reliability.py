"""The precision and recall of a judge, code by code."""

from annotator.base.errors import AnnotatorError
from annotator.calibration.correct import Correction
from annotator.reports.digits import UNDEFINED
from annotator.reports.figures import FigureSource, Plot
from annotator.reports.figures.dots import DotRow, Mark, Series, draw_dots
from annotator.reports.figures.frequency import count_labels, name_series
from annotator.reports.figures.style import LOOKS, FigurePanel, escape_text, stack
from annotator.reports.frequency import NO_RULE, FrequencyTable, mark_runs
from annotator.rubrics import NONE

_SERIES = (
    Series("precision", "precision: of the judge's traces, those a person agrees on", LOOKS[2]),
    Series("recall", "recall: of a person's traces, those the judge finds", LOOKS[3]),
)


def draw_figure(source: FigureSource) -> Plot:
    """Draw the precision and recall behind the corrected shares, a panel for each table."""
    marked = mark_runs(source.tables, source.runs)
    corrected = [(table, table.correction) for table in marked if table.correction]
    tables = [table for table, _ in corrected]
    if not tables:
        raise AnnotatorError("--plot reliability needs people's labels: --calibration FILE")
    panels = []
    for table, correction in corrected:
        among = [other for other in tables if other.rubric_sha256 == table.rubric_sha256]
        rubric = f"{escape_text(table.rubric)} v{table.version}" if among != tables else ""
        name = "  ".join(filter(None, (rubric, name_series(table, among))))
        panels.append(_draw_panel(table, correction, name))
    others = dict.fromkeys(table.rubric for table in source.tables if not table.correction)
    left_out = [f"{rubric}: not calibrated, not drawn" for rubric in others]
    return Plot(stack(panels), left_out)


def _draw_panel(table: FrequencyTable, correction: Correction, name: str) -> FigurePanel:
    rows = []
    for row in table.rows:
        if labels := row.labels:
            instead = "not judged" if row.unknown == NO_RULE else UNDEFINED
            shares = (labels.precision, labels.recall)
            marks = [Mark(share if share.value is not None else None, instead) for share in shares]
            beside = f"{labels.flagged}+{labels.missed}"
            rows.append(DotRow(escape_text(row.code), marks, beside, apart=row.code == NONE))
    below = [
        f"precision and recall, % (n = {count_labels(correction)})",
        f"Bars: {100 * correction.confidence:g} % intervals; - is not defined by these labels."
        " Right: labels of traces that the judge gave the code + of others that a person gave it.",
    ]
    return draw_dots(name, _SERIES, rows, below, beside="labels", full=True)
