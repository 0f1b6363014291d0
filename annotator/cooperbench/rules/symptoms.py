"""Rules for the rubric ``symptoms``: why a run failed.

All rules are applied. A failure without coordination (an agent without a result, a clean merge of
features that fail alone) is primary; else the precedence of the codes decides. Without a finding
the trace is undecided: no rule can exclude a symptom.
"""

import re
from collections.abc import Callable

from annotator.cooperbench.facts import Fact, FactSpan
from annotator.cooperbench.facts.patches import rank_meeting
from annotator.cooperbench.rules.case import Case, collect_spans
from annotator.rubrics.annotations import Claim, Verdict

CODES = ("broken_commitment", "timing_dependency", "work_overlap", "implementation_failure")
"""The codes that have a rule, in the order of precedence."""


# --- failures without coordination -------------------------------------------------------------


def find_claim_without_delivery(case: Case) -> Claim | None:
    """broken_commitment: an agent reported its work as done and delivered nothing."""
    for agent, what in _find_undelivered(case).items():
        report = _find_failure(case, agent)
        for claim in case.of("completion_claim"):
            if claim.agents[0] == agent and report:
                rationale = f"{agent} reports its work as done, but {what}."
                return case.claim("broken_commitment", rationale, *claim.spans, report)
    return None


def find_missing_delivery(case: Case) -> Claim | None:
    """implementation_failure: an agent crashed or handed in an empty patch."""
    for agent, what in _find_undelivered(case).items():
        if report := _find_failure(case, agent):
            rationale = f"There is no usable result of {agent}: {what}."
            return case.claim("implementation_failure", rationale, report)
    return None


def find_lone_failure_after_merge(case: Case) -> Claim | None:
    """implementation_failure: the merge is clean, and all that fails also fails by itself."""
    failing = [feature for feature in case.trace.outcome.features if feature.passed is False]
    if case.trace.outcome.merge not in ("clean", "identical") or not failing:
        return None
    if any(feature.passed_alone is not False for feature in failing):
        return None
    passages = collect_spans(case.of("feature_failed"))
    if not passages:
        return None
    names = ", ".join(feature.name for feature in failing)
    rationale = f"The merge is {case.trace.outcome.merge} and feature {names} also fails alone."
    return case.claim("implementation_failure", rationale, passages[0])


# --- what was said, and a merge that conflicts -------------------------------------------------


def find_broken_order(case: Case) -> Claim | None:
    """timing_dependency: it was agreed who goes first; both patches are made against the base."""
    orders = case.of("order_lost") if case.clashes else []
    return case.claim("timing_dependency", orders[0].says, *orders[0].spans) if orders else None


def find_duplicate_work(case: Case) -> Claim | None:
    """work_overlap: each patch holds most of the other's, or one agent did both parts."""
    if not case.clashes:
        return None
    carried = {fact.agents: fact for fact in case.of("work_carried")}
    for (agent, partner), fact in carried.items():
        if (partner, agent) in carried and _find_meeting(case, agent, partner):
            rationale = f"{fact.says} {carried[partner, agent].says}"
            if claim := case.claim("work_overlap", rationale, *fact.spans, shared=True):
                return claim
    retracted = {fact.agents: fact.about["message"] for fact in case.of("retraction")}
    upheld: dict[str, Fact] = {}
    for done in case.of("partner_work"):
        if done.about["done"] and retracted.get(done.agents, 0) < done.about["message"]:
            upheld.setdefault(done.agents[0], done)
    for agent, done in upheld.items():
        if meeting := _find_meeting(case, agent):
            rationale = f"{done.says} {meeting.says}"
            return case.claim("work_overlap", rationale, *done.spans, *meeting.spans)
    return None


