"""Anthropic and Gemini by their own APIs, through their SDKs, over real HTTP on this machine."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from annotator.annotations import Annotation
from annotator.errors import AnnotatorError, JudgeStopped
from annotator.judges.llm.settings import NATIVE, Options
from annotator.rubrics import Rubric
from annotator.traces import Trace
from tests.conftest import Done, set_model
from tests.judges.test_cache import totals
from tests.judges.test_llm import RIGHT, judged, scripted
from tests.judges.test_long import LONG
from tests.openai_server import NOTHING, OpenAIServer, Reply, Request, Responder
from tests.runs.test_run import statuses

Cli = Callable[..., Done]
Runs = Callable[..., Path]
KEY = "SECRET-of-the-key"
APIS = tuple(NATIVE)
ERRORS = {
    "anthropic": lambda status, words, kind="invalid_request_error": Reply(
        status=status, error={"type": kind, "message": words}
    ),
    "gemini": lambda status, words, kind="INVALID_ARGUMENT": Reply(
        status=status, error={"code": status, "message": words, "status": kind}
    ),
}


@pytest.fixture(autouse=True)
def sdks() -> None:
    for package in ("anthropic", "google.genai"):
        pytest.importorskip(package, reason="pip install anthropic google-genai")


def serve(responder: Responder = lambda _: NOTHING, **more: Any) -> OpenAIServer:
    return OpenAIServer(responder, **more)


def ask(server: OpenAIServer, api: str, trace: Trace, rubric: Rubric, **more: Any) -> Annotation:
    more = {"base_url": f"http://127.0.0.1:{server.port}", "timeout": 20.0} | more
    return judged(server, trace, rubric, api=api, **more)


def sent(server: OpenAIServer) -> list[dict[str, Any]]:
    return [request.body["sent"] for request in server.seen]


@pytest.mark.parametrize("api", APIS)
class TestBoth:
    def test_a_run(
        self, api: str, annotate_cli: Cli, runs: Runs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        runs(3)
        monkeypatch.setenv(NATIVE[api][1], KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        monkeypatch.setenv("TEAM", "red")
        with serve(scripted(RIGHT)) as server:
            base = f"http://127.0.0.1:{server.port}"
            args = ("logs", "--rubric", "comm_errors", "--model", "m-1", "--base-url", base)
            args += (
                "--api",
                api,
                "--concurrency",
                "2",
                *set_model(headers={"X-Team": "TEAM"}),
                "--out",
                "out",
            )
            prices = ("--price-in", "1", "--price-out", "2", *set_model(price_cached=0.1))
            done = annotate_cli(*args, *prices)
            assert done.code == 0, done.err
            assert (len(server.seen), len(server.probes)) == (3, 1)
            headers, form = server.seen[0].headers, server.seen[0].form
            calls = server.calls
            again = annotate_cli(*args, *prices, "--resume")
            assert (again.code, server.calls) == (0, calls), again.err
            other = annotate_cli(*args, *prices, "--resume", "--api", "chat")
            assert (other.code, "api" in other.err) == (2, True)
        assert statuses(Path("out")) == {"labelled": 3}
        assert (form, headers["X-Team"]) == ("strict", "red")
        shown = {"anthropic": "Authorization", "gemini": "x-goog-api-key"}[api]
        assert headers[shown].removeprefix("Bearer ") == KEY
        judge = json.loads(Path("out", "run.json").read_text())
        assert judge["judge"]["api"] == api
        written = done.out + done.err + "".join(map(Path.read_text, Path("out").glob("*.js*")))
        assert KEY not in written
        used = totals(Path("out"))
        assert used["calls"] == 4  # with the question for the form
        assert used["cost_usd"] > 0

    @pytest.mark.parametrize("mode", ["auto", "strict", "tools", "named", "json"])
    def test_a_wrong_answer_is_asked_again(
        self, api: str, mode: str, trace: Trace, rubric: Rubric
    ) -> None:
        wrong = Reply(answer={"findings": []})
        with serve(scripted(wrong, RIGHT)) as server:
            annotation = ask(server, api, trace, rubric, mode=mode, reasoning_effort="low")
            assert annotation.status == "labelled", annotation.error
            assert [request.reask is None for request in server.seen] == [True, False]
            assert "label" in (server.seen[1].reask or "")
            assert (annotation.usage.calls, annotation.usage.retries) == (2, 1)

    def test_an_answer_of_blanks_is_asked_again(
        self, api: str, trace: Trace, rubric: Rubric
    ) -> None:
        with serve(scripted(Reply(text=" \n"), RIGHT)) as server:
            annotation = ask(server, api, trace, rubric, mode="json")
        assert annotation.status == "labelled", annotation.error

    def test_two_calls_are_answered_in_one_turn(
        self, api: str, trace: Trace, rubric: Rubric
    ) -> None:
        with serve(scripted(replace(RIGHT, calls=2), RIGHT)) as server:
            annotation = ask(server, api, trace, rubric, mode="tools")
            assert "exactly once" in (server.seen[1].reask or "")
        assert annotation.status == "labelled", annotation.error

    def test_a_form_that_a_model_lacks_is_left(
        self, api: str, trace: Trace, rubric: Rubric
    ) -> None:
        with serve(scripted(RIGHT), forms=("tools",), unsupported="400") as server:
            annotation = ask(server, api, trace, rubric)
        assert (annotation.status, server.seen[0].form) == ("labelled", "tools")

    @pytest.mark.parametrize(
        "broken",
        [429, 503, Reply(drop=True), Reply(body="{"), Reply(body="[]"), Reply(body="{}")],
    )
    def test_what_passes_is_tried_again(
        self, api: str, broken: Reply | int, trace: Trace, rubric: Rubric
    ) -> None:
        reply = ERRORS[api](broken, "not now") if isinstance(broken, int) else broken
        with serve(scripted(reply, RIGHT)) as server:
            annotation = ask(server, api, trace, rubric, mode="strict")
        assert annotation.status == "labelled", annotation.error
        assert annotation.usage.calls == 2

    @pytest.mark.parametrize(
        ("status", "words", "expected"),
        [
            (401, "invalid key", "refuses the key"),
            (404, "model: nothing of that name", "no such model or address"),
            (400, "your credit balance is too low", "credit balance"),
        ],
    )
    def test_what_stops_a_run(
        self, api: str, status: int, words: str, expected: str, trace: Trace, rubric: Rubric
    ) -> None:
        refused = scripted(ERRORS[api](status, words))
        with serve(refused, probe=refused) as server, pytest.raises(JudgeStopped, match=expected):
            ask(server, api, trace, rubric, mode="strict")

    def test_a_redirect_is_not_followed(self, api: str, trace: Trace, rubric: Rubric) -> None:
        reply = Reply(status=302, headers={"Location": "http://elsewhere.example/"})
        with serve(scripted(reply)) as server, pytest.raises(JudgeStopped, match="elsewhere"):
            ask(server, api, trace, rubric, mode="strict")

    def test_an_answer_that_is_cut_off_is_asked_for_with_twice_that(
        self, api: str, trace: Trace, rubric: Rubric
    ) -> None:
        cut = Reply(text="{", finish="length")
        with serve(scripted(cut, RIGHT)) as server:
            annotation = ask(server, api, trace, rubric, mode="strict", max_output_tokens=50)
            asked = sent(server)
        assert annotation.status == "labelled"
        caps = [
            body.get("max_tokens") or body["generationConfig"]["maxOutputTokens"] for body in asked
        ]
        assert caps == [50, 100]

    def test_what_is_too_long_is_shortened(self, api: str, rubric: Rubric) -> None:
        words = {
            "anthropic": "prompt is too long: {asked} tokens > {limit} maximum",
            "gemini": "The input token count ({asked}) exceeds the maximum number of tokens"
            " allowed ({limit}).",
        }[api]

        def respond(request: Request) -> Reply:
            asked = len(request.user) // 4
            told = words.format(asked=asked, limit=10_000)
            return ERRORS[api](400, told) if asked > 10_000 else NOTHING

        with serve(respond) as server:
            annotation = ask(server, api, LONG, rubric, mode="strict", max_output_tokens=500)
        assert annotation.error is None
        assert 1 < len(server.seen) < 5
        assert annotation.truncated

    def test_a_call_has_an_end(self, api: str, trace: Trace, rubric: Rubric) -> None:
        begun = time.monotonic()
        with serve(scripted(Reply(wait=5.0))) as server:
            more = {"mode": "strict", "timeout": 0.5, "attempts": 1}
            annotation = ask(server, api, trace, rubric, **more)
        assert "no answer in time" in (annotation.error or "")
        assert time.monotonic() - begun < 5

    def test_batches_are_refused(
        self, api: str, annotate_cli: Cli, runs: Runs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        runs(1)
        monkeypatch.setenv(NATIVE[api][1], KEY)
        args = ("logs", "--rubric", "comm_errors", "--model", "m", "--api", api)
        for batch in (("--batch",), ("--batch-file", "out.jsonl")):
            done = annotate_cli(*args, *batch)
            assert (done.code, f"--api {api} does not have" in done.err) == (2, True)

    def test_no_key(self, api: str, annotate_cli: Cli, runs: Runs) -> None:
        runs(1)
        args = ("logs", "--rubric", "comm_errors", "--model", "m", "--api", api)
        done = annotate_cli(*args)
        assert (done.code, f"set the environment variable {NATIVE[api][1]}" in done.err) == (
            2,
            True,
        )

    def test_without_its_sdk(self, api: str, tmp_path: Path) -> None:
        hide = "import sys; sys.modules.update({'anthropic': None, 'google': None})\n"
        code = hide + "from annotator.cli import main; sys.argv[0] = 'annotate'; main()"
        args = ("--rubric", "comm_errors", "--model", "m", "--api", api, "--base-url")
        command = [sys.executable, "-c", code, str(tmp_path), *args, "http://127.0.0.1:9"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 2
        assert f"needs the extra {api}: pip install " in done.stderr

    def test_another_dialect_is_refused(self, api: str) -> None:
        with pytest.raises(ValueError, match="has its own"):
            Options("m", api=api, dialect="vllm")


class TestAnthropic:
    def test_what_is_sent(self, trace: Trace, rubric: Rubric) -> None:
        thinking = {"type": "adaptive"}
        extra = {"thinking": thinking, "output_config": {"x": 1}}
        with serve(scripted(RIGHT)) as server:
            annotation = ask(
                server, "anthropic", trace, rubric, extra_body=extra, reasoning_effort="low"
            )
            [body] = sent(server)
            assert server.seen[0].url.endswith("/v1/messages")
        [system] = body["system"]
        assert system["cache_control"] == {"type": "ephemeral"}
        assert "cache_control" not in json.dumps(body["messages"])
        assert (body["max_tokens"], body["thinking"]) == (8192, thinking)
        config = body["output_config"]
        assert (config["effort"], config["x"], config["format"]["type"]) == (
            "low",
            1,
            "json_schema",
        )
        assert "temperature" not in body
        usage = annotation.usage
        assert (usage.cached_tokens, usage.cache_write_tokens) == (100, 200)
        assert usage.input_tokens > 300
        assert usage.reasoning_tokens == 3

    def test_the_instructions_are_the_same_for_all_traces(
        self, annotate_cli: Cli, runs: Runs
    ) -> None:
        runs(3)
        with serve() as server:
            base = f"http://127.0.0.1:{server.port}/v1/"
            args = ("logs", "--rubric", "comm_errors", "--model", "m", "--base-url", base)
            done = annotate_cli(*args, "--api", "anthropic", "--out", "out")
            assert done.code == 0, done.err
            assert len({json.dumps(body["system"]) for body in sent(server)}) == 1

    def test_a_wrong_call_is_answered_as_one(self, trace: Trace, rubric: Rubric) -> None:
        with serve(scripted(Reply(answer={"findings": []}), RIGHT)) as server:
            ask(server, "anthropic", trace, rubric, mode="tools")
            first, second = sent(server)
        assert first["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
        [use], [result] = (turn["content"] for turn in second["messages"][1:])
        assert (use["type"], result["type"], result["is_error"]) == (
            "tool_use",
            "tool_result",
            True,
        )
        assert use["id"] == result["tool_use_id"]

    @pytest.mark.parametrize(
        ("reply", "words"),
        [
            (
                Reply(
                    text="No.",
                    finish="refusal",
                    own={"stop_details": {"category": "cyber", "explanation": "Not this."}},
                ),
                "the model refuses: cyber: Not this.",
            ),
            (Reply(text="", finish="refusal"), "the model refuses: it gives no reason"),
            (Reply(text="{", finish="model_context_window_exceeded"), "its context ended"),
            (Reply(text="{", finish="length"), "a larger max_output_tokens"),
            (Reply(text="No idea."), "malformed answer"),
        ],
    )
    def test_what_is_no_judgement(
        self, reply: Reply, words: str, trace: Trace, rubric: Rubric
    ) -> None:
        with serve(scripted(reply)) as server:
            annotation = ask(server, "anthropic", trace, rubric, mode="strict")
        assert (annotation.status, words in (annotation.error or "")) == ("failed", True)

    def test_a_seed_is_refused(self) -> None:
        with pytest.raises(ValueError, match="takes none"):
            Options("m", api="anthropic", seed=1)


class TestGemini:
    def test_what_is_sent(self, trace: Trace, rubric: Rubric) -> None:
        safety = [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}]
        extra = {"safetySettings": safety, "generationConfig": {"topP": 0.5}}
        more = {"extra_body": extra, "reasoning_effort": "low", "seed": 3, "temperature": 0.5}
        with serve(scripted(RIGHT)) as server:
            annotation = ask(server, "gemini", trace, rubric, **more)
            [body] = sent(server)
            assert server.seen[0].url.endswith("/v1beta/models/test-model:generateContent")
        config = body["generationConfig"]
        assert (config["topP"], config["seed"], config["temperature"]) == (0.5, 3, 0.5)
        assert config["thinkingConfig"] == {"thinkingLevel": "LOW"}
        assert config["responseMimeType"] == "application/json"
        assert next(iter(config["responseJsonSchema"]["properties"])) == "first_tag"
        assert (body["safetySettings"], len(body["contents"])) == (safety, 1)
        usage = annotation.usage
        assert (usage.cached_tokens, usage.reasoning_tokens) == (100, 7)
        assert usage.output_tokens > 7

    def test_a_wrong_call_is_sent_back_with_its_signature(
        self, trace: Trace, rubric: Rubric
    ) -> None:
        with serve(scripted(Reply(answer={"findings": []}), RIGHT)) as server:
            ask(server, "gemini", trace, rubric, mode="named")
            _, second = sent(server)
        [call], [response] = (turn["parts"] for turn in second["contents"][1:])
        assert (call["thoughtSignature"], call["functionCall"]["name"]) == ("c2ln", "Annotation")
        assert "label" in response["functionResponse"]["response"]["error"]

    @pytest.mark.parametrize(
        ("reply", "words"),
        [
            (Reply(text="{", finish="SAFETY"), "the model refuses: the answer is blocked: SAFETY"),
            (
                Reply(body=json.dumps({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})),
                "the prompt is blocked: PROHIBITED_CONTENT",
            ),
            (Reply(text="{", finish="NEW_REASON"), "the answer is blocked: NEW_REASON"),
            (Reply(text="", finish="MALFORMED_FUNCTION_CALL"), "malformed answer"),
        ],
    )
    def test_what_is_no_judgement(
        self, reply: Reply, words: str, trace: Trace, rubric: Rubric
    ) -> None:
        with serve(scripted(reply)) as server:
            annotation = ask(server, "gemini", trace, rubric, mode="strict")
        assert (annotation.status, words in (annotation.error or "")) == ("failed", True)

    def test_it_says_how_long_to_wait_in_its_error(self, trace: Trace, rubric: Rubric) -> None:
        info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.8s"}
        slow = Reply(status=429, error={"code": 429, "message": "quota", "details": [info]})
        begun = time.monotonic()
        with serve(scripted(slow, RIGHT)) as server:
            annotation = ask(server, "gemini", trace, rubric, mode="strict")
        assert annotation.status == "labelled"
        assert time.monotonic() - begun > 0.8


def test_no_sdk_is_imported_unless_it_is_asked_for() -> None:
    code = "import sys, annotator.judges.llm.endpoint, annotator.judges.llm.model\n"
    code += "print({'anthropic', 'google.genai'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_panel_of_several_apis(
    annotate_cli: Cli, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(2)
    with serve(scripted(RIGHT)) as server:
        base = f"http://127.0.0.1:{server.port}"
        monkeypatch.setenv("OPENAI_BASE_URL", f"{base}/v1")
        models = [
            {"model": "a"},
            {"model": "b", "api": "anthropic", "base_url": base},
            {"model": "c", "api": "gemini", "base_url": base},
        ]
        Path("panel.yaml").write_text(json.dumps({"models": models}))
        args = ("--rubric", "comm_errors", "--judge", "panel.yaml", "--out", "out")
        done = annotate_cli("logs", *args)
        assert done.code == 0, done.err
        ends = {request.url.rpartition("/")[2] for request in server.seen}
    assert ends == {"completions", "messages", "c:generateContent"}
    assert statuses(Path("out")) == {"labelled": 2}


def test_an_address_that_cannot_be_used(trace: Trace, rubric: Rubric) -> None:
    with serve() as server:
        url = f"http://127.0.0.1:{server.port}/?a=1&a=2"
        with pytest.raises(AnnotatorError, match="cannot be called"):
            ask(server, "gemini", trace, rubric, base_url=url, mode="strict")
