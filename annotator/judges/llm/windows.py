"""What several windows on a conversation that is too long come to."""

from collections.abc import Sequence
from dataclasses import replace

from annotator.annotations import Claim, Verdict
from annotator.evidence import verify
from annotator.prompts import Prompt
from annotator.rubrics import Rubric
from annotator.traces import Trace


def merge(
    verdicts: Sequence[Verdict], prompts: Sequence[Prompt], trace: Trace, rubric: Rubric
) -> Verdict:
    """Return one verdict of those on several windows: for each code the first claim that stands,
    else the first. If a window could not be judged, the trace could not be.
    """
    truncated = _never_shown(prompts)
    for n, verdict in enumerate(verdicts, 1):
        if verdict.error:
            where = f"window {n} of {len(verdicts)}: " if len(verdicts) > 1 else ""
            return replace(verdict, error=where + verdict.error, truncated=truncated)
    if len(verdicts) == 1:
        return replace(verdicts[0], truncated=truncated)

    def stands(claim: Claim) -> bool:
        return not verify(claim, trace, rubric)[1]

    claims: dict[str, Claim] = {}
    for claim in (claim for verdict in verdicts for claim in verdict.claims):
        held = claims.get(claim.code)
        if held is None or (not stands(held) and stands(claim)):
            claims[claim.code] = claim
    return Verdict(tuple(claims.values()), truncated=truncated)


def leave_open(verdict: Verdict, prompt: Prompt, rubric: Rubric) -> Verdict:
    """Return the verdict without findings that say that something is missing from a conversation
    of which the prompt does not show all that follows; without others, it is undecided.
    """
    last = max(map(_message_number, prompt.truncated), default=0)

    def stands(claim: Claim) -> bool:
        quoted = [n for item in claim.evidence if (n := _message_number(item.source))]
        return not (quoted and last > min(quoted) and rubric.code(claim.code).shows_absence)

    kept = tuple(filter(stands, verdict.claims))
    if len(kept) == len(verdict.claims):
        return verdict
    words = f"whether an answer is missing is not known: message:{last} was not shown with it"
    return replace(verdict, claims=kept, undecided=None if kept else words)


def _message_number(source: str) -> int:
    kind, _, number = source.partition(":")
    return int(number) if kind == "message" else 0


def _never_shown(prompts: Sequence[Prompt]) -> dict[str, int]:
    """Return what is missing in every prompt that could have shown it; a window shows what it can
    of the rest of the trace and its own messages, so that a message is missing where it is cut.
    """
    missing: dict[str, int] = {}
    for prompt in prompts:
        for source, characters in prompt.truncated.items():
            missing[source] = min(characters, missing.get(source, characters))
    return missing
