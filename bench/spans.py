"""OTLP lines whose traces lie apart: memory and time of reading 100 MB against 1 GB.

    python bench/spans.py [MEGABYTES]

The spans of 500 traces at a time are written in turn. Prints megabytes a second, the time as a
multiple of parsing each line once, and peak memory, as ratios of one run; each reading is a process
of its own. Kept of a trace are its id and the places of its records, 16 bytes each: the exit code
is 1 if memory grows by more than 1,000 bytes a trace of 20 spans.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
TOGETHER = 500
SPANS = 20
WORDS = "the planner asks the coder to add a key and to say when it is done; " * 10
LIMIT_BYTES = 1000


def attribute(key: str, text: str) -> dict[str, object]:
    """Return an attribute of a span."""
    return {"key": key, "value": {"stringValue": text}}


def span(trace: int, n: int) -> str:
    """Return a line with the n-th span of a trace: a call of a model that says something new."""
    told = json.dumps([{"role": "user", "parts": [{"type": "text", "content": f"{n} {WORDS}"}]}])
    text = f"{trace} {n} {WORDS}"
    said = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": text}]}])
    fields = [
        attribute("gen_ai.operation.name", "chat"),
        attribute("gen_ai.input.messages", told),
        attribute("gen_ai.output.messages", said),
    ]
    times = {"startTimeUnixNano": f"{10**18 + n}", "endTimeUnixNano": f"{10**18 + n}"}
    value = {"traceId": f"{trace:032x}", "spanId": f"{n + 1:016x}", **times, "attributes": fields}
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [value]}]}]}) + "\n"


def write(file: Path, megabytes: int) -> int:
    """Write spans until the file has its size; return the number of traces."""
    traces = 0
    with file.open("w") as out:
        while out.tell() < megabytes * 1_000_000:
            for n in range(SPANS):
                out.writelines(span(traces + trace, n) for trace in range(TOGETHER))
            traces += TOGETHER
    return traces


def read(file: Path, traces: int) -> tuple[float, float]:
    """Read the file by the command; return its seconds and its peak memory in megabytes."""
    command = [sys.executable, "-m", "annotator", "traces", str(file), "--json"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    begun = time.perf_counter()
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        *_, last = process.stdout
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    summary = json.loads(last)["summary"]
    assert (summary["traces"], summary["messages"]) == (traces, traces * SPANS * 2), summary
    return time.perf_counter() - begun, usage.ru_maxrss / 1024


def main() -> None:
    """Measure and print."""
    large = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as place:
        memory, counts = [], []
        for megabytes in (large // 10, large):
            file = Path(place) / "spans.jsonl"
            traces = write(file, megabytes)
            seconds, peak = read(file, traces)
            begun = time.perf_counter()
            with file.open("rb") as lines:
                for line in lines:
                    json.loads(line)
            once = time.perf_counter() - begun
            memory.append(peak)
            counts.append(traces)
            print(
                f"{megabytes} MB, {traces} traces: {megabytes / seconds:.0f} MB a second,", end=""
            )
            print(f" {seconds / once:.1f} times one parsing, peak {peak:.0f} MB")
        growth = (memory[1] - memory[0]) * 2**20 / (counts[1] - counts[0])
        print(f"peak memory grows by {growth:.0f} bytes a trace, limit {LIMIT_BYTES}")
    sys.exit(growth > LIMIT_BYTES)


if __name__ == "__main__":
    main()
