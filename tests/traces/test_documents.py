"""Traces that are one JSON document: the export, and any list of messages."""

import gc
import json
import tracemalloc
import weakref

import pytest

from annotator.errors import AnnotatorError
from annotator.traces import FORMATS, Ignored, Trace, Unreadable, count_traces, read_traces

HELLO = {"role": "alice", "content": "hello there"}
BYE = {"role": "bob", "content": "good bye"}
TALK = [HELLO, BYE]


def lines(*values):
    return "".join(
        f"{value if isinstance(value, str) else json.dumps(value)}\n" for value in values
    )


def texts(trace):
    return [(message.sender, message.text) for message in trace.messages]


@pytest.fixture
def said(write, trace):
    """Return a function that reads one message through a JSON file."""

    def said(message):
        return trace(write("one", **{"talk.json": [message]})).messages[0]

    return said


# --- the export


def export(**more):
    messages = [
        {
            "sender_id": "agent1",
            "recipient_id": "agent2",
            "content": "I take the till",
            "timestamp": "2025-03-01T12:00:00+00:00",
            "message_type": "plan",
        },
        {"sender_id": "agent2", "recipient_id": "broadcast", "content": "Fine", "timestamp": None},
    ]
    stamp = "2025-03-01T13:00:00"
    return {"messages": messages, "total_messages": 2, "export_timestamp": stamp} | more


def test_export(write, trace):
    one = trace(write("in", **{"talk.json": export()}))
    assert one.format == "cooperbench-export"
    assert one.problems == ()
    first, second = one.messages
    assert (first.n, first.sender, first.recipients) == (1, "agent1", ("agent2",))
    assert (first.text, first.kind) == ("I take the till", "plan")
    assert first.time == 1740830400.0  # date -d 2025-03-01T12:00:00Z +%s
    assert (second.n, second.recipients, second.time) == (2, (), None)


def test_export_with_another_count_is_read_and_listed(write, trace):
    one = trace(write("in", **{"talk.json": export(total_messages=5)}))
    assert len(one.messages) == 2
    assert one.problems == ("total_messages says 5, 2 found",)


@pytest.mark.parametrize("key", ["total_messages", "export_timestamp"])
def test_export_is_recognised_by_either_field(write, trace, key):
    document = export()
    del document[key]
    assert trace(write("in", **{"talk.json": document})).format == "cooperbench-export"


def test_format_named_by_the_user_is_the_only_one_tried(write, found):
    folder = write("in", **{"a.json": export(), "b.json": TALK})
    assert [type(one) for one in found(folder, format="cooperbench-export")] == [
        Trace,
        Ignored,
        Ignored,
    ]
    assert [one.format for one in found(folder, format="generic")] == ["generic", "generic"]


# --- spellings of a message


@pytest.mark.parametrize("sender", ["role", "from", "sender", "name"])
@pytest.mark.parametrize("text", ["content", "message", "text"])
def test_keys(said, sender, text):
    one = said({sender: "alice", text: "hello there"})
    assert (one.sender, one.text) == ("alice", "hello there")


def test_name_says_more_than_role(said):
    assert said({"role": "assistant", "name": "planner", "content": "hello"}).sender == "planner"


@pytest.mark.parametrize(
    ("fields", "recipients"),
    [
        ({}, ()),
        ({"to": "bob"}, ("bob",)),
        ({"recipient": "bob"}, ("bob",)),
        ({"recipients": ["bob", "carol", None]}, ("bob", "carol")),
        ({"to": "broadcast"}, ()),
        ({"to": "ALL"}, ()),
        ({"to": ["everyone"]}, ()),
        ({"to": None, "recipient": "bob"}, ("bob",)),
        ({"to": 7}, ("7",)),
    ],
)
def test_recipients(said, fields, recipients):
    assert said(HELLO | fields).recipients == recipients


@pytest.mark.parametrize(
    ("given", "time"),
    [
        (1740830400, 1740830400.0),
        (1.5, 1.5),
        (1740830400000, 1740830400.0),  # milliseconds
        (1740830400000000000, 1740830400.0),  # nanoseconds
        ("2025-03-01T12:00:00Z", 1740830400.0),
        ("2025-03-01T12:00:00", 1740830400.0),  # no zone: UTC
        ("2025-03-01T13:00:00+01:00", 1740830400.0),
        ("yesterday", None),
        (True, None),
        (None, None),
        ({}, None),
        (10**400, None),
        (10**300, None),
        (float("nan"), None),
        (float("inf"), None),
    ],
    ids=lambda value: str(value)[:25],
)
def test_time(said, given, time):
    assert said(HELLO | {"timestamp": given}).time == time


