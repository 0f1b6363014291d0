"""Runs by the Batch API: what comes back, what does not, and what a stop leaves."""

import asyncio
import json
import re
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from annotator import aannotate
from annotator.annotations import Annotation
from annotator.errors import AnnotatorError
from annotator.judges.llm.cache import AnswerCache
from annotator.judges.llm.reply import LONGEST_RESPONSE
from tests.conftest import TALK, Done, annotations, run_name, set_model, write_run
from tests.judges.test_llm import IGNORED, QUESTION, RIGHT
from tests.openai_server import NOTHING, OpenAIServer, Reply, Request, finding
from tests.runs.test_run import start

Cli = Callable[..., Done]
Runs = Callable[..., Path]

WRONG = finding("C1b", IGNORED, ("message:1", "What nobody ever wrote in it?"))
PRICE = ("--price-in", "2", "--price-out", "8")


def run_of(request: Request) -> int:
    return int(re.search(r"This was run (\d+)\.", request.user)[1])


def mixed(request: Request) -> Reply:
    """By run: a true finding, none, a wrong quote that is mended when asked, a refusal."""
    mended = RIGHT if request.reask else WRONG
    return (RIGHT, NOTHING, mended, Reply(refusal="I will not."))[run_of(request) % 4]


def args(server: OpenAIServer, *more: object) -> tuple[object, ...]:
    base = ("logs", "--rubric", "comm_errors", "--model", "m", "--base-url", server.url)
    return (*base, *set_model(mode="json_schema"), *more)


def manifest(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "run.json").read_text())


def found(folder: Path, *, usage: bool = True) -> dict[object, Annotation]:
    """The annotations without the seconds they took (or without all that they cost)."""
    kept = annotations(folder)
    return {
        key: replace(one, usage=replace(one.usage, seconds=0.0) if usage else type(one.usage)())
        for key, one in kept.items()
    }


def as_billed(folder: Path, server: OpenAIServer) -> None:
    totals = manifest(folder)["totals"]
    assert totals["calls"] == server.calls
    assert totals["input_tokens"] == server.tokens_in
    assert totals["output_tokens"] == server.tokens_out


def test_a_run_in_batches_equals_a_plain_run(annotate_cli: Cli, runs: Runs, tmp_path: Path) -> None:
    runs(8)
    with OpenAIServer(mixed) as server:
        plain = annotate_cli(*args(server, *PRICE, "--out", "plain"))
    with OpenAIServer(mixed) as server:
        server.batches.looks = 2
        done = annotate_cli(*args(server, *PRICE, "--batch", "--out", "out"))
        as_billed(tmp_path / "out", server)
        billed = (2 * server.tokens_in + 8 * server.tokens_out) / 1e6
        sizes = [len(items) for items in server.batches.items]
    assert (done.code, plain.code) == (1, 1), done.err  # the refusals
    assert sizes == [8, 2]  # the wrong quotes are asked again together
    assert found(tmp_path / "out", usage=False) == found(tmp_path / "plain", usage=False)
    assert manifest(tmp_path / "out")["totals"]["cost_usd"] == pytest.approx(billed)
    assert done.out.splitlines()[2:] == plain.out.splitlines()[2:]
    assert "batch_1: 8 questions to m" in done.err
    assert "batch_1: in_progress, 0 of 8" in done.err


def test_usage_is_counted_as_in_a_plain_run(annotate_cli: Cli, runs: Runs, tmp_path: Path) -> None:
    runs(3)
    with OpenAIServer(mixed) as server:
        annotate_cli(*args(server, "--out", "plain"))
        annotate_cli(*args(server, "--batch", "--out", "out"))
    assert found(tmp_path / "out") == found(tmp_path / "plain")


def test_a_question_that_two_traces_share_is_asked_once(
    annotate_cli: Cli, runs: Runs, tmp_path: Path
) -> None:
    runs(3, talk=TALK)
    with OpenAIServer(lambda _: RIGHT) as server:
        done = annotate_cli(*args(server, "--batch", "--out", "out"))
        as_billed(tmp_path / "out", server)
        assert server.calls == 1
    assert (done.code, "labelled 3" in done.out) == (0, True)


def test_samples_of_two_models_go_into_a_batch_of_each(
    annotate_cli: Cli, runs: Runs, tmp_path: Path
) -> None:
    runs(2)
    with OpenAIServer(mixed) as server:
        more = ("--model", "other", "--samples", "2", "--batch", "--out", "out")
        done = annotate_cli(*args(server, *more))
        as_billed(tmp_path / "out", server)
        asked = [{body["model"] for _, body in items} for items in server.batches.items]
    assert done.code == 0, done.err
    assert sorted(map(sorted, asked)) == [["m"], ["m"], ["other"], ["other"]]
    assert all(len(one.votes) == 4 for one in annotations(tmp_path / "out").values())


