"""The look of all figures: widths of a paper's columns, letters, and colours that the colour-blind
can tell apart.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import matplotlib
from matplotlib.figure import Figure, SubFigure
from matplotlib.font_manager import get_font
from matplotlib.lines import Line2D

from annotator.text import one_line

COLUMN, PAGE = 3.4, 7.0  # the widths of one column and of both, in a paper of two columns
LINE = 0.13  # the height of a line of text, in inches
CHARACTERS = 66  # in a line across a column; a page has twice as many
NAME = 24  # characters in a line of a code's name
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
    "figure.constrained_layout.h_pad": 0.04,  # inches
    "figure.constrained_layout.w_pad": 0.04,
    "legend.frameon": False,
    "legend.fontsize": SIZE,
    "legend.borderpad": 0,
    "legend.borderaxespad": 0.5,
    "legend.labelspacing": 0.25,
    "legend.handletextpad": 0.4,
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
    def width(self) -> float:
        """The width that it needs, in inches."""

    @property
    def height(self) -> float:
        """About how high it is drawn, in inches."""

    def draw(self, part: SubFigure) -> None:
        """Draw it."""


def stack(panels: Sequence[Plate]) -> Figure:
    """Return a figure as wide as the widest of its panels, one below the other."""
    heights = [panel.height for panel in panels]
    width = max(panel.width for panel in panels)
    figure = Figure(figsize=(width, sum(heights)), layout="constrained")
    parts = figure.subfigures(len(panels), 1, height_ratios=heights, squeeze=False)
    for panel, part in zip(panels, parts.flat, strict=True):
        panel.draw(part)
    return figure


def add_key(part: SubFigure, title: str, entries: Sequence[tuple[Line2D, str]] = ()) -> None:
    """Write a panel's title and, below it, the meaning of each marker."""
    if title or entries:
        part.legend(
            [line for line, _ in entries],
            [words for _, words in entries],
            title=title,
            title_fontproperties={"weight": "bold", "size": SIZE},
            alignment="left",
            loc="outside upper left",
        )


def add_notes(part: SubFigure, text: str) -> None:
    """Write lines below a panel."""
    part.supxlabel(text, x=0.01, ha="left", size=SIZE)


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


def wrap(text: str, characters: int) -> str:
    """Return text in lines of at most so many characters, broken at spaces, hyphens, underscores
    and the like, and within a word that is longer than a line.
    """
    lines = [""]
    for piece in re.split(r"(?<=[\s_/:-])", text):
        if lines[-1] and len((lines[-1] + piece).rstrip()) > characters:
            lines.append("")
        lines[-1] += piece
        while len(lines[-1].rstrip()) > characters:
            lines[-1:] = [lines[-1][:characters], lines[-1][characters:]]
    return "\n".join(line.rstrip() for line in lines)


def count_lines(*texts: str) -> int:
    """Return how many lines texts take, one below the other; an empty one takes none."""
    return sum(text.count("\n") + 1 for text in texts if text)
