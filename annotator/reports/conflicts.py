"""Conflicts of representation in pairs of patches, and how many pairs have one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import get_args

from annotator.cooperbench.patches.diff import Patch
from annotator.cooperbench.patches.fragments import PatchTexts
from annotator.cooperbench.patches.representations import Kind, Use, find_representation_conflicts
from annotator.traces.clusters import name_lone_cluster
from validation import Estimate, estimate_clustered_share

KINDS: tuple[str, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class PatchUse:
    """How one patch uses a thing, and the lines that show it, each with its number in the patch."""

    patch: str
    says: str
    lines: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class PatchConflict:
    """One thing that two patches represent in incompatible ways. ``name`` includes its class."""

    kind: str
    path: str
    name: str
    uses: tuple[PatchUse, PatchUse]


@dataclass(frozen=True, slots=True)
class PatchPair:
    """Two patches of one trace (of none: ``trace_id`` is empty) and their conflicts.

    ``uncounted``: why the pair is in no share, or None. ``value``: that of the attribute to group
    by.
    """

    trace_id: str
    patches: tuple[str, str]
    conflicts: tuple[PatchConflict, ...]
    uncounted: str | None
    task: str | None = None
    value: str | None = None


@dataclass(frozen=True, slots=True)
class PairCounts:
    """All pairs of patches of some traces. ``alone``: traces with fewer than two patches.

    ``missing``: traces of a run that are not where it read them.
    """

    pairs: tuple[PatchPair, ...]
    traces: int = 0
    alone: int = 0
    unreadable: int = 0
    missing: int = 0
    by: str | None = None
    cluster: tuple[str, ...] = ()


def compare_patches(
    patches: Sequence[tuple[str, Patch]],
    trace_id: str = "",
    task: str | None = None,
    value: str | None = None,
) -> Iterator[PatchPair]:
    """Yield every two of some named patches with their conflicts."""
    for (ours, first), (theirs, second) in combinations(patches, 2):
        conflicts = [
            PatchConflict(
                conflict.kind,
                conflict.path,
                f"{conflict.scope}.{conflict.name}" if conflict.scope else conflict.name,
                (
                    _describe_use(ours, first, conflict.ours),
                    _describe_use(theirs, second, conflict.theirs),
                ),
            )
            for conflict in find_representation_conflicts(first, second)
        ]
        why = _explain_uncounted(first, second)
        yield PatchPair(trace_id, (ours, theirs), tuple(conflicts), why, task, value)


def _describe_use(name: str, patch: Patch, use: Use) -> PatchUse:
    text = patch.text
    lines = [(text.count("\n", 0, x.start) + 1, text[x.start : x.end]) for x in use.lines]
    return PatchUse(name, use.says, tuple(lines))


def _explain_uncounted(first: Patch, second: Patch) -> str | None:
    """Return why a pair of patches without conflicts does not count as free of them, or None."""
    if not (first.text.strip() and second.text.strip()):
        return "a patch is empty"
    if first.unread or second.unread:
        return "a patch could not be read in full"
    if not (PatchTexts(first, second).files and PatchTexts(second, first).files):
        return "a patch changes no Python file, or only tests"
    return None


def count_pairs(pairs: Sequence[PatchPair], kind: str = "any") -> Estimate:
    """Return the share of pairs with a conflict of a kind, of ``any``, or with ``none``.

    Pairs of one task are not independent, and nor are those of one trace that tells no task.
    """
    counted = [pair for pair in pairs if not pair.uncounted]
    kinds = [{conflict.kind for conflict in pair.conflicts} for pair in counted]
    values = [{"any": bool(has), "none": not has}.get(kind, kind in has) for has in kinds]
    tasks = [pair.task or name_lone_cluster(pair.trace_id) for pair in counted]
    clustered = any(pair.task for pair in counted) or len(set(tasks)) < len(tasks)
    return estimate_clustered_share(values, tasks if clustered else None, least_design_effect=1.0)
