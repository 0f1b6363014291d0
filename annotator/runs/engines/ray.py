"""Ray: a running cluster, or one of this machine."""

from collections.abc import Callable
from concurrent.futures import Future
from importlib import import_module
from typing import Any

from annotator.base.errors import AnnotatorError
from annotator.base.plugins import explain_extra

_RETRIES = 3  # how often Ray starts a shard again whose worker died


class Ray:
    """A driver of a cluster; a shard takes one of its CPUs."""

    def __init__(self, workers: int | None, address: str | None) -> None:
        try:
            self._ray: Any = import_module("ray")
        except ImportError as error:
            raise AnnotatorError(f"--engine ray needs Ray: {explain_extra('ray')}") from error
        options: dict[str, Any] = {"address": address} if address else {"num_cpus": workers}
        if not address:
            options |= {"address": "local", "include_dashboard": False}
        self._ray.init(**options, log_to_driver=False, logging_level="error")

    @property
    def slots(self) -> int:
        """See :class:`annotator.runs.engines.Engine`."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def submit(self, function: Callable[[Any], Any], job: Any) -> Future[Any]:
        """See :class:`annotator.runs.engines.Engine`."""
        remote = self._ray.remote(num_cpus=1, max_retries=_RETRIES)(function)
        future: Future[Any] = remote.remote(job).future()
        return future

    def close(self) -> None:
        """See :class:`annotator.runs.engines.Engine`."""
        self._ray.shutdown()


def make(workers: int | None, address: str | None) -> Ray:
    """Return the cluster at an address, or one of this machine with ``workers`` CPUs."""
    return Ray(workers, address)
