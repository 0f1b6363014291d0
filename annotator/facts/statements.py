"""What agents say of their work: commitments, completion claims, assurances, places and orders.

A statement is found by English phrases in one sentence. Questions, requests to the partner and
purposes ("so that we don't conflict") state nothing. Whether it is true is not looked at here.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from annotator.facts.actions import action_of
from annotator.facts.prose import Said, Sentence, points_at

Kind = Literal[
    "commitment",
    "completion_claim",
    "retraction",
    "assurance",
    "clash_stated",
    "placement_agreement",
    "order_agreement",
]

MOST_STATEMENTS = 100
"""Statements of one message that are looked at."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement in a sentence. ``start`` to before ``end`` of it are what it speaks of.

    ``hedge`` is the word that makes it a forecast or a condition, or None.
    """

    kind: Kind
    sentence: Sentence
    start: int
    end: int
    hedge: str | None = None
    details: dict[str, Any] = field(default_factory=dict)


_HEDGE = re.compile(
    r"\b(should|might|may|probably|likely|i think|i don['’]t think|hopefully|expect(?:ed)?"
    r"|presumably|ideally|perhaps|maybe|seems?|afaik|as far as i|unless|if|assuming|provided"
    r"|let me know|tell me|could|would|in theory|looks? like|appears?|try(?:ing)?|aim|almost"
    r"|as long as)\b",
)
# A sentence is searched for a kind of statement only if one of these words is in it.
_WORDS = {
    claim: frozenset(words.split())
    for claim, words in {
        "will": "will ll going plan intend own take handle keep",
        "pass": "pass passes passed passing green",
        "untouched": "touch touching touched modify modified modifying change changed changing edit"
        " edited editing alter altered altering",
        "only": "only",
        "back": "revert reverted reverting removed removing dropped dropping undid backed stripped",
        "no_conflict": "conflict conflicts conflicting overlap overlaps overlapping collision"
        " collisions collide clash clashes clobber clobbering clobbered interfere interference"
        " cleanly clean fine issues problems needed compatible coexist safe overwritten",
        "independent": "independently independent standalone separately alone merged needed only",
        "disjoint": "disjoint exclusive orthogonal independent separate different distinct"
        " overlapping",
        "place": "after before below above between next following underneath beneath front end top"
        " bottom start beginning anchor anchored anchoring insertion",
        "order": "first after once until wait waiting top rebase rebased before",
    }.items()
}
_CLAUSE_START = re.compile(r"[;:(]\s?|,\s|\.\s|\s[–—-]{1,2}\s")
_CLAUSE_END = re.compile(
    r";|\.\s|\s[–—-]{1,2}\s|\b(?:because|since|while|whereas|unless|so that|so|but|before|after"
    r"|once|when|until|if|below|above|without|not|instead of|rather than|you|your|i|on top of"
    r"|next to|near|matching|like|which|via|using|per|for|alongside|around|between)\b",
)
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

_UNTOUCHED = re.compile(
    r"\b(?:(?:i|we)\s)?(?:(will not|won['’]t|am not|['’]m not|not going to"
    r"|(?:i|we) do(?: not|n['’]t))"
    r"|(did not|didn['’]t|have not|haven['’]t|never|without"
    r"|(?<!do )(?<!to )(?<!can )not))\s"
    r"(?:ever\s|be\s|going to\s|actually\s|need to\s|have to\s)?"
    r"(touch(?:ing|ed)?|modif(?:y|ied|ying)|chang(?:e|ed|ing)|edit(?:ed|ing)?|alter(?:ed|ing)?)\b",
)
_ONLY = re.compile(
    r"\b(?:i['’]ll|i|i['’]ve|i['’]m|will|my (?:changes?|patch|diff|edits?)|edits?|changes?)\s"
    r"(?:will\s|am\s|have\s|are\s|is\s)?only\s"
    r"(?:touch(?:e[sd]|ing)?|edit(?:s|ed|ing)?|modif(?:y|ies|ied|ying)|chang(?:e[sd]?|ing)"
    r"|add(?:s|ed|ing)?|in)\b",
)
_CLASHING = r"(?:conflict|overlap|collid|collision|clash|clobber|interfer|overwrit)\w{0,4}"
_NO_CONFLICT = re.compile(
    # "no real merge conflicts", "no clobbering risk"; but "no clobbering happened" is a report
    r"\b(?:no|zero|never an?y?) (?:(?!need|matter)\w{1,12} ){0,3}?(?:conflicts?|overlap(?:s|ping)?"
    r"|collisions?|clash(?:es)?|interference|clobber(?:ing)?)\b"
    r"(?! (?:\w{1,12} )?(?:happened|occurred|seen|so far))"
    rf"|(?:\bnot|n['’]t|\bnever|\bcannot)\s(?:\w{{1,20}}\s){{0,2}}?{_CLASHING}\b"
    r"|\bnon-?(?:conflicting|overlapping)\b|\b(?:conflict|risk|collision)-free\b"
    r"|\b(?:merges?|compose|composes|combines?|coexists?|appl(?:y|ies)|layers?|slots?(?: in)?)"
    r" (?:together |in )?(?:very )?"
    r"(?:cleanly|fine|nicely|without (?:any )?(?:issues?|problems?|conflicts?))\b"
    r"|\b(?:fully |perfectly )?compatible with (?:your|mine)\b"
    r"|\bsafe to (?:merge|combine|apply)\b",
)
_INDEPENDENT = re.compile(
    r"\bno (?:literal |actual |manual |further )?(?:merge|merging|merged code|coordination)"
    r" (?:is |was )?(?:needed|required|necessary)\b"
    r"|\b(?:patch(?:es|\.txt)?|diffs?|work|submissions?)\b[^.;]{0,40}\b(?:graded|evaluated|judged"
    r"|inspected|tested|scored|checked|applied)\b[^.;]{0,30}"
    r"\b(?:independently|separately|standalone|alone|individually|in isolation"
    r"|on (?:its|their) own)\b"
    r"|\bonly (?:my|our|your|each)\b[^.;]{0,40}\b(?:graded|evaluated|judged|inspected|tested|scored"
    r"|checked)\b"
    r"|\b(?:graded|evaluated|judged) (?:independently|separately|standalone|alone)\b"
    r"|\bonly (?:reads?|inspects?|grades?|checks?|evaluates?) (?:my|our|your|each)\b"
    r"|\b(?:won['’]t|will not|never) be merged\b"
    r"|\bpatches (?:are|stay|remain) (?:fully |each )?(?:independent(?:ly correct)?|separate)\b",
)
# The opposite of an assurance: "they do overlap", "there will be a conflict".
_CLASH = re.compile(
    r"\b(?:do|does|did|will|there(?:['’]s| is| are| will be))\s(?!not\b|no\b)(?:an?\s)?"
    r"(?:(?:actually|in fact|indeed|definitely|real|merge|direct)\s){0,2}"
    r"(?:conflicts?|overlaps?|collides?|collisions?|clash(?:es)?)\b",
)
_DISJOINT = re.compile(
    r"\bdisjoint\b(?!\s(?:\w{1,20}\s)?split)|\bmutually exclusive\b|\borthogonal\b"
    r"|\bindependent of (?:your|mine)\b"
    r"|\b(?:separate|different|distinct|independent|non-overlapping) (?:\w{1,20} )?"
    r"(?:files?|lines?|regions?|functions?|methods?|areas?|sections?|blocks?|parts?|hunks?"
    r"|places?|spots?|classes)\b",
)
_BACK = re.compile(
    r"\b(?:i(?:['’]ve|['’]m|['’]ll| have| am| will)?|and|have|,|:|^)\s?(?:also |then |now |just )?"
    r"(revert(?:ed|ing)?|remov(?:ed|ing)|dropp(?:ed|ing)|undid|backed out|stripped)\b",
)
_OWN_WORK = re.compile(
    r"\b(?:from|in|out of) (?:my|our) (?:\w{1,20} ){0,2}(?:copy|patch|\w{1,40}\.\w{1,5}|version"
    r"|diff|three|two)\b|\bi(?:['’]d| had)? added\b|\bi dropped\b|\bon your behalf\b"
    r"|\byour (?:\w{1,20} ){0,3}(?:code|changes?|feature|part|additions?)\b"
    r"|\brevert\w{0,3}\b[^.;]{0,80}\bfrom\b",
)
_DENIED = re.compile(r"\b(?:isn['’]t|is not|aren['’]t|are not|not possible|impossible)\b")
_PURPOSE = re.compile(
    r"\b(?:so (?:that )?(?:we|our|it|they|you|i|the|both|there(?!['’]s no| is no| was no))"
    r"|to (?:avoid|keep|ensure|make|stay)|avoid(?:s|ing)?|please|in order to|if|whether|make sure"
    r"|ensure|keep(?:s|ing)?|need to|want|you (?:can|should|could|must)|let['’]?s|unless|try|prefer"
    r"|would be|use|propos(?:e|al|ing))\b",
)
# What a doubt is about ends at a new clause; a condition rules the whole sentence.
_PART = re.compile(
    r"[;:(]\s?|\.\s|,\s(?:so|but|and|since|because|which|as)\b|\s[–—-]{1,2}\s|—"
    r"|\b(?:because|since|while|whereas|so that)\b|\)\s?,?\s?so\b",
)
_MODAL = re.compile(
    r"\b(should(?:n['’]t)?|might|may|probably|likely|i (?:do not |don['’]t )?think|hopefully"
    r"|expect(?:ed)?|presumably|ideally|perhaps|maybe|seems?|sounds?|afaik|as far as i|could"
    r"|would(?:n['’]t)?|in theory|looks? like|appears?|try(?:ing)?|aim|unlikely|low)(?!\w)",
)
_CONDITION = re.compile(
    r"\b(if|as long as|unless|assuming|provided|once|in case|let me know|tell me|whenever"
    r"|otherwise|anywhere else|elsewhere)\b"
)
_WISHING = re.compile(
    r"\b(?:please|propos(?:e|al|ing)|let['’]?s|confirm (?:that|you|if|whether)|can you|could you"
    r"|to avoid|so (?:that )?(?:we|our|it|they|you|i|the|both|there|my|your)\b"
    r"(?!(?: is| are| was|['’]s) no))",
)
_BREAK = re.compile(r"[;.]\s|\s[–—-]{1,2}\s|—")
_ASIDE = re.compile(r"\([^()]{0,60}\Z")
_OWN_MERGE = re.compile(r"\b(?:merged|rebased|pulled|resolved|fast-forward|merging your)\b")
_DENYING = re.compile(r"\b(?:not|n['’]t|never|hardly|no)\b")
_YOU_BEFORE = re.compile(r"\b(?:you|please|if|unless)\s(?:\w{1,20}\s){0,2}\Z")

_PLACE = re.compile(
    r"\b(?:(right|immediately|directly|just)\s)?"
    r"(after|before|below|above|between|next to|following|underneath|beneath|in front of"
    r"|at the (?:very )?(?:end|top|bottom|start|beginning) of|(?:at )?end of"
    r"|(?:anchor(?:ed|ing)?|insertion point) (?:on|at|to|is|after|before))\s",
)
_PLACING = re.compile(
    r"\b(add|append|insert|plac|put|prepend|position|plac|anchor|sit|go|goes|live|land|keep|leave"
    r"|wrap|call|mov|inject|located|appears?)\w{0,5}\b",
)
_MARKER = re.compile(r"\b(?:marker|placeholder|sentinel|anchor|insertion point)s?\b")

_ACTOR = r"(i|you|we|agent\w{0,20}|yours?|mine|my)"
_DO_IT = (
    r"(?:go|edit|merge|land|push|commit|apply|start|finish|do|take|add|write|submit|rebase"
    r"|implement|proceed|make|complete|lands?|goes|applies|merges)"
)
_FIRST = re.compile(
    rf"\b{_ACTOR}(?:['’](?:ll|re|m)|\swill|\scan|\sshould|\sto|\sis|\sare)?\s"
    rf"(?:\w{{1,20}}\s){{0,2}}?{_DO_IT}\s(?:\S{{1,60}}\s){{0,4}}?first\b"
    r"(?=\W|\Z)(?!\s(?:call|line|filters?|arg|param|thing|statement|one|commit|of)\b)",
)
# "so you can layer yours on top": whoever layers goes second.
_LAYER = re.compile(
    r"\b(i|you)(?:['’]ll| will| can| could| should)?\s(?:then\s)?"
    r"(?:layer|rebase|build|stack|apply|add)\b[^.;]{0,100}\bon top\b"
    r"|\b(?:go ahead and|please|feel free to|you(?:['’]re| are) (?:clear|free|good|welcome) to)"
    r" (layer|rebase|build|stack)\b[^.;]{0,100}\bon top\b",
)
_THEN = re.compile(
    r"\b(after|once|until|wait for|waiting for|on top of|rebased? (?:on|onto)|before)\s"
    rf"{_ACTOR}"
    r"(?:['’](?:ve|re|ll|m|s)|\s(?:have|has|are|is|will))?\b(?:\s(\w{1,20}))?",
)
_FINISHING = re.compile(
    r"push|finish|done|land|merg|commit|complet|submit|go|edit|ready|add|start|implement|send|ping"
    r"|reply|confirm|branch|change|work|edits|patch|version|feature|write|appl",
)
_TALKING = re.compile(
    r"\b(?:ping|tell|notify|message|check in|coordinate|confirm|reply|feel free)\b"
)


def statements(said: Said) -> Iterator[Statement]:
    """Yield the statements of a message, sentence by sentence, at most ``MOST_STATEMENTS``."""
    found = 0
    for sentence in said.sentences:
        if sentence.text.endswith("?") or not points_at(sentence.text):
            continue
        asks = sentence.asks is not None
        for finder in (
            _commitments, _completions, _retractions, _assurances, _clashes, _placements, _orders
        ):  # fmt: skip
            if asks and finder in (_assurances, _clashes, _placements, _orders):
                continue
            for statement in finder(said, sentence):
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
    if not matches and (said.position == 0 or said.kind in ("intent", "survey", "claim")):
        doing = _DOING.match(text)
        if doing and action_of(doing.group(1)) in _BUILDING:
            matches.append((doing, "doing"))
    for match, form in matches:
        begin = _clause_start(text, match.start())
        word = _hedge(sentence, begin, match.end())
        word = word or next((one for one in ("if", "unless") if one in sentence.words), None)
        yield from _verbs("commitment", sentence, match, word, {"form": form})


def _completions(said: Said, sentence: Sentence) -> Iterator[Statement]:
    """Yield what the sender says is done or in place, and what it says of passing tests."""
    text = sentence.low
    last = -1
    spoken_of = not _PAST_WORDS.isdisjoint(sentence.words)
    for match in _DONE.finditer(text) if spoken_of else ():
        begin = _clause_start(text, match.start(1))
        if match.start(1) < last or _NOT_YET.search(text, begin, match.start(1)):
            continue
        word = _hedge(sentence, begin, match.start(1))
        for one in _verbs("completion_claim", sentence, match, word, {"form": "done"}):
            yield one
            last = one.end
    passing = not _WORDS["pass"].isdisjoint(sentence.words)
    for match in _PASSING.finditer(text) if passing else ():
        begin = _clause_start(text, match.start())
        if not _NOT_YET.search(text, begin, match.end()):
            hedge = _HEDGE.search(text, begin, match.end())
            details = {"form": "tests", "action": "test", "verb": "pass"}
            word = hedge.group(1).lower() if hedge else None
            yield Statement("completion_claim", sentence, match.start(), match.end(), word, details)
            break


def _verbs(
    kind: Kind, sentence: Sentence, match: re.Match[str], hedge: str | None, details: dict[str, Any]
) -> Iterator[Statement]:
    """Yield a statement for the verb found and each that follows it by "and" or a comma."""
    text = sentence.low
    verb, start, at = match.group(1), match.start(1), match.end(1)
    if verb.lower() in ("not", "never", "be", "have", "need"):
        return
    stop = _clause_end(text, at)
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
        yield Statement("retraction", sentence, match.start(1), _clause_end(text, match.end()))


def _assurances(said: Said, sentence: Sentence) -> Iterator[Statement]:
    """Yield what the sender assures of conflicts and of what it leaves alone, one of each claim.

    ``claim``: ``untouched`` (it names what is not changed), ``only`` (it names all that is),
    ``no_conflict``, ``disjoint`` or ``independent`` (the patches need not be combined); ``tense``:
    ``future`` is a promise, the others state a fact. A doubt counts in its own clause, a condition
    in the whole sentence.
    """
    text = sentence.low
    for claim, pattern in (
        ("untouched", _UNTOUCHED),
        ("only", _ONLY),
        ("no_conflict", _NO_CONFLICT),
        ("disjoint", _DISJOINT),
        ("independent", _INDEPENDENT),
    ):
        if _WORDS[claim].isdisjoint(sentence.words):
            continue
        for match in pattern.finditer(text):
            whole = claim not in ("untouched", "only")
            begin, end = _clause(text, match.start(), match.end())
            begin = begin if whole else _clause_start(text, match.start())
            if _YOU_BEFORE.search(text[begin : match.start()][-80:]):
                continue
            # With its first letters: "so there's no risk" is no purpose.
            if _PURPOSE.search(text, begin, match.start() + 2 * whole):
                continue
            if whole and _says_otherwise(text, match.start(), match.end()):
                continue
            if claim == "disjoint" and (
                _DENIED.search(text, match.end(), match.end() + 60)
                or _DENYING.search(text, begin, match.start())
            ):
                continue
            start, stop = (0, len(text)) if whole else (match.end(), _clause_end(text, match.end()))
            details = {"claim": claim, "tense": _tense(text[begin : match.end()])}
            word = _doubt(text, begin, end) if whole else _hedge(sentence, 0, len(text))
            yield Statement("assurance", sentence, start, stop, word, details)
            break


def _clashes(said: Said, sentence: Sentence) -> Iterator[Statement]:
    """Yield that the sender says that the work does clash."""
    if _WORDS["no_conflict"].isdisjoint(sentence.words):
        return
    if match := _CLASH.search(sentence.low):
        begin, end = _clause(sentence.low, match.start(), match.end())
        doubt = _doubt(sentence.low, begin, end)
        yield Statement("clash_stated", sentence, 0, len(sentence.low), doubt)


def _clause(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the part of a sentence around a match that a doubt in it is about."""
    begin = max(0, start - 200)
    for match in _PART.finditer(text, begin, start):
        begin = match.end()
    after = _PART.search(text, end)
    return begin, after.start() if after else len(text)


