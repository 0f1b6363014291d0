"""The readers on real runs. Nothing of their text stands here."""

import json
from collections import Counter
from pathlib import Path

import pytest

from annotator.traces import Trace, Unreadable, count_traces, read_traces


@pytest.fixture(scope="module")
def runs(logs):
    """Return what is found below the real runs' logs; their texts take some ten megabytes."""
    return list(read_traces([str(logs)]))


@pytest.fixture(scope="module")
def files(logs):
    """Return each run's folder by its trace id, found without the readers."""
    return {
        path.parent.relative_to(logs).as_posix(): path.parent for path in logs.rglob("result.json")
    }


def load(path: Path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_every_run_is_read(runs, files):
    assert [one for one in runs if not isinstance(one, Trace)] == []
    assert Counter(run.attributes["setting"] for run in runs) == {"coop": 200, "solo": 63}
    assert {run.id for run in runs} == set(files)
    assert {run.format for run in runs} == {"cooperbench"}


def test_nothing_about_them_is_a_problem(runs):
    assert {run.id: run.problems for run in runs if run.problems} == {}


def test_count_agrees(logs, runs):
    assert count_traces([str(logs)]) == len(runs)


def test_every_agent_has_a_patch_and_it_is_its_own(runs, files):
    for run in runs:
        folder = files[run.id]
        if run.attributes["setting"] == "solo":
            named = {"solo": "solo.patch"}
        else:
            ends = load(folder / "result.json")["agents"]
            named = {agent: f"agent{end['feature_id']}.patch" for agent, end in ends.items()}
        expected = {
            agent: (folder / name).read_bytes().decode("utf-8", "replace")
            for agent, name in named.items()
        }
        assert run.patches == expected, run.id
        assert set(run.agents) == set(named), run.id


def test_messages_are_those_of_the_files(runs, files):
    for run in runs:
        path = files[run.id] / "conversation.json"
        given = [one["message"] for one in load(path)] if path.exists() else []
        assert [message.text for message in run.messages] == given, run.id


def test_merge_and_result_are_those_of_the_files(runs, files):
    merges = Counter(run.outcome.merge for run in runs)
    assert merges == Counter(
        (load(folder / "eval.json").get("merge") or {}).get("status") for folder in files.values()
    )
    # As counted by hand in the shared data: README.md names the four words.
    assert merges == {"conflicts": 119, "clean": 61, "identical": 20, None: 63}
    for run in runs:
        assert run.outcome.passed is load(files[run.id] / "eval.json")["both_passed"], run.id


def test_agents_in_error_are_the_crashed_ones(runs, files):
    crashed = Counter(
        (run.id, end.agent) for run in runs for end in run.outcome.agents if end.crashed
    )
    given = [
        (trace_id, agent)
        for trace_id, folder in files.items()
        for agent, end in load(folder / "result.json").get("agents", {}).items()
        if end["status"] == "Error"
    ]
    assert len(given) == 35  # grep -c '"status": "Error"' over the result.json files
    assert crashed == Counter(given)


def test_patches_tested_alone_are_found_in_both_places(runs, files):
    def tested(folder):
        evaluation = load(folder / "eval.json")
        return (folder / "independent.json").exists() or "feature1_independent" in evaluation

    with_one = {
        run.id for run in runs if any(f.passed_alone is not None for f in run.outcome.features)
    }
    assert with_one <= {trace_id for trace_id, folder in files.items() if tested(folder)}
    assert len(with_one) >= 37  # as many runs have an independent.json


def test_trajectories_and_tasks_can_be_read(runs, files):
    for run in runs:
        if run.attributes["setting"] != "coop":
            continue
        assert set(run.steps) == set(run.agents), run.id
        for end in run.outcome.agents:
            given = load(files[run.id] / f"agent{end.feature}_traj.json")["messages"]
            assert len(run.steps[end.agent]) == len(given), run.id
        assert all(run.tasks.values()), run.id


def test_magentic_one(shared_data):
    """AgentRx's traces: every item a message, the human no agent, names without what they say. An
    empty file is the only one that should hold a trace and does not.
    """
    folder = shared_data / "agentrx" / "traces"
    found = list(read_traces([str(folder)]))
    reasons = [one.reason.partition(": ")[2] for one in found if isinstance(one, Unreadable)]
    assert reasons == ["empty file"]
    traces = [one for one in found if isinstance(one, Trace)]
    assert len(traces) == 58
    assert {one.format for one in traces} == {"magentic-one"}
    for one in traces:
        given = load(Path(one.path))
        assert [message.text for message in one.messages] == [item["content"] for item in given]
        roles = [item["role"] for item in given]
        humans = [n for n, role in enumerate(roles, 1) if role == "human"]
        assert [m.n for m in one.messages if m.author == "human"] == humans
        names = {role.partition(" (")[0] for role in roles} - {"human", "ComputerTerminal"}
        assert set(one.agents) == names


def test_ag2_records(shared_data):
    folder = shared_data / "ag2_mast"
    records = [record for path in folder.glob("raw*.json") for record in load(path)]
    talks = {r["trace_id"]: json.loads(r["trace"])["trajectory"] for r in records}
    traces = [item for item in read_traces([str(folder)]) if isinstance(item, Trace)]
    assert {t.attributes["trace_id"]: len(t.messages) for t in traces} == {
        key: len(talk) for key, talk in talks.items()
    }
    assert {trace.agents for trace in traces} <= {
        tuple(dict.fromkeys(item["name"] for item in talk[1:])) for talk in talks.values()
    }
    assert [m.author for trace in traces for m in trace.messages[:1]] == ["system"] * 40
