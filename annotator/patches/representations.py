"""Where two patches give one thing of Python two representations: shapes, names, signatures.

The idea of the conflict detector of The Specification Gap (arXiv 2603.24284): two agents who write
one class without agreeing on it keep its state in incompatible ways. A diff shows fragments, so
each hunk is made to parse with ``ast``, and what it adds is collected as evidence; two patches
conflict where no reading of one's evidence fits the other's.
"""

import itertools
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from annotator.patches.clues import MOST_CLUES, Call, Clue, Clues
from annotator.patches.diff import Line, Patch
from annotator.patches.fragments import Words, find_common_names
from annotator.patches.value_forms import Forms

MOST_SHOWN = 4  # lines that show one use

Attributes = dict[str, dict[str, list[Clue]]]  # by name: how it "begins", "fills", "reads"
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
        clues = [Clues(*sides, names) for sides in (words, words[::-1])]
    conflicts = [*_misfits(*clues), *_signatures(*clues), *_names(*clues)]
    classes = {(x.path, x.name) for x in conflicts if x.kind == "class"}
    shapes = {(x.path, x.scope, x.name) for x in conflicts if x.kind == "shape"}
    conflicts.sort(key=lambda x: sorted((x.ours.says, x.theirs.says)))  # alike if swapped
    unique = {(x.path, x.scope, x.name, x.kind): x for x in conflicts}
    return [
        x
        for key, x in sorted(unique.items())
        if key[:2] not in classes and not (x.kind == "element" and key[:3] in shapes)
    ]


def _use(says: str, lines: Iterable[Line]) -> Use:
    every = {line.start: line for line in lines}
    return Use(says, tuple(every[n] for n in sorted(every)[:MOST_SHOWN]))


def _misfits(ours: Clues, theirs: Clues) -> Iterator[Conflict]:
    """Yield the things of which the clues of both patches do not fit together."""
    for what, key in sorted(ours.evidence.keys() | theirs.evidence.keys()):
        sides = [x.evidence.get((what, key), [])[:MOST_CLUES] for x in (ours, theirs)]
        later = what.removesuffix("keys") + "sets", key
        match what.partition("."):
            case "shape" | "result" | "class" as root, _, step if not step.endswith("sets"):
                if step.endswith("keys"):
                    sets = [clue for x in (ours, theirs) for clue in x.evidence.get(later, ())]
                    sides = _find_lacks(sides, sets) or _find_lacks(sides[::-1], sets)[::-1]
                else:
                    sides = (_find_moves if step.endswith("order") else _find_misfits)(*sides)
                if sides:
                    kind: Kind = "element" if root == "shape" and step else root
                    uses = [_use(x[0].says, (line for y in x for line in y.lines)) for x in sides]
                    yield Conflict(kind, *key, *uses)


def _find_misfits(ours: list[Clue], theirs: list[Clue]) -> list[list[Clue]]:
    """Return the clues if no form suits all of them, and one of them gives the thing its form."""
    sides = [sorted(side, key=lambda clue: not clue.made) for side in (ours, theirs)]
    made = all(sides) and (sides[0][0].made or sides[1][0].made)
    return sides if made and not _forms(sides[0]) & _forms(sides[1]) else []


def _find_lacks(sides: list[list[Clue]], sets: list[Clue]) -> list[list[Clue]]:
    """Return the records of one patch, and where the other reads a key that they lack."""
    given = [clue for clue in sides[0] if clue.made]
    keys = frozenset().union(*(clue.forms for clue in given + sets))
    reads = [clue for clue in sides[1] if not clue.made and not clue.forms <= keys]
    return [given, reads] if given and reads and "*" not in keys else []


def _find_moves(ours: list[Clue], theirs: list[Clue]) -> list[list[Clue]]:
    """Return a tuple of each patch in which two names have changed places."""
    moves = []
    for mine, other in itertools.product(ours, theirs):
        names = [next(iter(clue.forms)).split() for clue in (mine, other)]
        orders = [[x for x in names[n] if x != "-" and x in names[1 - n]] for n in (0, 1)]
        if orders[0] and orders[0] == orders[1]:
            return []
        if (mine.made or other.made) and orders[0] and sorted(orders[0]) == sorted(orders[1]):
            moves = [[mine], [other]]
    return moves


def _forms(clues: list[Clue]) -> Forms:
    """Return the forms that all evidence of a patch allows; if there are none, all it speaks of."""
    forms = [clue.forms for clue in clues]
    return frozenset.intersection(*forms) or frozenset().union(*forms)


