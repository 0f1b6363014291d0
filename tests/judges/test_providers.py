"""Each provider as it documents itself: what it is sent, and what its answers say and cost.

A server on this machine stands for all of them; a proxy leads hosted addresses to it.
"""

import json
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from annotator.base.errors import AnnotatorError
from annotator.judges.llm.provider import find_provider
from annotator.rubrics.annotations import Annotation
from annotator.traces import Trace
from tests.conftest import set_model
from tests.judges.ask import (
    ALL_APIS,
    ARGS,
    LONG,
    PRICED,
    RIGHT,
    TOOLS,
    ask,
    llm,
    manifest,
    refuse_above,
    statuses,
    totals,
)
from tests.server import NOTHING, Reply, Request, Responder, Server, least_answer, scripted

KEY = "sk-SECRET-of-the-key"
KEYS = {"anthropic": "ANTHROPIC_API_KEY", "gemini": "GEMINI_API_KEY"}
NATIVE = tuple(KEYS)
BEARER = {"Authorization": f"Bearer {KEY}", "api-key": None, "x-api-key": None}
IN_API_KEY = {"api-key": KEY, "Authorization": None}


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("NO_PROXY", raising=False)


TABLES = yaml.safe_load(Path(__file__).with_name("providers.yaml").read_text(encoding="utf-8"))
PROVIDERS, ADDRESSES, USAGES = (TABLES[name] for name in ("providers", "addresses", "usages"))


def ask_provider(
    server: Server, monkeypatch: pytest.MonkeyPatch, name: str, trace: Trace, **more: Any
) -> Annotation:
    provider = PROVIDERS[name]
    base = provider["base"]
    more |= {"base_url": base} if base else {"dialect": name.split()[0]}
    monkeypatch.setenv("HTTP_PROXY", server.root)
    return ask(server, trace, **more)


@pytest.mark.parametrize("name", PROVIDERS)
def test_it_is_asked_in_its_own_way(trace, monkeypatch, name):
    provider = PROVIDERS[name]
    unsupported = provider.get("unsupported", "ignore")
    with Server(scripted(RIGHT), provider["forms"], unsupported) as server:
        annotation = ask_provider(server, monkeypatch, name, trace, max_output_tokens=900, seed=5)
        [request] = server.seen
        assert [probe.form for probe in server.probes] == provider["probed"]
    assert annotation.status == "labelled", annotation.error
    headers = provider.get("headers", BEARER)
    assert {head: request.headers.get(head) for head in headers} == headers
    assert request.url.endswith(provider.get("path", "/chat/completions"))
    body = request.body
    assert body.get("plugins") == provider.get("plugins")
    assert body["random_seed" if name == "mistral" else "seed"] == 5
    caps = {"max_tokens", "max_completion_tokens"} & body.keys()
    assert {cap: body[cap] for cap in caps} == {provider["cap"]: 900}


@pytest.mark.parametrize("name", PROVIDERS)
def test_its_words_for_a_prompt_that_is_too_long_are_read_with_their_numbers(monkeypatch, name):
    """12,000 tokens are read, 19,000 sent."""
    provider = PROVIDERS[name]
    fields = provider.get("fields", {})
    refuse = refuse_above(12_000, provider["too_long"], lambda _: NOTHING, **fields)

    def respond(request: Request) -> Reply:
        reply = refuse(request)  # Gemini sends a list
        body = json.dumps([{"error": reply.error}]) if name == "gemini" and reply.error else None
        return replace(reply, body=body)

    with Server(respond) as server:
        annotation = ask_provider(server, monkeypatch, name, LONG, mode="json")
        assert 2 <= server.calls <= 1 + provider.get("retries", 1)
    assert annotation.status == "none", annotation.error


@pytest.mark.parametrize(("url", "name"), ADDRESSES.items())
def test_a_provider_is_known_by_its_address(url, name):
    assert find_provider(url).name == name


# An API -> parts of what is sent, and what a usage says.
SENT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "responses": (
        {"store": False, "max_output_tokens": 900, "reasoning": {"effort": "low"}},
        {"cached_tokens": 5, "reasoning_tokens": 3},
    ),
    "anthropic": (
        {"max_tokens": 900, "thinking": {"type": "adaptive"}},
        {"cached_tokens": 100, "cache_write_tokens": 200, "reasoning_tokens": 3},
    ),
    "gemini": ({}, {"cached_tokens": 100, "reasoning_tokens": 7}),
}


