"""What a trace says does not hang on how its file was written: lines, order, suffix or table."""

import json
import os
import subprocess
import sys
import tracemalloc

import pytest

from annotator.traces import Trace, Unreadable, read_traces
from tests.conftest import ROOT

TALK = [{"role": "user", "content": "why"}, {"role": "assistant", "content": "so"}]
RECORD = {"id": "r", "messages": TALK}
CELL = json.dumps(TALK).replace('"', '""')


def span(trace, number, told, **fields):
    """Return a call of a model as OTLP's JSON has it."""
    texts = {"gen_ai.input.messages": json.dumps(told)} if told else {}
    attributes = {"gen_ai.operation.name": "chat", **texts, **fields}
    return {
        "traceId": trace,
        "spanId": str(number),
        "name": "chat",
        "startTimeUnixNano": f"{number}000000000",
        "endTimeUnixNano": f"{number}500000000",
        "attributes": [
            {"key": key, "value": {"stringValue": value}} for key, value in attributes.items()
        ],
    }


def answer(text):
    return {"gen_ai.output.messages": json.dumps([{"role": "assistant", "content": text}])}


def export(*spans):
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})


def said(role, text):
    return {"role": role, "content": text}


@pytest.fixture
def write(tmp_path):
    return lambda name, text: (tmp_path / name).write_text(text)


@pytest.fixture
def trace(tmp_path):
    def read():
        (item,) = read_traces([str(tmp_path)])
        return item

    return read


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("a.json", f"[\n{json.dumps(RECORD)}\n]\n", id="one-record-on-its-line"),
        pytest.param("a.jsonl", f"[\n{json.dumps(RECORD)}\n]\n", id="under-the-suffix-of-lines"),
        pytest.param("a.json", f'{{"messages":\n{json.dumps(TALK)}\n}}\n', id="list-on-its-line"),
    ],
)
def test_a_document_whose_only_item_is_on_a_line_of_its_own_is_no_lines(write, trace, name, text):
    write(name, text)
    assert [message.text for message in trace().messages] == ["why", "so"]


PARTS = {
    f"llm.output_messages.0.message.contents.{n}.message_content.text": f"p{n}" for n in range(12)
}
YES = [said("user", "yes")]


@pytest.mark.parametrize(
    ("spans", "texts"),
    [
        pytest.param(
            [span("t", 1, [], **{"llm.output_messages.0.message.role": "assistant"}, **PARTS)],
            ["\n".join(f"p{n}" for n in range(12))],
            id="ten-parts-behind-nine",
        ),
        pytest.param(
            [
                span("t", 1, YES, **answer("and")),
                span("t", 2, [*YES, said("assistant", "and"), *YES], **answer("well")),
            ],
            ["yes", "and", "yes", "well"],
            id="who-repeats-a-word-said-it-twice",
        ),
    ],
)
def test_spans_say_all_that_was_said_in_its_order(write, trace, spans, texts):
    write("a.json", export(*spans))
    assert [message.text for message in trace().messages] == texts


def test_the_order_of_traces_in_one_line_does_not_hang_on_the_process(write, tmp_path):
    spans = [span(f"t{n}", n, YES, **answer("no")) for n in range(1, 8)]
    write("a.jsonl", export(*spans) + "\n" + export(span("z", 1, YES, **answer("no"))))
    code = (
        "import sys; from annotator import load_traces as t; print(*(x.id for x in t(sys.argv[1])))"
    )
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", code, str(tmp_path / "a.jsonl")]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["t1", "t2", "t3", "t4", "t5", "t6", "t7", "z"]


@pytest.mark.parametrize(
    ("rule", "reward", "passed"),
    [
        ("reward == 1", 1.0, True),
        ("reward == 1", 1, True),
        ("reward == 1", True, True),
        ("reward == 1", 0.0, False),
        ("reward != 0", 0.0, False),
        ("reward == 1", float("nan"), None),
        ("reward >= 1", float("nan"), None),
        ("reward == done", "Done", True),
    ],
)
def test_a_map_compares_numbers_as_numbers(write, tmp_path, rule, reward, passed):
    (tmp_path / "map.yaml").write_text(f"messages: chat\nsender: who\ntext: say\npassed: {rule}\n")
    write("a.json", json.dumps({"chat": [{"who": "ann", "say": "hello"}], "reward": reward}))
    (item,) = read_traces([str(tmp_path / "a.json")], f"map:{tmp_path / 'map.yaml'}")
    assert item.outcome.passed is passed


@pytest.mark.parametrize(
    ("name", "text", "passed", "problem"),
    [
        ("a.csv", f'reward,messages\n1.0,"{CELL}"\n', True, ""),
        ("a.csv", f'passed,messages\n0,"{CELL}"\n', False, ""),
        ("a.json", json.dumps({**RECORD, "passed": "yes"}), None, "passed is 'yes', not true"),
        ("a.json", json.dumps({**RECORD, "reward": 10**400}), None, ""),
    ],
    ids=["number-in-a-table", "zero-in-a-table", "no-result", "no-number-to-compare"],
)
def test_an_outcome_is_the_same_in_a_table_or_is_told(write, trace, name, text, passed, problem):
    write(name, text)
    assert trace().outcome.passed is passed
    assert problem in "".join(trace().problems)


def test_half_a_text_of_a_table_is_not_read(write, trace):
    write("a.csv", "conversation_id,role,content\nc,user,hello, world\nc,assistant,fine\n")
    assert "a.csv, line 2: more cells than columns" in trace().reason


def test_roles_beside_notes_are_told_apart(write, trace):
    items = [said("system", "be"), said("Planner (lead)", "go"), said("tool", "ok")]
    write("a.json", json.dumps(items))
    assert [message.author for message in trace().messages] == ["system", "agent", "tool"]


class Picky:
    """A reader whose ids cannot always be told."""

    def matches(self, document):
        return True

    def identify(self, document):
        return document["id"]

    def read(self, document, trace_id, path):
        return Trace(trace_id, "picky", path, ())


def test_an_id_that_a_reader_cannot_tell_costs_one_trace(write, tmp_path):
    write("a.jsonl", '{"id": "a"}\n{}\n{"id": "c"}\n')
    items = list(read_traces([str(tmp_path / "a.jsonl")], f"{__name__}:Picky"))
    assert [item.id for item in items] == ["a", "a.jsonl:2", "c"]
    assert isinstance(items[1], Unreadable)


def test_records_behind_a_message_are_not_held(write, tmp_path):
    lines = (
        json.dumps({"id": str(n), "messages": [said("user", "x" * 10_000)]}) for n in range(500)
    )
    write("a.jsonl", "\n".join([json.dumps(TALK[0]), *lines]))
    tracemalloc.start()
    assert sum(1 for _ in read_traces([str(tmp_path / "a.jsonl")])) == 501
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000
