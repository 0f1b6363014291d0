"""The formats of others: samples made by the libraries themselves, or by hand from their layouts.

``examples/formats`` holds them. What is expected was counted from the libraries' own objects
when they wrote the samples, or from the values that a sample was made of, never by a reader.
"""

import copy
import json
import random
from collections import Counter
from pathlib import Path

import pytest

from annotator import load_rubric, locate
from annotator.traces import Trace, Unreadable, read_traces
from annotator.traces.formats import DOCUMENT_FORMATS
from annotator.traces.library import Library
from tests.conftest import EXAMPLES
from tests.traces.test_formats_chats import CHATS
from tests.traces.test_formats_harnesses import HARNESSES

SAMPLES = EXAMPLES.parent / "formats"
PAIR = ("planner", "coder")
SOLO = ("assistant",)


def authors(**counts):
    return counts


ONE_TOOL = authors(system=1, human=1, agent=2, tool=1)
# File: format, how it was made, and for each trace its id, messages by author, agents, outcome.
EXPECTED = {
    **CHATS,
    **HARNESSES,
    "anthropic/batch_results.jsonl": (
        "api-log",
        "anthropic 2.12",
        [("a-1", authors(agent=1), SOLO, None), ("batch_results.jsonl:2", "too long")],
    ),
    "anthropic/conversation.json": (
        "generic",
        "anthropic 2.12",
        [("conv-1", ONE_TOOL, SOLO, None)],
    ),
    "anthropic/message.json": (
        "api-log",
        "anthropic 2.12",
        [("msg_1", authors(agent=1), SOLO, None)],
    ),
    "atif/trajectory.json": ("atif", "harbor 0.25", [("run-7", ONE_TOOL, ("fixer",), None)]),
    "autogen/task_result.json": (
        "autogen",
        "autogen-agentchat 0.7.5",
        [
            (
                "task_result.json",
                authors(human=3, agent=4, tool=2),
                ("painter", "helper"),
                None,
            )
        ],
    ),
    "autogen/team_state.json": (
        "autogen",
        "autogen-agentchat 0.7.5",
        [("team_state.json", authors(human=3, agent=4, tool=2), ("painter", "helper"), None)],
    ),
    "claude_code/session.jsonl": (
        "claude-code",
        "by hand",
        [("s-1", authors(system=2, human=1, agent=4, tool=1), ("assistant", "helper-1"), None)],
    ),
    "claude_code/two_sessions.jsonl": (
        "claude-code",
        "by hand",
        [
            ("s-1", authors(human=1, agent=1), SOLO, None),
            ("s-2", authors(human=1, agent=1), SOLO, None),
        ],
    ),
    "codex/rollout.jsonl": ("codex", "by hand", [("rollout.jsonl", ONE_TOOL, SOLO, None)]),
    "crewai/output.json": (
        "crewai",
        "crewai 1.15",
        [("output.json", authors(system=6, agent=2), PAIR, None)],
    ),
    "generic/ag2_chat.json": (
        "generic",
        "by hand",
        [("ag2_chat.json", authors(human=1, agent=2), PAIR, None)],
    ),
    "generic/gemini.json": (
        "generic",
        "by hand",
        [("gemini.json", authors(human=1, agent=2, tool=1), ("model",), None)],
    ),
    "generic/openai_chat.json": (
        "generic",
        "by hand",
        [("openai_chat.json", authors(system=1, human=1, agent=1), SOLO, True)],
    ),
    "generic/sharegpt.jsonl": (
        "generic",
        "by hand",
        [("g-1", ONE_TOOL, ("gpt",), None), ("g-2", authors(human=1, agent=1), ("gpt",), None)],
    ),
    "google_adk/session_camel.json": (
        "google-adk",
        "google-adk 2.13",
        [("*", authors(human=1, agent=3, tool=2), ("planner", "checker"), None)],
    ),
    "google_adk/session_snake.json": (
        "google-adk",
        "google-adk 2.13",
        [("*", authors(human=1, agent=3, tool=2), ("planner", "checker"), None)],
    ),
    "inspect/adding.eval": (
        "inspect",
        "inspect_ai 0.3.285",
        [
            (f"adding.eval:{sample}/{epoch}", ONE_TOOL, SOLO, sample == "sum")
            for epoch in (1, 2)
            for sample in ("sum", "hard sum")
        ],
    ),
    "inspect/adding.json": (
        "inspect",
        "inspect_ai 0.3.285, without its events",
        [
            (f"adding.json:{sample}/{epoch}", ONE_TOOL, SOLO, sample == "sum")
            for epoch in (1, 2)
            for sample in ("hard sum", "sum")
        ],
    ),
    **{
        f"langchain/{name}": (
            "langchain",
            "langchain-core 1.7",
            [(name, authors(system=1, human=1, agent=3, tool=1), PAIR, None)],
        )
        for name in (
            *("constructor.json", "lines.jsonl"),
            *("messages_to_dict.json", "model_dump.json"),
        )
    },
    "langchain/langgraph_state.json": (
        "langchain",
        "langgraph 1.2",
        [("*", authors(human=1, agent=2), PAIR, None)],
    ),
    "magentic_one/run.json": (
        "magentic-one",
        "by hand",
        [("run.json", authors(human=1, agent=5, tool=1), ("Orchestrator", "WebSurfer"), None)],
    ),
    "magentic_one/who_and_when.json": (
        "magentic-one",
        "by hand",
        [("q1", authors(agent=2, tool=1), ("Planner", "Coder"), False)],
    ),
    "mast/log.jsonl": (
        "mast",
        "by hand",
        [("ChatDev/model-1/apps/0", authors(unknown=1), (), None)],
    ),
    "mast/mad.jsonl": (
        "mast",
        "by hand, in another way",
        [
            ("ChatDev/fake-model/ProgramDev/0", authors(unknown=1), (), None),
            *[
                (
                    f"AG2/{model}/GSM/0",
                    authors(system=1, agent=2),
                    ("Agent_Code_Executor", "Agent_Verifier"),
                    None,
                )
                for model in ("fake-model", "other-model")
            ],
        ],
    ),
    "mast/records.json": (
        "mast",
        "by hand",
        [
            (f"{name}/model-1/sums/1", authors(system=1, agent=2), ("Planner", "Coder"), None)
            for name in ("AG2", "Other")
        ],
    ),
    **{
        f"openai/{name}": (
            "generic",
            "openai-agents 0.24",
            [(name, authors(human=1, agent=3, tool=2), SOLO, None)],
        )
        for name in ("agents_input_list.json", "agents_session.json")
    },
    "openai/agents_trace.jsonl": (
        "span-export",
        "openai-agents 0.24",
        [("*", authors(human=1, agent=3, tool=2), ("planner", "checker"), None)],
    ),
    "openai/batch_output.jsonl": (
        "api-log",
        "openai 2.54",
        [
            ("sum-1", authors(agent=1), SOLO, None),
            ("sum-2", authors(system=1, agent=2), SOLO, None),
            ("sum-3", "no message in it: too late"),
        ],
    ),
    "openai/agents_sessions.jsonl": (
        "openai-agents",
        "openai-agents 0.24",
        [(f"session-{n}", authors(human=1, agent=5, tool=2), SOLO, None) for n in (2, 4)],
    ),
    "openai/agents_new_items.json": (
        "openai-agents",
        "openai-agents 0.24",
        [("agents_new_items.json", authors(agent=5, tool=2), PAIR, None)],
    ),
    "openai/agents_responses.json": (
        "openai-agents",
        "openai-agents 0.24",
        [("agents_responses.json", authors(agent=5), SOLO, None)],
    ),
    "openai/batch_input.jsonl": (
        "api-log",
        "openai 2.54",
        [(f"request-{n}", ONE_TOOL, ("coder", "planner"), None) for n in (1, 2)],
    ),
    "openai/chat_completion.json": (
        "api-log",
        "openai 2.54",
        [("chatcmpl-1", authors(agent=1), SOLO, None)],
    ),
    "openai/requests.jsonl": (
        "api-log",
        "openai 2.54",
        [("requests.jsonl:1", authors(system=1, human=1, agent=1), SOLO, None)],
    ),
    "openai/response.json": (
        "api-log",
        "openai 2.54",
        [("resp_1", authors(system=1, agent=2), SOLO, None)],
    ),
    "openhands/output.jsonl": (
        "openhands",
        "by hand",
        [
            ("calc-1", authors(human=1, agent=2, tool=1), ("agent",), True),
            ("calc-2", authors(human=1, agent=2, tool=1), ("agent",), None),
        ],
    ),
    "openhands/session": (
        "openhands-events",
        "by hand",
        [("events", authors(human=1, agent=2, tool=1), ("agent",), None)],
    ),
    "openhands/sdk": (
        "openhands-events",
        "openhands-sdk 1.58",
        [("events", ONE_TOOL, ("agent",), None)],
    ),
    **{
        f"opentelemetry/{name}": (
            "opentelemetry",
            "opentelemetry-sdk 1.45",
            [("*", authors(system=2, human=1, agent=3, tool=1), ("planner", "checker"), None)] * 2,
        )
        for name in (
            *("genai.json", "genai_lines.jsonl"),
            *("openinference.json", "openinference_lines.jsonl"),
        )
    },
    "opentelemetry/langfuse_sdk.jsonl": (
        "opentelemetry",
        "langfuse 5.0",
        [("*", authors(system=2, human=1, agent=3, tool=1), ("planner", "coder"), None)] * 2,
    ),
    "opentelemetry/console.json": (
        "span-export",
        "opentelemetry-sdk 1.45",
        [("*", authors(system=2, human=1, agent=3, tool=1), ("planner", "coder"), None)] * 2,
    ),
    "span_exports/langsmith_tree.json": (
        "span-export",
        "langsmith",
        [("*", ONE_TOOL | {"agent": 3}, ("planner", "coder"), None)],
    ),
    "opentelemetry/openllmetry.jsonl": (
        "opentelemetry",
        "by hand",
        [("*", authors(human=2, agent=2), SOLO, None)],
    ),
    "pydantic_ai/history.json": (
        "pydantic-ai",
        "pydantic-ai-slim 2.68",
        [("history.json", authors(system=1, human=1, agent=3, tool=1), SOLO, None)],
    ),
    **{
        f"span_exports/{name}": ("span-export", "by hand", [(trace_id, ONE_TOOL, agents, None)])
        for name, trace_id, agents in (
            ("langfuse_observations.jsonl", "t-1", ("planner",)),
            ("langfuse_trace.json", "t-1", ("planner",)),
            ("langsmith.jsonl", "r0", SOLO),
            ("phoenix.jsonl", "p-1", ("planner",)),
            ("weave.jsonl", "w-1", ("planner_agent",)),
        )
    },
    "swe_agent/mini.traj.json": (
        "swe-agent",
        "mini-swe-agent 2.4",
        [("mini.traj.json", authors(system=3, agent=2, tool=1), ("agent",), None)],
    ),
    "swe_agent/old.traj": (
        "swe-agent",
        "by hand",
        [("old.traj", authors(system=2, agent=1, tool=1), ("agent",), None)],
    ),
    "tau_bench/results.json": (
        "tau-bench",
        "by hand",
        [
            (f"results.json:{task}/{trial}", ONE_TOOL, SOLO, task == 1)
            for task in (0, 1)
            for trial in (0, 1)
        ],
    ),
    "tau_bench/tau2.json": (
        "tau-bench",
        "by hand",
        [("tau2.json:t1/0", authors(agent=3, human=1, tool=1), SOLO, True)],
    ),
}


