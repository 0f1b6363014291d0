"""The llm judge against a loopback server: throughput, CPU, memory, cache, faults, kills, cost.

    python bench/judging.py [SECTION ...] [--runs FOLDER]

Sections (default: all): throughput, wide, cached, memory, faults, kills. FOLDER holds CooperBench
run folders (default: ../shared/data/cooperbench/logs, else the examples); they are replicated with
their patches and a word changed, so that no two prompts are equal. Every figure is printed with its
limit, all are measured in one go, each run in a process of its own; the exit code is 1 if a limit
is missed.
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PRICES = ("--price-in", "2", "--price-out", "8")
missed: list[str] = []


def check(what: str, value: float, limit: float, unit: str = "") -> None:
    """Print a figure, its limit and their ratio; note it if it is missed."""
    verdict = "ok" if value <= limit else "MISSED"
    print(f"  {what}: {value:.3g}{unit} (limit {limit:g}{unit}, {value / limit:.2f}) {verdict}")
    if value > limit:
        missed.append(what)


class Server:
    """The loopback server as a process of its own."""

    def __init__(self) -> None:
        command = [sys.executable, str(ROOT / "bench" / "server.py")]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        self.url = self._process.stdout.readline().split()[-1]

    def _call(self, path: str, value: Any = None) -> dict[str, Any]:
        data = None if value is None else json.dumps(value).encode()
        request = urllib.request.Request(f"{self.url}/{path}", data)
        with urllib.request.urlopen(request, timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def start(self, **settings: float) -> None:
        """Forget what was seen, and answer by these settings from now on."""
        faults = ("fault_429", "fault_500", "fault_drop", "fault_malformed", "fault_late")
        self._call("config", dict.fromkeys(faults, 0.0) | settings)
        self._call("reset", {})

    def stats(self) -> dict[str, Any]:
        """Return what was seen since."""
        return self._call("stats")

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()


class Bench:
    """A folder with corpora, caches and run directories."""

    def __init__(self, folder: Path, runs: Path, server: Server) -> None:
        self.folder, self.runs, self.server = folder, runs, server
        self.timeout = 120  # seconds for a call

    def corpus(self, count: int) -> Path:
        """Return a folder with ``count`` runs, no two of them equal."""
        top = self.folder / f"corpus{count}" / "logs"
        if top.exists():
            return top
        found = sorted(one.parent for one in self.runs.rglob("conversation.json"))
        for n in range(count):
            source = found[n % len(found)]
            target = top / f"copy{n // len(found)}" / source.relative_to(self.runs)
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("*_traj.json"))
            talk = target / "conversation.json"
            messages = json.loads(talk.read_bytes())
            if messages:
                messages[0]["message"] = f"{messages[0]['message']} ({n})"
            talk.write_text(json.dumps(messages))
        return top

    def command(self, traces: Path, out: str, *more: str) -> list[str]:
        """Return the command line of a run."""
        command = [sys.executable, "-m", "annotator", str(traces), "--rubric", "symptoms", "--all"]
        judge = self.folder / "judge.yaml"
        judge.write_text(f"{{mode: tools, timeout: {self.timeout}}}")
        command += ["--model", "bench", "--base-url", self.server.url, "--judge", str(judge)]
        return [*command, "--out", str(self.folder / out), "--quiet", *more]

    def environment(self, cache: str) -> dict[str, str]:
        """Return the environment of a run with its own cache of answers."""
        file = self.folder / f"{cache}.sqlite"
        own = {"PYTHONPATH": str(ROOT), "ANNOTATOR_CACHE": str(file)}
        # As where it is installed: modules compiled once and not at every start.
        own["PYTHONPYCACHEPREFIX"] = str(self.folder / "compiled")
        return {**os.environ, **own, "PYTHONDONTWRITEBYTECODE": ""}

    def run(
        self, traces: Path, out: str, *more: str, cache: str = ""
    ) -> tuple[float, float, float, dict[str, Any]]:
        """Judge; return seconds, CPU seconds and peak MB of the process, and run.json."""
        shutil.rmtree(self.folder / out, ignore_errors=True)
        begun = time.perf_counter()
        cpu, size = spend(self.command(traces, out, *more), self.environment(cache or out))
        seconds = time.perf_counter() - begun
        manifest = json.loads((self.folder / out / "run.json").read_text())
        return seconds, cpu, size, manifest


def spend(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Run a command; return the CPU seconds and the peak MB of its process."""
    # Not from a checkout: its modules would come before those of the environment.
    process = subprocess.Popen(
        command, env=environment, cwd=tempfile.gettempdir(), stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, "the run failed"
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def throughput(bench: Bench) -> None:
    """1,000 conversations, 200 ms, 64 in flight: time, CPU and memory, and a bare client loop."""
    one, many = bench.corpus(1), bench.corpus(1_000)
    for name, options in (("no cache", ("--no-cache",)), ("with the cache", ())):
        print(f"throughput: 1,000 runs, 200 ms, 64 in flight, {name}")
        bench.server.start(latency=0.2)
        fixed = sorted(bench.run(one, f"one{n}", *options)[1] for n in range(3))[1]
        bench.server.start(latency=0.2)
        more = ("--concurrency", "64", *options, *PRICES)
        seconds, cpu, memory, manifest = bench.run(many, "many", *more, cache=f"many {name}")
        seen = bench.server.stats()
        ideal = 1_000 * 0.2 / 64
        print(f"  whole process {seconds:.2f} s, CPU {cpu:.2f} s of it {fixed:.2f} s start-up")
        print(f"  most in flight {seen['max_in_flight']}, server CPU {seen['cpu_seconds']} s")
        check("judging phase / ideal", seen["span"] / ideal, 1.2)
        check("CPU per trace over start-up", (cpu - fixed) / 999 * 1000, 3.0, " ms")
        check("peak memory", memory, 200, " MB")
        billed = (seen["tokens_in"] * 2 + seen["tokens_out"] * 8) / 1e6
        check("cost shown - billed", abs(manifest["totals"]["cost_usd"] - billed), 0.005, " USD")
    print("a bare AsyncOpenAI loop over equally long prompts")
    size = seen["tokens_in"] * 4 // 1_000
    bench.server.start(latency=0.2)
    begun = time.process_time()
    asyncio.run(_bare(bench.server.url, 1_000, 64, "x" * size))
    span = bench.server.stats()["span"]
    print(f"  {span:.2f} s, {span / ideal:.2f} of ideal, CPU {time.process_time() - begun:.2f} s")


async def _bare(url: str, calls: int, concurrency: int, prompt: str) -> None:
    from openai import AsyncOpenAI

    room = asyncio.Semaphore(concurrency)
    async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:

        async def one(n: int) -> None:
            async with room:
                await client.chat.completions.create(
                    model="bench", messages=[{"role": "user", "content": f"{prompt} {n}"}]
                )

        await asyncio.gather(*(one(n) for n in range(calls)))


def wide(bench: Bench) -> None:
    """5,000 runs, 2 s, 512 in flight."""
    print("wide: 5,000 runs, 2 s, 512 in flight")
    traces = bench.corpus(5_000)
    bench.server.start(latency=2.0)
    seconds, cpu, memory, _ = bench.run(traces, "wide", "--concurrency", "512", "--no-cache")
    seen = bench.server.stats()
    print(f"  whole process {seconds:.2f} s, CPU {cpu:.2f} s, {memory:.0f} MB")
    print(f"  most in flight {seen['max_in_flight']}")
    check("judging phase / ideal", seen["span"] / (5_000 * 2 / 512), 1.15)


def cached(bench: Bench) -> None:
    """A second run of 1,000 whose answers are known."""
    print("cached: the second of two runs of 1,000")
    traces = bench.corpus(1_000)
    bench.server.start(latency=0.0)
    bench.run(traces, "first", "--concurrency", "64", cache="shared")
    bench.server.start()
    times = sorted(bench.run(traces, f"again{n}", cache="shared")[0] for n in range(5))
    print(f"  whole process {', '.join(f'{one:.2f}' for one in times)} s")
    check("median", times[2], 1.5, " s")
    check("calls", bench.server.stats()["requests"], 0.5)


def memory(bench: Bench) -> None:
    """Peak memory at 1,000 and at 20,000 runs."""
    print("memory: 1,000 and 20,000 runs, 64 in flight")
    few, many = bench.corpus(1_000), bench.corpus(20_000)
    bench.server.start(latency=0.05)
    more = ("--concurrency", "64")
    _, _, small, _ = bench.run(few, "few", *more)
    seconds, _, large, _ = bench.run(many, "lots", *more)
    print(f"  {small:.0f} -> {large:.0f} MB; {20_000 / seconds:.0f} runs a second")
    check("growth", large / small, 1.2)


FAULTS = {
    "fault_429": 0.1,
    "fault_500": 0.05,
    "fault_drop": 0.03,
    "fault_malformed": 0.05,
    "fault_late": 0.02,
}


def faults(bench: Bench) -> None:
    """1,000 runs while a quarter of the calls go wrong in five ways."""
    print("faults: 10 % 429, 5 % 500, 3 % dropped, 5 % malformed, 2 % after 3 x the timeout")
    traces = bench.corpus(1_000)
    bench.server.start(latency=0.2, late=3.0, retry_after=1.0, **FAULTS)
    bench.timeout = 1
    seconds, _, _, manifest = bench.run(traces, "faults", "--concurrency", "64", *PRICES)
    bench.timeout = 120
    seen, totals = bench.server.stats(), manifest["totals"]
    ids = _ids(bench.folder / "faults")
    print(f"  {seconds:.1f} s, {seen['requests']} calls, {totals['retries']} of them repeated")
    check("traces not judged", 1_000 - totals["none"] - totals["labelled"], 0.5)
    check("traces twice or lost", abs(len(ids) - 1_000) + abs(len(set(ids)) - 1_000), 0.5)
    check("calls shown - calls seen", abs(totals["calls"] - seen["requests"]), 0.5)


def kills(bench: Bench) -> None:
    """20 times kill -9 at a random moment of a run of 500, each followed by --resume."""
    for cache in ((), ("--no-cache",)):
        print(f"kills: 20 x kill -9 in a run of 500, 16 in flight {' '.join(cache)}")
        traces = bench.corpus(500)
        chance = random.Random(3)
        bench.server.start(latency=0.1)
        bench.run(traces, "whole", "--concurrency", "16", "--no-cache")
        bench.server.start(latency=0.1)
        out = "killed"
        shutil.rmtree(bench.folder / out, ignore_errors=True)
        lost = 0
        more: tuple[str, ...] = ("--concurrency", "16", *cache)
        for _ in range(20):
            command = bench.command(traces, out, *more)
            process = subprocess.Popen(
                command, env=bench.environment(out + "".join(cache)), stdout=subprocess.DEVNULL
            )
            before = bench.server.stats()["requests"]
            until = time.monotonic() + 30
            while bench.server.stats()["requests"] == before and time.monotonic() < until:
                time.sleep(0.01)
            time.sleep(chance.uniform(0.0, 0.3))
            lost += bench.server.stats()["in_flight"]
            process.send_signal(signal.SIGKILL)
            process.wait()
            if (bench.folder / out / "run.json").exists():
                more = ("--concurrency", "16", *cache, "--resume")
        subprocess.run(
            bench.command(traces, out, *more),
            env=bench.environment(out + "".join(cache)),
            stdout=subprocess.DEVNULL,
            check=True,
        )
        seen = bench.server.stats()
        same = _lines(bench.folder / out) == _lines(bench.folder / "whole")
        print(f"  {seen['requests']} calls, {lost} waiting at the server when it was killed")
        check("annotations that differ", 0 if same else 1, 0.5)
        check("calls repeated", seen["requests"] - 500, 20 * 16)


def _ids(out: Path) -> list[str]:
    return [json.loads(line)["trace_id"] for line in (out / "annotations.jsonl").open()]


def _lines(out: Path) -> list[str]:
    """Return the annotations without what they used."""
    found = []
    for line in (out / "annotations.jsonl").open():
        value = json.loads(line)
        del value["usage"]
        found.append(json.dumps(value))
    return sorted(found)


SECTIONS: dict[str, Callable[[Bench], None]] = {
    one.__name__: one for one in (throughput, wide, cached, memory, faults, kills)
}


def main() -> None:
    """Measure and print."""
    shared = ROOT.parent / "shared" / "data" / "cooperbench" / "logs"
    default = shared if shared.is_dir() else ROOT / "examples" / "traces" / "logs"
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--runs", type=Path, default=default)
    given = parser.parse_args()
    server = Server()
    try:
        with tempfile.TemporaryDirectory() as place:
            bench = Bench(Path(place), given.runs.resolve(), server)
            for name in given.sections or SECTIONS:
                SECTIONS[name](bench)
    finally:
        server.stop()
    print(f"missed: {', '.join(missed)}" if missed else "every limit is kept")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
