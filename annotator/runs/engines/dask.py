"""Dask: a running scheduler, or one with workers on this machine."""

import logging
import os
import signal
from collections.abc import Callable
from importlib import import_module
from typing import Any

_TIMEOUT = 10  # seconds


class Dask:
    """A client of the scheduler at ``address``, or of a new one with ``workers`` processes."""

    def __init__(self, workers: int | None, address: str | None) -> None:
        distributed: Any = import_module("distributed")
        options = {"threads_per_worker": 1, "dashboard_address": None}
        options |= {"n_workers": workers or os.cpu_count() or 1, "silence_logs": logging.CRITICAL}
        self._cluster = None if address else distributed.LocalCluster(**options)
        self._client = distributed.Client(self._cluster or address, timeout=_TIMEOUT)
        if self._cluster:
            self._client.run(_ignore_interrupts)
        self.slots = max(1, sum(self._client.nthreads().values()))

    def submit(self, function: Callable[[Any], Any], job: Any) -> Any:
        """See :class:`annotator.runs.engines.Engine`."""
        return self._client.submit(function, job, pure=False)

    def close(self) -> None:
        """See :class:`annotator.runs.engines.Engine`."""
        self._client.close(timeout=_TIMEOUT)
        if self._cluster:
            self._cluster.close(timeout=_TIMEOUT)


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver
