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
from tests.conftest import run_name, write_run


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


@pytest.fixture
def sample(annotate_cli, tmp_path):
    """Draw from a run: the sheet's rows, its design and what was printed."""

    def draw(run, *options, split="all", out="s.jsonl"):
        done = annotate_cli("sample", run, "--show-ids", "--split", split, "--out", out, *options)
        assert done.code == 0, done.err
        return sheet_of(tmp_path / out), design_of(tmp_path / out), done

    return draw


def top_up(more):
    return ("--top-up", more, "--from", "one.jsonl.design.json")


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


def drawn_tasks(sample, run, *options, **more):
    rows, _, _ = sample(run, "-n", 400, "--double", 0, "--no-undecided", *options, **more)
    return {row["task"] for row in rows}, rows


def test_whole_tasks_go_to_one_split(sample, tmp_path, rubric, run):
    test, rows = drawn_tasks(sample, run, split="test", out="test.jsonl")
    dev, more = drawn_tasks(sample, run, split="dev", out="dev.jsonl")
    assert not test & dev
    assert test | dev == {f"p/{n}" for n in range(40)}
    assert len(rows) + len(more) == 400  # nothing skipped or failed is drawn
    assert {row["split"] for row in rows} == {"test"}
    assert {row["split"] for row in more} == {"dev"}
    # A part of the corpus, with other traces besides: each task is where it was.
    traces = [said(f"r/{n}", "alpha", project="p", task=str(n // 10)) for n in range(0, 400, 3)]
    traces += [said(f"x/{n}", project="q", task=str(n)) for n in range(30)]
    part = make_run(tmp_path / "part", rubric, traces)
    some, _ = drawn_tasks(sample, part, "--seed", 99, split="test", out="part.jsonl")
    assert {task for task in some if task.startswith("p/")} == test
    # Without tasks every trace is its own.
    alone = make_run(tmp_path / "alone", rubric, [said(f"t{n}", "alpha") for n in range(100)])
    rows, _, done = sample(alone, "-n", 100, split="test", out="alone.jsonl")
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
        ({"a": 10, "b": 10}, 1000, 5, {"a": 10, "b": 10}),
        ({"": 500}, 100, 0, {"": 100}),
        ({"a": 3, "b": 3, "c": 3}, 4, 1, {"a": 2, "b": 1, "c": 1}),
    ],
)
def test_allocation_by_hand(sizes, n, floor, expected):
    assert allocate(sizes, n, floor) == expected


@pytest.mark.parametrize(("size", "drawn"), [(10, 3), (7, 5)])
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
def test_nothing_of_the_judge_stands_in_the_sheet(sample, tmp_path, run, name, uniform):
    """Not a code of the rubric, not a stratum; the design has them. Nor does its order tell."""
    more = ["--uniform"] if uniform else []
    rows, design, done = sample(run, "-n", 60, "--double", 12, *more, out=name)
    text = (tmp_path / name).read_text()
    for word in ("alpha", "beta", "gamma", "llm", "stratum", "judge", "none"):
        assert word not in text
    strata = {"alpha", "beta", "none", "status:undecided"}
    assert set(design.strata) == ({""} if uniform else strata)
    for word in ("alpha", "beta"):
        assert word not in done.out + done.err
    first, second = (
        [row["trace_id"] for row in rows if int(row["rater"]) == rater] for rater in (1, 2)
    )
    assert (len(set(first)), len(set(second))) == (60, 12)
    assert set(second) < set(first)
    assert [int(row["order"]) for row in rows] == list(range(1, 73))
    assert first != sorted(first)
    if not uniform:
        order = [design.traces[trace_id] for trace_id in first]
        assert sum(a != b for a, b in pairwise(order)) > 15


def test_the_same_seed_draws_the_same(sample, run):
    sheets = [
        sample(run, "-n", 60, "--seed", seed, out=f"{n}.jsonl")[0]
        for n, seed in enumerate((5, 5, 6))
    ]
    assert sheets[0] == sheets[1]
    one, other = ({row["trace_id"] for row in sheet} for sheet in sheets[1:])
    assert one != other


def test_probabilities_are_drawn_over_size(sample, run, rubric):
    rows, design, _ = sample(run, "-n", 60, "--no-undecided")
    # 240 alpha, 20 beta, 140 none; floors of 5, 45 left over 235, 15, 135: 27.5, 1.8, 15.8.
    strata = {name: (stratum.size, stratum.drawn) for name, stratum in design.strata.items()}
    assert strata == {"alpha": (240, 32), "beta": (20, 7), "none": (140, 21)}
    said_by = {f"r/{n}": (judged(n) or ["none"])[0] for n in range(400)}
    for row in rows:
        stratum = design.strata[said_by[row["trace_id"]]]
        assert row["inclusion_probability"] == stratum.drawn / stratum.size
        assert row["design"] == design.id
        assert (row["rubric"], row["rubric_sha256"]) == ("faults", rubric.sha256)


def test_floors_grow_with_the_sample(annotate_cli, sample, tmp_path, run):
    for n, floor, beta in [(40, (), 5), (40, ("--floor", 8), 8), (300, (), 10)]:
        _, design, _ = sample(run, "-n", n, *floor, out=f"s{n}-{beta}.jsonl")
        assert design.strata["beta"].drawn >= beta
    done = annotate_cli("sample", run, "-n", 10, "--out", "no.jsonl")
    said_in_words(done)
    assert "cannot cover 4 strata with 5 each. Use -n 16" in done.err
    assert not (tmp_path / "no.jsonl").exists()


# More of a code


def test_top_up_draws_more_and_counts_again(sample, run):
    _, first, _ = sample(run, "-n", 60, out="one.jsonl")
    rows, second, _ = sample(run, *top_up("beta=6"), out="two.jsonl")
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
        (["--top-up", "beta=x"], "CODE=N"),
        ([], "--top-up and --from"),
    ],
)
def test_a_top_up_that_cannot_be(annotate_cli, sample, tmp_path, run, more, word):
    sample(run, "-n", 60, out="one.jsonl")
    done = annotate_cli(
        "sample", run, *more, "--from", "one.jsonl.design.json", "--out", "two.jsonl"
    )
    said_in_words(done)
    assert word in done.err
    assert not (tmp_path / "two.jsonl").exists()


