"""The CooperBench runner's log folders.

One folder a run, ``logs/<run name>/<coop|solo>/<project>/<task>/f<i>_f<j>/``. Two numberings meet
in it: agents are numbered by place (``agent1`` works on the lower feature), features by their
number in the task. ``conversation.json`` names agents; patch and trajectory files are named after
the *feature* (``agent7.patch``); ``eval.json`` numbers features by place (``feature1`` is the first
of ``features``), ``independent.json`` by feature number.
"""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from annotator.base.errors import UnreadableTrace
from annotator.base.text import replace_surrogates
from annotator.traces.conversation import read_chat, read_steps
from annotator.traces.files import read_json, read_text
from annotator.traces.model import AgentEnd, Feature, Message, Outcome, Steps, Trace
from annotator.traces.records import (
    expect_object,
    get_dict,
    get_text,
    name_type,
    parse_time,
    read_flag,
)

name = "cooperbench"

_MARK = re.compile(r"(result|eval|independent)\.json|(agent\d+|solo)(\.patch|_traj\.json)")
_RAW = re.compile(r"\w+_(session|sent)\.jsonl")  # the same messages again, as they were sent
_TALK = "conversation.json"
_PAIR = re.compile(r"f\d+(_f\d+)*")
_NUMBER = re.compile(r"[0-9]{1,9}")


def owns(file: str) -> bool:
    """Whether a file of this name is one that the runner writes."""
    return file == _TALK or _MARK.fullmatch(file) is not None


def claims(folder: str, files: frozenset[str]) -> bool:
    """Whether a folder of this name with these files is a run.

    It is named like one and holds a file of the runner; or holds several, or a conversation.json
    without other JSON.
    """
    runner_files = {file for file in files if owns(file)}
    if not runner_files or _PAIR.fullmatch(folder):
        return bool(runner_files)
    other_json = any(file.endswith((".json", ".jsonl")) for file in files - {_TALK})
    of_agents = any(file == _TALK or file.startswith(("agent", "solo")) for file in runner_files)
    return (_TALK in runner_files and not other_json) or (of_agents and len(runner_files) >= 2)


def read(folder: str, names: frozenset[str], trace_id: str) -> Trace:
    """Return the run in ``folder``, which holds the files ``names``.

    Raises:
        UnreadableTrace: a file is broken, or a run of several agents has no conversation.
    """
    result = _read_optional(folder, names, "result.json")
    evaluation = _read_optional(folder, names, "eval.json")
    alone = _read_optional(folder, names, "independent.json")
    location = _parse_location(trace_id)
    setting = get_text(result.get("setting")) or get_text(evaluation.get("setting"))
    setting = setting or location.get("setting") or "coop"
    problems: list[str] = []
    numbers = _find_feature_numbers(folder, names, result, evaluation)
    messages: tuple[Message, ...] = ()
    if _TALK in names:
        messages, wrong = _read_conversation(folder)
        problems += wrong
    elif setting != "solo":
        raise UnreadableTrace("conversation.json: missing, and the run is not a solo run")
    problems += [
        f"{file}: not a file of the runner, not read"
        for file in sorted(names)
        if ".json" in file and not owns(file) and not _RAW.fullmatch(file)
    ]
    sent = result.get("messages_sent")
    if isinstance(sent, int) and sent != len(messages):
        problems.append(
            f"result.json counts {sent} messages, conversation.json holds {len(messages)}"
        )

    owners = {"solo": ""} if setting == "solo" else _find_owners(result, numbers)
    outcome = _make_outcome(result, evaluation, alone, numbers, owners)
    return Trace(
        id=trace_id,
        format=name,
        path=folder,
        messages=messages,
        patches=_read_patches(folder, names, owners, problems),
        outcome=outcome,
        attributes=_make_attributes(result, evaluation, location, setting, outcome),
        problems=tuple(problems),
        read_steps=lambda: _read_steps(folder, owners),
        read_tasks=lambda: _read_tasks(folder, location, owners),
    )


