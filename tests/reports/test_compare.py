"""`annotate compare`: two groups or two runs side by side, against published numbers."""

import csv
import io
import json
import math

import pytest
from scipy import stats

from annotator.reports.table import FORMATS
from tests.calibration.build import (
    calibration,
    label,
    make_rubric,
    make_run,
    row_of,
    said,
    said_in_words,
)


def pairs(both, first_only, second_only, neither):
    """Traces of two models on the same tasks: alpha as the counts say, else beta."""
    flags = [(1, 1)] * both + [(1, 0)] * first_only + [(0, 1)] * second_only + [(0, 0)] * neither
    return [
        said(
            f"{model}/coop/p/{n}/f1_f2",
            "alpha" if flag else "beta",
            project="p",
            task=str(n),
            model=model,
        )
        for n, two in enumerate(flags)
        for model, flag in zip(("one", "two"), two, strict=True)
    ]


def compared(annotate_cli, *arguments, command="compare"):
    done = annotate_cli(command, *arguments, "--format", "json")
    assert done.code == 0, done.err
    values = json.loads(done.out, parse_constant=lambda word: pytest.fail(word))
    return values[0], {row["code"]: row for row in values[0]["rows"]}


def numbers(row, name="difference"):
    return [pytest.approx(row[name][key], abs=1e-9) for key in ("value", "low", "high")]


BY_MODEL = ("--by", "model", "--values", "one", "two")
ALONE = ("--cluster", "none")


# Pairs


@pytest.mark.parametrize(
    ("counts", "expected", "p"),
    [
        # Newcombe, Stat. Med. 17 (1998) 2635, table III, method 10, as in stats_golden_dev.json;
        # McNemar by hand: 2 * (1 + 14 + 91) / 2^14 for 12 against 2, 2 / 2^14 for 14 against 0.
        ((36, 12, 2, 0), (0.2, 0.05692958400323889, 0.3404276029749408), 212 / 2**14),
        ((18, 12, 2, 18), (0.2, 0.05617184398825317, 0.3289759688858016), 212 / 2**14),
        ((35, 14, 0, 1), (0.28, 0.14607390586463304, 0.41746247415539417), 2 / 2**14),
        ((30, 0, 0, 24), (0.0, -0.035837621934486134, 0.035837621934486155), 1),
    ],
)
def test_pairs(annotate_cli, tmp_path, rubric, counts, expected, p):
    run = make_run(tmp_path / "run", rubric, pairs(*counts))
    one, rows = compared(annotate_cli, run, *BY_MODEL, *ALONE)
    assert (one["kind"], one["n"], one["alone"]) == ("paired", [sum(counts)] * 2, [0, 0])
    assert numbers(rows["alpha"]) == list(expected)
    assert rows["alpha"]["test"]["p"] == pytest.approx(p)
    assert (rows["alpha"]["shares"][0]["k"], rows["alpha"]["shares"][1]["k"]) == (
        counts[0] + counts[1],
        counts[0] + counts[2],
    )
    # beta is the other side of it.
    value, low, high = expected
    assert numbers(rows["beta"]) == [pytest.approx(x, abs=1e-9) for x in (-value, -high, -low)]
    # Two tests: alpha and beta; gamma and none are nowhere and cannot be tested. Holm: twice p, but
    # not of what no pair differs in.
    assert one["tests"] == (0 if p == 1 else 2)
    assert rows["alpha"]["adjusted"] == (None if p == 1 else pytest.approx(2 * p))
    assert (rows["gamma"]["test"]["p"], rows["gamma"]["adjusted"]) == (None, None)
    back, again = compared(annotate_cli, run, "--by", "model", "--values", "two", "one", *ALONE)
    assert again["alpha"]["difference"]["value"] == pytest.approx(-value)
    assert back["values"] == ["two", "one"]


def test_holm_by_hand(annotate_cli, tmp_path, rubric):
    """Discordant alpha 8:0 (p 1/128), beta 0:6 (1/32), none 1:3 (5/8): times 3, 2, 1."""
    codes = [("alpha", None)] * 1 + [("alpha", "beta")] * 5 + [("alpha", None)] * 2
    codes += [(None, "beta")] * 1 + [("gamma", "gamma")] * 4
    traces = [
        said(f"{m}/p/{n}/f", *([code] if code else []), project="p", task=str(n), model=m)
        for n, two in enumerate(codes)
        for m, code in zip(("one", "two"), two, strict=True)
    ]
    run = make_run(tmp_path / "run", rubric, traces)
    one, rows = compared(annotate_cli, run, *BY_MODEL, *ALONE)
    p = {code: rows[code]["test"]["p"] for code in rows}
    assert p == {
        "alpha": pytest.approx(1 / 128),
        "beta": pytest.approx(1 / 32),
        "gamma": 1.0,  # McNemar's by convention, in no family
        "none": pytest.approx(5 / 8),
    }
    assert one["tests"] == 3
    assert {code: rows[code]["adjusted"] for code in rows} == {
        "alpha": pytest.approx(3 / 128),
        "beta": pytest.approx(2 / 32),
        "gamma": None,
        "none": pytest.approx(5 / 8),
    }


def test_traces_without_a_partner_are_left_out_and_said(annotate_cli, tmp_path, rubric):
    more = [
        said(f"one/coop/p/{n}/f1_f2", "alpha", project="p", task=str(n), model="one")
        for n in range(50, 57)
    ]
    more += [said("two/coop/p/60/f1_f2", project="p", task="60", model="two")]
    run = make_run(tmp_path / "run", rubric, pairs(36, 12, 2, 0) + more)
    one, rows = compared(annotate_cli, run, *BY_MODEL)
    assert (one["kind"], one["n"], one["alone"]) == ("paired", [50, 50], [7, 1])
    assert rows["alpha"]["difference"]["value"] == pytest.approx(0.2)
    out = annotate_cli("compare", run, *BY_MODEL).out
    assert (
        "judged traces without a judged partner are in no share: 7 of one and 1 of two."
        in " ".join(out.split())
    )


