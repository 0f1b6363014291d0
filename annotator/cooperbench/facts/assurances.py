"""Facts of assurances: statements that the work does not clash, or that an agent leaves code alone.

Only flat statements count: no doubt, wish, plan, condition or question, and nothing about the
sender's own copy.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from annotator.base.text import sanitize_line
from annotator.cooperbench.facts.mentions import count_lines, find_paths
from annotator.cooperbench.facts.model import Fact, format_agent
from annotator.cooperbench.facts.patches import find_meetings
from annotator.cooperbench.facts.prose import ParsedMessage, Sentence, read_prose, split_words
from annotator.cooperbench.facts.trace_facts import TraceFacts
from annotator.cooperbench.patches.diff import is_same_path

KINDS: Mapping[str, str] = {
    "assurance": "an agent states flatly that the work does not clash",
    "clash_stated": "an agent says that the work does conflict or overlap",
    "bound": "an agent says by name what it alone changes or leaves alone",
    "assurance_refuted": "the patches clash, and an agent states flatly that they do not",
}

_CLASHING = r"(?:conflict|overlap|collid|collision|clash|intersect)\w{0,4}"
_NO_CONFLICT = re.compile(
    r"\b(?:no|zero) (?:(?!need|matter)\w{1,12} ){0,3}?(?:conflicts?|overlap(?:s|ping)?|collisions?"
    r"|clash(?:es)?|(?:shared|common) (?:hunks?|lines?|regions?|symbols?))\b"
    rf"|(?:\bnot|n['’]t|\bnever|\bcannot) (?:\w{{1,20}} ){{0,2}}?{_CLASHING}\b"
    rf"|\b(?:nothing|none|neither)\b(?:[^.;]|\.(?=\w)){{0,60}}?\b{_CLASHING}\b"
    r"|(?:\bnot|n['’]t) be (?:any )?(?:\w{1,12} ){0,3}?(?:conflicts?|overlaps?|collisions?)\b"
    r"|\b(?:conflicts?|clash(?:es)?|collisions?|overlaps?) (?:is|are) impossible\b"
    r"|\bnon-?(?:conflicting|overlapping)\b|\b(?:conflict|risk|collision)-free\b"
    r"|\b(?:merges?|combines?|composes?|coexists?) (?:together )?(?:cleanly|fine|nicely"
    r"|automatically|without (?:any )?(?:issues?|problems?|conflicts?))\b"
    r"|\bmerge (?:is|will be) (?:clean|trivial|easy|painless)\b|\bsafe to (?:merge|combine|apply)\b"
)
_DISJOINT = re.compile(
    r"\bdisjoint\b(?! (?:\w{1,20} )?split)|\bmutually exclusive\b|\borthogonal\b"
    r"|\b(?:separate|different|distinct|non-overlapping) (?:\w{1,20} )?"
    r"(?:lines?|regions?|functions?|methods?|sections?|blocks?|hunks?|places?)\b"
)
_INDEPENDENT = re.compile(
    r"\bno (?:literal |actual |manual |further )?(?:merge|merging|merged code|rebase)\b[^.;]{0,20}"
    r"\b(?:needed|required|necessary)\b|\bno need to (?:merge|rebase|reconcile)\b"
    r"|\b(?:patch(?:es|\.txt)?|diffs?|submissions?|graders?|evaluator|harness)\b[^.;]{0,60}"
    r"\b(?:graded|evaluated|judged|inspected|tested|scored|checked|applied)\b[^.;]{0,30}\b(?:"
    r"independently|separately|standalone|alone|individually|in isolation|on (?:its|their) own)\b"
    r"|\bonly (?:my|our|your|each|its)\b[^.;]{0,40}\b(?:graded|evaluated|judged|inspected)\b"
    r"|\b(?:won['’]t|will not|never) be merged\b"
    r"|\bpatches (?:stay|are|remain) (?:\w{1,20} )?independent(?:ly correct)?\b"
)
_CLAIMS = {"no_conflict": _NO_CONFLICT, "disjoint": _DISJOINT, "independent": _INDEPENDENT}
_KEYWORDS = split_words(
    "conflict conflicts conflicting overlap overlaps overlapping collision collisions collide"
    " collides clash clashes intersect intersects coexist coexists"
    " safe merge merges merged merging combine combines compose composes shared common risk"
    " free disjoint orthogonal exclusive separate different distinct independent"
    " independently separately standalone alone individually isolation own rebase reconcile"
    " only"
)
_SAYS = {
    "no_conflict": "the work does not clash",
    "disjoint": "the places that they change are apart",
    "independent": "the patches need not be combined",
}

# What clashes must be both agents' work: code may not conflict either, nor what one adds alone.
_WORK = re.compile(
    r"\b(?:we|us|they|our|ours|with mine|both|each of us|you|your|yours|patch(?:es)?"
    r"|patch\.txt|diffs?|hunks?|merge|merges|edits|additions|changes|branch(?:es)?|agents"
    r"|on my (?:end|side))\b"
)
# A hedge anywhere, and the sentence is no flat one; a doubt rules its clause.
_HEDGE = re.compile(
    r"\b(?:should(?:n['’]t)?|might|probably|likely|unlikely|i think|believe|suppose|guess|doubt"
    r"|hope|hopefully|presumably|ideally|perhaps|maybe|seems?|sounds?|looks? like|appears?|afaik"
    r"|afaict|as far as i|as i (?:understand|see)|from what i|in theory|mostly|largely|almost"
    r"|nearly|barely|hardly|i['’]d (?:like|love|prefer|rather))(?!\w)"
)
_DOUBT = re.compile(
    r"\b(?:may|think|expect(?:ed)?|could|would(?:n['’]t)?|low|sure|confident|minimal|minor|little"
    r"|goal|aim(?:ing)?|risk of)(?!\w)"
)
_OPEN = re.compile(
    r"\b(?:if|(?:as|so) long as|unless|assum(?:e|ing)|provided|given (?:that )?you|once|until"
    r"|in case|let me know|tell me|when(?:ever)?|otherwise|elsewhere|flag(?:ging)? (?:if|since|so)"
    r"|re-?check|double-check|(?<!no need to )reconcil\w*|resolve|sort out|watch out|careful|except"
    r"|(?:verif|check|review|test|look)\w*(?: [^\s.;]+){0,5} again)\b"
)
# Said of what the sender sees, not of the merge.
_OWN_VIEW = re.compile(
    r"\b(?:so far|for now|at (?:this|the) (?:point|moment)|at present|as of now|right now|currently"
    r"|yet|(?:in|on) (?:my|your|our|this|the) (?:\w{1,12} )?(?:copy|copies|sandbox(?:es)?|workspace"
    r"|checkout|tree|branch)|filesystems?|sandbox(?:es)?|workspaces|isolated|(?:on|to) disk|locally"
    r"|(?:repo|separate) cop(?:y|ies))\b"
)
_INTENT = re.compile(
    r"^\W*(?:make|put|keep|add|use|place|move|pick|choose|try|do|stay|split|append|insert)\b"
    r"|\b(?:please|propos(?:e|al|ing)|let['’]?s|confirm (?:that|you|if|whether)|can you|could you"
    r"|(?:in order )?to (?:avoid|keep|ensure|make|stay)|avoid(?:s|ing)?|keep(?:s|ing)?|make sure"
    r"|ensure|whether"
    r"|so that|so (?:we|our|it|they|you|i|my|your|both|there)(?! (?:do|are|have) (?:not|no))"
    r"|need(?:s)? to|must|want|plan(?:s|ned|ning)?|try(?:ing)? to|prefer|suggest"
    r"|merged your|rebased|pulled)\b"  # the report of a merge of one's own
)
# What the sender or the partner is going to do is a plan.
_PLANNED = re.compile(
    r"\b(?:i|we|you|they)(?: both)?(?:['’]ll|['’](?:re|m) going to| will| (?:are|am) going to)\b"
)
# Somebody else's word, or a denial.
_NOT_SAID = re.compile(
    r"\b(?:said|says|claim(?:s|ed)|told|not true|isn['’]t|is not|aren['’]t)\b"
    r"|(?:\bnot|n['’]t) (?:\w{1,12} )?\Z"
)
_CLAUSE_BREAK = re.compile(
    r"[;:(]\s?|\.\s|,\s(?:so|but|and|since|because|which|as)\b|\s[–—-]{1,2}\s|—"
    r"|\b(?:because|since|while|whereas)\b|\)\s?,?\s?so\b"
)
_NO_NOUN = r"(?!-| (?:handling|resolution|markers?|check|detection))"  # of code that looks for it
_CLASH = re.compile(
    r"\b(?:do|does|did|will|there(?:['’]s| is| are| will be))\s(?!not\b|no\b)(?:an?\s)?"
    r"(?:(?:actually|in fact|indeed|definitely|real|merge|direct)\s){0,2}"
    r"(?:conflicts?|overlaps?|collides?|collisions?|clash(?:es)?)\b"
    rf"{_NO_NOUN}"
    r"|\b(?:our|your|these|both|mine) (?:\w{1,20} ){0,4}(?:overlap|conflict|collide|clash)(?:es|s)?"
    rf"\b{_NO_NOUN}|\bthey (?:conflict|overlap|collide)\b|\bgives? an? (?:merge )?conflict\b"
)
_NOT_CLEAN = re.compile(
    r"(?:\bnot|n['’]t|\bnever) (?:merge|combine|compose|coexist) (?:cleanly|fine|nicely)\b"
)
_NO_CLASH = re.compile(r"\b(?:not|no|none|never|nothing|neither|without|avoid\w*)\b|n['’]t\b")
_BOUND = re.compile(
    r"\b(?:i|we)(?: will|['’]ll)? only (?:touch|edit|modify|change|add)\b"
    r"|\b(?:i|we) (?:will not|won['’]t|do not|don['’]t) (?:touch|edit|modify|change)\b"
)
_CODE = re.compile(r"\w\(\)|[a-z]_[a-z]|\b_\w|[a-z][A-Z]|\w\.[a-zA-Z]")  # a name of the code
# "receive()", "cache_salt", "useCache": of a dotted name the last part
_NAME = re.compile(
    r"\b[A-Za-z]\w*(?=\(\))|\b[A-Za-z]+_\w+\b|\b_\w+\b|\b[a-z]+[A-Z]\w*|\b(?:[A-Z][a-z]+){2,}\b"
)
_HANDED_IN = re.compile(r"\.(?:txt|diff|patch)\Z", re.IGNORECASE)  # what a patch is kept in
_MOST_MATCHES = 20  # of one pattern in a sentence
_SHORT = 8  # words of a sentence that needs no subject: "No overlap at all."


def draw_assurances(facts: TraceFacts) -> Iterator[Fact]:
    """Yield the statements, message by message, then the assurances that the patches refute."""
    assurances: list[tuple[ParsedMessage, Fact]] = []
    for message, sentence in facts.sentences():
        if claim := find_assurance(sentence):
            fact = facts.state("assurance", message, sentence, f", {_SAYS[claim]}", claim=claim)
            assurances.append((message, fact))
        elif states_clash(sentence):
            yield facts.state("clash_stated", message, sentence, ", the work clashes")
        elif bound := read_bound(sentence):
            says = ", by name what it alone changes or leaves"
            yield facts.state("bound", message, sentence, says, **bound)
    yield from (fact for _, fact in assurances)
    for message, fact in assurances:
        yield from _refute(facts, message, fact)


def find_assurance(sentence: Sentence) -> str | None:
    """Return the assurance in a sentence: no_conflict, disjoint, independent, or None."""
    text = sentence.low
    if _KEYWORDS.isdisjoint(sentence.vocabulary) or sentence.text.endswith("?"):
        return None
    if _HEDGE.search(text) or _OPEN.search(text):
        return None
    for claim, pattern in _CLAIMS.items():
        for match in islice(pattern.finditer(text), _MOST_MATCHES):
            begin, end = _find_clause(text, match.start(), match.end())
            if _DOUBT.search(text, begin, end) or _PLANNED.search(text, begin, match.end()):
                continue
            if _INTENT.search(text, 0, match.start()):
                continue
            if _NOT_SAID.search(text, begin, match.start()):
                continue
            of_work = _WORK.search(text[begin:end]) or _is_bare(sentence, match)
            if claim != "independent" and (_OWN_VIEW.search(text) or not of_work):
                continue
            return claim
    return None


def states_clash(sentence: Sentence) -> bool:
    """Whether a sentence says flatly that the work does clash."""
    text = sentence.low
    if _KEYWORDS.isdisjoint(sentence.vocabulary) or sentence.text.endswith("?"):
        return False
    unclean = _NOT_CLEAN.search(text)
    match = unclean or _CLASH.search(text)
    if match is None:
        return False
    begin, end = _find_clause(text, match.start(), match.end())
    if (
        _HEDGE.search(text)
        or _DOUBT.search(text, begin, end)
        or (not unclean and _NO_CLASH.search(text, begin, end))
    ):
        return False
    return not (_INTENT.search(text, 0, end) or _OPEN.search(text))


def read_bound(sentence: Sentence) -> dict[str, Any] | None:
    """Return how a sentence bounds its sender's changes, or None.

    ``only``: it keeps to the ``files``; else it leaves them alone. They are none if code or lines
    are named too, as other parts of the files are free.
    """
    match = _BOUND.search(sentence.low)
    if match is None or sentence.asks is not None:
        return None
    opened = _HEDGE.search(sentence.low, 0, match.end()) or _OPEN.search(sentence.low)
    if opened or _DOUBT.search(sentence.low, 0, match.end()):
        return None
    rest = sentence.text[match.end() :]
    files = [path.name for path in find_paths(rest)]
    if not files and not _CODE.search(rest):
        return None
    details = _find_names(rest) or count_lines(rest)
    return {"only": " only " in match.group(), "files": [] if details else files}


def _find_names(text: str) -> set[str]:
    """Return the names of code in a text, without those of files."""
    for path in reversed(find_paths(text)):
        text = text[: path.start] + text[path.end :]
    return set(_NAME.findall(text))


def _find_clause(text: str, start: int, end: int) -> tuple[int, int]:
    begin = max(0, start - 200)
    for match in _CLAUSE_BREAK.finditer(text, begin, start):
        begin = match.end()
    after = _CLAUSE_BREAK.search(text, end)
    return begin, after.start() if after else len(text)


def _is_bare(sentence: Sentence, match: re.Match[str]) -> bool:
    """Whether a short sentence has no subject: "No overlap at all."."""
    return len(sentence.vocabulary) <= _SHORT and match.group().startswith(("no ", "zero "))


def _refute(facts: TraceFacts, message: ParsedMessage, fact: Fact) -> Iterator[Fact]:
    """Yield an assurance if the patches change one place (one it names) differently."""
    claim, agent = fact.about["claim"], fact.agents[0]
    if claim == "independent" and facts.trace.outcome.merge != "conflicts":
        return
    text = read_prose(facts.text(fact.spans[0])).text
    files = [path.name for path in find_paths(text) if not _HANDED_IN.search(path.name)]
    names = _find_names(text)
    for meeting in find_meetings(facts, agent, facts.partners(message, text)):
        if files and not any(is_same_path(name, meeting.about["path"]) for name in files):
            continue
        if names and names.isdisjoint(meeting.about["names"]):
            continue
        other = next(name for name in meeting.agents if name != agent)
        says = (
            f"{format_agent(agent)} says in message {fact.about['message']} that {_SAYS[claim]};"
            f" its patch and {format_agent(other)}'s change the same place of"
            f" {sanitize_line(meeting.about['path'], 200)}."
        )
        about = {**fact.about, "path": meeting.about["path"]}
        yield Fact("assurance_refuted", says, (agent, other), fact.spans + meeting.spans, about)
        return
