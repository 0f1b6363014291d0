"""`--group`, and `annotate compare` of three conditions or more."""

import base64
import csv
import io
import json
import math
import re
import zlib

import numpy as np
import pytest
from scipy import stats

import annotator as an
from tests.calibration.build import label, make_run, said, said_in_words
from tests.conftest import EXAMPLES, run_name

ARMS = ("solo", "pair", "crew")


def study(tasks=12, shares=(1, 3, 6)):
    """Of each arm a trace of each task; alpha in the first ``shares`` of the tasks, else beta."""
    return [
        said(f"{arm}/p/{n}/f1", "alpha" if n < share else "beta", project="p", task=str(n))
        for arm, share in zip(ARMS, shares, strict=True)
        for n in range(tasks)
    ]


@pytest.fixture
def run(tmp_path, rubric):
    return make_run(tmp_path / "run", rubric, study())


ARM = ("--group", "arm=^([^/]+)/")


def compared(annotate_cli, *arguments):
    done = annotate_cli("compare", *arguments, "--format", "json")
    assert done.code == 0, done.err
    return json.loads(done.out)


# Groups


def tables(annotate_cli, run, *options):
    """The judged traces with each value of ``arm``."""
    done = annotate_cli("report", run, *options, "--by", "arm", "--format", "json")
    assert done.code == 0, done.err
    counted = {table["group"]["value"]: table["judged"] for table in json.loads(done.out)}
    return counted, done.err


TABLE = "trace_id,arm\n" + "".join(f"{one.trace_id},{one.trace_id[:4]}\n" for one in study())


@pytest.mark.parametrize(
    ("group", "counts"),
    [
        ("arm=^([^/]+)/", {"solo": 12, "pair": 12, "crew": 12}),
        ("arm=(?P<x>p)(?P<arm>air)|(?P<y>s)olo", {"-": 24, "air": 12}),
        ("arm=crew|pair|solo", {"solo": 12, "pair": 12, "crew": 12}),
        ("arm=task:^1(.)", {"-": 30, "0": 3, "1": 3}),
        (TABLE, {"solo": 12, "pair": 12, "crew": 12}),
        (TABLE.replace(",", ";"), {"solo": 12, "pair": 12, "crew": 12}),
        ("\ufefftrace_id,arm,other\nsolo/p/1/f1,x,\npair/p/1/f1,,y\n", {"-": 35, "x": 1}),
    ],
)
def test_a_group_is_an_attribute(annotate_cli, tmp_path, run, group, counts):
    if "\n" in group:
        (tmp_path / "study.csv").write_text(group)
        group = "study.csv"
    found, err = tables(annotate_cli, run, "--group", group)
    assert found == counts
    missing = counts.get("-", 0)
    assert (f"{missing} of 36 traces have no arm: " in err) == bool(missing)


@pytest.mark.parametrize(
    ("group", "words"),
    [
        ("arm", "--group arm: expected NAME=REGEX"),
        ("arm=", "expected NAME=REGEX"),
        ("arm=(a", "not a regular expression"),
        ("arm=(a)(b)", "2 groups, and none is named arm"),
        ("run=(a)", "run has a meaning of its own"),
        ("arm=^(duo)/", "no trace matches; their ids are like solo/p/0/f1"),
        ("arm=solo:(.)", "no trace has the attribute solo, only project, task"),
        ("task=^([^/]+)/", "would have task = solo, and has task = 0 already: choose another name"),
        ("gone.csv", "gone.csv"),
        ("trace,arm\na,b\n", "line 1: expected a column trace_id and a column for each condition"),
        ("trace_id\na\n", "line 1: expected a column trace_id and a column for each condition"),
        ("", "line 1: expected a column trace_id"),
        ("trace_id,arm,arm\na,b,c\n", "line 1: two columns arm"),
        ("trace_id,arm\nsolo/p/0/f1\n", "line 2: 1 cells, the header has 2"),
        ("trace_id,arm\n,b\n", "line 2: no trace_id"),
        ("trace_id,arm\n\na,b\nb,b\na,c\n", "line 5: a is in line 3, too"),
        ("trace_id,arm\na,b\n", "column arm: no trace has a value: it has a, the traces have ids"),
        ("trace_id,arm\na,\u4e00\udcff\n", "study.csv, line 2: not UTF-8"),
        ("trace_id,task\nsolo/p/0/f1,9\n", "would have task = 9, and has task = 0 already"),
    ],
)
def test_a_group_that_cannot_be_read_or_says_something_else(
    annotate_cli, tmp_path, run, group, words
):
    if "\n" in group or not group:
        (tmp_path / "study.csv").write_text(group, errors="surrogateescape")
        group = "study.csv"
    done = annotate_cli("report", run, "--group", group)
    said_in_words(done)
    assert (done.code, done.out) == (2, "")
    assert words in done.err


