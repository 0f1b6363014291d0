"""Conflicts of representation: two patches give one thing two shapes, names or signatures.

The idea of the conflict detector of The Specification Gap (arXiv 2603.24284): two agents who write
one class without agreeing on it keep its state in incompatible ways. The lines that a patch adds
are evidence; two patches conflict where no reading of one's evidence fits the other's.
"""

import itertools
import re
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from annotator.cooperbench.patches.clues import (
    ANYTHING,
    MOST_CLUES,
    Call,
    Clue,
    Clues,
    Defined,
    Key,
    Thing,
)
from annotator.cooperbench.patches.diff import Line, Patch
from annotator.cooperbench.patches.fragments import (
    DEFINED,
    ELSEWHERE,
    PatchTexts,
    find_common_names,
)
from annotator.cooperbench.patches.value_forms import OBJECT, Forms

MOST_SHOWN = 4  # lines that show one use

Attributes = dict[str, dict[str, list[Clue]]]  # by name: how it "begins", "fills", "reads"
Kind = Literal["shape", "element", "result", "signature", "names", "class"]


class Use(NamedTuple):
    """A patch's representation of a thing, and at most 4 lines that show it and only it adds."""

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


def find_representation_conflicts(ours: Patch, theirs: Patch) -> list[Conflict]:
    """Return the conflicts of two patches, by path, scope and name; tests are not read."""
    texts = PatchTexts(ours, theirs), PatchTexts(theirs, ours)
    if not (names := find_common_names(*texts)):
        return []
    paths = sorted(texts[0].paths | texts[1].paths)
    homes = {name: path for path in paths for x in texts for name in x.find(DEFINED, " -+", path)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a string with an invalid escape
        clues = [Clues(*sides, names, homes) for sides in (texts, texts[::-1])]
    finders = _find_misfit_things, _find_signatures, _find_name_pairs, _find_frozen, _find_removals
    conflicts = [x for find in finders for x in find(*clues)]
    back = (x for find in finders for x in find(*clues[::-1]))
    conflicts += (replace(x, ours=x.theirs, theirs=x.ours) for x in back)
    conflicts = [x for x in conflicts if x.ours.lines and x.theirs.lines]
    classes = {(x.path, x.name) for x in conflicts if x.kind == "class"}
    shapes = {(x.path, x.scope, x.name) for x in conflicts if x.kind == "shape"}
    conflicts.sort(key=lambda x: sorted((x.ours.says, x.theirs.says)))  # alike if swapped
    unique = {(x.path, x.scope, x.name, x.kind): x for x in conflicts}
    return [
        x
        for key, x in sorted(unique.items())
        if key[:2] not in classes and not (x.kind == "element" and key[:3] in shapes)
    ]


def _make_use(*evidence: Clue | Call) -> Use:
    every = {line.start: line for x in evidence for line in x.lines}
    return Use(evidence[0].says, tuple(every[n] for n in sorted(every)[:MOST_SHOWN]))


def _find_misfit_things(ours: Clues, theirs: Clues) -> Iterator[Conflict]:
    """Yield the things whose clues in both patches do not fit together."""
    for what, key in sorted(ours.evidence.keys() | theirs.evidence.keys()):
        sides = [x.evidence.get((what, key), [])[:MOST_CLUES] for x in (ours, theirs)]
        later = what.removesuffix("keys") + "sets", key
        match what.partition("."):
            case "shape" | "result" | "class" as root, _, step if not step.endswith("sets"):
                if step.endswith("class"):
                    sides = _find_strangers(ours, theirs, (what.removesuffix(".class"), key))
                elif step.endswith("keys"):
                    sets = [clue for x in (ours, theirs) for clue in x.evidence.get(later, ())]
                    sides = _find_lacks(sides, sets)
                else:
                    all_clues = [y for x in (ours, theirs) for y in x.evidence.get((root, key), ())]
                    returned = root == "result" and any(clue.made for clue in all_clues)
                    ordered = step.endswith("order")
                    sides = _find_moves(*sides) if ordered else _find_misfits(returned, *sides)
                if sides:
                    kind: Kind = root if root != "shape" or step in ("", "class") else "element"
                    yield Conflict(kind, *key, *(_make_use(*side) for side in sides))


def _find_misfits(made: bool, ours: list[Clue], theirs: list[Clue]) -> list[list[Clue]]:
    """Return the clues if no form suits all of them, and a patch gives the thing its form."""
    sides = [sorted(side, key=lambda clue: not clue.made) for side in (ours, theirs)]
    made = all(sides) and (made or sides[0][0].made or sides[1][0].made)
    return sides if made and not _join_forms(sides[0]) & _join_forms(sides[1]) else []


def _find_lacks(sides: list[list[Clue]], sets: list[Clue]) -> list[list[Clue]]:
    """Return the records of one patch, and where the other reads a key that they lack."""
    records = [clue for clue in sides[0] if clue.made]
    keys = frozenset().union(*(clue.forms for clue in records + sets))
    reads = [clue for clue in sides[1] if not clue.made and not clue.forms <= keys]
    return [records, reads] if records and reads and "*" not in keys else []


def _find_strangers(mine: Clues, other: Clues, thing: Thing) -> list[list[Clue]]:
    """Return the objects of one patch, and where the other uses attributes that they lack."""
    objects = [x for x in mine.evidence.get((f"{thing[0]}.class", thing[1]), ()) if x.made]
    names = frozenset().union(*(x.forms for x in objects))
    uses = other.evidence.get(thing, [])
    sets = [x for x in uses if x.says.startswith("sets .")]
    if any(("frozen", (thing[1][0], "", name)) in mine.evidence for name in names):
        return [objects, sets] if sets else []
    members = {x.says[6:] for x in sets}.union(*(mine.members.get(name, ()) for name in names))
    lacks = [x for x in uses if re.match(r"has \.[^_]", x.says) and x.says[5:] not in members]
    methods = other.texts.find(DEFINED, " -+", thing[1][0])
    lacks = [x for x in lacks if x.says[5:] not in methods]
    return [objects, lacks] if objects and lacks and names <= mine.members.keys() else []


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


def _join_forms(clues: list[Clue]) -> Forms:
    """Return the forms that all clues allow, else all their forms."""
    forms = [clue.forms for clue in clues]
    return frozenset.intersection(*forms) or frozenset().union(*forms)


def _find_signatures(ours: Clues, theirs: Clues) -> Iterator[Conflict]:
    """Yield the functions that ours defines otherwise than theirs defines or calls them."""
    for key, defined in ours.defined.items():
        if defined and (call := next(_find_misfit_calls(ours, theirs, key, defined), None)):
            yield Conflict("signature", *key, _make_use(defined.shortest), _make_use(call))


def _find_misfit_calls(mine: Clues, other: Clues, key: Key, defined: Defined) -> Iterator[Call]:
    """Yield the calls of the other patch that a function does not take."""
    (path, scope, name), rival = key, other.defined.get(key)
    calls = [rival.shortest] if rival and not (rival.rest or defined.rest) else []
    if rival and not (rival.new and defined.new):  # each may add what it needs
        named = [
            Call("", (), [], x.shortest.passes + x.shortest.keywords) for x in (defined, rival)
        ]
        yield from [] if defined.takes(named[1]) or rival.takes(named[0]) else calls
    elif rival or key not in other.defined:
        for call in _find_calls(mine, other, *key):  # of a class with its own order of fields
            passes = (
                rival.names[: len(call.passes)] if rival and name == "__init__" else call.passes
            )
            calls.append(call._replace(passes=passes))
        for base in mine.bases.get(scope, ()) if defined.new and name[:2] != "__" else ():
            above = other.defined.get((path, base, name))
            if above and not above.new:
                calls += [x for _, x in other.calls.get((ANYTHING, name), ()) if above.takes(x)]
                calls.append(above.shortest._replace(passes=[""] * len(above.shortest.passes)))
        yield from (call for call in calls if not defined.takes(call))


def _find_calls(mine: Clues, user: Clues, path: str, scope: str, name: str) -> Iterator[Call]:
    """Yield the calls of a function: of ``self`` in its class, or by its name."""
    top = scope.rpartition(".")[2] or name
    keys = [(scope, name), ("", top)] if name == "__init__" else [(scope, name)]
    for file, call in (x for key in keys for x in user.calls.get(key, ())):
        if file == path or top in user.texts.imports(file) or mine.texts.defines_beside(file, top):
            yield call


def _find_name_pairs(ours: Clues, theirs: Clues) -> Iterator[Conflict]:
    """Yield the attributes that are new in each patch and have one role under two names."""
    for what, key in sorted(ours.evidence.keys() & theirs.evidence.keys()):
        (path, scope, _), role = key, key[2].partition(" keeps ")[2]
        sides = [
            {name: x for x in mine.evidence[what, key] for name in x.forms
             if mine.texts.new(path, name, other.texts) and (scope, name) not in mine.calls
             and not (role and ("moves", (path, scope, name)) in mine.evidence)}
            for mine, other in ((ours, theirs), (theirs, ours)) if what == "names"
        ]  # fmt: skip
        if [len(side) for side in sides] == [1, 1]:
            names = sorted(name for side in sides for name in side)
            if not role or any(_split_name(role) & _split_name(name) for name in names):
                uses = [_make_use(*side.values()) for side in sides]
                yield Conflict("names", path, scope, " / ".join(names), *uses)
    classes = _collect_attributes(ours, theirs), _collect_attributes(theirs, ours)
    for path, scope in sorted(classes[0].keys() & classes[1].keys()):
        both = [side[path, scope] for side in classes]
        for pair in [*_find_twins(*both), *_find_orphans(both[0], both[1], scope)]:
            named = [side[name].values() for side, name in zip(both, pair, strict=True)]
            uses = [_make_use(*(y for x in clues for y in x)) for clues in named]
            yield Conflict("names", path, scope, " / ".join(sorted(pair)), *uses)


def _find_frozen(ours: Clues, theirs: Clues) -> Iterator[Conflict]:
    """Yield the classes of the base that one patch freezes while the other sets their fields."""
    frozen = [(x[1], y) for x, y in ours.evidence.items() if x[0] == "frozen" and y[0].made]
    for (what, key), clues in theirs.evidence.items() if frozen else ():
        sets = [clue for clue in clues if clue.says.startswith("sets .") and clue.lines]
        names = {clue.says[6:] for clue in sets}
        classes = {y for x in theirs.evidence.get((f"{what}.class", key), ()) for y in x.forms}
        for (path, scope, name), fields in frozen if names else ():
            near = key[0] == path or name in theirs.texts.imports(key[0])
            if near and classes <= {name} and names <= fields[0].forms:
                yield Conflict("class", path, scope, name, _make_use(*fields), _make_use(*sets))


def _find_removals(ours: Clues, theirs: Clues) -> Iterator[Conflict]:
    """Yield the attributes of a class of the base that one patch takes away and the other uses."""
    removed = {path: ours.texts.find_removed(path) for path in ours.texts.paths}
    for (what, key), clues in theirs.evidence.items() if any(removed.values()) else ():
        path, scope, name = key
        gives = {x for x in ("begins", "fills", "keeps") if (x, key) in theirs.evidence}
        uses = what in ("fills", "keeps", "reads") and len(gives) < 2
        if uses and scope in ours.texts.find(DEFINED, " -+@", path) and name in removed[path]:
            without = Call(f"has no {name}", tuple(removed[path][name]), [], [])
            yield Conflict("names", *key, _make_use(without), _make_use(*clues))


def _split_name(name: str) -> set[str]:
    return {word.removesuffix("s") for word in name.split("_")} - {""}


def _collect_attributes(mine: Clues, other: Clues) -> dict[tuple[str, str], Attributes]:
    """Return the attributes that are there by one patch alone, by class and name."""
    classes: dict[tuple[str, str], Attributes] = defaultdict(dict)
    for (what, key), clues in sorted(mine.evidence.items(), key=lambda item: item[0]):
        path, scope, name = key
        if what not in ("begins", "fills", "keeps", "reads", "shape") or name[:2] == "__":
            continue
        method = any(name in x.texts.find(DEFINED, " -+", path) for x in (mine, other))
        method = method or (scope, name) in mine.calls
        if not method and mine.texts.new(path, name, other.texts):
            classes[path, scope].setdefault(name, {})[what] = clues
    for (path, scope), names in classes.items():
        bare = other.texts.filled(path) & {"__init__", ELSEWHERE} == {"__init__"}
        for name, x in names.items() if bare and not other.bases.get(scope, "?") else ():
            if name.islower() and "shape" in x and not {*x} & {"begins", "keeps"}:
                x.update(begins=x["shape"], reads=x["shape"])  # the other one should begin it
                x.pop("fills", None)
    return classes


def _find_twins(ours: Attributes, theirs: Attributes) -> Iterator[list[str]]:
    """Yield the pairs of names that differ only in underscores or case, and may hold one thing."""
    names = {name.replace("_", "").lower(): name for name in theirs}
    for name, x in ours.items():
        y = theirs.get(names.get(name.replace("_", "").lower(), ""), {})
        forms = [side["begins"][0].forms for side in (x, y) if "begins" in side]
        apart = all({*side} >= {"fills", "reads"} for side in (x, y)) or {"number"} in forms
        if len(forms) == 2 and (forms[0] & forms[1] or not (apart or OBJECT in forms)):
            yield [name, names[name.replace("_", "").lower()]]


def _find_orphans(ours: Attributes, theirs: Attributes, scope: str) -> Iterator[list[str]]:
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
