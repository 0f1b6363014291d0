"""The Python of two patches: the names in it, and its hunks as syntax trees."""

import ast
import itertools
import re
from collections import defaultdict

from annotator.cooperbench.patches import value_forms as form
from annotator.cooperbench.patches.diff import File, Hunk, Line, Patch
from annotator.cooperbench.patches.value_forms import Forms

MOST_LINES = 5_000  # lines of a hunk that is read; a longer one is passed over
MOST_WIDTH = 2_000  # characters of a line; longer ones count as blank
MOST_ABOVE = 20  # lines above a hunk in which the other hunks may show its head
MOST_REPAIRS = 5  # attempts to make a hunk parse
ELSEWHERE = "_"  # the class around a hunk that does not name it

_BRANCH = re.compile(r"^( *)(?:try|finally|else|elif|except)\b.*:[ ]*(?:#.*)?$", re.MULTILINE)
_OPENS = re.compile(r'.*[=(,\[] *[rf]{0,2}"""|\s*[rfu]{0,2}"""\s*\S')
_CODE = re.compile(r"\s*(?:(?:self|raise|return|pass|for|if|with|def|@)\b|\w+(?: =|\())")
_TESTS = re.compile(r"(?:^|/)(?:tests?/|test_|conftest\.py$|[^/]*_test\.py$)")
_DULL = re.compile(r"[\s)\]}(,:]*$|\s*(?:async )?def __init__\([\s(]*(?:self)?\W*$|\s*#")
_FIELD = r"\b(?:self|cls)\.|^(?: {4}|\t)?(?=\w+ ?(?:: ?\w|= ))"
_FIELDS = re.compile(rf"(?m)(?:{_FIELD})(\w+)")
_FIELD_VALUE = re.compile(r"(?m)^(?: +self\.(?=\w+(?:: .*)? = )|    (?=\w+: \w))(\w+)")
_SET = r"(?<=\w\.)(?=\w+ [-+*/|]?= )"
_NAMED = re.compile(rf"(?m)(?:{_FIELD}|{_SET}|= (?!\w+[.(]))(\w+)")  # or what is given to one
DEFINED = re.compile(r"^[ \t]*(?:async )?(?:def|class) (\w+)", re.MULTILINE)
_RETURN = re.compile(r"(?m)^\s+return \S")
APPENDED = re.compile(r"(\w+)\.(?:append|insert|extend)\(")
_CALLED = re.compile(r"\b(\w+)\(")
VARIABLE = re.compile(r"(?m)^([A-Za-z]\w+|_\w+)(?:: [^=\n]+)? = ")
_CLASS = re.compile(  # its mark, name and bases, or the name of a named tuple
    r"(?m)^(?:[ \t]*@(?:\w+\.)?(dataclass)\b.*\n)?[ \t]*"
    r"(?:class (\w+)(?:\((.*)\))?:|(\w+) = (?:\w+\.)?[nN]amed_?[tT]uple\()"
)
_PARTED = re.compile(r"__(?:getitem|iter)__")
_HEAD = re.compile(r"\s*(?:(?:async )?def |class |@)")
_METHOD = re.compile(r"    (?:async )?def \w+\(self\b.*\).*:$")
_SECTION = re.compile(r"(class \w+(?:\([\w., ]*\))?)|(?:async )?def (\w+)\(self\b.*")
_FUNCTION = re.compile(r"(?:async )?def (\w+)\((?!self\b|cls\b)")
# A stub goes, or a line follows upon a docstring.
_FILLS = re.compile(
    r"(?m)^-(?:.*:)?\s*(?:pass|\.\.\.|raise NotImplementedError\b.*)\s*(?:#.*)?$|^ .*\"\"\"\n\+"
)
_SELF_CALL = re.compile(r"\bself\.(\w+)\(([^()]*)\)")
_KEPT = re.compile(r"\bself\.(\w+)\b(?!\()")
_IMPORT = re.compile(r"^[ \t]*(?:from .*)?import (.*)", re.MULTILINE)


