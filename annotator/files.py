"""Every write to a disk: whole files and folders, which take their place in one step, and logs of
lines. Whatever happens on the way (a full disk, Ctrl-C, ``kill -9``), what was there before stays.

``advice`` is what the error says when something cannot be written, after the reason (of a log once
it is open).
"""

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from annotator.errors import AnnotatorError
from annotator.locks import BEFORE, ScratchFolder, beside, open_locked
from annotator.regular import check_size, most_bytes, read_regular
from annotator.remote import find_url, put_file, refuse_url
from annotator.text import one_line, storable

_READ_AGAIN = "start again (a run: with --resume) to go on with what is in it now"

_REMEDIES = {
    errno.ENOSPC: "make room on the disk",
    errno.EDQUOT: "make room within the quota",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
}


@contextmanager
def explain_errors(place: Path | str, advice: str = "") -> Iterator[None]:
    """Say in one sentence why a place cannot be written.

    Raises:
        AnnotatorError: in the place of an :class:`OSError`, with its reason and what to do.
    """
    try:
        yield
    except OSError as error:
        raise _explain(place, error, advice) from error


def _explain(place: Path | str, error: OSError, advice: str = "") -> AnnotatorError:
    reason = str(error.strerror or error)
    parts = filter(None, (reason, _REMEDIES.get(error.errno or 0), advice))
    return AnnotatorError(f"cannot write {one_line(str(place))}: {'; '.join(parts)}")


def write_file(
    path: Path, content: str | bytes, *, exclusive: bool = False, private: bool = False
) -> None:
    """Write a whole file. Raises :class:`AnnotatorError` as :class:`NewFile`."""
    data = storable(content).encode() if isinstance(content, str) else content
    with NewFile(path, exclusive=exclusive, private=private) as out:
        out.write(data)


