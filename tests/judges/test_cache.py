"""Answers kept on disk: what is asked once, what is asked again, and what each run has cost."""

import json
import re
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from annotator.annotations import Usage
from annotator.errors import AnnotatorError
from annotator.judges.llm.cache import AnswerCache, clear, contents
from annotator.judges.llm.reply import Reply as Kept
from annotator.rubrics import list_built_in
from tests.conftest import TALK, Done, annotations, run_name, set_model, write_run
from tests.judges.test_llm import RIGHT, scripted
from tests.openai_server import OpenAIServer, Reply, Request, finding
from tests.runs.test_run import start, statuses, wait_for_lines

Cli = Callable[..., Done]
Runs = Callable[..., Path]

PRICES = ("--price-in", "1", "--price-out", "1")
ARGS = ("logs", "--rubric", "comm_errors")
REFUSAL = Reply(refusal="I will not.")
WRONG = finding("C1b", ("message:1", "made up from nothing"))


def llm(server: OpenAIServer, *more: str) -> tuple[str, ...]:
    return ("--model", "m", "--base-url", server.url, *set_model(attempts=2), *more)


def totals(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "run.json").read_text())["totals"]


def findings(folder: Path) -> dict[tuple[str, str], Any]:
    """What was found, without what it cost."""
    return {key: replace(one, usage=Usage()) for key, one in annotations(folder).items()}


def wrong_first(request: Request) -> Reply:
    """A wrong quote, and the right one when asked again."""
    return RIGHT if request.reask else WRONG


# What was changed -> how many of the two questions are asked again, and how many are known.
CHANGES: dict[str, tuple[tuple[str, ...], int, int]] = {
    "model": (("--model", "other"), 2, 0),
    "temperature": (("--temperature", "0.5"), 2, 0),
    "seed": (("--seed", "3"), 2, 0),
    "effort": (set_model(reasoning_effort="low"), 2, 0),
    "longest answer": (set_model(max_output_tokens=500), 2, 0),
    "extra field": (set_model(extra_body={"top_p": 0.5}), 2, 0),
    "form": (set_model(mode="json_schema"), 2, 0),
    "rubric": (("--rubric", "other.yaml"), 2, 0),
    "one more sample": (("--samples", "2"), 2, 2),
    "nothing": ((), 0, 2),
    "how it is asked": (("--concurrency", "2", *set_model(timeout=9, max_wait=9)), 0, 2),
    "how often": ((*set_model(attempts=9, reasks=1), "--rpm", "9"), 0, 2),
    "the price": (("--price-in", "1", "--price-out", "1", "--max-cost", "1"), 0, 2),
}

# What is no judgement, or none yet: never remembered.
UNANSWERED = {
    "refusal": REFUSAL,
    "filtered": replace(RIGHT, finish="content_filter"),
    "cut off": replace(RIGHT, finish="length"),
    "malformed": Reply(text='{"findings": [{'),
    "too long": Reply(status=400, error={"message": "maximum context length is 99 tokens"}),
}


def damage(*statements: str) -> Callable[[Path], None]:
    def run(file: Path) -> None:
        with closing(sqlite3.connect(file)) as base, base:
            for statement in statements:
                base.execute(statement)

    return run


DAMAGED: dict[str, Callable[[Path], object]] = {
    "garbage": lambda file: file.write_bytes(b"garbage" * 999),
    "half of it": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "a folder": lambda file: (file.unlink(), file.mkdir()),
    "no place for it": lambda file: (file.unlink(), file.parent.rmdir(), file.parent.touch()),
    "another program's": damage("alter table answers rename column reply to r"),
    "answers that are none": damage("update answers set reply = '{'"),
    "an answer with other letters": damage(
        """update answers set reply = replace(reply, 'C1', 'C2')"""
    ),
    "another price": damage("""update answers set usage = replace(usage, '0.0', '9.0')"""),
    "a number for an answer": damage("update answers set reply = 5, trace = 7"),
    "bytes for an answer": damage("update answers set reply = x'ff00', run = x'ff'"),
    "nested without end": damage(f"update answers set reply = '{'[' * 99_999}'"),
    "usage nested without end": damage(f"update answers set usage = '{'[' * 99_999}'"),
    "a schema in no encoding": damage(
        "pragma writable_schema = on",
        "update sqlite_master set name = cast(x'61e0' as text), sql = 'create'",
    ),
    "rows without end": damage(
        "drop table answers",
        "create view answers as with recursive n(x) as (select 1 union all select x + 1 from n)"
        " select 'k' || x as key, '' as reply, '' as usage, '' as run, '' as trace from n",
    ),
    "usage that is none": damage("""update answers set usage = '{"tokens": 1}'"""),
}


