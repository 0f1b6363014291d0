"""Traces that are undecided, codes that are only screened for, and groups of codes in a table."""

import json

import pytest

from annotator.annotations import Claim, Quote, Verdict
from annotator.reports.formats import FORMATS, render
from annotator.reports.frequency import frequency_tables
from annotator.reports.tables.frequency import tabulate
from annotator.rubrics import load_rubric
from annotator.runs.annotate import conclude
from annotator.runs.run import open_run
from annotator.traces import read_traces
from tests.calibration.build import label, make_rubric, make_run, said
from tests.conftest import TALK
from tests.reports.test_formats import read_all, same

GROUPS = {"alpha": "pair", "beta": "pair", "gamma": "rest"}
WHY = "The rules establish neither."
GOOD = (Quote("Which field holds the unit?", "message:1"), Quote(TALK[1][1], "message:2"))
WRONG = (Quote("nobody wrote this", "message:1"), GOOD[1])


@pytest.mark.parametrize(
    ("quotes", "undecided", "expected"),
    [
        ([GOOD], WHY, ("labelled", ("C1b",), 0, None)),
        ([GOOD], None, ("labelled", ("C1b",), 0, None)),
        ([WRONG], WHY, ("undecided", (), 1, WHY)),
        ([WRONG], None, ("none", (), 1, None)),
        ([], WHY, ("undecided", (), 0, WHY)),
        ([], None, ("none", (), 0, None)),
    ],
)
def test_a_verdict_is_undecided_where_no_claim_stands(runs, quotes, undecided, expected):
    [trace] = read_traces([str(runs(1))])
    claims = tuple(Claim("C1b", "because", own) for own in quotes)
    verdict = Verdict(claims, undecided=undecided)
    one = conclude(verdict, trace, load_rubric("comm_errors"), "rules")
    assert (one.status, one.codes, len(one.rejected), one.reason) == expected


def traces():
    """Of 12: 3 alpha (one with beta besides), 1 beta, 1 gamma, 3 none, 3 undecided, 1 failed."""
    codes = [("alpha", "beta"), ("alpha",), ("alpha",), ("beta",), ("gamma",), (), (), ()]
    ones = [said(f"t{n}", *own) for n, own in enumerate(codes)]
    ones += [said(f"u{n}", status="undecided") for n in range(3)]
    return [*ones, said("f", status="failed")]


# Wilson for 1, 3, 4 of 8: [.0224, .4709], [.1368, .6943], [.2152, .7848] (by hand).
# Bounds: 1 of 12 to 5 of 12, 3 of 12 to 7 of 12, 4 of 12 to 8 of 12.
EIGHTH = ("1", "8", "12.5", "[2.2, 47.1]", "[8.3, 41.7]")
THREE = ("3", "8", "37.5", "[13.7, 69.4]", "[25.0, 58.3]")
HALF = ("4", "8", "50.0", "[21.5, 78.5]", "[33.3, 66.7]")


@pytest.fixture
def first(tmp_path):
    return make_rubric(tmp_path, "primary", id="first", groups=GROUPS)


def test_bounds_and_groups_in_every_format(annotate_cli, tmp_path, first):
    run = make_run(tmp_path / "run", first, traces())
    found = same(read_all(annotate_cli, run))
    assert found == {
        ("", "alpha"): (*THREE, "3"),
        ("", "beta"): (*EIGHTH, "2"),
        ("", "gamma"): (*EIGHTH, "1"),
        ("", "none"): (*THREE, "-"),
        ("", "pair(group)"): (*HALF, "-"),
        ("", "rest(group)"): (*EIGHTH, "-"),
    }
    for name in ("table", "md", "latex"):
        out = annotate_cli("report", run, "--format", name).out
        assert "undecided 3" in out, name
        assert "none or all of the 3 undecided and 1 failed ones" in out, name
    text = annotate_cli("report", run).out
    assert "judged 8 (labelled 5, none 3)  undecided 3  skipped 0  failed 1" in text
    [table] = json.loads(annotate_cli("report", run, "--format", "json").out)
    assert table["rows"][0]["bounds"] == {"low": 0.25, "high": pytest.approx(7 / 12)}


