"""The rules judge, through its one method, on small runs made here."""

import hashlib
import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotator.evidence import check
from annotator.judges.rules import REVISION, RulesJudge, comm_errors, emergent, symptoms
from annotator.judges.rules.case import Case
from annotator.rubrics import load_rubric
from annotator.traces import AgentEnd, Feature, Message, Outcome, Trace, read_traces
from tests.conftest import EXAMPLES, ROOT
from tests.growth import LIMIT, cuts, growth, parts
from tests.judges.rule_cases import HITS, MISSES, ORDERS
from tests.judges.rule_runs import (
    ACCEPTED,
    ALONE,
    BACK,
    CALL,
    CHAT,
    COUNTERED,
    DID,
    ELSEWHERE,
    FACT,
    GO_AHEAD,
    LINE,
    MINE,
    MOON,
    NOW,
    ORDER,
    OTHER_FILE,
    OURS,
    PROPOSED,
    RENAMED,
    SAFE,
    SECOND,
    STATUS,
    TAKEN,
    TESTS,
    TEXT,
    THEIRS,
    WRITTEN,
    YOURS,
    alone,
    both,
    conflict,
    dead,
    good,
    patch,
    run,
    talk,
)

COMM = load_rubric("comm_errors")
SYMPTOMS = load_rubric("symptoms")
EMERGENT = load_rubric("emergent")


def decide(trace, rubric):
    """Return the verdict, whose every claim must pass the check of the evidence, word for word."""
    verdict = RulesJudge().decide(trace, rubric)
    findings, rejected = check(verdict, trace, rubric)
    assert rejected == []
    assert all(one.match == "exact" for finding in findings for one in finding.evidence)
    assert verdict.error is None
    one_stands_out = verdict.claims and rubric.choice != "many"
    assert verdict.primary == (verdict.claims[0].code if one_stands_out else None)
    return verdict


def quotes(verdict, claim=0):
    return [(quote.source, quote.text) for quote in verdict.claims[claim].quotes]


# --- which rubrics -----------------------------------------------------------------------------


def test_knows_its_rubrics_and_says_so_of_others():
    judge = RulesJudge()
    assert judge.id == "rules"
    assert judge.unsupported(COMM) is None
    assert judge.unsupported(SYMPTOMS) is None
    assert judge.unsupported(EMERGENT) is None
    reason = judge.unsupported(load_rubric("causes"))
    assert "'causes'" in reason
    assert "comm_errors, symptoms and emergent" in reason
    assert judge.decide(run("a: Hello."), load_rubric("causes")).error == reason


def test_a_rubric_without_one_of_its_codes_is_not_supported():
    codes = tuple(code for code in COMM.codes if code.id != "C4a")
    reason = RulesJudge().unsupported(COMM.model_copy(update={"codes": codes}))
    assert "C4a" in reason
    assert "C4b" not in reason


# --- comm_errors -------------------------------------------------------------------------------


