"""Facts of the patches: where they meet, what merging gives, and what both hold."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, permutations
from typing import NamedTuple

from annotator.base.text import sanitize_line
from annotator.cooperbench.facts.model import Fact, FactSpan, format_agent
from annotator.cooperbench.facts.trace_facts import TraceFacts
from annotator.cooperbench.patches.diff import Edit, Hunk, Line, Patch, parse_patch
from annotator.cooperbench.patches.representations import Use, find_representation_conflicts
from annotator.traces import Trace

MOST_HUNK = 200  # lines of a hunk whose names are kept
LONGEST = 240  # characters of a passage

MEETINGS: Mapping[str, str] = {
    "patch_empty": "an agent handed in an empty patch",
    "hunks_overlap": "two patches change the same base lines, or insert at the same line",
    "hunks_adjoin": "two patches change base lines that follow each other directly",
}
CARRIED: Mapping[str, str] = {"work_carried": "a patch holds most of what another patch adds"}
REPRESENTATIONS: Mapping[str, str] = {
    "representation_conflict": "two patches give one class or function incompatible forms"
}
MERGES: Mapping[str, str] = {
    "merge_simulated": "what merging two patches gives, by the patches alone"
}

_LETTER = re.compile(r"[^\W\d_]")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w{3,}")
_WORD = re.compile(r"\w+")

# A line that any file may hold says nothing of this one: "def __init__(", "return self".
_COMMON = re.compile(
    r"\s*(?:(?:async )?def __\w+__\((?:self,?)?\)?:?|return(?: self| None)?|else:|try:|import \w+"
    r"|super\(\)\.__init__\(.*\)|\)(?: ->[^:]*)?:?(?: \.\.\.)?)\s*"
)
_SHARE = 0.5  # of a patch's added lines, from which another patch carries it
_FEWEST = 2  # lines that say something, for "most of them" to mean anything
_TELLING = re.compile(r"\w\W*\w\W*\w")  # a line that says something: three letters or digits
_CLEAN = ("clean", "identical")


class _FileEdit(NamedTuple):
    """An edit, and the base lines ``start`` to before ``end`` of ``path`` that it changes."""

    path: str
    start: int
    end: int
    edit: Edit
    hunk: Hunk


def draw_meetings(facts: TraceFacts) -> Iterator[Fact]:
    """Yield the empty patches, then where every two patches meet."""
    patches = read_patches(facts.trace)
    for agent, patch in patches.items():
        if not patch.text.strip():
            says = f"{format_agent(agent)} handed in an empty patch."
            yield Fact("patch_empty", says, (agent,), ())
    for agent, partner in combinations(patches, 2):
        yield from _find_pair_meetings(agent, patches[agent], partner, patches[partner])


def read_patches(trace: Trace) -> dict[str, Patch]:
    """Return the patches of a trace by agent, in its order."""
    return {agent: parse_patch(text) for agent, text in trace.patches.items()}


def quote_lines(
    agent: str,
    patch: Patch,
    lines: Sequence[Line],
    hunk: Hunk,
    common: Collection[str] = frozenset(),
) -> FactSpan:
    """Return the first lines that say something as a passage of at most 240 characters.

    Args:
        agent: whose patch it is.
        patch: the patch.
        lines: the lines to quote from, in order.
        hunk: their hunk. Its ``@@`` line is quoted if the lines are too long or have no words.
        common: stripped lines that the other patch adds too, quoted only if there are no others.
    """
    source = f"patch:{agent}"
    usable = [x for x in lines[:200] if x.end - x.start <= LONGEST and _WORD.search(x.text)]
    distinct = [x for x in usable if x.text.strip() not in common and not _COMMON.fullmatch(x.text)]
    telling = [x for x in distinct if _LETTER.search(x.text) and len(_WORD.findall(x.text)) > 1]
    quoted = telling or distinct or usable
    if not quoted:
        at = patch.text.find("@@", hunk.start + 2, hunk.end)
        return FactSpan(source, hunk.start, at + 2)
    first = last = quoted[0]
    for line in quoted[1:6]:
        if line.start != last.end + 1 or line.end - first.start > LONGEST:
            break
        last = line
    start, text = first.start, patch.text[first.start : last.end]
    start += len(text) - len(text.lstrip())
    return FactSpan(source, start, start + len(text.strip()))


def says_nothing(text: str) -> bool:
    """Whether a passage of a patch holds no line that says something of this change."""
    lines = [line[1:] if line[:1] in "+-" else line for line in text.split("\n")]
    return not any(_LETTER.search(x) and not _COMMON.fullmatch(x.strip()) for x in lines)


def find_meetings(
    facts: TraceFacts, agent: str, partners: Collection[str], *, same: bool = False
) -> Iterator[Fact]:
    """Yield where an agent's patch meets one of its partners', overlapping places first; those that
    both change in one way with ``same`` and a conflict only.
    """
    same = same and facts.trace.outcome.merge == "conflicts"
    for meeting in sorted(facts.of("hunks_overlap", "hunks_adjoin"), key=rank_meeting):
        if meeting.about["same"] and not same:
            continue
        if agent in meeting.agents and any(x in partners for x in meeting.agents if x != agent):
            yield meeting


def rank_meeting(meeting: Fact) -> tuple[bool, bool]:
    """Return an order of meetings: different ways before the same, overlapping before adjoining."""
    return meeting.about["same"], meeting.kind != "hunks_overlap"


def collect_added_lines(patch: Patch) -> frozenset[str]:
    """Return the lines that a patch adds, without white space at their ends."""
    return frozenset(x.text.strip() for hunk in patch.hunks for x in hunk.lines if x.sign == "+")


def has_conflict(ours: Patch, theirs: Patch) -> bool:
    """Whether two patches change one place in different ways, where git's merge conflicts."""
    return any(
        not _is_same(a, b) for a, b in _find_touching(_list_edits(ours), _list_edits(theirs))
    )


