"""How fast a judge asks: calls in flight, rates, what a 429 changes, and what bounds one call."""

import asyncio
import json
import os
import pty
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from annotator.annotations import Annotation
from annotator.judges.llm import LLMJudge, endpoint
from annotator.judges.llm.pace import Pace
from annotator.judges.llm.session import Session
from annotator.rubrics import Rubric, load_rubric
from annotator.runs.annotate import annotate
from annotator.traces import Message, Trace
from tests.conftest import ROOT
from tests.judges.test_llm import RIGHT, judged, options, scripted
from tests.openai_server import NOTHING, OpenAIServer, Reply, Request, Responder, finding

LIMITED = Reply(status=429, headers={"Retry-After": "0"})
BUSY = Reply(status=503, error={"message": "busy"}, headers={"Retry-After": "0"})


def talks(count: int) -> list[Trace]:
    second = Message(2, "b", (), "I went on.")
    return [
        Trace(f"t{n}", "generic", "", (Message(1, "a", (), f"Is it field {n}?"), second))
        for n in range(count)
    ]


def judge_all(
    server: OpenAIServer, rubric: Rubric, count: int, pace: Pace | None = None, **changes: object
) -> list[Annotation]:
    """Judge so many traces at once, as a run of that concurrency does."""

    async def all_of_them() -> list[Annotation]:
        given = {"mode": "tools", "attempts": 8} | changes
        judge = LLMJudge(options(server, **given), Session(pace or Pace()))
        try:
            return await asyncio.gather(*(annotate(one, rubric, judge) for one in talks(count)))
        finally:
            await judge.close()

    return asyncio.run(all_of_them())


def timed(responder: Responder, times: list[float]) -> Responder:
    """Note when each request came."""

    def respond(request: Request) -> Reply:
        times.append(time.monotonic())
        return responder(request)

    return respond


@dataclass(frozen=True)
class Clock:
    """Stands still but for the calls that a server has got: each takes so many seconds."""

    server: OpenAIServer
    call: float

    def monotonic(self) -> float:
        return self.call * len(self.server.seen)


def first_then(first: Reply, later: Reply = NOTHING) -> Responder:
    """Give every trace one answer for its first request and another one from then on."""
    seen: set[str] = set()

    def respond(request: Request) -> Reply:
        known = request.user in seen
        seen.add(request.user)
        return later if known else first

    return respond


