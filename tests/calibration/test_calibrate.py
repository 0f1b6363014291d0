"""`annotate calibrate`: every number against one computed by hand, or again from `joined`."""

import json
import random
import re
from dataclasses import replace

import pytest

from annotator import api
from annotator.base.errors import AnnotatorError
from annotator.calibration.sample.design import Design, SampledStratum, write_design
from annotator.rubrics.annotations import Vote
from annotator.runs.run import open_run
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
from validation import compute_wilson_limits, estimate_recall, make_cell


def simple(tmp_path, rubric, pairs, tasks=0, **attributes):
    """A run and labels from (judge, person) codes, None for no code, ... for no label; traces t0,
    t1, ... of so many tasks by turns.
    """

    def codes(code):
        return [code] if code else []

    places = [{"project": "p", "task": f"{n % tasks}"} if tasks else {} for n in range(len(pairs))]
    traces = [said(f"t{n}", *codes(judge), **places[n]) for n, (judge, _) in enumerate(pairs)]
    run = make_run(tmp_path / "run", rubric, traces, **attributes)
    rows = [label(f"t{n}", rubric, *codes(one)) for n, (_, one) in enumerate(pairs) if one != ...]
    return run, write_labels(tmp_path / "labels.jsonl", rows)


# The golden case: strata by the judge's code, N = 200 and 800, 50 labels from each


