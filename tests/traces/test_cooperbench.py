"""The runner's log folders: two numberings, missing parts, hostile files."""

import json
import os
import socket

import pytest

from annotator.errors import UnreadableTrace
from annotator.evidence import locate
from annotator.traces import AgentEnd, Feature, Trace, Unreadable
from annotator.traces.conversation import read_steps
from annotator.traces.formats import cooperbench

RUN = "logs/run_a/coop/bakery/12/f3_f7"


def message(text="I take the till", sender="agent1", to="agent2", **more):
    return {"from": sender, "to": to, "message": text, "timestamp": 5.5, **more}


def result(**more):
    ends = {
        "agent2": {"feature_id": 7, "status": "Submitted", "error": None},
        "agent1": {"feature_id": 3, "status": "Submitted", "error": None},
    }
    return {
        "repo": "bakery",
        "task_id": 12,
        "features": [3, 7],
        "setting": "coop",
        "run_name": "run_a",
        "agent_framework": "crew",
        "model": "model-1",
        "agents": ends,
    } | more


def evaluation(**more):
    return {
        "features": [3, 7],
        "setting": "coop",
        "merge": {"status": "clean", "strategy": "git-merge"},
        "feature1": {"passed": True, "test_output": "3 passed"},
        "feature2": {"passed": False, "test_output": "1 failed"},
        "both_passed": False,
        "error": None,
    } | more


def trajectory(*messages):
    return {"messages": [{"role": role, "content": text} for role, text in messages]}


def files(**more):
    """Return the files of a whole run of two agents; a value of None leaves a file out."""
    whole = {
        "conversation.json": [message(), message("I take the oven", "agent2", "agent1")],
        "result.json": result(),
        "eval.json": evaluation(),
        "agent3.patch": "+till = 1\n",
        "agent7.patch": "+oven = 1\n",
        "agent3_traj.json": trajectory(("user", "Build the till"), ("assistant", "On it")),
        "agent7_traj.json": trajectory(("user", "Build the oven"), ("assistant", "At once")),
    }
    return {name: value for name, value in (whole | more).items() if value is not None}


def test_whole_run(write, trace):
    run = trace(write(RUN, **files()))
    assert run.id == "run_a/coop/bakery/12/f3_f7"
    assert run.format == "cooperbench"
    assert run.problems == ()
    assert [(m.n, m.sender, m.recipients, m.text, m.time, m.author) for m in run.messages] == [
        (1, "agent1", ("agent2",), "I take the till", 5.5, "agent"),
        (2, "agent2", ("agent1",), "I take the oven", 5.5, "agent"),
    ]
    assert run.attributes == {
        "model": "model-1",
        "setting": "coop",
        "project": "bakery",
        "task": "12",
        "framework": "crew",
        "run_name": "run_a",
        "passed": False,
        "merge": "clean",
    }
    assert run.outcome.strategy == "git-merge"
    assert run.agents == ("agent1", "agent2")


# --- two numberings


def test_agents_count_by_place_and_patches_by_feature_number(write, trace):
    run = trace(write(RUN, **files()))
    assert run.patches == {"agent1": "+till = 1\n", "agent2": "+oven = 1\n"}
    assert run.outcome.agents == (
        AgentEnd("agent1", "3", "Submitted"),
        AgentEnd("agent2", "7", "Submitted"),
    )
    assert {agent: steps[0].text for agent, steps in run.steps.items()} == {
        "agent1": "Build the till",
        "agent2": "Build the oven",
    }


def test_eval_slots_count_by_place(write, trace):
    alone = {
        "feature1_independent": {"passed": False, "reason": "its own bug"},
        "feature2_independent": {"passed": True, "reason": None},
    }
    run = trace(write(RUN, **files(**{"eval.json": evaluation(**alone)})))
    assert run.outcome.features == (
        Feature("3", "agent1", True, False, "its own bug", "3 passed"),
        Feature("7", "agent2", False, True, None, "1 failed"),
    )


def test_independent_json_counts_by_feature_number(write, trace):
    alone = {
        "feature3": {"passed": False, "reason": "its own bug"},
        "feature7": {"passed": True, "reason": None},
        "feature1": {"passed": None, "reason": "no feature of this run"},
    }
    run = trace(write(RUN, **files(**{"independent.json": alone})))
    assert [(one.name, one.passed_alone, one.alone_reason) for one in run.outcome.features] == [
        ("3", False, "its own bug"),
        ("7", True, None),
    ]


