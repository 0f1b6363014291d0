"""``annotate figure``."""

from pathlib import Path

import click

from annotator import api
from annotator.cli.asked import Asked, about_tables
from annotator.cli.choices import plot_option
from annotator.cli.output import say_partial


@click.command("figure", context_settings={"show_default": True})
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@plot_option
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
    cluster: str | None,
    transfer: bool,
    joint: bool,
    by: str | None,
) -> None:
    """Draw the shares of codes in RUNS with their intervals, or another figure of them (--plot)."""
    if plot == "confusion" and by:
        raise click.UsageError("--plot confusion is of whole runs: leave --by out")
    if plot == "co-occurrence" and (by or calibration_files or cluster):
        raise click.UsageError("--plot co-occurrence goes with --out only")
    api.check_figure(out)
    opened = api.open_runs(runs)
    say_partial(opened)
    asked = Asked(opened, calibration_files, transfer, by, cluster=cluster, joint=joint)
    asked.draw(plot or "frequency", out)