def test_a_failed_vote_is_not_asked_again_because_another_one_is_not_there_yet(
    annotate_cli: Cli, runs: Runs, tmp_path: Path
) -> None:
    def responder(request: Request) -> Reply:
        if request.body["seed"] == 1:
            return Reply(refusal="I will not.")
        return RIGHT if request.reask or request.body["seed"] == 2 else WRONG

    runs(1)
    with OpenAIServer(responder) as server:
        annotate_cli(*args(server, "--samples", "3", "--seed", "1", "--batch", "--out", "out"))
        assert [len(items) for items in server.batches.items] == [3, 1]
        as_billed(tmp_path / "out", server)
    [one] = annotations(tmp_path / "out").values()
    assert [vote.status for vote in one.votes] == ["failed", "labelled", "labelled"]


# Items and batches that fail

DOWN = Reply(status=500, error={"message": "no worker left"})


@pytest.mark.parametrize("times", [1, 2, 3])
def test_an_item_with_an_error_is_asked_in_three_batches(
    annotate_cli: Cli, runs: Runs, tmp_path: Path, times: int
) -> None:
    def responder(request: Request) -> Reply:
        second = run_of(request) == 2
        return DOWN if second and len(server.batches.created) <= times else RIGHT

    runs(3)
    with OpenAIServer(responder) as server:
        done = annotate_cli(*args(server, "--batch", "--out", "out"))
        assert [len(items) for items in server.batches.items] == [3, 1, 1][: min(times + 1, 3)]
        failed = [one for one in annotations(tmp_path / "out").values() if one.status == "failed"]
        assert (done.code, len(failed)) == ((1, 1) if times == 3 else (0, 0))
        if failed:
            assert "HTTP 500: no worker left (the last of 3 batches)" in (failed[0].error or "")
            again = annotate_cli(*args(server, "--batch", "--out", "out", "--resume"))
            assert (again.code, len(server.batches.created)) == (0, 4), again.err


def test_an_attempt_that_fails_is_counted(annotate_cli: Cli, runs: Runs, tmp_path: Path) -> None:
    runs(1)
    with OpenAIServer(lambda _: DOWN if len(server.batches.created) < 2 else RIGHT) as server:
        annotate_cli(*args(server, "--batch", "--out", "out"))
        assert server.calls == 2
        as_billed(tmp_path / "out", server)


def test_an_answer_that_never_comes_is_a_failure(
    annotate_cli: Cli, runs: Runs, tmp_path: Path
) -> None:
    runs(2)
    with OpenAIServer(lambda _: RIGHT) as server:
        server.batches.lost = lambda body: "This was run 2." in json.dumps(body)
        done = annotate_cli(*args(server, "--batch", "--out", "out"))
    assert (done.code, "labelled 1, none 0)  skipped 0  failed 1" in done.out) == (1, True)
    assert "no answer in the batch (completed)" in done.err


def test_an_expired_batch_gives_what_it_has_and_the_rest_is_asked_again(
    annotate_cli: Cli, runs: Runs, tmp_path: Path
) -> None:
    runs(5)
    with OpenAIServer(lambda _: RIGHT) as server:
        server.batches.ends = ["expired", "completed"]
        done = annotate_cli(*args(server, "--batch", "--out", "out"))
        assert [len(items) for items in server.batches.items] == [5, 3]
        as_billed(tmp_path / "out", server)
    assert (done.code, "labelled 5" in done.out) == (0, True)


def test_a_batch_that_the_server_refuses_stops_the_run_with_its_words(
    annotate_cli: Cli, runs: Runs, tmp_path: Path
) -> None:
    runs(2)
    with OpenAIServer(lambda _: RIGHT) as server:
        server.batches.ends = ["failed"]
        server.batches.words = "Model m is not for batches"
        done = annotate_cli(*args(server, "--batch", "--out", "out"))
        assert (done.code, done.out) == (2, "")
        assert "batch_1 has failed: Model m is not for batches" in done.err
        assert (manifest(tmp_path / "out")["status"], server.calls) == ("stopped", 0)
        again = annotate_cli(*args(server, "--batch", "--out", "out", "--resume"))
        assert (again.code, len(server.batches.created)) == (0, 2), again.err


CLAIM = finding("C3a", QUESTION, IGNORED)
TOO_LONG = {
    "words": {"message": "This model's maximum context length is 8000 tokens."},
    "only a code": {"message": "Reduce the prompt.", "code": "context_length_exceeded"},
}