def test_agents_given_out_of_place_keep_their_own_feature(write, trace):
    ends = {
        "agent1": {"feature_id": 7, "status": "Submitted"},
        "agent2": {"feature_id": 3, "status": "Submitted"},
    }
    run = trace(write(RUN, **files(**{"result.json": result(agents=ends)})))
    assert run.patches == {"agent1": "+oven = 1\n", "agent2": "+till = 1\n"}
    assert [(one.name, one.agent) for one in run.outcome.features] == [
        ("3", "agent2"),
        ("7", "agent1"),
    ]


@pytest.mark.parametrize(
    "agents",
    [
        pytest.param({"agent1": {"status": "Submitted"}, "agent2": {}}, id="no-feature_id"),
        pytest.param({"agent1": {"feature_id": None}, "agent2": None}, id="null"),
        pytest.param({}, id="no-agents"),
        pytest.param(["agent1", "agent2"], id="a-list"),
    ],
)
def test_agents_without_feature_id_are_matched_by_place(write, trace, agents):
    run = trace(write(RUN, **files(**{"result.json": result(agents=agents)})))
    assert run.patches == {"agent1": "+till = 1\n", "agent2": "+oven = 1\n"}
    assert [(one.name, one.agent) for one in run.outcome.features] == [
        ("3", "agent1"),
        ("7", "agent2"),
    ]


def test_ten_agents_stand_in_the_order_of_their_numbers(write, trace):
    ends = {f"agent{n}": {"feature_id": n + 20} for n in range(1, 11)}
    patches = {f"agent{n + 20}.patch": f"+{n}\n" for n in range(1, 11)}
    facts = result(features=list(range(21, 31)), agents=ends)
    run = trace(write("many", **{"conversation.json": [], "result.json": facts}, **patches))
    assert run.agents == tuple(f"agent{n}" for n in range(1, 11))
    assert list(run.patches.values()) == [f"+{n}\n" for n in range(1, 11)]


def test_patch_of_no_feature_is_listed_and_left_out(write, trace):
    run = trace(write(RUN, **files(**{"agent9.patch": "+stray = 1\n"})))
    assert "+stray = 1\n" not in run.patches.values()
    assert run.problems == ("agent9.patch: belongs to no feature of this run, left out",)


# --- solo runs, missing parts


def test_solo_run(write, trace):
    facts = {
        "features": [3, 7],
        "setting": "solo",
        "agent": {"status": "Submitted", "error": None},
    }
    folder = write(
        "logs/run_a/solo/bakery/12/f3_f7",
        **{
            "result.json": facts,
            "eval.json": evaluation(setting="solo", merge=None),
            "solo.patch": "+both = 1\n",
            "solo_traj.json": trajectory(("user", "Build both")),
        },
    )
    run = trace(folder)
    assert run.messages == ()
    assert run.patches == {"solo": "+both = 1\n"}
    assert run.agents == ("solo",)
    assert run.outcome.agents == (AgentEnd("solo", None, "Submitted"),)
    assert [(one.name, one.agent, one.passed) for one in run.outcome.features] == [
        ("3", "solo", True),
        ("7", "solo", False),
    ]
    assert run.attributes["setting"] == "solo"
    assert run.outcome.merge is None
    assert run.tasks == {"solo": "Build both"}


def test_setting_comes_from_the_folder_where_no_file_says_it(write, trace):
    facts = {"result.json": {"features": [3, 7]}, "eval.json": {"both_passed": True}}
    run = trace(write("logs/run_a/solo/bakery/12/f3_f7", **facts))
    assert run.attributes["setting"] == "solo"
    assert run.outcome.passed is True


def test_without_result(write, trace):
    run = trace(write(RUN, **files(**{"result.json": None})))
    assert run.agents == ("agent1", "agent2")
    assert run.patches == {"agent1": "+till = 1\n", "agent2": "+oven = 1\n"}
    assert run.attributes["project"] == "bakery"
    assert run.attributes["task"] == "12"
    assert run.attributes["run_name"] == "run_a"
    assert run.attributes["model"] is None


