"""``annotate facts`` on the command line: what it prints, whatever kinds there are."""

import json
from collections import Counter

import pytest

from annotator.cooperbench import facts

TALK = [("agent1", "Which unit do you use?"), ("agent2", "Thanks a lot.")]


@pytest.fixture
def logs(runs, tmp_path):
    """Two runs with messages and one without."""
    runs(3, talk=TALK)
    runs(1, talk=[])  # the first of them anew
    return tmp_path / "logs"


def listed(annotate_cli, logs, *options):
    return [json.loads(x) for x in annotate_cli("facts", logs, "--json", *options).out.splitlines()]


def test_json_has_an_object_on_every_line(annotate_cli, logs):
    lines = listed(annotate_cli, logs, "--kind", "question")
    asked = ("question", ["agent1", "agent2"])
    assert [(one["kind"], one["agents"]) for one in lines] == [asked, asked]


def test_the_summary_counts_facts_and_traces_of_each_kind(annotate_cli, logs):
    every = listed(annotate_cli, logs)
    summary = json.loads(annotate_cli("facts", logs, "--summary", "--json").out)
    counted = Counter(one["kind"] for one in every)
    holding = Counter(kind for _, kind in {(one["trace_id"], one["kind"]) for one in every})
    assert summary["traces"] == 3
    assert {kind: one["facts"] for kind, one in summary["kinds"].items() if one["facts"]} == counted
    assert {k: one["traces"] for k, one in summary["kinds"].items() if one["traces"]} == holding
    known = annotate_cli("facts", "--kinds").out.splitlines()
    assert list(summary["kinds"]) == [line.split()[0] for line in known]


def test_the_summary_of_some_kinds_is_a_table(annotate_cli, logs):
    options = ("--summary", "--kind", "question", "--kind", "not_read")
    lines = annotate_cli("facts", logs, *options).out.splitlines()
    assert lines[0] == "2 facts of 1 kind in 3 traces."
    row = lines[4].split()
    assert (row[0], row[-2:], lines[-1]) == ("question", ["2/3", "2"], "Without a fact: not_read.")


@pytest.mark.parametrize(("columns", "end"), [("80", "…"), ("120", "do not")])
def test_the_summary_fills_the_terminal(annotate_cli, logs, monkeypatch, columns, end):
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setitem(facts.KINDS, "question", f"{'asks ' * 14}and they do not")
    [row] = [x for x in annotate_cli("facts", logs, "--summary").out.splitlines() if "asks" in x]
    assert end in row
    assert len(row) <= int(columns)


def test_the_facts_of_few_traces_are_printed_and_of_many_counted(annotate_cli, runs, tmp_path):
    runs(4, talk=TALK)
    done = annotate_cli("facts", tmp_path / "logs", "--kind", "question")
    assert done.out.startswith("4 facts of 1 kind in 4 traces.")
    assert "-v    every fact" in done.err
    every = annotate_cli("facts", tmp_path / "logs", "--kind", "question", "-v").out
    assert every.count("> message:1: Which unit do you use?") == 4
    ids = [line for line in every.splitlines() if line[0] != " "]
    single = annotate_cli("facts", tmp_path / "logs", "--kind", "question", "--trace", ids[2]).out
    assert single.splitlines()[0] == ids[2]
    assert single.count("Which unit do you use?") == 2  # the fact and its passage
    done = annotate_cli("facts", tmp_path / "logs", "--trace", "no such")
    assert (done.code, "no trace no such in " in done.err) == (2, True)


def test_what_cannot_be_read_is_listed_and_ends_with_1(annotate_cli, logs):
    (logs / "broken.json").write_text('{"id": broken')
    for options in ((), ("--json",), ("--summary",)):
        done = annotate_cli("facts", logs, *options)
        assert (done.code, "broken.json: not valid JSON" in done.err) == (1, True)
        assert done.out
