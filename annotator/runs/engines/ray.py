"""Ray: a running cluster, or one of this machine."""

from collections.abc import Callable
from concurrent.futures import Future
from importlib import import_module
from typing import Any

_RETRIES = 3  # of a shard whose worker died


class Ray:
    """The cluster at ``address``, or one of this machine with ``workers`` CPUs; one CPU a shard."""

    def __init__(self, workers: int | None, address: str | None) -> None:
        self._ray: Any = import_module("ray")
        local = {"address": "local", "num_cpus": workers, "include_dashboard": False}
        options = {"address": address} if address else local
        self._ray.init(**options, log_to_driver=False, logging_level="error")
        self.slots = max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def submit(self, function: Callable[[Any], Any], job: Any) -> Future[Any]:
        """See :class:`annotator.runs.engines.Engine`."""
        remote = self._ray.remote(num_cpus=1, max_retries=_RETRIES)(function)
        future: Future[Any] = remote.remote(job).future()
        return future

    def close(self) -> None:
        """See :class:`annotator.runs.engines.Engine`."""
        self._ray.shutdown()
