"""Traces that are longer than what a model reads: shortened, and never a guess."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from annotator.errors import JudgeStopped
from annotator.rubrics import Rubric, load_rubric
from annotator.text import floor_percent
from annotator.traces import Message, Trace
from tests.conftest import Done, annotations, run_name, write_run
from tests.judges.test_llm import judged, scripted
from tests.openai_server import NOTHING, OpenAIServer, Reply, Request, Responder, finding

Cli = Callable[..., Done]
MANY = 40


def question(n: int) -> tuple[str, str]:
    return f"message:{n}", f"Which field holds unit {n} of the parser?"


def end(n: int) -> tuple[str, str]:
    return f"message:{n}", f"Part {n} ends here."


def long(filler: str = "and so on it goes ", patch: int = 0) -> Trace:
    """A conversation of 40 messages of 1,500 characters, each with a question and an end."""
    texts = []
    for n in range(1, MANY + 1):
        first, last = question(n)[1] + " ", " " + end(n)[1]
        texts.append(first + (filler * 1_500)[: 1_500 - len(first + last)] + last)
    messages = tuple(Message(n, "ab"[n % 2], (), text) for n, text in enumerate(texts, 1))
    patches = {"a": "+ line of code\n" * (patch // 15)} if patch else {}
    return Trace("t", "generic", "", messages, patches)


LONG = long()
RIGHT = finding("C3a", question(1), end(MANY))


def sent(request: Request) -> int:
    """The characters of all messages of a request."""
    return sum(len(one["content"] or "") for one in request.messages)


def head_and_tail(request: Request, source: str) -> tuple[str, str]:
    """What a prompt shows of a part; the tail is "" if it shows all of it."""
    names = [part.source for part in request.parts]
    at = names.index(source)
    cut = at + 1 < len(names) and names[at + 1].isdigit()
    return request.parts[at].text, request.parts[at + 1].text if cut else ""


FILLERS = {
    "English": long(),
    "Chinese": long("单位在解析器里面，"),
    "Chinese talk, English patches": long("单位在解析器里面，", patch=90_000),
}


@pytest.mark.parametrize("windows", [False, True], ids=["one prompt", "windows"])
@pytest.mark.parametrize("trace", FILLERS.values(), ids=FILLERS)
def test_a_known_context_is_kept_by_the_conservative_estimate(
    rubric: Rubric, trace: Trace, windows: bool
) -> None:
    """2.9 bytes a token of the trace, 4 of the rubric, and an eighth for the answer."""
    context = 20_000
    with OpenAIServer() as server:
        one = judged(server, trace, rubric, mode="json", context=context, windows=windows)
        requests = server.seen
    assert one.status == "none"
    assert len(requests) > 1 if windows else len(requests) == 1
    for request in requests:
        system, user = (len(message["content"].encode()) for message in request.messages)
        assert system / 4 + user / 2.9 + context / 8 <= context
    if not windows:
        missing = {}
        for source in trace.sources(("messages", "patches")):
            names = [part.source for part in requests[0].parts]
            here = head_and_tail(requests[0], source.id) if source.id in names else ("", "")
            if gone := len(source.text) - len(here[0] + here[1]):
                missing[source.id] = gone
        assert {**one.truncated} == missing != {}


@pytest.mark.parametrize("windows", [False, True], ids=["one prompt", "windows"])
def test_a_context_with_no_room_for_a_trace_fails_and_asks_nothing(
    rubric: Rubric, windows: bool
) -> None:
    with OpenAIServer() as server:
        one = judged(server, LONG, rubric, mode="tools", context=4_096, windows=windows)
        calls = server.calls
    assert one.status == "failed", f"{one.status} after {calls} calls without a trace in them"
    assert calls == 0


def test_a_trace_that_fits_into_a_known_context_is_complete(rubric: Rubric) -> None:
    with OpenAIServer(scripted(RIGHT)) as server:
        one = judged(server, LONG, rubric, mode="tools", context=40_000, windows=True)
        [request] = server.seen
    assert (one.status, one.truncated) == ("labelled", {})
    assert [part.text for part in request.parts[1:]] == [m.text for m in LONG.messages]


def test_the_report_counts_what_was_shortened(annotate_cli: Cli, tmp_path: Path) -> None:
    for n, size in enumerate((10, 10, 60_000), 1):
        write_run(
            tmp_path / run_name(n), [("agent1", "word " * size), ("agent2", "Yes, so it is.")]
        )
    with OpenAIServer() as server:
        args = ("logs", "--rubric", "comm_errors", "--model", "m", "--base-url", server.url)
        done = annotate_cli(*args, "--context", "20000", "--out", "out")
        lax = annotate_cli(*args, "--context", "20000", "--out", "lax", "--least-read", "0.1")
    assert (done.code, lax.code) == (0, 0), done.err
    [cut] = [one for one in annotations(tmp_path / "out").values() if one.truncated]
    assert {"message:1", "patch:agent1", "patch:agent2"} <= cut.truncated.keys()
    percent = floor_percent(cut.read)
    assert (cut.status, cut.reason, 0.1 < cut.read < 0.2) == (
        *("undecided", f"read {percent} of it"),
        True,
    )
    assert f"1 trace was read in part, {percent} of it" in done.out
    assert "1 undecided trace was read in part" in done.out
    for name, judged_ in (("out", 2), ("lax", 3)):
        [table] = json.loads(annotate_cli("report", name, "--format", "json").out)
        assert (table["judged"], table["truncated"], table["least_read"]) == (judged_, 1, cut.read)


# How servers say that a prompt is too long, and whether both numbers are in it.
OURS = "This model's maximum context length is {limit} tokens. However, "
WORDINGS: dict[str, tuple[str, dict[str, object], bool]] = {
    "OpenAI": (
        OURS + "your messages resulted in {asked} tokens. Please reduce the length.",
        *({"code": "context_length_exceeded"}, True),
    ),
    "with the completion": (
        OURS + "you requested {asked} tokens (8000 in the messages, 99 in the completion).",
        *({}, True),
    ),
    "vLLM request": (
        OURS + "your request has {asked} input tokens. Please reduce the length of the messages.",
        *({"code": 400}, True),
    ),
    "vLLM decoder prompt": (
        "The decoder prompt (length {asked}) is longer than the maximum model length of {limit}.",
        *({"code": 400}, True),
    ),
    "Anthropic": ("prompt is too long: {asked} tokens > {limit} maximum", {}, True),
    "Anthropic's sum": (  # continuedev/continue, issue 6080
        "input length and `max_tokens` exceed context limit: {asked} + 99 > {limit}, decrease input"
        " length or `max_tokens` and try again",
        *({}, True),
    ),
    "vLLM's sum": (  # vllm-project/vllm, issue 42474
        OURS + "you requested 99 output tokens and your prompt contains at least {asked} input"
        " tokens, for a total of at least 99999 tokens.",
        *({}, False),
    ),
    "llama.cpp": (
        "the request exceeds the available context size, try increasing it",
        *({"n_prompt_tokens": "{asked}", "n_ctx": "{limit}", "code": 400}, True),
    ),
    "vLLM total length": (
        "The prompt (total length {asked}) is too long to fit into the model (context length"
        " {limit}).",
        *({}, False),
    ),
    "Gemini": (
        "The input token count ({asked}) exceeds the maximum number of tokens allowed ({limit}).",
        *({}, False),
    ),
    "xAI": (
        "This model's maximum prompt length is {limit} but the request contains {asked} tokens.",
        *({}, False),
    ),
    "DashScope": (
        "<400> InvalidParameter: Range of input length should be [1, {limit}]",
        *({}, False),
    ),
    "Kimi": ("Invalid request: Your request exceeded model token limit: {limit}", {}, False),
    "no numbers": ("Input is too long for requested model.", {}, False),
    "only a code": ("Please reduce the prompt.", {"code": "context_length_exceeded"}, False),
    "413": ("Request Entity Too Large", {"status": 413}, False),
}


def refusal(name: str, asked: int, limit: int) -> Reply:
    words, fields, _ = WORDINGS[name]
    error: dict[str, object] = {"message": words.format(asked=asked, limit=limit)} | fields
    for key, value in error.items():
        if value in ("{asked}", "{limit}"):
            error[key] = asked if value == "{asked}" else limit
    return Reply(status=int(error.pop("status", 400)), error=error)


def reads(limit: int, name: str, answer: Responder) -> Responder:
    """Refuse prompts of more than ``limit`` tokens, of four characters each."""

    def respond(request: Request) -> Reply:
        asked = sent(request) // 4
        return answer(request) if asked <= limit else refusal(name, asked, limit)

    return respond


@pytest.mark.parametrize("name", WORDINGS)
def test_a_prompt_that_the_server_finds_too_long_is_made_shorter(rubric: Rubric, name: str) -> None:
    """12,000 tokens are read, 19,000 sent: with the numbers, the second prompt fits."""
    with OpenAIServer(reads(12_000, name, scripted(RIGHT))) as server:
        one = judged(server, LONG, rubric, mode="json")
        sizes = [sent(request) for request in server.seen]
    assert (one.status, one.usage.calls) == ("labelled", len(sizes)), one.error
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) == 2 if WORDINGS[name][2] else len(sizes) <= 4
    shown = len(server.seen[-1].user)
    assert shown > 10_000, "much less than what would fit"
    assert 60_000 - shown < sum(one.truncated.values()) < 60_000


def test_a_prompt_beside_which_the_answer_has_no_room_loses_no_more_than_that(
    rubric: Rubric,
) -> None:
    """76,000 tokens are sent, 80,000 read, and 8,000 of them kept for the answer."""

    def respond(request: Request) -> Reply:
        asked = sent(request)
        words = f"input length and `max_tokens` exceed context limit: {asked} + 8000 > 80000"
        fits = asked <= 72_000
        return scripted(RIGHT)(request) if fits else Reply(status=400, error={"message": words})

    with OpenAIServer(respond) as server:
        one = judged(server, LONG, rubric, mode="json")
    assert (one.status, one.usage.calls, one.read > 0.6) == ("labelled", 2, True), one.read


@pytest.mark.parametrize("name", WORDINGS)
def test_a_server_that_finds_everything_too_long_fails_the_trace(rubric: Rubric, name: str) -> None:
    with OpenAIServer(reads(100, name, scripted(NOTHING))) as server:
        one = judged(server, LONG, rubric, mode="json")
        assert len(server.seen) <= 6
    assert (one.status, WORDINGS[name][0][:15] in (one.error or "")) == ("failed", True)


# How servers say that the longest answer asked for is too long, as it is quoted on GitHub.
CAPS = {
    # anthropics/claude-code, issue 24451
    "Anthropic": "max_tokens: {asked} > {limit}, which is the maximum allowed number of output"
    " tokens for claude-opus-4-5-20251101",
    # vercel/ai, issue 2772
    "Bedrock": "The maximum tokens you requested exceeds the model limit of {limit}. Try again with"
    " a maximum tokens value that is lower than {limit}.",
    # deepseek-ai/DeepSeek-V3, issue 69
    "DeepSeek": "Invalid max_tokens value, the valid range of max_tokens is [1, {limit}]",
    # stackblitz-labs/bolt.diy, issue 955
    "Gemini": "Unable to submit request because it has a maxOutputTokens value of {asked} but the"
    " supported range is from 1 (inclusive) to {limit} (exclusive). Update the value and try"
    " again.",
    # anomalyco/opencode, issue 1000, where its end is left out
    "Groq": "`max_tokens` must be less than or equal to `{limit}`, the maximum value for"
    " `max_tokens` is less than the `context_window` for this model",
    # DaviRain-Su/hyper-grok-build, issue 44
    "Ollama": "max_tokens ({asked}) exceeds model's maximum output tokens ({limit}) for model m",
    # algorithmicsuperintelligence/optillm, issue 4
    "OpenAI": "max_tokens is too large: {asked}. This model supports at most {limit} completion"
    " tokens, whereas you provided {asked}.",
    # mateaix/mateclaw, issue 481
    "vLLM": "max_tokens={asked} cannot be greater than max_model_len=max_total_tokens={limit}."
    " Please request fewer output tokens. (parameter=max_tokens, value={asked})",
    # stepfun-ai/Step-Audio-R1, issue 3
    "vLLM before": "'max_tokens' or 'max_completion_tokens' is too large: {asked}. This model's"
    " maximum context length is {limit} tokens and your request has 900 input tokens ({asked} >"
    " {limit} - 900).",
    # yiliqi78/TOKENICODE, issue 3
    "Volcengine": "The parameter max_tokens specified in the request is not valid: integer above"
    " maximum value, expected a value <= {limit}, but got {asked} instead.",
}
SUMS = {name: WORDINGS[name][0] for name in ("with the completion", "Anthropic's sum")}


def caps(words: str, limit: int) -> Responder:
    """Refuse a longest answer of more than ``limit`` tokens."""

    def respond(request: Request) -> Reply:
        asked = request.body["max_completion_tokens"]
        if asked > limit:
            error = {"message": words.format(asked=asked, limit=limit)}
            return Reply(status=400, error=error)
        # It thinks for long about long prompts.
        return Reply(text="{", finish="length") if len(request.user) > 60_000 else NOTHING

    return respond


@pytest.mark.parametrize("words", (CAPS | SUMS).values(), ids=CAPS | SUMS)
def test_a_refused_longer_answer_does_not_shorten_the_trace(rubric: Rubric, words: str) -> None:
    with OpenAIServer(caps(words, 300)) as server:
        one = judged(server, LONG, rubric, mode="json", max_output_tokens=200)
        asked = [request.body["max_completion_tokens"] for request in server.seen]
    assert (one.status, one.truncated, asked) == ("failed", {}, [200, 400])
    assert (one.error or "").startswith("the answer was cut off at 200 tokens, and for one of 400")
    assert words[:20].format(asked=400, limit=300) in (one.error or "")


@pytest.mark.parametrize("words", CAPS.values(), ids=CAPS)
@pytest.mark.parametrize("mode", ["auto", "json"])
def test_a_longest_answer_that_no_question_may_ask_for_stops_the_run(
    rubric: Rubric, words: str, mode: str
) -> None:
    refuse = caps(words, 300)
    with OpenAIServer(refuse, probe=refuse) as server:
        with pytest.raises(JudgeStopped) as stopped:
            judged(server, LONG, rubric, mode=mode, max_output_tokens=400)
        assert len(server.seen) == 1
    assert words[:20].format(asked=400, limit=300) in str(stopped.value)
    assert "the request sets max_completion_tokens=400" in str(stopped.value)


LIMITS: dict[str, tuple[dict[str, Any], str]] = {
    "a known context": ({"context": 17_500}, ""),
    "a known context, windows": ({"context": 17_500, "windows": True}, ""),
    "a refusal": ({}, "OpenAI"),
    "a refusal, windows": ({"windows": True}, "OpenAI"),
    "a refusal without numbers": ({}, "no numbers"),
}


@pytest.mark.parametrize(
    ("name", "code"), [("comm_errors", "C3a"), ("symptoms", "unverifiable_claims")]
)
@pytest.mark.parametrize(("how", "refused"), LIMITS.values(), ids=LIMITS)
def test_no_less_of_a_trace_is_shown_where_the_rubric_stands_last(
    name: str, code: str, how: dict[str, Any], refused: str
) -> None:
    """Nor in the call that confirms what windows find."""
    found = []
    for last in (False, True):
        answer = scripted(finding(code, question(2), end(3)))
        answer = reads(9_000, refused, answer) if refused else answer
        with OpenAIServer(answer) as server:
            asked = {"mode": "json", "rubric_last": last} | how
            one = judged(server, LONG, load_rubric(name), **asked)
            found.append((one.status, len(server.seen), one.read))
    (_, calls, read), last_one = found
    assert last_one == ("labelled", calls, pytest.approx(read, abs=0.01))


def test_quotes_stand_on_either_side_of_a_cut_and_never_across_it() -> None:
    code = "unverifiable_claims"
    words = " ".join(f"w{n}" for n in range(12_000))
    trace = Trace("t", "generic", "", (Message(1, "a", (), words), Message(2, "b", (), "Fine.")))
    heads: list[str] = []

    def responder(request: Request) -> Reply:
        head, tail = head_and_tail(request, "message:1")
        heads[:] = [head]
        first, second = head.split()[-9:-2], tail.split()[2:9]
        across = " ".join(head.split()[-4:] + tail.split()[:4])
        if request.reask:
            assert "not found" in request.reask
            return finding(code, ("message:1", " ".join(first)), ("message:1", " ".join(second)))
        return finding(code, ("message:1", " ".join(first)), ("message:1", across))

    with OpenAIServer(responder) as server:
        one = judged(server, trace, load_rubric("symptoms"), mode="json", context=20_000)
    assert (one.status, one.usage.calls) == ("labelled", 2)
    before, after = one.findings[0].evidence
    assert all(words[at.start : at.end] == at.quote for at in (before, after))
    assert before.end <= len(heads[0])
    assert after.start >= len(heads[0]) + one.truncated["message:1"]


def test_a_second_run_knows_what_was_too_long(annotate_cli: Cli, tmp_path: Path) -> None:
    for n in (1, 2):
        talk = [("agent1", f"Run {n}. " + m.text) for m in LONG.messages]
        write_run(tmp_path / run_name(n), [*talk, ("agent2", "I went on.")])
    reply = finding("C3a", question(1), ("message:41", "I went on."))
    with OpenAIServer(reads(9_000, "OpenAI", scripted(reply))) as server:
        args = ("logs", "--rubric", "comm_errors", "--model", "m", "--base-url", server.url)
        args += ("--least-read", "0")
        assert annotate_cli(*args, "--out", "one").code == 0
        assert len(server.seen) == 4
        calls = server.calls
        assert annotate_cli(*args, "--out", "two").code == 0
        assert server.calls == calls
    one, two = (annotations(tmp_path / name) for name in ("one", "two"))
    assert {key: replace(a, usage=two[key].usage) for key, a in one.items()} == two
    assert all(a.truncated and a.status == "labelled" for a in two.values())
    assert {a.usage.calls for a in two.values()} == {0}
