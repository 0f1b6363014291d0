"""The formats of ``annotate report``: which options each goes with, and where it goes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from annotator.cli.asked import Asked


@dataclass(frozen=True, slots=True)
class Format:
    """``goes_with``: the options it has a meaning with. ``write`` is None for text, which goes to
    stdout or ``--out``; else it writes to ``--out`` or, in the run's directory, ``name``.
    """

    goes_with: frozenset[str]
    name: str = ""
    write: Callable[[Asked, Path], None] | None = None

    def check(self, format_: str, given: Iterable[str]) -> None:
        """Raise :class:`click.UsageError` if an option was given that does not go with it."""
        if wrong := sorted(set(given) - self.goes_with):
            goes = ", ".join(sorted(self.goes_with))
            raise click.UsageError(f"--format {format_} goes with {goes}; not with {wrong[0]}")

    def place(self, runs: Sequence[Path], out: Path | None) -> Path | None:
        """Return where it is written; None is stdout."""
        if out or not self.write:
            return out
        if len(runs) > 1:
            raise click.UsageError(f"several runs: say with --out PATH where {self.name} goes")
        return runs[0] / self.name


def _parquet(asked: Asked, path: Path) -> None:
    from annotator.reports.parquet import write_parquet

    write_parquet(asked.tables(), path)


def _dataset(asked: Asked, path: Path) -> None:
    from annotator.reports.dataset import write_dataset

    write_dataset(asked.runs, path)


def _html(asked: Asked, path: Path) -> None:
    from annotator.reports.out import new_file
    from annotator.web.file import COMFORTABLE, write_report

    with new_file(path) as part, part.open("w", encoding="utf-8", newline="") as out:
        total = write_report(out, asked.shown())
    if total > COMFORTABLE:
        click.echo(
            f"{total} annotations in one file open slowly; annotate view shows any number", err=True
        )


_TABLES = frozenset(("--out", "--calibration", "--transfer", "--by"))
_TEXT = Format(_TABLES | {"--compare", "--co-occurrence", "--figure", "--plot"})
FORMATS = {
    **dict.fromkeys(("table", "csv", "json", "md", "latex"), _TEXT),
    "html": Format(_TABLES | {"--labels", "--annotator", "--traces"}, "report.html", _html),
    "parquet": Format(_TABLES, "report.parquet", _parquet),
    "dataset": Format(frozenset(("--out", "--push")), "report.dataset", _dataset),
}
