"""What a text names: file paths, line numbers and symbols of the code.

Every function looks at the text as it is given, and takes time linear in its length.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

_MOST_LINES = 20  # numbers of one list: "lines 3, 7 and 12"

_TOKEN = re.compile(r"(?<![\w./-])(?:Makefile|Dockerfile|Jenkinsfile|[\w-]*[./][\w./-]*)")
_EXTENSION = re.compile(
    r"py|pyi|pyx|pxd|ipynb|js|jsx|mjs|cjs|ts|tsx|mts|vue|svelte|go|mod|rs|c|h|cc|cpp|cxx|hpp|hh|cs"
    r"|java|kt|kts|scala|rb|php|swift|lua|pl|ex|exs|erl|hs|ml|jl|dart|zig|sh|bash|zsh|bat|ps1|sql"
    r"|toml|yaml|yml|json|jsonl|xml|ini|cfg|conf|lock|env|csv|tsv|md|rst|txt|html|css|scss|less"
    r"|proto|graphql|gradle|tf|tmpl|jinja|j2|diff|patch|snap",
    re.IGNORECASE,
)
_BARE_NAMES = frozenset(["Makefile", "Dockerfile", "Jenkinsfile"])
_ROOT = re.compile(
    r"src|libs?|tests?|docs?|pkg|internal|cmd|apps?|packages|examples|scripts", re.IGNORECASE
)
_PRODUCTS = frozenset(["node.js", "next.js", "vue.js", "react.js", "express.js", "asp.net"])

_RANGE = r"([0-9]{1,7})(?:\s?(?:-|–|—|\.\.|to\s|through\s)\s?[~≈]?L?([0-9]{1,7}))?(?![\w%])"
_LINES = re.compile(
    rf"(?i:\blines?)\s{{0,2}}(?:(?i:numbers?|nos?\.?|around|about|roughly)\s)?[#~≈(]?\s?L?{_RANGE}"
    rf"|\bL{_RANGE}"
    rf"|(?<=\w):L?{_RANGE}(?=[\s,;)\]`'\".]|\Z)"
)
_MORE = re.compile(rf"\s?(?:,\s?and|,|and|&|\+|or)\s?[~≈]?L?{_RANGE}")


_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,99}"
# Code-like by itself: a_b, _a, aB, AbCd, a.b, a(); then a name that a word of code follows; a=1.
# The look ahead passes over words of small letters, which are most of any text.
_IDENTIFIER = re.compile(
    r"(?<![\w.@#-])(?=[A-Za-z_]?[a-z0-9]*(?:[_(A-Z]|\.[A-Za-z_]))"
    rf"({_NAME}(?:\.{_NAME}){{0,5}})(\()?(?![\w@])"
)
_ROLE = re.compile(
    r"\s(?:kwargs?|params?|parameters?|arg|argument|method|function|class|attribute|attr|dataclass"
    r"|decorator|constant|keyword|fixture)\b"
)
_LAST_NAME = re.compile(rf"(?<![\w./-])({_NAME})`?\Z")
_KEYWORD = re.compile(rf"(?<![\w./-])({_NAME})=(?=[\w\"'`({{\[])")
_BACKTICKED = re.compile(rf"`({_NAME}(?:\.{_NAME}){{0,5}})(?:\([^`]{{0,200}})?`")
_NOT_A_NAME = re.compile(  # words before "parameter" and the like that name nothing
    r"a|an|the|this|that|these|those|new|old|same|own|my|your|our|its|their|each|every|any|all|no"
    r"|some|one|two|both|other|another|existing|extra|additional|optional|required|helper|private"
    r"|public|static|abstract|base|main|first|last|single|only|also|which|whole|entire|of|for|to"
    r"|in|and|or|with|as|per|by|relevant|different|separate|overlapping|constructor|init|module"
    r"|level|keyword|default|named|instance|python|utility|specific|shared|common|current|boolean"
    r"|bool|string|int|integer|function|method|class|inner|outer|async|matching|given|following"
    r"|corresponding|related|actual|target|final|top|added|adding|adds?|takes?|pass(?:es|ing)?"
    r"|multiple|few|more|is|are|was|were|from|on|at|original|test|type|data|free|the_|positional"
    r"|lambda|parent|child|dunder|property|wrapper|callback|exact|plain|merged|before|after|additive|passthrough|trailing",
    re.IGNORECASE,
)
_PLAIN_TERM = re.compile(
    r"Git[A-Z]\w+|JavaScript|TypeScript|PyPI|macOS|iOS|OpenAI|PyTorch|NumPy|SciPy|PostgreSQL|MySQL"
    r"|SQLite|NoSQL|DevOps|OAuth|GraphQL|YouTube|[A-Z]+s"
)
_CAMEL = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
_FIELD_NAME = re.compile(r"(?:my|your)_files")


class Mention(NamedTuple):
    """A name and where it stands: ``start`` to before ``end``."""

    name: str
    start: int
    end: int


class Lines(NamedTuple):
    """Line numbers ``first`` to ``last`` (the same for one line) and where they are named."""

    first: int
    last: int
    start: int
    end: int


def paths_in(text: str) -> list[Mention]:
    """Return every mention of a file or folder in order, a file named twice twice.

    A path is a word with a known file extension, or a folder: below a usual root ("src/x") or
    closed by a slash ("a/b/"). "a.py/b.py" names two files; an address on the web none; "and/or"
    and the name of a branch are no paths.
    """
    found: list[Mention] = []
    if "." not in text and "/" not in text and "file" not in text:
        return found
    for token in _TOKEN.finditer(text):
        name = token.group().rstrip(".-")
        if ("." not in name and "/" not in name and name not in _BARE_NAMES) or (
            len(name) > 1_000 or name.startswith(("//", "-"))
        ):
            continue
        pieces = name.split("/")
        if len(pieces) > 1 and all(map(_is_file, pieces)):
            at = token.start()
            for piece in pieces:
                found.append(Mention(piece, at, at + len(piece)))
                at += len(piece) + 1
        elif _is_file(pieces[-1]) or _is_folder(pieces):
            found.append(Mention(name, token.start(), token.start() + len(name)))
    return found


def _is_file(name: str) -> bool:
    stem, dot, extension = name.rpartition(".")
    if name in _BARE_NAMES:
        return True
    known = _EXTENSION.fullmatch(extension) and name.lower() not in _PRODUCTS
    return bool(dot and known) and any(char.isalnum() for char in stem or extension)


def _is_folder(pieces: list[str]) -> bool:
    named = [piece for piece in pieces if piece]
    if len(pieces) < 2 or not named or not all(any(map(str.isalnum, one)) for one in named):
        return False
    return (bool(_ROOT.fullmatch(named[0])) and len(named) > 1) or (
        not pieces[-1] and len(named) > 1
    )


def lines_in(text: str) -> list[Lines]:
    """Return every mention of line numbers in order: "line 3", "lines 3-7", "L3", "a.py:3-7".

    Of a list ("lines 3, 7 and 12") each. "5 lines" counts lines and names none.
    """
    if not any(map(str.isdigit, text)):
        return []
    found: list[Lines] = []
    for match in _LINES.finditer(text):
        numbers = [one for one in match.groups() if one]
        found.append(_lines(numbers, match.start(), match.end()))
        if not match.group().lower().startswith("lines"):
            continue
        at = match.end()
        for _ in range(_MOST_LINES):
            more = _MORE.match(text, at)
            if more is None:
                break
            at = more.end()
            found.append(_lines([one for one in more.groups() if one], more.start(1), at))
    return found


def _lines(numbers: list[str], start: int, end: int) -> Lines:
    first, last = int(numbers[0]), int(numbers[-1])
    # "lines 120-35" is short for 120 to 135 at best: only the first is sure.
    return Lines(first, last if last >= first else first, start, end)


def symbols_in(text: str, paths: Sequence[Mention] | None = None) -> list[Mention]:
    """Return every mention of a name of the code in order, without call brackets and ``self.``.

    A name is what looks like one (``row_count``, ``RowCount``, ``Row.count``, ``count()``,
    ``unit=None``), what stands between backticks, and a word before "parameter", "method" and the
    like ("the unit parameter"). A file is none. A name of a few letters that looks like any word is
    missed where nothing marks it. ``paths``: those of the text, if they are known already.
    """
    paths = paths_in(text) if paths is None else paths
    taken = {at for path in paths if "/" in path.name for at in range(path.start, path.end)}
    spans: dict[int, Mention] = {}
    for match in _IDENTIFIER.finditer(text):
        name, called = match.groups()
        if match.start() not in taken and _looks_like_code(name, called == "("):
            _keep(spans, name, match.start())
    if "`" in text:
        for match in _BACKTICKED.finditer(text):
            _keep(spans, match.group(1), match.start(1))
    for match in _ROLE.finditer(text):
        named = _LAST_NAME.search(text, max(0, match.start() - 100), match.start())
        if named and not _NOT_A_NAME.fullmatch(named.group(1)):
            _keep(spans, named.group(1), named.start(1))
    if "=" in text:
        for match in _KEYWORD.finditer(text):
            _keep(spans, match.group(1), match.start(1))
    return [spans[at] for at in sorted(spans)]


def _looks_like_code(name: str, called: bool) -> bool:
    last = name.rpartition(".")[2]
    if called and (len(last) > 2 or "_" in last):
        return True
    inner = name.strip("_")
    if "_" in inner or name.startswith("__") or (name.startswith("_") and len(inner) > 1):
        return bool(inner)
    if "." in name:  # "Row.count" and "self.count", not "e.g" or the end of one sentence
        first = name.partition(".")[0]
        return first in ("self", "cls") or (first[0].isupper() and len(first) > 2 and len(last) > 2)
    return bool(_CAMEL.search(name)) and not _PLAIN_TERM.fullmatch(name)


def _keep(spans: dict[int, Mention], name: str, start: int) -> None:
    if ("." in name and _is_file(name)) or _FIELD_NAME.fullmatch(name) or start in spans:
        return
    if name in ("self", "cls", "None", "True", "False"):
        return
    for prefix in ("self.", "cls."):
        if name.startswith(prefix):
            name, start = name[len(prefix) :], start + len(prefix)
    spans[start] = Mention(name, start, start + len(name))
