"""What the commands that draw figures have in common."""

from pathlib import Path

import click

from annotator.reports.figures import PLOTS
from annotator.text import one_line

plot_option = click.option(
    "--plot",
    type=click.Choice(list(PLOTS)),
    help="What to draw; confusion and reliability need --calibration.  [default: frequency]",
)


def say_notice(line: str) -> None:
    """Say on stderr what a report leaves out, in one line that is safe to show."""
    click.echo(one_line(line, 2000), err=True)


def say_drawn(file: Path) -> None:
    """Say on stderr where a figure is."""
    click.echo(f"figure written to {one_line(str(file))}", err=True)
