"""The first screen: a sentence, few columns that fit 80, the largest share first, two notes."""

import json
from dataclasses import replace

from annotator.rubrics.annotations import Evidence, Finding
from annotator.runs.run import open_run
from tests.calibration.build import make_rubric, make_run, said, write_labels
from tests.reports.test_formats import traces

FIRST = """\
first v1, judge llm:m

60 of 60 traces judged. Most common: alpha, 33 % of judged traces (95 % interval 23 to 46).

code   traces     %  95 % interval  +secondary
----------------------------------------------
alpha   20/60  33.3   [22.7, 45.9]          20  ##########|####
beta    10/60  16.7    [9.3, 28.0]          20  #####|###
gamma    0/60   0.0     [0.0, 6.0]           0  |##
----------------------------------------------
none    30/60  50.0   [37.7, 62.3]           -  ###############|####

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
    out = annotate_cli("report", run).out
    lines = out.splitlines()
    assert lines[2].startswith("12 of 16 traces judged (4 undecided). Most common: alpha, 33 %")
    assert "bounds %" in out
    assert "[25.0, 50.0]" in out  # alpha: 4 of 16 at least, 8 at most
    assert '    "I do\ufffd[31m both parts I do\ufffd[31m both parts' in out
    assert all(len(line) <= 80 for line in lines[4:-4])
    assert lines[-3] == "Only the first 16 traces were read (--limit)."
    assert lines[-1].endswith("more notes: -v")
    assert lines[-1] not in annotate_cli("report", run, "-v").out


def test_corrected_shares_come_first_and_their_marks_are_explained(annotate_cli, tmp_path):
    rubric = make_rubric(tmp_path, "primary", id="first")
    run = make_run(tmp_path / "run", rubric, traces())
    rows = [
        {"trace_id": f"t{n}", "rubric": "first", "annotator": "ann", "primary": code}
        for n, code in enumerate(["beta", "alpha", "beta", None, None, None] * 10)
    ]
    labels = write_labels(tmp_path / "labels.jsonl", rows)
    assert annotate_cli("calibrate", run, "--labels", labels).code == 0
    out = annotate_cli("report", run, "--calibration", run / "calibration.json").out
    assert "Most common: beta, 33 % of traces" in out  # where the judge says 17 %
    assert "corrected by your labels." in out
    header = next(line for line in out.splitlines() if line.startswith("code"))
    assert header.split("  ")[-1].strip() == "+secondary"
    assert "judged %  corrected %" in header
    assert "blind: no label has this code, the judge's or a person's." in out


def test_a_judge_that_finds_nothing_rules_out_only_what_it_can_find(annotate_cli, runs):
    out = annotate_cli(runs(3), "--rubric", "symptoms", "--out", "out").out
    assert "No trace has any of the codes that the judge can find." in out
    assert str(open_run("out").manifest.status) == "finished"
