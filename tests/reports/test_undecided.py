"""Traces that are undecided, codes that are only screened for, and groups of codes in a table."""

import json
from dataclasses import replace
from types import MappingProxyType

import pytest

from annotator.api import annotate, count, llm
from annotator.base.errors import AnnotatorError
from annotator.reports.frequency import PARTLY, count_frequencies
from annotator.reports.table import FORMATS, render
from annotator.reports.tables.frequency import tabulate
from annotator.rubrics import load_rubric
from annotator.rubrics.annotations import Annotation, Claim, Quote, Verdict
from annotator.runs.manifest import Criteria
from annotator.runs.run import open_run
from annotator.runs.verdicts import conclude
from annotator.traces import read_traces
from tests.calibration.build import label, make_rubric, make_run, said
from tests.conftest import TALK, annotations, run_name, set_model, write_run
from tests.reports.test_formats import read_all, same
from tests.server import Server, finding

GROUPS = {"alpha": "pair", "beta": "pair", "gamma": "rest"}
WHY = "The rules establish neither."
REJECTED = "all findings were rejected"
GOOD = (Quote("Which field holds the unit?", "message:1"), Quote(TALK[1][1], "message:2"))
WRONG = (Quote("nobody wrote this", "message:1"), GOOD[1])


@pytest.mark.parametrize(
    ("quotes", "undecided", "expected"),
    [
        ([GOOD], WHY, ("labelled", ("C1b",), 0, None)),
        ([GOOD], None, ("labelled", ("C1b",), 0, None)),
        ([WRONG], WHY, ("undecided", (), 1, WHY)),
        ([WRONG], None, ("undecided", (), 1, REJECTED)),
        ([WRONG, GOOD], None, ("labelled", ("C1b",), 1, None)),
        ([], WHY, ("undecided", (), 0, WHY)),
        ([], None, ("none", (), 0, None)),
    ],
)
def test_a_verdict_is_undecided_where_no_claim_stands(runs, quotes, undecided, expected):
    [trace] = read_traces([str(runs(1))])
    claims = tuple(Claim("C1b", "because", own) for own in quotes)
    verdict = Verdict(claims, undecided=undecided)
    rubric = load_rubric("comm_errors")
    one = conclude(verdict, trace, rubric, "rules")
    assert (one.status, one.codes, len(one.rejected), one.reason) == expected
    as_none = conclude(verdict, trace, rubric, "rules", Criteria(rejected="none"))
    status = "none" if one.reason == REJECTED else one.status
    assert (as_none.status, as_none.rejected) == (status, one.rejected)


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
        out = annotate_cli("report", "-v", run, "--format", name).out
        assert "undecided 3" in out, name
        assert "depending on the 3 undecided and 1 failed traces" in out, name
    text = annotate_cli("report", "-v", run).out
    assert "judged 8 (labelled 5, none 3)  undecided 3  skipped 0  failed 1" in text
    [table] = json.loads(annotate_cli("report", "-v", run, "--format", "json").out)
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
    [table] = count_frequencies(open_run(run))
    for name in FORMATS:
        text = render(tabulate([table]), name)
        assert "cannot be ruled out: beta" in text, name
    assert "a screen  judged" not in render(tabulate([table]), "table")


def test_a_group_of_which_some_codes_have_no_rule_has_no_bounds(annotate_cli, tmp_path, first):
    """The judge cannot find alpha: of the pair it has counted beta alone."""
    ones = [one for one in traces() if one.primary != "alpha"]
    run = make_run(tmp_path / "run", first, ones, known=["beta", "gamma"])
    [table] = json.loads(annotate_cli("report", "-v", run, "--format", "json").out)
    found = {
        row["code"]: tuple(row[x] for x in ("k", "value", "bounds", "reason"))
        for row in table["code_groups"]
    }
    assert found["pair"] == (1, None, None, PARTLY)
    assert found["rest"] == (1, 0.2, {"low": 1 / 9, "high": 5 / 9}, None)


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
    [table] = count_frequencies(open_run(run))
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
    [table] = count_frequencies(open_run(make_run(tmp_path / "run", rubric, traces()[1:])))
    assert [row.code for row in table.code_groups] == shown


def test_a_group_with_a_code_without_a_rule_has_no_share(tmp_path, first):
    ones = [one for one in traces()[1:8] if one.primary in ("alpha", None)]
    run = make_run(tmp_path / "run", first, ones, known=("alpha",))
    [table] = count_frequencies(open_run(run))
    rows = {row.code: (row.count, row.share, row.bounds) for row in table.code_groups}
    assert rows == {"pair": (2, None, None), "rest": (None, None, None)}


def test_no_comparison_has_undecided_traces_or_screens(annotate_cli, tmp_path, first):
    ones = [*traces(), *(said(f"v{n}", "alpha", side="b") for n in range(2))]
    run = make_run(tmp_path / "run", first, ones, screens=["beta"])
    out = annotate_cli("report", "-v", run, "--by", "side", "--compare", "-", "b").out
    assert not [line for line in out.splitlines() if line.startswith("alpha")]
    assert "or only reports what it recognises: alpha, beta" in out