def test_a_row_of_another_trace_is_named_with_its_line(annotate_cli, tmp_path, run):
    # As Excel's "Unicode text".
    text = TABLE.replace("solo/p/3/f1", "solo/p/99/f1").replace(",", "\t")
    (tmp_path / "study.csv").write_text(text, "utf-16")
    found, err = tables(annotate_cli, run, "--group", "study.csv")
    assert found == {"solo": 11, "pair": 12, "crew": 12, "-": 1}
    assert "study.csv, line 5: no such trace here" in err
    assert "1 of 36 traces has no arm: solo/p/3/f1." in err


def test_a_table_whose_encoding_is_guessed_has_a_notice(annotate_cli, tmp_path, run):
    (tmp_path / "study.csv").write_text(TABLE.replace(",solo", ",s\u00f3lo"), "cp1252")
    found, err = tables(annotate_cli, run, "--group", "study.csv")
    assert found == {"s\u00f3lo": 12, "pair": 12, "crew": 12}
    assert "study.csv: not UTF-8 (byte 0xf3 in line 2), read as Windows-1252" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "RUN", "--format", "html", "--out", "page.html"),
        ("figure", "RUN", "--by", "arm", "--out", "figure.svg"),
    ],
)
def test_pages_and_figures_know_the_groups(annotate_cli, tmp_path, run, arguments):
    (tmp_path / "study.csv").write_text(TABLE.replace(",crew", ",zebra"))
    words = [run if word == "RUN" else word for word in arguments]
    done = annotate_cli(*words, "--group", "study.csv")
    assert done.code == 0, done.err
    text = (tmp_path / arguments[-1]).read_text()
    if packed := re.search('id="rows">([^<]+)<', text):
        text = zlib.decompress(base64.b64decode(packed[1])).decode()
    assert "zebra" in text


def test_a_sample_says_how_many_of_each_condition_it_has(annotate_cli, run):
    done = annotate_cli("sample", run, *ARM, "-n", "36", "--split", "all", "--out", "sheet.csv")
    assert done.code == 0, done.err
    assert "\narm: crew 12, pair 12, solo 12\n" in done.out


def test_a_run_with_groups_names_the_next_command(annotate_cli, tmp_path):
    arguments = ("run", EXAMPLES, "--rubric", "comm_errors", "--out", "out")
    bad = annotate_cli(*arguments, "--group", "arm=^(nowhere)/")
    assert (bad.code, (tmp_path / "out").exists()) == (2, False)
    dry = annotate_cli(*arguments, "--group", "arm=^(nowhere)/", "--dry-run")
    assert "no trace matches" in dry.err
    done = annotate_cli(*arguments, "--group", "arm=^(.)")
    assert "next: annotate compare out --by arm " in done.err


def test_a_run_keeps_its_groups(tmp_path, rubric):
    """In ``run.json``, for all later commands and a resumed run; the judge does not see them."""
    for n, outcome in enumerate(("a", "b", "c")):
        (tmp_path / f"{outcome}.jsonl").write_text(
            json.dumps(
                {"id": f"{outcome}/{n}", "messages": [{"role": "assistant", "content": "x"}]}
            )
            + "\n"
        )
    seen = []

    class Sees:
        id, settings = "sees", {}

        def codes(self, rubric):
            return {code.id for code in rubric.codes}

        def judge(self, trace, rubric):
            seen.append(dict(trace.attributes))
            return an.Verdict.none()

    sources = [str(tmp_path / f"{name}.jsonl") for name in "abc"]
    notices = []
    folder = tmp_path / "out"
    options = {"judge": Sees(), "only": "all", "out": folder}
    made = an.annotate(sources, rubric, groups="arm=([ab])/", on_notice=notices.append, **options)
    assert any("1 of 3 traces has no arm" in notice for notice in notices)
    assert seen
    assert not any("arm" in attributes for attributes in seen)
    assert '"arm"' not in (folder / "annotations.jsonl").read_text()
    arms = [annotation.attributes.get("arm") for annotation in an.open_run(folder).annotations()]
    assert arms == ["a", "b", None]
    with pytest.raises(an.AnnotatorError, match="conditions: was"):
        an.annotate(sources, rubric, resume=True, **options)
    with pytest.raises(an.AnnotatorError, match="no trace matches"):
        an.annotate(sources, rubric, groups="arm=^z", judge=Sees(), only="all")
    assert [a.attributes.get("arm") for a in made.save(tmp_path / "copy").annotations()] == arms


def test_a_run_is_resumed_with_the_same_table_wherever_it_is(annotate_cli, runs, tmp_path):
    arguments = (runs(1), "--rubric", "comm_errors", "--judge", "rules", "--out", "out")
    for name, value, code in (("here", "x", 0), ("there", "x", 0), ("other", "y", 2)):
        table = f"trace_id,arm\n{run_name(1, '')[1:]},{value}\n"
        (tmp_path / f"{name}.csv").write_text(table)
        resume = ["--resume"] if name != "here" else []
        done = annotate_cli(*arguments, "--group", f"{name}.csv", *resume)
        assert done.code == code, done.err
    assert 'conditions: was "column arm ' in done.err


