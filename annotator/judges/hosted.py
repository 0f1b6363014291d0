"""A judge from elsewhere, held to what a run needs of it."""

import asyncio
import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from annotator.annotations import Usage, UsageRange, Verdict
from annotator.errors import AnnotatorError, BudgetReached, JudgeStopped, Pending, UnreadableTrace
from annotator.judges.base import BUILT_IN, MEMBERS, FreeJudge, Judge, resolve
from annotator.plugins import describe
from annotator.rubrics import Rubric
from annotator.text import one_line, storable
from annotator.traces import Trace

_VERDICT = TypeAdapter(
    tuple[Verdict], config=ConfigDict(revalidate_instances="always", allow_inf_nan=False)
)
# Settings stand beside these in the manifest.
_TAKEN = ("id", "plugin")


class HostedJudge(FreeJudge):
    """A :class:`~annotator.judges.base.Judge` that is not ours, with the rest of what a run asks.

    Its own ``screens``, ``open``, ``close``, ``expects``, ``assumption``, ``overhead``,
    ``learned``, ``recall`` and ``state`` are asked where it has them. Without ``expects`` its cost
    is not known, which is not 0; without the others it screens for nothing and has nothing to say.

    A verdict that is none, or names a code that the judge did not say it can find, and any error of
    the judge's own make the trace ``failed``. A ``judge`` that is no ``async def`` is called in the
    thread of the event loop, one trace after another: it need not be safe for threads, and what it
    opened there it can use there. One that waits for a network should be an ``async def``; then as
    many are in flight as the run's concurrency allows.

    Raises:
        AnnotatorError: a member is missing, the id is empty or a built-in judge's, or the settings
            are not JSON.
    """

    def __init__(self, judge: Judge, origin: str) -> None:
        self._judge = judge
        self._codes: dict[tuple[str, str], frozenset[str]] = {}
        # Until its own is found to be one.
        self.id = judge.__name__ if isinstance(judge, type) else type(judge).__name__
        with self._blaming("id and settings"):
            lacks = [member for member in MEMBERS if not hasattr(judge, member)]
            if isinstance(judge, type) or lacks:
                what = "it is a class" if isinstance(judge, type) else f"lacks {', '.join(lacks)}"
                raise AnnotatorError(
                    f"{self.id} is no judge: {what}; a judge is an object with {', '.join(MEMBERS)}"
                )
            self.id = self._checked_id(judge.id)
            self.settings = {**self._json(judge.settings, "settings"), "plugin": origin}

    def codes(self, rubric: Rubric) -> frozenset[str]:
        """Return the codes that it can find.

        Raises:
            AnnotatorError: it raises, finds none of the rubric's codes, or names another.
        """
        key = (rubric.id, rubric.sha256)
        if key not in self._codes:
            with self._blaming("codes"):
                codes = self._checked_codes(self._judge.codes(rubric), rubric, "codes")
            if not codes:
                raise AnnotatorError(f"{self._name} finds no code of the rubric {rubric.id}")
            self._codes[key] = codes
        return self._codes[key]

    def screens(self, rubric: Rubric) -> frozenset[str]:
        """Return the codes that it only screens for; raises as :meth:`codes`."""
        with self._blaming("screens"):
            codes = self._checked_codes(self._call("screens", (), rubric), rubric, "screens")
        return codes & self.codes(rubric)

    async def judge(self, trace: Trace, rubric: Rubric) -> Verdict:
        """Return its verdict, checked; raises only what stops a run."""
        begun = time.monotonic()
        try:
            verdict = self._checked(await resolve(self._judge.judge(trace, rubric)), rubric)
        except (JudgeStopped, BudgetReached, Pending):
            raise
        except AnnotatorError as error:  # of the trace: steps that cannot be read, say
            unreadable = isinstance(error, UnreadableTrace)
            verdict = Verdict(error=str(error), failure="unreadable" if unreadable else None)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task and task.cancelling():  # the run was stopped
                raise
            verdict = self._raised(error)  # else the trace would be left out in silence
        except (Exception, SystemExit) as error:
            verdict = self._raised(error)
        if verdict.usage.seconds:
            return verdict
        seconds = round(time.monotonic() - begun, 6)
        return replace(verdict, usage=replace(verdict.usage, seconds=seconds))

    @property
    def overhead(self) -> Usage:  # type: ignore[override]
        """What it says that it spent on no trace."""
        with self._blaming("overhead"):
            usage = getattr(self._judge, "overhead", Usage())
            if not isinstance(usage, Usage):
                raise JudgeStopped(f"{self._name}: overhead: expected a Usage, found {usage!r}")
            [checked] = _VERDICT.validate_python((Verdict(usage=usage),))
            checked.usage.check()
        return checked.usage

    @property
    def learned(self) -> Mapping[str, Any]:  # type: ignore[override]
        """What it says that it learned."""
        with self._blaming("learned"):
            return self._json(getattr(self._judge, "learned", {}), "learned")

    @property
    def state(self) -> str:  # type: ignore[override]
        """What it says on the progress line."""
        with self._blaming("state"):
            return one_line(str(getattr(self._judge, "state", "")))

    @property
    def assumption(self) -> str:  # type: ignore[override]
        """What it assumes of its use."""
        with self._blaming("assumption"):
            unknown = f"{self._name} does not say what it will use"
            return one_line(str(getattr(self._judge, "assumption", unknown)))

    def recall(self, learned: Mapping[str, Any]) -> None:
        """Hand it what it had learned."""
        with self._blaming("recall"):
            self._call("recall", None, learned)

    def expects(self, trace: Trace, rubric: Rubric) -> UsageRange:
        """Return what it expects to use; a cost that is not known, unless it says so."""
        with self._blaming("expects"):
            usage = self._call("expects", Usage(cost_usd=None), trace, rubric)
            if not isinstance(usage, Usage | UsageRange):
                raise AnnotatorError(
                    f"{self._name}: expects: found {usage!r}, expected a Usage or a UsageRange"
                )
        return usage if isinstance(usage, UsageRange) else UsageRange(usage, usage)

    async def open(self, rubrics: Sequence[Rubric]) -> None:
        """Open it. Raises JudgeStopped if it raises."""
        with self._blaming("open"):
            await resolve(self._call("open", None))

    async def close(self) -> None:
        """Close it. Raises JudgeStopped if it raises."""
        with self._blaming("close"):
            await resolve(self._call("close", None))

    @property
    def _name(self) -> str:
        return f"the judge {self.id!r}"

    def _call(self, member: str, default: Any, *arguments: Any) -> Any:
        method = getattr(self._judge, member, None)
        return default if method is None else method(*arguments)

    @contextmanager
    def _blaming(self, member: str) -> Iterator[None]:
        """Make one sentence of whatever its code raises."""
        try:
            yield
        except AnnotatorError:
            raise
        except (Exception, SystemExit) as error:
            raise JudgeStopped(f"{self._name}: {member}: it raised {describe(error)}") from error

    def _raised(self, error: BaseException) -> Verdict:
        return Verdict(error=f"{self._name} raised {describe(error)}")

    def _checked(self, verdict: Any, rubric: Rubric) -> Verdict:
        """Return a verdict as it was given, or why it is none."""
        if not isinstance(verdict, Verdict):
            kind = type(verdict).__name__
            return Verdict(error=f"{self._name} returned {kind}, expected a Verdict")
        try:
            [checked] = _VERDICT.validate_python((verdict,))
            checked.usage.check()
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"][1:]))
            return Verdict(error=f"{self._name} returned a wrong Verdict: {where}: {first['msg']}")
        except ValueError as error:  # it could not be read again
            return Verdict(error=f"{self._name} returned a wrong Verdict: usage.{error}")
        if checked.error is None and (reason := self._stray_code(checked, rubric)):
            return Verdict(error=f"{self._name} {reason}", usage=checked.usage)
        return checked

    def _stray_code(self, verdict: Verdict, rubric: Rubric) -> str | None:
        """Return what is wrong with the codes of a verdict, or None."""
        for ballot in verdict.ballots:
            if reason := self._stray_code(ballot.verdict, rubric):
                return reason
        claimed = [claim.code for claim in verdict.claims]
        for code in claimed:
            if code not in {item.id for item in rubric.codes}:
                return f"found {code!r}, which the rubric {rubric.id} does not have"
            if code not in self.codes(rubric):
                return f"found {code!r}, which is not among its codes for {rubric.id}"
        if verdict.primary is not None and verdict.primary not in claimed:
            return f"calls {verdict.primary!r} primary and has no claim of it"
        return None

    def _checked_id(self, judge_id: Any) -> str:
        if not isinstance(judge_id, str) or not judge_id or judge_id != one_line(judge_id, 200):
            raise AnnotatorError(
                f"{self.id}: id: expected a name of one line for the annotations,"
                f" found {one_line(repr(judge_id))}"
            )
        if judge_id.partition(":")[0] in BUILT_IN:
            raise AnnotatorError(
                f"{self.id}: id: {judge_id!r} is the name of a built-in judge; take another"
            )
        return judge_id

    def _checked_codes(self, codes: Any, rubric: Rubric, member: str) -> frozenset[str]:
        if not isinstance(codes, Collection) or isinstance(codes, (str, bytes)):
            raise AnnotatorError(
                f"{self._name}: {member}: expected a set of codes, found {type(codes).__name__}"
            )
        ids = [code.id for code in rubric.codes]
        for code in codes:
            if code not in ids:
                raise AnnotatorError(
                    f"{self._name}: {member}: the rubric {rubric.id} has no code {code!r}; it has"
                    f" {', '.join(ids)}"
                )
        return frozenset(codes)

    def _json(self, value: Any, member: str) -> dict[str, Any]:
        """Return a mapping as it will be read again: a resumed run is compared with it."""
        where = f"{self._name}: {member}"
        if not isinstance(value, Mapping):
            raise AnnotatorError(f"{where}: expected a mapping, found {type(value).__name__}")
        try:
            text = json.dumps(dict(value), ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise AnnotatorError(f"{where}: it cannot be stored as JSON: {error}") from error
        stored: dict[str, Any] = json.loads(storable(text))
        if member == "settings":
            self._check_names(stored, where)
        return stored

    @staticmethod
    def _check_names(settings: Mapping[str, Any], where: str) -> None:
        for name in _TAKEN:
            if name in settings:
                raise AnnotatorError(f"{where}: {name!r} is the tool's own; take another name")
        if not isinstance(settings.get("prompt_sha256", ""), str):
            raise AnnotatorError(f"{where}: prompt_sha256: expected a hash as text")