# What a model's answers are counted for


@pytest.mark.parametrize("option", [(), ("--rejected", "none")], ids=["by default", "none"])
def test_a_trace_whose_findings_were_all_rejected(annotate_cli, runs, tmp_path, option):
    """Two traces, one quote that nobody wrote: not a share of none, unless that is asked for."""
    wrong = finding("C1b", ("message:1", "nobody ever wrote this"), ("message:2", TALK[1][1]))
    with Server(lambda _: wrong) as server:
        more = ("--model", "m", "--base-url", server.url, *set_model(reasks=0), "--out", "out")
        done = annotate_cli(runs(2), "--rubric", "comm_errors", *more, *option)
        again = annotate_cli("logs", "--rubric", "comm_errors", *more, "--resume")
    assert done.code == (0 if option else 1), done.err  # none was judged
    status = "none" if option else "undecided"
    assert {one.status for one in annotations(tmp_path / "out").values()} == {status}
    assert json.loads((tmp_path / "out" / "run.json").read_text())["rejected"] == status
    [table] = json.loads(annotate_cli("report", "-v", "out", "--format", "json").out)
    assert (table["none"], table["undecided"]) == ((2, 0) if option else (0, 2))
    assert table["undecided_because"] == ({} if option else {"rejected": 2})
    told = "quotes: 2 traces undecided" in done.out
    assert told == (not option)
    refused = 'rejected: was "none", is now "undecided"'
    assert (again.code, refused in again.err) == ((2, True) if option else (1, False))


TRUE, SECOND = ("message:1", "Which field holds the unit?"), ("message:2", TALK[1][1])
FALSE = ("message:1", "nobody wrote this")


@pytest.mark.parametrize(
    ("code", "quotes", "kind"),
    [
        ("C1b", (FALSE, SECOND), "quotes not in the trace"),
        ("C1b", (FALSE,), "quotes not in the trace"),
        ("C1b", (TRUE,), "too few separate quotes"),
        ("C1b", (TRUE, TRUE), "too few separate quotes"),
        (
            *("C1b", (TRUE, ("message:3", TALK[2][1]))),  # the same agent
            "quotes in the wrong place or by the wrong author",
        ),
    ],
)
@pytest.mark.parametrize("rejected", ["undecided", "none"])
def test_the_notes_say_why_findings_were_rejected(
    annotate_cli, runs, tmp_path, code, quotes, kind, rejected
):
    with Server(lambda _: finding(code, *quotes)) as server:
        more = ("--model", "m", "--base-url", server.url, *set_model(reasks=0), "--out", "out")
        annotate_cli(runs(2), "--rubric", "comm_errors", *more, "--rejected", rejected)
    [table] = count_frequencies(open_run(tmp_path / "out"))
    most = f"Most findings, 2 of 2, were rejected: {kind} 2."
    assert [note for note in table.notes if "rejected" in note] == {
        "undecided": [f"{most} In 2 undecided traces all were. The rest says little."],
        "none": [
            f"{most} The rest says little.",
            f"2 of the traces counted as none had findings, all rejected: {kind} 2.",
        ],
    }[rejected]


@pytest.mark.parametrize(
    ("least_read", "status", "read", "reason"),
    [
        (None, "undecided", 0.05, "read 5 % of it"),
        (0.05, "labelled", 0.05, None),
        (0.06, "undecided", 0.0599, "read 5.9 % of it"),
        (None, "undecided", 0.8999, "read 89.9 % of it"),
        (None, "labelled", 0.9, None),
        (None, "labelled", 1.0, None),
        (1.0, "undecided", 0.999999, "read 99.9 % of it"),
        (0.0, "labelled", 0.0, None),
    ],
)
def test_a_trace_of_which_a_part_was_read(runs, least_read, status, read, reason):
    """What was found stands beside, and is no code of the trace."""
    [trace] = read_traces([str(runs(1))])
    rubric = load_rubric("comm_errors")
    verdict = Verdict((Claim("C1b", "because", GOOD),), truncated={"message:1": 9}, read=read)
    standards = Criteria() if least_read is None else Criteria(least_read=least_read)
    one = conclude(verdict, trace, rubric, "llm:m", standards)
    assert (one.status, one.reason, one.read) == (status, reason, read)
    assert one.codes == (("C1b",) if status == "labelled" else ())
    assert [finding.code for finding in one.findings] == ["C1b"]
    assert Annotation.from_json(one.to_json()) == one
    assert ("read" in json.loads(one.to_json())) == (read < 1)
    nothing = conclude(replace(verdict, claims=()), trace, rubric, "llm:m", standards)
    assert nothing.status == ("none" if status == "labelled" else "undecided")