def _select_python_files(patch: Patch) -> list[File]:
    files = (file for file in patch.files if file.path.endswith(".py") and not file.deleted)
    return [file for file in files if not _TESTS.search(file.path)]


def _list_lines(files: list[File]) -> list[tuple[str, Line]]:
    return [(file.path, line) for file in files for hunk in file.hunks for line in hunk.lines]


class PatchTexts:
    """The Python files of a patch but for deleted ones and tests; their texts by sign and path."""

    def __init__(self, patch: Patch, other: Patch) -> None:
        self.files, theirs = _select_python_files(patch), _list_lines(_select_python_files(other))
        common = {line.text.strip() for _, line in theirs if line.sign == "+"}
        self.own_lines: set[int] = set()  # where these lines start
        texts: dict[tuple[str, str], list[str]] = defaultdict(list)
        for path, line in _list_lines(self.files):
            texts[line.sign, path].append(line.text)
            if line.sign == "+" and not (line.text.strip() in common or _DULL.match(line.text)):
                self.own_lines.add(line.start)
                texts["o", path].append(line.text)
        for file in self.files:
            texts["@", file.path] += [hunk.section for hunk in file.hunks]
        self.texts = {key: "\n".join(lines) for key, lines in texts.items()}
        self._cache: dict[tuple[str, str, str], frozenset[str]] = {}
        self.paths = {path for _, path in texts}
        self.removed = {(path, x) for path in self.paths for x in self.find(DEFINED, "-", path)}
        self.stubs: dict[int, set[str]] = {}  # functions without a body in a hunk of the base
        self.heads: dict[int, str] = {}  # of the method that such a hunk begins in
        for file in self.files:
            hunks = [x for x in file.hunks if x.lines]
            filling = [x for x in hunks if _FILLS.search(patch.text, x.end, x.lines[-1].end)]
            both = [*_list_lines(self.files), *theirs] if filling else []
            lines = [line for path, line in both if path == file.path]
            base = {line.old: line.text for line in lines if line.sign != "+"}
            for hunk in filling:
                above = range(hunk.old_start - 1, hunk.old_start - MOST_ABOVE, -1)
                number = next((n for n in above if _HEAD.match(base.get(n, ""))), 0)
                opens = base.get(number + 1, "").count('"""') == 1  # and goes on into the hunk
                method = opens and _METHOD.match(base.get(number, ""))
                head = method[0].strip() if method else ""
                if ELSEWHERE in _find_stubs(hunk, head):  # its head is in no hunk
                    head = _guess_head(hunk, lines) or head
                self.heads[hunk.start] = head
                self.stubs[hunk.start] = _find_stubs(hunk, head)

    def find(self, pattern: re.Pattern[str], signs: str, path: str) -> frozenset[str]:
        """Return the words that a pattern finds in texts of a file; "o" is that of own lines."""
        key = pattern.pattern, signs, path
        if key not in self._cache:
            texts = (self.texts.get((sign, path), "") for sign in signs)
            self._cache[key] = frozenset(x for text in texts for x in pattern.findall(text))
        return self._cache[key]

    def imports(self, path: str) -> set[str]:
        """Return the names in a file's imports on one line."""
        return {x for line in self.find(_IMPORT, " +@", path) for x in re.findall(r"\w+", line)}

    def rewritten(self, path: str) -> frozenset[str]:
        """Return the functions in a file whose returns, or constructor, the patch may change."""
        init = "__init__" in self.find(DEFINED, "-+", path)
        names = self.find(DEFINED, " @" if init or self.find(_RETURN, "-", path) else "", path)
        return names | {"cls", "super"} if init else names

    def defines_beside(self, path: str, name: str) -> bool:
        """Whether a class is in another file of the same folder: the import may not be shown."""
        folder = path.rpartition("/")[0]
        return name[:1].isupper() and any(
            x != path and x.rpartition("/")[0] == folder and name in self.find(DEFINED, " +@", x)
            for x in self.paths
        )

    def filled(self, path: str) -> set[str]:
        """Return the functions in a file that the patch may give a body."""
        hunks = (hunk for file in self.files if file.path == path for hunk in file.hunks)
        return {name for hunk in hunks for name in self.stubs.get(hunk.start, ())}

    def object_forms(self) -> dict[str, Forms]:
        """Return the forms of the objects of classes that the diff shows, as "Class()"."""
        forms: dict[str, Forms] = {}
        for path in self.paths:
            parted = any(self.find(_PARTED, sign, path) for sign in " +")
            for sign in " +":
                for mark, name, bases, tuple_ in _CLASS.findall(self.texts.get((sign, path), "")):
                    plain = not bases and not parted and (mark or sign == "+")
                    base = form.look_up("NamedTuple" if tuple_ else bases.rpartition(".")[2])
                    forms[f"{name or tuple_}()"] = base or (form.PLAIN if plain else form.OBJECT)
        return forms

    def find_removed(self, path: str) -> dict[str, list[Line]]:
        """Return the attributes that a file no longer gives a value, and own lines beside that."""
        kept = (self.find(x, " +", y) for x in (_FIELDS, DEFINED) for y in sorted(self.paths))
        names = self.find(_FIELD_VALUE, "-", path)
        names = names.difference(*kept) if names else names
        hunks = (hunk for file in self.files if file.path == path for hunk in file.hunks if names)
        return {
            name: [line for line in hunk.lines if line.start in self.own_lines]
            for hunk in hunks for x in hunk.lines if x.sign == "-"
            for name in names.intersection(_FIELD_VALUE.findall(x.text))
        }  # fmt: skip

    def new(self, path: str, name: str, other: "PatchTexts") -> bool:
        """Whether an attribute or field of a file is there by this patch alone."""
        return name not in self.find(_FIELDS, " -", path) | other.find(_FIELDS, " -+", path)


