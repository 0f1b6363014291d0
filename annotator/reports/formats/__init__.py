"""The formats of tables: one file for each, and the registry of all.

A format is ``render(tables) -> text``. A new one is a file here and its line in :data:`FORMATS`, or
a plug-in.
"""

from collections.abc import Sequence
from importlib import import_module

from annotator.base.errors import AnnotatorError
from annotator.base.plugins import is_plugin, load_plugin
from annotator.base.text import replace_surrogates
from annotator.reports.table import Table

# Name -> its module here, imported when it is asked for.
FORMATS = {
    "table": "text",
    "csv": "csv",
    "json": "json",
    "md": "markdown",
    "latex": "latex",
}


def render(tables: Sequence[Table], format: str) -> str:
    """Return the tables of one report in a format: one of :data:`FORMATS`, or a plug-in's.

    Raises:
        AnnotatorError: there is no such format, or the plug-in cannot be imported.
    """
    if format in FORMATS:
        return replace_surrogates(import_module(f"{__name__}.{FORMATS[format]}").render(tables))
    if not is_plugin("formats", format):
        raise AnnotatorError(f"there is no format {format!r} of tables, only {', '.join(FORMATS)}")
    return replace_surrogates(load_plugin("formats", format).value(tables))
