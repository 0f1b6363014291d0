"""All traces: read as they are needed, judged side by side, recorded one by one."""

import asyncio
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from annotator.base.errors import AnnotatorError, BudgetReached, Pending
from annotator.base.text import sanitize_line
from annotator.judges.base import PaidJudge
from annotator.judges.build import BuiltJudge
from annotator.rubrics import Rubric
from annotator.rubrics.annotations import Annotation, Usage, UsageRange, Verdict
from annotator.runs.annotate import annotate, annotate_skipped, annotate_unreadable, conclude
from annotator.runs.failures import FailureWatch
from annotator.runs.manifest import DEFAULT_CRITERIA, Criteria, format_now
from annotator.runs.store import RunDirectory, describe_usage
from annotator.traces import Ignored, Trace, Traces, Unreadable
from annotator.traces.read import ProblemKinds

Only = Literal["rubric", "failed", "all"]


@dataclass(frozen=True)
class Plan:
    """What to judge. ``only``: ``rubric`` leaves it to each rubric which traces it is for,
    ``failed`` skips passed runs too, ``all`` judges every run whether it passed or not.
    ``drawn``: the ids of a pilot; other traces are left out.

    Raises:
        AnnotatorError: there is no rubric, or two with one id; the judge cannot judge by one; or
            a number or ``only`` is none that can be meant.
    """

    traces: Traces
    rubrics: tuple[Rubric, ...]
    judge: PaidJudge
    limit: int | None = None
    only: Only = "rubric"
    concurrency: int = 8
    criteria: Criteria = DEFAULT_CRITERIA
    drawn: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if not self.rubrics or len({rubric.id for rubric in self.rubrics}) < len(self.rubrics):
            raise AnnotatorError("rubric: name one, or several with different ids")
        if self.only not in get_args(Only):
            names = ", ".join(get_args(Only))
            raise AnnotatorError(f"only: expected one of {names}, found {self.only!r}")
        for name, number in (("limit", self.limit), ("concurrency", self.concurrency)):
            if number is not None and number < 1:
                raise AnnotatorError(f"{name}: expected a number from 1, found {number}")
        for rubric in self.rubrics:
            self.judge.codes(rubric)


@dataclass(slots=True)
class ReadSummary:
    """What was found while reading."""

    traces: int = 0
    unreadable: int = 0
    ignored: int = 0
    problems: int = 0
    pending: int = 0  # judgements whose answers come later
    kinds: ProblemKinds = field(default_factory=ProblemKinds)  # of problems

    def add(self, item: Trace | Unreadable) -> None:
        """Count a trace, and keep its problems."""
        self.traces += 1
        if isinstance(item, Unreadable):
            self.unreadable += 1
            self.kinds.add(item.path or item.id, item.reason)
            return
        for problem in item.problems:
            self.problems += 1
            self.kinds.add(item.id, problem)

    def ignore(self, item: Ignored) -> None:
        """Count what is no trace."""
        self.ignored += 1
        self.kinds.add(item.path, item.reason)

    def describe(self, folder: Path | None) -> Iterator[str]:
        """Yield what the user should know of it, a line each; ``folder``: the run's."""
        if self.ignored:
            yield f"{self.ignored} files or records are not traces and were left out"
        if self.problems:
            yield f"{self.problems} problems in traces that were judged all the same"
        for example in islice(self.kinds, 5):
            yield f"  {sanitize_line(example, 400)}"
        if len(self.kinds) > 5:
            place = folder / "run.json" if folder else "the manifest"
            yield f"  and more kinds: see problems in {place}, or annotate traces"


class Recording(Protocol):
    """What a run is recorded in."""

    def is_done(self, trace_id: str, rubric: str) -> bool:
        """Whether a trace has its annotation by a rubric."""

    def append(self, annotation: Annotation) -> None:
        """Record one."""

    @property
    def failed_before(self) -> Container[tuple[str, str]]:
        """Traces and rubrics that failed before it was resumed: their failures stop no run."""

    @property
    def id(self) -> str:
        """The id of the run."""

    def spent(self, overhead: Usage, learned: Mapping[str, Any]) -> None:
        """Note what the judge spent on no trace in particular, and what it learned."""


