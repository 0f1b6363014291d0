"""Clues in a patch about the forms of attributes, values, functions and classes of Python."""

import ast
import builtins
import re
from collections import defaultdict
from contextlib import suppress
from typing import Any, NamedTuple

from annotator.cooperbench.patches import value_forms as form
from annotator.cooperbench.patches.diff import Line
from annotator.cooperbench.patches.fragments import (
    APPENDED,
    ELSEWHERE,
    VARIABLE,
    PatchTexts,
    is_stub,
    parse_hunk,
)
from annotator.cooperbench.patches.value_forms import UNKNOWN, Forms, Step, get_name

MOST_STEPS = 2  # from a thing to what it holds, and to what that holds
MOST_PARTS = 4  # elements of a literal that are read
MOST_CLUES = 20  # clues of a thing that are handed on to another

ANYTHING = "?"  # the scope of a method called on an unknown object
Key = tuple[str, str, str]  # path, scope, name
# An aspect and its owner. Aspects: "shape", "result", "class" or "local"; with ".element" or
# ".value" for the contents, ".keys" of a record, ".sets" (keys set later), ".order" of a tuple,
# ".class" of an object; "names" (a role), "begins", "reads", "fills", "keeps" and "moves" of an
# attribute; "frozen" of a class.
Thing = tuple[str, Key]
Some = Thing | None
Lines = tuple[Line, ...]


class Clue(NamedTuple):
    """Lines that show one of these forms of a thing; ``made``: the patch gives it the form."""

    forms: Forms
    says: str
    lines: Lines
    made: bool


class Call(NamedTuple):
    """A call without ``*`` and ``**``: the names of its arguments, "" by position."""

    says: str
    lines: Lines
    passes: list[str]
    keywords: list[str]
    names: tuple[str, ...] = ()  # of the arguments by position


class Defined(NamedTuple):
    """The parameters of a function without ``self``, and the shortest call that it takes."""

    shortest: Call
    new: bool
    names: list[str]
    options: list[str]  # keyword-only parameters
    rest: str = ""  # "*" and "**"

    def takes(self, call: Call) -> bool:
        """Whether a call is possible, and passes the required parameters in the same order."""
        passes = [x for x in call.passes if x not in self.options]
        positional = self.names[: len(passes)]
        keywords = {*call.keywords, *(x for x in call.passes if x in self.options)}
        required = {*self.shortest.passes, *self.shortest.keywords}
        moved = any(a != b and a in required for a, b in zip(passes, positional, strict=False))
        # Two may be swapped on purpose.
        pairs = zip(call.names, positional[2:] and positional, strict=False)
        moved = moved or sum(a != b and a in required for a, b in pairs) > 1
        fits = len(passes) == len(positional) or "*" in self.rest.split()
        fits = fits and ("**" in self.rest or keywords <= {*self.names, *self.options})
        every = required <= {*positional} | keywords
        return fits and not moved and every and keywords.isdisjoint(positional)


_ADDS = frozenset(["append", "add", "insert", "appendleft"])
_FILLS = _ADDS | {"extend", "extendleft", "update", "setdefault"}
_SAME = frozenset(["sorted", "list", "reversed", "tuple", "set", "frozenset", "iter", "deque"])
_PICKS = frozenset(["heappop", "min", "max", "next", "choice"])
_LEAVES = frozenset(["heappop", "join", "copy", "deepcopy", "Counter", "deque", "defaultdict"])
_LEAVES |= _FILLS | frozenset(dir(builtins))  # do not change their arguments
_HEAP = frozenset(["heappush", "heappop", "heapify", "insort"])
_PLAIN = frozenset(["staticmethod", "classmethod", "abstractmethod", "override"])
_BARE = frozenset(["dataclass", "NamedTuple", "object", "total_ordering"])
_KINDS = ("dataclass", "NamedTuple", "TypedDict", "BaseModel", "Enum")  # of classes
_SAYS = {"shape": "{}", "local": "{}", "result": "returns {}", "result.element": "returns {} each"}
_EMPTY = re.compile(
    r"None|\[\]|\{\}|0|0\.0|(?:\w+\.)?(?:[a-zO]\w+|Counter)\((?:maxlen=\w+)?\)|(?:field\(default_factory=|default\w+\()\w*\)"
)
_NO_FIELD = re.compile("ClassVar|KW_ONLY")
_RETURN = re.compile(r"\s+return \S")
_LEAF = (ast.Name, ast.Constant, ast.expr_context, ast.operator, ast.arguments, ast.alias)
_Yields = ast.Yield | ast.YieldFrom
_Returns = ast.Return | _Yields | ast.FunctionDef | ast.AsyncFunctionDef
_Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


