"""What a three-way merge of every two agents' patches gives, by the patches alone."""

from collections.abc import Iterator, Mapping
from itertools import combinations

from annotator.base.text import sanitize_line
from annotator.cooperbench.facts.model import Fact
from annotator.cooperbench.facts.patches import patches_conflict, read_patches
from annotator.cooperbench.facts.trace_facts import TraceFacts
from annotator.cooperbench.patches.diff import Patch

KINDS: Mapping[str, str] = {
    "merge_simulated": "what merging two patches gives, by the patches alone",
}

_CLEAN = ("clean", "identical")


def draw(facts: TraceFacts) -> Iterator[Fact]:
    """Yield, for every two patches, whether git's three-way merge has conflicts.

    It has where both change base lines that overlap or follow each other, in different ways. It is
    not known where a patch was not read in full, has a hunk with other lines than its header says,
    or where both change a binary file; renames that a patch does not state are not looked for.
    """
    reported = facts.trace.outcome.merge
    patches = read_patches(facts.trace)
    for (agent, ours), (partner, theirs) in combinations(patches.items(), 2):
        result = _simulate(ours, theirs)
        pair = f"{sanitize_line(agent, 80)}'s and {sanitize_line(partner, 80)}'s patches"
        says = {
            "clean": f"{pair} merge without a conflict.",
            "conflicts": f"{pair} merge with conflicts.",
            "identical": f"{pair} are identical.",
            "not known": f"Whether {pair} merge without a conflict is not known.",
        }[result]
        # What is reported is said of these two if there are no others.
        agrees = None
        if len(facts.trace.patches) == 2 and reported in (*_CLEAN, "conflicts"):
            agrees = None if result == "not known" else (result in _CLEAN) == (reported in _CLEAN)
            if reported == "identical" and not agrees:  # a harness compares without the tests
                agrees = None
        about = {"merge": result, "reported": reported, "agrees": agrees}
        yield Fact("merge_simulated", says, (agent, partner), (), about)


def _simulate(ours: Patch, theirs: Patch) -> str:
    if ours.files and ours.text.strip() == theirs.text.strip():
        return "identical"
    if patches_conflict(ours, theirs):
        return "conflicts"
    binary = [{file.path for file in side.files if file.binary} for side in (ours, theirs)]
    hunks = [hunk for side in (ours, theirs) for file in side.files for hunk in file.hunks]
    whole = all(hunk.whole for hunk in hunks) and not (ours.unread or theirs.unread)
    return "clean" if whole and binary[0].isdisjoint(binary[1]) else "not known"
