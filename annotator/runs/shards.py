"""Runs in shards: each judges its share of the traces in a directory of its own below the run's."""

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from annotator.base.errors import AnnotatorError
from annotator.base.files import (
    NewFile,
    explain_errors,
    explain_unreadable,
    open_checked,
    write_file,
)
from annotator.base.remote import name_place, refuse_url
from annotator.rubrics.annotations import STATUSES, Usage, find_annotations
from annotator.runs.manifest import Manifest, read_manifest
from annotator.runs.run import Run
from annotator.runs.store import list_differences
from annotator.traces import Shard

_SHARDS = "shards"
_NAME = re.compile(r"(\d{1,6})-of-(\d{1,6})")
_COUNTED = ("annotations", *STATUSES, "contradictory", *Usage.__dataclass_fields__)


def shard_folder(folder: Path, shard: Shard) -> Path:
    """Return the directory of a shard of the run in a folder.

    Raises:
        AnnotatorError: the folder holds a whole run, or shards of another number.
    """
    if (folder / "run.json").exists():
        raise AnnotatorError(f"{folder} holds a whole run; name another folder with --out")
    others = {of for _, of in _list_folders(folder)} - {shard.of}
    if others:
        raise AnnotatorError(
            f"{folder} holds shards of {min(others)}, not of {shard.of}; name another folder"
        )
    return folder / _SHARDS / str(shard)


def begin_shards(folder: Path, shards: int, *, resume: bool) -> int:
    """Make the folder of the shards, and return how many there are: a resumed run keeps its number.

    A merged run is taken apart again, so that its shards go on and are merged anew.

    Raises:
        AnnotatorError: the folder holds a run, and it is not resumed; or a run without shards.
    """
    numbers = {of for _, of in _list_folders(folder)}
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
        if merged:
            (folder / "run.json").unlink()
        (folder / _SHARDS).mkdir(parents=True, exist_ok=True)
    return max(numbers, default=shards)


def is_in_shards(folder: Path) -> bool:
    """Whether a folder holds shards that are not merged."""
    return not (folder / "run.json").exists() and (folder / _SHARDS).is_dir()


def open_shards(folder: Path) -> Run:
    """Return the shards below a folder as one run, of whose traces some may be missing: its
    ``status`` says how many shards are finished.

    Raises:
        AnnotatorError: there are none, they are of several numbers, their settings differ, or one
            cannot be read.
    """
    places = _list_folders(folder)
    if not places:
        raise AnnotatorError(
            f"{name_place(folder)}: not a run directory (no run.json, and no shards)"
        )
    numbers = sorted({of for _, of in places})
    if len(numbers) > 1:
        raise AnnotatorError(
            f"{folder / _SHARDS}: shards of {numbers[0]} and of {numbers[1]}; only those of one"
            " number are shares of the same traces: move the others away"
        )
    folders = [folder / _SHARDS / f"{number}-of-{of}" for number, of in places]
    manifests = [read_manifest(each) for each in folders]
    for each, manifest in zip(folders[1:], manifests[1:], strict=True):
        if differences := list_differences(manifests[0], manifest):
            raise AnnotatorError(
                f"{folders[0]} and {each} had different settings: {'; '.join(differences)}"
            )
    return Run(_join(manifests, numbers[0]), folder, parts=tuple(folders))


def merge_shards(folder: Path) -> Run:
    """Write the shards below a folder as one run into it, and return that. They stay.

    Raises:
        AnnotatorError: a shard is missing or not finished, they were not shares of the same traces,
            two have judged the same trace, they do not go together, or the run cannot be written.
    """
    refuse_url(folder, "shards are merged on this machine: copy the run here")
    if (folder / "run.json").exists() and not read_manifest(folder).shards:
        raise AnnotatorError(f"{folder}: not a run in shards: it is whole already")
    run = open_shards(folder)
    missing = _list_missing(run)
    if missing:
        raise AnnotatorError(
            f"{folder}: {run.manifest.status}; {', '.join(missing[:10])}"
            f"{' ...' if missing[10:] else ''}: run these first (with --resume if they were begun)"
        )
    if run.manifest.status != "finished":
        raise AnnotatorError(f"{folder}: {run.manifest.status}: run all of them with --resume")
    for _ in run.annotations():  # held against the run and each other, before anything is written
        pass
    file = folder / "annotations.jsonl"
    with NewFile(file, private=True) as out, explain_errors(file):
        for part in run.parts:
            with open_checked(find_annotations(part)) as lines:
                out.writelines(line for line in lines if line.endswith(b"\n"))
    _keep_answers(run)
    manifest = json.dumps(run.manifest.as_dict(), ensure_ascii=False, indent=2)
    write_file(folder / "run.json", f"{manifest}\n", private=True)
    return Run(run.manifest, folder)


