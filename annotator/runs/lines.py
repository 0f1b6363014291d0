"""Judging traces given as lines of JSON, without files: for Spark, Ray Data and the like."""

import asyncio
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from annotator.base.errors import SettingsError
from annotator.judges.build import build_judge
from annotator.rubrics import Rubric
from annotator.rubrics.annotations import Annotation, Usage
from annotator.runs.execute import Only, Plan, execute, refuse_running_loop
from annotator.runs.failures import FailureWatch
from annotator.runs.manifest import DEFAULT_CRITERIA, Criteria
from annotator.traces import Ignored, Traces
from annotator.traces.lines import load_trace


@dataclass
class _MemoryRun:
    """Holds annotations in place of a run directory."""

    annotations: dict[tuple[str, str], Annotation] = field(default_factory=dict)
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    folder: Path = Path()
    dearest: float = 0.0
    spent_dollars: float = 0.0
    failed_before: frozenset[tuple[str, str]] = frozenset()
    in_shards: bool = False

    def is_done(self, trace_id: str, rubric: str) -> bool:
        return (trace_id, rubric) in self.annotations

    def append(self, annotation: Annotation) -> None:
        self.annotations[annotation.trace_id, annotation.rubric] = annotation

    def spent(self, overhead: Usage, learned: Mapping[str, Any]) -> None:
        pass


def judge_lines(
    lines: Iterable[str],
    rubrics: Sequence[Rubric],
    judge: Any = "rules",
    *,
    only: Only = "rubric",
    concurrency: int = 8,
    standards: Criteria = DEFAULT_CRITERIA,
) -> list[str]:
    """Judge traces given as lines of JSON (:func:`dump_trace`), and return annotations as lines of
    JSON, in the order of the traces and then of the rubrics.

    The function needs no files and has an event loop of its own. A cluster can pickle it, if
    ``judge`` (as in :func:`annotate`) can be pickled. Keys are read from the environment there.

    Raises:
        AnnotatorError: a line is not a trace, a setting is wrong, or the judge had to stop.
    """
    traces = Traces([load_trace(line) for line in lines])
    if not traces.sources:
        return []
    refuse_running_loop("call it from another thread")
    built = build_judge(judge, concurrency=concurrency)
    if built.session and built.session.in_batches:
        raise SettingsError("lines are judged at once: leave batches out")
    plan = Plan(traces, tuple(rubrics), built.judge, None, only, concurrency, standards)
    run = _MemoryRun()
    try:
        built.begin(run, _ignore)
        asyncio.run(execute(plan, run, _ignore, FailureWatch()))
    finally:
        built.end(_ignore)
    ids = [item.id for item in traces.find() if not isinstance(item, Ignored)]
    return [run.annotations[name, rubric.id].to_json() for name in ids for rubric in rubrics]


def _ignore(value: object) -> None:
    pass
