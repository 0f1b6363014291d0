"""Rules for the rubric ``symptoms``, in the order of its decision procedure.

What an agent did not deliver comes first, then what fails by itself after a clean merge, then what
the conversation shows of a merge that conflicts, and at last the patches alone.
"""

import re
from collections.abc import Callable
from dataclasses import replace

from annotator.annotations import Claim, Verdict
from annotator.facts import Fact, Span
from annotator.facts.messages import OWN_TYPES
from annotator.judges.rules import comm_errors
from annotator.judges.rules.case import FEWEST_LINES, Case, spans
from annotator.judges.rules.code import calls, may_be, naming, only_defaults

CODES = (
    "broken_commitment",
    "timing_dependency",
    "placeholder_misuse",
    "unverifiable_claims",
    "parameter_flow",
    "divergent_architecture",
    "unresponsiveness",
    "work_overlap",
    "dependency_access",
    "repetition",
    "implementation_failure",
)


# --- nothing delivered -------------------------------------------------------------------------


def claimed_but_not_delivered(case: Case) -> Claim | None:
    """broken_commitment: an agent reported its work as done and delivered nothing.

    What stands in a plan is not reported as done.
    """
    empty = _without_result(case)
    if not empty:
        return None
    plans = {one.about["message"] for one in case.of("message_type") if _plans(one)}
    for agent, what in empty.items():
        shown = _failure(case, agent)
        for one in case.of("completion_claim"):
            reported = one.about["message"] not in plans and _own_work(one)
            if one.agents[0] == agent and reported and shown:
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


# --- a clean merge -----------------------------------------------------------------------------


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


# --- a merge that conflicts, and what was said of it --------------------------------------------


def agreed_text_not_written(case: Case) -> Claim | None:
    """placeholder_misuse: both sent the same text to be written; one patch lacks lines of it."""
    for one in case.of("agreed_text_differs") if case.clashes else ():
        if one.about["missing"] >= FEWEST_LINES:
            return case.claim("placeholder_misuse", one.says, *one.spans)
    return None


def promise_taken_back(case: Case) -> Claim | None:
    """broken_commitment: an agent takes back what it had promised, or does not keep a promise.

    It says that it takes work back after it said that it does its partner's part, or that it does
    what it names again; the merge conflicts. The same for a promise to leave a file alone where the
    patches meet in that file.
    """
    if not case.clashes:
        return None
    backs = [one for one in case.of("retraction") if not one.about["hedged"]]
    promises = case.of("partner_work", "commitment") if backs else []
    for back in backs[:_MOST_RETRACTIONS]:
        names = set(back.about["symbols"])
        for taken in promises:
            if taken.agents != back.agents or taken.about["message"] >= back.about["message"]:
                continue
            if taken.kind == "partner_work" or not names.isdisjoint(taken.about["symbols"]):
                rationale = f"{taken.says} {back.says}"
                return case.claim("broken_commitment", rationale, *taken.spans, *back.spans)
    places = {one.about["path"] for one in case.of("hunks_overlap", "hunks_adjoin")}
    for one in case.of("promise_broken"):
        if one.about["path"] in places:
            return case.claim("broken_commitment", one.says, *one.spans)
    return None


def work_done_twice(case: Case) -> Claim | None:
    """work_overlap: each patch holds most of the other's, or one agent did its partner's part too.

    Not counted are texts that were shown in messages to be written by both.
    """
    if not case.clashes:
        return None
    carried = {one.agents: one for one in case.of("work_carried")}
    for (one, two), fact in carried.items():
        if (two, one) in carried:
            rationale = f"{fact.says} {carried[two, one].says}"
            return case.claim("work_overlap", rationale, *fact.spans)
    for done in case.of("partner_work"):
        met = _meeting(case, done.agents[0])
        if done.about["done"] and met:
            return case.claim("work_overlap", f"{done.says} {met.says}", *done.spans, *met.spans)
    return None


def order_not_kept(case: Case) -> Claim | None:
    """timing_dependency: it was agreed who goes first; both patches are made against the base."""
    for one in case.of("order_lost") if case.clashes else ():
        return case.claim("timing_dependency", one.says, *one.spans)
    return None