# Three conditions


def test_shares_of_three_conditions_and_their_test_by_hand(annotate_cli, run):
    """Alpha in 1, 3 and 6 of 12 tasks: shares 1/12, 3/12, 6/12. In the first task all arms have
    it, in two more two, in three more one: the residuals of the arms sum, over tasks, as below.
    """
    [one] = compared(annotate_cli, run, *ARM, "--by", "arm")
    assert (one["values"], one["n"], one["kind"]) == (["crew", "pair", "solo"], [12] * 3, "paired")
    alpha = one["rows"][0]
    assert [(share["k"], share["n"]) for share in alpha["shares"]] == [(6, 12), (3, 12), (1, 12)]
    p = [6 / 12, 3 / 12, 1 / 12]
    mean = sum(p) / 3
    between = sum(12 * (x - mean) ** 2 for x in p)
    own = sum(12 * x * (1 - x) for x in p) / 12
    together = sum((have - sum(p)) ** 2 for have in [3, 2, 2, 1, 1, 1] + [0] * 6) / 36
    assert alpha["test"]["statistic"] == pytest.approx(between / (12 / 11 * (own - together)))
    # beta is the other side of alpha; gamma and none are nowhere: two tests.
    assert one["tests"] == 2
    assert one["rows"][1]["test"]["p"] == alpha["test"]["p"]
    assert alpha["adjusted"] == pytest.approx(min(1, 2 * alpha["test"]["p"]))
    assert one["rows"][2]["adjusted"] is None


def test_the_order_of_conditions_is_that_of_numbers(annotate_cli, tmp_path, rubric):
    traces = [said(f"{size}b/{n}", "alpha") for size in (70, 8, 405) for n in range(6)]
    run = make_run(tmp_path / "sizes", rubric, traces)
    [one] = compared(annotate_cli, run, "--group", "size=^(\\d+b)", "--by", "size")
    assert one["values"] == ["8b", "70b", "405b"]


def test_independent_traces_by_enumeration(annotate_cli, tmp_path, rubric):
    """Of 6, 6 and 6 traces 5, 1 and 0 have alpha: shares of all 18!/(6! 6! 6!) ways to deal them,
    by the counts of alpha, with the same statistic.
    """
    arms = {"a": 5, "b": 1, "c": 0}
    traces = [
        said(f"{arm}/{n}", *(["alpha"] if n < k else []))
        for arm, k in arms.items()
        for n in range(6)
    ]
    run = make_run(tmp_path / "apart", rubric, traces)
    [one] = compared(annotate_cli, run, "--group", "arm=^(.)", "--by", "arm")
    assert one["kind"] == "independent"

    def statistic(counts):
        p = [k / 6 for k in counts]
        between = sum(6 * (x - 1 / 3) ** 2 for x in p)
        within = sum(2 / 3 * 6 / 5 * x * (1 - x) for x in p)
        return between / within if within else math.inf if between else 0

    more = total = 0
    for a in range(7):
        for b in range(7 - a):
            if (c := 6 - a - b) <= 6:
                ways = math.comb(6, a) * math.comb(6, b) * math.comb(6, c)
                total += ways
                more += ways * (statistic((a, b, c)) >= statistic((5, 1, 0)) - 1e-9)
    p = more / total
    alpha = one["rows"][0]
    assert total == math.comb(18, 6)
    assert alpha["test"]["statistic"] == pytest.approx(statistic((5, 1, 0)))
    assert alpha["test"]["p"] == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / 10_000))
    wilson = stats.binomtest(5, 6).proportion_ci(method="wilson")
    assert (alpha["shares"][0]["low"], alpha["shares"][0]["high"]) == pytest.approx(tuple(wilson))


def test_pairs_have_one_family_of_tests(annotate_cli, run):
    one, pairs = compared(annotate_cli, run, *ARM, "--by", "arm", "--pairs")
    assert len(pairs["pairs"]) == 3 * len(one["rows"])
    tested = sorted(
        (row for row in pairs["pairs"] if row["adjusted"]), key=lambda x: x["test"]["p"]
    )
    assert pairs["tests"] == len(tested) == 6  # alpha and beta
    first = tested[0]
    assert {first["first"], first["second"]} == {"crew", "solo"}
    assert first["adjusted"] == pytest.approx(min(1, 6 * first["test"]["p"]))
    # The difference is that of the shares of the table above, its p that of the two alone.
    assert abs(first["difference"]["value"]) == pytest.approx(5 / 12)
    [two] = compared(annotate_cli, run, *ARM, "--by", "arm", "--values", "crew", "solo")
    alpha = two["rows"][0]
    assert alpha["test"]["p"] == pytest.approx(first["test"]["p"])