def test_a_trace_with_two_codes_of_a_group_counts_once(annotate_cli, tmp_path):
    """Choice many: alpha 3, beta 2, together in 4 of 8; without undecided ones, no bounds."""
    rubric = make_rubric(tmp_path, "many", id="many", groups=GROUPS)
    found = same(read_all(annotate_cli, make_run(tmp_path / "run", rubric, traces()[:8])))
    assert (found["", "alpha"][0], found["", "beta"][0]) == ("3", "2")
    assert found["", "pair(group)"] == HALF[:4]


def test_a_judge_that_screens_has_counts_and_no_share_while_traces_are_undecided(
    annotate_cli, tmp_path, first
):
    run = make_run(tmp_path / "run", first, traces(), screens=["beta"])
    found = same(read_all(annotate_cli, run))
    assert found["", "alpha"] == (*THREE[:2], "-", "-", THREE[-1], "3")
    assert found["", "beta"] == ("1", "8", "-", "-", "[8.3, 100.0]", "2")
    assert found["", "pair(group)"] == ("4", "8", "-", "-", "[33.3, 100.0]", "-")
    assert found["", "rest(group)"] == (*EIGHTH[:2], "-", "-", EIGHTH[-1], "-")
    [table] = frequency_tables(open_run(run))
    for name in FORMATS:
        text = render(tabulate([table]), name)
        assert "beta: a screen; what is found counts" in text, name
    assert "a screen  judged" not in render(tabulate([table]), "table")


def test_a_screen_that_left_traces_undecided_has_no_corrected_share(
    annotate_cli, calibrate, tmp_path, first
):
    """What it missed may stand in the traces that are undecided, which are not compared."""
    run = make_run(tmp_path / "run", first, traces(), screens=["beta"])
    rows = [label(one.trace_id, first, *one.codes) for one in traces()[:8]]
    every = read_all(annotate_cli, run, *calibrate(run, rows))
    own = {name: {key: of[key] for key in of if key[1] in GROUPS} for name, of in every.items()}
    found = same(own)
    assert found["", "beta"][2:4] == ("-", "-")
    assert found["", "beta"][6] == "-"
    assert every["table"]["", "pair(group)"][-4:] == ("-",) * 4


def test_a_judge_that_only_screens_says_so(tmp_path, first):
    codes = ("alpha", "beta")
    ones = [one for one in traces() if one.primary != "gamma"]
    run = make_run(tmp_path / "run", first, ones, known=codes, screens=codes)
    [table] = frequency_tables(open_run(run))
    assert ")  a screen  judged 7 " in render(tabulate([table]), "table")
    shown = {row.code: (row.count, row.share) for row in table.rows}
    assert shown == {
        "alpha": (3, None),
        "beta": (1, None),
        "gamma": (None, None),
        "none": (3, None),
    }


@pytest.mark.parametrize(
    ("groups", "shown"),
    [
        (None, []),
        (dict.fromkeys(GROUPS, "all"), []),  # what is not none
        ({name: name for name in GROUPS}, []),  # each is its code
        (GROUPS, ["pair", "rest"]),
    ],
)
def test_groups_are_shown_where_they_say_more_than_codes(tmp_path, groups, shown):
    rubric = make_rubric(tmp_path, "one", id="first", groups=groups)
    [table] = frequency_tables(open_run(make_run(tmp_path / "run", rubric, traces()[1:])))
    assert [row.code for row in table.code_groups] == shown


def test_a_group_with_a_code_without_a_rule_has_no_share(tmp_path, first):
    ones = [one for one in traces()[1:8] if one.primary in ("alpha", None)]
    run = make_run(tmp_path / "run", first, ones, known=("alpha",))
    [table] = frequency_tables(open_run(run))
    rows = {row.code: (row.count, row.share, row.bounds) for row in table.code_groups}
    assert rows == {"pair": (2, None, None), "rest": (None, None, None)}


def test_no_comparison_has_undecided_traces_or_screens(annotate_cli, tmp_path, first):
    ones = [*traces(), *(said(f"v{n}", "alpha", side="b") for n in range(2))]
    run = make_run(tmp_path / "run", first, ones, screens=["beta"])
    out = annotate_cli("report", run, "--by", "side", "--compare", "-", "b").out
    assert not [line for line in out.splitlines() if line.startswith("alpha")]
    assert "a screen, which decides by finding: alpha, beta" in out
