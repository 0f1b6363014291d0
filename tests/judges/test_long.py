"""Traces that are longer than what a model reads: shortened, in windows, and never a guess."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from annotator.rubrics import Rubric
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
RIGHT = finding("C1b", question(1), end(MANY))


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
    percent = f"{cut.read:.1%}".replace("%", " %")
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


@pytest.mark.parametrize("name", WORDINGS)
def test_a_server_that_finds_everything_too_long_fails_the_trace(rubric: Rubric, name: str) -> None:
    with OpenAIServer(reads(100, name, scripted(NOTHING))) as server:
        one = judged(server, LONG, rubric, mode="json")
        assert len(server.seen) <= 6
    assert (one.status, WORDINGS[name][0][:15] in (one.error or "")) == ("failed", True)


def test_quotes_stand_on_either_side_of_a_cut_and_never_across_it(rubric: Rubric) -> None:
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
            return finding("C3a", ("message:1", " ".join(first)), ("message:1", " ".join(second)))
        return finding("C3a", ("message:1", " ".join(first)), ("message:1", across))

    with OpenAIServer(responder) as server:
        one = judged(server, trace, rubric, mode="json", context=20_000)
    assert (one.status, one.usage.calls) == ("labelled", 2)
    before, after = one.findings[0].evidence
    assert all(words[at.start : at.end] == at.quote for at in (before, after))
    assert before.end <= len(heads[0])
    assert after.start >= len(heads[0]) + one.truncated["message:1"]


def test_a_second_run_knows_what_was_too_long(annotate_cli: Cli, tmp_path: Path) -> None:
    for n in (1, 2):
        talk = [("agent1", f"Run {n}. " + m.text) for m in LONG.messages]
        write_run(tmp_path / run_name(n), [*talk, ("agent2", "I went on.")])
    reply = finding("C1b", question(1), ("message:41", "I went on."))
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


# Windows


def window(request: Request) -> int:
    """Return the number of the window, 0 of the call that confirms their findings."""
    if "<findings " in request.user:
        return 0
    return int(re.search(r"window (\d+) of 3: ", request.part("facts"))[1])


FALSE = finding("C1b", ("message:1", "What nobody ever wrote in it?"), end(2))
OTHER_FALSE = finding("C3a", ("message:1", "What nobody ever wrote in it?"), end(2))
FIRST = finding("C1b", question(1), end(2))
LAST = finding("C1b", question(MANY - 1), end(MANY))
WEAKER = finding("C4a", question(1), question(3))
REFUSED = Reply(refusal="I will not")
CLAIM = finding("C3a", question(2), end(3))
# What the three windows say and what the confirming call says (None: there is none) -> the result.
WINDOWS = {
    "none in all": (NOTHING, NOTHING, NOTHING, None, "none", None),
    "in one, confirmed": (NOTHING, LAST, NOTHING, LAST, "labelled", "C1b"),
    "in one, refuted by the others": (NOTHING, LAST, NOTHING, NOTHING, "none", None),
    "in all, refuted": (LAST, LAST, LAST, NOTHING, "none", None),
    "two codes, and the confirming call chooses": (
        WEAKER,
        NOTHING,
        LAST,
        WEAKER,
        "labelled",
        "C4a",
    ),
    "one that does not stand is not proposed": (FALSE, NOTHING, LAST, LAST, "labelled", "C1b"),
    "one that does not stand, and another code refuted": (
        OTHER_FALSE,
        NOTHING,
        LAST,
        NOTHING,
        "undecided",
        None,
    ),
    "none that stands": (FALSE, NOTHING, FALSE, None, "undecided", None),
    "one window refused": (LAST, REFUSED, NOTHING, None, "failed", None),
    "one window malformed": (LAST, NOTHING, Reply(answer={}), None, "failed", None),
    "one window down": (NOTHING, NOTHING, Reply(status=400), None, "failed", None),
    "the confirming call refused": (NOTHING, LAST, NOTHING, REFUSED, "failed", None),
}


@pytest.mark.parametrize("case", WINDOWS.values(), ids=WINDOWS)
def test_windows_propose_and_one_call_decides(rubric: Rubric, case: tuple[Any, ...]) -> None:
    *replies, confirming, status, primary = case
    with OpenAIServer(lambda request: [confirming, *replies][window(request)]) as server:
        how = {"mode": "tools", "context": 17_500, "windows": True, "reasks": 0}
        one = judged(server, LONG, rubric, **how)
        asked = sorted(map(window, server.seen))
        last = server.seen[-1]
    assert asked == [0, 1, 2, 3] if confirming else [1, 2, 3]
    assert (one.status, one.primary, one.truncated) == (status, primary, {}), one.error
    if status == "failed":
        assert re.match(r"window [23] of 3: |confirming call: ", one.error or "")
    if confirming is LAST:
        told = last.user[last.user.index("<findings ") :]
        assert question(MANY - 1)[1] in told
        assert FALSE.answer["findings"][0]["quotes"][0]["text"] not in told
        shown = {part.source: part.text for part in last.parts}
        assert all(LONG.messages[n - 1].text == shown[f"message:{n}"] for n in range(37, 41))


UNREAD = Reply(answer={**LAST.answer, "last_tag": "I cannot say"})
TOO_LONG = Reply(status=400, error={"message": "the prompt is too long"})


@pytest.mark.parametrize("answer", [UNREAD, TOO_LONG], ids=["without its tag", "too long"])
def test_a_confirming_call_that_is_never_read_ends(rubric: Rubric, answer: Reply) -> None:
    def respond(request: Request) -> Reply:
        if len(server.seen) > 40:
            return LAST
        return LAST if window(request) else answer

    with OpenAIServer(respond) as server:
        how = {"mode": "tools", "context": 17_500, "windows": True, "reasks": 0}
        one = judged(server, LONG, rubric, **how)
        confirming = [request for request in server.seen if not window(request)]
    assert len(confirming) <= 6
    assert one.status == "failed"
    assert (one.error or "").startswith("confirming call: ")


@pytest.mark.parametrize(
    ("claim", "status"), [(FIRST, "undecided"), (CLAIM, "labelled"), (LAST, "labelled")]
)
def test_what_is_missing_is_not_known_where_a_later_message_is_not_shown(
    rubric: Rubric, claim: Reply, status: str
) -> None:
    """The confirming call cannot show all of the 60,000 characters."""
    with OpenAIServer(scripted(claim)) as server:
        how = {"mode": "tools", "context": 17_500, "windows": True}
        one = judged(server, LONG, rubric, **how)
        assert window(server.seen[-1]) == 0
    assert one.status == status
    assert status == "labelled" or "whether an answer is missing is not known" in (one.reason or "")


def test_windows_that_the_server_finds_too_long_are_made_shorter(rubric: Rubric) -> None:
    with OpenAIServer(reads(9_000, "OpenAI", scripted(NOTHING))) as server:
        one = judged(server, LONG, rubric, mode="json", windows=True)
        answered = [request for request in server.seen if sent(request) // 4 <= 9_000]
        assert one.usage.calls == len(server.seen) == len(answered) + 1
    assert (one.status, one.truncated) == ("none", {})
    seen = {part.text for request in answered for part in request.parts}
    assert {message.text for message in LONG.messages} <= seen
