"""Runs by the Batch API, and by files of requests and results: what is sent, kept and paid."""

import json
import re
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TALK, annotations, set_model
from tests.judges.ask import (
    IGNORED,
    QUESTION,
    RIGHT,
    WRONG,
    findings,
    llm,
    manifest,
    statuses,
    totals,
)
from tests.runs.test_run import start
from tests.server import NOTHING, Reply, Request, Server, finding, scripted

PRICE = ("--price-in", "2", "--price-out", "8")
NO = Reply(refusal="I will not.")
DOWN = Reply(status=500, error={"message": "no worker left"})
DISLIKED = Reply(status=400, error={"message": "we do not like its words"})
REFUSED = Reply(status=400, error={"message": "Invalid schema for response_format 'Annotation'"})
CLAIM = finding("C3a", QUESTION, IGNORED)


def run_of(request: Request) -> int:
    return int(re.search(r"This was run (\d+)\.", request.user)[1])


def mixed(request: Request) -> Reply:
    """By run: a true finding, none, a wrong quote that is mended when asked, a refusal."""
    return (RIGHT, NOTHING, RIGHT if request.reask else WRONG, NO)[run_of(request) % 4]


def args(server: Server, *more: object) -> tuple[object, ...]:
    return (*llm(server)[:7], *set_model(mode="json_schema"), *more)


def batch(server: Server, *more: object) -> tuple[object, ...]:
    return args(server, "--batch", "--out", "out", *more)


def assert_billed(server: Server, folder: str = "out", before: int = 0) -> None:
    used = totals(folder)
    assert used["calls"] == server.calls - before
    if not before:
        assert used["input_tokens"] == server.tokens_in
        assert used["output_tokens"] == server.tokens_out


def requests_in(file: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(file).read_text().splitlines()]


def write(file: str, *lines: object) -> None:
    Path(file).write_text("".join(json.dumps(line) + "\n" for line in lines))


def answer(server: Server, asked: str, results: str, *, vllm: bool = False) -> None:
    """Do what OpenAI or ``vllm run-batch`` does; in another order."""
    lines = []
    for line in requests_in(asked)[::-1]:
        status, body = server.item(line["body"])
        response = {"body": body} | ({} if vllm else {"status_code": status})
        lines.append({"custom_id": line["custom_id"], "response": response, "error": None})
    write(results, *lines)


@pytest.mark.parametrize("how", ["batch", "OpenAI's file", "vLLM's file"])
def test_a_run_in_batches_equals_a_plain_run(annotate_cli, runs, how):
    """The wrong quotes are asked about again, together."""
    runs(8)
    with Server(mixed) as server:
        plain = annotate_cli(*args(server, *PRICE, "--out", "plain"))
    with Server(mixed) as server:
        server.batches.looks = 2
        if how == "batch":
            done = annotate_cli(*batch(server, *PRICE))
            assert server.batches.sizes == [8, 2]
            assert "batch_1: 8 questions to m" in done.err
            assert "batch_1: in_progress, 0 of 8" in done.err
        else:
            given = (*args(server, *PRICE, "--out", "out"),)
            assert annotate_cli(*given, "--batch-file", "1.jsonl").code == 0
            answer(server, "1.jsonl", "1-done.jsonl", vllm="vLLM" in how)
            given += ("--resume", "--batch-results", "1-done.jsonl")
            done = annotate_cli(*given, "--batch-file", "2.jsonl")
            assert (done.code, len(requests_in("2.jsonl"))) == (0, 2), done.err
            assert manifest()["status"] == "waiting"
            answer(server, "2.jsonl", "2-done.jsonl", vllm="vLLM" in how)
            done = annotate_cli(*given, "--batch-results", "2-done.jsonl")
            again = annotate_cli(*given)  # results that are read again are not paid again
            assert (again.code, "2 failed" in again.out) == (1, True), again.err
        assert_billed(server)
        billed = (2 * server.tokens_in + 8 * server.tokens_out) / 1e6
    assert (done.code, plain.code) == (1, 1), done.err  # the refusals
    assert findings("out") == findings("plain")
    assert totals()["cost_usd"] == pytest.approx(billed)


