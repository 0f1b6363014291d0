"""Rules for the rubric ``symptoms``: what a program can establish of why a run failed.

First what is no matter of coordination: an agent without a result, a clean merge of what fails
alone; that is primary. All the others are asked as well: else the primary code follows from the
precedence, and what else is found stands beside it. Where none finds anything the trace is
undecided: no rule can exclude a symptom.
"""

import re
from collections.abc import Callable

from annotator.annotations import Claim, Verdict
from annotator.facts import Fact, FactSpan
from annotator.facts.patches import rank_of
from annotator.facts.prose import span_of
from annotator.judges.rules.case import Case, spans

CODES = (
    "broken_commitment", "timing_dependency", "divergent_architecture",
    "work_overlap", "implementation_failure",
)  # fmt: skip
"""The codes that there is a rule for, in the order of precedence."""


# --- what is no matter of coordination ---------------------------------------------------------


def claimed_but_not_delivered(case: Case) -> Claim | None:
    """broken_commitment: an agent reported its work as done and delivered nothing."""
    for agent, what in _without_result(case).items():
        shown = _failure(case, agent)
        for one in case.of("completion_claim"):
            if one.agents[0] == agent and shown:
                rationale = f"{agent} reports its work as done, but {what}."
                return case.claim("broken_commitment", rationale, *one.spans, shown)
    return None


def nothing_delivered(case: Case) -> Claim | None:
    """implementation_failure: an agent crashed or handed in an empty patch."""
    for agent, what in _without_result(case).items():
        if shown := _failure(case, agent):
            rationale = f"There is no usable result of {agent}: {what}."
            return case.claim("implementation_failure", rationale, shown)
    return None


def fails_alone(case: Case) -> Claim | None:
    """implementation_failure: the merge is clean, and all that fails also fails by itself."""
    failing = [one for one in case.trace.outcome.features if one.passed is False]
    if case.trace.outcome.merge not in ("clean", "identical") or not failing:
        return None
    if any(one.passed_alone is not False for one in failing):
        return None
    shown = spans(case.of("feature_failed"))
    if not shown:
        return None
    names = ", ".join(one.name for one in failing)
    rationale = f"The merge is {case.trace.outcome.merge} and feature {names} also fails alone."
    return case.claim("implementation_failure", rationale, shown[0])


# --- what was said, and a merge that conflicts -------------------------------------------------


def order_not_kept(case: Case) -> Claim | None:
    """timing_dependency: it was agreed who goes first; both patches are made against the base."""
    lost = case.of("order_lost") if case.clashes else []
    return case.claim("timing_dependency", lost[0].says, *lost[0].spans) if lost else None


def incompatible_designs(case: Case) -> Claim | None:
    """divergent_architecture: both patches give a class or function forms that do not fit, and a
    message speaks of it.
    """
    for one in case.of("representation_conflict"):
        if shown := _naming(case, *one.about["names"]):
            return case.claim("divergent_architecture", one.says, shown, *one.spans)
    return None


def work_done_twice(case: Case) -> Claim | None:
    """work_overlap: each patch holds most of the other's, or one agent did its partner's part too.

    Not counted are texts that were shown in messages to be written by both, and what an agent took
    back later.
    """
    if not case.clashes:
        return None
    carried = {one.agents: one for one in case.of("work_carried")}
    for (one, two), fact in carried.items():
        if (two, one) in carried and _meeting(case, one, two):
            rationale = f"{fact.says} {carried[two, one].says}"
            if claim := case.claim("work_overlap", rationale, *fact.spans, shared=True):
                return claim
    back = {one.agents: one.about["message"] for one in case.of("retraction")}
    stands: dict[str, Fact] = {}
    for done in case.of("partner_work"):
        if done.about["done"] and back.get(done.agents, 0) < done.about["message"]:
            stands.setdefault(done.agents[0], done)
    for agent, done in stands.items():
        if met := _meeting(case, agent):
            return case.claim("work_overlap", f"{done.says} {met.says}", *done.spans, *met.spans)
    return None