def find_common_names(ours: PatchTexts, theirs: PatchTexts) -> set[str]:
    """Return the names for which a hunk is worth parsing: both patches use them."""
    definitions = [
        {path: x.find(DEFINED, "+", path) | x.rewritten(path) | x.filled(path) for path in x.paths}
        for x in (ours, theirs)
    ]
    names: set[str] = set()
    for path in ours.paths & theirs.paths:
        common = definitions[0][path] & definitions[1][path]
        named = [x.find(_NAMED, "o", path) for x in (ours, theirs)]
        bare = [{x.replace("_", "").lower() for x in side} for side in named]
        names |= (common | (named[0] & named[1])) - {"__init__"}
        names |= {
            x for side in named for x in side if x.replace("_", "").lower() in bare[0] & bare[1]
        }
        texts = [x.texts.get(("o", path), "") for x in (ours, theirs)]
        variables = ours.find(VARIABLE, " -+", path) | theirs.find(VARIABLE, " -+", path)
        names |= {x for x in variables if x in texts[0] and x in texts[1]}
        if "__init__" in common or (ours.filled(path) and theirs.filled(path)):  # of one class
            names |= named[0] | named[1]
    for defined, mine, user in zip(definitions, (ours, theirs), (theirs, ours), strict=True):
        every = set().union(*defined.values())
        lost = {name for path in mine.paths for name in mine.find_removed(path)}
        for path in user.paths:
            called = user.find(_CALLED, "o ", path) & every
            near = called and defined.get(path, set()) | ours.imports(path) | theirs.imports(path)
            near = near | {x for x in called if mine.defines_beside(path, x)}
            names |= called & near and {*called & near, "__init__"}
            names |= user.find(_NAMED, "o", path) & lost if lost else lost
    return names - {"None", "True", "False", "self", ELSEWHERE}