def test_without_a_condition(annotate_cli, run):
    [one] = compared(annotate_cli, run, *ARM, "--by", "arm", "--without", "pair")
    assert one["values"] == ["crew", "solo"]
    done = annotate_cli("compare", run, *ARM, "--by", "arm", "--without", "duo")
    assert "--without duo: no judged trace has arm = duo" in done.err


def test_traces_without_a_condition_are_counted_below_the_table(annotate_cli, tmp_path, rubric):
    lost = [said("lost/p/1/f1", "alpha", project="p", task="1")]
    lost += [said("gone/p/1/f1", status="undecided", project="p", task="1")]
    lost += [said("idle/p/1/f1", status="skipped", project="p", task="1")]
    run = make_run(tmp_path / "lost", rubric, [*study(), *lost])
    group = ("--group", "arm=^(solo|pair|crew|gone|idle)")
    [one] = compared(annotate_cli, run, *group, "--by", "arm")
    assert one["n"] == [12] * 3
    assert (
        "1 of 38 traces that faults is for has no arm: lost/p/1/f1. They are not compared."
        in one["notes"]
    )
    assert "Not compared, because no trace is judged: arm = gone, idle." in one["notes"]


@pytest.mark.parametrize("arms", [2, 3, 20])
@pytest.mark.parametrize("name", ["arm{}", "a_rather_long_name_of_an_arm_{}"])
def test_a_terminal_of_80_columns(annotate_cli, tmp_path, rubric, arms, name):
    """Every row fits, the result comes first, and at most two notes follow."""
    traces = [
        said(
            f"{name.format(arm)}/p/{n}/f1",
            "alpha" if n <= arm else "beta",
            project="p",
            task=f"{n}",
        )
        for arm in range(arms)
        for n in range(8)
    ]
    run = make_run(tmp_path / "run", rubric, traces)
    done = annotate_cli("compare", run, *ARM, "--by", "arm")
    head, sentence, rows, notes, *_ = done.out.split("\n\n")
    assert max(map(len, (*head.splitlines(), *sentence.splitlines(), *rows.splitlines()))) <= 80
    assert "Holm over 2 tests" in " ".join(sentence.split())
    assert all(f"{name.format(arm)} (n=8)" in " ".join(head.split()) for arm in range(arms))
    assert len(notes.splitlines()) <= 4  # with that on the intervals
    assert "next: annotate" in done.err


def test_every_format_has_every_share(annotate_cli, run):
    options = (run, *ARM, "--by", "arm", "--pairs")
    for name, share in (("md", "8.3 ["), ("html", "8.3 ["), ("latex", "8.3 \\\\ {}[")):
        text = annotate_cli("compare", *options, "--format", name).out
        assert share in text
        assert "crew (n=12)" in text.replace("\\\\ ", " ") or "crew" in text
    rows = list(
        csv.DictReader(io.StringIO(annotate_cli("compare", *options, "--format", "csv").out))
    )
    shares = [row for row in rows if row["row"] == "share" and row["code"] == "alpha"]
    assert [(row["condition"], row["count"], row["n"]) for row in shares] == [
        ("crew", "6", "12"),
        ("pair", "3", "12"),
        ("solo", "1", "12"),
    ]
    pair = next(row for row in rows if row["row"] == "pair")
    assert (pair["condition"], pair["other"]) == ("crew", "pair")
    assert float(pair["value"]) == pytest.approx(0.25)


def test_corrected_shares_are_those_of_the_plain_tables(annotate_cli, calibrate, tmp_path, rubric):
    run = make_run(tmp_path / "run", rubric, study())
    rows = [
        label(one.trace_id, rubric, "gamma" if n % 5 == 0 else one.primary)
        for n, one in enumerate(study())
        if n % 2 == 0
    ]
    options = (*calibrate(run, rows), *ARM, "--by", "arm")
    [one] = compared(annotate_cli, run, *options)
    alpha = one["rows"][0]
    done = annotate_cli("report", run, *options, "--format", "json")
    plain = {
        table["group"]["value"]: table["rows"][0]["corrected"] for table in json.loads(done.out)
    }
    for value, share in zip(one["values"], alpha["corrected"], strict=True):
        assert share["value"] == pytest.approx(plain[value]["value"])
        assert share["low"] == pytest.approx(plain[value]["low"])


def correct_by_hand(side, code):
    """The corrected share of a code on a side of (task, judge's code, person's code or None), the
    standard error and each task's influence: statistics.md, sections 3 and 11, and Jeffreys' prior.
    """
    size, share, mean, square, within, influence = len(side), 0.0, 0.0, 0.0, 0.0, {}
    for flag in (True, False):
        cell = [one for one in side if (one[1] == code) == flag]
        people = [one[2] == code for one in cell if one[2]]
        weight, q = len(cell) / size, (sum(people) + 0.5) / (len(people) + 1)
        p = sum(people) / len(people) if people else 0.0  # then the cell is empty
        share += weight * p
        mean, square = mean + weight * q, square + weight * q**2
        within += weight**2 * q * (1 - q) / (len(people) + 2)
        for task, _, person in cell:
            added = p / size + (weight * ((person == code) - p) / len(people) if person else 0.0)
            influence[task] = influence.get(task, 0.0) + added
    for task in influence:
        influence[task] -= share * sum(one[0] == task for one in side) / size
    tasks = len(influence)
    over_tasks = tasks / (tasks - 1) * sum(u**2 for u in influence.values())
    return share, math.sqrt(max(within + (square - mean**2) / size, over_tasks)), influence


