"""A long conversation in windows, the call that decides, and what is not known of what is cut."""

import random
import re
from dataclasses import replace
from typing import Any

import pytest

from annotator.rubrics import Rubric, load_rubric
from annotator.rubrics.model import Part
from annotator.traces import Feature, Message, Outcome, Trace
from tests.judges.test_llm import judged, scripted
from tests.judges.test_long import LONG, MANY, end, head_and_tail, question, reads, sent
from tests.openai_server import NOTHING, TAGS, OpenAIServer, Reply, Request, finding


def window(request: Request) -> int:
    """Return the number of the window, 0 of the call that confirms their findings."""
    if "<findings " in request.user:
        return 0
    return int(re.search(r"window (\d+) of \d+: ", request.part("facts"))[1])


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


def test_every_proposal_of_a_code_is_told_to_the_confirming_call(rubric: Rubric) -> None:
    """What another window found of the same code is not refuted with the first."""
    late = finding("C4a", question(MANY - 3), question(MANY - 1))
    with OpenAIServer(lambda request: [late, WEAKER, NOTHING, late][window(request)]) as server:
        how = {"mode": "tools", "context": 17_500, "windows": True, "reasks": 0}
        one = judged(server, LONG, rubric, **how)
        last = server.seen[-1]
    told = last.user[last.user.index("<findings ") :]
    assert [question(n)[1] in told for n in (1, 3, MANY - 3, MANY - 1)] == [True] * 4
    shown = {part.source: part.text for part in last.parts}
    assert all(LONG.messages[n - 1].text == shown[f"message:{n}"] for n in (1, 3, 37, 39))
    assert (one.status, one.primary) == ("labelled", "C4a")


@pytest.mark.parametrize("confirms", [True, False])
def test_more_proposals_than_there_is_room_for_are_not_refuted(
    rubric: Rubric, confirms: bool
) -> None:
    def respond(request: Request) -> Reply:
        names = [part.source for part in request.parts if part.source.startswith("message")]
        if not window(request) and not confirms:
            return NOTHING
        texts = [LONG.messages[int(name.partition(":")[2]) - 1].text[:590] for name in names[:3]]
        return finding("C4a", *zip(names, texts, strict=False))

    with OpenAIServer(respond) as server:
        how = {"mode": "tools", "context": 11_000, "windows": True, "rejected": "none"}
        one = judged(server, LONG, rubric, **how)
        last = server.seen[-1]
    assert (window(last), one.error) == (0, None)
    told = last.user[last.user.index("<findings ") :]
    assert 1 <= told.count("C4a: ") < len(server.seen) - 1
    assert len(told) < len(last.user) / 2
    assert one.status == ("labelled" if confirms else "undecided")


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


def answering(label: str, *findings: Reply) -> Reply:
    """Return one answer with several findings."""
    found = [one for reply in findings for one in reply.answer["findings"]]
    return Reply(answer={**TAGS, "findings": found, "label": label})


RUN = replace(
    LONG,
    patches={"a": "+from aquarium.pump import PUMP_TABLE\n", "b": "+from heater import HEAT\n"},
    outcome=Outcome(features=(Feature("1", output="ImportError: partially initialized module"),)),
)
TOLD = replace(
    RUN,
    patches={**RUN.patches, "b": ""},
    outcome=replace(RUN.outcome, passed=False, merge="conflicts"),
    read_tasks=lambda: {"a": "Feed the fish.", "b": "Heat the water."},
)
# What a rubric shows -> the parts of a prompt beside the facts, and how many lines of facts.
SHOWN = {
    "all": ((), {"message", "patch", "outcome", "task"}, 3),
    "messages": (("messages",), {"message"}, 1),
    "messages and tasks": (("messages", "tasks"), {"message", "task"}, 1),
    "messages and the outcome": (("messages", "outcome"), {"message", "outcome"}, 3),
}


@pytest.mark.parametrize(("show", "parts", "facts"), SHOWN.values(), ids=SHOWN)
@pytest.mark.parametrize("how", ["whole", "windows", "facts"])
def test_a_prompt_has_the_parts_that_the_rubric_shows(
    rubric: Rubric, show: tuple[Part, ...], parts: set[str], facts: int, how: str
) -> None:
    shows = rubric.model_copy(update={"show": show} if show else {})
    answer = LAST if how == "windows" else NOTHING
    asked = {"windows": how == "windows", "facts": how == "facts"}
    with OpenAIServer(lambda _: answer) as server:
        judged(server, TOLD, shows, context=17_500 if how == "windows" else None, **asked)
        seen = server.seen
    assert len(seen) == (4 if how == "windows" else 1)  # the last confirms
    for request in seen:
        kinds = {part.source.partition(":")[0].partition(" ")[0] for part in request.parts}
        kinds = {kind for kind in kinds if not kind.isdigit()}
        assert {"message", "facts"} <= kinds <= parts | {"facts"}
        assert kinds == parts | {"facts"} or how == "windows"  # which have no room for tasks
        notes = ("window ", "not shown, ")
        lines = [x for x in request.part("facts").splitlines() if not x.startswith(notes)]
        assert (len(lines), lines[0]) == (facts, "agents: a, b")
        if how == "facts":
            assert ("merge_result" in request.user) == ("outcome" in parts)
            assert ("patch_empty" in request.user) == ("patch" in parts)