def test_a_top_up_from_another_run_is_refused(annotate_cli, sample, tmp_path, rubric, run):
    sample(run, "-n", 60, out="one.jsonl")
    other = make_run(tmp_path / "other", rubric, [said(f"r/{n}", "alpha") for n in range(400)])
    options = (*top_up("alpha=3"), "--out", "two.jsonl")
    said_in_words(annotate_cli("sample", other, *options))
    newer = make_rubric(tmp_path, version=2)
    traces = [said(f"r/{n}", *judged(n), project="p", task=str(n // 10)) for n in range(400)]
    said_in_words(annotate_cli("sample", make_run(tmp_path / "v2", newer, traces), *options))


# Plans


def test_a_plan_knows_of_tasks(annotate_cli, tmp_path, rubric):
    """Ten tasks of 20, all alpha or all beta: the design effect is 10/9 times 20, and the width of
    independent traces is multiplied by its root and by t on 9 over z.
    """
    codes = ["alpha" if n // 20 % 2 else "beta" for n in range(200)]
    traces = [said(f"t{n}", c, project="p", task=f"{n // 20}") for n, c in enumerate(codes)]
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
    assert "Widened for traces that share 10 tasks: by" in out
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


def test_traces_without_a_judge(annotate_cli, sample, tmp_path, runs):
    """A passed run is not sampled: the rubric is for failures."""
    write_run(tmp_path / run_name(13), passed=True)
    options = ("--rubric", "symptoms", "-n", 8, "--double", 0)
    rows, design, done = sample(runs(12), *options, out="s.csv")
    assert design.judge_sha256 is None
    assert design.strata == {"": SampledStratum(12, 8)}
    assert "1 trace" in done.err
    assert len({row["trace_id"] for row in rows}) == 8
    assert design.strata[""].probability == 8 / 12
    assert {row["task"] for row in rows} <= {f"shop_task/{n}" for n in range(1, 13)}
    for file in (tmp_path / "logs").rglob("conversation.json"):
        file.write_text("[")
    done = annotate_cli("sample", "logs", *options, "--out", "none.csv")
    said_in_words(done)
    assert "conversation.json: not valid JSON" in done.err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["run", "--out", "no/such/s.csv"], "cannot write"),
        (["run", "--out", "s.csv", "--rubric", "other"], "other"),
        (["run", "--out", "s.csv", "-n", "0"], "0"),
        (["run", "--out", "s.csv", "--strata", "votes"], "has no votes to stratify by: judge with"),
        (["run", "--out", "s.csv", "--precision", "0.9"], "are for --plan"),
        (["logs", "--rubric", "symptoms", "--plan"], "--plan needs a RUN"),
        (["run", "--out", "s.csv", "--dev-share", "1.5"], "1.5"),
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


@pytest.mark.parametrize("name", ["people/s.csv", "people/s.jsonl"])
def test_a_sheet_comes_back_as_labels(annotate_cli, sample, calibrate, tmp_path, rubric, run, name):
    """From the folder too: the design beside the sheet is no file of labels."""
    (tmp_path / "people").mkdir()
    sample(run, "-n", 60, "--double", 10, split="test", out=name)
    file = tmp_path / name
    with pytest.raises(AnnotatorError, match="none is labelled yet"):
        read_labels([file], rubric.scheme())
    said_in_words(annotate_cli("calibrate", "-v", run, "--labels", file, "--final"))
    truth = {f"r/{n}": "alpha" if n % 20 < 10 else "gamma" if n % 20 < 12 else None
             for n in range(400)}  # fmt: skip
    fill(file, truth)
    labels = read_labels([file], rubric.scheme())
    assert (len(labels.labels), labels.unlabelled, labels.annotators) == (70, (), ("ann", "bob"))
    assert annotate_cli("calibrate", "-v", run, "--labels", file).code == 2  # all of it is test
    made, _ = calibrate(run, file.parent, "--final")
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


def test_both_rounds_together(annotate_cli, sample, tmp_path, run):
    sample(run, "-n", 60, "--double", 0, out="one.jsonl")
    sample(run, *top_up("beta=6"), out="two.jsonl")
    truth = {f"r/{n}": (judged(n) or [None])[0] for n in range(400)} | {"tie": "beta"}
    fill(tmp_path / "one.jsonl", truth)
    fill(tmp_path / "two.jsonl", truth)
    both = ("--labels", "one.jsonl", "--labels", "two.jsonl")
    for more in ((), ("--design", "two.jsonl.design.json")):  # the run keeps the last round's
        done = annotate_cli("calibrate", "-v", run, *both, *more)
        assert done.code == 0, done.err
        made = calibration(run / "calibration.json")
        assert made["labels"]["n"] == 65
        assert sum(one["weight"] for one in made["joined"]) == pytest.approx(400)
        assert [one["weight"] for one in made["not_decided"]] == [1]
        assert "66 of 66 drawn traces are labelled" in done.out
        assert "add up" not in done.out
    shutil.rmtree(run / "samples")
    done = annotate_cli("calibrate", "-v", run, *both)  # the designs lie beside the sheets
    assert "66 of 66 drawn traces are labelled" in done.out
    said_in_words(annotate_cli("calibrate", "-v", run, *both, "--design", "one.jsonl.design.json"))


def test_many_codes(sample, calibrate, tmp_path):
    """A trace's stratum is the rarest of its codes: gamma 2, beta 4, alpha 10."""
    rubric = make_rubric(tmp_path, "many")
    codes = [["alpha", "beta", "gamma"]] * 2 + [["alpha", "beta"]] * 2 + [["alpha"]] * 6 + [[]] * 20
    run = make_run(tmp_path / "run", rubric, [said(f"t{n}", *one) for n, one in enumerate(codes)])
    rows, design, _ = sample(run, "-n", 20, "--double", 0)
    sizes = {name: stratum.size for name, stratum in design.strata.items()}
    assert sizes == {"gamma": 2, "beta": 2, "alpha": 6, "none": 20}
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


def test_strata_of_votes_and_their_weights_by_hand(annotate_cli, sample, tmp_path, panel):
    """Twelve of 40: four of each stratum. The judge is right where its votes are unanimous and
    wrong where they are not. A labelled unanimous trace stands for 30/4, a divided one for 6/4.
    """
    base = ("--strata", "votes", "-n", 12, "--double", 0)
    rows, design, _ = sample(panel, *base, out="one.jsonl")
    assert {name: (one.size, one.drawn) for name, one in design.strata.items()} == {
        "votes:unanimous": (30, 4),
        "votes:divided": (6, 4),
        "status:undecided": (4, 4),
    }
    assert Counter(row["inclusion_probability"] for row in rows) == {4 / 30: 4, 4 / 6: 4, 1.0: 4}
    assert "votes" not in (tmp_path / "one.jsonl").read_text(), "who labels must not know"
    kinds = {row["trace_id"]: row["trace_id"].rstrip("0123456789") for row in rows}
    truth = {trace_id: VOTED[kind][1] for trace_id, kind in kinds.items()}
    labels = [
        row | {"annotator": "ann", "primary": truth[row["trace_id"]], "secondary": []}
        for row in rows
    ]
    write_labels(tmp_path / "l.jsonl", labels)
    for more in ((), ("--design", "one.jsonl.design.json")):
        done = annotate_cli("calibrate", "-v", panel, "--labels", "l.jsonl", *more)
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
    rows, design, _ = sample(panel, *top_up("votes:unanimous=3"), out="more.jsonl")
    assert (design.strata["votes:unanimous"], len(rows)) == (SampledStratum(30, 7), 3)


@pytest.mark.parametrize(
    ("more", "sizes"),
    [
        ((), {"alpha": 24, "none": 12, "status:undecided": 4}),
        (("--no-undecided",), {"alpha": 24, "none": 12}),
        (("--uniform",), {"": 40}),
        (("--uniform", "--no-undecided"), {"": 36}),
    ],
)
def test_undecided_traces_are_a_stratum_of_their_own(sample, panel, more, sizes):
    _, design, done = sample(panel, "-n", 20, "--double", 0, *more)
    assert {name: one.size for name, one in design.strata.items()} == sizes
    assert done.out.startswith(f"20 of {sum(sizes.values())} traces drawn into s.jsonl.")
    assert f"left out: {41 - sum(sizes.values())} trace" in done.err


def test_the_run_knows_how_its_labels_were_drawn(annotate_cli, sample, tmp_path, run):
    """100 drawn traces; people label those that the judge gave alpha, and 20 of the others, in a
    file elsewhere: each of the others stands for more. As if uniform, it would not.
    """
    (tmp_path / "sheets").mkdir()
    rows, design, _ = sample(run, "-n", 100, "--double", 0, out="sheets/s.jsonl")
    alpha = [row for row in rows if design.traces[row["trace_id"]] == "alpha"]
    kept = alpha + [row for row in rows if row not in alpha][:20]
    named = [row | {"annotator": "ann", "primary": "alpha"} for row in kept]
    file = write_labels(tmp_path / "labels.jsonl", named)
    done = annotate_cli("calibrate", "-v", run, "--labels", file)
    assert done.code == 0, done.err
    assert f"{len(kept)} of 100 drawn traces are labelled" in done.out
    made = calibration(run / "calibration.json")
    weight = sum(one["weight"] for one in made["joined"] + made["not_decided"])
    assert weight == pytest.approx(401)
    # Without it, the missing ones are not seen, and it says so; nor where it cannot be kept.
    shutil.rmtree(run / "samples")
    done = annotate_cli("calibrate", "-v", run, "--labels", file)
    assert "is not recorded with the run" in done.out
    (run / "samples").write_text("in the way")
    _, _, done = sample(run, "-n", 60)
    assert "the run does not know this sample" in done.err


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
