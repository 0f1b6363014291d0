"""Runs of harnesses and benchmarks: what was read wrongly before, each as a test.

``HARNESSES`` are samples beside those of ``test_formats``, which tries all of its tests on them,
too. What is expected was counted from the values that a sample was made of. The real runs are
counted by a few lines of their own; nothing of their text stands here.
"""

import json
from collections import Counter
from pathlib import Path

import pytest

from annotator import load_rubric, locate
from annotator.traces import Trace, Unreadable, read_traces
from tests.conftest import EXAMPLES

SAMPLES = EXAMPLES.parent / "formats"
AGENT = ("agent",)
SOLO = ("assistant",)
OPENHANDS = "openhands-ai 0.9.8"

# File: format, how it was made, and for each trace its id, messages by author, agents, outcome.
HARNESSES = {
    "atif/subagents.json": (
        "atif",
        "harbor 0.25",
        [("main-1", {"system": 3, "human": 1, "agent": 5, "tool": 3}, ("fixer", "searcher"), None)],
    ),
    "magentic_one/who_and_when_crafted.json": (
        "magentic-one",
        "by hand",
        [("q-3", {"human": 1, "agent": 4}, ("Orchestrator", "WebSurfer"), None)],
    ),
    "magentic_one/who_and_when_experts.json": (
        "magentic-one",
        "by hand",
        [
            (
                "q-2",
                {"system": 1, "agent": 2, "tool": 1},
                ("Counting_Expert", "Verification_Expert"),
                False,
            )
        ],
    ),
    "mast/ag2.json": (
        "mast",
        "by hand",
        [
            (f"AG2/{model}/sums/7", {"system": 1, "agent": 3}, ("Planner", "Coder", "Tester"), None)
            for model in ("model-1", "model-2")
        ],
    ),
    "openhands/sdk_output.jsonl": (
        "openhands",
        "openhands-sdk 1.58",
        [("calc-3", {"system": 3, "human": 2, "agent": 4, "tool": 2}, AGENT, None)],
    ),
    "openhands/v0_output.jsonl": (
        "openhands",
        OPENHANDS,
        [
            ("calc-4", {"human": 2, "agent": 5, "tool": 3}, AGENT, False),
            ("calc-5", {"human": 2, "agent": 5, "tool": 3}, AGENT, True),
        ],
    ),
    "swe_agent/mini_v1.traj.json": (
        "swe-agent",
        "mini-swe-agent 1.17",
        [("calc__calc-1", {"system": 2, "agent": 3, "tool": 3}, AGENT, None)],
    ),
    "swe_agent/nebius.jsonl": (
        "swe-agent",
        "by hand",
        [
            (f"nebius.jsonl:{n}", {"system": 2, "agent": 2, "tool": 1}, AGENT, n == 1)
            for n in (1, 2)
        ],
    ),
    "swe_agent/swe_smith.jsonl": (
        "swe-agent",
        "by hand",
        [("calc__calc.ab12.run1", {"system": 2, "agent": 2, "tool": 1}, AGENT, False)],
    ),
    "swe_agent/tools.traj": (
        "swe-agent",
        "by hand",
        [("tools.traj", {"system": 4, "agent": 2, "tool": 1}, AGENT, None)],
    ),
    "tau_bench/react.json": (
        "tau-bench",
        "by hand",
        [
            ("react.json:0/0", {"system": 1, "human": 2, "agent": 2, "tool": 1}, SOLO, True),
            ("react.json:1/0", {}, (), False),
        ],
    ),
    "tau_bench/tau2_user_tools.json": (
        "tau-bench",
        "by hand",
        [
            ("tau2_user_tools.json:[shop]1/0", {"human": 3, "agent": 2, "tool": 1}, SOLO, False),
            ("tau2_user_tools.json:[shop]2/0", {"human": 1, "agent": 1}, SOLO, None),
        ],
    ),
}


# File: a text that an agent said, and texts that no agent said.
SAID = {
    "atif/subagents.json": (
        "It is made in the file of keys.",
        ("keys.py line four, says grep", "Find where the plus key is made.", "I am done."),
    ),
    "magentic_one/run.json": ("It has 12 keys.", ("12, says the terminal", "How many keys")),
    "magentic_one/who_and_when_experts.json": (
        "Twelve keys it has, I am sure.",
        ("execution succeeded", "follow the suggestions from manager"),
    ),
    "mast/ag2.json": ("I shall plan the adding now.", ("Write a function that adds.",)),
    "openhands/sdk_output.jsonl": (
        "The plus key works.\nI pressed it twice.",
        (
            *(
                "the tool says noted",
                "There is no tool named press.",
                "Better not, says the person",
            ),
            *("What was done so far in short.", "The budget is used up."),
        ),
    ),
    "openhands/v0_output.jsonl": (
        "All is made, I finish.",
        ("keys.py, says the shell", "no such file, says the runtime", "Please make the file."),
    ),
    "swe_agent/mini_v1.traj.json": (
        "I forgot my command.",
        ("Please always provide EXACTLY ONE action", "Task: Add the plus key."),
    ),
    "swe_agent/nebius.jsonl": ("I submit it now.", ("keys.py, says the shell", "You repair")),
    "swe_agent/swe_smith.jsonl": ("I submit it now.", ("keys.py, says the shell",)),
    "swe_agent/tools.traj": (
        "I submit it now.",
        ("In the other calculator I did this.", "keys.py, says the shell"),
    ),
    "tau_bench/react.json": ("Thought: It is there.", ("API output:", "I want another key.")),
    "tau_bench/tau2_user_tools.json": (
        "Please press it once more.",
        ("the key clicks, says the device", "It clicks but adds nothing."),
    ),
}


