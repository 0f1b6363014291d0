"""Judging traces: at once, in an event loop, or as a forecast."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypedDict, Unpack

from annotator.api.anchoring import look_before, plan_run_look
from annotator.base.errors import AnnotatorError, Interrupted, SettingsError
from annotator.base.remote import refuse_url
from annotator.judges.base import Judge
from annotator.judges.build import BuiltJudge, ModelSettings, parse_settings
from annotator.runs.conditions import ConditionSource, check_conditions, read_conditions
from annotator.runs.distribute import merge_shards, run_in_shards
from annotator.runs.execute import (
    Callbacks,
    Only,
    Plan,
    RubricSource,
    RunProgress,
    ignore,
    make_plan,
    refuse_running_loop,
    run_plan,
)
from annotator.runs.forecast import Forecast, sample_pilot
from annotator.runs.forecast import forecast as forecast_plan
from annotator.runs.manifest import DEFAULT_CRITERIA, Criteria, IfRejected, is_induction
from annotator.runs.run import Run, load_run, open_run
from annotator.runs.shards import is_in_shards, locate_shard
from annotator.runs.store import list_judged
from annotator.traces import Ignored, Shard, Trace, Traces, TraceSource, load_traces

JudgeSource = str | Path | Mapping[str, Any] | ModelSettings | Judge | BuiltJudge
"""The types that :func:`annotator.judges.build.build_judge` takes."""


class JudgingOptions(TypedDict, total=False):
    """Options of :func:`annotate`: those of :func:`aannotate`."""

    out: str | Path | None
    resume: bool
    format: str
    limit: int | None
    only: Only
    concurrency: int
    rejected: IfRejected
    least_read: float
    groups: str | Path | Sequence[str | Path]
    shard: Shard | None
    engine: str | None
    workers: int | None
    address: str | None
    pilot: int | None
    anchors: str | Path | None
    command: str
    on_start: Callable[[Run], None] | None
    on_progress: Callable[[RunProgress], None] | None
    on_notice: Callable[[str], None] | None


def annotate(
    traces: TraceSource | Traces,
    rubric: RubricSource | Sequence[RubricSource],
    judge: JudgeSource = "rules",
    **options: Unpack[JudgingOptions],
) -> Run:
    """Judge traces by a rubric or several, and return the run. ``options``: see :func:`aannotate`.

    Raises:
        AnnotatorError: as :func:`aannotate`; or an event loop is running here, as in a notebook:
            use ``await aannotate(...)`` there.
        Interrupted: Ctrl-C. The annotations so far are in ``out``, and in the error's ``run``.
    """
    refuse_running_loop("await aannotate(...) instead")
    results: list[Run] = []
    try:
        return asyncio.run(aannotate(traces, rubric, judge, **options, _results=results))
    except KeyboardInterrupt:
        where = "; go on with resume=True" if options.get("out") else "; it is the error's run"
        error = Interrupted(
            f"what was judged is kept{where}" if results else "nothing was judged yet"
        )
        error.run = results[0] if results else None
        raise error from None


async def aannotate(
    traces: TraceSource | Traces,
    rubric: RubricSource | Sequence[RubricSource],
    judge: JudgeSource = "rules",
    *,
    out: str | Path | None = None,
    resume: bool = False,
    format: str = "auto",
    limit: int | None = None,
    only: Only = "rubric",
    concurrency: int = 8,
    rejected: IfRejected = "undecided",
    least_read: float = DEFAULT_CRITERIA.least_read,
    groups: str | Path | Sequence[str | Path] = (),
    shard: Shard | None = None,
    engine: str | None = None,
    workers: int | None = None,
    address: str | None = None,
    pilot: int | None = None,
    anchors: str | Path | None = None,
    command: str = "annotator.annotate(...)",
    on_start: Callable[[Run], None] | None = None,
    on_progress: Callable[[RunProgress], None] | None = None,
    on_notice: Callable[[str], None] | None = None,
    _results: list[Run] | None = None,
) -> Run:
    """Judge traces by a rubric or several, inside a running event loop, and return the run.

    Args:
        traces: paths, traces, or the result of :func:`load_traces`.
        rubric: a rubric, the name of a built-in one, a YAML file, or several of them.
        judge: ``rules``, a model's name, a plug-in, a judge file, settings (:func:`llm`), or an
            object with the members of :class:`~annotator.judges.base.Judge`.
        out: the run directory; None: the run is in memory.
        resume: go on with the unfinished run in ``out``; failed traces are judged again.
        format: the trace format of paths; see :func:`load_traces`.
        limit: only the first ``limit`` traces.
        only: ``rubric``: each rubric decides which traces it is for; ``failed``: passed runs are
            skipped too; ``all``: passed and failed runs are judged.
        concurrency: the maximum of calls in flight.
        rejected: the status of a trace whose findings were all rejected: ``undecided`` or ``none``.
        least_read: a trace is undecided if a smaller share of it was read.
        groups: the conditions of the study, kept with the run: ``"NAME=REGEX"`` on the trace id,
            ``"NAME=ATTRIBUTE:REGEX"``, or a table (.csv) with a column trace_id. The judge does
            not see them.
        shard: judge only this share of the traces, in a directory of its own below ``out``; see
            :func:`merge`.
        engine: starts the shards of the run: ``processes``, ``dask``, ``ray`` or a plug-in. The
            shards are merged into ``out``. None: this process judges, or ``workers`` processes.
        workers: the number of processes that the engine starts.
        address: the address of a running cluster.
        pilot: judge only so many random traces; ``resume`` without it judges the others.
        anchors: the directory of anchors that are asked before; see :func:`anchor`.
        command: the command that the manifest names.
        on_start: called when the run begins, with the run.
        on_progress: called after every annotation.
        on_notice: called with messages for the user.

    Raises:
        AnnotatorError: a source, rubric or judge is wrong, no trace was found, the judge had to
            stop, or the run cannot be written. The annotations so far are in ``out``, and in the
            error's ``run``.
    """
    if resume and not out:
        raise AnnotatorError("resume=True needs out, the run directory to go on with")
    if out:
        refuse_url(out, "a run is judged into a folder here, line by line; copy it when done")
    folder = Path(out) if out else None
    if folder and is_induction(folder):
        raise AnnotatorError(f"{folder} holds an induction; name another folder with --out")
    engine = engine or ("processes" if (workers or 1) > 1 else None)
    if pilot is not None and pilot < 1:
        raise SettingsError(f"pilot: expected a number from 1, found {pilot}")
    if pilot and (shard or limit or engine):
        raise SettingsError(
            "--pilot cannot be combined with --limit, --shard, --engine or --workers"
        )
    if engine and (shard or not folder):
        raise SettingsError("an engine needs out, where its shards meet, and no shard")
    if anchors and (shard or engine):
        raise SettingsError("--anchors is for one process: before shards, use annotate anchor")
    if address and not engine:
        raise SettingsError("--address is that of a cluster: name its --engine")
    if shard:
        if not folder:
            raise AnnotatorError("a shard needs out, where those of a run meet")
        folder = locate_shard(folder, shard)
        resume = resume and (folder / "run.json").exists()  # the same script begins and goes on
        loaded = traces if isinstance(traces, Traces) else load_traces(traces, format=format)
        traces = Traces(loaded.sources, loaded.format, shard, loaded.redacted, limit)
    elif folder and resume and not engine and is_in_shards(folder):
        raise SettingsError(f"{folder} holds shards: go on with --workers, --engine or --shard")
    sources = read_conditions(groups)
    plan = make_plan(
        *(traces, rubric, judge),
        format=format,
        limit=limit,
        only=only,
        concurrency=concurrency,
        criteria=Criteria(rejected, least_read),
        conditions=tuple(chain.from_iterable(source.conditions for source in sources)),
    )
    _check_groups(sources, plan, on_notice)  # before anything is paid for
    if pilot:
        plan = sample_pilot(plan, pilot)
    manifest = plan.make_manifest(command)
    callbacks = Callbacks(on_start or ignore, on_progress, on_notice or ignore)
    if anchors:
        entry = await look_before(anchors, plan, folder, callbacks, command, resume=resume)
        manifest = manifest.copy_with({"anchors": dict(entry)})
    results = [] if _results is None else _results
    if engine and folder:
        options = (engine, workers, address)
        return await run_in_shards(
            plan, manifest, folder, callbacks, options, results, resume=resume
        )
    if folder:
        return await run_plan(plan, manifest, folder, callbacks, open_run, results, resume=resume)
    with TemporaryDirectory(ignore_cleanup_errors=True) as name:
        return await run_plan(plan, manifest, Path(name), callbacks, load_run, results)


def _check_groups(
    sources: Sequence[ConditionSource], plan: Plan, on_notice: Callable[[str], None] | None
) -> None:
    """Report which traces of a plan have no condition. Raises as :func:`check_conditions` does."""
    if not sources:
        return
    items = (item for item in plan.traces.find() if not isinstance(item, Ignored))
    traces = (
        (item.id, item.attributes if isinstance(item, Trace) else {})
        for item in islice(items, plan.limit)
    )
    partial = bool(plan.limit or plan.traces.shard)
    for line in check_conditions(sources, traces, partial=partial):
        (on_notice or ignore)(line)


def forecast(
    traces: TraceSource | Traces,
    rubric: RubricSource | Sequence[RubricSource],
    judge: JudgeSource = "rules",
    *,
    resume: str | Path | None = None,
    format: str = "auto",
    limit: int | None = None,
    only: Only = "rubric",
    groups: str | Path | Sequence[str | Path] = (),
    anchors: str | Path | None = None,
    on_notice: Callable[[str], None] | None = None,
) -> Forecast:
    """Return the calls, tokens and dollars that :func:`annotate` is expected to use; nothing is
    called or written. ``resume``: the run directory of a run to go on with. ``anchors``: those that
    are asked before, which count too.

    Raises:
        AnnotatorError: as :func:`aannotate`.
    """
    plan = make_plan(traces, rubric, judge, format=format, limit=limit, only=only, offline=True)
    _check_groups(read_conditions(groups), plan, on_notice)
    if resume:
        plan.judge.recall(open_run(resume).manifest.learned)
    before = plan_run_look(anchors, plan).forecast() if anchors else Forecast()
    plan.built.preview()
    try:
        expected = forecast_plan(plan, list_judged(Path(resume)) if resume else ())
        expected += before
        return expected
    finally:
        plan.built.end(on_notice or ignore)


def merge(folder: str | Path) -> Run:
    """Merge the shards below a run directory into one run there, and return it.

    Raises:
        AnnotatorError: a shard is missing or not finished, their settings differ, two have judged
            the same trace, or the run cannot be written.
    """
    return merge_shards(Path(folder))


def llm(model: str | Sequence[str], **settings: Any) -> ModelSettings:
    """Return a judge that asks a model, or several that vote, for :func:`annotate`.

    ``settings`` have the names of a judge file (``base_url``, ``samples``, ``temperature`` ...) and
    of :class:`~annotator.judges.build.ModelSettings` (``max_cost``, ``rpm`` ...).

    Raises:
        AnnotatorError: a setting is unknown or wrong.
    """
    if isinstance(model, str):
        return parse_settings({"model": model, **settings})
    return parse_settings({"models": [{"model": name} for name in model], **settings})
