"""The ledger of looks: every comparison of a judge with a set of labels.

A test set that is used until a judge does well on it measures nothing any more. The ledger is
beside the label file and counts looks at its labels, not at the file's name.
"""

import hashlib
import json
import stat
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from annotator.base.errors import AnnotatorError
from annotator.base.files import LineLog, explain_errors, read_bounded
from annotator.base.text import Note
from annotator.calibration.model import Calibrated, Look, Request
from annotator.labels import Label
from annotator.runs.manifest import format_now
from annotator.runs.run import Run

LEDGER = ".looks.jsonl"
_CALCULATION = ("run", "judge_sha256", "rubric_sha256", "n", "labels")  # a repeat has all the same


def record_look(run: Run, calibrated: Calibrated, request: Request) -> Calibrated:
    """Write the look into the ledgers and return the calibration with it.

    The ledgers are beside the labels, or in the run's folder if theirs is write-protected.

    Raises:
        AnnotatorError: a ledger that the request names cannot be read or written.
    """
    calibration, labels = calibrated.calibration, calibrated.calibration.labels
    entry = _describe_look(
        run, calibration.rubric, labels.split, labels.n, labels.sha256, calibrated.labels.values()
    )
    ledgers = [request.ledger] if request.ledger else locate_ledgers(request.labels.paths)
    look, notes = None, list[str]()
    try:
        try:
            if not request.ledger:
                _refuse_protected(ledgers)
            noted = note_look(ledgers, entry, notes.append)
        except AnnotatorError:
            if request.ledger or not run.folder:
                raise
            earlier, ledgers = ledgers, [run.folder / ledgers[0].name]
            noted = note_look(ledgers, entry, notes.append, earlier)
        look = Look(**{name: value for name, value in noted.items() if name != "labels"})
    except AnnotatorError as error:
        if request.ledger:
            raise
        ledgers = []
        notes.append(f"This look was not noted: {error}")
    if request.final and look and look.judges > 1:
        text = (
            f"{look.judges} judges were compared with these test labels: was one of them chosen for"
            " doing well here?"
        )
        notes.append(Note(text, "judges"))
    warnings = (*calibration.warnings, *notes)
    calibration = replace(calibration, look=look, warnings=warnings)
    return replace(calibrated, calibration=calibration, ledgers=tuple(ledgers))


def note_looks(
    runs: Iterable[Run],
    rubric: str,
    labels: Mapping[str, Label],
    split: str,
    request: Request,
    notice: Callable[[str], object],
) -> int:
    """Note that runs were compared with labels of a split, a look each.

    Returns:
        The number of different looks at the labels of the last one; 0, with a notice, if a ledger
        cannot be written.
    """
    files, look = request.labels, 0
    ledgers = [request.ledger] if request.ledger else locate_ledgers(files.paths)
    for run in runs:
        seen = [labels[x.trace_id] for x in run.annotations(rubric) if x.trace_id in labels]
        digest = hash_label_files(files.paths, files.digests)
        entry = _describe_look(run, rubric, split, len(seen), digest, seen)
        try:
            look = int(note_look(ledgers, entry, notice)["look"])
        except AnnotatorError as error:
            notice(f"the looks at these labels were not noted: {error}")
            return 0
    return look


def _describe_look(
    run: Run, rubric: str, split: str, n: int, labels_sha256: str, labels: Iterable[Label]
) -> dict[str, Any]:
    """Return the entry of a look in the ledger, without its number."""
    return {
        "time": format_now(),
        "run": run.id,
        "folder": str(run),
        "judge": run.judge,
        "judge_sha256": run.judge_sha256,
        "rubric": rubric,
        "rubric_sha256": run.scheme(rubric).sha256,
        "split": split,
        "n": n,
        "labels_sha256": labels_sha256,
        "labels": hash_labels(labels),
    }


def _refuse_protected(ledgers: Sequence[Path]) -> None:
    """Raise :class:`AnnotatorError` for a folder without write permission, which root ignores."""
    for ledger in ledgers:
        with explain_errors(ledger):
            if not ledger.parent.stat().st_mode & stat.S_IWUSR:
                raise AnnotatorError(f"{ledger.parent} is write-protected")


