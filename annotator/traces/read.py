"""Traces, one at a time: read from where they are."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.base.plugins import describe_error
from annotator.base.regular import explain_unreadable, open_checked
from annotator.base.remote import is_hub, localize
from annotator.base.text import replace_surrogates
from annotator.traces.contents import Document, JsonLines, has_lines_suffix, open_contents
from annotator.traces.discover import (
    Ignored,
    TraceRef,
    Unreadable,
    discover,
    find_files,
    index_records,
    list_folder,
    stamp_file,
)
from annotator.traces.formats import group, load_readers, split
from annotator.traces.model import Trace

TraceOrProblem = Trace | Unreadable | Ignored
"""A trace, a trace that cannot be read, or a file that holds none."""

# What differs between problems of one kind: numbers, quoted values, names of files.
_PARTICULAR = re.compile(r"'[^']*'|\"[^\"]*\"|[\w./-]*\.[a-zA-Z]{2,8}\b|\d+")


def read_traces(
    sources: Sequence[str | Trace],
    format: str = "auto",
    *,
    keep: Callable[[str, bool], bool] | None = None,
) -> Iterator[TraceOrProblem]:
    """Yield every trace below ``sources``: folders, files, globs, their URLs (``s3://...``), or
    ``hf://org/name[:split]``. A trace among the sources is yielded as it is.

    One trace is in memory at a time. The order is that of the sources, then of the paths. A second
    trace with an id already seen is yielded as :class:`Unreadable`. Trace ids are: the path below
    the folder named ``logs`` for run folders; else, for a file with one trace, its path below the
    given folder; else the record's own id (``file:line`` if it has none).

    Args:
        sources: what the user named; at least one.
        format: a name of ``FORMATS``, ``auto`` to recognise each folder and file, or a plug-in: its
            name, or ``module:name``.
        keep: called before a trace is read, with its id and True, or with the path of a file that
            is no trace and False. Only where it returns True is the trace or file yielded.

    Raises:
        AnnotatorError: a source does not exist, ``format`` is unknown, or its plug-in is broken.
    """
    for ref in discover(sources, format):
        name, is_trace = (ref.path, False) if isinstance(ref, Ignored) else (ref.id, True)
        if keep and not keep(name, is_trace):
            continue
        yield read_trace(ref, format) if isinstance(ref, TraceRef) else ref
        del ref  # it holds a document, and the next one is about to be read


def read_trace(ref: TraceRef, format: str) -> Trace | Unreadable:
    """Return a trace that :func:`~annotator.traces.discover.discover` found, as it is now.

    A file that has changed since, and a trace that is gone, are :class:`Unreadable`.

    Raises:
        AnnotatorError: a data set of the hub cannot be loaded.
    """
    if isinstance(ref.document, Trace):
        return ref.document
    try:
        if ref.is_folder:
            trace = _read_folder(ref)
        else:
            document = _load(ref, format) if ref.document is None else ref.document
            trace = ref.reader.read(document, ref.id, ref.path)
        trace = _rename_agents(trace, load_readers(format).agent_name)
    except UnreadableTrace as error:
        return Unreadable(ref.id, ref.path, str(error))
    except RecursionError:
        return Unreadable(ref.id, ref.path, "nested too deeply to be read")
    except Exception as error:  # a reader's own mistake costs this trace and no other
        reason = f"its reader failed: {describe_error(error)}; please report it"
        return Unreadable(ref.id, ref.path, reason)
    return replace(trace, problems=(*trace.problems, ref.problem)) if ref.problem else trace


def _read_folder(ref: TraceRef) -> Trace:
    names = ref.document
    if names is None:
        try:
            names = list_folder(ref.file)
        except OSError as error:
            raise UnreadableTrace(f"folder: {error.strerror or error}") from error
        if not ref.reader.claims(Path(ref.file).name, names.files):
            raise UnreadableTrace("folder: there is no run in it any more")
    trace: Trace = ref.reader.read(ref.file, names.files | names.folders, ref.id)
    return trace if trace.path == ref.path else replace(trace, path=ref.path)


def _load(ref: TraceRef, format: str) -> Any:
    """Return the document of a trace, or the list of its records."""
    if stamp_file(ref.file) != ref.stamp:
        changed = "changed since it was listed, or gone; start again"
        raise UnreadableTrace(f"{Path(ref.file).name}: {changed}")
    if ref.records is None:
        contents = open_contents(ref.file)
        if isinstance(contents, Document):
            document = _load_whole(contents, ref.stamp)
            document = document[ref.number - 1] if ref.number else document
        else:
            document = contents.at(ref.number, ref.offset)
        return split(ref.reader, document)[ref.item - 1] if ref.item else document
    held = index_records(ref.file, ref.stamp, ref.reader, format)
    records = []
    for n, offset in zip(ref.records[::2], ref.records[1::2], strict=True):
        items = split(ref.reader, held.at(n, offset))
        records += [item for item in items if not ref.key or group(ref.reader, item) == ref.key]
    return records


@lru_cache(maxsize=1)  # its records are asked for one after another
def _load_whole(contents: Document, _: tuple[int, int] | None) -> Any:
    """Return the document in a file that has this stamp."""
    return contents.load()


def _rename_agents(trace: Trace, pattern: re.Pattern[str] | None) -> Trace:
    """Return a trace whose agents are called by what the pattern finds in their names: its first
    group, else all of it. A name in which it finds nothing stays.
    """
    if pattern is None:
        return trace

    def rename(name: str) -> str:
        match = pattern.search(name)
        return (match[1] if pattern.groups else match[0]) or name if match else name

    messages = tuple(
        replace(
            message,
            sender=rename(message.sender),
            recipients=tuple(map(rename, message.recipients)),
        )
        for message in trace.messages
    )
    ends = tuple(replace(end, agent=rename(end.agent)) for end in trace.outcome.agents)
    return replace(trace, messages=messages, outcome=replace(trace.outcome, agents=ends))


def check_exists(source: str) -> None:
    """Raise :class:`AnnotatorError` if nothing has that name. Names of the hub are not looked up.
    A URL is fetched if its files have changed.
    """
    if not is_hub(source):
        localize(source, again=True)
        next(find_files(source), None)


def check_source(source: str) -> None:
    """Raise :class:`AnnotatorError` if a source does not exist or cannot be read: a pipe, a device,
    a folder that may not be listed.
    """
    check_exists(source)
    path = localize(source)
    if is_hub(source) or not os.path.lexists(path):  # a glob
        return
    with explain_unreadable(source):
        if path.is_dir():
            os.scandir(path).close()
        else:
            open_checked(path).close()


def count_traces(sources: Sequence[str], format: str = "auto") -> int:
    """Return how many traces :func:`read_traces` will find, roughly and cheaply.

    It counts run folders, JSON files and lines of JSONL files, and opens nothing else.
    """
    total = 0
    for source in sources:
        for ref in () if is_hub(source) else find_files(source, format):
            if isinstance(ref, TraceRef) and not ref.is_folder and has_lines_suffix(ref.file):
                with suppress(UnreadableTrace):
                    total += sum(1 for _ in JsonLines(ref.file, "", seekable=False).records())
            elif not isinstance(ref, Ignored):
                total += 1
    return total


class ProblemKinds:
    """Problems of traces by kind, in the order in which they come, each with its first example."""

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[str, int]] = {}

    def add(self, where: str, reason: str) -> None:
        """Count a problem of the trace or file at ``where``."""
        kind = _PARTICULAR.sub("", reason)
        example, n = self._kinds.get(kind, (replace_surrogates(f"{where}: {reason}"), 0))
        self._kinds[kind] = example, n + 1

    def __len__(self) -> int:
        return len(self._kinds)

    def __iter__(self) -> Iterator[str]:
        """Yield a line for each kind: its first example, and how many more there are."""
        for example, n in self._kinds.values():
            yield example if n == 1 else f"{example} (and {n - 1} more like it)"
