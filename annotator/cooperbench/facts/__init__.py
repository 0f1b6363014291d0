"""Facts: typed, deterministic observations drawn from a trace, each with its passages.

A group of facts is a table of its kinds and a function that draws them; it has one line in
``DRAWERS``. It may build on the facts of others.
"""

from annotator.cooperbench.facts import (
    assurances,
    claims,
    dialogue,
    orders,
    outcome,
    patches,
    truncation,
)
from annotator.cooperbench.facts.model import Fact, FactSpan
from annotator.cooperbench.facts.trace_facts import Drawer, TraceFacts
from annotator.traces import Trace

__all__ = ["DRAWERS", "KINDS", "Fact", "FactSpan", "TraceFacts", "draw_facts"]

DRAWERS: tuple[Drawer, ...] = (
    (dialogue.PROPOSALS, dialogue.draw_proposals),
    (claims.KINDS, claims.draw_claims),
    (assurances.KINDS, assurances.draw_assurances),
    (orders.KINDS, orders.draw_orders),
    (dialogue.QUESTIONS, dialogue.draw_questions),
    (patches.MEETINGS, patches.draw_meetings),
    (patches.CARRIED, patches.draw_carried_work),
    (patches.REPRESENTATIONS, patches.draw_representations),
    (patches.MERGES, patches.draw_merges),
    (outcome.KINDS, outcome.draw_outcome),
    (truncation.KINDS, truncation.draw_unread),
)

KINDS = {kind: meaning for kinds, _ in DRAWERS for kind, meaning in kinds.items()}
"""Every kind of fact and its meaning."""


def draw_facts(trace: Trace) -> TraceFacts:
    """Return the facts about a trace: of the conversation, the patches, the outcome."""
    return TraceFacts(trace, DRAWERS)
