"""What a run costs: prices, the bill, the budget, the forecast, and what a stopped run has paid."""

import itertools
import json
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from annotator.judges.llm.cost import find_listing
from annotator.rubrics.annotations import Usage
from tests.conftest import TALK, annotations, run_name, set_model, write_run
from tests.judges.ask import (
    ARGS,
    PRICED,
    RIGHT,
    TOOLS,
    WRONG,
    findings,
    llm,
    manifest,
    statuses,
    totals,
    wrong_first,
)
from tests.runs.test_run import start, wait_for_lines
from tests.server import NOTHING, Reply, Request, Responder, Server, scripted

Tokens = Callable[[Request], tuple[int, int, int]]  # of input, of it cached, of output

OPENAI = "https://api.openai.com/v1"
ELSEWHERE = "https://openrouter.ai/api/v1"
DEAR = 50_000  # tokens a call, ten times the estimate: 0.05 dollars
LIMITED = Reply(status=429, headers={"Retry-After": "0"})
REFUSAL = Reply(refusal="I will not.")


def entry(model: str, dollars: float, **more: object) -> dict[str, object]:
    return {"model": model, "input": dollars, "output": 10 * dollars, **more}


EXACT = [entry("m", 1), entry("m-2024-05-13", 2)]
# Model, address, entries of the user's files -> dollars for a million of input and of output.
PRICES: dict[str, tuple[str, str, list[list[dict[str, object]]], tuple[float, float] | None]] = {
    "an exact name": ("gpt-4o", OPENAI, [], (2.5, 10)),
    "a dated name": ("gpt-4o-2024-11-20", OPENAI, [], (2.5, 10)),
    "a date without dashes": ("gpt-4o-mini-20240718", OPENAI, [], (0.15, 0.6)),
    "a longer name": ("gpt-4o-audio", OPENAI, [], None),
    "a date and more": ("gpt-4o-2024-11-20-x", OPENAI, [], None),
    "an unknown model": ("nobody-knows", OPENAI, [], None),
    "another host": ("gpt-4o", ELSEWHERE, [], None),
    "this machine": ("gpt-4o", "http://127.0.0.1:9/v1", [], None),
    "the user's file wins": ("gpt-4o", OPENAI, [[entry("gpt-4o", 7)]], (7, 70)),
    "the first file wins": ("m", ELSEWHERE, [[entry("m", 1)], [entry("m", 2)]], (1, 10)),
    "the file that has it": ("m", ELSEWHERE, [[entry("x", 1)], [entry("m", 2)]], (2, 20)),
    "its host": ("m", ELSEWHERE, [[entry("m", 1, host="other.ai")]], None),
    "exact before dated": ("m-2024-05-13", ELSEWHERE, [EXACT], (2, 20)),
    "no price in the entry": (
        "gpt-4o",
        OPENAI,
        [[{"model": "gpt-4o", "context": 9999}]],
        (2.5, 10),
    ),
    "a batch": ("m", ELSEWHERE, [[entry("m", 8, batch=0.25)]], (8, 80)),
}


def price_files(*files: list[dict[str, object]]) -> list[object]:
    options: list[object] = []
    for n, models in enumerate(files):
        file = Path.cwd() / f"prices-{n}.yaml"
        file.write_text(json.dumps({"as_of": "2026-01-31", "models": models}))
        options += ["--prices", file]
    return options


