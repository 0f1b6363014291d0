"""The sources and the early ends of commands that judge the same traces in several ways."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from annotator import api
from annotator.base.errors import BudgetReached, Interrupted
from annotator.traces import Traces, check_exists, load_traces

if TYPE_CHECKING:
    from annotator import Run


def open_sources(sources: tuple[str, ...], format_: str) -> "tuple[Traces, Run | None]":
    """Return traces; of one run directory those that it judged, and the run."""
    for source in sources:
        check_exists(source)
    if len(sources) == 1 and api.is_run(sources[0]):
        return api.open_traces(sources[0])
    return load_traces(*sources, format=format_), None


@contextmanager
def explain_stop() -> Iterator[None]:
    """Say how to go on, in the error of a block that stops early."""
    try:
        yield
    except BudgetReached as error:
        raise BudgetReached(
            f"{error}; earlier runs count, too; go on with --resume and a larger one"
        ) from error
    except Interrupted as error:
        raise Interrupted(f"{error}; go on with the same command and --resume") from None
