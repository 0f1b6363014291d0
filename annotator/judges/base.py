"""What every judge is."""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal, Protocol

from annotator.annotations import Usage, Verdict
from annotator.rubrics import Rubric
from annotator.traces import Trace

Mode = Literal["auto", "tools", "json_schema", "json"]
MODES: tuple[Mode, ...] = ("auto", "tools", "json_schema", "json")
"""The forms in which a model can be made to answer; ``auto`` finds one that works."""


class LocalJudge(ABC):
    """A judge that runs in this process and waits for nothing: only ``decide`` is its own."""

    id: str
    settings: Mapping[str, Any] = MappingProxyType({})
    overhead = Usage()
    learned: Mapping[str, Any] = MappingProxyType({})
    state = ""
    assumption = "no model is called"

    @abstractmethod
    def unsupported(self, rubric: Rubric) -> str | None:
        """As in :class:`Judge`."""

    @abstractmethod
    def codes(self, rubric: Rubric) -> frozenset[str]:
        """As in :class:`Judge`."""

    def screens(self, rubric: Rubric) -> frozenset[str]:
        """As in :class:`Judge`; none, unless a judge says which."""
        return frozenset()

    @abstractmethod
    def decide(self, trace: Trace, rubric: Rubric) -> Verdict:
        """Return the verdict on one trace."""

    async def judge(self, trace: Trace, rubric: Rubric) -> Verdict:
        """As in :class:`Judge`."""
        begun = time.monotonic()
        verdict = self.decide(trace, rubric)
        return replace(verdict, usage=Usage(seconds=round(time.monotonic() - begun, 6)))

    def expects(self, trace: Trace, rubric: Rubric) -> Usage:
        """As in :class:`Judge`."""
        return Usage()

    def recall(self, learned: Mapping[str, Any]) -> None:  # noqa: B027 - nothing was learned
        """As in :class:`Judge`."""

    async def open(self) -> None:  # noqa: B027 - nothing to make ready
        """As in :class:`Judge`."""

    async def close(self) -> None:  # noqa: B027 - nothing to let go of
        """As in :class:`Judge`."""


class Judge(Protocol):
    """Decides which codes of a rubric apply to a trace.

    What it says is only a claim: its quotes are checked afterwards, whoever the judge is.
    """

    @property
    def id(self) -> str:
        """The name in the annotations: ``rules``, ``llm:<model>``."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Everything that decides its answers, for the manifest; no secrets."""

    @property
    def overhead(self) -> Usage:
        """What it spent on no trace in particular."""

    @property
    def learned(self) -> Mapping[str, Any]:
        """What it found out when it was opened, for the manifest and a resumed run."""

    @property
    def state(self) -> str:
        """What there is to say about it on the progress line now, or ""."""

    def recall(self, learned: Mapping[str, Any]) -> None:
        """Take up what it had learned in the run that is resumed."""

    def unsupported(self, rubric: Rubric) -> str | None:
        """Return why it cannot judge by this rubric, or None if it can."""

    def codes(self, rubric: Rubric) -> frozenset[str]:
        """Return the codes that it can find; the share of any other is not known, never 0."""

    def screens(self, rubric: Rubric) -> frozenset[str]:
        """Return the codes that it can find but whose absence from its verdicts says nothing: that
        it finds more than half of them was not shown on labelled runs. They have no share.
        """

    def expects(self, trace: Trace, rubric: Rubric) -> Usage:
        """Return what judging a trace is expected to use, without any call.

        Raises:
            AnnotatorError: it cannot be judged; the reason.
        """

    @property
    def assumption(self) -> str:
        """What :meth:`expects` assumes, in words."""

    async def open(self) -> None:
        """Make ready. Raises :class:`~annotator.errors.JudgeStopped` if it cannot judge at all."""

    async def judge(self, trace: Trace, rubric: Rubric) -> Verdict:
        """Return the verdict on one trace.

        What concerns this trace alone (a refusal, an answer cut off, a trace too long) is a verdict
        with ``error``. Raises :class:`~annotator.errors.JudgeStopped` if no trace can be judged,
        :class:`~annotator.errors.BudgetReached` if there is no money left for this one, and
        :class:`~annotator.errors.Pending` if the answer comes later.
        """

    async def close(self) -> None:
        """Let go of connections."""
