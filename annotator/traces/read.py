"""Traces, read from where they are: in order, by id, or as a value that can be read again."""

import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Union

from annotator.base.errors import UnreadableTrace
from annotator.base.files import explain_unreadable, open_checked
from annotator.base.plugins import describe_error
from annotator.base.remote import is_hub, localize
from annotator.base.text import replace_surrogates
from annotator.traces.discover import (
    Ignored,
    TraceRef,
    Unreadable,
    discover,
    find_files,
    index_records,
    list_folder,
    open_records,
    stamp_file,
)
from annotator.traces.files import JsonLines, has_lines_suffix
from annotator.traces.formats.recognise import load_readers, split
from annotator.traces.model import Trace
from annotator.traces.shard import Listing, Shard

TraceOrProblem = Trace | Unreadable | Ignored
"""A trace, a trace that cannot be read, or a file without traces."""

TraceSource = Union[str, "os.PathLike[str]", Trace, Iterable["TraceSource"]]
"""A folder, file, glob or ``hf://org/name[:split]``, a trace, or any number of them."""

_WRITE = 'Path("traces.jsonl").write_text("\\n".join(map(json.dumps, records)))'
_WRITING = {  # by the library of a table
    "pandas": 'frame.to_json("traces.jsonl", orient="records", lines=True)',
    "datasets": 'dataset.to_json("traces.jsonl")',
}
_OUTCOMES = {True: "passed", False: "failed", None: "unknown"}
# The details in which problems of one type differ: numbers, quoted values, names of files.
_DETAILS = re.compile(r"'[^']*'|\"[^\"]*\"|[\w./-]*\.[a-zA-Z]{2,8}\b|\d+")


def read_traces(
    sources: TraceSource, format: str = "auto", *, keep: Callable[[str, bool], bool] | None = None
) -> Iterator[TraceOrProblem]:
    """Yield every trace below ``sources``, one in memory at a time, in their order, then by path.

    A trace among the sources is yielded as it is, a second one with an id as :class:`Unreadable`.
    Trace ids are: the path below the folder named ``logs`` for run folders; else, for a file with
    one trace, its path below the given folder; else the record's own id, or ``file:line``.

    Args:
        sources: folders, files, globs, their URLs, ``hf://org/name[:split]``, and traces.
        format: a name of ``FORMATS``, ``auto``, or a plug-in's name or ``module:name``.
        keep: called with the id of a trace and True before it is read, or with the path of an
            ignored file and False; if it returns False, that is not yielded.

    Raises:
        AnnotatorError: a source does not exist, ``format`` is unknown, or its plug-in is broken.
    """
    for ref in discover(tuple(_flatten([sources], [])), format):
        name, is_trace = (ref.path, False) if isinstance(ref, Ignored) else (ref.id, True)
        if keep and not keep(name, is_trace):
            continue
        yield read_trace(ref, format) if isinstance(ref, TraceRef) else ref
        del ref  # it holds a document, and the next one is about to be read


def read_trace(ref: TraceRef, format: str) -> Trace | Unreadable:
    """Return a discovered trace as it is now; :class:`Unreadable` if its file has changed."""
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
    try:
        names = ref.document or list_folder(ref.file)
    except OSError as error:
        raise UnreadableTrace(f"folder: {error.strerror or error}") from error
    if ref.document is None and not ref.reader.claims(Path(ref.file).name, names.files):
        raise UnreadableTrace("folder: there is no run in it any more")
    trace: Trace = ref.reader.read(ref.file, names.files | names.folders, ref.id)
    return trace if trace.path == ref.path else replace(trace, path=ref.path)


def _load(ref: TraceRef, format: str) -> Any:
    """Return the document of a trace, or the list of its records."""
    if stamp_file(ref.file) != ref.stamp:
        reason = "changed since it was listed, or gone; start again"
        raise UnreadableTrace(f"{Path(ref.file).name}: {reason}")
    if ref.records is None:
        contents, _ = open_records(ref.file, ref.stamp, format)
        document = contents.at(ref.number or 1, ref.offset)
        return split(ref.reader, document)[ref.item - 1] if ref.item else document
    index = index_records(ref.file, ref.stamp, ref.reader, format)
    records = []
    for n, offset in zip(ref.records[::2], ref.records[1::2], strict=True):
        items = split(ref.reader, index.at(n, offset))
        records += [item for item in items if not ref.key or ref.reader.group(item) == ref.key]
    return records


