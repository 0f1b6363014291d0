"""A critic: what it is shown, which findings count after it, and what it costs."""

import json
import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from annotator.rubrics import load_rubric
from annotator.rubrics.annotations import Annotation
from annotator.runs.run import open_run
from annotator.web.index import Index
from annotator.web.payload import serialize_annotation
from tests.conftest import TALK, annotations, set_model
from tests.judges.ask import (
    IGNORED,
    QUESTION,
    RIGHT,
    Cli,
    Runs,
    ask,
    findings,
    manifest,
    statuses,
    talk,
    totals,
)
from tests.judges.test_batch import answer, assert_billed, requests_in
from tests.server import NOTHING, TAGS, Reply, Request, Responder, Server, finding

ROLES = (("message:1", "I take the parser module."), ("message:2", TALK[1][1]))
SPLIT = finding("role_division", *ROLES, label="some")
BOTH = Reply(
    answer=TAGS
    | {
        "label": "some",
        "findings": [
            *SPLIT.answer["findings"],
            *finding("negotiation", QUESTION, IGNORED).answer["findings"],
        ],
    }
)
MISQUOTED = Reply(
    answer=BOTH.answer
    | {
        "findings": [
            *SPLIT.answer["findings"],
            *finding("negotiation", ("message:3", "No such words.")).answer["findings"],
        ]
    }
)
PRICE = ("--price-in", "2", "--price-out", "8")


def is_critic(request: Request) -> bool:
    return "<finding " in request.user


def code_of(request: Request) -> str:
    return re.search(r"(?m)^code: (\S+)$", request.user)[1]


def run_of(request: Request) -> int:
    return int(re.search(r"This was run (\d+)\.", request.user)[1])


def decide(decision: str, code: str = "none") -> Reply:
    tags = {name: TAGS[name] for name in ("first_tag", "last_tag")}
    return Reply(answer=tags | {"reason": "as I read it", "decision": decision, "code": code})


def play(judge: Callable[[Request], Reply], critic: Callable[[Request], Reply]) -> Responder:
    return lambda request: (critic if is_critic(request) else judge)(request)


def flag_eight(request: Request) -> Reply:
    return SPLIT if run_of(request) <= 8 else NOTHING


def uphold_four(request: Request) -> Reply:
    return decide("upheld" if run_of(request) <= 4 else "not supported")


def emergent(server: Server, *more: object) -> tuple[object, ...]:
    given = ("logs", "--rubric", "emergent", "--model", "m", "--base-url", server.url)
    return (*given, *set_model(attempts=2, mode="json_schema"), "--critic", *more)


def labelled(folder: str = "out") -> set[int]:
    """The numbers of the runs with a code."""
    found = annotations(Path(folder)).values()
    return {int(one.trace_id.split("/")[-2]) for one in found if one.status == "labelled"}


def test_only_upheld_findings_count(annotate_cli: Cli, runs: Runs) -> None:
    """Runs 1 to 5 have the code. The judge flags 1 to 8, the critic upholds 1 to 4: precision rises
    from 5/8 to 4/4, recall falls from 5/5 to 4/5. What is refuted stays, and does not count.
    """
    runs(10, passed=True)
    with Server(play(flag_eight, uphold_four)) as server:
        done = annotate_cli(*emergent(server, *PRICE, "--out", "out"))
        assert done.code == 0, done.err
        assert_billed(server)
        critics = [request for request in server.seen if is_critic(request)]
        again = annotate_cli(*emergent(server, "--out", "again"))
        assert (again.code, totals("again")["calls"], totals("again")["cache_hits"]) == (0, 0, 18)
    assert (len(critics), labelled()) == (8, {1, 2, 3, 4})
    assert statuses() == ["labelled"] * 4 + ["none"] * 6
    assert findings("again") == findings("out")
    assert "critic: 4 of 8 findings upheld, 4 not supported" in done.out
    assert "  role_division  4 of 8" in annotate_cli("report", "out", "-v").out
    [table] = json.loads(annotate_cli("report", "out", "--format", "json").out)
    assert table["critic"] == {"role_division": {"upheld": 4, "not supported": 4}}
    methods = " ".join(annotate_cli("report", "out", "--methods").out.split())
    assert "A critic (m) checked each remaining finding" in methods
    assert "upheld 4 of 8" in methods
    for one in annotations(Path("out")).values():
        for found in (*one.findings, *one.refuted):
            assert found.critique.reason == "as I read it"
            assert [item.source for item in found.evidence] == ["message:1", "message:2"]
        assert Annotation.from_json(one.to_json()) == one


