"""Locks that end with their process, and what a killed process leaves behind.

All that stands on a disk for a while only (a file in the making, a lock, a scratch folder) is
locked as long as somebody needs it, and has a name of one form. So the next who writes in the same
folder can tell what a killed process has left there, and takes it away.
"""

import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
import time
import weakref
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

BEFORE = "before"  # in a scratch folder: what stood at the place of what is being made
_MARK = ".annotate-"
_LONGEST_NAME = 240  # bytes: file systems take 255, and a scratch folder adds eight


def beside(target: Path, suffix: str) -> Path:
    """Return the hidden name beside a file, or one made of its hash where that is too long."""
    name = f".{target.name}{_MARK}{suffix}"
    if len(os.fsencode(name)) > _LONGEST_NAME:
        digest = hashlib.sha256(os.fsencode(target.name)).hexdigest()
        name = f".{digest}{_MARK}{suffix}"
    return target.with_name(name)


def open_locked(file: Path, *, wait: bool) -> BinaryIO:
    """Open a file that :func:`beside` names, make it if it is not there, and lock it until it is
    closed.

    Raises:
        BlockingIOError: another process has it, and this one does not ``wait``.
        OSError: it cannot be opened.
    """
    _sweep(file.parent)
    while True:
        held: BinaryIO | None = None
        try:
            fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
            held = os.fdopen(fd, "r+b", buffering=0)
            _lock(fd, wait=wait)
            # Who had it before may have taken it away between the two calls.
            if _stands_at(fd, file):
                return held
        except BaseException:  # Ctrl-C too, whenever it comes: the file may have been made here
            if held:
                held.close()
            with suppress(OSError):  # somebody has it
                _take_away(file)
            raise
        held.close()


class ScratchFolder:
    """A folder for a while: in the folder for temporary files, or ``beside`` what is being made.
    It is removed when it is not needed any more, at the latest when the process ends; what cannot
    be removed then is left to the next who writes there.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, target: Path | None = None) -> None:
        prefix = beside(target, "").name if target else _MARK
        folder = target.parent if target else Path(tempfile.gettempdir())
        _sweep(folder)
        while True:
            self.name = tempfile.mkdtemp(prefix=prefix, dir=folder)
            self.cleanup = weakref.finalize(self, _remove, self.name)
            with suppress(FileNotFoundError):  # swept before it was locked
                fd = os.open(self.name, os.O_RDONLY)
                weakref.finalize(self, _close, fd)
                _lock(fd, wait=True)
                if _stands_at(fd, Path(self.name)):
                    return

    def __enter__(self) -> str:
        return self.name

    def __exit__(self, *_: object) -> None:
        self.cleanup()


def _lock(fd: int, *, wait: bool) -> None:
    """Lock an open file; where the file system knows no locks nothing happens.

    Raises:
        BlockingIOError: another process has it, and this one does not ``wait``.
    """
    for patience in (0.02, 0.04, 0.08, 0):  # for one that only looks whether it is left over
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            if not patience:
                raise
            time.sleep(patience)
        except OSError:  # a mount without locks: nobody has it
            return
        else:
            return


def _remove(folder: str) -> None:
    for _ in range(2):  # an error of close() ends the first, whatever it is told to ignore
        with suppress(OSError, RecursionError):
            shutil.rmtree(folder, ignore_errors=True)


def _close(fd: int) -> None:
    with suppress(OSError):  # a network mount tells of its own
        os.close(fd)


def _stands_at(fd: int, path: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(fd), path.lstat())
    return False


@lru_cache(maxsize=256)
def _sweep(folder: Path) -> None:
    """Take away what killed processes of this user have left in a folder."""
    with suppress(OSError), os.scandir(folder) as entries:
        for name in [entry.name for entry in entries]:
            if name.startswith(".") and _MARK in name:
                with suppress(OSError, RecursionError):  # somebody has it, or has taken it away
                    _take_away(folder / name)


def _take_away(left: Path) -> None:
    """Remove what nobody has locked; raises OSError where somebody has."""
    is_folder = stat.S_ISDIR(left.lstat().st_mode)
    access = os.O_RDONLY if is_folder else os.O_RDWR
    fd = os.open(left, access | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(fd).st_uid != os.geteuid() or not _stands_at(fd, left):
            return
        if not is_folder:
            left.unlink()
            return
        for old in (left / BEFORE).glob("*"):  # killed just between two steps
            if not os.path.lexists(left.with_name(old.name)):
                old.rename(left.with_name(old.name))
        shutil.rmtree(left)
    finally:
        os.close(fd)
