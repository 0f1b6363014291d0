"""What is written is there whole or not at all: full disks, Ctrl-C, kill -9, two at a time."""

import errno
import fcntl
import io
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from annotator.errors import AnnotatorError
from annotator.files import LineLog, NewFile, replace_folder, write_file
from annotator.locks import open_locked
from tests.calibration.build import label, make_rubric, make_run, said, write_labels
from tests.conftest import ROOT, write_run

KEYLESS = ("--model", "m", "--base-url", "http://127.0.0.1:1/v1")
BATCH = ("run", "logs", "--rubric", "comm_errors", *KEYLESS, "--samples", "9", "--batch-file")

# What a command writes, the arguments that write it, and those that write it again.
WRITERS = {
    "a table": ("t.json", ("report", "run", "--format", "json", "--out", "t.json"), None),
    "a page": ("t.html", ("report", "run", "--format", "html", "--out", "t.html"), None),
    "Parquet": ("t.pq", ("report", "run", "--format", "parquet", "--out", "t.pq"), None),
    "a data set": ("data", ("report", "run", "--format", "dataset", "--out", "data"), None),
    "a figure": ("f.pdf", ("report", "run", "--figure", "f.pdf"), None),
    "difficulty": ("d.svg", ("stats", "logs", "--figure", "d.svg"), None),
    "a calibration": ("run/calibration.json", ("calibrate", "run", "--labels", "l.jsonl"), None),
    "a manifest": (
        "out/run.json",
        ("run", "logs", "--rubric", "symptoms", "--out", "out"),
        ("run", "logs", "--rubric", "symptoms", "--out", "out", "--resume"),
    ),
    "a batch file": (
        "ask.jsonl",
        (*BATCH, "ask.jsonl", "--out", "first"),
        (*BATCH, "ask.jsonl", "--out", "again"),
    ),
    "a sheet": (
        "s.csv",
        ("sample", "run", "-n", "300", "--split", "all", "--out", "s.csv"),
        ("sample", "run", "-n", "300", "--split", "all", "--out", "other.csv"),
    ),
    "a rubric": ("r.yaml", ("rubric", "new", "r.yaml"), ("rubric", "new", "other.yaml")),
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a run, labels of its traces, and traces to judge."""
    rubric = make_rubric(tmp_path)
    ids = [f"t{n}" for n in range(400)]
    make_run(tmp_path / "run", rubric, [said(one, "alpha", model="m") for one in ids])
    write_labels(tmp_path / "l.jsonl", [label(one, rubric, "alpha") for one in ids[:60]])
    for n in range(3):
        for setting in ("coop", "solo"):
            write_run(tmp_path / "logs" / "night" / setting / "task" / f"{n}" / "f1_f2")
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    """All files but the ledger of looks and the cache of answers, which are no files of results."""
    files = {one for one in folder.rglob("*") if one.is_file() and one.parent.name != "cache"}
    return {
        str(one.relative_to(folder)): one.read_bytes() for one in files if "looks" not in one.name
    }


def limited(*arguments: str, cwd: Path, limit: int) -> subprocess.CompletedProcess[str]:
    """Run ``annotate`` where no file can be larger than this: ``ulimit -f``."""

    def limit_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.run(
        [sys.executable, "-m", "annotator", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=limit_files,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("name", "arguments", "again"), WRITERS.values(), ids=WRITERS)
def test_a_write_that_fails_leaves_the_good_file(annotate_cli, place, name, arguments, again):
    done = annotate_cli(*arguments)
    assert done.code == 0, done.err
    file = place / name
    largest = max(one.stat().st_size for one in (file, *file.rglob("*")) if one.is_file())
    before = contents(place)
    failed = limited(*(again or arguments), cwd=place, limit=largest * 3 // 4)
    assert failed.returncode == 2, failed.stderr
    [error] = [line for line in failed.stderr.splitlines() if line.startswith("Error: ")]
    assert error.startswith("Error: cannot write")
    assert "Traceback" not in failed.stderr
    after = contents(place)
    assert before.items() <= after.items()
    new = after.keys() - before.keys()
    assert not [name for name in new if "/." in name or not name.startswith("again/")]


KILLED = """
import os, sys
from pathlib import Path
from annotator.files import NewFile

with NewFile(Path(sys.argv[1])) as out:
    for n in range(100):
        out.write(b"new" * 100_000)
        if n == 50:
            os.kill(os.getpid(), int(sys.argv[2]))
"""


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT])
def test_a_process_killed_in_a_large_write_leaves_the_good_file(tmp_path, by):
    file = tmp_path / "file"
    file.write_bytes(b"old")
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", KILLED, file, str(int(by))], cwd=ROOT, capture_output=True
        )
        assert done.returncode == -by
        assert file.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == (2 if by == signal.SIGKILL else 1)
    write_file(tmp_path / "other", "new")
    assert contents(tmp_path) == {"file": b"old", "other": b"new"}


def test_what_is_left_beside_is_swept_and_what_is_in_use_is_not(tmp_path, monkeypatch):
    used = tmp_path / "used"
    left = {".a.annotate-part", ".a.annotate-lock", ".b.annotate-x1/cache/f", ".mine.part"}
    for name in left | {".data.annotate-x2/before/data/old"}:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("left")
    with NewFile(used) as out:
        out.write(b"new")
        done = subprocess.run(
            [sys.executable, "-c", KILLED, tmp_path / "file", "0"], cwd=ROOT, check=False
        )
        assert done.returncode == 0
        assert {one.name for one in tmp_path.iterdir()} == {
            *("file", ".used.annotate-part", ".mine.part", "data")
        }
    assert used.read_text() == "new"
    assert (tmp_path / "data" / "old").read_text() == "left"  # its place was empty


def test_who_is_stopped_while_waiting_for_a_lock_leaves_none(tmp_path, monkeypatch):
    lock, taken = fcntl.flock, []

    def stopped(fd, how):
        lock(fd, how)
        if not taken:
            taken.append(fd)
            raise KeyboardInterrupt

    monkeypatch.setattr("fcntl.flock", stopped)
    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "file", "new")
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_tells_at_the_end_that_it_was_full_is_no_error(tmp_path, monkeypatch):
    """A network mount does when a file is closed; by then all is on the disk, or the error told."""

    class Full(io.FileIO):
        def close(self):
            if not self.closed:
                super().close()
                raise OSError(errno.ENOSPC, "No space left on device")

    def opened(file, *, wait):
        held = open_locked(file, wait=wait)
        return Full(os.dup(held.fileno()), "r+b")

    def closed(fd, close=os.close):
        close(fd)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("annotator.files.open_locked", opened)
    write_file(tmp_path / "file", "new")
    with LineLog(tmp_path / "log") as log:
        monkeypatch.setattr("os.close", closed)
        log.append(b"old\n")
        log.rewrite([b"line\n"])
    assert contents(tmp_path) == {"file": b"new", "log": b"line\n"}


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("os.rmdir", OSError(errno.ENOTEMPTY, "Directory not empty")),
        ("shutil.rmtree", OSError(errno.ENOTEMPTY, "Directory not empty")),
        ("shutil.rmtree", RecursionError()),  # CPython's, where a folder in it cannot be opened
        ("os.close", OSError(errno.EDQUOT, "Disk quota exceeded")),
    ],
)
def test_a_scratch_folder_that_cannot_be_removed_is_no_error(tmp_path, monkeypatch, step, error):
    """A network mount keeps names of open files in it, or tells of a quota when they are closed."""

    def busy(*_, **__):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(step, busy)
        with replace_folder(tmp_path / "folder", lambda _: True) as part:
            part.mkdir()
    assert (tmp_path / "folder").is_dir()


def test_one_error_of_close_does_not_keep_a_scratch_folder(tmp_path, monkeypatch):
    """It ends Python's removal, which tells of it whatever it is told to ignore."""

    def closed(fd, close=os.close):
        close(fd)
        if sys._getframe(1).f_code.co_filename == shutil.__file__:
            monkeypatch.setattr("os.close", close)
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("os.close", closed)
    with replace_folder(tmp_path / "folder", lambda _: True) as part:
        part.mkdir()
    assert os.close is not closed
    assert list(tmp_path.iterdir()) == [tmp_path / "folder"]


def test_a_file_system_without_locks_is_written(tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", no_locks)
    write_file(tmp_path / "file", "new")
    with LineLog(tmp_path / "log", busy="taken", private=True) as log:
        log.append(b"line\n")
        log.rewrite([b"other\n"])
    with replace_folder(tmp_path / "folder", lambda _: True) as part:
        part.mkdir()
    assert contents(tmp_path) == {"file": b"new", "log": b"other\n"}
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600


def test_who_writes_at_the_same_time_waits(tmp_path):
    file = tmp_path / "file"
    texts = [str(n) * 100_000 for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: write_file(file, text), texts))
    assert file.read_text() in texts
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_who_must_not_wait_is_told(tmp_path):
    file = tmp_path / "file"
    with NewFile(file) as out:
        out.write(b"first")
        with pytest.raises(AnnotatorError, match="somebody writes it"):
            NewFile(file, busy="somebody writes it")
    assert contents(tmp_path) == {"file": b"first"}


def test_names_as_long_as_a_file_system_takes(tmp_path):
    file, log = tmp_path / ("x" * 255), tmp_path / ("\u00e9" * 127)
    write_file(file, "new")
    with LineLog(log) as lines:
        lines.append(b"line\n")
    assert contents(tmp_path) == {file.name: b"new", log.name: b"line\n"}


def test_permissions_and_links_stay(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    write_file(real, "old")
    assert stat.S_IMODE(real.stat().st_mode) == 0o666 & ~_umask()
    real.chmod(0o640)
    link.symlink_to("real")
    write_file(link, "new\ud800")
    assert (link.is_symlink(), real.read_text()) == (True, "new\ufffd")
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_what_cannot_be_a_file_is_said(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    places = {
        tmp_path: "a folder, or no regular file",
        Path("/dev/null"): "a folder, or no regular file",
        tmp_path / "pipe": "a folder, or no regular file",
        tmp_path / "loop": "Too many levels of symbolic links",
        tmp_path / "no" / "file": "No such file or directory",
        tmp_path / "a\0b": "a NUL in its name",
        tmp_path / ("x" * 300): "File name too long",
    }
    before = sorted(tmp_path.iterdir())
    for file, reason in places.items():
        for write in (lambda path: write_file(path, "x"), LineLog):
            with pytest.raises(AnnotatorError, match=f"^cannot write .*{reason}"):
                write(file)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_file_that_must_not_be_written_is_not_replaced(tmp_path):
    file = tmp_path / "file"
    file.write_text("old")
    file.chmod(0o444)
    with pytest.raises(AnnotatorError, match="Permission denied"):
        write_file(file, "new")
    assert file.read_text() == "old"


def test_a_file_of_its_own_replaces_nothing(tmp_path):
    file, link = tmp_path / "file", tmp_path / "link"
    write_file(file, "old", exclusive=True)
    link.symlink_to("nowhere")
    for there in (file, link):
        with pytest.raises(AnnotatorError, match="is there already"):
            write_file(there, "new", exclusive=True)
    late = tmp_path / "late"
    new = NewFile(late, exclusive=True)
    new.write(b"new")
    late.write_text("old")  # somebody was faster
    with pytest.raises(AnnotatorError, match="late is there already"):
        new.keep()
    assert (file.read_text(), late.read_text()) == ("old", "old")
    assert {one.name for one in tmp_path.iterdir()} == {"file", "late", "link"}


def test_who_writes_may_close_the_file(tmp_path):
    with NewFile(tmp_path / "file") as out, out:
        out.write(b"whole")
    assert (tmp_path / "file").read_bytes() == b"whole"


def test_an_error_on_the_way_is_no_error_of_the_file(tmp_path):
    with pytest.raises(ZeroDivisionError), NewFile(tmp_path / "file") as out:
        out.write(b"%d" % (1 // 0))
    with pytest.raises(ZeroDivisionError), replace_folder(tmp_path / "d", lambda _: True) as part:
        part.joinpath(str(1 // 0)).mkdir()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("torn", [0, 1, 4095, 4096, 4097, 20_000])
@pytest.mark.parametrize("lines", [b"", b"one\n", b"one\n" + b"x" * 5000 + b"\n"])
def test_a_torn_end_is_cut_off(tmp_path, lines, torn):
    file = tmp_path / "log"
    file.write_bytes(lines + b"x" * torn)
    with LineLog(file) as log:
        assert log.cut_torn() == b"x" * torn
        assert (log.torn, log.size) == (b"", len(lines))
        log.append(b"next\n")
    assert file.read_bytes() == lines + b"next\n"
    assert [one.name for one in tmp_path.iterdir()] == ["log"]


@pytest.mark.parametrize("left", [0, 1, 20_000])
def test_the_end_of_a_log_that_another_program_cut_is_not_looked_for(tmp_path, left):
    file = tmp_path / "log"
    file.write_bytes(b"x" * 30_000)
    with LineLog(file) as log:
        os.truncate(file, left)
        with pytest.raises(AnnotatorError, match="log was changed by another program"):
            log.cut_torn()
    assert file.stat().st_size == left


def test_a_torn_end_beyond_the_limit_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setenv("ANNOTATOR_MAX_MB", "1")
    file = tmp_path / "log"
    file.write_bytes(b"one\n" + b"x" * 1_500_000)
    with LineLog(file) as log, pytest.raises(AnnotatorError, match="a line of more than 1 MB"):
        log.cut_torn()


def test_a_log_that_is_written_anew_is_not_said_to_be_as_before(tmp_path, monkeypatch):
    """Once the new one is in its place, no lack of descriptors is an error: a decision that was
    refused would have been kept.
    """
    replace = Path.replace

    def replaced(part, target):
        monkeypatch.setattr(os, "open", failing)
        monkeypatch.setattr(os, "close", failing)
        return replace(part, target)

    def failing(*_, **__):
        raise OSError(errno.ENFILE, "Too many open files in system")

    file = tmp_path / "log"
    with LineLog(file) as log:
        log.append(b"one\n")
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", replaced)
            log.replace(0, b"two\n")
            monkeypatch.undo()
        log.append(b"three\n")
    assert file.read_bytes() == b"two\nthree\n"


def test_a_log_says_where_a_line_that_was_refused_may_be_in_it(tmp_path, monkeypatch):
    def failing(*_):
        raise OSError(errno.EIO, "Input/output error")

    with LineLog(tmp_path / "log") as log:
        log.append(b"one\n")
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", failing)
            with pytest.raises(AnnotatorError, match=r"/log: Input/output error$"):
                log.append(b"two\n")  # taken back
            patch.setattr(os, "ftruncate", failing)
            with pytest.raises(AnnotatorError, match="the line may be in it all the same; start"):
                log.append(b"three\n")
        with pytest.raises(AnnotatorError, match="start again"):
            log.append(b"four\n")
    assert contents(tmp_path) == {"log": b"one\nthree\n"}


@pytest.mark.parametrize("durable", [True, False])
def test_a_log_is_written_by_one_process_at_a_time(tmp_path, durable):
    file = tmp_path / "log"
    with LineLog(file, durable=durable) as log:
        log.append(b"one\n")
        log.rewrite([b"two\n", b"three\n"])
        assert log.replace(0, None) == b"two\n"
        log.append(b"four\n")
        log.sync()
        with pytest.raises(AnnotatorError, match=r"^it is taken$"):
            LineLog(file, busy="it is taken")
    with pytest.raises(AnnotatorError, match="closed"):
        log.append(b"five\n")
    assert file.read_bytes() == b"three\nfour\n"