@pytest.mark.parametrize("error", TOO_LONG.values(), ids=TOO_LONG)
def test_a_prompt_that_is_too_long_is_made_shorter_in_the_next_batch(
    annotate_cli: Cli, runs: Runs, tmp_path: Path, error: dict[str, Any]
) -> None:
    def responder(request: Request) -> Reply:
        return CLAIM if len(request.user) < 8_000 else Reply(status=400, error=error)

    runs(1, talk=[*TALK, ("agent1", "word " * 2_000)])
    with OpenAIServer(responder) as server:
        annotate_cli(*args(server, "--batch", "--least-read", "0", "--out", "out"))
        assert [len(items) for items in server.batches.items] == [1, 1]
    [one] = annotations(tmp_path / "out").values()
    assert (one.status, list(one.truncated)[:1]) == ("labelled", ["message:5"])


PASSING = {
    "slow": Reply(status=504, error={"message": "upstream took too long"}),
    "busy": Reply(status=429, error={"message": "you exceeded your tokens per minute"}),
}


@pytest.mark.parametrize("reply", PASSING.values(), ids=PASSING)
def test_an_error_that_may_pass_is_no_long_trace(
    annotate_cli: Cli, runs: Runs, tmp_path: Path, reply: Reply
) -> None:
    runs(1, talk=[*TALK, ("agent1", "word " * 2_000)])
    with OpenAIServer(lambda _: reply if len(server.batches.created) == 1 else RIGHT) as server:
        annotate_cli(*args(server, "--batch", "--out", "out"))
    [one] = annotations(tmp_path / "out").values()
    assert (one.status, one.truncated) == ("labelled", {})


# What is refused, and what cannot be read

REFUSED = Reply(status=400, error={"message": "Invalid schema for response_format 'Annotation'"})


@pytest.mark.parametrize("status", [400, 500])
@pytest.mark.parametrize("taken", [(), (1,), (3,)], ids=["no run", "the first", "the last"])
def test_a_form_that_is_refused_is_left_once_for_all_that_is_left(
    annotate_cli: Cli, runs: Runs, tmp_path: Path, taken: tuple[int, ...], status: int
) -> None:
    """What was answered in it before is not asked again."""

    def responder(request: Request) -> Reply:
        refused = request.form == "json_schema" and run_of(request) not in taken
        return replace(REFUSED, status=status) if refused else RIGHT

    runs(3)
    with OpenAIServer(responder) as server:
        given = args(server, *set_model(mode="auto"), "--batch", "--out", "out")
        assert annotate_cli(*given).code == 0
        learned = manifest(tmp_path / "out")["learned"]
        assert (learned["mode"], "Invalid schema" in learned["refused_modes"]["json_schema"]) == (
            "tools",
            True,
        )
        runs(4)
        done = annotate_cli(*given, "--resume")
        assert [len(items) for items in server.batches.items] == [3, 3 - len(taken), 1]
        assert [request.form for request in server.seen[3:]] == ["tools"] * (4 - len(taken))
        as_billed(tmp_path / "out", server)
    assert (done.code, "labelled 4" in done.out) == (0, True), done.err


ALIKE = {
    "refused": (Reply(status=400, error={"message": "temperature 0 is not supported"}), 1),
    "refused for its form, which was asked for": (REFUSED, 1),
    "paid, and no answer": (Reply(answer={}, more={"choices": []}), 1),
    "none left, which may pass": (DOWN, 3),
    "busy, which may pass": (Reply(status=429, error={"message": "too many"}), 3),
}


@pytest.mark.parametrize(("reply", "batches"), ALIKE.values(), ids=ALIKE)
def test_a_first_batch_that_fails_in_one_way_that_will_not_pass_stops_the_run(
    annotate_cli: Cli, runs: Runs, tmp_path: Path, reply: Reply, batches: int
) -> None:
    runs(3)
    with OpenAIServer(lambda _: reply) as server:
        given = args(server, "--batch", "--out", "out")
        done = annotate_cli(*given)
        assert [len(items) for items in server.batches.items] == [3] * batches
        stopped = "Error: all questions of a batch failed in the same way: " in done.err
        assert (done.code, stopped) == (1, batches == 1), done.err
        server.responder = lambda _: RIGHT
        again = annotate_cli(*given, "--resume")
        assert (again.code, len(server.batches.items)) == (0, batches + 1), again.err
        as_billed(tmp_path / "out", server)


def test_a_request_that_is_refused_is_not_asked_again(annotate_cli: Cli, runs: Runs) -> None:
    refused = Reply(status=400, error={"message": "we do not like its words"})
    runs(3)
    with OpenAIServer(lambda request: refused if run_of(request) == 2 else RIGHT) as server:
        done = annotate_cli(*args(server, *set_model(mode="auto"), "--batch", "--out", "out"))
        assert [len(items) for items in server.batches.items] == [3]
    assert (done.code, "labelled 2, none 0)  skipped 0  failed 1" in done.out) == (1, True)
    assert "HTTP 400: we do not like its words" in done.err