def alone(name):
    """Yield what is read of a sample, given by itself."""
    return list(read_traces([str(SAMPLES / name)]))


def test_every_sample_is_in_the_table():
    files = {path for path in SAMPLES.rglob("*.*") if path.is_file()}
    held = {name for name in EXPECTED if (SAMPLES / name).is_file()}
    assert {path.relative_to(SAMPLES).as_posix() for path in files} == held | {
        path.relative_to(SAMPLES).as_posix() for path in SAMPLES.glob("openhands/s*/events/*.json")
    }
    read_by = {form for form, _, _ in EXPECTED.values()}
    assert read_by >= {reader.name for reader in DOCUMENT_FORMATS} - {"cooperbench-export"}


@pytest.mark.parametrize("name", EXPECTED)
def test_counts(name):
    form, _, expected = EXPECTED[name]
    items = alone(name)
    assert len(items) == len(expected)
    for item, (trace_id, *rest) in zip(items, expected, strict=True):
        if isinstance(rest[0], str):
            assert isinstance(item, Unreadable)
            assert rest[0] in item.reason
            continue
        counts, agents, passed = rest
        assert isinstance(item, Trace), item
        assert item.format == form
        assert trace_id in ("*", item.id)
        assert Counter(message.author for message in item.messages) == counts
        assert item.agents == agents
        assert item.outcome.passed is passed
        assert all(message.text for message in item.messages)