@pytest.mark.parametrize("shared", [True, False])
def test_corrected_differences_of_three_conditions_by_hand(
    annotate_cli, calibrate, tmp_path, rubric, shared
):
    """Each condition has the same 12 tasks, or tasks of its own, three traces of each and a label
    of two. Holm counts the codes that a trace has by the judge or by a label: not none.
    """
    rng = np.random.default_rng(5)
    traces, rows, sides = [], [], {}
    for arm, share in zip(ARMS, (0.3, 0.5, 0.8), strict=True):
        for n in range(36):
            task = str(n % 12) if shared else f"{arm}{n % 12}"
            judged = "alpha" if rng.random() < share else "beta"
            person = "gamma" if rng.random() < 0.2 else judged
            name = f"{arm}/p/{task}/{n}"
            traces.append(said(name, judged, project="p", task=task))
            rows += [label(name, rubric, person)] if n < 24 else []
            sides.setdefault(arm, []).append((task, judged, person if n < 24 else None))
    run = make_run(tmp_path / "run", rubric, traces)
    options = (run, *calibrate(run, rows), *ARM, "--by", "arm")
    one, pairs = compared(annotate_cli, *options, "--pairs")
    expected = {}
    for first, second in (("crew", "pair"), ("crew", "solo"), ("pair", "solo")):
        for code in ("alpha", "beta", "gamma"):
            (share1, error1, u1), (share2, error2, u2) = (
                correct_by_hand(sides[arm], code) for arm in (first, second)
            )
            together = 12 / 11 * sum(u1[task] * u2[task] for task in u1.keys() & u2.keys())
            error, t = math.sqrt(error1**2 + error2**2 - 2 * together), stats.t(11)
            gap, half = share1 - share2, t.ppf(0.975) * error
            p = 2 * t.sf(abs(gap) / error)
            expected[code, first, second] = (gap, max(-1, gap - half), min(1, gap + half), p)
    ranked, holm, before = sorted(expected, key=lambda pair: expected[pair][3]), {}, 0.0
    for n, pair in enumerate(ranked):
        before = holm[pair] = max(before, min(1, (9 - n) * expected[pair][3]))
    found = {(x["code"], x["first"], x["second"]): x for x in pairs["pairs"]}
    for pair, (*gap, p) in expected.items():
        difference = found[pair]["difference"]
        assert [difference[x] for x in ("value", "low", "high")] == pytest.approx(gap), pair
        assert found[pair]["test"]["p"] == pytest.approx(p)
        assert found[pair]["adjusted"] == pytest.approx(holm[pair])
    assert found["none", "crew", "pair"]["adjusted"] is None
    assert (one["corrected_tests"], pairs["tests"]) == (9, 9)
    smallest = min(p for (code, *_), p in holm.items() if code == "alpha")
    assert one["rows"][0]["corrected_adjusted"] == pytest.approx(smallest)
    beyond = sum(p < 0.05 for p in holm.values())
    done = annotate_cli("compare", *options)
    out = " ".join(done.out.split())
    assert f"{beyond} of the 9 tested differences of corrected shares" in out
    # No number of the judge alone, and the way to them.
    assert "judged" not in out
    assert "The judge's own shares and p: --no-calibration." in out
    assert done.err.strip().endswith("--pairs")
    lines = annotate_cli("compare", *options, "--format", "csv", "--pairs").out
    record = next(x for x in csv.DictReader(io.StringIO(lines)) if x["row"] == "pair")
    assert (record["value"], record["p"]) == ("", "")
    assert float(record["corrected_p"]) == found["alpha", "crew", "pair"]["test"]["p"]