def _rename_agents(trace: Trace, pattern: re.Pattern[str] | None) -> Trace:
    """Return a trace whose agents have the pattern's first group, or match, of their names."""
    if pattern is None:
        return trace

    def rename(name: str) -> str:
        match = pattern.search(name)
        return (match[1] if pattern.groups else match[0]) or name if match else name

    messages = tuple(
        replace(item, sender=rename(item.sender), recipients=tuple(map(rename, item.recipients)))
        for item in trace.messages
    )
    ends = tuple(replace(end, agent=rename(end.agent)) for end in trace.outcome.agents)
    return replace(trace, messages=messages, outcome=replace(trace.outcome, agents=ends))


# --- sources


def check_exists(source: str) -> None:
    """Raise :class:`AnnotatorError` if nothing has that name; changed URLs are fetched."""
    if not is_hub(source):
        localize(source, again=True)
        next(find_files(source), None)


def check_source(source: str) -> None:
    """Raise :class:`AnnotatorError` if a source does not exist or cannot be read, like a pipe."""
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
    """Return roughly how many traces :func:`read_traces` will yield; it opens only JSONL."""
    total = 0
    for source in sources:
        for ref in () if is_hub(source) else find_files(source, format):
            if isinstance(ref, TraceRef) and not ref.is_folder and has_lines_suffix(ref.file):
                with suppress(UnreadableTrace):
                    total += sum(1 for _ in JsonLines(ref.file, "", seekable=False).records())
            else:
                total += not isinstance(ref, Ignored)
    return total


class ProblemKinds:
    """Problems of traces by type, in order, each with its first example."""

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[str, int]] = {}

    def add(self, where: str, reason: str) -> None:
        """Count a problem of the trace or file at ``where``."""
        kind = _DETAILS.sub("", reason)
        example, n = self._kinds.get(kind, (replace_surrogates(f"{where}: {reason}"), 0))
        self._kinds[kind] = example, n + 1

    def __len__(self) -> int:
        return len(self._kinds)

    def __iter__(self) -> Iterator[str]:
        """Yield a line for each type: its first example, and how many more there are."""
        for example, n in self._kinds.values():
            yield example if n == 1 else f"{example} (and {n - 1} more like it)"


# --- traces as a value, and by id


@dataclass(eq=False)
class Traces:
    """Traces of some sources, in their order, any number of times. One is in memory at a time.

    Traces that cannot be read are left out; :attr:`problems` lists them. ``redacted``: without
    addresses, keys and tokens (:mod:`annotator.traces.redaction`). With a ``shard`` only its traces
    are read, out of the first ``limit``; ``listing`` counts those of all shards.
    """

    sources: Sequence[str | Trace]
    format: str = "auto"
    shard: Shard | None = None
    redacted: bool = False
    limit: int | None = None
    listing: Listing = field(default_factory=Listing, init=False)

    @property
    def places(self) -> tuple[str, ...]:
        """The sources that are no traces themselves."""
        return tuple(source for source in self.sources if isinstance(source, str))

    def find(self) -> Iterator[TraceOrProblem]:
        """Yield every trace, unreadable trace and ignored file, as :func:`read_traces` does."""
        self.listing = Listing()
        keep = self._keeps if self.shard else None
        items = read_traces(self.sources, self.format, keep=keep)
        if not self.redacted:
            return items
        from annotator.traces.redaction import redact

        return (redact(item) if isinstance(item, Trace) else item for item in items)

    def _keeps(self, name: str, is_trace: bool) -> bool:
        if is_trace:
            self.listing.add(name)
            if self.limit and self.listing.traces > self.limit:
                return False
        return not self.shard or self.shard.has(name)

    def __iter__(self) -> Iterator[Trace]:
        return (item for item in self.find() if isinstance(item, Trace))

    def __len__(self) -> int:
        return self._totals[0]

    def __getitem__(self, n: int) -> Trace:
        """Return the n-th trace, from 0 (or from the end); reads those before it."""
        index = n if n >= 0 else len(self) + n
        if index >= 0:
            for trace in islice(iter(self), index, None):
                return trace
        raise IndexError(f"there is no trace {n}, only {len(self)}")

    @property
    def problems(self) -> list[str]:
        """A line for each unreadable trace and each ignored file: where and why."""
        return list(self._totals[1])

    def summary(self) -> dict[str, Any]:
        """Return how many traces there are, by format, setting and outcome, and their messages."""
        formats, settings, outcomes = Counter[str](), Counter[str](), Counter[str]()
        messages = 0
        for trace in self:
            formats[trace.format] += 1
            settings[str(trace.attributes.get("setting") or "-")] += 1
            outcomes[_OUTCOMES[trace.outcome.passed]] += 1
            messages += len(trace.messages)
        return {
            "traces": formats.total(),
            "formats": dict(formats),
            "settings": dict(settings),
            "outcomes": dict(outcomes),
            "messages": messages,
            "problems": len(self.problems),
        }

    @cached_property
    def _totals(self) -> tuple[int, list[str]]:
        """The number of traces, and the problems."""
        count, problems = 0, []
        for item in self.find():
            if isinstance(item, Trace):
                count += 1
            else:
                problems.append(f"{item.path or getattr(item, 'id', '')}: {item.reason}")
        return count, problems