def test_without_eval_nothing_is_known_of_the_outcome(write, trace):
    run = trace(write(RUN, **files(**{"eval.json": None})))
    assert run.outcome.passed is None
    assert run.outcome.merge is None
    assert [(one.name, one.passed) for one in run.outcome.features] == [("3", None), ("7", None)]
    assert run.outcome.reports == ()


def test_without_a_patch_only_that_patch_is_missing(write, trace):
    run = trace(write(RUN, **files(**{"agent3.patch": None})))
    assert run.patches == {"agent2": "+oven = 1\n"}
    assert run.agents == ("agent1", "agent2")


def test_without_a_trajectory_only_that_trajectory_is_missing(write, trace):
    run = trace(write(RUN, **files(**{"agent7_traj.json": None})))
    assert set(run.steps) == {"agent1"}
    assert run.tasks == {"agent1": "Build the till"}


def test_conversation_alone_takes_features_from_the_folder_name(write, trace):
    only = {"conversation.json": [message()], "agent3.patch": "+till = 1\n"}
    run = trace(write(RUN, **only))
    assert run.patches == {"agent1": "+till = 1\n"}
    assert [end.feature for end in run.outcome.agents] == ["3", "7"]


def test_conversation_alone_in_any_folder_takes_features_from_the_patches(write, trace):
    only = {"conversation.json": [message()], "agent10.patch": "+ten\n", "agent9.patch": "+nine\n"}
    assert trace(write("anywhere", **only)).patches == {"agent1": "+nine\n", "agent2": "+ten\n"}


def test_coop_run_without_conversation_is_unreadable(write, unreadable):
    one = unreadable(write(RUN, **files(**{"conversation.json": None})))
    assert one.id == "run_a/coop/bakery/12/f3_f7"
    assert one.reason == "conversation.json: missing, and the run is not a solo run"


def test_empty_conversation_is_a_run_without_messages(write, trace):
    run = trace(write(RUN, **files(**{"conversation.json": []})))
    assert run.messages == ()
    assert run.problems == ()
    assert run.agents == ("agent1", "agent2")


def test_conversation_as_an_object_with_messages(write, trace):
    talk = {"messages": [message("Ready at noon")], "total_messages": 1}
    run = trace(write(RUN, **files(**{"conversation.json": talk})))
    assert [one.text for one in run.messages] == ["Ready at noon"]


def test_other_number_of_messages_than_the_result_says_is_a_problem(write, trace):
    run = trace(write(RUN, **files(**{"result.json": result(messages_sent=5)})))
    assert run.problems == ("result.json counts 5 messages, conversation.json holds 2",)


def test_start_and_end_without_a_zone_are_utc(write, trace):
    times = {"started_at": "2026-01-02T00:00:00.5", "ended_at": "2026-01-02T01:01:40+01:00"}
    run = trace(write(RUN, **files(**{"result.json": result(**times)})))
    assert (run.outcome.started, run.outcome.ended) == (1767312000.5, 1767312100.0)
    run = trace(write(RUN, **files(**{"result.json": result(started_at="soon")})))
    assert (run.outcome.started, run.outcome.ended) == (None, None)


def test_agents_in_error(write, trace):
    ends = {
        "agent1": {"feature_id": 3, "status": "Error", "error": "out of memory"},
        "agent2": {"feature_id": 7, "status": "Submitted", "error": None},
    }
    changed = {"result.json": result(agents=ends), "agent3.patch": ""}
    run = trace(write(RUN, **files(**changed)))
    assert run.outcome.agents[0] == AgentEnd("agent1", "3", "Error", "out of memory")
    assert [end.crashed for end in run.outcome.agents] == [True, False]
    assert run.patches["agent1"] == ""
    assert "out of memory" in run.outcome.reports


