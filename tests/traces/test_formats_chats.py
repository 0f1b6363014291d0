"""Chats of agent frameworks and model APIs: what was read wrongly before, each as a test.

``CHATS`` are samples beside those of ``test_formats``, which tries all of its tests on them, too.
What is expected was counted from the libraries' own objects, or stands in the values that a sample
was made of.
"""

import json

import pytest

from annotator import load_rubric, locate
from annotator.traces import Trace, read_traces
from tests.conftest import EXAMPLES

SAMPLES = EXAMPLES.parent / "formats"
PAIR = ("planner", "coder")
SOLO = ("assistant",)
AUTOGEN = "autogen-agentchat 0.7.5"
STREAM = {"human": 2, "agent": 4, "tool": 2, "unknown": 2}

# File: format, how it was made, and for each trace its id, messages by author, agents, outcome.
CHATS = {
    "anthropic/requests.jsonl": (
        "api-log",
        "anthropic 2.12",
        [("requests.jsonl:1", {"system": 1, "human": 1, "agent": 2, "tool": 1}, SOLO, None)],
    ),
    "anthropic/results_and_text.json": (
        "generic",
        "anthropic 2.12",
        [("results_and_text.json", {"human": 2, "agent": 3, "tool": 2}, SOLO, None)],
    ),
    "anthropic/server_tools.json": (
        "api-log",
        "anthropic 2.12",
        [("msg_9", {"agent": 2, "tool": 1}, SOLO, None)],
    ),
    "autogen/agent_state.json": (
        "autogen",
        AUTOGEN,
        [
            (
                "agent_state.json",
                {"human": 1, "agent": 2, "tool": 1, "unknown": 4},
                ("painter",),
                None,
            )
        ],
    ),
    "autogen/coder.json": (
        "autogen",
        AUTOGEN,
        [("coder.json", {"human": 1, "agent": 3, "tool": 1}, ("runner", "critic"), None)],
    ),
    "autogen/handoff.json": (
        "autogen",
        AUTOGEN,
        [("*", {"human": 1, "agent": 4, "tool": 2}, ("h1", "h2"), None)],
    ),
    "autogen/kinds.json": (
        "autogen",
        AUTOGEN,
        [("kinds.json", STREAM, ("designer", "painter"), None)],
    ),
    "autogen/stream.jsonl": (
        "autogen",
        AUTOGEN,
        [("stream.jsonl", STREAM, ("designer", "painter"), None)],
    ),
    "autogen/team_with_person.json": (
        "autogen",
        AUTOGEN,
        [
            (
                "team_with_person.json",
                {"human": 1, "agent": 4, "tool": 2, "unknown": 3},
                ("designer", "painter"),
                None,
            )
        ],
    ),
    "claude_code/notices.jsonl": (
        "claude-code",
        "by hand",
        [
            (
                "s-9",
                {"human": 1, "agent": 6, "tool": 2, "system": 7},
                ("assistant", "a1", "reviewer"),
                None,
            )
        ],
    ),
    "claude_code/stream.jsonl": (
        "claude-code",
        "by hand",
        [("s-7", {"agent": 5, "tool": 1}, ("assistant", "toolu_1"), None)],
    ),
    "codex/exec.jsonl": (
        "codex-exec",
        "by hand",
        [("exec.jsonl", {"agent": 5, "tool": 3, "system": 1}, SOLO, None)],
    ),
    "codex/tools.jsonl": (
        "codex",
        "by hand",
        [("tools.jsonl", {"system": 3, "human": 1, "agent": 4, "tool": 2}, SOLO, None)],
    ),
    "crewai/tools.json": (
        "crewai",
        "crewai 1.15",
        [("tools.json", {"system": 7, "agent": 3, "tool": 1}, PAIR, None)],
    ),
    "generic/ag2_code.json": (
        "generic",
        "pyautogen 0.2.35",
        [("ag2_code.json", {"human": 2, "agent": 2, "tool": 1}, PAIR, None)],
    ),
    "generic/ag2_tools.json": (
        "generic",
        "pyautogen 0.2.35",
        [("ag2_tools.json", {"human": 1, "agent": 2, "tool": 1}, ("caller",), None)],
    ),
    "generic/gemini_code.json": (
        "generic",
        "by hand",
        [("gemini_code.json", {"human": 1, "agent": 2, "tool": 1}, ("model",), None)],
    ),
    "generic/sharegpt_calls.jsonl": (
        "generic",
        "by hand",
        [("g-7", {"human": 1, "agent": 2, "tool": 1}, ("gpt",), None)],
    ),
    "langchain/history.json": (
        "langchain",
        "langgraph 1.2",
        [("*", {"human": 1, "agent": 2, "tool": 1}, PAIR, None)],
    ),
    "langchain/kinds.json": (
        "langchain",
        "langchain-core 1.7",
        [("kinds.json", {"system": 1, "human": 1, "agent": 5, "tool": 2}, ("ai",), None)],
    ),
    "langchain/state_of_constructors.json": (
        "langchain",
        "langchain-core 1.7",
        [("*", {"system": 1, "human": 1, "agent": 2, "tool": 1}, ("ai",), None)],
    ),
    "langchain/supervisor.json": (
        "langchain",
        "by hand",
        [("supervisor.json", {"human": 1, "agent": 2, "unknown": 1}, ("planner",), None)],
    ),
    "langchain/updates.jsonl": (
        "langchain",
        "langgraph 1.2",
        [("updates.jsonl", {"agent": 2, "tool": 1}, PAIR, None)],
    ),
    "openai/choices.jsonl": (
        "api-log",
        "openai 2.54",
        [(f"choices.jsonl:{n}", {"system": 1, "human": 1, "agent": 1}, SOLO, None) for n in (1, 2)],
    ),
    "openai/hosted_tools.json": (
        "api-log",
        "openai 2.54",
        [("resp_2", {"system": 1, "agent": 7, "tool": 3}, SOLO, None)],
    ),
    "openai/items.jsonl": (
        "generic",
        "openai 2.54",
        [("items.jsonl", {"agent": 6, "tool": 3}, SOLO, None)],
    ),
    "pydantic_ai/instructions.json": (
        "pydantic-ai",
        "pydantic-ai-slim 2.68",
        [("instructions.json", {"system": 2, "human": 1, "agent": 4, "tool": 1}, SOLO, None)],
    ),
    "smolagents/result.json": (
        "smolagents",
        "smolagents 1.26, without what the model was asked",
        [("result.json", {"human": 1, "agent": 3, "tool": 2}, ("agent",), None)],
    ),
    "smolagents/steps.json": (
        "smolagents",
        "smolagents 1.26, without its last step",
        [("steps.json", {"human": 1, "agent": 1, "tool": 1}, ("agent",), None)],
    ),
}

