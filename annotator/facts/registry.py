"""Every module of facts.

A module is one file with ``KINDS`` and ``facts(known)``, and one line of ``MODULES``. It may build
on the facts of others, which :class:`~annotator.facts.known.Known` draws when they are asked for.
"""

from annotator.facts import (
    assurances,
    carried,
    claims,
    conversation,
    merging,
    orders,
    outcome,
    patches,
    questions,
    representations,
    unread,
)
from annotator.facts.known import Known
from annotator.traces import Trace

MODULES = (
    *(conversation, claims, assurances, orders, questions),
    *(patches, carried, representations, merging, outcome, unread),
)

KINDS = {kind: meaning for module in MODULES for kind, meaning in module.KINDS.items()}
"""Every kind of fact and its meaning."""


def know(trace: Trace) -> Known:
    """Return the facts about a trace: of the conversation, the patches, the outcome."""
    return Known(trace, MODULES)
