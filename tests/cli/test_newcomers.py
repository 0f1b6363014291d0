"""What somebody meets who has never used the tool: help, slips, defaults from files."""

import json
import os
import re

import pytest

from annotator.cli import run
from tests.conftest import EXAMPLES, ROOT, run_name, write_run
from tests.server import Reply, Server, scripted

TRACES = str(EXAMPLES / "logs")


@pytest.mark.parametrize("command", [(), ("run",), ("report",), ("rubric", "check")])
def test_h_is_help(annotate_cli, command):
    done = annotate_cli(*command, "-h")
    assert (done.code, "annotate " in done.out) == (0, True)


@pytest.mark.parametrize(
    ("word", "meant"),
    [("reprot", "report"), ("calibrat", "calibrate"), ("trace", "traces"), ("rubrics", "rubric")],
)
def test_a_mistyped_command_is_answered_with_the_nearest(annotate_cli, word, meant):
    done = annotate_cli(word, "runs/first")
    assert done.code == 2
    assert f"no command {word!r}, did you mean {meant!r}?" in done.err


def test_results_among_the_traces_are_passed_over(annotate_cli, tmp_path):
    """The traces are in a folder named runs, where the results go."""
    write_run(tmp_path / run_name(1, "runs"))
    for _ in range(2):
        done = annotate_cli("run", "runs", "--rubric", "symptoms")
        assert "not a trace" not in done.err
    [folder, _] = (tmp_path / "runs").glob("symptoms-*")
    done = annotate_cli("traces", folder)  # named, it is explained
    assert (done.code, "ignored: a run directory" in " ".join(done.out.split())) == (2, True)


def test_a_folder_with_nearly_the_name_of_a_command_is_a_folder(annotate_cli, tmp_path):
    (tmp_path / "trace").mkdir()
    done = annotate_cli("trace", "--rubric", "comm_errors")
    assert "no traces in trace" in done.err


def test_traces_without_a_rubric_show_what_there_is(annotate_cli):
    done = annotate_cli(TRACES)
    assert done.code == 2
    assert done.out.startswith("17 traces (17 cooperbench)\n")
    assert "  comm_errors         17  Communication errors" in done.out
    assert "  emergent             2  " in done.out  # those that passed
    assert f"--rubric is missing; try: annotate {TRACES} --rubric symptoms (annotate" in done.err


def test_an_address_without_v1_is_hinted_at(annotate_cli):
    missing = scripted(Reply(status=404))
    with Server(missing, probe=missing) as server:
        args = ("--rubric", "comm_errors", "--model", "m", "--base-url", server.root)
        done = annotate_cli(TRACES, *args)
    assert done.code == 2
    assert "the URL has no /v1, which most servers have at its end" in done.err


def test_what_cannot_be_read_is_not_to_be_tried_again(annotate_cli, tmp_path):
    talk = [{"role": "a", "content": "x y"}, {"role": "b", "content": "z"}]
    (tmp_path / "t.jsonl").write_text(json.dumps({"messages": talk}) + "\n{\n")
    done = annotate_cli("t.jsonl", "--rubric", "comm_errors", "--out", "out")
    assert done.code == 1
    assert "unreadable: 1 trace failed" in done.out
    assert "--resume" not in done.err


