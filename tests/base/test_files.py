"""What is written is there whole or not at all: full disks, Ctrl-C, kill -9, two at a time."""

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from annotator.base.errors import AnnotatorError
from annotator.base.files import LineLog, NewFile, replace_folder, write_file
from tests.calibration.build import label, make_rubric, make_run, said, write_labels
from tests.conftest import ROOT, limit_file_size, write_run

KEYLESS = ("--model", "m", "--base-url", "http://127.0.0.1:1/v1")
BATCH = ("run", "logs", "--rubric", "comm_errors", *KEYLESS, "--samples", "9", "--batch-file")

# What a command writes, the arguments that write it, and those that write it again.
WRITERS = {
    "a table": ("t.json", ("report", "run", "--format", "json", "--out", "t.json"), None),
    "a page": ("t.html", ("report", "run", "--format", "html", "--out", "t.html"), None),
    "Parquet": ("t.pq", ("report", "run", "--format", "parquet", "--out", "t.pq"), None),
    "a data set": ("data", ("report", "run", "--format", "dataset", "--out", "data"), None),
    "a figure": ("f.pdf", ("figure", "run", "--out", "f.pdf"), None),
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
def place(tmp_path):
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


@pytest.mark.parametrize(("name", "arguments", "again"), WRITERS.values(), ids=WRITERS)
def test_a_write_that_fails_leaves_the_good_file(annotate_cli, place, name, arguments, again):
    done = annotate_cli(*arguments)
    assert done.code == 0, done.err
    file = place / name
    largest = max(one.stat().st_size for one in (file, *file.rglob("*")) if one.is_file())
    before = contents(place)
    with limit_file_size(largest * 3 // 4):
        failed = annotate_cli(*(again or arguments))
    assert failed.code == 2, failed.err
    [error] = [line for line in failed.err.splitlines() if line.startswith("Error: ")]
    assert error.startswith("Error: cannot write")
    after = contents(place)
    assert before.items() <= after.items()
    new = after.keys() - before.keys() - {"other.csv.design.json"}  # written before its sheet
    assert not [name for name in new if "/." in name or not name.startswith("again/")]


KILLED = """
import os, sys
from pathlib import Path
from annotator.base.files import NewFile

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
    done = subprocess.run(
        [sys.executable, "-c", KILLED, file, str(int(by))], cwd=ROOT, capture_output=True
    )
    assert done.returncode == -by
    assert file.read_bytes() == b"old"
    beside = [one.name[:15] for one in tmp_path.iterdir() if one != file]
    assert beside == ([".file.annotate-"] if by == signal.SIGKILL else [])
    write_file(file, "new")
    assert file.read_bytes() == b"new"
    LineLog(file).close()  # holds it alone, so that nobody is still writing the other
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_system_without_locks_is_written(tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with pytest.warns(UserWarning, match="flock not supported"):
        log = LineLog(tmp_path / "log", busy="taken", private=True)
    with log:
        log.append(b"line\n")
        log.rewrite([b"other\n"])
    assert contents(tmp_path) == {"log": b"other\n"}
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600


def test_a_file_system_that_refuses_locks_is_an_error(tmp_path, monkeypatch):
    def refused(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refused)
    with pytest.raises(AnnotatorError, match=r"cannot write .*log: No locks available"):
        LineLog(tmp_path / "log")


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
    places = {
        tmp_path: "a folder, or no regular file",
        Path("/dev/null"): "a folder, or no regular file",
        tmp_path / "pipe": "a folder, or no regular file",
        tmp_path / "no" / "file": "No such file or directory",
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
