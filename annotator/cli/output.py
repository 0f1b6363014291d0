"""Lines and tables on stdout, notices on stderr."""

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from annotator.base.files import explain_errors, write_file
from annotator.base.remote import name_place
from annotator.base.text import escape_controls, replace_surrogates, sanitize_line, wrap_line

if TYPE_CHECKING:
    from annotator.api import Run
    from annotator.reports.table import Table
    from annotator.traces import Unreadable


def say(text: str) -> bool:
    """Print ``text``; return whether anybody reads: a closed pipe (``| head``) is no error."""
    with explain_errors("the output"):
        try:
            click.echo(replace_surrogates(text), color=True)  # keeps colour codes of a prompt
            sys.stdout.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if not isinstance(error, BrokenPipeError):
                raise
            return False
    return True


def format_notice(text: str) -> str:
    """Return a notice in lines of 80 columns."""
    return wrap_line(sanitize_line(text, 2000))


def say_notice(text: str) -> None:
    """Print a notice on stderr."""
    click.echo(format_notice(text), err=True)


def say_unreadable(trace: "Unreadable") -> None:
    """Print on stderr which trace cannot be read, and why."""
    click.echo(
        f"unreadable  {sanitize_line(trace.id, 200)}: {sanitize_line(trace.reason)}", err=True
    )


def say_partial(runs: Sequence["Run"]) -> None:
    """Print on stderr which runs are incomplete, and why."""
    for run in runs:
        if notes := " ".join(run.manifest.limitations):
            say_notice(f"{run}: {notes}")


def say_next(*arguments: object, purpose: str = "") -> None:
    """Print on stderr a command that may come next: ``annotate`` with arguments."""
    command = shlex.join(["annotate", *map(str, arguments)])
    click.echo(f"next: {escape_controls(command)}    {purpose}".rstrip(), err=True)


def name_sources(sources: Sequence[str]) -> Sequence[str]:
    """Return the sources of traces for the next command; of many the first and an ellipsis."""
    return sources if len(sources) < 4 else (sources[0], "...")


def say_written(path: Path) -> None:
    """Print on stderr where a report is."""
    click.echo(f"written to {sanitize_line(name_place(path), 1000)}", err=True)


def put_text(text: str, path: Path | None) -> None:
    """Print a text, or write it to ``path``."""
    if path:
        write_file(path, f"{text}\n")
        say_written(path)
    else:
        say(text)


def put_tables(
    tables: Sequence["Table"],
    format_: str = "table",
    path: Path | None = None,
    *,
    verbose: bool = False,
) -> None:
    """Print the tables of a report, or write them to ``path``; if not ``verbose``, brief ones."""
    from annotator.reports.table import render, select_brief

    if format_ == "table" and not verbose:
        tables = select_brief(tables)
    if format_ == "table" and not path and _can_show_weights():
        from annotator.reports.formats import text

        say(text.render(tables, shutil.get_terminal_size().columns, weighted=True))
    else:
        put_text(render(tables, format_), path)


def _can_show_weights() -> bool:
    able = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    return able and not os.environ.get("NO_COLOR")
