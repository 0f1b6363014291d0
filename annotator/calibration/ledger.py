"""The ledger of looks: every time a judge was held against a set of labels.

A test set that is looked at until a judge does well on it measures nothing any more. The ledger
stands beside the labels, so that it goes where they go.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from annotator.errors import AnnotatorError

LEDGER = ".looks.jsonl"


def ledger_of(labels: Sequence[Path]) -> Path:
    """Return the ledger of label files: beside the first of them by name, in whatever order."""
    first = min(path.resolve() for path in labels)
    return first.with_name(f"{first.name}{LEDGER}")


def labels_sha256(labels: Sequence[Path]) -> str:
    """Return the hash of the label files, in the order given."""
    digest = hashlib.sha256()
    for path in labels:
        files = [path]
        if path.is_dir():
            found = (one for one in path.rglob("*") if not one.name.endswith(LEDGER))
            files = sorted(one for one in found if one.is_file())
        for file in files:
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def note_look(ledger: Path, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Write a look into the ledger and return it with its number.

    ``entry`` has at least ``rubric``, ``split`` and ``judge_sha256``. ``look`` counts the looks of
    this rubric and split, this one included; ``judges`` the different judges in them.

    Raises:
        AnnotatorError: the ledger cannot be read or written, or holds a line that is no look.
    """
    try:
        with ledger.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # looks at the same moment have their own numbers
            file.seek(0)
            data = file.read()
            looks = [one for one in _read(data, ledger) if _same(one, entry)]
            judges = {one.get("judge_sha256") for one in looks} | {entry["judge_sha256"]}
            noted = {**entry, "look": len(looks) + 1, "judges": len(judges)}
            # An editor may have taken the last line's end off.
            begin = b"" if not data or data.endswith(b"\n") else b"\n"
            file.write(begin + json.dumps(noted).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise AnnotatorError(f"cannot write {ledger}: {error.strerror or error}") from error
    return noted


def _same(one: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    return all(one.get(key) == entry[key] for key in ("rubric", "split"))


def _read(data: bytes, ledger: Path) -> list[dict[str, Any]]:
    looks = []
    for n, line in enumerate(data.removesuffix(b"\n").split(b"\n") if data else (), 1):
        try:
            one = json.loads(line)
        except (ValueError, RecursionError):
            one = None
        if not isinstance(one, dict):
            raise AnnotatorError(
                f"{ledger}, line {n}: no look of the ledger; mend the line, or move the file away"
            )
        looks.append(one)
    return looks
