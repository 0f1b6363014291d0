"""Prompts that a server cuts without a word, and the context that it is asked for before."""

import asyncio
import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from annotator.annotations import Annotation
from annotator.judges.llm import LLMJudge
from annotator.judges.llm.dialects import find_dialect
from annotator.judges.llm.local import ServerContext, ask_context
from annotator.judges.llm.settings import Options
from annotator.judges.llm.truncation import PromptGauge
from annotator.rubrics import Rubric
from annotator.runs.annotate import annotate
from annotator.runs.manifest import Standards
from annotator.traces import Trace
from tests.conftest import Done
from tests.judges.test_llm import judged, options
from tests.judges.test_long import FALSE, LONG, RIGHT, long, sent
from tests.openai_server import NOTHING, OpenAIServer, Reply, Request, Responder, least_answer
from tests.runs.test_run import llm

Cli = Callable[..., Done]


def cutting(context: int, left: int, per_token: float = 4.0) -> Responder:
    """A server with a context: of a longer prompt it reads so many tokens, and finds nothing."""

    def respond(request: Request) -> Reply:
        tokens = int(sent(request) / per_token)
        if request.is_probe:
            reply = Reply(answer=least_answer(request.schema))
        else:
            reply = NOTHING if tokens > context else RIGHT
        read = left if tokens > context else tokens
        return replace(reply, more={"usage": {"prompt_tokens": read, "completion_tokens": 9}})

    return respond


def judge_in_turn(server: OpenAIServer, traces: list[Trace], rubric: Rubric) -> list[Annotation]:
    """Judge with one judge, which learns."""
    import asyncio

    async def judge_all() -> list[Annotation]:
        judge = LLMJudge(options(server, mode="json_schema"))
        try:
            whole = Standards(least_read=0)  # what is read in part counts, too
            return [await annotate(trace, rubric, judge, whole) for trace in traces]
        finally:
            await judge.close()

    return asyncio.run(judge_all())


# A context, and what is left of a longer prompt: Ollama's half and two, or what fits to the token.
SERVERS = {
    "half of 8,192": (8_192, 4_098),
    "half of 10,000": (10_000, 5_002),
    "8,192": (8_192, 8_192),
    "16,384": (16_384, 16_384),
    "10,000": (10_000, 10_000),
}


@pytest.mark.parametrize(("context", "left"), SERVERS.values(), ids=SERVERS)
@pytest.mark.parametrize("per_token", [3.0, 4.0, 4.8])
def test_no_prompt_that_was_cut_is_judged(
    rubric: Rubric, context: int, left: int, per_token: float
) -> None:
    """21 traces of 60,000 characters and more."""
    traces = [replace(long(patch=2_500 * n), id=f"t{n}") for n in range(21)]
    with OpenAIServer(cutting(context, left, per_token)) as server:
        found = judge_in_turn(server, traces, rubric)
    assert {one.status for one in found} == {"labelled"}, "shortened, and asked again"
    full = (sum(len(message.text) for message in LONG.messages) + 12_000) / per_token
    assert all(one.truncated for one in found) or full < context


def test_one_that_is_always_cut_fails_with_its_reason(rubric: Rubric) -> None:
    small = replace(NOTHING, more={"usage": {"prompt_tokens": 900, "completion_tokens": 9}})
    with OpenAIServer(lambda _: small) as server:
        one = judged(server, LONG, rubric, mode="json_schema")
    assert one.status == "failed"
    assert "read 900 tokens of a prompt of" in (one.error or "")


def test_a_count_that_stands_still_gives_away_a_mild_cut(rubric: Rubric) -> None:
    """Of the first such prompt nobody can know it; of the second it is known."""
    traces = [replace(long(patch=1_000 * n), id=f"t{n}") for n in (1, 2, 3, 4)]
    with OpenAIServer(cutting(18_000, 18_000)) as server:
        found = judge_in_turn(server, traces, rubric)
    assert [one.status for one in found][1:] == ["labelled"] * 3


