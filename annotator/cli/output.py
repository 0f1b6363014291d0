"""Results on stdout, and what several commands read from their options."""

import math
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from annotator.base.files import explain_errors
from annotator.base.text import replace_surrogates, sanitize_line

if TYPE_CHECKING:
    from annotator.api import Run
    from annotator.traces import Unreadable


def say(text: str) -> bool:
    """Print ``text``; return whether anybody still reads.

    A closed pipe (``| head``) is no error, and does not change what a command has to say about its
    work by its exit code.

    Raises:
        AnnotatorError: stdout cannot be written, a full disk say.
    """
    with explain_errors("the output"):
        try:
            click.echo(
                replace_surrogates(text), color=True
            )  # else it drops codes for colours from a prompt
            sys.stdout.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if not isinstance(error, BrokenPipeError):
                raise
            return False
    return True


def say_notice(text: str) -> None:
    """Print a line on stderr."""
    click.echo(sanitize_line(text, 2000), err=True)


def say_unreadable(trace: "Unreadable") -> None:
    """Print on stderr which trace cannot be read, and why."""
    click.echo(
        f"unreadable  {sanitize_line(trace.id, 200)}: {sanitize_line(trace.reason)}", err=True
    )


def say_partial(runs: Sequence["Run"]) -> None:
    """Say on stderr of which runs there is a part only, and why."""
    for run in runs:
        if notes := " ".join(run.manifest.limitations):
            say_notice(f"{run}: {notes}")


class Number(click.FloatRange):
    """A number in a range; NaN is in none."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """See click."""
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


def attributes(text: str) -> tuple[str, ...]:
    """Return the names in a list of attributes like ``project,task``; "none" names none."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise click.UsageError(f"--cluster {text!r}: expected names of attributes, or none")
    return () if names == ("none",) else names
