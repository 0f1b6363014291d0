"""Rules for the rubric ``comm_errors``: C1a, C1b, C4a and C4b.

C2 and C3 need an understanding of what was said, which rules do not have.
"""

from collections.abc import Callable

from annotator.annotations import Claim, Verdict
from annotator.judges.rules.questions import Gap, ignored, unanswered
from annotator.judges.rules.repetition import repeated
from annotator.traces import Trace

CODES = ("C1a", "C1b", "C4b", "C4a")


def question_without_reply(trace: Trace) -> Claim | None:
    """C1a: a question or request for information, and the partner sends nothing afterwards."""
    for gap in unanswered(trace):
        return _gap_claim("C1a", gap, "sends nothing afterwards")
    return None


def question_ignored(trace: Trace) -> Claim | None:
    """C1b: a question, and the partner writes on without ever touching what it was about."""
    for gap in ignored(trace):
        return _gap_claim("C1b", gap, "writes on without addressing it")
    return None


def repetition(trace: Trace) -> Claim | None:
    """C4b for a report of two lines or more that comes twice, C4a for any other message."""
    repeat = repeated(trace)
    if repeat is None:
        return None
    what = "its report of" if repeat.block else "what it said in"
    rationale = (
        f"{repeat.second.sender} repeats {what} message {repeat.first.n} in message "
        f"{repeat.second.n}, almost word for word."
    )
    return Claim("C4b" if repeat.block else "C4a", rationale, repeat.quotes)


RULES: tuple[Callable[[Trace], Claim | None], ...] = (
    question_without_reply,
    question_ignored,
    repetition,
)
"""The rules in the order in which they are tried; the first that finds something decides."""


def judge(trace: Trace) -> Verdict:
    """Return the first rule's claim, if any."""
    for rule in RULES:
        if claim := rule(trace):
            return Verdict((claim,), claim.code)
    return Verdict()


def _gap_claim(code: str, gap: Gap, then: str) -> Claim:
    rationale = f"{gap.asked.sender} asks in message {gap.asked.n} and {gap.partner} {then}."
    return Claim(code, rationale, (gap.question, gap.shown_by))
