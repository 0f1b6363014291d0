"""Keys and passwords: in nothing that a run writes or shows, whatever a server says."""

import html
import json
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from annotator.judges.llm.secrets import Secrets
from annotator.text import without_url_secrets
from tests.conftest import Done, annotations
from tests.judges.test_llm import IGNORED, QUESTION, RIGHT, scripted
from tests.openai_server import TAGS, OpenAIServer, Reply

Cli = Callable[..., Done]
Runs = Callable[..., Path]

KEY = "sk-proj-Hidden/Key+0123456789abcdefXYZ"
PASSWORD = "pA55-word.of-it"


def escape(text: str) -> str:
    return "".join(f"\\u{ord(char):04x}" for char in text)


def echo(text: str) -> Reply:
    quotes = [{"source": source, "text": quote} for source, quote in (QUESTION, IGNORED)]
    found = {"code": "C1b", "quotes": quotes, "rationale": f"the key {text} is there"}
    return Reply(answer=TAGS | {"findings": [found], "label": "C1b"})


TEXT = json.dumps(echo(KEY).answer)
CUT = TEXT.index(KEY) + 9
PARTS = [{"type": "text", "text": text} for text in (TEXT[:CUT], TEXT[CUT:])]
ECHOES = {
    "an answer": echo(KEY),
    "a password": echo(PASSWORD),
    "a header's value": echo("value-of-header-1"),
    "a refusal": Reply(refusal=f"I refuse {KEY}"),
    "an error": Reply(status=401, error={"message": f"Incorrect API key: {KEY}", "code": KEY}),
    "its beginning": Reply(status=401, error={"message": f"Incorrect API key: {KEY[:16]}..."}),
    "an escaped error": Reply(status=400, body=f'{{"error": {{"message": "{escape(KEY)}"}}}}'),
    "a page": Reply(status=403, body=f"<html>{KEY}</html>", headers={"Content-Type": "text/html"}),
    "another encoding": Reply(status=400, body=json.dumps({"error": KEY}).encode("utf-16")),
    "a redirect": Reply(status=302, headers={"Location": f"http://{KEY}@127.0.0.1:1/{KEY}"}),
    "a name": replace(RIGHT, more={"model": KEY}),
    "no JSON": Reply(text=f"no JSON but {KEY}"),
    "two parts": Reply(more={"choices": [{"message": {"content": PARTS}}]}),
    "a refusal in two parts": Reply(
        more={
            "output": [{"type": "message", "content": [{"refusal": KEY[:9]}, {"refusal": KEY[9:]}]}]
        }
    ),
}