@pytest.mark.parametrize(
    ("facts", "passed"),
    [
        pytest.param({"both_passed": True}, True, id="said-so"),
        pytest.param({"both_passed": False}, False, id="said-not"),
        pytest.param({"feature1": {"passed": True}, "feature2": {"passed": True}}, True, id="all"),
        pytest.param({"feature1": {"passed": True}, "feature2": {"passed": False}}, False, id="1"),
        pytest.param({"feature1": {"passed": True}}, None, id="one-not-known"),
        pytest.param({"feature1": {"passed": False}}, False, id="one-failed-is-enough"),
        pytest.param({"both_passed": "true"}, None, id="text-is-not-known"),
        pytest.param({"both_passed": 1}, None, id="number-is-not-known"),
        pytest.param({"feature1": "passed", "feature2": None}, None, id="slots-not-objects"),
        pytest.param({}, None, id="nothing-said"),
    ],
)
def test_passed_is_never_guessed(write, trace, facts, passed):
    run = trace(write(RUN, **files(**{"eval.json": facts})))
    assert run.outcome.passed is passed
    assert run.attributes["passed"] is passed


# --- steps and tasks, read only when asked for


def test_steps_have_the_role_of_who_wrote_them(write, trace):
    talk = trajectory(
        ("system", "You bake"),
        ("user", "Build the till"),
        ("assistant", "[tool_use Read] till.py"),
        ("user", "[tool_result] empty"),
        ("tool", "also empty"),
        ("assistant", "I will write it"),
        ("user", "Go on"),
    )
    run = trace(write(RUN, **files(**{"agent3_traj.json": talk})))
    assert [(step.n, step.author, step.tool) for step in run.steps["agent1"]] == [
        (1, "system", None),
        (2, "system", None),
        (3, "agent", "Read"),
        (4, "tool", None),
        (5, "tool", None),
        (6, "agent", None),
        (7, "system", None),
    ]


def test_steps_are_read_only_when_asked_for(write, trace):
    folder = write(RUN, **files())
    run = trace(folder)
    (folder / "agent3_traj.json").write_text(
        json.dumps(trajectory(("assistant", "Written later"))), encoding="utf-8"
    )
    assert run.steps["agent1"][0].text == "Written later"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("{", "agent3_traj.json: not valid JSON", id="broken"),
        pytest.param("[]", "agent3_traj.json: found a list, expected an object", id="list"),
        pytest.param('{"messages": 1}', "messages: found a number", id="messages-a-number"),
        pytest.param('{"messages": ["x"]}', "step 1: found a string", id="step-a-string"),
    ],
)
def test_broken_trajectory_is_an_error_when_asked_for(write, trace, text, reason):
    run = trace(write(RUN, **files(**{"agent3_traj.json": text})))
    with pytest.raises(UnreadableTrace, match=reason):
        _ = run.steps


@pytest.mark.parametrize(
    ("told", "task"),
    [
        pytest.param("Rules of the house. # The oven\nis hot", None, id="stands-in-the-prompt"),
        pytest.param("Build it", "Build it\n\n# The oven\nis hot\n", id="beside-the-prompt"),
        pytest.param(None, "# The oven\nis hot\n", id="nothing-told"),
    ],
)
def test_task_is_the_first_prompt_and_the_feature_where_it_says_none(write, trace, told, task):
    messages = trajectory(*([("user", told)] if told else []))
    folder = write(RUN, **files(**{"agent7_traj.json": messages}))
    write("dataset/bakery/task12/feature7", **{"feature.md": "# The oven\nis hot\n"})
    assert trace(folder).tasks == {"agent1": "Build the till", "agent2": task or told}


# --- ids


@pytest.mark.parametrize(
    ("place", "given", "trace_id"),
    [
        pytest.param(RUN, ".", "run_a/coop/bakery/12/f3_f7", id="whole-tree"),
        pytest.param(RUN, "logs", "run_a/coop/bakery/12/f3_f7", id="logs"),
        pytest.param(RUN, "logs/run_a/coop", "run_a/coop/bakery/12/f3_f7", id="below-logs"),
        pytest.param(RUN, RUN, "run_a/coop/bakery/12/f3_f7", id="run-itself"),
        pytest.param("logs/old/logs/b/f1_f2", ".", "b/f1_f2", id="last-logs"),
        pytest.param("runs/b/f1_f2", "runs", "b/f1_f2", id="no-logs"),
        pytest.param("runs/b/f1_f2", "runs/b/f1_f2", "f1_f2", id="no-logs-run-itself"),
        pytest.param("runs/logs", "runs/logs", "logs", id="run-called-logs"),
    ],
)
def test_trace_id_is_the_path_below_logs(write, trace, tmp_path, place, given, trace_id):
    write(place, **files())
    assert trace(tmp_path / given).id == trace_id


