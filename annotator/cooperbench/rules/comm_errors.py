"""Rules for the rubric ``comm_errors``: a screen. What they find is shown; they exclude nothing
but what needs a message where there is none.
"""

from collections.abc import Callable

from annotator.cooperbench.rules.case import Case, collect_spans
from annotator.rubrics.annotations import Claim, Verdict

CODES = ("C3a", "C1a")


def find_refuted_assurance(case: Case) -> Claim | None:
    """C3a: stated flatly that nothing clashes; the patches meet and the merge conflicts.

    The last such statement counts, if no later message says that the work does clash.
    """
    refuted = case.of("assurance_refuted") if case.clashes else []
    corrected = max((fact.about["message"] for fact in case.of("clash_stated")), default=0)
    if not refuted or refuted[-1].about["message"] < corrected:
        return None
    says = f"{refuted[-1].says} The merge conflicts; no correction was found."
    return case.claim("C3a", says, *refuted[-1].spans)


def find_unanswered_question(case: Case) -> Claim | None:
    """C1a: a question or request for information, and no partner sends anything afterwards."""
    ends = case.of("agent_crashed")
    ran_on = bool(case.trace.patches) or any(
        end.status or end.error for end in case.trace.outcome.agents
    )
    for question in case.of("no_reply"):
        if not ran_on and question.about["message"] == case.trace.spoken[-1].n:
            continue
        crashes = collect_spans(end for end in ends if end.agents[0] in question.agents[1:])
        passages = (*question.spans, *crashes)[:2]
        if len(passages) == 2:
            return case.claim("C1a", question.says, *passages)
    return None


RULES: tuple[Callable[[Case], Claim | None], ...] = (
    find_refuted_assurance,
    find_unanswered_question,
)
"""The rules in the order of precedence."""


def judge(case: Case) -> Verdict:
    """Return the first claim; without messages an empty verdict, else undecided."""
    if not case.trace.spoken:
        return Verdict()
    claim = next((claim for rule in RULES if (claim := rule(case))), None)
    undecided = "no rule finds an error, and rules cannot exclude one in messages"
    return Verdict((claim,) if claim else (), claim.code if claim else None, undecided=undecided)
