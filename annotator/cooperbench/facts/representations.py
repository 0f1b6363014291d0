"""Where two patches give one class or function incompatible forms."""

from collections.abc import Iterator, Mapping
from itertools import combinations, islice

from annotator.base.text import sanitize_line
from annotator.cooperbench.facts.model import Fact, FactSpan, format_agent
from annotator.cooperbench.facts.patches import quote_lines, read_patches
from annotator.cooperbench.facts.trace_facts import TraceFacts
from annotator.cooperbench.patches.diff import Hunk, Patch
from annotator.cooperbench.patches.representations import Use, find_representation_conflicts

KINDS: Mapping[str, str] = {
    "representation_conflict": "two patches give one class or function incompatible forms",
}

MOST_CONFLICTS = 50  # of two patches that get a fact each


def draw(facts: TraceFacts) -> Iterator[Fact]:
    """Yield the conflicts of representation of every two patches: of Python, at most 50 each."""
    patches = read_patches(facts.trace)
    for agent, partner in combinations(patches, 2):
        ours, theirs = patches[agent], patches[partner]
        for conflict in islice(find_representation_conflicts(ours, theirs), MOST_CONFLICTS):
            what = f"{conflict.scope}.{conflict.name}" if conflict.scope else conflict.name
            says = (
                f"{sanitize_line(what, 120)} in {sanitize_line(conflict.path, 200)}:"
                f" {format_agent(agent)}'s "
                f"patch has {sanitize_line(conflict.ours.says, 120)}, {format_agent(partner)}'s "
                f"{sanitize_line(conflict.theirs.says, 120)}."
            )
            spans = _span_of(agent, ours, conflict.ours), _span_of(partner, theirs, conflict.theirs)
            names = (*conflict.name.split(" / "), conflict.scope.rpartition(".")[2])
            about = {
                "conflict": conflict.kind, "path": conflict.path,
                "names": [name for name in names if name],
            }  # fmt: skip
            yield Fact("representation_conflict", says, (agent, partner), spans, about)


def _span_of(agent: str, patch: Patch, use: Use) -> FactSpan:
    return quote_lines(f"patch:{agent}", patch.text, use.lines, _hunk_of(patch, use))


def _hunk_of(patch: Patch, use: Use) -> Hunk:
    """Return the hunk that shows a use."""
    hunks = (hunk for file in patch.files for hunk in file.hunks)
    return next(hunk for hunk in hunks if hunk.lines[-1].end >= use.lines[0].start)
