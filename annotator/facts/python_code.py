"""Definitions, imports and assignments in fragments of Python: one side of one hunk at a time.

A hunk is seldom a whole program, so statements are found line by line, by their indentation, and
only the heads that a patch changes are parsed with ``ast``. A hunk that begins in the middle of a
definition is placed by the line that git writes after its ``@@``.
"""

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

from annotator.patches.diff import Hunk, Line

MOST_HEAD_LINES = 80  # lines of one head
MOST_HEAD = 8_000  # characters of one head

_HEAD = re.compile(r"(?:async +)?def +(\w+)|class +(\w+)|(?:from|import)\s")
_ASSIGNED = re.compile(r"((?:self|cls)\.)?([^\W\d]\w*) *(:|=)(?!=)")
_STARTS = ("def ", "class ", "from ", "import ", "async ")
_TRIPLE = re.compile(r'"""|\'\'\'')
_OPENS = re.compile(r"(?:^|[=(,:\[{ ])[rRbBfFuU]{0,2}$")
_NO_TARGET = frozenset(["pass", "else", "try", "finally", "lambda", "default"])

_MEMBER_INDENT = 4  # of the members of a class whose head is not in the hunk

_Type = Literal["def", "class", "import", "assign", "return"]


class Parameter(NamedTuple):
    """A parameter: its name with its stars, its annotation and default as written, or ""."""

    name: str
    annotation: str = ""
    default: str = ""


@dataclass(slots=True)
class Head:
    """A statement in one side of a hunk: lines ``first`` to before ``last`` are its head.

    A definition's body ends before ``end``. ``scope``: the names around it with points between,
    "" for the module, None where the hunk does not show them. ``around`` is ``class``, ``def`` or
    "" for the module. ``text`` is the head, or the statement; ``marks`` are its decorators.
    """

    type: _Type
    name: str
    scope: str | None
    around: str
    first: int
    last: int
    end: int
    text: str
    lines: Sequence[Line]
    marks: list[Line] = field(default_factory=list)

    @property
    def line(self) -> Line:
        """The line it begins with."""
        return self.lines[self.first]

    @property
    def signs(self) -> set[str]:
        """The signs of its lines and of its decorators: more than one where a part is changed."""
        return {line.sign for line in (*self.marks, *self.lines[self.first : self.last])}


def heads(hunk: Hunk, side: str) -> Iterator[Head]:
    """Yield the statements of one side of a hunk, ``+`` or ``-``, in order; a definition's ``end``
    is right once all have been taken. Assignments and returns are yielded only where changed.
    """
    yield from _Scanner(hunk, [line for line in hunk.lines if line.sign in (side, " ")]).heads()


class _Scope(NamedTuple):
    indent: int
    head: Head | None  # None: what git's line names
    name: str
    type: str


