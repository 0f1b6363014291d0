"""``annotate compare``."""

from pathlib import Path
from typing import Any

import click

from annotator import api
from annotator.cli.options import (
    PATH,
    PluginChoice,
    add_path_option,
    calibration_option,
    cluster_option,
)
from annotator.cli.output import put_tables, say_notice
from annotator.cli.tables import TableRequest
from annotator.reports.table import FORMATS


@click.command("compare", context_settings={"show_default": True})
@click.argument("runs", nargs=-1, required=True, type=PATH)
@click.option(
    "--by",
    default="run",
    metavar="ATTRIBUTE",
    help="The attribute that tells the two sides apart: run, judge, or one of the traces.",
)
@click.option(
    "--values",
    nargs=2,
    metavar="A B",
    help="The two values of --by.  [default: the names of the two runs]",
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
def command(
    runs: tuple[Path, ...],
    by: str,
    values: tuple[str, str] | None,
    pool: bool,
    format_: str,
    out: Path | None,
    **options: Any,
) -> None:
    """Compare the share of each code in two runs, or in two groups of traces in RUNS: the
    difference with its interval, a test, and its p adjusted over the codes.

    annotate compare RUN_A RUN_B compares two runs, annotate compare RUN... --by model --values A B
    the traces of two models.
    """
    opened = api.open_runs(runs)
    if not values and (by != "run" or len(runs) != 2):
        raise click.UsageError(f"--by {by}, {len(runs)} RUNS: say which two with --values A B")
    if pool and not options["calibration_files"]:
        raise click.UsageError("--pool needs --calibration: it is about people's labels")
    put_comparison(TableRequest(opened, by=by, **options), values, format_, out, pool=pool)


def put_comparison(
    request: TableRequest,
    values: tuple[str, str] | None,
    format_: str,
    path: Path | None,
    *,
    pool: bool = False,
) -> None:
    """Write or print the differences between traces with two values of ``request.by``; print on
    stderr which rubrics cannot be compared.
    """
    tables = api.compare(
        *request.runs,
        by=request.by or "run",
        values=values or None,
        calibration=request.calibrations,
        cluster=request.cluster_by,
        pool=pool,
        on_notice=say_notice,
    )
    put_tables(tables, format_, path)
