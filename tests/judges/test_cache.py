"""Answers kept on disk: what is asked once, what is asked again, and a file that is damaged."""

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from annotator.rubrics import list_built_in
from tests.conftest import TALK, run_name, set_model, write_run
from tests.judges.ask import (
    ARGS,
    PRICED,
    RIGHT,
    TOOLS,
    findings,
    llm,
    statuses,
    totals,
    wrong_first,
)
from tests.runs.test_run import start
from tests.server import Reply, Server, scripted

# What was changed -> how many of the two questions are asked again, and how many are known.
CHANGES: dict[str, tuple[tuple[object, ...], int, int]] = {
    "model": (("--model", "other"), 2, 0),
    "temperature": (("--temperature", "0.5"), 2, 0),
    "seed": (("--seed", "3"), 2, 0),
    "effort": (set_model(reasoning_effort="low"), 2, 0),
    "longest answer": (set_model(max_output_tokens=500), 2, 0),
    "extra field": (set_model(extra_body={"top_p": 0.5}), 2, 0),
    "form": (set_model(mode="json_schema"), 2, 0),
    "address": (("--base-url", "{url}?deployment=b"), 2, 0),
    "one more sample": (("--samples", "2"), 2, 2),
    "nothing": ((), 0, 2),
    "how it is asked": (("--concurrency", "2", *set_model(timeout=9, max_wait=9)), 0, 2),
    "how often": ((*set_model(attempts=9, reasks=1), "--rpm", "9"), 0, 2),
    "the price": ((*PRICED, "--max-cost", "1"), 0, 2),
}


@pytest.mark.parametrize("more", [(), ("--samples", "3")], ids=["one", "votes"])
def test_a_second_run_asks_nothing_and_finds_the_same(annotate_cli, runs, more):
    runs(3)
    with Server(wrong_first) as server:
        first = annotate_cli(*llm(server, *PRICED, *more), "--out", "one")
        calls = server.calls
        second = annotate_cli(*llm(server, *PRICED, *more), "--out", "two")
        assert (server.calls, len(server.probes)) == (calls, 1)
    assert (first.code, second.code, first.out) == (0, 0, second.out)
    assert findings("one") == findings("two")
    assert statuses("two") == ["labelled"] * 3
    shown = ("calls", "input_tokens", "cost_usd", "cache_hits")
    assert [totals("two")[name] for name in shown] == [0, 0, 0.0, 18 if more else 6]
    assert totals("one")["cache_hits"] == 0


def test_no_cache_neither_reads_nor_keeps(annotate_cli, runs, answer_cache):
    runs(2)
    with Server(scripted(RIGHT)) as server:
        for n, asked in enumerate((2, 2, 2, 0)):
            before = len(server.seen)
            annotate_cli(*llm(server, *(() if n % 2 else ("--no-cache",))), "--out", n)
            assert len(server.seen) - before == asked, f"run {n}"
            assert answer_cache.exists() == (n > 0)


def test_what_decides_the_answer_is_asked_again_and_nothing_else(annotate_cli, runs):
    runs(2)
    asked = {}
    with Server(scripted(RIGHT)) as server:
        hosted = set_model(mode="tools", dialect="openai")  # with a temperature of its own
        annotate_cli(*llm(server, *hosted), "--out", "first")
        for name, (change, *_) in CHANGES.items():
            before = server.calls
            change = [
                str(word).replace("{url}", server.url) if isinstance(word, str) else word
                for word in change
            ]
            args = list(llm(server, *hosted))
            if "--model" in change:
                del args[3:5]
            done = annotate_cli(*args, *change, "--out", name)
            assert done.code == 0, done.err
            asked[name] = (server.calls - before, totals(name)["cache_hits"])
        assert "deployment" not in Path("address", "run.json").read_text()
        before = server.calls
        text = next(path for path in list_built_in() if path.stem == "comm_errors").read_text()
        Path("other.yaml").write_text(re.sub(r"version: \d+", "version: 99", text, count=1))
        annotate_cli("logs", "--rubric", "other.yaml", *llm(server, *hosted)[3:], "--out", "rubric")
        assert server.calls - before == 2
        write_run(Path(run_name(2)), [*TALK, ("agent1", "One more word.")])
        annotate_cli(*llm(server, *hosted), "--out", "text")
        assert server.calls - before == 3
        Path("logs").rename("moved")
        annotate_cli("moved", *llm(server, *hosted)[1:], "--out", "folder")
        assert server.calls - before == 3
    assert asked == {name: tuple(expected) for name, (_, *expected) in CHANGES.items()}


UNANSWERED = {
    "refusal": Reply(refusal="I will not."),
    "cut off": replace(RIGHT, finish="length"),
    "too long": Reply(status=400, error={"message": "maximum context length is 99 tokens"}),
}