def forecast(annotate_cli, *args: object) -> dict[str, Any]:
    done = annotate_cli(*args, "--dry-run", "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


@pytest.mark.parametrize("name", PRICES)
def test_a_model_has_its_listed_price_or_none(annotate_cli, runs, monkeypatch, name):
    model, url, files, dollars = PRICES[name]
    runs(1)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    args = (*ARGS, "--model", model, "--base-url", url, *price_files(*files))
    expected = forecast(annotate_cli, *args)
    cost = expected["cost_usd_low"]
    if dollars is None:
        assert cost is None
    else:
        read, written = expected["input_tokens"], expected["output_tokens_low"]
        by_hand = (dollars[0] * read + dollars[1] * written) / 1e6
        assert cost == pytest.approx(by_hand)
        batch = forecast(annotate_cli, *args, "--batch")["cost_usd_low"]
        assert batch == pytest.approx(
            by_hand * {"a batch": 0.25}.get(name, 1 if "input" in str(files) else 0.5)
        )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file: "),
        ("{as_of: x, models: [{model: m, input: -1, output: 1}]}", "models.0.input: "),
        ("{as_of: x, models: [{model: m, input: 1, output: 1, batch: 2}]}", ".batch: "),
        ("{as_of: x, models: [{model: m, input: 1}]}", "input and output are given together"),
    ],
)
def test_a_wrong_price_file_is_named_with_its_field(annotate_cli, runs, text, said):
    runs(1)
    Path("mine.yaml").write_text(text)
    args = ("--model", "m", "--base-url", "http://[::1]:9", "--prices", "mine.yaml")
    done = annotate_cli(*ARGS, *args)
    assert (done.code, "mine.yaml" in done.err, Path("runs").exists()) == (2, True, False)
    assert said in done.err


ANTHROPIC, GOOGLE = "https://api.anthropic.com", "https://generativelanguage.googleapis.com"
# Model, address, tokens of input, cached, written to the cache, output -> dollars by the provider's
# page, and those of the batch interface.
BILLS = {
    "cached": ("gpt-5.5", OPENAI, (100_000, 40_000, 0, 1_000), 0.35, 0.175),
    "long": ("gpt-5.5", OPENAI, (300_000, 0, 0, 1_000), 3.045, 1.5225),
    "just not long": ("gpt-5.5", OPENAI, (272_000, 0, 0, 1_000), 1.39, 0.695),
    "all kinds": ("claude-sonnet-4-5", ANTHROPIC, (250_000, 1_000, 500, 2_000), 1.54035, None),
    "Gemini": ("gemini-2.5-pro", GOOGLE, (300_000, 0, 0, 1_000), 0.765, None),
}


@pytest.mark.parametrize(("model", "url", "tokens", "dollars", "batch"), BILLS.values(), ids=BILLS)
def test_a_long_prompt_costs_what_the_provider_asks_for_it(model, url, tokens, dollars, batch):
    read, cached, put, written = tokens
    usage = Usage(read, cached_tokens=cached, cache_write_tokens=put, output_tokens=written)
    listing = find_listing(model, url)
    price = listing.find_price(in_batches=False)
    assert price is not None
    assert price.of(usage) == pytest.approx(dollars)
    assert re.fullmatch(r"genai-prices [\d.]+, newest price 20\d\d-.*", price.source)
    if batch:
        cheaper = listing.find_price(in_batches=True)
        assert cheaper is not None
        assert cheaper.of(usage) == pytest.approx(batch)


def test_a_price_for_each_kind_of_tokens(annotate_cli, runs):
    """By hand: 5,000 new, 3,000 cached and 2,000 written to a cache, at 2, 1 and 4 dollars."""
    runs(1)
    details = {"cached_tokens": 3_000, "cache_write_tokens": 2_000}
    usage = {"prompt_tokens": 10_000, "completion_tokens": 0, "prompt_tokens_details": details}
    prices = price_files([entry("m", 2, cached=1, cache_write=4, batch=0.5)])
    with Server(scripted(replace(RIGHT, more={"usage": usage}))) as server:
        for batch, dollars in (((), 0.021), (("--batch",), 0.0105)):
            args = llm(server, *prices, *set_model(mode="json_schema"), "--no-cache", *batch)
            annotate_cli(*args, "--out", f"out{len(batch)}")
            assert totals(f"out{len(batch)}")["cost_usd"] == pytest.approx(dollars)
        annotate_cli(*llm(server, *TOOLS, *PRICED, *set_model(price_cached=0.5)), "--out", "c")
        assert totals("c")["cost_usd"] == pytest.approx((7_000 + 3_000 * 0.5) / 1e6)
        annotate_cli(*llm(server, *TOOLS), "--out", "unknown", "--no-cache")
        assert totals("unknown")["cost_usd"] is None


