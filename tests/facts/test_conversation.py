"""Facts of the conversation, through ``facts`` and the public functions, on talks made here."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotator.evidence import spans_in
from annotator.facts import conversation, naming, questions, repeats, unread
from annotator.facts.mentions import lines_in, paths_in, symbols_in
from annotator.facts.prose import MOST_TEXT
from annotator.facts.registry import know
from annotator.facts.stated import agreed, assured, promises, retracted
from annotator.traces import Message, Trace
from tests.growth import LIMIT, cuts, growth, parts


def talk(*lines, kind=None):
    """Return a trace of messages from lines "sender: text"."""
    pairs = [line.split(": ", 1) for line in lines]
    messages = tuple(
        Message(n, sender, (), text, kind=kind) for n, (sender, text) in enumerate(pairs, 1)
    )
    return Trace("run", "test", "", messages)


MODULES = (conversation, promises, retracted, assured, agreed, questions, repeats, naming, unread)
KINDS = {kind: what for module in MODULES for kind, what in module.KINDS.items()}


def facts(trace):
    return know(trace).of(*KINDS)


def checked(trace):
    """Return the facts of a trace after checking what holds of every fact."""
    found = facts(trace)
    assert found == facts(trace)
    sources = {source.id: source for source in trace.sources(("messages",))}
    for fact in found:
        assert fact.kind in KINDS
        assert "\n" not in fact.says
        json.dumps(dict(fact.about))
        assert fact.spans or fact.kind == "not_read"
        for span in fact.spans:
            source = sources[span.source]
            assert 0 <= span.start < span.end <= len(source.text)
            assert not any(span.start <= at < span.end for at in source.breaks)
            assert spans_in(source.text[span.start : span.end], source), fact
    return found


def of(trace, *kinds):
    return [fact for fact in checked(trace) if fact.kind in kinds]


def quoted(trace, span):
    return trace.source(span.source).text[span.start : span.end]


# --- names -------------------------------------------------------------------------------------

PATHS = {
    "I edit harbour/tides.py and docs/.": ["harbour/tides.py"],
    "See tides.py, tides.py.": ["tides.py", "tides.py"],
    "a.py/b.py": ["a.py", "b.py"],
    "Below src/harbour/ and src/pier now": ["src/harbour/", "src/pier"],
    "and/or get_row/put_row on team/agent1, e.g. v1.2": [],
    "https://example.org/x.py": [],
    "the `harbour/__init__.py`:12": ["harbour/__init__.py"],
    "/srv/app/main.go;../x.toml": ["/srv/app/main.go", "../x.toml"],
    "Makefile and node.js": ["Makefile"],
}


@pytest.mark.parametrize("text", PATHS)
def test_paths(text):
    found = paths_in(text)
    assert [one.name for one in found] == PATHS[text]
    assert all(text[one.start : one.end] == one.name for one in found)


LINES = {
    "lines 10-25": [(10, 25)],
    "line 7, and lines ~30–40": [(7, 7), (30, 40)],
    "lines 3, 7 and 12-14": [(3, 3), (7, 7), (12, 14)],
    "(L5-L9) L12": [(5, 9), (12, 12)],
    "tides.py:88-90, tides.py:4": [(88, 90), (4, 4)],
    "lines 10 to 25": [(10, 25)],
    "5 lines, version 8.2.0, at 10:30": [(30, 30)],
    "lines 120-35": [(120, 120)],
}


@pytest.mark.parametrize("text", LINES)
def test_lines(text):
    assert [(one.first, one.last) for one in lines_in(text)] == LINES[text]


SYMBOLS = {
    "I add tide_table and TideTable.": ["tide_table", "TideTable"],
    "Tide.height() calls height() on self.level_m": ["Tide.height", "height", "level_m"],
    "the new unit parameter and the optional parameter": ["unit"],
    "`unit` with pier=None": ["unit", "pier"],
    "get_row/put_row in src/row_store/a_b.py": ["get_row", "put_row"],
    "Nothing here, e.g. GitHub or a plain word. Next one": [],
    "__init__ and _level": ["__init__", "_level"],
}


@pytest.mark.parametrize("text", SYMBOLS)
def test_symbols(text):
    found = symbols_in(text)
    assert [one.name for one in found] == SYMBOLS[text]
    assert all(text[one.start : one.end] == one.name for one in found)


def test_each_name_is_one_fact_of_a_message_and_code_does_not_count():
    text = (
        "type: DRAFT\nfiles: tides.py\ncode: def other_name():\n    pass\n"
        "note: tides.py gets tide_table, lines 3-4"
    )
    found = of(talk(f"a: {text}"), "mention_path", "mention_symbol", "mention_lines")
    assert [(fact.kind, dict(fact.about)) for fact in found] == [
        ("mention_path", {"message": 1, "count": 2, "path": "tides.py"}),
        ("mention_symbol", {"message": 1, "count": 1, "symbol": "tide_table"}),
        ("mention_lines", {"message": 1, "count": 1, "lines": [3, 4]}),
    ]


# --- types -------------------------------------------------------------------------------------


def test_positions_count_the_messages_of_each_sender():
    trace = talk("a: Adding tides.", "b: Adding piers.", "a: Adding tides.")
    found = know(trace).of("message_type")
    about = [(fact.about["type"], fact.about["position"]) for fact in found]
    assert about == [("plan", 0), ("plan", 0), ("plan", 1)]


# --- questions ---------------------------------------------------------------------------------

ASK = "a: Do overdue fines round up or down?"
QUESTIONS = {
    "answered": ([ASK, "b: Fines round up."], ["question", "reply"], 2),
    "answered late": (
        [ASK, "b: The card layout is finished by now.", "b: As to fines, they round up."],
        ["question", "reply"],
        3,
    ),
    "no reply": (
        ["b: I take the card layout.", ASK],
        ["question", "no_reply"],
        1,
    ),
    "no reply, remarked": (
        [ASK, "a: No answer received, so I take the ceiling."],
        ["question", "no_reply"],
        2,
    ),
    "past it": (
        [ASK, "b: Finished the borrower card layout, moving on to its colours."],
        ["question", "not_addressed"],
        2,
    ),
    "taken back": ([ASK, "a: Never mind, the readme says it."], ["question", "withdrawn"], 2),
    "request": (
        ["a: Please send the names of your columns.", "b: The columns are hour and tide."],
        ["request", "reply"],
        2,
    ),
    "action": (["a: Please rebase the table on mine."], [], None),
    "can you act": (["a: Can you rebase the table on mine?"], [], None),
    "courtesy": (["a: Please tell me if the table breaks."], [], None),
    "closing": (["a: I take the tide table. Sound good?"], [], None),
    "nobody there": ([ASK], ["question", "no_reply"], None),
}


@pytest.mark.parametrize("case", QUESTIONS)
def test_questions(case):
    lines, kinds, shown_in = QUESTIONS[case]
    wanted = ("question", "request", "reply", "no_reply", "not_addressed", "withdrawn")
    found = of(talk(*lines), *wanted)
    assert [fact.kind for fact in found] == kinds
    if found:
        assert found[1].about["shown_in"] == shown_in
        assert found[0].agents[0] == "a"


def test_a_question_tells_how_often_the_partner_wrote_after_it():
    trace = talk(
        ASK, "b: Finished the borrower card layout as well.", "b: Its colours come next in my list."
    )
    fact = of(trace, "not_addressed")[0]
    assert fact.about["partner_messages_after"] == 2
    assert quoted(trace, fact.spans[0]) == "Do overdue fines round up or down?"
    assert fact.spans[1].source == "message:2"


# --- repeats -----------------------------------------------------------------------------------

STATUS = "Status of the harbour page: the tide table is finished.\nAll of its tests pass here."
FACT = "The ferry table lists the harbour first, then the pier, and the lighthouse comes last."
REPEATS = {
    "block": (
        [f"a: {STATUS}", "b: Fine.", f"a: {STATUS}"],
        None,
        ("near_duplicate", "status_block"),
    ),
    "fact": ([f"a: {FACT}", f"a: {FACT}"], None, ("near_duplicate", "information")),
    "reminder": ([ASK + f" {FACT}", ASK + f" {FACT}"], None, ("near_duplicate", "reminder")),
    "resend": (
        [f"a: {FACT}", f"a: {FACT} (resend)"],
        None,
        ("near_duplicate", "resend"),
    ),
    "echo": ([f"a: {FACT}", f"b: {FACT}"], "AGREE", ("protocol_echo", "echo")),
    "other sender": ([f"a: {FACT}", f"b: {FACT}"], None, None),
    "new number": ([f"a: {FACT} Row 3.", f"a: {FACT} Row 4."], None, None),
    "short": (["a: Understood, thanks.", "a: Understood, thanks."], None, None),
}


@pytest.mark.parametrize("case", REPEATS)
def test_repeats(case):
    lines, kind, expected = REPEATS[case]
    found = of(talk(*lines, kind=kind), "near_duplicate", "protocol_echo")
    assert [(fact.kind, fact.about["variant"]) for fact in found] == (
        [expected] if expected else []
    )


# --- statements --------------------------------------------------------------------------------

# text of a later message -> kind, and what must stand in about
STATEMENTS = {
    "I'll add tide_table() to tides.py.": (
        "commitment",
        {"action": "add", "symbols": ["tide_table"], "files": ["tides.py"], "hedged": False},
    ),
    "I will append pier_row after tide_row in tides.py": (
        "commitment",
        {"action": "add", "symbols": ["pier_row"]},
    ),
    "If you agree, I'll take tides.py.": ("commitment", {"action": "own", "hedged": True}),
    "I own tides.py from here on.": ("commitment", {"action": "own", "files": ["tides.py"]}),
    "Added tide_table() in tides.py, lines 3-9.": (
        "completion_claim",
        {"action": "add", "symbols": ["tide_table"], "lines": [[3, 9]], "form": "done"},
    ),
    "I have removed old_table.": ("completion_claim", {"action": "remove"}),
    "The tide table is now in place.": ("completion_claim", {"form": "done"}),
    "All tests pass (12 passed).": ("completion_claim", {"form": "tests"}),
    "There is no conflict between our edits.": (
        "assurance",
        {"claim": "no_conflict", "hedged": False},
    ),
    "Our edits should merge cleanly.": ("assurance", {"claim": "no_conflict", "hedged": True}),
    "We work in disjoint regions of tides.py.": (
        "assurance",
        {"claim": "disjoint", "files": ["tides.py"]},
    ),
    "I won't touch pier_row.": (
        "assurance",
        {"claim": "untouched", "tense": "future", "symbols": ["pier_row"]},
    ),
    "I did not touch piers.py.": (
        "assurance",
        {"claim": "untouched", "tense": "past", "files": ["piers.py"]},
    ),
    "I only touch tides.py.": ("assurance", {"claim": "only", "files": ["tides.py"]}),
    "Put pier_row right after `tide_row`.": (
        "placement_agreement",
        {"relation": "after", "tight": True, "agreed_in": None},
    ),
    "You push first, then I rebase.": ("order_agreement", {"first": "b"}),
    "I'll rebase on top of your branch.": ("order_agreement", {"first": "b"}),
}


@pytest.mark.parametrize("text", STATEMENTS)
def test_statements(text):
    kind, about = STATEMENTS[text]
    found = of(talk("a: Hello there.", "b: Hello to you.", f"a: {text}"), kind)
    assert len(found) == 1
    assert {name: found[0].about[name] for name in about} == about
    assert found[0].about["message"] == 3


NO_STATEMENT = {
    "You added tide_table, I think.": "completion_claim",
    "Once I have added tide_table, I push.": "completion_claim",
    "tide_table will be added by you": "completion_claim",
    "Please add tide_table().": "commitment",
    "I will not add tide_table().": "commitment",
    "Let us split it so we don't conflict.": "assurance",
    "Please don't touch tides.py.": "assurance",
    "Stop here - do not touch tides.py.": "assurance",
    "A disjoint file split is not possible.": "assurance",
    "Do our edits conflict, or is there no overlap?": "assurance",
    "After lunch I add more.": "placement_agreement",
    "The first row comes first.": "order_agreement",
    "I'll ping you before you go.": "order_agreement",
    "Let me know once you push.": "order_agreement",
    "Sending more after I implement it.": "order_agreement",
    "The tree was clean before my edits.": "order_agreement",
}


@pytest.mark.parametrize("text", NO_STATEMENT)
def test_no_statement(text):
    assert of(talk("a: Hello there.", f"a: {text}"), NO_STATEMENT[text]) == []


def test_each_verb_is_a_statement_of_its_own():
    found = of(talk("a: Hello.", "a: I'll add tide_table and update pier_row."), "commitment")
    assert [(one.about["action"], one.about["symbols"]) for one in found] == [
        ("add", ["tide_table"]),
        ("change", ["pier_row"]),
    ]


def test_work_under_way_is_a_commitment_in_the_first_message_only():
    trace = talk("a: adding tide_table to tides.py", "a: adding pier_row to tides.py")
    assert [one.about["message"] for one in of(trace, "commitment")] == [1]


def test_an_agreement_names_the_message_that_accepts():
    trace = talk("a: Put pier_row right after tide_row.", "b: Agreed, that is fine.")
    assert of(trace, "placement_agreement")[0].about["agreed_in"] == 2


# --- bounds ------------------------------------------------------------------------------------

HOSTILE = {
    "one letter": "a" * 100_000,
    "stops": "." * 100_000,
    "questions": "? " * 50_000,
    "blanks": " " * 100_000 + "x y",
    "slashes": "a/" * 50_000,
    "dots": "a." * 50_000,
    "underscores": "_" * 100_000,
    "backticks": "`" * 100_000,
    "fences": "```\n" * 25_000,
    "fields": "type: X\n" + "code: x\nnote: y\n" * 6_000,
    "verbs": "I will add a_b and " * 5_000,
    "promises": "I'll not, I'll not, " * 5_000,
    "no": "no conflict, " * 8_000,
    "first": "you go on " * 10_000,
    "lines": "lines " + "1, " * 30_000,
    "digits": "1" * 100_000,
    "brackets": "a(" * 50_000,
    "quotes": "> quoted text\n" * 7_000,
    "surrogates": "\udcff I'll add \udcff_\udcff. " * 6_000,
    "nul": "I added a_b.\x00\r\n" * 6_000,
    "marks": "I added a_b\u0301 to\u0301 b.py\u0301. " * 4_000,
    "turkish": "İ I'LL ADD tide_table İ. " * 4_000,
}


@pytest.mark.parametrize("part", parts(4))
@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_text_takes_bounded_time(case, part):
    small, large = (
        talk(f"a: {text}", f"b: {text}") for text in cuts(HOSTILE[case], part, MOST_TEXT)
    )
    assert growth(facts, small, large) < LIMIT
    assert any(fact.kind == "not_read" for fact in checked(large))


def test_what_is_not_read_is_said():
    long = "word " * 10_000
    said = know(talk(*[f"a: {long}" for _ in range(60)])).of("not_read")
    left = {one.about["source"]: one.about["characters"] for one in said}
    assert left["message:1"] == len(long) - 19_999
    assert left["message:60"] == len(long)
    many = talk(*["a: Hello you two."] * 2_001)
    assert [one.about["source"] for one in know(many).of("not_read")] == ["message:2001"]


def test_text_of_tools_is_nobodys_statement():
    message = Message(1, "tool", (), "I will add tide_table. Which unit is it?", tool=True)
    assert checked(Trace("run", "test", "", (message,))) == []


@pytest.mark.parametrize(("length", "names"), [(90, 1), (150, 0)])
def test_a_name_is_quoted_with_the_whole_word_or_not_at_all(length, names):
    trace = talk(f"a: see {'x' * length}'s-parish/20_zpid/")
    assert len(of(trace, "mention_path")) == names


def test_no_passage_crosses_a_break():
    text = "I added the\ntide_table to tides.py"
    message = Message(1, "a", (), text, breaks=(11,))
    checked(Trace("run", "test", "", (message,)))


WORDS = st.sampled_from(
    [
        "I'll",
        "add",
        "tide_table()",
        "tides.py",
        "lines 3-7,",
        "no conflict.",
        "after",
        "`x`",
        "\n",
        "```",
        "you",
        "first?",
        "please",
        "send",
        "type:",
        "code:",
        "note:",
        "done",
        ">",
        "- -3",
        "1.5",
        "don't",
        "touch",
        "\u0301",
        "e.g.",
        "\\n",
        "\x85",
        "“so”",
        "é",
        "a-b",
        "#",
        "*x*",
    ]
)


@settings(max_examples=200)
@given(st.lists(st.lists(WORDS, max_size=25).map(" ".join), max_size=6), st.data())
def test_any_talk_gives_facts_that_can_be_quoted(texts, data):
    messages = []
    for n, text in enumerate(texts, 1):
        breaks = (
            data.draw(
                st.lists(st.sampled_from([i for i, c in enumerate(text) if c == " "]), max_size=2)
            )
            if " " in text
            else []
        )
        messages.append(Message(n, "ab"[n % 2], (), text, breaks=tuple(sorted(set(breaks)))))
    checked(Trace("run", "test", "", tuple(messages)))


def test_a_form_that_begins_behind_an_odd_blank_has_no_field():
    checked(Trace("run", "test", "", (Message(1, "b", (), "\x85 type:"),)))


@pytest.mark.parametrize("part", parts(3))
def test_real_runs(real_runs, part):
    for trace in real_runs[::part]:
        checked(trace)
