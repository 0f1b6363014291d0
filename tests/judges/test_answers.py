"""What an answer is besides its findings: of a prompt that was read, thought over, consistent."""

from dataclasses import replace
from typing import Any

import pytest

from annotator.rubrics import Rubric, load_rubric
from annotator.traces import Message, Outcome, Trace
from tests.judges.test_llm import IGNORED, QUESTION, RIGHT, judged, scripted
from tests.openai_server import NOTHING, OpenAIServer, Reply, Request, finding


def thinking(reply: Reply, *considered: tuple[str, str]) -> Reply:
    items = [{"code": code, "met": met, "because": "so it is"} for code, met in considered]
    return replace(reply, answer=reply.answer | {"considered": items})


# What is answered first -> what the model is told.
CONTRADICTIONS = {
    "met, and no finding": (thinking(NOTHING, ("C1b", "yes")), "C1b is met, but there is no"),
    "a finding that is not met": (thinking(RIGHT, ("C1b", "no")), "C1b is a finding, and"),
}


@pytest.mark.parametrize(("wrong", "reason"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_what_is_considered_and_what_is_found_agree(
    trace: Trace, rubric: Rubric, wrong: Reply, reason: str
) -> None:
    with OpenAIServer(scripted(wrong, thinking(RIGHT, ("C1b", "yes"), ("C2", "no")))) as server:
        annotation = judged(server, trace, rubric)
        assert reason in (server.seen[-1].reask or "")
    assert (annotation.status, annotation.usage.calls) == ("labelled", 2)


@pytest.mark.parametrize("met", ["no", "unclear"])
def test_what_is_unclear_is_no_finding(trace: Trace, rubric: Rubric, met: str) -> None:
    with OpenAIServer(scripted(thinking(NOTHING, ("C1b", met)))) as server:
        assert judged(server, trace, rubric).status == "none"


@pytest.mark.parametrize(
    ("considered", "codes"),
    [
        ("codes", ["C1a", "C1b", "C2", "C3a", "C3b", "C4a", "C4b"]),
        ("groups", ["unresponsiveness", "hallucination", "repetition"]),
        ("none", None),
    ],
)
def test_codes_or_groups_or_nothing_is_considered(
    trace: Trace, rubric: Rubric, considered: str, codes: list[str] | None
) -> None:
    answer = dict(RIGHT.answer)
    if considered == "none":
        del answer["considered"]
    with OpenAIServer(scripted(replace(RIGHT, answer=answer))) as server:
        annotation = judged(server, trace, rubric, considered=considered, mode="json_schema")
        schema = server.seen[0].schema
        system = server.seen[0].system
    assert annotation.status == "labelled"
    asked = schema["$defs"].get("Considered", {}).get("properties", {}).get("code", {}).get("enum")
    assert asked == codes
    assert ("`considered`" in system) == (codes is not None)


def test_the_rubric_can_stand_after_the_trace(trace: Trace, rubric: Rubric) -> None:
    with OpenAIServer(scripted(RIGHT)) as server:
        assert judged(server, trace, rubric, rubric_last=True).status == "labelled"
        [request] = server.seen
    title = f"# Rubric: {rubric.title}"
    assert title not in request.system
    assert request.user.index("</run ") < request.user.index(title)


def test_all_that_is_wrong_is_said_at_once(trace: Trace, rubric: Rubric) -> None:
    wrong = thinking(finding("C1b", QUESTION, ("message:2", "made up from nothing")), ("C1b", "no"))
    wrong = replace(wrong, answer=wrong.answer | {"last_tag": "0"})
    with OpenAIServer(scripted(wrong, RIGHT)) as server:
        assert judged(server, trace, rubric).status == "labelled"
        reask = server.seen[-1].reask or ""
    assert all(
        words in reask for words in ('last_tag is "0", which is not', "is not met", "not found")
    )


CUT = {
    "the end": {"last_tag": "000000"},
    "the beginning": {"first_tag": "000000"},
    "both": {"first_tag": "", "last_tag": ""},
}


@pytest.mark.parametrize("tags", CUT.values(), ids=CUT)
def test_a_prompt_of_which_a_tag_is_unknown_is_shortened_and_never_judged(
    rubric: Rubric, tags: dict[str, str]
) -> None:
    """A server that reads 34,000 characters, and says nothing of the tokens."""
    long = Trace("t", "generic", "", (Message(1, "a", (), "and so on it goes " * 2_000),))

    def respond(request: Request) -> Reply:
        size = sum(len(message["content"] or "") for message in request.messages)
        answer = NOTHING.answer | (tags if size > 34_000 else {})
        return Reply(answer=answer, more={"usage": None})

    with OpenAIServer(respond) as server:
        annotation = judged(server, long, rubric, mode="json_schema")
        sizes = [len(request.user) for request in server.seen]
    assert annotation.status == "none", annotation.error  # of what was read of it
    assert annotation.truncated
    assert sizes == sorted(sizes, reverse=True)
    with OpenAIServer(lambda _: Reply(answer=NOTHING.answer | tags)) as server:
        annotation = judged(server, long, rubric, mode="json_schema")
        assert len(server.seen) == 6  # each of three prompts twice
    assert (annotation.status, "is not the tag in the" in (annotation.error or "")) == (
        "failed",
        True,
    )


def test_a_quote_named_from_the_wrong_message_is_moved_and_not_asked_for_again(
    trace: Trace, rubric: Rubric
) -> None:
    with OpenAIServer(scripted(finding("C1b", ("message:3", QUESTION[1]), IGNORED))) as server:
        annotation = judged(server, trace, rubric)
    moved, named = annotation.findings[0].evidence
    assert ((moved.source, moved.match), (named.source, named.match)) == (
        (QUESTION[0], "moved"),
        (IGNORED[0], "exact"),
    )
    assert annotation.usage.calls == 1


def whole(**parts: Any) -> Trace:
    texts = ("Do you have it?", "I went on.", "Here it is.")
    messages = tuple(
        Message(n, f"agent{2 - n % 2}", (), text, time)
        for n, (text, time) in enumerate(zip(texts, (100.0, 102.5, 3_825.0), strict=True), 1)
    )
    return Trace("t", "generic", "", messages, **parts)


class TestWhatIsShown:
    def asked(self, trace: Trace, rubric: Rubric) -> Request:
        with OpenAIServer() as server:
            judged(server, trace, rubric)
            [request] = server.seen
        return request

    def test_messages_come_first_with_their_times(self, rubric: Rubric) -> None:
        request = self.asked(whole(patches={"agent1": "+x = 1\n"}), rubric)
        ids = [part.source for part in request.parts]
        assert ids == ["facts", "message:1", "message:2", "message:3", "patch:agent1"]
        for n, time in ((1, "+0:00"), (2, "+0:02"), (3, "+1:02:05")):
            assert f"message:{n} from agent{2 - n % 2} to everybody, {time}]]" in request.user

    def test_what_all_agents_are_told_is_shown_once(self, rubric: Rubric) -> None:
        protocol = "Send CLAIM before you edit a file, and DONE after it. " * 5
        tasks = {agent: f"You are {agent}.\n\n{protocol}" for agent in ("agent1", "agent2")}
        request = self.asked(whole(read_tasks=lambda: tasks), rubric)
        texts = {part.source: part.text for part in request.parts}
        assert texts["task"] == protocol
        assert texts["task:agent1"] == "You are agent1."
        assert request.user.count(protocol) == 1

    def test_of_a_long_outcome_the_conflicts_failures_and_summaries(self, rubric: Rubric) -> None:
        log = [f"Collecting package{n} from the index" for n in range(900)]
        log[300] = "CONFLICT (content): Merge conflict in shop/parser.py"
        log[600] = "FAILED tests/test_parser.py::test_unit - KeyError: 'unit'"
        log[898] = "==== 1 failed, 8 passed in 0.1s ===="
        text = "\n".join(log)
        request = self.asked(whole(outcome=Outcome(error=text)), rubric)
        shown = request.user[request.user.index(" outcome") :]
        assert len(shown) < 2_000
        assert all(log[n] in shown for n in (0, 298, 300, 302, 600, 898, 899))
        assert "package400 " not in shown
        gone = sum(int(part.source) for part in request.parts if part.source.isdigit())
        assert gone == sum(map(len, text.splitlines(keepends=True))) - sum(
            len(line) for line in text.splitlines(keepends=True) if line.strip() in shown
        )

    def test_a_short_one_is_shown_whole_and_its_one_word_can_be_quoted(self) -> None:
        rubric = load_rubric("comm_errors")
        trace = whole(outcome=Outcome(merge="conflicts"))
        claim = finding("C3a", ("message:3", "Here it is."), ("outcome", "conflicts"))
        with OpenAIServer(scripted(claim)) as server:
            annotation = judged(server, trace, rubric)
        assert annotation.status == "labelled", annotation.rejected
