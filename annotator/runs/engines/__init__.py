"""Where tasks are done: processes of this machine, or a cluster that is there already.

Adding an engine is one module here and one line below, or one entry point outside.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol, TypeVar

from annotator.errors import AnnotatorError, SettingsError
from annotator.plugins import is_plugin, load_plugin
from annotator.text import one_line

ENGINES = ("processes", "dask", "ray")
T = TypeVar("T")


class Outstanding(Protocol):
    """What will be the result of a task; that of :mod:`concurrent.futures` is one."""

    def done(self) -> bool:
        """Whether it is there, or never will be."""

    def result(self) -> Any:
        """Return it, or raise what the task ran into."""


class Engine(Protocol):
    """Does tasks, each whole in one process. What a killed process was doing is done again, by
    another one, as often as the engine thinks fit; then its result raises.
    """

    @property
    def slots(self) -> int:
        """How many tasks it does at a time, now."""

    def submit(self, function: Callable[[Any], Any], task: Any) -> Outstanding:
        """Begin a task: both are pickled."""

    def close(self) -> None:
        """Give up what is not done, and let go of the engine."""


def open_engine(name: str, workers: int | None = None, address: str | None = None) -> Engine:
    """Return an engine: one of :data:`ENGINES`, or a plug-in, which is called with both.

    ``workers``: how many processes it starts; ``address``: of a cluster that is there.

    Raises:
        SettingsError: there is no such engine, or settings that do not go together.
        AnnotatorError: it is not installed, or cannot be reached.
    """
    if name in ENGINES:
        module: Any = import_module(f"annotator.runs.engines.{name}")
        make = module.make
    elif is_plugin("engines", name):
        make = load_plugin("engines", name).value
    else:
        raise SettingsError(f"--engine {name!r}: expected {', '.join(ENGINES)} or a plug-in")
    try:
        engine: Engine = make(workers, address)
    except (AnnotatorError, KeyboardInterrupt):
        raise
    except Exception as error:  # of a library that is not ours
        what = f"{type(error).__name__}: {one_line(str(error), 300)}"
        place = f" at {address}" if address else ""
        raise AnnotatorError(f"the engine {name}{place} cannot be used: {what}") from error
    return engine
