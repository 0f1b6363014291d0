"""What agents say of each other's work, held against how their patches combine."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

from annotator.facts.known import Known
from annotator.facts.model import Fact, Span
from annotator.facts.prose import Said, Sentence, points_at, span_of
from annotator.facts.sides import TELLING, Side, sentences, sides_of
from annotator.text import count, one_line

KINDS: Mapping[str, str] = {
    "assurance_refuted": "an agent says that the work does not clash, and the patches do",
    "agreed_text_differs": "both agreed on a text to write, and one patch lacks lines of it",
    "request_not_followed": "an agent asks for a line of code, and the partner's patch lacks it",
    "order_lost": "an order of work was agreed, and the patches still meet at the same lines",
    "work_carried": "a patch holds most of what another patch adds",
    "ownership_crossed": "two agents each tell the other that it owns a file that both change",
}

_CLASHING = frozenset(["no_conflict", "disjoint", "independent"])
_SAME_WORK = 0.5  # share of a patch's added lines from which another patch carries it
_FEWEST = 2  # lines that say something, for "most of them" to mean anything
_MOST_BLOCKS = 100  # blocks of code in messages that are compared
_QUOTED = re.compile(r"(?<![\w'\"`])(['\"`])([^'\"`\n]{6,160})\1(?!\w)")
_ASKS_FOR = re.compile(
    r"\b(?:please|just|you(?: can| should| could| need to)?)\b[^'\"`]{0,60}"
    r"\b(?:add|keep|include|insert|fold|put|call|append|leave|place|wire|hook)\b[^'\"`]{0,40}\Z"
)
_CODE = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*\s?[(=\[]|[A-Za-z_]\w*\.\w+")
_YOURS = re.compile(r"\byou(?: now| fully| already)? own\b|\bowning (?:this|the|that|both)\b")


def facts(known: Known) -> Iterator[Fact]:
    """Yield what both patches together say of the agents' words. Of one patch there is nothing."""
    sides = sides_of(known)
    if len(sides) < 2 or not known.messages:
        return
    meetings = known.of("hunks_overlap", "hunks_adjoin")
    if known.trace.outcome.merge != "conflicts":
        meetings = [one for one in meetings if not one.about["same"]]
    yield from _assurances(known, meetings)
    yield from _orders(known, meetings)
    yield from _ownership(known, sides)
    yield from _requests(known, sides)
    blocks = _blocks(known)
    yield from _agreed_texts(_agreed(blocks), sides)
    yield from _carried(blocks, sides)


def _meeting_of(meetings: Sequence[Fact], agent: str) -> Fact | None:
    """Return where a patch meets another: in different ways, and overlapping, if it does."""
    own = [one for one in meetings if agent in one.agents]
    return min(own, key=lambda one: (one.about["same"], one.kind != "hunks_overlap"), default=None)


def _assurances(known: Known, meetings: Sequence[Fact]) -> Iterator[Fact]:
    """Yield each assurance of an agent whose patch meets another's lines in another way."""
    for one in known.of("assurance"):
        if one.about["claim"] not in _CLASHING:
            continue
        if met := _meeting_of(meetings, one.agents[0]):
            agent, other = one.agents[0], next(x for x in met.agents if x != one.agents[0])
            path = one_line(met.about["path"], 200)
            says = (
                f"{_name(agent)} says in message {one.about['message']} that the work does not "
                f"clash; its patch and {_name(other)}'s change the same place of {path}."
            )
            details = {key: one.about[key] for key in ("message", "claim", "hedged", "hedge")}
            details |= {"path": met.about["path"], "merge": known.trace.outcome.merge}
            yield Fact("assurance_refuted", says, (agent, other), one.spans + met.spans, details)


def _orders(known: Known, meetings: Sequence[Fact]) -> Iterator[Fact]:
    """Yield the agreed orders between agents whose patches meet nevertheless.

    Agreed is what a partner accepts, and what two agents state alike. Patches are made against the
    base, so where they meet, neither was made on top of the other.
    """
    stated = [
        one
        for one in known.of("order_agreement")
        if not one.about["hedged"] or one.about["agreed_in"] is not None
    ]
    told = set()
    for one in stated:
        first, sender = one.about["first"], one.agents[0]
        alike = next(
            (x for x in stated if x.agents[0] != sender and x.about["first"] == first), None
        )
        met = _meeting_of(meetings, sender)
        if first is None or met is None or first in told:
            continue
        if one.about["agreed_in"] is None and alike is None:
            continue
        told.add(first)
        spans = (*one.spans, *(alike.spans if alike else ()), *met.spans)
        says = (
            f"It is agreed in message {one.about['message']} that {_name(first)} goes first; both "
            f"patches change the same place of {one_line(met.about['path'], 200)} in the base."
        )
        details = {"message": one.about["message"], "first": first, "path": met.about["path"]}
        yield Fact("order_lost", says, met.agents, spans, details)


def _ownership(known: Known, sides: Mapping[str, Side]) -> Iterator[Fact]:
    """Yield two agents that each tell the other to own a file, where both patches change one."""
    told: dict[str, tuple[Said, Sentence]] = {}
    for said, sentence in sentences(known):
        if said.sender in sides and _YOURS.search(sentence.low) and sentence.asks is None:
            told[said.sender] = (said, sentence)
    for one, two in combinations(told, 2):
        paths = {x.path for x in sides[one].patch.files} & {x.path for x in sides[two].patch.files}
        if paths:
            path = one_line(min(paths), 200)
            says = (
                f"{_name(one)} and {_name(two)} each call the other the owner; both change {path}."
            )
            spans = (span_of(*told[one]), span_of(*told[two]))
            yield Fact("ownership_crossed", says, (one, two), spans, {"path": min(paths)})


