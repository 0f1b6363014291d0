"""A model server on this machine is named, and not used."""

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from annotator.cli import servers
from tests.conftest import EXAMPLES

RUN = (EXAMPLES, "--rubric", "symptoms", "--limit", "1", "--out", "out")


@contextmanager
def listen(body: bytes, location: str = "") -> Iterator[tuple[int, list[str]]]:
    """Answer every GET with these bytes, or with another location."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(302 if location else 200)
            if location:
                self.send_header("Location", location)
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(body)

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


def test_a_server_that_sends_elsewhere_is_not_named(annotate_cli, monkeypatch):
    listed = json.dumps({"data": [{"id": "other"}]}).encode()
    with ExitStack() as stack:
        other, asked = stack.enter_context(listen(listed))
        elsewhere = f"http://127.0.0.1:{other}/v1/models"
        redirects, _ = stack.enter_context(listen(b"", elsewhere))
        monkeypatch.setattr(servers, "PORTS", (redirects,))
        assert "model server" not in annotate_cli(*RUN).err
    assert asked == []