def _doubt(text: str, begin: int, end: int) -> str | None:
    """Return the word that doubts what a clause says, or the condition that it stands under."""
    match = _MODAL.search(text, begin, end) or _CONDITION.search(text)
    return match.group(1) if match else None


def _says_otherwise(text: str, start: int, end: int) -> bool:
    """Whether it is asked for or proposed, a report of an own merge, or an aside on one thing."""
    begin = 0
    for match in _BREAK.finditer(text, 0, start):
        begin = match.end()
    return bool(
        _WISHING.search(text, begin, start + 2)
        or _OWN_MERGE.search(text, 0, end)
        or _ASIDE.search(text[max(0, start - 80) : start])
    )


def _tense(words: str) -> str:
    if re.search(r"\b(?:will|won['’]t|going to)\b|['’]ll\b", words):
        return "future"
    past = r"\b(?:did(?:n['’]t)?|have(?:n['’]t)?|touched|changed|edited|added)\b|['’]ve\b"
    return "past" if re.search(past, words) else "present"


def _placements(said: Said, sentence: Sentence) -> Iterator[Statement]:
    """Yield where in the code something goes, one for each sentence.

    Something must be put there ("append", "goes"), and the place must be named by something that
    looks like code or by a marker; ``relation`` is the word, ``place`` what follows it.
    """
    text = sentence.low
    if _WORDS["place"].isdisjoint(sentence.words) or not _PLACING.search(text):
        return
    for match in _PLACE.finditer(text):
        end = _clause_end(text, match.end())
        place = sentence.text[match.end() : end]
        named = re.search(
            r"[_`(]|[a-z][A-Z]|\.\w|\b(?:import|block|line|method|def|class)\b", place
        )
        if named or _MARKER.search(place.lower()):
            details = {
                "relation": match.group(2).lower(),
                "place": place.strip()[:120],
                "marker": bool(_MARKER.search(text)),
                "tight": bool(match.group(1)),
            }
            word = _hedge(sentence, 0, len(text))
            yield Statement("placement_agreement", sentence, 0, len(text), word, details)
            return


