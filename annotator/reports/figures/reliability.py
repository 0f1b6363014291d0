"""How far a judge can be relied on, code by code: precision and recall."""

from annotator.calibration.correct import Correction
from annotator.calibration.estimates import CodeEstimates
from annotator.errors import AnnotatorError
from annotator.reports.digits import UNDEFINED
from annotator.reports.figures import Drawing, Drawn
from annotator.reports.figures.dots import DotRow, Dots, Mark, Series
from annotator.reports.figures.frequency import basis, name_of, title
from annotator.reports.figures.style import COLUMN, LOOKS, shown, stacked
from annotator.reports.frequency import NO_RULE, FrequencyTable, Row, told_apart
from annotator.rubrics import NONE
from annotator.text import count

_MOST = 8


def figure(source: Drawing) -> Drawn:
    """Draw the precision and recall behind the corrected shares, a panel for each table.

    Raises:
        AnnotatorError: no table is corrected by labels, or there are more than fit.
    """
    told = told_apart(source.tables, source.runs)
    corrected = [(table, table.correction) for table in told if table.correction]
    tables = [table for table, _ in corrected]
    if not tables:
        raise AnnotatorError("--plot reliability needs people's labels: --calibration FILE")
    if len(tables) > _MOST:
        raise AnnotatorError(
            f"--plot reliability: {len(tables)} tables, at most {_MOST} fit into a figure: take an"
            " attribute with fewer values, or fewer runs"
        )
    panels = []
    for table, correction in corrected:
        among = [one for one in tables if one.rubric_sha256 == table.rubric_sha256]
        rubric = f"{shown(table.rubric)} v{table.version}" if among != tables else ""
        parts = (rubric, name_of(table, among))
        panels.append(_panel(table, correction, "  ".join(part for part in parts if part)))
    left = [
        f"{table.rubric}: not calibrated, not drawn"
        for table in source.tables
        if not table.correction
    ]
    return Drawn(
        stacked(panels, COLUMN),
        title("reliability", tables),
        basis(tables),
        list(dict.fromkeys(left)),
    )


def _panel(table: FrequencyTable, correction: Correction, name: str) -> Dots:
    series = (
        Series("precision", "precision: of the judge's traces, those a person agrees on", LOOKS[2]),
        Series("recall", "recall: of a person's traces, those the judge finds", LOOKS[3]),
    )
    known = [(row, row.labels) for row in table.rows if row.labels]
    rows = [
        DotRow(
            shown(row.code),
            _marks(row, labels),
            f"{labels.flagged}+{labels.missed}",
            apart=row.code == NONE,
        )
        for row, labels in known
    ]
    level = 100 * correction.confidence
    labels = count(correction.labels, "label")
    where = " made elsewhere (transferred)" if correction.transferred else ""
    axis = [
        f"precision and recall, % (n = {labels}{where})",
        f"Bars: {level:g} % intervals; - is not defined by these labels. Right: labels of traces"
        " that the judge gave the code + of others that a person gave it.",
    ]
    return Dots(name, series, rows, axis, beside="labels", full=True)


def _marks(row: Row, labels: CodeEstimates) -> list[Mark]:
    both = (labels.precision, labels.recall)
    instead = "not judged" if row.unknown == NO_RULE else UNDEFINED
    return [Mark(one if one.value is not None else None, instead) for one in both]
