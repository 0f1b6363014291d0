"""Facts of the conversation: what messages are, what they propose, accept and name; any text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotator.facts.mentions import lines_in, paths_in
from annotator.facts.prose import MOST_TEXT
from annotator.facts.registry import KINDS, MODULES, draw_facts
from annotator.traces import Message, Outcome, Trace
from tests.facts.diffs import change, checked, quotes, run, talk
from tests.growth import FACTOR, LIMIT, cuts, growth, parts

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
    "5 lines, version 8.2.0, at 10:30": [(30, 30)],
    "lines 120-35": [(120, 120)],
}


@pytest.mark.parametrize("text", LINES)
def test_lines(text):
    assert [(one.first, one.last) for one in lines_in(text)] == LINES[text]


# --- proposals, acceptances ---------------------------------------------------------------------


# text -> None, or whether it is put against another
PROPOSALS = {
    "I propose that you take tides.py.": False,
    "Proposal: one file each.": False,
    "I'd suggest a new table for it.": False,
    "Let's split it by file.": False,
    "I propose to use a list instead.": True,
    "Alternatively, the clock goes into its own file.": True,
    "Either you take the clock or I do.": True,
    "I suggest the table rather than the clock.": True,
    "I take the tide table.": None,
    "Please propose a name for it.": None,
}


@pytest.mark.parametrize("text", PROPOSALS)
def test_proposals(text):
    expected = PROPOSALS[text]
    found = checked(run([f"a: {text}"]), "proposal")
    assert [fact.about["counter"] for fact in found] == ([] if expected is None else [expected])


def test_a_revision_is_a_counterproposal_by_its_type_and_a_message_makes_one_proposal():
    trace = run(["a: I propose a list. Let's take a table."], kind="REVISE")
    [fact] = checked(trace, "proposal")
    assert fact.about == {"message": 1, "counter": True, "own_type": "revise"}
    assert quotes(trace, fact) == ["I propose a list."]


ACCEPTANCES = {
    "Agreed, that is fine.": True,
    "OK, I do it so.": True,
    "Yes, the table is mine.": True,
    "Works for me, thank you.": True,
    "agent1: accepted, as you say.": True,
    "Thank you for the note. Agreed on the table.": True,
    "No, the table is mine.": False,
    "The tide is high. The ebb is low. Agreed.": False,
    "I do not agree with it.": False,
}


@pytest.mark.parametrize("text", ACCEPTANCES)
def test_acceptances(text):
    found = checked(run(["a: I propose a table.", f"b: {text}"]), "acceptance")
    assert [fact.agents for fact in found] == ([("b",)] if ACCEPTANCES[text] else [])


def test_a_first_message_accepts_nothing_and_a_type_accepts_by_itself():
    assert checked(run(["a: Agreed, that is fine."]), "acceptance") == []
    accepted = run(["a: Hello there.", "b: The tide is high."], kind="ACCEPT")
    [fact] = checked(accepted, "acceptance")
    assert (fact.about["message"], quotes(accepted, fact)) == (2, ["The tide is high."])


# --- bounds ------------------------------------------------------------------------------------


def test_what_is_not_read_is_said():
    long = "word " * 10_000
    said = checked(run([f"a: {long}" for _ in range(60)]), "not_read")
    left = {one.about["source"]: one.about["characters"] for one in said}
    assert left["message:1"] == len(long) - 19_999
    assert left["message:60"] == len(long)
    many = run(["a: Hello you two."] * 2_001)
    assert [one.about["source"] for one in checked(many, "not_read")] == ["message:2001"]


def test_a_long_question_is_cut_between_words():
    text = "Which unit does your tide table store, given " + "many other tables " * 80 + "too?"
    trace = run([f"a: {text}"])
    [quote] = quotes(trace, checked(trace, "question")[0])
    assert len(quote) <= 300
    assert text[len(quote)] == " "
    whole = (
        "Which unit does your table store (the one for tides), given "
        + "many tables " * 40
        + "too?"
    )
    trace = run([f"a: {whole}"])
    assert quotes(trace, checked(trace, "question")[0]) == [whole]  # a clause is not cut


def test_no_passage_crosses_a_break():
    text = "Which unit does\nyour tide table store?"
    for joined, breaks, asked in ((" ", (), 1), ("\n", (15,), 0)):
        message = Message(1, "a", (), text.replace("\n", joined), breaks=breaks)
        assert len(checked(run((message,)), "question")) == asked


PIECES = st.sampled_from([
    *("I won't touch", "I did not touch", "tides.py", "`tides.py`", "and", "no conflict"),
    *("between", "our edits", ".", ",", "", "\n", "implement", "both", "your feature", "(yours)"),
    *("`level(1)`", "you go", "I push", "first", "Agreed.", "I'll layer it on top", "```\n"),
    *("\n```\n", "tide = level(1)", "type: DRAFT", "type:", "code:", "\nnote:", "done", "if", "?"),
    *("merge cleanly.", "should", "graded separately.", "disjoint lines", "1.5", "which is it"),
    *("I added the row", "dropped", "from my patch", "don't", "e.g.", "*x*", "> x", "é", "İ"),
    *("\x00", "\x85", "\u2028", "\u202e", "\u0301", "\udcff", "“so”", "\\n", "please send", "#"),
])  # fmt: skip
TEXTS = st.lists(PIECES, max_size=18).map(" ".join) | st.text(max_size=20)
AGENTS = ("a", "b", "c\u202e\x1b[31m")
BODIES = st.lists(
    st.sampled_from([" harbour", "-tide = 1", "+tide = level(1)", "+x", "+é\x00 \u202eb"]),
    min_size=1, max_size=6,
).map("\n".join)  # fmt: skip
PATCHES = BODIES.map(lambda body: change(body, "tides.py")) | st.text(max_size=30)


@st.composite
def runs(draw):
    messages = []
    for n, text in enumerate(draw(st.lists(TEXTS, max_size=5)), 1):
        places = [at for at, char in enumerate(text) if char in " \n"]
        breaks = draw(st.sets(st.sampled_from(places), max_size=2)) if places else ()
        kind = draw(st.sampled_from([None, None, "PROPOSE", "DONE"]))
        sender = draw(st.sampled_from(AGENTS))
        messages.append(Message(n, sender, (), text, kind=kind, breaks=tuple(sorted(breaks))))
    patches = {agent: draw(PATCHES) for agent in AGENTS[: draw(st.integers(0, 3))]}
    outcome = Outcome(merge=draw(st.sampled_from([None, "clean", "conflicts"])))
    return Trace("run", "test", "", tuple(messages), patches, outcome=outcome)


@settings(max_examples=250)
@given(runs())
def test_any_run_gives_facts_that_can_be_quoted_and_those_of_a_kind_are_those_among_all(trace):
    everything = list(draw_facts(trace))
    assert checked(trace) == everything
    for kind in KINDS:
        assert draw_facts(trace).of(kind) == [fact for fact in everything if fact.kind == kind]


def test_kinds_have_meanings_and_one_module_each():
    assert all(KINDS.values())
    assert len(KINDS) == sum(len(module.KINDS) for module in MODULES)


def test_odd_names_do_not_reach_a_sentence_raw():
    """Names of agents and files are strangers' text; ``says`` is one line to show."""
    odd, path = "x\u202e\x1b[31m\x00\ud800\n\u2066y", "ti\u202edes\x1b.py"
    patches = {odd: change("+ti\u202ede = 1", path), "b": change("+ti\u202ede = 4", path)}
    said = f"Our edits merge cleanly. You go first. I will implement both mine and yours. {path}"
    lines = [(odd, said), ("b", f"Agreed. {said}"), (odd, f"\ud800\u202e {said}")]
    messages = tuple(Message(n, sender, (), text) for n, (sender, text) in enumerate(lines, 1))
    trace = Trace("run", "test", "", messages, patches)
    kinds = {fact.kind for fact in checked(trace)}  # which looks at every sentence
    assert {"assurance_refuted", "order_lost", "partner_work"} <= kinds