def _find_pair_meetings(agent: str, ours: Patch, partner: str, theirs: Patch) -> Iterator[Fact]:
    common = collect_added_lines(ours) & collect_added_lines(theirs)
    meetings: dict[tuple[int, int], Fact] = {}
    for a, b in _find_touching(_list_edits(ours), _list_edits(theirs)):
        key = (a.hunk.start, b.hunk.start)
        meeting = _make_meeting((agent, ours, a), (partner, theirs, b), common)
        if key not in meetings or rank_meeting(meeting) < rank_meeting(meetings[key]):
            meetings[key] = meeting
    yield from meetings.values()


def _list_edits(patch: Patch) -> list[_FileEdit]:
    """Return the edits of a patch by file and place. A file that is renamed has its old name."""
    file_edits = [
        _FileEdit(file.old_path, edit.start, edit.end, edit, hunk)
        for file in patch.files
        for hunk in file.hunks
        for edit in hunk.edits()
    ]
    return sorted(file_edits, key=lambda file_edit: file_edit[:3])


def _find_touching(
    ours: list[_FileEdit], theirs: list[_FileEdit]
) -> Iterator[tuple[_FileEdit, _FileEdit]]:
    """Yield the pairs of edits that overlap or adjoin, where merges conflict, in one sweep."""
    i, j = 0, 0
    while i < len(ours) and j < len(theirs):
        mine, other = ours[i], theirs[j]
        if mine.path == other.path and mine.start <= other.end and other.start <= mine.end:
            yield mine, other
        if (mine.path, mine.end) < (other.path, other.end):
            i += 1
        else:
            j += 1


def _is_overlap(a: _FileEdit, b: _FileEdit) -> bool:
    """Whether two edits that touch share a base line, or insert at the same one."""
    if a.start < a.end and b.start < b.end:
        return max(a.start, b.start) < min(a.end, b.end)
    return a[1:3] == b[1:3] or a.start < b.start < a.end or b.start < a.start < b.end


def _make_meeting(
    ours: tuple[str, Patch, _FileEdit],
    theirs: tuple[str, Patch, _FileEdit],
    common: Collection[str],
) -> Fact:
    (agent, _, a), (partner, _, b) = ours, theirs
    start, end = max(a.start, b.start), min(a.end, b.end)
    overlap, same = _is_overlap(a, b), _is_same(a, b)
    left, right = ({line.text for line in _select_written(file_edit.edit)} for file_edit in (a, b))
    where = f"lines {start} to {end - 1}" if end - start > 1 else f"line {start}"
    says = (
        f"{sanitize_line(agent, 80)} and {sanitize_line(partner, 80)}"
        f" {'both change' if overlap else 'change lines that meet at'} {where}"
        f" of {sanitize_line(a.path, 200)}{', in the same way.' if same else '.'}"
    )
    spans = tuple(
        quote_lines(name, patch, _select_written(file_edit.edit), file_edit.hunk, common)
        for name, patch, file_edit in (ours, theirs)
    )
    about = {
        "path": a.path, "lines": [[a.start, a.end], [b.start, b.end]],
        "same": same, "shared_lines": len(left & right),
        "names": sorted({*_find_names(a.hunk), *_find_names(b.hunk)}),
    }  # fmt: skip
    kind = "hunks_overlap" if overlap else "hunks_adjoin"
    return Fact(kind, says, (agent, partner), spans, about)


def _is_same(a: _FileEdit, b: _FileEdit) -> bool:
    """Whether two edits replace the same base lines by the same text."""
    added = (
        [line.text for line in file_edit.edit.lines if line.sign == "+"] for file_edit in (a, b)
    )
    return a[1:3] == b[1:3] and next(added) == next(added)


def _find_names(hunk: Hunk) -> Iterator[str]:
    """Yield the names that stand in a hunk, the definition around it included."""
    for text in (hunk.section, *(line.text for line in hunk.lines[:MOST_HUNK])):
        yield from _IDENTIFIER.findall(text[:LONGEST])


