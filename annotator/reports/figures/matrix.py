"""A square of counts, a row and a column for each code; the count stands in its cell."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import SubFigure
from matplotlib.textpath import TextPath

from annotator.reports.digits import UNDEFINED
from annotator.reports.figures.style import (
    CHARACTERS,
    COLUMN,
    FAINT,
    GREY,
    INK,
    LINE,
    NAME,
    PAGE,
    SIZE,
    add_key,
    add_notes,
    count_lines,
    wrap,
)

_DIGIT = 0.062  # the width of a digit, in inches
_NAMED = 30  # columns that have names, at most; with more, a 0 is an empty cell
_LONG = 36  # characters in a column's name, at most; longer ones are numbered
_COLOURS = LinearSegmentedColormap.from_list("counts", ["#ffffff", "#0072B2"])


@dataclass(frozen=True, slots=True)
class Matrix:
    """A panel. ``counts``: None where the judge cannot find the code. ``sides``: what rows and
    columns are, if they differ.

    ``below``: what is counted, and of how many; after it stand the ``notes``.
    """

    title: str
    codes: Sequence[str]
    counts: Sequence[Sequence[int | None]]
    below: str
    notes: Sequence[str] = ()
    sides: tuple[str, str] | None = None

    @property
    def width(self) -> float:
        """The width that it needs: a column's, a page's, or the width of many cells."""
        texts = [self._text(count) for row in self.counts for count in row]
        cell = max(0.15, _DIGIT * max(map(len, texts)) + 0.02)
        lines = [line for row in self._rows() for line in row.split("\n")]
        needed = 0.15 + _longest(lines) + cell * len(self.codes)
        return next((width for width in (COLUMN, PAGE) if needed <= width), needed)

    @property
    def height(self) -> float:
        """About how high it is drawn, in inches."""
        cell = LINE * max(map(count_lines, self._rows())) + 0.05
        above = LINE if self._numbered() else _longest(self._columns())
        lines = count_lines(self.title, self._below()) + (1 if self.sides else 0)
        return cell * len(self.codes) + above + LINE * lines + 0.3

    def draw(self, part: SubFigure) -> None:
        """Draw it; the ids of counts are ``count:ROW:COLUMN``, from 0 on."""
        add_key(part, wrap(self.title, CHARACTERS - 12))
        add_notes(part, self._below())
        plot = part.add_subplot()
        middles = [n + 0.5 for n in range(len(self.codes))]
        plot.set_yticks(middles, self._rows())
        plot.set_xticks(middles, self._columns(), rotation=0 if self._numbered() else 90)
        plot.tick_params(length=0, pad=2, top=False, labeltop=True, bottom=False, labelbottom=False)
        plot.spines[:].set_visible(False)
        if self.sides:
            plot.xaxis.set_label_position("top")
            plot.set_ylabel(self.sides[0], weight="bold")
            plot.set_xlabel(self.sides[1], weight="bold")
        self._cells(plot)
        plot.set_xlim(0, len(self.codes))
        plot.set_ylim(len(self.codes), 0)

    def _numbered(self) -> bool:
        """Whether the columns are called by the numbers of the rows: names would take more room
        than the counts.
        """
        return self._many() or max(map(len, self.codes)) > _LONG

    def _many(self) -> bool:
        """Whether there are so many cells that zeros would hide the other counts."""
        return len(self.codes) > _NAMED

    def _rows(self) -> list[str]:
        if self._numbered():
            return [wrap(f"{n} {code}", 2 * NAME) for n, code in enumerate(self.codes, 1)]
        return [wrap(code, NAME) for code in self.codes]

    def _columns(self) -> list[str]:
        numbers = [str(n) for n in range(1, len(self.codes) + 1)]
        return numbers if self._numbered() else list(self.codes)

    def _below(self) -> str:
        counts = {count for row in self.counts for count in row}
        hatched = ["Hatched: the judge cannot find the code."] if None in counts else []
        empty = ["Empty: 0."] if 0 in counts and self._many() else []
        characters = CHARACTERS if self.width == COLUMN else 2 * CHARACTERS
        return wrap(" ".join((self.below, *hatched, *self.notes, *empty)), characters)

    def _text(self, count: int | None) -> str:
        return UNDEFINED if count is None else "" if count == 0 and self._many() else str(count)

    def _cells(self, plot: Axes) -> None:
        """Draw the cells and the counts in them."""
        unknown = np.array([[count is None for count in row] for row in self.counts])
        counts = np.array([[count or 0 for count in row] for row in self.counts])
        shares = counts / max(counts.max(), 1)
        _squares(plot, ~unknown, 0.4, facecolors=_COLOURS(shares[~unknown]), edgecolors=FAINT)
        _squares(plot, unknown, 0.4, facecolors="#eee", edgecolors="#bdbdbd", hatch="////")
        diagonal = np.eye(len(counts), dtype=bool) & ~unknown
        _squares(plot, diagonal, 0.7, facecolors="none", edgecolors=GREY)
        for (down, across), share in np.ndenumerate(shares):
            if text := self._text(self.counts[down][across]):
                colour = "white" if share > 0.6 else INK if share else GREY
                place = (across + 0.5, down + 0.5)
                cell = plot.text(*place, text, ha="center", va="center", color=colour)
                cell.set_gid(f"count:{down}:{across}")
                cell.set_in_layout(False)  # it stands within its cell


def _longest(names: Sequence[str]) -> float:
    """Return the width of the longest name, in inches."""
    return max(TextPath((0, 0), name, size=SIZE).get_extents().width for name in names) / 72


def _squares(plot: Axes, shown: Any, width: float, **how: Any) -> None:
    """Draw the cells that are ``shown`` at once: thousands of patches would take half a minute."""
    corners = np.array([(0, 0), (1, 0), (1, 1), (0, 1)])
    squares = [corners + place for place in np.argwhere(shown)[:, ::-1]]
    plot.add_collection(PolyCollection(squares, linewidths=width, clip_on=False, **how))
