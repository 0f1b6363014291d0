"""Engines: a run in shards is the run of one process, whatever is killed meanwhile."""

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
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import pytest

from annotator import Claim, Quote, Trace, Verdict, judge_lines, load_rubric, load_traces
from annotator.base.errors import AnnotatorError, UnreadableTrace
from annotator.traces.lines import dump_trace, load_trace
from tests.conftest import EXAMPLES, ROOT, set_model
from tests.runs.test_shards import judgements
from tests.server import NOTHING, Reply, Server, finding

STRICT = set_model(mode="strict")
USAGE = {"prompt_tokens": 10_000, "completion_tokens": 0, "total_tokens": 10_000}
CENT = Reply(answer=NOTHING.answer, more={"usage": USAGE})  # at a price of 1
PRICES = ("--price-in", "1", "--price-out", "1")


class Threads:
    """An engine for tests, in this process; its first ``broken`` shards are lost."""

    broken = 0
    slots = 2
    jobs: ClassVar[list[Any]] = []

    def __init__(self, workers: int | None, address: str | None) -> None:
        self._pool = ThreadPoolExecutor(2)

    def submit(self, function: Callable[[Any], Any], job: Any) -> Future[Any]:
        self.jobs.append(job)
        if type(self).broken:
            type(self).broken -= 1
            return self._pool.submit(_die)
        return self._pool.submit(_pickled, pickle.dumps((function, job)))

    def close(self) -> None:
        self._pool.shutdown()


def _die() -> None:
    raise MemoryError("the worker is gone")


def _pickled(data: bytes) -> object:
    function, job = pickle.loads(data)
    return function(job)


@pytest.fixture
def threads():
    yield Threads
    Threads.broken = 0
    Threads.jobs.clear()


ENGINE = ("--engine", f"{__name__}:Threads")
RULES = ("logs", "--rubric", "symptoms", "--out", "out")


@pytest.mark.parametrize("rubrics", [("symptoms",), ("symptoms", "comm_errors")])
def test_an_engine_judges_as_one_process_does(annotate_cli, threads, tmp_path, rubrics):
    options = [word for rubric in rubrics for word in ("--rubric", rubric)]
    whole = annotate_cli(EXAMPLES, *options, "--out", "whole")
    done = annotate_cli(EXAMPLES, *options, "--out", "out", *ENGINE)
    assert (done.code, done.out) == (whole.code, whole.out), done.err
    assert judgements(tmp_path / "out") == judgements(tmp_path / "whole")


