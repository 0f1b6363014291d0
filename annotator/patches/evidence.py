"""What a patch adds to classes and functions of Python, as evidence of how they are meant."""

import ast
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import accumulate, islice
from typing import Any, NamedTuple

from annotator.patches.diff import Line
from annotator.patches.forms import (
    FORM,
    NOTHING,
    TUPLES,
    Forms,
    annotated,
    forms_of,
    having,
    in_words,
    name_of,
    unpacked,
    uses_of,
)
from annotator.patches.fragments import UNKNOWN, tree_of
from annotator.patches.words import Words

MOST_HUNKS = 200  # hunks of one patch that are parsed

Key = tuple[str, str, str]  # path, scope, name
Thing = tuple[str, Key]  # a "shape" of an attribute, an "element" or "value" of it, or a "result"
Function = ast.FunctionDef | ast.AsyncFunctionDef
Lines = tuple[Line, ...]


class Seen(NamedTuple):
    """What shows that a thing has one of these forms; ``made``: the patch gives it that form."""

    forms: Forms
    says: str
    lines: Lines
    made: bool


class Signature(NamedTuple):
    """The parameters of a function without ``self``. ``new``: the function is, not only they."""

    says: str
    lines: Lines
    new: bool
    names: tuple[str, ...]  # of parameters by position
    required: int  # of those
    only: frozenset[str]  # keywords
    needed: frozenset[str]  # required ones of these
    rest: bool  # *args
    others: bool  # **kwargs

    def fits(self, count: int, keywords: Iterable[str]) -> bool:
        """Whether a call with so many values and these keywords is possible."""
        keywords, by_place = set(keywords), set(self.names[:count])
        if count > len(self.names) and not self.rest:
            return False
        if keywords & by_place or not (self.others or keywords <= self.only | set(self.names)):
            return False
        return keywords >= self.needed | (set(self.names[: self.required]) - by_place)


class Call(NamedTuple):
    """A call without ``*`` and ``**``: how many values it passes, and which keywords."""

    says: str
    lines: Lines
    values: int
    keywords: tuple[str, ...]


class Class(NamedTuple):
    """A class that a patch adds, with the required fields that make its constructor, if they do."""

    kind: str
    fields: tuple[str, ...] | None
    lines: Lines


class Model:
    """All evidence of one patch.

    ``opaque`` things are given an object of some class; a call's scope is "~" with an object's name
    where it is a method of that; ``roles`` are what a method does with attributes.
    """

    def __init__(self, words: Words) -> None:
        self.words = words
        self.seen: dict[Thing, list[Seen]] = defaultdict(list)
        self.assigned: set[Key] = set()
        self.opaque: set[Key] = set()
        self.signatures: dict[Key, list[Signature]] = defaultdict(list)
        self.calls: dict[Key, list[Call]] = defaultdict(list)
        self.classes: dict[Key, Class] = {}
        self.roles: dict[tuple[Key, str], dict[str, list[Line]]] = {}


def evidence(words: Words, names: re.Pattern[str]) -> Model:
    """Return the evidence in those hunks of a patch (at most 200) that add one of the names."""
    model = Model(words)
    hunks = ((file.path, hunk) for file in words.files for hunk in file.hunks)
    for path, hunk in islice(hunks, MOST_HUNKS):
        if any(line.sign == "+" and names.search(line.text) for line in hunk.lines):
            with suppress(RecursionError, MemoryError):
                tree, lines = tree_of(hunk)
                _Reader(model, path, lines).block(tree.body, "")
    return model


_FILLS = frozenset(["append", "add", "insert", "extend", "appendleft", "setdefault", "put"])
_PLAIN = frozenset(["staticmethod", "classmethod", "abstractmethod", "override"])
_KINDS = {
    "dataclass": "a dataclass", "define": "a dataclass", "attrs": "a dataclass",
    "NamedTuple": "a named tuple", "TypedDict": "a typed dict", "BaseModel": "a model",
    "Enum": "an enumeration", "IntEnum": "an enumeration", "StrEnum": "an enumeration",
}  # fmt: skip
_MADE_OF_FIELDS = frozenset(["a dataclass", "a named tuple", "a model"])
_LEAVES = (ast.Name, ast.Constant, ast.expr_context, ast.operator)  # have no parts that are read
_NUMBER = re.compile(r"[ijkn]|\w*(?:idx|index|pos|num|number)")


