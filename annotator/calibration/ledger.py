"""The ledger of looks: every time a judge was held against a set of labels.

A test set that is looked at until a judge does well on it measures nothing any more. The ledger
stands beside the labels, so that it goes where they go.
"""

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from annotator.errors import AnnotatorError
from annotator.files import LineLog

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
        logs: list[tuple[LineLog, bytes]] = []
        for ledger in ledgers:
            # Looks at the same moment wait for each other, and have their own numbers.
            log = opened.enter_context(LineLog(ledger))
            logs.append((log, log.read()))
            for one in _read(logs[-1][1], ledger):
                if _same(one, entry):
                    before[str(one.get("id") or one)] = one
        judges = {one.get("judge_sha256") for one in before.values()} | {entry["judge_sha256"]}
        noted = {"id": uuid.uuid4().hex, **entry, "look": len(before) + 1, "judges": len(judges)}
        for log, data in logs:
            # An editor may have taken the last line's end off.
            begin = b"" if not data or data.endswith(b"\n") else b"\n"
            log.append(begin + json.dumps(noted).encode() + b"\n")
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
