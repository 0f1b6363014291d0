"""Fragments of Go, JavaScript, TypeScript, Rust and Java, parsed by tree-sitter.

A hunk is seldom a whole program: it begins in the middle of a class or a function and ends in
another. So what may stand before it is tried (nothing, the line that git writes after its ``@@``,
the heads of a class and of a method that nobody sees), brackets left open are closed, and the text
with the fewest errors counts.

tree-sitter is native code that takes any bytes, but on text that is no code its time and memory
grow with the square of the length and worse. So it gets pieces of some 10,000 characters, and what
it may spend on errors is counted in steps and characters: no clock decides what is read.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from annotator.patches.diff import Hunk, Line

if TYPE_CHECKING:
    from tree_sitter import Language, Tree

MOST_SIDE = 200_000  # characters of one side of a hunk
MOST_BROKEN = 200_000  # characters of one patch that are parsed and found to be in errors
MOST_PIECE = 10_000  # characters that are parsed at once
MOST_CONTEXT = 20  # brackets open before a piece for which the lines that open them are shown
MOST_HEAD = 8  # lines of each of them
LONGEST_LINE = 2_000  # longer lines define nothing that is read

UNSEEN = "unseen__"  # the name of what is around a fragment and not shown

_CLOSES = {"(": ")", "[": "]", "{": "}"}
_OPENS = {end: start for start, end in _CLOSES.items()}
_BRACKET = re.compile(r"[()\[\]{}]")
_COMMENT = r"//.*|/\*.*?\*/|^\s*\*(?:\s.*|/)?$"
_NO_CODE = re.compile(r'"(?:[^"\\]|\\.)*+"|`[^`]*+`|\'(?:[^\'\\]|\\.[^\']{0,8})\'|' + _COMMENT)
_NO_SCRIPT = re.compile(r'"(?:[^"\\]|\\.)*+"|`[^`]*+`|\'(?:[^\'\\]|\\.)*+\'|' + _COMMENT)
_GO_IMPORT = re.compile(r'\s*(?:[\w.]+\s+)?"[^"\s]+"\s*')
_DECLARES = re.compile(
    r"(?:export|import|package|func|function|fn|pub|impl|trait|struct|enum|union|mod|use|type|class"
    r"|interface|record|abstract|final|public|private|protected|static|const|let|var|async|declare"
    r"|namespace|unsafe|extern)(?:\(\w+\))?\s+[\w({*$]|@\w|#\["
)


class Grammar(NamedTuple):
    """A grammar: its package and function there, and how to stand for what is not shown.

    ``unseen``: heads of what may be around a fragment; ``member``: the head of a member of a class.
    ``firm``: no statement is a member too, so that a class can be tried before anything else.
    ``quoted``: strings may stand in single quotation marks.
    """

    package: str
    function: str
    unseen: tuple[str, ...]
    member: str = ""
    firm: bool = False
    quoted: bool = False


def _grammar(package: str, function: str, head: str, member: str, **flags: bool) -> Grammar:
    unseen = (head, f"{head}\n{member}")
    return Grammar(f"tree_sitter_{package}", function, unseen, member, **flags)


def _script(package: str, function: str) -> Grammar:
    return _grammar(package, function, f"class {UNSEEN} {{", f"{UNSEEN}() {{", quoted=True)


GO = Grammar("tree_sitter_go", "language", (f"type {UNSEEN} interface {{",))
_RUST = _grammar("rust", "language", f"impl {UNSEEN} {{", f"fn {UNSEEN}() {{", firm=True)
_JAVA = _grammar("java", "language", f"class {UNSEEN} {{", f"void {UNSEEN}() {{", firm=True)
_GRAMMARS = {
    ".go": GO, ".rs": _RUST, ".java": _JAVA, ".tsx": _script("typescript", "language_tsx"),
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs"), _script("javascript", "language")),
    **dict.fromkeys((".ts", ".mts", ".cts"), _script("typescript", "language_typescript")),
}  # fmt: skip


class _Context(NamedTuple):
    """What may stand before lines, and how many of them are left out."""

    before: str = ""
    without: int = 0


class Piece(NamedTuple):
    """Lines ``first`` to before ``last`` of a side, parsed.

    ``starts`` are the offsets of the lines of ``text``, of which ``above`` stand before the piece;
    ``errors`` are the bytes that the grammar has no rule for.
    """

    grammar: Grammar
    first: int
    last: int
    tree: "Tree"
    text: bytes
    starts: list[int]
    above: int
    errors: int


def grammar_of(path: str) -> Grammar | None:
    """Return the grammar of a file by its ending, None if there is none."""
    return _GRAMMARS.get(path[path.rfind(".") :].lower()) if "." in path else None


class Fragments:
    """Parses the hunks of one patch. ``unread``: their characters that were not read."""

    def __init__(self) -> None:
        self.unread = 0
        self._broken = 0

    def pieces(self, grammar: Grammar, hunk: Hunk, lines: Sequence[Line]) -> Iterator[Piece]:
        """Yield the pieces of one side of a hunk, given as its lines."""
        texts = [_readable(line.text) for line in lines]
        changed = [len(line.text) + 1 if line.sign != " " else 0 for line in lines]
        if sum(map(len, texts)) + len(texts) > MOST_SIDE:
            self.unread += sum(changed)
            return
        for first, last, shown in _cuts(texts, grammar):
            part = texts[first:last]
            if first:
                before = _contexts(grammar, part, shown)
            elif hunk.old_start <= 1:
                before = [_Context()]
            else:
                before = _contexts(grammar, part, _sections(hunk.section, grammar))
            piece = self._best(grammar, part, before)
            if piece:
                yield piece._replace(first=first, last=last)
            else:
                self.unread += sum(changed[first:last])

    def _best(self, grammar: Grammar, part: list[str], contexts: list[_Context]) -> Piece | None:
        """Return the lines in the context that leaves the fewest errors."""
        best: Piece | None = None
        for context in contexts:
            if self._broken > MOST_BROKEN:
                break
            piece = _parse(grammar, part, context)
            errors = piece.errors if piece else sum(map(len, part))
            self._broken += errors
            if piece and (best is None or errors < best.errors):
                best = piece
            if not piece or not errors:
                break
        return best


def _readable(text: str) -> str:
    return text.replace("\0", " ") if len(text) <= LONGEST_LINE else ""


class _Opened(NamedTuple):
    """A bracket that is open, and the lines of what it belongs to so far, by their numbers."""

    bracket: str
    lines: tuple[tuple[int, str], ...]


class _Brackets:
    """The brackets that lines leave open.

    A declaration that is not indented ends whatever is open: a mistake does not outlive it.
    """

    def __init__(self, grammar: Grammar, opened: Iterable[_Opened] = (), lines: int = 0) -> None:
        self.opened = list(opened)
        self.no_code = _NO_SCRIPT if grammar.quoted else _NO_CODE
        self.quoted = False  # between two ` on different lines
        self.lines = lines
        self.head: list[tuple[int, str]] = []  # lines of a statement that goes on
        self.tail = 0  # lines to the last indented one that closes what none of them opens

    def add(self, text: str) -> str:
        """Read a line and return it, behind what ends the brackets it does not stand in."""
        ends = ""
        self.lines += 1
        if not self.quoted and _DECLARES.match(text):
            self.head = []
            if self.opened:
                ends, self.opened = "}" * self.ends().count("}") + "; ", []
        code = self.no_code.sub("", text)
        if "`" in code:
            before, _, behind = code.partition("`")
            code = behind if self.quoted else before
            self.quoted = not self.quoted
        elif self.quoted:
            return text
        for match in _BRACKET.finditer(code):
            bracket = match.group()
            if bracket in _CLOSES:
                self.opened.append(_Opened(bracket, (*self.head, (self.lines, text))))
            elif self.opened and self.opened[-1].bracket == _OPENS[bracket]:
                self.opened.pop()
            elif not self.opened and text[0].isspace():
                self.tail = self.lines
        more = code.strip() and not code.rstrip().endswith((";", "{", "}"))
        self.head = [*self.head[-MOST_HEAD:], (self.lines, text)] if more else []
        return ends + text

    def ends(self) -> str:
        """Return what closes the brackets."""
        return "".join(_CLOSES[one.bracket] for one in reversed(self.opened))

    def around(self) -> list[str]:
        """Return the lines that open them, as one text, if they are not too many."""
        if not 0 < len(self.opened) <= MOST_CONTEXT:
            return []
        lines = dict(line for one in self.opened for line in one.lines)
        return ["\n".join(lines[n] for n in sorted(lines))]


def _cuts(texts: list[str], grammar: Grammar) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the pieces of a side as line numbers, with the lines that open what is around each.

    A side that is too long is cut where the fewest brackets are open, as late as possible.
    """
    first, around = 0, list[_Opened]()
    while first < len(texts):
        brackets, size, last, cut = _Brackets(grammar, around, first), 0, first, 0
        shown = brackets.around()
        while last < len(texts) and (last == first or size + len(texts[last]) < MOST_PIECE):
            brackets.add(texts[last])
            size += len(texts[last]) + 1
            last += 1
            if size > MOST_PIECE // 2 and (not cut or len(brackets.opened) <= len(around)):
                cut, around = last, list(brackets.opened)
        if last < len(texts) and cut:
            last = cut
        yield first, last, shown
        first = last


