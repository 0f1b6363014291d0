"""What the patches of a trace change: files, hunks, and where two agents' hunks meet."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations

from annotator.base.text import sanitize_line
from annotator.cooperbench.facts.model import Fact, FactSpan, format_agent
from annotator.cooperbench.facts.trace_facts import TraceFacts
from annotator.cooperbench.patches.diff import Edit, Hunk, Line, Patch, parse_patch
from annotator.traces import Trace

MOST_PATCHES = 10  # patches of one trace that are read
MOST_MEETINGS = 50  # places where two patches meet that get a fact each
MOST_HUNK = 200  # lines of a hunk whose names are kept
LONGEST = 240  # characters of a passage

KINDS: Mapping[str, str] = {
    "patch_empty": "an agent handed in an empty patch",
    "hunks_overlap": "two patches change the same base lines, or insert at the same line",
    "hunks_adjoin": "two patches change base lines that follow each other directly",
}

_LETTER = re.compile(r"[^\W\d_]")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w{3,}")
_WORD = re.compile(r"\w+")

# A line that any file may hold says nothing of this one: "def __init__(", "return self".
_COMMON = re.compile(
    r"\s*(?:(?:async )?def __\w+__\((?:self,?)?\)?:?|return(?: self| None)?|else:|try:|import \w+"
    r"|super\(\)\.__init__\(.*\)|\)(?: ->[^:]*)?:?(?: \.\.\.)?)\s*"
)
_Place = tuple[str, int, int, Edit, Hunk]


def draw(facts: TraceFacts) -> Iterator[Fact]:
    """Yield the facts about the patches, agent by agent, then those about every two of them.

    Read are 10 patches, of each 2,000,000 characters and 100,000 lines, and told 50 meetings of a
    pair; what was not read is a fact of
    :mod:`annotator.cooperbench.facts.truncation`.
    """
    patches = read_patches(facts.trace)
    for agent, patch in patches.items():
        if not patch.text.strip():
            yield Fact(
                "patch_empty", f"{format_agent(agent)} handed in an empty patch.", (agent,), ()
            )
    for agent, partner in combinations(patches, 2):
        yield from _find_pair_meetings(agent, patches[agent], partner, patches[partner])


def read_patches(trace: Trace) -> dict[str, Patch]:
    """Return the patches of a trace by agent, in its order: the first 10."""
    return {agent: parse_patch(text) for agent, text in list(trace.patches.items())[:MOST_PATCHES]}


def quote_lines(
    source: str,
    text: str,
    lines: Sequence[Line],
    hunk: Hunk,
    alike: Collection[str] = frozenset(),
) -> FactSpan:
    """Return the first lines of a run that say something as a passage, at most 240 characters.

    Lines that are ``alike`` on another side (by their text without white space at the ends) and
    lines that any file may hold are shown only if there are no others. Never cuts a word; the
    ``@@`` line stands for lines that are too long or have no words.
    """
    usable = [
        line for line in lines[:200]
        if line.end - line.start <= LONGEST and _WORD.search(line.text)
    ]  # fmt: skip
    distinct = [
        line
        for line in usable
        if line.text.strip() not in alike and not _COMMON.fullmatch(line.text)
    ]
    telling = [x for x in distinct if _LETTER.search(x.text) and len(_WORD.findall(x.text)) > 1]
    shown = telling or distinct or usable
    if not shown:
        at = text.find("@@", hunk.start + 2, hunk.end)
        return FactSpan(source, hunk.start, at + 2)
    first = last = shown[0]
    for line in shown[1:6]:
        if line.start != last.end + 1 or line.end - first.start > LONGEST:
            break
        last = line
    return _trim_span(source, text, first.start, last.end)


def says_nothing(text: str) -> bool:
    """Whether a passage of a patch holds no line that says something of this change."""
    lines = [line[1:] if line[:1] in "+-" else line for line in text.split("\n")]
    return not any(_LETTER.search(x) and not _COMMON.fullmatch(x.strip()) for x in lines)


def find_meetings(
    facts: TraceFacts, agent: str, partners: Collection[str], *, same: bool = False
) -> Iterator[Fact]:
    """Yield where an agent's patch meets one of its partners', overlapping places first.

    Places that both change in the same way are left out unless ``same`` is given and the merge is
    reported to conflict, for then the rest of the place may.
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
    hunks = (hunk for file in patch.files for hunk in file.hunks)
    return frozenset(x.text.strip() for hunk in hunks for x in hunk.lines if x.sign == "+")


def patches_conflict(ours: Patch, theirs: Patch) -> bool:
    """Whether two patches change one place in different ways, where git's merge conflicts."""
    return any(
        not _is_same(a, b) for a, b in _find_touching(_list_edits(ours), _list_edits(theirs))
    )