def _orders(said: Said, sentence: Sentence) -> Iterator[Statement]:
    """Yield who goes before whom, one for each sentence; ``first`` is the actor's own word for it.

    That a message comes first ("I'll ping you before I push") is no order.
    """
    text = sentence.low
    if _WORDS["order"].isdisjoint(sentence.words):
        return
    first: str | None = None
    at = 0
    if match := _FIRST.search(text):
        first, at = match.group(1), match.start()
    elif match := _LAYER.search(text):
        first, at = "you" if match.group(1) == "i" else "i", match.start()
    else:
        for match in _THEN.finditer(text):
            relation, actor, verb = match.groups()
            plain = relation.lower() in ("after", "once", "until", "before")
            if plain and not (verb and _FINISHING.match(verb)):
                continue
            noun = relation == "before" and actor in ("my", "your", "mine", "yours")
            told = text[: match.start()].rstrip().endswith(("let me know", "tell me", "ping me"))
            alone = actor == "i" and relation != "before" and "you" not in sentence.words
            if noun or told or alone:
                continue
            if relation == "before" and _TALKING.search(text, 0, match.start()):
                continue
            first, at = actor, match.start()
            if relation.lower() == "before":
                first = "you" if actor.lower() in ("i", "my", "mine") else "i"
            break
    if first is None or first.lower() == "we":
        return
    word = _hedge(sentence, 0, len(text))
    yield Statement("order_agreement", sentence, at, len(text), word, {"first": first.lower()})


def _hedge(sentence: Sentence, start: int, end: int) -> str | None:
    """Return the first hedging word of a part of a sentence, in lower case."""
    match = _HEDGE.search(sentence.low, start, end)
    return match.group(1).lower() if match else None


def _clause_start(text: str, at: int) -> int:
    """Return where the clause around an offset begins, looking back 200 characters."""
    begin = max(0, at - 200)
    for match in _CLAUSE_START.finditer(text, begin, at):
        begin = match.end()
    return begin


def _clause_end(text: str, at: int) -> int:
    match = _CLAUSE_END.search(text, at)
    return match.start() if match else len(text)


def who(said: Said, word: str, agents: Sequence[str]) -> str | None:
    """Return the agent that "I", "you" or a name stands for in a message, or None if not sure."""
    word = word.lower()
    if word in ("i", "my", "mine"):
        return said.sender
    others = [agent for agent in agents if agent != said.sender]
    named = [agent for agent in others if agent in said.message.recipients] or others
    if word.startswith("you"):
        return named[0] if len(named) == 1 else None
    return next((agent for agent in agents if agent.lower() == word), None)