def test_an_annotation_from_before_there_was_a_share_is_read():
    line = said("t", "alpha").to_json()
    assert "read" not in json.loads(line)
    assert Annotation.from_json(line).read == 1
    for share in (1.5, -0.1):
        with pytest.raises(ValueError, match="expected a share from 0 to 1"):
            Annotation.from_json(json.dumps(json.loads(line) | {"read": share}))


def test_a_run_of_five_percent_is_no_none(annotate_cli, tmp_path):
    """A trace of 2 x 50,000 characters and a model of 12,000 tokens, which finds nothing in it."""
    for n, size in enumerate((10, 10_000), 1):
        write_run(tmp_path / run_name(n), [("agent1", "word " * size), ("agent2", "line " * size)])
    with Server() as server:
        more = ("--model", "m", "--base-url", server.url, "--context", "12000", "--out", "out")
        done = annotate_cli("logs", "--rubric", "comm_errors", *more)
    assert done.code == 0, done.err
    [whole, part] = sorted(annotations(tmp_path / "out").values(), key=lambda one: -one.read)
    assert (whole.status, whole.read, part.status) == ("none", 1.0, "undecided")
    assert "truncated" in done.out
    [table] = json.loads(annotate_cli("report", "-v", "out", "--format", "json").out)
    assert (table["none"], table["undecided"]) == (1, 1)
    assert table["rows"][-1]["bounds"] == {"low": 0.5, "high": 1.0}
    assert table["undecided_because"] == {"part": 1}
    # The share, by hand: what is left of all that the prompt would show to be judged.
    [trace] = [one for one in read_traces([str(tmp_path / "logs")]) if one.id == part.trace_id]
    size = sum(len(source.text) for source in trace.sources(("messages", "patches", "outcome")))
    assert part.read == pytest.approx(1 - sum(part.truncated.values()) / size, abs=1e-6)


def test_why_traces_are_undecided_is_counted(annotate_cli, tmp_path):
    rubric = make_rubric(tmp_path)
    reasons = {"read 5 % of it": 2, "all findings were rejected": 3, "the rules do not know": 1}
    ones = [
        replace(said(f"{reason} {n}", status="undecided"), reason=reason)
        for reason, number in reasons.items()
        for n in range(number)
    ]
    tie = replace(said("tie", status="undecided"), tie=("alpha", "none"))
    run = make_run(tmp_path / "run", rubric, [*ones, tie, said("t", "alpha")])
    [table] = json.loads(annotate_cli("report", "-v", run, "--format", "json").out)
    assert table["undecided_because"] == {"part": 2, "rejected": 3, "other": 1, "tie": 1}


class Half:
    """A judge from elsewhere that reads half of every trace, and one quote wrongly."""

    id = "half"
    settings = MappingProxyType({})

    def codes(self, rubric):
        return ["C1b"]

    def judge(self, trace, rubric):
        return Verdict((Claim("C1b", "because", WRONG),), truncated={"outcome": 5}, read=0.5)


@pytest.mark.parametrize(
    ("how", "status", "reason"),
    [
        ({}, "undecided", "read 50 % of it"),
        ({"least_read": 0.5}, "undecided", REJECTED),
        ({"least_read": 0.5, "rejected": "none"}, "none", None),
    ],
)
def test_what_counts_is_said_from_python_too(runs, how, status, reason):
    run = annotate(str(runs(1)), "comm_errors", Half(), **how)
    [one] = run.annotations()
    assert (one.status, one.reason, one.read) == (status, reason, 0.5)
    counted = {"rejected": "undecided", "least_read": 0.9} | how
    assert {name: getattr(run.manifest, name) for name in counted} == counted
    assert run.to_pandas()["read"].tolist() == [0.5]


def test_a_table_says_that_a_judge_read_a_part_which_does_not_say_what_it_left_out(runs):
    class Most(Half):
        def judge(self, trace, rubric):
            return Verdict(read=0.95)

    [table] = count(annotate(str(runs(1)), "comm_errors", Most()))
    assert any("1 trace was read in part, 95 % of it;" in note for note in table.notes)
    assert (table.document["truncated"], table.document["least_read"]) == (1, 0.95)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"rejected": "failed"}, "rejected: expected undecided or none, found 'failed'"),
        ({"least_read": 5}, "least_read: expected a share from 0 to 1, found 5"),
    ],
)
def test_what_cannot_be_said_of_it(runs, how, words):
    with pytest.raises(AnnotatorError, match=words):
        annotate(str(runs(1)), "comm_errors", Half(), **how)


def test_votes_that_are_asked_for_from_python(runs):
    with Server() as server:
        judge = llm("m", base_url=server.url, samples=2, require="unanimous")
        run = annotate(str(runs(1)), "comm_errors", judge)
    assert run.manifest.judge.model_dump()["require"] == "unanimous"
    with pytest.raises(AnnotatorError, match="require: expected one of majority, unanimous, any"):
        llm("m", samples=2, require="most")
