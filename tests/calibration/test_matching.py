"""Which labels are held against which annotations: ids, annotators, splits, weights, clusters."""

import pytest

from annotator.calibration.matching import select_labels
from annotator.calibration.sample.design import Design, SampledStratum, write_design
from annotator.labels import read_labels
from annotator.traces.clusters import find_cluster
from tests.calibration.build import label, make_run, said, said_in_words, write_labels


@pytest.fixture
def ten(tmp_path, rubric):
    """Ten judged traces t0 to t9, all alpha, a skipped, a failed and an undecided one."""
    traces = [said(f"t{n}", "alpha") for n in range(10)]
    traces += [said("passed", status="skipped"), said("broken", status="failed")]
    traces += [said("torn", status="undecided")]
    return make_run(tmp_path / "run", rubric, traces)


def labels_of(tmp_path, *rows, name="labels.jsonl"):
    return write_labels(tmp_path / name, rows)


# Ids


def test_what_cannot_be_held_side_by_side_is_left_out_and_said(
    annotate_cli, calibrate, tmp_path, rubric, ten
):
    ids = ["t0", "gone", "passed", "t1", "broken", "torn", "lost"]
    file = labels_of(tmp_path, *(label(one, rubric, "alpha") for one in ids))
    made, out = calibrate(ten, file)
    assert [one["trace_id"] for one in made["joined"]] == ["t0", "t1"]
    assert (made["labels"]["n"], made["judged"]) == (2, 10)
    assert made["labels"]["not_in_run"] == ["gone", "lost"]
    assert (made["labels"]["skipped"], made["labels"]["failed"]) == (["passed"], ["broken"])
    assert made["labels"]["undecided"] == ["torn"]
    for line in (
        "2 labelled traces are not in the run.",
        "Left out: 1 labelled trace that the run skipped.",
        "The judge left 1 labelled trace undecided, where people say alpha 1.",
        "judge and people are compared on 2 of 4 labelled traces; the judge left 1 undecided and 1"
        " failed",
        "not in run: gone, lost",
        "skipped: passed",
        "failed: broken",
        "undecided: torn",
    ):
        assert line in " ".join(out.split())
    # A caption of a report tells how many they are; their ids are for who calibrates.
    report = annotate_cli("report", "-v", ten, "--calibration", ten / "calibration.json").out
    assert "2 labelled traces are not in the run." in report
    assert "gone" not in report


# Annotators


def write_two(tmp_path, rubric, *more):
    given = ("t0", "alpha", "ann"), ("t1", "alpha", "ann"), ("t1", "beta", "bob")
    given += ("t2", "beta", "bob"), *more
    return labels_of(tmp_path, *(label(trace, rubric, code, by=by) for trace, code, by in given))


def human(made):
    return {one["trace_id"]: one["human"]["primary"] for one in made["joined"]}


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (["ann"], {"t0": "alpha", "t1": "alpha"}),
        (["bob"], {"t1": "beta", "t2": "beta"}),
        (["ann", "bob"], {"t0": "alpha", "t1": "alpha", "t2": "beta"}),
        (["bob", "ann"], {"t0": "alpha", "t1": "beta", "t2": "beta"}),
    ],
)
def test_the_first_annotator_who_labelled_a_trace_decides(
    calibrate, tmp_path, rubric, ten, order, expected
):
    options = (word for name in order for word in ("--annotator", name))
    made, _ = calibrate(ten, write_two(tmp_path, rubric), *options)
    assert human(made) == expected
    assert made["labels"]["annotators"] == order


GOLD = [(f"t{n}", "gamma", "gold") for n in range(3)]


@pytest.mark.parametrize(
    ("more", "whose"),
    [
        (GOLD, ("gold",)),
        # Both ann and gold labelled all: gold is what was agreed on.
        ([*GOLD, ("t2", "beta", "ann")], ("gold",)),
        # ann labelled all that bob did: a second person's sheet holds a part of the first one's.
        ([("t2", "alpha", "ann")], ("ann",)),
        # Adjudicated: gold where two differed, then the person who labelled all, or each alone.
        ([("t2", "alpha", "ann"), ("t1", "gamma", "gold")], ("gold", "ann")),
        ([("t1", "gamma", "gold")], ("gold", "ann", "bob")),
    ],
)
def test_whose_labels_count_by_default(tmp_path, rubric, more, whose):
    labels = read_labels([write_two(tmp_path, rubric, *more)], rubric.scheme())
    assert select_labels(labels, ())[1] == whose


