"""Records of anybody, read by a map; and what the command suggests for them."""

import json

import pytest

from annotator.base.errors import AnnotatorError
from annotator.traces import read_traces
from annotator.traces.suggest import suggest_map

RECORD = {
    "run": {"uid": "r-7"},
    "trace": {
        "trajectory": [
            {"source": "Planner", "body": "Take the till", "at": 5, "to": "Coder"},
            {"source": "Coder", "body": "Done"},
            {"source": "shell", "body": "3 tests passed"},
            {"source": "ann", "body": "Thank you"},
        ]
    },
    "reward": 0.5,
    "model": "m-1",
    "config": {"k": 1},
    "diffs": {"Coder": "+++ till"},
    "log": "1 test failed",
}
MAP = """
messages: trace.trajectory
sender: source
text: body
time: at
recipients: to
id: run.uid
passed: reward >= 1
patches: diffs
outcome: log
authors: {shell: tool, ann: human}
"""


@pytest.fixture
def mapped(tmp_path, write):
    """Return a function that reads records by a map: the traces, as they come."""

    def read(records, map_text=MAP, pattern=""):
        (tmp_path / "map.yaml").write_text(map_text)
        lines = "".join(json.dumps(record) + "\n" for record in records)
        folder = write("in", **{"records.jsonl": lines})
        return list(read_traces([str(folder)], f"map:{tmp_path}/map.yaml{pattern}"))

    return read


def test_record(mapped):
    (trace,) = mapped([RECORD])
    assert (trace.id, trace.format) == ("r-7", "map")
    assert [(m.sender, m.author, m.text, m.time, m.recipients) for m in trace.messages] == [
        ("Planner", "agent", "Take the till", 5.0, ("Coder",)),
        ("Coder", "agent", "Done", None, ()),
        ("shell", "tool", "3 tests passed", None, ()),
        ("ann", "human", "Thank you", None, ()),
    ]
    assert trace.agents == ("Coder", "Planner")  # who handed in a patch comes first
    assert (trace.outcome.passed, trace.outcome.reports) == (False, ("1 test failed",))
    assert dict(trace.patches) == {"Coder": "+++ till"}
    assert trace.attributes == {"model": "m-1", "passed": False, "outcome_rule": "reward >= 1"} | {
        "reward": 0.5
    }
    assert trace.problems == ("not short scalars, left out: config",)


@pytest.mark.parametrize(
    ("rule", "record", "passed"),
    [
        ("reward >= 1", {"reward": 1}, True),
        ("reward >= 1", {"reward": "0.9"}, False),
        ("reward >= 1", {"reward": None}, None),
        ("reward > 0.5", {"reward": 0.6}, True),
        ("loss <= 2", {"loss": 3}, False),
        ("end == done", {"end": "done"}, True),
        ("end == done", {"end": "died"}, False),
        ("end != died", {"end": "died"}, False),
        ("end != died", {}, None),
        ("info.ok", {"info": {"ok": True}}, True),
        ("info.ok", {"info": {"ok": "no"}}, None),
    ],
)
def test_outcome(mapped, rule, record, passed):
    talk = [{"sender": "a", "content": "x"}]
    (trace,) = mapped([{"talk": talk, **record}], f"messages: talk\npassed: {rule}\n")
    assert trace.outcome.passed is passed


def test_messages_in_a_text_of_json(mapped):
    inner = json.dumps({"steps": [{"sender": "a", "content": "x"}]})
    (trace,) = mapped([{"trace": inner}], "messages: trace.steps\n")
    assert trace.messages[0].text == "x"


def test_flat_messages_are_grouped(mapped):
    rows = [
        {"chat": "c1", "who": "a", "line": "1"},
        {"chat": "c2", "who": "b", "line": "2"},
        {"chat": "c1", "who": "c", "line": "3"},
    ]
    traces = mapped(rows, "sender: who\ntext: line\ngroup_by: chat\n")
    assert [(item.id, [m.text for m in item.messages]) for item in traces] == [
        ("c1", ["1", "3"]),
        ("c2", ["2"]),
    ]