def _signatures(ours: Clues, theirs: Clues) -> Iterator[Conflict]:
    """Yield the functions that one patch defines otherwise than the other defines or calls them."""
    for mine, other in ((ours, theirs), (theirs, ours)):
        for key, defined in mine.defined.items():
            rival = other.defined.get(key)
            if not defined or (key in other.defined and not rival):
                continue
            if rival and not (rival.new and defined.new):  # each may add what it needs
                least = defined.least, rival.least
                refused = not (defined.takes_names(least[1]) or rival.takes_names(least[0]))
                calls = [rival.least] if refused and mine is ours else []
            else:
                calls = [*([rival.least] if rival else []), *_calls(other, *key)]
                calls = [call for call in calls if not defined.takes(call)]
            for call in calls[:1]:
                uses = [_use(x.says, x.lines) for x in (defined.least, call)]
                yield Conflict("signature", *key, *(uses if mine is ours else uses[::-1]))


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
        (path, scope, _), role = key, key[2].partition(" keeps ")[2]
        sides = [
            {name: x for x in mine.evidence[what, key] for name in x.forms
             if mine.words.new(path, name, other.words) and (scope, name) not in mine.calls
             and not (role and ("moves", (path, scope, name)) in mine.evidence)}
            for mine, other in ((ours, theirs), (theirs, ours)) if what == "names"
        ]  # fmt: skip
        if [len(side) for side in sides] == [1, 1]:
            names = sorted(name for side in sides for name in side)
            if not role or any(_words(role) & _words(name) for name in names):
                uses = [_use(x.says, x.lines) for side in sides for x in side.values()]
                yield Conflict("names", path, scope, " / ".join(names), *uses)
    classes = _attributes(ours, theirs), _attributes(theirs, ours)
    for path, scope in sorted(classes[0].keys() & classes[1].keys()):
        both = [side[path, scope] for side in classes]
        twins = _twins(both[0], both[1], (path, scope) in ours.whole | theirs.whole)
        orphans = [*_orphans(*both), *(pair[::-1] for pair in _orphans(*both[::-1]))]
        for pair in [*twins, *orphans]:
            parts = [
                [y for x in side[n].values() for y in x] for side, n in zip(both, pair, strict=True)
            ]
            uses = [_use(x[0].says, (line for y in x for line in y.lines)) for x in parts]
            yield Conflict("names", path, scope, " / ".join(sorted(pair)), *uses)


def _words(name: str) -> set[str]:
    return {word.removesuffix("s") for word in name.split("_")} - {""}


def _attributes(mine: Clues, other: Clues) -> dict[tuple[str, str], Attributes]:
    """Return the attributes that are there by one patch alone, by class and name."""
    classes: dict[tuple[str, str], Attributes] = defaultdict(dict)
    for (what, key), clues in sorted(mine.evidence.items(), key=lambda item: item[0]):
        path, scope, name = key
        if what not in ("begins", "fills", "reads") or name[:2] == "__":
            continue
        method = any(x.words.defines(path, name) for x in (mine, other))
        if (
            not method
            and (scope, name) not in mine.calls
            and mine.words.new(path, name, other.words)
        ):
            uses = mine.evidence.get(("shape", key))
            attribute = classes[path, scope].setdefault(name, {})
            attribute[what] = clues
            if uses and (path, scope) in mine.whole | other.whole:
                attribute.setdefault("begins", [uses[0]._replace(forms=_forms(uses), made=False)])
    return classes


def _twins(ours: Attributes, theirs: Attributes, whole: bool) -> Iterator[list[str]]:
    """Yield the pairs of names that differ only in underscores."""
    names = {name.replace("_", ""): name for name in theirs}
    for name, clues in ours.items():
        other = names.get(name.replace("_", ""))
        if other and (whole or ("begins" in clues and "begins" in theirs[other])):
            yield [name, other]


def _orphans(ours: Attributes, theirs: Attributes) -> Iterator[list[str]]:
    """Yield what ours reads and never fills, with what theirs fills, if both begin alike."""
    orphans = [name for name, x in ours.items() if {*x} == {"begins", "reads"}]
    for name in orphans if len(orphans) == 1 else []:
        begins = ours[name]["begins"][0]
        filled = [
            (other, x["begins"][0].forms) for other, x in theirs.items()
            if {*x} >= {"begins", "fills"} and x["begins"][0].made
            and x["begins"][0].forms <= begins.forms
        ]  # fmt: skip
        sure = begins.made and name.startswith("_")  # other numbers may come from elsewhere
        if len(filled) == 1 and (sure or filled[0][1] != {"number"}):
            yield [name, filled[0][0]]
