"""What a patch adds to classes and functions of Python, as evidence of how they are meant."""

import ast
import re
from collections import defaultdict
from contextlib import suppress
from itertools import islice
from typing import Any, Literal, NamedTuple

from annotator.patches import value_forms as form
from annotator.patches.diff import Line
from annotator.patches.fragments import ELSEWHERE, Words, tree_of
from annotator.patches.value_forms import UNKNOWN, Forms, name_of

MOST_HUNKS = 200  # hunks of one patch that are parsed

Key = tuple[str, str, str]  # path, scope, name
What = Literal["shape", "element", "value", "result", "class", "names"]  # value: by a key
Thing = tuple[What, Key]
Lines = tuple[Line, ...]


class Clue(NamedTuple):
    """What shows that a thing has one of these forms; ``made``: the patch gives it that form."""

    forms: Forms
    says: str
    lines: Lines
    made: bool


class Call(NamedTuple):
    """A call without ``*`` and ``**``: the names of what it passes, "" by position."""

    says: str
    lines: Lines
    passes: list[str]
    keywords: list[str]


class Defined(NamedTuple):
    """A function without ``*`` and ``**``; ``least``: the call with what it requires, by name."""

    least: Call
    new: bool
    names: list[str]  # of parameters, but for ``self``

    def takes(self, call: Call) -> bool:
        """Whether a call is possible, and passes what is required here in the same order."""
        passed, wants = self.names[: len(call.passes)] + call.keywords, self.least.passes
        moved = any(a != b and a in wants for a, b in zip(call.passes, passed, strict=False))
        fits = len(call.passes) <= len(self.names) and {*wants} <= {*passed} <= {*self.names}
        return fits and not moved and len({*passed}) == len(passed)


_ADDS = frozenset(["append", "add", "insert", "appendleft", "setdefault"])
_PLAIN = frozenset(["staticmethod", "classmethod", "abstractmethod", "override"])
_KINDS = ("dataclass", "NamedTuple", "TypedDict", "BaseModel", "Enum")  # of classes
_NUMBER = re.compile(r"[ijkn]|\w*(?:idx|index|pos|num|number)|")


