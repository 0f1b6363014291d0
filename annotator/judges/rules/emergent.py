"""Rules for the rubric ``emergent``: what the agents of a passed run settled, and kept to."""

from collections.abc import Callable

from annotator.annotations import Claim, Verdict
from annotator.facts import Fact
from annotator.facts.sides import sides_of
from annotator.judges.rules.case import Case
from annotator.patches.diff import same_path

CODES = ("negotiation", "resource_division", "role_division")

_BOUNDS = frozenset(["untouched", "only"])
_ANSWERING = 3  # messages after a proposal in which it may be accepted


def plan_negotiated(case: Case) -> Claim | None:
    """negotiation: a proposal, a partner's counter-proposal, and the acceptance of that.

    Nothing may be reported as done before it is accepted.
    """
    proposals = case.of("proposal")
    done = min((one.about["message"] for one in case.of("completion_claim")), default=None)
    for counter in proposals:
        before = [
            one
            for one in proposals
            if one.about["message"] < counter.about["message"] and one.agents != counter.agents
        ]
        accepted = _acceptance(case, counter)
        if not (counter.about["counter"] and before and accepted):
            continue
        if done is not None and done < accepted.about["message"]:
            continue
        rationale = f"{before[-1].says} {counter.says} {accepted.says}"
        spans = (*before[-1].spans, *counter.spans, *accepted.spans)
        return case.claim("negotiation", rationale, *spans)
    return None


def bounds_kept(case: Case) -> Claim | None:
    """resource_division: two agents each bound their own edits by names, and the patches keep it.

    A bound names files, lines or symbols that the agent leaves alone or keeps to. Both patches must
    be known and not meet, no file that was to be left alone may be changed, and an agent that keeps
    to files must change no other.
    """
    if case.of("hunks_overlap", "hunks_adjoin", "promise_broken", "untouched_refuted"):
        return None
    sides = sides_of(case.known)
    bounds: dict[str, Fact] = {}
    for one in case.of("assurance"):
        about, agent = one.about, one.agents[0]
        named = about["files"] or about["lines"] or about["symbols"]
        planned = about["tense"] != "past" and not about["hedged"]
        if about["claim"] in _BOUNDS and named and planned and agent in sides:
            changed = [file.path for file in sides[agent].patch.files]
            kept = (
                about["claim"] != "only"
                or not about["files"]
                or all(any(same_path(name, path) for name in about["files"]) for path in changed)
            )
            if kept:
                bounds.setdefault(agent, one)
    if len(bounds) < 2:
        return None
    first, second = list(bounds.values())[:2]
    rationale = f"{first.says} {second.says} The patches do not meet."
    return case.claim("resource_division", rationale, *first.spans, *second.spans)


def part_taken_over(case: Case) -> Claim | None:
    """role_division: an agent says that it does its partner's part too, and the partner accepts.

    Neither takes it back, and the patches do not both hold the work.
    """
    if case.of("retraction", "work_carried"):
        return None
    for one in case.of("partner_work"):
        accepted = None if one.about["done"] else _acceptance(case, one)
        if accepted:
            rationale = f"{one.says} {accepted.says}"
            return case.claim("role_division", rationale, *one.spans, *accepted.spans)
    return None


RULES: tuple[Callable[[Case], Claim | None], ...] = (
    plan_negotiated,
    bounds_kept,
    part_taken_over,
)
"""The rules; each finds its own code."""


def judge(case: Case) -> Verdict:
    """Return the claims of all rules; nothing for a run that is not known to have passed."""
    if not case.trace.outcome.passed or not case.trace.spoken:
        return Verdict()
    return Verdict(tuple(claim for rule in RULES if (claim := rule(case))))


def _acceptance(case: Case, proposal: Fact) -> Fact | None:
    """Return the acceptance of a proposal by a partner, in one of the next messages."""
    said = proposal.about["message"]
    for number in range(said + 1, said + 1 + _ANSWERING):
        one = case.acceptances.get(number)
        if one and one.agents != proposal.agents:
            return one
    return None
