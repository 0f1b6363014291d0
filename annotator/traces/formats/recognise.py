"""The formats that traces come in, and their readers.

A format of JSON documents is a module with these functions, or for a plug-in an object:

- ``matches(document)``: whether a document (a file, a record of a list in one, a line, a row) is of
  the format; asked of objects only, or of the types in ``documents``;
- ``read(document)``: the conversation in it; raises
  :class:`~annotator.base.errors.UnreadableTrace`. A plug-in's ``read(document, trace_id, path)``
  returns the trace;
- ``split(document)``, if a document holds several traces, or records of several: yields these;
- ``group(record)``, if many records make up a trace: the id that they share; "" for those of the
  file's one trace; None for a record that is a trace by itself. Then ``read`` gets a list of the
  records of one trace, in the order of the file;
- ``identify(document)``: the trace's own id, if not the record's ``id``, ``trace_id`` or the like.

For a folder of files it has ``owns``, ``claims`` and ``read``, as
:mod:`annotator.cooperbench.reader`. Other modules open, decompress, decode and group.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib import import_module
from typing import Any

from annotator.base.errors import AnnotatorError, UnreadableTrace
from annotator.base.plugins import Plugin, describe_error, is_plugin, list_plugins, load_plugin
from annotator.base.text import replace_surrogates
from annotator.traces.model import Trace, check_trace
from annotator.traces.records import find_record_id

# The first that recognises its own wins. A new format is a file of its name and a word here, or a
# plug-in.
_FOLDERS = {
    "cooperbench": "annotator.cooperbench.reader",
    "openhands-events": "annotator.traces.formats.openhands_events",
}
_NAMES = (
    *("mast", "magentic-one", "tau-bench", "swe-agent", "openhands", "atif", "inspect"),
    *("claude-code", "codex", "codex-exec", "opencode", "gemini-cli", "mlflow", "opentelemetry"),
    *("span-export", "span-tree", "marble", "agentbench", "openai-agents", "autogen", "langchain"),
    *("pydantic-ai", "google-adk", "crewai", "smolagents", "by-agent", "api-log", "generic"),
    "framework-log",
)
_DOCUMENTS = {"cooperbench-export": "annotator.cooperbench.export"} | {
    name: f"annotator.traces.formats.{name.replace('-', '_')}" for name in _NAMES
}
FORMATS = (*_FOLDERS, *_DOCUMENTS)

MAP_PREFIX = "map:"
"""Before the name of a file that maps the keys of records: a format of the user's own. A # in it is
written NUL, which no name has, since a pattern follows one."""


@dataclass(frozen=True, slots=True)
class Readers:
    """The readers of one ``--format``, their origin, and the pattern of agents' names."""

    folders: tuple[Any, ...] = ()
    documents: tuple[Any, ...] = ()
    origin: str | None = None
    agent_name: re.Pattern[str] | None = None


@lru_cache(maxsize=16)  # asked for at every place
def load_readers(format: str) -> Readers:
    """Return the readers that ``format`` names: ``auto``, a name of ``FORMATS``, ``map:FILE``, a
    plug-in's name, or ``module:name``; after a ``#`` a pattern for the names of agents.

    Raises:
        AnnotatorError: there is no such format, or its plug-in, map or pattern cannot be used.
    """
    base, _, pattern = format.partition("#")
    readers = _choose(base or "auto")
    try:
        return replace(readers, agent_name=re.compile(pattern)) if pattern else readers
    except (re.error, OverflowError, RecursionError) as error:
        raise AnnotatorError(f"--agent-name {pattern!r}: not a pattern: {error}") from error


class Reader:
    """The members that a format of JSON documents need not have."""

    documents: Any = dict
    split: Any = None
    takes_records_apart = False
    identify: Any = staticmethod(find_record_id)

    def group(self, record: Any) -> str | None:
        """Return the id that the records of one trace share; None for a trace by itself."""
        return None


class Format(Reader):
    """A built-in format of JSON documents: the members of its module, and its name."""

    def __init__(self, name: str) -> None:
        module = import_module(_DOCUMENTS[name])
        self.__dict__ |= {**vars(module), "name": name, "read": partial(_read, module, name)}


def _read(module: Any, name: str, document: Any, trace_id: str, path: str) -> Trace:
    trace: Trace = module.read(document).trace(name, trace_id, path)
    return trace


def list_document_formats() -> tuple[Any, ...]:
    """Return the built-in formats of JSON documents, in the order in which they are tried."""
    return load_readers("auto").documents


def _choose(format: str) -> Readers:
    if format == "auto" or format in FORMATS:
        folders = (import_module(_FOLDERS[name]) for name in _FOLDERS if format in ("auto", name))
        documents = (Format(name) for name in _DOCUMENTS if format in ("auto", name))
        return Readers(tuple(folders), tuple(documents))
    if format.startswith(MAP_PREFIX):
        from annotator.traces.map import load_map

        reader = load_map(format.removeprefix(MAP_PREFIX).replace("\0", "#"))
        return Readers(documents=(reader,), origin=reader.origin)
    if not is_plugin("readers", format):
        names = ", ".join((*FORMATS, *list_plugins("readers")))
        raise AnnotatorError(f"unknown format {format!r}: use auto, {names}")
    plugin = load_plugin("readers", format)
    return Readers(documents=(PluginReader(plugin),), origin=plugin.origin)


class PluginReader(Reader):
    """A reader from elsewhere: if it raises, the document is unreadable."""

    documents = object

    def __init__(self, plugin: Plugin) -> None:
        self._reader = plugin.make("matches", "read")
        self.name = plugin.name
        for member in {"matches", "split", "group", "identify"}.intersection(dir(self._reader)):
            setattr(self, member, partial(self._call, getattr(self._reader, member)))

    def read(self, document: Any, trace_id: str, path: str) -> Trace:
        """Return the trace in a document; raises UnreadableTrace."""
        return self._call(self._read, document, trace_id, path)  # type: ignore[no-any-return]

    def _read(self, document: Any, trace_id: str, path: str) -> Trace:
        trace: Trace = self._reader.read(document, trace_id, path)
        if problem := check_trace(trace):
            raise ValueError(problem)
        messages = (replace(item, text=replace_surrogates(item.text)) for item in trace.messages)
        return replace(
            trace,
            id=trace_id,
            messages=tuple(messages),
            patches={agent: replace_surrogates(patch) for agent, patch in trace.patches.items()},
            read_steps=partial(self._call, trace.read_steps),
            read_tasks=partial(self._call, trace.read_tasks),
        )

    def _call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return method(*arguments)
        except UnreadableTrace:
            raise
        except Exception as error:
            message = f"the reader {self.name!r} raised {describe_error(error)}"
            raise UnreadableTrace(message) from error


def find_reader(document: Any, format: str) -> Any | None:
    """Return the format that reads a document, or None. Raises UnreadableTrace."""
    for reader in load_readers(format).documents:
        if isinstance(document, reader.documents) and reader.matches(document):
            return reader
    return None


def split(reader: Any, document: Any) -> list[Any]:
    """Return the traces in a document, or the records of several traces; else the document."""
    if reader.split and isinstance(document, reader.documents) and reader.matches(document):
        return list(reader.split(document))
    return [document]
