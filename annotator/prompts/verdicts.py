"""Verdicts on the windows of a long conversation, merged into one."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, zip_longest

from annotator.prompts.render import Prompt
from annotator.rubrics import Rubric
from annotator.rubrics.annotations import Claim, Evidence, Verdict


def merge_verdicts(
    verdicts: Sequence[Verdict], prompts: Sequence[Prompt], rubric: Rubric
) -> Verdict:
    """Return one verdict for all windows.

    It holds every claim with evidence, one of each code before more of any; for a code without
    such a claim, its first. If a window could not be judged, neither could the trace. A single
    window goes through :func:`mark_undecided`.
    """
    truncated = _count_hidden(prompts)
    for n, verdict in enumerate(verdicts, 1):
        if verdict.error:
            where = f"window {n} of {len(verdicts)}: " if len(verdicts) > 1 else ""
            return replace(verdict, error=where + verdict.error, truncated=truncated)
    if len(verdicts) == 1:
        verdict = replace(verdicts[0], truncated=truncated) if truncated else verdicts[0]
        return mark_undecided(verdict, prompts[0], rubric)

    by_code: dict[str, dict[tuple[Evidence, ...], Claim]] = {}
    for claim in (claim for verdict in verdicts for claim in verdict.claims):
        by_code.setdefault(claim.code, {}).setdefault(claim.evidence, claim)
    standing = [[c for c in claims.values() if c.evidence] for claims in by_code.values()]
    in_turn = chain.from_iterable(zip_longest(*standing))
    rest = (claims[()] for claims in by_code.values() if claims.keys() == {()})
    return Verdict((*filter(None, in_turn), *rest), truncated=truncated)


def mark_undecided(verdict: Verdict, prompt: Prompt, rubric: Rubric) -> Verdict:
    """Return the verdict, left open if a finding says that something is missing from messages that
    the prompt does not show in full.
    """
    last = max(map(_parse_message_number, prompt.truncated), default=0)

    def is_unknown(claim: Claim) -> bool:
        absence = rubric.code(claim.code).shows_absence
        quoted = [n for item in claim.evidence if (n := _parse_message_number(item.source))]
        first = min(quoted, default=0) if absence == "after" else 0
        return bool(absence and claim.evidence and last > first)

    codes = " and ".join(claim.code for claim in verdict.claims if is_unknown(claim))
    reason = f"whether it is {codes} is not known: message:{last} was not shown in full"
    return replace(verdict, left_open=reason) if codes else verdict


def mark_unseen(verdict: Verdict, prompt: Prompt, proposed: Sequence[Claim]) -> Verdict:
    """Return the verdict on proposed findings, left open if one is not confirmed whose quotes the
    prompt does not show in full.
    """
    gaps = {section.id: section.gaps for section in prompt.parts}

    def is_hidden(item: Evidence) -> bool:
        cut = gaps.get(item.source, ((item.start, item.end),))
        return any(start < item.end and item.start < end for start, end in cut)

    codes = {claim.code for claim in verdict.claims}
    unseen = [c.code for c in proposed if c.code not in codes and any(map(is_hidden, c.evidence))]
    names = " and ".join(dict.fromkeys(unseen))
    reason = f"whether it is {names} is not known: there was no room for its quotes"
    return replace(verdict, left_open=reason) if unseen else verdict


def _parse_message_number(source: str) -> int:
    kind, _, number = source.partition(":")
    return int(number) if kind == "message" else 0


def _count_hidden(prompts: Sequence[Prompt]) -> dict[str, int]:
    """Return the characters of each source that no prompt shows."""
    missing: dict[str, int] = {}
    for prompt in prompts:
        for source, characters in prompt.truncated.items():
            missing[source] = min(characters, missing.get(source, characters))
    return missing