def test_gold_decides_before_others(annotate_cli, calibrate, tmp_path, rubric, ten):
    file = write_two(tmp_path, rubric, ("t1", "gamma", "gold"))
    made, _ = calibrate(ten, file)
    assert human(made) == {"t0": "alpha", "t1": "gamma", "t2": "beta"}
    file = write_two(tmp_path, rubric, ("t0", "gamma", "gold"))
    done = annotate_cli("calibrate", ten, "--labels", file)
    said_in_words(done)
    assert "of several annotators on traces that gold has not decided: ann, bob, gold" in done.err


# Splits


@pytest.mark.parametrize(
    ("splits", "final", "expected"),
    [
        (["dev", "test", "test"], False, ("dev", ["t0"])),
        (["dev", "test", "test"], True, ("test", ["t1", "t2"])),
        ([None, None], False, ("all", ["t0", "t1"])),
        ([None, None], True, ("all", ["t0", "t1"])),
    ],
)
def test_the_test_split_is_opened_by_final_only(
    calibrate, tmp_path, rubric, ten, splits, final, expected
):
    rows = [
        label(f"t{n}", rubric, "alpha") | ({"split": split} if split else {})
        for n, split in enumerate(splits)
    ]
    made, _ = calibrate(ten, rows, *(["--final"] if final else []))
    assert (made["labels"]["split"], [one["trace_id"] for one in made["joined"]]) == expected


# Weights


@pytest.mark.parametrize(
    ("chances", "design", "weights"),
    [
        ([None, None, None], "unknown", [1, 1, 1]),
        ([0.25, 0.25, 0.25], "uniform", [4, 4, 4]),
        ([0.25, 0.5, 1], "stratified", [4, 2, 1]),
    ],
)
def test_weights_are_one_over_the_inclusion_probability(
    calibrate, tmp_path, rubric, ten, chances, design, weights
):
    rows = [label(f"t{n}", rubric, "alpha", inclusion_probability=p) for n, p in enumerate(chances)]
    made, out = calibrate(ten, rows)
    assert made["labels"]["design"] == design
    assert [one["weight"] for one in made["joined"]] == weights
    assert ("treated as a uniform random sample" in out) == (design == "unknown")


def test_weights_that_do_not_add_up_are_said(calibrate, tmp_path, rubric, ten):
    """4 labels at 1/4 stand for 16 traces, and the run has 10."""
    rows = [label(f"t{n}", rubric, "alpha", inclusion_probability=0.25) for n in range(4)]
    assert "add up to 16 traces" in calibrate(ten, rows)[1]


def test_missing_labels_of_a_uniform_sample_under_final(calibrate, tmp_path, rubric, ten):
    """Of 10 traces 8 were sampled, and 4 have labels: each represents 10/4."""
    sampled = {f"t{n}": "" for n in range(8)}
    strata = {"": SampledStratum(10, 8)}
    design = Design("faults", rubric.sha256, None, "test", "s", 0.3, 0, strata, sampled)
    write_design(tmp_path / "d.json", design)
    rows = [label(f"t{n}", rubric, "alpha", split="test") for n in range(4)]
    made, out = calibrate(ten, labels_of(tmp_path, *rows), "--final", "--design", "d.json")
    assert [trace["weight"] for trace in made["joined"]] == [2.5] * 4
    assert "4 drawn traces without a label" in out
    assert "(all 4/8)" in out


# Clusters


@pytest.mark.parametrize(
    ("attributes", "names", "expected"),
    [
        ({"project": "p", "task": "7"}, ("project", "task"), "p/7"),
        ({"task": "7"}, ("project", "task"), '[null, "7"]'),
        ({"other": "7"}, ("project", "task"), None),
        ({"project": "p", "task": "7"}, (), None),
        ({"project": "a/b", "task": "c"}, ("project", "task"), '["a/b", "c"]'),
    ],
)
def test_the_cluster_of_a_trace(attributes, names, expected):
    assert find_cluster(attributes, names) == expected


