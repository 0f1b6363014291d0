"""``annotate gate``."""

from itertools import chain
from pathlib import Path
from typing import Any

import click

from annotator import api
from annotator.cli.options import (
    PATH,
    Number,
    add_option,
    calibration_option,
    cluster_option,
    group_option,
    no_calibration_option,
    verbose_option,
)
from annotator.cli.output import put_text, say_next, say_notice
from annotator.cli.tables import open_request, say_corrected


@click.command("gate", context_settings={"show_default": True})
@click.argument("base", type=PATH)
@click.argument("new", type=PATH)
@add_option(
    "--rubric ID...", "Only this rubric. Repeatable.  [default: all of both]", name="rubrics"
)
@add_option("--codes A,B...", "Only these codes. Repeatable.  [default: all]")
@add_option(
    "--tolerance POINTS",
    "The largest rise of a share that passes, in percentage points.",
    Number(0, 100, max_open=True),
    default=5,
)
@add_option(
    "--anchors DIR",
    "Subtract the judge's drift, measured by these anchors (annotate anchor).",
    PATH,
)
@calibration_option
@no_calibration_option
@group_option
@cluster_option
@add_option(
    "--format", type=click.Choice(["table", "md", "json", "junit"]), name="format_", default="table"
)
@add_option("--out FILE", "Where to write.  [default: stdout]", PATH)
@verbose_option
def command(
    base: Path,
    new: Path,
    rubrics: tuple[str, ...],
    codes: tuple[str, ...],
    tolerance: float,
    anchors: Path | None,
    groups: tuple[str, ...],
    no_calibration: bool,
    format_: str,
    out: Path | None,
    verbose: bool,
    **options: Any,
) -> None:
    """Say whether a new version of an agent system fails more: runs BASE and NEW, by one judge.

    A code is worse if its share rose beyond the tolerance and the test shows it (p by Holm); better
    if the test shows a fall; held if the interval excludes a rise beyond the tolerance; moved if
    traces went to or from another code of its group, whose total is flat; else not decided.

    \b
    Exit code: 1 a code is worse, 4 one is not decided, 0 all held.
    """
    request = open_request((base, new), groups, no_calibration, corrected=False, **options)
    files = None if no_calibration else options["calibration_files"]
    if not (files or no_calibration):
        files = api.find_calibrations(*request.runs, on_notice=say_notice)
    result = api.gate(
        *request.runs,
        rubrics=rubrics,
        codes=list(chain.from_iterable(text.split(",") for text in codes)),
        tolerance=tolerance,
        calibration=files,
        cluster=request.cluster_by,
        anchors=anchors,
    )
    if any(row.corrected for row in result.rows):
        say_corrected(files or ())
    put_text(result.to(format_, verbose=verbose), out)
    if format_ == "table" and not out:
        say_next("view", base, new)
    raise SystemExit(result.exit_code)
