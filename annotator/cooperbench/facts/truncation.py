"""Facts of truncation: malformed parts of patches, and test outputs that are too long."""

from collections.abc import Iterator, Mapping

from annotator.base.text import format_count, sanitize_line
from annotator.cooperbench.facts.model import Fact
from annotator.cooperbench.facts.outcome import MOST_OUTPUT
from annotator.cooperbench.facts.patches import read_patches
from annotator.cooperbench.facts.trace_facts import TraceFacts

KINDS: Mapping[str, str] = {"not_read": "text that was too long to be looked at"}


def draw_unread(facts: TraceFacts) -> Iterator[Fact]:
    """Yield a fact for each patch and test output that was not read in full."""
    for agent, patch in read_patches(facts.trace).items():
        if patch.unread:
            size, source = format_count(patch.unread, "character"), f"patch:{agent}"
            about = {"source": source, "characters": patch.unread}
            says = f"{size} of {sanitize_line(source, 80)} were not read."
            yield Fact("not_read", says, (agent,), (), about)
    for feature in facts.trace.outcome.features:
        if (skipped := len(feature.output) - MOST_OUTPUT) > 0:
            size, agents = format_count(skipped, "character"), (feature.agent or "",)
            says = f"The first {size} of a test output were not looked at."
            about = {"source": "outcome", "characters": skipped}
            yield Fact("not_read", says, tuple(filter(None, agents)), (), about)
