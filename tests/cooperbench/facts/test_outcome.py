"""Facts from the outcome, and that every passage can be quoted."""

import pytest

from annotator.cooperbench.facts import outcome
from annotator.traces.model import AgentEnd, Feature
from tests.cooperbench.facts.diffs import checked, quotes, run

PYTEST = "collected 2 items\nE   KeyError: 'unit'\nFAILED tests/test_a.py::test_unit - KeyError\n"


def found(*features, **given):
    """The facts of an outcome, and their quotes by kind."""
    trace = run(features=features, **given)
    facts = checked(trace, *outcome.KINDS)
    return facts, {fact.kind: quotes(trace, fact) for fact in facts}


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
    [_, fact], shown = found(feature, merge="conflicts")
    assert (fact.kind, fact.agents, fact.about["passed_alone"]) == (kind, ("agent1",), alone)
    assert words in fact.says
    assert shown[kind] == ["FAILED tests/test_a.py::test_unit - KeyError"]


def test_offsets_count_everything_before_an_output():
    """The merge word, the run's error and the agents' errors stand before the outputs."""
    ends = (AgentEnd("agent1", status="Error", error="the sandbox ran out of memory"),)
    features = (
        Feature("1", "agent1", passed=True, output="2 passed in 0.1 s"),
        Feature("2", "agent2", passed=False, output="ImportError: cannot import name 'scale'"),
    )
    given = {"merge": "clean", "error": "one agent crashed early", "agents": ends}
    assert found(*features, **given)[1] == {
        "merge_result": ["clean"],
        "run_error": ["one agent crashed early"],
        "agent_crashed": ["the sandbox ran out of memory"],
        "feature_failed": ["ImportError: cannot import name 'scale'"],
    }


@pytest.mark.parametrize("output", ["", "!!!\n???\n", "FAILED " + "word " * 100_000])
def test_odd_outputs(output):
    facts, _ = found(Feature("1", passed=False, output=output))
    assert "feature_failed" in [one.kind for one in facts]


def test_what_is_not_read_is_named():
    output = "FAILED early - is not read\n" + "x\n" * 300_000 + "FAILED late - is read\n"
    feature = Feature("1", passed=False, output=output)
    [unread] = checked(run(features=(feature,)), "not_read")
    assert unread.about["characters"] == len(output) - outcome.MOST_OUTPUT
    assert found(feature)[1]["feature_failed"] == ["FAILED late - is read"]


def test_a_run_that_passed_has_its_merge_only():
    facts, _ = found(Feature("1", passed=True), passed=True, merge="clean")
    assert [(one.kind, one.says) for one in facts] == [
        ("merge_result", "Merging the patches: clean.")
    ]
    assert found()[0] == []
