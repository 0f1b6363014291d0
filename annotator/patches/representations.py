"""Where two patches give one thing of Python two representations: shapes, names, signatures.

The idea of the conflict detector of The Specification Gap (arXiv 2603.24284): two agents who write
one class without agreeing on it keep its state in incompatible ways. A diff shows fragments, so
each hunk is made to parse with ``ast``, and what it adds is collected as evidence; two patches
conflict where no reading of one's evidence fits the other's.
"""

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from annotator.patches.clues import Call, Clue, Clues
from annotator.patches.diff import Line, Patch
from annotator.patches.fragments import Words, find_common_names
from annotator.patches.value_forms import Forms

MOST_SHOWN = 4  # lines that show one use

Kind = Literal["shape", "element", "result", "signature", "names", "class"]


class Use(NamedTuple):
    """What a patch makes of a thing, and at most 4 lines, added by it alone, that show it."""

    says: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Conflict:
    """One thing with two representations; ``scope`` is the class with those around it, or "".

    ``kind``: the ``shape`` of an attribute, of an ``element`` of it or of the ``result`` of a
    function; a ``signature``; two ``names`` for one role (``name`` holds both, "a / b"); what kind
    of ``class`` or with which fields.
    """

    kind: Kind
    path: str
    scope: str
    name: str
    ours: Use
    theirs: Use


def representation_conflicts(ours: Patch, theirs: Patch) -> list[Conflict]:
    """Return where two patches cannot both be right about a thing, by path, scope and name.

    Read are the Python files, but for tests, that both patches touch or whose functions and classes
    the other names: of each patch 200 hunks, none of more than 5,000 lines. Never raises: what does
    not parse, or nests too deeply, is not read. Swapping the patches swaps the uses, and a patch
    has no conflict with itself.
    """
    words = Words(ours, theirs), Words(theirs, ours)
    names = find_common_names(*words)
    if not names:
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a string with an invalid escape
        clues = [Clues(side, names) for side in words]
    conflicts = [*_misfits(*clues), *_signatures(*clues), *_names(*clues)]
    classes = {(x.path, x.name) for x in conflicts if x.kind == "class"}
    conflicts.sort(key=lambda x: sorted((x.ours.says, x.theirs.says)))  # alike if swapped
    unique = {(x.path, x.scope, x.name, x.kind): x for x in conflicts}
    return [x for key, x in sorted(unique.items()) if key[:2] not in classes]


def _use(says: str, lines: Iterable[Line]) -> Use:
    every = {line.start: line for line in lines}
    return Use(says, tuple(every[n] for n in sorted(every)[:MOST_SHOWN]))


def _misfits(ours: Clues, theirs: Clues) -> Iterator[Conflict]:
    """Yield the things no form of which suits both patches; one of them must give it a form."""
    for what, key in sorted(ours.evidence.keys() & theirs.evidence.keys()):
        sides = [
            sorted(x.evidence[what, key], key=lambda clue: not clue.made) for x in (ours, theirs)
        ]
        if (sides[0][0].made or sides[1][0].made) and not _forms(sides[0]) & _forms(sides[1]):
            uses = [_use(side[0].says, (x for clue in side for x in clue.lines)) for side in sides]
            yield Conflict("element" if what == "value" else what, *key, *uses)


def _forms(clues: list[Clue]) -> Forms:
    """Return the forms that all evidence of a patch allows; if there are none, all it speaks of."""
    forms = [clue.forms for clue in clues]
    return frozenset.intersection(*forms) or frozenset().union(*forms)


def _signatures(ours: Clues, theirs: Clues) -> Iterator[Conflict]:
    """Yield the functions that one patch defines otherwise than the other defines or calls them."""
    for mine, other in ((ours, theirs), (theirs, ours)):
        for key, defined in mine.defined.items():
            rival = other.defined.get(key)
            if not defined or (key in other.defined and not (rival and rival.new and defined.new)):
                continue  # each may add what it needs to a function of the base
            for call in [*([rival.least] if rival else []), *_calls(other, *key)]:
                if not defined.takes(call):
                    uses = [_use(x.says, x.lines) for x in (defined.least, call)]
                    yield Conflict("signature", *key, *(uses if mine is ours else uses[::-1]))
                    break


def _calls(user: Clues, path: str, scope: str, name: str) -> Iterator[Call]:
    """Yield the calls of a function: of ``self``, or of a name that is known there."""
    if scope and name == "__init__":
        scope, name = "", scope.rpartition(".")[2]
    calls = user.calls.get((scope, name), [])
    elsewhere = {file for file, _ in calls if not scope} - {path}
    importing = {path, *(file for file in elsewhere if name in user.words.imports(file))}
    yield from (call for file, call in calls if file in importing)


def _names(ours: Clues, theirs: Clues) -> Iterator[Conflict]:
    """Yield the attributes that are new in each patch and have one role under two names."""
    for what, key in sorted(ours.evidence.keys() & theirs.evidence.keys()):
        (path, scope, _), role = key, key[2].partition(" keeps ")[2].strip("_")
        sides = [
            {name: x for x in mine.evidence[what, key] for name in x.forms
             if mine.words.new(path, name, other.words) and (scope, name) not in mine.calls}
            for mine, other in ((ours, theirs), (theirs, ours)) if what == "names"
        ]  # fmt: skip
        if [len(side) for side in sides] == [1, 1]:
            names = sorted(name for side in sides for name in side)
            if any(role in name or name.strip("_") in role for name in names):
                uses = [_use(x.says, x.lines) for side in sides for x in side.values()]
                yield Conflict("names", path, scope, " / ".join(names), *uses)
