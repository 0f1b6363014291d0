"""Whole runs through the command line: directories, statuses, resuming, stopping, bad input."""

import errno
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from annotator.base.files import LineLog
from annotator.judges.llm.judge import LLMJudge
from annotator.rubrics import load_rubric
from annotator.rubrics.annotations import Annotation
from annotator.runs.store import RunDirectory
from tests.conftest import (
    ROOT,
    TALK,
    annotations,
    limit_file_size,
    run_name,
    set_model,
    write_judge_file,
    write_run,
)
from tests.server import NOTHING, Reply, Request, Responder, Server, finding

RIGHT = finding("C1b", ("message:1", "Which field holds the unit?"), ("message:2", TALK[1][1]))


def statuses(folder: Path) -> Counter[str]:
    return Counter(one.status for one in annotations(folder).values())


def llm(server: Server, *more: str) -> tuple[str, ...]:
    return ("--model", "m", "--base-url", server.url, *set_model(attempts=2), *more)


def test_the_default_command_and_the_manifest(annotate_cli, runs, tmp_path):
    done = annotate_cli(runs(3), "--rubric", "symptoms", "--out", "out")
    assert done.code == 0, done.err
    assert "judge rules" in done.out
    assert "judge: rules" in done.err
    manifest = json.loads((tmp_path / "out" / "run.json").read_text())
    rubric = load_rubric("symptoms")
    [used] = manifest["rubrics"]
    assert (used["id"], used["version"], used["sha256"]) == ("symptoms", 4, rubric.sha256)
    assert manifest["status"] == "finished"
    assert manifest["totals"]["annotations"] == 3
    assert {"id", "tool", "command", "started", "ended", "sources"} <= manifest.keys()
    assert set(annotations(tmp_path / "out")) == {
        (run_name(n).removeprefix("logs/"), "symptoms") for n in (1, 2, 3)
    }


def test_the_four_statuses_are_kept_apart(annotate_cli, tmp_path):
    for n, options in enumerate(
        ({}, {"talk": [("agent1", "Hello."), ("agent2", "Hello!")]}, {"passed": True}, {}), 1
    ):
        write_run(tmp_path / run_name(n), **options)
    (tmp_path / run_name(4) / "eval.json").write_text("{")

    def responder(request: Request) -> Reply:
        if "Hello" in request.part("message:1"):
            return NOTHING
        quotes = (("message:4", TALK[3][1]), ("patch:agent2", "+UNIT = 'lb'"))
        return finding("unverifiable_claims", *quotes)

    with Server(responder) as server:
        done = annotate_cli("logs", "--rubric", "symptoms", "--out", "out", *llm(server))
    found = {key[0].split("/")[-2]: one for key, one in annotations(tmp_path / "out").items()}
    assert {n: one.status for n, one in found.items()} == {
        "1": "labelled",
        "2": "none",
        "3": "skipped",
        "4": "failed",
    }
    assert found["3"].reason == "the run passed"
    assert "eval.json" in (found["4"].error or "")
    assert done.code == 1
    assert "shop_task/4/f1_f2: unreadable: eval.json" in done.err
    assert "2 of 4 traces judged (1 failed, 1 skipped)." in done.out


@pytest.mark.parametrize(
    ("rubric", "flags", "skipped"),
    [
        ("symptoms", (), 1),
        ("symptoms", ("--all",), 0),
        ("symptoms", ("--failed-only",), 1),
        ("comm_errors", (), 0),
        ("comm_errors", ("--failed-only",), 1),
    ],
)
def test_which_outcomes_are_judged(annotate_cli, tmp_path, rubric, flags, skipped):
    write_run(tmp_path / run_name(1))
    write_run(tmp_path / run_name(2), passed=True, merge="clean")
    assert annotate_cli("logs", "--rubric", rubric, "--out", "out", *flags).code == 0
    assert statuses(tmp_path / "out")["skipped"] == skipped