COMM_CASES = {
    # C1a
    "no reply": ("C1a", "b: I take the map.", "a: Fine. Which unit does your tide table store?"),
    "request": ("C1a", "b: I take the map.", "a: Please send the column names of your tide table."),
    "let me know": ("C1a", "b: I take the map.", "a: Let me know which unit you store."),
    "can you tell": ("C1a", "b: I take the map.", "a: Hi, can you tell me the unit you store?"),
    "answered": (None, "a: Which unit does your tide table store?", "b: It has metres."),
    "an action": (None, "b: I take the map.", "a: Can you rebase the tide table on mine?"),
    "ask an action": (None, "b: I take the map.", "a: Please rebase the tide table on mine."),
    "courtesy": (None, "b: I take the map.", "a: Please tell me if the tide table breaks."),
    "conditional": (None, "b: I take the map.", "a: If it breaks, please send me the table."),
    "closing": (None, "b: I take the map.", "a: I take the tide table. Sound good?"),
    "three words": (None, "b: I take the map.", "a: I take the tide table, is that fine?"),
    "a pattern": (None, "b: I take the map.", "a: It is now, what(?:ever) comes before the (a|b)?"),
    "quoted": (None, "b: I take the map.", "a: > Please send the names of your columns."),
    "taken back": (
        None,
        "b: I take the map.",
        "a: Which unit does your tide table store?",
        "a: Never mind, the readme says it.",
    ),
    "nothing shows it": (None, "a: Which unit does your tide table store?"),
    # C1b
    "written past": (
        "C1b",
        "a: Do overdue fines round up or down?",
        "b: Finished the borrower card layout, moving on to its colours.",
    ),
    "may I": (
        "C1b",
        "a: May I wrap the overdue counter in a helper?",
        "b: Finished the borrower card layout, moving on to its colours.",
    ),
    "same topic": (
        None,
        "a: Do overdue fines round up or down?",
        "b: Finished the borrower card layout, it shows fines in whole cents.",
    ),
    "answered late": (
        None,
        "a: Do overdue fines round up or down?",
        "b: Finished the borrower card layout, moving on to its colours.",
        "b: About the rounding of the overdue fines, they go up.",
    ),
    "assent": (
        None,
        "a: Should overdue fines round towards zero?",
        "b: Yes, that is how the borrower card shows it as well.",
    ),
    "curt": (None, "a: Do overdue fines round up or down?", "b: Upwards, always."),
    "about the work": (
        None,
        "a: What are you working on in these files?",
        "b: Borrower cards and their colours, nothing else so far.",
    ),
    # C4
    "block twice": ("C4b", f"a: {STATUS}", "b: Understood.", f"a: {STATUS}"),
    "fact twice": ("C4a", f"a: {FACT}", "b: Understood.", f"a: {FACT}"),
    "short report twice": (
        "C4a",
        "a: The tide table is done and all its tests pass.",
        "a: The tide table is done and all its tests pass.",
    ),
    "one sentence of several": (
        None,
        f"a: {FACT} Its first column holds the hour, and it is sorted by that.",
        f"a: {FACT} Nobody should open the old page again, for it lies about ebb.",
    ),
    "a reminder": (
        None,
        "a: Which unit does your tide table store, metres or feet?",
        "a: Which unit does your tide table store, metres or feet?",
        "b: The tide table has metres, as I said.",
    ),
    "other words": ("C4a", f"a: {FACT}", f"a: {FACT.replace('comes', 'goes')}"),
    "other sender": (None, f"a: {FACT}", f"b: {FACT}"),
    "a new number": (None, f"a: {FACT} Row 3.", f"a: {FACT} Row 4."),
    "a new name": (None, f"a: {FACT} Ask Nora.", f"a: {FACT} Ask Theo."),
    "new text": (None, f"a: {FACT}", "a: The lighthouse is closed, so its row is gone by now."),
    "short": (None, "a: Understood, thanks.", "a: Understood, thanks."),
    "a hole filled": (None, f"a: {FACT.replace('pier', ' ')}", f"a: {FACT}"),
    "resent": (None, f"a: {FACT}", f"a: {FACT} (resend)"),
    "agreed": (None, f"a: type: AGREE\n{FACT}", f"a: type: AGREE\n{FACT}"),
    "a done twice": ("C4a", f"a: type: DONE\n{FACT}", f"a: type: DONE\n{FACT}"),
    # order
    "question first": (
        "C1a",
        "b: I take the map.",
        f"a: {FACT}",
        f"a: {FACT}",
        "a: Which unit does your tide table store?",
    ),
    "no messages": (None,),
    "empty messages": (None, "a: ", "b: ", "a: "),
}


@pytest.mark.parametrize("case", COMM_CASES)
def test_comm_errors(case):
    code, *lines = COMM_CASES[case]
    verdict = decide(run(*lines), COMM)
    assert verdict.primary == code
    assert len(verdict.claims) == (code is not None)


def test_the_question_alone_is_quoted_and_the_partners_last_word():
    verdict = decide(
        run(
            "b: I take it (or part.) It is half drawn.",
            "a: Fine. Which unit does your table store?",
        ),
        COMM,
    )
    assert quotes(verdict) == [
        ("message:2", "Which unit does your table store?"),
        ("message:1", "It is half drawn."),
    ]
    assert (
        verdict.claims[0].rationale == "No partner sends anything after what a asks in message 2."
    )


def test_the_askers_remark_on_the_silence_is_the_better_evidence():
    verdict = decide(
        run(
            "b: I take the map.",
            "a: Which unit does your table store?",
            "a: Half built. No reply, so I take metres.",
        ),
        COMM,
    )
    assert quotes(verdict)[1] == ("message:3", "No reply, so I take metres.")