@dataclass
class Bill:
    """A provider that counts tokens in its own way and charges for what it answers."""

    responder: Responder
    tokens: Tokens
    price: tuple[float, float, float] = (1.0, 1.0, 1.0)  # for a million of them
    usages: list[tuple[int, int, int]] = field(default_factory=list)

    def __call__(self, request: Request) -> Reply:
        reply = self.responder(request)
        if reply.status != 200 or reply.drop:
            return reply
        read, cached, written = self.tokens(request)
        self.usages.append((read, cached, written))
        usage = {
            "prompt_tokens": read,
            "completion_tokens": written,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        return replace(reply, more={"usage": usage})

    @property
    def dollars(self) -> float:
        new, cached, out = self.price
        charges = ((a - b) * new + b * cached + c * out for a, b, c in self.usages)
        return sum(charges) / 1e6


def dear(responder: Responder, tokens: int = DEAR) -> Bill:
    return Bill(responder, lambda _: (tokens, 0, 0))


def test_the_bill_is_the_servers_own_sum(annotate_cli, runs):
    """Over errors, dropped connections, wrong and malformed answers, failures and a resume."""
    runs(12)
    broken, drop = Reply(text="{"), Reply(drop=True)
    replies = [RIGHT, LIMITED, WRONG, RIGHT, drop, RIGHT, broken, REFUSAL, WRONG, RIGHT]
    faults = itertools.cycle(replies)

    def count(request: Request) -> tuple[int, int, int]:
        return (20_000 + 13 * request.n, 7_000 + request.n, 900 + 17 * request.n)

    bill = Bill(lambda _: next(faults), count, (3.0, 0.3, 15.0))
    with Server(bill, probe=replace(bill, responder=scripted(NOTHING))) as server:
        price = ("--price-in", "3", *set_model(price_cached=0.3), "--price-out", "15")
        args = (*llm(server, *price, *set_model(max_wait=20)), "--out", "out")
        assert annotate_cli(*args).code == 1
        annotate_cli(*args, "--resume")
        used = totals()
        assert used["calls"] == server.calls
        assert server.probes
    assert used["cost_usd"] == pytest.approx(bill.dollars, abs=1e-6)
    shown = [used[name] for name in ("input_tokens", "cached_tokens", "output_tokens")]
    assert shown == list(map(sum, zip(*bill.usages, strict=True)))


def test_a_call_without_an_answer_is_unpriced(annotate_cli, runs):
    runs(1)
    with Server(dear(scripted(Reply(drop=True), RIGHT))) as server:
        annotate_cli(*llm(server, *TOOLS, *PRICED), "--out", "out")
    names = ("calls", "unreported_calls", "cost_usd")
    assert [totals()[name] for name in names] == [2, 1, pytest.approx(0.05)]


def test_an_answer_without_its_tokens_makes_their_number_a_lower_bound(annotate_cli, runs):
    runs(2)
    usage = {"usage": {"prompt_tokens": 40_000, "completion_tokens": 10_000}}
    answers = (replace(RIGHT, more={"usage": None}), replace(RIGHT, more=usage))
    with Server(scripted(*answers)) as server:
        done = annotate_cli(*llm(server, *TOOLS, *PRICED), "--concurrency", "1", "--out", "out")
    assert "2 calls; tokens: at least 40,000 in, 10,000 out; cost unknown" in done.err
    assert totals()["unreported_calls"] == 1


# The budget.


def thoughtful(request: Request) -> tuple[int, int, int]:
    """Thinks little about the first trace and long about the others."""
    assert not {"max_completion_tokens", "max_tokens"} & request.body.keys()
    return (6_000, 0, 500 if request.n == 1 else 30_000)


BUDGETS: dict[str, tuple[Responder, Tokens, tuple[object, ...]]] = {
    "dear calls": (scripted(RIGHT), lambda _: (DEAR, 0, 0), TOOLS),
    "after a refused call": (scripted(LIMITED, RIGHT), lambda _: (DEAR, 0, 0), TOOLS),
    "long thoughts": (scripted(RIGHT), thoughtful, TOOLS),
    "answers too late": (
        lambda request: replace(RIGHT, wait=1.2 if request.n % 3 == 0 else 0.0),
        lambda _: (6_000, 0, 0),
        (*TOOLS, *set_model(timeout=0.4)),
    ),
}


@pytest.mark.parametrize("name", BUDGETS)
def test_a_budget_is_never_exceeded_by_the_servers_count(annotate_cli, runs, name):
    """With 8 calls side by side; longer answers than all before exceed it by those in flight."""
    responder, tokens, more = BUDGETS[name]
    runs(60)
    over = 7 * 29_500 / 1e6 if tokens is thoughtful else 0.0
    bill = Bill(responder, tokens)
    with Server(bill) as server:
        given = llm(server, *PRICED, *more, *set_model(attempts=5), "--max-cost", "0.27")
        done = annotate_cli(*given, "--out", "out")
    assert 0.1 < bill.dollars <= 0.27 + over
    judged = statuses().count("labelled")
    assert (done.code, f"{judged} of {judged} trace" in done.out) == (3, True)
    assert "--max-cost" in done.err
    assert "--resume" in done.err


def test_a_run_goes_on_with_a_larger_budget_to_the_same_end(annotate_cli, runs):
    runs(10)
    bill = dear(wrong_first)
    with Server(bill) as server:
        args = llm(server, *PRICED, *TOOLS)
        assert annotate_cli(*args, "--no-cache", "--out", "whole").code == 0
        bill.usages.clear()
        args = (*args, "--out", "out", "--max-cost")
        assert annotate_cli(*args, "0.0001").code == 3
        assert bill.usages == []
        for most in (0.32, 0.63):
            assert annotate_cli(*args, most, "--resume").code == 3
            assert bill.dollars <= most
        assert annotate_cli(*args, "1.5", "--resume").code == 0
    assert findings("out") == findings("whole")
    used = totals()
    assert (used["calls"], used["cost_usd"]) == (20, pytest.approx(bill.dollars))


SILENT = replace(RIGHT, more={"usage": None})
COUNTS_ONE = replace(RIGHT, more={"usage": {"prompt_tokens": 1, "completion_tokens": 1}})
COST = {"usage": {"prompt_tokens": 4_000, "completion_tokens": 9, "cost": 0.1}}
CUT_OFF = {"usage": {"prompt_tokens": DEAR, "completion_tokens": 0}}
# The replies, options, the most dollars -> the exit code, and the fewest and most calls.
STOPPED: dict[str, tuple[Responder, Any, str, int, tuple[int, int]]] = {
    "one cost is unknown": (scripted(SILENT, replace(RIGHT, more=CUT_OFF)), (), "0.27", 3, (5, 6)),
    "a server that counts one token": (
        *(scripted(COUNTS_ONE), ("--context", "99999", "--price-in", "10", "--price-out", "10")),
        *("0.5", 3, (1, 3)),
    ),
    "a server that says what it charges": (
        *(scripted(replace(RIGHT, more=COST)), set_model(dialect="openrouter"), "0.45", 3, (4, 4)),
    ),
    "failures": (scripted(replace(RIGHT, finish="length", more=CUT_OFF)), (), "0.22", 3, (4, 4)),
}


@pytest.mark.parametrize("name", STOPPED)
def test_a_budget_is_kept_where_costs_are_not_known(annotate_cli, runs, name):
    responder, more, most, code, (low, high) = STOPPED[name]
    runs(9)
    price = () if more == set_model(dialect="openrouter") else PRICED
    with Server(responder) as server:
        args = (*llm(server, *price, *TOOLS, *more), "--out", "out", "--max-cost", most)
        assert annotate_cli(*args).code in (code, 1)
        assert low <= len(server.seen) <= high
        assert annotate_cli(*args, "--resume").code == code
        assert len(server.seen) <= high or name == "a server that counts one token"


def test_each_model_has_its_own_price(annotate_cli, runs):
    """A cheap one has been answered, and says nothing of a dear one."""
    runs(30)
    models = "{model: cheap, price_in: 0.1, price_out: 0.1}, {model: dear, price_in: 1}"
    Path("both.yaml").write_text(f"{{price_out: 1, models: [{models}]}}")
    bill = Bill(scripted(RIGHT), lambda one: (DEAR if one.body["model"] == "dear" else 6_000, 0, 0))
    with Server(bill) as server:
        args = (*ARGS, "--base-url", server.url, *TOOLS, "--judge", "both.yaml")
        assert annotate_cli(*args, "--max-cost", "0.27", "--out", "out").code == 3
    spent = sum(read for read, _, _ in bill.usages if read == DEAR) / 1e6
    assert 0.2 <= spent <= 0.27


# The forecast.


def test_calls_tokens_and_dollars(annotate_cli, runs, answer_cache):
    """Tokens are a quarter of the bytes that are sent, each text rounded up."""
    runs(2)
    write_run(Path(run_name(3)), passed=True)
    with Server(scripted(RIGHT)) as server:
        args = (*llm(server, *TOOLS), "--failed-only", "--out", "out")
        priced = forecast(annotate_cli, *args, "--price-in", "2", "--price-out", "8")
        unknown = forecast(annotate_cli, *args)
        capped = forecast(annotate_cli, *args, *set_model(max_output_tokens=2000))
        panel = forecast(annotate_cli, *args, "--model", "n", "--samples", "3")
        assert (server.calls, Path("out").exists(), answer_cache.exists()) == (0, False, False)
        annotate_cli(*args)
        assert server.calls == priced["calls"] == 2
        sizes = [
            len(one.user.encode()) // 4 + (len(one.system) + len(json.dumps(one.schema))) // 4 + 2
            for one in server.seen
        ]
    tokens = priced["input_tokens"]
    assert tokens == pytest.approx(sum(sizes), rel=0.02)
    assert (priced["traces"], priced["to_judge"], priced["skipped"]) == (3, 2, 1)
    limits = ("output_tokens_low", "output_tokens_high")
    assert [priced[name] for name in limits] == [3_000, 8_000]
    assert priced["cost_usd_low"] == pytest.approx((2 * tokens + 8 * 3_000) / 1e6)
    assert priced["cost_usd_high"] == pytest.approx((2 * tokens + 8 * 8_000) / 1e6)
    assert [capped[name] for name in limits] == [2 * 1_500, 2 * 2_000]
    assert "answers of 1,500 to 2,000 tokens" in capped["assumption"]
    assert unknown["cost_usd_low"] is unknown["cost_usd_high"] is None
    assert (panel["calls"], panel["input_tokens"]) == (12, 6 * tokens)


@pytest.mark.parametrize(
    ("more", "line"),
    [
        # 20 calls of 1,500 to 4,000 tokens; 3 rounds of 8 calls take 30 to 80 s each.
        (
            ("--price-in", "0", "--price-out", "2"),
            "20 of 21 runs, about $0.06 to $0.16, about 2 to 4 minutes at --concurrency 8."
            " `--pilot 5` narrows it.",
        ),
        (("--batch",), "20 of 21 runs, about TOKENS tokens in and 30,000 to 80,000 out"),
    ],
)
def test_a_forecast_begins_with_a_sentence(annotate_cli, runs, more, line):
    runs(20)
    write_run(Path(run_name(21)), passed=True)
    args = (*ARGS, "--model", "m", "--base-url", "http://127.0.0.1:9/v1", *TOOLS, "--failed-only")
    out = annotate_cli(*args, *more, "--dry-run").out
    assert "1 skipped: the rubric is for other runs.\n20 calls: " in out
    both = annotate_cli(*args[:-1], "--rubric", "symptoms", *more, "--dry-run").out
    for_each = (
        "comm_errors: 21 to judge.\nsymptoms: 20 to judge, 1 skipped: the rubric is for other"
    )
    assert f"{for_each} runs.\n41 calls: " in both
    assert "\n- answers of 1,500 to 4,000 tokens\n" in out
    assert "done before" not in out
    assert "  done before" in annotate_cli(*args, *more, "--dry-run", "-v").out
    first = out.split("\n\n")[0].replace("\n", " ")
    tokens = forecast(annotate_cli, *args, *more)["input_tokens"]
    assert first.startswith(line.replace("TOKENS", f"{tokens:,}")), first
    assert ("minutes" in first) == ("minutes" in line)


def test_a_forecast_knows_answers_and_the_run_to_go_on_with(annotate_cli, runs):
    runs(2)
    with Server(scripted(RIGHT)) as server:
        args = llm(server, *PRICED)
        annotate_cli(*args, "--out", "out")
        runs(3)
        before = (server.calls, Path("out", "run.json").read_bytes())
        new = forecast(annotate_cli, *args)
        fresh = forecast(annotate_cli, *args, "--no-cache")
        resumed = forecast(annotate_cli, *args, "--out", "out", "--resume")
        known = annotate_cli(*args, "--limit", "2", "--dry-run").out
        assert (server.calls, Path("out", "run.json").read_bytes()) == before
    assert known.startswith("2 judgements of 2 runs: all answers known, $0.\n")
    assert "Assumed" not in known
    shown = ("done_before", "to_judge", "answers_known", "calls")
    assert [fresh[name] for name in shown] == [0, 3, 0, 3]
    assert [resumed[name] for name in shown] == [2, 1, 0, 1]
    assert [new[name] for name in shown] == [0, 3, 2, 1]
    assert new["input_tokens"] == resumed["input_tokens"]


def test_a_pilot_by_hand_and_the_rest_of_the_run(annotate_cli, runs):
    """Answers of 100, 200, 300 ... tokens: the totals are those of the sampled traces."""
    runs(10)
    write_run(Path(run_name(11)), passed=True)
    bill = Bill(scripted(RIGHT), lambda one: (4_000, 0, 100 * one.n))
    with Server(bill) as server:
        priced = ("--price-in", "0.5", "--price-out", "8", "--failed-only", "--out", "out")
        args = llm(server, *TOOLS, *priced)
        pilot = annotate_cli(*args, "--pilot", "4")
        assert (pilot.code, server.calls, statuses()) == (0, 4, ["labelled"] * 4)
        assert "The run is a pilot of 4 of 10 traces" in pilot.out
        for size, code, calls in (("3", 2, 4), (None, 0, 10), ("10", 2, 10)):
            more = ("--pilot", size) if size else ()
            assert (annotate_cli(*args, *more, "--resume").code, server.calls) == (code, calls)
    lines = [line.strip() for line in pilot.err.splitlines()]
    # Mean 250, deviation 129.10; t(3) = 3.1824; 6 of 10 were not sampled:
    # 10 * 3.1824 * 129.10 / 2 * sqrt(0.6) = 1591.2. No less than the 1000 of the pilot itself.
    assert "pilot: 4 of 10 traces. All 10 would take (95 % t intervals):" in lines
    assert "10 calls [10, 10]" in lines
    assert "40,000 input tokens [40,000, 40,000]" in lines
    assert "2,500 output tokens [1,000, 4,091]" in lines
    assert "0.04 USD [0.03, 0.05]" in lines  # 0.02 + 8e-6 of each


def test_a_pilot_projects_nothing_that_it_did_not_measure(annotate_cli, runs):
    """Cached answers, and tokens that the server did not count."""
    runs(6)
    with Server(dear(scripted(RIGHT))) as server:
        args = llm(server, *PRICED, *TOOLS)
        annotate_cli(*args, "--pilot", "2", "--out", "first")
        err = annotate_cli(*args, "--pilot", "3", "--out", "second").err
        assert "(left out: 2 answered from the cache)" in err
        assert "  0.30 USD" in err.splitlines()
        err = annotate_cli(*args, "--pilot", "3", "--out", "third").err
        assert "  USD: unknown" in err.splitlines()
        server.responder = scripted(RIGHT, SILENT, RIGHT)
        err = annotate_cli(*args, "--pilot", "3", "--no-cache").err
        assert "  6 calls [6, 6]" in err
        assert [f"  {name}: unknown" in err for name in ("input tokens", "USD")] == [True, True]
        server.responder = dear(scripted(Reply(drop=True), RIGHT))
        err = annotate_cli(*args, "--samples", "3", "--model", "n", "--pilot", "2").err
        assert "  at least 1.80 USD [" in err  # 36 calls of 0.05


# A run that was stopped has paid every call once.


def test_an_answer_whose_annotation_was_lost_is_not_paid_again(annotate_cli, runs):
    """Leaves the run as a process that was killed between an answer and its annotation."""
    runs(3)
    with Server(wrong_first) as server:
        args = (*llm(server, *TOOLS, *PRICED, "--samples", "2"), "--out", "out")
        annotate_cli(*args)
        calls = server.calls
        assert totals()["calls"] == calls
        file = Path("out", "annotations.jsonl")
        file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))
        assert annotate_cli(*args, "--resume").code == 0
        assert server.calls == calls


