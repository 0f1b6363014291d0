"""Unified diffs as typed files, hunks and lines, with their offsets in the text.

Read by our own linear reader. ``unidiff`` and its like raise at the first hunk whose counts are
wrong, losing all that follows, know no offsets in the text, and take longer.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from annotator.base.text import replace_surrogates

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@ ?(.*)")
_SIGNS = frozenset("+- ")


class Line(NamedTuple):
    """One line of a hunk: ``sign`` is ``+``, ``-`` or a space, ``text`` the line without it.

    ``start`` to before ``end`` is the line with its sign in the text of the patch. ``old`` is its
    number in the base; of an added line, that of the line that follows.
    """

    sign: str
    text: str
    start: int
    end: int
    old: int


class Edit(NamedTuple):
    """A run of changed lines: the base lines ``start`` to before ``end``, and what replaced them.

    An insertion has ``start == end`` and comes before base line ``start``.
    """

    start: int
    end: int
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Hunk:
    """One hunk. ``start`` to before ``end`` is its ``@@`` line in the text of the patch.

    ``section`` is what git writes after the numbers of the header, often the definition around the
    hunk. ``complete``: the lines are as many as the header says.
    """

    start: int
    end: int
    old_start: int
    section: str
    lines: tuple[Line, ...]
    complete: bool = True

    def edits(self) -> Iterator[Edit]:
        """Yield the runs of changed lines, in order."""
        run: list[Line] = []
        for line in self.lines:
            if line.sign != " ":
                run.append(line)
            elif run:
                yield _make_edit(run)
                run = []
        if run:
            yield _make_edit(run)


@dataclass(slots=True)
class File:
    """The changes of one file; a patch may hold several of these for one path.

    ``path`` is the name after the change (before it, for a deleted file; "" if none is given),
    ``old_path`` the name before it. ``named``: by a "---" line, which comes once.
    """

    old_path: str = ""
    path: str = ""
    hunks: list[Hunk] = field(default_factory=list)
    deleted: bool = False
    binary: bool = False
    named: bool = False

    def finish(self) -> None:
        """Set the names when all lines are read."""
        self.deleted |= self.path == "/dev/null"
        old, new = ("" if name == "/dev/null" else name for name in (self.old_path, self.path))
        self.path = new or old
        self.old_path = old or self.path


@dataclass(frozen=True, slots=True)
class Patch:
    """A unified diff. ``unread``: the characters of malformed parts."""

    text: str
    files: tuple[File, ...] = ()
    unread: int = 0

    @property
    def hunks(self) -> Iterator[Hunk]:
        """The hunks of all files, in order."""
        return (hunk for file in self.files for hunk in file.hunks)


@lru_cache(maxsize=4)  # of one trace: every module of facts asks for the same few
def parse_patch(text: str) -> Patch:
    """Parse a unified diff; any other text has no files.

    A hunk with wrong counts is not ``complete``; one with an invalid header counts as unread.
    """
    return _LineReader(text).patch()


def is_same_path(name: str, other: str) -> bool:
    """Whether two paths can name one file: equal, or one ends in the other by whole folders."""
    name, other = (f"/{path.strip().removeprefix('./').strip('/')}" for path in (name, other))
    return "/" not in (name, other) and (name.endswith(other) or other.endswith(name))


def _make_edit(lines: list[Line]) -> Edit:
    removed = sum(line.sign == "-" for line in lines)
    return Edit(lines[0].old, lines[0].old + removed, tuple(lines))


class _LineReader:
    """Reads the lines of one patch from the first to the last, each once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.split("\n")
        if self.lines and not self.lines[-1]:
            self.lines.pop()  # what follows the last newline is no line
        self.unread = 0
        self.at = 0  # the offset of line number n
        self.n = 0
        self.files: list[File] = []

    def patch(self) -> Patch:
        unclear = False  # behind a hunk header that is not understood
        while self.n < len(self.lines):
            line = self.lines[self.n]
            if line.startswith("@@"):
                unclear = not self._hunk(line)
            elif self._header(line):
                unclear = False
            if unclear:
                self.unread += len(line) + 1
            if not line.startswith("@@") or unclear:
                self._next()
        for file in self.files:
            file.finish()
        unread = self.unread if self.files or not self.text.strip() else len(self.text)
        return Patch(self.text, tuple(self.files), min(unread, len(self.text)))

    def _next(self) -> None:
        self.at += len(self.lines[self.n]) + 1
        self.n += 1

    def _header(self, line: str) -> bool:
        """Read a line outside of hunks; return whether it begins a file."""
        last = self.files[-1] if self.files else None
        line = line.removesuffix("\r")
        if line.startswith("diff --git "):
            self.files.append(File(*_parse_git_names(line[11:])))
        elif line.startswith("--- ") and self._names_file():
            if last is None or last.named or last.hunks or last.binary:
                last = File()
                self.files.append(last)
            last.named = True
            last.old_path = _clean_path(line[4:], "a/")
        elif line.startswith("+++ ") and last and not last.hunks:
            last.path = _clean_path(line[4:], "b/")
        elif line.startswith("Binary files ") and line.rstrip().endswith(" differ"):
            if last is None or last.hunks or last.binary or last.named:
                last = File()
                self.files.append(last)
            names = line[len("Binary files ") :].rstrip().removesuffix(" differ")
            old, _, new = names.partition(" and ")
            last.old_path, last.path = _clean_path(old, "a/"), _clean_path(new, "b/")
            last.binary = True
        else:
            if last and not last.hunks:
                _read_extended_header(last, line)
            return False
        return True

    def _names_file(self) -> bool:
        """Whether the line before the next is a file's ``---`` line."""
        following = self.lines[self.n + 1] if self.n + 1 < len(self.lines) else ""
        return following.startswith(("+++ ", "@@ -"))

    def _ends_early(self, n: int) -> bool:
        """Whether line ``n``, which looks removed, is the next file's: no hunk has an ``@@``."""
        new_name, header = (*self.lines[n + 1 : n + 3], "", "")[:2]
        return new_name.startswith("+++ ") and header.startswith("@@ -")

    def _hunk(self, header: str) -> bool:
        """Read a hunk if its header is understood; return whether it is."""
        match = _HUNK.match(header)
        if not match:
            return False
        if not self.files:
            self.files.append(File())
        start, end = self.at, self.at + len(header.removesuffix("\r"))
        old, old_count, new_count = (int(match[n] or 1) for n in (1, 2, 3))
        self._next()
        # "-5,0" comes after line 5.
        lines, complete = self._body(old + (old_count == 0), old_count, new_count)
        section = match[4].removesuffix("\r")
        self.files[-1].hunks.append(Hunk(start, end, old, section, tuple(lines), complete))
        return True

    def _body(self, old: int, old_left: int, new_left: int) -> tuple[list[Line], bool]:
        """Read the lines of a hunk; what follows its counts is its own if it has a sign."""
        body: list[Line] = []
        lines, at = self.lines, self.at
        for n in range(self.n, len(lines) + 1):
            line = lines[n] if n < len(lines) else "@@"
            sign = line[:1]
            if sign == "\\":  # "\ No newline at end of file"
                at += len(line) + 1
                continue
            if old_left > 0 or new_left > 0:
                if not sign or sign == "\r":
                    sign = " "  # an empty line whose blank was stripped
                elif sign == "-" and line.startswith("--- ") and self._ends_early(n):
                    break
            elif line.startswith(("--", "+++ ")):
                break
            if sign not in _SIGNS:
                break
            end = at + len(line)
            if line[-1:] == "\r":
                line, end = line[:-1], end - 1
            body.append(Line(sign, line[1:], at, end, old))
            at += len(lines[n]) + 1
            if sign != "+":
                old, old_left = old + 1, old_left - 1
            if sign != "-":
                new_left -= 1
        self.n, self.at = n, at
        return body, old_left == 0 and new_left == 0