def test_only_those_who_were_asked_can_reply():
    said = (
        Message(1, "b", (), "I take the map."),
        Message(2, "a", ("b",), "Which unit does your tide table store?"),
        Message(3, "c", (), "The lighthouse page uses metres in its tide table."),
    )
    assert decide(run(*said), COMM).primary == "C1a"
    said = (said[0], Message(2, "a", (), said[1].text), said[2])
    assert decide(run(*said), COMM).primary is None


def test_text_that_no_agent_wrote_neither_asks_nor_answers():
    said = (
        Message(1, "b", (), "I take the map."),
        Message(2, "a", (), "Which unit does your tide table store?"),
        Message(3, "shell", (), "The tide table is in metres.", tool=True),
    )
    assert decide(run(*said), COMM).primary == "C1a"
    asked_by_tool = Message(2, "a", (), said[1].text, tool=True)
    assert decide(run(said[0], asked_by_tool), COMM).primary is None


def test_no_quote_runs_across_a_break():
    text = "Which unit does\nyour tide table store?"
    whole = Message(2, "a", (), text.replace("\n", " "))
    parted = Message(2, "a", (), text, breaks=(text.index("\n"),))
    first = Message(1, "b", (), "I take the map.")
    assert decide(run(first, whole), COMM).primary == "C1a"
    assert decide(run(first, parted), COMM).primary is None


def test_a_long_question_is_cut_between_words():
    text = "Which unit does your tide table store, given " + "many other tables " * 40 + "too?"
    quote = quotes(decide(run("b: I take the map.", f"a: {text}"), COMM))[0][1]
    assert len(quote) <= 240
    assert text[len(quote)] == " "


# --- symptoms ----------------------------------------------------------------------------------

