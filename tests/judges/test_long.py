"""Traces that are longer than a model reads: shortened or in windows, and never a guess."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from annotator.base.errors import AnnotatorError
from annotator.base.text import floor_percent
from annotator.rubrics.model import TracePart
from annotator.traces import Feature, Outcome, Trace
from tests.conftest import annotations, run_name, write_run
from tests.judges.ask import LONG, MANY, ask, end, llm, long, question, refuse_above, talk
from tests.server import NOTHING, TAGS, Reply, Request, Responder, Server, finding, scripted

RIGHT = finding("C3a", question(1), end(MANY))
CONTEXT: dict[str, Any] = {"mode": "tools", "context": 17_500}
WINDOWED: dict[str, Any] = CONTEXT | {"windows": True}


def head_and_tail(request: Request, source: str) -> tuple[str, str]:
    """What a prompt shows of a part; the tail is "" if it shows all of it."""
    names = [part.source for part in request.parts]
    if source not in names:
        return "", ""
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
def test_a_context_is_kept_by_the_conservative_estimate(trace, windows):
    """2.9 bytes a token of the trace, 4 of the rubric, and an eighth for the answer."""
    context = 20_000
    with Server() as server:
        one = ask(server, trace, mode="json", context=context, windows=windows)
        requests = server.seen
    assert (one.status, len(requests) > 1) == ("none", windows)
    for request in requests:
        system, user = (len(message["content"].encode()) for message in request.messages)
        assert system / 4 + user / 2.9 + context / 8 <= context
    if not windows:
        missing = {}
        for source in trace.sources(("messages", "patches")):
            if gone := len(source.text) - len("".join(head_and_tail(requests[0], source.id))):
                missing[source.id] = gone
        assert {**one.truncated} == missing != {}


@pytest.mark.parametrize("windows", [False, True], ids=["one prompt", "windows"])
def test_a_context_with_no_room_for_a_trace_fails_and_asks_nothing(windows):
    with Server() as server:
        one = ask(server, LONG, mode="tools", context=4_096, windows=windows)
        assert (one.status, server.calls) == ("failed", 0)


def test_the_report_counts_the_shortened_traces(annotate_cli, tmp_path):
    for n, size in enumerate((10, 10, 60_000), 1):
        write_run(tmp_path / run_name(n), [("agent1", "word " * size), ("agent2", "Yes, it is.")])
    with Server() as server:
        done = annotate_cli(*llm(server, "--context", "20000", "--out", "out"))
        lax = annotate_cli(
            *llm(server, "--context", "20000", "--out", "lax", "--least-read", "0.1")
        )
    assert (done.code, lax.code) == (0, 0), done.err
    [cut] = [one for one in annotations(tmp_path / "out").values() if one.truncated]
    assert {"message:1", "patch:agent1", "patch:agent2"} <= cut.truncated.keys()
    percent = floor_percent(cut.read)
    assert (cut.status, cut.reason) == ("undecided", f"read {percent} of it")
    assert 0.1 < cut.read < 0.2
    assert f"1 trace was read in part, {percent} of it" in done.out
    for name, judged in (("out", 2), ("lax", 3)):
        [table] = json.loads(annotate_cli("report", "-v", name, "--format", "json").out)
        assert (table["judged"], table["truncated"], table["least_read"]) == (judged, 1, cut.read)


TABLES = yaml.safe_load(Path(__file__).with_name("too_long.yaml").read_text(encoding="utf-8"))
WORDINGS, CAPS = TABLES["prompts"], TABLES["answers"]


@pytest.mark.parametrize("name", WORDINGS)
def test_a_prompt_that_the_server_finds_too_long_is_made_shorter(name):
    """12,000 tokens are read, 19,000 sent: with the numbers, the second prompt fits."""
    words, numbers = WORDINGS[name]
    with Server(refuse_above(12_000, words, scripted(RIGHT))) as server:
        one = ask(server, LONG, mode="json")
        sizes = [request.length for request in server.seen]
        shown = len(server.seen[-1].user)
        server.responder = refuse_above(100, words, scripted(RIGHT))
        never = ask(server, LONG, mode="json")
    assert (one.status, one.usage.calls) == ("labelled", len(sizes)), one.error
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) == 2 if numbers else len(sizes) <= 4
    assert shown > 10_000, "much less than what would fit"
    assert 60_000 - shown < sum(one.truncated.values()) < 60_000
    assert (never.status, words[:15] in (never.error or "")) == ("failed", True)
    assert never.usage.calls <= 6


SUMS = {name: WORDINGS[name][0] for name in ("with the completion", "Anthropic's sum")}


@pytest.mark.parametrize("name", CAPS | SUMS)
def test_a_refused_longest_answer_does_not_shorten_the_trace(name):
    """300 tokens may be asked for; the model thinks for long about long prompts."""
    words = (CAPS | SUMS)[name]

    def refuse(request: Request) -> Reply:
        size = request.body["max_completion_tokens"]
        if size > 300:
            return Reply(status=400, error={"message": words.format(asked=size, limit=300)})
        return Reply(text="{", finish="length") if len(request.user) > 60_000 else NOTHING

    said = words[:20].format(asked=400, limit=300)
    with Server(refuse, probe=refuse) as server:
        one = ask(server, LONG, mode="json", max_output_tokens=200)
        asked = [request.body["max_completion_tokens"] for request in server.seen]
        assert (one.status, one.truncated, asked) == ("failed", {}, [200, 400])
        assert f"cut off at 200 tokens, and for one of 400{''}" in (one.error or "")
        assert said in (one.error or "")
        for mode in ("auto", "json") if name in CAPS else ():
            server.seen.clear()
            with pytest.raises(AnnotatorError, match="request sets max_completion_tokens=400") as e:
                ask(server, LONG, mode=mode, max_output_tokens=400)
            assert (len(server.seen), said in str(e.value)) == (1, True)


def test_quotes_stand_on_either_side_of_a_cut_and_never_across_it():
    words = " ".join(f"w{n}" for n in range(12_000))
    heads: list[str] = []

    def responder(request: Request) -> Reply:
        head, tail = head_and_tail(request, "message:1")
        heads[:] = [head]
        first = ("message:1", " ".join(head.split()[-9:-2]))
        after = ("message:1", " ".join(tail.split()[2:9]))
        across = ("message:1", " ".join(head.split()[-4:] + tail.split()[:4]))
        return finding("unverifiable_claims", first, after if request.reask else across)

    with Server(responder) as server:
        one = ask(server, talk(words, "Fine."), "symptoms", mode="json", context=20_000)
        assert "not found" in (server.seen[1].reask or "")
    assert (one.status, one.usage.calls) == ("labelled", 2)
    before, after = one.findings[0].evidence
    assert all(words[at.start : at.end] == at.quote for at in (before, after))
    assert before.end <= len(heads[0])
    assert after.start >= len(heads[0]) + one.truncated["message:1"]


# Prompts that a server cuts without a word: the two tags in the answer give them away.

CUTS: dict[str, Callable[[str, int], str]] = {
    "the end": lambda text, room: text[:room],
    "the beginning": lambda text, room: text[-room:],
    "all but a few tokens of the beginning": lambda text, room: text[:12] + text[12 - room :],
}


def cut_prompts(room: int, reply: Reply, cut: str = "the beginning") -> Responder:
    """Answer as a model behind a server that reads ``room`` characters.

    As Ollama does, it first drops the oldest messages after the system's. The model repeats the
    tags that it sees, and gives the ``reply`` to what it sees in full, else finds nothing.
    """

    def respond(request: Request) -> Reply:
        texts = [json.dumps(one, ensure_ascii=False) for one in request.messages]
        texts = [text.replace('\\"', '"') for text in texts]
        while sum(map(len, texts)) > room and len(texts) > 2:
            del texts[1]
        text = "".join(texts)
        complete = len(texts) == len(request.messages) and len(text) <= room
        text = text if len(text) <= room else CUTS[cut](text, room)
        seen = re.findall(r'"((?:first|last)_tag)": ?"(\w+-\d{6})"', text)
        tags = {"first_tag": "first-000000", "last_tag": "last-000000", **dict(seen)}
        return Reply(answer=(reply if complete else NOTHING).answer | tags)

    return respond


FALSE = finding("C1b", ("message:1", "What nobody ever wrote in it?"), end(2))
OTHER_FALSE = finding("C3a", ("message:1", "What nobody ever wrote in it?"), end(2))


@pytest.mark.parametrize("cut", CUTS)
def test_a_prompt_that_was_cut_is_shortened_and_never_judged(cut):
    with Server(cut_prompts(65_000, RIGHT, cut)) as server:
        one = ask(server, LONG, mode="json_schema")
        sizes = [request.length for request in server.seen]
    assert (one.status, one.primary, bool(one.truncated)) == ("labelled", "C3a", True)
    assert sizes[0] > 65_000 > sizes[-1]


def test_a_prompt_that_is_always_cut_fails_and_one_for_the_context_is_not_cut():
    with Server(cut_prompts(20_000, RIGHT)) as server:
        one = ask(server, LONG, mode="json_schema")
    assert one.status == "failed"
    assert "check word at the start of the prompt: the prompt was cut" in (one.error or "")
    with Server(cut_prompts(40_000, RIGHT)) as server:
        one = ask(server, LONG, mode="json_schema", context=10_000)
        assert (one.status, len(server.seen)) == ("labelled", 1)


@pytest.mark.parametrize("tags", [{"last_tag": "0"}, {"first_tag": "0"}, {"first_tag": ""}])
def test_a_tag_that_is_not_repeated_shortens_the_prompt(tags):
    """A server that reads 34,000 characters, and counts no tokens."""
    trace = talk("and so on it goes " * 2_000, "Yes.")

    def respond(request: Request) -> Reply:
        cut = tags if request.length > 34_000 else {}
        return Reply(answer=NOTHING.answer | cut, more={"usage": None})

    with Server(respond) as server:
        one = ask(server, trace, mode="json_schema")
        sizes = [len(request.user) for request in server.seen]
    assert (one.status, bool(one.truncated), one.error) == ("none", True, None)
    assert sizes == sorted(sizes, reverse=True)
    with Server(lambda _: Reply(answer=NOTHING.answer | tags)) as server:
        one = ask(server, trace, mode="json_schema")
        assert len(server.seen) == 6  # each of three prompts twice
    assert (one.status, "did not repeat the check word" in (one.error or "")) == ("failed", True)


@pytest.mark.parametrize("mode", ["json_schema", "tools", "json"])
def test_what_a_second_question_pushes_out_is_not_judged_without(mode):
    """The first prompt fits. After a wrong quote the server drops the trace, and the model would
    find the last tag only in its own first answer.
    """
    with Server(cut_prompts(10**6, FALSE)) as server:
        ask(server, LONG, mode=mode)
        first = sum(len(json.dumps(one, ensure_ascii=False)) for one in server.seen[0].messages)
    with Server(cut_prompts(first + 100, FALSE)) as server:
        one = ask(server, LONG, mode=mode)
        assert len(server.seen) > 1
    assert (one.status, one.truncated) == ("undecided", {})


# A first answer that repeats the tags and is not accepted -> what comes of it.
READ: dict[str, tuple[Any, str, str]] = {
    "a quote that stands nowhere": (FALSE.answer, "undecided", ""),
    "a contradiction": (NOTHING.answer | {"label": "C1b"}, "failed", 'label is "C1b" but there is'),
    "a wrong form": (NOTHING.answer | {"label": "C9"}, "failed", "label: "),
}


@pytest.mark.parametrize(("answer", "status", "error"), READ.values(), ids=READ)
def test_tags_forgotten_in_a_second_answer_say_nothing_of_a_prompt_that_was_read(
    answer, status, error
):
    forgetful = Reply(answer={**NOTHING.answer, "first_tag": "?", "last_tag": "?"})
    with Server(scripted(Reply(answer=answer), forgetful)) as server:
        one = ask(server, LONG, mode="json_schema")
        assert server.calls == 2
    assert (one.status, one.truncated) == (status, {})
    assert error in (one.error or "")


# Windows, and the call that decides.


def window(request: Request) -> int:
    """Return the number of the window, 0 of the call that confirms their findings."""
    if "<findings " in request.user:
        return 0
    return int(re.search(r"window (\d+) of \d+: ", request.part("facts"))[1])


FIRST = finding("C1b", question(1), end(2))
LAST = finding("C1b", question(MANY - 1), end(MANY))
WEAKER = finding("C4a", question(1), question(3))
LATE = finding("C4a", question(MANY - 3), question(MANY - 1))
NO = Reply(refusal="I will not")
CLAIM = finding("C3a", question(2), end(3))
# What the three windows say and what the confirming call says (None: there is none) -> the result.
WINDOWS: dict[str, tuple[Any, ...]] = {
    "none in all": (NOTHING, NOTHING, NOTHING, None, "none", None),
    "confirmed": (NOTHING, LAST, NOTHING, LAST, "labelled", "C1b"),
    "refuted": (NOTHING, LAST, NOTHING, NOTHING, "none", None),
    "in all, refuted": (LAST, LAST, LAST, NOTHING, "none", None),
    "two codes": (WEAKER, NOTHING, LAST, WEAKER, "labelled", "C4a"),
    "of the same code": (WEAKER, NOTHING, LATE, LATE, "labelled", "C4a"),
    "one that does not stand": (FALSE, NOTHING, LAST, LAST, "labelled", "C1b"),
    "another code refuted": (OTHER_FALSE, NOTHING, LAST, NOTHING, "undecided", None),
    "none that stands": (FALSE, NOTHING, FALSE, None, "undecided", None),
    "one window refused": (LAST, NO, NOTHING, None, "failed", None),
    "one window malformed": (LAST, NOTHING, Reply(answer={}), None, "failed", None),
    "one window down": (NOTHING, NOTHING, Reply(status=400), None, "failed", None),
    "the confirming call refused": (NOTHING, LAST, NOTHING, NO, "failed", None),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_propose_and_one_call_decides(name):
    *replies, confirming, status, primary = WINDOWS[name]
    with Server(lambda request: [confirming, *replies][window(request)]) as server:
        one = ask(server, LONG, reasks=0, **WINDOWED)
        asked = sorted(map(window, server.seen))
        last = server.seen[-1]
    assert asked == [0, 1, 2, 3] if confirming else [1, 2, 3]
    assert (one.status, one.primary, one.truncated) == (status, primary, {}), one.error
    if status == "failed":
        assert re.match(r"window [23] of 3: |confirming call: ", one.error or "")
    if status == "labelled":
        told = last.user[last.user.index("<findings ") :]
        quotes = {"C1b": [MANY - 1], "C4a": [1, 3]}[primary] + [MANY - 3] * (confirming is LATE)
        assert all(question(n)[1] in told for n in quotes)
        assert FALSE.answer["findings"][0]["quotes"][0]["text"] not in told
        shown = {part.source: part.text for part in last.parts}
        assert all(LONG.messages[n - 1].text == shown[f"message:{n}"] for n in quotes)


@pytest.mark.parametrize("confirms", [True, False])
def test_more_proposals_than_there_is_room_for_are_not_refuted(confirms):
    def respond(request: Request) -> Reply:
        names = [part.source for part in request.parts if part.source.startswith("message")]
        if not window(request) and not confirms:
            return NOTHING
        texts = [LONG.messages[int(name.partition(":")[2]) - 1].text[:590] for name in names[:3]]
        return finding("C4a", *zip(names, texts, strict=False))

    with Server(respond) as server:
        one = ask(server, LONG, rejected="none", **WINDOWED | {"context": 11_000})
        last = server.seen[-1]
    assert (window(last), one.error) == (0, None)
    told = last.user[last.user.index("<findings ") :]
    assert 1 <= told.count("C4a: ") < len(server.seen) - 1
    assert len(told) < len(last.user) / 2
    assert one.status == ("labelled" if confirms else "undecided")


UNREAD = Reply(answer={**LAST.answer, "last_tag": "I cannot say"})
TOO_LONG = Reply(status=400, error={"message": "the prompt is too long"})


@pytest.mark.parametrize("answer", [UNREAD, TOO_LONG], ids=["without its tag", "too long"])
def test_a_confirming_call_that_is_never_read_ends(answer):
    with Server(lambda request: LAST if window(request) else answer) as server:
        one = ask(server, LONG, reasks=0, **WINDOWED)
        assert sum(not window(request) for request in server.seen) <= 6
    assert (one.status, (one.error or "")[:17]) == ("failed", "confirming call: ")


def test_windows_that_the_server_finds_too_long_are_made_shorter():
    with Server(
        refuse_above(9_000, WORDINGS["with the completion"][0], scripted(NOTHING))
    ) as server:
        one = ask(server, LONG, mode="json", windows=True)
        read = [request for request in server.seen if request.length // 4 <= 9_000]
        assert one.usage.calls == len(server.seen) == len(read) + 1
    assert (one.status, one.truncated) == ("none", {})
    seen = {part.text for request in read for part in request.parts}
    assert {message.text for message in LONG.messages} <= seen


# What is missing is not known where it may not have been shown.


def answering(label: str, *findings: Reply) -> Reply:
    items = [one for reply in findings for one in reply.answer["findings"]]
    return Reply(answer={**TAGS, "findings": items, "label": label})


RUN = replace(
    LONG,
    patches={"a": "+from aquarium.pump import PUMP_TABLE\n", "b": "+from heater import HEAT\n"},
    outcome=Outcome(features=(Feature("1", output="ImportError: partially initialized module"),)),
)
SILENCE = finding("unresponsiveness", question(1), end(2))
IMPORT = ("patch:a", "+from aquarium.pump import PUMP_TABLE")
BREAKS = ("outcome", "ImportError: partially initialized module")
UNTOLD = finding("dependency_access", IMPORT, BREAKS)
TOLD_LATE = finding("2.4", question(MANY), end(MANY), label="some")
OVERLAP = finding("work_overlap", ("message:1", "What nobody ever wrote in it?"), IMPORT)
REPEATS = finding("repetition", question(1), question(3))
SOME, EVERYTHING = 17_500, 60_000
# A rubric, a context and an answer -> the status and what stands in the trace.
ABSENCES: dict[str, tuple[str, int, Reply, str, str]] = {
    "no answer": ("comm_errors", SOME, FIRST, "undecided", "C1b"),
    "no answer, all shown": ("comm_errors", EVERYTHING, FIRST, "labelled", "C1b"),
    "no answer, a wrong quote": ("comm_errors", SOME, FALSE, "none", ""),
    "a claim": ("comm_errors", SOME, CLAIM, "labelled", "C3a"),
    "the paper's no answer": ("comm_errors_paper", SOME, FIRST, "undecided", "C1b"),
    "the paper's silence": ("symptoms_paper", SOME, SILENCE, "undecided", "unresponsiveness"),
    "nobody told of it": ("symptoms", SOME, UNTOLD, "undecided", "dependency_access"),
    "nothing came before": ("mast", SOME, TOLD_LATE, "undecided", "2.4"),
    "only a wrong quote": ("symptoms", SOME, OVERLAP, "none", ""),
    "silence, and what stands": (
        *("symptoms", SOME, answering("unresponsiveness", SILENCE, REPEATS)),
        *("undecided", "unresponsiveness repetition"),
    ),
}


@pytest.mark.parametrize("windows", [False, True], ids=["one prompt", "windows"])
@pytest.mark.parametrize("name", ABSENCES)
def test_an_absence_is_not_known_where_the_rest_was_not_shown(name, windows):
    """No call shows all of the 60,000 characters in the smaller context."""
    rubric, context, answer, status, stands = ABSENCES[name]
    with Server(scripted(answer)) as server:
        how = WINDOWED | {"windows": windows, "context": context}
        one = ask(server, RUN, rubric, rejected="none", **how)
    assert one.status == status, one.error
    assert " ".join(found.code for found in one.findings) == stands
    if status == "undecided":
        assert f"whether it is {stands.split()[0]} is not known: message:" in (one.reason or "")
        assert one.codes == ()


def test_an_absence_is_known_where_all_that_follows_is_shown():
    with Server(scripted(LAST)) as server:
        one = ask(server, LONG, **WINDOWED)
        assert window(server.seen[-1]) == 0
        assert "characters left out" in server.seen[-1].user
    assert (one.status, one.primary) == ("labelled", "C1b")


# What the confirming call shows.


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
def test_the_confirming_call_shows_the_quotes_and_the_outcome_before_the_rest(case, context):
    trace, lines, code, patch = case
    trace = replace(trace, outcome=Outcome(features=(Feature("1", output=FAILED * lines),)))
    with Server(scripted(finding(code, stands(20), stands(21)))) as server:
        one = ask(server, trace, **WINDOWED | {"context": context})
        last = server.seen[-1]
    assert (one.error, window(last)) == (None, 0)
    shown = {part.source: "".join(head_and_tail(last, part.source)) for part in last.parts}
    assert {f"message:{n}" for n in range(18, 24)} <= shown.keys()
    assert all(trace.messages[n - 1].text == shown[f"message:{n}"] for n in (20, 21))
    assert min(lines, 20) * len(FAILED) <= len(shown["outcome"]) + 1 <= len(last.user) / 4
    assert ("patch:a" in shown) == patch


def test_quoted_texts_that_are_too_long_are_cut_around_their_quotes():
    half, line = "and so on it goes " * 600, "+    unit = 1\n"
    texts = [message.text for message in LONG.messages]
    texts[19:21] = [f"{half} {stands(n)[1]} {half}" for n in (20, 21)]
    added = "+    unit = 2  # of the parser"
    trace = talk(*texts, patches={"a": f"{line * 900}{added}\n{line * 900}"})
    with Server(scripted(finding("C3a", stands(20), stands(21), ("patch:a", added)))) as server:
        one = ask(server, trace, **WINDOWED | {"context": 13_000})
        last = server.seen[-1]
    assert (one.error, window(last)) == (None, 0)
    run = last.user[: last.user.index("</run ")]
    assert all(quote in run for _, quote in (stands(20), stands(21), ("patch:a", added)))
    assert "characters left out here" in run


@pytest.mark.parametrize(
    ("size", "found", "status"),
    [(300, False, "none"), (12_000, False, "undecided"), (12_000, True, "labelled")],
)
def test_nobody_refutes_what_the_confirming_call_has_no_room_to_show(size, found, status):
    texts = {n: " ".join(f"{n}.{word}" for word in range(size // 6)) for n in (20, 21)}
    messages = [replace(one, text=texts.get(one.n, one.text)) for one in LONG.messages]
    proposed = finding("C3a", *((f"message:{n}", text) for n, text in texts.items()))
    trace = replace(LONG, messages=tuple(messages))
    with Server(lambda one: proposed if window(one) or found else NOTHING) as server:
        one = ask(server, trace, rejected="none", **WINDOWED | {"context": 13_000})
        assert window(server.seen[-1]) == 0
    reason = "whether it is C3a is not known: there was no room for its quotes"
    assert (one.status, one.reason) == (status, reason if status == "undecided" else None)


# What a rubric shows -> the parts of a prompt beside the facts, and how many lines of facts.
TOLD = replace(
    RUN,
    patches={**RUN.patches, "b": ""},
    outcome=replace(RUN.outcome, passed=False, merge="conflicts"),
    read_tasks=lambda: {"a": "Feed the fish.", "b": "Heat the water."},
)
SHOWN: dict[str, tuple[tuple[TracePart, ...], set[str], int]] = {
    "all": ((), {"message", "patch", "outcome", "task"}, 3),
    "messages": (("messages",), {"message"}, 1),
    "messages and tasks": (("messages", "tasks"), {"message", "task"}, 1),
    "messages and the outcome": (("messages", "outcome"), {"message", "outcome"}, 3),
}


@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.parametrize("windows", [False, True])
def test_a_prompt_has_the_parts_that_the_rubric_shows(rubric, name, windows):
    show, parts, facts = SHOWN[name]
    shows = rubric.model_copy(update={"show": show} if show else {})
    with Server(scripted(LAST if windows else NOTHING)) as server:
        ask(server, TOLD, shows, **(WINDOWED if windows else {}))
        seen = server.seen
    assert len(seen) == (4 if windows else 1)  # the last confirms
    for request in seen:
        kinds = {part.source.partition(":")[0].partition(" ")[0] for part in request.parts}
        kinds = {kind for kind in kinds if not kind.isdigit()}
        assert {"message", "facts"} <= kinds <= parts | {"facts"}
        assert kinds == parts | {"facts"} or windows  # which have no room for tasks
        notes = ("window ", "not shown, ")
        lines = [x for x in request.part("facts").splitlines() if not x.startswith(notes)]
        assert (len(lines), lines[0]) == (facts, "agents: a, b")
