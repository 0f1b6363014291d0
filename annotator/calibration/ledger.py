"""The ledger of looks: every time a judge was held against a set of labels.

A test set that is looked at until a judge does well on it measures nothing any more. The ledger
stands beside the labels, so that it goes where they go.
"""

import fcntl
import hashlib
import json
import os
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from annotator.errors import AnnotatorError

LEDGER = ".looks.jsonl"


def ledgers_of(labels: Sequence[Path]) -> list[Path]:
    """Return the ledgers of label files, each beside its own: a look is one at each of them."""
    files = sorted({path.resolve() for path in labels})
    return [file.with_name(f"{file.name}{LEDGER}") for file in files]


def labels_sha256(labels: Sequence[Path]) -> str:
    """Return the hash of the label files, in the order given."""
    digest = hashlib.sha256()
    for path in labels:
        files = [path]
        if path.is_dir():
            found = (
                one for one in path.rglob("*") if one.is_file() and not one.name.startswith(".")
            )
            files = sorted(one for one in found if not one.name.endswith(LEDGER))
        for file in files:
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def note_look(ledgers: Sequence[Path], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Write a look into every ledger and return it with its number.

    ``entry`` has at least ``rubric``, ``split`` and ``judge_sha256``. ``look`` counts the looks of
    this rubric and split in any of the ledgers, this one included; ``judges`` the different judges
    in them.

    Raises:
        AnnotatorError: a ledger cannot be read or written, or holds a line that is no look.
    """
    with ExitStack() as opened:
        before: dict[str, dict[str, Any]] = {}
        files: list[tuple[Path, IO[bytes], bytes]] = []
        for ledger in ledgers:
            file, data = _locked(ledger, opened)
            files.append((ledger, file, data))
            for one in _read(data, ledger):
                if _same(one, entry):
                    before[str(one.get("id") or one)] = one
        judges = {one.get("judge_sha256") for one in before.values()} | {entry["judge_sha256"]}
        noted = {"id": uuid.uuid4().hex, **entry, "look": len(before) + 1, "judges": len(judges)}
        for ledger, file, data in files:
            # An editor may have taken the last line's end off.
            begin = b"" if not data or data.endswith(b"\n") else b"\n"
            try:
                file.write(begin + json.dumps(noted).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
            except OSError as error:
                raise _cannot(ledger, error) from error
    return noted


def _locked(ledger: Path, opened: ExitStack) -> tuple[IO[bytes], bytes]:
    """Open a ledger; looks at the same moment wait for each other, and have their own numbers."""
    try:
        file = opened.enter_context(ledger.open("a+b"))
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        return file, file.read()
    except OSError as error:
        raise _cannot(ledger, error) from error


def _cannot(ledger: Path, error: OSError) -> AnnotatorError:
    return AnnotatorError(f"cannot write {ledger}: {error.strerror or error}")


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