HOSTILE = [
    *("a", ".", "? ", " ", "a/", "a.", "_", "`", "```\n", "type: X\n", "code: x\nnote: y\n", "1"),
    *("I will add a_b and ", "no conflict, ", "you go on ", "lines 1, ", "a(", "> quoted text\n"),
    *("\udcff I'll add \udcff_\udcff. ", "I added a_b.\x00\r\n", "to\u0301 b.\u0301 ", "İ I'LL "),
    *("no ", "not ", "nothing ", "never ", "implement ", "both ", "so that we ", "i'll layer "),
    *("your ", "you ", "if ", "first ", "on top ", "not be ", "wait ", "before you ", "merge "),
    *("i'll not touch a.py, ", "either ", "add my ", "patch graded ", "no conflict, our ", "to "),
    *("i removed ", "is now ", "(yours) ", "disjoint ", "n't be any ", "only my ", "separate big "),
    *("no merge conflict line ", "nothing left to ", "for you ", "added a_b, "),
    *("you push x first ", "; ", "i ", "wait for you ", "not merge ", "please send ", "which "),
]  # fmt: skip


@pytest.mark.parametrize("part", parts(4))
@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_messages_take_bounded_time(piece, part):
    patches = {"a": change("+a b c", "a.py"), "b": change("+d e f", "a.py")}

    def drawn(text):
        said = Message(1, "a", (), text), Message(2, "b", (), text)
        return Trace("run", "test", "", said, patches)

    small, large = cuts(piece * (100_000 // len(piece)), part, MOST_TEXT)
    assert growth(lambda text: list(draw_facts(drawn(text))), small, large) < LIMIT
    assert any(fact.kind == "not_read" for fact in checked(drawn(large)))


MANY = [
    *("Our edits merge cleanly. ", "You go first. ", "Which unit is it now? ", "Agreed on that. "),
    *("I'll do your half too. ", "I removed your row from my patch. ", "I won't touch a.py. "),
    *("I added a_b. ", "Let's take a list instead. ", "```\ntide_1 = level(1)\n```\n"),
]


@pytest.mark.parametrize("part", parts(10))
@pytest.mark.parametrize("senders", ["a", "ab"])
@pytest.mark.parametrize("piece", MANY)
def test_many_messages_take_bounded_time(piece, senders, part):
    rows = "\n".join(f"+tide_{n} = level({n})" for n in range(50))
    patches = {"a": change(rows), "b": change(f"{rows}\n+x y")}

    def many(count):
        text = piece * (5_000 // len(piece))
        lines = (f"{senders[n % len(senders)]}: {text}" for n in range(count))
        return run(talk(*lines), patches, merge="conflicts")

    small, large = many(240 // part // FACTOR), many(240 // part)
    assert growth(lambda trace: list(draw_facts(trace)), small, large) < LIMIT


@pytest.mark.parametrize("part", parts(3))
def test_real_runs(real_runs, part):
    for trace in real_runs[::part]:
        checked(trace)