def test_a_skipped_or_failed_trace_is_no_partner(annotate_cli, tmp_path, rubric):
    traces = pairs(36, 12, 2, 0)
    traces[0] = said(traces[0].trace_id, status="skipped", **traces[0].attributes)
    traces[3] = said(traces[3].trace_id, status="failed", **traces[3].attributes)
    run = make_run(tmp_path / "run", rubric, traces)
    one, rows = compared(annotate_cli, run, *BY_MODEL)
    assert (one["n"], one["alone"]) == ([48, 48], [1, 1])
    assert (rows["alpha"]["shares"][0]["k"], rows["alpha"]["shares"][1]["k"]) == (46, 36)


# Without pairs


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        # Newcombe, Stat. Med. 17 (1998) 873, table II, method 10, as in stats_golden_dev.json.
        ((56, 70, 48, 80), (0.2, 0.052431472402364815, 0.3338726540369059)),
        ((6, 7, 2, 7), (4 / 7, 0.058227927482312314, 0.8062496375242278)),
        ((0, 10, 0, 20), (0.0, -0.16112515805281935, 0.27753279986288926)),
        ((10, 10, 0, 20), (1.0, 0.6790860371419147, 1.0)),
    ],
)
def test_independent_groups(annotate_cli, tmp_path, rubric, counts, expected):
    k1, n1, k2, n2 = counts
    traces = [said(f"a{n}", *(["alpha"] if n < k1 else []), model="one") for n in range(n1)]
    traces += [said(f"b{n}", *(["alpha"] if n < k2 else []), model="two") for n in range(n2)]
    run = make_run(tmp_path / "run", rubric, traces)
    one, rows = compared(annotate_cli, run, *BY_MODEL)
    assert (one["kind"], one["n"]) == ("independent", [n1, n2])
    assert numbers(rows["alpha"]) == list(expected)
    assert rows["alpha"]["test"]["name"] == "fisher"


@pytest.mark.parametrize("sides", [("True", "False"), ("true", "false"), ("TRUE", "False")])
def test_truth_in_any_case(annotate_cli, tmp_path, rubric, sides):
    traces = [said(f"a{n}", "alpha", passed=True) for n in range(4)]
    traces += [said(f"b{n}", "beta", passed=False) for n in range(3)]
    run = make_run(tmp_path / "run", rubric, traces)
    one, rows = compared(annotate_cli, run, "--by", "passed", "--values", *sides)
    assert (one["values"], one["n"]) == ([*sides], [4, 3])
    assert (rows["alpha"]["shares"][0]["k"], rows["beta"]["shares"][1]["k"]) == (4, 3)


