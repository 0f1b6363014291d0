"""``annotate stats``."""

from pathlib import Path

import click

from annotator.cli.choices import PluginChoice
from annotator.cli.drawing import drawn
from annotator.cli.output import attributes
from annotator.cli.tables import put
from annotator.errors import AnnotatorError
from annotator.reports import figures
from annotator.reports.formats import FORMATS
from annotator.reports.stats import StatsCounts, statistics
from annotator.reports.tables import stats as stats_tables
from annotator.text import one_line
from annotator.traces import Unreadable, read_traces


@click.command("stats", context_settings={"show_default": True})
@click.argument("traces", nargs=-1, required=True)
@click.option("--format", "format_", type=PluginChoice("formats", list(FORMATS)), default="table")
@click.option("--cluster", default="project,task", metavar="ATTRIBUTES", help="What makes a task.")
@click.option("--by", metavar="ATTRIBUTE", help="Tables for each value too: model, run_name, ...")
@click.option(
    "--figure",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw success by difficulty, too: a .svg, .png or .pdf.",
)
def command(
    traces: tuple[str, ...], format_: str, cluster: str, by: str | None, figure: Path | None
) -> None:
    """Print what can be counted in TRACES without a judge: how agents talk, merge conflicts,
    success solo and in cooperation, by difficulty, and what cooperation retains of it.

    Exit code 1 if a trace cannot be read; it is listed and left out.
    """
    if figure:
        figures.check(figure)
    counted = StatsCounts(cluster=attributes(cluster), by=by)
    for found in read_traces(traces):
        counted.add(found)
        if isinstance(found, Unreadable):
            reason = f"{one_line(found.id, 200)}: {one_line(found.reason)}"
            click.echo(f"unreadable  {reason}", err=True)
    stats = statistics(counted)
    if not stats.groups[0].traces:
        raise AnnotatorError(f"no traces in {', '.join(traces)}")
    put(stats_tables.tabulate(stats), format_)
    drawn(figures.DIFFICULTY, figures.FigureSource(stats=stats), figure)
    if counted.unreadable:
        raise SystemExit(1)
