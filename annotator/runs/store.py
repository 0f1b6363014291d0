"""The run directory: ``run.json`` and the append-only ``annotations.jsonl``."""

import fcntl
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from annotator.annotations import STATUSES, Annotation, Usage, read_annotations
from annotator.errors import AnnotatorError
from annotator.runs.manifest import now, read_manifest

_ANNOTATIONS = "annotations.jsonl"
_ASIDE = "failed-before.jsonl"  # failures of a resumed run that wait to be judged again
_LOCK = ".lock"

# What a resumed run must have in common with the run that it resumes.
_SAME = ("rubrics", "prompt_sha256", "judge", "sources", "format", "format_plugin", "only")


class RunDirectory:
    """A run being written. One process at a time holds it; a second one is refused.

    An annotation is one write of one whole line, so that a process killed at any moment leaves
    whole lines and at most one torn end, which is cut off when the run is resumed. What failed is
    set aside at that moment and judged again; whatever then was not reached comes back when the run
    is closed.
    """

    def __init__(self, folder: Path, manifest: dict[str, Any], lock: int) -> None:
        self.folder = folder
        self.manifest = manifest
        self.counts: dict[str, int] = dict.fromkeys(STATUSES, 0)
        self._judged = Usage()
        self.dearest = 0.0  # dollars for a call, the greatest mean of any trace
        self._priced = 0.0  # dollars for the annotations, as far as they are known
        self._unpriced = 0  # calls whose cost is not known
        self._aside = Usage()  # of failures that wait to be judged again
        self._before = _usage(manifest.get("overhead"))
        self._overhead = Usage()
        self._lock = lock
        self._fd = os.open(folder / _ANNOTATIONS, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        self._size = os.fstat(self._fd).st_size
        self._done: set[bytes] = set()

    @classmethod
    def create(cls, folder: Path, manifest: dict[str, Any]) -> "RunDirectory":
        """Start a new run in ``folder``, which must not hold one.

        Raises:
            AnnotatorError: the folder holds a run already, or cannot be written.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = _locked(folder)
        except OSError as error:
            raise AnnotatorError(f"cannot write in {folder}: {error.strerror or error}") from error
        if (folder / "run.json").exists() or (folder / _ANNOTATIONS).exists():
            os.close(lock)
            finished = _is_finished(folder)
            what = "a finished run" if finished else "an unfinished run"
            do = "name another folder with --out" if finished else "add --resume to go on with it"
            raise AnnotatorError(f"{folder} holds {what}; {do}")
        with _writing(folder):
            # The manifest first: without it nothing can be resumed.
            _write_json(folder / "run.json", manifest)
            run = cls(folder, manifest, lock)
        run.save()
        return run

    @classmethod
    def resume(cls, folder: Path, manifest: dict[str, Any]) -> "RunDirectory":
        """Go on with the run in ``folder``.

        Raises:
            AnnotatorError: there is none, it was started with other settings (the difference is in
                the message), another process is writing it, or a line is damaged.
        """
        before = read_manifest(folder)
        old, new = _settings(before), _settings(manifest)
        differences = [
            f"{key}: {_difference(old[key], new[key])}" for key in _SAME if old[key] != new[key]
        ]
        if differences:
            raise AnnotatorError(
                f"{folder} cannot be resumed, its settings were others: {'; '.join(differences)}"
            )
        if manifest["limit"] is not None and manifest["limit"] < (before.get("limit") or math.inf):
            limit = before.get("limit")
            was = "had no --limit" if limit is None else f"had --limit {limit}"
            raise AnnotatorError(f"{folder}: the run {was}; a smaller one would leave traces out")
        kept = ("id", "started", "overhead")
        merged = manifest | {key: before[key] for key in kept if key in before}
        merged["resumed"] = [*before.get("resumed", []), now()]
        with _writing(folder):
            lock = _locked(folder)
            _set_failures_aside(folder)
            run = cls(folder, merged, lock)
        if (folder / _ASIDE).exists():
            for annotation in read_annotations(folder / _ASIDE):
                run._aside += annotation.usage
                run._learn(annotation.usage)
        for annotation in read_annotations(folder):
            run._remember(annotation)
        run.save()
        return run

    def is_done(self, trace_id: str, rubric: str) -> bool:
        """Whether the trace has its line for this rubric."""
        return _key(trace_id, rubric) in self._done

    def append(self, annotation: Annotation) -> None:
        """Write one annotation.

        Raises:
            AnnotatorError: it cannot be written (a full disk, say); the file is as it was before.
        """
        line = annotation.to_json().encode() + b"\n"
        with _writing(self.folder):
            try:
                written = os.write(self._fd, line)
                while written < len(line):  # a full disk may take a part
                    written += os.write(self._fd, line[written:])
            except OSError:
                with suppress(OSError):
                    os.ftruncate(self._fd, self._size)
                raise
        self._size += len(line)
        self._remember(annotation)

    @property
    def usage(self) -> Usage:
        """All that the run has cost, in this process and before it."""
        return self._judged + self._before + self._overhead

    @property
    def spent_dollars(self) -> float:
        """What the run has cost, as far as it is known; a call whose cost is not known counts as
        the dearest one.
        """
        others = (self._before, self._overhead, self._aside)
        unpriced = self._unpriced + sum(one.unreported_calls for one in others)
        known = self._priced + sum(one.cost_usd or 0.0 for one in others)
        return known + unpriced * self.dearest

    @property
    def id(self) -> str:
        """The id of the run; a resumed one keeps it."""
        return str(self.manifest["id"])

    def _remember(self, annotation: Annotation) -> None:
        self._done.add(_key(annotation.trace_id, annotation.rubric))
        self.counts[annotation.status] += 1
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
        self.manifest.update(changes)
        totals = {"annotations": sum(self.counts.values()), **self.counts, **asdict(self.usage)}
        self.manifest["totals"] = totals
        with _writing(self.folder):
            _write_json(self.folder / "run.json", self.manifest)

    def close(self, *, keep: bool = False, **changes: Any) -> None:
        """End the run with ``changes`` to its manifest, bring it to the disk and let go of it.

        What had failed before and was not judged again comes back; a run in which nothing was
        recorded, nothing was called and nothing waits for an answer is removed, unless it is to be
        kept.
        """
        try:
            with _writing(self.folder):
                self._settle()
                self.save(**changes)
                os.fsync(self._fd)
                ours = (_ANNOTATIONS, "run.json", _LOCK)
                empty = {one.name for one in self.folder.iterdir()} <= set(ours)
                finished = changes.get("status") == "finished"
                keep = keep or bool(self.usage.calls)
                if self._size == 0 and not finished and not keep and empty:
                    for name in ours:
                        (self.folder / name).unlink(missing_ok=True)
                    with suppress(OSError):
                        self.folder.rmdir()
        finally:
            os.close(self._fd)
            os.close(self._lock)

    def _settle(self) -> None:
        """Bring back the failures set aside that were not judged again; count the others' cost."""
        aside = self.folder / _ASIDE
        if not aside.exists():
            return
        last = {_key(one.trace_id, one.rubric): n for n, one in enumerate(read_annotations(aside))}
        for n, annotation in enumerate(read_annotations(aside)):
            key = _key(annotation.trace_id, annotation.rubric)
            if key in self._done or last[key] != n:
                self._before += annotation.usage
            else:
                self.append(annotation)
        self.save(overhead=asdict(self._before + self._overhead))
        aside.unlink()


def recorded(folder: Path) -> Callable[[str, str], bool]:
    """Return whether a trace has its line for a rubric in a run directory, which stays as it is.

    A failure does not count: it will be judged again.

    Raises:
        AnnotatorError: no run there, or a line is damaged.
    """
    read_manifest(folder)
    done = {
        _key(one.trace_id, one.rubric) for one in read_annotations(folder) if one.status != "failed"
    }
    return lambda trace_id, rubric: _key(trace_id, rubric) in done


def _settings(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return what a resumed run must have in common with the run that it resumes."""
    rubrics = {
        one["id"]: f"version {one['version']}, {one['sha256']}" for one in manifest["rubrics"]
    }
    return {key: manifest.get(key) for key in _SAME} | {"rubrics": rubrics}


def _usage(value: Any) -> Usage:
    return Usage(**value) if isinstance(value, dict) else Usage()


def _key(trace_id: str, rubric: str) -> bytes:
    return hashlib.blake2b(f"{rubric}\0{trace_id}".encode(), digest_size=12).digest()


def _is_finished(folder: Path) -> bool:
    with suppress(AnnotatorError):
        return read_manifest(folder).get("status") == "finished"
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


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise AnnotatorError(
            f"cannot write in {folder}: {error.strerror or error}; what is judged is kept,"
            " go on with --resume when this is mended"
        ) from error


def _locked(folder: Path) -> int:
    fd = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        raise AnnotatorError(f"{folder}: another process is writing this run") from error
    return fd


def _write_json(file: Path, value: dict[str, Any]) -> None:
    """Write a file anew in one step."""
    part = file.with_name(f".{file.name}.part")
    with part.open("wb") as out:
        out.write((json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode())
        out.flush()
        os.fsync(out.fileno())
    part.replace(file)


def _set_failures_aside(folder: Path) -> None:
    """Move ``failed`` lines into a file of their own and drop a torn last line.

    The file of failures is whole before a line is taken out; one that a killed process has already
    moved is not moved twice.
    """
    file, aside = folder / _ANNOTATIONS, folder / _ASIDE
    if not file.exists():
        return
    waiting = dict.fromkeys(_lines(aside)) if aside.exists() else {}
    failed = waiting | dict.fromkeys(_lines(file, failed=True))
    if len(failed) > len(waiting):
        _rewrite(aside, failed)
    _rewrite(file, _lines(file, failed=False))


def _lines(file: Path, failed: bool | None = None) -> Iterator[str]:
    """Yield the lines of a file of annotations: all, those that failed, or the others."""
    for annotation in read_annotations(file):
        if failed is None or failed == (annotation.status == "failed"):
            yield annotation.to_json()


def _rewrite(file: Path, lines: Iterable[str]) -> None:
    """Write a file of lines anew in one step."""
    part = file.with_name(f"{file.name}.part")
    with part.open("wb") as out:
        for line in lines:
            out.write(line.encode() + b"\n")
        out.flush()
        os.fsync(out.fileno())
    part.replace(file)
