"""Execute a plan: read each trace, ask the judge, record the annotation, close the run."""

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Any, Literal, get_args

from annotator.base.errors import AnnotatorError, BudgetReached, Pending, SettingsError
from annotator.base.text import find_repeated, format_count, sanitize_line
from annotator.judges.base import RunJudge
from annotator.judges.build import BuiltJudge, build_judge
from annotator.rubrics import Rubric, load_rubric
from annotator.rubrics.annotations import Annotation, Usage, Verdict
from annotator.runs.conditions import Condition
from annotator.runs.failures import FailureWatch, explain_failure
from annotator.runs.manifest import (
    DEFAULT_CRITERIA,
    Criteria,
    Manifest,
    format_now,
    make_manifest,
)
from annotator.runs.run import Run
from annotator.runs.store import RunDirectory, describe_usage
from annotator.runs.verdicts import conclude, make_annotation
from annotator.traces import Ignored, Trace, Traces, TraceSource, Unreadable, load_traces
from annotator.traces.read import ProblemKinds
from annotator.traces.redaction import hash_patterns

Only = Literal["rubric", "failed", "all"]
RubricSource = str | os.PathLike[str] | Rubric
"""A rubric, the name of a built-in one, or a YAML file."""


@dataclass(frozen=True)
class Plan:
    """The traces, the rubrics, the judge, and how to judge.

    Attributes:
        only: ``rubric``: each rubric decides which traces it is for; ``failed``: passed runs are
            skipped too; ``all``: passed and failed runs are judged.
        conditions: those of the traces, which the judge does not see.
        sampled: only the traces with these ids are judged. A pilot draws them, out of
            ``population``; else somebody chose them, and ``population`` is 0.

    Raises:
        AnnotatorError: no rubric, or two with one id; the judge cannot use one; or a number or
            ``only`` is invalid.
    """

    traces: Traces
    rubrics: tuple[Rubric, ...]
    built: BuiltJudge
    limit: int | None = None
    only: Only = "rubric"
    concurrency: int = 8
    criteria: Criteria = DEFAULT_CRITERIA
    conditions: tuple[Condition, ...] = ()
    sampled: frozenset[str] | None = None
    population: int = 0

    def __post_init__(self) -> None:
        if not self.rubrics:
            raise AnnotatorError("rubric: name one, or several")
        for repeated in find_repeated(rubric.id for rubric in self.rubrics):
            raise AnnotatorError(f"rubric: two rubrics have the id {repeated!r}")
        if self.only not in get_args(Only):
            names = ", ".join(get_args(Only))
            raise AnnotatorError(f"only: expected one of {names}, found {self.only!r}")
        for name, number in (("limit", self.limit), ("concurrency", self.concurrency)):
            if number is not None and number < 1:
                raise AnnotatorError(f"{name}: expected a number from 1, found {number}")
        settings = self.built.settings
        alone = not settings or (
            settings.samples * len(settings.models) == 1 and not settings.critic
        )
        for rubric in self.rubrics:
            self.judge.codes(rubric)
            if rubric.repeats and not alone:
                raise SettingsError(
                    f"{rubric.id}: findings of a code that repeats can be neither voted on nor"
                    " checked by a critic: leave out --samples, further models and --critic"
                )

    @property
    def judge(self) -> RunJudge:
        """The judge that is asked."""
        return self.built.judge

    def make_manifest(self, command: str) -> Manifest:
        """Return the manifest of a run that begins now."""
        sampled = self.sampled or ()
        pilot = {"traces": len(sampled), "of": self.population} if self.population else None
        return make_manifest(
            rubrics=self.rubrics,
            judge=self.judge,
            sources=self.traces.places,
            format=self.traces.format,
            command=command,
            criteria=self.criteria,
            limit=self.limit,
            only=self.only,
            concurrency=self.concurrency,
            shard=self.traces.shard and str(self.traces.shard),
            pilot=pilot,
            selection=len(sampled) if sampled and not pilot else None,
            redaction=self.traces.redacted and hash_patterns(),
            conditions=self.conditions,
        )


