"""`annotate gate`: the words by hand-made numbers, and two runs of one judge as a user has them."""

import json
import math
from dataclasses import replace
from xml.etree import ElementTree

import pytest

import annotator
from annotator.reports.comparison import ComparedCode
from annotator.reports.gate import decide_rows, find_detectable
from tests.calibration.build import label, make_rubric, make_run, said, said_in_words
from validation import Estimate, Interval, Test

Z, POWER = 1.959964, 0.841621  # normal quantiles of .975 and .8


def code(name, gap, low, high, p, n=100, reason=None):
    """A compared code with this difference, interval and p."""
    share = Interval(0.1, 0.1, 0.1, n // 10, n, 0.95, "exact")
    difference = Estimate("difference", gap, low, high, 2 * n, 0.95, "made", reason)
    return ComparedCode(name, (share, share), Test("made", None, p, n, reason), None, difference)


@pytest.mark.parametrize(
    ("gap", "low", "high", "p", "word"),
    [
        (0.10, 0.04, 0.16, 0.001, "worse"),
        (0.10, 0.04, 0.16, 0.060, "not decided"),  # the interval alone does not make it worse
        (0.04, 0.01, 0.07, 0.001, "not decided"),  # a shown rise within the tolerance
        (0.03, 0.02, 0.045, 0.001, "held"),
        (0.02, -0.01, 0.05, 0.2, "held"),  # at most the tolerance
        (0.02, -0.05, 0.09, 0.2, "not decided"),
        (-0.08, -0.12, -0.04, 0.001, "better"),
        (-0.08, -0.20, 0.04, 0.2, "held"),
        (0.00, -0.02, 0.02, None, "held"),  # too rare for a test
        (0.40, None, None, None, "not decided"),
        (None, None, None, None, "not decided"),
    ],
)
def test_the_word_of_a_code(gap, low, high, p, word):
    [row], _ = decide_rows([code("a", gap, low, high, p)], [], {}, 0.05)
    assert row.word == word


def test_holm_decides_over_the_gated_codes():
    """Both p are .03: by Holm .06."""
    rows, _ = decide_rows([code(name, 0.1, 0.01, 0.19, 0.03) for name in "ab"], [], {}, 0.05)
    assert [(row.adjusted, row.word) for row in rows] == [(pytest.approx(0.06), "not decided")] * 2


MEMBERS = {"g": ("a", "b"), "other": ("c",)}


@pytest.mark.parametrize(
    ("total", "fall", "words"),
    [
        ((0.0, -0.04, 0.04, 0.9), 0.001, ["moved", "moved", "held"]),
        ((0.0, -0.09, 0.09, 0.9), 0.001, ["moved", "moved", "not decided"]),
        ((0.0, -0.04, 0.04, 0.9), 0.300, ["held", "worse", "held"]),  # the fall is not shown
        ((0.04, 0.01, 0.07, 0.01), 0.001, ["better", "worse", "not decided"]),  # the total rose
        ((0.06, -0.01, 0.13, 0.1), 0.001, ["better", "worse", "not decided"]),
    ],
)
def test_traces_that_move_inside_a_group(total, fall, words):
    rows = [code("a", -0.1, -0.16, -0.04, fall), code("b", 0.1, 0.04, 0.16, 0.001)]
    decided, groups = decide_rows(rows, [code("g", *total)], MEMBERS, 0.05)
    assert [row.word for row in (*decided, *groups)] == words


def test_a_second_change_in_the_group_is_tested_within_the_group():
    """p of the fall is .02: by Holm over three codes .04 in the group, but .06 over all."""
    rest = [code(name, 0.0, -0.02, 0.02, 0.9) for name in "cd"]
    rows = [code("a", -0.1, -0.19, -0.01, 0.02), code("b", 0.1, 0.04, 0.16, 0.001), *rest]
    members = {"g": ("a", "b", "c")}
    decided, _ = decide_rows(rows, [code("g", 0.0, -0.04, 0.04, 0.9)], members, 0.05)
    assert decided[0].adjusted == pytest.approx(0.06)
    assert [row.word for row in decided] == ["moved", "moved", "held", "held"]


def test_a_rise_that_traces_with_several_codes_hide_is_no_move():
    """The group's total is flat, but its codes rose by .1 + .06 - .1."""
    rows = [code("a", -0.1, -0.16, -0.04, 0.001), code("b", 0.1, 0.04, 0.16, 0.001)]
    rows.append(code("c", 0.06, -0.01, 0.13, 0.1))
    totals = [code("g", 0.0, -0.04, 0.04, 0.9)]
    decided, _ = decide_rows(rows, totals, {"g": ("a", "b", "c")}, 0.05)
    assert [row.word for row in decided] == ["better", "worse", "not decided"]


def test_codes_of_different_groups_do_not_move():
    rows = [code("c", -0.1, -0.16, -0.04, 0.001), code("b", 0.1, 0.04, 0.16, 0.001)]
    totals = [code("g", 0.0, -0.04, 0.04, 0.9)]
    decided, _ = decide_rows(rows, totals, MEMBERS, 0.05)
    assert [row.word for row in decided] == ["better", "worse"]


@pytest.mark.parametrize(
    ("gap", "more"),
    [
        # Standard error .05, n 100: ((1.960 + .842) x .05 / .05)^2 - 1 = 6.849
        (0.0, 685),
        # shown: ((1.960 + .842) x .05 / .10)^2 - 1 = .962
        (0.10, 97),
        # .06 is shown from 445 more on, but as much as .05 only from 1,671: (.842 x .05 / .01)^2
        (0.06, 1671),
        (0.05, None),
    ],
)
def test_traces_that_would_decide_it(gap, more):
    half = Z * 0.05
    [row], _ = decide_rows([code("a", gap, gap - half, gap + half, 0.2)], [], {}, 0.05)
    assert row.more == more
    assert row.reason == (None if more else "the difference is the tolerance")


@pytest.mark.parametrize(("half", "more"), [(0.03, 1056), (0.06, None)])
def test_more_traces_leave_the_error_of_the_drift(half, more):
    """Standard errors: .05 in all, of it half / 1.960 the drift's; .05 / 2.802 = .01785 decides.
    (.05^2 - .01531^2) / (.01785^2 - .01531^2) - 1 = 26.0; .03061 is too much already.
    """
    row = code("a", 0.0, -Z * 0.05, Z * 0.05, 0.9, n=44)
    inputs = {"b_low": -half, "b_high": half}
    [found], _ = decide_rows(
        [replace(row, difference=replace(row.difference, inputs=inputs))], [], {}, 0.05
    )
    expected = (0.05**2 - (half / Z) ** 2) / ((0.05 / (Z + POWER)) ** 2 - (half / Z) ** 2) - 1
    assert found.more == (more and math.ceil(expected * 44))
    assert found.reason == (None if more else "too few anchors")


@pytest.mark.parametrize(
    ("error", "tolerance", "rise"),
    [
        (0.01, 0.05, 0.05 + POWER * 0.01),  # beyond the tolerance
        (0.05, 0.05, (Z + POWER) * 0.05),  # beyond chance
        (0.40, 0.05, None),  # more than all traces
    ],
)
def test_the_rise_that_is_found(error, tolerance, rise):
    share = Interval(0.1, 0.1, 0.1, 10, 100, 0.95, "exact")
    detected = find_detectable(share, error, Z, tolerance)
    assert detected == (rise and pytest.approx(rise, abs=1e-6))


def test_half_a_label_is_added_not_half_a_trace():
    """None of ten labels has it: .5 / 11, as for ten traces."""
    inputs = {"n1_raw": 4, "n0_raw": 6, "others": []}
    of_labels = Estimate("share", 0.0, 0.0, 0.2, 1000, 0.95, "made", None, inputs)
    of_traces = Interval(0.0, 0.0, 0.2, 0, 10, 0.95, "exact")
    rises = [find_detectable(share, 0.05, Z, 0.05) for share in (of_labels, of_traces)]
    assert rises[0] == rises[1] > 0.2


def test_a_rise_adds_its_own_variance():
    """A share of .0995 (with half a trace) with a standard error of .02; the rise x solves
    x = (z + .842) sqrt(.03^2 + .02^2 (v(.0995 + x) / v(.0995) - 1)).
    """
    share = Interval(0.0995, 0.0995 - Z * 0.02, 0.0995 + Z * 0.02, 0, 10**9, 0.95, "exact")
    rise = find_detectable(share, 0.03, Z, 0.0)
    before, after = (x * (1 - x) for x in (0.0995, 0.0995 + rise))
    error = (0.03**2 + 0.02**2 * (after / before - 1)) ** 0.5
    assert rise == pytest.approx((Z + POWER) * error, abs=1e-5)
    assert rise > (Z + POWER) * 0.03


# Two runs

TASKS, EACH = 40, 10
GROUPS = {"alpha": "first", "beta": "first", "gamma": "second"}


def version(folder, rubric, codes, sources="v1", tasks=TASKS, **options):
    """A run of ten traces of each task; ``codes``: of each of the ten, the others have none."""
    traces = [
        said(f"t{task}/{n}", *codes[n : n + 1], project="p", task=str(task))
        for task in range(tasks)
        for n in range(EACH)
    ]
    return make_run(folder, rubric, traces, sources=[sources], **options)


@pytest.fixture
def rubric(tmp_path):
    return make_rubric(tmp_path, groups=GROUPS)


@pytest.fixture
def gate(annotate_cli, tmp_path, rubric):
    """Gate two versions, each given by its codes, and return the end of the command."""

    def gated(base, new, *arguments, **options):
        for name, codes in (("base", base), ("new", new)):
            version(tmp_path / name, rubric, codes, name, **options)
        return annotate_cli("gate", "base", "new", *arguments)

    return gated


@pytest.mark.parametrize(
    ("base", "new", "words", "exit_code"),
    [
        (["alpha", "gamma"], ["alpha", "gamma", "alpha", "alpha"], "worse held held", 1),
        (["alpha", "gamma"], ["alpha", "gamma"], "held held held", 0),
        (["alpha"] * 3, [], "better held held", 0),
        (["alpha"] * 3, ["beta"] * 3, "moved moved held", 0),
        (["alpha"] * 3, ["gamma"] * 3, "better held worse", 1),
    ],
)
def test_each_code_of_two_runs_has_a_word(gate, base, new, words, exit_code):
    done = gate(base, new, "--tolerance", "10", "--format", "json")
    [document] = json.loads(done.out)
    assert [(row["code"], row["word"]) for row in document["rows"]] == list(
        zip(GROUPS, words.split(), strict=True)
    )
    assert done.code == document["exit_code"] == exit_code


def test_the_same_answers_again_hold(annotate_cli, tmp_path, rubric):
    """Deterministic agents that did not change, read from the same folder. The interval: half a
    pair more differs, sqrt(.5 / 401 / 400), t of 39 degrees is 2.0227.
    """
    for name in ("base", "new"):
        version(tmp_path / name, rubric, ["alpha", "beta"], "logs")
    done = annotate_cli("gate", "base", "new", "--format", "json")
    alpha = json.loads(done.out)[0]["rows"][0]
    assert (done.code, alpha["word"]) == (0, "held")
    assert alpha["difference"]["high"] == pytest.approx(2.0227 * (0.5 / 401 / 400) ** 0.5, rel=1e-4)


@pytest.mark.parametrize(("open_", "words"), [(2, "held"), (3, "not decided")])
def test_many_more_open_traces_decide_nothing(annotate_cli, tmp_path, rubric, open_, words):
    """Of 40 traces of new; base has none: 5 and 7.5 points."""
    for name, count in (("base", 0), ("new", open_)):
        traces = [
            said(f"t{n}", status="undecided" if n < count else None, project="p", task=str(n))
            for n in range(40)
        ]
        make_run(tmp_path / name, rubric, traces, sources=[name])
    tolerance = ("--tolerance", "20", "--format", "json")
    [document] = json.loads(annotate_cli("gate", "base", "new", *tolerance).out)
    assert {row["word"] for row in (*document["rows"], *document["groups"])} == {words}
    reason = document["rows"][0]["reason"]
    assert reason is None or reason == (
        "as 0 of 40 traces of base and 3 of 40 of new are undecided or failed"
    )


def test_differences_are_those_of_compare(annotate_cli, gate):
    done = gate(["alpha", "gamma"], ["alpha", "alpha"], "--format", "json")
    [gated] = json.loads(done.out)
    [compared] = json.loads(annotate_cli("compare", "new", "base", "--format", "json").out)
    assert (gated["base"]["name"], gated["new"]["n"]) == ("base", TASKS * EACH)
    for row, other in zip(gated["rows"], compared["rows"], strict=False):
        assert row["code"] == other["code"]
        for end in ("value", "low", "high"):
            assert row["difference"][end] == pytest.approx(other["difference"][end])
        assert row["test"]["p"] == other["test"]["p"]


def test_codes_restrict_what_is_gated(gate):
    """Alone, alpha does not move: its group is not gated."""
    done = gate(["alpha"] * 3, ["beta"] * 3, "--codes", "alpha", "--format", "json")
    [document] = json.loads(done.out)
    assert [(row["code"], row["word"]) for row in document["rows"]] == [("alpha", "better")]
    assert document["groups"] == []


def test_few_tasks_decide_nothing(gate):
    done = gate(["alpha"], ["alpha"] * 5, tasks=5)
    assert done.code == 4
    assert "5 tasks on a side, fewer than 6: alpha" in done.out


def test_undecided_traces_are_named(annotate_cli, tmp_path, rubric):
    """One of 10 traces of each side is open, more than 5 %."""
    for name in ("base", "new"):
        traces = [
            said(f"t{n}", status="undecided" if n % 10 == 0 else None, project="p", task=str(n))
            for n in range(60)
        ]
        make_run(tmp_path / name, rubric, traces, sources=[name])
    done = annotate_cli("gate", "base", "new")
    assert "new: 6 undecided and 0 failed traces" in annotate_cli("gate", "base", "new", "-v").out
    assert "base: 6 undecided and 0 failed traces" in done.out


# Labels


def test_each_run_is_corrected_by_its_own_labels(annotate_cli, tmp_path, rubric):
    """Both runs have the same trace ids. People give alpha to base's first trace of each task and
    to none of new's: the truths are .1 and 0, and labels of one run are never those of the other.
    """
    labelled = {"base": ("alpha",), "new": ()}
    for name in labelled:
        version(tmp_path / name, rubric, ["alpha"], name)
    for name, codes in labelled.items():
        rows = [
            label(f"t{task}/{n}", rubric, *(codes if n == 0 else ()))
            for task in range(TASKS)
            for n in (0, 1)
        ]
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(text)
        if name == "new":  # until now only base has labels
            alone = annotate_cli("gate", "base", "new")
            assert "no labels of new: annotate sample new" in alone.out
        done = annotate_cli("calibrate", name, "--labels", f"{name}.jsonl")
        assert done.code == 0, done.err
    done = annotate_cli("gate", "base", "new", "--format", "json")
    [alpha, *_] = json.loads(done.out)[0]["rows"]
    assert (alpha["base"]["value"], alpha["new"]["value"]) == (pytest.approx(0.1), 0)
    assert alpha["difference"]["value"] == pytest.approx(-0.1)
    assert (alpha["word"], alpha["corrected"], done.code) == ("better", True, 0)
    judged = annotate_cli("gate", "base", "new", "--no-calibration", "--format", "json")
    [alpha, *_] = json.loads(judged.out)[0]["rows"]
    assert (alpha["difference"]["value"], alpha["corrected"]) == (0, False)
    assert "no calibration is used" in judged.out


# Refusals


def damage(name, tmp_path, rubric):
    """Write a base and a new run that cannot be gated, and return the options of the command."""
    base = version(tmp_path / "base", rubric, ["alpha"])
    if name == "other judge":
        version(tmp_path / "new", rubric, ["alpha"], "v2", judge="llm:other")
    if name == "other criteria":
        version(tmp_path / "new", rubric, ["alpha"], "v2", least_read=0.5)
    if name == "other version":
        version(tmp_path / "new", make_rubric(tmp_path, version=2), ["alpha"], "v2")
    if name == "other rubric":
        version(tmp_path / "new", make_rubric(tmp_path, id="slips"), ["alpha"], "v2")
    if name == "screen":
        for run in ("base", "new"):
            version(tmp_path / run, rubric, ["alpha"], run, screens=GROUPS)
    if name in ("no code", "no share"):
        for run in ("base", "new"):
            version(tmp_path / run, rubric, ["alpha"], run, known=["alpha", "beta"])
    if name == "nothing judged":
        traces = [said(f"t{n}", status="failed") for n in range(9)]
        make_run(tmp_path / "new", rubric, traces, sources=["v2"])
    codes = {"no code": ["--codes", "alpa"], "no share": ["--codes", "alpha,gamma"]}
    return [base, "base" if name == "same run" else "new", *codes.get(name, [])]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("same run", "this run was given twice"),
        ("missing", "new: not a run directory"),
        ("other judge", 'judge: id was "llm:m", is now "llm:other"'),
        ("other criteria", "least_read: was 0.9, is now 0.5"),
        ("other version", "faults was v1"),
        ("other rubric", "have no rubric in common"),
        ("screen", "alpha, beta, gamma cannot be gated by llm:m"),
        ("no code", "--codes alpa: no such code, did you mean 'alpha'?"),
        ("no share", "gamma cannot be gated by llm:m"),
        ("nothing judged", "no trace judged by faults"),
    ],
)
def test_runs_that_cannot_be_gated(annotate_cli, tmp_path, rubric, name, message):
    done = annotate_cli("gate", *damage(name, tmp_path, rubric))
    said_in_words(done)
    assert message in done.err


