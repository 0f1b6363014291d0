"""What is the process's own: signals, and streams that are closed or take nothing."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import EXAMPLES, ROOT
from tests.judges.ask import RIGHT
from tests.runs.test_run import first, llm, start, wait_for_lines
from tests.server import Server

RUN = ("run", str(EXAMPLES), "--rubric", "comm_errors", "--out", "out")
COMMANDS = (("--help",), ("rubric", "list"), ("cache", "info"), RUN, (*RUN[:-1], "o2", "--json"))


def close(*numbers: int):
    return lambda: [os.close(number) for number in numbers]


# How the streams are -> what is done with them before the start, and what a command ends with.
STREAMS = {
    "stdin closed": (close(0), {}, (0,)),
    "stdout closed": (close(1), {}, (0,)),
    "stderr closed": (close(2), {}, (0,)),
    "all closed": (close(0, 1, 2), {}, (0,)),
    "stdout full": (None, {"stdout": "/dev/full"}, (2,)),
    "stderr full": (None, {"stderr": "/dev/full"}, (0,)),
    "stdout unread": (None, {"stdout": "unread"}, (0,)),
    "both unread": (None, {"stdout": "unread", "stderr": "unread"}, (0,)),
}


@pytest.mark.parametrize(("prepare", "streams", "codes"), STREAMS.values(), ids=STREAMS)
def test_streams_that_take_nothing_stop_no_command(tmp_path, prepare, streams, codes):
    for arguments in COMMANDS:
        pipes = {}
        for name in ("stdout", "stderr"):
            pipes[name] = subprocess.PIPE
            if streams.get(name) == "unread":
                reader, pipes[name] = os.pipe()
                os.close(reader)
            elif name in streams:
                pipes[name] = os.open(streams[name], os.O_WRONLY)
        done = subprocess.run(
            [sys.executable, "-m", "annotator", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "ANNOTATOR_CACHE": str(tmp_path / "c")},
            preexec_fn=prepare,
            check=False,
            **pipes,
        )
        for number in pipes.values():
            if number != subprocess.PIPE:
                os.close(number)
        assert done.returncode in codes, (arguments, done)
        printed = (done.stdout or b"") + (done.stderr or b"")
        assert b"Traceback" not in printed
        assert b"Exception ignored" not in printed
    for out in ("out", "o2"):  # and all was judged
        lines = (tmp_path / out / "annotations.jsonl").read_bytes().count(b"\n")
        assert lines == 17, out
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


@pytest.mark.parametrize("ignored", [(), (signal.SIGINT,), (signal.SIGHUP,)], ids=str)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name)
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


def test_a_third_signal_of_another_kind_does_not_kill_a_run(runs, tmp_path):
    """Its last words and its manifest are those of one that was stopped."""
    with Server(lambda _: RIGHT) as server:
        server.responder = first(3, server)
        out = ("--rubric", "comm_errors", "--out", "out")
        process = start(str(runs(9)), *out, *llm(server), cwd=tmp_path)
        wait_for_lines(tmp_path / "out" / "annotations.jsonl", 2)
        process.send_signal(signal.SIGSTOP)  # so that all are there before it ends
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
            process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert json.loads((tmp_path / "out" / "run.json").read_text())["status"] == "interrupted"


# When signals come -> what a plug-in without a reader does, which is an error, and the exit code.
MOMENTS = {
    "after the end": ("[atexit.register(kill, number) for number in (INT, TERM, HUP, INT)]", 2),
    "while Python ends": ("sys.late = Gone()", 2),
    "in a callback of Python's": ("Gone(); time.sleep(30)", 130),
    "in an exec()": ("exec('kill()')", 130),
    "by a clock that was set before": ("kill(14); time.sleep(30)", 130),
    "while it waits for a lock": (
        "from pathlib import Path\nfrom threading import Thread, Timer\n"
        "from annotator.locks import open_locked\n"
        "Thread(target=lambda: [time.sleep(20), os._exit(9)], daemon=True).start()\n"
        "Timer(0.5, kill).start()\n"
        "both = [open_locked(Path('lock'), wait=True) for _ in range(2)]",
        130,
    ),
    "while what it writes is made elsewhere": (
        "from pathlib import Path\nfrom annotator.files import LineLog\n__name__ = 'annotator.x'\n"
        "LineLog(Path('log')).rewrite(os._exit(9) for _ in 'x' if kill() is None)",
        130,
    ),
    "twice": ("try:\n    kill()\nfinally:\n    kill(TERM)\n    kill(HUP)", 130),
    "thrice": ("try:\n    kill()\nfinally:\n    kill()\n    kill()", -signal.SIGINT),
}
_PLUGIN = """
import atexit, os, sys, time
from signal import SIGHUP as HUP, SIGINT as INT, SIGTERM as TERM

