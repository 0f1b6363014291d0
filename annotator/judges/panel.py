"""Several voters in place of one: several models, or one model asked several times."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from annotator.annotations import Ballot, Usage, Verdict
from annotator.errors import Pending
from annotator.judges.llm import Judgement, LLMJudge, together
from annotator.rubrics import Rubric
from annotator.traces import Trace


class Panel:
    """Asks each of its members ``samples`` times about every trace.

    It decides nothing: it hands on the ballots, and what they elect is found out when their quotes
    have been checked (:func:`annotator.runs.votes.elect`).
    """

    def __init__(self, members: Sequence[LLMJudge], samples: int = 1) -> None:
        self.members = tuple(members)
        self.samples = samples

    @property
    def id(self) -> str:
        """``llm:<model>`` for one model, ``llm:<model>+<model>`` for several."""
        return "llm:" + "+".join(member.options.model for member in self.members)

    @property
    def settings(self) -> Mapping[str, Any]:
        """See :attr:`annotator.judges.base.PaidJudge.settings`."""
        settings = [dict(member.settings) for member in self.members]
        prompts = {part.pop("prompt_sha256") for part in settings}
        return {"samples": self.samples, "models": settings, "prompt_sha256": prompts.pop()}

    @property
    def overhead(self) -> Usage:
        """See :attr:`annotator.judges.base.PaidJudge.overhead`."""
        return sum((member.overhead for member in self.members), start=Usage())

    @property
    def learned(self) -> Mapping[str, Any]:
        """What each member learned, by its id."""
        return {member.id: dict(member.learned) for member in self.members}

    @property
    def state(self) -> str:
        """The members share one pace."""
        return self.members[0].state

    def recall(self, learned: Mapping[str, Any]) -> None:
        """See :meth:`annotator.judges.base.PaidJudge.recall`."""
        for member in self.members:
            member.recall(learned.get(member.id, {}))

    def codes(self, rubric: Rubric) -> frozenset[str]:
        """A model can give any code."""
        return frozenset(code.id for code in rubric.codes)

    def screens(self, rubric: Rubric) -> frozenset[str]:
        """See :meth:`annotator.judges.llm.LLMJudge.screens`."""
        return frozenset()

    def expects(self, trace: Trace, rubric: Rubric) -> Usage:
        """See :meth:`annotator.judges.base.PaidJudge.expects`."""
        votes = (
            member.forecast(trace, rubric, sample)
            for member in self.members
            for sample in range(1, self.samples + 1)
        )
        return sum(votes, start=Usage())

    @property
    def assumption(self) -> str:
        """See :attr:`annotator.judges.base.PaidJudge.assumption`."""
        return "; ".join(member.assumption for member in self.members)

    async def open(self, rubrics: Sequence[Rubric]) -> None:
        """See :meth:`annotator.judges.base.PaidJudge.open`."""
        await asyncio.gather(*(member.open(rubrics) for member in self.members))

    async def close(self) -> None:
        """See :meth:`annotator.judges.base.PaidJudge.close`."""
        await asyncio.gather(*(member.close() for member in self.members))

    async def judge(self, trace: Trace, rubric: Rubric) -> Verdict:
        """Return all ballots, those of the first member first; raises as its members do."""
        asked = [
            (member, Judgement(trace, rubric, sample))
            for member in self.members
            for sample in range(1, self.samples + 1)
        ]
        done: list[tuple[LLMJudge, Judgement]] = []

        async def voted(member: LLMJudge, judgement: Judgement) -> Verdict:
            verdict = await member.decide(judgement)
            done.append((member, judgement))
            return verdict

        try:
            verdicts = await together([voted(*request) for request in asked])
        except Pending:
            raise
        except BaseException:  # the others' votes will not be recorded
            for member, judgement in done:
                member.drop(judgement)
            raise
        for (member, judgement), verdict in zip(asked, verdicts, strict=True):
            member.file(judgement, verdict)
        if 2 * sum(verdict.error is None for verdict in verdicts) <= len(verdicts):
            # The trace will be failed and judged again, with the votes that stand.
            for member, judgement in done:
                member.accounted(judgement)
        ballots = tuple(
            Ballot(member.id, judgement.sample, verdict)
            for (member, judgement), verdict in zip(asked, verdicts, strict=True)
        )
        return Verdict(
            usage=sum((verdict.usage for verdict in verdicts), start=Usage()), ballots=ballots
        )
