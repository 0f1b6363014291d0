"""The first screen: a sentence, few columns that fit 80, the largest share first, two notes."""

import json
import re
from dataclasses import replace

import pytest

from annotator.rubrics.annotations import Evidence, Finding
from tests.calibration.build import label, make_rubric, make_run, said, write_labels
from tests.reports.test_formats import traces

FIRST = """\
first v1, judge llm:m

60 of 60 traces judged. Most common: alpha, 33 % of judged traces (95 % interval
23 to 46).

code   traces     %  95 % interval  in all
------------------------------------------
alpha   20/60  33.3   [22.7, 45.9]      20  ##########|####
beta    10/60  16.7    [9.3, 28.0]      20  #####|###
gamma    0/60   0.0     [0.0, 6.0]       0  |##
------------------------------------------
none    30/60  50.0   [37.7, 62.3]       -  ###############|####

For example:
  alpha  t0
    "quoted here"  message:1
  beta  t14
    "quoted here"  message:1

95 % intervals treat traces as independent (--cluster none). They do not include the judge's errors\
: see annotate calibrate.
"""


def test_a_judge_with_shares(annotate_cli, tmp_path):
    """Wilson for 20, 10 and 0 of 60 by hand; of 30 columns a third is 10, .4594 is 14."""
    run = make_run(tmp_path / "run", make_rubric(tmp_path, "primary", id="first"), traces())
    assert annotate_cli("report", run, "--cluster", "none").out == FIRST


def test_undecided_traces_bring_bounds_and_the_worst_notes_first(annotate_cli, tmp_path):
    rubric = make_rubric(tmp_path, "primary", id="first")
    quote = Evidence("I do\x1b[31m both   parts " * 9, "message:3", 0, 5, "exact")
    found = Finding("alpha", "because", (quote,))
    open_ = replace(said("u"), status="undecided", reason="the judge does not know")
    some = [replace(one, findings=(found,)) if one.primary else one for one in traces()[:12]]
    run = make_run(
        tmp_path / "run", rubric, [*some, *(replace(open_, trace_id=f"u{n}") for n in range(4))]
    )
    manifest = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(manifest | {"limit": 16}))
    done = annotate_cli("report", run)
    out, lines = done.out, done.out.splitlines()
    assert lines[2].startswith("12 of 16 traces judged (4 undecided). Most common: alpha, 33 %")
    assert "bounds %" in out
    assert "[25.0, 50.0]" in out  # alpha: 4 of 16 at least, 8 at most
    assert "share, if none or all of the 4 undecided traces have the code." in out
    assert '    "I do both parts I do both parts' in out
    assert all(len(line) <= 80 for line in done.raw.splitlines()[4:-4])
    assert lines[-3] == "Only the first 16 traces were read (--limit)."
    assert lines[-1] == "1 more note: -v"
    assert "more note" not in annotate_cli("report", run, "-v").out


@pytest.mark.parametrize(
    ("group", "end"),
    [("words", " {2}in all"), ("a_group_of_a_long_name", "")],
    ids=["room", "none"],
)
def test_corrected_shares_come_first_and_their_marks_are_explained(
    annotate_cli, tmp_path, group, end
):
    """Where 80 columns have no room for secondary codes, a line names the option that has."""
    groups = {"alpha": "most", "beta": "most", "gamma": group}
    rubric = make_rubric(tmp_path, "primary", id="first", groups=groups)
    run = make_run(tmp_path / "run", rubric, traces())
    rows = [
        {"trace_id": f"t{n}", "rubric": "first", "annotator": "ann", "primary": code}
        for n, code in enumerate(["beta", "alpha", "beta", None, None, None] * 10)
    ]
    labels = write_labels(tmp_path / "labels.jsonl", rows)
    assert annotate_cli("calibrate", run, "--labels", labels).code == 0
    out = annotate_cli("report", run, "--calibration", run / "calibration.json").out
    words = " ".join(out.split())
    assert "Most common: beta, 33 % of traces" in words  # where the judge says 17 %
    assert "corrected by the labels." in words
    assert re.search(rf"judged %  corrected %  95 % interval +mark{end}\n", out)
    assert ("traces: with the code as the primary one; -v also" in out) == (not end)
    assert "blind: in the labelled traces neither the judge nor a person gave this code." in out


