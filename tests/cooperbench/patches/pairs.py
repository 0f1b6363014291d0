"""Pairs of patches written by hand, and the conflicts of representation a reader finds in them.

Each text shows both patches over one base, a line's first character telling whose it is:

    " "  a line of the base        "<"  ours adds it       ">"  theirs adds it    "="  both add it
    "-"  both remove it            "("  ours removes it    ")"  theirs removes it

A line ``+++ name`` begins another file, ``# title`` a pair, and ``! kind scope name`` names a
conflict in it (no scope as ``-``). The pairs are in ``pairs.txt``.
"""

import difflib
import re
from pathlib import Path
from typing import NamedTuple

Expected = frozenset[tuple[str, str, str]]  # kind, scope and name of a conflict
_SECTION = re.compile(r"[A-Za-z_$]")  # what git shows behind @@ by default: the last such line
_RANGE = re.compile(r"@@ -(\d+)")


class Pair(NamedTuple):
    """Two patches over one base, and what is to be found in them."""

    title: str
    text: str
    expected: Expected = frozenset()

    @property
    def ours(self) -> str:
        return "".join(_diff(path, lines, "<=", "(-") for path, lines in _files(self.text))

    @property
    def theirs(self) -> str:
        return "".join(_diff(path, lines, ">=", ")-") for path, lines in _files(self.text))


def _files(text: str) -> list[tuple[str, list[str]]]:
    files: list[tuple[str, list[str]]] = [("app/core.py", [])]
    for line in text.strip("\n").split("\n"):
        if line.startswith("+++ "):
            files.append((line[4:], []))
        else:
            files[-1][1].append(line or " ")
    return [(path, lines) for path, lines in files if lines]


def _diff(path: str, lines: list[str], adds: str, removes: str) -> str:
    """Return the diff of one side as git writes it, three lines of context around each change."""
    old = [line[1:] for line in lines if line[0] in " (-)"]
    new = [
        line[1:]
        for line in lines
        if line[0] in adds or (line[0] in " (-)" and line[0] not in removes)
    ]
    first = f"a/{path}" if old else "/dev/null"
    shown = []
    for line in difflib.unified_diff(old, new, first, f"b/{path}", lineterm=""):
        if match := _RANGE.match(line):
            above = [one for one in old[: max(int(match[1]) - 1, 0)] if _SECTION.match(one)]
            line += f" {above[-1][:80]}" if above else ""
        shown.append(line + "\n")
    return "".join(shown)


def _pairs(text: str) -> list[Pair]:
    pairs = []
    for one in re.split(r"^# ", text, flags=re.MULTILINE)[1:]:
        title, *lines = one.rstrip("\n").split("\n")
        expected = [line[2:].split(" ", 2) for line in lines if line.startswith("! ")]
        found = frozenset((kind, scope.replace("-", ""), name) for kind, scope, name in expected)
        text = "\n".join(line for line in lines if not line.startswith("! "))
        pairs.append(Pair(title, text, found))
    return pairs


PAIRS = _pairs(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8"))
