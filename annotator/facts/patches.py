"""What the patches of a trace change: files, hunks, and where two agents' hunks meet."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from annotator.facts.known import Known
from annotator.facts.model import Fact, Span
from annotator.patches.diff import Edit, File, Hunk, Line, Patch, parse_patch, same_path
from annotator.text import count, one_line
from annotator.traces import Trace

__all__ = [
    "KINDS", "Edit", "File", "Hunk", "Line", "Patch",
    "facts", "parse_patch", "passage", "read_patches", "same_path", "unread",
]  # fmt: skip

MOST_PATCHES = 10  # patches of one trace that are read
MOST_FILES = 200  # files of one patch that get a fact each
MOST_MEETINGS = 50  # places where two patches meet that get a fact each
LONGEST = 240  # characters of a passage

KINDS: Mapping[str, str] = {
    "patch_file": "a patch creates, deletes, renames or changes a file",
    "patch_binary": "a patch changes a binary file, whose content it does not show",
    "patch_empty": "an agent handed in an empty patch",
    "patch_malformed": "a hunk of a patch has other lines than its header announces",
    "hunks_overlap": "two patches change the same base lines, or insert at the same line",
    "hunks_adjoin": "two patches change base lines that follow each other directly",
}

_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"\w+")

_DEFINES = re.compile(
    r"\s*(?:(?:export|default|pub|async|static|public|private|abstract)\s+){0,4}"
    r"(?:def|class|func|fn|function|interface|struct|impl|trait|type)\s+(?:\([^)]{0,80}\)\s*)?(\w+)"
)

_PARAMETER = re.compile(r"\s+\*{0,2}\w+\??\s*(?::[^=]{1,200})?(?:=.{1,200})?,\s*(?:#.*|//.*)?")

_Place = tuple[str, int, int, Edit, Hunk]


def facts(known: Known) -> Iterator[Fact]:
    """Yield the facts about the patches, agent by agent, then those about every two of them.

    Read are 10 patches, of each 2,000,000 characters and 100,000 lines, and told 200 files of a
    patch and 50 meetings of a pair; what is left out is in :func:`left_out`.
    """
    patches = read_patches(known.trace)
    for agent, patch in patches.items():
        yield from _of_one(agent, patch)
    for one, two in combinations(patches, 2):
        yield from _meetings(one, patches[one], two, patches[two])


def read_patches(trace: Trace) -> dict[str, Patch]:
    """Return the patches of a trace by agent, in its order: the first 10."""
    return {agent: parse_patch(text) for agent, text in list(trace.patches.items())[:MOST_PATCHES]}


def left_out(trace: Trace) -> Iterator[Fact]:
    """Yield for each patch how much of it no fact was drawn from, of kind ``not_read``."""
    patches = read_patches(trace)
    for agent, patch in patches.items():
        left = patch.files[MOST_FILES:]
        told = left[0].start if left else len(patch.text)
        if missing := min(patch.unread + len(patch.text) - told, len(patch.text)):
            yield unread(f"patch:{agent}", missing, agent)
    for agent, text in trace.patches.items():
        if agent not in patches:
            yield unread(f"patch:{agent}", len(text), agent)


def passage(source: str, text: str, lines: Sequence[Line], hunk: Hunk) -> Span:
    """Return the first lines of a run that say something as a passage, at most 240 characters.

    Never cuts a word; the ``@@`` line stands for lines that are too long or have no words.
    """
    fallback = None
    for n, line in enumerate(lines[:40]):
        if line.end - line.start > LONGEST or not _WORD.search(line.text):
            continue
        if fallback is None:
            fallback = line
        if _LETTER.search(line.text) and len(_WORD.findall(line.text)) > 1:
            last = line
            for after in lines[n + 1 : n + 6]:
                if after.start != last.end + 1 or after.end - line.start > LONGEST:
                    break
                last = after
            return _span(source, text, line.start, last.end)
    if fallback is not None:
        return _span(source, text, fallback.start, fallback.end)
    at = text.find("@@", hunk.start + 2, hunk.end)
    return Span(source, hunk.start, at + 2)


def unread(source: str, characters: int, agent: str | None = None) -> Fact:
    """Return the fact that characters of a source were not read."""
    says = f"{count(characters, 'character')} of {one_line(source, 80)} were not read."
    about = {"source": source, "characters": characters}
    return Fact("not_read", says, (agent,) if agent is not None else (), (), about)


def _span(source: str, text: str, start: int, end: int) -> Span:
    """Return a passage without the white space at its ends, as it would be quoted."""
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    return Span(source, start, start + len(piece.strip()))


def _of_one(agent: str, patch: Patch) -> Iterator[Fact]:
    source, name = f"patch:{agent}", one_line(agent, 80)
    if not patch.text.strip():
        yield Fact("patch_empty", f"{name} handed in an empty patch.", (agent,), ())
        return
    for file in patch.files[:MOST_FILES]:
        yield _file_fact(agent, name, source, patch, file)
        for hunk in file.hunks:
            if not hunk.whole:
                yield _malformed(agent, name, source, patch, file, hunk)


def _file_fact(agent: str, name: str, source: str, patch: Patch, file: File) -> Fact:
    added = sum(line.sign == "+" for hunk in file.hunks for line in hunk.lines)
    removed = sum(line.sign == "-" for hunk in file.hunks for line in hunk.lines)
    verb = (
        "creates" if file.new else "deletes" if file.deleted
        else "renames" if file.renamed else "changes"
    )  # fmt: skip
    path, old = one_line(file.path or "a file without a name", 200), one_line(file.old_path, 200)
    whole = f"{old} to {path}" if file.renamed else path
    about: dict[str, Any] = {
        "path": file.path, "old_path": file.old_path, "change": verb,
        "added": added, "removed": removed,
        "hunks": [[h.old_start, h.old_count, h.new_start, h.new_count] for h in file.hunks],
    }  # fmt: skip
    spans = _header(source, patch.text, file)
    if file.binary:
        says = f"{name}'s patch {verb} {whole}, a binary file."
        return Fact("patch_binary", says, (agent,), spans, about)
    says = (
        f"{name}'s patch {verb} {whole}: {count(added, 'line')} added, {removed} removed, "
        f"in {count(len(file.hunks), 'hunk')}."
    )
    return Fact("patch_file", says, (agent,), spans, about)


def _header(source: str, text: str, file: File) -> tuple[Span, ...]:
    """Return the header line that names a file, or a hunk's, if it is fit to be quoted."""
    if file.end - file.start <= LONGEST and _WORD.search(text, file.start, file.end):
        return (_span(source, text, file.start, file.end),)
    return tuple(passage(source, text, (), hunk) for hunk in file.hunks[:1])