def _read_extended_header(file: File, line: str) -> None:
    if line.startswith(("rename from ", "copy from ")):
        file.old_path = _clean_path(line.partition(" from ")[2], "")
    elif line.startswith(("rename to ", "copy to ")):
        file.path = _clean_path(line.partition(" to ")[2], "")
    elif line.startswith("deleted file mode"):
        file.deleted = True
    elif line == "GIT binary patch":
        file.binary = True


def _parse_git_names(names: str) -> tuple[str, str]:
    """Return the two paths of a ``diff --git`` line, whose blanks are not quoted."""
    middle = len(names) // 2
    if names[middle : middle + 1] == " " and names[2:middle] == names[middle + 3 :]:
        return _clean_path(names[:middle], "a/"), _clean_path(names[middle + 1 :], "b/")
    for separator in (' "b/', " b/"):
        old, mark, new = names.partition(separator)
        if mark:
            return _clean_path(old, "a/"), _clean_path(separator[1:] + new, "b/")
    old, _, new = names.partition(" ")
    return _clean_path(old, "a/"), _clean_path(new, "b/")


def _clean_path(name: str, prefix: str) -> str:
    """Return a path as it is in the repository: unquoted, without git's prefix and a time."""
    name = name.partition("\t")[0].strip()
    if len(name) > 1 and name[0] == name[-1] == '"':
        name = _unquote(name[1:-1])
    return replace_surrogates(name.removeprefix(prefix) if prefix else name)


def _unquote(name: str) -> str:
    """Return a path that git has quoted as in C: its octal escapes are bytes of UTF-8."""
    try:
        plain = name.encode("latin-1").decode("unicode_escape")
        return plain.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return name
