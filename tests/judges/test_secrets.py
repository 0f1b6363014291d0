"""Keys and passwords: in no words of a server that a run writes or shows. Answers are kept."""

import json
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from annotator.judges.llm.secrets import Secrets
from annotator.text import without_url_secrets
from tests.conftest import TALK, Done, annotations, run_name, set_model, write_run
from tests.judges.test_llm import IGNORED, RIGHT, scripted
from tests.openai_server import OpenAIServer, Reply, finding

Cli = Callable[..., Done]
Runs = Callable[..., Path]

KEY = "sk-proj-Hidden/Key+0123456789abcdefXYZ"
PASSWORD = "pA55-word.of-it"


def escape(text: str) -> str:
    return "".join(f"\\u{ord(char):04x}" for char in text)


CALL = {"id": f"a {KEY}", "function": {"name": f"b {KEY}"}}
CALLED = {"content": json.dumps(RIGHT.answer), "tool_calls": [CALL]}
ECHOES = {
    "a password": Reply(status=400, error={"message": f"no {PASSWORD}, no model"}),
    "a header's value": Reply(status=400, error={"message": "no value-of-header-1"}),
    "a refusal": Reply(refusal=f"I refuse {KEY}"),
    "an error": Reply(status=401, error={"message": f"Incorrect API key: {KEY}", "code": KEY}),
    "its beginning": Reply(status=401, error={"message": f"Incorrect API key: {KEY[:16]}..."}),
    "an escaped error": Reply(status=400, body=f'{{"error": {{"message": "{escape(KEY)}"}}}}'),
    "a page": Reply(status=403, body=f"<html>{KEY}</html>", headers={"Content-Type": "text/html"}),
    "another encoding": Reply(status=400, body=json.dumps({"error": KEY}).encode("utf-16")),
    "a redirect": Reply(status=302, headers={"Location": f"http://{KEY}@127.0.0.1:1/{KEY}"}),
    "a name": replace(RIGHT, more={"model": KEY}),
    "a word for the end": replace(RIGHT, finish=f"stop {KEY}"),
    "the id and the name of a tool": Reply(more={"choices": [{"message": CALLED}]}),
    "an error in an answer": Reply(body=json.dumps({"error": {"message": f"{KEY} is used up"}})),
    "a long error": Reply(status=400, error={"message": f"{'x' * 285} {KEY}"}),
    "no HTTP": Reply(raw=f"HTTP/1.1 200 {KEY}: x\r\n{KEY}\r\n\r\n".encode()),
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
        body = {"metadata": {"api_key": KEY}}
        args = (runs(1), "--rubric", "comm_errors", "--model", "m", "--base-url", url)
        more = set_model(mode="json_schema", attempts=1, reasks=1, extra_body=body)
        more += set_model(headers={"X": "MINE"})
        done = annotate_cli(*args, *more, "--out", "out")
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
        set_model(headers={f"Authorization: Bearer {KEY}": "x"}),
        set_model(headers={"X": f"Bearer {KEY}"}),
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


SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "in capitals": str.upper,
    "JSON": lambda text: json.dumps(text)[1:-1],
    "a URL": lambda text: quote(text, safe=""),
}
ODD_KEY = 'a"b/c\\dé%41&x;1234567'


@pytest.mark.parametrize("key", [KEY, ODD_KEY])
@pytest.mark.parametrize("spell", SPELLINGS.values(), ids=SPELLINGS)
def test_a_key_is_masked_as_it_is_as_json_and_as_a_url(
    key: str, spell: Callable[[str], str]
) -> None:
    clean = Secrets([key]).clean_text
    assert clean(f"{{the {spell(key)} is}}") == "{the [secret] is}"
    assert clean(f"the {spell(key[:16])}... is") == "the [secret] is"  # the rest was cut off
    assert clean(f"the {key[:15]} is") == f"the {key[:15]} is"


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
        args = ("--model", "m", "--base-url", "https://judge.example/v1", *set_model(attempts=1))
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
    for key in ("none", "ollama", "short", "word"):
        assert Secrets([key]).clean_text(f"a {key} b") == f"a {key} b"


PLACEHOLDER = "token-abc123"
TOKEN = ("message:1", f"Which field holds the unit? Call it with {PLACEHOLDER}")


@pytest.mark.parametrize(
    ("mode", "more"), [("json_schema", ()), ("tools", ()), ("json", ()), ("tools", ("--batch",))]
)
def test_a_trace_that_holds_the_key_is_labelled_as_with_another(
    annotate_cli: Cli,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    more: tuple[str, ...],
) -> None:
    """The placeholder of a local server stands in its users' traces."""
    for n in range(3):
        write_run(tmp_path / run_name(n), [("agent1", f"{TOKEN[1]}, in run {n}."), *TALK[1:]])
    found = []
    for key in (PLACEHOLDER, "another-key-9876"):
        monkeypatch.setenv("OPENAI_API_KEY", key)
        with OpenAIServer(scripted(finding("C1b", TOKEN, IGNORED))) as server:
            args = ("logs", "--rubric", "comm_errors", "--model", "m", "--base-url", server.url)
            done = annotate_cli(*args, *set_model(mode=mode), "--no-cache", *more, "--out", key)
            assert (done.code, len(server.seen)) == (0, 3), done.err
        found.append(
            {
                (one.trace_id, one.primary, *(item.quote for item in one.findings[0].evidence))
                for one in annotations(tmp_path / key).values()
            }
        )
    assert found[0] == found[1]
    assert {labels[1:] for labels in found[0]} == {("C1b", TOKEN[1], IGNORED[1])}


BATCHED = {
    "an error": Reply(status=400, error={"message": f"not for {KEY}", "code": "content_filter"}),
    "a refusal": Reply(refusal=f"not for {KEY}"),
    "a name": replace(RIGHT, more={"model": f"not for {KEY}"}),
}


@pytest.mark.parametrize("reply", BATCHED.values(), ids=BATCHED)
def test_a_servers_words_in_a_batch_are_stored_without_the_key(
    annotate_cli: Cli, runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reply: Reply
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with OpenAIServer(scripted(reply)) as server:
        args = (runs(2), "--rubric", "comm_errors", "--model", "m", "--base-url", server.url)
        done = annotate_cli(*args, *set_model(mode="json_schema"), "--batch", "--out", "out")
    files = [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
    texts = [done.out, done.err, *(file.read_bytes().decode("latin1") for file in files)]
    assert any("not for [secret]" in text for text in texts), texts
    assert not [text for text in texts if KEY in text]


def test_another_model_than_asked_for_is_counted_and_told(
    annotate_cli: Cli, runs: Runs, tmp_path: Path
) -> None:
    names = {"m-2026-01-31": "", "vendor/m": "", "cheap": "'m' was asked for"}
    for name, told in names.items():
        with OpenAIServer(scripted(replace(RIGHT, more={"model": name}))) as server:
            args = (runs(2), "--rubric", "comm_errors", "--model", "m", "--base-url", server.url)
            more = (*set_model(mode="json_schema"), "--no-cache", "--out", name.replace("/", "-"))
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
        more = ("--price-in", "10", "--price-out", "10", *set_model(mode="json_schema"))
        limits = ("--max-cost", "0.5", "--context", "99999", "--out", "out")
        done = annotate_cli(*args, *more, *limits)
    assert done.code == 3, done.err
    assert len(server.seen) <= 3
    assert all(one.usage.cost_usd is None for one in annotations(tmp_path / "out").values())