TALK = [{"role": "user", "text": "go"}, {"role": "assistant", "name": "a", "text": "1"}]
TEAM = {
    "id": "t",
    "teams": {
        "ann": {"log": [{"role": "user", "content": "Go"}, {"role": "assistant", "content": "A"}]},
        "ben": {"log": [{"role": "assistant", "content": "B"}, {"role": "exit", "content": "end"}]},
        "note": "no list here",
    },
}


def summarize(trace):
    return [(m.sender, m.author, m.text) for m in trace.messages]


@pytest.mark.parametrize(
    ("record", "map_text", "messages"),
    [
        pytest.param(
            TEAM,
            "messages: teams.*.log\nauthor: role\nauthors: {exit: system}\n",
            [
                ("user", "human", "Go"),
                ("ann", "agent", "A"),
                ("ben", "agent", "B"),
                ("exit", "system", "end"),
            ],
            id="the key is the sender of what agents say",
        ),
        pytest.param(
            {"talk": {"ann": [{"content": "A"}], "ben": [{"content": "B"}]}},
            "messages: talk.*\n",
            [("ann", "agent", "A"), ("ben", "agent", "B")],
            id="messages without a role are the agent's",
        ),
        pytest.param(
            {"runs": [{"name": "ann", "log": [{"content": "A"}]}, {"log": [{"content": "?"}]}]},
            "messages: runs.*.log\n",
            [("ann", "agent", "A"), ("unknown", "unknown", "?")],
            id="an item's name is the sender",
        ),
        pytest.param(
            {"talk": {"a": [{"sender": "Ann", "content": "A"}], "b": [{"content": "B"}]}},
            "messages: talk.*\n",
            [("Ann", "agent", "A"), ("b", "agent", "B")],
            id="a message's own sender comes first",
        ),
        pytest.param(
            {"talk": {"a": [{"content": "2", "at": 2}], "b": [{"content": "1", "at": 1}]}},
            "messages: talk.*\ntime: at\n",
            [("b", "agent", "1"), ("a", "agent", "2")],
            id="lists are merged by time",
        ),
    ],
)
def test_a_list_of_messages_for_each_agent(mapped, record, map_text, messages):
    (trace,) = mapped([record], map_text)
    assert summarize(trace) == messages


def test_lists_of_agents_beside_one_another(mapped):
    record = {"ann": [{"content": "A"}], "ben": [{"content": "B"}], "cost": 1, "meta": {"a": 1}}
    (trace,) = mapped([record], 'messages: "*"\n')
    assert (trace.agents, trace.attributes) == (("ann", "ben"), {"cost": 1})
    assert "not short scalars, left out: meta" in trace.problems


def test_lists_without_times_and_keys_that_a_map_does_not_name_are_told(mapped):
    record = {"talk": {"a": [{"m": {"text": "A", "calls": [1]}, "cost": 1}], "b": [{"m": {}}]}}
    (trace,) = mapped([record], "messages: talk.*\ntext: m.text\n")
    assert trace.problems == (
        "talk.*: not all messages have a time: one list after another",
        "talk.*: message 2 has no text",
        "messages at talk.*: key cost left out (1 time)",
        "messages at talk.*: m: key calls left out (1 time)",
    )


def test_names_of_agents(mapped):
    talk = [{"sender": "Boss (to Bob)", "content": "x"}, {"sender": "Bob v2", "content": "y"}]
    record = {"talk": talk, "agents": ["Boss (lead)", "Bob", "Cy (silent)"]}
    (trace,) = mapped([record], "messages: talk\n", r"#^\w+")
    assert trace.agents == ("Boss", "Bob", "Cy")


