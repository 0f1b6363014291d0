"""How fast a run asks: calls in flight, rates, what a 429 changes, and what bounds one call."""

import asyncio
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from annotator.traces import Trace
from tests.conftest import set_model
from tests.judges.ask import RIGHT, TOOLS, WRONG, ask, ask_all, llm, statuses, talk
from tests.server import NOTHING, Reply, Request, Responder, Server, scripted

LIMITED = Reply(status=429, headers={"Retry-After": "0"})
BUSY = Reply(status=503, error={"message": "busy"}, headers={"Retry-After": "0"})


def talks(count: int) -> list[Trace]:
    return [replace(talk(f"Is it field {n}?", "I went on."), id=f"t{n}") for n in range(count)]


def judge_all(server: Server, count: int, limit: int = 8, **changes: Any) -> list[str]:
    """Judge so many traces and return their statuses."""
    more = {"mode": "tools", "attempts": 8, "timeout": 60.0, "concurrency": limit} | changes
    return [one.status for one in ask_all(server, talks(count), **more)]


def test_the_concurrency_is_reached_and_never_exceeded():
    """No pool of connections holds them back."""
    with Server(lambda _: replace(NOTHING, together=150)) as server:
        assert set(judge_all(server, 200, 150)) == {"none"}
        assert server.most_in_flight == 150


@pytest.mark.parametrize("more", [("--samples", "3"), ("--model", "m2")], ids=str)
def test_the_option_bounds_a_run_whatever_its_judges(annotate_cli, runs, more):
    runs(6)
    with Server(lambda _: replace(NOTHING, together=2, wait=0.02)) as server:
        annotate_cli(*llm(server, "--concurrency", 2, *more), "--out", "out")
        assert server.most_in_flight == 2


def first_then(first: Reply, later: Reply = NOTHING) -> Responder:
    """Give every trace one answer for its first request and another one from then on."""
    seen: set[str] = set()

    def respond(request: Request) -> Reply:
        repeated = request.user in seen
        seen.add(request.user)
        return later if repeated else first

    return respond


USED = {"usage": {"prompt_tokens": 5_000, "completion_tokens": 1_000}}
# The rate, the replies, how many traces -> the calls, and the seconds between two of them.
RATES: dict[str, tuple[dict[str, Any], Responder, int, int, float]] = {
    # 600 a minute: no call before those ahead of it had their tenth of a second.
    "calls a minute, with repetitions": ({"rpm": 600}, first_then(LIMITED), 4, 8, 0.1),
    # 40,000 a second, and 6,000 a call, however few were estimated.
    "tokens a minute": ({"tpm": 2_400_000}, scripted(replace(NOTHING, more=USED)), 4, 4, 0.15),
}


@pytest.mark.parametrize("name", RATES)
def test_a_rate_is_kept_without_a_burst(name):
    rate, responder, count, calls, seconds = RATES[name]
    came: list[float] = []

    def respond(request: Request) -> Reply:
        came.append(time.monotonic())
        return responder(request)

    with Server(respond) as server:
        begun = time.monotonic()
        judge_all(server, count, 1 if "tpm" in rate else 8, **rate)
    assert len(came) == calls
    assert [n for n, at in enumerate(came) if at - begun < seconds * n - 0.005] == []


def test_a_burst_of_429_lowers_the_calls_in_flight_and_successes_raise_them_again():
    """From 8 to 5.6, once."""
    in_flight = []

    def responder(request: Request) -> Reply:
        in_flight.append(server.in_flight)
        return replace(LIMITED, together=8) if request.n <= 8 else replace(NOTHING, wait=0.2)

    with Server(responder) as server:
        assert set(judge_all(server, 60)) == {"none"}
    assert max(in_flight[8:13]) <= 5
    assert max(in_flight[8:]) == 8


# The replies, settings -> the status, the calls, words of the error.
BOUNDS: dict[str, tuple[list[Reply], dict[str, Any], tuple[str, int, int], str]] = {
    "three": ([BUSY], {"attempts": 3}, ("failed", 3, 2), "HTTP 503: busy (the last of 3 attempts)"),
    # Calls of 0.5 s and pauses of 0.1 s, 0.2 s and 0.4 s, or a tenth more.
    "seconds": ([replace(BUSY, wait=0.5)], {"max_wait": 1.7, "attempts": 6}, ("failed", 3, 2), ""),
    "a wait that is too long": (
        [Reply(status=429, error={"message": "later"}, headers={"Retry-After": "3600"})],
        {"max_wait": 30.0, "attempts": 8},
        ("failed", 1, 0),
        "HTTP 429: later; the server asks to wait 3600 s, longer than max_wait",
    ),
    "errors in a second question": ([BUSY, WRONG, BUSY, RIGHT], {}, ("labelled", 4, 3), ""),
}