@pytest.mark.parametrize(("rare", "tested"), [(4, False), (5, True)])
def test_a_corrected_code_is_tested_where_enough_traces_have_it(
    annotate_cli, calibrate, tmp_path, rubric, rare, tested
):
    """Conditions of 36 and 24 traces: as for the judge's own shares, four with gamma are too few,
    whether the judge gave it or, as in one of them, a person.
    """
    traces = [
        said(
            f"{arm}/p/{arm}{n}",
            "gamma" if arm == "solo" and 0 < n < rare else "alpha",
            project="p",
            task=str(n % 12),
        )
        for arm, size in (("solo", 36), ("pair", 36), ("crew", 24))
        for n in range(size)
    ]
    run = make_run(tmp_path / "run", rubric, traces)
    rows = [
        label(x.trace_id, rubric, "gamma" if x.trace_id == "solo/p/solo0" else x.primary)
        for x in traces
    ]
    options = (run, *calibrate(run, rows), *ARM, "--by", "arm")
    for values in (("solo", "crew"), None):
        more = ("--values", *values) if values else ("--pairs",)
        one, *pairs = compared(annotate_cli, *options, *more)
        if pairs:
            found = {
                x["code"]: x["adjusted"]
                for x in pairs[0]["pairs"]
                if {x["first"], x["second"]} == {"solo", "crew"}
            }
        else:
            found = {x["code"]: x["corrected_adjusted"] for x in one["rows"]}
        assert [found[code] is not None for code in ("gamma", "beta", "none")] == [tested, 0, 0]
        note = "No p for alpha, gamma: too few traces"
        # Of the other two conditions, one has as many traces: there it is tested.
        assert any(note in x for x in one["notes"]) == (not tested and values is not None)


@pytest.mark.parametrize(("tasks", "fits"), [(5, False), (6, True)])
def test_a_condition_with_labels_of_few_tasks_has_no_corrected_share(
    annotate_cli, calibrate, tmp_path, rubric, tasks, fits
):
    run = make_run(tmp_path / "run", rubric, study())
    rows = [
        label(x.trace_id, rubric, x.primary)
        for x in study()
        if not x.trace_id.startswith("solo") or int(x.attributes["task"]) < tasks
    ]
    options = (run, *calibrate(run, rows), *ARM, "--by", "arm")
    one, pairs = compared(annotate_cli, *options, "--pairs")
    shares = dict(zip(one["values"], one["rows"][0]["corrected"], strict=True))
    assert (shares["solo"]["value"] is not None) == fits
    assert shares["solo"]["reason"] == (None if fits else "labels of fewer than 6 tasks")
    assert shares["crew"]["value"] == pytest.approx(6 / 12)
    assert pairs["tests"] == (6 if fits else 2)  # alpha and beta of three pairs, or of one
    out = annotate_cli("compare", *options).out
    # The second of the two notes shown is that on the labels, if a condition has too few.
    assert ("shares need not add up to 100 %" in out) == fits
    assert "shares need not add up to 100 %" in annotate_cli("report", *options).out
    assert ("Not corrected, labels of fewer than 6 tasks: solo (5)." in out) != fits
    solo = annotate_cli("report", *options).out.split("arm = solo")[1].split("\n---")[0]
    assert ("Most common: " in solo) == fits
    # Nobody asked for a calibration that can compare no two conditions: it is left out, with words.
    rows = [row for row in rows if row["trace_id"][:4] == "crew" or row["trace_id"][:4] == "solo"]
    calibrate(run, [row for row in rows if int(row["trace_id"].split("/")[2]) < tasks])
    done = annotate_cli("compare", run, *ARM, "--by", "arm", "--without", "pair")
    said_so = "calibration.json is not used: labels of fewer than 6 tasks in crew, solo" in done.err
    assert said_so != fits


def test_corrected_shares_of_a_judge_that_is_a_screen(annotate_cli, calibrate, tmp_path, rubric):
    """It rules nothing out, so its own shares are unknown; labels of all answers give theirs."""
    traces = [
        said(one.trace_id, "alpha", **one.attributes)
        if one.primary == "alpha" or n % 6 == 0
        else said(one.trace_id, status="undecided", **one.attributes)
        for n, one in enumerate(study())
    ]
    run = make_run(tmp_path / "run", rubric, traces, screens=["alpha", "beta", "gamma"])
    options = calibrate(run, [label(one.trace_id, rubric, one.primary) for one in study()])
    [one] = compared(annotate_cli, run, *options, *ARM, "--by", "arm")
    alpha = one["rows"][0]
    assert [share["value"] for share in alpha["shares"]] == [None] * 3
    assert (alpha["test"]["p"], one["tests"]) == (None, 0)
    # Every trace is labelled: the corrected share is what people say.
    assert [share["value"] for share in alpha["corrected"]] == pytest.approx(
        [6 / 12, 3 / 12, 1 / 12]
    )
    # The corrected ones are tested all the same, and no other sentence is above them.
    out = " ".join(annotate_cli("compare", run, *options, *ARM, "--by", "arm").out.split())
    assert "of the 6 tested differences of corrected shares (every two of the 3 values" in out
    assert "a judge cannot find it" not in out


@pytest.mark.parametrize("kind", ["mapping", "attribute"])
def test_from_python(run, kind):
    opened = an.open_run(run)
    by = {one.trace_id: one.trace_id[:4] for one in study()} if kind == "mapping" else "task"
    tables = an.count(opened, by=by)
    assert len(tables) == (3 if kind == "mapping" else 12)
    if kind == "mapping":
        [table] = an.compare(opened, by=by)
        assert table.header == (
            "code",
            "crew (n=12)",
            "pair (n=12)",
            "solo (n=12)",
            "p",
            "p (Holm)",
        )
        assert len(table.records) == 4 * 3
        part = {name: value for name, value in by.items() if value != "solo"} | {"x": None}
        [table] = an.compare(opened, by=part)
        assert any(
            "12 of 36 traces that faults is for have no group" in note for note in table.notes
        )


