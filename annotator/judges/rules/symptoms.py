"""Rules for the rubric ``symptoms``: what the outcome, the patches and a few phrases can show.

The design symptoms (divergent architecture, parameter flow, placeholders, order, unverifiable
claims) need an understanding of what was said, which rules do not have. A conflicting merge that is
due to one of them is therefore called ``work_overlap`` here: the most that the patches tell.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from annotator.annotations import Claim, Quote, Verdict
from annotator.judges.rules import comm_errors
from annotator.judges.rules.overlap import shared_place
from annotator.judges.rules.passages import clipped, kind_of, quotes_in, spoken
from annotator.traces import Feature, Trace

CODES = (
    "broken_commitment",
    "unresponsiveness",
    "work_overlap",
    "repetition",
    "implementation_failure",
)

MOST_OUTPUT = 400_000  # characters at the end of one test output that are searched
_COMPLETED = re.compile(
    r"\b(?:is|are|all|now|i've|i have|and)\s(?:done|finished|complete|implemented|in place)\b"
    r"|^\W*(?:note:\s)?(?:done|finished|implemented|completed|landed)\b",
    re.IGNORECASE,
)
_NOT_YET = re.compile(
    r"\b(?:will|would|once|when|if|after|until|before|please|plan|not|cannot|you|your|yours)\b"
    r"|n't\b|'ll\b|\?",
    re.IGNORECASE,
)


def claimed_but_not_delivered(trace: Trace) -> Claim | None:
    """broken_commitment: an agent reported its work as done and delivered nothing."""
    for agent, what in _without_result(trace).items():
        claim = _completion_claim(trace, agent)
        shown = _failure_quote(trace, agent)
        if claim and shown:
            rationale = f"{agent} reports its work as done, but {what}."
            return Claim("broken_commitment", rationale, (claim, shown))
    return None


def nothing_delivered(trace: Trace) -> Claim | None:
    """implementation_failure: an agent crashed or handed in an empty patch."""
    for agent, what in _without_result(trace).items():
        if shown := _failure_quote(trace, agent):
            rationale = f"There is no usable result of {agent}: {what}."
            return Claim("implementation_failure", rationale, (shown,))
    return None


def fails_alone(trace: Trace) -> Claim | None:
    """implementation_failure: the merge is clean, and what fails also fails by itself."""
    failing = [one for one in trace.outcome.features if one.passed is False]
    if trace.outcome.merge not in ("clean", "identical") or not failing:
        return None
    if any(one.passed_alone is not False for one in failing):
        return None
    shown = _telling_line(one.output for one in failing)
    if shown is None:
        return None
    names = ", ".join(one.name for one in failing)
    rationale = f"The merge is {trace.outcome.merge} and feature {names} also fails alone."
    return Claim("implementation_failure", rationale, (shown,))


def question_left_open(trace: Trace) -> Claim | None:
    """unresponsiveness: a question is never answered, and the merge conflicts."""
    if trace.outcome.merge != "conflicts":
        return None
    claim = comm_errors.question_without_reply(trace) or comm_errors.question_ignored(trace)
    if claim is None:
        return None
    return replace(
        claim, code="unresponsiveness", rationale=claim.rationale + " The merge conflicts."
    )


def same_place(trace: Trace) -> Claim | None:
    """work_overlap: two patches change the same lines, and the merge conflicts or is not known."""
    if trace.outcome.merge not in ("conflicts", None):
        return None
    meeting = shared_place(trace)
    if meeting is None:
        return None
    silent = "" if spoken(trace) else " No message was exchanged."
    one, two = meeting.agents
    rationale = f"{one} and {two} both change the same place of {meeting.file}.{silent}"
    return Claim("work_overlap", rationale, meeting.quotes)


def repetition(trace: Trace) -> Claim | None:
    """repetition: the last resort among the coordination symptoms; near-duplicates only."""
    claim = comm_errors.repetition(trace)
    return replace(claim, code="repetition") if claim else None


def unexplained(trace: Trace) -> Claim | None:
    """implementation_failure: the run failed, and no other rule says why.

    Not where patches that work alone fail together without a conflict: that is lost meaning, for
    which there is no rule here.
    """
    outcome = trace.outcome
    failing = [one for one in outcome.features if one.passed is False]
    together = outcome.merge in ("clean", "identical") and any(one.passed_alone for one in failing)
    if outcome.passed is not False or together:
        return None
    texts = [one.output for one in trace.outcome.features if one.passed is not True]
    shown = _telling_line([*texts, trace.outcome.error or ""])
    if shown is None and trace.outcome.merge == "conflicts":
        shown = Quote("conflicts", "outcome")  # the whole line of the merge report
    if shown is None:
        return None
    return Claim("implementation_failure", "The run failed; no rule finds a symptom.", (shown,))


RULES: tuple[Callable[[Trace], Claim | None], ...] = (
    claimed_but_not_delivered,
    nothing_delivered,
    fails_alone,
    question_left_open,
    same_place,
    repetition,
    unexplained,
)
"""The rules in the order in which they are tried; the first that finds something decides."""


def judge(trace: Trace) -> Verdict:
    """Return the first rule's claim as primary; a broken commitment brings the bare failure too."""
    if trace.outcome.passed is True:
        return Verdict()
    for rule in RULES:
        if claim := rule(trace):
            second = nothing_delivered(trace) if rule is claimed_but_not_delivered else None
            return Verdict((claim, second) if second else (claim,), claim.code)
    return Verdict()


