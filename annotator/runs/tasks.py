"""Tasks for other processes: some traces each, judged by a function that knows nothing else."""

import asyncio
import hashlib
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from annotator import errors
from annotator.annotations import Annotation, Usage
from annotator.errors import AnnotatorError, SettingsError
from annotator.judges.build import BuiltJudge, ModelSettings, build_judge
from annotator.rubrics import Rubric
from annotator.runs.execute import Only, Plan, execute, need_no_loop
from annotator.runs.failures import FailureWatch
from annotator.runs.manifest import DEFAULT_STANDARDS, Standards
from annotator.runs.parts import Part, has_part, write_part
from annotator.text import one_line
from annotator.traces import Ignored, Trace, Traces
from annotator.traces.lines import load_trace

if TYPE_CHECKING:
    from annotator.judges.llm.pace import Pace


@dataclass(frozen=True, slots=True)
class TaskTerms:
    """How traces are judged: by ``rubrics``, by what ``judge`` says (as
    :func:`~annotator.judges.build.build_judge` takes it; it must be picklable), which has
    ``learned`` something of its endpoint already.
    """

    rubrics: tuple[Rubric, ...]
    judge: Any
    only: Only = "rubric"
    concurrency: int = 8
    standards: Standards = DEFAULT_STANDARDS
    learned: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Task:
    """Traces as lines (:func:`~annotator.traces.lines.dump_trace`), and the folder of the part that
    is to be made of them, for the run of this id. ``dearest``: dollars for a call of it so far.
    ``failed_before``: as in :class:`~annotator.runs.execute.Recording`.
    """

    lines: tuple[str, ...]
    terms: TaskTerms
    folder: Path
    run: str
    dearest: float = 0.0
    failed_before: frozenset[tuple[str, str]] = frozenset()


@dataclass
class _TaskRun:
    """Stands for the run that a judge judges in; holds its annotations in memory."""

    folder: Path
    id: str
    dearest: float = 0.0
    spent_dollars: float = 0.0
    failed_before: frozenset[tuple[str, str]] = frozenset()
    in_shards: bool = True
    annotations: list[Annotation] = field(default_factory=list)
    overhead: Usage = field(default_factory=Usage)
    learned: Mapping[str, Any] = field(default_factory=dict)

    def is_done(self, trace_id: str, rubric: str) -> bool:
        """Nothing is, as yet."""
        return False

    def append(self, annotation: Annotation) -> None:
        """Keep one."""
        self.annotations.append(annotation)

    def spent(self, overhead: Usage, learned: Mapping[str, Any]) -> None:
        """Keep what was used for no trace in particular."""
        self.overhead, self.learned = overhead, dict(learned)


def name_task(run: str, lines: Sequence[str], rubrics: Sequence[Rubric]) -> str:
    """Return the name of the part that follows from its run, traces and rubrics."""
    parts = [run, *(rubric.sha256 for rubric in rubrics), *lines]
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=12).hexdigest()


def run_task(task: Task) -> None:
    """Judge the traces of a task and write its part, unless that is there already.

    Where the judge had to stop, the part holds what was judged until then, and says why. Answers
    are kept beside it as they come, so that a task that is done again asks for none twice.

    Raises:
        AnnotatorError: the part cannot be written; nothing is asked where its folder is not seen.
    """
    if not task.folder.is_dir():
        raise AnnotatorError(
            f"{task.folder} is not on the machine of a worker: the workers of an engine need the"
            " run directory in common, as a shared folder of the same path"
        )
    if not has_part(task.folder):
        failed = task.failed_before
        run = _TaskRun(task.folder, task.run, task.dearest, failed_before=failed)
        write_part(task.folder, _judge(partial(map, load_trace, task.lines), task.terms, run))


def judge_lines(
    lines: Iterable[str],
    rubrics: Sequence[Rubric],
    judge: Any = "rules",
    *,
    only: Only = "rubric",
    concurrency: int = 8,
    standards: Standards = DEFAULT_STANDARDS,
) -> list[str]:
    """Judge traces given as lines of JSON (:func:`dump_trace`); return annotations as lines of
    JSON, those of a trace together, in the order of the traces and of the rubrics.

    It needs no files and no run, has an event loop of its own and can be pickled: the function for
    a cluster that has no engine here. ``judge``: what :func:`annotate` takes, a picklable value
    where this function is sent elsewhere; keys are read from the environment there.

    Raises:
        AnnotatorError: a line is no trace, a setting is wrong, or the judge had to stop.
    """
    traces = [load_trace(line) for line in lines]
    if not traces:
        return []
    need_no_loop("call it from another thread")
    terms = TaskTerms(tuple(rubrics), judge, only, concurrency, standards)
    part = _judge(lambda: traces, terms, _TaskRun(Path(), uuid.uuid4().hex, in_shards=False))
    if part.problem:
        raise error_of(part)
    ids = [item.id for item in Traces(traces).find() if not isinstance(item, Ignored)]
    done = {(annotation.trace_id, annotation.rubric): annotation for annotation in part.annotations}
    return [done[trace_id, rubric.id].to_json() for trace_id in ids for rubric in rubrics]


def lease(judge: Any, dollars: float | None, slots: int) -> Any:
    """Return a judge that may use so many dollars, and its part of the rates of ``slots``."""
    if not isinstance(judge, ModelSettings):
        return judge
    rates = {
        name: rate / slots for name in ("rpm", "tpm") if (rate := getattr(judge, name)) is not None
    }
    prices = tuple(file.absolute() for file in judge.prices)  # a worker is in another folder
    return replace(judge, max_cost=dollars, prices=prices, **rates)


def error_of(part: Part) -> AnnotatorError:
    """Return the error by which a part was stopped."""
    kind: type[AnnotatorError] = getattr(errors, part.kind, AnnotatorError)
    return kind(part.problem)


def _judge(read: Callable[[], Iterable[Trace]], terms: TaskTerms, run: _TaskRun) -> Part:
    notices: list[str] = []
    built: BuiltJudge | None = None
    try:
        traces = Traces(tuple(read()))
        built = build_judge(terms.judge, concurrency=terms.concurrency)
        if built.session and built.session.in_batches:
            raise SettingsError("lines and tasks are judged at once: leave batches out")
        built.judge.recall(terms.learned)
        for member in built.members:  # what it was answered by is counted by who sums up
            member.answered_by.clear()
        if built.session:
            _keep_pace(built.session.pace, run.id)
        options = (None, terms.only, terms.concurrency, terms.standards)
        plan = Plan(traces, terms.rubrics, built.judge, *options)
        built.begin(run, notices.append)
        asyncio.run(execute(plan, run, lambda _: None, FailureWatch()))
    except AnnotatorError as error:
        kind, problem = type(error).__name__, one_line(str(error), 2000)
        return Part(run.annotations, run.overhead, run.learned, problem, kind)
    finally:
        if built:
            built.end(notices.append)
    return Part(run.annotations, run.overhead, run.learned)


def _keep_pace(pace: "Pace", run: str) -> None:
    """Let the rates hold for all tasks of a run that a worker does, one after another."""
    if getattr(_last, "run", None) == run:
        pace.go_on_from(_last.pace)
    _last.run, _last.pace = run, pace


_last = threading.local()  # the run and the pace of the last task; each thread has its part
