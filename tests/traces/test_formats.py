"""Every format as data: the inputs below ``data`` and ``examples/formats``, and one golden file.

``UPDATE_GOLDEN=1 pytest tests/traces/test_formats.py -n 0`` writes ``expected.jsonl`` anew; look at
its difference before you commit it. The samples were made by the libraries themselves, or by hand.
"""

import copy
import difflib
import gc
import json
import os
import random
import tracemalloc
import weakref
from dataclasses import asdict, fields
from functools import reduce
from pathlib import Path

import pytest
import yaml

from annotator import AnnotatorError, load_traces
from annotator.traces import Outcome, Trace, count_traces, read_traces
from annotator.traces.formats.recognise import list_document_formats
from annotator.traces.read import Library
from tests.conftest import EXAMPLES

DATA = Path(__file__).parent / "data"
GOLDEN = DATA / "expected.jsonl"
SAMPLES = EXAMPLES.parent / "formats"
RUN = "logs/run_a/coop/bakery/12/f3_f7"


class Raw(str):
    """A line that is written as it is."""


class Special(tuple[str, str]):
    """A file that is no text: a link, a pipe, a folder."""


class Loader(yaml.SafeLoader):
    """YAML with tags for what JSON and text cannot say."""


Loader.add_constructor("!raw", lambda _, node: Raw(node.value))
Loader.add_constructor("!bytes", lambda _, node: node.value.encode("latin-1"))
Loader.add_constructor("!deep", lambda _, node: node.value * 100_000)
Loader.add_constructor("!surrogate", lambda *_: "\ud800")
Loader.add_constructor("!huge", lambda *_: 10**400)
for kind in ("link", "hardlink", "pipe", "folder"):
    Loader.add_constructor(f"!{kind}", lambda _, node, kind=kind: Special((kind, node.value)))


def load_cases(name):
    return yaml.load((DATA / name).read_text(encoding="utf-8"), Loader)


WHOLE_RUN = load_cases("whole_run.yaml")
CASES = {
    title: case
    for name in ("documents.yaml", "frameworks.yaml", "harnesses.yaml", "cooperbench.yaml")
    for title, case in load_cases(name).items()
}
FOLDERS = ["openhands/session", "openhands/sdk"]  # each is one session
NAMES = FOLDERS + [
    name
    for path in sorted(SAMPLES.rglob("*.*"))
    if path.is_file()
    if not (name := path.relative_to(SAMPLES).as_posix()).startswith(tuple(FOLDERS))
]


# --- from a case to files


