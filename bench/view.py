"""Reading a large run in the browser: 100,000 annotations; time to the first page, and memory.

    python -m bench.view [ANNOTATIONS]

The annotations are those of the rules judge on the examples, repeated under other ids. Times are
those of calls from another thread while the index is being filled, and after that. Prints each
figure with its ratio to the limit.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from annotator.runs.run import open_run
from annotator.traces.read import Library
from annotator.web.index import Filter, Index
from annotator.web.search import search

ROOT = Path(__file__).parent.parent
TRACES = ROOT / "examples" / "traces"
ANNOTATIONS = 100_000
FIRST_PAGE, FACETS, PAGE, INDEXED = 1.0, 0.5, 0.5, 60.0  # seconds
GROWTH_MB = 80.0
FILTERS = {
    "no filter": Filter(),
    "one code": Filter(code="work_overlap"),
    "two attributes": Filter(attributes=(("merge", "conflicts"), ("passed", "false"))),
    "a text": Filter(text="Agent"),
}


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


def seconds(work: Callable[[], object]) -> float:
    """Return how long a call takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def megabytes() -> float:
    """Return the peak memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def show(name: str, value: float, unit: str, limit: float) -> bool:
    """Print a figure with its ratio to its limit; return whether it is missed."""
    print(f"{name}: {value:.2f} {unit}, {value / limit:.2f} of the limit")
    return value > limit


def measure(folder: Path, annotations: int) -> bool:
    """Print all figures; return whether a limit is missed."""
    missed = False
    Index([open_run(folder)]).close()  # the imports, which are not what is measured
    before, begun = megabytes(), time.perf_counter()
    with closing(Index([open_run(folder)])) as index:
        while len(index.rows(Filter(), 0, 100).rows) < min(100, annotations):
            time.sleep(0.005)
        missed |= show("first page", time.perf_counter() - begun, "s", FIRST_PAGE)
        while index.progress.annotations < annotations / 2:
            time.sleep(0.05)
        for name in ("no filter", "one code"):
            for what, limit, work in (
                ("facets", FACETS, partial(index.facets, FILTERS[name])),
                ("page", PAGE, partial(index.rows, FILTERS[name], 0, 100)),
            ):
                missed |= show(f"{what} half-way, {name}", seconds(work), "s", limit)
        index.wait()
        missed |= show("indexed", time.perf_counter() - begun, "s", INDEXED)
        assert index.rows(Filter(), 0, 1).total == annotations
        for name, one in FILTERS.items():
            last = max(index.rows(one, 0, 1).total - 100, 0)
            middle = index.rows(one, last // 2, 1).rows[0].number
            for what, limit, work in (
                ("facets", FACETS, partial(index.facets, one)),
                ("last page", PAGE, partial(index.rows, one, last, 100)),
                ("neighbours", PAGE, partial(index.neighbours, middle, one)),
            ):
                missed |= show(f"{what}, {name}", seconds(work), "s", limit)
        missed |= show("memory above the start", megabytes() - before, "MB", GROWTH_MB)
        library = Library([str(TRACES)])
        taken = seconds(lambda: search(library.trace, index, "no such text", None))
        missed |= show("search until it is stopped", taken, "s", 0.7)
    return missed


def main() -> None:
    """Measure and print; the exit code is 1 if a limit is missed."""
    annotations = int(sys.argv[1]) if len(sys.argv) > 1 else ANNOTATIONS
    with tempfile.TemporaryDirectory() as place:
        run = Path(place) / "run"
        make(run, annotations)
        missed = measure(run, annotations)
    sys.exit(missed)


if __name__ == "__main__":
    main()
