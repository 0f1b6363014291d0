"""``annotate view`` as a person uses it, and as nobody else may."""

import importlib.util
import json
import shutil
import socket
import stat
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from annotator.rubrics.annotations import read_annotations
from tests.conftest import EXAMPLES, run_name
from tests.web.conftest import NET, Held, Served, settled, tool, until
from tests.web.hostile import ATTACKS, hostile_run

Serve = Callable[..., Served]


@pytest.fixture
def view(judged, serve):
    """Serve the pages of a run, that of the examples by default; return their address."""
    return lambda *arguments: serve("view", *(arguments or (judged,))).address


def test_tables_traces_steps_search_and_a_quote_in_its_place(judged, view, visit):
    page = visit(view())
    assert page.locator("table.counts:not(.full)").count() == 2
    page.keyboard.press("t")
    page.wait_for_selector("ol.traces")
    assert page.inner_text(".status") == "34 annotations"
    page.select_option("select[name=code]", "C1a")
    until(lambda: page.locator("ol.traces li").count() == 1)
    page.click("ol.traces a")
    page.wait_for_selector("mark.current")
    [quoted] = [one for one in read_annotations(judged) if one.primary == "C1a"]
    assert page.inner_text("mark.current") == quoted.findings[0].evidence[0].quote
    page.click("details:has-text('Steps of') summary >> nth=0")
    page.click("button:has-text('Show steps') >> nth=0")
    page.wait_for_selector("article.step")
    page.fill("#search", "CLOSE_after")
    page.press("#search", "Enter")
    page.wait_for_selector("ol.hits li")
    until(lambda: "in 17 traces" in page.inner_text(".status"))
    page.click("ol.hits a >> nth=0")
    page.wait_for_selector("mark.found.current")


def test_two_runs_and_a_person_side_by_side(judged, tmp_path, view, visit):
    tool(EXAMPLES, "--rubric", "comm_errors", "--out", "other", cwd=tmp_path)
    address = view(judged, "other", "--labels", EXAMPLES.parent / "labels.jsonl")
    page = visit(f"{address}#/traces?agreement=agrees&run=1")
    page.wait_for_selector("ol.traces")
    assert page.locator("ol.traces li").count() == 2
    page.click("ol.traces a >> nth=0")
    page.wait_for_selector(".cards.several")
    cards = page.locator("section[aria-label='Findings by comm_errors'] .card")
    assert cards.count() == 3
    assert "person" in cards.nth(0).inner_text()


def test_hostile_traces_do_nothing(tmp_path, view, visit):
    hostile_run(tmp_path / run_name(1))
    tool("logs", "--rubric", "symptoms", "--out", "run", cwd=tmp_path)
    page = visit(view("run", "--by", "model"))
    page.keyboard.press("t")
    page.wait_for_selector("ol.traces")
    page.click("ol.traces a")
    page.wait_for_selector(".reading")
    shown = page.eval_on_selector('[data-source="message:5"]', "one => one.textContent")
    assert shown == ATTACKS[0]
    page.fill("#search", "<script>")
    page.press("#search", "Enter")
    page.wait_for_selector("ol.hits li")
    settled(page)