SILENCE = finding("unresponsiveness", question(1), end(2))
IMPORT = ("patch:a", "+from aquarium.pump import PUMP_TABLE")
BREAKS = ("outcome", "ImportError: partially initialized module")
UNTOLD = finding("dependency_access", IMPORT, BREAKS)
TOLD_LATE = finding("2.4", question(MANY), end(MANY), label="some")
OVERLAP = finding("work_overlap", ("message:1", "What nobody ever wrote in it?"), IMPORT)
REPEATS = finding("repetition", question(1), question(3))
SOME, ALL = {"context": 17_500}, {"context": 60_000}
# A rubric, what is shown and what is answered -> the status and what stands in the trace.
ABSENCES = {
    "no answer": ("comm_errors", SOME, FIRST, "undecided", "C1b"),
    "no answer, and all is shown": ("comm_errors", ALL, FIRST, "labelled", "C1b"),
    "no answer, and a quote of it is wrong": ("comm_errors", SOME, FALSE, "none", ""),
    "a claim": ("comm_errors", SOME, CLAIM, "labelled", "C3a"),
    "the paper's no answer": ("comm_errors_paper", SOME, FIRST, "undecided", "C1b"),
    "the paper's silence": ("symptoms_paper", SOME, SILENCE, "undecided", "unresponsiveness"),
    "nobody told of it": ("symptoms", SOME, UNTOLD, "undecided", "dependency_access"),
    "nobody told, and all is shown": ("symptoms", ALL, UNTOLD, "labelled", "dependency_access"),
    "nothing came before": ("mast", SOME, TOLD_LATE, "undecided", "2.4"),
    "silence, and a wrong quote": (
        *("symptoms", SOME, answering("unresponsiveness", SILENCE, OVERLAP)),
        *("undecided", "unresponsiveness"),
    ),
    "only a wrong quote": ("symptoms", SOME, OVERLAP, "none", ""),
    "silence, and what stands": (
        *("symptoms", SOME, answering("unresponsiveness", SILENCE, REPEATS)),
        *("undecided", "unresponsiveness repetition"),
    ),
}


@pytest.mark.parametrize("windows", [False, True], ids=["one prompt", "windows"])
@pytest.mark.parametrize("case", ABSENCES.values(), ids=ABSENCES)
def test_what_is_missing_is_not_known_where_it_may_not_have_been_shown(
    case: tuple[Any, ...], windows: bool
) -> None:
    """No call shows all of the 60,000 characters in the smaller context."""
    name, how, answer, status, stands = case
    with OpenAIServer(scripted(answer)) as server:
        how = {"mode": "tools", "windows": windows, "rejected": "none"} | how
        one = judged(server, RUN, load_rubric(name), **how)
    assert one.status == status, one.error
    assert " ".join(found.code for found in one.findings) == stands
    if status == "undecided":
        assert f"whether it is {stands.split()[0]} is not known: message:" in (one.reason or "")
        assert one.codes == ()


def test_an_absence_is_known_where_all_that_follows_is_shown(rubric: Rubric) -> None:
    with OpenAIServer(scripted(LAST)) as server:
        one = judged(server, LONG, rubric, mode="tools", context=17_500, windows=True)
        assert window(server.seen[-1]) == 0
        assert "characters left out" in server.seen[-1].user
    assert (one.status, one.primary) == ("labelled", "C1b")


def stands(n: int) -> tuple[str, str]:
    return f"message:{n}", f"Unit {n} stands in parser.py, as agreed."


def named(*numbers: int) -> Trace:
    """Return the conversation with a name in the middle of these messages, and a long patch."""
    messages = list(LONG.messages)
    for n in numbers:
        before, after = LONG.messages[n - 1].text[:700], LONG.messages[n - 1].text[700:]
        messages[n - 1] = replace(messages[n - 1], text=f"{before} {stands(n)[1]} {after}")
    return replace(LONG, messages=tuple(messages), patches={"a": "+    unit = 1\n" * 1_000})


FAILED = "FAILED tests/test_parser.py::test_unit - assert 1 == 2\n"
# Which messages touch the name that is quoted, how long the outcome is, what is claimed of messages
# 20 and 21, and whether the patch goes before the rest of the messages.
CLOSE = {
    "a short outcome": (named(20, 21), 3, "C3a", True),
    "a long outcome": (named(20, 21), 900, "C3a", True),
    "all messages touch the name": (named(*range(1, MANY + 1)), 900, "C3a", False),
    "something is missing": (named(20, 21), 900, "C1b", False),
}


