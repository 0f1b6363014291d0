"""From a model's reply to a status, a label and a message: one table for every provider."""

import json
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from annotator.base.errors import AnnotatorError
from annotator.rubrics import load_rubric
from tests.judges.ask import ALL_APIS, IGNORED, QUESTION, RIGHT, WRONG, ask, ask_all, talk
from tests.server import NOTHING, Reply, Request, Server, finding, scripted

CASES = yaml.safe_load(Path(__file__).with_name("replies.yaml").read_text(encoding="utf-8"))
ANSWER = json.dumps(RIGHT.answer)
WORDS = {  # a text of the table -> what stands for it
    "@RIGHT": RIGHT.answer,
    "@TWO": RIGHT.answer["findings"] * 2,
    "@LONG": ("message:1", "made up" * 200_000),
    "@HEADER1": ("message:1 from agent1", QUESTION[1]),
    "@HEADER2": ("[message:2]", IGNORED[1]),
    "@BLANKS": "\n " * 500_000 + "x",
    "@BIG": b"{" + b" " * 17_000_000,
}
PARTS = {
    "@ANSWER": ANSWER,
    "@NONE": json.dumps(NOTHING.answer),
    "@HALF": ANSWER[:40],
    "@REST": ANSWER[40:],
}


def read(value, word):
    """Return a value of the table with all that stands for something else; ``$`` is ``word``."""
    if isinstance(value, dict):
        return {name: read(one, word) for name, one in value.items()}
    if isinstance(value, list):
        return [read(one, word) for one in value]
    if not isinstance(value, str) or value in WORDS:
        return WORDS.get(value, value)
    if value == "$":
        return word
    for name, text in {"$": str(word), **PARTS}.items():
        value = value.replace(name, text)
    return value


def make_reply(spec):
    [kind, value], *rest = spec.items()
    more = dict(rest)
    match kind:
        case "finding":
            places = {1: QUESTION, 2: IGNORED}
            quotes = [places[one] if isinstance(one, int) else tuple(one) for one in value[1:]]
            return finding(value[0], *quotes, **more)
        case "right" | "none":
            return replace(RIGHT if kind == "right" else NOTHING, **value)
        case "error":
            status, text, *fields = value
            error = {"message": text} | dict(*fields)
            return Reply(status=status, error=error, headers={"Retry-After": "0"})
        case "message":
            end = {"message": value, "finish_reason": more.get("finish", "stop")}
            return Reply(more={"choices": [end]})
        case "choice":
            return Reply(more={"choices": [value]})
        case "body" if isinstance(value, dict):
            return Reply(body=json.dumps(value))
        case "raw":
            return Reply(raw=value.encode())
    return Reply(**spec)


def expand():
    every = {"apis": ALL_APIS, "modes": ("tools", "json_schema", "json")}
    for name, (status, says, replies, *options) in CASES.items():
        how = {"apis": ["chat"], "modes": ["tools"], "for": [None], "calls": None, "settings": {}}
        for option in options:
            how |= option
        apis, modes = (every[one] if how[one] == "ALL" else how[one] for one in every)
        for word, api, mode in product(how["for"], apis, modes):
            if api == "chat" or mode != "json_schema":
                shown = f"{name.replace('$', repr(word))}-{api}-{mode}"
                case = (status, read(says, word), read(replies, word), api, mode)
                yield pytest.param(*case, how["calls"], how["settings"], id=shown)


@pytest.mark.parametrize(
    ("status", "says", "replies", "api", "mode", "calls", "settings"), list(expand())
)
def test_a_reply_becomes_a_status(trace, status, says, replies, api, mode, calls, settings):
    with Server(scripted(*map(make_reply, replies))) as server:
        annotation = ask(server, trace, api=api, mode=mode, **settings)
    assert annotation.status == status, annotation.error
    assert says in (annotation.error or "")
    assert annotation.usage.calls == (calls or annotation.usage.calls) >= 1
    if status == "labelled":
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
