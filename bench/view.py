"""Reading a large run in the browser: 100,000 annotations; time and memory until it is served.

    python -m bench.view [ANNOTATIONS]

The annotations are those of the rules judge on the examples, repeated under other ids. Prints each
figure with its ratio to the limit.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from annotator.runs.run import open_run
from annotator.web.reading import PageRequest
from annotator.web.view import View

ROOT = Path(__file__).parent.parent
TRACES = ROOT / "examples" / "traces"
ANNOTATIONS = 100_000
READY = 60.0  # seconds
PEAK_MB = 300.0


def make(folder: Path, annotations: int) -> None:
    """Write a run of so many annotations: those of the examples again and again."""
    arguments = [str(TRACES), "--rubric", "symptoms", "--out", str(folder), "--quiet"]
    subprocess.run(
        [sys.executable, "-m", "annotator", *arguments], stdout=subprocess.DEVNULL, check=True
    )
    file = folder / "annotations.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    with file.open("w") as out:
        for n in range(annotations):
            one, copy = lines[n % len(lines)], n // len(lines)
            if copy:  # the first of each is of a trace that is there
                task = f"{one['attributes']['task']}-{copy % 40}"
                attributes = {**one["attributes"], "task": task, "number": n}
                one = {**one, "trace_id": f"{copy}/{one['trace_id']}", "attributes": attributes}
            out.write(json.dumps(one) + "\n")
    manifest = json.loads((folder / "run.json").read_text())
    manifest["totals"]["annotations"] = annotations
    (folder / "run.json").write_text(json.dumps(manifest))


def megabytes() -> float:
    """Return the peak memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def show(name: str, value: float, unit: str, limit: float) -> bool:
    """Print a figure with its ratio to its limit; return whether it is missed."""
    print(f"{name}: {value:.2f} {unit}, {value / limit:.2f} of the limit")
    return value > limit


def measure(folder: Path) -> bool:
    """Print all figures; return whether a limit is missed."""
    begun = time.perf_counter()
    View(PageRequest([open_run(folder)]))
    missed = show("ready", time.perf_counter() - begun, "s", READY)
    return show("peak memory", megabytes(), "MB", PEAK_MB) or missed


def main() -> None:
    """Measure and print; the exit code is 1 if a limit is missed."""
    annotations = int(sys.argv[1]) if len(sys.argv) > 1 else ANNOTATIONS
    with tempfile.TemporaryDirectory() as place:
        run = Path(place) / "run"
        make(run, annotations)
        missed = measure(run)
    sys.exit(missed)


if __name__ == "__main__":
    main()
