"""``annotate report``."""

from pathlib import Path

import click

from annotator.cli.output import say
from annotator.reports.frequency import frequency_tables
from annotator.reports.writers import WRITERS


@click.command("report")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--format", "format_", type=click.Choice(list(WRITERS)), default="table", show_default=True
)
def command(runs: tuple[Path, ...], format_: str) -> None:
    """Print the frequency tables of RUNS (run directories), one per rubric."""
    tables = [table for run in runs for table in frequency_tables(run)]
    say(WRITERS[format_](tables))
