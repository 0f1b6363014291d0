"""What kind of message it is: a plan, a question, an update, or something else."""

import re
from collections.abc import Mapping
from typing import Literal

from annotator.facts.prose import Said, read
from annotator.traces import Message

Type = Literal["plan", "question", "update", "other"]

OWN_TYPES: Mapping[Type, tuple[str, ...]] = {
    "plan": ("plan", "propose", "proposal", "claim", "intent", "survey", "revise", "draft"),
    "question": ("question", "ask", "query", "request", "clarify"),
    "update": ("status", "done", "update", "progress", "complete", "completed", "report"),
    "other": ("accept", "agree", "ack", "acknowledge", "confirm", "final", "reject", "echo"),
}
_KINDS = {name: type_ for type_, names in OWN_TYPES.items() for name in names}

_PLAN = re.compile(
    r"\b(?:i|we)(?:'ll|’ll| will| shall| plan to| intend to| propose| suggest| want to| need to)\b"
    r"|\b(?:i|we)(?: a|['’])(?:m|re) (?:also |now |just )?"
    r"(?:going to|planning|implementing|adding|working|about to|taking|starting|touching|editing)\b"
    r"|^(?:\W*\w+(?: here)?[:,]\s)?(?:also )?will\b|\bproposal\b|\bmy plan\b|^\W*plan\b"
    r"|\blet['’]?s\b"
    r"|\bplease (?:append|add|put|place|keep|avoid|insert|leave|take|merge|don['’]t)\b"
    r"|\byou (?:take|own|handle|keep|do|go)\b|\bi (?:take|own|handle|keep|go)\b",
)
# Work under way: a plan in the first message of an agent, a report later on.
_UNDER_WAY = re.compile(
    r"^(?:\W*\w+(?: here)?[:,–—-]+\s)?(?:(?:i am|i['’]m|currently|now) )*"
    r"(?:implementing|adding|working|touching|editing|creating|starting|extending|changing"
    r"|modifying|updating|refactoring|introducing|taking|building|writing|planning)\b",
)
_UPDATE = re.compile(
    r"\b(?:done|finished|completed?|implemented|added|pushed|merged|committed|landed|updated"
    r"|renamed|removed|fixed|applied|changed|wrote|written|submitted|resolved|verified"
    r"|in place)\b|\btests? (?:now )?pass|\bpassed\b|\b(?:did(?:n['’]t| not)|haven['’]t)\b",
)


def type_of(message: Message, position: int) -> Type:
    """Return the type of a message.

    ``position`` is how many messages its sender has sent before it: 0 for its first turn. The
    rules, in order:

    1. A type that the message gives itself (its kind, or a ``type: X`` line) decides where it is a
       usual one: proposals, claims, intents, surveys, revisions and drafts are plans; status and
       done are updates; acceptances and acknowledgements are other.
    2. Else its sentences are counted. A question is a question or a request for information or a
       decision (see ``asking``); a plan says what the sender or the partner will or should do;
       an update says what was done. A sentence is the first of these that it fits.
    3. In an agent's first turn, a sentence of plan makes it a plan, whatever else it says, and work
       under way ("implementing the parser in a.py") is a plan. Later, work under way is an update.
    4. Else a message that asks anything is a question, for that is what its partner has to react
       to; of plan and update the more frequent decides, and of equals it is a plan.
    5. No such sentence: other.
    """
    return type_of_said(read(message, position))


def type_of_said(said: Said) -> Type:
    """Return the type of a message that has been read already: as :func:`type_of`."""
    first_turn = said.position == 0
    if said.kind in _KINDS:
        return _KINDS[said.kind]
    counts: dict[Type, int] = {"question": 0, "plan": 0, "update": 0}
    for sentence in said.sentences:
        under_way = _UNDER_WAY.search(sentence.low)
        if sentence.asks is not None:
            counts["question"] += 1
        elif _PLAN.search(sentence.low) or (first_turn and under_way):
            counts["plan"] += 1
        elif under_way or _UPDATE.search(sentence.low):
            counts["update"] += 1
    if first_turn and counts["plan"]:
        return "plan"
    if counts["question"]:
        return "question"
    if counts["plan"] or counts["update"]:
        return "plan" if counts["plan"] >= counts["update"] else "update"
    return "other"
