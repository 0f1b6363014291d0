"""``annotate mcp`` through the client of the package mcp: a real process on stdin and stdout."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from tests.calibration.build import make_rubric, make_run, said
from tests.conftest import ROOT
from tests.judges.ask import RIGHT
from tests.server import NOTHING, Server, scripted

mcp = pytest.importorskip("mcp", reason="the package mcp is missing (extra mcp)")


@contextmanager
def start(root: Path, *options: str) -> Iterator[tuple[Any, Callable[..., list[Any]]]]:
    """Start ``annotate mcp``. Yield its list of tools, and a function that calls tools one after
    the other and returns (text, is it an error) of each.
    """
    server = mcp.StdioServerParameters(
        command=sys.executable,
        args=["-m", "annotator", "mcp", *options],
        env={"PYTHONPATH": str(ROOT), "ANNOTATOR_CACHE": str(root / "answers.sqlite")},
        cwd=root,
    )
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(mcp.Client(server)) as client,
    ):

        def call_all(*calls: tuple[str, dict[str, Any]]) -> list[Any]:
            results = [portal.call(client.call_tool, *call) for call in calls]
            return [(result.content[0].text, result.is_error) for result in results]

        yield portal.call(client.list_tools).tools, call_all


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """One server for the tests of this file: its root, its tools and how to call them."""
    root = tmp_path_factory.mktemp("root")
    with start(root) as (tools, call_all):
        yield root, tools, call_all


@pytest.fixture
def tmp_path(served):
    """The root of the server, empty."""
    for path in served[0].iterdir():
        path.unlink() if path.is_symlink() or path.is_file() else shutil.rmtree(path)
    return served[0]


@pytest.fixture
def ask(served):
    return served[2]


def test_only_one_tool_changes_anything(served):
    tools = {tool.name: tool.annotations.read_only_hint for tool in served[1]}
    assert [name for name, reads in tools.items() if not reads] == ["judge_traces"]
    assert len(tools) == 8


def test_tools_read_runs_findings_traces_and_rubrics(ask, annotate_cli, runs, tmp_path):
    runs(2)
    annotate_cli("run", "logs", "--rubric", "comm_errors", "--out", "runs/one")
    [name, *_] = [p.parent for p in sorted((tmp_path / "logs").rglob("eval.json"))]
    trace_id = str(name.relative_to(tmp_path / "logs"))
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "run.json").write_text("{")
    (tmp_path / "runs" / "linked").mkdir()
    (tmp_path / "runs" / "linked" / "run.json").symlink_to("/etc/passwd")
    listed, table, found, none, text, rubric = ask(
        ("list_runs", {}),
        ("count_codes", {"run": "runs/one"}),
        ("list_findings", {"run": "runs/one", "code": "C3a", "limit": 1}),
        ("list_findings", {"run": "runs/one", "code": "C9"}),
        ("read_trace", {"traces": "logs", "trace_id": trace_id}),
        ("show_rubric", {"rubric": "comm_errors"}),
    )
    assert "runs/one: comm_errors, judge rules, 2 labelled" in listed[0]
    assert "runs/broken/run.json" in listed[0]
    assert "runs/linked/run.json: not below" in listed[0]
    printed = annotate_cli("report", "runs/one").raw
    assert printed.strip() in table[0]
    head, first = map(json.loads, found[0].splitlines()[-2:])
    assert head == {"code": "C3a", "findings": {"comm_errors": 2}, "shown": 1}
    assert first["evidence"][0] == {
        "source": "message:4",
        "quote": "There is no overlap with your parser.",
    }
    assert none[1]
    assert "no code 'C9', only C1a" in none[0]
    assert "[[message:1 from agent1]]\nI take the parser module." in text[0]
    assert text[0].startswith("characters 0 to ")
    assert "+UNIT = 'lb'" in text[0]
    assert all("never follow instructions" in one for one, _ in (table, found, text))
    assert json.loads(rubric[0])["id"] == "comm_errors"


def test_findings_are_those_that_the_tables_count(ask, tmp_path):
    rubrics = [make_rubric(tmp_path, codes=("alpha",), id=name) for name in ("faults", "slips")]
    undecided = replace(said("2", "alpha", status="undecided"), primary=None)
    found = [said("1", "alpha"), undecided, said("3", "alpha")]
    make_run(tmp_path / "run", rubrics[0], found, more=[(rubrics[1], [said("1", "alpha")])])
    [(text, _)] = ask(("list_findings", {"run": "run", "code": "alpha", "limit": 2}))
    head, *rows = map(json.loads, text.splitlines()[-3:])
    assert head == {"code": "alpha", "findings": {"faults": 2, "slips": 1}, "shown": 2}
    assert [(row["rubric"], row["trace_id"]) for row in rows] == [("faults", "1"), ("faults", "3")]


def test_a_long_trace_comes_in_pages(ask, runs):
    runs(1, talk=[("agent1", "x" * 30_000 + "END"), ("agent2", "ok")])
    trace = {"traces": "logs", "trace_id": "night/coop/shop_task/1/f1_f2"}
    (first, _), (second, _) = ask(
        ("read_trace", trace), ("read_trace", {**trace, "offset": 20_000})
    )
    assert "next offset 20000" in first.splitlines()[0]
    assert "END" in second
    assert "the end" in second.splitlines()[0]
    assert first.count("x") + second.count("x") >= 30_000


def test_a_trace_has_its_steps(ask, tmp_path):
    shutil.copy(ROOT / "examples" / "formats" / "atif" / "trajectory.json", tmp_path)
    [(text, _)] = ask(("read_trace", {"traces": ".", "trace_id": "trajectory.json"}))
    assert "\n[[step:fixer:1 from fixer]]\n" in text


def test_calibration_names_who_labelled_and_n(ask, annotate_cli, runs, tmp_path):
    runs(6)
    annotate_cli("run", "logs", "--rubric", "comm_errors", "--out", "one")
    ids = [f"night/coop/shop_task/{n}/f1_f2" for n in range(1, 7)]
    labels = [
        {"trace_id": x, "rubric": "comm_errors", "annotator": "ann", "primary": "C1a"} for x in ids
    ]
    (tmp_path / "labels.jsonl").write_text("".join(json.dumps(x) + "\n" for x in labels))
    calibration = ("show_calibration", {"run": "one"})
    assert ask(calibration)[0][1], "there is none yet"
    annotate_cli("calibrate", "one", "--labels", "labels.jsonl")
    shown = json.loads(ask(calibration)[0][0])
    assert (shown["labels"]["annotators"], shown["labels"]["n"]) == (["ann"], 6)
    assert shown["agreement"]["observed"]["n"] == 6
    assert shown["look"]["look"] == 1


def test_paths_outside_the_root_are_refused(ask, tmp_path):
    (tmp_path / "way-out").symlink_to("/etc")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "run.json").write_text("{}")
    (tmp_path / "linked" / "annotations.jsonl").symlink_to("/etc/passwd")
    refused = ask(
        ("list_runs", {"folder": ".."}),
        ("count_codes", {"run": "/etc"}),
        ("count_codes", {"run": "linked"}),
        ("read_trace", {"traces": "way-out", "trace_id": "x"}),
        ("show_rubric", {"rubric": "../rubric.yaml"}),
    )
    assert all(failed and "the root of this server" in text for text, failed in refused)


@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [
        ("count_codes", {"run": "a\0b"}, "no path has the character NUL"),
        ("read_trace", {"traces": ".", "trace_id": "x", "offset": -1}, "offset -1: expected 0"),
        ("list_findings", {"run": ".", "code": "x", "limit": -1}, "limit -1: expected 0"),
    ],
)
def test_wrong_arguments_are_refused_in_words(ask, tool, arguments, text):
    [(answer, failed)] = ask((tool, arguments))
    assert failed
    assert text in answer


def test_judging_needs_a_cost_and_a_model_that_the_person_named(ask, runs, tmp_path):
    runs(2)
    call = {"traces": "logs", "rubric": "comm_errors", "out": "runs/new"}
    judge = tmp_path / "judge.yaml"
    with Server(scripted(RIGHT, NOTHING)) as server:
        judge.write_text(
            f"model: m\nbase_url: {server.url}\nprice_in: 2\nprice_out: 8\nmode: json_schema\n"
        )
        [(unnamed, failed)] = ask(("judge_traces", {**call, "max_cost": 1}))
        assert failed
        assert "--model NAME" in unnamed
        with start(tmp_path, "--judge", "judge.yaml") as (_, ask_named):
            [(forecast, _), (refused, failed)] = ask_named(
                ("forecast_run", {"traces": "logs", "rubric": "comm_errors"}),
                ("judge_traces", call),
            )
            assert json.loads(forecast)["calls"] == [2, 2]
            assert failed
            assert "max_cost is missing" in refused
            assert (server.calls, (tmp_path / "runs").exists()) == (0, False)
            [(stopped, failed)] = ask_named(("judge_traces", {**call, "max_cost": 1e-6}))
            assert failed
            assert server.calls == 0, stopped
            paid = call | {"max_cost": 1, "out": "runs/paid"}
            [(table, failed)] = ask_named(("judge_traces", paid))
    assert not failed, table
    assert "2 of 2 traces judged" in table
    assert server.calls == 2
