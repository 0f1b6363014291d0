"""Where two patches give one thing two forms: names, signatures, shapes of values and classes.

In the sense of "The Specification Gap" (arXiv 2603.24284): such patches may merge without a
conflict and still not work together. Values and kinds of classes are read in Python only.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import NamedTuple

from rapidfuzz import fuzz

from annotator.facts.known import Known
from annotator.facts.model import Fact, Span
from annotator.facts.patches import MOST_MEETINGS, passage, read_patches
from annotator.facts.python_code import Parameter, end_of_statement
from annotator.facts.symbols import (
    Changes,
    Signature,
    Symbol,
    about,
    shown,
    span_of,
    symbol_changes,
)
from annotator.patches.diff import Line, Patch
from annotator.text import one_line

MOST_BODY = 5_000  # characters of a definition that are compared

KINDS: Mapping[str, str] = {
    "symbol_added_by_both": "two patches add a symbol of one name, with the same or another body",
    "signature_changed_by_both": "two patches change the signature of one function",
    "representation_conflict": "two patches build one attribute, name or result as different types",
    "attribute_names_differ": "two patches keep one value of a class under different names",
    "not_listed": "there are more facts of one kind than are listed",
    "class_shape_changed": "a patch changes what kind of class a class is, and the other uses it",
}

_CONTAINERS = {
    "list": "list", "List": "list", "sorted": "list", "Sequence": "list", "MutableSequence": "list",
    "dict": "dict", "Dict": "dict", "defaultdict": "dict", "OrderedDict": "dict",
    "Mapping": "dict", "MutableMapping": "dict", "Counter": "dict", "TypedDict": "dict",
    "set": "set", "Set": "set", "frozenset": "set", "FrozenSet": "set",
    "tuple": "tuple", "Tuple": "tuple", "deque": "deque", "Deque": "deque",
}  # fmt: skip
_SCALARS = {"str": "str", "int": "int", "float": "float", "bool": "bool", "bytes": "bytes"}
_OUTER = re.compile(r"(?:t|typing|collections|abc|cabc|Optional|Final|ClassVar|Annotated)[.\[]")
_NAME = re.compile(r"[A-Za-z_]\w*")
_PAIR = re.compile(r"\{\s*(?:\*\*|\}|[\w.\"'() -]{1,80}:)")
_CLASS_KINDS = (
    ("dataclass", re.compile(r"@(?:\w+\.)*(?:dataclass|define|attrs|frozen|mutable|s)\b")),
    ("named tuple", re.compile(r"\bNamedTuple\b")),
    ("typed dict", re.compile(r"\bTypedDict\b")),
    ("enumeration", re.compile(r"\b(?:Int|Str)?(?:Enum|Flag)\b")),
    ("model", re.compile(r"\bBaseModel\b")),
    ("protocol", re.compile(r"\bProtocol\b")),
)
_BASES = re.compile(r"class\s+\w+\s*(\(.*\))?\s*:", re.DOTALL)
_NAMED_VALUE = re.compile(r"[A-Za-z_]\w*(?:\.\w+){0,3}")
_SCATTERED = frozenset(["function", "class"])  # looked for in other files as well


class Side(NamedTuple):
    """One agent's part in a pair."""

    agent: str
    patch: Patch
    changes: Changes


class Built(NamedTuple):
    """A value that a patch gives to a target, and its shape."""

    shape: str
    symbol: Symbol


def facts(known: Known) -> Iterator[Fact]:
    """Yield, for every two patches, what they give two forms; 50 of each kind for a pair.

    A shape is told by what stands first (``[``, ``dict(``, ``-> list[str]``), so a value that is
    computed has none, and a side that gives one target several shapes conflicts only if the other
    has none of them.
    """
    patches = read_patches(known.trace)
    sides = [Side(agent, one, symbol_changes(one)) for agent, one in patches.items()]
    tests: tuple[Callable[[Side, Side], Iterator[Fact]], ...] = (
        _added_by_both,
        _signatures,
        _representations,
        _attribute_names,
        _class_shapes,
    )
    for one, two in combinations(sides, 2):
        for test in tests:
            for n, fact in enumerate(test(one, two)):
                if n == MOST_MEETINGS:
                    says = f"There are more than {n} facts {fact.kind}; the rest is left out."
                    yield Fact("not_listed", says, fact.agents, (), {"kind": fact.kind, "shown": n})
                    break
                yield fact


