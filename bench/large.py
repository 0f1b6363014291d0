"""Large runs: time and peak memory of the commands.

    python -m bench.large [FOLDER]

judge: FOLDER holds CooperBench run folders (default: ../shared/data/cooperbench/logs, else the
examples). The rules judge gets all of them, five times, and then 20 copies of each.

The other commands get 100,000 annotations: those of the rules judge on the examples, repeated under
other ids and tasks. For a calibration, what it left undecided counts as none, as a judge that
decides would have it, and of 1,000 labels one in five disagrees.

Prints each figure with its ratio to the limit, of processes of their own by the operating system's
accounting; the exit code is 1 if a limit is missed.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
TRACES = ROOT / "examples" / "traces"
ANNOTATIONS, LABELS, COPIES = 100_000, 1_000, 20
VIEW = (
    "import sys; from annotator.runs.run import open_run;"
    " from annotator.web.reading import PageRequest; from annotator.web.view import View;"
    " View(PageRequest([open_run(sys.argv[1])]))"
)
LIMITS = {  # seconds, MB
    "calibrate": (6.0, 100.0),
    "report --calibration": (6.0, 100.0),
    "sample": (6.0, 150.0),
    "view": (60.0, 300.0),
}


def spend(*arguments: object) -> tuple[float, float]:
    """Run Python with arguments; return the seconds and the peak megabytes of the process."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, arguments
    return time.perf_counter() - begun, usage.ru_maxrss / 1024


def show(name: str, value: float, unit: str, limit: float) -> bool:
    """Print a figure with its ratio to its limit; return whether it is missed."""
    print(f"{name}: {value:.2f} {unit}, {value / limit:.2f} of the limit", flush=True)
    return value > limit


def judge(traces: Path, out: Path) -> tuple[float, float]:
    """Judge traces by symptoms; return the seconds and the peak megabytes."""
    return spend("-m", "annotator", traces, "--rubric", "symptoms", "--out", out, "--quiet")


def make(folder: Path, annotations: int = ANNOTATIONS, *, decided: bool = False) -> None:
    """Write a run of so many annotations: those of the examples again and again."""
    judge(TRACES, folder)
    file = folder / "annotations.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    with file.open("w") as out:
        for n in range(annotations):
            one, copy = dict(lines[n % len(lines)]), n // len(lines)
            if decided and one["status"] == "undecided":
                one |= {"status": "none", "reason": None}
            if copy:  # the first of each is of a trace that is there
                task = f"{one['attributes']['task']}-{copy % 40}"
                one["attributes"] = {**one["attributes"], "task": task, "number": n}
                one["trace_id"] = f"{copy}/{one['trace_id']}"
            out.write(json.dumps(one) + "\n")
    manifest = json.loads((folder / "run.json").read_text())
    manifest["totals"]["annotations"] = annotations
    for code in manifest["rubrics"][0]["codes"]:
        code["screen"] = code["screen"] and not decided
    (folder / "run.json").write_text(json.dumps(manifest))


def label(run: Path, labels: Path) -> None:
    """Label every fiftieth trace if it is judged; one in five otherwise than the judge."""
    rows: list[str] = []
    for n, line in enumerate((run / "annotations.jsonl").open()):
        one = json.loads(line)
        if n % (ANNOTATIONS // LABELS // 2) == 0 and one["status"] in ("labelled", "none"):
            primary = one["primary"] if len(rows) % 5 else "timing_dependency"
            row = {"trace_id": one["trace_id"], "rubric": one["rubric"], "primary": primary}
            rows.append(json.dumps({**row, "annotator": "bench"}) + "\n")
    assert len(rows) >= LABELS, f"only {len(rows)} labels"
    labels.write_text("".join(rows[:LABELS]))


def main() -> None:
    """Measure and print; the exit code is 1 if a limit is missed."""
    shared = ROOT.parent / "shared" / "data" / "cooperbench" / "logs"
    given = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    folder = given or (shared if shared.is_dir() else TRACES / "logs")
    runs = sum(1 for _ in folder.rglob("eval.json"))
    with tempfile.TemporaryDirectory() as place:
        tmp = Path(place)
        seconds, memory = sorted(judge(folder, tmp / f"out{n}") for n in range(5))[2]
        missed = show(f"judge, {runs} runs (median of 5)", seconds, "s", 20.0)
        for n in range(COPIES):
            copy, ignored = (
                tmp / "many" / "logs" / f"copy{n}",
                shutil.ignore_patterns("*_traj.json"),
            )
            shutil.copytree(folder, copy, ignore=ignored)
        slower, more = judge(tmp / "many" / "logs", tmp / "out-many")
        print(f"judge, {runs * COPIES} runs: {runs * COPIES / slower:.0f} a second")
        missed |= show(f"memory, {memory:.0f} -> {more:.0f} MB", more / memory, "times", 1.2)
        run, many, labels = tmp / "run", tmp / "view", tmp / "labels.jsonl"
        make(run, decided=True)
        label(run, labels)
        make(many)
        made, tool = run / "calibration.json", ("-m", "annotator")
        commands: dict[str, tuple[object, ...]] = {
            "calibrate": (*tool, "calibrate", run, "--labels", labels),
            "report --calibration": (*tool, "report", run, "--calibration", made),
            "sample": (*tool, "sample", run, "--out", tmp / "sheet.csv"),
            "view": ("-c", VIEW, many),
        }
        for name, command in commands.items():
            seconds, peak = spend(*command)
            missed |= show(name, seconds, "s", LIMITS[name][0])
            missed |= show(f"{name}, peak memory", peak, "MB", LIMITS[name][1])
    sys.exit(missed)


if __name__ == "__main__":
    main()
