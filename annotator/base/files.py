"""Files: whole ones that take their place in one step, logs of lines, and bounded reads.

If a write fails (a full disk, Ctrl-C, ``kill -9``), the earlier file stays.
"""

import errno
import glob
import os
import shutil
import stat
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader, FileIO
from pathlib import Path
from typing import IO, AnyStr, BinaryIO

from annotator.base.errors import AnnotatorError
from annotator.base.remote import find_url, name_place, put_file, refuse_url
from annotator.base.text import replace_surrogates, sanitize_line

_MOST_MB = 512
_LEAST_LIMIT = 1 << 20  # bytes: the smallest limit of a document
_PACKAGE = Path(__file__).parent.parent


@contextmanager
def explain_errors(path: Path | str, advice: str = "") -> Iterator[None]:
    """Turn an :class:`OSError` into one sentence: the path, the reason, and the advice.

    Raises:
        AnnotatorError: the block raised an :class:`OSError`.
    """
    try:
        yield
    except OSError as error:
        reason = "; ".join(filter(None, (str(error.strerror or error), advice)))
        raise AnnotatorError(f"cannot write {sanitize_line(str(path))}: {reason}") from error


def write_file(
    path: Path, content: str | bytes, *, exclusive: bool = False, private: bool = False
) -> None:
    """Write a whole file. Raises :class:`AnnotatorError` as :class:`NewFile`."""
    data = replace_surrogates(content).encode() if isinstance(content, str) else content
    with NewFile(path, exclusive=exclusive, private=private) as out:
        out.write(data)


