"""A real browser, and the pages as a user gets them: from a file, or from a server of its own."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from annotator.cli import main
from tests.conftest import EXAMPLES, ROOT, Done

NET = 30  # seconds that nothing here takes: a test that hangs ends


def tool(*arguments, cwd):
    """Run ``annotate`` in this process; an exit code other than 0 fails the test. It gets a thread:
    in that of the tests Playwright's event loop runs, and there may be no other.
    """
    out, err = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(out),
        redirect_stderr(err),
        ThreadPoolExecutor(1) as thread,
    ):
        patch.chdir(cwd)
        patch.delenv("ANNOTATOR_MODEL", raising=False)
        patch.setattr(sys, "argv", ["annotate", *map(str, arguments)])
        stop = thread.submit(main).exception()
    assert isinstance(stop, SystemExit), stop
    assert not stop.code, err.getvalue()
    return Done(0, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def judged(tmp_path_factory):
    """A run of the examples by two rubrics, to be read only."""
    folder = tmp_path_factory.mktemp("judged")
    tool(EXAMPLES, "--rubric", "comm_errors", "--rubric", "symptoms", "--out", "run", cwd=folder)
    return folder / "run"


@pytest.fixture(scope="session")
def made(judged, tmp_path_factory):
    """The report of the examples, with labels."""
    folder = tmp_path_factory.mktemp("made")
    labels = EXAMPLES.parent / "labels.jsonl"
    out = ("--format", "html", "--out", "report.html")
    tool("report", judged, *out, "--labels", labels, cwd=folder)
    return folder / "report.html"


@pytest.fixture
def report(made):
    """The address of that report."""
    return made.as_uri()


@pytest.fixture(scope="package")
def chromium():
    """A headless Chromium; a test that needs it is skipped where there is none. Other packages'
    tests run event loops of their own, which they cannot while it is open.
    """
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="no playwright here: pip install playwright"
    )
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if not found:
        pytest.skip("no Chromium here: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Watch:
    """What went wrong on the pages of one test, and what they asked other places for."""

    origins: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)

    def follow(self, page, refusals):
        page.on("console", self._refused if refusals else self._console)
        page.on("pageerror", lambda error: self.found.append(f"error: {error}"))
        page.on("dialog", self._dialog)
        page.on("request", self._request)
        page.on("popup", lambda popup: self.found.append(f"popup: {popup.url}"))

    def _console(self, message):
        if message.type in ("error", "warning"):
            self.found.append(f"console: {message.text}")

    def _refused(self, message):
        if not message.text.startswith("Failed to load resource"):
            self._console(message)

    def _dialog(self, dialog):
        if dialog.type == "beforeunload":  # the browser asks whether to leave what is not saved
            dialog.accept()
        else:
            self.found.append(f"dialog: {dialog.message}")

    def _request(self, request):
        own = ("data:", "blob:", *self.origins)
        if not request.url.startswith(own):
            self.found.append(f"request: {request.url}")


@pytest.fixture
def visit(chromium):
    """Open an address in a page of its own. In the end nothing may have gone wrong on any, nothing
    may have run that is not the page's own, and no request may have left its origin. With
    ``refusals`` requests may fail.
    """
    watch = Watch()

    def open_(address, *, width=1280, height=900, ready="html[data-started]", refusals=False):
        origin = address.partition("#")[0]
        scheme, _, rest = origin.partition("://")
        watch.origins.append(origin if scheme == "file" else f"{scheme}://{rest.split('/')[0]}/")
        page = chromium.new_context().new_page()
        page.set_viewport_size({"width": width, "height": height})
        watch.follow(page, refusals)
        if scheme == "http":
            # Requests can be held from the beginning: in a page that is there already, what it asks
            # in the first moment after that is still let through.
            page.route("**/api/held-by-nobody", lambda route: route.continue_())
        page.goto(address)
        page.wait_for_selector(ready, state="attached")
        return page

    yield open_
    pages = [page for context in chromium.contexts for page in context.pages]
    try:
        ran = [page for page in pages if page.evaluate("localStorage.clear(), window.ran")]
    finally:
        for page in pages:
            page.close()
        for context in chromium.contexts:
            context.close()
    assert not ran, "a script of a trace ran"
    assert not watch.found


@dataclass
class Served:
    """``annotate view`` or ``annotate label`` in a thread of this process."""

    address: str
    server: Any
    end: Future[Any]

    def stop(self):
        """As Ctrl-C does, which only the first thread of a process gets."""
        self.server.should_exit = True
        assert wait([self.end], NET).done


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """Serve with ``annotate`` and these arguments, in ``tmp_path``."""
    addresses: Queue[str] = Queue()
    servers: list[Any] = []
    threads = ThreadPoolExecutor()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("annotator.cli.pages.say", addresses.put)

    def capture_signals(server):
        servers.append(server)
        return nullcontext()

    monkeypatch.setattr("uvicorn.Server.capture_signals", capture_signals)

    def start(*arguments):
        monkeypatch.setattr(sys, "argv", ["annotate", *map(str, arguments)])
        end = threads.submit(main)
        until(lambda: end.done() or not addresses.empty())
        assert not end.done(), end.exception()
        return Served(addresses.get(), servers[-1], end)

    yield start
    for one in servers:
        one.should_exit = True
    threads.shutdown(wait=False)  # a server looks ten times a second whether it shall stop


@dataclass
class Launched:
    """``annotate view`` or ``annotate label`` in a process of its own."""

    address: str
    process: Any

    def kill(self):
        """As ``kill -9`` does."""
        self.process.kill()
        self.process.wait()

    def interrupt(self):
        """As Ctrl-C does; return the exit code and what stands on stderr."""
        self.process.send_signal(signal.SIGINT)
        _, said = self.process.communicate(timeout=NET)
        return self.process.returncode, said


@pytest.fixture
def launch(tmp_path):
    """Serve with ``annotate`` and these arguments, in ``tmp_path``, by a process of its own."""
    started: list[Launched] = []

    def start(*arguments):
        process = subprocess.Popen(
            [sys.executable, "-m", "annotator", *map(str, arguments)],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(Launched(process.stdout.readline().strip(), process))
        assert started[-1].address.startswith("http://127.0.0.1:"), process.stderr.read()
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.process.stdout.close()
        one.process.stderr.close()


def until(true):
    """Wait until something is true, and return it."""
    end = time.monotonic() + NET
    while not (found := true()) and time.monotonic() < end:
        time.sleep(0.01)
    assert found
    return found


class Held:
    """What a page asks of the server at ``path``, held back until it is let go."""

    def __init__(self, page, path):
        self.requests: list[Any] = []
        self._page = page
        page.route(f"**/api/{path}", lambda route: self.requests.append(route))

    def wait(self, count=1):
        """Wait until so many are held; Playwright hands them over when it is asked anything."""
        try:
            until(lambda: self._page.title() is not None and len(self.requests) >= count)
        except AssertionError:
            shown = self._page.inner_text("body")[-600:]
            held = f"{len(self.requests)} of {count} held"
            raise AssertionError(f"{held}; the page shows: {shown}") from None

    def let_go(self, n=0):
        self.wait(n + 1)
        self.requests.pop(n).continue_()


def settled(page):
    """Wait for the error of a picture that cannot be shown: by then those of any before it are
    told, and whatever else a text that became more than text has begun.
    """
    page.evaluate(
        """new Promise((done) => {
          const last = new Image();
          last.onerror = done;
          last.src = "data:image/png,none";
        })"""
    )


def label_command(traces, *more, annotator="ann", rubric="comm_errors"):
    """The arguments of ``annotate label`` into labels.jsonl."""
    options = ("--rubric", rubric, "--labels", "labels.jsonl", "--annotator", annotator)
    return ("label", traces, *options, *more)


def lines_of(file):
    """The JSON lines of a file; none if it is missing."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture
def lines(tmp_path):
    """A function that returns the labels as their file has them now."""
    return lambda: lines_of(tmp_path / "labels.jsonl")


@pytest.fixture
def traces(tmp_path):
    """A copy of the examples."""
    return Path(shutil.copytree(EXAMPLES, tmp_path / "traces"))


@pytest.fixture
def page(traces, serve, visit):
    """The page to label the examples by comm_errors."""
    return visit(serve(*label_command(traces)).address)


@pytest.fixture
def failing_page(traces, serve, visit):
    """The same page; its requests may fail."""
    return visit(serve(*label_command(traces)).address, refusals=True)
