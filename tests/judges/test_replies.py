"""From a model's reply to a status, a label and a message: one table for every provider."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from annotator.base.errors import AnnotatorError
from annotator.rubrics import load_rubric
from tests.judges.ask import ALL_APIS, IGNORED, QUESTION, RIGHT, WRONG, ask, ask_all, talk
from tests.server import NOTHING, Reply, Request, Server, finding, scripted

MODES = ("tools", "json_schema", "json")
OPENAI = ("chat", "responses")


@dataclass(frozen=True)
class Case:
    """Replies, and the status, the words of the error and the number of calls that follow."""

    status: str
    replies: tuple[Reply, ...]
    says: str = ""
    calls: int | None = None
    apis: tuple[str, ...] = ("chat",)
    modes: tuple[str, ...] = ("tools",)
    settings: dict[str, Any] = field(default_factory=dict)


def failed(says: str, *replies: Reply, **more: Any) -> Case:
    return Case("failed", replies, says, **more)


def labelled(*replies: Reply, **more: Any) -> Case:
    return Case("labelled", replies, **more)


def error(status: int, message: str, **fields: object) -> Reply:
    return Reply(status=status, error={"message": message, **fields}, headers={"Retry-After": "0"})


def message(finish: str = "stop", **fields: object) -> Reply:
    return Reply(more={"choices": [{"message": fields, "finish_reason": finish}]})


def choice(**fields: object) -> Reply:
    return Reply(more={"choices": [fields]})


ANSWER, NONE = json.dumps(RIGHT.answer), json.dumps(NOTHING.answer)
MALFORMED = "malformed answer"
HALF = json.dumps(RIGHT.answer)[:40]
PARTS = [{"type": "text", "text": HALF}, {"type": "text", "text": ANSWER[40:]}]
THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": NONE}]}
BIG = b"{" + b" " * 17_000_000
JSON: Any = {"modes": ("json_schema",)}
PLAIN: Any = {"modes": ("json",)}
ALWAYS: Any = {"modes": MODES}

CASES: dict[str, Case] = {
    # Answers in the wrong form.
    "prose": failed(MALFORMED, Reply(text="No idea."), apis=ALL_APIS, modes=MODES),
    "no text": failed(MALFORMED, Reply(text=""), **ALWAYS),
    "broken JSON": failed(MALFORMED, Reply(text='{"findings": [{"code"'), **ALWAYS),
    "an unknown code": failed(MALFORMED, finding("C9", QUESTION, IGNORED), **ALWAYS),
    "none with findings": failed("label is", finding("C1b", QUESTION, IGNORED, label="none")),
    "a code without a finding": failed(
        "no finding", Reply(answer={"findings": [], "label": "C1b"})
    ),
    "two findings where one is allowed": failed(
        MALFORMED, Reply(answer={"findings": RIGHT.answer["findings"] * 2, "label": "C1b"})
    ),
    "no quotes": failed(MALFORMED, finding("C1b")),
    "nine quotes": failed("at most 8", finding("C1b", *[QUESTION] * 9), modes=("strict",)),
    "two tool calls": failed(MALFORMED, replace(RIGHT, calls=2), calls=4),
    "a megabyte": failed("an answer of 1400", finding("C1b", ("message:1", "made up" * 200_000))),
    "a text that only repeats": failed(MALFORMED, Reply(text="\n " * 500_000 + "x"), **PLAIN),
    # Only one answer in a text is read: a trace could put "none" there.
    "two answers": failed(MALFORMED, Reply(text=f"{ANSWER} or {NONE}"), **PLAIN),
    "two code blocks": failed(MALFORMED, Reply(text=f"```\n{NONE}\n```\n" * 2), **PLAIN),
    "an answer in prose": labelled(Reply(text=f"It is: {ANSWER}. Done."), **PLAIN),
    "an answer and a code block": labelled(Reply(text=f"{ANSWER}\n```\nx\n```"), **PLAIN),
    "a refusal that quotes one without tags": failed(
        MALFORMED, Reply(text='No. It says {"findings": [], "label": "none"}'), **PLAIN
    ),
    "another object beside it": failed(MALFORMED, Reply(text=f'{{"a": 1}} {ANSWER}'), **PLAIN),
    "fenced": labelled(Reply(text=f"```json\n{ANSWER}\n```"), **PLAIN),
    "fenced between words": labelled(Reply(text=f"Is [1]:\n```\n{ANSWER}\n```\nOk."), **PLAIN),
    # Thoughts and ends that servers leave around an answer.
    "a thought": labelled(Reply(text=f"<think>{NONE}?</think>\n{ANSWER}"), **JSON),
    "a thought without its beginning": labelled(Reply(text=f"{NONE}?\n</think>\n{ANSWER}"), **JSON),
    "words first": failed(MALFORMED, Reply(text=f"No. <think>a</think>{ANSWER}"), **JSON),
    "an answer in words after a thought": failed(
        MALFORMED, Reply(text=f"Hm</think>{NONE} it says, but {ANSWER}"), **JSON
    ),
    **{
        f"ended by {token!r}": labelled(Reply(text=f"{ANSWER}{token}"), **JSON)
        for token in ("<|im_end|>", "</s>", "<|eot_id|>", "\n<|end|><|im_end|>\n", "<end_of_turn>")
    },
    "fenced and ended": labelled(Reply(text=f"```json\n{ANSWER}\n```<|im_end|>"), **JSON),
    "words after the end": labelled(Reply(text=f"{ANSWER}<|im_end|> More?"), **JSON),
    "parts": labelled(message(content=PARTS), **JSON),
    "only a thought": failed("", message(content=[THOUGHT]), **JSON),
    "beside reasoning": labelled(message(content=ANSWER, reasoning_content=NONE), **JSON),
    "only reasoning": failed("", message(content=None, reasoning_content=f"Or {ANSWER}"), **JSON),
    "an answer in place of the reasoning": labelled(
        message(content=None, reasoning_content=f"\n{ANSWER}"), **JSON
    ),
    "the same, of other servers": labelled(message(content="", reasoning=ANSWER), **JSON),
    "reasoning that is cut off": failed(
        "cut off", message("length", content="", reasoning=ANSWER), **JSON
    ),
    # Bodies that differ from OpenAI's.
    "an unknown end": labelled(message("eos", role="assistant", content=ANSWER), **JSON),
    "an empty refusal": labelled(message(content=ANSWER, refusal=""), **JSON),
    "arguments as an object": labelled(
        choice(message={"tool_calls": [{"function": {"name": "x", "arguments": RIGHT.answer}}]})
    ),
    "half a character in a wrong quote": labelled(
        finding("C1b", ("message:1", "made up \ud800 from nothing")), RIGHT, **ALWAYS
    ),
    "a source named by its header": labelled(
        finding("C1b", ("message:1 from agent1", QUESTION[1]), ("[message:2]", IGNORED[1]))
    ),
    # Refusals and cut answers, in each provider's words.
    "a refusal": failed(
        "refuses: I cannot", Reply(refusal="I cannot help."), calls=1, apis=OPENAI, modes=MODES
    ),
    "refused by Anthropic": failed(
        "the model refuses: cyber: Not this.",
        Reply(
            text="No.",
            finish="refusal",
            own={"stop_details": {"category": "cyber", "explanation": "Not this."}},
        ),
        apis=("anthropic",),
    ),
    "blocked by Gemini": failed(
        "the answer is blocked: SAFETY", Reply(text="{", finish="SAFETY"), apis=("gemini",)
    ),
    "a blocked prompt": failed(
        "the prompt is blocked: PROHIBITED_CONTENT",
        Reply(body=json.dumps({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})),
        apis=("gemini",),
    ),
    "a malformed call": failed(
        MALFORMED, Reply(text="", finish="MALFORMED_FUNCTION_CALL"), apis=("gemini",)
    ),
    "the context ended": failed(
        "its context ended",
        Reply(text="{", finish="model_context_window_exceeded"),
        apis=("anthropic",),
    ),
    "cut off": failed("cut off", replace(RIGHT, finish="length"), apis=ALL_APIS, modes=MODES),
    "cut off at a cap": failed(
        "a larger max_output_tokens",
        Reply(text="{", finish="length"),
        apis=("anthropic",),
        modes=("strict",),
    ),
    **{
        f"cut off: {word}": failed("cut off", Reply(text="{", finish=word), calls=1, **PLAIN)
        for word in ("length", "max_tokens", "MAX_TOKENS", "model_length")
    },
    **{
        f"filtered: {word}": failed("filter", replace(NOTHING, finish=word), calls=1, **PLAIN)
        for word in ("content_filter", "SAFETY", "content_filter: PROHIBITED", "sensitive")
    },
    "filtered, by the Responses API": failed(
        "content filter", Reply(text="", finish="content_filter"), apis=("responses",)
    ),
    "a filtered prompt": failed("refuses the content", error(400, "no", code="content_filter")),
    # Errors that may pass.
    **{
        f"HTTP {status}, once": labelled(error(status, "not now"), RIGHT, calls=2, apis=ALL_APIS)
        for status in (429, 500, 503)
    },
    "a gateway's timeout": labelled(error(504, "upstream took too long"), RIGHT, calls=2),
    "a dropped connection": labelled(Reply(drop=True), RIGHT, calls=2, apis=ALL_APIS),
    "no JSON": labelled(Reply(body="{"), RIGHT, calls=2, apis=ALL_APIS),
    "no completion": labelled(Reply(body="[]"), RIGHT, calls=2, apis=ALL_APIS),
    "an answer too late": labelled(
        replace(RIGHT, wait=30), RIGHT, calls=2, settings={"timeout": 1.0}
    ),
    **{
        f"broken off: {word}": labelled(replace(NOTHING, finish=word), RIGHT, **PLAIN)
        for word in ("error", "abort", "insufficient_system_resource")
    },
    "a gateway's error beside an answer": labelled(
        choice(message={"content": ""}, finish_reason="error", error={"message": "x"}), RIGHT
    ),
    "a failed response": labelled(
        Reply(body=json.dumps({"error": {"message": "it broke"}, "output": []})),
        RIGHT,
        calls=2,
        apis=("responses",),
    ),
    # Errors that do not.
    **{
        f"HTTP {status}, always": failed(
            f"HTTP {status}: boom (the last of 2 attempts)", error(status, "boom"), calls=2
        )
        for status in (429, 500, 503)
    },
    "an error with status 200": failed(
        "provider is down", Reply(body=json.dumps({"error": {"message": "provider is down"}}))
    ),
    "no chat completion": failed(
        "no chat completion but an object with the keys choices", Reply(body='{"choices": []}')
    ),
    "a page": failed(
        "no JSON, but begins '<!doctype html> <title>Sign in</title>'",
        Reply(body="<!doctype html>\n<title>Sign in</title>"),
    ),
    "SSH": failed("attempts)", Reply(raw=b"SSH-2.0-x\r\n\r\n"), apis=ALL_APIS, modes=("json",)),
    "too late": failed(
        "no answer in time", Reply(wait=5.0), apis=ALL_APIS, settings={"timeout": 0.5}
    ),
    "blanks without end": failed(
        "no answer in time", Reply(blanks=200), settings={"timeout": 1.0, "attempts": 1}
    ),
    "17 MB": failed("longer than 16 MB", Reply(body=BIG), settings={"attempts": 1}),
    "too long": failed(
        "too long for the model",
        error(400, "maximum context length is 8192", code="context_length_exceeded"),
    ),
    "more than a minute's tokens": failed(
        "more than the account may send in a minute; --context fits it: HTTP 429: Request too",
        error(
            429,
            "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 48251."
            " The input or output tokens must be reduced in order to run successfully.",
            code="rate_limit_exceeded",
        ),
    ),
    # What concerns one trace does not stop the run.
    "rejected": failed("strange characters", error(400, "strange characters"), calls=1),
}  # fmt: skip


def expand() -> Iterator[Any]:
    for name, case in CASES.items():
        for api in case.apis:
            for mode in case.modes:
                if api == "chat" or mode != "json_schema":
                    yield pytest.param(case, api, mode, id=f"{name}-{api}-{mode}")


@pytest.mark.parametrize(("case", "api", "mode"), list(expand()))
def test_a_reply_becomes_a_status(trace, case, api, mode):
    with Server(scripted(*case.replies)) as server:
        annotation = ask(server, trace, api=api, mode=mode, **case.settings)
    assert annotation.status == case.status, annotation.error
    assert case.says in (annotation.error or "")
    assert annotation.usage.calls == (case.calls or annotation.usage.calls) >= 1
    if case.status == "labelled":
        assert (annotation.primary, annotation.error) == ("C1b", None)
    else:
        assert (annotation.primary, annotation.findings) == (None, ())


STOPS = {
    "a wrong key": (401, {"message": "bad key"}, "refuses the key"),
    "no such model": (404, {"message": "no model x"}, "no model x"),
    "no money": (429, {"message": "no", "code": "insufficient_quota"}, "refuses the key"),
    "no credit": (400, {"message": "your credit balance is too low"}, "credit balance"),
    "a wrong setting": (400, {"message": "unknown field"}, "unknown field"),
    "Gemini's key": (400, {"message": "API key not valid. Pass a valid one."}, "refuses the key"),
    "down": (200, {"message": "provider is down"}, "provider is down"),
}


@pytest.mark.parametrize("api", ALL_APIS)
@pytest.mark.parametrize("name", STOPS)
def test_what_every_trace_would_meet_stops_the_run(trace, name, api):
    status, fields, words = STOPS[name]
    if api in ("anthropic", "gemini") and name in ("no money", "down", "Gemini's key"):
        pytest.skip("not in the words of this provider")
    body = json.dumps([{"error": fields}] if name == "Gemini's key" else {"error": fields})
    reply = scripted(Reply(status=status, body=body))
    with Server(reply, probe=reply) as server, pytest.raises(AnnotatorError, match=words):
        ask(server, trace, api=api, mode="strict")


def test_an_endpoint_that_is_not_there_stops_the_run(trace):
    with Server() as server:
        pass
    with pytest.raises(AnnotatorError, match="connection refused"):
        ask(server, trace)


@pytest.mark.parametrize("api", ALL_APIS)
@pytest.mark.parametrize("status", [301, 308])
def test_no_key_follows_a_redirect(trace, api, status):
    with Server() as other:
        there = {"Location": f"{other.url}/chat/completions"}
        reply = scripted(Reply(status=status, headers=there, body="{}"))
        with Server(reply, probe=reply) as server, pytest.raises(AnnotatorError, match=r"127\.0"):
            ask(server, trace, api=api, mode="strict")
        assert (server.calls, other.calls) == (1, 0)


@pytest.mark.parametrize("api", ALL_APIS)
@pytest.mark.parametrize("mode", ["auto", "strict", "tools", "named", "json"])
def test_a_wrong_answer_is_asked_again(trace, api, mode):
    with Server(scripted(Reply(answer={"findings": []}), RIGHT)) as server:
        annotation = ask(server, trace, api=api, mode=mode)
        first, second = server.seen
    assert (annotation.status, annotation.usage.retries) == ("labelled", 1), annotation.error
    assert (first.reask, "label" in (second.reask or "")) == (None, True)


@pytest.mark.parametrize("api", ALL_APIS)
def test_two_calls_of_a_function_are_answered_in_one_turn(trace, api):
    with Server(scripted(replace(RIGHT, calls=2), RIGHT)) as server:
        assert ask(server, trace, api=api, mode="tools").status == "labelled"
        assert "exactly once" in (server.seen[1].reask or "")


def test_a_malformed_last_answer_is_not_replaced_by_an_earlier_one(trace):
    other = finding("C1b", QUESTION, ("message:2", "made up from thin air"))
    with Server(scripted(WRONG, other, Reply(answer={}))) as server:
        annotation = ask(server, trace)
    assert (annotation.status, annotation.rejected) == ("failed", ())


def test_the_wait_that_a_server_asks_for(trace):
    """In a header; Gemini asks in its error."""
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.8s"}
    slow = {"code": 429, "message": "quota", "details": [info]}
    for api, reply in (
        ("chat", Reply(status=429, headers={"Retry-After": "1"})),
        ("chat", Reply(status=429, headers={"retry-after-ms": "900"})),
        ("gemini", Reply(status=429, error=slow)),
    ):
        begun = time.monotonic()
        with Server(scripted(reply, RIGHT)) as server:
            assert ask(server, trace, api=api, mode="strict").status == "labelled"
        assert time.monotonic() - begun > 0.8


# Quotes: what is accepted, moved or sent back.

WRONG_QUOTES = {
    "a paraphrase": (("message:1", "In which field is the unit held?"), "not found"),
    "a word added": (("message:1", "Which other field holds the unit?"), "not found"),
    "the wrong message": (("message:3", "which field holds the unit?"), "found in message:1, not"),
    "our prompt": (("message:1", "You label runs of software agents"), "not found"),
    "our facts": (("facts", "merge of the patches: conflicts"), "not found"),
    "an ellipsis": (("message:1", "I take the parser ... the unit?"), "not found"),
    "the other quote again": (IGNORED, "the same passage"),
}


@pytest.mark.parametrize(("quote", "reason"), WRONG_QUOTES.values(), ids=WRONG_QUOTES)
def test_a_wrong_quote_goes_back_and_is_never_accepted(trace, quote, reason):
    with Server(scripted(finding("C1b", IGNORED, quote))) as server:
        one = ask(server, trace)
        assert reason in (server.seen[1].reask or "")
    assert (one.status, one.primary, one.findings) == ("undecided", None, ())
    assert [(item.code, reason in item.reason) for item in one.rejected] == [("C1b", True)]
    assert (one.usage.calls, one.usage.retries) == (2, 1)  # it repeats itself: that is the end


# Quotes -> how each matches.
ACCEPTED = {
    "exact": ((QUESTION, IGNORED), ["exact", "exact"]),
    "typography": ((("message:1", "“which  field holds the"), IGNORED), ["typography", "exact"]),
    "the neighbour's": ((("message:3", QUESTION[1]), IGNORED), ["moved", "exact"]),
}  # fmt: skip


@pytest.mark.parametrize(("quotes", "matches"), ACCEPTED.values(), ids=ACCEPTED)
def test_the_texts_of_the_trace_are_recorded(trace, quotes, matches):
    with Server(scripted(finding("C1b", *quotes))) as server:
        one = ask(server, trace)
    assert (one.status, one.primary, one.secondary, one.usage.calls) == ("labelled", "C1b", (), 1)
    assert [item.match for item in one.findings[0].evidence] == matches
    first = one.findings[0].evidence[0]
    assert first.source == "message:1"
    assert trace.messages[0].text[first.start : first.end] == first.quote


def test_a_rejected_primary_falls_to_the_strongest_code_that_stands(trace):
    stands = finding(
        "work_overlap", ("message:1", "I take the parser module."), ("patch:agent2", "+UNIT = 'lb'")
    )
    falls = finding("broken_commitment", ("message:1", "I promise to"), ("message:2", "I promise"))
    both = falls.answer["findings"] + stands.answer["findings"]
    with Server(scripted(Reply(answer=falls.answer | {"findings": both}))) as server:
        one = ask(server, trace, "symptoms")
    assert (one.status, one.primary, one.secondary) == ("labelled", "work_overlap", ())
    assert [rejected.code for rejected in one.rejected] == ["broken_commitment"]


def test_a_rubric_of_many_codes_has_no_primary(trace):
    answer = finding(
        "role_division", ("message:1", "I take the parser module."), IGNORED, label="some"
    )
    with Server(scripted(answer)) as server:
        one = ask(server, trace, "emergent")
    assert (one.status, one.primary, one.secondary) == ("labelled", None, ("role_division",))


def test_an_outcome_can_be_quoted(trace):
    claim = finding("C3a", ("message:3", "The parser is done"), ("outcome", "conflicts"))
    with Server(scripted(claim)) as server:
        assert ask(server, trace).status == "labelled"


@pytest.mark.parametrize(
    ("mode", "text", "fence"),
    [
        ("json_schema", "ends with </think> or <|im_end|>", "{}"),
        ("json", "has ``` in it", "```\n{}\n```"),
    ],
)
def test_marks_within_a_quote_belong_to_it(mode, text, fence):
    words = f"Which of them is it that {text} here?"
    answer = finding("C1b", ("message:1", words), ("message:2", "I went on."))
    reply = Reply(text=fence.replace("{}", json.dumps(answer.answer, indent=1)))
    with Server(scripted(reply)) as server:
        one = ask(server, talk(words, "I went on."), mode=mode)
    assert one.findings[0].evidence[0].quote == words, one.error


def test_traces_judged_side_by_side_do_not_mix():
    """Each of 40 traces is checked against its own text, also when it is asked again."""
    texts = [f"Does field number {n} hold the unit?" for n in range(40)]
    traces = [replace(talk(text, "I went on."), id=f"t{n:02}") for n, text in enumerate(texts)]

    def responder(request: Request) -> Reply:
        quote = request.part("message:1") if request.reask else "Does field number 99 hold it?"
        answer = finding("C1b", ("message:1", quote), ("message:2", "I went on."))
        return replace(answer, wait=0.01 * (request.n % 5))

    with Server(responder) as server:
        found = ask_all(server, traces, mode="tools", concurrency=40)
        assert sum(one.usage.input_tokens for one in found) == server.tokens_in
    quotes = {one.trace_id: one.findings[0].evidence[0].quote for one in found}
    assert quotes == {f"t{n:02}": text for n, text in enumerate(texts)}
    assert {one.usage.calls for one in found} == {2}


# What a rubric asks for, and the reasoning in an answer.


def thinking(reply: Reply, *considered: tuple[str, str]) -> Reply:
    items = [{"code": code, "met": met, "because": "so it is"} for code, met in considered]
    return replace(reply, answer=reply.answer | {"considered": items})


PASSED_OVER = finding("unresponsiveness", QUESTION, IGNORED)
MADE_UP = ("message:2", "made up from nothing")
BESIDE = "is met, but there is no finding of it"
UNMET = 'C1b is a finding, and "considered" says that it is not met'
# A rubric, an answer -> what the model is told; "" where the answer agrees with itself.
CONTRADICTIONS: dict[str, tuple[str, Reply, str]] = {
    "met, and no finding": ("comm_errors", thinking(NOTHING, ("C1b", "yes")), f"C1b {BESIDE}"),
    "a finding that is not met": ("comm_errors", thinking(RIGHT, ("C1b", "no")), UNMET),
    "of a group that is not met": (
        *("comm_errors", thinking(RIGHT, ("unresponsiveness", "no")), "C1b is a finding, and"),
    ),
    "another primary code": (
        *("symptoms", thinking(PASSED_OVER, ("work_overlap", "yes"))),
        f"work_overlap {BESIDE}<",
    ),
    "one that goes before": (
        *("comm_errors", thinking(RIGHT, ("C3a", "yes"))),
        f"C3a {BESIDE}, and it goes before C1b<",
    ),
    "one that comes after": ("comm_errors", thinking(RIGHT, ("C4a", "yes")), ""),
    "any, without an order": ("comm_errors_paper", thinking(RIGHT, ("C1a", "yes")), ""),
    "its group": ("comm_errors", thinking(RIGHT, ("unresponsiveness", "yes")), ""),
    "the group of one of several": ("symptoms", thinking(PASSED_OVER, ("coordination", "yes")), ""),
    "unclear": ("comm_errors", thinking(RIGHT, ("C3a", "unclear")), ""),
    "a near miss beside it": ("comm_errors", thinking(RIGHT, ("C1b", "yes"), ("C1b", "no")), ""),
}  # fmt: skip


@pytest.mark.parametrize(("name", "answer", "reason"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_the_reasoning_and_the_findings_agree(trace, name, answer, reason):
    rubric = load_rubric(name)
    names = {item["code"] for item in answer.answer["considered"]}
    layout = "codes" if names <= {code.id for code in rubric.codes} else "groups"
    mended = {"symptoms": PASSED_OVER}.get(name, RIGHT)
    with Server(scripted(answer, mended)) as server:
        one = ask(server, trace, rubric, considered=layout)
        assert reason in (server.seen[-1].reask or "").replace("\n", "<")
    assert (one.usage.calls, one.contradictions) == (2 if reason else 1, ())
    assert one.status == ("labelled" if reason or one.findings else "none")


OTHER = thinking(RIGHT, ("C3a", "yes"))
# Answers that are not put right -> the status, and the contradictions that are recorded.
KEPT: dict[str, tuple[str, list[Reply], str, list[str]]] = {
    "another is met": ("comm_errors", [OTHER], "labelled", [f"C3a {BESIDE}, and it goes before"]),
    "not met": ("comm_errors", [thinking(RIGHT, ("C1b", "no"))], "labelled", [UNMET]),
    "both": (
        *("comm_errors", [thinking(RIGHT, ("C1b", "no"), ("C3a", "yes"))], "labelled"),
        ["C3a is met", UNMET],
    ),
    **{
        f"the next answer is {name}": ("comm_errors", [OTHER, worse], "labelled", ["C3a is met"])
        for name, worse in {
            "prose": Reply(text="no"),
            "of false quotes": finding("C1b", MADE_UP, MADE_UP),
            "a refusal": Reply(refusal="no"),
            "an error": Reply(status=500, error={"message": "broken"}),
        }.items()
    },
    "no finding": ("comm_errors", [thinking(NOTHING, ("C1b", "yes"))], "failed", []),
    "no finding that stands": (
        *("comm_errors", [thinking(finding("C1b", QUESTION, MADE_UP), ("C1b", "no"))], "failed"),
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "answers", "status", "recorded"), KEPT.values(), ids=KEPT)
def test_findings_that_stand_count_and_the_contradiction_is_recorded(
    trace, name, answers, status, recorded
):
    with Server(scripted(*answers)) as server:
        one = ask(server, trace, name, rejected="none")
    assert (one.status, one.usage.calls > 1) == (status, True)
    assert len(one.contradictions) == len(recorded)
    assert all(any(words in text for text in one.contradictions) for words in recorded)


LABEL = {"label": "C9"}
# An answer, the changes in it -> everything that is wrong, and nothing that only follows from it.
ALL_WRONG: dict[str, tuple[Reply, dict[str, Any], list[str]]] = {
    "the form, a tag, the reasoning, a quote": (
        thinking(finding("C1b", QUESTION, MADE_UP), ("C1b", "no")),
        {"last_tag": "0", **LABEL},
        ["label: ", 'last_tag is "0", which is not', "C1b is a finding, and", "not found"],
    ),
    "no list of findings, and a tag": (
        RIGHT,
        {"findings": None, "last_tag": "0"},
        ["findings: ", 'last_tag is "0", which is not'],
    ),
    "a lonely quote that stands nowhere": (
        finding("C1b", MADE_UP),
        {},
        ["not found", "C1b: 1 quote(s), 2 separate passages needed"],
    ),
    "a quote beside one of the same agent": (
        finding("C1b", QUESTION, ("message:3", "made up from nothing")),
        {},
        ["not found", "C1b: quotes needed: at least 2, one from the messages and another"],
    ),
    "a quote that is like another agent's": (
        finding("C1b", QUESTION, ("message:3", "I am adding a printer now")),
        {},
        ["not found in message:3, nor anywhere else; similar, in message:2"],
    ),
}


@pytest.mark.parametrize(("answer", "changes", "said"), ALL_WRONG.values(), ids=ALL_WRONG)
def test_everything_that_is_wrong_is_said_at_once(trace, answer, changes, said):
    wrong = replace(answer, answer=answer.answer | changes)
    with Server(scripted(wrong, RIGHT)) as server:
        assert ask(server, trace).status == "labelled"
        reask = server.seen[-1].reask or ""
    reasons = reask.split("<reasons ")[1].split("</reasons ")[0].splitlines()[1:]
    assert len(reasons) == len(said), reasons
    assert all(words in reason for words, reason in zip(said, reasons, strict=True)), reasons


LAYOUTS: dict[str, list[str] | None] = {
    "codes": ["C1a", "C1b", "C2", "C3a", "C3b", "C4a", "C4b"],
    "groups": ["unresponsiveness", "hallucination", "repetition"],
    "none": None,
}


@pytest.mark.parametrize(("considered", "codes"), LAYOUTS.items())
def test_codes_or_groups_or_nothing_is_considered(trace, rubric, considered, codes):
    answer = {name: value for name, value in RIGHT.answer.items() if name != "considered"}
    reply = Reply(text=json.dumps(answer)) if codes is None else RIGHT
    stray = Reply(text=json.dumps(NOTHING.answer | LABEL | {"considered": [{"code": "C1b"}]}))
    with Server(scripted(stray, reply)) as server:
        annotation = ask(server, trace, rubric, considered=considered, mode="json_schema")
        first = server.seen[0]
    assert annotation.status == "labelled", annotation.error
    defined = first.schema["$defs"].get("Considered", {}).get("properties", {})
    assert defined.get("code", {}).get("enum") == codes
    assert ("`considered`" in first.system) == (codes is not None)
