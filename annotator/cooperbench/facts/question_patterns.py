"""What asks for something: where a question or request begins in a sentence.

A question is an English sentence that ends with "?" and opens like a question, or a plain request
for information or a decision ("please send ..."). "Can you" counts only before a verb of telling:
"can you rebase?" and "can you double-check?" ask for an action. Bare closings ("OK?", "Sound
good?") and courtesies ("let me know if ...") do not count, nor does a request under a condition:
"if you touch it, tell me which lines", "send me the signature if it changes".
"""

import re
from collections.abc import Set

_OPENER = re.compile(
    r"(?:^|[,;:(]\s|\s-\s|\s[–—]\s|\b(?:so|and|but|or|then)\s)"
    r"((?:what|which|where|when|who|whose|why|how|do|does|did|is|are|was|were|should|shall|has|have"
    r"|can|could|would|will|may|any)\b.{0,60})",
)
_GIVEN = (  # what is information when it is sent, listed or shown
    r"(?:me|us|your|which|what|where|how|exact|current|signatures?|specs?|interfaces?|api|plan|status"
    r"|summary|details|diff|patch|snippet|lines?|ranges?|files?|hunks?|regions?|locations?)\b"
)
_TELL = (
    r"(?:tell|confirm|clarify|explain|specify|describe|decide|reply with|point me"
    rf"|advise|choose (?:one|between|which|whether)"
    rf"|(?:send|share|paste|list|show|provide|post) (?:[^\s.;]+ ){{0,4}}?{_GIVEN})\b"
)
_ASKED_OF_PARTNER = re.compile(r"(?:can|could|would|will)\s+you\b\s?(.*)")
_TELLING = re.compile(rf"(?:(?:please|also|just)\s){{0,2}}{_TELL}")
_REQUEST = re.compile(
    rf"\bplease\s(?:also\s|just\s|re)?{_TELL}|\b(?:i|we) need to know\b"
    r"|\blet me know (?:what|which|where|how|why|who|whether|exact|your)\b"
    r"|\btell me (?:what|which|where|how|why|who|whether|exact|your)\b"
    r"|^(?:also )?confirm (?:that|whether|this|you)\b|\bplease (?:accept or|accept/|agree or)",
)
_COURTESY = re.compile(
    r"\b(?:tell|let) me (?:know )?if\b|\bwhat you think\b|\bplease confirm (?:receipt|when|once)\b"
    r"|\b(?:when|once|after) you(?:['’]re| are| have| finish)\b|\bbefore (?!editing)\w+ing\b",
)
_SAME_CLAUSE = r"(?:(?!\s[-–—]\s)[^;:])*"
_CONDITION_BEFORE = re.compile(
    r"(?:^\W*|[;:,(]\s|\s[-–—]\s)(?:(?:and|but|so|or|then)\s)?"
    rf"(?:if|in case|unless|whenever|once|when|after|should you)\b{_SAME_CLAUSE}$"
)
_CONDITION_AFTER = re.compile(
    r"^(?:(?!\s[-–—]\s|\b(?:and|or)\b)[^,;:(])*?\w\s(?:in case|unless"
    r"|if (?:you|it|they|we|that|this|there|not|needed|necessary|any|anything|so))\b"
)
_SUGGESTED = re.compile(r"\bwhy (?:don['’]t (?:you|we)|not)\b")
_CODE = re.compile(r"^(?:>|#|\"|'|\||\+|\*)|\(\?")  # a "?" of a pattern or a quotation asks nothing
_REQUESTING = frozenset(["please", "need", "let", "tell", "confirm"])
# What asks for any answer, a bare confirmation too, but no offer ("let me know if you want ...").
_WANTED = re.compile(
    r"\bplease\b[^.;]{0,80}\b(?:send|share|paste|confirm|clarify|specify|advise|propose|reply"
    r"|respond|tell me|pick (?:one|a)|choose|decide)\b"
    r"|\bplease (?:[a-z]+ ){0,3}with (?:an? |the |your )?(?:exact )?spec\b"
    r"|\bplease (?:accept|agree)\b"
    r"|\b(?:let me know|tell me) if you(?:['’]re| are| also| need to| touch| edit| use| plan"
    r"|r feature)\b"
    r"|\b(?:works?|fine|ok(?:ay)?|agreed?|good)(?: for you| with you)?,? (?:please )?"
    r"(?:accept|agree)\b"
    r"|\b(?:reply|respond|confirm)(?: with)?(?: an?| a final)? (?:accept|agree|ack)\b"
    r"|\bneed (?:your|the exact)\b|\b(?:want|like|need)(?:ed)? to (?:confirm|know|check with)\b"
)


def find_question(sentence: str, words: Set[str]) -> int | None:
    """Return where the question begins in a sentence, or None if it asks nothing.

    ``sentence`` and its ``words`` are in lower case.
    """
    if sentence.endswith("?"):
        unasked = _CODE.search(sentence) or _SUGGESTED.search(sentence)
        opener = None if unasked else _OPENER.search(sentence)
        if opener is None or len(sentence[opener.start(1) :].split()) < 4:
            return None
        of_partner = _ASKED_OF_PARTNER.match(opener.group(1))
        if of_partner:
            telling = _TELLING.match(of_partner.group(1))
            if not telling or _is_conditional(sentence, opener.start(1), opener.start(1)):
                return None
        return opener.start(1)
    if _REQUESTING.isdisjoint(words) or _CODE.search(sentence) or _COURTESY.search(sentence):
        return None
    request = _REQUEST.search(sentence)
    if request is None or _is_conditional(sentence, *request.span()):
        return None
    return request.start()


def _is_conditional(sentence: str, start: int, end: int) -> bool:
    """Whether a request holds under a condition only, which stands before or after it."""
    before, after = sentence[:start], sentence[end:]
    return bool(_CONDITION_BEFORE.search(before) or _CONDITION_AFTER.search(after))


def wants_answer(sentence: str) -> bool:
    """Whether a sentence in lower case asks for an answer of any kind.

    Wider than :func:`find_question`, which only takes what leaves a partner to blame if it is passed
    over: any English question counts, short ones ("OK?") and requests for an action too, and so
    does a request for a confirmation or for what the partner is about to touch.
    """
    if _CODE.search(sentence):
        return False
    return sentence.endswith("?") or _WANTED.search(sentence) is not None
