"""Each kind of server, as its provider documents it: a server on this machine stands for it.

Hosted ones are asked at their own addresses, which a proxy leads here.
"""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from annotator.annotations import Annotation
from annotator.errors import JudgeStopped
from annotator.judges.llm.dialects import NAMES, find_dialect
from annotator.judges.llm.settings import Options
from annotator.rubrics import Rubric
from annotator.traces import Trace
from tests.conftest import Done, set_model
from tests.judges.test_cache import totals
from tests.judges.test_llm import RIGHT, judged, scripted
from tests.judges.test_long import LONG, sent
from tests.openai_server import NOTHING, OpenAIServer, Reply, Request, least_answer
from tests.runs.test_run import statuses

Cli = Callable[..., Done]
Runs = Callable[..., Path]
KEY = "sk-SECRET-of-the-key"
BEARER = {"Authorization": f"Bearer {KEY}", "api-key": None, "x-api-key": None}
IN_API_KEY = {"api-key": KEY, "Authorization": None}


@dataclass(frozen=True)
class Provider:
    """What one documents. ``base``: its address, "" for a server on this machine.

    ``cap``: its name for the longest answer; ``forms``: those that it takes, and ``asked`` those in
    which we ask it before a run; ``too_long``: its error for a prompt of ``{asked}`` tokens where
    it reads ``{limit}``; ``sends``: what every request says.
    """

    base: str
    cap: str
    forms: tuple[str, ...]
    asked: tuple[str, ...]
    too_long: str
    headers: Mapping[str, str | None] = field(default_factory=lambda: BEARER)
    path: str = "/chat/completions"
    fields: Mapping[str, str] = field(default_factory=dict)
    as_list: bool = False
    unsupported: str = "ignore"
    sends: Mapping[str, object] = field(default_factory=dict)


BOTH = ("json_schema", "tools")
HOSTED = ("strict", *BOTH)
WHOLE = {"plugins": [{"id": "context-compression", "enabled": False}]}
OURS = "This model's maximum context length is {limit} tokens. However, "
PROVIDERS = {
    "openai": Provider(
        "http://api.openai.com/v1",
        "max_completion_tokens",
        HOSTED,
        ("strict",),
        OURS + "your messages resulted in {asked} tokens. Please reduce the length.",
    ),
    "azure": Provider(
        "http://me.openai.azure.com/openai/v1",
        "max_completion_tokens",
        HOSTED,
        ("strict",),
        OURS + "your messages resulted in {asked} tokens. Please reduce the length.",
        IN_API_KEY,
    ),
    "azure with a deployment": Provider(
        "http://me.openai.azure.com/openai/deployments/d?api-version=2024-10-21",
        "max_completion_tokens",
        HOSTED,
        ("strict",),
        OURS + "your messages resulted in {asked} tokens. Please reduce the length.",
        IN_API_KEY,
        "/openai/deployments/d/chat/completions?api-version=2024-10-21",
    ),
    "mistral": Provider(
        "http://api.mistral.ai/v1",
        "max_tokens",
        HOSTED,
        ("strict",),
        "Prompt contains {asked} tokens and 0 draft tokens, too large for model with {limit}"
        " maximum context length",
    ),
    "gemini": Provider(
        "http://generativelanguage.googleapis.com/v1beta/openai",
        "max_tokens",
        HOSTED,
        ("strict",),
        "The input token count ({asked}) exceeds the maximum number of tokens allowed ({limit}).",
        as_list=True,
    ),
    "openrouter": Provider(
        "http://openrouter.ai/api/v1",
        "max_tokens",
        ("tools",),
        ("strict", "json_schema", "tools"),
        "This endpoint's maximum context length is {limit} tokens. However, you requested about"
        " {asked} tokens (99 of text input, 9 of tool input).",
        unsupported="404",
        sends=WHOLE,
    ),
    "anthropic": Provider(
        "http://api.anthropic.com/v1",
        "max_tokens",
        ("tools",),
        ("tools",),
        "prompt is too long: {asked} tokens > {limit} maximum",
    ),
    "ollama": Provider(
        "",
        "max_tokens",
        ("json_schema",),
        ("json_schema",),
        "the input length exceeds the context length",
    ),
    "lmstudio": Provider(
        "",
        "max_tokens",
        ("json_schema",),
        ("json_schema",),
        "Trying to keep the first {asked} tokens when context the overflows. However, the model is"
        " loaded with context length of only {limit} tokens, which is not enough.",
    ),
    "llamacpp": Provider(
        "",
        "max_tokens",
        ("json_schema",),
        ("json_schema",),
        "the request exceeds the available context size, try increasing it",
        fields={"n_prompt_tokens": "{asked}", "n_ctx": "{limit}"},
    ),
    "vllm": Provider(
        "",
        "max_completion_tokens",
        BOTH,
        ("json_schema",),
        OURS + "your request has {asked} input tokens. Please reduce the length of the messages.",
    ),
    "sglang": Provider(
        "",
        "max_completion_tokens",
        BOTH,
        ("json_schema",),
        "The input ({asked} tokens) is longer than the model's context length ({limit} tokens).",
    ),
}
# What a newer version says.
NEWER = "Cannot truncate prompt with n_keep ({asked}) >= n_ctx ({limit})"
PROVIDERS["lmstudio 0.4"] = replace(PROVIDERS["lmstudio"], too_long=NEWER)
# Its words have no numbers.
SILENT = ("ollama",)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("NO_PROXY", raising=False)


