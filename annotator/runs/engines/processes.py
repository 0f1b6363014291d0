"""Processes of this machine, one for each shard."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import Any

from annotator.base.errors import SettingsError

_PATIENCE = 10  # seconds for a process to save its run after Ctrl-C


class _Process:
    """A process and the pipe for its result."""

    def __init__(self, process: BaseProcess, results: Connection) -> None:
        self.process = process
        self._results = results

    def done(self) -> bool:
        return not self.process.is_alive()

    def result(self) -> Any:
        return self._results.recv()  # EOFError: the process was killed


class Processes:
    """Starts a process for each shard."""

    def __init__(self, workers: int) -> None:
        self.slots = workers
        self._started: list[_Process] = []

    def submit(self, function: Callable[[Any], Any], job: Any) -> _Process:
        """See :class:`annotator.runs.engines.Engine`."""
        context = get_context("spawn")  # threads and clients do not survive a fork
        results, end = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(function, job, end))
        # The process inherits the mask: it hears Ctrl-C when it is ready to save its run.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGHUP))
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        end.close()
        self._started.append(_Process(process, results))
        return self._started[-1]

    def close(self) -> None:
        """See :class:`annotator.runs.engines.Engine`."""
        running = [each.process for each in self._started if not each.done()]
        for process in running:
            os.kill(process.pid or 0, signal.SIGINT)
        for process in running:
            process.join(_PATIENCE)
            process.kill()


def _work(function: Callable[[Any], Any], job: Any, end: Connection) -> None:
    """Call the function; stop as after Ctrl-C when the parent is gone."""
    parent = parent_process()

    def watch() -> None:
        wait([parent.sentinel] if parent else [])
        os.kill(os.getpid(), signal.SIGINT)

    with suppress(KeyboardInterrupt):
        Thread(target=watch, daemon=True).start()
        signal.signal(
            signal.SIGINT, signal.default_int_handler
        )  # a job in the background ignores it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))
        end.send(function(job))


def make(workers: int | None, address: str | None) -> Processes:
    """Return an engine of ``workers`` processes; None: one for each core."""
    if address:
        raise SettingsError("--address is that of a cluster: name one by --engine dask or ray")
    return Processes(workers or os.cpu_count() or 1)
