"""``annotate`` and ``python -m annotator``: signals and streams, then the command line."""

import gc
import io
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn


def main() -> NoReturn:
    """Run the command line and end the process.

    SIGTERM and SIGHUP act as Ctrl-C: the run keeps its annotations. A command goes on quietly if
    its stdout or stderr is closed, as after ``| head``.
    """
    # Few objects are in cycles, and the search for them takes a tenth of a run.
    gc.set_threshold(50_000, 20, 20)
    try:
        if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # a background job of a shell
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            signal.signal(signal.SIGINT, signal.default_int_handler)  # for SIGTERM
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores SIGHUP
                signal.signal(number, _interrupt)
        sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115 - it was closed
        if sys.stderr:
            raw = io.BufferedWriter(_Notices(2, "w", closefd=False))
            sys.stderr = io.TextIOWrapper(raw, sys.stderr.encoding, "replace", line_buffering=True)
        from annotator.cli import main as run

        run()
    except KeyboardInterrupt:  # before or after the command line
        sys.exit(130)
    finally:
        try:
            sys.stdout.flush()
        except OSError:  # else Python reports it when it ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Call the handler of Ctrl-C."""
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        handler(signal.SIGINT, frame)


class _Notices(io.FileIO):
    """Stderr that ignores errors in writing."""

    def write(self, data: Any) -> int:
        with suppress(OSError):
            return super().write(data)
        return len(data)


if __name__ == "__main__":
    main()