def test_a_series_is_named_as_a_group_and_has_each_trace_once(run):
    opened = an.open_run(run)

    class Series(dict):
        name = "run"

    with pytest.raises(an.AnnotatorError, match="run has a meaning of its own"):
        an.compare(opened, by=Series())
    pandas = pytest.importorskip("pandas")
    twice = pandas.Series(["a", "b"], index=["solo/p/0/f1"] * 2, name="arm")
    with pytest.raises(an.AnnotatorError, match="solo/p/0/f1 has two values"):
        an.compare(opened, by=twice)


def test_values_that_differ_in_case_are_two(annotate_cli, tmp_path, run):
    text = "trace_id,arm\n" + "".join(
        f"{one.trace_id},{('True', 'true', 'False')[n // 12]}\n" for n, one in enumerate(study())
    )
    (tmp_path / "study.csv").write_text(text)
    [one] = compared(annotate_cli, run, "--group", "study.csv", "--by", "arm")
    assert sorted(zip(one["values"], one["n"], strict=True)) == [
        ("False", 12),
        ("True", 12),
        ("true", 12),
    ]


def test_a_code_of_one_trace_has_no_p_where_the_conditions_differ_in_size(
    annotate_cli, tmp_path, rubric
):
    """Of 12 tasks with 4, 2 and 2 traces one trace has alpha. Under the null it is of the first
    condition in half of all cases, so that no p can be below .25.
    """
    traces = [
        said(
            f"{arm}/p/{task}/{arm}{n}",
            *(["alpha"] if (arm, task, n) == ("c", 0, 0) else ["beta"] if task + n < 4 else []),
            project="p",
            task=str(task),
        )
        for arm, size in (("a", 4), ("b", 2), ("c", 2))
        for task in range(12)
        for n in range(size)
    ]
    run = make_run(tmp_path / "sizes", rubric, traces)
    options = ("--group", "arm=^(.)", "--by", "arm")
    for more in ((), ("--values", "a", "c")):
        [one] = compared(annotate_cli, run, *options, *more)
        tests = {row["code"]: row["test"]["p"] for row in one["rows"]}
        assert tests["alpha"] is None
        assert tests["beta"] is not None
        assert any("No p for alpha: too few traces" in note for note in one["notes"])
    # Where all have as many traces of each task, the test is exact, and stays.
    even = make_run(tmp_path / "even", rubric, [t for t in traces if int(t.trace_id[-1]) < 2])
    [one] = compared(annotate_cli, even, *options)
    assert one["rows"][0]["test"]["p"] == 1


def test_notes_on_tasks_are_of_the_clusters_that_are_tested(annotate_cli, tmp_path, rubric):
    """A trace without a task is a cluster by itself: 4 tasks and 12 such traces have a p."""
    traces = [
        said(
            f"{arm}/{n}",
            *(["alpha"] if n % 4 < k else []),
            **({"project": "p", "task": str(n % 4)} if n < 4 else {}),
        )
        for k, arm in enumerate("abc", 1)
        for n in range(16)
    ]
    run = make_run(tmp_path / "mixed", rubric, traces)
    options = ("--group", "arm=^(.)", "--by", "arm")
    for more, tasks in (
        ((), "one of 40 tasks"),
        (("--values", "a", "b"), "one of 16 and 16 tasks"),
    ):
        [one] = compared(annotate_cli, run, *options, *more)
        assert one["rows"][0]["test"]["p"] is not None
        notes = " ".join(one["notes"])
        assert "No p" not in notes
        assert "no p " not in notes
        assert tasks in notes
    few = make_run(tmp_path / "few", rubric, [t for t in study() if t.attributes["task"] < "4"])
    done = annotate_cli("compare", few, *ARM, "--by", "arm")
    # Tasks 0 to 3, 10 and 11 of 12.
    assert "No p: " not in done.out
    fewer = make_run(tmp_path / "fewer", rubric, [t for t in study() if t.attributes["task"] < "3"])
    done = annotate_cli("compare", fewer, *ARM, "--by", "arm")
    text = " ".join(done.out.split())
    assert "No p: each condition needs 6 tasks, and crew has 5, pair has 5, solo has 5." in text
    assert "It deals" not in text
    assert "--pairs" not in done.err


def test_conditions_of_very_different_sizes_have_a_note(annotate_cli, tmp_path, rubric):
    traces = [
        said(f"{arm}/{n}", *(["alpha"] if n % 3 else []))
        for arm, size in (("a", 50), ("b", 10), ("c", 10))
        for n in range(size)
    ]
    run = make_run(tmp_path / "sizes", rubric, traces)
    [one] = compared(annotate_cli, run, "--group", "arm=^(.)", "--by", "arm")
    assert any("the conditions differ much in size (10 to 50 traces)" in x for x in one["notes"])