def test_a_view_is_not_taken_into_the_cache(tmp_path: Path) -> None:
    """It may have rows without end."""
    with closing(sqlite3.connect(tmp_path / "other")) as base:
        reply = Kept("hello").to_json().replace("'", "''")
        base.execute(
            f"create view answers as select 'k' as key, 'm' as model, '{reply}' as reply,"
            """ '{"cost_usd": 0.0}' as usage, '' as run, '' as trace, 0 as at"""
        )
    cache = AnswerCache(tmp_path / "answers")
    cache.absorb(tmp_path / "other")
    assert (cache.get("k"), cache.problem) == (None, None)
    cache.close()


def test_a_schema_in_no_encoding_is_damage_whenever_it_is_met(tmp_path: Path) -> None:
    spoil = DAMAGED["a schema in no encoding"]
    AnswerCache(tmp_path / "other").close()
    spoil(tmp_path / "other")
    with pytest.raises(AnnotatorError, match="other: cannot be cleared: "):
        clear(tmp_path / "other")
    cache = AnswerCache(tmp_path / "answers")
    cache.absorb(tmp_path / "other")
    assert cache.problem is None
    spoil(tmp_path / "answers")
    cache.put("k", "m", Kept("hello"), Usage())
    assert "cannot be used" in (cache.problem or "")


def test_a_lock_on_answers_that_are_vital_is_no_damage(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "answers")) as base:
        base.execute("begin exclusive")
        with pytest.raises(AnnotatorError, match=r"cannot be used: database is locked$"):
            AnswerCache(tmp_path / "answers", "r", vital=True)


