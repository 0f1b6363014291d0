"""Facts: typed, deterministic observations drawn from a trace, each with its passages.

:mod:`annotator.cooperbench.facts.registry` knows all of them.
"""

from annotator.cooperbench.facts.model import Fact, FactSpan

__all__ = ["Fact", "FactSpan"]
