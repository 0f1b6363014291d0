"""``annotate`` and ``python -m annotator``: what is the process's own, then the command line."""

import io
import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

_ENDED_BY = (signal.SIGTERM, signal.SIGHUP)


def main() -> NoReturn:
    """Run the command line and end the process.

    SIGTERM, and SIGHUP where it is not ignored, end a command as Ctrl-C does: what is done is kept,
    and nothing half done is left. A closed stdout or stderr, or a stderr that takes nothing, stops
    no command.
    """
    _open_closed_streams()
    for number in _ENDED_BY:
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(number, _interrupt)
    try:
        from annotator.cli import main as run

        run()
    except KeyboardInterrupt:  # before or after all that the command line does
        sys.exit(130)
    finally:
        for number in (signal.SIGINT, *_ENDED_BY):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _pass_over)
        _flush_stdout()


def _interrupt(_: int, frame: FrameType | None) -> None:
    """Do what Ctrl-C does at this moment; a shell's background jobs ignore the signal of that."""
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler):
        raise KeyboardInterrupt
    handler(signal.SIGINT, frame)


def _pass_over(number: int, _: FrameType | None) -> None:
    """All is done and told: the process ends with its exit code, unless somebody insists."""
    signal.signal(number, signal.SIG_DFL)


class _Notices(io.FileIO):
    """A stderr that nobody reads, or that has no room, loses what is said and stops nothing."""

    def write(self, data: Any) -> int:
        with suppress(OSError):
            return super().write(data)
        return len(data)


def _open_closed_streams() -> None:
    """Open what is closed of the three streams, so that no file gets its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    encoding = sys.stderr.encoding if sys.stderr else "utf-8"
    raw = _Notices(2, "w", closefd=False)
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(raw), encoding, "backslashreplace", line_buffering=True
    )


def _flush_stdout() -> None:
    """Let Python find nothing to write to a stdout that takes nothing when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
