"""Answers that no server should send, and what they must not do to a run, a label or a bill."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from annotator.judges.llm.settings import NATIVE
from annotator.rubrics import Rubric
from annotator.runs.run import open_run
from annotator.traces import Trace
from tests.conftest import TALK, Done, run_name, set_model, write_run
from tests.judges.test_llm import RIGHT, judged, scripted
from tests.openai_server import NOTHING, OpenAIServer, Reply, Request, finding
from tests.runs.test_run import llm, statuses

Cli = Callable[..., Done]
Runs = Callable[..., Path]
ONE_DOLLAR = ("--price-in", "1", "--price-out", "1")

HUGE = 10**400
ODD_USAGES = {
    "more than any call has": {"prompt_tokens": HUGE, "completion_tokens": HUGE},
    "no output": {"prompt_tokens": 4_000},
    "output in words": {"prompt_tokens": 4_000, "completion_tokens": "500"},
    "negative": {"prompt_tokens": 4_000, "completion_tokens": -5},
    "not a number": {"prompt_tokens": 4_000, "completion_tokens": 0.5},
}


@pytest.mark.parametrize("usage", ODD_USAGES.values(), ids=ODD_USAGES)
def test_a_usage_that_cannot_be_makes_the_cost_unknown(
    trace: Trace, rubric: Rubric, usage: object
) -> None:
    with OpenAIServer(scripted(replace(RIGHT, more={"usage": usage}))) as server:
        one = judged(server, trace, rubric, mode="tools", price_in=1.0, price_out=1.0)
    assert (one.status, one.usage.calls, one.usage.cost_usd) == ("labelled", 1, None)


def test_tokens_that_were_cached_are_among_those_read(trace: Trace, rubric: Rubric) -> None:
    details = {"prompt_tokens_details": {"cached_tokens": 9_000}}
    usage = {"prompt_tokens": 4_000, "completion_tokens": 10.0, **details}
    with OpenAIServer(scripted(replace(RIGHT, more={"usage": usage}))) as server:
        used = judged(server, trace, rubric, mode="tools", price_in=1.0, price_out=1.0).usage
    assert (used.input_tokens, used.cached_tokens, used.output_tokens) == (13_000, 9_000, 10)
    assert used.cost_usd == pytest.approx(13_010 / 1e6)


@pytest.mark.parametrize("mode", ["tools", "json_schema", "json"])
def test_half_a_character_in_a_wrong_answer_can_be_asked_about(
    trace: Trace, rubric: Rubric, mode: str
) -> None:
    wrong = finding("C1b", ("message:1", "made up \ud800 from nothing"))
    with OpenAIServer(scripted(wrong, RIGHT)) as server:
        assert judged(server, trace, rubric, mode=mode).status == "labelled"


@pytest.mark.parametrize("mode", ["tools", "json"])
def test_an_answer_of_megabytes_is_not_sent_back(trace: Trace, rubric: Rubric, mode: str) -> None:
    wordy = finding("C1b", ("message:1", "made up" * 200_000))
    with OpenAIServer(scripted(wordy, RIGHT)) as server:
        one = judged(server, trace, rubric, mode=mode)
        assert server.calls == 1
    assert one.status == "failed"
    assert re.match(r"an answer of 1400\d\d\d characters", one.error or "")


@pytest.mark.parametrize("limit", [-1, 0, HUGE])
def test_a_context_that_cannot_be_is_not_believed(trace: Trace, rubric: Rubric, limit: int) -> None:
    said = {"message": "context size exceeded", "n_ctx": limit, "n_prompt_tokens": HUGE}
    with OpenAIServer(scripted(Reply(status=400, error=said))) as server:
        one = judged(server, trace, rubric, mode="tools")
    assert (one.status, "too long" in (one.error or "")) == ("failed", True)


NO_HTTP = {
    "no HTTP": Reply(raw=b"SSH-2.0-x\r\n\r\n"),
    "a length that is none": Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"),
    "nothing": Reply(body=b""),
}


@pytest.mark.parametrize("api", ["chat", "responses", "anthropic", "gemini"])
@pytest.mark.parametrize("reply", NO_HTTP.values(), ids=NO_HTTP)
def test_what_is_no_answer_at_all_fails_the_trace_and_shows_no_address(
    trace: Trace, rubric: Rubric, reply: Reply, api: str
) -> None:
    for package in {"anthropic": ["anthropic"], "gemini": ["google.genai"]}.get(api, []):
        pytest.importorskip(package)
    with OpenAIServer(scripted(reply)) as server:
        url = f"{server.url.removesuffix('/v1' if api in NATIVE else '')}?sig=SECRET-9"
        one = judged(server, trace, rubric, base_url=url, api=api, mode="json", attempts=1)
    assert (one.status, "the last of 1 attempts" in (one.error or "")) == ("failed", True)
    assert "SECRET-9" not in (one.error or "")


@pytest.mark.parametrize("text", ["```a\n" * 20_000, "\n " * 500_000 + "x", "</s> " * 99_999 + "x"])
def test_a_text_that_only_repeats_itself_is_no_answer(
    trace: Trace, rubric: Rubric, text: str
) -> None:
    with OpenAIServer(scripted(Reply(text=text)), forms=()) as server:
        assert judged(server, trace, rubric, mode="json", reasks=0).status == "failed"


def test_an_answer_without_end_is_given_up(trace: Trace, rubric: Rubric) -> None:
    endless = Reply(body=json.dumps({"choices": [], "more": "x" * 17_000_000}))
    with OpenAIServer(scripted(endless)) as server:
        one = judged(server, trace, rubric, mode="tools", attempts=1)
    assert "longer than 16 MB" in (one.error or "")


def test_an_answer_to_a_part_of_the_prompt_is_none_of_the_whole_in_a_batch_either(
    annotate_cli: Cli, tmp_path: Path
) -> None:
    talk = [("agent1", f"{TALK[0][1]} {'word ' * 9_000}"), TALK[1]]
    write_run(tmp_path / run_name(1), talk)
    cut = Reply(answer=NOTHING.answer | {"first_tag": "first-000000"})
    with OpenAIServer(scripted(cut)) as server:
        for out, more in (("plain", ()), ("batch", ("--batch",))):
            args = ("logs", "--rubric", "comm_errors", *llm(server), "--out", out, *more)
            assert annotate_cli(*args).code == 1
            assert statuses(tmp_path / out) == {"failed": 1}


def test_one_trace_whose_calls_all_fail_does_not_stop_the_run(
    annotate_cli: Cli, runs: Runs, tmp_path: Path
) -> None:
    def responder(request: Request) -> Reply:
        return Reply(drop=True) if "run 1." in request.user else RIGHT

    with OpenAIServer(responder) as server:
        more = llm(server, "--concurrency", "1", *set_model(mode="tools"))
        args = (runs(3), "--rubric", "comm_errors", *more, "--out", "out")
        assert annotate_cli(*args).code == 1
        again = annotate_cli(*args, "--resume")
    assert (again.code, statuses(tmp_path / "out")) == (1, {"failed": 1, "labelled": 2})


@pytest.mark.parametrize("status", [500, 503])
def test_a_server_that_is_gone_stops_the_run_and_fails_no_trace(
    annotate_cli: Cli, runs: Runs, tmp_path: Path, status: int
) -> None:
    gone = Reply(status=status, headers={"Retry-After": "0"})
    with OpenAIServer(scripted(RIGHT, RIGHT, gone)) as server:
        more = llm(server, "--concurrency", "1", *set_model(mode="tools"))
        args = (runs(9), "--rubric", "comm_errors", *more, "--out", "out")
        server.probe = scripted(gone)
        done = annotate_cli(*args)
        assert (done.code, statuses(tmp_path / "out")) == (2, {"labelled": 2})
        server.responder, server.probe = scripted(RIGHT), None
        assert annotate_cli(*args, "--resume").code == 0
    assert statuses(tmp_path / "out") == {"labelled": 9}


def test_the_budget_counts_failures_that_are_judged_again(annotate_cli: Cli, runs: Runs) -> None:
    """Four traces that fail at 0.05 dollars each: a resumed run may not pay them all again."""
    usage = {"usage": {"prompt_tokens": 50_000, "completion_tokens": 0}}
    cut_off = replace(RIGHT, finish="length", more=usage)
    with OpenAIServer(scripted(cut_off)) as server:
        more = llm(server, *ONE_DOLLAR, *set_model(mode="tools"), "--max-cost", "0.22")
        args = (runs(4), "--rubric", "comm_errors", *more, "--out", "out")
        assert annotate_cli(*args).code == 1
        assert (annotate_cli(*args, "--resume").code, len(server.seen)) == (3, 4)


def test_two_addresses_that_differ_in_their_query_share_no_answer(
    annotate_cli: Cli, runs: Runs, tmp_path: Path
) -> None:
    with OpenAIServer(scripted(RIGHT)) as server:
        for n, query in enumerate(("?deployment=a", "?deployment=b", "?deployment=a")):
            url = ("--base-url", f"{server.url}{query}", "--model", "m", *set_model(mode="tools"))
            args = (runs(1), "--rubric", "comm_errors", *url, "--out", f"out{n}")
            assert annotate_cli(*args).code == 0
        assert len(server.seen) == 2
    assert "deployment" not in (tmp_path / "out0" / "run.json").read_text()


@pytest.mark.parametrize("scheme", ["http", "HTTP"])
def test_no_password_of_a_url_is_recorded(
    annotate_cli: Cli, runs: Runs, tmp_path: Path, scheme: str
) -> None:
    with OpenAIServer(scripted(RIGHT)) as server:
        url = server.url.replace("http://", f"{scheme}://user:pa@ss-SECRET@")
        args = (runs(1), "--rubric", "comm_errors", "--model", "m", "--base-url", url)
        annotate_cli(*args, *set_model(attempts=1, mode="tools"), "--out", "out")
    recorded = "".join(file.read_text() for file in tmp_path.glob("out/*.json*"))
    assert "SECRET" not in recorded
    if recorded:
        assert open_run(tmp_path / "out").manifest.judge.base_url.endswith("/v1")