class NewFile:
    """A file in the making: written beside its place, on the disk when it takes the place, in one
    step, at the end of the ``with`` block (or by :meth:`keep`). It has the permissions of the file
    whose place it takes; where that is a link, the link stays.

    An error, Ctrl-C among them, leaves nothing beside. What a killed process leaves is taken away
    by the next that writes in the folder; who writes the same file at the same time waits, or is
    told ``busy``. ``exclusive``: a file that is there already is not replaced. ``private``: a file
    that was not there is readable by its owner only. At a URL, the
    file is put in one step, from a temporary one on this machine.

    Raises:
        AnnotatorError: the file cannot be written (here, in the block or at its end), is there and
            is a folder or a device, or is there at all and this is ``exclusive``.
    """

    _lock: BinaryIO | None = None

    def __init__(
        self,
        path: Path,
        *,
        exclusive: bool = False,
        private: bool = False,
        busy: str = "",
        advice: str = "",
    ) -> None:
        self._path = path
        self._exclusive = exclusive
        if exclusive and os.path.lexists(path):
            raise _explain_taken(path)
        self._url = find_url(path)
        self._aside = ScratchFolder() if self._url else None
        self._target = Path(self._aside.name, "file") if self._aside else _resolve(path)
        before = self._target.exists()
        self._advice = advice or ("what was there is unchanged" if before else "")
        self._part = beside(self._target, "part")
        self._out: BinaryIO
        with explain_errors(path, self._advice):
            if before and not os.access(self._target, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            try:
                lock = open_locked(self._part, wait=not busy)
            except BlockingIOError as error:
                raise AnnotatorError(busy) from error
            self._lock = self._out = lock
            try:
                os.ftruncate(lock.fileno(), 0)
                if before:
                    _make_like(self._target, lock.fileno())
                elif private:
                    os.fchmod(lock.fileno(), 0o600)
                # Whoever writes may close it; the lock stays.
                self._out = os.fdopen(os.dup(lock.fileno()), "wb")
            except BaseException:
                self._let_go()
                raise

    def __del__(self) -> None:
        self.drop()

    def __enter__(self) -> BinaryIO:
        return self._out

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.keep()
            return
        self.drop()
        if isinstance(error, OSError):
            raise _explain(self._path, error, self._advice) from error

    def write(self, data: bytes) -> None:
        """Write more. Raises :class:`AnnotatorError` if that cannot be done."""
        with explain_errors(self._path, self._advice):
            self._out.write(data)

    def keep(self) -> None:
        """Let the file take its place, unless it was kept or dropped before.

        Raises:
            AnnotatorError: it cannot be written; then it is dropped.
        """
        if self._lock is None:
            return
        try:
            with explain_errors(self._path, self._advice):
                self._out.close()
                os.fsync(self._lock.fileno())
                self._move()
        finally:
            self._let_go()
        _sync_folder(self._target.parent)

    def drop(self) -> None:
        """Leave nothing of the file, unless it was kept."""
        self._let_go()

    def _move(self) -> None:
        if self._url:
            put_file(self._part, self._url, exclusive=self._exclusive)
            return
        if not self._exclusive:
            self._part.replace(self._target)
            return
        try:
            os.link(self._part, self._target)  # in one step, and only where nothing is
        except FileExistsError:
            raise _explain_taken(self._path) from None

    def _let_go(self) -> None:
        lock, self._lock = self._lock, None
        if lock is None:
            return
        with suppress(OSError):  # not there any more: it has taken its place
            if os.path.samestat(os.fstat(lock.fileno()), self._part.lstat()):
                self._part.unlink()
        with suppress(OSError):  # what does not fit is not wanted any more
            self._out.close()
        with suppress(OSError):  # what is kept is on the disk
            lock.close()
        if self._aside:
            self._aside.cleanup()


@contextmanager
def replace_folder(path: Path, ours: Callable[[Path], bool]) -> Iterator[Path]:
    """Give a path to make a folder at, which then becomes ``path``.

    What is at ``path`` is replaced only if ``ours`` says that this tool made it. Nothing is left
    beside, as with :class:`NewFile`; a process killed at the moment at which the old folder is away
    and the new one not there leaves the old one to be put back in the same way. What is made beside
    the path that is given goes at the end.

    Raises:
        AnnotatorError: it cannot be written, or ``path`` is something else already.
    """
    refuse_url(path, "a folder is written on this machine: name one and copy it")
    if path.exists() and not ours(path):
        raise AnnotatorError(f"{path} is there already and is something else; name another")
    target = Path(os.path.realpath(path))
    with explain_errors(path), ScratchFolder(target) as aside:
        part, before = Path(aside) / "part", Path(aside) / BEFORE / target.name
        yield part
        _sync_tree(part)
        before.parent.mkdir()
        try:
            if target.exists():
                target.rename(before)
            part.rename(target)
        except BaseException:  # Ctrl-C too: what is left aside goes with it
            if before.exists() and not target.exists():
                before.rename(target)
            raise
        _sync_folder(target.parent)


class LineLog:
    """A file of lines to which lines are appended, locked for this process until it is closed.

    A line is one write of one whole line: a process killed at any moment leaves whole lines and at
    most one torn end (:attr:`torn`), for who opens the log again to cut off. A write that fails is
    taken back. Lines are taken out or changed by writing the file anew (:class:`NewFile`).

    ``durable``: what returned is on the disk; else lines are on the disk after :meth:`sync`, and
    only a crash of the machine, not one of the process, loses those since. A log that another
    program has changed meanwhile is refused; one that is not durable if its size says so.
    ``busy``: what is said where another process has the log; without it, this one waits for its
    turn. ``private``: as of :class:`NewFile`. ``size``: of the log, in bytes.

    Raises:
        AnnotatorError: another process has it, it is a folder or a device, or it cannot be written.
    """

    _fd = -1
    _lock: BinaryIO | None = None

    def __init__(
        self,
        file: Path,
        *,
        busy: str = "",
        durable: bool = True,
        private: bool = False,
        advice: str = "",
    ) -> None:
        refuse_url(file, "an object store takes no lines: name a file here and copy it when done")
        self.file = file
        self._mode = 0o600 if private else 0o666
        self._advice = advice
        self._durable = durable
        self._target = _resolve(file)
        self.lock_file = beside(self._target, "lock")
        with explain_errors(file):
            try:
                self._lock = open_locked(self.lock_file, wait=not busy)
            except BlockingIOError as error:
                raise AnnotatorError(busy) from error
            try:
                self._open()
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Let go of the log."""
        fd, self._fd = self._fd, -1
        lock, self._lock = self._lock, None
        if fd >= 0:
            with suppress(OSError):  # what must be on the disk was brought there
                os.close(fd)
        if lock is not None:
            with suppress(OSError):
                self.lock_file.unlink()
            with suppress(OSError):
                lock.close()

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> "LineLog":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def torn(self) -> bytes:
        """What stands after the end of the last line: nothing, or a line that lacks its end."""
        end = b""
        with explain_errors(self.file, self._advice), self._target.open("rb") as lines:
            while b"\n" not in end and len(end) < self.size:
                check_size("a line", len(end))
                start = max(0, self.size - min(2 * len(end) + 4096, most_bytes() + 1))
                end = b""  # else both are in memory
                lines.seek(start)
                end = lines.read(self.size - start)
                if start + len(end) < self.size:
                    raise _explain_change(self.file)
        return end[end.rfind(b"\n") + 1 :]

    def read(self) -> bytes:
        """Return all that is in the log. Raises :class:`AnnotatorError` if it cannot be read."""
        with explain_errors(self.file, self._advice):
            return read_regular(self._target)

    def append(self, line: bytes) -> None:
        """Write a line, with its end, after the last one.

        Raises:
            AnnotatorError: it cannot be written (a full disk, say): the log is as before, or the
                error says that it may not be; or another program has changed the log.
        """
        try:
            self._check()
            try:
                written = os.write(self._fd, line)
                while written < len(line):  # a full disk may take a part
                    written += os.write(self._fd, line[written:])
                if self._durable:
                    os.fsync(self._fd)
            except BaseException:
                try:
                    self._cut(self.size)
                except OSError:  # the next write is refused: the log is not as it was left
                    self._advice = f"the line may be in it all the same; {_READ_AGAIN}"
                raise
            self.size += len(line)
            self._note()
        except OSError as error:
            raise _explain(self.file, error, self._advice) from error

    def cut_torn(self) -> bytes:
        """Take off what stands after the end of the last line, and return it.

        Raises:
            AnnotatorError: as :meth:`append`.
        """
        if torn := self.torn:
            with explain_errors(self.file, self._advice):
                self._check()
                self._cut(self.size - len(torn))
                os.fsync(self._fd)
        return torn

    def replace(self, at: int, new: bytes | None) -> bytes:
        """Put another line in the place of line ``at``, from 0, or none; return the one that stood
        there.

        Raises:
            AnnotatorError: as :meth:`append`.
        """
        old = b""

        def changed() -> Iterator[bytes]:
            nonlocal old
            with self._target.open("rb") as lines:
                for n, line in enumerate(lines):
                    if n == at:
                        old = line
                    yield (new or b"") if n == at else line

        self.rewrite(changed())
        return old

    def rewrite(self, lines: Iterable[bytes]) -> None:
        """Write the log anew, in one step; ``lines`` may be read from it meanwhile.

        Raises:
            AnnotatorError: as :meth:`append`.
        """
        with explain_errors(self.file, self._advice):
            self._check()
            new = -1
            try:
                with NewFile(self.file, advice=self._advice) as out:
                    out.writelines(lines)
                    new = os.dup(out.fileno())  # now: once it is in its place, nothing may fail
                    fcntl.fcntl(new, fcntl.F_SETFL, os.O_APPEND)
                self._fd, new = new, self._fd
                self.size = os.fstat(self._fd).st_size
                self._note()
            finally:
                if new >= 0:
                    with suppress(OSError):
                        os.close(new)

    def sync(self) -> None:
        """Bring the log to the disk.

        Raises:
            AnnotatorError: that cannot be done, or another program has changed the log.
        """
        with explain_errors(self.file, self._advice):
            self._check()
            os.fsync(self._fd)

    def _open(self) -> None:
        new = not self._target.exists()
        self._fd = os.open(self._target, os.O_RDWR | os.O_APPEND | os.O_CREAT, self._mode)
        if new:
            _sync_folder(self._target.parent)
        self.size = os.fstat(self._fd).st_size
        self._note()

    def _cut(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        self.size = size
        self._note()

    def _note(self) -> None:
        """Take note of how the file was left."""
        self._stamp = self._read_stamp(os.fstat(self._fd))

    def _check(self) -> None:
        """Raise an error where the log is closed or not as it was left."""
        if self._fd < 0:
            raise AnnotatorError(f"{self.file}: closed")
        if self._read_stamp(self._target.stat()) != self._stamp:
            raise _explain_change(self.file)

    def _read_stamp(self, info: os.stat_result) -> tuple[int, ...]:
        if not self._durable:  # what is not on the disk yet may get its time later
            return (info.st_size,)
        return info.st_ino, info.st_size, info.st_mtime_ns


def _explain_change(path: Path) -> AnnotatorError:
    return AnnotatorError(f"{one_line(str(path))} was changed by another program; {_READ_AGAIN}")


def _explain_taken(path: Path) -> AnnotatorError:
    return AnnotatorError(f"{one_line(str(path))} is there already; name another")


def _resolve(path: Path) -> Path:
    """Return where a file is, or will be. Raises :class:`AnnotatorError` if it can be none."""
    name = one_line(str(path))
    if "\0" in str(path):
        raise AnnotatorError(f"cannot write {name}: a NUL in its name")
    with explain_errors(path):
        target = Path(os.path.realpath(path))
        if target.is_symlink():  # in a circle: nothing would stand at its end
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if target.exists() and not target.is_file():
            raise AnnotatorError(f"cannot write {name}: a folder, or no regular file; name another")
    return target


def _make_like(old: Path, new: int) -> None:
    """Give an open file the owner, as far as possible, and the permissions of another."""
    info = old.stat()
    with suppress(OSError):
        os.fchown(new, info.st_uid, info.st_gid)
    os.fchmod(new, stat.S_IMODE(info.st_mode))


def _sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk, where the file system can do so."""
    with suppress(OSError):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _sync_tree(folder: Path) -> None:
    """Bring a folder and all below it to the disk."""
    for name in folder.rglob("*"):
        if name.is_file():
            with name.open("rb") as file:
                os.fsync(file.fileno())
    for name in (folder, *filter(Path.is_dir, folder.rglob("*"))):
        _sync_folder(name)