def test_what_complete_prompts_show_makes_the_bound_sharper(rubric: Rubric) -> None:
    """Of a tokenizer with 3.2 characters a token, 4.6 are too many."""
    traces = [replace(long(patch=300 * n), id=f"t{n}") for n in range(9)]
    cut = replace(long(patch=40_000), id="cut")
    with OpenAIServer(cutting(27_000, 26_800, 3.2)) as server:
        *before, last = judge_in_turn(server, [*traces, cut], rubric)
        assert {(one.status, one.usage.calls) for one in before} == {("labelled", 1)}
        assert (last.status, last.usage.calls > 1) == ("labelled", True)


@pytest.mark.parametrize("per_token", [2.0, 2.7, 4.8, 5.1])
def test_a_complete_prompt_is_not_taken_for_a_cut_one(rubric: Rubric, per_token: float) -> None:
    traces = [replace(long(patch=3_333 * n), id=f"t{n}") for n in range(12)]
    with OpenAIServer(cutting(10**6, 0, per_token)) as server:
        found = judge_in_turn(server, traces, rubric)
    assert {(one.status, one.usage.calls) for one in found} == {("labelled", 1)}


ASKED: dict[str, tuple[dict[str, Any], str]] = {
    "llama.cpp": (
        {"/props": {"default_generation_settings": {"n_ctx": 16_000}, "total_slots": 2}},
        "llama.cpp, /props",
    ),
    "LM Studio": (
        {
            "/api/v0/models": {
                "data": [
                    {"id": "other", "loaded_context_length": 512},
                    {"id": "m", "loaded_context_length": 16_000, "max_context_length": 90_000},
                ]
            }
        },
        "LM Studio, /api/v0/models",
    ),
    "LM Studio, not loaded": (
        {"/api/v0/models": {"data": [{"id": "m", "max_context_length": 16_000}]}},
        "LM Studio, /api/v0/models",
    ),
    "Ollama": (
        {
            "/api/ps": {
                "models": [{"name": "m:latest", "model": "m:latest", "context_length": 16_000}]
            }
        },
        "Ollama, /api/ps",
    ),
    "Ollama, not loaded": (
        {
            "/api/show": {
                "model_info": {"general.architecture": "q", "q.context_length": 40_960},
                "parameters": "temperature 0.6\nnum_ctx                        16000",
            }
        },
        "Ollama, its default",
    ),
    "vLLM": ({"/v1/models": {"data": [{"id": "m", "max_model_len": 16_000}]}}, "/v1/models"),
}


@pytest.mark.parametrize(("says", "source"), ASKED.values(), ids=ASKED)
def test_the_context_of_a_local_server_is_asked_for_and_kept(
    annotate_cli: Cli, tmp_path: Path, says: dict[str, Any], source: str
) -> None:
    write_long(tmp_path)
    with OpenAIServer(cutting(16_000, 8_002), says=says) as server:
        done = annotate_cli("talk.jsonl", "--rubric", "comm_errors", *llm(server), "--out", "out")
        assert done.code == 0, done.err
        assert len(server.seen) == 1, "no prompt was cut"
    manifest = json.loads((tmp_path / "out" / "run.json").read_text())
    assert (manifest["learned"]["context"], manifest["learned"]["context_from"]) == (16_000, source)
    assert manifest["judge"]["context"] is None


@pytest.mark.parametrize("now", [None, 9_000, 64_000])
def test_a_resumed_run_believes_what_the_server_says_now(
    annotate_cli: Cli, tmp_path: Path, now: int | None
) -> None:
    write_long(tmp_path)

    def says(tokens: int | None) -> dict[str, Any]:
        return {"/props": {"default_generation_settings": {"n_ctx": tokens}}}

    with OpenAIServer(lambda request: Reply(refusal="no"), says=says(16_000)) as server:
        args = ("talk.jsonl", "--rubric", "comm_errors", *llm(server), "--out", "out")
        assert annotate_cli(*args).code == 1
        server.says, server.responder = says(now), cutting(10**6, 0)
        assert annotate_cli(*args, "--resume").code == 0
        before, after = (len(request.user) for request in server.seen)
    learned = json.loads((tmp_path / "out" / "run.json").read_text())["learned"]
    assert learned.get("context") == now
    assert (after > before) == (now != 9_000)


