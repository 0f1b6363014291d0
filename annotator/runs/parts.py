"""Parts of a run that were judged in other processes and wait to be put into it."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from annotator.annotations import Annotation, Usage, read_lines
from annotator.errors import AnnotatorError
from annotator.files import explain_errors, write_file
from annotator.regular import lines_of, open_regular
from annotator.text import one_line

_PARTS = "parts"
PART = "part.jsonl"


@dataclass(frozen=True, slots=True)
class Part:
    """What one task has judged. ``overhead``: what its judge used for no trace in particular;
    ``problem`` and ``kind``: why it stopped, and the class of that error.
    """

    annotations: Sequence[Annotation]
    overhead: Usage = field(default_factory=Usage)
    learned: Mapping[str, Any] | None = None
    problem: str = ""
    kind: str = ""


def make_part_folder(run: Path, name: str) -> Path:
    """Make the folder of a part: for the task's answers, and the part when it is whole.

    Raises:
        AnnotatorError: it cannot be made.
    """
    folder = run / _PARTS / name
    with explain_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def has_part(folder: Path) -> bool:
    """Whether a part is whole."""
    return os.path.lexists(folder / PART)


def write_part(folder: Path, part: Part) -> None:
    """Write a part, in one step. Raises :class:`AnnotatorError` if that cannot be done."""
    head = {
        "overhead": asdict(part.overhead),
        "learned": dict(part.learned or {}),
        "problem": part.problem,
        "kind": part.kind,
    }
    lines = [json.dumps(head), *(annotation.to_json() for annotation in part.annotations)]
    write_file(folder / PART, "".join(f"{line}\n" for line in lines), private=True)


def read_part(folder: Path) -> Part:
    """Return a part. Raises :class:`AnnotatorError` if it is not there or damaged."""
    file = folder / PART
    try:
        with open_regular(file) as opened:
            lines = lines_of(opened)
            head = json.loads(next(lines, b"") or b"{}")
            annotations = [annotation for _, _, annotation in read_lines(lines, file)]
            overhead = Usage.from_fields(head["overhead"])
            return Part(annotations, overhead, head["learned"], head["problem"], head["kind"])
    except FileNotFoundError as error:
        raise AnnotatorError(
            f"{file} is not here: the workers of an engine need the run directory in common, as a"
            " shared folder of the same path"
        ) from error
    except OSError as error:
        raise AnnotatorError(f"{file}: {error.strerror or error}") from error
    except (ValueError, TypeError, KeyError, RecursionError, AnnotatorError) as error:
        raise AnnotatorError(
            f"{file}: not a part of a run: {one_line(str(error), 300)}; move {folder} away, and its"
            " traces are judged again"
        ) from error


def list_parts(run: Path) -> Iterator[Path]:
    """Yield the folders of the whole parts that wait below a run, in order of their names."""
    for folder in sorted((run / _PARTS).glob("*")):
        if has_part(folder):
            yield folder


def remove_part(folder: Path) -> None:
    """Remove a part that was put into the run. Raises :class:`AnnotatorError` if it cannot be."""
    with explain_errors(folder):
        shutil.rmtree(folder)


def sweep_parts(run: Path) -> None:
    """Remove what unfinished tasks have left below a run, when it is finished."""
    folder = run / _PARTS
    with suppress(OSError):
        if folder.is_dir():  # to open a pipe would block
            shutil.rmtree(folder)