def make_plan(
    traces: TraceSource | Traces,
    rubric: RubricSource | Sequence[RubricSource],
    judge: Any,
    *,
    format: str = "auto",
    limit: int | None = None,
    only: Only = "rubric",
    concurrency: int = 8,
    criteria: Criteria = DEFAULT_CRITERIA,
    conditions: tuple[Condition, ...] = (),
    offline: bool = False,
) -> Plan:
    """Return a plan; the arguments are those of :func:`annotator.api.aannotate`. ``offline``:
    nothing will be called, and no key is needed.
    """
    sources = [rubric] if isinstance(rubric, (str, os.PathLike, Rubric)) else rubric
    rubrics = tuple(
        source if isinstance(source, Rubric) else load_rubric(os.fspath(source))
        for source in sources
    )
    if not isinstance(traces, Traces):
        traces = load_traces(traces, format=format)
    built = build_judge(judge, concurrency=concurrency, offline=offline)
    return Plan(traces, rubrics, built, limit, only, concurrency, criteria, conditions)


@dataclass(frozen=True, slots=True)
class RunProgress:
    """The annotations of a run so far, by status, and their usage.

    ``failure``: the first failed trace of this process and its error, in one line; "": none yet.
    """

    annotations: int
    counts: Mapping[str, int]
    usage: Usage
    failure: str = ""


def ignore(value: object) -> None:
    """Do nothing with a value."""


@dataclass(slots=True)
class Callbacks:
    """Functions of the caller, called while a run is made."""

    start: Callable[[Run], None] = ignore
    progress: Callable[[RunProgress], None] | None = None
    notice: Callable[[str], None] = ignore
    failure: str = ""

    def report(self, new: Iterable[Annotation], counts: Mapping[str, int], usage: Usage) -> None:
        """Report the progress after ``new`` annotations."""
        for annotation in new:
            if annotation.status == "failed" and not self.failure:
                self.failure = f"{annotation.trace_id}: {explain_failure(annotation)}"
        if self.progress:
            total = sum(counts.values())
            self.progress(RunProgress(total, dict(counts), usage, self.failure))


@dataclass(slots=True)
class ReadSummary:
    """Counts of the traces that were read, and their problems."""

    traces: int = 0
    unreadable: int = 0
    ignored: int = 0
    problems: int = 0
    judgements: int = 0  # judgements that began
    pending: int = 0  # answers that come later
    kinds: ProblemKinds = field(default_factory=ProblemKinds)  # of problems

    def add(self, item: Trace | Unreadable) -> None:
        """Count a trace and its problems."""
        self.traces += 1
        if isinstance(item, Unreadable):
            self.unreadable += 1
            self.kinds.add(item.path or item.id, item.reason)
            return
        for problem in item.problems:
            self.problems += 1
            self.kinds.add(item.id, problem)

    def ignore(self, item: Ignored) -> None:
        """Count a file or record that is not a trace."""
        self.ignored += 1
        self.kinds.add(item.path, item.reason)

    def describe(self, folder: Path | None) -> Iterator[str]:
        """Yield notices for the user. ``folder``: the run directory."""
        if self.ignored:
            yield describe_ignored(self.ignored)
        if self.problems:
            same = " that were judged all the same" if self.judgements else ""
            yield f"{format_count(self.problems, 'problem')} in traces{same}"
        file = f"{folder}/run.json" if folder else "the manifest"
        yield from describe_problems(list(self.kinds), file)


def describe_problems(problems: Sequence[str], file: str) -> Iterator[str]:
    """Yield the first five problems, a line each. ``file`` has all of them."""
    for example in problems[:5]:
        yield f"  {sanitize_line(example, 400)}"
    if len(problems) > 5:
        yield f"  and more kinds: see problems in {file}, or annotate traces"


