"""Frequency tables on stdout: plain text, or on a terminal with weights and bars."""

import os
import shutil
import sys
from collections.abc import Sequence

from annotator.cli.formats import write_tables
from annotator.cli.output import say
from annotator.reports.frequency import FrequencyTable


def say_tables(tables: Sequence[FrequencyTable], format_: str = "table") -> None:
    """Print the tables as :func:`say` does."""
    if format_ != "table" or not _on_screen():
        say(write_tables(tables, format_))
        return
    from annotator.reports.screen import as_screen

    say(as_screen(tables, shutil.get_terminal_size().columns))


def _on_screen() -> bool:
    """Whether stdout is a terminal that can show more than plain letters, and may."""
    able = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    return able and not os.environ.get("NO_COLOR") and sys.stdout.encoding.lower() == "utf-8"
