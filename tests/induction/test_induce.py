"""`annotate induce`: runs with planted failures, and a model that names them, over HTTP."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import annotator
from annotator.induction.codebook import CodeDecision, decide
from annotator.induction.inducer import load_open_rubric
from annotator.induction.sampling import sample_traces
from tests.conftest import set_model, write_run
from tests.server import NOTHING, Reply, Request, Server
from tests.stand_in import Coder

# A planted failure: its word in the runs, and the name that the model gives it.
NAMES = {
    "secret": "kept a change of shared code secret",
    "hasty": "called the work done without a check",
    "vague": "left the shared interface open",
}
GROUPS = {"secret": "agents not told", "hasty": "work not checked", "vague": "agents not told"}
SENTENCE = "This one is {} to all of the others."
EXAMPLE = {"quotes": ["Nobody heard of it."], "why": "It was not told to anybody."}


def plant(folder: Path, marks: dict[int, str], *, runs: int = 40, passed: int = 10) -> Path:
    """Write runs of ten tasks, of which each fourth or so passed; ``marks``: words by run."""
    for n in range(runs):
        words = [SENTENCE.format(mark) for mark in marks.get(n, "").split()]
        text = " ".join([f"Letter {n} of the day.", *words])
        talk = [("agent1", text), ("agent2", "Fine by me.")]
        name = f"night/coop/shop_task/{n % 10}/f1_f{n + 2}"
        write_run(folder / "logs" / name, talk, passed=n >= runs - passed)
    return folder / "logs"


class Reader(Coder):
    """Finds the planted failures. ``changes``: by the step, a function that changes the first
    answer.
    """

    def __init__(self, **changes: Callable[[dict[str, Any]], object]) -> None:
        texts = {"evidence": "The letter.", "near_misses": "", **EXAMPLE}
        super().__init__(
            {
                mark: {
                    "name": name,
                    "group": GROUPS[mark],
                    "definition": f"An agent {name}.",
                    **texts,
                }
                for mark, name in NAMES.items()
            }
        )
        self.changes = changes
        self.reasks: list[str] = []

    def __call__(self, request: Request) -> Reply:
        step = self.name_step(request)
        reply = super().__call__(request)
        if request.reask:
            self.reasks.append(request.reask)
        elif step in self.changes:
            self.changes.pop(step)(reply.answer)
        return reply

    def look(self, request: Request) -> list[tuple[str, str, str, str]]:
        text = request.part("message:1")
        quotes = {mark: SENTENCE.format(mark) for mark in NAMES}
        return [
            (mark, "the letter says so.", "message:1", quote)
            for mark, quote in quotes.items()
            if quote in text
        ]


def induce(cli: Any, server: Server, *more: object) -> Any:
    model = ("--model", "m", "--base-url", server.url, *set_model(attempts=1, mode="json_schema"))
    sizes = ("--sample", 40, "--batch-size", 20)
    return cli("induce", "logs", *model, "--out", "out", *sizes, *more)


# Of 30 failed and 10 passed runs: 12 and none; 4 and none; 6 and 3.
MARKS = (
    dict.fromkeys(range(12), "secret")
    | dict.fromkeys((14, 17, 21, 28), "hasty")
    | {n: "secret vague" if n < 12 else "vague" for n in (3, 8, 13, 19, 24, 26, 30, 34, 39)}
)


def result(name: str = "induction.json") -> Any:
    return json.loads(Path("out", name).read_text())


def test_planted_failures_become_codes(annotate_cli, tmp_path: Path) -> None:
    plant(tmp_path, MARKS)
    with Server(Reader()) as server:
        done = induce(annotate_cli, server)
    assert done.code == 0, done.err
    assert done.out.startswith(
        "40 traces (30 failed, 10 passed): 25 findings in 3 codes of 2 groups;"
    )
    pattern = re.compile(r"^( *\S.*?) +(\d+/30) .*\] +(\d+/10)", re.MULTILINE)
    assert pattern.findall(done.raw) == [  # a group has the runs of its codes: two are in both
        ("agents not told *", "16/30", "3/10"),
        ("  secret", "12/30", "0/10"),
        ("  vague *", "6/30", "3/10"),
        ("work not checked", "4/30", "0/10"),
        ("  hasty", "4/30", "0/10"),
    ]
    assert "not clearly less often: vague, agents not told (group)." in " ".join(done.out.split())
    assert [code.id for code in annotator.load_rubric("out/rubric.yaml").codes] == [
        "secret",
        "hasty",
    ]
    assert annotate_cli("rubric", "check", "out/rubric.yaml", "--strict").code == 0
    assert result()["saturated"] is True


def test_every_quote_is_at_its_place(annotate_cli, tmp_path: Path) -> None:
    plant(tmp_path, MARKS)
    with Server(Reader()) as server:
        assert induce(annotate_cli, server).code == 0
    texts = {trace.id: trace for trace in annotator.load_traces("logs")}
    for finding in result("codebook.json")["findings"]:
        for item in finding["evidence"]:
            text = texts[finding["trace_id"]].source(item["source"]).text
            assert text[item["start"] : item["end"]] == item["quote"]


def test_a_batch_without_a_new_code_ends_it(annotate_cli, tmp_path: Path) -> None:
    plant(tmp_path, dict.fromkeys(range(40), "secret"))
    with Server(Reader()) as server:
        induce(annotate_cli, server, "--batch-size", 10)
        assert len(server.seen) == 10 + 1 + 10 + 1 + 1 + 1
        again = induce(annotate_cli, server, "--batch-size", 10, "--resume", "-v")
        assert len(server.seen) == 24  # nothing is asked again
    assert "20 of 40 traces were not read" in again.out
    assert "The run is of 20 traces" in annotate_cli("report", "out/open").out
    assert [batch["new_codes"] for batch in result()["batches"]] == [1, 0]
    assert result()["saturated"]


WRONG = {
    "without a code": ("group", lambda x: x["assignments"].pop(), "without a code: findings"),
    "twice": (
        "group",
        lambda x: x["assignments"].append({"finding": 1, "code": "other"}),
        "with several codes: findings 1",
    ),
    "unknown code": (
        "group",
        lambda x: x["new_codes"].clear(),
        "'secret' is no code of either list",
    ),
    "no id": (
        "group",
        lambda x: x["new_codes"][0].update(id="A code"),
        "an id is lower_snake_case",
    ),
    "old code lost": (
        "write",
        lambda x: x["codes"][0].update(merged=[]),
        "secret is in merged or dropped 0 times, not once",
    ),
    "old code twice": (
        "write",
        lambda x: x["dropped"].append({"id": "secret", "because": "odd"}),
        "secret is in merged or dropped 2 times, not once",
    ),
    "copied": (
        "write",
        lambda x: x["codes"][0].update(quotes=["This one is secret to all of the others"]),
        '"this one is secret to all" stands in a run',
    ),
    "group of a run": (
        "write",
        lambda x: x["codes"][0].update(group="This one is secret to all of the others"),
        'secret.group: "this one is secret to all" stands in a run',
    ),
    "group in other letters": (
        "write",
        lambda x: x["codes"][0].update(group=x["codes"][1]["group"].title()),
        "two groups differ only in capital letters",
    ),
    "equal texts": (
        "write",
        lambda x: x["codes"][0].update(definition=x["codes"][1]["definition"]),
        "equal in definition",
    ),
    "not assigned": ("assign", lambda x: x["assignments"].clear(), "without a code: findings"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_answer_is_asked_again(annotate_cli, tmp_path: Path, case: str) -> None:
    step, change, message = WRONG[case]
    marks = {n: "secret hasty" if n % 2 else "secret" for n in range(6)}
    plant(tmp_path, marks, runs=6, passed=0)
    reader = Reader(**{step: change})
    with Server(reader) as server:
        done = induce(annotate_cli, server)
    assert done.code == 0, done.err
    assert any(message in reask for reask in reader.reasks), reader.reasks
    assert "6 traces (6 failed): 9 findings in 2 codes" in done.out


def test_a_stopped_induction_goes_on_where_it_stopped(annotate_cli, tmp_path: Path) -> None:
    plant(tmp_path, MARKS)
    reader = Reader()

    refused = ["write"]

    def answer(request: Request) -> Reply:
        if reader.name_step(request) in refused:
            return Reply(status=400, error={"message": "no"})
        return reader(request)

    with Server(answer) as server:
        done = induce(annotate_cli, server)
        assert done.code == 2
        assert "codes: no usable answer" in done.err
        assert not Path("out/codebook.json").exists()
        again = induce(annotate_cli, server)
        assert again.code == 2
        assert "out: an induction is there; go on with --resume" in again.err
        other = induce(annotate_cli, server, "--resume", "--seed", 1)
        assert "out cannot be resumed: seed was 0, and is now 1" in other.err
        refused.clear()
        server.seen.clear()
        done = induce(annotate_cli, server, "--resume")
        assert [reader.name_step(request) for request in server.seen] == ["write", "assign"]
    assert "25 findings in 3 codes" in done.out
    assert result()["usage"]["calls"] == 40 + 2 + 1 + 2  # also the call that was refused


def test_a_larger_sample_goes_on_with_the_smaller_one(annotate_cli, tmp_path: Path) -> None:
    marks = {n: ("secret", "hasty", "vague")[n % 3] for n in range(40)}
    plant(tmp_path, marks)
    with Server(Reader()) as server:
        induce(annotate_cli, server, "--sample", 9, "--batch-size", 5)
        first = set(annotator.open_induction("out").book.traces)
        done = induce(annotate_cli, server, "--resume", "--batch-size", 5, "--sample", 8)
        assert "out cannot be resumed: sample was 9, and is now 8" in done.err
        done = induce(annotate_cli, server, "--resume", "--batch-size", 5, "--sample", 12)
        assert done.code == 0, done.err
        assert sum(Reader.name_step(request) == "read" for request in server.seen) == 12
        larger = annotator.open_induction("out")
        assert first < set(larger.book.traces)
        assert larger.record.usage.calls == len(server.seen)
        decide(Path("out"), CodeDecision("accept", ("secret",)))
        done = induce(annotate_cli, server, "--resume", "--batch-size", 5, "--sample", 20)
    assert done.code == 2
    assert "people have decided about the codes of 12 traces" in done.err


def test_an_unfinished_induction_is_no_run(annotate_cli, tmp_path: Path) -> None:
    plant(tmp_path, MARKS)
    reader = Reader()

    def answer(request: Request) -> Reply:
        if reader.name_step(request) == "write":
            return Reply(status=400, error={"message": "no"})
        return reader(request)

    with Server(answer) as server:
        induce(annotate_cli, server)
    for command in (("view", "out"), ("report", "out"), ("rubric", "diff", "out", "out/open")):
        done = annotate_cli(*command)
        assert done.code == 2
        expected = "out: an unfinished induction: go on with annotate induce and --resume"
        assert expected in " ".join(done.err.split())
    done = annotate_cli("run", "logs", "--rubric", "symptoms", "--judge", "rules", "--out", "out")
    assert done.code == 2
    assert "out holds an induction; name another folder with --out" in done.err
    assert not Path("out/run.json").exists()


def test_a_model_that_answers_nonsense_is_asked_about_one_batch(
    annotate_cli, tmp_path: Path
) -> None:
    plant(tmp_path, MARKS)
    with Server(lambda request: Reply("no answer at all")) as server:
        done = induce(annotate_cli, server)
    assert done.code == 1
    assert "Stopped: 20 of the last 20 judgements failed (form 20)" in " ".join(done.err.split())
    assert len(Path("out/open/annotations.jsonl").read_text().splitlines()) == 20
    assert not Path("out/codebook.json").exists()


def test_the_budget_counts_all_calls(annotate_cli, tmp_path: Path) -> None:
    plant(tmp_path, MARKS)
    prices = ("--price-in", 10, "--price-out", 10)
    with Server(Reader()) as server:
        done = induce(annotate_cli, server, *prices, "--max-cost", 0.001)
        assert done.code == 3
        assert "go on with --resume and a larger one" in done.err
        done = induce(annotate_cli, server, *prices, "--max-cost", 100, "--resume")
        assert done.code == 0, done.err
        assert 0 < result()["usage"]["cost_usd"] < 100


def test_requests_and_answers_in_files(annotate_cli, tmp_path: Path) -> None:
    plant(tmp_path, MARKS)
    with Server(Reader()) as server:
        stages, more = [], ()
        for n in range(9):
            done = induce(annotate_cli, server, "--batch-file", f"{n}.jsonl", *more)
            assert done.code == 0, done.err
            if done.out:
                break
            assert "when answered, the same command with --resume" in done.err
            lines = [json.loads(line) for line in Path(f"{n}.jsonl").read_text().splitlines()]
            stages.append(len(lines))
            with Path(f"{n}.results.jsonl").open("w") as file:
                for line in lines:
                    code, body = server.item(line["body"])
                    response = {"status_code": code, "body": body}
                    answer = {"custom_id": line["custom_id"], "response": response}
                    file.write(json.dumps(answer) + "\n")
            more = ("--resume", "--batch-results", f"{n}.results.jsonl")
        assert stages == [20, 1, 20, 1, 1, 1]
        assert done.out.startswith(
            "40 traces (30 failed, 10 passed): 25 findings in 3 codes of 2 groups;"
        )


def test_a_dry_run_calls_and_writes_nothing(annotate_cli, tmp_path: Path) -> None:
    plant(tmp_path, MARKS)
    with Server(Reader()) as server:
        done = induce(annotate_cli, server, "--batch-size", 10, "--dry-run")
        assert done.code == 0
        assert server.seen == []
    # 20 traces, two groupings, the codes, one assignment; or 40, four, the codes, two.
    assert "24 to 47 calls" in done.out
    assert not Path("out").exists()


REFUSED = {
    "no model": ((), "an induction asks a model: name it with --model"),
    "rules": (("--judge", "rules"), "an induction asks a model: name it with --model"),
    "samples": (("--model", "m", "--samples", 3), "asks one model, once a trace"),
    "two models": (("--model", "m", "--model", "n"), "asks one model, once a trace"),
    "critic": (("--model", "m", "--critic"), "asks one model, once a trace"),
    "batch": (("--model", "m", "--batch"), "use --batch-file"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(annotate_cli, tmp_path: Path, monkeypatch, case: str) -> None:
    plant(tmp_path, MARKS, runs=6)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    options, message = REFUSED[case]
    done = annotate_cli("induce", "logs", "--out", "out", *options)
    assert done.code == 2
    assert message in done.err
    assert not Path("out").exists()


def test_too_few_traces_are_refused(annotate_cli, tmp_path: Path) -> None:
    plant(tmp_path, {}, runs=9, passed=5)
    with Server(Reader()) as server:
        done = induce(annotate_cli, server, "--failed-only")
        assert done.code == 2
        assert "4 failed traces can be judged, and an induction needs 5" in done.err
        done = induce(annotate_cli, server)
        assert done.code == 0
        assert "9 traces (4 failed, 5 passed): 0 findings and no code." in done.out


@pytest.mark.parametrize(
    ("runs", "passed", "size", "failed"),
    [
        pytest.param(30, 15, 12, 8, id="two-thirds-failed"),
        pytest.param(30, 26, 12, 4, id="too-few-failed"),
        pytest.param(30, 2, 12, 10, id="too-few-passed"),
        pytest.param(30, 0, 12, 12, id="none-passed"),
        pytest.param(10, 5, 60, 5, id="all"),
    ],
)
def test_the_sample_is_by_outcome_and_task(
    tmp_path: Path, runs: int, passed: int, size: int, failed: int
) -> None:
    traces = annotator.load_traces(plant(tmp_path, {}, runs=runs, passed=passed))
    outcomes = {trace.id: trace.outcome.passed for trace in traces}
    rubric = load_open_rubric()
    first, second, other = (
        sample_traces(traces, rubric, size, seed, failed_only=False).trace_ids for seed in (0, 0, 1)
    )
    assert first == second
    assert other != first
    assert len(set(first)) == min(size, runs)
    assert sum(outcomes[x] is False for x in first) == failed
    tasks = [x.split("/")[3] for x in first if outcomes[x] is False]
    assert len(set(tasks)) == min(len(tasks), len({x.split("/")[3] for x in outcomes}))


def test_the_python_api(tmp_path: Path) -> None:
    traces = plant(tmp_path, MARKS)
    with Server(Reader()) as server:
        model = {"model": "m", "base_url": server.url, "mode": "json_schema"}
        induction = annotator.induce(traces, model, sample=40, seed=2)
        assert [code.id for code in induction.codes] == ["secret", "vague", "hasty"]
        assert [code.id for code in induction.rubric.codes] == ["secret", "hasty", "vague"]
        assert len(induction.findings) == len(induction.to_pandas()) == 25
        assert induction.unseen.value == 0
        assert [entry["action"] for entry in induction.log] == ["read"] * 2 + ["write"] * 3
        opened = annotator.open_induction(induction.folder)
        assert opened.shares == induction.shares


def test_a_rubric_whose_code_repeats_takes_no_votes(annotate_cli, tmp_path: Path) -> None:
    plant(tmp_path, {}, runs=2)
    rubric = Path(annotator.__file__).parent / "induction" / "open.yaml"
    with Server(lambda request: NOTHING) as server:
        model = ("--model", "m", "--base-url", server.url)
        for option in (("--samples", 3), ("--critic",)):
            done = annotate_cli("run", "logs", "--rubric", rubric, *model, *option)
            assert done.code == 2
            assert "can be neither voted on nor checked by a critic" in done.err


def test_findings_of_several_calls_keep_their_codes(annotate_cli, tmp_path: Path) -> None:
    marks = {n: "secret" if n % 5 else "secret hasty vague" for n in range(100)}
    plant(tmp_path, marks, runs=100, passed=0)
    with Server(Reader()) as server:
        done = induce(annotate_cli, server, "--sample", 100, "--batch-size", 60)
    assert done.code == 0, done.err
    book = annotator.open_induction("out").book
    assert len(book.findings) == 140
    for code in book.codes:
        assert {book.by_id[name].name for name in code.findings} == {NAMES[code.id]}


def test_a_trace_that_failed_is_read_with_the_next_batch(annotate_cli, tmp_path: Path) -> None:
    plant(tmp_path, dict.fromkeys(range(40), "secret"))
    reader = Reader()
    failing = ["Letter"]

    def answer(request: Request) -> Reply:
        if reader.name_step(request) == "read" and failing:
            failing.pop()
            return Reply(status=400, error={"message": "no"})
        return reader(request)

    with Server(answer) as server:
        done = induce(annotate_cli, server)
    assert done.code == 0, done.err
    assert done.out.startswith("40 traces (30 failed, 10 passed): 40 findings in 1 code;")
    assert [batch["traces"] for batch in result()["batches"]] == [19, 21]
    assert result()["unjudged"] == {}


def test_a_resumed_induction_keeps_decisions(annotate_cli, tmp_path: Path) -> None:
    plant(tmp_path, MARKS)
    with Server(Reader()) as server:
        induce(annotate_cli, server)
        decide(Path("out"), CodeDecision("merge", ("secret", "hasty")))
        done = induce(annotate_cli, server, "--resume")
    assert done.code == 0, done.err
    assert "25 findings in 2 codes, after 1 decision by people." in " ".join(done.out.split())
    assert "16/30" in done.out


def test_a_failed_trace_is_in_no_share_and_in_the_exit_code(annotate_cli, tmp_path: Path) -> None:
    plant(tmp_path, dict.fromkeys(range(8), "secret"), runs=8, passed=0)
    reader = Reader()

    def answer(request: Request) -> Reply:
        if reader.name_step(request) == "read" and "Letter 3 " in request.user:
            return Reply(status=400, error={"message": "no"})
        return reader(request)

    with Server(answer) as server:
        done = induce(annotate_cli, server)
    assert done.code == 1
    assert done.out.startswith("7 traces (7 failed): 7 findings in 1 code;")
    assert "Without a judgement, and in no share: 1 failed." in done.out


def test_an_induction_without_a_judged_trace_says_so(annotate_cli, tmp_path: Path) -> None:
    plant(tmp_path, {}, runs=6, passed=0)
    reader = Reader()
    reader.look = lambda request: [("secret", "so.", "message:1", "Nobody ever said this.")]
    with Server(reader) as server:
        done = induce(annotate_cli, server)
    assert done.code == 1
    assert done.out.startswith("0 traces: 0 findings and no code.")
    assert "Without a judgement, and in no share: 6 undecided." in done.out


def test_shares_of_runs_without_an_outcome_are_not_of_failed_ones(
    annotate_cli, tmp_path: Path
) -> None:
    for n in range(6):
        talk = [("agent1", SENTENCE.format("secret")), ("agent2", "Fine by me.")]
        write_run(tmp_path / f"logs/night/coop/shop_task/{n}/f1_f2", talk, passed=None)
    with Server(Reader()) as server:
        done = induce(annotate_cli, server)
    assert "6 traces (6 of unknown outcome)" in done.out
    assert "Most common: secret, 100.0 % of runs" in done.out


def test_traces_without_an_agent_are_named(annotate_cli, tmp_path: Path) -> None:
    asked = {"role": "user", "content": "Do it."}
    talk = [asked, {"role": "assistant", "content": SENTENCE.format("secret")}]
    rows = [{"id": f"t{n}", "messages": talk if n else [asked]} for n in range(6)]
    Path("logs").mkdir()
    Path("logs/t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with Server(Reader()) as server:
        done = induce(annotate_cli, server)
    assert "1 cannot be judged, for example t0: 0 agents, the rubric needs 1" in done.err


def test_an_answer_that_was_refused_is_counted(annotate_cli, tmp_path: Path) -> None:
    plant(tmp_path, MARKS)
    reader = Reader()
    wrong = ["write"]

    def answer(request: Request) -> Reply:
        reply = reader(request)
        if reader.name_step(request) in wrong:
            reply.answer["dropped"] = [{"id": "unknown", "because": "odd"}]
        return reply

    with Server(answer) as server:
        assert induce(annotate_cli, server).code == 2
        wrong.clear()
        assert induce(annotate_cli, server, "--resume").code == 0
        assert result()["usage"]["calls"] == len(server.seen) > 40 + 4
