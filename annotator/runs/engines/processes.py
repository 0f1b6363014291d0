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

_TIMEOUT = 10  # seconds for a process to save its run after Ctrl-C


class _ShardProcess:
    """A process, and the pipe for its result."""

    def __init__(self, process: BaseProcess, results: Connection) -> None:
        self.process, self._results = process, results

    def done(self) -> bool:
        return not self.process.is_alive()

    def result(self) -> Any:
        return self._results.recv()  # EOFError: the process was killed


class Processes:
    """``workers`` processes of this machine; default: one for each core."""

    def __init__(self, workers: int | None, address: str | None) -> None:
        if address:
            raise SettingsError("--address is that of a cluster: name one by --engine dask or ray")
        self.slots = workers or os.cpu_count() or 1
        self._shards: list[_ShardProcess] = []

    def submit(self, function: Callable[[Any], Any], job: Any) -> _ShardProcess:
        """See :class:`annotator.runs.engines.Engine`."""
        context = get_context("spawn")  # threads and clients do not survive a fork
        results, sender = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(function, job, sender))
        # The process inherits the mask, until it is ready to save its run after Ctrl-C.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGHUP))
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        sender.close()
        self._shards.append(_ShardProcess(process, results))
        return self._shards[-1]

    def close(self) -> None:
        """See :class:`annotator.runs.engines.Engine`."""
        running = [shard.process for shard in self._shards if not shard.done()]
        for process in running:
            os.kill(process.pid or 0, signal.SIGINT)
        for process in running:
            process.join(_TIMEOUT)
            process.kill()


def _work(function: Callable[[Any], Any], job: Any, sender: Connection) -> None:
    """Send the function's result; stop as after Ctrl-C if the parent dies."""
    parent = parent_process()

    def watch() -> None:
        wait([parent.sentinel] if parent else [])
        os.kill(os.getpid(), signal.SIGINT)

    with suppress(KeyboardInterrupt):
        Thread(target=watch, daemon=True).start()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))
        sender.send(function(job))
