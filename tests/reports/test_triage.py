"""`annotate triage`: the order of codes, quotes, changes since another run, and the ticket."""

import json
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt
from scipy import stats

import annotator as an
from annotator.rubrics.annotations import Evidence
from tests.calibration.build import label, make_rubric, make_run, said, said_in_words

# Traces with each code in four tasks of ten. By hand: design effects 90.67 / 8.4 = 10.794 and
# 14.33 / 7.975 = 1.797; Wilson's limits with Student's t on 3 degrees of freedom, 3.1824.
IN_TASKS = {"alpha": (10, 2, 0, 0), "beta": (0, 4, 4, 3)}
LOW = {"alpha": 0.0279, "beta": 0.0860}


def list_clustered():
    for task in range(4):
        codes = [code for code, counts in IN_TASKS.items() for _ in range(counts[task])]
        for n in range(10):
            yield said(f"{task}/{n}", *codes[n : n + 1], task=f"task{task}")


def count(begin=0, **codes):
    """So many traces with each code, and without any; no trace names a task."""
    names = [code for code, number in codes.items() for _ in range(number)]
    return [said(f"t{n:02}", *{name} - {"none"}) for n, name in enumerate(names, begin)]


def triage(annotate_cli, *arguments):
    done = annotate_cli("triage", *arguments, "--format", "json")
    assert done.code == 0, done.err
    [document] = json.loads(done.raw)
    return document, {row["code"]: row for row in document["codes"]}


def print_words(annotate_cli, *arguments):
    done = annotate_cli("triage", *arguments)
    assert done.code == 0, done.err
    assert max(map(len, done.raw.splitlines())) <= 80
    return " ".join(done.raw.split())


def test_the_code_that_is_common_beyond_doubt_is_first(annotate_cli, tmp_path, rubric):
    run = make_run(tmp_path / "run", rubric, list_clustered())
    document, rows = triage(annotate_cli, run)
    assert [(code, row["k"]) for code, row in rows.items()] == [
        *(("beta", 11), ("alpha", 12), ("gamma", 0))
    ]
    assert {code: rows[code]["low"] for code in LOW} == pytest.approx(LOW, abs=1e-4)
    assert (document["rubric"], document["judge"]) == ("faults", "llm:m")
    assert (
        "Fix beta first: 11 of 40 judged traces (at least 8.6 % by the interval). Perhaps as"
        " common, by the intervals: alpha."
    ) in print_words(annotate_cli, run)
    # --cluster none: by shares alone.
    assert triage(annotate_cli, run, "--cluster", "none")[0]["codes"][0]["code"] == "alpha"


def test_quotes_are_of_different_tasks_and_main_codes_first(annotate_cli, tmp_path, rubric):
    more = [said("0/extra", "beta", "alpha", task="task0"), said("9", "beta", "alpha", task="z")]
    run = make_run(tmp_path / "run", rubric, [*more, *list_clustered()])
    _, rows = triage(annotate_cli, run)
    quoted = {code: [x["trace_id"] for x in row["findings"]] for code, row in rows.items()}
    # alpha is a main code in two tasks, and beside another code in a third, which does not count.
    assert quoted["alpha"] == ["0/0", "1/0", "0/1"]
    assert quoted["beta"] == ["0/extra", "1/2", "2/0"]
    words = print_words(annotate_cli, run, "--top", 1)
    assert 'beta 0/extra "quoted here" message:1 1/2 "quoted here" message:1' in words
    words = print_words(annotate_cli, run, "--top", 1, "-v")
    assert 'beta 0/extra "quoted here" message:1 because of beta 1/2' in words
    assert "because of alpha" not in words


def test_a_code_that_is_only_a_secondary_one_is_shown(annotate_cli, tmp_path, rubric):
    """Of 11 traces 4 have alpha, 3 of these beta beside it; none has gamma."""
    traces = [said(f"b{n}", "alpha", "beta") for n in range(3)] + count(alpha=1, none=7)
    run = make_run(tmp_path / "run", rubric, traces)
    words = print_words(annotate_cli, run)
    # Wilson's upper limit of 0 of 11: 3.8415 / 14.8415.
    assert "beta 0/11 0.0 [0.0, 25.9] 3" in words
    assert "gamma" not in words
    _, rows = triage(annotate_cli, run)
    assert [x["trace_id"] for x in rows["beta"]["findings"]] == ["b0", "b1", "b2"]
    ticket = annotate_cli("triage", run, "--format", "md").raw
    assert "- [ ] **beta**: traces: 0/11, %: 0.0, " in ticket


HOSTILE = "# heading\n@team `a` ``b`` | <img src=x> [l](http://e.org) #7 **x**\n- [ ] y"


