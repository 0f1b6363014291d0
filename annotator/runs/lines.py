"""Judging traces given as lines of JSON: for Spark, Ray Data and the like."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from annotator.base.errors import SettingsError
from annotator.rubrics import Rubric
from annotator.runs.execute import (
    Callbacks,
    Only,
    make_plan,
    refuse_running_loop,
    run_plan,
)
from annotator.runs.manifest import DEFAULT_CRITERIA, Criteria
from annotator.runs.run import load_run
from annotator.traces import Ignored, Traces
from annotator.traces.lines import load_trace


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

    A cluster can pickle the function, if it can pickle ``judge`` (as in :func:`annotate`). API keys
    come from the environment of the worker.

    Raises:
        AnnotatorError: a line is not a trace, a setting is wrong, or the judge had to stop.
    """
    traces = Traces([load_trace(line) for line in lines])
    if not traces.sources:
        return []
    refuse_running_loop("call it from another thread")
    plan = make_plan(
        *(traces, rubrics, judge), only=only, concurrency=concurrency, criteria=standards
    )
    if plan.built.session and plan.built.session.in_batches:
        raise SettingsError("lines are judged at once: leave batches out")
    manifest = plan.make_manifest("annotator.judge_lines(...)")
    with TemporaryDirectory(ignore_cleanup_errors=True) as name:
        run = asyncio.run(run_plan(plan, manifest, Path(name), Callbacks(), load_run, []))
    values = {(each.trace_id, each.rubric): each.to_json() for each in run.annotations()}
    ids = [item.id for item in traces.find() if not isinstance(item, Ignored)]
    return [values[name, rubric.id] for name in ids for rubric in rubrics]
