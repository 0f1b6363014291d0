"""The names in the lines of a patch's Python files: they tell without parsing what may meet."""

import re
from collections.abc import Iterable, Iterator
from functools import cached_property

from annotator.patches.diff import File, Line, Patch

_TESTS = re.compile(r"(?:^|/)(?:tests?/|test_|conftest\.py$|[^/]*_test\.py$)")
_NAMED = re.compile(
    r"\b(?:self|cls)\.(\w+)(?:[^=\n]*=\s*(?:\w+\.)*(\w+))?|\b(?:def|class) (\w+)"
    r"|^(?: {4}|\t)?(\w+)\s*(?::[ \t]*\w|=(?!=))",
    re.MULTILINE,
)
_DEFINED = re.compile(r"^[ \t]*(?:async )?(?:def|class) (\w+)", re.MULTILINE)
_ATTRIBUTE = re.compile(r"\b(?:self|cls)\.(\w+)")
_IMPORT = re.compile(r"^\s*(?:from .*)?import (.*)", re.MULTILINE)
_IDLE = frozenset(["", "None", "True", "False", "self"])


def python_files(patch: Patch) -> list[File]:
    """Return the Python files that a patch changes, but for deleted ones and tests."""
    return [
        one for one in patch.files
        if one.path.endswith(".py") and not (one.deleted or _TESTS.search(one.path))
    ]  # fmt: skip


class Words:
    """The names in the files of one patch, by path."""

    def __init__(self, files: list[File]) -> None:
        self.files = files
        self.added = {path: _text(lines) for path, lines in self._lines("+")}
        self.defined = {path: set(_DEFINED.findall(text)) for path, text in self.added.items()}

    def _lines(self, signs: str) -> Iterator[tuple[str, list[Line]]]:
        found: dict[str, list[Line]] = {one.path: [] for one in self.files}
        for file in self.files:
            for hunk in file.hunks:
                found[file.path] += [line for line in hunk.lines if line.sign in signs]
        yield from found.items()

    @cached_property
    def texts(self) -> set[str]:
        """The added lines, stripped."""
        return {line.strip() for text in self.added.values() for line in text.split("\n")}

    @cached_property
    def named(self) -> dict[str, set[str]]:
        """Attributes, fields, definitions, and what attributes are given, in added lines."""
        found = {path: _NAMED.findall(text) for path, text in self.added.items()}
        return {path: {name for names in every for name in names} for path, every in found.items()}

    @cached_property
    def removed(self) -> set[tuple[str, str]]:
        """Definitions that are taken away or rewritten, by path and name."""
        removed = ((path, _text(lines)) for path, lines in self._lines("-"))
        return {(path, name) for path, text in removed for name in _DEFINED.findall(text)}

    @cached_property
    def base(self) -> dict[str, set[str]]:
        """Attributes that the base has."""
        return {path: set(_ATTRIBUTE.findall(_text(lines))) for path, lines in self._lines(" -")}

    @cached_property
    def imported(self) -> dict[str, set[str]]:
        """Names in imports on one line."""
        every = ((path, _IMPORT.findall(_text(lines))) for path, lines in self._lines(" +"))
        return {path: set(re.findall(r"\w+", " ".join(found))) for path, found in every}

    def meeting(self, other: "Words") -> set[str]:
        """Return the names for which a hunk of either is worth parsing.

        They stand in added lines of both patches, in one file, or are defined in one and called,
        or as a class defined, in the other.
        """
        found = _called(self, other) | _called(other, self)
        one, two = (set().union(*x.defined.values()) for x in (self, other))
        found |= {name for name in one & two if name[:1].isupper()}
        if any(path in other.added for path in self.added):
            for path in self.named.keys() & other.named.keys():
                found |= self.named[path] & other.named[path]
        return found - _IDLE


def _called(one: Words, two: Words) -> set[str]:
    names: set[str] = set().union(*one.defined.values())
    return {name for name in names if any(f"{name}(" in text for text in two.added.values())}


def _text(lines: Iterable[Line]) -> str:
    return "\n".join([line.text for line in lines])