def test_an_unknown_outcome_is_judged_and_said(annotate_cli, tmp_path):
    write_run(tmp_path / run_name(1), passed=None)
    done = annotate_cli("logs", "--rubric", "symptoms", "--out", "out")
    assert statuses(tmp_path / "out")["skipped"] == 0
    assert "1 counted traces do not tell whether the run passed" in done.out


def test_a_link_in_the_place_of_a_run_is_not_removed(annotate_cli, runs, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "run.json").symlink_to("gone/run.json")
    done = annotate_cli(runs(1), "--rubric", "symptoms", "--out", "out")
    assert (done.code, "out holds an unfinished run" in done.err) == (2, True)
    assert (tmp_path / "out" / "run.json").is_symlink()


def test_a_second_run_into_a_directory_is_refused(annotate_cli, runs, tmp_path):
    args = (runs(2), "--rubric", "symptoms", "--out", "out")
    annotate_cli(*args)
    before = (tmp_path / "out" / "annotations.jsonl").read_bytes()
    done = annotate_cli(*args)
    assert (done.code, done.out) == (2, "")
    assert "out holds a finished run" in done.err
    assert (tmp_path / "out" / "annotations.jsonl").read_bytes() == before


def test_what_failed_is_tried_again_and_nothing_else(annotate_cli, runs, tmp_path):
    down = {"now": True}

    def responder(request: Request) -> Reply:
        third = "agent2" in request.part("facts") and len(server.seen) > 2
        return Reply(status=500) if third and down["now"] else RIGHT

    args = (runs(4), "--rubric", "comm_errors", "--out", "out")
    with Server(responder) as server:
        more = llm(server, "--concurrency", "1", *set_model(mode="tools"), "--price-in", "1")
        more += ("--price-out", "1")
        first = annotate_cli(*args, *more)
        assert (first.code, statuses(tmp_path / "out")["failed"]) == (1, 2)
        calls = server.calls
        down["now"] = False
        second = annotate_cli(*args, *more, "--resume")
        assert server.calls == calls + 2
        manifest = json.loads((tmp_path / "out" / "run.json").read_text())
    assert second.code == 0, second.err
    assert statuses(tmp_path / "out") == {"labelled": 4}
    assert manifest["totals"]["calls"] == server.calls
    assert manifest["totals"]["input_tokens"] == server.tokens_in
    billed = (server.tokens_in + server.tokens_out) / 1e6
    assert manifest["totals"]["cost_usd"] == pytest.approx(billed)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("--model", "other"), 'id was "llm:m", is now "llm:m+other"'),
        (set_model(reasks=1), "reasks was 3, is now 1"),
        (("--temperature", "0.5"), "temperature was 0.0, is now 0.5"),
        (("--all",), 'only: was "rubric", is now "all"'),
        (("--judge", "rules"), "judge"),
    ],
)
def test_other_settings_are_refused_with_the_difference(annotate_cli, runs, change, said):
    args = (runs(2), "--rubric", "symptoms", "--out", "out")
    with Server() as server:
        annotate_cli(*args, *llm(server))
        done = annotate_cli(*args, *llm(server), *change, "--resume")
    assert done.code == 2
    assert "cannot be resumed" in done.err
    assert said in done.err


