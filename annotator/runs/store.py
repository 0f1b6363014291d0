"""The run directory: ``run.json`` and the append-only ``annotations.jsonl``."""

import hashlib
import json
import math
import os
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from annotator.base.errors import AnnotatorError
from annotator.base.files import LineLog, NewFile, explain_errors
from annotator.base.text import format_count, replace_surrogates
from annotator.rubrics.annotations import STATUSES, Annotation, Usage, read_annotations
from annotator.runs.manifest import Manifest, format_now, list_differences, read_manifest
from annotator.runs.run import Run, open_run

_ANNOTATIONS = "annotations.jsonl"
_MENDED = "what is judged is kept, go on with --resume when this is mended"


class RunDirectory:
    """A run that this process writes; a second process is refused.

    Each annotation is one write of one line. A killed process leaves at most one torn line, which
    :meth:`resume` cuts off. A resumed run judges failed traces again: their old annotations come
    back when the run is closed, unless there are new ones.
    """

    def __init__(self, folder: Path, manifest: Manifest, log: LineLog) -> None:
        self.folder = folder
        self.manifest = manifest
        self.counts: dict[str, int] = dict.fromkeys(STATUSES, 0)
        self.contradictory = 0  # annotations in which the judge contradicts itself
        self.dearest = 0.0  # dollars for a call, the greatest mean of any trace
        self._priced = 0.0  # dollars for the annotations, if known
        self._unpriced = 0  # calls of unknown cost
        self._failures: list[Annotation] = []  # from before the resume, to be judged again
        self._judged = Usage()  # of the annotations
        self._failed = Usage()  # of the failures
        self._before = _read_overhead(folder, manifest)  # overhead from before the resume
        self._overhead = Usage()  # overhead of this process
        self.unbilled = Usage()  # of answers from batches whose traces have no annotation yet
        self._log = log
        self._done: set[bytes] = set()

    @classmethod
    def create(cls, folder: Path, manifest: Manifest) -> "RunDirectory":
        """Start a new run in ``folder``, which must not hold one."""
        with explain_errors(f"in {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            _check_free(folder)
        with ExitStack() as opened, explain_errors(f"in {folder}"):
            log = opened.enter_context(_open_log(folder))
            _check_free(folder)  # another process may have been faster
            run = cls(folder, manifest, log)
            try:
                run.save()
            except BaseException:
                run._remove()
                raise
            opened.pop_all()
        return run

    @classmethod
    def resume(cls, folder: Path, manifest: Manifest) -> "RunDirectory":
        """Go on with the run in ``folder``."""
        before = read_manifest(folder)
        if differences := list_differences(before, manifest):
            raise AnnotatorError(
                f"{folder} cannot be resumed, its settings were others: {'; '.join(differences)}"
            )
        if manifest.limit is not None and manifest.limit < (before.limit or math.inf):
            was = "had no --limit" if before.limit is None else f"had --limit {before.limit}"
            was = "was a pilot of random traces, not the first ones" if before.pilot else was
            raise AnnotatorError(f"{folder}: the run {was}; a smaller one would leave traces out")
        pilot = before.pilot.get("traces")
        if manifest.pilot and manifest.pilot["traces"] < (pilot or math.inf):
            was = f"a pilot of {pilot} traces: name no fewer" if pilot else "no pilot: leave it out"
            raise AnnotatorError(f"--pilot: {folder} is {was}")
        merged = manifest.copy_with(
            {
                "id": before.id,
                "started": before.started,
                "overhead": dict(before.overhead),
                "learned": dict(before.learned),
                "resumed": [*before.resumed, format_now()],
                **({"anchors": dict(before.anchors)} if before.anchors else {}),
            }
        )
        with ExitStack() as opened:
            log = opened.enter_context(_open_log(folder))
            log.cut_torn()
            run = cls(folder, merged, log)
            for annotation in Run(merged, folder).annotations():
                if annotation.status == "failed":
                    run._failures.append(annotation)
                    run._failed += annotation.usage
                    run._update_dearest(annotation.usage)
                else:
                    run._remember(annotation)
            if before.status == "running" and before.learned:  # killed while a model was asked
                run._before += Usage(unreported_calls=1)
            run.save_overhead()
            if run._failures:
                kept = (each for each in read_annotations(log.file) if each.status != "failed")
                log.rewrite(f"{annotation.to_json()}\n".encode() for annotation in kept)
            opened.pop_all()
        return run

    def is_done(self, trace_id: str, rubric: str) -> bool:
        """Whether a trace has its annotation by a rubric."""
        return _hash_key(trace_id, rubric) in self._done

    def sync(self) -> None:
        """Bring what was written to the disk."""
        self._log.sync()

    def append(self, annotation: Annotation) -> None:
        """Write one annotation."""
        self._log.append(f"{annotation.to_json()}\n".encode())
        self._remember(annotation)

    @property
    def usage(self) -> Usage:
        """The usage of the run, in this process and before it."""
        return self._judged + self._failed + self._before + self._overhead + self.unbilled

    @cached_property
    def failed_before(self) -> frozenset[tuple[str, str]]:
        """The traces and rubrics that failed before the run was resumed."""
        return frozenset((each.trace_id, each.rubric) for each in self._failures)

    @property
    def spent_dollars(self) -> float:
        """The cost of the run; a call of unknown cost counts as much as the dearest one."""
        others = (self._before, self._overhead, self._failed)
        unpriced = self._unpriced + sum(usage.unreported_calls for usage in others)
        priced = self._priced + sum(usage.cost_usd or 0.0 for usage in others)
        return priced + unpriced * self.dearest

    @property
    def id(self) -> str:
        """The id of the run; a resumed one keeps it."""
        return self.manifest.id

    @property
    def in_shards(self) -> bool:
        """Whether other processes judge other shares of the same traces."""
        return self.manifest.shard is not None

    def _remember(self, annotation: Annotation) -> None:
        self._done.add(_hash_key(annotation.trace_id, annotation.rubric))
        self.counts[annotation.status] += 1
        self.contradictory += bool(annotation.contradictions)
        self._judged += annotation.usage
        self._update_dearest(annotation.usage)
        cost = annotation.usage.cost_usd
        self._priced += cost or 0.0
        unreported = annotation.usage.unreported_calls
        self._unpriced += annotation.usage.calls if cost is None else unreported

    def _update_dearest(self, usage: Usage) -> None:
        if usage.cost_usd and usage.calls:
            self.dearest = max(self.dearest, usage.cost_usd / usage.calls)

    def spent(self, overhead: Usage, endpoint_state: Mapping[str, Any]) -> None:
        """Save the judge's usage that belongs to no trace, and facts about its endpoint."""
        self._overhead = overhead
        self.save_overhead(learned=dict(endpoint_state))

    def save_overhead(self, **changes: Any) -> None:
        """Save all usage that belongs to no annotation, with ``changes``."""
        overhead = self._before + self._overhead + self._failed
        self.save(overhead=asdict(overhead), **changes)

    def save(self, **changes: Any) -> None:
        """Write ``run.json``, with ``changes``, in one step."""
        totals = {
            "annotations": sum(self.counts.values()),
            **self.counts,
            "contradictory": self.contradictory,
            **asdict(self.usage),
        }
        self.manifest = self.manifest.copy_with({**changes, "totals": totals})
        text = json.dumps(self.manifest.as_dict(), ensure_ascii=False, indent=2)
        file = self.folder / "run.json"
        with NewFile(file, private=True, advice=_MENDED if file.exists() else "") as out:
            out.write(replace_surrogates(f"{text}\n").encode())

    def close(self, *, keep: bool = False, **changes: Any) -> None:
        """End the run with ``changes`` to its manifest.

        A run without annotations and calls is removed, unless ``keep``.
        """
        finished = changes.get("status") == "finished"
        try:
            if self._failures:
                self._restore_failures(complete=finished and self.manifest.limit is None)
            self.save(**changes)
            self._log.sync()
            if not keep and not finished and not self.usage.calls:
                self._remove()
        finally:
            self._log.close()

    def _remove(self) -> None:
        """Remove a run without annotations, unless the folder holds other files."""
        ours = {_ANNOTATIONS, "run.json"}
        with explain_errors(f"in {self.folder}", _MENDED):
            names = {file.name for file in self.folder.iterdir()}
            if self._log.size or not names <= ours | {self._log.lock_file.name}:
                return
            for name in ours & names:
                (self.folder / name).unlink()
        self._log.close()
        with suppress(OSError):
            self.folder.rmdir()

    def _restore_failures(self, complete: bool) -> None:
        """Write the failures that were not judged again; the others' usage becomes overhead.

        ``complete``: all traces were read. Then an unreadable trace that was not met again is gone.
        """
        for annotation in self._failures:
            gone = complete and (annotation.error or "").startswith("unreadable: ")
            if gone or self.is_done(annotation.trace_id, annotation.rubric):
                self._before += annotation.usage
            else:
                self.append(annotation)
        self._failures, self._failed = [], Usage()
        self.save_overhead()


def describe_usage(usage: Usage) -> str:
    """Return the usage of a run in one line; "" if it called no model."""
    if not usage.calls and not usage.cache_hits:
        return ""
    calls = format_count(usage.calls, "call")
    if usage.retries:
        calls += f" ({usage.retries} repeated)"
    if usage.cache_hits:
        calls += f" and {format_count(usage.cache_hits, 'known answer')}"
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    thoughts = f" ({usage.reasoning_tokens:,} reasoning)" if usage.reasoning_tokens else ""
    bound = "at least " if usage.unreported_calls else ""
    cost = "cost unknown" if usage.cost_usd is None else f"{bound}${usage.cost_usd:.4f}"
    tokens = f"{usage.input_tokens:,} in{cached}, {usage.output_tokens:,} out{thoughts}"
    return f"{calls}; tokens: {bound}{tokens}; {cost}"


def list_judged(folder: Path) -> set[tuple[str, str]]:
    """Return the trace and rubric of each annotation in a run directory that did not fail."""
    return {
        (annotation.trace_id, annotation.rubric)
        for annotation in open_run(folder).annotations()
        if annotation.status != "failed"
    }


def _read_overhead(folder: Path, manifest: Manifest) -> Usage:
    """Return the overhead in a manifest. Raises :class:`AnnotatorError` if it is invalid."""
    try:
        return Usage.from_fields(manifest.overhead) if manifest.overhead else Usage()
    except ValueError as error:
        problem = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise AnnotatorError(
            f"{folder / 'run.json'}: overhead: {problem}; resume the run with the version that"
            " wrote it, or start a new one"
        ) from error


def _hash_key(trace_id: str, rubric: str) -> bytes:
    return hashlib.blake2b(f"{rubric}\0{trace_id}".encode(), digest_size=12).digest()


def _check_free(folder: Path) -> None:
    """Raise an error if a folder holds a run. An empty log without a manifest is not one."""
    log = folder / _ANNOTATIONS
    if os.path.lexists(folder / "run.json") or (log.exists() and log.stat().st_size):
        state, advice = "an unfinished run", "add --resume to go on with it"
        with suppress(AnnotatorError):
            if read_manifest(folder).status == "finished":
                state, advice = "a finished run", "name another folder with --out"
        raise AnnotatorError(f"{folder} holds {state}; {advice}")


def _open_log(folder: Path) -> LineLog:
    busy = f"{folder}: another process is writing this run"
    file = folder / _ANNOTATIONS
    return LineLog(file, busy=busy, durable=False, private=True, advice=_MENDED)
