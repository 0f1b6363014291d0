"""What agents say of their own work, held against the patch that each handed in."""

import re
from collections.abc import Iterator, Mapping

from annotator.facts.diff import same_path
from annotator.facts.known import Known
from annotator.facts.messages import type_of_said
from annotator.facts.model import Fact
from annotator.facts.patches import passage
from annotator.facts.prose import span_of
from annotator.facts.sides import MOST_LINES, Side, sentences, sides_of
from annotator.text import one_line

KINDS: Mapping[str, str] = {
    "untouched_refuted": "an agent says that it left a file alone, and its patch changes it",
    "promise_broken": "an agent promises to leave a file alone, and its patch changes it",
    "name_not_in_patch": "an agent says that a name is in place, and its patch only removes it",
    "partner_work": "an agent says that it does or did its partner's part as well",
}

_NOW = re.compile(
    r"(?<![\w.])([A-Za-z_][A-Za-z0-9_]{2,99})(?:\(\))? (?:is )?now (?:=|is\b|equals?|uses?|returns?"
    r"|defaults?|reads?)"
)
# "implement both (mine) and (yours)", "add x and your y type", "implement your x feature too"
_BOTH = re.compile(
    r"(?<!in )(?<!to )(?<!of )(?<!on )\bboth\b(?! (?:files?|sides?|signatures?|functions?|methods?"
    r"|calls?|places?|branches|agents|patches|of|the)\b)[^.;]{0,80}"
    r"\b(?:yours?(?! (?:message|done|reply|ping))|mine)\b"
    r"|\bboth (?:features|additions|changes|implementations)\b"
    r"|\((?:yours|your \w{1,20})\)|\b(?:implement(?:ed|ing)?|incorporate[sd]?|incorporating)\s"
    r"(?:(?!against|rather|instead|without|using|on|for|around|from|with)\S{1,60}\s){0,8}?your\b"
    r"|\badd(?:ed|ing)?\s(?:\S{1,60}\s){0,4}?your\s\S{1,40}\s"
    r"(?:type|feature|param\w*|support|spec)\b|\byours (?:included|too|as well)\b|\byour half\b"
    r"|\bfor (?:the two|both) of us\b|\b(?:done|did|do|take over|taken over|finish(?:ed|ing)?|wrote"
    r"|writing|covers?|handled?|duplicated|code)\s(?:\S{1,40}\s){0,6}?(?:(?:of|from|in) )?your "
    r"(?:\S{1,40} ){0,2}(?:feature|part|half|task|issue|ticket|brief|assignment|side|spec|job)\b"
    r"|\b(?:assigned to|claimed by) you\b|\byour assignment\b"
)
_UNTIL = re.compile(r"\b(?:until|before|till|yet|while)\b")


def facts(known: Known) -> Iterator[Fact]:
    """Yield what each agent's patch says of its words, and who says that it did another's part."""
    if not known.messages:
        return
    sides = sides_of(known)
    yield from _untouched(known, sides)
    yield from _names(known, sides)
    yield from _partner_work(known)


def _untouched(known: Known, sides: Mapping[str, Side]) -> Iterator[Fact]:
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


def _names(known: Known, sides: Mapping[str, Side]) -> Iterator[Fact]:
    """Yield the names that are said to be something now, and that the patch only removes."""
    for said, sentence in sentences(known):
        side = sides.get(said.sender)
        if side is None or " now " not in sentence.low or sentence.asks is not None:
            continue
        for match in _NOW.finditer(sentence.text):
            word = re.compile(rf"(?<!\w){re.escape(match.group(1))}(?!\w)")
            lines = [line for f in side.patch.files for h in f.hunks for line in h.lines]
            naming = [line for line in lines[:MOST_LINES] if word.search(line.text)]
            if naming and all(line.sign == "-" for line in naming):
                says = (
                    f"{_name(said.sender)} says in message {said.n} what {match.group(1)} is now; "
                    "its patch removes that name."
                )
                spans = (span_of(said, sentence, match.start()), side.span(naming))
                details = {"message": said.n, "name": match.group(1)}
                yield Fact("name_not_in_patch", says, (said.sender,), spans, details)


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


def _name(agent: str) -> str:
    return one_line(agent, 64)
