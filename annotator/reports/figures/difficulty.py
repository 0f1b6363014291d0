"""Success against difficulty, solo and in cooperation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from annotator.errors import AnnotatorError
from annotator.reports.digits import UNDEFINED, find_limits
from annotator.reports.figures import FigureSource, Plot
from annotator.reports.figures.style import (
    COLUMN,
    FAINT,
    GREY,
    LOOKS,
    MARGIN,
    PAGE,
    SMALL,
    Theme,
    axes,
    height_of,
    stack,
    to_glyphs,
    width_of,
    wrap,
    wrap_title,
    write,
)
from annotator.reports.stats.model import Bucket, Curve, Difficulty
from annotator.reports.tables.stats import retention_cells
from annotator.text import count

_ACROSS = 3  # panels beside each other
_MOST = 12
_PLOT = 1.5  # the height of the axes, in inches
_LEFT, _AXIS = 0.36, 0.38  # what stands left of them, and between them and the lines below
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
    panels = [
        _Strip(drawn_curves[n : n + _ACROSS], first=not n, several=len(drawn_curves) > 1)
        for n in range(0, len(drawn_curves), _ACROSS)
    ]
    left_out = [curve for curve in curves if curve not in chosen]
    names = ", ".join(to_glyphs(curve.model or "") for curve in left_out)
    notice = f"{len(left_out)} models with fewer pairs are not drawn: {names}"
    notices = [notice] if left_out else []
    about = [*_about(difficulty), *source.stats.notes, *notices]
    width = PAGE if len(drawn_curves) > 1 else COLUMN
    return Plot(stack(panels, width), "success by difficulty", about, notices)


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


@dataclass(frozen=True, slots=True)
class _Strip:
    """Panels beside each other; ``first``: below the key, ``several``: each with its name."""

    curves: Sequence[Curve]
    first: bool
    several: bool

    @property
    def height(self) -> float:
        """In inches."""
        return self._above() + _PLOT + _AXIS + height_of(max(map(len, self._below())))

    def draw(self, figure: Figure, top: float) -> None:
        """Draw it; the ids are ``dot:SETTING:MODEL:LOW`` and ``bar:`` and ``line:`` alike."""
        if self.first:
            _key(figure, top)
        for n, (curve, below) in enumerate(zip(self.curves, self._below(), strict=True)):
            left = MARGIN + n * self._step()
            at = top + self._above()
            plot = axes(figure, left + _LEFT, at, self._room() - _LEFT, _PLOT)
            _frame(plot, named=n == 0)
            _draw(plot, curve)
            if self.several:
                names = self._titles()[n]
                at_title = at - height_of(len(names)) - 0.04
                write(figure, left + _LEFT, at_title, "\n".join(names), weight="bold")
            write(figure, left, at + _PLOT + _AXIS, "\n".join(below), size=SMALL)

    def _step(self) -> float:
        return (PAGE - MARGIN) / _ACROSS

    def _room(self) -> float:
        return self._step() - 0.12 if self.several else COLUMN - 2 * MARGIN - 0.1

    def _titles(self) -> list[list[str]]:
        if not self.several:
            return [[]]
        return [
            wrap_title(
                "all models" if curve.model is None else to_glyphs(curve.model),
                self._room() - _LEFT,
            )
            for curve in self.curves
        ]

    def _below(self) -> list[list[str]]:
        return [
            wrap(f"{count(curve.pairs, 'pair')}; {_areas(curve)}", self._room(), SMALL)
            for curve in self.curves
        ]

    def _above(self) -> float:
        key = height_of(1) + 0.04 if self.first else 0.0
        return key + height_of(max(map(len, self._titles()))) + 0.08


def _key(figure: Figure, top: float) -> None:
    left = MARGIN + _LEFT
    for name, look in _SETTINGS:
        line = axes(figure, left, top, 0.3, height_of(1))
        line.set_axis_off()
        line.set_xlim(0, 1)
        line.plot([0.0, 0.5, 1.0], [0, 0, 0], markevery=[1], **_line(look))
        write(figure, left + 0.34, top, name)
        left += 0.34 + width_of(name) + 0.2
    write(figure, left, top, "bars: 95 % intervals (Wilson)", color=GREY)


def _line(look: Theme) -> dict[str, Any]:
    return {
        "color": look.colour,
        "marker": look.marker,
        "markersize": 3.6,
        "linestyle": look.line,
        "linewidth": 1.0,
        "clip_on": False,
    }


def _frame(plot: Axes, *, named: bool) -> None:
    plot.set_xlim(0, 1)
    plot.set_ylim(0, 100)
    plot.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1])
    plot.set_yticks([0, 25, 50, 75, 100])
    plot.set_xlabel("difficulty (0 easiest, 1 hardest pair)", labelpad=2)
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
