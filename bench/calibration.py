"""Calibrating a large run: 100,000 annotations, 1,000 labels; time and memory.

    python bench/calibration.py

The annotations are those of the rules judge on the examples, repeated under other ids and in tasks
of their own; what it left undecided counts as none, as a judge that decides would have it. A fixed
part of the labels disagrees with them. Prints each figure with its ratio to the limit, measured in
processes of their own by the operating system's accounting.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
ANNOTATIONS, LABELS = 100_000, 1_000
LIMIT_SECONDS = 6.0
LIMIT_MB = {"calibrate": 100.0, "report --calibration": 100.0, "sample": 150.0}


def annotate(*arguments: str) -> tuple[float, float]:
    """Run a command; return seconds and peak megabytes of the process."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "annotator", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, arguments
    return time.perf_counter() - begun, usage.ru_maxrss / 1024


def enlarge(run: Path) -> None:
    """Repeat the annotations of a run until there are many, each time with tasks of their own."""
    file = run / "annotations.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    with file.open("w") as out:
        for n in range(ANNOTATIONS):
            one = lines[n % len(lines)]
            if one["status"] == "undecided":
                one = {**one, "status": "none", "reason": None}
            copy = n // len(lines)
            task = f"{one['attributes']['task']}-{copy % 40}"
            attributes = {**one["attributes"], "task": task}
            one = {**one, "trace_id": f"{copy}/{one['trace_id']}", "attributes": attributes}
            out.write(json.dumps(one) + "\n")
    manifest = json.loads((run / "run.json").read_text())
    manifest["totals"]["annotations"] = ANNOTATIONS
    for code in manifest["rubrics"][0]["codes"]:
        code["screen"] = False
    (run / "run.json").write_text(json.dumps(manifest))


def label(run: Path, labels: Path) -> None:
    """Label every fiftieth trace if it is judged; one in five otherwise than the judge."""
    count = 0
    with (run / "annotations.jsonl").open() as lines, labels.open("w") as out:
        for n, line in enumerate(lines):
            one = json.loads(line)
            if n % (ANNOTATIONS // LABELS // 2) or one["status"] not in ("labelled", "none"):
                continue
            primary = "timing_dependency" if count % 5 == 0 else one["primary"]
            row = {"trace_id": one["trace_id"], "rubric": one["rubric"], "primary": primary}
            out.write(json.dumps({**row, "annotator": "bench"}) + "\n")
            count += 1
            if count == LABELS:
                return
    raise AssertionError(f"only {count} labels")


def main() -> None:
    """Measure and print; the exit code is 1 if a limit is missed."""
    missed = False
    with tempfile.TemporaryDirectory() as place:
        run, labels = Path(place) / "run", Path(place) / "labels.jsonl"
        traces = str(ROOT / "examples" / "traces")
        annotate(traces, "--rubric", "symptoms", "--out", str(run), "--quiet")
        enlarge(run)
        label(run, labels)
        made = str(run / "calibration.json")
        for name, arguments in (
            ("calibrate", ["calibrate", str(run), "--labels", str(labels)]),
            ("report --calibration", ["report", str(run), "--calibration", made]),
            ("sample", ["sample", str(run), "--out", str(Path(place) / "sheet.csv")]),
        ):
            seconds, peak = annotate(*arguments)
            print(
                f"{name}: {seconds:.2f} s, {seconds / LIMIT_SECONDS:.2f} of the limit;"
                f" {peak:.0f} MB, {peak / LIMIT_MB[name]:.2f} of the limit"
            )
            missed |= seconds > LIMIT_SECONDS or peak > LIMIT_MB[name]
    sys.exit(missed)


if __name__ == "__main__":
    main()
