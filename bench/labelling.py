"""The page to label with, as a person uses it in a real browser; then with 20,000 traces.

    python -m bench.labelling [LOGS]

Needs playwright and a Chromium. LOGS is a folder of runs in the CooperBench layout; by default the
examples. First twenty traces are labelled by symptoms: read to their end, two sentences or lines
quoted, a code chosen. Prints the keys of a trace and the seconds that the page took for them. Then
the runs are linked under other ids until there are 20,000; half of them have labels. Prints the
seconds until the page answers, for each key, and the memory. The exit code is 1 if a limit is
missed.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from annotator.traces import load_traces
from bench.large import TRACES, show
from bench.pages import resident

FEW, MANY = 20, 20_000
CODES = ("1", "2", "6", "Shift+1", "0")
PATIENCE = 30  # seconds
KEY, OPEN, SERVER_MB = 1.0, 5.0, 300.0  # seconds, seconds, MB


class Labeller:
    """Someone who labels by keyboard; ``times`` are the seconds until each key was answered."""

    def __init__(self, page: Any) -> None:
        self._page = page
        self.keys = 0
        self.times: list[float] = []

    def press(self, key: str, answered: str = "true") -> None:
        """Press a key and wait until an expression is true and the page is painted."""
        begun = time.perf_counter()
        self._page.keyboard.press(key)
        while not self._page.evaluate(f"Boolean({answered})"):  # the page allows no eval of its own
            if time.perf_counter() - begun > PATIENCE:
                raise TimeoutError(f"{key}: {answered} is not so")
        self._page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        self.keys += 1
        self.times.append(time.perf_counter() - begun)

    def read(self) -> None:
        """Go through the trace to its end, by the space bar."""
        end = "scrollY + innerHeight >= document.documentElement.scrollHeight - 4"
        while not self._page.evaluate(end):
            self.press("Space")
            self._page.wait_for_timeout(120)  # it scrolls smoothly
        self._page.evaluate("scrollTo(0, 0)")

    def label(self, code: str) -> None:
        """Quote two passages, choose a code, and go on to the next open trace."""
        quotes = "document.querySelectorAll('ul.evidence li').length"
        for n in range(2 if code != "0" else 0):
            for _ in range(2):
                self.press("j", "!getSelection().isCollapsed")
            self.press("e", f"{quotes} === {n + 1}")
        self.press(code, "document.querySelector('#state.saved')")
        before = self._page.get_attribute("#main", "data-item")
        self.press("Enter", f"document.querySelector('#main').dataset.item !== '{before}'")


def link_runs(source: Path, folder: Path, count: int) -> Path:
    """Link the runs below ``source`` under other ids until there are ``count``."""
    runs = sorted(path.parent for path in source.rglob("conversation.json"))
    for n in range(count):
        copy, run = divmod(n, len(runs))
        target = folder / "logs" / f"copy{copy}" / runs[run].relative_to(source)
        shutil.copytree(runs[run], target, copy_function=os.link)
    return folder / "logs"


def serve(traces: Path, labels: Path) -> tuple[subprocess.Popen[str], str]:
    """Start the page; return the process and the address."""
    options = ("--rubric", "symptoms", "--labels", str(labels), "--annotator", "ann")
    process = subprocess.Popen(
        [sys.executable, "-m", "annotator", "label", str(traces), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout
    return process, process.stdout.readline().strip()


def visit(browser: Any, address: str) -> Any:
    """Open the page and wait until it answers."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(address)
    page.wait_for_selector("html[data-started]", state="attached")
    return page


def label_few(browser: Any, traces: Path, folder: Path) -> None:
    """Print the keys and the seconds of twenty traces."""
    process, address = serve(traces, folder / "few.jsonl")
    try:
        labeller = Labeller(visit(browser, address))
        begun = time.perf_counter()
        read = 0
        for n in range(FEW):
            before = labeller.keys
            labeller.read()
            read += labeller.keys - before
            labeller.label(CODES[n % len(CODES)])
        spent = time.perf_counter() - begun
    finally:
        process.kill()
        process.wait()
    written = len((folder / "few.jsonl").read_text().splitlines())
    each = (labeller.keys - read) / FEW
    print(f"{written} of {FEW} traces labelled")
    print(f"keys a trace: {each:.1f} to label, {read / FEW:.1f} to read")
    print(f"seconds a trace: {spent / FEW:.2f}, {sum(labeller.times) / FEW:.2f} of them for keys")
    print(f"slowest key: {max(labeller.times):.2f} s")


def label_many(browser: Any, traces: Path, folder: Path) -> bool:
    """Print times and memory with 20,000 traces; return whether a limit is missed."""
    logs, labels = link_runs(traces, folder, MANY), folder / "many.jsonl"
    ids = [trace.id for trace in load_traces(str(logs))]
    head = {"rubric": "symptoms", "annotator": "ann", "primary": "work_overlap", "secondary": []}
    rows = [{"trace_id": trace_id} | head for trace_id in ids[: len(ids) // 2]]
    labels.write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(f"{len(ids)} traces, {len(rows)} labels")
    begun = time.perf_counter()
    process, address = serve(logs, labels)
    try:
        print(f"its address after {time.perf_counter() - begun:.1f} s")
        begun = time.perf_counter()
        page = visit(browser, address)
        missed = show("many traces, the page answers", time.perf_counter() - begun, "s", OPEN)
        labeller = Labeller(page)
        for n in range(FEW):
            labeller.label(CODES[n % len(CODES)])
        for key in ("ArrowLeft", "ArrowLeft", "u", "u", "ArrowRight"):
            labeller.press(key, "!document.querySelector('#main').inert")
        for key in ("1", "+", "1"):  # of a label that stands in the middle of the file
            labeller.press(key, "document.querySelector('#state').textContent !== 'Saving …'")
        print(f"many traces, median key: {statistics.median(labeller.times):.3f} s")
        missed |= show("many traces, slowest key", max(labeller.times), "s", KEY)
        heap = page.evaluate("performance.memory.usedJSHeapSize") / 1e6
        print(f"many traces, memory of the page's scripts: {heap:.0f} MB")
        missed |= show("many traces, peak memory", resident(process.pid), "MB", SERVER_MB)
    finally:
        process.kill()
        process.wait()
    return missed


def main() -> None:
    """Measure and print."""
    from playwright.sync_api import sync_playwright

    traces = Path(sys.argv[1]) if len(sys.argv) > 1 else TRACES / "logs"
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))))
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        label_few(browser, traces, Path(place))
        missed = label_many(browser, traces, Path(place))
    sys.exit(missed)


if __name__ == "__main__":
    main()
