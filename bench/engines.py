"""Judging by engines against one process: throughput, CPU, kills, shards, memory.

The endpoint is the loopback server of bench/server.py; every section compares in one run.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from judging import ROOT, Bench, Server, check, missed

LATENCY, IN_FLIGHT = 0.2, 128
_SCHEDULER, _HEAD = "127.0.0.1:18786", "127.0.0.2:6399"
_QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def seconds_of(command: list[str], env: dict[str, str]) -> tuple[float, float]:
    """Run a command; return its seconds and its own CPU seconds."""
    begun = time.perf_counter()
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, command
    return time.perf_counter() - begun, usage.ru_utime + usage.ru_stime


def contents(out: Path) -> dict[str, Any]:
    """Return the annotations by trace, without what they used; each must be there once."""
    annotations: dict[str, Any] = {}
    for line in (out / "annotations.jsonl").open():
        value = json.loads(line)
        del value["usage"]
        assert value["trace_id"] not in annotations, f"{value['trace_id']} stands twice"
        annotations[value["trace_id"]] = value
    return annotations


class Engines(Bench):
    """A bench with clusters on this machine."""

    def run_engine(self, out: str, *more: str, runs: int) -> tuple[float, float]:
        """Judge anew; return seconds and the CPU seconds of the driver and what it waited for."""
        shutil.rmtree(self.folder / out, ignore_errors=True)
        (self.folder / f"{out}.sqlite").unlink(missing_ok=True)
        options = ("--concurrency", str(IN_FLIGHT), *more)
        return seconds_of(self.command(self.corpus(runs), out, *options), self.environment(out))

    def begin(self, out: str, *more: str, runs: int) -> subprocess.Popen[bytes]:
        """Begin to judge."""
        options = ("--concurrency", str(IN_FLIGHT), *more)
        command = self.command(self.corpus(runs), out, *options)
        return subprocess.Popen(
            command, env=self.environment(out), start_new_session=True, **_QUIET
        )

    def wait_for(self, requests: int) -> None:
        """Wait until the server has seen so many requests."""
        until = time.monotonic() + 120
        while self.server.stats()["requests"] < requests:
            assert time.monotonic() < until, "nothing is asked"
            time.sleep(0.02)


@contextmanager
def dask(bench: Engines, workers: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A scheduler and worker processes without nannies; yields the workers."""
    env = bench.environment("dask")
    host, port = _SCHEDULER.split(":")
    tool = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    with ExitStack() as stack:
        scheduler = [*tool, "--host", host, "--port", port, "--no-dashboard"]
        stack.callback(_kill, subprocess.Popen(scheduler, env=env, **_QUIET))
        processes = []
        for _ in range(workers):
            command = [sys.executable, "-m", "distributed.cli.dask_worker", f"tcp://{_SCHEDULER}"]
            command += ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", host]
            process = subprocess.Popen(command, env=env, start_new_session=True, **_QUIET)
            stack.callback(_kill, process)
            processes.append(process)
        _wait_for_port(_SCHEDULER)
        time.sleep(3)
        yield processes


@contextmanager
def ray(bench: Engines) -> Iterator[Path]:
    """A cluster of two nodes of one CPU each; yields the program that starts nodes."""
    env = bench.environment("ray") | {"RAY_AUTH_MODE": "disabled"}
    tool = Path(sys.executable).parent / "ray"
    common = ["--num-cpus", "1", "--disable-usage-stats"]
    head = ["start", "--head", "--node-ip-address", "127.0.0.2", "--port", "6399", *common]
    subprocess.run([tool, *head, "--include-dashboard", "false"], env=env, check=True, **_QUIET)
    other = ["start", "--address", _HEAD, "--node-ip-address", "127.0.0.3", *common]
    subprocess.run([tool, *other], env=env, check=True, **_QUIET)
    time.sleep(2)
    try:
        yield tool
    finally:
        subprocess.run([tool, "stop", "--force"], env=env, check=False, **_QUIET)


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _wait_for_port(address: str) -> None:
    import socket

    host, port = address.split(":")
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex((host, int(port))) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"nobody listens at {address}")


def _processes(*words: str) -> list[int]:
    """Return the processes whose command line has all the words."""
    pids = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = place.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if all(word in line for word in words):
            pids.append(int(place.parent.name))
    return pids


