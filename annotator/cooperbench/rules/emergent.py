"""Rules for the rubric ``emergent``: what the agents of a passed run settled, and kept to."""

from collections.abc import Callable

from annotator.cooperbench.facts import Fact
from annotator.cooperbench.facts.patches import read_patches
from annotator.cooperbench.patches.diff import is_same_path
from annotator.cooperbench.rules.case import Case
from annotator.rubrics.annotations import Claim, Verdict

CODES = ("negotiation", "resource_division", "role_division")

_ANSWERING = 3  # messages after a proposal in which it may be accepted


def find_negotiation(case: Case) -> Claim | None:
    """negotiation: a proposal, a partner's counter-proposal, and the acceptance of that.

    Nothing may be reported as done before it is accepted.
    """
    proposals = case.of("proposal")
    reports = (report.about["message"] for report in case.of("completion_claim"))
    first_done = min(reports, default=None)
    for counter in proposals:
        before = [
            proposal
            for proposal in proposals
            if proposal.about["message"] < counter.about["message"]
            and proposal.agents != counter.agents
        ]
        accepted = _find_acceptance(case, counter)
        if not (counter.about["counter"] and before and accepted):
            continue
        if first_done is not None and first_done < accepted.about["message"]:
            continue
        rationale = f"{before[-1].says} {counter.says} {accepted.says}"
        spans = (*before[-1].spans, *counter.spans, *accepted.spans)
        return case.claim("negotiation", rationale, *spans)
    return None


def find_resource_division(case: Case) -> Claim | None:
    """resource_division: two agents bound their own edits by names, and the patches keep it."""
    if case.of("hunks_overlap", "hunks_adjoin"):
        return None
    patches = read_patches(case.trace)
    read = {agent for agent, patch in patches.items() if patch.files and not patch.unread}
    bounds: dict[str, Fact] = {}
    for bound in case.of("bound"):
        if bound.agents[0] in read:
            bounds.setdefault(bound.agents[0], bound)
    if len(bounds) < 2:
        return None
    first, second = list(bounds.values())[:2]
    if _breaks_bound(case, first, second) or _breaks_bound(case, second, first):
        return None
    rationale = f"{first.says} {second.says} The patches do not meet."
    return case.claim("resource_division", rationale, *first.spans, *second.spans)


def find_role_division(case: Case) -> Claim | None:
    """role_division: an agent says that it does its partner's part too, and the partner accepts.

    Neither takes it back, and the patches do not both hold the work.
    """
    if case.of("retraction", "work_carried"):
        return None
    for offer in case.of("partner_work"):
        accepted = None if offer.about["done"] else _find_acceptance(case, offer)
        if accepted:
            rationale = f"{offer.says} {accepted.says}"
            return case.claim("role_division", rationale, *offer.spans, *accepted.spans)
    return None


RULES: tuple[Callable[[Case], Claim | None], ...] = (
    find_negotiation,
    find_resource_division,
    find_role_division,
)
"""The rules; each finds its own code."""


def judge(case: Case) -> Verdict:
    """Return the claims of all rules for a run that passed, else undecided or empty."""
    if case.trace.outcome.passed is False or not case.trace.spoken:
        return Verdict()
    rules = RULES if case.trace.outcome.passed else ()
    claims = tuple(claim for rule in rules if (claim := rule(case)))
    undecided = "no rule finds coordination, and rules cannot exclude it in messages"
    return Verdict(claims, undecided=undecided)


def _breaks_bound(case: Case, bound: Fact, other: Fact) -> bool:
    """Whether an agent's patch changes a file that is not its own by its bound and the other's."""
    files, only = bound.about["files"], bound.about["only"]
    changed = [file.path for file in read_patches(case.trace)[bound.agents[0]].files]
    if only and files:
        return not all(any(is_same_path(name, path) for name in files) for path in changed)
    off = (other.about["files"] if other.about["only"] else []) if only else files
    return any(is_same_path(name, path) for name in off for path in changed)


def _find_acceptance(case: Case, proposal: Fact) -> Fact | None:
    """Return the acceptance of a proposal by a partner, in one of the next messages."""
    first = proposal.about["message"] + 1
    for number in range(first, first + _ANSWERING):
        acceptance = case.accepted.get(number)
        if acceptance and acceptance.agents != proposal.agents:
            return acceptance
    return None
