"""Definitions and imports in hunks of Go, JavaScript, TypeScript, Rust and Java.

They are read off the trees of :mod:`annotator.facts.fragments`, as heads like those of
:mod:`annotator.facts.python_code`. The names that the grammars give to nodes do not contradict each
other, so that one table of them is enough.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from annotator.facts.fragments import GO, UNSEEN, Fragments, Grammar, Piece
from annotator.facts.python_code import MOST_HEAD, MOST_HEAD_LINES, Head, Parameter
from annotator.patches.diff import Hunk, Line

if TYPE_CHECKING:
    from tree_sitter import Node

MOST_NAME = 200  # characters of a name or of a type


def _types(names: str) -> frozenset[str]:
    return frozenset(names.split())


_METHODS = _types(
    "method_declaration constructor_declaration compact_constructor_declaration method_definition "
    "method_signature abstract_method_signature method_elem"
)
_FUNCTIONS = _METHODS | _types(
    "function_declaration generator_function_declaration function_signature function_item "
    "function_signature_item"
)
_CLASSES = _types(
    "class_declaration abstract_class_declaration interface_declaration enum_declaration "
    "type_alias_declaration record_declaration annotation_type_declaration struct_item enum_item "
    "union_item trait_item type_item type_spec type_alias"
)
_AROUND = _types("impl_item mod_item internal_module module")  # scopes, no symbols
_TARGETS = _types(  # what a function may be given to as a value
    "variable_declarator public_field_definition field_definition pair assignment_expression"
)
_VALUES = _types("arrow_function function_expression generator_function")
_IMPORTS = _types("import_spec import_declaration import_statement use_declaration")
_MARKS = _types("decorator annotation marker_annotation comment line_comment block_comment")
_NO_PARAMETERS = _MARKS | _types("attribute_item receiver_parameter")
_REST = _types("variadic_parameter_declaration spread_parameter rest_pattern")
_BOUND = _types("identifier shorthand_property_identifier_pattern")
_NOT_BOUND = _types("right key type")  # the fields of a pattern that bind no name

_VERSION = re.compile(r"v\d+")
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"[^\s(){}<>;,]{1,100}")
_NO_NAMES = _types("if else for while do switch try catch super") | {UNSEEN}  # but after mistakes

_NEAR = 4  # what is indented further than this is no member of the line that git writes after "@@"


@dataclass(slots=True)
class Definition(Head):
    """A head in another language than Python. ``parameters`` are those of a function, None if they
    cannot be read. The ``text`` of an import is what its name stands for.
    """

    parameters: tuple[Parameter, ...] | None = None


class _Scope(NamedTuple):
    depth: int  # in the tree
    name: str
    around: str
    indent: int | None  # of its line, if that stands before the piece


class _Import(NamedTuple):
    name: str
    target: str
    node: "Node"


def definitions(
    fragments: Fragments, grammar: Grammar, hunk: Hunk, side: str
) -> Iterator[Definition]:
    """Yield the definitions and imports of one side of a hunk, ``+`` or ``-``, in order."""
    lines = [line for line in hunk.lines if line.sign in (side, " ")]
    for piece in fragments.pieces(grammar, hunk, lines):
        yield from _Walk(piece, lines).definitions()


class _Walk:
    """Walks once over the tree of a piece. Trees may be deep: nothing here calls itself."""

    def __init__(self, piece: Piece, lines: Sequence[Line]) -> None:
        self.piece = piece
        self.lines = lines
        self.scopes: list[_Scope] = []

    def definitions(self) -> Iterator[Definition]:
        cursor, depth = self.piece.tree.walk(), 0  # its own depth takes time to count
        while True:
            node = cursor.node
            while self.scopes and self.scopes[-1].depth >= depth:
                self.scopes.pop()
            if node and node.is_named:
                yield from self._node(node, depth)
            if cursor.goto_first_child():
                depth += 1
                continue
            while not cursor.goto_next_sibling():
                if not cursor.goto_parent():
                    return
                depth -= 1

    def _node(self, node: "Node", depth: int) -> Iterator[Definition]:
        kind = node.type
        if kind in _FUNCTIONS:
            yield from self._function(node, node, node.child_by_field_name("name"), depth)
        elif kind in _CLASSES:
            name = node.child_by_field_name("name")
            yield from self._head("class", node, name, node.child_by_field_name("body"))
            self._enter(node, depth, self._text(name), "class")
        elif kind in _TARGETS:
            yield from self._target(node, depth)
        elif kind in _AROUND:
            name = node.child_by_field_name("type" if kind == "impl_item" else "name")
            around = "class" if kind == "impl_item" else ""
            text = self._text(name)
            self._enter(node, depth, _owner(text) if around else text, around)
        elif kind in _IMPORTS:
            for one in _imported(node, self._text):
                yield from self._import(one)

    def _function(
        self, node: "Node", value: "Node", name: "Node | None", depth: int
    ) -> Iterator[Definition]:
        """Yield a function; ``value`` is the node that has its parameters and body."""
        receiver = value.child_by_field_name("receiver")
        for one in receiver.named_children[:1] if receiver else ():
            owner = self._text(one.child_by_field_name("type"))
            self._enter(node, depth, _owner(owner), "class")
        listed = value.child_by_field_name("parameters")
        for head in self._head("def", node, name, value.child_by_field_name("body")):
            if node.type in _METHODS or (listed and _takes_self(listed)):
                head.around = "class"
            head.parameters = self._parameters(value, listed)
            yield head
        self._enter(node, depth, self._text(name), "def")

    def _target(self, node: "Node", depth: int) -> Iterator[Definition]:
        """Yield what is defined as a value: ``const f = (a) => a``, ``A.prototype.f = ...``.

        A function in an object counts where the object has a name.
        """
        value = node.child_by_field_name("right") or node.child_by_field_name("value")
        fields = ("name", "property", "key")
        name = next((one for field in fields if (one := node.child_by_field_name(field))), None)
        if node.type == "assignment_expression":
            name = self._assigned(node.child_by_field_name("left"), depth)
        if not value or not name:
            return
        if value.type in _VALUES:
            if node.type != "pair" or (self.scopes and self.scopes[-1].around == "class"):
                yield from self._function(node, value, name, depth)
        elif value.type == "class":
            yield from self._head("class", node, name, value.child_by_field_name("body"))
        elif source := self._required(value):
            for one in _bound(name):
                word = _short(self._text(one))
                target = source if one == name else f"{source}.{word}"
                yield from self._import(_Import(word, target, one))
        if value.type in ("class", "object"):
            self._enter(node, depth, self._text(name), "class")

    def _assigned(self, left: "Node | None", depth: int) -> "Node | None":
        """Return the name of ``A.prototype.name``, having entered what it belongs to."""
        owner = left.child_by_field_name("object") if left else None
        if not left or not owner or self._text(left) == "module.exports":
            return None
        if (text := self._text(owner)) not in ("exports", "module.exports", "this"):
            self._enter(left, depth, text.removesuffix(".prototype"), "class")
        return left.child_by_field_name("property")

    def _required(self, value: "Node") -> str:
        """Return the module that ``require("module")`` gives, "" for anything else."""
        called, given = (value.child_by_field_name(one) for one in ("function", "arguments"))
        if not called or not given or self._text(called) != "require":
            return ""
        return self._text(given).strip("()\"'` ")

    def _enter(self, node: "Node", depth: int, name: str, around: str) -> None:
        if _NAME.fullmatch(name):
            start = self._line(node.start_byte)
            above = self.piece.first - self.piece.above <= start < self.piece.first
            indent = _indent(self._above(start)) if above else None
            self.scopes.append(_Scope(depth, name, around, indent))

    def _above(self, n: int) -> str:
        """Return a line that stands before the piece."""
        at = self.piece.starts[n + self.piece.above - self.piece.first :][:2]
        return self.piece.text[at[0] : at[1]].decode(errors="replace")

    def _head(
        self, kind: Literal["def", "class"], node: "Node", name: "Node | None", body: "Node | None"
    ) -> Iterator[Definition]:
        """Yield the head of a definition, if it has a name and the piece shows it."""
        called = self._text(name)
        first = _start(node)
        text = self.piece.text[first : body.start_byte if body else node.end_byte]
        if kind == "class" and not body:
            text = text.partition(b"{")[0]
        text = text.rstrip(b" \t\r\n{")
        start, behind = self._line(first), self._line(first + max(len(text) - 1, 0)) + 1
        shown = behind > self.piece.first and start < self.piece.last
        if not shown or called in _NO_NAMES or not _NAME.fullmatch(called):
            return
        scope, around = self._around(start)
        start = max(start, self.piece.first)
        last = min(behind, start + MOST_HEAD_LINES, self.piece.last)
        end = max(last, min(self._line(node.end_byte) + 1, self.piece.last))
        head = text.decode(errors="replace")[:MOST_HEAD]
        yield Definition(kind, called, scope, around, start, last, end, head, self.lines)

    def _import(self, one: _Import) -> Iterator[Definition]:
        n = self._line(one.node.start_byte)
        if self.piece.first <= n < self.piece.last:
            scope = self._around(n)[0] if self.scopes else ""
            yield Definition("import", one.name, scope, "", n, n + 1, n + 1, one.target, self.lines)

    def _around(self, n: int) -> tuple[str | None, str]:
        """Return the names around line ``n``, None if they are not shown, and what is around it."""
        names = [scope.name for scope in self.scopes]
        inner = self.scopes[-1] if self.scopes else None
        around = inner.around if inner else ""
        if n >= self.piece.first and self.piece.grammar is not GO:
            indent = _indent(self.lines[n].text)
            if indent and not inner:
                return None, around
            if inner and inner.indent is not None and indent > inner.indent + _NEAR:
                return None, around
        return (None if UNSEEN in names else ".".join(names)), around

    def _line(self, offset: int) -> int:
        """Return the number in the side of the line at an offset in the text."""
        n = bisect_right(self.piece.starts, offset) - 1
        return n - self.piece.above + self.piece.first

    def _text(self, node: "Node | None") -> str:
        text = self.piece.text[node.start_byte : node.end_byte] if node else b""
        return text.decode(errors="replace")

    def _parameters(self, value: "Node", listed: "Node | None") -> tuple[Parameter, ...] | None:
        """Return the parameters of a function and, named ``->``, its result."""
        if listed and listed.has_error:
            return None
        single = value.child_by_field_name("parameter")  # a => a
        given = listed.named_children if listed else [single] if single else []
        found = [
            parameter
            for one in given
            if one.type not in _NO_PARAMETERS
            for parameter in self._parameter(one)
        ]
        for field in ("return_type", "result", "type"):
            if result := value.child_by_field_name(field):
                found.append(Parameter("->", _type(self._text(result))))
        return tuple(found)

    def _parameter(self, node: "Node") -> list[Parameter]:
        """Return a parameter, or one for each name: ``a, b int`` and ``{a, b}: Props``."""
        if node.type == "self_parameter":
            return [Parameter("self", _type(self._text(node)))]
        kind = node.child_by_field_name("type")
        default = node.child_by_field_name("value") or node.child_by_field_name("right")
        names = node.children_by_field_name("name")
        if node.type == "spread_parameter" and node.named_child_count > 1:  # of Java
            kind, names = node.named_children[-2], node.named_children[-1:]
        elif not names:
            shown = node.child_by_field_name("pattern") or node.child_by_field_name("left")
            names = [shown] if shown else [] if kind else [node]  # of Go: a type only
        rest = "..." if any(one.type in _REST for one in (node, *names)) else ""
        optional = "?" if node.type == "optional_parameter" else ""
        sizes = self._text(node.child_by_field_name("dimensions"))
        words = [_short(self._text(one)) for name in names for one in _bound(name)]
        return [
            Parameter(
                rest + word, optional + _type(self._text(kind)) + sizes, _short(self._text(default))
            )
            for word in words or ["_"]
        ]


def _start(node: "Node") -> int:
    """Return where a definition begins, behind its annotations and decorators."""
    for child in node.children:
        parts = child.children if child.type == "modifiers" else [child]
        for part in parts:
            if part.type not in _MARKS:
                return part.start_byte
    return node.start_byte


def _takes_self(listed: "Node") -> bool:
    return any(one.type == "self_parameter" for one in listed.named_children[:3])


def _bound(pattern: "Node") -> list["Node"]:
    """Return the nodes of the names that a pattern binds."""
    found, waiting = [], [pattern]
    while waiting:
        node = waiting.pop()
        if node.type in _BOUND or not node.named_child_count:
            found.append(node)
            continue
        cursor, inner = node.walk(), list["Node"]()
        more = cursor.goto_first_child()
        while more:
            child = cursor.node
            if child and child.is_named and cursor.field_name not in _NOT_BOUND:
                inner.append(child)
            more = cursor.goto_next_sibling()
        waiting += reversed(inner)
    return found


def _imported(node: "Node", text: Callable[["Node | None"], str]) -> list[_Import]:
    """Return the names that an import binds; what only loads a module binds none."""
    if node.type == "import_spec":
        return [_of_go(node, text)]
    if node.type == "import_statement":
        return _of_script(node, text)
    if node.type == "use_declaration":
        return _of_rust(node, text)
    found = []
    for child in node.named_children:  # of Java; Go's import_declaration has others
        if child.type in ("identifier", "scoped_identifier"):
            path = text(child)
            wild = any(one.type == "asterisk" for one in node.named_children)
            name = f"{path}.*" if wild else path.rpartition(".")[2]
            found.append(_Import(_short(name), _short(path), child))
    return found


def _of_go(node: "Node", text: Callable[["Node | None"], str]) -> _Import:
    path = text(node.child_by_field_name("path")).strip('"`')
    alias = text(node.child_by_field_name("name"))
    names = [one for one in path.split("/") if not _VERSION.fullmatch(one)] or [path]
    return _Import(_short(names[-1] if alias in ("", ".", "_") else alias), _short(path), node)


def _of_script(node: "Node", text: Callable[["Node | None"], str]) -> list[_Import]:
    found = []
    for clause in node.named_children:
        where = clause if clause.type == "import_require_clause" else node
        source = _short(text(where.child_by_field_name("source")).strip("'\""))
        parts = clause.named_children if clause.type == "import_clause" else [clause]
        for part in parts:
            if part.type == "named_imports":
                for one in part.named_children:
                    name = one.child_by_field_name("name")
                    word = _short(text(one.child_by_field_name("alias") or name))
                    found.append(_Import(word, f"{source}.{_short(text(name))}", one))
            elif part.type == "identifier":
                found.append(_Import(_short(text(part)), f"{source}.default", part))
            elif part.type in ("namespace_import", "import_require_clause"):
                name = part.named_children[0] if part.named_children else part
                found.append(_Import(_short(text(name)), source, part))
    return found


def _of_rust(node: "Node", text: Callable[["Node | None"], str]) -> list[_Import]:
    """Return the names of ``use a::{b, c::{self, D as E}}``."""
    found, waiting = [], [("", node.child_by_field_name("argument"))]
    while waiting:
        prefix, one = waiting.pop()
        if not one:
            continue
        if one.type in ("scoped_use_list", "use_list"):
            path = text(one.child_by_field_name("path"))
            inner = one.child_by_field_name("list") or one
            prefix += f"{path}::" if path else ""
            waiting += [(prefix, child) for child in reversed(inner.named_children)]
            continue
        path = text(one.child_by_field_name("path") if one.type == "use_as_clause" else one)
        target = (prefix + path).removesuffix("::self")
        alias = text(one.child_by_field_name("alias"))
        name = target if target.endswith("::*") else alias or target.rpartition("::")[2]
        found.append(_Import(_short(name), _short(target), one))
    return found


def _owner(text: str) -> str:
    """Return the name of a type: ``&mut a::Reader<T>`` and ``*Reader[T]`` are of ``Reader``."""
    words = _WORD.findall(re.split(r"[<\[]", text, maxsplit=1)[0])
    return words[-1] if words else text


def _indent(text: str) -> int:
    text = text.expandtabs(_NEAR)
    return len(text) - len(text.lstrip())


def _type(text: str) -> str:
    return _short(text.removeprefix(":"))


def _short(text: str) -> str:
    return " ".join(text.split())[:MOST_NAME]