class Clues(ast.NodeVisitor):
    """All evidence in those hunks of a patch (at most 200) that add one of some names."""

    def __init__(self, words: Words, names: set[str]) -> None:
        self.words = words
        self.evidence: dict[Thing, list[Clue]] = defaultdict(list)
        self.defined: dict[Key, Defined | None] = {}  # None: twice
        self.calls: dict[tuple[str, str], list[tuple[str, Call]]] = defaultdict(list)
        telling = (
            (file.path, hunk) for file in words.files for hunk in file.hunks
            if names & {*re.findall(r"\w+", "\n".join(x.text for x in hunk.lines if x.sign == "+"))}
        )  # fmt: skip
        for self._path, hunk in islice(telling, MOST_HUNKS):
            tree, self._lines = tree_of(hunk)
            self._scope = self._method = ""
            self._new = self._serves = False  # the method is; takes or gives something
            self._local_forms: dict[str, Forms] = {}  # what local names hold
            self._things: dict[str, Thing | None] = {}  # what they stand for
            with suppress(RecursionError, MemoryError):
                self.visit(tree)

    def visit(self, node: ast.AST) -> None:
        """Note what a node shows, and those within it."""
        around = self._scope, self._method, self._new
        match node:
            case ast.Name() | ast.Constant() | ast.expr_context():
                return
            case ast.ClassDef():
                self._class(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef() if not self._method:
                self._function(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._new = False  # what it returns, the method does not
            case ast.Assign(targets=targets):
                for target in targets:
                    self._assign(node, target)
            case ast.AnnAssign(target=target):
                self._assign(node, target)
            case ast.Return(value=value) if self._new:
                self._serves = True
                self._see(self._result, form.forms_of(value, self._local_forms), "returns {}", node)
            case ast.Call():
                self._call(node)
            case ast.Attribute(value=of, attr=name):
                self._see(self._thing(of), form.having(name), f"has .{name}", node)
                if isinstance(node.ctx, ast.Load) and self._new and self._serves:
                    self._role(node, "uses")
            case ast.Subscript(value=of, slice=index, ctx=ast.Load()):
                forms = form.BY_KEY if _is_text(index) else form.PARTS
                self._see(self._thing(of), forms, "is read by key", node)
            case ast.For(target=part, iter=of) | ast.comprehension(target=part, iter=of):
                self._bind(part, self._inside(of, "element"), UNKNOWN, part)
        self.generic_visit(node)
        self._scope, self._method, self._new = around

    def _key(self, name: str) -> Key:
        return self._path, self._scope, name

    def _thing(self, node: ast.AST | None) -> Thing | None:
        """Return what an expression names: an attribute, a value in it, what a function returns."""
        match node:
            case ast.Name(id=name):
                return self._things.get(name) if self._method else ("shape", self._key(name))
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
                return "shape", self._key(name)
            case ast.Call(func=ast.Name(id=name)):
                return "result", (self._path, "", name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name)):
                return "result", self._key(name)
            case ast.Subscript(value=of, slice=ast.Name() | ast.Attribute()):
                return self._inside(of, "value")
        return None

    def _inside(self, node: ast.AST, what: Literal["element", "value"]) -> Thing | None:
        thing = self._thing(node)
        return (what, thing[1]) if thing and thing[0] == "shape" else None

    def _shows(self, node: Any) -> Lines:
        """Return the own lines of a node: of a function those of its head."""
        first, whole = node.lineno, not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        last = node.end_lineno if whole else max(first, node.body[0].lineno - 1)
        return tuple(x for x in self._lines[first : last + 1] if x.start in self.words.own_lines)

    def _is_new(self, node: Any) -> bool:
        added = self._lines[node.lineno].sign == "+"
        return added and (self._path, node.name) not in self.words.removed

    def _see(self, thing: Thing | None, forms: Forms, says: str, node: Any) -> None:
        """Note that a thing may have these forms; where it says which ("{}"), it is given one."""
        in_scope = thing and forms and ELSEWHERE not in thing[1][1].split(".")
        if thing and in_scope and (lines := self._shows(node)):
            words = says.format(form.in_words(forms))
            self.evidence[thing].append(Clue(forms, words[:100], lines, "{}" in says))

    def _role(self, node: ast.expr, verb: str) -> None:
        thing = self._thing(node)
        if thing and thing[0] == "shape":
            path, scope, name = thing[1]
            role: Thing = ("names", (path, scope, f"{self._method} {verb}"))
            self._see(role, frozenset([name]), f"{verb} {name}", node)

    def _class(self, node: ast.ClassDef) -> None:
        if self._is_new(node):
            marks = [getattr(x, "func", x) for x in node.decorator_list] + node.bases
            says = next((x for x in _KINDS for mark in marks if x in name_of(mark)), "plain class")
            fields = [x for x in node.body if isinstance(x, ast.AnnAssign) and not x.value]
            if fields and says in _KINDS:
                says += f" of {', '.join(name_of(x.target) for x in fields)}"
            self._see(("class", self._key(node.name)), frozenset([says]), "{}", node)
        self._scope = f"{self._scope}.{node.name}".lstrip(".")

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        args, lines, key = node.args, self._shows(node), self._key(node.name)
        every = [*args.posonlyargs, *args.args, *args.kwonlyargs]
        self._serves = any(x.arg not in ("self", "cls") for x in every)
        self._local_forms = {x.arg: form.read_annotation(x.annotation)[0] for x in every}
        self._things = {}
        self._new = self._is_new(node)
        marks = {name_of(getattr(x, "func", x)) for x in node.decorator_list}
        if lines and marks <= _PLAIN and not (args.vararg or args.kwarg):
            names = [x.arg for x in every]
            places = len(args.posonlyargs) + len(args.args)
            free = {*names[places - len(args.defaults) : places]}
            free |= {x for x, y in zip(names[places:], args.kw_defaults, strict=True) if y}
            names = names[bool(self._scope) and "staticmethod" not in marks :]
            shown = ", ".join(f"{x}=" if x in free else x for x in names)
            needs = [x for x in names if x not in free]
            least = Call(f"{node.name}({shown})"[:100], lines, needs, [])
            twice = key in self.defined
            self.defined[key] = None if twice else Defined(least, self._new, names)
        self._result: Thing = "shape" if "property" in marks else "result", key
        if self._new:
            self._see(self._result, form.read_annotation(node.returns)[0], "returns {}", node)
        self._method = node.name

    def _assign(self, node: ast.Assign | ast.AnnAssign, target: ast.expr) -> None:
        value = node.value
        allowed, inner = form.read_annotation(getattr(node, "annotation", None))
        forms = allowed or form.forms_of(value, self._local_forms)
        match target:
            case ast.Tuple() | ast.Name() if self._method or isinstance(target, ast.Tuple):
                self._bind(target, self._thing(value), forms, node)
            case ast.Subscript(value=of, slice=index):
                by_number = _NUMBER.fullmatch(name_of(index)) and not isinstance(index, ast.Tuple)
                allowed = form.BY_KEY if _is_text(index) or not by_number else form.BY_PLACE
                self._see(self._thing(of), allowed, "is set by key", node)
                if not _is_text(index):  # the keys of a record hold what they like
                    self._see(self._inside(of, "value"), forms, "holds {} each", node)
            case _ if thing := self._thing(target):
                self._see(thing, forms, "{}", node)
                content = self._inside(target, "value" if "dict" in forms else "element")
                self._see(content, form.read_annotation(inner)[0], "holds {} each", node)
                while isinstance(value, ast.BoolOp | ast.IfExp):  # a parameter, or else a default
                    value = value.values[0] if isinstance(value, ast.BoolOp) else value.body
                if self._method and (name := name_of(value)):
                    self._role(target, f"keeps {name}")

    def _call(self, node: ast.Call) -> None:
        args, name, lines = node.args, name_of(node.func), self._shows(node)
        of = node.func.value if isinstance(node.func, ast.Attribute) else None
        self._see(self._thing(node.func), form.OBJECT, "is called", node)
        keywords = [argument.arg or "*" for argument in node.keywords]
        parts = ["*" if isinstance(argument, ast.Starred) else "" for argument in args]
        if lines and "*" not in parts + keywords and (not of or name_of(of) in ("self", "cls")):
            shown = ", ".join(["..."] * len(args) + [f"{argument}=" for argument in keywords])
            call = Call(f"calls {name}({shown})"[:100], lines, parts, keywords)
            self.calls[self._scope if of else "", name].append((self._path, call))
        if of and args and name in _ADDS and (name != "setdefault" or not _is_text(args[0])):
            content = self._inside(of, "value" if name == "setdefault" else "element")
            self._see(content, form.forms_of(args[-1], self._local_forms), "holds {} each", node)

    def _bind(self, target: ast.expr, thing: Thing | None, forms: Forms, node: ast.AST) -> None:
        """Note what local names stand for, and that a thing is unpacked."""
        if isinstance(target, ast.Tuple):
            forms = form.look_up(f"tuple of {len(target.elts)}") | form.OBJECT | {"list"}
            self._see(thing, forms, f"is unpacked as {len(target.elts)} values", node)
        elif isinstance(target, ast.Name):
            before = self._local_forms.get(target.id, forms)
            self._local_forms[target.id] = before | forms if before and forms else UNKNOWN
            self._things[target.id] = thing


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or isinstance(getattr(node, "value", None), str)
