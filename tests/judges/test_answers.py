"""What an answer is besides its findings: of a prompt that was read, thought over, consistent."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from annotator.annotations import Annotation
from annotator.rubrics import Rubric, load_rubric
from annotator.traces import Message, Outcome, Trace
from tests.conftest import Done
from tests.judges.test_llm import IGNORED, QUESTION, RIGHT, judged, scripted
from tests.openai_server import NOTHING, OpenAIServer, Reply, Request, finding
from tests.runs.test_run import llm


def thinking(reply: Reply, *considered: tuple[str, str]) -> Reply:
    items = [{"code": code, "met": met, "because": "so it is"} for code, met in considered]
    return replace(reply, answer=reply.answer | {"considered": items})


PASSED_OVER = finding("unresponsiveness", QUESTION, IGNORED)
TAKEN = finding("role_division", ("message:1", "I take the parser"), IGNORED, label="some")
# The rubric, what is answered first, what then -> what the model is told.
CONTRADICTIONS: dict[str, tuple[str, Reply, Reply, str]] = {
    "met, and no finding": (
        "comm_errors",
        thinking(NOTHING, ("C1b", "yes")),
        thinking(RIGHT, ("C1b", "yes"), ("C2", "no")),
        "C1b is met, but there is no finding of it",
    ),
    "met in one passage and not in another, and no finding": (
        "comm_errors",
        thinking(NOTHING, ("C1b", "yes"), ("C1b", "no")),
        RIGHT,
        "C1b is met, but there is no finding of it",
    ),
    "a finding that is not met": (
        "comm_errors",
        thinking(RIGHT, ("C1b", "no")),
        RIGHT,
        "C1b is a finding, and",
    ),
    "a finding of a group that is not met": (
        "comm_errors",
        thinking(RIGHT, ("unresponsiveness", "no")),
        RIGHT,
        "C1b is a finding, and",
    ),
    "a primary code met beside another": (
        "symptoms",
        thinking(PASSED_OVER, ("unresponsiveness", "yes"), ("work_overlap", "yes")),
        PASSED_OVER,
        "work_overlap is met, but there is no finding of it<",
    ),
    "one of many met beside another": (
        "emergent",
        thinking(TAKEN, ("role_division", "yes"), ("negotiation", "yes")),
        thinking(TAKEN, ("role_division", "yes"), ("negotiation", "unclear")),
        "negotiation is met, but there is no finding of it<",
    ),
    "one that goes before the only one": (
        "comm_errors",
        thinking(RIGHT, ("C3a", "yes")),
        RIGHT,
        "C3a is met, but there is no finding of it, and it goes before C1b<",
    ),
    "a group that does": (
        "comm_errors",
        thinking(RIGHT, ("hallucination", "yes"), ("unresponsiveness", "yes")),
        RIGHT,
        "hallucination is met, but there is no finding of it, and it goes before C1b<",
    ),
}


@pytest.mark.parametrize(
    ("name", "wrong", "right", "reason"), CONTRADICTIONS.values(), ids=CONTRADICTIONS
)
def test_what_is_considered_and_what_is_found_agree(
    trace: Trace, name: str, wrong: Reply, right: Reply, reason: str
) -> None:
    codes = {code.id for code in load_rubric(name).codes}
    considered = {item["code"] for item in wrong.answer["considered"]}
    layout = "codes" if considered <= codes else "groups"
    with OpenAIServer(scripted(wrong, right)) as server:
        annotation = judged(server, trace, load_rubric(name), considered=layout)
        assert reason in (server.seen[-1].reask or "").replace("\n", "<")
    assert (annotation.status, annotation.usage.calls) == ("labelled", 2)
    assert annotation.contradictions == ()


MADE_UP = ("message:2", "made up from nothing")
BESIDE = "is met, but there is no finding of it"
TWO = Reply(
    answer=PASSED_OVER.answer
    | {
        "findings": PASSED_OVER.answer["findings"]
        + finding("repetition", MADE_UP).answer["findings"]
    }
)
# Answers that are not put right -> the status, the codes, and how often they contradict themselves.
NOT_PUT_RIGHT: dict[str, tuple[str, list[Reply], str, tuple[str, ...], int, str]] = {
    "another is met": (
        *("comm_errors", [thinking(RIGHT, ("C3a", "yes"))]),
        *("labelled", ("C1b",), 1, f"C3a {BESIDE}, and it goes before C1b"),
    ),
    "the finding is not met": (
        *("comm_errors", [thinking(RIGHT, ("C1b", "no"))]),
        *("labelled", ("C1b",), 1, 'C1b is a finding, and "considered" says that it is not met'),
    ),
    "both": (
        *("comm_errors", [thinking(RIGHT, ("C1b", "no"), ("C3a", "yes"))]),
        *("labelled", ("C1b",), 2, BESIDE),
    ),
    "one finding stands and another does not": (
        *("symptoms", [thinking(TWO, ("work_overlap", "yes"))]),
        *("labelled", ("unresponsiveness",), 1, f"work_overlap {BESIDE}"),
    ),
    "the next answer has no form": (
        *("comm_errors", [thinking(RIGHT, ("C3a", "yes")), Reply(text="no")]),
        *("labelled", ("C1b",), 1, f"C3a {BESIDE}"),
    ),
    **{
        f"the next answer {what}": (
            *("comm_errors", [thinking(RIGHT, ("C3a", "yes")), worse]),
            *("labelled", ("C1b",), 1, f"C3a {BESIDE}"),
        )
        for what, worse in {
            "has false quotes": finding("C1b", MADE_UP, MADE_UP),
            "is a refusal": Reply(refusal="no"),
            "is too long": Reply(text="", finish="length"),
            "is an error": Reply(status=500, error={"message": "broken"}),
        }.items()
    },
    "no finding at all": (
        *("comm_errors", [thinking(NOTHING, ("C1b", "yes"))]),
        *("failed", (), 0, f"C1b {BESIDE}"),
    ),
    "no finding that stands": (
        *("comm_errors", [thinking(finding("C1b", QUESTION, MADE_UP), ("C1b", "no"))]),
        *("failed", (), 0, "C1b is a finding, and"),
    ),
}


@pytest.mark.parametrize(
    ("name", "answers", "status", "codes", "n", "words"), NOT_PUT_RIGHT.values(), ids=NOT_PUT_RIGHT
)
def test_findings_that_stand_count_whatever_is_considered_and_the_contradiction_is_recorded(
    trace: Trace,
    name: str,
    answers: list[Reply],
    status: str,
    codes: tuple[str, ...],
    n: int,
    words: str,
) -> None:
    with OpenAIServer(scripted(*answers)) as server:
        annotation = judged(server, trace, load_rubric(name), rejected="none")
    assert (annotation.status, annotation.codes) == (status, codes)
    assert annotation.usage.calls > 1
    assert len(annotation.contradictions) == n
    assert words in "; ".join((*annotation.contradictions, annotation.error or ""))
    assert Annotation.from_json(annotation.to_json()) == annotation


def test_contradictions_are_counted_in_the_totals_and_below_the_table(
    annotate_cli: Callable[..., Done], runs: Callable[..., Path], tmp_path: Path
) -> None:
    contrary = thinking(RIGHT, ("C3a", "yes"))

    def respond(request: Request) -> Reply:
        return RIGHT if "run 1." in request.user else contrary

    with OpenAIServer(respond) as server:
        args = (runs(3), "--rubric", "comm_errors", *llm(server), "--out", "out")
        done = annotate_cli(*args)
        assert (
            done.code,
            "In 2 traces the judge's reasoning contradicts its" in " ".join(done.out.split()),
        ) == (0, True)
        again = annotate_cli(*args, "--resume", "--quiet")
    assert again.code == 0
    totals = json.loads((tmp_path / "out" / "run.json").read_text())["totals"]
    assert (totals["labelled"], totals["contradictory"]) == (3, 2)
    with OpenAIServer(lambda _: RIGHT) as server:
        args = (runs(3), "--rubric", "comm_errors", *llm(server), "--out", "other")
        assert "contradicts" not in annotate_cli(*args).out


# The rubric, its one finding, and what is considered beside it.
AGREE: dict[str, tuple[str, Reply, tuple[str, str]]] = {
    "one that comes after the only one": ("comm_errors", RIGHT, ("C4a", "yes")),
    "any, where there is no order": ("comm_errors_paper", RIGHT, ("C1a", "yes")),
    "the group of it": ("comm_errors", RIGHT, ("unresponsiveness", "yes")),
    "the group of one of several": ("symptoms", PASSED_OVER, ("coordination", "yes")),
    "a group that comes after": ("comm_errors", RIGHT, ("repetition", "yes")),
    "what may be": ("comm_errors", RIGHT, ("C3a", "unclear")),
}


@pytest.mark.parametrize(("name", "found", "considered"), AGREE.values(), ids=AGREE)
def test_what_is_considered_can_be_met_and_no_finding_of_its_own(
    trace: Trace, name: str, found: Reply, considered: tuple[str, str]
) -> None:
    codes = "codes" if considered[0].startswith("C") else "groups"
    with OpenAIServer(scripted(thinking(found, considered))) as server:
        annotation = judged(server, trace, load_rubric(name), considered=codes)
    assert (annotation.primary, annotation.usage.calls) == (found.answer["label"], 1)


def test_a_near_miss_beside_what_is_met_is_no_contradiction(trace: Trace, rubric: Rubric) -> None:
    answer = thinking(RIGHT, ("C1b", "yes"), ("C1b", "no"))
    with OpenAIServer(scripted(answer)) as server:
        assert judged(server, trace, rubric).usage.calls == 1


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


LABEL = {"label": "C9"}
# An answer, what is changed in it -> all that is said of it.
ALL_WRONG: dict[str, tuple[Reply, dict[str, Any], list[str]]] = {
    "a tag, what is considered, a quote": (
        thinking(finding("C1b", QUESTION, MADE_UP), ("C1b", "no")),
        {"last_tag": "0"},
        ['last_tag is "0", which is not', "C1b is a finding, and", "not found"],
    ),
    "the form, a tag, what is considered, a quote": (
        thinking(finding("C1b", QUESTION, MADE_UP), ("C1b", "no")),
        {"last_tag": "0", **LABEL},
        ["label: ", 'last_tag is "0", which is not', "C1b is a finding, and", "not found"],
    ),
    "no list where one should be, and a quote": (
        finding("C1b", QUESTION, MADE_UP),
        {"considered": None},
        ["considered: ", "not found"],
    ),
    "no list of findings, and a tag": (
        RIGHT,
        {"findings": None, "last_tag": "0"},
        ["findings: ", 'last_tag is "0", which is not'],
    ),
    "a quote that stands nowhere, and none beside it": (
        finding("C1b", MADE_UP),
        {},
        ["not found", "C1b: 1 quote(s), 2 separate passages needed"],
    ),
    "the same, and the form": (
        finding("C1b", MADE_UP),
        LABEL,
        ["label: ", "not found", "C1b: 1 quote(s), 2 separate passages needed"],
    ),
    "a quote that stands nowhere, beside one of the same agent": (
        finding("C1b", QUESTION, ("message:3", "made up from nothing")),
        {},
        ["not found", "C1b: quotes needed: at least 2, one from the messages and another"],
    ),
    "a code that there is not, and nothing of what would follow": (
        finding("C9", QUESTION, MADE_UP, label="C1b"),
        {},
        ["findings.0.code: "],
    ),
    "a quote that is like another agent's": (
        finding("C1b", QUESTION, ("message:3", "I am adding a printer now")),
        {},
        ["not found in message:3, nor anywhere else; similar, in message:2"],
    ),
    "a quote of which it is not known where it stands": (
        finding("C1b", QUESTION, ("message:77", "made up from nothing")),
        {},
        ["not found"],
    ),
}


@pytest.mark.parametrize(("answer", "changes", "said"), ALL_WRONG.values(), ids=ALL_WRONG)
def test_all_that_is_wrong_is_said_at_once_and_nothing_that_only_follows(
    trace: Trace, rubric: Rubric, answer: Reply, changes: dict[str, Any], said: list[str]
) -> None:
    wrong = replace(answer, answer=answer.answer | changes)
    with OpenAIServer(scripted(wrong, RIGHT)) as server:
        assert judged(server, trace, rubric).status == "labelled"
        reask = server.seen[-1].reask or ""
    reasons = reask.split("<reasons ")[1].split("</reasons ")[0].splitlines()[1:]
    assert len(reasons) == len(said), reasons
    assert all(words in reason for words, reason in zip(said, reasons, strict=True)), reasons


@pytest.mark.parametrize("mode", ["json_schema", "tools"])
def test_words_without_an_answer_that_are_repeated_end_the_asking(
    trace: Trace, rubric: Rubric, mode: str
) -> None:
    with OpenAIServer(scripted(Reply(text="I see no code that applies."))) as server:
        annotation = judged(server, trace, rubric, mode=mode, reasks=5)
    assert (annotation.status, annotation.usage.calls) == ("failed", 2)


def test_what_was_not_asked_for_is_not_read_in_an_answer_of_the_wrong_form(
    trace: Trace, rubric: Rubric
) -> None:
    wrong = Reply(answer=NOTHING.answer | LABEL | {"considered": [{"code": "C1b"}]})
    with OpenAIServer(scripted(wrong, RIGHT)) as server:
        annotation = judged(server, trace, rubric, considered="none")
    assert (annotation.status, annotation.usage.calls) == ("labelled", 2)


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
    assert (annotation.status, "did not repeat the check word" in (annotation.error or "")) == (
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

    @pytest.mark.parametrize("time", [float("nan"), float("inf")])
    def test_a_time_that_is_none_is_not_shown(self, rubric: Rubric, time: float) -> None:
        first, second, third = whole().messages
        messages = (replace(first, time=time), replace(second, time=time), third)
        request = self.asked(replace(whole(), messages=messages), rubric)
        assert "message:2 from agent2 to everybody]]" in request.user
        assert "message:3 from agent1 to everybody, +0:00]]" in request.user

    def test_what_all_agents_are_told_is_shown_once(self, rubric: Rubric) -> None:
        protocol = "Send CLAIM before you edit a file, and DONE after it. " * 5
        tasks = {agent: f"You are {agent}.\n\n{protocol}" for agent in ("agent1", "agent2")}
        request = self.asked(whole(read_tasks=lambda: tasks), rubric)
        texts = {part.source: part.text for part in request.parts}
        assert texts["task"] == protocol
        assert texts["task:agent1"] == "You are agent1."
        assert request.user.count(protocol) == 1

    def test_headings_that_all_have_alike_stay_with_their_texts(self, rubric: Rubric) -> None:
        protocol = "Send CLAIM before you edit a file, and DONE after it. " * 5
        tasks = {n: f"{protocol}\n\nYou build {n}.\n\n# Why\n\nFor {n}." for n in ("a1", "a2")}
        request = self.asked(whole(read_tasks=lambda: tasks), rubric)
        texts = {part.source: part.text for part in request.parts}
        assert texts["task:a1"] == "You build a1.\n\n# Why\n\nFor a1."

    def test_of_a_long_outcome_the_conflicts_failures_and_summaries(self, rubric: Rubric) -> None:
        log = [f"Collecting package{n} from the index" for n in range(900)]
        log[300] = "CONFLICT (content): Merge conflict in shop/parser.py"
        log[600] = "FAILED tests/test_parser.py::test_unit - KeyError: 'unit'"
        log[450] = "8 passed in 0.1s"
        log[750] = "E"  # a line of what pytest explains may be empty
        log[898] = "==== 1 failed, 8 passed in 0.1s ===="
        text = "\n".join(log)
        request = self.asked(whole(outcome=Outcome(error=text)), rubric)
        shown = request.user[request.user.index(" outcome") :]
        assert len(shown) < 2_000
        assert all(log[n] in shown for n in (0, 298, 300, 302, 448, 600, 748, 752, 898, 899))
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
