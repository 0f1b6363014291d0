"""The formats that traces come in."""

from types import ModuleType

from annotator.traces import cooperbench, export, generic

# Formats that are a folder of files, and formats that are one JSON document (a file, or a line of
# a JSONL file). The first that recognises its own wins. A new format is one file and one name here.
FOLDER_FORMATS: tuple[ModuleType, ...] = (cooperbench,)
DOCUMENT_FORMATS: tuple[ModuleType, ...] = (export, generic)
FORMATS = tuple(module.name for module in (*FOLDER_FORMATS, *DOCUMENT_FORMATS))
