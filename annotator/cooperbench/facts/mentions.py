"""Mentions of file paths and line numbers in a text."""

import re
from typing import NamedTuple

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


class Mention(NamedTuple):
    """A name at the characters ``start`` to before ``end``."""

    name: str
    start: int
    end: int


def find_paths(text: str) -> list[Mention]:
    """Return every mention of a file or folder, in order.

    | text | mentions |
    | --- | --- |
    | "a.py", "Makefile" | a file with a known extension or name |
    | "src/x", "a/b/" | a folder below a usual root, or with a slash at its end |
    | "a.py/b.py" | two files |
    | "and/or", "feature/x", "https://x.org" | nothing |
    """
    mentions: list[Mention] = []
    if "." not in text and "/" not in text and "file" not in text:
        return mentions
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
                mentions.append(Mention(piece, at, at + len(piece)))
                at += len(piece) + 1
        elif _is_file(pieces[-1]) or _is_folder(pieces):
            mentions.append(Mention(name, token.start(), token.start() + len(name)))
    return mentions


def _is_file(name: str) -> bool:
    stem, dot, extension = name.rpartition(".")
    if name in _BARE_NAMES:
        return True
    has_extension = _EXTENSION.fullmatch(extension) and name.lower() not in _PRODUCTS
    return bool(dot and has_extension) and any(char.isalnum() for char in stem or extension)


def _is_folder(pieces: list[str]) -> bool:
    names = [piece for piece in pieces if piece]
    if len(pieces) < 2 or not names or not all(any(map(str.isalnum, piece)) for piece in names):
        return False
    return (bool(_ROOT.fullmatch(names[0])) and len(names) > 1) or (
        not pieces[-1] and len(names) > 1
    )


def count_lines(text: str) -> int:
    """Return how often line numbers are named: "line 3", "lines 3-7 and 12" (two), "a.py:3".

    "5 lines" is a count and no mention.
    """
    if not any(map(str.isdigit, text)):
        return 0
    count = 0
    for match in _LINES.finditer(text):
        count += 1
        at = match.end()
        while match.group().lower().startswith("lines") and (more := _MORE.match(text, at)):
            count, at = count + 1, more.end()
    return count