def _names(one: Side, two: Side) -> str:
    return f"{one_line(one.agent, 80)} and {one_line(two.agent, 80)}"


def _spans(one: Side, ours: Symbol, two: Side, theirs: Symbol) -> tuple[Span, Span]:
    return span_of(one.agent, one.patch, ours), span_of(two.agent, two.patch, theirs)


def _added_by_both(one: Side, two: Side) -> Iterator[Fact]:
    """Yield what both add: in one file, or as a function or class of the module in another file.

    An import is told only where the name stands for two things.
    """
    there = {symbol.key: symbol for symbol in reversed(two.changes.added)}
    elsewhere = {(key[1], key[3]): symbol for key, symbol in there.items() if _scatters(symbol)}
    told = set()
    for ours in one.changes.added:
        theirs = there.get(ours.key)
        if theirs is None and _scatters(ours):
            theirs = elsewhere.get((ours.kind, ours.name))
        if theirs is None or ours.key in told:
            continue
        left, right = _body(ours), _body(theirs)
        if ours.kind == "import" and left == right:
            continue
        told.add(ours.key)
        alike = round(fuzz.ratio(left, right))
        how = "with the same text" if left == right else f"with different texts ({alike} % alike)"
        where = f"in {one_line(ours.path, 200)}"
        if ours.path != theirs.path:
            where += f" and {one_line(theirs.path, 200)}"
        says = f"{_names(one, two)} both add {shown(ours)} {where}, {how}."
        details = about(ours) | {
            "same": left == right, "alike": alike, "paths": [ours.path, theirs.path],
        }  # fmt: skip
        spans = _spans(one, ours, two, theirs)
        yield Fact("symbol_added_by_both", says, (one.agent, two.agent), spans, details)


def _scatters(symbol: Symbol) -> bool:
    return symbol.kind in _SCATTERED and symbol.scope == "" and not symbol.name.startswith("__")


def _body(symbol: Symbol) -> str:
    """Return the text of a symbol as the patch adds it, without blank lines and its indentation."""
    head = symbol.head
    if head is None or symbol.kind == "import":
        return symbol.text
    last = max(head.end, head.last)
    if head.type == "assign":
        last = end_of_statement(head.lines, head.first)
    lines = head.lines[head.first : last]
    return "\n".join(text for line in lines if (text := line.text.strip()))[:MOST_BODY]


def _signatures(one: Side, two: Side) -> Iterator[Fact]:
    there = {change.after.key: change for change in reversed(two.changes.signatures)}
    told = set()
    for ours in one.changes.signatures:
        theirs = there.get(ours.after.key)
        if theirs is None or ours.after.key in told:
            continue
        told.add(ours.after.key)
        left, right = _form(ours), _form(theirs)
        how = "in the same way" if left == right else "differently"
        says = (
            f"{_names(one, two)} both change the signature of {shown(ours.after)} in "
            f"{one_line(ours.after.path, 200)}, {how}."
        )
        details = about(ours.after) | {"same": left == right, "other": theirs.after.text[:300]}
        spans = (_signature_span(one, ours), _signature_span(two, theirs))
        yield Fact("signature_changed_by_both", says, (one.agent, two.agent), spans, details)


def _form(change: Signature) -> object:
    """Return what changes in a signature: a hunk may show but a part of it."""
    readable = change.readable
    if readable is None:
        return change.after.text.split()
    before, after = map(frozenset, readable)
    return before - after, after - before


def _signature_span(side: Side, change: Signature) -> Span:
    shows = any(line.sign != " " for line in change.after.lines)
    return span_of(side.agent, side.patch, change.after if shows else change.before)


