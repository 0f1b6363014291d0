"""Where two patches give one thing of Python two representations: shapes, names, signatures.

The idea of the conflict detector of The Specification Gap (arXiv 2603.24284): two agents who write
one class without agreeing on it keep its state in incompatible ways. A diff shows fragments, so
each hunk is made to parse with ``ast``, and what it adds is collected as evidence; two patches
conflict where no reading of one's evidence fits the other's.
"""

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from annotator.patches.diff import Line, Patch
from annotator.patches.evidence import Call, Class, Key, Model, Seen, Signature, bare, evidence
from annotator.patches.forms import Forms
from annotator.patches.words import Words, python_files

MOST_SHOWN = 4  # lines that show one use

Kind = Literal["shape", "element", "result", "signature", "names", "class"]


class Use(NamedTuple):
    """What a patch makes of a thing: in a few words, and by at most 4 of its added lines.

    None of the lines stands in the other patch as well.
    """

    says: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Conflict:
    """One thing with two representations.

    ``kind``: the ``shape`` of an attribute, of an ``element`` of it or of the ``result`` of a
    function; a ``signature``; two ``names`` for one role (``name`` holds both, "a / b"); what kind
    of ``class`` or with which fields. ``scope`` is the class with those around it ("" for the
    module). ``path`` is the first of two if a class stands in two files.
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
    words = Words(python_files(ours)), Words(python_files(theirs))
    names = words[0].meeting(words[1])
    if not names:
        return []
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(names)))})\b")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a string with an invalid escape
        one, two = (evidence(side, pattern) for side in words)
    found = [*_classes(one, two), *_misfits(one, two), *_signatures(one, two), *_names(one, two)]
    classes = {(one.path, one.name) for one in found if one.kind == "class"}
    unique = {(x.path, x.scope, x.name, x.kind): x for x in reversed(found)}
    told = (_told(x, one, two) for key, x in sorted(unique.items()) if key[:2] not in classes)
    return [x for x in told if x.ours.lines and x.theirs.lines]


_DULL = re.compile(r"[\s)\]}(,:]*$|\s*(?:async )?def __init__\([\s(]*(?:self)?\W*$|\s*#")


def _misfits(one: Model, two: Model) -> Iterator[Conflict]:
    """Yield the things no form of which suits both patches; one of them must give it a form."""
    kinds: dict[str, Kind] = {"shape": "shape", "result": "result"}
    for thing in sorted(one.seen.keys() & two.seen.keys()):
        what, key = thing
        sides = [
            [x for x in model.seen[thing] if x.made or what != "shape" or key not in model.opaque]
            for model in (one, two)
        ]
        made = any(x.made for side in sides for x in side)
        both = key in one.assigned and key in two.assigned
        if not all(sides) or not (made or both) or _forms(sides[0]) & _forms(sides[1]):
            continue
        uses = (_use(sides[0]), _use(sides[1]))
        yield Conflict(kinds.get(what, "element"), *key, *uses)


def _forms(seen: list[Seen]) -> Forms:
    """Return the forms that all evidence of a patch allows; if there are none, all it speaks of."""
    forms = [one.forms for one in seen]
    return frozenset.intersection(*forms) or frozenset().union(*forms)


def _use(seen: list[Seen]) -> Use:
    seen = sorted(seen, key=lambda one: not one.made)
    return Use(seen[0].says, tuple(line for one in seen for line in one.lines))


def _signatures(one: Model, two: Model) -> Iterator[Conflict]:
    """Yield the functions that one patch defines otherwise than the other defines or calls them."""
    for key in sorted(one.signatures.keys() | two.signatures.keys()):
        ours, theirs = one.signatures.get(key, []), two.signatures.get(key, [])
        if len(ours) > 1 or len(theirs) > 1:
            continue  # a setter, an overload, a choice
        if ours and theirs:
            mine, other = ours[0], theirs[0]
            if _incompatible(mine, other):
                uses = Use(mine.says, mine.lines), Use(other.says, other.lines)
                yield Conflict("signature", *key, *uses)
                continue
            if not (mine.new and other.new):
                continue
        for defines, calls, swapped in ((ours, two, False), (theirs, one, True)):
            for call in _calls(calls, key) if defines else ():
                if not defines[0].fits(call.values, call.keywords):
                    pair = Use(defines[0].says, defines[0].lines), Use(call.says, call.lines)
                    yield Conflict("signature", *key, *(pair[::-1] if swapped else pair))
                    break


def _incompatible(one: Signature, two: Signature) -> bool:
    """Whether callers of one function cannot be callers of the other.

    Where both patches change a function of the base, each must require what the other does not.
    """
    required = one.names[: one.required], two.names[: two.required]
    if not (one.new and two.new):
        wants = {*required[0], *one.needed}, {*required[1], *two.needed}
        return bool(wants[0] - wants[1] and wants[1] - wants[0])
    if any(required[0].index(x) != required[1].index(x) for x in {*required[0]} & {*required[1]}):
        return True
    return any(not a.rest and not b.fits(a.required, a.needed) for a, b in ((one, two), (two, one)))


def _calls(model: Model, key: Key) -> Iterator[Call]:
    """Yield the calls of a function: on its class's objects, or where its name is known."""
    path, scope, name = key
    if scope and name != "__init__":
        yield from model.calls.get(key, ())
        yield from model.calls.get((path, f"~{bare(scope)}", name), ())
        return
    name = scope or name
    for (file, of, called), calls in model.calls.items():
        if (
            of == ""
            and called == name
            and (file == path or name in model.words.imported.get(file, ()))
        ):
            yield from calls