def test_a_question_that_traces_share_is_asked_once(annotate_cli, runs):
    runs(3, talk=TALK)
    with Server(scripted(RIGHT)) as server:
        assert annotate_cli(*batch(server)).code == 0
        assert_billed(server)
        base = args(server, "--no-cache", "--out", "file")
        annotate_cli(*base, "--batch-file", "1.jsonl")
        assert len(requests_in("1.jsonl")) == server.calls == 1
        answer(server, "1.jsonl", "done.jsonl")
        annotate_cli(*base, "--resume", "--batch-results", "done.jsonl")
        assert totals("file")["calls"] == 1
    assert statuses() == statuses("file") == ["labelled"] * 3


def test_each_model_of_a_panel_has_batches_of_its_own(annotate_cli, runs):
    runs(2)
    with Server(mixed) as server:
        done = annotate_cli(*batch(server, "--model", "other", "--samples", "2"))
        assert_billed(server)
        asked = [{body["model"] for _, body in items} for items in server.batches.items]
    assert done.code == 0, done.err
    assert sorted(map(sorted, asked)) == [["m"], ["m"], ["other"], ["other"]]
    assert all(len(one.votes) == 4 for one in annotations(Path("out")).values())


def test_a_failed_vote_is_not_asked_again_beside_another_one(annotate_cli, runs):
    def responder(request: Request) -> Reply:
        if request.body["seed"] == 1:
            return NO
        return RIGHT if request.reask or request.body["seed"] == 2 else WRONG

    runs(1)
    with Server(responder) as server:
        annotate_cli(*batch(server, "--samples", "3", "--seed", "1"))
        assert server.batches.sizes == [3, 1]
        assert_billed(server)
    [one] = annotations(Path("out")).values()
    assert [vote.status for vote in one.votes] == ["failed", "labelled", "labelled"]


# The reply to the second of three runs, in how many batches -> the sizes of all batches, and why it
# failed.
ITEMS: dict[str, tuple[Reply, int, list[int], str]] = {
    "down once": (DOWN, 1, [3, 1], ""),
    "down thrice": (DOWN, 3, [3, 1, 1], "HTTP 500: no worker left (the last of 3 batches)"),
    "a gateway's timeout": (replace(DOWN, status=504), 1, [3, 1], ""),
    "refused": (DISLIKED, 9, [3], "HTTP 400: we do not like its words"),
}


@pytest.mark.parametrize("name", ITEMS)
def test_an_item_with_an_error_is_asked_in_three_batches(annotate_cli, runs, name):
    reply, times, sizes, error = ITEMS[name]
    runs(3)

    def responder(request: Request) -> Reply:
        faulty = run_of(request) == 2 and len(server.batches.created) <= times
        return reply if faulty else RIGHT

    with Server(responder) as server:
        done = annotate_cli(*batch(server, *set_model(mode="auto")))
        assert server.batches.sizes == sizes
        assert_billed(server)
        failures = [one.error for one in annotations(Path("out")).values() if one.error]
        assert (done.code, len(failures)) == ((1, 1) if error else (0, 0))
        assert error in "".join(map(str, failures))
        server.responder = scripted(RIGHT)
        again = annotate_cli(*batch(server, *set_model(mode="auto"), "--resume"))
        assert (again.code, len(server.batches.sizes)) == (0, len(sizes) + bool(error))


# How all requests of a batch fail -> in how many batches they are asked.
ALIKE = {
    "refused": (Reply(status=400, error={"message": "temperature 0 is not supported"}), 1),
    "paid, and no answer": (Reply(answer={}, more={"choices": []}), 1),
    "down": (DOWN, 3),
}


