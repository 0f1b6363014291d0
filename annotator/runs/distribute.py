"""A run in shards: an engine starts them, each an ordinary run, and the driver merges them."""

import asyncio
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from annotator.base import errors
from annotator.base.errors import AnnotatorError, BudgetReached, SettingsError
from annotator.base.files import NewFile, explain_errors, open_checked, write_file
from annotator.base.remote import refuse_url
from annotator.base.text import sanitize_line
from annotator.judges.build import ModelSettings
from annotator.rubrics.annotations import Annotation, Usage, find_annotations
from annotator.runs.engines import Engine, open_engine
from annotator.runs.execute import (
    Callbacks,
    Plan,
    describe_ignored,
    describe_problems,
    keep_result,
    make_plan,
    run_plan,
)
from annotator.runs.manifest import Manifest, read_manifest
from annotator.runs.run import Run, open_run
from annotator.runs.shards import SHARDS, list_missing, list_shards, locate_shard, read_shards
from annotator.runs.store import describe_usage
from annotator.traces import Shard, Traces

_PAUSE = 0.1  # seconds between two looks at the shards
_ATTEMPTS = 3  # at a shard whose worker died


@dataclass(frozen=True, slots=True)
class ShardJob:
    """A shard of the run in ``folder``. ``options``: arguments of :func:`make_plan`."""

    folder: Path
    shard: Shard
    command: str
    options: Mapping[str, Any]


async def run_in_shards(
    plan: Plan,
    manifest: Manifest,
    folder: Path,
    callbacks: Callbacks,
    engine_options: tuple[str, int | None, str | None],
    results: list[Run],
    *,
    resume: bool,
) -> Run:
    """Judge in the shards of an engine; return the merged run.

    ``engine_options``: the arguments of :func:`open_engine`. ``results`` receives the run, also if
    it stops.

    Raises:
        AnnotatorError: as :func:`annotator.runs.execute.execute`, from any shard; or the engine
            cannot be used.
    """
    if plan.built.session and plan.built.session.in_batches:
        raise SettingsError("--engine and --workers ask at once: leave --batch and its files out")
    if len(manifest.sources) < len(plan.traces.sources):
        raise SettingsError("the workers of an engine read the traces: name files or folders")
    with keep_result(lambda: open_run(folder), results):
        engine = await asyncio.to_thread(open_engine, *engine_options)
        try:
            slots = min(engine.slots, plan.concurrency) if plan.built.session else engine.slots
            jobs = _list_jobs(plan, manifest, folder, _begin_shards(folder, slots, resume=resume))
            callbacks.start(Run(manifest, folder))
            await _run_jobs(engine, jobs, callbacks)
        finally:
            await asyncio.to_thread(engine.close)
        run = merge_shards(folder)
        results.append(run)
    plan.judge.recall(run.manifest.learned)
    plan.built.end(callbacks.notice)
    for line in _describe_merged(run):
        callbacks.notice(line)
    return run


def _begin_shards(folder: Path, shards: int, *, resume: bool) -> int:
    """Make the folder of the shards, and return their number. A resumed run keeps its number; a
    merged run is split again.
    """
    numbers = {shard.of for shard in list_shards(folder)}
    merged = read_manifest(folder) if (folder / "run.json").exists() else None
    if (numbers or merged) and not resume:
        raise AnnotatorError(
            f"{folder} holds a run; add --resume to go on with it, or name another folder with"
            " --out"
        )
    if merged and not (merged.shards and len(numbers) == 1):
        raise AnnotatorError(
            f"{folder} holds a run without shards; go on without --workers and --engine"
        )
    with explain_errors(folder):
        (folder / "run.json").unlink(missing_ok=True)
        (folder / SHARDS).mkdir(parents=True, exist_ok=True)
    return max(numbers, default=shards)


