"""Files and folders that are written whole or not at all."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from annotator.errors import AnnotatorError
from annotator.text import storable


def write_text(path: Path, text: str) -> None:
    """Write a text and a line end. Raises :class:`AnnotatorError` as :func:`new_file`."""
    with new_file(path) as part, part.open("wb") as out:
        out.write(f"{storable(text)}\n".encode())
        out.flush()
        os.fsync(out.fileno())


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Give a path to write to; the file that is there in the end becomes ``path`` in one step.

    Raises:
        AnnotatorError: it cannot be written, or ``path`` is a folder or a device.
    """
    if path.exists() and not path.is_file():
        raise AnnotatorError(f"cannot write {path}: it is there already and no file")
    with _beside(path) as part:
        yield part
        part.replace(path.resolve())


@contextmanager
def new_folder(path: Path, ours: Callable[[Path], bool]) -> Iterator[Path]:
    """Give a path to make a folder at, which then becomes ``path``.

    What is at ``path`` is replaced only if ``ours`` says that this tool made it.

    Raises:
        AnnotatorError: it cannot be written, or ``path`` is something else already.
    """
    if path.exists() and not ours(path):
        raise AnnotatorError(f"{path} is there already and is something else; name another --out")
    with _beside(path) as part:
        yield part
        target, before = path.resolve(), part.with_name("before")
        try:
            if target.exists():
                target.rename(before)
            part.rename(target)
        except BaseException:  # Ctrl-C too: what is left aside goes with it
            if before.exists() and not target.exists():
                before.rename(target)
            raise


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    try:
        with TemporaryDirectory(prefix=".report-", dir=path.resolve().parent) as aside:
            yield Path(aside) / "part"
    except OSError as error:
        raise AnnotatorError(f"cannot write {path}: {error.strerror or error}") from error
