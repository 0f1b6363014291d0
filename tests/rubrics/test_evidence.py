"""Where quotes stand, and what is refused: the check that every finding has to pass.

The tables are in ``evidence.yaml``.
"""

import contextlib
import re
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from annotator.base.normalize import normalize_text
from annotator.rubrics import Rubric
from annotator.rubrics.annotations import Claim, Evidence, Quote, Verdict
from annotator.rubrics.evidence import check_verdict, describe_gap, locate, parse_source_id, verify
from annotator.traces import AgentEnd, Feature, Message, Outcome, Step, Trace

TABLES = yaml.safe_load(Path(__file__).with_name("evidence.yaml").read_text(encoding="utf-8"))


@contextlib.contextmanager
def promptly(seconds=10):
    """Stop what would hang; what takes linear time is done in a small part of ``seconds``."""

    def stop(*_):
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def talk(*texts, **more):
    """Return a trace in which agent1 says the first text, agent2 the second, and so on."""
    messages = [Message(n, f"agent{n}", (), text) for n, text in enumerate(texts, 1)]
    return Trace("t", "test", "", tuple(messages), **more)


def places(quote, text):
    """Return the places of a text, said by agent1, where the quote stands."""
    return [(span.start, span.end) for span in locate(quote, talk(text))]


@pytest.mark.parametrize("case", TABLES["accepted"])
def test_accepted(case):
    quote, text, *passage = TABLES["accepted"][case]
    (span,) = locate(quote, talk(text))
    assert span.quote == text[span.start : span.end] == (passage or [text])[0]
    assert span.source == "message:1"
    assert span.match == ("exact" if quote.strip() == span.quote else "typography")


@pytest.mark.parametrize("case", TABLES["refused"])
def test_refused(case):
    quote, text = TABLES["refused"][case]
    assert locate(quote, talk(text)) == []


def test_every_place_is_found_in_the_order_of_the_sources():
    trace = talk("go on, go on", "go on", patches={"agent1": "+go on\n"})
    found = [(span.source, span.start) for span in locate("go on", trace)]
    assert found == [("message:1", 0), ("message:1", 7), ("message:2", 0), ("patch:agent1", 1)]
    assert places("go on", "Go on. Now go on.") == [(11, 16)]  # an exact place wins
    assert len(places("go on", "go on " * 500)) == 100  # no more of one source


@pytest.mark.parametrize(
    ("origins", "sources"),
    [
        ((), ["message:1", "patch:agent1", "step:agent1:1", "step:agent1:2"]),
        ((("patches",),), ["patch:agent1"]),
        ((("messages", "outcome"),), ["message:1"]),
        ((("steps",),), ["step:agent1:1"]),
    ],
)
def test_origins_limit_the_search_and_steps_are_searched_only_if_asked_for(origins, sources):
    steps = {"agent1": (Step(1, "agent", "go on now"), Step(2, "tool", "go on now"))}
    trace = replace(talk("go on now", patches={"agent1": "+go on now\n"}), read_steps=lambda: steps)
    assert [span.source for span in locate("go on now", trace, *origins)] == sources


@pytest.mark.parametrize(
    ("quote", "found"),
    [
        *(("one test failed", True), ("out of memory", True), ("conflicts", True)),
        *(("test failed\ntwo tests", False), ("test failed two tests", False)),
        *(("failed\ntwo tests failed", False), ("conflicts\nout of memory", False)),
    ],
)
def test_no_quote_runs_across_two_reports(quote, found):
    outcome = Outcome(
        merge="conflicts",
        features=(Feature("1", output="one test failed"), Feature("2", output="two tests failed")),
        agents=(AgentEnd("agent1", error="out of memory"),),
    )
    assert bool(locate(quote, talk(outcome=outcome))) is found


def test_no_quote_runs_across_two_parts_of_a_message():
    trace = Trace("t", "test", "", (Message(1, "a", (), "I take it\nnot really", breaks=(9,)),))
    assert locate("take it\nnot", trace) == locate("take it not", trace) == []
    assert [span.start for span in locate("not really", trace)] == [10]
    # At 5 it runs across the break at 9; at 10 it does not, though both places overlap.
    trace = Trace("t", "test", "", (Message(1, "b", (), "I'll done done done", breaks=(9,)),))
    assert [(span.start, span.end) for span in locate("done done", trace)] == [(10, 19)]


