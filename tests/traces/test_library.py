"""Traces by their id: the same as reading all of them."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from annotator.base.errors import AnnotatorError
from annotator.traces import Ignored, Trace, Unreadable, read_traces
from annotator.traces.read import Library
from tests.conftest import EXAMPLES, ROOT, write_run

TALK = [{"role": "alice", "content": "hello"}, {"role": "bob", "content": "good bye"}]


def record(n, **more):
    return {"messages": [{"role": "alice", "content": f"hello {n}"}], **more}


APART = [record | {"conversation_id": n} for record in TALK for n in ("one", "two")]


def lines(*values):
    return "".join(one if isinstance(one, str) else json.dumps(one) + "\n" for one in values)


def held(found):
    """All that two readings of one trace have in common, its steps and tasks among them."""
    return (found, found.steps, found.tasks) if isinstance(found, Trace) else found


def same_as_reading(*sources, format="auto"):
    """Hold a library against the plain reading: in order, backwards, and all ids; return them."""
    sources = [str(one) for one in sources]
    expected = [one for one in read_traces(sources, format) if not isinstance(one, Ignored)]
    ids = [one.id for one in expected]
    for order in (expected, expected[::-1]):
        library = Library(sources, format)
        for turn in ("first", "again"):
            for one in order:
                assert held(library.trace(one.id)) == held(one), (turn, one.id)
        assert library.trace("no such trace") is None
        assert list(library.ids()) == ids
    assert [one.id for one in library if not isinstance(one, Ignored)] == ids
    return ids


def test_run_folders(tmp_path):
    for n in range(3):
        write_run(tmp_path / "logs" / "night" / "coop" / "shop_task" / str(n) / "f1_f2")
    bad = tmp_path / "logs" / "night" / "coop" / "shop_task" / "1" / "f1_f2"
    (bad / "eval.json").write_text("{")
    outside = tmp_path / "secret"
    outside.write_text("{}")
    linked = tmp_path / "logs" / "night" / "coop" / "shop_task" / "2" / "f1_f2"
    (linked / "result.json").unlink()
    (linked / "result.json").symlink_to(outside)
    ids = same_as_reading(tmp_path / "logs")
    assert len(ids) == 3
    assert same_as_reading(tmp_path / "logs", tmp_path / "logs" / "night") == ids
    assert same_as_reading(bad / "agent1.patch") == same_as_reading(bad)
    assert same_as_reading(tmp_path / "logs" / "*", format="cooperbench") == ids
    files = tmp_path / "logs" / "**" / "agent1.patch"  # a file of a run stands for the run
    assert same_as_reading(files) == ids
    problems = [item.reason for item in read_traces([str(files)]) if isinstance(item, Unreadable)]
    assert "result.json: a link that leaves the given folder" in problems
    assert same_as_reading(tmp_path / "logs", format="generic") != ids


def test_a_second_folder_with_the_same_ids(tmp_path):
    for place in ("one", "two"):
        write_run(tmp_path / place / "logs" / "night" / "coop" / "shop_task" / "1" / "f1_f2")
    ids = same_as_reading(tmp_path / "one", tmp_path / "two")
    assert ids[1].startswith(f"{ids[0]} [")


def test_examples():
    assert len(same_as_reading(EXAMPLES)) > 10
    assert len(same_as_reading(ROOT / "examples" / "solo_and_coop.jsonl")) == 32


@pytest.mark.parametrize("folder", ["cooperbench/logs", "agentrx/traces"])
def test_real_runs(shared_data, folder):
    assert same_as_reading(shared_data / folder)


def test_asking_for_an_early_trace_lists_no_more(write):
    early, late = write("a", **{"a.json": TALK}), write("b", **{"b.json": TALK})
    library = Library([str(early), str(late), str(late / "no such file")])
    assert isinstance(library.trace("a.json"), Trace)
    assert isinstance(library.trace("b.json"), Trace)
    for _ in range(2):
        with pytest.raises(AnnotatorError, match="no such file or folder"):
            library.trace("c.json")
    assert isinstance(library.trace("a.json"), Trace)


def test_unknown_format(write):
    with pytest.raises(AnnotatorError, match="unknown format"):
        Library([str(write("in"))], "nothing").trace("a")


def test_run_folder_is_read_as_it_is_now(tmp_path):
    folder = write_run(tmp_path / "logs" / "night" / "coop" / "shop_task" / "1" / "f1_f2")
    (folder / "agent2.patch").unlink()
    library = Library([str(tmp_path)])
    (one,) = library.ids()
    assert set(library.trace(one).patches) == {"agent1"}
    (folder / "agent2.patch").write_text("late")
    assert library.trace(one).patches["agent2"] == "late"
    for file in folder.iterdir():
        file.unlink()
    assert library.trace(one) == Unreadable(
        one, str(folder), "folder: there is no run in it any more"
    )
    folder.rmdir()
    assert library.trace(one).reason == "folder: No such file or directory"


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("a.jsonl", lines(record(1), record(2)), lines(record(0), record(1), record(2))),
        ("a.json", [record(1), record(2)], [record(0), record(1), record(2)]),
        ("a.jsonl", lines(record(1), record(2)), None),
        ("a.json", [record(1), record(2)], None),
        ("a.json", record(1, id="own"), record(1, id="another")),
        ("a.json", record(1, id="own"), None),
        ("a.jsonl", lines(*APART), lines(*APART[::-1])),
    ],
)
def test_a_file_that_changed_is_never_taken_for_the_old_one(write, name, before, after):
    file = write("in", **{name: before}) / name
    library = Library([str(file)])
    *_, last = library.ids()
    assert isinstance(library.trace(last), Trace)
    if after is None:
        file.unlink()
    else:
        write("in", **{name: after})
        os.utime(file, ns=(1, 1))
    found = library.trace(last)
    assert isinstance(found, Unreadable)
    assert found.id == last
    assert name in found.reason


def test_many_threads(write):
    files = {f"{n}.json": [record(i, id=f"{n}-{i}") for i in range(20)] for n in range(5)}
    library = Library([str(write("in", **files))])
    wanted = [f"{n}-{i}" for i in range(20) for n in range(5)] * 3
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(library.trace, wanted))
    assert [one.id for one in found] == wanted