def read_sample(name):
    return [trace for trace in read_traces([str(SAMPLES / name)]) if isinstance(trace, Trace)]


def read_value(folder, value, name="trace.json"):
    """Return what is read of a JSON value in a file by itself."""
    (folder / name).write_text(json.dumps(value))
    return list(read_traces([str(folder / name)]))


@pytest.mark.parametrize("name", SAID)
def test_only_words_of_agents_are_evidence_of_what_agents_said(name):
    trace = read_sample(name)[0]
    of_agent, of_others = SAID[name]
    assert locate(of_agent, trace, ("messages",))
    for text in of_others:
        assert locate(text, trace, ("messages",)) == []
        assert locate(text, trace)


@pytest.mark.parametrize("name", [name for name in HARNESSES if name[:3] in ("tau", "swe", "ope")])
def test_a_person_a_shell_or_a_simulated_customer_is_no_second_agent(name):
    rubric = load_rubric("comm_errors")  # of two agents and more
    for trace in read_sample(name):
        assert rubric.excludes(trace)


def test_a_subagent_of_the_same_name_is_an_agent_of_its_own(tmp_path):
    document = json.loads((SAMPLES / "atif/subagents.json").read_text())
    document["subagent_trajectories"][0]["agent"]["name"] = "fixer"
    (trace,) = read_value(tmp_path, document)
    assert trace.agents == ("fixer", "sub-1")


def test_a_subagent_to_which_no_result_refers_is_read_too(tmp_path):
    document = json.loads((SAMPLES / "atif/subagents.json").read_text())
    del document["steps"][3]["observation"]
    (trace,) = read_value(tmp_path, document)
    assert [message.sender for message in trace.messages[-3:]] == ["searcher", "tool", "searcher"]


def test_a_copied_step_says_so():
    (trace,) = read_sample("atif/subagents.json")
    kinds = {message.text: message.kind for message in trace.messages if message.kind}
    assert kinds == {"I was here before.": "copied context"}


@pytest.mark.parametrize("half", ["crafted", "experts"])
def test_the_step_of_a_mistake_is_the_next_message(half):
    file = SAMPLES / f"magentic_one/who_and_when_{half}.json"
    label = json.loads(file.read_text())
    (trace,) = read_sample(f"magentic_one/{file.name}")
    message = trace.messages[int(label["mistake_step"])]
    assert (message.n, message.sender) == (int(label["mistake_step"]) + 1, label["mistake_agent"])


def test_labels_of_people_are_nowhere_in_a_trace():
    for name in (
        "magentic_one/who_and_when_experts.json",
        "magentic_one/who_and_when_crafted.json",
    ):
        (trace,) = read_sample(name)
        assert not any(key.startswith("mistake") for key in trace.attributes)
    for trace in read_sample("mast/ag2.json"):
        assert "mast_annotation" not in trace.attributes


def test_a_log_of_which_nobody_knows_who_wrote_what_is_no_evidence():
    (trace,) = read_sample("mast/log.jsonl")
    assert trace.agents == ()
    assert locate(trace.messages[0].text[:40], trace, ("messages",)) == []
    assert any("not known" in problem for problem in trace.problems)


def test_a_simulation_that_could_not_be_evaluated_did_not_fail():
    failed, broken = read_sample("tau_bench/tau2_user_tools.json")
    assert (failed.outcome.passed, failed.attributes["outcome_rule"]) == (False, "reward >= 1")
    assert broken.outcome.passed is None
    assert "passed" not in broken.attributes
    assert broken.attributes["termination_reason"] == "infrastructure_error"


def test_an_error_of_a_run_is_kept():
    _, broken = read_sample("tau_bench/react.json")
    assert broken.outcome.error == "the service did not answer"


def test_runs_of_the_same_instance_are_several(tmp_path):
    first, _ = (SAMPLES / "swe_agent/nebius.jsonl").read_text().splitlines()
    (tmp_path / "rows.jsonl").write_text(first + "\n" + first.replace("submit it", "hand it in"))
    traces = list(read_traces([str(tmp_path)]))
    assert [trace.attributes["instance_id"] for trace in traces] == ["calc__calc-1"] * 2


