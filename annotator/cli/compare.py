"""``annotate compare``."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from annotator import api
from annotator.cli.options import (
    PATH,
    PluginChoice,
    add_path_option,
    calibration_option,
    cluster_option,
    group_option,
    verbose_option,
)
from annotator.cli.output import put_tables, say_notice
from annotator.cli.tables import TableRequest, open_runs
from annotator.reports.table import FORMATS

if TYPE_CHECKING:
    from annotator.reports.table import Table


@click.command("compare", context_settings={"show_default": True})
@click.argument("runs", nargs=-1, required=True, type=PATH)
@click.option(
    "--by",
    default="run",
    metavar="ATTRIBUTE",
    help="The attribute that divides the traces: run, judge, one of the traces, or a --group.",
)
@group_option
@click.option(
    "--values",
    nargs=2,
    metavar="A B",
    help="Only these two values of --by.  [default: all]",
)
@click.option(
    "--without", multiple=True, metavar="VALUE", help="Leave this value of --by out. Repeatable."
)
@click.option(
    "--pairs", is_flag=True, help="Of three or more values: compare every two of them, too."
)
@calibration_option
@cluster_option
@click.option(
    "--pool",
    is_flag=True,
    help="With --calibration, for independent groups: correct both by the labels of both. Assumes"
    " that traces with the same answer of the judge have the code equally often in both. Trust only"
    " its test of no difference.",
)
@click.option("--format", "format_", type=PluginChoice("formats", list(FORMATS)), default="table")
@add_path_option("--out", help="Where to write.  [default: stdout]")
@verbose_option
def command(
    runs: tuple[Path, ...],
    by: str,
    groups: tuple[str, ...],
    values: tuple[str, str] | None,
    without: tuple[str, ...],
    pairs: bool,
    pool: bool,
    format_: str,
    out: Path | None,
    verbose: bool,
    **options: Any,
) -> None:
    """Compare the share of each code in several RUNS, or in several conditions of a study.

    annotate compare RUN_A RUN_B compares two runs; annotate compare RUN --by model the traces of
    each model. Two values: the difference with its interval, a test, and its p adjusted over the
    codes. Three or more: each share with its interval, and one test a code.
    """
    if pool and not options["calibration_files"]:
        raise click.UsageError("--pool needs --calibration: it is about people's labels")
    if without and values:
        raise click.UsageError("--values names all that is compared: leave --without out")
    request = TableRequest(open_runs(runs, groups), by=by, **options)
    tables = put_comparison(
        *(request, values, format_, out),
        pool=pool,
        pairs=pairs,
        without=without,
        verbose=verbose,
    )
    if format_ == "table" and not out:
        several = any("values" in (table.document or {}) for table in tables)
        names = [*map(str, runs), *([] if by == "run" else ["--by", by])]
        names += [word for group in groups for word in ("--group", group)]
        if several and not pairs:
            names += [word for value in without for word in ("--without", value)]
            say_notice(f"next: {shlex.join(['annotate', 'compare', *names, '--pairs'])}")
        else:
            say_notice(f"next: {shlex.join(['annotate', 'view', *names])}")


def put_comparison(
    request: TableRequest,
    values: tuple[str, str] | None,
    format_: str,
    path: Path | None,
    *,
    pool: bool = False,
    pairs: bool = False,
    without: Sequence[str] = (),
    verbose: bool = False,
) -> "Sequence[Table]":
    """Write or print the comparison of the traces with the values of ``request.by``, and return
    its tables; print on stderr which rubrics cannot be compared.
    """
    tables = api.compare(
        *request.runs,
        by=request.by or "run",
        values=values or None,
        calibration=request.calibrations,
        cluster=request.cluster_by,
        pool=pool,
        pairs=pairs,
        without=without,
        on_notice=say_notice,
    )
    put_tables(tables, format_, path, verbose=verbose)
    return tables