TOOL_CALL = {"type": "function", "function": {"name": "read_file", "arguments": '{"path": "a"}'}}


@pytest.mark.parametrize(
    ("fields", "text", "breaks"),
    [
        pytest.param({"content": "one"}, "one", (), id="text"),
        pytest.param({"content": 42}, "42", (), id="number"),
        pytest.param(
            {"content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
            "one\ntwo",
            (3,),
            id="parts",
        ),
        pytest.param(
            {"content": [{"type": "input_text", "text": "one"}]}, "one", (), id="response-part"
        ),
        pytest.param({"content": ["one", "two", "three"]}, "one\ntwo\nthree", (3, 7), id="texts"),
        pytest.param(
            {"content": [{"type": "refusal", "refusal": "I cannot"}]}, "I cannot", (), id="refusal"
        ),
        pytest.param(
            {"content": None, "tool_calls": [TOOL_CALL]},
            'read_file\n{"path": "a"}',
            (9,),
            id="call-only",
        ),
        pytest.param(
            {"content": "Let me look", "tool_calls": [TOOL_CALL]},
            'Let me look\nread_file\n{"path": "a"}',
            (11, 21),
            id="text-and-call",
        ),
        pytest.param(
            {"content": [{"type": "tool_use", "name": "read", "input": {"path": "ä"}}]},
            'read\n{"path": "ä"}',
            (4,),
            id="anthropic-call",
        ),
        pytest.param({"content": "one", "tool_calls": None}, "one", (), id="calls-null"),
        pytest.param({"content": "one", "tool_calls": [None, 3, {}]}, "one", (), id="calls-junk"),
    ],
)
def test_text_of_a_message(said, fields, text, breaks):
    one = said({"role": "assistant"} | fields)
    assert (one.text, one.breaks) == (text, breaks)
    assert one.author == "agent"


@pytest.mark.parametrize(
    "message",
    [
        pytest.param({"role": "tool", "content": "3 files"}, id="tool"),
        pytest.param({"role": "function", "content": "3 files"}, id="function"),
        pytest.param({"role": "system", "content": "3 files"}, id="system"),
        pytest.param({"role": "tool", "name": "alice", "content": "3 files"}, id="tool-with-name"),
        pytest.param(
            {"role": "user", "content": [{"type": "tool_result", "content": "3 files"}]},
            id="anthropic-result",
        ),
        pytest.param(
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "content": [{"type": "text", "text": "3 files"}]}
                ],
            },
            id="anthropic-result-in-parts",
        ),
    ],
)
def test_text_that_no_agent_wrote_is_flagged(said, message):
    one = said(message)
    assert one.text == "3 files"
    assert one.author in ("tool", "system")


@pytest.mark.parametrize("role", ["assistant", "model", "ai", "planner"])
def test_text_of_an_agent_is_not_flagged(said, role):
    assert said({"role": role, "content": "tool"}).author == "agent"


def test_image_is_left_out_and_listed(write, trace):
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    content = [{"type": "text", "text": "Look at this"}, image]
    one = trace(write("in", **{"talk.json": [{"role": "alice", "content": content}]}))
    assert one.messages[0].text == "Look at this"
    assert one.problems == ("messages: message 1: a part of type image_url left out, not text",)


@pytest.mark.parametrize("kind", [[], {}, 3, None])
def test_a_part_whose_type_is_no_name_is_left_out_and_listed(write, trace, kind):
    content = [{"type": "text", "text": "Look at this"}, {"type": kind}]
    one = trace(write("in", **{"talk.json": [{"role": "alice", "content": content}]}))
    assert one.messages[0].text == "Look at this"
    assert one.problems[0].endswith("left out, not text")


def test_message_without_text_keeps_its_number(write, trace):
    one = trace(write("in", **{"talk.json": [HELLO, {"role": "bob", "content": ""}, BYE]}))
    assert [(message.n, message.text) for message in one.messages] == [
        (1, "hello there"),
        (2, ""),
        (3, "good bye"),
    ]
    assert one.problems == ("messages: message 2 has no text",)


