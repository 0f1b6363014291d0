"""Prompts that a server cuts without a word, and the context that it is asked for before."""

import asyncio
import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile
from operator import eq
from pathlib import Path
from typing import Any

import pytest

from annotator.annotations import Annotation
from annotator.judges.llm import LLMJudge
from annotator.judges.llm.local import ServerContext, ask_context
from annotator.judges.llm.settings import Options
from annotator.rubrics import Rubric
from annotator.runs.annotate import annotate
from annotator.runs.manifest import Standards
from annotator.traces import Trace
from tests.conftest import Done
from tests.judges.test_llm import judged, options, scripted
from tests.judges.test_long import LONG, RIGHT, long, sent
from tests.judges.test_windows import FALSE
from tests.openai_server import (
    NOTHING,
    TAGS,
    OpenAIServer,
    Reply,
    Request,
    Responder,
    least_answer,
)
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


def judge_in_turn(
    server: OpenAIServer, traces: list[Trace], rubric: Rubric, most: int = 1, **changes: object
) -> list[Annotation]:
    """Judge with one judge, which learns, at most so many at once."""

    async def judge_all() -> list[Annotation]:
        judge = LLMJudge(options(server, mode="json_schema", **changes))
        whole = Standards(least_read=0)  # what is read in part counts, too
        room = asyncio.Semaphore(most)

        async def judge_one(trace: Trace) -> Annotation:
            async with room:
                return await annotate(trace, rubric, judge, whole)

        try:
            return await asyncio.gather(*map(judge_one, traces))
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
@pytest.mark.parametrize("given", [None, 60_000])
def test_no_prompt_that_was_cut_is_judged(
    rubric: Rubric, context: int, left: int, per_token: float, given: int | None
) -> None:
    """21 traces of 60,000 characters and more, also where the user says that they are read."""
    traces = [replace(long(patch=2_500 * n), id=f"t{n}") for n in range(21)]
    with OpenAIServer(cutting(context, left, per_token)) as server:
        found = judge_in_turn(server, traces, rubric, context=given)
    assert {one.status for one in found} == {"labelled"}, "shortened, and asked again"
    full = (sum(len(message.text) for message in LONG.messages) + 12_000) / per_token
    assert all(one.truncated for one in found) or full < context


def test_a_prompt_that_was_cut_is_made_as_short_where_the_rubric_stands_last(
    rubric: Rubric,
) -> None:
    found = []
    for last in (False, True):
        with OpenAIServer(cutting(16_000, 8_002)) as server:
            found.append(judged(server, LONG, rubric, mode="json_schema", rubric_last=last))
    assert [one.status for one in found] == ["labelled"] * 2
    assert found[0].read == pytest.approx(found[1].read, abs=0.01)


SMALL = {"usage": {"prompt_tokens": 900, "completion_tokens": 9}}
BROKEN = Reply(body=json.dumps({"choices": [], "usage": {"prompt_tokens": 90_000}}))


@pytest.mark.parametrize("before", [[], [BROKEN]], ids=["at once", "after one without a message"])
@pytest.mark.parametrize("given", [None, 60_000])
def test_one_that_is_always_cut_fails_with_its_reason(
    rubric: Rubric, given: int | None, before: list[Reply]
) -> None:
    """What was read by an attempt that was not answered is not what was read of this prompt."""
    replies = scripted(*before, replace(NOTHING, more=SMALL))
    with OpenAIServer(replies) as server:
        one = judged(server, LONG, rubric, mode="json_schema", context=given)
    assert one.status == "failed"
    assert "read 900 tokens of a prompt of" in (one.error or "")
    assert ("give --context" in (one.error or "")) == (given is None)