def test_nothing_in_a_quote_is_markdown(annotate_cli, tmp_path, rubric):
    [one] = count(alpha=1)
    quote = Evidence(HOSTILE, "message:1", 0, len(HOSTILE), "exact")
    finding = replace(one.findings[0], rationale="<b>why</b> @team\nmore", evidence=(quote,))
    hostile = replace(one, trace_id="@team/<i>", findings=(finding,))
    run = make_run(tmp_path / "run", rubric, [hostile])
    done = annotate_cli("triage", run, "--format", "md", "--out", tmp_path / "ticket.md")
    assert (done.code, done.out) == (0, "")
    text = (tmp_path / "ticket.md").read_text()
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    assert [token.type for token in tokens].count("heading_open") == 1
    assert text.startswith("# Fix alpha first\n")
    values = "traces: 1/1, %: 100.0, 95 % interval: [20.7, 100.0]"
    assert f"\n- [ ] **alpha**: {values}\n" in text
    inline = [part for token in tokens for part in token.children or ()]
    assert {part.type for part in inline} == {"text", "code_inline", "strong_open", "strong_close"}
    codes = [part.content.strip() for part in inline if part.type == "code_inline"]
    assert codes[1:] == [" ".join(HOSTILE.split()), "@team/<i>", "message:1", "<b>why</b> @team"]
    assert "@" not in "".join(part.content for part in inline if part.type == "text")


@pytest.mark.parametrize("begin", [0, 50])
def test_changes_since_another_run(annotate_cli, tmp_path, begin):
    """Traces of the same ids are pairs, others are independent."""
    rubric = make_rubric(tmp_path, codes=("alpha", "beta", "gamma", "delta"))
    now = make_run(tmp_path / "now", rubric, count(alpha=20, beta=4, none=15, delta=1))
    old = count(begin, alpha=2, gamma=3, none=34, delta=1)
    since = make_run(tmp_path / "old", rubric, old)
    _, rows = triage(annotate_cli, now, "--since", since)
    assert {code: (row["change"] or {}).get("kind") for code, row in rows.items()} == {
        **{"alpha": "risen", "beta": "new", "gamma": "gone", "delta": None}
    }
    # Holm: Fisher's p of alpha is the smallest of five. Of the pairs 19 differ in none, which has
    # the smallest p of four, and 18 in alpha, all in one direction; delta's does not count.
    p = 5 * stats.fisher_exact([[20, 20], [2, 38]]).pvalue if begin else 3 * 2 / 2**18
    assert rows["alpha"]["change"]["p"] == pytest.approx(p)
    words = print_words(annotate_cli, "now", "--since", "old")
    # Wilson's upper limit of 0 of 40: 3.8415 / 43.8415.
    assert "beta new: 0/40 before, 4/40 now; at most 8.8 % before; +10.0 [" in words
    assert "gamma gone: 3/40 before, 0/40 now; at most 8.8 % now; -7.5 [" in words
    assert "alpha risen: 2/40 before, 20/40 now; +45.0 [" in words
    assert "delta" not in words.split("own shares")[1].split("alpha t00")[0]
    assert "different judges" not in words
    following = annotate_cli("triage", "now", "--since", "old").err
    assert "next: annotate triage now --since old --format md    a ticket" in following
    ticket = annotate_cli("triage", "now", "--since", "old", "--format", "md").raw
    assert ", change: new\n" in ticket
    assert "**delta**: traces: 1/40, %: 2.5, 95 % interval: [0.4, 12.9]\n" in ticket
    assert "**gamma**" not in ticket


def test_a_code_found_beside_another_before_is_not_new(annotate_cli, tmp_path, rubric):
    now = make_run(tmp_path / "now", rubric, count(alpha=4, none=4))
    since = make_run(tmp_path / "old", rubric, [said("x", "beta", "alpha"), *count(none=7)])
    _, rows = triage(annotate_cli, now, "--since", since)
    assert (rows["alpha"]["change"], rows["beta"]["change"]["kind"]) == (None, "gone")


def test_of_a_judge_that_cannot_rule_out_nothing_is_new(annotate_cli, tmp_path, rubric):
    now, since = (
        make_run(tmp_path / name, rubric, traces, judge=name, screens=("alpha", "beta", "gamma"))
        for name, traces in (
            ("now", [*count(beta=2, alpha=1), said("u", status="undecided")]),
            ("old", count(alpha=1)),
        )
    )
    document, rows = triage(annotate_cli, now, "--since", since)
    assert [(x["code"], x["k"], x["change"]) for x in document["codes"]] == [
        *(("beta", 2, None), ("alpha", 1, None), ("gamma", None, None))
    ]
    assert rows["beta"]["bounds"] == {"low": 0.5, "high": 1.0}
    words = print_words(annotate_cli, "now", "--since", "old")
    assert "Found in 4 traces: beta in 2, alpha in 1. The order is by count" in words
    assert "Not known, as a judge cannot rule them out: beta, alpha. The runs have diff" in words
    assert "No code is new" not in words