def _keep_answers(run: Run) -> None:
    """Take the answers of the shards into the cache that all runs share, where there are any."""
    files = [file for part in run.parts if os.path.lexists(file := part / "answers.sqlite")]
    if files:
        from annotator.judges.llm.cache import AnswerCache, default_file

        cache = AnswerCache(default_file())
        for file in files:
            cache.absorb(file)
        cache.close()


def _list_folders(folder: Path) -> list[tuple[int, int]]:
    """Return the number of each shard that was begun below a folder, and of how many, in order.

    Raises:
        AnnotatorError: a shard cannot be looked into.
    """
    numbers = []
    for path in (folder / _SHARDS).glob("*-of-*"):
        if match := _NAME.fullmatch(path.name):
            with explain_unreadable(path), suppress(FileNotFoundError, NotADirectoryError):
                (path / "run.json").lstat()
                numbers.append((int(match[1]), int(match[2])))
    return sorted(numbers)


def _list_missing(run: Run) -> list[str]:
    """Return the shards that are not finished, each with what is the matter."""
    unfinished = {
        part.name: f"{part.name} is {manifest.status}"
        for part in run.parts
        if (manifest := read_manifest(part)).status != "finished"
    }
    begun = {part.name for part in run.parts}
    of = int(run.parts[0].name.rpartition("-")[2])
    names = [str(Shard(number, of)) for number in range(1, of + 1)]
    return [
        unfinished.get(name, f"{name} is missing")
        for name in names
        if name not in begun or name in unfinished
    ]


def _join(manifests: Sequence[Manifest], of: int) -> Manifest:
    """Return what ``run.json`` of the shards together says."""
    done = [manifest for manifest in manifests if manifest.status == "finished"]
    status = f"{len(done)} of {of} shards finished"
    listed = list(dict.fromkeys(str(manifest.listed) for manifest in done))
    if len(listed) > 1:
        status += f", and they found different traces ({'; '.join(listed[:3])})"
    ids = [manifest.id for manifest in manifests]
    whole = len(done) == of and len(listed) == 1
    problems = dict.fromkeys(line for manifest in manifests for line in manifest.problems)
    ends = [manifest.ended or "" for manifest in manifests]
    values = {
        key: value
        for key, value in manifests[0].as_dict().items()
        if key not in ("shard", "listed", "totals")
    }
    return Manifest.model_validate(
        values
        | {
            "id": hashlib.sha256(" ".join(ids).encode()).hexdigest()[:32],
            "status": "finished" if whole else status,
            "started": min(manifest.started or "" for manifest in manifests) or None,
            "ended": max(ends) if whole else None,
            "resumed": [],
            "totals": _add([manifest.totals for manifest in manifests]),
            "overhead": _add([manifest.overhead for manifest in manifests]),
            "learned": _join_learned([manifest.learned for manifest in manifests]),
            "traces": sum(manifest.traces or 0 for manifest in manifests),
            "ignored": sum(manifest.ignored or 0 for manifest in manifests),
            "problems": list(problems)[:100],
            "shards": ids,
        }
    )


def _join_learned(learned: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what judges learned together: by which names they were answered is counted."""
    joined: dict[str, Any] = {}
    for name, value in chain.from_iterable(each.items() for each in learned):
        before = joined.get(name)
        if not isinstance(value, Mapping) or not isinstance(before, Mapping):
            joined[name] = value
        elif name == "answered_by":
            joined[name] = dict(Counter(before) + Counter(value))
        else:  # of one of several models
            joined[name] = _join_learned([before, value])
    return joined


def _add(totals: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return counts together; what a cost adds up to is unknown where that of a part is."""
    names = [name for name in _COUNTED if any(name in each for each in totals)]
    values = {name: [each.get(name, 0) for each in totals] for name in names}
    return {
        name: None if any(value is None for value in parts) else sum(parts)
        for name, parts in values.items()
    }
