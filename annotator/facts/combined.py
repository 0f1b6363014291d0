"""What agents say of each other's work, held against how their patches combine."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

from annotator.facts.conversation import assents
from annotator.facts.known import Known
from annotator.facts.mentions import paths_in
from annotator.facts.model import Fact, Span, name_of
from annotator.facts.prose import Said, Sentence, points_at, span_of
from annotator.facts.refuted import between, meetings_of
from annotator.facts.sides import TELLING, Side, sentences, sides_of
from annotator.patches.diff import same_path
from annotator.text import count, one_line

KINDS: Mapping[str, str] = {
    "agreed_text_differs": "both agreed on a text to write, and one patch lacks lines of it",
    "request_not_followed": "an agent asks for a line of code, and the partner's patch lacks it",
    "order_lost": "an order of work was agreed, and the patches still meet at the same lines",
    "work_carried": "a patch holds most of what another patch adds",
    "ownership_crossed": "two agents each tell the other that it owns a file that both change",
}

_SAME_WORK = 0.5  # share of a patch's added lines from which another patch carries it
_FEWEST = 2  # lines that say something, for "most of them" to mean anything
_MOST_BLOCKS = 100  # blocks of code in messages that are compared
_QUOTED = re.compile(r"(?<![\w'\"`])(['\"`])([^'\"`\n]{6,160})\1(?!\w)")
_ASKS_FOR = re.compile(
    r"\b(?:please|just|you(?: can| should| could| need to)?)\b[^'\"`]{0,60}"
    r"\b(?:add|keep|include|insert|fold|put|call|append|leave|place|wire|hook)\b[^'\"`]{0,40}\Z"
)
_CODE = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*\s?[(=\[]|[A-Za-z_]\w*\.\w+")
_YOURS = re.compile(
    r"\byou(?: now| fully| already)? own\b( (?:this|the|that) file)?|\bowning (this)\b"
)
_IF = re.compile(r"\b(?:if|propose|proposal|suggest|should|would)\b")
_NOT_WANTED = re.compile(r"\b(?:not|out|without|instead of|never)\b|n['’]t\b")
_MOST_REQUESTS = 200  # different pieces of code that are looked for


def facts(known: Known) -> Iterator[Fact]:
    """Yield what both patches together say of the agents' words. Of one patch there is nothing."""
    sides = sides_of(known)
    if len(sides) < 2 or not known.messages:
        return
    yield from _orders(known)
    yield from _ownership(known, sides)
    yield from _requests(known, sides)
    blocks = _blocks(known)
    yield from _agreed_texts(_agreed(blocks), sides)
    yield from _carried(blocks, sides)


def _orders(known: Known) -> Iterator[Fact]:
    """Yield the order that was agreed last between two agents whose patches meet nevertheless.

    Agreed is what a partner accepts, and what two agents state alike. Patches are made against the
    base, so where they meet, neither was made on top of the other.
    """
    stated = [one for one in known.of("order_agreement") if one.about["first"] is not None]
    alike: dict[tuple[str, str], Fact] = {}
    for one in stated:
        if not one.about["hedged"]:
            alike.setdefault((one.about["first"], one.agents[0]), one)
    meetings = meetings_of(known, same=True)
    for one in reversed(stated if meetings else []):
        first, sender = one.about["first"], one.agents[0]
        partners = known.partners_of(one)
        echo = next((alike[first, who] for who in partners if (first, who) in alike), None)
        if one.about["agreed_in"] is None and (echo is None or one.about["hedged"]):
            continue
        met = next(between(meetings, sender, partners), None)
        if met is None:
            continue
        spans = (*one.spans, *(echo.spans if echo else ()), *met.spans)
        says = (
            f"It is agreed in message {one.about['message']} that {name_of(first)} goes first; "
            f"both patches change the same place of {one_line(met.about['path'], 200)} in the base."
        )
        details = {"message": one.about["message"], "first": first, "path": met.about["path"]}
        yield Fact("order_lost", says, met.agents, spans, details)
        return


