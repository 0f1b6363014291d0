"""What agents assure each other of: that nothing clashes, and what they leave alone."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from annotator.facts.mentions import paths_in
from annotator.facts.phrases import Statement, clause_end, clause_start, hedge_in
from annotator.facts.prose import Said, Sentence


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A sentence is searched for a kind of assurance only if one of these words is in it.
WORDS = {
    claim: _words(words)
    for claim, words in {
        "untouched": "touch touching touched modify modified modifying change changed changing edit"
        " edited editing alter altered altering",
        "only": "only",
        "no_conflict": "conflict conflicts conflicting overlap overlaps overlapping collision"
        " collisions collide collides clash clashes clashed clobber clobbers clobbering clobbered"
        " interfere interferes interference intersect intersects contend contention overwrite"
        " overwrites overwritten compatible coexist coexists safe merge merges merging rebase"
        " combine combines compose composes apply applies layer layers slot slots lands go goes"
        " affect break impact shared common same risk",
        "independent": "graded evaluated judged inspected tested scored checked grades evaluates"
        " reads inspects checks merge merged rebase reconcile coordinate coordination sync"
        " independent independently separate",
        "disjoint": "disjoint exclusive orthogonal independent separate different distinct"
        " overlapping",
    }.items()
}
CLASHING = frozenset(one for one in WORDS["no_conflict"] if one.startswith(("c", "o", "m")))
# What a sentence of one of these words must say besides, for a long pattern to be worth a try.
_SAYS_NO = _words(
    "no not t never cannot zero nothing none neither cleanly fine nicely automatically"
    " untouched itself themselves without easy simple trivial straightforward clean"
    " painless low little minimal minor small non free impossible compatible coexist"
    " coexists safe apart"
)
_SAYS_APART = _words(
    "no not t don needn nothing never won independently separately standalone alone"
    " individually isolation only own per time independent separate needed required"
    " necessary"
)
_BESIDE = {"no_conflict": _SAYS_NO, "independent": _SAYS_APART}
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
_CLASHING = (
    r"(?:conflict|overlap|collid|collision|clash|clobber|interfer|overwrit|intersect|contend)"
    r"\w{0,4}"
)
_WITHOUT = (
    r"(?:cleanly|fine|nicely|automatically|untouched|by (?:it|them)sel(?:f|ves)"
    r"|without (?:any |a |further )?(?:issues?|problems?|conflicts?|troubles?|clash(?:es)?"
    r"|interaction|help))"
)
_NO_CONFLICT = re.compile(
    # "no real merge conflicts", "no clobbering risk"; but "no clobbering happened" is a report
    r"\b(?:no|zero|never an?y?) (?:(?!need|matter)\w{1,12} ){0,3}?(?:conflicts?|overlap(?:s|ping)?"
    r"|collisions?|clash(?:es)?|interference|contention|clobber(?:ing)?"
    r"|(?:shared|common) (?:hunks?|lines?|regions?|symbols?))\b"
    r"(?! (?:\w{1,12} )?(?:happened|occurred|seen|so far))"
    rf"|(?:\bnot|n['’]t|\bnever|\bcannot)\s(?:\w{{1,20}}\s){{0,2}}?{_CLASHING}\b"
    rf"|\b(?:nothing|none|neither)\b(?:[^.;]|\.(?=\w)){{0,60}}?\b{_CLASHING}\b"
    r"|(?:\bnot|n['’]t) be (?:any )?(?:\w{1,12} ){0,3}?(?:conflicts?|overlaps?|collisions?)\b"
    r"|(?:\bnot|n['’]t) (?:affect|break|impact) (?:(?:you|yours|either)\b"
    r"|your (?:\w{1,20} )?(?:patch|changes|edits|work|diff|branch|merge|copy|part|side)\b)"
    r"|(?:\bnot|n['’]t) (?:touch|share|meet|change) (?:an?y? |the )?(?:common|same|shared)\b"
    r"|\b(?:conflicts?|clash(?:es)?|collisions?|overlaps?) (?:is|are) impossible\b"
    r"|\b(?:easy|simple|trivial|straightforward|clean|painless) (?:\w{1,12} )?(?:merge|rebase)\b"
    r"|\b(?:low|little|minimal|minor) (?:risk of )?(?:\w{1,12} )?(?:conflict|overlap|collision)s?\b"
    r"|\b(?:overlap|risk) is (?:low|minimal|small|zero)\b"
    r"|\bnon-?(?:conflicting|overlapping)\b|\b(?:conflict|risk|collision)-free\b"
    r"|(?<!n['’]t )(?<!not )\b(?:merg(?:es?|ing)|combines?|composes?|coexists?"
    r"|appl(?:y|ies)(?: together|(?= cleanly (?:on|over|with|to your)\b))"
    r"|layers?|slots?|lands?|go(?:es)?)"
    rf" (?:in |through )?(?:together |in )?(?:very )?{_WITHOUT}\b"
    r"|\b(?:merge|rebase) (?:(?:is|will be|should be|would be) )?(?:clean|trivial|easy|painless)\b"
    r"|\b(?:changes|patches|features|diffs|edits|work) (?:are|is) (?:\w{1,12} )?compatible\b"
    r"|\b(?:fully |perfectly )?compatible with (?:yours?|mine)\b"
    r"|\bpatches (?:can |will )?coexist\b"
    r"|\bsafe to (?:merge|combine|apply)\b"
    r"|\bsafe to (?:finali[sz]e|submit|proceed|finish)\b[^.;]{0,80}\bindependently\b",
)
_GRADED = r"(?:graded|evaluated|judged|inspected|tested|scored|checked)"
_APART = (
    r"(?:independently|separately|standalone|alone|individually|in isolation|one at a time"
    r"|on (?:its|their|our|my) own|in (?:its|their) own|per (?:branch|agent|feature|task))"
)
_INDEPENDENT = re.compile(
    r"\bno (?:need (?:to|for)|(?:literal |actual |manual |further )?(?:merge|merging|merged code"
    r"|coordination|rebase)\b[^.;]{0,20}\b(?:needed|required|necessary))\b"
    r"(?<!no need to)|\bno need to (?:merge|rebase|reconcile|coordinate|sync)\b"
    r"|\b(?:do not|don['’]t|needn['’]t) (?:have |need )?(?:to )?"
    r"(?:rebase|reconcile|merge|coordinate)\b[^.;]{0,30}\b(?:anything|with me|mine)\b"
    r"|\bnothing (?:left )?(?:\w{1,10} ){0,4}(?:to |be )"
    r"(?:reconciled?|merged?|resolved?|coordinated?)\b"
    r"|\b(?:patch(?:es|\.txt)?|diffs?|work(?:space)?|submissions?|branch|graders?|harness)\b"
    rf"[^.;]{{0,60}}\b{_GRADED}\b[^.;]{{0,30}}\b{_APART}\b"
    rf"|\bonly (?:my|our|your|each|its)\b[^.;]{{0,40}}\b{_GRADED}\b"
    r"|\b(?:graded|evaluated|judged|scored) (?:independently|separately|standalone|alone|only)\b"
    r"|\bgraded (?:on|for) (?:our|my|its|their) own\b"
    r"|\bonly (?:reads?|inspects?|grades?|checks?|evaluates?) (?:my|our|your|each)\b"
    r"|\b(?:won['’]t|will not|never) be merged\b"
    r"|\b(?:patches|changes|implementations|features) (?:are|stay|remain) (?:\w{1,12} )?"
    r"(?:independent(?:ly correct)?|separate)\b|\bindependent of each other\b",
)
# What clashes must be the agents' work: code may not conflict either.
_WORK = re.compile(
    r"\b(?:we|us|they|our|ours|my|mine|you|your|yours|patch(?:es)?|patch\.txt|diffs?|hunks?|merg\w+"
    r"|edits|additions|changes|branch(?:es)?|agents?|agent\d|sandbox(?:es)?|filesystems?)\b"
)
# The opposite of an assurance: "they do overlap", "there will be a conflict".
_CLASH = re.compile(
    r"\b(?:do|does|did|will|there(?:['’]s| is| are| will be))\s(?!not\b|no\b)(?:an?\s)?"
    r"(?:(?:actually|in fact|indeed|definitely|real|merge|direct)\s){0,2}"
    r"(?:conflicts?|overlaps?|collides?|collisions?|clash(?:es)?)\b"
    r"|\b(?:our|your|these|both|mine) (?:\w{1,20} ){0,4}(?:overlap|conflict|collide|clash)(?:es|s)?"
    r"\b(?!-| (?:handling|resolution|markers?|check|detection))"
    r"|\bmerge (?:will|does|is going to) (?:fail|conflict)\b|\bthey (?:conflict|overlap|collide)\b"
    r"|\bgives? an? (?:merge )?conflict\b",
)
_DISJOINT = re.compile(
    r"\bdisjoint\b(?!\s(?:\w{1,20}\s)?split)|\bmutually exclusive\b|\borthogonal\b"
    r"|\bindependent of (?:your|mine)\b"
    r"|\b(?:separate|different|distinct|independent|non-overlapping) (?:\w{1,20} )?"
    r"(?:files?|lines?|regions?|functions?|methods?|areas?|sections?|blocks?|parts?|hunks?"
    r"|places?|spots?|classes)\b",
)
_MOST_MATCHES = 20  # matches of one pattern in a sentence that are looked at
_LOOK_BACK = 400  # characters before a match that are looked at
_OURS = re.compile(
    r"\b(?:we|us|they|our|ours|you|your|yours|mine|both|diffs|patches|each|edits|changes)\b"
)
_NO_CLASH = re.compile(
    r"\bnot\b|n['’]t\b|\b(?:never|cannot|no|none|nothing|neither|without|apart|separate)\b"
)
_SHORT = 8  # words of a sentence that needs no subject: "No overlap at all."
_DENIED = re.compile(r"\b(?:isn['’]t|is not|aren['’]t|are not|not possible|impossible)\b")
_PURPOSE = re.compile(
    r"\b(?:so that (?:we|our|it|they|you|i|the|both|there)"
    r"|so (?:we|our|it|they|you|i|the|both|there(?!['’]s no| is no| was no))"
    r"|to (?:avoid|keep|ensure|make|stay)|avoid(?:s|ing)?|please|in order to|whether|make sure"
    r"|ensure|keep(?:s|ing)?|need to|want|you (?:can|should|could|must)(?! be safe)"
    r"|let['’]?s"
    r"|try(?:ing)? to|prefer|would be|use|propos(?:e|al|ing))\b",
)
# What a doubt is about ends at a new clause; a condition rules the whole sentence.
_PART = re.compile(
    r"[;:(]\s?|\.\s|,\s(?:so|but|and|since|because|which|as)\b|\s[–—-]{1,2}\s|—"
    r"|\b(?:because|since|while|whereas|so that)\b|\)\s?,?\s?so\b",
)
_MODAL = re.compile(
    r"\b(should(?:n['’]t)?|might|may|probably|likely|i (?:do not |don['’]t )?think|hopefully"
    r"|expect(?:ed)?|presumably|ideally|perhaps|maybe|seems?|sounds?|afaik|as far as i|could"
    r"|would(?:n['’]t)?|in theory|looks? like|appears?|try(?:ing)? to|aim|unlikely|low|yet|so far"
    r"|afaict|believe|(?:fairly|pretty) (?:sure|confident)|i guess|(?:that )?i can see"
    r"|minimal|minor|little|surprised|anticipate|except possibly|although i|but i)(?!\w)",
)
_CONDITION = re.compile(
    r"\b(if|(?:as|so) long as|unless|assum(?:e|ing)|provided|given you|given that you"
    r"|once|until|in case|let me know|tell me|whenever"
    r"|otherwise|anywhere else|elsewhere)\b"
)
_WISHING = re.compile(
    r"^\W*(?:make|put|keep|add|use|place|move|pick|choose|try|do|stay|split|append|insert)\b"
    r"|\b(?:please|propos(?:e|al|ing)|let['’]?s|confirm (?:that|you|if|whether)|can you|could you"
    r"|to avoid|so that (?:we|our|it|they|you|i|the|both|there|my|your)\b"
    r"|so (?:we|our|it|they|you|i|the|both|there|my|your)\b(?!(?: is| are| was|['’]s) no))",
)
_BREAK = re.compile(r"[;.]\s|\s[–—-]{1,2}\s|—")
_ASIDE = re.compile(r"\([^()]{0,60}\Z")
_OWN_MERGE = re.compile(r"\b(?:merged|rebased|pulled|resolved|fast-forward|merging your)\b")
_DENYING = re.compile(r"\bnot\b|n['’]t\b|\b(?:never|hardly|nor)\b")
# Words before it that make it somebody's wish, opinion or test, not the sender's word.
_NOT_SAID = re.compile(
    r"\b(?:doubt|not sure|unsure|said|says|claim(?:s|ed)|hope|hoping|goal|aim(?:ing)?|need"
    r"|needs|must|want|validat\w+|assert\w*|verif\w+|tests? (?:check|that)"
    r"|same (?:line|lines|place|spot|hunk)|after your|without your|before your)\b"
)
_IF = re.compile(r"\b(?:if|unless)\b")
_EXCEPT = re.compile(
    r"[,(;:]|\b(?:except|beyond|other than|apart from|besides|only|just|all|see|and only|but)\b"
)
_FILLER = re.compile(
    r"\b(?:the|file|files|either|itself|any|of|at|all|and|or|nor|changes?|to|anything|in)\b|[`'\"\s./,]"
)
# What may stand before the verb of an own act: the start of a clause, "I", "and".
_OWN_ACT = re.compile(
    r"(?:\A|[.,;:(–—-]\s?|\b(?:and|but|also|i|we|i['’]ve|have|it|patch|so|do|does|did)\s)\Z"
)
_LATER = re.compile(r"\b(?:so far|at this point|yet|until|till|before|while|for now|plan)\b")
_YOU_BEFORE = re.compile(r"\b(?:you|please)\s(?:\w{1,20}\s){0,2}\Z")


def assurances(said: Said, sentence: Sentence) -> Iterator[Statement]:
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
        beside = _BESIDE.get(claim)
        if WORDS[claim].isdisjoint(sentence.words) or (
            beside and beside.isdisjoint(sentence.words)
        ):
            continue
        for match in islice(pattern.finditer(text), _MOST_MATCHES):
            whole = claim not in ("untouched", "only")
            begin, end = _clause(text, match.start(), match.end())
            begin = begin if whole else clause_start(text, match.start())
            if _YOU_BEFORE.search(text[begin : match.start()][-80:]):
                continue
            # With its first letters: "so there's no risk" is no purpose.
            if _PURPOSE.search(text, begin, match.start() + 2 * whole):
                continue
            if not whole and (text.startswith("please") or _IF.search(text, begin, match.start())):
                continue
            if whole and (
                _says_otherwise(text, begin, match.start(), match.end())
                or not (_WORK.search(text) or _bare(sentence, match))
            ):
                continue
            if claim == "disjoint" and (
                _DENIED.search(text, match.end(), match.end() + 60) or not _OURS.search(text)
            ):
                continue
            start, stop = (0, len(text)) if whole else (match.end(), clause_end(text, match.end()))
            details: dict[str, Any] = {
                "claim": claim, "tense": _tense(text[begin : match.end()]),
            }  # fmt: skip
            if claim == "untouched":
                details["alone"] = _left_alone(sentence, match.start(), match.end())
            word = _doubt(text, begin, end) if whole else hedge_in(sentence, 0, len(text))
            yield Statement("assurance", sentence, start, stop, word, details)
            break


def clashes(said: Said, sentence: Sentence) -> Iterator[Statement]:
    """Yield that the sender says that the work does clash."""
    if match := _CLASH.search(sentence.low):
        begin, end = _clause(sentence.low, match.start(), match.end())
        if _NO_CLASH.search(sentence.low, begin, end) or _PURPOSE.search(sentence.low, 0, end):
            return
        doubt = _doubt(sentence.low, begin, end)
        yield Statement("clash_stated", sentence, 0, len(sentence.low), doubt)


def _clause(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the part of a sentence around a match that a doubt in it is about."""
    begin = max(0, start - 200)
    for match in _PART.finditer(text, begin, start):
        begin = match.end()
    after = _PART.search(text, end)
    return begin, after.start() if after else len(text)