def contract_not_kept(case: Case) -> Claim | None:
    """placeholder_misuse: an agent names the line that its partner is to write; it is not there."""
    for one in case.of("request_not_followed") if case.clashes else ():
        return case.claim("placeholder_misuse", one.says, *one.spans)
    return None


def no_clash_assumed(case: Case) -> Claim | None:
    """unverifiable_claims: said, even with a hedge, that the work does not clash, and it does."""
    said = case.of("assurance_refuted") if case.clashes else []
    flat = [one for one in said if not one.about["hedged"]]
    for one in (flat or said)[-1:]:
        return case.claim("unverifiable_claims", f"{one.says} The merge conflicts.", *one.spans)
    return None


def question_left_open(case: Case) -> Claim | None:
    """unresponsiveness: a question is never answered, and the merge conflicts."""
    if not case.clashes:
        return None
    claim = comm_errors.question_without_reply(case) or comm_errors.question_ignored(case)
    if claim is None:
        return None
    rationale = f"{claim.rationale} The merge conflicts."
    return replace(claim, code="unresponsiveness", rationale=rationale)


def signature_left_open(case: Case) -> Claim | None:
    """parameter_flow: both change one signature, each in its own way, and a message speaks of it.

    Seen by the heads of both definitions, or by parameters that both insert at one place.
    """
    if not case.clashes:
        return None
    for one in case.of("signature_changed_by_both"):
        if not one.about["same"] and (shown := naming(case, str(one.about["name"]))):
            return case.claim("parameter_flow", one.says, shown, *one.spans)
    for one in case.of("hunks_overlap"):
        if one.about["parameters"] and not one.about["same"]:
            names = [*one.about["definitions"], "__init__"]
            named = (naming(case, name, inside=names) for name in names)
            if shown := next((span for span in named if span), None):
                rationale = f"{one.says} Each adds parameters there."
                return case.claim("parameter_flow", rationale, shown, *one.spans)
    return None


def old_contract_used(case: Case) -> Claim | None:
    """parameter_flow: one patch changes a signature, the other's new lines call it; all merges.

    A feature that passes by itself is lost, and a message names the function. A parameter with a
    default breaks no call.
    """
    if not case.meaning_lost:
        return None
    for one in case.of("signature_changed"):
        name = str(one.about["name"])
        if only_defaults(str(one.about["before"]), str(one.about["text"])):
            continue
        shown = naming(case, name)
        for agent, call in calls(case, name).items() if shown else ():
            if agent not in one.agents and shown and may_be(one, case.known.text(call)):
                rationale = f"{one.says} {agent}'s patch adds a call of it."
                return case.claim("parameter_flow", rationale, shown, *one.spans, call)
    return None


def two_designs(case: Case) -> Claim | None:
    """divergent_architecture: the patches rewrite, each in its way, what both agents speak of."""
    met = _meeting(case) if case.clashes else None
    if met is None or met.about["same"]:
        return None
    for name in met.about["definitions"]:
        said = [naming(case, name, agent) for agent in met.agents]
        if all(said):
            shown = [one for one in said if one]
            rationale = f"{met.says} Both speak of {name}."
            return case.claim("divergent_architecture", rationale, *shown, *met.spans)
    return None


# --- the patches alone -------------------------------------------------------------------------


def imports_tangled(case: Case) -> Claim | None:
    """dependency_access: after the merge modules import each other; each patch alone works.

    A patch adds an import of what the error names, and no message speaks of it.
    """
    for one in case.of("circular_import") if case.meaning_lost else ():
        error = case.known.text(one.spans[0])
        imports = [
            x
            for x in case.of("symbol_added")
            if x.about["symbol"] == "import"
            and re.search(rf"\b{re.escape(x.about['name'])}\b", error)
        ]
        warned = any("circular" in x.low for said in case.known.messages for x in said.sentences)
        if imports and not warned:
            return case.claim("dependency_access", one.says, one.spans[0], *spans(imports[:2]))
    return None


