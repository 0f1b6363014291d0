"""The run directory: ``run.json`` and the append-only ``annotations.jsonl``."""

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from annotator.base.errors import AnnotatorError
from annotator.base.files import LineLog, NewFile, explain_errors
from annotator.base.text import replace_surrogates
from annotator.rubrics.annotations import STATUSES, Annotation, Usage, read_annotations
from annotator.runs.manifest import Manifest, now, read_manifest
from annotator.runs.run import Run, open_run

_ANNOTATIONS = "annotations.jsonl"
_ASIDE = "failed-before.jsonl"  # failures of a resumed run that wait to be judged again
_BEGIN = b'{"trace_id": '  # of every line
_MENDED = "what is judged is kept, go on with --resume when this is mended"

# What a resumed run must have in common with the run that it resumes.
_SAME = (
    *("rubrics", "prompt_sha256", "judge", "sources", "format", "format_plugin", "only"),
    *("rejected", "least_read", "redaction"),
)


class RunDirectory:
    """A run being written. One process at a time holds it; a second one is refused.

    An annotation is one write of one whole line, so that a process killed at any moment leaves
    whole lines and at most one torn end, which is cut off when the run is resumed. The lines are
    brought to the disk when the run is closed, not one by one: only a crash of the machine loses
    the latest ones, which are then judged again. What failed is set aside at that moment and judged
    again; whatever then was not reached comes back when the run is closed.
    """

    def __init__(self, folder: Path, manifest: Manifest, log: LineLog) -> None:
        self.folder = folder
        self.manifest = manifest
        self.counts: dict[str, int] = dict.fromkeys(STATUSES, 0)
        self.contradictory = 0  # annotations in which the judge contradicts itself
        self._judged = Usage()
        self.dearest = 0.0  # dollars for a call, the greatest mean of any trace
        self._priced = 0.0  # dollars for the annotations, as far as they are known
        self._unpriced = 0  # calls whose cost is not known
        self._aside = Usage()  # of failures that wait to be judged again
        self.failed_before: frozenset[tuple[str, str]] = frozenset()
        self._before = _read_overhead(folder, manifest)
        self._overhead = Usage()
        self.unbilled = Usage()  # of answers from batches whose traces have no annotation yet
        self._log = log
        self._done: set[bytes] = set()

    @classmethod
    def create(cls, folder: Path, manifest: Manifest) -> "RunDirectory":
        """Start a new run in ``folder``, which must not hold one.

        Raises:
            AnnotatorError: the folder holds a run already, or cannot be written.
        """
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
        """Go on with the run in ``folder``.

        Raises:
            AnnotatorError: there is none, it was started with other settings (the difference is in
                the message), another process is writing it, or a line is damaged or not of it.
        """
        before = read_manifest(folder)
        if differences := list_differences(before, manifest):
            raise AnnotatorError(
                f"{folder} cannot be resumed, its settings were others: {'; '.join(differences)}"
            )
        if manifest.limit is not None and manifest.limit < (before.limit or math.inf):
            was = "had no --limit" if before.limit is None else f"had --limit {before.limit}"
            was = "was a pilot of random traces, not the first ones" if before.pilot else was
            raise AnnotatorError(f"{folder}: the run {was}; a smaller one would leave traces out")
        if manifest.pilot and manifest.pilot["traces"] < before.pilot.get("traces", math.inf):
            size = before.pilot.get("traces")
            why = f"a pilot of {size} traces: name no fewer" if size else "no pilot: leave it out"
            raise AnnotatorError(f"--pilot: {folder} is {why}")
        merged = manifest.changed(
            {
                "id": before.id,
                "started": before.started,
                "overhead": dict(before.overhead),
                "learned": dict(before.learned),
                "resumed": [*before.resumed, now()],
            }
        )
        with ExitStack() as opened:
            log = opened.enter_context(_open_log(folder))
            _cut_torn(log)
            run = cls(folder, merged, log)
            _set_failures_aside(folder, log)
            if os.path.lexists(folder / _ASIDE):
                failed = set()
                for annotation in read_annotations(folder / _ASIDE):
                    run._aside += annotation.usage
                    run._learn(annotation.usage)
                    failed.add((annotation.trace_id, annotation.rubric))
                run.failed_before = frozenset(failed)
            for annotation in Run(merged, folder).annotations():
                run._remember(annotation)
            if before.status == "running" and before.learned:  # killed while a model was asked
                run._before += Usage(unreported_calls=1)
            run.save(overhead=asdict(run._before))
            opened.pop_all()
        return run

    def is_done(self, trace_id: str, rubric: str) -> bool:
        """Whether the trace has its line for this rubric."""
        return _key(trace_id, rubric) in self._done

    def sync(self) -> None:
        """Bring what was written to the disk."""
        self._log.sync()

    def append(self, annotation: Annotation) -> None:
        """Write one annotation.

        Raises:
            AnnotatorError: it cannot be written (a full disk, say); the file is as it was before.
        """
        self._log.append(annotation.to_json().encode() + b"\n")
        self._remember(annotation)

    @property
    def usage(self) -> Usage:
        """All that the run has cost, in this process and before it."""
        return self._judged + self._before + self._overhead + self.unbilled

    @property
    def spent_dollars(self) -> float:
        """What the run has cost, as far as it is known; a call whose cost is not known counts as
        the dearest one.
        """
        others = (self._before, self._overhead, self._aside)
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
        self._done.add(_key(annotation.trace_id, annotation.rubric))
        self.counts[annotation.status] += 1
        self.contradictory += bool(annotation.contradictions)
        self._judged += annotation.usage
        self._learn(annotation.usage)
        cost = annotation.usage.cost_usd
        self._priced += cost or 0.0
        unreported = annotation.usage.unreported_calls
        self._unpriced += annotation.usage.calls if cost is None else unreported

    def _learn(self, usage: Usage) -> None:
        """Take note of what a call can cost."""
        if usage.cost_usd and usage.calls:
            self.dearest = max(self.dearest, usage.cost_usd / usage.calls)

    def spent(self, overhead: Usage, learned: Mapping[str, Any]) -> None:
        """Save what the judge has spent so far on no trace in particular, and what it learned."""
        self._overhead = overhead
        self.save(overhead=asdict(self._before + overhead), learned=dict(learned))

    def save(self, **changes: Any) -> None:
        """Write ``run.json`` anew, in one step, with ``changes``.

        Raises:
            AnnotatorError: it cannot be written.
        """
        totals = {
            "annotations": sum(self.counts.values()),
            **self.counts,
            "contradictory": self.contradictory,
            **asdict(self.usage),
        }
        self.manifest = self.manifest.changed({**changes, "totals": totals})
        text = json.dumps(self.manifest.as_dict(), ensure_ascii=False, indent=2)
        place = self.folder / "run.json"
        with NewFile(place, private=True, advice=_MENDED if place.exists() else "") as out:
            out.write(replace_surrogates(f"{text}\n").encode())

    def close(self, *, keep: bool = False, **changes: Any) -> None:
        """End the run with ``changes`` to its manifest, bring it to the disk and let go of it.

        What had failed before and was not judged again comes back; a run in which nothing was
        recorded, nothing was called and nothing waits for an answer is removed, unless it is to be
        kept.
        """
        finished = changes.get("status") == "finished"
        try:
            self._settle(complete=finished and self.manifest.limit is None)
            self.save(**changes)
            self._log.sync()
            if not keep and not finished and not self.usage.calls:
                self._remove()
        finally:
            self._log.close()

    def _remove(self) -> None:
        """Remove a run in which nothing is recorded, unless something else stands beside it."""
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

    def _settle(self, complete: bool) -> None:
        """Bring back the failures set aside that were not judged again; count the others' cost.

        ``complete``: all traces were seen. What could not be read before and is none of them is a
        folder, say, whose traces can be read now.
        """
        aside = self.folder / _ASIDE
        if not aside.exists():
            return
        last = {
            _key(annotation.trace_id, annotation.rubric): n
            for n, annotation in enumerate(read_annotations(aside))
        }
        for n, annotation in enumerate(read_annotations(aside)):
            key = _key(annotation.trace_id, annotation.rubric)
            gone = complete and (annotation.error or "").startswith("unreadable: ")
            if key in self._done or last[key] != n or gone:
                self._before += annotation.usage
            else:
                self.append(annotation)
        self.save(overhead=asdict(self._before + self._overhead))
        with explain_errors(aside, _MENDED):
            aside.unlink()


