"""Dask: a running scheduler, or one with workers on this machine."""

import logging
import os
import signal
from collections.abc import Callable
from importlib import import_module
from typing import Any

from annotator.base.errors import AnnotatorError
from annotator.base.plugins import explain_extra

_PATIENCE = 10  # seconds for a scheduler to answer


class Dask:
    """A client of a scheduler."""

    def __init__(self, workers: int | None, address: str | None) -> None:
        try:
            distributed: Any = import_module("distributed")
        except ImportError as error:
            raise AnnotatorError(f"--engine dask needs Dask: {explain_extra('dask')}") from error
        self._cluster: Any = None
        if address is None:
            self._cluster = distributed.LocalCluster(
                n_workers=workers or os.cpu_count() or 1,
                threads_per_worker=1,
                dashboard_address=None,
                silence_logs=logging.CRITICAL,
            )
        self._client = distributed.Client(self._cluster or address, timeout=_PATIENCE)
        if self._cluster:
            self._client.run(_ignore_interrupts)

    @property
    def slots(self) -> int:
        """See :class:`annotator.runs.engines.Engine`."""
        threads: dict[str, int] = self._client.nthreads()
        return max(1, sum(threads.values()))

    def submit(self, function: Callable[[Any], Any], job: Any) -> Any:
        """See :class:`annotator.runs.engines.Engine`."""
        return self._client.submit(function, job, pure=False)

    def close(self) -> None:
        """See :class:`annotator.runs.engines.Engine`."""
        self._client.close(timeout=_PATIENCE)
        if self._cluster:
            self._cluster.close(timeout=_PATIENCE)


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the driver."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def make(workers: int | None, address: str | None) -> Dask:
    """Return the scheduler at an address, or one of this machine with ``workers`` processes."""
    return Dask(workers, address)