SYMPTOM_CASES = {
    # (a)
    "empty patch": (["implementation_failure"], dead(status="Submitted")),
    "crashed": (["implementation_failure"], dead(*CHAT, error="out of memory")),
    "done, but empty": (
        ["broken_commitment", "implementation_failure"],
        dead("a: The tide unit is done and tested."),
    ),
    "done by type": (
        ["broken_commitment", "implementation_failure"],
        dead("a: type: DONE\nnote: Added the unit to every tide."),
    ),
    "done, but empty, alone it is not known": (
        ["broken_commitment", "implementation_failure"],
        dead("a: The tide unit is done and tested.", features=alone(None, True)),
    ),
    "will be done": (["implementation_failure"], dead("a: I will ping when the unit is done.")),
    "partner done": (["implementation_failure"], dead("b: The tide unit is done and tested.")),
    "asks if done": (["implementation_failure"], dead("a: Ask me whether it is done, will you?")),
    "leaves it": (["implementation_failure"], dead("a: type: DONE\nnote: The file is all yours.")),
    "crashed after a working patch": (
        ["work_overlap"],
        conflict(
            *CHAT,
            features=alone(True),
            agents=(AgentEnd("a", status="Error"), AgentEnd("b")),
        ),
    ),
    # (b)
    "fails alone too": (
        ["implementation_failure"],
        run(*CHAT, patches=both(), passed=False, merge="clean", features=alone(False, False)),
    ),
    "identical": (
        ["implementation_failure"],
        run(*CHAT, patches=both(), passed=False, merge="identical", features=alone(False)),
    ),
    # (c), (d)
    "same place": (["work_overlap"], conflict(*CHAT)),
    "same place, silent": (["work_overlap"], conflict()),
    "adjoining": (
        ["work_overlap"],
        conflict(patches=both(OURS, patch("tides.py", 4, "a new line", removed=1))),
    ),
    "same new file": (
        ["work_overlap"],
        conflict(
            patches=both(
                "--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+tide = hour\n",
                "--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+moon = hour\n",
            )
        ),
    ),
    "one of several places": (
        ["work_overlap"],
        conflict(patches=both(patch("tides.py", 5, "import moon") + ELSEWHERE, ELSEWHERE)),
    ),
    "an insertion before a removed line": (
        ["work_overlap"],
        conflict(
            patches=both(
                "--- a/x\n+++ b/x\n@@ -4,0 +5 @@\n+a new line\n",
                "--- a/x\n+++ b/x\n@@ -5 +4,0 @@\n-line 5\n",
            )
        ),
    ),
    "two new files": (
        ["implementation_failure"],
        conflict(
            patches=both(
                "--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+tide = hour\n",
                "--- /dev/null\n+++ b/old.py\n@@ -0,0 +1 @@\n+moon = hour\n",
            )
        ),
    ),
    "other place": (["implementation_failure"], conflict(patches=both(two=ELSEWHERE))),
    "other file": (["implementation_failure"], conflict(patches=both(two=OTHER_FILE))),
    "clean, same place": (
        [],
        run(
            patches=both(patch("tides.py", 5, "unit = hour"), patch("tides.py", 5, "moon = hour")),
            passed=False,
            merge="clean",
            features=alone(True, True),
        ),
    ),
    "clean, one name twice": (
        ["work_overlap"],
        run(patches=both(), passed=False, merge="clean", features=alone(True, True)),
    ),
    "same place, and one fails alone": (
        ["work_overlap", "implementation_failure"],
        conflict(*CHAT, features=alone(False, True)),
    ),
    "open question": (
        ["unresponsiveness"],
        conflict("b: I add the moon.", "a: Which unit does your tide use?"),
    ),
    "answered question": (
        ["work_overlap"],
        conflict("a: Which unit does your tide use?", "b: The tide is in metres."),
    ),
    "open question, clean merge": (
        [],
        run(
            "b: I add the moon.",
            "a: Which unit does your tide use?",
            passed=False,
            merge="clean",
            features=alone(True),
        ),
    ),
    # last resorts
    "repetition": (
        ["repetition"],
        run(f"a: {STATUS}", f"a: {STATUS}", passed=False, merge="clean", features=alone(True)),
    ),
    "repetition comes last": (["work_overlap"], conflict(f"a: {STATUS}", f"a: {STATUS}")),
    "nothing to quote": ([], run("a: Hello.", "b: Hello.", passed=False)),
    # outcome known to be good, or not known
    "passed": ([], conflict("b: Hi.", "a: Which unit does your tide use?", passed=True)),
    "unknown, same place": (["work_overlap"], run(*CHAT, patches=both())),
    "unknown, other place": ([], run(*CHAT, patches=both(two=ELSEWHERE))),
    "unknown, clean": (
        [],
        run(*CHAT, patches=both(), merge="clean", features=(Feature("a", output=TESTS),)),
    ),
    "unknown, repetition": (["repetition"], run(f"a: {STATUS}", f"a: {STATUS}")),
    "unknown, no patches": ([], run(*CHAT)),
}


@pytest.mark.parametrize("case", SYMPTOM_CASES)
def test_symptoms(case):
    codes, trace = SYMPTOM_CASES[case]
    assert [claim.code for claim in decide(trace, SYMPTOMS).claims] == codes


def test_the_failed_test_is_quoted():
    claim = SYMPTOM_CASES["fails alone too"][1]
    assert quotes(decide(claim, SYMPTOMS)) == [
        ("outcome", "FAILED tests/test_tides.py::test_ebb - KeyError")
    ]


def test_a_failing_feature_that_passes_alone_is_not_called_the_agents_own():
    mixed = run(*CHAT, passed=False, merge="clean", features=alone(False, True))
    assert decide(mixed, SYMPTOMS).claims == ()
    for merge in ("clean", "identical"):
        own = run(*CHAT, passed=False, merge=merge, features=alone(False, False))
        assert "fails alone" in decide(own, SYMPTOMS).claims[0].rationale


def test_the_crashed_agents_own_error_is_quoted_before_the_tests():
    trace = dead(error="sandbox gone after 9 s\nbye for now")
    assert quotes(decide(trace, SYMPTOMS)) == [("outcome", "sandbox gone after 9 s")]


def test_a_broken_commitment_quotes_the_claim_and_the_failure():
    verdict = decide(SYMPTOM_CASES["done, but empty"][1], SYMPTOMS)
    failed = ("outcome", "FAILED tests/test_tides.py::test_ebb - KeyError")
    assert quotes(verdict) == [("message:1", "The tide unit is done and tested."), failed]
    assert quotes(verdict, 1) == [failed]


