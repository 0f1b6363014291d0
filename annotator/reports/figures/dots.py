"""Dots with intervals: a row for each code, a lane in it for each series."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from annotator.reports.digits import UNDEFINED, find_limits
from annotator.reports.figures.style import (
    BAND,
    COLUMN,
    FAINT,
    GREY,
    MARGIN,
    SMALL,
    Theme,
    axes,
    height_of,
    width_of,
    wrap,
    wrap_title,
    write,
)
from validation import Estimate, Interval

_LANE, _ROOM = 0.115, 0.06  # the height of a lane, and what a row has besides, in inches
_APART = 0.07  # above a row that is kept apart
_AXIS = 0.2  # the ticks and their numbers
_LABELS = 0.42  # of the width, at most


@dataclass(frozen=True, slots=True)
class Mark:
    """What a series says of a row: a share with its limits, None where there is none to draw.

    ``instead`` is then written in its place. A share without a value that has limits is drawn as an
    interval without a dot.
    """

    share: Interval | Estimate | None
    instead: str = UNDEFINED

    @property
    def ends(self) -> tuple[float, float] | None:
        """The limits in percent; None where nothing is known."""
        ends = find_limits(self.share)
        return (100 * ends[0], 100 * ends[1]) if ends else None


@dataclass(frozen=True, slots=True)
class Series:
    """A lane in every row: its name in ids and its words in the key.

    ``look`` None: it has no lane and stands in the key only, with what there is to say.
    """

    name: str
    words: str
    look: Theme | None
    filled: bool = True


@dataclass(frozen=True, slots=True)
class DotRow:
    """A row: its code as it is shown, a mark per lane, and a short text at the right end."""

    code: str
    marks: Sequence[Mark]
    beside: str = ""
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Dots:
    """A panel. ``axis``: what the shares are of, in lines below it; ``full``: it goes to 100 %."""

    title: str
    series: Sequence[Series]
    rows: Sequence[DotRow]
    axis: Sequence[str]
    beside: str = ""
    full: bool = False

    @property
    def height(self) -> float:
        """In inches."""
        return self._above() + self._body() + _AXIS + height_of(len(self._below()))

    def draw(self, figure: Figure, top: float) -> None:
        """Draw it; the ids are ``dot:SERIES:CODE`` and, of intervals, ``bar:SERIES:CODE``."""
        names, side = self._names(), self._side()
        left = MARGIN + max(width_of(line) for lines in names for line in lines) + 0.11
        plot = axes(figure, left, top + self._above(), COLUMN - left - side, self._body())
        self._key(figure, top)
        self._scale(plot)
        place, ticks = 0.0, []
        for number, (row, lines) in enumerate(zip(self.rows, names, strict=True)):
            if row.apart and number:
                place += _APART
                plot.axhline(place - _APART / 2, color=GREY, linewidth=0.5)
            deep = self._deep(len(lines))
            if number % 2 == 0 and self._lanes() > 1:
                plot.axhspan(place, place + deep, color=BAND, linewidth=0, zorder=0)
            ticks.append(place + deep / 2)
            self._row(plot, row, ticks[-1])
            place += deep
        plot.tick_params(axis="y", length=0, pad=5.5)
        plot.set_yticks(ticks, ["\n".join(lines) for lines in names])
        if self.beside:
            end = COLUMN - MARGIN
            above = top + self._above() - height_of(1)
            write(figure, end, above, self.beside, ha="right", size=SMALL)
        below = top + self._above() + self._body() + _AXIS
        write(figure, MARGIN, below, "\n".join(self._below()))

    def _lanes(self) -> int:
        return sum(series.look is not None for series in self.series)

    def _deep(self, lines: int) -> float:
        """Return the height of a row whose label has so many lines."""
        return max(self._lanes() * _LANE, height_of(lines)) + _ROOM

    def _body(self) -> float:
        heights = [self._deep(len(lines)) for lines in self._names()]
        return sum(heights) + _APART * sum(row.apart for row in self.rows[1:])

    def _names(self) -> list[list[str]]:
        return [wrap(row.code, _LABELS * COLUMN) for row in self.rows]

    def _title(self) -> list[str]:
        return wrap_title(self.title, COLUMN - 2 * MARGIN)

    def _side(self) -> float:
        """Return the width right of the axis."""
        texts = [width_of(row.beside, SMALL) for row in self.rows]
        return max(*texts, width_of(self.beside, SMALL), 0.05) + MARGIN + 0.08

    def _below(self) -> list[str]:
        return [line for text in self.axis for line in wrap(text, COLUMN - 2 * MARGIN)]

    def _keyed(self) -> list[tuple[Series, list[str]]]:
        if len(self.series) < 2:
            return []
        return [(series, wrap(series.words, COLUMN - 2 * MARGIN - 0.2)) for series in self.series]

    def _above(self) -> float:
        lines = sum(len(words) for _, words in self._keyed()) + len(self._title())
        return height_of(lines) + (0.06 if lines else 0.02) + (height_of(1) if self.beside else 0)

    def _key(self, figure: Figure, top: float) -> None:
        """Write the title and, below it, what each marker means."""
        write(figure, MARGIN, top, "\n".join(self._title()), weight="bold")
        top += height_of(len(self._title()))
        for series, words in self._keyed():
            if series.look:
                dot = axes(figure, MARGIN, top, 0.16, height_of(1))
                dot.set_axis_off()
                dot.plot([0.0], [0.0], **_marker(series.look, series.filled))
            write(figure, MARGIN + 0.2, top, "\n".join(words))
            top += height_of(len(words))

    def _scale(self, plot: Axes) -> None:
        ends = [mark.ends for row in self.rows for mark in row.marks]
        most = max((end[1] for end in ends if end), default=100.0)
        most = 100.0 if self.full else max(most, 1.0)
        ticks = [float(tick) for tick in MaxNLocator(5).tick_values(0, most) if tick >= 0]
        far = min(next((tick for tick in ticks if tick >= most), most), 100.0)
        plot.set_xlim(0, far)
        plot.set_xticks([tick for tick in ticks if tick <= far])
        plot.set_ylim(self._body(), 0)
        plot.spines["left"].set_color(FAINT)
        plot.grid(axis="x", color=FAINT, linewidth=0.4)
        plot.set_axisbelow(True)

    def _row(self, plot: Axes, row: DotRow, middle: float) -> None:
        if all(mark.ends is None for mark in row.marks):
            _write_instead(plot, middle, row.marks[0].instead)
        else:
            lanes = [(series, series.look) for series in self.series if series.look]
            first = middle - (len(lanes) - 1) / 2 * _LANE
            for lane, ((series, look), mark) in enumerate(zip(lanes, row.marks, strict=True)):
                name = f"{series.name}:{row.code}"
                _draw(plot, first + lane * _LANE, mark, name, _marker(look, series.filled))
        if row.beside:
            plot.annotate(
                row.beside,
                (1, middle),
                (4, 0),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                va="center",
                size=SMALL,
                annotation_clip=False,
            )


def _marker(look: Theme, filled: bool) -> dict[str, Any]:
    return {
        "marker": look.marker,
        "markersize": 3.6,
        "markeredgewidth": 0.8,
        "color": look.colour,
        "markerfacecolor": look.colour if filled else "white",
        "linestyle": "none",
        "clip_on": False,
    }


def _draw(plot: Axes, place: float, mark: Mark, name: str, how: dict[str, Any]) -> None:
    """Draw a mark in its lane; ``how``: as :func:`_marker` says."""
    if mark.ends is None:
        _write_instead(plot, place, mark.instead)
        return
    colour = how["color"]
    width = 1.1 if how["markerfacecolor"] == colour else 0.7
    [bar] = plot.plot(
        mark.ends, (place, place), color=colour, linewidth=width, solid_capstyle="butt"
    )
    bar.set_clip_on(False)
    bar.set_gid(f"bar:{name}")
    if mark.share and mark.share.value is not None:
        [dot] = plot.plot([100 * mark.share.value], [place], zorder=3, **how)
        dot.set_gid(f"dot:{name}")


def _write_instead(plot: Axes, place: float, text: str) -> None:
    plot.annotate(
        text, (0, place), (3, 0), textcoords="offset points", va="center", size=SMALL, color=GREY
    )