async def execute(
    plan: Plan, run: RunDirectory, callbacks: Callbacks, watch: FailureWatch | None
) -> ReadSummary:
    """Judge the traces that have no annotation yet.

    If ``watch`` finds that almost everything fails, no new call begins; the run stops if the calls
    in flight fail too.

    Raises:
        AnnotatorError: the judge had to stop, a source does not exist, no trace was found, almost
            everything fails, or nothing can be written. Earlier annotations are recorded.
    """
    summary = ReadSummary()
    slots = asyncio.Semaphore(plan.concurrency)
    budget_errors: list[BudgetReached] = []

    async def judge(trace: Trace, rubric: Rubric, n: int) -> None:
        try:
            verdict = await plan.judge.judge(trace, rubric)
            annotation = conclude(verdict, trace, rubric, plan.judge.id, plan.criteria)
            if annotation.status == "labelled":
                reviewed = await plan.judge.review(verdict, annotation.findings, trace, rubric)
                if reviewed is not verdict:
                    annotation = conclude(reviewed, trace, rubric, plan.judge.id, plan.criteria)
            plan.judge.record(trace, rubric)
        except Pending:
            summary.pending += 1
            return
        except BudgetReached as error:  # other traces may be cheaper
            budget_errors.append(error)
            return
        except AnnotatorError:
            raise
        except Exception as error:  # a fault of ours must not take the other traces with it
            plan.judge.drop(trace, rubric)
            problem = f"{type(error).__name__}: {sanitize_line(str(error), 200)}"
            message = f"internal error, please report it: {problem}"
            annotation = conclude(Verdict(error=message), trace, rubric, plan.judge.id)
        finally:
            slots.release()
        record(annotation, n)  # outside of try: an error here must not record it twice

    def record(annotation: Annotation, n: int = 0) -> None:
        run.append(annotation)
        callbacks.report([annotation], run.counts, run.usage)
        if watch and n and (annotation.trace_id, annotation.rubric) not in run.failed_before:
            watch.add(n, annotation)

    async def check_failures() -> None:
        """Stop if almost everything fails, even after the calls in flight."""
        if watch and watch.error:
            for _ in range(plan.concurrency - 1):
                await slots.acquire()
            if watch.error:
                raise watch.error
            for _ in range(plan.concurrency - 1):
                slots.release()

    numbers = count(1)
    try:
        await plan.judge.open(plan.rubrics)
        run.spent(plan.judge.overhead, plan.judge.learned)
        async with asyncio.TaskGroup() as tasks:
            for item in plan.traces.find():
                await asyncio.sleep(0)  # lets Ctrl-C in
                if budget_errors:
                    break
                if isinstance(item, Ignored):
                    summary.ignore(item)
                    continue
                if plan.sampled is not None and item.id not in plan.sampled:
                    continue
                if plan.limit is not None and summary.traces >= plan.limit:
                    break
                summary.add(item)
                for rubric in _list_unjudged(item, plan, run.is_done, record):
                    await slots.acquire()
                    await check_failures()
                    assert isinstance(item, Trace)  # noqa: S101 - others are recorded at once
                    summary.judgements += 1
                    tasks.create_task(judge(item, rubric, next(numbers)))
    except BaseExceptionGroup as group:
        raise _find_error(group) from group
    finally:
        try:
            run.spent(plan.judge.overhead, plan.judge.learned)
        finally:
            await plan.judge.close()
    if budget_errors:
        raise budget_errors[0]
    _check_traces(plan, summary)
    return summary


def _list_unjudged(
    item: Trace | Unreadable,
    plan: Plan,
    is_done: Callable[[str, str], bool],
    record: Callable[[Annotation], None],
) -> Iterator[Rubric]:
    """Yield the rubrics that the judge must decide; record the traces that it cannot judge."""
    for rubric in plan.rubrics:
        if is_done(item.id, rubric.id):
            continue
        if isinstance(item, Unreadable):
            record(make_annotation(item, rubric, plan.judge.id))
        elif reason := explain_skip(item, rubric, plan.only):
            record(make_annotation(item, rubric, plan.judge.id, "skipped", reason=reason))
        elif reason := rubric.leaves_open(item):
            record(make_annotation(item, rubric, plan.judge.id, "undecided", reason=reason))
        else:
            yield rubric


def _check_traces(plan: Plan, summary: ReadSummary) -> None:
    """Raise :class:`AnnotatorError` if no trace could be read. A shard may be empty."""
    if plan.traces.shard and plan.traces.listing.traces:
        return
    if summary.traces > summary.unreadable or summary.traces == plan.limit:
        return
    where = ", ".join(plan.traces.places) or "what was given"
    if summary.kinds:
        advice = "; see annotate traces --explain"
        reasons = "; ".join(islice(summary.kinds, 3)).replace(advice, "")
        raise AnnotatorError(f"no trace could be read in {where}: {reasons}{advice}")
    raise AnnotatorError(f"no traces in {where}: nothing of the formats that are known lies there")