# Of each sample a text that is an agent's, and texts of tools, people and harnesses in it.
QUOTES = {
    "anthropic/results_and_text.json": ("I search first.", ["12, printed by the server", "Go on."]),
    "anthropic/server_tools.json": ("It has 12 keys.", ["12, printed by the server"]),
    "autogen/agent_state.json": ("print(12)", ["12 keys, says the tool", "Looks fine to me."]),
    "autogen/handoff.json": ("I finish.", ["Transferred to h2, adopting the role"]),
    "autogen/kinds.json": (
        '{"goal": "a clear panel", "keys": 12}',
        ["12 keys, says the tool", "12 keys, printed by the script", "Looks fine to me."],
    ),
    "autogen/stream.jsonl": (
        "print(12)",
        ["12 keys, says the tool", "12 keys, printed by the script", "Looks fine to me."],
    ),
    "claude_code/notices.jsonl": (
        "There are twelve keys.",
        ["calc.py, says the shell", "No response requested.", "Request interrupted"],
    ),
    "codex/exec.jsonl": (
        "The plus key works now.",
        ["calc.py, says the shell", "12 keys, says the server", "no such panel"],
    ),
    "codex/tools.jsonl": (
        "*** Begin Patch",
        ["Success, says the patcher", "calc.py, says the shell", "The turn was interrupted."],
    ),
    "crewai/tools.json": ("I count first.", ["12 keys, says the tool"]),
    "generic/ag2_code.json": ("Coder, print the sum.", ["5, printed by the script"]),
    "generic/ag2_tools.json": ("The sum is 5.", ["the tool says 5", "Add 2 and 3."]),
    "generic/gemini_code.json": ("I run it.", ["5, printed by the sandbox"]),
    "langchain/kinds.json": ("No, 5.", ["the tool says 5", "old function says 6"]),
    "langchain/supervisor.json": ("The plus key is in place.", ["Looks right to me."]),
    "langchain/updates.jsonl": ("Plus it is.", ["keys: 7 8 9, says the tool"]),
    "openai/hosted_tools.json": (
        "I will not count further.",
        ["printed by the interpreter", "says the server", "calc.py, says the shell"],
    ),
    "pydantic_ai/instructions.json": ("Maybe six.", ["the tool says so", "says the validator"]),
    "smolagents/steps.json": ("I call a tool.", ["12 keys, says the tool"]),
}