def _trim_span(source: str, text: str, start: int, end: int) -> FactSpan:
    """Return a passage without the white space at its ends, as it would be quoted."""
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    return FactSpan(source, start, start + len(piece.strip()))


def _find_pair_meetings(agent: str, ours: Patch, partner: str, theirs: Patch) -> Iterator[Fact]:
    """Yield the places where two patches meet, one fact for each pair of hunks."""
    left, right = _list_edits(ours), _list_edits(theirs)
    alike = collect_added_lines(ours) & collect_added_lines(theirs)
    meetings: dict[tuple[int, int], Fact] = {}
    for a, b in _find_touching(left, right):
        key = (a[4].start, b[4].start)
        if key not in meetings and len(meetings) == MOST_MEETINGS:
            break
        meeting = _make_meeting(agent, ours, a, partner, theirs, b, alike)
        if key not in meetings or rank_meeting(meeting) < rank_meeting(meetings[key]):
            meetings[key] = meeting
    yield from meetings.values()


def _list_edits(patch: Patch) -> list[_Place]:
    """Return the edits of a patch by file and place. A file that is renamed has its old name."""
    places = [
        (file.old_path, edit.start, edit.end, edit, hunk)
        for file in patch.files
        for hunk in file.hunks
        for edit in hunk.edits()
    ]
    return sorted(places, key=lambda place: place[:3])


def _find_touching(ours: list[_Place], theirs: list[_Place]) -> Iterator[tuple[_Place, _Place]]:
    """Yield the pairs of edits that overlap or adjoin, which is where a three-way merge conflicts.

    One sweep over both in order: the work grows with the number of edits, not with its square.
    """
    i, j = 0, 0
    while i < len(ours) and j < len(theirs):
        mine, other = ours[i], theirs[j]
        if mine[0] == other[0] and mine[1] <= other[2] and other[1] <= mine[2]:
            yield mine, other
        if (mine[0], mine[2]) < (other[0], other[2]):
            i += 1
        else:
            j += 1


def _is_overlap(a: _Place, b: _Place) -> bool:
    """Whether two edits that touch share a base line, or insert at the same one.

    An insertion beside a changed line only adjoins it.
    """
    if a[1] < a[2] and b[1] < b[2]:
        return max(a[1], b[1]) < min(a[2], b[2])
    return a[1:3] == b[1:3] or a[1] < b[1] < a[2] or b[1] < a[1] < b[2]


def _make_meeting(
    agent: str,
    ours: Patch,
    a: _Place,
    partner: str,
    theirs: Patch,
    b: _Place,
    alike: Collection[str],
) -> Fact:
    path, start, end = a[0], max(a[1], b[1]), min(a[2], b[2])
    overlap = _is_overlap(a, b)
    left, right = ([line.text for line in _select_written(place[3])] for place in (a, b))
    same = _is_same(a, b)
    shared = set(left) & set(right)
    where = f"{'lines' if end - start > 1 else 'line'} {start}"
    where += f" to {end - 1}" if end - start > 1 else ""
    does = "both change" if overlap else "change lines that meet at"
    says = (
        f"{sanitize_line(agent, 80)} and {sanitize_line(partner, 80)} {does} {where}"
        f" of {sanitize_line(path, 200)}"
    )
    says += ", in the same way." if same else "."
    spans = (
        quote_lines(f"patch:{agent}", ours.text, _select_written(a[3]), a[4], alike),
        quote_lines(f"patch:{partner}", theirs.text, _select_written(b[3]), b[4], alike),
    )
    about = {
        "path": path, "lines": [[a[1], a[2]], [b[1], b[2]]],
        "same": same, "shared_lines": len(shared),
        "names": sorted(set(_find_names(a[4])) | set(_find_names(b[4]))),
    }  # fmt: skip
    return Fact(
        "hunks_overlap" if overlap else "hunks_adjoin", says, (agent, partner), spans, about
    )


def _is_same(a: _Place, b: _Place) -> bool:
    """Whether two edits replace the same base lines by the same text."""
    added = ([line.text for line in place[3].lines if line.sign == "+"] for place in (a, b))
    return a[1:3] == b[1:3] and next(added) == next(added)


def _find_names(hunk: Hunk) -> Iterator[str]:
    """Yield the names that stand in a hunk, the definition around it included."""
    for text in (hunk.section, *(line.text for line in hunk.lines[:MOST_HUNK])):
        yield from _IDENTIFIER.findall(text[:LONGEST])


def _select_written(edit: Edit) -> list[Line]:
    """Return what an edit writes: its added lines, or its removed ones if it only removes."""
    added = [line for line in edit.lines if line.sign == "+"]
    return added or list(edit.lines)