@pytest.mark.parametrize("name", EXPECTED)
def test_words_of_tools_people_and_harnesses_are_no_evidence_of_what_an_agent_said(name):
    for trace in alone(name):
        for message in trace.messages if isinstance(trace, Trace) else ():
            first = message.text[: next(iter(message.breaks), None)]
            if message.author == "agent":
                assert locate(first, trace, ("messages",)) or len(first.split()) == 1
            elif len(first.split()) > 1:
                assert locate(first, trace, ("messages",)) == []
                assert locate(first, trace)


@pytest.mark.parametrize("name", EXPECTED)
def test_traces_are_found_again_by_their_ids(name):
    library = Library([str(SAMPLES / name)])
    for item in alone(name):
        assert library.trace(item.id) == item


def test_a_person_is_no_second_agent():
    rubric = load_rubric("comm_errors")  # of two agents and more
    (chat,) = alone("generic/openai_chat.json")
    assert rubric.excludes(chat) == "1 agent(s), the rubric needs 2"
    (pair,) = alone("langchain/messages_to_dict.json")
    assert rubric.excludes(pair) is None


def test_what_agents_think_is_no_message():
    (trace,) = alone("claude_code/session.jsonl")
    assert [step.text for step in trace.steps["assistant"]] == ["I look first."]
    assert "I look first." not in [message.text for message in trace.messages]


