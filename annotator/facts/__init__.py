"""Facts: typed, deterministic observations drawn from a trace, each with its passages.

A module of facts is one file with ``KINDS`` and ``facts(trace)``, and one line of ``MODULES``.
"""

from collections.abc import Iterator

from annotator.facts import conflicts as conflicts
from annotator.facts import conversation as conversation
from annotator.facts import outcome as outcome
from annotator.facts import patches as patches
from annotator.facts import symbols as symbols
from annotator.facts.model import Fact, Span
from annotator.traces import Trace

__all__ = ["KINDS", "Fact", "Span", "facts"]

MODULES = (conversation, patches, symbols, conflicts, outcome)

KINDS = {kind: meaning for module in MODULES for kind, meaning in module.KINDS.items()}
"""Every kind of fact and its meaning."""


def facts(trace: Trace) -> Iterator[Fact]:
    """Yield all facts about a trace: the conversation, the patches, the outcome."""
    for module in MODULES:
        yield from module.facts(trace)