@pytest.mark.parametrize("reply", UNANSWERED.values(), ids=UNANSWERED)
def test_a_failure_is_asked_again(annotate_cli, reply):
    write_run(Path(run_name(1)), [("agent1", TALK[0][1] + " word" * 9_000), TALK[1]])
    with Server(scripted(reply)) as server:
        args = llm(server, *TOOLS)
        assert annotate_cli(*args, "--out", "one").code == 1
        assert "answers  0" in annotate_cli("cache", "info").out
        server.responder = scripted(RIGHT)
        assert annotate_cli(*args, "--out", "two").code == 0
        assert annotate_cli(*args, "--out", "one", "--resume").code == 0
    assert statuses("one") == statuses("two") == ["labelled"]


def damage(statement: str) -> Callable[[Path], None]:
    def run(file: Path) -> None:
        with closing(sqlite3.connect(file)) as base, base:
            base.execute(statement)

    return run


DAMAGED: dict[str, Callable[[Path], object]] = {
    "garbage": lambda file: file.write_bytes(b"garbage" * 999),
    "a folder": lambda file: (file.unlink(), file.mkdir()),
    "another program's": damage("alter table answers rename column reply to r"),
    "answers that are none": damage("update answers set reply = '{'"),
    "other letters": damage("update answers set reply = replace(reply, 'C1', 'C2')"),
    "another price": damage("update answers set usage = replace(usage, '0.0', '9.0')"),
}


@pytest.mark.parametrize("spoil", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_cache_stops_no_run_and_is_told(annotate_cli, runs, answer_cache, spoil):
    runs(2)
    with Server(scripted(RIGHT)) as server:
        args = llm(server, *TOOLS)
        annotate_cli(*args, "--out", "one")
        spoil(answer_cache)
        done = annotate_cli(*args, "--out", "two", "--max-cost", "9", *PRICED)
        assert server.calls == 4
    assert (done.code, statuses("two")) == (0, ["labelled"] * 2), done.err
    assert f"answer cache {answer_cache}" in done.err


def test_info_and_clear(annotate_cli, runs, answer_cache):
    assert annotate_cli("cache", "info").out == f"file     {answer_cache}\nanswers  0\n"
    assert annotate_cli("cache", "clear").out == "0 answers dropped\n"
    runs(2)
    with Server(scripted(RIGHT)) as server:
        for model in ("m1", "m2"):
            args = (*ARGS, *llm(server)[5:], "--model", model)
            annotate_cli(*args, "--out", f"{model} first")
        with closing(sqlite3.connect(answer_cache)) as base, base:
            base.execute("update answers set at = case model when 'm1' then 9 else 2e5 end")
        shown = annotate_cli("cache", "info").out
        assert "answers  4\n" in shown
        assert shown.endswith("  m1: 2, 1970-01-01\n  m2: 2, 1970-01-03\n")
        assert annotate_cli("cache", "clear", "--model", "m1").out == "2 answers dropped\n"
        assert "m1" not in annotate_cli("cache", "info").out
        annotate_cli(*args, "--out", "m2 again")
        assert len(server.seen) == 4
        assert annotate_cli("cache", "clear").out == "2 answers dropped\n"
        annotate_cli(*args, "--out", "m2 once more")
        assert len(server.seen) == 6


@pytest.mark.parametrize("command", ["info", "clear"])
def test_another_file_is_left_alone(annotate_cli, answer_cache, command):
    answer_cache.parent.mkdir()
    answer_cache.write_text("my diary " * 99)
    done = annotate_cli("cache", command)
    assert (done.code, str(answer_cache) in done.err) == (2, True)
    assert answer_cache.read_text() == "my diary " * 99


def test_two_processes_share_a_cache(annotate_cli, runs):
    runs(6)
    with Server(scripted(replace(RIGHT, wait=0.05))) as server:
        more = (*ARGS[1:], *llm(server, *TOOLS)[3:])
        here, there = (f"logs/night/coop/shop_task/[{n}]" for n in ("1-3", "4-6"))
        process = start(there, *more, "--out", "there", cwd=Path.cwd())
        assert annotate_cli(here, *more, "--out", "here").code == 0
        process.communicate(timeout=60)
        annotate_cli(*llm(server, *TOOLS), "--out", "all")
        assert (process.returncode, server.calls) == (0, 6)


def test_another_run_does_not_drop_what_it_cost(annotate_cli, runs):
    """The other one forgets a malformed answer that the first had paid for."""
    runs(2)
    broken = Reply(text="{")
    with Server(lambda one: RIGHT if one.reask else broken) as server:
        args = llm(server, *TOOLS, *PRICED)
        annotate_cli(*args, "--out", "one")
        assert annotate_cli(*args, "--out", "two", *set_model(reasks=0)).code == 1
        annotate_cli(*args, "--out", "one", "--resume")
        assert totals("one")["calls"] + totals("two")["calls"] == server.calls