@pytest.mark.parametrize(("reply", "batches"), ALIKE.values(), ids=ALIKE)
def test_requests_that_all_fail_for_good_are_asked_once(annotate_cli, runs, reply, batches):
    runs(3)
    with Server(scripted(reply)) as server:
        done = annotate_cli(*batch(server))
        assert server.batches.sizes == [3] * batches
        assert (done.code, statuses()) == (1, ["failed"] * 3), done.err
        server.responder = scripted(RIGHT)
        again = annotate_cli(*batch(server, "--resume"))
        assert (again.code, len(server.batches.items)) == (0, batches + 1), again.err
        assert_billed(server)


@pytest.mark.parametrize(("in_time", "sizes"), [(0.5, [5, 3]), (0.0, [5, 5])])
def test_the_rest_of_an_expired_batch_is_asked_again(annotate_cli, runs, in_time, sizes):
    runs(5)
    with Server(scripted(RIGHT)) as server:
        server.batches.ends, server.batches.in_time = ["expired"], in_time
        assert annotate_cli(*batch(server)).code == 0
        assert server.batches.sizes == sizes
        assert_billed(server)
    assert statuses() == ["labelled"] * 5


def test_a_batch_that_the_server_refuses_stops_the_run(annotate_cli, runs):
    runs(2)
    with Server(scripted(RIGHT)) as server:
        server.batches.ends = ["failed"]
        done = annotate_cli(*batch(server))
        assert (done.code, done.out) == (2, "")
        assert "batch_1 has failed: Model m is not for batches" in done.err
        assert (manifest()["status"], server.calls) == ("stopped", 0)
        again = annotate_cli(*batch(server, "--resume"))
        assert (again.code, len(server.batches.created)) == (0, 2), again.err


# How results say that a prompt was too long: vLLM's run-batch, before and since 0.11, and OpenAI.
SAID = "This model's maximum context length is 8000 tokens. However, your request has 9000 tokens."
ERROR = {"message": SAID, "type": "BadRequestError", "code": 400}
CODE = {"message": "Reduce the prompt.", "code": "context_length_exceeded"}
OVERFLOWS: dict[str, dict[str, Any]] = {
    "vLLM": {"response": {"status_code": 400, "body": None}, "error": {"error": ERROR}},
    "older vLLM": {"response": {"status_code": 400, "body": None}, "error": {"x": 1} | ERROR},
    "OpenAI": {"response": {"status_code": 400, "body": {"error": ERROR}}, "error": None},
    "only a code": {"response": {"status_code": 400, "body": {"error": CODE}}, "error": None},
}  # fmt: skip


@pytest.mark.parametrize("said", OVERFLOWS.values(), ids=OVERFLOWS)
def test_a_prompt_that_is_too_long_is_shorter_in_the_next_batch(annotate_cli, runs, said):
    runs(1, talk=[*TALK, ("agent1", "word " * 5_000)])
    with Server(scripted(CLAIM)) as server:
        batches = server.batches
        batches.edit = lambda lines: (
            [line | said for line in lines] if len(batches.created) < 2 else lines
        )
        annotate_cli(*batch(server, "--least-read", "0"))
        first, second = server.seen
        assert (batches.sizes, len(second.user) < 0.9 * len(first.user)) == ([1, 1], True)
    [one] = annotations(Path("out")).values()
    assert (one.status, list(one.truncated)[:1]) == ("labelled", ["message:5"]), one.error


@pytest.mark.parametrize("taken", [(), (3,)], ids=["no run", "the last"])
def test_a_refused_form_is_left_for_all_that_is_left(annotate_cli, runs, taken):
    def responder(request: Request) -> Reply:
        refused = request.form == "json_schema" and run_of(request) not in taken
        return REFUSED if refused else RIGHT

    runs(3)
    with Server(responder) as server:
        given = batch(server, *set_model(mode="auto"))
        assert annotate_cli(*given).code == 0
        learned = manifest()["learned"]
        assert learned["mode"] == "tools"
        assert "Invalid schema" in learned["refused_modes"]["json_schema"]
        runs(4)
        done = annotate_cli(*given, "--resume")
        assert server.batches.sizes == [3, 3 - len(taken), 1]
        assert [request.form for request in server.seen[3:]] == ["tools"] * (4 - len(taken))
        assert_billed(server)
    assert (done.code, statuses()) == (0, ["labelled"] * 4), done.err


