"""The main job with the rules judge: time for the real runs, memory against the number of traces.

    python bench/main_job.py [FOLDER]

FOLDER holds CooperBench run folders (default: ../shared/data/cooperbench/logs, else the examples).
Prints each figure with its ratio to the limit; all are measured in one run, in processes of their
own, the operating system's accounting of each.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
COPIES = 20
LIMIT_SECONDS = 20.0
LIMIT_GROWTH = 1.2


def run(folder: Path, out: Path) -> tuple[float, float]:
    """Judge all runs by symptoms; return seconds and peak megabytes of the process."""
    command = [sys.executable, "-m", "annotator", str(folder), "--rubric", "symptoms", "--quiet"]
    begun = time.perf_counter()
    process = subprocess.Popen(
        [*command, "--out", str(out)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    return time.perf_counter() - begun, usage.ru_maxrss / 1024


def main() -> None:
    """Measure and print; the exit code is 1 if a limit is missed."""
    shared = ROOT.parent / "shared" / "data" / "cooperbench" / "logs"
    given = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    folder = given or (shared if shared.is_dir() else ROOT / "examples" / "traces" / "logs")
    runs = sum(1 for _ in folder.rglob("eval.json"))
    with tempfile.TemporaryDirectory() as place:
        tmp = Path(place)
        times = sorted(run(folder, tmp / f"out{n}") for n in range(5))
        seconds, memory = times[2]
        ratio = seconds / LIMIT_SECONDS
        print(f"{runs} runs: {seconds:.2f} s (median of 5), {ratio:.2f} of the limit")
        many = tmp / "many" / "logs"
        for n in range(COPIES):
            shutil.copytree(folder, many / f"copy{n}", ignore=shutil.ignore_patterns("*_traj.json"))
        slower, more = run(many, tmp / "out-many")
        growth = more / memory
        print(f"{runs * COPIES} runs: {slower:.2f} s, {runs * COPIES / slower:.0f} runs a second")
        print(f"peak memory {memory:.0f} -> {more:.0f} MB: {growth:.2f}, limit {LIMIT_GROWTH}")
    sys.exit(seconds > LIMIT_SECONDS or growth > LIMIT_GROWTH)


if __name__ == "__main__":
    main()
