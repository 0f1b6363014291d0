"""Engines start the shards of a run: processes of this machine, or a cluster.

Adding an engine is one module here and one line below, or one entry point outside.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

from annotator.base.errors import AnnotatorError, SettingsError
from annotator.base.plugins import is_plugin, load_plugin
from annotator.base.text import sanitize_line

ENGINES = ("processes", "dask", "ray")


class Outstanding(Protocol):
    """A shard that was started; a future of :mod:`concurrent.futures` is one."""

    def done(self) -> bool:
        """Whether the shard has ended."""

    def result(self) -> Any:
        """Return the function's result, or raise its error."""


class Engine(Protocol):
    """Calls a function elsewhere, once for each shard.

    If a worker dies, the engine may call the function again; else ``result`` raises an error.
    """

    @property
    def slots(self) -> int:
        """How many shards the engine works on at a time."""

    def submit(self, function: Callable[[Any], Any], job: Any) -> Outstanding:
        """Start a shard: the engine pickles the function and the job."""

    def close(self) -> None:
        """Stop the shards that have not ended, and release the engine."""


def open_engine(name: str, workers: int | None = None, address: str | None = None) -> Engine:
    """Return an engine: one of :data:`ENGINES` or a plug-in, called with workers and address.

    Args:
        name: the engine.
        workers: how many processes it starts.
        address: of a cluster that is running.

    Raises:
        SettingsError: no such engine, or settings that do not go together.
        AnnotatorError: the engine is not installed, or cannot be reached.
    """
    if name in ENGINES:
        make = import_module(f"annotator.runs.engines.{name}").make
    elif is_plugin("engines", name):
        make = load_plugin("engines", name).value
    else:
        raise SettingsError(f"--engine {name!r}: expected {', '.join(ENGINES)} or a plug-in")
    try:
        engine: Engine = make(workers, address)
    except (AnnotatorError, KeyboardInterrupt):
        raise
    except Exception as error:  # of a library that is not ours
        reason = f"{type(error).__name__}: {sanitize_line(str(error), 300)}"
        place = f" at {address}" if address else ""
        raise AnnotatorError(f"the engine {name}{place} cannot be used: {reason}") from error
    return engine