@pytest.mark.parametrize("workers", [("--workers", "2"), ("--engine", "processes")])
def test_processes(annotate_cli, runs, tmp_path, workers):
    runs(7)
    with Server() as server:
        model = ("--model", "m", "--base-url", server.url, "--no-cache", *STRICT)
        for out, options in (("whole", ()), ("out", workers)):
            args = ("logs", "--rubric", "symptoms", *model, "--out", out, *options)
            assert annotate_cli(*args).code == 0
        sent = [json.dumps(request.body, sort_keys=True) for request in server.seen]
    assert len(sent) == 14
    assert sorted(sent[:7]) == sorted(sent[7:])
    totals = [
        json.loads((tmp_path / out / "run.json").read_text())["totals"] for out in ("whole", "out")
    ]
    assert [total["calls"] for total in totals] == [7, 7]
    assert totals[0]["input_tokens"] == totals[1]["input_tokens"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dask", "ray"])
def test_clusters_of_this_machine(annotate_cli, tmp_path, name):
    if not find_spec({"dask": "distributed"}.get(name, name)):
        pytest.skip(f"{name} is not installed here")
    program = [sys.executable, "-m", "annotator", str(EXAMPLES), "--rubric", "symptoms"]
    program += ["--out", "out", "--engine", name, "--workers", "2"]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(program, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert annotate_cli(EXAMPLES, "--rubric", "symptoms", "--out", "whole").raw == done.stdout
    assert judgements(tmp_path / "out") == judgements(tmp_path / "whole")


def test_an_engine_asks_and_says_what_one_process_does(annotate_cli, threads, tmp_path):
    """Also about a file that is no trace, and a model that answers by another name."""
    (tmp_path / "chats").mkdir()
    for n in range(7):
        talk = [
            ("user", "u", "Ship it."),
            ("assistant", "a", f"It works {n}."),
            ("user", "b", "no"),
        ]
        messages = [{"role": role, "name": name, "content": text} for role, name, text in talk]
        (tmp_path / "chats" / f"{n}.json").write_text(json.dumps(messages))
    (tmp_path / "chats" / "x.json").write_text("{}")
    answer = finding("C1a", ("message:2", "It works")).answer
    with Server(lambda request: Reply(answer=answer, more={"model": "another"})) as server:
        model = ("--model", "m", "--base-url", server.url, "--no-cache")
        model += set_model(reasks=0, mode="strict")
        args = (tmp_path / "chats", "--rubric", "comm_errors", *model, "--out")
        whole, done = annotate_cli(*args, "whole"), annotate_cli(*args, "out", *ENGINE)
    assert (done.code, done.out) == (whole.code, whole.out), done.err
    assert sorted(done.err.splitlines()) == sorted(whole.err.replace(" whole", " out").splitlines())
    assert "answered by 'another' (7 answers)" in done.err
    assert "1 file or record is not a trace" in done.err
    assert judgements(tmp_path / "out") == judgements(tmp_path / "whole")


def test_a_shard_that_always_fails_stops_and_the_others_end(annotate_cli, runs, threads, tmp_path):
    runs(60)
    with Server() as server:
        server.responder = lambda request: Reply(refusal=f"no {request.n}")
        args = (*RULES, "--model", "m", "--base-url", server.url, *STRICT, *ENGINE)
        done = annotate_cli(*args)
        assert done.code == 1, done.err
        assert "of the last 20 judgements failed" in done.err
        assert "0 of 2 shards finished" in done.out
        server.responder = lambda request: NOTHING
        assert annotate_cli(*args, "--resume").code == 0
    values = judgements(tmp_path / "out").values()
    assert [value["status"] for value in values] == ["none"] * 60


def test_failures_of_a_merged_run_are_judged_again(annotate_cli, runs, threads, tmp_path):
    runs(6)
    with Server() as server:
        failing = "This was run 3."
        server.responder = lambda request: (
            Reply(refusal="no") if failing in request.user else NOTHING
        )
        args = (*RULES, "--model", "m", "--base-url", server.url, *STRICT, *ENGINE)
        assert annotate_cli(*args).code == 1
        calls = len(server.seen)
        server.responder = lambda request: NOTHING
        assert annotate_cli(*args, "--resume").code == 0
        assert len(server.seen) == calls + 1
    assert {value["status"] for value in judgements(tmp_path / "out").values()} == {"none"}


def test_a_worker_that_does_not_see_the_folder_asks_nothing(
    annotate_cli, runs, threads, monkeypatch
):
    runs(6)
    submit = Threads.submit
    monkeypatch.setattr(
        Threads,
        "submit",
        lambda self, do, job: submit(self, do, replace(job, folder=Path("elsewhere"))),
    )
    with Server() as server:
        done = annotate_cli(*RULES, "--model", "m", "--base-url", server.url, *STRICT, *ENGINE)
        assert not server.seen
    assert done.code == 2
    assert "not on the machine of a worker" in done.err


def test_limits_are_of_all_shards(annotate_cli, runs, threads):
    runs(4)
    with Server() as server:
        limits = ("--rpm", "6000", "--tpm", "900000", "--max-cost", "4", "--concurrency", "5")
        args = (*RULES, "--model", "m", "--base-url", server.url, *STRICT, *PRICES)
        assert annotate_cli(*args, *ENGINE, *limits).code == 0
    judges = [job.options["judge"] for job in threads.jobs]
    shares = [(judge.rpm, judge.tpm, judge.max_cost) for judge in judges]
    assert shares == [(3000, 450_000, 2)] * 2
    assert [job.options["concurrency"] for job in threads.jobs] == [2, 2]


def test_one_call_in_flight_is_one_shard(annotate_cli, runs, threads):
    runs(4)
    with Server(lambda request: Reply(answer=NOTHING.answer, wait=0.2)) as server:
        args = (*RULES, "--model", "m", "--base-url", server.url, *STRICT, *ENGINE)
        assert annotate_cli(*args, "--concurrency", "1").code == 0
        assert server.most_in_flight == 1


def test_money_is_divided(annotate_cli, runs, threads, tmp_path):
    """A call costs .01; of 40 only 25 may be made, by shards that do not know of each other."""
    runs(40)
    with Server(lambda request: CENT) as server:
        model = ("--model", "m", "--base-url", server.url, *STRICT, *PRICES, "--concurrency", "2")
        args = (*RULES, *model, *ENGINE)
        done = annotate_cli(*args, "--max-cost", "0.255")
        assert done.code == 3, done.err
        assert "0 of 2 shards finished" in done.out
        assert 15 <= len(server.seen) <= 25
        done = annotate_cli(*args, "--max-cost", "2", "--resume")
        assert done.code == 0, done.err
        assert len(server.seen) == 40
    totals = json.loads((tmp_path / "out" / "run.json").read_text())["totals"]
    assert totals["cost_usd"] == pytest.approx(0.4)


def test_a_lost_shard_is_started_again(annotate_cli, runs, threads):
    runs(6)
    threads.broken = 2
    assert annotate_cli(*RULES, *ENGINE).code == 0
    threads.broken = 9
    done = annotate_cli("logs", "--rubric", "symptoms", "--out", "other", *ENGINE)
    assert done.code == 2
    assert "its worker died 3 times: MemoryError: the worker is gone" in done.err


@pytest.mark.parametrize("victim", ["driver", "worker", "Ctrl-C"])
def test_a_killed_process_is_gone_on_with(runs, annotate_cli, tmp_path, victim):
    runs(30)
    with Server(lambda request: Reply(answer=NOTHING.answer, wait=0.2)) as server:
        model = ["--model", "m", "--base-url", server.url, "--concurrency", "4"]
        args = [*RULES, *model, "--workers", "2"]
        env = os.environ | {"PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(
            [sys.executable, "-m", "annotator", *args],
            cwd=tmp_path,
            env=env,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        until = time.monotonic() + 60
        while len(server.seen) < 12 and time.monotonic() < until:
            time.sleep(0.02)
        if victim == "worker":
            os.kill(find_workers(process.pid)[0], signal.SIGKILL)
        else:
            process.send_signal(signal.SIGINT if victim == "Ctrl-C" else signal.SIGKILL)
        words = process.communicate()[1]
        assert process.returncode == {"driver": -9, "worker": 0, "Ctrl-C": 130}[victim], words
        if victim == "Ctrl-C":
            assert re.search(r"[1-9]\d* annotations are kept; go on with", words)
        time.sleep(1.5)  # its workers save their shards
        if victim != "worker":
            done = annotate_cli(*args, "--resume")
            assert done.code == 0, done.err
        assert len(server.seen) <= 30 + 4
    assert len(judgements(tmp_path / "out")) == 30


def find_workers(driver: int) -> list[int]:
    pids = Path(f"/proc/{driver}/task/{driver}/children").read_text().split()
    return [int(pid) for pid in pids if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]


def test_a_limit_is_of_all_traces(annotate_cli, runs, threads, tmp_path):
    runs(7)
    args = (*RULES[:-1], "whole", "--limit", "4")
    whole = annotate_cli(*args).out
    assert annotate_cli(*RULES, "--limit", "4", *ENGINE).out == whole
    assert judgements(tmp_path / "out") == judgements(tmp_path / "whole")
    assert "had --limit 4" in annotate_cli(*RULES, "--limit", "3", *ENGINE, "--resume").err
    for share in ("1/2", "2/2"):
        args = (*RULES[:-1], "shards", "--limit", "4", "--shard", share)
        assert annotate_cli(*args).code == 0
    assert annotate_cli("merge", "shards").out == whole


def test_which_runs_an_engine_goes_on_with(annotate_cli, runs, tmp_path):
    runs(6)
    assert annotate_cli(*RULES, "--shard", "1/2").code == 0  # the second is missing
    assert "add --resume" in annotate_cli(*RULES, *ENGINE).err
    done = annotate_cli(*RULES, "--resume")
    assert (done.code, "holds shards: go on with --workers" in done.err) == (2, True)
    assert "3 to judge" not in annotate_cli(*RULES, "--resume", "--dry-run").err
    done = annotate_cli(*RULES, "--resume", "--workers", "4")  # of two shards
    assert done.code == 0, done.err
    assert len(judgements(tmp_path / "out")) == 6
    assert annotate_cli(*RULES, "--resume").code == 0  # as one process, merged
    done = annotate_cli(*RULES, "--resume", *ENGINE)
    assert (done.code, "holds a run without shards" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--engine", "abacus"), "abacus"),
        (("--address", "tcp://127.0.0.1:1"), "name its --engine"),
        (("--engine", "processes", "--address", "here"), "by --engine dask or ray"),
        (("--workers", "2", "--shard", "1/2", "--out", "out"), "no shard"),
        (("--pilot", "2", "--workers", "2"), "--pilot cannot be combined with --limit"),
        (("--workers", "2", "--model", "m", "--batch-file", "b.jsonl"), "leave --batch"),
    ],
)
def test_wrong_usage(annotate_cli, runs, options, words):
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


def test_lines_in_lines_out(runs):
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
        ("", (["symptoms"] * 2,), "two rubrics have the id 'symptoms'"),
        (
            "",
            (["symptoms"], {"model": "m", "base_url": "http://127.0.0.1:9", "batch": True}),
            "at once",
        ),
    ],
)
def test_what_lines_are_not_judged_by(runs, line, options, words):
    line = line or dump_trace(load_traces(runs())[0])
    names, *judge = options
    with pytest.raises(AnnotatorError, match=words):
        judge_lines([line], [load_rubric(name) for name in names], *judge)


