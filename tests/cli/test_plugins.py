"""Readers, judges and report formats of others: installed, by name, and broken."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from annotator import AnnotatorError, Message, Verdict
from annotator.base.errors import UnreadableTrace
from annotator.traces import Trace, Unreadable, read_traces
from tests.conftest import ROOT, Done, unwrap

EXAMPLE = ROOT / "examples" / "plugin"


def install(package, target):
    """Install a package as its users do, without a network."""
    pytest.importorskip("hatchling", reason="pip install hatchling: it builds the example")
    options = ("--no-deps", "--no-build-isolation", "--quiet", "--target", str(target))
    command = [sys.executable, "-m", "pip", "install", *options, str(package)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder in which the example package is installed."""
    folder = tmp_path_factory.mktemp("installed")
    copy = folder / "source"
    copy.mkdir()
    for file in ("pyproject.toml", "annotator_example.py"):
        (copy / file).write_text((EXAMPLE / file).read_text())
    install(copy, folder / "site")
    return folder / "site"


def annotate(folder, site, *arguments):
    """Run the command line in a process that finds what is installed in ``site``."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{site}"}
    command = [sys.executable, "-m", "annotator", *arguments]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    return Done(done.returncode, done.stdout, unwrap(done.stderr))


CHATS = [
    {"id": "one", "chat": [["a", "The parser is done and pushed."], ["b", "Fine."]] * 2},
    {"id": "two", "chat": [["a", "I take the printer now."], ["b", "Fine."]]},
]


def test_the_example_package_reads_judges_and_reports(tmp_path, site):
    lines = (json.dumps(chat) for chat in [*CHATS, {"id": "three", "chat": 7}, {"id": "four"}])
    (tmp_path / "chats.jsonl").write_text("\n".join(lines))
    traces = annotate(tmp_path, site, "traces", "chats.jsonl", "--format", "chat")
    assert traces.code == 1
    assert "formats   chat 2" in traces.out
    assert "three" in traces.out
    text = " ".join(traces.out.split())
    assert "the reader 'chat' raised TypeError: 'int' object is not iterable" in text
    assert "an object with the keys id, not of the format chat" in text

    args = ("chats.jsonl", "--format", "chat", "--rubric", "comm_errors", "--judge", "echo")
    run = annotate(tmp_path, site, *args, "--out", "out", "--limit", "2")
    assert run.code == 0, run.err
    assert "judge: echo (annotator-example 0.1.0)" in run.err
    manifest = json.loads((tmp_path / "out" / "run.json").read_text())
    assert manifest["judge"] == {"id": "echo", "least": 20, "plugin": "annotator-example 0.1.0"}
    assert (manifest["format"], manifest["format_plugin"]) == ("chat", "annotator-example 0.1.0")

    by_name = [arg.replace("echo", "annotator_example:Echo") for arg in args]
    assert annotate(tmp_path, site, *by_name, "--out", "same", "--limit", "2").code == 0
    same = json.loads((tmp_path / "same" / "run.json").read_text())
    assert same["judge"] == manifest["judge"]

    report = annotate(tmp_path, site, "report", "out", "--format", "tsv")
    assert (report.code, report.err) == (0, "")
    cells = [line.split("\t")[:2] for line in report.out.splitlines()]
    assert all(pair in cells for pair in (["C4a", "1"], ["none", "1"], ["C1a", "-"]))

    # Another version is another judge.
    [metadata] = site.glob("annotator_example-*.dist-info/METADATA")
    before = metadata.read_text()
    metadata.write_text(before.replace("Version: 0.1.0", "Version: 0.2.0"))
    try:
        resumed = annotate(tmp_path, site, *args, "--out", "out", "--resume")
    finally:
        metadata.write_text(before)
    assert resumed.code == 2
    assert 'plugin was "annotator-example 0.1.0", is now "annotator-example 0.2.0"' in resumed.err


def test_records_of_a_reader_from_outside_are_grouped(tmp_path, site):
    lines = [("a", "ann", "Hello."), ("b", "bob", "Who is there?"), ("a", "cy", "Hi.")]
    records = (json.dumps(dict(zip(("room", "nick", "line"), line, strict=True))) for line in lines)
    (tmp_path / "rooms.jsonl").write_text("\n".join(records))
    done = annotate(tmp_path, site, "traces", "rooms.jsonl", "--format", "rooms", "--list")
    assert done.code == 0, done.out
    assert [line.split()[:4] for line in done.out.splitlines()[:2]] == [
        ["a", "rooms", "2", "agents"],
        ["b", "rooms", "1", "agents"],
    ]


def dist_info(folder, name, entries):
    """Leave what an installed distribution leaves, with entry points."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entries)


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """An installed distribution whose module cannot be imported."""
    site = tmp_path / "broken"
    site.mkdir()
    (site / "broken_plugin.py").write_text("import no_such_library\n")
    groups = ("readers", "judges", "formats")
    entries = (f"[failure_annotator.{kind}]\nbroken = broken_plugin:thing\n" for kind in groups)
    dist_info(site, "broken-package", "".join(entries))
    monkeypatch.syspath_prepend(str(site))
    return site