class _Reader:
    """Reads the tree of one hunk. What has no added line is passed over."""

    def __init__(self, model: Model, path: str, lines: list[Line]) -> None:
        self.model, self.path, self.lines = model, path, lines
        self.added = list(accumulate(line.sign == "+" for line in lines))
        self.scope = ""
        self.leave()

    def leave(self) -> None:
        """Forget the function that was read."""
        self.method, self.fresh = "", False  # fresh: the patch adds the function
        self.params: frozenset[str] = frozenset()
        self.known: dict[str, Forms] = {}  # what local names hold
        self.aliases: dict[str, Thing] = {}

    def block(self, body: list[ast.stmt], scope: str) -> None:
        """Read the statements of a module or a class."""
        for node in filter(self.touched, body):
            self.scope = scope
            match node:
                case ast.ClassDef():
                    self.class_(node, f"{scope}.{node.name}".lstrip("."))
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self.function(node)
                case ast.If() | ast.With():
                    self.block(node.body, scope)
                case _:
                    for one in self.nodes([node]):
                        self.read(one)

    def class_(self, node: ast.ClassDef, scope: str) -> None:
        marks = [getattr(one, "func", one) for one in node.decorator_list] + node.bases
        kind = next((_KINDS[x] for x in map(name_of, marks) if x in _KINDS), "a plain class")
        if self.shows(node) and (self.path, node.name) not in self.model.words.removed:
            fields = [one for one in node.body if isinstance(one, ast.AnnAssign)]
            required = tuple(name_of(one.target) for one in fields if one.value is None)
            shown = self.lines[_first(node) : (node.end_lineno or 0) + 1]
            lines = tuple(line for line in shown if line.sign == "+")
            key = self.path, scope.rpartition(".")[0], node.name
            self.model.classes[key] = Class(
                kind, required if kind in _MADE_OF_FIELDS else None, lines
            )
        self.block(node.body, scope)

    def function(self, node: Function) -> None:
        head, args = self.shows(node), node.args
        added = self.lines[node.lineno].sign == "+"
        self.method = node.name
        self.fresh = added and (self.path, node.name) not in self.model.words.removed
        every = [*args.posonlyargs, *args.args, *args.kwonlyargs]
        self.params = frozenset(one.arg for one in every) - {"self", "cls"}
        marks = {name_of(getattr(one, "func", one)) for one in node.decorator_list}
        nodes = list(self.nodes(node.body))
        self.learn(nodes, every)
        if head and marks <= _PLAIN and node.name != UNKNOWN:
            self.signature(node, head, bool(self.scope) and "staticmethod" not in marks)
        if self.fresh:
            self.results(node, head, "shape" if "property" in marks else "result")
        for one in nodes:
            self.read(one)
        self.leave()

    def signature(self, node: Function, lines: Lines, bound: bool) -> None:
        args = node.args
        names = tuple(one.arg for one in (*args.posonlyargs, *args.args))[bound:]
        only = {one.arg for one in args.kwonlyargs}
        free = zip(args.kwonlyargs, args.kw_defaults, strict=True)
        needed = frozenset(one.arg for one, default in free if default is None)
        required = max(len(names) - len(args.defaults), 0)
        shown = [name + "=..." * (n >= required) for n, name in enumerate(names)]
        shown += [f"{name}=" for name in sorted(only)]
        found = Signature(
            f"{node.name}({', '.join(shown)})"[:100], lines, self.fresh, names, required,
            frozenset(only), needed, args.vararg is not None, args.kwarg is not None,
        )  # fmt: skip
        self.model.signatures[self.key(node.name)].append(found)

    def results(self, node: Function, head: Lines, what: str) -> None:
        thing, (forms, _) = (what, self.key(node.name)), annotated(node.returns)
        self.see(thing, forms, f"returns {in_words(forms)}", head, made=True)
        for one in self.nodes(node.body, inner=False):
            if isinstance(one, ast.Return):
                value, held = one.value, NOTHING if forms else forms_of(one.value, self.known)
                self.see(thing, held, f"returns {in_words(held)}", self.shows(one), made=True)
                if isinstance(value, ast.Call) and len(value.args) == 1:
                    value = value.args[0]  # a copy or the length
                self.role(value, "gives", one)

    def learn(self, nodes: list[ast.AST], parameters: list[ast.arg]) -> None:
        """Learn what the local names of a function stand for, if it is one thing."""
        known = {one.arg: annotated(one.annotation)[0] for one in parameters}
        for node in nodes:
            if isinstance(node, ast.Assign) and isinstance(name := node.targets[0], ast.Name):
                forms = forms_of(node.value, {})
                known[name.id] = forms if known.get(name.id, forms) == forms else NOTHING
                if thing := self.thing(node.value):
                    self.aliases[name.id] = thing
            elif isinstance(node, ast.For | ast.comprehension):
                known.update((name_of(one), NOTHING) for one in ast.walk(node.target))
        self.known = known

    # What a node names, and where it stands.

    def key(self, name: str) -> Key:
        return self.path, self.scope, name

    def thing(self, node: ast.AST | None) -> Thing | None:
        """Return what an expression names: an attribute, or what a function returns."""
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name) if self.scope:
                return "shape", self.key(name)
            case ast.Call(func=ast.Name(id=name)):
                return "result", (self.path, "", name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name)):
                return "result", self.key(name)
            case ast.Name(id=name):
                return self.aliases.get(name) if self.method else ("shape", self.key(name))
        return None

    def inside(self, node: ast.AST | None, what: str = "element") -> Thing | None:
        """Return the elements, or the values by key, of an attribute."""
        thing = self.thing(node)
        return (what, thing[1]) if thing and thing[0] == "shape" else None

    def shows(self, node: Any) -> Lines:
        """Return the added lines of a node: those of its head, if it has a body."""
        first, last = node.lineno, node.end_lineno or node.lineno
        if isinstance(body := getattr(node, "body", None), list) and body:
            last = max(first, min(last, body[0].lineno - 1))
        return tuple(line for line in self.lines[first : last + 1] if line.sign == "+")

    def touched(self, node: ast.stmt) -> bool:
        return self.added[node.end_lineno or 0] > self.added[_first(node) - 1]

    def nodes(self, body: list[ast.stmt], inner: bool = True) -> Iterator[ast.AST]:
        """Yield the nodes of statements with added lines, but for classes (and functions)."""
        passed = ast.ClassDef if inner else ast.ClassDef | Function | ast.Lambda
        waiting = deque[ast.AST](body)
        while waiting:
            node = waiting.popleft()
            if not isinstance(node, passed) and (
                not isinstance(node, ast.stmt) or self.touched(node)
            ):
                yield node
                if not isinstance(node, _LEAVES):
                    waiting.extend(ast.iter_child_nodes(node))

    def mentions(self, *nodes: ast.AST | None) -> bool:
        """Whether a parameter of the function stands in an expression."""
        every = (one for node in nodes if node for one in ast.walk(node))
        return any(isinstance(one, ast.Name) and one.id in self.params for one in every)

    # What is noted.

    def see(
        self, thing: Thing | None, forms: Forms, says: str, lines: Lines, made: bool = False
    ) -> None:
        if thing and forms and lines and UNKNOWN not in thing[1][1].split("."):
            self.model.seen[thing].append(Seen(forms, says, lines, made))

    def holds(self, thing: Thing | None, node: ast.AST | None, lines: Lines) -> None:
        """Note that a value is put into a container."""
        forms = forms_of(node, self.known)
        if not forms and isinstance(node, ast.Call) and name_of(node.func)[:1].isupper():
            forms = FORM["object"]
        self.see(thing, forms, f"holds {in_words(forms)} each", lines, made=True)

    def role(self, value: ast.AST | None, verb: str, node: ast.AST) -> None:
        """Note that a new method does this with an attribute, or any method keeps a value in it."""
        thing = self.thing(value)
        if thing and thing[0] == "shape" and self.method and (self.fresh or verb[:5] == "keeps"):
            role = self.model.roles.setdefault((self.key(self.method), verb), {})
            role.setdefault(thing[1][2], []).extend(self.shows(node))

    def read(self, node: ast.AST) -> None:
        """Read one node of a statement."""
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self.assign(node, target, value, None)
            case ast.AnnAssign(target=target, annotation=annotation, value=value):
                self.assign(node, target, value, annotation)
            case ast.Call():
                self.call(node)
            case ast.For(target=target, iter=iterated, body=body):
                self.iterate(node, target, iterated, body)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
                for one in node.generators:
                    self.iterate(node, one.target, one.iter, [*parts, *one.ifs])
            case ast.Subscript(value=value, slice=index, ctx=ast.Load()):
                if _is_text(index):
                    self.see(self.thing(value), FORM["dict"], "is read by key", self.shows(node))
                if self.mentions(index):
                    self.role(value, "looks up", node)

    def assign(
        self, node: ast.stmt, target: ast.expr, value: ast.expr | None, note: ast.expr | None
    ) -> None:
        lines = self.shows(node)
        if isinstance(target, ast.Subscript):
            self.assign_item(target, value, lines)
        elif isinstance(target, ast.Tuple):
            size = len(target.elts)
            self.see(self.thing(value), unpacked(size), f"is unpacked as {size} values", lines)
        elif not (self.method and isinstance(target, ast.Name)) and (thing := self.thing(target)):
            allowed, inner = annotated(note)
            forms = allowed or forms_of(value, self.known)
            if lines:
                self.model.assigned.add(thing[1])
                if not forms and (note or isinstance(value, ast.Call)):
                    self.model.opaque.add(thing[1])
            self.see(thing, TUPLES if forms & TUPLES else forms, in_words(forms), lines, made=True)
            held = self.inside(target, "value" if "dict" in forms else "element")
            of, _ = annotated(inner)
            self.see(held, of, f"holds {in_words(of)} each", lines, made=True)
            if isinstance(value, ast.List | ast.Set) and value.elts:
                self.holds(held, value.elts[0], lines)
            while isinstance(value, ast.BoolOp | ast.IfExp):  # a parameter, or else a default
                value = value.values[0] if isinstance(value, ast.BoolOp) else value.body
            if name := name_of(value):
                self.role(target, f"keeps {name}", node)

    def assign_item(self, target: ast.Subscript, value: ast.expr | None, lines: Lines) -> None:
        index = target.slice
        name, forms = name_of(index), FORM["dict"]
        named = name and not _NUMBER.fullmatch(name)
        if not (named or _is_text(index) or isinstance(index, ast.Tuple | ast.JoinedStr)):
            forms |= FORM["list"]
        self.see(self.thing(target.value), forms, "is assigned by key", lines)
        if not _is_text(index):  # the keys of a record hold what they like
            self.holds(self.inside(target.value, "value"), value, lines)
        if self.mentions(index, value):
            self.role(target.value, "fills", target)

    def call(self, node: ast.Call) -> None:
        lines, function, args = self.shows(node), node.func, node.args
        method, keywords = name_of(function), tuple(one.arg or "*" for one in node.keywords)
        owner = function.value if isinstance(function, ast.Attribute) else None
        if lines and method and "*" not in keywords and not any(map(_is_starred, args)):
            of = name_of(owner)
            scope = self.scope if of in ("self", "cls") else f"~{bare(of)}" if owner else ""
            shown = ", ".join([*["..."] * len(args), *(f"{one}=" for one in keywords)])
            call = Call(f"calls {method}({shown})"[:100], lines, len(args), keywords)
            self.model.calls[self.path, scope, method].append(call)
        if owner:
            self.see(self.thing(owner), having(method), f"has {method}() called", lines)
            if method in ("append", "add", "insert", "appendleft") and args:
                self.holds(self.inside(owner), args[-1], lines)
            if self.mentions(*args):
                self.role(owner, "fills" if method in _FILLS else "looks up", node)
        match owner:  # self.x.setdefault(key, []).append(...), self.x[key].append(...)
            case (
                ast.Call(func=ast.Attribute(value=holder, attr="setdefault"))
                | ast.Subscript(value=holder, slice=ast.Name() | ast.Attribute())
            ):
                made, says = isinstance(owner, ast.Call), f"holds what has {method}()"
                self.see(self.inside(holder, "value"), having(method), says, lines, made)

    def iterate(
        self, node: ast.AST, target: ast.expr, iterated: ast.expr, body: Iterable[ast.AST]
    ) -> None:
        what = "element"
        while isinstance(iterated, ast.Call) and len(iterated.args) <= 1:
            name, function = name_of(iterated.func), iterated.func
            if name in ("items", "enumerate"):
                target = target.elts[-1] if isinstance(target, ast.Tuple) else target
            if isinstance(function, ast.Attribute) and name in ("items", "values"):
                what, iterated = "value", function.value
            elif iterated.args and name in ("sorted", "list", "reversed", "tuple", "enumerate"):
                iterated = iterated.args[0]
            else:
                break
        thing, lines = self.inside(iterated, what), self.shows(node)
        self.role(iterated, "walks", node)
        if isinstance(target, ast.Tuple):
            size = len(target.elts)
            self.see(thing, unpacked(size), f"is iterated as {size} values each", lines)
        elif isinstance(target, ast.Name) and thing:
            for forms, says in uses_of(target.id, body):
                self.see(thing, forms, says, lines)


def bare(name: str) -> str:
    """Return a name in the form that a class and its object share."""
    return name.replace("_", "").casefold()


def _first(node: ast.stmt) -> int:
    marks: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in marks)])


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_starred(node: ast.AST) -> bool:
    return isinstance(node, ast.Starred)
