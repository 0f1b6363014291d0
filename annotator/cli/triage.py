"""``annotate triage``."""

import sys
from pathlib import Path
from typing import Any

import click

from annotator import api
from annotator.cli.judges import say_again
from annotator.cli.options import (
    PATH,
    add_option,
    calibration_option,
    cluster_option,
    no_calibration_option,
    verbose_option,
)
from annotator.cli.output import put_tables, put_text, say_next
from annotator.cli.tables import open_request


@click.command("triage", context_settings={"show_default": True})
@click.argument("run", type=PATH)
@add_option(
    "--since RUN", "An earlier run: which codes are new, gone, risen or fallen since then.", PATH
)
@add_option("--rubric NAME", "The rubric, if the run has several.")
@add_option("--top N", "The number of codes with quotes.", click.IntRange(0), default=5)
@calibration_option
@no_calibration_option
@cluster_option
@add_option("--format", type=click.Choice(["table", "md", "json"]), name="format_", default="table")
@add_option("--out FILE", "Where to write.  [default: stdout]", PATH)
@verbose_option
def command(
    run: Path,
    since: Path | None,
    rubric: str | None,
    top: int,
    no_calibration: bool,
    format_: str,
    out: Path | None,
    verbose: bool,
    **options: Any,
) -> None:
    """Print which failure of RUN to fix first, with quotes.

    The order is by the lower limit of each share's interval: a code that is common beyond doubt
    comes first. --format md writes a ticket.

    With --since, a code is risen or fallen only if its p by Holm is .05 or less.

    Exit codes: 0 done; 1 no trace was judged; 2 usage or unreadable input.
    """
    from annotator.reports.mechanisms import LEAST_FINDINGS

    request = open_request([run], (), no_calibration, **options)
    [opened] = request.runs
    result = api.triage(
        opened,
        api.open_run(since) if since else None,
        rubric=rubric,
        calibration=request.calibrations,
        cluster=request.cluster_by,
        top=top,
    )
    if format_ == "md":
        put_text(result.markdown, out)
    else:
        put_tables(result.tables, format_, out, verbose=verbose)
    if not result.counted.judged:
        sys.exit(1)
    if result.found_codes and format_ == "table" and not out:
        say_next("view", run, purpose="every finding in its trace")
        first = result.found_codes[0]
        if len(first.findings) >= LEAST_FINDINGS:
            say_next("report", run, "--mechanisms", first.row.code, purpose="how it happens")
        say_again("--format md", purpose="a ticket")
        if not result.counted.correction:
            say_next("sample", run, purpose="runs to label: is the judge right?")
