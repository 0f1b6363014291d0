"""A second trace with an id that came already."""

from dataclasses import replace
from typing import Protocol

from annotator.traces.places import Unreadable


class _Named(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def path(self) -> str: ...


def reject_duplicate(item: _Named, trace_id: str) -> Unreadable:
    """Return the problem that a second trace of one id is, under an id of its own; what cannot be
    read anyway keeps its reason.
    """
    if isinstance(item, Unreadable):
        return replace(item, id=trace_id)
    reason = (
        f"a second trace with the id {item.id!r}; give each its own, or name one folder above both"
    )
    return Unreadable(trace_id, item.path, reason)