def test_codes_that_the_judge_cannot_rule_out_come_as_counts(annotate_cli, runs):
    """All three runs overlap; the rules know of no run that it does not."""
    out = annotate_cli(runs(3), "--rubric", "symptoms", "--out", "out").out
    assert "3 of 3 traces judged. Found: work_overlap in 3." in out
    assert re.search(r"work_overlap +3/3 +- +- +\[100.0, 100.0\]", out)


@pytest.mark.parametrize(
    ("codes", "sentence"),
    [
        (["alpha", "beta"] * 6, "Most common: alpha and beta, 50 % of judged traces each."),
        (["alpha"] + [None] * 499, "Most common: alpha, 0.2 % of judged traces"),
        ([None], "The judged trace has none of the codes."),
        ([None] * 4, "None of the 4 judged traces has any of the codes."),
    ],
)
def test_the_sentence_claims_no_more_than_is_known(annotate_cli, tmp_path, codes, sentence):
    rubric = make_rubric(tmp_path, "primary", id="first")
    some = [said(f"t{n}", *([code] if code else [])) for n, code in enumerate(codes)]
    out = annotate_cli("report", make_run(tmp_path / "run", rubric, some)).out
    assert sentence in " ".join(out.split())


def test_shares_of_the_labelled_traces_are_called_so(annotate_cli, tmp_path):
    """30 of 60 have a code, 20 of them alpha; none is in no share."""
    run = make_run(tmp_path / "run", make_rubric(tmp_path, "primary", id="first"), traces())
    out = annotate_cli("report", run, "--of-labelled").out
    assert "Most common: alpha, 67 % of traces with a code" in " ".join(out.split())
    [none] = [line for line in out.splitlines() if line.startswith("none")]
    assert none.split()[:2] == ["none", "30"]


def test_the_sentence_does_not_break_a_name_at_a_hyphen(annotate_cli, tmp_path):
    name = "loses-the-thread-of-the-conversation-with-the-other"
    rubric = make_rubric(tmp_path, "primary", [name], id="first")
    run = make_run(tmp_path / "run", rubric, [said(f"t{n}", name) for n in range(8)])
    assert f"{name}, 100 % of judged" in annotate_cli("report", run).raw


def test_long_names_keep_their_ends_and_rows_fit(annotate_cli, tmp_path):
    names = {n: f"a_name_of_a_code{'_that_is_long' * 3}_{n}" for n in (1, 2)}
    rubric = make_rubric(tmp_path, "primary", [*names.values(), "gamma"], id="first")
    some = [said(f"t{n}", names[1 + n % 2]) for n in range(8)]
    out = annotate_cli("report", make_run(tmp_path / "run", rubric, some)).out
    rows = [line for line in out.splitlines() if "/8 " in line and line.startswith("a_")]
    assert [row.split()[0][-2:] for row in rows] == ["_1", "_2"]
    assert all(len(row) <= 80 for row in rows)


def test_codes_in_the_same_traces_begin_with_the_most_frequent_pair(annotate_cli, tmp_path):
    run = make_run(tmp_path / "run", make_rubric(tmp_path, "many", id="first"), traces())
    out = annotate_cli("report", run, "--co-occurrence").out
    result, table = out.split("\n\n")[1:3]
    assert " ".join(result.split()) == (
        "Most often together: alpha and beta, in 10 of 60 judged traces. In no trace, or not known:"
        " gamma."
    )
    assert [line.split()[1:] for line in table.splitlines()[2:]] == [
        ["alpha", "20", "10"],
        ["beta", "10", "20"],
    ]


def test_long_ids_are_whole_and_a_judge_that_finds_nothing_is_doubted(
    annotate_cli, tmp_path, rubric
):
    name = "/".join(["long"] * 30)
    make_run(tmp_path / "found", rubric, [said(name, "alpha")])
    assert f"\n    {name}\n" in annotate_cli("report", "found").out
    for n, doubted in ((9, False), (10, True)):
        run_folder = make_run(tmp_path / f"none{n}", rubric, [said(f"t{i}") for i in range(n)])
        out = " ".join(annotate_cli("report", f"none{n}").out.split())
        assert ("Does this judge tell the codes apart?" in out) == doubted
    write_labels(run_folder / "labels.jsonl", [label(f"t{i}", rubric) for i in range(10)])
    assert annotate_cli("calibrate", run_folder).code == 0
    assert "tell the codes apart" not in annotate_cli("report", "-v", run_folder).out
