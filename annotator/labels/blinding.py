"""Blinded trace ids for people who label: a trace's own id may name its model or condition."""

import hashlib
import re
from collections.abc import Callable, Iterable

_BLINDED = re.compile(r"trace-[0-9a-f]{12}")


def blind(trace_id: str) -> str:
    """Return an id that tells nothing of the trace: ``trace-`` and the start of a hash."""
    digest = hashlib.sha256(trace_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"trace-{digest[:12]}"


def make_unblind(trace_ids: Iterable[str]) -> Callable[[str], str]:
    """Return a function that gives the trace's own id for a blinded one.

    ``trace_ids`` are read as far as needed. Any other id is returned as it is.
    """
    rest, own_ids = iter(trace_ids), dict[str, str]()

    def unblind(trace_id: str) -> str:
        while _BLINDED.fullmatch(trace_id) and trace_id not in own_ids:
            own_id = next(rest, None)
            if own_id is None:
                break
            own_ids[blind(own_id)] = own_id
        return own_ids.get(trace_id, trace_id)

    return unblind