def test_one_refused_request_does_not_stop_the_run(annotate_cli: Cli, runs: Runs) -> None:
    """Nor do several that were asked again, of which the first batch was answered."""
    refused = Reply(status=400, error={"message": "we do not like its words"})
    runs(1)
    with OpenAIServer(lambda _: refused) as server:
        done = annotate_cli(*args(server, "--batch", "--out", "one"))
        assert (done.code, "failed 1" in done.out) == (1, True), done.err
    runs(3)
    with OpenAIServer(lambda request: refused if request.reask else WRONG) as server:
        done = annotate_cli(*args(server, "--batch", "--out", "three"))
        assert [len(items) for items in server.batches.items] == [3, 3]
        assert (done.code, "failed 3" in done.out) == (1, True), done.err


def test_a_first_batch_that_all_expires_does_not_stop_the_run(
    annotate_cli: Cli, runs: Runs
) -> None:
    runs(3)
    with OpenAIServer(lambda _: RIGHT) as server:
        server.batches.ends, server.batches.in_time = ["expired"], 0
        done = annotate_cli(*args(server, "--batch", "--out", "out"))
        assert [len(items) for items in server.batches.items] == [3, 3]
    assert (done.code, "labelled 3" in done.out) == (0, True), done.err


NOISE = {
    "no result": [b'{"custom_id": 7, "response": [1]}'],
    "too long": [b"a" * (LONGEST_RESPONSE + 9)],
    "zeros, as of a lost block": [b'{"custom_id": "a\0\0", "response": {"body": {}}}'],
    "several": [b"{", b"", b"7"],
}


@pytest.mark.parametrize("noise", NOISE.values(), ids=NOISE)
def test_a_line_that_is_no_result_keeps_no_other_out(
    annotate_cli: Cli, runs: Runs, tmp_path: Path, noise: list[bytes]
) -> None:
    """Nor is what is told to be refused one that cannot be read."""
    refused = Reply(status=400, error={"message": "we do not like its words"})
    runs(4)
    with OpenAIServer(lambda request: refused if run_of(request) == 4 else RIGHT) as server:
        server.batches.noise = noise
        first = [True, True, True, False]
        server.batches.lost = lambda body: not (first.pop() if first else True)
        done = annotate_cli(*args(server, "--batch", "--out", "out"))
        assert [len(items) for items in server.batches.items] == [4, 1]
        totals = manifest(tmp_path / "out")["totals"]
        assert (totals["calls"], totals["unreported_calls"]) == (server.calls + 1, 1)
    assert (done.code, "labelled 3" in done.out) == (1, True), done.err
    assert "batch_1: left out: " in done.err
    assert "1-output.jsonl, line 2: expected a line of batch results" in done.err
    assert f"({2 * len(list(filter(None, noise)))} lines are none)" in done.err  # in two files


@pytest.mark.parametrize("lost", [False, True])
def test_results_of_which_none_can_be_read_are_fetched_once_more(
    annotate_cli: Cli, runs: Runs, tmp_path: Path, lost: bool
) -> None:
    runs(2)
    with OpenAIServer(lambda _: RIGHT) as server:
        files = server.batches.files
        given = args(server, "--batch", "--out", "out")
        server.batches.download = {"Content-Encoding": "gzip"}  # so that the files can be replaced
        annotate_cli(*given)
        server.batches.download = {}
        results, files["file-2"] = files["file-2"], b"<html>\n"
        done = annotate_cli(*given, "--resume")
        assert (done.code, "no result can be read; what was sent" in done.err) == (2, True)
        files["file-2"] = files["file-2"] if lost else results
        again = annotate_cli(*given, "--resume")
        assert (again.code, len(server.batches.created)) == (0, 1 + lost), again.err
        totals = manifest(tmp_path / "out")["totals"]
        assert (totals["calls"], totals["unreported_calls"]) == (server.calls, 2 * lost)


# Stopped at any moment

# The signal, and what the process had not noted yet.
STOPS = {
    "kill -9": (signal.SIGKILL, {}),
    "kill -9 before the batch was noted": (signal.SIGKILL, {"batch_id": ""}),
    "Ctrl-C": (signal.SIGINT, {}),
}


