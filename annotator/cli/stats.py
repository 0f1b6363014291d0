"""``annotate stats``."""

from pathlib import Path

import click

from annotator import api
from annotator.base.remote import name_place
from annotator.base.text import sanitize_line
from annotator.cli.options import (
    PATH,
    PluginChoice,
    add_option,
    add_reader_options,
    parse_attributes,
    task_option,
    verbose_option,
)
from annotator.cli.output import name_sources, put_tables, say_next, say_notice, say_unreadable
from annotator.reports.table import FORMATS
from annotator.traces import load_traces


@click.command("stats", context_settings={"show_default": True})
@click.argument("traces", nargs=-1, required=True)
@add_option(
    "--format", type=PluginChoice("formats", list(FORMATS)), name="format_", default="table"
)
@add_reader_options("The format of TRACES.", "--read-as", "read_as")
@task_option
@add_option("--by ATTRIBUTE", "Also one table for each value of model, run_name, ...")
@add_option(
    "--channel ATTRIBUTE=VALUE...",
    "Runs with this value could write messages; * as in a shell. Repeatable.",
)
@add_option("--figure FILE", "Also draw success by difficulty: a .svg, .png or .pdf.", PATH)
@verbose_option
def command(
    traces: tuple[str, ...],
    format_: str,
    read_as: str,
    cluster: str,
    by: str | None,
    channel: tuple[str, ...],
    figure: Path | None,
    verbose: bool,
) -> None:
    """Count what needs no judge in TRACES: how agents talk, merge conflicts, success solo and in
    cooperation, by difficulty, and how much of it cooperation retains.

    --channel compares runs with a message channel to runs without one:
    --channel comm=true or --channel 'run_name=msg_*'.

    Exit code 1 if a trace cannot be read; it is listed and left out.
    """
    if figure:
        api.check_figure(figure)
    summary = api.summarize(
        load_traces(*traces, format=read_as),
        cluster=parse_attributes(cluster),
        by=by,
        channel=channel,
        on_unreadable=say_unreadable,
    )
    put_tables(summary.tables, format_, verbose=verbose)
    if figure:
        for line in summary.draw(figure):
            say_notice(line)
        say_notice(f"figure written to {sanitize_line(name_place(figure))}")
    elif format_ == "table" and read_as == "auto" and summary.stats.groups[0].success[0].coop.n:
        say_next(*name_sources(traces), "--rubric", "symptoms", purpose="why runs failed")
    if summary.stats.unreadable:
        raise SystemExit(1)
