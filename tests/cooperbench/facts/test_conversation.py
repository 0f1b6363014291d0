"""Facts of the conversation: what agents state, propose, ask and name, and what patches refute.

The tables are in ``tables.yaml`` and ``sentences.yaml``.
"""

import re
from collections import Counter
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from annotator.cooperbench.facts import DRAWERS, KINDS, draw_facts
from annotator.cooperbench.facts.mentions import count_lines, find_paths
from annotator.cooperbench.facts.messages import choose_main_type, count_types
from annotator.traces import Message, Outcome, Trace
from tests.cooperbench.facts.diffs import change, checked, quotes, run, talk
from tests.growth import LIMIT, cuts, growth, parts

FOLDER = Path(__file__).parent
TABLES = yaml.safe_load((FOLDER / "tables.yaml").read_text(encoding="utf-8"))
SENTENCES = {
    sentence: [] if stated == "nothing" else stated.split(", ")
    for stated, sentences in yaml.safe_load(
        (FOLDER / "sentences.yaml").read_text(encoding="utf-8")
    ).items()
    for sentence in sentences
}

# --- names, types, proposals --------------------------------------------------------------------


@pytest.mark.parametrize("text", TABLES["paths"])
def test_paths(text):
    found = find_paths(text)
    assert [one.name for one in found] == TABLES["paths"][text]
    assert all(text[one.start : one.end] == one.name for one in found)


@pytest.mark.parametrize("text", TABLES["lines"])
def test_lines(text):
    assert count_lines(text) == TABLES["lines"][text]


@pytest.mark.parametrize("text", TABLES["types"])
def test_types_of_sentences(text):
    assert count_types(Message(1, "a", (), text)) == TABLES["types"][text]


@pytest.mark.parametrize(("counts", "word", "expected"), TABLES["main_types"])
def test_the_most_frequent_type_is_the_main_one(counts, word, expected):
    assert choose_main_type(Counter(counts), word) == expected


@pytest.mark.parametrize("text", TABLES["proposals"])
def test_proposals(text):
    found = checked(run([f"a: {text}"]), "proposal")
    assert [fact.about["counter"] for fact in found] == TABLES["proposals"][text]


def test_a_revision_is_a_counterproposal_by_its_type_and_a_message_makes_one_proposal():
    trace = run(["a: I propose a list. Let's take a table."], kind="REVISE")
    [fact] = checked(trace, "proposal")
    assert fact.about == {"message": 1, "counter": True, "own_type": "revise"}
    assert quotes(trace, fact) == ["I propose a list."]


@pytest.mark.parametrize("text", TABLES["acceptances"])
def test_acceptances(text):
    found = checked(run(["a: I propose a table.", f"b: {text}"]), "acceptance")
    assert [fact.agents for fact in found] == [("b",)] * TABLES["acceptances"][text]


def test_a_first_message_accepts_nothing_and_a_type_accepts_by_itself():
    assert checked(run(["a: Agreed, that is fine."]), "acceptance") == []
    accepted = run(["a: Hello there.", "b: The tide is high."], kind="ACCEPT")
    [fact] = checked(accepted, "acceptance")
    assert (fact.about["message"], quotes(accepted, fact)) == (2, ["The tide is high."])


# --- statements ------------------------------------------------------------------------------

STATED = (
    *("assurance", "clash_stated", "bound", "completion_claim", "partner_work", "retraction"),
    *("order_agreed", "question"),
)
SHORT = {
    "assurance": lambda about: about["claim"],
    "clash_stated": lambda about: "clash",
    "completion_claim": lambda about: "done",
    "partner_work": lambda about: "did both" if about["done"] else "does both",
    "retraction": lambda about: "back",
    "order_agreed": lambda about: f"{about['first']} first",
    "question": lambda about: "asks",
}


def said_in(text, kind=None):
    """What agent1 states in a message that agent2 agrees to, in a word or two each."""
    lines = "agent2: Hello to you.", "agent1: Hello there.", f"agent1: {text}", "agent2: Agreed."
    trace = run(lines, kind=kind)
    found = []
    for fact in checked(trace, *STATED):
        assert fact.about["message"] == 3
        assert fact.agents[0] == "agent1"
        found.append(SHORT.get(fact.kind, lambda about, kind=fact.kind: kind)(fact.about))
    return found


@pytest.mark.parametrize("text", SENTENCES)
def test_what_a_sentence_states(text):
    assert said_in(text) == SENTENCES[text]
    assert said_in(text.replace("'", "’")) == SENTENCES[text]


