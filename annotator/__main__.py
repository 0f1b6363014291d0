"""``annotate`` and ``python -m annotator``: what is the process's own, then the command line."""

import atexit
import io
import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_DEFAULTS = (signal.SIG_DFL, signal.default_int_handler)  # nohup ignores SIGHUP
_WHOLE = ("annotator.files", "annotator.locks", "weakref")  # what these begin they end
_heard: list[int] = []
_stopped = _ended = False


def main() -> NoReturn:
    """Run the command line and end the process.

    SIGTERM, and SIGHUP where it is not ignored, end a command as Ctrl-C does: what is done is kept,
    and nothing half done is left. Another one does not disturb the end; the third of a kind kills.
    A closed stdout or stderr, or a stderr that takes nothing, stops no command.
    """
    global _ended
    try:
        try:
            for number in _SIGNALS:
                if signal.getsignal(number) in _DEFAULTS:
                    signal.signal(number, _interrupt)
            signal.signal(signal.SIGALRM, _repeat)
            sys.unraisablehook = _report
            atexit.register(_ignore)  # registered first, called last
            _open_closed_streams()
            from annotator.cli import main as run

            run()
        finally:
            _ended = True
            exec("")  # noqa: S102 - else Python dies of a KeyboardInterrupt within some exec() before
            _flush_stdout()
    except KeyboardInterrupt:  # before or after all that the command line does
        _ended = True
        sys.exit(130)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Stop the command, or do what Ctrl-C does at this moment; a shell's background jobs ignore the
    signal of that.
    """
    global _stopped
    handler = signal.getsignal(signal.SIGINT)
    ours = _interrupt in (handler, *getattr(handler, "args", ()))  # it calls this, for each kind
    if number != signal.SIGINT and callable(handler) and not ours:
        handler(signal.SIGINT, frame)
        return
    _heard.append(number)
    if _heard.count(number) > 2:  # somebody insists
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
    elif not (_stopped or _ended):
        if _is_whole(frame):
            _put_off()
            return
        _stopped = True
        raise KeyboardInterrupt


def _is_whole(frame: FrameType | None) -> bool:
    """Whether files are left half done by who stops here: waiting for a lock is no such thing."""
    while frame:
        name = frame.f_globals.get("__name__", "")
        if name in _WHOLE:
            return frame.f_code.co_name != "_lock"
        if name.startswith("annotator.") and frame.f_globals is not globals():
            return False
        frame = frame.f_back
    return False


def _put_off() -> None:
    """Let the last signal come again a moment later."""
    signal.setitimer(signal.ITIMER_REAL, 0.001)


def _repeat(number: int, frame: FrameType | None) -> None:
    signal.raise_signal(_heard.pop() if _heard else signal.SIGTERM)


def _report(unraisable: Any) -> None:
    """Stop the command a moment later where it cannot be stopped: in a callback of Python's own."""
    global _stopped
    if unraisable.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(unraisable)
        return
    _stopped = False
    _put_off()


def _ignore() -> None:
    """Let no signal kill the process while Python ends."""
    for number in (*_SIGNALS, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)


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