@pytest.mark.parametrize(("replies", "more", "counted", "words"), BOUNDS.values(), ids=BOUNDS)
def test_attempts_and_seconds_bound_a_call(trace, replies, more, counted, words):
    with Server(scripted(*replies)) as server:
        one = ask(server, trace, mode="tools", **more)
        assert len(server.seen) == counted[1]
    assert (one.status, one.usage.calls, one.usage.retries) == counted
    for part in words.split("; the server "):
        assert part in (one.error or "")


def test_waiting_for_its_turn_does_not_count_as_trying():
    """The last of six waits longer than max_wait before it is asked about at all."""
    slow = replace(NOTHING, wait=0.3)
    with Server(first_then(BUSY, slow)) as server:
        assert judge_all(server, 6, 1, max_wait=1.2) == ["none"] * 6


# Whether the server starts after the first refusal, the attempts -> the exit code.
STARTS = {"late": (True, 8, 0), "never": (False, 5, 2)}


@pytest.mark.parametrize(("starts", "attempts", "code"), STARTS.values(), ids=STARTS)
def test_a_server_that_nothing_has_reached_is_waited_for(
    annotate_cli, runs, monkeypatch, starts, attempts, code
):
    refused = threading.Event()

    sleep = asyncio.sleep

    async def pause(seconds: float, result: object = None) -> object:
        if seconds:  # 0 lets others run
            refused.set()
        return await sleep(seconds, result)

    monkeypatch.setattr("asyncio.sleep", pause)
    runs(1)
    with Server() as gone:
        pass
    with Server(port=gone.port, after=refused) if starts else nullcontext():
        done = annotate_cli(*llm(gone), *set_model(attempts=attempts), "--out", "out")
    assert done.code == code
    notice = f"no answer from {gone.url} (connection refused); trying again, up to {attempts - 1} "
    assert done.err.count(notice) == 1


# 0.0.0.0 leads to this machine and is no address of it.
@pytest.mark.parametrize(("host", "alone"), [("127.0.0.1", False), ("0.0.0.0", True)])
def test_the_first_call_goes_alone_where_a_provider_may_cache(monkeypatch, host, alone):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    answered = []  # calls, when each came

    def responder(request: Request) -> Reply:
        answered.append(server.calls - server.in_flight)
        first = replace(NOTHING, wait=0.3) if alone else replace(NOTHING, together=2)
        return first if request.n == 1 else NOTHING

    with Server(responder) as server:
        url = server.url.replace("127.0.0.1", host)
        assert judge_all(server, 6, base_url=url) == ["none"] * 6
    assert (answered[1] > 0) == alone


def test_the_others_go_on_if_the_first_one_fails(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    refused = Reply(status=400, error={"message": "strange characters"})
    with Server(scripted(refused, NOTHING)) as server:
        url = server.url.replace("127.0.0.1", "0.0.0.0")
        assert sorted(judge_all(server, 5, base_url=url)) == ["failed", *["none"] * 4]


def test_a_server_that_is_gone_stops_the_run_and_fails_no_trace(annotate_cli, runs):
    runs(9)
    gone = Reply(status=503, headers={"Retry-After": "0"})
    with Server(scripted(RIGHT, RIGHT, gone), probe=scripted(gone)) as server:
        args = (*llm(server, "--concurrency", "1", *TOOLS), "--out", "out")
        assert (annotate_cli(*args).code, statuses()) == (2, ["labelled"] * 2)
        server.responder, server.probe = scripted(RIGHT), None
        assert annotate_cli(*args, "--resume").code == 0
    assert statuses() == ["labelled"] * 9


def test_one_trace_whose_calls_all_fail_does_not_stop_the_run(annotate_cli, runs):
    runs(3)
    with Server(lambda one: Reply(drop=True) if "run 1." in one.user else RIGHT) as server:
        args = (*llm(server, "--concurrency", "1", *TOOLS), "--out", "out")
        assert annotate_cli(*args, *set_model(max_wait=1)).code == 1
    assert statuses() == ["failed", "labelled", "labelled"]
