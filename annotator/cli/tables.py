"""Tables on stdout, on a terminal with weights and bars, or in a file."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from annotator.base.files import write_file
from annotator.base.remote import name_place
from annotator.base.text import sanitize_line
from annotator.cli.output import say
from annotator.reports.table import Table, render


def put(tables: Sequence[Table], format_: str = "table", place: Path | None = None) -> None:
    """Write the tables of a report to ``place``, or print them as :func:`say` does."""
    if place:
        write_file(place, f"{render(tables, format_)}\n")
        say_written(place)
    elif format_ == "table" and _on_screen():
        from annotator.reports.formats import screen

        say(screen.render(tables, shutil.get_terminal_size().columns))
    else:
        say(render(tables, format_))


def say_written(place: Path) -> None:
    """Say on stderr where a report is."""
    click.echo(f"written to {sanitize_line(name_place(place), 1000)}", err=True)


def _on_screen() -> bool:
    """Whether stdout is a terminal that can show more than plain letters, and may."""
    able = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    return able and not os.environ.get("NO_COLOR") and sys.stdout.encoding.lower() == "utf-8"
