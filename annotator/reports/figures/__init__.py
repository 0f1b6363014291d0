"""Figures for papers: one file per kind, drawn with the numbers of the tables.

matplotlib is imported once a figure is asked for.
"""

import io
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from annotator.base.errors import AnnotatorError
from annotator.base.files import write_file
from annotator.base.plugins import explain_extra
from annotator.base.remote import find_url

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from annotator.calibration.model import Calibrations
    from annotator.cooperbench.stats import Stats
    from annotator.reports.co_occurrence import CoOccurrence
    from annotator.reports.frequency import FrequencyTable
    from annotator.runs.run import Run

# Kind -> its module here; each has draw_figure(FigureSource) -> Plot.
PLOTS = {
    "frequency": "frequency",
    "co-occurrence": "co_occurrence",
    "confusion": "confusion",
    "reliability": "reliability",
}
DIFFICULTY = "difficulty"  # of ``annotate stats``, which has no other kind
_MAKER = "failure-annotator"
_METADATA: dict[str, dict[str, str | None]] = {  # no versions and dates: they make other bytes
    "svg": {"Creator": _MAKER, "Date": None},
    "png": {"Software": _MAKER},
    "pdf": {"Creator": _MAKER, "Producer": None, "CreationDate": None},
}
_SUFFIXES = tuple(f".{name}" for name in _METADATA)


@dataclass(frozen=True, slots=True)
class FigureSource:
    """The data of figures; each kind uses a part of it."""

    runs: "Sequence[Run]" = ()
    tables: "Sequence[FrequencyTable]" = ()
    calibrations: "Calibrations | None" = None
    co_occurrences: "Sequence[CoOccurrence]" = ()
    stats: "Stats | None" = None


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure, and the things that it leaves out, a line each."""

    figure: "Figure"
    left_out: Sequence[str] = ()


def check(file: Path) -> None:
    """Raise :class:`AnnotatorError` if no figure can be written to ``file``: matplotlib is not
    installed, the name does not end as that of a format, or there is no such folder.
    """
    if file.suffix.lower() not in _SUFFIXES:
        raise AnnotatorError(f"figure {file}: the name must end in {', '.join(_SUFFIXES)}")
    if not find_url(file) and not file.parent.is_dir():
        raise AnnotatorError(f"figure {file}: there is no folder {file.parent}")
    # It says on stderr where it keeps its list of fonts, which is nobody's business here.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        import_module("matplotlib")
    except ImportError as error:
        raise AnnotatorError(
            f"figures need the extra figures: {explain_extra('figures')}"
        ) from error


def draw(kind: str, source: FigureSource, file: Path) -> tuple[str, ...]:
    """Draw a figure into ``file``; the same source makes the same bytes. Return what it leaves out.

    Raises:
        AnnotatorError: as :func:`check`; there is nothing of this kind to draw, or more than fits.
    """
    check(file)
    from matplotlib.transforms import Bbox

    from annotator.reports.figures.style import apply_style

    module: Any = import_module(f"{__name__}.{PLOTS.get(kind, kind)}")
    with apply_style():
        plot: Plot = module.draw_figure(source)
        plot.figure.draw_without_rendering()
        # Wider only for a name so wide that it would be cut.
        box = Bbox.union([plot.figure.bbox_inches, plot.figure.get_tightbbox()])
        out, name = io.BytesIO(), file.suffix.lower()[1:]
        plot.figure.savefig(out, format=name, metadata=_METADATA[name], bbox_inches=box)
    write_file(file, out.getvalue())
    return tuple(plot.left_out)