def _read_optional(folder: str, names: frozenset[str], file: str) -> dict[str, Any]:
    return expect_object(read_json(folder, file), file) if file in names else {}


def _read_conversation(folder: str) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    value = read_json(folder, _TALK)
    items = value.get("messages") if isinstance(value, dict) else value
    if not isinstance(items, list):
        raise UnreadableTrace(f"{_TALK}: found {name_type(value)}, expected a list of messages")
    chat = read_chat(items, _TALK)
    return tuple(chat.messages), tuple(chat.problems)


def _parse_location(trace_id: str) -> dict[str, str]:
    """Return the attributes in the names of folders, if they have the runner's form."""
    parts = trace_id.split("/")
    if len(parts) < 4 or not _PAIR.fullmatch(parts[-1]) or parts[-4] not in {"coop", "solo"}:
        return {}
    attributes = {"setting": parts[-4], "project": parts[-3], "task": parts[-2]}
    return attributes | ({"run_name": parts[-5]} if len(parts) > 4 else {})


def _find_feature_numbers(
    folder: str, names: frozenset[str], result: dict[str, Any], evaluation: dict[str, Any]
) -> tuple[str, ...]:
    """Return the run's feature numbers in order of place (agent1's first)."""
    for value in (result.get("features"), evaluation.get("features")):
        if isinstance(value, list) and value:
            return tuple(_parse_number(feature) or "?" for feature in value)
    folder_name = Path(folder).name
    if _PAIR.fullmatch(folder_name):
        return tuple(feature[1:] for feature in folder_name.split("_"))
    matches = (re.fullmatch(r"agent(\d+)\.patch", name) for name in sorted(names))
    return tuple(sorted((match.group(1) for match in matches if match), key=int))


def _find_owners(result: dict[str, Any], numbers: tuple[str, ...]) -> dict[str, str]:
    agents = get_dict(result.get("agents"))
    by_position = {f"agent{n}": number for n, number in enumerate(numbers, 1)}
    if not agents:
        return by_position
    return {
        replace_surrogates(agent): _parse_number(get_dict(end).get("feature_id"))
        or by_position.get(agent, "")
        for agent, end in sorted(agents.items(), key=lambda pair: (len(pair[0]), pair[0]))
    }


def _parse_number(value: Any) -> str | None:
    """Return a feature number as text, or None: it becomes part of a file name."""
    text = get_text(value)
    return text if text and _NUMBER.fullmatch(text) else None


def _read_patches(
    folder: str, names: frozenset[str], owners: Mapping[str, str], problems: list[str]
) -> dict[str, str]:
    files = {
        agent: "solo.patch" if agent == "solo" else f"agent{number}.patch"
        for agent, number in owners.items()
    }
    unclaimed = {file for file in names if file.endswith(".patch")}.difference(files.values())
    problems += [
        f"{file}: belongs to no feature of this run, left out" for file in sorted(unclaimed)
    ]
    return {agent: read_text(folder, file) for agent, file in files.items() if file in names}


def _make_outcome(
    result: dict[str, Any],
    evaluation: dict[str, Any],
    alone: dict[str, Any],
    numbers: tuple[str, ...],
    owners: Mapping[str, str],
) -> Outcome:
    agent_of = {number: agent for agent, number in owners.items()}
    features = []
    for n, number in enumerate(numbers, 1):
        merged = get_dict(evaluation.get(f"feature{n}"))
        number = _parse_number(merged.get("feature_id")) or number
        single = evaluation.get(f"feature{n}_independent", alone.get(f"feature{number}"))
        single = get_dict(single)
        features.append(
            Feature(
                name=number,
                agent="solo" if "solo" in owners else agent_of.get(number),
                passed=read_flag(merged.get("passed")),
                passed_alone=read_flag(single.get("passed")),
                alone_reason=get_text(single.get("reason")),
                output=get_text(merged.get("test_output", merged.get("output"))) or "",
            )
        )
    merge = get_dict(evaluation.get("merge"))
    passed = read_flag(evaluation.get("both_passed"))
    if passed is None:
        results = {feature.passed for feature in features}
        passed = False if False in results else True if results == {True} else None
    return Outcome(
        passed=passed,
        merge=get_text(merge.get("status")),
        strategy=get_text(merge.get("strategy")),
        features=tuple(features),
        agents=_list_ends(result, owners),
        error=get_text(evaluation.get("error")),
        started=parse_time(result.get("started_at")),
        ended=parse_time(result.get("ended_at")),
    )


