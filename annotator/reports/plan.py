"""The plan of a sample as a table: how wide the intervals will be."""

from collections.abc import Sequence

from annotator.calibration.draw import ASSUMED_PRECISION, Planned
from annotator.reports.writers import ruled
from annotator.text import one_line


def plan_table(planned: Sequence[Planned]) -> str:
    """Return one row per code: expected half-width of its corrected share, in points, by n."""
    sizes = sorted({one.n for one in planned})
    codes = {one.code: one for one in sorted(planned, key=lambda one: -one.judged)}
    by_place = {(one.code, one.n): one for one in planned}
    rows = [("code", "judged", "judged %", *(f"n={n}" for n in sizes))]
    for code, first in sorted(codes.items(), key=lambda item: (item[0] == "none", 0)):
        widths = [by_place[code, n] for n in sizes]
        rows.append(
            (
                one_line(code, 64),
                str(first.judged),
                f"{100 * first.share:.1f}",
                *(f"±{100 * one.half_width:.1f} ({one.expected})" for one in widths),
            )
        )
    return "\n".join(
        [
            *ruled(rows, last=rows[-1][0] == "none"),
            "",
            "Expected half-width of the corrected share's 95 % interval in points, and in brackets"
            " the labels of traces that the judge gave the code.",
            f"Assumed: the judge is right in {100 * ASSUMED_PRECISION:.0f} % of what it flags, and"
            " misses as many as it flags wrongly; traces are independent (with several traces of a"
            " task intervals get wider).",
        ]
    )