def kill(number=INT, kill=os.kill, process=os.getpid()):
    kill(process, number)

class Gone:
    def __del__(self, kill=kill):
        kill()
        kill(14)

"""


@pytest.mark.parametrize(("program", "code"), MOMENTS.values(), ids=MOMENTS)
def test_a_signal_at_any_moment(tmp_path: Path, program: str, code: int) -> None:
    """As a module: there Python itself has the last word after a KeyboardInterrupt."""
    (tmp_path / "plugin.py").write_text(_PLUGIN + program)
    process = start("traces", str(EXAMPLES), "--format", "plugin:reader", cwd=tmp_path)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert not re.search("Traceback|ignored", err)


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        # pydantic-core takes it for a schema that cannot be built.
        (RuntimeError("Error building `x`:\n  KeyboardInterrupt: "), 130, "Interrupted."),
        # Click takes this one for Ctrl-D.
        (EOFError("marshal data too short"), 2, "Error: marshal data too short: a file ends too"),
    ],
)
def test_ctrl_c_is_known_whatever_a_library_makes_of_it(
    annotate_cli, monkeypatch, error, code, words
):
    def build():
        raise error

    monkeypatch.setattr("annotator.cli.rubric.list_built_in", build)
    done = annotate_cli("rubric", "list")
    assert (done.code, done.err.strip()[: len(words)]) == (code, words)


def test_a_server_ends_quietly(tmp_path: Path):
    command = ("label", str(EXAMPLES), "--rubric", "comm_errors", "--labels", "l.jsonl")
    process = start(*command, "--annotator", "ann", "--port", "0", cwd=tmp_path)
    assert process.stdout
    assert "http://" in process.stdout.readline()
    process.terminate()
    _, err = process.communicate(timeout=30)
    assert process.returncode in (0, 130), err
    assert "Traceback" not in err
    assert [one.name for one in tmp_path.iterdir()] == ["l.jsonl"]


_LAST_LINES = """
import os, signal, sys
import annotator.__main__ as process

left = [int(sys.argv.pop(1))]

def watch(frame, event, _):
    return step if frame.f_code is process.main.__code__ else None

def step(frame, event, _):
    if event == "line" and sys.exc_info()[0] is SystemExit:
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGINT)
    return step

sys.settrace(watch)
process.main()
"""


@pytest.mark.parametrize("line", [1, 2, 3])
def test_ctrl_c_at_one_of_the_last_lines_is_no_traceback(tmp_path: Path, line: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LAST_LINES, str(line), "rubric", "list"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 130)
    assert (done.stderr, "symptoms" in done.stdout) == ("", True)


_EVERY_LINE = """
import os, signal, sys
from pathlib import Path
import annotator.cli
from annotator import __main__ as process
from annotator.files import LineLog, replace_folder, write_file

def write():
    write_file(Path("file"), "new")
    with LineLog(Path("log")) as log:
        log.append(b"line")
        log.rewrite([b"other"])
    with replace_folder(Path("folder"), bool) as part:
        part.mkdir()
        (part / "file").write_text("new")

def watch(frame, event, _):
    ours = ("annotator.files", "annotator.locks", "shutil")
    return step if frame.f_globals["__name__"] in ours else None

def step(frame, event, _):
    global lines
    if event != "call":
        lines += 1
        if lines == last:
            os.kill(os.getpid(), signal.SIGINT)
    return step

def begin(folder):
    os.mkdir(folder)
    os.chdir(folder)
    sys.settrace(watch)

annotator.cli.main = write
lines = last = 0
home = os.getcwd()
begin("whole")
write()
sys.settrace(None)
os.chdir(home)
last, lines = lines, 0
for last in range(last, 0, -1):
    if not (child := os.fork()):
        begin(str(last))
        process.main()
        os._exit(0)
    print(last, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_ctrl_c_at_any_line_that_writes_leaves_nothing_half_done(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _EVERY_LINE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    codes = dict(map(str.split, done.stdout.splitlines()))
    assert len(codes) > 100
    for folder, code in codes.items():
        left = {str(one.relative_to(tmp_path / folder)) for one in (tmp_path / folder).rglob("*")}
        assert code in {"0", "130"}, folder
        assert left <= {"file", "log", "folder", "folder/file"}, folder
        assert ("folder" in left) == ("folder/file" in left), folder
