"""Rules for the rubric ``comm_errors``. C2 needs an understanding that rules do not have."""

import re
from collections.abc import Callable

from annotator.annotations import Claim, Verdict
from annotator.facts import Fact
from annotator.judges.rules.case import FEWEST_LINES, Case

CODES = ("C3a", "C3b", "C1a", "C1b", "C4b", "C4a")

_AS_AGREED = re.compile(r"\b(?:agreed|verbatim|byte-identical|as discussed)\b", re.IGNORECASE)


def no_clash_asserted(case: Case) -> Claim | None:
    """C3: stated flatly that nothing clashes, and the patches do.

    The statement has no doubt or condition in it, the sender's patch meets a partner's, the merge
    conflicts and the run fails. The last such statement counts: C3b if a later message says that
    the work does clash, else C3a.
    """
    if not (case.failed and case.clashes):
        return None
    refuted = [one for one in case.of("assurance_refuted") if not one.about["hedged"]]
    if not refuted:
        return None
    last = refuted[-1]
    for later in case.of("clash_stated"):
        if later.about["message"] > last.about["message"] and not later.about["hedged"]:
            says = f"{last.says} Message {later.about['message']} says the contrary."
            return case.claim("C3b", says, *last.spans[:1], *later.spans)
    says = f"{last.says} The merge conflicts; no correction was found."
    return case.claim("C3a", says, *last.spans)


def file_not_left_alone(case: Case) -> Claim | None:
    """C3a: stated as a fact that a file was not changed, and the sender's patch changes it."""
    return _told(case, case.of("untouched_refuted"))


def name_not_in_place(case: Case) -> Claim | None:
    """C3a: said what a name now is, and the sender's patch does nothing but remove that name."""
    return _told(case, case.of("name_not_in_patch"))


def not_as_agreed(case: Case) -> Claim | None:
    """C3a: said that it wrote an agreed text, and its patch lacks lines of it; the merge conflicts.

    At least two lines must be missing, of a text that both agents sent word for word, and the agent
    must not say later that it takes them back.
    """
    for differs in case.of("agreed_text_differs") if case.clashes and case.failed else ():
        agent = differs.about["lacks"]
        took_back = any(one.agents[0] == agent for one in case.of("retraction"))
        if differs.about["missing"] < FEWEST_LINES or took_back:
            continue
        for claim in case.of("completion_claim"):
            later = claim.about["message"] > differs.about["message"]
            if (
                claim.agents[0] == agent
                and later
                and not claim.about["hedged"]
                and _AS_AGREED.search(case.known.text(claim.spans[0]))
            ):
                says = f"{claim.says} {differs.says}"
                return case.claim("C3a", says, *claim.spans, *differs.spans)
    return None


def owners_crossed(case: Case) -> Claim | None:
    """C3a: two agents each state that the other owns a file; both change it, and that conflicts."""
    return _told(case, case.of("ownership_crossed") if case.clashes and case.failed else [])


def question_without_reply(case: Case) -> Claim | None:
    """C1a: a question or request for information, and no partner sends anything afterwards."""
    return _gap(case, "C1a", "no_reply")


def question_ignored(case: Case) -> Claim | None:
    """C1b: a question, and no later message of a partner touches what it was about."""
    return _gap(case, "C1b", "not_addressed")


def repetition(case: Case) -> Claim | None:
    """C4: sent twice, almost word for word: C4b for a report of two lines or more, else C4a.

    What a protocol prescribes, a reminder of a question and a resend of a garbled text are none.
    """
    for one in case.of("near_duplicate"):
        variant = one.about["variant"]
        if variant in ("status_block", "information") and len(one.spans) == 2:
            return case.claim("C4b" if variant == "status_block" else "C4a", one.says, *one.spans)
    return None


RULES: tuple[Callable[[Case], Claim | None], ...] = (
    no_clash_asserted,
    file_not_left_alone,
    name_not_in_place,
    not_as_agreed,
    owners_crossed,
    question_without_reply,
    question_ignored,
    repetition,
)
"""The rules in the order in which they are tried; the first that finds something decides."""


def judge(case: Case) -> Verdict:
    """Return the first rule's claim, if any."""
    for rule in RULES if case.trace.spoken else ():
        if claim := rule(case):
            return Verdict((claim,), claim.code)
    return Verdict()


def _told(case: Case, facts: list[Fact]) -> Claim | None:
    """Return the first of some facts as C3a."""
    return case.claim("C3a", facts[0].says, *facts[0].spans) if facts else None


def _gap(case: Case, code: str, kind: str) -> Claim | None:
    """Return the first open question that has a second passage to show it."""
    one = next((one for one in case.of(kind) if len(one.spans) == 2), None)
    return case.claim(code, one.says, *one.spans) if one else None