def throughput(bench: Engines, runs: int) -> None:
    """The same runs by one process, two processes, Dask and Ray, without faults."""
    ideal = runs * LATENCY / IN_FLIGHT
    print(f"throughput: {runs} runs, {LATENCY * 1000:.0f} ms, {IN_FLIGHT} in flight")
    print(f"  ideal {ideal:.1f} s")

    def measure(name: str, *more: str) -> float:
        bench.server.start(latency=LATENCY)
        seconds, cpu = bench.run_engine(name, *more, runs=runs)
        seen = bench.server.stats()
        print(
            f"  {name}: {seconds:.1f} s, {seconds / ideal:.2f} of ideal, most in flight"
            f" {seen['max_in_flight']}, {seen['requests']} calls, CPU of driver {cpu:.1f} s"
        )
        asked.append(seen["requests"])
        check(f"{name}: calls beyond those of one process", seen["requests"] - asked[0], 0.5)
        return seconds

    asked: list[int] = []
    local = measure("local")
    whole = contents(bench.folder / "local")
    times = {"processes": measure("processes", "--workers", "2")}
    with dask(bench, 2):
        times["dask"] = measure("dask", "--engine", "dask", "--address", f"tcp://{_SCHEDULER}")
    with ray(bench):
        times["ray"] = measure("ray", "--engine", "ray", "--address", _HEAD)
    for name, seconds in times.items():
        print(f"  {name} / local: {seconds / local:.2f}")
        same = contents(bench.folder / name) == whole
        check(f"{name}: annotations that differ from local", 0 if same else 1, 0.5)