def _requests(known: Known, sides: Mapping[str, Side]) -> Iterator[Fact]:
    """Yield the lines of code that an agent asks its partner to write, and that it did not write.

    Only what the asking agent's own patch writes counts: it shows that the line was meant so.
    """
    for said, sentence in sentences(known):
        own = sides.get(said.sender)
        if own is None:
            continue
        for match in _QUOTED.finditer(sentence.text):
            code = "".join(match.group(2).split())
            if not (
                _CODE.search(match.group(2))
                and _ASKS_FOR.search(sentence.low, max(0, match.start() - 160), match.start())
                and any(code in text for text in own.added)
            ):
                continue
            for agent, side in sides.items():
                if agent == said.sender or any(code in text for text in side.shown):
                    continue
                line = next(line for text, line in own.added.items() if code in text)
                says = (
                    f"{_name(said.sender)} asks in message {said.n} for "
                    f"{one_line(match.group(2), 80)}; {_name(agent)}'s patch does not have it."
                )
                spans = (span_of(said, sentence, match.start()), own.span([line]))
                details = {"message": said.n, "code": match.group(2)}
                yield Fact("request_not_followed", says, (said.sender, agent), spans, details)


@dataclass(frozen=True, slots=True)
class _Block:
    """A piece of code in a message."""

    said: Said
    lines: dict[str, tuple[int, int]]


def _blocks(known: Known) -> list[_Block]:
    found: list[_Block] = []
    for said in known.messages:
        for part, start, stop in said.parts:
            if part != "code" or len(found) == _MOST_BLOCKS:
                continue
            lines: dict[str, tuple[int, int]] = {}
            at = start
            for text in said.text[start:stop].split("\n"):
                if TELLING.search(text):
                    lead = len(text) - len(text.lstrip())
                    lines.setdefault("".join(text.split()), (at + lead, at + len(text.rstrip())))
                at += len(text) + 1
            if len(lines) >= _FEWEST:
                found.append(_Block(said, lines))
    return found


def _agreed(blocks: Sequence[_Block]) -> list[tuple[_Block, _Block]]:
    """Return the blocks that one agent sent and another sent back, the latest of each text."""
    found: list[tuple[_Block, _Block]] = []
    for n, later in enumerate(blocks):
        for earlier in reversed(blocks[:n]):
            if (
                earlier.said.sender != later.said.sender
                and earlier.lines.keys() == later.lines.keys()
            ):
                found = [one for one in found if not _supersedes(later, one[1])]
                found.append((earlier, later))
                break
    return found


def _supersedes(later: _Block, earlier: _Block) -> bool:
    shared = later.lines.keys() & earlier.lines.keys()
    return 2 * len(shared) > min(len(later.lines), len(earlier.lines))


def _agreed_texts(
    agreed: Sequence[tuple[_Block, _Block]], sides: Mapping[str, Side]
) -> Iterator[Fact]:
    """Yield the agreed blocks of which one patch adds lines that the other does not show.

    An import that only one of them uses does not count.
    """
    for earlier, later in agreed:
        agents = (earlier.said.sender, later.said.sender)
        if not all(agent in sides for agent in agents):
            continue
        for one, two in permutations(agents):
            wrote = [text for text in later.lines if text in sides[one].added]
            missing = [
                text
                for text in wrote
                if text not in sides[two].shown and not text.startswith(("import", "from"))
            ]
            if not missing:
                continue
            block = later if later.said.sender == two else earlier
            start, end = block.lines[missing[0]]
            if not points_at(block.said.text[start:end]):
                continue
            says = (
                f"{_name(one)} and {_name(two)} agree on a text in message {later.said.n}; "
                f"{_name(two)}'s patch lacks {count(len(missing), 'line')} of it that "
                f"{_name(one)}'s adds."
            )
            spans = (
                Span(f"message:{block.said.n}", start, end),
                sides[one].span([sides[one].added[missing[0]]]),
            )
            details = {"message": later.said.n, "missing": len(missing), "lacks": two}
            yield Fact("agreed_text_differs", says, (one, two), spans, details)


def _carried(blocks: Sequence[_Block], sides: Mapping[str, Side]) -> Iterator[Fact]:
    """Yield which patch holds most of what another adds, apart from code shown in messages."""
    written = {text for block in blocks for text in block.lines}
    for one, two in combinations(sides.values(), 2):
        for ours, theirs in ((one, two), (two, one)):
            wrote = theirs.added.keys() - written
            both = wrote & ours.added.keys()
            share = len(both) / len(wrote) if wrote else 0.0
            if len(both) < _FEWEST or share < _SAME_WORK:
                continue
            first = next(text for text in theirs.added if text in both)
            says = (
                f"{_name(ours.agent)}'s patch holds {len(both)} of the {len(wrote)} lines that "
                f"{_name(theirs.agent)}'s adds."
            )
            spans = (ours.span([ours.added[first]]), theirs.span([theirs.added[first]]))
            details = {"lines": len(both), "of": len(wrote), "share": round(share, 3)}
            yield Fact("work_carried", says, (ours.agent, theirs.agent), spans, details)


def _name(agent: str) -> str:
    return one_line(agent, 64)
