"""``annotate figure``."""

from pathlib import Path

import click

from annotator.cli.asked import Asked, about_tables
from annotator.cli.drawing import drawn, plotted, say_uncounted
from annotator.reports import figures
from annotator.runs.run import open_runs


@click.command("figure", context_settings={"show_default": True})
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@plotted
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The figure: a .svg, .png or .pdf.",
)
@about_tables
def command(
    runs: tuple[Path, ...],
    plot: str | None,
    out: Path,
    calibration_files: tuple[Path, ...],
    transfer: bool,
    by: str | None,
) -> None:
    """Draw the shares of codes in RUNS with their intervals, or another figure of them (--plot)."""
    if plot == "confusion" and by:
        raise click.UsageError("--plot confusion is of whole runs: leave --by out")
    if plot == "co-occurrence" and (by or calibration_files):
        raise click.UsageError("--plot co-occurrence goes with --out only")
    figures.check(out)
    asked = Asked(open_runs(runs), calibration_files, transfer, by)
    if plot == "co-occurrence":
        from annotator.reports.co_occurrence import count_co_occurrences

        source = figures.FigureSource(co_occurrences=count_co_occurrences(*asked.runs))
        say_uncounted(asked.runs)
    else:
        source = figures.FigureSource(asked.runs, asked.tables(), asked.calibrations)
    drawn(plot or "frequency", source, out)
