"""``annotate stats``."""

from pathlib import Path

import click

from annotator import api
from annotator.base.remote import name_place
from annotator.base.text import sanitize_line
from annotator.cli.choices import PluginChoice, reader_option
from annotator.cli.output import attributes, say_notice, say_unreadable
from annotator.cli.tables import put
from annotator.reports.table import FORMATS
from annotator.traces import Unreadable, load_traces


@click.command("stats", context_settings={"show_default": True})
@click.argument("traces", nargs=-1, required=True)
@click.option("--format", "format_", type=PluginChoice("formats", list(FORMATS)), default="table")
@reader_option("Of TRACES.", "--read-as", "read_as")
@click.option("--cluster", default="project,task", metavar="ATTRIBUTES", help="What makes a task.")
@click.option("--by", metavar="ATTRIBUTE", help="Tables for each value too: model, run_name, ...")
@click.option(
    "--channel",
    multiple=True,
    metavar="ATTRIBUTE=VALUE",
    help="Runs with this value could write messages; * as in a shell. Repeat it for more.",
)
@click.option(
    "--figure",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw success by difficulty, too: a .svg, .png or .pdf.",
)
def command(
    traces: tuple[str, ...],
    format_: str,
    read_as: str,
    cluster: str,
    by: str | None,
    channel: tuple[str, ...],
    figure: Path | None,
) -> None:
    """Print what can be counted in TRACES without a judge: how agents talk, merge conflicts,
    success solo and in cooperation, by difficulty, and what cooperation retains of it.

    --channel compares runs with a message channel against runs without one:
    --channel comm=true or --channel 'run_name=msg_*'.

    Exit code 1 if a trace cannot be read; it is listed and left out.
    """
    if figure:
        api.check_figure(figure)
    unreadable = []

    def list_unreadable(trace: Unreadable) -> None:
        unreadable.append(trace.id)
        say_unreadable(trace)

    summary = api.summarize(
        load_traces(*traces, format=read_as),
        cluster=attributes(cluster),
        by=by,
        channel=channel,
        on_unreadable=list_unreadable,
    )
    put(summary.tables, format_)
    if figure:
        for line in summary.draw(figure):
            say_notice(line)
        say_notice(f"figure written to {sanitize_line(name_place(figure))}")
    if unreadable:
        raise SystemExit(1)
