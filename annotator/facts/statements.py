"""What agents say of their work: commitments, completion claims and what they take back.

A statement is found by English phrases in one sentence. Questions, requests to the partner and
purposes ("so that we don't conflict") state nothing. Whether it is true is not looked at here.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from annotator.facts.actions import action_of
from annotator.facts.agreements import WORDS as AGREEING
from annotator.facts.agreements import orders, placements
from annotator.facts.assurances import CLASHING, assurances, clashes
from annotator.facts.assurances import WORDS as ASSURING
from annotator.facts.phrases import Kind, Statement, clause_end, clause_start, hedge_in
from annotator.facts.prose import Said, Sentence, points_at

MOST_STATEMENTS = 100
"""Statements of one message that are looked at."""

# A sentence is searched for a kind of statement only if one of these words is in it.
_WORDS = {
    claim: frozenset(words.split())
    for claim, words in {
        "will": "will ll going plan intend own take handle keep",
        "pass": "pass passes passed passing green",
        "back": "revert reverted reverting removed removing dropped dropping undid undone backed"
        " back stripped withdrawing withdrew withdrawn took taken cut deleted restored gave longer"
        " scratch",
    }.items()
}
# A second verb under the same "I will" or "I have": "add a() and update b()".
_AND_VERB = re.compile(r"(?:,|\+|\band\b|\bthen\b|&)\s+(?:and\s|then\s|also\s)?([A-Za-z]+)\b(?!-)")
_WILL = re.compile(
    r"(?:\b(?:i|we)(?:['’]ll|\swill|['’]m\sgoing\sto|\sam\sgoing\sto|\splan\sto|\sintend\sto)"
    r"|(?:^|[.:,;]\s|\band\s)will|^going\sto)\s"
    r"(?:(?:also|only|just|then|now|simply|instead|still|both|first|go ahead and)\s){0,3}"
    r"([A-Za-z]+)\b(?!['’])",
)
# "Adding x to a.py" in a message that says what its sender is about to do.
_DOING = re.compile(
    r"^(?:\W*\w+(?: here)?[:,–—-]+\s)?(?:i(?: am|['’]m)\s)?(?:currently\s|now\s|also\s)?"
    r"([a-z]+ing)\b",
)
_OWN = re.compile(
    r"\b(?:i|i['’]ll)\s(?:also\s|will\s)?(own|take|handle|keep)\b(?!\s(?:it|that|this|an eye)\b)",
)
# The form of that second verb; many a base form and every "-s" may be a noun ("and tests").
_BASE = re.compile(r"(?!(?:patch|test|support|report|signal|check|run|handle|export)\Z)[a-z]*[^s]")
_FORMS = {
    "will": _BASE,
    "own": _BASE,
    "doing": re.compile(r"[a-z]+ing"),
    "done": re.compile(r"[a-z]+ed|wrote|rewrote"),
}
_PLANNING = frozenset(["intent", "survey", "claim"])  # types of message that say what comes
_BUILDING = frozenset(["add", "change", "remove", "rename", "move"])
_PAST = (
    r"(added|created|implemented|introduced|appended|inserted|prepended|defined|registered|wrote"
    r"|written|removed|deleted|dropped|renamed|moved|changed|modified|updated|edited|extended"
    r"|refactored|replaced|wrapped|fixed|converted|rewrote|rewritten|pushed|merged|committed"
    r"|rebased|landed|finished|completed?|done|resolved|integrated|applied|exported|wired|placed"
    r"|verified|tested|in place)\b"
)
_PAST_WORDS = frozenset(re.findall(r"[a-z]{4,}", _PAST)) | {"complete", "place"}
_DONE = re.compile(
    r"(?:^(?:\W*\w+(?:\shere)?[:,–—-]+\s)?|[,;:(]\s?|\s[–—-]{1,2}\s|\band\s|\bi\s"
    r"|\bi['’]ve\s|\bhave\s(?:been\s)?|\bhas\s(?:been\s)?|\b(?:is|are|was|were)\s(?:now\s)?)"
    rf"(?:(?:also|just|already|now|only|fully|all|both|successfully)\s){{0,2}}{_PAST}",
)
_PASSING = re.compile(
    r"\b(?:tests?|suite)\b[^.;]{0,60}\bpass(?:ed|es|ing)?\b|\b[0-9]{1,6}(?:/[0-9]{1,6})? passed\b"
    r"|\ball (?:green|passing)\b|\btests? (?:is|are) (?:all )?green\b|\bpassing all\b",
)
_NOT_YET = re.compile(
    r"\b(?:will|would|once|when|whenever|if|after|until|before|please|not|cannot|can|should|must"
    r"|never|gets?|being|be|to|than|you(?:['’]ve)?|your|as|needs?|has to|want|haven['’]t"
    r"|didn['’]t|nothing|no)\b|n['’]t\b|['’]ll\b",
)
_BACK = re.compile(
    r"\b(?:i(?:['’]ve|['’]m|['’]ll| have| am| will)?|and|have|,|:|^)\s?(?:also |then |now |just )?"
    r"(revert(?:ed|ing)?|remov(?:ed|ing)|dropp(?:ed|ing)|undid|undone|backed out|back out|stripped"
    r"|withdr(?:ew|awn|awing)|took|taken|cut|deleted|restored|gave up)\b"
    r"|\b(no longer) (?:in my|contains?|includes?|part of my|carries)\b|\b(scratch) what i\b",
)
_OWN_WORK = re.compile(
    r"\b(?:from|in|out of) (?:my|our) (?:\w{1,20} ){0,2}(?:copy|patch|\w{1,40}\.\w{1,5}|version"
    r"|diff|three|two)\b|\bi(?:['’]d| had| have)? (?:announced|promised|reported|listed|told you)\b"
    r"|\bfor you\b|\bmy (?:edits|changes) to\b|\bmy patch(?:\.txt)? no longer\b"
    r"|\bno longer in my\b|\bwas yours\b|\bundone yours\b|\bi(?:['’]d| had)? added\b"
    r"|\bon your behalf\b"
    r"|\byour (?:\w{1,20} ){0,3}(?:code|changes?|feature|part|additions?)\b"
    r"|\brevert\w{0,3}\b[^.;]{0,80}\bfrom\b",
)


def statements(said: Said, finders: Sequence["Finder"]) -> Iterator[Statement]:
    """Yield what some finders find in a message, sentence by sentence, at most ``MOST_STATEMENTS``.

    Each looks only at sentences that have one of its words, or at all of a message that plans.
    """
    found = 0
    planning = said.position == 0 or said.kind in _PLANNING
    for sentence in said.sentences:
        words = sentence.words
        for finder in finders:
            if finder.words.isdisjoint(words) and not (planning and finder.plans):
                continue
            if sentence.text.endswith("?") or not points_at(sentence.text):
                break
            if finder.told and sentence.asks is not None:
                continue
            for statement in finder.find(said, sentence):
                yield statement
                found += 1
                if found == MOST_STATEMENTS:
                    return


def _commitments(said: Said, sentence: Sentence) -> Iterator[Statement]:
    """Yield what the sender says it will do, one for each verb.

    "Adding x" is one in an agent's first message or a plan by its own type; else a report.
    """
    text = sentence.low
    matches = []
    if not _WORDS["will"].isdisjoint(sentence.words):
        matches += [(match, "will") for match in _WILL.finditer(text)]
        said_so = [match.start() for match, _ in matches]
        owned = [match for match in _OWN.finditer(text) if match.start() not in said_so]
        matches += [(match, "own") for match in owned]
    if not matches and (said.position == 0 or said.kind in _PLANNING):
        doing = _DOING.match(text)
        if doing and action_of(doing.group(1)) in _BUILDING:
            matches.append((doing, "doing"))
    for match, form in matches:
        begin = clause_start(text, match.start())
        word = hedge_in(sentence, begin, match.end())
        word = word or next((one for one in ("if", "unless") if one in sentence.words), None)
        yield from _verbs("commitment", sentence, match, word, {"form": form})


def _completions(said: Said, sentence: Sentence) -> Iterator[Statement]:
    """Yield what the sender says is done or in place, and what it says of passing tests."""
    text = sentence.low
    last = -1
    spoken_of = not _PAST_WORDS.isdisjoint(sentence.words)
    for match in _DONE.finditer(text) if spoken_of else ():
        begin = clause_start(text, match.start(1))
        if match.start(1) < last or _NOT_YET.search(text, begin, match.start(1)):
            continue
        word = hedge_in(sentence, begin, match.start(1))
        for one in _verbs("completion_claim", sentence, match, word, {"form": "done"}):
            yield one
            last = one.end
    passing = not _WORDS["pass"].isdisjoint(sentence.words)
    for match in _PASSING.finditer(text) if passing else ():
        begin = clause_start(text, match.start())
        if not _NOT_YET.search(text, begin, match.end()):
            details = {"form": "tests", "action": "test", "verb": "pass"}
            word = hedge_in(sentence, begin, match.end())
            yield Statement("completion_claim", sentence, match.start(), match.end(), word, details)
            break


def _verbs(
    kind: Kind, sentence: Sentence, match: re.Match[str], hedge: str | None, details: dict[str, Any]
) -> Iterator[Statement]:
    """Yield a statement for the verb found and each that follows it by "and" or a comma."""
    text = sentence.low
    verb, start, at = match.group(1), match.start(1), match.end(1)
    if verb.lower() in ("not", "never", "be", "have", "need") or text.startswith(" an eye", at):
        return
    stop = clause_end(text, at)
    for more in _AND_VERB.finditer(text, at, stop):
        if not _FORMS[details["form"]].fullmatch(more.group(1)) or (
            action_of(more.group(1)) == "other"
        ):
            continue
        yield Statement(kind, sentence, start, more.start(), hedge, _acting(details, verb))
        verb, start, at = more.group(1), more.start(1), more.end(1)
    yield Statement(kind, sentence, start, max(stop, at), hedge, _acting(details, verb))


def _acting(details: dict[str, Any], verb: str) -> dict[str, Any]:
    return details | {"action": action_of(verb), "verb": verb.lower()}


def _retractions(said: Said, sentence: Sentence) -> Iterator[Statement]:
    """Yield that the sender takes back work that it had done or promised."""
    text = sentence.low
    if _WORDS["back"].isdisjoint(sentence.words):
        return
    match = _BACK.search(text)
    if match and _OWN_WORK.search(text):
        hedge = hedge_in(sentence, 0, match.start())
        yield Statement("retraction", sentence, match.start(), clause_end(text, match.end()), hedge)


class Finder(NamedTuple):
    """How one kind of statement is found: a word that a sentence must have, whether a plan needs
    none, and whether a request states none.
    """

    find: Callable[[Said, Sentence], Iterator[Statement]]
    words: frozenset[str]
    plans: bool = False
    told: bool = True


PROMISES = (
    Finder(_commitments, _WORDS["will"], plans=True, told=False),
    Finder(_completions, _PAST_WORDS | _WORDS["pass"], told=False),
)
RETRACTIONS = (Finder(_retractions, _WORDS["back"], told=False),)
ASSURANCES = (
    Finder(assurances, frozenset().union(*ASSURING.values())),
    Finder(clashes, CLASHING),
)
AGREEMENTS = (Finder(placements, AGREEING["place"]), Finder(orders, AGREEING["order"]))
