"""What a run costs: prices, the bill, the budget, and what is said beforehand."""

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from annotator.annotations import Usage, read_annotations
from annotator.errors import AnnotatorError
from annotator.judges.llm.answer import answer_model
from annotator.judges.llm.prices import find_listing
from annotator.prompts import render
from annotator.rubrics import load_rubric
from annotator.traces import Trace, read_traces
from tests.conftest import Done, run_name, set_model, write_run
from tests.judges.test_cache import ARGS, WRONG, findings, llm, totals
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


# What a server says it used -> dollars at 0.5 and 8 USD a million, and what of it was cache.
USAGES: dict[str, tuple[str, dict[str, Any], float, tuple[int, int]]] = {
    "cache writes at OpenRouter's place": (
        "generic",
        {"prompt_tokens_details": {"cached_tokens": 1_200, "cache_write_tokens": 800}},
        *(0.0036, (1_200, 800)),
    ),
    "cache writes in Anthropic's words": (
        "anthropic",
        {"cache_read_input_tokens": 1_200, "cache_creation_input_tokens": 800},
        *(0.0037, (1_200, 800)),
    ),
    "more cache than was read": (
        "anthropic",
        {"cache_read_input_tokens": 3_600, "cache_creation_input_tokens": 3_600},
        *(0.00365, (3_600, 400)),
    ),
    "Anthropic's own counts": (
        "anthropic",
        {
            **{"prompt_tokens": ..., "completion_tokens": ..., "input_tokens": 2_000},
            **{"output_tokens": 200, "cache_read_input_tokens": 1_200},
            "cache_creation_input_tokens": 800,
        },
        *(0.0037, (1_200, 800)),
    ),
    "the true cost": ("openrouter", {"cost": 0.0125}, 0.0125, (0, 0)),
    "with a key of one's own": (
        "openrouter",
        {"cost": 0.001, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.02}},
        *(0.021, (0, 0)),
    ),
    "a cost that is none": ("openrouter", {"cost": -1}, 0.0036, (0, 0)),
    "a cost elsewhere": ("generic", {"cost": 9.0}, 0.0036, (0, 0)),
    "thoughts apart": ("gemini", {"total_tokens": 5_200}, 0.0116, (0, 0)),
    "thoughts alone": (
        "gemini",
        {"completion_tokens": ..., "total_tokens": 5_200},
        *(0.0116, (0, 0)),
    ),
    "cache in Moonshot's words": ("generic", {"cached_tokens": 1_200}, 0.0036, (1_200, 0)),
    "thoughts included": (
        "openai",
        {"total_tokens": 4_200, "completion_tokens_details": {"reasoning_tokens": 150}},
        *(0.0036, (0, 0)),
    ),
    "what was cached, apart": (
        "generic",
        {"prompt_tokens": 1_000, "prompt_tokens_details": {"cached_tokens": 3_000}},
        *(0.0036, (3_000, 0)),
    ),
    "xAI's thoughts, apart": (
        "generic",
        {"total_tokens": 5_200, "completion_tokens_details": {"reasoning_tokens": 1_000}},
        *(0.0116, (0, 0)),
    ),
}


