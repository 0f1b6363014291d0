"""Dots with intervals: a row for each code, a lane in it for each series."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from annotator.reports.digits import UNDEFINED, Share, find_limits
from annotator.reports.figures.style import (
    BAND,
    FAINT,
    GREY,
    LINE,
    NAME,
    SMALL,
    FigurePanel,
    Theme,
    wrap,
)

# Heights in lines of text: a lane, what a row has besides, the gap above a row that is kept apart.
_LANE, _ROOM, _APART = 0.9, 0.45, 0.5
_WIDTH = 1.0  # room for a scale, in inches


class Mark(NamedTuple):
    """A share with its limits in a lane; where neither is defined, the text ``instead``."""

    share: Share | None
    instead: str = UNDEFINED


@dataclass(frozen=True, slots=True)
class Series:
    """A lane in every row: its name in ids, its meaning in the key; no look: only in the key."""

    name: str
    meaning: str
    look: Theme | None
    filled: bool = True

    @property
    def marker(self) -> dict[str, Any]:
        """The marker as matplotlib draws it."""
        if self.look is None:
            return {"linestyle": "none"}
        return {
            "marker": self.look.marker,
            "markersize": 3.6,
            "markeredgewidth": 0.8,
            "color": self.look.colour,
            "markerfacecolor": self.look.colour if self.filled else "white",
            "linestyle": "none",
            "clip_on": False,
        }


@dataclass(frozen=True, slots=True)
class DotRow:
    """A row: its code, a mark per lane, and a short text at the right end."""

    code: str
    marks: Sequence[Mark]
    beside: str = ""
    apart: bool = False


def draw_dots(
    title: str,
    series: Sequence[Series],
    rows: Sequence[DotRow],
    below: Sequence[str],
    *,
    beside: str = "",
    full: bool = False,
) -> FigurePanel:
    """Return a panel; the ids are ``dot:SERIES:CODE`` and, of intervals, ``bar:SERIES:CODE``.
    ``full``: the axis goes to 100 %.
    """
    lanes = [lane for lane in series if lane.look]
    names = [wrap(row.code, NAME) for row in rows]
    spans: list[tuple[float, float]] = []  # each row's top and bottom, in lines of text
    end = 0.0
    for row, name in zip(rows, names, strict=True):
        top = end + (_APART if row.apart and spans else 0)
        end = top + max(len(lanes) * _LANE, name.count("\n") + 1) + _ROOM
        spans.append((top, end))
    middles = [(top + bottom) / 2 for top, bottom in spans]

    def draw(plot: Axes) -> None:
        plot.set_ylim(end, 0)
        _set_scale(plot, rows, full=full)
        for number, (row, (top, bottom)) in enumerate(zip(rows, spans, strict=True)):
            if row.apart and number:
                plot.axhline(top - _APART / 2, color=GREY, linewidth=0.5)
            if number % 2 == 0 and len(lanes) > 1:
                plot.axhspan(top, bottom, color=BAND, linewidth=0, zorder=0)
            if not any(find_limits(mark.share) for mark in row.marks):
                _write(plot, middles[number], row.marks[0].instead)
                continue
            y = middles[number] - (len(lanes) - 1) / 2 * _LANE
            for n, (lane, mark) in enumerate(zip(lanes, row.marks, strict=True)):
                _draw_mark(plot, y + n * _LANE, mark, lane, row.code)
        plot.tick_params(axis="y", length=0, pad=5.5)
        plot.set_yticks(middles, names)
        if beside:
            right = plot.secondary_yaxis("right")
            right.set_yticks(middles, [row.beside for row in rows])
            right.tick_params(length=0, labelsize=SMALL)
            right.spines[:].set_visible(False)
            plot.set_title(beside, loc="right", size=SMALL)

    key = [(Line2D([], [], **lane.marker), lane.meaning) for lane in series]
    return FigurePanel(title, key if len(key) > 1 else [], below, _WIDTH, LINE * end, draw)


def _set_scale(plot: Axes, rows: Sequence[DotRow], *, full: bool) -> None:
    limits = [find_limits(mark.share) for row in rows for mark in row.marks]
    maximum = 1.0 if full else max((pair[1] for pair in limits if pair), default=1.0)
    maximum = max(100 * maximum, 1.0)
    ticks = [float(tick) for tick in MaxNLocator(5).tick_values(0, maximum) if tick >= 0]
    far = min(next((tick for tick in ticks if tick >= maximum), maximum), 100.0)
    plot.set_xlim(0, far)
    plot.set_xticks([tick for tick in ticks if tick <= far])
    plot.spines["left"].set_color(FAINT)
    plot.grid(axis="x", color=FAINT, linewidth=0.4)
    plot.set_axisbelow(True)


def _draw_mark(plot: Axes, y: float, mark: Mark, series: Series, code: str) -> None:
    limits = find_limits(mark.share)
    if limits is None or mark.share is None:
        _write(plot, y, mark.instead)
        return
    name, marker = f"{series.name}:{code}", series.marker
    how = {"linewidth": 1.1 if series.filled else 0.7, "color": marker["color"]}
    ends = [100 * limit for limit in limits]
    plot.plot(ends, (y, y), **how, solid_capstyle="butt", clip_on=False, gid=f"bar:{name}")
    if mark.share.value is not None:
        plot.plot(100 * mark.share.value, y, **marker, zorder=3, gid=f"dot:{name}")


def _write(plot: Axes, y: float, text: str) -> None:
    offset: dict[str, Any] = {"xytext": (3, 0), "textcoords": "offset points"}
    plot.annotate(text, (0, y), **offset, va="center", size=SMALL, color=GREY)
