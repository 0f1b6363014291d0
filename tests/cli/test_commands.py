"""The commands around a run: rubrics, traces, help, and the short form."""

import json

import pytest

from annotator.rubrics import list_built_in, load_rubric
from tests.conftest import EXAMPLES, run_name, write_run


def test_rubric_list_names_every_built_in_one(annotate_cli):
    done = annotate_cli("rubric", "list")
    assert [line.split()[0] for line in done.out.splitlines() if line[0] != " "] == [
        path.stem for path in list_built_in()
    ]


def test_rubric_show_is_safe_on_a_terminal(annotate_cli, tmp_path):
    annotate_cli("rubric", "new", "r.yaml")
    text = (tmp_path / "r.yaml").read_text()
    (tmp_path / "r.yaml").write_text(text.replace("our own", r'"\e[31mred\u202e"'))
    done = annotate_cli("rubric", "show", "r.yaml")
    assert "source: \ufffd[31mred\ufffd\n" in done.out


def test_rubric_show_says_everything_a_labeller_needs(annotate_cli):
    done = annotate_cli("rubric", "show", "comm_errors")
    assert max(map(len, done.raw.splitlines())) <= 80
    text = " ".join(done.out.split())
    for code in load_rubric("comm_errors").codes:
        assert code.definition in text
        assert code.evidence in text
    value = json.loads(annotate_cli("rubric", "show", "comm_errors", "--json").out)
    assert [code["id"] for code in value["codes"]] == [
        code.id for code in load_rubric("comm_errors").codes
    ]


def test_rubric_new_writes_a_rubric_that_can_be_used(annotate_cli, tmp_path):
    assert annotate_cli("rubric", "new", "my own.yaml").code == 0
    assert load_rubric(str(tmp_path / "my own.yaml")).id == "my_own"
    assert annotate_cli("rubric", "check", "my own.yaml", "symptoms").code == 0
    for name in ("r" * 80, "規則", "a\udcff"):
        assert annotate_cli("rubric", "new", f"{name}.yaml").code == 0
        assert annotate_cli("rubric", "check", f"{name}.yaml").code == 0
    again = annotate_cli("rubric", "new", "my own.yaml")
    assert (again.code, "is there already" in again.err) == (2, True)
    assert annotate_cli("rubric", "new", "nowhere/x.yaml").code == 2


def test_names_of_files_are_shown_without_what_steers_a_terminal(annotate_cli):
    file, folder, labels = "a\u202e\x1bb.yaml", "o\u202e\x1bb", EXAMPLES.parent / "labels.jsonl"
    model = ("--base-url", "http://127.0.0.1:9/v1", "--model", "m\u202e\x1bn")
    url = (*model, "--batch-file", file + "l")
    for given in (
        ("rubric", "new", file),
        ("rubric", "check", file),
        ("run", EXAMPLES, "--rubric", "comm_errors", "--out", folder),
        ("run", EXAMPLES, "--rubric", "comm_errors", *url, "--out", f"{folder}2"),
        ("run", EXAMPLES, "--rubric", "comm_errors", *model, "--dry-run"),
        ("sample", EXAMPLES, "--rubric", "comm_errors", "--out", f"{folder}.csv"),
        ("calibrate", folder, "--labels", labels, "--ledger", "looks", "--out", f"{file}.json"),
    ):
        done = annotate_cli(*given)
        shown = done.out + done.err
        assert (done.code, "\ufffd" in shown) == (0, True), shown
        assert not {"\u202e", "\x1b"} & set(shown), shown


def test_rubric_check_names_file_code_and_field(annotate_cli, tmp_path):
    file = next(path for path in list_built_in() if path.stem == "causes")
    text = file.read_text().replace("definition:", "defintion:", 1)
    (tmp_path / "broken.yaml").write_text(text)
    done = annotate_cli("rubric", "check", "broken.yaml")
    assert done.code == 2
    assert "broken.yaml: codes.expectation" in done.err
    assert "did you mean 'definition'?" in done.err


