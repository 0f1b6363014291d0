"""Engines: what they judge is what one process would have judged, whatever is killed meanwhile."""

import asyncio
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from annotator import Claim, Quote, Trace, Verdict, judge_lines, llm, load_rubric, load_traces
from annotator.errors import AnnotatorError, UnreadableTrace
from annotator.runs.parts import PART, make_part_folder, read_part
from annotator.runs.tasks import Task, TaskTerms, run_task
from annotator.traces.lines import dump_trace, load_trace
from tests.conftest import EXAMPLES, ROOT, Done, set_model
from tests.openai_server import NOTHING, OpenAIServer, Reply, Request, finding
from tests.runs.test_shards import judgements

Cli = Callable[..., Done]
Runs = Callable[..., Path]


class Threads:
    """An engine for tests, in this process; its first ``broken`` tasks are lost."""

    broken = 0
    slots = 2

    def __init__(self, workers: int | None, address: str | None) -> None:
        self._pool = ThreadPoolExecutor(2)

    def submit(self, function: Callable[[Any], Any], task: Any) -> Future[Any]:
        if type(self).broken:
            type(self).broken -= 1
            return self._pool.submit(_die)
        return self._pool.submit(_pickled, pickle.dumps((function, task)))

    def close(self) -> None:
        self._pool.shutdown()


def _die() -> None:
    raise MemoryError("the worker is gone")


def _pickled(data: bytes) -> None:
    function, task = pickle.loads(data)
    function(task)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Threads]]:
    """The engine's class, with tasks of five traces."""
    monkeypatch.setattr("annotator.runs.distribute.TASK", 5)
    yield Threads
    Threads.broken = 0


ENGINE = ("--engine", f"{__name__}:Threads")


@pytest.mark.parametrize("rubrics", [("symptoms",), ("symptoms", "comm_errors")])
def test_an_engine_judges_as_one_process_does(
    annotate_cli: Cli, threads: object, tmp_path: Path, rubrics
) -> None:
    asked = [word for rubric in rubrics for word in ("--rubric", rubric)]
    whole = annotate_cli(EXAMPLES, *asked, "--out", "whole")
    done = annotate_cli(EXAMPLES, *asked, "--out", "out", *ENGINE)
    assert (done.code, done.out) == (whole.code, whole.out), done.err
    assert judgements(tmp_path / "out") == judgements(tmp_path / "whole")
    assert not (tmp_path / "out" / "parts").exists()


