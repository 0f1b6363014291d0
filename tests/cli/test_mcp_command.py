"""``annotate mcp`` through the client of the package mcp: a real process on stdin and stdout."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.judges.ask import RIGHT
from tests.server import NOTHING, Server, scripted

mcp = pytest.importorskip("mcp", reason="the package mcp is missing (extra mcp)")


@pytest.fixture
def ask(tmp_path):
    """Call tools of a server in ``tmp_path``, one after the other; return (text, is it an error)
    of each. ``options`` are those of ``annotate mcp``.
    """

    def call_all(*calls: tuple[str, dict[str, Any]], options: tuple[str, ...] = ()) -> list[Any]:
        server = mcp.StdioServerParameters(
            command=sys.executable,
            args=["-m", "annotator", "mcp", *options],
            env={"PYTHONPATH": str(ROOT), "ANNOTATOR_CACHE": str(tmp_path / "answers.sqlite")},
            cwd=tmp_path,
        )

        async def talk() -> list[Any]:
            async with mcp.Client(server) as client:
                if not calls:
                    return (await client.list_tools()).tools
                results = [await client.call_tool(*call) for call in calls]
                return [(result.content[0].text, result.is_error) for result in results]

        return asyncio.run(talk())

    return call_all


def test_only_one_tool_changes_anything(ask):
    tools = {tool.name: tool.annotations.read_only_hint for tool in ask()}
    assert [name for name, reads in tools.items() if not reads] == ["judge_traces"]
    assert len(tools) == 8


def test_tools_read_runs_findings_traces_and_rubrics(ask, annotate_cli, runs, tmp_path):
    runs(2)
    annotate_cli("run", "logs", "--rubric", "comm_errors", "--out", "runs/one")
    [name, *_] = [p.parent for p in sorted((tmp_path / "logs").rglob("eval.json"))]
    trace_id = str(name.relative_to(tmp_path / "logs"))
    listed, table, found, none, text, rubric = ask(
        ("list_runs", {}),
        ("count_codes", {"run": "runs/one"}),
        ("list_findings", {"run": "runs/one", "code": "C3a", "limit": 1}),
        ("list_findings", {"run": "runs/one", "code": "C9"}),
        ("read_trace", {"traces": "logs", "trace_id": trace_id}),
        ("show_rubric", {"rubric": "comm_errors"}),
    )
    assert "runs/one: comm_errors, judge rules, 2 labelled" in listed[0]
    printed = annotate_cli("report", "runs/one").raw
    assert printed.strip() in table[0]
    head, first = map(json.loads, found[0].splitlines()[-2:])
    assert head == {"code": "C3a", "findings": 2, "shown": 1}
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
    refused = ask(
        ("list_runs", {"folder": ".."}),
        ("count_codes", {"run": "/etc"}),
        ("read_trace", {"traces": "way-out", "trace_id": "x"}),
        ("show_rubric", {"rubric": "../rubric.yaml"}),
    )
    assert all(failed and "the root of this server" in text for text, failed in refused)


def test_judging_needs_a_cost_and_a_model_that_the_person_named(ask, runs, tmp_path):
    runs(2)
    call = {"traces": "logs", "rubric": "comm_errors", "out": "runs/new"}
    judge = tmp_path / "judge.yaml"
    with Server(scripted(RIGHT, NOTHING)) as server:
        judge.write_text(
            f"model: m\nbase_url: {server.url}\nprice_in: 2\nprice_out: 8\nmode: json_schema\n"
        )
        named = ("--judge", "judge.yaml")
        [(unnamed, failed)] = ask(("judge_traces", {**call, "max_cost": 1}))
        assert failed
        assert "--model NAME" in unnamed
        [(forecast, _), (refused, failed)] = ask(
            ("forecast_run", {"traces": "logs", "rubric": "comm_errors"}),
            ("judge_traces", call),
            options=named,
        )
        assert json.loads(forecast)["calls"] == [2, 2]
        assert failed
        assert "max_cost is missing" in refused
        assert (server.calls, Path("runs").exists()) == (0, False)
        [(stopped, failed)] = ask(("judge_traces", {**call, "max_cost": 1e-6}), options=named)
        assert failed
        assert server.calls == 0, stopped
        [(table, failed)] = ask(
            ("judge_traces", {**call, "max_cost": 1, "out": "runs/paid"}), options=named
        )
    assert not failed, table
    assert "2 of 2 traces judged" in table
    assert server.calls == 2