def _sections(section: str, grammar: Grammar) -> list[str]:
    """Return the line that git writes after ``@@`` so that it opens what the hunk begins in.

    It is cut off at 80 characters; its parameters may end in the hunk or before.
    """
    section = section.strip()
    if not section or section.endswith((";", "}", ",")):
        return []
    brackets = _Brackets(grammar)
    brackets.add(section)
    opened = "".join(one.bracket for one in brackets.opened)
    if not opened:
        return [section + " {"]
    if "(" not in opened or "{" in opened:
        return [section]
    return [section, f"{section}{brackets.ends()} {{"]


def _contexts(grammar: Grammar, part: list[str], shown: list[str]) -> list[_Context]:
    """Return the contexts that lines may have, the likeliest first.

    ``shown``: what the hunk says is around them. Indented lines may be in a member of it. In the
    last context the lines that end such a member are left out.
    """
    code = next((text for text in part if text.strip()), "")
    if code and not code[0].isspace() and code[0] not in ")]}":
        return [_Context(one) for one in ("", *grammar.unseen)]
    if grammar is GO and _GO_IMPORT.fullmatch(code):
        shown = [*shown, "import ("]
    inner = [f"{one}\n{grammar.member}" for one in shown if grammar.member]
    if grammar.firm:
        likely = [*shown, *inner, grammar.unseen[0], "", *grammar.unseen[1:]]
    elif code.startswith(("    ", "\t\t")):
        likely = [*inner, *shown, "", *grammar.unseen]
    else:
        likely = [*shown, *inner, "", *grammar.unseen]
    brackets = _Brackets(grammar)
    for text in part:
        brackets.add(text)
    last = [_Context([*shown, *grammar.unseen][0], brackets.tail)] if brackets.tail else []
    return [*(_Context(one) for one in likely), *last]