class TestTheBill:
    @pytest.mark.parametrize(
        ("cached", "dollars"), [(set_model(price_cached=0.125), 0.0027), ((), 0.0036)]
    )
    def test_cached_and_reasoning_tokens_by_hand(
        self, annotate_cli: Cli, runs: Runs, cached: tuple[str, ...], dollars: float
    ) -> None:
        """4,000 tokens read, 2,400 of them cached at 0.125; 200 written, 100 of them in thought."""
        runs(1)
        bill = Bill(scripted(RIGHT), lambda _: (4_000, 2_400, 200))
        price = ("--price-in", "0.5", "--price-out", "8", *cached)
        with OpenAIServer(bill) as server:
            annotate_cli(*ARGS, *llm(server, *TOOLS, *price), "--out", "out")
        used = totals(Path("out"))
        assert used["cost_usd"] == pytest.approx(dollars)
        shown = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "calls")
        assert [used[name] for name in shown] == [4_000, 2_400, 200, 100, 1]

    @pytest.mark.parametrize(("dialect", "more", "dollars", "cache"), USAGES.values(), ids=USAGES)
    def test_what_each_server_says_it_used(
        self, annotate_cli: Cli, runs: Runs, dialect: str, more: Any, dollars: float, cache: Any
    ) -> None:
        """4,000 tokens read, 200 written."""
        runs(1)
        counts = {"prompt_tokens": 4_000, "completion_tokens": 200, **more}
        usage = {name: count for name, count in counts.items() if count is not ...}
        with OpenAIServer(scripted(replace(RIGHT, more={"usage": usage}))) as server:
            priced = ("--price-in", "0.5", "--price-out", "8", *set_model(dialect=dialect))
            annotate_cli(*ARGS, *llm(server, *TOOLS, *priced), "--out", "out")
        used = totals(Path("out"))
        assert used["cost_usd"] == pytest.approx(dollars)
        assert (used["cached_tokens"], used["cache_write_tokens"]) == cache

    def test_cache_writes_have_a_price_of_their_own(self, tmp_path: Path) -> None:
        [file] = price_file(tmp_path, [entry("m", 2, cached=1, cache_write=4, batch=0.5)])
        listed = find_listing("m", ELSEWHERE, [file])
        assert listed.price
        assert listed.batch
        used = Usage(input_tokens=1_000, cached_tokens=300, cache_write_tokens=200)
        dollars = (500 * 2 + 300 * 1 + 200 * 4) / 1e6
        assert listed.price.of(used) == pytest.approx(dollars)
        assert listed.batch.of(used) == pytest.approx(dollars / 2)

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
            price = ("--price-in", "3", *set_model(price_cached=0.3), "--price-out", "15")
            args = (*ARGS, *llm(server, *price, *set_model(max_wait=20)), "--out", "out")
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
TOOLS = set_model(mode="tools")


def thoughtful(request: Request) -> tuple[int, int, int]:
    """Thinks little about the first trace and long about the others."""
    assert not {"max_completion_tokens", "max_tokens"} & request.body.keys()
    return (6_000, 0, 500 if request.n == 1 else 30_000)


BUDGETS: dict[str, tuple[Responder, Tokens, tuple[str, ...]]] = {
    "dear calls": (scripted(RIGHT), lambda _: (DEAR, 0, 0), TOOLS),
    "after a cheap probe": (scripted(RIGHT), lambda _: (DEAR, 0, 0), ()),
    "after a refused call": (scripted(LIMITED, RIGHT), lambda _: (DEAR, 0, 0), TOOLS),
    "long thoughts": (scripted(RIGHT), thoughtful, TOOLS),
    "answers too late": (
        lambda request: replace(RIGHT, wait=1.2 if request.n % 3 == 0 else 0.0),
        lambda _: (6_000, 0, 0),
        (*TOOLS, *set_model(timeout=0.4)),
    ),
}


class TestTheBudget:
    @pytest.mark.parametrize(("responder", "tokens", "more"), BUDGETS.values(), ids=BUDGETS)
    def test_it_is_never_exceeded_by_the_servers_count(
        self, annotate_cli: Cli, runs: Runs, responder: Responder, tokens: Tokens, more: Any
    ) -> None:
        """With 8 calls side by side, which together would cost more; where answers become longer
        than all before them, by no more than those in flight when that is found out.
        """
        runs(60)
        over = 7 * 29_500 / 1e6 if tokens is thoughtful else 0.0
        bill = Bill(responder, tokens)
        with OpenAIServer(bill) as server:
            more = (*ONE_DOLLAR, *more, *set_model(attempts=5))
            given = llm(server, *more, "--max-cost", "0.27")
            done = annotate_cli(*ARGS, *given, "--out", "out")
        assert 0.1 < bill.dollars <= 0.27 + over
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

    def test_one_unknown_cost_does_not_hide_others(self, annotate_cli: Cli, runs: Runs) -> None:
        runs(9)
        bill = Bill(scripted(RIGHT), lambda _: (DEAR, 0, 0))
        silent = replace(RIGHT, more={"usage": None})
        with OpenAIServer(lambda one: silent if one.n == 1 else bill(one)) as server:
            args = (*ARGS, *llm(server, *ONE_DOLLAR, *TOOLS), "--out", "out", "--max-cost", "0.27")
            assert annotate_cli(*args).code == annotate_cli(*args, "--resume").code == 3
        assert 0.2 <= bill.dollars <= 0.27

    def test_a_server_that_says_what_it_charges_needs_no_price(
        self, annotate_cli: Cli, runs: Runs
    ) -> None:
        runs(9)
        usage = {"prompt_tokens": 4_000, "completion_tokens": 9, "cost": 0.1}
        with OpenAIServer(scripted(replace(RIGHT, more={"usage": usage}))) as server:
            given = llm(server, *TOOLS, *set_model(dialect="openrouter"), "--max-cost", "0.45")
            assert annotate_cli(*ARGS, *given, "--out", "out").code == 3
            assert server.calls == 4
        assert totals(Path("out"))["cost_usd"] == pytest.approx(0.4)

    def test_each_model_has_its_own_first_call_and_its_own_price(
        self, annotate_cli: Cli, runs: Runs, tmp_path: Path
    ) -> None:
        """A cheap one has been answered, and says nothing of a dear one."""
        runs(30)
        file = tmp_path / "judge.yaml"
        models = "{model: cheap, price_in: 0.1, price_out: 0.1}, {model: dear, price_in: 1}"
        file.write_text(f"{{price_out: 1, models: [{models}]}}")
        bill = Bill(
            scripted(RIGHT), lambda one: (DEAR if one.body["model"] == "dear" else 6_000, 0, 0)
        )
        with OpenAIServer(bill) as server:
            more = (*TOOLS, "--judge", str(file), "--max-cost", "0.27")
            given = (*llm(server)[2:], *more)
            assert annotate_cli(*ARGS, *given, "--out", "out").code == 3
        dear = [read for read, _, _ in bill.usages if read == DEAR]
        assert 0.2 <= sum(dear) / 1e6 <= 0.27

    def test_an_unknown_price_is_refused(self, annotate_cli: Cli, runs: Runs) -> None:
        runs(1)
        with OpenAIServer(scripted(RIGHT)) as server:
            done = annotate_cli(*ARGS, *llm(server), "--out", "out", "--max-cost", "1")
            assert (done.code, server.calls, Path("out").exists()) == (2, 0, False)
        assert "the price of m is not known" in done.err


