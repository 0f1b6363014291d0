"""Plug-in judges."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from annotator.base.errors import (
    AnnotatorError,
    BudgetReached,
    JudgeStopped,
    Pending,
    UnreadableTrace,
)
from annotator.base.plugins import describe_error
from annotator.base.text import describe_validation, replace_surrogates
from annotator.judges.base import MEMBERS, Judge, RunJudge, resolve
from annotator.rubrics import Rubric
from annotator.rubrics.annotations import Usage, UsageRange, Verdict
from annotator.traces import Trace

_VERDICT = TypeAdapter(
    tuple[Verdict], config=ConfigDict(revalidate_instances="always", allow_inf_nan=False)
)


def _ask(name: str, default: Any) -> Any:
    """Return a property with the value of the plug-in, or the default."""
    return property(lambda hosted: getattr(hosted._judge, name, default))


class HostedJudge(RunJudge):
    """A :class:`~annotator.judges.base.Judge` that is not ours.

    Its own ``screens``, ``open``, ``close``, ``expects``, ``assumption``, ``overhead``,
    ``learned``, ``recall`` and ``state`` are asked where it has them. Without ``expects`` its cost
    is not known, which is not 0.

    The judge is trusted. If :meth:`judge` raises, returns no valid verdict, or finds a code that it
    did not say it can find, that trace is ``failed``. A ``judge`` that is no ``async def`` runs in
    the thread of the event loop, one trace after another.

    Raises:
        AnnotatorError: a member is missing, or the settings are not JSON.
    """

    id = ""
    settings: Mapping[str, Any] = MappingProxyType({})
    learned = _ask("learned", {})
    state = _ask("state", "")
    recall = _ask("recall", lambda endpoint_state: None)
    assumption = _ask("assumption", "the judge does not say what it will use")

    def __init__(self, judge: Judge, origin: str) -> None:
        lacks = [member for member in MEMBERS if not hasattr(judge, member)]
        if isinstance(judge, type) or lacks:
            what = "it is a class" if isinstance(judge, type) else f"lacks {', '.join(lacks)}"
            name = getattr(judge, "__name__", type(judge).__name__)
            raise AnnotatorError(
                f"{name} is no judge: {what}; a judge is an object with {', '.join(MEMBERS)}"
            )
        self._judge = judge
        self.id = judge.id
        self._name = f"the judge {self.id!r}"
        try:
            text = json.dumps(dict(judge.settings), ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise AnnotatorError(f"{self._name}: settings: not JSON: {error}") from error
        # As it will be read again: a resumed run is compared with it.
        self.settings = {**json.loads(replace_surrogates(text)), "plugin": origin}

    def codes(self, rubric: Rubric) -> frozenset[str]:
        """Return the codes that it can find."""
        return frozenset(self._judge.codes(rubric))

    def screens(self, rubric: Rubric) -> frozenset[str]:
        """Return the codes that it can find and cannot rule out."""
        return self.codes(rubric).intersection(self._call("screens", (), rubric))

    async def judge(self, trace: Trace, rubric: Rubric) -> Verdict:
        """Return its validated verdict; raises only errors that stop a run."""
        begun = time.monotonic()
        try:
            verdict = _validate(await resolve(self._judge.judge(trace, rubric)))
        except (JudgeStopped, BudgetReached, Pending):
            raise
        except UnreadableTrace as error:  # steps that cannot be read, say
            verdict = Verdict(error=str(error), failure="unreadable")
        except ValidationError as error:
            reason = describe_validation(error).removeprefix("0.")  # of the tuple around it
            verdict = Verdict(error=f"{self._name} returned an invalid verdict: {reason}")
        except Exception as error:
            verdict = Verdict(error=f"{self._name} raised {describe_error(error)}")
        if not verdict.error and (problem := self._find_problem(verdict, rubric)):
            verdict = Verdict(error=f"{self._name} {problem}", usage=verdict.usage)
        seconds = verdict.usage.seconds or round(time.monotonic() - begun, 6)
        return replace(verdict, usage=replace(verdict.usage, seconds=seconds))

    @property
    def overhead(self) -> Usage:
        """Its usage outside any trace."""
        return _validate(Verdict(usage=getattr(self._judge, "overhead", Usage()))).usage

    def expects(self, trace: Trace, rubric: Rubric) -> UsageRange:
        """Return its estimate; without one the cost is unknown."""
        usage = self._call("expects", Usage(cost_usd=None), trace, rubric)
        return usage if isinstance(usage, UsageRange) else UsageRange(usage, usage)

    async def open(self, rubrics: Sequence[Rubric]) -> None:
        """Open the plug-in."""
        await resolve(self._call("open", None))

    async def close(self) -> None:
        """Close the plug-in."""
        await resolve(self._call("close", None))

    def _call(self, member: str, default: Any, *arguments: Any) -> Any:
        method = getattr(self._judge, member, None)
        return default if method is None else method(*arguments)

    def _find_problem(self, verdict: Verdict, rubric: Rubric) -> str | None:
        """Return an error about the codes of a verdict, or None."""
        if stray := set(_list_codes(verdict)) - self.codes(rubric):
            return f"found {min(stray)!r}, which is not among its codes for {rubric.id}"
        if verdict.primary not in {None, *(claim.code for claim in verdict.claims)}:
            return f"has no claim for its primary code {verdict.primary!r}"
        return None


def _validate(verdict: Any) -> Verdict:
    """Return a verdict with all fields validated; raises ValueError or TypeError."""
    if not isinstance(verdict, Verdict):
        raise TypeError(f"expected a Verdict, found {type(verdict).__name__}")
    [checked] = _VERDICT.validate_python((verdict,))
    checked.usage.check()
    return checked


def _list_codes(verdict: Verdict) -> Iterator[str]:
    """Yield the codes of a verdict and of its ballots."""
    yield from (claim.code for claim in verdict.claims)
    for ballot in verdict.ballots:
        yield from _list_codes(ballot.verdict)