def test_of_two_equal_traces_one_is_paid(annotate_cli, runs):
    runs(2, talk=TALK)
    with Server(scripted(RIGHT)) as server:
        annotate_cli(*llm(server, *TOOLS, "--concurrency", "1"), "--out", "out")
        assert server.calls == 1


BROKEN, KEYLESS = Reply(text="{"), Reply(status=401)
# The first replies, those of the resumed run, options -> the exit code of the first run.
RESUMED: dict[str, tuple[Responder, Responder, tuple[object, ...], int]] = {
    "the tenth call is refused": (
        *(lambda one: KEYLESS if one.n == 10 else wrong_first(one), wrong_first, (), 2),
    ),
    "in votes without a cache": (
        *(lambda one: KEYLESS if one.n == 10 else wrong_first(one), wrong_first),
        *(("--samples", "3", "--no-cache"), 2),
    ),
    "one vote of three stands": (
        *(scripted(RIGHT, REFUSAL, REFUSAL), scripted(RIGHT)),
        *(("--samples", "3", "--limit", "1"), 1),
    ),
    "a malformed vote": (
        *(scripted(BROKEN, RIGHT, KEYLESS), scripted(RIGHT)),
        *(("--samples", "3", *set_model(reasks=0)), 2),
    ),
}


@pytest.mark.parametrize("name", RESUMED)
def test_a_resumed_run_counts_every_call_once(annotate_cli, runs, name):
    first, then, more, code = RESUMED[name]
    runs(6)
    with Server(first) as server:
        args = (*llm(server, *TOOLS, *PRICED, "--concurrency", "1", *more), "--out", "out")
        assert annotate_cli(*args).code == code
        server.responder = then
        assert annotate_cli(*args, "--resume").code == 0
        used = totals()
        assert (used["calls"], used["input_tokens"]) == (server.calls, server.tokens_in)
    assert {vote.status for one in annotations(Path("out")).values() for vote in one.votes} <= {
        "labelled"
    }


def test_ctrl_c_counts_no_call_twice(annotate_cli, runs):
    """Stopped while two calls wait for an answer; the other votes are kept."""
    runs(8)

    def responder(request: Request) -> Reply:
        return replace(RIGHT, together=99 if request.n in (6, 7) else 0)

    with Server(responder) as server:
        more = ("--concurrency", "2", "--out", "out", "--samples", "2")
        args = llm(server, *TOOLS, *PRICED, *more)
        process = start(*args, cwd=Path.cwd())
        wait_for_lines(Path("out", "annotations.jsonl"), 2)
        while server.in_flight < 2 and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
        assert (process.returncode, "Traceback" in str(said)) == (130, False)
        annotate_cli(*args, "--resume")
        assert totals()["calls"] == server.calls
    assert manifest()["status"] == "finished"
