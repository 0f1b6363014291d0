"""The formats that traces come in, and what reads each."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from annotator.errors import AnnotatorError
from annotator.plugins import is_plugin, load_plugin, plugin_names
from annotator.traces import cooperbench, cooperbench_export, generic

# Formats that are a folder of files, and formats that are one JSON document (a file, or a line of
# a JSONL file). The first that recognises its own wins. A new format is one file and one name here,
# or a plug-in.
FOLDER_FORMATS: tuple[Any, ...] = (cooperbench,)
DOCUMENT_FORMATS: tuple[Any, ...] = (cooperbench_export, generic)
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
    from annotator.traces.plugin import PluginReader

    plugin = load_plugin("readers", format)
    return Readers(documents=(PluginReader(plugin),), origin=plugin.origin)