def _without_result(trace: Trace) -> dict[str, str]:
    """Return the agents that handed in an empty patch or crashed, each with what happened.

    An agent that the harness calls crashed but whose patch works alone did deliver.
    """
    crashed = {end.agent for end in trace.outcome.agents if end.crashed}
    works = {one.agent for one in trace.outcome.features if one.passed_alone}
    empty = {agent for agent, patch in trace.patches.items() if not patch.strip()}
    happened = dict.fromkeys(crashed - works, "it crashed")
    happened |= dict.fromkeys(empty, "its patch is empty")
    return {agent: happened[agent] for agent in trace.agents if agent in happened}


def _completion_claim(trace: Trace, agent: str) -> Quote | None:
    """Return the sentence in which an agent says, without hedge or condition, that it is done."""
    for message in spoken(trace):
        if message.sender != agent:
            continue
        reported = kind_of(message) in ("done", "completed")
        for quote in quotes_in(message):
            says_so = reported and len(quote.text.split()) >= 5
            if (says_so or _COMPLETED.search(quote.text)) and not _NOT_YET.search(quote.text):
                return quote
    return None


def _failure_quote(trace: Trace, agent: str) -> Quote | None:
    """Return what the harness says about an agent that delivered nothing."""
    errors = [end.error or "" for end in trace.outcome.agents if end.agent == agent]
    own = [one for one in trace.outcome.features if one.agent == agent]
    return (
        _telling_line(errors)
        or _first_line(errors)
        or _telling_line(_outputs(own))
        or _telling_line(_outputs(trace.outcome.features))
        or _first_line([trace.outcome.error or ""])
    )


def _outputs(features: Iterable[Feature]) -> list[str]:
    return [one.output for one in features if one.passed is not True]


def _telling_line(texts: Iterable[str]) -> Quote | None:
    """Return the line that says most about a failure: a failed test before a bare error."""
    best: tuple[int, str] | None = None
    for text in texts:
        for line in text[-MOST_OUTPUT:].split("\n")[len(text) > MOST_OUTPUT :]:
            rank = _rank(line)
            if rank is not None and (best is None or rank < best[0]) and (shown := clipped(line)):
                best = (rank, shown)
    return Quote(best[1], "outcome") if best else None


def _rank(line: str) -> int | None:
    if line.startswith("FAILED "):
        return 0
    if line.startswith(("E   ", "--- FAIL")):
        return 1
    if line.startswith(("ERROR ", "FAIL ", "panic:", "error:")):
        return 2
    return 3 if "Error: " in line or "Exception: " in line else None


def _first_line(texts: Iterable[str]) -> Quote | None:
    lines = (clipped(line) for text in texts for line in text[:MOST_OUTPUT].split("\n"))
    shown = next((line for line in lines if line), None)
    return Quote(shown, "outcome") if shown else None
