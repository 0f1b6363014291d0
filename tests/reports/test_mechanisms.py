"""The findings of one code in groups, by what their rationales say."""

import csv
import io
import json
from dataclasses import replace

import pytest

import annotator as an
from annotator.rubrics.annotations import Evidence
from tests.calibration.build import make_rubric, make_run, said
from tests.server import Reply, Server

# Three ways in which the code happens, each in other words, and a word of its own for each task.
WAYS = {
    "edited": (
        18,
        "an agent promised to leave the shared {thing} and edited that {thing} all the same",
        "I will not touch the shared {thing}.",
    ),
    "untested": (
        12,
        "an agent reports passing tests about {thing}, although no test command was ever started",
        "All tests of {thing} pass now.",
    ),
    "renamed": (
        6,
        "the function of {thing} has another name than the signature agreed by both",
        "Signature as agreed for {thing}.",
    ),
}
THINGS = ("parser", "printer", "ledger", "router", "cache", "calendar")
# Of 36 traces of 6 tasks. Each task has the same share, so the design effect is 1: Wilson's with
# Student's t on 5 degrees of freedom, 2.5706. By hand.
LIMITS = {18: (0.3031, 0.6969), 12: (0.1717, 0.5466), 6: (0.0628, 0.3740)}


def list_annotations():
    for way, (count, rationale, quote) in WAYS.items():
        for n in range(count):
            thing = THINGS[n % 6]
            text = quote.format(thing=thing)
            evidence = (
                Evidence("done", "message:2", 0, 4, "exact"),
                Evidence(text, "message:1", 0, len(text), "exact"),
            )
            annotation = said(f"{way}/{n}", "beta", "alpha", task=thing)
            why = rationale.format(thing=f"{thing} {thing}")
            findings = tuple(
                replace(x, rationale=why, evidence=evidence) if x.code == "alpha" else x
                for x in annotation.findings
            )
            yield replace(annotation, findings=findings)


@pytest.fixture
def run(tmp_path, rubric):
    """36 traces with the code as a secondary one, and three without a counted finding of it."""
    open_ = replace(said("open", "alpha"), status="undecided", primary=None, reason="a tie")
    others = [said("none"), said("other", "beta"), open_]
    return make_run(tmp_path / "run", rubric, [*list_annotations(), *others])


def test_groups_are_the_ways_it_happens_and_not_the_tasks(run):
    found = an.find_mechanisms(an.open_run(run), "alpha")
    assert (found.n, found.findings, found.tasks, found.named_by) == (36, 36, 6, "")
    assert found.stability == pytest.approx(1)  # rationales of one way are the same
    assert [
        ({x.trace_id.split("/")[0] for x in group.findings}, len(group.findings))
        for group in found.groups
    ] == [({way}, count) for way, (count, *_) in WAYS.items()]
    for group in found.groups:
        assert (group.share.low, group.share.high) == pytest.approx(LIMITS[group.share.k], abs=1e-4)
        way = group.findings[0].trace_id.split("/")[0]
        first = group.findings[0].evidence[0].quote
        assert first in [WAYS[way][2].format(thing=thing) for thing in THINGS]
        assert group.name == first


def test_the_table_has_three_quotes_for_each_group(annotate_cli, run):
    done = annotate_cli("report", run, "--mechanisms", "alpha")
    assert done.code == 0, done.err
    table = done.raw.split("way it happens")[1]
    assert max(map(len, table.splitlines())) <= 80
    assert "  18/36  50.0   [30.3, 69.7]  #" in table
    assert table.count("message:1\n") == 9
    assert "they are no codes" in done.out
    assert "Not counted: 1 undecided trace with a finding of the code." in done.out


def test_every_format_has_the_groups(annotate_cli, run, tmp_path):
    def report(format_):
        done = annotate_cli("report", run, "--mechanisms", "alpha", "--format", format_)
        assert done.code == 0, done.err
        return done.raw

    rows = list(csv.DictReader(io.StringIO(report("csv"))))
    assert [(row["count"], row["n"], row["findings"]) for row in rows] == [
        ("18", "36", "18"),
        ("12", "36", "12"),
        ("6", "36", "6"),
    ]
    [document] = json.loads(report("json"))
    ids = [{x["trace_id"] for x in group["findings"]} for group in document["groups"]]
    assert ids == [{f"{way}/{n}" for n in range(count)} for way, (count, *_) in WAYS.items()]
    title, _, *table = report("md").splitlines()
    assert title.startswith("**alpha, faults, run ")
    assert title.endswith("**")
    assert "| 18/36 | 50.0 | [30.3, 69.7] |" in table[2]
    assert r"\begin{tabular}" in report("latex")
    report("html")
    assert "<td" in (run / "mechanisms-alpha.html").read_text()


def test_a_model_names_the_groups_in_one_call(annotate_cli, run, monkeypatch):
    monkeypatch.setenv("ANNOTATOR_MODEL", "m")  # which alone calls nothing
    names = [{"name": f"Way {n}", "sentence": f"It is way {n}."} for n in range(3)]
    answers = [[names[0] | {"name": "one two three four five six seven eight nine"}, *names[1:]]]
    answers += [names[:2], names]

    def answer(request):
        return Reply(text=json.dumps({"groups": answers[request.n - 1]}))

    with Server(answer) as server:
        annotate_cli("report", run, "--mechanisms", "alpha")
        assert server.calls == 0
        options = ("--model", "m", "--base-url", server.url)
        done = annotate_cli("report", run, "--mechanisms", "alpha", *options)
        assert done.code == 0, done.err
        assert server.calls == 3
        assert "a name has at most 8 words" in server.seen[1].reask
        assert "expected 3 groups, found 2" in server.seen[2].reask
        assert "promised to leave the shared" in server.seen[0].user
    assert "0 Way 0" not in done.out
    assert "1 Way 0 " in done.out
    assert "It is way 2." in done.out
    assert "names by m: calls 3" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--mechanisms", "beta"], "fewer than 3 different reasons"),
        (["run", "--mechanisms", "gamma"], "run has 0 findings of gamma: groups need 20 or more"),
        (["few", "--mechanisms", "alpha"], "few has 19 findings of alpha"),
        (["run", "--mechanisms", "alhpa"], "no code 'alhpa' in this run, did you mean 'alpha'?"),
        (["two", "--mechanisms", "alpha"], "alpha is a code of faults, more: choose one with --ru"),
        (["run", "two", "--mechanisms", "alpha"], "--mechanisms needs one RUN"),
        (["run", "--model", "m"], "go with --mechanisms"),
        (["run", "--mechanisms", "alpha", "--by", "task"], "--mechanisms goes with"),
    ],
)
def test_what_cannot_be_grouped(annotate_cli, run, tmp_path, rubric, arguments, message):
    annotations = list(list_annotations())
    make_run(tmp_path / "few", rubric, annotations[:19])
    other = make_rubric(tmp_path, id="more")
    make_run(tmp_path / "two", rubric, annotations, more=[(other, annotations)])
    done = annotate_cli("report", *arguments)
    assert done.code == 2
    assert message in done.err


def test_a_rubric_chooses_between_codes_of_one_name(annotate_cli, tmp_path, rubric):
    annotations = list(list_annotations())
    other = make_rubric(tmp_path, id="more")
    make_run(tmp_path / "two", rubric, annotations, more=[(other, [said("x", "alpha")])])
    done = annotate_cli("report", "two", "--mechanisms", "alpha", "--rubric", "faults")
    assert done.code == 0, done.err