def test_failed_and_undecided_traces_are_in_no_share(annotate_cli, tmp_path, rubric):
    open_ = [
        said("f", status="failed"),
        replace(said("u", "alpha"), status="undecided", primary=None),
    ]
    run = make_run(tmp_path / "run", rubric, [*count(alpha=2, none=2), *open_])
    document, rows = triage(annotate_cli, run)
    assert (rows["alpha"]["k"], rows["alpha"]["n"], document["failed"]) == (2, 4, 1)
    assert [x["trace_id"] for x in rows["alpha"]["findings"]] == ["t00", "t01"]
    words = print_words(annotate_cli, run)
    assert "alpha 2/4 50.0 [15.0, 85.0] [33.3, 66.7]" in words


@pytest.mark.parametrize(
    ("traces", "code", "text"),
    [
        ([said("f", status="failed")], 1, "No table: no trace could be judged. The reasons:"),
        ([], 1, "No table: no trace was judged yet."),
        (count(none=12), 0, "No code was found in 12 judged traces. Found in none of 12 traces."),
    ],
)
def test_without_codes(annotate_cli, tmp_path, rubric, traces, code, text):
    run = make_run(tmp_path / "run", rubric, traces)
    done = annotate_cli("triage", run)
    assert (done.code, text in " ".join(done.raw.split())) == (code, True), done.raw
    done = annotate_cli("triage", run, "--format", "md")
    assert (done.code, done.raw.splitlines()[0]) == (code, "# Nothing to fix")


def test_labels_change_the_order(annotate_cli, tmp_path, rubric, calibrate):
    """All that the judge calls alpha is beta to a person."""
    run = make_run(tmp_path / "run", rubric, count(alpha=9, beta=6, none=9))
    codes = ["beta"] * 15 + [None] * 9
    rows = [label(f"t{n:02}", rubric, *filter(None, [x])) for n, x in enumerate(codes)]
    calibrate(run, rows)
    _, rows = triage(annotate_cli, run)
    assert list(rows) == ["beta", "alpha", "gamma"]
    assert rows["beta"]["corrected"]["value"] == pytest.approx(15 / 24)
    words = print_words(annotate_cli, run)
    assert "Fix beta first: 62.5 % of traces, corrected by 24 labels (at least" in words
    words = print_words(annotate_cli, run, "--no-calibration")
    assert "Fix alpha first: 9 of 24 judged traces (at least 21.2 %" in words
    # The labels are not of the other run, which has the same ids.
    make_run(tmp_path / "old", rubric, count(beta=15, none=9))
    words = print_words(annotate_cli, "run", "--since", "old", "-v")
    assert "same true shares" not in words
    assert "Since old, by the judge's own shares (Holm over 2 tests): beta fallen: 15" in words
    assert "alpha new: 0/24 before, 9/24 now; at most 13.8 % before;" in words  # 3.84 / 27.84


def test_the_agent_and_step_of_most_findings(annotate_cli, tmp_path, rubric):
    places = [("planner", 3), ("coder", 2), ("planner", 2), ("planner", 3)]
    traces = [
        replace(x, findings=(replace(x.findings[0], agent=agent, step=step),))
        for x, (agent, step) in zip(count(alpha=4), places, strict=True)
    ]
    run = an.open_run(make_run(tmp_path / "run", rubric, traces))
    result = an.triage(run)
    assert "\nalpha  most often agent planner in 3/4\n" in str(result.tables[0])  # steps tie
    assert "**alpha**: traces: 4/4" in result.markdown
    assert result.codes[0].count("step") == {"3": 2, "2": 2}


def test_what_cannot_be_triaged(annotate_cli, tmp_path, rubric):
    other = make_rubric(tmp_path, id="other")
    more = [(other, count(beta=1))]
    run = make_run(tmp_path / "run", rubric, count(alpha=1), more=more)
    said_in_words(annotate_cli("triage", run))
    assert "Fix beta first" in print_words(annotate_cli, run, "--rubric", "other")
    said_in_words(annotate_cli("triage", run, "--rubric", "other", "--since", run))
    only = make_run(tmp_path / "only", rubric, count(alpha=1))
    said_in_words(annotate_cli("triage", run, "--rubric", "other", "--since", only))
