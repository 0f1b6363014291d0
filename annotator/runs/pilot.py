"""A few traces judged for real, to say what all of them would take."""

import asyncio
import math
import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from annotator.annotations import Usage
from annotator.errors import AnnotatorError, BudgetReached
from annotator.rubrics import Rubric
from annotator.runs.annotate import annotate
from annotator.runs.execute import Forecast, Plan, first_error, not_for
from annotator.traces import Ignored, Trace, Unreadable
from validation.intervals import quantile

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Projection:
    """A total over all traces, and the interval in which it lies with 95 % confidence, None where
    too few traces were judged to say.
    """

    total: float
    low: float | None = None
    high: float | None = None


@dataclass(slots=True)
class Pilot:
    """What a sample of the traces used.

    ``of``: the traces about which a run would ask a model, from which those in ``usages`` were
    drawn with ``seed``. ``failed``: judgements that failed. ``overhead``: what was used for no
    trace, such as finding the form of answers.
    """

    seed: int
    of: int
    usages: list[Usage] = field(default_factory=list)
    failed: int = 0
    overhead: Usage = field(default_factory=Usage)

    @property
    def used(self) -> Usage:
        """What it used in all."""
        return sum(self.usages, start=self.overhead)

    def project(self, count: Callable[[Usage], float | None]) -> Projection | None:
        """Return the total of a count over all traces; None where it is not known for each."""
        values = [value for usage in self.usages if (value := count(usage)) is not None]
        return extrapolate(values, self.of) if len(values) == len(self.usages) else None


def extrapolate(values: Sequence[float], of: int) -> Projection:
    """Return the total of ``of`` values, of which these were drawn at random without replacement.

    The interval is Student's for their mean, with the correction for a finite population: it has no
    width where all were drawn, and is not defined for a single one. The total is not less than that
    of the values themselves.
    """
    n, total = len(values), math.fsum(values)
    if n == of:
        return Projection(total, total, total)
    mean = total / n
    if n < 2:
        return Projection(of * mean)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half = quantile(CONFIDENCE, n - 1) * of * deviation * math.sqrt((1 - n / of) / n)
    return Projection(of * mean, max(of * mean - half, total), of * mean + half)


@dataclass(slots=True)
class NoRun:
    """Stands for the run that judges of models judge in: nothing of it is recorded."""

    folder: Path = field(default_factory=Path)
    dearest: float = 0.0
    in_shards: bool = False
    spent_dollars: float = 0.0
    id: str = field(default_factory=lambda: f"pilot-{uuid.uuid4().hex}")

    def is_done(self, trace_id: str, rubric: str) -> bool:
        """Nothing is."""
        return False

    def spent(self, overhead: Usage, learned: Mapping[str, Any]) -> None:
        """Nothing is kept."""


async def run_pilot(
    plan: Plan,
    expected: Forecast,
    most: int,
    seed: int,
    is_done: Callable[[str, str], bool],
) -> Pilot:
    """Judge ``most`` of the traces about which a model is ``expected`` to be asked, as a run would,
    and record nothing.

    Raises:
        AnnotatorError: nothing would be asked, no trace drawn can be read any more, the judge had
            to stop, or there is not enough money.
    """
    if not expected.asked:
        why = expected.unread or expected.reason
        first = f"; the first that cannot be read or judged: {why}" if why else ""
        raise AnnotatorError(f"--pilot: nothing would be asked{first}")
    names = sorted(expected.asked)
    drawn = set(random.Random(seed).sample(names, min(most, len(names))))  # noqa: S311
    pilot = Pilot(seed, len(names))
    spent: list[BudgetReached] = []
    room = asyncio.Semaphore(plan.concurrency)

    async def judge(trace: Trace, rubrics: list[Rubric]) -> None:
        usage = Usage()
        try:
            for rubric in rubrics:
                annotation = await annotate(trace, rubric, plan.judge)
                usage += annotation.usage
                pilot.failed += annotation.status == "failed"
        except BudgetReached as error:  # those in flight are answered, and kept
            spent.append(error)
            return
        finally:
            room.release()
        pilot.usages.append(usage)

    unread = ""
    try:
        await plan.judge.open(plan.rubrics)
        async with asyncio.TaskGroup() as tasks:
            for item in plan.traces.find():
                if isinstance(item, Unreadable):
                    unread = unread or f" ({item.path or item.id}: {item.reason})"
                if isinstance(item, Ignored | Unreadable) or item.id not in drawn or spent:
                    continue
                drawn.discard(item.id)
                await room.acquire()
                rubrics = [
                    rubric
                    for rubric in plan.rubrics
                    if not is_done(item.id, rubric.id) and not not_for(item, rubric, plan.only)
                ]
                tasks.create_task(judge(item, rubrics))
    except BaseExceptionGroup as group:
        raise first_error(group, AnnotatorError) from group
    finally:
        pilot.overhead = plan.judge.overhead
        await plan.judge.close()
    if spent:
        raise spent[0]
    if not pilot.usages:
        raise AnnotatorError(f"--pilot: no trace drawn can be read now{unread}; try again")
    return pilot
