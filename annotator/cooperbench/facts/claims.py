"""Facts of claims: work reported as done, a partner's part taken over, work taken back."""

import re
from collections.abc import Iterator, Mapping

from annotator.cooperbench.facts.model import Fact
from annotator.cooperbench.facts.prose import Sentence, split_words
from annotator.cooperbench.facts.trace_facts import TraceFacts

KINDS: Mapping[str, str] = {
    "completion_claim": "an agent says that its work is done or in place",
    "partner_work": "an agent says that it does or did its partner's part as well",
    "retraction": "an agent says that it takes back work that it had done or promised",
}

_PAST = (
    r"(?:added|created|implemented|introduced|appended|inserted|defined|registered|wrote|written"
    r"|removed|deleted|renamed|moved|changed|modified|updated|edited|extended|refactored|replaced"
    r"|wrapped|fixed|converted|rewrote|rewritten|pushed|committed|landed|finished|completed?|done"
    r"|integrated|wired|placed|in place|included|incorporated|merged)\b"
)
_PAST_WORDS = frozenset(re.findall(r"[a-z]{4,}", _PAST)) | {"complete", "place"}
_DONE = re.compile(
    r"(?:^(?:\W*\w+(?:\shere)?[:,–—-]+\s)?|[;:]\s?|\s[–—-]{1,2}\s|\band\s|\bi\s|\bi['’]ve\s"
    r"|\bhave\s(?:been\s)?|\bhas\s(?:been\s)?|\b(?:is|are|was|were)\s(?:now\s)?)"
    rf"(?:(?:also|just|already|now|only|fully|all|both|successfully)\s){{0,2}}{_PAST}"
)
_NOT_YET = re.compile(
    r"\b(?:will|would|once|when|whenever|if|after|until|before|please|not|cannot|can|should|must"
    r"|never|think|probably|being|be|to|you(?:['’]ve)?|your|needs?|has to|want|nothing|no|might|may"
    r"|plan)\b|n['’]t\b|['’]ll\b"
)
_WILL = re.compile(r"\b(?:i|we)(?:['’]ll|\swill|['’]m\sgoing\sto|\sam\sgoing\sto|\sown|\stake)\b")

_ASSIGNMENT = (
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
    rf"|\((?:yours|your {_ASSIGNMENT})\)|\b{_DOES}\s"
    r"(?:(?!against|rather|instead|without|using|on|for|around|from|with|to|after|tests?)"
    rf"\S{{1,60}}\s){{0,8}}?your (?:\S{{1,40}} ){{0,3}}{_ASSIGNMENT}\b"
    rf"|\b{_DOES}\s(?:\S{{1,60}}\s){{0,6}}?for (?:both|the two) of us\b"
    r"|\byours (?:included|too|as well)\b|\byour half\b"
    r"|\b(?:assigned to|claimed by) you\b|\byour assignment\b"
)
_TWO = split_words("both your yours mine you")
_DOUBT = re.compile(
    r"\b(?:should|might|may|probably|could|would|if|unless|maybe|perhaps|i think|either"
    r"|propos\w+|suggest\w*|let me know|want me)\b"
)

_TAKES_BACK = re.compile(
    r"\b(?:i(?:['’]ve|['’]m|['’]ll| have| am| will)?|and|have|,|:|^)\s?(?:also |then |now |just )?"
    r"(?:revert(?:ed|ing)?|remov(?:ed|ing)|dropp(?:ed|ing)|undid|undone|backed out|stripped"
    r"|withdr(?:ew|awn|awing)|took|taken|cut|deleted|gave up)\b"
    r"|\bno longer (?:in my|contains?|includes?|part of my|carries)\b|\bscratch what i\b"
)
_TAKING_BACK = split_words(
    "revert reverted reverting removed removing dropped dropping undid undone backed stripped"
    " withdrawing withdrew withdrawn took taken cut deleted gave longer scratch"
)
_OWN_WORK = re.compile(
    r"\b(?:from|in|out of) (?:my|our) (?:\w{1,20} ){0,2}(?:copy|patch|\w{1,40}\.\w{1,5}|version"
    r"|diff)\b|\bi(?:['’]d| had| have)? (?:announced|promised|reported|listed|added|told you)\b"
    r"|\bfor you\b|\bmy (?:edits|changes) to\b|\bno longer in my\b|\bwas yours\b|\bon your behalf\b"
    r"|\byour (?:\w{1,20} ){0,3}(?:code|changes?|feature|part|additions?)\b"
)
_PLANNING = split_words("plan propose proposal draft intent survey claim")


def draw_claims(facts: TraceFacts) -> Iterator[Fact]:
    """Yield the claims, sentence by sentence. A draft or proposal reports nothing as done."""
    for message, sentence in facts.sentences():
        if sentence.text.endswith("?") or sentence.asks is not None:
            continue
        is_draft = message.kind in _PLANNING
        done = not is_draft and says_done(sentence)
        if done:
            yield facts.state("completion_claim", message, sentence, " that its work is done")
        if says_both(sentence) and (done or is_draft or _WILL.search(sentence.low)):
            what = f" that it {'did' if done else 'does'} its partner's part too"
            yield facts.state("partner_work", message, sentence, what, done=done)
        if takes_back(sentence):
            yield facts.state("retraction", message, sentence, " that it takes work back")


def says_done(sentence: Sentence) -> bool:
    """Whether a sentence reports the sender's work as done, and does not take it back."""
    if _PAST_WORDS.isdisjoint(sentence.vocabulary):
        return False
    back = takes_back(sentence)
    for match in _DONE.finditer(sentence.low):
        if back and match.group().endswith(("removed", "deleted")):
            continue
        if not _NOT_YET.search(sentence.low, max(0, match.start() - 60), match.end() - 1):
            return True
    return False


def says_both(sentence: Sentence) -> bool:
    """Whether a sentence says, with no doubt, that the sender does the partner's part too."""
    match = None if _TWO.isdisjoint(sentence.vocabulary) else _BOTH.search(sentence.low)
    return match is not None and _DOUBT.search(sentence.low) is None


def takes_back(sentence: Sentence) -> bool:
    """Whether a sentence takes back work that its sender had done or promised, with no doubt."""
    if _TAKING_BACK.isdisjoint(sentence.vocabulary) or not _OWN_WORK.search(sentence.low):
        return False
    match = _TAKES_BACK.search(sentence.low)
    return match is not None and not _DOUBT.search(sentence.low, 0, match.start())