def kills(bench: Engines, runs: int) -> None:
    """A worker and then a node killed in the middle; the driver killed, resumed otherwise."""
    print(f"kills: {runs} runs")
    bench.server.start(latency=LATENCY)
    bench.run_engine("whole", runs=runs)
    whole = contents(bench.folder / "whole")
    needed = bench.server.stats()["requests"]

    def finish(name: str, process: subprocess.Popen[bytes], what: str) -> None:
        assert process.wait(300) == 0, f"{what}: the driver ended with {process.returncode}"
        seen = bench.server.stats()
        print(f"  {what}: {seen['requests'] - needed} calls paid twice")
        same = contents(bench.folder / name) == whole
        check(f"{what}: annotations lost, twice or different", 0 if same else 1, 0.5)
        check(f"{what}: calls paid twice", seen["requests"] - needed, 2 * IN_FLIGHT)

    with dask(bench, 3) as workers:
        bench.server.start(latency=LATENCY)
        address = ("--engine", "dask", "--address", f"tcp://{_SCHEDULER}")
        process = bench.begin("dask-killed", *address, runs=runs)
        bench.wait_for(runs // 4)
        _kill(workers[0])
        bench.wait_for(runs // 2)
        _kill(workers[1])
        finish("dask-killed", process, "dask, two of three workers killed")
    with ray(bench):
        bench.server.start(latency=LATENCY)
        process = bench.begin("ray-killed", "--engine", "ray", "--address", _HEAD, runs=runs)
        bench.wait_for(runs // 4)
        for pid in _processes("ray::run_task")[:1]:
            os.kill(pid, signal.SIGKILL)
        bench.wait_for(runs // 2)
        for pid in _processes("127.0.0.3", "raylet"):
            os.kill(pid, signal.SIGKILL)
        finish("ray-killed", process, "ray, a worker and then a node killed")
    for first, second in (
        (("--workers", "2"), ()),
        ((), ("--workers", "2")),
        (("--engine", "dask", "--workers", "2"), ("--workers", "2")),
    ):
        name = "driver-killed"
        shutil.rmtree(bench.folder / name, ignore_errors=True)
        (bench.folder / f"{name}.sqlite").unlink(missing_ok=True)
        bench.server.start(latency=LATENCY)
        process = bench.begin(name, *first, runs=runs)
        bench.wait_for(runs // 2)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        time.sleep(1.5)
        again = bench.begin(name, *second, "--resume", runs=runs)
        finish(
            name,
            again,
            f"driver of {' '.join(first) or 'one process'} killed, resumed with"
            f" {' '.join(second) or 'one process'}",
        )


def shards(bench: Engines, runs: int) -> None:
    """Four shards as processes, two of them killed and resumed, then merged."""
    print(f"shards: {runs} runs in four")
    bench.server.start(latency=LATENCY)
    bench.run_engine("whole", runs=runs)
    needed = bench.server.stats()["requests"]
    bench.server.start(latency=LATENCY)
    chance = random.Random(5)
    processes = [bench.begin("shards", "--shard", f"{n}/4", runs=runs) for n in range(1, 5)]
    bench.wait_for(runs // 2)
    for process in processes[:2]:
        time.sleep(chance.uniform(0, 0.2))
        _kill(process)
    again = [bench.begin("shards", "--shard", f"{n}/4", "--resume", runs=runs) for n in (1, 2)]
    assert all(process.wait(300) == 0 for process in (*again, *processes[2:]))
    env = bench.environment("shards")
    tool = [sys.executable, "-m", "annotator"]
    subprocess.run([*tool, "merge", bench.folder / "shards"], env=env, check=True, **_QUIET)
    same = contents(bench.folder / "shards") == contents(bench.folder / "whole")
    check("annotations that differ from one run", 0 if same else 1, 0.5)
    print(f"  {bench.server.stats()['requests'] - needed} calls paid twice")
    ids = sorted(contents(bench.folder / "whole"))[:200]
    labels = bench.folder / "labels.jsonl"
    rows = [
        {"trace_id": name, "rubric": "symptoms", "annotator": "gold", "primary": "none"}
        for name in ids
    ]
    labels.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    printed = []
    for name in ("whole", "shards"):
        out = ["--out", str(bench.folder / f"{name}.json")]
        calibrate = [*tool, "calibrate", str(bench.folder / name), "--labels", str(labels), *out]
        held = subprocess.run(calibrate, env=env, check=True, capture_output=True, text=True).stdout
        report = [*tool, "report", str(bench.folder / name), "--calibration", out[1]]
        table = subprocess.run(report, env=env, check=True, capture_output=True, text=True).stdout
        printed.append(
            [
                line
                for line in (held + table).splitlines()
                if ".json" not in line and "look" not in line
            ]
        )
    check(
        "lines of calibrate and report that differ",
        sum(a != b for a, b in zip(*printed, strict=True)),
        0.5,
    )


def memory(bench: Engines, runs: int) -> None:
    """The rules judge in two processes over many generated traces: driver and workers."""
    del runs
    peaks = []
    for count in (10_000, 100_000):
        traces = bench.folder / f"many{count}.jsonl"
        with traces.open("w") as out:
            for n in range(count):
                talk = [
                    {"from": name, "to": "all", "text": f"{name} edits file {n} and says so."}
                    for name in ("ann", "bob", "ann")
                ]
                out.write(json.dumps({"id": f"t{n}", "messages": talk}) + "\n")
        command = [sys.executable, "-m", "annotator", str(traces), "--rubric", "comm_errors"]
        command += ["--judge", "rules", "--workers", "2", "--quiet"]
        command += ["--out", str(bench.folder / f"many{count}")]
        begun = time.perf_counter()
        process = subprocess.Popen(command, env=bench.environment("many"), **_QUIET)
        peak: dict[str, int] = {}
        while process.poll() is None:
            for pid in (process.pid, *_children(process.pid)):
                kind = "driver" if pid == process.pid else "worker"
                peak[kind] = max(peak.get(kind, 0), _resident(pid))
            time.sleep(0.2)
        seconds = time.perf_counter() - begun
        print(f"memory: {count} traces, {count / seconds:.0f} a second, peak MB {peak}")
        peaks.append(peak)
    for kind in ("driver", "worker"):
        check(f"memory of the {kind}, ten times the traces", peaks[1][kind] / peaks[0][kind], 1.35)


def _children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 >> 20
    except (OSError, IndexError):
        return 0


SECTIONS: dict[str, Callable[[Engines, int], None]] = {
    each.__name__: each for each in (throughput, kills, shards, memory)
}


def main() -> None:
    """Measure and print."""
    shared = ROOT.parent / "shared" / "data" / "cooperbench" / "logs"
    default = shared if shared.is_dir() else ROOT / "examples" / "traces" / "logs"
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--runs", type=Path, default=default)
    parser.add_argument("--count", type=int, default=2_000, help="runs that are judged")
    given = parser.parse_args()
    server = Server()
    try:
        with tempfile.TemporaryDirectory() as place:
            bench = Engines(Path(place), given.runs.resolve(), server)
            for name in given.sections or SECTIONS:
                SECTIONS[name](bench, given.count)
    finally:
        server.stop()
    print(f"missed: {', '.join(missed)}" if missed else "every limit is kept")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