def test_a_map_that_finds_no_text_is_told_so(mapped):
    (item,) = mapped([{"talk": [{"sender": "a", "content": "x"}]}], "messages: talk\ntext: body\n")
    assert item.reason == "no message has a text at 'body'; see the map"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("mesages: x\n", "mesages: unknown; known: messages, text, sender"),
        ("- x\n", "expected keys such as messages"),
        ("authors: {a: robot}\n", "authors.a: "),
        ("messages: [\n", "not valid YAML"),
        ("passed: status = done\n", "expected a path, or == to compare"),
    ],
)
def test_wrong_map(mapped, text, reason):
    with pytest.raises(AnnotatorError, match=r"map\.yaml: ") as error:
        mapped([RECORD], text)
    assert reason in str(error.value)


@pytest.mark.parametrize("pattern", ["(", "a{99999999999}", "(" * 2000 + ")" * 2000])
def test_wrong_pattern(mapped, pattern):
    with pytest.raises(AnnotatorError, match="not a pattern"):
        mapped([RECORD], MAP, f"#{pattern}")


def test_the_suggested_map_reads_the_records(mapped):
    record = {"id": "x", "data": {"turns": [{"agent": "a", "text": "hi"}]}, "labels": ["C1"]}
    text = suggest_map(record)
    assert "messages: data.turns" in text
    assert "labels of people" in text
    (trace,) = mapped([record], text)
    assert [(m.sender, m.text) for m in trace.messages] == [("a", "hi")]
    assert "C1" not in str(trace)


def test_each_record_of_a_document_is_a_trace(mapped):
    runs = [
        {"nr": "a", "parts": [{"talk": [{"who": "x", "said": "one"}]}], "ok": True},
        {"nr": "b", "parts": [{"talk": [{"who": "y", "said": "two"}]}] * 2, "ok": False},
    ]
    text = "records: runs\nmessages: parts.*.talk\nsender: who\ntext: said\nid: nr\npassed: ok\n"
    traces = mapped([{"runs": runs}], text)
    assert [(trace.id, trace.outcome.passed, len(trace.messages)) for trace in traces] == [
        ("records.jsonl:a", True, 1),
        ("records.jsonl:b", False, 2),
    ]
    (ignored,) = mapped([{"rounds": runs}], text)
    assert "no list of records at runs (records in map.yaml)" in ignored.reason


def test_columns_that_differ_between_messages_are_named_and_no_attributes(mapped):
    rows = [
        {"run": "a", "model": "m", "who": "x", "said": "one", "seen": "page 1"},
        {"run": "a", "model": "m", "who": "y", "said": "two", "seen": "page 2"},
    ]
    (trace,) = mapped(rows, "sender: who\ntext: said\ngroup_by: run\n")
    assert (trace.attributes["model"], "seen" in trace.attributes) == ("m", False)
    assert trace.problems == ("messages: key seen left out (2 times)",)


