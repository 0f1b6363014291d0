"""The three-way merge of one file by git, as far as two patches show the file.

The base is rebuilt from the lines that the two patches show, and ``git merge-file`` run on it. A
merge only compares lines, so each is written as a code that stands for its content: nothing of a
trace is written to disk, and no line of it can be taken for a conflict marker.
"""

import re
import shutil
import subprocess
import tempfile
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from os import devnull
from pathlib import Path
from sys import maxsize
from typing import NamedTuple

from annotator.facts.model import Span
from annotator.facts.patches import passage
from annotator.patches.diff import Edit, File, Hunk, Line, Patch
from annotator.text import one_line

MOST_SIDE = 2_000_000  # characters of one version of a file
MOST_CONFLICTS = 127  # that git counts
LONGEST_RUN = 5.0  # seconds of one run of git
LONGEST_TRACE = 20.0  # seconds of all runs for one trace

_MOST_STEPS = 100  # lines that a change is followed along
_ALNUM = re.compile(r"[0-9A-Za-z]")
_MARKS = str.maketrans("0123456789", "!#$%&()*+,")


class NotKnownError(Exception):
    """Says why it is not known what a merge gives."""


class Change(NamedTuple):
    """The base lines ``start`` to before ``end``, what replaces them, and where that stands."""

    start: int
    end: int
    added: tuple[str, ...]
    edit: Edit
    hunk: Hunk


@dataclass(slots=True)
class FileSide:
    """What one agent's patch does to one file, and what it shows of it: base lines by number.

    ``near``: numbers of base lines beside its hunks. ``last``: the last base line, if it tells.
    """

    agent: str
    patch: Patch
    file: File
    lines: dict[int, str] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    near: set[int] = field(default_factory=set)
    last: int | None = None

    @property
    def whose(self) -> str:
        """The agent's name, fit to be shown, in the genitive."""
        return f"{one_line(self.agent, 80)}'s"

    def passage(self, lines: Sequence[Line], hunk: Hunk) -> Span:
        """Return the passage of some lines of a hunk."""
        return passage(f"patch:{self.agent}", self.patch.text, lines, hunk)


Meeting = tuple[Change, Change]


class Merged(NamedTuple):
    """The number of conflicts, the changes that meet, and what a union merge keeps of each side."""

    conflicts: int
    meetings: list[Meeting]
    kept: tuple[int, int] | None


def merge(git: "Git", ours: FileSide, theirs: FileSide) -> Merged:
    """Merge two sides' changes of a file; raise if what comes out is not certain.

    Where lines repeat, git may match them in another way than the patches do, or in the whole file
    in another way than in what is known of it. What it gives is taken for certain if it finds
    conflicts where the patches' own changes meet, and unknown lines cannot make others meet.
    """
    if ours.file.new != theirs.file.new:
        first, second = (ours, theirs) if ours.file.new else (theirs, ours)
        raise NotKnownError(f"{first.whose} patch creates it and {second.whose} patch changes it")
    _look(ours)
    _look(theirs)
    base = _base(ours, theirs)
    texts = [_applied(base, ours.changes), list(base.values()), _applied(base, theirs.changes)]
    _check_texts(texts)
    left, right = ours.changes, theirs.changes
    if _may_meet(base, left, right) or _may_meet(base, right, left):
        raise NotKnownError("lines that no patch shows could move one change to another")
    codes = _Codes()
    coded = [[codes[line] for line in text] for text in texts]
    conflicts, _ = git.merge(coded)
    meetings = list(_meetings(left, right))
    if bool(conflicts) != bool(meetings):
        raise NotKnownError("lines repeat, and git matches them in another way than the patches")
    kept = _kept(git, coded, codes, ours, theirs) if conflicts else None
    return Merged(conflicts, meetings, kept)