# What a reader does not see, and typography: what the check of quotes lets pass.
DRESSED = {
    "zero-width": lambda text: re.sub(r"(?<=\w)(?=\w)", "\u200b", text),
    "controls": lambda text: text.replace(" ", "\x00 \x1b[1m"),
    "white space": lambda text: text.replace(" ", " \u00a0\t"),
    "full-width": lambda text: text.translate({n: n + 0xFEE0 for n in range(33, 127)}),
    "Cyrillic letters": lambda text: re.sub(
        "(?<=[b-z])[aeo]+|[aeo]+(?=[b-z])",
        lambda match: match[0].translate(str.maketrans("aeo", "\u0430\u0435\u043e")),
        text,
    ),
    "bold": lambda text: re.sub(r"(?<![\w`'./()-])([a-z]+)(?![\w`'./()-])", r"**\1**", text),
    "a fence that is not closed": lambda text: f"```\n{text}",
    "line ends as escapes": lambda text: f"The tide is high.\\n{text}\\nThe ebb is low.",
}


@pytest.mark.parametrize("dress", DRESSED.values(), ids=DRESSED)
def test_what_is_not_seen_and_typography_change_no_statement(dress):
    for text, says in SENTENCES.items():
        assert said_in(dress(text)) == says, text


def test_quotes_code_and_lists_state_nothing_and_other_sentences_change_nothing():
    for text, says in SENTENCES.items():
        assert said_in(f"> {text}") == []
        assert said_in(f"```\n{text}\n```") == []
        assert said_in(f"type: CLAIM\nfiles: a.py {text}\ncode: {text}") == []
        assert said_in(f"The tide is high. {text}\nThe ebb is low.") == says


def test_what_a_plan_says_is_done_is_still_to_do():
    assert said_in("I added both features.", kind="PROPOSE") == ["does both"]
    assert said_in("type: DRAFT\nnote: Added the row.") == []
    assert said_in("type: DONE\nnote: Added the row.") == ["done"]


def test_text_of_tools_is_nobodys_statement():
    message = Message(1, "tool", (), "I added tide_table. Which unit is it here?", author="tool")
    assert checked(Trace("run", "test", "", (message,))) == []


def test_you_is_nobody_in_particular_among_three_unless_the_message_has_one_recipient():
    hi = talk("b: Hi.", "c: Hello.")
    for to, expected in (((), []), (("b",), ["b"])):
        said = (Message(3, "a", to, "You go first."), Message(4, "b", (), "Agreed to it."))
        known = draw_facts(run((*hi, *said)))
        assert [fact.about["first"] for fact in known.of("order_agreed")] == expected


# --- held against the patches -------------------------------------------------------------------

OURS = change(" harbour\n-tide = 1\n+tide = 2", "tides.py", section="def tide_row():")
THEIRS = change(" harbour\n-tide = 1\n+tide = 3", "tides.py")
APART = change("+lamp = 1", "tides.py", at=50)
PATCHES = {
    "meet": {"a": OURS, "b": THEIRS},
    "same": {"a": OURS, "b": OURS},
    "beside": {"a": OURS, "b": change(" harbour\n tide = 1\n-pier\n+quay", "tides.py")},
    "apart": {"a": OURS, "b": APART},
    "alone": {"a": OURS},
    "empty": {"a": OURS, "b": ""},
    "other file": {"a": OURS, "b": change("+tide = 3", "piers.py")},
    "others meet": {"a": APART, "b": OURS, "c": THEIRS},
    "long name": {a: change(f"+tide = {n}", "tide_rows.py") for a, n in (("a", 2), ("b", 3))},
}
AT_BOTH = ["+tide = 2", "+tide = 3"]


@pytest.mark.parametrize(("text", "patches", "merge", "refuted"), TABLES["refuted"])
def test_an_assurance_is_refuted_where_the_patches_meet(text, patches, merge, refuted):
    trace = run([f"a: {text}", "b: The tide is high."], PATCHES[patches], merge=merge)
    found = checked(trace, "assurance_refuted")
    assert len(found) == refuted
    for fact in found:
        assert fact.agents == ("a", "b")
        assert quotes(trace, fact)[0] == text
        if patches == "meet":
            assert quotes(trace, fact)[1:] == AT_BOTH
            assert fact.about["path"] == "tides.py"