def same_place_in_silence(case: Case) -> Claim | None:
    """work_overlap: the patches change the same lines, and no message names that file or anything
    that stands there.
    """
    met = _meeting(case) if case.clashes else None
    if met is None or _naming(case, met.about["path"].rpartition("/")[2], *met.about["names"]):
        return None
    said = "no message speaks of it" if case.trace.spoken else "no message was exchanged"
    return case.claim("work_overlap", f"{met.says} The merge conflicts; {said}.", *met.spans)


NO_MATTER_OF_COORDINATION: tuple[Callable[[Case], Claim | None], ...] = (
    claimed_but_not_delivered,
    nothing_delivered,
    fails_alone,
)
RULES: tuple[Callable[[Case], Claim | None], ...] = (
    order_not_kept,
    incompatible_designs,
    work_done_twice,
    same_place_in_silence,
)
"""The rules on coordination, in the order of precedence of their codes."""


_UNDECIDED = "no rule finds a symptom, and rules cannot exclude one"


def judge(case: Case) -> Verdict:
    """Return what the rules find, the first code by precedence as primary, or undecided."""
    if case.trace.outcome.passed is True:
        return Verdict()
    first = next((claim for rule in NO_MATTER_OF_COORDINATION if (claim := rule(case))), None)
    found = {claim.code: claim for rule in reversed(RULES) if (claim := rule(case))}
    claims = [first] if first else []
    claims += [
        found[code] for code in CODES if code in found and not (first and first.code == code)
    ]
    return _verdict(claims, case) if claims else Verdict(undecided=_UNDECIDED)


def _verdict(claims: list[Claim], case: Case) -> Verdict:
    """Return claims, the first as primary; beside a symptom stands a bare failure."""
    if all(one.code != "implementation_failure" for one in claims):
        failure = nothing_delivered(case) or _fails_by_itself(case)
        claims += [failure] if failure else []
    return Verdict(tuple(claims), claims[0].code, undecided=_UNDECIDED)


def _fails_by_itself(case: Case) -> Claim | None:
    """Return the failure of a feature that is known to fail alone too."""
    for one in case.of("feature_failed"):
        if one.about["passed_alone"] is False and one.spans:
            return case.claim("implementation_failure", one.says, *one.spans)
    return None


def _without_result(case: Case) -> dict[str, str]:
    """Return the agents that handed in an empty patch or crashed, each with what happened.

    An agent that the harness calls crashed but that handed in a patch did deliver, unless its patch
    is known to fail alone.
    """
    trace = case.trace
    fails = {one.agent for one in trace.outcome.features if one.passed_alone is False}
    empty = {agent for agent, patch in trace.patches.items() if not patch.strip()}
    happened = {}
    for agent in (end.agent for end in trace.outcome.agents if end.crashed):
        if agent not in trace.patches or agent in empty or agent in fails:
            happened[agent] = "it crashed"
    happened |= dict.fromkeys(empty, "its patch is empty")
    return {agent: happened[agent] for agent in trace.agents if agent in happened}


def _failure(case: Case, agent: str) -> FactSpan | None:
    """Return what the harness says about an agent that delivered nothing, or of the whole run."""
    facts = case.of("agent_crashed", "feature_failed", "feature_lost")
    own = [one for one in facts if agent in one.agents]
    shared = [one for one in facts if not one.agents]
    shown = spans([*own, *case.of("run_error"), *shared])
    return shown[0] if shown else None


def _meeting(case: Case, *agents: str) -> Fact | None:
    """Return where patches (of these agents) meet: differently, and overlapping, if they do."""
    met = [x for x in case.of("hunks_overlap", "hunks_adjoin") if {*agents} <= {*x.agents}]
    return min(met, key=rank_of, default=None)


def _naming(case: Case, *names: str) -> FactSpan | None:
    """Return the first sentence of a message that one of some names stands in as a whole word."""
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, filter(None, names)))})(?!\w)")
    for said, sentence in case.known.sentences():
        if match := pattern.search(sentence.text):
            return span_of(said, sentence, match.start())
    return None
