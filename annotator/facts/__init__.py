"""Facts: typed, deterministic observations drawn from a trace, each with its passages.

:mod:`annotator.facts.registry` knows all of them.
"""

from annotator.facts.model import Fact, FactSpan

__all__ = ["Fact", "FactSpan"]
