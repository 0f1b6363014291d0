"""Success against difficulty, solo and in cooperation."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from annotator.base.errors import AnnotatorError
from annotator.base.text import format_count
from annotator.cooperbench.stats.model import Bucket, Curve
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
    escape_text,
    wrap,
)
from annotator.reports.tables.stats import write_retention

_ACROSS = 3  # panels beside each other
_HEIGHT = 2.3  # of a panel, in inches
_APART = 0.009  # solo left and coop right of the middle of a bucket, so that both can be seen
_STYLES: dict[str, dict[str, Any]] = {
    name: {
        "color": look.colour,
        "marker": look.marker,
        "markersize": 3.6,
        "linestyle": look.line,
        "linewidth": 1.0,
        "clip_on": False,
    }
    for name, look in zip(("solo", "coop"), LOOKS, strict=False)
}


def draw_figure(source: FigureSource) -> Plot:
    """Draw the curve of all models together and, if there are several, of each."""
    if source.stats is None:
        raise AnnotatorError("a figure of difficulty needs the statistics of traces")
    difficulty = source.stats.difficulty
    curves = difficulty.by_model if len(difficulty.by_model) > 1 else ()
    return Plot(_draw_panels([difficulty.pooled, *curves]))


def _draw_panels(curves: Sequence[Curve]) -> Figure:
    several = len(curves) > 1
    across = _ACROSS if several else 1
    down = -(-len(curves) // across)
    size = (PAGE if several else COLUMN, _HEIGHT * down + 0.2)
    figure = Figure(figsize=size, layout="constrained")
    figure.legend(
        [*(Line2D([], [], **look) for look in _STYLES.values()), Line2D([], [], linestyle="none")],
        [*_STYLES, "bars: 95 % intervals (Wilson)"],
        labelcolor=[INK, INK, GREY],
        ncols=3,
        loc="outside upper left",
        handlelength=3,
    )
    for n, curve in enumerate(curves):
        plot = figure.add_subplot(down, across, n + 1)
        plot.set(xlim=(0, 1), ylim=(0, 100), yticks=[0, 25, 50, 75, 100])
        plot.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1])
        areas = wrap(
            f"{format_count(curve.pairs, 'pair')}; {_describe_areas(curve)}", 42 if several else 74
        )
        axis = f"difficulty (0 easiest, 1 hardest pair)\n{areas}"
        plot.set_xlabel(axis, labelpad=2, size=SMALL)
        if n % across == 0:
            plot.set_ylabel("runs that passed, %", labelpad=2)
        plot.grid(axis="y", color=FAINT, linewidth=0.4)
        plot.set_axisbelow(True)
        if several:
            name = "all models" if curve.model is None else escape_text(curve.model)
            plot.set_title(wrap(name, 32), loc="left", size=SIZE, weight="bold")
        _draw_curve(plot, curve)
    return figure


def _describe_areas(curve: Curve) -> str:
    """Return what the table says of a curve's areas, in words."""
    *_, solo, coop, _, retained, limits = write_retention(curve)
    text = f"area: solo {solo}, coop {coop}; retention {retained}"
    text += f" {limits}" if limits != UNDEFINED else ""
    reason = curve.retention.reason
    return f"{text} ({reason})" if reason else text


def _draw_curve(plot: Axes, curve: Curve) -> None:
    model = escape_text(curve.model or "")
    for (name, look), away in zip(_STYLES.items(), (-_APART, _APART), strict=True):
        for segment in _split_gaps(curve.buckets):
            points = []
            for bucket in segment:
                share = bucket.solo if name == "solo" else bucket.coop
                x = (bucket.low + bucket.high) / 2 + away
                points.append((x, 100 * (share.k / share.n)))
                where = f"{name}:{model}:{bucket.low:.1f}"
                if ends := find_limits(share):  # of one task there are none
                    y = [100 * end for end in ends]
                    bar = {"color": look["color"], "linewidth": 0.8, "clip_on": False}
                    plot.plot((x, x), y, **bar, gid=f"bar:{where}")
                plot.plot(*points[-1], **look, zorder=3, gid=f"dot:{where}")
            if len(points) > 1:
                line = {**look, "marker": "", "gid": f"line:{name}:{model}:{segment[0].low:.1f}"}
                plot.plot(*zip(*points, strict=True), **line)
    if not curve.buckets:
        plot.text(0.5, 50, "no curve", ha="center", va="center", color=GREY)


def _split_gaps(buckets: Sequence[Bucket]) -> list[list[Bucket]]:
    """Return the buckets in parts without a gap: a line through it would look measured."""
    parts: list[list[Bucket]] = []
    for bucket in buckets:
        if parts and abs(parts[-1][-1].high - bucket.low) < 1e-9:
            parts[-1].append(bucket)
        else:
            parts.append([bucket])
    return parts