class TestAgain:
    @pytest.mark.parametrize("more", [(), ("--samples", "3")], ids=["one", "votes"])
    def test_a_second_run_asks_nothing_and_finds_the_same(
        self, annotate_cli: Cli, runs: Runs, tmp_path: Path, more: tuple[str, ...]
    ) -> None:
        runs(3)
        priced = ("--price-in", "1", "--price-out", "1", *more)
        with OpenAIServer(wrong_first) as server:
            first = annotate_cli(*ARGS, *llm(server, *priced), "--out", "one")
            calls, probes = server.calls, len(server.probes)
            second = annotate_cli(*ARGS, *llm(server, *priced), "--out", "two")
            assert (server.calls, probes) == (calls, 1)
        answers = 6 if more else 2
        assert (first.code, second.code, first.out) == (0, 0, second.out)
        assert findings(tmp_path / "one") == findings(tmp_path / "two")
        assert statuses(tmp_path / "two") == {"labelled": 3}
        shown = ("calls", "input_tokens", "cost_usd", "cache_hits")
        assert [totals(tmp_path / "two")[name] for name in shown] == [0, 0, 0.0, 3 * answers]
        assert totals(tmp_path / "one")["cache_hits"] == 0

    def test_no_cache_neither_reads_nor_keeps(
        self, annotate_cli: Cli, runs: Runs, answer_cache: Path
    ) -> None:
        runs(2)
        with OpenAIServer(scripted(RIGHT)) as server:
            for n, asked in enumerate((2, 2, 2, 0)):
                before = len(server.seen)
                more = () if n % 2 else ("--no-cache",)
                annotate_cli(*ARGS, *llm(server, *more), "--out", n)
                assert len(server.seen) - before == asked, f"run {n}"
                assert answer_cache.exists() == (n > 0)

    def test_what_decides_the_answer_is_asked_again_and_nothing_else(
        self, annotate_cli: Cli, runs: Runs, tmp_path: Path
    ) -> None:
        runs(2)
        text = next(path for path in list_built_in() if path.stem == "comm_errors").read_text()
        (tmp_path / "other.yaml").write_text(re.sub(r"version: \d+", "version: 99", text, count=1))
        asked = {}
        with OpenAIServer(scripted(RIGHT)) as server:
            hosted = set_model(mode="tools", dialect="openai")  # with a temperature of its own
            annotate_cli(*ARGS, *llm(server, *hosted), "--out", "first")
            for name, (change, *_) in CHANGES.items():
                before = server.calls
                rubric = () if "--rubric" in change else ARGS[1:]
                args = ("logs", *llm(server)[2:], *hosted, *rubric)
                model = () if "--model" in change else ("--model", "m")
                done = annotate_cli(*args, *model, *change, "--out", name)
                assert done.code == 0, done.err
                asked[name] = (server.calls - before, totals(Path(name))["cache_hits"])
        assert asked == {name: tuple(expected) for name, (_, *expected) in CHANGES.items()}

    def test_another_address_or_text_is_asked_again(self, annotate_cli: Cli, runs: Runs) -> None:
        runs(2)
        with OpenAIServer(scripted(RIGHT)) as server:
            here = llm(server, *set_model(mode="tools"))
            annotate_cli(*ARGS, *here, "--out", "one")
            there = server.url.replace("127.0.0.1", "localhost")
            annotate_cli(*ARGS, *here, "--base-url", there, "--out", "two")
            assert server.calls == 4
            write_run(Path(run_name(2)), [*TALK, ("agent1", "One more word.")])
            annotate_cli(*ARGS, *here, "--out", "three")
            assert server.calls == 5
            Path("logs").rename("moved")
            annotate_cli("moved", *ARGS[1:], *here, "--out", "four")
            assert server.calls == 5

    @pytest.mark.parametrize("reply", UNANSWERED.values(), ids=UNANSWERED)
    def test_a_failure_is_asked_again(self, annotate_cli: Cli, reply: Reply) -> None:
        write_run(Path(run_name(1)), [("agent1", TALK[0][1] + " word" * 9_000), TALK[1]])
        with OpenAIServer(scripted(reply)) as server:
            args = (*ARGS, *llm(server, *set_model(mode="tools")))
            assert annotate_cli(*args, "--out", "one").code == 1
            assert "answers  0" in annotate_cli("cache", "info").out
            server.responder = scripted(RIGHT)
            assert annotate_cli(*args, "--out", "two").code == 0
            assert annotate_cli(*args, "--out", "one", "--resume").code == 0
        assert statuses(Path("one")) == statuses(Path("two")) == {"labelled": 1}

    def test_an_outage_does_not_decide_the_form(self, annotate_cli: Cli, runs: Runs) -> None:
        runs(1)
        down = scripted(Reply(status=500, error={"message": "down"}))
        with OpenAIServer(down, probe=down) as server:
            assert annotate_cli(*ARGS, *llm(server), "--out", "one").code == 2
            server.responder, server.probe = scripted(RIGHT), None
            assert annotate_cli(*ARGS, *llm(server), "--out", "two").code == 0
            assert server.seen[-1].form == "json_schema"