def test_an_overlap_quotes_what_both_patches_write_there():
    assert quotes(decide(conflict(*CHAT), SYMPTOMS)) == [
        ("patch:a", "+import re\n+def tide(hour, unit):\n+    return hour * unit"),
        ("patch:b", "+import re\n+def tide(hour, moon):\n+    look(moon)"),
    ]


def test_a_line_that_looks_like_a_header_does_not_end_its_hunk():
    # "--- x" is the removed line "-- x"; read as a header it would name another file.
    head = "--- a/q.sql\n+++ b/q.sql\n@@ -5,3 +5,3 @@\n line 5\n"
    one = head + "--- old note\n+-- new tide note\n line 7\n"
    two = head + "--- old note\n+-- new moon note\n line 7\n"
    assert quotes(decide(conflict(patches=both(one, two)), SYMPTOMS)) == [
        ("patch:a", "--- old note\n+-- new tide note"),
        ("patch:b", "--- old note\n+-- new moon note"),
    ]


def test_any_number_of_agents():
    patches = {"a": ELSEWHERE, "b": OTHER_FILE, "c": OURS, "d": THEIRS}
    assert [source for source, _ in quotes(decide(conflict(patches=patches), SYMPTOMS))] == [
        "patch:c",
        "patch:d",
    ]


# --- each rule by itself -----------------------------------------------------------------------

RUBRICS = {"comm_errors": COMM, "symptoms": SYMPTOMS, "emergent": EMERGENT}
RULES = {"comm_errors": comm_errors.RULES, "symptoms": symptoms.RULES, "emergent": emergent.RULES}


def rubric_of(rule):
    return rule.__module__.rpartition(".")[2]


def named(rule):
    return f"{rubric_of(rule)}.{rule.__name__}"


@pytest.mark.parametrize("case", HITS)
def test_a_rule_finds_its_code(case):
    rule, code, trace, expected = HITS[case]
    verdict = decide(trace, RUBRICS[rubric_of(rule)])
    assert verdict.claims[0] == rule(Case(trace)), "another rule decides"
    assert verdict.claims[0].code == code
    assert quotes(verdict) == expected


@pytest.mark.parametrize(
    ("rule", "why"), [(rule, why) for rule in MISSES for why in MISSES[rule]],
    ids=lambda x: x if isinstance(x, str) else named(x),
)  # fmt: skip
def test_a_near_miss_of_a_rule(rule, why):
    trace = MISSES[rule][why]
    assert rule(Case(trace)) is None
    decide(trace, RUBRICS[rubric_of(rule)])


@pytest.mark.parametrize("rubric", RULES)
def test_every_rule_and_code_has_cases(rubric):
    names = {named(rule) for rule in RULES[rubric]}
    own = [(rule, code) for rule, code, *_ in HITS.values() if rubric_of(rule) == rubric]
    assert {named(rule) for rule, _ in own} == names
    assert {named(rule) for rule in MISSES if rubric_of(rule) == rubric} == names
    assert {code for _, code in own} == RulesJudge().codes(RUBRICS[rubric])


def test_the_docs_list_every_rule_with_its_codes():
    rows = re.findall(
        r"^\| *`?(\w+)`? *\| *`(\w+)` *\|([^|]+)\|",
        (ROOT / "docs" / "judges.md").read_text(),
        re.MULTILINE,
    )
    shown = [(f"{rubric}.{rule}", re.findall(r"\w+", codes)) for rubric, rule, codes in rows]
    assert [name for name, _ in shown] == [named(rule) for one in RULES.values() for rule in one]
    # "C3" stands for C3a and C3b.
    for name, codes in shown:
        given = {code for rule, code, *_ in HITS.values() if named(rule) == name}
        assert all(code.startswith(tuple(codes)) for code in given), name
        assert all(any(code.startswith(one) for code in given) for one in codes), name


@pytest.mark.parametrize("case", ORDERS)
def test_the_earlier_rule_decides(case):
    first, second, trace = ORDERS[case]
    rubric = rubric_of(first)
    assert RULES[rubric].index(first) < RULES[rubric].index(second)
    assert second(Case(trace)) is not None
    assert decide(trace, RUBRICS[rubric]).claims[0] == first(Case(trace))