def test_pages_show_what_the_critic_refuted(annotate_cli: Cli, runs: Runs) -> None:
    runs(6, passed=True)
    with Server(play(flag_eight, uphold_four)) as server:
        assert annotate_cli(*emergent(server, "--out", "out")).code == 0
    index = Index([open_run("out")], {})
    rows = json.loads(zlib.decompress(index.rows))
    assert sorted((row["status"], row["refuted"]) for row in rows) == [
        *[("labelled", 0)] * 4,
        *[("none", 1)] * 2,
    ]
    assert all("I take the parser module." in row["text"] for row in rows if row["refuted"])
    for row in rows:
        [(run, one)] = index.annotations(row["trace_id"])
        page = serialize_annotation(run, one)
        [found] = page["findings"] + page["refuted"]
        assert found["critique"]["reason"] == "as I read it"
        assert found["evidence"][0]["source"] == "message:1"


def test_the_critic_sees_one_code_and_the_quotes_in_their_context(
    annotate_cli: Cli, runs: Runs
) -> None:
    texts = [*TALK, *[("agent1", f"Far away, number {n}.") for n in range(5)]]
    runs(1, passed=True, talk=texts)
    with Server(play(lambda _: SPLIT, lambda _: decide("upheld"))) as server:
        assert annotate_cli(*emergent(server, "--out", "out")).code == 0
        request = next(request for request in server.seen if is_critic(request))
    codes = {code.id: code for code in load_rubric("emergent").codes}
    told = request.system
    for text in ("definition", "evidence", "not_"):
        assert getattr(codes["role_division"], text) in told
        assert getattr(codes["negotiation"], text) not in told
    assert "negotiation (" in told
    assert load_rubric("emergent").instructions.strip() in told  # the judge's rules
    assert "because: as the quotes show" in request.user
    sources = [part.source for part in request.parts]
    assert sources == ["facts", "message:1", "message:2", "message:3", "message:4"]
    assert "not shown here: " in request.part("facts")


# What the judge finds, and the critic's decision by code -> status, codes, and words of the reason.
DECIDED: dict[str, tuple[str, Reply, dict[str, Reply], str, tuple[str, ...], str]] = {
    "one of two": (
        "emergent",
        BOTH,
        {"role_division": decide("not supported"), "negotiation": decide("upheld")},
        *("labelled", ("negotiation",), ""),
    ),
    "another code of the rubric is not found": (
        "emergent",
        SPLIT,
        {"role_division": decide("another code", "negotiation")},
        *("undecided", (), "names negotiation instead, without verified quotes"),
    ),
    "another code beside an upheld one": (
        "emergent",
        BOTH,
        {
            "role_division": decide("another code", "resource_division"),
            "negotiation": decide("upheld"),
        },
        *("labelled", ("negotiation",), ""),
    ),
    "another finding has a false quote": (
        "emergent",
        MISQUOTED,
        {"role_division": decide("not supported")},
        *("undecided", (), "upheld no finding, and the finding of negotiation was rejected"),
    ),
    "another finding has a false quote, and one is upheld": (
        "emergent",
        MISQUOTED,
        {"role_division": decide("upheld")},
        *("labelled", ("role_division",), ""),
    ),
    "of a rubric of one code the others are open": (
        "comm_errors",
        RIGHT,
        {"C1b": decide("not supported")},
        *("undecided", (), "the judge was to report one code"),
    ),
    "a code beside an upheld decision says nothing": (
        "comm_errors",
        RIGHT,
        {"C1b": decide("upheld", "C3a")},
        *("labelled", ("C1b",), ""),
    ),
}