@pytest.mark.parametrize(("how", "lost"), STOPS.values(), ids=STOPS)
def test_a_stopped_run_picks_its_batch_up_again(
    annotate_cli: Cli, runs: Runs, tmp_path: Path, how: signal.Signals, lost: dict[str, str]
) -> None:
    """Three batches of others, on two pages of the server's list, are newer than its own."""
    runs(6)
    with OpenAIServer(mixed) as server:
        annotate_cli(*args(server, *PRICE, "--batch", "--out", "whole"))
        before = server.calls
        batches = server.batches
        batches.held = True
        process = start(*args(server, *PRICE, "--batch", "--out", "out"), cwd=tmp_path)
        while len(batches.created) < 3 or not batches.created[2].get("seen"):
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.send_signal(how)
        _, err = process.communicate(timeout=30)
        assert process.returncode == (-9 if how is signal.SIGKILL else 130), err
        state = tmp_path / "out" / "batch" / "1" / "state.json"
        value = json.loads(state.read_text())
        value["jobs"][0] |= lost
        state.write_text(json.dumps(value))
        own = batches.created[2]
        for n, other in enumerate(({"annotator_run": "other"}, {"annotator_batch": "1/9"}, {})):
            metadata = own["metadata"] | other if other else None
            batches.created.append(own | {"id": f"batch_9{n}", "metadata": metadata})
        batches.items += [[]] * 3
        batches.held = False
        done = annotate_cli(*args(server, *PRICE, "--batch", "--out", "out", "--resume"))
        assert [len(items) for items in batches.items if items] == [6, 2, 6, 2]
        assert manifest(tmp_path / "out")["totals"]["calls"] == server.calls - before == before
    assert done.code == 1, done.err
    assert found(tmp_path / "out") == found(tmp_path / "whole")