@pytest.mark.parametrize("api", SENT)
def test_what_each_api_is_sent_and_counts(trace, api):
    fields, counts = SENT[api]
    extra = {
        "anthropic": {"thinking": {"type": "adaptive"}, "output_config": {"x": 1}},
        "gemini": {"generationConfig": {"topP": 0.5}, "safetySettings": [{"threshold": "OFF"}]},
    }.get(api, {})
    more: dict[str, Any] = {"max_output_tokens": 900, "reasoning_effort": "low"}
    more |= {"extra_body": extra} | ({"seed": 3, "temperature": 0.5} if api == "gemini" else {})
    with Server(scripted(RIGHT)) as server:
        annotation = ask(server, trace, api=api, **more)
        [request] = server.seen
    body = request.sent
    assert annotation.status == "labelled", annotation.error
    assert fields.items() <= body.items()
    assert {name: getattr(annotation.usage, name) for name in counts} == counts
    assert annotation.usage.input_tokens > 300
    if api == "anthropic":
        assert request.url.endswith("/v1/messages")
        assert [one["cache_control"] for one in body["system"]] == [{"type": "ephemeral"}]
        assert "cache_control" not in json.dumps(body["messages"])
        config = body["output_config"]
        assert (config["effort"], config["x"]) == ("low", 1)
        assert config["format"]["type"] == "json_schema"
        assert "temperature" not in body
    if api == "gemini":
        assert request.url.endswith("/v1beta/models/test-model:generateContent")
        config = body["generationConfig"]
        assert (config["topP"], config["seed"], config["temperature"]) == (0.5, 3, 0.5)
        assert config["thinkingConfig"] == {"thinkingLevel": "LOW"}
        assert (config["maxOutputTokens"], config["responseMimeType"]) == (900, "application/json")
        assert next(iter(config["responseJsonSchema"]["properties"])) == "first_tag"
        assert (len(body["safetySettings"]), len(body["contents"])) == (1, 1)