def test_added_lines_may_be_quoted_without_their_signs():
    patch = "@@ -1,2 +1,4 @@\n-old line\n+first = 1\n+second = 2\n kept = 3\n"
    trace = Trace("t", "x", "", patches={"agent1": patch})
    (span,) = locate("first = 1\nsecond = 2", trace)
    assert (span.quote, span.source) == ("first = 1\n+second = 2", "patch:agent1")
    assert patch[span.start : span.end] == span.quote
    assert locate("old line\nsecond = 2", trace) == []
    assert locate("- first = 1\n- second = 2", trace) == []


# --- laws

LAW = settings(max_examples=100)

RICH = st.text(
    st.one_of(
        st.sampled_from(
            "ab nrt\\\n\t_*`~-—–\"'“”‘’….,:;!?()[]+=1中ßİſ\u200b\u00a0\ufeff\x00😀\u0301"
        ),
        st.characters(),
    ),
    max_size=60,
)


@LAW
@given(RICH, RICH)
@example("_a_ b c", "a b c")
@example("x\\ny z", "y z")
def test_a_span_is_the_text_at_its_place(text, quote):
    for span in locate(quote, talk(text)):
        assert text[span.start : span.end] == span.quote != ""
        if span.match == "exact":
            assert span.quote == quote.strip()


@LAW
@given(RICH.map(lambda text: text.replace("\ud800", "")), RICH, RICH)
def test_no_span_crosses_a_break(one, two, quote):
    text = f"{one}\n{two}"
    trace = Trace("t", "test", "", (Message(1, "a", (), text, breaks=(len(one),)),))
    for asked in (quote, text, text[len(one) // 2 : len(one) + 1 + len(two) // 2]):
        for span in locate(asked, trace):
            assert span.end <= len(one) or span.start > len(one)


@LAW
@given(RICH, st.data())
def test_a_slice_of_whole_words_is_found_at_its_place(text, data):
    words = [match.span() for match in re.finditer(r"\S+", text)]
    assume(words)
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, len(words) - 1))
    start, end = words[first][0], words[last][1]
    quote = text[start:end]
    assume(len(re.findall(r"\w+", normalize_text(quote).text)) >= 2)  # less may identify nothing
    spans = locate(quote, talk(text))
    assert (start, end) in [(span.start, span.end) for span in spans]
    assert {span.match for span in spans} == {"exact"}


# Words of several scripts with simple case, and the typography that may stand around them.
WORD = st.text("abnrtxyz0189éüяж中日", min_size=1, max_size=6)
WORDS = st.lists(WORD, min_size=4, max_size=12, unique_by=str.casefold)
AROUND = st.sampled_from(["{}", "{}", "{}", "*{}*", "**{}**", "`{}`", "_{}_", "~~{}~~"])
BETWEEN = st.sampled_from([" ", " ", "\n", "  ", "\t", "\u00a0", " \\n ", "\r\n"])


@st.composite
def dressed(draw):
    """Draw distinct words, and a text of them in typographic dress."""
    words = draw(WORDS)
    pieces = [draw(AROUND).format(word) for word in words]
    text = pieces[0]
    for piece in pieces[1:]:
        text += draw(BETWEEN) + piece
    return words, text


@LAW
@given(dressed())
def test_words_are_found_in_any_dress(drawn):
    words, text = drawn
    (place,) = places(" ".join(words), text)
    assert re.sub(r"[*`~_]", "", text[slice(*place)]) == re.sub(r"[*`~_]", "", text)


@LAW
@given(dressed(), st.data())
def test_a_word_that_is_left_out_added_replaced_or_moved_is_never_overlooked(drawn, data):
    words, text = drawn
    at = data.draw(st.integers(1, len(words) - 2))
    strange = data.draw(st.text("qkvж7日", min_size=1, max_size=5))
    assume(not any(strange.casefold() in word.casefold() for word in words))
    assume(not {"n", "r", "t"} & set(words))  # else the letter of an escape is one of the words
    for changed in (
        [*words[:at], *words[at + 1 :]],
        [*words[:at], strange, *words[at:]],
        [*words[:at], strange, *words[at + 1 :]],
        [*words[: at - 1], words[at], words[at - 1], *words[at + 1 :]],
    ):
        assert places(" ".join(changed), text) == []


