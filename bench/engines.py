"""Judging by engines against one process: throughput, CPU, and kills that --resume makes good.

The endpoint is the loopback server of bench/server.py; every section compares in one run.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from judging import Bench, check, run_sections

LATENCY, IN_FLIGHT, RUNS = 0.2, 128, 2_000
ENGINES = {
    "processes": ("--workers", "2"),
    "dask": ("--engine", "dask", "--workers", "2"),
    "ray": ("--engine", "ray", "--workers", "2"),
}


def contents(out: Path) -> dict[str, Any]:
    """Return the annotations by trace, without what they used; each must be there once."""
    annotations: dict[str, Any] = {}
    for line in (out / "annotations.jsonl").open():
        value = json.loads(line)
        del value["usage"]
        assert value["trace_id"] not in annotations, f"{value['trace_id']} is there twice"
        annotations[value["trace_id"]] = value
    return annotations


def begin(bench: Bench, out: str, *more: str) -> subprocess.Popen[bytes]:
    """Begin to judge, or go on."""
    if "--resume" not in more:
        shutil.rmtree(bench.folder / out, ignore_errors=True)
        (bench.folder / f"{out}.sqlite").unlink(missing_ok=True)
        bench.server.start(latency=LATENCY)
    command = bench.command(bench.corpus(RUNS), out, "--concurrency", str(IN_FLIGHT), *more)
    env = bench.environment(out) | {"RAY_AUTH_MODE": "disabled"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, env=env, **quiet)


def throughput(bench: Bench) -> None:
    """The same runs by one process and by each engine."""
    ideal = RUNS * LATENCY / IN_FLIGHT
    print(f"throughput: {RUNS} runs, {LATENCY * 1000:.0f} ms, {IN_FLIGHT} in flight")
    for name, options in {"local": (), **ENGINES}.items():
        begun = time.perf_counter()
        process = begin(bench, name, *options)
        _, status, usage = os.wait4(process.pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0, name
        seconds, seen = time.perf_counter() - begun, bench.server.stats()
        print(
            f"  {name}: {seconds:.1f} s, {seconds / ideal:.2f} of ideal, most in flight"
            f" {seen['max_in_flight']}, {seen['requests']} calls, CPU of the driver and the"
            f" processes that it waited for {usage.ru_utime + usage.ru_stime:.1f} s"
        )
        same = contents(bench.folder / name) == contents(bench.folder / "local")
        check(f"{name}: annotations that differ from local", 0 if same else 1, 0.5)


def kills(bench: Bench) -> None:
    """A worker or the driver killed at a random moment, and the run resumed if it did not end."""
    print(f"kills: {RUNS} runs")
    assert begin(bench, "whole").wait() == 0
    whole, calls = contents(bench.folder / "whole"), bench.server.stats()["requests"]
    chance = random.Random(5)
    for name, options in ENGINES.items():
        for victim in ("worker", "driver"):
            process = begin(bench, "killed", *options)
            after = chance.uniform(0.1, 0.9) * RUNS
            while bench.server.stats()["requests"] < after:
                assert process.poll() is None, "the run ended too early"
                time.sleep(0.02)
            workers = _descendants(process.pid, "spawn_main", "ray::judge_shard")
            os.kill(process.pid if victim == "driver" else chance.choice(workers), signal.SIGKILL)
            if code := process.wait(600):
                time.sleep(3)  # the workers save their shards
                code = begin(bench, "killed", *options, "--resume").wait(600)
            assert code == 0, f"{name}: exit code {code}"
            same = contents(bench.folder / "killed") == whole
            twice = bench.server.stats()["requests"] - calls
            check(f"{name}, {victim}: annotations lost, twice or different", not same, 0.5)
            check(f"{name}, {victim}: calls paid twice", twice, 2 * IN_FLIGHT)


def _descendants(pid: int, *words: str) -> list[int]:
    """Return the processes below one whose command line has one of the words."""
    found, waiting = [], [pid]
    while waiting:
        parent = waiting.pop()
        try:
            line = Path(f"/proc/{parent}/cmdline").read_text()
            for threads in Path(f"/proc/{parent}/task").glob("*/children"):
                waiting += map(int, threads.read_text().split())
        except OSError:
            continue
        found += [parent] if any(word in line for word in words) else []
    return found


if __name__ == "__main__":
    run_sections({"throughput": throughput, "kills": kills}, __doc__ or "")
