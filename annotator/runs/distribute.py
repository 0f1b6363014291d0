"""A run whose traces are judged by an engine: read here, judged there, recorded here."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from annotator.annotations import Annotation, Usage
from annotator.errors import AnnotatorError, BudgetReached, SettingsError
from annotator.judges.build import BuiltJudge, ModelSettings
from annotator.rubrics import Rubric
from annotator.runs.engines import Engine, Outstanding
from annotator.runs.execute import Plan, Seen, list_unjudged, need_traces
from annotator.runs.parts import Part, make_part_folder, read_part, remove_part
from annotator.runs.store import RunDirectory
from annotator.runs.tasks import Task, TaskTerms, error_of, lease, name_task, run_task
from annotator.text import one_line
from annotator.traces import Ignored, Trace
from annotator.traces.lines import dump_trace

TASK = 50  # traces
_LOOK = 0.02  # seconds between two looks at what is done
_AHEAD = 2  # tasks that are begun for each slot, so that none waits for the next
_ATTEMPTS = 3  # of a task whose result an engine could not give
_MARGIN = 1.5  # of what judgements cost so far is what the next ones may need


@dataclass(slots=True)
class _Begun:
    """A task that was begun: with how much money (``alone``: with all that is left, and when the
    others had ended), and how often.
    """

    task: Task
    outstanding: Outstanding
    dollars: float
    alone: bool
    attempts: int = 1


@dataclass
class Distribution:
    """Reads the traces of a plan, has an engine judge them in tasks, and records what comes back.

    Money: what is left of ``--max-cost`` is leased to tasks, each a part; what a task does not use
    comes back with it. A task that ran out of its part is gone on with when the others have brought
    theirs back, with all that is left. So no more is spent than is left, but for what calls in
    flight cost more than expected. Rates and calls in flight are divided by the slots.
    """

    plan: Plan
    run: RunDirectory
    built: BuiltJudge
    engine: Engine
    recorded: Callable[[Annotation], None]
    _begun: list[_Begun] = field(default_factory=list, init=False)
    _overhead: Usage = field(default_factory=Usage, init=False)
    _learned: Mapping[str, Any] = field(default_factory=dict, init=False)
    _judged: int = field(default=0, init=False)  # judgements that came back, for their mean cost
    _later: list[tuple[list[str], tuple[Rubric, ...]]] = field(default_factory=list, init=False)
    _stopped: AnnotatorError | None = field(default=None, init=False)  # why a task had to stop

    def __post_init__(self) -> None:
        self._before = self.run.spent_dollars
        session = self.built.session
        if session and session.in_batches:
            raise SettingsError(
                "--engine and --workers ask at once: leave --batch and its files out"
            )

    async def work(self) -> Seen:
        """Judge what the run has no annotation for yet; see :func:`annotator.runs.execute.execute`.

        Raises:
            AnnotatorError: as that does, or the engine cannot do a task.
        """
        seen, judge = Seen(), self.plan.judge
        waiting: dict[tuple[Rubric, ...], list[str]] = {}
        sends_steps = _needs_steps(self.plan)
        try:
            await judge.open(self.plan.rubrics)
            self._overhead, self._learned = judge.overhead, dict(judge.learned)
        finally:
            self._note(judge.overhead)
            await judge.close()
        for item in self.plan.traces.find():
            await asyncio.sleep(0)
            if isinstance(item, Ignored):
                seen.ignore(item)
                continue
            if self.plan.limit is not None and seen.traces >= self.plan.limit:
                break
            seen.add(item)
            rubrics = tuple(list_unjudged(item, self.plan, self.run.is_done, self._record))
            if rubrics and isinstance(item, Trace):
                lines = waiting.setdefault(rubrics, [])
                lines.append(dump_trace(item, steps=sends_steps))
                if len(lines) == TASK:
                    await self._send(waiting.pop(rubrics), rubrics)
        for rubrics, lines in waiting.items():
            await self._send(lines, rubrics)
        while self._begun or self._later:
            await self._collect_all()
        need_traces(self.plan, seen)
        return seen

    async def _send(
        self, lines: list[str], rubrics: tuple[Rubric, ...], *, alone: bool = False
    ) -> None:
        """Begin a task when there is room, and money, for it."""
        most = self.engine.slots
        slots = min(most, self.plan.concurrency) if self.built.session else most
        while len(self._begun) >= (slots if slots < most else _AHEAD * slots):
            await self._collect()
        if self._stopped or (self._later and not alone):
            await self._collect_all()
        while True:
            dollars = self._lease(len(lines) * len(rubrics), slots, alone)
            if dollars is None or dollars > 0:
                break
            if not self._begun:
                raise self._out_of_money()
            await self._collect()
        terms = TaskTerms(
            rubrics,
            lease(self.built.source, dollars, slots),
            self.plan.only,
            max(1, self.plan.concurrency // slots),
            self.plan.standards,
            self._learned,
        )
        name = name_task(self.run.id, lines, rubrics)
        folder = make_part_folder(self.run.folder.absolute(), name)
        failed = self.run.failed_before
        task = Task(tuple(lines), terms, folder, self.run.id, self.run.dearest, failed)
        self._begun.append(_Begun(task, self._submit(task), dollars or 0.0, alone))

    def _submit(self, task: Task) -> Outstanding:
        try:
            return self.engine.submit(run_task, task)
        except AnnotatorError:
            raise
        except Exception as error:  # its scheduler is gone, say
            what = f"{type(error).__name__}: {one_line(str(error), 300)}"
            raise AnnotatorError(f"the engine takes no task any more: {what}") from error

    def _lease(self, judgements: int, slots: int, alone: bool) -> float | None:
        """Return the dollars for a task of so many judgements; None if nothing bounds them."""
        settings = self.built.source
        if not isinstance(settings, ModelSettings) or settings.max_cost is None:
            return None
        left = (
            settings.max_cost - self.run.spent_dollars - sum(begun.dollars for begun in self._begun)
        )
        if alone:
            return left
        if self._judged:
            mean = (self.run.spent_dollars - self._before) / self._judged
            return min(left, _MARGIN * mean * judgements + self.run.dearest)
        return left / (_AHEAD * slots)  # nothing is known yet: what is left, fairly divided

    async def _collect_all(self) -> None:
        """Wait for all tasks, then for one after another of those that were put off.

        Raises:
            AnnotatorError: a task had to stop; what the others have judged is recorded first.
        """
        while self._begun:
            await self._collect()
        if self._stopped:
            raise self._stopped
        while self._later:
            await self._send(*self._later.pop(), alone=True)
            while self._begun:
                await self._collect()

    async def _collect(self) -> None:
        """Wait for a task, and record what it has judged."""
        while not (ended := [begun for begun in self._begun if begun.outstanding.done()]):
            await asyncio.sleep(_LOOK)
        for begun in ended:
            self._begun.remove(begun)
            try:
                begun.outstanding.result()
            except AnnotatorError:
                raise
            except Exception as error:  # a worker died, and another one, or a fault of ours
                self._try_again(begun, error)
                continue
            begun.outstanding = _NOTHING  # while it is held, Dask keeps its result
            self._take(begun)

    def _try_again(self, begun: _Begun, error: Exception) -> None:
        if begun.attempts == _ATTEMPTS:
            what = f"{type(error).__name__}: {one_line(str(error), 300)}"
            raise AnnotatorError(
                f"a task of {len(begun.task.lines)} traces was begun {_ATTEMPTS} times and never"
                f" ended: {what}"
            ) from error
        begun.attempts += 1
        begun.outstanding = self._submit(begun.task)
        self._begun.append(begun)

    def _take(self, begun: _Begun) -> None:
        part = read_part(begun.task.folder)
        for annotation in part.annotations:
            if not self.run.is_done(annotation.trace_id, annotation.rubric):
                self._record(annotation)
                self._judged += 1
        if part.learned:
            self.plan.judge.recall(part.learned)
            self._learned = {**self._learned, **part.learned, **self.plan.judge.learned}
        self._note(self._overhead + part.overhead)
        self.run.sync()
        self.built.keep_answers(begun.task.folder)
        remove_part(begun.task.folder)
        if part.problem:
            self._go_on(begun, part)

    def _go_on(self, begun: _Begun, part: Part) -> None:
        """Put off what a task had no money for; whatever else it ran into stops the run, when the
        tasks that have begun have ended.
        """
        error = error_of(part)
        if not isinstance(error, BudgetReached):
            self._stopped = self._stopped or error
            return
        if begun.alone and not part.annotations:
            raise self._out_of_money()
        rubrics = begun.task.terms.rubrics
        left = [
            line
            for line in begun.task.lines
            if not all(self.run.is_done(json.loads(line)["id"], rubric.id) for rubric in rubrics)
        ]
        self._later.append((left, rubrics))

    def _out_of_money(self) -> BudgetReached:
        most = self.built.source.max_cost
        return BudgetReached(
            f"the next calls may cost more than is left: {self.run.spent_dollars:.4f} of"
            f" {most:.4f} USD (--max-cost) are spent"
        )

    def _record(self, annotation: Annotation) -> None:
        self.run.append(annotation)
        self.recorded(annotation)

    def _note(self, overhead: Usage) -> None:
        self._overhead = overhead
        self.run.spent(overhead, self._learned or self.plan.judge.learned)


class _Nothing:
    """What is outstanding of a task that has ended."""

    def done(self) -> bool:
        return True

    def result(self) -> None:
        return None


_NOTHING = _Nothing()


def _needs_steps(plan: Plan) -> bool:
    """Whether judges see the agents' own trajectories: by what the rubrics accept as evidence, or
    because it is not known what a judge from elsewhere looks at.
    """
    ours = type(plan.judge).__module__.startswith("annotator.")
    hosted = type(plan.judge).__name__ == "HostedJudge"
    accepted = any({"steps", "tools"} & set(rubric.quote_from) for rubric in plan.rubrics)
    return accepted or hosted or not ours