def read_sample(name):
    """Return the first trace of a sample."""
    trace = next(read_traces([str(SAMPLES / name)]))
    assert isinstance(trace, Trace), trace
    return trace


def read_value(folder, value, name="trace.json"):
    """Return what is read of a JSON value in a file, or of values on lines."""
    file = folder / name
    lines = name.endswith("l")
    file.write_text("".join(map("{}\n".format, map(json.dumps, value if lines else [value]))))
    return list(read_traces([str(file)]))


@pytest.mark.parametrize("name", QUOTES)
def test_only_words_of_agents_are_evidence_of_what_agents_said(name):
    trace = read_sample(name)
    spoken, others = QUOTES[name]
    assert locate(spoken, trace, ("messages",))
    for text in others:
        assert locate(text, trace, ("messages",)) == []
        assert locate(text, trace), "it is quotable as a text of the trace"


@pytest.mark.parametrize("name", ["generic/sharegpt_calls.jsonl", "generic/ag2_tools.json"])
def test_a_call_makes_no_second_agent(name):
    rubric = load_rubric("comm_errors")  # of two agents and more
    assert rubric.excludes(read_sample(name)) == "1 agent(s), the rubric needs 2"


def test_an_agent_called_assistant_keeps_its_words_beside_another():
    (trace,) = list(read_traces([str(SAMPLES / "generic/ag2_chat.json")]))
    assert trace.agents == PAIR


def test_a_nameless_call_is_of_the_agent_only_where_there_is_no_other(tmp_path):
    call = {"id": "c", "function": {"name": "add", "arguments": "{}"}}
    chat = [
        {"role": "assistant", "name": "user_proxy", "content": "Add."},
        {"role": "user", "name": "assistant", "content": "I ask the coder."},
        {"role": "user", "name": "coder", "content": "I call."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "5", "tool_responses": [{"tool_call_id": "c"}]},
    ]
    (trace,) = read_value(tmp_path, chat)
    assert [message.sender for message in trace.messages[:4]] == [
        *("user_proxy", "assistant", "coder", "assistant"),
    ]


def test_encrypted_reasoning_is_a_problem_and_no_message():
    trace = read_sample("codex/tools.jsonl")
    assert "session: reasoning without a text (encrypted), left out" in trace.problems
    assert all(message.text for message in trace.messages)


def test_other_answers_to_a_request_are_told():
    trace = read_sample("openai/choices.jsonl")
    assert trace.problems == ("1 other answers to the same request left out",)
    assert "Another answer." not in str(trace)


def test_calls_and_results_of_one_message_stay_in_order():
    trace = read_sample("anthropic/server_tools.json")
    assert [(message.author, message.text.partition("\n")[0]) for message in trace.messages] == [
        ("agent", "I search first."),
        ("tool", "12, printed by the server"),
        ("agent", "It has 12 keys."),
    ]