def test_a_wrong_call_is_answered_as_a_call(trace):
    wrong = scripted(Reply(answer={"findings": []}), RIGHT)
    with Server(wrong) as server:
        ask(server, trace, api="anthropic", mode="tools")
        first, second = (request.sent for request in server.seen)
    assert first["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    [use], [result] = (turn["content"] for turn in second["messages"][1:])
    assert (use["type"], result["type"], result["is_error"]) == ("tool_use", "tool_result", True)
    assert use["id"] == result["tool_use_id"]
    with Server(scripted(Reply(answer={"findings": []}), RIGHT)) as server:
        ask(server, trace, api="gemini", mode="named")
        [call], [response] = (turn["parts"] for turn in server.seen[1].sent["contents"][1:])
    assert (call["thoughtSignature"], call["functionCall"]["name"]) == ("c2ln", "Annotation")
    assert response["functionResponse"]["name"] == "Annotation"
    assert "label" in response["functionResponse"]["response"]["error"]
    with Server(scripted(Reply(answer={"findings": []}), RIGHT)) as server:
        ask(server, trace, mode="tools")
        said, *told = server.seen[1].messages[2:]
    assert [call["function"]["name"] for call in said["tool_calls"]] == ["Annotation"]
    assert told[0]["tool_call_id"] == said["tool_calls"][0]["id"]


@pytest.mark.parametrize("api", NATIVE)
def test_a_run_by_a_providers_own_api(annotate_cli, runs, monkeypatch, api):
    runs(3)
    monkeypatch.setenv(KEYS[api], KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("TEAM", "red")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Cost: b")
    with Server(scripted(RIGHT)) as server:
        args = (*ARGS, "--model", "m-1", "--base-url", server.root, "--api", api, "--out", "out")
        args += (*set_model(headers={"X-Team": "TEAM"}), *PRICED)
        done = annotate_cli(*args)
        assert (done.code, len(server.seen), len(server.probes)) == (0, 3, 1), done.err
        headers, form = server.seen[0].headers, server.seen[0].form
        assert annotate_cli(*args, "--resume").code == 0
        other = annotate_cli(*args, "--resume", "--api", "chat")
        assert (other.code, "api" in other.err, server.calls) == (2, True, 4)
    assert (statuses(), form, headers["X-Team"]) == (["labelled"] * 3, "strict", "red")
    shown = {"anthropic": "Authorization", "gemini": "x-goog-api-key"}[api]
    assert headers[shown].removeprefix("Bearer ") == KEY
    assert "X-Cost" not in headers, "meant for OpenAI"
    assert (manifest()["judge"]["api"], totals()["calls"]) == (api, 4)
    written = done.out + done.err + "".join(map(Path.read_text, Path("out").glob("*.js*")))
    assert KEY not in written


def test_a_password_goes_in_place_of_anthropics_key(trace, monkeypatch):
    monkeypatch.setenv(KEYS["anthropic"], KEY)
    with Server(scripted(RIGHT)) as server:
        url = server.root.replace("http://", "http://me:pass@")
        assert ask(server, trace, api="anthropic", mode="tools", base_url=url).status == "labelled"
        assert server.seen[0].headers.getall("Authorization") == [basic("me", "pass")]


# Options -> what is refused before any call.
REFUSED_OPTIONS: dict[str, tuple[tuple[object, ...], str]] = {
    "a batch": (("--api", "anthropic", "--batch"), "--api anthropic does not have"),
    "no key of Anthropic": (("--api", "anthropic"), "variable ANTHROPIC_API_KEY"),
    "another provider's words": (
        *(("--api", "anthropic", *set_model(dialect="vllm")), "has its own"),
    ),
    "a seed for Anthropic": (("--api", "anthropic", "--seed", "1"), "takes none"),
    "an unknown provider": (
        set_model(dialect="klingon"),
        "openai, azure, mistral, gemini, openrouter",
    ),
}


@pytest.mark.parametrize(("more", "words"), REFUSED_OPTIONS.values(), ids=REFUSED_OPTIONS)
def test_what_a_provider_lacks_is_refused(annotate_cli, runs, monkeypatch, more, words):
    runs(1)
    for name in KEYS.values():
        monkeypatch.delenv(name, raising=False)
    if "--batch" in more or "--batch-file" in more:
        monkeypatch.setenv(KEYS[more[1]], KEY)
    done = annotate_cli(*ARGS, "--model", "m", *more)
    assert (done.code, words in " ".join(done.err.split())) == (2, True), done.err


# Models that have nothing but the Responses API.

ONLY = "This model is only supported in v1/responses and not in v1/chat/completions."
NO_CHAT = "This is not a chat model and thus not supported in the v1/chat/completions endpoint."


@pytest.mark.parametrize("words", [ONLY, NO_CHAT])
def test_a_model_without_chat_is_asked_by_the_responses_api(trace, words):
    with Server(scripted(RIGHT), responses_only=words) as server:
        annotation = ask(server, trace, api="auto", mode="tools")
        assert annotation.status == "labelled", annotation.error
        assert [request.url for request in server.seen] == [f"{server.url}/responses"]


def test_it_is_found_out_once(annotate_cli, runs):
    runs(5)
    with Server(scripted(RIGHT), responses_only=ONLY) as server:
        args = (*ARGS, "--model", "m", "--base-url", server.url, "--concurrency", "1")
        assert annotate_cli(*args, "--out", "out").code == 0
        assert server.calls == 1 + 1 + 5  # refused, the form, the traces
        assert (totals()["calls"], manifest()["learned"]["api"]) == (6, "responses")
        chat = annotate_cli(*args, "--api", "chat", "--out", "chat", "--no-cache")
        assert (chat.code, "only supported in v1/responses" in chat.err) == (2, True)
        seed = annotate_cli(*args, "--seed", "1", "--out", "seed", "--no-cache")
        assert (seed.code, "takes no seed" in seed.err) == (2, True)


# A path of Azure -> the endpoint of its batches, and the query.
AZURES = {
    "openai/deployments/d?api-version=2024-10-21": ("openai", "?api-version=2024-10-21"),
    "openai/v1": ("openai/v1", ""),
}


@pytest.mark.parametrize("path", AZURES)
def test_batches_and_responses_at_azure_belong_to_no_deployment(
    annotate_cli, runs, monkeypatch, trace, path
):
    runs(3)
    root, query = AZURES[path]
    url = f"http://me.openai.azure.com/{path}"
    for name in ("AZURE_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, KEY)
    with Server(scripted(RIGHT)) as server:
        monkeypatch.setenv("HTTP_PROXY", server.root)
        args = (*ARGS, "--model", "d", "--batch", "--out", "out", "--api-key-env", "AZURE_KEY")
        done = annotate_cli(*args, "--base-url", url)
        assert (done.code, statuses()) == (0, ["labelled"] * 3), done.err
        [batch] = server.batches.created
        [upload] = server.batches.uploads
        assert batch["endpoint"] == "/chat/completions"
        assert (upload.headers["api-key"], "Authorization" in upload.headers) == (KEY, False)
        assert str(upload.url) == f"http://me.openai.azure.com/{root}/files{query}"
        server.seen.clear()
        server.responses_only = ONLY
        for api in ("auto", "responses"):
            ask(server, trace, api=api, base_url=url)
        urls = {request.url for request in server.seen}
    assert urls == {f"http://me.openai.azure.com/{root}/responses{query}"}


def test_batches_of_the_responses_api(annotate_cli, runs):
    runs(3)
    with Server(scripted(RIGHT)) as server:
        done = annotate_cli(*llm(server, "--api", "responses", "--batch", "--out", "out"))
        assert [batch["endpoint"] for batch in server.batches.created] == ["/v1/responses"]
    assert (done.code, statuses()) == (0, ["labelled"] * 3), done.err


# Where the model is asked, with which environment -> the headers of the request.


def basic(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


CALLS: dict[str, tuple[str, str, dict[str, str], dict[str, str | None]]] = {
    "a key": ("", "", {}, {"Authorization": f"Bearer {KEY}", "api-key": None}),
    "a password": ("me:pa%40ss@", "", {}, {"Authorization": basic("me", "pa@ss")}),
    "Azure": ("", "?api-version=2024-10-21", {}, IN_API_KEY),
    "organization and project": (
        *("", "?deployment=a%20b", {"OPENAI_ORG_ID": "org", "OPENAI_PROJECT_ID": "proj"}),
        {"OpenAI-Organization": "org", "OpenAI-Project": "proj"},
    ),
    "more headers": ("", "", {"OPENAI_CUSTOM_HEADERS": "X-Team: a\nX-Cost: b"}, {"X-Cost": "b"}),
}


@pytest.mark.parametrize("name", CALLS)
def test_each_way_to_be_let_in(trace, monkeypatch, name):
    user, query, environment, headers = CALLS[name]
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    with Server(scripted(RIGHT)) as server:
        url = server.url.replace("http://", f"http://{user}") + query
        annotation = ask(server, trace, mode="tools", base_url=url)
        [request] = server.seen
    assert annotation.status == "labelled", annotation.error
    assert request.url.endswith(f"/v1/chat/completions{query.replace('%20', '+')}")
    assert {name: request.headers.get(name) for name in headers} == headers
    assert request.headers["User-Agent"].startswith("failure-annotator/")
    assert request.headers["Accept-Encoding"] == "gzip, deflate"


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_a_proxy_is_used_but_not_to_this_machine(trace, monkeypatch, name):
    with Server(scripted(RIGHT)) as proxy, Server(scripted(RIGHT)) as server:
        monkeypatch.setenv(name, proxy.root)
        ask(server, trace, mode="tools", base_url="http://judge.example/v1")
        assert ask(server, trace, mode="tools").status == "labelled"
        urls = [request.url for request in proxy.seen]
        assert urls == ["http://judge.example/v1/chat/completions"]
        assert len(server.seen) == 1


def test_headers_are_sent_and_their_values_written_nowhere(annotate_cli, runs, monkeypatch, caplog):
    runs(1)
    monkeypatch.setenv("MY_TOKEN", "tok-SECRET-1")
    monkeypatch.setenv("TEAM", "blue-SECRET-2")
    headers = set_model(headers={"X-Gateway-Token": "MY_TOKEN", "X-Team": "TEAM"})
    with caplog.at_level("DEBUG"), Server(scripted(RIGHT)) as server:
        args = llm(server, *TOOLS, *headers)
        done = annotate_cli(*args, "--out", "out")
        [request] = server.seen
        sent = (request.headers["X-Gateway-Token"], request.headers["X-Team"])
        assert sent == ("tok-SECRET-1", "blue-SECRET-2")
        written = "".join(file.read_text() for file in Path("out").iterdir())
        assert "SECRET" not in done.out + done.err + written + caplog.text
        assert '"X-Gateway-Token": "' in written
        annotate_cli(*args, "--out", "same")
        assert server.calls == 1  # the answer is known
        monkeypatch.setenv("TEAM", "red")
        resumed = annotate_cli(*args, "--out", "out", "--resume")
        assert (resumed.code, "X-Team" in resumed.err) == (2, True)
        annotate_cli(*args, "--out", "red")
        assert server.calls == 2  # another header may lead to another model


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ({"X-Token": "NOT_SET"}, "the environment variable is not set"),
        ({"X-Token": "sk-1234"}, "expected the name of an environment variable"),
        ({"Content-Length": "HOME"}, "cannot be set there"),
        ({"X-Token": "EVIL"}, "what no header can"),
    ],
)
def test_a_header_that_cannot_be_is_refused_and_its_value_not_shown(
    annotate_cli, runs, monkeypatch, header, words
):
    runs(1)
    monkeypatch.setenv("EVIL", "a\nX-Evil: SECRET")
    with Server(scripted(RIGHT)) as server:
        done = annotate_cli(*llm(server, *set_model(headers=header)), "--out", "out")
        assert (done.code, server.calls) == (2, 0)
    assert words in " ".join(done.err.split())
    assert "SECRET" not in done.err
    assert "sk-1234" not in done.err


# An address, a variable that is set -> whether the key is enough.
NEED_A_KEY = {
    "far away": ("https://api.example.com/v1", "", False),
    "a key": ("https://api.example.com/v1", "OPENAI_API_KEY", True),
    "this machine": ("http://localhost:9/v1", "", True),
    "a name that begins like this machine": ("http://127.0.0.1.example.com/v1", "", False),
}


@pytest.mark.parametrize(("url", "variable", "fine"), NEED_A_KEY.values(), ids=NEED_A_KEY)
def test_a_missing_key_is_an_error_before_any_call(
    annotate_cli, runs, monkeypatch, url, variable, fine
):
    runs(1)
    if variable:
        monkeypatch.setenv(variable, "k")
    else:
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    limits = set_model(attempts=1, max_wait=0)
    done = annotate_cli(*ARGS, "--model", "m", "--base-url", url, *limits, "--out", "out")
    assert (done.code, "variable OPENAI_API_KEY" in done.err) == (2, not fine), done.err


@pytest.mark.parametrize("url", ["localhost:8000/v1", "http://localhost:abc/v1", "ftp://x/v1"])
def test_a_url_that_cannot_be_called_is_an_error_before_any_call(trace, url):
    with Server() as server, pytest.raises(AnnotatorError, match="is no URL"):
        ask(server, trace, base_url=url)


# The form of an answer.

# The forms that a server takes, how it shows that, whether it is another machine -> the form, and
# how many tiny questions that took.
FORMS: dict[str, tuple[tuple[str, ...], Any, bool, str, int]] = {
    "all": (("json_schema", "tools", "named"), "ignore", False, "json_schema", 1),
    "ignores schemas": (("tools", "named"), "ignore", False, "tools", 2),
    "rejects schemas": (("tools", "named"), "400", False, "tools", 2),
    "500 on schemas": (("tools", "named"), "500", False, "tools", 3),
    "only a named function": (("named",), "ignore", False, "named", 3),
    "plain text only": ((), "ignore", False, "plain", 3),
    "500 on all": ((), "500", False, "plain", 6),
    "nothing strict": (("json_schema", "tools", "named"), "400", True, "json_schema", 2),
    "no schema, elsewhere": (("tools", "named"), "ignore", True, "tools", 3),
    "plain text only, elsewhere": ((), "400", True, "plain", 4),
}


@pytest.mark.parametrize(("forms", "how", "away", "used", "probes"), FORMS.values(), ids=FORMS)
def test_the_form_is_found_out_once_for_a_run(
    annotate_cli, runs, monkeypatch, forms, how, away, used, probes
):
    runs(2)
    with Server(scripted(RIGHT), forms=forms, unsupported=how) as server:
        monkeypatch.setenv("HTTP_PROXY", server.root)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        more = ("--base-url", "http://judge.example/v1") if away else ()
        done = annotate_cli(*llm(server, *more), "--out", "out")
        assert [request.form for request in server.seen] == [used, used], done.err
        assert len(server.probes) == probes == manifest()["overhead"]["calls"]
        schema = server.seen[0].schema
        assert server.probes[-1].schema == schema or used == "plain"
    assert statuses() == ["labelled"] * 2


INVALID = {"message": "Invalid schema for response_format 'Annotation'", "type": "invalid"}
REFUSED = Reply(status=400, error=INVALID)


def refuse(form: str, reply: Reply, otherwise: Reply = RIGHT) -> Responder:
    return lambda request: reply if request.form == form else otherwise


def test_a_refused_form_is_left_once_for_all_traces_and_runs(annotate_cli, runs):
    runs(8)
    with Server(refuse("json_schema", REFUSED)) as server:
        assert annotate_cli(*llm(server), "--out", "out").code == 0
        assert len(server.probes) == 1
        server.seen.clear()
        runs(9)
        assert annotate_cli(*llm(server), "--out", "two").code == 0
        assert [request.form for request in server.seen] == ["tools"], "it is remembered"
    assert statuses() == ["labelled"] * 8
    learned = manifest()["learned"]
    assert learned["mode"] == "tools"
    assert "Invalid schema" in learned["refused_modes"]["json_schema"]


NO_ENDPOINTS = "No endpoints found that can handle the requested parameters."
CUT = Reply(text='{"findings": [{"code"', finish="length")
# How the tiny question and the others are answered -> the form of the last request, the status.
WAYS: dict[str, tuple[Any, Responder, str, str]] = {
    "refused in any words": (
        lambda one: one.n > 1 and one.form == "json_schema",
        refuse("json_schema", Reply(status=422, error={"message": "cannot"})),
        *("tools", "labelled"),
    ),
    "a tiny question that is cut off": (scripted(CUT), scripted(RIGHT), "json_schema", "labelled"),
    "parameters that no provider takes": (
        lambda one: one.form == "json_schema", scripted(RIGHT), "tools", "labelled",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("probe", "responder", "form", "status"), WAYS.values(), ids=WAYS)
def test_the_form_follows_what_a_server_refuses(trace, probe, responder, form, status):
    def answer(request: Request) -> Reply:
        reply = probe(request)
        if reply is True:
            return Reply(status=404, error={"message": NO_ENDPOINTS})
        return reply or Reply(answer=least_answer(request.schema))

    with Server(responder, probe=answer if probe else None) as server:
        assert ask(server, trace, attempts=4).status == status
        assert server.seen[-1].form == form


def test_a_form_that_the_user_asks_for_is_not_changed(trace):
    with Server(scripted(REFUSED), probe=scripted(REFUSED)) as server:
        with pytest.raises(AnnotatorError, match="Invalid schema"):
            ask(server, trace, mode="strict")
        assert {request.form for request in server.seen} == {"strict"}


def test_an_outage_does_not_decide_the_form(annotate_cli, runs):
    runs(1)
    down = scripted(Reply(status=500, error={"message": "down"}))
    with Server(down, probe=down) as server:
        assert annotate_cli(*llm(server), "--out", "one").code == 2
        server.responder, server.probe = scripted(RIGHT), None
        assert annotate_cli(*llm(server), "--out", "two").code == 0
        assert server.seen[-1].form == "json_schema"


@pytest.mark.parametrize("name", USAGES)
def test_what_each_server_says_it_used(trace, name):
    dialect, more, dollars, *tokens = USAGES[name]
    counts = {"prompt_tokens": 4_000, "completion_tokens": 200, **more}
    usage = {name: count for name, count in counts.items() if count is not None}
    with Server(scripted(replace(RIGHT, more={"usage": usage}))) as server:
        prices = {"price_in": 0.5, "price_out": 8.0}
        used = ask(server, trace, mode="tools", dialect=dialect, **prices).usage
    assert used.calls == 1
    assert used.cost_usd == (dollars and pytest.approx(dollars))
    assert [used.cached_tokens, used.cache_write_tokens, used.reasoning_tokens] == tokens


@pytest.mark.parametrize("api", ALL_APIS)
def test_a_longest_answer_is_doubled_once(trace, api):
    with Server(scripted(Reply(text="{", finish="length"), RIGHT)) as server:
        assert ask(server, trace, api=api, mode="json", max_output_tokens=50).status == "labelled"
        bodies = [request.sent for request in server.seen]
    names = ("max_completion_tokens", "max_tokens", "max_output_tokens")
    caps = [next((body[name] for name in names if name in body), None) for body in bodies]
    if api == "gemini":
        caps = [body["generationConfig"]["maxOutputTokens"] for body in bodies]
    assert caps == [50, 100]


def test_another_model_than_asked_for_is_counted_and_told(annotate_cli, runs):
    runs(2)
    for name, told in {"m-2026-01-31": False, "vendor/m": False, "cheap": True}.items():
        with Server(scripted(replace(RIGHT, more={"model": name}))) as server:
            folder = name.replace("/", "-")
            done = annotate_cli(*llm(server, *TOOLS, "--no-cache", "--out", folder))
        assert (done.code, "'m' was asked for" in done.err) == (0, told), done.err
        assert manifest(folder)["learned"]["answered_by"] == {name: 2}