def test_the_silence_is_told_where_nobody_spoke():
    silent, spoken = (decide(one, SYMPTOMS).claims[0] for one in (conflict(), conflict(*CHAT)))
    assert silent.rationale == f"{spoken.rationale} No message was exchanged."


# --- emergent ----------------------------------------------------------------------------------

ALL_THREE = [PROPOSED, COUNTERED, ACCEPTED, MINE, YOURS, TAKEN, GO_AHEAD]


def test_each_kind_of_coordination_is_found_beside_the_others():
    verdict = decide(good(*ALL_THREE), EMERGENT)
    assert [claim.code for claim in verdict.claims] == [
        "negotiation",
        "resource_division",
        "role_division",
    ]


@pytest.mark.parametrize("passed", [False, None])
def test_nothing_is_found_in_a_run_that_is_not_known_to_have_passed(passed):
    assert decide(good(*ALL_THREE, passed=passed), EMERGENT).claims == ()


def test_nothing_is_found_in_what_no_agent_wrote():
    lines = [Message(one.n, one.sender, (), one.text, tool=True) for one in talk(*ALL_THREE)]
    assert decide(good(*lines), EMERGENT).claims == ()
    assert decide(good(), EMERGENT).claims == ()


# --- any input ---------------------------------------------------------------------------------

FRAGMENTS = [
    *("Which unit does your table store?", "Please send the exact names.", "type: DONE", STATUS),
    *(FACT, "No reply so far.", "The table is done.", "Sound good?", OURS, THEIRS, "@@ -1 +1 @@"),
    *(SAFE[3:], NOW[3:], WRITTEN[3:], TAKEN[3:], DID[3:], BACK[3:], ALONE[3:], ORDER[3:], LINE[3:]),
    *("I did not touch tides.py.", "You own tides.py.", "Our patches do overlap.", SECOND[3:]),
    *(PROPOSED[3:], COUNTERED[3:], ACCEPTED[3:], MINE[3:], YOURS[3:], GO_AHEAD[3:], RENAMED, CALL),
    *("\n".join(["type: AGREE", "code:", *TEXT]), patch("tides.py", 5, *TEXT), MOON[3:]),
    *(
        "--- a/x",
        "+++ b/x",
        "+a b",
        "-c d",
        "FAILED x y",
        "E   no such key",
        "\n",
        " ",
        ".",
        "\r\n",
    ),
]
TEXT = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=30), max_size=6).map(" \n".join)
NAMES = st.sampled_from(["a", "b", "agent 3", "", "é"])


@st.composite
def traces(draw):
    messages = tuple(
        Message(
            n,
            draw(NAMES),
            tuple(draw(st.lists(NAMES, max_size=2))),
            draw(TEXT),
            kind=draw(st.sampled_from([None, "DONE", "AGREE"])),
            tool=draw(st.booleans()),
            breaks=tuple(draw(st.lists(st.integers(0, 200), max_size=3))),
        )
        for n in range(1, draw(st.integers(0, 5)) + 1)
    )
    flags = st.sampled_from([True, False, None])
    features = tuple(
        Feature("f", draw(NAMES), draw(flags), draw(flags), output=draw(TEXT))
        for _ in range(draw(st.integers(0, 2)))
    )
    outcome = Outcome(
        draw(flags),
        draw(st.sampled_from([None, "clean", "conflicts", "identical", "odd"])),
        features=features,
        agents=tuple(
            AgentEnd(draw(NAMES), error=draw(st.none() | TEXT))
            for _ in range(draw(st.integers(0, 2)))
        ),
        error=draw(st.none() | TEXT),
    )
    return Trace("t", "test", "", messages, draw(st.dictionaries(NAMES, TEXT)), outcome)


@given(traces())
@settings(max_examples=300)
def test_every_quote_stands_in_its_source_word_for_word(trace):
    for rubric in (COMM, SYMPTOMS, EMERGENT):
        verdict = RulesJudge().decide(trace, rubric)
        assert verdict == RulesJudge().decide(trace, rubric)
        for claim in verdict.claims:
            assert len(claim.quotes) >= rubric.quotes_needed(claim.code)
            assert len(set(claim.quotes)) == len(claim.quotes)
            for quote in claim.quotes:
                source = trace.source(quote.source)
                ends = (0, *sorted(source.breaks), len(source.text))
                pieces = [source.text[a:b] for a, b in pairwise(ends)]
                assert any(quote.text in piece for piece in pieces)
                assert quote.text.strip()
                assert len(quote.text) <= 240