def _representations(one: Side, two: Side) -> Iterator[Fact]:
    ours, theirs = _built(one.changes), _built(two.changes)
    for target, left in ours.items():
        right = theirs.get(target, [])
        shapes = [list(dict.fromkeys(value.shape for value in side)) for side in (left, right)]
        if not right or set(shapes[0]) & set(shapes[1]):
            continue
        path, scope, name = target
        what = (
            f"the result of {one_line(scope, 120)}" if name == "return"
            else one_line(f"{scope}.{name}" if scope else name, 160)
        )  # fmt: skip
        says = (
            f"{one_line(one.agent, 80)} builds {what} in {one_line(path, 200)} as "
            f"{' or '.join(shapes[0])}, {one_line(two.agent, 80)} as {' or '.join(shapes[1])}."
        )
        details = {"path": path, "scope": scope, "name": name, "shapes": shapes}
        spans = _spans(one, left[0].symbol, two, right[0].symbol)
        yield Fact("representation_conflict", says, (one.agent, two.agent), spans, details)


def _attribute_names(one: Side, two: Side) -> Iterator[Fact]:
    """Yield the values that both patches newly keep in a class, each under its own name.

    Only a value that names something (``unit``, ``config.unit``) is one role: ``[]`` may be many.
    """
    ours, theirs = _kept_values(one.changes), _kept_values(two.changes)
    for key, kept in ours.items():
        left, right = kept[0], theirs.get(key, kept)[0]
        names = {x.name for x in kept}, {x.name for x in theirs.get(key, kept)}
        if not names[0].isdisjoint(names[1]):
            continue
        path, scope, value = key
        says = (
            f"{one_line(one.agent, 80)} keeps {one_line(value, 80)} in {one_line(scope, 120)} of "
            f"{one_line(path, 200)} as {one_line(left.name, 80)}, {one_line(two.agent, 80)} as "
            f"{one_line(right.name, 80)}."
        )
        details = {"path": path, "scope": scope, "names": [left.name, right.name]}
        spans = _spans(one, left, two, right)
        yield Fact("attribute_names_differ", says, (one.agent, two.agent), spans, details)


def _kept_values(changes: Changes) -> dict[tuple[str, str, str], list[Symbol]]:
    """Return the new attributes of objects by path, class and the value that they are given."""
    found: dict[tuple[str, str, str], list[Symbol]] = {}
    for one in changes.added:
        if one.kind == "attribute" and one.scope and one.name.startswith("self."):
            value = one.text.partition("=")[2].strip()
            if _NAMED_VALUE.fullmatch(value) and value not in ("None", "True", "False"):
                found.setdefault((one.path, one.scope, value), []).append(one)
    return found


def _built(changes: Changes) -> dict[tuple[str, str, str], list[Built]]:
    """Return the values whose shape can be told by path, scope and target.

    Targets are assigned names and attributes, results (``return``) and parameters, where it is
    known what is around them.
    """
    found: dict[tuple[str, str, str], list[Built]] = {}

    def add(symbol: Symbol, scope: str | None, name: str, shape: str) -> None:
        if shape and scope is not None:
            found.setdefault((symbol.path, scope, name), []).append(Built(shape, symbol))

    for one in changes.statements:
        if one.kind == "return":
            add(one, one.scope, "return", _shape_of_value(one.text.removeprefix("return")))
        else:
            add(one, one.scope, one.name, _assigned_shape(one))
    for one in changes.added:
        if one.kind in ("function", "method") and one.head:
            _, arrow, result = one.text.rpartition("->")
            if arrow:
                add(one, one.full_name, "return", _shape_of_type(result.strip()))
        elif one.kind == "parameter":
            annotation = one.text.partition(":")[2].partition("=")[0]
            add(one, one.scope, one.name, _shape_of_type(annotation.strip()))
    for change in changes.signatures:
        for parameter in _results(change):
            shape = _shape_of_type(parameter.annotation)
            add(change.after, change.after.full_name, "return", shape)
    return found


def _results(change: Signature) -> list[Parameter]:
    """Return the result of a changed signature if it is new."""
    readable = change.readable
    if not readable:
        return []
    return [one for one in readable[1] if one.name == "->" and one not in readable[0]]


def _assigned_shape(symbol: Symbol) -> str:
    """Return the shape of an assignment: its annotation's, or else its value's."""
    rest = symbol.text[len(symbol.name) :].lstrip()
    annotation, sign, value = rest.partition("=")
    if annotation.startswith(":"):
        shape = _shape_of_type(annotation[1:].strip())
        if shape:
            return shape
    return _shape_of_value(value if sign else "")