def written_twice(case: Case) -> Claim | None:
    """work_overlap: both patches add a function or class of one name with other text; all merges.

    A feature that passes by itself is lost: one of the two has no effect.
    """
    for one in case.of("symbol_added_by_both") if case.meaning_lost else ():
        one_place = len(set(one.about["paths"])) == 1 and not one.about["same"]
        if one.about["symbol"] in ("function", "class", "method") and one_place:
            return case.claim("work_overlap", one.says, *one.spans)
    return None


def same_place(case: Case) -> Claim | None:
    """work_overlap: two patches change the same lines, and the merge conflicts or is not known."""
    if case.trace.outcome.merge not in ("conflicts", None):
        return None
    met = _meeting(case)
    if met is None or (met.about["same"] and not case.clashes):
        return None
    silent = "" if case.trace.spoken else " No message was exchanged."
    return case.claim("work_overlap", met.says + silent, *met.spans)


def repetition(case: Case) -> Claim | None:
    """repetition: the last resort among the coordination symptoms; near-duplicates only."""
    claim = comm_errors.repetition(case)
    return replace(claim, code="repetition") if claim else None


def unexplained(case: Case) -> Claim | None:
    """implementation_failure: the run failed, and no other rule says why.

    Not where patches that work alone fail together without a conflict: then meaning is lost, and
    no other rule sees how.
    """
    outcome = case.trace.outcome
    failing = [one for one in outcome.features if one.passed is False]
    together = outcome.merge in ("clean", "identical") and any(one.passed_alone for one in failing)
    if not case.failed or together:
        return None
    shown = spans(case.of("feature_failed", "feature_lost", "run_error"))
    shown += spans(case.of("merge_result")) if case.clashes else []
    if not shown:
        return None
    rationale = "The run failed; no rule finds a symptom."
    return case.claim("implementation_failure", rationale, shown[0])


_MOST_RETRACTIONS = 50

RULES: tuple[Callable[[Case], Claim | None], ...] = (
    claimed_but_not_delivered,
    nothing_delivered,
    fails_alone,
    agreed_text_not_written,
    promise_taken_back,
    work_done_twice,
    order_not_kept,
    contract_not_kept,
    no_clash_assumed,
    question_left_open,
    signature_left_open,
    old_contract_used,
    two_designs,
    imports_tangled,
    written_twice,
    same_place,
    repetition,
    unexplained,
)
"""The rules in the order in which they are tried; the first that finds something decides."""


def judge(case: Case) -> Verdict:
    """Return the first rule's claim as primary.

    Beside a coordination symptom stands the bare failure of an agent that delivered nothing, or of
    a feature that fails by itself as well. A run of unknown outcome is judged by its patches.
    """
    if case.trace.outcome.passed is True:
        return Verdict()
    for rule in RULES:
        if claim := rule(case):
            second = None
            if claim.code != "implementation_failure":
                second = nothing_delivered(case) or _fails_by_itself(case)
            return Verdict((claim, second) if second else (claim,), claim.code)
    return Verdict()


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


def _plans(message: Fact) -> bool:
    """Whether a message calls itself a plan."""
    return message.about["own_type"] in OWN_TYPES["plan"]


def _own_work(claim: Fact) -> bool:
    """Whether a claim says, without a hedge, that something is made or finished."""
    return not claim.about["hedged"] and claim.about["action"] not in ("merge", "tell", "other")


def _failure(case: Case, agent: str) -> Span | None:
    """Return what the harness says about an agent that delivered nothing, or of the whole run."""
    facts = case.of("agent_crashed", "feature_failed", "feature_lost")
    own = [one for one in facts if agent in one.agents]
    shared = [one for one in facts if not one.agents]
    shown = spans([*own, *case.of("run_error"), *shared])
    return shown[0] if shown else None


def _meeting(case: Case, agent: str | None = None) -> Fact | None:
    """Return where patches (one agent's) meet: in different ways, and overlapping, if they do."""
    met = [one for one in case.of("hunks_overlap", "hunks_adjoin") if agent in (None, *one.agents)]
    return min(met, key=lambda one: (one.about["same"], one.kind != "hunks_overlap"), default=None)
