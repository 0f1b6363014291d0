"""The formats that traces come in, and what reads each."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from annotator.errors import AnnotatorError, UnreadableTrace
from annotator.plugins import Plugin, describe, is_plugin, load_plugin, plugin_names
from annotator.traces import cooperbench, export, generic
from annotator.traces.model import Trace

# Formats that are a folder of files, and formats that are one JSON document (a file, or a line of
# a JSONL file). The first that recognises its own wins. A new format is one file and one name here,
# or a plug-in.
FOLDER_FORMATS: tuple[Any, ...] = (cooperbench,)
DOCUMENT_FORMATS: tuple[Any, ...] = (export, generic)
FORMATS = tuple(module.name for module in (*FOLDER_FORMATS, *DOCUMENT_FORMATS))


@dataclass(frozen=True, slots=True)
class Readers:
    """What reads the formats that a name stands for. ``origin``: whose it is, of a plug-in."""

    folders: tuple[Any, ...] = ()
    documents: tuple[Any, ...] = ()
    origin: str | None = None


@lru_cache(maxsize=16)  # asked for at every place
def readers(format: str) -> Readers:
    """Return the readers that ``format`` names: ``auto`` (all built-in ones), a name of
    ``FORMATS``, a plug-in's name, or ``module:name``.

    Raises:
        AnnotatorError: there is no such format, or its plug-in cannot be used.
    """
    if format == "auto":
        return Readers(FOLDER_FORMATS, DOCUMENT_FORMATS)
    if format in FORMATS:
        return Readers(
            tuple(reader for reader in FOLDER_FORMATS if reader.name == format),
            tuple(reader for reader in DOCUMENT_FORMATS if reader.name == format),
        )
    if not is_plugin("readers", format):
        names = ", ".join((*FORMATS, *plugin_names("readers")))
        raise AnnotatorError(f"unknown format {format!r}: use auto, {names}")
    plugin = load_plugin("readers", format)
    return Readers(documents=(PluginReader(plugin),), origin=plugin.origin)


class PluginReader:
    """A reader that is not ours: whatever it raises makes the document unreadable, no more.

    It has ``matches(document)``, whether a JSON document is of its format, and
    ``read(document, trace_id, path)``, which returns the :class:`Trace` with this id or raises
    :class:`UnreadableTrace`.

    Raises:
        AnnotatorError: it lacks one of the two.
    """

    def __init__(self, plugin: Plugin) -> None:
        self._reader = plugin.make("matches", "read")
        self.name = plugin.name

    def matches(self, document: Any) -> bool:
        """Whether the reader says that a document is its own; raises UnreadableTrace."""
        try:
            return bool(self._reader.matches(document))
        except (Exception, SystemExit) as error:
            raise self._fault(error) from error

    def read(self, document: Any, trace_id: str, path: str) -> Trace:
        """Return the trace in a document; raises UnreadableTrace."""
        try:
            trace = self._reader.read(document, trace_id, path)
        except UnreadableTrace:
            raise
        except (Exception, SystemExit) as error:
            raise self._fault(error) from error
        if not isinstance(trace, Trace):
            kind = type(trace).__name__
            raise UnreadableTrace(f"the reader {self.name!r} returned {kind}, expected a Trace")
        if trace.id != trace_id:
            raise UnreadableTrace(
                f"the reader {self.name!r} returned the trace {trace.id!r} for {trace_id!r}"
            )
        return trace

    def _fault(self, error: BaseException) -> UnreadableTrace:
        return UnreadableTrace(f"the reader {self.name!r} raised {describe(error)}")
