"""Definitions and imports in fragments of Go, JavaScript, TypeScript, Rust and Java, by tree-sitter.

A hunk is seldom a whole program: it begins in the middle of a class or a function and ends in
another. So what may stand before a side of it is tried (nothing, the line that git writes after the
``@@``, the head of a class and of a method that nobody sees), brackets left open are closed, and
the text with the fewest errors is read.

tree-sitter is native code that takes any bytes, but its time and memory on text that is no code
grow with the square of its length and worse. It is therefore given pieces of some 10,000
characters, and what it may spend on errors is counted in steps and characters: no clock decides.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from annotator.facts.diff import Hunk, Line
from annotator.facts.python_code import MOST_HEAD, MOST_HEAD_LINES, Head, Parameter

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Tree

MOST_SIDE = 200_000  # characters of one side of a hunk
MOST_BROKEN = 200_000  # characters of one patch that are spent on text with errors
MOST_PIECE = 10_000  # characters that are parsed at once
LONGEST_LINE = 2_000  # longer lines define nothing that is read

_UNSEEN = "unseen__"  # names what encloses a fragment and is not shown
_JS = (f"class {_UNSEEN} {{", f"{_UNSEEN}() {{")


class _Grammar(NamedTuple):
    """A package of tree-sitter, its function, and the heads of a class and of a member of it.

    ``firm``: what is a statement cannot be a member, so that a class may be tried first.
    """

    package: str
    function: str
    heads: tuple[str, str]
    firm: bool = False


_GO = _Grammar("tree_sitter_go", "language", (f"type {_UNSEEN} interface {{", ""))
_JAVASCRIPT = _Grammar("tree_sitter_javascript", "language", _JS)
_TYPESCRIPT = _Grammar("tree_sitter_typescript", "language_typescript", _JS)
_TSX = _Grammar("tree_sitter_typescript", "language_tsx", _JS)
_RUST = _Grammar(
    "tree_sitter_rust", "language", (f"impl {_UNSEEN} {{", f"fn {_UNSEEN}() {{"), firm=True
)
_JAVA = _Grammar(
    "tree_sitter_java", "language", (f"class {_UNSEEN} {{", f"void {_UNSEEN}() {{"), firm=True
)
_GRAMMARS = {
    ".go": _GO, ".rs": _RUST, ".java": _JAVA, ".tsx": _TSX,
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs"), _JAVASCRIPT),
    **dict.fromkeys((".ts", ".mts", ".cts"), _TYPESCRIPT),
}  # fmt: skip

# The names that the grammars give to nodes do not contradict each other: one table is enough.
_METHODS = frozenset(
    "method_declaration constructor_declaration compact_constructor_declaration method_definition "
    "method_signature abstract_method_signature method_elem".split()
)
_FUNCTIONS = _METHODS | frozenset(
    "function_declaration generator_function_declaration function_signature function_item "
    "function_signature_item".split()
)
_CLASSES = frozenset(
    "class_declaration abstract_class_declaration interface_declaration enum_declaration "
    "type_alias_declaration record_declaration annotation_type_declaration struct_item enum_item "
    "union_item trait_item type_item type_spec type_alias".split()
)
_AROUND = frozenset(["impl_item", "mod_item", "internal_module", "module"])  # scopes, no symbols
_VALUES = frozenset(["arrow_function", "function_expression", "generator_function"])
_TARGETS = frozenset(  # what a function is given to as a value
    ["variable_declarator", "public_field_definition", "field_definition", "pair",
     "assignment_expression"]
)  # fmt: skip
_IMPORTS = frozenset(["import_spec", "import_statement", "import_declaration", "use_declaration"])
_MARKS = frozenset(["decorator", "annotation", "marker_annotation"])
_SKIPPED = frozenset(
    ["comment", "line_comment", "block_comment", "attribute_item", "receiver_parameter"]
)
_REST = frozenset(["variadic_parameter_declaration", "spread_parameter", "rest_pattern"])
_NAMES = frozenset(["identifier", "shorthand_property_identifier_pattern", "this", "self"])
_NO_NAMES = frozenset(["right", "key", "type"])  # fields of patterns that bind nothing

_CLOSES = {"(": ")", "[": "]", "{": "}"}
_OPENS = {end: start for start, end in _CLOSES.items()}
_NO_CODE = re.compile(
    r'"(?:[^"\\]|\\.)*+"|`[^`]*+`|//.*|/\*.*?\*/|\'(?:[^\'\\]|\\.[^\']{0,8})\'|^\s*\*(?:\s.*|/)?$'
)
_STRING = re.compile(r"'(?:[^'\\]|\\.)*+'")
_BRACKET = re.compile(r"[()\[\]{}]")
_VERSION = re.compile(r"v\d+")


@dataclass(slots=True)
class Definition(Head):
    """A head in another language than Python; its parameters, None if they cannot be read.

    The ``text`` of an import is what its name stands for.
    """

    parameters: tuple[Parameter, ...] | None = None


class _Scope(NamedTuple):
    depth: int
    name: str
    around: str


class _Context(NamedTuple):
    """What stands before a piece: lines of code, and whether they are known to."""

    before: str
    known: bool


class _Parsed(NamedTuple):
    """A piece as it was parsed: the tree and its bytes, and where each line begins in them."""

    tree: "Tree"
    text: bytes
    starts: list[int]
    skipped: int  # lines before the piece
    errors: int  # bytes that no rule of the grammar explains


def reads(path: str) -> bool:
    """Whether a file is of one of these languages, by its ending."""
    return _ending(path) in _GRAMMARS


def _ending(path: str) -> str:
    return path[path.rfind(".") :].lower() if "." in path else ""


class Reader:
    """Reads the hunks of one patch. ``unread``: their characters that were not read."""

    def __init__(self) -> None:
        self.unread = 0
        self._broken = 0

    def heads(self, path: str, hunk: Hunk, side: str) -> Iterator[Definition]:
        """Yield the definitions and imports of one side of a hunk, ``+`` or ``-``, in order."""
        grammar = _GRAMMARS[_ending(path)]
        lines = [line for line in hunk.lines if line.sign in (side, " ")]
        size = sum(len(line.text) + 1 for line in lines)
        if size > MOST_SIDE:
            self.unread += size
            return
        texts = [_readable(line.text) for line in lines]
        for first, last, opened in _pieces(texts, grammar):
            piece = texts[first:last]
            if self._broken > MOST_BROKEN:
                self.unread += sum(len(line.text) + 1 for line in lines[first:last])
                continue
            at_top = not first and hunk.old_start <= 1
            contexts = (
                _contexts(grammar, piece, hunk.section, at_top) if not first or opened is None
                else [_Context(opened, True), *_contexts(grammar, piece, "", at_top)]
            )  # fmt: skip
            parsed = self._parsed(grammar, piece, contexts)
            if parsed is None:
                self.unread += sum(len(line.text) + 1 for line in lines[first:last])
                continue
            yield from _Walk(parsed, lines, first, last).heads()

    def _parsed(
        self, grammar: _Grammar, piece: list[str], contexts: list[_Context]
    ) -> _Parsed | None:
        """Return the piece behind what it has the fewest errors with, None if it is no code."""
        best = None
        for context in contexts:
            parsed = _parse(grammar, piece, context.before)
            errors = parsed.errors if parsed else sum(map(len, piece))
            self._broken += errors
            if parsed and (best is None or errors < best.errors):
                best = parsed
            if not errors or parsed is None or self._broken > MOST_BROKEN:
                break
        return best


def _readable(text: str) -> str:
    """Return a line as it can be parsed: of one length, without bytes that end a text."""
    return text.replace("\0", " ") if len(text) <= LONGEST_LINE else ""


def _pieces(texts: list[str], grammar: _Grammar) -> Iterator[tuple[int, int, str | None]]:
    """Yield pieces of a side, as line numbers, and the lines that open what is around each.

    Where a side is too long, it is cut where the fewest brackets are open, as late as it goes.
    """
    first, opened = 0, list[tuple[str, str]]()
    while first < len(texts):
        before = _lines_of(opened)
        size, last, cut, least = 0, first, 0, opened
        while last < len(texts) and size + len(texts[last]) < MOST_PIECE:
            size += len(texts[last]) + 1
            opened = _opened(texts[last : last + 1], grammar, opened)
            last += 1
            if size > MOST_PIECE // 2 and (not cut or len(opened) <= len(least)):
                cut, least = last, opened
        if last < len(texts) and cut:
            last, opened = cut, least
        yield first, last, before
        first = last


def _lines_of(opened: list[tuple[str, str]]) -> str | None:
    lines = list(dict.fromkeys(line for _, line in opened))
    return "\n".join(lines) if len(lines) <= 20 else None


def _opened(
    texts: Sequence[str], grammar: _Grammar, opened: list[tuple[str, str]] | None = None
) -> list[tuple[str, str]]:
    """Return the brackets that lines leave open, each with its line up to it."""
    found = list(opened or ())
    for text in texts:
        if not _BRACKET.search(text):
            continue
        code = _NO_CODE.sub("", text)
        if grammar.heads is _JS:
            code = _STRING.sub("", code)
        for match in _BRACKET.finditer(code):
            bracket = match.group()
            if bracket in _CLOSES:
                found.append((bracket, code[: match.end()]))
            elif found and found[-1][0] == _OPENS[bracket]:
                found.pop()
    return found


def _contexts(grammar: _Grammar, piece: list[str], section: str, at_top: bool) -> list[_Context]:
    """Return what may stand before a piece, the likeliest first."""
    plain = _Context("", True)
    code = next((text for text in piece if text.strip()), "")
    if at_top or not code:
        return [plain]
    indent = len(code) - len(code.lstrip())
    head, member = grammar.heads
    unseen = [_Context(head, False), _Context(f"{head}\n{member}", False)]
    if not indent and code[0] not in ")]}*":
        return [plain, *unseen]
    shown = [_Context(before, True) for before in _sections(section, grammar)]
    inner = [_Context(f"{one.before}\n{member}", True) for one in shown if member]
    if not grammar.firm:
        deep = indent > 3 or code.startswith("\t\t")
        inner = [one for one in inner if one.before.startswith(("class", "export", "abstract"))]
        return [*inner, *shown, plain, *unseen] if deep else [*shown, *inner, plain, *unseen]
    return [*shown, *inner, unseen[0], plain, unseen[1]]


def _sections(section: str, grammar: _Grammar) -> list[str]:
    """Return the line that git writes after the ``@@`` as it opens what the hunk is in.

    Its parameters may go on in the hunk or end before it; the line is cut off at 80 characters.
    """
    section = section.strip()
    if not section or section.endswith((";", "}", ",")):
        return []
    opened = "".join(bracket for bracket, _ in _opened([section], grammar))
    if not opened:
        return [section + " {"]
    if "{" in opened or "[" in opened:
        return [section]
    return [section, section + ")" * len(opened) + " {"]


@lru_cache(maxsize=8)
def _language(grammar: _Grammar) -> "Language":
    from tree_sitter import Language  # native, and needed for few patches

    function: Callable[[], object] = getattr(import_module(grammar.package), grammar.function)
    return Language(function())


def _parse(grammar: _Grammar, piece: list[str], before: str) -> _Parsed | None:
    """Return a piece behind a text that may stand before it, None where it takes too many steps.

    Code takes a call of ``stop`` for 40 to 400 characters.
    """
    from tree_sitter import Parser

    above = [*(before.split("\n") if before else ()), *_inside_comment(piece)]
    shown = "\n".join([*above, *piece])
    unclosed = "*/" if shown.rfind("/*") > shown.rfind("*/") else ""
    ends = "".join(_CLOSES[one] for one, _ in reversed(_opened([*above, *piece], grammar)))
    text = f"{shown}\n{unclosed}\n{ends}\n".encode(errors="replace")
    calls = 0

    def stop(offset: int, _: bool) -> bool:
        nonlocal calls
        calls += 1
        return calls > 50 + offset // 25

    try:
        tree = Parser(_language(grammar)).parse(
            lambda offset, _: text[offset:], progress_callback=stop
        )
    except ValueError:  # stopped
        return None
    starts = [0, *accumulate(len(line) + 1 for line in text.split(b"\n"))]
    return _Parsed(tree, text, starts, len(above), _errors(tree))


def _inside_comment(piece: list[str]) -> list[str]:
    """Return what opens the comment that a piece begins in: ``* text`` or a lone ``*/``."""
    code = next((text.strip() for text in piece if text.strip()), "")
    if code == "*" or code.startswith(("* ", "*/")):
        return ["/*"]
    for text in piece:
        if "/*" in text:
            return []
        if "*/" in text:
            return ["/*"] if text.rstrip().endswith("*/") else []
    return []


def _errors(tree: "Tree") -> int:
    """Return how many bytes are in errors; what is missing counts as one."""
    cursor, found = tree.walk(), 0
    while True:
        node = cursor.node
        if node and node.is_error:
            found += max(1, node.end_byte - node.start_byte)
        elif node and node.is_missing:
            found += 1
        elif node and node.has_error and cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return found


class _Walk:
    """Walks once over the tree of a piece, without recursion: trees may be deep."""

    def __init__(self, parsed: _Parsed, lines: Sequence[Line], first: int, last: int) -> None:
        self.parsed = parsed
        self.lines = lines
        self.first = first
        self.last = last
        self.scopes: list[_Scope] = []

    def heads(self) -> Iterator[Definition]:
        cursor = self.parsed.tree.walk()
        while True:
            node = cursor.node
            while self.scopes and self.scopes[-1].depth >= cursor.depth:
                self.scopes.pop()
            if node and node.is_named:
                yield from self._node(node, cursor.depth)
            if cursor.goto_first_child():
                continue
            while not cursor.goto_next_sibling():
                if not cursor.goto_parent():
                    return

    def _node(self, node: "Node", depth: int) -> Iterator[Definition]:
        kind = node.type
        if kind in _FUNCTIONS:
            yield from self._function(node, node, node.child_by_field_name("name"), depth)
        elif kind in _CLASSES:
            name = node.child_by_field_name("name")
            if name and (head := self._head(node, "class", self._text(name))):
                yield head
            self._enter(depth, name, "class")
        elif kind in _IMPORTS:
            yield from self._imports(node)
        elif kind in _TARGETS:
            yield from self._target(node, depth)
        elif kind in _AROUND:
            name = node.child_by_field_name("type" if kind == "impl_item" else "name")
            self._enter(depth, name, "class" if kind == "impl_item" else "")

    def _enter(self, depth: int, name: "Node | None", around: str) -> None:
        self.scopes.append(_Scope(depth, _plain(self._text(name)) if name else "", around))

    def _function(
        self, node: "Node", value: "Node", name: "Node | None", depth: int
    ) -> Iterator[Definition]:
        """Yield a function; ``value`` is the node with its parameters and body."""
        receiver = value.child_by_field_name("receiver")
        types = [one.child_by_field_name("type") for one in receiver.named_children] if receiver else []
        if types and types[0]:
            self._enter(depth, types[0], "class")
        body = value.child_by_field_name("body")
        if name and (head := self._head(node, "def", self._text(name), body)):
            if node.type in _METHODS or self._has_self(value):
                head.around = "class"
            if len(head.signs) > 1 or " " not in head.signs:
                head.parameters = self._parameters(value)
            yield head
        if name:
            self._enter(depth, name, "def")

    def _has_self(self, value: "Node") -> bool:
        listed = value.child_by_field_name("parameters")
        return bool(listed) and any(one.type == "self_parameter" for one in listed.named_children)

    def _target(self, node: "Node", depth: int) -> Iterator[Definition]:
        """Yield a function or class that is given to a name: ``const f = (a) => a``."""
        value = node.child_by_field_name("right" if node.type.startswith("assign") else "value")
        fields = ("name", "property", "key", "left")
        name = next((one for field in fields if (one := node.child_by_field_name(field))), None)
        if not value or not name:
            return
        if name.type == "member_expression":  # A.prototype.f = function
            owner = self._text(name.child_by_field_name("object")).removesuffix(".prototype")
            name = name.child_by_field_name("property")
            if owner not in ("exports", "module.exports", "this"):
                self.scopes.append(_Scope(depth, owner[:200], "class"))
        elif node.type == "assignment_expression":
            return
        if value.type in _VALUES:
            yield from self._function(node, value, name, depth)
        elif value.type == "class" and name and (head := self._head(
            node, "class", self._text(name), value.child_by_field_name("body")
        )):
            yield head
        if value.type in ("class", "object"):
            self._enter(depth, name, "class")
        elif self._called(value) == "require" and name:
            yield from self._required(name, value)