@pytest.mark.parametrize("name", DECIDED)
def test_what_is_left_of_a_trace(annotate_cli: Cli, runs: Runs, name: str) -> None:
    rubric, found, decisions, status, codes, reason = DECIDED[name]
    runs(1, passed=rubric == "emergent")
    with Server(play(lambda _: found, lambda one: decisions[code_of(one)])) as server:
        given = ("logs", "--rubric", rubric, "--model", "m", "--base-url", server.url, "--critic")
        done = annotate_cli(*given, "--out", "out")
        assert done.code in (0, 1), done.err
    [one] = annotations(Path("out")).values()
    assert (one.status, one.codes) == (status, codes)
    assert reason in (one.reason or "")
    assert one.failure is None
    assert {x.code for x in (*one.findings, *one.refuted)} == set(decisions)
    assert annotate_cli("report", "out").code == 0


def test_a_secondary_code_that_is_upheld_becomes_primary(annotate_cli: Cli, runs: Runs) -> None:
    lines = ("patch:agent1", "+UNIT = 'kg'"), ("patch:agent2", "+UNIT = 'lb'")
    overlap = finding("work_overlap", *lines)
    claim = finding("broken_commitment", ("message:3", "I never touched output.py"), lines[0])
    found = overlap.answer["findings"] + claim.answer["findings"]
    both = Reply(answer=overlap.answer | {"findings": found})
    runs(1)

    def critic(request: Request) -> Reply:
        return decide("not supported" if code_of(request) == "work_overlap" else "upheld")

    with Server(play(lambda _: both, critic)) as server:
        given = ("logs", "--rubric", "symptoms", "--model", "m", "--base-url", server.url)
        annotate_cli(*given, "--out", "plain")
        annotate_cli(*given, "--critic", "--out", "out")
    [plain], [one] = (annotations(Path(name)).values() for name in ("plain", "out"))
    assert (plain.primary, plain.secondary) == ("work_overlap", ("broken_commitment",))
    assert (one.primary, one.secondary, one.status) == ("broken_commitment", (), "labelled")


def test_a_critic_of_an_absence_sees_all_later_messages(annotate_cli: Cli, runs: Runs) -> None:
    """Whether a question was answered, only what follows it tells."""
    texts = [*TALK, *[("agent2", f"Later, number {n}.") for n in range(6)]]
    runs(1, talk=texts)
    silence = finding("unresponsiveness", QUESTION, IGNORED)
    with Server(play(lambda _: silence, lambda _: decide("upheld"))) as server:
        given = ("logs", "--rubric", "symptoms", "--model", "m", "--base-url", server.url)
        assert annotate_cli(*given, "--critic", "--out", "out").code == 0
        request = next(request for request in server.seen if is_critic(request))
    sources = [part.source for part in request.parts]
    assert sources == ["facts", *(f"message:{n}" for n in range(1, 11))]


