"""``annotate report``."""

from pathlib import Path

import click

from annotator.cli.output import say
from annotator.reports.frequency import frequency_tables
from annotator.reports.writers import WRITERS


@click.command("report", context_settings={"show_default": True})
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--format", "format_", type=click.Choice(list(WRITERS)), default="table")
@click.option(
    "--calibration",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="What annotate calibrate wrote: adds the shares corrected for the judge's errors."
    " Several: each run takes the one made for it.",
)
@click.option(
    "--transfer",
    is_flag=True,
    help="Let the calibration be of another judge or of other traces; the table says so.",
)
@click.option("--by", metavar="ATTRIBUTE", help="One table for each value: model, setting, ...")
@click.option(
    "--compare",
    "sides",
    nargs=2,
    metavar="A B",
    help="Differences between two values of --by (which may be run or judge).",
)
@click.option("--co-occurrence", is_flag=True, help="How often two codes stand in one trace.")
def command(
    runs: tuple[Path, ...],
    format_: str,
    files: tuple[Path, ...],
    transfer: bool,
    by: str | None,
    sides: tuple[str, str] | None,
    co_occurrence: bool,
) -> None:
    """Print the frequency tables of RUNS (run directories), one per rubric."""
    calibrations = None
    if files:
        from annotator.calibration.correct import read_calibrations

        calibrations = read_calibrations(files)
    if sides:
        if not by:
            raise click.UsageError("--compare A B needs --by ATTRIBUTE (or run, or judge)")
        if transfer:
            raise click.UsageError("--compare needs labels of the compared traces: no --transfer")
        from annotator.reports import compare_writers
        from annotator.reports.compare import compare

        say(compare_writers.WRITERS[format_](compare(runs, by, *sides, calibrations)))
        return
    if co_occurrence and (sides or by or files):
        raise click.UsageError("--co-occurrence goes with --format only")
    if co_occurrence:
        from annotator.reports import together

        counted = [one for run in runs for one in together.co_occurrence(run)]
        say(together.WRITERS[format_](counted))
        return
    tables = [
        table
        for run in runs
        for table in frequency_tables(run, calibrations, transfer=transfer, by=by)
    ]
    say(WRITERS[format_](tables))
