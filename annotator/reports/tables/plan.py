"""The plan of a sample as a table: how wide the intervals will be."""

from collections.abc import Sequence

from annotator.calibration.draw import ASSUMED_PRECISION, Planned
from annotator.reports.table import Line, Table
from annotator.rubrics import NONE
from annotator.text import one_line


def tabulate(planned: Sequence[Planned]) -> Table:
    """Return one row per code: expected half-width of its corrected share, in points, by n."""
    sizes = sorted({cell.n for cell in planned})
    codes = {cell.code: cell for cell in sorted(planned, key=lambda cell: -cell.judged)}
    by_place = {(cell.code, cell.n): cell for cell in planned}
    rows: list[Line] = []
    for code in sorted(codes, key=lambda code: code == NONE):
        widths = [by_place[code, n] for n in sizes]
        rows.append(
            (
                one_line(code, 64),
                str(codes[code].judged),
                f"{100 * codes[code].share:.1f}",
                *(f"±{100 * cell.half_width:.1f} ({cell.expected})" for cell in widths),
            )
        )
    return Table(
        header=("code", "judged", "judged %", *(f"n={n}" for n in sizes)),
        rows=rows,
        notes=(
            "Expected half-width of the corrected share's 95 % interval in points, and in brackets"
            " the labels of traces that the judge gave the code.",
            f"Assumed: the judge is right in {100 * ASSUMED_PRECISION:.0f} % of what it flags, and"
            " misses as many as it flags wrongly; traces are independent (with several traces of a"
            " task intervals get wider).",
        ),
        last=NONE in codes,
    )
