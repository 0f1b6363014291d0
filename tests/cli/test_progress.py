"""The line of progress, on a terminal and in a log, of real runs over HTTP."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from dataclasses import replace

import pytest

from annotator.cli.progress import show_reading
from tests.conftest import ROOT
from tests.judges.ask import PRICED, RIGHT, TOOLS, llm
from tests.server import NOTHING, Reply, Request, Server

# Found, none, refused, undecided because its quotes are nowhere.
ANSWERS = (RIGHT, NOTHING, Reply(refusal="no"), RIGHT, RIGHT, NOTHING)
TOKENS = {"usage": {"prompt_tokens": 40_000, "completion_tokens": 10_000}}  # 0.05 dollars


def answer(request: Request) -> Reply:
    return replace(ANSWERS[(request.n - 1) % len(ANSWERS)], more=TOKENS)


@pytest.mark.parametrize("verbose", [False, True])
def test_a_log_gets_plain_lines(annotate_cli, runs, monkeypatch, verbose):
    for name in ("_SHORTEST", "_LONGEST"):
        monkeypatch.setattr(f"annotator.cli.progress.{name}", 0.0)
    runs(6)
    with Server(answer) as server:
        more = ("--concurrency", "1", *(["-v"] if verbose else []))
        done = annotate_cli(*llm(server, *TOOLS, *PRICED, *more))
    assert "\r" not in done.err
    lines = [line for line in done.err.splitlines() if re.match(r"\d+/6", line)]
    assert len(lines) == 6
    assert re.sub(r"ETA 0:\d\d", "ETA", lines[2]) == (
        "3/6  50 %  $0.15  ETA   1 found  1 none  0 undecided  1 failed"
        + ("  150,000 tokens" if verbose else "")
    )
    assert lines[5].startswith("6/6  100 %  $0.30   3 found  2 none  0 undecided  1 failed")
    first = done.err.index("the first failure: night/coop/shop_task/3/f1_f2: the model refuses")
    assert first < done.err.index("3/6")


def test_a_log_says_what_is_not_known(annotate_cli, runs, monkeypatch):
    for name in ("_SHORTEST", "_LONGEST"):
        monkeypatch.setattr(f"annotator.cli.progress.{name}", 0.0)
    runs(2)
    with Server(answer) as server:
        err = annotate_cli(*llm(server, *TOOLS, "--concurrency", "1")).err
    assert "2/2  100 %  cost unknown   1 found  1 none" in err


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (80, "6/6  100 %  $0.30   3 found  2 none  0 undecided  1 failed"),
        (40, "6/6  100 %  $0.30   3 found  2 none"),
    ],
)
def test_a_terminal_has_one_line_that_fits(runs, tmp_path, width, line):
    runs(6)
    lines = watch(tmp_path, answer, width)
    assert lines[-1] == line
    assert max(map(len, lines)) < width


def test_the_rest_does_not_grow_while_a_trace_is_judged(runs, tmp_path):
    runs(3)
    lines = watch(tmp_path, lambda request: replace(NOTHING, wait=3.0 if request.n == 3 else 1.0))
    rests = [line.split("ETA ")[1][:4] for line in lines if line.startswith("2/3")]
    assert len(set(rests)) > 1
    assert rests == sorted(rests, reverse=True)


def watch(tmp_path, answer, width=80):
    """Return the lines of progress on a terminal, in turn."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    with Server(answer) as server:
        judge = tmp_path / "judge.yaml"
        judge.write_text(f"model: m\nmode: tools\nbase_url: {server.url}\n")
        command = [sys.executable, "-m", "annotator", "logs", "--rubric", "comm_errors"]
        process = subprocess.Popen(
            [*command, "--judge", str(judge), *PRICED, "--concurrency", "1"],
            cwd=tmp_path,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
                "TERM": "xterm",
            }
            | {"COLUMNS": str(width)},
            stdout=subprocess.DEVNULL,
            stderr=slave,
        )
        os.close(slave)
        printed = b""
        while data := _read(master):
            printed += data
        process.wait()
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", printed.decode()).replace("\n", "\r")
    return [one.strip() for one in text.split("\r") if re.match(r"\d+/\d", one)]


def _read(master: int) -> bytes:
    try:
        return os.read(master, 65_536)
    except OSError:  # the other end is closed
        return b""


def test_traces_that_are_read_are_counted_in_a_log(monkeypatch, capsys):
    monkeypatch.setattr("annotator.cli.progress._SHORTEST", 0.0)
    assert list(show_reading("ab")) == ["a", "b"]
    assert capsys.readouterr().err.splitlines() == ["1 trace read", "2 traces read"]