def find_silent_overlap(case: Case) -> Claim | None:
    """work_overlap: the patches change the same lines, and no message names that file or anything
    that stands there.
    """
    meeting = _find_meeting(case) if case.clashes else None
    if meeting is None:
        return None
    if _is_named(case, meeting.about["path"].rpartition("/")[2], *meeting.about["names"]):
        return None
    silence = "no message speaks of it" if case.trace.spoken else "no message was exchanged"
    rationale = f"{meeting.says} The merge conflicts; {silence}."
    return case.claim("work_overlap", rationale, *meeting.spans)


NO_MATTER_OF_COORDINATION: tuple[Callable[[Case], Claim | None], ...] = (
    find_claim_without_delivery,
    find_missing_delivery,
    find_lone_failure_after_merge,
)
RULES: tuple[Callable[[Case], Claim | None], ...] = (
    find_broken_order,
    find_duplicate_work,
    find_silent_overlap,
)
"""The rules on coordination, in the order of precedence of their codes."""


_UNDECIDED = "no rule finds a symptom, and rules cannot exclude one"


def judge(case: Case) -> Verdict:
    """Return what the rules find, the first code by precedence as primary, or undecided."""
    if case.trace.outcome.passed is True:
        return Verdict()
    first = next((claim for rule in NO_MATTER_OF_COORDINATION if (claim := rule(case))), None)
    by_code = {claim.code: claim for rule in reversed(RULES) if (claim := rule(case))}
    claims = [first] if first else []
    claims += [
        by_code[code] for code in CODES if code in by_code and not (first and first.code == code)
    ]
    return _make_verdict(claims, case) if claims else Verdict(undecided=_UNDECIDED)


def _make_verdict(claims: list[Claim], case: Case) -> Verdict:
    """Return claims, the first as primary, with a bare failure after a symptom."""
    if all(claim.code != "implementation_failure" for claim in claims):
        failure = find_missing_delivery(case) or _find_lone_failure(case)
        claims += [failure] if failure else []
    return Verdict(tuple(claims), claims[0].code, undecided=_UNDECIDED)


def _find_lone_failure(case: Case) -> Claim | None:
    """Return the failure of a feature that is known to fail alone too."""
    for fact in case.of("feature_failed"):
        if fact.about["passed_alone"] is False and fact.spans:
            return case.claim("implementation_failure", fact.says, *fact.spans)
    return None


def _find_undelivered(case: Case) -> dict[str, str]:
    """Return the agents without a usable patch, each with what happened.

    A crashed agent that handed one in did deliver, unless its patch is known to fail alone.
    """
    trace = case.trace
    fails = {feature.agent for feature in trace.outcome.features if feature.passed_alone is False}
    empty = {agent for agent, patch in trace.patches.items() if not patch.strip()}
    happened = {}
    for agent in (end.agent for end in trace.outcome.agents if end.crashed):
        if agent not in trace.patches or agent in empty or agent in fails:
            happened[agent] = "it crashed"
    happened |= dict.fromkeys(empty, "its patch is empty")
    return {agent: happened[agent] for agent in trace.agents if agent in happened}


def _find_failure(case: Case, agent: str) -> FactSpan | None:
    """Return what the harness says about an agent that delivered nothing, or of the whole run."""
    facts = case.of("agent_crashed", "feature_failed", "feature_lost")
    of_agent = [fact for fact in facts if agent in fact.agents]
    shared = [fact for fact in facts if not fact.agents]
    passages = collect_spans([*of_agent, *case.of("run_error"), *shared])
    return passages[0] if passages else None


def _find_meeting(case: Case, *agents: str) -> Fact | None:
    """Return where patches (of these agents) meet: differently, and overlapping, if they do."""
    meetings = [x for x in case.of("hunks_overlap", "hunks_adjoin") if {*agents} <= {*x.agents}]
    return min(meetings, key=rank_meeting, default=None)


def _is_named(case: Case, *names: str) -> bool:
    """Whether a message has one of some names as a whole word."""
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, filter(None, names)))})(?!\w)")
    return any(pattern.search(sentence.text) for _, sentence in case.facts.sentences())
