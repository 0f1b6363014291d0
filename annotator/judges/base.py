"""The protocol of a judge, and its parts that a run needs."""

import inspect
from abc import abstractmethod
from collections.abc import Awaitable, Collection, Mapping, Sequence
from typing import Any, Literal, Protocol, get_args

from annotator.rubrics import Rubric
from annotator.rubrics.annotations import Finding, Usage, UsageRange, Verdict
from annotator.traces import Trace

ResponseFormat = Literal["auto", "strict", "json_schema", "tools", "named", "json"]
RESPONSE_FORMATS: tuple[ResponseFormat, ...] = get_args(ResponseFormat)
"""The forms in which a model can be made to answer, the surest first; ``auto`` finds one."""

BUILT_IN = ("rules", "llm")
"""The judges of this tool."""


class Judge(Protocol):
    """Decides which codes of a rubric apply to a trace.

    What it says is only a claim: its quotes are checked afterwards, whoever the judge is.
    """

    @property
    def id(self) -> str:
        """The name in the annotations: ``rules``, ``llm:<model>``."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Everything that decides its answers, as JSON values, for the manifest and the judge's
        hash; no secrets.
        """

    def codes(self, rubric: Rubric) -> Collection[str]:
        """Return the codes that it can find; the share of any other is not known, never 0.

        Raises:
            AnnotatorError: it cannot judge by this rubric; the reason.
        """

    def judge(self, trace: Trace, rubric: Rubric) -> Verdict | Awaitable[Verdict]:
        """Return the verdict on one trace; may be an ``async def``.

        What concerns this trace alone (a refusal, an answer cut off, a trace too long) is a verdict
        with ``error``.

        Raises:
            JudgeStopped: no trace can be judged.
            BudgetReached: no money is left for this trace.
            Pending: the answer comes later.
        """


MEMBERS = ("id", "settings", "codes", "judge")
"""Of :class:`Judge`."""


class RunJudge(Judge):
    """A judge with all members that a run uses; by default it costs nothing and is no screen.

    A plug-in may have any of them (see :class:`annotator.judges.hosted.HostedJudge`).
    """

    @property
    def overhead(self) -> Usage:
        """Its usage outside any trace."""
        return Usage()

    @property
    def learned(self) -> Mapping[str, Any]:
        """Its findings about the endpoint, for the manifest and a resumed run."""
        return {}

    @property
    def state(self) -> str:
        """A note for the progress line, or ""."""
        return ""

    @property
    def assumption(self) -> str:
        """The assumption behind :meth:`expects`, for people."""
        return "no model is called"

    def recall(self, endpoint_state: Mapping[str, Any]) -> None:
        """Restore the :attr:`learned` of the run that is resumed."""

    def codes(self, rubric: Rubric) -> frozenset[str]:
        """Return all codes of the rubric."""
        return frozenset(code.id for code in rubric.codes)

    def screens(self, rubric: Rubric) -> frozenset[str]:
        """Return the codes that it can find and cannot rule out. They have no share."""
        return frozenset()

    def expects(self, trace: Trace, rubric: Rubric) -> UsageRange:
        """Estimate the usage of judging a trace, without any call.

        Raises:
            AnnotatorError: it cannot judge this trace; the reason.
        """
        return UsageRange()

    async def open(self, rubrics: Sequence[Rubric]) -> None:
        """Prepare to judge by these rubrics.

        Raises:
            JudgeStopped: it cannot judge at all.
        """

    @abstractmethod
    async def judge(self, trace: Trace, rubric: Rubric) -> Verdict:
        """As in :class:`Judge`."""

    async def review(
        self, verdict: Verdict, findings: Sequence[Finding], trace: Trace, rubric: Rubric
    ) -> Verdict:
        """Return the verdict with a critic's decisions about the ``findings`` that would count."""
        return verdict

    def record(self, trace: Trace, rubric: Rubric) -> None:
        """Mark the cost of the last verdict as recorded; its annotation is about to be written."""

    def drop(self, trace: Trace, rubric: Rubric) -> None:
        """Count the cost of the last verdict as overhead: it gets no annotation."""

    async def close(self) -> None:
        """Close connections."""


async def resolve(value: Any) -> Any:
    """Return a value, awaited if it is awaitable."""
    return await value if inspect.isawaitable(value) else value