def _select_written(edit: Edit) -> list[Line]:
    """Return what an edit writes: its added lines, or its removed ones if it only removes."""
    added = [line for line in edit.lines if line.sign == "+"]
    return added or list(edit.lines)


def draw_carried_work(facts: TraceFacts) -> Iterator[Fact]:
    """Yield which patch holds most of what another adds, apart from code shown in messages."""
    patches = read_patches(facts.trace)
    lines = {
        agent: _collect_telling_lines(patch)
        for agent, patch in patches.items()
        if patch.files and not patch.unread
    }
    if len(lines) < 2:
        return
    agreed = _collect_code_lines(facts)
    for ours, theirs in permutations(lines, 2):
        written = lines[theirs].keys() - agreed
        common = [text for text in lines[theirs] if text in written and text in lines[ours]]
        share = len(common) / len(written) if written else 0.0
        if len(common) < _FEWEST or share < _SHARE:
            continue
        says = (
            f"{format_agent(ours)}'s patch holds {len(common)} of the {len(written)} lines that "
            f"{format_agent(theirs)}'s adds."
        )
        spans = tuple(
            quote_lines(agent, patches[agent], [line], hunk)
            for agent in (ours, theirs)
            for line, hunk in [lines[agent][common[0]]]
        )
        details = {"lines": len(common), "of": len(written), "share": round(share, 3)}
        yield Fact("work_carried", says, (ours, theirs), spans, details)


def _collect_telling_lines(patch: Patch) -> dict[str, tuple[Line, Hunk]]:
    """Return the added lines that say something by their text without white space."""
    lines: dict[str, tuple[Line, Hunk]] = {}
    for hunk in patch.hunks:
        for line in hunk.lines:
            if line.sign == "+" and _TELLING.search(line.text):
                lines.setdefault("".join(line.text.split()), (line, hunk))
    return lines


def _collect_code_lines(facts: TraceFacts) -> set[str]:
    """Return the lines of code in messages, without white space: written by agreement."""
    code: Iterable[str] = (
        message.passage(start, stop)
        for message in facts.messages
        for style, start, stop in message.parts
        if style == "code" and start < stop
    )
    return {"".join(line.split()) for text in code for line in text.split("\n")}


def draw_representations(facts: TraceFacts) -> Iterator[Fact]:
    """Yield the conflicts of representation of every two patches."""
    for patches in combinations(read_patches(facts.trace).items(), 2):
        (agent, ours), (partner, theirs) = patches
        for conflict in find_representation_conflicts(ours, theirs):
            thing = f"{conflict.scope}.{conflict.name}".removeprefix(".")
            uses = conflict.ours, conflict.theirs
            first, second = (sanitize_line(use.says, 120) for use in uses)
            says = (
                f"{sanitize_line(thing, 120)} in {sanitize_line(conflict.path, 200)}:"
                f" {format_agent(agent)}'s patch: {first}; {format_agent(partner)}'s: {second}."
            )
            spans = tuple(
                quote_lines(*side, use.lines, _find_hunk(side[1], use))
                for side, use in zip(patches, uses, strict=True)
            )
            names = (*conflict.name.split(" / "), conflict.scope.rpartition(".")[2])
            about = {
                "conflict": conflict.kind, "path": conflict.path,
                "names": [name for name in names if name],
            }  # fmt: skip
            yield Fact("representation_conflict", says, (agent, partner), spans, about)


def _find_hunk(patch: Patch, use: Use) -> Hunk:
    return next(x for x in patch.hunks if x.lines[-1].end >= use.lines[0].start)


def draw_merges(facts: TraceFacts) -> Iterator[Fact]:
    """Yield, for every two patches, whether git's three-way merge has conflicts.

    It is not known if a patch is not read in full or malformed, or if both change a binary file.
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
        agrees = None
        # With more than two patches, the report is not about these two.
        if len(patches) == 2 and reported in (*_CLEAN, "conflicts") and result != "not known":
            agrees = (result in _CLEAN) == (reported in _CLEAN)
            if reported == "identical" and not agrees:  # a harness compares without the tests
                agrees = None
        about = {"merge": result, "reported": reported, "agrees": agrees}
        yield Fact("merge_simulated", says, (agent, partner), (), about)


def _simulate(ours: Patch, theirs: Patch) -> str:
    if ours.files and ours.text.strip() == theirs.text.strip():
        return "identical"
    if has_conflict(ours, theirs):
        return "conflicts"
    binary = [{file.path for file in side.files if file.binary} for side in (ours, theirs)]
    complete = all(hunk.complete for hunk in (*ours.hunks, *theirs.hunks)) and not (
        ours.unread or theirs.unread
    )
    return "clean" if complete and binary[0].isdisjoint(binary[1]) else "not known"