def _list_jobs(plan: Plan, manifest: Manifest, folder: Path, of: int) -> list[ShardJob]:
    """Return a job for each shard, with its part of the rates, money and concurrency."""
    judge = plan.built.source
    if isinstance(judge, ModelSettings):
        limits = {name: getattr(judge, name) for name in ("rpm", "tpm", "max_cost")}
        parts = {name: limit / of for name, limit in limits.items() if limit is not None}
        judge = replace(judge, prices=tuple(map(Path.absolute, judge.prices)), **parts)
    options = {name: getattr(plan, name) for name in ("limit", "only", "criteria", "conditions")}
    options |= {"rubric": plan.rubrics, "judge": judge}
    options["concurrency"] = max(1, plan.concurrency // of)
    jobs = []
    for shard in (Shard(number, of) for number in range(1, of + 1)):
        form, redacted = plan.traces.format, plan.traces.redacted
        traces = Traces(manifest.sources, form, shard, redacted, plan.limit)
        command = manifest.command or ""
        jobs.append(ShardJob(folder.absolute(), shard, command, {"traces": traces, **options}))
    return jobs


def judge_shard(job: ShardJob) -> tuple[str, str]:
    """Judge a shard, or go on with it, in a worker of an engine.

    Returns:
        The class and the message of the error that stopped the shard; "" and "" without an error.
    """
    try:
        if not (job.folder / SHARDS).exists():
            raise AnnotatorError(
                f"{job.folder} is not on the machine of a worker: the workers of an engine need the"
                " run directory in common, as a shared folder of the same path"
            )
        plan, folder = make_plan(**job.options), locate_shard(job.folder, job.shard)
        manifest, resume = plan.make_manifest(job.command), (folder / "run.json").exists()
        asyncio.run(run_plan(plan, manifest, folder, Callbacks(), open_run, [], resume=resume))
    except AnnotatorError as error:
        return type(error).__name__, sanitize_line(str(error), 2000)
    return "", ""


class ShardLogs:
    """Counts the annotations in the files of all shards while they grow."""

    def __init__(self, folders: Iterable[Path]) -> None:
        files = (folder / "annotations.jsonl" for folder in folders)
        self._files = {file: (0, Counter[str](), Usage()) for file in files}
        self.read()

    def read(self) -> list[Annotation]:
        """Return the new annotations."""
        new = []
        for file, (offset, counts, usage) in self._files.items():
            with suppress(FileNotFoundError), file.open("rb") as log:
                if file.stat().st_size < offset:  # a resumed shard took its failures out
                    offset, counts, usage = 0, Counter(), Usage()
                log.seek(offset)
                for line in log:
                    if line.endswith(b"\n"):
                        offset += len(line)
                        new.append(annotation := Annotation.from_json(line.decode()))
                        counts[annotation.status] += 1
                        usage += annotation.usage
                self._files[file] = offset, counts, usage
        return new

    def report(self, callbacks: Callbacks) -> None:
        """Report the new annotations, if there are any."""
        if new := self.read():
            counts = sum((counts for _, counts, _ in self._files.values()), start=Counter[str]())
            usage = sum((usage for _, _, usage in self._files.values()), start=Usage())
            callbacks.report(new, counts, usage)


async def _run_jobs(engine: Engine, jobs: Sequence[ShardJob], callbacks: Callbacks) -> None:
    """Have an engine run all shards, wait for them, and report their progress."""
    logs = ShardLogs(job.folder / SHARDS / str(job.shard) for job in jobs)
    running = [(job, engine.submit(judge_shard, job), 1) for job in jobs]
    problems: list[AnnotatorError] = []
    while running:
        await asyncio.sleep(_PAUSE)
        logs.report(callbacks)
        for task in [each for each in running if each[1].done()]:
            running.remove(task)
            job, outstanding, attempt = task
            try:
                name, message = outstanding.result()
            except Exception as error:  # of the engine: the worker is gone
                if attempt < _ATTEMPTS:
                    running.append((job, engine.submit(judge_shard, job), attempt + 1))
                    continue
                reason = f"{type(error).__name__}: {sanitize_line(str(error), 300)}"
                name, message = "", f"its worker died {_ATTEMPTS} times: {reason}"
            if message:
                error_class = getattr(errors, name, AnnotatorError)
                problems.append(error_class(f"shard {job.shard}: {message}"))
    logs.report(callbacks)
    if problems:  # another error counts more: money alone does not help
        raise min(problems, key=lambda error: isinstance(error, BudgetReached))


def merge_shards(folder: Path) -> Run:
    """Write the shards below a folder as one run into it, and return that run. The shards stay.

    Raises:
        AnnotatorError: a shard is missing or not finished, the shards are not of the same traces
            and settings, two have judged the same trace, or the run cannot be written.
    """
    refuse_url(folder, "shards are merged on this machine: copy the run here")
    if (folder / "run.json").exists() and not read_manifest(folder).shards:
        raise AnnotatorError(f"{folder}: not a run in shards: it is whole already")
    manifest, shard_folders = read_shards(folder)
    if missing := list_missing(shard_folders):
        raise AnnotatorError(
            f"{folder}: {manifest.status}; {', '.join(missing[:10])}"
            f"{' ...' if missing[10:] else ''}: run these first (with --resume if they were begun)"
        )
    if manifest.status != "finished":
        raise AnnotatorError(f"{folder}: {manifest.status}: run all of them with --resume")
    for _ in Run(manifest, folder, shard_folders=shard_folders).annotations():
        pass  # checks all lines before anything is written
    file = folder / "annotations.jsonl"
    with NewFile(file, private=True) as out, explain_errors(file):
        for shard_folder in shard_folders:
            with open_checked(find_annotations(shard_folder)) as lines:
                out.writelines(line for line in lines if line.endswith(b"\n"))
    _collect_answers(shard_folders)
    text = json.dumps(manifest.as_dict(), ensure_ascii=False, indent=2)
    write_file(folder / "run.json", f"{text}\n", private=True)
    return Run(manifest, folder)


def _collect_answers(folders: Sequence[Path]) -> None:
    """Copy the answers of the shards into the cache that all runs share."""
    files = [file for folder in folders if os.path.lexists(file := folder / "answers.sqlite")]
    if files:
        from annotator.judges.llm.cache import AnswerCache, get_cache_file

        cache = AnswerCache(get_cache_file())
        for file in files:
            cache.absorb(file)
        cache.close()


def _describe_merged(run: Run) -> Iterator[str]:
    """Yield notices about a merged run."""
    manifest = run.manifest
    usage = {name: manifest.totals[name] for name in Usage.__dataclass_fields__}
    if line := describe_usage(Usage.from_fields(usage)):
        yield line
    if manifest.ignored:
        yield describe_ignored(manifest.ignored)
    yield from describe_problems(manifest.problems, f"{run}/run.json")