def same_tasks(second=40):
    """Two traces of each of 20 tasks for one, ``second`` traces in all for two; no partners."""
    traces = [
        said(
            f"one/p/{n // 2}/a{n % 2}",
            *(["alpha"] if n % 4 < 3 else []),
            project="p",
            task=str(n // 2),
            model="one",
        )
        for n in range(40)
    ]
    return traces + [
        said(
            f"two/p/{n // 2}/b{n % 2}",
            *(["alpha"] if n % 4 < 1 else []),
            project="p",
            task=str(n // 2),
            model="two",
        )
        for n in range(second)
    ]


def test_the_same_tasks_without_partners(annotate_cli, tmp_path, rubric):
    """30 of 40 against 10 of 40; of each task 2 and 1, or 1 and 0: no task differs from another, so
    limits are Wilson's of 30 and of 10 of 40, Student's t on 19, combined. By swapping tasks only
    two of 2^20 arrangements differ as much, and none of 10,000 drawn ones: p = 1 / 10,001.
    """
    run = make_run(tmp_path / "run", rubric, same_tasks())
    one, rows = compared(annotate_cli, run, *BY_MODEL)
    assert one["kind"] == "same tasks"
    z = stats.t(19).ppf(0.975)
    ends = [wilson_of(k / 40, 40, z) for k in (30, 10)]
    low = math.hypot(0.75 - ends[0][0], ends[1][1] - 0.25)
    high = math.hypot(ends[0][1] - 0.75, 0.25 - ends[1][0])
    assert numbers(rows["alpha"]) == [0.5, 0.5 - low, 0.5 + high]
    assert rows["alpha"]["test"]["p"] == pytest.approx(1 / 10_001)
    assert compared(annotate_cli, run, *BY_MODEL)[1] == rows
    assert annotate_cli("compare", run, *BY_MODEL).out.count("swaps the sides of whole tasks") == 1


def wilson_of(share, n, z):
    centre = (share + z * z / 2 / n) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / 4 / n / n)
    return centre - half, centre + half


def test_pairs_of_which_some_tell_no_task_stay_pairs(annotate_cli, tmp_path, rubric):
    """Two runs alike on all traces, of which half tell no task: nothing differs. Were those taken
    apart, each would be a task of one side.
    """
    runs = []
    for name in ("first", "second"):
        traces = [
            said(f"t{n}", "alpha" if n % 3 else "beta", **({"task": str(n)} if n % 2 else {}))
            for n in range(40)
        ]
        runs.append(make_run(tmp_path / name, rubric, traces))
    one, rows = compared(annotate_cli, *runs, "--by", "run", "--values", "first", "second")
    assert one["kind"] == "paired"
    assert (rows["alpha"]["test"]["p"], rows["alpha"]["test"]["reason"]) == (
        1.0,
        "no cluster differs",
    )
    assert rows["alpha"]["difference"]["inputs"]["shared_clusters"] == 40


def test_a_side_with_one_task_of_many(annotate_cli, tmp_path, rubric):
    """No interval and no p from one task a side; nothing is NaN."""
    run = make_run(tmp_path / "run", rubric, same_tasks(second=2))
    one, rows = compared(annotate_cli, run, *BY_MODEL)
    assert one["kind"] == "same tasks"
    gap, test = rows["alpha"]["difference"], rows["alpha"]["test"]
    assert (gap["value"], gap["low"], gap["high"]) == (pytest.approx(0.75 - 0.5), None, None)
    assert test["p"] is None
    for words in (gap["reason"], test["reason"]):
        assert words == "1 cluster on a side, fewer than 6"
    assert any(
        note.startswith("Fewer than 6 tasks on a side: no interval") for note in one["notes"]
    )
    assert "nan" not in annotate_cli("compare", run, *BY_MODEL).out.lower()


# Runs and judges


def two_runs(tmp_path, rubric, counts=(36, 12, 2, 0), **more):
    flags = [(1, 1)] * counts[0] + [(1, 0)] * counts[1] + [(0, 1)] * counts[2]
    flags += [(0, 0)] * counts[3]
    folders = []
    for side, (name, judge) in enumerate([("first", "llm:a"), ("second", "llm:b")]):
        traces = [
            said(f"t{n}", "alpha" if two[side] else "beta", project="p", task=str(n // 5))
            for n, two in enumerate(flags)
        ]
        folders.append(make_run(tmp_path / name, rubric, traces, judge=judge, **more))
    return folders


@pytest.mark.parametrize(
    "options",
    [
        ("--by", "run", "--values", "first", "second"),
        ("--by", "judge", "--values", "llm:a", "llm:b"),
    ],
)
def test_runs_and_judges_are_paired_by_trace(annotate_cli, tmp_path, rubric, options):
    runs = two_runs(tmp_path, rubric)
    one, rows = compared(annotate_cli, *runs, *options, *ALONE)
    assert (one["kind"], one["n"]) == ("paired", [50, 50])
    assert numbers(rows["alpha"]) == [0.2, 0.05692958400323889, 0.3404276029749408]
    _, same = compared(annotate_cli, *reversed(runs), *options, *ALONE)
    assert same == rows


@pytest.mark.parametrize("order", [1, -1])
def test_a_code_that_one_judge_has_no_rule_for_is_not_compared(
    annotate_cli, tmp_path, rubric, order
):
    """Not 0 against 10 of 20: one of the two does not look for beta at all."""
    rules = make_run(
        tmp_path / "r", rubric, [said(f"t{n}") for n in range(20)], judge="rules", known=["alpha"]
    )
    llm = make_run(
        tmp_path / "l", rubric, [said(f"t{n}", *(["beta"] if n % 2 else [])) for n in range(20)]
    )
    runs = [rules, llm][::order]
    _, rows = compared(annotate_cli, *runs, "--by", "judge", "--values", "rules", "llm:m")
    beta = rows.get("beta")
    assert beta is None or beta["difference"]["value"] is None
    assert "gamma" not in rows or rows["gamma"]["difference"]["value"] is None


@pytest.mark.parametrize("name", ["table", "csv", "json", "md", "latex"])
def test_a_part_of_a_run_is_said_to_be_one(annotate_cli, tmp_path, rubric, name):
    first, _ = two_runs(tmp_path, rubric)
    _, second = two_runs(tmp_path / "part", rubric, status="interrupted", limit=9)
    options = ("--by", "run", "--values", "first", "second", "--format", name)
    done = annotate_cli("compare", first, second, *options)
    assert done.code == 0, done.err
    words = done.out.replace("{}", "")
    assert "second: The run is not finished (status: interrupted): this is a part of it." in words
    assert "second: Only the first 9 traces were read" in words
    assert "first: " not in words
    if name in ("csv", "json"):
        for run in (first, second):
            assert json.loads((run / "run.json").read_text())["id"] in done.out


def test_runs_that_count_traces_by_other_settings(annotate_cli, tmp_path, rubric):
    """The shares differ by the settings alone, so a terminal shows it first."""
    first, _ = two_runs(tmp_path, rubric)
    _, second = two_runs(tmp_path / "new", rubric, least_read=0.5, rejected="none")
    done = annotate_cli("compare", first, second, "--by", "run")
    assert (
        'second does not count traces as first does: rejected: was "undecided", is now "none";'
        " least_read: was 0.9, is now 0.5."
    ) in " ".join(done.out.split())


def test_runs_of_other_rubrics_cannot_be_compared(annotate_cli, tmp_path, rubric):
    one, _ = two_runs(tmp_path, rubric)
    newer = make_rubric(tmp_path, version=2)
    other = make_run(tmp_path / "newer", newer, [said("t1", "alpha")])
    done = annotate_cli("compare", one, other, "--by", "run", "--values", "first", "newer")
    said_in_words(done)
    assert "in common" in done.err


# The command


def test_two_runs_are_compared_by_themselves(annotate_cli, tmp_path, rubric):
    runs = two_runs(tmp_path, rubric)
    for name in FORMATS:
        done = annotate_cli("compare", *runs, "--format", name)
        hint = f"next: annotate view {runs[0]} {runs[1]}\n" if name == "table" else ""
        assert (done.code, done.err) == (0, hint)
    done = annotate_cli("compare", *runs, "--format", "csv", "--out", "x.csv")
    assert (done.code, done.out, done.err) == (0, "", "written to x.csv\n")
    assert len((tmp_path / "x.csv").read_text().splitlines()) > 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "one run has nothing to compare: give two, or --by ATTRIBUTE"),
        (("--by", "project"), "every trace judged by faults has project = p: nothing to compare"),
        (("--by", "modle"), "no trace judged by faults has this attribute, only model, project"),
        (("--by", "model", "--values", "one", "one"), "both sides of the comparison are the same"),
        (("--by", "model", "--values", "one", "six"), "no trace judged by faults has model = six"),
        (("--calibration", "gone.json", *BY_MODEL), "gone.json"),
        ((*BY_MODEL, "--cluster", "taks"), "--cluster taks"),
        (("--by", "run", "--values", "run", "nowhere"), "nowhere"),
    ],
)
def test_compare_says_what_is_missing(annotate_cli, tmp_path, rubric, options, words):
    done = annotate_cli("compare", make_run(tmp_path / "run", rubric, pairs(3, 2, 1, 4)), *options)
    said_in_words(done)
    assert (done.code, done.out, words in done.err) == (2, "", True)