def describe_usage(usage: Usage) -> str:
    """Return the usage of a run in one line, or "" if it called no model."""
    if not usage.calls and not usage.cache_hits:
        return ""
    least = "at least " if usage.unreported_calls else ""
    cost = "unknown" if usage.cost_usd is None else f"{least}{usage.cost_usd:.4f} USD"
    return (
        f"calls {usage.calls} (repeated {usage.retries}), answers known {usage.cache_hits};"
        f" tokens in {usage.input_tokens} (cached {usage.cached_tokens}), out"
        f" {usage.output_tokens} (reasoning {usage.reasoning_tokens}); cost {cost}"
    )


def read_done(folder: Path) -> Callable[[str, str], bool]:
    """Return whether a trace has its line for a rubric in a run directory, which stays as it is.

    A failure does not count: it will be judged again.

    Raises:
        AnnotatorError: no run there, or a line is damaged.
    """
    done = {
        _key(annotation.trace_id, annotation.rubric)
        for annotation in open_run(folder).annotations()
        if annotation.status != "failed"
    }
    return lambda trace_id, rubric: _key(trace_id, rubric) in done


def list_differences(first: Manifest, second: Manifest) -> list[str]:
    """Return the settings in which two runs differ that are to be one; none if they can be."""
    old, new = _settings(first), _settings(second)
    return [f"{key}: {_difference(old[key], new[key])}" for key in _SAME if old[key] != new[key]]


