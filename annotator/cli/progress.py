"""The progress of a run, on stderr."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

import click

from annotator.api import RunProgress
from annotator.base.text import sanitize_line
from annotator.cli.output import say_notice

if TYPE_CHECKING:
    from rich.progress import Progress as Bar


_PAUSE = 30.0  # seconds between two lines of a log


class Progress:
    """Prints counts per status, tokens and dollars: on a terminal one line that changes, in a log a
    line every half minute, nothing if quiet. It prints the first failure at once.
    """

    def __init__(self, quiet: bool, count: Callable[[], int], state: Callable[[], str]) -> None:
        self._state = state
        self._visible = not quiet and sys.stderr is not None and sys.stderr.isatty()
        self._count = count
        self._bar: Bar | None = None
        self._quiet = quiet
        self._next = time.monotonic() + _PAUSE
        self._failed = False

    def __enter__(self) -> "Progress":
        return self

    def start(self) -> None:
        """Show the bar from now on."""
        if self._visible:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                ProgressColumn,
                Task,
                TextColumn,
                TimeElapsedColumn,
            )
            from rich.progress import Progress as Bar
            from rich.text import Text

            judge_state = self._state

            class State(ProgressColumn):
                """The state of the judge, also while nothing is recorded."""

                def render(self, task: Task) -> Text:
                    return Text(judge_state(), no_wrap=True)

            self._bar = Bar(
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}", markup=False),
                State(),
                console=Console(stderr=True),
            )
            self._task = self._bar.add_task("", total=self._count() or None)
            self._bar.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar:
            self._bar.stop()

    def say(self, text: str) -> None:
        """Print a line on stderr, above the bar."""
        if self._bar:
            line = sanitize_line(text, 2000)
            self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            say_notice(text)

    def show(self, recorded: RunProgress) -> None:
        """Show the counts that the run has recorded."""
        if recorded.failure and not (self._failed or self._quiet):
            self._failed = True
            self.say(f"the first failure: {recorded.failure}")
        if not self._bar and (self._quiet or time.monotonic() < self._next):
            return
        counts = "  ".join(f"{status} {n}" for status, n in recorded.counts.items() if n)
        usage = recorded.usage
        bound = "at least " if usage.unreported_calls else ""
        cost = "unknown" if usage.cost_usd is None else f"{bound}{usage.cost_usd:.4f} USD"
        tokens = f"  {usage.input_tokens + usage.output_tokens} tokens, cost {cost}"
        description = counts + (tokens if usage.calls else "")
        if not self._bar:
            self._next = time.monotonic() + _PAUSE
            click.echo(f"{recorded.annotations} judged: {description}", err=True)
            return
        self._bar.update(self._task, completed=recorded.annotations, description=description)