def locate_ledgers(labels: Sequence[Path]) -> list[Path]:
    """Return the ledgers of label files, each beside its file."""
    files = sorted({path.resolve() for path in labels})
    return [file.with_name(f"{file.name}{LEDGER}") for file in files]


def hash_label_files(labels: Sequence[Path], digests: Mapping[Path, bytes] | None = None) -> str:
    """Return the hash of the label files in this order; ``digests`` are of files already read."""
    digest = hashlib.sha256()
    for path in labels:
        files = sorted(filter(_is_hashed, path.rglob("*"))) if path.is_dir() else [path]
        for file in files:
            digest.update((digests or {}).get(file) or hashlib.sha256(read_bounded(file)).digest())
    return digest.hexdigest()


def _is_hashed(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".") and not path.name.endswith(LEDGER)


def hash_labels(labels: Iterable[Label]) -> list[str]:
    """Return a short hash of each label's trace and codes, sorted."""
    return sorted(
        hashlib.sha256(json.dumps([label.trace_id, *label.codes]).encode()).hexdigest()[:12]
        for label in labels
    )


def note_look(
    ledgers: Sequence[Path],
    entry: Mapping[str, Any],
    notice: Callable[[str], object] = lambda _: None,
    others: Sequence[Path] = (),
) -> dict[str, Any]:
    """Write a look into every ledger and return it with its number.

    Args:
        ledgers: the files, which need not exist.
        entry: at least ``rubric``, ``split``, ``judge_sha256``, and ``labels`` as
            :func:`hash_labels`.
        notice: is called with a message about a torn last line.
        others: ledgers that are only read, as far as they can be.

    Returns:
        The entry with ``look``, the number of different looks of this rubric and split at any of
        these labels, and ``judges``, the number of different judges.

    Raises:
        AnnotatorError: a ledger cannot be read or written, or has an invalid line.
    """
    with ExitStack() as opened:
        looks = {_identify(entry): entry}
        logs, texts = [], dict[Path, bytes]()
        for ledger in others:
            with suppress(OSError, AnnotatorError):
                texts[ledger] = read_bounded(ledger)
        for ledger in ledgers:
            # Locked: simultaneous looks get different numbers.
            logs.append(log := opened.enter_context(LineLog(ledger)))
            _mend_end(log, notice)
            texts[ledger] = log.read()
        for ledger, text in texts.items():
            for n, line in enumerate(text.splitlines(), 1):
                look = _parse_look(line)
                if look is None:
                    raise AnnotatorError(
                        f"{ledger}, line {n}: not a look of the ledger; correct the line, or move"
                        " the file away"
                    )
                is_same_set = all(look[name] == entry[name] for name in ("rubric", "split"))
                if is_same_set and not {*entry["labels"]}.isdisjoint(look["labels"]):
                    looks[_identify(look)] = look
        judges = {str(look["judge_sha256"]) for look in looks.values()}
        noted = {"id": uuid.uuid4().hex, **entry, "look": len(looks), "judges": len(judges)}
        for log in logs:
            log.append(json.dumps(noted).encode() + b"\n")
    return noted


def _identify(look: Mapping[str, Any]) -> str:
    """Return the calculation of a look: a repeat of it teaches nothing new about the labels."""
    return json.dumps([look.get(name) for name in _CALCULATION])


def _mend_end(log: LineLog, notice: Callable[[str], object]) -> None:
    if not (tail := log.torn):
        return
    if _parse_look(tail):  # an editor may have removed the newline
        log.append(b"\n")
    else:
        log.cut_torn()
        notice(
            f"{log.file}: its last line was cut off while it was written, {len(tail)} bytes;"
            " taken out"
        )


def _parse_look(line: bytes) -> dict[str, Any] | None:
    try:
        look = json.loads(line)
    except (ValueError, RecursionError):
        return None
    fields = {"id", "rubric", "split", "judge_sha256", "labels"}
    return look if isinstance(look, dict) and fields <= look.keys() else None