def test_a_rubric_with_nothing_on_a_side_is_named_and_the_others_compared(annotate_cli, tmp_path):
    rubrics = [make_rubric(tmp_path, id=name) for name in ("every", "half")]
    traces = pairs(3, 2, 1, 4)
    half = [
        said(one.trace_id, status="skipped", model=model)
        if model == "two"
        else said(one.trace_id, *one.codes, model=model)
        for one in traces
        for model in [one.attributes["model"]]
    ]
    run = make_run(tmp_path / "run", rubrics[0], traces, more=[(rubrics[1], half)])
    done = annotate_cli("compare", run, *BY_MODEL, "--format", "json")
    assert done.code == 0
    assert [value["rubric"] for value in json.loads(done.out)] == ["every"]
    [line] = done.err.splitlines()
    assert line.startswith("not compared: no trace judged by half has model = two; there are one (")


# Formats


def test_the_same_digits_in_every_format(annotate_cli, tmp_path, rubric):
    run = make_run(tmp_path / "run", rubric, pairs(36, 12, 2, 0))

    def out(name):
        return annotate_cli("compare", run, *BY_MODEL, *ALONE, "--format", name, "-v").out

    line = next(line for line in out("table").splitlines() if line.startswith("alpha"))
    assert line.split() == [
        *("alpha", "96.0", "[86.5,", "98.9]", "76.0", "[62.6,", "85.7]"),
        *("+20.0", "[+5.7,", "+34.0]", "0.0129", "0.0259"),
    ]
    line = next(line for line in out("md").splitlines() if line.startswith("| alpha"))
    assert [cell.strip() for cell in line.split("|")[1:-1]] == [
        *("alpha", "96.0 [86.5, 98.9]", "76.0 [62.6, 85.7]", "+20.0 [+5.7, +34.0]"),
        *("0.0129", "0.0259"),
    ]
    row, _, pair = [x for x in csv.DictReader(io.StringIO(out("csv"))) if x["code"] == "alpha"]
    assert [row[x] for x in ("count", "n", "kind")] == ["48", "50", "paired"]
    gap = [float(pair[x]) for x in ("value", "low", "high")]
    assert gap == pytest.approx([0.2, 0.057, 0.340], abs=5e-4)
    assert float(row["p"]) == pytest.approx(212 / 2**14)
    assert float(row["p_holm"]) == pytest.approx(424 / 2**14)
    for name in ("table", "md"):
        assert "Holm over 2 tests" in out(name)
        assert "errors are not corrected" in out(name)


# Corrected differences


def labelled(rubric, traces, every=2):
    """A person agrees with the judge on alpha in 4 of 5 labelled traces."""
    return [
        label(one.trace_id, rubric, "gamma" if n % 10 == 0 else one.primary)
        for n, one in enumerate(traces)
        if n % every == 0 and one.primary
    ]


def limits(value):
    return tuple(value[x] for x in ("value", "low", "high"))