# Refused, and no look


TEST = {"split": "test"}
ANN, BOB = {"annotator": "ann"}, {"annotator": "bob"}
REFUSED = {
    "several annotators": ([("t0", "alpha", ANN), ("t1", "alpha", BOB)], (), "ann, bob"),
    "no such annotator": ([("t0", "alpha", ANN)], ("--annotator", "zoe"), "zoe: no labels"),
    "a probability is missing": (
        [("t0", "alpha", {"inclusion_probability": 0.5}), ("t1", "alpha", {})],
        (),
        "no inclusion probability for 't1', where other labels have one (1 of 2",
    ),
    "several rounds": (
        [(f"t{n}", "alpha", {"inclusion_probability": 0.5, "design": f"r{n}"}) for n in (0, 1)],
        (),
        "--design",
    ),
    "another rubric": ([("t0", "alpha", {"rubric": "other"})], (), "other"),
    "no overlap": (
        [("gone", "alpha", {}), ("passed", "alpha", {})],
        (),
        "labels: 1 missing, 1 skipped); the first is 'gone' (",
    ),
    "only test labels": ([(f"t{n}", "alpha", TEST) for n in (0, 1)], (), "2 labels"),
    "no test label": ([("t0", "alpha", {"split": "dev"})], ("--final",), "--final"),
    "a split is missing": ([("t0", "alpha", TEST), ("t1", "alpha", {})], (), "no split"),
    "no such split": ([("t0", "alpha", {"split": "valid"})], (), "dev"),
    "a corpus from one split": (
        [("t0", "alpha", TEST)],
        ("--final", "--population", "corpus"),
        "annotate sample --split all",
    ),
    "no such code": ([("t0", "alpha", {}), ("t1", "delta", {})], (), "delta"),
    "no design": ([("t0", "alpha", {})], ("--design", "nowhere.json"), "nowhere.json"),
    "no other run": ([("t0", "alpha", {})], ("--against", "nowhere"), "nowhere"),
    "the run itself": ([("t0", "alpha", {})], ("--against", "run"), "the run itself"),
    "no threshold": ([("t0", "alpha", {})], ("--min-agreement", "nan"), "--min-agreement"),
}


@pytest.mark.parametrize(("rows", "options", "word"), REFUSED.values(), ids=REFUSED)
def test_labels_that_cannot_be_used_are_refused_and_no_look_is_noted(
    annotate_cli, tmp_path, rubric, ten, rows, options, word
):
    file = labels_of(tmp_path, *(label(trace, rubric, code) | more for trace, code, more in rows))
    done = annotate_cli("calibrate", "-v", ten, "--labels", file, *options)
    said_in_words(done)
    assert word in done.err
    assert not (tmp_path / "labels.jsonl.looks.jsonl").exists()


@pytest.mark.parametrize(
    ("attributes", "cluster", "clusters"),
    [
        ("p0 p0 p1 p1", "project,task", ["p/0", "p/0", "p/1", "p/1"]),
        ("p0 p0 p1 p1", "task", ["0", "0", "1", "1"]),
        ("p0 p0 p1 p1", "none", [None] * 4),
        # A trace that tells no task is a cluster of its own.
        ("p0 p0 - -", "task", ["0", "0", "trace:t2", "trace:t3"]),
    ],
)
def test_clusters_come_from_the_run(calibrate, tmp_path, rubric, attributes, cluster, clusters):
    traces = [
        said(f"t{n}", "alpha", **({"project": "p", "task": one[1]} if one != "-" else {}))
        for n, one in enumerate(attributes.split())
    ]
    run = make_run(tmp_path / "run", rubric, traces)
    file = labels_of(tmp_path, *(label(f"t{n}", rubric, "alpha") for n in range(4)))
    made, out = calibrate(run, file, "--cluster", cluster)
    assert [one["cluster"] for one in made["joined"]] == clusters
    number = None if cluster == "none" else len(set(clusters))
    assert made["clusters"] == number
    assert made["agreement"]["observed"]["inputs"].get("clusters") == number
    # The traces do tell their task: it was the user who did not want it.
    assert "No trace tells its task" not in out
