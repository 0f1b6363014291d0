"""Who says that it does its partner's part of the work as well."""

import re
from collections.abc import Iterator, Mapping

from annotator.facts.known import Known
from annotator.facts.messages import type_of_said
from annotator.facts.model import Fact, name_of

KINDS: Mapping[str, str] = {
    "partner_work": "an agent says that it does or did its partner's part as well",
}

# "implement both (mine) and (yours)", "add x and your y type", "implement your x feature too"
_PART = (
    r"(?:feature|part|half|task|issue|ticket|brief|assignment|side|spec|job|type|param\w*|support)"
)
_DOES = (
    r"(?:implement(?:ed|ing)?|incorporate[sd]?|incorporating|take over|taken over|finish(?:ed|ing)?"
    r"|wrote|writing|handled?|duplicated|added|adding|(?:will|ll) add|did)"
)
_BOTH = re.compile(
    r"(?<!in )(?<!to )(?<!of )(?<!on )(?<!for )\bboth\b(?! (?:files?|sides?|signatures?|functions?"
    r"|methods?|calls?|places?|branches|agents|patches|of|the)\b)[^.;]{0,80}"
    r"\b(?:yours?(?! (?:message|done|reply|ping))|mine)\b"
    r"|\b(?:implement\w*|add(?:ed|ing)?|merge[sd]?|include[sd]?|contains?|do|did|with) both"
    r" (?:features|additions|changes|implementations)\b(?! of)"
    rf"|\((?:yours|your {_PART})\)|\b{_DOES}\s"
    r"(?:(?!against|rather|instead|without|using|on|for|around|from|with|to|after|tests?)"
    rf"\S{{1,60}}\s){{0,8}}?your (?:\S{{1,40}} ){{0,3}}{_PART}\b"
    r"|\bimplement(?:ed|ing)?\s(?:\S{1,60}\s){0,3}?your (?:`|[a-z_]+(?:_[a-z]+|\(\)))"
    rf"|\b{_DOES}\s(?:\S{{1,60}}\s){{0,6}}?for (?:both|the two) of us\b"
    r"|\byours (?:included|too|as well)\b|\byour half\b"
    r"|\b(?:assigned to|claimed by) you\b|\byour assignment\b"
)
_WORDS = frozenset(["both", "your", "yours", "mine", "you"])  # one of which it has


def facts(known: Known) -> Iterator[Fact]:
    """Yield where an agent says that it does, or did, both parts or its partner's.

    What a draft or a proposal says is done is what it shows, and still to be written.
    """
    by_number = {
        said.n: said
        for said in known.messages
        if any(_BOTH.search(x.low) for x in said.sentences if not _WORDS.isdisjoint(x.words))
    }
    if not by_number:
        return
    for one in known.of("commitment", "completion_claim"):
        if one.about["message"] not in by_number:
            continue
        if one.about["form"] == "tests" or one.about["hedged"]:
            continue
        span = one.spans[0]
        if _BOTH.search(known.text(span).lower()):
            said = by_number[one.about["message"]]
            done = one.kind == "completion_claim" and type_of_said(said) != "plan"
            what = "did" if done else "will do"
            says = (
                f"{name_of(one.agents[0])} says in message {one.about['message']} that it {what} "
                "its partner's part as well."
            )
            details = {key: one.about[key] for key in ("message", "files", "symbols")}
            details["done"] = done
            yield Fact("partner_work", says, one.agents, (span,), details)
