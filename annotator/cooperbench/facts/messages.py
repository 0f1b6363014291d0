"""Types of messages: how many sentences plan, ask, report, or do something else."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Literal

from annotator.cooperbench.facts.prose import Sentence, parse_message, wants_answer
from annotator.traces import Message

Type = Literal["plan", "question", "update", "other"]
TYPES: tuple[Type, ...] = ("plan", "question", "update", "other")
_FIRST: tuple[Type, ...] = ("question", "plan", "update", "other")  # of equally frequent ones

OWN_TYPES: Mapping[Type, tuple[str, ...]] = {
    "plan": ("plan", "propose", "proposal", "claim", "intent", "survey", "revise", "draft"),
    "question": ("question", "ask", "query", "request", "clarify"),
    "update": ("status", "done", "update", "progress", "complete", "completed", "report"),
    "other": ("accept", "agree", "ack", "acknowledge", "confirm", "final", "reject", "echo"),
}
_KINDS = {name: type_ for type_, names in OWN_TYPES.items() for name in names}

_MORE = r"(?:(?:and|so|also|now|then|i am|i['’]m) )*"
_AFTER_DASH = rf"^(?:[^?!,]{{0,80}}?(?::|\s[-–—])\s+|\(?\w{{1,3}}\)\s)?{_MORE}"
_AFTER_COMMA = rf"^(?:[^?!]{{0,80}}?[:,;–—]\s+|\(?\w{{1,3}}\)\s)?{_MORE}"
_VERBS = (
    "add|adopt|append|apply|avoid|base|build|call|change|create|define|do not|don['’]t|edit|ensure"
    "|export|extend|fix|handle|implement|import|include|insert|introduce|keep|layer|leave|make"
    "|merge|modify|move|never|pass|place|put|refactor|remove|rename|replace|return|rewrite|set|skip"
    "|store|support|take|thread|touch|update|use|wire|wrap|write"
)
# Words in "ing" that begin no work.
_NO_WORK = (
    "(?:acknowledg|accord|any|assum|be|clarify|confirm|dur|every|exclud|exist|fail|follow|hav|includ"
    "|look|miss|no|not|pass|regard|remain|resend|resolv|some|str|th|work)(?:h|t)?ing"
)
# Whoever is meant: what the sender or its partner will or should do, and work under way.
_PLAN = re.compile(
    r"\b(?:i|we|you|both)(?:'ll|’ll| will| won['’]t| shall| should| can| plan to| intend to"
    r"| propose| suggest| want to| need to| must)\b"
    r"|\b(?:i|we|you) (?:(?:both|only|also|just|each) )*"
    rf"(?:own|go first|do|stick|finish|hold|wait|{_VERBS})\b"
    r"|\b(?:i|we)(?: a|['’])(?:m|re) (?:(?:also|now|just|currently|only) )*"
    r"(?!asking|seeing|missing|guessing|assuming)[a-z]{2,}ing\b"
    rf"|{_AFTER_COMMA}(?:will|won['’]t|not touching|need(?: to)?|plan(?: to|:)|propos(?:e|al|ing)"
    rf"|suggest(?:ion)?|touches|only appending|(?:{_VERBS})(?= ))\b"
    rf"|{_AFTER_DASH}(?!{_NO_WORK}\b)(?:re-)?[a-z]{{2,}}ing (?!as expected|is\b|are\b|was\b)"
    r"|\b(?:my|actual|new) feature\b|\blet['’]?s\b|\bmy plan\b|\bproposal\b|\bplease\b"
    r"|\bgo ahead\b|\byour turn\b|\bfeel free to\b|\bwill (?:be |not |also |then )?[a-z]+\b"
    r"|\b(?:safe|clear|free) (?:for you )?to\b|\bping me (?:when|once)\b"
)
_UPDATE = re.compile(
    r"\b(?:(?<!my )(?<!your )(?<!send )done|finished|completed?|implemented|added|pushed|merged"
    r"|committed|landed|updated|renamed|removed|fixed|applied|changed|wrote|written|submitted"
    r"|resolved|verified|reviewed|pulled|touched|reverted|switched|refactored|adjusted|folded"
    r"|included|generated|rebuilt|ran|re-?checked|checked|tested|found|kept|confirmed and|already"
    r"|in place)\b"
    r"|\b(?:tests?|suite|checks?)\b.{0,40}\b(?:pass(?:es|ed|ing)?|green|clean|fails?|failed)\b"
    r"|\b\d+ passed\b|\b(?:did(?:n['’]t| not)|ha(?:ve|s)(?:n['’]t| not))\b|\bshows?\b|\bnow uses?\b"
)


def count_types(message: Message) -> Counter[Type]:
    """Return the number of sentences of each type, without types that do not occur.

    Only prose counts: no code, no quotation, no list of files. A message without prose is one
    "other". Each sentence has one type; of plan and update, the one that comes first.

    - question: asks for any answer (see ``wants_answer``)
    - plan: says what an agent will or should do, or does now
    - update: says what was done or found
    - other: an acceptance, an explanation, thanks
    """
    types = Counter(_classify(sentence) for sentence in parse_message(message).sentences)
    return types or Counter({"other": 1})


def choose_main_type(types: Counter[Type], declared: str = "") -> Type:
    """Return the most frequent type of a message, of a tie the declared one, else ``_FIRST``."""
    maximum = max(types.values())
    best = [type_ for type_ in _FIRST if types[type_] == maximum]
    by_name = _KINDS.get(declared)
    return by_name if by_name in best else best[0]


def _classify(sentence: Sentence) -> Type:
    if sentence.asks is not None or wants_answer(sentence.low):
        return "question"
    plan, update = _PLAN.search(sentence.low), _UPDATE.search(sentence.low)
    if plan and update:
        return "plan" if plan.start() <= update.start() else "update"
    return "plan" if plan else "update" if update else "other"