@pytest.mark.parametrize("row", TABLES["orders_lost"], ids=str)
def test_an_agreed_order_is_lost_where_the_patches_meet(row):
    lines, first, *shown = row
    trace = run(lines, PATCHES["meet"], merge="conflicts")
    found = checked(trace, "order_lost")
    assert [fact.about["first"] for fact in found] == ([first] if first else [])
    for fact in found:
        assert quotes(trace, fact) == [*shown[0], *AT_BOTH]


@pytest.mark.parametrize(
    ("patches", "merge", "lost"),
    [
        *(("apart", "conflicts", 0), ("alone", "conflicts", 0), ("same", "clean", 0)),
        ("same", "conflicts", 1),  # the rest of the place may meet
    ],
)
def test_an_order_is_only_lost_where_they_meet(patches, merge, lost):
    trace = run(["a: You go first.", "b: Agreed."], PATCHES[patches], merge=merge)
    assert len(checked(trace, "order_lost")) == lost


@pytest.mark.parametrize(("lines", "shown"), TABLES["no_reply"], ids=str)
def test_a_question_after_which_no_partner_sends_anything(lines, shown):
    trace = run(lines, {"b": ""})
    found = checked(trace, "no_reply")
    assert len(found) == (shown is not None)
    for fact in found:
        assert fact.agents == ("a", "b")
        assert quotes(trace, fact) == ["Do overdue fines round up or down?", *shown]


def test_only_those_who_were_asked_can_reply_and_only_if_all_was_read():
    others = talk("b: I take the map.", "c: I take the table.")
    late = Message(9, "c", (), "The lighthouse page uses metres in its tide table.")
    for to, found in ((("b",), 1), ((), 0)):
        asked = Message(5, "a", to, "Which unit does your tide table store?")
        assert len(checked(run((*others, asked, late)), "no_reply")) == found
    (cards, ask), _ = TABLES["no_reply"][0]
    many = [*["b: I take the map."] * 1_999, ask, cards]
    assert len(checked(run(many), "question")) == 1
    assert checked(run(many), "no_reply") == []


# --- bounds ------------------------------------------------------------------------------------


def test_a_long_question_is_cut_between_words_and_a_clause_is_not():
    text = "Which unit does your tide table store, given " + "many other tables " * 80 + "too?"
    trace = run([f"a: {text}"])
    [quote] = quotes(trace, checked(trace, "question")[0])
    assert len(quote) <= 300
    assert text[len(quote)] == " "
    clause = "Which unit does your table store (the tides), given " + "many tables " * 40 + "too?"
    trace = run([f"a: {clause}"])
    assert quotes(trace, checked(trace, "question")[0]) == [clause]


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
DIFFS = BODIES.map(lambda body: change(body, "tides.py")) | st.text(max_size=30)


@st.composite
def runs(draw):
    messages = []
    for n, text in enumerate(draw(st.lists(TEXTS, max_size=5)), 1):
        places = [at for at, char in enumerate(text) if char in " \n"]
        breaks = draw(st.sets(st.sampled_from(places), max_size=2)) if places else ()
        kind = draw(st.sampled_from([None, None, "PROPOSE", "DONE"]))
        sender = draw(st.sampled_from(AGENTS))
        messages.append(Message(n, sender, (), text, kind=kind, breaks=tuple(sorted(breaks))))
    patches = {agent: draw(DIFFS) for agent in AGENTS[: draw(st.integers(0, 3))]}
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
    assert len(KINDS) == sum(len(kinds) for kinds, _ in DRAWERS)


HOSTILE = [
    *("a", ".", "? ", " ", "a/", "_", "`", "```\n", "type: X\n", "code: x\nnote: y\n", "1"),
    *("I will add a_b and ", "no conflict, ", "you go on ", "lines 1, ", "> quoted text\n"),
    *("\udcff I'll add \udcff_\udcff. ", "I added a_b.\x00\r\n", "İ I'LL ", "please send "),
    *("implement both ", "so that we ", "patch graded ", "no merge conflict line "),
]  # fmt: skip


@pytest.mark.parametrize("part", parts(4))
@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_messages_take_bounded_time(piece, part):
    patches = {"a": change("+a b c", "a.py"), "b": change("+d e f", "a.py")}

    def drawn(text):
        said = Message(1, "a", (), text), Message(2, "b", (), text)
        return Trace("run", "test", "", said, patches)

    small, large = cuts(piece * (100_000 // len(piece)), part)
    assert growth(lambda text: list(draw_facts(drawn(text))), small, large) < LIMIT
    checked(drawn(large))


@pytest.mark.parametrize("part", parts(3))
def test_real_runs(real_runs, part):
    for trace in real_runs[::part]:
        checked(trace)