def write_long(folder: Path) -> None:
    talk = [{"from": message.sender, "message": message.text} for message in LONG.messages]
    (folder / "talk.jsonl").write_text(json.dumps({"id": "t", "messages": talk}) + "\n")


def test_a_model_that_is_not_loaded_is_loaded_by_a_tiny_question(rubric: Rubric) -> None:
    """Only a running model's context is known."""
    running = {"models": [{"model": "test-model", "context_length": 32_000}]}

    def respond(request: Request) -> Reply:
        server.says["/api/ps"] = running
        return cutting(32_000, 0)(request)

    show = {"model_info": {"general.architecture": "q", "q.context_length": 40_960}}
    with OpenAIServer(respond, probe=respond, says={"/api/show": show}) as server:
        one = judged(server, LONG, rubric, mode="json_schema")
        assert (one.status, len(server.probes), len(server.seen)) == ("labelled", 1, 1)
    assert not one.truncated


ODD = {
    "nothing": {},
    "lists": {"/props": [1], "/api/v0/models": [], "/v1/models": {"data": [None, 3]}},
    "no numbers": {"/props": {"default_generation_settings": {"n_ctx": "many"}}},
    "none": {"/props": {"default_generation_settings": {"n_ctx": 0}}},
    "other models": {"/v1/models": {"data": [{"id": "other", "max_model_len": 600}]}},
    "no charset": {
        "/props": Reply(body=b"{}", headers={"Content-Type": "application/json; charset=hex"})
    },
    "packed without end": {
        "/props": Reply(
            body=gzip.compress(b'{"default_generation_settings": {"n_ctx": 900}}' + b" " * 2**24),
            headers={"Content-Encoding": "gzip"},
        )
    },
}


@pytest.mark.parametrize("says", ODD.values(), ids=ODD)
def test_what_a_server_does_not_say_is_not_known(rubric: Rubric, says: dict[str, Any]) -> None:
    with OpenAIServer(cutting(10**6, 0), says=says) as server:
        one = judged(server, LONG, rubric, mode="json_schema")
        assert server.asked
    assert (one.status, one.truncated) == ("labelled", {})


@pytest.mark.parametrize("given", ["num_ctx 0", f"num_ctx {'9' * 5000}"])
def test_a_setting_that_can_be_none_is_as_if_it_was_not_made(given: str) -> None:
    show = {"model_info": {"general.architecture": "q"}, "parameters": given}
    with OpenAIServer(says={"/api/show": show}) as server:
        asked = asyncio.run(ask_context(Options("m", server.url), "none"))
    assert asked == ServerContext(4_096, "Ollama, its default", assumed=True)


def test_a_context_that_is_given_is_not_asked_for(rubric: Rubric) -> None:
    with OpenAIServer(cutting(10**6, 0), says=ASKED["vLLM"][0]) as server:
        judged(server, LONG, rubric, mode="json_schema", context=30_000)
        assert server.asked == []


@pytest.mark.parametrize(("url", "cut"), [("https://api.openai.com/v1", 0), ("http://h/v1", 1)])
def test_a_provider_that_refuses_long_prompts_is_not_suspected_for_a_round_number(
    url: str, cut: int
) -> None:
    gauge = PromptGauge(find_dialect(url).refuses)
    assert gauge.was_cut(16_000, 4_096) == bool(cut)
    assert gauge.was_cut(60_000, 4_096)


def test_tags_forgotten_in_a_second_answer_do_not_fail_what_was_read(rubric: Rubric) -> None:
    """The first answer has the tags and a quote that stands nowhere; what follows repeats no tag,
    and says nothing of the prompt, which is the same.
    """
    forgetful = Reply(answer={**NOTHING.answer, "first_tag": "?", "last_tag": "?"})
    with OpenAIServer(lambda request: forgetful if request.n > 1 else FALSE) as server:
        found = judged(server, LONG, rubric, mode="json_schema")
        assert server.calls == 2
    assert (found.status, found.error) == ("undecided", None)
    assert [rejected.code for rejected in found.rejected]