def test_lines_are_not_judged_within_an_event_loop(runs):
    line = dump_trace(load_traces(runs())[0])

    async def within() -> None:
        judge_lines([line], [load_rubric("symptoms")])

    with pytest.raises(AnnotatorError, match="an event loop is running here"):
        asyncio.run(within())


def test_a_trace_comes_back_as_it_was():
    for trace in load_traces(EXAMPLES, ROOT / "examples" / "formats"):
        back = load_trace(dump_trace(trace))
        assert back == trace
        assert (back.steps, back.tasks) == (trace.steps, trace.tasks)
        assert list(back.sources()) == list(trace.sources())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pyspark", "ray"])
def test_what_the_docs_say_of_other_engines(runs, tmp_path, name):
    """The lines of docs/howto/many-machines.md as they stand there, but for folder and endpoint."""
    if not find_spec(name) or (name == "pyspark" and not shutil.which("java")):
        pytest.skip(f"{name}, or Java for it, is not installed here")
    runs(7)
    text = (ROOT / "docs" / "howto" / "many-machines.md").read_text()
    first, spark, ray = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    begin = {
        "pyspark": "import pandas\nfrom pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.master('local[2]').getOrCreate()\n" + spark,
        "ray": "import ray\nray.init(num_cpus=2, include_dashboard=False)\n" + ray,
    }
    env = {"RAY_AUTH_MODE": "disabled", "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    with Server() as server:
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
def test_what_is_no_line_of_ours(line):
    with pytest.raises(UnreadableTrace):
        load_trace(line)