@pytest.mark.parametrize("context", [17_500, 22_000])
@pytest.mark.parametrize("case", CLOSE.values(), ids=CLOSE)
def test_the_confirming_call_shows_the_quotes_and_the_outcome_before_the_rest(
    rubric: Rubric, case: tuple[Any, ...], context: int
) -> None:
    trace, lines, code, patch = case
    trace = replace(trace, outcome=Outcome(features=(Feature("1", output=FAILED * lines),)))
    with OpenAIServer(scripted(finding(code, stands(20), stands(21)))) as server:
        one = judged(server, trace, rubric, mode="tools", context=context, windows=True)
        last = server.seen[-1]
    assert (one.error, window(last)) == (None, 0)
    shown = {part.source: "".join(head_and_tail(last, part.source)) for part in last.parts}
    assert {f"message:{n}" for n in range(18, 24)} <= shown.keys()
    assert all(trace.messages[n - 1].text == shown[f"message:{n}"] for n in (20, 21))
    assert min(lines, 20) * len(FAILED) <= len(shown["outcome"]) + 1 <= len(last.user) / 4
    assert ("patch:a" in shown) == patch


def test_quoted_texts_that_are_too_long_are_cut_around_their_quotes(rubric: Rubric) -> None:
    half, line = "and so on it goes " * 600, "+    unit = 1\n"
    texts = [message.text for message in LONG.messages]
    texts[19:21] = [f"{half} {stands(n)[1]} {half}" for n in (20, 21)]
    added = "+    unit = 2  # of the parser"
    trace = replace(
        LONG,
        messages=tuple(replace(LONG.messages[n], text=text) for n, text in enumerate(texts)),
        patches={"a": f"{line * 900}{added}\n{line * 900}"},
    )
    claimed = finding("C3a", stands(20), stands(21), ("patch:a", added))
    with OpenAIServer(scripted(claimed)) as server:
        one = judged(server, trace, rubric, mode="tools", context=13_000, windows=True)
        last = server.seen[-1]
    assert (one.error, window(last)) == (None, 0)
    run = last.user[: last.user.index("</run ")]
    for source, quote in (stands(20), stands(21), ("patch:a", added)):
        assert quote in run, source
    assert "characters left out here" in run


@pytest.mark.parametrize(
    ("size", "found", "status"),
    [(300, False, "none"), (12_000, False, "undecided"), (12_000, True, "labelled")],
)
def test_nobody_refutes_what_the_confirming_call_has_no_room_to_show(
    rubric: Rubric, size: int, found: bool, status: str
) -> None:
    texts = {n: " ".join(f"{n}.{word}" for word in range(size // 6)) for n in (20, 21)}
    messages = [replace(one, text=texts.get(one.n, one.text)) for one in LONG.messages]
    proposed = finding("C3a", *((f"message:{n}", text) for n, text in texts.items()))
    with OpenAIServer(lambda one: proposed if window(one) or found else NOTHING) as server:
        how = {"mode": "tools", "context": 13_000, "windows": True, "rejected": "none"}
        one = judged(server, replace(LONG, messages=tuple(messages)), rubric, **how)
        assert window(server.seen[-1]) == 0
    reason = "whether it is C3a is not known: there was no room for its quotes"
    assert (one.status, one.reason) == (status, reason if status == "undecided" else None)


def errs(run: str, prompt: int) -> bool:
    """Whether a model that errs in 2 of 100 prompts errs in a window, or in the call after (0)."""
    return random.Random(f"6 {run} {prompt}").random() < 0.02


def test_a_judge_that_errs_now_and_then_does_not_label_every_other_long_trace() -> None:
    """In 45 of 100 clean traces it errs in one of some thirty windows."""
    asked: dict[str, list[int]] = {}

    def respond(request: Request) -> Reply:
        first = request.parts[1]
        run = first.text.split()[0]
        asked.setdefault(run, []).append(window(request))
        wrong = finding("mistake", (first.source, " ".join(first.text.split()[:6])))
        return wrong if errs(run, window(request)) else NOTHING

    found = {}
    with OpenAIServer(respond) as server:
        for run in (f"run{n:02}" for n in range(40)):
            talk = [Message(n, "ab"[n % 2], (), f"{run} line {n} " * 20) for n in range(1, 260)]
            trace = Trace(run, "generic", "", tuple(talk))
            how = {"mode": "json", "context": 4_000, "windows": True}
            found[run] = judged(server, trace, load_rubric("who_and_when"), **how)
    assert all(25 <= max(windows) <= 35 for windows in asked.values())
    proposed = {run for run, windows in asked.items() if any(errs(run, n) for n in windows if n)}
    labelled = {run for run, one in found.items() if one.status == "labelled"}
    assert {one.status for one in found.values()} <= {"labelled", "none"}
    assert 0.3 < len(proposed) / len(found) < 0.6
    assert labelled == {run for run in proposed if errs(run, 0)}
    assert 0 < len(labelled) / len(found) <= 0.04


def test_windows_that_the_server_finds_too_long_are_made_shorter(rubric: Rubric) -> None:
    with OpenAIServer(reads(9_000, "OpenAI", scripted(NOTHING))) as server:
        one = judged(server, LONG, rubric, mode="json", windows=True)
        answered = [request for request in server.seen if sent(request) // 4 <= 9_000]
        assert one.usage.calls == len(server.seen) == len(answered) + 1
    assert (one.status, one.truncated) == ("none", {})
    seen = {part.text for request in answered for part in request.parts}
    assert {message.text for message in LONG.messages} <= seen
