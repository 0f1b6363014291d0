"""A model server on this machine is named, and not used."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from annotator.cli import servers
from tests.conftest import EXAMPLES

RUN = (EXAMPLES, "--rubric", "symptoms", "--limit", "1", "--out", "out")


@contextmanager
def listen(body: bytes, location: str = "", pause: float = 0.0) -> Iterator[tuple[int, list[str]]]:
    """Answer every GET with these bytes, with a pause after each, or with another location."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(302 if location else 200)
            if location:
                self.send_header("Location", location)
            self.end_headers()
            with suppress(OSError):
                for n in range(len(body)) if pause else ():
                    self.wfile.write(body[n : n + 1])
                    time.sleep(pause)
                self.wfile.write(b"" if pause else body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port, asked
    server.shutdown()
    server.server_close()


def test_a_server_is_named_and_not_used(annotate_cli, monkeypatch):
    with listen(json.dumps({"data": [{"id": "llama 3\x1b[31m"}, {"id": "b"}]}).encode()) as (
        port,
        asked,
    ):
        monkeypatch.setattr(servers, "PORTS", (1, port))
        done = annotate_cli(*RUN)
        url = f"http://127.0.0.1:{port}/v1"
        assert f"to use it: --model 'llama 3\ufffd[31m' --base-url {url}" in done.err
        assert "judge rules" in done.out
        annotate_cli(*RUN[:-1], "explicit", "--judge", "rules")
        assert asked == ["/v1/models"]


BODIES = (b"<html>", b"{}", b'{"data": []}', b'{"data": [3]}', b"\xff", b"[" * 500_000)


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_another_server_is_not_named(annotate_cli, monkeypatch, body):
    with listen(body) as (port, _):
        monkeypatch.setattr(servers, "PORTS", (port,))
        assert "model server" not in annotate_cli(*RUN).err


def test_a_slow_server_and_one_that_sends_elsewhere_are_not_named(annotate_cli, monkeypatch):
    """One answers a byte at a time; the other redirects to a server that lists a model."""
    listed = json.dumps({"data": [{"id": "other"}]}).encode()
    with ExitStack() as stack:
        other, asked = stack.enter_context(listen(listed))
        slow, _ = stack.enter_context(listen(b"[" + b" " * 120, pause=0.1))
        elsewhere = f"http://127.0.0.1:{other}/v1/models"
        redirects, _ = stack.enter_context(listen(b"", elsewhere))
        monkeypatch.setattr(servers, "PORTS", (slow, redirects))
        begun = time.monotonic()
        assert "model server" not in annotate_cli(*RUN).err
        assert time.monotonic() - begun < 9  # all 120 bytes take 12 seconds
    assert asked == []