def test_a_killed_panel_remembers_what_was_not_answered_in_a_batch_that_ended(
    annotate_cli: Cli, runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the other model goes on, for hours."""
    runs(2)
    with OpenAIServer(lambda _: DOWN if server.calls == 1 else RIGHT) as server:
        end = server.batches._end

        def end_first(batch: dict[str, Any], items: list[tuple[str, Any]], status: str) -> None:
            if items[0][1]["model"] == "m" or process.poll() is not None:
                end(batch, items, status)

        monkeypatch.setattr(server.batches, "_end", end_first)
        given = args(server, "--model", "other", "--batch", "--out", "out")
        process = start(*given, cwd=tmp_path)
        state = tmp_path / "out" / "batch" / "1" / "state.json"
        while not (state.exists() and '"done":true' in state.read_text()):
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.kill()
        process.communicate(timeout=30)
        done = annotate_cli(*given, "--resume")
        assert done.code == 0, done.err
        as_billed(tmp_path / "out", server)


# Money

PRICES = "as_of: 2026-01\nmodels:\n- {model: m, input: 2.0, output: 8.0, batch: 0.5}\n"


def test_a_batch_costs_the_batch_price(annotate_cli: Cli, runs: Runs, tmp_path: Path) -> None:
    runs(3)
    (tmp_path / "\udcff.yaml").write_text(PRICES)  # run.json says where the price is from
    with OpenAIServer(mixed) as server:
        annotate_cli(*args(server, "--batch", "--prices", "\udcff.yaml", "--out", "out"))
        billed = (server.tokens_in * 1.0 + server.tokens_out * 4.0) / 1e6
    totals = manifest(tmp_path / "out")["totals"]
    assert totals["cost_usd"] == pytest.approx(billed)
    assert sum(one.usage.cost_usd or 0 for one in annotations(tmp_path / "out").values()) == (
        pytest.approx(billed)
    )


def test_a_batch_that_may_cost_too_much_is_not_sent(
    annotate_cli: Cli, runs: Runs, tmp_path: Path
) -> None:
    runs(2)
    with OpenAIServer(mixed) as server:
        more = (*PRICE, "--batch", "--out", "out", "--max-cost")
        done = annotate_cli(*args(server, *more, "0.01"))
        assert (done.code, server.batches.created, server.batches.files) == (3, [], {})
        assert "the next batch may cost" in done.err
        again = annotate_cli(*args(server, *more, "5", "--resume"))
        assert (again.code, "labelled 1, none 1" in again.out) == (0, True), again.err
        as_billed(tmp_path / "out", server)


def test_a_batch_of_answers_that_were_cut_off_may_cost_twice_as_much(
    annotate_cli: Cli, runs: Runs
) -> None:
    """A first batch of 4 x 4,000 tokens costs 0.17 dollars; the second may cost 0.33."""

    def cut_off(request: Request) -> Reply:
        cap = request.body["max_completion_tokens"]
        usage = {"prompt_tokens": 5_000, "completion_tokens": cap}
        cut = Reply(text="{", finish="length", more={"usage": usage})
        return cut if cap == 4_000 else replace(RIGHT, more={"usage": usage})

    runs(4)
    with OpenAIServer(cut_off) as server:
        more = (
            "--price-in",
            "1",
            "--price-out",
            "10",
            *set_model(max_output_tokens=4000),
            "--batch",
        )
        done = annotate_cli(*args(server, *more, "--out", "out", "--max-cost", "0.4"))
        assert (done.code, len(server.batches.created)) == (3, 1), done.err


def test_what_failed_traces_have_cost_is_spent_too(
    annotate_cli: Cli, runs: Runs, tmp_path: Path
) -> None:
    """Each answer costs a dollar. Three refusals and a wrong quote are 4 of the 4.2 dollars, and
    asking again may cost more than the rest.
    """
    dear = {"usage": {"prompt_tokens": 1_000_000, "completion_tokens": 1}}

    def responder(request: Request) -> Reply:
        reply = WRONG if run_of(request) == 4 else Reply(refusal="I will not.")
        return replace(reply, more=dear)

    runs(4)
    with OpenAIServer(responder) as server:
        more = ("--price-in", "1", "--price-out", "100", "--batch", "--max-cost", "4.2")
        done = annotate_cli(*args(server, *more, "--out", "out"))
        assert (done.code, len(server.batches.created)) == (3, 1)
    # The wrong quote, too, which is in no annotation yet.
    assert 4 <= manifest(tmp_path / "out")["totals"]["cost_usd"] <= 4.2


def test_what_cannot_be_read_may_have_been_paid(annotate_cli: Cli, runs: Runs) -> None:
    """Two answers of a dollar each, and a third on a damaged line, for which 0.8 were set aside."""
    dear = {"usage": {"prompt_tokens": 1_000_000, "completion_tokens": 1}}
    runs(3)
    with OpenAIServer(lambda _: replace(RIGHT, more=dear)) as server:
        server.batches.noise = [b'{"custom_id": "']
        server.batches.lost = lambda body: "This was run 2." in json.dumps(body)
        more = ("--price-in", "1", "--price-out", "100", "--batch", "--max-cost", "3.2")
        done = annotate_cli(*args(server, *more, "--out", "out"))
        assert (done.code, len(server.batches.created)) == (3, 1), done.err
    assert "cost at least 2.0002 USD" in done.err


@pytest.mark.parametrize("counted", [3, None])
def test_what_was_answered_and_is_not_in_the_results_may_have_been_paid(
    annotate_cli: Cli, runs: Runs, tmp_path: Path, counted: int | None
) -> None:
    """As many as the server counts; a line that cannot be read is one of them."""
    runs(4)
    with OpenAIServer(lambda _: RIGHT) as server:
        batches = server.batches
        batches.ends = ["cancelled"]
        batches.noise = [] if counted else [b"{"]
        lost = lambda body: bool(re.search("This was run [234]", json.dumps(body)))  # noqa: E731
        batches.lost = lambda body: len(batches.created) == 1 and lost(body)
        counts = counted and {"total": 4, "completed": counted, "failed": 0}
        batches.fields = {"request_counts": counts}
        done = annotate_cli(*args(server, "--batch", "--out", "out"))
    assert done.code == 0, done.err
    assert manifest(tmp_path / "out")["totals"]["unreported_calls"] == (2 if counted else 3)


def test_of_what_has_no_result_the_dearest_may_have_been_paid(
    annotate_cli: Cli, runs: Runs, tmp_path: Path
) -> None:
    """Two have none, a short one and one of ten times its length, and one of them was answered."""
    runs(2)
    write_run(tmp_path / run_name(3), [*TALK, ("agent1", "This was run 3. " * 4_000)])
    with OpenAIServer(lambda _: RIGHT) as server:
        server.batches.lost = lambda body: "This was run 1." not in json.dumps(body)
        server.batches.fields = {"request_counts": {"total": 3, "completed": 2, "failed": 0}}
        more = ("--price-in", "20", "--price-out", "0", "--batch", "--max-cost", "1")
        done = annotate_cli(*args(server, *more, "--out", "out"))
    assert (done.code, len(server.batches.created)) == (3, 1), done.err
    both, spent = re.findall(r"cost ([\d.]+) USD, and ([\d.]+) of 1.0000 USD", done.err)[0]
    assert 0.5 < float(spent) / float(both) < 1


def test_a_failure_that_stands_twice_is_counted_once(
    annotate_cli: Cli, runs: Runs, tmp_path: Path
) -> None:
    runs(1)
    down = {"response": {"status_code": 500, "body": {"error": {"message": "no worker left"}}}}
    with OpenAIServer(lambda _: RIGHT) as server:
        server.batches.lost = lambda body: True
        server.batches.extra = [down, down]
        annotate_cli(*args(server, "--batch", "--out", "out"))
        assert len(server.batches.created) == 3
    assert manifest(tmp_path / "out")["totals"]["calls"] == 3


def test_what_another_model_of_a_panel_used_for_nothing_is_counted_when_one_is_refused(
    annotate_cli: Cli, runs: Runs, tmp_path: Path
) -> None:
    """The model m fails at once, for which there are calls; the batch of the other fails."""
    runs(2)
    with OpenAIServer(lambda request: DOWN) as server:
        server.batches.ends = ["completed", "failed"]
        given = args(server, "--model", "other", "--batch", "--out", "out")
        done = annotate_cli(*given)
        assert (done.code, "has failed" in done.err) == (2, True), done.err
        as_billed(tmp_path / "out", server)


def test_the_batch_of_another_model_is_left_alone_when_the_run_has_stopped(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a notebook, whose event loop goes on, it is there for a resumed run."""
    runs(2)
    released = False

    async def notebook(server: OpenAIServer) -> None:
        nonlocal released
        settings = {"models": [{"model": "m"}, {"model": "other"}], "base_url": server.url}
        limits = {"batch": True, "max_wait": 0.1, "mode": "json_schema"}
        with pytest.raises(AnnotatorError, match="has failed"):
            await aannotate(
                tmp_path / "logs", "comm_errors", settings | limits, out=tmp_path / "out"
            )
        released = True
        await asyncio.sleep(0.5)

    with OpenAIServer(lambda _: RIGHT) as server:
        end = server.batches._end

        def late(batch: dict[str, Any], items: list[tuple[str, Any]], status: str) -> None:
            of_other = items[0][1]["model"] == "other"
            if of_other or released:
                end(batch, items, "failed" if of_other else status)

        monkeypatch.setattr(server.batches, "_end", late)
        asyncio.run(notebook(server))
    state = json.loads((tmp_path / "out" / "batch" / "1" / "state.json").read_text())
    assert [job["done"] for job in state["jobs"]] == [False]


ANOTHER = {"response": {"status_code": 200, "body": {"choices": [{"message": {"content": "x"}}]}}}
CONTRADICTIONS = {"another answer": ANOTHER, "an error": {"error": {"message": "it went wrong"}}}


@pytest.mark.parametrize("extra", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_two_answers_to_one_request_are_none(
    annotate_cli: Cli, runs: Runs, tmp_path: Path, extra: dict[str, Any]
) -> None:
    runs(3)
    with OpenAIServer(lambda _: RIGHT) as server:
        server.batches.extra = [extra]
        done = annotate_cli(*args(server, "--batch", "--out", "out"))
        assert len(server.batches.created) == 1
    kept = [(one.status, one.error) for one in annotations(tmp_path / "out").values()]
    assert (done.code, sorted(status for status, _ in kept)) == (1, ["failed", *["labelled"] * 2])
    assert [error for _, error in kept if error] == [
        "the results hold two different answers to this one request"
    ]


ENDLESS = {
    "in progress for ever": ({"status": "in_progress"}, "have not ended in .* batch_wait"),
    "a word that nobody knows": ({"status": "warming\x1b[2Jup"}, "neither that it goes on"),
    "no status": ({"status": None}, "neither that it goes on"),
}


@pytest.mark.parametrize(("fields", "words"), ENDLESS.values(), ids=ENDLESS)
def test_a_batch_that_does_not_end_stops_the_run_in_time_and_can_be_taken_up(
    annotate_cli: Cli, runs: Runs, tmp_path: Path, fields: dict[str, Any], words: str
) -> None:
    runs(2)
    wait = 0.001 if "have not ended" in words else 0.1
    with OpenAIServer(lambda _: RIGHT) as server:
        server.batches.fields = fields
        given = args(server, "--batch", *set_model(batch_wait=wait, max_wait=0.5), "--out", "out")
        done = annotate_cli(*given)
        assert (done.code, "--resume" in done.err) == (2, True), done.err
        assert re.search(words.replace(" batch", r" \(batch"), done.err)
        assert "\x1b" not in done.err
        server.batches.fields = {}
        again = annotate_cli(*given, "--resume", *set_model(batch_wait=1))
        assert (again.code, len(server.batches.created)) == (0, 1), again.err


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("state.json", b"[" * 99_999, "damaged"),
        ("state.json", b'{"jobs": [{"n": "x", "mark": "a"}], "missed": {}}', "damaged"),
        ("state.json", None, "not a regular file"),
        ("1.jsonl", b'{"custom_id": "a"}\n', "damaged"),
        ("1.jsonl", b" " * (1 << 21), "a line of more than 1 MB"),
        ("1.jsonl", None, "not a regular file"),
    ],
)
def test_what_is_noted_of_a_batch_and_damaged_is_named(
    annotate_cli: Cli,
    runs: Runs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    content: bytes | None,
    words: str,
) -> None:
    runs(1)
    monkeypatch.setenv("ANNOTATOR_MAX_MB", "1")
    with OpenAIServer(lambda _: RIGHT) as server:
        server.batches.fields = {"status": "in_progress"}
        given = args(server, "--batch", "--out", "out")
        annotate_cli(*given, *set_model(batch_wait=0.0001))
        server.batches.fields = {}
        file = tmp_path / "out" / "batch" / "1" / name
        file.unlink()
        if content is None:
            file.mkdir()
        else:
            file.write_bytes(content)
        done = annotate_cli(*given, "--resume")
    assert (done.code, f"Error: {file.relative_to(tmp_path)}: {words}" in done.err) == (2, True), (
        done.err
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"output_file_id": "../../v1/x"}, "an id that is none"),
        ({"output_file_id": "a\x1b[2J"}, "an id that is none"),
    ],
)
def test_an_id_that_can_be_none_is_not_called(
    annotate_cli: Cli, runs: Runs, fields: dict[str, Any], words: str
) -> None:
    runs(1)
    with OpenAIServer(lambda _: RIGHT) as server:
        server.batches.fields = fields
        done = annotate_cli(*args(server, "--batch", "--out", "out"))
    assert (done.code, words in done.err, "\x1b" in done.err) == (2, True, False), done.err


