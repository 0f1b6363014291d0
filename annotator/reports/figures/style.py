"""What all figures look like: colours that the colour-blind can tell apart, sizes of a paper's
column, text that is measured before it is set.

Places are in inches from the upper left corner of the figure.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, get_font
from matplotlib.textpath import text_to_path

from annotator.errors import AnnotatorError
from annotator.text import one_line

COLUMN, PAGE = 3.4, 7.0  # the widths of one column and of both, in a paper of two columns
_LARGEST = 200  # inches, the limit of PDF
MARGIN = 0.06
SIZE, SMALL = 7.0, 6.0  # of letters, in points
INK, GREY, FAINT, BAND = "#000000", "#595959", "#d9d9d9", "#f5f5f5"


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

_FONT = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
_SETTINGS: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # it comes with matplotlib: the same letters everywhere
    "font.size": SIZE,
    "text.parse_math": False,  # a name with dollars in it is no formula
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.labelsize": SIZE,
    "xtick.labelsize": SIZE,
    "ytick.labelsize": SIZE,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "hatch.linewidth": 0.5,
    "savefig.dpi": 300,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "annotator",
}


@contextmanager
def settings() -> Iterator[None]:
    """Draw with the settings of this file and of no ``matplotlibrc``."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        yield


class Plate(Protocol):
    """A part of a figure."""

    @property
    def height(self) -> float:
        """In inches."""

    def draw(self, figure: Figure, top: float) -> None:
        """Draw it across the figure, ``top`` inches below the upper edge."""


def stack(panels: Sequence[Plate], width: float) -> Figure:
    """Return a figure with panels one below the other.

    Raises:
        AnnotatorError: it would be larger than the formats allow.
    """
    gap = 0.2
    height = sum(panel.height for panel in panels) + gap * (len(panels) - 1) + 2 * MARGIN
    if max(width, height) > _LARGEST:
        raise AnnotatorError(
            f"figure: {width:.0f} by {height:.0f} inches would be needed, at most {_LARGEST} are"
            " possible: take fewer runs, or an attribute with fewer values"
        )
    figure = Figure(figsize=(width, height))
    top = MARGIN
    for panel in panels:
        panel.draw(figure, top)
        top += panel.height + gap
    return figure


def axes(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Return new axes at a place."""
    across, down = figure.get_size_inches()
    return figure.add_axes(
        (left / across, 1 - (top + height) / down, width / across, height / down)
    )


def write(figure: Figure, left: float, top: float, text: str, **options: Any) -> None:
    """Write lines of text, the upper left corner of the first at a place."""
    across, down = figure.get_size_inches()
    step = height_of(1, options.get("size", SIZE))
    for n, line in enumerate(text.split("\n")):
        baseline = top + (n + 0.76) * step  # of the letters' own heights nothing depends
        figure.text(left / across, 1 - baseline / down, line, va="baseline", **options)


def to_glyphs(text: str) -> str:
    """Return a stranger's text as a figure can show it, on one line.

    A character that the font lacks, that cannot be seen or that is written from right to left (and
    turns the numbers beside it round) is given by its code point, so that no two names look alike.
    """
    line = unicodedata.normalize("NFC", one_line(text, 120))
    return "".join(sign if _is_plain(sign) else f"\\u{ord(sign):04x}" for sign in line)


@cache
def _is_plain(character: str) -> bool:
    return (
        ord(character) in _charmap()
        and unicodedata.category(character)[0] not in "MC"
        and unicodedata.bidirectional(character) not in ("R", "AL", "AN")
    )


@cache
def _charmap() -> frozenset[int]:
    return frozenset(get_font(str(_FONT)).get_charmap())


@cache
def width_of(text: str, size: float = SIZE) -> float:
    """Return the width of a line in inches."""
    font = FontProperties(fname=str(_FONT), size=size)
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width) / 72


def height_of(lines: int, size: float = SIZE) -> float:
    """Return the height of so many lines in inches."""
    return lines * 1.32 * size / 72


def wrap(text: str, room: float, size: float = SIZE) -> list[str]:
    """Return text in lines of at most ``room`` inches, broken at spaces, hyphens, underscores and
    the like, and within a word that is longer than a line.
    """
    lines, line = [], ""
    for piece in re.split(r"(?<=[\s_/:-])|(?<=[.,])(?!\d)", text):
        if line and width_of((line + piece).rstrip(), size) > room:
            lines.append(line.rstrip())
            line = ""
        line += piece
        while width_of(line.rstrip(), size) > room:
            fits = _fitting(line, room, size)
            lines.append(line[:fits])
            line = line[fits:]
    return [*lines, line.rstrip()] if line.strip() or not lines else lines


def _fitting(line: str, room: float, size: float) -> int:
    """Return how many of a line's first characters fit, at least one."""
    widths = range(len(line) + 1)
    return max(1, bisect_right(widths, room, key=lambda n: width_of(line[:n], size)) - 1)


def wrap_title(text: str, room: float) -> list[str]:
    """Return text in lines of at most ``room`` inches when they are bold; no line for no text."""
    return wrap(text, room / 1.2) if text else []