def test_a_code_that_cannot_be_ruled_out_is_not_gated(gate):
    done = gate(["alpha"], ["alpha"], "--format", "json", known=["alpha", "beta"])
    [document] = json.loads(done.out)
    assert (document["left_out"], done.code) == (["gamma"], 0)
    assert "gamma" not in [row["code"] for row in document["rows"]]


def test_two_rubrics_have_a_table_each_and_the_worst_exit_code(annotate_cli, tmp_path, rubric):
    other = make_rubric(tmp_path, id="slips")
    for name, codes in (("base", []), ("new", ["alpha"] * 3)):
        alphas = [
            said(f"t{n}/{k}", *codes[k : k + 1], task=str(n)) for n in range(40) for k in range(9)
        ]
        calm = [said(f"t{n}/{k}", task=str(n)) for n in range(40) for k in range(9)]
        make_run(tmp_path / name, rubric, calm, more=[(other, alphas)], sources=[name])
    done = annotate_cli("gate", "base", "new", "--format", "json")
    documents = json.loads(done.out)
    codes = {document["rubric"]: document["exit_code"] for document in documents}
    assert (codes, done.code) == ({"faults": 0, "slips": 1}, 1)
    assert annotate_cli("gate", "base", "new", "--rubric", "faults").code == 0