# Lines among the results, and what cannot be read of them.

TWICE = {"response": {"status_code": 200, "body": {"choices": [{"message": {"content": "x"}}]}}}


def lacks(lines: list[Any], *numbers: int) -> list[Any]:
    """The lines without those of some requests; the results are in another order."""
    return [line for n, line in enumerate(reversed(lines)) if n not in numbers]


# What stands in the file of results -> the sizes of the batches, words of the error, and the calls
# that nobody reported.
EDITS: dict[str, tuple[Callable[[list[Any]], list[Any]], list[int], str, int]] = {
    "no line for one, once": (lambda lines: lacks(lines, 1), [3, 1], "", 1),
    "no lines": (
        *(lambda lines: [json.dumps({"custom_id": "other"} | TWICE).encode()], [3, 3, 3]),
        *("no answer in the batch (completed)", 9),
    ),
    "another answer": (
        lambda lines: [*lines, {"custom_id": lines[-1]["custom_id"]} | TWICE],
        *([3], "", 0),
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_results_that_are_not_one_for_each_request(annotate_cli, runs, name):
    edit, sizes, words, unreported = EDITS[name]
    runs(3)
    with Server(scripted(RIGHT)) as server:
        server.batches.edit = edit
        done = annotate_cli(*batch(server))
        assert server.batches.sizes == sizes
        assert (done.code, totals()["calls"]) == (1 if words else 0, server.calls), done.err
    assert words in "".join(one.error or "" for one in annotations(Path("out")).values())
    assert totals()["unreported_calls"] == unreported


MALFORMED: dict[str, list[bytes]] = {"no JSON": [b"{"], "several": [b"{", b"", b"7"]}


@pytest.mark.parametrize("lines", MALFORMED.values(), ids=MALFORMED)
def test_a_line_that_is_no_result_keeps_no_other_out(annotate_cli, runs, lines):
    runs(2)
    with Server(scripted(RIGHT)) as server:
        server.batches.edit = lambda answers: [*answers[:1], *lines, *answers[1:]]
        done = annotate_cli(*batch(server))
        assert (done.code, statuses()) == (0, ["labelled"] * 2), done.err
        left_out = "the output of batch_1, line 2: expected a line of batch results"
        assert left_out in " ".join(done.err.split())
        base = args(server, "--no-cache", "--out", "file")
        annotate_cli(*base, "--batch-file", "1.jsonl")
        answer(server, "1.jsonl", "done.jsonl")
        head, rest = Path("done.jsonl").read_bytes().split(b"\n", 1)
        Path("bad.jsonl").write_bytes(b"\n".join([head, b"", *lines, rest]))
        done = annotate_cli(*base, "--resume", "--batch-results", "bad.jsonl")
        assert (done.code, "Error: bad.jsonl, line 3: " in done.err) == (2, True), done.err
        again = annotate_cli(*base, "--resume", "--batch-file", "2.jsonl")
    assert (again.code, statuses("file")) == (0, ["labelled"] * 2), again.err


# Files.


def test_the_requests_are_written_and_nothing_is_asked(annotate_cli, runs):
    runs(3)
    with Server() as server:
        more = ("--samples", "2", "--batch-file", "asked.jsonl", "--out", "out")
        done = annotate_cli(*args(server, *more))
        assert (done.code, done.out, server.calls) == (0, "", 0), done.err
    assert manifest()["status"] == "waiting"
    lines = requests_in("asked.jsonl")
    assert len({line["custom_id"] for line in lines}) == len(lines) == 6
    for line in lines:
        assert sorted(line) == ["body", "custom_id", "method", "url"]
        assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
        assert line["body"]["model"] == "m"
        assert line["body"]["response_format"]["type"] == "json_schema"
    assert "6 requests in asked.jsonl" in done.err
    assert "--resume --batch-results FILE" in done.err


def test_a_request_without_a_result_is_a_failure(annotate_cli, runs):
    runs(3)
    with Server(scripted(RIGHT)) as server:
        base = args(server, "--out", "out")
        annotate_cli(*base, "--batch-file", "1.jsonl")
        answer(server, "1.jsonl", "done.jsonl")
        *lines, missing = requests_in("done.jsonl")
        write("done.jsonl", *lines)
        done = annotate_cli(*base, "--resume", "--batch-results", "done.jsonl")
        assert (done.code, statuses()) == (1, ["failed", "labelled", "labelled"])
        assert "there is no answer to it in the batch results" in done.err
        write("rest.jsonl", missing)
        rest = annotate_cli(*base, "--resume", "--batch-results", "rest.jsonl")
        assert_billed(server)
    assert (rest.code, statuses()) == (0, ["labelled"] * 3)


def test_a_later_answer_counts_beside_the_error_of_the_first(annotate_cli, runs):
    runs(2)
    with Server(lambda one: DOWN if one.n == 1 else RIGHT) as server:
        base = args(server, "--out", "out")
        annotate_cli(*base, "--batch-file", "1.jsonl")
        answer(server, "1.jsonl", "1-done.jsonl")
        more = ("--batch-results", "1-done.jsonl", "--batch-file", "2.jsonl")
        annotate_cli(*base, "--resume", *more)
        assert len(requests_in("2.jsonl")) == 1
        answer(server, "2.jsonl", "2-done.jsonl")
        results = ("--batch-results", "2-done.jsonl", "--batch-results", "1-done.jsonl")
        done = annotate_cli(*base, "--resume", *results)
    assert (done.code, statuses()) == (0, ["labelled"] * 2), done.err


def test_files_need_no_price_and_labels_that_are_there_come_next(annotate_cli, runs):
    runs(2)
    with Server(lambda _: RIGHT) as server:
        base = args(server, "--out", "out", "--max-cost", "1")
        assert "price" in annotate_cli(*base).err
        assert annotate_cli(*base, "--batch-file", "1.jsonl").code == 0
        answer(server, "1.jsonl", "1-done.jsonl")
        Path("out/labels.jsonl").touch()
        done = annotate_cli(*base, "--resume", "--batch-results", "1-done.jsonl")
    assert (done.code, statuses()) == (0, ["labelled"] * 2), done.err
    assert "next: annotate calibrate out" in done.err
    assert "next: annotate sample" not in done.err


# Money.


def test_a_batch_that_may_cost_too_much_is_not_sent(annotate_cli, runs):
    runs(2)
    with Server(mixed) as server:
        done = annotate_cli(*batch(server, *PRICE, "--max-cost", "0.01"))
        assert (done.code, server.batches.created, server.batches.files) == (3, [], {})
        assert "the next batch may cost" in done.err
        again = annotate_cli(*batch(server, *PRICE, "--max-cost", "5", "--resume"))
        assert (again.code, statuses()) == (0, ["labelled", "none"]), again.err
        assert_billed(server)


DEAR = {"usage": {"prompt_tokens": 1_000_000, "completion_tokens": 1}}  # a dollar


def cut_off(request: Request) -> Reply:
    cap = request.body["max_completion_tokens"]
    more = {"usage": {"prompt_tokens": 5_000, "completion_tokens": cap}}
    return (
        Reply(text="{", finish="length", more=more) if cap == 4_000 else replace(RIGHT, more=more)
    )


def refuse_most(request: Request) -> Reply:
    return replace(WRONG if run_of(request) == 4 else NO, more=DEAR)


# Replies, prices, the budget -> what was spent when the second batch would have been too dear.
BUDGETS: dict[str, tuple[Any, tuple[object, ...], str, tuple[float, float]]] = {
    # A first batch of 4 x 4,000 tokens costs 0.18 dollars; the second may cost 0.34.
    "answers that were cut off": (
        cut_off,
        ("--price-in", "1", "--price-out", "10", *set_model(max_output_tokens=4000)),
        *("0.4", (0.18, 0.18)),
    ),
    # Three refusals and a wrong quote, which is in no annotation yet, are 4 of the 4.2 dollars.
    "failed traces": (refuse_most, ("--price-in", "1", "--price-out", "100"), "4.2", (4, 4.2)),
}


@pytest.mark.parametrize("name", BUDGETS)
def test_what_the_first_batch_has_cost_is_spent(annotate_cli, runs, name):
    responder, price, most, (low, high) = BUDGETS[name]
    runs(4)
    with Server(responder) as server:
        done = annotate_cli(*batch(server, *price, "--max-cost", most))
        assert (done.code, len(server.batches.created)) == (3, 1), done.err
    assert low - 1e-9 <= totals()["cost_usd"] <= high + 1e-9


def test_answers_that_the_results_lack_may_have_been_paid(annotate_cli, runs):
    """A line that cannot be read may be one of them."""
    runs(4)
    with Server(scripted(RIGHT)) as server:
        batches = server.batches
        batches.ends = ["cancelled"]
        batches.edit = lambda lines: (
            [*lacks(lines, 1, 2, 3), b"{"] if len(batches.created) == 1 and lines else lines
        )
        done = annotate_cli(*batch(server))
    assert done.code == 0, done.err
    assert totals()["unreported_calls"] == 3


# Stopped, and taken up again.

STOPS = {
    "kill -9 before the batch was noted": (signal.SIGKILL, {"batch_id": ""}),
    "Ctrl-C": (signal.SIGINT, {}),
}


@pytest.mark.parametrize(("how", "lost"), STOPS.values(), ids=STOPS)
def test_a_stopped_run_picks_its_batch_up_again(annotate_cli, runs, tmp_path, how, lost):
    """Three batches of others, on two pages of the server's list, are newer than its own."""
    runs(6)
    with Server(mixed) as server:
        annotate_cli(*args(server, *PRICE, "--batch", "--out", "whole"))
        before, batches = server.calls, server.batches
        batches.held = lambda body: True
        process = start(*batch(server, *PRICE), cwd=tmp_path)
        while len(batches.created) < 3 or not batches.created[2].get("seen"):
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.send_signal(how)
        _, err = process.communicate(timeout=30)
        assert process.returncode == (-9 if how is signal.SIGKILL else 130), err
        state = Path("out", "batch", "1", "state.json")
        value = json.loads(state.read_text())
        value["jobs"][0] |= lost
        state.write_text(json.dumps(value))
        own = batches.created[2]
        for n, other in enumerate(({"annotator_run": "other"}, {"annotator_batch": "1/9"}, {})):
            metadata = own["metadata"] | other if other else None
            batches.created.append(own | {"id": f"batch_9{n}", "metadata": metadata})
        batches.items += [[]] * 3
        batches.held = lambda body: False
        done = annotate_cli(*batch(server, *PRICE, "--resume"))
        assert [size for size in batches.sizes if size] == [6, 2, 6, 2]
        assert totals()["calls"] == server.calls - before == before
    assert done.code == 1, done.err
    assert findings("out") == findings("whole")


def test_a_batch_that_does_not_end_stops_the_run_and_can_be_taken_up(annotate_cli, runs):
    runs(2)
    with Server(scripted(RIGHT)) as server:
        server.batches.fields = {"status": "warming\x1b[2Jup"}
        given = batch(server, *set_model(batch_wait=0.001, max_wait=0.5))
        done = annotate_cli(*given)
        assert (done.code, "\x1b" in done.err) == (2, False), done.err
        assert "have not ended in 0.001 h (batch_wait" in done.err
        server.batches.fields = {}
        again = annotate_cli(*given, "--resume", *set_model(batch_wait=1))
        assert (again.code, len(server.batches.created)) == (0, 1), again.err


def test_a_key_does_not_follow_a_download_elsewhere(annotate_cli, runs):
    runs(1)
    with Server(scripted(RIGHT)) as other, Server(scripted(RIGHT)) as server:
        server.batches.location = f"{other.url}/files/file-2/content"
        done = annotate_cli(*batch(server))
        assert (done.code, "a key must not follow" in done.err) == (2, True), done.err
        assert other.calls == 0
