"""What openai's client brings to a call, and what must hold whatever it brings."""

import asyncio
import gzip
import json
import logging
import os
import socket
import ssl
import threading
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from annotator.errors import AnnotatorError
from annotator.judges.llm.client import open_client
from annotator.judges.llm.settings import Options
from annotator.rubrics import Rubric
from annotator.traces import Trace
from tests.conftest import Done, set_model
from tests.judges.test_llm import RIGHT, judged, scripted
from tests.openai_server import OpenAIServer, Reply, Request

Cli = Callable[..., Done]
Runs = Callable[..., Path]
Log = pytest.LogCaptureFixture

KEY = "sk-very-SECRET"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def basic(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


# Where is asked (user@, query), with which environment -> the headers that come with it.
CALLS = {
    "a key": ("", "", {}, {"Authorization": f"Bearer {KEY}", "api-key": None}),
    "a password in the address": (
        "me:pa%40ss@",
        "",
        {},
        {"Authorization": basic("me", "pa@ss")},
    ),
    "Azure": (
        "",
        "?api-version=2024-10-21",
        {},
        {"api-key": KEY, "Authorization": None},
    ),
    "organization and project": (
        "",
        "?deployment=a%20b",
        {"OPENAI_ORG_ID": "org", "OPENAI_PROJECT_ID": "proj"},
        {"OpenAI-Organization": "org", "OpenAI-Project": "proj"},
    ),
    "headers of one's own": (
        "",
        "",
        {"OPENAI_CUSTOM_HEADERS": "X-Team: a\nX-Cost: b"},
        {"X-Team": "a"},
    ),
}


@pytest.mark.parametrize(("user", "query", "env", "headers"), CALLS.values(), ids=CALLS)
def test_each_way_to_be_let_in(
    trace: Trace,
    rubric: Rubric,
    monkeypatch: pytest.MonkeyPatch,
    user: str,
    query: str,
    env: dict[str, str],
    headers: dict[str, str | None],
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    with OpenAIServer(scripted(RIGHT)) as server:
        url = server.url.replace("http://", f"http://{user}") + query
        annotation = judged(server, trace, rubric, mode="tools", base_url=url)
        [request] = server.seen
    assert annotation.status == "labelled", annotation.error
    assert request.url.endswith(f"/v1/chat/completions{query.replace('%20', '+')}")
    assert {name: request.headers.get(name) for name in headers} == headers
    assert request.headers["User-Agent"].startswith("failure-annotator/")
    assert request.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_a_proxy_of_the_environment_is_used_but_not_to_this_machine(
    trace: Trace, rubric: Rubric, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with OpenAIServer(scripted(RIGHT)) as proxy, OpenAIServer(scripted(RIGHT)) as server:
        monkeypatch.setenv(name, proxy.url.removesuffix("/v1"))
        monkeypatch.delenv("NO_PROXY", raising=False)
        away = judged(server, trace, rubric, mode="tools", base_url="http://judge.example/v1")
        assert judged(server, trace, rubric, mode="tools").status == away.status == "labelled"
        assert [request.url for request in proxy.seen] == [
            "http://judge.example/v1/chat/completions"
        ]
        assert len(server.seen) == 1


def test_a_proxy_that_is_none_is_named_without_its_password(
    trace: Trace, rubric: Rubric, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"nonsense://me:{KEY}@proxy.example:1")
    with OpenAIServer() as server, pytest.raises(AnnotatorError, match="cannot be called") as error:
        judged(server, trace, rubric, mode="tools", base_url="https://judge.example/v1")
    assert KEY not in str(error.value)


def write_certificate(file: Path) -> Path:
    """A certificate for 127.0.0.1, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    here = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    day, begun = timedelta(days=1), datetime.now(UTC) - timedelta(days=1)
    unsigned = x509.CertificateBuilder(name, name, key.public_key(), 1, begun, begun + 9 * day)
    signed = unsigned.add_extension(here, critical=False).sign(key, hashes.SHA256())
    form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(key.private_bytes(*form) + signed.public_bytes(Encoding.PEM))
    return file


def open_tunnel(file: Path) -> int:
    """The port of a proxy that is asked by TLS, and is the end of every tunnel itself."""
    listener = socket.create_server(("127.0.0.1", 0))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(file)

    async def serve() -> None:
        async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await writer.start_tls(tls)

        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        await asyncio.start_server(lead, sock=listener, ssl=tls)
        await asyncio.Event().wait()

    threading.Thread(target=asyncio.run, args=(serve(),), daemon=True).start()
    return int(listener.getsockname()[1])


def test_a_certificate_that_is_not_of_the_host_behind_a_proxy_leaves_one_line(
    annotate_cli: Cli, runs: Runs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: Log
) -> None:
    file = write_certificate(tmp_path / "here.pem")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    monkeypatch.setenv("HTTPS_PROXY", f"https://127.0.0.1:{open_tunnel(file)}")
    args = ("--model", "m", "--base-url", "https://judge.example/v1", *set_model(attempts=1))
    done = annotate_cli(runs(1), "--rubric", "comm_errors", *args)
    assert (done.code, "https://judge.example/v1 does not answer" in done.err) == (2, True)
    assert not caplog.records  # asyncio would write a traceback


def test_certificates_that_cannot_be_read_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "own.pem").symlink_to("own.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "own.pem"))
    with pytest.raises(AnnotatorError, match="SSL_CERT_FILE or SSL_CERT_DIR: Too many levels"):
        open_client(Options("m"), "k", 1, 1)
    os.mkfifo(tmp_path / "pipe.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "pipe.pem"))
    with pytest.raises(AnnotatorError, match="SSL_CERT_FILE or SSL_CERT_DIR: not a regular file"):
        open_client(Options("m"), "k", 1, 1)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_key_does_not_go_where_a_redirect_leads(
    trace: Trace, rubric: Rubric, status: int
) -> None:
    with OpenAIServer(scripted(RIGHT)) as other:
        there = Reply(
            status=status, headers={"Location": f"{other.url}/chat/completions"}, body="{}"
        )
        with (
            OpenAIServer(scripted(there), probe=scripted(there)) as server,
            pytest.raises(AnnotatorError, match=f"HTTP {status} to 127.0.0.1.*--base-url"),
        ):
            judged(server, trace, rubric, mode="tools")
        assert (server.calls, other.calls) == (1, 0)


def test_no_cookie_is_kept(trace: Trace, rubric: Rubric, monkeypatch: pytest.MonkeyPatch) -> None:
    again = Reply(status=429, headers={"Set-Cookie": "a=b", "Retry-After": "0"})
    with OpenAIServer(scripted(again, RIGHT)) as server:
        named = server.url.replace("127.0.0.1", "localhost")  # of an address nobody keeps any
        judged(server, trace, rubric, mode="tools", base_url=named)
        assert ["Cookie" in request.headers for request in server.seen] == [False, False]
    with OpenAIServer(scripted(again, RIGHT)) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/v1"))
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        judged(proxy, trace, rubric, mode="tools", base_url="http://judge.example/v1")
        assert ["Cookie" in request.headers for request in proxy.seen] == [False, False]


@pytest.mark.parametrize("key", ["sk-1\nX-Evil: 1", "sk-\x07", "sk-\u00e9"])
def test_a_key_that_can_be_none_is_refused_and_not_shown(
    rubric: Rubric, trace: Trace, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("MY_KEY", key)
    with OpenAIServer() as server, pytest.raises(AnnotatorError, match="in MY_KEY") as error:
        judged(server, trace, rubric, mode="tools", api_key_env="MY_KEY")
    assert (server.calls, "sk-" in str(error.value)) == (0, False)


ENDLESS = {
    "an answer": Reply(body=b"{" + b" " * 17_000_000),
    "an error": Reply(status=400, body=b"{" + b" " * 17_000_000),
    "a packed answer": Reply(
        body=gzip.compress(b"{" + b" " * 17_000_000), headers={"Content-Encoding": "gzip"}
    ),
    "packed twice": Reply(
        body=gzip.compress(gzip.compress(b"{}")), headers={"Content-Encoding": "gzip, gzip"}
    ),
}


@pytest.mark.parametrize("reply", ENDLESS.values(), ids=ENDLESS)
def test_an_answer_is_read_to_16_mb(trace: Trace, rubric: Rubric, reply: Reply) -> None:
    with OpenAIServer(scripted(reply)) as server:
        error = judged(server, trace, rubric, mode="tools", attempts=1, timeout=30.0).error or ""
    assert "longer than 16 MB" in error or "packed in a way" in error


def test_a_packed_answer_is_read(trace: Trace, rubric: Rubric) -> None:
    def respond(request: Request) -> Reply:
        assert request.headers["Accept-Encoding"] == "gzip, deflate"
        answer = RIGHT.answer
        call = {"function": {"name": "x", "arguments": json.dumps(answer)}}
        body = json.dumps({"choices": [{"message": {"tool_calls": [call]}}]})
        return Reply(
            body=gzip.compress(request.fill_in(body).encode()), headers={"Content-Encoding": "gzip"}
        )

    with OpenAIServer(respond) as server:
        assert judged(server, trace, rubric, mode="tools").status == "labelled"


@pytest.mark.parametrize("kind", ["application/json", "text/plain; charset=utf-8", "x"])
def test_json_is_read_whatever_the_server_calls_it(trace: Trace, rubric: Rubric, kind: str) -> None:
    answer = RIGHT.answer
    message = {"choices": [{"message": {"content": json.dumps(answer)}}]}
    reply = Reply(body=json.dumps(message), headers={"Content-Type": kind})
    with OpenAIServer(scripted(reply)) as server:
        assert judged(server, trace, rubric, mode="json_schema").status == "labelled"


@pytest.mark.parametrize(
    "reply", [RIGHT, Reply(status=400, error={"message": "no"}), Reply(drop=True)]
)
def test_no_key_and_no_password_stands_in_a_log_or_an_error(
    trace: Trace, rubric: Rubric, caplog: pytest.LogCaptureFixture, reply: Reply
) -> None:
    with caplog.at_level(logging.DEBUG), OpenAIServer(scripted(reply)) as server:
        url = server.url.replace("http://", f"http://me:{KEY}@")
        for address in (server.url, url):
            annotation = judged(server, trace, rubric, mode="tools", attempts=1, base_url=address)
            assert KEY not in (annotation.error or "")
    assert KEY not in caplog.text