def refuse():
    raise AssertionError("steps and task texts must not be read")


def test_never_reads_steps_or_tasks():
    messages = talk("a: Which unit is it in here?")
    for passed in (None, False, True):
        outcome = Outcome(passed, "conflicts")
        trace = Trace("t", "test", "", messages, {}, outcome, read_steps=refuse, read_tasks=refuse)
        for rubric in RUBRICS.values():
            assert decide(trace, rubric).primary in (None, "implementation_failure")


@pytest.mark.parametrize("part", parts(10))
@pytest.mark.parametrize("text", ["a", "?", ".", " ", "\n", "a? ", "no ", "so ", ", ", "- ", "if "])
def test_long_messages_of_one_repeated_text(text, part):
    def verdicts(long):
        said = [Message(n, "ab"[n % 2], (), long) for n in range(1, 4)]
        one, two = run(*said), good(*said)
        return [decide(one, COMM), decide(one, SYMPTOMS), decide(two, EMERGENT)]

    small, large = cuts(text * 100_000, part)
    assert growth(verdicts, small, large) < LIMIT
    comm, symptom, emergence = verdicts(large)
    assert comm.primary in (None, "C4a")
    assert symptom.primary in (None, "repetition")
    assert emergence.claims == ()


@pytest.mark.parametrize("count", [60, pytest.param(1_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("senders", [1, 2, 1_000])
def test_many_messages(senders, count):
    question = "Which unit does your table number {} store? " + "It is about tides. " * 1_000
    numbers = range(1, count + 1)
    messages = (Message(n, f"agent{n % senders}", (), question.format(n)) for n in numbers)
    verdict = decide(run(*messages), COMM)
    # A million characters are read: what becomes of the later questions is not known.
    assert verdict.primary is None
    assert set(verdict.truncated) == {f"message:{n}" for n in numbers[52:]}


@pytest.mark.parametrize("senders", [1, 2, 1_000])
def test_a_thousand_proposals_bounds_and_promises(senders):
    lines = (
        f"Ok, let's rather take table {n} instead. I won't touch t{n}.py. I'll implement your part."
        for n in range(1, 1_001)
    )
    said = (Message(n, f"agent{n % senders}", (), line) for n, line in enumerate(lines, 1))
    patches = {f"agent{n}": patch(f"sea{n}.py", 5, "x = 1") for n in range(3)}
    codes = [claim.code for claim in decide(good(*said, patches=patches), EMERGENT).claims]
    assert codes == (["negotiation", "resource_division", "role_division"] if senders > 1 else [])


@pytest.mark.parametrize("part", parts(10))
def test_a_patch_of_many_characters(part):
    places = range(1, 330_000 // part, 2)
    hunks = "".join(f"@@ -{n},0 +{n} @@\n+call number({n:06})\n" for n in places)
    one = "--- a/x\n+++ b/x\n" + hunks
    two = one + "+" * (5_000_000 // part)
    assert len(two) > 10_000_000 // part
    verdict = decide(conflict(patches=both(one, two)), SYMPTOMS)
    assert quotes(verdict) == [
        ("patch:a", "+call number(000001)"),
        ("patch:b", "+call number(000001)"),
    ]
    assert decide(good(MINE, YOURS, patches=both(one, two)), EMERGENT).claims == ()


# --- the revision ------------------------------------------------------------------------------

FOUND = {2: "99aca4a9ec1a37a0"}


def test_a_change_of_what_is_found_raises_the_revision():
    """Another digest here: raise ``REVISION``, for old calibrations do not fit any more."""
    digest = hashlib.sha256()
    for trace in read_traces([str(EXAMPLES)]):
        for rubric in (COMM, SYMPTOMS, EMERGENT):
            verdict = RulesJudge().decide(trace, rubric)
            claims = [(one.code, [quote.text for quote in one.quotes]) for one in verdict.claims]
            digest.update(repr((trace.id, rubric.id, claims)).encode())
    assert {REVISION: digest.hexdigest()[:16]} == {REVISION: FOUND[REVISION]}
