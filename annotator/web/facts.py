"""Facts about a trace, counted from it: no judgement."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from annotator.cooperbench.facts import Fact, draw_facts
from annotator.cooperbench.facts.patches import read_patches
from annotator.cooperbench.patches.diff import Patch
from annotator.traces import Trace

_SHARED = 20  # files that two patches change which are named


def serialize_facts(trace: Trace) -> dict[str, Any] | None:
    """Return the numbers of messages, the sizes of patches, the files that several of them change
    and where they overlap; None for a trace without patches.
    """
    patches = read_patches(trace)
    if not patches:
        return None
    files = Counter(path for patch in patches.values() for path in {x.path for x in patch.files})
    shared = [path for path, count in files.items() if path and count > 1]
    return {
        "messages": Counter(message.sender for message in trace.spoken),
        "patches": [_measure_patch(agent, patch) for agent, patch in patches.items()],
        "shared": sorted(shared)[:_SHARED],
        "shared_count": len(shared),
        "overlaps": list(_list_overlaps(trace, patches)),
    }


def _measure_patch(agent: str, patch: Patch) -> dict[str, Any]:
    signs = Counter(line.sign for hunk in patch.hunks for line in hunk.lines)
    files = len({file.path for file in patch.files})
    return {"agent": agent, "added": signs["+"], "removed": signs["-"], "files": files}


def _list_overlaps(trace: Trace, patches: Mapping[str, Patch]) -> Iterator[dict[str, Any]]:
    """Yield where two patches change the same lines; of a merge with conflicts also lines that
    follow each other directly, where git conflicts too.

    ``conflict``: the merge has conflicts, and the patches change these lines in different ways.
    """
    conflicts = trace.outcome.merge == "conflicts"
    kinds = ("hunks_overlap", "hunks_adjoin") if conflicts else ("hunks_overlap",)
    passages = {
        (agent, file.old_path, edit.start, edit.end): (edit.lines[0].start, edit.lines[-1].end)
        for agent, patch in patches.items()
        for file in patch.files
        for hunk in file.hunks
        for edit in hunk.edits()
    }
    for fact in draw_facts(trace).of(*kinds):
        path, same = fact.about["path"], fact.about["same"]
        places = []
        for agent, lines in zip(fact.agents, fact.about["lines"], strict=True):
            start, end = passages[agent, path, *lines]
            places.append({"source": f"patch:{agent}", "agent": agent, "start": start, "end": end})
        first, last = _find_common_lines(fact)
        yield {
            "path": path,
            "first": first,
            "last": last,
            "same": same,
            "conflict": conflicts and not same,
            "places": places,
        }


def _find_common_lines(meeting: Fact) -> tuple[int, int]:
    """Return the first and last base line at which two edits meet."""
    (start, end), (other_start, other_end) = meeting.about["lines"]
    first = max(start, other_start)
    return first, max(first, min(end, other_end) - 1)
