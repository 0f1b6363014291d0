"""What a run costs: prices, the bill, the budget, and what is said beforehand."""

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from annotator.annotations import Usage
from annotator.errors import AnnotatorError
from annotator.judges.llm.answer import answer_model
from annotator.judges.llm.prices import find_listing
from annotator.prompts import render
from annotator.rubrics import load_rubric
from annotator.traces import Trace, read_traces
from tests.conftest import Done, run_name, write_run
from tests.judges.test_cache import ARGS, WRONG, findings, llm, lose_the_last_line, totals
from tests.judges.test_llm import RIGHT, scripted
from tests.openai_server import NOTHING, OpenAIServer, Reply, Request, Responder
from tests.runs.test_run import statuses

Cli = Callable[..., Done]
Runs = Callable[..., Path]
Tokens = Callable[[Request], tuple[int, int, int]]  # of input, of it cached, of output

OPENAI = "https://api.openai.com/v1"
ELSEWHERE = "https://openrouter.ai/api/v1"
ONE_DOLLAR = ("--price-in", "1", "--price-out", "1")  # a million tokens, in or out


def entry(model: str, dollars: float, **more: object) -> dict[str, object]:
    return {"model": model, "input": dollars, "output": 10 * dollars, **more}


EXACT = [entry("m", 1), entry("m-2024-05-13", 2)]
# Model, address, entries of the user's files -> dollars for a million of input, cached, output.
PRICES: dict[str, tuple[str, str, list[list[dict[str, object]]], tuple[float, ...] | None]] = {
    "exact name": ("gpt-4o", OPENAI, [], (2.5, 1.25, 10.0)),
    "dated name": ("gpt-4o-2024-11-20", OPENAI, [], (2.5, 1.25, 10.0)),
    "dated without dashes": ("gpt-4o-mini-20240718", OPENAI, [], (0.15, 0.075, 0.6)),
    "longer name": ("gpt-4o-audio", OPENAI, [], None),
    "date and more": ("gpt-4o-2024-11-20-x", OPENAI, [], None),
    "unknown model": ("nobody-knows", OPENAI, [], None),
    "other host": ("gpt-4o", ELSEWHERE, [], None),
    "a host that begins alike": ("gpt-4o", f"{OPENAI[:-3]}.evil.com", [], None),
    "the user's file wins": ("gpt-4o", OPENAI, [[entry("gpt-4o", 7)]], (7, 7, 70)),
    "its cached price": ("m", ELSEWHERE, [[entry("m", 7, cached=1)]], (7, 1, 70)),
    "the first file wins": ("m", ELSEWHERE, [[entry("m", 1)], [entry("m", 2)]], (1, 1, 10)),
    "the file that has it": ("m", ELSEWHERE, [[entry("x", 1)], [entry("m", 2)]], (2, 2, 20)),
    "its host": ("m", ELSEWHERE, [[entry("m", 1, host="other.ai")]], None),
    "exact before dated": ("m-2024-05-13", ELSEWHERE, [EXACT], (2, 2, 20)),
}


def price_file(folder: Path, *files: list[dict[str, object]]) -> tuple[Path, ...]:
    paths = tuple(folder / f"prices-{n}.yaml" for n in range(len(files)))
    for path, models in zip(paths, files, strict=True):
        path.write_text(json.dumps({"as_of": "2026-01-31", "models": models}))
    return paths