async def execute(
    plan: Plan,
    run: Recording,
    recorded: Callable[[Annotation], None],
    watch: FailureWatch | None = None,
) -> ReadSummary:
    """Judge what the run has no annotation for yet; return what was found while reading.

    ``recorded`` is told of every annotation that was written. If ``watch`` finds that almost
    everything fails, no call begins, those in flight end, and the run stops if that did not help.

    Raises:
        AnnotatorError: the judge had to stop, a source does not exist, no trace was found, almost
            everything fails, or nothing can be written. What was judged until then is recorded.
    """
    summary = ReadSummary()
    room = asyncio.Semaphore(plan.concurrency)
    spent: list[BudgetReached] = []

    async def judge(trace: Trace, rubric: Rubric, n: int) -> None:
        try:
            annotation = await annotate(trace, rubric, plan.judge, plan.criteria)
        except Pending:
            summary.pending += 1
            return
        except BudgetReached as error:  # the others may still have what they need
            spent.append(error)
            return
        except AnnotatorError:
            raise
        except Exception as error:  # a fault of ours must not take the other traces with it
            what = f"{type(error).__name__}: {sanitize_line(str(error), 200)}"
            words = f"internal error, please report it: {what}"
            annotation = conclude(Verdict(error=words), trace, rubric, plan.judge.id)
        finally:
            room.release()
        record(annotation, n)  # what fails here stops the run: the trace must not be recorded twice

    def record(annotation: Annotation, n: int = 0) -> None:
        run.append(annotation)
        recorded(annotation)
        if watch and n and (annotation.trace_id, annotation.rubric) not in run.failed_before:
            watch.add(n, annotation)

    async def check_failures() -> None:
        """Stop if almost everything fails, also when the calls in flight have ended."""
        if watch and watch.error:
            for _ in range(plan.concurrency - 1):
                await room.acquire()
            if watch.error:
                raise watch.error
            for _ in range(plan.concurrency - 1):
                room.release()

    begun = count(1)

    try:
        await plan.judge.open(plan.rubrics)
        run.spent(plan.judge.overhead, plan.judge.learned)
        async with asyncio.TaskGroup() as tasks:
            for item in plan.traces.find():
                await asyncio.sleep(0)  # so that Ctrl-C is heard where nothing else waits
                if spent:
                    break
                if isinstance(item, Ignored):
                    summary.ignore(item)
                    continue
                if plan.drawn is not None and item.id not in plan.drawn:
                    continue
                if plan.limit is not None and summary.traces >= plan.limit:
                    break
                summary.add(item)
                for rubric in list_unjudged(item, plan, run.is_done, record):
                    await room.acquire()
                    await check_failures()
                    assert isinstance(item, Trace)  # noqa: S101 - else nothing is to be judged
                    tasks.create_task(judge(item, rubric, next(begun)))
    except BaseExceptionGroup as group:
        raise first_error(group, AnnotatorError) from group
    finally:
        try:
            run.spent(plan.judge.overhead, plan.judge.learned)
        finally:  # where nothing can be written, too
            await plan.judge.close()
    if spent:
        raise spent[0]
    need_traces(plan, summary)
    return summary


def list_unjudged(
    item: Trace | Unreadable,
    plan: Plan,
    is_done: Callable[[str, str], bool],
    record: Callable[[Annotation], None],
) -> Iterator[Rubric]:
    """Yield the rubrics by which a trace is still to be judged; what is no question for the judge
    is recorded.
    """
    for rubric in plan.rubrics:
        if is_done(item.id, rubric.id):
            continue
        if isinstance(item, Unreadable):
            record(annotate_unreadable(item, rubric, plan.judge.id))
        elif reason := explain_skip(item, rubric, plan.only):
            record(annotate_skipped(item, rubric, plan.judge.id, reason))
        else:
            yield rubric


def need_traces(plan: Plan, summary: ReadSummary) -> None:
    """Raise :class:`AnnotatorError` if no trace could be read; a shard may have none of those that
    there are.
    """
    if plan.traces.shard and plan.traces.listing.traces:
        return
    if summary.traces == summary.unreadable and summary.traces != plan.limit:
        raise AnnotatorError(_nothing(plan.traces, summary))


async def execute_in_batches(
    plan: Plan,
    run: RunDirectory,
    recorded: Callable[[Annotation], None],
    built: BuiltJudge,
) -> ReadSummary:
    """Execute ``plan``; where answers come in batches, ask for all that are missing, wait, and
    judge again until nothing is missing. Raises as :func:`execute` does.

    The first thing is to wait for the answers that a stopped process was waiting for. Failures stop
    no run in batches: its answers are there already.
    """
    batches = built.session and built.session.in_batches
    watch = None if batches else FailureWatch()
    while True:
        try:
            async with asyncio.TaskGroup() as tasks:
                for step in built.settle:
                    tasks.create_task(step())
        except BaseExceptionGroup as group:
            raise first_error(group, AnnotatorError) from group
        finally:
            if built.settle:  # what was used for no answer, before the stop
                run.spent(plan.judge.overhead, plan.judge.learned)
        summary = await execute(plan, run, recorded, watch)
        if not (summary.pending and built.settle):
            return summary