def ask(
    server: OpenAIServer,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    trace: Trace,
    rubric: Rubric,
    **more: Any,
) -> Annotation:
    """Ask the server that stands for a provider: at the provider's address, or as its dialect."""
    provider = PROVIDERS[name]
    if provider.base:
        monkeypatch.setenv("HTTP_PROXY", server.url.removesuffix("/v1"))
        more = {"base_url": provider.base} | more
    else:
        more = {"dialect": name.split()[0]} | more
    return judged(server, trace, rubric, **more)


@pytest.mark.parametrize("name", PROVIDERS)
def test_it_is_asked_in_its_own_way(
    trace: Trace, rubric: Rubric, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    provider = PROVIDERS[name]

    seed = "random_seed" if name == "mistral" else "seed"

    def respond(request: Request) -> Reply:
        assert request.body.get(seed) == 5
        other = {"max_tokens", "max_completion_tokens"} - {provider.cap}
        assert not other & request.body.keys()
        return RIGHT if request.body[provider.cap] == 900 else Reply(status=400)

    with OpenAIServer(respond, provider.forms, unsupported=provider.unsupported) as server:
        annotation = ask(server, monkeypatch, name, trace, rubric, max_output_tokens=900, seed=5)
        assert annotation.status == "labelled", annotation.error
        [request] = server.seen
        assert tuple(probe.form for probe in server.probes) == provider.asked
        assert {head: request.headers.get(head) for head in provider.headers} == provider.headers
        assert {name: request.body.get(name) for name in WHOLE} == {"plugins": None} | {
            **provider.sends
        }
        assert request.url.endswith(provider.path)


@pytest.mark.parametrize("name", PROVIDERS)
def test_its_words_for_a_prompt_that_is_too_long_are_read_with_their_numbers(
    rubric: Rubric, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """12,000 tokens are read, 19,000 sent."""
    provider = PROVIDERS[name]

    def refuse(asked: int, limit: int) -> Reply:
        error: dict[str, Any] = {"message": provider.too_long.format(asked=asked, limit=limit)}
        for key, value in provider.fields.items():
            error[key] = int(value.format(asked=asked, limit=limit))
        body = [{"error": error}] if provider.as_list else {"error": error}
        return Reply(status=400, body=json.dumps(body))

    def respond(request: Request) -> Reply:
        asked = sent(request) // 4
        return NOTHING if asked <= 12_000 else refuse(asked, 12_000)

    with OpenAIServer(respond) as server:
        annotation = ask(server, monkeypatch, name, LONG, rubric, mode="json")
        calls = server.calls
    assert annotation.status == "none", annotation.error
    assert calls == 2 or (name in SILENT and calls <= 4)


def test_what_is_sent_to_every_model_of_a_provider_gives_way_to_the_users_own(
    trace: Trace, rubric: Rubric
) -> None:
    own = {"plugins": [{"id": "web"}]}
    with OpenAIServer(scripted(RIGHT)) as server:
        judged(server, trace, rubric, mode="tools", dialect="openrouter", extra_body=own)
        [request] = server.seen
    assert request.body["plugins"] == own["plugins"]


def test_parameters_that_no_provider_takes_are_a_form_that_is_left(
    trace: Trace, rubric: Rubric
) -> None:
    """OpenRouter's words where it is told to ask only providers that take all of a request."""
    words = "No endpoints found that can handle the requested parameters."
    refused = Reply(status=404, error={"message": words, "code": 404})

    def probe(request: Request) -> Reply:
        return (
            refused if request.form == "json_schema" else Reply(answer=least_answer(request.schema))
        )

    strictly = {"provider": {"require_parameters": True}}
    with OpenAIServer(scripted(RIGHT), probe=probe) as server:
        judged(server, trace, rubric, dialect="openrouter", extra_body=strictly)
        assert [request.form for request in server.seen] == ["tools"]


# An address -> whose it is.
ADDRESSES = {
    "https://api.openai.com/v1": "openai",
    "https://eu.api.openai.com/v1": "openai",
    "https://me.openai.azure.com/openai/v1": "azure",
    "https://me.services.ai.azure.com/openai/v1/": "azure",
    "https://gateway.example/openai/deployments/d?api-version=2024-10-21": "azure",
    "https://api.mistral.ai/v1": "mistral",
    "https://generativelanguage.googleapis.com/v1beta/openai/": "gemini",
    "https://openrouter.ai/api/v1": "openrouter",
    "https://api.anthropic.com/v1/": "anthropic",
    "http://localhost:11434/v1": "ollama",
    "http://127.0.0.1:1234/v1": "lmstudio",
    "http://127.0.0.1:8080/v1": "llamacpp",
    "http://localhost:8000/v1": "vllm",
    "http://[::1]:30000/v1": "sglang",
    "https://api.mistral.ai.evil.example/v1": "generic",
    "https://notopenrouter.ai/api/v1": "generic",
    "https://judge.example:8000/v1": "generic",
    "http://localhost:9999/v1": "generic",
}


@pytest.mark.parametrize(("url", "name"), ADDRESSES.items())
def test_a_dialect_is_known_by_its_address_or_named(url: str, name: str) -> None:
    assert find_dialect(url).name == name
    assert find_dialect(url, "gemini").name == "gemini"
    assert Options("m", url).spoken.name == name


def test_a_dialect_that_is_none_is_an_error_that_names_all(annotate_cli: Cli, runs: Runs) -> None:
    runs(1)
    done = annotate_cli(
        "logs", "--rubric", "comm_errors", "--model", "m", *set_model(dialect="klingon")
    )
    assert done.code == 2
    assert all(name in done.err for name in NAMES)


class TestTheTemperature:
    # More options, the model -> what is sent.
    CASES = (
        ((), "qwen2.5-coder", 0.0),
        (("--temperature", "0.7"), "qwen2.5-coder", 0.7),
        (set_model(dialect="vllm"), "llama-3", 0.0),
        (set_model(dialect="openai"), "llama-3", None),
        (("--samples", "2"), "llama-3", None),
        ((), "gpt-oss-20b", None),
        ((), "qwen3-8b", None),
        ((), "deepseek-r1:7b", None),
        ((), "o3-mini", None),
    )

    @pytest.mark.parametrize(("more", "model", "temperature"), CASES, ids=str)
    def test_servers_on_this_machine_decode_greedily_unless_the_model_thinks(
        self,
        annotate_cli: Cli,
        runs: Runs,
        more: tuple[str, ...],
        model: str,
        temperature: float | None,
    ) -> None:
        runs(1)
        with OpenAIServer(scripted(RIGHT)) as server:
            args = ("logs", "--rubric", "comm_errors", *set_model(mode="tools"), "--out", "out")
            done = annotate_cli(*args, "--base-url", server.url, "--model", model, *more)
            assert done.code == 0, done.err
            assert {one.body.get("temperature") for one in server.seen} == {temperature}
        learned = json.loads(Path("out", "run.json").read_text())["learned"]
        learned = learned.get(f"llm:{model}", learned)  # of a panel
        told = "the server's" if temperature is None else None
        assert learned.get("temperature") == told


class TestHeaders:
    def run(self, annotate_cli: Cli, server: OpenAIServer, *more: str) -> Done:
        args = ("logs", "--rubric", "comm_errors", *set_model(mode="tools"), "--model", "m")
        return annotate_cli(*args, "--base-url", server.url, *more)

    def test_they_are_sent_and_stand_nowhere(
        self,
        annotate_cli: Cli,
        runs: Runs,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
        tmp_path: Path,
    ) -> None:
        runs(1)
        monkeypatch.setenv("MY_TOKEN", "tok-SECRET-1")
        monkeypatch.setenv("TEAM", "blue-SECRET-2")
        more = set_model(headers={"X-Gateway-Token": "MY_TOKEN", "X-Team": "TEAM"})
        with caplog.at_level(logging.DEBUG), OpenAIServer(scripted(RIGHT)) as server:
            done = self.run(annotate_cli, server, *more, "--out", "out")
            assert done.code == 0, done.err
            [request] = server.seen
            assert request.headers["X-Gateway-Token"] == "tok-SECRET-1"
            assert request.headers["X-Team"] == "blue-SECRET-2"
            written = "".join(file.read_text() for file in Path("out").iterdir())
            assert "SECRET" not in done.out + done.err + written + caplog.text
            assert '"X-Gateway-Token": "' in written
            self.run(annotate_cli, server, *more, "--out", "same")
            assert server.calls == 1  # the answer is known
            monkeypatch.setenv("TEAM", "red")
            resumed = self.run(annotate_cli, server, *more, "--out", "out", "--resume")
            assert (resumed.code, "X-Team" in resumed.err) == (2, True)
            self.run(annotate_cli, server, *more, "--out", "red")
            assert server.calls == 2  # another header may lead to another model

    @pytest.mark.parametrize(
        ("header", "words"),
        [
            ("X-Token=NOT_SET", "the environment variable is not set"),
            ("X-Token=sk-1234", "expected the name of an environment variable"),
            ("Content-Length=HOME", "cannot be set there"),
            ("X Y=HOME", "cannot be set there"),
            ("X-Token=EVIL", "what no header can"),
        ],
    )
    def test_one_that_cannot_be_is_refused_and_its_value_not_shown(
        self,
        annotate_cli: Cli,
        runs: Runs,
        monkeypatch: pytest.MonkeyPatch,
        header: str,
        words: str,
    ) -> None:
        runs(1)
        monkeypatch.setenv("EVIL", "a\nX-Evil: SECRET")
        with OpenAIServer(scripted(RIGHT)) as server:
            done = self.run(
                annotate_cli, server, *set_model(headers=dict([header.split("=")])), "--out", "out"
            )
            assert (done.code, server.calls) == (2, 0)
        assert words in " ".join(done.err.split())
        assert "SECRET" not in done.err
        assert "sk-1234" not in done.err


AZURE = {
    "a deployment": ("openai/deployments/d?api-version=2024-10-21", "?api-version=2024-10-21"),
    "without a version": ("openai/v1", ""),
}


@pytest.mark.parametrize("name", AZURE)
def test_batches_at_azure(
    annotate_cli: Cli, runs: Runs, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Files and batches belong to no deployment, and lines are addressed without /v1."""
    runs(3)
    path, query = AZURE[name]
    monkeypatch.setenv("AZURE_KEY", KEY)
    with OpenAIServer(scripted(RIGHT)) as server:
        monkeypatch.setenv("HTTP_PROXY", server.url.removesuffix("/v1"))
        args = ("logs", "--rubric", "comm_errors", "--model", "d", "--batch", "--out", "out")
        args = (*args, "--api-key-env", "AZURE_KEY")
        done = annotate_cli(*args, "--base-url", f"http://me.openai.azure.com/{path}")
        assert done.code == 0, done.err
        [batch] = server.batches.created
        [url] = server.batches.urls
        assert batch["endpoint"] == "/chat/completions"
        assert server.batches.headers["api-key"] == KEY
        assert "Authorization" not in server.batches.headers
    root = "openai" if query else "openai/v1"
    assert url == f"http://me.openai.azure.com/{root}/files{query}"
    assert statuses(Path("out")) == {"labelled": 3}


@pytest.mark.parametrize("api", ["auto", "responses"])
@pytest.mark.parametrize("name", AZURE)
def test_the_responses_api_of_azure_belongs_to_no_deployment(
    trace: Trace, rubric: Rubric, monkeypatch: pytest.MonkeyPatch, name: str, api: str
) -> None:
    path, query = AZURE[name]
    with OpenAIServer(scripted(RIGHT)) as server:
        server.responses_only = ONLY
        monkeypatch.setenv("HTTP_PROXY", server.url.removesuffix("/v1"))
        judged(server, trace, rubric, base_url=f"http://me.openai.azure.com/{path}", api=api)
        root = "openai" if query else "openai/v1"
        assert {request.url for request in server.seen} == {
            f"http://me.openai.azure.com/{root}/responses{query}"
        }


def test_a_key_that_gemini_refuses_stops_the_run(
    trace: Trace, rubric: Rubric, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = {"code": 400, "message": "API key not valid. Please pass a valid API key."}
    wrong = scripted(Reply(status=400, body=json.dumps([{"error": error}])))
    with OpenAIServer(wrong, probe=wrong) as server:
        with pytest.raises(JudgeStopped, match=r"refuses the key.*API key not valid"):
            ask(server, monkeypatch, "gemini", trace, rubric)
        assert server.calls == 1


@pytest.mark.parametrize("word", ["length", "max_tokens", "MAX_TOKENS", "model_length"])
def test_each_word_for_an_answer_that_was_cut_off(trace: Trace, rubric: Rubric, word: str) -> None:
    with OpenAIServer(scripted(Reply(text="{", finish=word))) as server:
        annotation = judged(server, trace, rubric, mode="json")
        assert server.calls == 1
    assert "cut off" in (annotation.error or "")


@pytest.mark.parametrize(
    "word", ["content_filter", "SAFETY", "content_filter: PROHIBITED_CONTENT", "sensitive"]
)
def test_each_word_for_an_answer_that_a_filter_stopped(
    trace: Trace, rubric: Rubric, word: str
) -> None:
    with OpenAIServer(scripted(replace(NOTHING, finish=word))) as server:
        annotation = judged(server, trace, rubric, mode="json")
        assert server.calls == 1
    assert (annotation.status, "filter" in (annotation.error or "")) == ("failed", True)


@pytest.mark.parametrize("word", ["error", "abort", "insufficient_system_resource"])
def test_an_answer_that_the_server_broke_off_is_asked_for_again(
    trace: Trace, rubric: Rubric, word: str
) -> None:
    with OpenAIServer(scripted(replace(NOTHING, finish=word), RIGHT)) as server:
        annotation = judged(server, trace, rubric, mode="json")
        assert [request.reask for request in server.seen] == [None, None]
    assert annotation.status == "labelled"


def test_sglang_counts_thoughts_beside_their_usual_place(trace: Trace, rubric: Rubric) -> None:
    usage = {"prompt_tokens": 9_000, "completion_tokens": 500, "reasoning_tokens": 300}
    with OpenAIServer(scripted(replace(RIGHT, more={"usage": usage}))) as server:
        used = judged(server, trace, rubric, mode="json", dialect="sglang").usage
    assert (used.output_tokens, used.reasoning_tokens) == (500, 300)


def test_an_error_of_the_provider_behind_a_gateway_is_asked_again(
    trace: Trace, rubric: Rubric
) -> None:
    """OpenRouter answers with status 200 and the error beside an empty message."""
    error = {"code": 502, "message": "the provider broke off"}
    choice = {"message": {"content": ""}, "finish_reason": "error", "error": error}
    broken = Reply(body=json.dumps({"choices": [choice]}))
    with OpenAIServer(scripted(broken, RIGHT)) as server:
        annotation = judged(server, trace, rubric, mode="tools")
        assert (annotation.status, server.calls) == ("labelled", 2)
        server.responder = scripted(broken)
        failed = judged(server, trace, rubric, mode="tools")
    assert "the provider broke off" in (failed.error or "")


def test_a_judge_file_says_it_too(
    annotate_cli: Cli, runs: Runs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runs(1)
    monkeypatch.setenv("TEAM", "blue")
    file = tmp_path / "judge.yaml"
    with OpenAIServer(scripted(RIGHT)) as server:
        dialect = "dialect: lmstudio, max_output_tokens: 900, headers: {X-Team: TEAM}"
        file.write_text(f"{{model: m, base_url: '{server.url}', api: chat, {dialect}}}")
        args = ("logs", "--rubric", "comm_errors", "--judge", str(file), "--out", "out")
        done = annotate_cli(*args)
        assert done.code == 0, done.err
        [request] = server.seen
    assert (request.headers["X-Team"], request.body["max_tokens"]) == ("blue", 900)
    judge = json.loads(Path("out", "run.json").read_text())["judge"]
    assert (judge["dialect"], judge["api"], list(judge["headers"])) == (
        "lmstudio",
        "chat",
        ["X-Team"],
    )


ONLY = "This model is only supported in v1/responses and not in v1/chat/completions."
NO_CHAT = "This is not a chat model and thus not supported in the v1/chat/completions endpoint."


class TestTheResponsesApi:
    @pytest.mark.parametrize("words", [ONLY, NO_CHAT])
    @pytest.mark.parametrize("mode", ["auto", "tools", "json_schema", "json"])
    def test_it_is_asked_where_a_model_has_nothing_else(
        self, trace: Trace, rubric: Rubric, words: str, mode: str
    ) -> None:
        wrong = Reply(answer={"findings": []})
        with OpenAIServer(scripted(wrong, RIGHT)) as server:
            server.responses_only = words
            more = {"max_output_tokens": 900, "reasoning_effort": "low", "temperature": 1.0}
            annotation = judged(server, trace, rubric, mode=mode, **more)
            assert annotation.status == "labelled", annotation.error
            asked = [request.body["sent"] for request in server.seen]
            assert all(request.url.endswith("/v1/responses") for request in server.seen)
        for request in asked:
            assert (request["store"], request["max_output_tokens"]) == (False, 900)
            assert request["reasoning"] == {"effort": "low"}
        usage = annotation.usage
        assert (usage.calls, usage.cached_tokens, usage.reasoning_tokens) == (2, 10, 6)
        assert usage.input_tokens > 100

    def test_it_is_found_out_once(self, annotate_cli: Cli, runs: Runs) -> None:
        runs(5)
        args = ("logs", "--rubric", "comm_errors", "--model", "m", "--concurrency", "1")
        with OpenAIServer(scripted(RIGHT)) as server:
            server.responses_only = ONLY
            given = (*args, "--base-url", server.url)
            done = annotate_cli(*given, "--out", "out")
            assert done.code == 0, done.err
            assert server.calls == 1 + 1 + 5  # refused, the form, the traces
            assert totals(Path("out"))["calls"] == 6
            run_json = json.loads(Path("out", "run.json").read_text())
            assert run_json["learned"]["api"] == "responses"
            chat = annotate_cli(*given, "--api", "chat", "--out", "chat", "--no-cache")
            assert (chat.code, "only supported in v1/responses" in chat.err) == (2, True)
            seed = annotate_cli(*given, "--seed", "1", "--out", "seed", "--no-cache")
            assert (seed.code, "takes no seed" in seed.err) == (2, True)

    @pytest.mark.parametrize(
        ("reply", "words"),
        [
            (Reply(refusal="I will not."), "the model refuses: I will not."),
            (Reply(text="{", finish="length"), "cut off at the server's token limit"),
            (Reply(text="", finish="content_filter"), "content filter"),
            (Reply(text="No idea."), "malformed answer"),
        ],
    )
    def test_what_is_no_judgement(
        self, trace: Trace, rubric: Rubric, reply: Reply, words: str
    ) -> None:
        with OpenAIServer(scripted(reply)) as server:
            annotation = judged(server, trace, rubric, mode="json_schema", api="responses")
        assert (annotation.status, words in (annotation.error or "")) == ("failed", True)

    def test_a_failed_response_is_asked_again(self, trace: Trace, rubric: Rubric) -> None:
        error = {"code": "server_error", "message": "it broke"}
        broken = Reply(body=json.dumps({"error": error, "output": []}))
        with OpenAIServer(scripted(broken, RIGHT)) as server:
            annotation = judged(server, trace, rubric, mode="tools", api="responses")
            assert (annotation.status, server.calls) == ("labelled", 2)

    def test_batches_of_it(self, annotate_cli: Cli, runs: Runs) -> None:
        runs(3)
        args = ("logs", "--rubric", "comm_errors", "--model", "m", "--batch", "--out", "out")
        with OpenAIServer(scripted(RIGHT)) as server:
            done = annotate_cli(*args, "--base-url", server.url, "--api", "responses")
            assert done.code == 0, done.err
            assert [batch["endpoint"] for batch in server.batches.created] == ["/v1/responses"]
        assert statuses(Path("out")) == {"labelled": 3}

    def test_a_seed_is_refused_before_any_call(self, annotate_cli: Cli, runs: Runs) -> None:
        runs(1)
        args = ("logs", "--rubric", "comm_errors", "--model", "m", "--seed", "1")
        done = annotate_cli(*args, "--base-url", "http://127.0.0.1:9", "--api", "responses")
        assert (done.code, "takes none" in done.err) == (2, True)