class Clues(ast.NodeVisitor):
    """The clues in the hunks of a patch that add one of some names."""

    def __init__(
        self, texts: PatchTexts, other: PatchTexts, names: set[str], homes: dict[str, str]
    ) -> None:
        self.texts = texts
        self.evidence: dict[Thing, list[Clue]] = defaultdict(list)
        self.defined: dict[Key, Defined | None] = {}  # None: twice
        self.calls: dict[tuple[str, str], list[tuple[str, Call]]] = defaultdict(list)
        self.bases: dict[str, set[str]] = {}  # of classes, by name
        self.members: dict[str, frozenset[str]] = {}  # attributes of classes that are all here
        self._parameters: dict[Key, list[tuple[str, Some]]] = {}
        self._passes: list[tuple[Key, int | str | None, Thing, Lines]] = []
        self._open: set[tuple[Some, bool]] = set()  # made, or used, in several forms
        self._aliases: list[tuple[Thing, Thing, Lines]] = []
        self._passed: set[Thing] = set()  # values without a name, and parameters that get them
        self._object_forms = {**other.object_forms(), **texts.object_forms()}
        self._homes, self._count = homes, 0  # paths of functions; local names
        self._classes: dict[str, str | None] = {}  # of what a local name or "scope.attribute" holds
        telling = (
            (file.path, hunk) for file in texts.files for hunk in file.hunks
            if names & texts.stubs.get(hunk.start, set()) or names & {*re.findall(r"\w+", "\n".join(
                x.text for x in hunk.lines if x.sign == "+" or x.text[:4] in ("def ", "clas")))}
        )  # fmt: skip
        for self._path, hunk in telling:
            tree, self._lines = parse_hunk(hunk, texts.heads.get(hunk.start, ""))
            self._stubs = texts.stubs.get(hunk.start, set()) - {ELSEWHERE}
            self._returns = [x.start for x in hunk.lines if x.sign == "-" and _RETURN.match(x.text)]
            self._imports = texts.imports(self._path) | other.imports(self._path)
            self._lists = other.find(APPENDED, " +", self._path)
            finds = (x.find(VARIABLE, " -+", self._path) for x in (texts, other))
            self._variables = frozenset[str]().union(*finds)
            self._picked: set[str] = set()
            self._column, self._declared = 0, False
            self._scope = self._method = ""
            self._new = self._serves = False  # the method is; takes or gives something
            self._local_forms: dict[str, Forms] = dict(self._object_forms)  # of local names
            self._things: dict[str, Some] = {}  # the things of local names
            self._filled: set[int] = set()  # nodes of attributes that are put something into
            self._arguments: dict[int, Some] = {}  # of lambdas
            with suppress(RecursionError, MemoryError):
                self.visit(tree)
        self._hand_on()

    def visit(self, node: ast.AST) -> None:
        """Note the clues in a node."""
        around = self._scope, self._method, self._new
        match node:
            case ast.ClassDef():
                self._class(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef() if not self._method:
                self._function(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                self._new = self._new and isinstance(node, ast.Lambda)  # returns for itself
                for argument in node.args.args:
                    self._picked |= {argument.arg} if isinstance(node, ast.Lambda) else set()
                    self._things[argument.arg] = self._arguments.get(id(node))
                    self._local_forms[argument.arg] = UNKNOWN
            case ast.Assign() | ast.AnnAssign():
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    self._assign(node, target, node.value)
            case ast.AugAssign(target=target, value=value):
                self._fill(target, node)
                self._mark("moves", target, node)
                if isinstance(value, ast.List | ast.ListComp):
                    self._fill_from(self._thing(target), value, node)
            case ast.Return(value=ast.expr() as value) if self._new:
                self._serves = True
                self._mark("fills", value, node)  # by whoever gets it
                plain = self._give(self._result, value, node) or isinstance(value, ast.Constant)
                if not (plain or self._thing(value) or self._declared):
                    self._open.add((self._result, True))  # may return anything
            case ast.Yield(value=value) | ast.YieldFrom(value=value) if self._new:
                self._see(self._result, form.look_up("Iterator"), "", node)
                element = self._inside(self._result, "element")
                self._give(element if isinstance(node, ast.Yield) else None, value, node)
            case ast.Call():
                self._call(node)
            case ast.Global(names=[name, *_]):
                self._mark("fills", ast.Name(name), node)
            case ast.Name(ctx=ast.Load()) if id(node) not in self._filled:
                self._mark("reads", node, node)
            case ast.Attribute(value=of, attr=name):
                verb = "sets" if isinstance(node.ctx, ast.Store) else "has"
                self._see(self._thing(of), form.find_forms_with(name), f"{verb} .{name}", node)
                if id(node) not in self._filled or verb == "sets":
                    self._mark("keeps" if verb == "sets" else "reads", node, node)
                if isinstance(node.ctx, ast.Load) and self._new and self._serves:
                    self._role(node, "uses")
            case ast.Subscript(value=of, slice=index) if not isinstance(node.ctx, ast.Store):
                self._subscript(node, of, index)
            case ast.Compare(left=ast.Constant(value=str(key)), comparators=[of]):
                self._see(_add_step(self._thing(of), "sets"), frozenset([key]), "asks for", node)
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
                for some, other in ((left, right), (right, left)):
                    forms = form.infer_key_forms(other, self._local_forms) & form.SCALAR
                    if forms and get_name(some) != get_name(other):  # like names: of any form
                        self._see(self._thing(some), forms | form.OBJECT, "is compared", node)
            case ast.For(target=element, iter=of) | ast.AsyncFor(target=element, iter=of):
                self._loop(element, of)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                before = self._enter(node.generators)
                self.generic_visit(node)
                self._things, self._local_forms = before
                return
        self.generic_visit(node)
        self._scope, self._method, self._new = around

    def generic_visit(self, node: ast.AST) -> None:
        """Visit the children of a node that may have clues."""
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, _LEAF) or getattr(child, "id", "") in self._variables:
                self.visit(child)

    def _enter(self, loops: list[ast.comprehension]) -> tuple[dict[str, Any], dict[str, Forms]]:
        """Bind the variables of a comprehension; return the names as they were."""
        before = self._things, self._local_forms
        self._things, self._local_forms = dict(self._things), dict(self._local_forms)
        for loop in loops:
            self._loop(loop.target, loop.iter)
        return before

    def _key(self, name: str) -> Key:
        return self._path, self._scope, name

    def _class_of(self, node: ast.AST | None) -> str | None:
        """Return the class around ``self``, or that of an object that is built here."""
        match node:
            case ast.Name(id=name):
                return self._scope if name in ("self", "cls") else self._classes.get(name)
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                return self._classes.get(f"{self._scope}.{name}")
            case ast.Call(func=ast.Name(id=name)) if name[:1].isupper():
                return name
        return None

    def _thing(self, node: ast.AST | None) -> Some:
        """Return the thing of an expression: an attribute, a value in it, or a result."""
        match node:
            case ast.Name(x) if self._method and x in self._variables and x not in self._things:
                return "shape", (self._path, "", x)
            case ast.Name(id=name):
                local = self._method or name in self._things
                return self._things.get(name) if local else ("shape", self._key(name))
            case ast.Attribute(value=of, attr=name) if (scope := self._class_of(of)) is not None:
                path = self._homes.get(scope) if scope in self._imports else None
                return "shape", (path or self._path, scope, name)
            case ast.Call(ast.Name(name) | ast.Attribute(attr=name), [of]) if name in _PICKS:
                return self._elements(of)
            case ast.Call(func=ast.Name(id=name)) if name.islower() and name not in _LEAVES:
                path = self._homes.get(name) if name in self._imports else None
                return "result", (path or self._path, "", name)
            case ast.Call(func=ast.Attribute(of, name)) if (
                scope := self._class_of(of)
            ) is not None:
                return "result", (self._path, scope, name)
            case ast.Call(func=ast.Attribute(), args=[ast.Constant(value=str()), *_]):
                return None  # records hold what they like
            case ast.Call(func=ast.Attribute(value=of, attr="get" | "setdefault")):
                return self._inside(self._thing(of), "value")
            case ast.Call(func=ast.Attribute(value=of, attr="pop" | "popleft"), args=args):
                by_position = not args or isinstance(getattr(args[0], "value", None), int)
                return self._inside(self._thing(of), "element" if by_position else "value")
            case ast.Subscript(value=of, slice=index) if not isinstance(
                index, ast.Slice
            ) and not isinstance(getattr(index, "value", 0), str):
                thing = self._thing(of)
                fixed = isinstance(index, ast.Constant | ast.UnaryOp) or get_name(of) in self._lists
                listed = "list" in forms if (forms := self._made(thing)) else fixed
                return self._inside(thing, "element" if listed else "value")
            case ast.Await(of) | ast.NamedExpr(value=of) | ast.BoolOp(ast.Or(), [of, *_]):
                return self._thing(of)
        return None

    def _made(self, thing: Some) -> Forms:
        clues = self.evidence.get(thing, []) if thing else []
        return frozenset().union(*(x.forms for x in clues if x.made))

    def _inside(self, thing: Some, step: Step) -> Some:
        return _add_step(thing, step) if thing and thing[0].count(".") < MOST_STEPS else None

    def _elements(self, node: ast.AST) -> Some:
        match node:
            case ast.Call(func=ast.Name(id=name), args=[*_, of]) if name in _SAME | {"filter"}:
                return self._elements(of)
            case ast.Call(func=ast.Attribute(value=of, attr="values")):
                return self._inside(self._thing(of), "value")
            case ast.Call(ast.Attribute(of, "keys" | "copy")) | ast.Subscript(of, ast.Slice()):
                return self._elements(of)
        return self._inside(self._thing(node), "element")

    def _shows(self, node: Any) -> Lines:
        """Return the own lines of a node: of a function those of its head."""
        first, all_lines = node.lineno, not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        last = node.end_lineno if all_lines else max(first, node.body[0].lineno - 1)
        return tuple(x for x in self._lines[first : last + 1] if x.start in self.texts.own_lines)

    def _is_new(self, node: Any) -> bool:
        added = self._lines[node.lineno].sign == "+"
        return added and (self._path, node.name) not in self.texts.removed

    def _see(self, thing: Some, forms: Forms, says: str, node: Any, made: bool = False) -> None:
        """Note that a thing may have these forms; without ``says`` it gets one of them."""
        if thing and forms and ELSEWHERE not in thing[1][1].split("."):
            lines, made = self._shows(node), made or not says
            if thing[0].startswith("result") and not isinstance(node, _Returns):
                made = False  # whoever calls it
            if lines or thing[0].startswith("local"):
                text = says or _describe(thing[0], forms)
                self.evidence[thing].append(Clue(forms, text[:100], lines, made))

    def _annotate(self, thing: Some, annotation: ast.AST | None, node: Any) -> Forms:
        """Note the annotation of a thing, and return the forms that it allows."""
        forms, parts = form.read_annotation(annotation, self._local_forms)
        forms |= form.DICT if "dict" in forms else form.UNKNOWN
        self._see(thing, forms, "", node)
        self._see_class(thing, get_name(annotation), node)
        for step, inner in parts if thing else ():
            self._annotate(self._inside(thing, step), inner, node)
        return forms

    def _give(self, thing: Some, value: ast.AST | None, node: Any, annotation: Any = None) -> Forms:
        """Note that a thing gets the forms of a value and of its contents; return the forms."""
        forms = self._annotate(thing, annotation, node)
        if "dict" in forms or not (forms or isinstance(annotation, ast.BinOp)):
            written = form.infer_forms(value, self._local_forms)
            self._see(thing, written, "", node)
            forms = written or forms
        if isinstance(value, ast.Call):
            self._see_class(thing, get_name(value.func), node)
        if thing:
            self._give_parts(thing, value, node)
        return forms

    def _give_parts(self, thing: Thing, value: ast.AST | None, node: Any) -> None:
        element = self._inside(thing, "element")
        match value:
            case ast.List(elts=parts) | ast.Set(elts=parts):
                for item in parts[:MOST_PARTS]:
                    self._give(element, item, node)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                before = self._enter(value.generators)
                if isinstance(value, ast.DictComp):
                    self._set(thing, value.key, value.value, node)
                else:
                    self._give(element, value.elt, node)
                self._things, self._local_forms = before
            case ast.Dict(keys=keys, values=values):
                texts = [getattr(key, "value", None) for key in keys]
                names = [text for text in texts if isinstance(text, str)]
                if names == texts and names and thing[0] != "shape":
                    says = f"has the keys {', '.join(names)}"
                    self._see(_add_step(thing, "keys"), frozenset(names), says, node, made=True)
                for key, item in [*zip(keys, values, strict=True)] if names != texts else ():
                    self._set(thing, key or item, item, node)
            case ast.Tuple(elts=parts):
                self._order(thing, parts, node, made=True)
            case ast.BoolOp(values=parts):
                for item in parts:
                    self._give_parts(thing, item, node)
            case ast.Call(func=ast.Name(id="Counter" | "defaultdict" as name), args=args):
                factory = args[0] if args and name != "Counter" else ast.Name("int")
                self._see(self._inside(thing, "value"), form.look_up(get_name(factory)), "", node)
            case ast.Call(func=ast.Name(id=name), args=[of, *_]) if name in _SAME:
                self._fill_from(thing, of, node)
            case ast.Subscript(of, ast.Slice()):
                self._fill_from(thing, of, node)
            case _ if source := self._thing(value):
                self._aliases.append((thing, source, self._shows(node)))

    def _see_class(self, thing: Some, name: str, node: Any) -> None:
        if thing and f"{name}()" in self._object_forms:
            self._see(_add_step(thing, "class"), frozenset([name]), f"a {name}", node, made=True)

    def _fill_from(self, thing: Some, of: ast.AST, node: Any) -> None:
        if thing and isinstance(of, ast.List | ast.Set | ast.Dict | _Comprehension):
            self._give_parts(thing, of, node)
        elif thing and isinstance(of, ast.Call) and get_name(of.func) == "items":
            pairs = "dict" in self._made(self._thing(getattr(of.func, "value", None)))
            self._see(self._inside(thing, "element"), form.look_up("tuple of 2" * pairs), "", node)
        elif (element := self._inside(thing, "element")) and (source := self._elements(of)):
            self._aliases.append((element, source, self._shows(node)))

    def _order(self, thing: Some, parts: list[ast.expr], node: Any, made: bool) -> None:
        names = [get_name(item).strip("_") or "-" for item in parts]
        if len({*names} - {"-"}) > 1:
            verb = "holds" if made else "is unpacked as"
            says = f"{verb} ({', '.join(names)})"
            self._see(_add_step(thing, "order"), frozenset([" ".join(names)]), says, node, made)

    def _set(self, thing: Some, index: ast.AST, value: ast.AST | None, node: Any) -> None:
        key = form.infer_key_forms(index, self._local_forms)
        text = x if isinstance(x := getattr(index, "value", ""), str) else ""
        self._see(_add_step(thing, "sets"), frozenset([text or "*"]), "sets a key", node)
        if not text and not isinstance(index, ast.JoinedStr):  # records hold what they like
            self._give(self._inside(thing, "value"), value, node)
            if key and key != {"number"}:
                says = f"has {form.describe_forms(key)} as a key"
                self._see(self._inside(thing, "element"), key, says, node, made=True)

    def _mark(self, what: str, node: ast.AST, at: Any, forms: Forms = form.OBJECT) -> None:
        thing = self._thing(node)
        mine = get_name(getattr(node, "value", None)) == "self" or what in ("reads", "keeps")
        kept = (mine and self._method) or isinstance(node, ast.Name)
        if thing and thing[0] == "shape" and kept:
            self._see((what, thing[1]), forms, f"{what} {thing[1][2]}", at, made=True)

    def _role(self, node: ast.expr, verb: str) -> None:
        name, apart = get_name(node), f"{self._method} {verb}" in ("__init__ uses", f" {verb}")
        if self._thing(node) == ("shape", self._key(name)) and not apart:
            role = "names", self._key(f"{self._method} {verb}")
            self._see(role, frozenset([name]), f"{verb} {name}", node)

    def _fill(self, node: ast.AST, at: Any) -> None:
        """Note that an attribute, or its contents, get something."""
        while isinstance(node, ast.Subscript | ast.Call):
            base = node if isinstance(node, ast.Subscript) else node.func
            node = getattr(base, "value", base)
        self._mark("fills", node, at)
        self._filled.add(id(node))

    def _class(self, node: ast.ClassDef) -> None:
        """Note the kind of a class, its attributes, and its frozen fields."""
        marks = [getattr(x, "func", x) for x in node.decorator_list] + node.bases
        kind = next((x for x in _KINDS for mark in marks if x in get_name(mark)), "plain class")
        fields = [x for x in node.body if isinstance(x, ast.AnnAssign) and kind in _KINDS]
        names = [get_name(x.target) for x in fields if not _NO_FIELD.search(ast.dump(x.annotation))]
        free = {get_name(x.target) for x in fields if x.value}
        line, key = self._lines[node.lineno], self._key(node.name)
        self._scope = f"{self._scope}.{node.name}".lstrip(".")
        self.bases[self._scope] = {get_name(base) for base in node.bases} - {"object"}
        ends = any(x.text[:1].strip() for x in self._lines[(node.end_lineno or 0) + 1 :])
        filled = line.start and {self._lines[x.lineno].sign for x in fields} == {"+"}
        if filled or self._is_new(node):
            needs = ", ".join(x for x in names if x not in free)
            says = f"{kind} of {needs}" if needs else kind
            self._see(("class", key), frozenset([says]), f"a {says}", node, made=True)
            inner = [x for x in ast.walk(node) if not isinstance(getattr(x, "ctx", 0), ast.Load)]
            every = {getattr(x, at, "") for x in inner for at in ("attr", "id", "name")}
            if {*map(get_name, marks)} <= _BARE and "__getattr__" not in every:
                if ends or self._is_new(node):
                    self.members[node.name] = frozenset([*every, *dir(tuple)])
                if names and "__init__" not in every and kind in _KINDS[:2]:
                    shortest = Call("", (), [], [x for x in names if x not in free])
                    self._define(self._key("__init__"), node, shortest, True, names, [])
        lines = [self._lines[n] for n in (node.lineno, *(x.lineno for x in node.decorator_list))]
        frozen = kind == "NamedTuple" or any("frozen=True" in x.text for x in lines)
        if frozen and any(x.sign == "+" for x in lines):
            old = not self._is_new(node)
            self._see(("frozen", key), frozenset(names), f"a frozen {kind}", node, made=old)

    def _define(self, key: Key, node: Any, shortest: Call, *rest: Any) -> None:
        """Note the parameters of a function, or the fields of a class."""
        defined = Defined(shortest, *rest)
        needs, every = shortest.passes + shortest.keywords, defined.names + defined.options
        parameters = [x if x in needs else f"{x}=" for x in every]
        says = f"{node.name}({', '.join(parameters + defined.rest.split())})"[:100]
        shortest = shortest._replace(says=says, lines=self._shows(node))
        self.defined[key] = None if key in self.defined else defined._replace(shortest=shortest)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        args, lines, key = node.args, self._shows(node), self._key(node.name)
        every = [*args.posonlyargs, *args.args, *args.kwonlyargs]
        self._serves = any(x.arg not in ("self", "cls") for x in every)
        self._method = node.name
        self._things, self._local_forms = {}, dict(self._object_forms)
        self._classes = {name: x for name, x in self._classes.items() if "." in name}
        for x in every:
            if x.arg not in ("self", "cls"):
                thing = self._local(x.arg)
                self._things[x.arg] = thing
                self._local_forms[x.arg] = self._annotate(thing, x.annotation, node)
                self._classes[x.arg] = get_name(x.annotation)
        filled = node.name in self._stubs and self._lines[node.body[-1].end_lineno or 0].sign == "+"
        self._new = self._is_new(node) or (filled and not is_stub(node)) or self._rewritten(node)
        self._parameters[key] = [*self._things.items()]
        self._column = node.body[0].col_offset
        marks = {get_name(getattr(x, "func", x)) for x in node.decorator_list}
        if lines and marks <= _PLAIN:
            options = [x.arg for x in args.kwonlyargs]
            names = [x.arg for x in [*args.posonlyargs, *args.args]]
            free = {*names[len(names) - len(args.defaults) :]}
            free |= {x for x, y in zip(options, args.kw_defaults, strict=True) if y}
            names = names[bool(self._scope) and "staticmethod" not in marks :]
            rest = "*" * bool(args.vararg) + " **" * bool(args.kwarg)
            needs, wants = ([x for x in group if x not in free] for group in (names, options))
            self._define(
                key, node, Call("", (), needs, wants), self._is_new(node), names, options, rest
            )
        self._new = self._new and marks <= _PLAIN | {"property"}  # others may return anything
        self._result: Thing = "shape" if "property" in marks else "result", key
        self._declared = bool(
            self._annotate(self._result if self._new else None, node.returns, node)
        )

    def _rewritten(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        """Whether a patch removes a return of a function and adds all that it has."""
        start, end = (self._lines[n].start for n in (node.lineno, node.end_lineno or 0))
        if not (start and any(start < at < end for at in self._returns)):
            return False
        every = [x for x in ast.walk(node) if isinstance(x, ast.Return | _Yields)]
        returns = [x for x in every if x.value and getattr(x.value, "value", 0) is not None]
        ends = isinstance(node.body[-1], ast.Return) or any(isinstance(x, _Yields) for x in returns)
        return ends and {self._lines[x.lineno].sign for x in returns} == {"+"}

    def _local(self, name: str) -> Thing:
        self._count += 1
        return "local", (self._path, self._scope, f"{name} {self._count}")

    def _assign(self, node: ast.stmt, target: ast.expr, value: ast.expr | None) -> None:
        annotation = getattr(node, "annotation", None)
        match target, value:
            case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
                for pair in zip(targets, values, strict=True):
                    self._assign(node, *pair)
            case ast.Tuple(), _:
                self._bind(target, self._thing(value), UNKNOWN, node)
            case ast.Name(id=name), _ if self._method:
                several = isinstance(value, ast.BoolOp) and all(map(self._thing, value.values))
                source, local = None if several else self._thing(value), self._local(name)
                forms = self._give(None if source else local, value, node, annotation)
                if node.col_offset == self._column:
                    self._local_forms.pop(name, None)  # in no branch: it is this from here on
                self._bind(target, source or local, forms, node)
                self._classes[name] = self._class_of(value) if value else get_name(annotation)
            case ast.Subscript(value=of, slice=index), _:
                self._fill(target, node)
                if not isinstance(index, ast.Slice):
                    key = form.infer_key_forms(index, self._local_forms)
                    forms = form.find_containers(index, key, reads=False)
                    self._see(self._thing(of), forms, "is set by key", node)
                    self._set(self._thing(of), index, value, node)
            case _ if self._thing(target):
                self._give(self._thing(target), value, node, annotation)
                self._keep(node, target, value)
        if isinstance(value, ast.Attribute):  # it has another name from here on
            self._fill(value, node)

    def _keep(self, node: ast.stmt, target: ast.expr, value: ast.expr | None) -> None:
        """Note the first value of an attribute, and the name of its value."""
        short = isinstance(value, ast.List | ast.Dict | ast.Call | ast.Constant)
        text = ast.unparse(value) if value and short and value.lineno == value.end_lineno else ""
        if self._method in ("", "__init__", ELSEWHERE) and _EMPTY.fullmatch(text):
            self._mark("begins", target, node, form.infer_forms(value, {}) or form.OBJECT)
        elif value and text != "None":
            self._fill(target, node)
        self._classes[f"{self._scope}.{get_name(target)}"] = self._class_of(value)
        if name := get_name(value):
            self._role(target, f"keeps {name}")

    def _subscript(self, node: ast.Subscript, of: ast.expr, index: ast.expr) -> None:
        """Note the keys by which a thing is read."""
        thing, key = self._thing(of), form.infer_key_forms(index, self._local_forms)
        if key and key <= form.SCALAR:
            self._see(self._thing(index), key | form.OBJECT, "is a key", node)
        forms = form.find_containers(index, key, reads=True)
        if isinstance(index, ast.Slice):
            forms = form.PARTS - form.DICT - {"deque"}
        text = getattr(index, "value", None)
        if get_name(of) in self._picked and isinstance(text, int) and text > 0:
            forms -= {"string"}  # which nobody sorts by its second character
        if thing and thing[0] != "shape" and isinstance(text, str):
            forms = form.look_up("dict") if "." in thing[0] else forms
            self._see(_add_step(thing, "keys"), frozenset([text]), f'is read by "{text}"', node)
        elif key == {"string"} and not isinstance(text, str):  # records hold what they like
            self._see(self._inside(thing, "element"), key, "has a string as a key", node, made=True)
        self._see(thing, forms, "is read by key", node)

    def _call(self, node: ast.Call) -> None:
        args, name, lines = node.args, get_name(node.func), self._shows(node)
        of = node.func.value if isinstance(node.func, ast.Attribute) else None
        self._see(self._thing(node.func), form.INSTANCE, "is called", node)
        keywords = [argument.arg or "*" for argument in node.keywords]
        parts = ["*" if isinstance(argument, ast.Starred) else "" for argument in args]
        scope = self._class_of(of) if of else ""
        match node.func:
            case ast.Call(ast.Name("type"), [ast.Name("self")]) | ast.Name("cls"):
                scope, name = "", self._scope.rpartition(".")[2]
            case ast.Attribute(ast.Call(ast.Name("super"), [])):
                bases = self.bases.get(self._scope, set())
                scope = min(bases) if len(bases) == 1 else None
        scope = ANYTHING if scope is None and isinstance(of, ast.Name) else scope
        if lines and "*" not in parts + keywords and scope is not None:
            arguments = ", ".join(["..."] * len(args) + [f"{argument}=" for argument in keywords])
            call = Call(
                f"calls {name}({arguments})"[:100],
                lines,
                parts,
                keywords,
                tuple(map(get_name, args)),
            )
            self.calls[scope, name].append((self._path, call))
        called = self._thing(node)
        passed = [*enumerate(args), *((x.arg, x.value) for x in node.keywords)]
        for position, value in passed if called and called[0] == "result" else ():
            source = self._thing(value)
            if not source and isinstance(value, ast.Dict | ast.Tuple | ast.Call):
                source = self._local("")
                self._give(source, value, node)
            if called and source:
                self._passes.append((called[1], position, source, lines))
        first, thing = args[0] if args else node, self._thing(of or (args[0] if args else None))
        for argument in [x.value for x in node.keywords] + args[:1]:
            if isinstance(argument, ast.Lambda):
                container = args[1] if argument is first and args[1:] else first
                container = of if of and name == "sort" else container
                self._arguments[id(argument)] = self._elements(container)
        if not of and name in ("isinstance", "hasattr"):
            self._open.add((thing, False))
        elif not of and name in _SAME | {"len", "sum", "any", "all", "min", "max"} and not args[1:]:
            fits = form.SIZED if name == "len" else form.ITERABLE
            self._see(thing, fits, f"goes to {name}", node)
            if name == "sum":
                self._see(self._elements(first), form.NUMBER, "is summed", node)
        elif name == "choice" and get_name(of).strip("_") in ("", "random", "rng"):
            self._see(self._thing(first), form.PARTS - form.DICT, "goes to choice", node)
        elif name in _HEAP and args:
            heap = self._thing(first)
            self._see(heap, form.look_up("list"), f"goes to {name}", node)
            self._give(self._inside(heap, "element"), args[-1] if args[1:] else None, node)
        elif of and args and name in _FILLS:
            self._fill(of, node)
            if name in _ADDS:
                self._give(self._inside(thing, "element"), args[-1], node)
            elif name == "setdefault":
                self._set(thing, first, args[-1], node)
            elif name == "update":
                self._see(_add_step(thing, "sets"), frozenset("*"), "is updated", node)
            dicts = ast.Dict | ast.DictComp
            if name == "extend" or (name == "update" and isinstance(first, dicts)):
                self._fill_from(thing, first, node)
        for argument in args if name not in _LEAVES else ():
            if isinstance(argument, ast.Attribute | ast.Name):  # may be filled there
                self._fill(argument, node)

    def _loop(self, target: ast.expr, of: ast.expr) -> None:
        match target, of:
            case ast.Tuple(elts=[number, item]), ast.Call(ast.Name("enumerate"), [inner, *_]):
                self._bind(number, None, form.look_up("int"), target)
                self._loop(item, inner)
            case ast.Tuple(elts=[key, item]), ast.Call(ast.Attribute(inner, "items")):
                self._bind(key, self._inside(self._thing(inner), "element"), UNKNOWN, target)
                self._bind(item, self._inside(self._thing(inner), "value"), UNKNOWN, target)
            case ast.Tuple(), ast.Call(ast.Name("sorted" | "list" | "reversed"), [inner, *_]):
                self._loop(target, inner)
            case ast.Name(), ast.Call(ast.Name("range")):
                self._bind(target, None, form.look_up("int"), target)
            case _:
                self._see(self._thing(of), form.ITERABLE, "is walked over", target)
                self._bind(target, self._elements(of), UNKNOWN, target)

    def _bind(self, target: ast.expr, thing: Some, forms: Forms, node: ast.AST) -> None:
        """Note the things of local names, and that a thing is unpacked."""
        if isinstance(target, ast.Tuple):
            if not any(isinstance(item, ast.Starred) for item in target.elts):
                size = len(target.elts)
                fits = form.look_up(f"tuple of {size}") | form.OBJECT
                fits |= {"list", "named tuple", "iterator"}
                self._see(thing, fits, f"is unpacked as {size} values", node)
                self._order(thing, target.elts, node, made=False)
            for item in target.elts:
                self._bind(item, None, UNKNOWN, node)
        elif isinstance(target, ast.Name):
            before = self._local_forms.get(target.id, forms)
            self._local_forms[target.id] = before | forms if before and forms else UNKNOWN
            self._things[target.id] = thing

    def _hand_on(self) -> None:
        """Copy the clues of a thing to the things made from it, and back from their uses."""
        whats: dict[Key, set[str]] = defaultdict(set)
        for what, key in self.evidence:
            whats[key].add(what)
        for key, position, source, lines in self._passes:
            for n, (name, thing) in enumerate(self._parameters.get(key, ())):
                if position in (n, name) and thing and (thing, False) not in self._open:
                    self._passed |= {thing, source} if source[1][2][:1] == " " else set()
                    self._aliases.append((thing, source, lines))
        for _ in range(2):  # through a local name
            for thing, source, lines in self._aliases:
                self._copy(whats, source, thing, lines, made=True)
                if thing[0].startswith(("local", "result")):
                    self._copy(whats, thing, source, (), made=False)
        for several, made in self._open:
            if several in self.evidence:
                self.evidence[several] = [x for x in self.evidence[several] if x.made != made]

    def _copy(
        self, whats: dict[Key, set[str]], source: Thing, to: Thing, lines: Lines, made: bool
    ) -> None:
        for what in [*whats[source[1]]] if source[1] != to[1] else ():
            new = to[0] + what.removeprefix(source[0])
            steps = what.count(".") - source[0].count(".")
            closed = what == "local" and source not in self._passed
            closed = closed or (source, True) in self._open
            closed = closed and made and what == source[0]  # a local name has its value's form
            if closed or not f"{what}.".startswith(f"{source[0]}.") or steps > MOST_STEPS:
                continue
            whats[to[1]].add(new)
            clues = self.evidence[new, to[1]]
            listed = new.endswith(("keys", "sets", "order", "class"))  # their forms are names
            for clue in self.evidence[what, source[1]][:MOST_CLUES]:
                says = _describe(new, clue.forms) if made and not listed else clue.says
                copied = Clue(clue.forms, says, lines or clue.lines, made)
                fits = clue.made == made or new.endswith("sets")
                if fits and len(clues) < MOST_CLUES and (copied.lines or to[0][:5] == "local"):
                    clues += [] if copied in clues else [copied]


def _add_step(thing: Some, step: str) -> Some:
    return (f"{thing[0]}.{step}", thing[1]) if thing else None


def _describe(what: str, forms: Forms) -> str:
    return _SAYS.get(what, "holds {} each").replace("{}", form.describe_forms(forms))
