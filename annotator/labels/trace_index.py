"""The traces that labels are of, found by their record, their ids, or the names of their files."""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from annotator.labels.blinding import blind
from annotator.labels.model import ForeignLabel
from annotator.traces.discover import TraceRef


class TraceIndex:
    """The ids of some traces, to find those that labels are of.

    ``traces``: ids, or references; labels that lie in the own record of a referenced trace join by
    that record, and by the id in it. ``sources``: the files and folders that traces with ids come
    from. ``by_name``: how many labels joined by the name of a file that is none of the traces'.
    """

    def __init__(self, traces: Iterable[str | TraceRef], sources: Iterable[str] = ()) -> None:
        self.by_name = 0
        self._sources = tuple(map(_find_folder, sources))
        self._ids: set[str] = set()
        self._places: dict[str, str] = {}
        self._own_ids: dict[str, str] = {}
        names: dict[str, set[str]] = defaultdict(set)
        for trace in traces:
            if isinstance(trace, str):
                self._ids.add(trace)
                continue
            self._ids.add(trace.id)
            if trace.file and not trace.item and trace.records is None:
                self._places[name_record(trace.file, trace.number)] = trace.id
            if trace.document is not None and not trace.is_folder:
                own_id = trace.reader.identify(trace.document)
                if own_id and own_id != trace.id:
                    self._own_ids[trace.id] = own_id
                    names[own_id].add(trace.id)
            del trace  # it holds a document, and the next one is about to be read
        for trace_id in self._ids:
            ends = {_shorten(trace_id), _shorten(re.split(r"[/:]", trace_id)[-1])}
            for key in {*ends, blind(trace_id)}:
                names[key].add(trace_id)
        self._names = {name: min(ids) for name, ids in names.items() if len(ids) == 1}

    def find(self, label: ForeignLabel) -> str | None:
        """Return the id of the trace that a label is of; None if there is none, or several."""
        if (trace_id := self._places.get(label.path)) is not None:
            return trace_id
        if label.id in self._ids:
            return label.id
        for name in (label.id, _shorten(label.id)):
            if name in self._names:
                return self._names[name]
        paths = (path for path in _list_ends(label.path) if path in self._ids)
        if (trace_id := next(paths, None)) is None and label.path:
            trace_id = self._names.get(_shorten(PurePosixPath(label.path).name))
        # A file of the same name is another trace if the records' ids differ.
        has_id = label.id != PurePosixPath(label.path).name
        if trace_id is None or (has_id and self._own_ids.get(trace_id, label.id) != label.id):
            return None
        places = (name_record(f"{source}/{trace_id}") for source in self._sources)
        self.by_name += label.path not in (*self._sources, *places)
        return trace_id


def name_record(file: str, number: int = 0) -> str:
    """Return the place of a file, or of a record in it (from 1), whatever links lead there."""
    path = os.path.realpath(file)
    return f"{path}:{number}" if number else path


def _find_folder(source: str) -> str:
    """Return a file or a folder, or the folder in which a glob begins."""
    return name_record(re.split(r"/[^/]*[*?\[]", source)[0])


def _list_ends(path: str) -> Iterator[str]:
    parts = path.split("/")
    return ("/".join(parts[n:]) for n in range(1, len(parts)))


def _shorten(trace_id: str) -> str:
    return re.sub(r"\.(json|jsonl|traj|eval)$", "", trace_id.strip()).lower()
