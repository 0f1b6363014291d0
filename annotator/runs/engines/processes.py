"""Processes of this machine."""

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

from annotator.errors import SettingsError

_LOOK = 0.5  # seconds between two looks at whether a worker is still needed


class Processes:
    """A pool that is made anew when one of its processes was killed, which ends all of them."""

    def __init__(self, workers: int) -> None:
        self.slots = workers
        self._context = get_context("spawn")  # threads and clients do not survive a fork
        self._stop = self._context.Event()
        self._pool = self._make()

    def submit(self, function: Callable[[Any], Any], task: Any) -> Future[Any]:
        """See :class:`annotator.runs.engines.Engine`."""
        try:
            return self._pool.submit(function, task)
        except BrokenProcessPool:
            self._pool.shutdown(wait=False)
            self._pool = self._make()
            return self._pool.submit(function, task)

    def close(self) -> None:
        """See :class:`annotator.runs.engines.Engine`."""
        self._stop.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _make(self) -> ProcessPoolExecutor:
        given = (self._stop, os.getpid())
        return ProcessPoolExecutor(self.slots, self._context, _begin, given)


def make(workers: int | None, address: str | None) -> Processes:
    """Return a pool of ``workers`` processes, as many as there are cores if that is None."""
    if address:
        raise SettingsError("--address is that of a cluster: name one by --engine dask or ray")
    return Processes(workers or os.cpu_count() or 1)


def _begin(stop: Any, parent: int) -> None:
    """Leave Ctrl-C to the parent, and end soon when it wants it or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while not stop.wait(_LOOK) and os.getppid() == parent:
            pass
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
