"""A run whose shards an engine starts, each an ordinary run; the driver merges them."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from annotator.base import errors
from annotator.base.errors import AnnotatorError, BudgetReached
from annotator.base.files import explain_errors
from annotator.base.text import sanitize_line
from annotator.judges.build import ModelSettings
from annotator.rubrics.annotations import Annotation, Usage
from annotator.runs.engines import Engine
from annotator.runs.execute import Plan
from annotator.runs.manifest import Manifest
from annotator.runs.run import Run
from annotator.runs.store import describe_usage
from annotator.traces import Shard, Traces

_LOOK = 0.1  # seconds between two looks at the shards
_SILENCE = 120.0  # seconds without a sign of the driver after which a shard stops
_ATTEMPTS = 3  # of a shard whose worker died


@dataclass(frozen=True, slots=True)
class ShardJob:
    """One shard for a worker.

    Args:
        arguments: of :func:`annotator.annotate`.
        sign: a file that the driver touches as long as it lives.
    """

    arguments: Mapping[str, Any]
    sign: Path


def list_jobs(
    plan: Plan, judge: Any, manifest: Manifest, folder: Path, shards: int
) -> list[ShardJob]:
    """Return a job for each shard, with its part of the rates, the money and the calls in flight.

    ``judge`` is the source of the plan's judge, for a worker to build it again.
    """
    if isinstance(judge, ModelSettings):
        limits = {name: getattr(judge, name) for name in ("rpm", "tpm", "max_cost")}
        parts = {name: limit / shards for name, limit in limits.items() if limit is not None}
        judge = replace(judge, prices=tuple(map(Path.absolute, judge.prices)), **parts)
    arguments = {
        "traces": Traces(manifest.sources, plan.traces.format, redacted=plan.traces.redacted),
        "rubric": plan.rubrics,
        "judge": judge,
        "out": folder.absolute(),
        "resume": True,
        "only": plan.only,
        "concurrency": max(1, plan.concurrency // shards),
        "rejected": plan.criteria.rejected,
        "least_read": plan.criteria.least_read,
        "command": manifest.command,
    }
    sign = folder.absolute() / "shards" / "driver"
    with explain_errors(sign):
        sign.touch()
    numbers = range(1, shards + 1)
    return [ShardJob(arguments | {"shard": Shard(number, shards)}, sign) for number in numbers]


def watch_driver(sign: Path) -> Callable[[object], None]:
    """Return a callback that raises :class:`AnnotatorError` when the driver has stopped.

    Raises:
        AnnotatorError: this machine does not see the run directory.
    """
    if not sign.exists():
        raise AnnotatorError(
            f"{sign} is not on the machine of a worker: the workers of an engine need the run"
            " directory in common, as a shared folder of the same path"
        )
    touched, since = 0, 0.0

    def check(recorded: object) -> None:
        nonlocal touched, since
        before, touched = touched, sign.stat().st_mtime_ns
        if touched != before:
            since = time.monotonic()
        elif time.monotonic() - since > _SILENCE:
            raise AnnotatorError("the driver of this shard has stopped")

    return check


class ShardLogs:
    """Counts the annotations in the files of all shards as they grow."""

    def __init__(self, folders: Iterable[Path]) -> None:
        files = (folder / "annotations.jsonl" for folder in folders)
        self._read = {file: (0, Counter[str](), Usage()) for file in files}
        self.look()

    def look(self) -> list[Annotation]:
        """Return the annotations that are new since the last look."""
        new = []
        for file, (offset, counts, usage) in self._read.items():
            with suppress(FileNotFoundError), file.open("rb") as log:
                if file.stat().st_size < offset:  # failures were set aside
                    offset, counts, usage = 0, Counter(), Usage()
                log.seek(offset)
                lines = log.read()
                lines = lines[: lines.rfind(b"\n") + 1]
                annotations = [Annotation.from_json(line.decode()) for line in lines.splitlines()]
                counts.update(annotation.status for annotation in annotations)
                usage = sum((annotation.usage for annotation in annotations), start=usage)
                self._read[file] = offset + len(lines), counts, usage
                new += annotations
        return new

    @property
    def counts(self) -> Counter[str]:
        """How many annotations there are, by status."""
        return sum((counts for _, counts, _ in self._read.values()), start=Counter())

    @property
    def usage(self) -> Usage:
        """The tokens and dollars of all annotations."""
        return sum((usage for _, _, usage in self._read.values()), start=Usage())


async def run_shards(
    engine: Engine,
    function: Callable[[ShardJob], tuple[str, str]],
    jobs: Sequence[ShardJob],
    look: Callable[[], None],
) -> None:
    """Have an engine run all shards, and wait for them; call ``look`` again and again meanwhile.

    ``function`` returns the class and the message of the error that stopped the shard, or "", "".

    Raises:
        AnnotatorError: a shard stopped, or its worker died three times. All others have ended.
    """
    running = [(job, engine.submit(function, job), 1) for job in jobs]
    stopped: list[AnnotatorError] = []
    while running:
        await asyncio.sleep(_LOOK)
        jobs[0].sign.touch()
        look()
        for started in [each for each in running if each[1].done()]:
            running.remove(started)
            job, outstanding, attempt = started
            try:
                kind, problem = outstanding.result()
            except Exception as error:  # of the engine: the worker is gone
                if attempt < _ATTEMPTS:
                    running.append((job, engine.submit(function, job), attempt + 1))
                    continue
                reason = f"{type(error).__name__}: {sanitize_line(str(error), 300)}"
                kind, problem = "", f"its worker died {_ATTEMPTS} times: {reason}"
            if problem:
                error_class = getattr(errors, kind, AnnotatorError)
                stopped.append(error_class(f"shard {job.arguments['shard']}: {problem}"))
    look()
    if stopped:  # more money does not help where something else is wrong, too
        raise min(stopped, key=lambda error: isinstance(error, BudgetReached))


def describe_merged(run: Run) -> Iterator[str]:
    """Yield what the user should know of a merged run, a line each."""
    manifest = run.manifest
    usage = {name: manifest.totals[name] for name in Usage.__dataclass_fields__}
    if line := describe_usage(Usage.from_fields(usage)):
        yield line
    if manifest.ignored:
        yield f"{manifest.ignored} files or records are not traces and were left out"
    for example in manifest.problems[:5]:
        yield f"  {sanitize_line(example, 400)}"
    if len(manifest.problems) > 5:
        yield f"  and more kinds: see problems in {run}/run.json, or annotate traces"