async def run_plan(
    plan: Plan,
    manifest: Manifest,
    folder: Path,
    callbacks: Callbacks,
    load: Callable[[Path], Run],
    results: list[Run],
    *,
    resume: bool = False,
) -> Run:
    """Execute a plan in a run directory; return the run, as ``load`` opens it.

    ``results`` receives the run, also if it stops. Raises as :func:`execute` does.
    """
    directory = (RunDirectory.resume if resume else RunDirectory.create)(folder, manifest)
    if resume:
        plan.judge.recall(directory.manifest.learned)
    with keep_result(lambda: load(folder), results):
        summary = await _execute_and_close(
            plan, directory, callbacks, lambda: callbacks.start(load(folder))
        )
        run = load(folder)
        results.append(run)
    for line in summary.describe(run.folder):
        callbacks.notice(line)
    return run


@contextmanager
def keep_result(load: Callable[[], Run], results: list[Run]) -> Iterator[None]:
    """Add the run to ``results`` and to the error if the block raises one."""
    try:
        yield
    except BaseException as error:
        with suppress(AnnotatorError):
            results.append(load())
            if isinstance(error, AnnotatorError):
                error.run = results[0]
        raise


async def _execute_and_close(
    plan: Plan, run: RunDirectory, callbacks: Callbacks, start: Callable[[], None]
) -> ReadSummary:
    """Execute ``plan`` and write to the manifest how the run ended. Raises as :func:`execute`."""
    changes: dict[str, Any] = {"status": "stopped"}
    keep = False
    try:
        start()
        plan.built.begin(run, callbacks.notice)
        summary = await _execute_in_batches(plan, run, callbacks)
        run.sync()  # before the manifest says "finished"
        if plan.built.outbox:
            plan.built.outbox.keep()
        changes = {
            "status": "waiting" if summary.pending else "finished",
            "traces": summary.traces,
            "ignored": summary.ignored,
            "problems": list(islice(summary.kinds, 100)),
            **({"listed": str(plan.traces.listing)} if plan.traces.shard else {}),
        }
        return summary
    except BudgetReached:
        keep = True
        raise
    except (asyncio.CancelledError, KeyboardInterrupt):
        changes["status"] = "interrupted"
        raise
    finally:
        try:
            try:
                run.unbilled = plan.built.count_unbilled()
            finally:
                plan.built.end(callbacks.notice)
            if line := describe_usage(run.usage):
                callbacks.notice(line)
        finally:  # also if a notice fails
            run.close(keep=keep, ended=format_now(), **changes)


async def _execute_in_batches(plan: Plan, run: RunDirectory, callbacks: Callbacks) -> ReadSummary:
    """Execute ``plan``. With batches: fetch the answers of earlier batches, then send the missing
    requests and wait, until nothing is missing.
    """
    built = plan.built
    # Failures do not stop a run in batches: its answers are paid already.
    watch = None if built.session and built.session.in_batches else FailureWatch()
    while True:
        try:
            async with asyncio.TaskGroup() as tasks:
                for step in built.settle:
                    tasks.create_task(step())
        except BaseExceptionGroup as group:
            raise _find_error(group) from group
        finally:
            if built.settle:
                run.spent(plan.judge.overhead, plan.judge.learned)
        summary = await execute(plan, run, callbacks, watch)
        if not (summary.pending and built.settle):
            return summary


def refuse_running_loop(advice: str) -> None:
    """Raise :class:`AnnotatorError`, with an advice, if an event loop is running here."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise AnnotatorError(f"an event loop is running here: {advice}")


def describe_ignored(number: int) -> str:
    """Return that a number of files or records are not traces."""
    if number == 1:
        return "1 file or record is not a trace and was left out"
    return f"{number} files or records are not traces and were left out"


def explain_skip(trace: Trace, rubric: Rubric, only: Only) -> str | None:
    """Return why a trace is skipped, or None."""
    if only == "failed" and trace.outcome.passed:
        return "the run passed"
    return rubric.excludes(trace, any_outcome=only == "all")


def _find_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first :class:`AnnotatorError` in a group, else the first error."""
    error: BaseException = group.subgroup(AnnotatorError) or group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