class NewFile:
    """A new file under a hidden name, which takes its place in one step when the ``with`` block
    ends, or by :meth:`keep`. An error removes it.

    A replaced file passes on its permissions, and a symbolic link stays. A URL gets the file after
    it is written here.

    Args:
        exclusive: replace nothing.
        private: only the owner may read a new file.
        advice: ends the message of an error.

    Raises:
        AnnotatorError: the file cannot be written, the place is a folder or a device, or a file is
            there and this is ``exclusive``.
    """

    def __init__(
        self, path: Path, *, exclusive: bool = False, private: bool = False, advice: str = ""
    ) -> None:
        self._path, self._exclusive = path, exclusive
        self._url = find_url(path)
        self._target = Path(tempfile.gettempdir(), "file") if self._url else _resolve(path)
        self._check_free()
        old = None if self._url or not self._target.exists() else self._target.stat()
        self._advice = advice or ("the earlier file is unchanged" if old else "")
        self._temp_file = self._target.with_name(
            f"{_make_prefix(self._target)}{uuid.uuid4().hex}.part"
        )
        self._ended = False
        with explain_errors(path, self._advice):
            if old and not os.access(self._target, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            mode = 0o600 if private else 0o666
            fd = os.open(self._temp_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            self._out: BinaryIO = os.fdopen(fd, "wb")
            if old:
                self._temp_file.chmod(stat.S_IMODE(old.st_mode))

    def __enter__(self) -> BinaryIO:
        return self._out

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.keep()
            return
        self.drop()
        if isinstance(error, OSError):
            with explain_errors(self._path, self._advice):
                raise error

    def write(self, data: bytes) -> None:
        """Write more. Raises :class:`AnnotatorError` if that cannot be done."""
        with explain_errors(self._path, self._advice):
            self._out.write(data)

    def keep(self) -> None:
        """Put the file in its place, unless it was kept or dropped before."""
        if self._ended:
            return
        try:
            with explain_errors(self._path, self._advice):
                self._out.close()
                _sync(self._temp_file)
                self._check_free()  # another program may have been faster
                if self._url:
                    put_file(self._temp_file, self._url, exclusive=self._exclusive)
                else:
                    self._temp_file.replace(self._target)
        finally:
            self.drop()
        with suppress(OSError):  # not every file system can do so
            _sync(self._target.parent)

    def drop(self) -> None:
        """Remove the file, unless it was kept."""
        self._ended = True
        with suppress(OSError):  # a full disk: nobody needs the rest
            self._out.close()
        self._temp_file.unlink(missing_ok=True)

    def _check_free(self) -> None:
        if self._exclusive and os.path.lexists(self._path):
            raise AnnotatorError(f"{sanitize_line(str(self._path))} is there already; name another")


@contextmanager
def replace_folder(path: Path, is_ours: Callable[[Path], bool]) -> Iterator[Path]:
    """Yield a temporary folder that replaces ``path`` when the block ends.

    A folder at ``path`` is replaced only if it ``is_ours``.
    """
    refuse_url(path, "a folder is written on this machine: name one and copy it")
    if path.exists() and not is_ours(path):
        raise AnnotatorError(f"{path} is there already and is something else; name another")
    target = Path(os.path.realpath(path))
    with (
        explain_errors(path),
        tempfile.TemporaryDirectory(
            prefix=".part-", dir=target.parent, ignore_cleanup_errors=True
        ) as aside,
    ):
        yield (new_folder := Path(aside, "part"))
        if target.exists():
            shutil.rmtree(target)
        new_folder.rename(target)


class LineLog:
    """A file of lines to append to. One process at a time holds it.

    Each line is one write. A killed process leaves whole lines and at most one torn end
    (:attr:`torn`), which :meth:`cut_torn` removes. A write that fails is taken back.

    Args:
        durable: :meth:`append` returns when the line is on the disk. Otherwise :meth:`sync` brings
            it there, and a crash of the machine can lose the lines since.
        busy: the error if another process holds the log; without it, wait.
        private: as of :class:`NewFile`.
        advice: ends the message of an error.

    Raises:
        AnnotatorError: another process holds it, it is a folder or a device, or it cannot be
            written.
    """

    def __init__(
        self,
        file: Path,
        *,
        busy: str = "",
        durable: bool = True,
        private: bool = False,
        advice: str = "",
    ) -> None:
        from filelock import FileLock, Timeout

        refuse_url(file, "an object store takes no lines: name a file here and copy it when done")
        self.file = file
        self._mode = 0o600 if private else 0o666
        self._advice, self._durable = advice, durable
        self._target = _resolve(file)
        self.lock_file = self._target.with_name(f".{self._target.name}.lock")
        self._lock = FileLock(self.lock_file, timeout=0 if busy else -1, thread_local=False)
        with explain_errors(file):
            os.listdir(self._target.parent)  # noqa: PTH208 - the lock makes a missing folder
            try:
                self._lock.acquire()
            except Timeout as error:
                raise AnnotatorError(busy) from error
            try:
                prefix = glob.escape(_make_prefix(self._target))
                for left in self._target.parent.glob(f"{prefix}*.part"):  # by a killed process
                    left.unlink()
                self._open()
            except BaseException:
                self._unlock()
                raise

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
        self._out = os.fdopen(os.open(self._target, flags, self._mode), "r+b", buffering=0)
        self.size = os.fstat(self._out.fileno()).st_size
        if not self.size:
            with suppress(OSError):
                _sync(self._target.parent)

    def close(self, *, keep_empty: bool = True) -> None:
        """Let go of the log."""
        if not self._out.closed:
            if not (self.size or keep_empty):
                self._target.unlink(missing_ok=True)
            self._out.close()
            self._unlock()

    def _unlock(self) -> None:
        with suppress(OSError):
            self.lock_file.unlink()
        self._lock.release()

    def __enter__(self) -> "LineLog":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def torn(self) -> bytes:
        """The bytes after the end of the last line: a line without its end, or nothing."""
        end = b""
        with explain_errors(self.file, self._advice):
            while b"\n" not in end and len(end) < self.size:
                start = max(0, self.size - 2 * len(end) - 4096)
                self._out.seek(start)
                end = os.read(self._out.fileno(), self.size - start)
        return end[end.rfind(b"\n") + 1 :]

    def read(self) -> bytes:
        """Return the whole log. Raises :class:`AnnotatorError` if it cannot be read."""
        with explain_errors(self.file, self._advice):
            return read_bounded(self._target)

    def append(self, line: bytes) -> None:
        """Add a line, with its end."""
        with explain_errors(self.file, self._advice):
            self._check()
            try:
                rest = memoryview(line)
                while rest:  # a full disk may take a part
                    rest = rest[self._out.write(rest) :]
                if self._durable:
                    os.fsync(self._out.fileno())
            except BaseException:
                self._out.truncate(self.size)
                raise
        self.size += len(line)

    def cut_torn(self) -> bytes:
        """Remove :attr:`torn` and return it. Raises as :meth:`append`."""
        if torn := self.torn:
            with explain_errors(self.file, self._advice):
                self._check()
                self.size -= len(torn)
                self._out.truncate(self.size)
                os.fsync(self._out.fileno())
        return torn

    def replace(self, at: int, new: bytes | None) -> bytes:
        """Replace line ``at``, from 0, or remove it; return the old line. Raises as `append`."""
        lines = self.read().splitlines(keepends=True)
        old, lines[at] = lines[at], new or b""
        self.rewrite(lines)
        return old

    def rewrite(self, lines: Iterable[bytes]) -> None:
        """Replace all lines in one step; they may come from the log. Raises as `append`."""
        with explain_errors(self.file, self._advice):
            self._check()
            with NewFile(self.file, advice=self._advice) as out:
                out.writelines(lines)
            self._out.close()
            self._open()

    def sync(self) -> None:
        """Bring the lines to the disk. Raises as `append`."""
        with explain_errors(self.file, self._advice):
            self._check()
            os.fsync(self._out.fileno())

    def _check(self) -> None:
        """Raise an error if the log is closed, or another program has changed it."""
        if self._out.closed:
            raise AnnotatorError(f"{self.file}: closed")
        there, open_ = self._target.stat(), os.fstat(self._out.fileno())
        if there.st_size != self.size or (self._durable and not os.path.samestat(there, open_)):
            raise AnnotatorError(
                f"{sanitize_line(str(self.file))} was changed by another program; start again (a"
                " run: with --resume) to go on with it as it is now"
            )


def _make_prefix(target: Path) -> str:
    return f".{target.name[:50]}.annotate-"


def _resolve(path: Path) -> Path:
    """Return where a file is, or will be. Raises :class:`AnnotatorError` if it is no file."""
    target = Path(os.path.realpath(path))
    with explain_errors(path):
        if target.exists() and not target.is_file():
            name = sanitize_line(str(path))
            raise AnnotatorError(f"cannot write {name}: a folder, or no regular file; name another")
    return target


def _sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def get_size_limit() -> int:
    """Return the size in bytes up to which a document or a line is read into memory: 512 MB, or
    ``ANNOTATOR_MAX_MB``.
    """
    text = os.environ.get("ANNOTATOR_MAX_MB", "").strip() or str(_MOST_MB)
    if not (text.isdecimal() and 0 < len(text) < 10 and int(text)):
        raise AnnotatorError(f"ANNOTATOR_MAX_MB: expected a whole number of MB, found {text!r}")
    return int(text) << 20


@contextmanager
def explain_unreadable(path: str | Path) -> Iterator[None]:
    """Turn an :class:`OSError` into :class:`AnnotatorError`: the path and the reason."""
    try:
        yield
    except OSError as error:
        raise AnnotatorError(f"{name_place(path)}: {error.strerror or error}") from error


def open_checked(path: str | Path) -> BufferedReader:
    """Return a regular file, open for reading its bytes.

    Raises:
        OSError: it cannot be opened, or is a pipe (which would block) or a device (without an end).
    """
    return BufferedReader(FileIO(_open_regular(path)))


def _open_regular(path: str | Path) -> int:
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "not a regular file")
    return file


def read_bounded(path: str | Path, limit: int = 0) -> bytes:
    """Return all bytes of a regular file.

    Raises:
        OSError: as :func:`open_checked`, or it has more than ``limit`` bytes, by default
            :func:`get_size_limit`.
    """
    file = _open_regular(path)
    try:  # Python's file objects take as long as the reading of a small file
        size = os.fstat(file).st_size
        if limit and size > limit:
            raise OSError(errno.EFBIG, f"larger than {limit >> 20} MB")
        if size > _LEAST_LIMIT and not limit:
            check_size("a file", size)
        data = os.read(file, size + 4096)
        while len(data) != size and (more := os.read(file, size + 4096)):
            data += more
        return data
    finally:
        os.close(file)


def read_whole(file: IO[bytes]) -> bytes:
    """Return what an open file holds. Raises OSError if it is above :func:`get_size_limit`."""
    data = file.read(get_size_limit() + 1)
    check_size("one document", len(data))
    return data


def read_bounded_lines(file: IO[AnyStr]) -> Iterator[AnyStr]:
    """Yield the lines of an open file. Raises OSError for a line above :func:`get_size_limit`."""
    limit = get_size_limit()
    while line := file.readline(limit + 1):
        check_size("a line", len(line), limit)
        yield line


def check_size(noun: str, size: int, limit: int = 0) -> None:
    """Raise OSError for something above ``limit``, by default :func:`get_size_limit`."""
    if size > (limit or get_size_limit()):
        size_limit = f"{get_size_limit() >> 20} MB, which is not read (ANNOTATOR_MAX_MB)"
        raise OSError(errno.EOVERFLOW, f"{noun} of more than {size_limit}")


def find_resources(name: str) -> Path:
    """Return the folder of built-in ``rubrics`` or ``prompts``, or of the ``demo``: in the package,
    or beside it in a checkout.
    """
    installed = _PACKAGE / "_resources" / name
    root = _PACKAGE.parent
    return installed if installed.is_dir() else root / ("examples/demo" if name == "demo" else name)
