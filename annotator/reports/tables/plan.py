"""The plan of a sample as a table: how wide the intervals will be."""

from collections.abc import Iterator, Mapping, Sequence

from annotator.base.text import sanitize_line
from annotator.calibration.sample.draw import Planned
from annotator.reports.digits import UNDEFINED, format_number
from annotator.reports.table import Line, Table
from annotator.rubrics import NONE


def tabulate(planned: Sequence[Planned]) -> Table:
    """Return one row per code: expected half-width of its corrected share, in points, by n."""
    sizes = sorted({cell.n for cell in planned})
    codes = {cell.code: cell for cell in sorted(planned, key=lambda cell: -cell.judged)}
    by_place = {(cell.code, cell.n): cell for cell in planned}
    rows: list[Line] = []
    for code in sorted(codes, key=lambda code: code == NONE):
        cell = codes[code]
        effect = UNDEFINED if cell.tasks is None else format_number(cell.design_effect, 1)
        about = sanitize_line(code, 64), str(cell.judged), format_number(100 * cell.share, 1)
        cells = [by_place[code, n] for n in sizes]
        widths = (f"±{format_number(100 * x.half_width, 1)} ({x.expected})" for x in cells)
        rows.append((*about, effect, *widths))
    return Table(
        header=("code", "judged", "judged %", "deff", *(f"n={n}" for n in sizes)),
        rows=rows,
        notes=(
            "Expected half-width of the corrected share's 95 % interval in points, and in brackets"
            " the labels of traces that the judge gave the code.",
            *_list_assumed(codes),
        ),
        last=NONE in codes,
    )


def _list_assumed(codes: Mapping[str, Planned]) -> Iterator[str]:
    """Yield the assumptions of the widths."""
    if len({cell.assumed for cell in codes.values()}) == 1:
        assumed = next(iter(codes.values())).assumed
        missed = "misses as many as it flags wrongly"
        if assumed.recall is not None:
            missed = f"flags {_round(assumed.recall)} % of what there is"
        yield (
            f"Assumed: the judge is right in {_round(assumed.precision)} % of what it flags, and"
            f" {missed} (--precision, --recall, --calibration)."
        )
    else:
        assumptions = ", ".join(
            f"{sanitize_line(code, 64)} {_round(cell.assumed.precision)}"
            + ("" if cell.assumed.recall is None else f"/{_round(cell.assumed.recall)}")
            for code, cell in codes.items()
        )
        yield f"Assumed of the judge, precision/recall in %: {assumptions}."
    tasks = {cell.tasks for cell in codes.values()} - {None}
    if tasks == {1}:
        yield "All traces are of one task: there will be no interval."
    elif tasks:
        number = max(n for n in tasks if n)
        yield (
            f"Widened for traces that share {number} tasks: by the root of the design effect (deff)"
            " of the judge's own share, and by Student's t."
        )
    else:
        yield "No trace tells its task: traces are taken as independent."


def _round(share: float) -> str:
    return format_number(100 * share, 0)
