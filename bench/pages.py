"""The pages in a real browser: a report of 2,000 annotations, and a run of 100,000 served.

    python -m bench.pages [LOGS]

Needs playwright and a Chromium. LOGS is a folder of runs in the CooperBench layout, named ``logs``;
by default the examples. The report is of 1,000 traces by two rubrics: those of LOGS copied under
other ids. Its pages are timed from the navigation until they answer, ``annotate view`` from the
start of the process until the rows are visible. Prints each figure with its ratio to the limit.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from annotator.rubrics.annotations import read_annotations
from bench.large import ANNOTATIONS, TRACES, make, show, spend

DISTINCT = 1_000  # traces of the report
OPEN, TRACE, ROWS = 1.0, 0.5, 1.0  # seconds
SERVER_MB = 250.0
STARTED = """new MutationObserver((_, watch) => {
  if (document.documentElement?.dataset.started) {
    window.startedAt = performance.now();
    watch.disconnect();
  }
}).observe(document, { attributes: true, subtree: true });"""
TIMES = """() => [
  performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0, window.startedAt,
]"""


def copied(source: Path, folder: Path) -> Path:
    """Copy all runs below ``source`` until there are enough; return the folder of the copies."""
    runs = sorted(path.parent for path in source.rglob("conversation.json"))
    for n in range(DISTINCT):
        copy, run = divmod(n, len(runs))
        shutil.copytree(runs[run], folder / "logs" / f"copy{copy}" / runs[run].relative_to(source))
    return folder / "logs"


def opened(browser: Any, address: str) -> tuple[Any, float, float]:
    """Open an address in a page of its own; return it with the seconds until something was seen,
    and until it answered.
    """
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.add_init_script(STARTED)
    page.goto(address)
    page.wait_for_selector("html[data-started]", state="attached")
    page.wait_for_timeout(200)  # the paint is entered a little later
    seen, answered = page.evaluate(TIMES)
    return page, seen / 1000, answered / 1000


def report(browser: Any, run: Path) -> bool:
    """Print the figures of a run's report; return whether a limit is missed."""
    begun = time.perf_counter()
    spend("-m", "annotator", "report", run, "--format", "html")
    file = run / "report.html"
    print(f"report: {sum(1 for _ in read_annotations(run))} annotations,", end=" ")
    print(f"{file.stat().st_size / 1e6:.1f} MB, written in {time.perf_counter() - begun:.1f} s")
    missed = False
    for name, place in (("tables", "#/"), ("list", "#/traces")):
        page, seen, answered = opened(browser, file.as_uri() + place)
        missed |= show(f"report, {name}, first paint", seen, "s", OPEN)
        missed |= show(f"report, {name}, interactive", answered, "s", OPEN)
        if name == "list":
            begun = time.perf_counter()
            page.click("ol.traces a >> nth=0")
            page.wait_for_selector(".reading")
            missed |= show("report, a trace", time.perf_counter() - begun, "s", TRACE)
        page.close()
    return missed


def resident(process: int) -> float:
    """Return the peak memory of a process, in MB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def served(browser: Any, run: Path) -> bool:
    """Print the figures of ``annotate view``; return whether a limit is missed."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "annotator", "view", str(run)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout
        address = process.stdout.readline().strip()
        print(f"view: its address after {time.perf_counter() - begun:.2f} s")
        page, seen, answered = opened(browser, f"{address}#/traces")
        missed = show("view, rows visible after the address", answered, "s", ROWS)
        print(f"view: first paint after {seen:.2f} s")
        while not page.inner_text("#main .status").endswith("annotations"):
            time.sleep(0.2)
        print(f"view: all is read {time.perf_counter() - begun:.1f} s after the start")
        page.close()
        missed |= show("view, peak memory of the server", resident(process.pid), "MB", SERVER_MB)
    finally:
        process.kill()
        process.wait()
    return missed


def main() -> None:
    """Measure and print; the exit code is 1 if a limit is missed."""
    from playwright.sync_api import sync_playwright

    logs = Path(sys.argv[1]) if len(sys.argv) > 1 else TRACES / "logs"
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))))
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        os.environ["TMPDIR"] = place
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        run, many = Path(place) / "run", Path(place) / "many"
        both = ("--rubric", "symptoms", "--rubric", "comm_errors")
        arguments = ("-m", "annotator", "run", copied(logs, Path(place)), *both)
        spend(*arguments, "--all", "--out", run)
        missed = report(browser, run)
        make(many, ANNOTATIONS)
        missed |= served(browser, many)
    sys.exit(missed)


if __name__ == "__main__":
    main()
