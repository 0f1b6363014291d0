"""Judging traces: at once, in an event loop, or as a forecast."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from annotator.base.errors import AnnotatorError, Interrupted, SettingsError
from annotator.base.remote import refuse_url
from annotator.base.text import sanitize_line
from annotator.judges.base import Judge
from annotator.judges.build import BuiltJudge, ModelSettings, build_judge, parse_settings
from annotator.rubrics import Rubric, load_rubric
from annotator.rubrics.annotations import Annotation, Usage
from annotator.runs.distribute import (
    ShardJob,
    ShardLogs,
    describe_merged,
    list_jobs,
    run_shards,
    watch_driver,
)
from annotator.runs.engines import open_engine
from annotator.runs.execute import Forecast, Only, Plan, carry_out, need_no_loop
from annotator.runs.execute import forecast as forecast_plan
from annotator.runs.failures import explain_failure
from annotator.runs.manifest import (
    DEFAULT_STANDARDS,
    IfRejected,
    Manifest,
    Standards,
    new_manifest,
)
from annotator.runs.pilot import draw_pilot
from annotator.runs.run import Run, open_run
from annotator.runs.shards import begin_shards, is_in_shards, merge_shards, shard_folder
from annotator.runs.store import RunDirectory, read_done
from annotator.traces import Shard, Traces, TraceSource, load_traces
from annotator.traces.redaction import redaction_sha256

JudgeSource = str | Path | Mapping[str, Any] | ModelSettings | Judge | BuiltJudge
"""What :func:`annotator.judges.build.build_judge` takes."""
RubricSource = str | os.PathLike[str] | Rubric
"""A rubric, the name of a built-in one, or a YAML file."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """How far a run is: how many annotations there are, by status, and what they used.

    ``failure``: the first trace that failed in this process, and why, in one line; "" if none did.
    """

    annotations: int
    counts: Mapping[str, int]
    usage: Usage
    failure: str = ""


def annotate(
    traces: TraceSource | Traces,
    rubric: RubricSource | Sequence[RubricSource],
    judge: JudgeSource = "rules",
    **options: Any,
) -> Run:
    """Judge traces by a rubric or several, and return the run. ``options`` as in :func:`aannotate`.

    Raises:
        AnnotatorError: as :func:`aannotate`; or an event loop is running here, as in a notebook:
            there it is ``await aannotate(...)``.
        Interrupted: Ctrl-C. What was judged is kept: in ``out``, and as the error's ``run``.
    """
    need_no_loop("await aannotate(...) instead")
    kept: list[Run] = []
    try:
        return asyncio.run(aannotate(traces, rubric, judge, **options, _kept=kept))
    except KeyboardInterrupt:
        where = "; go on with resume=True" if options.get("out") else "; it is the error's run"
        error = Interrupted(f"what was judged is kept{where}" if kept else "nothing was judged yet")
        error.run = kept[0] if kept else None
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
    least_read: float = DEFAULT_STANDARDS.least_read,
    shard: Shard | None = None,
    engine: str | None = None,
    workers: int | None = None,
    address: str | None = None,
    pilot: int | None = None,
    command: str = "annotator.annotate(...)",
    on_start: Callable[[Run], None] | None = None,
    on_progress: Callable[[Recorded], None] | None = None,
    on_notice: Callable[[str], None] | None = None,
    _kept: list[Run] | None = None,
) -> Run:
    """Judge traces by a rubric or several, inside a running event loop, and return the run.

    Args:
        traces: what :func:`load_traces` returns, or takes.
        rubric: a rubric, the name of a built-in one, a YAML file, or several of them.
        judge: ``rules``, a model's name, a plug-in, a judge file, settings (:func:`llm`), or an
            object with the members of :class:`~annotator.judges.base.Judge`.
        out: the run directory; None: the run is in memory alone (on disk while it is made).
        resume: go on with the unfinished run in ``out``; what failed is judged again.
        format: as what paths are read; see :func:`load_traces`.
        limit: only the first so many traces.
        only: ``rubric`` leaves it to each rubric which traces it is for, ``failed`` skips passed
            runs too, ``all`` judges passed and failed ones alike.
        concurrency: the most calls in flight.
        rejected: what a trace is whose findings were all rejected: ``undecided`` or ``none``.
        least_read: a trace of which a smaller share was read is undecided.
        shard: judge only this share of the traces, in a directory of its own below ``out``; see
            :func:`merge`.
        engine: starts the shards of the run: ``processes``, ``dask``, ``ray`` or a plug-in. The
            shards are merged into ``out``. None: this process judges, or ``workers`` processes.
        workers: how many processes the engine starts.
        address: of a running cluster.
        pilot: judge only so many traces, drawn at random; without it, ``resume`` goes on with the
            others.
        command: what the manifest says that the run was started by.
        on_start: told when the run has begun, with the run as it then is.
        on_progress: told after every annotation.
        on_notice: told what the user should know.

    Raises:
        AnnotatorError: a source, rubric or judge is wrong, no trace was found, the judge had to
            stop, or the run cannot be written. What was judged until then is the error's ``run``,
            and kept in ``out``.
    """
    if resume and not out:
        raise AnnotatorError("resume=True needs out, the run directory to go on with")
    if out:
        refuse_url(out, "a run is judged into a folder here, line by line; copy it when done")
    folder = Path(out) if out else None
    if shard:
        if not folder or limit:
            raise AnnotatorError("a shard needs out, where those of a run meet, and no limit")
        folder = shard_folder(folder, shard)
        resume = resume and (folder / "run.json").exists()  # one script begins and goes on
        loaded = traces if isinstance(traces, Traces) else load_traces(traces, format=format)
        traces = Traces(loaded.sources, loaded.format, shard, loaded.redacted)
    engine = engine or ("processes" if (workers or 1) > 1 else None)
    if folder and resume and not (shard or engine) and is_in_shards(folder):
        raise SettingsError(f"{folder} holds shards: go on with --workers, --engine or --shard")
    if pilot is not None and pilot < 1:
        raise SettingsError(f"pilot: expected a number from 1, found {pilot}")
    if pilot and (shard or limit or engine):
        raise SettingsError(
            "--pilot cannot be combined with --limit, --shard, --engine or --workers"
        )
    standards = Standards(rejected, least_read)
    resumed = folder if resume and not engine else None  # each shard resumes by itself
    options = (format, limit, only, concurrency, resumed)
    plan, built = _make_plan(traces, rubric, judge, *options, standards=standards)
    of = 0
    if pilot:
        drawn, of = draw_pilot(plan, pilot)
        plan = replace(plan, drawn=drawn)
    manifest = new_manifest(
        rubrics=plan.rubrics,
        judge=plan.judge,
        sources=plan.traces.places,
        format=plan.traces.format,
        only=plan.only,
        limit=plan.limit,
        concurrency=plan.concurrency,
        command=command,
        standards=plan.standards,
        shard=shard,
        pilot={"traces": min(pilot, of), "of": of} if pilot else None,
        redaction=redaction_sha256() if plan.traces.redacted else None,
    )
    callbacks = _Callbacks(on_start, on_progress, on_notice or _ignore)
    kept = [] if _kept is None else _kept
    if engine:
        if not folder or shard or limit:
            raise SettingsError("an engine needs out, where its shards meet, no shard and no limit")
        where = (engine, workers, address)
        return await _distribute(plan, built, manifest, folder, resume, callbacks, where, kept)
    if address:
        raise SettingsError("--address is that of a cluster: name its --engine")
    if folder:
        return await _execute(plan, built, manifest, folder, resume, callbacks, open_run, kept)
    with TemporaryDirectory(ignore_cleanup_errors=True) as name:
        return await _execute(plan, built, manifest, Path(name), False, callbacks, _hold, kept)


def forecast(
    traces: TraceSource | Traces,
    rubric: RubricSource | Sequence[RubricSource],
    judge: JudgeSource = "rules",
    *,
    resume: str | Path | None = None,
    format: str = "auto",
    limit: int | None = None,
    only: Only = "rubric",
    on_notice: Callable[[str], None] | None = None,
) -> Forecast:
    """Return how many calls, tokens and dollars :func:`annotate` is expected to take; nothing is
    asked and nothing written. ``resume``: the run directory that it would go on with.

    Raises:
        AnnotatorError: as :func:`aannotate`.
    """
    folder = Path(resume) if resume else None
    options = (format, limit, only, 8)
    plan, built = _make_plan(traces, rubric, judge, *options, folder, offline=True)
    built.preview()
    try:
        return forecast_plan(plan, read_done(folder) if folder else lambda trace_id, rubric: False)
    finally:
        built.end(on_notice or _ignore)


@dataclass(frozen=True, slots=True)
class _Callbacks:
    """Who is told what."""

    start: Callable[[Run], None] | None
    progress: Callable[[Recorded], None] | None
    notice: Callable[[str], None]


def _ignore(text: str) -> None:
    """Be told nothing."""


def _make_plan(
    traces: TraceSource | Traces,
    rubric: RubricSource | Sequence[RubricSource],
    judge: JudgeSource,
    format: str,
    limit: int | None,
    only: Only,
    concurrency: int,
    resumed: Path | None,
    offline: bool = False,
    standards: Standards = DEFAULT_STANDARDS,
) -> tuple[Plan, BuiltJudge]:
    sources = [rubric] if isinstance(rubric, (str, os.PathLike, Rubric)) else rubric
    rubrics = tuple(
        source if isinstance(source, Rubric) else load_rubric(os.fspath(source))
        for source in sources
    )
    if not isinstance(traces, Traces):
        traces = load_traces(traces, format=format)
    built = build_judge(judge, concurrency=concurrency, offline=offline)
    if resumed:
        built.judge.recall(open_run(resumed).manifest.learned)
    judging = (built.judge, limit, only, concurrency, standards)
    return Plan(traces, rubrics, *judging), built


async def _execute(
    plan: Plan,
    built: BuiltJudge,
    manifest: Manifest,
    folder: Path,
    resume: bool,
    callbacks: _Callbacks,
    end: Callable[[Path], Run],
    kept: list[Run],
) -> Run:
    """Carry out a plan in a run directory, and return what ``end`` makes of that; where it stops,
    that is ``kept``, unless nothing was judged.
    """
    directory = (RunDirectory.resume if resume else RunDirectory.create)(folder, manifest)

    failure = ""

    def report(annotation: Annotation) -> None:
        nonlocal failure
        if annotation.status == "failed" and not failure:
            failure = f"{annotation.trace_id}: {explain_failure(annotation)}"
        if callbacks.progress:
            counts = dict(directory.counts)
            usage = directory.usage
            callbacks.progress(Recorded(sum(counts.values()), counts, usage, failure))

    def begin() -> None:
        if callbacks.start:
            callbacks.start(end(folder))

    try:
        seen = await carry_out(plan, directory, built, report, callbacks.notice, begin)
        run = end(folder)
        kept.append(run)
    except BaseException as error:
        with suppress(AnnotatorError):
            kept.append(end(folder))
            if isinstance(error, AnnotatorError):
                error.run = kept[0]
        raise
    for line in seen.describe(run.folder):
        callbacks.notice(line)
    return run


async def _distribute(
    plan: Plan,
    built: BuiltJudge,
    manifest: Manifest,
    folder: Path,
    resume: bool,
    callbacks: _Callbacks,
    where: tuple[str, int | None, str | None],
    kept: list[Run],
) -> Run:
    """Have an engine run the shards of a plan, and return the merged run; see :func:`_execute`."""
    if built.session and built.session.in_batches:
        raise SettingsError("--engine and --workers ask at once: leave --batch and its files out")
    if len(manifest.sources) < len(plan.traces.sources):
        raise SettingsError("the workers of an engine read the traces: name files or folders")
    try:
        engine = await asyncio.to_thread(open_engine, *where)
        try:
            slots = min(engine.slots, plan.concurrency) if built.session else engine.slots
            of = begin_shards(folder, slots, resume=resume)
            jobs = list_jobs(plan, built.source, manifest, folder, of)
            if callbacks.start:
                callbacks.start(Run(manifest, folder))
            await run_shards(engine, judge_shard, jobs, _follow(folder, of, callbacks))
        finally:
            await asyncio.to_thread(engine.close)
        run = merge_shards(folder)
        kept.append(run)
    except BaseException as error:
        with suppress(AnnotatorError):
            kept.append(open_run(folder))
            if isinstance(error, AnnotatorError):
                error.run = kept[0]
        raise
    built.judge.recall(run.manifest.learned)
    built.end(callbacks.notice)
    for line in describe_merged(run):
        callbacks.notice(line)
    return run


def _follow(folder: Path, shards: int, callbacks: _Callbacks) -> Callable[[], None]:
    """Return a function that reports the progress of all shards."""
    numbers = range(1, shards + 1)
    logs = ShardLogs(shard_folder(folder, Shard(number, shards)) for number in numbers)
    failure = ""

    def look() -> None:
        nonlocal failure
        new = logs.look()
        for annotation in new:
            if annotation.status == "failed" and not failure:
                failure = f"{annotation.trace_id}: {explain_failure(annotation)}"
        if new and callbacks.progress:
            counts = logs.counts
            callbacks.progress(Recorded(counts.total(), counts, logs.usage, failure))

    return look


def judge_shard(job: ShardJob) -> tuple[str, str]:
    """Judge a shard, or go on with it, in a worker of an engine.

    Returns:
        The class and the message of the error that stopped the shard; "" and "" if none did.
    """
    try:
        annotate(**job.arguments, on_progress=watch_driver(job.sign))
    except AnnotatorError as error:
        return type(error).__name__, sanitize_line(str(error), 2000)
    return "", ""


def _hold(folder: Path) -> Run:
    """Return the run in a directory with its annotations in memory."""
    run = open_run(folder)
    return Run(run.manifest, None, tuple(run.annotations()))


def merge(folder: str | Path) -> Run:
    """Put the shards below a run directory together into one run there, and return it.

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