def test_a_torn_last_line_is_judged_again(annotate_cli, runs, tmp_path):
    args = (runs(3), "--rubric", "symptoms", "--out", "out")
    annotate_cli(*args)
    file = tmp_path / "out" / "annotations.jsonl"
    whole = file.read_bytes()
    for cut in (1, 40, len(whole) // 2, len(whole)):
        for zeros in (0, 9):  # after a crash of the machine
            file.write_bytes(whole[:-cut] + bytes(zeros))
            assert annotate_cli(*args, "--resume").code == 0
            assert sorted(without_time(file)) == sorted(without_time_of(whole))


def test_a_damaged_line_is_named_and_nothing_is_overwritten(annotate_cli, runs, tmp_path):
    args = (runs(3), "--rubric", "symptoms", "--out", "out")
    annotate_cli(*args)
    file = tmp_path / "out" / "annotations.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    lines[1] = b'{"trace_id": 1}\n'
    file.write_bytes(b"".join(lines))
    done = annotate_cli(*args, "--resume")
    assert done.code == 2
    assert "annotations.jsonl, line 2" in done.err
    assert file.read_bytes() == b"".join(lines)


def test_a_line_too_many_is_named_before_anything_is_judged(annotate_cli, runs, tmp_path):
    args = (runs(3), "--rubric", "symptoms", "--out", "out")
    annotate_cli(*args)
    file, manifest = tmp_path / "out" / "annotations.jsonl", tmp_path / "out" / "run.json"
    lines, before = file.read_bytes().splitlines(keepends=True), manifest.read_bytes()
    file.write_bytes(b"".join([*lines[:2], lines[0]]))
    done = annotate_cli(*args, "--resume")
    assert (done.code, "annotations.jsonl, line 3: " in done.err) == (2, True)
    assert "has a second annotation by symptoms" in done.err
    assert manifest.read_bytes() == before
    file.write_bytes(b"".join(lines[:2]))
    assert annotate_cli(*args, "--resume").code == 0


@pytest.mark.parametrize(
    "overhead",
    [{"calls": "x"}, {"coins": 1}, {"cost_usd": -1.0}, {"cost_usd": math.inf}],
    ids=["text", "newer", "negative", "infinite"],
)
def test_what_was_used_before_is_read_or_refused_in_words(annotate_cli, runs, tmp_path, overhead):
    args = (str(runs(2)), "--rubric", "symptoms", "--out", "out")
    annotate_cli(*args)
    file = tmp_path / "out" / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"overhead": overhead}))
    lines = (tmp_path / "out" / "annotations.jsonl").read_bytes()
    done = annotate_cli(*args, "--resume")
    assert (done.code, done.out) == (2, "")
    assert re.search("run.json: .*overhead", done.err)
    assert (tmp_path / "out" / "annotations.jsonl").read_bytes() == lines


def test_resume_needs_a_run(annotate_cli, runs):
    logs = runs(1)
    done = annotate_cli(logs, "--rubric", "symptoms", "--resume")
    assert (done.code, "--out" in done.err) == (2, True)
    done = annotate_cli(logs, "--rubric", "symptoms", "--resume", "--out", "nothing")
    assert (done.code, "not a run directory" in done.err) == (2, True)


def without_time(file: Path) -> list[str]:
    return without_time_of(file.read_bytes())


def without_time_of(data: bytes) -> list[str]:
    """The annotations without the seconds they took."""
    lines = []
    for line in data.decode().splitlines():
        value = json.loads(line)
        value["usage"].pop("seconds")
        lines.append(json.dumps(value))
    return lines


def without_usage(file: Path) -> list[str]:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return [json.dumps({**line, "usage": None}) for line in lines]


def start(*arguments: object, cwd: Path, **more: object) -> subprocess.Popen[str]:
    # No module cut short for all time, where files may not grow.
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "annotator", *map(str, write_judge_file(arguments, cwd))]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=cwd, env=env, **pipes, **more)


def wait_for_lines(file: Path, count: int) -> None:
    until = time.monotonic() + 60
    while not (file.exists() and file.read_bytes().count(b"\n") >= count):
        assert time.monotonic() < until, f"{file} never had {count} lines"
        time.sleep(0.01)


def first(calls: int, server: Server) -> Responder:
    """Answer so many more calls; all others wait until whoever asks has been stopped."""
    last = server.calls + calls
    return lambda request: replace(RIGHT, together=99 if request.n > last else 0)


