"""What a message names, once for all who look at it: its paths, line numbers and symbols."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from annotator.facts.known import Known
from annotator.facts.mentions import Lines, Mention, lines_in, paths_in, symbols_in
from annotator.facts.model import Fact, Span
from annotator.facts.prose import Said, points_at
from annotator.text import one_line

KINDS: Mapping[str, str] = {
    "mention_path": "a message names a file or folder",
    "mention_lines": "a message names line numbers",
    "mention_symbol": "a message names a function, class, parameter or other name of the code",
}

# Every name has a mark, a capital inside or a word beside it that says what it is.
_MAY_NAME = re.compile(
    r"[._/(`=\d]|[a-z][A-Z]|[A-Z]{2}|\b(?:Makefile|Dockerfile|Jenkinsfile)\b"
    r"|\s(?:kwargs?|param|arg|method|function|class|attr|dataclass|decorator|constant|keyword|fixture)"
)

MOST_NAMES = 200
"""Different names of one kind that are listed of one message or statement."""

_AROUND = 100  # characters to either side that make a short name a passage
_BESIDE_NAMES = frozenset('`"()[]{},;:*/=<>|')
# Inside of a word or a number, where nothing begins or ends that can be quoted.
_INSIDE = re.compile(r"(?<=\w)['’-]?\w|(?<=\w['’-])\w|(?<=\d)[.,]\d|(?<=\d[.,])\d")


@dataclass(frozen=True, slots=True)
class Named:
    """What a message names outside of quoted code, with offsets in its text, in order."""

    paths: tuple[Mention, ...]
    lines: tuple[Lines, ...]
    symbols: tuple[Mention, ...]


def named_in(said: Said) -> Named:
    """Return what a message names."""
    paths: list[Mention] = []
    lines: list[Lines] = []
    symbols: list[Mention] = []
    for part, start, stop in said.parts:
        if part == "code":
            continue
        text = said.text[start:stop]
        here = paths_in(text)
        symbols += [_moved(one, start) for one in symbols_in(text, here)]
        paths += [_moved(one, start) for one in here]
        lines += [
            Lines(one.first, one.last, one.start + start, one.end + start) for one in lines_in(text)
        ]
    return Named(tuple(paths), tuple(lines), tuple(symbols))


def _moved(one: Mention, by: int) -> Mention:
    return Mention(one.name, one.start + by, one.end + by) if by else one


def names_between(said: Said, start: int, end: int) -> dict[str, list[str] | list[list[int]]]:
    """Return the files, lines and symbols that a passage of a message names, each once."""
    text = said.text[start:end]
    if not _MAY_NAME.search(text):
        return {"files": [], "lines": [], "symbols": []}
    paths = paths_in(text)
    lines = [(one.first, one.last) for one in lines_in(text)]
    return {
        "files": _names(paths),
        "lines": [list(one) for one in dict.fromkeys(lines)][:MOST_NAMES],
        "symbols": _names(symbols_in(text, paths)),
    }


def _names(found: Sequence[Mention]) -> list[str]:
    return list(dict.fromkeys(one.name for one in found))[:MOST_NAMES]


def facts(known: Known) -> Iterator[Fact]:
    """Yield the names in each message."""
    for said in known.messages:
        yield from mentions(said, named_in(said))


def mentions(said: Said, named: Named) -> Iterator[Fact]:
    """Yield a fact for each different name in a message, at the first place where it stands."""
    paths, symbols = Counter(x.name for x in named.paths), Counter(x.name for x in named.symbols)
    for kind, counts, found in (("path", paths, named.paths), ("symbol", symbols, named.symbols)):
        for one in list({one.name: one for one in reversed(found)}.values())[
            : -MOST_NAMES - 1 : -1
        ]:
            about = {"count": counts[one.name], kind: one.name}
            yield from _mention(said, kind, one_line(one.name, 120), one, about)
    numbers = Counter((one.first, one.last) for one in named.lines)
    places = {(one.first, one.last): one for one in reversed(named.lines)}
    for pair in list(numbers)[:MOST_NAMES]:
        first, last = pair
        shown = f"lines {first}-{last}" if last > first else f"line {first}"
        about = {"count": numbers[pair], "lines": list(pair)}
        yield from _mention(said, "lines", shown, places[pair], about)


def _mention(
    said: Said, kind: str, shown: str, one: Mention | Lines, about: dict[str, object]
) -> Iterator[Fact]:
    if span := _name_span(said, one.start, one.end):
        says = f"{one_line(said.sender, 64)} names {shown} in message {said.n}."
        yield Fact(f"mention_{kind}", says, (said.sender,), (span,), {"message": said.n, **about})


def _name_span(said: Said, start: int, end: int) -> Span | None:
    """Return the passage of a name: alone if it can be found by, else with words around it."""
    text = said.text
    if points_at(text[start:end]) and _free(text, start - 1) and _free(text, end):
        return Span(f"message:{said.n}", start, end)
    low, high = max(0, start - _AROUND), min(said.stop, end + _AROUND)
    for at in said.message.breaks:
        low, high = (max(low, at + 1), high) if at < start else (low, min(high, at))
    line = text.rfind("\n", low, start) + 1
    newline = text.find("\n", end, high)
    for left, right in (
        (max(line, low), newline if newline >= 0 else high),
        (low, high),
    ):
        if left > 0 and left == low and not text[left - 1].isspace():
            left = next((at for at in range(left, start) if text[at].isspace()), start)
        if right < len(text) and right == high and not text[right].isspace():
            right = next((at for at in range(right, end, -1) if text[at - 1].isspace()), end)
        left = right - len(text[left:right].lstrip())
        right = left + len(text[left:right].rstrip())
        whole = not (_INSIDE.match(text, left) or _INSIDE.match(text, right))
        if whole and points_at(text[left:right]):
            return Span(f"message:{said.n}", left, right)
    return None


def _free(text: str, at: int) -> bool:
    """Whether no word or number goes on at an offset beside a name."""
    if not 0 <= at < len(text) or text[at].isspace():
        return True
    return text[at] in _BESIDE_NAMES and not text[at + 1 : at + 2].isdigit()