@pytest.mark.parametrize("reply", ECHOES.values(), ids=ECHOES)
def test_what_a_server_echoes_is_written_and_shown_nowhere(
    annotate_cli: Cli,
    runs: Runs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reply: Reply,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("MINE", "value-of-header-1")
    with OpenAIServer(scripted(reply)) as server:
        url = server.url.replace("http://", f"http://me:{PASSWORD}@")
        body = json.dumps({"metadata": {"api_key": KEY}})
        args = (runs(1), "--rubric", "comm_errors", "--model", "m", "--base-url", url)
        more = ("--mode", "json_schema", "--attempts", "1", "--reasks", "1", "--extra-body", body)
        done = annotate_cli(*args, *more, "--header", "X=MINE", "--out", "out")
    files = [file for file in tmp_path.rglob("*") if file.is_file() and "logs" not in file.parts]
    texts = [done.out, done.err, *(file.read_bytes().decode("latin1") for file in files)]
    for secret in (KEY, KEY[:16], escape(KEY), PASSWORD, "value-of-header-1"):
        assert not [text for text in texts if secret in text]
    for file in (tmp_path / "out").glob("*"):
        assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "given",
    [
        ("--api-key-env", KEY),
        ("--api-key-env", "abcdef0123456789abcdef"),
        ("--header", f"Authorization: Bearer {KEY}"),
        ("--header", f"Authorization: Bearer {KEY}=x"),
        ("--base-url", f"htp://me:{KEY}@host/v1"),
        ("--base-url", f"me:{KEY}@host/v1"),
        ("--base-url", f"https://h:x/v1?key={KEY}"),
    ],
)
def test_a_secret_in_the_wrong_place_is_refused_and_not_shown(
    annotate_cli: Cli, runs: Runs, monkeypatch: pytest.MonkeyPatch, given: tuple[str, str]
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    url = () if given[0] == "--base-url" else ("--base-url", "https://judge.example/v1")
    done = annotate_cli(runs(1), "--rubric", "comm_errors", "--model", "m", *url, *given)
    assert done.code == 2
    assert KEY not in done.err
    assert "abcdef0123456789abcdef" not in done.err


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see https://me:p?w@host/v1", "see https://..."),
        ("https://host/v1?key=a@b", "https://..."),
        ("https://me:pw@h:1/v1?x=1#y", "https://h:1/v1"),
        ("socks5://u:p@h:1", "socks5://h:1"),
        ("u:p@h:80", "h:80"),
        ("mail a@b.co", "mail a@b.co"),
        ("me@corp:pw@h", "h"),
        ("junk" * 50_000 + "://u:pw@h", "junk" * 50_000 + "://h"),
        ("a:" * 100_000 + "://", "a:" * 100_000 + "://"),
    ],
)
def test_a_url_is_shown_without_what_is_secret(text: str, shown: str) -> None:
    assert without_url_secrets(text) == shown


def twice(text: str) -> str:
    return json.dumps(json.dumps(text)[1:-1])[1:-1]


ODD_KEY = '\\\\a"b/c\\dé%41&x;1234567'
SPELLINGS: dict[str, Callable[[str], str]] = {
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON within JSON": twice,
    "and that within JSON": lambda text: twice(json.dumps(text)[1:-1]),
    "escaped within JSON": lambda text: json.dumps(escape(text))[1:-1],
    "escapes that are escaped": lambda text: escape(escape(text)),
    "a URL within JSON": lambda text: quote(json.dumps(text)[1:-1], safe=""),
    "HTML within JSON": lambda text: escape(html.escape(text)),
    "UTF-16": lambda text: "\0".join(text),
}


@pytest.mark.parametrize("key", [KEY, ODD_KEY])
@pytest.mark.parametrize("spell", SPELLINGS.values(), ids=SPELLINGS)
def test_a_key_in_no_spelling_is_left(key: str, spell: Callable[[str], str]) -> None:
    told = spell(key)
    left = Secrets([key]).clean_text(f"{{the {told} is}}")
    assert left in ("{the [secret] is}", "[secret]")
    assert Secrets(["bbaabbab"]).clean_text("%bba\\u0061bbab") == "%[secret]"