class TestPrices:
    @pytest.mark.parametrize(("model", "url", "files", "dollars"), PRICES.values(), ids=PRICES)
    def test_a_model_has_its_listed_price_or_none(
        self, tmp_path: Path, model: str, url: str, files: Any, dollars: tuple[float, ...] | None
    ) -> None:
        price = find_listing(model, url, price_file(tmp_path, *files)).price
        assert (price and (price.input, price.cached, price.output)) == dollars

    def test_the_factor_of_batches_and_the_source(self, tmp_path: Path) -> None:
        files = price_file(tmp_path, [entry("m", 8, cached=4, batch=0.25), entry("n", 8)])
        [half, same] = [find_listing(model, OPENAI, files).batch for model in "mn"]
        assert half
        assert same
        assert (half.input, half.cached, half.output) == (2, 1, 20)
        assert (same.input, same.cached, same.output) == (8, 8, 80)
        assert half.source == "prices-0.yaml as of 2026-01-31"
        used = Usage(input_tokens=1_000, cached_tokens=400, output_tokens=100)
        assert half.of(used) == pytest.approx((600 * 2 + 400 * 1 + 100 * 20) / 1e6)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("as_of: [", "not valid YAML"),
            ("", "the file: "),
            ("models: []", "as_of: "),
            ("{as_of: x, models: {}}", "models: "),
            ("{as_of: x, models: [{model: m, input: 1}]}", "models.0.output: "),
            ("{as_of: x, models: [{model: m, input: -1, output: 1}]}", "models.0.input: "),
            ("{as_of: x, models: [{model: m, input: 1, output: cheap}]}", "models.0.output: "),
            ("{as_of: x, models: [{model: m, input: 1, output: 1, batch: 2}]}", ".batch: "),
            ("{as_of: x, models: [{model: m, input: 1, output: 1, out: 1}]}", "models.0.out: "),
            (None, "No such file"),
        ],
    )
    def test_a_wrong_file_is_named_with_its_field(
        self, annotate_cli: Cli, runs: Runs, tmp_path: Path, text: str | None, said: str
    ) -> None:
        file = tmp_path / "mine.yaml"
        if text is not None:
            file.write_text(text)
        with pytest.raises(AnnotatorError, match=f"{file}: .*{said}"):
            find_listing("m", OPENAI, [file])
        runs(1)
        done = annotate_cli(*ARGS, "--model", "m", "--base-url", "http://[::1]:9", "--prices", file)
        assert (done.code, said in done.err, (tmp_path / "runs").exists()) == (2, True, False)


@dataclass
class Bill:
    """A provider that counts tokens in its own way and charges for what it answers."""

    responder: Responder
    tokens: Tokens
    price: tuple[float, float, float] = (1.0, 1.0, 1.0)  # of a million of them
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
            "completion_tokens_details": {"reasoning_tokens": written // 2},
        }
        return replace(reply, more={"usage": usage})

    @property
    def dollars(self) -> float:
        new, cached, out = self.price
        charged = ((a - b) * new + b * cached + c * out for a, b, c in self.usages)
        return sum(charged) / 1e6


READY = scripted(NOTHING)


class TestTheBill:
    @pytest.mark.parametrize(
        ("cached", "dollars"), [(("--price-cached", "0.5"), 0.0027), ((), 0.0036)]
    )
    def test_cached_and_reasoning_tokens_by_hand(
        self, annotate_cli: Cli, runs: Runs, cached: tuple[str, ...], dollars: float
    ) -> None:
        """1,000 tokens read, 600 of them cached at 0.5; 200 written, 100 of them in thought."""
        runs(1)
        bill = Bill(scripted(RIGHT), lambda _: (1_000, 600, 200))
        price = ("--price-in", "2", "--price-out", "8", *cached)
        with OpenAIServer(bill) as server:
            annotate_cli(*ARGS, *llm(server, *TOOLS, *price), "--out", "out")
        used = totals(Path("out"))
        assert used["cost_usd"] == pytest.approx(dollars)
        shown = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "calls")
        assert [used[name] for name in shown] == [1_000, 600, 200, 100, 1]

    def test_it_is_the_servers_own_sum_to_the_cent(self, annotate_cli: Cli, runs: Runs) -> None:
        """Over errors, dropped connections, wrong and malformed answers, failures and a resume."""
        runs(12)
        broken, refusal, drop = Reply(text="{"), Reply(refusal="No."), Reply(drop=True)
        faults = itertools.cycle(
            [RIGHT, LIMITED, WRONG, RIGHT, drop, RIGHT, broken, refusal, WRONG, RIGHT]
        )

        def count(request: Request) -> tuple[int, int, int]:
            return (20_000 + 13 * request.n, 7_000 + request.n, 900 + 17 * request.n)

        bill = Bill(lambda _: next(faults), count, (3.0, 0.3, 15.0))
        with OpenAIServer(bill, probe=replace(bill, responder=READY)) as server:
            price = ("--price-in", "3", "--price-cached", "0.3", "--price-out", "15")
            args = (*ARGS, *llm(server, *price, "--max-wait", "20"), "--out", "out")
            assert annotate_cli(*args).code == 1
            annotate_cli(*args, "--resume")
            used = totals(Path("out"))
            assert used["calls"] == server.calls
            assert server.probes
        assert bill.dollars > 1.0
        assert round(used["cost_usd"], 2) == round(bill.dollars, 2)
        assert used["cost_usd"] == pytest.approx(bill.dollars, abs=1e-6)
        read, cached, written = map(sum, zip(*bill.usages, strict=True))
        shown = ("input_tokens", "cached_tokens", "output_tokens")
        assert [used[name] for name in shown] == [read, cached, written]


DEAR = 50_000  # tokens a call, ten times what we would guess: 0.05 dollars
LIMITED = Reply(status=429, headers={"Retry-After": "0"})
TOOLS = ("--mode", "tools")