async def carry_out(
    plan: Plan,
    run: RunDirectory,
    built: BuiltJudge,
    recorded: Callable[[Annotation], None],
    notice: Callable[[str], None],
    begin: Callable[[], None],
) -> ReadSummary:
    """Execute ``plan`` and close the run; whatever happens, its manifest says how it ended.

    ``recorded`` is told of every annotation, ``notice`` what the user should know, and ``begin``
    that the work begins. Raises as
    :func:`execute` does; a run that is cancelled, or stopped by Ctrl-C, keeps what was judged.
    """
    ended: dict[str, Any] = {"status": "stopped"}
    keep = False
    try:
        begin()
        built.begin(run, notice)
        summary = await execute_in_batches(plan, run, recorded, built)
        run.sync()  # before it is said to be finished
        if built.outbox:
            built.outbox.keep()
        ended = {
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
        ended["status"] = "interrupted"
        raise
    finally:
        try:
            try:
                run.unbilled = built.count_unbilled()
            finally:
                built.end(notice)
            if used := describe_usage(run.usage):
                notice(used)
        finally:  # whatever a notice runs into
            run.close(keep=keep, ended=format_now(), **ended)


@dataclass(slots=True)
class Forecast:
    """What a run is expected to use. ``judged``: judgements to make, of which ``failing`` cannot be
    made (``reason`` is that of the first); ``unread``: the first of the ``unreadable`` traces, and
    why; ``done``: made already.
    """

    traces: int = 0
    judged: int = 0
    skipped: int = 0
    done: int = 0
    unreadable: int = 0
    unread: str = ""
    failing: int = 0
    reason: str = ""
    usage: UsageRange = field(default_factory=UsageRange)
    assumption: str = ""  # what the usage rests on
    asked: list[str] = field(default_factory=list)  # the traces about which a model is asked


def forecast(plan: Plan, is_done: Callable[[str, str], bool]) -> Forecast:
    """Return what executing ``plan`` is expected to use; nothing is asked and nothing written.

    Raises:
        AnnotatorError: a source does not exist.
    """
    expected = Forecast(assumption=plan.judge.assumption)
    for item in plan.traces.find():
        if isinstance(item, Ignored):
            continue
        if plan.limit is not None and expected.traces >= plan.limit:
            break
        expected.traces += 1
        if isinstance(item, Unreadable):
            expected.unreadable += 1
            expected.unread = expected.unread or f"{item.path or item.id}: {item.reason}"
            continue
        before = expected.usage.low.calls
        for rubric in plan.rubrics:
            if is_done(item.id, rubric.id):
                expected.done += 1
            elif explain_skip(item, rubric, plan.only):
                expected.skipped += 1
            else:
                expected.judged += 1
                try:
                    expected.usage += plan.judge.expects(item, rubric)
                except AnnotatorError as error:  # as it would fail in the run
                    expected.failing += 1
                    expected.reason = expected.reason or str(error)
        if expected.usage.low.calls > before:
            expected.asked.append(item.id)
    return expected


def refuse_running_loop(instead: str) -> None:
    """Raise :class:`AnnotatorError` if an event loop is running here; say what to do instead."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise AnnotatorError(f"an event loop is running here: {instead}")


def explain_skip(trace: Trace, rubric: Rubric, only: Only) -> str | None:
    """Return why a trace is skipped, or None."""
    if only == "failed" and trace.outcome.passed:
        return "the run passed"
    return rubric.excludes(trace, any_outcome=only == "all")


def _nothing(traces: Traces, summary: ReadSummary) -> str:
    where = ", ".join(traces.places) or "what was given"
    if summary.kinds:
        reasons = "; ".join(islice(summary.kinds, 3))
        return f"no trace could be read in {where}: {reasons}; see annotate traces --explain"
    return f"no traces in {where}: nothing of the formats that are known lies there"


def first_error(
    group: BaseExceptionGroup[BaseException], kind: type[AnnotatorError]
) -> BaseException:
    """Return the first error of a kind in a group of errors, else the first one."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            error = first_error(error, kind)
        if isinstance(error, kind):
            return error
    first = group.exceptions[0]
    return first_error(first, kind) if isinstance(first, BaseExceptionGroup) else first