def _list_ends(result: dict[str, Any], owners: Mapping[str, str]) -> tuple[AgentEnd, ...]:
    agents = result.get("agents")
    reports = agents if isinstance(agents, dict) else {"solo": result.get("agent")}
    ends = []
    for agent, number in owners.items():
        report = get_dict(reports.get(agent))
        status, error = get_text(report.get("status")), get_text(report.get("error"))
        ended = parse_time(report.get("ended_at"))
        ends.append(AgentEnd(agent, number or None, status, error, ended))
    return tuple(ends)


def _make_attributes(
    result: dict[str, Any],
    evaluation: dict[str, Any],
    location: Mapping[str, str],
    setting: str,
    outcome: Outcome,
) -> dict[str, Any]:
    def first(key: str, fallback: str) -> str | None:
        return get_text(result.get(key)) or get_text(evaluation.get(key)) or location.get(fallback)

    return {
        "model": first("model", ""),
        "setting": setting,
        "project": first("repo", "project"),
        "task": first("task_id", "task"),
        "framework": first("agent_framework", ""),
        "run_name": first("run_name", "run_name"),
        "passed": outcome.passed,
        "merge": outcome.merge,
    }


def _read_trajectory(folder: str, agent: str, number: str) -> tuple[str, list[Any] | None]:
    """Return the name of the file of an agent's steps, and the steps in it if it is there."""
    file = f"{'solo' if agent == 'solo' else f'agent{number}'}_traj.json"
    if not os.path.lexists(f"{folder}/{file}"):
        return file, None
    value = expect_object(read_json(folder, file), file).get("messages")
    if not isinstance(value, list):
        raise UnreadableTrace(f"{file}: messages: found {name_type(value)}, expected a list")
    return file, value


def _read_steps(folder: str, owners: Mapping[str, str]) -> Steps:
    steps = {}
    for agent, number in owners.items():
        file, items = _read_trajectory(folder, agent, number)
        if items is not None:
            steps[agent] = read_steps(items, file)
    return steps


def _read_tasks(
    folder: str, location: Mapping[str, str], owners: Mapping[str, str]
) -> dict[str, str]:
    """Return each agent's prompts before it speaks, and its feature's text if they lack it."""
    above, logs, _ = f"{folder}/".rpartition("/logs/")
    tasks = {}
    for agent, number in owners.items():
        file, items = _read_trajectory(folder, agent, number)
        roles = [get_text(get_dict(item).get("role")) for item in items or []]
        n = roles.index("user") + 1 if roles[:1] == ["system"] and "user" in roles else 1
        first = read_steps((items or [])[:n], file)
        prompts = [step.text for step in first if step.author == "system" and step.text]
        if logs and location:
            task = f"{above}/dataset/{location['project']}/task{location['task']}/feature{number}"
            file = f"{task}/feature.md"
            # A link may lead to any file of this machine.
            if os.path.isfile(file) and not os.path.islink(file):  # noqa: PTH113, PTH114
                with suppress(UnreadableTrace):
                    feature = read_text(task, "feature.md")
                    prompts += [feature] * (feature.strip() not in "".join(prompts))
        if prompts:
            tasks[agent] = "\n\n".join(prompts)
    return tasks