def thoughtful(request: Request) -> tuple[int, int, int]:
    """Thinks little about the first trace and long about the others, as far as it is allowed."""
    longest = request.body.get("max_completion_tokens", 30_000)
    return (3_000, 0, 500 if request.n == 1 else min(30_000, longest))


BUDGETS: dict[str, tuple[Responder, Tokens, tuple[str, ...]]] = {
    "dear calls": (scripted(RIGHT), lambda _: (DEAR, 0, 0), TOOLS),
    "after a cheap probe": (scripted(RIGHT), lambda _: (DEAR, 0, 0), ()),
    "after a refused call": (scripted(LIMITED, RIGHT), lambda _: (DEAR, 0, 0), TOOLS),
    "long thoughts": (scripted(RIGHT), thoughtful, TOOLS),
    "answers too late": (
        lambda request: replace(RIGHT, wait=1.2 if request.n % 3 == 0 else 0.0),
        lambda _: (6_000, 0, 0),
        (*TOOLS, "--timeout", "0.4"),
    ),
}


class TestTheBudget:
    @pytest.mark.parametrize(("responder", "tokens", "more"), BUDGETS.values(), ids=BUDGETS)
    def test_it_is_never_exceeded_by_the_servers_count(
        self, annotate_cli: Cli, runs: Runs, responder: Responder, tokens: Tokens, more: Any
    ) -> None:
        """With 8 calls side by side, which together would cost more."""
        runs(60)
        bill = Bill(responder, tokens)
        with OpenAIServer(bill) as server:
            given = llm(server, *ONE_DOLLAR, *more, "--max-cost", "0.27", "--attempts", "5")
            done = annotate_cli(*ARGS, *given, "--out", "out")
        assert 0.1 < bill.dollars <= 0.27
        judged = statuses(Path("out"))["labelled"]
        assert (done.code, f"judged {judged} (labelled {judged}" in done.out) == (3, True)
        assert "--max-cost" in done.err
        assert "--resume" in done.err

    def test_it_goes_on_with_a_larger_one_to_the_same_end(
        self, annotate_cli: Cli, runs: Runs, tmp_path: Path
    ) -> None:
        runs(10)
        bill = Bill(lambda request: RIGHT if request.reask else WRONG, lambda _: (DEAR, 0, 0))
        with OpenAIServer(bill) as server:
            args = (*ARGS, *llm(server, *ONE_DOLLAR, *TOOLS))
            assert annotate_cli(*args, "--no-cache", "--out", "whole").code == 0
            undisturbed = server.calls
            bill.usages.clear()
            args = (*args, "--out", "out", "--max-cost")
            assert annotate_cli(*args, "0.32").code == 3
            for most in (0.32, 0.63):
                assert annotate_cli(*args, most, "--resume").code == 3
                assert bill.dollars <= most
            assert annotate_cli(*args, "1.5", "--resume").code == 0
            assert server.calls == 2 * undisturbed == 40
        assert findings(tmp_path / "out") == findings(tmp_path / "whole")
        assert totals(tmp_path / "out")["cost_usd"] == pytest.approx(bill.dollars)
        assert totals(tmp_path / "out")["calls"] == 20

    @pytest.mark.parametrize("more", [TOOLS, ()], ids=["a trace", "the probe"])
    def test_one_that_allows_no_call_is_exit_code_3_and_can_be_raised(
        self, annotate_cli: Cli, runs: Runs, more: tuple[str, ...]
    ) -> None:
        runs(2)
        with OpenAIServer(scripted(RIGHT)) as server:
            args = (*ARGS, *llm(server, *ONE_DOLLAR, *more), "--out", "out", "--max-cost")
            done = annotate_cli(*args, "0.0001")
            assert (done.code, server.calls) == (3, 0), done.err
            assert annotate_cli(*args, "1", "--resume").code == 0

    def test_what_a_killed_process_had_spent_counts(self, annotate_cli: Cli, runs: Runs) -> None:
        """Four answers came, and none of their annotations was written."""
        runs(8)
        bill = Bill(scripted(RIGHT), lambda _: (DEAR, 0, 0))
        with OpenAIServer(bill) as server:
            given = llm(server, *ONE_DOLLAR, *TOOLS, "--max-cost", "0.205")
            assert annotate_cli(*ARGS, *given, "--out", "out").code == 3
            for _ in range(4):
                lose_the_last_line(Path("out"))
            assert annotate_cli(*ARGS, *given, "--out", "out", "--resume").code == 3
        assert (bill.dollars, len(bill.usages)) == (pytest.approx(0.2), 4)

    def test_one_unknown_cost_does_not_hide_others(self, annotate_cli: Cli, runs: Runs) -> None:
        runs(9)
        bill = Bill(scripted(RIGHT), lambda _: (DEAR, 0, 0))
        silent = replace(RIGHT, more={"usage": None})
        with OpenAIServer(lambda one: silent if one.n == 1 else bill(one)) as server:
            args = (*ARGS, *llm(server, *ONE_DOLLAR, *TOOLS), "--out", "out", "--max-cost", "0.27")
            assert annotate_cli(*args).code == annotate_cli(*args, "--resume").code == 3
        assert 0.2 <= bill.dollars <= 0.27

    def test_an_unknown_price_is_refused(self, annotate_cli: Cli, runs: Runs) -> None:
        runs(1)
        with OpenAIServer(scripted(RIGHT)) as server:
            done = annotate_cli(*ARGS, *llm(server), "--out", "out", "--max-cost", "1")
            assert (done.code, server.calls, Path("out").exists()) == (2, 0, False)
        assert "the price of m is not known" in done.err


