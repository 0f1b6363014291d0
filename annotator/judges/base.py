"""What every judge is, and what a run asks besides of one that spends money."""

import inspect
from collections.abc import Awaitable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, Protocol

from pydantic import ValidationError

from annotator.base.text import sanitize_line
from annotator.rubrics import Rubric
from annotator.rubrics.annotations import Usage, UsageRange, Verdict
from annotator.traces import Trace

ResponseFormat = Literal["auto", "strict", "json_schema", "tools", "named", "json"]
RESPONSE_FORMATS: tuple[ResponseFormat, ...] = (
    "auto",
    "strict",
    "json_schema",
    "tools",
    "named",
    "json",
)
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
        """Return the verdict on one trace, at once or, from an ``async def``, when it is there.

        What concerns this trace alone (a refusal, an answer cut off, a trace too long) is a verdict
        with ``error``. Raises ``JudgeStopped`` if no trace can be judged,
        ``BudgetReached`` if there is no money left for this one, and
        ``Pending`` if the answer comes later.
        """


MEMBERS = ("id", "settings", "codes", "judge")
"""Of :class:`Judge`."""


class PaidJudge(Judge, Protocol):
    """All that a run asks of a judge. :class:`FreeJudge` has what is more than a :class:`Judge`,
    for one that spends nothing; a judge from elsewhere may have any of it, see
    :class:`annotator.judges.hosted.HostedJudge`.
    """

    @property
    def overhead(self) -> Usage:
        """What it spent on no trace in particular."""

    @property
    def learned(self) -> Mapping[str, Any]:
        """What it found out when it was opened, for the manifest and a resumed run."""

    @property
    def state(self) -> str:
        """What there is to say about it on the progress line now, or ""."""

    @property
    def assumption(self) -> str:
        """What :meth:`expects` assumes, in words."""

    def recall(self, learned: Mapping[str, Any]) -> None:
        """Take up what it had learned in the run that is resumed."""

    def screens(self, rubric: Rubric) -> frozenset[str]:
        """Return the codes that it can find but whose absence from its verdicts says nothing: that
        it finds more than half of them was not shown on labelled runs. They have no share.
        """

    def expects(self, trace: Trace, rubric: Rubric) -> UsageRange:
        """Return what judging a trace is expected to use, without any call.

        Raises:
            AnnotatorError: it cannot be judged; the reason.
        """

    async def open(self, rubrics: Sequence[Rubric]) -> None:
        """Make ready to judge by these rubrics.

        Raises ``JudgeStopped`` if it cannot judge at all.
        """

    async def judge(self, trace: Trace, rubric: Rubric) -> Verdict:
        """As in :class:`Judge`."""

    async def close(self) -> None:
        """Let go of connections."""


class FreeJudge:
    """What a :class:`PaidJudge` has besides the members of a :class:`Judge`, of one that runs in
    this process, waits for nothing and is no screen.
    """

    overhead = Usage()
    learned: Mapping[str, Any] = MappingProxyType({})
    state = ""
    assumption = "no model is called"

    def recall(self, learned: Mapping[str, Any]) -> None:
        """Nothing was learned."""

    def screens(self, rubric: Rubric) -> frozenset[str]:
        """None."""
        return frozenset()

    def expects(self, trace: Trace, rubric: Rubric) -> UsageRange:
        """Nothing."""
        return UsageRange()

    async def open(self, rubrics: Sequence[Rubric]) -> None:
        """Nothing to make ready."""

    async def close(self) -> None:
        """Nothing to let go of."""


async def resolve(value: Any) -> Any:
    """Return a value, or what it resolves to if it has to be awaited."""
    return await value if inspect.isawaitable(value) else value


def describe_validation(error: ValidationError) -> str:
    """Return the first problem of a value as one line: the path of its field and the reason."""
    problem = error.errors(include_url=False, include_input=False)[0]
    path = ".".join(map(str, problem["loc"]))
    reason = sanitize_line(str(problem["msg"]).removeprefix("Value error, "), 300)
    return f"{path}: {reason}" if path else reason
