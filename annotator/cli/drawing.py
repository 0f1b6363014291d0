"""Figures beside what is printed."""

from pathlib import Path

import click

from annotator.reports import figures
from annotator.text import one_line


def drawn(kind: str, source: figures.Source, file: Path | None) -> None:
    """Draw a figure, if a file is given for it, and say on stderr where it is and what it lacks."""
    if file:
        for line in figures.draw(kind, source, file):
            click.echo(one_line(line, 2000), err=True)
        click.echo(f"figure written to {one_line(str(file))}", err=True)
