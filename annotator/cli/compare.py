"""``annotate compare``."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from annotator import api
from annotator.base.errors import AnnotatorError
from annotator.base.remote import name_place
from annotator.base.text import list_first
from annotator.cli.options import (
    PATH,
    PluginChoice,
    add_path_option,
    calibration_option,
    cluster_option,
    group_option,
    no_calibration_option,
    verbose_option,
)
from annotator.cli.output import put_tables, say_next, say_notice
from annotator.cli.tables import TableRequest, is_search_needed, open_runs, say_corrected
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
@no_calibration_option
@cluster_option
@click.option(
    "--pool",
    is_flag=True,
    help="With --calibration, for independent groups: correct both by the labels of both. Assumes"
    " that traces with the same answer of the judge have the code equally often in both. Trust only"
    " its test of no difference.",
)
@click.option(
    "--format", "format_", type=PluginChoice("formats", [*FORMATS, "html"]), default="table"
)
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
    no_calibration: bool,
    format_: str,
    out: Path | None,
    verbose: bool,
    **options: Any,
) -> None:
    """Compare the share of each code in several RUNS, or in several conditions of a study.

    annotate compare RUN_A RUN_B compares two runs; annotate compare RUN --by model the traces of
    each model. Two values: the difference with its interval, a test, and its p adjusted over the
    codes. Three or more: each share with its interval, and one test a code.

    The shares are corrected by RUN/calibration.json, if annotate calibrate has written it, and it
    has labels of each condition.
    """
    files = options["calibration_files"]
    search = is_search_needed(files, no_calibration)
    if pool and not files:
        raise click.UsageError("--pool needs --calibration: it is about people's labels")
    if without and values:
        raise click.UsageError("--values names all that is compared: leave --without out")
    request = TableRequest(open_runs(runs, groups), by=by, **options)
    more = {"pool": pool, "pairs": pairs, "without": without}
    compare = _compare_with_found if search else _compare
    tables = compare(request, values, **more)
    put_tables(tables, format_, out, verbose=verbose)
    if format_ == "table" and not out:
        several = any(
            "values" in (table.document or {}) and (table.document or {})["tests"]
            for table in tables
        )
        names = [*map(str, runs), *([] if by == "run" else ["--by", by])]
        names += [word for group in groups for word in ("--group", group)]
        names += [word for file in files for word in ("--calibration", str(file))]
        names += ["--no-calibration"] if no_calibration and several and not pairs else []
        names += [] if request.cluster is None else ["--cluster", request.cluster]
        if several and not pairs:
            names += [word for value in without for word in ("--without", value)]
            say_next("compare", *names, "--pairs")
        else:
            say_next("view", *names)


def put_comparison(
    request: TableRequest,
    values: tuple[str, str] | None,
    format_: str,
    path: Path | None,
    *,
    verbose: bool = False,
) -> None:
    """Write or print the comparison of the traces with the values of ``request.by``; print on
    stderr which rubrics cannot be compared.
    """
    put_tables(_compare(request, values), format_, path, verbose=verbose)


def _compare(
    request: TableRequest, values: tuple[str, str] | None, **options: Any
) -> "Sequence[Table]":
    return api.compare(
        *request.runs,
        by=request.by or "run",
        values=values or None,
        calibration=request.calibrations,
        cluster=request.cluster_by,
        on_notice=say_notice,
        **options,
    )


def _compare_with_found(
    request: TableRequest, values: tuple[str, str] | None, **options: Any
) -> "Sequence[Table]":
    """Return the comparison, corrected by the calibrations in the directories of the runs if people
    labelled traces of each condition; print on stderr that they are used, or why not.
    """
    files = api.find_calibrations(*request.runs, on_notice=say_notice)
    if not files:
        return _compare(request, values, **options)
    try:
        corrected = replace(request, calibration_files=files)
        tables = _compare(corrected, values, labelled=True, **options)
    except AnnotatorError as error:
        tables = _compare(request, values, **options)
        names = list_first([name_place(file) for file in files], 3)
        say_notice(f"{names} is not used: {error}")
    else:
        say_corrected(files)
    return tables
