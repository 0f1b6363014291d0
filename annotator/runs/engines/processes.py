"""Processes of this machine."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

from annotator.errors import SettingsError


class Processes:
    """A pool that is made anew when one of its processes was killed, which ends all of them.

    They end when the other end of a pipe is closed: by this process, or with it. (An event would
    wait for every process that ever waited for it, killed ones too.)
    """

    def __init__(self, workers: int) -> None:
        self.slots = workers
        self._context = get_context("spawn")  # threads and clients do not survive a fork
        self._theirs, self._ours = self._context.Pipe(duplex=False)
        self._pool = self._make()

    def submit(self, function: Callable[[Any], Any], task: Any) -> Future[Any]:
        """See :class:`annotator.runs.engines.Engine`."""
        with _deaf():
            try:
                return self._pool.submit(function, task)
            except BrokenProcessPool:
                self._pool.shutdown(wait=False)
                self._pool = self._make()
                return self._pool.submit(function, task)

    def close(self) -> None:
        """See :class:`annotator.runs.engines.Engine`."""
        self._ours.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _make(self) -> ProcessPoolExecutor:
        with _deaf():
            return ProcessPoolExecutor(self.slots, self._context, _begin, (self._theirs,))


@contextmanager
def _deaf() -> Iterator[None]:
    """Start processes that leave Ctrl-C, and the end of the terminal, to this one."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def make(workers: int | None, address: str | None) -> Processes:
    """Return a pool of ``workers`` processes, as many as there are cores if that is None."""
    if address:
        raise SettingsError("--address is that of a cluster: name one by --engine dask or ray")
    return Processes(workers or os.cpu_count() or 1)


def _begin(theirs: Connection) -> None:
    """End at once when the parent wants it or is gone."""

    def watch() -> None:
        wait([theirs])
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