def _settings(manifest: Manifest) -> dict[str, Any]:
    """Return what a resumed run must have in common with the run that it resumes."""
    rubrics = {
        scheme.id: f"version {scheme.version}, {scheme.sha256}" for scheme in manifest.rubrics
    }
    fields = {"rejected": manifest.rejected, "least_read": manifest.least_read}
    fields |= manifest.as_dict()
    return {key: fields.get(key) for key in _SAME} | {"rubrics": rubrics}


def _read_overhead(folder: Path, manifest: Manifest) -> Usage:
    """Return what a run has used so far for no trace in particular.

    Raises:
        AnnotatorError: it is not what this version of the tool writes.
    """
    try:
        return Usage.from_fields(manifest.overhead) if manifest.overhead else Usage()
    except ValueError as error:
        what = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise AnnotatorError(
            f"{folder / 'run.json'}: overhead: {what}; resume the run with the version that wrote"
            " it, or start a new one"
        ) from error


def _key(trace_id: str, rubric: str) -> bytes:
    return hashlib.blake2b(f"{rubric}\0{trace_id}".encode(), digest_size=12).digest()


def _check_free(folder: Path) -> None:
    """Raise an error if a folder holds a run. Without a manifest an empty log is none."""
    log = folder / _ANNOTATIONS
    if os.path.lexists(folder / "run.json") or (log.exists() and log.stat().st_size):
        finished = _is_finished(folder)
        what = "a finished run" if finished else "an unfinished run"
        do = "name another folder with --out" if finished else "add --resume to go on with it"
        raise AnnotatorError(f"{folder} holds {what}; {do}")
    aside = folder / _ASIDE
    if os.path.lexists(aside):  # its lines would be counted as of the new run
        raise AnnotatorError(
            f"{aside} is of an earlier run; move it away, or name another folder with --out"
        )


def _is_finished(folder: Path) -> bool:
    with suppress(AnnotatorError):
        return read_manifest(folder).status == "finished"
    return False


def _difference(before: Any, after: Any) -> str:
    """Return what differs between two settings, named as deep as needed."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
        return ", ".join(f"{key} {_difference(before.get(key), after.get(key))}" for key in keys)
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
        return ", ".join(_difference(*pair) for pair in pairs)
    return f"was {json.dumps(before)}, is now {json.dumps(after)}"


def _open_log(folder: Path) -> LineLog:
    busy = f"{folder}: another process is writing this run"
    file = folder / _ANNOTATIONS
    return LineLog(file, busy=busy, durable=False, private=True, advice=_MENDED)


def _cut_torn(log: LineLog) -> None:
    """Take off what a killed process has left of a line; after a crash there may be NULs in it.

    Raises:
        AnnotatorError: it begins as no annotation does: another program has written it.
    """
    torn = log.torn.strip(b"\0")
    if not (torn.startswith(_BEGIN) or _BEGIN.startswith(torn)):
        raise AnnotatorError(
            f"{log.file}: its last line has no end, and is no annotation: take it out, or name"
            " another folder with --out"
        )
    log.cut_torn()


def _set_failures_aside(folder: Path, log: LineLog) -> None:
    """Move ``failed`` lines into a file of their own.

    The file of failures is whole before a line is taken out; one that a killed process has already
    moved is not moved twice.
    """
    failed = dict.fromkeys(_lines(log.file, failed=True))
    if not failed:
        return
    aside = folder / _ASIDE
    waiting = dict.fromkeys(_lines(aside)) if aside.exists() else {}
    if len(waiting | failed) > len(waiting):
        with NewFile(aside, private=True, advice=_MENDED) as out:
            out.writelines(waiting | failed)
    log.rewrite(_lines(log.file, failed=False))


def _lines(file: Path, failed: bool | None = None) -> Iterator[bytes]:
    """Yield the lines of a file of annotations: all, those that failed, or the others."""
    for annotation in read_annotations(file):
        if failed is None or failed == (annotation.status == "failed"):
            yield annotation.to_json().encode() + b"\n"