def _shape_of_type(text: str) -> str:
    text = text.strip("\"' :\n")
    for _ in range(3):
        match = _OUTER.match(text)
        text = text[match.end() :] if match else text
    name = _NAME.match(text)
    if not name or "|" in text.replace("| None", "") or text.startswith("Union"):
        return ""
    return _CONTAINERS.get(name.group()) or _SCALARS.get(name.group(), "")


def _shape_of_value(text: str) -> str:
    """Return the shape of a display or of a call of a container, "" for what is computed."""
    text = text.strip()
    first, last = text[:1], text[-1:]
    if first == "[" and last in "[],(" and not re.search(r"\]\s*[\[.(+]", text[-80:]):
        return "list"
    if first == "{" and (text == "{" or last in "{},[("):
        return "dict" if text == "{" or _PAIR.match(text) else "set"
    match = re.match(r"(?:collections\.)?(\w+)\(", text)
    if match and match.group(1) in _CONTAINERS and last in "(),[{" and ")." not in text:
        return _CONTAINERS[match.group(1)]
    return ""


def _class_shapes(one: Side, two: Side) -> Iterator[Fact]:
    for ours, theirs in ((one, two), (two, one)):
        for change in ours.changes.classes:
            before, after = _class_kind(change.before), _class_kind(change.after)
            used = _use(theirs, change.after) if before != after else None
            if not used:
                continue
            how, span = used
            where = f"in {one_line(change.after.path, 200)}"
            says = (
                f"{one_line(ours.agent, 80)}'s patch makes {shown(change.after)} {where} "
                f"{_a(after)} instead of {_a(before)}, and {one_line(theirs.agent, 80)}'s "
                f"patch {how} it."
            )
            details = about(change.after) | {"before": before, "after": after, "use": how}
            spans = (_class_span(ours, change), span)
            yield Fact("class_shape_changed", says, (ours.agent, theirs.agent), spans, details)


def _class_kind(symbol: Symbol) -> str:
    """Return what kind of class it is: a dataclass, an enumeration, or its bases as written."""
    marks = [mark.text for mark in symbol.head.marks] if symbol.head else []
    text = "\n".join([*marks, symbol.text])
    for kind, pattern in _CLASS_KINDS:
        if pattern.search(text):
            return kind
    bases = _BASES.match(symbol.text)
    shown_bases = "".join((bases.group(1) or "").split()) if bases else ""
    return f"subclass of {shown_bases[1:-1][:120]}" if len(shown_bases) > 2 else "plain class"


def _a(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {one_line(kind, 160)}"


def _class_span(side: Side, change: Signature) -> Span:
    """Return the line that changes a class: its head, or else a decorator of it."""
    source, text = f"patch:{side.agent}", side.patch.text
    for symbol in (change.after, change.before):
        if any(line.sign != " " for line in symbol.lines):
            return span_of(side.agent, side.patch, symbol)
    marks = [*_marks(change.after), *_marks(change.before)]
    mark = [one for one in marks if one.sign != " "]
    return passage(source, text, mark or change.after.lines, change.after.hunk)


def _marks(symbol: Symbol) -> list[Line]:
    return symbol.head.marks if symbol.head else []


def _use(side: Side, cls: Symbol) -> tuple[str, Span] | None:
    """Return how a patch works on a class, with a passage: inside of it, or by its name."""
    changes = side.changes
    inner = cls.full_name
    for symbol in (*changes.added, *changes.removed, *changes.statements):
        scope = symbol.scope or ""
        if symbol.path == cls.path and (scope == inner or scope.startswith(inner + ".")):
            return "changes", span_of(side.agent, side.patch, symbol)
    word = re.compile(rf"\b{re.escape(cls.name)}\b")
    for file in side.patch.files:
        for hunk in file.hunks:
            for line in hunk.lines:
                if line.sign == "+" and cls.name in line.text and word.search(line.text):
                    source = f"patch:{side.agent}"
                    return "uses", passage(source, side.patch.text, [line], hunk)
    return None