def test_a_part_that_is_a_call_and_its_result_is_two_messages(tmp_path):
    call = {"type": "tool-count", "toolCallId": "c", "state": "output-available"}
    parts = [
        {"type": "text", "text": "I count."},
        {**call, "input": {"panel": "left"}, "output": "12 keys, says the tool"},
        {"type": "tool-note", "output": {"type": "text", "value": "noted, says the tool"}},
        {"type": "text", "text": "It has 12."},
    ]
    (trace,) = read_value(tmp_path, [{"role": "assistant", "parts": parts}])
    assert [(message.author, message.text) for message in trace.messages] == [
        ("agent", 'I count.\ntool-count\n{"panel": "left"}'),
        ("tool", "12 keys, says the tool\nnoted, says the tool"),
        ("agent", "It has 12."),
    ]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "type": "tool_result", "content": "the tool says 5"},
        {"role": "user", "name": "ann", "type": "tool_output", "content": "the tool says 5"},
        {"from": "retriever", "value": "the tool says 5"},
        {"sender": "tools", "text": "the tool says 5"},
        {"name": "coder", "content": "exitcode: 1 (execution failed)\nCode output: 5"},
        {"source": "coder", "type": "ToolCallSummaryMessage", "content": "the tool says 5"},
    ],
)
def test_tools_are_no_agents_whatever_else_a_message_says(tmp_path, message):
    chat = [{"from": "gpt", "value": "I call a tool."}, message]
    (trace,) = read_value(tmp_path, chat)
    assert trace.agents == ("gpt",)
    assert trace.messages[1].author in ("tool", "unknown")


def test_what_a_hosted_tool_returned_to_a_run_is_the_tools(tmp_path):
    response = json.loads((SAMPLES / "openai/hosted_tools.json").read_text())
    items = [{"agent": {"name": "counter"}, "raw_item": item} for item in response["output"]]
    (trace,) = read_value(tmp_path, items)
    assert trace.agents == ("counter",)
    assert locate("12 keys, says the server", trace, ("tools",))
    assert not locate("12 keys, says the server", trace, ("messages",))


def test_a_call_that_stands_twice_in_a_message_is_read_once():
    trace = read_sample("langchain/history.json")
    assert trace.messages[1].text == 'I look.\nlist_keys\n{"panel": "left"}'


def test_states_of_two_threads_are_two_traces(tmp_path):
    history = json.loads((SAMPLES / "langchain/history.json").read_text())
    other = json.loads(json.dumps(history).replace('"t1"', '"t2"'))
    traces = [item for item in read_value(tmp_path, history + other) if isinstance(item, Trace)]
    assert [(len(trace.messages), trace.agents) for trace in traces] == [(4, PAIR)] * 2


def test_states_that_disagree_are_told(tmp_path):
    history = json.loads((SAMPLES / "langchain/history.json").read_text())
    history[1]["values"]["messages"][1]["content"] = "Something else."
    trace = next(item for item in read_value(tmp_path, history) if isinstance(item, Trace))
    assert "1 of 3 states hold other messages, left out" in trace.problems


def test_names_of_langchain_agents_are_no_kinds(tmp_path):
    marks = {"additional_kwargs": {}, "response_metadata": {}}
    chat = [
        {"type": "ai", "name": "executor", "content": "I execute the plan.", **marks},
        {"type": "tool", "name": "planner", "content": "the tool says 5", **marks},
    ]
    (trace,) = read_value(tmp_path, chat)
    assert [(message.sender, message.author) for message in trace.messages] == [
        ("executor", "agent"),
        ("planner", "tool"),
    ]


def test_a_named_agent_of_autogen_that_uses_a_model_is_an_agent_whatever_its_name(tmp_path):
    def message(source, text, usage=None, type_="TextMessage"):
        return {"source": source, "models_usage": usage, "content": text, "type": type_}

    usage = {"prompt_tokens": 1, "completion_tokens": 1}
    chat = [message("user", "Go."), message("executor", "I run it.", usage)]
    (trace,) = read_value(tmp_path, {"messages": chat, "stop_reason": None})
    assert trace.agents == ("executor",)


def test_spans_and_steps_of_others_are_not_taken(tmp_path):
    copilot = [{"type": "assistant.message", "data": {"content": "Hi."}, "id": "x"}]
    assert not [item for item in read_value(tmp_path, copilot) if isinstance(item, Trace)]
    events = [{"type": "user", "session_id": "s", "role": "user", "content": "Hi."}]
    (trace,) = read_value(tmp_path, events, "events.jsonl")
    assert trace.format == "generic"