def test_a_stopped_run_goes_on_as_if_nothing_had_been(annotate_cli, runs, tmp_path):
    """Killed first, and stopped with Ctrl-C when it goes on."""
    logs = runs(40)
    stops = ((signal.SIGKILL, 5, 12, ()), (signal.SIGINT, 20, 25, ("--resume",)))
    with Server(lambda _: RIGHT) as server:
        args = (str(logs), "--rubric", "comm_errors", *llm(server, "--concurrency", "4"))
        assert annotate_cli(*args, "--out", "whole", "--no-cache").code == 0
        undisturbed = server.calls
        file = tmp_path / "out" / "annotations.jsonl"
        for signal_, lines, calls, more in stops:
            server.responder = first(calls, server)
            process = start(*args, "--out", "out", *more, cwd=tmp_path)
            wait_for_lines(file, lines)
            process.send_signal(signal_)
            _, err = process.communicate(timeout=30)
        assert process.returncode == 130, err
        assert "--resume" in err
        assert "Traceback" not in err
        manifest = json.loads((tmp_path / "out" / "run.json").read_text())
        assert manifest["status"] == "interrupted"
        server.responder = lambda _: RIGHT
        done = annotate_cli(*args, "--out", "out", "--resume")
        repeated = server.calls - undisturbed - undisturbed
    assert done.code == 0, done.err
    # An answer that came before the kill and was not yet recorded costs nothing the second time.
    assert sorted(without_usage(file)) == sorted(
        without_usage(tmp_path / "whole" / "annotations.jsonl")
    )
    assert repeated <= 2 * 4  # at most the calls in flight at each stop


def test_the_cost_of_a_run_that_was_killed_is_a_lower_bound(annotate_cli, runs, tmp_path):
    with Server(lambda _: RIGHT) as server:
        prices = ("--price-in", "1", "--price-out", "1")
        args = (str(runs(3)), "--rubric", "comm_errors", *llm(server, *prices), "--out", "out")
        assert "at least $" not in annotate_cli(*args).err
        manifest, log = tmp_path / "out" / "run.json", tmp_path / "out" / "annotations.jsonl"
        manifest.write_text(manifest.read_text().replace('"finished"', '"running"'))
        log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
        done = annotate_cli(*args, "--resume")
        assert (done.code, "at least $" in done.err, server.calls) == (0, True, 3 + 1), done.err
    assert json.loads(manifest.read_text())["totals"]["unreported_calls"] == 1


def test_two_processes_cannot_write_one_run(annotate_cli, runs, tmp_path):
    args = (runs(2), "--rubric", "symptoms", "--out", "out")
    annotate_cli(*args)
    with LineLog(tmp_path / "out" / "annotations.jsonl"):  # as another process holds it
        done = annotate_cli(*args, "--resume")
    assert (done.code, "another process is writing" in done.err) == (2, True)
    assert annotate_cli(*args, "--resume").code == 0


def test_a_full_disk_is_one_line_and_the_run_can_go_on(annotate_cli, runs, tmp_path):
    args = (runs(30), "--rubric", "symptoms", "--out", "out")
    with limit_file_size(8192):
        done = annotate_cli(*args)
    assert (done.code, done.out) == (2, "")
    assert "cannot write out/annotations.jsonl: File too large" in done.err
    assert "go on with --resume" in done.err
    data = (tmp_path / "out" / "annotations.jsonl").read_bytes()
    assert data.endswith(b"\n")
    kept = data.count(b"\n")
    assert 0 < kept < 30
    assert annotate_cli(*args, "--resume").code == 0
    assert len(annotations(tmp_path / "out")) == 30


def test_a_run_whose_folder_is_gone_ends_in_words_and_closes_its_judge(
    annotate_cli, runs, tmp_path, monkeypatch
):
    closed = []

    async def close(judge: LLMJudge) -> None:
        closed.append(judge)
        await closing(judge)

    def responder(_: Request) -> Reply:
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        return NOTHING

    closing = LLMJudge.close
    monkeypatch.setattr(LLMJudge, "close", close)
    with Server(responder) as server:
        done = annotate_cli(runs(1), "--rubric", "comm_errors", "--out", "out", *llm(server))
    assert (done.code, len(closed)) == (2, 1)
    assert done.err.endswith("cannot write out/run.json: No such file or directory\n")


def empty(file: Path) -> None:
    os.truncate(file, 0)


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 1)


def drop(file: Path) -> None:
    file.unlink()


def write_anew(file: Path) -> None:
    shutil.copy(file, file.with_suffix(".new"))
    file.with_suffix(".new").replace(file)


