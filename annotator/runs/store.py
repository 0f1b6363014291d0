"""The run directory: ``run.json`` and the append-only ``annotations.jsonl``."""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from annotator.annotations import STATUSES, Annotation, Usage, read_annotations
from annotator.errors import AnnotatorError

# What a resumed run must have in common with the run that it resumes.
_SAME = ("rubrics", "prompt_sha256", "judge", "sources", "format", "only")


def now() -> str:
    """Return the time as ISO 8601, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return ``run.json`` of a run directory.

    Raises:
        AnnotatorError: there is none, or it is not what this tool writes.
    """
    file = folder / "run.json"
    try:
        value = json.loads(file.read_bytes())
    except FileNotFoundError as error:
        raise AnnotatorError(f"{folder}: not a run directory (no run.json)") from error
    except OSError as error:
        raise AnnotatorError(f"{file}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise AnnotatorError(f"{file}: not valid JSON: {error}") from error
    if not isinstance(value, dict) or not isinstance(value.get("rubrics"), list):
        raise AnnotatorError(f"{file}: not the manifest of a run")
    return value


class RunDirectory:
    """A run being written. One process at a time holds it; a second one is refused.

    An annotation is one write of one whole line, so that a process killed at any moment leaves
    whole lines and at most one torn end, which is cut off when the run is resumed. What failed is
    taken out at that moment too, and judged again.
    """

    def __init__(self, folder: Path, manifest: dict[str, Any], fd: int) -> None:
        self.folder = folder
        self.manifest = manifest
        self.counts: dict[str, int] = dict.fromkeys(STATUSES, 0)
        self.usage = _usage(manifest.get("overhead"))
        self.retries = 0  # calls beyond the first of each trace
        self._fd = fd
        self._size = os.fstat(fd).st_size
        self._done: set[bytes] = set()

    @classmethod
    def create(cls, folder: Path, manifest: dict[str, Any]) -> "RunDirectory":
        """Start a new run in ``folder``, which must not hold one.

        Raises:
            AnnotatorError: the folder holds a run already, or cannot be written.
        """
        with _writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            fd = _locked(folder / "annotations.jsonl", os.O_CREAT)
        if (folder / "run.json").exists() or os.fstat(fd).st_size:
            os.close(fd)
            finished = _is_finished(folder)
            what = "a finished run" if finished else "an unfinished run"
            do = "name another folder with --out" if finished else "add --resume to go on with it"
            raise AnnotatorError(f"{folder} holds {what}; {do}")
        run = cls(folder, manifest, fd)
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
        differences = [
            f"{key}: {_difference(before.get(key), manifest.get(key))}"
            for key in _SAME
            if before.get(key) != manifest.get(key)
        ]
        if differences:
            raise AnnotatorError(
                f"{folder} cannot be resumed, its settings were others: {'; '.join(differences)}"
            )
        file = folder / "annotations.jsonl"
        with _writing(folder):
            os.close(_locked(file, os.O_CREAT))
            merged = manifest | {
                key: before[key] for key in ("id", "started", "overhead") if key in before
            }
            merged["resumed"] = [*before.get("resumed", []), now()]
            _set_failures_aside(file, merged)
            run = cls(folder, merged, _locked(file, 0))
            run.save()
        for annotation in read_annotations(file):
            run._remember(annotation)
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

    def _remember(self, annotation: Annotation) -> None:
        self._done.add(_key(annotation.trace_id, annotation.rubric))
        self.counts[annotation.status] += 1
        self.usage += annotation.usage
        self.retries += max(0, annotation.usage.calls - 1)

    def opened(self, overhead: Usage, learned: Mapping[str, Any]) -> None:
        """Save what the judge spent on no trace in particular, and what it learned."""
        self.manifest["overhead"] = asdict(_usage(self.manifest.get("overhead")) + overhead)
        self.usage += overhead
        self.save(learned=dict(learned))

    def save(self, **changes: Any) -> None:
        """Write ``run.json`` anew, in one step, with ``changes``.

        Raises:
            AnnotatorError: it cannot be written.
        """
        self.manifest.update(changes)
        totals = {"annotations": sum(self.counts.values()), **self.counts, **asdict(self.usage)}
        totals["retries"] = self.retries
        self.manifest["totals"] = totals
        text = json.dumps(self.manifest, ensure_ascii=False, indent=2) + "\n"
        with _writing(self.folder):
            _replace(self.folder / "run.json", text.encode("utf-8", "replace"))

    def discard(self) -> None:
        """Remove a run in which nothing was recorded, and its folder if that is empty then."""
        if self._size == 0:
            for name in ("annotations.jsonl", "run.json"):
                (self.folder / name).unlink(missing_ok=True)
            with suppress(OSError):
                self.folder.rmdir()

    def close(self) -> None:
        """Bring everything to the disk and let go of the run."""
        with suppress(OSError):
            os.fsync(self._fd)
        os.close(self._fd)


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


def _locked(file: Path, flags: int) -> int:
    fd = os.open(file, os.O_RDWR | os.O_APPEND | flags, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        raise AnnotatorError(f"{file.parent}: another process is writing this run") from error
    return fd


def _replace(file: Path, data: bytes) -> None:
    part = file.with_name(f".{file.name}.part")
    with part.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    part.replace(file)


def _set_failures_aside(file: Path, manifest: dict[str, Any]) -> None:
    """Drop a torn last line and all ``failed`` ones; their usage stays in the run's totals."""
    part = file.with_name(".annotations.jsonl.part")
    spent = _usage(manifest.get("overhead"))
    dropped = False
    with part.open("wb") as out:
        for annotation in read_annotations(file):
            if annotation.status == "failed":
                spent += annotation.usage
                dropped = True
            else:
                out.write(annotation.to_json().encode() + b"\n")
        out.flush()
        os.fsync(out.fileno())
        torn = out.tell() != file.stat().st_size
    if dropped or torn:
        manifest["overhead"] = asdict(spent)
        part.replace(file)
    else:
        part.unlink()
