"""Keys and passwords stand in no file, message or log. Answers are kept as they are."""

import json
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import quote

import pytest

from annotator.base.text import hide_url_secrets
from annotator.judges.llm.redact import Secrets
from tests.conftest import TALK, annotations, run_name, set_model, write_run
from tests.judges.ask import ARGS, IGNORED, RIGHT, ask, llm
from tests.server import Reply, Server, finding, scripted

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
}
BATCHED = ("a refusal", "an error", "a name")


@pytest.mark.parametrize(
    ("name", "more"),
    [*((name, ()) for name in ECHOES), *((name, ("--batch",)) for name in BATCHED)],
)
def test_what_a_server_echoes_is_written_and_shown_nowhere(
    annotate_cli, runs, tmp_path, monkeypatch, name, more
):
    runs(1)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("MINE", "value-of-header-1")
    with Server(scripted(ECHOES[name])) as server:
        url = server.url.replace("http://", f"http://me:{PASSWORD}@")
        limits = {"mode": "json_schema", "attempts": 1, "reasks": 1, "headers": {"X": "MINE"}}
        limits["extra_body"] = {} if more else {"metadata": {"api_key": KEY}}
        done = annotate_cli(
            *llm(server, "--base-url", url, *set_model(**limits), *more), "--out", "out"
        )
    files = [file for file in tmp_path.rglob("*") if file.is_file() and "logs" not in file.parts]
    texts = [done.out, done.err, *(file.read_bytes().decode("latin1") for file in files)]
    for secret in (KEY, KEY[:16], escape(KEY), PASSWORD, "value-of-header-1"):
        assert not [text for text in texts if secret in text]
    assert not [file for file in tmp_path.glob("out/*.*") if file.stat().st_mode & 0o077]


BROKEN = Reply(raw=f"HTTP/1.1 200 OK\r\nno header {KEY}\r\n\r\n".encode())


@pytest.mark.parametrize(
    "reply", [RIGHT, Reply(status=400, error={"message": "no"}), Reply(drop=True), BROKEN]
)
def test_no_secret_stands_in_a_log(trace, monkeypatch, caplog, reply):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with caplog.at_level("DEBUG"), Server(scripted(reply)) as server:
        url = server.url.replace("http://", f"http://me:{PASSWORD}@")
        one = ask(server, trace, mode="tools", attempts=1, base_url=url)
    for secret in (KEY, PASSWORD):
        assert secret not in caplog.text + (one.error or "")


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
def test_a_secret_in_the_wrong_place_is_refused_and_not_shown(annotate_cli, runs, given):
    runs(1)
    url = () if given[0] == "--base-url" else ("--base-url", "https://judge.example/v1")
    done = annotate_cli(*ARGS, "--model", "m", *url, *given)
    assert (done.code, KEY in done.err, "abcdef0123456789abcdef" in done.err) == (2, False, False)


@pytest.mark.parametrize("key", ["sk-1\nX-Evil: 1", "sk-\x07", "sk-\u00e9"])
def test_a_key_that_can_be_none_is_refused_and_not_shown(annotate_cli, runs, monkeypatch, key):
    runs(1)
    monkeypatch.setenv("MY_KEY", key)
    with Server() as server:
        done = annotate_cli(*llm(server, "--api-key-env", "MY_KEY"))
        assert (done.code, "in MY_KEY" in done.err, "sk-" in done.err) == (2, True, False)
        assert server.calls == 0


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
    ],
)
def test_a_url_is_shown_without_its_secrets(text, shown):
    assert hide_url_secrets(text) == shown


SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "in capitals": str.upper,
    "JSON": lambda text: json.dumps(text)[1:-1],
    "a URL": lambda text: quote(text, safe=""),
}


@pytest.mark.parametrize("key", [KEY, 'a"b/c\\dé%41&x;1234567'])
@pytest.mark.parametrize("spell", SPELLINGS.values(), ids=SPELLINGS)
def test_a_key_is_masked_in_each_spelling(key, spell):
    clean = Secrets([key]).redact
    assert clean(f"{{the {spell(key)} is}}") == "{the [secret] is}"
    assert clean(f"the {spell(key[:16])}... is") == "the [secret] is"  # the rest was cut off
    assert clean(f"the {key[:15]} is") == f"the {key[:15]} is"
    assert Secrets(["ollama"]).redact("an ollama b") == "an ollama b"


PLACEHOLDER = "token-abc123"
TOKEN = ("message:1", f"Which field holds the unit? Call it with {PLACEHOLDER}")


@pytest.mark.parametrize(("mode", "more"), [("json_schema", ()), ("tools", ("--batch",))])
def test_a_trace_that_holds_the_key_is_labelled_as_with_another(
    annotate_cli, tmp_path, monkeypatch, mode, more
):
    """The placeholder of a local server stands in its users' traces."""
    for n in range(3):
        write_run(tmp_path / run_name(n), [("agent1", f"{TOKEN[1]}, in run {n}."), *TALK[1:]])
    for key in (PLACEHOLDER, "another-key-9876"):
        monkeypatch.setenv("OPENAI_API_KEY", key)
        with Server(scripted(finding("C1b", TOKEN, IGNORED))) as server:
            args = llm(server, *set_model(mode=mode), "--no-cache", *more, "--out", key)
            assert annotate_cli(*args).code == 0
        found = annotations(tmp_path / key).values()
        labels = {
            (one.primary, *(item.quote for item in one.findings[0].evidence)) for one in found
        }
        assert (len(found), labels) == (3, {("C1b", TOKEN[1], IGNORED[1])})
