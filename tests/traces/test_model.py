"""The texts of a trace that can be quoted, and where they come from."""

import pytest

from annotator.traces import AgentEnd, Feature, Message, Outcome, Source, Step, Trace

STEPS = {
    "agent1": (
        Step(1, "system", "Build the till"),
        Step(2, "agent", "I read the code", "Read"),
        Step(3, "tool", "def till(): ..."),
    )
}
OUTCOME = Outcome(
    passed=False,
    merge="conflicts",
    error="CONFLICT in till.py",
    features=(Feature("3", "agent1", output="1 failed"), Feature("7", "agent2", output="")),
    agents=(AgentEnd("agent2", "7", "Error", "out of memory"), AgentEnd("agent1", "3")),
)


def made(read_steps=lambda: STEPS):
    messages = (
        Message(1, "agent1", ("agent2",), "I take the till"),
        Message(2, "shell", (), "3 files", author="tool"),
        Message(3, "agent3", (), "one\ntwo", breaks=(3,)),
    )
    patches = {"agent1": "+till = 1\n", "agent2": ""}
    return Trace("t", "test", "", messages, patches, OUTCOME, read_steps=read_steps)


def refuse():
    raise AssertionError("steps were read though nobody asked for them")


def test_sources_in_order():
    # Merge status, the run's error, the agents' errors, the test outputs; empty ones left out.
    outcome = "conflicts\nCONFLICT in till.py\nout of memory\n1 failed"
    assert list(made().sources()) == [
        Source("message:1", "I take the till", "messages", "agent1"),
        Source("message:2", "3 files", "tools", "shell"),
        Source("message:3", "one\ntwo", "messages", "agent3", (3,)),
        Source("patch:agent1", "+till = 1\n", "patches", "agent1"),
        Source("patch:agent2", "", "patches", "agent2"),
        Source("outcome", outcome, "outcome", None, (9, 29, 43)),
        Source("step:agent1:1", "Build the till", "tools", "agent1"),
        Source("step:agent1:2", "I read the code", "steps", "agent1"),
        Source("step:agent1:3", "def till(): ...", "tools", "agent1"),
    ]


@pytest.mark.parametrize(
    ("origins", "ids"),
    [
        (("messages",), ["message:1", "message:3"]),
        (("patches",), ["patch:agent1", "patch:agent2"]),
        (("outcome",), ["outcome"]),
        (("steps",), ["step:agent1:2"]),
        (("tools",), ["message:2", "step:agent1:1", "step:agent1:3"]),
        (("outcome", "messages"), ["message:1", "message:3", "outcome"]),
        ((), []),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, tuple) else "",
)
def test_sources_of_some_origins(origins, ids):
    assert [one.id for one in made().sources(origins)] == ids


def test_steps_are_read_only_if_asked_for():
    trace = made(refuse)
    assert len(list(trace.sources(("messages", "patches", "outcome")))) == 5
    with pytest.raises(AssertionError, match="steps were read"):
        list(trace.sources(("tools",)))


def test_steps_are_read_once():
    calls = []
    trace = made(lambda: calls.append(1) or STEPS)
    assert trace.steps is trace.steps
    assert list(trace.sources())
    assert calls == [1]


def test_outcome_without_reports_is_no_source():
    trace = Trace("t", "test", "", (), outcome=Outcome(passed=True, features=(Feature("1"),)))
    assert list(trace.sources()) == []
    assert trace.source("outcome") is None


def test_outcome_of_one_report_has_no_breaks():
    trace = Trace("t", "test", "", (), outcome=Outcome(merge="clean"))
    (outcome,) = trace.sources()
    assert (outcome.text, outcome.breaks) == ("clean", ())


def test_every_source_is_found_by_its_id():
    trace = made()
    assert [trace.source(one.id) for one in trace.sources()] == list(trace.sources())


@pytest.mark.parametrize(
    "source_id",
    [
        "message:0",
        "message:9",
        "message:",
        "message",
        "patch:agent9",
        "patch",
        "step:agent1:9",
        "step:x:1",
        "x",
        "Outcome",
    ],
)
def test_no_such_source(source_id):
    assert made().source(source_id) is None


@pytest.mark.parametrize("source_id", ["message:1", "message:9", "patch:agent1", "outcome", "x"])
def test_source_by_id_reads_no_steps_if_it_names_none(source_id):
    messages = (Message(1, "agent1", (), "I take the till"), Message(2, "agent2", (), "Fine"))
    trace = Trace("t", "test", "", messages, {"agent1": "+x"}, OUTCOME, read_steps=refuse)
    assert (trace.source(source_id) is None) == (source_id in {"message:9", "x"})


def test_tool_message_by_id_reads_no_steps():
    assert made(refuse).source("message:2").text == "3 files"


def test_agents_as_the_harness_lists_them_then_as_they_hand_in_then_as_they_speak():
    assert made().agents == ("agent2", "agent1", "agent3")  # the shell is a tool, no agent


@pytest.mark.parametrize(
    ("end", "crashed"),
    [
        (AgentEnd("a", status="Submitted"), False),
        (AgentEnd("a"), False),
        (AgentEnd("a", status="Error"), True),
        (AgentEnd("a", status="timeout"), True),
        (AgentEnd("a", status="FAILED"), True),
        (AgentEnd("a", status="Submitted", error="out of memory"), True),
        (AgentEnd("a", status="Submitted", error=""), False),
    ],
    ids=str,
)
def test_crashed(end, crashed):
    assert end.crashed is crashed


TEXT, EMPTY = "@@ -1 +1 @@", " \n"


@pytest.mark.parametrize(
    ("merge", "patches", "statuses", "state"),
    [
        ("clean", [TEXT, TEXT], ["Submitted", "Submitted"], "clean"),
        ("identical", [TEXT, TEXT], [None, None], "clean"),
        ("conflicts", [TEXT, TEXT], ["Submitted", "Submitted"], "conflict"),
        ("clean", [TEXT, EMPTY], ["Submitted", "Submitted"], "nothing to merge"),
        ("identical", [EMPTY, EMPTY], ["Submitted", "Submitted"], "nothing to merge"),
        ("clean", [TEXT, TEXT], ["Submitted", "Error"], "nothing to merge"),
        ("conflicts", [TEXT, TEXT], ["Error", "Submitted"], "nothing to merge"),
        ("missing_input", [TEXT], ["Submitted", "Submitted"], "nothing to merge"),
        (None, [EMPTY, TEXT], [None, None], "nothing to merge"),
        ("clean", [], [], "clean"),  # no patch is stored, which is not an empty one
        (None, [], ["Error", None], "unknown"),
        (None, [TEXT, TEXT], [None, None], "unknown"),
        ("gone", [TEXT, TEXT], [None, None], "unknown"),
    ],
)
def test_merge_state(merge, patches, statuses, state):
    ends = tuple(AgentEnd(f"agent{n}", status=status) for n, status in enumerate(statuses))
    by_agent = {f"agent{n}": patch for n, patch in enumerate(patches)}
    run = Trace("t", "generic", "", patches=by_agent, outcome=Outcome(merge=merge, agents=ends))
    assert run.merge_state == state
