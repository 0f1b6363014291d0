"""The look of all figures: widths of a paper's columns, letters, and colours that the colour-blind
can tell apart.
"""

import unicodedata
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from re import compile
from textwrap import TextWrapper
from typing import Any, NamedTuple

import matplotlib
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import get_font
from matplotlib.lines import Line2D

from annotator.base.text import sanitize_line

COLUMN, PAGE = 3.4, 7.0  # the widths of one column and of both, in a paper of two columns
LINE = 0.13  # the height of a line of text, in inches
NAME = 24  # characters in a line of a code's name
SIZE, SMALL = 7.0, 6.0  # of letters, in points
INK, GREY, FAINT, BAND = "#000000", "#595959", "#d9d9d9", "#f5f5f5"
_CHARACTERS = 66  # in a line across a column; a page has twice as many
_ROOMY = 40.0  # inches: space for every name while the room around the plots is measured


class Theme(NamedTuple):
    """How one series is drawn; it can be told from the others without its colour too."""

    colour: str
    marker: str
    line: str | tuple[int, tuple[int, ...]]


# Okabe and Ito's colours; grey for their yellow, which is too light for a line on white.
LOOKS = (
    Theme("#0072B2", "o", "-"),
    Theme("#D55E00", "s", (0, (4, 1))),
    Theme("#009E73", "^", (0, (1, 1))),
    Theme("#CC79A7", "D", (0, (4, 1, 1, 1))),
    Theme("#E69F00", "v", (0, (6, 2))),
    Theme("#56B4E9", "P", (0, (2, 2))),
    Theme("#000000", "X", (0, (4, 1, 1, 1, 1, 1))),
    Theme("#7F7F7F", "h", (0, (1, 3))),
)

_FONT = Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")
_SETTINGS: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # it comes with matplotlib: the same letters everywhere
    "font.size": SIZE,
    "text.parse_math": False,  # a name with dollars in it is no formula
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "hatch.linewidth": 0.5,
    "figure.constrained_layout.h_pad": 0.04,  # inches
    "figure.constrained_layout.w_pad": 0.04,
    "legend.frameon": False,
    "legend.fontsize": SIZE,
    "legend.borderpad": 0,
    "legend.labelspacing": 0.25,
    "legend.handletextpad": 0.4,
    "savefig.dpi": 300,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "annotator",
}


def apply_style() -> AbstractContextManager[None]:
    """Draw with the settings of this file and of no ``matplotlibrc``."""
    return style.context(_SETTINGS, after_reset=True)


@dataclass(frozen=True, slots=True)
class FigurePanel:
    """A part of a figure: a title, the markers with their meaning, a plot, and paragraphs below it.

    ``width``: the least width of the plot without its names, in inches; ``height``: its height.
    """

    title: str
    key: Sequence[tuple[Line2D, str]]
    below: Sequence[str]
    width: float
    height: float
    draw: Callable[[Axes], None]


def stack(panels: Sequence[FigurePanel]) -> Figure:
    """Return a figure of panels, one below the other, a column or a page wide if that is enough."""
    figure = Figure(figsize=(_ROOMY, _ROOMY * len(panels)), layout="constrained")
    grid = figure.add_gridspec(len(panels), 1)
    parts = [figure.add_subfigure(grid[n]) for n in range(len(panels))]
    plots = [subfigure.add_subplot() for subfigure in parts]
    for panel, subfigure, plot in zip(panels, parts, plots, strict=True):
        if panel.title or panel.key:
            subfigure.legend(
                [line for line, _ in panel.key],
                [wrap(label, _CHARACTERS - 8) for _, label in panel.key],
                title=wrap(panel.title, _CHARACTERS - 12),
                title_fontproperties={"weight": "bold", "size": SIZE},
                alignment="left",
                loc="outside upper left",
            )
        panel.draw(plot)
    rooms = _measure(figure, plots)
    needed = max(width + panel.width for panel, (width, _) in zip(panels, rooms, strict=True))
    width = next((width for width in (COLUMN, PAGE) if needed <= width), needed)
    for panel, subfigure in zip(panels, parts, strict=True):
        lines = (wrap(text, _CHARACTERS * (1 if width == COLUMN else 2)) for text in panel.below)
        subfigure.supxlabel("\n".join(lines), x=0.01, ha="left", size=SIZE)
    rooms = _measure(figure, plots)
    heights = [height + panel.height for panel, (_, height) in zip(panels, rooms, strict=True)]
    grid.set_height_ratios(heights)
    figure.set_size_inches(width, sum(heights))
    return figure


def _measure(figure: Figure, plots: Sequence[Axes]) -> list[tuple[float, float]]:
    """Return the width and height that names, title and notes take beside and above each plot."""
    figure.draw_without_rendering()
    boxes = [(plot.figure.bbox, plot.bbox) for plot in plots]
    return [
        ((frame.width - cells.width) / figure.dpi, (frame.height - cells.height) / figure.dpi)
        for frame, cells in boxes
    ]


def escape_text(text: str) -> str:
    """Return a stranger's text as a figure can show it, on one line.

    A character that the font lacks, that cannot be seen or that is written from right to left (and
    turns the numbers beside it round) is given by its code point, so that no two names look alike.
    """
    line = unicodedata.normalize("NFC", sanitize_line(text, 120))
    return "".join(sign if _is_plain(sign) else f"\\u{ord(sign):04x}" for sign in line)


@cache
def _is_plain(character: str) -> bool:
    return (
        bool(get_font(str(_FONT)).get_char_index(ord(character)))
        and unicodedata.category(character)[0] not in "MC"
        and unicodedata.bidirectional(character) not in ("R", "AL", "AN")
    )


class _Wrapper(TextWrapper):
    """Breaks lines at spaces, hyphens, underscores and the like."""

    wordsep_simple_re = compile(r"(\s+)|(?<=[_/:-])")


def wrap(text: str, characters: int) -> str:
    """Return text in lines of at most so many characters."""
    return _Wrapper(characters, break_on_hyphens=False).fill(text)