@pytest.mark.parametrize(
    "fields",
    [
        {"body": b"[" * 99_999, "headers": {"Content-Type": "application/json"}},
        {"body": b"{}", "headers": {"X": "y" * 9_000}},  # longer than is read
    ],
)
def test_a_server_that_cannot_be_read_stops_the_run_in_one_sentence(
    annotate_cli: Cli, runs: Runs, fields: dict[str, Any]
) -> None:
    runs(1)
    with OpenAIServer() as server:
        server.batches.uploaded = fields
        given = args(server, "--base-url", f"{server.url}?sig=SECRET-9", "--batch", "--out", "o")
        done = annotate_cli(*given, *set_model(attempts=1))
    assert (done.code, done.err.count("Error: "), "SECRET-9" in done.err) == (2, 1, False), done.err


def test_a_download_that_cannot_be_unpacked_stops_the_run_and_can_be_taken_up(
    annotate_cli: Cli, runs: Runs
) -> None:
    runs(1)
    with OpenAIServer(lambda _: RIGHT) as server:
        server.batches.download = {"Content-Encoding": "gzip"}
        given = args(server, "--batch", "--out", "out")
        done = annotate_cli(*given)
        assert (done.code, "the same command with --resume" in done.err) == (2, True), done.err
        server.batches.download = {}
        again = annotate_cli(*given, "--resume")
        assert (again.code, len(server.batches.created)) == (0, 1), again.err


