"""Codes looked into by their findings: which codes of two rubrics match."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from annotator.base.errors import AnnotatorError
from annotator.base.text import list_names
from annotator.induction.codebook import Codebook, has_codebook, open_codebook
from annotator.runs.run import Run, is_run, open_run
from annotator.traces.clusters import DEFAULT_CLUSTER

if TYPE_CHECKING:  # statistics are slow to import
    from annotator.reports.matches import CodedTraces, RubricMatch
    from annotator.reports.table import Table

CodeSource = Run | Codebook | str | Path
"""A run, an induction, or the folder of one."""


@dataclass(frozen=True, slots=True)
class MatchedCodes:
    """Which codes of two sides match, as ``annotate rubric diff`` prints it."""

    result: "RubricMatch"

    def table(self) -> "Table":
        """Return the table."""
        from annotator.reports.tables import matches

        return matches.tabulate(self.result)


def has_findings(path: str | Path) -> bool:
    """Whether a path is a run or an induction."""
    return has_codebook(Path(path)) or is_run(path)


def match_codes(
    first: CodeSource, second: CodeSource, *, cluster: str | Sequence[str] = DEFAULT_CLUSTER
) -> MatchedCodes:
    """Match the codes of two runs or inductions by their findings on the same traces.

        print(match_codes("runs/first", "induced/").table())

    Args:
        first: a run, an induction, or the folder of one.
        second: another one.
        cluster: the attributes that make a task, ``()`` for none.

    Raises:
        AnnotatorError: a folder has neither, or no trace was judged by both.
    """
    from annotator.reports.matches import match_codes as match

    tasks = list_names(cluster)
    return MatchedCodes(match(_read(first, tasks), _read(second, tasks)))


def _read(source: CodeSource, cluster: tuple[str, ...]) -> "CodedTraces":
    from annotator.reports.matches import read_codebook, read_run

    name = source.title if isinstance(source, Codebook) else str(source)
    if isinstance(source, str | Path):
        if not has_findings(source):
            raise AnnotatorError(
                f"{name}: neither a run nor an induction: codes match by findings, so both sides"
                " need them. Judge traces by the rubric: annotate TRACES --rubric FILE"
            )
        source = open_codebook(Path(source)) if has_codebook(Path(source)) else open_run(source)
    if isinstance(source, Codebook):
        return read_codebook(source, name, cluster)
    return read_run(source, cluster)