def _look(side: FileSide) -> None:
    """Read what the hunks of a side show; raise if they are not in order."""
    text, following, widest, trailing = side.patch.text, 1, 0, 0
    for hunk in side.file.hunks:
        start = hunk.old_start + (hunk.old_count == 0)  # "-5,0" stands behind line 5
        if start < following:
            raise NotKnownError(f"the hunks of {side.whose} patch are not in order")
        following = start + hunk.old_count
        side.near |= {start - 2, start - 1, following, following + 1}
        for line in hunk.lines:
            if line.sign != "+":
                side.lines[line.old] = _content(text, line)
        for edit in hunk.edits():
            added = tuple(_content(text, line) for line in edit.lines if line.sign == "+")
            side.changes.append(Change(edit.start, edit.end, added, edit, hunk))
        trailing = _context(reversed(hunk.lines))
        shows = any(line.sign == " " for line in hunk.lines)
        widest = max(widest, _context(hunk.lines), trailing, shows)
    if side.file.new:
        side.last = 0
    # A hunk that ends with fewer lines of context than others have ends with the file.
    elif side.file.hunks and (
        side.file.deleted
        or following == 1
        or trailing < widest
        or not side.lines.get(following - 1, "\n").endswith("\n")
    ):
        side.last = following - 1


def _content(text: str, line: Line) -> str:
    """Return a line as it stands in the file, with its carriage return and its newline if any."""
    end = text.find("\n", line.end)
    end = len(text) if end < 0 else end
    newline = "" if text.startswith("\\", end + 1) else "\n"
    return line.text + text[line.end : end] + newline


def _context(lines: Iterable[Line]) -> int:
    return sum(1 for _ in takewhile(lambda line: line.sign == " ", lines))


def _base(ours: FileSide, theirs: FileSide) -> dict[int, str]:
    """Return the base lines by number: those that are shown, and two unknown ones beside each hunk.

    The others do not matter, as git joins conflicts that are at most three lines apart.
    """
    for number in ours.lines.keys() & theirs.lines.keys():
        if ours.lines[number] != theirs.lines[number]:
            raise NotKnownError(f"the patches do not agree about line {number}")
    last = min((side.last for side in (ours, theirs) if side.last is not None), default=None)
    shown = (change.end - 1 for side in (ours, theirs) for change in side.changes)
    if last is not None and max((*ours.lines, *theirs.lines, *shown), default=0) > last:
        raise NotKnownError("the patches do not agree about where it ends")
    near = (n for n in ours.near | theirs.near if n > 0 and (last is None or n <= last))
    base = {number: f"\n{number}\n" for number in near} | ours.lines | theirs.lines
    return dict(sorted(base.items()))


def _applied(base: Mapping[int, str], changes: list[Change]) -> list[str]:
    """Return the lines of a base after some changes."""
    old, lines, at = list(base.values()), list[str](), 0
    index = _index(base)
    for change in changes:
        lines += old[at : index[change.start]]
        lines += change.added
        at = index[change.end]
    return lines + old[at:]


def _index(base: Mapping[int, str]) -> dict[int, int]:
    """Return where each line stands among those that are left of the base, and where these end."""
    return {number: n for n, number in enumerate((*base, max(base, default=0) + 1))}


def _check_texts(texts: list[list[str]]) -> None:
    """Raise if a text is none, or none that git merges line by line."""
    for text in texts:
        if any(not line.endswith("\n") for line in text[:-1]):
            raise NotKnownError("the patches do not agree about where it ends")
        if any("\0" in line for line in text):
            raise NotKnownError("it has NUL characters, by which git takes it for binary")


def _may_meet(base: Mapping[int, str], ours: list[Change], theirs: list[Change]) -> bool:
    """Whether one of our changes may come to stand at another change, depending on unknown lines.

    With ``a b`` inserted before ``a b``, no one can say which of the two is new. git takes the
    last, so that a change goes down as long as the lines below repeat it.
    """
    numbers, index = list(base), _index(base)
    ends = [change.end for change in theirs]
    for n, one in enumerate(ours):
        removed = [base[number] for number in range(one.start, one.end)]
        first, behind = index[one.start], index[one.end]
        below = numbers[behind : behind + _MOST_STEPS]
        above = numbers[max(first - _MOST_STEPS, 0) : first][::-1]
        for group in filter(None, (removed, one.added)):
            if down := _drift(base, group, one.end, below):
                start, end = down[0] - len(removed), down[1] or maxsize
                other = bisect_left(ends, start)
                following = (*theirs[other : other + 1], *ours[n + 1 : n + 2])
                if any(change.start <= end for change in following):
                    return True
            up = _drift(base, group, one.start, above)
            if up and n and ours[n - 1].end >= up[1]:
                return True
    return False


