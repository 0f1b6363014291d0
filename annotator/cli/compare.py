"""``annotate compare``."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from annotator import api
from annotator.base.errors import AnnotatorError
from annotator.base.remote import name_place
from annotator.base.text import list_first
from annotator.cli.judges import say_again
from annotator.cli.options import (
    PATH,
    PluginChoice,
    add_option,
    calibration_option,
    cluster_option,
    group_option,
    no_calibration_option,
    verbose_option,
)
from annotator.cli.output import put_tables, say_next, say_notice
from annotator.cli.tables import open_request, say_corrected
from annotator.reports.table import FORMATS


@click.command("compare", context_settings={"show_default": True})
@click.argument("runs", nargs=-1, required=True, type=PATH)
@add_option(
    "--by ATTRIBUTE",
    "The attribute that divides the traces: run, judge, one of the traces, or a --group.",
    default="run",
)
@group_option
@add_option("--values A B", "Only these two values of --by.  [default: all]")
@add_option("--without VALUE...", "Leave this value of --by out. Repeatable.")
@add_option("--pairs", "Of three or more values: compare every two of them, too.")
@calibration_option
@no_calibration_option
@cluster_option
@add_option(
    "--format", type=PluginChoice("formats", [*FORMATS, "html"]), name="format_", default="table"
)
@add_option("--out FILE", "Where to write.  [default: stdout]", PATH)
@verbose_option
def command(
    runs: tuple[Path, ...],
    by: str,
    groups: tuple[str, ...],
    values: tuple[str, str] | None,
    without: tuple[str, ...],
    pairs: bool,
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
    if without and values:
        raise click.UsageError("--values names all that is compared: leave --without out")
    request = open_request(runs, groups, no_calibration, corrected=False, by=by, **options)
    compare = partial(
        api.compare,
        *request.runs,
        by=by,
        values=values or None,
        cluster=request.cluster_by,
        pairs=pairs,
        without=without,
        on_notice=say_notice,
    )
    beside: Sequence[Path] = ()
    if not (files or no_calibration):
        beside = api.find_calibrations(*request.runs, on_notice=say_notice)
    if beside:
        try:
            tables = compare(calibration=api.load_calibrations(*beside), labelled=True)
            say_corrected(beside)
        except AnnotatorError as error:  # no labels of one condition, say
            tables = compare()
            where = list_first([name_place(file) for file in beside], 3)
            say_notice(f"{where} is not used: {error}")
    else:
        tables = compare(calibration=request.calibrations)
    put_tables(tables, format_, out, verbose=verbose)
    if format_ == "table" and not out:
        documents = (table.document or {} for table in tables)
        several = any(
            len(document.get("values", ())) > 2 and document["tests"] + document["corrected_tests"]
            for document in documents
        )
        if several and not pairs:
            say_again("--pairs")
        else:
            names = [*map(str, runs), *([] if by == "run" else ["--by", by])]
            repeated = [("--group", groups), ("--calibration", files)]
            names += [
                str(word) for flag, values in repeated for value in values for word in (flag, value)
            ]
            names += [] if request.cluster is None else ["--cluster", request.cluster]
            say_next("view", *names)
