"""Facts from the outcome, and that every passage can be quoted."""

import pytest

from annotator.evidence import locate
from annotator.facts import outcome
from annotator.facts.registry import know
from annotator.traces import Outcome, Trace
from annotator.traces.model import AgentEnd, Feature


def trace(**given):
    return Trace("t", "generic", "", outcome=Outcome(**given))


def found(one):
    """Kind, sentence and quotes of every fact; each quote must be accepted as evidence."""
    text = next((source.text for source in one.sources(("outcome",))), "")
    facts = know(one).of(*outcome.KINDS)
    quotes = {}
    for fact in facts:
        assert fact.kind in outcome.KINDS
        for span in fact.spans:
            quote = text[span.start : span.end]
            places = [(place.start, place.end) for place in locate(quote, one)]
            assert (span.start, span.end) in places, (fact.kind, quote)
            quotes.setdefault(fact.kind, []).append(quote)
    return facts, quotes


PYTEST = "collected 2 items\nE   KeyError: 'unit'\nFAILED tests/test_a.py::test_unit - KeyError\n"


@pytest.mark.parametrize(
    ("alone", "kind", "words"),
    [
        (True, "feature_lost", "fails after the merge, and passes with its patch alone"),
        (False, "feature_failed", "fails after the merge; fails alone too"),
        (None, "feature_failed", "fails after the merge; alone it is not known"),
    ],
)
def test_a_failed_feature_names_the_telling_line(alone, kind, words):
    """A failed test says more than the error it rests on, wherever it stands."""
    feature = Feature("2", "agent1", passed=False, passed_alone=alone, output=PYTEST)
    facts, quotes = found(trace(merge="conflicts", features=(feature,)))
    [fact] = [one for one in facts if one.kind == kind]
    assert words in fact.says
    assert fact.agents == ("agent1",)
    assert quotes[kind] == ["FAILED tests/test_a.py::test_unit - KeyError"]


def test_offsets_count_everything_before_an_output():
    """The merge word, the run's error and the agents' errors stand before the outputs."""
    ends = (AgentEnd("agent1", status="Error", error="the sandbox ran out of memory"),)
    features = (
        Feature("1", "agent1", passed=True, output="2 passed in 0.1 s"),
        Feature("2", "agent2", passed=False, output="ImportError: cannot import name 'scale'"),
    )
    _, quotes = found(
        trace(merge="clean", error="one agent crashed early", agents=ends, features=features)
    )
    assert quotes == {
        "merge_result": ["clean"],
        "run_error": ["one agent crashed early"],
        "agent_crashed": ["the sandbox ran out of memory"],
        "feature_failed": ["ImportError: cannot import name 'scale'"],
        "import_error": ["ImportError: cannot import name 'scale'"],
    }


def test_modules_that_import_each_other():
    line = "ImportError: cannot import name 'a' from partially initialized module 'shop'"
    facts, _ = found(trace(features=(Feature("1", passed=False, output=f"x\n{line}\n"),)))
    assert [one.kind for one in facts] == ["feature_failed", "import_error", "circular_import"]


@pytest.mark.parametrize(
    "output",
    [
        "",
        "!!!\n???\n",
        "E   " + "x" * 100_000,
        "FAILED " + "word " * 100_000,
        "\x00\x1b[31mE   AssertionError: red\x1b[0m",
        "\ud800 E   error: half a pair",
    ],
)
def test_odd_outputs(output):
    facts, _ = found(trace(features=(Feature("1", passed=False, output=output),)))
    assert "feature_failed" in [one.kind for one in facts]


def test_what_is_not_read_is_named():
    output = "FAILED early - is not read\n" + "x\n" * 300_000 + "FAILED late - is read\n"
    one = trace(features=(Feature("1", passed=False, output=output),))
    _, quotes = found(one)
    [unread] = know(one).of("not_read")
    assert unread.about["characters"] == len(output) - outcome.MOST_OUTPUT
    assert quotes["feature_failed"] == ["FAILED late - is read"]


def test_a_run_that_passed_has_its_merge_only():
    facts, _ = found(trace(passed=True, merge="clean", features=(Feature("1", passed=True),)))
    assert [(one.kind, one.says) for one in facts] == [
        ("merge_result", "Merging the patches: clean.")
    ]
    assert know(trace()).of(*outcome.KINDS) == []
