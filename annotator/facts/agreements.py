"""What agents agree on: where in the code something goes, and who goes first."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from annotator.facts.phrases import Statement, clause_end, hedge_in
from annotator.facts.prose import Said, Sentence

# A sentence is searched for a place or an order only if one of these words is in it.
WORDS = {
    claim: frozenset(words.split())
    for claim, words in {
        "place": "after before below above between next following underneath beneath front end top"
        " bottom start beginning anchor anchored anchoring insertion",
        "order": "first after once until wait waiting top rebase rebased before hold turn second"
        " next queue ahead over pause follow yet",
    }.items()
}
_PLACE = re.compile(
    r"\b(?:(right|immediately|directly|just)\s)?"
    r"(after|before|below|above|between|next to|following|underneath|beneath|in front of"
    r"|at the (?:very )?(?:end|top|bottom|start|beginning) of|(?:at )?end of"
    r"|(?:anchor(?:ed|ing)?|insertion point) (?:on|at|to|is|after|before))\s",
)
_MOST_PLACES = 20  # of one sentence that are looked at
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
    r"(?=\W|\Z)(?!\s(?:call|line|filters?|arg|param|thing|statement|one|commit|of|row|column|item"
    r"|step|part|half|letter|element|two|three|half)\b)"
    r"(?!,? (?:and )?then (?!you|yours|i\b|we\b|mine))",
)
# "so you can layer yours on top": whoever layers goes second.
_LAYER = re.compile(
    r"\b(i|you)(?:['’]ll| will| can| could| should)?\s(?:then\s)?"
    r"(?:layer|rebase|build|stack|apply|add)\b[^.;]{0,100}\bon top\b(?! (?:in|as)\b)"
    r"|\b(?:go ahead and|please|feel free to|you(?:['’]re| are) (?:clear|free|good|welcome) to)"
    r" (layer|rebase|build|stack)\b[^.;]{0,100}\bon top\b",
)
# "I will not start before yours is in", "your turn", "mine comes after yours".
_WAITING = re.compile(
    r"\b(i)(?:['’]ll| will)? (?:(?:not|won['’]t) (?:start|begin|touch|edit|write|commit)\b"
    r"[^.;]{0,60}\b(?:before|until)\b|wait\b|hold off\b|pause\b|queue behind\b"
    r"|(?:go|come) second\b)"
    r"|\b(you) (?:wait|hold off|go second)\b"
    r"|\b(mine) (?:comes|goes|lands|is) (?:after|second|next)\b|\b(going second)\b"
    r"|\b(?:do not|don['’]t|please hold off|hold off) (?:edit|start|touch)\w{0,3}\b"
    r"(?:[^.;]|\.(?=\w)){0,60}\b(?:yet|until)\b"
    r"|\b(your turn|you(?:['’]re| are) (?:next|clear|up)|go after me|after mine|before yours)\b"
    r"|\bahead of (you)\b|\byou (follow) with\b"
    r"|\b(?:stack|put|build|base) (?:\S{1,40} ){1,5}(?:over|on) (?:it|mine|what i|my)\b",
)
_THEN = re.compile(
    r"\b(after|once|until|wait for|waiting for|on top of|rebased? (?:on|onto)|before)\s"
    rf"{_ACTOR}"
    r"(?:['’](?:ve|re|ll|m|s)|\s(?:have|has|are|is|will))?\b(?:\s(\w{1,20}))?",
)
_SPEAKER = frozenset(["i", "we", "my", "mine", "me", "us", "hold", "holding", "wait", "waiting"])
_FINISHING = re.compile(
    r"push|finish|done|land|merg|commit|complet|submit|go|edit|ready|add|start|implement|send|ping"
    r"|reply|confirm|branch|change|work|edits|patch|version|feature|write|appl",
)
_TALKING = re.compile(
    r"\b(?:ping|tell|notify|message|check in|coordinate|confirm|reply|feel free)\b"
)


def placements(said: Said, sentence: Sentence) -> Iterator[Statement]:
    """Yield where in the code something goes, one for each sentence.

    Something must be put there ("append", "goes"), and the place must be named by something that
    looks like code or by a marker; ``relation`` is the word, ``place`` what follows it.
    """
    text = sentence.low
    if WORDS["place"].isdisjoint(sentence.words) or not _PLACING.search(text):
        return
    for match in islice(_PLACE.finditer(text), _MOST_PLACES):
        end = clause_end(text, match.end())
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
            word = hedge_in(sentence, 0, len(text))
            yield Statement("placement_agreement", sentence, 0, len(text), word, details)
            return


def orders(said: Said, sentence: Sentence) -> Iterator[Statement]:
    """Yield who goes before whom, one for each sentence; ``first`` is the actor's own word for it.

    That a message comes first ("I'll ping you before I push") is no order, nor is an offer ("if you
    prefer, I wait").
    """
    text = sentence.low
    if WORDS["order"].isdisjoint(sentence.words) or text.startswith("if "):
        return
    first: str | None = None
    at = 0
    if match := _FIRST.search(text):
        first, at = match.group(1), match.start()
    elif match := _LAYER.search(text):
        first, at = "you" if match.group(1) == "i" else "i", match.start()
    elif match := _WAITING.search(text):
        waits = match.group(1) or match.group(3) or match.group(4)
        first, at = "you" if waits else "i", match.start()
    else:
        for match in _THEN.finditer(text):
            relation, actor, verb = match.groups()
            plain = relation.lower() in ("after", "once", "until", "before")
            if plain and not (verb and _FINISHING.match(verb)):
                continue
            noun = relation == "before" and actor in ("my", "your", "mine", "yours")
            told = text[: match.start()].rstrip().endswith(("let me know", "tell me", "ping me"))
            alone = actor == "i" and relation != "before" and "you" not in sentence.words
            others = actor in ("you", "your", "yours") and sentence.words.isdisjoint(_SPEAKER)
            waiting = relation.lower().startswith("wait")
            if noun or told or alone or (others and not waiting):
                continue
            if relation == "before" and _TALKING.search(text, 0, match.start()):
                continue
            first, at = actor, match.start()
            if relation.lower() == "before":
                first = "you" if actor.lower() in ("i", "my", "mine") else "i"
            break
    if first is None or first.lower() == "we":
        return
    word = hedge_in(sentence, 0, len(text))
    yield Statement("order_agreement", sentence, at, len(text), word, {"first": first.lower()})


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