@pytest.mark.parametrize("text", [rb"\\", rb"\u005c", rb"\\u005c", b"%255c", b"&#92;"])
def test_escapes_for_megabytes_take_no_minutes(text: bytes) -> None:
    body = text * (2**20 // len(text))
    begun = time.process_time()
    assert Secrets(["\\" * 12 + ODD_KEY]).clean(body) == body
    assert time.process_time() - begun < 15


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_proxy_that_says_its_password_says_no_part_of_it(
    annotate_cli: Cli, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with socket.create_server(("127.0.0.1", 0)) as proxy:

        def refuse() -> None:
            asked, _ = proxy.accept()
            with asked:
                asked.recv(65536)
                asked.sendall(f"HTTP/1.1 407 {'x' * 175} {PASSWORD}\r\n\r\n".encode())

        threading.Thread(target=refuse, daemon=True).start()
        url = f"http://me:{PASSWORD}@127.0.0.1:{proxy.getsockname()[1]}"
        monkeypatch.setenv("HTTPS_PROXY", url)
        args = ("--model", "m", "--base-url", "https://judge.example/v1", "--attempts", "1")
        done = annotate_cli(runs(1), "--rubric", "comm_errors", *args)
    assert ("xxx [sec" in done.err, PASSWORD[:4] in done.err) == (True, False)


def test_no_error_behind_an_error_has_them() -> None:
    def fail() -> None:
        try:
            raise OSError(f"proxy {KEY}")
        except OSError as error:
            raise ValueError(f"it says {KEY}") from error

    with pytest.raises(ValueError, match="secret") as caught, Secrets([KEY]).kept():
        fail()
    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_common_words_are_no_secrets() -> None:
    for key in ("none", "ollama", "lm-studio", "short", "word"):
        assert Secrets([key]).clean_text(f"a {key} b") == f"a {key} b"


@pytest.mark.parametrize(
    "key",
    [
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c",
        "9F86D081884C7D659A2FEAA0C55AD015",
        "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy",
    ],
)
def test_a_key_whose_beginning_is_cut_off_is_found(key: str) -> None:
    clean = Secrets(
        [key, "prod-gpt-4o-mini-2024-07-18-long", "team-of-agents in failures"]
    ).clean_text
    for at in range(1, len(key) - 23):
        assert clean(f"it is ...{key[at:]}") == "[secret]"
    for text in ("gpt-4o-mini-2024-07-18-long", "agents in failures", key[-8:]):
        assert clean(text) == text


def test_the_host_of_an_address_is_no_secret() -> None:
    hook = "https://hooks.example.com/services/T000/B000/XYZXYZ0123456789"
    clean = Secrets([hook, "https://me:pass-word@h.example.com/x"]).clean_text
    for text in ("80% of https://hooks.example.com/other/thing", "https://h.example.com/x"):
        assert clean(text) == text
    assert clean(f"{hook[:-9]} and https://me:pass-wo") == "[secret] and [secret]"


def test_what_follows_a_key_for_megabytes_takes_no_more_room() -> None:
    text = (KEY + "x" * 2**20).encode()
    tracemalloc.start()
    try:
        assert Secrets([KEY]).clean(text) == b"[secret]"
        assert tracemalloc.get_traced_memory()[1] < 2 * len(text)
    finally:
        tracemalloc.stop()


def test_another_model_than_asked_for_is_counted_and_told(
    annotate_cli: Cli, runs: Runs, tmp_path: Path
) -> None:
    names = {"m-2026-01-31": "", "vendor/m": "", "cheap": "'m' was asked for"}
    for name, told in names.items():
        with OpenAIServer(scripted(replace(RIGHT, more={"model": name}))) as server:
            args = (runs(2), "--rubric", "comm_errors", "--model", "m", "--base-url", server.url)
            more = ("--mode", "json_schema", "--no-cache", "--out", name.replace("/", "-"))
            done = annotate_cli(*args, *more)
        assert (done.code, "was asked for" in done.err) == (0, bool(told)), done.err
        manifest = json.loads((tmp_path / name.replace("/", "-") / "run.json").read_text())
        assert manifest["learned"]["answered_by"] == {name: 2}


def test_a_server_that_counts_one_token_does_not_escape_the_budget(
    annotate_cli: Cli, runs: Runs, tmp_path: Path
) -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 1}
    with OpenAIServer(scripted(replace(RIGHT, more={"usage": usage}))) as server:
        args = (runs(30), "--rubric", "comm_errors", "--model", "m", "--base-url", server.url)
        more = ("--price-in", "10", "--price-out", "10", "--mode", "json_schema")
        limits = ("--max-cost", "0.5", "--context", "99999", "--out", "out")
        done = annotate_cli(*args, *more, *limits)
    assert done.code == 3, done.err
    assert len(server.seen) <= 3
    assert all(one.usage.cost_usd is None for one in annotations(tmp_path / "out").values())
