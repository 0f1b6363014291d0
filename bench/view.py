"""Reading large runs in the browser: 100,000 annotations of two runs, side by side.

    python -m bench.view [ANNOTATIONS]

The annotations are those of the rules judge on the examples, repeated under other ids; the second
run differs in every fifth, and two people labelled 100 traces. Prints the time and memory until the
pages are served, and the time that a browser needs for each page and a filter, each with its ratio
to the limit. Needs Chromium.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parent.parent
TRACES = ROOT / "examples" / "traces"
ANNOTATIONS = 100_000
READY = 60.0  # seconds
PEAK_MB = 300.0
FIRST = 5.0  # seconds until the first page
CLICK = 1.0
LABELS = 100
CLICKS = {
    "compare": "#/compare",
    "list": "#/traces",
    "list by run": "#/traces?run=1",
    "list by run and code": "#/traces?run=1&code=C4a",
    "list where runs differ": "#/traces?differ=0~1",
    "list by text": "#/traces?text=merge",
    "tables": "#/overview",
}


def make(folder: Path, annotations: int) -> list[str]:
    """Write two runs of half the annotations each, and labels; return the arguments of view."""
    first, second = folder / "first", folder / "second"
    command = [str(TRACES), "--rubric", "comm_errors", "--out", str(first), "--quiet"]
    subprocess.run(
        [sys.executable, "-m", "annotator", *command], stdout=subprocess.DEVNULL, check=True
    )
    lines = [json.loads(line) for line in (first / "annotations.jsonl").read_text().splitlines()]
    shutil.copytree(first, second)
    manifest = json.loads((first / "run.json").read_text())
    manifest["totals"]["annotations"] = annotations // 2
    for run in (first, second):
        with (run / "annotations.jsonl").open("w") as out:
            for n in range(annotations // 2):
                shift = run is second and n % 5 == 0
                out.write(json.dumps(repeat(lines, n, shift)) + "\n")
        if run is second:
            manifest |= {"id": "second", "judge": manifest["judge"] | {"id": "second"}}
        (run / "run.json").write_text(json.dumps(manifest))
    labels = folder / "labels.jsonl"
    with labels.open("w") as out:
        for n in range(LABELS):
            for person in ("ann", "bob"):
                line = {"trace_id": repeat(lines, n, False)["trace_id"], "annotator": person}
                codes = {"primary": "C1a" if n % 3 else None, "secondary": []}
                out.write(json.dumps(line | codes | {"rubric": "comm_errors"}) + "\n")
    return [str(first), str(second), "--labels", str(labels)]


def repeat(lines: list[dict], n: int, shift: bool) -> dict:
    """Return annotation number ``n``, with the findings of the next one if ``shift``."""
    one, copy = lines[n % len(lines)], n // len(lines)
    if shift:
        next_one = lines[(n + 1) % len(lines)]
        one = {**next_one, "trace_id": one["trace_id"], "attributes": one["attributes"]}
    if copy:  # the first of each is of a trace that is there
        task = f"{one['attributes']['task']}-{copy % 40}"
        attributes = {**one["attributes"], "task": task, "number": n}
        one = {**one, "trace_id": f"{copy}/{one['trace_id']}", "attributes": attributes}
    return one


def show(name: str, value: float, unit: str, limit: float) -> bool:
    """Print a figure with its ratio to its limit; return whether it is missed."""
    print(f"{name}: {value:.2f} {unit}, {value / limit:.2f} of the limit", flush=True)
    return value > limit


def measure(arguments: list[str]) -> bool:
    """Print all figures; return whether a limit is missed."""
    begun = time.perf_counter()
    command = [sys.executable, "-m", "annotator", "view", *arguments, "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        address = server.stdout.readline().strip()
        missed = [show("ready", time.perf_counter() - begun, "s", READY)]
        missed += browse(address)
        status = Path(f"/proc/{server.pid}/status").read_text()
        peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        missed.append(show("peak memory", int(peak.split()[1]) / 1024, "MB", PEAK_MB))
        server.terminate()
    return any(missed)


def browse(address: str) -> list[bool]:
    """Print how long the pages take; return whether each limit is missed."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        with closing(browser):
            page = browser.new_page()
            begun = time.perf_counter()
            page.goto(f"{address}#/overview")
            page.wait_for_selector("html[data-started]", state="attached")
            missed = [show("first page", time.perf_counter() - begun, "s", FIRST)]
            return [*missed, *(show(n, click(page, to), "s", CLICK) for n, to in CLICKS.items())]


def click(page: Page, address: str) -> float:
    """Return the seconds until the page at an address is drawn."""
    milliseconds: float = page.evaluate(
        """(address) => new Promise((done) => {
          const begun = performance.now();
          const drawn = () => requestAnimationFrame(() => done(performance.now() - begun));
          new MutationObserver(drawn).observe(document.querySelector("#main"), { childList: true });
          location.hash = address;
        })""",
        address,
    )
    return milliseconds / 1000


def main() -> None:
    """Measure and print; the exit code is 1 if a limit is missed."""
    annotations = int(sys.argv[1]) if len(sys.argv) > 1 else ANNOTATIONS
    with tempfile.TemporaryDirectory() as place:
        missed = measure(make(Path(place), annotations))
    sys.exit(missed)


if __name__ == "__main__":
    main()
