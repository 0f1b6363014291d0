"""Several conversations about one trace: side by side, the first alone, and merged into one."""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any

from annotator.annotations import Claim, Verdict
from annotator.errors import Pending
from annotator.evidence import verify
from annotator.prompts import Prompt
from annotator.rubrics import Rubric
from annotator.traces import Trace


async def together(asked: Sequence[Coroutine[Any, Any, Verdict]]) -> list[Verdict]:
    """Return all results; each is awaited to its end, also if another one fails.

    Raises:
        Pending: one is pending and none failed. Else the first failure is raised.
    """
    if len(asked) == 1:
        return [await asked[0]]
    results = await asyncio.gather(*asked, return_exceptions=True)
    errors = [one for one in results if isinstance(one, BaseException)]
    for error in sorted(errors, key=lambda one: isinstance(one, Pending)):
        raise error
    return [one for one in results if isinstance(one, Verdict)]


class FirstAlone:
    """Lets the first call of a rubric go alone, so that the others find the prefix cached."""

    def __init__(self, first: dict[str, asyncio.Event], rubric: str, warms: bool) -> None:
        self._first, self._rubric, self._warms = first, rubric, warms
        self._mine: asyncio.Event | None = None

    async def __aenter__(self) -> None:
        if not self._warms:
            return
        if self._rubric in self._first:
            await self._first[self._rubric].wait()
        else:
            self._mine = self._first[self._rubric] = asyncio.Event()

    async def __aexit__(self, *_: object) -> None:
        if self._mine:
            self._mine.set()


def merged(
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


def _never_shown(prompts: Sequence[Prompt]) -> dict[str, int]:
    """Return what is missing in every prompt that could have shown it; a window shows what it can
    of the rest of the trace and its own messages, so that a message is missing where it is cut.
    """
    missing: dict[str, int] = {}
    for prompt in prompts:
        for source, characters in prompt.truncated.items():
            missing[source] = min(characters, missing.get(source, characters))
    return missing
