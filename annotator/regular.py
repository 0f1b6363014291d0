"""Files that others wrote, opened for reading: regular ones only, and no more than fits in memory.

Whatever is wrong is an :class:`OSError` whose ``strerror`` says so in words.
"""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, AnyStr, BinaryIO

from annotator.errors import AnnotatorError

_MOST_MB = 512
# Opening a pipe must not block. Windows knows no such flag, but one for bytes as they are.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def most_bytes() -> int:
    """Return how large a document, or a line, may be that is read: both are in memory as a whole.

    512 MB, or what the variable ``ANNOTATOR_MAX_MB`` says.

    Raises:
        AnnotatorError: that is no whole number above 0.
    """
    given = os.environ.get("ANNOTATOR_MAX_MB", "").strip() or str(_MOST_MB)
    if not (given.isdecimal() and 0 < len(given) < 10 and int(given)):
        raise AnnotatorError(f"ANNOTATOR_MAX_MB: expected a whole number of MB, found {given!r}")
    return int(given) << 20


def open_regular(path: str | Path) -> BinaryIO:
    """Return a regular file, open for reading its bytes.

    Raises:
        OSError: it is missing, not allowed, or no regular file: opening a pipe would block, and a
            device has no end.
    """
    try:
        file = os.open(path, _FLAGS)
    except ValueError as error:
        raise OSError(errno.EINVAL, "a NUL in its name") from error
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        file = None  # a socket
    if file is not None:
        if stat.S_ISREG(os.fstat(file).st_mode):
            return os.fdopen(file, "rb")
        os.close(file)
    raise OSError(errno.EINVAL, "not a regular file")


def read_regular(path: str | Path, most: int = 0) -> bytes:
    """Return all bytes of a regular file.

    Raises:
        OSError: as :func:`open_regular`, or it has more than ``most`` bytes, by default
            :func:`most_bytes`.
    """
    limit = most or most_bytes()
    with open_regular(path) as file:
        data = file.read() if os.fstat(file.fileno()).st_size <= limit else None
    if data is None or len(data) > limit:
        if most:
            raise OSError(errno.EFBIG, f"larger than {most >> 20} MB")
        raise _describe_size("larger than", limit)
    return data


def read_whole(file: IO[bytes]) -> bytes:
    """Return what an open file holds. Raises OSError if it is more than :func:`most_bytes`."""
    most = most_bytes()
    data = file.read(most + 1)
    if len(data) > most:
        raise _describe_size("one document of more than", most)
    return data


def lines_of(file: IO[AnyStr]) -> Iterator[AnyStr]:
    """Yield the lines of an open file. Raises OSError for one of more than :func:`most_bytes`."""
    most = most_bytes()
    while line := file.readline(most + 1):
        if len(line) > most:
            raise _describe_size("a line of more than", most)
        yield line


def _describe_size(what: str, most: int) -> OSError:
    return OSError(errno.EFBIG, f"{what} {most >> 20} MB, which is not read (ANNOTATOR_MAX_MB)")
