"""A square of counts, a row and a column for each code; the count stands in its cell."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from annotator.reports.digits import UNDEFINED
from annotator.reports.figures.style import (
    COLUMN,
    FAINT,
    GREY,
    INK,
    MARGIN,
    PAGE,
    axes,
    height_of,
    stack,
    width_of,
    wrap,
    wrap_title,
    write,
)

_LABELS, _LONG_LABELS = 1.3, 4.0  # the longest line of a row's name, in inches
_CELL = 0.16, 0.34  # the least and the largest side of a cell
_NAMED = 30  # columns that have names, at most; with more, a 0 is an empty cell
_SIDE = 0.15  # what the names of the sides take
_DARK = "#0072B2"


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
        """The width that it needs: a column's, a page's, or what many codes take."""
        needed = self._before() + self._least() * len(self.codes) + MARGIN
        return next((width for width in (COLUMN, PAGE) if needed <= width), needed)

    @property
    def height(self) -> float:
        """In inches."""
        body = self._head() + self._cell() * len(self.codes)
        return height_of(len(self._title())) + body + 0.06 + height_of(len(self._below()))

    def draw(self, figure: Figure, top: float) -> None:
        """Draw it; the ids of counts are ``count:ROW:COLUMN``, from 0 on."""
        title = self._title()
        write(figure, MARGIN, top, "\n".join(title), weight="bold")
        top += height_of(len(title))
        side, start = self._cell() * len(self.codes), self._before()
        head = self._head()
        plot = axes(figure, start, top + head, side, side)
        plot.set_xlim(0, len(self.codes))
        plot.set_ylim(len(self.codes), 0)
        names = ["\n".join(lines) for lines in self._names()]
        middles = [n + 0.5 for n in range(len(names))]
        plot.set_yticks(middles, names)
        plot.set_xticks(middles, self._columns(), rotation=0 if self._numbered() else 90)
        plot.tick_params(length=0, pad=2, top=False, labeltop=True, bottom=False, labelbottom=False)
        for spine in plot.spines.values():
            spine.set_visible(False)
        self._cells(plot)
        self._sides(plot)
        below = top + head + side + 0.06
        write(figure, MARGIN, below, "\n".join(self._below()))

    def _title(self) -> list[str]:
        return wrap_title(self.title, self.width - 2 * MARGIN)

    def _names(self) -> list[list[str]]:
        if not self._numbered():
            return [wrap(code, _LABELS) for code in self.codes]
        return [wrap(f"{n} {code}", _LONG_LABELS) for n, code in enumerate(self.codes, 1)]

    def _numbered(self) -> bool:
        """Whether the columns are called by the numbers of the rows: names would take more room
        than the counts.
        """
        return self._many() or any(len(wrap(c, _LABELS)) > 2 for c in self.codes)

    def _many(self) -> bool:
        """Whether there are so many cells that zeros would hide the other counts."""
        return len(self.codes) > _NAMED

    def _columns(self) -> list[str]:
        if self._numbered():
            return [str(n) for n in range(1, len(self.codes) + 1)]
        return ["\n".join(lines) for lines in self._names()]

    def _before(self) -> float:
        """Return what stands left of the cells, and above them as well."""
        widest = max(width_of(line) for lines in self._names() for line in lines)
        return MARGIN + (_SIDE if self.sides else 0.0) + widest + 0.06

    def _head(self) -> float:
        """Return what stands above the cells."""
        if not self._numbered():
            return self._before() - MARGIN
        return (_SIDE if self.sides else 0.0) + height_of(1) + 0.04

    def _least(self) -> float:
        """Return the smallest cell that holds its count and the lines of its names."""
        digits = max(
            width_of(UNDEFINED if count is None else str(count))
            for row in self.counts
            for count in row
        )
        lines = max(len(lines) for lines in self._names())
        digits = max(digits, width_of(str(len(self.codes))) if self._numbered() else 0.0)
        return max(_CELL[0], digits + 0.03, height_of(lines) + 0.03)

    def _cell(self) -> float:
        room = (self.width - self._before() - MARGIN) / len(self.codes)
        return max(self._least(), min(room, _CELL[1]))

    def _below(self) -> list[str]:
        counts = {count for row in self.counts for count in row}
        hatched = ["Hatched: the judge cannot find the code."] if None in counts else []
        empty = ["Empty: 0."] if 0 in counts and self._many() else []
        below = " ".join((self.below, *hatched, *self.notes, *empty))
        return wrap(below, self.width - 2 * MARGIN)

    def _cells(self, plot: Axes) -> None:
        """Draw the cells and the counts in them."""
        codes = range(len(self.codes))
        counts = {(down, across): self.counts[down][across] for down in codes for across in codes}
        most = max((count or 0 for count in counts.values()), default=0)
        shares = {
            at: count / most if most else 0.0 for at, count in counts.items() if count is not None
        }
        unknown = [at for at, count in counts.items() if count is None]
        faces = [_blend(share) for share in shares.values()]
        _squares(plot, list(shares), faces, edgecolors=FAINT, linewidths=0.4)
        _squares(plot, unknown, "#eeeeee", edgecolors="#bdbdbd", linewidths=0.4, hatch="////")
        diagonal = [(n, n) for n in codes if (n, n) in shares]
        _squares(plot, diagonal, "none", edgecolors=GREY, linewidths=0.7)
        how: dict[str, Any] = {"ha": "center", "va": "center"}
        for (down, across), count in counts.items():
            if count == 0 and self._many():
                continue
            dark = shares.get((down, across), 0.0) > 0.6
            how["color"] = "white" if dark else INK if count else GREY
            text = UNDEFINED if count is None else str(count)
            plot.text(across + 0.5, down + 0.52, text, gid=f"count:{down}:{across}", **how)

    def _sides(self, plot: Axes) -> None:
        if not self.sides:
            return
        inch = 1 / (self._cell() * len(self.codes))
        rows, columns = self.sides
        left = -(self._before() - MARGIN - height_of(1) / 2) * inch
        above = 1 + (self._head() - height_of(1) / 2) * inch
        at: dict[str, Any] = {
            "transform": plot.transAxes,
            "weight": "bold",
            "ha": "center",
            "va": "center",
        }
        plot.text(left, 0.5, rows, rotation=90, **at)
        plot.text(0.5, above, columns, **at)


def stack_matrices(panels: Sequence[Matrix]) -> Figure:
    """Return a figure as wide as the widest of its panels, one below the other."""
    return stack(panels, max(panel.width for panel in panels))


def _squares(
    plot: Axes, places: Sequence[tuple[int, int]], faces: Sequence[Any] | str, **how: Any
) -> None:
    """Draw cells, by row and column, at once: thousands of patches would take half a minute."""
    corners = ((0, 0), (1, 0), (1, 1), (0, 1))
    shapes = [[(across + x, down + y) for x, y in corners] for down, across in places]
    plot.add_collection(
        PolyCollection(shapes, facecolors=faces, clip_on=False, **how), autolim=False
    )


def _blend(share: float) -> tuple[float, ...]:
    """Return the colour of a share of the largest count: white to blue."""
    dark = (int(_DARK[n : n + 2], 16) / 255 for n in (1, 3, 5))
    return tuple(1 - share * (1 - channel) for channel in dark)