@pytest.mark.parametrize("given", [".", "logs", "logs/run_a/..", RUN, f"{RUN}/", f"./{RUN}"])
def test_relative_paths_give_the_same_id(write, trace, tmp_path, monkeypatch, given):
    write(RUN, **files())
    monkeypatch.chdir(tmp_path)
    assert trace(given).id == trace(tmp_path).id == "run_a/coop/bakery/12/f3_f7"


def test_relative_path_from_inside_the_run(write, trace, monkeypatch):
    monkeypatch.chdir(write(RUN, **files()))
    assert trace(".").id == "run_a/coop/bakery/12/f3_f7"


def test_conversation_file_stands_for_its_run(write, trace):
    folder = write(RUN, **files())
    run = trace(folder / "conversation.json")
    assert (run.id, run.format) == ("run_a/coop/bakery/12/f3_f7", "cooperbench")
    assert run.patches == trace(folder).patches


def test_runs_are_found_in_the_order_of_their_paths(write, found, tmp_path):
    for name in ("c", "a", "b"):
        write(f"logs/{name}/coop/bakery/12/f3_f7", **files())
    assert [one.id[0] for one in found(tmp_path)] == ["a", "b", "c"]


def test_what_lies_in_a_folder_comes_before_the_next_folder(write, found, tmp_path):
    for name in ("a-b", "a", "a/inner", "a/Inner", "b"):
        write(f"runs/{name}", **files())
    assert [one.id for one in found(tmp_path / "runs")] == ["a", "a/Inner", "a/inner", "a-b", "b"]


# --- hostile files


def test_feature_id_never_names_a_file_elsewhere(write, trace, tmp_path):
    write("secret", **{"passwd.patch": "root:x:0", "passwd": "root:x:0"})
    evil = "../" * 8 + str(tmp_path)[1:] + "/secret/passwd"
    ends = {"agent1": {"feature_id": evil}, "agent2": {"feature_id": "../../etc/passwd"}}
    facts = result(agents=ends, features=[evil, "7"])
    run = trace(write(RUN, **files(**{"result.json": facts})))
    assert run.patches == {"agent2": "+oven = 1\n"}
    assert [step.text for steps in run.steps.values() for step in steps] == [
        "Build the oven",
        "At once",
    ]
    assert "root:x:0" not in "".join([*run.patches.values(), *run.tasks.values()])


@pytest.mark.parametrize("name", ["agent3.patch", "eval.json", "agent7_traj.json", "notes.txt"])
def test_link_that_leaves_the_folder_is_not_followed(write, unreadable, tmp_path, name):
    secret = write("secret", file="{}") / "file"
    folder = write(RUN, **files(**{name: None}))
    (folder / name).symlink_to(secret)
    one = unreadable(tmp_path / "logs")
    assert one.id == "run_a/coop/bakery/12/f3_f7"
    assert one.reason.startswith(f"{name}: a link that leaves the given folder")


def test_link_that_leaves_the_folder_is_not_followed_from_the_conversation_file(write, found):
    secret = write("secret", file="SECRET") / "file"
    folder = write(RUN, **files(**{"agent3.patch": None}))
    (folder / "agent3.patch").symlink_to(secret)
    (one,) = found(folder / "conversation.json")
    assert "SECRET" not in (one.patches.values() if isinstance(one, Trace) else ())
    assert isinstance(one, Unreadable)


def test_link_within_the_folder_is_followed(write, trace):
    folder = write(RUN, **files(**{"agent7.patch": None}))
    (folder / "agent7.patch").symlink_to("agent3.patch")
    assert trace(folder).patches == {"agent1": "+till = 1\n", "agent2": "+till = 1\n"}


def test_link_to_itself_makes_one_run_unreadable(write, found, tmp_path):
    write("logs/b/coop/bakery/12/f3_f7", **files())
    folder = write("logs/a/coop/bakery/12/f3_f7", **files(**{"agent7.patch": None}))
    (folder / "agent7.patch").symlink_to("agent7.patch")
    assert [type(one) for one in found(tmp_path)] == [Unreadable, Trace]


def test_link_to_nothing_is_not_a_missing_outcome(write, found):
    folder = write(RUN, **files(**{"eval.json": None}))
    (folder / "eval.json").symlink_to("lost.json")
    (one,) = found(folder)
    assert isinstance(one, Unreadable)


