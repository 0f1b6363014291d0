"""Dots with intervals: a row for each code, a lane in it for each series."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from annotator.reports.digits import UNDEFINED, find_limits
from annotator.reports.figures.style import (
    BAND,
    CHARACTERS,
    COLUMN,
    FAINT,
    GREY,
    LINE,
    NAME,
    SMALL,
    Theme,
    add_key,
    add_notes,
    count_lines,
    wrap,
)
from validation import Estimate, Interval

# Heights in lines of text: a lane, what a row has besides, the gap above a row that is kept apart.
_LANE, _ROOM, _APART = 0.9, 0.45, 0.5


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
    width = COLUMN

    @property
    def height(self) -> float:
        """About how high it is drawn, in inches."""
        lines = count_lines(self._title(), *(words for _, words in self._keyed()), self._below())
        return LINE * (self._places()[1] + lines + 1.5) + (LINE if self.beside else 0) + 0.15

    def draw(self, part: SubFigure) -> None:
        """Draw it; the ids are ``dot:SERIES:CODE`` and, of intervals, ``bar:SERIES:CODE``."""
        nothing = Line2D([], [], linestyle="none")
        key = [
            (Line2D([], [], **_marker(lane.look, lane.filled)) if lane.look else nothing, words)
            for lane, words in self._keyed()
        ]
        add_key(part, self._title(), key)
        add_notes(part, self._below())
        plot = part.add_subplot()
        places, end = self._places()
        plot.set_ylim(end, 0)
        self._scale(plot)
        for number, (row, place) in enumerate(zip(self.rows, places, strict=True)):
            half = self._deep(row) / 2
            if row.apart and number:
                plot.axhline(place - half - _APART / 2, color=GREY, linewidth=0.5)
            if number % 2 == 0 and self._lanes() > 1:
                plot.axhspan(place - half, place + half, color=BAND, linewidth=0, zorder=0)
            self._row(plot, row, place)
        plot.tick_params(axis="y", length=0, pad=5.5)
        plot.set_yticks(places, [wrap(row.code, NAME) for row in self.rows])
        if self.beside:
            right = plot.secondary_yaxis("right")
            right.set_yticks(places, [row.beside for row in self.rows])
            right.tick_params(length=0, labelsize=SMALL)
            right.spines[:].set_visible(False)
            plot.set_title(self.beside, loc="right", size=SMALL)

    def _lanes(self) -> int:
        return sum(series.look is not None for series in self.series)

    def _deep(self, row: DotRow) -> float:
        """Return the height of a row, in lines of text."""
        return max(self._lanes() * _LANE, count_lines(wrap(row.code, NAME))) + _ROOM

    def _places(self) -> tuple[list[float], float]:
        """Return the middle of each row and the end of the last one, in lines of text."""
        middles, end = [], 0.0
        for number, row in enumerate(self.rows):
            end += _APART if row.apart and number else 0
            middles.append(end + self._deep(row) / 2)
            end += self._deep(row)
        return middles, end

    def _title(self) -> str:
        return wrap(self.title, CHARACTERS - 12)

    def _below(self) -> str:
        return "\n".join(wrap(text, CHARACTERS) for text in self.axis)

    def _keyed(self) -> list[tuple[Series, str]]:
        series = self.series if len(self.series) > 1 else ()
        return [(lane, wrap(lane.words, CHARACTERS - 8)) for lane in series]

    def _scale(self, plot: Axes) -> None:
        ends = [mark.ends for row in self.rows for mark in row.marks]
        most = max((end[1] for end in ends if end), default=100.0)
        most = 100.0 if self.full else max(most, 1.0)
        ticks = [float(tick) for tick in MaxNLocator(5).tick_values(0, most) if tick >= 0]
        far = min(next((tick for tick in ticks if tick >= most), most), 100.0)
        plot.set_xlim(0, far)
        plot.set_xticks([tick for tick in ticks if tick <= far])
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