@lru_cache(maxsize=8)
def _language(grammar: Grammar) -> "Language":
    from tree_sitter import Language  # native, and few patches need it

    function: Callable[[], object] = getattr(import_module(grammar.package), grammar.function)
    return Language(function())


def _parse(grammar: Grammar, part: list[str], context: _Context) -> Piece | None:
    """Return lines in a context, None if they take too many steps to parse."""
    from tree_sitter import Parser

    part = [""] * context.without + part[context.without :]
    above = [*(context.before.split("\n") if context.before else ()), *_comment_before(part)]
    brackets = _Brackets(grammar)
    shown = "\n".join([brackets.add(line) for line in (*above, *part)])
    comment = "*/" if shown.rfind("/*") > shown.rfind("*/") else ""
    text = f"{shown}\n{comment}\n{brackets.ends()}\n".encode(errors="replace")
    calls = 0

    def stop(offset: int, _: bool) -> bool:
        nonlocal calls
        calls += 1
        return calls > 50 + offset // 25  # code takes one for 40 to 400 characters

    parser = Parser(_language(grammar))
    try:
        tree = parser.parse(lambda offset, _: text[offset:], progress_callback=stop)
    except ValueError:  # stopped
        return None
    starts = [0, *accumulate(len(line) + 1 for line in text.split(b"\n"))]
    return Piece(grammar, 0, 0, tree, text, starts, len(above), _errors(tree))


def _comment_before(part: list[str]) -> list[str]:
    """Return what opens the comment that lines begin in: ``* text``, or text before ``*/``."""
    code = next((text.strip() for text in part if text.strip()), "")
    if code == "*" or code.startswith(("* ", "*/")):
        return ["/*"]
    first = next((text for text in part if "/*" in text or "*/" in text), "")
    return ["/*"] if first.rstrip().endswith("*/") and "/*" not in first else []


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