def load_traces(
    *sources: TraceSource, format: str = "auto", shard: Shard | None = None, redact: bool = False
) -> Traces:
    """Return the traces of some sources: paths, traces, or iterables of them; nothing is read yet.

    ``shard``: only those of one share. ``redact``: e-mail addresses, keys and tokens are covered in
    all texts, by as many characters.

    Raises:
        AnnotatorError: a source does not exist.
        TypeError: a source is none of these.
    """
    redacted = [redact]
    return Traces(tuple(_flatten(sources, redacted)), format, shard, any(redacted))


def _flatten(sources: Iterable[TraceSource], redacted: list[bool]) -> Iterator[str | Trace]:
    for source in sources:
        if isinstance(source, Trace):
            yield source
        elif isinstance(source, Traces):
            redacted.append(source.redacted)
            yield from source.sources
        elif isinstance(source, (str, os.PathLike)):
            check_exists(os.fspath(source))
            yield os.fspath(source)
        elif (
            not isinstance(source, Iterable)
            or isinstance(source, (Mapping, bytes))
            or hasattr(source, "columns")
            or hasattr(source, "column_names")
        ):
            raise TypeError(
                "a source of traces is a path, a trace, or several; found"
                f" {type(source).__name__}. Write the records to a file, then read it:\n"
                f"    {_WRITING.get(type(source).__module__.partition('.')[0], _WRITE)}\n"
                '    load_traces("traces.jsonl")'
            )
        else:
            yield from _flatten(source, redacted)


class Library:
    """All traces below some sources, by id; safe to use from any number of threads.

    The sources are listed once, only as far as a request needs; some 350 bytes a trace are kept.
    """

    def __init__(self, sources: Sequence[str], format: str = "auto") -> None:
        self._sources = tuple(sources)
        self._format = format
        self._listing = discover(self._sources, format)
        self._refs: dict[str, TraceRef | Unreadable] = {}
        self._ids: list[str] = []
        self._lock = threading.Lock()

    def trace(self, trace_id: str) -> Trace | Unreadable | None:
        """Return the trace with this id as :func:`read_traces` yields it; None if there is none.

        A trace that is gone, or whose file has changed, is :class:`Unreadable`.
        """
        ref = None
        while trace_id not in self._refs and (ref := self._next()):
            if ref.id == trace_id:
                break
        else:
            ref = self._refs.get(trace_id)
        return read_trace(ref, self._format) if isinstance(ref, TraceRef) else ref

    def ids(self) -> Iterator[str]:
        """Yield every id once, in the order of :func:`read_traces`, listing as it goes."""
        n = 0
        while n < len(self._ids) or self._next():
            yield self._ids[n]
            n += 1

    def __iter__(self) -> Iterator[TraceOrProblem]:
        """Yield as :func:`read_traces` does, listing as it goes: a trace is found at once then."""
        for trace_id in list(self._ids):
            if listed := self.trace(trace_id):
                yield listed
        while ref := self._next():
            trace = read_trace(ref, self._format) if isinstance(ref, TraceRef) else ref
            del ref  # it holds a document, and the next one is about to be read
            yield trace

    def _next(self) -> TraceRef | Unreadable | None:
        """Return the next trace of the listing, None at the end."""
        with self._lock:
            try:
                for ref in self._listing:
                    if not isinstance(ref, Ignored) and ref.id not in self._refs:
                        kept = replace(ref, document=None) if isinstance(ref, TraceRef) else ref
                        self._refs[ref.id] = kept
                        self._ids.append(ref.id)
                        return ref
            except Exception:
                self._listing = discover(self._sources, self._format)  # the same error next time
                raise
        return None
