"""A square of counts, a row and a column for each code."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import LinearSegmentedColormap

from annotator.reports.digits import UNDEFINED
from annotator.reports.figures.style import FAINT, GREY, INK, LINE, NAME, FigurePanel, wrap

_DIGIT = 0.062  # the width of a digit, in inches
_LONG = 36  # characters in a column's name, at most; longer ones are numbered
_COLOURS = LinearSegmentedColormap.from_list("counts", ["#ffffff", "#0072B2"])


def draw_matrix(
    title: str,
    codes: Sequence[str],
    counts: Sequence[Sequence[int | None]],
    caption: str,
    notes: Sequence[str] = (),
    sides: tuple[str, str] | None = None,
) -> FigurePanel:
    """Return a panel; the ids of counts are ``count:ROW:COLUMN``, from 0 on. A count is None if the
    judge cannot find the code. The ``notes`` follow the ``caption``. ``sides`` name rows and
    columns.
    """
    n = len(codes)
    rows, columns, rotation = [wrap(code, NAME) for code in codes], list(codes), 90
    if max(map(len, codes)) > _LONG:  # names would take more room than the counts
        rows = [wrap(f"{number} {code}", 2 * NAME) for number, code in enumerate(codes, 1)]
        columns, rotation = [str(number) for number in range(1, n + 1)], 0
    unknown = np.array([[count is None for count in row] for row in counts])
    filled = np.array([[count or 0 for count in row] for row in counts])
    texts = [[str(count) for count in row] for row in filled]

    def draw(plot: Axes) -> None:
        middles = [number + 0.5 for number in range(n)]
        plot.set(xlim=(0, n), ylim=(n, 0))
        plot.set_yticks(middles, rows)
        plot.set_xticks(middles, columns, rotation=rotation)
        plot.tick_params(length=0, pad=2, top=False, labeltop=True, bottom=False, labelbottom=False)
        plot.spines[:].set_visible(False)
        if sides:
            plot.xaxis.set_label_position("top")
            plot.set_ylabel(sides[0], weight="bold")
            plot.set_xlabel(sides[1], weight="bold")
        shares = filled / max(filled.max(), 1)
        _draw_squares(plot, ~unknown, 0.4, facecolors=_COLOURS(shares[~unknown]), edgecolors=FAINT)
        _draw_squares(plot, unknown, 0.4, facecolors="#eee", edgecolors="#bdbdbd", hatch="////")
        _draw_squares(
            plot, np.eye(n, dtype=bool) & ~unknown, 0.7, facecolors="none", edgecolors=GREY
        )
        for (row, column), share in np.ndenumerate(shares):
            text = UNDEFINED if unknown[row, column] else texts[row][column]
            colour = "white" if share > 0.6 else INK if share else GREY
            position = (column + 0.5, row + 0.5)
            cell = plot.text(*position, text, ha="center", va="center", color=colour)
            cell.set_gid(f"count:{row}:{column}")
            cell.set_in_layout(False)  # it fits into its cell

    hatched = ["Hatched: the judge cannot find the code."] if unknown.any() else []
    below = [" ".join((caption, *hatched, *notes))]
    width = max(0.15, _DIGIT * max(len(text) for row in texts for text in row) + 0.02)
    height = LINE * max(row.count("\n") + 1 for row in rows) + 0.05
    return FigurePanel(title, [], below, n * width, n * height, draw)


def _draw_squares(plot: Axes, cells: Any, width: float, **how: Any) -> None:
    """Draw cells of a mask at once: thousands of patches would take half a minute."""
    corners = np.array([(0, 0), (1, 0), (1, 1), (0, 1)])
    squares = [corners + position for position in np.argwhere(cells)[:, ::-1]]
    plot.add_collection(PolyCollection(squares, linewidths=width, clip_on=False, **how))