@pytest.mark.parametrize(
    ("change", "last"),
    [(empty, False), (cut, False), (write_anew, False), (empty, True), (cut, True), (drop, True)],
)
def test_a_run_whose_lines_another_program_changes_does_not_finish(
    annotate_cli, runs, tmp_path, monkeypatch, change, last
):
    def append(run: RunDirectory, annotation: Annotation) -> None:
        appending(run, annotation)
        if sum(run.counts.values()) == (4 if last else 2):
            change(run.folder / "annotations.jsonl")

    appending = RunDirectory.append
    args = (runs(4), "--rubric", "symptoms", "--out", "out")
    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "append", append)
        done = annotate_cli(*args)
    assert (done.code, done.out) == (2, "")
    assert "out/annotations.jsonl" in done.err.splitlines()[-1]
    assert json.loads((tmp_path / "out" / "run.json").read_text())["status"] == "stopped"
    assert annotate_cli(*args, "--resume").code == 0
    assert len(annotations(tmp_path / "out")) == 4


def bad_folder(tmp_path: Path, name: str, content: bytes) -> Path:
    folder = tmp_path / "traces"
    folder.mkdir()
    (folder / name).write_bytes(content)
    return folder


BAD_INPUT: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty folder": (lambda tmp: (tmp / "empty").mkdir() or tmp / "empty", "no traces in"),
    "missing folder": (lambda tmp: tmp / "nowhere", "no such file or folder"),
    "no match": (lambda tmp: str(tmp / "*.jsonl"), "no file matches"),
    "broken JSON": (lambda tmp: bad_folder(tmp, "a.json", b'{"messages": ['), "not valid JSON"),
    "not a trace": (lambda tmp: bad_folder(tmp, "a.json", b'{"a": 1}'), "not a trace"),
    "no such data set": (lambda tmp: "hf://nobody/nothing", "hf://nobody/nothing"),
}


