"""The plan of a sample as a table: how wide the intervals will be."""

from collections.abc import Iterator, Mapping, Sequence

from annotator.base.text import format_count, sanitize_line
from annotator.calibration.sample.draw import Planned
from annotator.calibration.sample.until import LabelProgress
from annotator.reports.digits import UNDEFINED, format_number
from annotator.reports.table import Line, Table
from annotator.rubrics import NONE


def tabulate(planned: Sequence[Planned], until: float | None = None) -> Table:
    """Return a row for each code: expected half-widths by n; or, with ``until``, the n for it."""
    sizes = [] if until else sorted({cell.n for cell in planned})
    codes = {cell.code: cell for cell in sorted(planned, key=lambda cell: -cell.judged)}
    numbers = [f"n for {_write_width(until)}"] if until else []
    by_place = {(cell.code, cell.n): cell for cell in planned}
    rows: list[Line] = []
    for code in sorted(codes, key=lambda code: code == NONE):
        cell = codes[code]
        effect = UNDEFINED if cell.tasks is None else format_number(cell.design_effect, 1)
        about = sanitize_line(code, 64), str(cell.judged), format_number(100 * cell.share, 1)
        cells = [by_place[code, n] for n in sizes]
        widths = (f"{_write_width(x.half_width)} ({x.expected})" for x in cells)
        enough = [str(cell.enough or UNDEFINED)] if until else []
        rows.append((*about, effect, *widths, *enough))
    return Table(
        header=("code", "judged", "judged %", "deff", *(f"n={n}" for n in sizes), *numbers),
        rows=rows,
        notes=(
            "About so many labels narrow half of the corrected share's 95 % interval to this many"
            " points; -: labels of all traces do not."
            if until
            else "Expected half-width of the corrected share's 95 % interval in points, and in"
            " brackets the labels of traces that the judge gave the code.",
            *_list_assumed(codes),
        ),
        last=NONE in codes,
    )


def tabulate_progress(progress: LabelProgress, until: float) -> Table:
    """Return one row per code: its half-width, and about how many labels narrow it enough."""
    size, target = progress.design.size, _write_width(until)
    wide = [width for width in progress.widths if width.half_width > until]
    hopeless = [f"{each.code} {_write_width(each.last)}" for each in wide if each.more is None]
    is_complete = progress.labels == size
    notes = {
        f"Every code is within {target} points: no more traces are drawn.": not wide,
        f"All {size} traces are labelled. Wider: {', '.join(hopeless)}.": wide and is_complete,
        f"Expected to stay wider with all {size} traces labelled: {', '.join(hopeless)}. It takes"
        " traces of more tasks. --codes names the codes to narrow.": hopeless and not is_complete,
        f"About {progress.more} more labels narrow {'the others' if hopeless else 'every code'} to"
        f" {target} points.": progress.more,
        f"{format_count(progress.waiting, 'drawn trace')} without a label"
        f"{': label them first' if progress.blocked else ''}.": progress.waiting,
    }
    return Table(
        title=f"{format_count(progress.labels, 'label')} of {size} traces",
        header=("code", "found", "half-width", "wanted", "more labels"),
        rows=[
            (
                sanitize_line(each.code, 64),
                f"{each.with_code}/{progress.labels}",
                _write_width(each.half_width),
                target,
                UNDEFINED if each.more is None else str(each.more),
            )
            for each in sorted(progress.widths, key=lambda each: -each.half_width)
        ],
        notes=(
            "Half-width: half of the corrected share's 95 % interval, in points. More labels: about"
            " so many narrow this code enough.",
            *(note for note, holds in notes.items() if holds),
        ),
    )


def _write_width(half_width: float) -> str:
    return f"±{format_number(100 * half_width, 1)}"


def _list_assumed(codes: Mapping[str, Planned]) -> Iterator[str]:
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