GOOD = decide("upheld")
BAD_FORM = Reply(answer=GOOD.answer | {"decision": "perhaps"})
# The critic's answers in turn -> the status, the kind of failure, words of the error, its calls.
ANSWERS: dict[str, tuple[list[Reply], str, str | None, str, int]] = {
    "malformed, then good": ([BAD_FORM, GOOD], "labelled", None, "", 2),
    "another code without its name, then good": (
        [decide("another code"), decide("another code", "role_division"), GOOD],
        *("labelled", None, "", 3),
    ),
    "malformed for ever": ([BAD_FORM], "failed", "form", "critic: malformed answer: decision", 2),
    "no tags": (
        [Reply(answer=GOOD.answer | {"last_tag": "last-000000"})],
        *("failed", "tags", "critic: The model did not repeat the check word at the end", 2),
    ),
    "refused": (
        [Reply(refusal="I will not.")],
        "failed",
        "refusal",
        "critic: the model refuses",
        1,
    ),
    "down": (
        [Reply(status=500, error={"message": "no worker left"})],
        *("failed", "server", "critic: ", 2),
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_finding_that_could_not_be_checked_fails_its_trace(
    annotate_cli: Cli, runs: Runs, name: str
) -> None:
    """It counts neither as found nor as none; the next try asks the critic alone."""
    replies, status, kind, error, calls = ANSWERS[name]
    runs(1, passed=True)
    left = list(replies)

    def critic(_: Request) -> Reply:
        return left.pop(0) if len(left) > 1 else left[0]

    with Server(play(lambda _: SPLIT, critic)) as server:
        given = (*emergent(server), *set_model(reasks=2, max_wait=1))
        done = annotate_cli(*given, "--out", "out")
        [one] = annotations(Path("out")).values()
        assert (one.status, one.failure, done.code) == (status, kind, int(status == "failed"))
        assert (one.error or "").startswith(error), one.error
        assert sum(map(is_critic, server.seen)) >= calls
        assert totals()["calls"] == server.calls
        left[:] = [GOOD]
        before = len(server.seen)
        if status == "failed":
            assert annotate_cli(*given, "--out", "out", "--resume").code == 0
            assert [is_critic(request) for request in server.seen[before:]] == [True]
        assert totals()["calls"] == server.calls
    assert statuses() == ["labelled"]


def test_a_budget_between_judge_and_critic_loses_nothing(annotate_cli: Cli, runs: Runs) -> None:
    """Each judging call costs a dollar, each of the critic 10: the third one stops the run."""
    runs(4, passed=True)

    def bill(reply: Reply, tokens: int) -> Reply:
        return replace(reply, more={"usage": {"prompt_tokens": tokens, "completion_tokens": 0}})

    responder = play(
        lambda one: bill(flag_eight(one), 1_000_000), lambda one: bill(uphold_four(one), 10_000_000)
    )
    with Server(responder) as server:
        given = emergent(server, "--price-in", "1", "--price-out", "1", "--concurrency", "1")
        assert annotate_cli(*given, "--out", "whole", "--no-cache").code == 0
        server.calls = 0
        done = annotate_cli(*given, "--out", "out", "--max-cost", "32.5")
        assert done.code == 3, done.err
        assert (len(annotations(Path("out"))), totals()["cost_usd"]) == (2, pytest.approx(23))
        done = annotate_cli(*given, "--out", "out", "--resume", "--max-cost", "100")
        assert (done.code, server.calls) == (0, 8)
    assert findings("out") == findings("whole")
    assert totals()["cost_usd"] == pytest.approx(44)


def test_a_budget_between_two_batches_keeps_the_answers_of_the_first(
    annotate_cli: Cli, runs: Runs
) -> None:
    """Ten judging calls of 100,000 tokens at 2 dollars a million: 2 dollars."""
    runs(10, passed=True)
    dear = {"usage": {"prompt_tokens": 100_000, "completion_tokens": 0}}

    def judge(request: Request) -> Reply:
        return replace(flag_eight(request), more=dear)

    with Server(play(judge, uphold_four)) as server:
        args = emergent(server, *PRICE, "--batch", "--out", "out", "--max-cost")
        done = annotate_cli(*args, "2.1")
        assert (done.code, server.batches.sizes) == (3, [10]), done.err
        assert totals()["cost_usd"] == pytest.approx(2)
        done = annotate_cli(*args, "9", "--resume")
        assert (done.code, server.batches.sizes) == (0, [10, 8]), done.err
        assert totals()["calls"] == server.calls == 18
    assert labelled() == {1, 2, 3, 4}
    used = [one.usage for one in annotations(Path("out")).values()]
    assert sum(one.cost_usd for one in used) == pytest.approx(totals()["cost_usd"])
    assert totals()["cost_usd"] > 2


@pytest.mark.parametrize("how", ["batch", "file"])
def test_the_critic_is_asked_in_the_next_batch(annotate_cli: Cli, runs: Runs, how: str) -> None:
    runs(10, passed=True)
    with Server(play(flag_eight, uphold_four)) as server:
        assert annotate_cli(*emergent(server, "--out", "plain", "--no-cache")).code == 0
    with Server(play(flag_eight, uphold_four)) as server:
        args = emergent(server, *PRICE, "--out", "out")
        if how == "batch":
            done = annotate_cli(*args, "--batch")
            assert server.batches.sizes == [10, 8]
        else:
            annotate_cli(*args, "--batch-file", "1.jsonl")
            answer(server, "1.jsonl", "1-done.jsonl")
            more = ("--resume", "--batch-results", "1-done.jsonl")
            done = annotate_cli(*args, *more, "--batch-file", "2.jsonl")
            assert "--batch-results FILE --batch-file NEXT" in done.err
            assert (manifest()["status"], len(requests_in("2.jsonl"))) == ("waiting", 8)
            answer(server, "2.jsonl", "2-done.jsonl")
            done = annotate_cli(*args, *more, "--batch-results", "2-done.jsonl")
        assert done.code == 0, done.err
        assert_billed(server)
        billed = (2 * server.tokens_in + 8 * server.tokens_out) / 1e6
    assert findings("out") == findings("plain")
    assert totals()["cost_usd"] == pytest.approx(billed)
    used = sum(one.usage.calls for one in annotations(Path("out")).values())
    assert used == 18  # the cost of each call is in its annotation


def test_the_critic_may_be_another_model_with_its_own_price(annotate_cli: Cli, runs: Runs) -> None:
    """By the command line, and by a judge file with its settings."""
    runs(2, passed=True)
    with Server(play(flag_eight, uphold_four)) as server:
        annotate_cli(*emergent(server)[:-1], *PRICE, "--critic", "other", "--out", "out")
        asked = {is_critic(request): request.body["model"] for request in server.seen}
        assert asked == {False: "m", True: "other"}
        assert totals()["cost_usd"] is None  # PRICE is the judge's
        other = {"model": "other", "price_in": 1, "price_out": 1, "temperature": 0.5}
        given = (*emergent(server)[:-1], *set_model(critic=other), *PRICE, "--no-cache")
        before = server.calls, server.tokens_in, server.tokens_out, len(server.seen)
        assert annotate_cli(*given, "--out", "two").code == 0
        assert totals("two")["cost_usd"] > 0
        critics = [request for request in server.seen[before[3] :] if is_critic(request)]
        assert {request.body["temperature"] for request in critics} == {0.5}
    settings = manifest("two")["judge"]["critic"]
    assert (settings["model"], settings["parameters"]) == ("other", {"temperature": 0.5})
    assert manifest("two")["learned"]["critic"]["price"]["input"] == 1


def test_a_run_goes_on_with_the_same_critic_only(annotate_cli: Cli, runs: Runs) -> None:
    runs(2, passed=True)
    with Server(play(flag_eight, uphold_four)) as server:
        args = emergent(server)[:-1]
        assert annotate_cli(*args, "--critic", "--limit", "1", "--out", "out").code == 0
        for critic in ((), ("--critic", "other")):
            done = annotate_cli(*args, *critic, "--out", "out", "--resume")
            assert (done.code, "cannot be resumed" in done.err, "critic" in done.err) == (
                *(2, True, True),
            )
        assert annotate_cli(*args, "--critic", "m", "--out", "out", "--resume").code == 0
        done = annotate_cli(*args, "--critic", "x", "--batch-file", "1.jsonl", "--out", "b")
        assert (done.code, "also as the critic" in done.err) == (2, True)


def test_the_critic_of_a_panel_checks_what_is_elected(annotate_cli: Cli, runs: Runs) -> None:
    """Two of three models find the role division, one a negotiation, too."""
    said = {"a": BOTH, "b": SPLIT, "c": NOTHING}
    runs(2, passed=True)
    with Server(play(lambda one: said[one.body["model"]], uphold_four)) as server:
        models = [word for name in said for word in ("--model", name)]
        args = ("logs", "--rubric", "emergent", *models, "--base-url", server.url)
        done = annotate_cli(*args, "--critic", "--out", "out")
        assert done.code == 0, done.err
        critics = [(one.body["model"], code_of(one)) for one in server.seen if is_critic(one)]
        assert totals()["calls"] == server.calls
    assert critics == [("a", "role_division")] * 2
    for one in annotations(Path("out")).values():
        assert (one.codes, one.findings[0].votes, len(one.votes)) == (("role_division",), 2, 3)
        assert one.findings[0].critique.decision == "upheld"


def test_a_model_checks_the_findings_of_the_rules(annotate_cli: Cli, runs: Runs) -> None:
    """What is refuted is undecided: the rules rule nothing out."""
    logs = Path(__file__).parents[2] / "examples" / "traces"
    with Server(lambda _: decide("not supported")) as server:
        given = (logs, "--rubric", "symptoms", "--judge", "rules")
        plain = annotate_cli(*given, "--out", "plain")
        args = (*given, "--base-url", server.url, "--critic", "m", "--out", "out")
        done = annotate_cli(*args)
        assert all(map(is_critic, server.seen))
        dry = annotate_cli(*args[:-2], "--dry-run", "--no-cache")
    assert (plain.code, done.code) == (0, 0), done.err
    before, after = (annotations(Path(name)) for name in ("plain", "out"))
    flagged = {key for key, one in before.items() if one.status == "labelled"}
    assert flagged
    assert len(server.seen) == sum(len(before[key].findings) for key in flagged)
    for key in flagged:
        assert (after[key].status, after[key].codes) == ("undecided", ())
        assert "the judge left the rest open" in after[key].reason
        assert len(after[key].refuted) == len(before[key].findings)
    assert manifest()["judge"]["id"] == "rules"
    assert re.search(r"0 to \d+ calls: 0 to [\d,]+ tokens of input", dry.out), dry.out


def test_a_forecast_counts_the_calls_of_the_critic(annotate_cli: Cli, runs: Runs) -> None:
    """Two runs and three codes: 2 calls if nothing is found, 2 + 6 if every code is."""
    runs(2, passed=True)
    with Server() as server:
        done = annotate_cli(*emergent(server, *PRICE, "--dry-run"))
        assert (done.code, server.calls) == (0, 0), done.err
        assert "2 to 8 calls" in done.out
        assert "from no call (no finding) to a call for each code" in done.out
        data = json.loads(annotate_cli(*emergent(server, *PRICE, "--dry-run", "--json")).out)
    assert (data["calls"], data["calls_high"]) == (2, 8)
    assert data["cost_usd_low"] < data["cost_usd_high"]
    assert len(load_rubric("emergent").codes) == 3


def move_finding(line: dict[str, Any]) -> None:
    line["findings"], line["refuted"] = line.pop("refuted"), []


def uphold(line: dict[str, Any]) -> None:
    line["refuted"][0]["critique"]["decision"] = "upheld"


def forget_critique(line: dict[str, Any]) -> None:
    del line["refuted"][0]["critique"]


@pytest.mark.parametrize("damage", [move_finding, uphold, forget_critique])
def test_a_finding_on_the_wrong_side_of_its_critic_is_an_error(
    annotate_cli: Cli, runs: Runs, damage: Callable[[dict[str, Any]], None]
) -> None:
    runs(1, passed=True)
    with Server(play(lambda _: SPLIT, lambda _: decide("not supported"))) as server:
        annotate_cli(*emergent(server, "--out", "out"))
    file = Path("out/annotations.jsonl")
    line = json.loads(file.read_text())
    damage(line)
    file.write_text(json.dumps(line) + "\n")
    done = annotate_cli("report", "out")
    assert (done.code, "against the critic's decision" in done.err) == (2, True), done.err


PROSE = Reply(text=f"It is: {json.dumps(decide('not supported').answer)}. Done.")


@pytest.mark.parametrize("mode", ["strict", "json_schema", "tools", "named", "json"])
def test_the_critic_answers_in_the_forms_of_the_judge(mode: str) -> None:
    """Where no form can be asked for, prose around its answer does no harm."""

    def critic(request: Request) -> Reply:
        forms.append(request.form)
        return PROSE if mode == "json" else decide("not supported")

    forms: list[str] = []
    with Server(play(lambda _: SPLIT, critic)) as server:
        one = ask(server, talk(*(text for _, text in TALK)), "emergent", mode=mode, critic="same")
    assert (one.status, forms) == ("none", ["plain" if mode == "json" else mode])