def _malformed(agent: str, name: str, source: str, patch: Patch, file: File, hunk: Hunk) -> Fact:
    says = (
        f"{name}'s patch has a hunk at line {hunk.old_start} of {one_line(file.path, 200)} "
        f"with other lines than its header announces."
    )
    spans = (passage(source, patch.text, (), hunk),)
    return Fact("patch_malformed", says, (agent,), spans, {"path": file.path})


def _meetings(one: str, ours: Patch, two: str, theirs: Patch) -> Iterator[Fact]:
    """Yield the places where two patches meet, one fact for each pair of hunks."""
    left, right = _places(ours), _places(theirs)
    told: dict[tuple[int, int], Fact] = {}
    for a, b in _touching(left, right):
        key = (a[4].start, b[4].start)
        if key not in told and len(told) == MOST_MEETINGS:
            break
        if key not in told or (told[key].kind == "hunks_adjoin" and _overlap(a, b)):
            told[key] = _meeting(one, ours, a, two, theirs, b)
    yield from told.values()


def _places(patch: Patch) -> list[_Place]:
    """Return the edits of a patch by file and place. A file that is renamed has its old name."""
    places = [
        (file.old_path, edit.start, edit.end, edit, hunk)
        for file in patch.files
        for hunk in file.hunks
        for edit in hunk.edits()
    ]
    return sorted(places, key=lambda place: place[:3])


def _touching(ours: list[_Place], theirs: list[_Place]) -> Iterator[tuple[_Place, _Place]]:
    """Yield the pairs of edits that overlap or adjoin, which is where a three-way merge conflicts.

    One sweep over both in order: the work grows with the number of edits, not with its square.
    """
    i, j = 0, 0
    while i < len(ours) and j < len(theirs):
        one, two = ours[i], theirs[j]
        if one[0] == two[0] and one[1] <= two[2] and two[1] <= one[2]:
            yield one, two
        if (one[0], one[2]) < (two[0], two[2]):
            i += 1
        else:
            j += 1


def _overlap(a: _Place, b: _Place) -> bool:
    """Whether two edits that touch share a base line, or insert at the same one.

    An insertion beside a changed line only adjoins it.
    """
    if a[1] < a[2] and b[1] < b[2]:
        return max(a[1], b[1]) < min(a[2], b[2])
    return a[1:3] == b[1:3] or a[1] < b[1] < a[2] or b[1] < a[1] < b[2]


def _meeting(one: str, ours: Patch, a: _Place, two: str, theirs: Patch, b: _Place) -> Fact:
    path, start, end = a[0], max(a[1], b[1]), min(a[2], b[2])
    overlap = _overlap(a, b)
    left, right = _texts(a[3]), _texts(b[3])
    same = left == right
    shared = set(left) & set(right)
    where = f"{'lines' if end - start > 1 else 'line'} {start}"
    where += f" to {end - 1}" if end - start > 1 else ""
    does = "both change" if overlap else "change lines that meet at"
    says = f"{one_line(one, 80)} and {one_line(two, 80)} {does} {where} of {one_line(path, 200)}"
    says += ", in the same way." if same else "."
    spans = (
        passage(f"patch:{one}", ours.text, a[3].lines, a[4]),
        passage(f"patch:{two}", theirs.text, b[3].lines, b[4]),
    )
    about = {
        "path": path, "lines": [[a[1], a[2]], [b[1], b[2]]],
        "same": same, "shared_lines": len(shared),
        "parameters": all(_lists_parameters(one[3]) for one in (a, b)),
        "definitions": list(dict.fromkeys((*_around(a), *_around(b)))),
    }  # fmt: skip
    return Fact("hunks_overlap" if overlap else "hunks_adjoin", says, (one, two), spans, about)


def _around(place: _Place) -> list[str]:
    """Return the definitions that a hunk shows before an edit, at most two, the nearest first."""
    edit, hunk = place[3], place[4]
    before = [hunk.section]
    for line in hunk.lines:
        if line.start >= edit.lines[0].start:
            break
        before.append(line.text)
    found = [match.group(1) for text in before[-200:] if (match := _DEFINES.match(text[:300]))]
    return list(dict.fromkeys(reversed(found)))[:2]


def _lists_parameters(edit: Edit) -> bool:
    """Whether an edit only adds lines as in a list of parameters: ``unit: str = "m",``."""
    added = [line.text for line in edit.lines if line.sign == "+" and line.text.strip()]
    return bool(added) and all(_PARAMETER.fullmatch(text[:300]) for text in added)


def _texts(edit: Edit) -> list[str]:
    """Return what an edit writes: its added lines, or its removed ones if it only removes."""
    added = [line.text for line in edit.lines if line.sign == "+"]
    return added or [line.text for line in edit.lines]
