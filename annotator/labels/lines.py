"""A file of lines that one process at a time changes, and that no crash leaves half written."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from annotator.errors import AnnotatorError
from annotator.text import one_line

_Stamp = tuple[int, int, int]


def shown(file: Path) -> str:
    """Return a file's name for a message."""
    return one_line(str(file))


class LineFile:
    """A file of lines, locked for this process until it is closed. Lines are numbered from 0.

    A new line is appended; where one is replaced or taken out, the file is written anew beside
    itself and takes its own place. Both are on the disk when they return.
    """

    def __init__(self, file: Path) -> None:
        """Lock a file, which is made if it is not there.

        Raises:
            AnnotatorError: another process holds it, it is a folder, or it cannot be written.
        """
        self.name = shown(file)
        with self._writing():
            self._file = Path(os.path.realpath(file))  # a link stays one when its file is replaced
            self._lock_file = self._file.with_name(f".{self._file.name}.lock")
            self._lock: int | None = self._locked()
            try:
                self._make()
                self._stamp = self._stamped()
                self._count = self.read().count(b"\n")
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Let go of the file."""
        if self._lock is not None:
            with suppress(OSError):
                self._lock_file.unlink()
            os.close(self._lock)
            self._lock = None

    def read(self) -> bytes:
        """Return all that is in the file."""
        with self._writing():
            return self._file.read_bytes()

    def append(self, line: bytes) -> int:
        """Write a line, with its end, after the last one; return its number.

        Raises:
            AnnotatorError: it cannot be written (a full disk, say): the file is as before; or
                another program has changed the file.
        """
        with self._changing():
            size = self._file.stat().st_size
            try:
                with self._file.open("ab") as out:
                    out.write(line)
                    out.flush()
                    os.fsync(out.fileno())
            except OSError:
                with suppress(OSError):
                    os.truncate(self._file, size)
                    self._stamp = self._stamped()
                raise
        self._count += 1
        return self._count - 1

    def replace(self, at: int, new: bytes | None) -> bytes:
        """Put another line in the place of line ``at``, or none; return the one that stood there.

        Raises:
            AnnotatorError: as :meth:`append`.
        """
        part = self._file.with_name(f".{self._file.name}.part")
        old = b""
        with self._changing():
            try:
                with self._file.open("rb") as lines, part.open("wb") as out:
                    for n, line in enumerate(lines):
                        if n == at:
                            old, line = line, new or b""
                        out.write(line)
                    _make_like(lines.fileno(), out.fileno())
                    out.flush()
                    os.fsync(out.fileno())
                part.replace(self._file)
            except OSError:
                part.unlink(missing_ok=True)
                raise
            _sync(self._file.parent)
        self._count -= new is None
        return old

    def cut(self, count: int) -> None:
        """Take the last ``count`` bytes off. Raises :class:`AnnotatorError` as :meth:`append`."""
        with self._changing():
            os.truncate(self._file, self._file.stat().st_size - count)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            reason = getattr(error, "strerror", None) or error
            raise AnnotatorError(f"cannot write {self.name}: {reason}") from error

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """A change of the file, which must be as it was left."""
        with self._writing():
            if self._lock is None:
                raise AnnotatorError(f"{self.name}: closed")
            if self._stamped() != self._stamp:
                raise AnnotatorError(
                    f"{self.name} was changed by another program; start again to go on with what is"
                    " in it now"
                )
            yield
            self._stamp = self._stamped()

    def _stamped(self) -> _Stamp:
        info = self._file.stat()
        return info.st_ino, info.st_size, info.st_mtime_ns

    def _make(self) -> None:
        new = not self._file.exists()
        if not new and not self._file.is_file():
            raise AnnotatorError(f"{self.name}: a folder, or no regular file; name a .jsonl file")
        os.close(os.open(self._file, os.O_RDWR | os.O_CREAT, 0o666))
        if new:
            _sync(self._file.parent)

    def _locked(self) -> int:
        """Return the lock: of a file beside this one, which is there only as long as it is held."""
        while True:
            fd = os.open(self._lock_file, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(fd)
                raise AnnotatorError(
                    f"{self.name}: another process labels into this file; close it, or label into"
                    " another file"
                ) from error
            # Who held it before may have taken it away between the two calls.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(fd), self._lock_file.stat()):
                    return fd
            os.close(fd)


def _make_like(old: int, new: int) -> None:
    """Give a file the owner, as far as possible, and the permissions of another."""
    info = os.fstat(old)
    with suppress(OSError):
        os.fchown(new, info.st_uid, info.st_gid)
    os.fchmod(new, stat.S_IMODE(info.st_mode))


def _sync(folder: Path) -> None:
    """Bring the names in a folder to the disk, where the file system can do so."""
    with suppress(OSError):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