@pytest.mark.parametrize(("make", "said"), BAD_INPUT.values(), ids=BAD_INPUT)
def test_unreadable_input_is_one_line_and_exit_code_2(annotate_cli, tmp_path, make, said):
    done = annotate_cli(make(tmp_path), "--rubric", "comm_errors", "--out", "out")
    assert (done.code, done.out) == (2, "")
    errors = [line for line in done.err.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1
    assert said in errors[0]


USAGE = {
    "unknown rubric": (("--rubric", "symptom"), "did you mean symptoms or"),
    "rubric twice": (("--rubric", "symptoms", "--rubric", "symptoms"), "two rubrics have the id"),
    "no rules for it": (("--rubric", "causes"), "no rules for"),
    "llm without model": (("--rubric", "symptoms", "--judge", "llm"), "needs --model"),
    "unknown option": (("--rubric", "symptoms", "--nonsense"), "--nonsense"),
    "unknown format": (("--rubric", "symptoms", "--format", "xml"), "xml"),
    "no key": (("--rubric", "symptoms", "--model", "m"), "no API key"),
}


@pytest.mark.parametrize(("arguments", "said"), USAGE.values(), ids=USAGE)
def test_wrong_usage_is_exit_code_2_and_leaves_nothing(
    annotate_cli, runs, tmp_path, arguments, said
):
    done = annotate_cli(runs(1), "--out", "out", *arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert not (tmp_path / "out").exists()


def test_no_permission_to_write(annotate_cli, runs, tmp_path):
    (tmp_path / "file").write_text("")
    done = annotate_cli(runs(1), "--rubric", "symptoms", "--out", "file/out")
    assert done.code == 2
    assert "cannot write in" in done.err


def test_where_a_run_cannot_begin_there_is_nothing_to_go_on_with(
    annotate_cli, runs, tmp_path, monkeypatch
):
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    done = annotate_cli(runs(1), "--rubric", "symptoms", "--out", "out")
    assert (done.code, "No space left on device" in done.err) == (2, True)
    assert "--resume" not in done.err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_can_be_read_again_is_no_failure_any_more(
    annotate_cli, runs, tmp_path, monkeypatch
):
    args = (runs(3), "--rubric", "symptoms", "--out", "out")
    hidden = str((tmp_path / run_name(2)).parent)
    scan = os.scandir

    def refuse(place: str) -> object:  # root may read any folder, so not by its mode
        if str(place) == hidden:
            raise PermissionError(13, "Permission denied", hidden)
        return scan(place)

    with monkeypatch.context() as patch:
        patch.setattr("os.scandir", refuse)
        assert annotate_cli(*args).code == 1
    assert annotate_cli(*args, "--resume").code == 0
    assert len(annotations(tmp_path / "out")) == 3


UNKNOWN = {"mas_name": "Novel", "trace_id": 1, "trace": "A log that nobody can split."}
PERSON = {"mas_name": "Novel", "trace_id": 2, "trace": [{"role": "user", "content": "Hi."}]}


@pytest.mark.parametrize(
    ("rubric", "trace", "status", "reason"),
    [  # mast needs one agent and takes quotes of tools, who_and_when only those of agents
        ("mast", UNKNOWN, "none", None),
        (
            "comm_errors",
            UNKNOWN,
            "undecided",
            "0 agents, the rubric needs 2 (authors unknown: see annotate traces)",
        ),
        (
            "who_and_when",
            UNKNOWN,
            "undecided",
            "no agent is known, the rubric quotes only agents"
            " (authors unknown: see annotate traces)",
        ),
        ("mast", PERSON, "skipped", "0 agents, the rubric needs 1"),
    ],
)
def test_unknown_authors_may_be_agents(rubric, trace, status, reason, annotate_cli, tmp_path):
    (tmp_path / "log.jsonl").write_text(json.dumps(trace))
    with Server(lambda request: NOTHING) as server:
        done = annotate_cli("log.jsonl", "--rubric", rubric, "--out", "out", *llm(server))
    [found] = annotations(tmp_path / "out").values()
    assert (found.status, found.reason) == (status, reason)
    assert done.code == (status != "none")
    assert (f"1 of 1 {status}: {reason}" in done.err) == (status != "none")
    assert (" that were judged all the same" in done.err) == (status == "none")


def test_null_fields_and_double_ids_are_listed(annotate_cli, tmp_path):
    records = [
        {"id": "a", "messages": [{"from": None, "message": None}, {"from": "x", "message": "Hi"}]},
        {"id": "a", "messages": [{"from": "x", "message": "Other"}]},
    ]
    lines = "\n".join(map(json.dumps, records))
    (tmp_path / "all.jsonl").write_text(lines)
    done = annotate_cli("all.jsonl", "--rubric", "comm_errors", "--out", "out")
    assert done.code == 1
    assert "message 1 has no text" in done.err
    assert "a second trace with the id 'a'" in done.err
    found = annotations(tmp_path / "out")
    second = f"a [{tmp_path}/all.jsonl:2]"
    assert {key[0]: one.status for key, one in found.items()} == {
        "a": "undecided",  # one agent is known; who wrote the other message is not
        second: "failed",
    }


def test_hostile_names_do_not_reach_the_terminal(annotate_cli, tmp_path):
    evil = "\x1b[2J\x1b]0;owned\x07\u202eevil"
    record = {"id": evil, "messages": [{"from": evil, "message": None}], "attributes": {evil: 1}}
    (tmp_path / "a.jsonl").write_text(json.dumps(record) + "\n{broken\n")
    done = annotate_cli("a.jsonl", "--rubric", "comm_errors", "--out", "out")
    seen = annotate_cli("traces", "a.jsonl", "--list")
    (tmp_path / "a.json").write_text(json.dumps({"\x1b[2Jkey\u202e\nnext": 1}))
    error = annotate_cli("a.json", "--rubric", "comm_errors", "--out", "out2")
    assert (error.code, error.err.count("\n")) == (2, 2)
    for text in (done.out, done.err, seen.out, seen.err, error.err):
        assert "\x1b" not in text
        assert "\u202e" not in text


def test_a_smaller_limit_is_refused(annotate_cli, runs):
    args = (runs(4), "--rubric", "symptoms", "--out", "out")
    annotate_cli(*args, "--limit", "3")
    smaller = annotate_cli(*args, "--resume", "--limit", "2")
    assert (smaller.code, "had --limit 3" in smaller.err) == (2, True)
    assert "3 of 3 traces" in annotate_cli(*args, "--resume", "--limit", "3").out
    assert "4 of 4 traces" in annotate_cli(*args, "--resume").out
    limited = annotate_cli(*args, "--resume", "--limit", "4")
    assert (limited.code, "had no --limit" in limited.err) == (2, True)


def test_failures_that_are_not_reached_again_come_back(annotate_cli, runs, tmp_path):
    """A resume that stops early keeps old failures, and what every attempt has cost."""
    answers = {"now": Reply(status=500)}

    def responder(request: Request) -> Reply:
        return answers["now"]

    args = (runs(3), "--rubric", "comm_errors", "--out", "out")
    with Server(responder) as server:
        more = llm(server, "--concurrency", "1", *set_model(mode="tools", attempts=1))
        assert annotate_cli(*args, *more).code == 1
        assert statuses(tmp_path / "out") == {"failed": 3}
        answers["now"] = Reply(status=401)
        assert annotate_cli(*args, *more, "--resume").code == 2
        assert statuses(tmp_path / "out") == {"failed": 3}
        answers["now"] = RIGHT
        assert annotate_cli(*args, *more, "--resume").code == 0
        manifest = json.loads((tmp_path / "out" / "run.json").read_text())
        assert manifest["totals"]["calls"] == server.calls
    assert statuses(tmp_path / "out") == {"labelled": 3}


def test_a_relative_source_is_not_another_one_elsewhere(annotate_cli, tmp_path, monkeypatch):
    for place in ("a", "b"):
        write_run(tmp_path / place / run_name(1))
    monkeypatch.chdir(tmp_path / "a")
    out = tmp_path / "out"
    assert annotate_cli("logs", "--rubric", "symptoms", "--out", out).code == 0
    monkeypatch.chdir(tmp_path / "b")
    done = annotate_cli("logs", "--rubric", "symptoms", "--out", out, "--resume")
    assert (done.code, "cannot be resumed" in done.err) == (2, True)
    monkeypatch.chdir(tmp_path / "a")
    again = annotate_cli(tmp_path / "a" / "logs", "--rubric", "symptoms", "--out", out, "--resume")
    assert again.code == 0


def test_ctrl_c_is_heard_while_nothing_is_judged(tmp_path):
    record = {"messages": [{"from": "a", "message": "x"}], "attributes": {"passed": True}}
    line = json.dumps(record) + "\n"
    (tmp_path / "all.jsonl").write_text(line * 60_000)
    args = ("all.jsonl", "--rubric", "symptoms", "--out", "out")
    process = start(*args, cwd=tmp_path)
    wait_for_lines(tmp_path / "out" / "annotations.jsonl", 50)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    kept = (tmp_path / "out" / "annotations.jsonl").read_bytes().count(b"\n")
    assert process.returncode == 130
    assert kept < 60_000


ALWAYS = {
    "refusal": Reply(refusal="I will not."),
    "empty": Reply(text=""),
    "malformed": Reply(text='{"findings": [{'),
    "overflow": Reply(
        status=400, error={"message": "too many tokens", "code": "context_length_exceeded"}
    ),
}


@pytest.mark.parametrize("reply", ALWAYS.values(), ids=ALWAYS)
def test_an_endpoint_that_only_does_this_fails_every_trace(annotate_cli, runs, tmp_path, reply):
    """Whatever it is asked, also when the form of answers is sought: failed, and never none."""
    with Server(lambda _: reply, probe=lambda _: reply) as server:
        done = annotate_cli(runs(3), "--rubric", "comm_errors", "--out", "out", *llm(server))
    assert (done.code, statuses(tmp_path / "out")) == (1, {"failed": 3}), done.err
    assert all(one.error for one in annotations(tmp_path / "out").values())
    assert "0 of 3 traces judged (3 failed)." in done.out
