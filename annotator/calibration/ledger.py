"""The ledger of looks: every time a judge was held against a set of labels.

A test set that is looked at until a judge does well on it measures nothing any more. The ledger
stands beside the labels, so that it goes where they go, or where the user says. What is counted
are looks at the labels themselves, at any of them: not at a file of the same name that held others.
"""

import hashlib
import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from annotator.errors import AnnotatorError
from annotator.files import LineLog
from annotator.labels import Label
from annotator.regular import read_regular

LEDGER = ".looks.jsonl"


def ledgers_of(labels: Sequence[Path]) -> list[Path]:
    """Return the ledgers of label files, each beside its own: a look is one at each of them."""
    files = sorted({path.resolve() for path in labels})
    return [file.with_name(f"{file.name}{LEDGER}") for file in files]


def labels_sha256(labels: Sequence[Path], digests: Mapping[Path, bytes] | None = None) -> str:
    """Return the hash of the label files, in the order given; ``digests`` are those of files that
    were read already.
    """
    digest = hashlib.sha256()
    for path in labels:
        files = sorted(filter(_is_hashed, path.rglob("*"))) if path.is_dir() else [path]
        for file in files:
            before = (digests or {}).get(file)
            digest.update(before or hashlib.sha256(read_regular(file)).digest())
    return digest.hexdigest()


def _is_hashed(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".") and not path.name.endswith(LEDGER)


def hash_labels(labels: Iterable[Label]) -> list[str]:
    """Return a short hash of each label: of its trace and of what was said, not of who said it."""
    return sorted(
        hashlib.sha256(json.dumps([label.trace_id, *label.codes]).encode()).hexdigest()[:12]
        for label in labels
    )


def note_look(
    ledgers: Sequence[Path],
    entry: Mapping[str, Any],
    notice: Callable[[str], object] = lambda _: None,
) -> dict[str, Any]:
    """Write a look into every ledger and return it with its number.

    ``entry`` has at least ``rubric``, ``split`` and ``judge_sha256``, and ``labels`` as
    :func:`hash_labels`. ``look`` counts the looks of this rubric and split in any of the ledgers at
    any of these labels, this one included; those of older ledgers, which do not say at which, are
    counted. ``judges``: the different judges in them. ``notice`` is told of one whose last line
    was torn; that look was never shown to anybody.

    Raises:
        AnnotatorError: a ledger cannot be read or written, or holds a line that is no look.
    """
    with ExitStack() as opened:
        before: dict[str, dict[str, Any]] = {}
        logs = []
        for ledger in ledgers:
            # Looks at the same moment wait for each other, and have their own numbers.
            logs.append(log := opened.enter_context(LineLog(ledger)))
            _mend_end(log, notice)
            for look in _parse_looks(log.read(), ledger):
                if _is_at(look, entry):
                    before[str(look.get("id") or look)] = look
        judges = {str(look.get("judge_sha256")) for look in (*before.values(), entry)}
        noted = {"id": uuid.uuid4().hex, **entry, "look": len(before) + 1, "judges": len(judges)}
        for log in logs:
            log.append(json.dumps(noted).encode() + b"\n")
    return noted


def _mend_end(log: LineLog, notice: Callable[[str], object]) -> None:
    """End the last line of a ledger, or take it out where it was torn."""
    if not (last := log.torn):
        return
    if _parse_look(last) is None:
        log.cut_torn()
        notice(
            f"{log.file}: its last line was cut off while it was written, {len(last)} bytes;"
            " taken out"
        )
    else:  # an editor may have taken its end off
        log.append(b"\n")


def _is_at(look: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    """Whether an earlier look is one at any of the labels of an entry."""
    if look.get("rubric") != entry["rubric"] or look.get("split") != entry["split"]:
        return False
    then, labels = look.get("labels"), entry.get("labels")
    if not isinstance(then, list) or not labels:
        return True
    return not {str(label) for label in then}.isdisjoint(labels)


def _parse_looks(data: bytes, ledger: Path) -> list[dict[str, Any]]:
    looks = []
    for n, line in enumerate(data.removesuffix(b"\n").split(b"\n") if data else (), 1):
        look = _parse_look(line)
        if look is None:
            raise AnnotatorError(
                f"{ledger}, line {n}: no look of the ledger; mend the line, or move the file away"
            )
        looks.append(look)
    return looks


def _parse_look(line: bytes) -> dict[str, Any] | None:
    try:
        look = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return look if isinstance(look, dict) else None
