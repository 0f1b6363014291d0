"""``annotate conflicts``."""

import click

from annotator import api
from annotator.cli.asked import run_or_traces
from annotator.cli.choices import PluginChoice, reader_option
from annotator.cli.output import attributes, say_unreadable
from annotator.cli.tables import put
from annotator.reports.table import FORMATS


@click.command("conflicts", context_settings={"show_default": True})
@click.argument("sources", nargs=-1, required=True, metavar="A.patch B.patch | TRACES... | RUN")
@click.option("--format", "format_", type=PluginChoice("formats", list(FORMATS)), default="table")
@reader_option("Of TRACES.", "--read-as", "read_as")
@click.option("--cluster", default="project,task", metavar="ATTRIBUTES", help="What makes a task.")
@click.option("--by", metavar="ATTRIBUTE", help="Shares for each value too: level, model, ...")
@click.option(
    "-v",
    "--list",
    "listed",
    is_flag=True,
    help="List every conflict too, with the lines that show it; as CSV the list alone.",
)
def command(
    sources: tuple[str, ...],
    format_: str,
    read_as: str,
    cluster: str,
    by: str | None,
    listed: bool,
) -> None:
    """Find where two patches represent one class or function of Python in incompatible ways: a
    list and a dict, two names for one role, other parameters.

    Of two patches (files that end in .patch or .diff) it prints each conflict with the lines that
    show it. Of TRACES, or those of a RUN, it compares every two patches of a trace, and prints how
    many pairs have a conflict.

    Exit code 1 if a trace cannot be read; it is listed and left out. 2 if a patch is not a diff.
    """
    source = run_or_traces(sources)
    summary = api.find_conflicts(
        *((source,) if isinstance(source, api.Run) else source),
        format=read_as,
        cluster=attributes(cluster),
        by=by,
        on_unreadable=say_unreadable,
    )
    tables = [] if listed and format_ == "csv" else summary.tables
    put([*tables, *([summary.listing] if listed or not tables else ())], format_)
    if summary.counts.unreadable:
        raise SystemExit(1)
