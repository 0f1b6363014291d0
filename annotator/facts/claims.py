"""What agents say of their work, held against the patches that they handed in."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations

from annotator.facts.diff import Line, Patch, same_path
from annotator.facts.known import Known
from annotator.facts.messages import type_of_said
from annotator.facts.model import Fact, Span
from annotator.facts.patches import passage, read_patches
from annotator.facts.prose import Said, Sentence, points_at, span_of
from annotator.text import count, one_line

KINDS: Mapping[str, str] = {
    "assurance_refuted": "an agent says that the work does not clash, and the patches do",
    "untouched_refuted": "an agent says that it left a file alone, and its patch changes it",
    "promise_broken": "an agent promises to leave a file alone, and its patch changes it",
    "name_not_in_patch": "an agent says that a name is in place, and its patch only removes it",
    "agreed_text_differs": "both agreed on a text to write, and one patch lacks lines of it",
    "request_not_followed": "an agent asks for a line of code, and the partner's patch lacks it",
    "order_lost": "an order of work was agreed, and the patches still meet at the same lines",
    "work_carried": "a patch holds most of what another patch adds",
    "partner_work": "an agent says that it does or did its partner's part as well",
    "ownership_crossed": "two agents each tell the other that it owns a file that both change",
}

_CLASHING = frozenset(["no_conflict", "disjoint", "independent"])
_SAME_WORK = 0.5  # share of a patch's added lines from which another patch carries it
_FEWEST = 2  # lines that say something, for "most of them" to mean anything
_MOST_LINES = 5_000  # lines of a patch that are compared
_MOST_BLOCKS = 100  # blocks of code in messages that are compared
_TELLING = re.compile(r"\w\W*\w\W*\w")
_NOW = re.compile(
    r"(?<![\w.])([A-Za-z_][A-Za-z0-9_]{2,99})(?:\(\))? (?:is )?now (?:=|is\b|equals?|uses?|returns?"
    r"|defaults?|reads?)"
)
_QUOTED = re.compile(r"(?<![\w'\"`])(['\"`])([^'\"`\n]{6,160})\1(?!\w)")
_ASKS_FOR = re.compile(
    r"\b(?:please|just|you(?: can| should| could| need to)?)\b[^'\"`]{0,60}"
    r"\b(?:add|keep|include|insert|fold|put|call|append|leave|place|wire|hook)\b[^'\"`]{0,40}\Z"
)
_CODE = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*\s?[(=\[]|[A-Za-z_]\w*\.\w+")
# "implement both (mine) and (yours)", "add x and your y type", "implement your x feature too"
_BOTH = re.compile(
    r"(?<!in )(?<!to )(?<!of )(?<!on )\bboth\b(?! (?:files?|sides?|signatures?|functions?|methods?"
    r"|calls?|places?|branches|agents|patches|of|the)\b)[^.;]{0,80}"
    r"\b(?:yours?(?! (?:message|done|reply|ping))|mine)\b"
    r"|\bboth (?:features|additions|changes|implementations)\b"
    r"|\((?:yours|your \w{1,20})\)|\b(?:implement(?:ed|ing)?|incorporate[sd]?|incorporating)\s"
    r"(?:\S{1,60}\s){0,8}?your\b|\badd(?:ed|ing)?\s(?:\S{1,60}\s){0,4}?your\s\S{1,40}\s"
    r"(?:type|feature|param\w*|support|spec)\b"
)
_YOURS = re.compile(r"\byou(?: now| fully| already)? own\b|\bowning (?:this|the|that|both)\b")
_UNTIL = re.compile(r"\b(?:until|before|till|yet|while)\b")


@dataclass(frozen=True)
class _Side:
    """One agent's patch, and the lines of it that say something."""

    agent: str
    patch: Patch

    @cached_property
    def added(self) -> dict[str, Line]:
        """The added lines by their text without white space, each at its first place."""
        return self._lines("+")

    @cached_property
    def shown(self) -> frozenset[str]:
        """All lines of the changed files that the patch shows, but the removed ones."""
        return frozenset(self.added) | frozenset(self._lines(" "))

    def _lines(self, sign: str) -> dict[str, Line]:
        found: dict[str, Line] = {}
        for file in self.patch.files:
            for hunk in file.hunks:
                for line in hunk.lines:
                    if line.sign == sign and _TELLING.search(line.text):
                        found.setdefault("".join(line.text.split()), line)
                if len(found) > _MOST_LINES:
                    return found
        return found

    def span(self, lines: Sequence[Line]) -> Span:
        """Return a passage of the patch that shows lines."""
        hunk = self.patch.files[0].hunks[0]
        return passage(f"patch:{self.agent}", self.patch.text, lines, hunk)


def facts(known: Known) -> Iterator[Fact]:
    """Yield what the patches say of the agents' words. Without patches there is nothing to say."""
    sides = {
        agent: _Side(agent, patch)
        for agent, patch in read_patches(known.trace).items()
        if any(file.hunks for file in patch.files)
    }
    if not sides or not known.messages:
        return
    meetings = known.of("hunks_overlap", "hunks_adjoin")
    if known.trace.outcome.merge != "conflicts":
        meetings = [one for one in meetings if not one.about["same"]]
    yield from _assurances(known, meetings)
    yield from _untouched(known, sides)
    yield from _names(known, sides)
    yield from _agreed_texts(known, sides)
    yield from _requests(known, sides)
    yield from _orders(known, meetings)
    yield from _carried(known, sides)
    yield from _partner_work(known)
    yield from _ownership(known, sides)


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