@pytest.fixture
def golden(tmp_path, rubric):
    """Case stratified-sensitivity-specificity of stats_golden_dev.json: the judge flags 200 of 1000
    traces; of 50 labelled in either part a person says alpha to 40 and to 3.
    """
    traces = [said(f"a{n}", "alpha") for n in range(200)] + [said(f"n{n}") for n in range(800)]
    run = make_run(tmp_path / "run", rubric, traces)
    rows = [
        label(f"{kind}{n}", rubric, *["alpha"][n // positive :])
        | {"inclusion_probability": 50 / size, "design": "d"}
        for kind, size, positive in (("a", 200, 40), ("n", 800, 3))
        for n in range(50)
    ]
    random.Random(1).shuffle(rows)
    return run, write_labels(tmp_path / "labels.jsonl", rows)


def write_strata(file, rubric, strata, traces):
    """A design file of these strata, and the columns of its labels."""
    design = Design("faults", rubric.sha256, None, "all", "s", 0.3, 0, strata, traces)
    write_design(file, design)
    return {"design": design.id, "inclusion_probability": 0.2}


TWO_STRATA = {"alpha": SampledStratum(50, 10), "beta": SampledStratum(50, 10)}
DRAWN = {f"{name[0]}{n}": name for name in TWO_STRATA for n in range(10)}


def test_a_stratified_sample_gives_the_weighted_share(annotate_cli, calibrate, golden):
    """By hand: .2 * 40/50 + .8 * 3/50 = .208. Unweighted: 43 of 100. The judge says .200."""
    run, file = golden
    made, out = calibrate(run, file)
    alpha = row_of(made, "alpha")
    assert made["labels"]["design"] == "stratified"
    assert alpha["corrected"]["value"] == pytest.approx(0.208)
    assert alpha["judged"]["value"] == 0.2
    assert alpha["precision"]["value"] == pytest.approx(0.8)
    # Sensitivity of the golden case: 160 / (160 + 48). Naive would be 40 / 43 = .93.
    assert alpha["recall"]["value"] == pytest.approx(160 / 208)
    # Without tasks, no label counts less than once.
    recall = estimate_recall(1000, 200, *(make_cell([1] * k + [0] * (50 - k)) for k in (40, 3)))
    limits = recall.low, recall.high
    assert (alpha["recall"]["low"], alpha["recall"]["high"]) == pytest.approx(limits)
    # Agreement: (160 + 752) / 1000 traces; kappa of the golden case.
    assert made["agreement"]["observed"]["value"] == pytest.approx(0.912)
    assert made["agreement"]["kappa"]["value"] == pytest.approx(0.7290640394088671)
    # F1 of precision .8 and recall 160/208; of one label a trace, micro F1 is the agreement.
    assert alpha["f1"]["value"] == pytest.approx(2 * 160 / (200 + 208))
    assert made["averages"]["micro"]["f1"]["value"] == pytest.approx(0.912)
    assert (alpha["flagged"], alpha["missed"], alpha["mark"]) == (50, 3, "ok")
    line = next(line for line in out.splitlines() if line.startswith("alpha"))
    assert line.split()[:4] == ["alpha", "200/1000", "20.0", "20.8"]
    assert row_of(made, "none")["corrected"]["value"] == pytest.approx(1 - 0.208)
    # 40 of 50 and 47 of 50 labels agree.
    assert "87/100  weighted  91.2 %" in out
    brief = " ".join(annotate_cli("calibrate", run, "--labels", file).out.split())
    counts = "agree on 87 of 100 labelled traces (91 % when weighted by how they were drawn; 95 %"
    assert f"{counts} interval" in brief


def test_the_design_file_stands_in_for_the_probabilities(
    annotate_cli, calibrate, tmp_path, rubric, golden
):
    """Two rounds: the second drew 30 more flagged traces, so that each now stands for 200/80."""
    run, file = golden
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows += [
        label(f"a{n}", rubric, *["alpha"][n // 74 :], inclusion_probability=0.4, design="second")
        for n in range(50, 80)
    ]
    write_labels(file, rows)
    assert annotate_cli("calibrate", "-v", run, "--labels", file).code == 2
    strata = {"a": SampledStratum(200, 80), "n": SampledStratum(800, 50)}
    traces = {row["trace_id"]: row["trace_id"][0] for row in rows}
    write_strata(tmp_path / "design.json", rubric, strata, traces)
    made, out = calibrate(run, file, "--design", "design.json")
    # .2 * 64/80 + .8 * 3/50
    assert row_of(made, "alpha")["corrected"]["value"] == pytest.approx(0.208)
    assert {one["weight"] for one in made["joined"]} == {2.5, 16.0}
    assert "add up" not in out


def test_missing_labels_of_one_stratum(annotate_cli, calibrate, tmp_path, rubric):
    """Two strata of 50, 10 drawn of each; beta has 5 labels, on 1 the judge failed, 1 it left
    undecided: each of the five stands for 10. Found beside the labels, and with nothing of a
    stratum left refused.
    """
    traces = [said(f"a{n}", "alpha") for n in range(50)] + [
        said(f"b{n}", *(["beta"] if n > 1 else []), status={0: "failed", 1: "undecided"}.get(n))
        for n in range(50)
    ]
    run = make_run(tmp_path / "run", rubric, traces)
    named = write_strata(tmp_path / "labels.jsonl.design.json", rubric, TWO_STRATA, DRAWN)
    rows = [label(f"a{n}", rubric, "alpha", **named) for n in range(10)]
    rows += [label(f"b{n}", rubric, "beta", **named) for n in range(5)]
    file = write_labels(tmp_path / "labels.jsonl", rows)
    made, out = calibrate(run, file)
    weights = {trace["trace_id"]: trace["weight"] for trace in made["joined"]}
    assert weights == {f"a{n}": 5.0 for n in range(10)} | {f"b{n}": 10 for n in (2, 3, 4)}
    assert [trace["weight"] for trace in made["not_decided"]] == [10, 10]
    assert "count for them too (beta 5/10)." in out
    assert "15 of 20 drawn traces are labelled" in out
    # The same traces stand for as many beside another run, which agrees on the 10 of alpha alone.
    other = make_run(tmp_path / "other", rubric, [said(name, "alpha") for name in DRAWN])
    done = annotate_cli("calibrate", "-v", run, "--labels", file, "--against", other)
    [judges] = calibration(run / "calibration.json")["judges"]
    observed = judges["agreement"]["observed"]["value"]
    assert observed == pytest.approx(10 * 5 / (10 * 5 + 3 * 10))
    # Judges are compared on what others alone labelled, too: with it each drawn trace counts alike.
    more = [label(f"b{n}", rubric, "beta", by="other", **named) for n in range(5, 10)]
    wider = write_labels(tmp_path / "wider.jsonl", rows + more)
    options = ("--annotator", "ann", "--design", f"{file}.design.json", "--against", other)
    done = annotate_cli("calibrate", "-v", run, "--labels", wider, *options)
    assert done.code == 0, done.err
    [judges] = calibration(run / "calibration.json")["judges"]
    assert judges["agreement"]["observed"]["value"] == pytest.approx(10 / 18)
    # A label of the other split changes nothing.
    split = [row | {"split": "dev"} for row in rows]
    split.append(label("a40", rubric, "alpha", split="test", **named))
    options = ("--design", f"{file}.design.json", "--against", other)
    annotate_cli(
        "calibrate", "-v", run, "--labels", write_labels(tmp_path / "split", split), *options
    )
    [judges] = calibration(run / "calibration.json")["judges"]
    assert judges["agreement"]["observed"]["value"] == observed
    none_left = write_labels(tmp_path / "few.jsonl", rows[:10])
    done = annotate_cli(
        "calibrate", "-v", run, "--labels", none_left, "--design", f"{file}.design.json"
    )
    said_in_words(done)
    assert "none of the 10 drawn traces of the stratum 'beta'" in done.err


def test_the_order_of_the_labels_changes_no_resampled_limit(calibrate, tmp_path, rubric):
    codes = [("alpha",), ("beta", "alpha"), ("gamma",), ()]
    traces = [said(f"t{n}", *codes[n % 4], project="p", task=str(n % 9)) for n in range(48)]
    run = make_run(tmp_path / "run", rubric, traces)
    rows = [label(f"t{n}", rubric, *codes[n % 4 - (n % 7 == 0)]) for n in range(48)]
    limits = []
    for lines in (rows, rows[::-1], rows[20:] + rows[:20]):
        made, _ = calibrate(run, lines)
        alpha, f1 = made["sets"]["alpha_masi"], made["rows"][0]["f1"]
        limits.append((alpha["low"], alpha["high"], f1["low"], f1["high"]))
    assert None not in limits[0]
    assert limits[0] == limits[1] == limits[2]


# Traces that the judge did not decide


PEOPLE = ["alpha"] * 30 + ["beta"] * 10 + [None] * 20 + ["gamma", None, None] * 12 + [None] * 4


def half_decided(tmp_path, rubric, numbers, more=(), **options):
    """A run of 100 traces: alpha 30, beta 10, none 20, undecided 36, failed 4; and labels of some:
    every third of the undecided traces has gamma; of the others, what the judge says.
    """
    statuses = [None] * 60 + ["undecided"] * 36 + ["failed"] * 4
    traces = [
        said(f"t{n}", *([code] if code and n < 60 else []), status=status)
        for n, (code, status) in enumerate(zip(PEOPLE, statuses, strict=True))
    ]
    run = make_run(tmp_path / "run", rubric, [*traces, *more], **options)
    rows = [label(f"t{n}", rubric, *filter(None, [PEOPLE[n]])) for n in numbers]
    return run, write_labels(tmp_path / "labels.jsonl", rows)


@pytest.mark.parametrize(
    ("numbers", "shares", "words"),
    [
        # Labels of all answers: .3 alpha, .1 beta, gamma in 6 of 18 of .36; the failed have none.
        (
            range(0, 100, 2),
            {"alpha": 0.3, "beta": 0.1, "gamma": 0.12, "none": 0.2 + 0.24 + 0.04},
            "Corrected shares and recall are of 100 traces: the judge left 36 undecided and 4",
        ),
        # None of the undecided and failed ones: of the 60 decided traces alone.
        (
            range(0, 60, 2),
            {"alpha": 0.5, "beta": 10 / 60, "gamma": 0.0, "none": 20 / 60},
            "About 10 labels of undecided traces (annotate sample draws them) would bring them in",
        ),
    ],
)
def test_undecided_traces_are_an_answer(
    annotate_cli, calibrate, tmp_path, rubric, numbers, shares, words
):
    """Ten points of all 96 traces are .267 of the 36 undecided: at .5 Wilson's half width of 10
    labels is 1.96 sqrt(2.5 + .96) / 13.84 = .263, of 9 labels .274.
    """
    run, file = half_decided(tmp_path, rubric, numbers)
    made, out = calibrate(run, file)
    found = {code: row_of(made, code)["corrected"]["value"] for code in shares}
    assert found == pytest.approx(shares)
    assert words in out
    shown = annotate_cli("report", "-v", run, "--calibration", run / "calibration.json")
    assert words in shown.out


@pytest.mark.parametrize("options", [(), ("--joint",)])
def test_labels_give_a_screen_shares_of_all_codes(
    annotate_cli, calibrate, tmp_path, rubric, options
):
    """A judge that only finds some alpha, with no rule for gamma: 0.3, 0.1, 0.12, together 1."""
    screen = {"known": ["alpha", "beta"], "screens": ["alpha"]}
    run, file = half_decided(tmp_path, rubric, range(0, 100, 2), **screen)
    calibrate(run, file)
    report = ("report", run, "--calibration", run / "calibration.json", *options)
    done = annotate_cli(*report, "--format", "json")
    assert done.code == 0, done.err
    rows = {row["code"]: row for row in json.loads(done.out)[0]["rows"]}
    shares = {code: row["corrected"]["value"] for code, row in rows.items()}
    assert shares == pytest.approx({"alpha": 0.3, "beta": 0.1, "gamma": 0.12, "none": 0.48})
    for row in rows.values():
        assert row["corrected"]["low"] < row["corrected"]["value"] < row["corrected"]["high"]
    # Without labels of the undecided traces nothing is known.
    calibrate(*half_decided(tmp_path, rubric, range(0, 60, 2), **screen))
    rows = json.loads(annotate_cli(*report, "--format", "json").out)[0]["rows"]
    assert [row["corrected"]["value"] for row in rows] == [None] * 4
    assert "none of them has a label" in rows[0]["corrected"]["reason"]


def test_agreement_says_what_was_compared(calibrate, tmp_path, rubric):
    """Judge and people agree on all 30 that it decided, and of 50 on 30."""
    made, out = calibrate(*half_decided(tmp_path, rubric, range(0, 100, 2)))
    assert made["agreement"]["observed"]["value"] == 1
    assert made["agreement_of_all"]["observed"]["value"] == 0.6
    lines = out.splitlines()
    assert (
        "judge and people are compared on 30 of 50 labelled traces; the judge left 18 undecided"
        " and 2 failed"
    ) in " ".join(out.split())
    [line] = [line for line in lines if line.startswith("agreement on all 50")]
    assert "30/50  60.0 %" in line
    # People label what it left undecided alone: nothing is compared, and shares have no value.
    made, out = calibrate(*half_decided(tmp_path, rubric, range(60, 96, 2)))
    assert "compared on 0 of 18 labelled traces" in out
    assert [row["corrected"]["value"] for row in made["rows"]] == [None] * 4


def test_a_code_given_to_few_unlabelled_traces_has_a_share(calibrate, tmp_path, rubric):
    """Gamma is given to 3 of 100 traces, beta to 20, and none of these is labelled: half of the 3,
    with limits from none to all; of beta limits alone.
    """
    pairs = [("gamma", ...)] * 3 + [("beta", ...)] * 20
    pairs += [("alpha", "alpha"), ("alpha", ...)] * 38 + [("alpha", "alpha")]
    made, out = calibrate(*simple(tmp_path, rubric, pairs))
    gamma, beta = (row_of(made, code)["corrected"] for code in ("gamma", "beta"))
    assert (gamma["value"], beta["value"]) == (0.015, None)
    assert gamma["low"] < 0.001
    assert 0.03 < gamma["high"] < 0.12
    assert beta["high"] > 0.2
    assert "No label among the few traces that the judge gave the code" in out
    assert [row_of(made, code)["mark"] for code in ("gamma", "beta")] == ["blind", "one-sided"]
    # 3 of 23 are a larger share, and as few.
    made, _ = calibrate(*simple(tmp_path, rubric, pairs[:3] + [("alpha", "alpha")] * 20))
    assert row_of(made, "gamma")["corrected"]["value"] == pytest.approx(1.5 / 23)


def test_thin_tells_where_labels_are_few_if_the_judge_never_gives_a_code(
    calibrate, tmp_path, rubric
):
    pairs = [("beta", "beta")] * 10 + [("beta", "alpha")] * 2
    made, out = calibrate(*simple(tmp_path, rubric, pairs))
    assert row_of(made, "alpha")["mark"] == "thin"
    assert "if it gave it to no trace, fewer than 5 where a person did." in " ".join(out.split())


def test_one_task_has_values_without_intervals(annotate_cli, calibrate, tmp_path, rubric):
    pairs = [("beta", "beta"), ("alpha", "alpha"), ("beta", "alpha"), ("alpha", "alpha")] * 10
    run, file = simple(tmp_path, rubric, pairs, tasks=1)
    made, out = calibrate(run, file)
    assert row_of(made, "alpha")["corrected"]["value"] == 0.75
    for measure in ("kappa", "ac1"):
        assert made["agreement"][measure]["value"] is not None
        assert made["agreement"][measure]["low"] is None
    [line] = [line for line in out.splitlines() if line.startswith("alpha ")]
    assert " 75.0 - " in " ".join(line.split())
    assert "--cluster none treats traces as independent" in out
    shown = annotate_cli("report", "-v", run, "--calibration", run / "calibration.json")
    assert shown.code == 0, shown.err
    done = annotate_cli("calibrate", "-v", run, "--labels", file, "--min-agreement", 0.1)
    assert (done.code, "all labels are of one task" in done.err) == (4, True)


def test_tasks_of_which_no_trace_counts_do_not_count(annotate_cli, calibrate, tmp_path, rubric):
    """Six tasks; 60 others whose only trace failed, without labels, change no interval."""
    traces = [
        said(f"t{n}", "alpha" if n % 3 else "beta", project="p", task=str(n % 6)) for n in range(60)
    ]
    failed = [said(f"f{n}", status="failed", project="p", task=f"f{n}") for n in range(60)]
    rows = [label(f"t{n}", rubric, "alpha" if n % 4 else "gamma") for n in range(40)]
    file, found = write_labels(tmp_path / "l.jsonl", rows), []
    for name, more in (("alone", []), ("with", failed)):
        run = make_run(tmp_path / name, rubric, traces + more)
        calibrate(run, file)
        report = ("report", run, "--calibration", run / "calibration.json", "--format", "json")
        made = calibration(run / "calibration.json")
        joint = json.loads(annotate_cli(*report, "--joint").out)[0]["rows"]
        shares = [row_of(made, "alpha")["corrected"], joint[0]["corrected"]]
        found.append([(one["low"], one["high"]) for one in shares])
    assert found[0] == found[1]


@pytest.mark.parametrize("status", ["undecided", "failed", None])
def test_a_run_that_has_grown_is_another(annotate_cli, calibrate, tmp_path, rubric, status):
    calibrate(*half_decided(tmp_path, rubric, range(0, 100, 2)))
    more = [said(f"new{n}", *([] if status else ["alpha"]), status=status) for n in range(5)]
    run, _ = half_decided(tmp_path, rubric, range(0, 100, 2), more)
    done = annotate_cli("report", run, "--calibration", run / "calibration.json")
    said_in_words(done)
    assert "the run has grown since" in done.err


def test_labels_of_a_design_are_weighed_alike_in_another_run(calibrate, tmp_path, rubric):
    """This run lacks 5 of a stratum of 50: the other 5 drawn stand for 5 each, as all do."""
    write_strata(tmp_path / "d.json", rubric, TWO_STRATA, DRAWN)
    here = [name for name in DRAWN if name not in ("b0", "b1", "b2", "b3", "b4")]
    run = make_run(tmp_path / "run", rubric, [said(name, "alpha") for name in here])
    rows = [label(name, rubric, "alpha") for name in DRAWN]
    made, out = calibrate(run, rows, "--design", "d.json")
    assert {trace["weight"] for trace in made["joined"]} == {5.0}
    assert "20 of 20 drawn traces are labelled" in out
    assert "without a label" not in out


def test_of_a_corpus_that_is_labelled_in_full_nothing_is_uncertain(
    annotate_cli, calibrate, tmp_path, rubric
):
    """Its tasks are all there, so that how they differ adds nothing; to what makes such traces it
    does. Jointly it is of the latter alone.
    """
    run, file = simple(tmp_path, rubric, [("beta", "gamma"), ("alpha", "alpha")] * 30, tasks=10)
    process, corpus = (
        row_of(calibrate(run, file, "--population", population)[0], "alpha")["corrected"]
        for population in ("process", "corpus")
    )
    assert (corpus["low"], corpus["value"], corpus["high"]) == (0.5, 0.5, 0.5)
    assert process["inputs"]["design_effect"] > 4
    assert process["low"] < 0.3 < 0.7 < process["high"]
    joint = annotate_cli("report", "-v", run, "--joint", "--calibration", run / "calibration.json")
    said_in_words(joint)


# Marks, codes without a rule, undefined numbers


def test_marks(calibrate, tmp_path, rubric):
    """alpha: 5 flagged labels; beta: 4; gamma: none flagged, 1 missed; none: 1 flagged."""
    pairs = [("alpha", "alpha")] * 5 + [("beta", "beta")] * 3 + [("beta", "gamma"), (None, None)]
    run, file = simple(tmp_path, rubric, pairs)
    made, _ = calibrate(run, file)
    found = {row["code"]: (row["flagged"], row["missed"], row["mark"]) for row in made["rows"]}
    assert found == {
        "alpha": (5, 0, "ok"),
        "beta": (4, 0, "thin"),
        "gamma": (0, 1, "thin"),
        "none": (1, 0, "thin"),
    }


def test_a_code_without_a_rule_is_not_judged_but_corrected(calibrate, tmp_path, rubric):
    """The judge has no rule for gamma; a person finds it in 2 of 10 traces."""
    pairs = [("alpha", "alpha")] * 8 + [(None, "gamma")] * 2
    made, out = calibrate(*simple(tmp_path, rubric, pairs, known=["alpha", "beta"]))
    gamma = row_of(made, "gamma")
    assert gamma["judged"] is None
    assert gamma["corrected"]["value"] == pytest.approx(0.2)
    assert (gamma["flagged"], gamma["missed"]) == (0, 2)
    [line] = [line for line in out.splitlines() if line.startswith("gamma")]
    assert line.split()[:4] == ["gamma", "-", "-", "20.0"]


@pytest.mark.parametrize(
    ("pairs", "kappa"),
    [
        ([("alpha", "alpha")] * 5, None),  # one class: chance agrees as often
        ([("alpha", "beta")] * 5, 0.0),
        ([(None, None)], None),
        ([(None, "alpha")], 0.0),
    ],
)
def test_one_class_and_one_label(calibrate, tmp_path, rubric, pairs, kappa):
    made, out = calibrate(*simple(tmp_path, rubric, pairs), "--full", "--disagreements")
    assert made["agreement"]["kappa"]["value"] == kappa
    assert made["agreement"]["kappa"]["reason"]
    assert "nan" not in out.lower()
    assert "None" not in out


def test_many_codes_are_counted_each(calibrate, tmp_path):
    """6 traces: the judge gives {a, b}, {a}, {}, ... By hand: alpha is right in 3 of 4."""
    rubric = make_rubric(tmp_path, "many")
    judge = [("alpha", "beta"), ("alpha",), ("alpha",), ("alpha", "beta"), (), ("gamma",)]
    person = [("beta", "alpha"), ("alpha",), ("beta",), ("alpha",), (), ("gamma", "beta")]
    run = make_run(tmp_path / "run", rubric, [said(f"t{n}", *one) for n, one in enumerate(judge)])
    rows = [label(f"t{n}", rubric, *one) for n, one in enumerate(person)]
    made, out = calibrate(run, rows, "--full", "--disagreements")
    # Whole sets: t0, t1 and t4 agree.
    assert made["agreement"]["observed"]["value"] == pytest.approx(3 / 6)
    assert made["sets"]["exact"]["value"] == pytest.approx(3 / 6)
    # Jaccard: 1, 1, 0, 1/2, 1 (both empty), 1/2.
    assert made["sets"]["mean_jaccard"]["value"] == pytest.approx(4 / 6)
    assert row_of(made, "alpha")["precision"]["value"] == pytest.approx(3 / 4)
    assert row_of(made, "beta")["corrected"]["value"] == pytest.approx(3 / 6)
    assert row_of(made, "none")["corrected"]["value"] == pytest.approx(1 / 6)
    assert "3 of 6 labelled traces disagree" in out


def test_all_disagreements_are_listed_with_quotes(annotate_cli, tmp_path, rubric):
    pairs = [("alpha", "alpha"), ("alpha", "beta"), (None, "gamma")]
    run, file = simple(tmp_path, rubric, pairs)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[1] |= {"evidence": ["seen there"], "note": "why so"}
    write_labels(file, rows)
    out = annotate_cli("calibrate", "-v", run, "--labels", file, "--disagreements").out
    listed = out.partition("disagree (faults)")[2]
    assert "2 of 3 labelled traces disagree" in out
    assert "t1\n" in listed
    assert "t2\n" in listed
    assert "t0" not in listed
    for words in ("seen there", "why so", "because of alpha", "quoted here"):
        assert words in listed


def test_few_tasks_are_warned_of(calibrate, tmp_path, rubric):
    pairs = [("alpha", "beta")] + [("alpha", "alpha")] * 11
    _, out = calibrate(*simple(tmp_path, rubric, pairs, tasks=3))
    assert "3 tasks, fewer than 20" in out
    assert "fewer than 5 tasks): alpha (3), beta (1)." in out


# People with each other


def rows_by(rubric, **codes):
    """Labels of t0, t1, ... by each person."""
    return [
        label(f"t{n}", rubric, code, by=by)
        for by, line in codes.items()
        for n, code in enumerate(line.split())
    ]


def test_people_are_held_against_each_other(calibrate, tmp_path, rubric):
    """ann and bob on 4 traces, 3 the same; kappa by hand: po 3/4, pe (3*2 + 1*2)/16 = 1/2; alpha,
    of 5 alpha and 3 beta: 1 - (2/8) / (2*5*3 / (8*7)).
    """
    run = make_run(tmp_path / "run", rubric, [said(f"t{n}", "alpha") for n in range(5)])
    codes = {"ann": "alpha alpha alpha beta beta", "bob": "alpha alpha beta beta"}
    made, out = calibrate(run, rows_by(rubric, **codes, gold="alpha " * 5))
    [pair] = made["between"]
    assert made["people_alpha"]["value"] == pytest.approx(1 - 14 / 30)
    assert (pair["what"], pair["n"]) == ("ann and bob", 4)
    assert pair["agreement"]["observed"]["value"] == 0.75
    assert pair["agreement"]["kappa"]["value"] == pytest.approx(0.5)
    assert "human-human  ann and bob: 75.0 %, kappa 0.50" in out


def test_who_was_responsible_is_said_by_the_finding_that_decides(calibrate, tmp_path, rubric):
    """The judge's primary code is alpha, its first finding of beta; a trace without a finding names
    nobody, and is wrong.
    """
    one = said("t0", "alpha", "beta")
    alpha, beta = one.findings
    found = (replace(beta, agent="b", step=2), replace(alpha, agent="a_1", step=5))
    run = make_run(tmp_path / "run", rubric, [replace(one, findings=found), said("t1")])
    rows = [label(f"t{n}", rubric, "alpha", agent="A1", step=5) for n in range(2)]
    shares = calibrate(run, rows)[0]["attribution"]
    counts = {name: (share["k"], share["n"]) for name, share in shares.items()}
    assert counts == dict.fromkeys(("agent", "step", "step within 1"), (1, 2))


def test_a_baseline_always_gives_the_commonest_agent_and_step(calibrate, tmp_path, rubric):
    """Labels: A three times (in two spellings), b once; steps 1, 3, 5, 5. The judge names A at step
    5. Step 4 is at most one off in three traces: 3, 5 and 5. Wilson for 3 of 4: .301 to .954,
    for 2 of 4: .150 to .850.
    """
    named = [
        replace(one, findings=(replace(one.findings[0], agent="A", step=5),))
        for one in (said(f"t{n}", "alpha") for n in range(4))
    ]
    run = make_run(tmp_path / "run", rubric, named)
    people = zip(("b", "a_", "A", "A"), (1, 3, 5, 5), strict=True)
    rows = [label(f"t{n}", rubric, "alpha", agent=x, step=y) for n, (x, y) in enumerate(people)]
    made, out = calibrate(run, rows)
    found = {
        name: (item["answer"], item["share"]["k"], item["share"]["n"])
        for name, item in made["attribution_baselines"].items()
    }
    expected = {"agent": ("a_", 3, 4), "step": ("5", 2, 4), "step within 1": ("4", 3, 4)}
    assert found == expected
    lines = [" ".join(line.split()) for line in out.splitlines()]
    at = lines.index("responsible agent 3/4 75.0 % [30.1, 95.4]")
    assert lines[at + 1] == "baseline: always a_ 3/4 75.0 % [30.1, 95.4]"
    assert lines[at + 3] == "baseline: always 5 2/4 50.0 % [15.0, 85.0]"


def test_shares_by_other_people_and_by_predictions(annotate_cli, tmp_path, rubric):
    """The judge gives alpha to 22 of 40. Of 12 labelled traces with alpha and 12 without ann says
    it of 10 and 2, bob of 8 and 2: .55 * 10 / 12 + .45 * 2 / 12 = .533, and .442. PPI++: covariance
    10/24 - 1/4, variance of the judge 40 (.55 * .45) / 39, tuning 1/6 / (2.5 * .2538) = .2626; 10
    of the 16 others are flagged: .5 + .2626 * (10/16 - 12/24) = .533, with the standard error
    sqrt((.25 + .2626^2 / 4 - 2 * .2626 / 6) / 24 + .2626^2 (10/16 * 6/16) / 16) = .0922.
    """
    run = make_run(
        tmp_path / "run", rubric, [said(f"t{n}", *["alpha"][n // 22 :]) for n in range(40)]
    )
    rows = [
        label(f"t{n}", rubric, "alpha" if n < first or 22 <= n < 24 else "beta", by=by)
        for by, first in (("ann", 10), ("bob", 8))
        for n in (*range(12), *range(22, 34))
    ]
    file = write_labels(tmp_path / "l.jsonl", rows)
    done = annotate_cli("calibrate", "-v", run, "--labels", file, "--annotator", "ann", "--full")
    row = row_of(calibration(run / "calibration.json"), "alpha")
    assert row["over_annotators"] == pytest.approx([0.55 * 8 / 12 + 0.075, 0.55 * 10 / 12 + 0.075])
    shown = [line for line in done.out.splitlines() if line.startswith("alpha")]
    assert " [44.2, 53.3] " in shown[0]
    assert shown[-1].endswith(" 53.3 [35.2, 71.4]")
    # No label has gamma: fewer than ten.
    assert [line for line in done.out.splitlines() if line.startswith("gamma")][-1].endswith("  -")


@pytest.mark.parametrize(
    ("n", "differ", "reference", "warned"),
    [(10, 4, "gold", True), (9, 4, "gold", False), (10, 1, "gold", False), (10, 4, "ann", False)],
)
def test_a_judge_that_agrees_better_with_gold_than_people_do(
    annotate_cli, tmp_path, rubric, n, differ, reference, warned
):
    """Gold, ann and the judge agree in all; bob differs in 4 of 10: po .6, pe .5 * .1 + .5 * .9.
    One of 10 may be chance: a third of the resamples lack it. A trace that the judge left
    undecided, on which ann and bob differ too, is none of these.
    """
    codes = ["alpha"] * 5 + ["beta"] * (n - 5)
    traces = [said(f"t{m}", one) for m, one in enumerate(codes)]
    run = make_run(tmp_path / "run", rubric, [*traces, said(f"t{n}", status="undecided")])
    gold, bob = " ".join([*codes, "alpha"]), " ".join(["beta"] * differ + codes[differ:] + ["beta"])
    file = write_labels(tmp_path / "l.jsonl", rows_by(rubric, gold=gold, ann=gold, bob=bob))
    done = annotate_cli("calibrate", "-v", run, "--labels", file, "--annotator", reference)
    assert done.code == 0, done.err
    told = "On 10 traces the judge agrees better with gold (kappa 1.00) than ann and bob with"
    assert ("agrees better" in done.out, told in done.out) == (warned, warned)


@pytest.mark.parametrize("with_run", [False, True])
def test_between_two_annotators(annotate_cli, tmp_path, rubric, with_run):
    run, _ = simple(tmp_path, rubric, [("alpha", "alpha")] * 4, tasks=2)
    rows = rows_by(rubric, ann="alpha alpha alpha beta", bob="alpha alpha beta beta")
    file = write_labels(tmp_path / "l.jsonl", [row | {"note": "nn"} for row in rows])
    where = [run] if with_run else ["--rubric", tmp_path / "faults.yaml"]
    between = ("--labels", file, "--between", "ann", "bob")
    done = annotate_cli("calibrate", "-v", *where, *between, "--json")
    assert done.code == 0, done.err
    [found] = json.loads(done.out)
    assert (found["n"], found["differing"]) == (4, ["t2"])
    assert found["agreement"]["kappa"]["value"] == pytest.approx(0.5)
    assert found["agreement"]["observed"]["inputs"]["clusters"] == (2 if with_run else None)
    shown = annotate_cli("calibrate", "-v", *where, *between, "--disagreements")
    assert "t2\n" in shown.out
    assert "note: nn" in shown.out
    assert max(map(len, shown.raw.splitlines())) <= 80
    assert not (tmp_path / "l.jsonl.looks.jsonl").exists()  # no judge was looked at


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("primary", "1 disagreement on the primary code; other codes are not compared ("),
        ("many", "2 disagreements on the whole set of codes ("),
    ],
)
def test_disagreements_say_what_is_compared(annotate_cli, tmp_path, choice, expected):
    """On t0 all codes are the same, on t1 the primary one alone, on t2 none."""
    rubric = make_rubric(tmp_path, choice)
    codes = {"ann": ["alpha beta"] * 3, "bob": ["alpha beta", "alpha", "gamma"]}
    rows = [
        label(f"t{n}", rubric, *text.split(), by=name)
        for name, texts in codes.items()
        for n, text in enumerate(texts)
    ]
    file = write_labels(tmp_path / "l.jsonl", rows)
    where = ("--labels", file, "--rubric", tmp_path / "faults.yaml", "--between", "ann", "bob")
    assert expected in " ".join(annotate_cli("calibrate", *where).out.split())


# Thresholds


@pytest.mark.parametrize(
    ("options", "code", "word"),
    [
        (("--min-agreement", 0.5), 0, "agreement of at least 0.5: met"),
        (("--min-agreement", 0.99), 1, "agreement of at least 0.99: missed"),
        (("--min-agreement", 0.9), 4, "agreement of at least 0.9: undecided"),
        (("--min-kappa", 0.5), 0, "kappa of at least 0.5: met"),
        (("--min-kappa", 0.98), 1, "kappa of at least 0.98: missed"),
        (("--min-kappa", 0.75), 4, "kappa of at least 0.75: undecided"),
        (("--min-agreement", 0.9, "--min-kappa", 0.98), 1, "undecided"),
        (("--min-agreement", 0.9, "--min-kappa", 0.5), 4, "met"),
    ],
)
def test_bars(annotate_cli, tmp_path, rubric, options, code, word):
    """88 of 100 agree, half alpha, half beta: Wilson [.802, .930]; pe 1/2, so that kappa is .76
    [.604, .860].
    """
    pairs = [("alpha", "alpha")] * 44 + [("beta", "beta")] * 44
    pairs += [("alpha", "beta")] * 6 + [("beta", "alpha")] * 6
    run, file = simple(tmp_path, rubric, pairs)
    done = annotate_cli("calibrate", "-v", run, "--labels", file, *options)
    assert done.code == code, done.err
    assert word in done.err
    assert (run / "calibration.json").exists()


def test_the_number_of_further_labels_holds_with_tasks_too(annotate_cli, tmp_path, rubric):
    """6 tasks of 8, wrong in 2 traces: 46 of 48. With that many labels more, of other tasks like
    these, Wilson's limit with Student's t reaches the bar; with one less it does not.
    """
    pairs = [("alpha", "beta")] * 2 + [("alpha", "alpha")] * 46
    run, file = simple(tmp_path, rubric, pairs, tasks=6)
    done = annotate_cli("calibrate", "-v", run, "--labels", file, "--min-agreement", 0.83)
    assert done.code == 4, done.err
    more = int(done.err.partition("about ")[2].split()[0])
    inputs = calibration(run / "calibration.json")["agreement"]["observed"]["inputs"]
    low = [
        compute_wilson_limits(46 / 48, n * inputs["n_effective"] / 48, 0.95, 6 * n / 48 - 1)[0]
        for n in (47 + more, 48 + more)
    ]
    assert low[0] < 0.83 <= low[1]


def calibrate_reruns(calibrate, tmp_path, rubric, runs):
    first, *others = (
        make_run(
            tmp_path / f"run{n}",
            rubric,
            [said(f"t{trace}", *codes, task=f"k{trace}") for trace, codes in enumerate(run)],
        )
        for n, run in enumerate(runs)
    )
    rows = [label(f"t{trace}", rubric, "alpha") for trace in range(len(runs[0]))]
    against = [word for other in others for word in ("--against", other)]
    return calibrate(first, rows, "--full", *against)


def test_three_runs_of_a_judge(calibrate, tmp_path, rubric):
    """Six traces, three runs, by hand. Pairs that agree: 3, 1, 3, 3, 0, 3 of 3 each: 13/18. All the
    same: traces 1, 3, 4 and 6. alpha: of 18 values a has 6, b 5, c 4, none 3, so that
    De = 1 - (6*5 + 5*4 + 4*3 + 3*2) / (18*17), and Do = 1 - 13/18.
    """
    runs = [
        (["alpha"], ["alpha"], [], ["beta"], ["beta"], ["gamma"]),
        (["alpha"], ["beta"], [], ["beta"], ["alpha"], ["gamma"]),
        (["alpha"], ["alpha"], [], ["beta"], ["gamma"], ["gamma"]),
    ]
    made, out = calibrate_reruns(calibrate, tmp_path, rubric, runs)
    found = made["reruns"]
    assert found["n"] == 6
    assert found["mean_pairwise_agreement"]["value"] == pytest.approx(13 / 18)
    assert found["share_unanimous"]["value"] == pytest.approx(4 / 6)
    expected = 1 - (6 * 5 + 5 * 4 + 4 * 3 + 3 * 2) / (18 * 17)
    alpha = 1 - (1 - 13 / 18) / expected
    assert found["krippendorff_alpha"]["value"] == pytest.approx(alpha)
    flips = {code: (one["flipped"], one["given"]) for code, one in found["flips"].items()}
    assert flips == {"alpha": (2, 3), "beta": (2, 3), "gamma": (1, 2), "none": (0, 1)}
    assert "judge re-runs  6 traces: pairwise 72.2 %, unanimous 66.7 %" in out
    assert "flips  beta  2/3" in out


def test_flips_are_of_codes_where_many_are_allowed(calibrate, tmp_path):
    """Four traces, two runs: alpha in three traces, lost once; beta in two, lost once."""
    rubric = make_rubric(tmp_path, "many", id="many")
    runs = [
        (["alpha"], ["alpha", "beta"], ["alpha"], ["beta"]),
        (["alpha"], ["alpha"], ["gamma"], ["beta"]),
    ]
    flips = calibrate_reruns(calibrate, tmp_path, rubric, runs)[0]["reruns"]["flips"]
    found = {code: (one["flipped"], one["given"]) for code, one in flips.items()}
    assert found == {"alpha": (1, 3), "beta": (1, 2), "gamma": (1, 1)}


# From Python, and files


def test_no_look_is_noted_where_the_labels_of_one_rubric_do_not_fit(tmp_path, rubric):
    other = make_rubric(tmp_path, id="others")
    pairs = [said(f"t{n}", "alpha") for n in range(4)]
    run = open_run(make_run(tmp_path / "run", rubric, pairs, more=[(other, pairs)]))
    rows = [label(f"t{n}", rubric, "alpha") for n in range(4)] + [label("z", other, "alpha")]
    file = write_labels(tmp_path / "labels.jsonl", rows)
    with pytest.raises(AnnotatorError):
        api.calibrate_rubrics(run, file)
    assert not (tmp_path / "labels.jsonl.looks.jsonl").exists()


def test_no_estimator_has_a_share_that_the_table_withholds(annotate_cli, tmp_path, rubric):
    """The judge has found alpha, and a trace that it left undecided may hold more."""
    traces = [said(f"t{n}", "alpha") for n in range(6)] + [said("u", status="undecided")]
    run = make_run(tmp_path / "run", rubric, traces, screens=["alpha", "beta", "gamma"])
    rows = [label(f"t{n}", rubric, "alpha") for n in range(6)]
    file = write_labels(tmp_path / "labels.jsonl", rows)
    done = annotate_cli("calibrate", "-v", run, "--labels", file, "--full")
    assert done.code == 0, done.err
    table = done.out[done.out.index("Rogan") :]
    [row] = [line for line in table.splitlines() if line.startswith("alpha")]
    assert not re.search(r"\d", row)


def test_names_are_strings_or_lists_and_a_confidence_is_no_percentage(tmp_path, rubric):
    pairs = [("alpha", "beta"), ("alpha", "alpha")] * 6
    folder, file = simple(tmp_path, rubric, pairs, tasks=3)
    run = open_run(folder)
    with pytest.raises(AnnotatorError, match="confidence"):
        api.calibrate(run, file, "faults", confidence=95)
    assert not (tmp_path / "labels.jsonl.looks.jsonl").exists()
    plain, listed = (
        api.calibrate(run, file, "faults", annotators=who, cluster=cluster)
        for who, cluster in (("ann", "task"), (["ann"], ["task"]))
    )
    assert (plain.labels.clusters, plain.cluster_by) == (3, ("task",))
    assert plain.rows == listed.rows


def test_the_file_of_two_rubrics(annotate_cli, calibrate, tmp_path, rubric):
    """As printed by --json, the same each time but for the look, and at the level asked for."""
    other = make_rubric(tmp_path, "one", ["delta"], id="other")
    run = make_run(
        tmp_path / "run",
        rubric,
        [said("t1", "alpha"), said("t2")],
        more=[(other, [said("t1", "delta"), said("t2")])],
    )
    rows = [label("t1", rubric, "alpha"), label("t2", rubric), label("t1", other, "delta")]
    file = write_labels(tmp_path / "l.jsonl", rows)
    command = ("calibrate", run, "--labels", file, "--out", "here.json")
    done = annotate_cli(*command, "--json")
    assert json.loads(done.out) == json.loads((tmp_path / "here.json").read_text())
    assert not (run / "calibration.json").exists()
    written = [calibration(tmp_path / "here.json", n) for n in (0, 1)]
    assert [one["labels"]["n"] for one in written] == [2, 1]
    made, out = calibrate(run, file, "--rubric", "other")
    assert made | {"look": None} == written[1] | {"look": None}
    made, out = calibrate(run, file, "--rubric", "faults", "--confidence", 0.9)
    assert {row["corrected"]["confidence"] for row in made["rows"]} == {0.9}
    assert ("90 %" in out, "95 %" in out) == (True, False)


BETWEEN = {
    "no labels": ("ann zoe", "'zoe'"),
    "one person": ("ann ann", "one annotator"),
    "--annotator": ("ann bob --annotator ann", "--annotator"),
    "--out": ("ann bob --out new.json", "--out"),
    "no such rubric": ("ann bob --rubric nowhere.yaml", "nowhere.yaml"),
}


@pytest.mark.parametrize(("words", "word"), BETWEEN.values(), ids=BETWEEN)
def test_between_that_cannot_be(annotate_cli, tmp_path, rubric, words, word):
    rows = [label("t0", rubric, "alpha", by=by) for by in ("ann", "bob")]
    file = write_labels(tmp_path / "l.jsonl", rows)
    given = ("--rubric", tmp_path / "faults.yaml", "--between", *words.split())
    done = annotate_cli("calibrate", "-v", "--labels", file, *given)
    said_in_words(done)
    assert word in done.err


@pytest.mark.parametrize(
    ("judges", "cached", "what", "note"),
    [
        (("llm:m", "llm:m"), (0, 0), "llm:m again", None),
        # Two runs that share the cache agree by construction; which was first does not matter.
        (("llm:m", "llm:m"), (3, 0), "llm:m again", "out of the cache"),
        (("llm:m", "llm:m"), (0, 3), "llm:m again", "out of the cache"),
        (("rules", "rules"), (0, 0), "rules again", "always answers the same"),
        (("llm:m", "rules"), (0, 0), "llm:m and rules", None),
        (("llm:m", "llm:other"), (0, 5), "llm:m and llm:other", None),
    ],
)
def test_another_run_of_the_same_traces(
    annotate_cli, calibrate, tmp_path, rubric, judges, cached, what, note
):
    """6 of 8 the same; by hand pe = (6*4 + 2*4)/64 = 1/2, kappa (3/4 - 1/2)/(1/2)."""
    run, other = (
        make_run(
            tmp_path / name,
            rubric,
            [said(f"t{n}", "alpha" if n < alpha else "beta") for n in range(8)],
            judge=judge,
            totals={"cache_hits": hits},
        )
        for name, alpha, judge, hits in zip(("a", "b"), (6, 4), judges, cached, strict=True)
    )
    far = make_run(tmp_path / "far", rubric, [said("elsewhere", "alpha")])
    rows = [label(f"t{n}", rubric, "alpha") for n in range(8)]
    file = write_labels(tmp_path / "l.jsonl", rows)
    made, out = calibrate(run, file, "--against", other, "--against", far)
    [pair] = made["judges"]
    assert (pair["what"], pair["n"]) == (what, 8)
    assert pair["agreement"]["observed"]["value"] == 0.75
    assert pair["agreement"]["kappa"]["value"] == pytest.approx(0.5)
    assert (note or "") in (pair["note"] or "")
    assert bool(pair["note"]) == bool(note)
    assert "No labelled trace was judged both here and in" in out
    assert "far: not compared." in out
    newer = make_run(tmp_path / "v2", make_rubric(tmp_path, version=2), [said("t0", "alpha")])
    for wrong, word in ((newer, "another version"), (run, "the run itself"), (other, "twice")):
        against = ("--against", other, "--against", wrong)
        done = annotate_cli("calibrate", "-v", run, "--labels", file, *against)
        said_in_words(done)
        assert word in done.err


@pytest.mark.parametrize(
    ("k", "n", "option", "value", "code", "word"),
    [
        (50, 50, "kappa", 0.5, 4, "undefined"),
        (9, 10, "agreement", 0.9, 4, "no number of"),
        (88, 100, "agreement", 0.9, 4, "about"),
        (45, 50, "agreement", 0.85, 4, "about"),
        (6, 10, "agreement", 0.5, 4, "about"),
    ],
)
def test_how_many_more_labels_decide(
    annotate_cli, tmp_path, rubric, k, n, option, value, code, word
):
    """At the same share, by Wilson's interval of the larger sample; with one less it is open."""
    run, file = simple(tmp_path, rubric, [("alpha", "alpha")] * k + [("alpha", "beta")] * (n - k))
    done = annotate_cli("calibrate", "-v", run, "--labels", file, f"--min-{option}", value)
    assert done.code == code
    assert word in done.err
    if word == "about":
        more = int(done.err.partition("about ")[2].split()[0])
        limits = [compute_wilson_limits(k / n, n + more + less) for less in (-1, 0)]
        assert [low >= value or high < value for low, high in limits] == [False, True]


# Panels


def test_the_errors_of_a_panel_by_hand(annotate_cli, tmp_path):
    """Two votes on eight traces that people call alpha: both wrong on three, each alone on one,
    both right on three. phi of the errors = (3 * 3 - 1 * 1) / 16 = .5: 2 / (1 + .5) votes. With
    four traces without alpha, on which both are right, (3 * 7 - 1 * 1) / (4 * 8) = .625: 2 / 1.625.
    """
    rubric = make_rubric(tmp_path, "one", ["alpha"])
    votes = ["--"] * 3 + ["A-", "-A"] + ["AA"] * 3
    for more, expected in (([], 4 / 3), (["--"] * 4, 2 / 1.625)):
        traces = [
            replace(
                said(f"t{n}", *["alpha"][: "A" in pair]),
                votes=tuple(
                    Vote("llm:m", k, "labelled", "alpha")
                    if vote == "A"
                    else Vote("llm:m", k, "none")
                    for k, vote in enumerate(pair, 1)
                ),
            )
            for n, pair in enumerate(votes + more)
        ]
        run = make_run(tmp_path / f"run{len(traces)}", rubric, traces)
        rows = [label(f"t{n}", rubric, *["alpha"][: n < 8]) for n in range(len(traces))]
        labels = write_labels(tmp_path / "panel.jsonl", rows)
        done = annotate_cli("calibrate", run, "--labels", labels)
        found = calibration(run / "calibration.json")["effective_votes"]
        assert found["value"] == pytest.approx(expected)
        assert (found["n"], found["inputs"]["votes"]) == (len(traces), 2)
        assert found["low"] < expected < found["high"]
    text = " ".join(done.out.split())
    assert re.search(
        r"2 votes count as about 1\.2 \[.*?\] independent ones \(correl.* n 12\)", text
    )