def test_traces_counts_what_is_there(annotate_cli, tmp_path):
    write_run(tmp_path / run_name(1))
    write_run(tmp_path / run_name(2), passed=True, merge="clean", talk=[])
    (tmp_path / "logs" / "notes.json").write_text('{"a": 1}')
    (tmp_path / "logs" / "broken.json").write_text("{")
    done = annotate_cli("traces", "logs", "--json")
    records = [json.loads(line) for line in done.out.splitlines()]
    summary = records[-1]["summary"]
    assert done.code == 1  # broken.json may be a trace
    assert (summary["traces"], summary["unreadable"], summary["ignored"]) == (2, 1, 1)
    assert summary["outcomes"] == {"failed": 1, "passed": 1}
    assert summary["merges"] == {"conflicts": 1, "clean": 1}
    assert (summary["messages"], summary["without_messages"]) == (4, 1)
    assert {name: summary["attributes"][name] for name in ("passed", "merge", "setting")} == {
        "passed": 2,
        "merge": 2,
        "setting": 1,
    }
    assert "merge (2 values)" in annotate_cli("traces", "logs").out
    problems = [problem for record in records[:-1] for problem in record["problems"]]
    assert any("not valid JSON" in problem for problem in problems)
    assert any("not a trace" in problem for problem in problems)


def test_traces_prints_the_worst_problems_first_in_80_columns(annotate_cli, tmp_path):
    for n in range(12):
        (tmp_path / f"{n}.json").write_text(json.dumps({f"key{'x' * n}": 1, "path": "a/b " * 20}))
    (tmp_path / "z.json").write_text("{")
    write_run(tmp_path / run_name(1))
    done = annotate_cli("traces", ".")
    head, *lines = done.out.splitlines()
    assert (head, lines[0].startswith("  z.json: ")) == ("problems:", True)
    assert f"{tmp_path}/z.json:" in annotate_cli("traces", tmp_path).out
    assert "  5 more kinds of problems: -v" in lines
    assert "1 trace can be read; 1 cannot be read; 12 ignored (no trace)." in lines
    assert all(len(line) <= 80 or " " not in line.strip() for line in lines)  # a long path
    assert "more kinds" not in annotate_cli("traces", ".", "-v").out
    assert "--rubric symptoms" in done.err


def test_traces_lists_broken_trajectories(annotate_cli, tmp_path):
    folder = write_run(tmp_path / run_name(1))
    (folder / "agent1_traj.json").write_text("{")
    done = annotate_cli("traces", "logs")
    assert "steps cannot be read: agent1_traj.json" in done.out


@pytest.mark.parametrize(
    "arguments",
    [
        (EXAMPLES, "--rubric", "comm_errors"),
        ("--rubric", "comm_errors", EXAMPLES),
        ("run", EXAMPLES, "--rubric", "comm_errors"),
        ("run", "--rubric", "comm_errors", EXAMPLES),
    ],
)
def test_the_short_form_is_run(annotate_cli, arguments):
    done = annotate_cli(*arguments, "--out", "out", "--json")
    assert done.code == 0
    [table] = json.loads(done.out)
    assert (table["rubric"], table["judged"] + table["undecided"]) == ("comm_errors", 17)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--rubric", "symptoms"), 2, "annotate run traces --rubric ..."),
        (("pilot", "--format=auto", "--rubric=symptoms"), 2, "annotate run traces --rubric ..."),
        (("traces", "--list"), 0, ""),
        (("traces", "--format", "auto", "--json"), 0, ""),
        (("--rubics", "symptoms"), 2, "No such option"),  # of neither
        (("traces", "--", "--rubric"), 2, "no such file or folder: --rubric"),
    ],
)
def test_an_option_of_run_is_named(annotate_cli, tmp_path, arguments, code, words):
    """It judges nothing: with a model that would cost money which nobody asked to spend."""
    write_run(tmp_path / "traces" / "logs" / run_name(1))
    done = annotate_cli("traces", *arguments)
    assert (done.code, words in done.err) == (code, True)
    assert not [*tmp_path.rglob("run.json")]
    assert annotate_cli("traces/", "--rubric", "symptoms", "--out", "out").code == 0


def test_quiet_prints_the_table_only(annotate_cli):
    done = annotate_cli(EXAMPLES, "--rubric", "comm_errors", "--out", "out", "--quiet")
    assert done.err == ""
    assert "C1a" in done.out
