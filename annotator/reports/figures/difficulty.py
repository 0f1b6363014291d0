"""Success against difficulty, solo and in cooperation."""

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from annotator.errors import AnnotatorError
from annotator.reports.digits import UNDEFINED, find_limits
from annotator.reports.figures import FigureSource, Plot
from annotator.reports.figures.style import (
    COLUMN,
    FAINT,
    GREY,
    INK,
    LOOKS,
    PAGE,
    SIZE,
    SMALL,
    Theme,
    to_glyphs,
    wrap,
)
from annotator.reports.stats.model import Bucket, Curve, Difficulty
from annotator.reports.tables.stats import retention_cells
from annotator.text import count

_ACROSS = 3  # panels beside each other
_MOST = 12
_HEIGHT = 2.3  # of a panel, in inches
_APART = 0.009  # solo left and coop right of the middle of a bucket, so that both can be seen
_SETTINGS = (("solo", LOOKS[0]), ("coop", LOOKS[1]))


def figure(source: FigureSource) -> Plot:
    """Draw the curve of all models together and, if there are several, of each; of many models,
    those with most pairs.

    Raises:
        AnnotatorError: there are no statistics.
    """
    if source.stats is None:
        raise AnnotatorError("a figure of difficulty needs the statistics of traces")
    difficulty = source.stats.difficulty
    curves = difficulty.by_model if len(difficulty.by_model) > 1 else ()
    chosen = sorted(curves, key=lambda curve: -curve.pairs)[: _MOST - 1]
    drawn_curves = [difficulty.pooled, *(curve for curve in curves if curve in chosen)]
    left_out = [curve for curve in curves if curve not in chosen]
    names = ", ".join(to_glyphs(curve.model or "") for curve in left_out)
    notice = f"{len(left_out)} models with fewer pairs are not drawn: {names}"
    notices = [notice] if left_out else []
    about = [*_about(difficulty), *source.stats.notes, *notices]
    return Plot(_draw_all(drawn_curves), "success by difficulty", about, notices)


def _draw_all(curves: Sequence[Curve]) -> Figure:
    """Draw a panel for each curve, the first ones in the first row."""
    across = _ACROSS if len(curves) > 1 else 1
    down = math.ceil(len(curves) / across)
    size = (PAGE if len(curves) > 1 else COLUMN, _HEIGHT * down + 0.2)
    figure = Figure(figsize=size, layout="constrained")
    _key(figure)
    for n, curve in enumerate(curves):
        plot = figure.add_subplot(down, across, n + 1)
        below = wrap(f"{count(curve.pairs, 'pair')}; {_areas(curve)}", 74 if across == 1 else 42)
        _frame(plot, below, named=n % across == 0)
        if len(curves) > 1:
            name = "all models" if curve.model is None else to_glyphs(curve.model)
            plot.set_title(wrap(name, 32), loc="left", size=SIZE, weight="bold")
        _draw(plot, curve)
    return figure


def _about(difficulty: Difficulty) -> list[str]:
    lines = [f"{difficulty.pairs} pairs with a difficulty, {difficulty.models} models"]
    for curve in (difficulty.pooled, *difficulty.by_model):
        lines.append(f"{to_glyphs(curve.model or 'pooled')}: {curve.pairs} pairs; {_areas(curve)}")
    return lines


def _areas(curve: Curve) -> str:
    """Return what the table says of a curve's areas, in words."""
    *_, solo, coop, _, retained, limits = retention_cells(curve)
    words = f"area: solo {solo}, coop {coop}; retention {retained}"
    words += f" {limits}" if limits != UNDEFINED else ""
    reason = curve.retention.reason
    return f"{words} ({reason})" if reason else words


def _key(figure: Figure) -> None:
    lines = [Line2D([], [], **_line(look)) for _, look in _SETTINGS]
    nothing = Line2D([], [], linestyle="none")
    names = [*(name for name, _ in _SETTINGS), "bars: 95 % intervals (Wilson)"]
    figure.legend(
        [*lines, nothing],
        names,
        labelcolor=[INK, INK, GREY],
        ncols=3,
        loc="outside upper left",
        handlelength=3,
    )


def _line(look: Theme) -> dict[str, Any]:
    return {
        "color": look.colour,
        "marker": look.marker,
        "markersize": 3.6,
        "linestyle": look.line,
        "linewidth": 1.0,
        "clip_on": False,
    }


def _frame(plot: Axes, below: str, *, named: bool) -> None:
    plot.set_xlim(0, 1)
    plot.set_ylim(0, 100)
    plot.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1])
    plot.set_yticks([0, 25, 50, 75, 100])
    axis = f"difficulty (0 easiest, 1 hardest pair)\n{below}"
    plot.set_xlabel(axis, labelpad=2, size=SMALL)
    if named:
        plot.set_ylabel("runs that passed, %", labelpad=2)
    plot.grid(axis="y", color=FAINT, linewidth=0.4)
    plot.set_axisbelow(True)


def _draw(plot: Axes, curve: Curve) -> None:
    for (name, look), away in zip(_SETTINGS, (-_APART, _APART), strict=True):
        for part in _neighbours(curve.buckets):
            points = []
            for bucket in part:
                share = bucket.solo if name == "solo" else bucket.coop
                x = (bucket.low + bucket.high) / 2 + away
                points.append((x, 100 * (share.k / share.n)))
                where = f"{name}:{to_glyphs(curve.model or '')}:{bucket.low:.1f}"
                if ends := find_limits(share):  # of one task there are none
                    y = [100 * end for end in ends]
                    [bar] = plot.plot((x, x), y, color=look.colour, linewidth=0.8, clip_on=False)
                    bar.set_gid(f"bar:{where}")
                [dot] = plot.plot(*points[-1], **_line(look), zorder=3)
                dot.set_gid(f"dot:{where}")
            if len(points) > 1:
                [line] = plot.plot(*zip(*points, strict=True), **_line(look) | {"marker": ""})
                line.set_gid(f"line:{name}:{to_glyphs(curve.model or '')}:{part[0].low:.1f}")
    if not curve.buckets:
        plot.text(0.5, 50, "no curve", ha="center", va="center", color=GREY)


def _neighbours(buckets: Sequence[Bucket]) -> list[list[Bucket]]:
    """Return the buckets in parts without an empty bucket between them: a line through it would
    look as if it were measured.
    """
    parts: list[list[Bucket]] = []
    for bucket in buckets:
        if parts and abs(parts[-1][-1].high - bucket.low) < 1e-9:
            parts[-1].append(bucket)
        else:
            parts.append([bucket])
    return parts