class TestTheFile:
    @pytest.mark.parametrize("spoil", DAMAGED.values(), ids=DAMAGED)
    def test_one_that_cannot_be_used_stops_no_run_and_is_said(
        self, annotate_cli: Cli, runs: Runs, answer_cache: Path, spoil: Callable[[Path], object]
    ) -> None:
        runs(2)
        with OpenAIServer(scripted(RIGHT)) as server:
            args = (*ARGS, *llm(server, *set_model(mode="tools")))
            annotate_cli(*args, "--out", "one")
            spoil(answer_cache)
            done = annotate_cli(*args, "--out", "two", "--max-cost", "9", *PRICES)
            assert server.calls == 4
        assert (done.code, statuses(Path("two"))) == (0, {"labelled": 2}), done.err
        assert f"answer cache {answer_cache}" in done.err

    def test_info_and_clear(self, annotate_cli: Cli, runs: Runs, answer_cache: Path) -> None:
        assert annotate_cli("cache", "info").out == f"file     {answer_cache}\nanswers  0\n"
        assert annotate_cli("cache", "clear").out == "0 answers dropped\n"
        runs(2)
        with OpenAIServer(scripted(RIGHT)) as server:
            for model in ("m1", "m2"):
                args = (*ARGS, *llm(server)[2:], "--model", model)
                annotate_cli(*args, "--out", f"{model} first")
            with closing(sqlite3.connect(answer_cache)) as base, base:
                base.execute("update answers set at = case model when 'm1' then 9 else 2e5 end")
                base.execute(
                    "update answers set at = 3e5 where key = ("
                    "select min(key) from answers where model = 'm2')"
                )
            shown = annotate_cli("cache", "info").out
            assert "answers  4\n" in shown
            assert shown.endswith("  m1: 2, 1970-01-01\n  m2: 2, 1970-01-03 to 1970-01-04\n")
            assert annotate_cli("cache", "clear", "--model", "m1").out == "2 answers dropped\n"
            assert "m1" not in annotate_cli("cache", "info").out
            annotate_cli(*args, "--out", "m2 again")
            assert len(server.seen) == 4
            assert annotate_cli("cache", "clear").out == "2 answers dropped\n"
            annotate_cli(*args, "--out", "m2 once more")
            assert len(server.seen) == 6

    def test_info_of_an_odd_name(
        self, annotate_cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = tmp_path / "[a] \x1b[31m.sqlite"
        monkeypatch.setenv("ANNOTATOR_CACHE", str(file))
        AnswerCache(file).close()
        with closing(sqlite3.connect(file)) as base, base:
            base.execute("create table padding as select zeroblob(200000)")
        shown = annotate_cli("cache", "info").out.splitlines()
        assert shown == [
            f"file     {tmp_path}/[a] \ufffd[31m.sqlite",
            "answers  0",
            "size     0.2 MB",
        ]

    @pytest.mark.parametrize("command", ["info", "clear"])
    def test_no_other_file(self, annotate_cli: Cli, answer_cache: Path, command: str) -> None:
        answer_cache.parent.mkdir()
        answer_cache.write_text("my diary " * 99)
        done = annotate_cli("cache", command)
        assert (done.code, str(answer_cache) in done.err) == (2, True)
        assert answer_cache.read_text() == "my diary " * 99
        answer_cache.unlink()
        answer_cache.symlink_to(answer_cache.name)
        done = annotate_cli("cache", command)
        assert (done.code, str(answer_cache) in done.err) == (2, True)

    def test_connections_share_it_from_the_first_moment(self, answer_cache: Path) -> None:
        ready = threading.Barrier(6)

        def write(n: int) -> str | None:
            ready.wait()
            with closing(AnswerCache(answer_cache, f"run {n}")) as cache:
                for k in range(20):
                    cache.put(f"{n} {k}", "m", Kept("x"), Usage())
                return cache.problem

        with ThreadPoolExecutor(6) as threads:
            assert list(threads.map(write, range(6))) == [None] * 6
        assert [held.answers for held in contents(answer_cache)] == [120]

    def test_it_waits_for_another_one_that_makes_it(self, answer_cache: Path) -> None:
        """SQLite itself waits for a lock, but not when it first opens a file that is locked."""
        answer_cache.parent.mkdir()
        other = sqlite3.connect(answer_cache, isolation_level=None, check_same_thread=False)
        other.execute("begin immediate")
        release = threading.Timer(0.3, other.execute, ("rollback",))
        release.start()
        with closing(other), closing(AnswerCache(answer_cache)) as cache:
            assert cache.problem is None
            release.join()

    def test_two_processes_share_it(self, annotate_cli: Cli, runs: Runs) -> None:
        runs(6)
        with OpenAIServer(scripted(replace(RIGHT, wait=0.05))) as server:
            more = (*ARGS[1:], *llm(server, *set_model(mode="tools")))
            here, there = (f"logs/night/coop/shop_task/[{n}]" for n in ("1-3", "4-6"))
            process = start(there, *more, "--out", "there", cwd=Path.cwd())
            assert annotate_cli(here, *more, "--out", "here").code == 0
            process.communicate(timeout=60)
            annotate_cli(*ARGS, *more[2:], "--out", "all")
            assert (process.returncode, server.calls) == (0, 6)


class TestWhatARunHasCost:
    PRICED = (*set_model(mode="tools"), "--price-in", "1", "--price-out", "1")

    def test_of_two_equal_traces_one_is_paid(self, annotate_cli: Cli, runs: Runs) -> None:
        runs(2, talk=TALK)
        with OpenAIServer(scripted(RIGHT)) as server:
            args = (*ARGS, *llm(server, *self.PRICED, "--concurrency", "1"), "--out", "out")
            annotate_cli(*args)
            assert totals(Path("out"))["calls"] == server.calls == 1

    @pytest.mark.parametrize("more", [(), ("--samples", "3"), ("--samples", "3", "--no-cache")])
    def test_a_run_that_was_stopped_counts_every_call_once(
        self, annotate_cli: Cli, runs: Runs, more: tuple[str, ...]
    ) -> None:
        """The tenth call is refused: in a re-ask, or when other votes on the trace stand."""
        runs(6)

        def responder(request: Request) -> Reply:
            return Reply(status=401) if request.n == 10 else wrong_first(request)

        with OpenAIServer(responder) as server:
            more = ("--concurrency", "1", "--out", "out", *more)
            args = (*ARGS, *llm(server, *self.PRICED, *more))
            assert annotate_cli(*args).code == 2
            assert annotate_cli(*args, "--resume").code == 0
            used = totals(Path("out"))
            assert (used["calls"], used["input_tokens"]) == (server.calls, server.tokens_in)

    def test_votes_of_a_failed_trace_count_once(self, annotate_cli: Cli, runs: Runs) -> None:
        """One vote of three stands and is known when the trace is judged again."""
        runs(1)
        with OpenAIServer(scripted(RIGHT, REFUSAL, REFUSAL)) as server:
            args = (*ARGS, *llm(server, *self.PRICED, "--samples", "3"), "--out", "out")
            assert annotate_cli(*args, "--concurrency", "1").code == 1
            server.responder = scripted(RIGHT)
            assert annotate_cli(*args, "--concurrency", "1", "--resume").code == 0
            assert totals(Path("out"))["calls"] == server.calls == 5

    def test_a_malformed_vote_is_asked_again_where_another_one_stops_the_run(
        self, annotate_cli: Cli, runs: Runs
    ) -> None:
        runs(1)
        with OpenAIServer(scripted(Reply(text="{"), RIGHT, Reply(status=401))) as server:
            more = ("--samples", "3", *set_model(reasks=0), "--concurrency", "1", "--out", "out")
            args = (*ARGS, *llm(server, *self.PRICED, *more))
            assert annotate_cli(*args).code == 2
            server.responder = scripted(RIGHT)
            assert annotate_cli(*args, "--resume").code == 0
            used = totals(Path("out"))
            assert (used["calls"], used["input_tokens"]) == (server.calls, server.tokens_in)
        [found] = annotations(Path("out")).values()
        assert {vote.status for vote in found.votes} == {"labelled"}

    @pytest.mark.parametrize("times", [1, 2])
    def test_ctrl_c_counts_no_call_twice(self, annotate_cli: Cli, runs: Runs, times: int) -> None:
        """Stopped while two calls wait for an answer; what other votes had is not lost, and there
        is no traceback, not for an impatient user either.
        """
        runs(8)

        def responder(request: Request) -> Reply:
            return replace(RIGHT, together=99 if request.n in (6, 7) else 0)

        with OpenAIServer(responder) as server:
            more = ("--concurrency", "2", "--out", "out", "--samples", "2")
            args = (*ARGS, *llm(server, *self.PRICED, *more))
            process = start(*args, cwd=Path.cwd())
            wait_for_lines(Path("out", "annotations.jsonl"), 2)
            while server.in_flight < 2 and process.poll() is None:
                time.sleep(0.01)
            for _ in range(times):
                process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=30)
            assert process.returncode == 130
            assert "Traceback" not in str(said)
            annotate_cli(*args, "--resume")
            assert totals(Path("out"))["calls"] == server.calls