def test_patches_of_runs():
    for name in ("nebius.jsonl", "swe_smith.jsonl", "tools.traj", "mini_v1.traj.json"):
        for trace in read_sample(f"swe_agent/{name}"):
            assert trace.patches["agent"].startswith("diff --git a/")


def test_what_an_openhands_agent_thinks_to_itself_is_a_step(tmp_path):
    think = {"id": 1, "source": "agent", "action": "think", "args": {"thought": "Two keys, hm."}}
    word = {"id": 2, "source": "agent", "action": "message", "args": {"content": "Two keys."}}
    start = {"id": 0, "source": "user", "action": "message", "args": {"content": "How many?"}}
    (trace,) = read_value(tmp_path, [start, think, word])
    assert [message.text for message in trace.messages] == ["How many?", "Two keys."]
    assert [step.text for step in trace.steps["agent"]] == ["Two keys, hm."]


@pytest.mark.parametrize("shape", ["lines", "list", "trajectory"])
@pytest.mark.parametrize("file", ["v0_output.jsonl", "sdk_output.jsonl"])
def test_events_are_the_same_session_however_they_are_kept(tmp_path, file, shape):
    record = json.loads((SAMPLES / "openhands" / file).read_text().splitlines()[0])
    events = record["history"]
    if shape == "lines":
        path = tmp_path / "events.jsonl"
        path.write_text("".join(json.dumps(event) + "\n" for event in events))
        (trace,) = read_traces([str(path)])
    else:
        (trace,) = read_value(tmp_path, events if shape == "list" else {shape: events})
    expected = read_sample(f"openhands/{file}")[0]
    assert trace.messages == expected.messages
    assert trace.steps == expected.steps


def test_an_evaluation_without_events_is_not_passed_over(tmp_path):
    (item,) = read_value(tmp_path, {"instance_id": "x", "history": [], "test_result": {}})
    assert isinstance(item, Unreadable)
    assert "without events" in item.reason


# --- real runs


def test_magentic_one_runs(shared_data):
    folder = shared_data / "agentrx" / "traces"
    lists = {
        path.stem: items
        for path in folder.glob("*.json")
        if isinstance(items := json.loads(path.read_text(encoding="utf-8")), list)
    }
    traces = [item for item in read_traces([str(folder)]) if isinstance(item, Trace)]
    assert len(traces) == len(lists) == 58
    for trace in traces:
        items = lists[Path(trace.path).stem]
        senders = [item["role"].split(" (")[0] for item in items]
        assert [message.text for message in trace.messages] == [item["content"] for item in items]
        assert [message.sender for message in trace.messages] == senders
        assert set(trace.agents) == set(senders) - {"human", "ComputerTerminal"}
        notes = [item["role"].endswith(("(thought)", "condition)")) for item in items]
        assert [message.kind is not None for message in trace.messages] == notes
        assert [m.recipients == (m.sender,) for m in trace.messages] == notes
        authors = {"human": "human", "ComputerTerminal": "tool"}
        assert [m.author for m in trace.messages] == [
            authors.get(name, "agent") for name in senders
        ]


def test_steps_of_agentrx_labels_are_the_numbers_of_messages(shared_data):
    truth = json.loads((shared_data / "agentrx" / "magentic_one_ground_truth.json").read_text())
    folder = shared_data / "agentrx" / "traces"
    traces = {
        Path(item.path).stem: item for item in read_traces([str(folder)]) if isinstance(item, Trace)
    }
    agrees = Counter()
    for run in truth:
        for failure in run["failures"]:  # some are of the agent that a message calls
            message = traces[run["trajectory_id"]].messages[int(failure["step_number"]) - 1]
            names = {name.lower() for name in (message.sender, *message.recipients)}
            agrees[failure["failed_agent"].lower() in names] += 1
    assert agrees == {True: 293, False: 2}


def test_ag2_runs(shared_data):
    files = sorted((shared_data / "ag2_mast").glob("raw_*.json"))
    records = [record for file in files for record in json.loads(file.read_text(encoding="utf-8"))]
    traces = [item for item in read_traces(list(map(str, files))) if isinstance(item, Trace)]
    assert len(traces) == len(records) == 40
    assert len({trace.id for trace in traces}) == 40
    by_id = {trace.id: trace for trace in traces}
    for record in records:
        run = json.loads(record["trace"])
        items = run["trajectory"]
        keys = ("mas_name", "llm_name", "benchmark_name", "trace_id")
        trace = by_id["/".join(str(record[key]) for key in keys if record.get(key))]
        assert [message.text for message in trace.messages] == [item["content"] for item in items]
        task, *rest = trace.messages
        assert items[0]["content"].strip() == run["problem_statement"][0].strip()
        assert (task.author, task.sender) == ("system", "task")
        assert [(m.author, m.sender) for m in rest] == [("agent", i["name"]) for i in items[1:]]
        assert set(trace.agents) == {item["name"] for item in items[1:]}