class CountsNew:
    """A server that counts only what it had not cached, its last prompt, as Ollama 0.30 does; it
    reads ``context`` tokens, and of a longer prompt the two ends. Where ``told``, it says what it
    had cached.
    """

    def __init__(self, responder: Responder, context: int = 10**6, *, told: bool = False) -> None:
        self.responder = responder
        self.context = context
        self.told = told
        self.read = ""

    def __call__(self, request: Request) -> Reply:
        prompt = "".join(one["content"] or "" for one in request.messages)
        if len(prompt) > 4 * self.context:
            prompt = prompt[: 2 * self.context] + prompt[-2 * self.context :]
        cached = sum(takewhile(bool, map(eq, prompt, self.read)))
        self.read = prompt
        counts: dict[str, Any] = {"prompt_tokens": (len(prompt) - cached) // 4 + 1}
        if self.told:
            counts["prompt_tokens_details"] = {"cached_tokens": cached // 4}
        counts["completion_tokens"] = 9
        if request.is_probe:
            reply = Reply(answer=least_answer(request.schema))
        else:
            reply = replace(self.responder(request), wait=0.01)
        return replace(reply, more={"usage": counts})


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("most", [1, 8])
def test_a_server_that_counts_only_what_is_new_to_it_cuts_nothing(
    rubric: Rubric, most: int, told: bool
) -> None:
    """A long trace, short ones, one after a wrong quote, and the same once more: all are read, side
    by side too, where another is always read in between.
    """
    short = [replace(LONG, id=f"t{n}", messages=LONG.messages[n : n + 3]) for n in range(6)]
    traces = [LONG, *short, short[-1]]
    replies = CountsNew(scripted(NOTHING, NOTHING, NOTHING, FALSE, NOTHING), told=told)
    with OpenAIServer(replies, probe=replies) as server:
        found = judge_in_turn(server, traces, rubric, most, context=60_000)
        asked = len(server.seen), len(server.probes)
    assert {(one.status, one.error, len(one.truncated)) for one in found} == {("none", None, 0)}
    assert (sum(one.usage.retries for one in found), asked) == (1, (len(traces) + 1, 2))


def test_what_is_new_to_such_a_server_is_held_against_its_count(rubric: Rubric) -> None:
    short = [replace(LONG, id=f"t{n}", messages=LONG.messages[n : n + 3]) for n in range(2)]
    traces = [*short, LONG]
    replies = CountsNew(lambda _: NOTHING, 10_000)
    with OpenAIServer(replies, probe=replies) as server:
        *before, cut = judge_in_turn(server, traces, rubric, context=60_000)
    assert {(one.status, len(one.truncated)) for one in before} == {("none", 0)}
    assert cut.truncated


@pytest.mark.parametrize("more", [1_000, 200])
def test_a_count_that_stands_still_gives_away_a_mild_cut(rubric: Rubric, more: int) -> None:
    """Of the first such prompt nobody can know it; of the second it is known, however little longer
    it is.
    """
    traces = [replace(long(patch=more * n), id=f"t{n}") for n in (1, 2, 3, 4)]
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


@pytest.mark.parametrize("filler", ["单位在解析器里面，", "単位はここです。", "단위는 파서 안에 "])
@pytest.mark.parametrize(("per_token", "context"), [(1.8, 40_000), (2.4, 10**6)])
def test_half_of_a_prompt_in_few_characters_a_token_is_not_judged(
    rubric: Rubric, filler: str, per_token: float, context: int
) -> None:
    """43,000 tokens of Chinese, Japanese or Korean have the characters of 16,000 of English."""
    with OpenAIServer(cutting(context, 20_002, per_token)) as server:
        one = judged(server, long(filler), rubric, mode="json_schema")
    assert (one.status, bool(one.truncated)) == ("labelled", context == 40_000)


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


@pytest.mark.parametrize(
    ("dialect", "tokens", "whole"),
    [
        ("openai", 16_384, True),
        ("openai", 4_096, False),
        ("generic", 16_384, False),
        ("openrouter", 16_384, False),
    ],
)
def test_a_provider_that_refuses_long_prompts_is_not_suspected_for_a_round_number(
    rubric: Rubric, dialect: str, tokens: int, whole: bool
) -> None:
    """The prompt has 79,000 characters. OpenRouter leaves out the middle of some."""
    usage = {"prompt_tokens": tokens, "completion_tokens": 9}
    with OpenAIServer(lambda _: replace(NOTHING, more={"usage": usage})) as server:
        one = judged(server, LONG, rubric, mode="json_schema", dialect=dialect)
    assert ((one.status, one.truncated) == ("none", {})) == whole


# A first answer that repeats the tags and is not accepted, what comes of it, and why.
READ = {
    "a quote that stands nowhere": (FALSE, "undecided", None),
    "a contradiction": ({"label": "C1b"}, "failed", 'label is "C1b" but there is no finding'),
    "a wrong form": ({"label": "C9"}, "failed", "label: Input should be"),
}


@pytest.mark.parametrize(("first", "status", "error"), READ.values(), ids=READ)
def test_tags_forgotten_in_a_second_answer_say_nothing_of_a_prompt_that_was_read(
    rubric: Rubric, first: Reply | dict[str, str], status: str, error: str | None
) -> None:
    """It is the same prompt, and it is not made shorter."""
    first = first if isinstance(first, Reply) else Reply(answer=NOTHING.answer | first)
    forgetful = Reply(answer={**NOTHING.answer, "first_tag": "?", "last_tag": "?"})
    with OpenAIServer(scripted(first, forgetful)) as server:
        found = judged(server, LONG, rubric, mode="json_schema")
        assert server.calls == 2
    assert (found.status, found.truncated) == (status, {})
    assert (error or "None") in str(found.error)


@pytest.mark.parametrize("mode", ["json_schema", "tools"])
def test_what_a_second_question_pushes_out_is_not_judged_without(rubric: Rubric, mode: str) -> None:
    """The prompt fits and what is asked after a wrong quote does not; the tags that are cut off
    stand in the first answer, and are repeated.
    """
    replies = {False: FALSE, True: NOTHING}
    sizes = []

    def respond(request: Request) -> Reply:
        answers = [call for one in request.messages for call in one.get("tool_calls") or ()]
        tokens = (sent(request) + sum(len(one["function"]["arguments"]) for one in answers)) // 4
        sizes.append(tokens)
        cut, reask = tokens > sizes[0] + 40, bool(request.reask)
        reply = replies[reask] if cut or not reask else RIGHT
        usage = {"prompt_tokens": min(tokens, sizes[0] + 40), "completion_tokens": 9}
        return replace(reply, more={"usage": usage})

    with OpenAIServer(respond) as server:
        one = judged(server, LONG, rubric, mode=mode)
    assert (one.status, one.primary) == ("labelled", "C3a"), "of a shorter one"
    assert one.truncated


@pytest.mark.parametrize("strips", [True, False])
def test_thoughts_that_a_server_leaves_out_are_not_missing(rubric: Rubric, strips: bool) -> None:
    """Templates of models that think in their answers leave that out of all but the last."""
    thought = f"<think>{'hm, let me see ' * 8_000}</think>"

    def respond(request: Request) -> Reply:
        left_out = len(thought) if strips and request.reask else 0
        reply = RIGHT if request.reask else FALSE
        answer = json.dumps({**TAGS, **reply.answer})
        usage = {"prompt_tokens": (sent(request) - left_out) // 4, "completion_tokens": 9}
        return Reply(text=thought + answer, more={"usage": usage})

    with OpenAIServer(respond) as server:
        one = judged(server, LONG, rubric, mode="json_schema")
    assert (one.status, one.usage.calls, one.truncated) == ("labelled", 2, {})


def test_an_answer_with_no_text_for_a_tag_does_not_say_that_it_was_read(rubric: Rubric) -> None:
    first, cut = (Reply(answer={**NOTHING.answer, "last_tag": tag}) for tag in (None, "?"))
    with OpenAIServer(scripted(first, cut, NOTHING)) as server:
        assert judged(server, LONG, rubric, mode="json_schema").truncated