@pytest.mark.parametrize("name", ["conversation.json", "result.json", "eval.json", "agent3.patch"])
def test_pipe_does_not_hang(write, unreadable, name):
    folder = write(RUN, **files(**{name: None}))
    os.mkfifo(folder / name)
    assert unreadable(folder).reason == f"{name}: not a regular file"


def test_pipe_as_trajectory_does_not_hang(write, trace):
    folder = write(RUN, **files(**{"agent3_traj.json": None}))
    os.mkfifo(folder / "agent3_traj.json")
    run = trace(folder)
    with pytest.raises(UnreadableTrace, match="not a regular file"):
        _ = run.steps


def test_socket_in_place_of_a_file(write, unreadable, monkeypatch):
    folder = write(RUN, **files(**{"eval.json": None}))
    monkeypatch.chdir(folder)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("eval.json")
        assert unreadable(folder).reason == "eval.json: not a regular file"


def test_folder_in_place_of_a_file(write, unreadable):
    folder = write(RUN, **files(**{"eval.json": None}))
    (folder / "eval.json").mkdir()
    assert unreadable(folder).reason == "eval.json: not a regular file"


def test_lone_surrogates_become_storable(write, trace):
    talk = '[{"from": "agent\\ud800", "to": "x\\udfff", "message": "a \\udc80 b"}]'
    run = trace(write(RUN, **files(**{"conversation.json": talk})))
    (one,) = run.messages
    assert (one.sender, one.recipients, one.text) == ("agent\ufffd", ("x\ufffd",), "a \ufffd b")
    assert json.dumps(one.text, ensure_ascii=False).encode()


def test_emoji_given_as_a_surrogate_pair_stays_whole(write, trace):
    talk = '[{"from": "agent1", "message": "done \\ud83d\\ude00"}]'
    assert trace(write(RUN, **files(**{"conversation.json": talk}))).messages[0].text == "done 😀"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param(b"+a\r\n+b\r\n-c\r+d\n", "+a\r\n+b\r\n-c\r+d\n", id="crlf"),
        pytest.param(b"+a\x00b\n", "+a\x00b\n", id="nul"),
        pytest.param(b"+caf\xe9\n", "+caf\ufffd\n", id="latin-1"),
        pytest.param(b"\xff\xfe\x00", "\ufffd\ufffd\x00", id="binary"),
        pytest.param("+größer → 😀\n".encode(), "+größer → 😀\n", id="utf-8"),
        pytest.param(b"+a\n\n \t\n", "+a\n\n \t\n", id="white-space-at-the-end"),
        pytest.param("+a\x0b\x0c\x85\u2028b".encode(), "+a\x0b\x0c\x85\u2028b", id="line-marks"),
        pytest.param(b"", "", id="empty"),
    ],
)
def test_patch_text_is_unchanged(write, trace, data, text):
    assert trace(write(RUN, **files(**{"agent3.patch": data}))).patches["agent1"] == text


def test_nul_in_a_message_is_kept(write, trace):
    talk = [message("a\x00b")]
    run = trace(write(RUN, **files(**{"conversation.json": talk})))
    assert run.messages[0].text == "a\x00b"


def test_null_fields_in_a_message_are_kept_as_problems(write, trace):
    nothing = dict.fromkeys(("from", "to", "message", "timestamp", "feature_id", "kind"))
    run = trace(write(RUN, **files(**{"conversation.json": [nothing, message("Second")]})))
    first, second = run.messages
    assert (first.n, first.sender, first.recipients, first.text) == (1, "unknown", (), "")
    assert (first.time, first.kind) == (None, None)
    assert (second.n, second.text) == (2, "Second")
    assert run.problems == (
        "conversation.json: message 1 has no text",
        "conversation.json: message 1 has no sender",
    )


@pytest.mark.parametrize(
    ("entry", "what"),
    [("text", "a string"), (None, "null"), (3, "a number"), ([], "a list"), (True, "a boolean")],
)
def test_entry_that_is_no_object_makes_the_run_unreadable(write, unreadable, entry, what):
    one = unreadable(write(RUN, **files(**{"conversation.json": [message(), entry]})))
    assert one.reason == f"conversation.json: message 2: found {what}, expected an object"