def test_a_plug_in_that_cannot_be_imported_breaks_nothing_else(annotate_cli, runs, broken):
    runs(1)
    args = ("logs", "--rubric", "comm_errors", "--out", "out")
    for arguments in (("--help",), ("run", "--help"), ("traces", "logs"), args):
        assert annotate_cli(*arguments).code == 0
    reason = (
        "the plug-in 'broken' (broken-package 1.0) cannot be imported: ModuleNotFoundError:"
        " No module named 'no_such_library'"
    )
    for command in (
        ("traces", "logs", "--format", "broken"),
        (*args[:3], "--out", "new", "--judge", "broken"),
        (*args[:3], "--out", "new", "--format", "broken"),
        ("report", "out", "--format", "broken"),
    ):
        done = annotate_cli(*command)
        assert (done.code, done.out) == (2, "")
        assert reason in done.err, command
    assert not Path("new").exists()


@pytest.mark.parametrize("option", ["--format", "--judge"])
def test_a_name_that_nothing_has_is_answered_with_those_there_are(
    annotate_cli, broken, tmp_path, option
):
    done = annotate_cli(tmp_path, "--rubric", "comm_errors", option, "xml")
    assert done.code == 2
    assert "'xml'" in done.err
    assert "'broken'" in done.err


# --- readers by name ------------------------------------------------------------------------------


class Rules:
    """A judge with the id of a built-in one."""

    id = "rules"
    settings = ()

    def codes(self, rubric):
        return set()

    def judge(self, trace, rubric):
        return Verdict.none()


def test_a_judge_with_a_built_in_id_is_named_by_its_plug_in(annotate_cli, runs):
    arguments = (runs(1), "--rubric", "comm_errors", "--out", "out")
    done = annotate_cli(*arguments, "--judge", f"{__name__}:Rules")
    assert f"judge: rules ({__name__}" in done.err, done.err


class Reader:
    """Reads ``{"kind": ...}`` as its kind says."""

    @staticmethod
    def matches(document):
        if document == {"kind": "unmatched"}:
            raise KeyError("kind")
        return isinstance(document, dict) and "kind" in document

    @staticmethod
    def read(document, trace_id, path):
        kinds = {
            "good": Trace(trace_id, "kinds", path, (Message(1, "a", (), "\ud800!"),)),
            "no message": Trace(trace_id, "kinds", path, ({"text": "x"},)),  # type: ignore[arg-type]
            "odd attribute": Trace(trace_id, "kinds", path, attributes={"when": object()}),
            "bad steps": Trace(trace_id, "kinds", path, read_steps=lambda: 1 / 0),  # type: ignore
            "no trace": 7,
        }
        return kinds[document["kind"]]


def test_what_a_reader_does_wrong_makes_that_trace_unreadable(tmp_path):
    reasons = {
        "unmatched": f"the reader '{__name__}:Reader' raised KeyError: 'kind'",
        "no trace": f"the reader '{__name__}:Reader' raised AttributeError: 'int' object",
        "no message": f"the reader '{__name__}:Reader' raised AttributeError: 'dict' object",
        "odd attribute": f"the reader '{__name__}:Reader' raised ValueError: its attribute 'when'",
        "unheard of": f"the reader '{__name__}:Reader' raised KeyError: 'unheard of'",
    }
    for kind in ("good", "bad steps", *reasons):
        (tmp_path / f"{kind}.json").write_text(json.dumps({"kind": kind}))
    found = {Path(one.path).stem: one for one in read_traces([str(tmp_path)], f"{__name__}:Reader")}
    good, bad = found.pop("good"), found.pop("bad steps")
    assert isinstance(good, Trace)
    assert good.messages[0].text == "\ufffd!"
    assert isinstance(bad, Trace)
    with pytest.raises(UnreadableTrace, match="raised ZeroDivisionError"):
        _ = bad.steps
    for kind, trace in found.items():
        assert isinstance(trace, Unreadable)
        assert trace.reason.startswith(reasons[kind])


def test_a_reader_needs_what_readers_have(tmp_path):
    with pytest.raises(AnnotatorError, match="expected an object with matches, read"):
        list(read_traces([str(tmp_path)], "json:JSONDecodeError.__name__"))
