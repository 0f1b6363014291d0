"""Engines start the shards of a run: processes of this machine, or a cluster.

Adding an engine is one module here and one line below, or one entry point outside.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

from annotator.base.errors import AnnotatorError, SettingsError
from annotator.base.plugins import explain_extra, is_plugin, load_plugin
from annotator.base.text import sanitize_line

ENGINES = ("processes", "dask", "ray")


class Outstanding(Protocol):
    """A running shard, such as a future of :mod:`concurrent.futures`."""

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
    """Return an engine: one of :data:`ENGINES` or a plug-in.

    Args:
        name: the engine.
        workers: the number of processes that it starts.
        address: the address of a running cluster.

    Raises:
        SettingsError: no such engine, or settings that do not go together.
        AnnotatorError: the engine is not installed, or cannot be reached.
    """
    if name in ENGINES:
        make = getattr(import_module(f"annotator.runs.engines.{name}"), name.title())
    elif is_plugin("engines", name):
        make = load_plugin("engines", name).value
    else:
        raise SettingsError(f"--engine {name!r}: expected {', '.join(ENGINES)} or a plug-in")
    try:
        engine: Engine = make(workers, address)
    except AnnotatorError:
        raise
    except Exception as error:  # of another library
        if name in ENGINES and isinstance(error, ImportError):
            needed = f"{name.title()}: {explain_extra(name)}"
            raise AnnotatorError(f"--engine {name} needs {needed}") from error
        reason = f"{type(error).__name__}: {sanitize_line(str(error), 300)}"
        where = f" at {address}" if address else ""
        raise AnnotatorError(f"the engine {name}{where} cannot be used: {reason}") from error
    return engine
