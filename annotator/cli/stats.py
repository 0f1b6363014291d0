"""``annotate stats``."""

from pathlib import Path

import click

from annotator.api import Unreadable, describe, load_traces
from annotator.cli.choices import PluginChoice
from annotator.cli.drawing import say_drawn, say_notice
from annotator.cli.output import attributes
from annotator.cli.tables import put
from annotator.reports.formats import FORMATS
from annotator.text import one_line


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
    unreadable: list[Unreadable] = []

    def note(trace: Unreadable) -> None:
        unreadable.append(trace)
        reason = f"{one_line(trace.id, 200)}: {one_line(trace.reason)}"
        click.echo(f"unreadable  {reason}", err=True)

    tables = describe(
        load_traces(*traces),
        cluster=attributes(cluster),
        by=by,
        figure=figure,
        on_notice=say_notice,
        on_unreadable=note,
    )
    put(tables, format_)
    if figure:
        say_drawn(figure)
    if unreadable:
        raise SystemExit(1)
