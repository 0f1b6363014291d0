"""``annotate conflicts``."""

import click

from annotator import api
from annotator.cli.options import (
    PluginChoice,
    add_option,
    add_reader_options,
    parse_attributes,
    task_option,
)
from annotator.cli.output import put_tables, say_next, say_unreadable
from annotator.cli.tables import open_sources
from annotator.reports.table import FORMATS


@click.command("conflicts", context_settings={"show_default": True})
@click.argument("sources", nargs=-1, required=True, metavar="A.patch B.patch | TRACES... | RUN")
@add_option(
    "--format", type=PluginChoice("formats", list(FORMATS)), name="format_", default="table"
)
@add_reader_options("The format of TRACES.", "--read-as", "read_as")
@task_option
@add_option("--by ATTRIBUTE", "Also shares for each value of level, model, ...")
@add_option(
    "-v,--list",
    "Also list every conflict with the lines that show it; as CSV only the list.",
    name="listed",
)
def command(
    sources: tuple[str, ...], format_: str, read_as: str, cluster: str, by: str | None, listed: bool
) -> None:
    """Find where two patches represent one Python class or function in incompatible ways: a list
    and a dict, two names for one role, other parameters.

    For two patches (files that end in .patch or .diff) it prints each conflict with the lines that
    show it. For TRACES, or those of a RUN, it compares every two patches of a trace, and prints how
    many pairs have a conflict.

    Exit code 1 if a trace cannot be read; it is listed and left out. 2 if a patch is not a diff.
    """
    source = open_sources(sources)
    summary = api.find_conflicts(
        *((source,) if isinstance(source, api.Run) else source),
        format=read_as,
        cluster=parse_attributes(cluster),
        by=by,
        on_unreadable=say_unreadable,
    )
    tables = [] if listed and format_ == "csv" else summary.tables
    listing = [summary.listing] if listed or not tables else []
    put_tables([*tables, *listing], format_, verbose=listed)
    if len(sources) == 1 and format_ == "table" and read_as == "auto":
        if not listed and any(pair.conflicts for pair in summary.pairs):
            say_next("conflicts", *sources, "-v", purpose="every conflict with its lines")
        elif not isinstance(source, api.Run):
            say_next("stats", *sources, purpose="merges, messages and success")
    if summary.counts.unreadable:
        raise SystemExit(1)