def on_a_terminal(*arguments: str, cwd: Path) -> str:
    """Run ``annotate`` and return what it shows on a terminal."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200", "TERM": "xterm"}
    terminal, end = pty.openpty()
    command = [sys.executable, "-m", "annotator", *arguments]
    process = subprocess.Popen(command, cwd=cwd, env=env, stdout=subprocess.DEVNULL, stderr=end)
    os.close(end)
    shown = b""
    with suppress(OSError):  # the end of a terminal is an error
        while data := os.read(terminal, 65_536):
            shown += data
    os.close(terminal)
    assert process.wait(30) == 0, shown.decode()
    return shown.decode()


class TestInFlight:
    @pytest.mark.parametrize("limit", [1, 16])
    def test_the_concurrency_is_reached_and_never_exceeded(
        self, rubric: Rubric, limit: int
    ) -> None:
        with OpenAIServer(lambda _: replace(NOTHING, together=limit, wait=0.02)) as server:
            found = judge_all(server, rubric, max(4, 2 * limit), Pace(limit), timeout=60.0)
            assert server.most_in_flight == limit
        assert {one.status for one in found} == {"none"}

    def test_512_calls_are_in_flight_at_once(self, rubric: Rubric) -> None:
        """No pool of connections below holds them back. Each has a file at both of its ends."""
        least = 2_048
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard < least:
            pytest.skip(f"this user may open {hard} files: ulimit -Hn {least}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, least), hard))
        with OpenAIServer(lambda _: replace(NOTHING, together=512)) as server:
            found = judge_all(server, rubric, 560, Pace(512), timeout=60.0)
            assert server.most_in_flight == 512
            assert server.calls == len(found) == 560

    @pytest.mark.parametrize("more", [(), ("--samples", "3"), ("--model", "m2")], ids=str)
    def test_the_option_bounds_a_run_whatever_its_judges(
        self, annotate_cli: Callable[..., object], runs: Callable[..., Path], more: tuple[str, ...]
    ) -> None:
        with OpenAIServer(lambda _: replace(NOTHING, together=2, wait=0.02)) as server:
            args = (runs(6), "--rubric", "comm_errors", "--out", "out", "--concurrency", 2)
            annotate_cli(*args, "--base-url", server.url, "--model", "m", *more)
            assert server.most_in_flight == 2


class TestRates:
    def test_calls_a_minute_are_kept_without_a_burst_and_with_repetitions(
        self, rubric: Rubric
    ) -> None:
        """600 a minute: no call before the ones ahead of it had their tenth of a second."""
        came: list[float] = []
        with OpenAIServer(timed(first_then(LIMITED), came)) as server:
            begun = time.monotonic()
            judge_all(server, rubric, 4, Pace(8, rpm=600))
        assert len(came) == 8
        assert [n for n, at in enumerate(came) if at - begun < 0.1 * n - 0.005] == []

    def test_tokens_a_minute_are_those_that_the_server_counts(self, rubric: Rubric) -> None:
        """40,000 a second, and 6,000 a call: 0.15 s each, however few we had guessed."""
        came: list[float] = []
        usage = {"usage": {"prompt_tokens": 5_000, "completion_tokens": 1_000}}
        with OpenAIServer(timed(lambda _: replace(NOTHING, more=usage), came)) as server:
            begun = time.monotonic()
            judge_all(server, rubric, 4, Pace(1, tpm=60 * 40_000))
        assert [n for n, at in enumerate(came) if at - begun < 0.15 * n - 0.005] == []

    def test_tokens_that_were_not_used_are_given_back(self, rubric: Rubric) -> None:
        """A call is guessed at more than 5,000 tokens, and takes 3,300."""
        usage = {"usage": {"prompt_tokens": 3_290, "completion_tokens": 10}}
        with OpenAIServer(lambda _: replace(NOTHING, more=usage)) as server:
            begun = time.monotonic()
            judge_all(server, rubric, 6, Pace(1, tpm=60 * 8_250))
        assert 5 * 3_300 / 8_250 <= time.monotonic() - begun < 5 * 5_000 / 8_250


class TestTheWindow:
    def test_a_burst_of_429_lowers_it_once(self, rubric: Rubric) -> None:
        pace, windows = Pace(8), []

        def responder(request: Request) -> Reply:
            windows.append((pace.window, pace.state))
            return replace(LIMITED, together=8) if request.n <= 8 else NOTHING

        with OpenAIServer(responder) as server:
            found = judge_all(server, rubric, 8, pace)
        slowed = "slowed down to 5/8"
        assert windows[:9] == [(8.0, "")] * 8 + [(pytest.approx(5.6), slowed)]  # 0.7 of 8, once
        assert {one.status for one in found} == {"none"}
        assert sum(one.usage.retries for one in found) == 8

    def test_successes_widen_it_again_up_to_the_limit(self, rubric: Rubric) -> None:
        pace, in_flight = Pace(8), []

        def responder(request: Request) -> Reply:
            in_flight.append(server.in_flight)
            return replace(LIMITED, together=8) if request.n <= 8 else replace(NOTHING, wait=0.02)

        with OpenAIServer(responder) as server:
            judge_all(server, rubric, 50, pace)
            assert server.most_in_flight == 8
        assert max(in_flight[8:12]) <= 5
        assert (pace.window, pace.state) == (8.0, "")

    def test_a_round_trip_of_successes_adds_a_sixteenth_of_the_limit(self) -> None:
        async def after_a_round_trip() -> tuple[float, float]:
            pace = Pace(160)
            async with AsyncExitStack() as calls:
                for _ in range(160):
                    await calls.enter_async_context(pace.turn(1))
                pace.refused(pace.narrowed)
                lowered = pace.window
                for _ in range(112):
                    pace.succeeded()
            return lowered, pace.window

        lowered, widened = asyncio.run(after_a_round_trip())
        assert lowered == pytest.approx(112.0)
        assert 121.0 < widened < 122.0  # ten more, each success counted at the window then

    def test_refusals_one_after_another_lower_it_to_one_and_not_to_none(
        self, rubric: Rubric
    ) -> None:
        pace = Pace(4)
        with OpenAIServer(scripted(*[LIMITED] * 3, NOTHING)) as server:
            [one] = judge_all(server, rubric, 1, pace)
        assert (one.status, one.usage.calls, pace.limit) == ("none", 4, 4)
        assert pace.window == pytest.approx(2.0)  # down to 1, and one success: 1 + 1 / 1

    @pytest.mark.parametrize("when", ["waiting", "given", "sleeping"])
    def test_a_cancelled_call_gives_its_place_back(self, when: str) -> None:
        async def go() -> None:
            pace = Pace(1, rpm=120 if when == "sleeping" else None)

            async def call() -> None:
                async with pace.turn(1):
                    pass

            async with pace.turn(1):
                second, third = asyncio.create_task(call()), asyncio.create_task(call())
                await asyncio.sleep(0)
                if when == "waiting":
                    second.cancel()
            if when == "sleeping":  # for half a second
                for _ in range(9):
                    await asyncio.sleep(0)
            second.cancel()
            async with asyncio.timeout(30):
                await third
                await call()
            assert second.cancelled()

        asyncio.run(go())

    def test_the_progress_line_says_so(self, runs: Callable[..., Path], tmp_path: Path) -> None:
        """Also while nothing is judged because all calls wait to be repeated."""
        later = replace(LIMITED, headers={"Retry-After": "1"}, wait=0.1)
        with OpenAIServer(scripted(*[later] * 4, NOTHING)) as server:
            (tmp_path / "judge.yaml").write_text("mode: tools")
            args = (str(runs(6)), "--rubric", "comm_errors", "--out", "out")
            args += ("--judge", "judge.yaml")
            more = ("--concurrency", "4", "--base-url", server.url, "--model", "m")
            shown = on_a_terminal(*args, *more, cwd=tmp_path)
        assert "slowed down to 2/4" in shown


class TestOneCall:
    @pytest.mark.parametrize("attempts", [1, 3])
    def test_attempts_bound_it(self, trace: Trace, rubric: Rubric, attempts: int) -> None:
        with OpenAIServer(scripted(BUSY)) as server:
            one = judged(server, trace, rubric, mode="tools", attempts=attempts)
            assert len(server.seen) == attempts  # and a tiny question: is it the server?
        counted = (one.status, one.usage.calls, one.usage.retries)
        assert counted == ("failed", attempts, attempts - 1)
        assert f"HTTP 503: busy (the last of {attempts} attempts)" in (one.error or "")

    def test_the_time_bounds_it(
        self, trace: Trace, rubric: Rubric, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A call takes 0.5 s, and the pauses after it 0.1 s, 0.2 s and 0.4 s, or a tenth more."""
        with OpenAIServer(scripted(BUSY)) as server:
            monkeypatch.setattr(endpoint, "time", Clock(server, 0.5))
            one = judged(server, trace, rubric, mode="tools", attempts=6, max_wait=1.7)
            assert len(server.seen) == 3  # after the third one 1.5 s have gone
        assert (one.status, one.usage.calls, one.usage.retries) == ("failed", 3, 2)

    def test_waiting_for_its_turn_does_not_count_as_trying(
        self, rubric: Rubric, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The last of twelve waits longer than max_wait before it is asked about at all."""
        with OpenAIServer(first_then(BUSY)) as server:
            monkeypatch.setattr(endpoint, "time", Clock(server, 0.15))
            found = judge_all(server, rubric, 12, Pace(1), max_wait=1.2)
        assert [one.status for one in found] == ["none"] * 12, found[-1].error

    def test_a_retry_after_that_is_too_long_fails_at_once_with_its_words(
        self, trace: Trace, rubric: Rubric
    ) -> None:
        hour = {"Retry-After": "3600"}
        closed = Reply(status=429, error={"message": "come back later"}, headers=hour)
        with OpenAIServer(scripted(closed)) as server:
            one = judged(server, trace, rubric, mode="tools", attempts=8, max_wait=30.0)
            assert len(server.seen) == 1
        assert one.status == "failed"
        assert "HTTP 429: come back later" in (one.error or "")
        assert "asks to wait 3600 s, longer than max_wait" in (one.error or "")

    def test_every_repetition_is_counted(self, trace: Trace, rubric: Rubric) -> None:
        """An error, a wrong quote, an error in the re-ask, and the answer: 4 calls, 3 again."""
        wrong = finding("C1b", ("message:1", "made up from nothing"))
        with OpenAIServer(scripted(BUSY, wrong, BUSY, RIGHT)) as server:
            one = judged(server, trace, rubric, mode="tools")
            assert server.calls == 4
        assert (one.status, one.usage.calls, one.usage.retries) == ("labelled", 4, 3)


class TestTheSharedPrefix:
    """0.0.0.0 leads to this machine and is not an address of it: as far away as any other."""

    @pytest.fixture(autouse=True)
    def _key(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "k")

    @pytest.mark.parametrize(
        ("host", "warm", "alone"),
        [
            ("127.0.0.1", None, False),
            ("127.0.0.1", True, True),
            ("0.0.0.0", None, True),
            ("0.0.0.0", False, False),
        ],
    )
    def test_the_first_call_goes_alone_where_a_provider_may_cache(
        self, rubric: Rubric, host: str, warm: bool | None, alone: bool
    ) -> None:
        answered = []  # calls, when each came

        def responder(request: Request) -> Reply:
            answered.append(server.calls - server.in_flight)
            first = replace(NOTHING, wait=0.3) if alone else replace(NOTHING, together=2)
            return first if request.n == 1 else NOTHING

        with OpenAIServer(responder) as server:
            url = server.url.replace("127.0.0.1", host)
            found = judge_all(server, rubric, 6, base_url=url, warm=warm, timeout=60.0)
        assert (answered[1] > 0) == alone
        assert [one.status for one in found] == ["none"] * 6

    def test_the_others_go_on_if_the_first_one_fails(self, rubric: Rubric) -> None:
        refused = Reply(status=400, error={"message": "strange characters"})
        with OpenAIServer(scripted(refused, NOTHING)) as server:
            found = judge_all(server, rubric, 5, warm=True)
        assert sorted(one.status for one in found) == ["failed", *["none"] * 4]

    def test_each_rubric_has_a_first_call(self) -> None:
        came: dict[str, list[float]] = {}

        def responder(request: Request) -> Reply:
            calls = came.setdefault(request.system, [])
            calls.append(time.monotonic())
            return replace(NOTHING, wait=0.3 if len(calls) == 1 else 0.0)

        async def both() -> None:
            judge = LLMJudge(options(server, mode="tools", warm=True))
            rubrics = [load_rubric(name) for name in ("comm_errors", "symptoms")]
            asked = [annotate(one, rubric, judge) for one in talks(3) for rubric in rubrics]
            await asyncio.gather(*asked)
            await judge.close()

        with OpenAIServer(responder) as server:
            asyncio.run(both())
        assert [calls[1] - calls[0] >= 0.3 for calls in came.values()] == [True, True]

    @pytest.mark.parametrize("mode", ["tools", "json_schema", "json"])
    def test_it_is_the_same_to_the_byte_for_all_traces(self, rubric: Rubric, mode: str) -> None:
        with OpenAIServer(scripted(Reply(text="{}"))) as server:
            judge_all(server, rubric, 3, mode=mode, reasks=1)
            shared = {
                json.dumps([request.system, {**request.body, "messages": None}])
                for request in server.seen
            }
            assert len(server.seen) == 6  # re-asks, too
        assert len(shared) == 1
