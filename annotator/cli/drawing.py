"""What the commands that draw figures have in common."""

from collections.abc import Sequence
from pathlib import Path

import click

from annotator.reports import figures
from annotator.runs.run import Run
from annotator.text import one_line

plotted = click.option(
    "--plot",
    type=click.Choice(list(figures.PLOTS)),
    help="What to draw; confusion and reliability need --calibration.  [default: frequency]",
)


def say_uncounted(runs: Sequence[Run]) -> None:
    """Say on stderr which rubrics have no pairs of codes to be counted."""
    from annotator.reports.co_occurrence import list_uncounted

    for line in list_uncounted(*runs):
        click.echo(one_line(line, 2000), err=True)


def drawn(kind: str, source: figures.FigureSource, file: Path | None, *notices: str) -> None:
    """Draw a figure, if a file is given for it, and say on stderr where it is and what it lacks."""
    if file:
        for line in (*notices, *figures.draw(kind, source, file)):
            click.echo(one_line(line, 2000), err=True)
        click.echo(f"figure written to {one_line(str(file))}", err=True)
