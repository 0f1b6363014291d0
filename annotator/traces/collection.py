"""Traces as a value: named by where they are, or held in memory, and read anew each time."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, Union

from annotator.traces.model import Trace
from annotator.traces.read import TraceOrProblem, exists, read_traces
from annotator.traces.shard import Listing, Shard

_OUTCOMES = {True: "passed", False: "failed", None: "unknown"}
TraceSource = Union[str, "os.PathLike[str]", Trace, Iterable["TraceSource"]]
"""A folder, file, glob or ``hf://org/name[:split]``, a trace, or any number of them."""


class Traces:
    """Traces of some sources, in their order. You can iterate them any number of times. One trace
    is in memory at a time. Traces that cannot be read are left out; :attr:`problems` lists them.

    ``redacted``: without addresses, keys and tokens (:mod:`annotator.traces.redaction`). With a
    ``shard`` only its traces are read, out of the first ``limit``; ``listing`` counts those of all
    shards.
    """

    def __init__(
        self,
        sources: Sequence[str | Trace],
        format: str = "auto",
        shard: Shard | None = None,
        redacted: bool = False,
        limit: int | None = None,
    ) -> None:
        self.sources = tuple(sources)
        self.format = format
        self.shard = shard
        self.redacted = redacted
        self.limit = limit
        self.listing = Listing()

    @property
    def places(self) -> tuple[str, ...]:
        """The sources that are no traces themselves."""
        return tuple(source for source in self.sources if isinstance(source, str))

    def find(self) -> Iterator[TraceOrProblem]:
        """Yield every trace, unreadable trace and ignored file. A second trace with an id is
        :class:`Unreadable`.

        Raises:
            AnnotatorError: as :func:`annotator.traces.read_traces`.
        """
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
        return self._counted[0]

    def __getitem__(self, n: int) -> Trace:
        """Return the n-th trace, from 0 (or from the end); reads those before it."""
        place = n if n >= 0 else len(self) + n
        if place >= 0:
            for trace in islice(iter(self), place, None):
                return trace
        raise IndexError(f"there is no trace {n}, only {len(self)}")

    @property
    def problems(self) -> list[str]:
        """What could not be read, or is no trace, and why, a line each."""
        return list(self._counted[1])

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
    def _counted(self) -> tuple[int, list[str]]:
        count, problems = 0, []
        for item in self.find():
            if isinstance(item, Trace):
                count += 1
            else:
                where = item.path or getattr(item, "id", "")
                problems.append(f"{where}: {item.reason}")
        return count, problems


def load_traces(
    *sources: TraceSource, format: str = "auto", shard: Shard | None = None, redact: bool = False
) -> Traces:
    """Return the traces of some sources: paths (``str`` or ``os.PathLike``), traces, or iterables
    of them; nothing is read yet. A bare string is one source. ``shard``: only those of one share.
    ``redact``: e-mail addresses, keys and tokens are covered in all texts, by as many characters.

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
            exists(os.fspath(source))
            yield os.fspath(source)
        elif isinstance(source, Iterable):
            yield from _flatten(source, redacted)
        else:
            kind = type(source).__name__
            raise TypeError(f"a source of traces is a path, a trace, or several; found {kind}")