def get(address, **headers):
    """Ask for an address as a program would; return the status, the headers and the body."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(address, headers=given)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def post(address, body, **headers):
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(address, data=body, headers=given, method="POST")
    try:
        with urllib.request.urlopen(request) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_only_its_own_pages_may_ask(view):
    address = view()
    origin, token = address.rsplit("/", 2)[:2]
    port = origin.rpartition(":")[2]
    assert len(token) >= 32
    other = token[:-1] + ("y" if token[-1] == "x" else "x")
    status, headers, _ = get(address)
    assert status == 200
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    api = f"{address}api/overview"
    for status, asked in [
        (404, get(f"{origin}/")),
        (404, get(f"{origin}/{other}/api/overview")),
        (404, get(f"{origin}/static/base.js")),
        (421, get(api, Host="evil.example")),
        (421, get(api, Host=f"evil.example:{port}")),
        (403, get(api, Origin="http://evil.example")),
        (403, get(api, Origin="null")),
        (403, get(api, Sec_Fetch_Site="cross-site")),
        (403, get(api, Sec_Fetch_Site="same-site", Sec_Fetch_Mode="cors")),
        (404, get(f"{address}static/%2e%2e/server.py")),
        (404, get(f"{address}static/..%2fserver.py")),
        (400, get(f"{address}api/trace")),
    ]:
        assert asked[0] == status, asked
    assert get(api, Host=f"localhost:{port}")[0] == 200


def said(address, request, body=""):
    """Send a request as it is; return the first line of the answer."""
    port = int(address.split(":")[2].split("/")[0])
    with socket.create_connection(("127.0.0.1", port), timeout=NET) as own:
        own.sendall(
            f"{request}\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n{body}".encode()
        )
        return own.makefile("rb").readline().strip()


def test_requests_that_no_browser_makes(view):
    address = view()
    token = address.split("/")[3]
    for status, request in [
        (404, "OPTIONS * HTTP/1.1"),
        (404, "CONNECT evil.example:80 HTTP/1.1"),
        (404, f"GET /x/../{token}/api/overview HTTP/1.1"),
        (400, f"GET /{token}/api/overview HTTP/1.1\r\nHost: evil.example"),
        (403, f"PUT /{token}/api/overview HTTP/1.1"),
        (403, f"OPTIONS /{token}/api/overview HTTP/1.1"),
        (400, f"GET /{token}/api/trace?id={'x' * 300_000} HTTP/1.1"),
        (200, f"HEAD /{token}/static/view.js HTTP/1.1"),
    ]:
        assert str(status).encode() in said(address, request), request[:100]


def test_a_late_answer_does_not_touch_the_page_after_it(view, visit):
    page = visit(f"{view()}#/traces?rubric=comm_errors&status=labelled")
    held = Held(page, "trace?*")
    page.click("ol.traces a >> nth=0")
    held.wait()
    page.go_back()
    page.click("ol.traces a >> nth=1")
    for n in (1, 0):  # the one asked for last is answered first
        with page.expect_event("requestfinished", lambda one: "/api/trace?" in one.url):
            held.let_go(n)
        page.wait_for_selector(".reading")
    page.evaluate("fetch('api/overview').then((one) => one.text())")  # those before are read then
    assert page.inner_text(".near .legend >> nth=0") == "2 of 2"
    page.wait_for_selector("mark.current")


def test_it_listens_on_loopback_only(view):
    port = int(view().split(":")[2].split("/")[0])
    with socket.socket() as other:
        other.settimeout(NET)
        assert other.connect_ex(("127.0.0.2", port))  # who listens on all addresses answers there


def test_a_label_comes_from_the_page_only(tmp_path, serve):
    given = ("--rubric", "comm_errors", "--labels", "labels.jsonl", "--annotator", "ann")
    address = serve("label", EXAMPLES, *given).address
    origin = address.rsplit("/", 2)[0]
    decide = f"{address}api/decide"
    body = json.dumps({"n": 0, "revision": 0, "primary": "C1a"}).encode()
    kind = {"Content_Type": "application/json"}
    assert post(decide, body, **kind) == 403  # no origin
    assert post(decide, body, Origin="http://evil.example", **kind) == 403
    assert post(decide, body, Origin=origin, Content_Type="text/plain") == 403
    assert (tmp_path / "labels.jsonl").read_bytes() == b""
    for wrong in (
        b"{",
        b"[]",
        b'{"n": 99, "revision": 0}',
        b'{"n": 0, "primary": 3}',
        b'{"n": -1}',
        b"[" * 1_000_000,
        b'{"n": 1' + b"0" * 5000 + b', "revision": 0}',
        b'{"n": 0, "revision": 0, "primary": "C1a", "note": "\\ud800"}',
        b'{"n": 0, "revision": 0, "primary": "C1a", "note": "' + b"x" * 10_001 + b'"}',
    ):
        assert post(decide, wrong, Origin=origin, **kind) in (400, 404)
    unknown = json.dumps({"n": 0, "revision": 0, "primary": "C9"}).encode()
    assert post(decide, unknown, Origin=origin, **kind) == 409
    quote = {"quote": "made up", "source": "message:1", "start": 0, "end": 7}
    made_up = json.dumps({"n": 0, "revision": 0, "primary": "C1a", "evidence": [quote]}).encode()
    assert post(decide, made_up, Origin=origin, **kind) == 409
    assert (tmp_path / "labels.jsonl").read_bytes() == b""
    assert post(decide, body, Origin=origin, **kind) == 200
    note = "\u202e</script>\x00\u2028" + "x" * 9_000
    hostile = {"n": 0, "revision": 1, "primary": "C1a", "note": note}
    assert post(decide, json.dumps(hostile).encode(), Origin=origin, **kind) == 200
    [line] = (tmp_path / "labels.jsonl").read_text().split("\n")[:-1]
    assert (json.loads(line)["primary"], json.loads(line)["note"]) == ("C1a", note)
    assert stat.S_IMODE((tmp_path / "labels.jsonl").stat().st_mode) == 0o600


@pytest.fixture
def run(judged, tmp_path):
    """The run of the examples, to be changed."""
    return Path(shutil.copytree(judged, tmp_path / "run"))


def test_a_damaged_line_is_said(run, annotate_cli):
    with (run / "annotations.jsonl").open("a") as file:
        file.write("{}\n")
    done = annotate_cli("view", run)
    assert (done.code, "annotations.jsonl, line 35: " in done.err) == (2, True)


def test_a_run_that_is_being_written_can_be_read(run, view, visit):
    manifest = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(manifest | {"status": "running"}))
    with (run / "annotations.jsonl").open("a") as file:
        file.write('{"trace_id": "torn')
    page = visit(view(run))
    assert page.locator("[role=alert]").count() == 0
    assert "not finished" in page.inner_text("main")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nowhere",), "no run.json"),
        (("run", "--labels", "none.jsonl"), "none.jsonl"),
        (("run", "run"), "run"),
        (("run", "--transfer"), "--transfer needs --calibration"),
        (("run", "--annotator", "ann"), "--annotator needs --labels"),
        (
            ("run", "--review", "l.jsonl"),
            "found comm_errors, symptoms: run annotate again with one",
        ),
    ],
)
def test_what_cannot_be_viewed_is_said(run, annotate_cli, arguments, says):
    done = annotate_cli("view", *arguments)
    assert done.code == 2
    assert says in done.err


def test_a_port_that_is_taken_is_said(run, annotate_cli):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = annotate_cli("view", "run", "--port", port)
    assert done.code == 2
    assert f"port {port}" in done.err
    assert "--port" in done.err


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_the_extra_that_is_missing_is_said(run, annotate_cli, monkeypatch, missing):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        "annotator.cli.pages.find_spec", lambda name: None if name == missing else real(name)
    )
    done = annotate_cli("view", "run")
    assert done.code == 2
    assert done.err.startswith("Error: the local pages need the extra web:")
    assert f"{sys.executable} -m pip install" in " ".join(done.err.split())


@pytest.mark.parametrize(
    ("environment", "terminal", "options", "opens"),
    [
        ({"DISPLAY": ":0"}, True, (), True),
        ({"DISPLAY": ":0"}, True, ("--no-browser",), False),
        ({"DISPLAY": ":0"}, False, (), False),
        ({"SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}, True, (), False),
    ],
)
def test_the_browser_opens_where_there_is_one(
    view, judged, monkeypatch, environment, terminal, options, opens
):
    opened = []
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    address = view(judged, *options)
    until(lambda: not opens or opened)
    assert opened == ([address] if opens else [])