@pytest.mark.parametrize(
    ("record", "lines"),
    [
        pytest.param(
            TEAM,
            [
                "messages: teams.*.log",
                "# 2 lists of messages, the * is the sender: teams.ann.log (2), teams.ben.log (2)",
                "author: role",
            ],
            id="lists under the names of agents",
        ),
        pytest.param(
            {
                "a": {"talk": [{"role": "x", "content": "1"}]},
                "critic": [{"text": "no", "from": "c"}],
            },
            ["messages: a.talk", "# left out: critic (1 message)", "sender: role"],
            id="another list is left out",
        ),
        pytest.param(
            {"talk": [{"role": "x", "content": "1", "tool_calls": [1], "at": 5}], "meta": {"a": 1}},
            [
                "time: at",
                "# left out of each message: tool_calls",
                "# left out of the record: meta",
            ],
            id="keys of messages and of the record",
        ),
        pytest.param(
            {"runs": [{"name": "a", "log": [{"content": "1"}]}]},
            ["messages: runs.*.log", "text: content"],
            id="lists in the items of a list",
        ),
        pytest.param(
            {"message_id": 1, "dialog_id": 2, "speaker": "a", "text": "x"},
            ["sender: speaker", "group_by: dialog_id"],
            id="the id of a message groups nothing",
        ),
        pytest.param(
            {"rounds": [{"turns": [{"speaker": "a", "text": "1"}]}] * 2},
            [
                "messages: rounds.*.turns",
                "# 2 lists of messages: rounds.0.turns (1), rounds.1.turns (1)",
            ],
            id="messages that name their speaker",
        ),
        pytest.param(
            {"runs": [{"id": n, "talk": [{"speaker": "a", "text": "1"}]} for n in (1, 2)]},
            ["records: runs", "messages: talk", "# 2 records, each a trace", "sender: speaker"],
            id="runs of a document",
        ),
        pytest.param(
            {"runs": {n: {"talk": TALK, "passed": n == "a"} for n in ("a", "b")}},
            ["records: runs", "messages: talk", "sender: name", "author: role"],
            id="runs by their ids, and a name that the first message lacks",
        ),
    ],
)
def test_a_suggested_map_says_what_it_reads_and_leaves_out(mapped, record, lines):
    text = suggest_map(record)
    assert set(lines) <= set(text.split("\n")), text
    assert mapped([record], text)[0].messages


@pytest.mark.parametrize(
    ("record", "records"),
    [
        ({"one": TALK, "two": TALK}, '"*"'),
        ({"task": "t", "tries": [TALK, TALK]}, "tries.*"),
        ({"task": "t", "tries": {"one": TALK, "two": TALK}}, "tries.*"),
    ],
)
def test_lists_of_runs_are_not_merged(mapped, record, records):
    text = suggest_map(record)
    assert f"records: {records}" in text.split("\n")
    assert [len(trace.messages) for trace in mapped([record], text)] == [len(TALK)] * 2


def test_lists_of_agents_are_one_run(mapped):
    record = {name: [{"role": "user", "content": "hi"}] for name in ("ann", "ben")}
    text = suggest_map(record)
    assert '# if they are runs: records: "*", messages: messages' in text.split("\n")
    assert len(mapped([record], text)) == 1


@pytest.mark.parametrize(
    "key",
    [
        *("a: b", "#c", "- d", "& e", "!f", "x\nmessages: g", "null", "1", "\x1b[31m", "\u200b"),
        *("h.i", "é", "\U0001f469\u200d\U0001f4bb", "long " * 30),
    ],
)
def test_a_map_is_suggested_for_any_key(mapped, key):
    text = suggest_map({key: [{"speaker": "a", "utterance": "hi", "y": "z"}], f"{key}_id": "k"})
    assert text.count("\n") == 5
    (trace,) = mapped([{key: [{"speaker": "a", "utterance": "hi"}], f"{key}_id": "k"}], text)
    assert (trace.id, trace.messages[0].text) == ("k", "hi")


def test_a_map_of_single_messages_is_suggested_for_any_key():
    assert 'group_by: "#_id"' in suggest_map({"#_id": "k", "speaker": "a", "utterance": "hi"})


@pytest.mark.parametrize("half", ["\ud83d", "\\ud83d"])
def test_half_a_character_in_a_text_of_json(mapped, half):
    (trace,) = mapped([{"trace": {"trajectory": [{"source": "a", "body": f"[{half}"}]}}])
    assert trace.messages[0].text == f"[{half}".replace("\ud83d", "\ufffd")
    inner = f'{{"trajectory": [{{"source": "a", "body": "hi {half}"}}]}}'
    (trace,) = mapped([{"trace": inner}])
    assert trace.messages[0].text == "hi \ufffd"


@pytest.mark.parametrize("value", [{}, {"a": 1}, {"a": []}, {"a": [1]}, {"a": [{}]}])
def test_nothing_to_suggest(value):
    assert "nothing in it looks like a list of messages" in suggest_map(value)
