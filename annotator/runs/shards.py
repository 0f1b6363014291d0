"""The folders of shards below a run directory, and the one manifest of all shards together."""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from annotator.base.errors import AnnotatorError
from annotator.base.files import explain_unreadable
from annotator.base.remote import name_place
from annotator.rubrics.annotations import STATUSES, Usage
from annotator.runs.manifest import Manifest, list_differences, read_manifest
from annotator.traces import Shard

SHARDS = "shards"
_NAME = re.compile(r"(\d{1,6})-of-(\d{1,6})")
_COUNTS = ("annotations", *STATUSES, "contradictory", *Usage.__dataclass_fields__)


def list_shards(folder: Path) -> list[Shard]:
    """Return the shards that were begun below a folder, in order."""
    shards = []
    matches = (_NAME.fullmatch(path.name) for path in (folder / SHARDS).glob("*-of-*"))
    for number, of in sorted((int(match[1]), int(match[2])) for match in matches if match):
        path = folder / SHARDS / f"{number}-of-{of}"
        with explain_unreadable(path):
            if (path / "run.json").exists():
                shards.append(Shard(number, of))
    return shards


def locate_shard(folder: Path, shard: Shard) -> Path:
    """Return the directory of a shard of the run in a folder."""
    if (folder / "run.json").exists():
        raise AnnotatorError(f"{folder} holds a whole run; name another folder with --out")
    if numbers := {each.of for each in list_shards(folder)} - {shard.of}:
        raise AnnotatorError(
            f"{folder} holds shards of {min(numbers)}, not of {shard.of}; name another folder"
        )
    return folder / SHARDS / str(shard)


def is_in_shards(folder: Path) -> bool:
    """Whether a folder holds shards that are not merged."""
    return not (folder / "run.json").exists() and (folder / SHARDS).is_dir()


def read_shards(folder: Path) -> tuple[Manifest, tuple[Path, ...]]:
    """Return one manifest for all shards below a folder, and their directories.

    The manifest's ``status`` says how many shards are finished.
    """
    shards = list_shards(folder)
    if not shards:
        raise AnnotatorError(
            f"{name_place(folder)}: not a run directory (no run.json, and no shards)"
        )
    numbers = sorted({shard.of for shard in shards})
    if len(numbers) > 1:
        raise AnnotatorError(
            f"{folder / SHARDS}: shards of {numbers[0]} and of {numbers[1]}; only those of one"
            " number are shares of the same traces: move the others away"
        )
    folders = tuple(folder / SHARDS / str(shard) for shard in shards)
    manifests = [read_manifest(each) for each in folders]
    for each, manifest in zip(folders[1:], manifests[1:], strict=True):
        if differences := list_differences(manifests[0], manifest):
            raise AnnotatorError(
                f"{folders[0]} and {each} had different settings: {'; '.join(differences)}"
            )
    return _join(manifests, numbers[0]), folders


def list_missing(folders: Sequence[Path]) -> list[str]:
    """Return each shard that is missing or not finished, with its status."""
    statuses = {folder.name: read_manifest(folder).status for folder in folders}
    of = int(folders[0].name.rpartition("-")[2])
    names = (str(Shard(number, of)) for number in range(1, of + 1))
    every = {name: statuses.get(name, "missing") for name in names}
    return [f"{name} is {status}" for name, status in every.items() if status != "finished"]


def _join(manifests: Sequence[Manifest], of: int) -> Manifest:
    finished = [manifest for manifest in manifests if manifest.status == "finished"]
    status = f"{len(finished)} of {of} shards finished"
    listings = list(dict.fromkeys(str(manifest.listed) for manifest in finished))
    if len(listings) > 1:
        status += f", and they found different traces ({'; '.join(listings[:3])})"
    ids = [manifest.id for manifest in manifests]
    complete = len(finished) == of and len(listings) == 1
    problems = dict.fromkeys(line for manifest in manifests for line in manifest.problems)
    values = manifests[0].as_dict()
    for key in ("shard", "listed", "totals"):
        values.pop(key, None)
    return Manifest.model_validate(
        values
        | {
            "id": hashlib.sha256(" ".join(ids).encode()).hexdigest()[:32],
            "status": "finished" if complete else status,
            "started": min(manifest.started or "" for manifest in manifests) or None,
            "ended": max(manifest.ended or "" for manifest in manifests) if complete else None,
            "resumed": [],
            "totals": _add_counts([manifest.totals for manifest in manifests]),
            "overhead": _add_counts([manifest.overhead for manifest in manifests]),
            "learned": _join_learned([manifest.learned for manifest in manifests]),
            "traces": sum(manifest.traces or 0 for manifest in manifests),
            "ignored": sum(manifest.ignored or 0 for manifest in manifests),
            "problems": list(problems)[:100],
            "shards": ids,
        }
    )


def _join_learned(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the union; counts in ``answered_by`` add up."""
    joined: dict[str, Any] = {}
    for name, value in chain.from_iterable(each.items() for each in parts):
        before = joined.get(name)
        if not isinstance(value, Mapping) or not isinstance(before, Mapping):
            joined[name] = value
        elif name == "answered_by":
            joined[name] = dict(Counter(before) + Counter(value))
        else:  # one of several models
            joined[name] = _join_learned([before, value])
    return joined


def _add_counts(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sums; a sum with an unknown part is unknown (None)."""
    values = {
        name: [counts.get(name, 0) for counts in parts]
        for name in _COUNTS
        if any(name in counts for counts in parts)
    }
    return {name: None if None in numbers else sum(numbers) for name, numbers in values.items()}