def write_file(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    match value:
        case Special(("link", target)):
            path.symlink_to(target)
        case Special(("hardlink", target)):
            path.hardlink_to(path.parent / Path(target).name)
        case Special(("pipe", _)):
            os.mkfifo(path)
        case Special(("folder", _)):
            path.mkdir()
        case bytes():
            path.write_bytes(value)
        case str():
            path.write_bytes(value.encode())
        case list() if path.suffix.endswith("l"):
            lines = [line if isinstance(line, Raw) else json.dumps(line) for line in value]
            path.write_text("".join(f"{line}\n" for line in lines))
        case _:
            path.write_text(json.dumps(value))


def change_sample(name, case):
    """Return the name and the value of a sample's file after its changes."""
    text = (SAMPLES / name).read_text()
    if "add" in case:
        other = text.replace(*case["add"])
        joined = text + other if name.endswith("l") else json.loads(text) + json.loads(other)
        return f"trace{Path(name).suffix}", joined
    if "replace" in case:
        return f"trace{Path(name).suffix}", text.replace(*case["replace"])
    value = json.loads(text.splitlines()[0] if name.endswith("l") else text)
    if "items" in case:
        return "trace.json", [
            {"agent": {"name": case["items"]}, "raw_item": item} for item in value["output"]
        ]
    if "history" in case:
        events, shape = value["history"], case["history"]
        wrapped = {"trajectory": events} if shape == "trajectory" else events
        return f"trace.{'jsonl' if shape == 'lines' else 'json'}", wrapped
    for place, new in case["set"].items():
        *keys, end = (int(key) if key.isdigit() else key for key in place.split("."))
        reduce(lambda at, key: at[key], keys, value)[end] = new
    return "trace.json", value


def write_case(case, folder):
    """Write the files of a case; return its sources."""
    options = {"read", "format", "run", "set", "sample", "add", "replace", "items", "history"}
    files = {name: value for name, value in case.items() if name not in options}
    if "sample" in case:
        name, value = change_sample(case["sample"], case)
        files[name] = value
    elif "run" in case or "set" in case:
        changed = {name: WHOLE_RUN[name] | fields for name, fields in case.get("set", {}).items()}
        run = WHOLE_RUN | changed | case.get("run", {})
        files |= {f"{RUN}/{name}": value for name, value in run.items() if value is not None}
    for name, value in files.items():
        write_file(folder / name, value)
    asked = case.get("read", ".")
    return [asked] if isinstance(asked, str) else asked


# --- from a trace to a line of the golden file


def compact(value):
    """Return a value of JSON without what is empty or by default."""
    return {key: inner for key, inner in value.items() if inner not in (None, (), [], {}, "")}


def describe_message(message):
    rest = {"to": message.recipients, "time": message.time, "kind": message.kind}
    rest = compact(rest | {"breaks": message.breaks})
    return [message.sender, message.author, message.text, *([rest] if rest else [])]


def describe(trace):
    """Return all of a trace as read, and whether its steps can be read."""
    try:
        steps = {
            agent: [[s.author, s.text, *compact({"tool": s.tool, "breaks": s.breaks}).items()]
                    for s in trajectory]
            for agent, trajectory in trace.steps.items()
        }  # fmt: skip
        tasks = dict(trace.tasks)
    except AnnotatorError as error:
        steps, tasks = str(error), {}
    outcome = asdict(trace.outcome)
    for name in ("features", "agents"):
        outcome[name] = [list(item.values()) for item in outcome[name]]
    assert set(outcome) == {field.name for field in fields(Outcome)}
    assert [message.n for message in trace.messages] == [*range(1, len(trace.messages) + 1)]
    return {"id": trace.id, "format": trace.format, "agents": trace.agents} | compact(
        {
            "messages": [describe_message(message) for message in trace.messages],
            "steps": steps,
            "tasks": tasks,
            "patches": dict(trace.patches),
            "outcome": compact(outcome),
            "attributes": dict(trace.attributes),
            "problems": trace.problems,
        }
    )


def describe_reading(sources, format="auto"):
    """Return all that is read of some sources: traces, problems, or why they cannot be read."""
    try:
        traces = load_traces(*sources, format=format)
        return compact({"traces": [*map(describe, traces)], "problems": traces.problems})
    except AnnotatorError as error:
        return {"error": str(error), "exit code": error.exit_code}


def leave_out_the_same(reading, whole):
    """Return a reading without what each trace has in common with the whole run."""
    if reading == whole:
        return reading
    [run] = whole["traces"]
    for trace in reading.get("traces", ()):
        for key in run:
            trace[key] = trace.get(key) if trace.get(key) != run[key] else "same"
        for key in [key for key in trace if trace[key] == "same"]:
            del trace[key]
    return reading


def read_golden():
    rows = map(json.loads, GOLDEN.read_text(encoding="utf-8").splitlines())
    return {row.pop("case"): row for row in rows}


UPDATED = {} if os.environ.get("UPDATE_GOLDEN") else None
EXPECTED = read_golden() if UPDATED is None else {}


def compare(title, reading):
    """Compare what was read of a case with its golden line, or write a new one."""
    reading = json.loads(json.dumps(reading).replace(str(Path.cwd()), "."))
    if UPDATED is not None:
        UPDATED[title] = reading
        rows = [json.dumps({"case": case} | row) for case, row in UPDATED.items()]
        GOLDEN.write_text("".join(f"{row}\n" for row in rows))
        return
    texts = [json.dumps(row, indent=1).splitlines() for row in (EXPECTED.get(title), reading)]
    difference = "\n".join(difflib.unified_diff(*texts, "expected", "read", n=2, lineterm=""))
    assert not difference, f"{title}\n{difference}"


@pytest.mark.parametrize("title", CASES)
def test_cases(title, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    case = CASES[title]
    reading = describe_reading(write_case(case, tmp_path), case.get("format", "auto"))
    if "run" in case or "set" in case:
        sources = write_case({"run": {}}, tmp_path / "whole")
        monkeypatch.chdir(tmp_path / "whole")
        whole = describe_reading(sources)
        monkeypatch.chdir(tmp_path)
        reading = leave_out_the_same(reading, whole)
    compare(title, reading)


@pytest.mark.parametrize("name", NAMES)
def test_samples(name, monkeypatch):
    monkeypatch.chdir(SAMPLES)
    compare(name, describe_reading([name]))


@pytest.mark.skipif(UPDATED is not None, reason="the golden file is being written")
def test_golden_file_holds_these_cases_and_every_format():
    assert set(EXPECTED) == {*CASES, *NAMES}
    formats = {trace.get("format") for row in EXPECTED.values() for trace in row.get("traces", ())}
    assert formats >= {reader.name for reader in list_document_formats()}


@pytest.mark.parametrize("name", NAMES)
def test_traces_of_samples_can_be_looked_up_by_their_ids(name):
    library = Library([str(SAMPLES / name)])
    for trace in load_traces(SAMPLES / name):
        assert library.trace(trace.id) == trace


# --- any damage to a sample


WRONG = (None, 3, "", "x", [], {}, [None], {"role": None}, True)


def walk(value, path=()):
    """Yield the places of all that a JSON value holds."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from walk(inner, (*path, key))


def spoil(document, chance):
    """Return a document with one place in it gone or wrong."""
    document = copy.deepcopy(document)
    *keys, end = chance.choice(list(walk(document)))
    at = reduce(lambda at, key: at[key], keys, document)
    if chance.random() < 0.3:
        del at[end]
    else:
        at[end] = chance.choice(WRONG)
    return document


@pytest.mark.parametrize(
    "name", [name for name in NAMES if Path(name).suffix in {".json", ".jsonl", ".traj"}]
)
def test_spoiled_samples_raise_nothing(tmp_path, name):
    text = (SAMPLES / name).read_text()
    documents = [json.loads(line) for line in text.splitlines()] if name[-1] == "l" else [text]
    chance = random.Random(name)
    for n in range(40):
        lines = list(documents)
        at = chance.randrange(len(lines))
        lines[at] = spoil(lines[at] if name[-1] == "l" else json.loads(text), chance)
        write_file(tmp_path / f"{n}{Path(name).suffix}", lines if name[-1] == "l" else lines[0])
    traces = load_traces(tmp_path)
    assert all(list(trace.sources()) or not trace.messages for trace in traces)
    assert not [problem for problem in traces.problems if "its reader failed" in problem]


# --- what no input file shows


def test_steps_are_read_only_when_asked_for(tmp_path):
    write_case(CASES["the whole run"], tmp_path)
    [trace] = load_traces(tmp_path)
    late = {"messages": [{"role": "assistant", "content": "Written later"}]}
    write_file(tmp_path / RUN / "agent3_traj.json", late)
    assert [step.text for step in trace.steps["agent1"]] == ["Written later"]


def test_count_is_that_of_the_traces_where_every_file_or_line_is_one(tmp_path):
    talk = [{"role": "a", "content": "hello"}]
    write_file(tmp_path / "a.json", talk)
    write_file(tmp_path / "b.jsonl", [{"messages": talk}] * 5)
    assert count_traces([str(tmp_path)]) == len(load_traces(tmp_path)) == 6


def test_folder_name_that_is_not_utf_8_has_an_id_that_can_be_written(tmp_path):
    try:
        write_file(tmp_path / os.fsdecode(b"run\xff") / "conversation.json", [])
    except OSError:
        pytest.skip("the file system takes no such name")
    assert [trace.id for trace in load_traces(tmp_path)] == ["run\ufffd"]


class Picky:
    """A reader whose ids cannot always be told."""

    def matches(self, document):
        return True

    def identify(self, document):
        return document["id"]

    def read(self, document, trace_id, path):
        return Trace(trace_id, "picky", path, ())


def test_an_id_that_a_reader_cannot_tell_costs_one_trace(tmp_path):
    write_file(tmp_path / "a.jsonl", [{"id": "a"}, {}, {"id": "c"}])
    traces = load_traces(tmp_path / "a.jsonl", format=f"{__name__}:Picky")
    assert ([trace.id for trace in traces], len(traces.problems)) == (["a", "c"], 1)


def big(n):
    return {"messages": [{"role": "alice", "content": f"{n} " + "x" * 20_000}]}


@pytest.mark.parametrize("name", ["{n}.json", "all.jsonl"])
def test_only_one_trace_is_alive(tmp_path, name):
    files = {name.format(n=n): big(n) for n in range(200)}
    for file, value in ({name: [*map(big, range(200))]} if name[-1] == "l" else files).items():
        write_file(tmp_path / file, value)
    refs, most = [], 0
    for trace in load_traces(tmp_path):
        refs.append(weakref.ref(trace))
        most = max(most, sum(ref() is not None for ref in refs))
    assert len(refs) == 200
    assert most <= 2  # the one in hand, and the one before it while the next is read


@pytest.mark.parametrize("first", [[], [{"role": "user", "content": "why"}]])
def test_memory_does_not_grow_with_the_number_of_records(tmp_path, first):
    def measure_peak(count):
        write_file(tmp_path / f"{count}.jsonl", [*first, *map(big, range(count))])
        gc.collect()
        tracemalloc.start()
        try:
            assert sum(1 for _ in read_traces([str(tmp_path / f"{count}.jsonl")])) >= count
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    measure_peak(20)  # imports and caches
    # A record takes 20,000 bytes; what may stay of it is its id's hash.
    assert measure_peak(400) - measure_peak(100) < 300 * 500