def _ownership(known: Known, sides: Mapping[str, Side]) -> Iterator[Fact]:
    """Yield two agents that each call the other the owner of one file, which both change."""
    told: dict[tuple[str, str], tuple[Said, Sentence, str]] = {}
    for said, sentence in sentences(known):
        match = _YOURS.search(sentence.low) if said.sender in sides else None
        if match is None or sentence.text.endswith("?"):
            continue
        if _IF.search(sentence.low, 0, match.start()):
            continue
        partners = known.partners(said)
        named = [one.name for one in paths_in(sentence.text[match.end() : match.end() + 200])]
        if not named and (
            match.group(1) or match.group(2)
        ):  # "this file": the one that the message is about
            named = [one.name for one in paths_in(said.text[:500])]
        if len(partners) == 1 and len(set(named)) == 1:
            told[said.sender, partners[0]] = (said, sentence, named[0])
    for one, two in combinations(sides, 2):
        ours, theirs = told.get((one, two)), told.get((two, one))
        if ours is None or theirs is None or not same_path(ours[2], theirs[2]):
            continue
        path = next((x.path for x in sides[one].patch.files if same_path(ours[2], x.path)), None)
        if path and any(same_path(path, x.path) for x in sides[two].patch.files):
            says = (
                f"{name_of(one)} and {name_of(two)} each call the other the owner of "
                f"{one_line(path, 200)}; both change it."
            )
            spans = (span_of(*ours[:2]), span_of(*theirs[:2]))
            yield Fact("ownership_crossed", says, (one, two), spans, {"path": path})


def _requests(known: Known, sides: Mapping[str, Side]) -> Iterator[Fact]:
    """Yield the lines of code that an agent asks its partner to write, and that it did not write.

    Only what the asking agent's own patch writes counts: it shows that the line was meant so.
    """
    asked: set[tuple[str, str]] = set()
    for said, sentence in sentences(known):
        own = sides.get(said.sender)
        if own is None or len(asked) == _MOST_REQUESTS:
            continue
        for match in _QUOTED.finditer(sentence.text):
            code = "".join(match.group(2).split())
            before = sentence.low[max(0, match.start() - 160) : match.start()]
            wanted = _CODE.search(match.group(2)) and _ASKS_FOR.search(before)
            if (said.sender, code) in asked or not wanted or _NOT_WANTED.search(before[-40:]):
                continue
            asked.add((said.sender, code))
            line = next((line for text, line in own.added.items() if code in text), None)
            for agent in known.partners(said) if line else ():
                side = sides.get(agent)
                if line is None or side is None or not side.whole or code in side.joined:
                    continue
                says = (
                    f"{name_of(said.sender)} asks in message {said.n} for "
                    f"{one_line(match.group(2), 80)}; {name_of(agent)}'s patch does not have it."
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
    """Return the blocks that one agent sent and another sent back accepting them, the latest."""
    found: list[tuple[_Block, _Block]] = []
    for n, later in enumerate(blocks):
        if not assents(later.said):
            continue
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
        if not all(agent in sides and sides[agent].whole for agent in agents):
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
                f"{name_of(one)} and {name_of(two)} agree on a text in message {later.said.n}; "
                f"{name_of(two)}'s patch lacks {count(len(missing), 'line')} of it that "
                f"{name_of(one)}'s adds."
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
            if len(both) < _FEWEST or share < _SAME_WORK or not theirs.whole:
                continue
            first = next(text for text in theirs.added if text in both)
            says = (
                f"{name_of(ours.agent)}'s patch holds {len(both)} of the {len(wrote)} lines that "
                f"{name_of(theirs.agent)}'s adds."
            )
            spans = (ours.span([ours.added[first]]), theirs.span([theirs.added[first]]))
            details = {"lines": len(both), "of": len(wrote), "share": round(share, 3)}
            yield Fact("work_carried", says, (ours.agent, theirs.agent), spans, details)