def _drift(
    base: Mapping[int, str], group: Sequence[str], origin: int, way: list[int]
) -> tuple[int, int] | None:
    """Return the first unknown line that a group may reach, and the line where it stops or 0.

    ``way`` are the base lines from ``origin`` up or down. None if all to where it stops is known.
    """
    unknown = 0
    for number in way:
        if _is_unknown(base[number]):
            unknown = unknown or number
        elif base[number] != group[(number - origin) % len(group)]:
            return (unknown, number) if unknown else None
    if len(way) == _MOST_STEPS:
        unknown = unknown or way[-1]
    return (unknown, 0) if unknown else None


def _is_unknown(line: str) -> bool:
    return line.startswith("\n") and len(line) > 1


def _meetings(ours: list[Change], theirs: list[Change]) -> Iterator[Meeting]:
    """Yield the changes that overlap or adjoin and are not the same, where git sees a conflict."""
    i, j = 0, 0
    while i < len(ours) and j < len(theirs):
        one, two = ours[i], theirs[j]
        if one.start <= two.end and two.start <= one.end and one[:3] != two[:3]:
            yield one, two
        if one.end < two.end:
            i += 1
        else:
            j += 1


def _kept(
    git: "Git", coded: list[list[str]], codes: "_Codes", ours: FileSide, theirs: FileSide
) -> tuple[int, int]:
    """Return how many of the lines that each side adds a union merge keeps."""
    there = Counter(git.merge(coded, "--union")[1].split("\n"))
    left, right = (
        Counter(codes[line] for change in side.changes for line in change.added)
        for side in (ours, theirs)
    )
    return (left & there).total(), (right & there).total()


class _Codes(dict[str, str]):
    """A code for each line: equal for equal lines, and with letters or digits as the line is.

    git joins conflicts across lines that have neither.
    """

    def __missing__(self, line: str) -> str:
        code = str(len(self))
        self[line] = f"x{code}" if _ALNUM.search(line) else code.translate(_MARKS)
        return self[line]


class Git:
    """Runs git in an empty folder, without anybody's settings, for a limited time in all."""

    def __init__(self) -> None:
        self._program = shutil.which("git")
        self._until = time.monotonic() + LONGEST_TRACE

    def merge(self, texts: list[list[str]], *options: str) -> tuple[int, str]:
        """Merge ours, base and theirs; return the number of conflicts, at most 127, and the text.

        Raises if git is missing, fails or takes too long, or if a text is too long.
        """
        if self._program is None:
            raise NotKnownError("git is not installed")
        written = ["".join(f"{line}\n" for line in text) for text in texts]
        if max(map(len, written)) > MOST_SIDE:
            raise NotKnownError("it is too long")
        if time.monotonic() > self._until:
            raise NotKnownError("merging took too long")
        try:
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                names = [str(Path(folder, name)) for name in ("ours", "base", "theirs")]
                for name, text in zip(names, written, strict=True):
                    Path(name).write_text(text, encoding="ascii", newline="\n")
                done = self._run(folder, "merge-file", "-p", *options, *names)
        except subprocess.TimeoutExpired:
            raise NotKnownError("git took too long") from None
        except OSError:
            raise NotKnownError("git could not be run") from None
        if not 0 <= done.returncode <= MOST_CONFLICTS:
            raise NotKnownError("git failed")
        return done.returncode, done.stdout

    def _run(self, folder: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        clean = {
            "PATH": str(Path(str(self._program)).parent), "LC_ALL": "C",
            "GIT_CONFIG_GLOBAL": devnull, "GIT_CONFIG_SYSTEM": devnull, "GIT_CONFIG_NOSYSTEM": "1",
            # No repository above the folder has a say.
            "GIT_CEILING_DIRECTORIES": str(Path(folder).resolve().parent),
        }  # fmt: skip
        return subprocess.run(  # noqa: S603
            [str(self._program), *arguments], cwd=folder, env=clean, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False,
            timeout=LONGEST_RUN,
        )  # fmt: skip
