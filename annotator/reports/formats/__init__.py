"""The formats of tables: one file for each, and the registry of all.

A format is ``render(tables) -> text``. A new one is a file here and its line in :data:`FORMATS`, or
a callable that a plug-in enters there.
"""

from collections.abc import Callable, Sequence
from importlib import import_module

from annotator.errors import AnnotatorError
from annotator.reports.table import Table

Renderer = Callable[[Sequence[Table]], str]

# Name -> its module here, imported when it is asked for, or what renders it.
FORMATS: dict[str, str | Renderer] = {
    "table": "text",
    "csv": "csv",
    "json": "json",
    "md": "markdown",
    "latex": "latex",
}


def render(tables: Sequence[Table], format: str) -> str:
    """Return the tables of one report in a format.

    Raises:
        AnnotatorError: there is no such format.
    """
    if format not in FORMATS:
        raise AnnotatorError(f"there is no format {format!r} of tables, only {', '.join(FORMATS)}")
    renderer = FORMATS[format]
    if isinstance(renderer, str):
        renderer = import_module(f"{__name__}.{renderer}").render
    return renderer(tables)