class TestLongAnswers:
    """The longest answer is the user's own, or the server's."""

    @staticmethod
    def thinks(tokens: int) -> Responder:
        """Needs so many tokens for an answer, and is cut off by a lower cap."""

        def respond(request: Request) -> Reply:
            cap = request.body.get("max_completion_tokens", tokens)
            return RIGHT if cap >= tokens else Reply(text="{", finish="length")

        return respond

    @pytest.mark.parametrize(
        ("tokens", "more", "caps", "status"),
        [
            (30_000, ("--max-cost", "1"), [None], "labelled"),
            (150, set_model(max_output_tokens=100), [100, 200], "labelled"),
            (250, (*set_model(max_output_tokens=100), "--max-cost", "1"), [100, 200], "failed"),
        ],
    )
    def test_one_that_is_cut_off_is_asked_for_once_more_with_twice_the_cap(
        self, annotate_cli: Cli, runs: Runs, tokens: int, more: Any, caps: Any, status: str
    ) -> None:
        runs(1)
        with OpenAIServer(self.thinks(tokens)) as server:
            given = (*ARGS, *llm(server, *ONE_DOLLAR, *TOOLS, *more))
            done = annotate_cli(*given, "--out", "out")
            assert [one.body.get("max_completion_tokens") for one in server.seen] == caps
            again = annotate_cli(*given, "--out", "again")
            assert server.calls == len(caps) * (2 if status == "failed" else 1)
        assert statuses(Path("out")) == {status: 1}
        assert done.code == again.code == (status == "failed")
        used = totals(Path("out"))
        assert (used["calls"], used["retries"]) == (len(caps), len(caps) - 1)
        if status == "failed":
            assert "cut off at 100 tokens, and at 200 when it was asked once more" in done.err

    def test_without_a_cap_of_the_users_it_is_the_servers(
        self, annotate_cli: Cli, runs: Runs
    ) -> None:
        runs(1)
        with OpenAIServer(lambda _: Reply(text="{", finish="length")) as server:
            done = annotate_cli(*ARGS, *llm(server, *TOOLS), "--out", "out")
            assert (done.code, server.calls) == (1, 1)
        assert "cut off at the server's token limit" in done.err


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
            args = (*ARGS, *llm(server, *set_model(mode="tools")), "--failed-only", "--out", "out")
            known = self.dry(annotate_cli, *args, "--price-in", "2", "--price-out", "8")
            unknown = self.dry(annotate_cli, *args)
            capped = self.dry(annotate_cli, *args, *set_model(max_output_tokens=2000))
            text = annotate_cli(*args, "--dry-run").out
            panel = self.dry(annotate_cli, *args, "--model", "n", "--samples", "3")
            first = self.dry(annotate_cli, *args, "--limit", "1")
            assert (server.calls, Path("out").exists(), answer_cache.exists()) == (0, False, False)
            annotate_cli(*args)
            assert server.calls == known["calls"] == 2
        tokens = sum(self.by_hand()[:2])
        assert (known["traces"], known["to_judge"], known["skipped"]) == (3, 2, 1)
        # Models answered with 1,490 to 4,046 tokens.
        limits = ("output_tokens_low", "output_tokens_high")
        assert known["input_tokens"] == tokens
        assert [known[name] for name in limits] == [3_000, 8_000]
        assert known["cost_usd_low"] == pytest.approx((2 * tokens + 8 * 3_000) / 1e6)
        assert known["cost_usd_high"] == pytest.approx((2 * tokens + 8 * 8_000) / 1e6)
        assert [capped[name] for name in limits] == [2 * 1_500, 2 * 2_000]
        assert "answers of 1,500 to 2,000 tokens" in capped["assumption"]
        assert "2 USD per million" in known["assumption"]
        assert unknown["cost_usd_low"] is unknown["cost_usd_high"] is None
        assert "cost          unknown" in text
        assert (panel["calls"], panel["input_tokens"]) == (12, 6 * tokens)
        assert (first["calls"], first["input_tokens"]) == (1, self.by_hand()[0])

    @pytest.mark.parametrize(
        ("more", "line"),
        [
            # 20 calls of 1,500 to 4,000 tokens: 0.003 to 0.008 dollars, or 0.75 to 2, each.
            (
                ("--price-in", "0", "--price-out", "2"),
                "20 of 21 runs, about $0.06 to $0.16, about 2 to 4 minutes at --concurrency 8"
                " (at 50 tokens/s). `--pilot 5` in place of `--dry-run` measures it.",
            ),
            (
                ("--price-in", "0", "--price-out", "500", "--concurrency", "1"),
                "20 of 21 runs, about $15 to $40, about 10 to 27 minutes at --concurrency 1"
                " (at 50 tokens/s). `--pilot 5` in place of `--dry-run` measures it.",
            ),
            (
                ("--price-in", "0", "--price-out", "2", "--rpm", "9"),
                "20 of 21 runs, about $0.06 to",
            ),
            (("--rpm", "9"), "20 of 21 runs, about TOKENS tokens in and 30,000 to 80,000 out"),
            (("--batch",), "20 of 21 runs, about TOKENS tokens in and 30,000 to 80,000 out"),
        ],
    )
    def test_it_begins_with_a_sentence(
        self, annotate_cli: Cli, runs: Runs, more: tuple[str, ...], line: str
    ) -> None:
        """By hand: 3 rounds of 8 calls take 30 to 80 s each, 20 rounds of one as long."""
        runs(20)
        write_run(Path(run_name(21)), passed=True)
        args = ("--model", "m", "--base-url", "http://127.0.0.1:9/v1", *TOOLS, "--failed-only")
        first = annotate_cli(*ARGS, *args, *more, "--dry-run").out.splitlines()[0]
        tokens = self.dry(annotate_cli, *ARGS, *args, *more)["input_tokens"]
        expected = line.replace("TOKENS", f"{tokens:,}")
        assert first.startswith(expected), first
        assert ("minutes" in first) == ("minutes" in line)

    def test_it_names_the_first_trace_that_cannot_be_read(
        self, annotate_cli: Cli, runs: Runs
    ) -> None:
        for file in runs(3).rglob("conversation.json"):
            file.write_text("[")
        args = ("--model", "m", "--base-url", "http://127.0.0.1:9/v1")
        dry = annotate_cli(*ARGS, *args, "--dry-run")
        assert f"3 cannot be read; the first: {Path.cwd()}/logs" in dry.err
        assert "conversation.json: not valid JSON" in dry.err

    def test_a_pilot_by_hand_and_the_rest_of_the_run(self, annotate_cli: Cli, runs: Runs) -> None:
        """Answers of 100, 200, 300 ... tokens: the totals are those of the traces drawn."""
        runs(10)
        write_run(Path(run_name(11)), passed=True)
        bill = Bill(scripted(RIGHT), lambda one: (4_000, 0, 100 * one.n))
        with OpenAIServer(bill) as server:
            priced = ("--price-in", "0.5", "--price-out", "8", "--failed-only", "--out", "out")
            args = (*ARGS, *llm(server, *TOOLS, *priced))
            pilot = annotate_cli(*args, "--pilot", "4")
            assert (pilot.code, server.calls, statuses(Path("out"))) == (0, 4, {"labelled": 4})
            assert "The run is a pilot of 4 of 10 traces" in pilot.out
            smaller = annotate_cli(*args, "--pilot", "3", "--resume")
            assert (smaller.code, server.calls) == (2, 4)
            rest = annotate_cli(*args, "--resume")
            assert (rest.code, server.calls) == (0, 10)
            full = annotate_cli(*args, "--pilot", "10", "--resume")
            assert (full.code, server.calls) == (2, 10)
        lines = [line.strip() for line in pilot.err.splitlines()]
        # Mean 250, deviation 129.10; t(3) = 3.1824; 6 of 10 were not drawn:
        # 10 * 3.1824 * 129.10 / 2 * sqrt(0.6) = 1591.2. No less than the 1000 of the pilot itself.
        assert "pilot: 4 of 10 traces. All 10 would take (95 % t intervals):" in lines
        assert "10 calls [10, 10]" in lines
        assert "40000 input tokens [40000, 40000]" in lines
        assert "2500 output tokens [1000, 4091]" in lines
        assert "0.04 USD [0.03, 0.05]" in lines  # 0.02 + 8e-6 of each
        assert statuses(Path("out")) == {"labelled": 10, "skipped": 1}
        assert "pilot" not in rest.out

    def test_a_pilot_projects_nothing_from_answers_that_it_had(
        self, annotate_cli: Cli, runs: Runs
    ) -> None:
        """Two of three answers are in the cache: one call of .05 stands for all six."""
        runs(6)
        with OpenAIServer(Bill(lambda _: RIGHT, lambda _: (DEAR, 0, 0))) as server:
            args = (*ARGS, *llm(server, *ONE_DOLLAR, *TOOLS))
            annotate_cli(*args, "--pilot", "2", "--out", "first")
            err = annotate_cli(*args, "--pilot", "3", "--out", "second").err
            again = annotate_cli(*args, "--pilot", "3", "--out", "third").err
        assert "(left out: 2 answered from the cache)" in err
        assert "  0.30 USD" in err.splitlines()
        assert "  USD: unknown" in again.splitlines()

    def test_a_larger_pilot_contains_a_smaller_one(self, annotate_cli: Cli, runs: Runs) -> None:
        runs(8)
        drawn = []
        for size in ("1", "3", "99"):
            annotate_cli(*ARGS, "--judge", "rules", "--pilot", size, "--out", size)
            drawn.append({one.trace_id for one in read_annotations(Path(size))})
        assert list(map(len, drawn)) == [1, 3, 8]
        assert drawn[0] < drawn[1] < drawn[2]

    def test_a_pilot_of_a_panel_and_of_lost_calls(self, annotate_cli: Cli, runs: Runs) -> None:
        runs(6)
        bill = Bill(scripted(Reply(drop=True), RIGHT), lambda _: (DEAR, 0, 0))
        with OpenAIServer(bill) as server:
            args = (*ARGS, *llm(server, *ONE_DOLLAR, *TOOLS), "--samples", "3", "--model", "n")
            err = annotate_cli(*args, "--pilot", "2").err
        assert "  at least 1.80 USD [" in err  # 36 calls of 0.05

    @pytest.mark.parametrize("usage", [None, {"prompt_tokens": 3, "completion_tokens": 9}], ids=str)
    def test_a_pilot_extrapolates_no_tokens_that_no_server_told(
        self, annotate_cli: Cli, runs: Runs, usage: dict[str, int] | None
    ) -> None:
        """Nor those of a server that did not count: no prompt has three."""
        runs(6)
        silent = replace(RIGHT, more={"usage": usage})
        with OpenAIServer(lambda one: silent if one.n == 2 else RIGHT) as server:
            err = annotate_cli(*ARGS, *llm(server, *ONE_DOLLAR, *TOOLS), "--pilot", "3").err
        assert "  6 calls [6, 6]" in err
        for name in ("input tokens", "output tokens", "USD"):
            assert f"  {name}: unknown" in err

    @pytest.mark.parametrize(
        ("more", "words"),
        [
            (("--dry-run",), "leave --dry-run out"),
            (("--limit", "1"), "cannot be combined with --limit"),
            (("--failed-only",), "no trace would be judged"),
        ],
    )
    def test_a_pilot_that_cannot_be(
        self, annotate_cli: Cli, more: tuple[str, ...], words: str
    ) -> None:
        write_run(Path(run_name(1)), passed=True)
        done = annotate_cli(*ARGS, "--judge", "rules", "--pilot", "2", *more)
        assert (done.code, words in done.err, Path("runs").exists()) == (2, True, False), done.err

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