# --- long texts: quadratic time would take minutes to hours

N = 100_000
MANY = [*"*` _\\~a\u0301\n\u0430", "\\n", "'\"", "-—", "_a_", "*a*"]


@pytest.mark.parametrize("piece", MANY)
def test_long_texts_and_quotes(piece):
    many = piece * (N // len(piece))
    with promptly():
        assert places("a the * parser", f"a {many} parser") == []
        assert places("take the parser", f"{many} take the parser {many}") != []
        assert places(f"x {many} y", "x take the parser y") == []
        assert places(f"agent1 {many}: take it all", "take the parser") == []
        assert places(f"{many} x", many) == places(f"{piece} a b", many) == []


def test_a_long_claim_has_a_short_reason():
    trace = talk(*("we will do that " * 3_000 for _ in range(5)))
    with promptly():
        _, (reason,) = verify(claim("free", ("we will do this " * 35, "message:1")), trace, RUBRIC)
    assert len(reason) < 600


# --- claims

CODE = {"name": "A code", "definition": "Something", "evidence": "Something"}
RUBRIC = Rubric.model_validate(
    {
        "id": "test",
        "version": 1,
        "title": "Test",
        "source": "made here",
        "choice": "primary",
        "instructions": "Judge",
        "codes": [
            {"id": "pair", **CODE},
            {"id": "free", **CODE, "min_quotes": 1},
            {"id": "coded", **CODE, "must_quote": ["patches", "outcome"], "min_quotes": 1},
        ],
        "precedence": ["pair", "free", "coded"],
    }
)
TRACE = Trace(
    "t",
    "test",
    "",
    (
        Message(1, "agent1", ("agent2",), "I take the parser. You take the printer."),
        Message(2, "agent2", ("agent1",), "Fine, I take the printer now."),
        Message(3, "shell", (), "3 files were changed", author="tool"),
        Message(4, "agent1", (), "go on now, go on now"),
        *(Message(n, "agent2", (), "I take it all") for n in range(5, 9)),
        Message(9, "shell", (), "agent1: go on now", author="tool"),
        Message(10, "agent1", (), "The parser is mine."),
        Message(11, "agent2", (), "go on now with the parser. Then go on now."),
    ),
    {"agent1": "+parser = 1\n", "agent2": "+printer = 1\n"},
    Outcome(merge="conflicts", error="CONFLICT in main.py"),
    read_steps=lambda: {"agent1": (Step(1, "agent", "I read the whole file"),)},
)
QUOTES = {
    "ask": ("I take the parser", "message:1"),
    "more": ("You take the printer", "message:1"),
    "reply": ("Fine, I take the printer now", "message:2"),
    "owned": ("The parser is mine", "message:10"),
    "line": ("+parser = 1", "patch:agent1"),
    "theirs": ("+printer = 1", "patch:agent2"),
    "report": ("CONFLICT in main.py", "outcome"),
}


def claim(code, *quotes):
    """Return a claim from pairs of a quote and the source that it names."""
    return Claim(code, "because", tuple(Quote(text, source) for text, source in quotes))


@pytest.mark.parametrize("case", TABLES["claims"])
def test_claims(case):
    code, quotes, expected = TABLES["claims"][case]
    findings, rejected = check_verdict(Verdict((claim(code, *quotes),)), TRACE, RUBRIC)
    if isinstance(expected, list):
        (finding,) = findings
        assert (finding.code, finding.rationale, rejected) == (code, "because", [])
        passages = [[item.source, item.start, item.match] for item in finding.evidence]
        assert passages == expected
    else:
        ((one,), none) = rejected, findings
        assert (none, one.code, one.quotes) == ([], code, tuple(text for text, _ in quotes))
        assert expected in one.reason


@pytest.mark.parametrize("spelling", TABLES["sources"])
def test_sources(spelling):
    source = TABLES["sources"][spelling]
    quote = {source: text for text, source in QUOTES.values()}.get(source, "The moon")
    passages, wrong = verify(claim("free", (quote, spelling)), TRACE, RUBRIC)
    assert [item.source for item in passages] == ([source] if source else [])
    assert ("(no such source)" in "".join(wrong)) is (source is None)
    assert source is None or parse_source_id(spelling) == source


@pytest.mark.parametrize(
    "agent", ["planner agent", "coder (gpt)", "a:b", "[bot]", "agent #2", "`x`", "Agent1"]
)
def test_patch_of_an_agent_with_any_name_can_be_quoted(agent):
    trace = Trace("t", "test", "", (), {agent: "+parser = 1\n"})
    passages, wrong = verify(claim("free", ("+parser = 1", f"patch:{agent}")), trace, RUBRIC)
    assert (wrong, [item.source for item in passages]) == ([], [f"patch:{agent}"])


def test_quote_found_nowhere_names_a_similar_passage():
    bad = claim("free", ("I took the parsers", "message:1"))
    _, (reason,) = verify(bad, talk("I take the parser"), RUBRIC, hints=True)
    assert "not found in message:1, nor anywhere else" in reason
    assert 'similar, in message:1: "I take the parser"' in reason


def test_rubric_that_accepts_tools_accepts_them():
    rubric = RUBRIC.model_copy(update={"quote_from": ("tools", "steps")})
    quotes = (("3 files were changed", "message:3"), ("I read the whole file", "step:agent1:1"))
    passages, wrong = verify(claim("pair", *quotes), TRACE, rubric)
    assert (wrong, [item.source for item in passages]) == ([], ["message:3", "step:agent1:1"])


@pytest.mark.parametrize(
    ("quoted", "cause", "shown"),
    [
        (["reply"], ("agent2", 2), (None, None)),
        (["reply", "owned"], ("agent2", 2), ("agent1", 10)),
        (["owned", "ask"], ("agent1", 10), (None, None)),  # where it shows is no earlier message
        (["ask", "more", "reply"], ("agent1", 1), ("agent2", 2)),  # nor the same one
        (["ask", "shell"], ("agent1", 1), ("shell", 3)),  # an error that a tool prints
        (["shell", "reply"], ("agent2", 2), (None, None)),  # a tool causes nothing
        (["shell", "owned"], ("agent1", 10), (None, None)),
        (["report"], (None, None), (None, None)),
    ],
)
def test_the_first_quote_is_of_the_cause_and_the_next_later_one_of_where_it_shows(
    quoted, cause, shown
):
    origins = ("messages", "tools", "outcome")
    rubric = RUBRIC.model_copy(update={"quote_from": origins, "attribution": True})
    quotes = QUOTES | {"shell": ("3 files were changed", "message:3")}
    verdict = Verdict((claim("free", *(quotes[name] for name in quoted)),))
    ((finding,), _) = check_verdict(verdict, TRACE, rubric)
    assert (finding.agent, finding.step) == cause
    assert (finding.shown_agent, finding.shown_step) == shown
    assert finding.steps == (11 if finding.agent else None)
    plain = rubric.model_copy(update={"attribution": False})
    ((finding,), _) = check_verdict(verdict, TRACE, plain)
    assert (finding.agent, finding.steps) == (None, None)


def test_second_claim_of_a_code_is_refused_if_the_first_stands():
    ask, reply, moon = QUOTES["ask"], QUOTES["reply"], ("I take the moon", "message:1")
    claims = (claim("free", ask), claim("free", reply), claim("pair", ask, reply))
    findings, (rejected,) = check_verdict(Verdict(claims), TRACE, RUBRIC)
    sources = [(one.code, one.evidence[0].source) for one in findings]
    assert sources == [("free", "message:1"), ("pair", "message:1")]
    assert rejected.reason == "free: given twice"
    claims = (claim("free", moon), claim("free", reply))
    (finding,), (rejected,) = check_verdict(Verdict(claims), TRACE, RUBRIC)
    assert (finding.evidence[0].source, rejected.code) == ("message:2", "free")
    assert check_verdict(Verdict(), TRACE, RUBRIC) == ([], [])


# --- places that a judge gives

AGAIN = Trace("t", "test", "", (
    Message(1, "agent1", (), "go on with it, go on with it, go on within\nI stop", breaks=(42,)),
))  # fmt: skip


@pytest.mark.parametrize("row", TABLES["given"], ids=str)
def test_a_place_that_a_judge_gives_is_kept_if_the_quote_stands_there(row):
    """Where it does not, the quote is looked for, and stands first at 0."""
    quote, passage, expected = row
    given = replace(claim("free", (quote, "message:1")), evidence=(Evidence(*passage),))
    passages, wrong = verify(given, AGAIN, RUBRIC)
    if isinstance(expected, int):
        found = [(item.quote, item.start) for item in passages]
        assert (wrong, found) == ([], [("go on with it", expected)])
    else:
        assert (passages, len(wrong)) == ([], 1)
        assert wrong[0].endswith(expected)


def test_places_that_a_judge_gives_must_be_as_many_as_its_quotes_and_apart():
    first = Evidence("go on with it", "message:1", 0, 13, "exact")
    for evidence in ((first,), (first, first)):
        given = replace(claim("pair", *[("go on with it", "message:1")] * 2), evidence=evidence)
        passages, wrong = verify(given, AGAIN, RUBRIC)
        assert ([item.start for item in passages], wrong) == ([0, 15], [])


@LAW
@given(RICH, RICH, st.sampled_from(["message:1", "message:2", "1", "patch:agent1", "?"]))
def test_what_is_accepted_stands_in_its_source(text, quote, source):
    trace = talk(text, "take the parser", patches={"agent1": text})
    passages, wrong = verify(claim("free", (quote, source)), trace, RUBRIC)
    assert bool(passages) is not bool(wrong)
    for item in passages:
        assert trace.source(item.source).text[item.start : item.end] == item.quote


# --- where the quotes of a finding come from

TWO = [["messages"], ["messages"]]
PROOF = [["messages"], ["messages", "patches", "outcome"]]
PLACES = {
    "repeated": {"places": TWO, "authors": "same", "separate_messages": True},
    "ignored": {"places": TWO, "authors": "different", "separate_messages": True},
    "refuted": {"places": PROOF},
    "refuted_elsewhere": {"places": PROOF, "separate_messages": True},
    "doubled": {"places": [["messages", "patches"]] * 2, "authors": "different"},
    "broken": {"places": [["patches"], ["outcome"]]},
}
PLACES_RUBRIC = Rubric.model_validate(
    {
        **RUBRIC.model_dump(exclude={"codes", "precedence"}),
        "min_quotes": 1,
        "choice": "many",
        "precedence": [],
        "codes": [{"id": name, **CODE, **fields} for name, fields in PLACES.items()],
    }
)


@pytest.mark.parametrize(("code", "names", "fills"), TABLES["places"])
def test_the_quotes_of_a_finding_fill_its_places(code, names, fills):
    _, wrong = verify(claim(code, *(QUOTES[name] for name in names)), TRACE, PLACES_RUBRIC)
    assert (wrong == []) == fills
    if not fills and len(names) > 1:
        assert wrong == [f"{code}: quotes needed: {PLACES_RUBRIC.describe_quotes(code)}"]


@pytest.mark.parametrize(
    ("code", "names", "gap"),
    [
        ("repeated", [], "quotes: at least 2, one from the messages and another"),
        ("repeated", ["ask"], "one more quote, from another message of agent1"),
        ("repeated", ["ask", "more"], "one more quote, from another message of agent1"),
        ("repeated", ["ask", "reply"], "one more quote, from another message"),
        ("repeated", ["ask", "reply", "owned"], ""),
        ("ignored", ["ask"], "one more quote, from another message of agent2"),
        ("refuted", ["line"], "one more quote, from a message"),
        ("refuted", ["ask"], "one more quote"),
        ("doubled", ["ask"], "one more quote, from a message or a patch of agent2"),
        ("doubled", ["ask", "owned"], "one more quote, from a message or a patch of agent2"),
        ("doubled", ["ask", "theirs"], ""),
        ("broken", ["line"], "one more quote, from the outcome"),
        ("broken", ["report"], "one more quote, from a patch"),
        ("broken", ["ask"], "quotes: at least 2, one from the patches and another"),
        ("doubled", ["ask", "ask"], "one more quote, from a message or a patch of agent2; quote"),
    ],
)
def test_which_quotes_a_claim_still_needs_is_named(code, names, gap):
    found = describe_gap(claim(code, *(QUOTES[name] for name in names)), TRACE, PLACES_RUBRIC)
    assert found.startswith(gap)
    assert bool(found) == bool(gap)
    if gap.startswith("one") and not gap.endswith("; quote"):
        assert found == gap