@pytest.mark.parametrize("name", ["deep.json", "deep.jsonl"])
def test_tool_call_nested_to_the_limit_is_read_or_unreadable(write, found, name):
    kinds = set()
    for depth in range(900, 1000):  # around Python's limit of 1000 frames
        nested = "[" * depth + "]" * depth
        part = f'{{"type": "tool_use", "name": "f", "input": {nested}}}'
        message = f'{{"role": "a", "content": {part}}}'
        text = f"[{message}]" if name == "deep.json" else message
        kinds |= {type(one) for one in found(write("in", **{name: text}) / name)}
    assert kinds <= {Trace, Unreadable}
    assert Trace in kinds


# --- records: attributes, ids


def test_attributes(write, trace):
    attributes = {
        "passed": False,
        "merge": "conflicts",
        "model": "model-1",
        "round": 3,
        "cost": 0.5,
        "note": None,
        "odd": "\ud800",
        "tags": ["a"],
        "loss": float("nan"),
    }
    one = trace(write("in", **{"run.json": {"messages": TALK, "attributes": attributes}}))
    assert one.attributes == {
        "passed": False,
        "merge": "conflicts",
        "model": "model-1",
        "round": 3,
        "cost": 0.5,
        "note": None,
        "odd": "\ufffd",
    }
    assert (one.outcome.passed, one.outcome.merge) == (False, "conflicts")
    assert one.problems == (
        "attributes: loss is nan, left out",
        "attributes: not short scalars, left out: tags",
    )


@pytest.mark.parametrize("passed", ["false", 0, 1, None, [], "yes"])
def test_passed_that_is_no_boolean_is_not_known(write, trace, passed):
    record = {"messages": TALK, "attributes": {"passed": passed}}
    assert trace(write("in", **{"run.json": record})).outcome.passed is None


@pytest.mark.parametrize("attributes", [None, [], "x", 3])
def test_attributes_that_are_no_object_are_none(write, trace, attributes):
    record = {"messages": TALK, "attributes": attributes}
    assert trace(write("in", **{"run.json": record})).attributes == {}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"labels": [], "meta": 1}, "an object with the keys labels, meta"),
        ({}, "an object"),
        ({"messages": "none"}, "an object with the keys messages"),
        ([], "a list"),
        (3, "a number"),
        ("text", "a string"),
        (None, "null"),
        (True, "a boolean"),
    ],
    ids=str,
)
def test_json_that_is_no_trace_is_ignored(write, ignored, value, reason):
    one = ignored(write("in", **{"a.json": json.dumps(value)}))
    assert reason in one.reason
    assert one.path.endswith("a.json")


# --- sources


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("missing", "no such file or folder: missing"),
        ("missing/*.json", "no file matches missing/*.json"),
        ("a\x00b", "no such file or folder"),
    ],
)
def test_missing_source(found, tmp_path, monkeypatch, source, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AnnotatorError) as error:
        found(source)
    assert message in str(error.value)
    assert error.value.exit_code == 2


def test_unknown_format(found, tmp_path):
    with pytest.raises(AnnotatorError) as error:
        found(tmp_path, format="xml")
    assert str(error.value) == f"unknown format 'xml': use auto, {', '.join(FORMATS)}"


def test_count_is_that_of_the_traces_where_every_file_or_line_is_one(write, found):
    folder = write("in", **{"a.json": TALK, "b.jsonl": lines(*[{"messages": TALK}] * 5)})
    assert count_traces([str(folder)]) == len(found(folder)) == 6


# --- one trace in memory at a time


def big(n):
    return {"messages": [{"role": "alice", "content": f"{n} " + "x" * 20_000}]}


@pytest.mark.parametrize("shape", ["files", "lines"])
def test_only_one_trace_is_alive(write, tmp_path, shape):
    if shape == "files":
        write("in", **{f"{n:03}.json": big(n) for n in range(200)})
    else:
        write("in", **{"all.jsonl": lines(*map(big, range(200)))})
    seen = []
    most = 0
    for one in read_traces([str(tmp_path / "in")]):
        seen.append(weakref.ref(one))
        most = max(most, sum(ref() is not None for ref in seen))
    assert len(seen) == 200
    assert most <= 2  # the one in hand, and the one before it while the next is read


