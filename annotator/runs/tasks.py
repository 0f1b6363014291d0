"""Tasks for other processes: some traces each, judged by a function that knows nothing else."""

import asyncio
import hashlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from annotator.annotations import Annotation, Usage
from annotator.errors import AnnotatorError
from annotator.judges.build import BuiltJudge, ModelSettings, build_judge
from annotator.rubrics import Rubric
from annotator.runs.execute import Only, Plan, execute
from annotator.runs.manifest import DEFAULT_STANDARDS, Standards
from annotator.runs.parts import Part, has_part, write_part
from annotator.text import one_line
from annotator.traces import Traces
from annotator.traces.lines import load_trace


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
    is to be made of them, for the run of this id.
    """

    lines: tuple[str, ...]
    terms: TaskTerms
    folder: Path
    run: str


@dataclass
class _TaskRun:
    """Stands for the run that a judge judges in; holds its annotations in memory."""

    folder: Path
    id: str
    dearest: float = 0.0
    spent_dollars: float = 0.0
    has_judged: bool = False
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

    def append_canary(self, annotation: Annotation) -> None:
        """There are none in tasks."""
        raise NotImplementedError(annotation.trace_id)

    def spent(self, overhead: Usage, learned: Mapping[str, Any]) -> None:
        """Keep what was used for no trace in particular."""
        self.overhead, self.learned = overhead, dict(learned)


def name_task(lines: Sequence[str], rubrics: Sequence[Rubric]) -> str:
    """Return the name of the part that follows from its traces and rubrics."""
    parts = [*(rubric.sha256 for rubric in rubrics), *lines]
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=12).hexdigest()


def run_task(task: Task) -> None:
    """Judge the traces of a task and write its part, unless that is there already.

    Where the judge had to stop, the part holds what was judged until then, and says why. Answers
    are kept beside it as they come, so that a task that is done again asks for none twice.

    Raises:
        AnnotatorError: the part cannot be written.
    """
    if not has_part(task.folder):
        task.folder.mkdir(parents=True, exist_ok=True)
        write_part(task.folder, _judge(task.lines, task.terms, task.folder, task.run))


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
    given = tuple(lines)
    if not given:
        return []
    terms = TaskTerms(tuple(rubrics), judge, only, concurrency, standards)
    part = _judge(given, terms, Path(), uuid.uuid4().hex, alone=False)
    if part.problem:
        raise AnnotatorError(part.problem)
    places = {load_trace(line).id: n for n, line in enumerate(given)}
    ranks = {rubric.id: n for n, rubric in enumerate(rubrics)}
    ordered = sorted(part.annotations, key=lambda a: (places[a.trace_id], ranks[a.rubric]))
    return [annotation.to_json() for annotation in ordered]


def lease(judge: Any, dollars: float | None, slots: int) -> Any:
    """Return a judge that may use so many dollars, and its part of the rates of ``slots``."""
    if not isinstance(judge, ModelSettings):
        return judge
    rates = {
        name: max(1, rate // slots)
        for name in ("rpm", "tpm")
        if (rate := getattr(judge, name)) is not None
    }
    return replace(judge, max_cost=dollars, **rates)


def _judge(
    lines: tuple[str, ...], terms: TaskTerms, folder: Path, run_id: str, *, alone: bool = True
) -> Part:
    run = _TaskRun(folder, run_id, in_shards=alone)
    notices: list[str] = []
    built: BuiltJudge | None = None
    try:
        traces = Traces([load_trace(line) for line in lines])
        built = build_judge(terms.judge, concurrency=terms.concurrency)
        built.judge.recall(terms.learned)
        options = (None, terms.only, terms.concurrency, terms.standards)
        plan = Plan(traces, terms.rubrics, built.judge, *options)
        built.begin(run, notices.append)
        asyncio.run(execute(plan, run, lambda _: None))
    except AnnotatorError as error:
        kind, problem = type(error).__name__, one_line(str(error), 2000)
        return Part(run.annotations, run.overhead, run.learned, problem, kind)
    finally:
        if built:
            built.end(notices.append)
    return Part(run.annotations, run.overhead, run.learned)