# Formats


def test_a_terminal_has_80_columns(gate):
    done = gate(["alpha", "gamma"], ["alpha", "gamma", "alpha", "alpha"])
    assert max(map(len, done.raw.splitlines())) <= 80
    assert done.raw.startswith("Worse: alpha +20.0 points")
    assert "alpha           worse    10   30" in done.raw


def test_a_comment_shows_quotes_as_text(gate, annotate_cli, tmp_path):
    gate(["alpha"], ["alpha"] * 3)
    file = tmp_path / "new" / "annotations.jsonl"
    file.write_text(file.read_text().replace("quoted here", "[x](http://y) <b>"))
    done = annotate_cli("gate", "base", "new", "--format", "md")
    assert done.code == 1
    assert done.out.startswith("**Worse: alpha +20.0 points")
    assert done.out.count("- alpha, t") == 3
    assert r'"[x\](http\://y) \<b>" (message:1)' in done.out


def test_junit_has_a_case_for_each_row(gate):
    done = gate(["alpha"], ["alpha"] * 3, "--format", "junit")
    suite = ElementTree.fromstring(done.raw).find("testsuite")
    outcomes = {case.get("name"): [x.tag for x in case] for case in suite}
    worse = {"alpha", "first (group)"}
    assert outcomes == {
        name: ["failure"] if name in worse else []
        for name in (*GROUPS, "first (group)", "second (group)")
    }
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("5", "2", "0")
    undecided = gate(["alpha"], ["alpha"] * 3, "--format", "junit", tasks=5)
    suite = ElementTree.fromstring(undecided.raw).find("testsuite")
    assert (suite.get("failures"), suite.get("skipped")) == ("0", "5")
    for points, code, skipped in ((10, 0, "0"), (0.2, 4, "5")):  # a group that did not hold
        moved = gate(["alpha"] * 3, ["beta"] * 3, "--format", "junit", "--tolerance", points)
        suite = ElementTree.fromstring(moved.raw).find("testsuite")
        assert (moved.code, suite.get("failures"), suite.get("skipped")) == (code, "0", skipped)


def test_a_program_checks_a_gate(gate, tmp_path):
    gate(["alpha"], ["alpha"] * 3)
    runs = [annotator.open_run(tmp_path / name) for name in ("base", "new")]
    with pytest.raises(AssertionError, match=r"Worse: alpha \+20.0 points"):
        annotator.gate(*runs).check()
    assert annotator.gate(*runs).word == "worse"
    annotator.gate(*runs, tolerance=25).check()
    few = [annotator.open_run(version(tmp_path / x, make_rubric(tmp_path), [], x, 5)) for x in "ab"]
    annotator.gate(*few).check()
    with pytest.raises(AssertionError, match="Not decided"):
        annotator.gate(*few).check(decided=True)