def test_labels_of_people_are_nowhere_in_a_trace():
    (trace,) = alone("magentic_one/who_and_when.json")
    assert not {"mistake_agent", "mistake_step", "mistake_reason"} & trace.attributes.keys()
    assert "It guessed." not in str(trace)
    for record in alone("mast/records.json"):
        assert "mast_annotation" not in record.attributes


def test_notes_and_recipients_of_an_orchestrator():
    (trace,) = alone("magentic_one/run.json")
    assert [(m.sender, m.recipients, m.kind) for m in trace.messages[1:4]] == [
        ("Orchestrator", ("Orchestrator",), "thought"),
        ("Orchestrator", ("WebSurfer",), None),
        ("WebSurfer", (), None),
    ]


def test_a_simulated_customer_is_told():
    assert {trace.attributes["user"] for trace in alone("tau_bench/results.json")} == {"simulated"}


def test_patches_of_agents():
    (trace,) = alone("swe_agent/old.traj")
    assert dict(trace.patches) == {"agent": "diff --git a/calc.py b/calc.py\n"}


# --- broken input


WRONG = (None, 3, "", "x", [], {}, [None], {"role": None}, True)


def nodes(value, path=()):
    """Yield the places of all that a JSON value holds."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in pairs:
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from nodes(inner, (*path, key))


def spoil(document, chance):
    """Return a document with one place in it gone or wrong."""
    document = copy.deepcopy(document)
    *path, last = chance.choice(list(nodes(document)))
    at = document
    for key in path:
        at = at[key]
    if chance.random() < 0.3:
        del at[last]
    else:
        at[last] = chance.choice(WRONG)
    return document


@pytest.mark.parametrize(
    "name", [name for name in EXPECTED if name.endswith((".json", ".jsonl", ".traj"))]
)
def test_spoiled_samples_raise_nothing(tmp_path, name):
    text = (SAMPLES / name).read_text()
    documents = [json.loads(line) for line in text.splitlines()] if name[-1] == "l" else None
    chance = random.Random(name)
    for n in range(40):
        file = tmp_path / f"{n}{Path(name).suffix}"
        if documents is None:
            file.write_text(json.dumps(spoil(json.loads(text), chance)))
        else:
            at = chance.randrange(len(documents))
            lines = [spoil(d, chance) if i == at else d for i, d in enumerate(documents)]
            file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for item in read_traces([str(tmp_path)]):
        assert "its reader failed" not in getattr(item, "reason", "")
        if isinstance(item, Trace):
            assert len(list(item.sources())) >= len(item.messages)


def test_spans_that_say_nothing_are_no_trace_without_findings(tmp_path):
    span = {"traceId": "a" * 32, "spanId": "b" * 16, "startTimeUnixNano": "1", "attributes": []}
    (tmp_path / "s.json").write_text(json.dumps(span))
    (item,) = read_traces([str(tmp_path)])
    assert isinstance(item, Unreadable)
    assert item.reason == "no message in its 1 span"


def test_two_sessions_of_codex_in_one_file_are_not_glued(tmp_path):
    lines = (SAMPLES / "codex" / "rollout.jsonl").read_text()
    (tmp_path / "both.jsonl").write_text(lines + lines.replace('"c-1"', '"c-2"'))
    (item,) = read_traces([str(tmp_path)])
    assert isinstance(item, Unreadable)
    assert "2 sessions in one file" in item.reason
