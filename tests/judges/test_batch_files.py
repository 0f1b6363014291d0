"""Requests written to a file and answers read from one: no server, no key, any program between."""

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from annotator.judges.llm.reply import LONGEST_RESPONSE
from tests.conftest import TALK, annotations, set_model
from tests.judges.test_batch import (
    ANOTHER,
    DOWN,
    REFUSED,
    Cli,
    Runs,
    args,
    as_billed,
    found,
    manifest,
    mixed,
)
from tests.judges.test_llm import RIGHT
from tests.openai_server import OpenAIServer, Reply, Request


def requests_in(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def answer(server: OpenAIServer, asked: str, results: str, *, vllm: bool = False) -> None:
    """Do what ``vllm run-batch`` does, or what OpenAI gives back; in another order."""
    lines = []
    for line in requests_in(Path(asked))[::-1]:
        url = server.url.removesuffix("/v1") + line["url"]
        data = json.dumps(line["body"]).encode()
        http = urllib.request.Request(url, data, {"Content-Type": "application/json"})
        body = json.loads(urllib.request.urlopen(http).read())
        response = {"request_id": "r", "body": body} | ({} if vllm else {"status_code": 200})
        lines.append(
            {"id": "x", "custom_id": line["custom_id"], "response": response, "error": None}
        )
    write(results, *lines)


def write(file: str, *lines: object) -> None:
    Path(file).write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_the_requests_are_written_and_nothing_is_asked(
    annotate_cli: Cli, runs: Runs, tmp_path: Path
) -> None:
    runs(3)
    with OpenAIServer() as server:
        more = ("--samples", "2", "--batch-file", "asked.jsonl", "--out", "out")
        done = annotate_cli(*args(server, *more))
        assert (done.code, done.out, server.calls) == (0, "", 0), done.err
    assert manifest(tmp_path / "out")["status"] == "waiting"
    lines = requests_in(tmp_path / "asked.jsonl")
    assert len({line["custom_id"] for line in lines}) == len(lines) == 6
    for line in lines:
        assert sorted(line) == ["body", "custom_id", "method", "url"]
        assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
        assert line["body"]["model"] == "m"
        assert line["body"]["response_format"]["type"] == "json_schema"
    assert "6 requests are in asked.jsonl" in done.err
    assert "--resume --batch-results FILE" in done.err


def test_a_request_that_two_traces_share_is_written_once(annotate_cli: Cli, runs: Runs) -> None:
    runs(3, talk=TALK)
    with OpenAIServer(lambda _: RIGHT) as server:
        annotate_cli(*args(server, "--batch-file", "asked.jsonl", "--out", "out"))
        assert len(requests_in(Path("asked.jsonl"))) == 1
        answer(server, "asked.jsonl", "results.jsonl")
        more = ("--out", "out", "--resume", "--batch-results", "results.jsonl")
        done = annotate_cli(*args(server, *more))
        as_billed(Path("out"), server)
    assert (done.code, "labelled 3" in done.out) == (0, True)


def test_writing_a_file_needs_no_key(annotate_cli: Cli, runs: Runs) -> None:
    runs(1)
    more = ("--model", "m", "--batch-file", "asked.jsonl", "--out", "out")
    done = annotate_cli("logs", "--rubric", "comm_errors", *more)
    assert (done.code, len(requests_in(Path("asked.jsonl")))) == (0, 1), done.err


def test_a_run_that_stops_leaves_the_file_that_was_there(annotate_cli: Cli, runs: Runs) -> None:
    runs(1)
    Path("ask.jsonl").write_text("before")
    Path("empty").mkdir()
    more = ("--rubric", "comm_errors", "--model", "m", "--batch-file", "ask.jsonl", "--out", "out")
    done = annotate_cli("empty", *more)
    assert (done.code, "no traces in empty" in done.err) == (2, True), done.err
    assert Path("ask.jsonl").read_text() == "before"
    assert sorted(path.name for path in Path().iterdir() if path.name[0] == ".") == []


@pytest.mark.parametrize("vllm", [False, True], ids=["OpenAI", "vLLM"])
def test_a_run_by_files_equals_a_plain_run(annotate_cli: Cli, runs: Runs, vllm: bool) -> None:
    """The wrong quotes come back in a second file; what nobody answers is a failure."""
    runs(8)
    with OpenAIServer(mixed) as server:
        annotate_cli(*args(server, "--out", "plain"))
    with OpenAIServer(mixed) as server:
        base = args(server, "--out", "out")
        assert annotate_cli(*base, "--batch-file", "1.jsonl").code == 0
        answer(server, "1.jsonl", "1-done.jsonl", vllm=vllm)
        results = ("--resume", "--batch-results", "1-done.jsonl")
        done = annotate_cli(*base, *results, "--batch-file", "2.jsonl")
        assert (done.code, len(requests_in(Path("2.jsonl")))) == (0, 2), done.err
        assert manifest(Path("out"))["status"] == "waiting"
        answer(server, "2.jsonl", "2-done.jsonl", vllm=vllm)
        last = annotate_cli(*base, *results, "--batch-results", "2-done.jsonl")
    assert last.code == 1  # the refusals
    assert found(Path("out"), usage=False) == found(Path("plain"), usage=False)


def test_what_has_no_answer_is_a_failure(annotate_cli: Cli, runs: Runs) -> None:
    runs(3)
    with OpenAIServer(lambda _: RIGHT) as server:
        base = args(server, "--out", "out")
        annotate_cli(*base, "--batch-file", "1.jsonl")
        answer(server, "1.jsonl", "done.jsonl")
        lines = Path("done.jsonl").read_text().splitlines(keepends=True)
        stray = json.loads(lines[2]) | {"custom_id": "half a character: \ud83d"}
        Path("done.jsonl").write_text("".join([*lines[:2], json.dumps(stray)]))
        done = annotate_cli(*base, "--resume", "--batch-results", "done.jsonl")
        assert (done.code, "labelled 2, none 0)  skipped 0  failed 1" in done.out) == (1, True)
        assert "there is no answer to it in the batch results" in done.err
        Path("rest.jsonl").write_text(lines[2])
        rest = annotate_cli(*base, "--resume", "--batch-results", "rest.jsonl")
        as_billed(Path("out"), server)
    assert (rest.code, "labelled 3" in rest.out) == (0, True)


def test_a_prompt_that_was_too_long_is_named_where_nobody_is_asked_again(
    annotate_cli: Cli, runs: Runs
) -> None:
    runs(1, talk=[*TALK, ("agent1", "word " * 2_000)])
    with OpenAIServer() as server:
        base = args(server, "--out", "out")
        annotate_cli(*base, "--batch-file", "1.jsonl")
    [line] = requests_in(Path("1.jsonl"))
    error = {"message": "This model's maximum context length is 8000 tokens."}
    response = {"status_code": 400, "body": {"error": error}}
    write("done.jsonl", {"custom_id": line["custom_id"], "response": response})
    done = annotate_cli(*base, "--resume", "--batch-results", "done.jsonl")
    assert done.code == 1
    assert "maximum context length is 8000 tokens.; of less of it: there is no answer" in done.err


def test_wrong_quotes_that_nobody_mends_are_rejected(annotate_cli: Cli, runs: Runs) -> None:
    runs(2)
    with OpenAIServer(mixed) as server:
        base = args(server, "--out", "out")
        annotate_cli(*base, "--batch-file", "1.jsonl")
        answer(server, "1.jsonl", "done.jsonl")
        done = annotate_cli(*base, "--resume", "--batch-results", "done.jsonl")
    assert (done.code, "labelled 0, none 1)  undecided 1 " in done.out) == (0, True)
    assert [len(one.rejected) for one in annotations(Path("out")).values()] == [0, 1]


def test_results_that_are_read_again_are_not_paid_again(annotate_cli: Cli, runs: Runs) -> None:
    runs(4)
    with OpenAIServer(mixed) as server:
        base = args(server, "--out", "out")
        annotate_cli(*base, "--batch-file", "1.jsonl")
        answer(server, "1.jsonl", "done.jsonl")
        with Path("done.jsonl").open("a") as results:  # what another run has paid for
            results.write(json.dumps({"custom_id": "other", **ANOTHER}) + "\n")
        for _ in range(2):  # one refusal, which is looked at again
            done = annotate_cli(*base, "--resume", "--batch-results", "done.jsonl")
            assert (done.code, "failed 1" in done.out) == (1, True)
        as_billed(Path("out"), server)


# How results say that a prompt was too long: vLLM's run-batch, before and since 0.11, and OpenAI.
SAID = "This model's maximum context length is 8000 tokens. However, your request has 9000 tokens."
ERROR = {"message": SAID, "type": "BadRequestError", "code": 400}
OVERFLOWS = {
    "vLLM": {"response": {"status_code": 400, "body": None}, "error": {"error": ERROR}},
    "older vLLM": {
        "response": {"status_code": 400, "body": None},
        "error": {"object": "error"} | ERROR,
    },
    "vLLM, in a word": {"response": {"status_code": 400, "body": None}, "error": SAID},
    "OpenAI": {"response": {"status_code": 400, "body": {"error": ERROR}}, "error": None},
}


@pytest.mark.parametrize("said", OVERFLOWS.values(), ids=OVERFLOWS)
def test_a_prompt_that_was_too_long_comes_back_shorter(
    annotate_cli: Cli, runs: Runs, said: dict[str, Any]
) -> None:
    runs(1, talk=[*TALK, ("agent1", "word " * 5_000)])
    with OpenAIServer(lambda _: RIGHT) as server:
        base = args(server, "--out", "out")
        annotate_cli(*base, "--batch-file", "1.jsonl")
        [asked] = requests_in(Path("1.jsonl"))
        write("done.jsonl", {"id": "x", "custom_id": asked["custom_id"]} | said)
        results = ("--resume", "--batch-results", "done.jsonl")
        done = annotate_cli(*base, *results, "--batch-file", "2.jsonl")
        [shorter] = requests_in(Path("2.jsonl"))
        first, second = (Request(0, one["body"]) for one in (asked, shorter))
        assert len(second.user) < 0.9 * len(first.user), done.err
        answer(server, "2.jsonl", "2-done.jsonl")
        annotate_cli(*base, *results, "--batch-results", "2-done.jsonl")
    [one] = annotations(Path("out")).values()
    assert (one.status, "message:5" in one.truncated) == ("undecided", True)
    assert [finding.code for finding in one.findings] == ["C1b"]


def answer_all(server: OpenAIServer, asked: str, results: str) -> None:
    """Give back what the server says of each request, errors too."""
    lines = []
    for line in requests_in(Path(asked)):
        status, body = server.item(line["body"])
        response = {"status_code": status, "body": body}
        lines.append({"custom_id": line["custom_id"], "response": response, "error": None})
    write(results, *lines)


@pytest.mark.parametrize("more", [("--batch-file", "2.jsonl"), ()], ids=["at once", "later"])
def test_a_form_that_results_refuse_is_left_in_the_next_file(
    annotate_cli: Cli, runs: Runs, more: tuple[str, ...]
) -> None:
    runs(3)
    with OpenAIServer(lambda one: REFUSED if one.form == "json_schema" else RIGHT) as server:
        base = args(server, *set_model(mode="auto"), "--out", "out")
        annotate_cli(*base, "--batch-file", "1.jsonl")
        answer_all(server, "1.jsonl", "1-done.jsonl")
        results = ("--resume", "--batch-results", "1-done.jsonl")
        done = annotate_cli(*base, *results, *more)
        assert "3 requests have no answer; the first: HTTP 400: Invalid schema" in done.err
        if not more:
            assert (done.code, "failed 3" in done.out) == (1, True)
            annotate_cli(*base, "--resume", "--batch-file", "2.jsonl")
        answer_all(server, "2.jsonl", "2-done.jsonl")
        assert [request.form for request in server.seen] == ["json_schema"] * 3 + ["tools"] * 3
        last = annotate_cli(*base, *results, "--batch-results", "2-done.jsonl")
    assert (last.code, "labelled 3" in last.out) == (0, True), last.err
    assert "Invalid schema" in manifest(Path("out"))["learned"]["refused_modes"]["json_schema"]


@pytest.mark.parametrize("order", ["12", "21"])
def test_an_answer_of_a_later_attempt_counts_beside_the_error_of_the_first(
    annotate_cli: Cli, runs: Runs, order: str
) -> None:
    runs(2)
    with OpenAIServer(lambda one: DOWN if one.n == 1 else RIGHT) as server:
        base = args(server, "--out", "out")
        annotate_cli(*base, "--batch-file", "1.jsonl")
        answer_all(server, "1.jsonl", "1-done.jsonl")
        more = ("--batch-results", "1-done.jsonl", "--batch-file", "2.jsonl")
        annotate_cli(*base, "--resume", *more)
        assert len(requests_in(Path("2.jsonl"))) == 1
        answer_all(server, "2.jsonl", "2-done.jsonl")
        results = [word for n in order for word in ("--batch-results", f"{n}-done.jsonl")]
        done = annotate_cli(*base, "--resume", *results)
    assert (done.code, "labelled 2" in done.out) == (0, True), done.err


def test_a_request_that_results_refuse_is_not_written_again(annotate_cli: Cli, runs: Runs) -> None:
    runs(2)
    refused = Reply(status=400, error={"message": "temperature 0 is not supported"})
    with OpenAIServer(lambda request: refused) as server:
        base = args(server, "--out", "out")
        annotate_cli(*base, "--batch-file", "1.jsonl")
        answer_all(server, "1.jsonl", "done.jsonl")
        results = ("--resume", "--batch-results", "done.jsonl")
        done = annotate_cli(*base, *results, "--batch-file", "2.jsonl")
    assert (done.code, Path("2.jsonl").read_text()) == (1, "")
    assert "temperature 0 is not supported" in done.err


def test_the_words_of_an_error_reach_the_user(annotate_cli: Cli, runs: Runs) -> None:
    runs(1)
    with OpenAIServer() as server:
        base = args(server, "--out", "out")
        annotate_cli(*base, "--batch-file", "1.jsonl")
        [asked] = requests_in(Path("1.jsonl"))
        error = {"error": {"message": "guided decoding is not compiled in", "code": 400}}
        line = {"response": {"status_code": 400, "request_id": "r"}, "error": error}
        write("done.jsonl", line | {"custom_id": asked["custom_id"]})
        done = annotate_cli(*base, "--resume", "--batch-results", "done.jsonl")
    assert done.code == 1
    assert "1 requests have no answer; the first: " in done.err
    assert "guided decoding is not compiled in" in done.err


MALFORMED = {
    "no JSON": b"{",
    "no object": b"[1]",
    "a number": b"7",
    "no custom_id": b'{"response": {"body": {}}}',
    "a response in a list": b'{"custom_id": "a", "response": [1]}',
    "no text": b"\xff\xfe",
    "nested too deeply": b"[" * 200_000,
    "a status that is no number": b'{"custom_id": "k", "response": {"status_code": 1e400}}',
    "too long": b"{" * (LONGEST_RESPONSE + 9),
    "zeros, as of a lost block": b'{"custom_id": "a\0\0", "response": {"body": {}}}',
}


@pytest.mark.parametrize("line", MALFORMED.values(), ids=MALFORMED)
def test_a_line_that_is_no_result_is_named_and_keeps_no_other_out(
    annotate_cli: Cli, runs: Runs, line: bytes
) -> None:
    runs(2)
    with OpenAIServer(lambda _: RIGHT) as server:
        base = args(server, "--out", "out")
        annotate_cli(*base, "--batch-file", "1.jsonl")
        answer(server, "1.jsonl", "done.jsonl")
        whole = Path("done.jsonl").read_bytes()
        first, rest = whole.split(b"\n", 1)
        Path("bad.jsonl").write_bytes(first + b"\n\n" + line + b"\n" + rest)
        done = annotate_cli(*base, "--resume", "--batch-results", "bad.jsonl")
        assert (done.code, done.out) == (2, "")
        assert "Error: bad.jsonl, line 3: " in done.err
        again = annotate_cli(*base, "--resume", "--batch-file", "2.jsonl")
    assert (again.code, "labelled 2" in again.out) == (0, True)


def test_answers_that_are_none_are_failures(annotate_cli: Cli, runs: Runs) -> None:
    """A line in the right form whose body is no chat completion."""
    runs(1)
    bodies: list[object] = [None, {}, [], {"choices": []}, {"error": {"message": "no memory"}}]
    with OpenAIServer() as server:
        for n, body in enumerate(bodies):
            base = args(server, "--out", f"out{n}")
            annotate_cli(*base, "--batch-file", "1.jsonl")
            [asked] = requests_in(Path("1.jsonl"))
            line = {"custom_id": asked["custom_id"], "response": {"body": body}, "error": None}
            write("done.jsonl", line)
            done = annotate_cli(*base, "--resume", "--batch-results", "done.jsonl")
            assert (done.code, "judged 0 (labelled 0, none 0)" in done.out) == (1, True)
    assert "no memory" in done.err


USAGE = {
    "both at once": (("--batch", "--batch-file", "1.jsonl"), "--batch does it all"),
    "two models": (("--model", "n", "--batch-file", "1.jsonl"), "one model at a time"),
    "no such folder": (("--batch-file", "no/1.jsonl"), "no/1.jsonl: No such file"),
    "no such results": (("--batch-results", "no.jsonl"), "'no.jsonl' does not exist"),
}


@pytest.mark.parametrize(("more", "said"), USAGE.values(), ids=USAGE)
def test_what_cannot_be_is_one_line_and_exit_code_2(
    annotate_cli: Cli,
    runs: Runs,
    more: tuple[str, ...],
    said: str,
) -> None:
    runs(1)
    with OpenAIServer(lambda _: Reply(status=500)) as server:
        done = annotate_cli(*args(server, "--out", "out", *more))
        assert (done.code, done.out, server.calls) == (2, "", 0)
    assert said in done.err
    assert "Traceback" not in done.err
