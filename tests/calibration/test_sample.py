"""Drawing sheets: splits, strata, chances, and a sheet's way back as labels."""

import csv
import json
import shutil
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from scipy.stats import binomtest, chisquare

from annotator.base.errors import AnnotatorError
from annotator.calibration.sample.design import (
    Candidate,
    Design,
    SampledStratum,
    allocate,
    assign_split,
    draw_traces,
    extend_design,
    read_design,
)
from annotator.calibration.sample.sheets import Split
from annotator.labels import read_labels
from annotator.rubrics.annotations import Vote
from tests.calibration.build import (
    calibration,
    label,
    make_rubric,
    make_run,
    row_of,
    said,
    said_in_words,
    write_labels,
)
from tests.conftest import make_scheme, run_name, write_run

ALL = Split("all", "annotator", 0.33)


def judged(n):
    """60 % alpha, 5 % beta, the rest none."""
    return ["alpha"] if n % 20 < 12 else ["beta"] if n % 20 == 12 else []


@pytest.fixture
def run(tmp_path, rubric):
    """400 judged traces in 40 tasks, a skipped, a failed and an undecided one."""
    traces = [said(f"r/{n}", *judged(n), project="p", task=str(n // 10)) for n in range(400)]
    traces += [said("skip", status="skipped", task="0"), said("fail", status="failed", task="0")]
    traces.append(said("tie", status="undecided", task="0"))
    return make_run(tmp_path / "run", rubric, traces)


def sheet_of(file):
    if file.suffix == ".csv":
        with file.open(newline="", encoding="utf-8") as text:
            return list(csv.DictReader(text))
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def design_of(file):
    return read_design(file.with_name(f"{file.name}.design.json"))


# Splits by task


def test_a_task_has_its_split_whatever_else_is_there():
    """By hand: sha256 of "annotator", NUL and the task, the first 8 bytes over 2^64."""
    from hashlib import sha256

    for task in ("p/1", "p/2", "ünï", "", "a\nb"):
        share = Fraction(int(sha256(f"annotator\0{task}".encode()).hexdigest()[:16], 16), 2**64)
        expected = "dev" if share < Fraction(0.33) else "test"
        assert assign_split(task, "annotator", 0.33) == expected


def test_the_split_has_its_share_and_depends_on_the_salt():
    tasks = [f"p/{n}" for n in range(2000)]
    dev = [assign_split(task, "annotator", 0.33) == "dev" for task in tasks]
    other = [assign_split(task, "salt", 0.33) == "dev" for task in tasks]
    assert binomtest(sum(dev), 2000, 0.33).pvalue > 0.001
    assert dev != other


def drawn_tasks(annotate_cli, tmp_path, run, name, *options):
    base = ("sample", run, "-n", 400, "--double", 0, "--no-undecided")
    done = annotate_cli(*base, "--out", name, *options)
    assert done.code == 0, done.err
    rows = sheet_of(tmp_path / name)
    return {row["task"] for row in rows}, rows


def test_whole_tasks_go_to_one_split(annotate_cli, tmp_path, rubric, run):
    test, rows = drawn_tasks(annotate_cli, tmp_path, run, "test.jsonl")
    dev, more = drawn_tasks(annotate_cli, tmp_path, run, "dev.jsonl", "--split", "dev")
    assert not test & dev
    assert test | dev == {f"p/{n}" for n in range(40)}
    assert len(rows) + len(more) == 400  # nothing skipped or failed is drawn
    assert {row["split"] for row in rows} == {"test"}
    assert {row["split"] for row in more} == {"dev"}
    again, _ = drawn_tasks(annotate_cli, tmp_path, run, "again.jsonl", "--seed", 99)
    assert again == test
    # A part of the corpus, with other traces besides: each task is where it was.
    traces = [said(f"r/{n}", "alpha", project="p", task=str(n // 10)) for n in range(0, 400, 3)]
    traces += [said(f"x/{n}", project="q", task=str(n)) for n in range(30)]
    part = make_run(tmp_path / "part", rubric, traces)
    some, _ = drawn_tasks(annotate_cli, tmp_path, part, "part.jsonl")
    assert {task for task in some if task.startswith("p/")} == test


def test_without_tasks_every_trace_is_its_own(annotate_cli, tmp_path, rubric):
    run = make_run(tmp_path / "run", rubric, [said(f"t{n}", "alpha") for n in range(100)])
    done = annotate_cli("sample", run, "-n", 100, "--out", "s.jsonl")
    rows = [row for row in sheet_of(tmp_path / "s.jsonl") if row["rater"] == 1]
    assert {row["trace_id"] for row in rows} == {
        f"t{n}" for n in range(100) if assign_split(f"t{n}", "annotator", 0.33) == "test"
    }
    assert "tasks" not in done.out.partition(" from ")[0]


# Allocation


@pytest.mark.parametrize(
    ("sizes", "n", "floor", "expected"),
    [
        # 15 floors; 85 left over 895, 95, 0: 76.85 and 8.15.
        ({"a": 900, "b": 100, "c": 5}, 100, 5, {"a": 82, "b": 13, "c": 5}),
        ({"a": 900, "b": 100}, 100, 0, {"a": 90, "b": 10}),
        ({"a": 900, "b": 100, "c": 2}, 50, 5, {"a": 39, "b": 9, "c": 2}),
        ({"a": 10, "b": 10}, 1000, 5, {"a": 10, "b": 10}),
        ({"": 500}, 100, 0, {"": 100}),
        ({"a": 3, "b": 3, "c": 3}, 4, 1, {"a": 2, "b": 1, "c": 1}),
    ],
)
def test_allocation_by_hand(sizes, n, floor, expected):
    assert allocate(sizes, n, floor) == expected


@pytest.mark.parametrize(("size", "drawn"), [(10, 3), (7, 5), (13, 1), (5, 5)])
def test_every_trace_of_a_stratum_is_equally_likely(size, drawn):
    """Counts over 4,000 seeds; the p of the chi-square test is conservative, as fixed-size draws
    vary less than independent ones. The seeds are fixed: this does not fail by chance.
    """
    candidates = [Candidate(f"t{n:02}", f"p/{n % 3}", "s") for n in range(size)]
    candidates += [Candidate(f"x{n}", "p/1", "other") for n in range(4)]
    counts: Counter[str] = Counter()
    for seed in range(4000):
        chosen = draw_traces(candidates, {"s": drawn, "other": 2}, seed)
        counts.update(one.trace_id for one in chosen if one.stratum == "s")
    observed = [counts[f"t{n:02}"] for n in range(size)]
    assert sum(observed) == 4000 * drawn
    assert chisquare(observed).pvalue > 0.001
    assert max(abs(count / 4000 - drawn / size) for count in observed) < 0.04


def test_every_trace_is_as_likely_after_a_top_up():
    """5 of 12, then 3 more: each is drawn with 8/12."""
    candidates = [Candidate(f"t{n:02}", f"p/{n % 5}", "s") for n in range(12)]
    counts: Counter[str] = Counter()
    for seed in range(3000):
        chosen = draw_traces(candidates, {"s": 5}, seed)
        first = Design(
            *("faults", "x", None, "all", "salt", 0.3, seed),
            {"s": SampledStratum(12, 5)},
            {one.trace_id: "s" for one in chosen},
        )
        design, more = extend_design(candidates, first, {"s": 3}, seed)
        assert not {one.trace_id for one in more} & first.traces.keys()
        assert design.probabilities == dict.fromkeys(design.traces, 8 / 12)
        counts.update(design.traces.keys())
    assert chisquare([counts[one.trace_id] for one in candidates]).pvalue > 0.001


# The sheet


@pytest.mark.parametrize("name", ["s.csv", "s.jsonl"])
@pytest.mark.parametrize("uniform", [False, True])
def test_nothing_of_the_judge_stands_in_the_sheet(annotate_cli, tmp_path, run, name, uniform):
    """Not a code of the rubric, not a stratum; the design has them."""
    done = annotate_cli("sample", run, "-n", 60, "--out", name, *(["--uniform"] if uniform else []))
    assert done.code == 0, done.err
    text = (tmp_path / name).read_text()
    for word in ("alpha", "beta", "gamma", "llm", "stratum", "judge", "none"):
        assert word not in text
    strata = design_of(tmp_path / name).strata
    assert set(strata) == ({""} if uniform else {"alpha", "beta", "none"})
    for word in ("alpha", "beta"):
        assert word not in done.out + done.err


def test_the_order_of_the_sheet_says_nothing(annotate_cli, tmp_path, run):
    """Not sorted by stratum or by id, and the same seed gives the same."""
    for name in ("one.jsonl", "two.jsonl"):
        annotate_cli("sample", run, "-n", 60, "--out", name, "--double", 0, "--seed", 5)
    rows, again = sheet_of(tmp_path / "one.jsonl"), sheet_of(tmp_path / "two.jsonl")
    assert rows == again
    assert [row["order"] for row in rows] == list(range(1, 61))
    ids = [row["trace_id"] for row in rows]
    strata = [design_of(tmp_path / "one.jsonl").traces[one] for one in ids]
    assert ids != sorted(ids)
    assert sum(a != b for a, b in pairwise(strata)) > 15
    annotate_cli("sample", run, "-n", 60, "--out", "three.jsonl", "--double", 0, "--seed", 6)
    assert {row["trace_id"] for row in sheet_of(tmp_path / "three.jsonl")} != set(ids)


def test_probabilities_are_drawn_over_size(annotate_cli, tmp_path, run, rubric):
    base = ("sample", run, "-n", 60, "--no-undecided")
    annotate_cli(*base, "--out", "s.jsonl", "--split", "all")
    design = design_of(tmp_path / "s.jsonl")
    # 240 alpha, 20 beta, 140 none; floors of 5, 45 left over 235, 15, 135: 27.5, 1.8, 15.8.
    strata = {name: (stratum.size, stratum.drawn) for name, stratum in design.strata.items()}
    assert strata == {"alpha": (240, 32), "beta": (20, 7), "none": (140, 21)}
    said_by = {f"r/{n}": (judged(n) or ["none"])[0] for n in range(400)}
    for row in sheet_of(tmp_path / "s.jsonl"):
        stratum = design.strata[said_by[row["trace_id"]]]
        assert row["inclusion_probability"] == stratum.drawn / stratum.size
        assert row["design"] == design.id
        assert (row["rubric"], row["rubric_sha256"]) == ("faults", rubric.sha256)


def test_floors_grow_with_the_sample(annotate_cli, tmp_path, run):
    for n, floor, beta in [(40, (), 5), (40, ("--floor", 8), 8), (300, (), 10)]:
        name = f"s{n}-{beta}.jsonl"
        done = annotate_cli("sample", run, "-n", n, "--out", name, "--split", "all", *floor)
        assert done.code == 0, done.err
        assert design_of(tmp_path / name).strata["beta"].drawn >= beta
    done = annotate_cli("sample", run, "-n", 10, "--out", "no.jsonl")
    said_in_words(done)
    assert "cannot cover 3 strata with 5 each. Use -n 15" in done.err
    assert not (tmp_path / "no.jsonl").exists()


def test_a_second_person_gets_a_part(annotate_cli, tmp_path, run):
    annotate_cli("sample", run, "-n", 60, "--out", "s.jsonl", "--double", 12)
    rows = sheet_of(tmp_path / "s.jsonl")
    first = [row["trace_id"] for row in rows if row["rater"] == 1]
    second = [row["trace_id"] for row in rows if row["rater"] == 2]
    assert (len(set(first)), len(set(second))) == (60, 12)
    assert set(second) < set(first)
    assert [row["order"] for row in rows] == list(range(1, 73))


def test_a_sheet_that_was_stopped_after_its_design_can_be_drawn_again(annotate_cli, tmp_path, run):
    annotate_cli("sample", run, "-n", 40, "--out", "s.csv")
    sheet = (tmp_path / "s.csv").read_bytes()
    (tmp_path / "s.csv").unlink()
    other = annotate_cli("sample", run, "-n", 41, "--out", "s.csv")
    assert "s.csv.design.json is there already" in other.err
    assert annotate_cli("sample", run, "-n", 40, "--out", "s.csv").code == 0
    assert (tmp_path / "s.csv").read_bytes() == sheet


# More of a code


def test_top_up_draws_more_and_counts_again(annotate_cli, tmp_path, run):
    annotate_cli("sample", run, "-n", 60, "--out", "one.jsonl", "--split", "all")
    first = design_of(tmp_path / "one.jsonl")
    done = annotate_cli(
        *("sample", run, "--top-up", "beta=6", "--from", "one.jsonl.design.json"),
        *("--out", "two.jsonl"),
    )
    assert done.code == 0, done.err
    second, rows = design_of(tmp_path / "two.jsonl"), sheet_of(tmp_path / "two.jsonl")
    assert len(rows) == 6
    assert not {row["trace_id"] for row in rows} & first.traces.keys()
    assert (second.strata["beta"].size, second.strata["beta"].drawn) == (20, 13)
    assert second.strata["alpha"] == first.strata["alpha"]
    assert {row["inclusion_probability"] for row in rows} == {13 / 20}
    assert second.traces.keys() == first.traces.keys() | {row["trace_id"] for row in rows}
    assert {row["design"] for row in rows} == {second.id} != {first.id}


@pytest.mark.parametrize(
    ("more", "word"),
    [
        (["--top-up", "gamma=1"], "gamma"),
        (["--top-up", "beta=14"], "only 13"),
        (["--top-up", "beta"], "CODE=N"),
        (["--top-up", "beta=0"], "CODE=N"),
        (["--top-up", "beta=-1"], "CODE=N"),
        (["--top-up", "=3"], "CODE=N"),
        (["--top-up", "beta=x"], "CODE=N"),
        ([], "--top-up and --from"),
    ],
)
def test_a_top_up_that_cannot_be(annotate_cli, tmp_path, run, more, word):
    annotate_cli("sample", run, "-n", 60, "--out", "one.jsonl", "--split", "all")
    done = annotate_cli(
        "sample", run, *more, "--from", "one.jsonl.design.json", "--out", "two.jsonl"
    )
    said_in_words(done)
    assert word in done.err
    assert not (tmp_path / "two.jsonl").exists()


def test_a_top_up_from_another_run_is_refused(annotate_cli, tmp_path, rubric, run):
    annotate_cli("sample", run, "-n", 60, "--out", "one.jsonl", "--split", "all")
    other = make_run(tmp_path / "other", rubric, [said(f"r/{n}", "alpha") for n in range(400)])
    options = ("--top-up", "alpha=3", "--from", "one.jsonl.design.json", "--out", "two.jsonl")
    said_in_words(annotate_cli("sample", other, *options))
    newer = make_rubric(tmp_path, version=2)
    traces = [said(f"r/{n}", *judged(n), project="p", task=str(n // 10)) for n in range(400)]
    said_in_words(annotate_cli("sample", make_run(tmp_path / "v2", newer, traces), *options))


# Plans


def test_a_plan_prints_widths_and_draws_nothing(annotate_cli, tmp_path, run):
    done = annotate_cli("sample", run, "--plan", "--split", "all")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].split() == [
        *("code", "judged", "judged", "%", "deff", "n=50", "n=100", "n=200", "n=400"),
    ]
    alpha = next(line for line in lines if line.startswith("alpha")).split()
    assert alpha[1:3] == ["240", "60.0"]
    widths = [float(cell.removeprefix("±")) for cell in alpha if cell.startswith("±")]
    assert widths == sorted(widths, reverse=True)
    assert {path.name for path in tmp_path.iterdir()} <= {"run", "faults.yaml", "cache"}


def test_a_plan_knows_of_tasks(annotate_cli, tmp_path, rubric):
    """Ten tasks of 20, all alpha or all beta: the design effect is 10/9 times 20, and the width of
    independent traces is multiplied by its root and by t on 9 over z.
    """
    traces = [
        said(f"t{n}", "alpha" if n // 20 % 2 else "beta", project="p", task=str(n // 20))
        for n in range(200)
    ]
    run = make_run(tmp_path / "run", rubric, traces)

    def width(*options):
        done = annotate_cli("sample", run, "--plan", "--split", "all", "-n", 100, *options)
        assert done.code == 0, done.err
        row = next(line for line in done.out.splitlines() if line.startswith("alpha")).split()
        return done.out, row[3], float(row[6].removeprefix("±"))

    out, effect, over_tasks = width()
    alone, none, independent = width("--cluster", "none")
    assert (effect, none) == ("22.2", "-")
    factor = (200 / 9) ** 0.5 * 2.262157 / 1.959964
    assert over_tasks == pytest.approx(min(50, independent * factor), rel=0.02)
    assert "Widened for traces that share 10 tasks of this split" in out
    assert "traces are taken as independent" in alone
    sure, _, narrow = width("--cluster", "none", "--precision", "0.99", "--recall", "0.99")
    assert narrow < independent
    assert "right in 99 % of what it flags, and flags 99 % of what there is" in sure


def test_a_plan_by_a_calibration(annotate_cli, calibrate, tmp_path, rubric):
    """Of 40 alpha the judge is right in 30, and misses 10 of 40: precision and recall .75."""
    pairs = [("alpha", "alpha")] * 30 + [("alpha", "beta")] * 10 + [("beta", "alpha")] * 10
    pairs += [("beta", "beta")] * 50
    run = make_run(tmp_path / "run", rubric, [said(f"t{n}", j) for n, (j, _) in enumerate(pairs)])
    rows = [label(f"t{n}", rubric, human) for n, (_, human) in enumerate(pairs)]
    calibrate(run, rows)
    plan = ("sample", run, "--plan", "--split", "all", "--calibration", run / "calibration.json")
    done = annotate_cli(*plan)
    assert done.code == 0, done.err
    assert "precision/recall in %: beta 83/83, alpha 75/75" in done.out.replace("\n", " ")
    said_in_words(annotate_cli(*plan[:2], "-n", 9, "--precision", "0.9", "--out", "s.csv"))


# From traces, without a judge


def test_traces_without_a_judge(annotate_cli, tmp_path, runs):
    """A passed run is not sampled: the rubric is for failures."""
    write_run(tmp_path / run_name(13), passed=True)
    done = annotate_cli(
        *("sample", runs(12), "--rubric", "symptoms", "--split", "all", "-n", 8),
        *("--double", 0, "--out", "s.csv"),
    )
    assert done.code == 0, done.err
    design, rows = design_of(tmp_path / "s.csv"), sheet_of(tmp_path / "s.csv")
    assert design.judge_sha256 is None
    assert design.strata == {"": SampledStratum(12, 8)}
    assert "1 trace" in done.err
    assert len({row["trace_id"] for row in rows}) == 8
    assert {row["inclusion_probability"] for row in rows} == {str(8 / 12)}
    assert {row["task"] for row in rows} <= {f"shop_task/{n}" for n in range(1, 13)}


def test_where_nothing_can_be_drawn_the_first_unreadable_trace_is_named(annotate_cli, runs):
    for file in runs(2).rglob("conversation.json"):
        file.write_text("[")
    done = annotate_cli(
        "sample", "logs", "--rubric", "symptoms", "--split", "all", "--out", "s.csv"
    )
    said_in_words(done)
    assert "no trace to label in the all split of logs: /" in done.err
    assert "conversation.json: not valid JSON" in done.err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["run"], "--out"),
        (["run", "--out", "no/such/s.csv"], "cannot write"),
        (["nowhere", "--out", "s.csv"], ""),
        (["nowhere", "--out", "s.csv", "--rubric", "symptoms"], "nowhere"),
        (["run", "--out", "s.csv", "--rubric", "other"], "other"),
        (["run", "--out", "s.csv", "-n", "0"], "0"),
        (["run", "--out", "s.csv", "-n", "8"], "8 labels cannot cover"),
        (["run", "--out", "s.csv", "--strata", "votes"], "has no votes to stratify by: judge with"),
        (["run", "--out", "s.csv", "--strata", "votes", "--uniform"], "draws without strata"),
        (["run", "--out", "s.csv", "--precision", "0.9"], "are for --plan"),
        (["logs", "--rubric", "symptoms", "--plan"], "--plan needs a RUN"),
        (["run", "--out", "s.csv", "--dev-share", "1.5"], "1.5"),
        (["run", "--out", "s.csv", "--dev-share", "nan"], "nan"),
        (["run", "--out", "s.csv", "--from", "nowhere", "--top-up", "a=1"], "nowhere"),
    ],
)
def test_wrong_usage(annotate_cli, tmp_path, run, arguments, word):
    done = annotate_cli("sample", *arguments)
    assert (done.code, done.out) == (2, "")
    assert "Traceback" not in done.err
    assert word in done.err
    assert not (tmp_path / "s.csv").exists()


# And back


def fill(file, truth, names=("ann", "bob")):
    """Fill in a sheet as a person would: the CSV in a spreadsheet, the JSONL with a script."""
    rows = sheet_of(file)
    for row in rows:
        row["annotator"] = names[int(row["rater"]) - 1]
        row["primary"] = truth[row["trace_id"]] or ("none" if file.suffix == ".csv" else None)
    if file.suffix == ".csv":
        with file.open("w", newline="", encoding="utf-8") as text:
            write = csv.DictWriter(text, list(rows[0]), lineterminator="\r\n")
            write.writeheader()
            write.writerows(rows)
    else:
        write_labels(file, rows)


@pytest.mark.parametrize("name", ["s.csv", "s.jsonl"])
def test_a_sheet_comes_back_as_labels(annotate_cli, calibrate, tmp_path, rubric, run, name):
    annotate_cli("sample", run, "-n", 60, "--out", name, "--double", 10)
    file = tmp_path / name
    with pytest.raises(AnnotatorError, match="none is labelled yet"):
        read_labels(
            [file], make_scheme("faults", ("alpha", "beta", "gamma"), "primary", rubric.sha256)
        )
    said_in_words(annotate_cli("calibrate", run, "--labels", file, "--final"))
    truth = {f"r/{n}": "alpha" if n % 20 < 10 else "gamma" if n % 20 < 12 else None
             for n in range(400)}  # fmt: skip
    fill(file, truth)
    labels = read_labels(
        [file], make_scheme("faults", ("alpha", "beta", "gamma"), "primary", rubric.sha256)
    )
    assert (len(labels.labels), labels.unlabelled, labels.annotators) == (70, (), ("ann", "bob"))
    assert annotate_cli("calibrate", run, "--labels", file).code == 2  # all of it is test
    made, _ = calibrate(run, file, "--final")
    assert (made["labels"]["n"], made["labels"]["split"]) == (60, "test")
    assert made["labels"]["design"] == "stratified"
    assert {one["trace_id"]: one["human"]["primary"] for one in made["joined"]} == {
        one: truth[one] for one in design_of(file).traces
    }
    assert {one["trace_id"]: pytest.approx(1 / one["weight"]) for one in made["joined"]} == (
        design_of(file).probabilities
    )
    assert made["between"][0]["n"] == 10
    assert made["between"][0]["agreement"]["observed"]["value"] == 1
    # The judge is right in 200 of its 240 alphas; gamma it never finds.
    assert row_of(made, "gamma")["judged"]["k"] == 0
    assert row_of(made, "gamma")["corrected"]["value"] > 0.03


def test_a_folder_with_the_sheet_and_its_design(annotate_cli, tmp_path, run):
    """`--labels FOLDER` reads the sheet; the design beside it is no file of labels."""
    (tmp_path / "people").mkdir()
    annotate_cli("sample", run, "-n", 60, "--out", "people/s.csv", "--split", "all")
    fill(tmp_path / "people" / "s.csv", {f"r/{n}": "alpha" for n in range(400)} | {"tie": "beta"})
    done = annotate_cli("calibrate", run, "--labels", "people", "--annotator", "ann")
    assert done.code == 0, done.err


def test_both_rounds_together(annotate_cli, tmp_path, rubric, run):
    annotate_cli("sample", run, "-n", 60, "--out", "one.csv", "--split", "all", "--double", 0)
    annotate_cli(
        *("sample", run, "--top-up", "beta=6", "--from", "one.csv.design.json"),
        *("--out", "two.csv"),
    )
    truth = {f"r/{n}": (judged(n) or [None])[0] for n in range(400)} | {"tie": "beta"}
    fill(tmp_path / "one.csv", truth)
    fill(tmp_path / "two.csv", truth)
    both = ("--labels", "one.csv", "--labels", "two.csv")
    for more in ((), ("--design", "two.csv.design.json")):  # the run keeps the last round's
        done = annotate_cli("calibrate", run, *both, *more)
        assert done.code == 0, done.err
        made = calibration(run / "calibration.json")
        assert made["labels"]["n"] == 65
        assert sum(one["weight"] for one in made["joined"]) == pytest.approx(400)
        assert [one["weight"] for one in made["not_decided"]] == [1]
        assert "66 of 66 drawn traces are labelled" in done.out
        assert "add up" not in done.out
    shutil.rmtree(run / "samples")
    said_in_words(annotate_cli("calibrate", run, *both))
    wrong = annotate_cli("calibrate", run, *both, "--design", "one.csv.design.json")
    said_in_words(wrong)


ODD = [
    *("=cmd|' /C calc'!A0", "+1", "-1", "@x", 'quo"te', "com,ma", "semi;colon", "new\nline"),
    *("carriage\rreturn", "\n=1", "both\r\nends", "tab\tin", "\x1b[31mred", "\u202ertl"),
    *("ünï/çödé", "x" * 3000, " leading", "trailing ", "'=quoted", "nan", "none", "0012", "1e5"),
]


@pytest.mark.parametrize("name", ["s.csv", "s.jsonl"])
def test_odd_ids_and_tasks_come_back(annotate_cli, calibrate, tmp_path, rubric, name):
    traces = [said(odd, "alpha", project="p", task=odd) for odd in ODD]
    run = make_run(tmp_path / "run", rubric, traces)
    done = annotate_cli("sample", run, "--split", "all", "--out", name, "--double", 0)
    assert done.code == 0, done.err
    rows = sheet_of(tmp_path / name)
    fill(tmp_path / name, {row["trace_id"]: "alpha" for row in rows})
    if name.endswith("csv"):
        cells = [cell for row in rows for cell in row.values()]
        assert not any(cell[:1] in tuple("=+-@\n\0") for cell in cells)
    made, _ = calibrate(run, name)
    assert {one["trace_id"] for one in made["joined"]} == set(ODD)


def test_many_codes(annotate_cli, calibrate, tmp_path):
    """A trace's stratum is the rarest of its codes: gamma 2, beta 4, alpha 10."""
    rubric = make_rubric(tmp_path, "many")
    codes = [["alpha", "beta", "gamma"]] * 2 + [["alpha", "beta"]] * 2 + [["alpha"]] * 6 + [[]] * 20
    run = make_run(tmp_path / "run", rubric, [said(f"t{n}", *one) for n, one in enumerate(codes)])
    done = annotate_cli("sample", run, "--split", "all", "-n", 20, "--out", "s.jsonl")
    assert done.code == 0, done.err
    design = design_of(tmp_path / "s.jsonl")
    sizes = {name: stratum.size for name, stratum in design.strata.items()}
    assert sizes == {"gamma": 2, "beta": 2, "alpha": 6, "none": 20}
    rows = [row for row in sheet_of(tmp_path / "s.jsonl") if row["rater"] == 1]
    truth = {f"t{n}": one for n, one in enumerate(codes)}
    labels = [
        row | {"annotator": "ann", "primary": None, "secondary": truth[row["trace_id"]]}
        for row in rows
    ]
    made, _ = calibrate(run, labels)
    shares = {row["code"]: row["corrected"]["value"] for row in made["rows"]}
    counts = {"alpha": 10, "beta": 4, "gamma": 2, "none": 20}
    assert shares == pytest.approx({code: k / 30 for code, k in counts.items()})


# Strata of votes


def voted(trace_id, *ballots, status=None, **more):
    """A trace as a panel leaves it: of these votes (a code, or "" for none) the first wins."""
    votes = tuple(
        Vote("llm:m", n, "labelled" if code else "none", code or None)
        for n, code in enumerate(ballots, 1)
    )
    codes = [ballots[0]] if ballots[0] and status is None else []
    return replace(said(trace_id, *codes, status=status, **more), votes=votes)


TIE = ("alpha", "beta", "")
VOTED = {  # ballots, what people say, how many
    "au": (("alpha",) * 3, "alpha", 20),
    "nu": (("",) * 3, None, 10),
    "ad": (("alpha", "alpha", ""), None, 4),
    "nd": (("", "", "alpha"), "alpha", 2),
    "t": (TIE, "beta", 4),
}


@pytest.fixture
def panel(tmp_path, rubric):
    """30 unanimous traces (20 alpha), 6 divided (4 alpha), 4 undecided."""
    traces = [
        voted(f"{kind}{n}", *ballots, status="undecided" if ballots == TIE else None)
        for kind, (ballots, _, size) in VOTED.items()
        for n in range(size)
    ]
    return make_run(tmp_path / "panel", rubric, [*traces, said("skip", status="skipped")])


def test_strata_of_votes_and_their_weights_by_hand(annotate_cli, tmp_path, panel):
    """Twelve of 40: four of each stratum. The judge is right where its votes are unanimous and
    wrong where they are not. A labelled unanimous trace stands for 30/4, a divided one for 6/4.
    """
    done = annotate_cli(
        *("sample", panel, "--strata", "votes", "-n", 12, "--split", "all", "--double", 0),
        *("--out", "s.jsonl"),
    )
    assert done.code == 0, done.err
    design = design_of(tmp_path / "s.jsonl")
    assert {name: (one.size, one.drawn) for name, one in design.strata.items()} == {
        "votes:unanimous": (30, 4),
        "votes:divided": (6, 4),
        "status:undecided": (4, 4),
    }
    rows = sheet_of(tmp_path / "s.jsonl")
    assert Counter(row["inclusion_probability"] for row in rows) == {4 / 30: 4, 4 / 6: 4, 1.0: 4}
    assert "votes" not in (tmp_path / "s.jsonl").read_text(), "who labels must not know"
    kinds = {row["trace_id"]: row["trace_id"].rstrip("0123456789") for row in rows}
    truth = {trace_id: VOTED[kind][1] for trace_id, kind in kinds.items()}
    labels = [
        row | {"annotator": "ann", "primary": truth[row["trace_id"]], "secondary": []}
        for row in rows
    ]
    write_labels(tmp_path / "l.jsonl", labels)
    for more in ((), ("--design", "s.jsonl.design.json")):
        done = annotate_cli("calibrate", panel, "--labels", "l.jsonl", *more)
        assert done.code == 0, done.err
        assert "add up to" not in done.out, "with the undecided ones all weights are there"
    drawn = Counter(kinds.values())
    unanimous, divided = Fraction(30, 4), Fraction(6, 4)
    # Of 24 that the judge gave alpha, of 12 that it gave none: the share that is alpha.
    right = unanimous * drawn["au"] / (unanimous * drawn["au"] + divided * drawn["ad"])
    missed = divided * drawn["nd"] / (unanimous * drawn["nu"] + divided * drawn["nd"])
    expected = (24 * right + 12 * missed) / 40  # and beta in all four undecided ones
    made = calibration(panel / "calibration.json")
    row = row_of(made, "alpha")
    assert row["corrected"]["value"] == pytest.approx(float(expected))
    assert row["precision"]["value"] == pytest.approx(float(right))
    assert (made["judged"], made["labels"]["n"], made["labels"]["design"]) == (36, 8, "stratified")
    assert "The judge left 4 labelled traces undecided, where people say beta 4." in done.out
    assert row_of(made, "beta")["corrected"]["value"] >= 4 / 40
    # Read as if all were as likely, the judge's errors would count for much more.
    plain = Fraction(drawn["au"], drawn["au"] + drawn["ad"])
    assert abs(float(right - plain)) > 0.1
    # Strata of votes can be topped up.
    more = ("--top-up", "votes:unanimous=3", "--from", "s.jsonl.design.json")
    done = annotate_cli("sample", panel, *more, "--out", "more.jsonl")
    assert done.code == 0, done.err
    stratum = design_of(tmp_path / "more.jsonl").strata["votes:unanimous"]
    assert (stratum, len(sheet_of(tmp_path / "more.jsonl"))) == (SampledStratum(30, 7), 3)


@pytest.mark.parametrize(
    ("more", "sizes"),
    [
        ((), {"alpha": 24, "none": 12, "status:undecided": 4}),
        (("--no-undecided",), {"alpha": 24, "none": 12}),
        (("--uniform",), {"": 40}),
        (("--uniform", "--no-undecided"), {"": 36}),
    ],
)
def test_undecided_traces_are_a_stratum_of_their_own(annotate_cli, tmp_path, panel, more, sizes):
    base = ("sample", panel, "-n", 20, "--split", "all", "--double", 0)
    done = annotate_cli(*base, *more, "--out", "s.jsonl")
    assert done.code == 0, done.err
    design = design_of(tmp_path / "s.jsonl")
    assert {name: one.size for name, one in design.strata.items()} == sizes
    assert f"20 traces from {sum(sizes.values())} " in done.out
    left_out = 41 - sum(sizes.values())
    assert f"{left_out} traces without a judgement" in done.err


def test_the_run_knows_how_its_labels_were_drawn(annotate_cli, tmp_path, rubric, run):
    """100 drawn traces; people label those that the judge gave alpha, and 20 of the others, in a
    file elsewhere: each of the others stands for more. As if uniform, it would not.
    """
    base = ("sample", run, "-n", 100, "--split", "all", "--double", 0)
    assert annotate_cli(*base, "--out", "sheets/s.jsonl").code == 2, "no such folder"
    (tmp_path / "sheets").mkdir()
    assert annotate_cli(*base, "--out", "sheets/s.jsonl").code == 0
    rows, kept = sheet_of(tmp_path / "sheets" / "s.jsonl"), []
    for row in rows:
        alpha = row["trace_id"] != "tie" and judged(int(row["trace_id"][2:])) == ["alpha"]
        if alpha or sum(not one["alpha"] for one in kept) < 20:
            kept.append({"row": row | {"annotator": "ann", "primary": "alpha"}, "alpha": alpha})
    file = write_labels(tmp_path / "labels.jsonl", [one["row"] for one in kept])
    done = annotate_cli("calibrate", run, "--labels", file)
    assert done.code == 0, done.err
    assert f"{len(kept)} of 100 drawn traces are labelled" in done.out
    made = calibration(run / "calibration.json")
    weight = sum(one["weight"] for one in made["joined"] + made["not_decided"])
    assert weight == pytest.approx(401)
    # Without it, the missing ones are not seen, and it says so.
    for design in (run / "samples").iterdir():
        design.unlink()
    done = annotate_cli("calibrate", run, "--labels", file)
    assert "is not recorded with the run" in done.out


def test_a_run_that_cannot_be_written_is_drawn_from(annotate_cli, tmp_path, run):
    (run / "samples").write_text("in the way")
    done = annotate_cli("sample", run, "-n", 60, "--split", "all", "--out", "s.csv")
    assert done.code == 0, done.err
    assert "the run does not know this sample" in done.err
    assert (tmp_path / "s.csv.design.json").exists()


@pytest.mark.parametrize(
    ("beside", "word"),
    [("s.csv", "may hold labels"), ("s.csv.design.json", "is there already")],
    ids=["labels", "design"],
)
def test_nothing_is_overwritten(annotate_cli, tmp_path, run, beside, word):
    """Labels that somebody made by hand; a design whose sheet was given to somebody."""
    (tmp_path / beside).write_text("mine")
    done = annotate_cli("sample", run, "-n", 40, "--out", "s.csv")
    said_in_words(done)
    assert word in done.err
    assert [file.name for file in tmp_path.glob("s.csv*")] == [beside]
    assert (tmp_path / beside).read_text() == "mine"