def test_memory_does_not_grow_with_the_number_of_traces(write):
    def peak(count):
        folder = write(f"in{count}", **{"all.jsonl": lines(*map(big, range(count)))})
        gc.collect()
        tracemalloc.start()
        try:
            assert sum(len(one.messages) for one in read_traces([str(folder)])) == count
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(20)  # imports and caches
    # A trace takes 20,000 bytes; what may stay of it is its id's hash.
    assert peak(1000) - peak(200) < 800 * 500


# --- the hub's data sets, from a folder of the same name: no network


@pytest.fixture
def hub(write, tmp_path, monkeypatch):
    """Make data set ``team/runs`` from records, below the current folder."""
    monkeypatch.chdir(tmp_path)
    return lambda *records, name="train.jsonl": write("team/runs", **{name: lines(*records)})


def test_hub_times_are_kept(hub, found):
    """The ``datasets`` package turns ISO times into datetime objects."""
    hub({"id": "r", "messages": [HELLO | {"timestamp": "2025-03-01T12:00:00Z"}]})
    (one,) = found("hf://team/runs")
    assert one.messages[0].time == 1740830400.0


@pytest.mark.parametrize("name", ["team/runs:nosuch", "team/nothing"])
def test_hub_that_cannot_be_loaded(hub, found, name):
    hub({"id": "r", "messages": TALK})
    with pytest.raises(AnnotatorError, match=f"hf://{name}: cannot be loaded: ") as error:
        found(f"hf://{name}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"message": "", "content": "the text"}, "the text"),
        ({"message": None, "text": "the text"}, "the text"),
        ({"content": [], "text": "the text"}, "the text"),
        ({"content": 0}, "0"),
    ],
)
def test_the_first_field_that_holds_a_text_is_the_text(write, trace, message, text):
    folder = write("in", **{"a.json": [{"from": "alice"} | message, {"from": "bob", "text": "x"}]})
    assert trace(folder).messages[0].text == text


def test_an_outcome_on_a_message_is_not_lost_without_a_word(tmp_path):
    lines = [
        {"role": "user", "content": "Do it."},
        {"role": "assistant", "name": "ann", "content": "I did it.", "passed": True, "score": 1},
    ]
    file = tmp_path / "talk.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    [trace] = read_traces([str(file)])
    assert trace.outcome.passed is None
    [problem] = trace.problems
    assert problem.startswith("an outcome on a message, left out: passed, score")


@pytest.mark.parametrize(
    ("fields", "agents", "features", "problems"),
    [
        ({"agents": ["bob", "cy"]}, ("bob", "cy", "alice"), (), ()),
        ({"agents": 4}, ("alice", "bob", "agent1", "agent2"), (), ()),
        ({"agents": "3"}, ("alice", "bob", "agent1"), (), ()),
        ({"agents": 1}, ("alice", "bob"), (), ()),
        ({"agents": True, "pair": True}, ("alice", "bob"), (), ()),
        ({"features": [3, "x"], "pair": "y"}, ("alice", "bob"), ("3", "x"), ()),
        ({"pair": "3+x"}, ("alice", "bob"), ("3", "x"), ()),
        ({"pair": "c++"}, ("alice", "bob"), ("c++",), ()),
        (
            {"agents": [{"name": "cy"}], "features": [{"id": 1}]},
            ("alice", "bob"),
            (),
            ("not short scalars, left out: agents, features",),
        ),
    ],
)
def test_who_took_part_and_what_was_built(write, trace, fields, agents, features, problems):
    one = trace(write("in", **{"run.json": {"messages": [HELLO, BYE], **fields}}))
    assert one.agents == agents
    assert tuple(feature.name for feature in one.outcome.features) == features
    assert one.problems == problems


@pytest.mark.parametrize(
    ("patches", "state", "problems"),
    [
        ({"alice": "diff --git a/x b/x\n", "bob": ""}, "nothing to merge", ()),
        ({"alice": "diff --git a/x b/x\n", "bob": "diff --git a/y b/y\n"}, "clean", ()),
        ({"alice": 3}, "clean", ("not short scalars, left out: patches",)),
        (None, "clean", ()),
    ],
)
def test_a_record_holds_patches(write, trace, patches, state, problems):
    record = {"messages": [HELLO, BYE], "merge": "clean", "patches": patches}
    one = trace(write("in", **{"run.json": record}))
    assert one.merge_state == state
    assert one.patches == (patches if patches and not problems else {})
    assert one.problems == problems
