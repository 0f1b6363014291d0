"""The symbols that a patch adds, removes or gives another signature.

Python is read by :mod:`annotator.facts.python_code`; Go, JavaScript and TypeScript, Rust and Java
by :mod:`annotator.facts.languages`, without variables and attributes.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import zip_longest
from typing import NamedTuple

from annotator.facts.fragments import Fragments, grammar_of
from annotator.facts.known import Known
from annotator.facts.languages import Definition, definitions
from annotator.facts.model import Fact, Span
from annotator.facts.patches import passage, read_patches, unread
from annotator.facts.python_code import Head, Parameter, heads, imported, parameters
from annotator.patches.diff import File, Hunk, Line, Patch
from annotator.text import one_line

MOST_SYMBOLS = 500  # symbols of one patch that get a fact each

KINDS: Mapping[str, str] = {
    "symbol_added": "a patch adds a definition, a parameter, an import or a name",
    "symbol_removed": "a patch removes a definition, a parameter, an import or a name",
    "signature_changed": "a patch changes the parameters or the result of a function",
}

_STATED = ("assign", "return")
_OWNERS = ("self.", "cls.")
_ATTRIBUTE = re.compile(r"\b(?:self|cls)\.\w+")

_Heads = Callable[[Hunk, str], Iterable[Head]]


class Symbol(NamedTuple):
    """A name that one side of a patch defines.

    ``kind``: ``function``, ``class``, ``method``, ``parameter``, ``import``, ``variable`` or
    ``attribute`` (of a class or, as ``self.x``, of its objects). ``scope``: the names around it,
    "" for the module, None if not known. ``text``: its head, or what an import stands for.
    ``head`` is None for parameters and for an import of several names.
    """

    name: str
    kind: str
    scope: str | None
    path: str
    text: str
    lines: tuple[Line, ...]
    hunk: Hunk
    head: Head | None = None

    @property
    def full_name(self) -> str:
        """The name with what encloses it: ``Parser.read``."""
        return f"{self.scope}.{self.name}" if self.scope else self.name

    @property
    def key(self) -> tuple[str, str, str | None, str]:
        """What makes it the same symbol in another patch."""
        return (self.path, self.kind, self.scope, self.name)


@dataclass(frozen=True, slots=True)
class Signature:
    """A definition whose head a patch changes, before and after."""

    before: Symbol
    after: Symbol

    @property
    def readable(self) -> tuple[tuple[Parameter, ...], tuple[Parameter, ...]] | None:
        """The parameters before and after, if those of both heads can be read."""
        before, after = _read(self.before), _read(self.after)
        return None if before is None or after is None else (before, after)


@dataclass(frozen=True, slots=True)
class Changes:
    """What a patch does to symbols. ``classes``: classes whose head or decorators it changes;
    ``statements``: the assignments and returns that it writes, as symbols of the kinds ``assign``
    and ``return``; both in Python. ``unread``: characters of other languages that were not read.
    """

    added: tuple[Symbol, ...]
    removed: tuple[Symbol, ...]
    signatures: tuple[Signature, ...]
    classes: tuple[Signature, ...]
    statements: tuple[Symbol, ...]
    unread: int


def facts(known: Known) -> Iterator[Fact]:
    """Yield the symbols of each patch: added, removed, of another signature; 500 of each patch.

    Python, Go, JavaScript, TypeScript, Rust and Java are known by the ending of the file.
    """
    for agent, patch in read_patches(known.trace).items():
        changes = symbol_changes(patch)
        symbols = [("symbol_added", "adds", one) for one in changes.added]
        symbols += [("symbol_removed", "removes", one) for one in changes.removed]
        for kind, verb, symbol in symbols[:MOST_SYMBOLS]:
            yield _symbol_fact(agent, patch, kind, verb, symbol)
        for signature in changes.signatures[:MOST_SYMBOLS]:
            yield _signature_fact(agent, patch, signature)
        if more := len(changes.signatures[MOST_SYMBOLS:]):
            kind = "signature_changed"
            says = f"There are {more} more facts of the kind {kind}; they are left out."
            yield Fact("not_listed", says, (agent,), (), {"kind": kind, "shown": MOST_SYMBOLS})
        if left := [one for _, _, one in symbols[MOST_SYMBOLS:]]:
            first = min(one.lines[0].start for one in left)
            yield unread(f"patch:{agent}", len(patch.text) - first, agent)
        if changes.unread:
            yield unread(f"patch:{agent}", changes.unread, agent)


def symbol_changes(patch: Patch) -> Changes:
    """Return what a patch does to symbols; a definition that only moves within a file does not
    count, nor does one whose body changes.
    """
    return _changes(_ByText(patch))


class _ByText:
    """A patch to remember results by: equal if its text is, without a look at all its lines."""

    def __init__(self, patch: Patch) -> None:
        self.patch = patch

    def __hash__(self) -> int:
        return hash(self.patch.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByText) and self.patch.text == other.patch.text


@lru_cache(maxsize=4)
def _changes(key: _ByText) -> Changes:
    added: list[Symbol] = []
    removed: list[Symbol] = []
    signatures: list[Signature] = []
    classes: list[Signature] = []
    statements: list[Symbol] = []
    fragments = Fragments()
    for path, files in _by_path(key.patch.files).items():
        before, after = _sides(path, files, fragments)
        statements += [_statement(one) for one in after if one.head and one.head.type in _STATED]
        _drop_unchanged(before, after)
        _drop_known_attributes(files, before, after)
        old, new = _grouped(before), _grouped(after)
        for name in dict.fromkeys([*old, *new]):
            # From the last: overloads are added before the function itself.
            for one, two in zip_longest(old.get(name, [])[::-1], new.get(name, [])[::-1]):
                if one and two:
                    _changed(one, two, added, removed, signatures, classes)
                elif two and two.lines[0].sign == "+":
                    added.append(two)
                elif one and one.lines[0].sign == "-":
                    removed.append(one)
    for changed in (added, removed):
        changed.sort(key=lambda one: one.lines[0].start)
    return Changes(
        tuple(added), tuple(removed), tuple(signatures), tuple(classes), tuple(statements),
        fragments.unread,
    )  # fmt: skip


def _by_path(files: Iterable[File]) -> dict[str, list[File]]:
    found: dict[str, list[File]] = {}
    for file in files:
        if not file.binary:
            found.setdefault(file.path, []).append(file)
    return found


def _sides(path: str, files: list[File], fragments: Fragments) -> tuple[list[Symbol], list[Symbol]]:
    """Return the symbols of a file before and after the patch, as far as its hunks show them."""
    before: list[Symbol] = []
    after: list[Symbol] = []
    read: _Heads = heads
    if not path.lower().endswith((".py", ".pyi")):
        grammar = grammar_of(path)
        if grammar is None:
            return before, after
        read = partial(definitions, fragments, grammar)
    for hunk in (hunk for file in files for hunk in file.hunks):
        for symbols, found in zip((before, after), _heads(hunk, read), strict=True):
            symbols += [_symbol(path, hunk, head) for head in found]
    return before, after


def _heads(hunk: Hunk, read: _Heads) -> tuple[Sequence[Head], Sequence[Head]]:
    """Return the heads of both sides. Where a hunk only adds or only removes, and whole heads at
    that, the other side need not be looked at, nor the unchanged ones of this.
    """
    signs = {line.sign for line in hunk.lines}
    if {"+", "-"} <= signs:
        return list(read(hunk, "-")), list(read(hunk, "+"))
    side, other = ("+", "-") if "+" in signs else ("-", "+")
    here = list(read(hunk, side))
    there: list[Head] = []
    if all(len(one.signs) == 1 for one in here):
        here = [one for one in here if one.signs == {side}]
    else:
        there = list(read(hunk, other))
    return (there, here) if side == "+" else (here, there)


def _symbol(path: str, hunk: Hunk, head: Head) -> Symbol:
    lines = tuple(head.lines[head.first : head.last])
    return Symbol(head.name, _kind(head), head.scope, path, head.text, lines, hunk, head)


def _statement(symbol: Symbol) -> Symbol:
    return symbol._replace(kind=symbol.head.type if symbol.head else "")


def _kind(head: Head) -> str:
    """Return what kind of symbol a statement defines, or ""; locals are none."""
    if head.type == "def":
        unknown = head.scope is None and re.search(r"\(\s*(?:self|cls)\b", head.text[:300])
        return "method" if head.around == "class" or unknown else "function"
    if head.type == "assign":
        if head.name.startswith(("self.", "cls.")):
            return "attribute"
        return "attribute" if head.around == "class" else "variable" if head.scope == "" else ""
    return head.type if head.type in ("class", "import") else ""


def _drop_unchanged(before: list[Symbol], after: list[Symbol]) -> None:
    """Leave out what stands on both sides as it is: an untouched head, a definition that moved."""

    def identity(one: Symbol) -> tuple[object, ...]:
        marks = tuple(mark.text.strip() for mark in one.head.marks) if one.head else ()
        return (one.kind, one.name, one.scope, one.text, marks)

    left = {identity(one) for one in before}
    same = left & {identity(one) for one in after}
    before[:] = [one for one in before if one.kind and identity(one) not in same]
    after[:] = [one for one in after if one.kind and identity(one) not in same]


def _drop_known_attributes(files: list[File], before: list[Symbol], after: list[Symbol]) -> None:
    """Leave out the attributes ``self.x`` that the lines of the other side know as well."""
    for symbols, side in ((before, "-"), (after, "+")):
        if any(one.name.startswith(_OWNERS) for one in symbols):
            lines = (line for file in files for hunk in file.hunks for line in hunk.lines)
            text = "\n".join([line.text for line in lines if line.sign != side])
            known = set(_ATTRIBUTE.findall(text))
            symbols[:] = [one for one in symbols if one.name not in known]


def _grouped(symbols: list[Symbol]) -> dict[tuple[str, str | None, str], list[Symbol]]:
    """Return the symbols of one side by what they are; an import in Python is one for each name."""
    found: dict[tuple[str, str | None, str], list[Symbol]] = {}
    for symbol in symbols:
        for one in (symbol,) if symbol.name else _imports(symbol):
            found.setdefault((one.kind, one.scope, one.name), []).append(one)
    return found


def _imports(symbol: Symbol) -> Iterator[Symbol]:
    for name, target in imported(symbol.text):
        word = re.compile(rf"\b{re.escape(name)}\b")
        line = next((one for one in symbol.lines if word.search(one.text)), symbol.lines[0])
        yield Symbol(name, "import", symbol.scope, symbol.path, target, (line,), symbol.hunk)


def _read(symbol: Symbol) -> tuple[Parameter, ...] | None:
    """Return the parameters of a function, None if they cannot be read."""
    if isinstance(symbol.head, Definition):
        return symbol.head.parameters
    return parameters(symbol.text)


def _changed(
    one: Symbol,
    two: Symbol,
    added: list[Symbol],
    removed: list[Symbol],
    signatures: list[Signature],
    classes: list[Signature],
) -> None:
    """Compare a symbol that both sides define, with heads that differ as texts."""
    if one.kind == "class":
        if not isinstance(two.head, Definition):
            classes.append(Signature(one, two))
    elif one.kind in ("function", "method"):
        signature = Signature(one, two)
        both = signature.readable
        if both is None:
            if one.text.split() != two.text.split():
                signatures.append(signature)
        elif both[0] != both[1]:
            signatures.append(signature)
            added.extend(_parameters(two, *both))
            removed.extend(_parameters(one, both[1], both[0]))
    elif one.kind == "import" and one.text != two.text:
        removed.append(one)
        added.append(two)


def _parameters(
    symbol: Symbol, there: tuple[Parameter, ...], here: tuple[Parameter, ...]
) -> Iterator[Symbol]:
    """Yield the parameters that only ``here`` has."""
    known = {one.name for one in there} | {"->"}
    for one in here:
        if one.name not in known:
            word = re.compile(rf"\b{re.escape(one.name.lstrip('*.'))}\b")
            lines = [line for line in symbol.lines if line.sign != " "]
            line = next((line for line in lines if word.search(line.text)), symbol.lines[0])
            text = f"{one.name}: {one.annotation} = {one.default}"
            yield Symbol(
                one.name, "parameter", symbol.full_name, symbol.path, text, (line,), symbol.hunk
            )


def span_of(agent: str, patch: Patch, symbol: Symbol) -> Span:
    """Return the passage where a patch shows a symbol."""
    lines = [line for line in symbol.lines if line.sign != " "] or symbol.lines
    return passage(f"patch:{agent}", patch.text, lines, symbol.hunk)


def shown(symbol: Symbol) -> str:
    """Return a symbol as a sentence names it: ``the method Parser.read``."""
    if symbol.kind == "parameter":
        return f"the parameter {one_line(symbol.name, 80)} of {one_line(symbol.scope or '', 120)}"
    return f"the {symbol.kind} {one_line(symbol.full_name, 120)}"


def about(symbol: Symbol) -> dict[str, object]:
    """Return the details of a symbol for a fact."""
    return {
        "path": symbol.path,
        "symbol": symbol.kind,
        "name": symbol.name,
        "scope": symbol.scope,
        "text": symbol.text[:300],
    }


def _symbol_fact(agent: str, patch: Patch, kind: str, verb: str, symbol: Symbol) -> Fact:
    says = f"{one_line(agent, 80)}'s patch {verb} {shown(symbol)} in {one_line(symbol.path, 200)}."
    return Fact(kind, says, (agent,), (span_of(agent, patch, symbol),), about(symbol))


def _signature_fact(agent: str, patch: Patch, signature: Signature) -> Fact:
    before, after = signature.before, signature.after
    says = (
        f"{one_line(agent, 80)}'s patch changes the signature of {shown(after)} in "
        f"{one_line(after.path, 200)}."
    )
    details = about(after) | {"before": before.text[:300]}
    changed = after if any(line.sign != " " for line in after.lines) else before
    return Fact("signature_changed", says, (agent,), (span_of(agent, patch, changed),), details)