class _Scanner:
    """Walks once over the lines of a side."""

    def __init__(self, hunk: Hunk, lines: Sequence[Line]) -> None:
        self.hunk = hunk
        self.lines = lines
        self.inside = _inside_strings(lines)
        self.stack: list[_Scope] = []
        self.known = True  # whether the stack says what is around an indented line
        section = _HEAD.match(hunk.section)
        if section and (name := section.group(1) or section.group(2)):
            self.stack.append(_Scope(0, None, name, "def" if section.group(1) else "class"))
        elif hunk.old_start > 1:
            self.known = False

    def heads(self) -> Iterator[Head]:
        marks: list[Line] = []
        head = self._section_head()
        if head:
            yield head
        n = head.last if head else 0
        while n < len(self.lines):
            text = self.lines[n].text
            code = text.lstrip()
            if not code or code[0] in "#)]}" or self.inside[n]:
                n += 1
                continue
            indent = len(text) - len(code)
            if not indent or (self.stack and self.stack[-1].indent >= indent):
                self._leave(indent, n)
            if code[0] == "@":
                marks.append(self.lines[n])
                n += 1
                continue
            head = None
            if code.startswith(_STARTS):
                head = self._head(code, indent, n)
            elif self.lines[n].sign != " ":
                head = self._statement(code, indent, n)
            if head:
                head.marks = marks
                yield head
            if marks:
                marks = []
            n = head.last if head else n + 1
        self._leave(-1, len(self.lines))

    def _section_head(self) -> Head | None:
        """Return the definition whose parameters the hunk begins in, if git's line shows one.

        Where they are further down than the parameters, lines of the body do not parse as such.
        """
        scope, code = next(iter(self.stack), None), self.hunk.section
        if not scope or scope.type != "def" or _open(code) < 1 or not self.lines:
            return None
        last, text = self._whole(code, -1)
        if last < 1 or _open(text) or not isinstance(parsed(text), ast.FunctionDef):
            return None
        self.stack.clear()
        head = Head("def", scope.name, "", "", 0, last, last, text, self.lines)
        self.stack.append(_Scope(0, head, scope.name, "def"))
        return head

    def _leave(self, indent: int, n: int) -> None:
        """Close the definitions that a line of this indentation is not in."""
        while self.stack and self.stack[-1].indent >= indent:
            head = self.stack.pop().head
            if head:
                head.end = n
        if indent == 0:
            self.known = True

    def _head(self, code: str, indent: int, n: int) -> Head | None:
        match = _HEAD.match(code)
        if not match:
            return None
        last, text = self._whole(code, n)
        name = match.group(1) or match.group(2) or ""
        kind: _Type = "def" if match.group(1) else "class" if name else "import"
        head = Head(kind, name, *self._around(indent), n, last, last, text, self.lines)
        if name:
            self.stack.append(_Scope(indent, head, name, kind))
        return head

    def _statement(self, code: str, indent: int, n: int) -> Head | None:
        """Return an assignment to a name or an attribute, or a return with a value."""
        around = self._around(indent)
        if code.startswith("return ") and around[1] == "def":
            return Head("return", "return", *around, n, n + 1, n + 1, code, self.lines)
        match = _ASSIGNED.match(code)
        if not match or match.group(2) in _NO_TARGET or code.endswith(","):
            return None  # with a comma it is an argument or an item
        owner, sign = match.group(1) or "", match.group(3)
        if not owner and sign == "=" and f"{match.group(2)} =" not in code[: match.end()]:
            return None  # without a blank before the sign it is an argument
        if owner:
            around = (self._class(), "class")
        return Head("assign", owner + match.group(2), *around, n, n + 1, n + 1, code, self.lines)

    def _class(self) -> str | None:
        """Return the class that ``self`` is of, None where the hunk does not show it."""
        last = max((n for n, one in enumerate(self.stack) if one.type == "class"), default=-1)
        return ".".join(one.name for one in self.stack[: last + 1]) or None

    def _around(self, indent: int) -> tuple[str | None, str]:
        if not indent:
            return "", ""
        if not self.stack:
            return (None, "") if not self.known else ("", "")
        inner = self.stack[-1]
        if inner.head is None and inner.type == "class" and indent > _MEMBER_INDENT:
            return None, ""  # in a method whose head the hunk does not show
        return ".".join(scope.name for scope in self.stack), inner.type

    def _whole(self, code: str, n: int) -> tuple[int, str]:
        """Return the line behind a head and the head: it ends where its brackets are closed."""
        pieces, opened, size = [code], _open(code), len(code)
        last = n + 1
        stop = min(len(self.lines), n + MOST_HEAD_LINES)
        while (opened > 0 or pieces[-1].endswith("\\")) and last < stop and size < MOST_HEAD:
            text = self.lines[last].text
            if _HEAD.match(text.lstrip()):
                break
            opened += _open(text)
            size += len(text)
            pieces.append(text)
            last += 1
        return last, "\n".join(pieces)[: 2 * MOST_HEAD]


def _open(code: str) -> int:
    if "#" in code:
        code = code.partition("#")[0]
    count = code.count
    return count("(") + count("[") + count("{") - count(")") - count("]") - count("}")


