"""The progress of a run, on stderr."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING

import click

from annotator.api import RunProgress
from annotator.base.text import format_count
from annotator.cli.output import format_notice

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

    from annotator.traces.read import TraceOrProblem


_SHORTEST, _LONGEST = 30.0, 600.0  # seconds between two lines of a log
_LOG = 120  # columns of its lines
_STATUSES = {"labelled": "found", "none": "none", "undecided": "undecided", "failed": "failed"}


def show_reading(traces: "Iterable[TraceOrProblem]") -> "Iterator[TraceOrProblem]":
    """Yield traces. If that takes longer, print every now and then how many are read."""
    terminal = sys.stderr is not None and sys.stderr.isatty()
    pause = 1.0 if terminal else _SHORTEST
    following = time.monotonic() + pause
    printed = False
    for n, trace in enumerate(traces, 1):
        yield trace
        if time.monotonic() >= following:
            following = time.monotonic() + pause
            printed = terminal
            begin = "\r" if terminal else ""
            click.echo(begin + format_count(n, "trace") + " read", nl=not terminal, err=True)
    if printed:
        click.echo(err=True)


class Progress:
    """Prints ``78/300  26 %  $1.64  ETA 1:10   49 found  2 none  13 undecided  0 failed``.

    On a terminal it is one line that changes, in a log a line every half minute, later fewer.
    ``count`` returns about how many annotations there will be (0: unknown), ``state`` a note on the
    judge, or "".
    """

    def __init__(
        self, count: Callable[[], int], state: Callable[[], str], *, quiet: bool, verbose: bool
    ) -> None:
        self._count = count
        self._state = state
        self._quiet = quiet
        self._verbose = verbose
        self._live: Live | None = None
        self._recorded: RunProgress | None = None
        self._before = 0  # annotations of an earlier part of the run
        self._start = self._next = self._recorded_at = 0.0
        self._failed = False

    @cached_property
    def _total(self) -> int:
        return self._count()

    def __enter__(self) -> "Progress":
        return self

    def start(self) -> None:
        """Show the line from now on."""
        self._start = time.monotonic()
        self._next = self._start + _SHORTEST
        if self._quiet or sys.stderr is None or not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.live import Live

        self._total  # noqa: B018 - counted before the first call
        console = Console(stderr=True)
        self._live = Live(get_renderable=self._render, console=console, refresh_per_second=4)
        self._live.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._live.stop()

    def say(self, text: str) -> None:
        """Print a notice on stderr, above the line."""
        if self._live:
            console = self._live.console
            console.print(format_notice(text), markup=False, highlight=False, soft_wrap=True)
        else:
            click.echo(format_notice(text), err=True)

    def show(self, recorded: RunProgress) -> None:
        """Show the counts that the run has recorded."""
        if self._recorded is None:
            self._before = recorded.annotations - 1
        self._recorded, self._recorded_at = recorded, time.monotonic()
        if recorded.failure and not (self._failed or self._quiet):
            self._failed = True
            self.say(f"the first failure: {recorded.failure}")
        now = self._recorded_at
        if not (self._live or self._quiet) and now >= self._next:
            self._next = now + min(max(_SHORTEST, (now - self._start) / 10), _LONGEST)
            click.echo(self._write_line(_LOG), err=True)

    def _render(self) -> "Text":
        from rich.text import Text

        width = self._live.console.width if self._live else 80
        return Text(self._write_line(width - 1), no_wrap=True)

    def _write_line(self, width: int) -> str:
        """Return as many parts of the line as fit."""
        line = ""
        for text in self._write_parts():
            if len(line) + len(text) > width:
                break
            line += text
        return line.strip()

    def _write_parts(self) -> Iterator[str]:
        recorded, total = self._recorded, self._total
        done = recorded.annotations if recorded else 0
        total = max(total, done) if total else 0
        yield f"{done}/{total}  {100 * done // total} %" if total else f"{done} judged"
        if recorded is None:
            yield f"  {self._state()}"
            return
        usage = recorded.usage
        if usage.calls:
            bound = "at least " if usage.unreported_calls else ""
            cost = usage.cost_usd
            yield "  cost unknown" if cost is None else f"  {bound}${cost:.2f}"
        new = done - self._before
        if total > done and new > 1:
            yield f"  ETA {_format_time(self._estimate_rest(new, total - done))}"
        if state := self._state():
            yield f"  {state}"
        blanks = "   "
        for status, name in _STATUSES.items():
            yield f"{blanks}{recorded.counts.get(status, 0)} {name}"
            blanks = "  "
        if skipped := recorded.counts.get("skipped"):
            yield f"  {skipped} skipped"
        if self._verbose and usage.calls:
            yield f"  {usage.input_tokens + usage.output_tokens:,} tokens"

    def _estimate_rest(self, new: int, left: int) -> float:
        """Return the seconds that the traces left take; it falls until the next one is overdue."""
        now = time.monotonic()
        rest = (self._recorded_at - self._start) / new * left - (now - self._recorded_at)
        return max(rest, (now - self._start) / (new + 1) * (left - 1))


def _format_time(seconds: float) -> str:
    """Return ``1:10``, or with hours ``2:01:10``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