def test_a_hub_that_has_no_address_fails_at_once(annotate_cli, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.invalid")
    done = annotate_cli("traces", "hf://nobody/nothing")
    assert done.code == 2
    assert "hub.invalid cannot be reached" in done.err


# --- defaults from files


def test_defaults_of_a_project(annotate_cli, tmp_path):
    (tmp_path / "annotate.toml").write_text(
        '[run]\nrubric = "comm_errors"\nlimit = 3\n[report]\nformat = "csv"\n'
    )
    done = annotate_cli(TRACES, "--out", "out")
    assert done.code == 0, done.err
    assert "annotate.toml sets limit, rubric" in done.err
    assert json.loads((tmp_path / "out" / "run.json").read_text())["limit"] == 3
    assert annotate_cli("report", "out").out.startswith("rubric,")
    assert annotate_cli("report", "out", "--format", "json").out.startswith("[")
    (tmp_path / "annotate.toml").write_text("[run]\nall = true\nno-cache = true\nresume = false\n")
    assert annotate_cli(TRACES, "--limit", "2", "--rubric", "symptoms", "--out", "two").code == 0
    manifest = json.loads((tmp_path / "two" / "run.json").read_text())
    assert (manifest["limit"], len(manifest["rubrics"]), manifest["only"]) == (2, 1, "all")


def test_defaults_of_pyproject(annotate_cli, tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.annotate.run]\nrubric = ['symptoms']\n")
    done = annotate_cli(TRACES, "--out", "out", "--limit", "1")
    assert "pyproject.toml sets rubric" in done.err
    assert "symptoms v4" in done.out


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[run]\nrubrik = 'x'\n", "rubrik: no option of annotate run, did you mean 'rubric'?"),
        ("[run\n", "not valid TOML"),
        ("run = 3\n", "run: expected options of the command, as a table"),
        ("[run]\nlimit = 'many'\n", "many"),
        ("[run]\nlimit = true\n", "'True'"),
        ("[run]\nseed = {a = 1}\n", "annotate.toml: seed: expected one value"),
        ("[run]\nquiet = 1\n", "annotate.toml: quiet: expected true or false"),
        ("[run]\nall = false\n", "all: false: set failed-only = true, or leave both out"),
        ("[run]\nmax-cost = nan\n", "is not a number"),
        ("[run]\nbase-url = 'http://x'\n", "base-url: not from a project's file"),
        ("[run]\njudge = 'judge.yaml'\n", "judge: not from a project's file"),
        ("[run]\napi-key-env = 'B'\n", "api-key-env: not from a project's file"),
        ("[run]\njudge = 'evil:Judge'\n", "judge: not from a project's file"),
        ("[run]\nformat = 'evil:Reader'\n", "format: not from a project's file"),
    ],
)
def test_wrong_defaults(annotate_cli, tmp_path, text, reason):
    (tmp_path / "annotate.toml").write_text(text)
    done = annotate_cli(TRACES, "--rubric", "comm_errors", "--out", "out")
    assert done.code == 2
    assert reason in done.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("annotate.toml", None, "annotate.toml: not a regular file"),
        ("pyproject.toml", None, "pyproject.toml: not a regular file"),
        (".env", None, ".env: not a regular file"),
        ("annotate.toml", b"#" * (1 << 20) + b"#", "annotate.toml: larger than 1 MB"),
        ("annotate.toml", b"a = " + b"[" * 5000, "annotate.toml: not valid TOML"),
        (".env", b"A_API_KEY=\xe9", ".env: not UTF-8"),
        (".env", b"#" * (1 << 20) + b"#", ".env: larger than 1 MB"),
    ],
)
def test_files_of_this_folder_that_cannot_be_read(annotate_cli, tmp_path, name, content, reason):
    if content is None:
        os.mkfifo(tmp_path / name)
    else:
        (tmp_path / name).write_bytes(content)
    done = annotate_cli("run", TRACES, "--rubric", "comm_errors", "--out", "out")
    assert (done.code, reason in done.err) == (2, True), done.err


def test_a_map_may_have_a_mark_in_its_name(annotate_cli, tmp_path):
    (tmp_path / "c#%23.yaml").write_text("messages: said\nsender: who\ntext: what\n")
    record = {"said": [{"who": "agent-1", "what": "Hello."}]}
    (tmp_path / "t.jsonl").write_text(json.dumps(record) + "\n")
    args = ("--map", "c#%23.yaml", "--agent-name", "^[a-z]+", "--json")
    done = annotate_cli("traces", "t.jsonl", *args)
    assert (done.code, '"map"' in done.out) == (0, True), done.err


@pytest.mark.parametrize(
    ("name", "text", "counts"),
    [
        ("talk.csv", "dialog_id,agent,message\n1,ann,hi\n1,ben,ho\n2,ann,hm\n", (2, 3)),
        ("team.json", '{"of": {"ann": [{"text": "a"}], "ben": [{"text": "b"}]}, "x": [1]}', (1, 2)),
        ("turns.json", '{"data": {"steps": [{"who": "ann", "body": "a"}]}}', (1, 1)),
    ],
)
def test_what_explain_prints_is_a_map(annotate_cli, tmp_path, name, text, counts):
    (tmp_path / name).write_text(text)
    (tmp_path / "half.json").write_text('{"a": ')
    done = annotate_cli("traces", "--explain", name, "half.json")
    (tmp_path / "map.yaml").write_text(done.out)
    read = annotate_cli("traces", name, "--map", "map.yaml", "--json")
    summary = json.loads(read.out.splitlines()[-1])["summary"]
    assert (summary["traces"], summary["messages"]) == counts, done.out + read.out