def _bare(sentence: Sentence, match: re.Match[str]) -> bool:
    """Whether a short sentence just says that there is none: "No overlap at all."."""
    return len(sentence.words) <= _SHORT and match.group().startswith(("no ", "zero "))


def _doubt(text: str, begin: int, end: int) -> str | None:
    """Return the word that doubts what a clause says, or the condition that it stands under."""
    match = _MODAL.search(text, begin, end) or _CONDITION.search(text)
    return match.group(1) if match else None


def _says_otherwise(text: str, clause: int, start: int, end: int) -> bool:
    """Whether it is asked for, wished, doubted or denied, a report of an own merge, or an aside."""
    begin = max(0, start - _LOOK_BACK)
    for match in _BREAK.finditer(text, begin, start):
        begin = match.end()
    return bool(
        _WISHING.search(text, begin, start + 2)
        or _NOT_SAID.search(text, begin, start)
        or _DENYING.search(text, max(clause, text.rfind(",", 0, start)), start)
        or (_OWN_MERGE.search(text, max(0, start - _LOOK_BACK), start))
        or _ASIDE.search(text[max(0, start - 80) : start])
    )


def _left_alone(sentence: Sentence, start: int, end: int) -> list[str]:
    """Return the files that the sender says it leaves alone, whole: the object of its own verb.

    "I did not touch a.py", not "a part of a.py", "b.py, only a.py" or what another left alone.
    """
    plans = sentence.low.startswith(("i do", "we do", "i am", "i'm", "i’m"), start)
    if plans or not _OWN_ACT.search(sentence.low[:start][-40:]) or _LATER.search(sentence.low):
        return []
    cut = _EXCEPT.search(sentence.low, end)
    named = sentence.text[end : cut.start() if cut else len(sentence.text)]
    paths = [one.name for one in paths_in(named)]
    rest = named
    for path in paths:
        rest = rest.replace(path, " ")
    return [] if _FILLER.sub("", rest.lower()) else paths


def _tense(words: str) -> str:
    if re.search(r"\b(?:will|won['’]t|going to)\b|['’]ll\b", words):
        return "future"
    past = r"\b(?:did(?:n['’]t)?|have(?:n['’]t)?|touched|changed|edited|added)\b|['’]ve\b"
    return "past" if re.search(past, words) else "present"
