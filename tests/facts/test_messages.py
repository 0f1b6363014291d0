"""Types of messages, on messages written by hand: how many sentences plan, ask, report."""

from collections import Counter

import pytest

from annotator.facts.messages import main_type, types_of
from annotator.traces import Message


def typed(text: str, kind: str | None = None) -> dict[str, int]:
    return dict(types_of(Message(1, "a", (), text, kind=kind)))


@pytest.mark.parametrize(
    "sentence",
    [
        "I will add the harbour table.",
        "Adding a tide column in charts.py.",
        "agent2: implementing the lighthouse index.",
        "Feature: remove the old buoy list.",
        "In charts.py, add a parameter for the depth.",
        "You own charts.py, I take ports.py.",
        "Please keep your edits below line 40.",
        "Let's split by file.",
        "Waiting for your DONE.",
        "Safe for you to append your column now.",
    ],
)
def test_what_is_to_be_done_is_a_plan(sentence):
    assert typed(sentence) == {"plan": 1}


@pytest.mark.parametrize(
    "sentence",
    [
        "Which unit do you use?",
        "OK?",
        "Can you rebase?",
        "Please send a SPEC for the tide column.",
        "If that works, reply ACCEPT.",
        "Let me know if you're touching charts.py.",
        "I need the exact signature of depth().",
    ],
)
def test_what_asks_for_an_answer_is_a_question(sentence):
    assert typed(sentence) == {"question": 1}


@pytest.mark.parametrize(
    "sentence",
    [
        "Added the tide column.",
        "All 14 tests pass.",
        "I did not touch ports.py.",
        "Merged your branch, I will not need the old one.",
    ],
)
def test_what_was_done_or_found_is_an_update(sentence):
    assert typed(sentence) == {"update": 1}


@pytest.mark.parametrize(
    "text",
    [
        "Agreed.",
        "Thanks, good luck!",
        "The depth is in metres.",
        "Let me know if you want anything else.",
        "",
        "```\nI will add a table.\n```",
        "> Which unit do you use?",
    ],
)
def test_anything_else_is_other(text):
    assert typed(text) == {"other": 1}


def test_a_message_holds_the_types_of_its_sentences():
    text = "Added the tide column. All tests pass. I will add the buoys next. Which unit? Thanks."
    assert typed(text) == {"update": 2, "plan": 1, "question": 1, "other": 1}


def test_a_protocols_word_and_its_code_are_no_sentences():
    text = "type: CLAIM\nfiles: charts.py\ncode: def depth(): return 1\nnote: Agreed."
    assert typed(text) == {"other": 1}


@pytest.mark.parametrize(
    ("counts", "own", "expected"),
    [
        ({"update": 2, "question": 1}, "propose", "update"),  # the word breaks ties only
        ({"update": 1, "plan": 1}, "done", "update"),
        ({"update": 1, "plan": 1, "question": 1}, "", "question"),
        ({"update": 1, "plan": 1}, "", "plan"),
        ({"update": 1, "other": 1}, "", "update"),
        ({"update": 1, "other": 1}, "accept", "other"),
        ({"update": 1, "plan": 1}, "ask", "plan"),  # it asks nothing
    ],
)
def test_the_most_frequent_type_is_the_main_one(counts, own, expected):
    assert main_type(Counter(counts), own) == expected


def test_the_place_in_the_run_does_not_matter():
    text = "Adding a tide column."
    assert types_of(Message(1, "a", (), text)) == types_of(Message(9, "a", (), text))
