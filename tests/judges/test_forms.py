"""The form that an endpoint is asked to answer in: found out, refused, and what all traces meet."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from annotator.errors import JudgeStopped
from annotator.rubrics import Rubric, load_rubric
from annotator.traces import Trace
from tests.conftest import Done
from tests.judges.test_llm import RIGHT, judged, scripted
from tests.openai_server import NOTHING, OpenAIServer, Reply, Request, Responder, finding
from tests.runs.test_run import llm, statuses

Cli = Callable[..., Done]
Runs = Callable[..., Path]
ARGS = ("logs", "--rubric", "comm_errors")
REJECTED = {"message": "Invalid schema for response_format 'Annotation'", "type": "invalid"}
REFUSED = Reply(status=400, error=REJECTED)

# What OpenAI takes under strict.
LEAN = {"$defs", "$ref", "type", "properties", "items", "enum", "description", "required"}


def schemas(schema: Any) -> list[dict[str, Any]]:
    """All schemas in one, itself included."""
    parts = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    parts += [schema["items"]] if "items" in schema else []
    return [schema, *(inner for part in parts for inner in schemas(part))]


@pytest.mark.parametrize("name", ["comm_errors", "symptoms", "emergent", "causes"])
def test_the_strict_form_keeps_to_what_is_taken_strictly(trace: Trace, name: str) -> None:
    undecided = replace(trace, outcome=replace(trace.outcome, passed=None))
    with OpenAIServer() as server:
        one = judged(server, undecided, load_rubric(name), mode="strict")
        [request] = server.seen
    assert one.status == "none"
    assert request.body["response_format"]["json_schema"]["strict"] is True
    for schema in schemas(request.schema):
        assert schema.keys() <= LEAN | {"additionalProperties"}
        if schema.get("type") == "object":
            assert schema["required"] == list(schema["properties"])
            assert schema["additionalProperties"] is False


def test_what_the_strict_form_does_not_bound_is_bounded_by_reading(
    trace: Trace, rubric: Rubric
) -> None:
    quote = ("message:1", "Which field holds the unit?")
    with OpenAIServer(scripted(finding("C1b", *[quote] * 9))) as server:
        one = judged(server, trace, rubric, mode="strict", reasks=0)
    assert (one.status, "at most 8" in (one.error or "")) == ("failed", True)


@pytest.mark.parametrize(
    ("mode", "choice"),
    [("tools", "required"), ("named", {"type": "function", "function": {"name": "Annotation"}})],
)
def test_a_function_is_named_only_where_it_is_asked_for(
    trace: Trace, rubric: Rubric, mode: str, choice: object
) -> None:
    with OpenAIServer(scripted(RIGHT)) as server:
        assert judged(server, trace, rubric, mode=mode).status == "labelled"
        [request] = server.seen
    assert request.body["tool_choice"] == choice


AWAY = {
    "everything": (("strict", "json_schema", "tools", "named"), "strict"),
    "nothing strict": (("json_schema", "tools", "named"), "json_schema"),
    "no schema": (("tools", "named"), "tools"),
    "only named": (("named",), "named"),
    "plain": ((), "plain"),
}


@pytest.mark.parametrize(("forms", "used"), AWAY.values(), ids=AWAY)
@pytest.mark.parametrize("how", ["ignore", "400"])
def test_another_machine_is_asked_for_the_surest_form_that_it_takes(
    trace: Trace,
    rubric: Rubric,
    monkeypatch: pytest.MonkeyPatch,
    forms: tuple[str, ...],
    used: str,
    how: Any,
) -> None:
    with OpenAIServer(scripted(RIGHT), forms=forms, unsupported=how) as server:
        monkeypatch.setenv("HTTP_PROXY", server.url.removesuffix("/v1"))
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        one = judged(server, trace, rubric, base_url="http://judge.example/v1")
        assert (one.status, [request.form for request in server.seen]) == ("labelled", [used])


def test_the_probe_asks_for_the_form_of_the_rubric(trace: Trace, rubric: Rubric) -> None:
    with OpenAIServer(scripted(RIGHT)) as server:
        judged(server, trace, rubric)
        assert [probe.schema for probe in server.probes] == [server.seen[0].schema]
        assert server.seen[0].schema["required"]


def test_a_probe_that_is_cut_off_shows_the_form_by_how_it_begins(
    trace: Trace, rubric: Rubric
) -> None:
    cut = Reply(text='{"findings": [{"code"', finish="length")
    with OpenAIServer(scripted(RIGHT), probe=scripted(cut)) as server:
        judged(server, trace, rubric)
        assert [request.form for request in server.seen] == ["json_schema"]


def refusing(form: str, reply: Reply) -> Responder:
    return lambda request: reply if request.form == form else RIGHT


def test_a_refused_form_is_left_once_for_all_traces_and_runs(
    annotate_cli: Cli, runs: Runs, tmp_path: Path
) -> None:
    runs(8)
    with OpenAIServer(refusing("json_schema", REFUSED)) as server:
        assert annotate_cli(*ARGS, *llm(server), "--out", "one").code == 0
        assert len(server.probes) == 1
        assert {request.form for request in server.seen[-8:]} <= {"json_schema", "tools"}
        server.seen.clear()
        assert annotate_cli(*ARGS, *llm(server), "--out", "two", "--no-cache").code == 0
        server.seen.clear()
        runs(9)
        assert annotate_cli(*ARGS, *llm(server), "--out", "three").code == 0
        assert [request.form for request in server.seen] == ["tools"], "it is remembered"
    assert statuses(tmp_path / "one") == {"labelled": 8}
    learned = json.loads((tmp_path / "one" / "run.json").read_text())["learned"]
    assert learned["mode"] == "tools"
    assert "Invalid schema" in learned["refused_modes"]["json_schema"]


def later(form: str, reply: Reply) -> Responder:
    """Take the first tiny question, and from then on no question in this form."""
    return lambda request: reply if request.n > 1 and request.form == form else NOTHING


@pytest.mark.parametrize("status", [400, 422, 500])
def test_where_the_words_do_not_tell_a_tiny_question_does(
    trace: Trace, rubric: Rubric, status: int
) -> None:
    reply = Reply(status=status, error={"message": "cannot do this"})
    with OpenAIServer(refusing("json_schema", reply), probe=later("json_schema", reply)) as server:
        assert judged(server, trace, rubric).status == "labelled"
        assert server.seen[-1].form == "tools"


def test_one_request_that_is_refused_does_not_change_the_form(trace: Trace, rubric: Rubric) -> None:
    reply = Reply(status=400, error={"message": "cannot do this"})
    with OpenAIServer(scripted(reply)) as server:
        one = judged(server, trace, rubric)
        assert [request.form for request in server.seen] == ["json_schema"]
    assert (one.status, "cannot do this" in (one.error or "")) == ("failed", True)


def test_a_form_that_the_user_asks_for_is_not_changed(trace: Trace, rubric: Rubric) -> None:
    with OpenAIServer(scripted(REFUSED), probe=scripted(REFUSED)) as server:
        with pytest.raises(JudgeStopped, match="Invalid schema"):
            judged(server, trace, rubric, mode="strict")
        assert {request.form for request in server.seen} == {"strict"}


PARTS = [{"type": "text", "text": json.dumps(RIGHT.answer)[:40]}]
PARTS += [{"type": "text", "text": json.dumps(RIGHT.answer)[40:]}]
THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": json.dumps(NOTHING.answer)}]}
RIGHT_TEXT, NONE_TEXT = json.dumps(RIGHT.answer), json.dumps(NOTHING.answer)
MESSAGES: dict[str, tuple[dict[str, Any], str]] = {
    "parts": ({"content": PARTS}, "labelled"),
    "a thought and parts": ({"content": [THOUGHT, *PARTS]}, "labelled"),
    "only a thought": ({"content": [THOUGHT]}, "failed"),
    "beside reasoning": ({"content": RIGHT_TEXT, "reasoning_content": NONE_TEXT}, "labelled"),
    "only reasoning": ({"content": None, "reasoning_content": RIGHT_TEXT}, "failed"),
    "only reasoning, by its new name": ({"content": "", "reasoning": RIGHT_TEXT}, "failed"),
}


@pytest.mark.parametrize(("message", "status"), MESSAGES.values(), ids=MESSAGES)
def test_an_answer_is_what_a_model_says_and_not_what_it_thinks(
    trace: Trace, rubric: Rubric, message: dict[str, Any], status: str
) -> None:
    reply = Reply(answer={}, more={"choices": [{"message": message, "finish_reason": "stop"}]})
    with OpenAIServer(scripted(reply)) as server:
        assert judged(server, trace, rubric, mode="json_schema").status == status


TEXTS = {
    "a thought without its beginning": ("Hm, {none}? No.\n</think>\n\n{}", True),
    "with it": ("<think>Hm, {none}?</think>{}", True),
    "two thoughts": ("<think>Hm</think> so </think>{}", False),
    "a quoted thought": ("I will not. <think>{none}</think>{}", False),
    "more after it": ("Hm</think>{none} it says, but {}", False),
    **{
        f"ended by {token}": (f"{{}}{token}", True)
        for token in ("<|im_end|>", "</s>", "<|eot_id|>", "\n<|end|><|im_end|>\n", "<end_of_turn>")
    },
    "a fence and an end": ("```json\n{}\n```<|im_end|>", True),
    "prose after the end": ("{}<|im_end|> Shall I go on?", False),
    "prose before": ("It is this: {}<|im_end|>", False),
}


@pytest.mark.parametrize(("text", "read"), TEXTS.values(), ids=TEXTS)
def test_what_servers_leave_around_an_answer_is_read_over(
    trace: Trace, rubric: Rubric, text: str, read: bool
) -> None:
    said = text.replace("{none}", NONE_TEXT).replace("{}", RIGHT_TEXT)
    with OpenAIServer(scripted(Reply(text=said))) as server:
        one = judged(server, trace, rubric, mode="json_schema", reasks=0)
    assert one.status == ("labelled" if read else "failed"), one.error


def test_the_end_of_a_thought_in_a_quote_belongs_to_the_quote(rubric: Rubric, trace: Trace) -> None:
    words = "it ends a thought with </think> or <|im_end|> here"
    asking = replace(trace.messages[0], text=f"{words}: which is it?")
    told = replace(trace, messages=(asking, *trace.messages[1:]))
    answer = finding("C1b", ("message:1", words), ("message:2", "I am adding the printer now"))
    with OpenAIServer(scripted(Reply(text=json.dumps(answer.answer)))) as server:
        one = judged(server, told, rubric, mode="json_schema")
    assert one.findings[0].evidence[0].quote == words


def test_a_request_says_what_form_it_is(trace: Trace, rubric: Rubric) -> None:
    """The server of these tests tells them apart."""
    asked: list[Request] = []
    with OpenAIServer(scripted(RIGHT)) as server:
        for mode in ("strict", "json_schema", "tools", "named", "json"):
            judged(server, trace, rubric, mode=mode)
        asked = server.seen
    assert [request.form for request in asked] == [
        *("strict", "json_schema", "tools", "named", "plain")
    ]