def test_answers_that_are_damaged_are_asked_again_when_they_are_moved_away(
    annotate_cli: Cli, runs: Runs, tmp_path: Path
) -> None:
    runs(1)
    with OpenAIServer(lambda _: Reply(refusal="I will not.")) as server:
        given = args(server, "--batch", "--out", "out")
        annotate_cli(*given)
        (tmp_path / "out" / "answers.sqlite").write_bytes(b"no data base" * 99)
        done = annotate_cli(*given, "--resume")
        assert (done.code, "answers.sqlite cannot be used: " in done.err) == (2, True)
        assert "move it away, and what was answered is asked again" in done.err
        (tmp_path / "out" / "answers.sqlite").unlink()
        again = annotate_cli(*given, "--resume")
        assert (again.code, len(server.batches.created)) == (1, 2), again.err


def test_where_what_was_spent_cannot_be_read_the_judge_is_let_go_all_the_same(
    annotate_cli: Cli, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unbilled(*_: object) -> None:
        raise AnnotatorError("the answers cannot be read")

    monkeypatch.setattr(AnswerCache, "unbilled", unbilled)
    runs(1)
    with OpenAIServer(lambda _: replace(RIGHT, more={"model": "another"})) as server:
        done = annotate_cli(*args(server, "--batch", "--out", "out"))
    assert (done.code, done.err.splitlines()[-1]) == (2, "Error: the answers cannot be read")
    assert "it was answered by 'another' (1 answers)" in done.err


def test_a_batch_that_is_gone_is_asked_again_when_its_folder_is_deleted(
    annotate_cli: Cli, runs: Runs, tmp_path: Path
) -> None:
    runs(1)
    with OpenAIServer(lambda _: RIGHT) as server:
        server.batches.fields = {"output_file_id": "gone"}
        given = args(server, "--batch", "--out", "out")
        done = annotate_cli(*given)
        assert (done.code, "gone, delete out/batch/1 to ask again" in done.err) == (2, True)
        server.batches.fields = {}
        shutil.rmtree(tmp_path / "out" / "batch" / "1")
        again = annotate_cli(*given, "--resume")
        assert (again.code, len(server.batches.created)) == (0, 2), again.err
        server.batches.uploaded = {"status": 404}  # a server that takes none
        done = annotate_cli(*args(server, "--batch", "--no-cache", "--out", "other"))
        assert (done.code, "delete" in done.err) == (2, False), done.err


def test_a_download_is_not_followed_elsewhere(annotate_cli: Cli, runs: Runs) -> None:
    runs(1)
    with OpenAIServer(lambda _: RIGHT) as other, OpenAIServer(lambda _: RIGHT) as server:
        server.batches.elsewhere = f"{other.url}/files/file-2/content"
        done = annotate_cli(*args(server, "--batch", "--out", "out"))
        assert (done.code, other.asked, other.seen) == (2, [], [])
    assert "a key must not follow" in done.err
