"""Hunks of Python as trees: a hunk shows but a part of a file, and is made to parse."""

import ast
import re

from annotator.patches.diff import Hunk, Line

MOST_LINES = 5_000  # lines of a hunk that is read; a longer one is passed over
MOST_WIDTH = 2_000  # characters of a line; longer ones count as blank
MOST_REPAIRS = 8  # attempts to make a hunk parse

UNKNOWN = "_"  # the name of what is around a hunk where the hunk does not tell

_HEAD = re.compile(r"(class|def|async def)\s+(\w+)")
_BRANCH = re.compile(r"^(\s*)(?:try|finally|else|except\b.*?)\s*:\s*(?:#.*)?$")
_CLOSES = re.compile(r'^(?!.*[=(,\[] *[rf]{0,2}""")(?!\s*[rfu]{0,2}"""\s*\S).*"""')
_ELIF = re.compile(r"^(\s*)elif\b")


def tree_of(hunk: Hunk) -> tuple[ast.Module, list[Line]]:
    """Return what a hunk leaves behind, made to parse, and its lines by their number in the tree.

    It is given heads for what it is cut out of. Branches become ``if``: they may lack their other
    half.
    """
    lines = [line for line in hunk.lines if line.sign != "-"]
    if len(lines) > MOST_LINES:
        return _NOTHING
    texts = [line.text.expandtabs() if len(line.text) <= MOST_WIDTH else "" for line in lines]
    _close_strings(texts)
    texts = [_ELIF.sub(r"\1if", _BRANCH.sub(r"\1if 1:", text)) for text in texts]
    depths: list[int] = []  # the first depth, and each that is less than all before it
    for text in texts:
        bare = text.lstrip()
        if bare and bare[0] != "#" and (not depths or len(text) - len(bare) < depths[-1]):
            depths.append(len(text) - len(bare))
    if not depths:
        return _NOTHING
    heads = _heads(hunk.section, depths)
    texts = heads + texts
    last = max(n for n, text in enumerate(texts) if text.strip())
    if texts[last].rstrip().endswith(":"):
        texts[last] += " pass"
    for _ in range(MOST_REPAIRS):
        try:
            return ast.parse("\n".join(texts)), [_NO_LINE] * (len(heads) + 1) + lines
        except SyntaxError as error:
            if not _repair(texts, len(heads), error):
                return _NOTHING
        except (ValueError, RecursionError, MemoryError):
            return _NOTHING
    return _NOTHING


_NO_LINE = Line(" ", "", 0, 0, 0, 0)
_NOTHING = ast.Module([], []), [_NO_LINE]


def _close_strings(texts: list[str]) -> None:
    """Blank what is the rest, or the beginning, of a docstring that the hunk cuts."""
    marks = [n for n, text in enumerate(texts) if text.count('"""') % 2]
    if marks:
        first = marks[0]
        above = "".join(texts[:first]).rstrip()
        if _CLOSES.search(texts[first]) and not above.endswith(":") and above:
            texts[: first + 1] = [""] * (first + 1)
            marks = marks[1:]
    if len(marks) % 2:
        texts[marks[-1] :] = [""] * (len(texts) - marks[-1])


def _heads(section: str, depths: list[int]) -> list[str]:
    if depths == [0]:
        return []
    match = _HEAD.match(section)
    outer = f"class {UNKNOWN}:"
    if match and match[1] == "class":
        outer = f"class {match[2]}:"
    elif match and "self" not in section:
        outer = f"def {match[2]}():"
    inner = sorted({*depths[1:], *([4] if depths[0] > 4 else [])} - {0})
    heads = [" " * one + ("if 1:" if n else f"def {UNKNOWN}():") for n, one in enumerate(inner)]
    return [outer, *heads, " " * depths[0] + "pass"]


def _repair(texts: list[str], fixed: int, error: SyntaxError) -> bool:
    """Blank the line that does not parse, and what a bracket cut by the hunk holds."""
    n = min(error.lineno or 0, len(texts)) - 1
    if n < fixed or not texts[n].strip():
        return False
    bare = texts[n].strip()
    indent = texts[n][: -len(texts[n].lstrip())]
    if "never closed" in error.msg or "unterminated triple" in error.msg:
        texts[n + 1 :] = [""] * (len(texts) - n - 1)
        bare = ""
    elif error.msg.startswith("unmatched"):
        texts[fixed:n] = [""] * (n - fixed)
    branch = bare.endswith(":") and bare != "if 1:"
    texts[n] = indent + "if 1:" if branch else indent + "pass" if bare != "pass" else ""
    return True
