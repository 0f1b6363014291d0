"""A text looked for in the traces of a run."""

import json
import math
from contextlib import closing
from dataclasses import asdict
from types import SimpleNamespace

import pytest

from annotator.base.errors import AnnotatorError
from annotator.runs.run import open_run
from annotator.traces.read import Library
from annotator.web.index import Index
from annotator.web.search import search
from tests.calibration.build import make_rubric, make_run, said
from tests.conftest import TALK, run_name, write_run

FAR = math.inf


@pytest.fixture
def searching(tmp_path):
    """Return a function that writes traces of one message each (or records) and a run of them, and
    returns what :func:`search` takes.
    """
    opened = []

    def make(*texts, order=None, missing=()):
        records = [
            text
            if isinstance(text, dict)
            else {"id": f"t{n}", "messages": [{"role": "alice", "content": text}]}
            for n, text in enumerate(texts)
        ]
        file = tmp_path / "traces.jsonl"
        file.write_text("".join(json.dumps(one) + "\n" for one in records))
        names = [f"t{n}" for n in order or range(len(texts))]
        rubric = make_rubric(tmp_path)
        run = make_run(tmp_path / "run", rubric, [said(one) for one in (*names, *missing)])
        index = Index([open_run(run)])
        opened.append(index)
        index.wait()
        return Library([str(file)]).trace, index

    yield make
    for one in opened:
        one.close()


def texts_of(find, hits):
    """The hits as their sources have them; each must stand where it says."""
    found = []
    for hit in hits:
        text = find(hit.trace_id).source(hit.source).text
        found.append(text[hit.start : hit.end])
        begin, end = hit.match
        assert hit.excerpt[begin:end] == " ".join(found[-1].split())
        assert "\n" not in hit.excerpt
    return found


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ("hello", "Hello, hello and HELLO", ["Hello", "hello", "HELLO"]),
        ("ß", "Straße und STRASSE", ["ß"]),
        ("straße", "ßßß STRASSE Straße", ["Straße"]),
        ("e", "😀é😀 e", ["e"]),
        ("été", "L'ÉTÉ", ["ÉTÉ"]),
        ("a.c", "abc a.c", ["a.c"]),
        ("[", "a[0]", ["["]),
        ("aa", "aaaa", ["aa", "aa"]),
        ("two\nlines", "here are two\nlines", ["two\nlines"]),
        ("nothing", "something", []),
        ("", "anything", []),
    ],
)
def test_found_where_it_stands(searching, query, text, expected):
    find, index = searching(text)
    found = search(find, index, query, seconds=FAR)
    assert texts_of(find, found.hits) == expected
    assert found.cursor is None


def test_excerpt_is_one_harmless_line(searching):
    find, index = searching("a" * 500 + " one\n\ttwo\x1b[31m THREE \u202e four " + "b" * 500)
    (hit,) = search(find, index, "three", seconds=FAR).hits
    assert hit.excerpt.isprintable()
    assert "one two\ufffd[31m THREE \ufffd four b" in hit.excerpt
    assert hit.excerpt[slice(*hit.match)] == "THREE"
    assert len(hit.excerpt) <= 80 + len("three") + 120


def test_messages_patches_and_outcome_are_searched(tmp_path):
    folder = tmp_path / run_name(1)
    write_run(folder, [*TALK, ("agent1", "a needle")], patches={1: "+needle\n", 2: "-NEEDLE"})
    (folder / "agent1_traj.json").write_text(
        json.dumps({"messages": [{"role": "assistant", "content": "a needle in a step"}]})
    )
    value = json.loads((folder / "eval.json").read_text())
    value["feature1"]["test_output"] = "no Needle"
    (folder / "eval.json").write_text(json.dumps(value))
    library = Library([str(tmp_path / "logs")])
    (own,) = library.ids()
    run = make_run(tmp_path / "run", make_rubric(tmp_path), [said(own)])
    with closing(Index([open_run(run)])) as index:
        index.wait()
        found = search(library.trace, index, "needle", seconds=FAR)
        assert texts_of(library.trace, found.hits) == ["needle", "needle", "NEEDLE", "Needle"]
        sources = [one.source for one in found.hits]
        assert sources == ["message:5", "patch:agent1", "patch:agent2", "outcome"]


def test_messages_of_tools_are_searched(searching):
    talk = [{"role": "alice", "content": "x"}, {"role": "tool", "content": "needle"}]
    find, index = searching({"id": "t0", "messages": talk})
    assert [one.source for one in search(find, index, "needle", seconds=FAR).hits] == ["message:2"]


def every_hit(find, index, query, **options):
    """Follow the cursor to the end, as a page does: through JSON."""
    hits, cursor = [], None
    for _ in range(1_000):
        found = search(find, index, query, cursor, **options)
        hits += found.hits
        if found.cursor is None:
            return hits, found
        value = asdict(found)
        assert value["searched"] == found.searched
        cursor = json.loads(json.dumps(value["cursor"]))
    raise AssertionError("no end")


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 7, 50])
def test_going_on_finds_every_hit_once(searching, limit):
    texts = ["x", "y x", "x x x x", "y", "xxxxxx"]
    find, index = searching(*texts, order=[4, 2, 0, 1, 3])
    hits, last = every_hit(find, index, "X", limit=limit, seconds=FAR)
    assert [one.trace_id for one in hits] == ["t4"] * 6 + ["t2"] * 4 + ["t0", "t1"]
    assert len(set(hits)) == len(hits)
    assert (last.searched, last.unread) == (5, 0)


def test_time_is_kept_and_every_call_gets_on(searching, monkeypatch):
    find, index = searching(*(f"x {n}" for n in range(30)))
    passed = []  # one second for each trace
    clock = SimpleNamespace(monotonic=lambda: len(passed))
    monkeypatch.setattr("annotator.web.search.time", clock)

    def slow(trace_id):
        passed.append(trace_id)
        return find(trace_id)

    assert search(slow, index, "x", seconds=4.5).searched == 5
    passed.clear()
    hits, last = every_hit(slow, index, "x", seconds=0.0)
    assert [one.trace_id for one in hits] == passed == [f"t{n}" for n in range(30)]
    assert (last.searched, last.unread) == (30, 0)


def test_a_trace_is_searched_once_and_what_is_missing_is_counted(searching):
    broken = {"id": "t1", "messages": ["not an object"]}
    find, index = searching("x", broken, missing=["gone"])
    found = search(find, index, "x", seconds=FAR)
    assert [one.trace_id for one in found.hits] == ["t0"]
    assert (found.searched, found.unread) == (1, 2)


@pytest.mark.parametrize(
    "cursor",
    [[1, 2], [1, 2, 3, 4, 5], [-1, 0, 0, 0], [2**64, 0, 0, 0], ["1", 0, 0, 0], [True, 0, 0, 0],
     7, "abcd", {"row": 1}],
)  # fmt: skip
def test_a_cursor_of_somebody_else(searching, cursor):
    find, index = searching("x")
    with pytest.raises(AnnotatorError, match="not a place to go on searching"):
        search(find, index, "x", cursor)
