"""Every module of facts.

A module is one file with ``KINDS`` and ``draw(facts)``, and one line of ``MODULES``. It may build
on the facts of others, which ``TraceFacts`` draws when they are asked for.
"""

from annotator.cooperbench.facts import (
    assurances,
    claims,
    duplication,
    merge,
    orders,
    outcome,
    patches,
    proposals,
    questions,
    representations,
    truncation,
)
from annotator.cooperbench.facts.trace_facts import TraceFacts
from annotator.traces import Trace

MODULES = (
    *(proposals, claims, assurances, orders, questions),
    *(patches, duplication, representations, merge, outcome, truncation),
)

KINDS = {kind: meaning for module in MODULES for kind, meaning in module.KINDS.items()}
"""Every kind of fact and its meaning."""


def draw_facts(trace: Trace) -> TraceFacts:
    """Return the facts about a trace: of the conversation, the patches, the outcome."""
    return TraceFacts(trace, MODULES)