def test_explain_says_what_cannot_be_read(annotate_cli, tmp_path):
    (tmp_path / "half.json").write_text("[" * 5000)
    done = annotate_cli("traces", "--explain", TRACES, "half.json")
    assert "half.json: unreadable: " in done.out


@pytest.mark.parametrize(
    ("file", "format_"),
    [
        ("codex/exec.jsonl", "codex-exec"),
        ("codex/tools.jsonl", "codex"),
        ("langchain/history.json", "langchain"),
        ("openai/messages.json", None),
    ],
)
def test_explain_names_the_format_that_reads_a_file(annotate_cli, tmp_path, file, format_):
    """Also if some of its records say nothing by themselves."""
    path = ROOT / "examples" / "formats" / file
    if format_ is None:
        path = tmp_path / "messages.json"
        path.write_text('[{"type": "x"}, {"type": "y"}]')
    out = annotate_cli("traces", "--explain", path).out
    expected = (
        f"format {format_}" if format_ else "no format; a map that may read it:\n# keys: type"
    )
    assert f"{path}: {expected}\n" in out


def test_a_map_that_fits_no_file_is_one_short_error(annotate_cli, tmp_path):
    (tmp_path / "m.yaml").write_text("messages: trace.steps\n")
    (tmp_path / "in").mkdir()
    for n in range(4):
        (tmp_path / "in" / f"{n}.json").write_text(json.dumps({f"key{n}": n, "text": "x" * n}))
    (tmp_path / "in" / "4.json").write_text("[1]")
    done = annotate_cli("run", "in", "--map", "m.yaml", "--rubric", "comm_errors", "--quiet")
    assert (done.code, done.err.replace(f"{tmp_path}/", "")) == (
        2,
        "Error: no trace could be read in in: in/0.json: not a trace: no list of messages at"
        " trace.steps (messages in m.yaml) (and 3 more like it); in/4.json:1: not a trace: a"
        " number, no record; see annotate traces --explain\n",
    )


def test_the_users_file_may_say_where_models_are(annotate_cli, tmp_path, monkeypatch):
    folder = tmp_path / "config" / "annotator"
    folder.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with Server() as server:
        (folder / "annotate.toml").write_text(f"[run]\nmodel = 'm'\nbase-url = '{server.url}'\n")
        done = annotate_cli(TRACES, "--rubric", "comm_errors", "--limit", "1", "--out", "out")
    assert "sets base-url, model" in done.err
    assert "judge: llm:m" in done.err


def test_a_user_without_a_home_has_no_file(annotate_cli, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", "~nobody-of-this-name/config")
    done = annotate_cli(TRACES, "--rubric", "comm_errors", "--limit", "1", "--out", "out")
    assert done.code == 0, done.err


def test_keys_of_a_dotenv_file(annotate_cli, tmp_path):
    lines = "SOME_API_KEY=from-file\nOPENAI_BASE_URL=http://127.0.0.1:9/v1\n"
    (tmp_path / ".env").write_text(lines)
    with Server() as server:
        args = ("--model", "m", "--base-url", server.url, "--api-key-env", "SOME_API_KEY")
        rest = ("--rubric", "comm_errors", "--limit", "1", "--out", "out")
        annotate_cli(TRACES, *args, *rest)
    assert {request.headers["authorization"] for request in server.seen} == {"Bearer from-file"}


def test_the_help_of_a_run_begins_with_the_common_options(annotate_cli):
    text = annotate_cli("run", "--help").out
    titles = re.findall(r"(?m)^([A-Z].*):$", text)
    assert titles[:3] == ["Options", "Which traces", "Model"]
    first = text[text.index("Options:") : text.index("Which traces:")]
    names = re.findall(r"(?m)^  (--[a-z-]+)", first)
    common = "rubric model judge base-url out resume limit dry-run max-cost concurrency"
    assert names == [f"--{name}" for name in common.split()]
    flags = [flag for param in run.command.params for flag in param.opts if flag.startswith("--")]
    assert all(len(re.findall(rf"(?m)^  .*{flag}\b", text)) >= 1 for flag in flags)


def test_commands_are_listed_in_groups(annotate_cli):
    text = annotate_cli("--help").out
    assert re.findall(r"(?m)^([A-Z].*):$", text)[1:] == [
        *("Judge", "Read", "Check with people", "Find codes", "Improve the judge"),
        *("Count without a judge", "Work with a coding agent", "Files"),
    ]
    assert max(map(len, text.splitlines())) <= 80