class TestTheForecast:
    def by_hand(self) -> list[int]:
        """The tokens of each trace: a quarter of the bytes of what is sent, rounded up."""
        rubric = load_rubric("comm_errors")
        schema = str(answer_model(rubric).model_json_schema())
        prompts = [render(one, rubric) for one in read_traces(["logs"]) if isinstance(one, Trace)]
        texts = [(one.user.encode(), (one.system + schema).encode()) for one in prompts]
        return [len(user) // 4 + 1 + len(system) // 4 + 1 for user, system in texts]

    def dry(self, annotate_cli: Cli, *args: str) -> dict[str, Any]:
        done = annotate_cli(*args, "--dry-run", "--json")
        assert done.code == 0, done.err
        return json.loads(done.out)

    def test_calls_tokens_and_dollars_by_hand(
        self, annotate_cli: Cli, runs: Runs, answer_cache: Path
    ) -> None:
        runs(2)
        write_run(Path(run_name(3)), passed=True)
        with OpenAIServer(scripted(RIGHT)) as server:
            args = (*ARGS, *llm(server, "--mode", "tools"), "--failed-only", "--out", "out")
            known = self.dry(annotate_cli, *args, "--price-in", "2", "--price-out", "8")
            unknown = self.dry(annotate_cli, *args)
            text = annotate_cli(*args, "--dry-run").out
            panel = self.dry(annotate_cli, *args, "--model", "n", "--samples", "3")
            first = self.dry(annotate_cli, *args, "--limit", "1")
            assert (server.calls, Path("out").exists(), answer_cache.exists()) == (0, False, False)
            annotate_cli(*args)
            assert server.calls == known["calls"] == 2
        tokens = sum(self.by_hand()[:2])
        assert (known["traces"], known["to_judge"], known["skipped"]) == (3, 2, 1)
        assert (known["input_tokens"], known["output_tokens"]) == (tokens, 800)
        assert known["cost_usd"] == pytest.approx((2 * tokens + 8 * 800) / 1e6)
        assert "2 USD per million" in known["assumption"]
        assert (unknown["cost_usd"], "cost          unknown" in text) == (None, True)
        assert (panel["calls"], panel["input_tokens"]) == (12, 6 * tokens)
        assert (first["calls"], first["input_tokens"]) == (1, self.by_hand()[0])

    @pytest.mark.parametrize("forms", [("tools",), ("json_schema",), ()], ids=str)
    def test_known_answers_and_a_run_to_go_on_with(
        self, annotate_cli: Cli, runs: Runs, forms: tuple[str, ...]
    ) -> None:
        runs(2)
        with OpenAIServer(scripted(RIGHT), forms=forms) as server:
            args = (*ARGS, *llm(server, *ONE_DOLLAR))
            annotate_cli(*args, "--out", "out")
            runs(3)
            before = (server.calls, Path("out", "run.json").read_bytes())
            new = self.dry(annotate_cli, *args)
            fresh = self.dry(annotate_cli, *args, "--no-cache")
            resumed = self.dry(annotate_cli, *args, "--out", "out", "--resume")
            assert (server.calls, Path("out", "run.json").read_bytes()) == before
        shown = ("done_before", "to_judge", "answers_known", "calls")
        assert [fresh[name] for name in shown] == [0, 3, 0, 3]
        assert [resumed[name] for name in shown] == [2, 1, 0, 1]
        assert [new[name] for name in shown] == [0, 3, 2, 1]
        assert new["input_tokens"] == resumed["input_tokens"] == self.by_hand()[2]