def test_corrected_differences_of_tasks_that_both_sides_have(
    annotate_cli, calibrate, tmp_path, rubric
):
    """Two runs of other traces of the same tasks, each with its labels and calibration: the
    difference of the corrected shares, and the sum of their variances less what tasks have in
    common, by the influences that the docs name, written out here.
    """
    runs = two_runs(tmp_path, rubric)
    second = runs[1] / "annotations.jsonl"
    second.write_text(second.read_text().replace('"trace_id": "', '"trace_id": "other/'))
    files, sides = [], []
    for n, run in enumerate(runs):
        lines = [json.loads(line) for line in (run / "annotations.jsonl").read_text().splitlines()]
        rows = [
            label(line["trace_id"], rubric, "gamma" if m % 7 == n else line["primary"])
            for m, line in enumerate(lines)
            if m % 2 == n
        ]
        people = {row["trace_id"]: row["primary"] for row in rows}
        sides.append([(m // 5, line, people.get(line["trace_id"])) for m, line in enumerate(lines)])
        files += calibrate(run, rows)
    options = ("--by", "run", "--values", "first", "second")
    _, rows = compared(annotate_cli, *runs, *files, *options)
    for code in ("alpha", "beta"):
        shares = [row_of(calibration(run / "calibration.json"), code)["corrected"] for run in runs]
        u = [influence_by_hand(side, code) for side in sides]
        together = 10 / 9 * sum(a * b for a, b in zip(*u, strict=True))
        t, z = stats.t(9).ppf(0.975), stats.norm.ppf(0.975)
        sd = [share["inputs"]["posterior_sd"] * z / t for share in shares]
        error = math.sqrt(sd[0] ** 2 + sd[1] ** 2 - 2 * together)
        gap = shares[0]["value"] - shares[1]["value"]
        found = rows[code]
        assert limits(found["corrected_difference"]) == pytest.approx(
            (gap, gap - t * error, gap + t * error)
        )
        assert found["corrected_test"]["p"] == pytest.approx(2 * stats.t(9).sf(abs(gap) / error))
    tested = [row["corrected_test"]["p"] for row in rows.values()]
    smallest = min(p for p in tested if p is not None)
    adjusted = [row["corrected_adjusted"] for row in rows.values()]
    assert min(p for p in adjusted if p is not None) == pytest.approx(
        smallest * sum(p is not None for p in tested)
    )
    by_judge = ("--by", "judge", "--values", "llm:a", "llm:b")
    _, again = compared(annotate_cli, *runs, *files, *by_judge)
    # The calibrations are given, and each judge has one run: the same corrected differences.
    assert limits(again["alpha"]["corrected_difference"]) == limits(
        rows["alpha"]["corrected_difference"]
    )


def influence_by_hand(side, code):
    """What each of 10 tasks adds to the corrected share: statistics.md, section 11, point 2."""
    flags = [line["primary"] == code for _, line, _ in side]
    cells = {
        flag: [human == code for (_, _, human), f in zip(side, flags, strict=True) if f == flag]
        for flag in (True, False)
    }
    labelled = {
        flag: [
            human == code
            for (_, _, human), f in zip(side, flags, strict=True)
            if f == flag and human is not None
        ]
        for flag in cells
    }
    p = {flag: sum(values) / len(values) for flag, values in labelled.items()}
    weight = {flag: len(values) / len(side) for flag, values in cells.items()}
    share = sum(weight[flag] * p[flag] for flag in p)
    u = [0.0] * 10
    for (task, _, human), flag in zip(side, flags, strict=True):
        u[task] += (p[flag] - share) / len(side)
        if human is not None:
            u[task] += weight[flag] * ((human == code) - p[flag]) / len(labelled[flag])
    return u


def test_runs_of_the_same_traces_are_not_compared_by_their_labels(
    annotate_cli, calibrate, tmp_path, rubric
):
    """What is true of a trace is so whoever judged it: a corrected difference would be noise."""
    runs = two_runs(tmp_path, rubric)
    rows = [label(f"t{n}", rubric, "alpha") for n in range(50)]
    files = [part for run in runs for part in calibrate(run, rows)]
    for by in (("run", "first", "second"), ("judge", "llm:a", "llm:b")):
        one, rows = compared(annotate_cli, *runs, *files, "--by", by[0], "--values", *by[1:])
        assert one["kind"] == "paired"
        assert {row["corrected_difference"] for row in rows.values()} == {None}
        assert any("same true shares" in note for note in one["notes"])


def test_a_trace_in_two_runs_is_not_counted_twice(annotate_cli, tmp_path, rubric):
    traces = pairs(3, 2, 1, 4)
    runs = [make_run(tmp_path / name, rubric, traces) for name in ("first", "second")]
    done = annotate_cli("compare", *runs, *BY_MODEL)
    said_in_words(done)
    assert "--by run" in done.err
    said_in_words(annotate_cli("compare", runs[0], runs[0], *BY_MODEL))


def test_holm_counts_a_code_of_one_trace(annotate_cli, tmp_path, rubric):
    """Fisher by hand: alpha 2 of 10 against 0, 2 * 45 / 190; gamma 1 of 10 against 0, p = 1, which
    is a result and no convention; beta 7 against 10, 2 * 120 / 1140: the smallest, times 3.
    """
    codes = {"one": ["alpha"] * 2 + ["gamma"] + ["beta"] * 7, "two": ["beta"] * 10}
    traces = [said(f"{m}/{n}", code, model=m) for m in codes for n, code in enumerate(codes[m])]
    one, rows = compared(annotate_cli, make_run(tmp_path / "run", rubric, traces), *BY_MODEL)
    p = [rows[code]["test"]["p"] for code in ("alpha", "gamma", "beta")]
    assert p == pytest.approx([90 / 190, 1.0, 240 / 1140])
    assert one["tests"] == 3
    assert rows["beta"]["adjusted"] == pytest.approx(3 * 240 / 1140)
    assert [rows[code]["adjusted"] for code in ("alpha", "gamma")] == pytest.approx([180 / 190, 1])


def test_groups_of_one_run_are_corrected_by_their_own_labels(
    annotate_cli, calibrate, tmp_path, rubric
):
    traces = pairs(36, 12, 2, 0)
    run = make_run(tmp_path / "run", rubric, traces)
    options = calibrate(run, labelled(rubric, traces, every=3))
    _, rows = compared(annotate_cli, run, *options, *BY_MODEL)
    shares = corrected_of_groups(annotate_cli, run, options)
    gap = rows["alpha"]["corrected_difference"]
    assert gap["value"] == pytest.approx(shares[0]["value"] - shares[1]["value"])
    assert -1 < gap["low"] < gap["value"] < gap["high"] < 1
    out = annotate_cli("compare", run, *options, *BY_MODEL, "--format", "csv").out
    *_, alpha = [row for row in csv.DictReader(io.StringIO(out)) if row["code"] == "alpha"]
    shown = [float(alpha[f"corrected_{name}"]) for name in ("value", "low", "high")]
    assert shown == list(limits(rows["alpha"]["corrected_difference"]))
    test = rows["alpha"]["corrected_test"]
    assert float(alpha["corrected_p"]) == pytest.approx(test["p"])
    assert float(alpha["corrected_p_holm"]) == pytest.approx(rows["alpha"]["corrected_adjusted"])
    line = next(
        line
        for line in annotate_cli("compare", run, *options, *BY_MODEL, "-v").out.splitlines()
        if line.startswith("alpha")
    )
    assert line.split()[-2] == f"{test['p']:.4f}"


def test_a_code_that_every_trace_has_is_no_test(annotate_cli, tmp_path):
    rubric = make_rubric(tmp_path, "many", id="many")
    traces = [
        said(f"{m}/{n}", "alpha" if n < k else "beta", "gamma", model=m)
        for m, k in (("one", 8), ("two", 2))
        for n in range(10)
    ]
    one, rows = compared(annotate_cli, make_run(tmp_path / "run", rubric, traces), *BY_MODEL)
    test = rows["gamma"]["test"]
    assert (test["p"], test["reason"]) == (None, "every trace of either side has it")
    assert one["tests"] == 2
    assert rows["alpha"]["adjusted"] == pytest.approx(2 * rows["alpha"]["test"]["p"])


def test_groups_of_codes_have_rows_of_their_own(annotate_cli, calibrate, tmp_path):
    """A trace with two codes of a group counts once: Newcombe's table III again, for the group.

    Its corrected difference is that of the corrected shares of the group in the plain table, and
    Holm counts the two groups apart from the codes.
    """
    groups = {"alpha": "work", "beta": "work", "gamma": "talk"}
    rubric = make_rubric(tmp_path, "many", groups, groups=groups)
    traces = [
        said(one.trace_id, *(codes if one.primary == "alpha" else ["gamma"]), **one.attributes)
        for codes in [("alpha", "beta"), ("beta",)]
        for one in pairs(36, 12, 2, 0)
        if (one.attributes["model"] == "one") == (len(codes) == 2)
    ]
    run = make_run(tmp_path / "run", rubric, traces)
    comparison, rows = compared(annotate_cli, run, *BY_MODEL, *ALONE)
    group_rows = {row["code"]: row for row in comparison["code_groups"]}
    assert list(group_rows) == ["work (group)", "talk (group)"]
    work = group_rows["work (group)"]
    assert (work["shares"][0]["k"], work["shares"][1]["k"]) == (48, 38)
    assert numbers(work) == [0.2, 0.05692958400323889, 0.3404276029749408]
    assert work["test"]["p"] == pytest.approx(212 / 2**14)
    assert work["adjusted"] == pytest.approx(424 / 2**14)
    assert rows["beta"]["shares"][1]["k"] == 38
    assert rows["alpha"]["adjusted"] == pytest.approx(3 * rows["alpha"]["test"]["p"])
    out = annotate_cli("compare", run, *BY_MODEL, *ALONE, "-v").out
    assert [line for line in out.splitlines() if line.startswith("work (group)  96.0 [")]

    options = calibrate(run, labelled(rubric, traces, every=3))
    comparison, _ = compared(annotate_cli, run, *options, *BY_MODEL)
    done = annotate_cli("report", run, *options, "--by", "model", "--format", "json")
    shares = [
        next(row for row in table["code_groups"] if row["code"] == "work")["corrected"]
        for table in sorted(json.loads(done.out), key=lambda table: table["group"]["value"])
    ]
    gap = comparison["code_groups"][0]["corrected_difference"]
    assert gap["value"] == pytest.approx(shares[0]["value"] - shares[1]["value"])


def test_each_side_is_corrected_by_its_own_labels(annotate_cli, calibrate, tmp_path, rubric):
    """By hand: 100 traces a side, each of its own task. The judge says alpha of 60 and of 20; of 15
    and 25 labelled ones 10 and 5 are flagged, of which 9 and 4 are alpha, and of the others 1
    and 2: .6 * 9/10 + .4 * 1/5 and .2 * 4/5 + .8 * 2/20.
    """
    traces, rows = [], []
    for model, flagged, hits, misses in (
        ("one", 60, (10, 9), (5, 1)),
        ("two", 20, (5, 4), (20, 2)),
    ):
        for n in range(100):
            code = "alpha" if n < flagged else "beta"
            name = f"{model}/{n}"
            traces.append(said(name, code, project=model, task=str(n), model=model))
            at, (labels, right) = (n, hits) if n < flagged else (n - flagged, misses)
            if at < labels:
                rows.append(label(name, rubric, "alpha" if at < right else "beta"))
    run = make_run(tmp_path / "run", rubric, traces)
    options = calibrate(run, rows)
    one, found = compared(annotate_cli, run, *options, *BY_MODEL, command="compare")
    assert one["kind"] == "independent"
    assert found["alpha"]["corrected_difference"]["method"] == "post-stratified"
    assert found["alpha"]["corrected_difference"]["value"] == pytest.approx(0.62 - 0.24)
    assert "(15 and 25)" in " ".join(one["notes"])


def test_undecided_traces_count_in_corrected_differences(annotate_cli, calibrate, tmp_path, rubric):
    """100 traces a side, each of its own task; 40 and 20 flagged, 20 undecided each. All flagged
    labels are alpha, no other is, and of the undecided 3 of 4 and 1 of 4: .4 + .2 * 3/4 less
    .2 + .2 / 4. A side without labels of its undecided traces takes them out of both.
    """
    traces, rows = [], []
    for model, flagged, right in (("one", 40, 3), ("two", 20, 1)):
        for n in range(100):
            name, status = f"{model}/{n}", "undecided" if n >= 80 else None
            codes = () if status else ("alpha" if n < flagged else "beta",)
            at = {"project": model, "task": str(n), "model": model}
            traces.append(said(name, *codes, status=status, **at))
            if n % 5 == 0:
                code = "alpha" if n < flagged or 80 <= n < 80 + 5 * right else "beta"
                rows.append(label(name, rubric, code))
    run = make_run(tmp_path / "run", rubric, traces)
    one, found = compared(annotate_cli, run, *calibrate(run, rows), *BY_MODEL)
    gap = found["alpha"]["corrected_difference"]
    assert gap["value"] == pytest.approx(0.55 - 0.25)
    assert gap["low"] < 0.55 - 0.25 < gap["high"]
    assert one["n"] == [80, 80]
    assert [
        note for note in one["notes"] if "They count undecided traces, too: one 20, two 20." in note
    ]
    half = [row for row in rows if row["trace_id"] not in ("two/80", "two/85", "two/90", "two/95")]
    one, found = compared(annotate_cli, run, *calibrate(run, half), *BY_MODEL)
    assert found["alpha"]["corrected_difference"]["value"] == pytest.approx(40 / 80 - 20 / 80)
    assert [note for note in one["notes"] if "leave out undecided traces: in a condition" in note]


def test_pairs_of_which_one_is_undecided(annotate_cli, calibrate, tmp_path, rubric):
    """45 pairs that are all alike; 15 more whose second trace failed and 5 whose second trace is
    there twice, once undecided. None of these has a label: the corrected difference is that of 50
    pairs, 0, and its interval has a width.
    """
    traces = pairs(25, 0, 0, 20)
    tasks = [(f"x{n}", "alpha", n) for n in range(20)]
    for task, code, n in tasks:
        at = {"project": "p", "task": task}
        traces.append(said(f"one/coop/p/{task}/f1_f2", code, model="one", **at))
        name = f"two/coop/p/{task}/f1_f2"
        if n < 15:
            traces.append(said(name, status="failed", model="two", **at))
        else:
            traces.append(said(name, code, model="two", **at))
            traces.append(said(f"again/{name}", status="undecided", model="two", **at))
    run = make_run(tmp_path / "run", rubric, traces)
    rows = [label(one.trace_id, rubric, one.primary) for one in traces if one.primary]
    _, found = compared(annotate_cli, run, *calibrate(run, rows), *BY_MODEL)
    gap = found["alpha"]["corrected_difference"]
    assert gap["value"] == pytest.approx(0)
    assert gap["n"] == 100
    assert -0.1 < gap["low"] < 0 < gap["high"] < 0.1
    assert found["alpha"]["corrected_test"]["p"] == pytest.approx(1)


def test_undecided_pairs_whose_labels_are_of_others(annotate_cli, calibrate, tmp_path, rubric):
    """20 pairs that are alike, and 5 of which both are undecided, without labels; the undecided
    traces with labels have no partner. So the shares are of the 20 pairs.
    """
    traces = pairs(10, 0, 0, 10)
    rows = [label(one.trace_id, rubric, one.primary) for one in traces]
    for model in ("one", "two"):
        for n in range(5):
            at = {"project": "p", "task": f"u{n}", "model": model}
            traces.append(said(f"{model}/coop/p/u{n}/f1_f2", status="undecided", **at))
        name, at = f"{model}/alone/f", {"project": "p", "task": model, "model": model}
        traces.append(said(name, status="undecided", **at))
        rows.append(label(name, rubric, "alpha"))
    run = make_run(tmp_path / "run", rubric, traces)
    one, found = compared(annotate_cli, run, *calibrate(run, rows), *BY_MODEL)
    assert one["kind"] == "paired"
    gap = found["alpha"]["corrected_difference"]
    assert (gap["n"], gap["inputs"]["first"], gap["inputs"]["second"]) == (40, 0.5, 0.5)
    assert [note for note in one["notes"] if "leave out undecided traces" in note]


def test_a_trace_that_failed_in_one_run_and_was_judged_in_another(annotate_cli, tmp_path, rubric):
    runs = []
    for k, model in enumerate(("one", "two")):
        traces = [said(f"{model}/{n}", "alpha", model=model) for n in range(8)]
        other = ("two", "one")[k]
        traces.append(said(f"{other}/0", status="failed", model=other))
        runs.append(make_run(tmp_path / model, rubric, traces, judge=f"llm:{model}"))
    one, _ = compared(annotate_cli, *runs, *BY_MODEL)
    assert one["n"] == [8, 8]


def test_a_few_flagged_traces_without_labels_leave_a_difference(
    annotate_cli, calibrate, tmp_path, rubric
):
    """Of gamma, given to 2 of 100 and to none, no trace is labelled: half of the two, so .01, and
    .01 more to either side; the limits are those without any, and with both.
    """
    traces, rows = [], []
    for model, gammas in (("one", 2), ("two", 0)):
        for n in range(100):
            code = "gamma" if n < gammas else "alpha" if n % 2 else "beta"
            at = {"project": model, "task": str(n), "model": model}
            traces.append(said(f"{model}/{n}", code, **at))
            if n % 4 == 3:
                rows.append(label(f"{model}/{n}", rubric, "alpha"))
    run = make_run(tmp_path / "run", rubric, traces)
    _, found = compared(annotate_cli, run, *calibrate(run, rows), *BY_MODEL)
    gap = found["gamma"]["corrected_difference"]
    assert gap["value"] == pytest.approx(0.01)
    df = stats.t(gap["inputs"]["df"])
    half = df.ppf(0.975) * gap["inputs"]["se"] + 0.01
    assert (gap["low"], gap["high"]) == pytest.approx((0.01 - half, 0.01 + half))
    assert found["gamma"]["corrected_test"]["p"] == 1  # no more than what is not known


@pytest.mark.parametrize(
    ("project", "tasks", "gap"),
    [
        # Of tasks that both sides have: 2/3 of 7/10 and 1/3 of 1/5 less 1/2 of 6/11; with a task
        # more 9/12, 1/6 and 7/12.
        ("p", 5, 2 / 3 * 0.7 + 1 / 3 * 0.2 - 3 / 11),
        ("p", 6, 2 / 3 * 9 / 12 + 1 / 3 / 6 - 7 / 24),
        # Of other tasks the same: each side by its own labels.
        ("", 5, 2 / 3 * 0.7 + 1 / 3 * 0.2 - 3 / 11),
        ("", 6, 2 / 3 * 9 / 12 + 1 / 3 / 6 - 7 / 24),
    ],
)
def test_corrected_differences_of_few_tasks_have_no_test(
    annotate_cli, calibrate, tmp_path, rubric, project, tasks, gap
):
    """Three traces of each of ten tasks a side, of which a few are labelled, on the second side one
    more: below six nothing is beyond chance.
    """
    traces, rows = [], []
    for model, flagged, right in (("one", 20, (11, 13, 15, 20)), ("two", 15, ())):
        for n in range(30):
            name, at = f"{model}/{n}", {"project": project or model, "task": str(n % 10)}
            traces.append(said(name, "alpha" if n < flagged else "beta", model=model, **at))
            if n % 10 < tasks + (model == "two"):
                rows.append(label(name, rubric, "alpha" if n < 10 or n in right else "beta"))
    run = make_run(tmp_path / "run", rubric, traces)
    _, found = compared(annotate_cli, run, *calibrate(run, rows), *BY_MODEL)
    alpha = found["alpha"]
    assert alpha["corrected_difference"]["value"] == (pytest.approx(gap) if tasks >= 6 else None)
    assert alpha["corrected_difference"]["method"] == "post-stratified"
    reason = "the first side: labels of fewer than 6 tasks" if tasks < 6 else None
    for one in (alpha["corrected_difference"], alpha["corrected_test"]):
        assert one["reason"] == reason
    assert (alpha["corrected_difference"]["low"] is None) == (alpha["corrected_test"]["p"] is None)
    assert (alpha["corrected_difference"]["low"] is None) == (tasks < 6)


def test_of_corpora_that_are_labelled_in_full_nothing_varies(
    annotate_cli, calibrate, tmp_path, rubric
):
    """By people: alpha 30 of 50 with one model, 20 of 50 with the other: nothing to test."""
    traces = pairs(20, 20, 10, 0)
    rows = [
        label(one.trace_id, rubric, "alpha" if n // 2 < (30, 20)[n % 2] else "beta")
        for n, one in enumerate(traces)
    ]
    run = make_run(tmp_path / "run", rubric, traces)
    options = calibrate(run, rows, "--population", "corpus")
    _, found = compared(annotate_cli, run, *options, *BY_MODEL)
    alpha = found["alpha"]
    assert limits(alpha["corrected_difference"]) == pytest.approx((0.2, 0.2, 0.2))
    assert (alpha["corrected_test"]["p"], alpha["corrected_test"]["reason"]) == (
        None,
        "nothing varies",
    )


def corrected_of_groups(annotate_cli, run, options):
    """The corrected share of alpha of both models, as the tables of each have it."""
    done = annotate_cli("report", run, *options, "--by", "model", "--format", "json")
    tables = {table["group"]["value"]: table for table in json.loads(done.out)}
    return [
        row["corrected"]
        for value in ("one", "two")
        for row in tables[value]["rows"]
        if row["code"] == "alpha"
    ]


@pytest.mark.parametrize("without", [(), ("project", "task")])
def test_several_runs_of_a_group_do_not_lose_all_but_the_last(
    annotate_cli, calibrate, tmp_path, rubric, without
):
    """One group over two runs with a calibration each, of which the second may tell no tasks:
    whatever is said of the corrected share, it does not depend on their order.
    """
    runs, files = [], []
    for k, counts in enumerate([(36, 12, 2, 0), (2, 2, 12, 34)]):
        traces = []
        for one in pairs(*counts):
            told = {name: of for name, of in one.attributes.items() if not k or name not in without}
            traces.append(said(f"run{k}/{one.trace_id}", one.primary, **told))
        runs.append(make_run(tmp_path / f"run{k}", rubric, traces))
        files += calibrate(runs[-1], labelled(rubric, traces, every=3))
    _, rows = compared(annotate_cli, *runs, *files, *BY_MODEL)
    _, back = compared(annotate_cli, *reversed(runs), *files, *BY_MODEL)
    assert rows["alpha"]["corrected_difference"] == back["alpha"]["corrected_difference"]


@pytest.mark.parametrize("tasks", [0, 1, 2])
def test_a_side_of_which_labels_tell_nothing(annotate_cli, calibrate, tmp_path, rubric, tasks):
    """Without labels of six tasks nothing is known of its shares, nor of the difference."""
    sides = [(model, n) for model in ("one", "two") for n in range(40)]
    traces = [
        said(f"{model}/{n}", "alpha", project=model, task=str(n % 20), model=model)
        for model, n in sides
    ]
    run = make_run(tmp_path / "run", rubric, traces)
    rows = [
        label(f"{model}/{n}", rubric, "alpha")
        for model, n in sides
        if n % 20 < (20 if model == "one" else tasks)
    ]
    options = (*calibrate(run, rows), *BY_MODEL)
    _, found = compared(annotate_cli, run, *options)
    for code, row in found.items():
        gap = row["corrected_difference"]
        reason = "labels of fewer than 6 tasks" if tasks else "no human labels"
        reason = f"the second side: {reason}"
        assert limits(gap) == (None, None, None), code
        assert gap["reason"] == row["corrected_test"]["reason"] == reason
    shown = annotate_cli("compare", run, *options, "-v").out
    lines = [line.split() for line in shown.splitlines() if line.startswith(("alpha", "none"))]
    assert [line[-3:] for line in lines] == [["-", "-", "-"]] * 2


def test_groups_are_not_compared_by_labels_made_elsewhere(
    annotate_cli, calibrate, tmp_path, rubric
):
    """Both sides would share its errors; their difference would look as if it were known."""
    here = [said(f"x{n}", "alpha" if n % 2 else "beta") for n in range(60)]
    other = make_run(tmp_path / "other", rubric, here)
    run = make_run(tmp_path / "run", rubric, pairs(36, 12, 2, 0))
    options = (*calibrate(other, labelled(rubric, here, every=1)), *BY_MODEL)
    said_in_words(annotate_cli("compare", run, *options))


def test_calibrations_of_different_confidence(annotate_cli, calibrate, tmp_path, rubric):
    runs, files = two_runs(tmp_path, rubric), []
    rows = [label(f"t{n}", rubric, "alpha") for n in range(30)]
    for run, confidence in zip(runs, (0.95, 0.9), strict=True):
        files += calibrate(run, rows, "--confidence", confidence)
    done = annotate_cli("compare", *runs, *files, "--by", "run", "--values", "first", "second")
    said_in_words(done)
    assert "the calibrations differ in --confidence" in done.err