def is_stub(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function has no body, or nothing but a docstring in it."""
    for statement in node.body:
        match statement:
            case ast.Pass() | ast.Expr(ast.Constant()) | ast.Return(None | ast.Constant(None)):
                continue
            case ast.Raise(ast.Name(name) | ast.Call(ast.Name(name))) if name[:6] == "NotImp":
                continue
        return False
    return True


def _find_stubs(hunk: Hunk, head: str) -> set[str]:
    tree, _ = parse_hunk(hunk, head, "+")
    functions = (x for x in ast.walk(tree) if isinstance(x, ast.FunctionDef | ast.AsyncFunctionDef))
    return {node.name for node in functions if is_stub(node)}


def _guess_head(hunk: Hunk, lines: list[Line]) -> str:
    """Return the head of the method that a hunk begins in, if only one is called and not shown."""
    inner = itertools.takewhile(lambda line: not _HEAD.match(line.text), hunk.lines)
    body, text = ("\n".join(line.text for line in group) for group in (inner, lines))
    visible = {*DEFINED.findall(text), *_KEPT.findall(text), *dict(_SELF_CALL.findall(body))}
    calls = [(name, passed) for name, passed in _SELF_CALL.findall(text) if name not in visible]
    passed = {x for _, args in calls for x in re.findall(r"[a-z_]\w+", args) if x != "self"}
    fits = len(dict(calls)) == 1 and passed & {*re.findall(r"\w+", body)}
    return f"def {calls[0][0]}(self):" if fits else ""


def parse_hunk(hunk: Hunk, head: str = "", without: str = "-") -> tuple[ast.Module, list[Line]]:
    """Return the mended syntax tree of a hunk, and its lines by their number in the tree."""
    lines = [line for line in hunk.lines if line.sign != without]
    wide = ["" if len(line.text) > MOST_WIDTH else line.text for line in lines[:MOST_LINES]]
    texts = _BRANCH.sub(r"\1if 1:", "\n".join(wide).replace("\r", "").expandtabs()).split("\n")
    _cut_strings(texts)
    heads = _make_heads(hunk.section, head, texts)
    first = len(heads)
    texts[:0] = heads
    for _ in range(MOST_REPAIRS if len(lines) <= MOST_LINES else 0):
        while texts and texts[-1].strip()[:1] in ("", "#"):
            texts.pop()
        if texts and texts[-1].rstrip().endswith(":"):
            texts[-1] += " pass"
        try:
            return ast.parse("\n".join(texts)), [Line(" ", "", 0, 0, 0)] * (first + 1) + lines
        except SyntaxError as error:
            at = min(error.lineno or 1, len(texts)) - 1
            if "never closed" in error.msg or "unterminated triple" in error.msg:
                del texts[max(at, first) :]
            elif texts:
                texts[at] = ""
        except (ValueError, RecursionError, MemoryError):
            break
    return ast.Module([], []), []


def _cut_strings(texts: list[str]) -> None:
    """Leave out the part of a docstring that the hunk cuts."""
    marks = [n for n, text in enumerate(texts) if text.count('"""') % 2]
    if not marks:
        return
    first, before = marks[0], "".join(texts[: marks[0]]).rstrip()
    follows = "".join(texts[first + 1 : first + 2])
    opens = _OPENS.match(texts[first]) or before.endswith(":")
    if not (opens or (not before and not _CODE.match(follows))):
        texts[: first + 1] = [""] * (first + 1)


def _make_heads(section: str, head: str, texts: list[str]) -> list[str]:
    """Return heads of the definitions around the first line, by its depth."""
    first = next((text for text in texts if text.strip()[:1] not in ("", "#")), "")
    depth = len(first) - len(first.lstrip())
    function = _FUNCTION.match(section)
    if function and depth == 4 and not _HEAD.match(first):
        return [section if section.endswith(":") else f"def {function[1]}():", "    pass"]
    around = _SECTION.match(section)
    class_head, method = around.groups() if around else (None, None)
    method_head = section if method and section.endswith(":") else f"def {method or ELSEWHERE}():"
    method_head = method_head if method or not head else head
    heads = [f"{class_head or f'class {ELSEWHERE}'}:", f"    {method_head}"]
    heads += [" " * column + "if 1:" for column in range(8, depth, 4)]
    return [*heads[: -(-depth // 4)], " " * depth + "pass"] if depth else []