def _classes(one: Model, two: Model) -> Iterator[Conflict]:
    """Yield the classes that both patches add, as different kinds or with different fields."""
    there = {key[1:]: key for key in reversed(two.classes)}
    for key, mine in one.classes.items():
        other = key if key in two.classes else there.get(key[1:])
        if other and (mine.kind, mine.fields) != two.classes[other][:2]:
            uses = _class_use(mine), _class_use(two.classes[other])
            yield Conflict("class", min(key[0], other[0]), *key[1:], *uses)


def _class_use(one: Class) -> Use:
    fields = f" of {', '.join(one.fields)}"[:100] if one.fields else ""
    return Use(one.kind + fields, one.lines)


def _names(one: Model, two: Model) -> Iterator[Conflict]:
    """Yield the attributes that are new in each patch and have one role under two names."""
    for role in sorted(one.roles.keys() & two.roles.keys()):
        (path, scope, _), verb = role
        models = (one, two), (two, one)
        old = {x for model in (one, two) for x in model.words.base.get(path, ())}
        sides = [
            [x for x in mine.roles[role] if x not in old | other.words.named.get(path, set())]
            for mine, other in models
        ]
        if len(sides[0]) != 1 or len(sides[1]) != 1:
            continue
        a, b = sides[0][0], sides[1][0]
        kept = verb.removeprefix("keeps ")
        if kept != verb and not any(kept.strip("_") in x or x.strip("_") in kept for x in (a, b)):
            continue  # two roles may get one value
        says = f"{verb} as {{}}" if kept != verb else f"{verb} {{}}"
        uses = (
            Use(says.format(x), tuple(model.roles[role][x])) for x, model in ((a, one), (b, two))
        )
        yield Conflict("names", path, scope, " / ".join(sorted((a, b))), *uses)


def _told(found: Conflict, one: Model, two: Model) -> Conflict:
    """Return a conflict with those lines only that tell the patches apart."""

    def lines(use: Use, other: Model) -> Use:
        telling = {
            line.start: line for line in use.lines
            if line.text.strip() not in other.words.texts and not _DULL.match(line.text)
        }  # fmt: skip
        return use._replace(lines=tuple(telling[n] for n in sorted(telling)[:MOST_SHOWN]))

    return replace(found, ours=lines(found.ours, two), theirs=lines(found.theirs, one))