def test_the_next_command_has_the_options_of_this_one(annotate_cli, run):
    done = annotate_cli("compare", run, *ARM, "--by", "arm", "--cluster", "none")
    assert done.err.endswith("--cluster none --pairs\n")


def test_without_a_code_that_differs_the_sentence_names_none(annotate_cli, tmp_path, rubric):
    """Each code is as rare in one arm as the next, and no code at all is twice as common in one."""
    codes = ("alpha", "beta", "gamma")
    traces = [
        said(f"{arm}/{n}", *([codes[n % 3]] if n < k else []))
        for arm, k in (("a", 12), ("b", 12), ("c", 30))
        for n in range(60)
    ]
    run = make_run(tmp_path / "none", rubric, traces)
    for values, result in (
        ((), "50 % (c) to 80 % (b), p = "),
        (("--values", "b", "c"), "80 % against 50 %, +30.0 points (95 % interval [+13."),
    ):
        done = annotate_cli("compare", run, "--group", "arm=^(.)", "--by", "arm", *values)
        text = " ".join(done.out.split())
        assert "no code differs beyond chance" in text
        assert f"The share of traces without a code differs: {result}" in text


def test_a_trace_that_another_run_decided_is_not_undecided(annotate_cli, tmp_path, rubric):
    first = make_run(tmp_path / "first", rubric, study())
    again = [said("solo/p/0/f1", status="undecided", project="p", task="0")]
    second = make_run(tmp_path / "second", rubric, again)
    [one] = compared(annotate_cli, first, second, *ARM, "--by", "arm")
    assert one["n"] == [12] * 3
    assert not any("Undecided" in note for note in one["notes"])


@pytest.mark.parametrize("arms", [2, 3])
def test_a_calibration_beside_the_run_is_used_if_each_condition_has_labels(
    annotate_cli, calibrate, tmp_path, rubric, arms
):
    """The judge says alpha of 6, 3 and 1 of 12; people say beta of all traces: 0 % everywhere."""
    traces = [one for one in study() if one.trace_id[:4] in ("solo", "pair", "crew")[:arms]]
    run = make_run(tmp_path / "run", rubric, traces)
    calibrate(run, [label(one.trace_id, rubric, "beta") for one in traces])
    options = ("compare", run, *ARM, "--by", "arm")
    done = annotate_cli(*options)
    text = " ".join(done.out.split())
    assert "shares are corrected by" in done.err
    assert "corrected by the labels" in text
    assert f"Labels: {'crew 12, ' if arms == 3 else ''}pair 12, solo 12." in text
    [row] = [line for line in done.out.splitlines() if line.startswith("beta")]
    assert row.count(" 100 [") == arms
    full = " ".join(annotate_cli(*options, "-v").out.split())
    assert "thin (fewer than 5 labels where the judge gave this code" in full
    alone = annotate_cli(*options, "--no-calibration")
    assert "corrected by" not in alone.out + alone.err
    calibrate(
        run, [label(one.trace_id, rubric, "beta") for one in traces if "solo" in one.trace_id]
    )
    done = annotate_cli(*options)
    assert "is not used: no trace of " in done.err
    arm = {one.trace_id: one.trace_id[:4] for one in traces}
    with pytest.raises(an.AnnotatorError, match=r"^no trace of (pair|crew) has a label$"):
        an.compare(an.open_run(run), by=arm, calibration=run / "calibration.json", labelled=True)
    assert done.out == alone.out


def test_what_counted_is_said_where_one_trace_is_decided(annotate_cli, tmp_path, rubric):
    traces = [
        one if n == 0 else said(one.trace_id, status="undecided") for n, one in enumerate(study())
    ]
    run = make_run(tmp_path / "run", rubric, traces)
    done = annotate_cli("compare", run, *ARM, "--by", "arm")
    said_in_words(done)
    assert "only 1 decided trace counted; 35 undecided or failed do not" in " ".join(
        done.err.lower().split()
    )


def test_a_paper_of_two_columns(annotate_cli, run):
    """Three conditions with intervals are wider than a column (some 60 of its small characters),
    and what is below them is short and about the table alone.
    """
    done = annotate_cli("compare", run, *ARM, "--by", "arm", "--cluster", "none")
    assert "(--cluster none)" in done.out
    arguments = ("compare", run, *ARM, "--by", "arm", "--cluster", "none", "--pairs")
    out = annotate_cli(*arguments, "--format", "latex").out
    assert re.findall(r"begin\{(table\*?)\}", out) == ["table*", "table"]
    notes = re.findall(r"parbox\{\\linewidth\}\{(.*)\}", out)
    assert len(notes) == 2
    for note in notes:
        assert "Intervals: Wilson." in note
        assert re.search(r"-(\{\})?-[a-z]|annotate ", note) is None
        assert len(note) < 600
