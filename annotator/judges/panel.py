"""Several votes on each trace: by several models, or by one model asked several times."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from annotator.base.errors import Pending
from annotator.judges.base import RunJudge
from annotator.judges.llm.judge import JudgeCall, LLMJudge, gather_all
from annotator.rubrics import Rubric
from annotator.rubrics.annotations import Ballot, Require, Usage, UsageRange, Verdict
from annotator.traces import Trace


class Panel(RunJudge):
    """Asks each member ``samples`` times about every trace.

    It returns the ballots. :func:`annotator.runs.votes.elect` counts them once their quotes are
    verified; a code needs the share of votes that ``require`` names.
    """

    def __init__(
        self, members: Sequence[LLMJudge], samples: int = 1, require: Require = "majority"
    ) -> None:
        self.members = tuple(members)
        self.samples = samples
        self.require = require

    @property
    def _numbers(self) -> range:
        first = self.members[0].session.first_sample
        return range(first, first + self.samples)

    @property
    def id(self) -> str:
        """``llm:<model>`` for one model, ``llm:<model>+<model>`` for several."""
        return "llm:" + "+".join(member.options.model for member in self.members)

    @property
    def settings(self) -> Mapping[str, Any]:
        """See :attr:`annotator.judges.base.RunJudge.settings`."""
        settings = [dict(member.settings) for member in self.members]
        prompts = {item.pop("prompt_sha256") for item in settings}
        # Named only where it is asked for, so that runs from before there was a choice go on.
        require = {} if self.require == "majority" else {"require": self.require}
        return {
            "samples": self.samples,
            **require,
            "models": settings,
            "prompt_sha256": prompts.pop(),
        }

    @property
    def overhead(self) -> Usage:
        """See :attr:`annotator.judges.base.RunJudge.overhead`."""
        return sum((member.overhead for member in self.members), start=Usage())

    @property
    def learned(self) -> Mapping[str, Any]:
        """``learned`` of each member, by its id."""
        return {member.id: dict(member.learned) for member in self.members}

    @property
    def state(self) -> str:
        """The state of the rate limiter that the members share."""
        return self.members[0].state

    def recall(self, endpoint_state: Mapping[str, Any]) -> None:
        """See :meth:`annotator.judges.base.RunJudge.recall`."""
        for member in self.members:
            state = endpoint_state.get(member.id)
            member.recall(state if isinstance(state, Mapping) else {})

    def expects(self, trace: Trace, rubric: Rubric) -> UsageRange:
        """See :meth:`annotator.judges.base.RunJudge.expects`."""
        votes = (
            member.forecast(trace, rubric, sample)
            for member in self.members
            for sample in self._numbers
        )
        return sum(votes, start=UsageRange())

    @property
    def assumption(self) -> str:
        """See :attr:`annotator.judges.base.RunJudge.assumption`."""
        return "; ".join(member.assumption for member in self.members)

    async def open(self, rubrics: Sequence[Rubric]) -> None:
        """See :meth:`annotator.judges.base.RunJudge.open`."""
        opening = [asyncio.ensure_future(member.open(rubrics)) for member in self.members]
        try:
            await asyncio.gather(*opening)
        finally:  # where one fails, what the others have asked by then is counted
            for task in opening:
                task.cancel()
            await asyncio.gather(*opening, return_exceptions=True)

    async def close(self) -> None:
        """See :meth:`annotator.judges.base.RunJudge.close`."""
        async with AsyncExitStack() as closing:  # all of them, where the task is cancelled too
            for member in self.members:
                closing.push_async_callback(member.close)

    async def judge(self, trace: Trace, rubric: Rubric) -> Verdict:
        """Return all ballots, those of the first member first; raises as its members do."""
        calls = [
            [JudgeCall(trace, rubric, sample) for sample in self._numbers] for _ in self.members
        ]
        try:
            answers = await gather_all(
                [self._ask(*request) for request in zip(self.members, calls, strict=True)]
            )
        except Pending:
            raise
        except BaseException:  # the others' votes will not be recorded
            self.drop(trace, rubric)
            raise
        ballots = [
            Ballot(member.id, sample, verdict)
            for member, verdicts in zip(self.members, answers, strict=True)
            for sample, verdict in enumerate(verdicts, 1)
        ]
        return Verdict(
            usage=sum((ballot.verdict.usage for ballot in ballots), start=Usage()),
            ballots=tuple(ballots),
            require=self.require,
        )

    def record(self, trace: Trace, rubric: Rubric) -> None:
        """See :meth:`annotator.judges.base.RunJudge.record`."""
        for member in self.members:
            member.record(trace, rubric)

    def drop(self, trace: Trace, rubric: Rubric) -> None:
        """See :meth:`annotator.judges.base.RunJudge.drop`."""
        for member in self.members:
            member.drop(trace, rubric)

    async def _ask(self, member: LLMJudge, judge_calls: Sequence[JudgeCall]) -> list[Verdict]:
        """Return a member's verdicts."""
        # The first call fills the provider's cache for the others.
        alone = 1 if member.warms and not member.outbox else len(judge_calls)
        first = await gather_all([member.decide(each) for each in judge_calls[:alone]])
        return first + await gather_all([member.decide(each) for each in judge_calls[alone:]])
