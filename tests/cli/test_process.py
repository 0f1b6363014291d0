"""What is the process's own: signals, and streams that are closed or take nothing."""

import os
import signal
import subprocess
import sys

import pytest

from tests.conftest import EXAMPLES, ROOT
from tests.judges.ask import RIGHT
from tests.runs.test_run import first, llm, start, wait_for_lines
from tests.server import Server

RUN = ("run", str(EXAMPLES), "--rubric", "comm_errors", "--out", "out")


def close(*numbers):
    return lambda: [os.close(number) for number in numbers]


# How the streams are -> what is done with them before the start, and what a command ends with.
STREAMS = {
    "stdout closed": (close(1), {}, (0,)),
    "stderr closed": (close(2), {}, (0,)),
    "stdout full": (None, {"stdout": "/dev/full"}, (2,)),
    "stderr full": (None, {"stderr": "/dev/full"}, (0,)),
    "stdout unread": (None, {"stdout": "unread"}, (0,)),
    "both unread": (None, {"stdout": "unread", "stderr": "unread"}, (0,)),
}


@pytest.mark.parametrize(("prepare", "streams", "codes"), STREAMS.values(), ids=STREAMS)
def test_streams_that_take_nothing_stop_no_run(tmp_path, prepare, streams, codes):
    pipes = {}
    for name in ("stdout", "stderr"):
        pipes[name] = subprocess.PIPE
        if streams.get(name) == "unread":
            reader, pipes[name] = os.pipe()
            os.close(reader)
        elif name in streams:
            pipes[name] = os.open(streams[name], os.O_WRONLY)
    done = subprocess.run(
        [sys.executable, "-m", "annotator", *RUN],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "ANNOTATOR_CACHE": str(tmp_path / "c")},
        preexec_fn=prepare,
        check=False,
        **pipes,
    )
    for number in pipes.values():
        if number != subprocess.PIPE:
            os.close(number)
    assert done.returncode in codes, done
    printed = (done.stdout or b"") + (done.stderr or b"")
    assert b"Traceback" not in printed
    assert b"Exception ignored" not in printed
    lines = (tmp_path / "out" / "annotations.jsonl").read_bytes().count(b"\n")
    assert lines == 17  # all was judged
    assert not list(tmp_path.rglob(".*"))


def test_a_current_folder_that_is_gone_is_said(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["sh", "-c", 'rmdir "$PWD"; exec "$@"', "sh", sys.executable, "-m", "annotator", *RUN],
        cwd=gone,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "the current folder, which is gone" in done.stderr) == (2, True), done


@pytest.mark.parametrize(
    ("number", "ignored"),
    [(signal.SIGTERM, (signal.SIGINT,)), (signal.SIGHUP, ()), (signal.SIGHUP, (signal.SIGHUP,))],
)
def test_other_signals_end_a_run_as_ctrl_c_does(annotate_cli, runs, tmp_path, number, ignored):
    """A shell's background jobs ignore SIGINT, and those of nohup SIGHUP."""
    with Server(lambda _: RIGHT) as server:
        server.responder = first(12, server)
        args = (str(runs(20)), "--rubric", "comm_errors", "--out", "out", *llm(server))
        process = start(
            *args,
            cwd=tmp_path,
            preexec_fn=lambda: [  # whatever the tests themselves were started to ignore
                signal.signal(one, signal.SIG_IGN if one in ignored else signal.SIG_DFL)
                for one in (signal.SIGINT, signal.SIGHUP)
            ],
        )
        wait_for_lines(tmp_path / "out" / "annotations.jsonl", 5)
        if number in ignored:
            process.send_signal(number)
            number = signal.SIGTERM
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130, err
        assert "annotations are kept; go on with" in err
        assert "Traceback" not in err
        assert not [one for one in (tmp_path / "out").iterdir() if one.name.startswith(".")]
        server.responder = lambda _: RIGHT
        assert annotate_cli(*args, "--resume").code == 0
