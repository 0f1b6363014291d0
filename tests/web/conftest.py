"""A real browser, and the pages as a user gets them: from a file, or from a server of its own."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

Visit = Callable[..., Any]


def tool(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run ``annotate`` in a process of its own; an exit code other than 0 fails the test."""
    command = [sys.executable, "-m", "annotator", *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, env=_environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


def _environment() -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name != "ANNOTATOR_MODEL"}
    return own | {"PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A headless Chromium; a test that needs it is skipped where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
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

    def follow(self, page: Any, refusals: bool) -> None:
        page.on("console", self._refused if refusals else self._console)
        page.on("pageerror", lambda error: self.found.append(f"error: {error}"))
        page.on("dialog", self._dialog)
        page.on("request", self._request)
        page.on("popup", lambda popup: self.found.append(f"popup: {popup.url}"))

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.found.append(f"console: {message.text}")

    def _refused(self, message: Any) -> None:
        if not message.text.startswith("Failed to load resource"):
            self._console(message)

    def _dialog(self, dialog: Any) -> None:
        if dialog.type == "beforeunload":  # the browser asks whether to leave what is not saved
            dialog.accept()
        else:
            self.found.append(f"dialog: {dialog.message}")

    def _request(self, request: Any) -> None:
        own = ("data:", "blob:", *self.origins)
        if not request.url.startswith(own):
            self.found.append(f"request: {request.url}")


@pytest.fixture
def visit(chromium: Any) -> Iterator[Visit]:
    """Open an address in a page of its own. In the end nothing may have gone wrong on any, nothing
    may have run that is not the page's own, and no request may have left its origin. With
    ``refusals`` requests may fail.
    """
    watch = Watch()
    contexts = []

    def open_(
        address: str,
        *,
        width: int = 1280,
        height: int = 900,
        ready: str = "html[data-started]",
        refusals: bool = False,
    ) -> Any:
        origin = address.partition("#")[0]
        scheme, _, rest = origin.partition("://")
        watch.origins.append(origin if scheme == "file" else f"{scheme}://{rest.split('/')[0]}/")
        context = chromium.new_context(viewport={"width": width, "height": height})
        contexts.append(context)
        page = context.new_page()
        watch.follow(page, refusals)
        page.goto(address)
        page.wait_for_selector(ready, state="attached")
        return page

    yield open_
    ran = [page for context in contexts for page in context.pages if page.evaluate("window.ran")]
    for context in contexts:
        context.close()
    assert not ran, "a script of a trace ran"
    assert not watch.found


@dataclass
class Served:
    """``annotate view`` or ``annotate label`` in a process of its own."""

    arguments: tuple[object, ...]
    cwd: Path
    address: str = ""
    process: Any = None

    def start(self) -> "Served":
        command = [sys.executable, "-m", "annotator", *map(str, self.arguments)]
        self.process = subprocess.Popen(
            command,
            cwd=self.cwd,
            env=_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.address = self.process.stdout.readline().strip()
        assert self.address.startswith("http://127.0.0.1:"), self.process.stderr.read()
        return self

    def kill(self) -> None:
        """As ``kill -9`` does."""
        self.process.kill()
        self.process.wait()

    def interrupt(self) -> tuple[int, str]:
        """As Ctrl-C does; return the exit code and what stands on stderr."""
        self.process.send_signal(signal.SIGINT)
        _, said = self.process.communicate(timeout=20)
        return self.process.returncode, said


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Start ``annotate`` with these arguments, in ``tmp_path``."""
    started: list[Served] = []

    def start(*arguments: object) -> Served:
        started.append(Served(arguments, tmp_path).start())
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.kill()
        one.process.stdout.close()
        one.process.stderr.close()


def until(true: Callable[[], Any], seconds: float = 10) -> Any:
    """Wait until something is true, and return it."""
    end = time.monotonic() + seconds
    while not (found := true()) and time.monotonic() < end:
        time.sleep(0.05)
    assert found
    return found
