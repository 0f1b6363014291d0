"""The formats of ``annotate report``: which options each goes with, and where it goes."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path

import click

from annotator.cli.asked import Asked
from annotator.cli.output import say_partial
from annotator.reports import table

Given = Mapping[str, object]  # option -> its value, which is false where it was not given


@dataclass(frozen=True, slots=True)
class Format:
    """``goes_with``: the options it has a meaning with. ``write`` is None for text, which goes to
    stdout or ``--out``; else it writes to ``--out`` or, in the run's directory, ``name``.
    """

    goes_with: frozenset[str]
    name: str = ""
    write: Callable[[Asked, Path], None] | None = None

    def check(self, format_: str, given: Given) -> None:
        """Raise :class:`click.UsageError` if an option was given that does not go with it."""
        names = {name for name, value in given.items() if value}
        if wrong := sorted(names - self.goes_with):
            goes = ", ".join(sorted(self.goes_with))
            raise click.UsageError(f"--format {format_} goes with {goes}; not with {wrong[0]}")

    def place(self, format_: str, runs: Sequence[Path], out: Path | None) -> Path | None:
        """Return where it is written; None is stdout."""
        if out or not self.write:
            return out
        if len(runs) != 1:
            raise click.UsageError(f"--format {format_} needs --out PATH here")
        return runs[0] / self.name


def counts_people(given: Given, form: Format) -> bool:
    """Return whether people's labels are counted, and not shown beside a judge's.

    Raises:
        click.UsageError: options of such a table are given without labels, or others with them.
    """
    if not given["--labels"]:
        for name in ("--rubric", "--final", "--design", "--traces"):
            if given[name] and form is not FORMATS["html"]:
                raise click.UsageError(f"{name} needs --labels FILE")
        return False
    if form is FORMATS["html"]:
        return False
    others = ("--calibration", "--compare", "--co-occurrence", "--figure")
    if wrong := [name for name in others if given[name]]:
        raise click.UsageError(f"--labels counts people's labels: leave {wrong[0]} out")
    if given["--traces"] and given["RUNS"]:
        raise click.UsageError("--traces is for labels without RUNS, which know their traces")
    return True


def check_together(given: Given) -> None:
    """Raise :class:`click.UsageError` for options that do not go together in any format."""
    push, plot, sides, by = (given[name] for name in ("--push", "--plot", "--compare", "--by"))
    together = given["--co-occurrence"]
    if push and not re.fullmatch(r"[\w.-]+/[\w.-]+", str(push)):
        raise click.UsageError(f"--push {push}: expected ORG/NAME, the data set on the hub")
    if plot and not given["--figure"]:
        raise click.UsageError("--plot needs --figure FILE")
    if sides and given["--figure"]:
        raise click.UsageError("--figure draws no comparison: leave --compare out")
    if together and plot not in (None, "co-occurrence"):
        raise click.UsageError(f"--co-occurrence prints no {plot}: leave one of them out")
    if plot == "confusion" and by:
        raise click.UsageError("--plot confusion is of whole runs: leave --by out")
    if together and (sides or by or given["--calibration"] or given["--cluster"]):
        raise click.UsageError("--co-occurrence goes with --format, --figure and --out only")
    if (together or sides) and (wrong := [name for name in sorted(_ROWS) if given[name]]):
        raise click.UsageError(f"{wrong[0]} is for frequency tables: leave it out")
    others = ("--calibration", "--compare", "--co-occurrence", "--figure")
    if given["--of-labelled"] and (wrong := [name for name in others if given[name]]):
        raise click.UsageError(f"--of-labelled goes with no {wrong[0]}")
    if sides and not by:
        raise click.UsageError("--compare A B needs --by ATTRIBUTE (or run, or judge)")
    if sides and given["--transfer"]:
        raise click.UsageError("--compare needs labels of the compared traces: no --transfer")


def _parquet(asked: Asked, path: Path) -> None:
    from annotator.reports.formats import parquet

    parquet.write(asked.count(), path)


def _dataset(asked: Asked, path: Path) -> None:
    from annotator.runs.dataset import write_dataset

    write_dataset(asked.runs, path)
    say_partial(asked.runs)


def _html(asked: Asked, path: Path) -> None:
    from annotator.base.files import NewFile
    from annotator.web.file import COMFORTABLE, write_report

    with NewFile(path, private=True) as file, TextIOWrapper(file, "utf-8", newline="") as out:
        total, unread = write_report(out, asked.shown())
    if unread:
        click.echo(
            f"{unread} traces without their texts, which cannot be read (--traces)", err=True
        )
    if total > COMFORTABLE:
        click.echo(
            f"{total} annotations in one file open slowly; annotate view shows any number", err=True
        )


_TABLES = frozenset(("--out", "--calibration", "--cluster", "--transfer", "--joint", "--by"))
_PEOPLE = frozenset(("--labels", "--annotator", "--traces", "--rubric", "--final", "--design"))
_ROWS = frozenset(("--sort share", "--meanings"))
_COUNTED = _TABLES | _PEOPLE | {"--of-labelled"}
_TEXT = Format(_COUNTED | _ROWS | {"--compare", "--co-occurrence", "--figure", "--plot"})
FORMATS = {
    **dict.fromkeys(table.FORMATS, _TEXT),
    **dict.fromkeys(("csv", "json"), Format(_TEXT.goes_with - _ROWS)),
    "html": Format(_TABLES | {"--labels", "--annotator", "--traces"}, "report.html", _html),
    "parquet": Format(_COUNTED, "report.parquet", _parquet),
    "dataset": Format(frozenset(("--out", "--push")), "report.dataset", _dataset),
}


def format_of(name: str) -> Format:
    """Return the format with this name; a plug-in's is text."""
    return FORMATS.get(name, _TEXT)
