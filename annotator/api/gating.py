"""The gate of a change: two runs by one judge, of an agent system before and after."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from annotator.api.reporting import group_calibrations
from annotator.base.errors import AnnotatorError
from annotator.base.text import list_names
from annotator.runs.anchors import open_anchors
from annotator.runs.run import Run

if TYPE_CHECKING:  # statistics are slow to import
    from annotator.api.reporting import CalibrationSource
    from annotator.reports.gate import GatedRubric, GateRow, GateWord
    from annotator.reports.table import Table


@dataclass(frozen=True, slots=True)
class Gate:
    """The result of :func:`gate`, by rubric."""

    rubrics: "tuple[GatedRubric, ...]"

    @property
    def rows(self) -> "tuple[GateRow, ...]":
        """The rows of codes, then of groups, of every rubric."""
        return tuple(row for each in self.rubrics for row in (*each.rows, *each.groups))

    @property
    def exit_code(self) -> int:
        """1 if a code is worse, else 4 if one is not decided, else 0."""
        return min((each.exit_code for each in self.rubrics), key=(1, 4, 0).index)

    @property
    def word(self) -> "GateWord":
        """The result in a word: worse, not decided or held."""
        names: dict[int, GateWord] = {0: "held", 1: "worse", 4: "not decided"}
        return names[self.exit_code]

    @property
    def tables(self) -> "list[Table]":
        """The table of each rubric."""
        from annotator.reports.tables import gate as tables

        return tables.tabulate(self.rubrics)

    def to(self, format: str, *, verbose: bool = False) -> str:
        """Return the tables as ``table``, ``md``, ``json`` or ``junit``."""
        from annotator.reports.tables import gate as tables

        return tables.render_gate(self.rubrics, format, verbose=verbose)

    def check(self, *, decided: bool = False) -> None:
        """Raise AssertionError, with the table, if a code is worse; ``decided``: also if a code is
        not decided.
        """
        if self.exit_code == 1 or (decided and self.exit_code):
            raise AssertionError(self.to("table"))


def gate(
    base: Run,
    new: Run,
    *,
    rubrics: Sequence[str] = (),
    codes: Sequence[str] = (),
    tolerance: float = 5,
    calibration: "CalibrationSource | None" = None,
    cluster: Sequence[str] | None = None,
    anchors: str | Path | None = None,
) -> Gate:
    """Return whether a new version of a system fails more than the one before.

    Both runs are by the same judge. The same trace id in both is the same scenario, run twice.

    Args:
        base: the run of the version before.
        new: the run of the new version.
        rubrics: ids; default: those of both runs.
        codes: only these are gated, and counted by Holm; default: all.
        tolerance: the largest rise that passes, in percentage points.
        calibration: as in :func:`count`. Differences are corrected if both runs have their own.
        cluster: as in :func:`count`.
        anchors: a directory of ``annotate anchor``. The judge's drift between the looks that both
            runs name is subtracted, unless labels of both correct the differences.

    Returns:
        Each code is ``worse``, ``better``, ``held``, ``not decided``, or ``moved`` to another code
        of its group. ``check()`` raises AssertionError if one is worse.

    Raises:
        AnnotatorError: the judge or a rubric differs, or no code has a share.
    """
    from annotator.reports.gate import gate_runs

    if not 0 <= tolerance < 100:
        raise AnnotatorError(f"tolerance: expected points from 0 to 100, found {tolerance!r}")
    return Gate(
        tuple(
            gate_runs(
                base,
                new,
                rubrics=list_names(rubrics),
                codes=list_names(codes),
                tolerance=tolerance / 100,
                calibrations=group_calibrations(calibration),
                cluster=None if cluster is None else list_names(cluster),
                anchors=None if anchors is None else open_anchors(anchors),
            )
        )
    )
