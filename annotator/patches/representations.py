"""Where two patches give one thing of Python two representations: shapes, names, signatures.

The idea of the conflict detector of The Specification Gap (arXiv 2603.24284): two agents who write
one class without agreeing on it keep its state in incompatible ways. A diff shows fragments, so
each hunk is made to parse with ``ast``, and what it adds is collected as evidence; two patches
conflict where no reading of one's evidence fits the other's.
"""

import itertools
import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from annotator.patches.clues import MOST_CLUES, Call, Clue, Clues, Defined, Key, Thing
from annotator.patches.diff import Line, Patch
from annotator.patches.fragments import DEFINED, Words, find_common_names
from annotator.patches.value_forms import OBJECT, Forms

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
    paths = sorted(words[0].paths | words[1].paths)
    homes = {name: path for path in paths for x in words for name in x.find(DEFINED, " -+", path)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a string with an invalid escape
        clues = [Clues(*sides, names, homes) for sides in (words, words[::-1])]
    conflicts = [*_misfits(*clues), *_signatures(*clues), *_names(*clues)]
    for find in (_frozen, _gone):
        conflicts += find(*clues)
        conflicts += (replace(x, ours=x.theirs, theirs=x.ours) for x in find(*clues[::-1]))
    classes = {(x.path, x.name) for x in conflicts if x.kind == "class"}
    shapes = {(x.path, x.scope, x.name) for x in conflicts if x.kind == "shape"}
    conflicts = [x for x in conflicts if x.ours.lines and x.theirs.lines]
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


def _join(clues: list[Clue]) -> Use:
    return _use(clues[0].says, (line for x in clues for line in x.lines))


def _misfits(ours: Clues, theirs: Clues) -> Iterator[Conflict]:
    """Yield the things of which the clues of both patches do not fit together."""
    for what, key in sorted(ours.evidence.keys() | theirs.evidence.keys()):
        sides = [x.evidence.get((what, key), [])[:MOST_CLUES] for x in (ours, theirs)]
        later = what.removesuffix("keys") + "sets", key
        match what.partition("."):
            case "shape" | "result" | "class" as root, _, step if not step.endswith("sets"):
                if step.endswith("class"):
                    of = what.removesuffix(".class"), key
                    sides = _find_strangers(ours, theirs, of)
                    sides = sides or _find_strangers(theirs, ours, of)[::-1]
                elif step.endswith("keys"):
                    sets = [clue for x in (ours, theirs) for clue in x.evidence.get(later, ())]
                    sides = _find_lacks(sides, sets) or _find_lacks(sides[::-1], sets)[::-1]
                else:
                    sides = (_find_moves if step.endswith("order") else _find_misfits)(*sides)
                if sides:
                    kind: Kind = root if root != "shape" or step in ("", "class") else "element"
                    yield Conflict(kind, *key, *map(_join, sides))


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


def _find_strangers(mine: Clues, other: Clues, thing: Thing) -> list[list[Clue]]:
    """Return the objects of one patch, and where the other uses attributes that they lack."""
    given = [x for x in mine.evidence.get((f"{thing[0]}.class", thing[1]), ()) if x.made]
    names = frozenset().union(*(x.forms for x in given))
    uses = other.evidence.get(thing, [])
    members = {x.says[6:] for x in uses if x.says.startswith("sets .")}
    members = members.union(*(mine.members.get(name, ()) for name in names))
    lacks = [x for x in uses if re.match(r"has \.[^_]", x.says) and x.says[5:] not in members]
    methods = other.words.find(DEFINED, " -+", thing[1][0])
    lacks = [x for x in lacks if x.says[5:] not in methods]
    return [given, lacks] if given and lacks and names <= mine.members.keys() else []


def _find_moves(ours: list[Clue], theirs: list[Clue]) -> list[list[Clue]]:
    """Return a tuple of each patch in which two names have changed places."""
    moves = []
    for mine, other in itertools.product(ours, theirs):
        names, others = (next(iter(clue.forms)).split() for clue in (mine, other))
        common = [x for x in names if x != "-" and x in others and len(names) == len(others)]
        moved = [x for x in common if names.index(x) != others.index(x)]
        if common and not moved:
            return []
        if (mine.made or other.made) and len(moved) > 1:
            moves = [[mine], [other]]
    return moves


def _forms(clues: list[Clue]) -> Forms:
    """Return the forms that all evidence of a patch allows; if there are none, all it speaks of."""
    forms = [clue.forms for clue in clues]
    return frozenset.intersection(*forms) or frozenset().union(*forms)


def _signatures(ours: Clues, theirs: Clues) -> Iterator[Conflict]:
    """Yield the functions that one patch defines otherwise than the other defines or calls them."""
    for mine, other in ((ours, theirs), (theirs, ours)):
        misfits = [(key, x.least, call) for key, x in mine.defined.items() if x
                   for call in [*_rival_calls(mine, other, key, x)][:1]]  # fmt: skip
        for (path, scope, name), x in mine.defined.items():  # a method of a new class below
            for base in mine.bases.get(scope, ()) if x and x.new and name[:2] != "__" else ():
                top = other.defined.get((path, base, name))
                call = top and top.least._replace(passes=[""] * len(top.least.passes))
                if x and top and call and not (top.new or x.takes(call)):
                    misfits.append(((path, scope, name), x.least, call))
        for key, least, call in misfits:
            uses = [_use(x.says, x.lines) for x in (least, call)]
            yield Conflict("signature", *key, *(uses if mine is ours else uses[::-1]))


def _rival_calls(mine: Clues, other: Clues, key: Key, defined: Defined) -> Iterator[Call]:
    """Yield the calls of the other patch that a function does not take."""
    rival = other.defined.get(key)
    if key in other.defined and not rival:
        return
    free = rival and not (rival.rest or defined.rest)
    if rival and not (rival.new and defined.new):  # each may add what it needs
        names = [[*x.least.passes, *x.least.keywords] for x in (defined, rival)]
        fits = defined.takes(Call("", (), [], names[1])) or rival.takes(Call("", (), [], names[0]))
        yield from [rival.least] if free and not fits else []
        return
    calls = [rival.least] if rival and free else []
    for call in [*calls, *_calls(other, mine, *key)]:
        if rival and key[2] == "__init__" and call is not rival.least:  # in the order it knows
            call = call._replace(passes=rival.names[: len(call.passes)])
        if not defined.takes(call):
            yield call


def _calls(user: Clues, mine: Clues, path: str, scope: str, name: str) -> Iterator[Call]:
    """Yield the calls of a function: of ``self`` in its class or near ones, or by its name."""
    top, scopes = scope.rpartition(".")[2] or name, {scope}
    if scope and name != "__init__":
        heirs = {x for x, bases in user.bases.items() if scope in bases}
        heirs = {x for x in heirs if ("class", (path, "", x)) in user.evidence}  # new ones
        scopes |= {x for x in heirs if (path, x, name) not in user.defined}
        scopes |= mine.bases.get(scope, set())
    keys = [(x, name) for x in sorted(scopes)] + ([("", top)] if name == "__init__" else [])
    for file, call in (x for key in keys for x in user.calls.get(key, ())):
        if file == path or top in user.words.imports(file):
            yield call


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
                uses = [_join([*side.values()]) for side in sides]
                yield Conflict("names", path, scope, " / ".join(names), *uses)
    classes = _attributes(ours, theirs), _attributes(theirs, ours)
    for path, scope in sorted(classes[0].keys() & classes[1].keys()):
        both = [side[path, scope] for side in classes]
        orphans = [*_orphans(both[0], both[1], scope)]
        orphans += [pair[::-1] for pair in _orphans(both[1], both[0], scope)]
        for pair in [*_twins(*both), *orphans]:
            named = [side[name].values() for side, name in zip(both, pair, strict=True)]
            uses = [_join([y for x in clues for y in x]) for clues in named]
            yield Conflict("names", path, scope, " / ".join(sorted(pair)), *uses)


def _frozen(ours: Clues, theirs: Clues) -> Iterator[Conflict]:
    """Yield the classes of the base that one patch freezes while the other sets their fields."""
    frozen = [(key, clues) for (what, key), clues in ours.evidence.items() if what == "frozen"]
    for (what, key), clues in theirs.evidence.items() if frozen else ():
        sets = [clue for clue in clues if clue.says.startswith("sets .") and clue.lines]
        names = {clue.says[6:] for clue in sets}
        objects, held = [
            {name for x in side.evidence.get((f"{what}.class", key), ()) for name in x.forms}
            for side in (theirs, ours)
        ]
        for (path, scope, name), fields in frozen:
            same = not objects if fields[0].made else name in held  # of the class, if that is new
            if names and key[0] == path and names <= fields[0].forms and same:
                yield Conflict("class", path, scope, name, _join(fields), _join(sets))


def _gone(ours: Clues, theirs: Clues) -> Iterator[Conflict]:
    """Yield the attributes of a class of the base that one patch takes away and the other uses."""
    gone = {path: ours.words.gone(path) for path in ours.words.paths}
    for key in sorted({key for what, key in theirs.evidence if key[2] in gone.get(key[0], ())}):
        path, scope, name = key
        marks = [x for x in ("begins", "fills", "keeps", "reads") if (x, key) in theirs.evidence]
        uses = [x for mark in marks for x in theirs.evidence[mark, key]]
        given = "begins" in marks or {"fills", "keeps"} <= {*marks}
        if uses and not given and scope in ours.words.find(DEFINED, " -+@", path):
            sides = _use(f"has no {name}", ours.words.beside(path, name)), _join(uses)
            yield Conflict("names", *key, *sides)


def _words(name: str) -> set[str]:
    return {word.removesuffix("s") for word in name.split("_")} - {""}


def _attributes(mine: Clues, other: Clues) -> dict[tuple[str, str], Attributes]:
    """Return the attributes that are there by one patch alone, by class and name."""
    classes: dict[tuple[str, str], Attributes] = defaultdict(dict)
    for (what, key), clues in sorted(mine.evidence.items(), key=lambda item: item[0]):
        path, scope, name = key
        if what not in ("begins", "fills", "keeps", "reads", "shape") or name[:2] == "__":
            continue
        method = any(name in x.words.find(DEFINED, " -+", path) for x in (mine, other))
        method = method or (scope, name) in mine.calls
        if not method and mine.words.new(path, name, other.words):
            classes[path, scope].setdefault(name, {})[what] = clues
    for (path, scope), names in classes.items():
        filled = other.words.filled(path) if path not in other.words.hidden else set()
        for name, x in names.items() if "__init__" in filled and not other.bases.get(scope, "?") else ():
            if name.islower() and "shape" in x and not {*x} & {"begins", "keeps"}:
                x.update(begins=x["shape"], reads=x["shape"])  # the other one should begin it
                x.pop("fills", None)
    return classes


def _twins(ours: Attributes, theirs: Attributes) -> Iterator[list[str]]:
    """Yield the pairs of names that differ only in underscores or case, and may hold one thing."""
    names = {name.replace("_", "").lower(): name for name in theirs}
    for name, clues in ours.items():
        other = names.get(name.replace("_", "").lower())
        if other and "begins" in clues and "begins" in theirs[other]:
            sides = clues, theirs[other]
            forms = [side["begins"][0].forms for side in sides]
            apart = all({*side} >= {"begins", "fills", "reads"} for side in sides)
            if forms[0] & forms[1] or not (apart or {"number"} in forms or OBJECT in forms):
                yield [name, other]


def _orphans(ours: Attributes, theirs: Attributes, scope: str) -> Iterator[list[str]]:
    """Yield what ours reads and never fills, with what theirs fills, if both begin alike."""
    orphans = [name for name, x in ours.items() if {*x} - {"keeps", "shape"} == {"begins", "reads"}]
    for name in orphans if len(orphans) == 1 else []:
        begins = ours[name]["begins"]
        forms = frozenset.intersection(*(x.forms for x in begins))
        filled = [
            (other, x["begins"][0].forms) for other, x in theirs.items()
            if "begins" in x and ("fills" in x or not begins[0].made) and x["begins"][0].made
            and OBJECT != x["begins"][0].forms <= forms
        ]  # fmt: skip
        sure = begins[0].made and name.startswith("_")  # others may come from elsewhere
        plain = filled and filled[0][1] != {"number"}
        if (sure and plain) or (scope and len(filled) == 1 and (sure or plain)):
            yield [name, filled[0][0]]
