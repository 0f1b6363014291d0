"""A square of counts, a row and a column for each code; the count stands in its cell."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import LinearSegmentedColormap

from annotator.reports.digits import UNDEFINED
from annotator.reports.figures.style import FAINT, GREY, INK, LINE, NAME, wrap

_DIGIT = 0.062  # the width of a digit, in inches
_NAMED = 30  # columns that have names, at most; with more, a 0 is an empty cell
_LONG = 36  # characters in a column's name, at most; longer ones are numbered
_COLOURS = LinearSegmentedColormap.from_list("counts", ["#ffffff", "#0072B2"])


@dataclass(frozen=True, slots=True)
class Matrix:
    """A panel; the ids of counts are ``count:ROW:COLUMN``, from 0 on.

    ``counts``: None where the judge cannot find the code. ``sides``: the names of rows and columns,
    if they differ. ``caption``: what is counted; after it stand the ``notes``.
    """

    title: str
    codes: Sequence[str]
    counts: Sequence[Sequence[int | None]]
    caption: str
    notes: Sequence[str] = ()
    sides: tuple[str, str] | None = None
    key: ClassVar[tuple[()]] = ()

    @property
    def below(self) -> list[str]:
        """The caption with all notes, in one paragraph."""
        counts = {count for row in self.counts for count in row}
        hatched = ["Hatched: the judge cannot find the code."] if None in counts else []
        empty = ["Empty: 0."] if 0 in counts and self._large else []
        return [" ".join((self.caption, *hatched, *self.notes, *empty))]

    @property
    def size(self) -> tuple[float, float]:
        """Cells as wide as the longest count and as high as the longest name."""
        digits = max(len(self._text(count)) for row in self.counts for count in row)
        lines = max(name.count("\n") for name in self._names()[0]) + 1
        n = len(self.codes)
        return n * max(0.15, _DIGIT * digits + 0.02), n * (LINE * lines + 0.05)

    def draw(self, plot: Axes) -> None:
        """Draw the cells, the counts in them, and the names around them."""
        rows, columns, rotation = self._names()
        middles = [n + 0.5 for n in range(len(self.codes))]
        plot.set_yticks(middles, rows)
        plot.set_xticks(middles, columns, rotation=rotation)
        plot.tick_params(length=0, pad=2, top=False, labeltop=True, bottom=False, labelbottom=False)
        plot.spines[:].set_visible(False)
        if self.sides:
            plot.xaxis.set_label_position("top")
            plot.set_ylabel(self.sides[0], weight="bold")
            plot.set_xlabel(self.sides[1], weight="bold")
        unknown = np.array([[count is None for count in row] for row in self.counts])
        counts = np.array([[count or 0 for count in row] for row in self.counts])
        shares = counts / max(counts.max(), 1)
        _squares(plot, ~unknown, 0.4, facecolors=_COLOURS(shares[~unknown]), edgecolors=FAINT)
        _squares(plot, unknown, 0.4, facecolors="#eee", edgecolors="#bdbdbd", hatch="////")
        diagonal = np.eye(len(counts), dtype=bool) & ~unknown
        _squares(plot, diagonal, 0.7, facecolors="none", edgecolors=GREY)
        for (row, column), share in np.ndenumerate(shares):
            if text := self._text(self.counts[row][column]):
                colour = "white" if share > 0.6 else INK if share else GREY
                place = (column + 0.5, row + 0.5)
                cell = plot.text(*place, text, ha="center", va="center", color=colour)
                cell.set_gid(f"count:{row}:{column}")
                cell.set_in_layout(False)  # it stands within its cell
        plot.set_xlim(0, len(self.codes))
        plot.set_ylim(len(self.codes), 0)

    @property
    def _large(self) -> bool:
        """Whether there are so many cells that zeros would hide the other counts."""
        return len(self.codes) > _NAMED

    def _names(self) -> tuple[list[str], list[str], float]:
        """Return the names of rows and of columns, and how far these are turned. Columns have the
        numbers of the rows where names would take more room than the counts.
        """
        if self._large or max(map(len, self.codes)) > _LONG:
            numbers = [str(n) for n in range(1, len(self.codes) + 1)]
            rows = [f"{n} {code}" for n, code in zip(numbers, self.codes, strict=True)]
            return [wrap(row, 2 * NAME) for row in rows], numbers, 0
        return [wrap(code, NAME) for code in self.codes], list(self.codes), 90

    def _text(self, count: int | None) -> str:
        return UNDEFINED if count is None else "" if count == 0 and self._large else str(count)


def _squares(plot: Axes, cells: Any, width: float, **how: Any) -> None:
    """Draw cells of a mask at once: thousands of patches would take half a minute."""
    corners = np.array([(0, 0), (1, 0), (1, 1), (0, 1)])
    squares = [corners + place for place in np.argwhere(cells)[:, ::-1]]
    plot.add_collection(PolyCollection(squares, linewidths=width, clip_on=False, **how))
