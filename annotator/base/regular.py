"""Files that others wrote, opened for reading: regular ones only, and no more than fits in memory.

Whatever is wrong is an :class:`OSError` whose ``strerror`` says so in words.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import IO, AnyStr

from annotator.base.errors import AnnotatorError
from annotator.base.remote import name_place

_MOST_MB = 512


def get_size_limit() -> int:
    """Return how large a document, or a line, may be that is read: both are in memory as a whole.

    512 MB, or what the variable ``ANNOTATOR_MAX_MB`` says.

    Raises:
        AnnotatorError: that is no whole number above 0.
    """
    given = os.environ.get("ANNOTATOR_MAX_MB", "").strip()
    if not given:
        return _MOST_MB << 20
    if not (given.isdecimal() and 0 < len(given) < 10 and int(given)):
        raise AnnotatorError(f"ANNOTATOR_MAX_MB: expected a whole number of MB, found {given!r}")
    return int(given) << 20


@contextmanager
def explain_unreadable(place: str | Path) -> Iterator[None]:
    """Say in one sentence why a place cannot be read.

    Raises:
        AnnotatorError: in the place of an :class:`OSError`, with its reason.
    """
    try:
        yield
    except OSError as error:
        raise AnnotatorError(f"{name_place(place)}: {error.strerror or error}") from error


def open_checked(path: str | Path) -> BufferedReader:
    """Return a regular file, open for reading its bytes.

    Raises:
        OSError: it is missing, not allowed, or no regular file: opening a pipe would block, and a
            device has no end.
    """
    return os.fdopen(_open_regular(path)[0], "rb")


def _open_regular(path: str | Path) -> tuple[int, int]:
    """Return the descriptor of a regular file, and its size in bytes."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    info = os.fstat(file)
    if not stat.S_ISREG(info.st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "not a regular file")
    return file, info.st_size


def read_bounded(path: str | Path, most: int = 0) -> bytes:
    """Return all bytes of a regular file.

    Raises:
        OSError: as :func:`open_regular`, or it has more than ``most`` bytes, by default
            :func:`most_bytes`.
    """
    limit = most or get_size_limit()
    file, size = _open_regular(path)
    try:
        if size <= limit:
            pieces = [os.read(file, size + 1)]
            while len(pieces[-1]) > 0 and (len(pieces) > 1 or len(pieces[0]) != size):
                pieces.append(os.read(file, 1 << 20))  # it grows, or comes in pieces
            return b"".join(pieces)
    finally:
        os.close(file)
    if most:
        raise OSError(errno.EFBIG, f"larger than {most >> 20} MB")
    raise _describe_size("larger than", limit)


def read_whole(file: IO[bytes]) -> bytes:
    """Return what an open file holds. Raises OSError if it is more than :func:`most_bytes`."""
    data = file.read(get_size_limit() + 1)
    check_size("one document", len(data))
    return data


def read_bounded_lines(file: IO[AnyStr]) -> Iterator[AnyStr]:
    """Yield the lines of an open file. Raises OSError for one of more than :func:`most_bytes`."""
    most = get_size_limit()
    while line := file.readline(most + 1):
        if len(line) > most:
            check_size("a line", len(line))
        yield line


def check_size(what: str, size: int) -> None:
    """Raise OSError for something that is larger than :func:`most_bytes`."""
    if size > get_size_limit():
        raise _describe_size(f"{what} of more than", get_size_limit())


def _describe_size(what: str, most: int) -> OSError:
    return OSError(errno.EOVERFLOW, f"{what} {most >> 20} MB, which is not read (ANNOTATOR_MAX_MB)")