@pytest.mark.parametrize("name", ["conversation.json", "result.json", "eval.json"])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param('{"merge": ', "not valid JSON", id="cut-off"),
        pytest.param("", "not valid JSON", id="empty"),
        pytest.param('"conflicts"', "found a string", id="a-string"),
        pytest.param("null", "found null", id="null"),
        pytest.param(b"\x00\x01\x02", "binary data, not JSON", id="binary"),
        pytest.param("[" * 100_000, "nested too deeply", id="deep-list"),
        pytest.param('{"a":' * 100_000, "nested too deeply", id="deep-object"),
        pytest.param("1" * 5_000, "not valid JSON: Exceeds the limit", id="long-number"),
        pytest.param('{"a": "x\ny"}', "not valid JSON: Invalid control", id="control-character"),
    ],
)
def test_broken_file_is_never_silently_judged(write, unreadable, name, text, reason):
    one = unreadable(write(RUN, **files(**{name: text})))
    assert one.reason.startswith(f"{name}: ")
    assert reason in one.reason
    assert len(one.reason) < 200


def test_eval_as_a_list_is_never_silently_judged(write, unreadable):
    one = unreadable(write(RUN, **files(**{"eval.json": []})))
    assert one.reason == "eval.json: found a list, expected an object"


def test_file_that_may_not_be_read(write, unreadable):
    folder = write(RUN, **files())
    (folder / "eval.json").chmod(0)
    if os.access(folder / "eval.json", os.R_OK):
        pytest.skip("this user may read every file")
    assert unreadable(folder).reason == "eval.json: Permission denied"


def test_one_broken_run_does_not_stop_the_others(write, found, tmp_path):
    for name, text in (("a", None), ("b", "{"), ("c", None)):
        broken = {"eval.json": text} if text else {}
        write(f"logs/{name}/coop/bakery/12/f3_f7", **files(**broken))
    kinds = [(type(one), one.id[0]) for one in found(tmp_path)]
    assert kinds == [(Trace, "a"), (Unreadable, "b"), (Trace, "c")]


def test_folder_name_that_is_not_utf_8_has_a_storable_id(write, trace, tmp_path):
    folder = tmp_path / os.fsdecode(b"run\xff")
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("the file system takes no such name")
    (folder / "conversation.json").write_text("[]", encoding="utf-8")
    assert trace(tmp_path).id == "run\ufffd"


def test_folder_with_other_json_files_is_no_run(write, found, tmp_path):
    write("mixed", **{"conversation.json": [message()], "other.json": [message()]})
    assert [(one.id, one.format) for one in found(tmp_path)] == [
        ("mixed/conversation.json", "generic"),
        ("mixed/other.json", "generic"),
    ]


def test_format_cooperbench_reads_nothing_else(write, found, tmp_path):
    write(RUN, **files())
    write("elsewhere", **{"talk.json": [message()]})
    assert [one.format for one in found(tmp_path, format="cooperbench")] == ["cooperbench"]


@pytest.mark.parametrize(
    ("name", "files", "is_run"),
    [
        ("f1_f2", {"result.json"}, True),
        ("f1_f2", {"notes.txt"}, False),
        ("x", {"conversation.json"}, True),
        ("x", {"conversation.json", "other.json"}, False),
        ("x", {"conversation.json", "eval.json", "other.json"}, True),
        ("x", {"result.json", "eval.json"}, False),
        ("x", {"result.json", "eval.json", "solo.patch"}, True),
        ("x", {"result.json", "agent3_traj.json"}, True),
        ("x", {"alice_session.jsonl", "bob_session.jsonl"}, False),
    ],
)
def test_what_is_taken_for_a_run_folder(name, files, is_run):
    assert cooperbench.claims(name, frozenset(files)) == is_run


def test_no_quote_runs_across_the_parts_of_a_step(tmp_path):
    parts = [{"type": "text", "text": "I will never"}, {"type": "text", "text": "touch your file"}]
    steps = read_steps([{"role": "assistant", "content": parts}], "traj")
    trace = Trace("t", "x", "", read_steps=lambda: {"agent1": steps})
    assert [span.source for span in locate("I will never", trace)] == ["step:agent1:1"]
    assert locate("never touch your file", trace) == []
