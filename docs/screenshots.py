"""Make the pictures of the docs from the demo and the examples: ``python docs/screenshots.py``.

Needs the extras dev, web and figures, and Chromium.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
TRACE = "#/trace/demo%2Fcoop%2Fweather_cache_task%2F15%2Ff3_f4?finding=0.comm_errors.0"
DEMO_TRACE = "#/trace/demo_free%2Fcoop%2Fbudget_task%2F2%2Ff1_f2?finding=0.symptoms.0"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def annotate(*arguments: str, cwd: Path) -> None:
    """Run the tool in a folder."""
    subprocess.run([sys.executable, "-m", "annotator", *arguments], cwd=cwd, check=True)


def served(*arguments: str, cwd: Path) -> tuple[subprocess.Popen[str], str]:
    """Start a page; return the process and the address."""
    command = [sys.executable, "-m", "annotator", *arguments]
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    return process, process.stdout.readline().strip()


def shoot(page: Any, name: str) -> None:
    """Take a picture of what is on screen."""
    page.wait_for_timeout(200)
    page.screenshot(path=IMAGES / f"{name}.png")


def main() -> None:
    """Make all pictures."""
    IMAGES.mkdir(exist_ok=True)
    found = next(filter(None, map(shutil.which, BROWSERS)))
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        work = Path(folder)
        shutil.copytree(ROOT / "examples", work / "examples")
        both = ("--rubric", "comm_errors", "--rubric", "symptoms")
        annotate("examples/traces", *both, "--out", "run", "--quiet", cwd=work)
        labels = ("--labels", "examples/labels.jsonl")
        annotate("calibrate", "run", *labels, cwd=work)
        corrected = ("--calibration", "run/calibration.json")
        annotate("figure", "run", *corrected, "--out", str(IMAGES / "figure.png"), cwd=work)
        annotate("report", "run", "--format", "html", *labels, *corrected, cwd=work)
        report = (work / "run" / "report.html").as_uri()
        annotate("demo", cwd=work)
        annotate("report", "runs/demo/symptoms", "--format", "html", cwd=work)
        demo = (work / "runs" / "demo" / "symptoms" / "report.html").as_uri()
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for name, width, height, address in (
            ("report", 1280, 860, f"{report}#/"),
            ("trace", 1280, 860, demo + DEMO_TRACE),
            ("trace-narrow", 390, 844, report + TRACE),
        ):
            page = browser.new_page(viewport={"width": width, "height": height})
            page.goto(address)
            page.wait_for_selector("#main[data-ready]")
            shoot(page, name)
        given = ("--rubric", "symptoms", "--labels", "new.jsonl", "--annotator", "ann")
        process, address = served("label", "examples/traces", *given, cwd=work)
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.goto(address)
        page.wait_for_selector("html[data-started]")
        for key in "jjje1":
            page.keyboard.press(key)
        page.wait_for_selector("#state.saved")
        page.wait_for_timeout(3000)  # what was said for a moment is gone
        shoot(page, "label")
        process.terminate()
        browser.close()


if __name__ == "__main__":
    main()