def _untouched(known: Known, sides: Mapping[str, _Side]) -> Iterator[Fact]:
    """Yield what was to be left alone, or is said to be, and was not: whole files by name."""
    for one in known.of("assurance"):
        agent = one.agents[0]
        if one.about["claim"] != "untouched" or one.about["hedged"] or agent not in sides:
            continue
        span = one.spans[0]
        text = known.trace.source(span.source)
        quote = text.text[span.start : span.end] if text else ""
        if _UNTIL.search(quote) or one.about["symbols"]:
            continue  # for a while, or a part of the file
        for name in one.about["files"]:
            changed = next(
                (x for x in sides[agent].patch.files if same_path(name, x.path) and x.hunks), None
            )
            if changed is None:
                continue
            future = one.about["tense"] == "future"
            kind = "promise_broken" if future else "untouched_refuted"
            what = "promises not to change" if future else "says that it did not change"
            says = (
                f"{_name(agent)} {what} {one_line(name, 200)} in message {one.about['message']}; "
                "its patch changes it."
            )
            hunk = changed.hunks[0]
            lines = [line for line in hunk.lines if line.sign != " "]
            shown = passage(f"patch:{agent}", sides[agent].patch.text, lines, hunk)
            details = {"message": one.about["message"], "path": changed.path}
            yield Fact(kind, says, (agent,), (span, shown), details)


def _names(known: Known, sides: Mapping[str, _Side]) -> Iterator[Fact]:
    """Yield the names that are said to be something now, and that the patch only removes."""
    for said, sentence in _sentences(known):
        side = sides.get(said.sender)
        if side is None or " now " not in sentence.low or sentence.asks is not None:
            continue
        for match in _NOW.finditer(sentence.text):
            word = re.compile(rf"(?<!\w){re.escape(match.group(1))}(?!\w)")
            lines = [line for f in side.patch.files for h in f.hunks for line in h.lines]
            naming = [line for line in lines[:_MOST_LINES] if word.search(line.text)]
            if naming and all(line.sign == "-" for line in naming):
                says = (
                    f"{_name(said.sender)} says in message {said.n} what {match.group(1)} is now; "
                    "its patch removes that name."
                )
                spans = (span_of(said, sentence, match.start()), side.span(naming))
                details = {"message": said.n, "name": match.group(1)}
                yield Fact("name_not_in_patch", says, (said.sender,), spans, details)


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
                if _TELLING.search(text):
                    lead = len(text) - len(text.lstrip())
                    lines.setdefault("".join(text.split()), (at + lead, at + len(text.rstrip())))
                at += len(text) + 1
            if len(lines) >= _FEWEST:
                found.append(_Block(said, lines))
    return found


def _agreed(known: Known) -> list[tuple[_Block, _Block]]:
    """Return the blocks that one agent sent and another sent back, the latest of each text."""
    found: list[tuple[_Block, _Block]] = []
    blocks = _blocks(known)
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


def _agreed_texts(known: Known, sides: Mapping[str, _Side]) -> Iterator[Fact]:
    """Yield the agreed blocks of which one patch adds lines that the other does not show.

    An import that only one of them uses does not count.
    """
    for earlier, later in _agreed(known):
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


def _requests(known: Known, sides: Mapping[str, _Side]) -> Iterator[Fact]:
    """Yield the lines of code that an agent asks its partner to write, and that it did not write.

    Only what the asking agent's own patch writes counts: it shows that the line was meant so.
    """
    for said, sentence in _sentences(known):
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


def _carried(known: Known, sides: Mapping[str, _Side]) -> Iterator[Fact]:
    """Yield which patch holds most of what another adds, apart from code shown in messages."""
    written = {text for block in _blocks(known) for text in block.lines}
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


def _partner_work(known: Known) -> Iterator[Fact]:
    """Yield where an agent says that it does, or did, both parts or its partner's.

    What a draft or a proposal says is done is what it shows, and still to be written.
    """
    planning = {said.n for said in known.messages if type_of_said(said) == "plan"}
    for one in known.of("commitment", "completion_claim"):
        if one.about["form"] == "tests" or one.about["hedged"]:
            continue
        span = one.spans[0]
        source = known.trace.source(span.source)
        text = source.text[span.start : span.end].lower() if source else ""
        if _BOTH.search(text):
            done = one.kind == "completion_claim" and one.about["message"] not in planning
            what = "did" if done else "will do"
            says = (
                f"{_name(one.agents[0])} says in message {one.about['message']} that it {what} its "
                "partner's part as well."
            )
            details = {key: one.about[key] for key in ("message", "files", "symbols")}
            details["done"] = done
            yield Fact("partner_work", says, one.agents, (span,), details)


def _ownership(known: Known, sides: Mapping[str, _Side]) -> Iterator[Fact]:
    """Yield two agents that each tell the other to own a file, where both patches change one."""
    told: dict[str, tuple[Said, Sentence]] = {}
    for said, sentence in _sentences(known):
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


def _sentences(known: Known) -> Iterator[tuple[Said, Sentence]]:
    for said in known.messages:
        for sentence in said.sentences:
            if points_at(sentence.text):
                yield said, sentence


def _name(agent: str) -> str:
    return one_line(agent, 64)