@pytest.mark.parametrize("workers", [("--workers", "2"), ("--engine", "processes")])
def test_processes(annotate_cli: Cli, runs: Runs, tmp_path: Path, workers) -> None:
    runs(7)
    with OpenAIServer() as server:
        model = ("--model", "m", "--base-url", server.url)
        assert annotate_cli("logs", "--rubric", "symptoms", *model, "--out", "w").code == 0
        args = ("--rubric", "symptoms", *model, "--no-cache", "--out", "out", *workers)
        done = annotate_cli("logs", *args)
        assert done.code == 0, done.err
        assert (len(server.seen), len(server.probes)) == (14, 2)
        sent = [json.dumps(request.body, sort_keys=True) for request in server.seen]
        assert sorted(sent[:7]) == sorted(sent[7:])  # with the same temperature, say
    totals = [
        json.loads((tmp_path / out / "run.json").read_text())["totals"] for out in ("w", "out")
    ]
    assert [total["calls"] for total in totals] == [8, 8]  # and the probe
    assert totals[0]["input_tokens"] == totals[1]["input_tokens"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dask", "ray"])
def test_clusters_of_this_machine(annotate_cli: Cli, tmp_path: Path, name) -> None:
    if not find_spec({"dask": "distributed"}.get(name, name)):
        pytest.skip(f"{name} is not installed here")
    program = [sys.executable, "-m", "annotator", str(EXAMPLES), "--rubric", "symptoms"]
    program += ["--out", "out", "--engine", name, "--workers", "2"]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(program, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert annotate_cli(EXAMPLES, "--rubric", "symptoms", "--out", "whole").out == done.stdout
    assert judgements(tmp_path / "out") == judgements(tmp_path / "whole")


def write_chats(folder: Path, count: int) -> None:
    """Conversations in which a person speaks, too."""
    folder.mkdir()
    for n in range(count):
        talk = [
            ("user", "u", "Ship it."),
            ("assistant", "a", f"It works {n}."),
            ("assistant", "b", "no"),
        ]
        messages = [{"role": role, "name": name, "content": text} for role, name, text in talk]
        (folder / f"{n}.json").write_text(json.dumps(messages))


@pytest.mark.parametrize("source", ["message:2", "message:99", "[step:a:1]"])
def test_an_engine_asks_and_says_what_one_process_does(
    annotate_cli: Cli, threads: object, tmp_path: Path, source: str
) -> None:
    """Whoever speaks, whatever source a model names, and by whatever name it answers."""
    write_chats(tmp_path / "chats", 7)
    answer = finding("C1a", (source, "It works")).answer
    with OpenAIServer(lambda request: Reply(answer=answer, more={"model": "another"})) as server:
        model = ("--model", "m", "--base-url", server.url, "--no-cache", *set_model(reasks=0))
        args = ("chats", "--rubric", "comm_errors", *model, "--out")
        whole, done = annotate_cli(*args, "whole"), annotate_cli(*args, "out", *ENGINE)
    assert (done.code, done.out) == (whole.code, whole.out), done.err
    assert done.err == whole.err.replace(" whole", " out")
    assert "answered by 'another' (7 answers)" in done.err
    assert judgements(tmp_path / "out") == judgements(tmp_path / "whole")
    learned = [json.loads((tmp_path / out / "run.json").read_text()) for out in ("whole", "out")]
    assert learned[0]["learned"] == learned[1]["learned"]


@pytest.mark.parametrize(("failing", "stops"), [(range(14, 19), False), (range(1, 31), True)])
def test_where_a_task_fails_the_run_is_stopped(
    annotate_cli: Cli,
    runs: Runs,
    threads: object,
    failing: range,
    stops: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs(30)
    monkeypatch.setattr("annotator.runs.distribute.TASK", 30)

    def responder(request: Request) -> Reply:
        fails = any(f"This was run {n}." in request.user for n in failing)
        return Reply(refusal=f"no {request.n}") if fails else NOTHING

    with OpenAIServer(responder) as server:
        model = ("--model", "m", "--base-url", server.url, *set_model(mode="strict"))
        done = annotate_cli("logs", "--rubric", "symptoms", *model, "--out", "out", *ENGINE)
    assert done.code == 1, done.err
    assert ("of the last 20 judgements" in done.err) == stops
    # At the stop up to three more are in flight: 8 calls at a time, for two slots.
    assert len(judgements(Path("out"))) in (range(20, 24) if stops else [30])


def test_a_worker_that_does_not_see_the_folder_asks_nothing(
    annotate_cli: Cli, runs: Runs, threads: type[Threads], monkeypatch
) -> None:
    runs(6)
    submit = Threads.submit
    monkeypatch.setattr(
        Threads,
        "submit",
        lambda self, do, task: submit(self, do, replace(task, folder=Path("elsewhere"))),
    )
    with OpenAIServer() as server:
        model = ("--model", "m", "--base-url", server.url, *set_model(mode="strict"))
        done = annotate_cli("logs", "--rubric", "symptoms", *model, *ENGINE, "--out", "out")
    assert done.code == 2
    assert "not on the machine of a worker" in done.err
    assert not server.seen


def test_calls_in_flight_are_of_all_tasks(
    annotate_cli: Cli, runs: Runs, threads: object, monkeypatch
) -> None:
    runs(4)
    monkeypatch.setattr("annotator.runs.distribute.TASK", 1)
    with OpenAIServer(lambda request: Reply(answer=NOTHING.answer, wait=0.2)) as server:
        model = ("--model", "m", "--base-url", server.url, *set_model(mode="strict"))
        args = ("logs", "--rubric", "symptoms", *model, *ENGINE, "--out", "out")
        assert annotate_cli(*args, "--concurrency", "1").code == 0
        assert server.most_in_flight == 1


def test_rates_are_of_all_tasks_of_a_worker(runs: Runs, tmp_path: Path) -> None:
    """A second of waiting stands between the calls of two tasks, too."""
    lines = [dump_trace(trace) for trace in load_traces(runs(2))]
    with OpenAIServer() as server:
        judge = llm("m", base_url=server.url, mode="strict", rpm=60)
        terms = TaskTerms((load_rubric("symptoms"),), judge)
        times = []
        for n, line in enumerate(lines):
            folder = make_part_folder(tmp_path, str(n))
            run_task(Task((line,), terms, folder, "the run"))
            times.append(time.monotonic())
    assert times[1] - times[0] > 0.9


def test_a_lost_task_is_done_again(annotate_cli: Cli, runs: Runs, threads: type[Threads]) -> None:
    runs(6)
    threads.broken = 2
    args = ("logs", "--rubric", "symptoms", *ENGINE, "--out")
    assert annotate_cli(*args, "out").code == 0
    threads.broken = 9
    done = annotate_cli(*args, "other")
    assert done.code == 2
    assert "begun 3 times and never ended: MemoryError: the worker is gone" in done.err


def test_what_stops_a_task_stops_the_run_and_is_gone_on_with(
    annotate_cli: Cli, runs: Runs, threads: object, tmp_path: Path
) -> None:
    runs(12)
    stop = True

    def responder(request: Request) -> Reply:
        return Reply(status=401) if stop and request.n > 8 else NOTHING

    with OpenAIServer(responder) as server:
        model = ("--model", "m", "--base-url", server.url, "--concurrency", "2")
        args = ("logs", "--rubric", "symptoms", *model, "--out", "out")
        done = annotate_cli(*args, *ENGINE)
        assert done.code == 2
        assert "401" in done.err
        assert 0 < len(judgements(tmp_path / "out")) < 12
        stop = False
        answered = len([request for request in server.seen if request.n <= 8])
        asked = len(server.seen)
        done = annotate_cli(*args, "--resume")  # without an engine
        assert done.code == 0, done.err
        assert len(server.seen) - asked == 12 - answered  # what tasks had been told is known
    assert len(judgements(tmp_path / "out")) == 12


def test_a_killed_driver_is_gone_on_with(runs: Runs, annotate_cli: Cli, tmp_path: Path) -> None:
    """SIGKILL in the middle: its workers end, the parts that are whole count, nothing is lost."""
    runs(30)
    with OpenAIServer(lambda request: Reply(answer=NOTHING.answer, wait=0.2)) as server:
        model = ["--model", "m", "--base-url", server.url, "--concurrency", "4"]
        args = ["logs", "--rubric", "symptoms", *model, "--out", "out"]
        program = [sys.executable, "-m", "annotator", *args, "--workers", "2"]
        env = os.environ | {"PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(program, cwd=tmp_path, env=env, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 60
        while len(server.seen) < 12 and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        time.sleep(1.5)  # its workers look every half second whether it is there
        done = annotate_cli(*args, "--resume")
        assert done.code == 0, done.err
        assert len(server.seen) <= 30 + 4
    assert len(judgements(tmp_path / "out")) == 30


def test_parts_that_a_killed_driver_left_are_put_into_the_run(
    annotate_cli: Cli, runs: Runs, threads: object, tmp_path: Path, monkeypatch
) -> None:
    runs(12)
    with OpenAIServer() as server:
        model = ("--model", "m", "--base-url", server.url)
        args = ("logs", "--rubric", "symptoms", *model, "--no-cache", "--out", "out")
        with monkeypatch.context() as patch:
            patch.setattr("annotator.runs.distribute.read_part", _stop)
            assert annotate_cli(*args, *ENGINE).code == 130
        parts = list((tmp_path / "out" / "parts").glob("*/part.jsonl"))
        assert parts
        waiting = len(parts) * 5
        damaged = shutil.copytree(parts[0].parent, parts[0].parent.with_name("again"))
        lines = (damaged / "part.jsonl").read_text()
        asked = len(server.seen)
        for spoiled in (
            "x" + lines,
            re.sub('"calls": [0-9]+', '"calls": "x"', lines, count=1),
            re.sub(r'"overhead": \{.*?\}', '"overhead": []', lines, count=1),
            "[" * 100_000,
        ):
            (damaged / "part.jsonl").write_text(spoiled)
            done = annotate_cli(*args, "--resume")
            assert done.code == 2
            assert f"{damaged.name}/part.jsonl: not a part of a run" in done.err
            assert f"move {damaged.relative_to(tmp_path)} away" in done.err
        (damaged / "part.jsonl").unlink()
        (damaged / "part.jsonl").symlink_to("nowhere")
        done = annotate_cli(*args, "--resume")
        assert (done.code, f"{damaged.name}/part.jsonl is not here" in done.err) == (2, True)
        (damaged / "part.jsonl").unlink()
        (damaged / "part.jsonl").write_text(lines)
        done = annotate_cli(*args, "--resume")
        assert done.code == 0, done.err
        assert len(server.seen) == asked + 12 - min(waiting, 12)
    assert len(judgements(tmp_path / "out")) == 12
    assert not (tmp_path / "out" / "parts").exists()


def test_a_part_has_no_line_beyond_the_limit(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("ANNOTATOR_MAX_MB", "1")
    (tmp_path / PART).write_bytes(b'{"overhead": {}}\n' + bytes(2 << 20))
    with pytest.raises(AnnotatorError, match=f"{PART}: a line of more than 1 MB"):
        read_part(tmp_path)


def test_a_pipe_in_the_place_of_parts_blocks_no_run(runs: Runs, tmp_path: Path) -> None:
    runs(1)
    (tmp_path / "out").mkdir()
    os.mkfifo(tmp_path / "out" / "parts")
    command = [sys.executable, "-m", "annotator", "logs", "--rubric", "symptoms", "--out", "out"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, timeout=60)


def test_parts_of_another_run_are_not_taken(
    annotate_cli: Cli, runs: Runs, threads: object, tmp_path: Path, monkeypatch
) -> None:
    runs(6)
    args = ("logs", "--rubric", "symptoms", "--out", "out", *ENGINE)
    with monkeypatch.context() as patch:
        patch.setattr("annotator.runs.distribute.read_part", _stop)
        assert annotate_cli(*args).code == 130
    for name in ("run.json", "annotations.jsonl"):
        (tmp_path / "out" / name).unlink()
    with OpenAIServer() as server:
        assert annotate_cli(*args, "--model", "m", "--base-url", server.url).code == 0
    values = judgements(tmp_path / "out").values()
    assert {value["judge"] for value in values} == {"llm:m"}


def _stop(folder: Path) -> None:
    raise KeyboardInterrupt


def test_money_is_leased(annotate_cli: Cli, runs: Runs, threads: object, tmp_path: Path) -> None:
    """A call costs .01; of 40 only 25 may be made, by tasks that do not know of each other."""
    runs(40)
    usage = {"prompt_tokens": 10_000, "completion_tokens": 0, "total_tokens": 10_000}
    with OpenAIServer(
        lambda request: Reply(answer=NOTHING.answer, more={"usage": usage})
    ) as server:
        prices = ("--price-in", "1", "--price-out", "1", *set_model(mode="strict"))
        model = ("--model", "m", "--base-url", server.url, *prices, "--concurrency", "2")
        args = ("logs", "--rubric", "symptoms", *model, "--out", "out")
        done = annotate_cli(*args, "--max-cost", "0.255", *ENGINE)
        assert done.code == 3, done.err
        assert 15 <= len(server.seen) <= 25
        spent = json.loads((tmp_path / "out" / "run.json").read_text())["totals"]["cost_usd"]
        assert spent == pytest.approx(0.01 * len(server.seen))
        done = annotate_cli(*args, "--max-cost", "1", "--resume", *ENGINE)
        assert done.code == 0, done.err
        assert len(server.seen) == 40
    totals = json.loads((tmp_path / "out" / "run.json").read_text())["totals"]
    assert totals["cost_usd"] == pytest.approx(0.4)


def test_a_small_task_is_not_out_of_money(annotate_cli: Cli, runs: Runs, threads: object) -> None:
    """What 21 cheap judgements cost is less than what is set aside for a first, long answer."""
    runs(21)
    usage = {"prompt_tokens": 5000, "completion_tokens": 5, "total_tokens": 5005}
    answer = Reply(answer=NOTHING.answer, more={"usage": usage})
    with OpenAIServer(lambda request: answer) as server:
        prices = (
            "--price-in",
            ".1",
            "--price-out",
            "4",
            "--max-cost",
            "100",
            *set_model(mode="strict"),
        )
        model = ("--model", "m", "--base-url", server.url, *prices)
        done = annotate_cli("logs", "--rubric", "symptoms", *model, "--out", "out", *ENGINE)
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--engine", "abacus"), "abacus"),
        (("--address", "tcp://127.0.0.1:1"), "name its --engine"),
        (("--engine", "processes", "--address", "here"), "by --engine dask or ray"),
        (("--workers", "2", "--shard", "1/2", "--out", "out"), "no shard"),
        (("--workers", "2", "--model", "m", "--batch-file", "b.jsonl"), "leave --batch"),
    ],
)
def test_wrong_usage(annotate_cli: Cli, runs: Runs, options, words) -> None:
    runs(1)
    done = annotate_cli("logs", "--rubric", "symptoms", *options)
    assert done.code == 2
    assert words in done.err
    assert "Traceback" not in done.err


# The pure function, and traces as lines


class Loud:
    """A judge from elsewhere, which finds what is said of the parser."""

    id, settings = "loud", {}

    def codes(self, rubric):
        return {code.id for code in rubric.codes}

    def judge(self, trace: Trace, rubric) -> Verdict:
        if "parser" not in trace.messages[0].text:
            return Verdict.none()
        quote = Quote(trace.messages[0].text, "message:1")
        return Verdict((Claim(rubric.codes[-1].id, "So.", (quote,)),))


def test_lines_in_lines_out(runs: Runs) -> None:
    traces = list(load_traces(runs(4)))
    rubrics = [load_rubric("emergent"), load_rubric("symptoms")]
    lines = judge_lines([dump_trace(trace) for trace in traces], rubrics, Loud())
    values = [json.loads(line) for line in lines]
    assert [(value["trace_id"], value["rubric"]) for value in values] == [
        (trace.id, rubric.id) for trace in traces for rubric in rubrics
    ]
    assert {value["judge"] for value in values} == {"loud"}
    assert pickle.loads(pickle.dumps(judge_lines)) is judge_lines
    assert judge_lines([], rubrics) == []
    line = dump_trace(traces[0])
    twice = [json.loads(each)["status"] for each in judge_lines([line, line], rubrics, Loud())]
    assert "failed" not in twice[:2]
    assert twice[2:] == ["failed", "failed"]


@pytest.mark.parametrize(
    ("line", "options", "words"),
    [
        ("{", (["symptoms"],), "not a line of JSON"),
        ("", ([],), "rubric: name one"),
        ("", (["symptoms"] * 2,), "rubric: name one"),
        (
            "",
            (["symptoms"], {"model": "m", "base_url": "http://127.0.0.1:9", "batch": True}),
            "at once",
        ),
    ],
)
def test_what_lines_are_not_judged_by(runs: Runs, line: str, options, words: str) -> None:
    line = line or dump_trace(load_traces(runs())[0])
    names, *judge = options
    with pytest.raises(AnnotatorError, match=words):
        judge_lines([line], [load_rubric(name) for name in names], *judge)


def test_lines_are_not_judged_within_an_event_loop(runs: Runs) -> None:
    line = dump_trace(load_traces(runs())[0])

    async def within() -> None:
        judge_lines([line], [load_rubric("symptoms")])

    with pytest.raises(AnnotatorError, match="an event loop is running here"):
        asyncio.run(within())


def test_a_trace_comes_back_as_it_was() -> None:
    for trace in load_traces(EXAMPLES, ROOT / "examples" / "formats"):
        back = load_trace(dump_trace(trace))
        assert back == trace
        assert (back.steps, back.tasks) == (trace.steps, trace.tasks)
        assert list(back.sources()) == list(trace.sources())
        with pytest.raises(UnreadableTrace, match="not sent along"):
            assert load_trace(dump_trace(trace, steps=False)).steps


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pyspark", "ray"])
def test_what_the_docs_say_of_other_engines(runs: Runs, tmp_path: Path, name) -> None:
    """The lines of docs/scaling.md as they stand there, but for folder and endpoint."""
    if not find_spec(name) or (name == "pyspark" and not shutil.which("java")):
        pytest.skip(f"{name}, or Java for it, is not installed here")
    runs(7)
    text = (ROOT / "docs" / "scaling.md").read_text()
    first, spark, ray = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    begin = {
        "pyspark": "import pandas\nfrom pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.master('local[2]').getOrCreate()\n" + spark,
        "ray": "import ray\nray.init(num_cpus=2, include_dashboard=False)\n" + ray,
    }
    env = {"RAY_AUTH_MODE": "disabled", "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    with OpenAIServer() as server:
        first = first.replace("http://host/v1", server.url).replace('"traces/"', '"logs"')
        program = [sys.executable, "-c", first + begin[name]]
        done = subprocess.run(
            program, cwd=tmp_path, env=os.environ | env, capture_output=True, text=True
        )
    assert done.returncode == 0, done.stderr
    lines = [
        line
        for part in tmp_path.glob("*-annotations/*")
        if part.name[0] not in "._"
        for line in part.read_text().splitlines()
    ]
    values = [json.loads(json.loads(line)["text"] if name == "ray" else line) for line in lines]
    assert sorted(value["trace_id"] for value in values) == sorted(
        trace.id for trace in load_traces(tmp_path / "logs")
    )
    assert {value["status"] for value in values} == {"none"}


@pytest.mark.parametrize("line", ["", "[]", "{}", '{"id": 3}', "[" * 99_999])
def test_what_is_no_line_of_ours(line: str) -> None:
    with pytest.raises(UnreadableTrace):
        load_trace(line)
