"""What git's merges make of every two agents' patches: conflicts, clean merges, what is not known.

How one file is merged is in :mod:`annotator.facts.threeway`.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any

from annotator.facts.known import Known
from annotator.facts.model import Fact, Span
from annotator.facts.patches import read_patches
from annotator.facts.threeway import (
    MOST_CONFLICTS,
    FileSide,
    Git,
    Meeting,
    Merged,
    NotKnownError,
    merge,
)
from annotator.patches.diff import File, Patch
from annotator.text import count, one_line

KINDS: Mapping[str, str] = {
    "merge_conflict": "git merges two patches' changes of a file with conflicts",
    "merge_clean": "git merges two patches' changes of a file without a conflict",
    "merge_unknown": "what git makes of two patches' changes of a file is not known",
    "merge_simulated": "what merging two patches gives, by the patches alone",
}

MOST_PAIRS = 10  # pairs of patches that are merged
MOST_FILES = 20  # files of a pair that are merged
MOST_PLACES = 10  # places of one file whose passages are given

_RESULTS = {"clean": "clean", "identical": "clean", "conflicts": "conflicts"}


def facts(known: Known) -> Iterator[Fact]:
    """Yield, for every two patches, a fact for each file that both change, then one of the whole.

    The three-way merge is told for every such file, the union merge where that has conflicts:
    elsewhere it gives the same. Merged are 10 pairs of patches and 20 files of a pair, in 20
    seconds; the rest is not known. Without git, nothing is known; nothing raises.
    """
    trace, git = known.trace, Git()
    pairs = combinations(read_patches(trace).items(), 2)
    for n, ((one, ours), (two, theirs)) in enumerate(pairs):
        found = list(_pair(git, one, ours, two, theirs)) if n < MOST_PAIRS else []
        if ours.files and ours.text.strip() == theirs.text.strip():
            result = "identical"
        else:
            result = _result(found, ours, theirs) if n < MOST_PAIRS else "not known"
        yield from found
        # What is reported is said of these two if there are no others.
        reported = trace.outcome.merge
        comparable = len(trace.patches) == 2 and result in _RESULTS and reported in _RESULTS
        agrees = _RESULTS[result] == _RESULTS[str(reported)] if comparable else None
        yield _simulated(one, two, result, reported, agrees)


def _result(found: list[Fact], ours: Patch, theirs: Patch) -> str:
    """Return what merging two patches gives. One conflict is enough, whatever else is unknown."""
    kinds = {fact.kind for fact in found}
    if "merge_conflict" in kinds:
        return "conflicts"
    return "not known" if ours.unread or theirs.unread or "merge_unknown" in kinds else "clean"


def _simulated(one: str, two: str, result: str, reported: str | None, agrees: bool | None) -> Fact:
    both = f"{one_line(one, 80)}'s and {one_line(two, 80)}'s patches"
    says = {
        "clean": f"{both} merge without a conflict",
        "conflicts": f"{both} merge with conflicts",
        "identical": f"{both} are identical",
        "not known": f"Whether {both} merge without a conflict is not known",
    }[result]
    if agrees is not None:
        says += ", as is reported" if agrees else f"; {reported} is reported"
    about = {"merge": result, "reported": reported, "agrees": agrees}
    return Fact("merge_simulated", f"{says}.", (one, two), (), about)


def _pair(git: "Git", one: str, ours: Patch, two: str, theirs: Patch) -> Iterator[Fact]:
    """Yield the facts about the files that two patches both change."""
    left, right = _by_name(ours), _by_name(theirs)
    shared = [name for name in left if name in right]
    for name in shared[:MOST_FILES]:
        sides = FileSide(one, ours, left[name][0]), FileSide(two, theirs, right[name][0])
        try:
            for side, files in zip(sides, (left[name], right[name]), strict=True):
                _check(side, len(files))
            yield from _told(sides, name, merge(git, *sides))
        except NotKnownError as error:
            yield _unknown(sides, name, str(error))
    if left_out := shared[MOST_FILES:]:
        both = f"{one_line(one, 80)} and {one_line(two, 80)}"
        says = f"{count(len(left_out), 'more file')} that {both} change were not merged."
        about = _about(None, None, why="too many files", files=len(left_out))
        yield Fact("merge_unknown", says, (one, two), (), about)


def _by_name(patch: Patch) -> dict[str, list[File]]:
    """Return the files of a patch by name; a renamed one stands under both its names."""
    found: dict[str, list[File]] = {}
    for file in patch.files:
        for name in {file.path: None, file.old_path: None}:
            found.setdefault(name, []).append(file)
    return found


def _check(side: FileSide, entries: int) -> None:
    """Raise if a patch does not say in full what it does to the lines of a file."""
    file, patch = side.file, f"{side.whose} patch"
    if side.patch.unread:
        raise NotKnownError(f"a part of {patch} was not read")
    if not file.path:
        raise NotKnownError(f"{patch} does not name the file")
    if entries > 1:
        raise NotKnownError(f"{patch} has the file {entries} times")
    if file.path != file.old_path:
        raise NotKnownError(f"{patch} renames or copies it")
    if file.binary:
        raise NotKnownError(f"in {patch} it is binary")
    if not all(hunk.whole for hunk in file.hunks):
        raise NotKnownError(f"a hunk of {patch} has other lines than its header announces")


def _about(path: str | None, conflicts: int | None, **more: Any) -> dict[str, Any]:
    return {"path": path, "conflicts": conflicts, "strategy": "three-way", **more}


def _unknown(sides: tuple[FileSide, FileSide], name: str, why: str) -> Fact:
    says = f"What {_changes(sides, name)} merge to is not known: {why}."
    agents = (sides[0].agent, sides[1].agent)
    return Fact("merge_unknown", says, agents, _firsts(sides), _about(name, None, why=why))


def _told(sides: tuple[FileSide, FileSide], name: str, merged: Merged) -> Iterator[Fact]:
    """Yield what the merges of one file give."""
    agents, conflicts = (sides[0].agent, sides[1].agent), merged.conflicts
    if not conflicts:
        says = f"{_changes(sides, name)} merge without a conflict."
        yield Fact("merge_clean", says, agents, _firsts(sides), _about(name, 0))
        return
    lines = _places(merged.meetings)
    least = "at least " if conflicts == MOST_CONFLICTS else ""
    says = (
        f"{_changes(sides, name)} merge with {least}{count(conflicts, 'conflict')}, "
        f"at {_where(lines)}."
    )
    spans = tuple(dict.fromkeys(
        side.passage(change.edit.lines, change.hunk)
        for meeting in merged.meetings[:MOST_PLACES]
        for side, change in zip(sides, meeting, strict=True)
    ))  # fmt: skip
    yield Fact("merge_conflict", says, agents, spans, _about(name, conflicts, lines=lines))
    if merged.kept is None:
        return
    added = [sum(len(change.added) for change in side.changes) for side in sides]
    says = f"A union merge of {_changes(sides, name)} keeps " + " and ".join(
        f"{kept} of {count(number, 'line')} that {one_line(side.agent, 80)} adds"
        for side, kept, number in zip(sides, merged.kept, added, strict=True)
    )
    about = _about(
        name, 0, added=added, kept=list(merged.kept),
        interleaved=any(a.added and b.added for a, b in merged.meetings),
    ) | {"strategy": "union"}  # fmt: skip
    yield Fact("merge_clean", f"{says}.", agents, spans, about)


def _changes(sides: tuple[FileSide, FileSide], name: str) -> str:
    path = one_line(name or "a file without a name", 200)
    return f"{sides[0].whose} and {sides[1].whose} changes of {path}"


def _firsts(sides: tuple[FileSide, FileSide]) -> tuple[Span, ...]:
    """Return the first hunk of each side, where there is one."""
    return tuple(side.passage(hunk.lines, hunk) for side in sides for hunk in side.file.hunks[:1])


def _places(meetings: Iterable[Meeting]) -> list[list[int]]:
    """Return the base lines of the meetings, each place once: the first, and that behind it."""
    places: list[list[int]] = []
    for one, two in meetings:
        start, end = min(one.start, two.start), max(one.end, two.end)
        if places and start <= places[-1][1]:
            places[-1][1] = max(places[-1][1], end)
        else:
            places.append([start, end])
    return places


def _where(places: list[list[int]]) -> str:
    shown = [f"{start} to {end - 1}" if end - start > 1 else f"{start}" for start, end in places]
    more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
    noun = "line" if len(shown) == 1 and shown[0].isdigit() else "lines"
    return f"{noun} {', '.join(shown[:3])}{more}"