def end_of_statement(lines: Sequence[Line], first: int) -> int:
    """Return the number of the line behind a statement: it ends where its brackets are closed."""
    opened, last = _open(lines[first].text), first + 1
    while opened > 0 and last < min(len(lines), first + MOST_HEAD_LINES):
        opened += _open(lines[last].text)
        last += 1
    return last


def _inside_strings(lines: Sequence[Line]) -> list[bool]:
    """Return for each line whether it begins inside a string of three quotation marks.

    A hunk may begin inside one, unless it is the first of the file: then the first marks, which
    close the string, stand at the end of a line where none could begin.
    """
    marked = [(n, line.text) for n, line in enumerate(lines) if _may_hold(line.text)]
    flags = [False] * len(lines)
    if not marked:
        return flags
    marks = [(n, match) for n, text in marked for match in _TRIPLE.finditer(text)]
    inside, start = "", -1
    for nth, (n, match) in enumerate(marks):
        text, at = lines[n].text, match.start()
        if inside and match.group() != inside:
            continue
        closes = bool(inside)
        if nth == 0 and lines[0].new > 1 and not text[match.end() :].strip():
            closes = not _may_open(lines, n, text[:at])
        if closes:
            flags[start + 1 : n + 1] = [True] * (n - start)
        inside, start = ("", n) if closes else (match.group(), n)
    if inside:
        flags[start + 1 :] = [True] * (len(lines) - start - 1)
    return flags


def _may_hold(text: str) -> bool:
    return '"""' in text or "'''" in text


def _may_open(lines: Sequence[Line], n: int, before: str) -> bool:
    """Whether marks that end their line begin a string: after a colon, a bracket or a sign."""
    before = before.rstrip()
    if before:
        return bool(_OPENS.search(before[-3:]))
    above = lines[n - 1].text.rstrip() if n else ""
    return above.endswith((":", "(", "=", ","))


def parsed(text: str) -> ast.stmt | None:
    """Return the statement that a head begins, or None: many a fragment is no Python."""
    return _statement(text + " pass") or _statement(text)


def _statement(text: str) -> ast.stmt | None:
    try:
        if "\\" in text:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about "\d" in a default value
                body = ast.parse(text).body
        else:
            body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return body[0] if len(body) == 1 else None


@lru_cache(maxsize=256)
def parameters(text: str) -> tuple[Parameter, ...] | None:
    """Return the parameters of a ``def`` and, named ``->``, its result; None if not readable."""
    node = parsed(text)
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    args = node.args
    plain = [*args.posonlyargs, *args.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(args.defaults))
    pairs = list(zip(plain, [*defaults, *args.defaults], strict=True))
    found = [_parameter("", arg, default) for arg, default in pairs]
    if args.vararg:
        found.append(_parameter("*", args.vararg, None))
    keywords = zip(args.kwonlyargs, args.kw_defaults, strict=True)
    found += [_parameter("", arg, default) for arg, default in keywords]
    if args.kwarg:
        found.append(_parameter("**", args.kwarg, None))
    if node.returns:
        found.append(Parameter("->", _source(node.returns)))
    return tuple(found)


def _parameter(stars: str, arg: ast.arg, default: ast.expr | None) -> Parameter:
    annotation = _source(arg.annotation) if arg.annotation else ""
    return Parameter(stars + arg.arg, annotation, _source(default) if default else "")


def _source(node: ast.expr) -> str:
    try:
        return ast.unparse(node)[:300]
    except (RecursionError, ValueError):
        return "?"


def imported(text: str) -> list[tuple[str, str]]:
    """Return the names that an import binds, each with what it stands for."""
    node = _statement(text) or _statement(text + "\n)")
    if isinstance(node, ast.Import):
        return [(one.asname or one.name, one.name) for one in node.names]
    if isinstance(node, ast.ImportFrom):
        module = "." * node.level + (node.module or "")
        return [(one.asname or one.name, f"{module}.{one.name}") for one in node.names]
    return []
